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

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.column_sums import QUARTILES, Cuts, Numbers

_SURELY = 2.0  # deviations by which what is told exceeds what an interval needs
_LIKELY = 2.5  # deviations within which a quartile is looked for more closely

Brackets = list[list[list[tuple[int, int]]]]
"""Of each group, column and quartile the cells that it lies between."""


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


def part_of(most: float, found: float, noise: float) -> float:
    """The part, from 0 to 1, that a sampling variance has of ``most``: what it would be if all that a
    unit adds were alike, which is the most that it can be.

    ``found`` is what released sums say of it, and one deviation of its ``noise`` more is taken: noise
    that took it down would make intervals too short.
    """
    if not most > 0:
        return 1.0
    return min(max((found + noise) / most, 0.0), 1.0)


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

    def sampling(self) -> Quadratic:
        """The variance of the total less m times the usable records, by m."""
        # noise must not make a variance below 0
        least = self.total**2 / self.usable
        alike = Quadratic(max(self.square, least), -2 * self.total, self.usable)
        if self.squares is None:
            return alike
        m = self.middle
        ww, wa, aa = self.squares
        noise = self.noise_of_squares * math.sqrt(1 + 4 * m**2 + m**4)
        return alike.times(part_of(alike.at(m), aa - 2 * m * wa + m**2 * ww, noise))

    def mean(self, z: float) -> Interval:
        """The mean with its interval."""
        of_usable, of_total, _ = self.noise
        noise = Quadratic(of_total**2, 0.0, of_usable**2)
        return ratio(self.total, self.usable, self.sampling().plus(noise), z)

    def deviation(self, z: float) -> Interval:
        """The standard deviation; the lower end is 0 where noise hides it."""
        variance = self.variance
        noise = self._noise_of_variance()
        sampling = self._sampling_of_variance()
        # The sampling error of a variance is in proportion to it, as far as it is clear of the
        # noise.  The limit keeps the upper end finite.
        clear = 0.0
        if sampling > 0:
            clear = min(sampling / (variance**2 + noise), 0.5 / z**2)
        errors = Quadratic(noise + sampling - clear * variance**2, 0.0, clear)
        found = ratio(variance, 1.0, errors, z)
        return Interval(*(math.sqrt(max(x, 0.0)) for x in (variance, found.low, found.high)))

    def _noise_of_variance(self) -> float:
        of_usable, of_total, of_square = self.noise
        slopes = (self.middle**2 - self.variance, -2 * self.middle, 1.0)
        parts = zip(slopes, (of_usable, of_total, of_square), strict=True)
        return sum((slope * noise / self.usable) ** 2 for slope, noise in parts)

    def _sampling_of_variance(self) -> float:
        """That of the sum of squared distances less their mean times the usable records."""
        assert self.spread is not None
        farthest = (1 + abs(self.centre)) ** 2
        mean = max(self.variance, 0.0) / farthest
        yy, yw = self.spread
        ww = self.usable if self.squares is None else self.squares[0]
        found = yy - 2 * mean * yw + mean**2 * ww
        noise = self.noise_of_spread * math.sqrt(1 + 4 * mean**2)
        return max(found + noise, 0.0) * (farthest / self.usable) ** 2

    def mean_told(self, z: float) -> bool:
        """Whether the noise leaves more of the mean than its bounds.  It is judged by the usable
        records alone: judged by the interval, what is printed would be what noise has favoured.
        """
        of_usable, of_total, _ = self.noise
        return (z + _SURELY) * math.hypot(of_usable, of_total) < self.usable

    def deviation_told(self, z: float) -> bool:
        """The same of the deviation: a variance lies between 0 and 1."""
        of_usable, of_total, of_square = self.noise
        return z * math.hypot(of_usable, 2 * of_total, of_square) < self.usable / 2


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

    def bracket(self, p: float, variance: Array, z: float) -> tuple[int, int]:
        """The cells that the quantile of p lies between, the first excluded: D is z deviations from
        0 at both.  -1 is below all cells.
        """
        balance = self.balance(p)
        far = z * np.sqrt(variance)
        beyond = np.flatnonzero(balance > far)
        upper = int(beyond[0]) if len(beyond) else len(balance)
        before = np.flatnonzero(balance[:upper] < -far[:upper])
        first = int(self.steps[before[-1]]) if len(before) else -1
        last = int(self.steps[upper]) if upper < len(balance) else self.last
        return first, last

    def ends(self, first: int, last: int) -> tuple[float, float]:
        """The values that lie in the cells after ``first`` up to ``last``."""
        low = self.low + max(first, 0) * self.width
        if self.whole and first >= 0:
            low += 1.0
        return min(low, self.high), min(self.low + last * self.width, self.high)

    def quantile(self, p: float, variance: Array, z: float) -> Interval:
        """The quantile of p with its interval, which ends where bins do.

        Where in its bin a quantile lies is not known: the estimate is in proportion.
        """
        low, high = self.ends(*self.bracket(p, variance, z))
        balance = self.balance(p)
        bin_ = int(np.flatnonzero(np.append(balance, np.inf) >= 0)[0])
        first = int(self.steps[bin_ - 1]) if bin_ else -1
        last = int(self.steps[bin_]) if bin_ < len(self.steps) else self.last
        left, right = self.ends(first, last)
        count = float(self.counts[bin_])
        before = -float(balance[bin_ - 1]) if bin_ else p * float(self.counts.sum())
        part = min(max(before / count, 0.0), 1.0) if count > 0 else 0.5
        estimate = left + part * (right - left)
        if self.whole:  # a quantile is a number that occurs
            estimate = float(round(estimate))
        return Interval(min(max(estimate, low), high), low, high)


def first_cuts(numbers: Numbers, groups: int, bins: int) -> Cuts:
    """Equal bins on the public ranges."""
    whole_range = [[(-1, last)] for last in numbers.last.tolist()]
    return closer_cuts([whole_range] * groups, numbers, bins)


def closer_cuts(brackets: Brackets, numbers: Numbers, bins: int) -> Cuts:
    """Bins between the ends of brackets, of each group, column and quartile, and what lies outside
    of all.
    """
    steps = []
    for columns in brackets:
        of_group = []
        for several, last, piles in zip(columns, numbers.last, _piles(numbers), strict=True):
            found = [_between(*bracket, bins) for bracket in several]
            one = np.unique(np.concatenate([*found, piles]))
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


def _between(first: int, last: int, bins: int) -> Indices:
    """The last cells of equal bins after ``first`` up to ``last``, both of which end a bin."""
    return np.round(np.linspace(first, last, bins + 1)).astype(np.intp)


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
            of_group.append(
                [
                    one.bracket(p, variance, _LIKELY)
                    for p, variance in zip(QUARTILES, variances, strict=True)
                ]
            )
        found.append(of_group)
    return found
