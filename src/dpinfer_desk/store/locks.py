"""Files that one living process holds: whoever dies lets go."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TRIES = 50
_PAUSE = 0.002  # seconds between two tries
_own: set[Path] = set()  # closing any handle of a file drops the lock of the whole process


@contextmanager
def held(path: Path) -> Iterator[bool]:
    """Hold a file inside, and tell whether that worked; the id of the process stands in it.

    The lock is the process's own: a fork has no part in it, and the kernel drops it with the
    process.
    """
    if path in _own:
        yield False
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _locked(handle):
            yield False
            return
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        _own.add(path)
        yield True
    finally:
        _own.discard(path)
        os.close(handle)


def _locked(handle: int) -> bool:
    """Take the lock; tried for a moment, as `holder` takes it to ask about it."""
    for _ in range(_TRIES):
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_PAUSE)
        else:
            return True
    return False


def holder(path: Path) -> int | None:
    """The id of the process that holds a file; None if nobody does, 0 if the file names no process
    that could be ended: it is not written yet, or names all of them.
    """
    if path in _own:
        return os.getpid()
    if not path.exists():
        return None
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with suppress(ValueError):
            number = int(path.read_text())
            return number if number > 1 else 0
        return 0
    finally:
        os.close(handle)
    return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.clear)
