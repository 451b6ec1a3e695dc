"""What releases cost: pure, zCDP and (ε, δ) in terms of each other, Gaussian noise, Gaussian
objective perturbation.

Objective perturbation is argmin of the risk plus b·θ, b ~ N(0, σ² I).

| symbol | meaning                                                           | name in code |
| ------ | ----------------------------------------------------------------- | ------------ |
| μ      | sensitivity of a Gaussian release over its deviation: ρ = μ²/2    | `mu`         |
| s      | σ/L: deviation of the noise over the bound of the slope           | `scale`      |
| k      | t/λ: bound of the curvature over the ridge                        | `k`          |
| κ      | log(1 + k), the most the determinant of the Hessian can move; k   | `kappa`      |
|        | for units with many rows                                          |              |
| D_α    | Rényi divergence of order α between the outputs on two neighbours | `renyi`      |
| u      | absolute slope of a record's loss, at most 1                      |              |

Neighbours differ in one record, or in one unit with many rows.  The proofs are in docs/method.md,
sections 1 and 8.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, boundary

ORDERS = np.geomspace(1e-2, 1e5, 301)
"""α - 1 of the orders at which divergences are compared; every order gives a valid ε, so a grid
will do.
"""
OF_UNITS = " of units"
"""Behind the shape of a loss: it is the mean over the rows of a unit, whose Hessian has any rank.
"""
# c of the losses whose curvature is known where the slope is; ledgers of earlier versions have
# entries of a capped
# logistic loss, which is read and counted, and fitted no more
_CAPS = {"logistic": 1.0, "capped": 0.8}
_CELLS = {shape: np.linspace(1 / (2 * c), 1.0, 2049) for shape, c in _CAPS.items()}  # of u
_NORMAL = np.linspace(-12.0, 12.0, 2**14 + 1)
_MASS = np.where(
    _NORMAL[1:] > 0, -np.diff(ndtr(-_NORMAL)), np.diff(ndtr(_NORMAL))
)  # each side from its own tail
_HUGE = 1e9  # times the scale without curvature: no noise larger than that is of use
_TINY = 1e-12  # an ε of 0 is no budget; rounding it up keeps the promise


def zcdp_from_pure(epsilon: float) -> float:
    """An ε-private release is ε²/2-zCDP (Bun and Steinke, 2016)."""
    return epsilon**2 / 2


def pure_from_zcdp(rho: float) -> float:
    """sqrt(2ρ): the ε at which a pure mechanism costs exactly ρ in zCDP."""
    return math.sqrt(2 * rho)


def epsilon_at(beyond: Array, divergence: Array, delta: float) -> Array:
    """The ε at δ that a Rényi divergence of order α = 1 + ``beyond`` gives (Canonne, Kamath and
    Steinke, 2020).
    """
    return np.asarray(
        divergence - np.log1p(1 / beyond) - (math.log(delta) + np.log1p(beyond)) / beyond
    )


def epsilon_from_renyi(divergences: Array, delta: float) -> float:
    """The best ε at δ of divergences at the `ORDERS`."""
    return max(0.0, float(epsilon_at(ORDERS, divergences, delta).min()))


@lru_cache(maxsize=1024)
def epsilon_from_zcdp(rho: float, delta: float) -> float:
    """The ε of a ρ-zCDP release at δ, by the best order.

    Every order gives a valid ε, so the search needs no certificate; and the ε of Bun and Steinke,
    ρ + 2 sqrt(ρ log 1/δ), which is valid too, is never exceeded.
    """

    def epsilon(log_order: Array | float) -> Array:
        beyond = np.exp(log_order)  # α - 1
        return epsilon_at(beyond, rho * (1 + beyond), delta)

    steps = math.log(-math.log(delta) / rho) / 2 + np.arange(-200, 201) / 20
    best = float(steps[epsilon(steps).argmin()])
    low, high = best - 0.05, best + 0.05
    for _ in range(60):
        third = (high - low) / 3
        low, high = (
            (low, high - third)
            if epsilon(low + third) < epsilon(high - third)
            else (low + third, high)
        )
    classical = rho + 2 * math.sqrt(-rho * math.log(delta))
    return max(_TINY, min(float(epsilon(low)), classical))


@lru_cache(maxsize=1024)
def zcdp_from_approx(epsilon: float, delta: float) -> float:
    """The largest ρ whose `epsilon_from_zcdp` is at most ε."""
    tail = -math.log(delta)
    low = (epsilon / (math.sqrt(epsilon + tail) + math.sqrt(tail))) ** 2 * (
        1 - 1e-12
    )  # Bun and Steinke's
    return boundary(
        lambda rho: epsilon_from_zcdp(rho, delta) <= epsilon, low, 8 * low + 8 * epsilon, 1e-13
    )[0]


def gaussian_delta(epsilon: Array | float, mu: float) -> Array:
    """δ at ε >= 0 of a Gaussian release of parameter μ (Balle and Wang, 2018).  Such releases add
    up in μ².
    """
    return np.asarray(
        ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
    )


@dataclass(frozen=True)
class PerturbedObjective:
    """One release by Gaussian objective perturbation, as its cost sees it.

    ``shape`` says what is known of the slope: "two-sided" nothing but its bound; "one-sided" that
    it is a margin loss whose slope is never positive; "logistic" that also the curvature is u(1 -
    u) where the slope is -u; "capped" that it is u(1 - .8u), or less, as in fits of earlier
    versions; " of units" behind one of them that it is a mean over the rows of a unit.
    """

    scale: float
    k: float
    shape: str

    def __post_init__(self) -> None:
        if self.slope not in ("two-sided", "one-sided", "logistic", "capped"):
            raise InputError(
                "nothing is known of the cost of objective perturbation with such a slope"
            )

    @property
    def slope(self) -> str:
        """What is known of the slope of a row's loss."""
        return self.shape.removesuffix(OF_UNITS)

    @property
    def units(self) -> bool:
        """Whether a neighbour differs in many rows."""
        return self.shape.endswith(OF_UNITS)

    @property
    def kappa(self) -> float:
        """log(1 + k), or for units of any rank the limit k of r log(1 + k/r)."""
        return self.k if self.units else math.log1p(self.k)

    @property
    def signs(self) -> int:
        """How many signs the slope may have: 2 for "two-sided" losses, else 1."""
        return 2 if self.slope == "two-sided" else 1

    def growing(self, beyond: float) -> float:
        """A bound of D_α/α for α = 1 + ``beyond`` < 1 + 1/k that grows with α.

        2/s² - log(1 - α(α-1) k²/(1+k))/(α(α-1)).  For the logistic loss (c = 1) and the capped one
        the slopes u₁, u₂ of the two records and their curvatures are coupled: max over u₁ of u₁²/s²
        + (log(1+p) - p/(1+p)), p = u₁(1-cu₁)/λ, plus the same over u₂ with the divided difference
        of -log(1 - xq) at x = -1, 0, α-1.  Both are over u in [1/(2c), 1], as below 1/(2c) slope
        and curvature are no larger than there.  Each maximum is taken over cells, with the slope at
        the right end of a cell and the curvature at its left end, so it is never too small.  For
        units the coupled form holds as it is; the other one where k sqrt(α) <= 1, and beyond it
        2/s² + k²/2 + ψ(k)/(α(α-1)), ψ(q) = -(α-1) log(1+q) - log(1 - (α-1)q).
        """
        if beyond * self.k >= 1:
            return math.inf
        base, x = 1 / self.scale / self.scale, beyond * (1 + beyond)
        lost = x * self.k**2 / (1 + self.k)
        free = 2 * base - math.log1p(-lost) / x if lost < 1 else math.inf
        if self.units and self.k**2 * (1 + beyond) > 1:
            free = (
                2 * base
                + self.k**2 / 2
                - (beyond * math.log1p(self.k) + math.log1p(-beyond * self.k)) / x
            )
        if self.slope not in _CAPS:
            return free
        c, cells = _CAPS[self.slope], _CELLS[self.slope]
        steep = cells[1:] ** 2 * base
        q = 4 * c * self.k * cells[:-1] * (1 - c * cells[:-1])
        bent = (
            -(beyond * np.log1p(q) + np.log1p(-beyond * q)) / x + 1e-15 * q
        )  # the last term covers rounding
        return min(free, float((steep + q**2 / 2).max() + (steep + bent).max()))

    def falling(self, beyond: float) -> float:
        """A bound of D_α/α for every α = 1 + ``beyond`` that falls with α.

        The divergence of the loss of which `delta` is the profile.
        """
        alpha, base = 1 + beyond, self.least
        if self.signs == 2:
            extra = math.log1p(math.erf(math.sqrt(2) * beyond / self.scale))
        else:
            first, second = (
                log_ndtr(-1 / self.scale) - base * alpha * beyond,
                log_ndtr(-(1 + 2 * beyond) / self.scale),
            )
            extra = math.log1p(math.exp(first) - math.exp(second))
        return float(base + self.kappa / alpha + extra / (alpha * beyond))

    def renyi(self, beyond: float) -> float:
        """A bound of D_α for α = 1 + ``beyond``."""
        return (1 + beyond) * min(self.growing(beyond), self.falling(beyond))

    def cost(self) -> float:
        """The smallest ρ that the two bounds certify: D_α <= ρα at every order.

        One bound of D_α/α grows with α and the other falls, so the larger of the two at any one α
        holds at every order:  below it by the first, above it by the second.  The best α is where
        they meet; no grid, no margin.

        Guarantee [gaussian_objective_perturbation]: the release is zCDP at this cost.
        """
        if self.k < 1e-12:
            return self.least + 3 * self.k**2  # above both limits, 2 k² and 1.6 k²

        def gap(log_beyond: float) -> float:
            beyond = math.exp(log_beyond)
            return math.log(self.growing(beyond) / self.falling(beyond))

        low, high = math.log(1e-6 / self.k), math.log((1 - 1e-9) / self.k)
        meet = gap(low) < 0 < gap(high)
        best = math.exp(_root(gap, low, high, 1e-12) if meet else high if gap(high) <= 0 else low)
        return max(self.growing(best), self.falling(best))

    def excess(self, rho: float) -> float:
        """Below 0 where `cost` is below ρ, and 0 where it is ρ: with one look at the bound that
        takes time.

        log(growing/ρ) at the least order at which the falling bound is at most ρ.
        """
        if self.k < 1e-12:
            return math.log(self.cost() / rho)
        low, high = 1e-6 / self.k, (1 - 1e-9) / self.k
        if self.falling(high) > rho:
            return math.log(max(self.growing(high), self.falling(high)) / rho)
        if self.falling(low) > rho:
            low = math.exp(
                _root(
                    lambda x: self.falling(math.exp(x)) - rho, math.log(low), math.log(high), 1e-13
                )
            )
        return math.log(self.growing(low) / rho)

    def delta(self, epsilon: float, mu: float = 0.0) -> float:
        """δ at ε of this release together with one Gaussian release of parameter μ.

        δ(ε) <= h(ε - κ) alone, and E h(ε - κ - μZ - μ²/2) composed, Z standard normal.  h is the
        profile of the loss max(0, ℓ), ℓ = 2/s² + 2Z/s that of a Gaussian release of sensitivity 2;
        of 2/s² + 2|Z|/s where the slope has either sign.  h falls, so the upper sum over cells of Z
        is a bound.

        Guarantee [privacy_profile]: the releases together are (ε, δ)-differentially private.
        """
        if mu == 0:
            return float(_profile(np.array([epsilon - self.kappa]), self.scale, self.signs)[0])
        h = _profile(epsilon - self.kappa - mu * _NORMAL[1:] - mu**2 / 2, self.scale, self.signs)
        return float(min(1.0, (h * _MASS).sum() + 2 * ndtr(_NORMAL[0])))

    def epsilon(self, delta: float, mu: float = 0.0) -> float:
        """The ε at δ of this release together with one Gaussian release of parameter μ.

        The smaller of two valid ones: from the privacy profile, and from the best Rényi order.
        """
        most = epsilon_from_renyi(self.divergences() + (1 + ORDERS) * mu**2 / 2, delta)
        if self.delta(most, mu) > delta:
            return most
        return boundary(lambda epsilon: self.delta(epsilon, mu) <= delta, most, 0.0, 1e-9)[0]

    def divergences(self) -> Array:
        """`renyi` at the `ORDERS`."""
        return _divergences(self)

    @property
    def least(self) -> float:
        """2/s²: neither bound of D_α/α is ever below it."""
        return 2 / self.scale / self.scale


