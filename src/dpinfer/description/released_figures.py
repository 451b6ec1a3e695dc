"""From the releases of a description to its figures: post-processing only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dpinfer.description.intervals import (
    Brackets,
    Histogram,
    Interval,
    Moments,
    Quadratic,
    Told,
    binomial,
    brackets_of,
    cautious,
    limited,
    ratio,
    well_told,
)
from dpinfer.description.plan import (
    BINS,
    COUNTS,
    LEVEL_SQUARES,
    MOMENT_SQUARES,
    MOMENTS,
    SPREADS,
    Sheet,
    number_of,
)
from dpinfer.mechanisms.column_sums import QUARTILES, Cuts, MomentWeights
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array
from dpinfer.result import description
from dpinfer.result.description import Figure
from dpinfer.result.statements import REPORTED
from dpinfer.schema.columns import Column, Level, levels_of

_CLEAR = 3.0  # deviations of the noise by which there must be usable records
_OF_A_NUMBER = (
    description.MEAN, description.SD, description.Q25, description.MEDIAN, description.Q75,
)  # fmt: skip

Ends = tuple[float, float]
HIDDEN = Interval(math.nan, math.nan, math.nan)
"""What noise hides."""


@dataclass(frozen=True)
class Facts:
    """What is public about a description.

    ``z`` is the normal quantile of its level.  ``units`` is the number of records or units, None
    where it is private; ``whole`` what all of them count together where each counts 1.  ``alike``
    says that every record counts 1, ``even`` that every unit does; a count of 1 stands for ``factor``
    records, or a weight.
    """

    z: float
    neighbours: Neighbours
    units: int | None
    whole: float | None
    alike: bool
    even: bool
    factor: float


@dataclass(frozen=True, eq=False)
class Found:
    """The entries of a part, and the deviation of their noise, column by column."""

    values: Array
    noise: Array


@dataclass(eq=False)
class Seen:
    """What was released for one sheet so far."""

    sheet: Sheet
    facts: Facts
    parts: dict[str, Found] = field(default_factory=dict)
    histograms: list[list[Histogram]] = field(default_factory=list)

    @property
    def total(self) -> float | None:
        """What all records count together, where it is public."""
        return self.facts.whole if self.sheet.total_known else None

    @property
    def _weights(self) -> MomentWeights:
        return MomentWeights.of(self.sheet.panel, self.facts.neighbours)

    def see(self, kind: str, found: Found, cuts: Cuts | None) -> None:
        """Keep a part; of histograms the last."""
        self.parts[kind] = found
        if cuts is None:
            return
        p = len(self.sheet.number_columns)
        counts = found.values.reshape(p, self.sheet.panel.groups, cuts.bins)
        self.histograms = [
            [Histogram.of(counts[j, group], cuts, self.sheet.numbers, group, j) for j in range(p)]
            for group in range(self.sheet.panel.groups)
        ]

    def brackets(self) -> Brackets:
        """Where the quartiles are by the last histograms."""
        return brackets_of(self.histograms, self.parts[BINS].noise)

    def points(self) -> Array:
        """About where the quartiles are: groups × columns × quartiles."""
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
        """The released means, groups × columns, in [-1, 1]."""
        weights = self._weights
        values = self.parts[MOMENTS].values.reshape(-1, self.sheet.panel.groups, 3)
        usable = np.maximum(values[:, :, 0] / weights.u, 1.0)
        return np.asarray(np.clip(values[:, :, 1] / weights.t / usable, -1.0, 1.0).T)

    def cells(self) -> list[Array]:
        """The counts of each column, groups × levels and what has none; all records last, where
        they are counted.
        """
        if COUNTS not in self.parts:
            return []
        groups = self.sheet.panel.groups
        sizes = groups * (self.sheet.counted.sizes + 1)
        pieces = np.split(self.parts[COUNTS].values, np.cumsum(sizes)[:-1])
        return [piece.reshape(groups, -1) for piece in pieces]

    def level_squares(self, j: int) -> "Products | None":
        """Products of what units add to the counts of a column, where records are not alike."""
        if LEVEL_SQUARES not in self.parts:
            return None
        groups = self.sheet.panel.groups
        pairs = groups**2
        sizes = self.sheet.levels.sizes
        lengths = pairs * (2 * sizes + 1)
        first = int(np.cumsum(lengths)[j] - lengths[j])
        k = int(sizes[j])
        pq, pw, ww = np.split(
            self.parts[LEVEL_SQUARES].values[first : first + int(lengths[j])],
            [k * pairs, 2 * k * pairs],
        )
        shape = (k, groups, groups)
        noise = float(self.parts[LEVEL_SQUARES].noise[j])
        return Products(pq.reshape(shape), pw.reshape(shape), ww.reshape(groups, groups), noise)

    def moment_squares(self, j: int) -> "Products | None":
        """The same of a number: its sum in the place of the count of a level."""
        if MOMENT_SQUARES not in self.parts:
            return None
        groups = self.sheet.panel.groups
        z = self.parts[MOMENT_SQUARES].values.reshape(-1, 2 * groups, 2 * groups)[j]
        z = (z + z.T) / 2
        noise = float(self.parts[MOMENT_SQUARES].noise[j])
        return Products(
            z[None, groups:, groups:], z[None, groups:, :groups], z[:groups, :groups], noise
        )

    def moments(self, j: int, g: int) -> Moments:
        """The sums of a number in a group."""
        groups = self.sheet.panel.groups
        weights = self._weights
        scale = np.array([weights.u, weights.t, weights.square])
        found = self.parts[MOMENTS]
        usable, total, square = (found.values.reshape(-1, groups, 3)[j, g] / scale).tolist()
        of_usable, of_total, of_square = (found.noise[j] / scale).tolist()
        products = self.moment_squares(j)
        squares = None
        if products is not None:
            squares = (
                float(products.ww[g, g]),
                float(products.pw[0, g, g]),
                float(products.pq[0, g, g]),
            )
        yy, yw = self.spreads(j, g)[0].tolist()
        return Moments(
            usable=usable,
            total=total,
            square=square,
            noise=(of_usable, of_total, of_square),
            centre=float(self.centre()[g, j]),
            squares=squares,
            spread=(yy, yw),
            noise_of_squares=0.0 if products is None else products.noise,
            noise_of_spread=float(self.parts[SPREADS].noise[j]),
        )

    def spreads(self, j: int, g: int) -> Array:
        """Sums of Y² and Y W for the squared distance and, where records are not alike, for each
        quartile.
        """
        functions = 1 if self.facts.alike else 1 + len(QUARTILES)
        shape = (-1, self.sheet.panel.groups, functions, 2)
        return np.asarray(self.parts[SPREADS].values.reshape(shape)[j, g])


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over units of p q and p w (levels × groups × groups) and of w w (groups × groups), and
    the deviation of their noise.
    """

    pq: Array
    pw: Array
    ww: Array
    noise: float

    def sampling(self, place: int, g: int, share: float, beside: float) -> Told:
        """The sampling variance of the count of a level less its share of all."""
        found = self.pq[place, g, g] - 2 * share * self.pw[place, g, g] + share**2 * self.ww[g, g]
        noise = self.noise * math.sqrt(1 + 4 * share**2 + share**4)
        return Told(float(found), noise, beside)

    def covariance(self, place: int, g: int, mine: float, first: float) -> float:
        """Of two groups' counts less their shares of all, as people may be in both; one deviation of
        its noise less, as a larger one would make intervals shorter.
        """
        found = (
            self.pq[place, g, 0]
            - first * self.pw[place, g, 0]
            - mine * self.pw[place, 0, g]
            + mine * first * self.ww[g, 0]
        )
        return float(found - self.noise * math.sqrt((1 + mine**2) * (1 + first**2)))


