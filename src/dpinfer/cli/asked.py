"""The budget and the model that a spec asks for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dpinfer as dp
from dpinfer.cli.complain import remark
from dpinfer.cli.spec import Data, Spec
from dpinfer.elsewhere import HERE
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.choose import WITH_PENALTY
from dpinfer.fit.penalised.plan import default_plan
from dpinfer.fit.stepped.plan import ASKED, EARLIER, ROBUST
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import Budget

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


def model_of(spec: Spec, data: Data, *, study: bool = False) -> "LinearModel":
    """The estimator that a spec asks for, with nothing booked and nothing read; a study may do without privacy."""
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
        raise BudgetError("the loss linear needs Gaussian noise: give rho, or epsilon with delta beside it")
    if loss == "logistic" and options.get("target") == ASKED and not isinstance(budget, dp.ZCDP | dp.ApproxDP):
        raise BudgetError(
            f'the target "{ASKED}" needs Gaussian noise: give rho, or epsilon with delta beside it, or ask for the '
            'target "penalised"'
        )
    plain = not {"mechanism", "shares"} & set(spec["privacy"])
    privacy: dict[str, Any] = {"budget": budget} if plain else {"plan": plan_of(spec)}
    privacy["neighbours"] = spec["privacy"].get("neighbours")
    model: LinearModel = getattr(dp, HERE[loss])(data.formula, schema=data.schema, **options, **privacy)
    return model


def _check_keys(spec: Spec, loss: str, options: Mapping[str, Any]) -> None:
    """Refuse keys of another loss."""
    for key in options:
        owners = [name for name, keys in _KEYS.items() if key in keys]
        if owners and loss not in owners:
            raise _belongs(spec.place("model", key), owners, loss)
    for key in ("mechanism", "shares"):
        if loss == "linear" and key in spec["privacy"]:
            raise InputError(f"{spec.place('privacy', key)} is for losses with a penalty, not for linear: drop it")


def _check_target(spec: Spec, loss: str, target: str | None) -> None:
    """Least squares alone has the robust target, and no penalty; what else is wrong with one, the model says."""
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
    return InputError(f"{what} belongs to the loss {' or '.join(owners)}, not to {loss}: set that loss, or drop it")
