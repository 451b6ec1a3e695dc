"""Summaries of columns from one pass over the records, from which every query of a description follows.

Every record has weight 1.  Of a column of levels the counts of the levels are kept; of a column of numbers the
counts of cells and the sums of t to t⁴ (`dpinfer.mechanisms.column_sums`), by group.

A column is read in order, some records at a time, and columns are read by several workers.  Records are summed
in portions, which stay in the cache of a processor: a portion is some blocks of at most B records
(`dpinfer.mechanisms.sums`), each summed on its own, and blocks are added with compensation.  Counts are
integers, exact in any order.

The summaries are exact sums over records, and stay here, with the other sources of rows: `mechanisms/` has the
queries alone, which know neither where rows are nor how they are read.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.column_sums import (
    CELLS,
    POWERS,
    Cells,
    ColumnSummaries,
    ColumnSums,
    CountArray,
    Levels,
    Numbers,
    valid_codes,
)
from dpinfer.mechanisms.sums import BLOCK, OfBlock, Sum
from dpinfer.numerics.arrays import Array
from dpinfer.rows import workers
from dpinfer.rows.encoded import Encoded

MAX_HISTOGRAMS = 2**8
"""Columns of numbers times groups that are kept at once: half a megabyte each."""

Values = npt.NDArray[Any]
"""Numbers, or codes of levels."""
Groups = npt.NDArray[np.intp]
"""The code of each record's group, and the number of groups where it has none."""
Missing = npt.NDArray[np.bool_]

# The position of the constant 1 before the columns: as a column of no levels it counts all records.
_ALL = 0
_MAX_BLOCKS = 64
# Cells of all columns in one portion: 64 MB where they are read together.
_CELLS_AT_ONCE = 2**23
# Records of a column that is read alone: the more at once, the less often threads wait for each other.
_RECORDS_AT_ONCE = 2**20
# The same where each cell is looked up, which takes room for several numbers.
_LEVELS_AT_ONCE = 2**18
_EACH = CELLS + 2  # cells of one group: the last is for missing values
_ONES = np.ones((1, BLOCK))


@dataclass(frozen=True, repr=False)
class ColumnValues:
    """Values of some columns of some records.

    ``values`` has for each column its numbers, or the codes of its levels; NaN or the number of levels where
    one is missing.  ``groups`` has the codes of the records' groups, if there are groups.
    """

    values: Sequence[Values]
    groups: Values | None
    records: int


@dataclass(frozen=True, repr=False)
class ColumnTask:
    """Some columns of all records, which one worker reads together and in order.

    ``positions`` are those of the columns in a row.  ``read`` yields as many records at a time as it
    is asked for, the last excepted.
    """

    positions: Sequence[int]
    read: Callable[[int], Iterator[ColumnValues]]


@dataclass(frozen=True, repr=False)
class ColumnSource(Encoded):
    """Records, each a unit of weight 1, that can also be read column by column."""

    tasks: Sequence[ColumnTask] = ()


