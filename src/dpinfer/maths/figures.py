"""Figures of columns with intervals, from released sums: counts, shares, means, deviations, quartiles.

Everything here is post-processing.  An interval counts the sampling error, as if the records were
drawn from a larger population, and the privacy noise.

| symbol | meaning                                                                    |
| ------ | -------------------------------------------------------------------------- |
| U      | what the usable records count together                                     |
| N      | what all records count together                                            |
| z      | the normal quantile of the level                                           |
| D(x)   | (1 - p) records below x less p records from x on: 0 at the quantile of p   |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.column_sums import QUARTILES, Cuts, Numbers, piles

_SAME = 1e-9  # of a range: values that are closer are not told apart
_SURELY = 2.0  # deviations by which what is told exceeds what an interval needs
_LIKELY = 2.5  # deviations within which a quartile is looked for more closely


@dataclass(frozen=True)
class Interval:
    """An estimate between the ends of its interval."""

    estimate: float
    low: float
    high: float

    def within(self, low: float, high: float) -> "Interval":
        """Without what cannot be."""
        return Interval(*(min(max(x, low), high) for x in (self.estimate, self.low, self.high)))

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


def binomial(total: float) -> Quadratic:
    """The variance of a count C of ``total`` records: C (1 - C/total)."""
    return Quadratic(0.0, 1.0, -1 / total if total > 0 else 0.0)


@dataclass(frozen=True)
class Moments:
    """The released sums of one number in one group, with the deviations of their noise.

    ``squares`` has the sums of w², w a and a² over units, where rows are not alike; ``spread`` those
    of y² and y w, y the scaled square of the distance from ``centre``.
    """

    usable: float
    total: float
    square: float
    noise: tuple[float, float, float]
    centre: float
    squares: tuple[float, float, float] | None = None
    spread: tuple[float, float] | None = None

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
        if self.squares is not None:
            ww, wa, aa = self.squares
            return Quadratic(max(aa, wa**2 / ww if ww > 0 else 0.0), -2 * wa, max(ww, 0.0))
        # noise must not make a variance below 0
        least = self.total**2 / self.usable
        return Quadratic(max(self.square, least), -2 * self.total, self.usable)

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
        return max(yy - 2 * mean * yw + mean**2 * ww, 0.0) * (farthest / self.usable) ** 2


@dataclass(frozen=True, eq=False)
class Steps:
    """The bins of one histogram in order: counts, and the steps between them.

    A step is a position, and whether a value goes up above it (1) or at it (0).  Bins that hold no
    value by public facts are left out of the noise.
    """

    at: Array
    above: Array
    counts: Array
    possible: Array
    low: float
    high: float
    whole: bool

    @classmethod
    def of(cls, counts: Array, cuts: Cuts, numbers: Numbers, group: int, column: int) -> "Steps":
        """Those of one column in one group."""
        start = cuts.start[group, column]
        width = cuts.width[group, column]
        regions = [
            first + each * np.arange(number + 1)
            for first, each, number in zip(start, width, cuts.number[group, column], strict=True)
            if np.isfinite(first)
        ]
        above, at = (side[column][np.isfinite(side[column])] for side in piles(numbers))
        position = np.concatenate([*regions, at, above])
        upper = np.append(np.zeros(len(position) - len(above)), np.ones(len(above)))
        if numbers.whole[column]:  # all steps are half way between two numbers
            upper[:] = 0.0
        order = np.lexsort((upper, position))
        position = position[order]
        upper = upper[order]
        low = float(numbers.low[column])
        high = float(numbers.high[column])
        left = np.append(-np.inf, position)
        right = np.append(position, np.inf)
        left_above = np.append(0.0, upper)
        right_above = np.append(upper, 1.0)
        possible = (left < right) | ((left == right) & (left_above < right_above))
        possible &= (right > low) | ((right == low) & (right_above == 1))
        possible &= (left < high) | ((left == high) & (left_above == 0))
        used = np.where(possible, counts[: len(position) + 1], 0.0)
        return cls(position, upper, used, possible, low, high, bool(numbers.whole[column]))

    def told(self, p: float, usable: float, variance: Array, z: float) -> bool:
        """Whether both ends of an interval can be told from the bounds: D is far from 0 at both,
        almost surely, by the number of usable records, which other noise is in.
        """
        farthest = min(p, 1 - p) * usable
        return farthest > (z + _SURELY) * math.sqrt(float(variance.max()))

    def balance(self, p: float) -> Array:
        """D at every step."""
        below = np.cumsum(self.counts)
        return np.asarray(below[:-1] - p * below[-1])

    def noise(self, p: float) -> Array:
        """Its variance at every step, over that of one count."""
        below = np.cumsum(self.possible)
        return np.asarray((1 - p) ** 2 * below[:-1] + p**2 * (below[-1] - below[:-1]))

    def bracket(self, p: float, variance: Array, z: float) -> tuple[float, float]:
        """Between which steps the quantile of p lies: D is z deviations from 0 at both."""
        balance = self.balance(p)
        far = z * np.sqrt(variance)
        beyond = np.flatnonzero(balance > far)
        upper = int(beyond[0]) if len(beyond) else len(balance)
        before = np.flatnonzero(balance[:upper] < -far[:upper])
        low = float(self.at[before[-1]]) if len(before) else self._ends[0]
        high = float(self.at[upper]) if upper < len(balance) else self._ends[1]
        low = max(low, self._ends[0])
        return low, max(min(high, self._ends[1]), low)

    @property
    def _ends(self) -> tuple[float, float]:
        margin = 0.5 if self.whole else 0.0
        return self.low - margin, self.high + margin

    def quantile(self, p: float, variance: Array, z: float) -> Interval:
        """The quantile of p with its interval, which ends at steps.

        Where in its bin a quantile lies is not known: the estimate is in proportion.
        """
        low, high = self.bracket(p, variance, z)
        balance = self.balance(p)
        bins = np.flatnonzero(np.append(balance, np.inf) >= 0)
        upper = int(bins[0])
        left = self._ends[0] if upper == 0 else float(self.at[upper - 1])
        right = self._ends[1] if upper == len(self.at) else float(self.at[upper])
        count = float(self.counts[upper])
        before = -float(balance[upper - 1]) if upper else p * float(self.counts.sum())
        part = min(max(before / count, 0.0), 1.0) if count > 0 else 0.5
        estimate = left + part * (right - left)
        if self.whole:
            low = math.ceil(low)
            high = math.floor(high)
            # a quantile is a number that occurs
            estimate = float(min(max(round(estimate), math.ceil(left)), math.floor(right)))
        return Interval(min(max(estimate, low), high), float(low), float(high))


def first_cuts(numbers: Numbers, groups: int, bins: int) -> Cuts:
    """Equal bins on the public ranges."""
    margin = np.where(numbers.whole, 0.5, 0.0)
    width = (numbers.high - numbers.low + 2 * margin) / bins
    width = np.where(numbers.whole, np.ceil(width), width)
    number = np.ceil((numbers.high - numbers.low + 2 * margin) / width - _SAME)
    shape = (groups, len(width), 1)
    return Cuts(
        np.broadcast_to((numbers.low - margin)[:, None], shape),
        np.broadcast_to(width[:, None], shape),
        np.broadcast_to(number[:, None], shape),
        bins,
    )


def closer_cuts(brackets: Array, numbers: Numbers, bins: int) -> Cuts:
    """Bins between the ends of brackets (groups × columns × quartiles × 2), which are at least as
    wide as floats, or whole numbers, tell apart.  A bracket that is one value has its own bin anyway.
    """
    low = brackets[..., 0]
    high = brackets[..., 1]
    there = high > low
    length = np.where(there, high - low, 1.0)
    least = np.where(numbers.whole, 1.0, _SAME * (numbers.high - numbers.low))[:, None]
    width = np.maximum(length / bins, least)
    width = np.where(numbers.whole[:, None], np.ceil(width), width)
    number = np.maximum(np.ceil(length / width - _SAME), 1.0)
    return Cuts(np.where(there, low, np.inf), width, number, bins)


def brackets_of(
    steps: Sequence[Sequence[Steps]], noise: Array, spread: Sequence[float] = QUARTILES
) -> Array:
    """Where to look more closely: within a few deviations of each quartile, by the noise of a count
    per column and what plain sampling adds.
    """
    found = np.empty((len(steps), len(steps[0]), len(spread), 2))
    for group, columns in enumerate(steps):
        for column, one in enumerate(columns):
            usable = max(float(one.counts.sum()), 0.0)
            for k, p in enumerate(spread):
                variance = noise[column] ** 2 * one.noise(p) + usable * p * (1 - p)
                found[group, column, k] = one.bracket(p, variance, _LIKELY)
    return found
