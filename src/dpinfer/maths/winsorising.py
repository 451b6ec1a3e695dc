"""Limits at which the numbers of a fit are winsorised, and the bias that this leaves.

Records far out in a number cost noise: its column is scaled down until they fit the geometry.
Pulling them in to a limit costs bias.  The limit of each number is the one with the least noise² +
bias², by released histograms of that number.

| symbol | meaning                                                               | name in code   |
| ------ | --------------------------------------------------------------------- | -------------- |
| m, v   | mean and variance of a number, records counted by their information   |                |
| s      | distance |x - m| of a record                                          |                |
| c      | the limit: x is pulled into m ± c                                     | `distance`     |
| E      | the mean of (s - c)₊ s, the second moment that the limit takes away   | `lost`         |
| β, T   | the coefficient of the number, and its t statistic without privacy    | `t2` is T²     |
| R²     | squared radius of the geometry: c² <= R² v costs no noise             | `radius2`      |
| q      | noise variance of a direction over its sampling variance              | `noise_share`  |

**Bias.** Let θ be the ordinary coefficients and r the residuals there.  The score of the winsorised
number at θ is n times the mean of -(x - x_c) r + h' β x_c (x - x_c).  Where the effect is straight
the first term has mean 0 and the second is at most h' β E; where the effect ends at the limit both
together are h' β E.  So n h' |β| E bounds the bias of the score for every effect in between, and
T E/v is that over its sampling sd.

**Choice.** In units of the sampling variance a limit costs q k(c) + (T E(c)/v)², k = max(1, c²/(R² v)),
and what the noise of the Hessian adds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import Tail
from dpinfer.maths.tail_law import FEW, TailLaw

# of a variance: costs that differ by less are equal, 1 % of an interval's length
_EQUAL = 0.02
# squared bias over sampling variance below which a limit is left out: records beyond it are so few
# that the weight of their rows does, and 1 % of a variance is .5 % of a length
_NEGLIGIBLE = 0.01
# of the sampling variance: the variance of a coefficient whose noise has three times the sampling sd.  A column
# that is scaled down further is so badly known that it makes others worse
_MOST_NOISE = 10.0
_STEEP = 2.0  # times the largest outcomes: a mean that they cannot have
_CANDIDATES = 60
# sds of a number from its mean: most records are nearer, and decide its slope
_ENDS = 2.0


@dataclass(frozen=True, eq=False)
class Histograms:
    """Released histograms of one number, each of equal bins between two ``ends`` and inside the one
    before it; what lies beyond is in the end bins.  ``noise`` is the sd of a count.
    """

    ends: tuple[tuple[float, float], ...]
    counts: tuple[Array, ...]
    noise: float

    def _bins(self) -> tuple[Array, Array, Array, Array]:
        """Lower and upper ends of disjoint bins, their counts and the sd of each."""
        low, high, counts, variance = (np.zeros(0) for _ in range(4))
        for (first, last), own in zip(self.ends, self.counts, strict=True):
            edges = np.linspace(first, last, len(own) + 1)
            below = high <= first + 1e-9 * (last - first)
            above = low >= last - 1e-9 * (last - first)
            inner = own.copy()
            inner_variance = np.full(len(own), self.noise**2)
            # the end bins count what lies beyond, which the histograms before have told apart
            inner[0] -= counts[below].sum()
            inner[-1] -= counts[above].sum()
            inner_variance[0] += variance[below].sum()
            inner_variance[-1] += variance[above].sum()
            low = np.concatenate([low[below], edges[:-1], low[above]])
            high = np.concatenate([high[below], edges[1:], high[above]])
            counts = np.concatenate([counts[below], inner, counts[above]])
            variance = np.concatenate([variance[below], inner_variance, variance[above]])
        return low, high, counts, np.sqrt(variance)

    def tails(self, centre: float, unit: float, n: float) -> tuple[TailLaw, ...]:
        """Laws of the distances from ``centre`` above and below it, in units of ``unit``, which is the
        sd; a side without room for records beyond one sd has none.
        """
        low, high, counts, noise = self._bins()
        sides = (
            ((low - centre) / unit, (high - centre) / unit, counts, noise),
            ((centre - high) / unit, (centre - low) / unit, counts, noise),
        )
        laws = []
        for near, far, number, sd in sides:
            order = np.argsort(-near)
            order = order[near[order] > 0]
            if not len(order) or near[order[0]] <= 1.0:
                continue
            largest = float(far[order[0]])
            tail = Tail(number[order], n, sd[order], near[order], largest)
            laws.append(TailLaw(tail, least=1.0))
        return tuple(laws)

    @property
    def two_valued(self) -> bool:
        """Whether the counts show records at both ends of the public bounds and none between."""
        if len({*self.ends}) > 1:
            return False
        together = np.sum(self.counts, axis=0)
        sd = self.noise * np.sqrt(len(self.counts))
        inner = together[1:-1]
        none = inner.sum() <= _CLEAR * sd * np.sqrt(len(inner)) and (inner <= _CLEAR * sd).all()
        return bool(none and min(together[0], together[-1]) > _CLEAR * sd)


_CLEAR = 3.0  # sds of the noise by which a count is clear of 0


@dataclass(frozen=True, eq=False)
class Numbers:
    """Mean and variance of each column, records counted by their information, its ``farthest``
    distance from the mean within public bounds, whether its variance is clear of the noise, and the
    ``laws`` of the distances of some numbers
    from their mean, above and below it, in sds.
    """

    mean: Array
    variance: Array
    farthest: Array
    varies: npt.NDArray[np.bool_]
    laws: Mapping[int, tuple[TailLaw, ...]]

    def far(self, j: int) -> float:
        """Return the distance from the mean that a few records are expected to exceed."""
        sizes = [law.exceeded_by(FEW) for law in self.laws[j]]
        return math.sqrt(self.variance[j]) * max(sizes, default=1.0)

    def gentle(self, coef: Array, largest: float) -> Array:
        """Return coefficients of a logarithm whose slopes make the means of the few farthest records
        no more than ``largest`` times that of all.

        The mean of the records farthest out in a column is at most that of as many of the largest
        outcomes.  Where a pilot slope is steeper, weights by that slope would leave these records out.
        """
        found = coef.copy()
        for j in self.laws:
            steepest = math.log(max(largest, math.e)) / self.far(j)
            found[j] = min(max(coef[j], -steepest), steepest)
        found[0] += self.mean[1:] @ (coef - found)[1:]
        return found


@dataclass(frozen=True, eq=False)
class WinsorLimits:
    """Where each column ends in a fit: ``distance`` from the mean, in the units of the columns.

    ``winsorised`` marks the numbers that records may exceed the limit of, and ``lost`` is E of each.
    ``reach`` is the distance for a geometry: of counts, whose records count by their means, it is
    longer.  ``hidden`` are those whose bias is larger than all other errors at every limit.
    ``steepest`` is the slope of counts that gives the few farthest records larger means than outcomes
    have: with it weights would leave them out.  ``information`` is that of a unit of variance, and
    ``others`` the variance of a coefficient but for its bias, over its sampling variance.
    """

    numbers: Numbers
    distance: Array
    reach: Array
    winsorised: npt.NDArray[np.bool_]
    hidden: npt.NDArray[np.bool_]
    lost: Array
    others: Array
    steepest: Array
    information: float

    def dominated(self, coef: Array) -> npt.NDArray[np.bool_]:
        """Return which numbers have a bias bound of more than the standard error of all else: it
        would rest on what is supposed of a tail that the noise hides.
        """
        bias2 = self.information * (coef * self.lost) ** 2 / self.numbers.variance
        return np.asarray(self.hidden | (bias2 > self.others) | (np.abs(coef) > self.steepest))

    def misfit(self, coef: Array, matrix: Array, influences: TailLaw) -> Array:
        """Return, for each column and clip of ``influences``, the mean of what the clip takes off
        records far out in that column, if its effect ends at two sds.

        Their residuals are |β| (s - 2 sd) then; but no more records have large influences than the
        released counts of these let be.
        """
        clips, _ = influences.excesses
        found = np.zeros((len(coef), len(clips)))
        length = np.linalg.norm(matrix, axis=0)
        for j, sides in self.numbers.laws.items():
            if self.hidden[j]:
                continue
            variance = self.numbers.variance[j]
            unit = length[j] * abs(float(coef[j])) * variance
            farthest = self.distance[j] / math.sqrt(variance)
            for law in sides:
                sizes, beyond = law.curve
                values = unit * np.minimum(sizes, farthest) * np.maximum(sizes - _ENDS, 0.0)
                if values[-1] <= clips[0]:
                    continue
                grid = np.append(
                    clips, np.geomspace(clips[-1], 1.01 * max(values[-1], clips[-1]), 40)[1:]
                )
                share = np.interp(grid, values, beyond, right=0.0)
                share = np.minimum(share, influences.seen.most_beyond(grid))
                pieces = (share[1:] + share[:-1]) / 2 * np.diff(grid)
                found[j] += np.append(np.cumsum(pieces[::-1])[::-1], 0.0)[: len(clips)]
        return found

    def score_bias(self, coef: Array, slope: float) -> Array:
        """Return the bound n h' |β| E of the bias of each score; ``slope`` is n h'.

        It is 0 for what is dominated, which is not reported but as winsorised.
        """
        return np.where(self.dominated(coef), 0.0, slope * np.abs(coef) * self.lost)


@dataclass(frozen=True)
class Costs:
    """What decides the limits of a fit: see the head of this module.

    ``hessian_share`` is the noise of a diagonal entry of the Hessian over its value, for a direction
    within the radius.  ``largest_slope`` is h' of a record over its mean, by the public bound of the
    outcome, and ``largest_mean`` the same as far as outcomes are expected to go: more than 1 for
    counts, whose records count by exp of their predictor.
    """

    radius2: float
    noise_share: float
    hessian_share: float
    largest_slope: float = 1.0
    largest_mean: float = 1.0

    def slope(self, distance: Array, tilt: float) -> Array:
        """Return a bound of h' over its mean at each distance; ``tilt`` is |β| in sds."""
        return np.exp(np.minimum(tilt * distance, math.log(self.largest_slope)))

    def noise(self, stretch: Array) -> Array:
        """Noise over sampling variance, where a column is ``stretch`` = k times too long."""
        by_score = self.noise_share * stretch
        # an error of the Hessian multiplies the way to the estimate, of about one standard error of
        # the step before and one of the estimate
        by_hessian = 2 * (1 + by_score) * (self.hessian_share * stretch) ** 2
        return np.asarray(by_score + by_hessian)


