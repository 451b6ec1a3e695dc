"""Operations of expressions: what each does to numbers, and to an interval.

Arithmetic and curves give numbers.  Comparisons, membership, "and", "or" and "not" answer with 0 or 1; cuts,
merged levels and the calendar give codes of levels, and years.  A value that is missing in any argument is
missing in the result.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt

from dpinfer.numerics import splines
from dpinfer.numerics.arrays import Array
from dpinfer.schema import dates

Interval = tuple[float, float]
OfIntervals = Callable[..., Interval]
Operation = tuple[Callable[..., Array], OfIntervals]

_NO = (0.0, 0.0)
_YES = (1.0, 1.0)
_EITHER = (0.0, 1.0)


class DomainError(Exception):
    """An operation is not defined on the whole range of its argument; the text says what it needs."""


def _monotone(function: Callable[[float], float], above: float = -math.inf) -> OfIntervals:
    def of_interval(x: Interval) -> Interval:
        if x[0] <= above:
            raise DomainError(f"needs values above {above:g}")
        return function(x[0]), function(x[1])

    return of_interval


def _root(x: Interval) -> Interval:
    if x[0] < 0:
        raise DomainError("needs values of 0 or more")
    return math.sqrt(x[0]), math.sqrt(x[1])


def _power(x: Interval, k: Interval) -> Interval:
    exponent = k[0]
    low, high = sorted((x[0] ** exponent, x[1] ** exponent))
    if exponent % 2 == 0 and x[0] < 0 < x[1]:
        low = 0.0
    return low, high


def _absolute(x: Interval) -> Interval:
    low, high = sorted((abs(x[0]), abs(x[1])))
    if x[0] < 0 < x[1]:
        low = 0.0
    return low, high


def _times(x: Interval, y: Interval) -> Interval:
    # An end may be infinite, which no value is: 0 times any is 0.
    corners = [a * b if a and b else 0.0 for a in x for b in y]
    return min(corners), max(corners)


def _quotients(x: Array, y: Array) -> Array:
    """Return x / y; a quotient with the divisor 0 is missing, and not infinite."""
    return np.where(y == 0, np.nan, np.divide(x, y))


def _over(x: Interval, y: Interval) -> Interval:
    """Return the range of quotients whose divisor is not 0: infinite where it may be as near to 0 as
    floats are.
    """
    if y == (0.0, 0.0):
        raise DomainError("divides by 0")
    if y[0] < 0 < y[1]:
        return -math.inf, math.inf
    near_zero = math.copysign(0.0, y[0] + y[1])  # the side from which a divisor comes near to 0
    corners = [_quotient(a, b or near_zero) for a in x for b in y]
    return min(corners), max(corners)


def _quotient(a: float, b: float) -> float:
    """Return the limit of a quotient at a corner; where both are infinite, another corner is larger."""
    if a == 0 or (math.isinf(a) and math.isinf(b)):
        return 0.0
    if b == 0:
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _clip_range(x: Interval, low: Interval, high: Interval) -> Interval:
    ends = [min(max(end, low[0]), high[0]) for end in x]
    return ends[0], ends[1]


def _column_of(
    basis: Callable[..., Sequence[splines.Column]],
) -> tuple[Callable[..., Array], OfIntervals]:
    """Return the operation of a column of a basis: a number, the column's index, the basis's parameters."""

    def of_numbers(x: Array, index: Array, *parameters: Array) -> Array:
        return basis(*map(float, parameters))[int(index)].values(x)

    def of_interval(x: Interval, index: Interval, *parameters: Interval) -> Interval:
        return basis(*(value for value, _ in parameters))[int(index[0])].range(*x)

    return of_numbers, of_interval


def _known(answer: npt.ArrayLike, *arguments: Array) -> Array:
    """Return an answer, with NaN where an argument is missing."""
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
    """Return how many of the breaks are at or below each value."""
    return _known(sum(x >= one for one in breaks), x)


def _looked_up(x: Array, *table: Array) -> Array:
    """Return the entry of a table for each code."""
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
"""Operations whose values are answers, 0 and 1."""

STEPS: dict[str, Operation] = {
    "cut": (_cut, lambda x, *breaks: (0.0, float(len(breaks)))),  # noqa: ARG005
    "look up": (_looked_up, _looked_up_range),
    "year": (lambda x, first: dates.years(x + first), _year_range),
    "month": (lambda x, first: dates.months(x + first), lambda x, first: (0.0, 11.0)),  # noqa: ARG005
    "weekday": (lambda x, first: dates.weekdays(x + first), lambda x, first: (0.0, 6.0)),  # noqa: ARG005
}
"""Operations whose values are codes of levels, or years: integers, which a small step of their argument
does not move."""

OPERATIONS: dict[str, Operation] = {
    "I": (lambda x: x, lambda x: x),
    "log": (np.log, _monotone(math.log, 0.0)),
    "log2": (np.log2, _monotone(math.log2, 0.0)),
    "log10": (np.log10, _monotone(math.log10, 0.0)),
    "log1p": (np.log1p, _monotone(math.log1p, -1.0)),
    "sqrt": (np.sqrt, _root),
    "exp": (np.exp, _monotone(math.exp)),
    "abs": (np.abs, _absolute),
    "-": (lambda x: -x, lambda x: (-x[1], -x[0])),
    "+": (np.add, lambda x, y: (x[0] + y[0], x[1] + y[1])),
    "minus": (np.subtract, lambda x, y: (x[0] - y[1], x[1] - y[0])),
    "*": (np.multiply, _times),
    "/": (_quotients, _over),
    "clip": (np.clip, _clip_range),
    "**": (np.power, _power),
    **ANSWERS,
    **STEPS,
    "ns": _column_of(splines.natural_splines),
    "bs": _column_of(splines.b_splines),
    "poly": _column_of(splines.powers),
}

FUNCTIONS = frozenset({"I", "log", "log2", "log10", "log1p", "sqrt", "exp", "abs"})
"""Operations that a formula calls as functions of one argument."""
