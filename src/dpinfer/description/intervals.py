"""Figures of columns with intervals, from released sums: counts, shares, means, deviations, quartiles.

Everything here is post-processing.  An interval counts the sampling error, as if the records were
drawn from a larger population, and the privacy noise.

| symbol | meaning                                                                    |
| ------ | -------------------------------------------------------------------------- |
| U      | what the usable records count together                                     |
| N      | what all records count together                                            |
| z      | the normal quantile of the level                                           |
| D(x)   | (1 - p) records up to x less p records above it: 0 at the quantile of p    |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import ndtr, ndtri

from dpinfer.mechanisms.column_sums import QUARTILES, Cuts, Numbers
from dpinfer.numerics.arrays import Array, Indices

_SURELY = 2.0  # deviations by which what is told exceeds what an interval needs
_UNEVEN = 0.4  # deviations by which the law within a bin may move an end: 95 % are 93 % at worst
_NARROW = 0.5  # deviations of D that lie in a bin which is narrow enough
_LEAST_BINS = 12
_MOST_BINS = 48
LONGEST_HISTOGRAM = len(QUARTILES) * (_MOST_BINS + 3) + 7
"""Bins, at most: the steps of a bracket for each quartile and around three piles, and the last bin."""
_HARDLY = 0.5  # deviations that an interval has more where a figure is hardly told
_LIKELY = 2.0  # deviations within which a quartile is looked for more closely


@dataclass(frozen=True)
class Bracket:
    """The cells that a quartile lies between, the first excluded, and into how many bins they are
    divided to look more closely.
    """

    first: int
    last: int
    bins: int

    def steps(self) -> Indices:
        """The last cells of equal bins, with both ends of the bracket, and of one wide bin beside it
        on each side: a quartile that lies there, though seldom, is not lost in all that is beyond.
        """
        beside = (self.last - self.first) / 2
        inside = np.linspace(self.first, self.last, self.bins + 1)
        steps = np.concatenate([[self.first - beside], inside, [self.last + beside]])
        return np.round(steps).astype(np.intp)


Brackets = list[list[list[Bracket]]]
"""Of each group, column and quartile."""


@dataclass(frozen=True)
class Interval:
    """An estimate between the ends of its interval."""

    estimate: float
    low: float
    high: float

    def within(self, low: float, high: float) -> "Interval":
        """Without what cannot be.

        Where noise took the estimate beyond, the interval also reaches from the nearest value that
        can be as far as it did from the estimate: what is left of it alone would look certain.
        """
        estimate = min(max(self.estimate, low), high)
        moved = estimate - self.estimate
        first = min(self.low, self.low + moved)
        last = max(self.high, self.high + moved)
        return Interval(estimate, min(max(first, low), high), min(max(last, low), high))

    def scaled(self, factor: float, shift: float = 0.0) -> "Interval":
        """In other units; the factor is above 0."""
        return Interval(*(shift + factor * x for x in (self.estimate, self.low, self.high)))

    def less(self, other: "Interval", correlation: float = 0.0) -> "Interval":
        """The difference of two figures, by their intervals (Newcombe, 1998; with a correlation
        Zou and Donner, 2008).
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
class Quadratic:
    """A variance that depends on what is estimated: constant + slope m + square m²."""

    constant: float
    slope: float = 0.0
    square: float = 0.0

    def plus(self, other: "Quadratic") -> "Quadratic":
        """Of a sum of independent errors."""
        return Quadratic(
            self.constant + other.constant,
            self.slope + other.slope,
            self.square + other.square,
        )

    def times(self, factor: float) -> "Quadratic":
        """A part of it."""
        return Quadratic(factor * self.constant, factor * self.slope, factor * self.square)

    def at(self, m: float) -> float:
        """Its value, not below 0."""
        return max(self.constant + self.slope * m + self.square * m**2, 0.0)


