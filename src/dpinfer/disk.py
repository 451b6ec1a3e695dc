"""Files that are whole or not there, and folders to put them in."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from dpinfer.errors import InputError


def write(path: Path, content: bytes) -> None:
    """Write a file under another name, flush it to the disk, then rename it: a reader never sees half of it."""
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


RESULT = "result.json"


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
