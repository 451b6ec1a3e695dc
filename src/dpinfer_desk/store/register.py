"""desk.db: people, accounts, tables, allowances and questions, and the event of each change beside it.

Every change is one transaction that also holds its event; the journal takes the events over
afterwards, so that it neither lacks one nor has one that did not happen.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dpinfer.asking.allowed import Question
from dpinfer.errors import InputError, LedgerError
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.store import transaction
from dpinfer_desk.store.folder import Folder
from dpinfer_desk.store.journal import Event, Journal
from dpinfer_desk.store.regular_files import require_plain
from dpinfer_desk.store.roles import Person
from dpinfer_desk.store.tables import Fingerprint, Policy, Table, table_named
from dpinfer_desk.store.tickets import (
    ASKED,
    BOOKED,
    FAILED,
    FREE,
    OPEN,
    PAID,
    SETTLED,
    ConflictError,
    Ticket,
    ticket_named,
)

WHAT = "desk"
OTHER_QUESTION = "this key was used for another question: give a question of its own a new key"
_VERSION = 1
_SHORTEST = 4  # letters of an id that name a question
_SCHEMA = (
    "CREATE TABLE people (name TEXT PRIMARY KEY, words TEXT NOT NULL, added TEXT NOT NULL)",
    "CREATE TABLE tables (name TEXT PRIMARY KEY, place TEXT NOT NULL, book TEXT NOT NULL, text TEXT NOT NULL, "
    "records INTEGER, approval TEXT NOT NULL, up_to REAL NOT NULL, shared INTEGER NOT NULL, "
    "fingerprint TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, added TEXT NOT NULL, seal TEXT NOT NULL)",
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
_COPY = 0x636F7079  # "copy", in the header of a desk.db that was made by a backup
_END_ACCESS = (
    "DELETE FROM sessions",
    "DELETE FROM tokens",
    "UPDATE accounts SET invitation = NULL, invited = ''",
)
_TICKET = "id, tab, asker, key, question, cost, state, asked, decided, decider, reason, slot, booked, release"


class Change:
    """A change under way: SQL, and the events that go with it."""

    def __init__(self, connection: sqlite3.Connection, who: str, time: str) -> None:
        self.connection = connection
        self._who = who
        self._time = time

    def __call__(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Carry out a statement."""
        return self.connection.execute(statement, values)

    def event(self, what: str, **facts: Any) -> None:
        """Write down what happened."""
        cursor = self("INSERT INTO events (body) VALUES ('')")
        number = cursor.lastrowid
        assert number is not None
        text = Event(number, self._time, self._who, what, facts).text()
        self("UPDATE events SET body = ? WHERE number = ?", text, number)


