"""An append-only chain of texts, in a file or in memory.

Row 0 is the header; each row's hash covers the one before.

A file is one SQLite database.  Each operation opens its own connection, so threads, forks and
processes share nothing but the file; and no fork happens in the middle of an operation, because
SQLite's locks do not survive one.

A file that its group may write is shared with another user of the system.  Where that one may make no
file beside it, what SQLite keeps there, and would take away with the last connection, stays.
"""

import hashlib
import json
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from dpinfer.errors import LedgerError
from dpinfer.persistence import sync_folder

TIMEOUT = 30.0
"""Seconds to wait for another process's booking."""

LEDGER = "ledger"
"""The kind of a file in error messages, unless another is given."""

_SIDECAR_SUFFIXES = ("-wal", "-shm")

_UNREADY = 5.0  # seconds in which another user gives what is beside a file its rights
_NO_RIGHT = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")

RESTORE = "nothing can be booked in it: put the last good copy in its place"

_TRIGGERS = {
    "rows_stay": "CREATE TRIGGER rows_stay BEFORE DELETE ON chain "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "rows_keep": "CREATE TRIGGER rows_keep BEFORE UPDATE ON chain "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    # INSERT OR REPLACE deletes without asking the trigger above.
    "rows_follow": "CREATE TRIGGER rows_follow BEFORE INSERT ON chain "
    "WHEN NEW.number IS NOT (SELECT coalesce(max(number), -1) + 1 FROM chain) "
    "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
}
_TABLE = "CREATE TABLE chain (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)"
_SELECT = "SELECT number, body, hash FROM chain ORDER BY number"

Row = tuple[int, str, str]
"""Number, text, hash."""

_operation = threading.Lock()  # one at a time in this process, and a fork waits for it
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_operation.acquire,
        after_in_parent=_operation.release,
        after_in_child=_operation.release,
    )


class ConflictingEntryError(Exception):
    """A chain has another text in the place of one that is to be added."""


class MissingEntryError(Exception):
    """A chain lacks texts before one that is to be added."""


class Store(Protocol):
    """The storage of a chain."""

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        ...

    def rows(self) -> list[Row]:
        """Return all rows, oldest first."""
        ...

    def append(self, write: Callable[[list[Row]], str]) -> Row:
        """Add the text that ``write`` makes of the rows so far; no other process writes in between."""
        ...

    def damage(self) -> str:
        """Return what is wrong with the place itself; empty if nothing is."""
        ...


def link(previous: Row | None, body: str) -> Row:
    """Return the row that follows another, or the first one."""
    number, covered = 0, ""
    if previous is not None:
        number, covered = previous[0] + 1, previous[2]
    return number, body, hashlib.sha256(f"{covered}\n{body}".encode()).hexdigest()


def chain_fault(rows: list[Row]) -> str:
    """Return where a chain is broken and how; empty if it is intact."""
    if not rows:
        return "the header is missing"
    previous = None
    for number, row in enumerate(rows):
        name = f"entry {number}" if number else "the header"
        if row[0] != number:
            return f"{name} is missing"
        if row != link(previous, row[1]):
            return f"{name} was changed"
        previous = row
    return ""


def to_jsonl(rows: list[Row]) -> str:
    """Return a chain with its hashes as JSON lines, the header first."""
    records = [{"number": number, "body": body, "hash": digest} for number, body, digest in rows]
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


class MemoryStore:
    """A chain in the memory of one process."""

    path: None = None

    def __init__(self, header: str) -> None:
        self._rows = [link(None, header)]
        self._process = os.getpid()

    def rows(self) -> list[Row]:
        """Return all rows, oldest first."""
        return list(self._rows)

    def append(self, write: Callable[[list[Row]], str]) -> Row:
        """Add a text; a forked process may not, because its copy would be a second budget."""
        if os.getpid() != self._process:
            raise LedgerError(
                "a ledger in memory belongs to the process that made it: use dp.Ledger.create(path)"
            )
        with _operation:
            self._rows.append(link(self._rows[-1], write(self._rows)))
            return self._rows[-1]

    def damage(self) -> str:
        """Return nothing: memory cannot be damaged."""
        return ""


