"""The range of a column of which nothing is known, from noisy histograms.

1. magnitudes   counts between the powers of two, either sign   -> where counts are clear of the noise, and a bin more
2. zooms        counts in equal bins of that, and beyond it     -> without the ends that hold next to nothing
3. friendly     ends rounded outwards to a few digits

All of it is post-processing: it reads released counts and the law of their noise.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import BINS
from dpinfer.maths.laws import Gaussian, Law

ZOOMS = 2
"""Histograms after that of the magnitudes, each inside the last."""
OUTSIDE = 0.004
"""The share of units that may lie beyond either end."""
_LARGEST = 400  # of the powers of two that are told apart; beyond, double precision cannot square
_CHANCE = 0.002  # that noise alone passes for a magnitude of a column
_USUAL = 16  # powers of two beyond which a magnitude is less and less plausible: noise must pass for it less often
_SEEN = 2.0  # deviations of the noise by which counts at an end are told from nothing, or raised to an upper bound
_STEPS = 40  # rounding moves an end by at most this part of the range
_ZERO = 2 * _LARGEST + 1  # the place of the bin around 0

_POWERS = 2.0 ** np.arange(-_LARGEST, _LARGEST + 1)
MAGNITUDES = np.concatenate([-_POWERS[::-1], _POWERS])
"""The edges between the bins of magnitudes."""
_ENDS = np.concatenate([[2 * MAGNITUDES[0]], MAGNITUDES, [2 * MAGNITUDES[-1]]])
_SIZES = np.abs(np.log2(np.abs(np.insert(MAGNITUDES, _ZERO, 1.0))))  # of each bin, by the exponent of an edge
_PLAUSIBLE = (1 + _SIZES / _USUAL) ** -2.0
_CHANCES = _CHANCE * _PLAUSIBLE / _PLAUSIBLE.sum()  # of each bin


@dataclass(frozen=True)
class Range:
    """Where the values of a column are; ``beyond`` is the most units that may lie below and above, ``n`` all of them.

    They are numbers of units as the noisy counts tell them; ``beyond`` holds in about 19 of 20 columns.
    """

    low: float
    high: float
    n: float
    beyond: tuple[float, float] = (0.0, 0.0)

    @property
    def edges(self) -> Array:
        """The edges of a zoom: equal bins, and what lies beyond."""
        return np.asarray(np.linspace(self.low, self.high, BINS + 1))

    @property
    def clipped(self) -> float:
        """The largest share of units that the range may clip."""
        return min(1.0, sum(self.beyond) / self.n)


def clear_of(law: Law) -> Array:
    """What the count of each magnitude must exceed: noise alone does so with its chance, all together 1 in 500."""
    if isinstance(law, Gaussian):
        return np.asarray(-law.scale * ndtri(_CHANCES))
    return np.asarray(-np.log(2 * _CHANCES) / law.rate)


def magnitude(counts: Array, law: Law) -> Range | None:
    """The smallest range of magnitudes with all counts that are clear of the noise, and one more on either side.

    None where nothing is clear of it, or nothing but 0.
    """
    clear = np.flatnonzero(counts > clear_of(law))
    if not len(clear) or (clear == _ZERO).all():
        return None
    first, last = int(clear[0]), int(clear[-1])
    low = 0.0 if first == _ZERO else float(_ENDS[max(first - 1, 0)])
    high = float(_ENDS[last + 1 if last == _ZERO else min(last + 2, len(_ENDS) - 1)])  # a range ends before its end
    return Range(low, high, float(counts[clear].sum()))


def zoomed(counts: Array, known: Range, law: Law) -> Range:
    """The range without the bins at either end that hold, with all beyond them, next to nothing."""
    noise = math.sqrt(law.variance(1))
    several = noise * np.sqrt(np.arange(1, BINS + 3))
    least = np.maximum(OUTSIDE * known.n, _SEEN * several)

    def cut(some: Array) -> int:
        """How many bins can go, the one that has all beyond the end included."""
        return int(np.argmax(np.append(np.cumsum(some) > least, True)))

    edges, first, last = known.edges, max(cut(counts) - 1, 0), BINS - max(cut(counts[::-1]) - 1, 0)
    if first >= last:
        first, last = 0, BINS
    below, above = counts[: first + 1], counts[last + 1 :]
    beyond = (max(0.0, float(side.sum())) + _SEEN * float(several[len(side) - 1]) for side in (below, above))
    return Range(float(edges[first]), float(edges[last]), known.n, tuple(beyond))  # type: ignore[arg-type]


def friendly(found: Range, *, whole: bool) -> tuple[float, float]:
    """The ends, rounded outwards to multiples of 1, 2 or 5 times a power of ten.

    Where numbers are ``whole`` the ends are the first and the last of them in the range, which ends before ``high``.
    """
    low, high, target = found.low, found.high, (found.high - found.low) / _STEPS
    if whole:
        low, high, target = math.ceil(low), math.ceil(high) - 1, max(target, 1.0)
    power = math.floor(math.log10(target))
    factor = max((f for f in (1, 2, 5) if float(f"{f}e{power}") <= target), default=1)
    step = float(f"{factor}e{power}")
    first, last = math.floor(low / step), math.ceil(high / step)
    return float(f"{first * factor}e{power}"), float(f"{max(last, first + 1) * factor}e{power}")
