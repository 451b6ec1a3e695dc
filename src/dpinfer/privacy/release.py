"""One release of a fit, as a value: what is done to the data, with which noise, at which cost.  One
class a mechanism.

| class              | what is released                                                         |
| ------------------ | ------------------------------------------------------------------------ |
| `NoisySum`         | a bounded sum over records plus noise                                    |
| `NoisyCounts`      | a histogram of records plus Laplace noise in each count                  |
| `ShownLevels`      | the levels that occur whose count plus Gaussian noise clears a threshold |
| `NoisyMinimum`     | the minimum of a risk plus noise (Algorithm 4)                           |
| `PerturbedMinimum` | the minimum of a risk plus b·θ, b Gaussian (Algorithm 1)                 |
| `LaplaceMinimum`   | the minimum of a risk plus b·θ, b spherical Laplace (Algorithm 1)        |
| `PastRelease`      | something that an earlier version booked, of which only the cost is kept |

A release is made from public facts, stored by the ledger, priced by the accountant and carried out
by the gate.  Its noise is derived once: from the share when it is made, or for sums from share and
bound when it is carried out.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy.special import ndtri

from dpinfer.errors import BudgetError, PrivacyError
from dpinfer.maths.histograms import Counts
from dpinfer.maths.losses import slope_kind
from dpinfer.maths.noise_laws import NO_NOISE, Gaussian, Laplace, Law, SphericalLaplace
from dpinfer.maths.privacy_cost import PerturbedObjective
from dpinfer.maths.risk import Risk
from dpinfer.maths.sums import SLACK, BoundedSum
from dpinfer.privacy.budget import ZCDP, NoPrivacy, PureDP, Share

MASK = 1e-3
"""The part of a share that hides how far a float minimum is from the real one."""
_NDTRI = 2.0**-37  # what floats may be off in a normal quantile: see `dpinfer.privacy.noise`
_NOISE = {PureDP: "spherical Laplace noise", ZCDP: "Gaussian noise", NoPrivacy: "no noise"}


@dataclass(frozen=True)
class NoisySum:
    """A sum over records plus the share's noise, scaled to the sum's bound, in every entry."""

    step: str
    share: Share

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return f"a sum over records plus {_NOISE[type(self.share)]}"

    def noise(self, bounded: BoundedSum) -> Law:
        """The law of what is added; the bound is raised by what rounding may add to it."""
        return self.share.noise(bounded.bound * (1 + SLACK))


@dataclass(frozen=True)
class NoisyCounts:
    """A histogram of records plus independent Laplace noise in each count.

    For pure shares, where it is less than the spherical noise of a sum; Gaussian noise is the same
    for both.
    """

    step: str
    share: PureDP

    def __post_init__(self) -> None:
        if not isinstance(self.share, PureDP):
            raise BudgetError(
                "counts with Laplace noise take a pure share: for another one book a NoisySum"
            )

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return "counts of records plus Laplace noise"

    def noise(self, counts: Counts) -> Law:
        """The law of what is added to each count.

        Guarantee [laplace_counts]: rate ε over what the changes of the counts add up to, so that it
        is ε-private.
        """
        return Laplace(self.share.epsilon / (counts.added * (1 + SLACK)))


@dataclass(frozen=True)
class ShownLevels:
    """The levels that occur in a column whose number of units plus Gaussian noise exceeds a
    threshold.

    The noise is paid by the share.  ``delta`` pays for the threshold: which levels occur at all
    depends on the records.
    """

    step: str
    share: ZCDP
    delta: float

    def __post_init__(self) -> None:
        if not isinstance(self.share, ZCDP) or not (
            isinstance(self.delta, float) and 0 < self.delta < 1
        ):
            raise BudgetError(
                "levels are paid by a zCDP share and a delta strictly between 0 and 1"
            )

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return (
            f"levels whose count plus Gaussian noise clears a threshold, delta = {self.delta:.6g}"
        )

    def noise(self, bound: float) -> Gaussian:
        """The law of what is added to the count of each level that occurs; ``bound`` is how far the
        counts move.
        """
        return Gaussian(bound * (1 + SLACK) / math.sqrt(2 * self.share.rho))

    def threshold(self, bound: float) -> float:
        """What a noisy count must exceed.

        Guarantee [rare_levels]: a level of one unit exceeds it with chance at most δ; so all that
        is shown is δ-nearly a Gaussian release of the share (docs/method.md, section 9).
        """
        quantile = -float(ndtri(self.delta))
        return 1.0 + self.noise(bound).scale * (quantile + _NDTRI * (1 + abs(quantile)))


@dataclass(frozen=True)
class NoisyMinimum:
    """The minimum of a risk plus the share's noise, scaled to how far one record moves the minimum."""

    step: str
    share: Share

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return f"output perturbation, {_NOISE[type(self.share)]}"

    def noise(self, risk: Risk) -> Law:
        """The law of what is added."""
        if isinstance(self.share, NoPrivacy):
            return NO_NOISE
        return self.share.noise(risk.minimiser_sensitivity() * (1 + SLACK))


