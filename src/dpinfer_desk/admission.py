"""Admission of a table: the public sizes that its files must keep, checked when it is registered.

Time and memory of a fit grow with the rows of the table, with those of one unit and with the length of a
text.  One person could decide all of them, and so whether an answer is lost.  So the steward declares how
many rows the table and one unit have at most, and texts have a fixed ceiling.  Files that exceed one of these
are refused here, where nobody but the steward sees it; a fit reads no others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpinfer.errors import InputError
from dpinfer.schema.columns import Number, Wanted
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import Unit
from dpinfer.tables.arrow_files import members_of
from dpinfer.tables.data_check import sizes_of, unit_sizes
from dpinfer.tables.table import check as check_columns
from dpinfer.tables.table import table_of
from dpinfer_desk.store import tables

_COPIES = 16  # of the numbers of a row, while the rows of a part are sorted by their ids
_TEXT_COPIES = 3  # of a text: the rows of one unit with long texts took 2.7 times their bytes
_NUMBER = 8  # bytes
_SHARE = 0.5  # of the memory of a fit, which libraries and other rows need, too


@dataclass(frozen=True)
class DeclaredSizes:
    """The numbers that a steward declares of a table; None for one that is left out.

    ``records`` is a public guess of the number of records or units, where it is private.  ``max_rows`` and
    ``max_unit_rows`` are the rows that the table and one unit have at most.
    """

    records: int | None = None
    max_rows: int | None = None
    max_unit_rows: int | None = None

    def __post_init__(self) -> None:
        if self.records is not None and self.records < 1:
            raise InputError(f"a guess of the number of records is at least 1, not {self.records}")
        for name in ("max_rows", "max_unit_rows"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InputError(f"{name} is a number of rows of at least 1, not {number}")


@dataclass(frozen=True)
class PublicSizes:
    """The public sizes of a registered table; ``records`` as in `RegisteredTable`."""

    records: int | None
    max_rows: int
    max_unit_rows: int


def admit(data: Path, schema: Schema, declared: DeclaredSizes, *, counted: bool) -> PublicSizes:
    """Return the public sizes of a table; `InputError` if its files do not keep them.

    ``counted`` says whether the number of records or units is public.  Names and types of the columns are
    checked first.

    Guarantee [sizes_are_public]: of the files of a registered table no row, unit or cell is larger than a public
    number, so that time and memory of a fit are those of made-up tables of these sizes.  An error
    names the public number and not the size of the files.
    """
    unit = schema.unit
    columns = [*schema.columns.values(), *unit.columns]
    check_columns(table_of(str(data)), columns)
    _require_declared(unit, declared, counted=counted)
    _require_no_stream(data)
    try:
        sizes = sizes_of(data, columns)
    except MemoryError:
        raise InputError(
            "the table cannot be read in memory, and a desk reads texts of at most "
            f"{tables.MAX_CELL:,} bytes: write it again with longer texts cut off or left out"
        ) from None
    if sizes.cell > tables.MAX_CELL:
        raise InputError(
            f"the column {sizes.column!r} has a text of more than {tables.MAX_CELL:,} bytes, which a desk does not "
            "read: write the table again with longer texts cut off or left out"
        )
    if sizes.record > tables.MAX_RECORD:
        raise InputError(
            f"a line of the CSV file has more than {tables.MAX_RECORD:,} bytes, which a desk does not read: write the "
            "table as Parquet, or leave long columns out"
        )
    if not unit.many:
        return _of_records(sizes.rows, unit, declared, counted=counted)
    return _of_units(data, sizes.rows, unit, declared, counted=counted)


def _require_declared(unit: Unit, declared: DeclaredSizes, *, counted: bool) -> None:
    if unit.many and declared.max_unit_rows is None:
        raise InputError(
            "a unit of this table has several rows: declare how many it has at most, as --max-unit-rows, from what is "
            "public and with room for more"
        )
    if not unit.many and declared.max_unit_rows is not None:
        raise InputError("max_unit_rows goes with a column of ids in [unit]: leave it out")
    if declared.max_rows is None and not counted:
        raise InputError(
            f"the number of {unit.word} is private: declare how many rows the table has at most, as --max-rows, from "
            "what is public and with room for more"
        )
    if declared.max_rows is not None and counted and not unit.many:
        raise InputError("the number of rows is public here: leave max_rows out")


def _require_no_stream(data: Path) -> None:
    for member in members_of(data):
        if member.is_stream:
            raise InputError(
                f"{member.path.name!r} is an Arrow stream, of which all columns are read: write it as Parquet or as "
                "an Arrow file"
            )


def _of_records(rows: int, unit: Unit, declared: DeclaredSizes, *, counted: bool) -> PublicSizes:
    if counted:
        return PublicSizes(rows, rows, 1)
    assert declared.max_rows is not None
    _require_rows(rows, declared.max_rows, unit)
    return PublicSizes(declared.records, declared.max_rows, 1)


def _of_units(
    data: Path, rows: int, unit: Unit, declared: DeclaredSizes, *, counted: bool
) -> PublicSizes:
    max_rows = declared.max_rows
    max_unit_rows = declared.max_unit_rows
    assert max_unit_rows is not None
    if max_rows is not None:  # before ids are compared, which takes memory
        _require_rows(rows, max_rows, unit)
    units, largest = unit_sizes(data, unit.column)
    if largest > max_unit_rows:
        raise InputError(
            f"a unit has more than {max_unit_rows:,} rows: raise --max-unit-rows, or leave out rows of units that "
            "have more"
        )
    records = declared.records
    if counted:
        records = units if unit.number is None else unit.number
    if max_rows is None:
        assert records is not None
        max_rows = max(records, 1) * max_unit_rows
        _require_rows(rows, max_rows, unit)
    return PublicSizes(records, max_rows, min(max_unit_rows, max_rows))


def _require_rows(rows: int, max_rows: int, unit: Unit) -> None:
    if rows > max_rows:
        raise InputError(
            f"the table has more than {max_rows:,} rows: raise --max-rows, or take a part of the table"
        )
    # Asked of the files only when a fit has been booked, as their number is private.
    if max_rows > unit.largest:
        raise InputError(
            f"{max_rows:,} rows are more than the {unit.largest:,} that noise is sized for: lower --max-rows, or write "
            "largest_table into [unit]"
        )


def texts_of(columns: Sequence[Wanted]) -> int:
    """Return how many of the columns may hold texts: all but numbers, as dates may be written as texts."""
    numbers = [one for one in columns if isinstance(one, Number) and one.kind != "date"]
    return len({one.name for one in columns} - {one.name for one in numbers})


def require_memory(max_unit_rows: int, width: int, texts: int, megabytes: int) -> None:
    """Refuse rows of one unit that may not fit the memory of a fit, from public facts alone.

    ``width`` is the length of an encoded row, and ``texts`` the number of columns that may hold texts.
    """
    if max_unit_rows == 1:
        return
    row = _COPIES * _NUMBER * (width + 1) + _TEXT_COPIES * tables.MAX_CELL * texts
    largest = int(_SHARE * megabytes * 10**6 // row)
    if max_unit_rows > largest:
        raise InputError(
            f"the {max_unit_rows:,} rows that one unit may have could take more memory than a fit has, which is enough "
            f"for {largest:,} of them: name fewer columns, or have the steward lower --max-unit-rows or raise memory "
            "in desk.toml"
        )