def ratio(x: float, u: float, variance: Quadratic, z: float) -> Interval:
    """m = x/u with the m for which x - m u is within z deviations of 0.

    It holds for a share (Wilson's interval, where there is no noise), for a mean (Fieller's), and
    for a count with u = 1.  Infinite where u may be 0.
    """
    a = u**2 - z**2 * variance.square
    b = x * u + z**2 * variance.slope / 2
    c = x**2 - z**2 * variance.constant
    if u <= 0 or a <= 0:
        return Interval(x / u if u else math.nan, -math.inf, math.inf)
    root = math.sqrt(max(b**2 - a * c, 0.0))
    return Interval(x / u, (b - root) / a, (b + root) / a)


def limited(
    x: float,
    u: float,
    variance: Quadratic,
    z: float,
    ends: tuple[float, float],
    *,
    surely: bool = True,
) -> Interval:
    """`ratio` of what lies between two ``ends``, with an interval that holds it as often there.

    However far beyond an end noise took it, an interval reaches as far from the end as if it had
    been found there: what is left of it alone would look certain.  So what lies within this reach is
    never missed on that side, and the other side alone may err: it is that of a one-sided interval.
    A figure that is not told ``surely`` (`well_told`) keeps both sides, and some more.
    """
    low, high = ends
    z = cautious(z, surely=surely)
    found = ratio(x, u, variance, z)
    estimate = min(max(found.estimate, low), high)
    if not math.isfinite(found.low + found.high):
        return Interval(estimate, low, high)
    from_low = ratio(low * u, u, variance, z).high
    from_high = ratio(high * u, u, variance, z).low if math.isfinite(high) else math.inf
    first = min(found.low, from_high)
    last = max(found.high, from_low)
    if surely and from_low <= from_high:  # else nothing is missed on either side
        alone = ratio(x, u, variance, one_sided(z))
        first = max(first, min(alone.low, from_low))
        last = min(last, max(alone.high, from_high))
    return Interval(estimate, min(max(first, low), high), min(max(last, low), high))


def well_told(usable: float, noise: float, needed: float) -> bool:
    """Whether there are clearly more usable records than it takes to tell a figure.

    Where there are hardly enough, it may be told because noise has raised their number, and errs
    more often on one side.
    """
    return usable - _SURELY * noise > needed


def cautious(z: float, *, surely: bool) -> float:
    """The quantile of the level; more where a figure is not told ``surely``."""
    return z if surely else z + _HARDLY


def one_sided(z: float) -> float:
    """The normal quantile of an interval that may err on one side only, and there twice as often."""
    return -float(ndtri(2 * ndtr(-z)))


@dataclass(frozen=True)
class Told:
    """A sampling variance as released sums tell it, with the deviation of its noise; ``beside`` is the
    variance of what else is added to the figure, the privacy noise.
    """

    variance: float
    noise: float
    beside: float

    def safe(self, z: float) -> float:
        """So much that an interval of z deviations holds as often as with the variance itself.

        The level of an interval is a concave function of its variance v = variance + beside, with the
        second derivative -(z² + 1)/2 times the first over v: so its mean over the noise is kept by
        (z² + 1)/4 noise²/v more.  Where noise hides v that would be too much: it is one deviation at
        most.
        """
        least = max(self.variance, 0.0)
        whole = least + self.beside
        added = self.noise
        if whole > 0:
            added = min(added, (z**2 + 1) / 4 * self.noise**2 / whole)
        return least + added

    def part_of(self, most: float, z: float) -> float:
        """The part, from 0 to 1, that it has of ``most``: what it would be if all that a unit adds
        were alike, which is the most that it can be.
        """
        if not most > 0:
            return 1.0
        return min(self.safe(z) / most, 1.0)


def binomial(total: float) -> Quadratic:
    """The variance of a count C of ``total`` records: C (1 - C/total)."""
    return Quadratic(0.0, 1.0, -1 / total if total > 0 else 0.0)


