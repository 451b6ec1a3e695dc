"""Databases in a folder that another user writes in, too: the checks before one is opened.

SQLite trusts the files beside a database.  A file NAME-journal is a transaction to roll back, and may
name any other file to be deleted afterwards; a link in the place of the database leads anywhere.  A
desk keeps its databases in WAL mode, which makes neither; and the other user can make no file beside
them (`Folder.share`).
"""

import os
import stat
from pathlib import Path

from dpinfer.errors import LedgerError
from dpinfer.privacy.store import sidecar_files

_FIND_OUT = "take it away while nothing runs, and find out who made it"


def require_regular_file(path: Path) -> Path:
    """Return the path of a database if it and the files of SQLite beside it are regular, with one name.

    Guarantee [no_forged_database]: a database in shared/ that is a link, or that has a rollback
    journal beside it, is not opened, so that it leads to no ledger.
    """
    rollback_journal = path.with_name(path.name + "-journal")
    if os.path.lexists(rollback_journal):
        raise LedgerError(
            f"{rollback_journal} is no file of a desk, so nothing is read: {_FIND_OUT}"
        )
    for one in (path, *sidecar_files(path)):
        try:
            facts = os.lstat(one)
        except FileNotFoundError:
            continue
        # A second name (hard link) could be in a folder where somebody else may write.
        if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
            raise LedgerError(
                f"{one} is a link, or no regular file, so nothing is read: {_FIND_OUT}"
            )
    return path
