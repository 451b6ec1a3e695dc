"""Public functions of numeric columns, with their ranges by interval arithmetic.

An expression is data, not code: a tree of named operations, each with what it does to numbers and
to an interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.schema.columns import Number, in_reach

Interval = tuple[float, float]
OfIntervals = Callable[..., Interval]


@dataclass(frozen=True)
class Expression:
    """An operation on other expressions, a column or a constant; ``low`` and ``high`` bound its
    values.
    """

    text: str
    low: float
    high: float
    operation: str
    arguments: tuple["Expression", ...] = ()
    column: Number | None = None

    @property
    def columns(self) -> tuple[Number, ...]:
        """The columns it is made of."""
        if self.column is not None:
            return (self.column,)
        return tuple(column for argument in self.arguments for column in argument.columns)

    @np.errstate(all="ignore")  # a warning would tell of a value
    def values(self, read: Callable[[Number], Array]) -> Array:
        """Its values, where ``read`` gives those of a column within its bounds; NaN stays NaN."""
        if self.operation == "constant":
            return np.asarray(self.low)
        if self.column is not None:
            return read(self.column)
        of_numbers, _ = _OPERATIONS[self.operation]
        return of_numbers(*(argument.values(read) for argument in self.arguments))


def of_column(column: Number) -> Expression:
    """The column itself."""
    return Expression(column.name, column.low, column.high, "column", column=column)


def constant(value: float) -> Expression:
    """A number of the formula."""
    if not math.isfinite(value):
        raise InputError("a number of the formula is too large: write it in smaller units")
    return Expression(f"{value:g}", value, value, "constant")


def apply(operation: str, text: str, *arguments: Expression) -> Expression:
    """An operation with its range; an error that names the remedy where it is not defined on the
    whole range.
    """
    _, of_intervals = _OPERATIONS[operation]
    try:
        low, high = of_intervals(*((argument.low, argument.high) for argument in arguments))
    except OverflowError:
        low, high = -math.inf, math.inf
    except _DomainError as error:
        raise InputError(
            f"{text} {error}, but {_range(arguments[-1])}: {_remedy(operation, arguments[-1])}"
        ) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(
            f"{text} is too large for double precision: tighten low and high of its column in the schema"
        )
    return Expression(text, low, high, operation, arguments)


def require_spread(number: Expression, remedy: str) -> None:
    """A range with two ends that double precision can scale by."""
    if in_reach(number.low, number.high):
        return
    if number.low == number.high:
        raise InputError(f"{number.text} is the same in every row: {remedy}")
    raise InputError(f"{number.text} is too small or too large for double precision: {remedy}")


class _DomainError(Exception):
    """What an operation needs of its argument, in words."""


def _range(argument: Expression) -> str:
    where = " in the schema" if argument.column is not None else ""
    return f"{argument.text} goes from {argument.low:g} to {argument.high:g}{where}"


def _remedy(operation: str, argument: Expression) -> str:
    """What to write where an operation is not defined on the whole range of its argument."""
    if operation in _REMEDIES:
        return _REMEDIES[operation]
    if argument.low > -1:
        defined = f"log1p({argument.text})"
    else:
        defined = f"{operation}({argument.text} + {1 - argument.low:g})"
    return f"raise low in the schema, or write {defined}"


def _monotone(function: Callable[[float], float], above: float = -math.inf) -> OfIntervals:
    def of_interval(x: Interval) -> Interval:
        if x[0] <= above:
            raise _DomainError(f"needs values above {above:g}")
        return function(x[0]), function(x[1])

    return of_interval


def _root(x: Interval) -> Interval:
    if x[0] < 0:
        raise _DomainError("needs values of 0 or more")
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
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _over(x: Interval, y: Interval) -> Interval:
    if y[0] <= 0 <= y[1]:
        raise _DomainError("divides by values that may be 0")
    corners = [a / b for a in x for b in y]
    return min(corners), max(corners)


_OPERATIONS: dict[str, tuple[Callable[..., Array], OfIntervals]] = {
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
    "/": (np.divide, _over),
    "**": (np.power, _power),
}
FUNCTIONS = frozenset({"I", "log", "log2", "log10", "log1p", "sqrt", "exp", "abs"})
"""What a formula may call with one argument."""

_REMEDIES = {
    "log1p": "raise low in the schema above -1",
    "sqrt": "raise low in the schema to 0 or more",
    "/": "divide by something whose bounds in the schema leave 0 out",
}