def figures_of(seen: Seen, groups: tuple[Level | None, ...]) -> list[Figure]:
    """All figures of a sheet: those of columns with levels, then those of numbers."""
    cells = seen.cells()
    figures: list[Figure] = []
    for j, column in enumerate(seen.sheet.level_columns):
        figures += _OfLevels(seen, column, j, cells[j], groups).figures()
    everybody = None
    if seen.sheet.counts_all:
        everybody = Found(cells[-1][:, 0], seen.parts[COUNTS].noise[-1:])
    for j, column in enumerate(seen.sheet.number_columns):
        figures += _OfNumber(seen, column, j, everybody, groups).figures()
    return figures


class _OfColumn:
    """What the figures of every column share."""

    def __init__(
        self, seen: Seen, column: Column, place: int, groups: tuple[Level | None, ...]
    ) -> None:
        self.seen = seen
        self.facts = seen.facts
        self.column = column
        self.place = place
        self.groups = groups

    def counted(
        self,
        count: float,
        noise: float,
        everybody: float,
        squares: tuple[float, float] | None = None,
    ) -> Interval:
        """A count among ``everybody``, all groups together; ``noise`` is the variance of its noise,
        ``squares`` the sum of its squares over units with the deviation of its noise, where that is
        released.
        """
        facts = self.facts
        units = math.inf  # a number of units that nobody knows is as random as the count
        if facts.units is not None:
            units = float(facts.units)
        elif facts.even:
            units = max(everybody, 1.0)
        sampling = binomial(units)  # no unit counts more than 1, so that it is not more
        if squares is not None:
            found, of_found = squares
            told = Told(found - count**2 / units, of_found, noise)
            sampling = sampling.times(told.part_of(sampling.at(count), facts.z))
        most = math.inf if self.seen.total is None else self.seen.total
        errors = sampling.plus(Quadratic(noise))
        return limited(count, 1.0, errors, facts.z, (0.0, most)).scaled(facts.factor)

    def figure(
        self,
        figure: str,
        found: Interval | None,
        g: int,
        level: Level | None = None,
        ends: Ends | None = None,
    ) -> Figure:
        """A figure within its public ``ends``, or open."""
        status = REPORTED
        if found is None:
            status = description.OPEN_RECORDS
        elif math.isnan(found.estimate):
            status = description.OPEN_NOISE
        elif ends is not None:
            found = found.within(*ends)
        if found is None:
            found = HIDDEN
        return Figure(
            self.column.name,
            level,
            figure,
            found.estimate,
            found.low,
            found.high,
            status,
            self.groups[g],
        )

    def difference(
        self, mine: Interval | None, first: Interval | None, covariance: float
    ) -> Interval | None:
        """Of two groups; ``covariance`` is that of their sampling errors."""
        if mine is None or first is None:
            return None
        if math.isnan(mine.estimate + first.estimate):
            return HIDDEN
        lengths = (mine.high - mine.low) * (first.high - first.low)
        errors = lengths / (2 * self.facts.z) ** 2
        correlation = 0.0
        if errors > 0 and math.isfinite(errors):
            correlation = min(max(covariance / errors, -1.0), 1.0)
        return mine.less(first, correlation)


