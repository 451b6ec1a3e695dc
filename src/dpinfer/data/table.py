"""Columns of a pandas, polars or pyarrow table as arrays.  Errors speak of names and types, never of values."""

from typing import Any

import narwhals as nw
import numpy as np

from dpinfer.data.design import Design
from dpinfer.data.formula import parse
from dpinfer.data.schema import Category, Level, Number, Outcome, Schema
from dpinfer.data.source import Rows
from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array


def open_table(native: Any) -> nw.DataFrame[Any]:
    """Any table that narwhals knows."""
    try:
        return nw.from_native(native, eager_only=True)
    except TypeError:
        raise InputError(f"a formula needs a pandas, polars or pyarrow table, not {type(native).__name__}") from None


def encode(native: Any, formula: str, schema: Schema | None) -> tuple[Design, Rows]:
    """The public design of a formula, and the bounded rows of a table."""
    if not isinstance(schema, Schema):
        raise InputError("a formula needs schema=, for example dp.Schema.read('schema.toml')")
    outcome, terms = parse(formula, schema)
    design, table = Design.of_terms(terms), open_table(native)
    return design, Rows.of(design.rows(read_terms(table, terms)), read_labels(table, outcome))


def read_terms(table: nw.DataFrame[Any], terms: list[Number | Category]) -> Array:
    """The design's columns in original units; NaN marks a value that cannot be encoded."""
    parts = [_numbers(table, term) if isinstance(term, Number) else _dummies(table, term) for term in terms]
    return np.column_stack([np.empty((len(table), 0)), *parts])


def read_labels(table: nw.DataFrame[Any], outcome: Outcome) -> Array:
    """-1 and +1 for the two levels, NaN for anything else."""
    column = _column(table, outcome.name, outcome.levels)
    labels = np.full(len(table), np.nan)
    for level, label in zip(outcome.levels, (-1.0, 1.0), strict=True):
        labels[_equals(column, level)] = label
    return labels


def _numbers(table: nw.DataFrame[Any], term: Number) -> Array:
    column = _get(table, term.name)
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise InputError(f"column {term.name!r} must hold numbers, as the schema says, not {column.dtype}")
    return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=float)


def _dummies(table: nw.DataFrame[Any], term: Category) -> Array:
    column = _column(table, term.name, term.levels)
    levels = [level for level in term.levels if level != term.reference]
    dummies = np.column_stack([_equals(column, level) for level in levels]).astype(float)
    known = dummies.any(axis=1) | _equals(column, term.reference)
    return np.where(known[:, None], dummies, np.nan)


def _column(table: nw.DataFrame[Any], name: str, levels: tuple[Level, ...]) -> nw.Series[Any]:
    """A column whose type fits the levels of the schema."""
    column = _get(table, name)
    kind = type(levels[0])
    fits = {
        str: column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object),
        int: column.dtype.is_integer(),
        bool: column.dtype == nw.Boolean,
    }
    if not fits[kind]:
        raise InputError(f"column {name!r} is {column.dtype}, but its levels in the schema are {kind.__name__}")
    return column.cast(nw.String) if kind is str else column


def _get(table: nw.DataFrame[Any], name: str) -> nw.Series[Any]:
    if name not in table.columns:
        raise InputError(f"the table has no column {name!r}")
    return table.get_column(name)


def _equals(column: nw.Series[Any], level: Level) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.asarray((column == level).fill_null(False).to_numpy(), dtype=bool)
