"""Sources whose blocks are changed one by one, and rows that are kept so that they are made once."""

from collections.abc import Callable
from dataclasses import dataclass

from dpinfer.data.source import Blocks, Rows, Source
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block, OfBlock
from dpinfer.neighbours import Neighbours

Change = Callable[[Block], Block]


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
        """What becomes of a block.  It may travel: it holds public and released numbers, and not the source."""
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
        """The mapped rows, with their weights; on a cluster none has a place that it keeps."""
        matrix, neighbours, ordered = self.matrix, self.neighbours, isinstance(self.source, Blocks)
        return lambda block: block.mapped(matrix, neighbours, ordered=ordered)


@dataclass(frozen=True, repr=False)
class Narrow(Changed):
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
    return Block(block.rows[:, :1], block.labels, block.weights, block.shares, block.starts)


def kept(source: Source) -> Source:
    """The same rows in memory, made once, where there is room for them: for what passes over them many times."""
    base = source.source if isinstance(source, Changed) else source
    if not isinstance(base, Blocks) or (source is base and isinstance(base, Rows)):
        return source
    if not 0 < base.size * source.dim * 8 <= base.room:
        return source
    return base.gathered(source.change if isinstance(source, Changed) else lambda block: block, source.dim)
