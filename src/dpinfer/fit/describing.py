"""Describing a table: counts, moments and histograms of its columns in a few stacks; then post-processing.

1. counts and moments   counts of levels, sums of numbers and squares, equal bins on the public ranges
2. quartiles            two rounds of histograms, each with finer bins around the quartiles that the last has seen
3. with the last        what the sampling errors of deviations, and of people's quartiles, rest on

Every column has its share of the budget, in every stack, and nothing else depends on how many columns there are.
`DescriptionPlan` says how the budget is shared, `Describing` carries it out, and `Description` is what is published.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.recipe import privacy
from dpinfer.maths.arrays import Array
from dpinfer.maths.column_sums import (
    QUARTILES,
    Cuts,
    Levels,
    MomentWeights,
    Numbers,
    Panel,
    Part,
    Stack,
    histograms,
    level_counts,
    level_squares,
    moment_squares,
    moments,
    spreads,
)
from dpinfer.maths.figures import (
    Histogram,
    Interval,
    Moments,
    Quadratic,
    binomial,
    brackets_of,
    closer_cuts,
    first_cuts,
    ratio,
)
from dpinfer.maths.laws import Gaussian, Laplace, Law
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import (
    ZCDP,
    ApproxDP,
    Budget,
    NoPrivacy,
    PureDP,
    Share,
    require_promise,
)
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisyCounts, NoisySum
from dpinfer.result import description
from dpinfer.result.description import Description, Figure
from dpinfer.result.statements import REPORTED
from dpinfer.rows import workers
from dpinfer.rows.encoded import cached
from dpinfer.rows.source import WHOLE_UNIT, Pending, Source
from dpinfer.schema.columns import Column, Level, Number, Outcome, did_you_mean
from dpinfer.schema.guesses import levels_of
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import Unit
from dpinfer.tables.table import read_columns

STEPS = ("counts and moments", "quartiles, 1 of 2", "quartiles, 2 of 2")
"""The releases of a description; without numbers the first alone."""

COUNTS = "counts"
LEVEL_SQUARES = "level squares"
MOMENTS = "moments"
MOMENT_SQUARES = "moment squares"
BINS = "bins"
SPREADS = "spreads"

_ALIKE: tuple[Mapping[str, float], ...] = (
    {MOMENTS: 0.42, BINS: 0.07},
    {BINS: 0.13},
    {BINS: 0.34, SPREADS: 0.04},
)
"""What a number spends on each part of each release where every record counts 1."""
_UNLIKE: tuple[Mapping[str, float], ...] = (
    {MOMENTS: 0.36, MOMENT_SQUARES: 0.08, BINS: 0.07},
    {BINS: 0.13},
    {BINS: 0.28, SPREADS: 0.08},
)
"""The same for people with several rows, and with weights."""
_SQUARES = 0.2  # of the share of a column with levels, where records are not alike
_TOTAL = 0.25  # of the share of a column: the number of records, where it is not public
_FIRST_BINS = 48
_CLOSER_BINS = 16
_CLEAR = 3.0  # deviations of the noise by which there must be usable records
_MOST_GROUPS = 50
_ROUNDED = 1e-9  # of ρ


@dataclass(frozen=True)
class Sheet:
    """The columns that are described for one panel: all records together, or by group."""

    panel: Panel
    columns: tuple[Column, ...]
    places: tuple[int, ...]
    weights: tuple[float, ...]
    total_known: bool

    def _chosen(self, *, levels: bool) -> list[int]:
        return [j for j, column in enumerate(self.columns) if bool(levels_of(column)) == levels]

    @property
    def level_columns(self) -> list[Column]:
        """Those with levels."""
        return [self.columns[j] for j in self._chosen(levels=True)]

    @property
    def number_columns(self) -> list[Column]:
        """Those with numbers."""
        return [self.columns[j] for j in self._chosen(levels=False)]

    @property
    def levels(self) -> Levels:
        """Their places in a row."""
        chosen = self._chosen(levels=True)
        return Levels(
            np.array([self.places[j] for j in chosen], dtype=np.intp),
            np.array([len(levels_of(self.columns[j])) for j in chosen], dtype=np.intp),
        )

    @property
    def counts_all(self) -> bool:
        """Whether all records are counted, for the numbers that are missing."""
        return not self.total_known and bool(self.number_columns)

    @property
    def counted(self) -> Levels:
        """What is counted: levels, and all records where their number is not public."""
        levels = self.levels
        if not self.counts_all:
            return levels
        return Levels(np.append(levels.places, 0), np.append(levels.sizes, 0))

    @property
    def numbers(self) -> Numbers:
        """The numbers, with their bounds."""
        chosen = self._chosen(levels=False)
        columns = [self.columns[j] for j in chosen]
        return Numbers(
            np.array([self.places[j] for j in chosen], dtype=np.intp),
            np.array([_number(column).low for column in columns]),
            np.array([_number(column).high for column in columns]),
            np.array([_number(column).kind == "integer" for column in columns], dtype=bool),
        )

    def level_weights(self) -> Array:
        """What is spent on each column with levels."""
        return np.array([self.weights[j] for j in self._chosen(levels=True)])

    def number_weights(self) -> Array:
        """What is spent on each number."""
        return np.array([self.weights[j] for j in self._chosen(levels=False)])


def _number(column: Column) -> Number:
    """A column without levels as a number."""
    if isinstance(column, Outcome):
        assert column.low is not None
        assert column.high is not None
        return Number(column.name, column.low, column.high)
    assert isinstance(column, Number)
    return column


@dataclass(frozen=True)
class _Slot:
    """One part of a release: its kind, its sheet, and what is spent on each of its columns, of 1 in
    the whole description.
    """

    kind: str
    sheet: int
    shares: Array


@dataclass(frozen=True)
class DescriptionPlan:
    """A budget, and the sheets it is shared among; ``alike`` says that every record counts 1."""

    budget: Budget
    sheets: tuple[Sheet, ...]
    neighbours: Neighbours
    alike: bool

    def __post_init__(self) -> None:
        if not isinstance(self.budget, PureDP | ZCDP | ApproxDP | NoPrivacy):
            raise BudgetError(
                "a table is described with budget=dp.ApproxDP(epsilon, delta), dp.ZCDP(rho) or dp.PureDP(epsilon)"
            )

    @property
    def pure(self) -> bool:
        """Whether ε is shared, and not ρ."""
        return isinstance(self.budget, PureDP)

    def slots(self) -> list[list[_Slot]]:
        """The parts of each release; releases without any are left out."""
        whole = sum(
            sum(sheet.weights) + (_TOTAL * max(sheet.weights) if sheet.counts_all else 0.0)
            for sheet in self.sheets
        )
        stages: list[list[_Slot]] = [[] for _ in STEPS]
        for place, sheet in enumerate(self.sheets):
            stages[0] += self._of_levels(place, sheet, whole)
            if not sheet.number_columns:
                continue
            weights = sheet.number_weights() / whole
            for stage, parts in zip(stages, _ALIKE if self.alike else _UNLIKE, strict=True):
                stage += [_Slot(kind, place, part * weights) for kind, part in parts.items()]
        return [stage for stage in stages if stage]

    def _of_levels(self, place: int, sheet: Sheet, whole: float) -> list[_Slot]:
        weights = sheet.level_weights() / whole
        slots = []
        counts = weights
        if not self.alike and len(weights):
            slots.append(_Slot(LEVEL_SQUARES, place, _SQUARES * weights))
            counts = (1 - _SQUARES) * weights
        if sheet.counts_all:
            counts = np.append(counts, _TOTAL * max(sheet.weights) / whole)
        if len(counts):
            slots.append(_Slot(COUNTS, place, counts))
        return slots

    def releases(self) -> tuple[NoisySum | NoisyCounts, ...]:
        """The releases, in order.

        Guarantee [description_composition]: all of them together keep the budget; an (ε, δ) budget
        is spent to the last digit.
        """
        shares = tuple(sum(float(slot.shares.sum()) for slot in stage) for stage in self.slots())
        return _planned(self.budget, shares)


@lru_cache(maxsize=256)
def _planned(budget: Budget, shares: tuple[float, ...]) -> tuple[NoisySum | NoisyCounts, ...]:
    if not isinstance(budget, ApproxDP):
        return _released(budget, shares)
    rho = budget.zcdp().rho * (1 - _ROUNDED)
    factor = largest_factor(budget, lambda f: _released(ZCDP(f * rho), shares))
    return _released(ZCDP(factor * rho), shares)


def _released(whole: Share, shares: tuple[float, ...]) -> tuple[NoisySum | NoisyCounts, ...]:
    """One release per share of the whole; each moves by at most 1."""
    releases: list[NoisySum | NoisyCounts] = []
    parts: Sequence[Share] = whole.split(*shares)
    for step, share in zip(STEPS, parts, strict=False):
        if isinstance(share, PureDP):
            releases.append(NoisyCounts(step, share, 1.0))
        else:
            releases.append(NoisySum(step, share, 1.0))
    return tuple(releases)


@dataclass(frozen=True, eq=False)
class _Found:
    """The entries of a part, and the deviation of their noise, column by column."""

    values: Array
    noise: Array


@dataclass(frozen=True, eq=False, repr=False)
class Describing:
    """What will be described of which table, from public facts: nothing was booked, and no value
    read.

    ``n`` is the number of records or units where it is public.
    """

    records: Pending
    plan: DescriptionPlan
    by: Column | None
    unit: Unit
    confidence: float
    schema: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that are described."""
        return self.plan.sheets[0].columns

    @property
    def budget(self) -> Budget:
        """What is spent."""
        return self.plan.budget

    @property
    def n(self) -> int | None:
        """The number of records or units where it is public."""
        return self.records.n if self.plan.neighbours.counted else None

    @property
    def entry(self) -> Entry:
        """What will be booked."""
        names = ", ".join(column.name for column in self.columns)
        grouped = f" by {self.by.name}" if self.by is not None else ""
        purpose = f"describe {names}{grouped}"
        plan = self.plan
        return Entry(purpose, self.unit.name, plan.releases(), plan.neighbours, self.schema)

    @property
    def z(self) -> float:
        """The normal quantile of the level."""
        return float(ndtri((1 + self.confidence) / 2))

    def expected(self) -> list[dict[str, Any]]:
        """What the noise alone adds to an interval, on each side, for each column and its groups:
        to a count, and to a mean where the number of records is public.
        """
        rows: list[dict[str, Any]] = []
        booked = self.plan.releases()[0]
        for slot, scale in zip(self.plan.slots()[0], self._scales(), strict=True):
            sheet = self.plan.sheets[slot.sheet]
            noise = self._deviation(booked.law) / scale
            by = self.by.name if sheet.panel.grouped and self.by is not None else ""
            if slot.kind == COUNTS:
                for column, one in zip(sheet.level_columns, noise.tolist(), strict=False):
                    margin = self.z * one * self._factor
                    rows.append(_margin(column.name, description.COUNT, by, margin))
            if slot.kind == MOMENTS and self.n and not by:
                weight = MomentWeights.of(sheet.panel, self.plan.neighbours).t
                margins = self.z * noise / weight * sheet.numbers.half / self.n
                for column, one in zip(sheet.number_columns, margins.tolist(), strict=True):
                    rows.append(_margin(column.name, description.MEAN, by, one))
        return rows

    def _scales(self) -> list[Array]:
        """What the parts of the first release are multiplied by."""
        parts = []
        for slot in self.plan.slots()[0]:
            cuts = self._first_cuts(slot.sheet) if slot.kind == BINS else None
            parts.append(self._part(slot, cuts, None, None))
        return self._stack(0, parts).scales()

    def _stack(self, stage: int, parts: Sequence[Part]) -> Stack:
        slots = self.plan.slots()[stage]
        total = sum(float(slot.shares.sum()) for slot in slots)
        return Stack(parts, [slot.shares / total for slot in slots], self.plan.pure)

    def _first_cuts(self, sheet: int) -> Cuts:
        one = self.plan.sheets[sheet]
        return first_cuts(one.numbers, one.panel.groups, _FIRST_BINS)

    def _part(
        self, slot: _Slot, cuts: Cuts | None, centre: Array | None, points: Array | None
    ) -> Part:
        """The sum of a slot; what is not needed for its kind is None."""
        sheet = self.plan.sheets[slot.sheet]
        notion = self.plan.neighbours
        if slot.kind == COUNTS:
            return level_counts(sheet.counted, sheet.panel, notion)
        if slot.kind == LEVEL_SQUARES:
            return level_squares(sheet.levels, sheet.panel, notion)
        if slot.kind == MOMENTS:
            return moments(sheet.numbers, sheet.panel, notion)
        if slot.kind == MOMENT_SQUARES:
            return moment_squares(sheet.numbers, sheet.panel, notion)
        if slot.kind == BINS:
            assert cuts is not None
            return histograms(sheet.numbers, cuts, sheet.panel, notion)
        assert centre is not None
        return spreads(sheet.numbers, centre, points, sheet.panel, notion)

    @property
    def _factor(self) -> float:
        """What a count of 1 stands for: a weight, or rows of a unit, where these are counted."""
        return self.unit.most / WHOLE_UNIT if self.unit.columns else 1.0

    @property
    def total(self) -> float:
        """What all units count together, where each counts 1 and their number is public."""
        return self.records.n * (WHOLE_UNIT if self.unit.columns else 1.0)

    def _deviation(self, law: Law) -> float:
        """Of the noise in an entry.  Laplace noise has longer tails: its deviation is taken so large
        that a normal law with it has the same interval.
        """
        if isinstance(law, Laplace):
            return max(math.sqrt(2), -math.log(1 - self.confidence) / self.z) / law.rate
        assert isinstance(law, Gaussian)
        return law.scale

    def run(self, ledger: Book | None = None, insecure_seed: int | None = None) -> Description:
        """Book, then read, then release.

        Guarantee [description_from_releases]: whether it raises and what it says are functions of
        the releases and of public facts.
        """
        workers.check()
        gate = Gate(self.entry, ledger, insecure_seed)
        with workers.worker_pool(), self.records.opened() as source:
            found = self._released(gate, cached(source))
        figures = [
            figure
            for place, sheet in enumerate(self.plan.sheets)
            for figure in _Figures(self, sheet, found[place]).all()
        ]
        order = {column.name: j for j, column in enumerate(self.columns)}
        figures.sort(key=lambda figure: order[figure.column])
        return Description(
            figures=tuple(figures),
            columns=self.columns,
            by=self.by.name if self.by is not None else "",
            groups=levels_of(self.by) if self.by is not None else (),
            confidence=self.confidence,
            n=self.n,
            unit=self.unit,
            privacy=privacy(gate, self.budget),
        )

    def _released(self, gate: Gate, source: Source) -> list[dict[str, Any]]:
        """What was released, by sheet and kind; of histograms the last."""
        found: list[dict[str, Any]] = [{} for _ in self.plan.sheets]
        for stage, booked in enumerate(self.plan.releases()):
            slots = self.plan.slots()[stage]
            cuts = [self._next_cuts(slot, found[slot.sheet], stage) for slot in slots]
            parts = [
                self._part(
                    slot, cut, found[slot.sheet].get("centre"), self._points(found[slot.sheet])
                )
                for slot, cut in zip(slots, cuts, strict=True)
            ]
            stack = self._stack(stage, parts)
            released = gate.release(booked, source, stack.sum())
            deviation = self._deviation(released.noise)
            pieces = zip(slots, cuts, stack.apart(released.value), stack.scales(), strict=True)
            for slot, cut, values, scale in pieces:
                one = _Found(values, deviation / scale)
                if cut is not None:
                    self._see(found[slot.sheet], self.plan.sheets[slot.sheet], one, cut)
                found[slot.sheet][slot.kind] = one
                if slot.kind == MOMENTS:
                    found[slot.sheet]["centre"] = self._centre(slot.sheet, one)
        return found

    def _next_cuts(self, slot: _Slot, found: Mapping[str, Any], stage: int) -> Cuts | None:
        if slot.kind != BINS:
            return None
        if stage == 0:
            return self._first_cuts(slot.sheet)
        return closer_cuts(found["brackets"], self.plan.sheets[slot.sheet].numbers, _CLOSER_BINS)

    def _see(self, found: dict[str, Any], sheet: Sheet, bins: _Found, cuts: Cuts) -> None:
        """Keep the histograms, and where the quartiles are by them."""
        p = len(sheet.number_columns)
        counts = bins.values.reshape(p, sheet.panel.groups, cuts.bins)
        seen = [
            [Histogram.of(counts[j, group], cuts, sheet.numbers, group, j) for j in range(p)]
            for group in range(sheet.panel.groups)
        ]
        found["histograms"] = seen
        found["brackets"] = brackets_of(seen, bins.noise)

    def _points(self, found: Mapping[str, Any]) -> Array | None:
        """About where the quartiles are, where their sampling errors are released."""
        if self.plan.alike or "brackets" not in found:
            return None
        middles = [
            [
                [sum(one.ends(*bracket)) / 2 for bracket in several]
                for one, several in zip(histograms_, brackets, strict=True)
            ]
            for histograms_, brackets in zip(found["histograms"], found["brackets"], strict=True)
        ]
        return np.array(middles)

    def _centre(self, place: int, one: _Found) -> Array:
        """The released means, in [-1, 1]."""
        sheet = self.plan.sheets[place]
        weights = MomentWeights.of(sheet.panel, self.plan.neighbours)
        values = one.values.reshape(len(sheet.number_columns), sheet.panel.groups, 3)
        usable = np.maximum(values[:, :, 0] / weights.u, 1.0)
        return np.asarray(np.clip(values[:, :, 1] / weights.t / usable, -1.0, 1.0).T)


