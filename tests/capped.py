"""The capped logistic loss of earlier versions, whose entries in ledgers are still read and
counted.

The logistic score made as large as its bound allows.

A logistic score p - y has size 1 only where the model is quite wrong; noise is scaled to that 1 all
the same.  Here the score is v(p - y), v = min(1/c, 1/max(p, 1 - p)): still at most 1, never smaller
than p - y, and of mean 0 at the true p, so a right logistic model has the same coefficients.  With
L = logit c it is the slope of the margin loss

    f(z) = log(1 + exp(-z))/c + const for abs(z) <= L,     slope -1 below -L,     exp(-z) + const above L.

With u = -f' the curvature is u for u <= (1 - c)/c, else u(1 - cu), and 0 at u = 1: at most 1/(4c),
at u = 1/(2c).
"""

import math
from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import slope_kind

CAP = 0.8
"""c; 1 would be the logistic loss itself."""
EDGE = math.log(CAP / (1 - CAP))
"""L: the margin beyond which the score is capped."""
_LAST = math.log1p(1 / CAP - 1) / CAP - (1 / CAP - 1)  # f(L) of the middle piece less exp(-L)


@dataclass(frozen=True)
class CappedLogistic:
    """The capped logistic loss with c = .8."""

    slope_bound = 1.0
    curvature_bound = 0.25 / CAP
    nonincreasing = True

    def value(self, z: Array) -> Array:
        """log(1 + exp(-z))/c in the middle, linear below, exponential above; continuous."""
        middle = np.log1p(np.exp(-np.clip(z, -EDGE, EDGE))) / CAP
        return np.asarray(
            np.where(
                z > EDGE, np.exp(-np.maximum(z, EDGE)) + _LAST, middle + np.maximum(-EDGE - z, 0)
            )
        )

    def slope(self, z: Array) -> Array:
        """-min(1, S(-z)/c) up to L, -exp(-z) above."""
        odds = np.exp(-np.maximum(z, -EDGE))
        steep = odds / (CAP * (1 + odds))
        np.copyto(steep, odds, where=z > EDGE)
        return -np.minimum(steep, 1.0)

    def curvature(self, z: Array) -> Array:
        """0 below -L, S(z) S(-z)/c in the middle, exp(-z) above."""
        return self.slope_and_curvature(z)[1]

    def slope_and_curvature(self, z: Array) -> tuple[Array, Array]:
        """Both from one exponential."""
        odds, far = np.exp(-np.maximum(z, -EDGE)), z > EDGE
        steep = odds / (CAP * (1 + odds))
        bend = steep * (1 - CAP * steep)
        for part in (steep, bend):
            np.copyto(part, odds, where=far)
        np.copyto(bend, 0.0, where=z < -EDGE)
        return -np.minimum(steep, 1.0), bend


def kind_of(loss):
    """What the cost of objective perturbation may use of a loss, the capped one included."""
    return "capped" if isinstance(loss, CappedLogistic) else slope_kind(loss)
