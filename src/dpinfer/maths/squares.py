"""Least squares through bounded sums: a crude line, and the influence of a record on it, clipped.

| symbol | meaning                                                          | name in code |
| ------ | ---------------------------------------------------------------- | ------------ |
| u, w   | a row in its geometry, and its weight, w‖u‖² <= 1                |              |
| r      | residual y - u·t from the released line t                        |              |
| w‖u‖r  | a record's influence on the score                                |              |
| b      | the clip: influences are pulled into [-b, b]                     | `clip`       |
| ψ      | r pulled into the band ± b/(w‖u‖)                                |              |
| a_H²…  | squared weights of curvature and score covariance in the stack   | `Stack`      |

For squared loss a Newton step from any point is exact: no minimum has to be found.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpinfer.errors import PrivacyError
from dpinfer.maths.arrays import Array, unsvec
from dpinfer.neighbours import Neighbours

_SURE_PART = 0.2  # the least eigenvalue of whitened moments a record that a crude line trusts
_SIGNAL = 0.1  # the variance of a scaled outcome that a line is expected to explain


@dataclass(frozen=True)
class Stack:
    """The squared weights a_H², a_S² of the two matrices beside the score, for a notion of
    neighbours.
    """

    curvature: float
    score: float
    neighbours: Neighbours

    @classmethod
    def of(cls, neighbours: Neighbours) -> "Stack":
        """Where one record is replaced the score moves most, and there the matrices do not move at
        all.
        """
        return cls(0.5, 0.45, neighbours) if neighbours.counted else cls(0.25, 0.15, neighbours)

    @property
    def bound(self) -> float:
        """The most that a score of norm 1 and the two matrices move together.

        With c the cosine of the two rows the square is at most 2 + 2c + a_S²(2 - 2c²) + a_H² max(2
        - 2c², 1), if a_S² is at most 1/2: 4 + a_H² at c = 1, or less at c = 1/(2(a_H² + a_S²)).
        """
        h, s = self.curvature, self.score
        if s > 0.5:
            raise PrivacyError("the weight of the score covariance is at most 1/2 in this proof")
        if not self.neighbours.counted:
            return math.sqrt(1 + h + s)
        inner = min(math.sqrt(0.5), 1 / (2 * (h + s)))
        apart = 2 + 2 * inner + (h + s) * (2 - 2 * inner**2)
        return math.sqrt(max(4 + h, apart))

    def steer(self, released: Array, dim: int, clip: float) -> tuple[Array, Array]:
        """Score and curvature, in units of the outcome, from the release."""
        m = dim * (dim + 1) // 2
        return clip * released[:dim], unsvec(released[dim : dim + m], dim) / math.sqrt(
            self.curvature
        )

    def split(self, released: Array, dim: int, clip: float) -> tuple[Array, Array, Array]:
        """Score, curvature and score covariance, in units of the outcome, from the release."""
        score, curvature = self.steer(released, dim, clip)
        m = dim * (dim + 1) // 2
        return score, curvature, clip**2 * unsvec(released[dim + m :], dim) / math.sqrt(self.score)


def crude_line(moments: Array, score: Array, noise: Array, n: float) -> Array:
    """Coefficients of whitened columns from noisy moments and a noisy score of a scaled outcome; a
    ridge.

    ``noise`` is the covariance of the noise of the score.  Eigenvalues of the moments are raised to
    a fifth of n, and a coefficient is expected to have a variance of .1/d.  A bad line costs
    length, never validity.
    """
    d = len(moments)
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, _SURE_PART * n)
    error = float(np.trace(noise)) / d + _SIGNAL * n
    along = vectors.T @ score
    return np.asarray(vectors @ (values * along / (values**2 + error * d / _SIGNAL)))
