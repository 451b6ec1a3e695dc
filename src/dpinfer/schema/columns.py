"""The public description of one column: its type, its bounds or levels, its entry in a file.

Two texts are the same level if they differ only in white space around them and in how accents are
stored (`tidy`); with ``spelling = "any"`` also if they differ in case or in runs of white space
(`spelling_key`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from reprlib import repr as short
from typing import Any
from unicodedata import normalize

from dpinfer.errors import InputError
from dpinfer.schema import dates

Level = str | int | bool

TODO = "?"
"""The text of a draft where a person has to decide."""

_TEXTS = ("label", "description", "source", "learned")
_KEYS_OF_ALL = {"type", "missing", "typical", *_TEXTS}
_KEYS = {
    "number": {"low", "high", "unit", "centre", "scale"} | _KEYS_OF_ALL,
    "integer": {"low", "high", "unit", "centre", "scale", "levels", "reference"} | _KEYS_OF_ALL,
    "boolean": _KEYS_OF_ALL - {"learned"},
    "category": {"levels", "reference", "spelling"} | _KEYS_OF_ALL,
    "date": {"low", "high"} | (_KEYS_OF_ALL - {"learned"}),
    "outcome": {"levels", "low", "high", "unit", "spelling"} | _KEYS_OF_ALL,
}
_DERIVED = {"from", "label", "description"}
_ORDER = (
    *("low", "high", "unit", "centre", "scale", "levels", "reference", "spelling", "missing"),
    *_TEXTS,
)
_ANY = "any"  # spelling
MISSING_LEVEL = "missing"
"""The level of cells that hold none, where a category has it."""
_LISTED = 8  # names in an error
_OWN_LEVEL = "level"  # the rule of `missing` for it
MISSING_RULES = ("drop", _OWN_LEVEL)
"""Rules that `missing` may name instead of a substitute."""
_REMEDIES = {
    "low": "add a public lower bound",
    "high": "add a public upper bound",
    "levels": "list the public levels",
    "type": f"write one of {', '.join(_KEYS)}",
}


class SchemaError(InputError):
    """An error that knows which key of the schema it is about: ``path`` leads to it."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path = path


def fault(name: str, key: str, message: str) -> SchemaError:
    """Return an error of one key of a column."""
    return SchemaError(f"column {name!r}: {message}", "columns", name, key)


def tidy(text: str) -> str:
    """Return a text as it is compared: without white space around it, accents in one form (NFC).

    ``é`` may be stored as one letter or as two, and looks the same.  Small and large letters are
    told apart.
    """
    return normalize("NFC", text.strip())


def tidied(value: Any) -> Any:
    """Return the same of all texts of a tuple; what is no text stays as it is."""
    if isinstance(value, tuple):
        return tuple(map(tidied, value))
    if isinstance(value, str):
        return tidy(value)
    return value


def spelling_key(text: str) -> str:
    """Return a key that two texts share if they differ only in large and small letters, in runs of
    white space and in how accents are stored.  No character becomes none: a text is at most as
    long.
    """
    spaced = " ".join(text.split())
    return normalize("NFD", normalize("NFD", spaced).casefold())


def level_meant(value: Any, levels: Sequence[Level]) -> Level | None:
    """Return the level that a formula means: the value itself or, of texts, the only level that is
    alike; None if there is none.
    """
    value = tidied(value)
    if type(value) is not type(levels[0]):
        return None
    if value in levels:
        return levels[levels.index(value)]
    if not isinstance(value, str):
        return None
    near = [level for level in levels if spelling_key(str(level)) == spelling_key(value)]
    return near[0] if len(near) == 1 else None


def did_you_mean(name: Any, names: Iterable[Any]) -> str:
    """Return the remedy for an unknown name: the closest of the names there are, or all of them."""
    by_text = {str(item): item for item in names}
    closest = get_close_matches(str(name), by_text, 1)
    if closest:
        return f"did you mean {by_text[closest[0]]!r}?"
    listed = sorted(by_text)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"it has {', '.join(short(name) for name in listed[:_LISTED])}{more}"


