"""Entries of a schema file to columns and back.  A fault names the column and the key."""

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

from dpinfer.data.columns import BOUND, Category, Column, Number, Outcome, fault, near

TODO = "?"
"""What a draft holds where a person has to decide."""

_WORDS = {"type", "description", "source", "missing"}
_KEYS = {
    "number": {"low", "high", "unit", "centre", "scale"} | _WORDS,
    "integer": {"low", "high", "unit", "centre", "scale", "levels", "reference"} | _WORDS,
    "boolean": _WORDS,
    "category": {"levels", "reference"} | _WORDS,
    "outcome": {"levels", "low", "high", "unit"} | _WORDS,
}
_REMEDIES = BOUND | {
    "levels": "list the public levels",
    "type": f"write one of {', '.join(_KEYS)}",
}


def column_of(name: str, entry: Any) -> Column:
    """The column that an entry ``[columns.NAME]`` declares."""
    if not name or not isinstance(entry, dict):
        raise fault(name, "", "a column is a table with a name: write [columns.NAME] and its keys below")
    for key, value in entry.items():
        if value == TODO and key in _REMEDIES:
            raise fault(name, key, f"{key} is not filled in: {_REMEDIES[key]}")
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _KEYS:
        wrong = "type is missing" if kind is None else f"there is no type {short(kind)}"
        raise fault(name, "type", f"{wrong}: {_REMEDIES['type']}")
    for key in entry:
        if key not in _KEYS[kind]:
            raise fault(name, key, f"type {kind!r} has no key {short(key)}: {near(key, _KEYS[kind])}")
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
            raise fault(self.name, "missing", "'drop' is a level and the name of a rule: rename the level")
        return None if value == "drop" else value

    def _typed(self, key: str, kinds: tuple[type, ...], words: str) -> Any:
        if key not in self.entry:
            raise fault(self.name, key, f"{key} is missing: {_REMEDIES[key]}")
        if type(self.entry[key]) not in kinds:
            raise fault(self.name, key, f"{key} must be {words}, not {short(self.entry[key])}")
        return self.entry[key]


def _number(given: _Given, kind: str) -> Number:
    optional: dict[str, Any] = {key: given.number(key) for key in ("centre", "scale") if key in given}
    if given.missing() is not None:
        if kind == "boolean" and not isinstance(given.missing(), bool):
            raise fault(given.name, "missing", "missing must be true, false or left out")
        optional["missing"] = float(given.missing()) if kind == "boolean" else given.number("missing")
    if "levels" in given:
        optional["levels"] = given.levels()
        optional["reference"] = given.entry.get("reference", next(iter(optional["levels"]), None))
    elif "reference" in given:
        raise fault(given.name, "reference", "reference goes with levels: add levels or drop it")
    low, high = (0.0, 1.0) if kind == "boolean" else (given.number("low"), given.number("high"))
    return Number(given.name, low, high, **_words(given), kind=kind, unit=given.text("unit"), **optional)


def _category(given: _Given) -> Category:
    levels = given.levels()
    reference = given.entry.get("reference", levels[0] if levels else "")
    return Category(given.name, levels, reference, **_words(given), missing=given.missing())


def _outcome(given: _Given) -> Outcome:
    if given.missing() is not None:
        raise fault(given.name, "missing", "an outcome has no substitute: a row without one counts as the zero row")
    bounds: dict[str, Any] = {key: given.number(key) for key in ("low", "high") if key in given}
    if not bounds and "levels" not in given:
        raise fault(
            given.name, "", "levels is missing: list two public levels, or add low and high of a numeric outcome"
        )
    levels = given.levels() if "levels" in given else ()
    return Outcome(given.name, levels, **_words(given), **bounds, unit=given.text("unit"))


def _words(given: _Given) -> dict[str, Any]:
    return {"description": given.text("description"), "source": given.text("source")}


def entry_of(column: Column) -> dict[str, Any]:
    """The inverse of `column_of`: what is at its default is left out."""
    kind = column.kind if isinstance(column, Number) else type(column).__name__.lower()
    entry: dict[str, Any] = {"type": kind}
    for key in ("low", "high", "unit", "centre", "scale", "levels", "reference", "missing", "description", "source"):
        value = getattr(column, key, None)
        absent = value is None or value == () or (value == "" and key in ("unit", "description", "source"))
        if key in _KEYS[kind] and not absent:
            entry[key] = _plain(value, key, kind)
    return entry


def _plain(value: Any, key: str, kind: str) -> Any:
    """As TOML writes it: whole numbers for an integer, true and false for a boolean."""
    if key in ("low", "high", "centre", "scale") or (key == "missing" and kind != "category"):
        whole = kind == "integer" and key not in ("centre", "scale")
        return bool(value) if kind == "boolean" else int(value) if whole else float(value) + 0.0
    return list(value) if isinstance(value, tuple) else value
