"""A normal law of the error whose intervals are longer than that by given amounts, at each end its own."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from dpinfer.maths.arrays import Array


@dataclass(frozen=True, eq=False)
class AllowedLaw:
    """The law of target - estimate: N(0, sampling + noise), with ``below`` and ``above`` allowed for at the two ends.

    The allowances are for what is not random, as a bias of known size and unknown sign.  The seed makes `sample` a
    function of the result alone; it has nothing to do with the privacy noise.
    """

    sampling: Array
    noise: Array
    below: Array
    above: Array
    draws: int
    seed: int

    def covariance(self) -> Array:
        """Sampling variance plus noise variance."""
        return np.asarray(self.sampling + self.noise)

    @property
    def _std_error(self) -> Array:
        return np.sqrt(np.diag(self.covariance()))

    def noise_share(self) -> Array:
        """The part of each variance that is privacy noise, from 0 to 1."""
        return np.asarray(1 - np.clip(np.diag(self.sampling) / np.diag(self.covariance()), 0.0, 1.0))

    def mapped(self, matrix: Array) -> "AllowedLaw":
        """The law of matrix @ (target - estimate); what is allowed at an end follows the signs."""
        up, down = np.maximum(matrix, 0.0), np.maximum(-matrix, 0.0)
        return replace(
            self,
            sampling=matrix @ self.sampling @ matrix.T,
            noise=matrix @ self.noise @ matrix.T,
            below=up @ self.below + down @ self.above,
            above=up @ self.above + down @ self.below,
        )

    def sample(self) -> Array:
        """``draws`` errors, one a row, each moved outwards by what is allowed there; the same ones each time."""
        rng = np.random.default_rng([self.seed, 1])
        values, vectors = np.linalg.eigh(self.covariance())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        errors = rng.standard_normal((self.draws, len(values))) @ root.T
        return np.asarray(errors + np.where(errors > 0, self.above, -self.below))

    def interval(self, estimate: Array, level: float) -> Array:
        """Normal quantiles, and what is allowed at each end."""
        half = -ndtri((1 - level) / 2) * self._std_error
        return np.stack([estimate - half - self.below, estimate + half + self.above], axis=1)

    def p_values(self, estimate: Array) -> Array:
        """Two-sided p-values of "this coefficient is 0": 1 less the largest level whose interval excludes it."""
        clear = np.abs(estimate) - np.where(estimate > 0, self.below, self.above)
        return np.asarray(2 * ndtr(-np.maximum(clear, 0.0) / self._std_error))


def no_law(seed: int) -> AllowedLaw:
    """The law of no coefficient at all: everything was set aside."""
    return AllowedLaw(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0), np.zeros(0), 1, seed)