@dataclass(frozen=True)
class Moments:
    """The released sums of one number in one group, with the deviations of their noise.

    ``squares`` has the sums of w², w a and a² over units, where rows are not alike; ``spread`` those
    of y² and y w, y the scaled square of the distance from ``centre``.  The deviations of their
    noise are ``noise_of_squares`` and ``noise_of_spread``.
    """

    usable: float
    total: float
    square: float
    noise: tuple[float, float, float]
    centre: float
    squares: tuple[float, float, float] | None = None
    spread: tuple[float, float] | None = None
    noise_of_squares: float = 0.0
    noise_of_spread: float = 0.0

    @property
    def middle(self) -> float:
        """The mean."""
        return self.total / self.usable

    @property
    def variance(self) -> float:
        """Of the numbers; noise may take it below 0."""
        return self.square / self.usable - self.middle**2

    def _errors(self, z: float) -> Quadratic:
        """The variance of the total less m times the usable records, by m."""
        of_usable, of_total, _ = self.noise
        noise = Quadratic(of_total**2, 0.0, of_usable**2)
        # noise must not make a variance below 0
        least = self.total**2 / self.usable
        alike = Quadratic(max(self.square, least), -2 * self.total, self.usable)
        if self.squares is None:
            return alike.plus(noise)
        m = self.middle
        ww, wa, aa = self.squares
        of_squares = self.noise_of_squares * math.sqrt(1 + 4 * m**2 + m**4)
        told = Told(aa - 2 * m * wa + m**2 * ww, of_squares, noise.at(m))
        return alike.times(told.part_of(alike.at(m), z)).plus(noise)

    def mean(self, z: float) -> Interval:
        """The mean with its interval."""
        surely = self._mean_surely(z)
        errors = self._errors(z)
        return limited(self.total, self.usable, errors, z, (-1.0, 1.0), surely=surely)

    def mean_freely(self, z: float) -> Interval:
        """The same as if it had no bounds, for differences."""
        wide = cautious(z, surely=self._mean_surely(z))
        return ratio(self.total, self.usable, self._errors(z), wide)

    def deviation(self, z: float) -> Interval:
        """The standard deviation; the lower end is 0 where noise hides it."""
        variance = self.variance
        noise = self._noise_of_variance()
        sampling = self._sampling_of_variance(noise).safe(z)
        # The sampling error of a variance is in proportion to it, as far as it is clear of the
        # noise.  The limit keeps the upper end finite.
        clear = 0.0
        if sampling > 0:
            clear = min(sampling / (variance**2 + noise), 0.5 / z**2)
        errors = Quadratic(noise + sampling - clear * variance**2, 0.0, clear)
        surely = well_told(self.usable, self.noise[0], self._needed_by_deviation(z))
        found = limited(variance, 1.0, errors, z, (0.0, 1.0), surely=surely)
        return Interval(*(math.sqrt(x) for x in (found.estimate, found.low, found.high)))

    def _noise_of_variance(self) -> float:
        of_usable, of_total, of_square = self.noise
        slopes = (self.middle**2 - self.variance, -2 * self.middle, 1.0)
        parts = zip(slopes, (of_usable, of_total, of_square), strict=True)
        return sum((slope * noise / self.usable) ** 2 for slope, noise in parts)

    def _sampling_of_variance(self, beside: float) -> Told:
        """That of the sum of squared distances less their mean times the usable records."""
        assert self.spread is not None
        farthest = (1 + abs(self.centre)) ** 2
        mean = max(self.variance, 0.0) / farthest
        yy, yw = self.spread
        ww = self.usable if self.squares is None else self.squares[0]
        found = yy - 2 * mean * yw + mean**2 * ww
        noise = self.noise_of_spread * math.sqrt(1 + 4 * mean**2)
        unit = (farthest / self.usable) ** 2
        return Told(found * unit, noise * unit, beside)

    def mean_told(self, z: float) -> bool:
        """Whether the noise leaves more of the mean than its bounds.  It is judged by the usable
        records alone: judged by the interval, what is printed would be what noise has favoured.
        """
        return self.usable > self._needed_by_mean(z)

    def deviation_told(self, z: float) -> bool:
        """The same of the deviation: a variance lies between 0 and 1."""
        return self.usable > self._needed_by_deviation(z)

    def _mean_surely(self, z: float) -> bool:
        return well_told(self.usable, self.noise[0], self._needed_by_mean(z))

    def _needed_by_mean(self, z: float) -> float:
        of_usable, of_total, _ = self.noise
        return (z + _SURELY) * math.hypot(of_usable, of_total)

    def _needed_by_deviation(self, z: float) -> float:
        of_usable, of_total, of_square = self.noise
        return 2 * z * math.hypot(of_usable, 2 * of_total, of_square)


