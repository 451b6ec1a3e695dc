"""How a budget is shared among the releases of a stepped fit.  Frozen and free of data."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.frame import ZOOMS as FRAME_ZOOMS
from dpinfer.fit.frame import column_histograms_bound
from dpinfer.maths.families import Stack, rest_bound
from dpinfer.maths.histograms import OUTCOME_ZOOMS, histogram_bound
from dpinfer.maths.inference import LEAST_RECORDS
from dpinfer.maths.joint import SIGNAL
from dpinfer.maths.moments import (
    LEAST_EVENTS,
    LOGISTIC_RADIUS,
    SQUARES_RADIUS,
    SURE,
    Columns,
    Radius,
    Scales,
)
from dpinfer.maths.noise_laws import deviation
from dpinfer.maths.sums import moment_and_score_bound, second_moment_bound
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP, compose
from dpinfer.privacy.release import NoisySum

ASKED = "asked"
ROBUST = "robust"
LOGISTIC_TARGETS = (ASKED,)
LINEAR_TARGETS = (ASKED, ROBUST)
EARLIER = {"weighted": ASKED, "mean": ASKED}
"""Targets by their earlier names."""
GONE = "unweighted"
"""A target that is refused with a sentence."""
FORMER = (*EARLIER, GONE)
BALANCED = "balanced"
CAUTIOUS = "cautious"
ALL = "all"
TAILS = (BALANCED, CAUTIOUS, ALL)

# The stages of a fit, in order; each is one release or a few.
SCALES = "scales"
CRUDE = "crude moments"
OUTCOME = "outcome range"
MOMENTS = "moments"
FIRST = "first steps"
INFLUENCE = "influence"
FIRST_STEP = "first step"
ESTIMATE = "estimate"
REST = "rest"
# releases of a stage; one where it is not named
_PARTS = {SCALES: FRAME_ZOOMS, OUTCOME: OUTCOME_ZOOMS, FIRST: 3}
_LOGISTIC = {SCALES: 0.03, CRUDE: 0.05, MOMENTS: 0.09, FIRST: 0.12, ESTIMATE: 0.68, REST: 0.03}
_LINEAR = {SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.14, INFLUENCE: 0.03, ESTIMATE: 0.73}
_ROBUST = {
    SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.14, INFLUENCE: 0.03, FIRST_STEP: 0.24, ESTIMATE: 0.49,
}  # fmt: skip
_ALL = {SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.14, ESTIMATE: 0.76}
_TYPICAL = 1 / 20  # the share of records with a typical level
_USUAL = 0.15  # a public guess of the mean curvature p(1 - p)
_FARTHEST = 1.1  # ... and of the largest influence of an outcome over a typical one


@dataclass(frozen=True)
class Releases:
    """The releases of a fit, by their stage, in the order in which they are carried out."""

    stages: tuple[tuple[str, tuple[NoisySum, ...]], ...]

    def of(self, stage: str) -> tuple[NoisySum, ...]:
        """Those of one stage; none where the fit has no such stage."""
        return dict(self.stages).get(stage, ())

    @property
    def all(self) -> tuple[NoisySum, ...]:
        """All of them."""
        return tuple(release for _, releases in self.stages for release in releases)


def _releases(bounds: Sequence[tuple[str, float]], shares: Sequence[ZCDP]) -> Releases:
    stages = zip(bounds, shares, strict=True)
    return Releases(tuple((name, _stage(name, share, bound)) for (name, bound), share in stages))


def _stage(name: str, share: ZCDP, bound: float) -> tuple[NoisySum, ...]:
    """The releases of a stage, which share alike."""
    parts = _PARTS.get(name, 1)
    if parts == 1:
        return (NoisySum(name, share, bound),)
    part = ZCDP(share.rho / parts)
    return tuple(NoisySum(f"{name}, {k + 1} of {parts}", part, bound) for k in range(parts))


@lru_cache(maxsize=256)
def _planned(
    budget: ZCDP | ApproxDP, bounds: tuple[tuple[str, float], ...], shares: tuple[float, ...]
) -> Releases:
    """All releases are sums plus Gaussian noise, so that their costs add up exactly."""
    rho = budget.zcdp().rho
    factor = 1.0
    if isinstance(budget, ApproxDP):
        factor = largest_factor(
            budget, lambda f: _releases(bounds, ZCDP(f * rho).split(*shares)).all
        )
    return _releases(bounds, ZCDP(factor * rho).split(*shares))


@dataclass(frozen=True)
class StepPlan:
    """What the plans of stepped fits have in common; use `GeometryPlan` or `LinearPlan`."""

    budget: ZCDP | ApproxDP
    target: str = ASKED
    neighbours: str = Neighbours.REPLACE
    shares: tuple[float, ...] = ()
    draws: int = 10_000

    @property
    def usual(self) -> Mapping[str, float]:
        """The stages of the fit with their usual shares."""
        raise NotImplementedError

    @property
    def radius(self) -> Radius:
        """The limits of the radius factor."""
        raise NotImplementedError

    @property
    def stack(self) -> Stack:
        """The weights of the matrices beside the score."""
        raise NotImplementedError

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed: a rule of
        thumb.
        """
        raise NotImplementedError

    def _check(self, targets: Sequence[str]) -> None:
        spendable(self.budget)
        object.__setattr__(self, "target", target_of(self.target, targets))
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        if not isinstance(self.shares, tuple | list) or len(self.shares) not in (
            0,
            len(self.usual),
        ):
            raise BudgetError(
                f"such a plan has {len(self.usual)} shares ({', '.join(self.usual)}): give as many numbers, or none"
            )
        object.__setattr__(self, "shares", tuple(self.shares) or tuple(self.usual.values()))
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        self.budget.split(*self.shares)  # refuses shares that are not positive

    def bounds(self, numbers: int) -> Mapping[str, float]:
        """How far one record moves the sums of each stage; ``numbers`` is that of the columns whose
        range is released.
        """
        notion = Neighbours(self.neighbours)
        return {
            SCALES: column_histograms_bound(numbers, notion),
            CRUDE: second_moment_bound(notion),
            OUTCOME: histogram_bound(notion),
            MOMENTS: moment_and_score_bound(notion),
            INFLUENCE: histogram_bound(notion),
            FIRST: self.stack.bound,
            FIRST_STEP: self.stack.bound,
            ESTIMATE: self.stack.bound,
            REST: rest_bound(notion),
        }

    def releases(self, *, numbers: int = 1) -> Releases:
        """The releases, in order; where no column has its range released (``numbers`` is 0) there
        are no scales, and the other stages get their share.

        Guarantee [stepped_composition]: all releases are sums plus Gaussian noise, whose parameters
        add up exactly: an (ε, δ) budget is spent to the last digit.
        """
        bounds = self.bounds(numbers)
        shares = dict(zip(self.usual, self.shares, strict=True))
        if not numbers:
            del shares[SCALES]
        stages = tuple((name, bounds[name]) for name in shares)
        return _planned(self.budget, stages, tuple(shares.values()))

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

    def scales(self, *, numbers: int = 1, stage: str = ESTIMATE) -> Scales:
        """The noise of every release, from public facts; ``stage`` is which of the steps towards
        the estimate.
        """
        return _scales(self, numbers, stage)


