"""Where bounded rows live.  A backend is one method: the total of a function over blocks of rows.

Blocks are cut by the number of the record and have the same layout wherever the rows come from, so
that sources with the same rows in the same order have the same totals, to the bit.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import BLOCK, MOST_RECORDS, Block, Change, OfBlock, Sum, clip_rows
from dpinfer.rows import workers
from dpinfer.schema.unit import counted

_BLOCK = 2**16  # numbers in one block of rows: half a megabyte, so that a block stays in cache
PIECE = 16  # blocks that one worker takes at once
# columns below which workers on encoded rows wait for each other longer than they work: seen on two
# cores
SHORT = 25


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
        """The sum of ``of_block`` over all blocks of rows."""
        ...


@dataclass(frozen=True, repr=False)
class Piece:
    """Some blocks after each other, made by the worker that takes them; ``start`` is the number of
    the first row.
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
        """All rows; without any, one empty block."""

    @property
    def size(self) -> int:
        """Number of rows: private where it is not n, and for the use of memory only; 0 where it is
        not known.
        """
        return self.n

    @property
    def bulk(self) -> int:
        """The same, also where ``size`` is that of something else that a pass goes through."""
        return self.size

    @property
    def number(self) -> int | None:
        """That of the units, where it was declared."""
        return None

    @property
    def starts(self) -> Indices | None:
        """With ids the places of the first rows of units, where all rows are in memory."""
        return None

    @property
    def height(self) -> int:
        """Rows of a block."""
        return step(self.dim)

    @property
    def piece_size(self) -> int:
        """Rows of a piece: a fixed number of blocks, so that sums are the same wherever the rows
        are.
        """
        return self.height * PIECE

    @property
    def room(self) -> float:
        """Bytes that its rows may take when they are kept in memory."""
        return np.inf

    @property
    def shared(self) -> bool:
        """Whether more workers than one are faster: not where a block takes less time than handing
        over to another.
        """
        return True

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over blocks, in a fixed order, with compensation.

        Guarantee [same_totals]: the same rows in the same order give the same bits, from memory or
        files of any kind, kept in memory or on disk or read anew, on any number of cores.
        """

        def part(piece: Piece) -> tuple[int, Sum]:
            with np.errstate(all="ignore"):  # a warning would tell of a value
                return piece.start, Sum.of(map(of_block, piece.blocks()))

        total: Sum | None = None
        watched = workers.Pass()
        shared = workers.in_order if self.shared else map
        for start, found in shared(part, self.pieces()):
            watched.seen(start / max(self.size, 1))
            total = found if total is None else total.plus(found)
        watched.seen(1.0)
        assert total is not None
        return total.value

    def gathered(self, changed: Change, dim: int, into: Array | None = None) -> "Rows":
        """All blocks, each changed, as rows in memory: in that of ``into``, which may be the rows
        that are changed.
        """
        n = self.size
        rows = np.empty((n, dim)) if into is None else into
        labels, weights, shares = np.empty(n), np.empty(n), np.empty(n)

        def copy(piece: Piece) -> tuple[bool, bool]:
            at, plain = piece.start, (True, True)
            with np.errstate(all="ignore"):  # a warning would tell of a value
                for block in map(changed, piece.blocks()):
                    some = slice(at, at + len(block))
                    rows[some], labels[some], at = block.rows, block.labels, some.stop
                    plain = isinstance(block.weights, float), isinstance(block.shares, float)
                    if not plain[0]:
                        weights[some] = block.weights
                    if not plain[1]:
                        shares[some] = block.shares
            return plain

        plain = list(workers.in_order(copy, self.pieces()))
        counts = (
            1.0 if all(first for first, _ in plain) else weights,
            1.0 if all(last for _, last in plain) else shares,
        )
        return Rows(Block(rows, labels, *counts, self.starts), self.number, self.height, own=True)


def most_records(n: int) -> None:
    """Refuse more records than sums are proved for."""
    if n > MOST_RECORDS:
        raise InputError(
            f"there are more than {MOST_RECORDS:,} records, for which sums are not proved exact enough"
        )


def step(dim: int) -> int:
    """Rows of a block."""
    return min(BLOCK, max(256, _BLOCK // max(dim, 1)))


def cuts(size: int, step: int) -> Iterator[tuple[int, int]]:
    """Where blocks of ``step`` rows begin and end; an empty one where there is no row."""
    yield from ((start, min(start + step, size)) for start in range(0, max(size, 1), step))


@dataclass(frozen=True, repr=False)
class Rows(Blocks):
    """Rows in memory.  ``number`` is that of the units, where it was declared: it is believed.

    ``tall`` is the number of rows of a block, by default that of the length of a row.  ``own`` says
    that the rows were made for one fit, and are nobody else's.
    """

    block: Block
    number: int | None = None
    tall: int | None = None
    own: bool = False

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
        """Rows that a `Design` has bounded; one whose label is not known counts as the zero row."""
        if labels.shape != rows.shape[:1]:
            raise InputError("y must have one label a row of X, in one dimension")
        if rows.shape[1] == 0:
            raise InputError(f"X must have at least one column, not shape {rows.shape}")
        most_records(len(rows))
        known = np.abs(labels) == 1 if kind == "margin" else np.isfinite(labels)
        bounded = np.where(known, np.clip(labels, -1.0, 1.0), 1.0 if kind == "margin" else 0.0)
        return cls(Block(np.where(known[:, None], rows, 0.0), bounded))

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
    def starts(self) -> Indices | None:
        """The places of the first rows of units."""
        return self.block.starts

    @property
    def shared(self) -> bool:
        """Unless rows are short."""
        return self.dim >= SHORT

    @property
    def height(self) -> int:
        """Rows of a block; with ids the most, but for a unit that is longer."""
        return self.tall or step(self.dim)

    def pieces(self) -> Iterator[Piece]:
        """Blocks of rows, many at a time."""
        ends, many = self._ends(self.height), self.piece_size // self.height
        for first in range(0, len(ends) - 1, many):
            some = ends[first : first + many + 1]
            yield Piece(some[0], partial(self._blocks, some))

    def _blocks(self, ends: list[int]) -> Iterator[Block]:
        yield from (self.block[first:last] for first, last in itertools.pairwise(ends))

    def _ends(self, step: int) -> list[int]:
        """0 and where blocks of at most ``step`` rows end; with ids only where a unit does, be it
        longer than that.
        """
        n, starts = len(self.block), self.block.starts
        if starts is None or not n:
            return [0, *range(step, n, step), n]
        ends, cuts, last = np.append(starts[1:], n), [0], 0
        while last < n:
            fits = int(np.searchsorted(ends, last + step, side="right"))
            alone = int(np.searchsorted(ends, last, side="right"))  # a unit longer than a block
            last = int(ends[max(fits - 1, alone)])
            cuts.append(last)
        return cuts

    def counted(
        self,
        most: float,
        units: Indices | None = None,
        weights: Array | None = None,
        number: int | None = None,
    ) -> "Rows":
        """The rows of each unit together, each with what it counts (`dpinfer.schema.unit.counted`)."""
        return Rows(counted(self.block, most, units, weights), number)


@dataclass(frozen=True, repr=False)
class Pending:
    """Records of which nothing was computed yet, and that are not read yet if they are in a table."""

    n: int
    read: Callable[[], Source]

    @contextmanager
    def opened(self) -> Iterator[Source]:
        """The records for one fit; what a cluster holds for it alone is let go after it."""
        source = self.read()
        try:
            yield source
        finally:
            getattr(source, "release", lambda: None)()

    def rows(self) -> Rows:
        """All of them, in memory: for studies."""
        source = self.read()
        if not isinstance(source, Blocks):
            raise InputError(
                "the rows must be in memory or in files here, not on a cluster: collect a part of them"
            )
        return (
            source if isinstance(source, Rows) else source.gathered(lambda block: block, source.dim)
        )
