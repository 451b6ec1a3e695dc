"""Ids of any type as numbers: the same number for the same id, in the order in which they first occur.

Nothing else is ever made of an id, so that text, numbers and dates that name the same units give the same fit.  Which
types are ids is decided by type; no id raises.
"""

import datetime
import uuid
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
    Codes,
    all_null,
    categories_of,
    column_of,
    is_list,
    is_whole,
    kind_of,
    objects,
    to_numbers,
    type_of,
    unmasked,
    whole_of,
)
from dpinfer.errors import InputError

_PLAIN = BOOLEANS | NUMBERS | TEXTS | {bytes, np.bytes_, np.datetime64, datetime.date, uuid.UUID}
_TYPES = ("string", "large_string", "binary", "large_binary", "fixed_size_binary", "date", "timestamp", "decimal")


def identities(name: str, values: Any, n: int) -> Codes:
    """A number for each of n ids of a list, an array or a column; -1 for a missing one.

    Refused by shape and type alone.
    """
    cells = objects(values) if is_list(values) else column_of(values)
    if cells is None or cells.shape != (n,):
        raise InputError(f"{name} must have one id a row, in one dimension")
    found = to_ids(cells)
    if found is None:
        raise InputError(f"{name} must hold ids, as text, numbers or dates, not {kind_of(cells)}: convert it to text")
    return found


def to_ids(cells: Cells) -> Codes | None:
    """A number a cell, -1 where it is missing: a null, a NaN, an empty text, an object that is no plain value.

    None if the type is none of ids.
    """
    found: npt.NDArray[Any] | None
    if isinstance(cells, np.ndarray):
        plain = _of_array(np.asarray(cells))
        found = None if plain is None else unmasked(cells, plain, -1)
    elif all_null(cells):
        found = np.full(len(cells), -1)
    elif categories_of(cells) is not None:  # whatever they are, they differ
        found = cells.to_native().cat.codes.to_numpy()
    else:
        found = _of_column(cells)
    return None if found is None else _in_order(found)


def _of_column(cells: nw.Series[Any]) -> npt.NDArray[Any] | None:
    dtype = type_of(cells)
    if is_whole(dtype):
        whole, missing = whole_of(cells)
        return np.where(missing, -1, np.unique(whole, return_inverse=True)[1])
    if dtype.is_float():
        numbers = to_numbers(cells)
        return None if numbers is None else _of_array(numbers)
    if getattr(getattr(cells.to_native(), "dtype", None), "storage", "") == "python":  # of pandas: any text fits in
        return _of_array(objects(cells.to_list()))
    return _of_arrow(cells)


def _in_order(codes: npt.NDArray[Any]) -> Codes:
    """Codes in the order in which they first occur; below 0 is missing."""
    known = codes >= 0
    _, first, again = np.unique(codes[known], return_index=True, return_inverse=True)
    place = np.empty(len(first), dtype=np.intp)
    place[np.argsort(first)] = np.arange(len(first))
    found = np.full(len(codes), -1, dtype=np.intp)
    found[known] = place[again]
    return found


def _of_array(cells: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    kind = cells.dtype.kind
    if kind in "OT":
        seen: dict[Any, int] = {}
        each = (seen.setdefault(cell, len(seen)) if _is_id(cell) else -1 for cell in cells.tolist())
        return np.fromiter(each, np.intp, len(cells))
    if kind not in "USbiufM":
        return None
    missing = cells == cells.dtype.type() if kind in "US" else cells != cells  # noqa: PLR0124
    return np.where(missing, -1, np.unique(cells, return_inverse=True)[1])


def _is_id(cell: Any) -> bool:
    """Whether an object is a plain value that is there; only such are compared, so that none can raise."""
    if type(cell) is datetime.datetime:
        return cell.tzinfo is None or type(cell.tzinfo) is datetime.timezone
    if type(cell) is Decimal:
        return cell.is_finite()
    return type(cell) in _PLAIN and cell == cell and cell not in ("", b"")  # noqa: PLR0124


def _of_arrow(column: nw.Series[Any]) -> npt.NDArray[Any] | None:
    """Text, bytes, dates and decimals, by Arrow's hash table."""
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a table is read)
    import pyarrow.compute as pc  # noqa: PLC0415

    cells = column.to_arrow()
    if pa.types.is_dictionary(cells.type):
        return to_ids(nw.from_native(pa.chunked_array([cells.cast(cells.type.value_type)]), series_only=True))
    view = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(cells.type))
    cells = cells if view is None else cells.cast(view)
    if not str(cells.type).startswith(_TYPES):
        return None
    found = np.asarray(pc.dictionary_encode(cells).indices.fill_null(-1).to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(cells.type) or pa.types.is_decimal(cells.type):
        return found
    empty = pc.equal(pc.binary_length(cells), 0).fill_null(True)
    return np.where(np.asarray(empty.to_numpy(zero_copy_only=False), dtype=bool), -1, found)