def require_different(names: Sequence[str]) -> None:
    """Refuse a name that occurs twice.  The error gives positions, not names: those of a file
    without names are values.
    """
    first: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if first.setdefault(name, position) != position:
            raise InputError(
                f"columns {first[name]} and {position} of the table have the same name: rename one of them"
            )


@dataclass(frozen=True)
class Number:
    """A numeric column with public bounds; values beyond them are clipped.

    ``kind`` is "number", "integer" (other values cannot be encoded), "boolean" (0 and 1) or "date":
    days since ``origin``, the ISO text of its lower bound.  A ``label`` is the name for people, which
    tables and plots show.
    ``centre`` and ``scale`` are the constants of ``scale(x)``; an integer with ``levels`` may be a
    factor.  ``missing`` stands for every value that cannot be encoded, on the right of ~; without
    it, and on the left, such a row counts as the zero row.  ``learned`` names the private release
    that bounds or levels come from; empty where they are stated.
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
    learned: str = ""
    origin: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        _require_range(self.name, self.low, self.high)
        for key in ("low", "high"):
            if self.kind == "integer" and getattr(self, key) % 1 != 0:
                raise fault(
                    self.name, key, f"{key} must be a whole number: or write type = 'number'"
                )
        if self.centre is not None and not math.isfinite(self.centre):
            raise fault(self.name, "centre", "centre must be a finite number")
        if self.scale is not None and not in_reach(0.0, self.scale):
            raise fault(
                self.name, "scale", "scale must be a positive number between 1e-150 and 1e150"
            )
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise fault(
                self.name, "missing", "missing must lie between low and high, or be left out"
            )
        if self.missing is not None and self.kind == "integer" and self.missing % 1 != 0:
            raise fault(self.name, "missing", "missing must be a whole number, or be left out")
        if self.levels:
            _require_levels(self.name, self.levels)
            _require_member(self.name, "reference", self.reference, self.levels)


@dataclass(frozen=True)
class Category:
    """A factor with its public levels; the reference level is the one without a coefficient.

    With the ``spelling`` "any" cells are levels that differ from one in case or white space alone.
    """

    name: str
    levels: tuple[Level, ...]
    reference: Level
    description: str = ""
    source: str = ""
    missing: Level | None = None
    learned: str = ""
    spelling: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        for key in ("levels", "reference", "missing"):
            object.__setattr__(self, key, tidied(getattr(self, key)))
        _require_levels(self.name, self.levels)
        _require_spelling(self.name, self.spelling, self.levels)
        _require_member(self.name, "reference", self.reference, self.levels)
        if self.missing is not None:
            _require_member(self.name, "missing", self.missing, self.levels)


@dataclass(frozen=True)
class Outcome:
    """An outcome: two public levels, the second one counted as +1, or a number with public
    bounds.

    A numeric outcome has ``low`` and ``high`` and no levels.
    """

    name: str
    levels: tuple[Level, ...] = ()
    description: str = ""
    source: str = ""
    low: float | None = None
    high: float | None = None
    unit: str = ""
    learned: str = ""
    spelling: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tidied(self.levels))
        _require_spelling(self.name, self.spelling, self.levels)
        if self.low is None and self.high is None:
            _require_levels(self.name, self.levels)
            if len(self.levels) != 2:
                raise fault(
                    self.name,
                    "levels",
                    f"an outcome needs exactly two levels, not {len(self.levels)}",
                )
            return
        if self.levels:
            raise fault(
                self.name,
                "levels",
                "an outcome has levels or low and high, not both: drop one of them",
            )
        if self.low is None:
            raise _absent(self.name, "low")
        if self.high is None:
            raise _absent(self.name, "high")
        _require_range(self.name, self.low, self.high)


Column = Number | Category | Outcome


@dataclass(frozen=True)
class Derived:
    """A column that stands in no table: an expression of other columns, with a name."""

    name: str
    text: str
    description: str = ""
    label: str = ""


def measured_in(column: Column) -> str:
    """Return the unit of measurement of a column, empty where it has none; a date is its own."""
    if isinstance(column, Category) or (isinstance(column, Number) and column.kind == "date"):
        return ""
    return column.unit


def heading(column: Column) -> str:
    """Return the name of a column for people: its label, or its name, with its unit in brackets."""
    name = column.label or column.name
    unit = measured_in(column)
    return f"{name} ({unit})" if unit else name


def levels_of(column: Column) -> tuple[Level, ...]:
    """Return the levels of a category, outcome, boolean or integer that may be a factor; empty
    where there are none.
    """
    if isinstance(column, Number) and column.kind == "boolean":
        return (False, True)
    return column.levels


@dataclass(frozen=True)
class Ids:
    """A column that says whose row it is, of any type.  It is compared, never shown, and stands in
    no formula.
    """

    name: str


Wanted = Column | Ids
"""Columns that are read of a table."""


def in_reach(low: float, high: float) -> bool:
    """Whether two numbers are in order and so far apart that double precision can scale by their
    distance.
    """
    return low < high and 1e-150 < high - low < 1e150


def _require_range(name: str, low: float, high: float) -> None:
    """Refuse bounds that are not finite, in order and in reach of double precision."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise fault(
            name, "high", "low and high must be finite, with low < high: correct one of them"
        )
    if not in_reach(low, high):
        raise fault(
            name,
            "high",
            "low and high are too close or too far apart for double precision: measure it in another unit",
        )