class _OfLevels(_OfColumn):
    """The figures of a column with levels."""

    def __init__(
        self,
        seen: Seen,
        column: Column,
        place: int,
        cells: Array,
        groups: tuple[Level | None, ...],
    ) -> None:
        super().__init__(seen, column, place, groups)
        self.levels = levels_of(column)
        k = len(self.levels)
        variance = float(seen.parts[COUNTS].noise[place]) ** 2
        known = 0.0
        if seen.total is not None:  # the cells add up to a number that is public
            cells = cells + (seen.total - cells.sum()) / (k + 1)
            known = 1 / (k + 1)
        self.cells = cells
        self.usable = cells[:, :k].sum(axis=1)
        self.noise_of_cell = variance * (1 - known)
        self.noise_of_usable = variance * k * (1 - k * known)
        self.noise_shared = variance * (1 - k * known)
        self.products = seen.level_squares(place)

    def figures(self) -> list[Figure]:
        """Usable and missing records, then each level; of yes or no, the yes alone."""
        shown = [place for place, level in enumerate(self.levels) if level is not False]
        figures = []
        for g in range(len(self.groups)):
            figures += self._records(g)
            for place in shown:
                figures += self._of_level(place, g)
        for g in range(1, len(self.groups)):
            for place in shown:
                figures.append(self._difference(place, g))
        return figures

    def _records(self, g: int) -> list[Figure]:
        everybody = float(self.cells.sum())
        squares = None
        if self.products is not None:
            squares = (float(self.products.ww[g, g]), self.products.noise)
        usable = self.counted(float(self.usable[g]), self.noise_of_usable, everybody, squares)
        missing = self.counted(float(self.cells[g, -1]), self.noise_of_cell, everybody)
        return [
            self.figure(description.RECORDS, usable, g),
            self.figure(description.MISSING, missing, g),
        ]

    def _of_level(self, place: int, g: int) -> list[Figure]:
        level = self.levels[place]
        everybody = float(self.cells.sum())
        squares = None
        if self.products is not None:
            squares = (float(self.products.pq[place, g, g]), self.products.noise)
        count = self.counted(float(self.cells[g, place]), self.noise_of_cell, everybody, squares)
        share = self._share(place, g)
        return [
            self.figure(description.COUNT, count, g, level),
            self.figure(description.SHARE, share, g, level, (0.0, 1.0)),
        ]

    def _share(self, place: int, g: int, *, freely: bool = False) -> Interval | None:
        """A share with its interval; ``freely`` as if it had no limits, for differences."""
        usable = float(self.usable[g])
        if not usable > max(_CLEAR * math.sqrt(self.noise_of_usable), 0.0):
            return None
        # judged by the usable records alone, as a mean is
        needed = 2 * self.facts.z * math.sqrt(self.noise_of_cell + self.noise_of_usable)
        if needed > usable:
            return HIDDEN
        noise = Quadratic(self.noise_of_cell, -2 * self.noise_shared, self.noise_of_usable)
        sampling = Quadratic(0.0, usable, -usable).times(self._part(place, g, noise))
        errors = sampling.plus(noise)
        count = float(self.cells[g, place])
        surely = well_told(usable, math.sqrt(self.noise_of_usable), needed)
        if freely:
            return ratio(count, usable, errors, cautious(self.facts.z, surely=surely))
        return limited(count, usable, errors, self.facts.z, (0.0, 1.0), surely=surely)

    def _part(self, place: int, g: int, noise: Quadratic) -> float:
        """The part that the sampling variance of a share has of that of plain records; the same for
        two levels, of which one is what the other is not.
        """
        if self.products is None:
            return 1.0
        places = [0, 1] if len(self.levels) == 2 else [place]
        usable = float(self.usable[g])
        shares = [min(max(float(self.cells[g, j]) / usable, 0.0), 1.0) for j in places]
        parts = []
        for j, share in zip(places, shares, strict=True):
            told = self.products.sampling(j, g, share, noise.at(share))
            parts.append(told.part_of(usable * share * (1 - share), self.facts.z))
        return sum(parts) / len(parts)

    def _difference(self, place: int, g: int) -> Figure:
        mine = self._share(place, g, freely=True)
        first = self._share(place, 0, freely=True)
        covariance = 0.0
        if self.products is not None and mine is not None and first is not None:
            # of what noise hides it is not a number, and not looked at
            covariance = self.products.covariance(place, g, mine.estimate, first.estimate)
            covariance /= float(self.usable[g] * self.usable[0])
        found = self.difference(mine, first, covariance)
        return self.figure(description.DIFFERENCE, found, g, self.levels[place], (-1.0, 1.0))


