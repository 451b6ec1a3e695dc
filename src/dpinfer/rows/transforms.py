"""Rows that are changed block by block in every pass, and rows that are cached."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block, Change, OfBlock, Sum
from dpinfer.neighbours import Neighbours
from dpinfer.rows.source import Blocks, Disk, Rows, Source, gathered, gathered_bytes

_BLOCKS = 64  # of more of them a sample is taken
_ENOUGH = 2**16  # records that show where the numbers of a column are


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
        """What becomes of a block.  It may travel: it holds public and released numbers, and not
        the source.
        """
        raise NotImplementedError

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over changed blocks."""
        changed = self.change
        return self.source.total(lambda block: of_block(changed(block)))


@dataclass(frozen=True, repr=False)
class Mapped(Changed):
    """A source whose rows are mapped by a released matrix."""

    matrix: Array
    neighbours: Neighbours

    @property
    def dim(self) -> int:
        """Length of a mapped row."""
        return len(self.matrix)

    @property
    def change(self) -> Change:
        """The mapped rows, with their weights."""
        matrix = self.matrix
        neighbours = self.neighbours
        return lambda block: block.mapped(matrix, neighbours)


@dataclass(frozen=True, repr=False)
class OutcomesOnly(Changed):
    """A source of outcomes, with the first column alone: it tells which rows are zero rows."""

    @property
    def dim(self) -> int:
        """One column."""
        return 1

    @property
    def change(self) -> Change:
        """The first column."""
        return _first_column


def _first_column(block: Block) -> Block:
    return replace(block, rows=block.rows[:, :1])


def cached(source: Source) -> Source:
    """The same rows made once, in memory or, if they are too large for it, on disk: for what passes
    over them many times.

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


def part_of(source: Source, neighbours: Neighbours, records: int = _ENOUGH) -> Source:
    """Every k-th block of cached rows, at least so many records; or all rows, if they are not many
    more or may lose their places.

    Guarantee [parts_are_public]: which records are in a part depends on their number and on nothing
    else, so a sum over the part moves between neighbours by at most its bound.  Where one record
    more or less would move the others to other places, the part is all rows.
    """
    if not (neighbours.in_place and isinstance(source, Rows)):
        return source
    every = source.size // max(records, 1)
    if every < 2:
        return source
    blocks = [[first, last] for ends in source.layout for first, last in pairwise(ends)]
    return replace(source, ends=tuple(blocks[::every]))


def sample(source: Source) -> Callable[[OfBlock], Array] | None:
    """The total of the first block of each piece, scaled up to all blocks, where these are cached
    and many.

    It is for a search to begin with, and never released.
    """
    if not isinstance(source, Rows):
        return None
    layout = source.layout
    blocks = sum(len(ends) - 1 for ends in layout)
    if blocks <= _BLOCKS:
        return None

    def total(of_block: OfBlock) -> Array:
        with np.errstate(all="ignore"):  # a warning would tell of a value
            first = (next(piece.blocks()) for piece in source.pieces())
            return blocks / len(layout) * Sum.of(map(of_block, first)).value

    return total