@dataclass(frozen=True, repr=False)
class SummarizedSource:
    """A source whose records were read once: it has the totals of queries about columns, and no others."""

    n: int
    dim: int
    summaries: ColumnSummaries

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum over all records, from their summaries."""
        if not isinstance(of_block, ColumnSums):
            raise PrivacyError("the summaries of the records do not determine this sum")
        return of_block.of_summaries(self.summaries)


def summarize(
    source: ColumnSource, numbers: Numbers, levels: Levels, groups: int
) -> SummarizedSource:
    """Read all records, each of weight 1, and keep the summaries of these columns by so many groups.

    Guarantee [same_digests]: the same rows in the same order give the same bits, from memory or files
    of any kind, with tasks of any number of columns, on any number of cores.
    """
    if source.encoding.unit.columns:
        raise PrivacyError("records are summarised only where each of them has weight 1")
    columns = source.dim - 1
    together = max((len(task.positions) for task in source.tasks), default=1)
    portions = Portions.of(columns, together)
    of_levels = Portions.of(columns, together, levels=True)
    kept = _TaskSummaries({}, {}, {})
    with workers.step("reading"):
        progress = _ReadingProgress(source.n * columns)
        reading = _ColumnPass(numbers, levels, groups, portions, of_levels, progress)
        try:
            for some in workers.map_ordered(reading.summarize, source.tasks, light=False):
                kept.levels.update(some.levels)
                kept.cells.update(some.cells)
                kept.sums.update(some.sums)
        finally:  # after an error or an interruption no task is read to its end
            reading.stopped.set()
        progress.end()
    positions = numbers.positions.tolist()
    powers = np.zeros((POWERS, 1 + groups, len(positions)))
    for j, position in enumerate(positions):
        powers[..., j] = kept.sums[position]
    cells = [kept.cells[position] for position in positions]
    return SummarizedSource(source.n, source.dim, ColumnSummaries(cells, powers, kept.levels))


@dataclass(frozen=True)
class Portions:
    """The division of records: ``blocks`` blocks of B records are a portion, and ``portions`` portions
    are read at once.
    """

    blocks: int
    portions: int

    @classmethod
    def of(cls, columns: int, together: int, *, levels: bool = False) -> "Portions":
        """Return the portions of a table of so many columns, ``together`` of which are read together.

        ``levels`` says that these are columns of levels.  The size of a portion depends on the table
        alone, so that sums have the same bits whichever columns are read together.
        """
        blocks = max(1, min(_MAX_BLOCKS, _CELLS_AT_ONCE // (BLOCK * max(columns, 1))))
        records = _LEVELS_AT_ONCE if levels else _RECORDS_AT_ONCE
        portions = records // (blocks * BLOCK * max(together, 1))
        return cls(blocks, max(1, portions))

    @property
    def portion(self) -> int:
        """Records of a portion."""
        return self.blocks * BLOCK

    @property
    def at_once(self) -> int:
        """Records that are read at once; the last may be fewer."""
        return self.portions * self.portion


@dataclass(frozen=True, repr=False)
class _TaskSummaries:
    """Summaries of the columns of one task, by their positions in a row."""

    levels: dict[int, CountArray]
    cells: dict[int, CountArray]
    sums: dict[int, Array]


@dataclass(frozen=True, repr=False)
class _ColumnPass:
    """One pass over the columns of a source, shared by all workers."""

    numbers: Numbers
    levels: Levels
    groups: int
    portions: Portions
    of_levels: Portions
    progress: "_ReadingProgress"
    workers: threading.local = field(default_factory=threading.local)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def _scratch(self) -> "Scratch":
        """The buffers of the worker that asks."""
        scratch = getattr(self.workers, "scratch", None)
        if not isinstance(scratch, Scratch):
            scratch = Scratch(self.portions)
            self.workers.scratch = scratch
        return scratch

    def summarize(self, task: ColumnTask) -> _TaskSummaries:
        """Read all records of a task."""
        levels = self._level_summaries(task)
        numbers = self._number_summaries(task)
        portions = self.portions if numbers else self.of_levels
        with np.errstate(all="ignore"):  # a warning would reveal a value
            for some in task.read(portions.at_once):
                groups = self._groups_of(some)
                if _ALL in levels:
                    levels[_ALL].add(np.zeros(some.records), groups)
                for position, values in zip(task.positions, some.values, strict=True):
                    if position in levels:
                        levels[position].add(values, groups)
                    if position in numbers:
                        numbers[position].add(values, groups)
                self.progress.add(some.records * len(task.positions))
                if self.stopped.is_set():
                    break
        return _TaskSummaries(
            {position: summary.counts for position, summary in levels.items()},
            {position: summary.counts for position, summary in numbers.items()},
            {position: summary.sums for position, summary in numbers.items()},
        )

    def _level_summaries(self, task: ColumnTask) -> "dict[int, LevelSummary]":
        # the task of the first column counts all records, where that is asked
        mine = {*task.positions, _ALL} if 1 in task.positions else set(task.positions)
        pairs = zip(self.levels.positions.tolist(), self.levels.sizes.tolist(), strict=True)
        return {
            position: LevelSummary(size, self.groups)
            for position, size in pairs
            if position in mine
        }

    def _number_summaries(self, task: ColumnTask) -> "dict[int, NumberSummary]":
        return {
            position: NumberSummary(self.numbers, j, self.groups, self._scratch)
            for j, position in enumerate(self.numbers.positions.tolist())
            if position in task.positions
        }

    def _groups_of(self, some: ColumnValues) -> Groups | None:
        if not self.groups:
            return None
        assert some.groups is not None
        return valid_codes(some.groups, self.groups)


class _ReadingProgress:
    """The share of all cells that was read, reported by whichever worker has read them."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._read = 0
        self._progress = workers.Progress()
        self._lock = threading.Lock()

    def add(self, cells: int) -> None:
        """Report so many more."""
        with self._lock:
            self._read += cells
            self._progress.update(self._read / max(self._cells, 1))

    def end(self) -> None:
        """Report that all were read, if there were any."""
        self._progress.update(1.0)


