"""Sources whose blocks are changed one by one, and rows that are kept so that they are made once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block, Change, OfBlock
from dpinfer.neighbours import Neighbours
from dpinfer.rows.disk_rows import Spooled, spooled
from dpinfer.rows.source import PIECE, Blocks, Piece, Rows, Source

_MANY = 64  # blocks of which a sample is taken


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
    return replace(block, rows=block.rows[:, :1])


def kept(source: Source, *, last: bool = False) -> Source:
    """The same rows made once, in memory or, if there is no room, on disk: for what passes over
    them many times.

    With ``last`` nobody needs the rows any more that are changed.  If they were made for this fit,
    the changed ones take their place, and they are gone.
    """
    base = source.source if isinstance(source, Changed) else source
    if not isinstance(base, Blocks) or (source is base and isinstance(base, Rows | Spooled)):
        return source
    change = source.change if isinstance(source, Changed) else lambda block: block
    if last and isinstance(base, Rows) and base.own and base.dim == source.dim:
        found = base.gathered(change, source.dim, base.block.rows)
        object.__setattr__(base, "block", None)  # a later use fails
        return found
    if last and isinstance(base, Spooled) and base.dim >= source.dim:
        assert isinstance(source, Changed)
        anew = replace(source, source=base.origin)
        try:
            return base.over(change, anew)
        except OSError:
            return anew
    if 0 < base.size * source.dim * 8 <= base.room:
        return base.gathered(change, source.dim)
    return spooled(base, change, source) or source


def sample(source: Source) -> Callable[[OfBlock], Array] | None:
    """The total of a small part of the rows, scaled up, where they are kept and many.

    It is for a search to begin with, and never released.
    """
    if not isinstance(source, Rows | Spooled) or source.size < _MANY * source.height:
        return None
    blocks = -(-source.size // source.height)
    return lambda of_block: blocks / -(-blocks // PIECE) * Every(source).total(of_block)


@dataclass(frozen=True, repr=False)
class Every(Blocks):
    """The first block of each piece."""

    rows: Rows | Spooled

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
        yield Piece(0, lambda: (next(piece.blocks()) for piece in self.rows.pieces()))
