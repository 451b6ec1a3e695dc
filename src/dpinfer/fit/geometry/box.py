"""The public box a design maps its columns into, and rows seen through a released matrix."""

from dataclasses import dataclass

import numpy as np

from dpinfer.data.design import Design
from dpinfer.data.source import Rows, Source
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.bounded import OfBlock
from dpinfer.maths.geometry import Columns


@dataclass(frozen=True, eq=False)
class Box:
    """Names of the coefficients, the intercept first, and how a row r = (1, x~)/sqrt(norm2) is made.

    ``middle`` and ``half`` take x~ back to original units, middle + half x~; the intercept has 0 and 1.
    """

    names: tuple[str, ...]
    middle: Array
    half: Array
    columns: Columns
    norm2: float
    unit: str = "one record"
    schema: str = ""
    purpose: str = "fit"

    @classmethod
    def of(cls, design: Design, **facts: str) -> "Box":
        """The box of a design with an intercept; ``facts`` are the unit, schema and purpose that a ledger is told."""
        if not getattr(design, "intercept", True):
            raise InputError("the weighted and unweighted targets need an intercept: keep it in the formula")
        back = design.back()
        shrunk = back[0, 0]  # 1/sqrt(norm2)
        half = shrunk / np.diag(back)
        middle = -back[0] / shrunk * half
        middle[0] = 0.0
        columns = Columns(np.array([False, *design.dummy]), np.array([-1, *design.group], dtype=np.intp))
        return cls(design.names, middle, half, columns, float(shrunk**-2), **facts)


def projected(source: Source, matrix: Array) -> Source:
    """The rows matrix @ r; rows in memory are mapped once."""
    if isinstance(source, Rows):
        return Rows(source.rows @ matrix.T, source.labels)
    return Projected(source, matrix)


@dataclass(frozen=True, repr=False)
class Projected:
    """A source whose rows are mapped by a released matrix, block by block."""

    source: Source
    matrix: Array

    @property
    def n(self) -> int:
        """Number of records."""
        return self.source.n

    @property
    def dim(self) -> int:
        """Length of a mapped row."""
        return len(self.matrix)

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over blocks of mapped rows."""
        return self.source.total(lambda rows, labels: of_block(rows @ self.matrix.T, labels))
