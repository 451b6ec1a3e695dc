"""Describing a table: what is asked of which columns, booked, then released; Table 1 of a paper."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpinfer.description.intervals import closer_cuts, first_cuts
from dpinfer.description.plan import (
    BINS,
    COUNTS,
    LEVEL_SQUARES,
    MOMENT_SQUARES,
    MOMENTS,
    DescriptionPlan,
    Sheet,
    Slot,
)
from dpinfer.description.released_figures import Facts, Found, Seen, figures_of
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.recipe import privacy
from dpinfer.mechanisms.column_sums import (
    Cuts,
    Levels,
    MomentWeights,
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
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.noise_laws import Gaussian, Laplace, Law
from dpinfer.privacy.budget import Budget, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.result import description
from dpinfer.result.description import Description
from dpinfer.rows import workers
from dpinfer.rows.digested import MOST_HISTOGRAMS, InLanes, digested
from dpinfer.rows.encoded import cached
from dpinfer.rows.source import WHOLE_UNIT, Pending, Source
from dpinfer.schema.columns import Column, Level, did_you_mean, levels_of
from dpinfer.schema.described import Described, described
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import Unit
from dpinfer.tables.table import read_columns

_MOST_GROUPS = 50


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
    derived: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that are described."""
        return self.plan.sheets[0].columns

    @property
    def groups(self) -> tuple[Level, ...]:
        """The levels of the grouping column; none where there is none."""
        return () if self.by is None else levels_of(self.by)

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
        deviation = self._deviation(self.plan.releases()[0].law)
        slots = self.plan.slots()[0]
        whole = sum(float(slot.shares.sum()) for slot in slots)
        for slot in slots:
            if slot.kind not in (COUNTS, MOMENTS):
                continue
            seen = Seen(self.plan.sheets[slot.sheet], self.facts)
            part = self._part(slot, seen, None)
            (scale,) = Stack([part], [slot.shares / whole], self.plan.pure).scales()
            rows += self._margins(slot, seen.sheet, deviation / scale)
        return rows

    def _margins(self, slot: Slot, sheet: Sheet, noise: Array) -> list[dict[str, Any]]:
        """What the noise of a slot adds, column by column."""
        by = self.by.name if sheet.panel.grouped and self.by is not None else ""
        columns: list[Column] = []
        margins: list[float] = []
        figure = description.COUNT
        if slot.kind == COUNTS:
            columns = sheet.level_columns
            margins = (self.z * self._factor * noise).tolist()
        elif self.n and not by:
            figure = description.MEAN
            columns = sheet.number_columns
            weight = MomentWeights.of(sheet.panel, self.plan.neighbours).t
            margins = (self.z * noise / weight * sheet.numbers.half / self.n).tolist()
        return [
            {"column": column.name, "by": by, "figure": figure, "noise": margin}
            for column, margin in zip(columns, margins, strict=False)  # the last may be all records
        ]

    @property
    def facts(self) -> Facts:
        """What is public, for those who read the releases."""
        units = self.n
        whole = None
        if units is not None and self.unit.equal_weights:
            whole = units * (WHOLE_UNIT if self.unit.columns else 1.0)
        return Facts(
            self.z,
            self.plan.neighbours,
            units,
            whole,
            self.plan.alike,
            self.unit.equal_weights,
            self._factor,
        )

    @property
    def _factor(self) -> float:
        """What a count of 1 stands for: a weight, or rows of a unit, where these are counted."""
        return self.unit.max_total / WHOLE_UNIT if self.unit.columns else 1.0

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
            sheets = self._released(gate, self._read(source))
        figures = []
        for seen in sheets:
            figures += figures_of(seen, self.groups if seen.sheet.panel.grouped else (None,))
        order = {column.name: j for j, column in enumerate(self.columns)}
        figures.sort(key=lambda figure: order[figure.column])
        return Description(
            figures=tuple(figures),
            columns=self.columns,
            by=self.by.name if self.by is not None else "",
            groups=self.groups,
            confidence=self.confidence,
            n=self.n,
            unit=self.unit,
            privacy=privacy(gate, self.budget),
            derived=self.derived,
        )

    def _read(self, source: Source) -> Source:
        """What the releases are made of: all that one pass keeps, where every record counts 1 and
        it is not too much; else the records, kept for several passes.
        """
        sheet = self.plan.sheets[0]
        groups = len(self.groups)
        kept = len(sheet.number_columns) * (groups + 1)
        if not self.plan.alike or not isinstance(source, InLanes) or kept > MOST_HISTOGRAMS:
            return cached(source)
        levels = sheet.counted
        if not sheet.counts_all and any(one.counts_all for one in self.plan.sheets):
            levels = Levels(np.append(levels.places, 0), np.append(levels.sizes, 0))
        return digested(source, sheet.numbers, levels, groups)

    def _released(self, gate: Gate, source: Source) -> list[Seen]:
        """What was released, sheet by sheet."""
        sheets = [Seen(sheet, self.facts) for sheet in self.plan.sheets]
        stages = zip(self.plan.releases(), self.plan.slots(), strict=True)
        for stage, (booked, slots) in enumerate(stages):
            cuts = [self._cuts(slot, sheets[slot.sheet], stage) for slot in slots]
            parts = [
                self._part(slot, sheets[slot.sheet], cut)
                for slot, cut in zip(slots, cuts, strict=True)
            ]
            stack = self._stack(slots, parts)
            released = gate.release(booked, source, stack.sum())
            deviation = self._deviation(released.noise)
            pieces = zip(slots, cuts, stack.apart(released.value), stack.scales(), strict=True)
            for slot, cut, values, scale in pieces:
                sheets[slot.sheet].see(slot.kind, Found(values, deviation / scale), cut)
        return sheets

    def _stack(self, slots: Sequence[Slot], parts: Sequence[Part]) -> Stack:
        total = sum(float(slot.shares.sum()) for slot in slots)
        return Stack(parts, [slot.shares / total for slot in slots], self.plan.pure)

    def _cuts(self, slot: Slot, seen: Seen, stage: int) -> Cuts | None:
        """The bins of a histogram; other parts have none."""
        if slot.kind != BINS:
            return None
        if stage == 0:
            return first_cuts(seen.sheet.numbers, seen.sheet.panel.groups)
        return closer_cuts(seen.brackets(), seen.sheet.numbers)

    def _part(self, slot: Slot, seen: Seen, cuts: Cuts | None) -> Part:
        """The sum of a slot, by what was released before."""
        sheet = seen.sheet
        panel = sheet.panel
        notion = self.plan.neighbours
        if slot.kind == COUNTS:
            return level_counts(sheet.counted, panel, notion)
        if slot.kind == LEVEL_SQUARES:
            return level_squares(sheet.levels, panel, notion)
        if slot.kind == MOMENTS:
            return moments(sheet.numbers, panel, notion)
        if slot.kind == MOMENT_SQUARES:
            return moment_squares(sheet.numbers, panel, notion)
        if cuts is not None:
            return histograms(sheet.numbers, cuts, panel, notion)
        points = None if self.plan.alike else seen.points()
        return spreads(sheet.numbers, seen.centre(), points, panel, notion)


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
    asked = _asked(schema, columns)
    shown = [one.column for one in asked]
    grouping = _grouping(schema, by)
    weights = _weights(shown, shares)
    sheets = [_sheet(shown, weights, Panel(), notion.counted and unit.equal_weights)]
    if grouping is not None:
        name = grouping.column.name
        if [column.name for column in shown] == [name]:
            raise InputError(f"by={by!r} is the only column: name others to describe by it")
        panel = Panel(grouped=True, groups=len(levels_of(grouping.column)))
        sheets.append(_sheet(shown, weights, panel, known=False, without=name))
    plan = DescriptionPlan(budget, tuple(sheets), notion, not unit.columns)  # type: ignore[arg-type]  # it refuses others
    held, records = read_columns(
        table,
        [one.part for one in asked],
        None if grouping is None else grouping.part,
        unit,
        counted=notion.counted,
    )
    if notion.counted and records.n < 1:
        raise InputError("the table has no rows: there is nothing to describe")
    plan = replace(plan, records=held.largest)
    plan.require_room()
    by_column = None if grouping is None else grouping.column
    derived = tuple(column.name for column in shown if column.name not in schema.columns)
    return Describing(records, plan, by_column, unit, level, schema.digest(), derived)


