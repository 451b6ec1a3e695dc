"""How far sizes go beyond what a noisy histogram shows: Pareto laws, each as likely as the counts make it.

| symbol | meaning                                                          | name in code     |
| ------ | ---------------------------------------------------------------- | ---------------- |
| s₀, p₀ | a size that clearly many records exceed, and their share         | `start`, `share` |
| ξ, τ   | shape and scale of P(s - s₀ > z) = p₀ (1 + ξ z/τ)^(-1/ξ)          | `_SHAPES`        |
|        | mean excess τ/(1 - ξ) beyond s₀, over s₀                         | `_MEAN_EXCESSES` |
|        | how likely a law is before the counts are seen                   | `_PRIOR`         |
| b      | a clip, beyond s₀ or below it                                    | `clip`           |

What exceeds a large size has nearly such a law, whatever the law of all sizes is (Pickands, 1975).
Averages are over all laws: where noise hides what lies beyond s₀, a single law drawn through what is
seen would miss that there may be more.

Post-processing of released counts only.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import Tail

# at 1 a law would have no mean
_SHAPES = (np.arange(22) + 0.5)[:, None] / 24
# mean excesses beyond s₀, over s₀: at most 1, as the heaviest power law with a variance has, or what
# a power law of this shape has
_MEAN_EXCESSES = np.geomspace(0.05, 3.0, 27)
_LARGEST_MEAN_EXCESS = np.maximum(1.0, _SHAPES / (1 - _SHAPES))
# heavier tails are rarer, and no shape is impossible
_PRIOR = np.where(_LARGEST_MEAN_EXCESS >= _MEAN_EXCESSES, np.exp(-_SHAPES / 0.15) + 0.03, 0.0)
# records that a law expects beyond its end.  Squares beyond a clip have no mean by a law without a
# variance: those that one table in three has are counted
_BEYOND_END = 1 / 3
# powers of two from the farthest edge that noise lets be seen to s₀
_INSIDE = 1
_POINTS = 150  # sizes below s₀, and beyond it, at which a clip may be


@dataclass(frozen=True, eq=False)
class TailLaw:
    """The law of the sizes that a histogram counts, by the laws that its counts leave possible."""

    seen: Tail

    @cached_property
    def _first(self) -> int:
        """The place of the edge s₀."""
        inside = round(_INSIDE / self.seen.width)
        return min(self.seen.farthest_clear + inside, self.seen.bins - 1)

    @property
    def start(self) -> float:
        """s₀."""
        return float(self.seen.edges[self._first])

    @property
    def share(self) -> float:
        """p₀."""
        return float(self.seen.beyond[self._first])

    @property
    def _end(self) -> float:
        """No size is larger."""
        return max(self.seen.largest, self.seen.end)

    @cached_property
    def _weights(self) -> Array:
        """How likely each law is, by the counts beyond s₀: their noise, and that of sampling."""
        beyond = self.seen.n * self._beyond(self.seen.edges[: self._first + 1])
        expected = np.diff(beyond, axis=-1, prepend=0.0)
        variance = self.seen.noise**2 + expected
        off = self.seen.counts[: self._first + 1] - expected
        log_likelihood = -0.5 * (off**2 / variance + np.log(variance)).sum(axis=-1)
        log_likelihood[_PRIOR == 0] = -np.inf
        found = _PRIOR * np.exp(log_likelihood - log_likelihood.max())
        return np.asarray(found / found.sum())

    def _beyond(self, sizes: Array, integrals: int = 0) -> Array:
        """P(s > size) by each law, or an integral of it over all larger sizes, or that one's; a size
        is no less than s₀.

        For laws without a variance the second is only one up to a constant: it is for differences.
        """
        shape = _SHAPES[..., None]
        scale = self.start * _MEAN_EXCESSES[:, None] * (1 - shape)
        power = integrals - 1 / shape
        factor = np.prod([scale / (1 - k * shape) for k in range(1, integrals + 1)], axis=0)
        grown = 1 + shape * (sizes - self.start) / scale
        return np.asarray(self.share * factor * grown**power)

    @cached_property
    def _ends(self) -> Array:
        """The size that each law expects next to no record to exceed, if there can be larger ones; no
        less than the bin in which records are clearly seen goes.

        So a bound that is too generous does not count.
        """
        records = max(self.seen.n * self.share / _BEYOND_END, 1.0)
        scale = self.start * _MEAN_EXCESSES * (1 - _SHAPES)
        farthest = self.start + scale * (records**_SHAPES - 1) / _SHAPES
        return np.asarray(np.clip(farthest, self.seen.seen_reach, self._end))

    def _averaged(self, values: Array) -> Array:
        """Over the laws, which are the first two axes."""
        return np.asarray(np.einsum("ij,ij...->...", self._weights, values))

    def clip(self, cost: float, part: float) -> float:
        """b that minimises (cost b)² and (``part`` E)²: noise and bias, E what b takes off."""
        sizes, beyond = self._curves()
        pieces = (beyond[..., 1:] + beyond[..., :-1]) / 2 * np.diff(sizes)
        excess = np.cumsum(pieces[..., ::-1], axis=-1)[..., ::-1]
        expected = np.append(self._averaged(np.maximum(excess, 0.0)), 0.0)
        return float(sizes[np.argmin((cost * sizes) ** 2 + (part * expected) ** 2)])

    def _curves(self) -> tuple[Array, Array]:
        """Sizes, and the share beyond each by each law; up to s₀ as counted."""
        edges = self.seen.edges[::-1]
        inner = np.geomspace(edges[0], self.start, _POINTS, endpoint=False)
        outer = np.geomspace(self.start, float(self._ends.max()), _POINTS)
        counted = np.interp(np.log(inner), np.log(edges), np.log(self.seen.beyond[::-1]))
        by_law = np.where(outer < self._ends[..., None], self._beyond(outer), 0.0)
        inside = np.broadcast_to(np.exp(counted), (*by_law.shape[:-1], _POINTS))
        return np.append(inner, outer), np.concatenate([inside, by_law], axis=-1)

    def excess(self, clip: float) -> float:
        """E, the mean of what a clip takes off."""
        sizes, share = self._inside(clip)
        return float(self._averaged(self._beyond_clip(clip)) + np.trapezoid(share, sizes))

    def square_excess(self, clip: float) -> float:
        """The mean of the square of what a clip takes off."""
        sizes, share = self._inside(clip)
        of_each = 2 * self._distance_beyond_clip(clip)
        of_each += 2 * max(self.start - clip, 0.0) * self._beyond_clip(clip)
        inside = np.trapezoid(2 * (sizes - clip) * share, sizes)
        return float(self._averaged(of_each) + inside)

    def _beyond_clip(self, clip: float) -> Array:
        """∫ P(s > z) dz from c to the end of each law, c the larger one of a clip and s₀."""
        begin = max(clip, self.start)
        ends = np.maximum(self._ends, begin)[..., None]
        found = self._beyond(np.array([begin]), 1) - self._beyond(ends, 1)
        return np.maximum(found[..., 0], 0.0)

    def _distance_beyond_clip(self, clip: float) -> Array:
        """∫ (z - c) P(s > z) dz over the same."""
        begin = max(clip, self.start)
        ends = np.maximum(self._ends, begin)[..., None]
        found = self._beyond(np.array([begin]), 2) - self._beyond(ends, 2)
        found -= (ends - begin) * self._beyond(ends, 1)
        return np.maximum(found[..., 0], 0.0)

    def _inside(self, clip: float) -> tuple[Array, Array]:
        """Sizes from a clip to s₀ and the share beyond each, as counted; none where it is larger."""
        if clip >= self.start:
            return np.zeros(0), np.zeros(0)
        edges = self.seen.edges[::-1]
        sizes = np.geomspace(max(clip, edges[0]), self.start, 100)
        return sizes, np.interp(sizes, edges, self.seen.beyond[::-1])
