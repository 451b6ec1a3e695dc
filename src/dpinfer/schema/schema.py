"""The public description of a table, written in TOML: columns, bounds, levels, the unit of privacy.

    title = "Visits to a doctor"
    unit = "one person"

    [columns.age]
    type = "number"            # or "integer", "boolean", "category", "date", "outcome"
    low = 0
    high = 120
    typical = { mean = 40, sd = 20 }   # a public guess, for forecasts only

    [columns.senior]
    from = "age >= 65"         # stands in no table: it is derived from columns that do

Nothing here is ever taken from the data.

A `Draft` is a schema with gaps: keys ``low``, ``high`` or ``levels`` that are "?", or absent where
the type of the column asks for them.  A person fills them in, or `learn_bounds` does it privately.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as short
from typing import Any

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.schema import toml
from dpinfer.schema.columns import (
    MISSING_RULES,
    TODO,
    Column,
    Derived,
    Number,
    SchemaError,
    column_of,
    derived_entry,
    derived_of,
    did_you_mean,
    entry_of,
    fault,
    is_derived,
    require_different,
)
from dpinfer.schema.expressions import MAX_CHARACTERS, Names, names_in, require_readable
from dpinfer.schema.guesses import Typical, typical_entry, typical_of
from dpinfer.schema.terms import explained, plain_part
from dpinfer.schema.unit import ROW, Unit, constant_columns, entries_of, unit_of

_FACTS = ("title", "source")
_KEYS = ("title", "unit", "source", "weights", "columns")

READ_NOTHING = "from the names and types of the columns; no value was read"
"""The sentences at the head of a draft."""

TYPES = ("number", "integer", "category", "outcome")
"""Types of columns that have something to learn; an outcome of which nothing is known has two levels."""

_RANGE = ("low", "high")
_LEVELS = ("levels",)
_LEARNABLE = (*_RANGE, *_LEVELS)

_DELETE = "  Delete the columns that no formula needs."
_HEAD = f"""\
# A draft {READ_NOTHING}.  Replace every "{TODO}" by something that is known
# without the table: a rule, a code book, a questionnaire; what nobody knows, `dpinfer schema learn` learns privately.
# A bound or a level taken from the table would leak what records hold.{_DELETE}  Two
# classes to be explained need type = "outcome" and two levels, the second one positive; a number stays a number.

unit = "{TODO}"  # what one row stands for and is protected: "one person", "one visit"

