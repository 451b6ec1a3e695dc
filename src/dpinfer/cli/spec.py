"""A spec: a TOML file, options of the command line, or both (options win); and the data that it
asks for.

Every key is known, of the right kind, and named in errors as the user wrote it: ``[model] knee`` or
``--knee``.

The budget and the model that a spec asks for.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from glob import has_magic
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

import dpinfer as dp
from dpinfer.cli.screen import remark
from dpinfer.errors import BudgetError, InputError
from dpinfer.estimators.aliases import HERE, IN_OPTIONS, IN_SPECS, answer
from dpinfer.fit.choose import WITH_PENALTY
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.fit.stepped_plan import ASKED, EARLIER, ROBUST
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import Budget
from dpinfer.schema.columns import Wanted
from dpinfer.schema.formula import parse

_Rule = tuple[str, Callable[[Any], bool]]  # in words, and as a test


def _one_of(*words: str) -> _Rule:
    return (" or ".join(f'"{word}"' for word in words), lambda value: value in words)


def _number(value: Any) -> bool:
    return type(value) in (int, float)


_TEXT = (
    "text in quotes",
    lambda value: isinstance(value, str) and bool(value.strip()) and value.isprintable(),
)
_FLAG = ("true or false", lambda value: isinstance(value, bool))
_TARGETS = _one_of("asked", "robust", "penalised", "unpenalised")
_FORMER_TARGETS = ("weighted", "mean", "unweighted")  # the fit says what became of them
_TRUE = ("true, or left out", lambda value: value is True)
_COUNT = (
    "a whole number from 1 to 100 million",
    lambda value: type(value) is int and 1 <= value <= 10**8,
)
_SEED = ("a whole number, 0 or more", lambda value: type(value) is int and value >= 0)
_POSITIVE = (
    "a number above 0 (1e-20 to 1e20)",
    lambda value: _number(value) and 1e-20 <= value <= 1e20,
)
_NOT_NEGATIVE = (
    "0 or a number above (to 1e20)",
    lambda value: _number(value) and 0 <= value <= 1e20,
)
_INSIDE = ("a number strictly between 0 and 1", lambda value: _number(value) and 0 < value < 1)
_LEVEL = (
    "a number between 0 and 1, at least 0.5",
    lambda value: _number(value) and 0.5 <= value < 1,
)
_SHARES = (
    "three positive numbers: [2, 1, 1]",
    lambda v: type(v) is list and [*map(_POSITIVE[1], v)] == [True] * 3,
)
_FILE = ("a path in quotes", _TEXT[1])
_FORMULA = (
    _TEXT[0],
    lambda value: isinstance(value, str) and bool(value.strip()),
)  # may have several lines
RULES: dict[str, dict[str, _Rule]] = {
    "data": {"path": _FILE, "schema": _FILE, "formula": _FORMULA, "dataset": _one_of("rand_hie")},
    "model": {
        "loss": _one_of("logistic", "linear", "svm", "huber", "quantile", "huber_hinge"),
        "knee": _POSITIVE,
        "quantile": _INSIDE,
        "bandwidth": _POSITIVE,
        "penalty": _NOT_NEGATIVE,
        "target": (_TARGETS[0], lambda value: _TARGETS[1](value) or value in _FORMER_TARGETS),
        "tail": _one_of("balanced", "cautious", "all"),
    },
    "privacy": {
        "epsilon": _POSITIVE,
        "delta": _INSIDE,
        "rho": _POSITIVE,
        "none": _TRUE,
        "mechanism": _one_of("objective", "output"),
        "shares": _SHARES,
        "neighbours": _one_of("replace", "add-remove", "replace-unit", "add-remove-unit"),
        "ledger": _FILE,
    },
    "output": {"folder": _FILE, "title": _TEXT, "level": _LEVEL},
    "study": {
        "replicates": _COUNT,
        "seed": _SEED,
        "level": _LEVEL,
        "device": _TEXT,
        "checkpoint": _FLAG,
    },
}
_OPTIONS = {("data", "path"): "DATA", ("output", "folder"): "--out"}
_BUDGET = ("epsilon", "delta", "rho", "none")

Options = Mapping[tuple[str, str], Any]
"""Values by section and key; None where an option was not given."""


@dataclass(frozen=True)
class Spec:
    """The sections, where paths in a file are relative to, and which keys came as options."""

    sections: Mapping[str, dict[str, Any]]
    folder: Path | None = None
    options: frozenset[tuple[str, str]] = frozenset()

    def __getitem__(self, section: str) -> dict[str, Any]:
        return self.sections[section]

    def place(self, section: str, key: str) -> str:
        """A key as the user would write it."""
        if self.folder is None or (section, key) in self.options:
            return _OPTIONS.get((section, key), f"--{key}")
        return f"[{section}] {key}"

    def path(self, section: str, key: str) -> Path:
        """The path under a key: relative to the folder of the spec, or to the current one for an
        option.
        """
        name = self[section][key]
        return (
            Path(name)
            if self.folder is None or (section, key) in self.options
            else self.folder / name
        )

    def file(self, section: str, key: str, remedy: str = "check the path") -> Path:
        """The same, of a file that is there; a table may be a folder of files, or a pattern."""
        path = self.path(section, key)
        try:
            found = path.is_file() or (
                section == "data" and key == "path" and (path.is_dir() or has_magic(str(path)))
            )
        except (OSError, ValueError):
            found = False
        if not found:
            from_file = self.place(section, key).startswith("[")
            relative = "; a path is relative to the folder of the spec" if from_file else ""
            raise InputError(
                f"{self.place(section, key)}: there is no file {short(self[section][key])}: {remedy}{relative}"
            )
        return path

    def exactly_one(self, section: str, keys: tuple[str, ...], example: str) -> None:
        """Refuse none and several."""
        if sum(key in self[section] for key in keys) != 1:
            owner = f"[{section}] needs" if self.folder is not None else "this command needs"
            names = ", ".join(
                keys if self.folder is not None else [self.place(section, key) for key in keys]
            )
            raise InputError(f"{owner} exactly one of {names}, for example {example}")


def of_file(path: Path, options: Options | None = None) -> Spec:
    """The sections of a spec file, overruled by options.  A budget given by options replaces the
    file's as a whole.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as fault:
        raise InputError(
            f"the spec {str(path)!r} is not valid TOML: {fault}{_model_twice(path)}"
        ) from None
    if isinstance(loss := document.get("model"), str):
        _check("model", loss, RULES["model"]["loss"])
        document["model"] = {"loss": loss}
    for section, entries in document.items():
        _check_name("the spec", "section", section, RULES)
        if not isinstance(entries, dict):
            raise InputError(
                f"{section} is a section of the spec: write [{section}] on a line of its own"
            )
        for key, value in entries.items():
            _check_name(f"[{section}]", "key", key, RULES[section])
            _check(f"[{section}] {key}", value, RULES[section][key])
    sections = {section: dict(document.get(section, {})) for section in RULES}
    given = {place: value for place, value in (options or {}).items() if value is not None}
    if any(("privacy", key) in given for key in _BUDGET):
        sections["privacy"] = {
            key: value for key, value in sections["privacy"].items() if key not in _BUDGET
        }
    return _overruled(Spec(sections, path.parent), given)


