"""Tables of pandas, polars or pyarrow: columns as arrays, by the schema, and records of a fit.

What a file or a part of a cluster's table holds is read here too, once it is in memory.  Errors
speak of names and types, never of values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from narwhals import dependencies as libraries

from dpinfer.adjacency import Adjacency
from dpinfer.errors import InputError
from dpinfer.mechanisms.histograms import LevelCounts
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array
from dpinfer.rows import workers
from dpinfer.rows.encoded import ColumnEncoding, Encoded, Encoder, Encoding, Raw, in_memory
from dpinfer.rows.source import Blocks, Rows, cuts, require_record_limit
from dpinfer.rows.summaries import ColumnSource, ColumnTask, ColumnValues
from dpinfer.schema.columns import (
    Category,
    Ids,
    Number,
    Outcome,
    Wanted,
    did_you_mean,
    levels_of,
    require_different,
)
from dpinfer.schema.dates import day_of_text
from dpinfer.schema.follow_up import SurvivalResponse
from dpinfer.schema.terms import Expression, ModelTerms, Part, ReadCodes, ReadNumbers, Response
from dpinfer.schema.unit import Unit
from dpinfer.tables.cells import (
    Cells,
    Codes,
    cells_of,
    is_list,
    kind_of,
    numbers,
    objects,
    to_numbers,
    type_of,
)
from dpinfer.tables.days import to_days
from dpinfer.tables.ids import to_ids
from dpinfer.tables.levels import match, tally, to_level_codes

if TYPE_CHECKING:
    import pandas as pd

_TYPES_OF_LEVELS = {
    str: ("Null", "String", "Categorical", "Enum"),
    int: ("Null", "Int", "UInt", "Float"),
    bool: ("Null", "Boolean"),
}
"""Prefixes of the types of columns that may hold levels of each kind."""
_KINDS_OF_LEVELS = {str: "OUT", int: "Oiuf", bool: "Ob"}
"""The same of arrays, by numpy's letters."""


LONG = 2**18
"""Rows from which on each column is a task of its own: below, to look a column up takes longer than to
summarise it.
"""

Pieces = Callable[[Sequence[Wanted], int], Iterator[Any]]
"""The given columns of a table, maybe among others, so many rows at a time, the last ones excepted."""


class Reader(ABC):
    """A reader of records from some rows of a table; public, so that it may travel."""

    @property
    @abstractmethod
    def encoder(self) -> Encoder:
        """The encoder of the records."""

    @property
    @abstractmethod
    def columns(self) -> list[Wanted]:
        """The columns that are read of a table."""

    @abstractmethod
    def values(self, table: nw.DataFrame[Any]) -> tuple[Array, Array]:
        """Return the columns of a record and its label, before they are encoded: what the encoder
        takes.
        """

    @property
    def names(self) -> list[str]:
        """The names of the columns, each once."""
        return names_of(self.columns)

    def raw(self, native: Any) -> Raw:
        """Return the records of some rows in memory; with ids of all rows of each unit."""
        table = nw.from_native(native, eager_only=True)
        unit = self.encoder.unit
        values, labels = self.values(table)
        return Raw(
            values,
            labels,
            identities_of(table, unit.column) if unit.many else None,
            numbers_of(table, unit.weights) if unit.weights else None,
        )

    def records(
        self,
        rows: int,
        pieces: Pieces,
        memory_limit: float = np.inf,
        tasks: int | None = None,  # noqa: ARG002
    ) -> Encoded:
        """Return the records of a table, each of which is a unit, in pieces that are read in every pass.

        ``tasks`` is how many tasks the columns are best divided into, where they need not be read together:
        by default each has its own.
        """
        return Encoded(rows, self.encoder, partial(self._raws, pieces), memory_limit)

    def _raws(self, pieces: Pieces, size: int) -> Iterator[Callable[[], Raw]]:
        for piece in pieces(self.columns, size):
            yield partial(self.raw, piece)

    def blocks(self, native: Any) -> Iterator[Block]:
        """Yield some rows in memory, encoded: at least one block; with ids all rows of each unit."""
        for piece in InMemory(native).source(self).pieces():
            for block in piece.blocks():
                yield from block.apart()