# Where a person has several rows, say so instead, and all rows with one id are protected together:
#
#   [unit]
#   name = "one person"
#   column = "person_id"   # the ids; they stand in no formula
#   rows = "every"         # every row counts once, the default; or "average": every person counts alike
#
# Sampling weights: [weights] with column = "weight" and most = 5.0, a public bound of a unit's total weight.
"""
_DRAFT_LOW = f'low = "{TODO}"  # a public lower bound: smaller values are clipped'
_DRAFT_HIGH = f'high = "{TODO}"  # a public upper bound: larger values are clipped'
_DRAFT_ENTRIES = {
    "number": ['type = "number"', _DRAFT_LOW, _DRAFT_HIGH],
    "integer": ['type = "integer"', _DRAFT_LOW, _DRAFT_HIGH],
    "boolean": ['type = "boolean"'],
    "date": [
        'type = "date"',
        f'low = "{TODO}"  # a public first day, such as 2015-01-01: earlier dates are clipped',
        f'high = "{TODO}"  # a public last day: later dates are clipped',
    ],
    "category": [
        'type = "category"',
        f'levels = "{TODO}"  # the public list, such as ["no", "yes"]: other values count as missing',
    ],
    "": [
        f'type = "{TODO}"  # number, integer, boolean, category, date or outcome: the table does not tell',
        "# low =     # of a number, an integer or a date: a public lower bound",
        "# high =    # of a number, an integer or a date: a public upper bound",
        '# levels =  # of a category or an outcome of two classes: the public list, such as ["no", "yes"]',
    ],
}


@dataclass(frozen=True, init=False)
class Schema:
    """The public side of a table: its columns with their types and bounds, and the unit of privacy.

    It is mostly read from a TOML file, which `draft` begins.

    Parameters
    ----------
    columns : dict of names and columns
        The columns by name, in the order of the file.
    unit : Unit or str
        What is protected, which rows are one unit, and how rows are weighted; a text names a unit
        of one row, by default "one record".
    title : str
        A title of the data; empty by default.
    source : str
        Where the data are from; empty by default.
    typical : dict of names and typical values, optional
        Public guesses of means, standard deviations and shares, for forecasts; by default there are
        none.
    derived : dict of names and derived columns, optional
        Columns that are expressions of columns, and of derived columns above them; by default there
        are none.
    constant : sequence of str
        The columns that are the same in all rows of a unit, which effects of persons leave nothing of; by
        default none is declared.

    Examples
    --------
    >>> import dpinfer as dp
    >>> schema = dp.Schema.parse('''
    ... unit = "one patient"
    ... [columns.age]
    ... type = "integer"
    ... low = 18
    ... high = 100
    ... [columns.smoker]
    ... type = "boolean"
    ... ''')
    >>> schema.unit.name
    'one patient'
    >>> schema["age"].high
    100.0
    """

    columns: Mapping[str, Column]
    unit: Unit
    title: str
    source: str
    typical: Mapping[str, Typical]
    derived: Mapping[str, Derived]
    constant: tuple[str, ...]

    def __init__(
        self,
        columns: Mapping[str, Column],
        unit: Unit | str = ROW,
        title: str = "",
        source: str = "",
        typical: Mapping[str, Typical] | None = None,
        derived: Mapping[str, Derived] | None = None,
        constant: Iterable[str] = (),
    ) -> None:
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "unit", Unit(unit) if isinstance(unit, str) else unit)
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "typical", typical or {})
        object.__setattr__(self, "derived", derived or {})
        object.__setattr__(self, "constant", tuple(constant))
        if not self.columns:
            raise SchemaError(
                "the schema has no columns: write a table [columns.NAME] for each", "columns"
            )
        for name, column in self.columns.items():
            if name != column.name:
                raise InputError(
                    f"the schema lists a column {column.name!r} under {name!r}: use one name"
                )
        _require_readable(self.columns, self.derived, self.unit)
        for name in self.constant:
            if name not in self.columns:
                raise SchemaError(
                    f"constant names {name!r}, which is no column: {did_you_mean(name, self.columns)}",
                    "unit",
                    "constant",
                )

    @classmethod
    def read(cls, path: str | Path) -> "Schema":
        """Read a schema from a TOML file.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InputError
            If the file cannot be read, or a key is missing or wrong; the message names file and
            line.

        Examples
        --------
        >>> import dpinfer as dp
        >>> dp.datasets.rand_hie().schema.write("schema.toml")
        >>> dp.Schema.read("schema.toml")["health"].reference
        'excellent'
        """
        return toml.load(_text_of(Path(path)), Path(path).name, cls.of_document)

    @classmethod
    def of(cls, given: "Schema | str | os.PathLike[str] | None") -> "Schema":
        """Return the schema that ``given`` is, or that is in the file at this path."""
        if isinstance(given, cls):
            return given
        if isinstance(given, str | os.PathLike):
            return cls.read(Path(given))
        raise InputError(
            "a formula needs schema=: the path of its file, as in schema='schema.toml', or a dp.Schema"
        )

    @classmethod
    def parse(cls, text: str) -> "Schema":
        """Read a schema from TOML text.

        Parameters
        ----------
        text : str
            The text of a schema file.

        Returns
        -------
        Schema
            The schema.

        Raises
        ------
        InputError
            If a key is missing or wrong; the message names the line.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.Schema.parse('''
        ... [columns.visit]
        ... type = "outcome"
        ... levels = ["no", "yes"]
        ... ''')
        >>> schema["visit"].levels
        ('no', 'yes')
        """
        if not isinstance(text, str):
            raise InputError(
                f"Schema.parse takes TOML text, not {type(text).__name__}; Schema.read takes a path"
            )
        return toml.load(text, "", cls.of_document)

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> "Schema":
        """Return the schema of what `document` returned.

        Parameters
        ----------
        document : dict
            The content of a schema as nested dictionaries, in the layout of the TOML file.

        Returns
        -------
        Schema
            The schema.
        """
        facts = _facts_of(document)
        unit = _unit_of(document)
        entries = _entries_of(document)
        columns = {
            name: column_of(name, entry) for name, entry in entries.items() if not is_derived(entry)
        }
        derived = {
            name: derived_of(name, entry) for name, entry in entries.items() if is_derived(entry)
        }
        typical = {
            name: typical_of(columns[name], entry["typical"])
            for name, entry in entries.items()
            if "typical" in entry
        }
        constant = constant_columns(document.get("unit"))
        return cls(columns, unit, **facts, typical=typical, derived=derived, constant=constant)

    @classmethod
    def draft(cls, table: Any, columns: Iterable[str] | None = None) -> str:
        """Draft the text of a schema from the names and types of the columns of a table.

        Guarantee [drafts_read_no_values]: the text depends on names and types alone, and is no
        valid schema until a person has filled in what is public.

        Parameters
        ----------
        table : a table, or the path of a file
            The table; none of its values is read.
        columns : iterable of str, optional
            The columns to draft; by default all.

        Returns
        -------
        str
            TOML text with a gap, "?", at every public fact that a person must fill in.

        Raises
        ------
        InputError
            If the table has no column of a name.

        Examples
        --------
        >>> import dpinfer as dp
        >>> text = dp.Schema.draft(dp.datasets.rand_hie().table, columns=["mdvis"])
        >>> "[columns.mdvis]" in text
        True
        """
        # Public facts do without tables; this one call is handed a table, and loads their readers.
        from dpinfer.tables.table import table_of  # noqa: PLC0415

        pairs = table_of(table).types()
        if columns is None:
            return draft_text(pairs)
        require_different([name for name, _ in pairs])
        types = dict(pairs)
        wanted = list(dict.fromkeys(columns))
        for name in wanted:
            if name not in types:
                raise InputError(f"the table has no column {name!r}: {did_you_mean(name, types)}")
        text = draft_text((name, types[name]) for name in wanted)
        return text.replace(_DELETE, "")

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file that reads back as an equal schema.

        Parameters
        ----------
        path : path
            Where the file is written, complete or not at all; an existing one is replaced.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        try:
            persistence.write(Path(path), toml.dump(self.document()).encode())
        except (OSError, ValueError) as error:
            raise InputError(
                f"the schema {str(path)!r} cannot be written ({type(error).__name__}): check the folder and its rights"
            ) from None

    def digest(self) -> str:
        """Return the SHA-256 of the content, by which ledgers name a schema.

        Equal schemas have the same, in whatever order they are written.  What is ``typical`` does
        not count: a guess changes no release.

        Returns
        -------
        str
            64 hexadecimal digits.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.datasets.rand_hie().schema
        >>> guessed = schema.guess({"visit": {"true": 0.7}})
        >>> schema.digest() == guessed.digest()
        True
        """
        content = replace(self, typical={}).document()
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def guess(self, typical: Mapping[str, Any]) -> "Schema":
        """Return the same schema with public guesses for forecasts, beside those it has.

        Parameters
        ----------
        typical : dict of names and guesses
            One entry per column, as in a file: ``{"age": {"mean": 40, "sd": 15}, "sex": {"f":
            0.5}}``.

        Returns
        -------
        Schema
            The schema with the guesses.

        Examples
        --------
        >>> import dpinfer as dp
        >>> schema = dp.datasets.rand_hie().schema.guess({"physlm": {"mean": 0.1, "sd": 0.3}})
        >>> schema.typical["physlm"].mean
        0.1
        """
        new = {name: typical_of(self[name], entry) for name, entry in typical.items()}
        return replace(self, typical={**self.typical, **new})

    def document(self) -> dict[str, Any]:
        """Return the content as nested dictionaries, in the layout of the TOML file.

        Returns
        -------
        dict
            What `write` writes.
        """
        facts = {key: getattr(self, key) for key in _FACTS if getattr(self, key)}
        columns = {name: entry_of(column) for name, column in self.columns.items()}
        for name, guess in self.typical.items():
            columns[name]["typical"] = typical_entry(self[name], guess)
        columns |= {name: derived_entry(derived) for name, derived in self.derived.items()}
        unit = entries_of(self.unit)
        if self.constant:
            unit["unit"]["constant"] = list(self.constant)
        return facts | unit | {"columns": columns}

    def derived_from(self, names: Iterable[str]) -> tuple[Derived, ...]:
        """Return the derived columns among these names, after those they are derived from."""
        wanted = set(names)
        for name in reversed(list(self.derived)):
            if name in wanted:
                wanted |= set(names_in(self.derived[name].text))
        return tuple(derived for name, derived in self.derived.items() if name in wanted)

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise InputError(
                f"the schema has no column {name!r}: {did_you_mean(name, self.columns)}"
            )
        return self.columns[name]


def _require_readable(
    columns: Mapping[str, Column], derived: Mapping[str, Derived], unit: Unit
) -> None:
    """Refuse derived columns that can stand on neither side of a formula."""
    names = Names(columns, derived, lambda column: plain_part(explained(column)))
    for name, one in derived.items():
        if name != one.name or name in columns:
            raise InputError(f"the schema lists a derived column {one.name!r} twice: use one name")
        if not 0 < len(one.text) <= MAX_CHARACTERS:
            raise fault(
                name, "from", f"from is an expression of at most {MAX_CHARACTERS} characters"
            )
        try:
            require_readable(one.text)
            for column in unit.columns:
                if column.name in names_in(one.text):
                    raise InputError(f"{column.name!r} holds the ids or the weights: leave it out")
            names(name)
        except InputError as error:
            raise fault(name, "from", str(error)) from None


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(
            f"the schema {str(path)!r} cannot be read ({type(error).__name__}): check the path; "
            "`dpinfer schema init TABLE` or Schema.draft(table) writes a first one"
        ) from None


def _facts_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return title and source; a key that no schema has is refused."""
    for key, value in document.items():
        if key not in _KEYS:
            raise SchemaError(
                f"the schema has no key {short(key)}: {did_you_mean(key, _KEYS)}", key
            )
        if value == TODO:
            raise SchemaError(
                f"{key} is not filled in: say what one row stands for, such as 'one person'", key
            )
        if key in _FACTS and not isinstance(value, str):
            raise SchemaError(f"{key} must be text in quotes, not {short(value)}", key)
    return {key: document[key] for key in _FACTS if key in document}


