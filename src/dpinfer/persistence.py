"""What is kept on disk: files that are whole or not there, and frozen values as JSON.

Values become plain JSON objects and come back exactly: a float's shortest text reads back as the
same float.  JSON has no infinities and no NaN: they are written as the texts "inf", "-inf" and
"nan" or, for readers elsewhere, as null.  A NaN that was written as null reads back as NaN; an
infinity does not.
"""

import dataclasses
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from tempfile import TemporaryFile
from types import UnionType
from typing import Any, get_args, get_origin

import numpy as np

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array

RESULT = "result.json"
"""The name of a result in the folder of a fit."""
DESCRIPTION = "description.json"
"""The name of a description in its folder."""

_EMPTY = "empty array"


def write(path: Path, content: bytes) -> None:
    """Write a file under another name, flush it to the disk, then rename it: a reader never sees
    half of it.
    """
    write_all(path.parent, {path.name: content})


def write_all(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write several files of a folder; none is moved into place before all of them are on the disk."""
    drafts = {name: folder / f".{name}.{os.getpid()}.part" for name in contents}
    try:
        for name, content in contents.items():
            with open(drafts[name], "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for name, draft in drafts.items():
            os.replace(draft, folder / name)
        sync_folder(folder)
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make new names last; where folders cannot be opened, the system does it by itself."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def prepare(folder: Path) -> None:
    """Make the folder, and find out now whether it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as fault:
        raise InputError(
            f"the folder {str(folder)!r} cannot be written to ({fault.strerror}): name another, or change its rights"
        ) from None


def vacant(path: Path, force: bool, remedy: str) -> None:
    """Refuse a path that is taken, unless told to replace it."""
    if not force and (path.exists() or path.is_symlink()):
        raise InputError(f"{str(path)!r} is there already: {remedy}")


def encode(value: Any, *, null: bool = False) -> Any:
    """A dataclass becomes an object with its class name under ``kind``; arrays and tuples become
    lists, codes stay.

    With ``null``, what is no finite number is null; else it is a text.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            f.name: encode(getattr(value, f.name), null=null) for f in dataclasses.fields(value)
        }
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, np.ndarray) and value.size == 0 and value.ndim > 1:
        return {"kind": _EMPTY, "shape": list(value.shape)}  # a list would lose its shape
    if isinstance(value, np.ndarray | np.generic):
        return encode(value.tolist(), null=null)
    if isinstance(value, float) and not math.isfinite(value):
        return None if null else str(value)
    if isinstance(value, tuple | list):
        return [encode(item, null=null) for item in value]
    return value.value if isinstance(value, Enum) else value


def decode(value: Any, kinds: Mapping[str, type], hint: Any = None) -> Any:
    """The inverse of `encode`, for the classes named in ``kinds`` only; a field that came later
    takes its default.
    """
    if isinstance(value, dict):
        return _decode_object(value, kinds)
    if isinstance(value, list):
        if _holds_array(hint):
            return np.array(value, dtype=np.float64)
        return tuple(decode(item, kinds) for item in value)
    if value is None and hint is float:
        return math.nan
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return value


def _decode_object(value: dict[str, Any], kinds: Mapping[str, type]) -> Any:
    if value["kind"] == _EMPTY:
        return np.empty([int(side) for side in value["shape"]])
    cls = kinds[value["kind"]]
    fields = {f.name: f.type for f in dataclasses.fields(cls)}
    needed = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
    if not {"kind", *needed} <= set(value) <= {"kind", *fields}:
        raise KeyError(f"the fields of {cls.__name__} are {sorted(fields)}")
    given = {name: decode(value[name], kinds, fields[name]) for name in fields if name in value}
    return cls(**given)


def _holds_array(hint: Any) -> bool:
    if get_origin(hint) is UnionType:
        return any(part is Array for part in get_args(hint))
    return hint is Array
