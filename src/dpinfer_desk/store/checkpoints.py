"""How each ledger stood when the worker saw it last, where the process with the network cannot write.

desk.db knows the questions that were paid; whoever writes into it can make it forget them.  These
files cannot be reached from there: one per ledger, with the number of its last row and its hash.
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


def still_has(folder: Path, book: str, ledger: Ledger) -> bool:
    """Whether a ledger has the row that was its last one, which is its last one from now on.  One
    that was never seen is as it is.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # tables with one ledger book side by side
        place = folder / f"{hashlib.sha256(book.encode()).hexdigest()}.json"
        rows = {number: mark for number, _, mark in ledger.chain()}
        last = max(rows)
        if place.exists():
            number, mark = _read(place)
            if rows.get(number) != mark:
                return False
            if number == last:
                return True
        persistence.write(place, json.dumps({"number": last, "hash": rows[last]}).encode())
        return True
    finally:
        os.close(handle)


def _read(place: Path) -> tuple[int, str]:
    try:
        document = json.loads(place.read_bytes())
        return int(document["number"]), str(document["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerError(
            f"{place} cannot be read, so nobody can tell whether the ledger is the newest one: compare its head with "
            "the one that was kept elsewhere, and take the file away"
        ) from None
