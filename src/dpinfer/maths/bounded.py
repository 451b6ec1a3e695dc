"""Rows in the unit ball, and sums that know how far one record moves them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array

OfBlock = Callable[[Array, Array], Array]
"""From a block of rows (m, d) and labels (m,) to its share of a sum."""


@dataclass(frozen=True)
class BoundedSum:
    """A sum over records and the most its Frobenius norm can move between neighbouring data sets."""

    of_block: OfBlock
    bound: float


@np.errstate(all="ignore")  # a warning would tell of a value
def clip_rows(rows: Array) -> Array:
    """Shrink every row into the unit ball; a row with a NaN or an infinity becomes the zero row.

    Guarantee [rows_are_bounded]: every returned row is finite and has norm at most 1, up to rounding of the last bit.
    """
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    unit = rows / np.where(largest > 0, largest, 1.0)  # so that no square overflows
    norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
    return np.where(largest * norm > 1, unit / norm, rows)
