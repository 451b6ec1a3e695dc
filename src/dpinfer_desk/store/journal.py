"""Who did what at a desk, as an append-only chain that can be checked offline.

Each change of `desk.db` writes its event in the same transaction; the chain takes events over in
their order, once each, also after a crash in between.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
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
from dpinfer_desk.store.regular_files import require_plain

FORMAT = "dpinfer.Journal"
WHAT = "journal"


@dataclass(frozen=True)
class Event:
    """One thing that happened: ``number``, ``time`` (UTC), ``who`` did ``what``, and its facts."""

    number: int
    time: str
    who: str
    what: str
    facts: dict[str, Any]

    def text(self) -> str:
        """The event as it is stored."""
        content = {"number": self.number, "time": self.time, "who": self.who, "what": self.what}
        return json.dumps({**content, "facts": self.facts}, ensure_ascii=False, sort_keys=True)

    @classmethod
    def of(cls, text: str) -> "Event":
        """The inverse of `text`."""
        return cls(**json.loads(text))


class Journal:
    """The chain of events of a desk.

    Guarantee [journal_is_a_chain]: an event that was changed, removed or put between others by
    whatever means, the last ones excepted, is found by `verify`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def _store(self) -> FileStore:
        """The file, looked at each time: others write in its folder."""
        return FileStore(require_plain(self._path), WHAT)

    def require(self) -> None:
        """`LedgerError` where the file is another chain than a journal: nothing is added to that."""
        with transaction(require_plain(self._path), "BEGIN", kind=WHAT) as connection:
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
        """A new chain for a desk."""
        header = json.dumps({"format": FORMAT, "version": 1, "desk": desk}, sort_keys=True)
        FileStore.create(path, header, WHAT)
        return cls(path)

    def take(self, events: Iterable[Event]) -> None:
        """Add the events that follow the last one; those that are there already are passed over."""
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
        """Everything that happened, oldest first, from a chain that is whole."""
        rows = self._store.rows()
        fault = chain_fault(rows)
        if fault:
            raise LedgerError(f"the journal {self._store.path} is broken, {fault}")
        return [Event.of(text) for _, text, _ in rows[1:]]

    def last(self) -> int:
        """The number of the last event."""
        return self._store.last()[0]

    def last_event(self) -> tuple[int, str]:
        """The number and the text of the last event; number 0 where there is none."""
        number, text, _ = self._store.last()
        return number, text

    def head(self) -> str:
        """The hash of the last row: keep it elsewhere, it tells whether an old copy was put back."""
        return self._store.last()[2]

    def verify(self) -> str:
        """What is wrong with the chain; empty if it is whole."""
        try:
            return self._store.damage() or chain_fault(self._store.rows())
        except LedgerError as fault:
            return str(fault)

    def lines(self) -> str:
        """All rows as JSON lines, with their hashes, the header first: what is handed to an auditor."""
        return to_jsonl(self._store.rows())