class Register:
    """desk.db with its journal; ``public`` where tables are known by what the worker publishes alone.

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
        """The file, looked at each time: others write in its folder."""
        return require_plain(self._folder.database)

    def make(self) -> None:
        """A new file."""
        self._path.touch(exist_ok=False)
        with transaction(self._path, "BEGIN EXCLUSIVE", new=True, kind=WHAT) as connection:
            for statement in _SCHEMA:
                connection.execute(statement)

    def now(self) -> datetime:
        """The time at this desk."""
        return self._clock()

    def lacking(self) -> int:
        """How many events of the journal this file lacks: an old copy was put back if it does."""
        return max(0, self._journal.last() - self._last())

    def is_copy(self) -> bool:
        """Whether this file was made by a backup, and nobody has accepted it since."""
        with self.read() as sql:
            (mark,) = sql("PRAGMA application_id").fetchone()
            return bool(mark == _COPY)

    def _last(self) -> int:
        with self.read() as sql:
            (number,) = sql("SELECT coalesce(max(number), 0) FROM events").fetchone()
            return int(number)

    @contextmanager
    def read(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """Questions to the file, all at one moment."""
        with transaction(self._path, "BEGIN", kind=WHAT) as connection:
            yield lambda statement, *values: connection.execute(statement, values)

    @contextmanager
    def write(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        """A change that is no event: whole or not at all, and not in the journal."""
        with transaction(self._path, "BEGIN IMMEDIATE", kind=WHAT) as connection:
            yield lambda statement, *values: connection.execute(statement, values)

    @contextmanager
    def change(self, who: str, *, old_copy: bool = False) -> Iterator[Change]:
        """A change that happens whole or not at all, and then its events in the journal; what the
        journal could not take it takes at the next change, or when the desk is next opened.

        Guarantee [no_old_desk]: nothing is changed in a desk.db that lacks the last event of the
        journal, also if it was put back while the desk is open.
        """
        last = self._journal.last_event()
        with transaction(self._path, "BEGIN IMMEDIATE", kind=WHAT) as connection:
            if not old_copy:
                _require_event(connection, last)
            connection.execute("PRAGMA foreign_keys = ON")
            yield Change(connection, who, self._clock().isoformat())
        with suppress(LedgerError):
            self.catch_up()

    def require_newest(self) -> None:
        """`LedgerError` if an old desk.db was put back."""
        last = self._journal.last_event()
        with transaction(self._path, "BEGIN", kind=WHAT) as connection:
            _require_event(connection, last)

    def catch_up(self) -> None:
        """Hand the journal the events that it lacks."""
        last = self._journal.last()
        with self.read() as sql:
            found = sql("SELECT body FROM events WHERE number > ? ORDER BY number", last).fetchall()
        self._journal.take(Event.of(body) for (body,) in found)

    def accept_old_copy(self, who: str) -> int:
        """Go on with a copy that lacks events: they are taken over from the journal as what happened
        once, and what they changed is not done again.  Sessions, tokens and invitations end, as those
        that were revoked since would be good again.
        """
        number = self.lacking()
        known = {event.number: event.text() for event in self._journal.events()}
        first = self._last() + 1
        with self.change(who, old_copy=True) as change:
            for place in range(first, first + number):
                change("INSERT INTO events VALUES (?, ?)", place, known[place])
            for statement in (*_END_ACCESS, "PRAGMA application_id = 0"):
                change(statement)
            change.event("an old copy of desk.db was accepted", lacks=number)
        return number

    # People, tables, allowances

    def people(self) -> list[Person]:
        """All people, by name."""
        with self.read() as sql:
            rows = sql("SELECT name, words, added FROM people ORDER BY name").fetchall()
        return [Person(*row) for row in rows]

    def tables(self) -> list[Table]:
        """All tables, by name."""
        with self.read() as sql:
            rows = sql("SELECT * FROM tables ORDER BY name").fetchall()
        return [self._table(row) for row in rows]

    def table(self, name: str) -> Table:
        """One table."""
        with self.read() as sql:
            row = sql("SELECT * FROM tables WHERE name = ?", name).fetchone()
        if row is None:
            raise InputError(f"there is no table {name!r} at this desk: see `dpinfer desk list`")
        return self._table(row)

    def _table(self, row: tuple[Any, ...]) -> Table:
        name, place, book, text, records, approval, up_to, shared, mark, *rest = row
        state, reason, added, seal = rest
        _require_names(table_named, name)
        return Table(
            name=name,
            place=place,
            book=book,
            text=text,
            records=records,
            policy=Policy(approval, up_to, bool(shared)),
            fingerprint=Fingerprint.read(mark),
            secret=self._folder.secret,
            state=state,
            reason=reason,
            added=added,
            seal=seal,
            published=self._folder.account(name) if self._public else None,
        )

    def allowances(self, table: str) -> dict[str, tuple[float, str]]:
        """Amount and state by person."""
        with self.read() as sql:
            rows = sql(
                "SELECT person, amount, state FROM allowances WHERE tab = ? ORDER BY person", table
            ).fetchall()
        return {person: (amount, state) for person, amount, state in rows}

    # Questions

    def tickets(self, where: str = "1", *values: Any) -> list[Ticket]:
        """Questions that fulfil a condition in SQL, in the order in which they were asked."""
        with self.read() as sql:
            rows = sql(
                f"SELECT {_TICKET} FROM questions WHERE {where} ORDER BY asked, rowid", *values
            ).fetchall()
        return [_ticket(row) for row in rows]

    def ticket(self, name: str) -> Ticket:
        """One question, by its id, the beginning of it, or the key of its asker."""
        found = self.tickets("id = ?", name)  # first: a key may look like an id
        if not found and len(name) >= _SHORTEST:
            found = self.tickets("substr(id, 1, ?) = ?", len(name), name)
        if not found:
            found = self.tickets("key = ?", name)
        if len(found) > 1:
            raise InputError(f"{name!r} names {len(found)} questions: name one by its id")
        if not found:
            raise InputError(f"there is no question {name!r} at this desk: see `dpinfer desk list`")
        return found[0]

    def add(
        self, ticket: Ticket, who: str, limits: tuple[int, int], *, again: bool = False
    ) -> tuple[Ticket, bool]:
        """A new question, or the one that has its id already, asked anew where it has ended without
        being paid; and whether it was asked now.  ``limits`` bound the open ones of a person and of
        a table.  What the person has open, booked or answered is asked once more with ``again`` alone.
        """
        with self.change(who) as change:
            row = change(f"SELECT {_TICKET} FROM questions WHERE id = ?", ticket.id).fetchone()
            if row is None:
                self._require_new(change, ticket, again)
                _require_room(change, ticket, limits)
                insert(change, ticket)
                change.event(
                    "asked",
                    question=ticket.id,
                    table=ticket.table,
                    by=ticket.by,
                    state=ticket.state,
                    keys=ticket.question.keys(),
                )
                return ticket, True
            if _ticket(row).state in FREE:
                self._require_new(change, ticket, again)
                _require_room(change, ticket, limits)
                change("DELETE FROM questions WHERE id = ?", ticket.id)
                insert(change, ticket)
                change.event("asked", question=ticket.id, table=ticket.table, state=ticket.state)
                return ticket, True
        there = _ticket(row)
        if there.question.digest() != ticket.question.digest():
            raise ConflictError(OTHER_QUESTION)
        return there, False

    def _require_new(self, change: Change, ticket: Ticket, again: bool) -> None:
        """That the asker has not the same question open, booked or answered under another key."""
        if again:
            return
        rows = change(
            f"SELECT {_TICKET} FROM questions WHERE tab = ? AND asker = ? AND id != ?",
            *(ticket.table, ticket.by, ticket.id),
        ).fetchall()
        digest = ticket.question.digest()
        for row in rows:
            there = _ticket(row).seen(self._clock())  # what is shown of it decides, and no more
            if there.state in ASKED and there.question.digest() == digest:
                raise ConflictError(
                    f"the same question is {there.state} already, as {there.id[:12]}, and would be paid twice; to ask "
                    "and pay again, say so (--again)"
                )

    def move(
        self, name: str, from_: tuple[str, ...], to: str, who: str, **fields: Any
    ) -> Ticket | None:
        """Move a question from one of some states to another; None where it is in none of them."""
        names = ", ".join(f"{field} = ?" for field in ("state", *fields))
        marks = ", ".join("?" for _ in from_)
        with self.change(who) as change:
            cursor = change(
                f"UPDATE questions SET {names} WHERE id = ? AND state IN ({marks})",
                *(to, *fields.values(), name, *from_),
            )
            if cursor.rowcount == 0:
                return None
            change.event(to, question=name, **fields)
            row = change(f"SELECT {_TICKET} FROM questions WHERE id = ?", name).fetchone()
        return _ticket(row)

    def settle(self, name: str, outcome: str) -> None:
        """Write down the outcome of a question that was booked; after its slot there is one alone,
        lost.  It is no event yet: the journal has it when it is shown.
        """
        with self.write() as sql:
            row = sql(
                f"SELECT {_TICKET} FROM questions WHERE id = ? AND state = ?", name, BOOKED
            ).fetchone()
            if row is None:
                return
            due = _ticket(row).due
            in_time = due is not None and self._clock() < due
            sql(
                "UPDATE questions SET state = ? WHERE id = ?",
                *(outcome if in_time else FAILED, name),
            )

    def found_paid(self, name: str, entry: Entry, outcome: str, slot: float) -> None:
        """A question that desk.db has as unpaid, and the ledger as booked: the ledger decides.
        ``slot`` is for one that has none.
        """
        marks = ", ".join("?" for _ in PAID)
        with self.change("worker") as change:
            change(
                "UPDATE questions SET state = ?, booked = ?, release = ?, slot = coalesce(slot, ?) "
                f"WHERE id = ? AND state NOT IN ({marks})",
                *(outcome, entry.time, entry.release, slot, name, *PAID),
            )
            change.event(BOOKED, question=name, booked=entry.time, release=entry.release)

    def paid(self, book: str) -> list[str]:
        """The questions that were paid from a ledger, whatever the ledger says now."""
        marks = ", ".join("?" for _ in PAID)
        with self.read() as sql:
            rows = sql(
                "SELECT id FROM questions JOIN tables ON tables.name = questions.tab "
                f"WHERE tables.book = ? AND questions.state IN ({marks})",
                *(book, *PAID),
            ).fetchall()
        return [name for (name,) in rows]

    def show(self, name: str, state: str) -> None:
        """The slot of a question has ended: its outcome is public, and an event."""
        self.move(name, tuple(SETTLED), state, "worker")

    def set_slot(self, table: str, digest: str, seconds: float) -> None:
        """Write down the slot of a question, by its digest."""
        with self.change("worker") as change:
            change("INSERT OR REPLACE INTO slots VALUES (?, ?, ?)", table, digest, seconds)
            change.event("slot", table=table, digest=digest, seconds=seconds)

    def slot(self, table: str, digest: str) -> float | None:
        """The seconds that a question takes at a table, where that is known."""
        with self.read() as sql:
            row = sql(
                "SELECT seconds FROM slots WHERE tab = ? AND digest = ?", table, digest
            ).fetchone()
        return None if row is None else float(row[0])


def _require_event(connection: sqlite3.Connection, last: tuple[int, str]) -> None:
    """That the last event of the journal is in desk.db, word for word."""
    number, text = last
    row = connection.execute("SELECT body FROM events WHERE number = ?", (number,)).fetchone()
    if number and (row is None or row[0] != text):
        raise LedgerError(
            "desk.db lacks events that are in journal.db: an old copy was put back; put the newest one in its place, "
            "or see `dpinfer desk verify`"
        )


def mark_as_copy(path: Path) -> None:
    """Make a copy of desk.db say that it is one, and end sessions, tokens and invitations in it."""
    with transaction(path, "BEGIN IMMEDIATE", kind=WHAT) as connection:
        for statement in (*_END_ACCESS, f"PRAGMA application_id = {_COPY}"):
            connection.execute(statement)


def insert_table(change: Change, table: Table) -> None:
    """Write a table down."""
    values = {
        "name": table.name,
        "place": table.place,
        "book": table.book,
        "text": table.text,
        "records": table.records,
        "approval": table.policy.approval,
        "up_to": table.policy.up_to,
        "shared": int(table.policy.shared),
        "fingerprint": table.fingerprint.text(),
        "state": table.state,
        "reason": table.reason,
        "added": table.added,
        "seal": table.seal,
    }
    _insert(change, "tables", values)


def insert(change: Change, ticket: Ticket) -> None:
    """Write a question down."""
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
        "slot": ticket.slot,
        "booked": ticket.booked,
        "release": ticket.release,
    }
    _insert(change, "questions", values)


def _insert(change: Change, into: str, values: dict[str, Any]) -> None:
    marks = ", ".join(f":{name}" for name in values)
    change.connection.execute(f"INSERT INTO {into} ({', '.join(values)}) VALUES ({marks})", values)


def _require_room(change: Change, ticket: Ticket, limits: tuple[int, int]) -> None:
    marks = ", ".join("?" for _ in OPEN)
    count = f"SELECT count(*) FROM questions WHERE tab = ? AND state IN ({marks})"
    (of_person,) = change(f"{count} AND asker = ?", ticket.table, *OPEN, ticket.by).fetchone()
    (of_table,) = change(count, ticket.table, *OPEN).fetchone()
    if of_person >= limits[0]:
        raise ConflictError(
            f"{ticket.by!r} has {of_person} open questions at {ticket.table}: wait for one, or withdraw one"
        )
    if of_table >= limits[1]:
        raise ConflictError(
            f"{ticket.table} has {of_table} open questions: wait until some are done"
        )


def _ticket(row: tuple[Any, ...]) -> Ticket:
    """A question from its row; its id and its table become paths, and desk.db is written by others."""
    name, table, by, key, question, *rest = row
    _require_names(ticket_named, name)
    _require_names(table_named, table)
    try:
        asked = Question(**json.loads(question))
    except (ValueError, TypeError):
        raise LedgerError(
            f"the question {name} cannot be read by this version of dpinfer"
        ) from None
    return Ticket(name, table, by, key, asked, *rest)


def _require_names(named: Callable[[str], str], name: str) -> None:
    try:
        named(name)
    except InputError as fault:
        raise LedgerError(
            f"desk.db has a row that no desk wrote, {fault}: put the newest desk.db in its place, and find out who "
            "could write into it"
        ) from None
