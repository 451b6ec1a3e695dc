"""Canonical links: the mean of an outcome at a linear predictor, its slope, and what a score counts."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from dpinfer.numerics.arrays import Array

FARTHEST = 30.0
"""The largest size of a linear predictor: beyond, a probability is as good as 0 or 1."""
FARTHEST_OFFSET = 30.0
"""The largest distance of an offset from its public upper bound: one farther below is clipped."""


OfArray = Callable[[Array], Array]


def _logistic(eta: Array) -> Array:
    return np.asarray(expit(eta))


def _logistic_slope(mean: Array) -> Array:
    return np.asarray(mean * (1 - mean))


def _rarer(mean: Array) -> Array:
    return np.maximum(mean, 1 - mean)


def _logistic_cumulant(eta: Array) -> Array:
    return np.logaddexp(0.0, eta)


def _same(eta: Array) -> Array:
    return eta


def _no_bends(mean: Array) -> tuple[Array, Array]:
    return np.zeros_like(mean), np.zeros_like(mean)


def _logistic_bends(mean: Array) -> tuple[Array, Array]:
    slope = mean * (1 - mean)
    return slope * (1 - 2 * mean), slope * (1 - 6 * slope)


def _same_bends(mean: Array) -> tuple[Array, Array]:
    return mean, mean


def _half_square(eta: Array) -> Array:
    return np.asarray(eta**2 / 2)


def _exponential(eta: Array) -> Array:
    return np.asarray(np.exp(eta))


@dataclass(frozen=True)
class Family:
    """A canonical link: the ``mean`` of the outcome at a predictor and, as functions of that mean,
    its ``slope``, how far an outcome can be from it, and the two derivatives of the slope along the
    predictor, its ``bends``.

    For a canonical link the slope is the variance of the outcome, and |h''| <= h'; the log
    likelihood of a record is yη less the ``cumulant`` at η, whose slope is the mean.  ``exact`` says
    that a step leaves nothing, ``counts`` that an outcome is a number of events.  ``low`` and
    ``high`` are what the labels -1 and +1 stand for.
    """

    name: str
    cumulant: OfArray
    mean: OfArray
    slope: OfArray
    farthest: OfArray | None
    bends: Callable[[Array], tuple[Array, Array]]
    exact: bool
    low: float
    high: float
    counts: bool = False

    def outcome(self, labels: Array) -> Array:
        """Return the outcome of a label or of a scaled outcome."""
        return np.asarray((self.low + self.high) / 2 + (self.high - self.low) / 2 * labels)

    def left(self, eta: Array, z: Array) -> Array:
        """Return the remainder of a step z of the predictor: h(η + z) - h(η) - h'(η) z."""
        mean = self.mean(eta)
        return np.asarray(self.mean(eta + z) - mean - self.slope(mean) * z)


IDENTITY = Family(
    name="identity",
    cumulant=_half_square,
    mean=_same,
    slope=np.ones_like,
    farthest=None,
    bends=_no_bends,
    exact=True,
    low=-1.0,
    high=1.0,
)


LOGIT = Family(
    name="logit",
    cumulant=_logistic_cumulant,
    mean=_logistic,
    slope=_logistic_slope,
    farthest=_rarer,
    bends=_logistic_bends,
    exact=False,
    low=0.0,
    high=1.0,
)


LOG = Family(
    name="log",
    cumulant=_exponential,
    mean=_exponential,
    slope=_same,
    farthest=None,
    bends=_same_bends,
    exact=False,
    low=-1.0,
    high=1.0,
    counts=True,
)


HAZARD = replace(LOG, name="hazard")
"""Events of a person in an interval of time: a Poisson likelihood, with the logarithm of the time as an offset."""


FAMILIES = {family.name: family for family in (IDENTITY, LOGIT, LOG, HAZARD)}
