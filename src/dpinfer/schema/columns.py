"""When two texts are the same level: up to white space around them and to how accents are stored,
and no further.

What is public about one column: its type, bounds or levels, its missing values; and its entry in a
schema file.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from reprlib import repr as short
from typing import Any
from unicodedata import normalize

from dpinfer.errors import InputError


def tidy(words: str) -> str:
    """A text as it is compared: without white space around it, accents in one form (NFC).

    ``é`` may be stored as one letter or as two, and looks the same.  Small and large letters are
    told apart.
    """
    return normalize("NFC", words.strip())


def tidied(value: Any) -> Any:
    """The same of all texts of a tuple; what is no text stays as it is."""
    return (
        tuple(map(tidied, value))
        if isinstance(value, tuple)
        else tidy(value)
        if isinstance(value, str)
        else value
    )


def alike(words: str) -> str:
    """What two texts share that differ in large and small letters alone, for reports of near
    misses.
    """
    return tidy(words).casefold()


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

    ``kind`` is "number", "integer" (other values cannot be encoded) or "boolean" (0 and 1).
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

    def __post_init__(self) -> None:
        require_range(self.name, self.low, self.high)
        for key in ("low", "high"):
            if self.kind == "integer" and getattr(self, key) % 1 != 0:
                raise fault(
                    self.name, key, f"{key} must be a whole number: or write type = 'number'"
                )
        if self.centre is not None and not math.isfinite(self.centre):
            raise fault(self.name, "centre", "centre must be a finite number")
        if self.scale is not None and not in_reach(0.0, self.scale):
            raise fault(self.name, "scale", "scale must be a positive finite number")
        if self.missing is not None and not self.low <= self.missing <= self.high:
            raise fault(
                self.name, "missing", "missing must lie between low and high, or be left out"
            )
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
    learned: str = ""

    def __post_init__(self) -> None:
        for key in ("levels", "reference", "missing"):
            object.__setattr__(self, key, tidied(getattr(self, key)))
        require_levels(self.name, self.levels)
        require_member(self.name, "reference", self.reference, self.levels)
        if self.missing is not None:
            require_member(self.name, "missing", self.missing, self.levels)


@dataclass(frozen=True)
class Outcome:
    """What is explained: two public levels, the second one counted as +1, or a number with public
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tidied(self.levels))
        if self.low is None and self.high is None:
            require_levels(self.name, self.levels)
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
        for key in ("low", "high"):
            if getattr(self, key) is None:
                raise fault(self.name, key, f"{key} is missing: {BOUND[key]}")
        assert self.low is not None
        assert self.high is not None
        require_range(self.name, self.low, self.high)


Column = Number | Category | Outcome


@dataclass(frozen=True)
class Ids:
    """A column that says whose row it is, of any type.  It is compared, never shown, and stands in
    no formula.
    """

    name: str


Wanted = Column | Ids
"""What is read of a table."""
BOUND = {"low": "add a public lower bound", "high": "add a public upper bound"}


def in_reach(low: float, high: float) -> bool:
    """Whether two numbers are in order and so far apart that double precision can scale by their
    distance.
    """
    return low < high and 1e-150 < high - low < 1e150


def require_range(name: str, low: float, high: float) -> None:
    """Two finite bounds in order, in reach of double precision."""
    if not in_reach(low, high):
        raise fault(
            name, "high", "low and high must be finite, with low < high: correct one of them"
        )


def require_levels(name: str, levels: tuple[Any, ...]) -> None:
    """Two or more different levels of one type."""
    kinds = {type(level) for level in levels}
    if (
        not kinds <= {str, int, bool}
        or len(kinds) != 1
        or len(set(levels)) != len(levels)
        or len(levels) < 2
    ):
        same = (
            " (white space around a text and how its accents are stored make no difference)"
            if str in kinds
            else ""
        )
        what = "levels must be two or more different levels, all text, all integers or all booleans"
        raise fault(name, "levels", what + same)


def require_member(name: str, key: str, value: Any, levels: tuple[Level, ...]) -> None:
    """A value that is one of the levels, of their type: 1 is not true."""
    if type(value) is not type(levels[0]) or value not in levels:
        raise fault(
            name, key, f"{key} {short(value)} is not one of its levels: {near(value, levels)}"
        )


def near(name: Any, known: Iterable[Any]) -> str:
    """The remedy for an unknown name: the closest one, or all there are."""
    texts = {str(item): item for item in known}
    close = get_close_matches(str(name), texts, 1)
    return f"did you mean {texts[close[0]]!r}?" if close else f"it has {short(sorted(texts))}"


TODO = "?"
"""What a draft holds where a person has to decide."""

_WORDS = {"type", "description", "source", "learned", "missing", "typical"}
_KEYS = {
    "number": {"low", "high", "unit", "centre", "scale"} | _WORDS,
    "integer": {"low", "high", "unit", "centre", "scale", "levels", "reference"} | _WORDS,
    "boolean": _WORDS - {"learned"},
    "category": {"levels", "reference"} | _WORDS,
    "outcome": {"levels", "low", "high", "unit"} | _WORDS,
}
_REMEDIES = BOUND | {"levels": "list the public levels", "type": f"write one of {', '.join(_KEYS)}"}
_ORDER = (
    "low", "high", "unit", "centre", "scale", "levels", "reference", "missing", "description", "source", "learned"
)  # fmt: skip


