"""TOML with line numbers: read, with errors that name the line, and written."""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from dpinfer.errors import InputError
from dpinfer.schema.columns import SchemaError

_Made = TypeVar("_Made")


def read_toml(text: str, name: str = "the schema") -> dict[str, Any]:
    """The document; an `InputError` that names it and the line if it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{name} is not valid TOML: it is nested too deeply") from None
    except ValueError as fault:
        raise InputError(f"{name} is not valid TOML: {fault}") from None


def _line_of(text: str, path: tuple[str, ...]) -> int:
    """The line on which the longest known beginning of ``path`` stands, counted from 1; 0 if there
    is none.

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


def dump(document: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """Plain keys first, then the tables ``[unit]`` and ``[weights]``, then one ``[columns.NAME]`` a
    column.

    ``remarks`` has comments, of one line each, that stand above columns.
    """
    lines = [
        f"{key} = {_value(value)}" for key, value in document.items() if not isinstance(value, dict)
    ]
    tables = {
        key: value
        for key, value in document.items()
        if isinstance(value, dict) and key != "columns"
    }
    for name, entry in tables.items():
        lines += ["", f"[{name}]", *_entries(entry)]
    for name, entry in document["columns"].items():
        above = [f"# {remarks[name]}"] if remarks and name in remarks else []
        lines += ["", *above, f"[columns.{key_text(name)}]", *_entries(entry)]
    return "\n".join(lines).lstrip("\n") + "\n"


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
        return (
            f"{{ {', '.join(f'{key_text(key)} = {_value(item)}' for key, item in value.items())} }}"
        )
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # the escapes of JSON are escapes of TOML, which wants one more
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def located(text: str, file: str, make: Callable[[dict[str, Any]], _Made]) -> _Made:
    """What is made of the document of a TOML text; an error of it names the file and the line."""
    try:
        document = read_toml(text)
    except InputError as fault:
        raise InputError(f"{file}: {fault}" if file else str(fault)) from None
    try:
        return make(document)
    except SchemaError as fault:
        message, path = str(fault), fault.path
    line = _line_of(text, path)
    places = [place for place in (file, f"line {line}" if line else "") if place]
    raise InputError(f"{', '.join(places)}: {message}" if places else message)
