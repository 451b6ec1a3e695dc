"""Sources of bounded rows; a backend is one method: the total of a function over blocks of rows.

Blocks are cut by the number of the record and have the same layout wherever the rows come from, so
that sources with the same rows in the same order have the same totals, to the bit.

Encoded rows are in memory, or in a temporary file that has no name.  The file is this user's alone,
and is gone when its arrays are, or the process.  It is written by calls of the system and read as
memory: written as memory, every page would cost a fault of its own, and a disk that is full would
end the process where a call raises an error.
"""

import errno
import itertools
import mmap
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryFile
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.mechanisms.sums import BLOCK, MAX_RECORDS, Block, Change, OfBlock, Sum, clip_rows
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.rows import workers

_ZEROS = bytes(2**20)


class Storage(Protocol):
    """Arrays that are made once, written once, and read many times."""

    @property
    def memory_limit(self) -> float:
        """Bytes that may be copied from here to memory, to be kept there."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Any:
        """Return an array whose numbers are not written yet."""
        ...

    def write(self, target: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Write to ``target``, some rows of an array that `empty` made."""
        ...

    def forget(self, part: npt.NDArray[Any]) -> None:
        """Let go of the memory that was taken to read some rows of an array, which stays as it is."""
        ...


class Memory:
    """Arrays as numpy makes them."""

    memory_limit = np.inf

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Any:
        """Return an array whose numbers are not written yet."""
        return np.empty(shape, dtype)

    def write(self, target: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Copy the values."""
        target[...] = values

    def forget(self, part: npt.NDArray[Any]) -> None:
        """Do nothing: arrays in memory stay there."""


MEMORY = Memory()


class Disk:
    """Arrays in a temporary file of ``size`` bytes, on the disk from the beginning.

    OSError where there is no room for it; and from `write` where the disk fails.
    """

    def __init__(self, size: int) -> None:
        if size > workers.disk():
            raise OSError("the temporary file would be larger than it may be")
        file = TemporaryFile(prefix="dpinfer-", dir=workers.scratch(), buffering=0)  # noqa: SIM115
        weakref.finalize(self, file.close)
        self._file = file.fileno()
        _reserve(self._file, max(size, 1))
        self._map = mmap.mmap(self._file, max(size, 1))
        self._address = _address(np.frombuffer(self._map, np.uint8))
        self._end = 0

    @property
    def memory_limit(self) -> float:
        """Bytes that rows of files may take."""
        return workers.memory()

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float64) -> Any:
        """Return the next part of the file."""
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, self._map, self._end)
        self._end += array.nbytes
        return array

    def write(self, target: npt.NDArray[Any], values: npt.NDArray[Any]) -> None:
        """Write by a call of the system; later reads of ``target`` see the same pages."""
        if not target.size:
            return
        numbers = np.ascontiguousarray(values, target.dtype)
        assert numbers.shape == target.shape
        if os.pwrite(self._file, numbers.data, self._offset(target)) != numbers.nbytes:
            raise OSError("the temporary file was not written in full")

    def forget(self, part: npt.NDArray[Any]) -> None:
        """Drop the pages from memory; a later read takes them from the file again."""
        if not part.size:
            return
        offset = self._offset(part)
        start = offset // mmap.PAGESIZE * mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, start, offset + part.nbytes - start)

    def _offset(self, part: npt.NDArray[Any]) -> int:
        return _address(part) - self._address


def _address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _reserve(file: int, size: int) -> None:
    """Take the room of a file on the disk, so that a disk without it is an error now."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        for start in range(0, size, len(_ZEROS)):  # a file system that cannot reserve
            os.pwrite(file, _ZEROS[: size - start], start)


UNIT_TOTAL = 1 - 2.0**-20
"""The weights of a unit's rows add up to this at most: the float sum errs by less than what is missing to 1."""
_RUN = 2**28  # rows of a unit whose weights are added one after the other
_HEAVIEST = 1e100  # times the bound of weights: larger totals are not distinguished
MIN_WEIGHT = 2.0**-500  # of a row: division by less is not safe
# numbers up to 1 in two parts of 26 bits, so that sums of each over up to 2²⁶ rows of a unit are exact in floats
_GRID = 2.0**26


@np.errstate(all="ignore")  # a warning would reveal a value
def counted(
    block: Block, max_total: float, units: Indices | None = None, weights: Array | None = None
) -> Block:
    """Group the rows by unit and give each the weight ω/max(max_total, sum of ω over its unit).

    ``units`` has one number per row, below 0 where the id is missing: such a row counts for
    nothing, and is no unit.  Without it each row is one.  ω are the ``weights``, 1 by default, and
    0 for a row that could not be encoded: it takes nothing from the other rows of its unit.  A row
    without a positive one is a zero row, and so is one whose part of its unit is so small that
    floats would lose it.

    Guarantee [units_count_at_most_one]: what the rows of a unit count adds up to at most 1, in real
    numbers.
    """
    rows = block.rows
    labels = block.labels
    if weights is None:
        omega = np.ones(len(rows))
    else:
        omega = np.where(np.isfinite(weights), weights, 0.0)
    encoded = rows.any(axis=1)
    omega = np.where(encoded, np.clip(omega / max_total, 0.0, _HEAVIEST), 0.0)
    total = omega  # over the unit of each row
    starts = None
    if units is not None:
        order = np.argsort(units, kind="stable")
        order = order[units[order] >= 0]
        rows = rows[order]
        labels = labels[order]
        omega = omega[order]
        _, starts, sizes = np.unique(units[order], return_index=True, return_counts=True)
        by_unit = _added_by_unit(omega, starts) if len(order) else omega
        total = np.repeat(by_unit, sizes)
    shares = omega / np.maximum(1.0, total) * UNIT_TOTAL
    counts = shares > MIN_WEIGHT
    rows = np.where(counts[:, None], rows, 0.0)
    shares = np.where(counts, shares, MIN_WEIGHT)
    return Block(rows, labels, shares, shares, starts)


@np.errstate(all="ignore")  # a warning would reveal a value
def demeaned(block: Block, factors: Array) -> Block:
    """Subtract from columns and label of each row the means over the rows of its unit, times ``factors``.

    The first column stays 1, and labels are halved.  A row that could not be encoded stays the zero row,
    and is in no mean.

    Guarantee [deviations_are_bounded]: every row has norm at most 1, every label is in [-1, 1], and each row of a
    unit depends on the rows of that unit alone, in whatever order these are.
    """
    starts = block.starts
    if starts is None or not len(block):
        return block
    first = block.rows[:, 0]
    encoded = first != 0
    sizes = np.diff(np.append(starts, len(block)))
    number = np.maximum(np.add.reduceat(encoded.astype(float), starts), 1.0)

    def less_mean(values: Array) -> Array:
        kept = np.where(encoded, values.T, 0.0).T
        # whole multiples of two grids, whose float sums are exact: a mean does not depend on the order of rows,
        # which a cluster may choose by what other units hold
        coarse = np.rint(kept * _GRID)
        fine = np.rint((kept * _GRID - coarse) * _GRID)
        deviations = [
            part - np.repeat((np.add.reduceat(part, starts, axis=0).T / number).T, sizes, 0)
            for part in (coarse, fine)
        ]
        return np.where(encoded, ((deviations[0] + deviations[1] / _GRID) / _GRID).T, 0.0).T

    rows = less_mean(block.rows) * factors
    rows[:, 0] = first
    labels = np.clip(less_mean(block.labels) / 2, -1.0, 1.0)
    return replace(block, rows=clip_rows(rows), labels=labels)


def _added_by_unit(omega: Array, starts: Indices) -> Array:
    """Return the sum over each unit; one with very many rows is added in runs, so that it stays
    exact.
    """
    if len(omega) <= _RUN:
        return np.asarray(np.add.reduceat(omega, starts))
    runs = np.union1d(starts, np.arange(0, len(omega), _RUN))
    by_run = np.add.reduceat(omega, runs)
    return np.asarray(np.add.reduceat(by_run, np.searchsorted(runs, starts)))


PIECE = 16
"""Blocks that one worker takes at once."""
_BLOCK = 2**16  # numbers in one block of rows: half a megabyte, so that a block stays in cache
_SHORT = (
    25  # columns below which workers on blocks of units wait longer than they work: on two cores
)
_STACK = (
    2**18
)  # numbers in one stack of blocks: a call of numpy takes longer than the next thread waits


class Source(Protocol):
    """Rows with labels -1 or +1, or outcomes in [-1, 1], and weights; only sums ever leave it."""

    @property
    def n(self) -> int:
        """Number of records."""
        ...

    @property
    def dim(self) -> int:
        """Length of a row."""
        ...

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum of ``of_block`` over all blocks of rows."""
        ...


@dataclass(frozen=True, repr=False)
class Piece:
    """Some blocks after each other, made by the worker that takes them.

    ``start`` is the number of the first row.  Where rows are left out while blocks are made, it is
    the number of rows before them with those that are left out.
    """

    start: int
    blocks: Callable[[], Iterator[Block]]


class Blocks(ABC):
    """A source that hands its rows out in order."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of records or, with ids, of units."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """Length of a row."""

    @abstractmethod
    def pieces(self) -> Iterator[Piece]:
        """Yield all rows; without any, one empty block."""

    @property
    def size(self) -> int:
        """Number of rows, at most: private where it is not n, and for the use of memory only."""
        return self.n

    @property
    def memory_limit(self) -> float:
        """Bytes that its rows may take when they are cached in memory; 0 where nothing may."""
        return np.inf

    @property
    def parallel(self) -> bool:
        """Whether more workers than one are faster: not where a block takes less time than handing
        over to another.
        """
        return True

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum over blocks, in a fixed order, with compensation.

        Guarantee [same_totals]: the same rows in the same order give the same bits, from memory or
        files of any kind, kept in memory or on disk or read anew, on any number of cores.
        """

        size = self.size

        def sum_of_piece(piece: Piece) -> tuple[int, Sum]:
            with np.errstate(all="ignore"):  # a warning would reveal a value
                blocks = (replace(block, among=size) for block in piece.blocks())
                parts = (part for block in blocks for part in block.parts(of_block))
                return piece.start, Sum.of(parts)

        in_order = workers.map_ordered if self.parallel else map
        progress = workers.Progress()

        def sums() -> Iterator[Sum]:
            for start, part in in_order(sum_of_piece, self.pieces()):
                progress.update(start / max(size, 1))
                yield part

        total = Sum.all(sums())
        progress.update(1.0)
        return total.value


def require_record_limit(n: int, limit: int) -> None:
    """Refuse more records than noise is sized for."""
    if n <= limit:
        return
    remedy = ""
    if limit < MAX_RECORDS:
        remedy = (
            ": where their number is private, write largest_table, a round number that the table will "
            "never reach, into the [unit] of the schema"
        )
    raise InputError(
        f"there are more than {limit:,} records, for which sums are not proved exact enough{remedy}"
    )


def block_height(dim: int) -> int:
    """Return the number of rows of a block."""
    return min(BLOCK, max(256, _BLOCK // max(dim, 1)))


def cuts(size: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield where blocks of ``step`` rows begin and end; an empty one where there is no row."""
    for start in range(0, max(size, 1), step):
        yield start, min(start + step, size)


def stacks(ends: list[int], dim: int, blocks: Callable[[slice], Block]) -> Iterator[Block]:
    """Group consecutive blocks of equal length into stacks; a block without such a neighbour is
    yielded alone.

    ``ends`` has where the first block begins and where each ends, and ``blocks`` makes the rows of
    some of them.
    """
    first = 0
    for height, run in itertools.groupby(np.diff(ends).tolist()):
        last = first + len(list(run))
        stack = max(1, _STACK // max(height * dim, 1))
        for index in range(first, last, stack):
            rows = slice(ends[index], ends[min(index + stack, last)])
            block = blocks(rows)
            yield block.stacked(height) if rows.stop - rows.start > height else block
        first = last


def labelled(rows: Array, labels: Array, kind: str) -> Block:
    """Return bounded rows with the labels that the loss may see; ``rows`` are written to.

    A loss of the margin sees -1 or +1, one of the residual a number in [-1, 1].  A row with another
    label, or one that is not finite, counts as the zero row.
    """
    if kind == "margin":
        known = np.abs(labels) == 1
        instead = 1.0
    else:
        known = np.isfinite(labels)
        instead = 0.0
    labels = np.clip(labels, -1.0, 1.0)
    if not known.all():
        rows[~known] = 0.0
        labels[~known] = instead
    return Block(rows, labels)


@dataclass(frozen=True, repr=False)
class Rows(Blocks):
    """Encoded rows in memory, or in a file that is mapped into it.

    ``number`` is that of the units, where it was declared: it is believed.  ``ends`` has, for each
    piece, where its first block begins and where each of its blocks ends; by default blocks are cut
    by the length of a row, and with ids between units.
    """

    block: Block
    number: int | None = None
    ends: tuple[list[int], ...] | None = None
    storage: Storage = MEMORY

    @classmethod
    def of(cls, X: npt.ArrayLike, y: npt.ArrayLike, kind: str = "margin") -> "Rows":
        """Bound arrays of numbers (`dpinfer.tables.memory.rows_of` makes them of anything): rows
        that are too long are clipped, and one with a NaN or an infinity is the zero row.
        """
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2:
            raise InputError(f"X must have two dimensions (records, columns), not {rows.ndim}")
        return cls.encoded(clip_rows(rows), np.asarray(y, dtype=np.float64), kind)

    @classmethod
    def encoded(cls, rows: Array, labels: Array, kind: str) -> "Rows":
        """Return the source of rows that a `Design` has bounded; one whose label is not known
        counts as the zero row.
        """
        if labels.shape != rows.shape[:1]:
            raise InputError("y must have one label a row of X, in one dimension")
        if rows.shape[1] == 0:
            raise InputError(f"X must have at least one column, not shape {rows.shape}")
        require_record_limit(len(rows), MAX_RECORDS)
        return cls(labelled(np.array(rows), labels, kind))

    @property
    def n(self) -> int:
        """Number of records or, with ids, of units."""
        if self.number is not None:
            return self.number
        return len(self.block if self.block.starts is None else self.block.starts)

    @property
    def dim(self) -> int:
        """Length of a row."""
        return int(self.block.rows.shape[1])

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.block)

    @property
    def memory_limit(self) -> float:
        """Bytes that may be copied to memory; no limit unless the rows are in a file."""
        return self.storage.memory_limit

    @property
    def parallel(self) -> bool:
        """Whether workers are faster: not where rows are short and blocks are not stacked."""
        return self.block.starts is None or self.dim >= _SHORT

    @property
    def layout(self) -> tuple[list[int], ...]:
        """The layout: for each piece, where its first block begins and where each of its blocks
        ends.
        """
        if self.ends is not None:
            return self.ends
        ends = self._ends(block_height(self.dim))
        return tuple(ends[first : first + PIECE + 1] for first in range(0, len(ends) - 1, PIECE))

    def pieces(self) -> Iterator[Piece]:
        """Yield blocks of rows, many at a time."""
        for ends in self.layout:
            yield Piece(ends[0], partial(self._blocks, ends))

    def _blocks(self, ends: list[int]) -> Iterator[Block]:
        try:
            if self.block.starts is None:
                yield from stacks(ends, self.dim, self.block.__getitem__)
                return
            for first, last in itertools.pairwise(ends):
                yield self.block[first:last]
        finally:
            self._forget(slice(ends[0], ends[-1]))

    def _forget(self, some: slice) -> None:
        """Let go of pages that were read: they would count as memory of the process until it ends."""
        block = self.block
        for array in (block.rows, block.labels, block.weights, block.shares):
            if not isinstance(array, float):
                self.storage.forget(array[some])
        if block.starts is not None:
            self.storage.forget(block.starts)

    def _ends(self, height: int) -> list[int]:
        """Return 0 and where blocks of at most ``height`` rows end; with ids only where a unit
        does, also if it is longer.
        """
        n = len(self.block)
        starts = self.block.starts
        if starts is None or not n:
            return [0, *range(height, n, height), n]
        units = np.append(starts[1:], n)  # where each of them ends
        ends = [0]
        while ends[-1] < n:
            fits = int(np.searchsorted(units, ends[-1] + height, side="right"))
            alone = int(np.searchsorted(units, ends[-1], side="right"))  # longer than a block
            ends.append(int(units[max(fits - 1, alone)]))
        return ends

    def counted(
        self,
        max_total: float,
        units: Indices | None = None,
        weights: Array | None = None,
        number: int | None = None,
    ) -> "Rows":
        """Return the rows of each unit together, each with what it counts
        (`dpinfer.rows.source.counted`).
        """
        return Rows(counted(self.block, max_total, units, weights), number)


def gathered_bytes(size: int, dim: int) -> int:
    """Return the bytes that `gathered` takes: for each row its columns, label, weight, share, and
    start of a unit.
    """
    return size * (dim + 4) * 8


def gathered(source: Blocks, change: Change, dim: int, storage: Storage = MEMORY) -> Rows:
    """Copy all blocks of a source to a storage, each changed to rows of length ``dim``.

    Pieces and blocks are those of the source, so that totals have the same bits.  Rows that the
    source leaves out leave a gap, which is in no block.
    """
    size = source.size
    rows = storage.empty((size, dim))
    labels = storage.empty((size,))
    weights = storage.empty((size,))
    shares = storage.empty((size,))
    starts = storage.empty((size,), np.intp)

    def write(block: Block, some: slice) -> None:
        storage.write(rows[some], block.rows)
        storage.write(labels[some], block.labels)
        if not isinstance(block.weights, float):
            storage.write(weights[some], block.weights)
        if not isinstance(block.shares, float):
            storage.write(shares[some], block.shares)

    def copy(piece: Piece) -> _Copied:
        copied = _Copied([piece.start], [])
        with np.errstate(all="ignore"):  # a warning would reveal a value
            changed = map(change, piece.blocks())
            for block in itertools.chain.from_iterable(map(Block.apart, changed)):
                first = copied.ends[-1]
                last = first + len(block)
                write(block, slice(first, last))
                copied.ends.append(last)
                if block.starts is not None:
                    copied.starts.append(block.starts + first)
                copied.weighted = not isinstance(block.weights, float)
                copied.shared = not isinstance(block.shares, float)
        return copied

    ends = []
    units = 0
    with workers.step("reading"):
        progress = workers.Progress()
        for copied in workers.map_ordered(copy, source.pieces()):
            progress.update(copied.ends[0] / max(size, 1))
            ends.append(copied.ends)
            for part in copied.starts:
                storage.write(starts[units : units + len(part)], part)
                units += len(part)
        progress.update(1.0)
    block = Block(  # all pieces of a source have the same arrays as the last one
        rows,
        labels,
        weights if copied.weighted else 1.0,
        shares if copied.shared else 1.0,
        starts[:units] if copied.starts else None,
    )
    return Rows(block, source.n, tuple(ends), storage)


@dataclass(repr=False)
class _Copied:
    """A piece that was copied: where its blocks end, its units start, and what its blocks have."""

    ends: list[int]
    starts: list[Indices]
    weighted: bool = False
    shared: bool = False


@dataclass(frozen=True, repr=False)
class Pending:
    """Records of which nothing was computed yet, and that are not read yet if they are in a table."""

    n: int
    read: Callable[[], Source]

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """Open the records for one fit; what a cluster holds for it alone is let go after it."""
        source = self.read()
        try:
            yield source
        finally:
            getattr(source, "release", lambda: None)()

    def rows(self) -> Rows:
        """Return all rows, in memory: for studies."""
        source = self.read()
        if isinstance(source, Rows):
            return source
        if not isinstance(source, Blocks):
            raise InputError(
                "the rows must be in memory or in files here, not on a cluster: collect a part of them"
            )
        if not source.memory_limit:
            raise InputError(
                "there are too many rows for memory here: raise DPINFER_MEMORY, a number of megabytes, or take a "
                "part of them"
            )
        return gathered(source, lambda block: block, source.dim)
