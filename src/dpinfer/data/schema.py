"""What is public about a table, hand-written in TOML: columns, bounds, levels, the unit of privacy.

    title = "Visits to a doctor"
    unit = "one person"

    [columns.age]
    type = "number"            # or "integer", "boolean", "category", "outcome"
    low = 0
    high = 120

Nothing here is ever taken from the data.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as short
from typing import Any

from dpinfer import disk
from dpinfer.data.columns import TODO, Column, SchemaError, column_of, entry_of, near
from dpinfer.data.unit import ROW, Unit, entries_of, unit_of
from dpinfer.errors import InputError


def _read_toml(text: str) -> dict[str, Any]:
    """The document; an `InputError` that names the line if it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("the schema is not valid TOML: it is nested too deeply") from None
    except ValueError as fault:
        raise InputError(f"the schema is not valid TOML: {fault}") from None


def _line_of(text: str, path: tuple[str, ...]) -> int:
    """The line on which the longest known beginning of ``path`` stands, counted from 1; 0 if there is none.

    ``text`` is valid TOML.
    """
    lines: dict[tuple[str, ...], int] = {}
    for key, line in _places(text.replace("\r\n", "\n").split("\n")):
        lines.setdefault(key, line)
    starts = [path[:k] for k in range(len(path), 0, -1) if path[:k] in lines]
    return lines[starts[0]] if starts else 0


