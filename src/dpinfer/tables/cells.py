"""Cells as numbers, or as places among levels, from whatever holds them.

What is declared may be refused: a shape, the type of an array or of a column.  What single cells
hold is private, and a list or a column of objects may hold anything: there a cell counts if it is
of one of a few plain types, else it is missing.  No method of a cell is called, no cell raises, and
no array gets its type from what the cells are.

Ids of any type as numbers: the same number for the same id, in the order in which they first occur.

Nothing else is ever made of an id, so that text, numbers and dates that name the same units give
the same fit.  Which types are ids is decided by type; no id raises.

How many units have each level of a text column; what a cell says depends on the cell alone, and no
cell raises.

Where the rows of an id go: a number an id, the same for the same id in every part of a table.

Different ids may have the same number, which costs time only.
"""

import datetime
import uuid
import zlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from narwhals import dependencies as libraries

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import Tally, histogram_bound
from dpinfer.neighbours import Neighbours
from dpinfer.schema.columns import Level, tidied, tidy

Codes = npt.NDArray[np.intp]
Cells = (
    npt.NDArray[Any] | nw.Series[Any]
)  # an array where numpy has the type, else a column of a table

BOOLEANS = {bool, np.bool_}
_REAL = {kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer | np.floating)}
NUMBERS = {float, int} | (_REAL - {np.timedelta64})
TEXTS = {str, np.str_}
_WORDS = {
    "O": "objects",
    "U": "text",
    "T": "text",
    "S": "bytes",
    "c": "complex numbers",
    "b": "booleans",
    "M": "dates",
}


def numbers(name: str, values: Any, remedy: str, kinds: str = "fiub", depth: int = 2) -> Array:
    """An array of floats, NaN where a cell is no number; refused by shape and type alone.

    ``kinds`` are numpy's letters of what counts as a number.  A list has ``depth`` dimensions, 1 or
    2, whatever it holds; other containers have their own.
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
    """The place of each label among the levels, their number for anything else; refused by shape
    and type alone.
    """
    if is_list(values):
        return match(objects(values), levels)
    told = kind_of(np.asarray(levels))
    return _read(
        values,
        lambda cells: to_places(cells, levels),
        lambda kind: (
            f"{name} is {kind} but classes= are {told}: declare the two labels of {name} as classes="
        ),
    )


def cells_of(column: nw.Series[Any]) -> Cells:
    """A column of a table, without a look at its cells: narwhals would guess the type of objects
    from them.
    """
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
        return (
            unmasked(cells, plain.astype(np.float64, copy=False), np.nan)
            if plain.dtype.kind in kinds
            else None
        )
    if all_null(cells):
        return np.full(len(cells), np.nan)
    dtype = type_of(cells)
    if dtype == nw.Boolean and "b" not in kinds:
        return None
    if is_whole(dtype):
        whole, missing = whole_of(cells)
        return np.where(missing, np.nan, whole.astype(np.float64))
    return (
        np.asarray(cells.cast(nw.Float64).to_numpy(), dtype=np.float64)
        if dtype.is_numeric()
        else None
    )


@np.errstate(all="ignore")
def to_places(cells: Cells, levels: Sequence[Level]) -> Codes | None:
    """The place of each cell among the levels, their number for anything else; None if their type
    holds no level.
    """
    text, other = isinstance(levels[0], str), len(levels)
    if isinstance(cells, np.ndarray):
        fits = cells.dtype.kind in ("OUT" if text else "Obiuf")
        return unmasked(cells, match(np.asarray(cells), levels), other) if fits else None
    if all_null(cells):
        return np.full(len(cells), other)
    categories = categories_of(cells)
    if categories is not None:  # they may be anything
        codes: Codes = np.append(match(categories, levels), other)[
            cells.to_native().cat.codes.to_numpy()
        ]
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
        found, plain = (
            _Places({tidied(level): j for j, level in enumerate(levels)}),
            NUMBERS | BOOLEANS,
        )
        cells = values.astype(object, copy=False).flat
        if text:
            each = [found[cell] if type(cell) in TEXTS else len(levels) for cell in cells]
        else:
            each = [
                found.get(cell, len(levels)) if type(cell) in plain else len(levels)
                for cell in cells
            ]
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
    """The type of a column in a word: the type's own text may hold the values that occur, or their
    length.
    """
    if isinstance(cells, np.ndarray):
        return _WORDS.get(cells.dtype.kind, cells.dtype.name)
    if all_null(cells):
        return "Null"
    return "Categorical" if categories_of(cells) is not None else type(type_of(cells)).__name__


def is_list(values: Any) -> bool:
    """Whether a container has no type of its own: a list, a tuple and their kin."""
    return (
        isinstance(values, Sequence)
        and not isinstance(values, str | bytes | bytearray)
        and not _is_typed(values)
    )


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
            raise InputError(
                f"{name} is not a rectangular array, a list of rows of equal length: {remedy}"
            )
        cells += row
    return cells, (len(rows), width)


def _row(row: Any) -> list[Any] | None:
    """The cells of one row of a list, by the methods of plain containers; None if it is none of
    them.
    """
    if issubclass(type(row), list):
        return list(list.__iter__(row))
    if issubclass(type(row), tuple):
        return list(tuple.__iter__(row))
    return list(row) if type(row) is np.ndarray and row.ndim == 1 else None


def _read(
    values: Any, of: Callable[[Cells], Any], refusal: Callable[[str], str]
) -> npt.NDArray[Any]:
    """What is read from each column of a table, side by side, or from one column or array of any
    shape.
    """
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
    if pandas is not None and isinstance(
        values, pandas.Index | pandas.api.extensions.ExtensionArray
    ):
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
    return np.array(
        [_float(value) if type(value) in plain else np.nan for value in values], dtype=np.float64
    )


def _float(value: Any) -> float:
    """A plain number; what is too large for a float is missing."""
    try:
        return float(value)
    except OverflowError:
        return np.nan


def unmasked(cells: npt.NDArray[Any], found: npt.NDArray[Any], missing: float) -> npt.NDArray[Any]:
    """What was found in an array, with the cells that numpy's masks hide as missing."""
    return (
        np.where(np.ma.getmaskarray(cells), missing, found)
        if isinstance(cells, np.ma.MaskedArray)
        else found
    )


