"""Limits at which the numbers of a fit are winsorised, and the bias that this leaves.

Records far out in a number cost noise: its column is scaled down until they fit the geometry.
Pulling them in to a limit costs bias.  The limit of each number is the one with the least noise² +
bias², by released histograms of that number.

| symbol | meaning                                                               | name in code   |
| ------ | --------------------------------------------------------------------- | -------------- |
| m, v   | mean and variance of a number, records counted by their information   |                |
| x      | a value less m                                                        |                |
| c      | the limit: x is pulled into ± c                                       | `distance`     |
| β      | the slope of the winsorised number                                    |                |
| μ(z)   | mean outcome where the predictor is z more: exp(z) of counts, else z  |                |
| f      | the ordinary slope over β, if the effect ends at the limit            |                |
| R²     | squared radius of the geometry: c² <= R² v costs no noise             | `radius2`      |
| q      | noise variance of a direction over its sampling variance              | `noise_share`  |

**Bias of the slope.** The estimate is β, of the number pulled in.  What the outcomes beyond c are, it
does not show.  If the effect goes on, β is the ordinary slope.  If it ends at c, records beyond
have the mean μ(βc), and the ordinary slope fβ solves

    β (1 - f) v  =  E[x (μ(fβx) - μ(fβc)); |x| > c]:

what the ordinary fit gains inside it loses beyond.  The right side grows with f and the left falls,
so there is one such f, and β (1 - f) bounds the bias for every effect between the two.

**Bias of the intercept.** The mean outcome changes by at most E[μ(fβx) - μ(fβc); |x| > c].

**Variance.** The ordinary residuals have (μ(fβx) - μ(fβc))² beyond the limit, too: it is added to
the covariance of the scores.

**Assumptions.** The effect is straight up to c, on the scale of the link, and beyond c neither
steeper nor reversed.  Other columns are unrelated to how far out a record is.

**Choice.** In units of the sampling variance of a slope, n h' v over the dispersion being its
information, a limit costs 1 + q k + bias², k = max(1, c²/(R² v)), and what the noise of the Hessian
adds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.families import FARTHEST
from dpinfer.maths.histograms import Tail
from dpinfer.maths.joint import SIGNAL
from dpinfer.maths.moments import SMALLEST, raised
from dpinfer.maths.tail_law import FEW, GROUPS, TailLaw

# of a variance: costs that differ by less are equal, 1 % of an interval's length
_EQUAL = 0.02
# squared bias over sampling variance below which a limit is left out: records beyond it are so few
# that the weight of their rows does, and 1 % of a variance is .5 % of a length
_NEGLIGIBLE = 0.01
_CANDIDATES = 60
# sds of a number from its mean: most records are nearer, and decide its slope
_ENDS = 2.0
_FLAT = 1e-6  # a slope, per sd, that is next to none: it is divided by
_FRACTIONS = np.linspace(0.0, 1.0, 21)  # at which f is tried; between two it is interpolated

Sides = tuple[TailLaw | None, TailLaw | None]
"""The laws of distances above and below a centre."""


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

    def tails(self, centre: float, unit: float, n: float) -> Sides:
        """Laws of the distances from ``centre`` above and below it, in units of ``unit``, which is the
        sd; None for a side without room for records beyond one sd.
        """
        low, high, counts, noise = self._bins()

        def law(near: Array, far: Array) -> TailLaw | None:
            order = np.argsort(-near)
            order = order[near[order] > 0]
            if not len(order) or near[order[0]] <= 1.0:
                return None
            tail = Tail(counts[order], n, noise[order], near[order], float(far[order[0]]))
            return TailLaw(tail, least=1.0)

        above = law((low - centre) / unit, (high - centre) / unit)
        return above, law((centre - high) / unit, (centre - low) / unit)

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
    """Mean and covariance of the columns, records counted by their information, the ``farthest``
    distance of each from the mean within public bounds, whether its variance ``varies`` clear of the
    noise, and the ``laws`` of the distances of some numbers from their mean, in sds.
    """

    mean: Array
    covariance: Array
    farthest: Array
    varies: npt.NDArray[np.bool_]
    laws: Mapping[int, Sides]

    @property
    def variance(self) -> Array:
        """Of each column."""
        return np.diag(self.covariance)

    @cached_property
    def tolerance(self) -> Array:
        """The part of each variance that the other columns leave: 1/VIF."""
        inner = self.covariance[1:, 1:]
        left = 1 / np.diag(np.linalg.inv(raised(inner, SMALLEST)))
        return np.append(1.0, np.minimum(left / np.diag(inner), 1.0))

    def far(self, j: int) -> float:
        """Return the distance from the mean that a few records are expected to exceed."""
        sizes = [law.exceeded_by(FEW) for law in self.laws[j] if law is not None]
        return math.sqrt(self.variance[j]) * max(sizes, default=1.0)

    def gentle(self, coef: Array, largest: float) -> Array:
        """Return coefficients of a logarithm whose slopes make the means of the few farthest records
        no more than ``largest`` times that of all.

        The mean of the records farthest out in a column is at most that of as many of the largest
        outcomes.  Where a pilot slope is steeper, weights by that slope would leave these records out.
        """
        found = coef.copy()
        for j in self.laws:
            steepest = math.log(largest) / self.far(j)
            found[j] = min(max(coef[j], -steepest), steepest)
        found[0] += self.mean[1:] @ (coef - found)[1:]
        return found


@dataclass(frozen=True, eq=False)
class WinsorLimits:
    """Where each column ends in a fit: ``distance`` from the mean, in the units of the columns.

    ``winsorised`` marks the numbers that records may exceed the limit of.  ``slope_bias`` and
    ``mean_bias`` bound the bias of a slope and of the mean outcome, over |β|, and ``mean_square`` is
    that of the change of the mean outcomes, over β².  ``reach`` is the distance for a geometry: of
    counts, whose records count by their means, it is longer.  ``unknown`` are numbers whose variance
    is not clear of the noise.
    """

    numbers: Numbers
    distance: Array
    reach: Array
    winsorised: npt.NDArray[np.bool_]
    unknown: npt.NDArray[np.bool_]
    slope_bias: Array
    mean_bias: Array
    mean_square: Array

    @property
    def limited(self) -> npt.NDArray[np.bool_]:
        """Which columns have a law, and so a limit."""
        found = np.zeros(len(self.distance), dtype=bool)
        found[list(self.numbers.laws)] = True
        return found

    def misfit(self, coef: Array, matrix: Array, influences: TailLaw) -> Array:
        """Return, for each column and clip of ``influences``, the mean of what the clip takes off
        records far out in that column, if its effect ends at two sds.

        Their residuals are |β| (|x| - 2 sd) then; but no more records have large influences than
        the released counts of these let be.
        """
        clips, _ = influences.excesses
        found = np.zeros((len(coef), len(clips)))
        length = np.linalg.norm(matrix, axis=0)
        for j, sides in self.numbers.laws.items():
            if self.unknown[j]:
                continue
            variance = self.numbers.variance[j]
            unit = length[j] * abs(float(coef[j])) * variance
            farthest = self.distance[j] / math.sqrt(variance)
            for law in sides:
                if law is None:
                    continue
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

    def bias(self, coef: Array, centre: Array, places: Indices) -> Array:
        """Return vectors, one a row, that bound the bias of the coefficients, the intercept at
        ``centre``: for each number of ``places`` one that moves its slope and one that moves the
        intercept.
        """
        size = np.abs(coef[places])
        slopes = np.zeros((len(places), len(coef)))
        slopes[np.arange(len(places)), places] = size * self.slope_bias[places]
        # the mean outcome at the mean of the information stays where it is
        slopes[:, 0] = slopes @ (centre - self.numbers.mean)
        intercepts = np.zeros_like(slopes)
        intercepts[:, 0] = size * self.mean_bias[places]
        return np.vstack([slopes, intercepts])

    def variance(self, coef: Array) -> float:
        """Return the mean square by which limits change the mean outcomes, over h'²."""
        return float(sum(coef[j] ** 2 * self.mean_square[j] for j in self.numbers.laws))


