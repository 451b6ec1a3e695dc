"""Whom a promise is about, one row or all rows with the same id, and how much a row counts; its
place in a schema.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block
from dpinfer.schema.columns import TODO, Ids, Number, SchemaError, Wanted, near

AVERAGE = "average"
_LARGEST = 1e100
_HEAVIEST = 1e100  # times the bound of weights: beyond, floats do not tell how much more
_LEAST = 2.0**-500  # of what a row counts: by less nothing can be divided safely


@dataclass(frozen=True)
class Unit:
    """What is protected, in words, and what its rows count together: at most 1.

    With a ``column`` of ids a unit has all rows with its id.  A row counts 1/max(rows, rows of its
    unit): with ``rows`` = 1 every unit counts alike, whatever its number of rows (the average
    unit); with a larger number rows count alike up to that number, and a unit with more of them
    counts as that many.  ``number`` is that of units, where public.

    With a column of sampling ``weights`` ω a row counts ω/max(most_weight, sum of ω over its unit):
    ``most_weight`` is a public bound of a unit's weight, below which nothing is trimmed.
    """

    name: str = "one record"
    column: str = ""
    rows: float = 1.0
    number: int | None = None
    weights: str = ""
    most_weight: float = 1.0

    def __post_init__(self) -> None:
        for key, least in (("rows", 1.0), ("most_weight", math.ulp(0.0))):
            value = getattr(self, key)
            known = isinstance(value, int | float) and not isinstance(value, bool)
            if not (known and least <= value < _LARGEST):
                kind = (
                    f"{AVERAGE!r} or a number of at least 1"
                    if key == "rows"
                    else "a positive finite number"
                )
                raise InputError(f"{key} must be {kind}, not {value!r}")
        wrong = isinstance(self.number, bool) or not isinstance(self.number, int | None)
        if wrong or (self.number is not None and self.number < 1):
            raise InputError(
                f"the number of units must be a whole number of at least 1, not {self.number!r}"
            )

    @property
    def many(self) -> bool:
        """Whether a unit may have several rows."""
        return bool(self.column)

    @property
    def word(self) -> str:
        """What there is a number of."""
        return "units" if self.many else "records"

    def size(self, n: int | None) -> str:
        """A number of records or units in words; None is a private one."""
        if n is None:
            return f"number of {self.word} {'and of rows ' if self.many else ''}private"
        return f"{n:,} {self.word}" + (f", {self.name} each" if self.many else "")

    @property
    def columns(self) -> list[Wanted]:
        """What is read of a table beside the columns of a formula."""
        ids: list[Wanted] = [Ids(self.column)] if self.column else []
        return [*ids, Number(self.weights, 0.0, _LARGEST)] if self.weights else ids

    @property
    def most(self) -> float:
        """What the rows of a unit may weigh together before they are scaled down."""
        return self.most_weight if self.weights else self.rows

    @property
    def whole(self) -> bool:
        """Whether every unit counts 1, so that the total is their number."""
        return not self.weights and self.rows == 1


ROW = Unit()


def rows_of(asked: str | float) -> float:
    """The number of a unit's rows that count alike: 1 for "average"."""
    return 1.0 if asked == AVERAGE else asked  # type: ignore[return-value]  # Unit refuses other words


@np.errstate(all="ignore")  # a warning would tell of a value
def counted(
    block: Block, most: float, units: Indices | None = None, weights: Array | None = None
) -> Block:
    """The rows of each unit together, each counting ω/max(most, sum of ω over its unit).

    ``units`` has a number a row, below 0 where the id is missing: such a row counts for nothing,
    and is no unit.  Without it each row is one.  ω are the ``weights``, 1 by default, and 0 for a
    row that could not be encoded: it takes nothing from the other rows of its unit.  A row without
    a positive one is a zero row, and so is one whose part of its unit is so small that floats would
    lose it.

    Guarantee [units_count_at_most_one]: what the rows of a unit count adds up to at most 1, in real
    numbers.
    """
    rows, labels = block.rows, block.labels
    omega = np.ones(len(rows)) if weights is None else np.where(np.isfinite(weights), weights, 0.0)
    omega = np.where(
        rows.any(axis=1), np.clip(omega / most, 0.0, _HEAVIEST), 0.0
    )  # of what can be used
    starts, total = None, omega
    if units is not None:
        order = np.argsort(units, kind="stable")
        order = order[units[order] >= 0]
        rows, labels, omega = rows[order], labels[order], omega[order]
        _, starts, sizes = np.unique(units[order], return_index=True, return_counts=True)
        together = np.add.reduceat(omega, starts) if len(order) else omega
        total = np.repeat(together, sizes)
    shares = omega / np.maximum(1.0, total) * (1 - 2.0**-20)  # a sum of 2²⁸ numbers errs by less
    counts = shares > _LEAST
    rows, shares = np.where(counts[:, None], rows, 0.0), np.where(counts, shares, _LEAST)
    return Block(rows, labels, shares, shares, starts)


