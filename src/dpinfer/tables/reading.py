"""A table and a formula: the design, and where its records are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals as nw

from dpinfer.errors import InputError
from dpinfer.maths.sums import Block
from dpinfer.rows import workers
from dpinfer.rows.encoded import Encoded, Encoding, Raw, in_memory
from dpinfer.rows.id_buckets import Parted, Parts, count_ids, number_of_parts
from dpinfer.rows.source import Blocks, Pending, Source, cuts, most_records
from dpinfer.schema.columns import Ids, Wanted
from dpinfer.schema.design import Design
from dpinfer.schema.terms import Response, Terms
from dpinfer.schema.unit import ROW, Unit
from dpinfer.tables import arrow_files
from dpinfer.tables.cells import Codes
from dpinfer.tables.engines import engine_of
from dpinfer.tables.memory import (
    check,
    identities_of,
    numbers_of,
    open_table,
    read_labels,
    read_terms,
)


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
            read_terms(table, self.terms, clipped=False),
            scale.bounded(read_labels(table, self.response)),
            identities_of(table, unit.column) if unit.many else None,
            numbers_of(table, unit.weights) if unit.weights else None,
        )


def read(
    native: Any,
    response: Response,
    terms: Terms,
    kind: str,
    unit: Unit = ROW,
    *,
    counted: bool = True,
) -> tuple[Design, Pending]:
    """The encoding of a formula and the records of a table; ``kind`` is what the loss is a function
    of.

    ``unit`` says whose rows they are, and ``counted`` whether their number is public.

    Guarantee [types_first]: names, types and the number of rows are looked at now, values when the
    records are read.  Where a unit has many rows, their number is not; instead the ids are, to
    count the units, and not even these where the schema states the number of units, or where it is
    private.
    """
    design = Design.of_formula(response, terms, kind, unit)
    reader = Reader(response, terms, Encoding(design, kind))
    check(native, reader.columns)
    n = _number(native, reader.columns, unit, counted)
    most_records(n)
    return design, Pending(n, lambda: source(native, reader, n))


def source(native: Any, reader: Reader, n: int) -> Source:
    """The records of a table or of files; what is in files is read anew in every pass, unless it is
    kept.
    """
    engine = engine_of(native)
    if engine is not None:
        return engine.source(native, reader, n)
    if reader.encoding.unit.many:
        return _units(native, reader, n)
    if arrow_files.is_path(native):
        rows = arrow_files.count(native, reader.columns)

        def batches(size: int) -> Iterator[Callable[[], Raw]]:
            left = rows
            for part in arrow_files.pieces(native, reader.columns, size):
                left -= len(part)
                if left < 0:
                    break
                yield partial(_raw, reader, part)
            if left:
                raise InputError(
                    "the files were changed while they were read: fit again when nobody writes to them"
                )
            if not rows:
                yield partial(_raw, reader, arrow_files.blank(native, reader.columns))

        return Encoded(rows, reader.encoding, batches, workers.memory())
    return _in_memory(native, reader)


def _in_memory(native: Any, reader: Reader) -> Blocks:
    """The records of a table; those of units are encoded once, others in every pass."""
    table = open_table(native, reader.columns)
    if reader.encoding.unit.many:
        return in_memory(reader.raw(table), reader.encoding)

    def slices(size: int) -> Iterator[Callable[[], Raw]]:
        yield from (
            partial(_raw, reader, table[first:last]) for first, last in cuts(len(table), size)
        )

    return Encoded(len(table), reader.encoding, slices)


def _units(native: Any, reader: Reader, n: int) -> Source:
    """All rows of each unit together: in memory or, where that is too small for what files hold, in
    parts.
    """
    columns, unit, wide = reader.columns, reader.encoding.unit, len(reader.encoding.design.names)
    rows = arrow_files.count(native, columns) if arrow_files.is_path(native) else 0
    most_records(rows)
    parts = number_of_parts(rows, wide, workers.memory())
    if parts == 1:
        return _in_memory(native, reader)
    sorted_ = Parts(arrow_files.tables(native, columns), unit.column, parts)
    return Parted(n, reader.encoding, sorted_, partial(_raw, reader))


def _raw(reader: Reader, native: Any) -> Raw:
    return reader.raw(open_table(native, ()))


def _number(native: Any, columns: Sequence[Wanted], unit: Unit, counted: bool) -> int:
    """The public number of records or units; 0 for a private number of units, which nobody asks
    for.
    """
    engine = engine_of(native)
    if unit.many and unit.number is None and counted:
        if engine is not None:
            return engine.count_units(native, unit.column, partial(_units_of, unit.column))
        ids: list[Wanted] = [Ids(unit.column)]
        parts = (
            number_of_parts(arrow_files.count(native, ids), 1, workers.memory())
            if arrow_files.is_path(native)
            else 1
        )
        if parts > 1:
            of = partial(_ids_of, name=unit.column)
            return count_ids(arrow_files.tables(native, ids), unit.column, parts, of)
        return _units_of(unit.column, open_table(native, ids))
    if unit.many:
        return unit.number or 0
    if engine is not None:
        return engine.count(native)
    return (
        arrow_files.count(native, columns)
        if arrow_files.is_path(native)
        else len(open_table(native, ()))
    )


def _units_of(name: str, native: Any) -> int:
    return int(_ids_of(native, name).max(initial=-1)) + 1


def _ids_of(native: Any, name: str) -> Codes:
    return identities_of(open_table(native, ()), name)