class CopiedStore:
    """A chain as somebody handed it on: to read, and never to add to."""

    path: None = None

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [(int(number), str(body), str(link_)) for number, body, link_ in rows]

    def rows(self) -> list[Row]:
        """Return all rows, oldest first."""
        return list(self._rows)

    def append(self, write: Callable[[list[Row]], str]) -> Row:  # noqa: ARG002
        """Refuse: nothing is booked in a copy, as it would be a second budget."""
        raise LedgerError("this is a copy of a ledger, to read: book in the ledger itself")

    def damage(self) -> str:
        """Return nothing: memory cannot be damaged."""
        return ""


class FileStore:
    """A chain in a SQLite file; ``kind`` names it in error messages."""

    def __init__(self, path: Path, kind: str = LEDGER) -> None:
        self.path = path
        self._kind = kind

    @classmethod
    def create(cls, path: Path, header: str, kind: str = LEDGER) -> "FileStore":
        """Make a new file with a header; an existing one is refused."""
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            raise LedgerError(
                f"{path} exists already: open it with dp.Ledger.open, or choose another name"
            ) from None
        except OSError as fault:
            raise LedgerError(f"no {kind} can be made at {path}: {fault.strerror}") from None
        try:
            with transaction(path, "BEGIN EXCLUSIVE", new=True, kind=kind) as connection:
                for statement in (_TABLE, *_TRIGGERS.values()):
                    connection.execute(statement)
                connection.execute("INSERT INTO chain VALUES (?, ?, ?)", link(None, header))
            sync_folder(path.parent)
        except LedgerError:
            path.unlink()
            raise
        return cls(path, kind)

    def rows(self) -> list[Row]:
        """Return all rows, oldest first."""
        with transaction(self.path, "BEGIN", kind=self._kind) as connection:
            return _rows(connection)

    def last(self) -> Row:
        """Return the last row, without the others."""
        with transaction(self.path, "BEGIN", kind=self._kind) as connection:
            return self._last(connection)

    def _last(self, connection: sqlite3.Connection) -> Row:
        row = connection.execute(f"{_SELECT} DESC LIMIT 1").fetchone()
        if row is None:
            raise LedgerError(f"the {self._kind} {self.path} has no header, and {RESTORE}")
        number, body, mark = row
        return number, body, mark

    def newest(self, limit: int, where: str = "1", values: Sequence[object] = ()) -> list[str]:
        """Return the texts of at most ``limit`` rows that fulfil a condition in SQL, the newest first.

        The header is no such row, and hashes are not checked: `chain_fault` does that for all rows.
        """
        statement = (
            f"SELECT body FROM chain WHERE number > 0 AND ({where}) ORDER BY number DESC LIMIT ?"
        )
        with transaction(self.path, "BEGIN", kind=self._kind) as connection:
            return [body for (body,) in connection.execute(statement, (*values, limit))]

    def append(self, write: Callable[[list[Row]], str]) -> Row:
        """Add a text and wait until it is on the disk."""
        with transaction(self.path, "BEGIN IMMEDIATE", kind=self._kind) as connection:
            rows = _rows(connection)
            body = write(rows)  # refuses, where the rows are gone, before the last one is asked for
            row = link(rows[-1], body)
            connection.execute("INSERT INTO chain VALUES (?, ?, ?)", row)
        return row

    def extend(self, texts: Iterable[tuple[int, str]]) -> None:
        """Add texts that have numbers, each after the one before it, whatever the length of the chain.
        One that is there already is passed over; `ConflictingEntryError` where another one has its number,
        `MissingEntryError` where one before it is missing.
        """
        with transaction(self.path, "BEGIN IMMEDIATE", kind=self._kind) as connection:
            last = self._last(connection)
            for number, text in texts:
                if number > last[0] + 1:
                    raise MissingEntryError
                if number == last[0] + 1:
                    last = link(last, text)
                    connection.execute("INSERT INTO chain VALUES (?, ?, ?)", last)
                    continue
                there = "SELECT body FROM chain WHERE number = ?"
                if connection.execute(there, (number,)).fetchone() != (text,):
                    raise ConflictingEntryError

    def damage(self) -> str:
        """Return what SQLite finds wrong with the file, and whether the rules that keep it
        append-only are in place.
        """
        with transaction(self.path, "BEGIN", kind=self._kind) as connection:
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            rules = dict(
                connection.execute(
                    "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
                ).fetchall()
            )
        if verdict != "ok":
            return "the file is damaged"
        return "" if rules == _TRIGGERS else "the rules that keep it append-only were changed"


