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
| μ(z)   | mean outcome where the predictor is z more, over its mean slope h'    | `Response`     |
| f      | the ordinary slope over β, if the effect ends at the limit            |                |
| R²     | squared radius of the geometry: c² <= R² v costs no noise             | `radius2`      |
| t, k   | tolerance of the number, 1/VIF; 1 + max(0, c²/(R² v) - 1)/t           | `stretch`      |
| q, h   | noise over sampling variance of a score; relative noise of the Hessian | `noise_share`, `hessian_share` |

**Bias of the slope.** The estimate is β, of the number pulled in; it does not show what outcomes
beyond c are.  If the effect ends at c, records beyond have the mean μ(βc), and the ordinary slope fβ
solves

    β (1 - f) (v - E[x²; |x| > c])  =  E[x (μ(fβx) - μ(βc)); |x| > c]:

what the ordinary fit gains inside it loses beyond.  The left side falls with f and the right one
grows, so there is one such f.  If the effect goes on, the same holds with x_c for the first x: the
winsorised slope is too steep then, by less (Cauchy-Schwarz).  So β (1 - f) bounds the bias of both.

**Intercept.** At m the mean outcome differs by E[μ(fβx) - μ(βc); |x| > c], and by β (1 - f) E|x| of
the records beyond, for a side, as those inside have the opposite mean.

**Other coefficients.** The ordinary residuals of an effect that ends have μ(βc) - μ(fβx) beyond the
limit and (1 - f) βx inside, which those of the fit do not have.  Their mean square is added to the
covariance of the scores: so much the ordinary coefficients of the same records differ by chance.

**Choice.** In units of the sampling variance of a slope, n h' v t over the dispersion being its
information, a limit costs 1 + q k + bias², and what the noise of the Hessian adds.  Not tried are
limits at which too little is known of the number, given the others, and, of counts, those at which
the fitted mean exceeds what all but a few outcomes are.  Where the ordinary slope could not be
reported at the best limit, the widest one without a cost in noise is taken: the slope of the
winsorised number is reported instead.

**Assumptions.** The effect is straight up to c, on the scale of the link, and beyond c neither
steeper nor reversed.  Other columns are unrelated to how far out a record is.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import expit, ndtr, ndtri

from dpinfer.inference.constants import (
    CLEAR_SDS,
    MAX_ERROR_SHARE,
    MIN_SIGNAL,
    MIN_TAIL_RECORDS,
    MISFIT_SDS,
    NEGLIGIBLE_VARIANCE,
)
from dpinfer.inference.moments import SMALLEST, raised
from dpinfer.inference.newton import normal_nodes
from dpinfer.inference.tails import GROUPS, Tail, TailLaw
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST
from dpinfer.numerics.reasons import Numerical

_CANDIDATES: Numerical[int] = 60
_FRACTIONS: Numerical[Array] = np.linspace(
    0.0, 1.0, 11
)  # at which f is tried; between two it is interpolated

Sides = tuple[TailLaw | None, TailLaw | None]
"""The laws of distances above and below a centre."""
Response = Callable[[Array], Array]
"""μ(z): the mean outcome where the predictor is z more, over its mean slope."""


def straight(z: Array) -> Array:
    """Return μ(z) of least squares."""
    return z


def exponential(z: Array) -> Array:
    """Return μ(z) of counts."""
    return np.asarray(np.exp(np.clip(z, -FARTHEST, FARTHEST)))


def logistic(mean: float, sd: float, slope: float) -> Response:
    """Return μ(z) of a logit whose predictor is Gaussian, ``slope`` being its mean slope.

    Where an outcome is rare its chance grows faster than z; where it is not, an effect that ends
    leaves residuals that the curve of chances does not have.  So it is the farther from 0 of the two.
    """
    nodes, weights = normal_nodes()
    table = np.linspace(-FARTHEST, FARTHEST, 601)
    chances = expit(mean + table[:, None] + sd * nodes) @ weights
    changes = (chances - expit(mean + sd * nodes) @ weights) / slope

    def response(z: Array) -> Array:
        change = np.interp(z, table, changes)
        return np.where(np.abs(change) > np.abs(z), change, z)

    return response


