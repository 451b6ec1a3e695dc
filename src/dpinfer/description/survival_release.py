"""Survival curves of a table: columns are checked, the one release is booked, then carried out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.description.describing import group_by
from dpinfer.errors import BudgetError, InputError, one_of_two
from dpinfer.fit.recipe import privacy
from dpinfer.fit.step_plan import planned
from dpinfer.mechanisms.running_counts import (
    TimeIntervals,
    running_counts,
    running_counts_bound,
    running_root,
    unusable_weight,
)
from dpinfer.mechanisms.sums import in_floats
from dpinfer.numerics.reasons import Numerical
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, has_room
from dpinfer.result.survival_curves import SurvivalCurves
from dpinfer.rows import workers
from dpinfer.rows.source import Pending
from dpinfer.schema.columns import Level, Number, heading, levels_of
from dpinfer.schema.described import Described, described
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import Expression, Part, of_column
from dpinfer.schema.unit import Unit
from dpinfer.tables.table import read_columns

STEP = "running sums of exits"
MAX_INTERVALS: Numerical[int] = 200
"""A curve with more points than a page has is drawn no better."""
_DEFAULT_INTERVALS: Numerical[int] = 40
# Times are read as they are, not clipped to their bounds: one beyond the last edge is observed to the end.
_FARTHEST: Numerical[float] = 1e100


@dataclass(frozen=True, eq=False, repr=False)
class SurvivalRelease:
    """A release of survival curves that was checked by public facts: nothing is booked, no value was read."""

    records: Pending
    follow_up: TimeIntervals
    release: NoisySum
    budget: ZCDP | ApproxDP | NoPrivacy
    adjacency: Adjacency
    causes: tuple[str, ...]
    groups: tuple[Level, ...]
    names: dict[str, str]
    unit: Unit
    confidence: float
    schema: str

    @property
    def n(self) -> int | None:
        """Return the number of persons where it is public."""
        return self.records.n if self.adjacency.counted else None

    @property
    def entry(self) -> Entry:
        """Return the entry of the ledger that `run` books."""
        by = f" by {self.names['by']}" if self.groups else ""
        purpose = f"survival: {self.names['event']} by {self.names['time']}{by}"
        return Entry(
            purpose,
            self.unit.name,
            (self.release,),
            self.adjacency,
            self.schema,
            asked=self.budget,
        )

    @property
    def noise_sd(self) -> float:
        """Return the sd of the noise of a running sum; 0 where the noise is off."""
        return 0.0 if isinstance(self.budget, NoPrivacy) else self.release.noise_sd

    @property
    def count_sd(self) -> float:
        """Return the largest sd of the noise in a number of events up to some time."""
        root = running_root(self.follow_up.positions)
        return self.noise_sd * float(np.sqrt((root**2).sum(axis=1)).max())

    def run(self, ledger: Book | None = None, insecure_seed: int | None = None) -> SurvivalCurves:
        """Book the release, then read the table and carry it out.

        Guarantee [survival_from_release]: whether it raises and what it publishes are functions of the
        release and of public facts.
        """
        workers.check()
        gate = Gate(self.entry, ledger, insecure_seed)
        query = running_counts(self.follow_up, self.adjacency)
        with workers.worker_pool(), self.records.opened() as source:
            released = gate.release(self.release, source, query).value
        running = released[:-1].reshape(self.follow_up.shape)
        root = running_root(self.follow_up.positions)
        counts = np.asarray(np.linalg.solve(root, running[..., None])[..., 0], dtype=np.float64)
        if not self.noise_sd:
            counts = np.rint(counts)
        return SurvivalCurves(
            counts=counts,
            unusable=float(released[-1]) / unusable_weight(self.follow_up.positions),
            noise_sd=self.noise_sd,
            follow_up=self.follow_up,
            causes=self.causes,
            groups=self.groups,
            names=self.names,
            confidence=self.confidence,
            n=self.n,
            unit=self.unit,
            privacy=privacy(gate, self.budget),
        )


def survival_release(  # noqa: PLR0913  (the public face has the same)
    table: Any,
    schema: Schema | str | Path,
    *,
    time: str,
    event: str,
    entry: str | None = None,
    by: str | None = None,
    bins: int | Sequence[float] | None = None,
    start: float = 0.0,
    budget: Budget | None = None,
    adjacency: str | None = None,
    level: float = 0.95,
) -> SurvivalRelease:
    """Return what `survival_curves` will do, checked by names and types alone."""
    require_promise(budget)
    if not isinstance(budget, ZCDP | ApproxDP | NoPrivacy):
        raise BudgetError(
            "survival curves need Gaussian noise, which gives no pure privacy: give a delta beside epsilon, as "
            "dp.ApproxDP(epsilon, delta), or rho, as dp.ZCDP(rho)"
        )
    schema = Schema.of(schema)
    unit = schema.unit
    if not isinstance(level, float) or not 0.5 <= level < 1:
        raise InputError("level must be a number between 0 and 1, at least 0.5")
    if unit.weights:
        raise InputError(
            "survival curves let every person count alike, and the schema has [weights]: take a schema without them"
        )
    relation = Adjacency.of(adjacency or Adjacency.REPLACE, units=unit.many)
    if relation.units and not unit.many:
        raise InputError(f"adjacency={str(relation)!r} needs ids: give the schema a [unit] column")
    exits = _times(schema, "time", time)
    entries = None if entry is None else _times(schema, "entry", entry)
    ends = _event(schema, event)
    grouping = group_by(schema, by)
    parts = [_raw(exits), ends.part] if entries is None else [_raw(exits), ends.part, _raw(entries)]
    follow_up = _follow_up(exits.column, entries, bins, start)
    processes, causes = _causes(ends)
    groups = () if grouping is None else levels_of(grouping.column)
    follow_up = replace(
        follow_up,
        processes=processes,
        groups=max(len(groups), 1),
        grouped=grouping is not None,
        late=entries is not None,
    )
    held, records = read_columns(
        table, parts, None if grouping is None else grouping.part, unit, counted=relation.counted
    )
    if relation.counted and records.n < 1:
        raise InputError("the table has no rows: there is nothing to release")
    if not has_room(held.largest, follow_up.length):
        raise InputError(
            f"{follow_up.length:,} counts of up to {held.largest:,} records are too many for one release: take fewer "
            "groups or intervals"
        )
    bound = in_floats(running_counts_bound(follow_up, relation), held.largest)
    (release,) = planned(budget, ((STEP, bound, 1),), (1.0,)).all
    names = {
        "time": time,
        "event": event,
        "entry": entry or "",
        "by": by or "",
        "axis": heading(exits.column),
    }
    return SurvivalRelease(
        records,
        follow_up,
        release,
        budget,
        relation,
        causes,
        groups,
        names,
        unit,
        level,
        schema.digest(),
    )


def _times(schema: Schema, word: str, name: str) -> Described:
    if not isinstance(name, str):
        raise InputError(f"{word}= takes the name of a column, such as {word}='years'")
    found = described(schema, name)
    column = found.column
    number = isinstance(found.part, Expression) and not levels_of(column)
    if not number or not isinstance(column, Number) or column.kind not in ("number", "integer"):
        raise InputError(f"{word}={name!r} must be a number, such as years from entry to exit")
    return found


def _raw(found: Described) -> Part:
    """Return a column of times as it is read without its bounds; an expression keeps those of its columns."""
    part = found.part
    if isinstance(part, Expression) and part.column is not None:
        return of_column(replace(part.column, low=-_FARTHEST, high=_FARTHEST))
    return part


def _event(schema: Schema, name: str) -> Described:
    if not isinstance(name, str):
        raise InputError("event= takes the name of a column, such as event='died'")
    found = described(schema, name)
    if not levels_of(found.column):
        raise InputError(
            f"event={name!r} must have levels in the schema: type = 'boolean', or a category or an integer with "
            "levels, whose reference is censored; or write a comparison, as in event='status == 2'"
        )
    return found


def _causes(found: Described) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the process of each level of the event, and the names of the causes.

    The reference is censored; of false and true, and of an outcome, it is the first.
    """
    column = found.column
    levels = levels_of(column)
    reference = getattr(column, "reference", None)
    censored = levels[0] if reference is None else reference
    causes = [level for level in levels if level != censored]
    processes = tuple(len(causes) if level == censored else causes.index(level) for level in levels)
    if len(causes) == 1:
        return processes, (column.label or column.name,)
    return processes, tuple(map(str, causes))


