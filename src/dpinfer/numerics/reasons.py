"""Constants with a reason: numbers and budget shares that say what they decide, why, and by which source

A `Constant` is a float and a `ShareTable` a dict, so that arithmetic with them is unchanged.  Roundings, grids,
numbers of iterations, sizes in memory and bounds that privacy rests on are annotated `Numerical` instead: as long
as they are valid, their values change nothing that is reported beyond rounding or noise.
"""

from typing import Annotated, Any, Self, TypeVar

T = TypeVar("T")
Numerical = Annotated[T, "a rounding, a grid, a number of iterations, a size in memory, or a bound"]


class Constant(float):
    """A statistical constant: a number with its name, what it decides, the reason for it, and its source."""

    name: str
    decides: str
    reason: str
    source: str

    def __new__(cls, value: float, *, name: str, decides: str, reason: str, source: str) -> Self:
        found = super().__new__(cls, value)
        found.name, found.decides, found.reason, found.source = name, decides, reason, source
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        # a saved or copied value is a plain number
        return float, (float(self),)


class ShareTable(dict[str, float]):
    """The shares of a budget by stage, with what they decide, the reason for them, and its source."""

    def __init__(
        self, shares: dict[str, float], *, name: str, decides: str, reason: str, source: str
    ) -> None:
        super().__init__(shares)
        self.name, self.decides, self.reason, self.source = name, decides, reason, source

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
