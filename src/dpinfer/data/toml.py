"""TOML with line numbers for errors, and a writer.  The standard reader gives neither."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpinfer.errors import InputError


def read(text: str) -> dict[str, Any]:
    """The document; an `InputError` that names the line if it is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError("the schema is not valid TOML: it is nested too deeply") from None
    except ValueError as fault:
        raise InputError(f"the schema is not valid TOML: {fault}") from None


def line_of(text: str, path: tuple[str, ...]) -> int:
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


def dump(document: Mapping[str, Any]) -> str:
    """Plain keys first, then one table ``[columns.NAME]`` a column."""
    lines = [f"{key} = {_value(value)}" for key, value in document.items() if key != "columns"]
    for name, entry in document["columns"].items():
        lines += ["", f"[columns.{key_text(name)}]", *(f"{key} = {_value(value)}" for key, value in entry.items())]
    return "\n".join(lines).lstrip("\n") + "\n"


def key_text(name: str) -> str:
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


def write_atomically(path: Path, content: bytes) -> None:
    """Under another name first, then renamed: a reader never sees half a file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
