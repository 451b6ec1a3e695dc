"""Rows of a table in units in which their numbers can be read: per 1,000 where they are tiny.

The coefficient of an income in dollars is 0.0000123 or so: the same number per 1,000 dollars is
0.0123.  Estimate, standard error and interval of such a row are multiplied by 1,000, or by a power
of it, and its label says so.  z, p and the parts of the interval do not change.  Files and data
frames keep the units of the table.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpinfer.result.estimates import Estimates
from dpinfer.result.statements import REPORTED

# A standard error below it has its first digit behind three zeros and more.
_TINY = 5e-4
_STEP = 1000
_NUMBERS = ("estimate", "std_error", "low", "high")
NOTE = (
    "A row marked (per 1,000) is for that many units more of its column. CSV and JSON files have every "
    "row per unit."
)
"""Says what rows for more than one unit are."""

Row = Mapping[str, Any]
"""One coefficient, as `Estimates.table` returns it."""


def factors(fit: Estimates, rows: Iterable[Row]) -> dict[str, int]:
    """Return the units that a row is for, by its name; rows for one unit are left out.

    A row is for 1,000 units only where the declared range of its column is as long, so that nobody
    reads of a change that no record can have.
    """
    if fit.question is None:
        return {}
    widths = fit.question.widths()
    found = {}
    for row in rows:
        factor = 1
        width = widths.get(row.get("instead_of") or row["name"], 0.0)
        while _is_tiny(row, factor) and width >= _STEP * factor:
            factor *= _STEP
        if factor > 1:
            found[row["name"]] = factor
    return found


def _is_tiny(row: Row, factor: int) -> bool:
    return row["status"] == REPORTED and bool(0 < factor * row["std_error"] < _TINY)


def scaled(rows: Iterable[Row], units: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return rows for so many units of their columns, with labels that say so."""
    found = []
    for row in rows:
        shown = dict(row)
        if row["name"] in units:
            shown |= {key: units[row["name"]] * row[key] for key in _NUMBERS}
            shown["label"] = with_unit(label(row), row["name"], units)
        found.append(shown)
    return found


def with_unit(title: str, name: str, units: Mapping[str, int]) -> str:
    """Return the title of a row with the units that it is for, if these are more than one."""
    if name not in units:
        return title
    return f"{title} (per {units[name]:,})"


def readable(fit: Estimates, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows of a result in units in which their numbers can be read."""
    return scaled(rows, factors(fit, rows))


def label(row: Row) -> str:
    """Return the name of a row for people."""
    return str(row.get("label", row["name"]))


def about_units(fit: Estimates, rows: Sequence[Row]) -> list[str]:
    """Return what rows for more than one unit are; nothing without any."""
    return [NOTE] if factors(fit, rows) else []