def _model_twice(path: Path) -> str:
    """What to do about ``model = "linear"`` with a section [model] after it, which TOML cannot
    read.
    """
    text = path.read_bytes().decode("utf-8", "replace")
    both = re.search(r"^[ \t]*model[ \t]*=", text, re.M) and re.search(
        r"^[ \t]*\[[ \t]*model[ \t]*\]", text, re.M
    )
    return "; model = stands for [model] loss =: give one of the two" if both else ""


def of_options(options: Options) -> Spec:
    """A spec without a file."""
    given = {place: value for place, value in options.items() if value is not None}
    return _overruled(Spec({section: {} for section in RULES}), given)


def _overruled(spec: Spec, given: Options) -> Spec:
    spec = Spec(spec.sections, spec.folder, frozenset(given))
    for (section, key), value in given.items():
        _check(spec.place(section, key), value, RULES[section][key])
        spec[section][key] = value
    return spec


def _check(place: str, value: Any, rule: _Rule) -> None:
    words, holds = rule
    if not holds(value):
        if rule is RULES["model"]["loss"] and isinstance(value, str) and (instead := answer(value)):
            names = IN_OPTIONS if place.startswith("--") else IN_SPECS
            raise InputError(f"{place} has no {short(value)}: {instead.sentence(names)}")
        raise InputError(f"{place} must be {words}, not {short(value)}")


