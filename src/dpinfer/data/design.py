"""From columns in original units to rows in the unit ball, by a fixed public scaling, and back.

A numeric block is mapped to [-1, 1] by its range.  The columns of a block with factors, of which at most one is not 0,
are divided by their largest absolute value.  So each block has norm at most 1, R² = #blocks bounds the squared norm,
and the row is (1, x~)/sqrt(R² + 1).  Without an intercept nothing could take up a shift: numeric columns are then
divided by their largest absolute value too, and the row is x~/sqrt(R²).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.data.columns import Category, Number
from dpinfer.data.terms import Block, Terms
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array

INTERCEPT = "(Intercept)"


@dataclass(frozen=True, eq=False)
class Design:
    """The public encoding of a row.  Columns do not count the intercept, which comes first in a row that has one.

    A column is encoded as (value - centre)/half.  ``dummy`` says that it then only takes the values 0 and 1; ``group``
    is the block it comes from, and columns of one group are never nonzero together; ``norm2`` is R², which bounds the
    squared norm of the encoded columns.
    """

    columns: tuple[str, ...]
    low: Array
    high: Array
    centre: Array
    half: Array
    dummy: tuple[bool, ...]
    group: tuple[int, ...]
    norm2: float
    intercept: bool = True

    @classmethod
    def of_bounds(cls, bounds: tuple[npt.ArrayLike, npt.ArrayLike], columns: tuple[str, ...]) -> "Design":
        """Numeric columns only, with bounds (low, high): numbers for all columns, or one a column."""
        d = len(columns)
        try:
            low, high = (np.broadcast_to(np.asarray(side, dtype=float), (d,)) for side in bounds)
        except (TypeError, ValueError):
            raise InputError(
                f"bounds must be a pair (low, high) of numbers, or of {d} numbers each, one a column"
            ) from None
        return cls.of_terms(
            [Number(name, lo, hi) for name, lo, hi in zip(columns, low.tolist(), high.tolist(), strict=True)]
        )

    @classmethod
    def of_terms(cls, terms: Terms | Sequence[Number | Category]) -> "Design":
        """The encoding of the right side of a formula, or of plain columns with an intercept."""
        terms = terms if isinstance(terms, Terms) else Terms.plain(terms)
        if not terms.blocks and not terms.intercept:
            raise InputError("the formula has no terms: add a column on the right of ~, or keep the intercept")
        facts = [
            (name, *_range(block, terms.intercept), j) for j, block in enumerate(terms.blocks) for name in block.names
        ]
        names, *ranges, dummy, group = zip(*facts, strict=True) if facts else ((),) * 7
        low, high, centre, half = (np.array(side, dtype=float) for side in ranges)
        return cls(names, low, high, centre, half, dummy, group, float(len(terms.blocks)), terms.intercept)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return (INTERCEPT, *self.columns) if self.intercept else self.columns

    @np.errstate(all="ignore")  # a warning would tell of a value
    def rows(self, values: Array) -> Array:
        """Bounded rows from columns in original units; a row with a NaN or an infinity becomes the zero row.

        Guarantee [public_scaling]: every row has norm at most 1, whatever the table holds.
        """
        known = np.isfinite(values).all(axis=1, keepdims=True)
        clipped = np.clip(np.where(known, values, self.centre), self.low, self.high)
        encoded = (clipped - self.centre) / self.half
        rows = np.column_stack([np.ones(len(values)), encoded]) if self.intercept else encoded
        return np.where(known, rows / self._radius, 0.0)

    def back(self) -> Array:
        """The matrix from coefficients of the bounded rows to coefficients in original units."""
        if not self.intercept:
            return np.asarray(np.diag(1 / self.half) / self._radius)
        matrix = np.diag(np.concatenate([[1.0], 1 / self.half]))
        matrix[0, 1:] = -self.centre / self.half
        return np.asarray(matrix / self._radius)

    @property
    def _radius(self) -> float:
        return float(np.sqrt(self.norm2 + self.intercept))


def _range(block: Block, intercept: bool) -> tuple[float, float, float, float, bool]:
    """(low, high, centre, half, dummy) of the columns of a block."""
    number = block.number
    if number is None:
        return 0.0, 1.0, 0.0, 1.0, True
    low, high = number.low, number.high
    if not 1e-150 < high - low < 1e150:
        wrong = "is the same in every row" if low == high else "is too small or too large for double precision"
        raise InputError(f"{number.text} {wrong}: drop it from the formula, or change its bounds in the schema")
    if intercept and not block.factors:
        return low, high, (low + high) / 2, (high - low) / 2, False
    largest = max(abs(low), abs(high))
    if block.factors:  # a row of another level holds 0
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high, 0.0, largest, False
