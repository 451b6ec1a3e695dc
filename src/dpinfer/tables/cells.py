"""The cells of any column: as numbers, or as codes of the values that occur; no cell raises.

What is declared may be refused: a shape, the type of an array or of a column.  What single cells
hold is private, and a list or a column of objects may hold anything: there a cell counts if it is
of one of a few plain types, else it is missing.  No method of a cell is called, no cell raises, and
no array gets its type from what the cells are.

Numbers are read as numbers (`to_numbers`).  Everything else is read in two steps: `factorize` says
which value each cell has, by whatever table of values the column has of its own, and then the
values are looked at, each once:

| asked for | function | what a value becomes |
| --- | --- | --- |
| levels of a schema | `levels.to_level_codes` | its code: the index of its level |
| levels to be learned | `levels.tally` | its text, if it can be a level |
| dates | `days.to_days` | the number of its day |
| ids of units | `ids.to_ids` | a number, in the order in which ids first occur |
| where the rows of an id go | `ids.hashes` | a number that is the same for equal ids of any type |
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from narwhals import dependencies as libraries

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array

Codes = npt.NDArray[np.intp]
Cells = npt.NDArray[Any] | nw.Series[Any]
"""An array where numpy has the type, else a column of a table."""
Values: TypeAlias = "npt.NDArray[Any] | pa.Array"
"""Different values of a column: an array, or different texts, bytes, dates or decimals of Arrow."""


_BOOLEANS = {bool, np.bool_}
_REAL = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer | np.floating)}
_NUMBERS = {float, int} | (_REAL - {np.timedelta64})
TEXTS = {str, np.str_}
BYTES = {bytes, np.bytes_}
PLAIN_NUMBERS = _NUMBERS | _BOOLEANS
ARROW_TEXTS = ("string", "large_string")
ARROW_BYTES = ("binary", "large_binary", "fixed_size_binary")
_ARROW_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
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
    return read_columns(
        values,
        lambda cells: to_numbers(cells, kinds),
        lambda kind: f"{name} must hold real numbers, not {kind}: {remedy}",
    )


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


def read_columns(
    values: Any, of: Callable[[Cells], Any], refusal: Callable[[str], str]
) -> npt.NDArray[Any]:
    """Return what is read from each column of a table, side by side, or from one column or array of
    any shape.
    """
    values = nw.to_native(values, pass_through=True)
    columns = None
    if libraries.is_pandas_like_dataframe(values):  # by position: names may occur twice
        columns = [values.iloc[:, j] for j in range(values.shape[1])]
    elif libraries.is_polars_dataframe(values):
        columns = values.get_columns()
    elif libraries.is_pyarrow_table(values):
        columns = values.columns
    if columns is not None:
        parts = [read_columns(column, of, refusal) for column in columns]
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
    if is_all_null(cells):
        return "Null"
    if categories_of(cells) is not None:
        return "Categorical"
    return type(type_of(cells)).__name__


def type_of(column: nw.Series[Any]) -> nw.dtypes.DType:
    """Return the type of a column, unknown where narwhals has no name for it."""
    try:
        return column.dtype
    except Exception:
        return nw.Unknown()


def is_integral(dtype: nw.dtypes.DType) -> bool:
    """Whether a type is boolean, or an integer of at most 64 bits, as numpy has them."""
    if dtype == nw.Boolean:
        return True
    return dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128)


def is_all_null(column: nw.Series[Any]) -> bool:
    """Whether a column has the type that libraries give to a column of nothing but missing values: it fits all
    others.
    """
    native = column.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", ""))
    return str(kind) in ("Null", "null", "null[pyarrow]")


def categories_of(column: nw.Series[Any]) -> npt.NDArray[Any] | None:
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


@np.errstate(all="ignore")  # a warning would reveal a value
def to_numbers(cells: Cells, kinds: str = "fiub") -> Array | None:
    """Return the cells as floats, NaN where one is no number; None if their type is none of
    numbers.
    """
    if isinstance(cells, np.ndarray):
        return _array_numbers(cells, kinds)
    if is_all_null(cells):
        return np.full(len(cells), np.nan)
    dtype = type_of(cells)
    if dtype == nw.Boolean and "b" not in kinds:
        return None
    if is_integral(dtype):
        integers, missing = integers_of(cells)
        return np.where(missing, np.nan, integers.astype(np.float64))
    if not dtype.is_numeric():
        return None
    return np.asarray(cells.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _array_numbers(cells: npt.NDArray[Any], kinds: str) -> Array | None:
    plain = np.asarray(cells)
    if plain.dtype.kind == "O":
        return unmasked(cells, _floats(plain.flat, kinds).reshape(plain.shape), np.nan)
    if plain.dtype.kind not in kinds:
        return None
    return unmasked(cells, plain.astype(np.float64, copy=False), np.nan)


def _floats(values: Iterable[Any], kinds: str) -> Array:
    plain = PLAIN_NUMBERS if "b" in kinds else _NUMBERS
    cells = [to_float(value) if type(value) in plain else np.nan for value in values]
    return np.array(cells, dtype=np.float64)


def to_float(value: Any, beyond: float = np.nan) -> float:
    """Return a plain number as a float; ``beyond`` for what no float can hold, which counts as
    missing.
    """
    try:
        return float(value)
    except (OverflowError, ValueError):
        return beyond


def integers_of(column: nw.Series[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return integers or booleans and which are missing, by numpy: Arrow refuses large integers."""
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    filled = column.fill_null(False if column.dtype == nw.Boolean else 0)
    return np.asarray(filled.to_numpy()), missing


