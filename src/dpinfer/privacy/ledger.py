"""The book of what was spent.  An entry is written before anything is computed."""

import math
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any, Self

from dpinfer.errors import DpinferError, LedgerError, one_of_two
from dpinfer.neighbours import Neighbours
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Count, Total, renyi_orders
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP, require_promise
from dpinfer.privacy.entries import Entry, Terms, entry_of, entry_text, header_text, terms_of
from dpinfer.privacy.store import (
    RESTORE,
    CopiedStore,
    FileStore,
    MemoryStore,
    Row,
    Store,
    chain_fault,
    json_lines,
)

Allowance = PureDP | ZCDP
"""What one asker may spend of a total: ε of a PureDP total, ρ of others."""

_REPEATED = "this request was booked before and is not booked twice: look for its result"


@dataclass(frozen=True)
class Preview:
    """What booking an entry would lead to.

    ``spent``, ``left`` and ``largest`` are those of the ledger afterwards; ``reason`` says why the
    entry would be refused, ``rule`` what judged it.
    """

    spent: float
    left: float
    largest: float
    allowed: bool
    reason: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Verification:
    """Whether a ledger is whole; ``fault`` says what is broken, where, and what to do."""

    ok: bool
    entries: int
    head: str
    fault: str = ""


class _RefusedError(Exception):
    """An entry is not booked; ``why`` says it, which takes its time, when the file is free again."""

    def __init__(self, why: Callable[[], str]) -> None:
        super().__init__()
        self.why = why


