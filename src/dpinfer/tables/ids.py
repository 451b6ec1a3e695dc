"""Columns of ids as numbers, the same for rows of the same unit; no cell raises.

`to_ids` numbers the ids of one table.  `hashes` gives numbers that are the same for equal ids of any type, for
tables in parts.
"""

import datetime
import math
import uuid
import zlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.tables.cells import (
    ARROW_BYTES,
    ARROW_TEXTS,
    BYTES,
    PLAIN_NUMBERS,
    TEXTS,
    Cells,
    Codes,
    Values,
    categories_of,
    category_codes,
    cells_of,
    column_of,
    factorize,
    is_list,
    kind_of,
    objects,
    to_float,
)

Hashes = npt.NDArray[np.int64]

_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio: multiples are far apart


def identities(name: str, values: Any, n: int) -> Codes:
    """Return a number for each of n ids of a list, an array or a column; -1 for a missing one.

    Refused by shape and type alone.
    """
    cells = objects(values) if is_list(values) else column_of(values)
    if cells is None or cells.shape != (n,):
        raise InputError(f"{name} must have one id a row, in one dimension")
    ids = to_ids(cells)
    if ids is None:
        raise InputError(
            f"{name} must hold ids, as text, numbers or dates, not {kind_of(cells)}: "
            "convert it to text"
        )
    return ids


def to_ids(cells: Cells) -> Codes | None:
    """Return one number per cell, the same for the same id, in the order in which ids first occur;
    -1 where it is missing: a null, a NaN, an empty text, an object that is no plain value.

    Nothing else is ever made of an id, so that text, numbers and dates that name the same units
    give the same fit.  None if the type is none of ids.
    """
    if not isinstance(cells, np.ndarray) and categories_of(cells) is not None:
        return _in_order(category_codes(cells))  # whatever the categories are, they differ
    coded = factorize(cells)
    if coded is None:
        return None
    codes, values = coded
    ids = _value_ids(values)
    return None if ids is None else _in_order(np.append(ids, -1)[codes])


def _value_ids(values: Values) -> npt.NDArray[Any] | None:
    """Return one number per value, -1 where it is no id; None if the type is none of ids."""
    if isinstance(values, np.ndarray):
        return _array_ids(values)
    ids = np.arange(len(values))
    if str(values.type).startswith((*ARROW_TEXTS, *ARROW_BYTES)):
        empty = pc.equal(pc.binary_length(values), 0)
        ids[np.asarray(empty.to_numpy(zero_copy_only=False), dtype=bool)] = -1
    return ids


def _array_ids(values: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    kind = values.dtype.kind
    if kind in "OT":
        numbers: dict[Any, int] = {}
        keys = map(_key, values.tolist())
        ids = (-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys)
        return np.fromiter(ids, np.intp, len(values))
    if kind not in "USbiufM":
        return None
    if kind in "US":
        missing = values == values.dtype.type()
    else:
        missing = values != values  # noqa: PLR0124
    return np.where(missing, -1, np.unique(values, return_inverse=True)[1])


def _key(cell: Any) -> Any:
    """Return what an object is compared by as an id, None if it is no plain value or not there.

    Guarantee [ids_never_raise]: keys are values of Python itself, whose comparison neither raises
    nor depends on which of two came first.  Those of numpy do both: ``np.int64(1) == Decimal(1)``
    is an error, and is asked only where two units have the same number.
    """
    of = _KEYS.get(type(cell))
    return None if of is None else of(cell)


def _as_it_is(cell: Any) -> Any:
    return cell


def _text_key(cell: str) -> str | None:
    return str(cell) or None


def _bytes_key(cell: bytes) -> tuple[bytes] | None:
    """Return bytes in a tuple: they have the hash of a text, with which ``python -bb`` does not
    compare them.
    """
    return (bytes(cell),) if cell else None


def _float_key(cell: float) -> float | None:
    return None if math.isnan(cell) else cell


def _numpy_key(cell: np.generic) -> Any:
    """Return Python's own number of the same value."""
    value = cell.item()
    return _float_key(value) if type(value) is float else value


@np.errstate(all="ignore")  # a warning would reveal a value
def _long_key(cell: np.longdouble) -> float | Fraction | None:
    """Return a fraction where a float has too few bits; it equals whatever has the same value."""
    near = float(cell)
    if near == cell or math.isnan(near):
        return _float_key(near)
    return Fraction(*cell.as_integer_ratio())


def _decimal_key(cell: Decimal) -> Decimal | None:
    return cell if cell.is_finite() else None


def _time_key(cell: datetime.datetime) -> datetime.datetime | None:
    """Return a time with no zone or a fixed one; other zones may be objects with methods of their own."""
    fixed = cell.tzinfo is None or type(cell.tzinfo) is datetime.timezone
    return cell if fixed else None


def _moment_key(cell: np.datetime64) -> Any:
    """Return the moment as Python has it; its unit and number where Python has none so fine or so
    far.
    """
    if np.isnat(cell):
        return None
    moment = cell.astype("M8[us]")  # rounded where a unit is finer, and wrong where it is too far
    plain = moment.item()
    if type(plain) is datetime.datetime and moment.astype(cell.dtype) == cell:
        return plain
    return cell.dtype.str, int(cell.astype(np.int64))


_KEYS: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys(TEXTS, _text_key),
    **dict.fromkeys(BYTES, _bytes_key),
    **dict.fromkeys(PLAIN_NUMBERS, _numpy_key),
    **dict.fromkeys((bool, int, datetime.date, uuid.UUID), _as_it_is),
    float: _float_key,
    np.longdouble: _long_key,
    Decimal: _decimal_key,
    datetime.datetime: _time_key,
    np.datetime64: _moment_key,
}
"""The key of an id, by its type; an object of another type is no id."""


