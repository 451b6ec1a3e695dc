"""What the worker publishes of a table, for those who may read neither its data nor its ledger.

One file per table, whole or not there: the chain of the ledger, which is public, and whether the
files of the table are as they were registered.
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dpinfer import persistence
from dpinfer.errors import LedgerError
from dpinfer.privacy.ledger import Ledger

EVERY = 5.0
"""Seconds after which the worker publishes again, whatever has happened."""
_BEAT = ".worker"  # no table has such a name
_DEAD = 6 * EVERY


@dataclass(frozen=True)
class Published:
    """A ledger to read, and what is no longer as it was registered, empty if nothing is."""

    ledger: Ledger
    changed: str


def write(path: Path, ledger: Ledger | None, changed: str, fault: str = "") -> None:
    """Publish a ledger, or why there is none; a file that says so already stays."""
    chain = ledger.chain() if ledger is not None else []
    content = json.dumps({"chain": chain, "changed": changed, "fault": fault}).encode()
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    persistence.write(path, content)


def read(path: Path, table: str) -> Published:
    """What was published last; `LedgerError` where nothing was, or where the ledger cannot be read."""
    try:
        facts = path.stat()
        found, fault = _parsed(path, (facts.st_ino, facts.st_mtime_ns, facts.st_size))
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerError(
            f"the account of {table} is not published yet: wait for the worker, or start it"
        ) from None
    if found is None:
        raise LedgerError(fault)
    return found


@lru_cache(maxsize=256)
def _parsed(path: Path, _: tuple[int, int, int]) -> tuple[Published | None, str]:
    """The content of a file, once for each state of it."""
    document = json.loads(path.read_bytes())
    if document["fault"]:
        return None, str(document["fault"])
    return Published(Ledger.copied(document["chain"]), str(document["changed"])), ""


def beat(folder: Path) -> None:
    """The worker is at work."""
    (folder / _BEAT).touch()


def last_beat(folder: Path) -> float | None:
    """Seconds since the worker was at work; None where it never was."""
    try:
        return max(0.0, time.time() - os.stat(folder / _BEAT).st_mtime)
    except OSError:
        return None


def at_work(folder: Path) -> bool:
    """Whether the worker was at work a moment ago."""
    last = last_beat(folder)
    return last is not None and last < _DEAD