def _require_levels(name: str, levels: tuple[Any, ...]) -> None:
    """Refuse levels that are not two or more, different and of one type."""
    types = {type(level) for level in levels}
    one_type = len(types) == 1 and types <= {str, int, bool}
    if one_type and len(levels) >= 2 and len(set(levels)) == len(levels):
        return
    message = "levels must be two or more different levels, all text, all integers or all booleans"
    if str in types:
        message += " (white space around a text and how its accents are stored make no difference)"
    raise fault(name, "levels", message)


def _require_spelling(name: str, spelling: str, levels: tuple[Level, ...]) -> None:
    """Refuse texts that are the same but for case and white space."""
    if not spelling:
        return
    if spelling != _ANY:
        raise fault(name, "spelling", 'spelling is "any", or left out: then case counts')
    if not levels or not isinstance(levels[0], str):
        raise fault(name, "spelling", "spelling is for levels that are text: leave it out")
    if len({spelling_key(str(level)) for level in levels}) < len(levels):
        raise fault(
            name,
            "levels",
            'two levels differ in case or white space alone: merge them, or leave out spelling = "any"',
        )


def _require_member(name: str, key: str, value: Any, levels: tuple[Level, ...]) -> None:
    """Refuse a value that is not one of the levels, of their type: 1 is not true."""
    if type(value) is not type(levels[0]) or value not in levels:
        raise fault(
            name,
            key,
            f"{key} {short(value)} is not one of its levels: {did_you_mean(value, levels)}",
        )


def _absent(name: str, key: str) -> SchemaError:
    return fault(name, key, f"{key} is missing: {_REMEDIES[key]}")


def column_of(name: str, entry: Any) -> Column:
    """Return the column that an entry ``[columns.NAME]`` declares; what is ``typical`` of it is
    read elsewhere.
    """
    if not name or not isinstance(entry, dict):
        raise fault(
            name, "", "a column is a table with a name: write [columns.NAME] and its keys below"
        )
    for key, value in entry.items():
        if value == TODO and key in _REMEDIES:
            raise fault(name, key, f"{key} is not filled in: {_REMEDIES[key]}")
    kind = entry.get("type")
    if kind is None:
        raise _absent(name, "type")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise fault(name, "type", f"there is no type {short(kind)}: {_REMEDIES['type']}")
    for key in entry:
        if key not in _KEYS[kind]:
            raise fault(
                name,
                key,
                f"type {kind!r} has no key {short(key)}: {did_you_mean(key, _KEYS[kind])}",
            )
    if kind == "category":
        return _category(_Entry(name, entry))
    if kind == "date":
        return _date(_Entry(name, entry))
    if kind == "outcome":
        return _outcome(_Entry(name, entry))
    return _number(_Entry(name, entry), kind)