def _in_order(numbers: npt.NDArray[Any]) -> Codes:
    """Renumber from 0 in the order in which they first occur; what is below 0 is missing."""
    present = numbers >= 0
    _, first, again = np.unique(numbers[present], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.intp)
    rank[np.argsort(first)] = np.arange(len(first))
    ids = np.full(len(numbers), -1, dtype=np.intp)
    ids[present] = rank[again]
    return ids


# Where the rows of an id go


def hashes(column: Any) -> Hashes:
    """Return one number per id of a column of pandas.  Different ids may have the same number,
    which costs time only.

    Guarantee [units_meet]: ids that are the same unit in memory (`dpinfer.tables.ids.to_ids`)
    have the same number, also where parts of a table hold them in columns of different types.
    """
    cells = cells_of(nw.from_native(column, series_only=True))
    coded = factorize(cells)
    if coded is None:
        return np.zeros(len(cells), np.int64)
    codes, values = coded
    return np.append(_value_hashes(values), 0)[codes]


def _value_hashes(values: Values) -> Hashes:
    """Hash numbers as floats, texts by their bytes; all else together, as what is equal may differ
    in type, or in hash.
    """
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "biuf":
            return _number_hashes(values.astype(np.float64))
        if values.dtype.kind not in "OUTS":
            return np.zeros(len(values), np.int64)
        cells = values.astype(object)
    elif pa.types.is_temporal(values.type):
        return np.zeros(len(values), np.int64)
    elif pa.types.is_decimal(values.type):
        cells = objects(values.to_pylist())
    else:
        cells = objects(values.cast(pa.large_binary()).to_pylist())
    result = np.zeros(len(cells), np.int64)
    numeric = _of_type(cells, PLAIN_NUMBERS | {Decimal})
    floats = [to_float(cell, beyond=np.inf) for cell in cells[numeric]]
    result[numeric] = _number_hashes(np.array(floats, np.float64))
    texts = _of_type(cells, TEXTS | BYTES)
    result[texts] = [_text_hash(cell) for cell in cells[texts]]
    return result


def _of_type(cells: npt.NDArray[Any], kinds: set[type]) -> npt.NDArray[np.bool_]:
    return np.fromiter((type(cell) in kinds for cell in cells), bool, len(cells))


def _number_hashes(values: Array) -> Hashes:
    """Hash numbers: equal ones are equal as floats, and -0 is 0."""
    bits = (values + 0.0).view(np.uint64)
    mixed = (bits ^ (bits >> np.uint64(32))) * _ODD
    return np.asarray(mixed >> np.uint64(20), dtype=np.int64)  # the last bits are often 0


def _text_hash(text: Any) -> int:
    if not isinstance(text, bytes):
        text = text.encode("utf-8", "surrogatepass")
    return zlib.crc32(text)