def winsor_limits(
    numbers: Numbers,
    coef: Array,
    information: float,
    costs: Costs,
) -> WinsorLimits:
    """Choose the limit of each number that has a law; other columns end at their public bounds.

    ``information`` is n times the mean slope of the mean outcome, over its dispersion: T² =
    information β² v.
    """
    farthest = numbers.farthest
    variance = numbers.variance
    d = len(farthest)
    distance = farthest.copy()
    reach = farthest.copy()
    lost = np.zeros(d)
    others = np.ones(d)
    steepest = np.full(d, np.inf)
    hidden = np.zeros(d, dtype=bool)
    for j, sides in numbers.laws.items():
        sd = math.sqrt(variance[j])
        tilt = abs(float(coef[j])) * sd
        limits = np.geomspace(1.0, max(farthest[j] / sd, 1.0), _CANDIDATES)
        zero = np.zeros(len(limits))
        second = sum((_lost(law, limits, costs, tilt) for law in sides), zero)
        reaches = limits * np.sqrt(costs.slope(limits, tilt))
        other = 1 + costs.noise(np.maximum(1.0, reaches**2 / costs.radius2))
        bias2 = information * coef[j] ** 2 * variance[j] * second**2
        best = _widest(np.where(other <= _MOST_NOISE, other, np.inf) + bias2)
        if bias2[best] > other[best] or other[best] > _MOST_NOISE or not numbers.varies[j]:
            hidden[j] = True
            best = _widest(other)
        if bias2[best] > _NEGLIGIBLE:
            distance[j] = sd * limits[best]
        reach[j] = sd * reaches[best]
        lost[j] = variance[j] * second[best]
        others[j] = other[best]
        if costs.largest_slope > 1:
            far = min(distance[j], numbers.far(j))
            steepest[j] = math.log(_STEEP * costs.largest_mean) / far
    winsorised = distance < (1 - 1e-9) * farthest
    return WinsorLimits(
        numbers, distance, reach, winsorised, hidden, lost, others, steepest, information
    )


def _widest(cost: Array) -> int:
    """The place of the last cost that is as good as the least."""
    return int(np.flatnonzero(cost <= (1 + _EQUAL) * cost.min())[-1])


def _lost(law: TailLaw, limits: Array, costs: Costs, tilt: float) -> Array:
    """E over the variance, for each limit: the integral of P(s > t) d/dt[(t - c) t h'(t)]."""
    sizes, beyond = law.curve
    values = np.maximum(sizes - limits[:, None], 0.0) * sizes * costs.slope(sizes, tilt)
    return np.asarray(np.diff(values) @ ((beyond[1:] + beyond[:-1]) / 2))