class _OfNumber(_OfColumn):
    """The figures of a number."""

    def __init__(
        self,
        seen: Seen,
        column: Column,
        place: int,
        everybody: Found | None,
        groups: tuple[Level | None, ...],
    ) -> None:
        super().__init__(seen, column, place, groups)
        number = number_of(column)
        self.low = number.low
        self.high = number.high
        self.middle = float(seen.sheet.numbers.middle[place])
        self.half = float(seen.sheet.numbers.half[place])
        self.everybody = everybody
        self.sums = [seen.moments(place, g) for g in range(len(groups))]

    def figures(self) -> list[Figure]:
        """Usable and missing records, then mean, deviation and quartiles."""
        figures = []
        for g in range(len(self.groups)):
            figures += self._records(g)
            figures += self._measures(g)
        for g in range(1, len(self.groups)):
            figures.append(self._difference(g))
        return figures

    def _records(self, g: int) -> list[Figure]:
        sums = self.sums[g]
        of_usable = sums.noise[0] ** 2
        if self.everybody is None:
            assert self.seen.total is not None
            total = self.seen.total
            of_total = 0.0
            everybody = total
        else:
            total = float(self.everybody.values[g])
            of_total = float(self.everybody.noise[0]) ** 2
            everybody = float(self.everybody.values.sum())
        squares = None
        if sums.squares is not None:
            squares = (sums.squares[0], sums.noise_of_squares)
        usable = self.counted(sums.usable, of_usable, everybody, squares)
        missing = self.counted(total - sums.usable, of_usable + of_total, everybody)
        return [
            self.figure(description.RECORDS, usable, g),
            self.figure(description.MISSING, missing, g),
        ]

    def _enough(self, g: int) -> bool:
        sums = self.sums[g]
        return sums.usable > max(_CLEAR * sums.noise[0], 0.0)

    def _measures(self, g: int) -> list[Figure]:
        ends = dict.fromkeys(_OF_A_NUMBER, (self.low, self.high))
        ends[description.SD] = (0.0, (self.high - self.low) / 2)
        found: Mapping[str, Interval | None] = dict.fromkeys(_OF_A_NUMBER)
        if self._enough(g):
            measured = [self._mean(g), self._deviation(g), *self._quartiles(g)]
            found = dict(zip(_OF_A_NUMBER, measured, strict=True))
        return [self.figure(name, found[name], g, None, ends[name]) for name in _OF_A_NUMBER]

    def _mean(self, g: int, *, freely: bool = False) -> Interval:
        """A mean with its interval; ``freely`` as if it had no bounds, for differences."""
        sums = self.sums[g]
        if not sums.mean_told(self.facts.z):
            return HIDDEN
        found = sums.mean_freely(self.facts.z) if freely else sums.mean(self.facts.z)
        return found.scaled(self.half, self.middle)

    def _deviation(self, g: int) -> Interval:
        sums = self.sums[g]
        if not sums.deviation_told(self.facts.z):
            return HIDDEN
        return sums.deviation(self.facts.z).scaled(self.half)

    def _quartiles(self, g: int) -> list[Interval]:
        """Each with its interval."""
        z = self.facts.z
        sums = self.sums[g]
        histogram = self.seen.histograms[g][self.place]
        noise = float(self.seen.parts[BINS].noise[self.place]) ** 2
        found = []
        for k, p in enumerate(QUARTILES):
            of_noise = noise * histogram.noise(p)
            sampling = max(sums.usable, 0.0) * p * (1 - p)
            if sums.squares is not None:
                yy, yw = self.seen.spreads(self.place, g)[1 + k].tolist()
                of_sum = math.hypot(
                    sums.noise_of_spread * math.sqrt(1 + 4 * p**2), sums.noise_of_squares * p**2
                )
                beside = float(of_noise.mean()) if len(of_noise) else 0.0
                told = Told(yy - 2 * p * yw + p**2 * sums.squares[0], of_sum, beside)
                sampling *= told.part_of(sampling, z)
            variance = of_noise + sampling
            if histogram.told(p, sums.usable, variance, z):
                found.append(histogram.quantile(p, variance, z))
            else:
                found.append(HIDDEN)
        return found

    def _difference(self, g: int) -> Figure:
        width = self.high - self.low
        products = self.seen.moment_squares(self.place)
        found = None
        if self._enough(g) and self._enough(0):
            covariance = 0.0
            if products is not None:
                mine = self.sums[g]
                first = self.sums[0]
                covariance = products.covariance(0, g, mine.middle, first.middle)
                covariance *= self.half**2 / (mine.usable * first.usable)
            mean = self._mean(g, freely=True)
            found = self.difference(mean, self._mean(0, freely=True), covariance)
        return self.figure(description.DIFFERENCE, found, g, None, (-width, width))
