"""TOML with line numbers: read, with errors that name the line, written, and edited key by key."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from dpinfer.errors import InputError
from dpinfer.schema.columns import SchemaError

_Built = TypeVar("_Built")
_Path = tuple[str, ...]
_CLOSING = re.compile(r"""[]}]|\"""|'''""")  # one of these ends a statement of several lines


def load(text: str, file: str, build: Callable[[dict[str, Any]], _Built]) -> _Built:
    """What is built of the document of a TOML text; an error of it names the file and the line."""
    try:
        document = read_toml(text)
    except InputError as fault:
        raise InputError(f"{file}: {fault}" if file else str(fault)) from None
    try:
        return build(document)
    except SchemaError as error:
        message = str(error)
        path = error.path
    line = _line_of(text, path)
    places = []
    if file:
        places.append(file)
    if line:
        places.append(f"line {line}")
    raise InputError(f"{', '.join(places)}: {message}" if places else message)


def read_toml(text: str, name: str = "the schema") -> dict[str, Any]:
    """The document; an `InputError` that names it if it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{name} is not valid TOML: it is nested too deeply") from None
    except ValueError as fault:
        raise InputError(f"{name} is not valid TOML: {fault}") from None


def _line_of(text: str, path: _Path) -> int:
    """The line on which the longest known beginning of ``path`` stands, counted from 1; 0 if there
    is none.

    ``text`` is valid TOML.
    """
    lines: dict[_Path, int] = {}
    for key, line in _places(text.replace("\r\n", "\n").split("\n")):
        lines.setdefault(key, line)
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 0


def _places(lines: list[str]) -> Iterator[tuple[_Path, int]]:
    """Every key with its line."""
    table: _Path = ()
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
    """The statement that begins at a line, and where it stops: it is the shortest run of lines that
    is TOML on its own.

    A run of several lines is tried only where it may end, so that a long list of levels, one per
    line, is parsed twice and not once per line.
    """
    for stop in range(start + 1, len(lines) + 1):
        if stop > start + 1 and not _CLOSING.search(lines[stop - 1]):
            continue
        try:
            return tomllib.loads("\n".join(lines[start:stop])), stop
        except (ValueError, RecursionError):
            continue
    return {}, len(lines)


def _keys(document: Mapping[str, Any]) -> Iterator[_Path]:
    for key, value in document.items():
        yield (key,)
        inner = value[0] if isinstance(value, list) and value else value
        if isinstance(inner, dict):
            yield from ((key, *rest) for rest in _keys(inner))


def dump(document: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """Plain keys first, then the tables ``[unit]`` and ``[weights]``, then one ``[columns.NAME]``
    per column.

    ``remarks`` has comments, of one line each, that stand above columns.
    """
    remarks = remarks or {}
    lines = _entries({key: value for key, value in document.items() if not isinstance(value, dict)})
    for key, value in document.items():
        if isinstance(value, dict) and key != "columns":
            lines += ["", f"[{key}]", *_entries(value)]
    for name, entry in document.get("columns", {}).items():
        lines.append("")
        if name in remarks:
            lines.append(f"# {remarks[name]}")
        lines += [f"[columns.{key_text(name)}]", *_entries(entry)]
    return "\n".join(lines).lstrip("\n") + "\n"


def with_key(text: str, table: _Path, entry: tuple[str, Any], remark: str) -> str:
    """The same text with a key and value in a table, in the place of an earlier value or behind the
    last one of the table, with a remark behind it; every other line stays as it is.

    It is not there where the table has no line ``[...]`` of its own: whoever edits looks.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n")
    key, value = entry
    written = f"{_entries({key: value})[0]}  # {remark}"
    place: tuple[int, int] | None = None
    here: _Path = ()
    start = 0
    while start < len(lines):
        statement, stop = _statement(lines, start)
        keys = list(_keys(statement))
        if keys and lines[start].lstrip().startswith("["):
            here = max(keys, key=len)
        if here == table and (key,) in keys:
            place = (start, stop)
            break
        if here == table and keys:
            place = (stop, stop)
        start = stop
    if place is None:
        return text
    return end.join([*lines[: place[0]], written, *lines[place[1] :]])


def _entries(entry: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in entry.items()]


def key_text(name: str) -> str:
    """A key, in quotes where TOML asks for them."""
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, dict):
        items = [f"{key_text(key)} = {_value(item)}" for key, item in value.items()]
        return f"{{ {', '.join(items)} }}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # the escapes of JSON are escapes of TOML, which wants one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