def _places(lines: list[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every key with its line.  A statement is the shortest run of lines that is TOML on its own."""
    table: tuple[str, ...] = ()
    start = 0
    while start < len(lines):
        statement, stop = _statement(lines, start)
        keys = list(_keys(statement))
        if keys and lines[start].lstrip().startswith("["):
            table = max(keys, key=len)
            yield from ((key, start + 1) for key in keys)
        else:
            yield from ((table + key, start + 1) for key in keys)
        start = stop


def _statement(lines: list[str], start: int) -> tuple[dict[str, Any], int]:
    for stop in range(start + 1, len(lines) + 1):
        try:
            return tomllib.loads("\n".join(lines[start:stop])), stop
        except (ValueError, RecursionError):
            continue
    return {}, len(lines)


def _keys(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in document.items():
        yield (key,)
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict):
            yield from ((key, *rest) for rest in _keys(inner))


def _dump(document: Mapping[str, Any]) -> str:
    """Plain keys first, then the tables ``[unit]`` and ``[weights]``, then one ``[columns.NAME]`` a column."""
    lines = [f"{key} = {_value(value)}" for key, value in document.items() if not isinstance(value, dict)]
    tables = {key: value for key, value in document.items() if isinstance(value, dict) and key != "columns"}
    tables |= {f"columns.{_key_text(name)}": entry for name, entry in document["columns"].items()}
    for name, entry in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def _key_text(name: str) -> str:
    """A key, in quotes where TOML asks for them."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # the escapes of JSON are escapes of TOML, which wants one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


_FACTS = ("title", "source")
_KNOWN = ("title", "unit", "source", "weights", "columns")


_HEAD = f"""\
# A draft from the names and types of the columns; no value was read.  Replace every "{TODO}" by something that is known
# without the table: a rule, a code book, the answers of a questionnaire.  A bound or a level taken from the table would
# leak what single records hold.  Delete the columns that no formula needs.  Two classes to be explained need
# type = "outcome" and two levels, the second one the positive one; a number to be explained stays a number.

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
_LEVELS = f'levels = "{TODO}"  # the public list, such as ["no", "yes"]: other values count as missing'
_TYPE = f'type = "{TODO}"  # number, integer, boolean, category or outcome: the table does not tell'
_LINES = {
    "number": ['type = "number"', _LOW, _HIGH],
    "integer": ['type = "integer"', _LOW, _HIGH],
    "boolean": ['type = "boolean"'],
    "category": ['type = "category"', _LEVELS],
    "": [_TYPE],
}


@dataclass(frozen=True)
class Schema:
    """The public side of a table: its ``columns`` by name, the ``unit`` of privacy, a ``title`` and a ``source``.

    ``whom`` says which rows are one unit and what a row counts; its name is the ``unit``.
    """

    columns: Mapping[str, Column]
    unit: str = ROW.name
    title: str = ""
    source: str = ""
    whom: Unit = ROW

    def __post_init__(self) -> None:
        object.__setattr__(self, "whom", replace(self.whom, name=self.unit))
        if not self.columns:
            raise _fault("columns", "the schema has no columns: write a table [columns.NAME] for each")
        for name, column in self.columns.items():
            if name != column.name:
                raise InputError(f"the schema lists a column {column.name!r} under {name!r}: use one name")

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read the TOML file at ``path``.  Errors name the file and the line."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be read ({type(fault).__name__}): check the path; "
                "`Schema.draft(table)` writes a first one"
            ) from None
        return cls._parse(text, Path(path).name)

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Read TOML text.  Errors name the line."""
        if not isinstance(text, str):
            raise InputError(f"Schema.parse takes TOML text, not {type(text).__name__}; Schema.read takes a path")
        return cls._parse(text, "")

    @classmethod
    def _parse(cls, text: str, file: str) -> "Schema":
        try:
            document = _read_toml(text)
        except InputError as fault:
            raise InputError(f"{file}: {fault}" if file else str(fault)) from None
        try:
            facts = _facts(document)
            whom = unit_of(document.get("unit", ROW.name), document.get("weights"))
            return cls(_columns(document), whom.name, **facts, whom=whom)
        except SchemaError as fault:
            message, path = str(fault), fault.path
        line = _line_of(text, path)
        places = [place for place in (file, f"line {line}" if line else "") if place]
        raise InputError(f"{', '.join(places)}: {message}" if places else message)

    @classmethod
    def draft(cls, table: Any) -> str:
        """The text of a first schema, from the names and types of the columns of a table or file.

        Guarantee [drafts_read_no_values]: the text depends on names and types alone, and is no valid schema until a
        person has filled in what is public.
        """
        from dpinfer.data.kinds import kinds  # noqa: PLC0415  (loads the readers of tables)

        blocks = ["\n".join([f"[columns.{_key_text(name)}]", *_LINES[kind]]) for name, kind in kinds(table)]
        return "\n".join([_HEAD, *(block + "\n" for block in blocks)])

    def write(self, path: str | Path) -> None:
        """Write a TOML file at ``path`` that reads back as an equal schema; a reader never sees half of it."""
        try:
            disk.write(Path(path), _dump(self._document()).encode())
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(fault).__name__}): check the folder and its rights"
            ) from None

    def digest(self) -> str:
        """SHA-256 of the content as hex digits: equal schemas have the same, in whatever order they are written."""
        canonical = json.dumps(self._document(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _document(self) -> dict[str, Any]:
        facts = {key: getattr(self, key) for key in _FACTS if getattr(self, key)}
        columns = {name: entry_of(column) for name, column in self.columns.items()}
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


def _facts(document: dict[str, Any]) -> dict[str, str]:
    for key, value in document.items():
        if key not in _KNOWN:
            raise _fault(key, f"the schema has no key {short(key)}: {near(key, _KNOWN)}")
        if value == TODO:
            raise _fault(key, f"{key} is not filled in: say what one row stands for, such as 'one person'")
        if key in _FACTS and not isinstance(value, str):
            raise _fault(key, f"{key} must be text in quotes, not {short(value)}")
    return {key: document[key] for key in _FACTS if key in document}


def _columns(document: dict[str, Any]) -> dict[str, Column]:
    columns = document.get("columns", {})
    if not isinstance(columns, dict):
        raise _fault("columns", "columns is a table: write [columns.NAME] for each column")
    return {name: column_of(name, entry) for name, entry in columns.items()}
