"""The figures of a description from its releases."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.description.intervals import (
    Brackets,
    Histogram,
    Interval,
    NoisyVariance,
    NumberMoments,
    QuadraticVariance,
    binomial,
    bounded_ratio,
    brackets_of,
    clearly_reported,
    ratio,
    widened_z,
)
from dpinfer.description.plan import (
    BINS,
    COUNTS,
    DISTANCE_SQUARES,
    LEVEL_SQUARES,
    MOMENT_SQUARES,
    MOMENTS,
    ColumnSet,
    number_of,
)
from dpinfer.mechanisms.column_sums import QUARTILES, Cuts, MomentWeights
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Constant
from dpinfer.result import description
from dpinfer.result.description import Figure
from dpinfer.result.statements import REPORTED
from dpinfer.schema.columns import Column, Level, levels_of

MIN_USABLE_SD = Constant(
    3.0,
    name="MIN_USABLE_SD",
    decides="the usable records, in sds of their noise, from which on figures are estimated from them",
    reason="noise alone passes for usable records with probability Φ(-3) = .13 %",
    source="error rate",
)
_OF_A_NUMBER = (
    description.MEAN, description.SD, description.Q25, description.MEDIAN, description.Q75,
)  # fmt: skip

Ends = tuple[float, float]
NOT_REPORTED = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Facts:
    """The public facts about a description.

    ``z`` is the normal quantile of its level.  ``units`` is the number of records or units, None where it is
    private; ``total`` their total weight, where each has weight 1.  ``equal_weights`` says that every record
    has weight 1, ``equal_units`` that every unit has.  Counts are multiplied by ``factor`` when they are
    reported: the rows or the weight that a count of 1 stands for.
    """

    z: float
    adjacency: Adjacency
    units: int | None
    total: float | None
    equal_weights: bool
    equal_units: bool
    factor: float


@dataclass(frozen=True, eq=False)
class NoisyValues:
    """The released values of a query, and the sd of their noise, column by column."""

    values: Array
    noise_sd: Array


@dataclass(eq=False)
class ReleasedFigures:
    """Everything that was released so far of one column set."""

    column_set: ColumnSet
    facts: Facts
    parts: dict[str, NoisyValues] = field(default_factory=dict)
    histograms: list[list[Histogram]] = field(default_factory=list)

    @property
    def total(self) -> float | None:
        """The total weight of all records, where it is public."""
        return self.facts.total if self.column_set.total_known else None

    @property
    def _weights(self) -> MomentWeights:
        return MomentWeights.of(self.column_set.grouping, self.facts.adjacency)

    def add(self, kind: str, released: NoisyValues, cuts: Cuts | None) -> None:
        """Add the values of a query; a later histogram replaces the one before."""
        self.parts[kind] = released
        if cuts is None:
            return
        p = len(self.column_set.number_columns)
        counts = released.values.reshape(p, self.column_set.grouping.groups, cuts.bins)
        self.histograms = [
            [
                Histogram.of(counts[j, group], cuts, self.column_set.numbers, group, j)
                for j in range(p)
            ]
            for group in range(self.column_set.grouping.groups)
        ]

    def brackets(self) -> Brackets:
        """Return where the quartiles lie by the last histograms."""
        return brackets_of(self.histograms, self.parts[BINS].noise_sd)

    def points(self) -> Array:
        """Return the middles of the brackets of quartiles: groups × columns × quartiles."""
        return np.array(
            [
                [
                    [sum(one.ends(bracket.first, bracket.last)) / 2 for bracket in several]
                    for one, several in zip(columns, brackets, strict=True)
                ]
                for columns, brackets in zip(self.histograms, self.brackets(), strict=True)
            ]
        )

    def centre(self) -> Array:
        """Return the released means, groups × columns, in [-1, 1]."""
        weights = self._weights
        values = self.parts[MOMENTS].values.reshape(-1, self.column_set.grouping.groups, 3)
        usable = np.maximum(values[:, :, 0] / weights.u, 1.0)
        return np.asarray(np.clip(values[:, :, 1] / weights.t / usable, -1.0, 1.0).T)

    def cells(self) -> list[Array]:
        """Return the counts of each column, groups × levels and missing; all records last, where they
        are counted.
        """
        if COUNTS not in self.parts:
            return []
        groups = self.column_set.grouping.groups
        sizes = groups * (self.column_set.counted.sizes + 1)
        pieces = np.split(self.parts[COUNTS].values, np.cumsum(sizes)[:-1])
        return [piece.reshape(groups, -1) for piece in pieces]

    def level_squares(self, j: int) -> "CrossProducts | None":
        """Return the squared counts of units of a column of levels, where weights are unequal."""
        if LEVEL_SQUARES not in self.parts:
            return None
        groups = self.column_set.grouping.groups
        pairs = groups**2
        sizes = self.column_set.levels.sizes
        lengths = pairs * (2 * sizes + 1)
        first = int(np.cumsum(lengths)[j] - lengths[j])
        k = int(sizes[j])
        pq, pw, ww = np.split(
            self.parts[LEVEL_SQUARES].values[first : first + int(lengths[j])],
            [k * pairs, 2 * k * pairs],
        )
        shape = (k, groups, groups)
        noise = float(self.parts[LEVEL_SQUARES].noise_sd[j])
        return CrossProducts(
            pq.reshape(shape), pw.reshape(shape), ww.reshape(groups, groups), noise
        )

    def moment_squares(self, j: int) -> "CrossProducts | None":
        """Return the same of a number, its sum in place of the count of a level."""
        if MOMENT_SQUARES not in self.parts:
            return None
        groups = self.column_set.grouping.groups
        z = self.parts[MOMENT_SQUARES].values.reshape(-1, 2 * groups, 2 * groups)[j]
        z = (z + z.T) / 2
        noise = float(self.parts[MOMENT_SQUARES].noise_sd[j])
        return CrossProducts(
            z[None, groups:, groups:], z[None, groups:, :groups], z[:groups, :groups], noise
        )

    def moments(self, j: int, g: int) -> NumberMoments:
        """Return the sums of a number in a group."""
        groups = self.column_set.grouping.groups
        weights = self._weights
        scale = np.array([weights.u, weights.t, weights.square])
        released = self.parts[MOMENTS]
        usable, total, square = (released.values.reshape(-1, groups, 3)[j, g] / scale).tolist()
        of_usable, of_total, of_square = (released.noise_sd[j] / scale).tolist()
        products = self.moment_squares(j)
        squares = None
        if products is not None:
            squares = (
                float(products.ww[g, g]),
                float(products.pw[0, g, g]),
                float(products.pq[0, g, g]),
            )
        yy, yw = self.distance_squares(j, g)[0].tolist()
        return NumberMoments(
            usable=usable,
            total=total,
            square=square,
            noise_sd=(of_usable, of_total, of_square),
            centre=float(self.centre()[g, j]),
            squares=squares,
            distance_squares=(yy, yw),
            squares_noise_sd=0.0 if products is None else products.noise_sd,
            distances_noise_sd=float(self.parts[DISTANCE_SQUARES].noise_sd[j]),
        )

    def distance_squares(self, j: int, g: int) -> Array:
        """Return sums of Y² and Y W for the squared distance and, where weights are unequal, for each
        quartile.
        """
        functions = 1 if self.facts.equal_weights else 1 + len(QUARTILES)
        shape = (-1, self.column_set.grouping.groups, functions, 2)
        return np.asarray(self.parts[DISTANCE_SQUARES].values.reshape(shape)[j, g])


@dataclass(frozen=True, eq=False)
class CrossProducts:
    """Sums over units of p q and p w (levels × groups × groups) and of w w (groups × groups), and the sd of
    their noise.
    """

    pq: Array
    pw: Array
    ww: Array
    noise_sd: float

    def sampling(self, index: int, g: int, share: float, privacy_variance: float) -> NoisyVariance:
        """Return the sampling variance of p - share w, summed over units."""
        variance = self.pq[index, g, g]
        variance = variance - 2 * share * self.pw[index, g, g] + share**2 * self.ww[g, g]
        noise_sd = self.noise_sd * math.sqrt(1 + 4 * share**2 + share**4)
        return NoisyVariance(float(variance), noise_sd, privacy_variance)

    def covariance(self, index: int, g: int, mine: float, first: float) -> float:
        """Return the sampling covariance of p - share w in two groups, as units may be in both.

        One noise sd is subtracted: a covariance that noise has raised would make intervals shorter.
        """
        covariance = (
            self.pq[index, g, 0]
            - first * self.pw[index, g, 0]
            - mine * self.pw[index, 0, g]
            + mine * first * self.ww[g, 0]
        )
        return float(covariance - self.noise_sd * math.sqrt((1 + mine**2) * (1 + first**2)))


def figures_of(released: ReleasedFigures, groups: tuple[Level | None, ...]) -> list[Figure]:
    """Return all figures of a column set: those of levels, then those of numbers."""
    cells = released.cells()
    figures: list[Figure] = []
    for j, column in enumerate(released.column_set.level_columns):
        figures += _LevelFigures(released, column, j, cells[j], groups).figures()
    all_records = None
    if released.column_set.counts_all:
        all_records = NoisyValues(cells[-1][:, 0], released.parts[COUNTS].noise_sd[-1:])
    for j, column in enumerate(released.column_set.number_columns):
        figures += _NumberFigures(released, column, j, all_records, groups).figures()
    return figures


class _ColumnFigures:
    """Figures of one column; the base of those of levels and of numbers."""

    def __init__(
        self,
        released: ReleasedFigures,
        column: Column,
        index: int,
        groups: tuple[Level | None, ...],
    ) -> None:
        self.released = released
        self.facts = released.facts
        self.column = column
        self.index = index
        self.groups = groups

    def counted(
        self,
        count: float,
        noise: float,
        all_records: float,
        squares: tuple[float, float] | None = None,
    ) -> Interval:
        """Return a count among ``all_records`` of all groups.

        ``noise`` is the variance of its noise, ``squares`` the sum of its squares over units with the sd
        of its noise, where that is released.
        """
        facts = self.facts
        # Where the number of units is private, it is as random as the count, whose variance is then that of
        # Poisson's distribution: the limit of many units.
        units = math.inf
        if facts.units is not None:
            units = float(facts.units)
        elif facts.equal_units:
            units = max(all_records, 1.0)
        sampling = binomial(units)  # an upper bound, as no unit has a weight above 1
        if squares is not None:
            sum_of_squares, noise_sd = squares
            by_unit = NoisyVariance(sum_of_squares - count**2 / units, noise_sd, noise)
            sampling = sampling.times(by_unit.fraction_of(sampling.at(count), facts.z))
        upper = math.inf if self.released.total is None else self.released.total
        errors = sampling.plus(QuadraticVariance(noise))
        return bounded_ratio(count, 1.0, errors, facts.z, (0.0, upper)).scaled(facts.factor)

    def figure(
        self,
        figure: str,
        interval: Interval | None,
        g: int,
        level: Level | None = None,
        ends: Ends | None = None,
    ) -> Figure:
        """Return a figure within its public ``ends``, or one that is not reported."""
        status = REPORTED
        if interval is None:
            status = description.TOO_FEW_RECORDS
        elif math.isnan(interval.estimate):
            status = description.FIGURE_TOO_NOISY
        elif ends is not None:
            interval = interval.within(*ends)
        if interval is None:
            interval = NOT_REPORTED
        return Figure(
            self.column.name,
            level,
            figure,
            interval.estimate,
            interval.low,
            interval.high,
            status,
            self.groups[g],
        )

    def difference(
        self, mine: Interval | None, first: Interval | None, covariance: float
    ) -> Interval | None:
        """Return the difference of two groups; ``covariance`` is that of their sampling errors."""
        if mine is None or first is None:
            return None
        if math.isnan(mine.estimate + first.estimate):
            return NOT_REPORTED
        lengths = (mine.high - mine.low) * (first.high - first.low)
        errors = lengths / (2 * self.facts.z) ** 2
        correlation = 0.0
        if errors > 0 and math.isfinite(errors):
            correlation = min(max(covariance / errors, -1.0), 1.0)
        return mine.less(first, correlation)


class _LevelFigures(_ColumnFigures):
    """Figures of a column of levels."""

    def __init__(
        self,
        released: ReleasedFigures,
        column: Column,
        index: int,
        cells: Array,
        groups: tuple[Level | None, ...],
    ) -> None:
        super().__init__(released, column, index, groups)
        self.levels = levels_of(column)
        k = len(self.levels)
        variance = float(released.parts[COUNTS].noise_sd[index]) ** 2
        known = 0.0
        if released.total is not None:
            # the cells add up to a public number: least squares under this restriction moves all alike
            cells = cells + (released.total - cells.sum()) / (k + 1)
            known = 1 / (k + 1)
        self.cells = cells
        self.usable = cells[:, :k].sum(axis=1)
        self.noise_of_cell = variance * (1 - known)
        self.noise_of_usable = variance * k * (1 - k * known)
        self.noise_shared = variance * (1 - k * known)
        self.products = released.level_squares(index)

    def figures(self) -> list[Figure]:
        """Return usable and missing records, then each level; of yes and no, the yes alone."""
        shown = [index for index, level in enumerate(self.levels) if level is not False]
        figures = []
        for g in range(len(self.groups)):
            figures += self._records(g)
            for index in shown:
                figures += self._of_level(index, g)
        for g in range(1, len(self.groups)):
            for index in shown:
                figures.append(self._difference(index, g))
        return figures

    def _records(self, g: int) -> list[Figure]:
        all_records = float(self.cells.sum())
        squares = None
        if self.products is not None:
            squares = (float(self.products.ww[g, g]), self.products.noise_sd)
        usable = self.counted(float(self.usable[g]), self.noise_of_usable, all_records, squares)
        missing = self.counted(float(self.cells[g, -1]), self.noise_of_cell, all_records)
        return [
            self.figure(description.RECORDS, usable, g),
            self.figure(description.MISSING, missing, g),
        ]

    def _of_level(self, index: int, g: int) -> list[Figure]:
        level = self.levels[index]
        all_records = float(self.cells.sum())
        squares = None
        if self.products is not None:
            squares = (float(self.products.pq[index, g, g]), self.products.noise_sd)
        count = self.counted(float(self.cells[g, index]), self.noise_of_cell, all_records, squares)
        share = self._share(index, g)
        return [
            self.figure(description.COUNT, count, g, level),
            self.figure(description.SHARE, share, g, level, (0.0, 1.0)),
        ]

    def _share(self, index: int, g: int, *, unbounded: bool = False) -> Interval | None:
        """Return a share with its interval; ``unbounded`` as if it had no bounds, for differences."""
        usable = float(self.usable[g])
        if not usable > max(MIN_USABLE_SD * math.sqrt(self.noise_of_usable), 0.0):
            return None
        # By the usable records alone, as for a mean: with fewer the half length of an interval by noise alone
        # is above 1/2, and it has all of [0, 1].
        needed = 2 * self.facts.z * math.sqrt(self.noise_of_cell + self.noise_of_usable)
        if needed > usable:
            return NOT_REPORTED
        noise = QuadraticVariance(self.noise_of_cell, -2 * self.noise_shared, self.noise_of_usable)
        sampling = QuadraticVariance(0.0, usable, -usable).times(self._fraction(index, g, noise))
        errors = sampling.plus(noise)
        count = float(self.cells[g, index])
        clear = clearly_reported(usable, math.sqrt(self.noise_of_usable), needed)
        if unbounded:
            return ratio(count, usable, errors, widened_z(self.facts.z, clear=clear))
        return bounded_ratio(count, usable, errors, self.facts.z, (0.0, 1.0), clear=clear)

    def _fraction(self, index: int, g: int, noise: QuadraticVariance) -> float:
        """Return the sampling variance of a share over that of records with equal weights.

        It is the same for both levels of two, which are complements, so that their mean is taken.
        """
        if self.products is None:
            return 1.0
        indices = [0, 1] if len(self.levels) == 2 else [index]
        usable = float(self.usable[g])
        shares = [min(max(float(self.cells[g, j]) / usable, 0.0), 1.0) for j in indices]
        fractions = []
        for j, share in zip(indices, shares, strict=True):
            by_unit = self.products.sampling(j, g, share, noise.at(share))
            fractions.append(by_unit.fraction_of(usable * share * (1 - share), self.facts.z))
        return sum(fractions) / len(fractions)

    def _difference(self, index: int, g: int) -> Figure:
        mine = self._share(index, g, unbounded=True)
        first = self._share(index, 0, unbounded=True)
        covariance = 0.0
        if self.products is not None and mine is not None and first is not None:
            # NaN where a share is not reported; the difference is then not reported either
            covariance = self.products.covariance(index, g, mine.estimate, first.estimate)
            covariance /= float(self.usable[g] * self.usable[0])
        interval = self.difference(mine, first, covariance)
        return self.figure(description.DIFFERENCE, interval, g, self.levels[index], (-1.0, 1.0))


class _NumberFigures(_ColumnFigures):
    """Figures of a column of numbers."""

    def __init__(
        self,
        released: ReleasedFigures,
        column: Column,
        index: int,
        all_records: NoisyValues | None,
        groups: tuple[Level | None, ...],
    ) -> None:
        super().__init__(released, column, index, groups)
        number = number_of(column)
        self.low = number.low
        self.high = number.high
        self.middle = float(released.column_set.numbers.middle[index])
        self.half = float(released.column_set.numbers.half[index])
        self.all_records = all_records
        self.sums = [released.moments(index, g) for g in range(len(groups))]

    def figures(self) -> list[Figure]:
        """Return usable and missing records, then mean, standard deviation and quartiles."""
        figures = []
        for g in range(len(self.groups)):
            figures += self._records(g)
            figures += self._measures(g)
        for g in range(1, len(self.groups)):
            figures.append(self._difference(g))
        return figures

    def _records(self, g: int) -> list[Figure]:
        sums = self.sums[g]
        of_usable = sums.noise_sd[0] ** 2
        if self.all_records is None:
            assert self.released.total is not None
            total = self.released.total
            of_total = 0.0
            all_records = total
        else:
            total = float(self.all_records.values[g])
            of_total = float(self.all_records.noise_sd[0]) ** 2
            all_records = float(self.all_records.values.sum())
        squares = None
        if sums.squares is not None:
            squares = (sums.squares[0], sums.squares_noise_sd)
        usable = self.counted(sums.usable, of_usable, all_records, squares)
        missing = self.counted(total - sums.usable, of_usable + of_total, all_records)
        return [
            self.figure(description.RECORDS, usable, g),
            self.figure(description.MISSING, missing, g),
        ]

    def _enough(self, g: int) -> bool:
        sums = self.sums[g]
        return sums.usable > max(MIN_USABLE_SD * sums.noise_sd[0], 0.0)

    def _measures(self, g: int) -> list[Figure]:
        ends = dict.fromkeys(_OF_A_NUMBER, (self.low, self.high))
        ends[description.SD] = (0.0, (self.high - self.low) / 2)
        intervals: Mapping[str, Interval | None] = dict.fromkeys(_OF_A_NUMBER)
        if self._enough(g):
            measured = [self._mean(g), self._sd(g), *self._quartiles(g)]
            intervals = dict(zip(_OF_A_NUMBER, measured, strict=True))
        return [self.figure(name, intervals[name], g, None, ends[name]) for name in _OF_A_NUMBER]

    def _mean(self, g: int, *, unbounded: bool = False) -> Interval:
        """Return a mean with its interval; ``unbounded`` as if it had no bounds, for differences."""
        sums = self.sums[g]
        if not sums.mean_is_reported(self.facts.z):
            return NOT_REPORTED
        mean = sums.unbounded_mean(self.facts.z) if unbounded else sums.mean(self.facts.z)
        return mean.scaled(self.half, self.middle)

    def _sd(self, g: int) -> Interval:
        sums = self.sums[g]
        if not sums.sd_is_reported(self.facts.z):
            return NOT_REPORTED
        return sums.sd(self.facts.z).scaled(self.half)

    def _quartiles(self, g: int) -> list[Interval]:
        """Return each quartile with its interval."""
        z = self.facts.z
        sums = self.sums[g]
        histogram = self.released.histograms[g][self.index]
        noise = float(self.released.parts[BINS].noise_sd[self.index]) ** 2
        intervals = []
        for k, p in enumerate(QUARTILES):
            of_noise = noise * histogram.noise(p)
            sampling = max(sums.usable, 0.0) * p * (1 - p)
            if sums.squares is not None:
                yy, yw = self.released.distance_squares(self.index, g)[1 + k].tolist()
                of_sum = math.hypot(
                    sums.distances_noise_sd * math.sqrt(1 + 4 * p**2), sums.squares_noise_sd * p**2
                )
                privacy_variance = float(of_noise.mean()) if len(of_noise) else 0.0
                by_unit = NoisyVariance(
                    yy - 2 * p * yw + p**2 * sums.squares[0], of_sum, privacy_variance
                )
                sampling *= by_unit.fraction_of(sampling, z)
            variance = of_noise + sampling
            if histogram.is_reported(p, sums.usable, variance, z):
                intervals.append(histogram.quantile(p, variance, z))
            else:
                intervals.append(NOT_REPORTED)
        return intervals

    def _difference(self, g: int) -> Figure:
        width = self.high - self.low
        products = self.released.moment_squares(self.index)
        interval = None
        if self._enough(g) and self._enough(0):
            covariance = 0.0
            if products is not None:
                mine = self.sums[g]
                first = self.sums[0]
                covariance = products.covariance(0, g, mine.middle, first.middle)
                covariance *= self.half**2 / (mine.usable * first.usable)
            mean = self._mean(g, unbounded=True)
            interval = self.difference(mean, self._mean(0, unbounded=True), covariance)
        return self.figure(description.DIFFERENCE, interval, g, None, (-width, width))