class LevelSummary:
    """Counts of the ``size`` levels of a column, and of missing ones, by group; the last group is for records
    without one.
    """

    def __init__(self, size: int, groups: int) -> None:
        self._size = size
        self._groups = groups
        self._counts = np.zeros((groups + 1) * (size + 1), dtype=np.int64)

    def add(self, codes: npt.NDArray[Any], groups: Groups | None) -> None:
        """Count some records by the codes of their levels; NaN, or the number of levels, is missing."""
        cells = valid_codes(codes, self._size)
        if groups is not None:
            cells += groups * (self._size + 1)
        self._counts += np.bincount(cells, minlength=len(self._counts))

    @property
    def counts(self) -> CountArray:
        """An axis for groups, one for levels."""
        return self._counts.reshape(self._groups + 1, -1)


@dataclass(frozen=True)
class _NumberScale:
    """The public facts about one column of numbers; see `Numbers`."""

    low: float
    high: float
    middle: float
    half: float
    width: float
    per_width: float
    last: int
    is_integer: bool

    @classmethod
    def of(cls, numbers: Numbers, column: int) -> "_NumberScale":
        return cls(
            float(numbers.low[column]),
            float(numbers.high[column]),
            float(numbers.middle[column]),
            float(numbers.half[column]),
            float(numbers.width[column]),
            float(numbers.per_width[column]),
            int(numbers.last[column]),
            bool(numbers.is_integer[column]),
        )

    @property
    def per_half(self) -> float:
        """1/half, rounded down so that t is at most 1 however the product is rounded."""
        return (1 - 2.0**-52) / self.half

    @property
    def scaled_last(self) -> bool:
        """Whether powers of v - middle are summed first and scaled afterwards.

        It saves a product per number, where no fourth power overflows or underflows.
        """
        return 1e-60 < self.half < 1e60

    @property
    def determined_by_cells(self) -> bool:
        """Whether every cell has one number alone."""
        return self.is_integer and self.width == 1.0

    def of_cells(self) -> Array:
        """Return t of the number in each cell, where it has one alone; 0 beyond the last."""
        t = np.zeros(CELLS + 1)
        t[: self.last + 1] = (self.low + np.arange(self.last + 1) - self.middle) / self.half
        return np.clip(t, -1.0, 1.0)


class Scratch:
    """Buffers for the portions of a column, used again and again: new memory takes longer than the
    arithmetic.
    """

    def __init__(self, portions: Portions) -> None:
        self.portions = portions
        self.t = np.empty(portions.portion)
        self.square = np.empty(portions.portion)
        self.cell = np.empty(portions.portion)
        self.cells = np.empty(portions.at_once, dtype=np.int32)
        self.each_once = np.ones(portions.at_once, dtype=np.int32)


