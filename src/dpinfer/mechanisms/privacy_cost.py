"""Costs of releases: pure, zCDP and (ε, δ) in terms of each other, and objective perturbation.

Gaussian objective perturbation is argmin of the risk plus b·θ, b ~ N(0, σ² I).

| symbol | meaning                                                           | name in code |
| ------ | ----------------------------------------------------------------- | ------------ |
| μ      | sensitivity of a Gaussian release over its deviation: ρ = μ²/2    | `mu`         |
| s      | σ/L: deviation of the noise over the bound of the slope           | `scale`      |
| k      | t/λ: bound of the curvature over the ridge                        | `k`          |
| κ      | log(1 + k), the most the determinant of the Hessian can move; k   | `kappa`      |
|        | for units with many rows                                          |              |
| D_α    | Rényi divergence of order α between the outputs on two neighbours | `renyi`      |
| u      | absolute slope of a record's loss, at most 1                      |              |

Adjacency differ in one record, or in one unit with many rows.  The proofs are in docs/method.md,
sections 1 and 8.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array, boundary
from dpinfer.numerics.reasons import Numerical

ORDERS: Numerical[Array] = np.geomspace(1e-2, 1e5, 301)
"""α - 1 of the orders at which divergences are compared; every order gives a valid ε, so a grid
will do.
"""

# What is known of the slope of a loss: see `PerturbedObjective`.
TWO_SIDED = "two-sided"
ONE_SIDED = "one-sided"
LOGISTIC = "logistic"
OF_UNITS = " of units"
"""Behind the shape of a loss: it is the mean over the rows of a unit, whose Hessian has any rank."""

_CELLS: Numerical[Array] = np.linspace(0.5, 1.0, 2049)  # of u
_NORMAL: Numerical[Array] = np.linspace(-12.0, 12.0, 2**14 + 1)
# of the cells between them, each side from its own tail
_MASS: Numerical[Array] = np.where(
    _NORMAL[1:] > 0, -np.diff(ndtr(-_NORMAL)), np.diff(ndtr(_NORMAL))
)
# times the scale without curvature: no noise larger than that is of use
_HUGE: Numerical[float] = 1e9
_TINY: Numerical[float] = 1e-12  # an ε of 0 is no budget; rounding it up keeps the promise
_SQRT_HALF: Numerical[float] = math.sqrt(0.5)
_SQRT_HALF_PI: Numerical[float] = math.sqrt(math.pi / 2)
_SQRT_2_PI: Numerical[float] = math.sqrt(2 * math.pi)
_UNIT: Numerical[float] = 2.0**-49  # 16 units in the last place, for the few roundings of a formula
_SUMMED: Numerical[float] = 2.0**-44  # for the cells of a sum and their chances
_VANISHING: Numerical[float] = 1e-307  # what is smaller may vanish
_FAR: Numerical[float] = 1e6  # deviations: nothing is left beyond
_SMALL_MU: Numerical[float] = 0.05
# places in [0, 1] and weights of the rule with four places
_GAUSS: Numerical[list[tuple[float, float]]] = [
    ((1 + place) / 2, weight / 2)
    for place, weight in zip(*np.polynomial.legendre.leggauss(4), strict=True)
]
_FLAT: Numerical[float] = 1e-12  # of k: below it the two bounds of D_α/α are 2/s² up to k²


def zcdp_from_pure(epsilon: float) -> float:
    """An ε-private release is ε²/2-zCDP (Bun and Steinke, 2016)."""
    return epsilon**2 / 2


def pure_from_zcdp(rho: float) -> float:
    """sqrt(2ρ): the ε at which a pure mechanism costs exactly ρ in zCDP."""
    return math.sqrt(2 * rho)


def epsilon_at(beyond: Array, divergence: Array, delta: float) -> Array:
    """The ε at δ that a Rényi divergence of order α = 1 + ``beyond`` gives (Canonne, Kamath and
    Steinke, 2020), rounded up.

    The few roundings of the formula are each a part in 10¹⁶ of one of its terms.

    Guarantee [renyi_conversion]: at least the ε of real numbers.
    """
    lost = np.log1p(1 / beyond)
    log_delta = -math.log(delta) / beyond
    log_order = np.log1p(beyond) / beyond
    error = _UNIT * (np.abs(divergence) + lost + log_delta + log_order)
    return np.asarray(divergence - lost + log_delta - log_order + error)


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
    order = lowest_near(lambda log_order: float(epsilon(log_order)), best, 0.05)
    classical = (rho + 2 * math.sqrt(-rho * math.log(delta))) * (1 + _UNIT)
    return max(_TINY, min(float(epsilon(order)), classical))


def lowest_near(function: Callable[[float], float], centre: float, step: float) -> float:
    """Return the minimiser of a unimodal function within a ``step`` of ``centre``.

    A third of the bracket, which cannot hold the minimum, goes 60 times: 10⁻¹¹ of it is left.
    """
    low, high = centre - step, centre + step
    for _ in range(60):
        third = (high - low) / 3
        if function(low + third) < function(high - third):
            high -= third
        else:
            low += third
    return low


@lru_cache(maxsize=1024)
def zcdp_from_approx(epsilon: float, delta: float) -> float:
    """The largest ρ whose `epsilon_from_zcdp` is at most ε, less a part in 10¹².

    The part covers the rounding of whatever is computed from the shares of ρ later.
    """
    tail = -math.log(delta)
    # by the formula of Bun and Steinke, which never gives less than `epsilon_from_zcdp`
    paid = (epsilon / (math.sqrt(epsilon + tail) + math.sqrt(tail))) ** 2 * (1 - 1e-12)
    unpaid = 8 * paid + 8 * epsilon
    pays = boundary(lambda rho: epsilon_from_zcdp(rho, delta) <= epsilon, paid, unpaid, 1e-13)[0]
    return pays * (1 - 1e-12)


def gaussian_delta(epsilon: Array | float, mu: float) -> Array:
    """δ at ε >= 0 of a Gaussian release of parameter μ > 0 (Balle and Wang, 2018), never too small.
    Such releases add up in μ².

    Φ(-x) - e^ε Φ(-y) = e^(-x²/2) (m(x) - m(y))/√(2π) with x = ε/μ - μ/2, y = x + μ and Mills' ratio
    m: e^ε, which may be large, is gone.  Where μ is small, and m(x) nearly m(y), their difference is
    the integral of -m'(z) = 1 - z m(z), by a rule of Gauss that errs by less than a part in 10¹⁶.
    What floats may be off, some units in the last place times (1 + |x|)(1 + y), is added.

    Guarantee [gaussian_profile]: at least the δ of real numbers.
    """
    centre = np.clip(np.asarray(epsilon, dtype=np.float64) / mu, 0.0, _FAR)
    x = np.maximum(centre - mu / 2, -_FAR)
    y = centre + mu / 2
    density = np.exp(-x * x / 2)
    if mu < _SMALL_MU:
        places = [x + mu * place for place, _ in _GAUSS]
        slopes = [
            weight * (1 - z * _mills(z)) for z, (_, weight) in zip(places, _GAUSS, strict=True)
        ]
        found = density * mu * np.sum(slopes, axis=0)
        largest = found
    else:
        # the ratio itself overflows far below 0
        largest = np.where(
            x > 0, density * _mills(np.maximum(x, 0.0)), _SQRT_2_PI * ndtr(np.maximum(-x, 0.0))
        )
        found = largest - density * _mills(y)
    error = _UNIT * (largest + found * (1 + np.abs(x)) * (1 + y))
    return np.asarray(np.minimum(1.0, (found + error) / _SQRT_2_PI + _VANISHING))


def _mills(x: Array) -> Array:
    """Mills' ratio: Φ(-x) over the normal density at x."""
    return np.asarray(_SQRT_HALF_PI * erfcx(x * _SQRT_HALF))


