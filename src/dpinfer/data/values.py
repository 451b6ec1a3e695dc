"""Cells as numbers, or as places among levels, from whatever holds them.

What is declared may be refused: a shape, the type of an array or of a column.  What single cells hold is private, and a
list or a column of objects may hold anything: there a cell counts if it is of one of a few plain types, else it is
missing.  No method of a cell is called, no cell raises, and no array gets its type from what the cells are.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from narwhals import dependencies as libraries

from dpinfer.data.columns import Level
from dpinfer.data.spelling import tidied
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array

Codes = npt.NDArray[np.intp]
Cells = npt.NDArray[Any] | nw.Series[Any]  # an array where numpy has the type, else a column of a table

BOOLEANS = {bool, np.bool_}
_REAL = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer | np.floating)}
NUMBERS = {float, int} | (_REAL - {np.timedelta64})
TEXTS = {str, np.str_}
_WORDS = {"O": "objects", "U": "text", "T": "text", "S": "bytes", "c": "complex numbers", "b": "booleans", "M": "dates"}


def numbers(name: str, values: Any, remedy: str, kinds: str = "fiub", depth: int = 2) -> Array:
    """An array of floats, NaN where a cell is no number; refused by shape and type alone.

    ``kinds`` are numpy's letters of what counts as a number.  A list has ``depth`` dimensions, 1 or 2, whatever it
    holds; other containers have their own.
    """
    if is_list(values):
        cells, shape = (values, (len(values),)) if depth == 1 else _flat(name, values, remedy)
        return _floats(cells, kinds).reshape(shape)
    return _read(
        values,
        lambda cells: to_numbers(cells, kinds),
        lambda kind: f"{name} must hold real numbers, not {kind}: {remedy}",
    )


def places(name: str, values: Any, levels: Sequence[Level]) -> Codes:
    """The place of each label among the levels, their number for anything else; refused by shape and type alone."""
    if is_list(values):
        return match(objects(values), levels)
    told = kind_of(np.asarray(levels))
    return _read(
        values,
        lambda cells: to_places(cells, levels),
        lambda kind: f"{name} is {kind} but classes= are {told}: declare the two labels of {name} as classes=",
    )


def cells_of(column: nw.Series[Any]) -> Cells:
    """A column of a table, without a look at its cells: narwhals would guess the type of objects from them."""
    native = column.to_native()
    kind, pandas = getattr(native, "dtype", None), libraries.get_pandas()
    if isinstance(kind, np.dtype) or (pandas is not None and isinstance(kind, pandas.SparseDtype)):
        return np.asarray(native)
    return objects(native.to_list()) if str(kind) == "Object" else column  # of polars


@np.errstate(all="ignore")  # a warning would tell of a value
def to_numbers(cells: Cells, kinds: str = "fiub") -> Array | None:
    """The cells as floats, NaN where one is no number; None if their type is none of numbers."""
    if isinstance(cells, np.ndarray):
        plain = np.asarray(cells)
        if plain.dtype.kind == "O":
            return unmasked(cells, _floats(plain.flat, kinds).reshape(plain.shape), np.nan)
        return unmasked(cells, plain.astype(np.float64, copy=False), np.nan) if plain.dtype.kind in kinds else None
    if all_null(cells):
        return np.full(len(cells), np.nan)
    dtype = type_of(cells)
    if dtype == nw.Boolean and "b" not in kinds:
        return None
    if is_whole(dtype):
        whole, missing = whole_of(cells)
        return np.where(missing, np.nan, whole.astype(np.float64))
    return np.asarray(cells.cast(nw.Float64).to_numpy(), dtype=np.float64) if dtype.is_numeric() else None


@np.errstate(all="ignore")
def to_places(cells: Cells, levels: Sequence[Level]) -> Codes | None:
    """The place of each cell among the levels, their number for anything else; None if their type holds no level."""
    text, other = isinstance(levels[0], str), len(levels)
    if isinstance(cells, np.ndarray):
        fits = cells.dtype.kind in ("OUT" if text else "Obiuf")
        return unmasked(cells, match(np.asarray(cells), levels), other) if fits else None
    if all_null(cells):
        return np.full(len(cells), other)
    categories = categories_of(cells)
    if categories is not None:  # they may be anything
        codes: Codes = np.append(match(categories, levels), other)[cells.to_native().cat.codes.to_numpy()]
        return codes
    if text:
        return _text_places(cells, levels)
    if is_whole(type_of(cells)):
        whole, missing = whole_of(cells)
        return np.where(missing, other, match(whole, levels))
    found = to_numbers(cells)
    return None if found is None else match(found, levels)


def match(values: npt.NDArray[Any], levels: Sequence[Level]) -> Codes:
    """The place of each value of an array among the levels; their number for anything else.

    Texts are the same up to white space around them and to how accents are stored.
    """
    text = isinstance(levels[0], str)
    if text or values.dtype.kind == "O":
        found, plain = _Places({tidied(level): j for j, level in enumerate(levels)}), NUMBERS | BOOLEANS
        cells = values.astype(object, copy=False).flat
        if text:
            each = [found[cell] if type(cell) in TEXTS else len(levels) for cell in cells]
        else:
            each = [found.get(cell, len(levels)) if type(cell) in plain else len(levels) for cell in cells]
        return np.array(each, dtype=np.intp).reshape(values.shape)
    codes = np.full(values.shape, len(levels))
    for j, level in enumerate(levels):
        codes[values == level] = j
    return codes


class _Places(dict[Any, int]):
    """The place of a text among levels; what a text is like once tidied is found out once."""

    def __init__(self, levels: dict[Any, int]) -> None:
        super().__init__(levels)
        self._levels = levels

    def __missing__(self, text: str) -> int:
        self[text] = self._levels.get(tidied(text), len(self._levels))
        return self[text]


def kind_of(cells: Cells) -> str:
    """The type of a column in a word: the type's own text may hold the values that occur, or their length."""
    if isinstance(cells, np.ndarray):
        return _WORDS.get(cells.dtype.kind, cells.dtype.name)
    if all_null(cells):
        return "Null"
    return "Categorical" if categories_of(cells) is not None else type(type_of(cells)).__name__