@dataclass(frozen=True, repr=False)
class FormulaReader(Reader):
    """The two sides of a formula."""

    response: Response
    terms: ModelTerms
    encoding: Encoding

    @property
    def encoder(self) -> Encoding:
        """The encoder to bounded rows."""
        return self.encoding

    @property
    def columns(self) -> list[Wanted]:
        """The columns that are read of a table."""
        return [*self.response.columns, *self.terms.columns, *self.encoding.unit.columns]

    def values(self, table: nw.DataFrame[Any]) -> tuple[Array, Array]:
        """Return the columns of the design, and the outcome by its public scale."""
        values = read_terms(table, self.terms, clipped=False)
        if isinstance(self.response, SurvivalResponse):
            entry, end, event = self.response.read(*_readers(table))
            return np.column_stack([values, entry, end]), event
        labels = self.encoding.design.of_values.outcome.bounded(read_labels(table, self.response))
        return values, labels


@dataclass(frozen=True, repr=False)
class FeatureReader(Reader):
    """Features alone, of which any may be an outcome later."""

    terms: ModelTerms
    encoding: Encoding

    @property
    def encoder(self) -> Encoding:
        """The encoder to bounded rows."""
        return self.encoding

    @property
    def columns(self) -> list[Wanted]:
        """The columns that are read of a table."""
        return [*self.terms.columns, *self.encoding.unit.columns]

    def values(self, table: nw.DataFrame[Any]) -> tuple[Array, Array]:
        """Return the features in original units; there is no label."""
        return read_terms(table, self.terms, clipped=False), np.zeros(len(table))


