"""Rows that are encoded anew in every pass, block by block.

Beside what it reads, such a source takes no memory that grows with the number of records.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block
from dpinfer.rows.source import (
    PIECE,
    Blocks,
    Piece,
    Rows,
    block_height,
    counted,
    cuts,
    labelled,
    most_records,
)
from dpinfer.schema.design import Design
from dpinfer.schema.unit import Unit


@dataclass(frozen=True, repr=False)
class Raw:
    """Some records in original units, one number per column and NaN where a row cannot be encoded.

    Labels are those of a source, not yet bounded; ids are numbers, below 0 where one is missing.
    """

    values: Array
    labels: Array
    ids: Indices | None = None
    weights: Array | None = None

    def __getitem__(self, some: slice) -> "Raw":
        return Raw(
            self.values[some],
            self.labels[some],
            None if self.ids is None else self.ids[some],
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
        block = labelled(self.design.rows(raw.values), raw.labels, self.kind)
        if not self.unit.columns:
            return block
        return counted(block, self.unit.most, raw.ids, raw.weights)


@dataclass(frozen=True, repr=False)
class Encoded(Blocks):
    """Records of which each is a unit, read as often as there are passes.

    ``read`` hands them out in order, as pieces of whole blocks but for the last; a piece is read by
    whoever works on it.  ``memory_limit`` is what encoded rows may take.
    """

    records: int
    encoding: Encoding
    read: Callable[[int], Iterator[Callable[[], Raw]]]
    memory_limit: float = np.inf

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

    def pieces(self) -> Iterator[Piece]:
        """Each as it is read."""
        size = block_height(self.dim) * PIECE
        for number, read in enumerate(self.read(size)):
            yield Piece(number * size, partial(self._blocks, read))

    def _blocks(self, read: Callable[[], Raw]) -> Iterator[Block]:
        raw = read()
        for first, last in cuts(len(raw.values), block_height(self.dim)):
            yield self.encoding.block(raw[first:last])


def in_memory(raw: Raw, encoding: Encoding) -> Blocks:
    """Records that are in memory already."""
    n = len(raw.values)
    most_records(n)
    if encoding.unit.many:
        return Rows(encoding.block(raw), encoding.unit.number)

    def read(size: int) -> Iterator[Callable[[], Raw]]:
        for first, last in cuts(n, size):
            yield partial(raw.__getitem__, slice(first, last))

    return Encoded(n, encoding, read)
