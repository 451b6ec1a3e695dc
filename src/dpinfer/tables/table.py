"""Raw tables: one protocol, and the one place that asks what kind of table it is.

| table | what is given | module |
| --- | --- | --- |
| `InMemory` | a pandas, polars or pyarrow table, a dict of arrays | `memory` |
| `Streamed` | a lazy frame of polars, a relation of DuckDB, a stream of Arrow | `streams` |
| `Files` | a path: a file, a folder, a pattern | `arrow_files`, `csv_files` |
| `Dask` | a Dask DataFrame | `on_dask`, `cluster` |
| `Spark` | a Spark DataFrame | `on_spark`, `cluster` |
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Protocol

import narwhals as nw
from narwhals import dependencies as libraries

from dpinfer.errors import InputError
from dpinfer.rows.encoded import Encoding
from dpinfer.rows.source import Pending, Source, require_record_limit
from dpinfer.schema.columns import Wanted
from dpinfer.schema.design import Design
from dpinfer.schema.terms import ModelTerms, Part, Response
from dpinfer.schema.unit import ROW, Unit
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.memory import (
    ColumnReader,
    FeatureReader,
    FormulaReader,
    InMemory,
    Reader,
    misfit,
    of_columns,
)
from dpinfer.tables.streams import Streamed, is_lazy, is_stream

_NO_LABEL = "residual"  # a label of 0 is a number like any other


class Table(Protocol):
    """A table, wherever its rows are.  ``columns`` are those that are read."""

    def types(self) -> list[tuple[str, str]]:
        """Return the names of the columns, and what their types say: number, integer, boolean,
        category, date, nothing.
        """
        ...

    def blank(self, columns: Sequence[Wanted], /) -> nw.DataFrame[Any]:
        """Return a table with the columns, maybe among others, of the types that are read, and no
        row; no value is looked at.
        """
        ...

    def opened(self, columns: Sequence[Wanted], /) -> nw.DataFrame[Any]:
        """Return the columns, maybe among others, with all rows, in memory; refused on a cluster."""
        ...

    def require_local(self) -> None:
        """Refuse now what `opened` would refuse."""
        ...

    def count(self, columns: Sequence[Wanted], /) -> int:
        """Return the number of rows of a table that has the columns."""
        ...

    def count_units(self, ids: str, /) -> int:
        """Return the number of units, by the column of their ids."""
        ...

    def source(self, reader: Reader, n: int, /) -> Source:
        """Return the records, of n rows or units."""
        ...


def table_of(native: Any) -> Table:
    """Return the table that is given.  No library is loaded to find out what it is."""
    if isinstance(native, str | PathLike):
        return Files(native)
    if isinstance(native, Mapping):
        return InMemory(of_columns(native))
    native = nw.to_native(native, pass_through=True)
    if libraries.is_dask_dataframe(native):
        from dpinfer.tables.on_dask import Dask  # noqa: PLC0415  (of an extra)

        return Dask(native)
    if libraries.is_pyspark_dataframe(native) or libraries.is_pyspark_connect_dataframe(native):
        from dpinfer.tables.on_spark import Spark  # noqa: PLC0415  (of an extra)

        return Spark(native)
    if is_lazy(native) or is_stream(native):  # asked last: tables of Spark have streams, too
        return Streamed(native)
    return InMemory(native)


def check(table: Table, columns: Sequence[Wanted]) -> None:
    """Refuse a table whose names or types do not fit; no value is looked at, and no row counted."""
    blank = table.blank(columns)
    for column in columns:
        fault = misfit(blank, column)
        if fault:
            raise InputError(fault)


def read(
    native: Any,
    response: Response,
    terms: ModelTerms,
    kind: str,
    unit: Unit = ROW,
    *,
    counted: bool = True,
    number: int | None = None,
) -> tuple[Design, Pending]:
    """Return the encoding of a formula and the records of a table; ``kind`` is what the loss is a
    function of.

    ``unit`` says whose rows they are, and ``counted`` whether their number is public.  ``number`` is
    that of the records or units, where somebody has counted them before: nothing is counted then.

    Guarantee [types_first]: names, types and the number of rows are looked at now, values when the
    records are read.  Of a stream the number of rows is looked at only where it is public.  Where a
    unit has many rows, their number is not; instead the ids are, to count the units, and not even
    these where the number of units is known, from the schema or as ``number``, or where it is private.
    """
    design = Design.of_formula(response, terms, kind, unit)
    reader = FormulaReader(response, terms, Encoding(design, kind))
    table = table_of(native)
    check(table, reader.columns)
    n = number_of(table, reader.columns, unit, counted) if number is None else number
    if counted and not unit.many:
        design = design.for_records(n)
        reader = FormulaReader(response, terms, Encoding(design, kind))
    _require_proved(n, design.unit, counted)
    return design, Pending(n, lambda: table.source(reader, n))


def read_features(
    native: Any, terms: ModelTerms, unit: Unit = ROW, *, counted: bool = True
) -> tuple[Design, Pending]:
    """Return the encoding of features and the records of a table; values are looked at as in `read`."""
    design = replace(Design.of_terms(terms), unit=unit)
    reader = FeatureReader(terms, Encoding(design, _NO_LABEL))
    table = table_of(native)
    check(table, reader.columns)
    n = number_of(table, reader.columns, unit, counted)
    if counted and not unit.many:
        design = design.for_records(n)
        reader = FeatureReader(terms, Encoding(design, _NO_LABEL))
    _require_proved(n, design.unit, counted)
    return design, Pending(n, lambda: table.source(reader, n))


def read_columns(
    native: Any,
    columns: Sequence[Part],
    by: Part | None,
    unit: Unit = ROW,
    *,
    counted: bool = True,
) -> tuple[Unit, Pending]:
    """Return columns of a table one by one, for a description, with the group of each record by
    ``by``; and whose rows they are, with how many there are at most.

    As in `read`, values are looked at when the records are read.
    """
    reader = ColumnReader(tuple(columns), by, unit)
    table = table_of(native)
    check(table, reader.columns)
    n = number_of(table, reader.columns, unit, counted)
    if counted and not unit.many:
        unit = unit.for_records(n)
        reader = ColumnReader(tuple(columns), by, unit)
    _require_proved(n, unit, counted)
    return unit, Pending(n, lambda: table.source(reader, n))


def _require_proved(n: int, unit: Unit, counted: bool) -> None:
    """Refuse more records than noise is sized for, where their number is public.  Whether a private
    one is larger would be an answer without noise, so it is asked when the records are read, after booking.
    """
    if counted or unit.many:
        require_record_limit(n, unit.largest)


def number_of(table: Table, columns: Sequence[Wanted], unit: Unit, counted: bool) -> int:
    """Return the public number of records or units; 0 for a private number of units or of records of a
    stream, which is not needed.
    """
    if isinstance(table, Streamed) and not counted:
        return 0
    if not unit.many:
        return table.count(columns)
    if unit.number is not None:
        return unit.number
    return table.count_units(unit.column) if counted else 0