@dataclass(frozen=True, repr=False)
class ColumnReader(Reader):
    """Columns one by one, as they are described, and the group of each record.

    Levels are read as their codes, and a number is clipped to its bounds; NaN stands for what
    is neither.
    """

    described: tuple[Part, ...]
    by: Part | None
    unit: Unit

    @property
    def encoder(self) -> ColumnEncoding:
        """The encoder to rows of a description."""
        return ColumnEncoding(len(self.described), self.unit)

    @property
    def columns(self) -> list[Wanted]:
        """The columns that are read of a table."""
        return [*self._read_for(self.described), *self.unit.columns]

    def _read_for(self, parts: Sequence[Part]) -> list[Wanted]:
        """Return what is read of a table for some parts and the group."""
        if self.by is not None:
            parts = (*parts, self.by)
        return list({column.name: column for part in parts for column in part.columns}.values())

    @np.errstate(all="ignore")  # a warning would reveal a value
    def values(self, table: nw.DataFrame[Any]) -> tuple[Array, Array]:
        """Return 1 and the columns, and the code of the group: NaN where there is none."""
        readers = _readers(table)
        rows = _tall(1 + len(self.described), len(table))
        rows[0] = 1.0
        for part, row in zip(self.described, rows[1:], strict=True):
            row[...] = _as_numbers(part, _described(part, *readers))
        if self.by is None:
            return rows.T, np.zeros(len(table))
        return rows.T, _as_numbers(self.by, _described(self.by, *readers))

    def records(
        self,
        rows: int,
        pieces: Pieces,
        memory_limit: float = np.inf,
        tasks: int | None = None,
    ) -> Encoded:
        """Return the records; where each has weight 1, they can be read column by column, too."""
        encoded = super().records(rows, pieces, memory_limit)
        if self.unit.columns:
            return encoded
        number = len(self.described)
        width = 1 if tasks is None else -(-number // tasks)
        of_columns = [
            self._task(range(first, min(first + width, number)), pieces)
            for first in range(0, number, width)
        ]
        return ColumnSource(rows, self.encoder, encoded.read, memory_limit, of_columns)

    def _task(self, chosen: range, pieces: Pieces) -> ColumnTask:
        parts = [self.described[j] for j in chosen]

        def read(size: int) -> Iterator[ColumnValues]:
            for piece in pieces(self._read_for(parts), size):
                yield self._columns(parts, piece)

        return ColumnTask([1 + j for j in chosen], read)

    def _columns(self, parts: Sequence[Part], native: Any) -> ColumnValues:
        @cache
        def readers() -> tuple[ReadNumbers, ReadCodes]:
            return _readers(nw.from_native(native, eager_only=True))

        def read(part: Part) -> Array | Codes:
            plain = _plain_numbers(part, native)
            return _described(part, *readers()) if plain is None else plain

        values = [read(part) for part in parts]
        return ColumnValues(values, None if self.by is None else read(self.by), len(native))


def _plain_numbers(part: Part, native: Any) -> Array | None:
    """Return the numbers of a column of an Arrow table as they are, for who bounds them; None for
    all else, and where numbers must be looked at, as those that may have fractions and must not.
    """
    column = part.column if isinstance(part, Expression) else None
    if column is None or not isinstance(native, pa.Table):
        return None
    of_kind = column.kind == "number"
    if column.kind == "integer":
        of_kind = pa.types.is_integer(native.schema.field(column.name).type)
    return _arrow_numbers(native, column.name) if of_kind else None


@np.errstate(all="ignore")  # a warning would reveal a value
def _described(part: Part, numbers: ReadNumbers, codes: ReadCodes) -> Array | Codes:
    """Return codes of levels, the number of levels for anything else; or numbers within bounds, NaN
    for anything else.

    False and true are their own codes.
    """
    if not isinstance(part, Expression):
        return part.codes(numbers, codes)
    if part.column is not None:  # is within its bounds as it is read
        return numbers(part.column)
    return np.clip(part.values(numbers, codes), part.low, part.high)


def _as_numbers(part: Part, values: Array | Codes) -> Array:
    """Return codes of levels as numbers, NaN for anything else."""
    if isinstance(part, Expression):
        return np.asarray(values, dtype=np.float64)
    of_codes = np.append(np.arange(len(part.levels), dtype=np.float64), np.nan)
    return of_codes[values]


class InMemory:
    """Any table that narwhals knows; see `dpinfer.tables.table.Table`."""

    def __init__(self, native: Any) -> None:
        if isinstance(native, pa.Table):
            require_different(native.column_names)
        elif libraries.is_pandas_like_dataframe(native):
            require_different(list(native.columns))
        try:
            self.table: nw.DataFrame[Any] = nw.from_native(native, eager_only=True)
        except TypeError:
            raise not_here(native) from None

    def types(self) -> list[tuple[str, str]]:
        """Return the names of the columns, and what their types say."""
        return [(column.name, type_word(column)) for column in self.table.iter_columns()]

    def blank(self, columns: Sequence[Wanted]) -> nw.DataFrame[Any]:  # noqa: ARG002
        """Return all columns, without rows."""
        return self.table.head(0)

    def opened(self, columns: Sequence[Wanted]) -> nw.DataFrame[Any]:  # noqa: ARG002
        """Return the table as it is."""
        return self.table

    def require_local(self) -> None:
        """Do nothing: the table is here."""

    def count(self, columns: Sequence[Wanted]) -> int:  # noqa: ARG002
        """Return the number of rows."""
        return len(self.table)

    def count_units(self, ids: str) -> int:
        """Return the number of different ids."""
        return int(identities_of(self.table, ids).max(initial=-1)) + 1

    def source(self, reader: Reader, n: int = 0) -> Blocks:  # noqa: ARG002
        """Return the records; those of units are encoded once, others in every pass."""
        if reader.encoder.unit.many:
            return in_memory(reader.raw(self.table), reader.encoder)
        tasks = None if len(self.table) >= LONG else workers.threads()
        return reader.records(len(self.table), self._slices, tasks=tasks)

    def _slices(self, columns: Sequence[Wanted], size: int) -> Iterator[Any]:
        table = self.table
        names = names_of(columns)
        # A slice of pandas takes time for every column, and a choice of columns is a copy of them: it
        # is made of a few.
        if 2 * len(names) <= len(table.columns):
            table = table.select(names)
        for first, last in cuts(len(table), size):
            yield table[first:last]


def names_of(columns: Sequence[Wanted]) -> list[str]:
    """Return the names of columns, each once."""
    return list(dict.fromkeys(column.name for column in columns))


def not_here(native: Any, remedy: str = "") -> InputError:
    """Return the error for what is no table in this process, with the line that makes one of it."""
    library = type(native).__module__.partition(".")[0]
    if isinstance(native, np.ndarray | list):
        remedy = ": give a dict of columns, as in {'age': X[:, 0]}"
    for method in _TO_A_TABLE:
        if not remedy and hasattr(native, method):
            remedy = f": convert it, as in table.{method}()"
    return InputError(
        "a formula needs a pandas, polars or pyarrow table, an Arrow stream, a dict of arrays or the path of a file, "
        f"not {library}'s {type(native).__name__}{remedy}"
    )


_TO_A_TABLE = ("to_arrow", "to_pyarrow", "to_arrow_table", "to_pandas", "toPandas", "collect")
"""Methods by which tables of other libraries become one that is read here."""


def of_columns(columns: Mapping[Any, Any]) -> "pd.DataFrame":
    """Return a dict of arrays as a table; a list has no type, whatever it holds."""
    import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

    series = {str(name): _series(str(name), values) for name, values in columns.items()}
    if len({len(one) for one in series.values()}) > 1:
        raise InputError("the columns of the dict differ in length: give one value per row in each")
    return pd.DataFrame(series)


def _series(name: str, values: Any) -> "pd.Series[Any]":
    import pandas as pd  # noqa: PLC0415  (heavy: loaded when asked for)

    if is_list(values):
        return pd.Series(objects(values), dtype=object)
    if isinstance(values, pa.Array):
        values = pa.chunked_array([values])
    column = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(column, nw.Series):
        found: pd.Series[Any] = column.to_pandas()
        return found.reset_index(drop=True)
    if not isinstance(values, np.ndarray) or values.ndim != 1:
        raise InputError(
            f"{name!r} of the dict is no column: give an array in one dimension, or a list"
        )
    return pd.Series(values, dtype=object if values.dtype == object else None)


def rows_of(X: Any, y: Any, kind: str = "margin") -> Rows:
    """Bound arrays; a row with a NaN, an infinity or a label other than -1 and +1 counts as the
    zero row.

    For losses of the residual y is any number: clipped to [-1, 1], or with its row set to 0 if it
    is not finite.

    Guarantee [values_never_raise]: whether this raises depends on shapes and types alone.
    """
    remedy = "scale it to [-1, 1] by its public bounds"
    if kind == "margin":
        remedy = "code it as -1 and +1"
    rows = numbers("X", X, "encode it as numbers")
    labels = numbers("y", y, remedy, kinds="fiu", depth=1)
    return Rows.of(rows, labels, kind)


# What a formula says of some rows


def read_terms(table: nw.DataFrame[Any], terms: ModelTerms, *, clipped: bool = True) -> Array:
    """Return the design's columns in original units, with values clipped to the bounds of the
    schema.

    NaN marks a row that cannot be encoded.  Each column lies in one piece of memory.  Without
    ``clipped`` a column that is a number of the table may hold any: `Design.rows` clips it, and a
    row with an infinity counts as with a NaN.
    """
    bounded, codes = _readers(table)
    values = _tall(terms.width, len(table))
    first = 0
    for block in terms.blocks:
        last = first + len(block.names)
        if block.as_is is not None and not clipped:
            values[first:last] = numbers_of(table, block.as_is.name)
        else:
            values[first:last] = block.values(bounded, codes).T
        first = last
    if terms.offset is not None:
        values[first] = _offset(terms.offset, bounded, codes)
    return values.T


def _readers(table: nw.DataFrame[Any]) -> tuple[ReadNumbers, ReadCodes]:
    """Return readers of numbers within their bounds and of codes of levels; each column is read once."""
    numbers_in = cache(partial(_proper, table))

    @cache
    def bounded(column: Number) -> Array:
        return _bounded(numbers_in(column), column)

    @cache
    def level_codes(column: Number | Category) -> Codes:
        levels = levels_of(column)
        if isinstance(column, Number):
            codes = match(numbers_in(column), levels)
        else:
            codes = _level_codes(table, column)
        if column.missing in levels:
            codes = np.where(codes == len(levels), levels.index(column.missing), codes)
        return codes

    return bounded, level_codes


@np.errstate(all="ignore")  # a warning would reveal a value
def _offset(offset: Expression, bounded: ReadNumbers, codes: ReadCodes) -> Array:
    """Return the offsets; a row whose exposure is 0 or less has none, and cannot be encoded."""
    values = offset.values(bounded, codes)
    return np.where(np.isfinite(values), values, np.nan)


@np.errstate(all="ignore")  # a warning would reveal a value
def read_labels(table: nw.DataFrame[Any], response: Response) -> Array:
    """Return -1 and +1 for the two levels or answers, or a function of columns clipped to their
    bounds; NaN for anything else.
    """
    source = response.read_as
    if isinstance(source, Outcome):
        return np.array([-1.0, 1.0, np.nan])[_level_codes(table, source)]
    values = source.values(*_readers(table))
    if response.levels:
        return np.asarray(2 * values - 1)
    return np.asarray(np.clip(values, source.low, source.high))


def _tall(width: int, rows: int) -> Array:
    """Return columns that begin at different offsets in a page of memory, so that rows are read
    from them faster.
    """
    return np.empty((width, rows // 16 * 16 + 24))[:, :rows]


@np.errstate(all="ignore")  # a warning would reveal a value
def _proper(table: nw.DataFrame[Any], column: Number) -> Array:
    """Return the values of a column, NaN where a value is not of its kind."""
    values = values_of(table, column)
    finite = np.isfinite(values.sum())  # then all are; to look at each takes longer
    if column.kind == "integer":
        proper = values == np.rint(values)
    elif column.kind == "boolean":
        proper = (values == 0) | (values == 1)
    elif finite:
        return values
    else:
        proper = np.ones(len(values), dtype=bool)
    if not finite:
        proper &= np.isfinite(values)
    return values if proper.all() else np.where(proper, values, np.nan)


def _bounded(values: Array, column: Number) -> Array:
    """Return values within the bounds of a column, with its substitute for missing ones."""
    bounded = np.clip(values, column.low, column.high)
    if column.missing is not None:
        bounded[np.isnan(bounded)] = column.missing
    return bounded


# What is learned of one column


@np.errstate(all="ignore")  # a warning would reveal a value
def column_rows(table: nw.DataFrame[Any], name: str, unit: Unit, *, integers: bool) -> Rows:
    """Return the numbers of a column as labels; a row without one, or with a fraction where they must
    be ``integers``, is the zero row.

    What the rows of a unit count adds up to at most 1.
    """
    values = numbers_of(table, name)
    require_record_limit(len(values), unit.largest)
    proper = np.isfinite(values)
    if integers:
        proper &= values % 1 == 0
    rows = Rows(Block(proper[:, None].astype(np.float64), np.where(proper, values, 0.0)))
    if not unit.columns:
        return rows
    weights = numbers_of(table, unit.weights) if unit.weights else None
    return rows.counted(unit.max_total, _ids(table, unit), weights, unit.number)


def column_tally(
    table: nw.DataFrame[Any], name: str, unit: Unit, adjacency: Adjacency
) -> LevelCounts:
    """Count how many units have each level of a column."""
    return tally(cells_of(table.get_column(name)), _ids(table, unit), adjacency)


def _ids(table: nw.DataFrame[Any], unit: Unit) -> Codes | None:
    return identities_of(table, unit.column) if unit.many else None


# Columns by their names and types


def misfit(table: nw.DataFrame[Any], column: Wanted) -> str:
    """Return why a table's column cannot be read as the schema says, by its name and type; empty if
    it can.
    """
    try:
        if isinstance(column, Ids):
            identities_of(table, column.name)
        elif isinstance(column, Number):
            values_of(table, column)
        elif column.levels:
            _level_codes(table, column)
        else:
            numbers_of(table, column.name)
    except InputError as fault:
        return str(fault)
    return ""


def require(name: str, names: Sequence[str], owner: str) -> None:
    """Refuse names that do not hold this one exactly once."""
    if name not in names:
        raise InputError(f"{owner} has no column {name!r}: {did_you_mean(name, names)}")
    if list(names).count(name) > 1:
        raise InputError(f"{owner} has more than one column {name!r}: rename all but one")


def numbers_of(table: nw.DataFrame[Any], name: str) -> Array:
    """Return the numbers of a column, NaN where a cell is none; refused by its type."""
    plain = _arrow_numbers(table.to_native(), name)
    if plain is not None:
        return plain
    cells = cells_of(_column(table, name))
    kind = kind_of(cells)
    if kind in ("Int128", "UInt128"):
        raise InputError(f"column {name!r} is {kind}, which is not read: cast it to 64 bits")
    values = to_numbers(cells)
    if values is None:
        raise InputError(
            f"column {name!r} must hold numbers, as the schema says, not {kind}: convert it, or change its type in "
            "the schema"
        )
    return values


def _arrow_numbers(native: Any, name: str) -> Array | None:
    """Return the numbers of a column of an Arrow table, the shortest way, as files have many of
    them; None where another way is needed.
    """
    if not isinstance(native, pa.Table):
        return None
    index = native.schema.get_field_index(name)  # -1 unless there is one
    column = None if index < 0 else native.column(index)
    if column is not None and column.type == pa.float64():
        return np.asarray(column.to_numpy())  # a null is a NaN
    if column is not None and pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    return None


def values_of(table: nw.DataFrame[Any], column: Number | Outcome) -> Array:
    """Return the numbers of a column or, of dates, the days since its lower bound; NaN where a cell
    is none.  Refused by its type.
    """
    if not isinstance(column, Number) or column.kind != "date":
        return numbers_of(table, column.name)
    cells = cells_of(_column(table, column.name))
    days = to_days(cells)
    if days is None:
        raise InputError(
            f"column {column.name!r} must hold dates, as the schema says, not {kind_of(cells)}: convert it, or change "
            "its type in the schema"
        )
    return days - day_of_text(column.origin)


def identities_of(table: nw.DataFrame[Any], name: str) -> Codes:
    """Return the ids of a column as numbers, -1 for a missing one; refused by its type."""
    cells = cells_of(_column(table, name))
    ids = to_ids(cells)
    if ids is None:
        raise InputError(
            f"column {name!r} must hold ids, as text, numbers or dates, not {kind_of(cells)}: convert it"
        )
    return ids


def _level_codes(table: nw.DataFrame[Any], source: Category | Outcome) -> Codes:
    """Return the code of each value, the number of levels for anything else, missing values included.

    A missing value can turn a pandas column of integers into floats, or one of booleans into
    objects: both are read.
    """
    cells = cells_of(_column(table, source.name))
    kind = type(source.levels[0])
    codes = None
    if _may_hold(cells, kind):
        codes = to_level_codes(cells, source.levels, any_spelling=bool(source.spelling))
    if codes is None:
        raise InputError(
            f"column {source.name!r} is {kind_of(cells)}, but its levels in the schema are {kind.__name__}: convert "
            "it, or write the levels as they are in the table"
        )
    return codes


def _may_hold(cells: Cells, kind: type) -> bool:
    """Whether the type of a column is that of its levels; objects may be anything."""
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind in _KINDS_OF_LEVELS[kind]
    return kind_of(cells).startswith(_TYPES_OF_LEVELS[kind])


def _column(table: nw.DataFrame[Any], name: str) -> nw.Series[Any]:
    require(name, table.columns, "the table")
    return table.get_column(name)


def _is_time_of_pandas(column: nw.Series[Any]) -> bool:
    """Whether a column holds times of pandas: with some time zones narwhals has no name for the
    type.
    """
    return str(getattr(column.to_native(), "dtype", "")).startswith("datetime64[")


def type_word(column: nw.Series[Any]) -> str:  # noqa: PLR0911  (one per type)
    """Return what the type of a column says: number, integer, boolean, category, date, or nothing.

    Of objects it says nothing, whatever narwhals finds in them: the values must not decide how a
    column is read.
    """
    if getattr(column.to_native(), "dtype", None) == np.dtype(object):
        return ""
    dtype = type_of(column)
    if dtype == nw.Boolean:
        return "boolean"
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return "category"
    if dtype in (nw.Date, nw.Datetime) or _is_time_of_pandas(column):
        return "date"
    if dtype.is_integer():
        return "integer"
    if dtype.is_numeric():
        return "number"
    return ""