@lru_cache(maxsize=1024)
def _divergences(release: PerturbedObjective) -> Array:
    return np.array([release.renyi(beyond) for beyond in ORDERS])


def _root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415  (slow to load)

    return float(brentq(function, low, high, xtol=tolerance))


def _profile(a: Array, scale: float, signs: int) -> Array:
    """h(a): δ at a of the loss max(0, 2/s² + 2Z/s), or of 2/s² + 2|Z|/s where the slope has two
    signs.
    """
    least = (signs - 1) * 2 / scale**2  # the smallest loss there is
    below = 1 - 2 * np.exp(np.minimum(a, least) + log_ndtr(-signs / scale))
    return np.asarray(
        np.where(a >= least, signs * gaussian_delta(np.maximum(a, least), 2 / scale), below)
    )


def _smallest(release: Callable[[float], PerturbedObjective], rho: float) -> float:
    """The smallest scale, up to rounding, whose release costs at most ρ; infinite if no scale is
    large enough.
    """
    least, most = math.sqrt(2 / rho), 2 * math.sqrt(2 / rho)
    while release(most).excess(rho) > 0:
        most *= 16
        if most > _HUGE * least:
            return math.inf

    def excess(log_scale: float) -> float:
        return release(math.exp(log_scale)).excess(rho)

    found, step = math.log(least), 1e-12
    found = _root(excess, found, math.log(most), 1e-12) if excess(found) > 0 else found
    while release(math.exp(found)).cost() > rho:
        found, step = found + step, 2 * step
    return math.exp(found)


@lru_cache(maxsize=1024)
def perturbed_objective_scale(rho: float, k: float, shape: str) -> float:
    """The smallest scale whose cost is at most ρ; infinite if no scale is large enough."""
    return _smallest(lambda scale: PerturbedObjective(scale, k, shape), rho)


@lru_cache(maxsize=1024)
def largest_curvature_ratio(rho: float, shape: str) -> float:
    """The largest k = t/λ that a share ρ can pay for with any scale at all."""
    largest = _HUGE * math.sqrt(2 / rho)
    return boundary(lambda k: PerturbedObjective(largest, k, shape).cost() <= rho, 0.0, 1e6, 1e-9)[
        1
    ]