def _follow_up(
    time: Any, entries: Described | None, bins: int | Sequence[float] | None, start: float
) -> TimeIntervals:
    """Return the intervals, from public facts alone."""
    integer_times = time.kind == "integer" and (
        entries is None or getattr(entries.column, "kind", "") == "integer"
    )
    if isinstance(start, bool) or not isinstance(start, Real) or not math.isfinite(start):
        raise InputError("start= takes a number, the time at which curves begin")
    start = float(start)
    if bins is None or isinstance(bins, int):
        edges = _equal(start, time.high, bins, integer_times=integer_times)
    else:
        edges = _listed(bins, start, time.high)
    if not 1 <= len(edges) <= MAX_INTERVALS:
        raise InputError(f"bins= makes {len(edges)} intervals: take 1 to {MAX_INTERVALS} of them")
    return TimeIntervals(start, edges, (1, 0), integer_times=integer_times)


def _equal(start: float, end: float, bins: int | None, *, integer_times: bool) -> tuple[float, ...]:
    """Return the ends of intervals of equal length; the ends of whole times are whole, too."""
    count = _DEFAULT_INTERVALS if bins is None else bins
    if isinstance(bins, bool) or count < 1 or start >= end:
        raise InputError(
            "bins= takes a number of intervals, or their ends from small to large, all after start= and not beyond "
            f"the upper bound of the time, {end:g}"
        )
    edges = np.linspace(start, end, count + 1)[1:]
    if integer_times:
        edges = np.unique(np.rint(edges))
    return tuple(float(edge) for edge in edges[edges > start])


