"""What is public about a table, hand-written in TOML: columns, bounds, levels, the unit of privacy.

    title = "Visits to a doctor"
    unit = "one person"

    [columns.age]
    type = "number"            # or "integer", "boolean", "category", "outcome"
    low = 0
    high = 120
    typical = { mean = 40, sd = 20 }   # a public guess, for forecasts only

Nothing here is ever taken from the data.

A schema with gaps: a draft in which bounds or levels are still to be found; read, and written with
what was found.

A gap is a key ``low``, ``high`` or ``levels`` that is "?" or absent where the type of the column
asks for it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as short
from typing import Any

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.schema.columns import (
    TODO,
    Column,
    Number,
    SchemaError,
    column_of,
    entry_of,
    fault,
    near,
)
from dpinfer.schema.guesses import Typical, typical_entry, typical_of
from dpinfer.schema.toml import dump, key_text, located
from dpinfer.schema.unit import ROW, Unit, entries_of, unit_of

_FACTS = ("title", "source")
_KNOWN = ("title", "unit", "source", "weights", "columns")


READ_NOTHING = "from the names and types of the columns; no value was read"
"""What a draft says of itself."""

_HEAD = f"""\
# A draft {READ_NOTHING}.  Replace every "{TODO}" by something that is known
# without the table: a rule, a code book, a questionnaire; what nobody knows, `dpinfer schema learn` learns privately.
# A bound or a level taken from the table would leak what records hold.  Delete the columns that no formula needs.  Two
# classes to be explained need type = "outcome" and two levels, the second one positive; a number stays a number.

unit = "{TODO}"  # what one row stands for and is protected: "one person", "one visit"

