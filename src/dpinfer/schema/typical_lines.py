"""What is typical of columns, written into the text of a schema: its other lines stay as they are."""

from collections.abc import Mapping
from typing import Any

from dpinfer.errors import InputError
from dpinfer.schema import toml
from dpinfer.schema.schema import Schema


def with_typical(text: str, typical: Mapping[str, Mapping[str, float]], origin: str) -> str:
    """The text of a schema with ``typical = {...}`` in the tables of these columns, each with a
    remark on where it comes from.

    Guarantee [edits_keep_the_rest]: what is read from the new text is what was read from the old
    one, but for what is typical of these columns; else it is refused.
    """
    edited = text
    document = toml.read_toml(text)
    for name, entry in typical.items():
        before = edited
        edited = toml.with_key(edited, ("columns", name), ("typical", dict(entry)), origin)
        document["columns"][name]["typical"] = dict(entry)
        if edited == before or not _reads_as(edited, document):
            raise InputError(
                f"the schema cannot be filled in line by line at column {name!r}: give the column a "
                f"line [columns.{toml.key_text(name)}] with its keys below, typical in one line or "
                "not at all"
            )
    Schema.parse(edited)
    return edited


def _reads_as(text: str, document: Mapping[str, Any]) -> bool:
    try:
        return toml.read_toml(text) == document
    except InputError:
        return False