def _unit_of(document: Mapping[str, Any]) -> Unit:
    return unit_of(document.get("unit", ROW.name), document.get("weights"))


def _entries_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of the columns, by name."""
    columns = document.get("columns", {})
    if not isinstance(columns, dict):
        raise SchemaError("columns is a table: write [columns.NAME] for each column", "columns")
    return dict(columns)


def draft_text(types: Iterable[tuple[str, str]]) -> str:
    """Return the text of a first schema, from names of columns and their types, "" where none is
    known.
    """
    types = list(types)
    require_different([name for name, _ in types])
    blocks = [_HEAD]
    for name, kind in types:
        lines = [toml.header(name), *_DRAFT_ENTRIES[kind]]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def with_typical(text: str, typical: Mapping[str, Mapping[str, float]], origin: str) -> str:
    """Write ``typical = {...}`` into the tables of these columns, each with a remark on its origin.

    Guarantee [edits_keep_the_rest]: what is read from the new text is what was read from the old
    one, but for what is typical of these columns; else it is refused.
    """
    edited = text
    document = toml.read_toml(text)
    for name, entry in typical.items():
        edited = toml.set_value(edited, ("columns", name), "typical", entry, origin)
        document["columns"][name]["typical"] = dict(entry)
    if not toml.reads_as(edited, document):
        raise InputError(
            "the schema cannot be filled in without changing something else: give each column a "
            "table [columns.NAME] of its own, with one key per line"
        )
    Schema.parse(edited)
    return edited


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
        return self.keys == _LEVELS

    @property
    def is_integer(self) -> bool:
        """Whether it holds whole numbers."""
        return isinstance(self.column, Number) and self.column.kind == "integer"


@dataclass(frozen=True)
class Draft:
    """The document of a schema, the unit it protects, and its columns with gaps."""

    document: Mapping[str, Any]
    unit: Unit
    gaps: Mapping[str, Gap]

    @classmethod
    def of(cls, schema: Schema | str | Path | None, types: Mapping[str, str], unit: str) -> "Draft":
        """Return the draft of a schema, of TOML text, of a file, or where there is none of the
        ``types`` of a table's columns.

        A text that ends in .toml is the name of a file.  ``unit`` is what a row of a table without
        a schema stands for.
        """
        if isinstance(schema, Schema):
            return cls._of_document(schema.document())
        if isinstance(schema, Path) or (isinstance(schema, str) and schema.endswith(".toml")):
            path = Path(schema)
            return toml.load(_text_of(path), path.name, cls._of_document)
        if isinstance(schema, str):
            return toml.load(schema, "", cls._of_document)
        if schema is not None:
            raise InputError(
                f"schema= takes a Schema, its text or the path of its file, not {type(schema).__name__}"
            )
        text = draft_text(types.items())
        return toml.load(text, "", lambda document: cls._of_document(document | {"unit": unit}))

    @classmethod
    def _of_document(cls, document: dict[str, Any]) -> "Draft":
        _facts_of(document)
        unit = _unit_of(document)
        gaps = {name: _gap_of(name, entry) for name, entry in _entries_of(document).items()}
        return cls(document, unit, {name: gap for name, gap in gaps.items() if gap is not None})

    def asked(
        self, columns: Mapping[str, str], kinds: Mapping[str, str], *, alone: bool
    ) -> "Draft":
        """Return the same with gaps in the given columns alone; a column that is complete is learnt
        anew.

        ``columns`` has a name and a type, or an empty text where the draft or ``kinds``, the types
        of the table, know it.  With ``alone`` other columns are left out, unless they have nothing
        to learn.
        """
        ids_and_weights = {column.name for column in self.unit.columns}
        entries = _entries_of(self.document)
        if alone:
            entries = {
                name: entry for name, entry in entries.items() if entry.get("type") == "boolean"
            }
        for name, kind in columns.items():
            if name in ids_and_weights:
                raise InputError(
                    f"column {name!r} holds the ids or the weights: it has no bounds to learn"
                )
            if name not in entries and name not in kinds:
                raise InputError(f"the table has no column {name!r}: {did_you_mean(name, kinds)}")
            entry = entries.get(name, {"type": kinds.get(name) or TODO})
            if is_derived(entry):
                raise InputError(
                    f"column {name!r} is derived from others and has no bounds to learn: leave it out"
                )
            entries[name] = _opened(name, entry, kind)
        draft = Draft._of_document(dict(self.document) | {"columns": entries})
        for name in columns:
            if name not in draft.gaps:
                raise InputError(
                    f"column {name!r} is a boolean or a date, whose bounds are not learned: leave it out"
                )
        return replace(draft, gaps={name: draft.gaps[name] for name in columns})

    def filled(
        self, values: Mapping[str, Mapping[str, Any]], learned: str, remarks: Mapping[str, str]
    ) -> str:
        """Return the text of the schema with what was found for its gaps, each column with the name
        of the release.
        """
        entries = _entries_of(self.document)
        for name, gap in self.gaps.items():
            entry = {key: value for key, value in entries[name].items() if key != "learned"}
            of_column = values.get(name, {})
            entry |= {key: of_column.get(key, TODO) for key in gap.keys}
            if name in values:
                entry["learned"] = learned
            entries[name] = entry
        return toml.dump(dict(self.document) | {"columns": entries}, remarks)


def named(columns: Sequence[str] | Mapping[str, str] | None) -> dict[str, str]:
    """Return columns with their types, from "name" and "name:type", or from a mapping."""
    types: dict[str, str] = {}
    if isinstance(columns, Mapping):
        types = dict(columns)
    elif columns is not None:
        if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
            raise InputError("columns= takes a list of names, or a dict of names and types")
        for column in columns:
            name, _, kind = column.rpartition(":")
            if kind in TYPES:
                types[name] = kind
            else:  # a colon may be a part of the name
                types[column] = ""
    for name, kind in types.items():
        if kind not in ("", *TYPES):
            raise InputError(
                f"column {name!r}: there is no type {kind!r} to learn: it is one of {', '.join(TYPES)}"
            )
    return types


def known_levels(entry: Mapping[str, Any]) -> list[str]:
    """Return the levels that an entry names beside its list: they are public, whatever is found."""
    named_levels = {entry.get("reference")}
    if entry.get("missing") not in MISSING_RULES:
        named_levels.add(entry.get("missing"))
    return sorted(level for level in named_levels if isinstance(level, str))


def _gap_of(name: str, entry: Any) -> Gap | None:
    """Return the column of an entry with gaps; None where there is none, or no type yet."""
    if not isinstance(entry, dict):
        column_of(name, entry)  # which refuses it
        return None
    if is_derived(entry):
        derived_of(name, entry)
        return None
    if entry.get("type") == "date" and any(entry.get(key, TODO) == TODO for key in _RANGE):
        return None  # its bounds are for a person
    if entry.get("type") == TODO:
        if not all(isinstance(value, str | int | float) for value in entry.values()):
            raise fault(name, "type", "type is not filled in: do that first")
        return None
    keys = _unknown_keys(entry)
    if not keys:
        column_of(name, entry)
        return None
    stated = {key: value for key, value in entry.items() if key not in keys}
    if keys == _LEVELS:
        placeholders = _placeholder_levels(stated)
    else:
        placeholders = _placeholder_range(stated)
    return Gap(column_of(name, stated | placeholders), keys)


def _unknown_keys(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys of a gap."""
    kind = entry.get("type")
    keys: tuple[str, ...] = ()
    if kind == "outcome" and entry.get("levels") == TODO:
        keys = _LEVELS
    elif kind == "outcome" and any(key in entry for key in _RANGE):
        keys = _RANGE
    elif kind == "category":
        keys = _LEVELS
    elif kind in ("number", "integer"):
        keys = _RANGE
    return tuple(key for key in keys if entry.get(key, TODO) == TODO)