@dataclass(frozen=True, eq=False)
class Histograms:
    """Released histograms of one number, each of equal bins between two ``ends`` and inside the one
    before it; what lies beyond is in the end bins.  ``noise`` is the sd of a count.
    """

    ends: tuple[tuple[float, float], ...]
    counts: tuple[Array, ...]
    noise: float

    def bins(self) -> tuple[Array, Array, Array, Array]:
        """Return lower and upper ends of disjoint bins, their counts and the sd of each."""
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
        low, high, counts, noise = self.bins()

        def law(near: Array, far: Array) -> TailLaw | None:
            order = np.argsort(-near)
            order = order[near[order] > 0]
            if not len(order) or near[order[0]] <= 1.0:
                return None
            tail = Tail(counts[order], n, noise[order], near[order], float(far[order[0]]))
            return TailLaw(tail, min_start=1.0)

        above = law((low - centre) / unit, (high - centre) / unit)
        return above, law((centre - high) / unit, (centre - low) / unit)

    @property
    def two_valued(self) -> bool:
        """Return whether the counts show records at both ends of the public bounds and none between."""
        if len({*self.ends}) > 1:
            return False
        together = np.sum(self.counts, axis=0)
        sd = self.noise * np.sqrt(len(self.counts))
        inner = together[1:-1]
        # noise alone exceeds this in any of the inner bins as seldom as `CLEAR_SDS` in one
        each = -float(ndtri(ndtr(-CLEAR_SDS) / len(inner)))
        none = inner.sum() <= CLEAR_SDS * sd * np.sqrt(len(inner)) and (inner <= each * sd).all()
        return bool(none and min(together[0], together[-1]) > CLEAR_SDS * sd)


