"""Read-only copies of ledgers, which the worker publishes for the process with the network.

That process may read neither data nor ledgers.  One file per table, replaced as a whole, has the chain
of the ledger, which is public, and whether the files of the table are as they were registered.
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
"""Seconds after which the worker publishes again, whether anything has changed or not."""
_HEARTBEAT = ".worker"  # no table has such a name
_TIMEOUT = 6 * EVERY  # of the heartbeat: a worker that is busy may miss some


@dataclass(frozen=True)
class Published:
    """A copy of a ledger; ``changed`` says how the files of the table changed, empty if they did not."""

    ledger: Ledger
    changed: str


def write(path: Path, ledger: Ledger | None, changed: str, fault: str = "") -> None:
    """Publish a ledger, or the ``fault`` why there is none; a file with this content stays."""
    chain = ledger.chain() if ledger is not None else []
    content = json.dumps({"chain": chain, "changed": changed, "fault": fault}).encode()
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    persistence.write(path, content)


def read(path: Path, table: str) -> Published:
    """Read the published copy; `LedgerError` if there is none, or if the ledger cannot be read."""
    try:
        facts = path.stat()
        copy, fault = _parsed(path, (facts.st_ino, facts.st_mtime_ns, facts.st_size))
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerError(
            f"the account of {table} is not published yet: wait for the worker, or start it"
        ) from None
    if copy is None:
        raise LedgerError(fault)
    return copy


@lru_cache(maxsize=256)
def _parsed(path: Path, _: tuple[int, int, int]) -> tuple[Published | None, str]:
    # Cached by inode, time and size: a page asks many times for the same copy.
    document = json.loads(path.read_bytes())
    if document["fault"]:
        return None, str(document["fault"])
    return Published(Ledger.copied(document["chain"]), str(document["changed"])), ""


def beat(folder: Path) -> None:
    """Record that the worker is running."""
    (folder / _HEARTBEAT).touch()


def last_beat(folder: Path) -> float | None:
    """Return the seconds since the last heartbeat of the worker; None if there was none."""
    try:
        return max(0.0, time.time() - os.stat(folder / _HEARTBEAT).st_mtime)
    except OSError:
        return None


def at_work(folder: Path) -> bool:
    """Tell whether the worker has given a heartbeat lately."""
    last = last_beat(folder)
    return last is not None and last < _TIMEOUT
