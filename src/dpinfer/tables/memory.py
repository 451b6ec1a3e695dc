"""Columns of a pandas, polars or pyarrow table, of a file, or of a part of a cluster's table, as
arrays.

Errors speak of names and types, never of values.
"""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

import narwhals as nw
import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.schema.columns import Category, Ids, Number, Outcome, Wanted
from dpinfer.schema.terms import Factor, Response, Terms
from dpinfer.tables import arrow_files
from dpinfer.tables.cells import (
    Cells,
    Codes,
    cells_of,
    kind_of,
    match,
    to_ids,
    to_numbers,
    to_places,
)
from dpinfer.tables.engines import engine_of


def open_table(native: Any, columns: Iterable[Wanted]) -> nw.DataFrame[Any]:
    """Any table that narwhals knows, or a file, of which the given columns are read."""
    if arrow_files.is_path(native):
        native = arrow_files.read(native, list(columns))
    try:
        return nw.from_native(native, eager_only=True)
    except TypeError:
        remedy = ": collect it" if engine_of(native) else ""
        raise InputError(
            "a formula needs a pandas, polars or pyarrow table, or the path of a file, not "
            f"{type(native).__module__.partition('.')[0]}'s {type(native).__name__}{remedy}"
        ) from None


def read_terms(table: nw.DataFrame[Any], terms: Terms, *, clipped: bool = True) -> Array:
    """The design's columns in original units, with values clipped to the bounds of the schema.

    NaN marks a row that cannot be encoded.  Each column lies in one piece of memory.  Without
    ``clipped`` a column that is a number of the table may hold any: `Design.rows` clips it, and a
    row with an infinity counts as with a NaN.
    """
    known = cache(partial(_known, table))

    def numbers(column: Number) -> Array:
        return _bounded(known(column), column)

    def codes(factor: Factor) -> Codes:
        column = factor.column
        found = (
            match(known(column), factor.levels)
            if isinstance(column, Number)
            else _codes(table, column)
        )
        if column.missing in factor.levels:
            found = np.where(
                found == len(factor.levels), factor.levels.index(column.missing), found
            )
        return found

    values, at = _tall(terms.width, len(table)), 0
    for block in terms.blocks:
        some, at = values[at : at + len(block.names)], at + len(block.names)
        as_is = None if clipped else block.as_is
        some[:] = block.values(numbers, codes).T if as_is is None else numbers_of(table, as_is.name)
    return values.T


def _tall(width: int, rows: int) -> Array:
    """Columns that do not begin at the same place of a page of memory: rows are then read out of
    them faster.
    """
    return np.empty((width, rows // 16 * 16 + 24))[:, :rows]


@np.errstate(all="ignore")  # a warning would tell of a value
def read_labels(table: nw.DataFrame[Any], response: Response) -> Array:
    """-1 and +1 for the two levels, or a function of columns clipped to their bounds; NaN for
    anything else.
    """
    what = response.read_as
    if isinstance(what, Outcome):
        return np.array([-1.0, 1.0, np.nan])[_codes(table, what)]
    values = what.values(lambda column: _bounded(_known(table, column), column))
    return np.asarray(np.clip(values, what.low, what.high))


def check(native: Any, columns: Sequence[Wanted]) -> None:
    """Refuse a table or file whose names or types do not fit; no value is looked at, and no row
    counted.
    """
    table = open_table(blank(native, columns), ())
    for column in columns:
        fault = misfit(table.head(0), column)
        if fault:
            raise InputError(fault)


def blank(native: Any, columns: Sequence[Wanted] | None) -> Any:
    """A table with these columns, by default all, of which the rows do not count; one in memory is
    taken as it is.
    """
    engine = engine_of(native)
    if engine is not None:
        return engine.blank(native, columns)
    return arrow_files.blank(native, columns or ()) if arrow_files.is_path(native) else native


def identities_of(table: nw.DataFrame[Any], name: str) -> Codes:
    """The ids of a column as numbers, -1 for a missing one; refused by its type."""
    cells = cells_of(_get(table, name))
    found = to_ids(cells)
    if found is None:
        raise InputError(
            f"column {name!r} must hold ids, as text, numbers or dates, not {kind_of(cells)}: convert it"
        )
    return found


def misfit(table: nw.DataFrame[Any], column: Wanted) -> str:
    """Why a table's column cannot be read as the schema says, by its name and type; empty if it
    can.
    """
    try:
        if isinstance(column, Ids):
            identities_of(table, column.name)
        elif isinstance(column, Number) or not column.levels:
            numbers_of(table, column.name)
        else:
            _codes(table, column)
    except InputError as fault:
        return str(fault)
    return ""


@np.errstate(all="ignore")  # a warning would tell of a value
def _known(table: nw.DataFrame[Any], column: Number) -> Array:
    """The values of a column, NaN where a value is not of its kind."""
    values = numbers_of(table, column.name)
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


def numbers_of(table: nw.DataFrame[Any], name: str) -> Array:
    """The numbers of a column, NaN where a cell is none; refused by its type."""
    native = table.to_native()
    place = (
        native.schema.get_field_index(name) if hasattr(native, "to_batches") else -1
    )  # of Arrow; -1 if not one
    if (
        place >= 0 and str(native.column(place).type) == "double"
    ):  # the shortest way, as files have many of them
        return np.asarray(native.column(place).to_numpy())  # a null is a NaN
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
    """The place of each value among the levels; their number for anything else, missing values
    included.

    A missing value can turn a pandas column of integers into floats, or one of booleans into
    objects: both are read.
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
    arrow_files.require(name, table.columns, "the table")
    return table.get_column(name)
