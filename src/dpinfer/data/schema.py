"""What is public about a table, hand-written in TOML: columns, bounds, levels, the unit of privacy.

    title = "Visits to a doctor"
    unit = "one person"

    [columns.age]
    type = "number"            # or "boolean", "category", "outcome"
    low = 0
    high = 120

Nothing here is ever taken from the data.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpinfer.errors import InputError

Level = str | int | bool


@dataclass(frozen=True)
class Number:
    """A numeric column with public bounds; values beyond them are clipped."""

    name: str
    low: float
    high: float
    description: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not (self.low < self.high and 1e-150 < self.high - self.low < 1e150):
            raise InputError(f"column {self.name!r}: low and high must be finite, with low < high")


@dataclass(frozen=True)
class Category:
    """A factor with its public levels; the reference level is the one without a coefficient."""

    name: str
    levels: tuple[Level, ...]
    reference: Level
    description: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        _require_levels(self.name, self.levels)
        if self.reference not in self.levels:
            raise InputError(f"column {self.name!r}: the reference {self.reference!r} is not one of its levels")


@dataclass(frozen=True)
class Outcome:
    """What is explained: exactly two public levels, the second one counted as +1."""

    name: str
    levels: tuple[Level, ...]
    description: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        _require_levels(self.name, self.levels)
        if len(self.levels) != 2:
            raise InputError(f"outcome {self.name!r} needs exactly two levels, not {len(self.levels)}")


Column = Number | Category | Outcome


@dataclass(frozen=True)
class Schema:
    """The public side of a table."""

    columns: Mapping[str, Column]
    unit: str = "one record"
    title: str = ""
    source: str = ""

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read a TOML file."""
        try:
            return cls.parse(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as fault:
            raise InputError(f"the schema {str(path)!r} cannot be read: {type(fault).__name__}") from None

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Read TOML text."""
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError as fault:
            raise InputError(f"the schema is not valid TOML: {fault}") from None
        columns = document.pop("columns", None)
        if not isinstance(columns, dict) or not columns:
            raise InputError("the schema has no columns: write a table [columns.NAME] for each")
        facts = {key: _typed("the schema", document, key, str) for key in document}
        if not set(facts) <= {"unit", "title", "source"}:
            raise InputError(f"unknown keys in the schema: {sorted(set(facts) - {'unit', 'title', 'source'})}")
        return cls({name: _column(name, entry) for name, entry in columns.items()}, **facts)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise InputError(f"the schema has no column {name!r}; it has {sorted(self.columns)}")
        return self.columns[name]


def _number(name: str, entry: dict[str, Any]) -> Column:
    low, high = (float(_typed(name, entry, key, int | float)) for key in ("low", "high"))
    return Number(name, low, high, **_words(name, entry))


def _boolean(name: str, entry: dict[str, Any]) -> Column:
    return Number(name, 0.0, 1.0, **_words(name, entry))


def _category(name: str, entry: dict[str, Any]) -> Column:
    levels = tuple(_typed(name, entry, "levels", list))
    return Category(name, levels, entry.get("reference", levels[0] if levels else ""), **_words(name, entry))


def _outcome(name: str, entry: dict[str, Any]) -> Column:
    return Outcome(name, tuple(_typed(name, entry, "levels", list)), **_words(name, entry))


_KINDS: dict[str, tuple[Callable[[str, dict[str, Any]], Column], set[str]]] = {
    "number": (_number, {"low", "high"}),
    "boolean": (_boolean, set()),
    "category": (_category, {"levels", "reference"}),
    "outcome": (_outcome, {"levels"}),
}


def _column(name: str, entry: Any) -> Column:
    kind = entry.get("type") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InputError(f"column {name!r} needs a type: one of {sorted(_KINDS)}")
    build, keys = _KINDS[kind]
    unknown = set(entry) - keys - {"type", "description", "source"}
    if unknown:
        raise InputError(f"column {name!r}: unknown keys {sorted(unknown)} for type {kind!r}")
    return build(name, entry)


def _words(name: str, entry: dict[str, Any]) -> dict[str, str]:
    return {key: _typed(name, entry, key, str) for key in ("description", "source") if key in entry}


def _typed(owner: str, entry: Mapping[str, Any], key: str, kind: Any) -> Any:
    if key not in entry:
        raise InputError(f"column {owner!r}: {key!r} is missing")
    value = entry[key]
    wrong_bool = isinstance(value, bool) and kind == int | float
    if wrong_bool or not isinstance(value, kind):
        raise InputError(f"{owner!r}: {key!r} has the wrong type, {type(value).__name__}")
    return value


def _require_levels(name: str, levels: tuple[Level, ...]) -> None:
    kinds = {type(level) for level in levels}
    if len(levels) < 2 or len(set(levels)) != len(levels) or len(kinds) != 1 or not kinds <= {str, int, bool}:
        raise InputError(f"column {name!r} needs two or more different levels, all text, all integers or all booleans")
