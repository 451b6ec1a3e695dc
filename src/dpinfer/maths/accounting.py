"""Costs of one privacy definition expressed in another (Bun and Steinke, 2016)."""

import numpy as np


def zcdp_from_pure(epsilon: float) -> float:
    """An ε-private release is ε²/2-zCDP."""
    return epsilon**2 / 2


def pure_from_zcdp(rho: float) -> float:
    """sqrt(2ρ): the ε at which a pure mechanism costs exactly ρ in zCDP."""
    return float(np.sqrt(2 * rho))


def epsilon_from_zcdp(rho: float, delta: float) -> float:
    """A ρ-zCDP release is (ρ + 2 sqrt(ρ log 1/δ), δ)-private."""
    return float(rho + 2 * np.sqrt(-rho * np.log(delta)))


def zcdp_from_approx(epsilon: float, delta: float) -> float:
    """The largest ρ whose conversion fits in (ε, δ): (sqrt(ε + log 1/δ) - sqrt(log 1/δ))²."""
    tail = -np.log(delta)
    return float((epsilon / (np.sqrt(epsilon + tail) + np.sqrt(tail))) ** 2)