@dataclass(frozen=True)
class Costs:
    """What decides the limits of a fit: see the head of this module.

    ``hessian_share`` is the noise of a diagonal entry of the Hessian over its value, for a direction
    within the radius.  ``largest`` is, of counts, whose means are exp of the predictor, what few
    outcomes exceed, over the mean outcome: beyond a limit at which a fitted mean is larger, the
    outcomes decide nothing.
    """

    radius2: float
    noise_share: float
    hessian_share: float
    largest: float | None = None

    def reach(self, limits: Array, slope: float) -> Array:
        """Return the root of h' x² over the mean of h' at each limit; ``slope`` is β in sds."""
        if self.largest is None:
            return limits
        steep = np.exp(np.minimum(abs(slope) * limits, FARTHEST))
        return np.asarray(limits * np.sqrt(steep))

    def noise(self, stretch: Array) -> Array:
        """Noise over sampling variance, where a column is ``stretch`` = k times too long."""
        by_score = self.noise_share * stretch
        # an error of the Hessian multiplies the way to the estimate, of about one standard error of
        # the step before and one of the estimate
        by_hessian = 2 * (1 + by_score) * (self.hessian_share * stretch) ** 2
        return np.asarray(by_score + by_hessian)

    def signal(self, stretch: Array, tolerance: float) -> Array:
        """Return the information on a column that is ``stretch`` times too long, given the others, over
        its noise.
        """
        return np.asarray(tolerance / (self.hessian_share * stretch))


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
    distance = farthest.copy()
    reach = farthest.copy()
    bounds = np.zeros((3, len(farthest)))
    unknown = ~numbers.varies
    for j, sides in numbers.laws.items():
        sd = math.sqrt(variance[j])
        slope = float(coef[j]) * sd
        limits = np.geomspace(1.0, max(farthest[j] / sd, 1.0), _CANDIDATES)
        biases = _biases(sides, limits, slope, counts=costs.largest is not None)
        reaches = costs.reach(limits, slope)
        stretch = np.maximum(1.0, reaches**2 / costs.radius2)
        bias2 = information * coef[j] ** 2 * variance[j] * biases[0] ** 2
        signal = costs.signal(stretch, numbers.tolerance[j])
        unknown[j] |= bool(signal.max() < SIGNAL)
        # the signal is an estimate: a wider limit has some to spare
        allowed = (stretch <= 1) | (signal >= 2 * SIGNAL)
        if costs.largest is not None:
            allowed &= np.abs(slope) * limits <= math.log(costs.largest)
        allowed[0] = True
        best = _widest(np.where(allowed, 1 + costs.noise(stretch) + bias2, np.inf))
        if bias2[best] > _NEGLIGIBLE:
            distance[j] = sd * limits[best]
        reach[j] = sd * reaches[best]
        bounds[:, j] = biases[:, best] * (1.0, sd, sd**2)
    winsorised = distance < (1 - 1e-9) * farthest
    return WinsorLimits(numbers, distance, reach, winsorised, unknown, *bounds)


