"""Whom a promise is about, one row or all rows with the same id, and how much a row counts."""

import math
from dataclasses import dataclass

from dpinfer.errors import InputError

AVERAGE = "average"


@dataclass(frozen=True)
class Unit:
    """What is protected, in words, and what its rows count together: at most 1.

    With a ``column`` of ids a unit has all rows with its id.  A row counts 1/max(rows, rows of its unit): with ``rows``
    = 1 every unit counts alike, whatever its number of rows (the average unit); with a larger number rows count alike
    up to that number, and a unit with more of them counts as that many.  ``number`` is that of units, where public.

    With a column of sampling ``weights`` ω a row counts ω/max(most_weight, sum of ω over its unit): ``most_weight`` is
    a public bound of a unit's weight, below which nothing is trimmed.
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
            if not (known and least <= value < 1e100):
                kind = f"{AVERAGE!r} or a number of at least 1" if key == "rows" else "a positive finite number"
                raise InputError(f"{key} must be {kind}, not {value!r}")
        wrong = isinstance(self.number, bool) or not isinstance(self.number, int | None)
        if wrong or (self.number is not None and self.number < 1):
            raise InputError(f"the number of units must be a whole number of at least 1, not {self.number!r}")

    @property
    def many(self) -> bool:
        """Whether a unit may have several rows."""
        return bool(self.column)

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
