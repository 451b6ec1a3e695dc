"""Rows that are encoded anew in every pass, block by block: beside what it reads a source takes no
memory of size n.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block
from dpinfer.rows.source import Blocks, Piece, Rows, cuts, most_records
from dpinfer.rows.unit_shares import counted
from dpinfer.schema.design import Design
from dpinfer.schema.unit import Unit


@dataclass(frozen=True, repr=False)
class Raw:
    """Some records in original units, one number a column and NaN where a row cannot be encoded.

    Labels are those of a source, not yet bounded; ids are numbers, below 0 where one is missing.
    """

    values: Array
    labels: Array
    ids: Indices | None = None
    weights: Array | None = None

    def __getitem__(self, some: slice) -> "Raw":
        ids = None if self.ids is None else self.ids[some]
        return Raw(
            self.values[some],
            self.labels[some],
            ids,
            None if self.weights is None else self.weights[some],
        )


@dataclass(frozen=True, repr=False)
class Encoding:
    """From records to bounded rows; public, so that it may travel."""

    design: Design
    kind: str

    @property
    def unit(self) -> Unit:
        """Whose rows they are."""
        return self.design.unit

    def block(self, raw: Raw) -> Block:
        """Bounded rows with what each counts; with ids all rows of each unit must be there."""
        known = np.abs(raw.labels) == 1 if self.kind == "margin" else np.isfinite(raw.labels)
        rows, labels = self.design.rows(raw.values), np.clip(raw.labels, -1.0, 1.0)
        if not known.all():
            rows[~known], labels[~known] = 0.0, 1.0 if self.kind == "margin" else 0.0
        block = Block(rows, labels)
        return counted(block, self.unit.most, raw.ids, raw.weights) if self.unit.columns else block


@dataclass(frozen=True, repr=False)
class Encoded(Blocks):
    """Records of which each is a unit, read as often as there are passes.

    ``read`` hands them out in order, as pieces of whole blocks but for the last; a piece is read by
    whoever works on it.  ``room`` is the memory that encoded rows may take.
    """

    records: int
    encoding: Encoding
    read: Callable[[int], Iterator[Callable[[], Raw]]]
    memory: float = np.inf

    def __post_init__(self) -> None:
        most_records(self.records)

    @property
    def n(self) -> int:
        """Number of records."""
        return self.records

    @property
    def dim(self) -> int:
        """Length of a row."""
        return len(self.encoding.design.names)

    @property
    def room(self) -> float:
        """As asked."""
        return self.memory

    def pieces(self) -> Iterator[Piece]:
        """Each as it is read."""
        start, size = 0, self.piece_size
        for read in self.read(size):
            yield Piece(start, partial(self._blocks, read))
            start += size

    def _blocks(self, read: Callable[[], Raw]) -> Iterator[Block]:
        raw = read()
        for first, last in cuts(len(raw.values), self.height):
            yield self.encoding.block(raw[first:last])


def in_memory(raw: Raw, encoding: Encoding) -> Blocks:
    """Records that are in memory already."""
    n = len(raw.values)
    most_records(n)
    if encoding.unit.many:
        return Rows(encoding.block(raw), encoding.unit.number)

    def read(size: int) -> Iterator[Callable[[], Raw]]:
        yield from (partial(raw.__getitem__, slice(first, last)) for first, last in cuts(n, size))

    return Encoded(n, encoding, read)
