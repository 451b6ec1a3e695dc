"""Describing a table, as Table 1 of a paper does: columns are checked, releases booked, then carried out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpinfer.adjacency import Adjacency
from dpinfer.description.intervals import closer_cuts, first_cuts
from dpinfer.description.plan import (
    BINS,
    COUNTS,
    LEVEL_SQUARES,
    MOMENT_SQUARES,
    MOMENTS,
    ColumnSet,
    DescriptionPlan,
    ReleasePart,
)
from dpinfer.description.released_figures import Facts, NoisyValues, ReleasedFigures, figures_of
from dpinfer.errors import BudgetError, InputError, one_of_two
from dpinfer.fit.recipe import privacy
from dpinfer.mechanisms.column_sums import (
    Cuts,
    Grouping,
    JointQuery,
    Levels,
    MomentWeights,
    Query,
    distance_squares,
    histograms,
    level_counts,
    level_squares,
    moment_squares,
    moments,
)
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.noise_laws import Gaussian, Laplace, Law
from dpinfer.numerics.reasons import Numerical
from dpinfer.privacy.budget import Budget, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.result import description
from dpinfer.result.description import Description
from dpinfer.rows import workers
from dpinfer.rows.encoded import cached
from dpinfer.rows.source import UNIT_TOTAL, Pending, Source
from dpinfer.rows.summaries import MAX_HISTOGRAMS, ColumnSource, summarize
from dpinfer.schema.columns import Column, Level, did_you_mean, levels_of
from dpinfer.schema.described import Described, described
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import Unit
from dpinfer.tables.table import read_columns

# A refusal, not a threshold: Table 1 has a column per group, and every group the noise of all records.
MAX_GROUPS: Numerical[int] = 50


@dataclass(frozen=True, eq=False, repr=False)
class Describing:
    """A description that was checked by public facts: nothing is booked yet, and no value was read."""

    records: Pending
    plan: DescriptionPlan
    by: Column | None
    unit: Unit
    confidence: float
    schema: str = ""
    derived: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.plan.column_sets[0].columns

    @property
    def groups(self) -> tuple[Level, ...]:
        """The levels of the grouping column, if there is one."""
        return () if self.by is None else levels_of(self.by)

    @property
    def budget(self) -> Budget:
        return self.plan.budget

    @property
    def n(self) -> int | None:
        """The number of records or units where it is public."""
        return self.records.n if self.plan.adjacency.counted else None

    @property
    def entry(self) -> Entry:
        """The entry of the ledger that `run` books."""
        names = ", ".join(column.name for column in self.columns)
        grouped = f" by {self.by.name}" if self.by is not None else ""
        purpose = f"describe {names}{grouped}"
        plan = self.plan
        return Entry(
            purpose,
            self.unit.name,
            plan.releases(),
            plan.adjacency,
            self.schema,
            asked=plan.budget,
        )

    @property
    def z(self) -> float:
        """The normal quantile of the level."""
        return float(ndtri((1 + self.confidence) / 2))

    def expected(self) -> list[dict[str, Any]]:
        """Return the half length of intervals by the noise alone, for each column and its groups.

        It is that of counts, and of means where the number of records is public.
        """
        rows: list[dict[str, Any]] = []
        noise_sd = self._noise_sd(self.plan.releases()[0].law)
        parts = self.plan.parts()[0]
        total = sum(float(part.shares.sum()) for part in parts)
        for part in parts:
            if part.kind not in (COUNTS, MOMENTS):
                continue
            released = ReleasedFigures(self.plan.column_sets[part.column_set], self.facts)
            query = self._query(part, released, None)
            (scale,) = JointQuery([query], [part.shares / total], self.plan.pure).scales()
            rows += self._margins(part, released.column_set, noise_sd / scale)
        return rows

    def _margins(
        self, part: ReleasePart, column_set: ColumnSet, noise_sd: Array
    ) -> list[dict[str, Any]]:
        by = self.by.name if column_set.grouping.grouped and self.by is not None else ""
        columns: list[Column] = []
        margins: list[float] = []
        figure = description.COUNT
        if part.kind == COUNTS:
            columns = column_set.level_columns
            margins = (self.z * self._factor * noise_sd).tolist()
        elif self.n and not by:
            figure = description.MEAN
            columns = column_set.number_columns
            weight = MomentWeights.of(column_set.grouping, self.plan.adjacency).t
            margins = (self.z * noise_sd / weight * column_set.numbers.half / self.n).tolist()
        return [
            {"column": column.name, "by": by, "figure": figure, "noise": margin}
            for column, margin in zip(columns, margins, strict=False)  # the last may be all records
        ]

    @property
    def facts(self) -> Facts:
        """The public facts that figures are computed with."""
        units = self.n
        total = None
        if units is not None and self.unit.equal_weights:
            total = units * (UNIT_TOTAL if self.unit.columns else 1.0)
        return Facts(
            self.z,
            self.plan.adjacency,
            units,
            total,
            self.plan.equal_weights,
            self.unit.equal_weights,
            self._factor,
        )

    @property
    def _factor(self) -> float:
        """The weight that a count of 1 stands for, or the rows of a unit where rows are counted."""
        return self.unit.max_total / UNIT_TOTAL if self.unit.columns else 1.0

    def _noise_sd(self, law: Law) -> float:
        """Return the sd of normal noise whose interval at the level is at least that of the noise."""
        if isinstance(law, Laplace):
            # P(|noise| > x) = exp(-rate x) is 1 - confidence at x = -log(1 - confidence)/rate, which is z sds
            # of that normal law.  The sd of the noise itself, sqrt 2/rate, gives a count an interval that
            # covers 93.7 % instead of 95 %; below the level 90.7 % it is the larger of the two.
            return max(math.sqrt(2), -math.log(1 - self.confidence) / self.z) / law.rate
        assert isinstance(law, Gaussian)
        return law.scale

    def run(self, ledger: Book | None = None, insecure_seed: int | None = None) -> Description:
        """Book all releases, then read the table and carry them out.

        Guarantee [description_from_releases]: whether it raises and what it says are functions of
        the releases and of public facts.
        """
        workers.check()
        gate = Gate(self.entry, ledger, insecure_seed)
        with workers.worker_pool(), self.records.opened() as source:
            everything = self._released(gate, self._read(source))
        figures = []
        for released in everything:
            figures += figures_of(
                released, self.groups if released.column_set.grouping.grouped else (None,)
            )
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
            by_label=self.by.label if self.by is not None else "",
        )

    def _read(self, source: Source) -> Source:
        """Return the summaries of one pass, where every record has weight 1 and they fit in memory.

        Elsewhere return the records themselves, cached for several passes.
        """
        column_set = self.plan.column_sets[0]
        groups = len(self.groups)
        kept = len(column_set.number_columns) * (groups + 1)
        if (
            not self.plan.equal_weights
            or not isinstance(source, ColumnSource)
            or kept > MAX_HISTOGRAMS
        ):
            return cached(source)
        levels = column_set.counted
        if not column_set.counts_all and any(one.counts_all for one in self.plan.column_sets):
            levels = Levels(np.append(levels.positions, 0), np.append(levels.sizes, 0))
        return summarize(source, column_set.numbers, levels, groups)

    def _released(self, gate: Gate, source: Source) -> list[ReleasedFigures]:
        """Carry out all releases; those of later ones depend on the values of earlier ones."""
        figures = [ReleasedFigures(column_set, self.facts) for column_set in self.plan.column_sets]
        stages = zip(self.plan.releases(), self.plan.parts(), strict=True)
        for stage, (release, parts) in enumerate(stages):
            cuts = [self._cuts(part, figures[part.column_set], stage) for part in parts]
            queries = [
                self._query(part, figures[part.column_set], cut)
                for part, cut in zip(parts, cuts, strict=True)
            ]
            joint = self._joint_query(parts, queries)
            released = gate.release(release, source, joint.sum())
            noise_sd = self._noise_sd(released.noise)
            pieces = zip(parts, cuts, joint.split(released.value), joint.scales(), strict=True)
            for part, cut, values, scale in pieces:
                figures[part.column_set].add(part.kind, NoisyValues(values, noise_sd / scale), cut)
        return figures

    def _joint_query(self, parts: Sequence[ReleasePart], queries: Sequence[Query]) -> JointQuery:
        total = sum(float(part.shares.sum()) for part in parts)
        return JointQuery(queries, [part.shares / total for part in parts], self.plan.pure)

    def _cuts(self, part: ReleasePart, released: ReleasedFigures, stage: int) -> Cuts | None:
        """Return the bins of a histogram; other queries have none."""
        if part.kind != BINS:
            return None
        if stage == 0:
            return first_cuts(released.column_set.numbers, released.column_set.grouping.groups)
        return closer_cuts(released.brackets(), released.column_set.numbers)

    def _query(self, part: ReleasePart, released: ReleasedFigures, cuts: Cuts | None) -> Query:
        """Return the query of a part, which may depend on what was released before."""
        column_set = released.column_set
        grouping = column_set.grouping
        adjacency = self.plan.adjacency
        if part.kind == COUNTS:
            return level_counts(column_set.counted, grouping, adjacency)
        if part.kind == LEVEL_SQUARES:
            return level_squares(column_set.levels, grouping, adjacency)
        if part.kind == MOMENTS:
            return moments(column_set.numbers, grouping, adjacency)
        if part.kind == MOMENT_SQUARES:
            return moment_squares(column_set.numbers, grouping, adjacency)
        if cuts is not None:
            return histograms(column_set.numbers, cuts, grouping, adjacency)
        points = None if self.plan.equal_weights else released.points()
        return distance_squares(column_set.numbers, released.centre(), points, grouping, adjacency)


def describing(
    table: Any,
    schema: Schema | str | Path,
    budget: Budget | None,
    by: str | None = None,
    columns: Sequence[str] | None = None,
    adjacency: str | None = None,
    shares: Mapping[str, float] | None = None,
    level: float = 0.95,
) -> Describing:
    """Return what `describe` will do, checked by names and types alone."""
    require_promise(budget)
    schema = Schema.of(schema)
    unit = schema.unit.averaged
    if not isinstance(level, float) or not 0.5 <= level < 1:
        raise InputError("level must be a number between 0 and 1, at least 0.5")
    relation = Adjacency.of(adjacency or Adjacency.REPLACE, units=unit.many)
    if relation.units and not unit.many:
        raise InputError(f"adjacency={str(relation)!r} needs ids: give the schema a [unit] column")
    wanted = _wanted(schema, columns)
    shown = [one.column for one in wanted]
    group_column = group_by(schema, by)
    weights = _weights(shown, shares)
    column_sets = [_column_set(shown, weights, Grouping(), relation.counted and unit.equal_weights)]
    if group_column is not None:
        name = group_column.column.name
        if [column.name for column in shown] == [name]:
            raise InputError(f"by={by!r} is the only column: name others to describe by it")
        grouping = Grouping(grouped=True, groups=len(levels_of(group_column.column)))
        column_sets.append(_column_set(shown, weights, grouping, known=False, without=name))
    plan = DescriptionPlan(budget, tuple(column_sets), relation, not unit.columns)  # type: ignore[arg-type]  # it refuses others
    held, records = read_columns(
        table,
        [one.part for one in wanted],
        None if group_column is None else group_column.part,
        unit,
        counted=relation.counted,
    )
    if relation.counted and records.n < 1:
        raise InputError("the table has no rows: there is nothing to describe")
    plan = replace(plan, records=held.largest)
    plan.require_room()
    by_column = None if group_column is None else group_column.column
    derived = tuple(column.name for column in shown if column.name not in schema.columns)
    return Describing(records, plan, by_column, unit, level, schema.digest(), derived)


def _wanted(schema: Schema, columns: Sequence[str] | None) -> list[Described]:
    """Return the columns by name, derived ones and expressions too.

    By default these are all columns of the table but ids and weights.
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


