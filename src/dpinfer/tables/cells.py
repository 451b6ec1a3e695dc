"""Any column as numbers, codes of levels, ids or hashes; no cell raises.

What is declared may be refused: a shape, the type of an array or of a column.  What single cells
hold is private, and a list or a column of objects may hold anything: there a cell counts if it is
of one of a few plain types, else it is missing.  No method of a cell is called, no cell raises, and
no array gets its type from what the cells are.

Numbers are read as numbers (`to_numbers`).  Everything else is read in two steps: `factorize` says
which value each cell has, by whatever table of values the column has of its own, and then the
values are looked at, each once:

| asked for | function | what a value becomes |
| --- | --- | --- |
| levels of a schema | `to_level_codes` | its code: the index of its level |
| dates | `to_days` | the number of its day |
| ids of units | `to_ids` | a number, in the order in which ids first occur |
| levels to be learned | `tally` | its text, if it can be a level |
| where the rows of an id go | `hashes` | a number that is the same for equal ids of any type |
"""

import datetime
import math
import uuid
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias
from unicodedata import normalize

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from narwhals import dependencies as libraries

from dpinfer.adjacency import Adjacency
from dpinfer.errors import InputError
from dpinfer.mechanisms.histograms import LevelCounts, histogram_bound
from dpinfer.numerics.arrays import Array
from dpinfer.schema import dates
from dpinfer.schema.columns import Level, spelling_key, tidied, tidy

Codes = npt.NDArray[np.intp]
Hashes = npt.NDArray[np.int64]
Cells = npt.NDArray[Any] | nw.Series[Any]
"""An array where numpy has the type, else a column of a table."""
Values: TypeAlias = "npt.NDArray[Any] | pa.Array"
"""Different values of a column: an array, or different texts, bytes, dates or decimals of Arrow."""

LONGEST = 200
"""Characters of a level; a longer text is no level, and neither is an empty one."""
MARKS = 4
"""Characters that one character is stored as, at most, where accents stand alone (NFD)."""

_BOOLEANS = {bool, np.bool_}
_REAL = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer | np.floating)}
_NUMBERS = {float, int} | (_REAL - {np.timedelta64})
_TEXTS = {str, np.str_}
_BYTES = {bytes, np.bytes_}
_PLAIN_NUMBERS = _NUMBERS | _BOOLEANS
_ARROW_TEXTS = ("string", "large_string")
_ARROW_BYTES = ("binary", "large_binary", "fixed_size_binary")
_ARROW_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
_TIMES = {datetime.date, datetime.datetime}
_SECONDS = 86_400  # seconds of a day
_UNITS = {unit: 1000**k for k, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))}
_PER_DAY = {"D": 1, "h": 24, "m": 1440} | {unit: _SECONDS * k for unit, k in _UNITS.items()}
_FARTHEST = 100_000  # years, months or weeks from 1970
_FIRST_SECOND = -62_135_596_800  # of the year 1
_LAST_SECOND = 253_402_300_799  # of the year 9999
_RULE = "drop"  # of `missing` in a schema: no level can have this name
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio: multiples are far apart
_WORDS = {
    "O": "objects",
    "U": "text",
    "T": "text",
    "S": "bytes",
    "c": "complex numbers",
    "b": "booleans",
    "M": "dates",
}


# Arrays and lists that a caller hands over


def numbers(name: str, values: Any, remedy: str, kinds: str = "fiub", depth: int = 2) -> Array:
    """Return an array of floats, NaN where a cell is no number; refused by shape and type alone.

    ``kinds`` are numpy's letters of what counts as a number.  A list has ``depth`` dimensions, 1 or
    2, whatever it holds; other containers have their own.
    """
    if is_list(values):
        if depth == 1:
            return _floats(values, kinds)
        cells, shape = _flat(name, values, remedy)
        return _floats(cells, kinds).reshape(shape)
    return _read(
        values,
        lambda cells: to_numbers(cells, kinds),
        lambda kind: f"{name} must hold real numbers, not {kind}: {remedy}",
    )


