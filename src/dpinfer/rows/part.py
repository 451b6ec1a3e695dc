"""A public part of the rows, every k-th block, for releases that need no more."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from dpinfer.maths.sums import Block
from dpinfer.neighbours import Neighbours
from dpinfer.rows.source import PIECE, Blocks, Piece, Source

ENOUGH = 2**16
"""Records that are enough to see where the numbers of a column are."""


def part_of(source: Source, neighbours: Neighbours, records: int = ENOUGH) -> Source:
    """At least so many records, or all of them if they are not many more or may lose their places.

    Guarantee [parts_are_public]: which records are in a part depends on their number and on nothing
    else, so a sum over the part moves between neighbours by at most its bound.  Where one record
    more or less would move the others to other places, the part is all rows.
    """
    if not (neighbours.in_place and isinstance(source, Blocks)):
        return source
    every = min(PIECE, source.size // max(records, 1))
    return EveryBlock(source, every) if every > 1 else source


@dataclass(frozen=True, repr=False)
class EveryBlock(Blocks):
    """Block 0 of some rows and every ``every``-th after it, at most `PIECE`: each piece has one."""

    source: Blocks
    every: int

    @property
    def n(self) -> int:
        """Number of records of the source."""
        return self.source.n

    @property
    def dim(self) -> int:
        """Length of a row."""
        return self.source.dim

    @property
    def height(self) -> int:
        """Rows of a block."""
        return self.source.height

    @property
    def size(self) -> int:
        """Number of rows of the part."""
        rows = self.source.size
        starts = range(0, rows, self.every * self.height)
        return sum(min(self.height, rows - start) for start in starts)

    @property
    def shared(self) -> bool:
        """As the source."""
        return self.source.shared

    def pieces(self) -> Iterator[Piece]:
        """Those of the source that have a block of the part."""
        blocks = -(-self.source.size // self.height)
        taken = 0
        for piece in self.source.pieces():
            first = piece.start // self.height
            skipped = -first % self.every
            if first + skipped >= blocks:
                continue
            yield Piece(taken, partial(self._some, piece, skipped))
            taken += self.height * len(range(skipped, min(PIECE, blocks - first), self.every))

    def _some(self, piece: Piece, skipped: int) -> Iterator[Block]:
        return islice(piece.blocks(), skipped, None, self.every)
