"""Databases in a folder that somebody else writes in, too: what is looked at before one is opened.

SQLite trusts what lies beside a database.  A file NAME-journal is a transaction to be undone, and may
name any other file as one to be deleted afterwards; a link in the place of the database leads
anywhere.  A desk keeps its databases in WAL mode, where neither is ever there; and where another user
writes them he can make nothing beside them (`Folder.share`).
"""

import os
import stat
from pathlib import Path

from dpinfer.errors import LedgerError
from dpinfer.privacy.store import sidecar_files

_FIND_OUT = "take it away while nothing runs, and find out who made it"


def require_plain(path: Path) -> Path:
    """The path of a database that is a plain file with one name, as what SQLite keeps beside it is.

    Guarantee [no_forged_database]: a database in shared/ that is a link, or that has a rollback
    journal beside it, is not opened, so that it leads to no ledger.
    """
    undone = path.with_name(path.name + "-journal")
    if os.path.lexists(undone):
        raise LedgerError(f"{undone} is nothing that a desk makes, so nothing is read: {_FIND_OUT}")
    for place in (path, *sidecar_files(path)):
        try:
            facts = os.lstat(place)
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise LedgerError(
                f"{place} is a link, or no plain file, so nothing is read: {_FIND_OUT}"
            )
    return path