def group_by(schema: Schema, by: str | None) -> Described | None:
    """Return the column whose levels are the groups, or an expression of columns; None for no groups."""
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
    if not 2 <= levels <= MAX_GROUPS:
        raise InputError(
            f"by={by!r} needs a column with 2 to {MAX_GROUPS} levels in the schema, or of true and false"
        )
    return found


def _weights(columns: Sequence[Column], shares: Mapping[str, float] | None) -> list[float]:
    """Return the share of each column, 1 by default."""
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


def _column_set(
    columns: Sequence[Column],
    weights: Sequence[float],
    grouping: Grouping,
    known: bool,
    without: str = "",
) -> ColumnSet:
    chosen = [j for j, column in enumerate(columns) if column.name != without]
    return ColumnSet(
        grouping,
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
    adjacency: str | None = None,
    neighbours: str | None = None,
    shares: Mapping[str, float] | None = None,
    level: float = 0.95,
    insecure_seed: int | None = None,
) -> Description:
    """Describe the columns of a table: Table 1, with intervals for sampling error and privacy noise.

    Parameters
    ----------
    table : a pandas, polars, pyarrow, Dask or Spark table, or the path of a file
        The records.
    schema : Schema, or the path of its file
        What is public about the columns.
    budget : PureDP, ZCDP, ApproxDP or NoPrivacy
        What all figures together may cost.
    by : str, optional
        A column of levels: its groups are described, too, each with its difference from the first.
        By default all records are one group.
    columns : sequence of str, optional
        The columns to describe; by default all.
    ledger : Ledger, optional
        Where the cost is booked before anything is computed; by default it is booked nowhere.
    adjacency : "replace" or "add-remove", optional
        What may differ between two data sets.
    neighbours : optional
        Another name of ``adjacency``.
    shares : dict of names and numbers, optional
        Relative shares of the budget by column; a column without one has 1.
    level : float
        The confidence level; 0.95 by default.
    insecure_seed : int, optional
        For tests and examples only: the noise comes from this seed, and the description says that
        it is not private.  By default the noise is secret.

    Returns
    -------
    Description
        Counts and shares of levels, means, standard deviations and quartiles of numbers, and
        missing values.

    Raises
    ------
    InputError, BudgetError
        If a name or an option is wrong; nothing was booked then.
    LedgerError
        If the ledger refuses the cost; nothing was computed then.

    Notes
    -----
    Counts and shares have the interval of Wilson (1927), means that of Fieller (1954), quartiles
    that of Woodruff (1952), and differences those of Newcombe (1998) and of Zou and Donner (2008).
    In all of them the variance of the noise is added to that of sampling.

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> table1 = dp.describe(
    ...     data.table, data.schema, dp.ZCDP(0.1), columns=["physlm"], insecure_seed=0
    ... )
    >>> frame = table1.to_frame().set_index("figure")
    >>> print(frame.loc[["mean", "sd"], ["estimate", "low", "high"]].round(2))
            estimate   low  high
    figure
    mean        0.12  0.12  0.13
    sd          0.32  0.32  0.33
    """
    if budget is None:
        raise BudgetError(
            "describe needs a budget: for example budget=dp.ApproxDP(epsilon=1.0, delta=1e-6)"
        )
    asked = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
    wanted = describing(table, schema, budget, by, columns, asked, shares, level)
    return wanted.run(ledger, insecure_seed)
