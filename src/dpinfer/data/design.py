"""From columns in original units to rows in the unit ball, by a fixed public scaling, and back.

Each numeric column is mapped to [-1, 1] by its bounds, each factor to 0/1 dummies of which at most one is 1, so
R² = #numeric + #factors bounds the squared norm; the row is (1, x~)/sqrt(R² + 1).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.data.schema import Category, Number
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array

INTERCEPT = "(Intercept)"


@dataclass(frozen=True, eq=False)
class Design:
    """The public encoding of a row.  Columns do not count the intercept, which comes first in every row.

    ``centre`` and ``half`` map a column into [-1, 1] or, for a dummy, leave it alone; ``terms`` is R².
    """

    columns: tuple[str, ...]
    low: Array
    high: Array
    centre: Array
    half: Array
    terms: int

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
    def of_terms(cls, terms: list[Number | Category]) -> "Design":
        """One column a number, one a level of a factor except its reference."""
        facts = [fact for term in terms for fact in _facts(term)]
        names, low, high, centre, half = zip(*facts, strict=True) if facts else ((), (), (), (), ())
        return cls(names, np.array(low), np.array(high), np.array(centre), np.array(half), len(terms))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return (INTERCEPT, *self.columns)

    @np.errstate(all="ignore")  # a warning would tell of a value
    def rows(self, values: Array) -> Array:
        """Bounded rows from columns in original units; a row with a NaN or an infinity becomes the zero row.

        Guarantee [public_scaling]: every row has norm at most 1, whatever the values.
        """
        known = np.isfinite(values).all(axis=1, keepdims=True)
        clipped = np.clip(np.where(known, values, self.centre), self.low, self.high)
        rows = np.column_stack([np.ones(len(values)), (clipped - self.centre) / self.half])
        return np.where(known, rows / np.sqrt(self.terms + 1), 0.0)

    def back(self) -> Array:
        """The matrix from coefficients of the bounded rows to coefficients in original units."""
        matrix = np.diag(np.concatenate([[1.0], 1 / self.half]))
        matrix[0, 1:] = -self.centre / self.half
        return np.asarray(matrix / np.sqrt(self.terms + 1))


def _facts(term: Number | Category) -> list[tuple[str, float, float, float, float]]:
    """(name, low, high, centre, half) of each column of a term."""
    if isinstance(term, Number):
        return [(term.name, term.low, term.high, (term.low + term.high) / 2, (term.high - term.low) / 2)]
    return [(f"{term.name}[{level}]", 0.0, 1.0, 0.0, 1.0) for level in term.levels if level != term.reference]
