"""Columns of dates as days since 1970-01-01; no cell raises."""

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from narwhals import dependencies as libraries

from dpinfer.numerics.arrays import Array
from dpinfer.schema import dates
from dpinfer.tables.cells import TEXTS, Cells, Values, factorize, texts_of

_TIMES = {datetime.date, datetime.datetime}
_SECONDS = 86_400  # seconds of a day
_UNITS = {unit: 1000**k for k, unit in enumerate(("s", "ms", "us", "ns", "ps", "fs", "as"))}
_PER_DAY = {"D": 1, "h": 24, "m": 1440} | {unit: _SECONDS * k for unit, k in _UNITS.items()}
_FARTHEST = 100_000  # years, months or weeks from 1970
_FIRST_SECOND = -62_135_596_800  # of the year 1
_LAST_SECOND = 253_402_300_799  # of the year 9999


@np.errstate(all="ignore")  # a warning would reveal a value
def to_days(cells: Cells) -> Array | None:
    """Return dates, times and ISO texts as days since 1970-01-01, NaN where a cell is none; None if
    their type holds no date.

    A time counts as its date, by the clock of its own time zone.
    """
    coded = factorize(cells)
    if coded is None:
        return None
    codes, values = coded
    days = _value_days(values)
    return None if days is None else np.append(days, np.nan)[codes]


def _value_days(values: Values) -> Array | None:  # noqa: PLR0911  (one per type)
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        return _numpy_days(values)
    texts = texts_of(values)
    if texts is not None:
        return np.array([_day(cell) for cell in texts], dtype=float)
    if isinstance(values, np.ndarray):
        return None
    if pa.types.is_date32(values.type):
        return _plain_floats(values.cast(pa.int32()))
    if pa.types.is_date64(values.type):
        return np.floor_divide(_plain_floats(values.cast(pa.int64())), 1000 * _SECONDS)
    if pa.types.is_timestamp(values.type):
        return _arrow_days(values)
    return None


def _plain_floats(values: pa.Array) -> Array:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _day(cell: Any) -> float:
    """Return the day of an object, NaN unless it is a plain date, time or text."""
    kind = type(cell)
    if kind in TEXTS:
        return dates.day_of_text(str(cell))
    pandas = libraries.get_pandas()
    if kind in _TIMES or (pandas is not None and kind is pandas.Timestamp):
        return dates.day_of(cell)
    if kind is np.datetime64:
        return float(_numpy_days(np.array([cell]))[0])
    return np.nan


def _numpy_days(values: npt.NDArray[Any]) -> Array:
    """Return days by integer division, and where a calendar is needed by numpy, which raises where
    a time is too far: beyond that all dates are clipped.
    """
    unit, step = np.datetime_data(values.dtype)
    counts = values.astype(np.int64)
    if unit == "generic":  # holds nothing but missing values
        return np.full(values.shape, np.nan)
    if unit in ("Y", "M", "W"):
        near = np.clip(counts, -_FARTHEST // step, _FARTHEST // step).astype(values.dtype)
        days = near.astype("M8[D]").astype(np.float64)
    elif step == 1 and _PER_DAY[unit] < 2**63:
        days = np.floor_divide(counts, _PER_DAY[unit]).astype(np.float64)
    else:  # rare units: to the precision of floats
        days = np.floor(counts.astype(np.float64) * (step / _PER_DAY[unit]))
    return np.where(np.isnat(values), np.nan, days)


def _arrow_days(values: pa.Array) -> Array | None:
    """Return the days of times of Arrow, in their own zone where they have one; None for a zone
    that is not known.
    """
    per_second = _UNITS[values.type.unit]
    integers = values.cast(pa.int64())
    missing = np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    numbers = np.asarray(integers.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    seconds = np.clip(np.floor_divide(numbers, per_second), _FIRST_SECOND, _LAST_SECOND)
    if values.type.tz is not None:
        # one more, so that a zone is looked up where there is no cell, too
        times = pa.array(np.append(seconds, 0), pa.timestamp("s", values.type.tz))
        try:
            local = pc.local_timestamp(times)
        except pa.ArrowException:
            return None
        seconds = np.asarray(local.cast(pa.int64()).to_numpy(zero_copy_only=False))[:-1]
    return np.where(missing, np.nan, np.floor_divide(seconds, _SECONDS).astype(np.float64))
