"""A schema with gaps: a draft in which bounds or levels are still to be found; read, and written with what was found.

A gap is a key ``low``, ``high`` or ``levels`` that is "?" or absent where the type of the column asks for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpinfer.data.columns import TODO, Column, Number, column_of, fault, near
from dpinfer.data.schema import Schema, entries, head_of
from dpinfer.data.toml import dump, located
from dpinfer.data.unit import Unit
from dpinfer.errors import InputError

TYPES = ("number", "integer", "category", "outcome")
"""Of columns that have something to learn; an outcome of which nothing is known has two levels."""
_RANGE, _LEVELS = ("low", "high"), ("levels",)


@dataclass(frozen=True)
class Gap:
    """A column of a draft: its name and type, with placeholders for the ``keys`` that are not known."""

    column: Column
    keys: tuple[str, ...]

    @property
    def levels(self) -> bool:
        """Whether its levels are not known; otherwise it is its range."""
        return self.keys == _LEVELS

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers."""
        return isinstance(self.column, Number) and self.column.kind == "integer"


@dataclass(frozen=True)
class Draft:
    """The document of a schema, whom it protects, and its columns with gaps."""

    document: Mapping[str, Any]
    whom: Unit
    gaps: Mapping[str, Gap]

    @classmethod
    def of(cls, schema: Schema | str | Path | None, table: Any, unit: str) -> "Draft":
        """Of a schema, of TOML text, of a file, or where there is none of the names and types of a table.

        A text that ends in .toml is the name of a file.  ``unit`` is what a row of a table without a schema stands for.
        """
        if isinstance(schema, Schema):
            return cls._of(schema.document())
        if isinstance(schema, Path) or (isinstance(schema, str) and schema.endswith(".toml")):
            return _read(Path(schema))
        if isinstance(schema, str):
            return located(schema, "", cls._of)
        if schema is not None:
            raise InputError(f"schema= takes a Schema, its text or the path of its file, not {type(schema).__name__}")
        return located(Schema.draft(table), "", lambda document: cls._of(document | {"unit": unit}))

    @classmethod
    def _of(cls, document: dict[str, Any]) -> "Draft":
        _, whom = head_of(document)
        gaps = {name: _gap(name, entry) for name, entry in entries(document).items()}
        return cls(document, whom, {name: gap for name, gap in gaps.items() if gap is not None})

    def asked(self, columns: Mapping[str, str], kinds: Mapping[str, str], *, alone: bool) -> "Draft":
        """The same with gaps in the given columns alone; a column that is complete is learnt anew.

        ``columns`` has a name and a type, or an empty text where the draft or ``kinds``, the types of the table, know
        it.  With ``alone`` other columns are left out, unless they have nothing to learn.
        """
        own = {column.name for column in self.whom.columns}
        there = entries(dict(self.document))
        if alone:
            there = {name: entry for name, entry in there.items() if entry["type"] == "boolean"}
        for name, kind in columns.items():
            if name in own:
                raise InputError(f"column {name!r} holds the ids or the weights: it has no bounds to learn")
            if name not in there and name not in kinds:
                raise InputError(f"the table has no column {name!r}: {near(name, kinds)}")
            there[name] = _opened(name, there.get(name, {"type": kinds.get(name) or TODO}), kind)
        made = Draft._of(dict(self.document) | {"columns": there})
        for name in columns:
            if name not in made.gaps:
                raise InputError(f"column {name!r} is a boolean, which has no bounds to learn: leave it out")
        return Draft(made.document, made.whom, {name: made.gaps[name] for name in columns})

    def filled(self, found: Mapping[str, Mapping[str, Any]], learned: str, remarks: Mapping[str, str]) -> str:
        """The text of the schema with what was found for its gaps, each column with the name of the release."""
        columns = dict(entries(dict(self.document)))
        for name, gap in self.gaps.items():
            entry = {key: value for key, value in columns[name].items() if key != "learned"}
            columns[name] = entry | {key: found.get(name, {}).get(key, TODO) for key in gap.keys}
            if name in found:
                columns[name]["learned"] = learned
        return dump(dict(self.document) | {"columns": columns}, remarks)


