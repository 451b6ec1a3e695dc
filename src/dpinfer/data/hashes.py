"""Where the rows of an id go: a number an id, the same for the same id in every part of a table.

Different ids may have the same number, which costs time only.
"""

import zlib
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from dpinfer.data.values import (
    BOOLEANS,
    NUMBERS,
    TEXTS,
    Cells,
    categories_of,
    cells_of,
    is_whole,
    objects,
    to_numbers,
    type_of,
)
from dpinfer.maths.arrays import Array

Hashes = npt.NDArray[np.int64]

_NUMBERS = NUMBERS | BOOLEANS | {Decimal}
_TEXTS = TEXTS | {bytes, np.bytes_}
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio: multiples are far apart


def hashes(column: Any) -> Hashes:
    """One number an id of a column of pandas.

    Guarantee [units_meet]: ids that are the same unit in memory (`dpinfer.data.ids.to_ids`) have the same number, also
    where parts of a table hold them in columns of different types.
    """
    return _of_cells(cells_of(nw.from_native(column, series_only=True)))


def _of_cells(cells: Cells) -> Hashes:
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "biuf":
            return _of_numbers(cells.astype(np.float64))
        return _of_objects(cells.astype(object)) if cells.dtype.kind in "OUTS" else np.zeros(len(cells), np.int64)
    categories = categories_of(cells)
    if categories is not None:
        return np.asarray(np.append(_of_objects(categories), 0)[cells.to_native().cat.codes.to_numpy()])
    dtype = type_of(cells)
    if is_whole(dtype) or dtype.is_float():
        numbers = to_numbers(cells)
        assert numbers is not None
        return _of_numbers(numbers)
    return _of_objects(objects(cells.to_list()))


def _of_numbers(values: Array) -> Hashes:
    """Equal numbers are equal as floats; -0 is 0."""
    bits = (values + 0.0).view(np.uint64)
    return np.asarray((bits ^ (bits >> np.uint64(32))) * _ODD >> np.uint64(20), dtype=np.int64)  # the last are often 0


def _of_objects(cells: npt.NDArray[Any]) -> Hashes:
    """Numbers as floats, texts by their bytes; all else together, as what is equal may differ in type, or in hash."""
    numbers = np.fromiter((type(cell) in _NUMBERS for cell in cells), bool, len(cells))
    texts = np.fromiter((type(cell) in _TEXTS for cell in cells), bool, len(cells))
    found = np.zeros(len(cells), np.int64)
    found[numbers] = _of_numbers(np.array([_float(cell) for cell in cells[numbers]], np.float64))
    found[texts] = [_sum_of(cell) for cell in cells[texts]]
    return found


def _float(cell: Any) -> float:
    try:
        return float(cell)
    except (OverflowError, ValueError):
        return np.inf


def _sum_of(text: Any) -> int:
    return zlib.crc32(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
