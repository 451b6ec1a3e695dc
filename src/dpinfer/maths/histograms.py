"""The range of an outcome and a clip for influences, from noisy histograms.

A record is in one bin, so that a histogram moves by sqrt 2 or 1.  Bins are compared with, never computed by a
logarithm: a record's bin depends on the record alone.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block, BoundedSum
from dpinfer.neighbours import Neighbours

BINS = 16
"""Of a histogram of the outcome."""
ZOOMS = 3
"""Histograms of the outcome, each inside the last."""
_OUTSIDE = 0.004  # the share of records that may lie beyond either end of a range
_SEEN = 2.0  # deviations of the noise by which counts at an end are told from nothing
_SIZES = 26  # bins of influences, each sqrt 2 times as wide as the next
_CLEAR = 3.0  # deviations of the noise by which a tail is seen: noise alone passes for one in a hundred fits
_LIMIT = 1.0  # deviations of the noise by which there may be more records in a tail than are counted
_HEAVY = 0.7  # the shape of a tail that is heavy: half way from an exponential one to the heaviest that is drawn
_APART = 3  # bins between the two points that a tail is drawn through
_SHAPES = 0.4, 2.2  # of a Weibull tail
_GRID = 400


@dataclass(frozen=True)
class Counts(BoundedSum):
    """A histogram, and the most that the sizes of the changes of its counts add up to between neighbours."""

    added: float


@dataclass(frozen=True, repr=False)
class Tally:
    """The levels that occur in a column, how many units have each, and how far these counts move between neighbours."""

    levels: tuple[str, ...]
    counts: Array
    bound: float


def histogram(edges: Array, neighbours: Neighbours) -> Counts:
    """Counts of outcomes between inner edges; what lies beyond goes to the end bins, a zero row to none.

    Guarantee [histogram_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1 (add-remove), and
    the changes of its counts add up to at most 2 or 1.
    """

    def of_block(block: Block) -> Array:
        present = np.where(block.rows[:, 0] != 0, block.shares, 0.0)
        return _counts(np.searchsorted(edges, block.labels, side="right"), len(edges) + 1, present)

    return Counts(of_block, neighbours.pick(math.sqrt(2), 1.0), neighbours.pick(2.0, 1.0))


def inner_edges(low: float, high: float) -> Array:
    """The edges between the bins of [low, high]."""
    return np.asarray(np.linspace(low, high, BINS + 1)[1:-1])


def narrowed(counts: Array, low: float, high: float, n: float, noise: float) -> tuple[float, float]:
    """[low, high] without the bins at either end that hold next to nothing; as it is, if all of them do."""
    least = np.maximum(_OUTSIDE * n, _SEEN * noise * np.sqrt(np.arange(1, BINS + 1)))

    def empty(some: Array) -> int:
        return int(np.argmax(np.append(np.cumsum(some) > least, True)))

    edges, first, last = np.linspace(low, high, BINS + 1), empty(counts), BINS - empty(counts[::-1])
    return (float(edges[first]), float(edges[last])) if first < last else (low, high)


def influence_histogram(largest: float, neighbours: Neighbours) -> BoundedSum:
    """Counts of the sizes w‖u‖|r| in the bins largest 2^(-k/2), the largest first, the rest in the last.

    It is about rows at a line, whose labels are residuals r.  The bound is that of `histogram`.
    """
    edges = largest * 2.0 ** (-np.arange(_SIZES - 1, 0, -1) / 2)

    def of_block(block: Block) -> Array:
        influence = block.weights / block.shares * np.sqrt(np.einsum("ij,ij->i", block.rows, block.rows))
        counts = np.where(influence > 0, block.shares, 0.0)
        return _counts(np.searchsorted(edges, influence * np.abs(block.labels), side="right"), _SIZES, counts)[::-1]

    return BoundedSum(of_block, neighbours.pick(math.sqrt(2), 1.0))


def _counts(places: Indices, bins: int, weights: Array) -> Array:
    return np.asarray(np.bincount(places, weights, bins))


@dataclass(frozen=True, eq=False)
class Tail:
    """P(size > s) by a released histogram of sizes, for s up to ``largest``; ``noise`` is that of a count.

    ``caution`` raises the counts by so many deviations of their noise.
    """

    counts: Array
    n: float
    noise: float
    largest: float
    caution: float = 0.0

    @property
    def edges(self) -> Array:
        """The lower edge of each bin, the largest first."""
        return np.asarray(self.largest * 2.0 ** (-np.arange(1, _SIZES + 1) / 2))

    @property
    def _deviation(self) -> Array:
        return np.asarray(self.noise * np.sqrt(np.arange(1, _SIZES + 1)))

    @property
    def beyond(self) -> Array:
        """The share of records at or above each edge."""
        above = np.maximum.accumulate(np.cumsum(self.counts)) + self.caution * self._deviation
        return np.asarray(np.clip(np.maximum.accumulate(above) / self.n, 1e-9, 0.999))

    def point(self, share: float) -> float:
        """The size that this share of the records exceeds."""
        beyond, edges = self.beyond, self.edges
        k = int(np.argmax(np.append(beyond > share, True)))
        if k in (0, _SIZES):
            return float(edges[min(k, _SIZES - 1)])
        part = np.clip((share - beyond[k - 1]) / (beyond[k] - beyond[k - 1]), 0.0, 1.0)
        return float(edges[k - 1] * (edges[k] / edges[k - 1]) ** part)

    def clip(self, cost: float) -> tuple[float, float]:
        """b that minimises (cost b)² + E²: noise and bias of a level; and E, the mean of what is clipped off."""
        sizes, tail = self._curve()
        pieces = (tail[1:] + tail[:-1]) / 2 * np.diff(sizes)
        excess = np.append(np.cumsum(pieces[::-1])[::-1], 0.0)
        best = int(np.argmin((cost * sizes) ** 2 + excess**2))
        return float(sizes[best]), float(excess[best])

    def excess(self, clip: float) -> float:
        """The mean of what a clip takes off: by the tail that is drawn or, where that is heavy, the most it may be.

        A heavy tail has no scale by which it could be drawn on where nothing is seen of it.
        """
        sizes, tail = replace(self, caution=self.caution + _LIMIT)._curve()
        beyond = np.where(sizes > clip, tail, 0.0)
        drawn = float(((beyond[1:] + beyond[:-1]) / 2 * np.diff(sizes)).sum())
        return max(drawn, self._most_excess(clip)) if self._bend()[2] < _HEAVY else drawn

    def _most_excess(self, clip: float) -> float:
        """Beyond each edge there are at most as many records as are counted there and a deviation of the noise."""
        above = np.maximum.accumulate(np.cumsum(self.counts)) + _LIMIT * self._deviation
        share = np.clip(np.maximum.accumulate(above) / self.n, 0.0, 1.0)  # at or above each lower edge
        upper = self.largest * 2.0 ** (-np.arange(_SIZES) / 2)
        width = np.maximum(upper - np.maximum(self.edges, clip), 0.0)
        return float(share @ width)

    def _bend(self) -> tuple[int, float, float]:
        """The farthest edge that noise lets be seen, -log of the share beyond, the shape of a Weibull tail there."""
        edges, beyond = self.edges, self.beyond
        clear = np.cumsum(self.counts) > _CLEAR * self._deviation
        far = min(int(np.argmax(np.append(clear, True))), _SIZES - 1 - _APART)
        near = far + _APART
        depth = max(-math.log(beyond[far]), 1e-3)
        inner = max(-math.log(min(beyond[near], 0.95)), 1e-3)
        shape = float(np.clip(math.log(depth / inner) / math.log(edges[far] / edges[near]), *_SHAPES))
        return far, depth, shape

    def _curve(self) -> tuple[Array, Array]:
        """The tail on a grid: counts as far as noise lets them be seen, a Weibull tail through two points beyond."""
        edges, beyond = self.edges, self.beyond
        far, depth, shape = self._bend()
        sizes = edges[-1] * (self.largest / edges[-1]) ** np.linspace(0, 1, _GRID)
        inside = np.exp(np.interp(np.log(sizes), np.log(edges[::-1]), np.log(beyond[::-1])))
        return sizes, np.where(sizes >= edges[far], np.exp(-depth * (sizes / edges[far]) ** shape), inside)