def _read(path: Path) -> Draft:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(
            f"the schema {str(path)!r} cannot be read ({type(error).__name__}): check the path; `dpinfer schema init "
            "TABLE` writes a first one"
        ) from None
    return located(text, path.name, Draft._of)


def _gap(name: str, entry: Any) -> Gap | None:
    """The column of an entry with gaps; None where there is none, or no type yet."""
    if isinstance(entry, dict) and entry.get("type") == TODO:
        if not all(isinstance(value, str | int | float) for value in entry.values()):
            raise fault(name, "type", "type is not filled in: do that first")
        return None
    keys = _unknown(entry) if isinstance(entry, dict) else ()
    if not keys:
        column_of(name, entry)
        return None
    given = {key: value for key, value in entry.items() if key not in keys}
    return Gap(column_of(name, given | (_any_levels(given) if keys == _LEVELS else _any_range(given))), keys)


def _unknown(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a gap."""
    kind, open_ = entry.get("type"), {key for key in (*_RANGE, *_LEVELS) if entry.get(key, TODO) == TODO}
    if kind == "category" or (kind == "outcome" and entry.get("levels") == TODO):
        return tuple(key for key in _LEVELS if key in open_)
    if kind in ("number", "integer") or (kind == "outcome" and any(key in entry for key in _RANGE)):
        return tuple(key for key in _RANGE if key in open_)
    return ()


def _any_range(given: Mapping[str, Any]) -> dict[str, Any]:
    """A range that agrees with what is given, so that the rest of an entry can be checked."""
    known = [given[key] for key in (*_RANGE, "missing") if type(given.get(key)) in (int, float)] or [0]
    return {"low": given.get("low", min(known) - 1), "high": given.get("high", max(known) + 1)}


def _any_levels(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"levels": [*known_levels(given), "some level", "another level"]}


def known_levels(entry: Mapping[str, Any]) -> list[str]:
    """The levels that an entry names beside its list: they are public, whatever is found."""
    named = [entry.get("missing", "drop"), entry.get("reference", "drop")]
    return sorted({level for level in named if isinstance(level, str) and level != "drop"})


def _opened(name: str, entry: Any, kind: str) -> Any:
    """An entry with a type and gaps: those it has or, where it has none, all."""
    if not isinstance(entry, dict):
        return entry
    if kind and entry.get("type") not in (TODO, kind):
        raise InputError(f"column {name!r} has a type already: leave out the one in --columns, or correct the schema")
    if (kind or entry.get("type")) == TODO:
        raise InputError(f"column {name!r} has no type yet: write {name}:TYPE, TYPE one of {', '.join(TYPES)}")
    opened = entry | ({"type": kind} if kind else {})
    if kind == "outcome" and not any(key in entry for key in (*_RANGE, *_LEVELS)):
        opened |= {"levels": TODO}
    if _unknown(opened) or opened["type"] == "boolean":
        return opened
    return {key: TODO if key in (*_RANGE, *_LEVELS) else value for key, value in opened.items() if key != "learned"}


def named(columns: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Columns with their types, from "name" and "name:type", or from a mapping."""
    if columns is None or isinstance(columns, Mapping):
        pairs = dict(columns or {})
    else:
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
            raise InputError("columns= takes a list of names, or a dict of names and types")
        pairs = {}
        for column in columns:
            name, _, kind = column.rpartition(":") if column.rpartition(":")[2] in TYPES else (column, "", "")
            pairs[name] = kind
    for name, kind in pairs.items():
        if kind not in ("", *TYPES):
            raise InputError(f"column {name!r}: there is no type {kind!r} to learn: it is one of {', '.join(TYPES)}")
    return pairs
