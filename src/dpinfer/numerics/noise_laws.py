"""The laws of privacy noise: public values that can be printed, drawn from and integrated over."""

from dataclasses import dataclass

import numpy as np

from dpinfer.numerics.arrays import Array, Randomness


@dataclass(frozen=True)
class Gaussian:
    """N(0, scale² I).  A scale of 0 is no noise at all."""

    scale: float

    def sample(self, rng: Randomness, shape: tuple[int, ...]) -> Array:
        """Draw vectors along the last axis of ``shape``."""
        return self.scale * rng.standard_normal(shape)

    def variance(self, dim: int) -> float:  # noqa: ARG002  (one signature for all laws)
        """Return the variance of one coordinate."""
        return self.scale**2


@dataclass(frozen=True)
class SphericalLaplace:
    """Density proportional to exp(-rate ‖b‖): direction uniform, radius Gamma(shape dim, scale
    1/rate).
    """

    rate: float

    def sample(self, rng: Randomness, shape: tuple[int, ...]) -> Array:
        """Draw vectors along the last axis of ``shape``."""
        direction = rng.standard_normal(shape)
        direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
        radius = rng.standard_exponential(shape).sum(axis=-1, keepdims=True) / self.rate
        return np.asarray(direction * radius)

    def variance(self, dim: int) -> float:
        """Return the variance of one coordinate: E‖b‖²/dim = (dim + 1)/rate²."""
        return (dim + 1) / self.rate**2


@dataclass(frozen=True)
class Laplace:
    """Independent numbers, each of density rate/2 exp(-rate |b|)."""

    rate: float

    def sample(self, rng: Randomness, shape: tuple[int, ...]) -> Array:
        """Draw numbers."""
        difference = rng.standard_exponential(shape) - rng.standard_exponential(shape)
        return np.asarray(difference / self.rate)

    def variance(self, dim: int) -> float:  # noqa: ARG002  (one signature for all laws)
        """Return the variance of one number."""
        return 2 / self.rate**2


Law = Gaussian | SphericalLaplace | Laplace
"""The laws of the noise of a release."""


NO_NOISE = Gaussian(0.0)
"""The law where noise is off."""


def noise_sd(law: Law) -> float:
    """Return the standard deviation of each number of Gaussian noise."""
    assert isinstance(law, Gaussian)
    return law.scale
