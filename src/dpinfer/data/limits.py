"""What a fit may take of this machine: environment variables, read and checked before anything is booked."""

import os
import shutil
from pathlib import Path
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
    """Bytes that they may take in a temporary file: ``DPINFER_DISK`` megabytes, by default half of what is free.

    Where it cannot be had the fit goes on without: 0 in a folder that is memory, or that is none.
    """
    asked = _whole("DPINFER_DISK", "a whole number of megabytes")
    if not hasattr(os, "posix_fallocate"):  # nor is there a read at a place
        return 0.0
    try:
        return (
            asked * 1e6 if asked is not None else 0.0 if _memory(scratch()) else shutil.disk_usage(scratch()).free / 2
        )
    except OSError:
        return 0.0


def scratch() -> str:
    """The folder for large temporary files: ``TMPDIR`` if it is one, or ``/var/tmp``, as ``/tmp`` may be memory."""
    for folder in (os.environ.get("TMPDIR", ""), "/var/tmp"):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return gettempdir()


def _memory(folder: str) -> bool:
    """Whether what is written to a folder stays in memory; False where the system does not tell."""
    device = os.stat(folder).st_dev
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    at = f" {os.major(device)}:{os.minor(device)} "
    return any(at in mount and " - tmpfs " in mount for mount in mounts)


def _whole(name: str, words: str, least: int = 0) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= least):
        raise InputError(f"{name} must be {words}: correct it, or unset it")
    return int(text)
