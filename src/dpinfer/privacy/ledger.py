"""The book of what was spent.  An entry is written before anything is computed."""

import math
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from dpinfer.errors import DpinferError, LedgerError
from dpinfer.neighbours import Neighbours
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.book import Entry, Terms, entry_of, entry_text, header_text, terms_of
from dpinfer.privacy.budget import ApproxDP, NoPrivacy
from dpinfer.privacy.release import Release
from dpinfer.privacy.store import RESTORE, FileStore, MemoryStore, Row, Store, broken


@dataclass(frozen=True)
class Preview:
    """What booking an entry would lead to; ``reason`` says why it would be refused."""

    spent: float
    left: float
    allowed: bool
    reason: str = ""


@dataclass(frozen=True)
class Verification:
    """Whether a ledger is whole; ``fault`` says what is broken, where, and what to do."""

    ok: bool
    entries: int
    head: str
    fault: str = ""


class Ledger:
    """A total budget and the entries spent from it.

    `Ledger.create` and `Ledger.open` keep it in a file; ``Ledger(total)`` keeps it in the memory of this process.

    Guarantee [never_overspent]: an entry that would exceed the total is refused and not written, also when several
    threads or processes book at once.
    Guarantee [no_charge_lost]: `book` returns after the entry is on the disk, so a process killed at any moment leaves
    no release without its entry.
    Guarantee [refused_unless_written]: a full disk, no right to write, or another process that keeps the file locked
    raises `LedgerError` before anything is computed.
    Guarantee [append_only]: entries cannot be changed or removed through SQL, and an entry or header that was changed
    or removed by other means, the last entries excepted, is found when the ledger is next opened, read or booked in.
    """

    def __init__(
        self, total: Total, unit: str = "one record", neighbours: str = Neighbours.REPLACE, title: str = ""
    ) -> None:
        self._terms = Terms(total, unit, Neighbours.of(neighbours), title, _now())
        self._store: Store = MemoryStore(header_text(self._terms))

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        total: Total,
        unit: str = "one record",
        neighbours: str = Neighbours.REPLACE,
        title: str = "",
    ) -> Self:
        """A new ledger in a file of its own.  An existing file is refused."""
        header = header_text(Terms(total, unit, Neighbours.of(neighbours), title, _now()))
        return cls._kept(FileStore.create(Path(path).resolve(), header))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The ledger in a file, after checking that it is whole."""
        ledger = cls._kept(FileStore(Path(path).resolve()))
        found = ledger.verify()
        if not found.ok:
            raise LedgerError(found.fault)
        return ledger

    @classmethod
    def _kept(cls, store: Store) -> Self:
        ledger = cls.__new__(cls)
        ledger._store = store
        ledger._terms = terms_of(_whole(store, store.rows())[0][1])
        return ledger

    @property
    def total(self) -> Total:
        """The budget for everything that is ever released from these data."""
        return self._terms.total

    @property
    def unit(self) -> str:
        """What one record is."""
        return self._terms.unit

    @property
    def neighbours(self) -> Neighbours:
        """Which data sets cannot be told apart."""
        return self._terms.neighbours

    @property
    def title(self) -> str:
        """What the data are."""
        return self._terms.title

    @property
    def path(self) -> Path | None:
        """Where the file is; None in memory."""
        return self._store.path

    def book(self, entry: Entry) -> str:
        """Write the entry down if the total allows it, and return its release id."""
        named = replace(entry, release=uuid.uuid4().hex, time=_now())

        def write(rows: list[Row]) -> str:
            refusal = self._refusal(self._entries(rows), named)
            if refusal:
                raise LedgerError(refusal)
            return entry_text(named)

        self._store.append(write)
        return named.release

    def preview(self, entry: Entry) -> Preview:
        """What would be spent and left if the entry were booked.  Nothing is written and nothing is raised."""
        try:
            booked = self.entries()
            refusal = self._refusal(booked, entry)
            spent = accountant.spent(self.total, _events([*booked, entry]))
        except DpinferError as fault:
            return Preview(math.nan, math.nan, False, str(fault))
        return Preview(spent, self._less(spent), not refusal, refusal)

    def entries(self) -> tuple[Entry, ...]:
        """Everything booked so far, oldest first."""
        return self._entries(self._store.rows())

    def spent(self) -> float:
        """What is spent, derived from the entries: ε of a PureDP total, ρ of a ZCDP one, ε at δ of an ApproxDP one."""
        return accountant.spent(self.total, _events(self.entries()))

    def left(self) -> float:
        """The total less what is spent.

        With an ApproxDP total releases cost less together than one by one, so more than this may fit: ask `preview`.
        """
        return self._less(self.spent())

    def verify(self) -> Verification:
        """Whether the ledger is whole: the file, the header, every entry and their order."""
        try:
            fault = self._store.damage()
            if fault:
                raise LedgerError(_broken(self._store, fault))
            rows = self._store.rows()
            entries = self._entries(rows)
        except LedgerError as found:
            return Verification(False, 0, "", str(found))
        return Verification(True, len(entries), rows[-1][2])

    def _entries(self, rows: list[Row]) -> tuple[Entry, ...]:
        """The entries of a chain that is whole and still has the terms it was opened with."""
        header, *others = _whole(self._store, rows)
        if terms_of(header[1]) != self._terms:
            raise LedgerError(f"{self.path} is no longer the ledger that was opened: open it again")
        return tuple(entry_of(number, text) for number, text, _ in others)

    def _less(self, spent: float) -> float:
        return max(0.0, accountant.limit(self.total) - spent)

    def _refusal(self, booked: Sequence[Entry], entry: Entry) -> str:
        """Why the entry cannot follow those booked; empty if it can.  What has no cost in these terms raises."""
        if isinstance(entry.cost, NoPrivacy):
            raise LedgerError("a fit without privacy cannot be booked: drop the ledger or give the fit a budget")
        for name in ("unit", "neighbours"):
            ours, theirs = getattr(self, name), getattr(entry, name)
            if ours != theirs:
                return (
                    f"the ledger's {name} is '{ours}' and the fit's is '{theirs}', so their costs do not add up: "
                    f"use a ledger made with {name}='{theirs}'"
                )
        if accountant.affordable(self.total, _events([*booked, entry])):
            return ""
        at = f" at delta = {self.total.delta:.6g}" if isinstance(self.total, ApproxDP) else ""
        limit, left = accountant.limit(self.total), self._less(accountant.spent(self.total, _events(booked)))
        return (
            f"the ledger has {accountant.measure(self.total)} = {left:.6g} left of {limit:.6g}{at}, and this fit needs "
            f"{accountant.spent(self.total, entry.events):.6g}: lower its budget or stop here"
        )

    # A copy would be a second budget for the same data, so there are none.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        if self.path is None:
            raise LedgerError(
                "a ledger in memory cannot be sent to another process, where it would be spent twice: "
                "use dp.Ledger.create(path)"
            )
        return type(self).open, (self.path,)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _events(entries: Sequence[Entry]) -> list[Release]:
    return [event for entry in entries for event in entry.events]


def _whole(store: Store, rows: list[Row]) -> list[Row]:
    fault = broken(rows)
    if fault:
        raise LedgerError(_broken(store, fault))
    return rows


def _broken(store: Store, fault: str) -> str:
    return f"the ledger {store.path or 'in memory'} is broken, {fault}, and {RESTORE}"