def derived_of(name: str, entry: Mapping[str, Any]) -> Derived:
    """Return the derived column that an entry with the key ``from`` declares."""
    for key in entry:
        if key not in _DERIVED:
            raise fault(
                name,
                key,
                f"a column with from has no key {short(key)}: its bounds and levels follow from its columns; "
                "leave it out",
            )
    keys = _Entry(name, entry)
    texts = {key: keys.text(key) for key in ("label", "description")}
    return Derived(name, keys.text("from").strip(), **texts)


def derived_entry(derived: Derived) -> dict[str, Any]:
    """Return the inverse of `derived_of`."""
    texts = {"label": derived.label, "description": derived.description}
    return {"from": derived.text} | {key: text for key, text in texts.items() if text}


def is_derived(entry: Any) -> bool:
    """Whether an entry of a column says what it is derived from."""
    return isinstance(entry, dict) and "from" in entry


def entry_of(column: Column) -> dict[str, Any]:
    """Return the inverse of `column_of`: what is at its default is left out."""
    kind = column.kind if isinstance(column, Number) else type(column).__name__.lower()
    entry: dict[str, Any] = {"type": kind}
    for key in _ORDER:
        value = getattr(column, key, None)
        empty = value == "" and key in (
            "unit",
            "spelling",
            *_TEXTS,
        )  # a level may be the empty text
        if key in _KEYS[kind] and value is not None and value != () and not empty:
            entry[key] = _plain(value, key, kind)
    if isinstance(column, Number) and kind == "date":
        first = dates.day_of_text(column.origin)
        for key in ("low", "high", "missing"):
            if key in entry:
                entry[key] = dates.text_of(first + entry[key])
    return entry


@dataclass(frozen=True)
class _Entry:
    """The keys of one entry, each asked for by its type."""

    name: str
    values: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def text(self, key: str) -> str:
        if key not in self:
            return ""
        return str(self._typed(key, (str,), "text in quotes"))

    def texts(self) -> dict[str, Any]:
        return {key: self.text(key) for key in _TEXTS}

    def number(self, key: str) -> float:
        try:
            return float(self._typed(key, (int, float), "a number")) + 0.0  # -0.0 is 0.0
        except OverflowError:
            raise fault(self.name, key, f"{key} must be a finite number") from None

    def numbers(self, *keys: str) -> dict[str, Any]:
        """Return the numbers of the keys that are there."""
        return {key: self.number(key) for key in keys if key in self}

    def day(self, key: str) -> float:
        """Return the day of a date."""
        if key not in self:
            raise _absent(self.name, key)
        day = dates.day_stated(self.values[key])
        if math.isnan(day):
            raise fault(
                self.name,
                key,
                f"{key} must be a date such as 2024-05-31, not {short(self.values[key])}",
            )
        return day

    def levels(self) -> tuple[Any, ...]:
        return tuple(self._typed("levels", (list,), 'a list such as ["no", "yes"]'))

    def missing(self) -> Any:
        """Return the substitute for a missing value, or None for the rule "drop"."""
        value = self.values.get("missing", "drop")
        if value != "drop":
            return value
        levels = self.values.get("levels")
        if isinstance(levels, list) and "drop" in levels:
            raise fault(
                self.name, "missing", "'drop' is a level and the name of a rule: rename the level"
            )
        return None

    def _typed(self, key: str, types: tuple[type, ...], words: str) -> Any:
        if key not in self:
            raise _absent(self.name, key)
        value = self.values[key]
        if type(value) not in types:
            raise fault(self.name, key, f"{key} must be {words}, not {short(value)}")
        return value


