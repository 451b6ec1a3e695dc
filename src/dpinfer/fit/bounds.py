"""Learning bounds: histograms that zoom in on a column, counts of levels; then post-processing only.

1. magnitudes   a histogram of powers of two, either sign      -> where the values of a column are, roughly
2. range        two histograms inside of that, zooming in      -> low and high, rounded to friendly numbers
3. levels       counts of the levels that occur, with a threshold that δ pays for

`BoundsPlan` says how a budget is shared among these releases, `Learning` carries them out, and
`LearnedBounds` is what is published, with the schema it is written into.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpinfer import persistence
from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError, one_of_two
from dpinfer.inference.constants import LEVELS_DELTA_SHARE, MAGNITUDES_SHARE, MAX_RANGE_CLIPPED
from dpinfer.inference.ranges import Range, clear_of, friendly, magnitude, zoomed
from dpinfer.mechanisms.histograms import histogram, histogram_bound, histogram_l1_bound
from dpinfer.mechanisms.sums import DEFAULT_MAX_RECORDS, in_floats
from dpinfer.numerics.bins import COLUMN_ZOOMS, MAGNITUDES
from dpinfer.numerics.reasons import Numerical
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP, Share, require_promise
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisyCounts, NoisySum, ShownLevels, has_room
from dpinfer.rows.source import Source
from dpinfer.schema.columns import Outcome, tidy
from dpinfer.schema.schema import Draft, Gap, Schema, known_levels, named
from dpinfer.tables.memory import column_rows, column_tally
from dpinfer.tables.table import check, table_of


@dataclass(frozen=True)
class LearnedColumn:
    """One learned column: the ``keys`` of its schema entry, empty if no count was clear of the noise, and a
    description.

    ``clipped`` is the largest share of units that the range may clip, ``counts`` are the noisy
    counts of the levels, ``threshold`` what a level's noisy count had to exceed, or a magnitude's.
    """

    name: str
    keys: Mapping[str, Any]
    words: str
    threshold: float
    clipped: float | None = None
    counts: Mapping[str, float] | None = None


@dataclass(frozen=True)
class LearnedBounds:
    """The ranges and levels that `learn_bounds` released, and the schema that holds them.

    Attributes
    ----------
    columns : tuple
        What was learned, column by column.
    text : str
        The text of the schema, with the gaps that are left.
    budget : PureDP, ZCDP or ApproxDP
        What it cost.
    entry : Entry
        What was booked.
    release : str or None
        The id in the ledger, None where nothing was booked.
    private : bool
        Whether the noise was secret.
    """

    columns: tuple[LearnedColumn, ...]
    text: str
    budget: Budget
    entry: Entry
    release: str | None
    private: bool = True

    @property
    def schema(self) -> Schema:
        """Return the schema; an `InputError` names the line of the first gap, if one is left."""
        return Schema.parse(self.text)

    @property
    def gaps(self) -> int:
        """Return the number of gaps that are still to be filled in."""
        return self.text.count('= "?"')

    def write(self, path: str | Path) -> None:
        """Write the text to a file at ``path``, gaps included, complete or not at all."""
        try:
            persistence.write(Path(path), self.text.encode())
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(fault).__name__}): check the "
                "folder and its rights"
            ) from None

    def summary(self) -> str:
        """Return what was learned, column by column, and its cost, as text."""
        booked = f"booked as release {self.release}" if self.release else "nothing was booked"
        protected = f"protects {self.entry.unit} ({self.entry.neighbours.sentence})"
        lines = [f"{found.name}: {found.words}" for found in self.columns]
        lines.append(f"{self.budget}; {protected}; {booked}")
        if not self.private:
            lines.append("NOT PRIVATE: the noise came from a seed")
        return "\n".join(lines)


Histogram = NoisyCounts | NoisySum

_ROUNDED: Numerical[float] = 1e-9  # of ρ: the deltas of levels are rounded
_NO_DELTA = "levels take a delta: state them, or learn them with (epsilon, delta)"

UNBOOKED = "not booked"
"""In the place of a release id where there is no ledger."""


@dataclass(frozen=True)
class BoundsPlan:
    """A budget, and the columns whose ``ranges`` and ``levels`` it is shared among, alike;
    ``records`` is how many rows there are at most.
    """

    budget: PureDP | ZCDP | ApproxDP
    ranges: tuple[str, ...]
    levels: tuple[str, ...]
    neighbours: Adjacency = Adjacency.REPLACE
    records: int = DEFAULT_MAX_RECORDS

    def __post_init__(self) -> None:
        if not isinstance(self.budget, PureDP | ZCDP | ApproxDP):
            raise BudgetError(
                "bounds are learnt with budget=dp.PureDP(epsilon), dp.ZCDP(rho) or dp.ApproxDP(...)"
            )
        if self.levels and not isinstance(self.budget, ApproxDP):
            raise BudgetError(
                f"the levels of {self.levels[0]!r} take a delta: give (epsilon, delta), or state them in the schema"
            )

    def require_room(self) -> None:
        """Refuse more records than whole numbers have room for."""
        pure = isinstance(self.budget, PureDP)
        if self.ranges and not has_room(self.records, len(MAGNITUDES) + 1, counts=pure):
            raise InputError(
                f"counts of up to {self.records:,} records do not fit whole numbers of 64 bits on the grid of "
                "the noise: spend a budget with rho or delta, or take a part of the records"
            )

    def releases(self) -> "BoundsReleases":
        """The releases, in order.

        Guarantee [bounds_composition]: all of them together keep the budget; an (ε, δ) budget is
        spent to the last digit, half of its δ by levels, in equal parts, where there are any.
        """
        return _planned(self)

    def scaled(self, share: PureDP | ZCDP, delta: float) -> "BoundsReleases":
        """The releases for a share of all together, and a δ for the levels of each column."""
        names = self.ranges + self.levels
        shares: Sequence[PureDP | ZCDP] = share.split(*[1.0] * len(names))
        bound = histogram_bound(self.neighbours)
        ranges = {}
        levels = {}
        for name, part in zip(names, shares, strict=True):
            if name in self.ranges:
                ranges[name] = self._histograms(name, part)
            elif isinstance(part, ZCDP):
                levels[name] = ShownLevels(f"levels of {name}", part, delta, bound)
        return BoundsReleases(ranges, levels)

    def _histograms(self, name: str, share: PureDP | ZCDP) -> tuple[Histogram, ...]:
        weights = [MAGNITUDES_SHARE, *[(1 - MAGNITUDES_SHARE) / COLUMN_ZOOMS] * COLUMN_ZOOMS]
        parts: Sequence[PureDP | ZCDP] = share.split(*weights)
        first, *zooms = parts
        return (
            self._histogram(f"magnitudes of {name}", first),
            *(
                self._histogram(f"range of {name}, {k + 1} of {COLUMN_ZOOMS}", zoom)
                for k, zoom in enumerate(zooms)
            ),
        )

    def _histogram(self, step: str, share: Share) -> Histogram:
        if isinstance(share, PureDP):
            return NoisyCounts(
                step, share, in_floats(histogram_l1_bound(self.neighbours), self.records)
            )
        return NoisySum(step, share, in_floats(histogram_bound(self.neighbours), self.records))


@dataclass(frozen=True)
class BoundsReleases:
    """For each range a release of magnitudes and one per zoom; one for the levels of each text
    column.
    """

    ranges: dict[str, tuple[Histogram, ...]]
    levels: dict[str, ShownLevels]

    @property
    def all(self) -> tuple[Histogram | ShownLevels, ...]:
        """Return all releases in order."""
        return (
            *(one for several in self.ranges.values() for one in several),
            *self.levels.values(),
        )


@lru_cache(maxsize=256)
def _planned(plan: BoundsPlan) -> BoundsReleases:
    budget = plan.budget
    if not isinstance(budget, ApproxDP):
        return plan.scaled(budget, 0.0)
    taken = LEVELS_DELTA_SHARE * budget.delta if plan.levels else 0.0
    each = taken / max(1, len(plan.levels))
    rho = ApproxDP(budget.epsilon, budget.delta - taken).zcdp().rho * (1 - _ROUNDED)
    factor = largest_factor(budget, lambda f: plan.scaled(ZCDP(f * rho), each).all)
    return plan.scaled(ZCDP(factor * rho), each)


@dataclass(frozen=True, eq=False)
class Learning:
    """A plan to learn bounds of a table, from public facts: nothing is booked, and no value read.

    ``n`` is the number of rows where it is public; ``skipped`` are text columns for which there is
    no δ.
    """

    table: Any
    draft: Draft
    plan: BoundsPlan
    neighbours: Adjacency
    n: int | None
    skipped: tuple[str, ...]

    @property
    def entry(self) -> Entry:
        """Return the entry that will be booked."""
        names = ", ".join((*self.plan.ranges, *self.plan.levels))
        unit = self.draft.unit.name
        return Entry(
            f"learn_bounds of {names}",
            unit,
            self.plan.releases().all,
            self.neighbours,
            asked=self.plan.budget,
        )

    def threshold(self, release: Histogram | ShownLevels) -> float:
        """Return about how many units a magnitude or a level needs to be shown, from public facts."""
        if isinstance(release, ShownLevels):
            return release.threshold
        return float(clear_of(release.law).min())

    def require_enough(self) -> None:
        """Refuse a budget with which nothing can show, by the noise and the public number of rows."""
        threshold = self.threshold(self.plan.releases().all[0])
        n = self.plan.records if self.n is None else self.n
        if not threshold < n:  # nor where it is no number
            raise BudgetError(
                f"the budget is too small to show anything: only what {threshold:.3g} units have in common "
                f"is clear of the noise, and there are at most {n:,}: spend more, or name fewer columns"
            )

    def run(self, ledger: Book | None = None, insecure_seed: int | None = None) -> LearnedBounds:
        """Book, then read, then release.

        Guarantee [bounds_from_releases]: whether it raises and what is written are functions of the
        releases and of public facts: with the same releases, other records give the same schema.
        """
        releases = self.plan.releases()
        gaps = self.draft.gaps
        unit = self.draft.unit
        gate = Gate(self.entry, ledger, insecure_seed)
        wanted = [*(gap.column for gap in gaps.values()), *unit.columns]
        table = table_of(self.table).opened(wanted)
        learnt = []
        for name, steps in releases.ranges.items():
            rows = column_rows(table, name, unit, integers=gaps[name].is_integer)
            seen = self._range(gate, steps, rows)
            learnt.append(_of_range(gaps[name], self._entry(name), seen, self.threshold(steps[0])))
        for name, release in releases.levels.items():
            tally = column_tally(table, name, unit, self.neighbours)
            counts = gate.levels(release, tally)
            learnt.append(
                _of_levels(gaps[name], self._entry(name), counts, self.threshold(release))
            )
        return self._result(gate, tuple(learnt))

    def _range(self, gate: Gate, steps: Sequence[Histogram], source: Source) -> Range | None:
        """Histograms, each inside what the last has left; none after one of which nothing is clear."""
        first, *zooms = steps
        counts = gate.release(first, source, histogram(MAGNITUDES, self.neighbours))
        seen = magnitude(counts.value, counts.noise)
        for release in zooms:
            if seen is None:
                break
            counts = gate.release(release, source, histogram(seen.edges, self.neighbours))
            seen = zoomed(counts.value, seen, counts.noise)
        return seen

    def _entry(self, name: str) -> Mapping[str, Any]:
        entry: Mapping[str, Any] = self.draft.document["columns"][name]
        return entry

    def _result(self, gate: Gate, learnt: tuple[LearnedColumn, ...]) -> LearnedBounds:
        private = gate.seed is None
        unbooked = UNBOOKED if private else "not private"
        filled = {one.name: one.keys for one in learnt if one.keys}
        remarks = {one.name: one.words for one in learnt}
        remarks |= dict.fromkeys(self.skipped, _NO_DELTA)
        head = f"# Columns with a key learned: bounds and levels by a private release, {self.plan.budget}.\n\n"
        text = head + self.draft.filled(filled, gate.release_id or unbooked, remarks)
        return LearnedBounds(learnt, text, self.plan.budget, gate.entry, gate.release_id, private)


def learning(
    table: Any,
    schema: Schema | str | Path | None,
    budget: Budget | None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    neighbours: str | None = None,
    unit: str = "one record",
) -> Learning:
    """Plan what `learn_bounds` will do, checked by names and types alone."""
    require_promise(budget)
    source = table_of(table)
    types = dict(source.types())
    asked = named(columns)
    draft = Draft.of(schema, types, unit)
    if columns is not None:
        draft = draft.asked(asked, types, alone=schema is None)
    of_unit = {column.name for column in draft.unit.columns}
    gaps = {name: gap for name, gap in draft.gaps.items() if name not in of_unit}
    skipped: tuple[str, ...] = ()
    if not asked and not isinstance(budget, ApproxDP):
        skipped = tuple(name for name, gap in gaps.items() if gap.levels)
    gaps = {name: gap for name, gap in gaps.items() if name not in skipped}
    if not gaps:
        raise InputError(_nothing(skipped))
    ranges = tuple(name for name, gap in gaps.items() if not gap.levels)
    levels = tuple(name for name, gap in gaps.items() if gap.levels)
    adjacency = Adjacency.of(neighbours or Adjacency.REPLACE, units=draft.unit.many)
    if adjacency.units and not draft.unit.many:
        raise InputError(f"adjacency={str(adjacency)!r} needs ids: give the schema a [unit] column")
    wanted = [*(gap.column for gap in gaps.values()), *draft.unit.columns]
    plan = BoundsPlan(budget, ranges, levels, adjacency)  # type: ignore[arg-type]  # it refuses other budgets
    check(source, wanted)
    source.require_local()
    held = draft.unit
    n = None
    if adjacency.counted and not draft.unit.many:  # else the number of rows is not public
        n = source.count(wanted)
        held = held.for_records(n)
    if n == 0:
        raise InputError("the table has no rows: there is nothing to learn from")
    plan = replace(plan, records=held.largest)
    plan.require_room()
    what = Learning(table, Draft(draft.document, held, gaps), plan, adjacency, n, skipped)
    what.require_enough()
    return what


def _nothing(skipped: tuple[str, ...]) -> str:
    if skipped:
        return f"there are levels to learn only, of {', '.join(skipped)}, and {_NO_DELTA}"
    return (
        "no column has a type and a gap: name columns with their types, such as age:integer (a CSV file has none), "
        'or write low = "?" in the schema'
    )


def _of_range(
    gap: Gap, entry: Mapping[str, Any], seen: Range | None, threshold: float
) -> LearnedColumn:
    name = gap.column.name
    if seen is None:
        words = f"no range is clear of the noise (a magnitude shows from about {threshold:.3g} units on): state it"
        return LearnedColumn(name, {}, words, threshold)
    low, high = _agreeing(friendly(seen, is_integer=gap.is_integer), gap, entry)
    words = f"{low:g} to {high:g}, and at most about {100 * seen.clipped:.2g} % lie beyond"
    if seen.clipped > MAX_RANGE_CLIPPED or low >= high:
        return LearnedColumn(
            name, {}, f"{words}: spend more on it, or state it", threshold, seen.clipped
        )
    number = int if gap.is_integer else float
    ends = {"low": number(low), "high": number(high)}
    return LearnedColumn(name, {key: ends[key] for key in gap.keys}, words, threshold, seen.clipped)


def _agreeing(ends: tuple[float, float], gap: Gap, entry: Mapping[str, Any]) -> tuple[float, float]:
    """A range with what its entry states already: an end, a substitute for missing values."""
    low, high = ends
    substitute = entry.get("missing")
    if isinstance(substitute, int | float):
        low = min(low, substitute)
        high = max(high, substitute)
    if "low" not in gap.keys:
        low = entry["low"]
    if "high" not in gap.keys:
        high = entry["high"]
    return low, high


def _of_levels(
    gap: Gap, entry: Mapping[str, Any], counts: Mapping[str, float], threshold: float
) -> LearnedColumn:
    levels = [*counts, *(level for level in map(tidy, known_levels(entry)) if level not in counts)]
    rare = f"what fewer than about {threshold:.3g} units have does not show"
    if isinstance(gap.column, Outcome) and len(levels) != 2:
        words = f"{len(levels)} levels are clear of the noise, and an outcome has two: state them ({rare})"
        return LearnedColumn(gap.column.name, {}, words, threshold, counts=counts)
    if len(levels) < 2:
        words = f"fewer than two levels are clear of the noise: state them ({rare})"
        return LearnedColumn(gap.column.name, {}, words, threshold, counts=counts)
    if isinstance(gap.column, Outcome):
        levels.sort()  # the second one is the positive one: not by how many have it
    return LearnedColumn(
        gap.column.name,
        {"levels": levels},
        f"{len(levels)} levels; {rare}",
        threshold,
        counts=counts,
    )


def learn_bounds(
    table: Any,
    schema: Schema | str | Path | None = None,
    *,
    budget: Budget | None = None,
    columns: Sequence[str] | Mapping[str, str] | None = None,
    adjacency: str | None = None,
    neighbours: str | None = None,
    ledger: Book | None = None,
    insecure_seed: int | None = None,
) -> LearnedBounds:
    """Learn ranges of numeric columns and levels of text columns, as a private release of its own.

    Parameters
    ----------
    table : a pandas, polars or pyarrow table, or the path of a file
        The records.
    schema : Schema, str or Path, optional
        A schema with gaps ("?"), as text or as the path of its file: types, unit, and what is known
        already.  By default the draft of the table, with one row per unit.
    budget : PureDP, ZCDP or ApproxDP
        What it may cost, shared alike among the columns.  Levels take an ApproxDP.
    columns : list of names, or dict of names and types, optional
        What to learn: "age" or "age:integer"; by default every column with a gap.  Without a schema
        other columns are left out of the one that is made.
    adjacency : "replace" or "add-remove", optional
        What may differ between two data sets.
    neighbours : optional
        Another name of ``adjacency``.
    ledger : Ledger, optional
        Where the cost is booked before a value is read; by default it is booked nowhere.  Under an
        (ε, δ) total levels are learned by the first entry.
    insecure_seed : int, optional
        For tests and examples only: the noise comes from this seed, and the result says that it is
        not private.  By default the noise is secret.

    Returns
    -------
    LearnedBounds
        ``schema``, ``text``, ``columns``, ``release``, ``summary()``, ``write(path)``.

    Raises
    ------
    InputError, BudgetError
        If a name or an option is wrong; nothing was booked then.
    LedgerError
        If the ledger refuses the cost; nothing was computed then.

    Notes
    -----
    A noisy histogram over powers of two gives the magnitude of the values; two finer ones inside of
    it give the range, which is then rounded.  A level is shown where its noisy count exceeds a
    threshold that δ pays for (Korolova, Kenthapadi, Mishra and Ntoulas, 2009, Releasing search
    queries and clicks privately).

    Examples
    --------
    The seed is for examples only: it makes the noise known.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> learned = dp.learn_bounds(
    ...     data.table, budget=dp.ZCDP(0.1), columns={"disea": "number"}, insecure_seed=0
    ... )
    >>> learned.gaps
    0
    >>> column = learned.schema["disea"]
    >>> print(column.low, column.high)
    0.0 40.0
    """
    unit = getattr(ledger, "unit", "one record") if schema is None else ""
    asked = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
    return learning(table, schema, budget, columns, asked, unit).run(ledger, insecure_seed)
