"""Looks at values without noise, for the holder of the data alone: this is NOT PRIVATE.

Nothing of it is ever used by a fit.  Cells are counted and never shown.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpinfer.schema.columns import Category, Ids, Number, Outcome, Wanted
from dpinfer.schema.dates import day_of_text
from dpinfer.schema.terms import ModelTerms, Response, explained, of_column
from dpinfer.tables import csv_files
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.cells import ARROW_BYTES, ARROW_TEXTS, objects
from dpinfer.tables.levels import match
from dpinfer.tables.memory import identities_of, read_labels, read_terms, values_of
from dpinfer.tables.table import table_of

Flags = npt.NDArray[np.bool_]

NOT_PRIVATE = (
    "NOT PRIVATE: single values were looked at, without noise. This is for the holder of the data: publish none of it, "
    "and take no bound and no level from it that is not known without the table."
)
FIRST = 10_000
"""Records that types are guessed from."""
_WORDS_FOR_NOTHING = {"", "na", "n/a", "nan", "null", "none", "."}
_INTEGER = r"[+-]?[0-9]{1,18}"
THOUSANDS = "commas between thousands"
DECIMAL_COMMAS = "commas for decimal points"
OTHER_DATES = "dates in another form"
ZERO_ONE = "0 and 1"
_NUMBERS = {
    THOUSANDS: r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?",
    DECIMAL_COMMAS: r"[+-]?[0-9]*,[0-9]+",
}
_DATES = {
    OTHER_DATES: r"[0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{2}){1,2}|[0-9]{4}[./]?[0-9]{2}[./]?[0-9]{2}"
}
_LEVELS = {ZERO_ONE: r"[01](\.0*)?"}


@dataclass(frozen=True)
class CellCounts:
    """Counts of the cells of a column that do not fit.

    ``missing`` cells are empty and ``unread`` ones are not of the column's type; ``near`` of these
    differ from a level in case and white space alone.  ``below`` and ``above`` lie beyond the bounds.
    ``form`` is how most of the unread ones are written, if that is a form that is known.
    """

    name: str
    missing: int
    unread: int
    below: int
    above: int
    near: int
    form: str = ""


@dataclass(frozen=True)
class Peek:
    """Counts over all rows; ``usable`` are those of which no column counts as missing, ``broken``
    the lines of a CSV file that are no rows, and ``no_text`` those of them that are not UTF-8."""

    rows: int
    usable: int
    broken: int
    columns: tuple[CellCounts, ...]
    no_text: int = 0


def peek(native: Any, columns: Sequence[Wanted]) -> Peek:
    """Count what does not fit in the given columns of a table or file whose names and types do."""
    source = table_of(native)
    table = source.opened(columns)
    written = table
    broken = 0
    no_text = 0
    if isinstance(source, Files) and source.is_csv:  # where every cell is a text
        written = source.opened([Ids(column.name) for column in columns])
        broken = int(written.get_column(columns[0].name).is_null().sum())
        no_text = csv_files.count_no_text(Path(source.path)) if broken else 0
    counts = []
    usable = np.ones(len(table), dtype=bool)
    for column in columns:
        fits = _fits(table, column)
        usable &= fits | (getattr(column, "missing", None) is not None)
        counts.append(_count(table, written, column, fits))
    return Peek(len(table), int(usable.sum()), broken, tuple(counts), no_text)


@dataclass(frozen=True)
class FileSizes:
    """The sizes of a table in files that one record may decide.

    ``rows`` is the number of rows.  ``column`` holds the longest text, of ``cell`` bytes.  ``record`` is the
    number of bytes of the longest line of a CSV file.
    """

    rows: int
    column: str
    cell: int
    record: int


def sizes_of(path: str | PathLike[str], columns: Sequence[Wanted]) -> FileSizes:
    """Return the sizes of the given columns of a table in files whose names and types fit."""
    files = Files(path)
    record = files.longest_record()
    longest = {column.name: 0 for column in columns}
    rows = 0
    for piece in files.tables(columns):
        rows += len(piece)
        for name, so_far in longest.items():
            longest[name] = max(so_far, 0, *map(_longest_text, piece[name].chunks))
    column = max(longest, key=lambda name: longest[name])
    return FileSizes(rows, column, longest[column], record)


def unit_sizes(path: str | PathLike[str], ids: str) -> tuple[int, int]:
    """Return the number of units of a table in files, and the number of rows of the one that has most."""
    sizes = Files(path).unit_sizes(ids)
    return len(sizes), int(sizes.max(initial=0))


def _longest_text(cells: pa.Array) -> int:
    """Return the bytes of the longest text; 0 in a column of anything else."""
    if isinstance(cells, pa.DictionaryArray):
        cells = cells.dictionary
    if cells.type == pa.binary_view():  # of which Arrow counts no bytes
        cells = cells.cast(pa.large_binary())
    if not str(cells.type).startswith((*ARROW_TEXTS, *ARROW_BYTES)):
        return 0
    return pc.max(pc.binary_length(cells)).as_py() or 0


def _fits(table: nw.DataFrame[Any], column: Wanted) -> Flags:
    """Return which cells a fit can encode, without a substitute."""
    if isinstance(column, Ids):
        return np.asarray(identities_of(table, column.name) >= 0)
    if isinstance(column, Outcome):
        if column.levels:
            return np.isfinite(read_labels(table, Response(column)))
        number = explained(column)
        assert isinstance(number, Number)
        return np.isfinite(read_labels(table, Response(of_column(number))))
    values = read_terms(table, ModelTerms.plain([replace(column, missing=None)]))
    return np.asarray(np.isfinite(values).all(axis=1))


def _count(
    table: nw.DataFrame[Any], written: nw.DataFrame[Any], column: Wanted, fits: Flags
) -> CellCounts:
    cells = written.get_column(column.name).to_list()
    missing = np.array([_is_nothing(cell) for cell in cells], dtype=bool) & ~fits
    unread = ~fits & ~missing
    below = above = near = 0
    if isinstance(column, Category) or (isinstance(column, Outcome) and column.levels):
        if isinstance(column.levels[0], str):
            texts = objects(cells[j] for j in np.flatnonzero(unread))
            near = int((match(texts, column.levels, any_spelling=True) < len(column.levels)).sum())
    elif not isinstance(column, Ids) and column.low is not None and column.high is not None:
        values = values_of(table, column)[fits]
        below = int((values < column.low).sum())
        above = int((values > column.high).sum())
    form = _form(column, [cells[j] for j in np.flatnonzero(unread)])
    return CellCounts(column.name, int(missing.sum()), int(unread.sum()), below, above, near, form)


def _form(column: Wanted, cells: Sequence[Any]) -> str:
    """Return the form that most of the cells have, of those in which a column like this is often written."""
    if isinstance(column, Ids):
        return ""
    kind = _NUMBERS
    if column.levels and not isinstance(column, Number):
        kind = _LEVELS
    elif isinstance(column, Number) and column.kind == "date":
        kind = _DATES
    texts = [str(cell).strip() for cell in cells]
    for form, pattern in kind.items():
        if 2 * sum(re.fullmatch(pattern, text) is not None for text in texts) > len(texts):
            return form
    return ""


def _is_nothing(cell: Any) -> bool:
    """Whether there is no value in a cell."""
    if cell is None:
        return True
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, float):
        return math.isnan(cell)
    return str(cell) in ("<NA>", "NaT")


def typed(path: str | PathLike[str]) -> pa.Table:
    """Return the columns of a CSV file without rows, with types guessed from its first records;
    other files as they are.
    """
    files = Files(path)
    names = [name for name, _ in files.types()]
    if not files.is_csv:
        return files.schema([Ids(name) for name in names]).empty_table()
    rows = csv_files.first_rows(Path(path), FIRST)
    texts = [[cell.decode().strip() for cell in row] for row in rows]
    fields = [(name, _guess([row[j] for row in texts])) for j, name in enumerate(names)]
    return pa.schema(fields).empty_table()


def _guess(cells: list[str]) -> str:
    """Return the Arrow type that all cells with something in them fit; of no cell, one that says
    nothing.
    """
    filled = {cell for cell in cells if cell.lower() not in _WORDS_FOR_NOTHING}
    if not filled:
        return "null"
    if {cell.lower() for cell in filled} <= {"true", "false"}:
        return "bool"
    if all(math.isfinite(day_of_text(cell)) for cell in filled):
        return "date32[day]"
    for pattern, kind in ((_INTEGER, "int64"), (csv_files.NUMBER, "double")):
        if all(re.fullmatch(pattern, cell) for cell in filled):
            return kind
    return "string"