@lru_cache(maxsize=256)
def _scales(plan: StepPlan, numbers: int, stage: str) -> Scales:
    booked = plan.releases(numbers=numbers)
    score = deviation(booked.of(stage)[0].law)
    return Scales(
        crude=deviation(booked.of(CRUDE)[0].law),
        moments=deviation(booked.of(MOMENTS)[0].law),
        gradient=score,
        hessian=score / math.sqrt(plan.stack.curvature),
        score_cov=score / math.sqrt(plan.stack.score),
        radius=plan.radius,
    )


@dataclass(frozen=True)
class GeometryPlan(StepPlan):
    """Of logistic regression: a budget, the target, the notion of neighbours, and the shares of the
    stages.

    The only target is "asked".  ``draws`` are those of the law of the error, for bands; they cost
    nothing.
    """

    def __post_init__(self) -> None:
        self._check(LOGISTIC_TARGETS)

    @property
    def usual(self) -> Mapping[str, float]:
        """Three first steps, then the estimate and what it leaves."""
        return _LOGISTIC

    @property
    def radius(self) -> Radius:
        """Those of logistic regression."""
        return LOGISTIC_RADIUS

    @property
    def stack(self) -> Stack:
        """The curvature counts for more than in least squares: it decides more of the error, and V
        is near to it.
        """
        notion = Neighbours(self.neighbours)
        return Stack(1.0, 0.25, notion) if notion.counted else Stack(0.5, 0.1, notion)

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed: a rule of
        thumb.

        Typical is a level that one record in twenty has.  With mean curvature .15 there are N = .15
        n/20 events of its rarer outcome.  It takes N >= 8, and a number that is clear of the noise
        of score and curvature there.
        """
        scales = self.scales()
        d = len(columns)
        number = _USUAL * n * _TYPICAL
        kappa = scales.kappa(d, n)
        by_curvature = _USUAL * scales.hessian * max(1.0, kappa * d * _TYPICAL)
        by_score = _FARTHEST * scales.gradient * math.sqrt(max(1 / kappa, d * _TYPICAL))
        return number / max(
            LEAST_EVENTS, SIGNAL * by_curvature, SURE * math.hypot(by_score, by_curvature)
        )


@dataclass(frozen=True)
class LinearPlan(StepPlan):
    """Of least squares: a budget, the target, its tail, the notion of neighbours, and the shares of
    the stages.

    ``target`` is "asked" (ordinary least squares) or "robust" (a Huber estimand, with a first step
    of its own).  ``tail`` says how much of the outcome's tail is kept: "balanced" weighs noise
    against what is clipped, "cautious" takes the tail for longer than it looks, "all" clips nobody
    whose prediction is within the public range.  ``draws`` are those of the law of the error, for
    bands; they cost nothing.
    """

    tail: str = BALANCED

    def __post_init__(self) -> None:
        if self.tail not in TAILS:
            raise InputError(
                f"tail of least squares must be one of {', '.join(map(repr, TAILS))}, not {self.tail!r}"
            )
        if self.target == ROBUST and self.tail != BALANCED:
            raise InputError(
                "a tail belongs to the target 'asked': leave it out, the robust target clips at a tenth of the records"
            )
        self._check(LINEAR_TARGETS)

    @property
    def usual(self) -> Mapping[str, float]:
        """The robust target takes a step more, as it is not linear; where nobody is clipped no
        influence is needed.
        """
        if self.tail == ALL:
            return _ALL
        return _ROBUST if self.target == ROBUST else _LINEAR

    @property
    def radius(self) -> Radius:
        """Those of least squares."""
        return SQUARES_RADIUS

    @property
    def stack(self) -> Stack:
        """That of least squares."""
        return Stack.of(Neighbours(self.neighbours))

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed: a rule of
        thumb.

        Typical is a level that N = n/20 records have, in a direction of squared length v² = κd/20,
        at least 1.  It takes N >= 15 and N >= 2.5 h v², h the noise of the curvature.  And it takes
        a curvature n/κd of all columns that is clear of the norm h sqrt(2d) of its noise, N >= h v²
        sqrt(2d): noise that bends all directions hides columns long before it hides one of them.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * _TYPICAL)
        return n * _TYPICAL / max(LEAST_RECORDS, noise * max(SIGNAL, math.sqrt(2 * d)))


def target_of(target: object, targets: Sequence[str]) -> str:
    """A target by its present name; one by an earlier name is told of."""
    if target in targets:
        return str(target)
    if target in EARLIER:
        warnings.warn(
            f"the target {target!r} is now called {EARLIER[str(target)]!r}: what is asked for by the formula",
            FutureWarning,
            stacklevel=4,
        )
        return EARLIER[str(target)]
    if target == GONE:
        raise InputError(
            "the target 'unweighted' is gone: 'asked' answers the same question, the ordinary coefficients of all "
            "columns, with far shorter intervals; leave target= out"
        )
    raise InputError(f"the target must be {' or '.join(map(repr, targets))}, not {target!r}")


def spendable(budget: object) -> ZCDP | ApproxDP:
    """A budget that can pay for Gaussian noise, or an error with the remedy."""
    if isinstance(budget, PureDP):
        raise BudgetError(
            "a fit without a penalty needs Gaussian noise, which gives no pure privacy: give a delta beside epsilon, "
            "as dp.ApproxDP(epsilon, delta), or rho, as dp.ZCDP(rho); with this budget ask for the target 'penalised' "
            "of logistic regression, or for dp.HuberRegression instead of least squares"
        )
    if not isinstance(budget, ZCDP | ApproxDP):
        raise BudgetError(
            "a fit without a penalty needs budget=dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta); without privacy ask "
            "for the target 'unpenalised' of logistic regression, or use statsmodels"
        )
    return budget
