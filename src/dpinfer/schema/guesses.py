"""Public guesses of what a column is like: mean and standard deviation, or shares of levels.

They serve forecasts, and what is said before a fit.  No released number depends on them, so they are
no part of what a release is: they stand beside the columns of a schema, and outside its digest.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

from dpinfer.schema import dates
from dpinfer.schema.columns import (
    Column,
    Level,
    Number,
    Outcome,
    SchemaError,
    did_you_mean,
    levels_of,
)

_SHARES_MISS = 0.005  # by how much shares of all levels may miss 1, as they were rounded
# shares that miss 1 by less stay as they are, so that what was written reads back equal
_EXACT = 1e-9
_ROUNDED = 1.001  # factor by which a rounded sd may exceed the largest there is
_NEAREST = 1e-3  # share of a range that a released mean keeps from its bounds, and an sd from 0
_DIGITS = 6  # decimals of a released share
_RANGE_IN_SDS = 6.0  # standard deviations in a range, where nothing is known
COUNT_MEAN = 1.0
"""The mean of a count where nothing is known: its public bound may be generous, and is no guide."""
COUNT_PART = 0.1
"""The largest such mean, as a share of the bound of a count."""
OVERDISPERSION = 2.0
"""Where nothing is known a count has the variance μ + 2μ²: visits to a doctor in two surveys have 2.1
and 3.1 in its place."""


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of a number, within its public bounds."""

    mean: float
    sd: float


@dataclass(frozen=True)
class Shares:
    """One share per level, in the order of the levels, adding up to 1."""

    of: tuple[float, ...]


Typical = Spread | Shares


def default_guess(column: Column) -> Typical:
    """Return the guess where nobody made one: equal shares, or the middle of the bounds and a sixth
    of their distance.
    """
    levels = levels_of(column)
    if levels:
        return Shares((1 / len(levels),) * len(levels))
    low, high = _bounds(column)
    return Spread((low + high) / 2, (high - low) / _RANGE_IN_SDS)


def default_count_guess(column: Column) -> Typical:
    """Return the guess of a count, a rate or a cost where nobody made one: a mean of 1, or of a
    tenth of the bound where that is less, and more variance than Poisson's.
    """
    levels = levels_of(column)
    if levels:
        return default_guess(column)
    low, high = _bounds(column)
    mean = min(COUNT_MEAN, COUNT_PART * (high - low))
    return Spread(low + mean, math.sqrt(mean + OVERDISPERSION * mean**2))


def uniform(column: Column) -> Spread:
    """Return the moments of the uniform law between the bounds, the guess of an exposure where
    nobody made one.
    """
    low, high = _bounds(column)
    return Spread((low + high) / 2, (high - low) / math.sqrt(12))


def typical_of(column: Column, entry: Any) -> Typical:
    """Return the guess that ``typical = {...}`` of a column declares."""
    if not isinstance(entry, dict):
        raise _fault(column, f"typical must be {_example(column)}, not {short(entry)}")
    levels = levels_of(column)
    moments_given = "mean" in entry or "sd" in entry
    if not levels or (_is_integer(column) and moments_given):
        return _spread(column, entry)
    return _shares(column, levels, entry)


def typical_entry(column: Column, typical: Typical) -> dict[str, Any]:
    """Return the entry that `typical_of` reads."""
    if isinstance(typical, Spread) and _is_date(column):
        return {"mean": dates.text_of(_first_day(column) + typical.mean), "sd": typical.sd}
    if isinstance(typical, Spread):
        return {"mean": typical.mean, "sd": typical.sd}
    texts = map(level_text, levels_of(column))
    return dict(zip(texts, typical.of, strict=True))


