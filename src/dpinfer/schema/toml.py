"""TOML read with errors that name the line, written, and edited with its comments kept.

Reading is tomllib's, so that values are plain.  tomlkit, which keeps the layout of a text, writes and edits; it is
imported where it is needed.
"""

import tomllib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dpinfer.errors import InputError
from dpinfer.schema.columns import SchemaError

_Built = TypeVar("_Built")
_MARK = "the line that is looked for"


def load(text: str, file: str, build: Callable[[dict[str, Any]], _Built]) -> _Built:
    """Return what ``build`` makes of the document of a TOML text; its errors name the file and the line."""
    try:
        document = read_toml(text)
    except InputError as error:
        raise InputError(f"{file}: {error}" if file else str(error)) from None
    try:
        return build(document)
    except SchemaError as error:
        message = str(error)
        path = error.path
    number = _line_number(text, path)
    where = [file] if file else []
    if number:
        where.append(f"line {number}")
    raise InputError(f"{', '.join(where)}: {message}" if where else message)


def read_toml(text: str, name: str = "the schema") -> dict[str, Any]:
    """Return the document of a TOML text; raise an `InputError` that calls it ``name`` if it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{name} is not valid TOML: it is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{name} is not valid TOML: {error}") from None


def reads_as(text: str, document: Mapping[str, Any]) -> bool:
    """Return whether a text is TOML with this document."""
    try:
        return read_toml(text) == document
    except InputError:
        return False


def _line_number(text: str, path: tuple[str, ...]) -> int:
    """Return the line of the longest beginning of ``path`` that is in the text, counted from 1; 0 if there is none.

    tomlkit keeps no line numbers, but it keeps the layout: the key is changed, and the first line that differs is
    that of the key.
    """
    import tomlkit  # noqa: PLC0415
    from tomlkit.items import InlineTable, Table  # noqa: PLC0415

    text = text.replace("\r\n", "\n")
    try:
        document = tomlkit.parse(text)
        item: Any = document
        owner: Any = None
        name = ""
        for key in path:
            if isinstance(item, list) and item:  # of an array of tables the first
                item = item[0]
            if not isinstance(item, dict) or key not in item:
                break
            owner, name, item = item, key, item[key]
        if owner is None:
            return 0
        while isinstance(item, dict) and not isinstance(item, InlineTable):
            if isinstance(item, Table):
                item.comment(_MARK)
            if not item or tomlkit.dumps(document) != text:
                break
            # a table without a line [...] of its own begins with its first key
            owner, name, item = item, *next(iter(item.items()))
        else:
            owner[name] = _MARK
        changed = tomlkit.dumps(document)
    except Exception:  # an error without a line number is better than an error about the error
        return 0
    pairs = zip(text.split("\n"), changed.split("\n"), strict=False)
    return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), 0)


def dump(document: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """Write plain keys first, then the tables ``[unit]`` and ``[weights]``, then one ``[columns.NAME]`` per column.

    ``remarks`` has comments, of one line each, that are written above columns.
    """
    import tomlkit  # noqa: PLC0415

    remarks = remarks or {}
    plain = {key: value for key, value in document.items() if not isinstance(value, dict)}
    tables = {key: value for key, value in document.items() if isinstance(value, dict)}
    columns = tables.pop("columns", {})
    parts = [tomlkit.dumps(plain)] if plain else []
    parts += [tomlkit.dumps({key: _entry(table)}) for key, table in tables.items()]
    for name, entry in columns.items():
        remark = f"# {remarks[name]}\n" if name in remarks else ""
        parts.append(remark + tomlkit.dumps({"columns": {name: _entry(entry)}}))
    return "\n".join(parts)


def set_value(text: str, table: tuple[str, ...], key: str, value: Any, remark: str) -> str:
    """Set a key of a table to a value, with a remark behind it; every other line and comment stays as it is."""
    import tomlkit  # noqa: PLC0415

    document = tomlkit.parse(text.replace("\r\n", "\n"))
    owner: Any = document
    for name in table:
        owner = owner[name]
    item = _inline(value)
    item.comment(remark)
    owner[key] = item
    edited = tomlkit.dumps(document)
    return edited.replace("\n", "\r\n") if "\r\n" in text else edited


def header(name: str) -> str:
    """Return the line that begins the table of a column; its name is in quotes where TOML asks for them."""
    import tomlkit  # noqa: PLC0415

    return f"[{tomlkit.key(['columns', name]).as_string()}]"


def _entry(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a table; a table inside it is written in one line."""
    return {key: _inline(value) for key, value in table.items()}


def _inline(value: Any) -> Any:
    import tomlkit  # noqa: PLC0415

    if not isinstance(value, Mapping):
        return tomlkit.item(value)
    item = tomlkit.inline_table()
    item.update(value)
    return item