def _asked(schema: Schema, columns: Sequence[str] | None) -> list[Described]:
    """The columns by name, derived ones and expressions too; by default all of the table but ids and
    weights.
    """
    if columns is None:
        of_unit = {column.name for column in schema.unit.columns}
        columns = [name for name in schema.columns if name not in of_unit]
    named = isinstance(columns, Sequence) and not isinstance(columns, str)
    if not named or not all(isinstance(name, str) for name in columns):
        raise InputError("columns= takes a list of names of columns of the schema")
    found = [described(schema, name) for name in dict.fromkeys(columns)]
    if not found:
        raise InputError("there is no column to describe: name one or more, or leave columns= out")
    return found


def _grouping(schema: Schema, by: str | None) -> Described | None:
    if by is None:
        return None
    if not isinstance(by, str):
        raise InputError("by= takes the name of a column, or an expression such as 'age >= 65'")
    found = described(schema, by)
    levels = len(levels_of(found.column))
    if not levels:
        raise InputError(
            f"by={by!r} is a number: groups are those of levels or of true and false, as in "
            f"by='cut({by}, ...)' with breaks from small to large, or by='{by} >= ...'"
        )
    if not 2 <= levels <= _MOST_GROUPS:
        raise InputError(
            f"by={by!r} needs a column with 2 to {_MOST_GROUPS} levels in the schema, or of true and false"
        )
    return found


def _weights(columns: Sequence[Column], shares: Mapping[str, float] | None) -> list[float]:
    """What each column is given, 1 by default."""
    names = [column.name for column in columns]
    if shares is not None and not isinstance(shares, Mapping):
        raise InputError("shares= takes a dict of columns and numbers, such as {'age': 2}")
    for name, share in (shares or {}).items():
        if name not in names:
            raise InputError(
                f"shares= names {name!r}, no column of this description: {did_you_mean(name, names)}"
            )
        if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share < 1e6:
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
