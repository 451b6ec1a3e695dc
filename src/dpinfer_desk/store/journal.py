"""The journal of a desk: who did what, as an append-only chain of hashes that can be checked offline.

Each change of `desk.db` writes its event in the same transaction.  The chain copies events from there in
their order, once each, also after a crash in between: an event in the journal alone did not happen here,
so desk.db is then an old copy.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from dpinfer.errors import LedgerError
from dpinfer.privacy.store import (
    ConflictingEntryError,
    FileStore,
    MissingEntryError,
    chain_fault,
    to_jsonl,
    transaction,
)
from dpinfer_desk.store.regular_files import require_regular_file

FORMAT = "dpinfer.Journal"
_LABEL = "journal"  # in messages


@dataclass(frozen=True)
class Event:
    """An event: at ``time`` (UTC) ``who`` did ``action``, with ``facts`` about it."""

    number: int
    time: str
    who: str
    action: str
    facts: dict[str, Any]

    def text(self) -> str:
        """Return the event as it is stored."""
        return json.dumps(self.document(), ensure_ascii=False, sort_keys=True)

    def document(self) -> dict[str, Any]:
        """Return the event with the keys that it has in files."""
        return {
            "number": self.number,
            "time": self.time,
            "who": self.who,
            "what": self.action,
            "facts": self.facts,
        }

    @classmethod
    def of(cls, text: str) -> "Event":
        """Parse an event; the inverse of `text`."""
        document = json.loads(text)
        action = document.pop("what")
        return cls(action=action, **document)


_QUESTION = "json_extract(body, '$.facts.question')"
_ABOUT_QUESTIONS = f"{_QUESTION} IN (SELECT {_QUESTION} FROM chain WHERE json_extract(body, '$.facts.{{fact}}') = ?)"
"""Later events of a question name it alone; the event with which it was asked names analyst and table."""


@dataclass(frozen=True)
class EventFilter:
    """A selection of events; what is empty selects all.

    ``person`` did it, is the one it was done to, or asked the question.  ``table`` is that of the event
    or of its question.  ``actions`` are those of a kind of event.  ``first`` and ``last`` are days
    (UTC).  ``before`` is the number of the event that the selection comes before.
    """

    person: str = ""
    table: str = ""
    actions: tuple[str, ...] = ()
    first: date | None = None
    last: date | None = None
    before: int | None = None

    def condition(self) -> tuple[str, list[object]]:
        """Return a condition in SQL on the texts of events, with its values."""
        parts = ["1"]
        values: list[object] = []

        def require(part: str, *of_part: object) -> None:
            parts.append(f"({part})")
            values.extend(of_part)

        if self.person:
            named = "? IN (json_extract(body, '$.who'), json_extract(body, '$.facts.person'))"
            asked = _ABOUT_QUESTIONS.format(fact="by")
            require(f"{named} OR {asked}", self.person, self.person)
        if self.table:
            named = "json_extract(body, '$.facts.table') = ?"
            require(f"{named} OR {_ABOUT_QUESTIONS.format(fact='table')}", self.table, self.table)
        if self.actions:
            listed = ", ".join("?" * len(self.actions))
            require(f"json_extract(body, '$.what') IN ({listed})", *self.actions)
        if self.first is not None:
            require("json_extract(body, '$.time') >= ?", self.first.isoformat())
        if self.last is not None:
            require("substr(json_extract(body, '$.time'), 1, 10) <= ?", self.last.isoformat())
        if self.before is not None:
            require("number < ?", self.before)
        return " AND ".join(parts), values


class Journal:
    """The chain of events of a desk.

    Guarantee [journal_is_a_chain]: an event that was changed, removed or put between others by
    whatever means, the last ones excepted, is found by `verify`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def _store(self) -> FileStore:
        # Checked at each access, as another user writes in the folder at any time.
        return FileStore(require_regular_file(self._path), _LABEL)

    def require(self) -> None:
        """Raise `LedgerError` if the file holds another chain than a journal, such as a ledger."""
        with transaction(require_regular_file(self._path), "BEGIN", kind=_LABEL) as connection:
            row = connection.execute("SELECT body FROM chain WHERE number = 0").fetchone()
        try:
            kind = json.loads(row[0])["format"]
        except (TypeError, ValueError, KeyError):
            kind = ""
        if kind != FORMAT:
            raise LedgerError(
                f"{self._path} is no journal: put the newest journal.db in its place, and find out who put it there"
            )

    @classmethod
    def create(cls, path: Path, desk: str) -> "Journal":
        """Make the journal of a new desk."""
        header = json.dumps({"format": FORMAT, "version": 1, "desk": desk}, sort_keys=True)
        FileStore.create(path, header, _LABEL)
        return cls(path)

    def take(self, events: Iterable[Event]) -> None:
        """Append the events that follow the last one, and skip those that are there already."""
        self.require()
        try:
            self._store.extend((event.number, event.text()) for event in events)
        except ConflictingEntryError:
            raise LedgerError(
                "the journal has another event in the place of one that the desk has: an old copy of desk.db was put "
                "back; put the newest one in its place"
            ) from None
        except MissingEntryError:
            raise LedgerError(
                "the journal lacks events that the desk has: put the newest journal.db in its place"
            ) from None

    def events(self) -> list[Event]:
        """Return all events, oldest first; `LedgerError` if the chain is broken."""
        rows = self._store.rows()
        fault = chain_fault(rows)
        if fault:
            raise LedgerError(f"the journal {self._store.path} is broken, {fault}")
        return [Event.of(text) for _, text, _ in rows[1:]]

    def select(self, selection: EventFilter, limit: int) -> list[Event]:
        """Return at most ``limit`` events, the newest first; `verify` checks the chain, and this does not."""
        where, values = selection.condition()
        return [Event.of(text) for text in self._store.newest(limit, where, values)]

    def last(self) -> int:
        """Return the number of the last event."""
        return self._store.last()[0]

    def last_event(self) -> tuple[int, str]:
        """Return the number and the text of the last event; the number is 0 if there is none."""
        number, text, _ = self._store.last()
        return number, text

    def head(self) -> str:
        """Return the hash of the last row: stored elsewhere, it reveals a restored old copy."""
        return self._store.last()[2]

    def verify(self) -> str:
        """Return the fault of the chain in words; empty if it is intact."""
        try:
            return self._store.damage() or chain_fault(self._store.rows())
        except LedgerError as fault:
            return str(fault)

    def export(self) -> str:
        """Return all rows as JSON lines with their hashes, the header first, for an auditor."""
        return to_jsonl(self._store.rows())