def unmasked(cells: npt.NDArray[Any], result: npt.NDArray[Any], missing: float) -> npt.NDArray[Any]:
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
        return unmasked(cells, np.arange(len(cells)), -1), np.asarray(cells)
    if is_all_null(cells):
        return np.full(len(cells), -1), objects([])
    categories = categories_of(cells)
    if categories is not None:
        return category_codes(cells), categories
    dtype = type_of(cells)
    if is_integral(dtype) or dtype.is_float():
        return _number_codes(cells)
    if _is_python_text(cells):
        return factorize(objects(cells.to_list()))
    return _arrow_codes(cells)


def _number_codes(column: nw.Series[Any]) -> tuple[Codes, Values]:
    """Return codes and values of numbers; integers stay integers, as floats cannot tell large ones
    apart.
    """
    if is_integral(type_of(column)):
        values, missing = integers_of(column)
        return np.where(missing, -1, np.arange(len(values))), values
    return np.arange(len(column)), np.asarray(to_numbers(column))  # a null is a NaN


def category_codes(column: nw.Series[Any]) -> Codes:
    """Return the codes of a column of pandas with categories, -1 where a cell is missing."""
    return np.asarray(column.to_native().cat.codes.to_numpy())  # of few bits, for few categories


def _arrow_codes(column: nw.Series[Any]) -> tuple[Codes, Values] | None:
    """Return codes and values by Arrow's hash table."""
    native = column.to_native()
    cells = native if isinstance(native, pa.ChunkedArray) else column.to_arrow()
    if not pa.types.is_dictionary(cells.type):
        return _encoded(cells) if _is_coded(cells.type) else None
    if not (_is_coded(cells.type.value_type) or _is_numeric(cells.type.value_type)):
        return None
    dictionary = one_dictionary(cells)
    inner, values = _encoded(dictionary.dictionary)  # in which a value may stand twice
    if _is_numeric(values.type):
        values = values.to_numpy(zero_copy_only=False)
    return np.append(inner, -1)[dictionary_indices(dictionary)], values


def _is_coded(kind: pa.DataType) -> bool:
    """Whether Arrow's hash table takes a type, and equal values of it are the same id or level."""
    plain = (*ARROW_TEXTS, *ARROW_BYTES, *_ARROW_VIEWS, "date", "timestamp", "decimal")
    return str(kind).startswith(plain)


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return not pa.types.is_float16(kind)
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def one_dictionary(cells: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
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
    return dictionary_indices(encoded), encoded.dictionary


def dictionary_indices(encoded: pa.DictionaryArray) -> Codes:
    """Return the indices, -1 where one is missing."""
    indices = encoded.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(-1)
    return np.asarray(indices.to_numpy(zero_copy_only=False), dtype=np.intp)


def texts_of(values: Values) -> npt.NDArray[Any] | None:
    """Return values as objects, of which some may be texts, bytes that are not UTF-8 escaped; None
    if the type holds no text.
    """
    if isinstance(values, np.ndarray):
        return values.astype(object, copy=False) if values.dtype.kind in "OUT" else None
    if not str(values.type).startswith(ARROW_TEXTS):
        return None
    stored = values.cast(pa.large_binary()).to_pylist()
    return objects(text.decode(errors="surrogateescape") for text in stored)