def is_list(values: Any) -> bool:
    """Whether a container has no type of its own: a list, a tuple and their kin."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray) and not _is_typed(values)


def _is_typed(values: Any) -> bool:
    """Whether a container has a type of its own: an array of any library, or one of Python's own."""
    own = isinstance(values, array | memoryview)
    return own or hasattr(values, "__array__") or hasattr(values, "__array_interface__")


def _flat(name: str, values: Sequence[Any], remedy: str) -> tuple[list[Any], tuple[int, int]]:
    """The cells of a list of rows of equal length, and its shape."""
    rows = [_row(row) for row in values]
    width = len(rows[0] or ()) if rows else 0
    cells: list[Any] = []
    for row in rows:
        if row is None or len(row) != width:
            raise InputError(f"{name} is not a rectangular array, a list of rows of equal length: {remedy}")
        cells += row
    return cells, (len(rows), width)


def _row(row: Any) -> list[Any] | None:
    """The cells of one row of a list, by the methods of plain containers; None if it is none of them."""
    if issubclass(type(row), list):
        return list(list.__iter__(row))
    if issubclass(type(row), tuple):
        return list(tuple.__iter__(row))
    return list(row) if type(row) is np.ndarray and row.ndim == 1 else None


def _read(values: Any, of: Callable[[Cells], Any], refusal: Callable[[str], str]) -> npt.NDArray[Any]:
    """What is read from each column of a table, side by side, or from one column or array of any shape."""
    values, columns = nw.to_native(values, pass_through=True), None
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
    found = None if cells is None else of(cells)
    if found is None:
        raise InputError(refusal(type(values).__name__ if cells is None else kind_of(cells)))
    return np.asarray(found)