def _check_name(owner: str, kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        near = get_close_matches(name, known, 1)
        remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise InputError(f"{owner} has no {kind} {short(name)}: {remedy}")


@dataclass(frozen=True, eq=False)
class Data:
    """A table, what is public about it, and the question; ``table`` is the path of a file, or the
    bundled one.
    """

    table: Any
    schema: "dp.Schema"
    formula: str

    @property
    def name(self) -> str:
        """Where the table is."""
        return str(self.table) if isinstance(self.table, Path) else "the bundled data"

    @property
    def columns(self) -> list[Wanted]:
        """What a fit reads: the columns of the formula, the outcome first, then ids and weights."""
        response, terms = parse(self.formula, self.schema)
        return [*response.columns, *terms.columns, *self.schema.unit.columns]


def data_of(spec: Spec) -> Data:
    """The table, schema and formula of a spec."""
    given = spec["data"]
    if spec.folder is not None:
        spec.exactly_one("data", ("path", "dataset"), 'dataset = "rand_hie"')
    for key, example in (("schema", "schema.toml"), ("formula", "y ~ a + b")):
        if "path" in given and key not in given:
            shown = f'{key} = "{example}"' if spec.folder is not None else f'--{key} "{example}"'
            raise InputError(
                f"{spec.place('data', 'path')} needs {key} beside it, for example {shown}"
            )
    schema = None
    if "schema" in given:
        schema = dp.Schema.read(
            spec.file("data", "schema", "draft one with `dpinfer schema init TABLE`")
        )
    if "path" not in given:
        bundled = dp.datasets.rand_hie()
        return Data(bundled.table, schema or bundled.schema, given.get("formula", bundled.formula))
    assert schema is not None
    return Data(spec.file("data", "path"), schema, given["formula"])


if TYPE_CHECKING:
    from dpinfer.estimators.base import LinearModel

_KEYS = {
    "logistic": ("penalty",),
    "linear": ("tail",),
    "svm": ("penalty", "knee"),
    "huber": ("penalty", "knee"),
    "quantile": ("penalty", "quantile", "bandwidth"),
}


def budget_of(spec: Spec) -> Total | None:
    """The budget that a spec asks for; None for noise off."""
    alone = spec.folder is None
    spec.exactly_one(
        "privacy", ("epsilon", "rho") if alone else ("epsilon", "rho", "none"), _EXAMPLE[alone]
    )
    given = spec["privacy"]
    if "delta" in given and "epsilon" not in given:
        raise BudgetError(
            f"{spec.place('privacy', 'delta')} goes with epsilon: give both, or drop delta"
        )
    if "none" in given:
        return None
    if "rho" in given:
        return dp.ZCDP(given["rho"])
    return (
        dp.ApproxDP(given["epsilon"], given["delta"])
        if "delta" in given
        else dp.PureDP(given["epsilon"])
    )


_EXAMPLE = ("epsilon = 1.0", "--epsilon 1 --delta 1e-6")


def plan_of(spec: Spec) -> dp.Plan:
    """The default plan of the budget, but for the mechanism and the shares that are given."""
    budget: Budget = budget_of(spec) or dp.NoPrivacy()
    plan, given = default_plan(budget), spec["privacy"]
    if "mechanism" in given:
        objective = given["mechanism"] == "objective"
        plan = replace(
            plan, mechanism=dp.ObjectivePerturbation() if objective else dp.OutputPerturbation()
        )
    if "shares" in given:
        first, second, third = budget.split(*given["shares"])
        plan = replace(plan, estimate=first, hessian=second, covariance=third)
    return plan


def model_of(spec: Spec, data: Data, *, study: bool = False) -> "LinearModel":
    """The estimator that a spec asks for, with nothing booked and nothing read; a study may do
    without privacy.
    """
    loss = spec["model"].get("loss", "logistic").replace("huber_hinge", "svm")
    options = {key: value for key, value in spec["model"].items() if key != "loss"}
    _check_keys(spec, loss, options)
    _check_target(spec, loss, options.get("target"))
    if options.get("target") in EARLIER:
        remark(f'{spec.place("model", "target")} "{options["target"]}" is now called "{ASKED}"')
        options["target"] = ASKED
    if "none" in spec["privacy"] and not study:
        raise BudgetError("[privacy] none is for studies: a fit needs epsilon or rho")
    budget = budget_of(spec) or dp.NoPrivacy()
    if loss == "linear" and not isinstance(budget, dp.ZCDP | dp.ApproxDP):
        raise BudgetError(
            "the loss linear needs Gaussian noise: give rho, or epsilon with delta beside it"
        )
    if (
        loss == "logistic"
        and options.get("target") == ASKED
        and not isinstance(budget, dp.ZCDP | dp.ApproxDP)
    ):
        raise BudgetError(
            f'the target "{ASKED}" needs Gaussian noise: give rho, or epsilon with delta beside it, or ask for the '
            'target "penalised"'
        )
    plain = not {"mechanism", "shares"} & set(spec["privacy"])
    privacy: dict[str, Any] = {"budget": budget} if plain else {"plan": plan_of(spec)}
    privacy["neighbours"] = spec["privacy"].get("neighbours")
    model: LinearModel = getattr(dp, HERE[loss])(
        data.formula, schema=data.schema, **options, **privacy
    )
    return model


def _check_keys(spec: Spec, loss: str, options: Mapping[str, Any]) -> None:
    """Refuse keys of another loss."""
    for key in options:
        owners = [name for name, keys in _KEYS.items() if key in keys]
        if owners and loss not in owners:
            raise _belongs(spec.place("model", key), owners, loss)
    for key in ("mechanism", "shares"):
        if loss == "linear" and key in spec["privacy"]:
            raise InputError(
                f"{spec.place('privacy', key)} is for losses with a penalty, not for linear: drop it"
            )


def _check_target(spec: Spec, loss: str, target: str | None) -> None:
    """Least squares alone has the robust target, and no penalty; what else is wrong with one, the
    model says.
    """
    if target == "unweighted":
        raise InputError(
            f'{spec.place("model", "target")} "{target}" is gone: "{ASKED}" answers the same question, the ordinary '
            "coefficients of all columns, with far shorter intervals; leave the target out"
        )
    owners = [loss]
    if target == ROBUST:
        owners = ["linear"]
    if target in WITH_PENALTY:
        owners = [name for name in HERE if name != "linear"]
    if loss in owners:
        return
    raise _belongs(f'{spec.place("model", "target")} "{target}"', owners, loss)


def _belongs(what: str, owners: list[str], loss: str) -> InputError:
    return InputError(
        f"{what} belongs to the loss {' or '.join(owners)}, not to {loss}: set that loss, or drop it"
    )
