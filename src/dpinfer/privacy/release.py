"""The releases of a fit as values: what is done to the data, with which noise, at which cost.

| class              | what is released                                                         |
| ------------------ | ------------------------------------------------------------------------ |
| `NoisySum`         | a sum over records, of a bound that is booked, plus noise                |
| `ScaledSum`        | a sum over records, of a bound that an earlier release decides, plus noise |
| `NoisyCounts`      | a histogram of records plus Laplace noise in each count                  |
| `ShownLevels`      | the levels that occur whose count plus Gaussian noise clears a threshold |
| `NoisyMinimum`     | the minimum of a risk plus noise (Algorithm 4)                           |
| `PerturbedMinimum` | the minimum of a risk plus b·θ, b Gaussian (Algorithm 1)                 |
| `LaplaceMinimum`   | the minimum of a risk plus b·θ, b spherical Laplace (Algorithm 1)        |

A release is made from public facts, stored by the ledger, priced by the accountant and carried out
by the gate.  What its noise rests on is booked with it: a ``bound``, how far one record moves what
is released, or the parameters of an objective.  So ``law``, the law of the noise, is known before
anything is read; ``noise(query)`` gives it for what fits the booking and refuses everything else.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from scipy.special import ndtri

from dpinfer.errors import BudgetError, InputError, PrivacyError
from dpinfer.mechanisms.histograms import BoundedCounts, LevelCounts
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import SLACK, BoundedSum
from dpinfer.numerics.noise_laws import (
    NO_NOISE,
    Gaussian,
    Laplace,
    Law,
    SphericalLaplace,
    noise_sd,
)
from dpinfer.privacy.budget import ZCDP, NoPrivacy, PureDP, Share

MASK = 1e-3
"""The part of a share that hides how far a float minimum is from the real one."""

_NDTRI = (
    2.0**-37
)  # a bound of the error of floats in a normal quantile: see `dpinfer.privacy.noise`
_FAINT = 1e-6  # share of a bound: noise that would show nowhere
_NOISE = {PureDP: "spherical Laplace noise", ZCDP: "Gaussian noise", NoPrivacy: "no noise"}


@dataclass(frozen=True)
class NoisySum:
    """A sum over records plus the share's noise, scaled to ``bound``, in every entry.

    ``bound`` is the most that the sum may move between neighbouring data sets.
    """

    step: str
    share: Share
    bound: float

    def __post_init__(self) -> None:
        _require_bound(self.bound)

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return f"a sum over records plus {_NOISE[type(self.share)]}"

    @property
    def law(self) -> Law:
        """The law of what is added; the bound is raised by what rounding may add to it."""
        return self.share.noise(_raised(self.bound))

    @property
    def noise_sd(self) -> float:
        """Return the standard deviation of Gaussian noise; without noise a faint one to divide by."""
        if isinstance(self.share, NoPrivacy):
            return _FAINT * self.bound
        return noise_sd(self.law)

    def noise(self, query: BoundedSum) -> Law:
        """Return the law of what is added to a sum.

        Guarantee [booked_bound]: a sum, histogram, tally of levels or minimum that may move by more
        than was booked is refused before a record is read.
        """
        _require_within(self.bound, query.bound, self.step)
        return self.law


@dataclass(frozen=True)
class ScaledSum:
    """A sum whose bound an earlier release of the same fit decides, plus the share's noise.

    As that of squared scores at released coefficients, which is smaller where they are small.
    Nothing is known of the bound when the sum is booked: the noise is scaled to it when the sum is
    carried out.
    """

    step: str
    share: Share

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return f"a sum over records plus {_NOISE[type(self.share)]}"

    def scaled_to(self, bound: float) -> Law:
        """Return the law of what is added to a sum of this bound."""
        return self.share.noise(_raised(bound))

    def noise(self, query: BoundedSum) -> Law:
        """Return the law of what is added to a sum."""
        return self.scaled_to(query.bound)


@dataclass(frozen=True)
class NoisyCounts:
    """A histogram of records plus independent Laplace noise in each count.

    For pure shares, where it is less than the spherical noise of a sum; Gaussian noise is the same
    for both.  ``bound`` is the most that the sizes of the changes of its counts add up to.
    """

    step: str
    share: PureDP
    bound: float

    def __post_init__(self) -> None:
        if not isinstance(self.share, PureDP):
            raise BudgetError(
                "counts with Laplace noise take a pure share: for another one book a NoisySum"
            )
        _require_bound(self.bound)

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return "counts of records plus Laplace noise"

    @property
    def law(self) -> Law:
        """The law of what is added to each count.

        Guarantee [laplace_counts]: rate ε over what the changes of the counts add up to, so that it
        is ε-private.
        """
        return Laplace(self.share.epsilon / _raised(self.bound))

    def noise(self, counts: BoundedCounts) -> Law:
        """Return the law of what is added to each count of a histogram, which moves by no more than
        was booked.
        """
        _require_within(self.bound, counts.l1_bound, self.step)
        return self.law


@dataclass(frozen=True)
class ShownLevels:
    """The levels that occur in a column whose number of units plus Gaussian noise exceeds a
    threshold.

    The noise is paid by the share.  ``delta`` pays for the threshold: which levels occur at all
    depends on the records.  ``bound`` is how far the counts move.
    """

    step: str
    share: ZCDP
    delta: float
    bound: float

    def __post_init__(self) -> None:
        if not isinstance(self.share, ZCDP) or not (
            isinstance(self.delta, float) and 0 < self.delta < 1
        ):
            raise BudgetError(
                "levels are paid by a zCDP share and a delta strictly between 0 and 1"
            )
        _require_bound(self.bound)

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return (
            f"levels whose count plus Gaussian noise clears a threshold, delta = {self.delta:.6g}"
        )

    @property
    def law(self) -> Gaussian:
        """The law of what is added to the count of each level that occurs."""
        return Gaussian(_raised(self.bound) / math.sqrt(2 * self.share.rho))

    def noise(self, tally: LevelCounts) -> Gaussian:
        """Return the law of what is added to each count of a tally, which moves by no more than was
        booked.
        """
        _require_within(self.bound, tally.bound, self.step)
        return self.law

    @property
    def threshold(self) -> float:
        """The number that a noisy count must exceed.

        Which levels occur is private: one is shown only where its noisy count clears a threshold
        (Korolova, Kenthapadi, Mishra and Ntoulas, 2009).

        Guarantee [rare_levels]: a level of one unit exceeds it with chance at most δ; so all that
        is shown is δ-nearly a Gaussian release of the share (docs/method.md, section 9).
        """
        quantile = -float(ndtri(self.delta))
        return 1.0 + self.law.scale * (quantile + _NDTRI * (1 + abs(quantile)))


@dataclass(frozen=True)
class NoisyMinimum:
    """The minimum of a risk plus the share's noise, scaled to ``bound``.

    ``bound`` is how far one record moves the minimum; 0 where noise is off, and no bound is needed.
    """

    step: str
    share: Share
    bound: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.share, NoPrivacy):
            _require_bound(self.bound)

    @classmethod
    def of(cls, step: str, share: Share, risk: Risk) -> "NoisyMinimum":
        """Return the release for a risk; `BudgetError` if its minimum has no bound."""
        if isinstance(share, NoPrivacy):
            return cls(step, share)
        return cls(step, share, risk.minimiser_sensitivity())

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return f"output perturbation, {_NOISE[type(self.share)]}"

    @property
    def law(self) -> Law:
        """The law of what is added."""
        return self.share.noise(_raised(self.bound))

    def noise(self, risk: Risk) -> Law:
        """Return the law of what is added to the minimum of a risk, which moves by no more than was
        booked.
        """
        if isinstance(self.share, NoPrivacy):
            return NO_NOISE
        _require_within(self.bound, risk.minimiser_sensitivity(), self.step)
        return self.law


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
        """Return the noise that a share buys for a risk; `BudgetError` if it buys none."""
        scale = risk.perturbation_scale((1 - MASK) * share.rho)
        return cls(step, share, risk.perturbed(scale), math.sqrt(2 * MASK * share.rho))

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return "objective perturbation, Gaussian noise"

    def noise(self, risk: Risk) -> Law:
        """Return the law of b.  The risk must be the one that was booked: the cost rests on its
        curvature and ridge.
        """
        _require_same_ratio(self.objective.k, risk, self.step)
        if risk.shape != self.objective.shape:
            raise _another_loss(self.step)
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
        """Return the noise that a share buys for a risk; a zCDP share runs at ε = sqrt(2ρ).
        `BudgetError` if it buys none.
        """
        epsilon = share.pure().epsilon
        rate = risk.perturbation_rate((1 - MASK) * epsilon, sharp=sharp)
        return cls(
            step,
            share,
            rate=rate * risk.loss.slope_bound,
            k=risk.loss.curvature_bound / risk.ridge,
            mask=MASK * epsilon,
            sharp=sharp and risk.curvature_is_free((1 - MASK) * epsilon),
            units=risk.neighbours.units,
        )

    def cost(self) -> float:
        """Return ε by its own parameters; the curvature is free for the logistic loss where ncε >=
        1, that is 2 rate >= 8k.
        """
        without_curvature = 2 * self.rate + self.mask
        if self.sharp and self.rate >= 4 * self.k * (1 - 1e-12):
            return without_curvature
        return without_curvature + (self.k if self.units else math.log1p(self.k))

    @property
    def mechanism(self) -> str:
        """A description of what is done."""
        return "objective perturbation, spherical Laplace noise"

    def noise(self, risk: Risk) -> Law:
        """Return the law of b, for the risk that was booked."""
        _require_same_ratio(self.k, risk, self.step)
        if self.sharp and slope_kind(risk.loss) != "logistic":
            raise _another_loss(self.step)
        if self.units != risk.neighbours.units:
            raise _another_loss(self.step)
        return SphericalLaplace(self.rate / risk.loss.slope_bound)


Minimum = NoisyMinimum | PerturbedMinimum | LaplaceMinimum
Additive = NoisySum | ScaledSum | NoisyMinimum | ShownLevels
"""Releases whose loss is that of the noise of their share, those of levels but for their δ."""
Release = NoisySum | ScaledSum | NoisyCounts | ShownLevels | Minimum


def delta_of(releases: Iterable[Release]) -> float:
    """Return what the levels among the releases take of a total's δ."""
    return math.fsum(release.delta for release in releases if isinstance(release, ShownLevels))


