"""Rows that are encoded or changed block by block in every pass, and rows that are cached.

Beside what it reads, an encoded source takes no memory that grows with the number of records.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import Block, Change, OfBlock, Sum
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.rows.source import (
    MIN_WEIGHT,
    PIECE,
    UNIT_TOTAL,
    Blocks,
    Disk,
    Piece,
    Rows,
    Source,
    block_height,
    counted,
    cuts,
    demeaned,
    gathered,
    gathered_bytes,
    labelled,
    require_record_limit,
    stacks,
)
from dpinfer.schema.design import Design
from dpinfer.schema.unit import Unit


@dataclass(frozen=True, repr=False)
class Raw:
    """Some records in original units, one number per column and NaN where a row cannot be encoded; of a
    description a 1 comes before them.

    Labels are those of a source, not yet bounded; ids are numbers, below 0 where one is missing.
    ``offset`` is the last column of the values, where it is not among them.
    """

    values: Array
    labels: Array
    ids: Indices | None = None
    weights: Array | None = None
    offset: Array | None = None

    def __getitem__(self, some: slice) -> "Raw":
        return Raw(
            self.values[some],
            self.labels[some],
            None if self.ids is None else self.ids[some],
            None if self.weights is None else self.weights[some],
            None if self.offset is None else self.offset[some],
        )


class Encoder(Protocol):
    """An encoding of records as rows of a source; public, so that it may travel."""

    @property
    def unit(self) -> Unit:
        """The unit whose rows they are."""
        ...

    @property
    def width(self) -> int:
        """Length of a row."""
        ...

    def block(self, raw: Raw, /) -> Block:
        """Return rows with their weights; with ids all rows of each unit must be there."""
        ...


@dataclass(frozen=True, repr=False)
class ColumnEncoding:
    """Rows of a description, which are read as they are: 1, and then the columns, each on its own; the
    label is the code of the group, NaN where there is none.
    """

    columns: int
    unit: Unit

    @property
    def width(self) -> int:
        """Length of a row."""
        return self.columns + 1

    def block(self, raw: Raw) -> Block:
        """Return rows with their weights, whatever its columns lack; one that counts nothing lacks
        all of them.
        """
        block = Block(raw.values, raw.labels)
        if not self.unit.columns:
            return block
        block = counted(block, self.unit.max_total, raw.ids, raw.weights)
        block.rows[block.rows[:, 0] == 0, 1:] = np.nan
        return block


@dataclass(frozen=True, repr=False)
class Encoding:
    """An encoding of records as bounded rows; public, so that it may travel."""

    design: Design
    kind: str

    @property
    def width(self) -> int:
        """Length of a row."""
        return self.design.width

    @property
    def unit(self) -> Unit:
        """The unit whose rows they are."""
        return self.design.unit

    def block(self, raw: Raw) -> Block:
        """Return bounded rows with their weights; with ids all rows of each unit must be there."""
        values = raw.values
        if raw.offset is not None:
            values = np.column_stack([values, raw.offset])
        values_design = self.design.of_values
        block = labelled(values_design.rows(values), raw.labels, self.kind)
        if not self.unit.columns:
            return block
        block = counted(block, self.unit.max_total, raw.ids, raw.weights)
        if not self.design.within:
            return block
        return demeaned(block, values_design.half / self.design.half)


@dataclass(frozen=True, repr=False)
class Encoded(Blocks):
    """Records of which each is a unit, read as often as there are passes.

    ``read`` hands them out in order, as pieces of whole blocks but for the last; a piece is read by
    whoever works on it.  ``memory_limit`` is what encoded rows may take.
    """

    records: int
    encoding: Encoder
    read: Callable[[int], Iterator[Callable[[], Raw]]]
    memory_limit: float = np.inf

    def __post_init__(self) -> None:
        require_record_limit(self.records, self.encoding.unit.largest)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.records

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.encoding.width

    def pieces(self) -> Iterator[Piece]:
        """Yield each piece as it is read."""
        size = block_height(self.dim) * PIECE
        for number, read in enumerate(self.read(size)):
            yield Piece(number * size, partial(self._blocks, read))

    def _blocks(self, read: Callable[[], Raw]) -> Iterator[Block]:
        raw = read()
        height = block_height(self.dim)
        ends = [0, *(last for _, last in cuts(len(raw.values), height))]
        yield from stacks(ends, self.dim, lambda some: self.encoding.block(raw[some]))


def in_memory(raw: Raw, encoding: Encoder) -> Blocks:
    """Return the source of records that are in memory."""
    n = len(raw.values)
    require_record_limit(n, encoding.unit.largest)
    if encoding.unit.many:
        return Rows(encoding.block(raw), encoding.unit.number)

    def read(size: int) -> Iterator[Callable[[], Raw]]:
        for first, last in cuts(n, size):
            yield partial(raw.__getitem__, slice(first, last))

    return Encoded(n, encoding, read)


_BLOCKS = 64  # a source with more blocks is sampled


@dataclass(frozen=True, repr=False)
class Changed:
    """A source whose blocks are changed one by one."""

    source: Source

    @property
    def n(self) -> int:
        """Number of records."""
        return self.source.n

    @property
    def dim(self) -> int:
        """Length of a changed row."""
        raise NotImplementedError

    @property
    def change(self) -> Change:
        """The change of a block.  It may travel to workers: it holds public and released numbers,
        and not the source.
        """
        raise NotImplementedError

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum over changed blocks."""
        changed = self.change
        return self.source.total(lambda block: of_block(changed(block)))


