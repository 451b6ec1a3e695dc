"""Which recipe for this design, loss, budget, plan, target, penalty and neighbours: decided here
and nowhere else.
"""

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.penalised_plan import Plan, default_plan
from dpinfer.fit.recipe import Recipe, fit
from dpinfer.fit.stepped_plan import (
    ASKED,
    BALANCED,
    EARLIER,
    LINEAR_TARGETS,
    LOGISTIC_TARGETS,
    GeometryPlan,
    LinearPlan,
    spendable,
    target_of,
)
from dpinfer.maths.losses import Logistic, Loss, check_loss, kind
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP
from dpinfer.privacy.entries import Book
from dpinfer.result.result import FitResult
from dpinfer.result.statements import ADD_DELTA, WITHOUT_NOISE, unasked
from dpinfer.schema.design import Design

WITH_PENALTY = ("penalised", "unpenalised")
_STEPPED = (*LOGISTIC_TARGETS, *EARLIER, "unweighted")  # the last one is refused with a sentence


@dataclass(frozen=True)
class LeastSquares:
    """In the place of a loss: it has none that bounds what a record does, and a clip in its stead."""

    tail: str = BALANCED


@dataclass(frozen=True)
class Options:
    """What is asked for beside the data; None where the user left it open."""

    loss: Loss | LeastSquares
    budget: Budget | None = None
    plan: Any = None
    target: str | None = None
    penalty: float | None = None
    neighbours: str | None = None


def choose(design: Design, options: Options) -> Recipe:
    """The recipe of a fit, from public facts alone.

    Logistic regression with a zCDP or (ε, δ) budget and nothing else asked for is fitted in a
    private geometry, where there is an intercept and a column; everything else with a penalty.
    """
    _of_units(design, options)
    if isinstance(options.loss, LeastSquares):
        return _linear(design, options, options.loss.tail)
    check_loss(options.loss)
    target = _usual(design, options) if options.target is None else options.target
    if isinstance(options.plan, GeometryPlan) or target in _STEPPED:
        return _logistic(design, options, target)
    if target not in WITH_PENALTY:
        raise _no_target(target)
    if options.neighbours in (Neighbours.ADD_REMOVE, Neighbours.ADD_REMOVE_UNIT):
        raise InputError(
            f"the neighbours add-remove keep the number of records private, and the target {target!r} needs it: use "
            "logistic regression with a delta or rho, target 'asked', least squares, or the neighbours replace"
        )
    plan = _plan(options.budget, options.plan)
    return Penalised(design, options.loss, plan, target, options.penalty, _instead(design, options))


def _no_target(target: object) -> InputError:
    """All targets there are, with the models that have them."""
    free, penalised, squares = (
        " or ".join(map(repr, some)) for some in (LOGISTIC_TARGETS, WITH_PENALTY, LINEAR_TARGETS)
    )
    return InputError(
        f"there is no target {target!r}: logistic regression has {free}, without a penalty, and {penalised}, as other "
        f"models with a penalty have; least squares has {squares}"
    )


def _instead(design: Design, options: Options) -> str:
    """What to say of a penalty that nobody asked for: it changes the estimand, why it is there, how
    to avoid it.
    """
    if not isinstance(options.loss, Logistic) or (
        options.target,
        options.plan,
        options.penalty,
    ) != (None, None, None):
        return ""
    if not design.intercept:
        return unasked("an intercept", "keep the intercept: drop the -1 or 0 from the formula")
    if isinstance(options.budget, PureDP):
        return unasked("a delta", ADD_DELTA)
    return unasked("noise", WITHOUT_NOISE) if isinstance(options.budget, NoPrivacy) else ""


def _usual(design: Design, options: Options) -> str:
    spendable_budget = isinstance(options.budget, ZCDP | ApproxDP) and options.plan is None
    free = options.penalty is None and design.intercept and len(design.names) > 1
    return (
        ASKED if isinstance(options.loss, Logistic) and spendable_budget and free else "penalised"
    )


def _linear(design: Design, options: Options, tail: str) -> LinearSteps:
    plan = options.plan
    if isinstance(plan, LinearPlan):
        _alone(plan, options)
        if tail not in (BALANCED, plan.tail):
            raise InputError("a LinearPlan has its tail: leave out tail=")
    elif plan is not None or options.budget is None:
        raise BudgetError(
            "least squares takes budget=dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta), or a LinearPlan"
        )
    else:
        target = _linear_target(options.target)
        plan = LinearPlan(spendable(options.budget), target, _notion(design, options), tail=tail)
    if options.penalty is not None:
        raise InputError("least squares has no penalty: leave it out")
    if not design.intercept:
        raise InputError("least squares needs an intercept: drop the -1 or 0 from the formula")
    return LinearSteps(design, plan)


def _linear_target(target: str | None) -> str:
    if target is None:
        return ASKED
    if target not in (*LINEAR_TARGETS, *EARLIER, "unweighted"):
        raise _no_target(target)
    return target_of(target, LINEAR_TARGETS)