def _margin(column: str, figure: str, by: str, margin: float) -> dict[str, Any]:
    return {"column": column, "by": by, "figure": figure, "noise": margin}


_MEASURES = (description.MEAN, description.SD, description.Q25, description.MEDIAN, description.Q75)


class _Figures:
    """The figures of one sheet, from what was released for it."""

    def __init__(self, asked: Describing, sheet: Sheet, found: Mapping[str, Any]) -> None:
        self.asked = asked
        self.sheet = sheet
        self.found = found
        self.z = asked.z
        self.groups: tuple[Level | None, ...] = (None,)
        if sheet.panel.grouped and asked.by is not None:
            self.groups = levels_of(asked.by)
        self.total = asked.total if sheet.total_known else None

    def all(self) -> list[Figure]:
        """Those of columns with levels, then those of numbers."""
        figures = []
        counts = self._cells()
        for j, column in enumerate(self.sheet.level_columns):
            figures += self._of_levels(j, column, counts[j])
        everybody = counts[-1][:, 0] if self.sheet.counts_all else None
        for j, column in enumerate(self.sheet.number_columns):
            figures += self._of_number(j, column, everybody)
        return figures

    def _cells(self) -> list[Array]:
        """The counts of each column, groups × levels and what has none."""
        if COUNTS not in self.found:
            return []
        groups = self.sheet.panel.groups
        sizes = groups * (self.sheet.counted.sizes + 1)
        pieces = np.split(self.found[COUNTS].values, np.cumsum(sizes)[:-1])
        return [piece.reshape(groups, -1) for piece in pieces]

    def _of_levels(self, j: int, column: Column, cells: Array) -> list[Figure]:
        levels = levels_of(column)
        k = len(levels)
        noise = float(self.found[COUNTS].noise[j])
        known = 0.0
        if self.total is not None:  # the cells add up to a number that is public
            cells = cells + (self.total - cells.sum()) / (k + 1)
            known = 1 / (k + 1)
        squares = self._level_squares(j, k)
        shown = [place for place, level in enumerate(levels) if level is not False]
        shares: dict[tuple[int, int], Interval | None] = {}
        figures = []
        everybody = float(cells.sum())
        for g, group in enumerate(self.groups):
            usable = float(cells[g, :k].sum())
            of_usable = noise**2 * k * (1 - k * known)
            ww = None if squares is None else squares[2][g, g]
            figures += self._records(
                column.name,
                group,
                (usable, of_usable),
                (float(cells[g, k]), noise**2),
                everybody,
                ww,
            )
            enough = usable > _CLEAR * math.sqrt(of_usable) and usable > 0
            for place in shown:
                count = float(cells[g, place])
                of_count = noise**2 * (1 - known)
                pp = None if squares is None else squares[0][place, g, g]
                counted = self._count(count, of_count, everybody, pp)
                figures.append(
                    self._figure(column.name, levels[place], description.COUNT, counted, group)
                )
                share = None
                if enough:
                    sampling = Quadratic(0.0, usable, -usable)
                    if squares is not None:
                        sampling = Quadratic(
                            float(squares[0][place, g, g]),
                            -2 * float(squares[1][place, g, g]),
                            float(squares[2][g, g]),
                        )
                    shared = noise**2 * (1 - k * known)
                    variance = sampling.plus(Quadratic(of_count, -2 * shared, of_usable))
                    share = ratio(count, usable, variance, self.z)
                shares[g, place] = share
                figures.append(
                    self._figure(
                        column.name, levels[place], description.SHARE, share, group, (0.0, 1.0)
                    )
                )
        for g in range(1, len(self.groups)):
            for place in shown:
                correlation = 0.0
                if squares is not None:
                    correlation = self._share_correlation(squares, shares, cells[:, :k], place, g)
                figures.append(
                    self._difference(
                        column.name,
                        levels[place],
                        g,
                        shares[g, place],
                        shares[0, place],
                        correlation,
                        (-1.0, 1.0),
                    )
                )
        return figures

    def _level_squares(self, j: int, k: int) -> tuple[Array, Array, Array] | None:
        """Sums of p q, p w (levels × groups × groups) and w w over units."""
        if LEVEL_SQUARES not in self.found:
            return None
        groups = self.sheet.panel.groups
        lengths = groups**2 * (2 * self.sheet.levels.sizes + 1)
        first = int(np.cumsum(lengths)[j] - lengths[j])
        mine = self.found[LEVEL_SQUARES].values[first : first + int(lengths[j])]
        pairs = groups**2
        return (
            mine[: k * pairs].reshape(k, groups, groups),
            mine[k * pairs : 2 * k * pairs].reshape(k, groups, groups),
            mine[2 * k * pairs :].reshape(groups, groups),
        )

    def _share_correlation(
        self,
        squares: tuple[Array, Array, Array],
        shares: Mapping[tuple[int, int], Interval | None],
        cells: Array,
        place: int,
        g: int,
    ) -> float:
        """Of the shares of a level in a group and in the first: people may be in both."""
        mine = shares[g, place]
        first = shares[0, place]
        if mine is None or first is None:
            return 0.0
        pq, pw, ww = squares
        covariance = (
            pq[place, g, 0]
            - first.estimate * pw[place, g, 0]
            - mine.estimate * pw[place, 0, g]
            + mine.estimate * first.estimate * ww[g, 0]
        )
        return self._correlation(covariance, cells[g].sum() * cells[0].sum(), mine, first)

    def _correlation(
        self, covariance: float, size: float, mine: Interval, first: Interval
    ) -> float:
        errors = (mine.high - mine.low) * (first.high - first.low) / (2 * self.z) ** 2
        if not errors * size > 0:
            return 0.0
        return float(np.clip(covariance / (errors * size), -1.0, 1.0))

    def _records(
        self,
        name: str,
        group: Level | None,
        usable: tuple[float, float],
        missing: tuple[float, float],
        everybody: float,
        squares: float | None,
    ) -> list[Figure]:
        """Usable and missing records, each with the variance of its noise."""
        figures = []
        for figure, (count, noise) in zip(
            (description.RECORDS, description.MISSING), (usable, missing), strict=True
        ):
            of_units = squares if figure == description.RECORDS else None
            counted = self._count(count, noise, everybody, of_units)
            figures.append(self._figure(name, None, figure, counted, group))
        return figures

    def _count(
        self, count: float, noise: float, everybody: float, squares: float | None
    ) -> Interval:
        """A count among ``everybody``, all groups together; ``noise`` is the variance of its noise,
        ``squares`` the sum of its squares over units.
        """
        if squares is None or squares <= 0:
            counted = self.asked.plan.neighbours.counted and self.asked.plan.alike
            sampling = binomial(self.asked.total if counted else max(everybody, 1.0))
        else:
            units = float(self.asked.records.n) if self.asked.plan.neighbours.counted else math.inf
            sampling = Quadratic(max(squares - count**2 / units, 0.0))
        found = ratio(count, 1.0, sampling.plus(Quadratic(noise)), self.z)
        ceiling = math.inf if self.total is None else self.total
        return found.within(0.0, ceiling).scaled(self.asked._factor)

    def _of_number(self, j: int, column: Column, everybody: Array | None) -> list[Figure]:
        number = _number(column)
        middle = float(self.sheet.numbers.middle[j])
        half = float(self.sheet.numbers.half[j])
        means: list[Interval | None] = []
        figures = []
        for g, group in enumerate(self.groups):
            sums = self._moments(j, g)
            of_usable = sums.noise[0] ** 2
            total = self.total
            of_total = 0.0
            if everybody is not None:
                total = float(everybody[g])
                of_total = float(self.found[COUNTS].noise[-1]) ** 2
            assert total is not None
            ww = None if sums.squares is None else sums.squares[0]
            figures += self._records(
                column.name,
                group,
                (sums.usable, of_usable),
                (total - sums.usable, of_usable + of_total),
                total if everybody is None else float(everybody.sum()),
                ww,
            )
            enough = sums.usable > _CLEAR * sums.noise[0] and sums.usable > 0
            measured: list[Interval | None] = [None] * len(_MEASURES)
            if enough:
                mean = sums.mean(self.z).scaled(half, middle)
                deviation = sums.deviation(self.z).scaled(half)
                measured = [mean, deviation, *self._quartiles(j, g, sums)]
            means.append(measured[0])
            limits = [(number.low, number.high)] * len(_MEASURES)
            limits[1] = (0.0, (number.high - number.low) / 2)
            for figure, one, ends in zip(_MEASURES, measured, limits, strict=True):
                figures.append(self._figure(column.name, None, figure, one, group, ends))
        for g in range(1, len(self.groups)):
            correlation = self._mean_correlation(j, g, means, middle, half)
            width = number.high - number.low
            figures.append(
                self._difference(
                    column.name, None, g, means[g], means[0], correlation, (-width, width)
                )
            )
        return figures

    def _moments(self, j: int, g: int) -> Moments:
        groups = self.sheet.panel.groups
        weights = MomentWeights.of(self.sheet.panel, self.asked.plan.neighbours)
        scale = np.array([weights.u, weights.t, weights.square])
        found = self.found[MOMENTS]
        usable, total, square = (found.values.reshape(-1, groups, 3)[j, g] / scale).tolist()
        noise = (found.noise[j] / scale).tolist()
        squares = None
        if MOMENT_SQUARES in self.found:
            z = self._unit_squares(j)
            squares = (
                float(z[g, g]),
                float(z[g, groups + g]),
                float(z[groups + g, groups + g]),
            )
        k = 1 if self.asked.plan.alike else 1 + len(QUARTILES)
        spread = self.found[SPREADS].values.reshape(-1, groups, k, 2)[j, g, 0]
        return Moments(
            usable,
            total,
            square,
            (noise[0], noise[1], noise[2]),
            float(self.found["centre"][g, j]),
            squares,
            (float(spread[0]), float(spread[1])),
        )

    def _unit_squares(self, j: int) -> Array:
        size = 2 * self.sheet.panel.groups
        z: Array = self.found[MOMENT_SQUARES].values.reshape(-1, size, size)[j]
        return np.asarray((z + z.T) / 2)

    def _quartiles(self, j: int, g: int, sums: Moments) -> list[Interval]:
        """Each with its interval; infinite where noise hides it."""
        seen: Histogram = self.found["histograms"][g][j]
        noise = float(self.found[BINS].noise[j])
        found = []
        for k, p in enumerate(QUARTILES):
            sampling = max(sums.usable, 0.0) * p * (1 - p)
            if sums.squares is not None:
                spread = self.found[SPREADS].values.reshape(
                    -1, self.sheet.panel.groups, 1 + len(QUARTILES), 2
                )
                yy, yw = spread[j, g, 1 + k].tolist()
                sampling = max(yy - 2 * p * yw + p**2 * sums.squares[0], 0.0)
            variance = noise**2 * seen.noise(p) + sampling
            if seen.told(p, sums.usable, variance, self.z):
                found.append(seen.quantile(p, variance, self.z))
            else:
                found.append(Interval(math.nan, -math.inf, math.inf))
        return found

    def _mean_correlation(
        self, j: int, g: int, means: Sequence[Interval | None], middle: float, half: float
    ) -> float:
        """Of the means of a group and of the first: people may be in both."""
        mine = means[g]
        first = means[0]
        if MOMENT_SQUARES not in self.found or mine is None or first is None:
            return 0.0
        z = self._unit_squares(j)
        groups = self.sheet.panel.groups
        mine = mine.scaled(1 / half, -middle / half)
        first = first.scaled(1 / half, -middle / half)
        covariance = (
            z[groups + g, groups]
            - first.estimate * z[groups + g, 0]
            - mine.estimate * z[g, groups]
            + mine.estimate * first.estimate * z[g, 0]
        )
        size = self._moments(j, g).usable * self._moments(j, 0).usable
        return self._correlation(float(covariance), size, mine, first)

    def _difference(
        self,
        name: str,
        level: Level | None,
        g: int,
        mine: Interval | None,
        first: Interval | None,
        correlation: float,
        ends: tuple[float, float],
    ) -> Figure:
        difference = None
        if mine is not None and first is not None:
            difference = mine.less(first, correlation)
        return self._figure(name, level, description.DIFFERENCE, difference, self.groups[g], ends)

    def _figure(
        self,
        name: str,
        level: Level | None,
        figure: str,
        found: Interval | None,
        group: Level | None,
        ends: tuple[float, float] | None = None,
    ) -> Figure:
        """A figure within its public ``ends``; open where no more than these is known of it."""
        status = REPORTED
        if found is None:
            status = description.OPEN_RECORDS
        elif ends is not None:
            found = found.within(*ends)
            if (found.low, found.high) == ends:
                status = description.OPEN_NOISE
        if found is None or status != REPORTED:
            return Figure(name, level, figure, math.nan, math.nan, math.nan, status, group)
        return Figure(name, level, figure, found.estimate, found.low, found.high, status, group)


