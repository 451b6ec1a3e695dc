"""The only privacy randomness: the operating system's, asked anew for every draw, so forks never share noise."""

import os

import numpy as np
from scipy.special import ndtri

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Randomness


class SystemRandomness:
    """Normal and exponential numbers from 52-bit uniforms of the operating system's generator."""

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Independent N(0, 1) numbers, by inversion."""
        return np.asarray(ndtri(_uniform(size)))

    def standard_exponential(self, size: tuple[int, ...], /) -> Array:
        """Independent exponential numbers with mean 1, by inversion."""
        return -np.log(_uniform(size))


def privacy_randomness(insecure_seed: int | None) -> Randomness:
    """The operating system's randomness, or for tests a seeded generator that protects nobody.

    Guarantee [fresh_noise]: without a seed no two draws, processes or forks share a state.
    """
    if insecure_seed is None:
        return SystemRandomness()
    if isinstance(insecure_seed, bool) or not isinstance(insecure_seed, int) or insecure_seed < 0:
        raise InputError(f"insecure_seed must be a whole number >= 0, not {insecure_seed!r}")
    return np.random.default_rng(insecure_seed)


def _uniform(size: tuple[int, ...]) -> Array:
    """Midpoints of 2⁵² equal cells of (0, 1), all exact: never 0, never 1."""
    words = np.frombuffer(os.urandom(8 * int(np.prod(size))), dtype=np.uint64)
    return ((words >> np.uint64(12)).astype(np.float64).reshape(size) + 0.5) / 2.0**52