@dataclass(frozen=True, eq=False)
class Histogram:
    """The bins of one number in one group: released counts, and the cells that they end with.

    Cell c ends at ``low`` + c ``width``; ``last`` is that of the upper bound.
    """

    steps: Indices
    counts: Array
    low: float
    high: float
    width: float
    last: int
    whole: bool

    @classmethod
    def of(
        cls, counts: Array, cuts: Cuts, numbers: Numbers, group: int, column: int
    ) -> "Histogram":
        """That of one column in one group."""
        steps = cuts.steps[group][column]
        return cls(
            steps,
            counts[: len(steps) + 1],
            float(numbers.low[column]),
            float(numbers.high[column]),
            float(numbers.width[column]),
            int(numbers.last[column]),
            bool(numbers.whole[column]),
        )

    def balance(self, p: float) -> Array:
        """D at every step: it never goes down, as noise alone does."""
        below = np.cumsum(self.counts)
        found = np.asarray(below[:-1] - p * below[-1])
        if not len(found):
            return found
        return np.asarray(isotonic_regression(found).x)

    def noise(self, p: float) -> Array:
        """Its variance at every step, over that of one count."""
        below = np.arange(1, len(self.counts))
        return np.asarray((1 - p) ** 2 * below + p**2 * (len(self.counts) - below))

    def told(self, p: float, usable: float, variance: Array, z: float) -> bool:
        """Whether both ends of an interval can be told from the bounds: D is far from 0 at both,
        almost surely, by the number of usable records, which other noise is in.
        """
        if not len(variance):
            return True
        far = (z + _SURELY) * np.sqrt(variance)
        return bool(p * usable > far[0] and (1 - p) * usable > far[-1])

    def bracket(self, p: float, variance: Array, z: float, least: int = _LEAST_BINS) -> Bracket:
        """Where the quantile of p lies: D is z deviations from 0 at both ends.

        Bins are as many as it takes to be narrow beside the error of D, and ``least`` at least: each
        has noise of its own.
        """
        balance = self.balance(p)
        deviation = np.sqrt(variance)
        beyond = np.flatnonzero(balance > z * deviation)
        upper = int(beyond[0]) if len(beyond) else len(balance)
        before = np.flatnonzero(balance[:upper] < -z * deviation[:upper])
        lower = int(before[-1]) if len(before) else -1
        first = int(self.steps[lower]) if lower >= 0 else -1
        last = int(self.steps[upper]) if upper < len(balance) else self.last
        inside = float(self.counts[lower + 1 : upper + 1].sum())
        narrow = _NARROW * float(deviation.max(initial=0.0))
        bins = _MOST_BINS
        if inside < narrow * _MOST_BINS:
            bins = max(math.ceil(inside / narrow), least)
        return Bracket(first, last, bins)

    def ends(self, first: int, last: int) -> tuple[float, float]:
        """The values that lie in the cells after ``first`` up to ``last``."""
        low = self.low + max(first, 0) * self.width
        if self.whole and first >= 0:
            low += 1.0
        return min(low, self.high), min(self.low + last * self.width, self.high)

    def quantile(self, p: float, variance: Array, z: float) -> Interval:
        """The quantile of p with its interval: the x for which D(x) may be within z deviations of 0.

        Within a bin D is taken to go up in proportion, but where it may be more than ``_UNEVEN``
        deviations from that: people may all be at one place of a bin.  There D is the most that it
        may be, or the least, but for so many deviations.  So whatever the law within bins is, the
        level is missed by no more than these can do, and by nothing where it is even.
        """
        bins = self._bins(p, variance)
        low = self._value(*bins.first(z))
        high = self._value(*bins.last(z))
        estimate = self._value(*bins.zero())
        if self.whole:  # only a number that occurs is one
            low = math.ceil(low)
            high = math.floor(high)
            estimate = round(estimate)
        return Interval(float(min(max(estimate, low), high)), float(low), float(high))

    def _bins(self, p: float, variance: Array) -> "_Bins":
        total = float(self.counts.sum())
        balance = self.balance(p)
        deviation = np.sqrt(variance)
        ends = np.concatenate([[-p * total], balance, [(1 - p) * total]])
        ends = np.maximum.accumulate(ends)
        both = np.concatenate([deviation[:1], deviation, deviation[-1:]])
        if not len(both):
            both = np.zeros(2)
        return _Bins(ends[:-1], ends[1:], np.maximum(both[:-1], both[1:]))

    def _value(self, place: int, part: float) -> float:
        """So far within a bin; a whole number has the room of 1 around it."""
        first = int(self.steps[place - 1]) if place else -1
        last = int(self.steps[place]) if place < len(self.steps) else self.last
        left, right = self.ends(first, last)
        if self.whole:
            left -= 0.5
            right += 0.5
        return left + part * (right - left)


