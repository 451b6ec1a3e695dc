"""Noisy histograms: the range of an outcome or a column, and a clip for influences.

A record is in one bin, so that a histogram moves by sqrt 2 or 1.  Bins are compared with, never
computed by a logarithm: a record's bin depends on the record alone.

The range of a column of which nothing is known is found in three steps:

1. magnitudes   counts between the powers of two, either sign   -> where counts are clear of the noise, and a bin more
2. zooms        counts in equal bins of that, and beyond it     -> without the ends that hold next to nothing
3. friendly     ends rounded outwards to a few digits

What reads counts is post-processing: it knows released counts and the law of their noise.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpinfer.maths.arrays import Array
from dpinfer.maths.laws import Gaussian, Law
from dpinfer.maths.sums import Block, BoundedSum, squared_norms
from dpinfer.neighbours import Neighbours

BINS = 16
"""Of a histogram that zooms in."""
OUTCOME_ZOOMS = 3
"""Histograms of the outcome, each inside the last."""
COLUMN_ZOOMS = 2
"""Histograms of a column after that of its magnitudes, each inside the last."""
OUTSIDE = 0.004
"""The share of records or units that may lie beyond either end of a range."""
# deviations of the noise by which counts at an end are told from nothing, or raised to an upper
# bound
_SEEN = 2.0
_POWERS_OF_SIZES = 13  # powers of two that the bins of influences span
# sds of the noise by which a tail is seen: noise alone passes for one in 30,000 bins
CLEAR = 4.0
# ... and by which some bins are that lie next to each other, wherever they are: one in three hundred
_CLEAR_ANYWHERE = 4.0
# deviations of the noise that a limit of what is cut off adds: it holds in about 39 of 40 fits
_SURE = 2.0
_LARGEST = 400  # of the powers of two that are told apart; beyond, double precision cannot square
_CHANCE = 0.002  # that noise alone passes for a magnitude of a column
# powers of two beyond which a magnitude is less and less plausible: noise must pass for it less
# often
_USUAL = 16
_STEPS = 40  # rounding moves an end by at most this part of the range


@dataclass(frozen=True)
class Counts(BoundedSum):
    """A histogram, and the most that the sizes of the changes of its counts add up to between
    neighbours.
    """

    added: float


@dataclass(frozen=True, repr=False)
class Tally:
    """The levels that occur in a column, how many units have each, and how far these counts move
    between neighbours.
    """

    levels: tuple[str, ...]
    counts: Array
    bound: float


def histogram(edges: Array, neighbours: Neighbours) -> Counts:
    """Counts of outcomes between inner edges; what lies beyond goes to the end bins, a zero row to
    none.

    Guarantee [histogram_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1
    (add-remove), and the changes of its counts add up to at most 2 or 1.
    """

    def of_block(block: Block) -> Array:
        present = np.where(block.rows[..., 0] != 0, block.shares, 0.0)
        return counts_of(
            np.searchsorted(edges, block.labels, side="right"), len(edges) + 1, present
        )

    return Counts(of_block, histogram_bound(neighbours), histogram_added(neighbours))


def histogram_bound(neighbours: Neighbours) -> float:
    """How far a histogram moves: a record, or a unit in parts, is in one bin."""
    return neighbours.pick(math.sqrt(2), 1.0)


def histogram_added(neighbours: Neighbours) -> float:
    """What the sizes of the changes of its counts add up to."""
    return neighbours.pick(2.0, 1.0)


def inner_edges(low: float, high: float) -> Array:
    """The edges between the bins of [low, high]."""
    return np.asarray(np.linspace(low, high, BINS + 1)[1:-1])


def narrowed(
    counts: Array, low: float, high: float, n: float, noise: float, sure: float = _SEEN
) -> tuple[float, float]:
    """[low, high] without the bins at either end that hold next to nothing, in ``sure`` sds of the
    noise; as it is, if all of them do.
    """
    first, last = _filled(counts, n, noise, sure)
    if first >= last:
        return low, high
    edges = np.linspace(low, high, BINS + 1)
    return float(edges[first]), float(edges[last])


def _filled(counts: Array, n: float, noise: float, sure: float = _SEEN) -> tuple[int, int]:
    """The first bin, and the one after the last, without those at either end that hold next to
    nothing: a share of n that may be lost, or what noise alone may add up to.
    """
    bound = np.maximum(OUTSIDE * n, sure * noise * np.sqrt(np.arange(1, len(counts) + 1)))

    def empty(from_end: Array) -> int:
        return int(np.argmax(np.append(np.cumsum(from_end) > bound, True)))

    return empty(counts), len(counts) - empty(counts[::-1])


def influence_histogram(largest: float, neighbours: Neighbours) -> BoundedSum:
    """Counts of the sizes w‖u‖|r| in the bins largest 2^(-k), the largest first, the rest in
    the last.

    It is about rows at a line, whose labels are residuals r.  The bound is that of `histogram`,
    however wide the bins are.
    """
    bins = _POWERS_OF_SIZES
    edges = largest * 2.0 ** -np.arange(bins - 1.0, 0.0, -1.0)

    def of_block(block: Block) -> Array:
        influence = block.weights / block.shares * np.sqrt(squared_norms(block.rows))
        counts = np.where(influence > 0, block.shares, 0.0)
        places = np.searchsorted(edges, influence * np.abs(block.labels), side="right")
        return counts_of(places, bins, counts)[..., ::-1]

    return BoundedSum(of_block, histogram_bound(neighbours))


def counts_of(places: npt.NDArray[Any], bins: int, weights: Array | None = None) -> Array:
    """How often each of ``bins`` places stands in the last axis, or what the weights there add up to,
    one after the other.
    """
    found = np.empty((*places.shape[:-1], bins))
    for one in np.ndindex(places.shape[:-1]):
        found[one] = np.bincount(places[one], None if weights is None else weights[one], bins)
    return found


@dataclass(frozen=True, eq=False)
class Tail:
    """P(size > s) by a released histogram of sizes.

    Bins are ordered from the largest sizes down: ``edges`` are their lower ends, ``largest`` is the
    upper end of the first.  ``noise`` is the sd of a count, one for all bins or one for each.
    ``caution`` raises the counts by so many sds of their noise.  Sizes beyond ``largest`` are in
    the first bin, and may go up to ``end`` where one is given.  ``generous`` says that ``largest``
    is a public bound, below which many bins may be empty.
    """

    counts: Array
    n: float
    noise: float | Array
    edges: Array
    largest: float
    caution: float = 0.0
    end: float = 0.0
    generous: bool = False

    @classmethod
    def halving(cls, counts: Array, n: float, noise: float, largest: float, **more: Any) -> "Tail":
        """A tail whose bins are each twice as wide as the next."""
        edges = largest * 2.0 ** -np.arange(1.0, len(counts) + 1)
        return cls(counts, n, noise, edges, largest, **more)

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.counts)

    @property
    def _upper(self) -> Array:
        """The upper edge of each bin."""
        return np.append(self.largest, self.edges[:-1])

    @property
    def _deviation(self) -> Array:
        """The sd of the noise of the count at or above each edge."""
        return np.asarray(np.sqrt(np.cumsum(np.broadcast_to(self.noise, self.bins) ** 2)))

    @property
    def beyond(self) -> Array:
        """The share of records at or above each edge."""
        above = np.maximum.accumulate(np.cumsum(self.counts)) + self.caution * self._deviation
        return np.asarray(np.clip(np.maximum.accumulate(above) / self.n, 1e-9, 0.999))

    def point(self, share: float) -> float:
        """The size that this share of the records exceeds."""
        beyond = self.beyond
        edges = self.edges
        k = int(np.argmax(np.append(beyond > share, True)))
        if k in (0, self.bins):
            return float(edges[min(k, self.bins - 1)])
        part = np.clip((share - beyond[k - 1]) / (beyond[k] - beyond[k - 1]), 0.0, 1.0)
        return float(edges[k - 1] * (edges[k] / edges[k - 1]) ** part)

    def limit(self, clip: float) -> float:
        """The most that a clip may take off on average, whatever the tail is like, in about 39 of
        40 fits.

        No tail is drawn: a record counts at the upper edge of its bin.  So this is a sum over the
        released counts, whose noise has a known deviation, and it sees what no count shows alone.
        """
        upper = self._upper
        upper[0] = max(self.largest, self.end)
        beyond = np.maximum(upper - clip, 0.0)
        seen = max(float(self.counts @ beyond), 0.0)
        return (seen + _SURE * float(np.linalg.norm(self.noise * beyond))) / self.n

    def most_beyond(self, sizes: Array) -> Array:
        """The largest share beyond each size that the counts let be, in about 39 of 40 fits."""
        share = (np.cumsum(self.counts) + _SURE * self._deviation) / self.n
        share = np.clip(np.maximum.accumulate(share), 0.0, 1.0)
        place = np.searchsorted(self.edges[::-1], sizes, side="right") - 1
        return np.where(place < 0, 1.0, share[::-1][np.maximum(place, 0)])

    @property
    def seen_reach(self) -> float:
        """The upper edge of the farthest bin up to which counts are clear of the noise."""
        return float(np.append(self.largest, self.edges)[self.farthest_clear])

    @property
    def farthest_clear(self) -> int:
        """The place of the farthest edge beyond which noise lets records be seen.

        All bins beyond an edge are judged together.  Below a generous bound that adds up the noise
        of empty ones, so that bins are also judged with their neighbours alone.
        """
        clear = np.cumsum(self.counts) > CLEAR * self._deviation
        if self.generous:
            clear |= self._together() > _CLEAR_ANYWHERE * self.noise
        return int(np.argmax(np.append(clear, True)))

    def _together(self) -> Array:
        """The largest sum of some bins next to each other that end with each one, over the root of
        their number.
        """
        last = np.arange(1, self.bins + 1)[:, None]
        first = np.arange(self.bins)[None, :]
        sums = np.append(0.0, np.cumsum(self.counts))
        over_root = (sums[last] - sums[first]) / np.sqrt(np.maximum(last - first, 1))
        return np.asarray(np.where(first < last, over_root, -np.inf).max(axis=1))


COUNT_BINS = 22
"""Of the sizes of a count, each twice as wide as the next: six decades below its bound."""


def count_edges() -> Array:
    """The edges between these bins, for counts over their public bound."""
    return np.asarray(2.0 ** -np.arange(COUNT_BINS - 1.0, 0.0, -1.0))


_ZERO = 2 * _LARGEST + 1  # the place of the bin around 0

_POWERS = 2.0 ** np.arange(-_LARGEST, _LARGEST + 1)
MAGNITUDES = np.concatenate([-_POWERS[::-1], _POWERS])
"""The edges between the bins of magnitudes."""
_ENDS = np.concatenate([[2 * MAGNITUDES[0]], MAGNITUDES, [2 * MAGNITUDES[-1]]])
# of each bin, by the exponent of an edge
_EXPONENTS = np.abs(np.log2(np.abs(np.insert(MAGNITUDES, _ZERO, 1.0))))
_PLAUSIBLE = (1 + _EXPONENTS / _USUAL) ** -2.0
_CHANCES = _CHANCE * _PLAUSIBLE / _PLAUSIBLE.sum()  # of each bin


@dataclass(frozen=True)
class Range:
    """Where the values of a column are; ``beyond`` is the most units that may lie below and above,
    ``n`` all of them.

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
    """What the count of each magnitude must exceed: noise alone does so with its chance, all
    together 1 in 500.
    """
    if isinstance(law, Gaussian):
        return np.asarray(-law.scale * ndtri(_CHANCES))
    return np.asarray(-np.log(2 * _CHANCES) / law.rate)


def magnitude(counts: Array, law: Law) -> Range | None:
    """The smallest range of magnitudes with all counts that are clear of the noise, and one more on
    either side.

    None where nothing is clear of it, or nothing but 0.
    """
    clear = np.flatnonzero(counts > clear_of(law))
    if not len(clear) or (clear == _ZERO).all():
        return None
    first = int(clear[0])
    last = int(clear[-1])
    low = 0.0 if first == _ZERO else float(_ENDS[max(first - 1, 0)])
    # a range ends before its end
    high = float(_ENDS[last + 1 if last == _ZERO else min(last + 2, len(_ENDS) - 1)])
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
        return max(0.0, float(side.sum())) + _SEEN * noise * math.sqrt(len(side))

    edges = known.edges
    beyond = (most(counts[: first + 1]), most(counts[last + 1 :]))
    return Range(float(edges[first]), float(edges[last]), known.n, beyond)


def friendly(found: Range, *, whole: bool) -> tuple[float, float]:
    """The ends, rounded outwards to multiples of 1, 2 or 5 times a power of ten.

    Where numbers are ``whole`` the ends are the first and the last of them in the range, which ends
    before ``high``.
    """
    low = found.low
    high = found.high
    target = (high - low) / _STEPS
    if whole:
        low = math.ceil(low)
        high = math.ceil(high) - 1
        target = max(target, 1.0)
    power = math.floor(math.log10(target))
    factor = max((f for f in (1, 2, 5) if float(f"{f}e{power}") <= target), default=1)
    step = float(f"{factor}e{power}")
    first = math.floor(low / step)
    last = math.ceil(high / step)
    return float(f"{first * factor}e{power}"), float(f"{max(last, first + 1) * factor}e{power}")
