"""How far sizes go beyond what a noisy histogram shows: Pareto laws, each as likely as the counts make it.

| symbol | meaning                                                          | name in code    |
| ------ | ---------------------------------------------------------------- | --------------- |
| s₀, p₀ | a size that clearly many records exceed, and their share         | `start`, `share` |
| ξ, τ   | shape and scale of P(s - s₀ > z) = p₀ (1 + ξ z/τ)^(-1/ξ)          | `_SHAPES`       |
|        | mean excess τ/(1 - ξ) beyond s₀, over s₀                         | `_MEAN_EXCESSES` |
| b      | a clip, beyond s₀ or below it                                    | `clip`          |

What exceeds a large size has nearly such a law, whatever the law of all sizes is (Pickands, 1975).
Where ξ is 1/2 or more it has no variance, and a regression without noise would have no interval
either: so shapes are below that, all alike before the counts are seen.  Averages are over all laws:
where noise hides what lies beyond s₀, a single law drawn through what is seen would miss that there
may be more.

Post-processing of released counts only.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import Tail

_SHAPES = 0.5 * (np.arange(12) + 0.5)[:, None] / 12
# mean excesses beyond s₀, over s₀: the heaviest power law that has a variance, ξ = 1/2, has 1
_MEAN_EXCESSES = np.geomspace(0.05, 1.0, 20)
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
        found = np.exp(log_likelihood - log_likelihood.max())
        return np.asarray(found / found.sum())

    def _beyond(self, sizes: Array, integrals: int = 0) -> Array:
        """P(s > size) by each law, or its integral over all larger sizes, or that one's; a size is
        no less than s₀.
        """
        shape = _SHAPES[..., None]
        scale = self.start * _MEAN_EXCESSES[:, None] * (1 - shape)
        power = integrals - 1 / shape
        factor = np.prod([scale / (1 - k * shape) for k in range(1, integrals + 1)], axis=0)
        grown = 1 + shape * (sizes - self.start) / scale
        return np.asarray(self.share * factor * grown**power)

    def clip(self, cost: float, part: float) -> float:
        """b that minimises (cost b)² and the expected (``part`` E)²: noise and bias, E the mean of
        what b takes off.

        The square is averaged over the laws: one that is unlikely but heavy counts by what it would
        cost.
        """
        sizes, beyond = self._curves()
        pieces = (beyond[..., 1:] + beyond[..., :-1]) / 2 * np.diff(sizes)
        excess = np.cumsum(pieces[..., ::-1], axis=-1)[..., ::-1]
        expected = np.append(np.einsum("ij,ijk->k", self._weights, excess**2), 0.0)
        return float(sizes[np.argmin((cost * sizes) ** 2 + part**2 * expected)])

    def _curves(self) -> tuple[Array, Array]:
        """Sizes, and the share beyond each by each law; up to s₀ as counted."""
        edges = self.seen.edges[::-1]
        inner = np.geomspace(edges[0], self.start, _POINTS, endpoint=False)
        outer = np.geomspace(self.start, self._end, _POINTS)
        counted = np.interp(np.log(inner), np.log(edges), np.log(self.seen.beyond[::-1]))
        by_law = self._beyond(outer)
        inside = np.broadcast_to(np.exp(counted), (*by_law.shape[:-1], _POINTS))
        return np.append(inner, outer), np.concatenate([inside, by_law], axis=-1)

    def excess(self, clip: float) -> float:
        """The mean of what a clip takes off."""
        outer = max(clip, self.start)
        if outer >= self._end:
            return 0.0
        at = self._beyond(np.array([outer, self._end]), 1)
        beyond = float((self._weights * (at[..., 0] - at[..., 1])).sum())
        sizes, share = self._inside(clip)
        return beyond + float(np.trapezoid(share, sizes))

    def deviation(self, clip: float) -> float:
        """The root mean square of what a clip takes off, averaged over the laws.

        It makes intervals longer by as much as the laws do on average; a mean of squares would be
        that of the heaviest ones alone.
        """
        outer = max(clip, self.start)
        if outer >= self._end:
            return 0.0
        ends = np.array([outer, self._end])
        once = self._beyond(ends, 1)
        twice = self._beyond(ends, 2)
        of_each = 2 * (twice[..., 0] - twice[..., 1] - (self._end - outer) * once[..., 1])
        of_each += 2 * (outer - clip) * (once[..., 0] - once[..., 1])
        sizes, share = self._inside(clip)
        of_each += float(np.trapezoid(2 * (sizes - clip) * share, sizes))
        return float((self._weights * np.sqrt(np.maximum(of_each, 0.0))).sum())

    def _inside(self, clip: float) -> tuple[Array, Array]:
        """Sizes from a clip to s₀ and the share beyond each, as counted; none where it is larger."""
        if clip >= self.start:
            return np.zeros(0), np.zeros(0)
        edges = self.seen.edges[::-1]
        sizes = np.geomspace(max(clip, edges[0]), self.start, 100)
        return sizes, np.interp(sizes, edges, self.seen.beyond[::-1])
