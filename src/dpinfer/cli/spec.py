"""A spec, a TOML file or options of the command line or both (options win); data, budget, model of it.

Every key is known, of the right kind, and named in errors as the user wrote it: ``[model] knee`` or
``--knee``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from glob import has_magic
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

import dpinfer as dp
from dpinfer.cli.errors import remark
from dpinfer.errors import BudgetError, InputError
from dpinfer.estimators.aliases import HERE, IN_OPTIONS, IN_SPECS, answer
from dpinfer.fit.choose import TARGETS
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.fit.stepped import ASKED, EARLIER, FORMER, GONE
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import Budget
from dpinfer.schema.columns import Wanted, did_you_mean
from dpinfer.schema.formula import parse
from dpinfer.schema.toml import read_toml

if TYPE_CHECKING:
    from dpinfer.estimators.models import LinearModel

Options = Mapping[tuple[str, str], Any]
"""Values by section and key; None where an option was not given."""

_Rule = tuple[str, Callable[[Any], bool]]  # in words, and as a test


def _one_of(words: Iterable[str], also: Iterable[str] = ()) -> _Rule:
    """One of some words; those in ``also`` are taken, too, but not told of."""
    offered = tuple(words)
    taken = (*offered, *also)
    return " or ".join(f'"{word}"' for word in offered), lambda value: value in taken


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def _positive(value: Any) -> bool:
    return _number(value) and 1e-20 <= value <= 1e20


def _three(value: Any) -> bool:
    return type(value) is list and len(value) == 3 and all(map(_positive, value))


_TEXT: _Rule = "text in quotes", _text
_FILE: _Rule = "a path in quotes", _text
_FORMULA: _Rule = (
    "text in quotes",
    lambda value: isinstance(value, str) and bool(value.strip()),
)  # may have several lines
_FLAG: _Rule = "true or false", lambda value: isinstance(value, bool)
_TRUE: _Rule = "true, or left out", lambda value: value is True
_COUNT: _Rule = (
    "a whole number from 1 to 100 million",
    lambda value: type(value) is int and 1 <= value <= 10**8,
)
_SEED: _Rule = "a whole number, 0 or more", lambda value: type(value) is int and value >= 0
_POSITIVE: _Rule = "a number above 0 (1e-20 to 1e20)", _positive
_NOT_NEGATIVE: _Rule = (
    "0 or a number above (to 1e20)",
    lambda value: _number(value) and 0 <= value <= 1e20,
)
_INSIDE: _Rule = (
    "a number strictly between 0 and 1",
    lambda value: _number(value) and 0 < value < 1,
)
_LEVEL: _Rule = (
    "a number between 0 and 1, at least 0.5",
    lambda value: _number(value) and 0.5 <= value < 1,
)
_SHARES: _Rule = "three positive numbers: [2, 1, 1]", _three
RULES: dict[str, dict[str, _Rule]] = {
    "data": {
        "path": _FILE,
        "schema": _FILE,
        "formula": _FORMULA,
        "dataset": _one_of(["rand_hie"]),
    },
    "model": {
        "loss": _one_of(HERE),
        "knee": _POSITIVE,
        "quantile": _INSIDE,
        "bandwidth": _POSITIVE,
        "penalty": _NOT_NEGATIVE,
        "target": _one_of(TARGETS, also=FORMER),  # the fit says what became of the former ones
        "tail": _one_of(["balanced", "cautious", "all"]),
        "exposure": _TEXT,
    },
    "privacy": {
        "epsilon": _POSITIVE,
        "delta": _INSIDE,
        "rho": _POSITIVE,
        "none": _TRUE,
        "mechanism": _one_of(["objective", "output"]),
        "shares": _SHARES,
        "neighbours": _one_of(["replace", "add-remove", "replace-unit", "add-remove-unit"]),
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


@dataclass(frozen=True)
class Spec:
    """The sections, where paths in a file are relative to, and which keys came as options."""

    sections: Mapping[str, dict[str, Any]]
    folder: Path | None = None
    options: frozenset[tuple[str, str]] = frozenset()

    def __getitem__(self, section: str) -> dict[str, Any]:
        return self.sections[section]

    def optional(self, section: str, key: str) -> bool:
        """Whether a key came as an option, or would have to."""
        return self.folder is None or (section, key) in self.options

    def place(self, section: str, key: str) -> str:
        """A key as the user would write it."""
        if self.optional(section, key):
            return _OPTIONS.get((section, key), f"--{key}")
        return f"[{section}] {key}"

    def path(self, section: str, key: str) -> Path:
        """The path under a key: relative to the folder of the spec, or to the current one for an
        option.
        """
        path = Path(self[section][key])
        if self.folder is None or self.optional(section, key):
            return path
        return self.folder / path

    def file(self, section: str, key: str, remedy: str = "check the path") -> Path:
        """The same, of a file that is there; a table may be a folder of files, or a pattern."""
        path = self.path(section, key)
        if _is_there(path, several=(section, key) == ("data", "path")):
            return path
        if not self.optional(section, key):
            remedy += "; a path is relative to the folder of the spec"
        raise InputError(
            f"{self.place(section, key)}: there is no file {short(self[section][key])}: {remedy}"
        )

    def exactly_one(self, section: str, keys: tuple[str, ...], example: str) -> None:
        """Refuse none and several."""
        if sum(key in self[section] for key in keys) == 1:
            return
        owner = f"[{section}] needs"
        names: Iterable[str] = keys
        if self.folder is None:
            owner = "this command needs"
            names = [self.place(section, key) for key in keys]
        raise InputError(f"{owner} exactly one of {', '.join(names)}, for example {example}")


def _is_there(path: Path, *, several: bool) -> bool:
    """Whether there is a file; or, where ``several`` will do, a folder or a pattern."""
    try:
        if several and (path.is_dir() or has_magic(str(path))):
            return True
        return path.is_file()
    except (OSError, ValueError):
        return False


def of_file(path: Path, options: Options | None = None) -> Spec:
    """The sections of a spec file, overruled by options.  A budget given by options replaces the
    file's as a whole.
    """
    name = f"the spec {str(path)!r}"
    try:
        text = path.read_text(encoding="utf-8-sig")
    except ValueError as fault:
        raise InputError(f"{name} is not valid TOML: {fault}") from None
    document = read_toml(text, name)
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
    given = _given(options or {})
    if any(("privacy", key) in given for key in _BUDGET):
        for key in _BUDGET:
            sections["privacy"].pop(key, None)
    return _overruled(Spec(sections, path.parent), given)


def of_options(options: Options) -> Spec:
    """A spec without a file."""
    return _overruled(Spec({section: {} for section in RULES}), _given(options))


def _given(options: Options) -> Options:
    return {place: value for place, value in options.items() if value is not None}


def _overruled(spec: Spec, given: Options) -> Spec:
    spec = Spec(spec.sections, spec.folder, frozenset(given))
    for (section, key), value in given.items():
        _check(spec.place(section, key), value, RULES[section][key])
        spec[section][key] = value
    return spec


def _check(place: str, value: Any, rule: _Rule) -> None:
    words, holds = rule
    if holds(value):
        return
    if rule is RULES["model"]["loss"] and isinstance(value, str):
        instead = answer(value)
        if instead is not None:
            names = IN_OPTIONS if place.startswith("--") else IN_SPECS
            raise InputError(f"{place} has no {short(value)}: {instead.sentence(names)}")
    raise InputError(f"{place} must be {words}, not {short(value)}")


def _check_name(owner: str, kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise InputError(f"{owner} has no {kind} {short(name)}: {did_you_mean(name, known)}")


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

    def columns(self, model: "LinearModel") -> list[Wanted]:
        """What the fit of a model reads: the columns of its formula, the outcome first and an exposure
        last, then ids and weights.
        """
        formula = model.asked_formula
        assert formula is not None
        response, terms = parse(formula, self.schema)
        return [*response.columns, *terms.columns, *self.schema.unit.columns]


def schema_of(spec: Spec) -> "dp.Schema":
    """The schema that a spec names."""
    return dp.Schema.read(spec.file("data", "schema", "draft one with `dpinfer schema init TABLE`"))


def data_of(spec: Spec) -> Data:
    """The table, schema and formula of a spec."""
    given = spec["data"]
    if spec.folder is not None:
        spec.exactly_one("data", ("path", "dataset"), 'dataset = "rand_hie"')
    for key, example in (("schema", "schema.toml"), ("formula", "y ~ a + b")):
        if "path" in given and key not in given:
            shown = f'{key} = "{example}"'
            if spec.folder is None:
                shown = f'--{key} "{example}"'
            raise InputError(
                f"{spec.place('data', 'path')} needs {key} beside it, for example {shown}"
            )
    schema = schema_of(spec) if "schema" in given else None
    if "path" not in given:
        bundled = dp.datasets.rand_hie()
        return Data(bundled.table, schema or bundled.schema, given.get("formula", bundled.formula))
    assert schema is not None
    return Data(spec.file("data", "path"), schema, given["formula"])


def budget_of(spec: Spec) -> Total | None:
    """The budget that a spec asks for; None for noise off."""
    if spec.folder is None:
        spec.exactly_one("privacy", ("epsilon", "rho"), "--epsilon 1 --delta 1e-6")
    else:
        spec.exactly_one("privacy", ("epsilon", "rho", "none"), "epsilon = 1.0 and delta = 1e-6")
    given = spec["privacy"]
    if "delta" in given and "epsilon" not in given:
        raise BudgetError(
            f"{spec.place('privacy', 'delta')} goes with epsilon: give both, or drop delta"
        )
    if "none" in given:
        return None
    if "rho" in given:
        return dp.ZCDP(given["rho"])
    if "delta" in given:
        return dp.ApproxDP(given["epsilon"], given["delta"])
    return dp.PureDP(given["epsilon"])


def plan_of(spec: Spec) -> dp.Plan:
    """The default plan of the budget, but for the mechanism and the shares that are given."""
    budget: Budget = budget_of(spec) or dp.NoPrivacy()
    plan = default_plan(budget)
    given = spec["privacy"]
    if given.get("mechanism") == "objective":
        plan = replace(plan, mechanism=dp.ObjectivePerturbation())
    if given.get("mechanism") == "output":
        plan = replace(plan, mechanism=dp.OutputPerturbation())
    if "shares" in given:
        first, second, third = budget.split(*given["shares"])
        plan = replace(plan, estimate=first, hessian=second, covariance=third)
    return plan


def model_of(spec: Spec, data: Data, *, study: bool = False) -> "LinearModel":
    """The estimator that a spec asks for, with nothing booked and nothing read; a study may do
    without privacy.
    """
    loss = spec["model"].get("loss", "logistic")
    options = {key: value for key, value in spec["model"].items() if key != "loss"}
    _check_keys(spec, loss, options)
    _check_target(spec, loss, options.get("target"))
    if options.get("target") in EARLIER:
        remark(f'{spec.place("model", "target")} "{options["target"]}" is now called "{ASKED}"')
        options["target"] = ASKED
    if "none" in spec["privacy"] and not study:
        raise BudgetError("[privacy] none is for studies: a fit needs epsilon or rho")
    budget = budget_of(spec) or dp.NoPrivacy()
    _check_budget(loss, options.get("target"), budget)
    privacy: dict[str, Any] = {"budget": budget}
    if {"mechanism", "shares"} & set(spec["privacy"]):
        privacy = {"plan": plan_of(spec)}
    privacy["neighbours"] = spec["privacy"].get("neighbours")
    estimator = getattr(dp, HERE[loss].name)
    model: LinearModel = estimator(data.formula, schema=data.schema, **options, **privacy)
    return model


def _check_keys(spec: Spec, loss: str, options: Mapping[str, Any]) -> None:
    """Refuse keys of another loss."""
    for key in options:
        owners = [name for name, face in HERE.items() if key in face.keys]
        if owners and loss not in owners:
            raise _belongs(spec.place("model", key), owners, loss)
    for key in ("mechanism", "shares"):
        if key in spec["privacy"] and not HERE[loss].penalised:
            raise InputError(
                f"{spec.place('privacy', key)} is for losses with a penalty, not for {loss}: drop it"
            )


def _check_target(spec: Spec, loss: str, target: str | None) -> None:
    """Refuse targets of another loss; what else is wrong with one, the model says."""
    if target == GONE:
        raise InputError(
            f'{spec.place("model", "target")} "{target}" is gone: "{ASKED}" answers the same question, the ordinary '
            "coefficients of all columns, with far shorter intervals; leave the target out"
        )
    if target in (None, ASKED, *EARLIER):
        return
    owners = [name for name, face in HERE.items() if target in face.targets]
    if loss not in owners:
        raise _belongs(f'{spec.place("model", "target")} "{target}"', owners, loss)


def _check_budget(loss: str, target: str | None, budget: Budget) -> None:
    """Refuse a budget that cannot pay for Gaussian noise where a fit has no other."""
    if isinstance(budget, dp.ZCDP | dp.ApproxDP):
        return
    if not HERE[loss].penalised:
        raise BudgetError(
            f"the loss {loss} needs Gaussian noise: give rho, or epsilon with delta beside it"
        )
    if target == ASKED and target in HERE[loss].targets:
        raise BudgetError(
            f'the target "{ASKED}" needs Gaussian noise: give rho, or epsilon with delta beside it, or ask for the '
            'target "penalised"'
        )


def _belongs(what: str, owners: list[str], loss: str) -> InputError:
    return InputError(
        f"{what} belongs to the loss {' or '.join(owners)}, not to {loss}: set that loss, or drop it"
    )
