"""The one bisection: where a statement about a number stops to hold."""

import math
from collections.abc import Callable


def boundary(
    holds: Callable[[float], bool], low: float, high: float, relative: float, *, by_ratio: bool = False
) -> tuple[float, float]:
    """A bracket of the boundary between ``low``, where the statement holds, and ``high``, where it does not.

    It is narrowed to ``relative`` times its upper end, by halves, or by_ratio by geometric means.  The first number is
    on the side where the statement was seen to hold, the second on the other: callers choose the safe one.  ``low``
    may lie above ``high``, for a statement that holds from some number on.
    """
    while abs(high - low) > relative * max(low, high):
        middle = math.sqrt(low * high) if by_ratio else (low + high) / 2
        if middle in (low, high):  # no number lies between
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