class Ledger:
    """A total budget and the entries spent from it.

    `Ledger.create` and `Ledger.open` keep it in a file; ``Ledger(total)`` keeps it in the memory of
    this process.

    Guarantee [never_overspent]: an entry that would exceed the total is refused and not written,
    also when several threads or processes book at once.
    Guarantee [no_charge_lost]: `book` returns after the entry is on the disk, so a process killed
    at any moment leaves no release without its entry.
    Guarantee [refused_unless_written]: a full disk, no right to write, or another process that
    keeps the file locked raises `LedgerError` before anything is computed.
    Guarantee [append_only]: entries cannot be changed or removed through SQL, and an entry or
    header that was changed or removed by other means, the last entries excepted, is found when the
    ledger is next opened, read or booked in.
    Guarantee [allowance_kept]: what one asker books with an allowance never adds up to more than the
    allowance, and a request is booked once, also when several threads or processes book at once.
    Guarantee [no_way_back]: a ledger that is open refuses its file once that lacks an entry the
    ledger has seen.

    Parameters
    ----------
    total : PureDP, ZCDP or ApproxDP
        The budget for everything that is ever released from these data.
    unit : str
        What one record is, in words; fits that protect another unit are refused.
    adjacency : "replace", "add-remove", "replace-unit" or "add-remove-unit"
        What may differ between two data sets, one row or all rows of a unit, by default "replace";
        fits with another adjacency are refused.
    title : str
        What the data are.
    neighbours : optional
        Another name of ``adjacency``.
    """

    def __init__(
        self,
        total: Total,
        unit: str = "one record",
        adjacency: str | None = None,
        title: str = "",
        *,
        neighbours: str | None = None,
    ) -> None:
        adjacency = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
        self._terms = _new_terms(total, unit, adjacency, title)
        self._store: Store = MemoryStore(header_text(self._terms))
        self._seen = self._store.rows()[0]

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        total: Total,
        unit: str = "one record",
        adjacency: str | None = None,
        title: str = "",
        *,
        neighbours: str | None = None,
    ) -> Self:
        """A new ledger in a file of its own at ``path``; an existing file is refused.

        ``total``, ``unit``, ``adjacency``, ``title`` and ``neighbours`` are those of `Ledger`.
        """
        adjacency = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
        header = header_text(_new_terms(total, unit, adjacency, title))
        return cls._in(FileStore.create(Path(path).resolve(), header))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The ledger in the file at ``path``, after checking that it is whole."""
        ledger = cls._in(FileStore(Path(path).resolve()))
        verification = ledger.verify()
        if not verification.ok:
            raise LedgerError(verification.fault)
        return ledger

    @classmethod
    def copied(cls, chain: Sequence[Row]) -> Self:
        """A ledger to read, from the `chain` of another; nothing can be booked in it."""
        return cls._in(CopiedStore(chain))

    def chain(self) -> list[Row]:
        """The header and all entries as they are stored, each with its number and its hash."""
        rows = self._store.rows()
        self._entries(rows, self._seen)
        return rows

    @classmethod
    def _in(cls, store: Store) -> Self:
        ledger = cls.__new__(cls)
        ledger._store = store
        ledger._seen = _unbroken(store, store.rows())[0]
        ledger._terms = terms_of(ledger._seen[1])
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

    def book(self, entry: Entry, within: Allowance | None = None) -> str:
        """Write the entry down if the total allows it, and return its release id.

        An entry with a ``request`` that is in the ledger already is refused.  ``within`` is what
        entries by the same asker may add up to, this one included: ε for a PureDP total, ρ for
        others.  All of it is judged in one transaction.
        """
        named = replace(entry, release=uuid.uuid4().hex, time=_now())
        text = self._stored(named, within)

        def write(rows: list[Row]) -> str:
            self._judge(self._entries(rows, self._seen), named, within)
            return text

        try:
            self._remember(self._store.append(write))
        except _RefusedError as refusal:
            raise LedgerError(refusal.why()) from None
        return named.release

    def added_up(self, entries: Iterable[Entry]) -> float:
        """What entries cost one by one, added up: ε for a PureDP total, ρ for others.  That is what
        allowances are counted in; it holds whatever the entries depend on.
        """
        releases = [event for entry in entries for event in entry.events]
        return accountant.added_up(self.total, releases)

    def preview(self, entry: Entry, within: Allowance | None = None) -> Preview:
        """What would be spent and left if the entry were booked.  Nothing is written and nothing is
        raised.  ``within`` is that of `book`.
        """
        try:
            booked = self.entries()
            self._stored(entry, within)
            refusal = self._refusal(booked, entry, within)
            after = self._count([*booked, entry])
            largest = math.nan if refusal else after.largest()
            return Preview(after.spent(), after.left(), largest, not refusal, refusal, after.rule)
        except DpinferError as fault:
            return Preview(math.nan, math.nan, math.nan, False, str(fault))

    def entries(self) -> tuple[Entry, ...]:
        """Everything booked so far, oldest first."""
        return self.read()[0]

    def read(self) -> tuple[tuple[Entry, ...], Count]:
        """The entries, and what they cost together by the rule that judges them, at one moment."""
        seen = self._seen
        entries = self._entries(self._store.rows(), seen)
        return entries, self._count(entries)

    def lines(self) -> str:
        """All rows as JSON lines, with their hashes, the header first: what is handed to an auditor."""
        return json_lines(self.chain())

    def spent(self) -> float:
        """What is spent, derived from the entries: ε of a PureDP total, ρ of a ZCDP one, ε at δ of
        an ApproxDP one.
        """
        return self.read()[1].spent()

    def left(self) -> float:
        """The total less what was spent, by the rule that would judge a further entry.

        With an ApproxDP total releases cost less together than one by one, so that a fit of more
        than this is paid for: see `largest_fit`.
        """
        return self.read()[1].left()

    def largest_fit(self) -> float:
        """The most that one further fit may cost: ε of a PureDP total, ρ of a ZCDP one, ε at the
        total's own δ of an ApproxDP one.

        That is for a fit whose noise is all Gaussian, as logistic regression and least squares
        without a penalty have it.  A penalised fit may get less under an ApproxDP total: ask
        `preview`.
        """
        return self.read()[1].largest()

    def rules(self) -> tuple[str, ...]:
        """For each entry, the rule that judged whether the total pays for it."""
        return self.read()[1].rules()

    def verify(self) -> Verification:
        """Whether the ledger is whole: the file, the header, every entry and their order."""
        try:
            damage = self._store.damage()
            if damage:
                raise LedgerError(_broken(self._store, damage))
            seen = self._seen
            rows = self._store.rows()
            entries = self._entries(rows, seen)
        except LedgerError as fault:
            return Verification(False, 0, "", str(fault))
        return Verification(True, len(entries), rows[-1][2])

    def _entries(self, rows: list[Row], seen: Row) -> tuple[Entry, ...]:
        """The entries of a chain that is whole, has the terms it was opened with, and lacks nothing
        seen before.
        """
        header, *others = _unbroken(self._store, rows)
        if terms_of(header[1]) != self._terms:
            raise LedgerError(f"{self.path} is no longer the ledger that was opened: open it again")
        if len(rows) <= seen[0] or rows[seen[0]][2] != seen[2]:
            raise LedgerError(
                f"{self.path} lacks entries that were in it: an old copy was put back; put the newest one in its place"
            )
        self._remember(rows[-1])
        return tuple(entry_of(number, text) for number, text, _ in others)

    def _remember(self, last: Row) -> None:
        """Keep the last row that was seen; a thread that comes late with an earlier one changes
        nothing.
        """
        if last[0] > self._seen[0]:
            self._seen = last

    def _count(self, entries: Sequence[Entry]) -> Count:
        return Count(self.total, self._terms.orders, tuple(entry.events for entry in entries))

    def _judge(self, booked: Sequence[Entry], entry: Entry, within: Allowance | None) -> None:
        """Refuse what was booked before, what the allowance and what the total does not pay for."""
        if entry.request and any(entry.request == other.request for other in booked):
            raise _RefusedError(lambda: _REPEATED)
        if within is not None:
            own = [other for other in booked if other.by == entry.by]
            if self.added_up([*own, entry]) > _amount(within) * (1 + accountant.ROUNDING):
                raise _RefusedError(lambda: self._beyond(own, entry, within))
        if not self._count([*booked, entry]).paid():
            raise _RefusedError(lambda: self._too_much(booked, entry))

    def _refusal(self, booked: Sequence[Entry], entry: Entry, within: Allowance | None) -> str:
        """Why an entry would be refused; empty where it would not."""
        try:
            self._judge(booked, entry, within)
        except _RefusedError as refusal:
            return refusal.why()
        return ""

    def _stored(self, entry: Entry, within: Allowance | None = None) -> str:
        """The entry as it would be stored; `LedgerError` if it is none of this ledger, whatever was
        booked.
        """
        if isinstance(entry.cost, NoPrivacy):
            raise LedgerError(
                "a fit without privacy cannot be booked: drop the ledger or give the fit a budget"
            )
        for name in ("unit", "neighbours"):
            ours = getattr(self, name)
            theirs = getattr(entry, name)
            if ours != theirs:
                raise LedgerError(
                    f"the ledger's {name} is '{ours}' and the fit's is '{theirs}'{self._protects(entry)}, so their "
                    f"costs do not add up: use a ledger made with {name}='{theirs}'"
                )
        kind = PureDP if isinstance(self.total, PureDP) else ZCDP
        if within is not None and not isinstance(within, kind):
            raise LedgerError(
                f"an allowance inside this total is counted in {accountant.counted_in(self.total)}: give it as "
                f"{kind.__name__}"
            )
        return entry_text(entry)

    def _protects(self, entry: Entry) -> str:
        """Where one side is about rows and the other about all rows of a unit: what is what."""
        if self.neighbours.units == entry.neighbours.units:
            return ""
        if self.neighbours.units:
            return " (it protects all rows of a unit and the fit one row)"
        return " (it protects one row and the fit all rows of a unit)"

    def _too_much(self, booked: Sequence[Entry], entry: Entry) -> str:
        """Why the total does not pay for the entry."""
        if self._count([*booked, entry]).late:
            return (
                "levels come first: how much of an (epsilon, delta) total's delta they take is fixed by its first "
                "entry, and this ledger has one; learn ranges alone, and state the levels in the schema"
            )
        limit = accountant.limit(self.total)
        largest = rounded_down(self._count(booked).largest(), 6)
        needed = accountant.spent(self.total, entry.events)
        there = (
            f"the ledger has {accountant.measure(self.total)} = {largest:.6g} left of {limit:.6g}"
        )
        if isinstance(self.total, ApproxDP):
            there += f" at delta = {self.total.delta:.6g} for a next fit"
        if needed <= largest:  # it is judged by another filter
            there += ", less where its noise is not all Gaussian, as that of a penalised fit"
        return f"{there}, and this fit needs {needed:.6g}: lower its budget or stop here"

    def _beyond(self, own: Sequence[Entry], entry: Entry, within: Allowance) -> str:
        """Why the allowance does not pay for the entry, next to the ``own`` ones of its asker."""
        left = rounded_down(_amount(within) - self.added_up(own), 6)
        return (
            f"the allowance of {entry.by!r} has {accountant.counted_in(self.total)} = {left:.6g} left of "
            f"{_amount(within):.6g}, and this fit needs {self.added_up([entry]):.6g}: lower its budget, or ask for a "
            "larger allowance"
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


def rounded_down(amount: float, digits: int) -> float:
    """An amount that may be spent, in so many digits, and never above what there is."""
    if not amount > 0:
        return 0.0
    step = Decimal(1).scaleb(Decimal(amount).adjusted() + 1 - digits)
    return float(Decimal(amount).quantize(step, ROUND_FLOOR))


def _amount(allowance: Allowance) -> float:
    return allowance.epsilon if isinstance(allowance, PureDP) else allowance.rho


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _new_terms(total: Total, unit: str, adjacency: str | None, title: str) -> Terms:
    """The terms of a new ledger.  A δ that is no promise is refused here and not when an old ledger
    is opened.
    """
    require_promise(total)
    return Terms(
        total,
        unit,
        Neighbours.of(adjacency or Neighbours.REPLACE),
        title,
        _now(),
        renyi_orders(total),
    )


def _unbroken(store: Store, rows: list[Row]) -> list[Row]:
    fault = chain_fault(rows)
    if fault:
        raise LedgerError(_broken(store, fault))
    return rows


def _broken(store: Store, fault: str) -> str:
    return f"the ledger {store.path or 'in memory'} is broken, {fault}, and {RESTORE}"
