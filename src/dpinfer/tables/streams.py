"""Tables that are read as streams of Arrow record batches: lazy frames of polars, relations of DuckDB, any other one.

A stream is read once, to a temporary file that has no name, and from there in every pass: a query that
is run again may give other rows, or the same in another order.  A lazy table gives names, types and the
number of its rows without its values; a stream that is no lazy table has a number of rows only when it
is read.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import narwhals as nw
import pyarrow as pa
from narwhals import dependencies as libraries

from dpinfer.errors import InputError
from dpinfer.rows.source import Source
from dpinfer.schema.columns import Ids, Wanted
from dpinfer.tables.arrow_files import Files, Member
from dpinfer.tables.memory import InMemory, Reader, names_of, not_here, require


def is_lazy(native: Any) -> bool:
    """Return whether a table is a query that is run when its rows are asked for."""
    return libraries.is_polars_lazyframe(native) or libraries.is_duckdb_relation(native)


def is_stream(native: Any) -> bool:
    """Return whether something hands out Arrow record batches, and is no table in memory."""
    return hasattr(native, "__arrow_c_stream__") and not libraries.is_into_dataframe(native)


class Streamed:
    """A table that is read as a stream; see `dpinfer.tables.table.Table`.

    Guarantee [streams_are_booked_first]: names and types are looked at now, and the number of rows where
    it is public.  Of a lazy table no value is read for that.  Where the number of rows is private,
    nothing is read of any stream before the fit is booked.
    """

    def __init__(self, native: Any) -> None:
        self._native = native
        self._stored: dict[tuple[str, ...], _StreamFile] = {}

    @cached_property
    def _blank(self) -> pa.Table:
        """The table without its rows."""
        with _reading(self._native):
            if libraries.is_polars_lazyframe(self._native):
                schema = self._native.collect_schema()
                return libraries.get_polars().DataFrame(schema=schema).to_arrow()
            if is_lazy(self._native):
                return pa.RecordBatchReader.from_stream(self._native.limit(0)).schema.empty_table()
            return self._reader.schema.empty_table()

    @cached_property
    def _reader(self) -> pa.RecordBatchReader:
        """The stream of what is no lazy table; it can be read once."""
        if isinstance(self._native, pa.RecordBatchReader):
            return self._native
        try:
            return pa.RecordBatchReader.from_stream(self._native)
        except (pa.ArrowException, TypeError, ValueError):  # as of an array, which has no columns
            raise not_here(self._native) from None

    def types(self) -> list[tuple[str, str]]:
        """Return the names of the columns, and what their types say."""
        return InMemory(self._blank).types()

    def blank(self, columns: Sequence[Wanted]) -> nw.DataFrame[Any]:  # noqa: ARG002
        """Return all columns, without rows."""
        return InMemory(self._blank).blank([])

    def opened(self, columns: Sequence[Wanted]) -> nw.DataFrame[Any]:
        """Return the given columns, with all rows."""
        return self._read(columns).opened(columns)

    def require_local(self) -> None:
        """Do nothing: a stream is read here."""

    def count(self, columns: Sequence[Wanted]) -> int:
        """Return the number of rows: of a lazy table by a query of its own, which reads no value."""
        if not is_lazy(self._native):
            return self._read(columns).count(columns)
        lazy: Any = nw.from_native(self._native)
        with _reading(self._native):
            return int(lazy.select(nw.len()).collect("pyarrow").item())

    def count_units(self, ids: str) -> int:
        """Return the number of different ids."""
        return self._read([Ids(ids)]).count_units(ids)

    def source(self, reader: Reader, n: int) -> Source:
        """Return the records, which are read now; n is their number where it is public, else 0."""
        stored = self._read(reader.columns)
        if n and not reader.encoder.unit.many and stored.count(reader.columns) != n:
            raise InputError(
                "the table has another number of rows than before it was read: fit when nobody writes to it, or "
                "collect it first"
            )
        return stored.source(reader, n)

    def _read(self, columns: Sequence[Wanted]) -> "_StreamFile":
        """Return the given columns in a file, and of what can be read only once all columns."""
        there = self._blank.column_names
        for name in names_of(columns):
            require(name, there, "the table")
        names = names_of(columns) if is_lazy(self._native) else there
        key = tuple(names)
        if key not in self._stored:
            with _reading(self._native):
                blank = self._blank.select(names)
                self._stored[key] = _StreamFile.of(blank.schema, self._batches(names))
        return self._stored[key]

    def _batches(self, names: list[str]) -> Iterator[pa.Table]:
        if not is_lazy(self._native):
            return map(pa.table, self._reader)
        query: Any = nw.from_native(self._native).select(names).to_native()
        if libraries.is_duckdb_relation(self._native):
            return map(pa.table, pa.RecordBatchReader.from_stream(query))
        if hasattr(query, "collect_batches"):
            return (frame.to_arrow() for frame in query.collect_batches(maintain_order=True))
        return iter([query.collect().to_arrow()])


@contextmanager
def _reading(native: Any) -> Iterator[None]:
    """Turn errors of a library into an `InputError` that quotes nothing of them: they may hold a value."""
    try:
        yield
    except (MemoryError, InputError):
        raise
    except Exception as error:
        fault = type(error).__name__
    else:
        return
    library = type(native).__module__.partition(".")[0].lstrip("_")
    raise InputError(
        f"{library}'s {type(native).__name__} cannot be read ({fault}): run its query alone to find out why"
    )


@dataclass(frozen=True)
class _StreamFile(Files):
    """A stream in a temporary file without a name, which is gone with the last who may read it."""

    stored: Member

    @classmethod
    def of(cls, schema: pa.Schema, tables: Iterator[pa.Table]) -> "_StreamFile":
        """Store tables of one type; of ``schema`` if there are none."""
        file = TemporaryFile()  # noqa: SIM115  (it is closed with the last who reads it)
        stored = Member(Path(f"/proc/self/fd/{file.fileno()}"), "Arrow")
        weakref.finalize(stored, file.close)
        table = next(tables, None)
        with pa.ipc.new_stream(file, schema if table is None else table.schema) as writer:
            while table is not None:
                _write(writer, table)
                table = next(tables, None)
        file.flush()
        return cls(stored.path, stored)

    def members(self) -> list[Member]:
        """Return the file."""
        return [self.stored]


def _write(writer: Any, table: pa.Table) -> None:
    try:
        writer.write_table(table)
    except OSError as error:
        raise InputError(
            f"the rows of a stream are kept in a temporary file, which cannot be written ({error.strerror}): make "
            "room, or set TMPDIR to a folder with more"
        ) from None
