"""The range of an outcome or of a column, from released histograms.

The range of a column of which nothing is known is found in three steps:

1. magnitudes   counts between the powers of two, either sign   -> where counts are clear of the noise, and a bin more
2. zooms        counts in equal bins of that, and beyond it     -> without the ends that hold next to nothing
3. friendly     ends rounded outwards to a few digits
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpinfer.inference.constants import (
    FALSE_MAGNITUDE,
    MAGNITUDE_DECAY,
    MAX_OUTSIDE,
    PLAUSIBLE_EXPONENT,
    RANGE_SDS,
)
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.bins import BINS, MAGNITUDES, ZERO_BIN
from dpinfer.numerics.noise_laws import Gaussian, Law
from dpinfer.numerics.reasons import Numerical

_STEPS: Numerical[int] = 40  # rounding moves an end by at most this part of the range


def narrowed(
    counts: Array, low: float, high: float, n: float, noise: float, sure: float = RANGE_SDS
) -> tuple[float, float]:
    """[low, high] without the bins at either end that hold next to nothing, in ``sure`` sds of the
    noise; as it is, if all of them do.
    """
    first, last = _filled(counts, n, noise, sure)
    if first >= last:
        return low, high
    edges = np.linspace(low, high, BINS + 1)
    return float(edges[first]), float(edges[last])


def _filled(counts: Array, n: float, noise: float, sure: float = RANGE_SDS) -> tuple[int, int]:
    """The first bin, and the one after the last, without those at either end that hold next to
    nothing: a share of n that may be lost, or what noise alone may add up to.
    """
    bound = np.maximum(MAX_OUTSIDE * n, sure * noise * np.sqrt(np.arange(1, len(counts) + 1)))

    def empty(from_end: Array) -> int:
        return int(np.argmax(np.append(np.cumsum(from_end) > bound, True)))

    return empty(counts), len(counts) - empty(counts[::-1])


_ENDS: Numerical[Array] = np.concatenate([[2 * MAGNITUDES[0]], MAGNITUDES, [2 * MAGNITUDES[-1]]])


# of each bin, by the exponent of an edge
_EXPONENTS: Numerical[Array] = np.abs(np.log2(np.abs(np.insert(MAGNITUDES, ZERO_BIN, 1.0))))


def _chances() -> Array:
    """Return the probability that noise alone passes for each magnitude."""
    plausible = (1 + _EXPONENTS / PLAUSIBLE_EXPONENT) ** -MAGNITUDE_DECAY
    return np.asarray(FALSE_MAGNITUDE * plausible / plausible.sum())


@dataclass(frozen=True)
class Range:
    """The range of a column; at most ``beyond`` units are below and above it, of ``n`` in all.

    They are numbers of units as the noisy counts tell them; ``beyond`` holds in about 19 of 20
    columns.
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
    """Return what the count of each magnitude must exceed: noise alone does so in 1 of 500 columns."""
    if isinstance(law, Gaussian):
        return np.asarray(-law.scale * ndtri(_chances()))
    return np.asarray(-np.log(2 * _chances()) / law.rate)


def magnitude(counts: Array, law: Law) -> Range | None:
    """The smallest range of magnitudes with all counts that are clear of the noise, and one more on
    either side.

    None where nothing is clear of it, or nothing but 0.
    """
    clear = np.flatnonzero(counts > clear_of(law))
    if not len(clear) or (clear == ZERO_BIN).all():
        return None
    first = int(clear[0])
    last = int(clear[-1])
    low = 0.0 if first == ZERO_BIN else float(_ENDS[max(first - 1, 0)])
    # a range ends before its end
    high = float(_ENDS[last + 1 if last == ZERO_BIN else min(last + 2, len(_ENDS) - 1)])
    return Range(low, high, float(counts[clear].sum()))


def zoomed(counts: Array, known: Range, law: Law) -> Range:
    """The range without the bins at either end that hold, with all beyond them, next to nothing."""
    noise = math.sqrt(law.variance(1))
    first, last = _filled(counts, known.n, noise)
    # the first and the last count are of what lies beyond the range
    first = max(first - 1, 0)
    last = min(last - 1, BINS)
    if first >= last:
        first, last = 0, BINS

    def most(side: Array) -> float:
        """An upper bound of the units of some bins."""
        return max(0.0, float(side.sum())) + RANGE_SDS * noise * math.sqrt(len(side))

    edges = known.edges
    beyond = (most(counts[: first + 1]), most(counts[last + 1 :]))
    return Range(float(edges[first]), float(edges[last]), known.n, beyond)


def friendly(learned: Range, *, is_integer: bool) -> tuple[float, float]:
    """The ends, rounded outwards to multiples of 1, 2 or 5 times a power of ten.

    Where numbers are ``is_integer`` the ends are the first and the last of them in the range, which ends
    before ``high``.
    """
    low = learned.low
    high = learned.high
    target = (high - low) / _STEPS
    if is_integer:
        low = math.ceil(low)
        high = math.ceil(high) - 1
        target = max(target, 1.0)
    power = math.floor(math.log10(target))
    factor = max((f for f in (1, 2, 5) if float(f"{f}e{power}") <= target), default=1)
    step = float(f"{factor}e{power}")
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return float(f"{first * factor}e{power}"), float(f"{max(last, first + 1) * factor}e{power}")
