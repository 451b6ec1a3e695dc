"""Tails beyond a noisy histogram: generalised Pareto laws, weighted by their likelihood.

| symbol | meaning                                                          | name in code     |
| ------ | ---------------------------------------------------------------- | ---------------- |
| s₀, p₀ | a size that clearly many records exceed, and their share         | `start`, `share` |
| ξ, τ   | shape and scale of P(s - s₀ > z) = p₀ (1 + ξ z/τ)^(-1/ξ)          | `shapes`         |
|        | mean excess τ/(1 - ξ) beyond s₀, over s₀                         | `mean_excesses`  |
|        | how likely a law is, given the counts                            | `weights`        |
| b      | a clip, beyond s₀ or below it                                    | `clip`           |

What exceeds a large size has nearly such a law, whatever the law of all sizes is (Pickands, 1975).
Averages are over all laws: where noise hides what lies beyond s₀, a single law drawn through the
counts would miss that there may be more.
"""

import math
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from dpinfer.inference.constants import (
    CLEAR_SDS,
    FAILURE_RATE_SLACK,
    MIN_TAIL_RECORDS,
    TAIL_END_RECORDS,
    TAIL_SDS,
    TAIL_START_OCTAVES,
)
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

# from the tail of a uniform law's kind to the heaviest that has a variance, without which the ordinary
# regression has no standard errors either
_SHAPES: Numerical[Array] = (np.arange(-12, 12) + 0.5) / 24
# mean excesses beyond s₀, over s₀
_MEAN_EXCESSES: Numerical[Array] = np.geomspace(0.05, 3.0, 27)


# The local index s P'(s)/P(s) of a tail does not fall with s: laws are of increasing generalised
# failure rate (Lariviere, 2006), as normal, log-normal, gamma, Weibull, t and Pareto laws are.  So a
# body that falls off fast leaves no room for a heavy tail that is nowhere seen.  All laws of this
# class are equally likely before the counts are seen
@cache
def _laws(slack: float) -> tuple[Array, Array]:
    """Return ξ and the mean excess of each law."""
    shapes, excesses = (
        grid.ravel() for grid in np.meshgrid(_SHAPES, _MEAN_EXCESSES, indexing="ij")
    )
    possible = slack * shapes / (1 - shapes) <= excesses
    return shapes[possible], excesses[possible]