@dataclass(frozen=True, repr=False)
class Mapped(Changed):
    """A source whose rows are mapped by a released matrix; ``error`` is how far a term of what is
    summed may be off where a row has another position, infinite where the sum jumps.
    """

    matrix: Array
    adjacency: Adjacency
    error: float = np.inf

    @property
    def dim(self) -> int:
        """Length of a mapped row."""
        return len(self.matrix)

    @property
    def change(self) -> Change:
        """The mapped rows, with their weights."""
        matrix = self.matrix
        adjacency = self.adjacency
        error = self.error
        return lambda block: block.mapped(matrix, adjacency, error)


@dataclass(frozen=True, repr=False)
class OutcomesOnly(Changed):
    """A source of outcomes, with the first column alone: it shows which rows are zero rows."""

    @property
    def dim(self) -> int:
        """The length of a row: one column."""
        return 1

    @property
    def change(self) -> Change:
        """The first column."""
        return _first_column


@dataclass(frozen=True, repr=False)
class WithoutOffset(Changed):
    """Rows without their last column, which is added to a predictor and explains nothing."""

    @property
    def dim(self) -> int:
        """The length of a row, one less than before."""
        return self.source.dim - 1

    @property
    def change(self) -> Change:
        """All columns but the last."""
        return _all_but_the_last


@dataclass(frozen=True, repr=False)
class RowsUpTo(Changed):
    """Rows of units that count alike up to ``number`` per unit: a unit with n of them counts n/max(number, n).

    Rows that could not be encoded are not among them.
    """

    number: float

    @property
    def dim(self) -> int:
        """The length of a row, which does not change."""
        return self.source.dim

    @property
    def change(self) -> Change:
        """The shares of the rows."""
        number = self.number

        def changed(block: Block) -> Block:
            assert block.starts is not None
            present = block.rows[:, 0] != 0
            if not len(block):
                return block
            sizes = np.diff(np.append(block.starts, len(block)))
            encoded = np.add.reduceat(present.astype(float), block.starts)
            counts = np.repeat(UNIT_TOTAL / np.maximum(number, encoded), sizes)
            shares = np.where(present, counts, MIN_WEIGHT)
            return replace(block, weights=shares, shares=shares)

        return changed


@dataclass(frozen=True, repr=False)
class EveryRow(Changed):
    """Rows of units that count 1 each, whatever their number: NOT PRIVATE, for fits without noise."""

    @property
    def dim(self) -> int:
        """The length of a row, which does not change."""
        return self.source.dim

    @property
    def change(self) -> Change:
        """The shares of the rows."""
        return every_row


def every_row(block: Block) -> Block:
    """Return a block whose rows count 1 each, but for those that could not be encoded."""
    counts = np.where(block.rows[..., 0] != 0, 1.0, 0.0)
    return replace(block, weights=counts, shares=counts)


def _all_but_the_last(block: Block) -> Block:
    return replace(block, rows=block.rows[..., :-1])


def _first_column(block: Block) -> Block:
    return replace(block, rows=block.rows[..., :1])


def cached(source: Source) -> Source:
    """Return the rows as a cache that is made once, in memory or, if they are too large for it, on disk: for what
    passes over them many times.

    Rows on a cluster, and rows for which there is no room on disk, stay as they are.
    """
    if isinstance(source, Rows):
        return source
    base = source
    change: Change = _unchanged
    if isinstance(source, Changed):
        base = source.source
        change = source.change
    if not isinstance(base, Blocks):
        return source
    if base.size * source.dim * 8 <= base.memory_limit:
        return gathered(base, change, source.dim)
    try:
        disk = Disk(gathered_bytes(base.size, source.dim))
        return gathered(base, change, source.dim, disk)
    except OSError:
        return source


def _unchanged(block: Block) -> Block:
    return block


def sample(source: Source) -> Callable[[OfBlock], Array] | None:
    """Return the total of the first block of each piece, scaled up to all blocks, where these are
    cached and many.

    It is for a search to begin with, and never released.
    """
    if not isinstance(source, Rows):
        return None
    layout = source.layout
    blocks = sum(len(ends) - 1 for ends in layout)
    if blocks <= _BLOCKS:
        return None

    def total(of_block: OfBlock) -> Array:
        with np.errstate(all="ignore"):  # a warning would reveal a value
            first = (next(next(piece.blocks()).apart()) for piece in source.pieces())
            return blocks / len(layout) * Sum.of(map(of_block, first)).value

    return total