@dataclass(frozen=True)
class PerturbedMinimum:
    """The minimum of a risk plus b·θ, b Gaussian; ``objective`` is all that its cost depends on.

    A float minimum is not the real one.  It is masked by a Gaussian release of parameter ``mask``,
    paid from the share.
    """

    step: str
    share: ZCDP
    objective: PerturbedObjective
    mask: float = 0.0

    @classmethod
    def of(cls, step: str, share: ZCDP, risk: Risk) -> "PerturbedMinimum":
        """The noise that a share buys for a risk; `BudgetError` if it buys none."""
        scale = risk.perturbation_scale((1 - MASK) * share.rho)
        return cls(step, share, risk.perturbed(scale), math.sqrt(2 * MASK * share.rho))

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return "objective perturbation, Gaussian noise"

    def noise(self, risk: Risk) -> Law:
        """The law of b.  The risk must be the one that was booked: the cost rests on its curvature
        and ridge.
        """
        _as_booked(self.objective.k, risk, self.step)
        if risk.shape != self.objective.shape:
            raise PrivacyError(
                f"the step {self.step!r} was booked for another loss or unit than that of its release"
            )
        return Gaussian(
            self.objective.scale * risk.loss.slope_bound * risk.neighbours.pick(1.0, 0.5)
        )


@dataclass(frozen=True)
class LaplaceMinimum:
    """The minimum of a risk plus b·θ, b spherical Laplace of ``rate`` times L; ``k`` as in
    `PerturbedObjective`.

    The float minimum is masked by a Laplace release of ε = ``mask``, paid from the share.
    ``sharp``: the curvature costs nothing, as for the logistic loss with a large enough ridge.
    ``units``: neighbours differ in many rows.
    """

    step: str
    share: PureDP | ZCDP
    rate: float
    k: float
    mask: float = 0.0
    sharp: bool = False
    units: bool = False

    @classmethod
    def of(cls, step: str, share: PureDP | ZCDP, risk: Risk, *, sharp: bool) -> "LaplaceMinimum":
        """The noise that a share buys for a risk; a zCDP share runs at ε = sqrt(2ρ).  `BudgetError`
        if it buys none.
        """
        epsilon = share.pure().epsilon
        rate = risk.perturbation_rate((1 - MASK) * epsilon, sharp=sharp)
        free = sharp and risk.curvature_is_free((1 - MASK) * epsilon)
        k = risk.loss.curvature_bound / risk.ridge
        return cls(
            step,
            share,
            rate * risk.loss.slope_bound,
            k,
            MASK * epsilon,
            free,
            risk.neighbours.units,
        )

    def cost(self) -> float:
        """ε by its own parameters; the curvature is free for the logistic loss where ncε >= 1, that
        is 2 rate >= 8k.
        """
        free = self.sharp and self.rate >= 4 * self.k * (1 - 1e-12)
        curvature = self.k if self.units else math.log1p(self.k)
        return 2 * self.rate + self.mask + (0.0 if free else curvature)

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return "objective perturbation, spherical Laplace noise"

    def noise(self, risk: Risk) -> Law:
        """The law of b."""
        _as_booked(self.k, risk, self.step)
        if (
            self.sharp and slope_kind(risk.loss) != "logistic"
        ) or self.units != risk.neighbours.units:
            raise PrivacyError(
                f"the step {self.step!r} was booked for another loss or unit than that of its release"
            )
        return SphericalLaplace(self.rate / risk.loss.slope_bound)


@dataclass(frozen=True)
class PastRelease:
    """What an earlier version booked without its parameters: the share alone counts."""

    step: str
    share: Share

    @property
    def mechanism(self) -> str:
        """What is done, in words."""
        return "a release of an earlier version"


Minimum = NoisyMinimum | PerturbedMinimum | LaplaceMinimum
Additive = NoisySum | NoisyMinimum | ShownLevels
"""Releases whose loss is that of the noise of their share, those of levels but for their δ."""
Release = NoisySum | NoisyCounts | ShownLevels | Minimum | PastRelease


def delta_of(releases: Iterable[Release]) -> float:
    """What the levels among the releases take of a total's δ."""
    return math.fsum(release.delta for release in releases if isinstance(release, ShownLevels))


def _as_booked(k: float, risk: Risk, step: str) -> None:
    if risk.loss.curvature_bound / risk.ridge != k:
        raise PrivacyError(
            f"the step {step!r} was booked with another ridge or loss than that of its release"
        )
