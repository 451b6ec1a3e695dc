"""Costs in terms of each other: pure, zCDP and (ε, δ) (Bun and Steinke, 2016), and the Gaussian release."""

import math
from functools import lru_cache

from scipy.special import log_ndtr, ndtr

_TINY = 1e-12  # an ε of 0 is no budget; rounding it up keeps the promise


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


@lru_cache(maxsize=1024)
def zcdp_of_gaussian(epsilon: float, delta: float) -> float:
    """The largest ρ = μ²/2 at which a Gaussian release, of sensitivity μ times its deviation, is (ε, δ)-private.

    Gaussian releases compose to one by adding their ρ.
    """
    low, high = 0.0, 1e3 + 10 * epsilon
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        mu = math.sqrt(2 * middle)
        spent = ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))
        low, high = (middle, high) if spent <= delta else (low, middle)
    return low