def describing(
    table: Any,
    schema: Schema | str | Path,
    budget: Budget | None,
    by: str | None = None,
    columns: Sequence[str] | None = None,
    neighbours: str | None = None,
    shares: Mapping[str, float] | None = None,
    level: float = 0.95,
) -> Describing:
    """What `describe` will do, checked by names and types alone."""
    require_promise(budget)
    schema = Schema.of(schema)
    unit = schema.unit
    if not isinstance(level, float) or not 0.5 <= level < 1:
        raise InputError("level must be a number between 0 and 1, at least 0.5")
    notion = Neighbours.of(neighbours or Neighbours.REPLACE, units=unit.many)
    if notion.units and not unit.many:
        raise InputError(f"neighbours={str(notion)!r} needs ids: give the schema a [unit] column")
    described = _described(schema, columns)
    grouping = _grouping(schema, by)
    weights = _weights(described, shares)
    sheets = [_sheet(described, weights, Panel(), notion.counted and unit.whole)]
    if grouping is not None:
        panel = Panel(grouped=True, groups=len(levels_of(grouping)))
        sheets.append(_sheet(described, weights, panel, known=False, without=grouping.name))
    plan = DescriptionPlan(budget, tuple(sheets), notion, not unit.columns)  # type: ignore[arg-type]  # it refuses others
    records = read_columns(table, described, grouping, unit, counted=notion.counted)
    if notion.counted and records.n < 1:
        raise InputError("the table has no rows: there is nothing to describe")
    return Describing(records, plan, grouping, unit, level, schema.digest())


