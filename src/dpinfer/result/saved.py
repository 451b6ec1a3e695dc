"""A result or a description as a JSON document and back."""

import json
import math
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

import numpy as np

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.inference.error_laws import BiasedNormal, ErrorLaw
from dpinfer.inference.joint import Joint, VarianceTerm
from dpinfer.numerics.noise_laws import Gaussian, SphericalLaplace
from dpinfer.persistence import FileNames
from dpinfer.privacy import entries
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result.column_figures import Figure, Figures
from dpinfer.result.estimates import Alternatives, Estimates
from dpinfer.result.question import Question
from dpinfer.result.statements import NOT_REPORTED, Band, Geometry, Model, Privacy, Words
from dpinfer.schema.columns import column_of, derived_entry, derived_of, entry_of
from dpinfer.schema.unit import Unit

FORMAT = "dpinfer.FitResult"
VERSION = 5
DESCRIBED = "dpinfer.Description"
DESCRIBED_VERSION = 1
_LEVEL = 0.95  # of the intervals that a file shows
_NAMES = entries.NAMES | FileNames(
    {
        "Alternatives": Alternatives,
        "Band": Band,
        "BiasedNormal": BiasedNormal,
        "ErrorLaw": ErrorLaw,
        "Gaussian": Gaussian,
        "Geometry": Geometry,
        "Joint": Joint,
        "Model": Model,
        "NoPrivacy": NoPrivacy,
        "Privacy": Privacy,
        "Question": Question,
        "SphericalLaplace": SphericalLaplace,
        "Unit": Unit,
        "VarianceTerm": VarianceTerm,
        "Words": Words,
    },
    keys={
        Joint: {
            "prior_mean": "line",
            "prior_sd": "prior",
            "hessian": "curvature",
            "hessian_sd": "doubt",
            "curvature_correction": "bent",
            "bias_bound": "allowed",
            "tail_allowance": "longer",
            "contrasts": "lines",
            "withheld": "tail",
        },
        Unit: {"max_weight": "most_weight"},
        Band: {"pilot_coef": "line"},
        Geometry: {"pilot_coef": "line", "max_influence": "most"},
        Privacy: {"in_ledger": "booked"},
    },
)
"""The names of classes in saved results and descriptions; where a field is renamed, its key in files
stays, by an entry in ``keys``."""
_TARGETS = {"ordinary": "asked"}
"""The names of targets in saved results, where they differ; both are read."""
_OLD_PREFIXES = ("open: in the model, but ", "open: ")
"""The beginning of statuses in results of earlier versions, which are read as not reported."""


class ReplacedError(InputError):
    """A result or a description in a format of another version."""


def document(result: Estimates) -> str:
    """Write everything in a result as one JSON object.

    No number is a text: where there is none, null stands, and the status says why.  ``estimate`` is
    null for what has no interval; ``in_predictions`` has what each coefficient counts in a
    prediction.  ``reading`` is for readers without dpinfer: it follows from the rest, and is not
    read back.
    """
    question = result.question
    bare = replace(result, question=question and replace(question, columns=(), derived=()))
    fields: dict[str, Any] = persistence.encode(bare, _of_result(type(result)), null=True)
    if question is not None:  # columns as a schema writes them
        fields["question"]["columns"] = {one.name: entry_of(one) for one in question.columns}
        fields["question"]["derived"] = {one.name: derived_entry(one) for one in question.derived}
    shown = np.where(result.reported, result.estimate, np.nan)
    fields["in_predictions"] = fields["estimate"]
    fields["estimate"] = persistence.encode(shown, null=True)
    fields["model"]["target"] = _TARGETS.get(result.model.target, result.model.target)
    fields["reading"] = _reading(result)
    return json.dumps(
        {"format": FORMAT, "version": VERSION, **fields},
        ensure_ascii=False,
        indent=1,
        allow_nan=False,
    )


def _of_result(cls: type[Estimates]) -> FileNames:
    return _NAMES | FileNames({"FitResult": cls})


@np.errstate(all="ignore")
def _reading(result: Estimates) -> dict[str, Any]:
    """Return the table, both intercepts, the alternatives and the number of usable records."""
    rows = result.table(_LEVEL)
    ordinary = result.ordinary_intercept(_LEVEL)
    if ordinary is not None:
        rows.append(ordinary)
    asked = None
    if result.question is not None:
        asked = result.question.asked
    total = None
    if result.geometry is not None:
        total = persistence.encode(result.geometry.records, null=True)
    unit = result.model.unit
    total_name = f"{unit.word}_usable" if unit.equal_weights else "total_weight"
    return {
        "level": _LEVEL,
        "asked": asked,
        total_name: total,
        "coefficients": _plain(rows),
        "alternatives": _plain(result.instead_rows(_LEVEL)),
    }


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: persistence.encode(cell, null=True) for key, cell in row.items()} for row in rows]