def _placeholder_range(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return a range that agrees with what is stated, so that the rest of an entry can be checked."""
    values = [stated[key] for key in (*_RANGE, "missing") if key in stated]
    numbers = [value for value in values if type(value) in (int, float)] or [0]
    return {
        "low": stated.get("low", min(numbers) - 1),
        "high": stated.get("high", max(numbers) + 1),
    }


def _placeholder_levels(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return levels that agree with what is stated."""
    return {"levels": [*known_levels(stated), "some level", "another level"]}


def _opened(name: str, entry: Any, kind: str) -> Any:
    """Return an entry with a type and gaps: those it has or, where it has none, all."""
    if not isinstance(entry, dict):
        return entry
    if kind and entry.get("type") not in (TODO, kind):
        raise InputError(
            f"column {name!r} has a type already: leave out the one in --columns, or correct the schema"
        )
    if not kind and entry.get("type") == TODO:
        raise InputError(
            f"column {name!r} has no type yet: write {name}:TYPE, TYPE one of {', '.join(TYPES)}"
        )
    opened = dict(entry)
    if kind:
        opened["type"] = kind
    if kind == "outcome" and not any(key in entry for key in _LEARNABLE):
        opened["levels"] = TODO
    if _unknown_keys(opened) or opened["type"] in ("boolean", "date"):
        return opened
    for key in _LEARNABLE:
        if key in opened:
            opened[key] = TODO
    opened.pop("learned", None)
    return opened