def level_codes(name: str, values: Any, levels: Sequence[Level]) -> Codes:
    """Return the code of each label, the number of levels for anything else; refused by shape and
    type alone.
    """
    if is_list(values):
        return match(objects(values), levels)
    declared = kind_of(np.asarray(levels))
    return _read(
        values,
        lambda cells: to_level_codes(cells, levels),
        lambda kind: (
            f"{name} is {kind} but classes= are {declared}: "
            f"declare the two labels of {name} as classes="
        ),
    )


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


def is_list(values: Any) -> bool:
    """Whether a container has no type of its own: a list, a tuple or the like."""
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str | bytes | bytearray)
        and not _is_typed(values)
    )


def objects(values: Iterable[Any]) -> npt.NDArray[Any]:
    """Return an array of objects, each as it is."""
    values = list(values)
    return np.fromiter(values, dtype=object, count=len(values))


def column_of(values: Any) -> Cells | None:
    """Return a column of some library, or an array; None if it is neither."""
    pandas = libraries.get_pandas()
    if pandas is not None and isinstance(
        values, pandas.Index | pandas.api.extensions.ExtensionArray
    ):
        values = pandas.Series(values, dtype=values.dtype)
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    column = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(column, nw.Series):
        return cells_of(column)
    if not _is_typed(values):
        return None
    if isinstance(values, np.ma.MaskedArray):
        return values
    try:
        return np.asarray(values)
    except Exception:  # a foreign container's own message may quote a value
        return None


def cells_of(column: nw.Series[Any]) -> Cells:
    """Return a column of a table, without a look at its cells: narwhals would guess the type of
    objects from them.
    """
    native = column.to_native()
    kind = getattr(native, "dtype", None)
    pandas = libraries.get_pandas()
    if isinstance(kind, np.dtype) or (pandas is not None and isinstance(kind, pandas.SparseDtype)):
        return np.asarray(native)
    if str(kind) == "Object":  # of polars
        return objects(native.to_list())
    return column


def _is_typed(values: Any) -> bool:
    """Whether a container has a type of its own: an array of any library, or one of Python's own."""
    if isinstance(values, array | memoryview):
        return True
    return hasattr(values, "__array__") or hasattr(values, "__array_interface__")


def _flat(name: str, values: Sequence[Any], remedy: str) -> tuple[list[Any], tuple[int, int]]:
    """Return the cells of a list of rows of equal length, and its shape."""
    rows = [_row(row) for row in values]
    width = len(rows[0] or ()) if rows else 0
    cells: list[Any] = []
    for row in rows:
        if row is None or len(row) != width:
            raise InputError(
                f"{name} is not a rectangular array, a list of rows of equal length: {remedy}"
            )
        cells += row
    return cells, (len(rows), width)


def _row(row: Any) -> list[Any] | None:
    """Return the cells of one row of a list, by the methods of plain containers; None if it is none
    of them.
    """
    if issubclass(type(row), list):
        return list(list.__iter__(row))
    if issubclass(type(row), tuple):
        return list(tuple.__iter__(row))
    if type(row) is np.ndarray and row.ndim == 1:
        return list(row)
    return None


def _read(
    values: Any, of: Callable[[Cells], Any], refusal: Callable[[str], str]
) -> npt.NDArray[Any]:
    """Return what is read from each column of a table, side by side, or from one column or array of
    any shape.
    """
    values = nw.to_native(values, pass_through=True)
    columns = None
    if libraries.is_pandas_like_dataframe(values):  # by place: names may occur twice
        columns = [values.iloc[:, j] for j in range(values.shape[1])]
    elif libraries.is_polars_dataframe(values):
        columns = values.get_columns()
    elif libraries.is_pyarrow_table(values):
        columns = values.columns
    if columns is not None:
        parts = [_read(column, of, refusal) for column in columns]
        return np.stack(parts, axis=1) if parts else np.empty((len(values), 0))
    cells = column_of(values)
    if cells is None:
        raise InputError(refusal(type(values).__name__))
    result = of(cells)
    if result is None:
        raise InputError(refusal(kind_of(cells)))
    return np.asarray(result)


# Types of columns


