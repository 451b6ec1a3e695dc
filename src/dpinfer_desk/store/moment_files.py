"""Moment releases of registered tables: files that a steward has published at a desk, each checked against the ledger.

    releases/TABLE/RELEASE.json    a file of `dpinfer moments release`, named after its entry in the ledger

The process with the network reads these files; it opens neither data nor ledgers for them.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.moment_release.released_moments import MomentRelease
from dpinfer.privacy.entries import Entry
from dpinfer_desk.store.folder import Folder
from dpinfer_desk.store.journal import Event
from dpinfer_desk.store.tables import RegisteredTable

PUBLISHED = "a moment release was published"
"""The event in the journal, with the table, the release and the hash of its file."""
_MISSING = "its file is missing"
_MAX_BYTES = 64 * 2**20
_KEPT = 8  # releases in memory: one of 60 columns takes up to 70 MB once it has answered
_READING = Lock()


def require_paid(table: RegisteredTable, release: MomentRelease) -> None:
    """Refuse a release that the ledger of a table did not pay for, or that is about other columns.

    Guarantee [published_moments_are_booked]: a moment release is published at a desk only if the
    ledger of its table has its entry, with the same columns, releases, unit and adjacency, for the
    schema that was registered.
    """
    privacy = release.privacy
    if not privacy.private:
        raise InputError(
            "the release was made with a seed or without noise: it must not be published"
        )
    ledger = table.ledger()
    entries = [one for one in ledger.entries() if one.release == privacy.release]
    if not entries:
        raise InputError(
            f"the release is not in the ledger of {table.name}: make it with --ledger and the ledger of this table"
        )
    if not _same(entries[0], release) or entries[0].schema != table.schema.digest():
        raise InputError(
            f"the release differs from its entry in the ledger of {table.name}, or was made with another schema: "
            "publish the file that dpinfer moments release wrote with the registered schema"
        )
    if ledger.neighbours.counted and release.n != table.records:
        raise InputError(
            f"the release is of another number of {table.schema.unit.word} than the table: "
            "make it from the registered files"
        )


def _same(entry: Entry, release: MomentRelease) -> bool:
    privacy = release.privacy
    booked = (entry.purpose, entry.events, entry.unit, entry.neighbours, entry.schema)
    return booked == (
        f"moments of {release.declared}",
        privacy.events,
        privacy.unit,
        privacy.neighbours,
        release.schema.digest(),
    )


def path_of(folder: Folder, table: str, release: str) -> Path:
    """Return the path of a published release."""
    return folder.releases / table / f"{release}.json"


def store(folder: Folder, table: str, release: MomentRelease) -> str:
    """Write a release into the folder of a desk, and return the hash of its file."""
    path = path_of(folder, table, release.privacy.release or "")
    results = folder.results.stat()
    for part in (folder.releases, path.parent):
        if not part.exists():
            part.mkdir()
            # the process with the network reads it as it reads results
            os.chown(part, -1, results.st_gid)
            shutil.copymode(folder.results, part)
    content = release.to_json().encode()
    persistence.write(path, content)
    return hashlib.sha256(content).hexdigest()


def published(folder: Folder, table: str) -> list[MomentRelease]:
    """Return the releases of a table, the newest first.

    A file that cannot be read, such as one of another version, hides no other: the verification reports it.
    """
    files = (folder.releases / table).glob("*.json")
    found = []
    for path in sorted(files, key=lambda path: -path.stat().st_mtime_ns):
        with suppress(InputError, OSError, UnicodeDecodeError):
            found.append(_read(path))
    return found


def find(folder: Folder, table: str, release: str) -> MomentRelease | None:
    """Return a published release of a table; None if there is none that can be read.

    No path is made of ``release``, which is what somebody asked for.
    """
    with suppress(InputError, OSError, UnicodeDecodeError):
        for path in (folder.releases / table).glob("*.json"):
            if path.stem == release:
                found = _read(path)
                return found if found.privacy.release == release else None
    return None


def _read(path: Path) -> MomentRelease:
    facts = path.stat()
    if facts.st_size > _MAX_BYTES:
        raise InputError(f"the release {path.stem[:12]} is too large to be read")
    # one at a time: threads that ask for the same file wait for the one that reads it
    with _READING:
        return _parsed(path, (facts.st_ino, facts.st_mtime_ns, facts.st_size))


@lru_cache(maxsize=_KEPT)
def _parsed(path: Path, _: tuple[int, int, int]) -> MomentRelease:
    # cached by inode, time and size: a page asks many times for the same file
    return MomentRelease.from_json(path.read_text(encoding="utf-8"))


def faults_of_releases(
    folder: Folder, tables: Sequence[RegisteredTable], events: Sequence[Event]
) -> Iterator[str]:
    """Yield what is wrong with published releases: files that were changed, or that nobody published."""
    known = {table.name: table for table in tables}
    booked = [event.facts for event in events if event.action == PUBLISHED]
    expected = {path_of(folder, one["table"], one["release"]): one for one in booked}
    for path, facts in expected.items():
        fault = _fault(path, known.get(facts["table"]), facts["file"])
        if fault:
            yield f"the moment release {facts['release'][:12]} of {facts['table']}: {fault}"
    for path in sorted(folder.releases.glob("*/*")):
        if path not in expected:
            yield f"releases/{path.parent.name}/{path.name} was not published by a steward"


def _fault(path: Path, table: RegisteredTable | None, digest: str) -> str:
    if not path.is_file():
        return _MISSING
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        return "its file was changed"
    if table is None:
        return "there is no such table"
    try:
        require_paid(table, _read(path))
    except InputError as fault:
        return str(fault)
    return ""
