"""A result as a JSON document and back, of every version of the format."""

import json
from dataclasses import replace
from typing import Any

import numpy as np

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.maths import noise_laws
from dpinfer.maths.error_laws import AllowedLaw, ErrorLaw
from dpinfer.maths.joint import Joint
from dpinfer.neighbours import of_sentence
from dpinfer.privacy import entries
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result.alternatives import Alternatives
from dpinfer.result.estimates import Estimates
from dpinfer.result.question import Question
from dpinfer.result.statements import Band, Geometry, Model, Privacy, Words
from dpinfer.schema.columns import column_of, entry_of
from dpinfer.schema.unit import Unit

FORMAT, VERSION = "dpinfer.FitResult", 4
_WITH_QUESTION = 3  # the first version that says what was asked
_LEVEL = 0.95  # of the intervals that a file shows
_KINDS: dict[str, type] = entries.KINDS | {
    kind.__name__: kind
    for kind in (
        ErrorLaw, AllowedLaw, Alternatives, Band, Geometry, Joint, Model, Words, Unit, Privacy,
        NoPrivacy,        noise_laws.Gaussian, noise_laws.SphericalLaplace,
    )
}  # fmt: skip


class ReplacedError(InputError):
    """A result of a procedure that is no longer there."""


def document(result: Estimates) -> str:
    """Everything in a result as one JSON object.

    No number is a text: where there is none, null stands, and the status says why.  ``estimate`` is
    null for what has no interval; ``in_predictions`` has what each coefficient counts in a
    prediction.  ``reading`` is for readers without dpinfer: it follows from the rest, and is not
    read back.
    """
    whole: dict[str, Any] = persistence.encode(result, null=True)
    if result.question is not None:  # columns as a schema writes them
        whole["question"]["columns"] = {
            column.name: entry_of(column) for column in result.question.columns
        }
    whole["in_predictions"] = whole["estimate"]
    shown = np.where(result.reported, result.estimate, np.nan)
    whole |= {"estimate": persistence.encode(shown, null=True), "reading": _reading(result)}
    return json.dumps(
        {"format": FORMAT, "version": VERSION, **whole},
        ensure_ascii=False,
        indent=1,
        allow_nan=False,
    )


@np.errstate(all="ignore")
def _reading(result: Estimates) -> dict[str, Any]:
    """The table, both intercepts, what is known instead of open lines, and the number of usable
    records.
    """
    ordinary = result.ordinary_intercept(_LEVEL)
    rows = [*result.table(_LEVEL), *([] if ordinary is None else [ordinary])]
    return {
        "level": _LEVEL,
        "asked": None if result.question is None else result.question.asked,
        f"{result.model.whom.word}_usable" if result.model.whom.whole else "total_weight": None
        if result.geometry is None
        else persistence.encode(result.geometry.records, null=True),
        "coefficients": _plain(rows),
        "alternatives": _plain(result.instead_rows(_LEVEL)),
    }


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: persistence.encode(cell, null=True) for key, cell in row.items()} for row in rows]


def read(text: str, cls: type[Estimates]) -> Any:
    """The result of this class in a document, exact to the last bit."""
    try:
        saved = json.loads(text)
        kind, version = saved.pop("format"), saved.pop("version")
        if kind != FORMAT or version not in range(1, VERSION + 1):
            raise KeyError(f"it is not a {FORMAT} of version {VERSION}")
        if version < VERSION and saved["geometry"] is not None:
            raise ReplacedError(
                f"this result is of version {version} and was fitted by a procedure that this version has replaced: "
                "read it with the dpinfer that wrote it"
            )
        saved = _renewed(saved, version)
        question = _question(saved["question"])
        result = persistence.decode(saved | {"question": None}, _KINDS | {cls.__name__: cls})
    except ReplacedError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as fault:
        raise InputError(f"this text is not a saved FitResult: {fault}") from None
    if not isinstance(result, cls):
        raise InputError("this text is not a saved FitResult")
    return replace(result, question=question, geometry=_unlimited(result.geometry))


def _unlimited(geometry: Geometry | None) -> Geometry | None:
    """JSON has no infinity: where no number stands for the largest influence, there is no limit."""
    if geometry is None or not np.isnan(geometry.most):
        return geometry
    return replace(geometry, most=np.inf)


def _question(raw: Any) -> Question | None:
    if raw is None:
        return None
    fields = {
        key: persistence.decode(value, {})
        for key, value in raw.items()
        if key not in ("kind", "columns")
    }
    return Question(
        **fields, columns=tuple(column_of(name, entry) for name, entry in raw["columns"].items())
    )


def _renewed(saved: dict[str, Any], version: int) -> dict[str, Any]:
    """A document in the form of the fields.

    Before version 3 there was neither a band nor a question, and the estimates were those of
    predictions; version 1 had events with flags and neighbours in words.
    """
    if version < _WITH_QUESTION:
        saved = {**saved, "band": None, "question": None}
    else:
        shown, used = saved["estimate"], saved.pop("in_predictions")
        if len(shown) != len(used) or any(
            a is not None and a != b for a, b in zip(shown, used, strict=True)
        ):
            raise KeyError("its estimates and its in_predictions differ: it was changed")
        saved = {**saved, "estimate": used}
        del saved["reading"]
    if version > 1:
        return saved
    privacy = saved["privacy"]
    events = [persistence.encode(entries.past_event(event)) for event in privacy["events"]]
    privacy |= {"events": events, "neighbours": of_sentence(privacy["neighbours"]).value}
    return saved