def column_of(values: Any) -> Cells | None:
    """A column of some library, or an array; None if it is neither."""
    pandas, arrow = libraries.get_pandas(), libraries.get_pyarrow()
    if pandas is not None and isinstance(values, pandas.Index | pandas.api.extensions.ExtensionArray):
        values = pandas.Series(values, dtype=values.dtype)
    if arrow is not None and isinstance(values, arrow.Array):
        values = arrow.chunked_array([values])
    column = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(column, nw.Series):
        return cells_of(column)
    if not _is_typed(values):
        return None
    try:
        return values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except Exception:  # a foreign container's own message may quote a value
        return None


def objects(values: Iterable[Any]) -> npt.NDArray[Any]:
    """An array of objects, each as it is."""
    values = list(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _floats(values: Iterable[Any], kinds: str) -> Array:
    plain = NUMBERS | BOOLEANS if "b" in kinds else NUMBERS
    return np.array([_float(value) if type(value) in plain else np.nan for value in values], dtype=np.float64)


def _float(value: Any) -> float:
    """A plain number; what is too large for a float is missing."""
    try:
        return float(value)
    except OverflowError:
        return np.nan


def unmasked(cells: npt.NDArray[Any], found: npt.NDArray[Any], missing: float) -> npt.NDArray[Any]:
    """What was found in an array, with the cells that numpy's masks hide as missing."""
    return np.where(np.ma.getmaskarray(cells), missing, found) if isinstance(cells, np.ma.MaskedArray) else found


def is_whole(dtype: nw.dtypes.DType) -> bool:
    """Booleans, and integers that numpy has."""
    return dtype == nw.Boolean or (dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128))  # numpy ends at 64 bits


def whole_of(column: nw.Series[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Integers or booleans and which are missing, by numpy: Arrow refuses large integers."""
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    return np.asarray(column.fill_null(False if column.dtype == nw.Boolean else 0).to_numpy()), missing


def _text_places(column: nw.Series[Any], levels: Sequence[Level]) -> Codes | None:
    native = column.to_native()
    arrow = getattr(native, "type", getattr(getattr(native, "dtype", None), "pyarrow_dtype", None))
    if type_of(column) not in (nw.String, nw.Categorical, nw.Enum):
        return None
    if "string" not in str(getattr(arrow, "value_type", "string")):  # Arrow's dictionaries hold anything
        return None
    if getattr(getattr(native, "dtype", None), "storage", "") == "python":  # may hold what Arrow cannot
        return match(objects(native.to_list()), levels)
    coded = _coded(column, arrow)
    known = [text.decode(errors="surrogateescape") for text in coded.dictionary.cast("large_binary").to_pylist()]
    places = np.append(match(objects(known), levels), len(levels))
    return np.asarray(places[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])


def _coded(column: nw.Series[Any], arrow: Any) -> Any:
    """A column of texts as Arrow's codes and their dictionary."""
    native = column.to_native()
    if hasattr(native, "unify_dictionaries") and hasattr(arrow, "value_type"):
        coded = native.unify_dictionaries()
    else:
        as_it_is = column.dtype == nw.String and str(arrow) != "string_view"  # which Arrow does not compare
        texts = column if as_it_is else column.cast(nw.String)
        stored = texts.to_native() if hasattr(texts.to_native(), "dictionary_encode") else texts.to_arrow()
        coded = stored.dictionary_encode()
    return coded.combine_chunks() if hasattr(coded, "chunks") else coded


def type_of(column: nw.Series[Any]) -> nw.dtypes.DType:
    """The type of a column, unknown where narwhals has no name for it."""
    try:
        return column.dtype
    except Exception:
        return nw.Unknown()


def all_null(column: nw.Series[Any]) -> bool:
    """A type that libraries give to a column of nothing but missing values: it fits all others."""
    native = column.to_native()
    return str(getattr(native, "dtype", getattr(native, "type", ""))) in ("Null", "null", "null[pyarrow]")


def categories_of(column: nw.Series[Any]) -> npt.NDArray[Any] | None:
    """The categories of a column of pandas, which are what occurs in it, unless they were declared."""
    kind, pandas = getattr(column.to_native(), "dtype", None), libraries.get_pandas()
    return objects(kind.categories) if pandas is not None and isinstance(kind, pandas.CategoricalDtype) else None
