"""Dates as days: texts of a schema, a formula or a cell, and what the calendar says of a day.

Days are counted from 1970-01-01.  A time of day is left out, and a date is that of the clock on the
wall: no time zone moves it.
"""

import datetime
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from dpinfer.numerics.arrays import Array

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

_EPOCH = datetime.date(1970, 1, 1).toordinal()
_THURSDAY = 3  # that day was one
_LONGEST = 40  # characters of a date with a time of day and a zone
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[T ][-0-9:.,+Z ]*)?")


def day_of_text(text: str) -> float:
    """Return the day of an ISO text such as 2024-05-31, with or without a time after it; NaN for
    any other text.
    """
    bare = text.strip()
    match = _ISO.fullmatch(bare) if len(bare) <= _LONGEST else None
    if match is None:
        return math.nan
    try:
        return day_of(datetime.date(*map(int, match.groups())))
    except ValueError:  # no such day
        return math.nan


def day_of(date: datetime.date) -> float:
    """Return the day of a date or of a time; a subclass is not asked."""
    return float(datetime.date.toordinal(date) - _EPOCH)


def day_stated(value: Any) -> float:
    """Return the day of a date as a schema or a formula states it, a date of TOML or an ISO text;
    NaN for anything else.
    """
    if isinstance(value, datetime.date):
        return day_of(value)
    return day_of_text(value) if isinstance(value, str) else math.nan


def text_of(day: float) -> str:
    """Return the ISO text of a day."""
    return datetime.date.fromordinal(int(day) + _EPOCH).isoformat()


def years(days: Array) -> Array:
    """Return the year of each day; NaN stays NaN."""
    return _calendar(days, "M8[Y]", 1970.0)


def months(days: Array) -> Array:
    """Return the month of each day, 0 for January; NaN stays NaN."""
    return np.asarray(_calendar(days, "M8[M]", 0.0) % 12)


def weekdays(days: Array) -> Array:
    """Return the day of the week, 0 for Monday; NaN stays NaN."""
    return np.asarray((np.floor(days) + _THURSDAY) % 7)


def occurring(of_days: Any, low: float, high: float) -> list[int]:
    """Return which months or days of the week occur between two days."""
    last = min(high, low + 366)  # a year holds all of them
    return sorted({int(of_days(np.asarray(day))) for day in _each(low, last)})


def _each(low: float, last: float) -> Iterable[float]:
    return (float(day) for day in range(int(low), int(last) + 1))


def _calendar(days: Array, unit: str, first: float) -> Array:
    missing = np.isnan(days)
    floored = np.where(missing, 0.0, np.floor(days)).astype(np.int64)
    counted = floored.astype("M8[D]").astype(unit).astype(np.int64)
    return np.where(missing, np.nan, counted + first)
