"""How a budget is shared among the four releases of a fit in a private geometry.  Frozen and free of data."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpinfer.data.design import Design
from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.accounting import zcdp_from_approx
from dpinfer.maths.bounded import BoundedSum
from dpinfer.maths.geometry import radius_factor
from dpinfer.maths.laws import Gaussian
from dpinfer.maths.perturbation import PerturbedObjective
from dpinfer.maths.weighted import (
    ADD_REMOVE,
    REPLACE,
    STACK_WEIGHT,
    WeightedRisk,
    check_neighbours,
    perturbed,
    ridge_for,
    second_moment,
    weighted_moment_and_score,
)
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP, compose
from dpinfer.privacy.ledger import Event

WEIGHTED, UNWEIGHTED = "weighted", "unweighted"
TARGETS = (WEIGHTED, UNWEIGHTED)
_RELEASES = {
    "crude moments": "noisy second moments of the rows",
    "moments": "noisy second moments and score in the crude geometry",
    "estimate": "objective perturbation, Gaussian noise, ridge around a released centre",
    "matrices": "noisy stacked matrices",
}
_WORDS = {
    REPLACE: "one record replaced, number of records public",
    ADD_REMOVE: "one record added or removed, number of records private",
}


@dataclass(frozen=True)
class GeometryPlan:
    """A budget, the target, the notion of neighbours, and the shares of the four releases.

    ``target`` is "weighted" (rows far out in the released geometry count less) or "unweighted" (the public box, every
    row counts fully).  ``components`` and ``draws`` are those of the law of the error; they cost nothing.
    """

    budget: ZCDP | ApproxDP
    target: str = WEIGHTED
    neighbours: str = REPLACE
    shares: tuple[float, float, float, float] = (0.06, 0.10, 0.66, 0.18)
    components: int = 300
    draws: int = 10_000

    def __post_init__(self) -> None:
        _spendable(self.budget)
        if self.target not in TARGETS:
            raise InputError(f"the target of a geometry plan is 'weighted' or 'unweighted', not {self.target!r}")
        check_neighbours(self.neighbours)
        if len(self.shares) != len(_RELEASES):
            raise BudgetError(f"a geometry plan has {len(_RELEASES)} releases: give as many shares")
        for name, value, least in (("components", self.components, 20), ("draws", self.draws, 100)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
        self.events()  # refuses shares that are not positive

    def events(self) -> tuple[Event, ...]:
        """The releases, in order."""
        releases = zip(_RELEASES.items(), self._split(), strict=True)
        return tuple(
            Event(*release, share, self.perturbed(), additive=False)
            if release[0] == "estimate"
            else Event(*release, share, additive=True)
            for release, share in releases
        )

    def _split(self) -> tuple[ZCDP, ...]:
        """The shares.  All releases are Gaussian, so an (ε, δ) budget pays for what they cost together exactly.

        Guarantee [geometry_composition]: the four releases together are (ε, δ)-private for an (ε, δ) budget.
        """
        if isinstance(self.budget, ZCDP):
            return self.budget.split(*self.shares)
        parts = tuple(share / sum(self.shares) for share in self.shares)
        return ZCDP(_affordable(self.budget.epsilon, self.budget.delta, parts)).split(*self.shares)

    def perturbed(self) -> PerturbedObjective:
        """The third release, as its cost sees it."""
        scales = self.scales()
        return perturbed(scales.gradient, scales.ridge, self.neighbours)

    @property
    def cost(self) -> ZCDP:
        """What the releases cost together."""
        cost = compose(event.share for event in self.events())
        assert isinstance(cost, ZCDP)
        return cost

    @property
    def promise(self) -> Budget:
        """The cost, in the terms it was asked for."""
        return self.budget if isinstance(self.budget, ApproxDP) else self.cost

    @property
    def neighbours_in_words(self) -> str:
        """For the result's privacy statement."""
        return _WORDS[self.neighbours]

    def scales(self) -> "Scales":
        """The noise of every release, from public facts."""
        first, second, third, fourth = self._split()
        nowhere = np.zeros(1)
        risk = WeightedRisk(ridge_for(third.rho), nowhere, 1.0, self.neighbours)
        stack = _deviation(fourth, risk.stacked_sum(nowhere))
        return Scales(
            crude=_deviation(first, second_moment(self.neighbours)),
            moments=_deviation(second, weighted_moment_and_score(self.neighbours)),
            ridge=risk.ridge,
            gradient=risk.perturbation_scale(third.rho),
            hessian=stack / STACK_WEIGHT,
            score_cov=stack,
        )


@dataclass(frozen=True)
class Scales:
    """Standard deviation of the noise in each release, and the ridge λ."""

    crude: float
    moments: float
    ridge: float
    gradient: float
    hessian: float
    score_cov: float

    def kappa(self, d: int, n: float) -> float:
        """The radius factor of a geometry of d columns."""
        return radius_factor(d, n, self.hessian, self.gradient)


@lru_cache(maxsize=1024)
def _affordable(epsilon: float, delta: float, parts: tuple[float, ...]) -> float:
    """The largest ρ, to within a ten-thousandth, whose parts cost (ε, δ) together; the third is the estimate's."""
    low = zcdp_from_approx(epsilon, delta)
    high = 16 * low
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        ridge, mu = ridge_for(parts[2] * middle), math.sqrt(2 * (1 - parts[2]) * middle)
        low, high = (middle, high) if perturbed(ridge, ridge, REPLACE).satisfies(epsilon, delta, mu) else (low, middle)
    return low


def _deviation(share: ZCDP, bounded: BoundedSum) -> float:
    law = share.noise(bounded.bound)
    assert isinstance(law, Gaussian)
    return law.scale


def _spendable(budget: object) -> ZCDP | ApproxDP:
    if isinstance(budget, PureDP):
        raise BudgetError(
            "the weighted and unweighted targets need Gaussian noise, which gives no pure privacy: use dp.ZCDP or "
            "dp.ApproxDP, or target='penalised' with this budget"
        )
    if not isinstance(budget, ZCDP | ApproxDP):
        raise BudgetError(
            "the weighted and unweighted targets need a budget dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta); without "
            "privacy use target='unpenalised'"
        )
    return budget


def usual_target(budget: object, penalty: object, plan: object, design: Design) -> str | None:
    """The target of a logistic regression that names none: weighted, where nothing else was asked for."""
    spendable = isinstance(budget, ZCDP | ApproxDP)
    free = penalty is None and plan is None and design.intercept and len(design.columns) > 0
    return WEIGHTED if spendable and free else None


def geometry_plan(target: str | None, budget: Budget | None, plan: object) -> GeometryPlan | None:
    """The plan of the weighted or unweighted target, or None if another target is asked for."""
    if isinstance(plan, GeometryPlan):
        if budget is not None or target not in (None, plan.target):
            raise BudgetError("a GeometryPlan has its budget and its target: leave out budget= and target=")
        return plan
    if target not in TARGETS:
        return None
    if plan is not None or budget is None:
        raise BudgetError(f"target={target!r} takes budget=, or a GeometryPlan as plan=")
    return GeometryPlan(_spendable(budget), target)