_TINY: Numerical[float] = 1e-12
_AT_END: Numerical[float] = 1e-6  # tails of a negative shape have an end, where 1 + ξ z/τ is 0
_POINTS: Numerical[int] = 150  # sizes below s₀, and beyond it, at which a clip may be


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

    @cached_property
    def _deviation(self) -> Array:
        """The sd of the noise of the count at or above each edge."""
        return np.asarray(np.sqrt(np.cumsum(np.broadcast_to(self.noise, self.bins) ** 2)))

    @cached_property
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
        released counts, whose noise has a known sd, and it includes what no single count shows.
        """
        upper = self._upper
        upper[0] = max(self.largest, self.end)
        beyond = np.maximum(upper - clip, 0.0)
        seen = max(float(self.counts @ beyond), 0.0)
        return (seen + TAIL_SDS * float(np.linalg.norm(self.noise * beyond))) / self.n

    def max_beyond(self, sizes: Array) -> Array:
        """The largest share beyond each size that the counts let be, in about 39 of 40 fits."""
        share = (np.cumsum(self.counts) + TAIL_SDS * self._deviation) / self.n
        share = np.clip(np.maximum.accumulate(share), 0.0, 1.0)
        place = np.searchsorted(self.edges[::-1], sizes, side="right") - 1
        return np.where(place < 0, 1.0, share[::-1][np.maximum(place, 0)])

    @property
    def clear_reach(self) -> float:
        """The upper edge of the farthest bin up to which counts are clear of the noise."""
        return float(np.append(self.largest, self.edges)[self.farthest_clear])

    @cached_property
    def farthest_clear(self) -> int:
        """The place of the farthest edge beyond which noise lets records be seen.

        All bins beyond an edge are judged together.  Below a generous bound that adds up the noise
        of empty ones, so that bins are also judged with their neighbours alone.
        """
        clear = np.cumsum(self.counts) > CLEAR_SDS * self._deviation
        if self.generous:
            clear |= self._together() > CLEAR_SDS * self.noise
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


GROUPS: Numerical[int] = 8
"""Number of equally likely groups of laws, ordered by the weight of their tails: enough to tell an
average from a median.
"""


@dataclass(frozen=True, eq=False)
class TailLaw:
    """The law of the sizes that a histogram counts, by the laws that its counts leave possible.

    s₀ is at ``min_start`` a size below which no tail begins.
    """

    tail: Tail
    min_start: float = 0.0

    @cached_property
    def _first(self) -> int:
        """The place of the edge s₀."""
        inner = int(np.flatnonzero(self.tail.edges >= self.min_start)[-1])
        return min(self.tail.farthest_clear + int(TAIL_START_OCTAVES), inner)

    @property
    def start(self) -> float:
        """s₀."""
        return float(self.tail.edges[self._first])

    @property
    def share(self) -> float:
        """p₀."""
        return float(self.tail.beyond[self._first])

    @property
    def _end(self) -> float:
        """No size is larger."""
        return max(self.tail.largest, self.tail.end)

    @property
    def shapes(self) -> Array:
        """ξ of each law."""
        return _laws(FAILURE_RATE_SLACK)[0]

    @property
    def mean_excesses(self) -> Array:
        """The mean excess of each law beyond s₀, over s₀."""
        return _laws(FAILURE_RATE_SLACK)[1]

    @property
    def weights(self) -> Array:
        """The posterior weight of each law; they add up to 1."""
        return self._judged[0]

    @cached_property
    def _judged(self) -> tuple[Array, Array]:
        """Return the posterior weight of each law by the counts beyond s₀, and the share p₀ that fits it
        best.

        The variance of a count is that of its noise and of sampling.  The share is the weighted mean
        of what the bins say of it, so that empty bins far out add no noise to a tail that is light;
        any share is as likely as another before the counts are seen.
        """
        here = slice(None, self._first + 1)
        n = self.tail.n
        expected = np.diff(self._survival(self.tail.edges[here]), axis=-1, prepend=0.0)
        noise = np.broadcast_to(self.tail.noise, self.tail.bins)[here]
        variance = noise**2 + n * self.share * expected + _TINY
        counts = self.tail.counts[here]
        information = np.maximum((expected**2 / variance).sum(axis=-1), _TINY)
        records = (expected * counts / variance).sum(axis=-1) / information
        records = np.clip(records + self.tail.caution / np.sqrt(information), 1.0, n)
        off = counts - records[:, None] * expected
        log_likelihood = -0.5 * (off**2 / variance + np.log(variance)).sum(axis=-1)
        log_likelihood -= 0.5 * np.log(information)
        found = np.exp(log_likelihood - log_likelihood.max())
        return found / found.sum(), records / n

    def _survival(self, sizes: Array, ends: Array | float = np.inf) -> Array:
        """P(s > size | s > s₀) by each law, up to its end; a size is no less than s₀."""
        shape = self.shapes[:, None]
        scale = self.start * self.mean_excesses[:, None] * (1 - shape)
        grown = 1 + shape / scale * (sizes - self.start)
        # powers of what is left at the end of a law are next to 0, and slow
        inside = (grown > _AT_END) & (sizes < np.reshape(ends, (-1, 1)))
        return np.power(grown, -1 / shape, where=inside, out=np.zeros(grown.shape))

    def beyond(self, sizes: Array) -> Array:
        """P(s > size) by each law; a size is no less than s₀."""
        return np.asarray(self._judged[1][:, None] * self._survival(sizes, self.ends))

    @cached_property
    def ends(self) -> Array:
        """The size that each law expects next to no record to exceed, if there can be larger ones; no
        less than the bin in which records are clearly seen goes.

        So a bound that is too generous does not count.
        """
        records = np.maximum(self.tail.n * self._judged[1] / TAIL_END_RECORDS, 1.0)
        scale = self.start * self.mean_excesses * (1 - self.shapes)
        farthest = self.start + scale * (records**self.shapes - 1) / self.shapes
        return np.asarray(np.clip(farthest, self.tail.clear_reach, self._end))

    @cached_property
    def excesses(self) -> tuple[Array, Array]:
        """Clips, and E of each, the mean of what it takes off."""
        sizes, beyond = self.curve
        pieces = (beyond[1:] + beyond[:-1]) / 2 * np.diff(sizes)
        return sizes, np.append(np.cumsum(pieces[::-1])[::-1], 0.0)

    def clip(self, noise: float) -> float:
        """Return the clip b with the least (noise b)² + E²."""
        sizes, excess = self.excesses
        return float(sizes[np.argmin((noise * sizes) ** 2 + excess**2)])

    def exceeded_by(self, records: float) -> float:
        """Return the size that so many records are expected to exceed."""
        sizes, beyond = self.curve
        return float(sizes[np.append(0, np.flatnonzero(self.tail.n * beyond > records))[-1]])

    @cached_property
    def curve(self) -> tuple[Array, Array]:
        """Sizes, and the share beyond each: up to s₀ as counted, and the average of the laws then."""
        sizes, beyond = self.curves
        return sizes, beyond.mean(axis=0)

    @cached_property
    def curves(self) -> tuple[Array, Array]:
        """Sizes, and the share beyond each: up to s₀ as counted, and averages of laws then, one of each
        group of laws, from the lightest tails to the heaviest.
        """
        edges = self.tail.edges[::-1]
        inner = np.geomspace(edges[0], self.start, _POINTS, endpoint=False)
        outer = np.geomspace(self.start, float(self.ends.max()), _POINTS)
        counted = np.interp(np.log(inner), np.log(edges), np.log(self.tail.beyond[::-1]))
        by_law = self.beyond(outer)
        widths = np.diff(outer, prepend=outer[0]) + np.diff(outer, append=outer[-1])
        # by the second moment beyond s₀
        order = np.argsort(by_law @ (outer * widths))
        ends = np.cumsum(self.weights[order])
        steps = np.arange(GROUPS + 1) / GROUPS
        within = np.clip(ends, steps[:-1, None], steps[1:, None])
        shares = np.diff(within, axis=-1, prepend=steps[:-1, None])
        of_law = np.empty_like(shares)
        of_law[:, order] = GROUPS * shares
        averages = of_law @ by_law
        inside = np.broadcast_to(np.exp(counted), (GROUPS, len(inner)))
        # counts and laws may disagree at s₀
        return np.append(inner, outer), np.minimum.accumulate(
            np.hstack([inside, averages]), axis=-1
        )

    def mean_square(self, clip: float) -> float:
        """Return the mean square of sizes that are clipped."""
        sizes, beyond = self.curve
        inside = np.minimum(sizes, clip)
        below = beyond * inside
        pieces = (below[1:] + below[:-1]) * np.diff(inside)
        return float(inside[0] ** 2 * beyond[0] + pieces.sum())

    def excess(self, clip: float) -> float:
        """E, the mean of what a clip takes off."""
        sizes, beyond = self.curve
        return float(np.trapezoid(beyond, np.maximum(sizes, clip)))


@dataclass(frozen=True, eq=False)
class Clip:
    """A clip of influences w‖u‖|r|: the mean ``excess`` of what it takes off by the law of their
    sizes, the ``limit`` of that in 39 of 40 fits, and what it may take off ``along`` single columns.
    """

    size: float
    excess: float = 0.0
    limit: float = 0.0
    along: Array = field(default_factory=lambda: np.zeros((1, 1)))


@dataclass(frozen=True)
class CountSizes:
    """Estimates from a histogram of the sizes of a count, all over its public bound.

    ``cap`` is where it is capped for a first line, ``capped`` the mean of what is left then, and
    ``mean`` that of all of it as the tail has it.  ``shows`` is the part of a change of the logarithm
    of the mean that the capped mean shows, if counts over their mean have one law:
    d log E min(μξ, c)/d log μ = E[μξ; μξ < c]/E min(μξ, c).  The noise of the pilot over what it shows
    is least where c/E[y; y < c] is.  ``reach`` is how far counts are seen to go, ``largest`` what a
    few of them are expected to exceed, ``law`` their law by the histogram itself.
    """

    cap: float
    capped: float
    mean: float
    shows: float
    reach: float
    law: TailLaw
    largest: float = 1.0

    @property
    def tail(self) -> Tail:
        """The released histogram."""
        return self.law.tail

    @property
    def event(self) -> float:
        """The upper edge of the smallest bin that clearly has outcomes other than 0: no event is
        larger than it, where outcomes are counts.
        """
        tail = self.tail
        clear = np.flatnonzero(tail.counts[:-1] > CLEAR_SDS * tail.noise)
        place = int(clear[-1]) if len(clear) else tail.farthest_clear
        return float(np.append(tail.largest, tail.edges)[place])

    @property
    def largest_ratio(self) -> float:
        """Return what about ten outcomes exceed, over their mean; at least e, for slopes are kept below
        its logarithm over a distance.
        """
        return max(self.largest / self.mean, math.e)

    @property
    def positive(self) -> bool:
        """Return whether there are surely outcomes above the smallest bin."""
        return self.tail.farthest_clear < self.tail.bins - 1

    @classmethod
    def of(cls, tail: Tail) -> "CountSizes":
        """Return the estimates from a released histogram of sizes, the largest first."""
        law = TailLaw(tail)
        sizes, over = law.curve
        over = np.minimum(over, tail.beyond[-2])  # what is 0 is in the last bin
        pieces = (over[1:] + over[:-1]) / 2 * np.diff(sizes)
        below = sizes[0] * over[0] + np.append(0.0, np.cumsum(pieces))
        shown = np.maximum(below - sizes * over, np.finfo(float).tiny)
        best = int(np.argmin(sizes / shown))
        return cls(
            cap=float(sizes[best]),
            capped=min(float(below[best]), float(sizes[best])),
            mean=float(below[-1]),
            shows=float(shown[best] / below[best]),
            reach=tail.clear_reach,
            law=law,
            largest=law.exceeded_by(MIN_TAIL_RECORDS),
        )
