"""The table, schema, budget, plan and model that a spec asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpinfer.asking.spec import Spec
from dpinfer.errors import BudgetError, InputError, one_of_two
from dpinfer.estimators.aliases import HERE
from dpinfer.fit.penalised_plan import (
    ObjectivePerturbation,
    OutputPerturbation,
    Plan,
    default_plan,
)
from dpinfer.fit.step_plan import ORDINARY, TARGET_ALIASES
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP
from dpinfer.schema.columns import Wanted
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema

if TYPE_CHECKING:
    from dpinfer.estimators.models import LinearModel


@dataclass(frozen=True, eq=False)
class Data:
    """A table, its schema and a formula; ``table`` is the path of a file, or the bundled table."""

    table: Any
    schema: Schema
    formula: str

    @property
    def name(self) -> str:
        return str(self.table) if isinstance(self.table, Path) else "the bundled data"

    def columns(self, model: "LinearModel") -> list[Wanted]:
        """Return the columns that the fit of a model reads: those of its formula, the outcome first and
        an exposure last, then ids and weights.
        """
        formula = model.asked_formula
        assert formula is not None
        response, terms = parse(formula, self.schema)
        return [*response.columns, *terms.columns, *self.schema.unit.columns]


def schema_of(spec: Spec) -> Schema:
    """Read the schema that a spec names."""
    return Schema.read(spec.file("data", "schema", "draft one with `dpinfer schema init TABLE`"))


def data_of(spec: Spec) -> Data:
    """Return the table, schema and formula of a spec."""
    given = spec["data"]
    if spec.folder is not None:
        spec.exactly_one("data", ("path", "dataset"), 'dataset = "rand_hie"')
    for key, example in (("schema", "schema.toml"), ("formula", "y ~ a + b")):
        if "path" in given and key not in given:
            shown = f'{key} = "{example}"'
            if spec.folder is None:
                shown = f'--{key} "{example}"'
            raise InputError(
                f"{spec.name_of('data', 'path')} needs {key} beside it, for example {shown}"
            )
    schema = schema_of(spec) if "schema" in given else None
    if "path" not in given:
        from dpinfer import datasets  # noqa: PLC0415  (loads pandas)

        bundled = datasets.rand_hie()
        return Data(bundled.table, schema or bundled.schema, given.get("formula", bundled.formula))
    assert schema is not None
    return Data(spec.file("data", "path"), schema, given["formula"])


def budget_of(spec: Spec) -> Total | None:
    """Return the budget that a spec asks for; None for no noise."""
    if spec.folder is None:
        spec.exactly_one("privacy", ("epsilon", "rho"), "--epsilon 1 --delta 1e-6")
    else:
        spec.exactly_one("privacy", ("epsilon", "rho", "none"), "epsilon = 1.0 and delta = 1e-6")
    given = spec["privacy"]
    if "delta" in given and "epsilon" not in given:
        raise BudgetError(
            f"{spec.name_of('privacy', 'delta')} goes with epsilon: give both, or drop delta"
        )
    if "none" in given:
        return None
    if "rho" in given:
        return ZCDP(given["rho"])
    if "delta" in given:
        return ApproxDP(given["epsilon"], given["delta"])
    return PureDP(given["epsilon"])


def adjacency_of(spec: Spec) -> str | None:
    """Return the adjacency that a spec asks for, under either of its names."""
    given = spec["privacy"]
    names = [spec.name_of("privacy", key) for key in ("adjacency", "neighbours")]
    return one_of_two(names[0], given.get("adjacency"), names[1], given.get("neighbours"))


def plan_of(spec: Spec) -> Plan:
    """Return the default plan of the budget, with the mechanism and the shares that are given."""
    budget: Budget = budget_of(spec) or NoPrivacy()
    plan = default_plan(budget)
    given = spec["privacy"]
    if given.get("mechanism") == "objective":
        plan = replace(plan, mechanism=ObjectivePerturbation())
    if given.get("mechanism") == "output":
        plan = replace(plan, mechanism=OutputPerturbation())
    if "shares" in given:
        first, second, third = budget.split(*given["shares"])
        plan = replace(plan, estimate=first, hessian=second, covariance=third)
    return plan


def model_of(spec: Spec, data: Data, *, study: bool = False) -> "LinearModel":
    """Return the estimator that a spec asks for; nothing is booked and nothing is read.

    A ``study`` may do without privacy.
    """
    from dpinfer.estimators import models  # noqa: PLC0415  (loads scikit-learn)

    loss = spec["model"].get("loss", "logistic")
    options = {key: value for key, value in spec["model"].items() if key != "loss"}
    _check_keys(spec, loss, options)
    if options.get("target") in TARGET_ALIASES:
        options["target"] = TARGET_ALIASES[options["target"]]
    _check_target(spec, loss, options.get("target"))
    if "none" in spec["privacy"] and not study:
        raise BudgetError("[privacy] none is for studies: a fit needs epsilon or rho")
    budget = budget_of(spec) or NoPrivacy()
    _check_budget(loss, options.get("target"), budget)
    privacy: dict[str, Any] = {"budget": budget}
    if {"mechanism", "shares"} & set(spec["privacy"]):
        privacy = {"plan": plan_of(spec)}
    privacy["adjacency"] = adjacency_of(spec)
    estimator = getattr(models, HERE[loss].name)
    model: LinearModel = estimator(data.formula, schema=data.schema, **options, **privacy)
    return model


def _check_keys(spec: Spec, loss: str, options: Mapping[str, Any]) -> None:
    """Raise `InputError` for keys of another loss."""
    for key in options:
        owners = [name for name, face in HERE.items() if key in face.keys]
        if owners and loss not in owners:
            raise _belongs(spec.name_of("model", key), owners, loss)
    for key in ("mechanism", "shares"):
        if key in spec["privacy"] and not HERE[loss].penalised:
            raise InputError(
                f"{spec.name_of('privacy', key)} is for losses with a penalty, not for {loss}: drop it"
            )


def _check_target(spec: Spec, loss: str, target: str | None) -> None:
    """Raise `InputError` for a target of another loss; the model checks the rest."""
    if target in (None, ORDINARY):
        return
    owners = [name for name, face in HERE.items() if target in face.targets]
    if loss not in owners:
        raise _belongs(f'{spec.name_of("model", "target")} "{target}"', owners, loss)


def _check_budget(loss: str, target: str | None, budget: Budget) -> None:
    """Raise `BudgetError` for a pure budget where a fit has Gaussian noise only."""
    if isinstance(budget, ZCDP | ApproxDP):
        return
    if not HERE[loss].penalised:
        raise BudgetError(
            f"the loss {loss} needs Gaussian noise: give rho, or epsilon with delta beside it"
        )
    if target == ORDINARY and target in HERE[loss].targets:
        raise BudgetError(
            f'the target "{ORDINARY}" needs Gaussian noise: give rho, or epsilon with delta beside it, or ask for the '
            'target "penalised"'
        )


def _belongs(key: str, owners: list[str], loss: str) -> InputError:
    return InputError(
        f"{key} belongs to the loss {' or '.join(owners)}, not to {loss}: set that loss, or drop it"
    )
