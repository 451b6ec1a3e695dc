"""Columns of a pandas, polars or pyarrow table as arrays.  Errors speak of names and types, never of values."""

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from dpinfer.data.design import Design
from dpinfer.data.schema import Category, Level, Number, Outcome
from dpinfer.data.source import Rows
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array


def open_table(native: Any) -> nw.DataFrame[Any]:
    """Any table that narwhals knows."""
    try:
        return nw.from_native(native, eager_only=True)
    except TypeError:
        raise InputError(f"a formula needs a pandas, polars or pyarrow table, not {type(native).__name__}") from None


def encode(native: Any, outcome: Outcome, terms: list[Number | Category]) -> tuple[Design, Rows]:
    """The public design of a parsed formula, and the bounded rows of a table."""
    design, table = Design.of_terms(terms), open_table(native)
    return design, Rows.of(design.rows(read_terms(table, terms)), read_labels(table, outcome))


def read_terms(table: nw.DataFrame[Any], terms: list[Number | Category]) -> Array:
    """The design's columns in original units; NaN marks a value that cannot be encoded."""
    parts = [_numbers(table, term) if isinstance(term, Number) else _dummies(table, term) for term in terms]
    return np.column_stack([np.empty((len(table), 0)), *parts])


def read_labels(table: nw.DataFrame[Any], outcome: Outcome) -> Array:
    """-1 and +1 for the two levels, NaN for anything else."""
    codes = _codes(table, outcome.name, outcome.levels)
    return np.array([-1.0, 1.0, np.nan])[codes]


def _numbers(table: nw.DataFrame[Any], term: Number) -> Array:
    column = _get(table, term.name)
    if column.dtype.is_integer() or column.dtype == nw.Boolean:  # by numpy: Arrow refuses large integers
        missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
        whole = column.fill_null(False if column.dtype == nw.Boolean else 0).to_numpy()
        return np.where(missing, np.nan, np.asarray(whole).astype(float))
    if not column.dtype.is_float():
        raise InputError(f"column {term.name!r} must hold numbers, as the schema says, not {column.dtype}")
    return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=float)


def _dummies(table: nw.DataFrame[Any], term: Category) -> Array:
    rows = np.vstack([np.eye(len(term.levels)), np.full(len(term.levels), np.nan)])
    kept = [j for j, level in enumerate(term.levels) if level != term.reference]
    return rows[:, kept][_codes(table, term.name, term.levels)]


def _codes(table: nw.DataFrame[Any], name: str, levels: tuple[Level, ...]) -> npt.NDArray[np.intp]:
    """The place of each value among the levels; their number for anything else, missing values included.

    A missing value can turn a pandas column of integers into floats, or one of booleans into objects: both are read.
    """
    column, kind = _get(table, name), type(levels[0])
    fits = {
        str: column.dtype in (nw.String, nw.Categorical, nw.Enum),
        int: column.dtype.is_integer() or column.dtype.is_float(),
        bool: column.dtype == nw.Boolean,
    }
    if column.dtype == nw.Object:
        return match(column.to_numpy(), levels)
    if not fits[kind]:
        raise InputError(f"column {name!r} is {column.dtype}, but its levels in the schema are {kind.__name__}")
    column = column.cast(nw.String) if kind is str else column
    codes = np.full(len(column), len(levels))
    for j, level in enumerate(levels):
        codes[np.asarray((column == level).fill_null(False).to_numpy(), dtype=bool)] = j
    return codes


def match(values: npt.NDArray[Any], levels: Sequence[Level]) -> npt.NDArray[np.intp]:
    """The place of each value of an array among the levels; their number for anything else.

    Objects are compared one by one and only if they are plain text or numbers: others may refuse to be compared.
    """
    codes = np.full(len(values), len(levels))
    if values.dtype.kind != "O":
        for j, level in enumerate(levels):
            codes[values == level] = j
        return codes
    plain = (str, int, float, np.generic)
    for i, value in enumerate(values):
        codes[i] = next((j for j, lv in enumerate(levels) if isinstance(value, plain) and value == lv), len(levels))
    return codes


def _get(table: nw.DataFrame[Any], name: str) -> nw.Series[Any]:
    if table.columns.count(name) != 1:
        many = "no column" if name not in table.columns else "more than one column"
        raise InputError(f"the table has {many} {name!r}")
    return table.get_column(name)