def level_text(level: Level) -> str:
    """Return a level as a key of TOML: true and false for booleans."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def spread_within(column: Column, mean: float, sd: float) -> dict[str, Any]:
    """Return the guess nearest to a released mean and sd that a schema takes; empty where
    there is none.

    The mean is rounded to a ten-thousandth of the range.
    """
    if levels_of(column) and not _is_integer(column):
        return {}
    low, high = _bounds(column)
    margin = _NEAREST * (high - low)
    digits = 0 if _is_date(column) else 4 - math.floor(math.log10(high - low))
    centre = round(min(max(mean, low + margin), high - margin), digits)
    largest = math.sqrt(max(0.0, (centre - low) * (high - centre)))
    rounded_sd = float(f"{min(max(sd, margin), largest):.5g}")
    entry = typical_entry(column, Spread(centre, rounded_sd))
    try:
        typical_of(column, entry)
    except SchemaError:  # floats cannot tell so narrow a range apart
        return {}
    return entry


def shares_within(column: Column, shares: Mapping[Level, float]) -> dict[str, float]:
    """Return the guess nearest to released shares of levels that a schema takes; empty where there
    is none.  Levels without a share are left out, and have the rest alike.
    """
    levels = levels_of(column)
    inside = {level: min(max(shares[level], 0.0), 1.0) for level in levels if level in shares}
    total = math.fsum(inside.values())
    if total > 1 or (total > 0 and len(inside) == len(levels)):
        inside = {level: share / total for level, share in inside.items()}
    elif len(inside) == len(levels):
        return {}
    return {level_text(level): round(share, _DIGITS) for level, share in inside.items()}


def _spread(column: Column, entry: Mapping[str, Any]) -> Spread:
    low, high = _bounds(column)
    for key in entry:
        if key not in ("mean", "sd"):
            raise _fault(column, f"typical has no key {short(key)}: write {_example(column)}", key)
    for key in ("mean", "sd"):
        if key not in entry:
            raise _fault(column, f"typical lacks {key}: write {_example(column)}")
    if _is_date(column):
        entry = {**entry, "mean": dates.day_stated(entry["mean"]) - _first_day(column)}
    for key in ("mean", "sd"):
        if type(entry[key]) not in (int, float) or not math.isfinite(entry[key]):
            raise _fault(
                column, f"{key} must be {_kind(column, key)}, not {short(entry[key])}", key
            )
    mean = float(entry["mean"])
    sd = float(entry["sd"])
    if not low < mean < high:
        raise _fault(column, "mean must lie between low and high", "mean")
    largest = math.sqrt((mean - low) * (high - mean))  # with all records at the two bounds
    if not 0 < sd <= _ROUNDED * largest:
        raise _fault(
            column,
            f"sd must be above 0 and, with this mean and these bounds, at most {largest:.4g}",
            "sd",
        )
    return Spread(mean, min(sd, largest))


def _shares(column: Column, levels: tuple[Level, ...], entry: Mapping[str, Any]) -> Shares:
    """Return shares as they are given; levels that are left out share the rest alike."""
    index_of = {level_text(level): j for j, level in enumerate(levels)}
    given: dict[int, float] = {}
    for level, share in entry.items():
        key = level_text(level)
        if key not in index_of:
            raise _fault(
                column,
                f"typical has a share of {short(key)}, which is no level: {did_you_mean(key, index_of)}",
                key,
            )
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise _fault(column, f"a share must be a number from 0 to 1, not {short(share)}", key)
        given[index_of[key]] = float(share)
    total = math.fsum(given.values())
    left_out = len(levels) - len(given)
    if total > 1 + _SHARES_MISS or (not left_out and total < 1 - _SHARES_MISS):
        raise _fault(column, f"the shares of typical add up to {total:.4g}: they must add up to 1")
    share_left = max(0.0, 1 - total) / left_out if left_out else 0.0
    adds_up = abs(total - 1) < _EXACT or (left_out and total < 1)
    scale = 1.0 if adds_up else total
    return Shares(tuple(given.get(j, share_left) / scale for j in range(len(levels))))


def _bounds(column: Column) -> tuple[float, float]:
    """Return the bounds of a number; a column without levels is one."""
    assert isinstance(column, Number | Outcome)
    assert column.low is not None
    assert column.high is not None
    return column.low, column.high


def _is_integer(column: Column) -> bool:
    return isinstance(column, Number) and column.kind == "integer"


def _is_date(column: Column) -> bool:
    return isinstance(column, Number) and column.kind == "date"


def _first_day(column: Column) -> float:
    assert isinstance(column, Number)
    return dates.day_of_text(column.origin)


def _kind(column: Column, key: str) -> str:
    if key == "mean" and _is_date(column):
        return "a date such as 2024-05-31"
    return "a finite number"


def _example(column: Column) -> str:
    levels = levels_of(column)
    if not levels or _is_integer(column):
        return "{mean = ..., sd = ...}"
    shares = ", ".join(f"{level_text(level)} = ..." for level in levels[:2])
    return f"shares of levels, {{{shares}}}"


def _fault(column: Column, message: str, key: str = "") -> SchemaError:
    return SchemaError(f"column {column.name!r}: {message}", "columns", column.name, "typical", key)
