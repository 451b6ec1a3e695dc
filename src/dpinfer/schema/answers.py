"""Operations whose values are answers, 0 and 1, or places among levels: what they do to numbers and
to an interval.

Comparisons, membership, "and", "or" and "not" answer; cuts, merged levels and the calendar give
places.  A value that is missing in any argument is missing in the result.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np
import numpy.typing as npt

from dpinfer.numerics.arrays import Array
from dpinfer.schema import dates

Interval = tuple[float, float]
Operation = tuple[Callable[..., Array], Callable[..., Interval]]

_NO = (0.0, 0.0)
_YES = (1.0, 1.0)
_EITHER = (0.0, 1.0)


def _known(answer: npt.ArrayLike, *arguments: Array) -> Array:
    """An answer where no argument is missing."""
    missing = reduce(np.logical_or, map(np.isnan, arguments))
    return np.where(missing, np.nan, answer)


def _less(x: Array, y: Array) -> Array:
    return _known(x < y, x, y)


def _less_range(x: Interval, y: Interval) -> Interval:
    if x[1] < y[0]:
        return _YES
    return _NO if x[0] >= y[1] else _EITHER


def _at_most(x: Array, y: Array) -> Array:
    return _known(x <= y, x, y)


def _at_most_range(x: Interval, y: Interval) -> Interval:
    if x[1] <= y[0]:
        return _YES
    return _NO if x[0] > y[1] else _EITHER


def _among(x: Array, *values: Array) -> Array:
    equal = reduce(np.logical_or, (x == value for value in values))
    return _known(equal, x, *values)


def _among_range(x: Interval, *values: Interval) -> Interval:
    if all(value[1] < x[0] or x[1] < value[0] for value in values):
        return _NO
    return _EITHER


def _cut(x: Array, *breaks: Array) -> Array:
    """How many of the breaks are at or below each value."""
    return _known(sum(x >= one for one in breaks), x)


def _looked_up(x: Array, *table: Array) -> Array:
    """The entry of a table at each place."""
    codes = np.where(np.isnan(x), 0.0, x).astype(np.intp)
    return _known(np.array(table, dtype=float)[codes], x)


def _looked_up_range(x: Interval, *table: Interval) -> Interval:  # noqa: ARG001
    return min(entry[0] for entry in table), max(entry[1] for entry in table)


def _year_range(x: Interval, first: Interval) -> Interval:
    low, high = (float(dates.years(np.asarray(end + first[0]))) for end in x)
    return low, high


ANSWERS: dict[str, Operation] = {
    "<": (_less, _less_range),
    "<=": (_at_most, _at_most_range),
    "among": (_among, _among_range),
    "and": (np.multiply, lambda x, y: (x[0] * y[0], x[1] * y[1])),
    "or": (np.maximum, lambda x, y: (max(x[0], y[0]), max(x[1], y[1]))),
    "not": (lambda x: 1 - x, lambda x: (1 - x[1], 1 - x[0])),
}
"""Of 0 and 1."""

STEPS: dict[str, Operation] = {
    "cut": (_cut, lambda x, *breaks: (0.0, float(len(breaks)))),  # noqa: ARG005
    "look up": (_looked_up, _looked_up_range),
    "year": (lambda x, first: dates.years(x + first), _year_range),
    "month": (lambda x, first: dates.months(x + first), lambda x, first: (0.0, 11.0)),  # noqa: ARG005
    "weekday": (lambda x, first: dates.weekdays(x + first), lambda x, first: (0.0, 6.0)),  # noqa: ARG005
}
"""Of places among levels, and years: whole numbers, which a small step of their argument does not
move."""
