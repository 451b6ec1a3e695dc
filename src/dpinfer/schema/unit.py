"""Whom a promise protects: one row or all rows with one id, and how much a row counts.

A schema declares it: ``unit = "one visit"`` where every row is protected on its own, a table
``[unit]`` with the column of the ids where a unit has several rows, and a table ``[weights]`` where
rows count by sampling weights.  Where the number of rows is private and may be very large, the
table ``[unit]`` says how large.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from reprlib import repr as short
from typing import Any

from dpinfer.errors import InputError
from dpinfer.mechanisms.sums import DEFAULT_MAX_RECORDS, MAX_RECORDS
from dpinfer.schema.columns import TODO, Ids, Number, SchemaError, Wanted, did_you_mean

AVERAGE = "average"
EVERY = "every"
_LARGEST = 1e100
_POSITIVE = math.ulp(0.0)  # the smallest number above 0
_UNIT_KEYS = ("name", "column", "rows", "units", "largest_table", "constant")
_WEIGHT_KEYS = ("column", "most")
_LARGEST_TABLE = f"a whole number of rows from {DEFAULT_MAX_RECORDS:,} to {MAX_RECORDS:,}"
_ROWS = (
    'rows must be "every" (each row counts once, the default) or "average" (each unit counts alike)'
)


def _is_number(value: Any, low: float) -> bool:
    """Whether it is a number from ``low`` on; true and false are none."""
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and low <= value < _LARGEST
    )


def _is_integer(value: Any, low: int, high: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


@dataclass(frozen=True)
class Unit:
    """The unit of privacy, with a total weight of its rows of at most 1.

    With a ``column`` of ids a unit has all rows with its id.  A row counts 1/max(rows, rows of its
    unit): with ``rows`` = 1 every unit counts alike, whatever its number of rows (the average
    unit).  A larger number, as in results of earlier versions, lets rows count alike up to that number.
    ``number`` is that of units, where public.

    Where ``rows`` is "every" every row counts once in regressions that bound a unit as a whole
    (`dpinfer.mechanisms.unit_sums`); what else reads such a unit takes the average one (`averaged`).

    With a column of sampling ``weights`` ω a row counts ω/max(max_weight, sum of ω over its unit):
    ``max_weight`` is a public bound of a unit's weight, below which nothing is trimmed.

    ``largest`` is how many rows a table has at most.  Noise is sized for it, and a larger table is
    refused.
    """

    name: str = "one record"
    column: str = ""
    rows: float | str = 1.0
    number: int | None = None
    weights: str = ""
    max_weight: float = 1.0
    largest: int = DEFAULT_MAX_RECORDS

    def __post_init__(self) -> None:
        if not self.every and not _is_number(self.rows, 1.0):
            raise InputError(f"{_ROWS}; not {self.rows!r}")
        if self.every and (not self.column or self.weights):
            raise InputError("every row counts once only where there are ids, and no weights")
        if not _is_number(self.max_weight, _POSITIVE):
            raise InputError(
                f"the largest weight of a unit must be a positive finite number, not {self.max_weight!r}"
            )
        if not _is_integer(self.largest, DEFAULT_MAX_RECORDS, MAX_RECORDS):
            raise InputError(f"the largest table has {_LARGEST_TABLE}, not {self.largest!r}")
        if self.number is not None and not _is_integer(self.number, 1, _LARGEST):
            raise InputError(
                f"the number of units must be a whole number of at least 1, not {self.number!r}"
            )

    def for_records(self, n: int) -> "Unit":
        """Return the same unit for a table with a public number of rows, which says how large it is."""
        if n > MAX_RECORDS:
            raise InputError(
                f"there are more than {MAX_RECORDS:,} records, for which sums are not proved: take a "
                "part of them"
            )
        return replace(self, largest=max(n, DEFAULT_MAX_RECORDS))

    @property
    def many(self) -> bool:
        """Whether a unit may have several rows."""
        return bool(self.column)

    @property
    def word(self) -> str:
        """The word for what is counted, units or records."""
        return "units" if self.many else "records"

    def size(self, n: int | None) -> str:
        """Return a number of records or units in words; None is a private one."""
        if n is None and self.many:
            return "number of units and of rows private"
        if n is None:
            return "number of records private"
        if self.many:
            return f"{n:,} units, {self.name} each"
        return "1 record" if n == 1 else f"{n:,} records"

    @property
    def columns(self) -> list[Wanted]:
        """The columns that are read beside those of a formula."""
        columns: list[Wanted] = []
        if self.column:
            columns.append(Ids(self.column))
        if self.weights:
            columns.append(Number(self.weights, 0.0, _LARGEST))
        return columns

    @property
    def max_total(self) -> float:
        """Return the largest total weight of the rows of a unit; larger ones are scaled down."""
        if self.weights:
            return self.max_weight
        return 1.0 if self.every else float(self.rows)

    @property
    def equal_weights(self) -> bool:
        """Whether every unit counts 1, so that the total is their number."""
        return not self.weights and self.rows == 1

    @property
    def every(self) -> bool:
        """Whether every row of a unit counts once, however many there are."""
        return self.rows == EVERY

    @property
    def averaged(self) -> "Unit":
        """Return the same unit with equal weights of units, for methods that cannot let every row count."""
        return replace(self, rows=1.0) if self.every else self


ROW = Unit()


def counts_every_row(rows: object) -> bool:
    """Return whether every row counts once, for the parameter ``rows`` of a model: the default, or a word."""
    if rows not in (None, AVERAGE, EVERY):
        raise InputError(f"{_ROWS}; not {rows!r}")
    return rows != AVERAGE


def unit_of(unit: Any = ROW.name, weights: Any = None) -> Unit:
    """Return the unit that a schema declares: ``unit`` is a text or the table [unit], ``weights``
    the table [weights] or nothing.
    """
    table = {"name": unit} if isinstance(unit, str) else unit
    _check_keys(
        "unit", table, _UNIT_KEYS, 'text in quotes, or a table [unit] with name = "one person"'
    )
    if weights is not None:
        _check_keys(
            "weights", weights, _WEIGHT_KEYS, "a table: write [weights] with column and most"
        )
    name = _text("unit", "name", table, "say what is protected, such as 'one person'")
    weight_column = ""
    max_weight = 1.0
    if weights is not None:
        bound = "a public bound of the weight of a unit: a positive number"
        weight_column = _text(
            "weights", "column", weights, "name the column of the sampling weights"
        )
        max_weight = _number("weights", "most", weights, bound, _POSITIVE)
    if "column" not in table:
        for key in ("rows", "units", "constant"):
            if key in table:
                raise SchemaError(
                    f"{key} goes with ids: add column, the name of the column that holds them",
                    "unit",
                    key,
                )
        largest = _largest_table(table)
        return Unit(name, weights=weight_column, max_weight=max_weight, largest=largest)
    column = _text("unit", "column", table, "name the column of the ids")
    if column == weight_column:
        raise SchemaError(
            f"{column!r} holds the ids of [unit]: name the column of the weights",
            "weights",
            "column",
        )
    rows = _rows(table, weighted=bool(weight_column))
    number = _number_of_units(table)
    largest = _largest_table(table)
    return Unit(name, column, rows, number, weight_column, max_weight, largest)


def entries_of(unit: Unit) -> dict[str, Any]:
    """Return the entries that `unit_of` reads: a text for rows, tables for ids and weights."""
    entries: dict[str, Any] = {"unit": unit.name}
    table: dict[str, Any] = {"name": unit.name}
    if unit.many:
        table["column"] = unit.column
        if not unit.weights:
            table["rows"] = EVERY if unit.every else _word(float(unit.rows))
        if unit.number is not None:
            table["units"] = unit.number
    if unit.largest > DEFAULT_MAX_RECORDS:
        table["largest_table"] = unit.largest
    if len(table) > 1:
        entries["unit"] = table
    if unit.weights:
        entries["weights"] = {"column": unit.weights, "most": _plain(unit.max_weight)}
    return entries


def _word(rows: float) -> str | float:
    """Return "average", or the number of rows that counted alike in earlier versions."""
    return AVERAGE if rows == 1 else _plain(rows)


def _rows(table: Mapping[str, Any], *, weighted: bool) -> float | str:
    """Return the rows that count; a number of rows that count alike is no longer read."""
    rows = table.get("rows")
    if weighted and rows is not None:
        raise SchemaError(
            "rows and [weights] exclude each other, as a row counts by its weight: drop one of them; "
            "for the weighted average unit divide each weight by the number of rows of its unit",
            "unit",
            "rows",
        )
    if rows not in (None, AVERAGE, EVERY):
        raise SchemaError(f"{_ROWS}; not {short(rows)}", "unit", "rows")
    return 1.0 if weighted or rows == AVERAGE else EVERY


def constant_columns(unit: Any) -> tuple[str, ...]:
    """Return the columns that ``unit``, a text or the table [unit], declares to be the same in all rows of a unit."""
    names = unit.get("constant", []) if isinstance(unit, dict) else []
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise SchemaError(
            'constant must be a list of the columns that are the same in all rows of a unit, such as ["sex"]',
            "unit",
            "constant",
        )
    return tuple(names)


def _number_of_units(table: Mapping[str, Any]) -> int | None:
    units = table.get("units")
    if units is not None and (type(units) is not int or not 1 <= units < _LARGEST):
        raise SchemaError(
            f"units must be the public number of units, a whole number, not {short(units)}",
            "unit",
            "units",
        )
    return units


def _largest_table(table: Mapping[str, Any]) -> int:
    largest = table.get("largest_table", DEFAULT_MAX_RECORDS)
    if not _is_integer(largest, DEFAULT_MAX_RECORDS, MAX_RECORDS):
        raise SchemaError(
            f"largest_table must be {_LARGEST_TABLE}, not {short(largest)}; with fewer rows leave it out",
            "unit",
            "largest_table",
        )
    return int(largest)


def _check_keys(table: str, entry: Any, keys: tuple[str, ...], words: str) -> None:
    if not isinstance(entry, dict):
        raise SchemaError(f"{table} must be {words}, not {short(entry)}", table)
    for key, value in entry.items():
        if key in ("title", "source"):
            raise SchemaError(
                f"{key} is about the whole table: write it above [{table}]", table, key
            )
        if key not in keys:
            raise SchemaError(
                f"[{table}] has no key {short(key)}: {did_you_mean(key, keys)}", table, key
            )
        if value == TODO:
            raise SchemaError(f"{key} is not filled in", table, key)


def _text(table: str, key: str, entry: Mapping[str, Any], remedy: str) -> str:
    value = entry.get(key)
    if value is None:
        raise SchemaError(f"{key} is missing: {remedy}", table, key)
    if not isinstance(value, str) or (key == "column" and not value):
        raise SchemaError(f"{key} must be text in quotes, not {short(value)}", table, key)
    return value


def _number(table: str, key: str, entry: Mapping[str, Any], words: str, low: float) -> float:
    value = entry.get(key)
    if value is None:
        raise SchemaError(f"{key} is missing: add {words}", table, key)
    if not _is_number(value, low):
        raise SchemaError(f"{key} must be {words}, not {short(value)}", table, key)
    return float(value)


def _plain(value: float) -> float:
    """Return a whole number without its point, as people write it."""
    return int(value) if value % 1 == 0 and value < 2**53 else float(value)