@dataclass(frozen=True)
class PerturbedObjective:
    """One release by Gaussian objective perturbation, as its cost sees it.

    ``shape`` says what is known of the slope: "two-sided" nothing but its bound; "one-sided" that
    it is a margin loss whose slope is never positive; "logistic" that also the curvature is u(1 -
    u) where the slope is -u; " of units" behind one of them that it is a mean over the rows of a
    unit.
    """

    scale: float
    k: float
    shape: str

    def __post_init__(self) -> None:
        if self.slope not in (TWO_SIDED, ONE_SIDED, LOGISTIC):
            raise InputError(
                "nothing is known of the cost of objective perturbation with such a slope"
            )

    @property
    def slope(self) -> str:
        """Return what is known of the slope of a row's loss."""
        return self.shape.removesuffix(OF_UNITS)

    @property
    def units(self) -> bool:
        """Return whether a neighbour differs in many rows."""
        return self.shape.endswith(OF_UNITS)

    @property
    def kappa(self) -> float:
        """log(1 + k), or for units of any rank the limit k of r log(1 + k/r)."""
        return self.k if self.units else math.log1p(self.k)

    @property
    def signs(self) -> int:
        """Return how many signs the slope may have: 2 for "two-sided" losses, else 1."""
        return 2 if self.slope == TWO_SIDED else 1

    @property
    def lower_limit(self) -> float:
        """2/s²: neither bound of D_α/α is ever below it."""
        return 2 / self.scale / self.scale

    def growing(self, beyond: float) -> float:
        """A bound of D_α/α for α = 1 + ``beyond`` < 1 + 1/k that grows with α.

        2/s² - log(1 - α(α-1) k²/(1+k))/(α(α-1)).  For the logistic loss the slopes u₁, u₂ of the
        two records and their curvatures are coupled: max over u₁ of u₁²/s² + (log(1+p) - p/(1+p)),
        p = u₁(1-u₁)/λ, plus the same over u₂ with the divided difference of -log(1 - xq) at x = -1,
        0, α-1.  Both are over u in [1/2, 1], as below 1/2 slope and curvature are no larger than
        there.  Each maximum is taken over cells, with the slope at the right end of a cell and the
        curvature at its left end, so it is never too small.  For units the coupled form holds as it
        is; the other one where k sqrt(α) <= 1, and beyond it 2/s² + k²/2 + ψ(k)/(α(α-1)), ψ(q) =
        -(α-1) log(1+q) - log(1 - (α-1)q).
        """
        if beyond * self.k >= 1:
            return math.inf
        if self.slope != LOGISTIC:
            return self._growing_free(beyond)
        return min(self._growing_free(beyond), self._growing_coupled(beyond))

    def _growing_free(self, beyond: float) -> float:
        """`growing` where slope and curvature of a record may be any that their bounds allow."""
        k = self.k
        x = beyond * (1 + beyond)
        if self.units and k**2 * (1 + beyond) > 1:
            psi = -(beyond * math.log1p(k) + math.log1p(-beyond * k))
            return self.lower_limit + k**2 / 2 + psi / x
        lost = x * k**2 / (1 + k)
        if lost >= 1:
            return math.inf
        return self.lower_limit - math.log1p(-lost) / x

    def _growing_coupled(self, beyond: float) -> float:
        """`growing` where the curvature of a record follows from its slope."""
        x = beyond * (1 + beyond)
        steep = _CELLS[1:] ** 2 * (1 / self.scale / self.scale)
        q = 4 * self.k * _CELLS[:-1] * (1 - _CELLS[:-1])
        psi = -(beyond * np.log1p(q) + np.log1p(-beyond * q))
        bent = psi / x + 1e-15 * q  # the last term covers rounding
        return float((steep + q**2 / 2).max() + (steep + bent).max())

    def falling(self, beyond: float) -> float:
        """A bound of D_α/α for every α = 1 + ``beyond`` that falls with α.

        The divergence of the loss of which `delta` is the profile.
        """
        alpha = 1 + beyond
        if self.signs == 2:
            extra = math.log1p(math.erf(math.sqrt(2) * beyond / self.scale))
        else:
            no_loss = log_ndtr(-1 / self.scale) - self.lower_limit * alpha * beyond
            below = log_ndtr(-(1 + 2 * beyond) / self.scale)
            extra = math.log1p(math.exp(no_loss) - math.exp(below))
        return float(self.lower_limit + self.kappa / alpha + extra / (alpha * beyond))

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
        if self.k < _FLAT:
            return self.lower_limit + 3 * self.k**2  # above both limits, 2 k² and 1.6 k²

        def gap(log_beyond: float) -> float:
            """Above 0 where the growing bound is the larger one."""
            beyond = math.exp(log_beyond)
            return math.log(self.growing(beyond) / self.falling(beyond))

        low, high = map(math.log, self._range)
        if gap(low) < 0 < gap(high):
            meeting = _root(gap, low, high, 1e-12)
        elif gap(high) <= 0:
            meeting = high  # the falling bound is the larger one everywhere, and smallest here
        else:
            meeting = low  # the growing bound is the larger one everywhere, and smallest here
        # valid at any order, so an error of the search costs length and never the promise
        beyond = math.exp(meeting)
        return max(self.growing(beyond), self.falling(beyond))

    def excess(self, rho: float) -> float:
        """Below 0 where `cost` is below ρ, and 0 where it is ρ, up to the rounding of a search.

        log(growing/ρ) at the least order at which the falling bound is at most ρ: a single look at
        the growing bound, which takes time, so ten times as fast as the cost itself.
        """
        if self.k < _FLAT:
            return math.log(self.cost() / rho)

        def above(log_beyond: float) -> float:
            return self.falling(math.exp(log_beyond)) - rho

        # the ends are judged as the search sees them: exp(log(x)) is not x to the last bit
        low, high = map(math.log, self._range)
        if above(high) > 0:
            end = math.exp(high)
            return math.log(max(self.growing(end), self.falling(end)) / rho)
        if above(low) <= 0:
            return math.log(self.growing(math.exp(low)) / rho)
        meeting = math.exp(_root(above, low, high, 1e-13))
        return math.log(self.growing(meeting) / rho)

    def costs_more_than(self, rho: float) -> bool:
        """Return whether `cost` exceeds ρ by more than a part in 10¹²; any cost exceeds a ρ that is not
        positive.
        """
        if not rho > 0:
            return True
        return not self.excess(rho) <= 0

    @property
    def _range(self) -> tuple[float, float]:
        """α - 1 of the orders between which the two bounds are compared; the growing one ends at
        1/k.
        """
        return 1e-6 / self.k, (1 - 1e-9) / self.k

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
        return float(min(1.0, ((h * _MASS).sum() + 2 * ndtr(_NORMAL[0])) * (1 + _SUMMED)))

    def epsilon(self, delta: float, mu: float = 0.0) -> float:
        """The ε at δ of this release together with one Gaussian release of parameter μ.

        The smaller of two valid ones: from the privacy profile, and from the best Rényi order.
        """
        by_order = epsilon_from_renyi(self.divergences() + (1 + ORDERS) * mu**2 / 2, delta)
        if self.delta(by_order, mu) > delta:
            return by_order
        return boundary(lambda epsilon: self.delta(epsilon, mu) <= delta, by_order, 0.0, 1e-9)[0]

    def divergences(self) -> Array:
        """`renyi` at the `ORDERS`."""
        return _divergences(self)


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
    lower_limit = (signs - 1) * 2 / scale**2  # the smallest loss there is
    at_least = 2 * ndtr(-1 / scale)  # 2 e^least Φ(-signs/s)
    if signs == 2:
        at_least = erfcx(math.sqrt(2) / scale)
    below = np.minimum(1.0, 1 - np.exp(np.minimum(a - lower_limit, 0.0)) * at_least + _UNIT)
    return np.asarray(
        np.where(
            a >= lower_limit, signs * gaussian_delta(np.maximum(a, lower_limit), 2 / scale), below
        )
    )


