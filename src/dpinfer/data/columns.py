"""What is public about one column: its type, bounds or levels, and what stands for a missing value."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from reprlib import repr as short
from typing import Any

from dpinfer.errors import InputError

Level = str | int | bool


class SchemaError(InputError):
    """An error that knows which key of the schema it is about."""

    path: tuple[str, ...] = ()


def fault(name: str, key: str, message: str) -> SchemaError:
    """An error of one key of a column."""
    error = SchemaError(f"column {name!r}: {message}")
    error.path = ("columns", name, key)
    return error


@dataclass(frozen=True)
class Number:
    """A numeric column with public bounds; values beyond them are clipped.

    ``kind`` is "number", "integer" (other values cannot be encoded) or "boolean" (0 and 1).  ``centre`` and ``scale``
    are the constants of ``scale(x)``; an integer with ``levels`` may be a factor.  ``missing`` stands for every value
    that cannot be encoded; without it such a row counts as the zero row.
    """

    name: str
    low: float
    high: float
    description: str = ""
    source: str = ""
    kind: str = "number"
    unit: str = ""
    centre: float | None = None
    scale: float | None = None
    levels: tuple[Level, ...] = ()
    reference: Level | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        require_range(self.name, self.low, self.high)
        for key in ("low", "high"):
            if self.kind == "integer" and getattr(self, key) % 1 != 0:
                raise fault(self.name, key, f"{key} must be a whole number: or write type = 'number'")
        if self.centre is not None and not math.isfinite(self.centre):
            raise fault(self.name, "centre", "centre must be a finite number")
        if self.scale is not None and not 1e-150 < self.scale < 1e150:
            raise fault(self.name, "scale", "scale must be a positive finite number")
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise fault(self.name, "missing", "missing must lie between low and high, or be left out")
        if self.missing is not None and self.kind == "integer" and self.missing % 1 != 0:
            raise fault(self.name, "missing", "missing must be a whole number, or be left out")
        if self.levels:
            require_levels(self.name, self.levels)
            require_member(self.name, "reference", self.reference, self.levels)


@dataclass(frozen=True)
class Category:
    """A factor with its public levels; the reference level is the one without a coefficient."""

    name: str
    levels: tuple[Level, ...]
    reference: Level
    description: str = ""
    source: str = ""
    missing: Level | None = None

    def __post_init__(self) -> None:
        require_levels(self.name, self.levels)
        require_member(self.name, "reference", self.reference, self.levels)
        if self.missing is not None:
            require_member(self.name, "missing", self.missing, self.levels)


@dataclass(frozen=True)
class Outcome:
    """What is explained: two public levels, the second one counted as +1, or a number with public bounds.

    A numeric outcome has ``low`` and ``high`` and no levels.
    """

    name: str
    levels: tuple[Level, ...] = ()
    description: str = ""
    source: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            require_levels(self.name, self.levels)
            if len(self.levels) != 2:
                raise fault(self.name, "levels", f"an outcome needs exactly two levels, not {len(self.levels)}")
            return
        if self.levels:
            raise fault(self.name, "levels", "an outcome has levels or low and high, not both: drop one of them")
        for key in ("low", "high"):
            if getattr(self, key) is None:
                raise fault(self.name, key, f"{key} is missing: {BOUND[key]}")
        assert self.low is not None
        assert self.high is not None
        require_range(self.name, self.low, self.high)


Column = Number | Category | Outcome
BOUND = {"low": "add a public lower bound", "high": "add a public upper bound"}


def require_range(name: str, low: float, high: float) -> None:
    """Two finite bounds in order, in reach of double precision."""
    if not (low < high and 1e-150 < high - low < 1e150):
        raise fault(name, "high", "low and high must be finite, with low < high: correct one of them")


def require_levels(name: str, levels: tuple[Any, ...]) -> None:
    """Two or more different levels of one type."""
    kinds = {type(level) for level in levels}
    if not kinds <= {str, int, bool} or len(kinds) != 1 or len(set(levels)) != len(levels) or len(levels) < 2:
        raise fault(
            name, "levels", "levels must be two or more different levels, all text, all integers or all booleans"
        )


def require_member(name: str, key: str, value: Any, levels: tuple[Level, ...]) -> None:
    """A value that is one of the levels, of their type: 1 is not true."""
    if type(value) is not type(levels[0]) or value not in levels:
        raise fault(name, key, f"{key} {short(value)} is not one of its levels: {near(value, levels)}")


def near(name: Any, known: Iterable[Any]) -> str:
    """The remedy for an unknown name: the closest one, or all there are."""
    texts = {str(item): item for item in known}
    close = get_close_matches(str(name), texts, 1)
    return f"did you mean {texts[close[0]]!r}?" if close else f"it has {short(sorted(texts))}"