def _number(entry: _Entry, kind: str) -> Number:
    optional = entry.numbers("centre", "scale")
    missing = entry.missing()
    if missing is not None and kind == "boolean":
        if not isinstance(missing, bool):
            raise fault(entry.name, "missing", "missing must be true, false or left out")
        optional["missing"] = float(missing)
    elif missing is not None:
        optional["missing"] = entry.number("missing")
    if "levels" in entry:
        levels = entry.levels()
        if not levels or any(type(level) is not int for level in levels):
            raise fault(
                entry.name,
                "levels",
                "levels of an integer are whole numbers: correct them, leave them out, or write type = 'category'",
            )
        optional["levels"] = levels
        optional["reference"] = entry.values.get("reference", next(iter(levels), None))
    elif "reference" in entry:
        raise fault(entry.name, "reference", "reference goes with levels: add levels or drop it")
    if kind == "boolean":
        low, high = 0.0, 1.0
    else:
        low = entry.number("low")
        high = entry.number("high")
    texts = entry.texts()
    return Number(entry.name, low, high, **texts, kind=kind, unit=entry.text("unit"), **optional)


def _date(entry: _Entry) -> Number:
    """Return a column of dates, as days since its lower bound."""
    low = entry.day("low")
    high = entry.day("high")
    missing = None if entry.missing() is None else entry.day("missing") - low
    origin = dates.text_of(low)
    return Number(
        entry.name,
        0.0,
        high - low,
        **entry.texts(),
        kind="date",
        unit=f"days since {origin}",
        missing=missing,
        origin=origin,
    )


def _category(entry: _Entry) -> Category:
    levels = entry.levels()
    reference = entry.values.get("reference", next(iter(levels), ""))
    missing = entry.missing()
    if missing == _OWN_LEVEL:
        _require_own_level(entry.name, levels)
        levels = (*levels, MISSING_LEVEL)
        missing = MISSING_LEVEL
    return Category(
        entry.name,
        levels,
        reference,
        **entry.texts(),
        missing=missing,
        spelling=entry.text("spelling"),
    )


def _require_own_level(name: str, levels: tuple[Any, ...]) -> None:
    """Refuse levels to which "missing" cannot be added."""
    if any(not isinstance(level, str) for level in levels):
        raise fault(
            name,
            "missing",
            'missing = "level" adds the text "missing" to the levels: write all levels as texts, or name a substitute',
        )
    if any(spelling_key(level) in (MISSING_LEVEL, _OWN_LEVEL) for level in levels):
        raise fault(
            name,
            "missing",
            'missing = "level" adds a level "missing", and a level "missing" or "level" is there: rename it, or write '
            'missing = "missing" where that level is meant',
        )


def _outcome(entry: _Entry) -> Outcome:
    if entry.missing() is not None:
        raise fault(
            entry.name,
            "missing",
            "an outcome has no substitute: a row without one counts as the zero row",
        )
    bounds = entry.numbers("low", "high")
    if not bounds and "levels" not in entry:
        raise fault(
            entry.name,
            "",
            "levels is missing: list two public levels, or add low and high of a number",
        )
    levels = entry.levels() if "levels" in entry else ()
    return Outcome(
        entry.name,
        levels,
        **entry.texts(),
        **bounds,
        unit=entry.text("unit"),
        spelling=entry.text("spelling"),
    )


def _plain(value: Any, key: str, kind: str) -> Any:
    """Return a value as TOML writes it: whole numbers for an integer, true and false for a boolean."""
    if key == "levels":
        return list(value)
    numeric = key in ("low", "high", "centre", "scale") or (key == "missing" and kind != "category")
    if not numeric:
        return value
    if kind == "boolean":
        return bool(value)
    if kind == "integer" and key not in ("centre", "scale"):
        return int(value)
    return float(value) + 0.0  # -0.0 is 0.0