def read(text: str, cls: type[Estimates]) -> Any:
    """Read the result of this class in a document, exact to the last bit."""
    try:
        fields = _fields(text)
        question = _question(fields["question"])
        result = persistence.decode(fields | {"question": None}, _of_result(cls))
    except ReplacedError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        raise InputError(f"this text is not a saved FitResult: {fault}") from None
    if not isinstance(result, cls):
        raise InputError("this text is not a saved FitResult")
    named = {in_file: name for name, in_file in _TARGETS.items()}
    target = named.get(result.model.target, result.model.target)
    return replace(
        result,
        question=question,
        geometry=_unlimited(result.geometry),
        model=replace(result.model, target=target),
    )


def _status(saved: str) -> str:
    """Return a saved status with today's word for what is not reported."""
    for prefix in _OLD_PREFIXES:
        if saved.startswith(prefix):
            return f"{NOT_REPORTED}: {saved.removeprefix(prefix)}"
    return saved


def _document(text: str, kind: str, version: int, word: str) -> dict[str, Any]:
    """Return the fields of a document of this kind and of today's version of its format."""
    fields: dict[str, Any] = json.loads(text)
    found = fields.pop("version") if fields.pop("format") == kind else None
    if not isinstance(found, int):
        raise KeyError(f"it is not a {kind} of version {version}")
    if found != version:
        raise ReplacedError(
            f"this {word} is of version {found} of the format, and this dpinfer reads version "
            f"{version}: read it with the dpinfer that wrote it"
        )
    return fields


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of a result in a document of today's version, as `persistence` writes them."""
    fields = _document(text, FORMAT, VERSION, "result")
    if fields["joint"] is not None:
        fields["joint"].pop("surely_longer", None)  # of an earlier version, for a status alone
    del fields["reading"]
    shown = fields["estimate"]
    counted = fields.pop("in_predictions")
    if len(shown) != len(counted) or any(
        estimate is not None and estimate != value
        for estimate, value in zip(shown, counted, strict=True)
    ):
        raise KeyError("its estimates and its in_predictions differ: it was changed")
    fields["estimate"] = counted
    fields["status"] = [_status(saved) for saved in fields.get("status", ())]
    return fields


def _unlimited(geometry: Geometry | None) -> Geometry | None:
    """Set the limit of the influence to infinity where the file has no number: JSON has no
    infinity.
    """
    if geometry is None or not np.isnan(geometry.max_influence):
        return geometry
    return replace(geometry, max_influence=np.inf)


def _question(raw: Any) -> Question | None:
    if raw is None:
        return None
    columns = tuple(column_of(name, entry) for name, entry in raw["columns"].items())
    derived = tuple(derived_of(name, entry) for name, entry in raw.get("derived", {}).items())
    fields = {
        key: persistence.decode(value, _NAMES)
        for key, value in raw.items()
        if key not in ("kind", "columns", "derived")
    }
    return Question(**fields, columns=columns, derived=derived)


def is_description(text: str) -> bool:
    """Return whether a document says that it is a description."""
    try:
        return bool(json.loads(text)["format"] == DESCRIBED)
    except (KeyError, TypeError, ValueError):
        return False


def described(description: Figures) -> str:
    """Write everything in a description as one JSON object.

    Where there is no number, null stands; what has no end is a text.
    """
    names = _NAMES | FileNames({"Description": type(description)})
    fields: dict[str, Any] = persistence.encode(replace(description, columns=(), figures=()), names)
    del fields["kind"]
    if not fields["by_label"]:  # so that earlier versions read what has no labels
        del fields["by_label"]
    fields["columns"] = {column.name: entry_of(column) for column in description.columns}
    fields["figures"] = [
        {key: _endless(value) for key, value in vars(one).items()} for one in description.figures
    ]
    head = {"format": DESCRIBED, "version": DESCRIBED_VERSION}
    return json.dumps({**head, **fields}, ensure_ascii=False, indent=1, allow_nan=False)


def _endless(value: Any) -> Any:
    """Return a value of a figure for JSON: null for no number, a text for an infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def read_described(text: str, cls: type[Figures]) -> Any:
    """Read the description of this class in a document, exact to the last bit."""
    try:
        fields = {"by_label": ""} | _document(text, DESCRIBED, DESCRIBED_VERSION, "description")
        if set(fields) != {field.name for field in fields_of(cls)}:
            raise KeyError(f"the fields of {cls.__name__}")
        columns = tuple(column_of(name, entry) for name, entry in fields.pop("columns").items())
        figures = tuple(map(_figure, fields.pop("figures")))
        given = {key: persistence.decode(value, _NAMES) for key, value in fields.items()}
        if not isinstance(given["unit"], Unit) or not isinstance(given["privacy"], Privacy):
            raise KeyError("unit and privacy")
        return cls(figures=figures, columns=columns, **given)
    except ReplacedError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        raise InputError(f"this text is not a saved Description: {fault}") from None


def _figure(raw: dict[str, Any]) -> Figure:
    numbers = {
        key: math.nan if raw[key] is None else float(raw[key])
        for key in ("estimate", "low", "high")
    }
    return Figure(**(raw | numbers | {"status": _status(raw["status"])}))
