"""Costs: conversions between definitions (Bun and Steinke, 2016), and Gaussian objective perturbation in zCDP."""

import math
from functools import lru_cache

_TINY = 1e-12  # an ε of 0 is no budget; rounding it up keeps the promise
_HUGE = 1e9  # times the scale without curvature: no noise larger than that is of use


def zcdp_from_pure(epsilon: float) -> float:
    """An ε-private release is ε²/2-zCDP."""
    return epsilon**2 / 2


def pure_from_zcdp(rho: float) -> float:
    """sqrt(2ρ): the ε at which a pure mechanism costs exactly ρ in zCDP."""
    return math.sqrt(2 * rho)


@lru_cache(maxsize=1024)
def epsilon_from_zcdp(rho: float, delta: float) -> float:
    """The ε of a ρ-zCDP release at δ: the best Rényi order (Canonne, Kamath and Steinke, 2020).

    Every order α gives a valid ε = ρα + log(1 - 1/α) - (log δ + log α)/(α - 1), so the search needs no certificate; and
    the ε of Bun and Steinke, ρ + 2 sqrt(ρ log 1/δ), which is valid too, is never exceeded.
    """

    def epsilon(log_order: float) -> float:
        beyond = math.exp(log_order)  # α - 1
        return rho * (1 + beyond) - math.log1p(1 / beyond) - (math.log(delta) + math.log1p(beyond)) / beyond

    middle = math.log(-math.log(delta) / rho) / 2
    best = min((middle + step / 20 for step in range(-200, 201)), key=epsilon)
    low, high = best - 0.05, best + 0.05
    for _ in range(60):
        third = (high - low) / 3
        low, high = (low, high - third) if epsilon(low + third) < epsilon(high - third) else (low + third, high)
    classical = rho + 2 * math.sqrt(-rho * math.log(delta))
    return max(_TINY, min(epsilon(low), classical))


@lru_cache(maxsize=1024)
def zcdp_from_approx(epsilon: float, delta: float) -> float:
    """The largest ρ whose `epsilon_from_zcdp` is at most ε."""
    tail = -math.log(delta)
    low = (epsilon / (math.sqrt(epsilon + tail) + math.sqrt(tail))) ** 2 * (1 - 1e-12)  # Bun and Steinke's
    high = 8 * low + 8 * epsilon
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_from_zcdp(middle, delta) <= epsilon else (low, middle)
    return low


def perturbed_objective_cost(scale: float, k: float) -> float:
    """zCDP cost of objective perturbation with b ~ N(0, scale² I), for losses with slopes up to 1 and k = t/λ.

    For 1 < α < 1 + 1/k the Rényi divergence is at most
        T(α) = 2α/s² + log(1/(1 - α(α-1) k²/(1+k)))/(α-1),
    and for every α, with κ = log(1+k), at most
        A(α) = κ + 2α/s² + log(2 (1 + exp(-2α(α-1)/s²)))/(α-1)
    (four sign vertices: slopes of either sign).  T(α)/α grows with α and A(α)/α falls, so the larger of the two at any
    one α bounds the divergence over α at every order: no grid, no margin.  The best α is where they meet.

    Guarantee [gaussian_objective_perturbation]: argmin of the risk plus b·θ is zCDP at this cost.
    """
    base = 2 / scale / scale
    if k < 1e-12:
        return base + 3 * k**2  # above the limit 2.6 k²; below the accuracy of the search
    kappa, q = math.log1p(k), k**2 / (1 + k)

    def gap(alpha: float) -> float:
        return _growing(alpha, q) - _falling(alpha, kappa, base)

    low, high = 1 + 1e-9, 1 + 1 / k
    while high - low > 1e-12 * high:  # the curves cross once: T is below A near 1 and infinite at 1 + 1/k
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) < 0 else (low, middle)
    return float(base + max(_growing(low, q), _falling(low, kappa, base)))


@lru_cache(maxsize=1024)
def perturbed_objective_scale(rho: float, k: float) -> float:
    """The smallest scale whose `perturbed_objective_cost` is at most ρ; infinite if no scale is large enough."""
    low, high = math.sqrt(2 / rho), _HUGE * math.sqrt(2 / rho)
    if perturbed_objective_cost(high, k) > rho:
        return math.inf
    while high > low * (1 + 1e-12):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if perturbed_objective_cost(middle, k) <= rho else (middle, high)
    return float(high)


def largest_curvature_ratio(rho: float) -> float:
    """The largest k = t/λ that a share ρ can pay for with any scale at all."""
    low, high = 0.0, 1e6
    while high - low > 1e-9 * high:
        middle = (low + high) / 2 if low else high / 2
        low, high = (
            (middle, high) if perturbed_objective_cost(_HUGE * math.sqrt(2 / rho), middle) <= rho else (low, middle)
        )
    return high


def _growing(alpha: float, q: float) -> float:
    """T(α)/α without 2/s²."""
    x = alpha * (alpha - 1)
    return float(-math.log1p(-x * q) / x) if x * q < 1 else math.inf


def _falling(alpha: float, kappa: float, base: float) -> float:
    """A(α)/α without 2/s²."""
    x = alpha * (alpha - 1)
    return float(kappa / alpha + math.log(2 * (1 + math.exp(-base * x))) / x)
