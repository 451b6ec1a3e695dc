"""A normal law of the error around a bias that is only bounded, at each end by its own amount."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from dpinfer.maths.arrays import Array
from dpinfer.maths.error import simultaneous
from dpinfer.maths.search import boundary

_PRECISE = 1e-13  # relative width of the bracket of a quantile


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

    def band(self, estimate: Array, level: float) -> Array:
        """Sup-t bands of the law without allowances, longer by each one's own at its ends."""
        nothing = np.zeros_like(self.below)
        plain = simultaneous(estimate, replace(self, below=nothing, above=nothing), level)
        return np.asarray(plain + np.stack([-self.below, self.above], axis=1))

    @property
    def _middle(self) -> Array:
        """The middle of what is allowed for, from the estimate."""
        return np.asarray((self.above - self.below) / 2)

    @property
    def _bias(self) -> Array:
        """The largest bias around that middle, in standard errors."""
        return np.asarray((self.above + self.below) / 2 / np.maximum(self._std_error, np.finfo(float).tiny))

    def interval(self, estimate: Array, level: float) -> Array:
        """The shortest interval around the middle that covers at this level whatever the bias."""
        half = np.array([folded_quantile(one, level) for one in self._bias.tolist()]) * self._std_error
        return np.stack([estimate + self._middle - half, estimate + self._middle + half], axis=1)

    def p_values(self, estimate: Array) -> Array:
        """Two-sided p-values of "this coefficient is 0": 1 less the largest level whose interval excludes it."""
        away = np.abs(estimate + self._middle) / np.maximum(self._std_error, np.finfo(float).tiny)
        return np.asarray(ndtr(self._bias - away) + ndtr(-self._bias - away))


def folded_quantile(bias: float, level: float) -> float:
    """c with P(|Z + bias| <= c) = level for a standard normal Z: bias plus a two-sided quantile at most.

    It is less by up to the distance to the one-sided quantile, for a bias that moves one end out moves the other in.  A
    smaller bias is covered more often.
    """

    def short(c: float) -> bool:
        return bool(ndtr(c - bias) - ndtr(-c - bias) < level)

    return boundary(short, 0.0, bias - float(ndtri((1 - level) / 2)), _PRECISE)[1]
