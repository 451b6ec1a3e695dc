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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short
from typing import Any

from dpinfer.data import toml
from dpinfer.data.columns import Category, Column, Level, Number, Outcome, SchemaError, near
from dpinfer.data.entries import TODO, column_of, entry_of
from dpinfer.errors import InputError

__all__ = ["Category", "Column", "Level", "Number", "Outcome", "Schema"]

_FACTS = ("title", "unit", "source")


@dataclass(frozen=True)
class Schema:
    """The public side of a table."""

    columns: Mapping[str, Column]
    unit: str = "one record"
    title: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not self.columns:
            raise _fault("columns", "the schema has no columns: write a table [columns.NAME] for each")
        for name, column in self.columns.items():
            if name != column.name:
                raise InputError(f"the schema lists a column {column.name!r} under {name!r}: use one name")

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read a TOML file.  Errors name the file and the line."""
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
            document = toml.read(text)
        except InputError as fault:
            raise InputError(f"{file}: {fault}" if file else str(fault)) from None
        try:
            facts = _facts(document)
            return cls(_columns(document), **facts)
        except SchemaError as fault:
            message, path = str(fault), fault.path
        line = toml.line_of(text, path)
        places = [place for place in (file, f"line {line}" if line else "") if place]
        raise InputError(f"{', '.join(places)}: {message}" if places else message)

    @classmethod
    def draft(cls, table: Any) -> str:
        """The text of a first schema, from the names and types of the columns of a table or file.

        Guarantee [drafts_read_no_values]: the text depends on names and types alone, and is no valid schema until a
        person has filled in what is public.
        """
        from dpinfer.data.draft import draft  # noqa: PLC0415  (loads the readers of tables)

        return draft(table)

    def write(self, path: str | Path) -> None:
        """Write a TOML file that reads back as an equal schema; a reader never sees half of it."""
        try:
            toml.write_atomically(Path(path), toml.dump(self._document()).encode())
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(fault).__name__}): check the folder and its rights"
            ) from None

    def digest(self) -> str:
        """SHA-256 of the content as hex digits: equal schemas have the same, in whatever order they are written."""
        canonical = json.dumps(self._document(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def _document(self) -> dict[str, Any]:
        facts = {key: getattr(self, key) for key in _FACTS if getattr(self, key) or key == "unit"}
        return facts | {"columns": {name: entry_of(column) for name, column in self.columns.items()}}

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
    facts = {key: value for key, value in document.items() if key != "columns"}
    for key, value in facts.items():
        if key not in _FACTS:
            raise _fault(key, f"the schema has no key {short(key)}: {near(key, (*_FACTS, 'columns'))}")
        if value == TODO:
            raise _fault(key, f"{key} is not filled in: say what one row stands for, such as 'one person'")
        if not isinstance(value, str):
            raise _fault(key, f"{key} must be text in quotes, not {short(value)}")
    return facts


def _columns(document: dict[str, Any]) -> dict[str, Column]:
    columns = document.get("columns", {})
    if not isinstance(columns, dict):
        raise _fault("columns", "columns is a table: write [columns.NAME] for each column")
    return {name: column_of(name, entry) for name, entry in columns.items()}
