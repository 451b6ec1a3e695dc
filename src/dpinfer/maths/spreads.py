"""Whether the outcomes of some records spread more than those of others, by released sums at a line.

A group with a longer tail than the others loses more by a clip than one law for all tells, and no
count of all records shows it.  The score covariance does, as far as the clip lets it.

| symbol | meaning                                                           | name in code  |
| ------ | ----------------------------------------------------------------- | ------------- |
| H, V   | released Σ w μ u uᵀ and Σ w² ψ² u uᵀ, ψ a clipped residual        | `information`, `squares` |
| v      | v·u = 1 for some records, 0 for others; v₀·u = 1 for all of them  | `everybody`   |
| φ      | Σ w² ψ²/Σ w μ over some records, over that of all: their spread   |               |
| b      | the clip: w‖u‖|ψ| <= b                                            | `clip`        |

Post-processing of released values only.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer.maths.arrays import Array, solved
from dpinfer.maths.moments import SURE, raised

DOUBTFUL = 1.0
"""Deviations of its noise by which one spread must exceed another to be allowed for."""
_CLEAR = 2.0  # deviations of its noise: the least information that spreads are divided by


@dataclass(frozen=True)
class Known:
    """A number and the variance of its noise, sampling included."""

    value: float
    variance: float

    def less(self, other: "Known") -> "Known":
        """The difference of two that are independent."""
        return Known(self.value - other.value, self.variance + other.variance)

    def times(self, factor: float) -> "Known":
        """The same in other units."""
        return Known(factor * self.value, factor**2 * self.variance)


@dataclass(frozen=True, eq=False)
class Spreads:
    """H and V with the scales of their noise; spreads are over that of all records."""

    information: Array
    squares: Array
    information_noise: float
    squares_noise: float
    everybody: Array
    clip: float

    @cached_property
    def _of_all(self) -> float:
        squares = max(float(np.trace(self.squares)), self.squares_noise)
        return squares / max(float(np.trace(self.information)), self.information_noise)

    @cached_property
    def _inverse(self) -> Array:
        """Of the information, as far as noise lets it be inverted."""
        least = max(self.information_noise, float(np.finfo(float).tiny))
        return solved(raised(self.information, least), np.eye(len(self.everybody)))

    def of_some(self, v: Array, length2: float) -> Known:
        """φ of records that a combination picks, whose rows u have about this squared length.

        No record adds more than b²/‖u‖² to vᵀVv, which bounds its sampling variance.
        """
        size = float(v @ v)
        information = max(float(v @ self.information @ v), _CLEAR * self.information_noise * size)
        squares = float(v @ self.squares @ v)
        value = squares / information
        noise = math.hypot(self.squares_noise, value * self.information_noise) * size
        sampled = self.clip**2 / length2 * max(squares, 0.0)
        unit = self._of_all
        return Known(value / unit, (noise**2 + sampled) / (information * unit) ** 2)

    def along(self, toward: Array, length2: float) -> Known:
        """By how much φ grows along a change of u, where it is a straight line of u: the weighted
        regression of w ψ²/μ on u, H⁻¹ V v₀.  Rows have about this squared length, which bounds its
        sampling variance as that of `of_some`.
        """
        at = self._inverse @ toward
        line = self._inverse @ (self.squares @ self.everybody)
        variance = self.squares_noise**2 * _moved(at, self.everybody)
        variance += self.information_noise**2 * _moved(at, line)
        variance += self.clip**2 / length2 * max(float(at @ self.squares @ at), 0.0)
        unit = self._of_all
        return Known(float(toward @ line) / unit, variance / unit**2)


def _moved(one: Array, other: Array) -> float:
    """The variance of oneᵀ N other, N the symmetric noise of scale 1 of a released matrix."""
    return (float(one @ one) * float(other @ other) + float(one @ other) ** 2) / 2


_GRID = (np.arange(200) + 0.5) / 200
# how likely parts are before anything is seen: small ones more so, as in real tables what is cut off
# goes with means by less than one law says (docs/counts.md)
_PRIOR = (1 - _GRID) ** 2
UNKNOWN_PART = Known(0.25, 3 / 80)
"""A part of which nothing is known."""


def part_of_one(seen: Known) -> Known:
    """A part from 0 to 1 given a noisy measurement of it."""
    deviation = max(math.sqrt(seen.variance), 1e-6)
    off = ((_GRID - seen.value) / deviation) ** 2 / 2
    weights = _PRIOR * np.exp(off.min() - off)
    weights /= weights.sum()
    mean = float(weights @ _GRID)
    return Known(mean, float(weights @ (_GRID - mean) ** 2))


def unexplained(seen: Known, explained: tuple[float, float]) -> Known:
    """What is left of a difference of spreads that may be any one between two for good reasons."""
    low, high = sorted(explained)
    return Known(seen.value - min(max(seen.value, low), high), seen.variance)


def beyond_doubt(gap: Known, deviations: float = SURE) -> float:
    """A gap less so many deviations of its noise, 0 if that is more."""
    least = abs(gap.value) - deviations * math.sqrt(gap.variance)
    return math.copysign(max(least, 0.0), gap.value)
