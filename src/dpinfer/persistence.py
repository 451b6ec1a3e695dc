"""Files on disk, which are complete or not there, and frozen values as JSON.

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
SURVIVAL = "survival.json"
"""The name of survival curves in their folder."""

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


@dataclasses.dataclass(frozen=True)
class FileNames:
    """The names of classes and fields in files.

    A class or a field that is renamed in Python keeps its name in files: only its row here changes.
    ``classes`` maps a name in files to its class; ``keys`` maps a class to its fields whose key in
    files is another word.
    """

    classes: Mapping[str, type]
    keys: Mapping[type, Mapping[str, str]] = dataclasses.field(default_factory=dict)

    def __or__(self, other: "FileNames") -> "FileNames":
        return FileNames({**self.classes, **other.classes}, {**self.keys, **other.keys})

    def name(self, cls: type) -> str:
        """Return the name of a class in files; `KeyError` if it has none."""
        for name, known in self.classes.items():
            if known is cls:
                return name
        raise KeyError(f"{cls.__name__} has no name in files")

    def fields(self, cls: type) -> dict[str, dataclasses.Field[Any]]:
        """Return the fields of a class by their keys in files, in their order."""
        keys = self.keys.get(cls, {})
        return {keys.get(field.name, field.name): field for field in dataclasses.fields(cls)}


_NO_NAMES = FileNames({})


def encode(value: Any, names: FileNames = _NO_NAMES, *, null: bool = False) -> Any:
    """Return a value as plain JSON: a dataclass becomes an object with its name in files under
    ``kind``; arrays and tuples become lists, codes stay.

    With ``null``, what is no finite number is null; else it is a text.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            key: encode(getattr(value, field.name), names, null=null)
            for key, field in names.fields(type(value)).items()
        }
        return {"kind": names.name(type(value)), **fields}
    if isinstance(value, np.ndarray) and value.size == 0 and value.ndim > 1:
        return {"kind": _EMPTY, "shape": list(value.shape)}  # a list would lose its shape
    if isinstance(value, np.ndarray | np.generic):
        return encode(value.tolist(), null=null)
    if isinstance(value, float) and not math.isfinite(value):
        return None if null else str(value)
    if isinstance(value, tuple | list):
        return [encode(item, names, null=null) for item in value]
    return value.value if isinstance(value, Enum) else value


def decode(value: Any, names: FileNames, hint: Any = None) -> Any:
    """Return the value that `encode` wrote, of the classes in ``names`` only; a field that was added
    later takes its default.
    """
    if isinstance(value, dict):
        return _decode_object(value, names)
    if isinstance(value, list):
        if _holds_array(hint):
            return np.array(value, dtype=np.float64)
        return tuple(decode(item, names) for item in value)
    if value is None and hint is float:
        return math.nan
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return value


def _decode_object(value: dict[str, Any], names: FileNames) -> Any:
    if value["kind"] == _EMPTY:
        return np.empty([int(side) for side in value["shape"]])
    cls = names.classes[value["kind"]]
    fields = names.fields(cls)
    needed = {key for key, field in fields.items() if field.default is dataclasses.MISSING}
    if not {"kind", *needed} <= set(value) <= {"kind", *fields}:
        raise KeyError(f"the fields of {value['kind']} are {sorted(fields)}")
    given = {
        field.name: decode(value[key], names, field.type)
        for key, field in fields.items()
        if key in value
    }
    return cls(**given)


def _holds_array(hint: Any) -> bool:
    if get_origin(hint) is UnionType:
        return any(part is Array for part in get_args(hint))
    return hint is Array