def _described(schema: Schema, columns: Sequence[str] | None) -> list[Column]:
    """The columns by name, or all but ids and weights."""
    of_unit = {column.name for column in schema.unit.columns}
    if columns is None:
        found = [column for name, column in schema.columns.items() if name not in of_unit]
    else:
        if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
            raise InputError("columns= takes a list of names of columns of the schema")
        found = [schema[name] for name in dict.fromkeys(columns)]
    if not found:
        raise InputError("there is no column to describe: name one or more, or leave columns= out")
    return found


def _grouping(schema: Schema, by: str | None) -> Column | None:
    if by is None:
        return None
    column = schema[by]
    levels = levels_of(column)
    if not 2 <= len(levels) <= _MOST_GROUPS:
        raise InputError(
            f"by={by!r} needs a column with 2 to {_MOST_GROUPS} levels in the schema, or of true and false"
        )
    return column


def _weights(columns: Sequence[Column], shares: Mapping[str, float] | None) -> list[float]:
    """What each column is given, 1 by default."""
    names = [column.name for column in columns]
    for name, share in (shares or {}).items():
        if name not in names:
            raise InputError(
                f"shares= names {name!r}, which is not described: {did_you_mean(name, names)}"
            )
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1e6:
            raise InputError(f"the share of {name!r} must be a positive number: others have 1")
    return [float((shares or {}).get(name, 1.0)) for name in names]