def kind_of(cells: Cells) -> str:
    """Return the type of a column in a word: the type's own text may hold the values that occur, or
    their length.
    """
    if isinstance(cells, np.ndarray):
        return _WORDS.get(cells.dtype.kind, cells.dtype.name)
    if _all_null(cells):
        return "Null"
    if _categories(cells) is not None:
        return "Categorical"
    return type(type_of(cells)).__name__


def type_of(column: nw.Series[Any]) -> nw.dtypes.DType:
    """Return the type of a column, unknown where narwhals has no name for it."""
    try:
        return column.dtype
    except Exception:
        return nw.Unknown()


def _is_integral(dtype: nw.dtypes.DType) -> bool:
    """Whether a type is boolean, or an integer of at most 64 bits, as numpy has them."""
    if dtype == nw.Boolean:
        return True
    return dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128)


def _all_null(column: nw.Series[Any]) -> bool:
    """Whether a column has the type that libraries give to a column of nothing but missing values: it fits all
    others.
    """
    native = column.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", ""))
    return str(kind) in ("Null", "null", "null[pyarrow]")


def _categories(column: nw.Series[Any]) -> npt.NDArray[Any] | None:
    """Return the categories of a column of pandas, which are what occurs in it, unless they were
    declared.
    """
    kind = getattr(column.to_native(), "dtype", None)
    pandas = libraries.get_pandas()
    if pandas is None or not isinstance(kind, pandas.CategoricalDtype):
        return None
    return objects(kind.categories)


def _is_python_text(column: nw.Series[Any]) -> bool:
    """Whether pandas stores texts as objects of Python, which may be texts that Arrow cannot hold."""
    return getattr(getattr(column.to_native(), "dtype", None), "storage", "") == "python"


# Numbers