def column_of(name: str, entry: Any) -> Column:
    """The column that an entry ``[columns.NAME]`` declares; what is ``typical`` of it is read
    elsewhere.
    """
    if not name or not isinstance(entry, dict):
        raise fault(
            name, "", "a column is a table with a name: write [columns.NAME] and its keys below"
        )
    for key, value in entry.items():
        if value == TODO and key in _REMEDIES:
            raise fault(name, key, f"{key} is not filled in: {_REMEDIES[key]}")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _KEYS:
        wrong = "type is missing" if kind is None else f"there is no type {short(kind)}"
        raise fault(name, "type", f"{wrong}: {_REMEDIES['type']}")
    for key in entry:
        if key not in _KEYS[kind]:
            raise fault(
                name, key, f"type {kind!r} has no key {short(key)}: {near(key, _KEYS[kind])}"
            )
    given = _Given(name, entry)
    if kind == "category":
        return _category(given)
    return _outcome(given) if kind == "outcome" else _number(given, kind)


class _Given:
    """The keys of one entry, each asked for by its type."""

    def __init__(self, name: str, entry: Mapping[str, Any]) -> None:
        self.name, self.entry = name, entry

    def __contains__(self, key: str) -> bool:
        return key in self.entry

    def text(self, key: str) -> str:
        return str(self._typed(key, (str,), "text in quotes")) if key in self.entry else ""

    def number(self, key: str) -> float:
        try:
            return float(self._typed(key, (int, float), "a number")) + 0.0  # -0.0 is 0.0
        except OverflowError:
            raise fault(self.name, key, f"{key} must be a finite number") from None

    def levels(self) -> tuple[Any, ...]:
        return tuple(self._typed("levels", (list,), 'a list such as ["no", "yes"]'))

    def missing(self) -> Any:
        """The substitute for a missing value, or None for the rule "drop"."""
        value = self.entry.get("missing", "drop")
        levels = self.entry.get("levels")
        if value == "drop" and isinstance(levels, list) and "drop" in levels:
            raise fault(
                self.name, "missing", "'drop' is a level and the name of a rule: rename the level"
            )
        return None if value == "drop" else value

    def _typed(self, key: str, kinds: tuple[type, ...], words: str) -> Any:
        if key not in self.entry:
            raise fault(self.name, key, f"{key} is missing: {_REMEDIES[key]}")
        if type(self.entry[key]) not in kinds:
            raise fault(self.name, key, f"{key} must be {words}, not {short(self.entry[key])}")
        return self.entry[key]


def _number(given: _Given, kind: str) -> Number:
    optional: dict[str, Any] = {
        key: given.number(key) for key in ("centre", "scale") if key in given
    }
    if given.missing() is not None:
        if kind == "boolean" and not isinstance(given.missing(), bool):
            raise fault(given.name, "missing", "missing must be true, false or left out")
        optional["missing"] = (
            float(given.missing()) if kind == "boolean" else given.number("missing")
        )
    if "levels" in given:
        optional["levels"] = given.levels()
        optional["reference"] = given.entry.get("reference", next(iter(optional["levels"]), None))
    elif "reference" in given:
        raise fault(given.name, "reference", "reference goes with levels: add levels or drop it")
    low, high = (0.0, 1.0) if kind == "boolean" else (given.number("low"), given.number("high"))
    return Number(
        given.name, low, high, **_words(given), kind=kind, unit=given.text("unit"), **optional
    )


def _category(given: _Given) -> Category:
    levels = given.levels()
    reference = given.entry.get("reference", levels[0] if levels else "")
    return Category(given.name, levels, reference, **_words(given), missing=given.missing())


def _outcome(given: _Given) -> Outcome:
    if given.missing() is not None:
        raise fault(
            given.name,
            "missing",
            "an outcome has no substitute: a row without one counts as the zero row",
        )
    bounds: dict[str, Any] = {key: given.number(key) for key in ("low", "high") if key in given}
    if not bounds and "levels" not in given:
        raise fault(
            given.name,
            "",
            "levels is missing: list two public levels, or add low and high of a number",
        )
    levels = given.levels() if "levels" in given else ()
    return Outcome(given.name, levels, **_words(given), **bounds, unit=given.text("unit"))


def _words(given: _Given) -> dict[str, Any]:
    return {key: given.text(key) for key in ("description", "source", "learned")}


def entry_of(column: Column) -> dict[str, Any]:
    """The inverse of `column_of`: what is at its default is left out."""
    kind = column.kind if isinstance(column, Number) else type(column).__name__.lower()
    entry: dict[str, Any] = {"type": kind}
    for key in _ORDER:
        value = getattr(column, key, None)
        absent = (
            value is None
            or value == ()
            or (value == "" and key in ("unit", "description", "source", "learned"))
        )
        if key in _KEYS[kind] and not absent:
            entry[key] = _plain(value, key, kind)
    return entry


def _plain(value: Any, key: str, kind: str) -> Any:
    """As TOML writes it: whole numbers for an integer, true and false for a boolean."""
    if key in ("low", "high", "centre", "scale") or (key == "missing" and kind != "category"):
        whole = kind == "integer" and key not in ("centre", "scale")
        return bool(value) if kind == "boolean" else int(value) if whole else float(value) + 0.0
    return list(value) if isinstance(value, tuple) else value
