"""Columns of a pandas, polars or pyarrow table, of a file, or of a part of a cluster's table, as arrays.

Errors speak of names and types, never of values.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from dpinfer.data import files
from dpinfer.data.columns import Category, Ids, Number, Outcome, Wanted
from dpinfer.data.design import Design
from dpinfer.data.encoded import Encoded, Encoding, Raw, in_memory, most_records
from dpinfer.data.engines import engine_of
from dpinfer.data.ids import to_ids
from dpinfer.data.parts import Parted, Parts, count_ids, number_of_parts, room
from dpinfer.data.response import Response
from dpinfer.data.source import Blocks, Pending, Source, cuts
from dpinfer.data.terms import Factor, Terms
from dpinfer.data.unit import ROW, Unit
from dpinfer.data.values import Cells, Codes, cells_of, kind_of, match, to_numbers, to_places
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block


def open_table(native: Any, columns: Iterable[Wanted]) -> nw.DataFrame[Any]:
    """Any table that narwhals knows, or a file, of which the given columns are read."""
    if files.is_path(native):
        native = files.read(native, list(columns))
    try:
        return nw.from_native(native, eager_only=True)
    except TypeError:
        remedy = ": collect it" if engine_of(native) else ""
        raise InputError(
            "a formula needs a pandas, polars or pyarrow table, or the path of a file, not "
            f"{type(native).__module__.partition('.')[0]}'s {type(native).__name__}{remedy}"
        ) from None


def read_terms(table: nw.DataFrame[Any], terms: Terms) -> Array:
    """The design's columns in original units, with values clipped to the bounds of the schema.

    NaN marks a row that cannot be encoded.  Each column lies in one piece of memory.
    """
    known = {column.name: _known(table, column) for column in terms.columns if isinstance(column, Number)}

    def numbers(column: Number) -> Array:
        return _bounded(known[column.name], column)

    def codes(factor: Factor) -> Codes:
        column = factor.column
        found = match(known[factor.text], factor.levels) if isinstance(column, Number) else _codes(table, column)
        if column.missing in factor.levels:
            found = np.where(found == len(factor.levels), factor.levels.index(column.missing), found)
        return found

    values, at = np.empty((sum(len(block.names) for block in terms.blocks), len(table))), 0
    for block in terms.blocks:
        values[at : at + len(block.names)] = block.values(numbers, codes).T
        at += len(block.names)
    return values.T


@np.errstate(all="ignore")  # a warning would tell of a value
def read_labels(table: nw.DataFrame[Any], response: Response) -> Array:
    """-1 and +1 for the two levels, or a function of columns clipped to their bounds; NaN for anything else."""
    what = response.read_as
    if isinstance(what, Outcome):
        return np.array([-1.0, 1.0, np.nan])[_codes(table, what)]
    values = what.values(lambda column: _bounded(_known(table, column), column))
    return np.asarray(np.clip(values, what.low, what.high))


@dataclass(frozen=True, repr=False)
class Reader:
    """From some rows of a table to records; public, so that it may travel."""

    response: Response
    terms: Terms
    encoding: Encoding

    @property
    def columns(self) -> list[Wanted]:
        """What is read of a table."""
        return [*self.response.columns, *self.terms.columns, *self.encoding.unit.columns]

    def blocks(self, native: Any) -> Iterator[Block]:
        """The rows of a table in memory, encoded."""
        for piece in _in_memory(native, self).pieces():
            yield from piece.blocks()

    def raw(self, table: nw.DataFrame[Any]) -> Raw:
        """The records of some rows; with ids of all rows of each unit."""
        unit, scale = self.encoding.unit, self.encoding.design.outcome
        return Raw(
            read_terms(table, self.terms),
            scale.bounded(read_labels(table, self.response)),
            _identities(table, unit.column) if unit.many else None,
            _numbers(table, unit.weights) if unit.weights else None,
        )


def read(
    native: Any, response: Response, terms: Terms, kind: str, unit: Unit = ROW, *, counted: bool = True
) -> tuple[Design, Pending]:
    """The encoding of a formula and the records of a table; ``kind`` is what the loss is a function of.

    ``unit`` says whose rows they are, and ``counted`` whether their number is public.

    Guarantee [types_first]: names, types and the number of rows are looked at now, values when the records are read.
    Where a unit has many rows, their number is not; instead the ids are, to count the units, and not even these where
    the schema states the number of units, or where it is private.
    """
    design = Design.of_formula(response, terms, kind, unit)
    reader = Reader(response, terms, Encoding(design, kind))
    check(native, reader.columns)
    n = _number(native, reader.columns, unit, counted)
    most_records(n)
    return design, Pending(n, lambda: source(native, reader, n))


def source(native: Any, reader: Reader, n: int) -> Source:
    """The records of a table or of files; what is in files is read anew in every pass, unless it fits the memory."""
    engine = engine_of(native)
    if engine is not None:
        return engine.source(native, reader, n)
    if reader.encoding.unit.many:
        return _units(native, reader, n)
    if files.is_path(native):
        rows = files.count(native, reader.columns)

        def batches(size: int) -> Iterator[Callable[[], Raw]]:
            for part in files.pieces(native, reader.columns, size):
                yield partial(_raw, reader, part)
            if not rows:
                yield partial(_raw, reader, files.blank(native, reader.columns))

        return Encoded(rows, reader.encoding, batches, room())
    return _in_memory(native, reader)


def _in_memory(native: Any, reader: Reader) -> Blocks:
    """The records of a table; those of units are encoded once, others in every pass."""
    table = open_table(native, reader.columns)
    if reader.encoding.unit.many:
        return in_memory(reader.raw(table), reader.encoding)

    def slices(size: int) -> Iterator[Callable[[], Raw]]:
        yield from (partial(_raw, reader, table[first:last]) for first, last in cuts(len(table), size))

    return Encoded(len(table), reader.encoding, slices)


def _units(native: Any, reader: Reader, n: int) -> Source:
    """All rows of each unit together: in memory or, where that is too small for what files hold, in parts."""
    columns, unit, wide = reader.columns, reader.encoding.unit, len(reader.encoding.design.names)
    parts = number_of_parts(files.count(native, columns), wide, room()) if files.is_path(native) else 1
    if parts == 1:
        return _in_memory(native, reader)
    return Parted(n, reader.encoding, Parts(files.tables(native, columns), unit.column, parts), partial(_raw, reader))


def _raw(reader: Reader, native: Any) -> Raw:
    return reader.raw(open_table(native, ()))


def check(native: Any, columns: Sequence[Wanted]) -> None:
    """Refuse a table or file whose names or types do not fit; no value is looked at, and no row counted."""
    table = open_table(blank(native, columns), ())
    for column in columns:
        fault = misfit(table.head(0), column)
        if fault:
            raise InputError(fault)


def blank(native: Any, columns: Sequence[Wanted] | None) -> Any:
    """A table with these columns, by default all, of which the rows do not count; one in memory is taken as it is."""
    engine = engine_of(native)
    if engine is not None:
        return engine.blank(native, columns)
    return files.blank(native, columns or ()) if files.is_path(native) else native


def _number(native: Any, columns: Sequence[Wanted], unit: Unit, counted: bool) -> int:
    """The public number of records or units; 0 for a private number of units, which nobody asks for."""
    engine = engine_of(native)
    if unit.many and unit.number is None and counted:
        if engine is not None:
            return engine.count_units(native, unit.column, partial(_units_of, unit.column))
        ids: list[Wanted] = [Ids(unit.column)]
        parts = number_of_parts(files.count(native, ids), 1, room()) if files.is_path(native) else 1
        if parts > 1:
            of = partial(_ids_of, name=unit.column)
            return count_ids(files.tables(native, ids), unit.column, parts, of)
        return _units_of(unit.column, open_table(native, ids))
    if unit.many:
        return unit.number or 0
    if engine is not None:
        return engine.count(native)
    return files.count(native, columns) if files.is_path(native) else len(open_table(native, ()))


def _units_of(name: str, native: Any) -> int:
    return int(_ids_of(native, name).max(initial=-1)) + 1


def _ids_of(native: Any, name: str) -> Codes:
    return _identities(open_table(native, ()), name)


def _identities(table: nw.DataFrame[Any], name: str) -> Codes:
    cells = cells_of(_get(table, name))
    found = to_ids(cells)
    if found is None:
        raise InputError(f"column {name!r} must hold ids, as text, numbers or dates, not {kind_of(cells)}: convert it")
    return found


def misfit(table: nw.DataFrame[Any], column: Wanted) -> str:
    """Why a table's column cannot be read as the schema says, by its name and type; empty if it can."""
    try:
        if isinstance(column, Ids):
            _identities(table, column.name)
        elif isinstance(column, Number) or not column.levels:
            _numbers(table, column.name)
        else:
            _codes(table, column)
    except InputError as fault:
        return str(fault)
    return ""


