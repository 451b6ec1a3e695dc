"""Where bounded rows live.  A backend is one method: the total of a function over blocks of rows."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.rounding import BLOCK, MOST_RECORDS
from dpinfer.maths.sums import Block, OfBlock, clip_rows
from dpinfer.neighbours import Neighbours

_BLOCK = 2**16  # numbers in one block of rows: half a megabyte, so that a block stays in cache
_HEAVIEST = 1e100  # times the bound of weights: beyond, floats do not tell how much more
_LEAST = 2.0**-500  # of what a row counts: by less nothing can be divided safely


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
class Rows:
    """Rows in memory.  ``number`` is that of the units, where it was declared: it is believed."""

    block: Block
    number: int | None = None

    @classmethod
    def of(cls, X: npt.ArrayLike, y: npt.ArrayLike, kind: str = "margin") -> "Rows":
        """Bound arrays; a row with a NaN, an infinity or a label other than -1 and +1 counts as the zero row.

        For losses of the residual y is any number: clipped to [-1, 1], or with its row set to 0 if it is not finite.

        Guarantee [values_never_raise]: whether this raises depends on shapes and types alone.
        """
        from dpinfer.data.values import numbers  # noqa: PLC0415  (loads narwhals)

        rows = numbers("X", X, "encode it as numbers")
        remedy = "code it as -1 and +1" if kind == "margin" else "scale it to [-1, 1] by its public bounds"
        labels = numbers("y", y, remedy, kinds="fiu", depth=1)
        if rows.ndim != 2:
            raise InputError(f"X must have two dimensions (records, columns), not {rows.ndim}")
        return cls.encoded(clip_rows(rows), labels, kind)

    @classmethod
    def encoded(cls, rows: Array, labels: Array, kind: str) -> "Rows":
        """Rows that a `Design` has bounded; one whose label is not known counts as the zero row."""
        if labels.shape != rows.shape[:1]:
            raise InputError("y must have one label a row of X, in one dimension")
        if rows.shape[1] == 0:
            raise InputError(f"X must have at least one column, not shape {rows.shape}")
        if len(rows) > MOST_RECORDS:
            raise InputError(
                f"there are more than {MOST_RECORDS:,} records, for which sums are not proved exact enough"
            )
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

    @np.errstate(all="ignore")  # a warning would tell of a value
    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over blocks, in a fixed order, with compensation."""
        cuts = self._cuts(min(BLOCK, max(256, _BLOCK // self.dim)))
        total = of_block(self.block[: cuts[0]])
        lost = np.zeros_like(total)
        for start, end in itertools.pairwise(cuts):
            part = of_block(self.block[start:end])
            ahead = total + part
            back = ahead - total
            lost = lost + ((total - (ahead - back)) + (part - back))  # what the addition lost, exactly
            total = ahead
        return np.asarray(total + lost)

    def _cuts(self, step: int) -> list[int]:
        """Where blocks of at most ``step`` rows end; with ids only where a unit does, be it longer than that."""
        n, starts = len(self.block), self.block.starts
        if starts is None or not n:
            return [*range(step, n, step), n]
        ends, cuts, last = np.append(starts[1:], n), [], 0
        while last < n:
            fits = int(np.searchsorted(ends, last + step, side="right"))
            alone = int(np.searchsorted(ends, last, side="right"))  # a unit longer than a block
            last = int(ends[max(fits - 1, alone)])
            cuts.append(last)
        return cuts

    @np.errstate(all="ignore")  # a warning would tell of a value
    def counted(
        self,
        most: float,
        units: Indices | None = None,
        weights: Array | None = None,
        number: int | None = None,
    ) -> "Rows":
        """The rows of each unit together, each counting ω/max(most, sum of ω over its unit).

        ``units`` has a number a row, below 0 where the id is missing: such a row counts for nothing, and is no unit.
        Without it each row is one.  ω are the ``weights``, 1 by default, and 0 for a row that could not be encoded: it
        takes nothing from the other rows of its unit.  A row without a positive one is a zero row,
        and so is one whose part of its unit is so small that floats would lose it.  ``number`` is that of the units,
        where it was declared.

        Guarantee [units_count_at_most_one]: what the rows of a unit count adds up to at most 1, in real numbers.
        """
        rows, labels = self.block.rows, self.block.labels
        omega = np.ones(len(rows)) if weights is None else np.where(np.isfinite(weights), weights, 0.0)
        omega = np.where(rows.any(axis=1), np.clip(omega / most, 0.0, _HEAVIEST), 0.0)  # of what can be used
        starts, total = None, omega
        if units is not None:
            order = np.argsort(units, kind="stable")
            order = order[units[order] >= 0]
            rows, labels, omega = rows[order], labels[order], omega[order]
            _, starts, sizes = np.unique(units[order], return_index=True, return_counts=True)
            together = np.add.reduceat(omega, starts) if len(order) else omega
            total = np.repeat(together, sizes)
        shares = omega / np.maximum(1.0, total) * (1 - 2.0**-20)  # a sum of 2²⁸ numbers errs by less
        counts = shares > _LEAST
        rows, shares = np.where(counts[:, None], rows, 0.0), np.where(counts, shares, _LEAST)
        return Rows(Block(rows, labels, shares, shares, starts), number)


@dataclass(frozen=True, repr=False)
class Mapped:
    """A source whose rows are mapped by a released matrix, block by block."""

    source: Source
    matrix: Array
    neighbours: Neighbours

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
        return self.source.total(lambda block: of_block(block.mapped(self.matrix, self.neighbours)))


@dataclass(frozen=True, repr=False)
class Pending:
    """Records of which nothing was computed yet, and that are not read yet if they are in a table."""

    n: int
    read: Callable[[], Rows]


def mapped(source: Source, matrix: Array, neighbours: Neighbours) -> Source:
    """The rows matrix @ x with their weights; rows in memory are mapped once."""
    if isinstance(source, Rows):
        return Rows(source.block.mapped(matrix, neighbours), source.number)
    return Mapped(source, matrix, neighbours)
