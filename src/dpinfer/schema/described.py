"""A column as a description asks for it: what is public about it, and what is read of a table."""

from dataclasses import dataclass, replace
from functools import partial

from dpinfer.errors import InputError
from dpinfer.schema.columns import MISSING_LEVEL, Category, Column, Number, did_you_mean
from dpinfer.schema.expressions import Names, Walk, require_readable
from dpinfer.schema.schema import Schema
from dpinfer.schema.terms import Factor, Part, explained, level_code, plain_part, require_spread


@dataclass(frozen=True)
class Described:
    """A column of the table, a derived one or an expression, with its bounds or levels, and the part
    that gives its values.
    """

    column: Column
    part: Part


def described(schema: Schema, text: str) -> Described:
    """Return the column that a name stands for, or an expression of columns such as ``age >= 65``."""
    names = Names(schema.columns, schema.derived, _read)
    if text in schema.columns:
        column = schema.columns[text]
        if isinstance(column, Number) and column.levels:
            return Described(column, _factor(column))
        return Described(column, names(text))
    if text in schema.derived:
        one = schema.derived[text]
        return _of_part(names(text), text, description=one.description, label=one.label)
    if text.replace("_", "").isalnum():
        known = [*schema.columns, *schema.derived]
        raise InputError(f"the schema has no column {text!r}: {did_you_mean(text, known)}")
    require_readable(text)
    part = Walk(text, names).part()
    return _of_part(part, part.text)


def _read(column: Column) -> Part:
    """Return a column without its substitute, which is no value, unless it is a level for what is
    missing.
    """
    if isinstance(column, Category) and column.missing == MISSING_LEVEL:
        return plain_part(column)
    return plain_part(explained(column))


def _factor(column: Number) -> Factor:
    """Return an integer by its levels."""
    assert column.reference is not None
    return Factor(
        column.name, column.levels, column.reference, level_code(replace(column, missing=None))
    )


def _of_part(part: Part, name: str, *, description: str = "", label: str = "") -> Described:
    """Return a column with bounds or levels that follow from those of the columns that it is made
    of.
    """
    if isinstance(part, Factor):
        return Described(
            Category(name, part.levels, part.reference, description, label=label), part
        )
    number = partial(Number, name, part.low, part.high, description, label=label)
    if part.answers:
        return Described(number(kind="boolean"), part)
    require_spread(part, "describe something else, or change its bounds in the schema")
    return Described(number(), part)