@lru_cache(maxsize=1024)
def perturbed_objective_scale(rho: float, k: float, shape: str) -> float:
    """The smallest scale, up to rounding, whose cost is at most ρ; infinite if no scale is large
    enough.
    """

    def release(log_scale: float) -> PerturbedObjective:
        return PerturbedObjective(math.exp(log_scale), k, shape)

    def excess(log_scale: float) -> float:
        return release(log_scale).excess(rho)

    without_curvature = math.sqrt(2 / rho)
    enough = 2 * without_curvature
    while excess(math.log(enough)) > 0:
        enough *= 16
        if enough > _HUGE * without_curvature:
            return math.inf
    log_scale = math.log(without_curvature)
    if excess(log_scale) > 0:
        log_scale = _root(excess, log_scale, math.log(enough), 1e-12)
    # the root may be on either side: go on until the cost itself says that ρ pays
    step = 1e-12
    while release(log_scale).cost() > rho:
        log_scale += step
        step *= 2
    return math.exp(log_scale)


@lru_cache(maxsize=1024)
def largest_curvature_ratio(rho: float, shape: str) -> float:
    """The largest k = t/λ that a share ρ can pay for with any scale at all."""
    largest = _HUGE * math.sqrt(2 / rho)

    def paid(k: float) -> bool:
        return PerturbedObjective(largest, k, shape).cost() <= rho

    return boundary(paid, 0.0, 1e6, 1e-9)[1]