@np.errstate(all="ignore")  # a warning would tell of a value
def _known(table: nw.DataFrame[Any], column: Number) -> Array:
    """The values of a column, NaN where a value is not of its kind."""
    values = _numbers(table, column.name)
    if column.kind == "number" and np.isfinite(values.sum()):  # all are; this takes less time
        return values
    known = np.isfinite(values)
    if column.kind == "integer":
        known &= values == np.rint(values)
    if column.kind == "boolean":
        known &= (values == 0) | (values == 1)
    return np.where(known, values, np.nan)


def _bounded(known: Array, column: Number) -> Array:
    clipped = np.clip(known, column.low, column.high)
    if column.missing is None:
        return clipped
    return np.where(np.isnan(known), column.missing, clipped)


def _numbers(table: nw.DataFrame[Any], name: str) -> Array:
    cells = cells_of(_get(table, name))
    kind = kind_of(cells)
    if kind in ("Int128", "UInt128"):
        raise InputError(f"column {name!r} is {kind}, which is not read: cast it to 64 bits")
    found = to_numbers(cells)
    if found is None:
        raise InputError(
            f"column {name!r} must hold numbers, as the schema says, not {kind}: convert it, or change its type in "
            "the schema"
        )
    return found


def _codes(table: nw.DataFrame[Any], source: Category | Outcome) -> Codes:
    """The place of each value among the levels; their number for anything else, missing values included.

    A missing value can turn a pandas column of integers into floats, or one of booleans into objects: both are read.
    """
    name, levels = source.name, source.levels
    cells, kind = cells_of(_get(table, name)), type(levels[0])
    found = to_places(cells, levels) if _fits(cells, kind) else None
    if found is None:
        raise InputError(
            f"column {name!r} is {kind_of(cells)}, but its levels in the schema are {kind.__name__}: convert it, or "
            "write the levels as they are in the table"
        )
    return found


def _fits(cells: Cells, kind: type) -> bool:
    """Whether the type of a column is that of its levels; objects may be anything."""
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind in {str: "OUT", int: "Oiuf", bool: "Ob"}[kind]
    of = {str: ("String", "Categorical", "Enum"), int: ("Int", "UInt", "Float"), bool: ("Boolean",)}
    return kind_of(cells).startswith(("Null", *of[kind]))


def _get(table: nw.DataFrame[Any], name: str) -> nw.Series[Any]:
    files.require(name, table.columns, "the table")
    return table.get_column(name)
