"""From a spec to a budget, a plan, a model and the data it asks for."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpinfer as dp
from dpinfer.cli.spec import Spec
from dpinfer.data import files
from dpinfer.data.columns import Column
from dpinfer.data.formula import parse
from dpinfer.data.table import misfit, open_table
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.plan import default_plan
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import Budget

if TYPE_CHECKING:
    from dpinfer.estimators.base import LinearModel

_MODELS = {
    "logistic": ("LogisticRegression", ()),
    "svm": ("LinearSVC", ("knee",)),
    "huber_hinge": ("LinearSVC", ("knee",)),
    "huber": ("HuberRegression", ("knee",)),
    "quantile": ("QuantileRegression", ("quantile", "bandwidth")),
}


def budget_of(spec: Spec) -> Total | None:
    """The budget that a spec asks for; None for noise off."""
    alone = spec.folder is None
    spec.exactly_one("privacy", ("epsilon", "rho") if alone else ("epsilon", "rho", "none"), _EXAMPLE[alone])
    given = spec["privacy"]
    if "delta" in given and "epsilon" not in given:
        raise BudgetError(f"{spec.place('privacy', 'delta')} goes with epsilon: give both, or drop delta")
    if "none" in given:
        return None
    if "rho" in given:
        return dp.ZCDP(given["rho"])
    return dp.ApproxDP(given["epsilon"], given["delta"]) if "delta" in given else dp.PureDP(given["epsilon"])


_EXAMPLE = ("epsilon = 1.0", "--epsilon 1 --delta 1e-6")


def plan_of(spec: Spec) -> dp.Plan:
    """The default plan of the budget, but for the mechanism and the shares that are given."""
    budget: Budget = budget_of(spec) or dp.NoPrivacy()
    plan, given = default_plan(budget), spec["privacy"]
    if "mechanism" in given:
        objective = given["mechanism"] == "objective"
        plan = replace(plan, mechanism=dp.ObjectivePerturbation() if objective else dp.OutputPerturbation())
    if "shares" in given:
        first, second, third = budget.split(*given["shares"])
        plan = replace(plan, estimate=first, hessian=second, covariance=third)
    return plan


@dataclass(frozen=True, eq=False)
class Data:
    """A table, what is public about it, and the question; ``table`` is the path of a file, or the bundled one."""

    table: Any
    schema: "dp.Schema"
    formula: str

    @property
    def name(self) -> str:
        """Where the table is."""
        return str(self.table) if isinstance(self.table, Path) else "the bundled data"

    @property
    def columns(self) -> list[Column]:
        """The columns that the formula needs, the outcome first."""
        outcome, terms = parse(self.formula, self.schema)
        return [outcome, *terms.columns]

    def shape(self) -> int:
        """The number of records, after checking that names and types fit the schema; no value is looked at."""
        blank = files.blank(self.table, self.columns) if isinstance(self.table, Path) else self.table
        table = open_table(blank, ())
        for column in self.columns:
            fault = misfit(table, column)
            if fault:
                raise InputError(fault)
        return files.count(self.table, self.columns) if isinstance(self.table, Path) else len(self.table)


def data_of(spec: Spec) -> Data:
    """The table, schema and formula of a spec."""
    given = spec["data"]
    if spec.folder is not None:
        spec.exactly_one("data", ("path", "dataset"), 'dataset = "rand_hie"')
    for key, example in (("schema", "schema.toml"), ("formula", "y ~ a + b")):
        if "path" in given and key not in given:
            shown = f'{key} = "{example}"' if spec.folder is not None else f'--{key} "{example}"'
            raise InputError(f"{spec.place('data', 'path')} needs {key} beside it, for example {shown}")
    schema = None
    if "schema" in given:
        schema = dp.Schema.read(spec.file("data", "schema", "draft one with `dpinfer schema init TABLE`"))
    if "path" not in given:
        bundled = dp.datasets.rand_hie()
        return Data(bundled.table, schema or bundled.schema, given.get("formula", bundled.formula))
    assert schema is not None
    return Data(spec.file("data", "path"), schema, given["formula"])


def model_of(spec: Spec, data: Data) -> "LinearModel":
    """The estimator that a spec asks for, with nothing booked and nothing read."""
    given = spec["model"]
    loss = given.get("loss", "logistic")
    name, own = _MODELS[loss]
    options = {key: value for key, value in given.items() if key != "loss"}
    for key in ("knee", "quantile", "bandwidth"):
        if key in options and key not in own:
            owners = " or ".join(loss for loss, (_, keys) in _MODELS.items() if key in keys and loss != "huber_hinge")
            raise InputError(
                f"{spec.place('model', key)} belongs to the loss {owners}, not to {loss}: set that loss, or drop it"
            )
    cls = getattr(dp, name)
    if "none" in spec["privacy"]:
        raise BudgetError("[privacy] none is for studies: a fit needs epsilon or rho")
    plain = not {"mechanism", "shares"} & set(spec["privacy"])
    privacy = {"budget": budget_of(spec)} if plain else {"plan": plan_of(spec)}
    model: LinearModel = cls(data.formula, schema=data.schema, **options, **privacy)
    return model