def is_whole(dtype: nw.dtypes.DType) -> bool:
    """Booleans, and integers that numpy has."""
    return dtype == nw.Boolean or (
        dtype.is_integer() and dtype not in (nw.Int128, nw.UInt128)
    )  # numpy ends at 64 bits


def whole_of(column: nw.Series[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Integers or booleans and which are missing, by numpy: Arrow refuses large integers."""
    missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
    return np.asarray(
        column.fill_null(False if column.dtype == nw.Boolean else 0).to_numpy()
    ), missing


def _text_places(column: nw.Series[Any], levels: Sequence[Level]) -> Codes | None:
    native = column.to_native()
    arrow = getattr(native, "type", getattr(getattr(native, "dtype", None), "pyarrow_dtype", None))
    if type_of(column) not in (nw.String, nw.Categorical, nw.Enum):
        return None
    if "string" not in str(
        getattr(arrow, "value_type", "string")
    ):  # Arrow's dictionaries hold anything
        return None
    if (
        getattr(getattr(native, "dtype", None), "storage", "") == "python"
    ):  # may hold what Arrow cannot
        return match(objects(native.to_list()), levels)
    coded = _coded(column, arrow)
    known = [
        text.decode(errors="surrogateescape")
        for text in coded.dictionary.cast("large_binary").to_pylist()
    ]
    places = np.append(match(objects(known), levels), len(levels))
    return np.asarray(places[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)])


def _coded(column: nw.Series[Any], arrow: Any) -> Any:
    """A column of texts as Arrow's codes and their dictionary."""
    native = column.to_native()
    if hasattr(native, "unify_dictionaries") and hasattr(arrow, "value_type"):
        coded = native.unify_dictionaries()
    else:
        as_it_is = (
            column.dtype == nw.String and str(arrow) != "string_view"
        )  # which Arrow does not compare
        texts = column if as_it_is else column.cast(nw.String)
        stored = (
            texts.to_native()
            if hasattr(texts.to_native(), "dictionary_encode")
            else texts.to_arrow()
        )
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
    return str(getattr(native, "dtype", getattr(native, "type", ""))) in (
        "Null",
        "null",
        "null[pyarrow]",
    )


def categories_of(column: nw.Series[Any]) -> npt.NDArray[Any] | None:
    """The categories of a column of pandas, which are what occurs in it, unless they were declared."""
    kind, pandas = getattr(column.to_native(), "dtype", None), libraries.get_pandas()
    return (
        objects(kind.categories)
        if pandas is not None and isinstance(kind, pandas.CategoricalDtype)
        else None
    )


_PLAIN = BOOLEANS | NUMBERS | TEXTS | {bytes, np.bytes_, np.datetime64, datetime.date, uuid.UUID}
_TYPES = (
    "string",
    "large_string",
    "binary",
    "large_binary",
    "fixed_size_binary",
    "date",
    "timestamp",
    "decimal",
)


def identities(name: str, values: Any, n: int) -> Codes:
    """A number for each of n ids of a list, an array or a column; -1 for a missing one.

    Refused by shape and type alone.
    """
    cells = objects(values) if is_list(values) else column_of(values)
    if cells is None or cells.shape != (n,):
        raise InputError(f"{name} must have one id a row, in one dimension")
    found = to_ids(cells)
    if found is None:
        raise InputError(
            f"{name} must hold ids, as text, numbers or dates, not {kind_of(cells)}: convert it to text"
        )
    return found


def to_ids(cells: Cells) -> Codes | None:
    """A number a cell, -1 where it is missing: a null, a NaN, an empty text, an object that is no
    plain value.

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
    if (
        getattr(getattr(cells.to_native(), "dtype", None), "storage", "") == "python"
    ):  # of pandas: any text fits in
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
    """Whether an object is a plain value that is there; only such are compared, so that none can
    raise.
    """
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
        return to_ids(
            nw.from_native(pa.chunked_array([cells.cast(cells.type.value_type)]), series_only=True)
        )
    view = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(cells.type))
    cells = cells if view is None else cells.cast(view)
    if not str(cells.type).startswith(_TYPES):
        return None
    found = np.asarray(
        pc.dictionary_encode(cells).indices.fill_null(-1).to_numpy(zero_copy_only=False)
    )
    if pa.types.is_temporal(cells.type) or pa.types.is_decimal(cells.type):
        return found
    empty = pc.equal(pc.binary_length(cells), 0).fill_null(True)
    return np.where(np.asarray(empty.to_numpy(zero_copy_only=False), dtype=bool), -1, found)


LONGEST = 200
"""Characters of a level; a longer text is no level, and neither is an empty one."""
_RULE = "drop"  # of `missing` in a schema: no level can have this name


def tally(cells: Cells, units: Codes | None, neighbours: Neighbours) -> Tally:
    """Of a column of text; ``units`` has a number a row, below 0 where the id is missing: such a
    row is nobody's.

    Without it every row is a unit.

    Guarantee [one_level_a_unit]: a unit counts once, in the level of its first row that has one:
    between neighbours at most two counts move, by one each (replace), or one does (add-remove), and
    no other level occurs or vanishes.
    """
    codes, texts = _coded_levels(cells)
    if units is not None:
        rows = np.flatnonzero((codes >= 0) & (units >= 0))
        codes = codes[rows[np.unique(units[rows], return_index=True)[1]]]
    counts = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.float64)
    there = np.flatnonzero(counts)
    return Tally(tuple(texts[j] for j in there), counts[there], histogram_bound(neighbours))


def _coded_levels(cells: Cells) -> tuple[Codes, list[str]]:
    """The place of each cell in a list of different texts, -1 for a cell that is no level."""
    if not isinstance(cells, np.ndarray):
        if all_null(cells):
            return np.full(len(cells), -1), []
        categories = categories_of(cells)
        if categories is not None:
            codes, texts = _coded_levels(categories)
            return np.append(codes, -1)[cells.to_native().cat.codes.to_numpy()], texts
        if (
            getattr(getattr(cells.to_native(), "dtype", None), "storage", "") != "python"
        ):  # of pandas: any text fits in
            return _levels_of_arrow(cells)
        cells = objects(cells.to_list())
    plain = np.asarray(cells)
    seen: dict[str, int] = {}
    tidied = [tidy(cell) if type(cell) in TEXTS else None for cell in plain.astype(object).tolist()]
    found = [
        seen.setdefault(cell, len(seen)) if cell is not None and _is_level(cell) else -1
        for cell in tidied
    ]
    missing = np.ma.getmaskarray(cells) if isinstance(cells, np.ma.MaskedArray) else False
    return np.where(missing, -1, np.array(found, dtype=np.intp)), list(seen)


def _levels_of_arrow(column: nw.Series[Any]) -> tuple[Codes, list[str]]:
    """By Arrow's hash table of bytes, as its texts may be no UTF-8."""
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a table is read)
    import pyarrow.compute as pc  # noqa: PLC0415

    cells = column.to_arrow()
    cells = cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    coded = pc.dictionary_encode(cells.cast(pa.large_binary()))
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    texts = [_decoded(value) for value in coded.dictionary.to_pylist()]
    places, known = _coded_levels(objects(texts))
    indices: npt.NDArray[Any] = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.append(places, -1)[indices], known


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_level(cell: str) -> bool:
    """Whether a schema file can hold a text as a level."""
    if not 0 < len(cell) <= LONGEST or cell == _RULE:
        return False
    return not any(
        "\ud800" <= letter <= "\udfff" for letter in cell
    )  # half of a pair, which UTF-8 has no bytes for


Hashes = npt.NDArray[np.int64]

_NUMBERS = NUMBERS | BOOLEANS | {Decimal}
_TEXTS = TEXTS | {bytes, np.bytes_}
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio: multiples are far apart


def hashes(column: Any) -> Hashes:
    """One number an id of a column of pandas.

    Guarantee [units_meet]: ids that are the same unit in memory (`dpinfer.tables.cells.to_ids`)
    have the same number, also where parts of a table hold them in columns of different types.
    """
    return _of_cells(cells_of(nw.from_native(column, series_only=True)))


def _of_cells(cells: Cells) -> Hashes:
    if isinstance(cells, np.ndarray):
        if cells.dtype.kind in "biuf":
            return _of_numbers(cells.astype(np.float64))
        return (
            _of_objects(cells.astype(object))
            if cells.dtype.kind in "OUTS"
            else np.zeros(len(cells), np.int64)
        )
    categories = categories_of(cells)
    if categories is not None:
        return np.asarray(
            np.append(_of_objects(categories), 0)[cells.to_native().cat.codes.to_numpy()]
        )
    dtype = type_of(cells)
    if is_whole(dtype) or dtype.is_float():
        numbers = to_numbers(cells)
        assert numbers is not None
        return _of_numbers(numbers)
    return _of_objects(objects(cells.to_list()))


def _of_numbers(values: Array) -> Hashes:
    """Equal numbers are equal as floats; -0 is 0."""
    bits = (values + 0.0).view(np.uint64)
    return np.asarray(
        (bits ^ (bits >> np.uint64(32))) * _ODD >> np.uint64(20), dtype=np.int64
    )  # the last are often 0


def _of_objects(cells: npt.NDArray[Any]) -> Hashes:
    """Numbers as floats, texts by their bytes; all else together, as what is equal may differ in
    type, or in hash.
    """
    numbers = np.fromiter((type(cell) in _NUMBERS for cell in cells), bool, len(cells))
    texts = np.fromiter((type(cell) in _TEXTS for cell in cells), bool, len(cells))
    found = np.zeros(len(cells), np.int64)
    found[numbers] = _of_numbers(
        np.array([_hashed_float(cell) for cell in cells[numbers]], np.float64)
    )
    found[texts] = [_sum_of(cell) for cell in cells[texts]]
    return found


def _hashed_float(cell: Any) -> float:
    try:
        return float(cell)
    except (OverflowError, ValueError):
        return np.inf


def _sum_of(text: Any) -> int:
    return zlib.crc32(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