def _listed(bins: Any, start: float, end: float) -> tuple[float, ...]:
    remedy = (
        "bins= takes the ends of intervals from small to large, or their number, as in "
        "bins=[1, 2, 5, 10] or bins=20"
    )
    if isinstance(bins, str | bytes):
        raise InputError(remedy)
    try:
        edges = [float(edge) for edge in bins]
    except (TypeError, ValueError):
        raise InputError(remedy) from None
    if edges and edges[0] == start:
        edges = edges[1:]
    if not edges or not all(map(math.isfinite, edges)) or edges[0] <= start:
        raise InputError(f"{remedy}; all of them after start={start:g}")
    if any(later <= earlier for earlier, later in pairwise(edges)):
        raise InputError(remedy)
    if edges[-1] > end:
        raise InputError(
            f"the last end of an interval, {edges[-1]:g}, is beyond the upper bound of the time in the schema, "
            f"{end:g}"
        )
    return tuple(edges)


def survival_curves(  # noqa: PLR0913  (a public face)
    table: Any,
    schema: Schema | str | Path,
    *,
    time: str,
    event: str,
    entry: str | None = None,
    by: str | None = None,
    bins: int | Sequence[float] | None = None,
    start: float = 0.0,
    budget: Budget | None = None,
    ledger: Book | None = None,
    adjacency: str | None = None,
    neighbours: str | None = None,
    level: float = 0.95,
    insecure_seed: int | None = None,
) -> SurvivalCurves:
    """Release survival curves: Kaplan-Meier with intervals and bands, medians, means, log-rank tests.

    Parameters
    ----------
    table : a pandas, polars, pyarrow, Dask or Spark table, or the path of a file
        The records: one per person or, with ids in the schema, one or more.
    schema : Schema, or the path of its file
        What is public about the columns.
    time : str
        The time from the origin to exit: to the event, or to the end of observation.
    event : str
        Whether there was an event at exit: a column of true and false, or a column with levels, whose
        reference is censored and whose other levels are causes; or a comparison such as ``"status == 2"``.
    entry : str, optional
        The time from the origin to entry, where persons are observed from a later time on.
    by : str, optional
        A column of levels: each group has its curves, and a log-rank test compares them.
    bins : int or sequence of float, optional
        The ends of the intervals of time, or how many of equal length there are up to the upper bound of the
        time; by default 40.
    start : float
        The time at which curves begin; 0 by default.  With a later one they are of who is still at risk.
    budget : ZCDP, ApproxDP or NoPrivacy
        What the release may cost.
    ledger : Ledger, optional
        Where the cost is booked before anything is computed; by default it is booked nowhere.
    adjacency : "replace" or "add-remove", optional
        What may differ between two data sets.
    neighbours : optional
        Another name of ``adjacency``.
    level : float
        The confidence level of intervals and bands; 0.95 by default.
    insecure_seed : int, optional
        For tests and examples only: the noise comes from this seed, and the curves say that they are not
        private.  By default the noise is secret.

    Returns
    -------
    SurvivalCurves
        Survival, cumulative incidence by cause, medians, restricted means, numbers at risk, and tests.

    Raises
    ------
    InputError, BudgetError
        If a name or an option is wrong; nothing was booked then.
    LedgerError
        If the ledger refuses the cost; nothing was computed then.

    Notes
    -----
    A record without a usable time, event or group, with a time before the origin, or with an exit that is not
    after its entry is left out; how many there are is released, too.  Persons observed beyond the last
    interval count as censored at its end.  The estimator in intervals is d/(Y - c/2) for d events and c
    censored of Y at risk; where the time is an integer and an interval has one time, it is that of Kaplan and
    Meier (1958).

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import dpinfer as dp
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> years = rng.exponential(8.0, 5000)
    >>> table = {"years": np.minimum(years, 10.0), "died": years < 10.0}
    >>> schema = dp.Schema.parse('''
    ... unit = "one patient"
    ... columns.years = {type = "number", low = 0, high = 10}
    ... columns.died = {type = "boolean"}
    ... ''')
    >>> curves = dp.survival_curves(
    ...     table, schema, time="years", event="died", budget=dp.ZCDP(0.1), insecure_seed=0
    ... )
    >>> print(curves.median().round(1).to_string(index=False))
     time  low  high
      5.5  5.3   5.7
    """
    if budget is None:
        raise BudgetError(
            "survival_curves needs a budget: for example budget=dp.ApproxDP(epsilon=1.0, delta=1e-6)"
        )
    asked = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
    wanted = survival_release(
        table,
        schema,
        time=time,
        event=event,
        entry=entry,
        by=by,
        bins=bins,
        start=start,
        budget=budget,
        adjacency=asked,
        level=level,
    )
    return wanted.run(ledger, insecure_seed)
