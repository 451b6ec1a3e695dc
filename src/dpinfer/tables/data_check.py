"""Looks at values without noise, for the holder of the data alone: what is counted or guessed here
is NOT PRIVATE.

Nothing of it is ever used by a fit.  Cells are counted and never shown.
"""

import gzip
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from dpinfer.schema.columns import Category, Ids, Outcome, Wanted, alike
from dpinfer.schema.expressions import of_column
from dpinfer.schema.terms import Response, Terms, explained
from dpinfer.tables import arrow_files, csv_files
from dpinfer.tables.cells import cells_of, to_ids, to_numbers
from dpinfer.tables.memory import open_table, read_labels, read_terms

if TYPE_CHECKING:
    import pyarrow as pa

NOT_PRIVATE = (
    "NOT PRIVATE: single values were looked at, without noise. This is for the holder of the data: publish none of it, "
    "and take no bound and no level from it that is not known without the table."
)
FIRST = 10_000
"""Records that types are guessed from."""
_WORDS_FOR_NOTHING = {"", "na", "n/a", "nan", "null", "none", "."}
_INTEGER, _NUMBER = r"[+-]?[0-9]{1,18}", r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"


@dataclass(frozen=True)
class Counted:
    """How many cells of a column are what; ``near`` of those that are no level differ from one in
    case alone.
    """

    name: str
    missing: int
    unread: int
    below: int
    above: int
    near: int


@dataclass(frozen=True)
class Peek:
    """Counts over all rows; ``usable`` are those of which no column counts as missing, ``broken``
    the lines of a CSV file that are no rows."""

    rows: int
    usable: int
    broken: int
    columns: tuple[Counted, ...]


def peek(native: Any, columns: Sequence[Wanted]) -> Peek:
    """Count what does not fit in the given columns of a table or file whose names and types do."""
    table = open_table(native, columns)
    texts = (
        open_table(native, [Ids(column.name) for column in columns]) if _is_csv(native) else table
    )
    counted, usable = [], np.ones(len(table), dtype=bool)
    for column in columns:
        fits = _fits(table, column)
        usable &= fits | (getattr(column, "missing", None) is not None)
        counted.append(_count(table, texts, column, fits))
    broken = int(texts.get_column(columns[0].name).is_null().sum()) if _is_csv(native) else 0
    return Peek(len(table), int(usable.sum()), broken, tuple(counted))


def _is_csv(native: Any) -> bool:
    return arrow_files.is_path(native) and Path(native).name.lower().endswith((".csv", ".csv.gz"))


def _fits(table: nw.DataFrame[Any], column: Wanted) -> npt.NDArray[np.bool_]:
    """Which cells a fit can encode, without a substitute."""
    if isinstance(column, Ids):
        found = to_ids(cells_of(table.get_column(column.name)))
        assert found is not None
        return np.asarray(found >= 0)
    if isinstance(column, Outcome):
        response = Response(column if column.levels else of_column(explained(column)))
        return np.isfinite(read_labels(table, response))
    values = read_terms(table, Terms.plain([replace(column, missing=None)]))
    return np.asarray(np.isfinite(values).all(axis=1))


def _count(
    table: nw.DataFrame[Any], texts: nw.DataFrame[Any], column: Wanted, fits: npt.NDArray[np.bool_]
) -> Counted:
    cells = texts.get_column(column.name).to_list()
    missing = np.array([_nothing(cell) for cell in cells], dtype=bool) & ~fits
    unread, below, above, near = ~fits & ~missing, 0, 0, 0
    if isinstance(column, Category) or (isinstance(column, Outcome) and column.levels):
        known = {alike(str(level)) for level in column.levels}
        near = sum(
            isinstance(cells[j], str) and alike(cells[j]) in known for j in np.flatnonzero(unread)
        )
    elif not isinstance(column, Ids) and column.low is not None and column.high is not None:
        values = to_numbers(cells_of(table.get_column(column.name)))
        assert values is not None
        below, above = (
            int((values[fits] < column.low).sum()),
            int((values[fits] > column.high).sum()),
        )
    return Counted(column.name, int(missing.sum()), int(unread.sum()), below, above, near)


def _nothing(cell: Any) -> bool:
    """Whether there is no value in a cell."""
    if isinstance(cell, str):
        return not cell.strip()
    return (
        cell is None
        or (isinstance(cell, float) and math.isnan(cell))
        or str(cell) in ("<NA>", "NaT")
    )


def typed(path: str | PathLike[str]) -> "pa.Table":
    """The columns of a CSV file without rows, with types guessed from its first records; other
    files as they are.
    """
    import pyarrow as pa  # noqa: PLC0415  (heavy: loaded when a file is read)

    names = [name for name, _ in arrow_files.types(path)]
    if not _is_csv(path):
        return arrow_files.blank(path, [Ids(name) for name in names])
    with gzip.open(path) if Path(path).suffix.lower() == ".gz" else Path(path).open("rb") as file:
        first = next(csv_files.blocks(file))
    rows = [csv_files.row(line, len(names)) for line in islice(first.split(b"\n")[1:-1], FIRST)]
    known = [[cell.decode().strip() for cell in row] for row in rows if row is not None]
    guessed = [_guess([row[j] for row in known]) for j in range(len(names))]
    return pa.schema(list(zip(names, guessed, strict=True))).empty_table()


def _guess(cells: list[str]) -> str:
    """The Arrow type that all cells with something in them fit; of no cell, one that says nothing."""
    some = {cell for cell in cells if cell.lower() not in _WORDS_FOR_NOTHING}
    if not some:
        return "null"
    if {cell.lower() for cell in some} <= {"true", "false"}:
        return "bool"
    for pattern, kind in ((_INTEGER, "int64"), (_NUMBER, "double")):
        if all(re.fullmatch(pattern, cell) for cell in some):
            return kind
    return "string"
