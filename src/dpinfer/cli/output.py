"""Folders and files that a command writes: whole or not at all, and never over something that was paid for."""

import os
from pathlib import Path
from tempfile import TemporaryFile

from dpinfer.errors import InputError

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


def keep(path: Path, content: bytes) -> None:
    """Write a file under another name, flush it to the disk, then rename it: a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