@dataclass(frozen=True, eq=False)
class _Bins:
    """D before and after each bin, and the deviation of its error there."""

    before: Array
    after: Array
    deviation: Array

    def first(self, z: float) -> tuple[int, float]:
        """The bin, and how far within it, from where on D may be -z deviations."""
        far = z * self.deviation
        place = int(np.argmax(self.after >= -far))
        room = float(self.after[place] + far[place])
        return place, 1 - self._part(place, room)

    def last(self, z: float) -> tuple[int, float]:
        """The bin, and how far within it, up to where D may be z deviations."""
        far = z * self.deviation
        place = len(far) - 1 - int(np.argmax((self.before <= far)[::-1]))
        room = float(far[place] - self.before[place])
        return place, self._part(place, room)

    def _part(self, place: int, room: float) -> float:
        """The part of a bin that is reached with so much of D."""
        count = float(self.after[place] - self.before[place])
        if room >= min(_UNEVEN * float(self.deviation[place]), count):
            return 1.0
        return max(room, 0.0) / count

    def zero(self) -> tuple[int, float]:
        """Where D is 0."""
        place = int(np.argmax(self.after >= 0))
        count = float(self.after[place] - self.before[place])
        return place, min(max(-float(self.before[place]) / count, 0.0), 1.0) if count > 0 else 0.5


def first_cuts(numbers: Numbers, groups: int) -> Cuts:
    """Equal bins on the public ranges."""
    whole_range = [[Bracket(-1, last, _MOST_BINS)] for last in numbers.last.tolist()]
    return closer_cuts([whole_range] * groups, numbers)


def closer_cuts(brackets: Brackets, numbers: Numbers) -> Cuts:
    """The bins of brackets, of each group, column and quartile, and what lies outside of all."""
    steps = []
    for columns in brackets:
        of_group = []
        for several, last, piles in zip(columns, numbers.last, _piles(numbers), strict=True):
            one = np.unique(np.concatenate([*(bracket.steps() for bracket in several), piles]))
            # the last bin of all needs no step
            of_group.append(one[(one >= 0) & (one < last)])
        steps.append(of_group)
    return Cuts(steps)


def _piles(numbers: Numbers) -> list[Indices]:
    """Steps around the cells that people pile up in: those of the bounds, where values are clipped
    to, and of 0.
    """
    zero = numbers.cells(np.clip(np.zeros(len(numbers.low)), numbers.low, numbers.high))
    cells = np.column_stack([zero, np.zeros_like(zero), numbers.last])
    return [np.concatenate([mine - 1, mine]) for mine in cells]


def brackets_of(histograms: Sequence[Sequence[Histogram]], noise: Array) -> Brackets:
    """Where to look more closely: within a few deviations of each quartile, by the noise of a count
    per column and what plain sampling adds.
    """
    found: Brackets = []
    for columns in histograms:
        of_group = []
        for one, deviation in zip(columns, noise.tolist(), strict=True):
            usable = max(float(one.counts.sum()), 0.0)
            variances = [deviation**2 * one.noise(p) + usable * p * (1 - p) for p in QUARTILES]
            least = _LEAST_BINS if deviation > 0 else _MOST_BINS
            of_group.append(
                [
                    one.bracket(p, variance, _LIKELY, least)
                    for p, variance in zip(QUARTILES, variances, strict=True)
                ]
            )
        found.append(of_group)
    return found