@dataclass(frozen=True, eq=False)
class NumberLaws:
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
        """Return the variance of each column."""
        return np.diag(self.covariance)

    @cached_property
    def tolerance(self) -> Array:
        """Return the tolerance of each column, 1 - R² on the other columns (1/VIF)."""
        inner = self.covariance[1:, 1:]
        left = 1 / np.diag(np.linalg.inv(raised(inner, SMALLEST)))
        return np.append(1.0, np.minimum(left / np.diag(inner), 1.0))

    def far(self, j: int) -> float:
        """Return the distance from the mean that a few records are expected to exceed."""
        sizes = [law.exceeded_by(MIN_TAIL_RECORDS) for law in self.laws[j] if law is not None]
        return math.sqrt(self.variance[j]) * max(sizes, default=1.0)

    def candidates(self, j: int) -> Array:
        """Return the limits that are tried, in sds: from one to the farthest distance."""
        farthest = self.farthest[j] / math.sqrt(self.variance[j])
        return np.geomspace(1.0, max(farthest, 1.0), _CANDIDATES)

    @cached_property
    def straight_fractions(self) -> Mapping[int, Array]:
        """Return 1 - f of each candidate of each number in least squares, where it is the same for every slope."""
        return {
            j: _fraction(sides, self.candidates(j), 1.0, straight) for j, sides in self.laws.items()
        }

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
    """The winsor limits of a fit: ``distance`` from the mean, in the units of the columns.

    ``limits`` are the same in sds, as they were chosen.  ``winsorised`` marks the numbers that are
    pulled in; where that would change next to nothing, rows beyond a limit count less instead.
    ``reach`` is the distance for a geometry: of counts, whose records count by their means, it is
    longer.  ``unknown`` are numbers of which too little is known at any limit.
    """

    numbers: NumberLaws
    response: Response
    limits: Array
    distance: Array
    reach: Array
    winsorised: npt.NDArray[np.bool_]
    unknown: npt.NDArray[np.bool_]

    @property
    def limited(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the columns that have a limit."""
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
                values = unit * np.minimum(sizes, farthest) * np.maximum(sizes - MISFIT_SDS, 0.0)
                if values[-1] <= clips[0]:
                    continue
                grid = np.append(
                    clips, np.geomspace(clips[-1], 1.01 * max(values[-1], clips[-1]), 40)[1:]
                )
                share = np.interp(grid, values, beyond, right=0.0)
                share = np.minimum(share, influences.tail.max_beyond(grid))
                pieces = (share[1:] + share[:-1]) / 2 * np.diff(grid)
                found[j] += np.append(np.cumsum(pieces[::-1])[::-1], 0.0)[: len(clips)]
        return found

    def bounds(self, coef: Array) -> Array:
        """Return, for each column, bounds of the bias of its slope and of the mean outcome, and the mean
        square of what residuals change by.
        """
        found = np.zeros((3, len(coef)))
        for j, sides in self.numbers.laws.items():
            sd = math.sqrt(self.numbers.variance[j])
            slope = float(coef[j]) * sd
            bounds = _bounds(sides, self.limits[[j]], slope, self.response)[:, 0]
            found[:, j] = bounds[0] * abs(float(coef[j])), bounds[1], bounds[2]
        return found

    def bias(self, slopes: Array, means: Array, centre: Array) -> Array:
        """Return vectors, one a row, of the coefficients, the intercept at ``centre``: for each number
        one that moves its slope and one that moves the intercept.
        """
        moved = np.diag(slopes)
        # the mean outcome at the mean of the information stays where it is
        moved[:, 0] += slopes * (centre - self.numbers.mean)
        levels = np.zeros_like(moved)
        levels[:, 0] = means
        return np.vstack([moved, levels])


@dataclass(frozen=True)
class Costs:
    """The terms of the cost of a limit: see the head of this module.

    ``hessian_share`` is the noise of a diagonal entry of the Hessian over its value, for a direction
    within the radius.  ``size`` is a plausible slope per sd, and ``largest`` is, of counts, what few
    outcomes exceed, over the mean outcome.
    """

    radius2: float
    noise_share: float
    hessian_share: float
    size: float
    response: Response = straight
    largest: float | None = None

    def reach(self, limits: Array, slope: float) -> Array:
        """Return the root of h' x² over the mean of h' at each limit; ``slope`` is β in sds."""
        if self.largest is None:
            return limits
        steep = np.exp(np.minimum(abs(slope) * limits, FARTHEST))
        return np.asarray(limits * np.sqrt(steep))

    def stretch(self, reach: Array, tolerance: float) -> Array:
        """Return the noise of a column that ends at ``reach`` over that of one within the radius.

        The column is scaled down by max(0, c²/(R² v) - 1) times its variance, added in the geometry.  The part
        of the column that the others leave has the length tolerance plus that there, and had the tolerance.
        """
        added = np.maximum(reach**2 / self.radius2 - 1, 0.0)
        return np.asarray(1 + added / tolerance)

    def noise(self, stretch: Array) -> Array:
        """Noise over sampling variance, where a column is so much noisier than within the radius."""
        by_score = self.noise_share * stretch
        # an error of the Hessian multiplies the way to the estimate, of about one standard error of
        # the step before and one of the estimate
        by_hessian = 2 * (1 + by_score) * (self.hessian_share * stretch) ** 2
        return np.asarray(by_score + by_hessian)


def winsor_limits(
    numbers: NumberLaws,
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
    chosen = np.zeros(len(farthest))
    unknown = np.zeros(len(farthest), dtype=bool)
    for j, sides in numbers.laws.items():
        sd = math.sqrt(variance[j])
        slope = float(coef[j]) * sd
        limits = numbers.candidates(j)
        if costs.response is straight:
            bias = numbers.straight_fractions[j]
        else:
            bias = _fraction(sides, limits, slope, costs.response)
        reaches = costs.reach(limits, slope)
        tolerance = numbers.tolerance[j]
        stretch = costs.stretch(reaches, tolerance)
        bias2 = information * tolerance * (slope * bias) ** 2
        signal = 1 / (costs.hessian_share * stretch)
        unknown[j] |= bool(signal.max() < MIN_SIGNAL)
        # the signal is a forecast, so a limit beyond the radius needs twice the threshold
        allowed = (stretch <= 1) | (signal >= 2 * MIN_SIGNAL)
        if costs.largest is not None:
            allowed &= np.abs(slope) * limits <= math.log(costs.largest)
        allowed[0] = True
        cost = np.where(allowed, 1 + costs.noise(stretch) + bias2, np.inf)
        best = int(np.argmin(cost))
        if cost[best] > information * tolerance * (MAX_ERROR_SHARE * costs.size) ** 2:
            best = int(np.flatnonzero(allowed & (stretch <= stretch[0]))[-1])
        if bias2[best] > NEGLIGIBLE_VARIANCE:
            distance[j] = sd * limits[best]
        reach[j] = sd * reaches[best]
        chosen[j] = limits[best]
    winsorised = distance < (1 - 1e-9) * farthest
    return WinsorLimits(numbers, costs.response, chosen, distance, reach, winsorised, unknown)


def relative_bias(sides: Sides, limits: Array) -> Array:
    """Return 1 - f of least squares at each limit, in sds: the share of a slope that a limit may change.

    Under the identity link it does not depend on the slope.
    """
    return np.asarray(_fraction(sides, limits, 1.0, straight))


def clipped_moments(sides: Sides, limits: Array) -> tuple[Array, Array]:
    """Return what each limit c, in sds, changes of a mean, and E[x (x - x_c)], of a variance of 1.

    The two sides move a mean in opposite ways, so that the larger one bounds the change.  A variance
    changes by at most twice E[x (x - x_c)], as x² - x_c² <= 2 x (x - x_c); a covariance with another
    column by that share of it, if the mean of that column is straight in x.  Both are those of the heaviest
    group of tail laws: a limit is chosen by the same counts, so that it is short where they are low.
    """
    shift, share = np.zeros((2, GROUPS, len(limits)))
    for law in sides:
        if law is None:
            continue
        edges, survival = law.curves
        sizes = (edges[1:] + edges[:-1]) / 2
        mass = survival[:, :-1] - survival[:, 1:]
        number, first, second = (
            _sums_beyond(mass * values, sizes, limits) for values in (1.0, sizes, sizes**2)
        )
        shift = np.maximum(shift, first - limits * number)
        share += second - limits * first
    return np.asarray(shift.max(axis=0)), np.asarray(np.minimum(share, 1.0).max(axis=0))


def _fraction(sides: Sides, limits: Array, slope: float, response: Response) -> Array:
    """Return 1 - f of each limit, the root mean square of the groups of laws; lengths are in sds.

    The bounds are convex in the weight of a tail, so they are computed for each group of laws alike,
    and their squares averaged.
    """
    beyond = _Beyond.of(sides, limits, slope, response)
    return _root_mean_square(beyond.fraction)


def _bounds(sides: Sides, limits: Array, slope: float, response: Response) -> Array:
    """Return 1 - f, the change of the mean outcome, and the mean square of what residuals change by, of
    each limit, as `_fraction` does.

    The mean square is the median of groups: that of counts can rest on records of which a law expects
    less than one.
    """
    beyond = _Beyond.of(sides, limits, slope, response)
    square = beyond.at(beyond.square) + (slope * beyond.fraction) ** 2 * beyond.inside[:, 0]
    mean = _root_mean_square(beyond.at(beyond.change))
    return np.stack([_root_mean_square(beyond.fraction), mean, np.median(square, axis=0)])


def _root_mean_square(of_groups: Array) -> Array:
    return np.asarray(np.sqrt((of_groups**2).mean(axis=0)))


@dataclass(frozen=True, eq=False)
class _Side:
    """The records on one side of a number: their ``sizes``, the ``share`` of each in each group of laws, and
    μ(fβx) for each f, as ``mean``; μ(βc) ``at_limit``.  ``toward`` is β times the sign of the side.
    """

    limits: Array
    sizes: Array
    share: Array
    mean: Array
    at_limit: Array
    toward: float

    @classmethod
    def of(
        cls, law: TailLaw, sign: float, limits: Array, slope: float, response: Response
    ) -> "_Side":
        """Return the records of a side beyond the smallest limit."""
        edges, survival = law.curves
        sizes = (edges[1:] + edges[:-1]) / 2
        first = int(np.searchsorted(sizes, limits.min()))
        sizes = sizes[first:]
        survival = survival[:, None, first:]
        toward = sign * slope
        return cls(
            limits,
            sizes,
            survival[..., :-1] - survival[..., 1:],
            response(toward * _FRACTIONS[:, None] * sizes),
            response(toward * limits),
            toward,
        )

    def sum(self, values: Array) -> Array:
        """Return the sums of values over the records beyond each limit."""
        return _sums_beyond(self.share * values, self.sizes, self.limits)

    @cached_property
    def number(self) -> Array:
        """Return the share of the records beyond each limit."""
        return _sums_beyond(self.share, self.sizes, self.limits)

    @cached_property
    def first(self) -> Array:
        """Return the sum of x."""
        return self.sum(self.sizes)

    @cached_property
    def total(self) -> Array:
        """Return the sum of μ(fβx)."""
        return self.sum(self.mean)

    @property
    def score(self) -> Array:
        """Return the sum of x (μ(fβx) - μ(βc))."""
        product = self.sum(self.sizes * self.mean)
        return math.copysign(1.0, self.toward) * (product - self.at_limit * self.first)

    @property
    def square(self) -> Array:
        """Return the sum of (μ(fβx) - μ(βc))²."""
        squares = self.sum(self.mean**2)
        return squares - 2 * self.at_limit * self.total + self.at_limit**2 * self.number

    @property
    def change(self) -> Array:
        """Return the change of the mean outcome."""
        level = self.toward * (1 - _FRACTIONS)[:, None] * self.first
        return np.abs(self.total - self.at_limit * self.number + level)


@dataclass(frozen=True, eq=False)
class _Beyond:
    """Means over records beyond each limit, for each group of tail laws and each f."""

    sides: tuple[_Side, ...]
    slope: float
    shape: tuple[int, int, int]

    @classmethod
    def of(cls, sides: Sides, limits: Array, slope: float, response: Response) -> "_Beyond":
        """Return both sides of a number."""
        own = tuple(
            _Side.of(law, sign, limits, slope, response)
            for law, sign in zip(sides, (1.0, -1.0), strict=True)
            if law is not None
        )
        return cls(own, slope, (GROUPS, len(_FRACTIONS), len(limits)))

    @cached_property
    def inside(self) -> Array:
        """Return E[x²; |x| <= c]."""
        beyond = np.zeros((GROUPS, 1, self.shape[-1]))
        for side in self.sides:
            beyond += side.sum(side.sizes**2)
        return np.maximum(1 - beyond, SMALLEST)

    @cached_property
    def at(self) -> Callable[[Array], Array]:
        """Return the interpolation of values to the f at which gain and loss are equal."""
        score = np.zeros(self.shape)
        for side in self.sides:
            score += side.score
        return _at_root(score - abs(self.slope) * (1 - _FRACTIONS)[:, None] * self.inside)

    @cached_property
    def fraction(self) -> Array:
        """Return 1 - f of each group and limit."""
        return 1 - self.at(np.broadcast_to(_FRACTIONS[:, None], self.shape))

    @property
    def square(self) -> Array:
        """Return E (μ(fβx) - μ(βc))² beyond each limit."""
        found = np.zeros(self.shape)
        for side in self.sides:
            found += side.square
        return found

    @property
    def change(self) -> Array:
        """Return the change of the mean outcome: the two sides move it in opposite ways."""
        found = np.zeros(self.shape)
        for side in self.sides:
            np.maximum(found, side.change, out=found)
        return found


def _at_root(gap: Array) -> Callable[[Array], Array]:
    """Return the interpolation of values to the fraction at which a gap that grows with it is 0; at
    the last fraction it is at least that.
    """
    after = np.argmax(gap >= 0, axis=1)[:, None]
    before = np.maximum(after - 1, 0)
    high, low = (np.take_along_axis(gap, of, axis=1)[:, 0] for of in (after, before))
    back = np.where(high > low, high / np.where(high > low, high - low, 1.0), 0.0)

    def at(values: Array) -> Array:
        later, earlier = (np.take_along_axis(values, of, axis=1)[:, 0] for of in (after, before))
        return np.asarray(later + back * (earlier - later))

    return at


def _sums_beyond(values: Array, sizes: Array, limits: Array) -> Array:
    """Return sums over the sizes beyond each limit, along the last axis."""
    sums = np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]
    none = np.zeros((*sums.shape[:-1], 1))
    return np.asarray(np.append(sums, none, axis=-1)[..., np.searchsorted(sizes, limits)])