class NumberSummary:
    """Counts of the cells of a column of numbers, and the sums of t to t⁴, by group.

    A number that is not finite is missing.  Where every cell has one number alone, the sums follow from
    the counts.
    """

    def __init__(self, numbers: Numbers, column: int, groups: int, scratch: Scratch) -> None:
        self._scale = _NumberScale.of(numbers, column)
        self._groups = groups
        self._scratch = scratch
        self._counts = np.zeros((groups + 1) * _EACH, dtype=np.int64)
        blocks = np.zeros((1 + groups, POWERS - 1, scratch.portions.blocks))
        self._sums = Sum(blocks, np.zeros_like(blocks))

    def add(self, values: Array, groups: Groups | None) -> None:
        """Add some records, portion by portion."""
        portion = self._scratch.portions.portion
        for first in range(0, len(values), portion):
            some = slice(first, first + portion)
            of_some = None if groups is None else groups[some]
            self._add(values[some], of_some, self._scratch.cells[some])
        self._count(self._scratch.cells[: len(values)])

    def _add(self, values: Array, groups: Groups | None, cells: Cells) -> None:
        scale = self._scale
        missing = None
        # most columns lie within their bounds: to see that is faster than to clip them
        if not (values.min() >= scale.low and values.max() <= scale.high):
            missing = ~np.isfinite(values)
            values = np.clip(values, scale.low, scale.high)
            values[missing] = scale.middle  # where t is 0
        self._set_cells(values, groups, missing, cells)
        if not scale.determined_by_cells:
            self._sum(values, groups)

    def _set_cells(
        self, values: Array, groups: Groups | None, missing: Missing | None, cells: Cells
    ) -> None:
        """Write the cells of `Numbers.cells`, those of each group after those of the one before."""
        size = len(values)
        cell = np.subtract(values, self._scale.low, out=self._scratch.cell[:size])
        cell *= self._scale.per_width
        np.ceil(cell, out=cell)
        if missing is not None:
            cell[missing] = CELLS + 1
        if groups is not None:
            cell += groups * float(_EACH)
        np.copyto(cells[:size], cell, casting="unsafe")

    def _count(self, cells: Cells) -> None:
        # A matrix with a 1 for each record, in the row of its cell, times 1.  It is np.bincount, which
        # takes longer and holds the interpreter's lock.
        size = len(cells)
        each_once = self._scratch.each_once[:size]
        records = csc_array(
            (each_once, cells, np.array([0, size], dtype=np.int32)),
            shape=(len(self._counts), 1),
        )
        self._counts += np.asarray(records @ np.ones(1, dtype=np.int32))

    def _sum(self, values: Array, groups: Groups | None) -> None:
        """Add sums of powers, block by block; a portion that is shorter is padded with zeros."""
        size = len(values)
        padded = self._scratch.t
        t = np.subtract(values, self._scale.middle, out=padded[:size])
        if not self._scale.scaled_last:
            t *= self._scale.per_half
        padded[size:] = 0.0
        sums = np.empty_like(self._sums.total)
        self._powers(padded, sums[0])
        for group in range(self._groups):
            assert groups is not None
            members = np.zeros(len(padded))
            members[:size] = groups == group
            self._powers(np.multiply(padded, members, out=members), sums[1 + group])
        self._sums = self._sums.plus(Sum(sums, 0.0))

    def _powers(self, t: Array, sums: Array) -> None:
        """Write the sums of t to t⁴: one row per power, one column per block."""
        square = np.multiply(t, t, out=self._scratch.square).reshape(-1, BLOCK)
        t = t.reshape(-1, BLOCK)
        np.vecdot(t, _ONES, out=sums[0])
        np.vecdot(t, t, out=sums[1])
        np.vecdot(square, t, out=sums[2])
        np.vecdot(square, square, out=sums[3])

    @property
    def counts(self) -> CountArray:
        """An axis for groups, the last for records without one, and one for cells."""
        return self._counts.reshape(self._groups + 1, _EACH)

    @property
    def sums(self) -> Array:
        """Sums of t⁰ to t⁴: an axis for powers, and one for all records and then the groups."""
        counts = self.counts[:, :-1]  # the last cell is for missing values
        by_group = counts.sum(axis=1)
        number = np.append(by_group.sum(), by_group[:-1]).astype(np.float64)
        if self._scale.determined_by_cells:
            of_cells = _sums_of_cells(counts, self._scale.of_cells())
            others = np.vstack([of_cells.sum(axis=0), of_cells[:-1]]).T
        else:
            blocks = (Sum(*pair) for pair in zip(*self._blocks(), strict=True))
            others = Sum.all(blocks).value.T
            if self._scale.scaled_last:
                powers = self._scale.per_half ** np.arange(1, POWERS)
                others *= powers[:, None]
        return np.vstack([number, others])

    def _blocks(self) -> tuple[Array, Array]:
        """Return the sums of all portions and their compensation, with an axis for blocks in front."""
        total = np.moveaxis(self._sums.total, -1, 0)
        return total, np.moveaxis(np.asarray(self._sums.compensation), -1, 0)


def _sums_of_cells(counts: CountArray, t: Array) -> Array:
    """Return sum_c count_c t_cᵏ for each row of counts and k = 1 to 4.

    Products are over at most B cells, and are added without an error.
    """
    sums = np.zeros((len(counts), POWERS - 1))
    for row, of_row in enumerate(counts):
        some = np.flatnonzero(of_row)
        weights = of_row[some].astype(np.float64)
        starts = range(0, len(some), BLOCK)
        for k in range(POWERS - 1):
            powers = t[some] ** (k + 1)
            parts = [weights[j : j + BLOCK] @ powers[j : j + BLOCK] for j in starts]
            sums[row, k] = math.fsum(parts)
    return sums