def _rows(connection: sqlite3.Connection) -> list[Row]:
    return connection.execute(_SELECT).fetchall()


@contextmanager
def transaction(
    path: Path, begin: str, *, new: bool = False, kind: str = LEDGER
) -> Iterator[sqlite3.Connection]:
    """Open a connection inside a transaction, which is committed to the disk at the end; whatever fails is
    a `LedgerError`.  One does not go inside another.
    """
    with _operation:
        try:
            if not path.exists():
                remedy = "make one with dp.Ledger.create" if kind == LEDGER else "check the path"
                raise LedgerError(f"there is no {kind} at {path}: {remedy}")
            shared = bool(path.stat().st_mode & stat.S_IWGRP)
            try:
                with closing(_begun(path, begin, new, _UNREADY if shared else 0.0)) as connection:
                    yield connection
                    connection.execute("COMMIT")
                    if shared:
                        _empty_log(connection)
            finally:
                if shared:
                    keep_sidecar_files(path)
        except (sqlite3.Error, UnicodeError, OSError) as fault:  # a damaged file has odd words, too
            raise LedgerError(_explained(path, kind, fault)) from None


def _begun(path: Path, begin: str, new: bool, patience: float) -> sqlite3.Connection:
    """Open a connection inside a transaction.  Who has no right to what is beside the file looks
    again for some time: another user may be about to make it.
    """
    deadline = time.monotonic() + patience
    while True:
        address = f"{path.as_uri()}?mode=rw"
        connection = sqlite3.connect(address, timeout=TIMEOUT, isolation_level=None, uri=True)
        try:
            if new:
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(begin)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the rest
        except sqlite3.Error as fault:
            connection.close()
            if not _name(fault).startswith(_NO_RIGHT) or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return connection


def _empty_log(connection: sqlite3.Connection) -> None:
    """Move all that was committed into the file itself, unless it is being read.

    A copy that is put in its place must not be read with an old log.
    """
    with suppress(sqlite3.Error):  # it is committed, whatever becomes of this
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def sidecar_files(path: Path) -> tuple[Path, ...]:
    """Return the files that SQLite keeps beside a file."""
    return tuple(path.with_name(path.name + ending) for ending in _SIDECAR_SUFFIXES)


def keep_sidecar_files(path: Path) -> None:
    """Make what SQLite needs beside a file whose group may write it and not its folder."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return
    if path.parent.stat().st_mode & stat.S_IWGRP or not facts.st_mode & stat.S_IWGRP:
        return
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    for sidecar in sidecar_files(path):
        with suppress(FileExistsError, PermissionError):
            handle = os.open(sidecar, flags, 0o600)
            try:
                if os.geteuid() == 0:
                    os.fchown(handle, facts.st_uid, facts.st_gid)
                os.fchmod(handle, stat.S_IMODE(facts.st_mode))
            finally:
                os.close(handle)


def _explained(path: Path, kind: str, fault: Exception) -> str:
    name = _name(fault)
    if name.startswith("SQLITE_BUSY"):
        return f"the {kind} {path} is locked for more than {TIMEOUT:g} s: wait for the other process, or end it"
    if name.startswith(_NO_RIGHT):
        return f"the {kind} {path} cannot be written: allow writing to the file and to its folder"
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return f"the disk did not take the entry for the {kind} {path}: make room and try again"
    return f"{path} is not a {kind}, or it is damaged, and {RESTORE}"


def _name(fault: Exception) -> str:
    return getattr(fault, "sqlite_errorname", "") or ""
