"""What a fit may take of this machine: environment variables, read and checked before anything is booked."""

import os
import shutil
from tempfile import gettempdir

from dpinfer.errors import InputError


def check() -> None:
    """Refuse a variable that is no number."""
    threads(), memory(), disk()


def threads() -> int:
    """How many blocks are worked on at once: ``DPINFER_THREADS``, or the cores that this process may use."""
    asked = _whole("DPINFER_THREADS", "a whole number of at least 1", least=1)
    if asked is not None:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def memory() -> float:
    """Bytes that the rows of files may take in memory: ``DPINFER_MEMORY`` megabytes, 256 by default."""
    asked = _whole("DPINFER_MEMORY", "a whole number of megabytes")
    return (256 if asked is None else asked) * 1e6


def disk() -> float:
    """Bytes that they may take in a temporary file: ``DPINFER_DISK`` megabytes, by default half of what is free."""
    asked = _whole("DPINFER_DISK", "a whole number of megabytes")
    if not hasattr(os, "posix_fallocate"):  # nor is there a read at a place
        return 0.0
    try:
        return shutil.disk_usage(scratch()).free / 2 if asked is None else asked * 1e6
    except OSError:  # there is no such folder
        return 0.0


def scratch() -> str:
    """The folder for large temporary files: ``TMPDIR`` or, as ``/tmp`` may be memory, ``/var/tmp``."""
    asked = os.environ.get("TMPDIR", "")
    return asked or ("/var/tmp" if os.access("/var/tmp", os.W_OK | os.X_OK) else gettempdir())


def _whole(name: str, words: str, least: int = 0) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise InputError(f"{name} must be {words}: correct it, or unset it")
    return int(text)
