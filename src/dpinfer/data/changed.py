"""Sources whose blocks are changed one by one, and rows that are kept so that they are made once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from dpinfer.data.source import Blocks, Piece, Rows, Source
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block, OfBlock
from dpinfer.neighbours import Neighbours

Change = Callable[[Block], Block]
_MANY, _APART = 64, 16  # blocks of which a sample is taken, and how far apart they are


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
        """The mapped rows, with their weights."""
        matrix, neighbours = self.matrix, self.neighbours
        return lambda block: block.mapped(matrix, neighbours)


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


def sample(source: Source) -> Callable[[OfBlock], Array] | None:
    """The total of a small part of the rows, scaled up, where they are in memory and many.

    It is for a search to begin with, and never released.
    """
    if not isinstance(source, Rows) or source.size < _MANY * source.height:
        return None
    blocks = -(-source.size // source.height)
    return lambda of_block: blocks / -(-blocks // _APART) * Every(source).total(of_block)


@dataclass(frozen=True, repr=False)
class Every(Blocks):
    """Some blocks of rows in memory, all over them."""

    rows: Rows

    @property
    def n(self) -> int:
        """Number of records of all blocks."""
        return self.rows.n

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.rows.dim

    def pieces(self) -> Iterator[Piece]:
        """One piece."""
        blocks = (block for piece in self.rows.pieces() for block in piece.blocks())
        yield Piece(0, lambda: islice(blocks, 0, None, _APART))
