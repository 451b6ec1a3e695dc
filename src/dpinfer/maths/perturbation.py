"""What Gaussian objective perturbation costs: argmin of the risk plus b·θ, b ~ N(0, σ² I).

| symbol | meaning                                                           | name in code |
| ------ | ----------------------------------------------------------------- | ------------ |
| s      | σ/L: deviation of the noise over the bound of the slope           | `scale`      |
| k      | t/λ: bound of the curvature over the ridge                        | `k`          |
| κ      | log(1 + k), the most the determinant of the Hessian can move      | `kappa`      |
| D_α    | Rényi divergence of order α between the outputs on two neighbours | `renyi`      |
| u      | absolute slope of a record's loss, at most 1                      |              |

Neighbours differ in one record.  The proofs are in docs/method.md, section 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpinfer.maths.arrays import Array

_CELLS = np.linspace(0.5, 1.0, 2049)  # of u: below 1/2 both the slope and, by symmetry, the curvature are no larger
_ORDERS = np.geomspace(1e-2, 1e5, 301)  # α - 1; any order is valid, so a grid will do
_NORMAL = np.linspace(-12.0, 12.0, 2**14 + 1)
_MASS = np.where(_NORMAL[1:] > 0, -np.diff(ndtr(-_NORMAL)), np.diff(ndtr(_NORMAL)))  # each side from its own tail
_HUGE = 1e9  # times the scale without curvature: no noise larger than that is of use


@dataclass(frozen=True)
class PerturbedObjective:
    """One release by Gaussian objective perturbation, as its cost sees it.

    ``shape`` says what is known of the slope: "two-sided" nothing but its bound; "one-sided" that it is a margin loss
    whose slope is never positive; "logistic" that also the curvature is u(1 - u) where the slope is -u.
    """

    scale: float
    k: float
    shape: str

    @property
    def kappa(self) -> float:
        """log(1 + k)."""
        return math.log1p(self.k)

    def growing(self, beyond: float) -> float:
        """A bound of D_α/α for α = 1 + ``beyond`` < 1 + 1/k that grows with α.

        2/s² - log(1 - α(α-1) k²/(1+k))/(α(α-1)).  For the logistic loss the slopes u₁, u₂ of the two records and their
        curvatures are coupled: max over u₁ of u₁²/s² + (log(1+p) - p/(1+p)), p = u₁(1-u₁)/λ, plus the same over u₂ with
        the divided difference of -log(1 - xq) at x = -1, 0, α-1.  Each maximum is taken over cells, with the slope at
        the right end of a cell and the curvature at its left end, so it is never too small.
        """
        if beyond * self.k >= 1:
            return math.inf
        base, x = 1 / self.scale / self.scale, beyond * (1 + beyond)
        lost = x * self.k**2 / (1 + self.k)
        free = 2 * base - math.log1p(-lost) / x if lost < 1 else math.inf
        if self.shape != "logistic":
            return free
        steep = _CELLS[1:] ** 2 * base
        q = 4 * self.k * _CELLS[:-1] * (1 - _CELLS[:-1])
        bent = -(beyond * np.log1p(q) + np.log1p(-beyond * q)) / x + 1e-15 * q  # the last term covers rounding
        return min(free, float((steep + q**2 / 2).max() + (steep + bent).max()))

    def falling(self, beyond: float) -> float:
        """A bound of D_α/α for every α = 1 + ``beyond`` that falls with α."""
        alpha, base = 1 + beyond, 2 / self.scale / self.scale
        power = base * alpha * beyond
        if self.shape == "two-sided":  # four vertices: slopes of either sign
            extra = math.log(2 * (1 + math.exp(-power)))
        else:
            extra = math.log1p(
                math.exp(log_ndtr(-1 / self.scale) - power) - math.exp(log_ndtr(-(1 + 2 * beyond) / self.scale))
            )
        return float(base + self.kappa / alpha + extra / (alpha * beyond))

    def renyi(self, beyond: float) -> float:
        """A bound of D_α for α = 1 + ``beyond``."""
        return (1 + beyond) * min(self.growing(beyond), self.falling(beyond))

    def cost(self) -> float:
        """The smallest ρ that the two bounds certify: D_α <= ρα at every order.

        One bound of D_α/α grows with α and the other falls, so the larger of the two at any one α holds at every order:
        below it by the first, above it by the second.  The best α is where they meet; no grid, no margin.

        Guarantee [gaussian_objective_perturbation]: the release is zCDP at this cost.
        """
        if self.k < 1e-12:
            return 2 / self.scale / self.scale + 3 * self.k**2  # above both limits, 2.6 k² and 1.6 k²

        def gap(log_beyond: float) -> float:
            beyond = math.exp(log_beyond)
            return math.log(self.growing(beyond) / self.falling(beyond))

        low, high = math.log(1e-6 / self.k), math.log((1 - 1e-9) / self.k)
        if gap(high) <= 0 or gap(low) >= 0:  # they do not meet
            best = math.exp(high if gap(high) <= 0 else low)
        else:
            best = math.exp(_root(gap, low, high, 1e-9))
        return max(self.growing(best), self.falling(best))

    def delta(self, epsilon: float, mu: float = 0.0) -> float:
        """δ at ε of this release together with one Gaussian release of parameter μ; 1 for two-sided losses.

        The loss is at most κ + max(0, ℓ), ℓ that of a Gaussian release of sensitivity 2, so δ(ε) <= h(ε - κ) alone and
        E h(ε - κ - μZ - μ²/2) composed, Z standard normal.  h falls, so the upper sum over cells of Z is a bound.

        Guarantee [privacy_profile]: the releases together are (ε, δ)-differentially private.
        """
        if self.shape == "two-sided":
            return 1.0
        if mu == 0:
            return float(_profile(np.array([epsilon - self.kappa]), self.scale)[0])
        h = _profile(epsilon - self.kappa - mu * _NORMAL[1:] - mu**2 / 2, self.scale)
        return float(min(1.0, h @ _MASS + 2 * ndtr(_NORMAL[0])))

    def epsilon(self, delta: float, mu: float = 0.0) -> float:
        """The ε at δ of this release together with one Gaussian release of parameter μ.

        The smaller of two valid ones: from the privacy profile, and from the best Rényi order.
        """
        low, high = 0.0, self._epsilon_by_renyi(delta, mu)
        if self.delta(high, mu) > delta:
            return high
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle, mu) <= delta else (middle, high)
        return high

    def satisfies(self, epsilon: float, delta: float, mu: float = 0.0) -> bool:
        """Whether `epsilon` at ``delta`` and ``mu`` is at most ``epsilon``."""
        return self.delta(epsilon, mu) <= delta or self._epsilon_by_renyi(delta, mu) <= epsilon

    def _epsilon_by_renyi(self, delta: float, mu: float) -> float:
        divergence = np.array([self.renyi(b) + (1 + b) * mu**2 / 2 for b in _ORDERS])
        converted = divergence - np.log1p(1 / _ORDERS) - (math.log(delta) + np.log1p(_ORDERS)) / _ORDERS
        return max(0.0, float(converted.min()))


def _root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415  (slow to load)

    return float(brentq(function, low, high, xtol=tolerance))


def _profile(a: Array, scale: float) -> Array:
    """h(a): δ at a of the loss max(0, ℓ), ℓ that of a Gaussian release of sensitivity 2 and deviation ``scale``."""
    at = np.maximum(a, 0.0)
    above = ndtr(1 / scale - at * scale / 2) - np.exp(at + log_ndtr(-1 / scale - at * scale / 2))
    return np.asarray(np.where(a >= 0, above, 1 - 2 * np.exp(np.minimum(a, 0.0) + log_ndtr(-1 / scale))))


@lru_cache(maxsize=1024)
def perturbed_objective_scale(rho: float, k: float, shape: str) -> float:
    """The smallest scale whose cost is at most ρ; infinite if no scale is large enough."""
    least = math.sqrt(2 / rho)

    def excess(log_factor: float) -> float:
        return math.log(PerturbedObjective(least * math.exp(log_factor), k, shape).cost() / rho)

    if excess(math.log(_HUGE)) > 0:
        return math.inf
    log_factor = _root(excess, 0.0, math.log(_HUGE), 1e-13) if excess(0.0) > 0 else 0.0
    step = 1e-12
    while excess(log_factor) > 0:
        log_factor, step = log_factor + step, 2 * step
    return least * math.exp(log_factor)


@lru_cache(maxsize=1024)
def affordable_factor(epsilon: float, delta: float, rhos: tuple[float, float], k: float, shape: str) -> float:
    """By how much two zCDP shares may grow, to within a ten-thousandth, and still cost (ε, δ) together.

    As they are they must do so, by the conversion that holds for every zCDP release.  The first pays for objective
    perturbation (``shape`` as above), the second for a Gaussian release.
    """
    low, high = 1.0, 16.0
    while high > low * (1 + 1e-4):
        middle = math.sqrt(low * high)
        scale = perturbed_objective_scale(middle * rhos[0], k, shape)
        holds = PerturbedObjective(scale, k, shape).satisfies(epsilon, delta, math.sqrt(2 * middle * rhos[1]))
        low, high = (middle, high) if holds else (low, middle)
    return low


@lru_cache(maxsize=1024)
def largest_curvature_ratio(rho: float, shape: str) -> float:
    """The largest k = t/λ that a share ρ can pay for with any scale at all."""
    low, high = 0.0, 1e6
    while high - low > 1e-9 * high:
        middle = (low + high) / 2 if low else high / 2
        affordable = PerturbedObjective(_HUGE * math.sqrt(2 / rho), middle, shape).cost() <= rho
        low, high = (middle, high) if affordable else (low, middle)
    return high