def _raised(bound: float) -> float:
    """Return a bound in real numbers as one that holds for sums of floats on a grid."""
    return bound * (1 + SLACK)


def _require_bound(bound: object) -> None:
    if not (isinstance(bound, float) and 0 < bound < math.inf):
        raise BudgetError(
            f"the bound of a release is a positive finite float, not {bound!r}: take that of its sum"
        )


def _require_within(limit: float, bound: float, step: str) -> None:
    if not bound <= limit:
        raise PrivacyError(
            f"the step {step!r} was booked with the bound {limit:.6g}, and its release may move by "
            f"{bound:.6g}: nothing was released"
        )


def _require_same_ratio(k: float, risk: Risk, step: str) -> None:
    if risk.loss.curvature_bound / risk.ridge != k:
        raise PrivacyError(
            f"the step {step!r} was booked with another ridge or loss than that of its release"
        )


def _another_loss(step: str) -> PrivacyError:
    return PrivacyError(
        f"the step {step!r} was booked for another loss or unit than that of its release"
    )


def grid(bound: float, m: int) -> float:
    """Return the step of the public grid that a release of m numbers lies on: the largest power of
    two that is at most 2⁻¹² bound/sqrt(m), exactly.
    """
    if not 0 < bound < math.inf or m < 1:
        raise InputError("a grid needs a positive finite bound and one coordinate or more")
    square = Fraction(bound) ** 2 / (m << 24)
    exponent = square.numerator.bit_length() - square.denominator.bit_length()
    if square < Fraction(2) ** exponent:
        exponent -= 1  # now 2^exponent <= square < 2^(exponent + 1)
    if exponent // 2 < -1074:
        raise InputError(
            f"the bound {bound!r} is too small for a grid of doubles: measure in smaller units"
        )
    return math.ldexp(1.0, exponent // 2)


_ROOM = 2**48


def has_room(records: int, numbers: int, *, counts: bool = False) -> bool:
    """Whether whole numbers of 64 bits have room for a release of m ``numbers``, each a sum over so
    many records; ``counts`` are those with Laplace noise in each.

    A sum is at most ``records`` times its bound, and a step of the grid is above 2⁻¹³ of the bound
    over sqrt(m), or over m where counts have noise each: so all are below 2⁶¹ steps.
    """
    root = math.isqrt(numbers - 1) + 1
    return records * (numbers if counts else root) <= _ROOM
