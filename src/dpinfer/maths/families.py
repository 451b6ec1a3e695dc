"""Links between a linear predictor and the mean of an outcome, and what one record adds to a step at a released line.

| symbol | meaning                                                             | name in code  |
| ------ | ------------------------------------------------------------------- | ------------- |
| t, η   | a released line of (1, x), and the predictor x·t                    | `Line.coef`   |
| h      | the mean of the outcome at η; |h''| <= h'                           | `mean`        |
| m      | the farthest an outcome can be from its mean; infinite if unbounded | `farthest`    |
| A      | a released matrix: the geometry                                     | `Line.matrix` |
| v, r   | sqrt(h') A x and (y - h)/sqrt(h'): score v r, curvature v vᵀ        |               |
| B      | the largest influence ‖A x‖ m of an outcome on the score            | `Line.most`   |
| w      | min(1, 1/‖v‖², B/(‖A x‖ m)): what a record counts                   |               |

A step a moves the score from Σ w v r to Σ w v r - H a - R, where R = Σ w v (h(η + z) - h(η) - h'(η) z)/sqrt(h') with
z = x·a.  R has no outcome in it; for the identity it is 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import row_weights

_FARTHEST = 30.0  # of a linear predictor: beyond, a probability is as good as 0 or 1
_TINY = np.finfo(float).tiny

OfPredictor = Callable[[Array], Array]


def _mean(eta: Array) -> Array:
    return np.asarray(expit(eta))


def _slope(eta: Array) -> Array:
    return np.asarray(expit(eta) * expit(-eta))


def _rarer(eta: Array) -> Array:
    return np.asarray(expit(np.abs(eta)))


def _same(eta: Array) -> Array:
    return eta


def _unbounded(eta: Array) -> Array:
    return np.full_like(eta, np.inf)


@dataclass(frozen=True)
class Family:
    """A canonical link: ``mean`` and ``slope`` of the outcome at a predictor, and how far it can be from its mean.

    ``exact`` says that a step leaves nothing.  ``low`` and ``high`` are what the labels -1 and +1 stand for.
    """

    name: str
    mean: OfPredictor
    slope: OfPredictor
    farthest: OfPredictor
    exact: bool
    low: float
    high: float

    def outcome(self, labels: Array) -> Array:
        """The outcome of a label or of a scaled outcome."""
        return np.asarray((self.low + self.high) / 2 + (self.high - self.low) / 2 * labels)

    def weights(self, mapped: Array, predictor: Array, most: float) -> Array:
        """w of rows A x with their predictors."""
        eta = np.clip(predictor, -_FARTHEST, _FARTHEST) if not self.exact else predictor
        root = np.sqrt(self.slope(eta))
        by_length = row_weights(mapped * root[:, None])
        if self.exact:
            return by_length
        influence = np.sqrt(np.einsum("ij,ij->i", mapped, mapped)) * self.farthest(eta)
        return np.minimum(by_length, most / np.maximum(influence, _TINY))

    def left(self, eta: Array, z: Array) -> Array:
        """What a step z of the predictor leaves: h(η + z) - h(η) - h'(η) z."""
        return np.asarray(self.mean(eta + z) - self.mean(eta) - self.slope(eta) * z)


IDENTITY = Family("identity", _same, np.ones_like, _unbounded, exact=True, low=-1.0, high=1.0)
LOGIT = Family("logit", _mean, _slope, _rarer, exact=False, low=0.0, high=1.0)
FAMILIES = {family.name: family for family in (IDENTITY, LOGIT)}
