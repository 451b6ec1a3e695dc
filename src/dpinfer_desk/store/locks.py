"""Locks in files, each held by one living process; the kernel releases those of a process that dies."""

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
def acquire(path: Path) -> Iterator[bool]:
    """Hold a lock inside the block, and yield whether that worked; the file holds the process id.

    The lock is the process's own (``fcntl``): a fork does not inherit it, and it ends with the process.
    """
    if path in _own:
        yield False
        return
    # Not through a link: whoever could make one here would have this process empty another file.
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
    # More than one try, as `holder` takes a free lock for a moment to find out that it is free.
    for _ in range(_TRIES):
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_PAUSE)
        else:
            return True
    return False


def holder(path: Path) -> int | None:
    """Return the id of the process that holds a lock; None if no process does.

    It is 0 where the file names no single process: it is not written yet, or holds 0 or 1, which to
    ``kill`` are a whole group of processes and the first one of the system.
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
