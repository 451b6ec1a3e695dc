"""Figures of columns with intervals, from released sums: counts, shares, means, standard deviations, quartiles.

An interval covers the sampling error, as if the records were drawn from a larger population, and the privacy
noise.  Counts and shares have Wilson's interval (Wilson, 1927), means and other ratios Fieller's (Fieller, 1954),
quartiles the values at which an estimating function is not significantly different from 0 (Woodruff, 1952), and
differences the intervals of Newcombe (1998) and of Zou and Donner (2008); the variance of the noise is added to that
of sampling in all of them.

| symbol | meaning                                                                                            |
| ------ | -------------------------------------------------------------------------------------------------- |
| U      | the usable records, added up by their weights                                                      |
| N      | all records, added up by their weights                                                             |
| z      | the normal quantile of the level                                                                   |
| D(x)   | estimating function of the quantile of p: (1 - p) records up to x less p records above it          |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import ndtr, ndtri

from dpinfer.mechanisms.column_sums import QUARTILES, Cuts, Numbers
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.reasons import Constant, Numerical

REPORTING_MARGIN = Constant(
    2.0,
    name="REPORTING_MARGIN",
    decides="the noise sds by which usable records must exceed what an interval inside the public bounds needs",
    reason="noise takes 2 sds away with probability Φ(-2) = 2.3 %, so that a reported figure has such an interval "
    "in 98 "
    "of 100 cases",
    source="error rate",
)
# The rule looks at the number of usable records alone: judged by its interval, a figure would be reported because
# noise has favoured it.
WITHIN_BIN_TOLERANCE = Constant(
    0.4,
    name="WITHIN_BIN_TOLERANCE",
    decides="the bias of D, in its sds, that the distribution within a bin may cause",
    reason="a bias b leaves the level P(|Z + b| <= z): of 95 % that is 93.1 % at b = .4, in the worst case, where all "
    "observations of a bin are at one of its ends",
    source="derivation of the level; the threshold is a convention",
)
BIN_WIDTH = Constant(
    0.5,
    name="BIN_WIDTH",
    decides="the width of a bin, in sds of D",
    reason="the middle of a bin is then within .25 sd of D of all its points, less than `WITHIN_BIN_TOLERANCE`; "
    "narrower "
    "bins cost noise, as the variance of D grows with the number of bins on each side",
    source="derivation",
)
# Bins of one quartile in one release.  A bracket of 2 BRACKET_Z sds has 8 bins of BIN_WIDTH, half as many again
# leave room for a bracket that noise has made too wide; at most six times as many resolve a bracket without noise.
MIN_BINS: Numerical[int] = 12
MAX_BINS: Numerical[int] = 48
LONGEST_HISTOGRAM: Numerical[int] = len(QUARTILES) * (MAX_BINS + 3) + 7
"""Bins, at most: the edges of a bracket for each quartile and around three heaps, and the last bin."""
MARGINAL_WIDENING = Constant(
    0.5,
    name="MARGINAL_WIDENING",
    decides="the sds that are added to z where a figure is hardly reported",
    reason="a figure just at the threshold is reported for positive noise alone, whose mean is sqrt(2/π) = .80 sds: "
    "with "
    "such a bias an interval of z + .5 sds still has the level 95.1 %, and more where noise is a part of the error",
    source="derivation",
)
BRACKET_Z = Constant(
    2.0,
    name="BRACKET_Z",
    decides="half the length, in sds of D, of the bracket of a quartile that the next release looks at more closely",
    reason="it misses the quartile with probability 2 Φ(-2) = 4.6 %; one wide bin on each side is there for these",
    source="error rate",
)
MAX_RELATIVE_VARIANCE = Constant(
    0.5,
    name="MAX_RELATIVE_VARIANCE",
    decides="the largest z² times the squared relative error of a variance",
    reason="the denominator 1 - z² c of its interval is then at least 1/2, so that the upper end is finite",
    source="derivation of the end; the threshold is a convention",
)


@dataclass(frozen=True)
class Bracket:
    """Cells that a quartile lies between, the first excluded, and the number of bins they are divided into."""

    first: int
    last: int
    bins: int

    def edges(self) -> Indices:
        """Return the last cells of equal bins in the bracket, and of one wide bin on each side of it.

        A quartile outside of its bracket is so not lost among all values beyond.
        """
        margin = (self.last - self.first) / 2
        inside = np.linspace(self.first, self.last, self.bins + 1)
        edges = np.concatenate([[self.first - margin], inside, [self.last + margin]])
        return np.round(edges).astype(np.intp)


Brackets = list[list[list[Bracket]]]
"""One for each group, column and quartile."""


@dataclass(frozen=True)
class Interval:
    """An estimate between the ends of its interval."""

    estimate: float
    low: float
    high: float

    def within(self, low: float, high: float) -> "Interval":
        """Return the interval cut off at the bounds of the parameter.

        If noise moved the estimate outside, the interval of an estimate at the bound is included: the rest
        of the interval alone would look certain.
        """
        estimate = min(max(self.estimate, low), high)
        moved = estimate - self.estimate
        first = min(self.low, self.low + moved)
        last = max(self.high, self.high + moved)
        return Interval(estimate, min(max(first, low), high), min(max(last, low), high))

    def scaled(self, factor: float, shift: float = 0.0) -> "Interval":
        """Return the interval in other units; the factor is above 0."""
        return Interval(*(shift + factor * x for x in (self.estimate, self.low, self.high)))

    def less(self, other: "Interval", correlation: float = 0.0) -> "Interval":
        """Return the difference of two figures by their intervals.

        The distances of the ends from the estimates are combined as standard errors are: the square-and-add
        interval of Newcombe (1998) and, with a correlation of the estimates, of Zou and Donner (2008).
        """
        down = self.estimate - self.low
        up = self.high - self.estimate
        other_down = other.estimate - other.low
        other_up = other.high - other.estimate
        estimate = self.estimate - other.estimate
        return Interval(
            estimate,
            estimate - _side(down, other_up, correlation),
            estimate + _side(up, other_down, correlation),
        )


def _side(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))


@dataclass(frozen=True)
class QuadraticVariance:
    """A variance function of the parameter m: constant + slope m + square m²."""

    constant: float
    slope: float = 0.0
    square: float = 0.0

    def plus(self, other: "QuadraticVariance") -> "QuadraticVariance":
        """Return the variance of a sum of independent errors."""
        return QuadraticVariance(
            self.constant + other.constant,
            self.slope + other.slope,
            self.square + other.square,
        )

    def times(self, factor: float) -> "QuadraticVariance":
        return QuadraticVariance(factor * self.constant, factor * self.slope, factor * self.square)

    def at(self, m: float) -> float:
        """Return the variance at m, at least 0."""
        return max(self.constant + self.slope * m + self.square * m**2, 0.0)


def ratio(x: float, u: float, variance: QuadraticVariance, z: float) -> Interval:
    """Return x/u with the interval of all m for which x - m u is within z sds of 0.

    ``variance`` is that of x - m u.  Without noise the interval of a share is Wilson's (1927), that of a mean
    Fieller's (1954); a count has u = 1.  The interval is infinite where u is not significantly above 0.
    """
    # (x - m u)² <= z² variance(m) is a m² - 2 b m + c <= 0
    a = u**2 - z**2 * variance.square
    b = x * u + z**2 * variance.slope / 2
    c = x**2 - z**2 * variance.constant
    if u <= 0 or a <= 0:
        return Interval(x / u if u else math.nan, -math.inf, math.inf)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Interval(x / u, (b - root) / a, (b + root) / a)


def bounded_ratio(
    x: float,
    u: float,
    variance: QuadraticVariance,
    z: float,
    ends: tuple[float, float],
    *,
    clear: bool = True,
) -> Interval:
    """Return the `ratio` of a parameter between two ``ends``, with an interval of the same level there.

    If noise moves an estimate outside of the ends, the interval of an estimate at the end is used: what is
    left of its own would look certain.  So a parameter within this distance of an end is never missed on
    that side; only the other side may err, and it is that of a one-sided interval.  A figure that is not
    ``clear`` (`clearly_reported`) keeps both sides, and some more.
    """
    low, high = ends
    z = widened_z(z, clear=clear)
    found = ratio(x, u, variance, z)
    estimate = min(max(found.estimate, low), high)
    if not math.isfinite(found.low + found.high):
        return Interval(estimate, low, high)
    from_low = ratio(low * u, u, variance, z).high
    from_high = ratio(high * u, u, variance, z).low if math.isfinite(high) else math.inf
    first = min(found.low, from_high)
    last = max(found.high, from_low)
    if clear and from_low <= from_high:  # else no parameter is missed on either side
        one_side = ratio(x, u, variance, one_sided(z))
        first = max(first, min(one_side.low, from_low))
        last = min(last, max(one_side.high, from_high))
    return Interval(estimate, min(max(first, low), high), min(max(last, low), high))


def clearly_reported(usable: float, noise_sd: float, needed: float) -> bool:
    """Return whether there are clearly more usable records than it takes to report a figure.

    Where there are hardly enough, the figure may be reported because noise has raised their number, and
    errs more often on one side.
    """
    return usable - REPORTING_MARGIN * noise_sd > needed


def widened_z(z: float, *, clear: bool) -> float:
    """Return the quantile of the level, and more where a figure is not clearly reported."""
    return z if clear else z + MARGINAL_WIDENING


def one_sided(z: float) -> float:
    """Return the normal quantile of an interval that errs on one side only, and there twice as often."""
    return -float(ndtri(2 * ndtr(-z)))


@dataclass(frozen=True)
class NoisyVariance:
    """A sampling variance that was released, with the sd of its noise.

    ``privacy_variance`` is the variance of the privacy noise of the figure itself, which is added to it.
    """

    variance: float
    noise_sd: float
    privacy_variance: float

    def safe(self, z: float) -> float:
        """Return an upper estimate with which an interval of z sds keeps its level on average.

        The level of an interval is a concave function of its variance v = variance + privacy_variance; its
        second derivative is -(z² + 1)/(2 v) times the first.  By a Taylor expansion its mean over the noise
        is kept by adding (z² + 1)/4 noise_sd²/v.  Where noise dominates v the expansion fails and would add
        too much: at most one noise sd is added.
        """
        variance = max(self.variance, 0.0)
        total = variance + self.privacy_variance
        added = self.noise_sd
        if total > 0:
            added = min(added, (z**2 + 1) / 4 * self.noise_sd**2 / total)
        return variance + added

    def fraction_of(self, upper: float, z: float) -> float:
        """Return the variance as a fraction, from 0 to 1, of its upper bound.

        The bound is attained where all contributions of a unit are equal.
        """
        if not upper > 0:
            return 1.0
        return min(self.safe(z) / upper, 1.0)


def binomial(total: float) -> QuadraticVariance:
    """Return the variance of a count C of ``total`` records: C (1 - C/total)."""
    return QuadraticVariance(0.0, 1.0, -1 / total if total > 0 else 0.0)


@dataclass(frozen=True)
class NumberMoments:
    """The released sums of one number in one group, with the sds of their noise.

    Of the scaled numbers t, ``total`` and ``square`` are the sums of t and t²; ``noise_sd`` has those of
    ``usable``, ``total`` and ``square``.  Where observations have unequal weights ``squares`` has the sums of
    w², w a and a² over units, a the sum of w t of a unit.  ``distance_squares`` has those of y² and y w, y the
    scaled squared distance from ``centre``.
    """

    usable: float
    total: float
    square: float
    noise_sd: tuple[float, float, float]
    centre: float
    squares: tuple[float, float, float] | None = None
    distance_squares: tuple[float, float] | None = None
    squares_noise_sd: float = 0.0
    distances_noise_sd: float = 0.0

    @property
    def middle(self) -> float:
        """The mean."""
        return self.total / self.usable

    @property
    def variance(self) -> float:
        """The variance of the numbers; noise may take it below 0."""
        return self.square / self.usable - self.middle**2

    def _errors(self, z: float) -> QuadraticVariance:
        """Return the variance of total - m usable, as a function of the mean m."""
        of_usable, of_total, _ = self.noise_sd
        noise = QuadraticVariance(of_total**2, 0.0, of_usable**2)
        # Σ (t - m)² = square - 2 m total + m² usable; by Cauchy and Schwarz square is at least total²/usable,
        # and noise must not make a variance below 0
        square = max(self.square, self.total**2 / self.usable)
        sampling = QuadraticVariance(square, -2 * self.total, self.usable)
        if self.squares is None:
            return sampling.plus(noise)
        # Σ (a - m w)² over units, which is at most the sum above: it is a fraction of that
        m = self.middle
        ww, wa, aa = self.squares
        of_squares = self.squares_noise_sd * math.sqrt(1 + 4 * m**2 + m**4)
        by_unit = NoisyVariance(aa - 2 * m * wa + m**2 * ww, of_squares, noise.at(m))
        return sampling.times(by_unit.fraction_of(sampling.at(m), z)).plus(noise)

    def mean(self, z: float) -> Interval:
        """Return the mean with its interval."""
        clear = self._mean_is_clear(z)
        errors = self._errors(z)
        return bounded_ratio(self.total, self.usable, errors, z, (-1.0, 1.0), clear=clear)

    def unbounded_mean(self, z: float) -> Interval:
        """Return the mean with its interval as if it had no bounds, for differences."""
        wide = widened_z(z, clear=self._mean_is_clear(z))
        return ratio(self.total, self.usable, self._errors(z), wide)

    def sd(self, z: float) -> Interval:
        """Return the standard deviation; its lower end is 0 where noise hides it."""
        variance = self.variance
        noise = self._noise_of_variance()
        sampling = self._sampling_of_variance(noise).safe(z)
        # The sampling error of a variance is proportional to the variance, as far as noise does not hide it:
        # so the interval has a part of its length in proportion to the parameter.
        relative = 0.0
        if sampling > 0:
            relative = min(sampling / (variance**2 + noise), MAX_RELATIVE_VARIANCE / z**2)
        errors = QuadraticVariance(noise + sampling - relative * variance**2, 0.0, relative)
        clear = clearly_reported(self.usable, self.noise_sd[0], self._needed_by_sd(z))
        interval = bounded_ratio(variance, 1.0, errors, z, (0.0, 1.0), clear=clear)
        return Interval(*(math.sqrt(x) for x in (interval.estimate, interval.low, interval.high)))

    def _noise_of_variance(self) -> float:
        """Return the noise variance of the variance, by the delta method."""
        of_usable, of_total, of_square = self.noise_sd
        # derivatives of square/usable - (total/usable)², times usable
        slopes = (self.middle**2 - self.variance, -2 * self.middle, 1.0)
        terms = zip(slopes, (of_usable, of_total, of_square), strict=True)
        return sum((slope * noise / self.usable) ** 2 for slope, noise in terms)

    def _sampling_of_variance(self, privacy_variance: float) -> NoisyVariance:
        """Return the sampling variance of the variance: Σ (Y - v W)² over units, v the variance."""
        assert self.distance_squares is not None
        farthest = (1 + abs(self.centre)) ** 2
        mean = max(self.variance, 0.0) / farthest
        yy, yw = self.distance_squares
        ww = self.usable if self.squares is None else self.squares[0]
        scaled = yy - 2 * mean * yw + mean**2 * ww
        noise = self.distances_noise_sd * math.sqrt(1 + 4 * mean**2)
        unit = (farthest / self.usable) ** 2
        return NoisyVariance(scaled * unit, noise * unit, privacy_variance)

    def mean_is_reported(self, z: float) -> bool:
        """Return whether the noise leaves more of the mean than its bounds, by the usable records alone.

        Judged by its interval, the mean would be reported because noise has favoured it.
        """
        return self.usable > self._needed_by_mean(z)

    def sd_is_reported(self, z: float) -> bool:
        """Return the same of the standard deviation."""
        return self.usable > self._needed_by_sd(z)

    def _mean_is_clear(self, z: float) -> bool:
        return clearly_reported(self.usable, self.noise_sd[0], self._needed_by_mean(z))

    def _needed_by_mean(self, z: float) -> float:
        of_usable, of_total, _ = self.noise_sd
        # |x - m u| has at most this noise sd, for |m| <= 1
        return (z + REPORTING_MARGIN) * math.hypot(of_usable, of_total)

    def _needed_by_sd(self, z: float) -> float:
        of_usable, of_total, of_square = self.noise_sd
        # the noise sd of a variance, times usable; an interval with half length 1/2 has all of [0, 1]
        return 2 * z * math.hypot(of_usable, 2 * of_total, of_square)


@dataclass(frozen=True, eq=False)
class Histogram:
    """The released counts of the bins of one number in one group, and the last cell of each bin.

    Cell c ends at ``low`` + c ``width``; ``last`` is the cell of the upper bound.
    """

    edges: Indices
    counts: Array
    low: float
    high: float
    width: float
    last: int
    is_integer: bool

    @classmethod
    def of(
        cls, counts: Array, cuts: Cuts, numbers: Numbers, group: int, column: int
    ) -> "Histogram":
        """Return the histogram of one column in one group."""
        edges = cuts.edges[group][column]
        return cls(
            edges,
            counts[: len(edges) + 1],
            float(numbers.low[column]),
            float(numbers.high[column]),
            float(numbers.width[column]),
            int(numbers.last[column]),
            bool(numbers.is_integer[column]),
        )

    def estimating_function(self, p: float) -> Array:
        """Return D at every edge, by isotonic regression, as D never decreases but for the noise."""
        below = np.cumsum(self.counts)
        values = np.asarray(below[:-1] - p * below[-1])
        if not len(values):
            return values
        return np.asarray(isotonic_regression(values).x)

    def noise(self, p: float) -> Array:
        """Return the noise variance of D at every edge, over that of one count."""
        below = np.arange(1, len(self.counts))
        return np.asarray((1 - p) ** 2 * below + p**2 * (len(self.counts) - below))

    def is_reported(self, p: float, usable: float, variance: Array, z: float) -> bool:
        """Return whether both ends of an interval lie inside the public bounds, almost surely.

        D is p U or (1 - p) U below 0 or above it at the bounds.  U is that of the moments, which has other
        noise than the histogram.
        """
        if not len(variance):
            return True
        far = (z + REPORTING_MARGIN) * np.sqrt(variance)
        return bool(p * usable > far[0] and (1 - p) * usable > far[-1])

    def bracket(self, p: float, variance: Array, z: float, min_bins: int = MIN_BINS) -> Bracket:
        """Return where the quantile of p lies: D is z sds from 0 at both ends.

        Bins are as many as it takes for each to be narrow beside the error of D, and no more, as each has
        noise of its own; ``min_bins`` at least.
        """
        values = self.estimating_function(p)
        sd = np.sqrt(variance)
        beyond = np.flatnonzero(values > z * sd)
        upper = int(beyond[0]) if len(beyond) else len(values)
        before = np.flatnonzero(values[:upper] < -z * sd[:upper])
        lower = int(before[-1]) if len(before) else -1
        first = int(self.edges[lower]) if lower >= 0 else -1
        last = int(self.edges[upper]) if upper < len(values) else self.last
        inside = float(self.counts[lower + 1 : upper + 1].sum())
        narrow = BIN_WIDTH * float(sd.max(initial=0.0))
        bins = MAX_BINS
        if inside < narrow * MAX_BINS:
            bins = max(math.ceil(inside / narrow), min_bins)
        return Bracket(first, last, bins)

    def ends(self, first: int, last: int) -> tuple[float, float]:
        """Return the range of the values in the cells after ``first`` up to ``last``."""
        low = self.low + max(first, 0) * self.width
        if self.is_integer and first >= 0:
            low += 1.0
        return min(low, self.high), min(self.low + last * self.width, self.high)

    def quantile(self, p: float, variance: Array, z: float) -> Interval:
        """Return the quantile of p with its interval: all x for which D(x) is within z sds of 0.

        Within a bin D is interpolated linearly.  Observations may all be at one value of a bin, so where D may
        differ from that by more than ``WITHIN_BIN_TOLERANCE`` sds, the whole bin is included but for so many
        sds.  Whatever the distribution within bins is, the level is missed by no more than this bias can
        do, and by nothing where it is uniform.
        """
        bins = self._bins(p, variance)
        low = self._value(*bins.first(z))
        high = self._value(*bins.last(z))
        estimate = self._value(*bins.zero())
        if self.is_integer:  # a quantile is a number that occurs
            low = math.ceil(low)
            high = math.floor(high)
            estimate = round(estimate)
        return Interval(float(min(max(estimate, low), high)), float(low), float(high))

    def _bins(self, p: float, variance: Array) -> "_Bins":
        total = float(self.counts.sum())
        sd = np.sqrt(variance)
        ends = np.concatenate([[-p * total], self.estimating_function(p), [(1 - p) * total]])
        ends = np.maximum.accumulate(ends)
        both = np.concatenate([sd[:1], sd, sd[-1:]])
        if not len(both):
            both = np.zeros(2)
        return _Bins(ends[:-1], ends[1:], np.maximum(both[:-1], both[1:]))

    def _value(self, index: int, fraction: float) -> float:
        """Return the value at a fraction of a bin; an integer has the range of 1 around it."""
        first = int(self.edges[index - 1]) if index else -1
        last = int(self.edges[index]) if index < len(self.edges) else self.last
        left, right = self.ends(first, last)
        if self.is_integer:
            left -= 0.5
            right += 0.5
        return left + fraction * (right - left)


@dataclass(frozen=True, eq=False)
class _Bins:
    """D before and after each bin, and the sd of its error there."""

    before: Array
    after: Array
    sd: Array

    def first(self, z: float) -> tuple[int, float]:
        """Return the bin, and the fraction of it, from which on D may be -z sds."""
        far = z * self.sd
        index = int(np.argmax(self.after >= -far))
        room = float(self.after[index] + far[index])
        return index, 1 - self._fraction(index, room)

    def last(self, z: float) -> tuple[int, float]:
        """Return the bin, and the fraction of it, up to which D may be z sds."""
        far = z * self.sd
        index = len(far) - 1 - int(np.argmax((self.before <= far)[::-1]))
        room = float(far[index] - self.before[index])
        return index, self._fraction(index, room)

    def _fraction(self, index: int, room: float) -> float:
        """Return the fraction of a bin in which D changes by ``room``."""
        count = float(self.after[index] - self.before[index])
        if room >= min(WITHIN_BIN_TOLERANCE * float(self.sd[index]), count):
            return 1.0
        return max(room, 0.0) / count

    def zero(self) -> tuple[int, float]:
        """Return the bin, and the fraction of it, where D is 0."""
        index = int(np.argmax(self.after >= 0))
        count = float(self.after[index] - self.before[index])
        if not count > 0:
            return index, 0.5
        return index, min(max(-float(self.before[index]) / count, 0.0), 1.0)


def first_cuts(numbers: Numbers, groups: int) -> Cuts:
    """Return equal bins on the public ranges."""
    ranges = [[Bracket(-1, last, MAX_BINS)] for last in numbers.last.tolist()]
    return closer_cuts([ranges] * groups, numbers)


def closer_cuts(brackets: Brackets, numbers: Numbers) -> Cuts:
    """Return the bins of all brackets of each group and column, and of what lies outside of them."""
    edges = []
    for columns in brackets:
        of_group = []
        for several, last, heaps in zip(
            columns, numbers.last, _heaping_edges(numbers), strict=True
        ):
            one = np.unique(np.concatenate([*(bracket.edges() for bracket in several), heaps]))
            # the last bin of all needs no edge
            of_group.append(one[(one >= 0) & (one < last)])
        edges.append(of_group)
    return Cuts(edges)


def _heaping_edges(numbers: Numbers) -> list[Indices]:
    """Return edges around the cells where observations heap: the bounds, where values are clipped, and 0."""
    zero = numbers.cells(np.clip(np.zeros(len(numbers.low)), numbers.low, numbers.high))
    cells = np.column_stack([zero, np.zeros_like(zero), numbers.last])
    return [np.concatenate([mine - 1, mine]) for mine in cells]


def brackets_of(histograms: Sequence[Sequence[Histogram]], noise_sd: Array) -> Brackets:
    """Return where to look more closely: within BRACKET_Z sds of each quartile.

    ``noise_sd`` is that of a count, per column; the variance of simple random sampling is added.
    """
    brackets: Brackets = []
    for columns in histograms:
        of_group = []
        for one, sd in zip(columns, noise_sd.tolist(), strict=True):
            usable = max(float(one.counts.sum()), 0.0)
            min_bins = MIN_BINS if sd > 0 else MAX_BINS
            of_group.append(
                [
                    one.bracket(p, sd**2 * one.noise(p) + usable * p * (1 - p), BRACKET_Z, min_bins)
                    for p in QUARTILES
                ]
            )
        brackets.append(of_group)
    return brackets
