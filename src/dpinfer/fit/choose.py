"""The choice of a recipe for a fit, from public facts alone: decided here and nowhere else."""

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.fit.hazard import HazardSteps
from dpinfer.fit.linear import LeastSquares, LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.penalised_plan import Plan
from dpinfer.fit.poisson import PoissonSteps
from dpinfer.fit.recipe import NoLoss, OfferedRecipe, Options, Recipe, fit, require_ids
from dpinfer.fit.step_plan import ORDINARY, TARGET_ALIASES
from dpinfer.fit.stepped import Stepped
from dpinfer.mechanisms.losses import Loss, check_loss, kind
from dpinfer.privacy.budget import Budget, NoPrivacy
from dpinfer.privacy.entries import Book
from dpinfer.result.result import FitResult
from dpinfer.schema.design import Design

STEPPED: tuple[type[Stepped[Any]], ...] = (LogisticSteps, LinearSteps, PoissonSteps, HazardSteps)
"""Recipes without a penalty."""
RECIPES: tuple[type[OfferedRecipe], ...] = (*STEPPED, Penalised)
"""Every recipe, in the order in which they are asked whether a fit is theirs."""
TARGETS = tuple(dict.fromkeys(target for recipe in RECIPES for target in recipe.TARGETS))
"""What the intervals of some recipe may be about, by name."""


def choose(design: Design, options: Options, n: int | None = None) -> Recipe:
    """The recipe of a fit: the first one that takes these options.

    ``n`` is how many records there are: where that is public, and larger than usual, noise is sized
    for so many; where it is private, for as many as the design declares.

    Logistic regression with a zCDP or (ε, δ) budget and nothing else asked for is fitted in a
    private geometry, where there is an intercept; least squares always is; everything else has a
    penalty.
    """
    if options.target is not None:
        name = TARGET_ALIASES.get(options.target, options.target)
        options = replace(options, target=name)
    require_ids(design, options)
    if n is not None and options.counted and not design.unit.many:
        design = design.for_records(n)
    if design.within and not isinstance(options.loss, LeastSquares):
        raise InputError(
            "effects of persons are for least squares: use LinearRegression, or leave out the part of the formula "
            "behind |"
        )
    if not isinstance(options.loss, NoLoss):
        check_loss(options.loss)
    for recipe in RECIPES:
        chosen = recipe.of(_counted(recipe, design), options)
        if chosen is not None:
            return _without_noise(chosen)
    raise _nobodys(options)


def _counted(recipe: type[OfferedRecipe], design: Design) -> Design:
    """Return the design, with the average unit where a recipe cannot bound a unit as a whole."""
    if not design.unit.every or issubclass(recipe, Stepped):
        return design
    return replace(design, unit=design.unit.averaged)


def _without_noise(recipe: Recipe) -> Recipe:
    """Return the ordinary regression in the place of a stepped fit without noise.

    Where the releases decide what is estimated, as with the band of the robust target, they stay.
    """
    if not isinstance(recipe, Stepped) or recipe.released_estimand:
        return recipe
    return Ordinary(recipe) if isinstance(recipe.plan.budget, NoPrivacy) else recipe


def stepped_of(result: FitResult) -> type[Stepped[Any]]:
    """The recipe of a result without a penalty, by the family that it names."""
    assert result.geometry is not None
    names = {recipe.FAMILY.name: recipe for recipe in STEPPED}
    return names[result.geometry.family]


def _nobodys(options: Options) -> InputError:
    """Return an error that says what to ask for instead of a target or plan that this model does not have."""
    target = getattr(options.plan, "target", options.target)
    if target == ORDINARY:
        *first, last = (recipe.NAME for recipe in STEPPED)
        return InputError(
            f"the target {target!r} is for {', '.join(first)} and {last} only: ask for 'penalised' or "
            "'unpenalised', with a budget or a Plan"
        )
    offers = "; ".join(recipe.OFFER for recipe in RECIPES if recipe.OFFER)
    return InputError(f"there is no target {target!r}: {offers}")


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
    """Fit a penalised model to rows that are already bounded.

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
    target : {"penalised", "unpenalised"}
        What the intervals are about.  The unpenalised coefficients need a small penalty (t/(2nk)
        with k about .05, t the curvature bound of the loss) and enough budget to estimate the
        Hessian; where that fails the result says so.
    ledger : Ledger, optional
        Where the cost is booked before anything is computed; by default it is booked nowhere.
    insecure_seed : int, optional
        For tests and examples only: the noise comes from this seed, and the result says that it is
        not private.  By default the noise is secret.

    Returns
    -------
    FitResult
        Coefficients with the distribution of their error.

    Raises
    ------
    InputError, BudgetError
        If a shape, a type, a loss or a share is wrong; nothing was booked then.
    LedgerError
        If the ledger refuses the cost; nothing was computed then.

    Notes
    -----
    The target is the minimum of E[f(z)] + c‖θ‖², z = y θ·x or y - θ·x.  Its covariance is the
    sandwich H⁻¹ΣH⁻¹/n plus that of the noise (Wang, Kifer and Lee, 2019, Differentially private
    confidence intervals for empirical risk minimization).

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import numpy as np
    >>> import dpinfer as dp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(5000, 2))
    >>> y = np.where(rng.uniform(size=5000) < 1 / (1 + np.exp(-2 * X[:, 0])), 1, -1)
    >>> result = dp.infer(X, y, loss=dp.Logistic(), budget=dp.ZCDP(0.5), insecure_seed=0)
    >>> print([f"{value:.1f}" for value in result.estimate])
    ['2.1', '0.0']
    """
    from dpinfer.tables.memory import rows_of  # noqa: PLC0415  (loads the readers of tables)

    source = rows_of(X, y, kind(loss))
    options = Options(loss, budget, plan, target, penalty)
    recipe = choose(Design.of_rows(source.dim), options, source.n)
    return fit(recipe, source, ledger=ledger, insecure_seed=insecure_seed)
