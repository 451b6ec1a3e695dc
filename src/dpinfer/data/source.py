"""Where bounded rows live.  A backend is one method: the total of a function over blocks of rows."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.data.values import numbers
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.bounded import OfBlock, clip_rows

_BLOCK = 2**16  # numbers in one block of rows: half a megabyte, so that a block stays in cache


class Source(Protocol):
    """Rows in the unit ball with labels -1 or +1, or outcomes in [-1, 1]; only sums ever leave it."""

    @property
    def n(self) -> int:
        """Number of records, public."""
        ...

    @property
    def dim(self) -> int:
        """Length of a row."""
        ...

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum of ``of_block`` over all blocks of rows."""
        ...


@dataclass(frozen=True)
class Scale:
    """The public scale of a numeric outcome: y = centre + half y~, with y~ in [-1, 1]."""

    centre: float = 0.0
    half: float = 1.0

    @classmethod
    def of_range(cls, low: float, high: float, *, centred: bool = True) -> "Scale":
        """[low, high] to [-1, 1]; without an intercept nothing could take up a shift, and 0 stays 0."""
        if not (low < high and 1e-150 < high - low < 1e150):
            raise InputError("the outcome's low and high must be finite numbers, with low < high")
        return cls((low + high) / 2, (high - low) / 2) if centred else cls(0.0, max(abs(low), abs(high)))

    @np.errstate(all="ignore")  # a warning would tell of a value
    def bounded(self, y: Array) -> Array:
        """y~, not yet clipped."""
        return (y - self.centre) / self.half

    def original(self, bounded: Array) -> Array:
        """y from y~."""
        return self.centre + self.half * bounded


UNSCALED = Scale()
"""Of labels, and of outcomes that are scaled already."""


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows in memory."""

    rows: Array
    labels: Array

    @classmethod
    def of(cls, X: npt.ArrayLike, y: npt.ArrayLike, kind: str = "margin") -> "Rows":
        """Bound the rows; a row with a NaN, an infinity or a label other than -1 and +1 counts as the zero row.

        For losses of the residual y is any number: clipped to [-1, 1], or with its row set to 0 if it is not finite.

        Guarantee [values_never_raise]: whether this raises depends on shapes and types alone.
        """
        rows = numbers("X", X, "encode it as numbers")
        remedy = "code it as -1 and +1" if kind == "margin" else "scale it to [-1, 1] by its public bounds"
        labels = numbers("y", y, remedy, kinds="fiu", depth=1)
        if rows.ndim != 2:
            raise InputError(f"X must have two dimensions (records, columns), not {rows.ndim}")
        if labels.shape != rows.shape[:1]:
            raise InputError(f"y must have one label a row of X: shapes are {labels.shape} and {rows.shape}")
        if 0 in rows.shape:
            raise InputError(f"X must have at least one record and one column, not shape {rows.shape}")
        known = np.abs(labels) == 1 if kind == "margin" else np.isfinite(labels)
        bounded = np.where(known, np.clip(labels, -1.0, 1.0), 1.0 if kind == "margin" else 0.0)
        return cls(np.where(known[:, None], clip_rows(rows), 0.0), bounded)

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.rows)

    @property
    def dim(self) -> int:
        """Length of a row."""
        return int(self.rows.shape[1])

    @np.errstate(all="ignore")  # a warning would tell of a value
    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over blocks, in a fixed order."""
        step = max(256, _BLOCK // self.dim)
        total = of_block(self.rows[:step], self.labels[:step])
        for start in range(step, self.n, step):
            total = total + of_block(self.rows[start : start + step], self.labels[start : start + step])
        return total
