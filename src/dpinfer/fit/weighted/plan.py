"""How a budget is shared among the four releases of a fit in a private geometry.  Frozen and free of data."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.aside import BINARY, SURE_EVENTS, TYPICAL
from dpinfer.maths.capped import CappedLogistic
from dpinfer.maths.cost import OF_UNITS, scale_with_ridge
from dpinfer.maths.laws import deviation
from dpinfer.maths.losses import Logistic, slope_kind
from dpinfer.maths.moments import CURVATURE, Columns, Scales
from dpinfer.maths.risk import Risk
from dpinfer.maths.sums import moment_and_score, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP, compose
from dpinfer.privacy.release import NoisySum, PerturbedMinimum, Release

ZOOMS = 2

WEIGHTED, UNWEIGHTED = "weighted", "unweighted"
TARGETS = (WEIGHTED, UNWEIGHTED)
BinaryLoss = Logistic | CappedLogistic
TARGET_LOSS: dict[str, BinaryLoss] = {WEIGHTED: CappedLogistic(), UNWEIGHTED: Logistic()}
"""What the fit minimises: the unweighted target's point is the ordinary coefficient, whatever the model."""
_STEPS = ("scales", "crude moments", "moments", "estimate", "matrices")


@dataclass(frozen=True)
class GeometryPlan:
    """A budget, the target, the notion of neighbours, and the shares of the four releases.

    ``target`` is "weighted" (rows far out in the released geometry count less) or "unweighted" (the public box, every
    row counts fully).  ``draws`` are those of the law of the error, for bands; they cost nothing.  The weighted
    target has the capped logistic loss, the unweighted one the logistic loss itself.
    """

    budget: ZCDP | ApproxDP
    target: str = WEIGHTED
    neighbours: str = Neighbours.REPLACE
    shares: tuple[float, ...] = (0.03, 0.05, 0.09, 0.67, 0.16)
    draws: int = 10_000

    def __post_init__(self) -> None:
        spendable(self.budget)
        if self.target not in TARGETS:
            raise InputError(f"the target of a geometry plan is 'weighted' or 'unweighted', not {self.target!r}")
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        if len(self.shares) != len(_STEPS):
            raise BudgetError(f"a geometry plan has {len(_STEPS)} releases: give as many shares")
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        self.budget.split(*self.shares)  # refuses shares that are not positive

    @property
    def loss(self) -> BinaryLoss:
        """What the fit minimises."""
        return TARGET_LOSS[self.target]

    def releases(self) -> tuple[Release, ...]:
        """The releases, in order.

        Guarantee [geometry_composition]: the four releases together are (ε, δ)-private for an (ε, δ) budget.
        """
        return _planned(self)

    @property
    def cost(self) -> ZCDP:
        """What the releases cost together."""
        cost = compose(release.share for release in self.releases())
        assert isinstance(cost, ZCDP)
        return cost

    @property
    def promise(self) -> Budget:
        """The cost, in the terms it was asked for."""
        return self.budget if isinstance(self.budget, ApproxDP) else self.cost

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be reported: a rule of thumb.

        Typical is a level that one record in twenty has.  With mean curvature .15 there are N = .15 n/20 events of its
        rarer outcome, in a direction of length v: v² is κd/20, at least 1, or without weights the squared radius of the
        box.  It takes N >= 3 h v² and N >= 2.33 hypot(σ v, h v²), and N >= 8.
        """
        scales, d = self.scales(), len(columns)
        number = CURVATURE * n * TYPICAL
        length2 = columns.norm2 if self.target == UNWEIGHTED else max(1.0, scales.kappa(d, n) * d * TYPICAL)
        noise = scales.hessian * length2
        needed = (BINARY.events, BINARY.signal * noise, SURE_EVENTS * math.hypot(scales.gradient * length2**0.5, noise))
        return number / max(needed)

    def scales(self) -> Scales:
        """The noise of every release, from public facts."""
        return _scales(self)


def risk_of(loss: BinaryLoss, share: ZCDP, neighbours: Neighbours, n: float = 1.0, centre: Array | float = 0.0) -> Risk:
    """The weighted risk whose ridge is chosen together with the noise that the share buys."""
    shape = slope_kind(loss) + (OF_UNITS if neighbours.units else "")
    ridge = scale_with_ridge(share.rho, loss.curvature_bound, shape)
    return Risk(loss, ridge, n, neighbours, centre, in_ball=False)


def _releases(
    loss: BinaryLoss, shares: tuple[ZCDP, ...], neighbours: Neighbours
) -> tuple[Release, ...]:
    zoom, first, second, third, fourth = _STEPS
    part, shares = ZCDP(shares[0].rho / ZOOMS), shares[1:]
    return (
        *(NoisySum(f"{zoom}, {k + 1} of {ZOOMS}", part) for k in range(ZOOMS)),
        NoisySum(first, shares[0]),
        NoisySum(second, shares[1]),
        PerturbedMinimum.of(third, shares[2], risk_of(loss, shares[2], neighbours)),
        NoisySum(fourth, shares[3]),
    )


@lru_cache(maxsize=256)
def _planned(plan: GeometryPlan) -> tuple[Release, ...]:
    approx, notion = (plan.budget if isinstance(plan.budget, ApproxDP) else None), Neighbours(plan.neighbours)
    factor = 1.0 if approx is None else _factor(plan.loss, approx, plan.shares, notion)
    shares = ZCDP(factor * plan.budget.zcdp().rho).split(*plan.shares)
    return _releases(plan.loss, shares, notion)


@lru_cache(maxsize=256)
def _scales(plan: GeometryPlan) -> Scales:
    first, second, third, fourth = plan.releases()[ZOOMS:]
    notion, nowhere = Neighbours(plan.neighbours), np.zeros(1)
    risk = risk_of(plan.loss, third.share, notion)
    stack = deviation(fourth.noise(risk.stacked_sum(nowhere)))
    return Scales(
        crude=deviation(first.noise(second_moment(notion))),
        moments=deviation(second.noise(moment_and_score(notion))),
        ridge=risk.ridge,
        gradient=deviation(third.noise(risk)),
        hessian=stack / risk.stack_weight,
        score_cov=stack / risk.score_weight,
    )


@lru_cache(maxsize=1024)
def _factor(loss: BinaryLoss, budget: ApproxDP, shares: tuple[float, ...], neighbours: Neighbours) -> float:
    """By how much the zCDP shares may grow that every conversion allows: as the four releases cost together exactly."""
    rho = budget.zcdp().rho
    return largest_factor(budget, lambda factor: _releases(loss, ZCDP(factor * rho).split(*shares), neighbours))


def spendable(budget: object) -> ZCDP | ApproxDP:
    """A budget that can pay for Gaussian noise, or an error with the remedy."""
    if isinstance(budget, PureDP):
        raise BudgetError(
            "the weighted and unweighted targets need Gaussian noise, which gives no pure privacy: give a delta "
            "beside epsilon, or rho; or ask for the target 'penalised'"
        )
    if not isinstance(budget, ZCDP | ApproxDP):
        raise BudgetError(
            "the weighted and unweighted targets need a budget in rho, or in epsilon and delta; without privacy ask "
            "for the target 'unpenalised'"
        )
    return budget
