"""How a budget is shared among the releases of a least-squares fit.  Frozen and free of data."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.aside import SQUARES, TYPICAL
from dpinfer.maths.histograms import ZOOMS, histogram
from dpinfer.maths.laws import deviation
from dpinfer.maths.moments import Columns, SquaresScales
from dpinfer.maths.squares import Stack
from dpinfer.maths.sums import BoundedSum, moment_and_score, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP, compose
from dpinfer.privacy.release import NoisySum

MEAN, ROBUST = "mean", "robust"
TARGETS = (MEAN, ROBUST)
BALANCED, CAUTIOUS, ALL = "balanced", "cautious", "all"
TAILS = (BALANCED, CAUTIOUS, ALL)
_SHARES = {
    MEAN: (0.03, 0.05, 0.02, 0.14, 0.03, 0.73),
    ROBUST: (0.03, 0.05, 0.02, 0.14, 0.03, 0.24, 0.49),
    ALL: (0.03, 0.05, 0.02, 0.14, 0.76),
}
_STEPS = ("scales", "crude moments", "outcome range", "moments", "influence", "estimate")


@dataclass(frozen=True)
class LinearPlan:
    """A budget, the target, its tail, the notion of neighbours, and the shares of the releases.

    ``target`` is "mean" (least squares) or "robust" (a Huber estimand, with a first step of its own).  ``tail`` says
    how much of the outcome's tail is kept: "balanced" weighs noise against what is clipped, "cautious" takes the tail
    for longer than it looks, "all" clips nobody whose prediction is within the public range.  ``draws`` are those of
    the law of the error, for bands; they cost nothing.
    """

    budget: ZCDP | ApproxDP
    target: str = MEAN
    tail: str = BALANCED
    neighbours: str = Neighbours.REPLACE
    shares: tuple[float, ...] = ()
    draws: int = 10_000

    def __post_init__(self) -> None:
        spendable(self.budget)
        for name, value, known in (("target", self.target, TARGETS), ("tail", self.tail, TAILS)):
            if value not in known:
                raise InputError(f"{name} of least squares must be one of {', '.join(map(repr, known))}, not {value!r}")
        if self.target == ROBUST and self.tail != BALANCED:
            raise InputError(
                "a tail belongs to the target 'mean': leave it out, the robust target clips at a tenth of the records"
            )
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        usual = _SHARES[ALL if self.tail == ALL else self.target]
        if not isinstance(self.shares, tuple | list) or len(self.shares) not in (0, len(usual)):
            raise BudgetError(f"such a plan of least squares has {len(usual)} shares: give as many numbers, or none")
        object.__setattr__(self, "shares", tuple(self.shares) or usual)
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        self.budget.split(*self.shares)  # refuses shares that are not positive

    def releases(self) -> "Releases":
        """The releases, in order.

        Guarantee [linear_composition]: all releases are sums plus Gaussian noise, whose parameters add up exactly: an
        (ε, δ) budget is spent to the last digit.
        """
        return _planned(self)

    @property
    def cost(self) -> ZCDP:
        """What the releases cost together."""
        cost = compose(release.share for release in self.releases().all)
        assert isinstance(cost, ZCDP)
        return cost

    @property
    def promise(self) -> Budget:
        """The cost, in the terms it was asked for."""
        return self.budget if isinstance(self.budget, ApproxDP) else self.cost

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be reported: a rule of thumb.

        Typical is a level that N = n/20 records have, in a direction of squared length v² = κd/20, at least 1.  It
        takes N >= 15 and N >= 3 h v², h the noise of the curvature.  And it takes a curvature n/κd of all columns that
        is clear of the norm h sqrt(2d) of its noise, N >= h v² sqrt(2d): noise that bends all directions sets columns
        aside long before it hides one of them.
        """
        scales, d = self.scales(), len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL)
        return n * TYPICAL / max(SQUARES.events, noise * max(SQUARES.signal, math.sqrt(2 * d)))

    def scales(self, step: int = -1) -> SquaresScales:
        """The noise of every release, from public facts; ``step`` is which of the steps towards the estimate."""
        return _scales(self, step)

    def counts(self, booked: NoisySum) -> float:
        """The noise of one count of a histogram that is ``booked``."""
        return deviation(booked.noise(histogram(np.zeros(1), Neighbours(self.neighbours))))


@dataclass(frozen=True)
class Releases:
    """The releases of a least-squares fit: ``ranges`` has one a histogram, ``steps`` one a step to the estimate.

    Where nobody is clipped no ``influence`` is needed.
    """

    scales: tuple[NoisySum, ...]
    crude: NoisySum
    ranges: tuple[NoisySum, ...]
    moments: NoisySum
    influence: NoisySum | None
    steps: tuple[NoisySum, ...]

    @property
    def all(self) -> tuple[NoisySum, ...]:
        """In the order in which they are carried out."""
        influence = () if self.influence is None else (self.influence,)
        return (*self.scales, self.crude, *self.ranges, self.moments, *influence, *self.steps)


def _releases(shares: tuple[ZCDP, ...]) -> Releases:
    zoom, crude, ranges, moments, influence, estimate = _STEPS
    clipped, part, shares = len(shares) > len(_SHARES[ALL]), ZCDP(shares[0].rho / 2), shares[1:]
    third = ZCDP(shares[1].rho / ZOOMS)
    last = shares[4:] if clipped else shares[3:]
    steps = [f"{estimate}, step {k + 1} of {len(last)}" for k in range(len(last))] if len(last) > 1 else [estimate]
    return Releases(
        tuple(NoisySum(f"{zoom}, {k + 1} of 2", part) for k in range(2)),
        NoisySum(crude, shares[0]),
        tuple(NoisySum(f"{ranges}, {k + 1} of {ZOOMS}", third) for k in range(ZOOMS)),
        NoisySum(moments, shares[2]),
        NoisySum(influence, shares[3]) if clipped else None,
        tuple(NoisySum(step, share) for step, share in zip(steps, last, strict=True)),
    )


@lru_cache(maxsize=256)
def _planned(plan: LinearPlan) -> Releases:
    rho, factor = plan.budget.zcdp().rho, 1.0
    if isinstance(plan.budget, ApproxDP):
        factor = largest_factor(plan.budget, lambda f: _releases(ZCDP(f * rho).split(*plan.shares)).all)
    return _releases(ZCDP(factor * rho).split(*plan.shares))


@lru_cache(maxsize=256)
def _scales(plan: LinearPlan, step: int) -> SquaresScales:
    booked, notion = plan.releases(), Neighbours(plan.neighbours)
    stack = Stack.of(notion)
    score = deviation(booked.steps[step].noise(BoundedSum(lambda block: block.rows, stack.bound)))
    return SquaresScales(
        crude=deviation(booked.crude.noise(second_moment(notion))),
        moments=deviation(booked.moments.noise(moment_and_score(notion))),
        ridge=0.0,
        gradient=score,
        hessian=score / stack.curvature**0.5,
        score_cov=score / stack.score**0.5,
    )


def spendable(budget: object) -> ZCDP | ApproxDP:
    """A budget that can pay for Gaussian noise, or an error with the remedy."""
    if isinstance(budget, PureDP):
        raise BudgetError(
            "least squares needs Gaussian noise, which gives no pure privacy: use dp.ZCDP(rho) or "
            "dp.ApproxDP(epsilon, delta), or dp.HuberRegression with this budget"
        )
    if not isinstance(budget, ZCDP | ApproxDP):
        raise BudgetError(
            "least squares needs budget=dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta); without privacy use statsmodels"
        )
    return budget