def _of_units(design: Design, options: Options) -> None:
    """Neighbours, asked for or in a plan, must be those of the unit that is protected."""
    for code in (options.neighbours, getattr(options.plan, "neighbours", None)):
        if code is not None and Neighbours.of(code).units and not design.unit.many:
            raise InputError(
                f"the neighbours {code!s} need ids: give the schema a [unit] with a column, or arrays their units"
            )
    planned = getattr(options.plan, "neighbours", None)
    if design.unit.many and planned is not None and not Neighbours(planned).units:
        raise InputError(
            "the plan protects one row and the data have ids: give it neighbours='replace-unit'"
        )


def _notion(design: Design, options: Options) -> Neighbours:
    return Neighbours.of(options.neighbours or Neighbours.REPLACE, units=design.unit.many)


def _alone(plan: GeometryPlan | LinearPlan, options: Options) -> None:
    """A plan that has its budget, target and neighbours is not told others."""
    name = type(plan).__name__
    if options.budget is not None or options.target not in (None, plan.target):
        raise BudgetError(f"a {name} has its budget and its target: leave out budget= and target=")
    if options.neighbours not in (None, plan.neighbours):
        raise InputError(f"a {name} has its neighbours: leave out neighbours=")


def _logistic(design: Design, options: Options, target: str) -> LogisticSteps:
    plan = options.plan
    if not isinstance(options.loss, Logistic):
        raise InputError(
            f"the target {target!r} is for logistic regression and least squares only: ask for 'penalised' or "
            "'unpenalised', with a budget or a Plan"
        )
    if isinstance(plan, GeometryPlan):
        _alone(plan, options)
    elif plan is not None or options.budget is None:
        raise BudgetError(
            f"the target {target!r} takes a budget, or a GeometryPlan, and no other plan, mechanism or shares: leave "
            "these out"
        )
    else:
        name = target_of(target, LOGISTIC_TARGETS)
        plan = GeometryPlan(spendable(options.budget), name, _notion(design, options))
    if options.penalty is not None:
        raise InputError(f"the target {plan.target!r} has no penalty: leave it out")
    if not design.intercept:
        raise InputError(
            f"the target {plan.target!r} needs an intercept: drop the -1 or 0 from the formula"
        )
    return LogisticSteps(design, plan)


def _plan(budget: Budget | None, plan: Any) -> Plan:
    """The plan given, or the default one for the budget given."""
    if (budget is None) == (plan is None):
        raise BudgetError(
            "give either budget= (for example dp.PureDP(1.0) or dp.ZCDP(0.1875)) or plan=, not both"
        )
    if plan is None:
        assert budget is not None
        return default_plan(budget)
    if not isinstance(plan, Plan):
        raise BudgetError("plan= takes a dpinfer Plan; a budget goes into budget=")
    return plan


def infer(  # noqa: PLR0913  (the public face)
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    loss: Loss,
    penalty: float | None = None,
    budget: Budget | None = None,
    plan: Plan | None = None,
    target: str = "penalised",
    ledger: Book | None = None,
    insecure_seed: int | None = None,
) -> FitResult:
    """Fit on rows that are already bounded.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows of norm at most 1; longer ones are clipped.  A row with a NaN or an infinity counts as
        the zero row, because an error would reveal it.
    y : array of shape (n,)
        With a loss of the margin -1 or +1; a row with another label counts as the zero row.  With a
        loss of the residual a number scaled to [-1, 1] by public bounds, never by the data; what
        lies beyond is clipped.
    loss : Loss
        `Logistic`, `HuberHinge`, `Huber`, `SmoothedQuantile`, or any object with the five names of
        `Loss`.
    penalty : float, optional
        c in the mean objective, c‖θ‖²; by default one that is valid for the plan.  A private fit
        needs it above 0.
    budget : PureDP, ZCDP, ApproxDP or NoPrivacy, optional
        What the fit may cost.  It gets a default plan, chosen from its kind.
    plan : Plan, optional
        A mechanism with a share for each release, instead of ``budget``.
    target : "penalised" or "unpenalised"
        What the intervals are about.  The unpenalised coefficients need a small penalty (t/(2nk)
        with k about .05, t the curvature bound of the loss) and enough budget to know the Hessian;
        where that fails the result says so.
    ledger : Ledger, optional
        Where the spend is booked before anything is computed.
    insecure_seed : int, optional
        For tests: the noise comes from this seed, and the result says that it is not private.

    Returns
    -------
    FitResult
        Coefficients with the law of their error.

    Raises
    ------
    InputError, BudgetError
        If a shape, a type, a loss or a share is wrong; nothing was booked then.
    LedgerError
        If the ledger refuses the spend; nothing was computed then.
    """
    from dpinfer.tables.memory import rows_of  # noqa: PLC0415  (loads the readers of tables)

    source = rows_of(X, y, kind(loss))
    recipe = choose(Design.of_rows(source.dim), Options(loss, budget, plan, target, penalty))
    return fit(recipe, source, ledger=ledger, insecure_seed=insecure_seed)
