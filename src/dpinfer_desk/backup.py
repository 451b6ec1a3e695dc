"""A copy of a desk and its ledgers, made while both are at work."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from dpinfer import persistence
from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.store import transaction
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.folder import SECRET, SETTINGS
from dpinfer_desk.store.register import mark_as_copy
from dpinfer_desk.store.regular_files import require_plain

_LAST = "last-backup.json"  # in the folder of the desk


def back_up(desk: Desk, out: Path) -> dict[str, str]:
    """Copy settings, secret, people, questions, journal, results and ledgers into a new folder; the
    heads, by name, to be kept elsewhere.

    The journal is copied before desk.db, so that desk.db lacks no event of it.  No record is copied,
    and no session, token or invitation: one that is revoked later would be good again.  The copy says
    that it is one, and is opened as an old copy alone.
    """
    if out.exists():
        raise InputError(f"{str(out)!r} is there already: name a new folder for each backup")
    persistence.prepare(out.parent)
    out.mkdir(mode=0o700)
    shared = out / desk.folder.shared.name
    shared.mkdir()
    for source in (desk.folder.journal, desk.folder.database):
        _copied(source, shared / source.name)
    mark_as_copy(shared / desk.folder.database.name)
    for name in (SETTINGS, SECRET):
        shutil.copy2(desk.folder.path / name, out / name)
    shutil.copytree(desk.folder.results, out / desk.folder.results.name)
    for part in (desk.folder.accounts, desk.folder.locks, desk.folder.logs):
        (out / part.name).mkdir()
    (out / "ledgers").mkdir()
    for table in desk.tables():
        table.ledger()  # one that is broken is no backup
        _copied(Path(table.book), out / "ledgers" / f"{table.name}.db")
    persistence.sync_folder(out)
    heads = desk.heads()
    content = json.dumps({"time": desk.clock().isoformat(), "heads": heads})
    persistence.write(desk.folder.path / _LAST, content.encode())
    return heads


def last_backup(desk: Desk) -> datetime | None:
    """When a backup was made last; None where there was none."""
    try:
        document = json.loads((desk.folder.path / _LAST).read_bytes())
        return datetime.fromisoformat(document["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _copied(source: Path, target: Path) -> None:
    """A copy of a SQLite file at one moment, whoever writes in it meanwhile."""
    require_plain(source)
    try:
        with (
            transaction(source, "BEGIN", kind=source.name) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except (sqlite3.Error, LedgerError):
        raise LedgerError(f"{source} could not be copied: see whether the disk has room") from None
    os.chmod(target, 0o600)