def _widest(cost: Array) -> int:
    """The place of the last cost that is as good as the least."""
    return int(np.flatnonzero(cost <= (1 + _EQUAL) * cost.min())[-1])


def _biases(sides: Sides, limits: Array, slope: float, *, counts: bool) -> Array:
    """Return the bounds of the bias of the slope and of the mean outcome, and the mean square of the
    change of the mean outcomes, of each limit; lengths are in sds, bounds over |β| or β².

    They depend on the tail law, and more than in proportion, so they are computed for each group of
    laws alike, and their squares averaged.  The mean square is the median of groups: that of counts
    can rest on records of which a law expects less than one.
    """
    size = max(abs(slope), _FLAT)
    slope_score, mean_change, square = np.zeros((3, GROUPS, len(_FRACTIONS), len(limits)))
    for law, sign in zip(sides, (1.0, -1.0), strict=True):
        if law is None:
            continue
        edges, beyond = law.curves
        sizes = (edges[1:] + edges[:-1]) / 2
        share = beyond[:, None, :-1] - beyond[:, None, 1:]
        slopes = sign * math.copysign(size, slope) * _FRACTIONS[:, None]
        mean, at_limit = slopes * sizes, slopes * limits
        if counts:
            mean, at_limit = (np.exp(np.clip(z, -FARTHEST, FARTHEST)) for z in (mean, at_limit))
        number = _sums_beyond(share, sizes, limits)
        first = _sums_beyond(share * sizes, sizes, limits)
        slope_score += np.abs(_sums_beyond(share * sizes * mean, sizes, limits) - at_limit * first)
        total = _sums_beyond(share * mean, sizes, limits)
        # the two sides move the mean in opposite ways
        mean_change = np.maximum(mean_change, np.abs(total - at_limit * number))
        squares = _sums_beyond(share * mean**2, sizes, limits)
        square += squares - 2 * at_limit * total + at_limit**2 * number
    # f is where this is 0; at f = 1 it is at least that
    gap = slope_score - size * (1 - _FRACTIONS)[:, None]
    after = np.argmax(gap >= 0, axis=1)[:, None]
    before = np.maximum(after - 1, 0)
    high, low = (np.take_along_axis(gap, of, axis=1) for of in (after, before))
    back = np.where(high > low, high / np.where(high > low, high - low, 1.0), 0.0)

    def at_fraction(values: Array) -> Array:
        later, earlier = (np.take_along_axis(values, of, axis=1)[:, 0] for of in (after, before))
        return later + back[:, 0] * (earlier - later)

    of_fraction = np.broadcast_to(_FRACTIONS[:, None], gap.shape)
    return np.stack(
        [
            np.sqrt(((1 - at_fraction(of_fraction)) ** 2).mean(axis=0)),
            np.sqrt((at_fraction(mean_change) ** 2).mean(axis=0)) / size,
            np.median(at_fraction(square), axis=0) / size**2,
        ]
    )


def _sums_beyond(values: Array, sizes: Array, limits: Array) -> Array:
    """Return sums over the sizes beyond each limit, along the last axis."""
    sums = np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]
    none = np.zeros((*sums.shape[:-1], 1))
    return np.asarray(np.append(sums, none, axis=-1)[..., np.searchsorted(sizes, limits)])
