"""desk.db: persons, accounts, tables, allowances and questions, with an event for each change.

Every change is one transaction that also stores its event.  The journal copies the events afterwards:
in this order a crash loses no event, and the journal has none of a change that did not happen.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.store import transaction
from dpinfer_desk.store.folder import Folder
from dpinfer_desk.store.journal import Event, Journal
from dpinfer_desk.store.regular_files import require_regular_file
from dpinfer_desk.store.roles import Person
from dpinfer_desk.store.tables import Fingerprint, Policy, RegisteredTable, table_named
from dpinfer_desk.store.tickets import (
    ASKED,
    BOOKED_STATE,
    FAILED,
    FREE,
    OPEN,
    PAID,
    SETTLED,
    ConflictError,
    Ticket,
    UnconfirmedError,
    ticket_named,
)

_LABEL = "desk"  # in messages
OTHER_QUESTION = "this key was used for another question: give a question of its own a new key"
_VERSION = 1
_MIN_PREFIX = 4  # letters of an id that are enough to name a question
_SCHEMA = (
    "CREATE TABLE people (name TEXT PRIMARY KEY, words TEXT NOT NULL, added TEXT NOT NULL)",
    "CREATE TABLE tables (name TEXT PRIMARY KEY, place TEXT NOT NULL, book TEXT NOT NULL, text TEXT NOT NULL, "
    "records INTEGER, approval TEXT NOT NULL, up_to REAL NOT NULL, shared INTEGER NOT NULL, "
    "fingerprint TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, added TEXT NOT NULL, seal TEXT NOT NULL, "
    "max_rows INTEGER, max_unit_rows INTEGER)",
    "CREATE TABLE allowances (tab TEXT NOT NULL REFERENCES tables, person TEXT NOT NULL REFERENCES people, "
    "amount REAL NOT NULL, state TEXT NOT NULL, PRIMARY KEY (tab, person))",
    "CREATE TABLE questions (id TEXT PRIMARY KEY, tab TEXT NOT NULL, asker TEXT NOT NULL, key TEXT NOT NULL, "
    "question TEXT NOT NULL, cost REAL NOT NULL, state TEXT NOT NULL, asked TEXT NOT NULL, "
    "decided TEXT NOT NULL DEFAULT '', decider TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '', "
    "slot REAL, booked TEXT NOT NULL DEFAULT '', release TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE slots (tab TEXT NOT NULL, digest TEXT NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (tab, digest))",
    "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL)",
    "CREATE TABLE accounts (person TEXT PRIMARY KEY REFERENCES people, role TEXT NOT NULL, opened TEXT NOT NULL, "
    "salt BLOB, password BLOB, invitation TEXT UNIQUE, invited TEXT NOT NULL DEFAULT '')",
    "CREATE TABLE sessions (mark TEXT PRIMARY KEY, person TEXT NOT NULL, opened TEXT NOT NULL, seen TEXT NOT NULL)",
    "CREATE TABLE tokens (id TEXT PRIMARY KEY, mark TEXT NOT NULL UNIQUE, person TEXT NOT NULL, name TEXT NOT NULL, "
    "scopes TEXT NOT NULL, made TEXT NOT NULL, ends TEXT NOT NULL, seen TEXT NOT NULL, maker TEXT NOT NULL)",
    f"PRAGMA user_version = {_VERSION}",
)
_NEW_COLUMNS = ("max_rows", "max_unit_rows")
"""Columns of ``tables`` that a desk.db of an older version lacks, in their order."""
_COPY = 0x636F7079  # "copy", in the header of a desk.db that was made by a backup
_END_ACCESS = (
    "DELETE FROM sessions",
    "DELETE FROM tokens",
    "UPDATE accounts SET invitation = NULL, invited = ''",
)
_TICKET = "id, tab, asker, key, question, cost, state, asked, decided, decider, reason, slot, booked, release"


class Change:
    """A transaction that changes desk.db: SQL statements, and the events that they amount to."""

    def __init__(self, connection: sqlite3.Connection, who: str, time: str) -> None:
        self.connection = connection
        self._who = who
        self._time = time

    def __call__(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        return self.connection.execute(statement, values)

    def event(self, action: str, **facts: Any) -> None:
        """Store the event of this change."""
        cursor = self("INSERT INTO events (body) VALUES ('')")
        number = cursor.lastrowid
        assert number is not None
        text = Event(number, self._time, self._who, action, facts).text()
        self("UPDATE events SET body = ? WHERE number = ?", text, number)


class Register:
    """desk.db and its journal; if ``public``, tables have the published copies of their ledgers.

    Guarantee [no_path_from_desk_db]: an id or a name of a table that is no plain word, whoever wrote
    it into desk.db, is refused before a path is made of it.
    """

    def __init__(
        self, folder: Folder, journal: Journal, clock: Callable[[], datetime], *, public: bool
    ) -> None:
        self._folder = folder
        self._journal = journal
        self._clock = clock
        self._public = public

    @property
    def _path(self) -> Path:
        # Checked at each access, as another user writes in the folder at any time.
        return require_regular_file(self._folder.database)

    def make(self) -> None:
        """Make the file of a new desk."""
        self._path.touch(exist_ok=False)
        with transaction(self._path, "BEGIN EXCLUSIVE", new=True, kind=_LABEL) as connection:
            for statement in _SCHEMA:
                connection.execute(statement)

    def now(self) -> datetime:
        """Return the time by the clock of the desk."""
        return self._clock()

    def lacking(self) -> int:
        """Return how many events of the journal desk.db lacks; if it lacks some, it is an old copy."""
        return max(0, self._journal.last() - self._last())

    def is_copy(self) -> bool:
        """Tell whether desk.db was made by a backup and has not been accepted since."""
        with self.read() as sql:
            (application,) = sql("PRAGMA application_id").fetchone()
            return bool(application == _COPY)

    def _last(self) -> int:
        with self.read() as sql:
            (number,) = sql("SELECT coalesce(max(number), 0) FROM events").fetchone()
            return int(number)

    @contextmanager
    def read(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Open a transaction that reads; it yields a function that executes a statement."""
        with transaction(self._path, "BEGIN", kind=_LABEL) as connection:
            yield lambda statement, *values: connection.execute(statement, values)

    @contextmanager
    def write(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Open a transaction that changes desk.db without an event in the journal."""
        with transaction(self._path, "BEGIN IMMEDIATE", kind=_LABEL) as connection:
            yield lambda statement, *values: connection.execute(statement, values)

    @contextmanager
    def change(self, who: str, *, old_copy: bool = False) -> Iterator[Change]:
        """Open a transaction that changes desk.db with its events, then copy these to the journal.

        Guarantee [no_old_desk]: nothing is changed in a desk.db that lacks the last event of the
        journal, also if it was put back while the desk is open.
        """
        last = self._journal.last_event()
        with transaction(self._path, "BEGIN IMMEDIATE", kind=_LABEL) as connection:
            if not old_copy:
                _require_event(connection, last)
            connection.execute("PRAGMA foreign_keys = ON")
            yield Change(connection, who, self._clock().isoformat())
        # The change is committed.  If the journal cannot take its events now, it does so at the next
        # change, or when the desk is opened again: a fault here must not look like a failed change.
        with suppress(LedgerError):
            self.catch_up()

    def require_newest(self) -> None:
        """Raise `LedgerError` if an old desk.db was put back."""
        last = self._journal.last_event()
        with transaction(self._path, "BEGIN", kind=_LABEL) as connection:
            _require_event(connection, last)

    def upgrade(self) -> None:
        """Add the columns that a desk.db of an older version lacks, without a value."""
        with self.read() as sql:
            if not _lacking_columns(sql):
                return
        with self.write() as sql:
            # Asked again in this transaction, as another process may have added them meanwhile.
            for column in _lacking_columns(sql):
                sql(f"ALTER TABLE tables ADD COLUMN {column} INTEGER")

    def catch_up(self) -> None:
        """Copy the events that the journal lacks."""
        last = self._journal.last()
        with self.read() as sql:
            rows = sql("SELECT body FROM events WHERE number > ? ORDER BY number", last).fetchall()
        self._journal.take(Event.of(body) for (body,) in rows)

    def accept_old_copy(self, who: str) -> int:
        """Go on with an old copy of desk.db, and return how many events it lacks.

        The events are copied from the journal as history; their changes are not repeated.
        """
        number = self.lacking()
        known = {event.number: event.text() for event in self._journal.events()}
        first = self._last() + 1
        with self.change(who, old_copy=True) as change:
            for missing in range(first, first + number):
                change("INSERT INTO events VALUES (?, ?)", missing, known[missing])
            # Some of the sessions, tokens and invitations in an old copy were revoked since, and nobody
            # can tell which.
            for statement in (*_END_ACCESS, "PRAGMA application_id = 0"):
                change(statement)
            change.event("an old copy of desk.db was accepted", lacks=number)
        return number

    # Persons, tables, allowances

    def persons(self) -> list[Person]:
        """Return all persons, by name."""
        with self.read() as sql:
            rows = sql("SELECT name, words, added FROM people ORDER BY name").fetchall()
        return [Person(*row) for row in rows]

    def tables(self) -> list[RegisteredTable]:
        """Return all tables, by name."""
        with self.read() as sql:
            rows = sql("SELECT * FROM tables ORDER BY name").fetchall()
        return [self._table(row) for row in rows]

    def table(self, name: str) -> RegisteredTable:
        """Return a table by its name; `InputError` if there is none."""
        with self.read() as sql:
            row = sql("SELECT * FROM tables WHERE name = ?", name).fetchone()
        if row is None:
            raise InputError(f"there is no table {name!r} at this desk: see `dpinfer desk list`")
        return self._table(row)

    def _table(self, row: tuple[Any, ...]) -> RegisteredTable:
        name, data_path, ledger_path, schema_text, records, approval, up_to, shared, *rest = row
        fingerprint, state, reason, added, seal, max_rows, max_unit_rows = rest
        _require_names(table_named, name)
        return RegisteredTable(
            name=name,
            data_path=data_path,
            ledger_path=ledger_path,
            schema_text=schema_text,
            records=records,
            policy=Policy(approval, up_to, bool(shared)),
            fingerprint=Fingerprint.read(fingerprint),
            secret=self._folder.secret,
            state=state,
            reason=reason,
            added=added,
            seal=seal,
            published=self._folder.account(name) if self._public else None,
            max_rows=max_rows,
            max_unit_rows=max_unit_rows,
        )

    def allowances(self, table: str) -> dict[str, tuple[float, str]]:
        """Return amount and state of each allowance at a table, by person."""
        with self.read() as sql:
            rows = sql(
                "SELECT person, amount, state FROM allowances WHERE tab = ? ORDER BY person", table
            ).fetchall()
        return {person: (amount, state) for person, amount, state in rows}

    # Questions

    def tickets(self, where: str = "1", *values: Any) -> list[Ticket]:
        """Return the questions that fulfil a condition in SQL, in the order in which they were asked."""
        with self.read() as sql:
            rows = sql(
                f"SELECT {_TICKET} FROM questions WHERE {where} ORDER BY asked, rowid", *values
            ).fetchall()
        return [_ticket(row) for row in rows]

    def ticket(self, name: str) -> Ticket:
        """Return a question by its id, the beginning of it, or the key of its analyst."""
        # The id comes first: an analyst chooses the key, and could choose the id of somebody else.
        matches = self.tickets("id = ?", name)
        if not matches and len(name) >= _MIN_PREFIX:
            matches = self.tickets("substr(id, 1, ?) = ?", len(name), name)
        if not matches:
            matches = self.tickets("key = ?", name)
        if len(matches) > 1:
            raise InputError(f"{name!r} names {len(matches)} questions: name one by its id")
        if not matches:
            raise InputError(f"there is no question {name!r} at this desk: see `dpinfer desk list`")
        return matches[0]

    def open_numbers(self, table: str, person: str) -> tuple[int, int]:
        """Return how many questions of a person, and of all, are open at a table."""
        with self.read() as sql:
            return _open_numbers(sql, table, person)

    def add(
        self, ticket: Ticket, who: str, limits: tuple[int, int], *, again: bool = False
    ) -> tuple[Ticket, bool]:
        """Store a new question; return it, or the stored one of the same id, and whether it is new.

        A question that ended without being paid is asked anew.  ``limits`` bound the open questions of
        a person and of a table.  Without ``again`` the same question is not asked a second time while
        it is open or booked, or after it was answered.
        """
        # One transaction, so that of two requests with one key the second finds the question of the first,
        # and the limits hold however many are sent at once.
        with self.change(who) as change:
            row = change(f"SELECT {_TICKET} FROM questions WHERE id = ?", ticket.id).fetchone()
            stored = None if row is None else _ticket(row)
            if stored is None or stored.state in FREE:
                self._require_new(change, ticket, again)
                numbers = _open_numbers(change, ticket.table, ticket.by)
                full = limit_reason(ticket.table, ticket.by, numbers, limits)
                if full:
                    raise ConflictError(full)
                change("DELETE FROM questions WHERE id = ?", ticket.id)
                insert(change, ticket)
                facts: dict[str, Any] = {"table": ticket.table, "state": ticket.state}
                if stored is None:
                    facts |= {"by": ticket.by, "keys": ticket.question.keys()}
                change.event("asked", question=ticket.id, **facts)
                return ticket, True
        if stored.question.digest() != ticket.question.digest():
            raise ConflictError(OTHER_QUESTION)
        return stored, False

    def _require_new(self, change: Change, ticket: Ticket, again: bool) -> None:
        """Raise `ConflictError` if the analyst has asked the same question under another key."""
        if again:
            return
        rows = change(
            f"SELECT {_TICKET} FROM questions WHERE tab = ? AND asker = ? AND id != ?",
            *(ticket.table, ticket.by, ticket.id),
        ).fetchall()
        digest = ticket.question.digest()
        for row in rows:
            # The state that is shown, not the stored one, which would tell whether the fit has ended.
            there = _ticket(row).as_shown(self._clock())
            if there.state in ASKED and there.question.digest() == digest:
                raise UnconfirmedError(
                    f"the same question was asked already, as {there.id[:12]}, and would be paid twice: to ask "
                    "and pay again, confirm it",
                    "again",
                )

    def move(
        self, name: str, from_: tuple[str, ...], to: str, who: str, **columns: Any
    ) -> Ticket | None:
        """Move a question from one of some states to another; None if it is in none of them.

        ``columns`` are set with the state, and are the facts of the event.
        """
        # The condition on the state is part of the statement: of two that move a question at once, such as
        # a worker that claims it and an analyst who withdraws it, one gets None.
        names = ", ".join(f"{column} = ?" for column in ("state", *columns))
        with self.change(who) as change:
            cursor = change(
                f"UPDATE questions SET {names} WHERE id = ? AND state IN {_placeholders(from_)}",
                *(to, *columns.values(), name, *from_),
            )
            if cursor.rowcount == 0:
                return None
            change.event(to, question=name, **columns)
            row = change(f"SELECT {_TICKET} FROM questions WHERE id = ?", name).fetchone()
        return _ticket(row)

    def settle(self, name: str, outcome: str) -> None:
        """Store the outcome of a question that was booked; after its answer time that is "lost".

        It is no event yet: in the journal it would be public before the answer time.
        """
        with self.write() as sql:
            row = sql(
                f"SELECT {_TICKET} FROM questions WHERE id = ? AND state = ?", name, BOOKED_STATE
            ).fetchone()
            if row is None:
                return
            due = _ticket(row).due
            in_time = due is not None and self._clock() < due
            sql(
                "UPDATE questions SET state = ? WHERE id = ?",
                *(outcome if in_time else FAILED, name),
            )

    def mark_paid(self, name: str, entry: Entry, outcome: str, response_time: float) -> None:
        """Mark a question as paid that has an entry in the ledger, which decides, and not in desk.db.

        ``response_time`` is for a question that has none.
        """
        with self.change("worker") as change:
            change(
                "UPDATE questions SET state = ?, booked = ?, release = ?, slot = coalesce(slot, ?) "
                f"WHERE id = ? AND state NOT IN {_placeholders(PAID)}",
                *(outcome, entry.time, entry.release, response_time, name, *PAID),
            )
            change.event(BOOKED_STATE, question=name, booked=entry.time, release=entry.release)

    def paid(self, ledger_path: str) -> list[str]:
        """Return the questions that desk.db knows as paid from a ledger, whatever the ledger says."""
        with self.read() as sql:
            rows = sql(
                "SELECT id FROM questions JOIN tables ON tables.name = questions.tab "
                f"WHERE tables.book = ? AND questions.state IN {_placeholders(PAID)}",
                *(ledger_path, *PAID),
            ).fetchall()
        return [name for (name,) in rows]

    def show(self, name: str, state: str) -> None:
        """Make the outcome of a question public, at its answer time, with an event."""
        self.move(name, tuple(SETTLED), state, "worker")

    def set_response_time(self, table: str, digest: str, seconds: float) -> None:
        """Store the response time of a question at a table, by its digest."""
        with self.change("worker") as change:
            change("INSERT OR REPLACE INTO slots VALUES (?, ?, ?)", table, digest, seconds)
            change.event("slot", table=table, digest=digest, seconds=seconds)

    def response_time(self, table: str, digest: str) -> float | None:
        """Return the response time of a question at a table in seconds; None if it is not known yet."""
        with self.read() as sql:
            row = sql(
                "SELECT seconds FROM slots WHERE tab = ? AND digest = ?", table, digest
            ).fetchone()
        return None if row is None else float(row[0])


def _lacking_columns(sql: Callable[..., sqlite3.Cursor]) -> list[str]:
    there = {name for _, name, *_ in sql("PRAGMA table_info(tables)")}
    return [column for column in _NEW_COLUMNS if column not in there]


def _require_event(connection: sqlite3.Connection, last: tuple[int, str]) -> None:
    """Raise `LedgerError` unless the last event of the journal is in desk.db, word for word."""
    number, text = last
    row = connection.execute("SELECT body FROM events WHERE number = ?", (number,)).fetchone()
    if number and (row is None or row[0] != text):
        raise LedgerError(
            "desk.db lacks events that are in journal.db: an old copy was put back; put the newest one in its place, "
            "or see `dpinfer desk verify`"
        )


def mark_as_copy(path: Path) -> None:
    """Mark a copy of desk.db as a backup, and end the sessions, tokens and invitations in it."""
    with transaction(path, "BEGIN IMMEDIATE", kind=_LABEL) as connection:
        for statement in (*_END_ACCESS, f"PRAGMA application_id = {_COPY}"):
            connection.execute(statement)


def insert_table(change: Change, table: RegisteredTable) -> None:
    """Store a new table."""
    values = {
        "name": table.name,
        "place": table.data_path,
        "book": table.ledger_path,
        "text": table.schema_text,
        "records": table.records,
        "approval": table.policy.approval,
        "up_to": table.policy.up_to,
        "shared": int(table.policy.shared),
        "fingerprint": table.fingerprint.text(),
        "state": table.state,
        "reason": table.reason,
        "added": table.added,
        "seal": table.seal,
        "max_rows": table.max_rows,
        "max_unit_rows": table.max_unit_rows,
    }
    _insert(change, "tables", values)


def insert(change: Change, ticket: Ticket) -> None:
    """Store a question, with all its columns."""
    values = {
        "id": ticket.id,
        "tab": ticket.table,
        "asker": ticket.by,
        "key": ticket.key,
        "question": json.dumps(ticket.question.keys()),
        "cost": ticket.cost,
        "state": ticket.state,
        "asked": ticket.asked,
        "decided": ticket.decided,
        "decider": ticket.decider,
        "reason": ticket.reason,
        "slot": ticket.response_time,
        "booked": ticket.booking_time,
        "release": ticket.release,
    }
    _insert(change, "questions", values)


def _insert(change: Change, into: str, values: dict[str, Any]) -> None:
    named = ", ".join(f":{name}" for name in values)
    change.connection.execute(f"INSERT INTO {into} ({', '.join(values)}) VALUES ({named})", values)


def _placeholders(values: tuple[str, ...]) -> str:
    return f"({', '.join('?' for _ in values)})"


def _open_numbers(query: Callable[..., Any], table: str, person: str) -> tuple[int, int]:
    """Return how many questions of a person, and of all, are open at a table."""
    count = f"SELECT count(*) FROM questions WHERE tab = ? AND state IN {_placeholders(OPEN)}"
    (of_person,) = query(f"{count} AND asker = ?", table, *OPEN, person).fetchone()
    (of_table,) = query(count, table, *OPEN).fetchone()
    return of_person, of_table


def limit_reason(table: str, person: str, numbers: tuple[int, int], limits: tuple[int, int]) -> str:
    """Return why a person can ask no further question at a table now; empty if he can."""
    of_person, of_table = numbers
    if of_person >= limits[0]:
        return (
            f"{person!r} has {of_person} open questions at {table}: wait for one, or withdraw one"
        )
    if of_table >= limits[1]:
        return f"{table} has {of_table} open questions: wait until some are done"
    return ""


def _ticket(row: tuple[Any, ...]) -> Ticket:
    # Id and table become parts of paths, and the process with the network can write anything into desk.db.
    name, table, by, key, question, *rest = row
    _require_names(ticket_named, name)
    _require_names(table_named, table)
    try:
        parsed = AnalystQuestion(**json.loads(question))
    except (ValueError, TypeError):
        raise LedgerError(
            f"the question {name} cannot be read by this version of dpinfer"
        ) from None
    return Ticket(name, table, by, key, parsed, *rest)


def _require_names(named: Callable[[str], str], name: str) -> None:
    try:
        named(name)
    except InputError as fault:
        raise LedgerError(
            f"desk.db has a row that no desk wrote, {fault}: put the newest desk.db in its place, and find out who "
            "could write into it"
        ) from None
