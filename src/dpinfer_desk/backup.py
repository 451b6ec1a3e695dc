"""Backups of a desk and its ledgers, made while both are in use."""

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
from dpinfer_desk.store.regular_files import require_regular_file

_LAST = "last-backup.json"  # in the folder of the desk


def back_up(desk: Desk, out: Path) -> dict[str, str]:
    """Copy a desk into a new folder, and return the heads of journal and ledgers, to store elsewhere.

    Settings, secret, desk.db, journal, results and ledgers are copied, and no record.  The copy is
    marked as a backup and has no session, token or invitation: one that is revoked later would be
    valid again.
    """
    if out.exists():
        raise InputError(f"{str(out)!r} exists already: name a new folder for each backup")
    persistence.prepare(out.parent)
    out.mkdir(mode=0o700)
    shared = out / desk.folder.shared.name
    shared.mkdir()
    # The journal first: an event between the two copies is then in desk.db, which may be ahead of its
    # journal, and never behind.
    for source in (desk.folder.journal, desk.folder.database):
        _copy(source, shared / source.name)
    mark_as_copy(shared / desk.folder.database.name)
    for name in (SETTINGS, SECRET):
        shutil.copy2(desk.folder.path / name, out / name)
    for part in (desk.folder.results, desk.folder.releases):
        if part.exists():  # a desk of an older version has no releases
            shutil.copytree(part, out / part.name)
    for part in (desk.folder.accounts, desk.folder.locks, desk.folder.logs):
        (out / part.name).mkdir()
    (out / "ledgers").mkdir()
    for table in desk.tables():
        table.ledger()  # a LedgerError here is better than a backup of a broken ledger
        _copy(Path(table.ledger_path), out / "ledgers" / f"{table.name}.db")
    persistence.sync_folder(out)
    heads = desk.heads()
    content = json.dumps({"time": desk.clock().isoformat(), "heads": heads})
    persistence.write(desk.folder.path / _LAST, content.encode())
    return heads


def last_backup(desk: Desk) -> datetime | None:
    """Return the time of the last backup; None if there was none."""
    try:
        document = json.loads((desk.folder.path / _LAST).read_bytes())
        return datetime.fromisoformat(document["time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _copy(source: Path, target: Path) -> None:
    # SQLite's own backup: copying the file would mix states, as other processes write in it.
    require_regular_file(source)
    try:
        with (
            transaction(source, "BEGIN", kind=source.name) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except (sqlite3.Error, LedgerError):
        raise LedgerError(f"{source} could not be copied: see whether the disk has room") from None
    os.chmod(target, 0o600)
