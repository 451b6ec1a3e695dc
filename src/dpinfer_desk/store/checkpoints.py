"""Checkpoints of ledgers, which show an old copy of a ledger even where desk.db was changed with it.

desk.db lists the questions that were paid, but whoever can write into desk.db can make it forget them.
A checkpoint lies in a folder that only the worker can write into: one file per ledger, with the number
and the hash of the last row that the worker has seen.
"""

import fcntl
import hashlib
import json
import os
from pathlib import Path

from dpinfer import persistence
from dpinfer.errors import LedgerError
from dpinfer.privacy.ledger import Ledger

OLD_LEDGER = "the ledger lacks an entry that was in it: an old copy was put back; put the newest one in its place"
_LOCK = "lock"


def extends(folder: Path, ledger_path: str, ledger: Ledger) -> bool:
    """Tell whether a ledger extends its checkpoint, and if so move the checkpoint to its last row.

    A ledger without a checkpoint is taken as it is.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Tables that share a ledger are booked by different processes at once: without the lock the
        # slower one would write back a checkpoint that lacks the entry of the other.
        fcntl.flock(handle, fcntl.LOCK_EX)
        path = folder / f"{hashlib.sha256(ledger_path.encode()).hexdigest()}.json"
        rows = {number: digest for number, _, digest in ledger.chain()}
        last = max(rows)
        if path.exists():
            number, digest = _read(path)
            # Each hash covers all rows before it, so one equal hash means that none was changed.
            if rows.get(number) != digest:
                return False
            if number == last:
                return True
        persistence.write(path, json.dumps({"number": last, "hash": rows[last]}).encode())
        return True
    finally:
        os.close(handle)


def _read(path: Path) -> tuple[int, str]:
    try:
        document = json.loads(path.read_bytes())
        return int(document["number"]), str(document["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerError(
            f"{path} cannot be read, so nobody can tell whether the ledger is the newest one: compare its head with "
            "the one that was kept elsewhere, and take the file away"
        ) from None