@np.errstate(all="ignore")  # a warning would tell of a value
def to_numbers(cells: Cells, kinds: str = "fiub") -> Array | None:
    """Return the cells as floats, NaN where one is no number; None if their type is none of
    numbers.
    """
    if isinstance(cells, np.ndarray):
        return _array_numbers(cells, kinds)
    if _all_null(cells):
        return np.full(len(cells), np.nan)
    dtype = type_of(cells)
    if dtype == nw.Boolean and "b" not in kinds:
        return None
    if _is_integral(dtype):
        integers, missing = _integers(cells)
        return np.where(missing, np.nan, integers.astype(np.float64))
    if not dtype.is_numeric():
        return None
    return np.asarray(cells.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _array_numbers(cells: npt.NDArray[Any], kinds: str) -> Array | None:
    plain = np.asarray(cells)
    if plain.dtype.kind == "O":
        return _unmasked(cells, _floats(plain.flat, kinds).reshape(plain.shape), np.nan)
    if plain.dtype.kind not in kinds:
        return None
    return _unmasked(cells, plain.astype(np.float64, copy=False), np.nan)


def _floats(values: Iterable[Any], kinds: str) -> Array:
    plain = _PLAIN_NUMBERS if "b" in kinds else _NUMBERS
    cells = [_float(value) if type(value) in plain else np.nan for value in values]
    return np.array(cells, dtype=np.float64)


def _float(value: Any, beyond: float = np.nan) -> float:
    """Return a plain number as a float; ``beyond`` for what no float can hold, which counts as
    missing.
    """
    try:
        return float(value)
    except (OverflowError, ValueError):
        return beyond


def _integers(column: nw.Series[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return integers or booleans and which are missing, by numpy: Arrow refuses large integers."""
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    filled = column.fill_null(False if column.dtype == nw.Boolean else 0)
    return np.asarray(filled.to_numpy()), missing


def _unmasked(
    cells: npt.NDArray[Any], result: npt.NDArray[Any], missing: float
) -> npt.NDArray[Any]:
    """Return the result of an array with the cells that numpy masks as missing."""
    if isinstance(cells, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(cells), missing, result)
    return result


# Which value each cell has


def factorize(cells: Cells) -> tuple[Codes, Values] | None:
    """Return the index of each cell's value in an array of values, -1 where a cell is missing; None
    if cells of the type cannot be compared.

    Where a column has a table of its values, as categories have, or where Arrow makes one, each
    value stands in the array once; else the array is the column.
    """
    if isinstance(cells, np.ndarray):
        return _unmasked(cells, np.arange(len(cells)), -1), np.asarray(cells)
    if _all_null(cells):
        return np.full(len(cells), -1), objects([])
    categories = _categories(cells)
    if categories is not None:
        return _category_codes(cells), categories
    dtype = type_of(cells)
    if _is_integral(dtype) or dtype.is_float():
        return _number_codes(cells)
    if _is_python_text(cells):
        return factorize(objects(cells.to_list()))
    return _arrow_codes(cells)


def _number_codes(column: nw.Series[Any]) -> tuple[Codes, Values]:
    """Return codes and values of numbers; integers stay integers, as floats cannot tell large ones
    apart.
    """
    if _is_integral(type_of(column)):
        values, missing = _integers(column)
        return np.where(missing, -1, np.arange(len(values))), values
    return np.arange(len(column)), np.asarray(to_numbers(column))  # a null is a NaN


def _category_codes(column: nw.Series[Any]) -> Codes:
    return np.asarray(column.to_native().cat.codes.to_numpy())  # of few bits, for few categories


def _arrow_codes(column: nw.Series[Any]) -> tuple[Codes, Values] | None:
    """Return codes and values by Arrow's hash table."""
    native = column.to_native()
    cells = native if isinstance(native, pa.ChunkedArray) else column.to_arrow()
    if not pa.types.is_dictionary(cells.type):
        return _encoded(cells) if _is_coded(cells.type) else None
    if not (_is_coded(cells.type.value_type) or _is_numeric(cells.type.value_type)):
        return None
    dictionary = _one_dictionary(cells)
    inner, values = _encoded(dictionary.dictionary)  # in which a value may stand twice
    if _is_numeric(values.type):
        values = values.to_numpy(zero_copy_only=False)
    return np.append(inner, -1)[_indices(dictionary)], values


def _is_coded(kind: pa.DataType) -> bool:
    """Whether Arrow's hash table takes a type, and equal values of it are the same id or level."""
    plain = (*_ARROW_TEXTS, *_ARROW_BYTES, *_ARROW_VIEWS, "date", "timestamp", "decimal")
    return str(kind).startswith(plain)


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return not pa.types.is_float16(kind)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _one_dictionary(cells: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a column of codes in one piece, with one dictionary."""
    if isinstance(cells, pa.DictionaryArray):
        return cells
    if not len(cells):  # Arrow does not combine chunks without rows of every type
        nothing = pa.array([], cells.type.value_type)
        return pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), nothing)
    if any(chunk.dictionary.null_count for chunk in cells.chunks):  # Arrow does not unify these
        cells = cells.cast(cells.type.value_type).dictionary_encode()
    return cells.unify_dictionaries().combine_chunks()


def _encoded(cells: pa.Array | pa.ChunkedArray) -> tuple[Codes, pa.Array]:
    kind = _ARROW_VIEWS.get(str(cells.type))
    if pa.types.is_decimal(cells.type) and cells.type.bit_width < 128:
        kind = pa.decimal128(cells.type.precision, cells.type.scale)
    if kind is not None:  # which Arrow does not compare
        cells = cells.cast(kind)
    if not len(cells):
        cells = pa.array([], cells.type)
    encoded = cells.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return _indices(encoded), encoded.dictionary


def _indices(encoded: pa.DictionaryArray) -> Codes:
    """Return the indices, -1 where one is missing."""
    indices = encoded.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(-1)
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.intp)


def _texts(values: Values) -> npt.NDArray[Any] | None:
    """Return values as objects, of which some may be texts, bytes that are not UTF-8 escaped; None
    if the type holds no text.
    """
    if isinstance(values, np.ndarray):
        return values.astype(object, copy=False) if values.dtype.kind in "OUT" else None
    if not str(values.type).startswith(_ARROW_TEXTS):
        return None
    stored = values.cast(pa.large_binary()).to_pylist()
    return objects(text.decode(errors="surrogateescape") for text in stored)


# Dates


@np.errstate(all="ignore")  # a warning would tell of a value
def to_days(cells: Cells) -> Array | None:
    """Return dates, times and ISO texts as days since 1970-01-01, NaN where a cell is none; None if
    their type holds no date.

    A time counts as its date, by the clock of its own time zone.
    """
    coded = factorize(cells)
    if coded is None:
        return None
    codes, values = coded
    days = _value_days(values)
    return None if days is None else np.append(days, np.nan)[codes]


def _value_days(values: Values) -> Array | None:  # noqa: PLR0911  (one per type)
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return _numpy_days(values)
    texts = _texts(values)
    if texts is not None:
        return np.array([_day(cell) for cell in texts], dtype=float)
    if isinstance(values, np.ndarray):
        return None
    if pa.types.is_date32(values.type):
        return _plain_floats(values.cast(pa.int32()))
    if pa.types.is_date64(values.type):
        return np.floor_divide(_plain_floats(values.cast(pa.int64())), 1000 * _SECONDS)
    if pa.types.is_timestamp(values.type):
        return _arrow_days(values)
    return None


def _plain_floats(values: pa.Array) -> Array:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _day(cell: Any) -> float:
    """Return the day of an object, NaN unless it is a plain date, time or text."""
    kind = type(cell)
    if kind in _TEXTS:
        return dates.day_of_text(str(cell))
    pandas = libraries.get_pandas()
    if kind in _TIMES or (pandas is not None and kind is pandas.Timestamp):
        return dates.day_of(cell)
    if kind is np.datetime64:
        return float(_numpy_days(np.array([cell]))[0])
    return np.nan


def _numpy_days(values: npt.NDArray[Any]) -> Array:
    """Return days by integer division, and where a calendar is needed by numpy, which raises where
    a time is too far: beyond that all dates are clipped.
    """
    unit, step = np.datetime_data(values.dtype)
    counts = values.astype(np.int64)
    if unit == "generic":  # holds nothing but missing values
        return np.full(values.shape, np.nan)
    if unit in ("Y", "M", "W"):
        near = np.clip(counts, -_FARTHEST // step, _FARTHEST // step).astype(values.dtype)
        days = near.astype("M8[D]").astype(np.float64)
    elif step == 1 and _PER_DAY[unit] < 2**63:
        days = np.floor_divide(counts, _PER_DAY[unit]).astype(np.float64)
    else:  # of units that nobody has: to the precision of floats
        days = np.floor(counts.astype(np.float64) * (step / _PER_DAY[unit]))
    return np.where(np.isnat(values), np.nan, days)


def _arrow_days(values: pa.Array) -> Array | None:
    """Return the days of times of Arrow, in their own zone where they have one; None for a zone
    that is not known.
    """
    per_second = _UNITS[values.type.unit]
    integers = values.cast(pa.int64())
    missing = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    numbers = np.asarray(integers.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    seconds = np.clip(np.floor_divide(numbers, per_second), _FIRST_SECOND, _LAST_SECOND)
    if values.type.tz is not None:
        # one more, so that a zone is looked up where there is no cell, too
        times = pa.array(np.append(seconds, 0), pa.timestamp("s", values.type.tz))
        try:
            local = pc.local_timestamp(times)
        except pa.ArrowException:
            return None
        seconds = np.asarray(local.cast(pa.int64()).to_numpy(zero_copy_only=False))[:-1]
    return np.where(missing, np.nan, np.floor_divide(seconds, _SECONDS).astype(np.float64))


# Levels that the schema states


@np.errstate(all="ignore")
def to_level_codes(
    cells: Cells, levels: Sequence[Level], *, any_spelling: bool = False
) -> Codes | None:
    """Return the code of each cell, the number of levels for anything else; None if their type
    holds no level.  With ``any_spelling`` case and runs of white space do not count.
    """
    if isinstance(cells, np.ndarray):
        return _array_level_codes(cells, levels, any_spelling)
    if not _all_null(cells) and _categories(cells) is None:  # which may be anything
        if not isinstance(levels[0], str):
            return _number_level_codes(cells, levels)
        if type_of(cells) not in (nw.String, nw.Categorical, nw.Enum):
            return None
    coded = _dictionary_codes(cells) or factorize(cells)
    texts = None if coded is None else _texts(coded[1])
    if coded is None or texts is None:
        return None
    return np.append(match(texts, levels, any_spelling=any_spelling), len(levels))[coded[0]]


def _dictionary_codes(column: nw.Series[Any]) -> tuple[Codes, Values] | None:
    """Return the dictionary of Arrow as it is, in which a value may stand twice; None where there
    is none.
    """
    native = column.to_native()
    if not (isinstance(native, pa.ChunkedArray) and pa.types.is_dictionary(native.type)):
        return None
    dictionary = _one_dictionary(native)
    return _indices(dictionary), dictionary.dictionary


def _array_level_codes(
    cells: npt.NDArray[Any], levels: Sequence[Level], any_spelling: bool
) -> Codes | None:
    kinds = "OUT" if isinstance(levels[0], str) else "Obiuf"
    if cells.dtype.kind not in kinds:
        return None
    codes = match(np.asarray(cells), levels, any_spelling=any_spelling)
    return _unmasked(cells, codes, len(levels))


def _number_level_codes(column: nw.Series[Any], levels: Sequence[Level]) -> Codes | None:
    if _is_integral(type_of(column)):
        integers, missing = _integers(column)
        return np.where(missing, len(levels), match(integers, levels))
    values = to_numbers(column)
    return None if values is None else match(values, levels)


def match(
    values: npt.NDArray[Any], levels: Sequence[Level], *, any_spelling: bool = False
) -> Codes:
    """Return the code of each value of an array, the number of levels for anything else.

    Texts are the same up to white space around them and to how accents are stored; with
    ``any_spelling`` also up to case and runs of white space.
    """
    other = len(levels)
    if isinstance(levels[0], str):
        index = _LooseLevelIndex(levels) if any_spelling else _LevelIndex(levels)
        cells = values.astype(object, copy=False).flat
        codes = [index[cell] if type(cell) in _TEXTS else other for cell in cells]
        return np.array(codes, dtype=np.intp).reshape(values.shape)
    if values.dtype.kind == "O":
        known = {level: j for j, level in enumerate(levels)}
        cells = values.flat
        codes = [
            known.get(cell, other) if type(cell) in _PLAIN_NUMBERS else other for cell in cells
        ]
        return np.array(codes, dtype=np.intp).reshape(values.shape)
    result = np.full(values.shape, other)
    for j, level in enumerate(levels):
        result[values == level] = j
    return result


class _LevelIndex(dict[Any, int]):
    """The codes of texts; each text is tidied once."""

    def __init__(self, levels: Sequence[Level]) -> None:
        self._levels = {tidied(level): j for j, level in enumerate(levels)}
        # Texts with the same NFC have the same NFD, and no character is stored as none in it: a
        # text is at most as long as the NFD of the level that it is.
        self._max_length = max(len(normalize("NFD", level)) for level in self._levels)
        super().__init__(self._levels)

    def __missing__(self, text: str) -> int:
        self[text] = self._levels.get(_tidy(text, self._max_length), len(self._levels))
        return self[text]


class _LooseLevelIndex(_LevelIndex):
    """The same, where case and runs of white space do not count."""

    def __init__(self, levels: Sequence[Level]) -> None:
        dict.__init__(self)
        self._levels = {spelling_key(str(level)): j for j, level in enumerate(levels)}
        self._max_length = max(map(len, self._levels))  # a text is no longer than what it is alike

    def __missing__(self, text: str) -> int:
        bare = " ".join(text.split())
        key = spelling_key(bare) if len(bare) <= self._max_length else None
        self[text] = self._levels.get(key, len(self._levels))
        return self[text]


def _tidy(text: str, max_length: int) -> str | None:
    """Return a text as it is compared, None if it has more than ``max_length`` characters.

    Guarantee [long_cells_are_quick]: the time for a cell grows as its length, for one of any
    length.  To tidy a text takes the square of it, where accents are many, so one that no level can
    be is not tidied.
    """
    bare = text.strip()
    return tidy(bare) if len(bare) <= max_length else None


# Ids


def to_ids(cells: Cells) -> Codes | None:
    """Return one number per cell, the same for the same id, in the order in which ids first occur;
    -1 where it is missing: a null, a NaN, an empty text, an object that is no plain value.

    Nothing else is ever made of an id, so that text, numbers and dates that name the same units
    give the same fit.  None if the type is none of ids.
    """
    if not isinstance(cells, np.ndarray) and _categories(cells) is not None:
        return _in_order(_category_codes(cells))  # whatever the categories are, they differ
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
    if str(values.type).startswith((*_ARROW_TEXTS, *_ARROW_BYTES)):
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


@np.errstate(all="ignore")  # a warning would tell of a value
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
    **dict.fromkeys(_TEXTS, _text_key),
    **dict.fromkeys(_BYTES, _bytes_key),
    **dict.fromkeys(_PLAIN_NUMBERS, _numpy_key),
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


# Levels that are to be learned


def tally(cells: Cells, units: Codes | None, adjacency: Adjacency) -> LevelCounts:
    """Count how many units have each level of a column of text; ``units`` has one number per row,
    below 0 where the id is missing: such a row is nobody's.

    Without it every row is a unit.

    Guarantee [one_level_a_unit]: a unit counts once, in the level that most of its rows have, or
    the first of these in the alphabet.  No order of rows changes it, so that neighbours may differ
    in the order of all rows too: at most two counts move, by one each (replace), or one does
    (add-remove), and no other level occurs or vanishes.
    """
    codes, texts = _learned_codes(cells)
    if units is not None:
        owned = (codes >= 0) & (units >= 0)
        codes = _modes(codes[owned], units[owned])
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.float64)
    there = np.flatnonzero(counts)
    return LevelCounts(tuple(texts[j] for j in there), counts[there], histogram_bound(adjacency))


def _modes(codes: Codes, units: Codes) -> Codes:
    """Return the mode of the codes of each unit's rows, the smallest where several are as frequent."""
    width = np.max(codes, initial=0) + 1  # both are below the number of rows, far from 2³¹
    pairs, rows = np.unique(units * width + codes, return_counts=True)
    of_unit, code = np.divmod(pairs, width)
    best = np.lexsort((code, -rows, of_unit))
    first = np.unique(of_unit[best], return_index=True)[1]
    return np.asarray(code[best[first]])


def _learned_codes(cells: Cells) -> tuple[Codes, list[str]]:
    """Return the index of each cell in an alphabetical list of different texts, and the list; -1 for
    a cell that is no level.  Whether a cell is a level depends on the cell alone.
    """
    coded = factorize(cells)
    texts = None if coded is None else _texts(coded[1])
    if coded is None or texts is None:
        return np.full(len(cells), -1), []
    first_codes: dict[str, int] = {}  # in the order in which texts occur
    of_values = np.full(len(texts) + 1, -1)  # and one for what is missing
    for j, cell in enumerate(texts):
        # a text is no longer than its NFD, which is at most so many times as long as its NFC
        level = _tidy(cell, MARKS * LONGEST) if type(cell) in _TEXTS else None
        if level is not None and _is_level(level):
            of_values[j] = first_codes.setdefault(level, len(first_codes))
    levels = sorted(first_codes)
    ranks = np.array([*map({text: j for j, text in enumerate(levels)}.get, first_codes), -1])
    return ranks[of_values][coded[0]], levels


def _is_level(text: str) -> bool:
    """Whether a schema file can hold a text as a level."""
    if not 0 < len(text) <= LONGEST or text == _RULE:
        return False
    # half of a pair, or a byte that is not UTF-8: UTF-8 has no bytes for it
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


# Where the rows of an id go


def hashes(column: Any) -> Hashes:
    """Return one number per id of a column of pandas.  Different ids may have the same number,
    which costs time only.

    Guarantee [units_meet]: ids that are the same unit in memory (`dpinfer.tables.cells.to_ids`)
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
    numeric = _of_type(cells, _PLAIN_NUMBERS | {Decimal})
    floats = [_float(cell, beyond=np.inf) for cell in cells[numeric]]
    result[numeric] = _number_hashes(np.array(floats, np.float64))
    texts = _of_type(cells, _TEXTS | _BYTES)
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