def _sheet(
    columns: Sequence[Column],
    weights: Sequence[float],
    panel: Panel,
    known: bool,
    without: str = "",
) -> Sheet:
    chosen = [j for j, column in enumerate(columns) if column.name != without]
    return Sheet(
        panel,
        tuple(columns[j] for j in chosen),
        tuple(1 + j for j in chosen),
        tuple(weights[j] for j in chosen),
        known,
    )


def describe(  # noqa: PLR0913  (a public face)
    table: Any,
    schema: Schema | str | Path,
    budget: Budget | None = None,
    by: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    ledger: Book | None = None,
    neighbours: str | None = None,
    shares: Mapping[str, float] | None = None,
    level: float = 0.95,
    insecure_seed: int | None = None,
) -> Description:
    """Describe the columns of a table: Table 1, with intervals that count sampling and noise.

    ``table`` is a pandas, polars, pyarrow, Dask or Spark table or the path of a file, ``schema``
    what is public about it, ``budget`` what is spent on all figures together.  ``by`` names a column
    of levels whose groups are described, too, each with its difference from the first; ``columns``
    those that are described, by default all.  ``shares`` gives columns more or less of the budget
    than others, which have 1; ``level`` is that of the intervals.  The spend is booked in the
    ``ledger`` first.  ``neighbours`` is "replace" or "add-remove"; with an ``insecure_seed`` nothing
    is private.
    """
    if budget is None:
        raise BudgetError(
            "describe needs a budget: for example budget=dp.ApproxDP(epsilon=1.0, delta=1e-6)"
        )
    asked = describing(table, schema, budget, by, columns, neighbours, shares, level)
    return asked.run(ledger, insecure_seed)