_UNIT = ("name", "column", "rows", "units")
_WEIGHTS = ("column", "most")
_TWO_TARGETS = (
    'rows is missing, and there is no default, because it decides what is estimated: rows = "average" lets every unit '
    "count alike, whatever its number of rows (the average person); a number such as rows = 5 lets rows count alike up "
    "to 5 a unit (nearer to the average row, with more noise)"
)


def unit_of(unit: Any = ROW.name, weights: Any = None) -> Unit:
    """What a schema declares: ``unit`` is a text or the table [unit], ``weights`` the table
    [weights] or nothing.
    """
    given, heavy = (
        {"name": unit} if isinstance(unit, str) else unit,
        {} if weights is None else weights,
    )
    _check("unit", given, _UNIT, 'text in quotes, or a table [unit] with name = "one person"')
    _check("weights", heavy, _WEIGHTS, "a table: write [weights] with column and most")
    found = Unit(_text("unit", "name", given, "say what is protected, such as 'one person'"))
    if weights is not None:
        column = _text("weights", "column", heavy, "name the column of the sampling weights")
        most = _number(
            "weights", "most", heavy, "a public bound of the weight of a unit: a positive number"
        )
        found = Unit(found.name, weights=column, most_weight=most)
    if "column" not in given:
        for key in ("rows", "units"):
            if key in given:
                raise _fault(
                    "unit",
                    key,
                    f"{key} goes with ids: add column, the name of the column that holds them",
                )
        return found
    column = _text("unit", "column", given, "name the column of the ids")
    if column == found.weights:
        raise _fault(
            "weights",
            "column",
            f"{column!r} holds the ids of [unit]: name the column of the weights",
        )
    return Unit(
        found.name,
        column,
        _rows(given, found.weights),
        _units(given),
        found.weights,
        found.most_weight,
    )


def _rows(given: Mapping[str, Any], weights: str) -> float:
    rows = given.get("rows")
    if weights and rows is not None:
        remedy = (
            "rows and [weights] exclude each other, as a row counts by its weight: drop one of them; "
            "for the weighted average unit divide each weight by the number of rows of its unit"
        )
        raise _fault("unit", "rows", remedy)
    if weights or rows == AVERAGE:
        return 1.0
    if rows is None:
        raise _fault("unit", "rows", _TWO_TARGETS)
    return _number("unit", "rows", given, f"{AVERAGE!r} or a number of at least 1", least=1.0)


def _units(given: Mapping[str, Any]) -> int | None:
    units = given.get("units")
    if units is not None and (type(units) is not int or not 1 <= units < _LARGEST):
        raise _fault(
            "unit",
            "units",
            f"units must be the public number of units, a whole number, not {short(units)}",
        )
    return units


def _check(table: str, entry: Any, keys: tuple[str, ...], words: str) -> None:
    if not isinstance(entry, dict):
        raise _fault(table, "", f"{table} must be {words}, not {short(entry)}")
    for key, value in entry.items():
        if key in ("title", "source"):
            raise _fault(table, key, f"{key} is about the whole table: write it above [{table}]")
        if key not in keys:
            raise _fault(table, key, f"[{table}] has no key {short(key)}: {near(key, keys)}")
        if value == TODO:
            raise _fault(table, key, f"{key} is not filled in")


def _text(table: str, key: str, entry: Mapping[str, Any], remedy: str) -> str:
    value = entry.get(key)
    if value is None:
        raise _fault(table, key, f"{key} is missing: {remedy}")
    if not isinstance(value, str) or (key == "column" and not value):
        raise _fault(table, key, f"{key} must be text in quotes, not {short(value)}")
    return value


def _number(
    table: str, key: str, entry: Mapping[str, Any], words: str, least: float = math.ulp(0.0)
) -> float:
    value = entry.get(key)
    if value is None:
        raise _fault(table, key, f"{key} is missing: add {words}")
    if type(value) not in (int, float) or not least <= value < _LARGEST:
        raise _fault(table, key, f"{key} must be {words}, not {short(value)}")
    return float(value)


def _fault(table: str, key: str, message: str) -> SchemaError:
    error = SchemaError(message)
    error.path = (table, key)
    return error


def entries_of(unit: Unit) -> dict[str, Any]:
    """The inverse of `unit_of`: a text for rows, tables for ids and weights."""
    entries: dict[str, Any] = {"unit": unit.name}
    if unit.many:
        rows = {} if unit.weights else {"rows": AVERAGE if unit.rows == 1 else _plain(unit.rows)}
        number = {} if unit.number is None else {"units": unit.number}
        entries["unit"] = {"name": unit.name, "column": unit.column} | rows | number
    if unit.weights:
        entries["weights"] = {"column": unit.weights, "most": _plain(unit.most_weight)}
    return entries


def _plain(value: float) -> float:
    return int(value) if value % 1 == 0 and value < 2**53 else float(value)