# Where a person has several rows, say so instead, and all rows with one id are protected together:
#
#   [unit]
#   name = "one person"
#   column = "person_id"   # the ids; they stand in no formula
#   rows = "average"       # every person counts alike; or a number c: rows count alike up to c a person
#
# Sampling weights: [weights] with column = "weight" and most = 5.0, a public bound of a unit's total weight.
"""
_LOW = f'low = "{TODO}"  # a public lower bound: smaller values are clipped'
_HIGH = f'high = "{TODO}"  # a public upper bound: larger values are clipped'
_LEVELS = (
    f'levels = "{TODO}"  # the public list, such as ["no", "yes"]: other values count as missing'
)
_TYPE = f'type = "{TODO}"  # number, integer, boolean, category or outcome: the table does not tell'
_STUBS = [
    "# low =     # of a number or an integer: a public lower bound",
    "# high =    # of a number or an integer: a public upper bound",
    '# levels =  # of a category or an outcome of two classes: the public list, such as ["no", "yes"]',
]
_LINES = {
    "number": ['type = "number"', _LOW, _HIGH],
    "integer": ['type = "integer"', _LOW, _HIGH],
    "boolean": ['type = "boolean"'],
    "category": ['type = "category"', _LEVELS],
    "": [_TYPE, *_STUBS],
}


@dataclass(frozen=True)
class Schema:
    """The public side of a table: its ``columns`` by name, the ``unit`` of privacy, a ``title`` and
    a ``source``.

    ``whom`` says which rows are one unit and what a row counts; its name is the ``unit``.
    ``typical`` holds public guesses of what columns are like, for forecasts.
    """

    columns: Mapping[str, Column]
    unit: str = ROW.name
    title: str = ""
    source: str = ""
    whom: Unit = ROW
    typical: Mapping[str, Typical] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "whom", replace(self.whom, name=self.unit))
        if not self.columns:
            raise _fault(
                "columns", "the schema has no columns: write a table [columns.NAME] for each"
            )
        for name, column in self.columns.items():
            if name != column.name:
                raise InputError(
                    f"the schema lists a column {column.name!r} under {name!r}: use one name"
                )

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read the TOML file at ``path``.  Errors name the file and the line."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be read ({type(fault).__name__}): check the path; "
                "`dpinfer schema init TABLE` or Schema.draft(table) writes a first one"
            ) from None
        return cls._of_text(text, Path(path).name)

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Read TOML text.  Errors name the line."""
        if not isinstance(text, str):
            raise InputError(
                f"Schema.parse takes TOML text, not {type(text).__name__}; Schema.read takes a path"
            )
        return cls._of_text(text, "")

    @classmethod
    def _of_text(cls, text: str, file: str) -> "Schema":
        def schema(document: dict[str, Any]) -> Schema:
            (facts, whom), given = head_of(document), entries(document)
            found = {name: column_of(name, entry) for name, entry in given.items()}
            return cls(found, whom.name, **facts, whom=whom, typical=_typical(found, given))

        return located(text, file, schema)

    @classmethod
    def draft(cls, table: Any) -> str:
        """The text of a first schema, from the names and types of the columns of a table or file.

        Guarantee [drafts_read_no_values]: the text depends on names and types alone, and is no
        valid schema until a person has filled in what is public.
        """
        from dpinfer.tables.table import table_of  # noqa: PLC0415  (loads the readers of tables)

        blocks = [
            "\n".join([f"[columns.{key_text(name)}]", *_LINES[kind]])
            for name, kind in table_of(table).types()
        ]
        return "\n".join([_HEAD, *(block + "\n" for block in blocks)])

    def write(self, path: str | Path) -> None:
        """Write a TOML file at ``path`` that reads back as an equal schema; a reader never sees
        half of it.
        """
        try:
            persistence.write(Path(path), dump(self.document()).encode())
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(fault).__name__}): check the folder and its rights"
            ) from None

    def digest(self) -> str:
        """SHA-256 of the content as hex digits: equal schemas have the same, in whatever order they
        are written.

        What is ``typical`` does not count: a guess changes no release.
        """
        canonical = json.dumps(
            replace(self, typical={}).document(), sort_keys=True, ensure_ascii=True
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    def guess(self, typical: Mapping[str, Any]) -> "Schema":
        """The same schema with public guesses for forecasts, beside those it has.

        ``typical`` has an entry a column, as in a file: ``{"age": {"mean": 40, "sd": 15}, "sex":
        {"f": 0.5}}``.
        """
        new = _typical(
            {name: self[name] for name in typical},
            {name: {"typical": typical[name]} for name in typical},
        )
        return replace(self, typical={**self.typical, **new})

    def document(self) -> dict[str, Any]:
        """The content as TOML has it: what `write` writes."""
        facts = {key: getattr(self, key) for key in _FACTS if getattr(self, key)}
        columns = {name: entry_of(column) for name, column in self.columns.items()}
        for name, guess in self.typical.items():
            columns[name]["typical"] = typical_entry(self[name], guess)
        return facts | entries_of(self.whom) | {"columns": columns}

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise InputError(f"the schema has no column {name!r}: {near(name, self.columns)}")
        return self.columns[name]


def _fault(key: str, message: str) -> SchemaError:
    """An error of a key outside the columns."""
    error = SchemaError(message)
    error.path = (key,)
    return error


def head_of(document: dict[str, Any]) -> tuple[dict[str, str], Unit]:
    """What stands outside of the columns: title and source, and the unit."""
    for key, value in document.items():
        if key not in _KNOWN:
            raise _fault(key, f"the schema has no key {short(key)}: {near(key, _KNOWN)}")
        if value == TODO:
            raise _fault(
                key, f"{key} is not filled in: say what one row stands for, such as 'one person'"
            )
        if key in _FACTS and not isinstance(value, str):
            raise _fault(key, f"{key} must be text in quotes, not {short(value)}")
    facts = {key: document[key] for key in _FACTS if key in document}
    return facts, unit_of(document.get("unit", ROW.name), document.get("weights"))


def entries(document: dict[str, Any]) -> dict[str, Any]:
    """The entries of the columns, by name."""
    columns = document.get("columns", {})
    if not isinstance(columns, dict):
        raise _fault("columns", "columns is a table: write [columns.NAME] for each column")
    return dict(columns)


def _typical(columns: Mapping[str, Column], entries: Mapping[str, Any]) -> dict[str, Typical]:
    given = {name: entry["typical"] for name, entry in entries.items() if "typical" in entry}
    return {name: typical_of(columns[name], guess) for name, guess in given.items()}


TYPES = ("number", "integer", "category", "outcome")
"""Of columns that have something to learn; an outcome of which nothing is known has two levels."""
_RANGE, _LEVEL_KEYS = ("low", "high"), ("levels",)


@dataclass(frozen=True)
class Gap:
    """A column of a draft: its name and type, with placeholders for the ``keys`` that are not
    known.
    """

    column: Column
    keys: tuple[str, ...]

    @property
    def levels(self) -> bool:
        """Whether its levels are not known; otherwise it is its range."""
        return self.keys == _LEVEL_KEYS

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
        """Of a schema, of TOML text, of a file, or where there is none of the names and types of a
        table.

        A text that ends in .toml is the name of a file.  ``unit`` is what a row of a table without
        a schema stands for.
        """
        if isinstance(schema, Schema):
            return cls._of(schema.document())
        if isinstance(schema, Path) or (isinstance(schema, str) and schema.endswith(".toml")):
            return _read(Path(schema))
        if isinstance(schema, str):
            return located(schema, "", cls._of)
        if schema is not None:
            raise InputError(
                f"schema= takes a Schema, its text or the path of its file, not {type(schema).__name__}"
            )
        return located(Schema.draft(table), "", lambda document: cls._of(document | {"unit": unit}))

    @classmethod
    def _of(cls, document: dict[str, Any]) -> "Draft":
        _, whom = head_of(document)
        gaps = {name: _gap(name, entry) for name, entry in entries(document).items()}
        return cls(document, whom, {name: gap for name, gap in gaps.items() if gap is not None})

    def asked(
        self, columns: Mapping[str, str], kinds: Mapping[str, str], *, alone: bool
    ) -> "Draft":
        """The same with gaps in the given columns alone; a column that is complete is learnt anew.

        ``columns`` has a name and a type, or an empty text where the draft or ``kinds``, the types
        of the table, know it.  With ``alone`` other columns are left out, unless they have nothing
        to learn.
        """
        own = {column.name for column in self.whom.columns}
        there = entries(dict(self.document))
        if alone:
            there = {name: entry for name, entry in there.items() if entry["type"] == "boolean"}
        for name, kind in columns.items():
            if name in own:
                raise InputError(
                    f"column {name!r} holds the ids or the weights: it has no bounds to learn"
                )
            if name not in there and name not in kinds:
                raise InputError(f"the table has no column {name!r}: {near(name, kinds)}")
            there[name] = _opened(name, there.get(name, {"type": kinds.get(name) or TODO}), kind)
        made = Draft._of(dict(self.document) | {"columns": there})
        for name in columns:
            if name not in made.gaps:
                raise InputError(
                    f"column {name!r} is a boolean, which has no bounds to learn: leave it out"
                )
        return Draft(made.document, made.whom, {name: made.gaps[name] for name in columns})

    def filled(
        self, found: Mapping[str, Mapping[str, Any]], learned: str, remarks: Mapping[str, str]
    ) -> str:
        """The text of the schema with what was found for its gaps, each column with the name of the
        release.
        """
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
    return Gap(
        column_of(name, given | (_any_levels(given) if keys == _LEVEL_KEYS else _any_range(given))),
        keys,
    )


def _unknown(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a gap."""
    kind, open_ = (
        entry.get("type"),
        {key for key in (*_RANGE, *_LEVEL_KEYS) if entry.get(key, TODO) == TODO},
    )
    if kind == "category" or (kind == "outcome" and entry.get("levels") == TODO):
        return tuple(key for key in _LEVEL_KEYS if key in open_)
    if kind in ("number", "integer") or (kind == "outcome" and any(key in entry for key in _RANGE)):
        return tuple(key for key in _RANGE if key in open_)
    return ()


def _any_range(given: Mapping[str, Any]) -> dict[str, Any]:
    """A range that agrees with what is given, so that the rest of an entry can be checked."""
    known = [
        given[key] for key in (*_RANGE, "missing") if type(given.get(key)) in (int, float)
    ] or [0]
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
        raise InputError(
            f"column {name!r} has a type already: leave out the one in --columns, or correct the schema"
        )
    if (kind or entry.get("type")) == TODO:
        raise InputError(
            f"column {name!r} has no type yet: write {name}:TYPE, TYPE one of {', '.join(TYPES)}"
        )
    opened = entry | ({"type": kind} if kind else {})
    if kind == "outcome" and not any(key in entry for key in (*_RANGE, *_LEVEL_KEYS)):
        opened |= {"levels": TODO}
    if _unknown(opened) or opened["type"] == "boolean":
        return opened
    return {
        key: TODO if key in (*_RANGE, *_LEVEL_KEYS) else value
        for key, value in opened.items()
        if key != "learned"
    }


def named(columns: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Columns with their types, from "name" and "name:type", or from a mapping."""
    if columns is None or isinstance(columns, Mapping):
        pairs = dict(columns or {})
    else:
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
            raise InputError("columns= takes a list of names, or a dict of names and types")
        pairs = {}
        for column in columns:
            name, _, kind = (
                column.rpartition(":") if column.rpartition(":")[2] in TYPES else (column, "", "")
            )
            pairs[name] = kind
    for name, kind in pairs.items():
        if kind not in ("", *TYPES):
            raise InputError(
                f"column {name!r}: there is no type {kind!r} to learn: it is one of {', '.join(TYPES)}"
            )
    return pairs
