"""What is public about a table, hand-written in TOML: columns, bounds, levels, the unit of privacy.

    title = "Visits to a doctor"
    unit = "one person"

    [columns.age]
    type = "number"            # or "integer", "boolean", "category", "outcome"
    low = 0
    high = 120
    typical = { mean = 40, sd = 20 }   # a public guess, for forecasts only

Nothing here is ever taken from the data.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as short
from typing import Any

from dpinfer import disk
from dpinfer.data.columns import TODO, Column, SchemaError, column_of, entry_of, near
from dpinfer.data.toml import dump, key_text, located
from dpinfer.data.typical import Typical, typical_entry, typical_of
from dpinfer.data.unit import ROW, Unit, entries_of, unit_of
from dpinfer.errors import InputError

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
_LEVELS = f'levels = "{TODO}"  # the public list, such as ["no", "yes"]: other values count as missing'
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
    """The public side of a table: its ``columns`` by name, the ``unit`` of privacy, a ``title`` and a ``source``.

    ``whom`` says which rows are one unit and what a row counts; its name is the ``unit``.  ``typical`` holds public
    guesses of what columns are like, for forecasts.
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
                "`dpinfer schema init TABLE` or Schema.draft(table) writes a first one"
            ) from None
        return cls._of_text(text, Path(path).name)

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Read TOML text.  Errors name the line."""
        if not isinstance(text, str):
            raise InputError(f"Schema.parse takes TOML text, not {type(text).__name__}; Schema.read takes a path")
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

        Guarantee [drafts_read_no_values]: the text depends on names and types alone, and is no valid schema until a
        person has filled in what is public.
        """
        from dpinfer.data.kinds import kinds  # noqa: PLC0415  (loads the readers of tables)

        blocks = ["\n".join([f"[columns.{key_text(name)}]", *_LINES[kind]]) for name, kind in kinds(table)]
        return "\n".join([_HEAD, *(block + "\n" for block in blocks)])

    def write(self, path: str | Path) -> None:
        """Write a TOML file at ``path`` that reads back as an equal schema; a reader never sees half of it."""
        try:
            disk.write(Path(path), dump(self.document()).encode())
        except (OSError, ValueError) as fault:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(fault).__name__}): check the folder and its rights"
            ) from None

    def digest(self) -> str:
        """SHA-256 of the content as hex digits: equal schemas have the same, in whatever order they are written.

        What is ``typical`` does not count: a guess changes no release.
        """
        canonical = json.dumps(replace(self, typical={}).document(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def guess(self, typical: Mapping[str, Any]) -> "Schema":
        """The same schema with public guesses for forecasts, beside those it has.

        ``typical`` has an entry a column, as in a file: ``{"age": {"mean": 40, "sd": 15}, "sex": {"f": 0.5}}``.
        """
        new = _typical({name: self[name] for name in typical}, {name: {"typical": typical[name]} for name in typical})
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
            raise _fault(key, f"{key} is not filled in: say what one row stands for, such as 'one person'")
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
