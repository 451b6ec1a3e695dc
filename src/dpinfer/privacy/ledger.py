"""The book of what was spent.  An entry is written before anything is computed."""

import math
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dpinfer.adjacency import Adjacency
from dpinfer.errors import DpinferError, LedgerError, one_of_two
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Count, Total, renyi_orders
from dpinfer.privacy.budget import (
    ZCDP,
    ApproxDP,
    NoPrivacy,
    PureDP,
    power_of_ten,
    require_promise,
)
from dpinfer.privacy.decimals import written, written_up
from dpinfer.privacy.entries import Entry, Terms, entry_of, entry_text, header_text, terms_of
from dpinfer.privacy.second_accountant import AccountantComparison, compare, event_tree
from dpinfer.privacy.shares import TotalShares
from dpinfer.privacy.store import (
    RESTORE,
    CopiedStore,
    FileStore,
    MemoryStore,
    Row,
    Store,
    chain_fault,
    to_jsonl,
)

if TYPE_CHECKING:
    import pandas as pd
    from dp_accounting.dp_event import DpEvent

Allowance = PureDP | ZCDP
"""The share of a total that one analyst may spend: ε of a PureDP total, ρ of others."""

_COLUMNS = ["time", "purpose", "by", "epsilon", "delta", "rho", "share", "used", "rule", "release"]
_REPEATED = "this request was booked before and is not booked twice: look for its result"


@dataclass(frozen=True)
class Preview:
    """The ledger as it would be after an entry.

    Attributes
    ----------
    spent, left, largest : float
        As `Ledger.spent`, `Ledger.left` and `Ledger.largest_fit` would return them.
    accepted : bool
        Whether the total pays for the entry.
    reason : str
        Why it does not.
    rule : str
        The composition rule that decides.
    statement : str
        As `Ledger.statement` would say it; empty where the entry is refused.
    """

    spent: float
    left: float
    largest: float
    accepted: bool
    reason: str = ""
    rule: str = ""
    statement: str = ""


@dataclass(frozen=True)
class Verification:
    """Whether a ledger is complete.

    Attributes
    ----------
    ok : bool
        Whether it is.
    entries : int
        The number of entries.
    head : str
        The hash of the last one.
    fault : str
        What is broken, where, and what to do.
    """

    ok: bool
    entries: int
    head: str
    fault: str = ""


class _RefusedError(Exception):
    """An entry is refused; ``why`` computes the reason, which is slow, once the file is unlocked."""

    def __init__(self, why: Callable[[], str]) -> None:
        super().__init__()
        self.why = why


class Ledger:
    """A total budget and the releases that were paid from it.

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
    Guarantee [allowance_kept]: what one analyst books with an allowance never exceeds the
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
        A title of the data; empty by default.
    neighbours : optional
        Another name of ``adjacency``.
    allow_larger_delta : bool
        Whether fits may be booked through this object whose δ is larger than that of the total;
        False by default, as a larger δ is mostly a typing error that costs much of the total.

    Notes
    -----
    Later releases may be chosen by the results of earlier ones, so that entries are judged by
    privacy filters.  A PureDP total adds up ε (Rogers, Roth, Ullman and Vadhan, 2016), a ZCDP total
    ρ (Feldman and Zrnic, 2021; Whitehouse, Ramdas, Rogers and Wu, 2023).  An ApproxDP total adds up
    the squared parameters of Gaussian releases (Smith and Thakurta, 2022; Koskela, Tobaben and
    Honkela, 2022), and otherwise the Rényi divergences of one order that was fixed beforehand.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6), unit="one person-year")
    >>> model = dp.LogisticRegression(
    ...     "visit ~ lncoins + health",
    ...     schema=data.schema,
    ...     budget=dp.ApproxDP(0.5, 1e-6),
    ...     ledger=ledger,
    ... )
    >>> result = model.fit(data.table).result_  # booked first, then computed
    >>> print(f"cost {ledger.spent():.2f}, the next fit may cost up to {ledger.largest_fit():.2f}")
    cost 0.50, the next fit may cost up to 1.90
    """

    def __init__(
        self,
        total: Total,
        unit: str = "one record",
        adjacency: str | None = None,
        title: str = "",
        *,
        neighbours: str | None = None,
        allow_larger_delta: bool = False,
    ) -> None:
        adjacency = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
        self._terms = _new_terms(total, unit, adjacency, title)
        self._store: Store = MemoryStore(header_text(self._terms))
        self._last_seen = self._store.rows()[0]
        self._allow_larger_delta = allow_larger_delta

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
        """Create a ledger in a file of its own.

        Parameters
        ----------
        path : path
            Where the file is made; an existing file is refused.
        total : PureDP, ZCDP or ApproxDP
            The budget for everything that is ever released from these data.
        unit : str
            What one record is, in words; by default "one record".
        adjacency : str
            What may differ between two data sets, as for `Ledger`.
        title : str
            A title of the data; empty by default.
        neighbours : optional
            Another name of ``adjacency``.

        Returns
        -------
        Ledger
            The new ledger, without entries.

        Raises
        ------
        LedgerError
            If there is a file at ``path``, or it cannot be written.

        Examples
        --------
        >>> import dpinfer as dp
        >>> ledger = dp.Ledger.create("visits.ledger", dp.ZCDP(0.5), unit="one person")
        >>> ledger.path.name
        'visits.ledger'
        """
        adjacency = one_of_two("adjacency=", adjacency, "neighbours=", neighbours)
        header = header_text(_new_terms(total, unit, adjacency, title))
        return cls._in(FileStore.create(Path(path).resolve(), header))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, allow_larger_delta: bool = False) -> Self:
        """Open the ledger in a file, after a check that it is complete.

        Parameters
        ----------
        path : path
            The file that `create` made.
        allow_larger_delta : bool
            Whether fits may be booked through this object whose δ is larger than that of the total;
            False by default.

        Returns
        -------
        Ledger
            The ledger with all its entries.

        Raises
        ------
        LedgerError
            If there is no such file, or an entry was changed or removed.

        Examples
        --------
        >>> import dpinfer as dp
        >>> path = dp.Ledger.create("claims.ledger", dp.ZCDP(0.5)).path
        >>> dp.Ledger.open(path).total
        ZCDP(rho=0.5)
        """
        ledger = cls._in(FileStore(Path(path).resolve()))
        verification = ledger.verify()
        if not verification.ok:
            raise LedgerError(verification.fault)
        ledger._allow_larger_delta = allow_larger_delta
        return ledger

    @classmethod
    def copied(cls, chain: Sequence[Row]) -> Self:
        """Return a read-only ledger from the `chain` of another."""
        return cls._in(CopiedStore(chain))

    def chain(self) -> list[Row]:
        """Return the header and all entries as they are stored, with their hashes."""
        rows = self._store.rows()
        self._entries(rows, self._last_seen)
        return rows

    @classmethod
    def _in(cls, store: Store) -> Self:
        ledger = cls.__new__(cls)
        ledger._allow_larger_delta = False
        ledger._store = store
        ledger._last_seen = _unbroken(store, store.rows())[0]
        ledger._terms = terms_of(ledger._last_seen[1])
        return ledger

    @property
    def total(self) -> Total:
        """Return the budget for everything that is ever released from these data."""
        return self._terms.total

    @property
    def shares(self) -> TotalShares:
        """Return the total as 100 %, for costs and allowances in words."""
        return TotalShares(self.total)

    @property
    def unit(self) -> str:
        """Return what one record is, in words."""
        return self._terms.unit

    @property
    def neighbours(self) -> Adjacency:
        """Return the relation of neighbouring data sets that the total protects."""
        return self._terms.neighbours

    @property
    def title(self) -> str:
        """Return the title of the data."""
        return self._terms.title

    @property
    def path(self) -> Path | None:
        """Return the path of the file, or None for a ledger in memory."""
        return self._store.path

    def book(self, entry: Entry, within: Allowance | None = None) -> str:
        """Write an entry if the total pays for it, and return its release id.

        Parameters
        ----------
        entry : Entry
            The releases of a fit, from ``model.entry(n)``.  An entry with a ``request`` that was
            booked before is refused.
        within : PureDP or ZCDP, optional
            The allowance of the analyst: all entries by the same analyst, this one included, may
            add up to it, in ε for a PureDP total and in ρ for others.  By default there is only the
            total.

        Returns
        -------
        str
            The id of the release, new for every entry.

        Raises
        ------
        LedgerError
            If the total or the allowance does not pay for the entry; nothing is written then.

        Notes
        -----
        The check and the writing are one transaction.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> ledger = dp.Ledger(dp.ZCDP(0.5), unit="one person-year")
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.2))
        >>> release = ledger.book(model.entry(20_190))
        >>> print(f"{ledger.left():.2f}")
        0.30
        """
        named = replace(entry, release=uuid.uuid4().hex, time=_now())
        text = self._stored(named, within)

        def write(rows: list[Row]) -> str:
            self._judge(self._entries(rows, self._last_seen), named, within)
            return text

        try:
            self._remember(self._store.append(write))
        except _RefusedError as refusal:
            raise LedgerError(refusal.why()) from None
        return named.release

    def added_up(self, entries: Iterable[Entry]) -> float:
        """Return the sum of what entries cost one by one, in ε for a PureDP total and in ρ for others.

        Allowances are counted in it: the sum is valid whatever the entries depend on.
        """
        releases = [event for entry in entries for event in entry.events]
        return written_up(accountant.added_up(self.total, releases))

    def preview(self, entry: Entry, within: Allowance | None = None) -> Preview:
        """Show the ledger as it would be after an entry; nothing is written, and nothing is raised.

        Parameters
        ----------
        entry : Entry
            The releases of a fit, from ``model.entry(n)``.
        within : PureDP or ZCDP, optional
            The allowance of the analyst, as for `book`.

        Returns
        -------
        Preview
            ``accepted`` or the ``reason`` why not, and ``spent``, ``left`` and ``largest``
            afterwards: the cost of all entries, the rest of the total, and the most that a further
            fit may cost.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> ledger = dp.Ledger(dp.ZCDP(0.5), unit="one person-year")
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.2))
        >>> preview = ledger.preview(model.entry(20_190))
        >>> print(preview.accepted, f"{preview.left:.2f}")
        True 0.30
        """
        try:
            entries = self.entries()
            self._stored(entry, within)
            refusal = self._refusal(entries, entry, within)
            after = self._count([*entries, entry])
            spent = after.spent()
            left = after.left()
            if refusal:
                return Preview(spent, left, math.nan, False, refusal, after.rule)
            largest = after.largest()
            share = self.shares.of(self.added_up([*entries, entry]))
            words = self.shares.statement(share, largest)
            return Preview(spent, left, largest, True, "", after.rule, words)
        except DpinferError as fault:
            return Preview(math.nan, math.nan, math.nan, False, str(fault))

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, the oldest first.

        Returns
        -------
        tuple of Entry
            Each with its ``purpose``, ``cost``, ``time`` and ``release`` id.
        """
        return self.read()[0]

    def read(self) -> tuple[tuple[Entry, ...], Count]:
        """Return the entries and their cost together, both at one moment."""
        last_seen = self._last_seen
        entries = self._entries(self._store.rows(), last_seen)
        return entries, self._count(entries)

    def __repr__(self) -> str:
        """Return the place, the total, the number of entries, and the statement."""
        place = "in memory" if self.path is None else str(self.path)
        try:
            entries, count = self.read()
        except LedgerError:
            return f"<Ledger {place}: it cannot be read>"
        number = "1 entry" if len(entries) == 1 else f"{len(entries)} entries"
        return f"<Ledger {place}, {self.total.amount}, {number}: {self._statement(entries, count)}>"

    def statement(self) -> str:
        """Say how much of the total is used, and what the next question may cost.

        Returns
        -------
        str
            Two sentences.  The percentage adds up over entries; it is that of the command line and of
            the pages of a desk.

        Examples
        --------
        >>> import dpinfer as dp
        >>> dp.Ledger(dp.ApproxDP(2.0, 1e-6)).statement()
        '0 % of the total is used. The next question may cost up to ε = 2.'
        """
        return self._statement(*self.read())

    def _statement(self, entries: Iterable[Entry], count: Count) -> str:
        return self.shares.statement(self.shares.of(self.added_up(entries)), count.largest())

    def to_frame(self) -> "pd.DataFrame":
        """Return the entries as a data frame, the oldest first.

        Returns
        -------
        pandas.DataFrame
            One row per entry: ``time`` (UTC), ``purpose``, ``by`` whom it was asked, the budget as it
            was asked (``epsilon``, ``delta``, ``rho``; NaN where it has none), its ``share`` of the
            total, the share ``used`` by it and all entries before, the composition ``rule`` by which
            the total pays, and the ``release`` id.  Entries of earlier versions, which did not keep
            the budget, have the ε of their releases.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> ledger = dp.Ledger(dp.ZCDP(0.5), unit="one person-year")
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.2))
        >>> _ = ledger.book(model.entry(20_190))
        >>> ledger.to_frame()[["purpose", "rho", "share", "used"]].round(2).to_dict("records")
        [{'purpose': 'LinearRegression: mdvis ~ physlm', 'rho': 0.2, 'share': 0.4, 'used': 0.4}]
        """
        import pandas as pd  # noqa: PLC0415  (slow to load)

        entries, count = self.read()
        used = accumulate((self.added_up([entry]) for entry in entries), initial=0.0)
        rows = [
            {
                "time": entry.time,
                "purpose": entry.purpose,
                "by": entry.by,
                **self._budget_of(entry),
                "share": self.shares.of(self.added_up([entry])),
                "used": self.shares.of(so_far),
                "rule": rule,
                "release": entry.release,
            }
            for entry, rule, so_far in zip(entries, count.rules(), list(used)[1:], strict=True)
        ]
        return pd.DataFrame(rows, columns=_COLUMNS)

    def _budget_of(self, entry: Entry) -> dict[str, float]:
        """Return the budget of an entry as it was asked, by its keys."""
        asked = entry.asked
        if asked is None and isinstance(self.total, ApproxDP):
            asked = ApproxDP(accountant.spent(self.total, entry.events), self.total.delta)
        if asked is None:
            asked = entry.cost
        delta = 0.0 if isinstance(asked, PureDP) else math.nan
        return {
            "epsilon": getattr(asked, "epsilon", math.nan),
            "delta": getattr(asked, "delta", delta),
            "rho": getattr(asked, "rho", math.nan),
        }

    def to_dp_event(self) -> "DpEvent":
        """Return the releases of all entries as an event of dp_accounting, to be composed by its accountants.

        Returns
        -------
        dp_accounting.DpEvent
            A `ComposedDpEvent` of entries, each a `ComposedDpEvent` with one event per release:
            `GaussianDpEvent` for Gaussian noise, `RandomizedResponseDpEvent` for pure ε, and `ZCDpEvent`
            for others.

        Raises
        ------
        LedgerError
            If levels were learned: their part of δ has no event.

        Notes
        -----
        An accountant composes releases whose sizes were fixed beforehand.  The filters of the ledger
        also hold where later fits were chosen by earlier results, and may count a little more.
        Noise multipliers are for the sensitivity between neighbours of this ledger: give an accountant the
        relation ``REPLACE_SPECIAL``, as ``REPLACE_ONE`` would double it.

        Examples
        --------
        >>> import dpinfer as dp
        >>> dp.Ledger(dp.ZCDP(0.5)).to_dp_event()
        ComposedDpEvent(events=[])
        """
        return event_tree([entry.events for entry in self.entries()])

    def second_accountant(self) -> AccountantComparison:
        """Return what dp_accounting counts for the releases of all entries, beside what this ledger counts.

        Returns
        -------
        AccountantComparison
            ``ours`` and ``theirs``, each an ε at ``delta``, the number of releases ``compared``, and the
            releases ``without_event``, which are not.

        Notes
        -----
        For an (ε, δ) total ours is the count of its filter, otherwise the ε at δ = 10⁻⁶ of the releases.
        Theirs composes privacy loss distributions on a grid, and rounds up.

        Examples
        --------
        >>> import dpinfer as dp
        >>> data = dp.datasets.rand_hie()
        >>> ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6), unit="one person-year")
        >>> budget = dp.ApproxDP(1.0, 1e-6)
        >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=budget)
        >>> _ = ledger.book(model.entry(20_190))
        >>> check = ledger.second_accountant()
        >>> print(f"{check.ours:.3f} {check.theirs:.3f} {check.ok}")
        1.000 1.000 True
        """
        return compare(*self.read())

    def to_jsonl(self) -> str:
        """Return the header and all entries as JSON lines with their hashes, for an auditor.

        Returns
        -------
        str
            One JSON object per line, the header first.
        """
        return to_jsonl(self.chain())

    def spent(self) -> float:
        """Return the cost of all entries together.

        Returns
        -------
        float
            ε of a PureDP total, ρ of a ZCDP total, ε at the total's own δ of an ApproxDP total.

        Examples
        --------
        >>> import dpinfer as dp
        >>> dp.Ledger(dp.ApproxDP(2.0, 1e-6)).spent()
        0.0
        """
        return self.read()[1].spent()

    def left(self) -> float:
        """Return the total less the cost of all entries.

        With an ApproxDP total several releases cost less together than one by one, so that a fit
        may cost more than this: see `largest_fit`.

        Returns
        -------
        float
            ε of a PureDP total, ρ of a ZCDP total, ε at the total's own δ of an ApproxDP total.

        Examples
        --------
        >>> import dpinfer as dp
        >>> dp.Ledger(dp.ApproxDP(2.0, 1e-6)).left()
        2.0
        """
        return self.read()[1].left()

    def largest_fit(self) -> float:
        """Return the most that one further fit may cost.

        It is meant for a fit whose noise is all Gaussian: logistic regression, least squares and
        Poisson regression without a penalty.  A penalised fit may get less under an ApproxDP total:
        see `preview`.

        Returns
        -------
        float
            ε of a PureDP total, ρ of a ZCDP total, ε at the total's own δ of an ApproxDP total.

        Examples
        --------
        >>> import dpinfer as dp
        >>> print(f"{dp.Ledger(dp.ZCDP(0.5)).largest_fit():.2f}")
        0.50
        """
        return self.read()[1].largest()

    def rules(self) -> tuple[str, ...]:
        """Return, for each entry, the composition rule by which the total pays for it.

        Returns
        -------
        tuple of str
            One rule per entry, the oldest first.
        """
        return self.read()[1].rules()

    def verify(self) -> Verification:
        """Check the file, the header, every entry and their order.

        Returns
        -------
        Verification
            ``ok``, the number of ``entries``, the hash of the last one as ``head``, and the
            ``fault`` with its remedy where something is broken.

        Examples
        --------
        >>> import dpinfer as dp
        >>> dp.Ledger(dp.ZCDP(0.5)).verify().ok
        True
        """
        try:
            damage = self._store.damage()
            if damage:
                raise LedgerError(_broken(self._store, damage))
            last_seen = self._last_seen
            rows = self._store.rows()
            entries = self._entries(rows, last_seen)
        except LedgerError as fault:
            return Verification(False, 0, "", str(fault))
        return Verification(True, len(entries), rows[-1][2])

    def _entries(self, rows: list[Row], last_seen: Row) -> tuple[Entry, ...]:
        """Return the entries of a chain that is intact, has the terms it was opened with, and lacks
        nothing seen before.
        """
        header, *others = _unbroken(self._store, rows)
        if terms_of(header[1]) != self._terms:
            raise LedgerError(f"{self.path} is no longer the ledger that was opened: open it again")
        if len(rows) <= last_seen[0] or rows[last_seen[0]][2] != last_seen[2]:
            raise LedgerError(
                f"{self.path} lacks entries that were in it: an old copy was put back; put the newest one in its place"
            )
        self._remember(rows[-1])
        return tuple(entry_of(number, text) for number, text, _ in others)

    def _remember(self, last: Row) -> None:
        """Keep the last row that was seen; a thread that comes late with an earlier one changes
        nothing.
        """
        if last[0] > self._last_seen[0]:
            self._last_seen = last

    def _count(self, entries: Sequence[Entry]) -> Count:
        return Count(self.total, self._terms.orders, tuple(entry.events for entry in entries))

    def _judge(self, entries: Sequence[Entry], entry: Entry, within: Allowance | None) -> None:
        """Refuse what was booked before, what the allowance and what the total does not pay for."""
        if entry.request and any(entry.request == other.request for other in entries):
            raise _RefusedError(lambda: _REPEATED)
        if within is not None:
            own = [other for other in entries if other.by == entry.by]
            events = [event for other in (*own, entry) for event in other.events]
            if accountant.added_up(self.total, events) > written(_amount(within)):
                raise _RefusedError(lambda: self._beyond(own, entry, within))
        if not self._count([*entries, entry]).paid():
            raise _RefusedError(lambda: self._too_much(entries, entry))

    def _refusal(self, entries: Sequence[Entry], entry: Entry, within: Allowance | None) -> str:
        """Return why an entry would be refused; empty where it would not."""
        try:
            self._judge(entries, entry, within)
        except _RefusedError as refusal:
            return refusal.why()
        return ""

    def _stored(self, entry: Entry, within: Allowance | None = None) -> str:
        """Return the entry as it would be stored; `LedgerError` if it is none of this ledger,
        whatever was booked.
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
        self._require_delta(entry)
        kind = PureDP if isinstance(self.total, PureDP) else ZCDP
        if within is not None and not isinstance(within, kind):
            raise LedgerError(
                f"an allowance inside this total is counted in {accountant.counted_in(self.total)}: give it as "
                f"{kind.__name__}"
            )
        return entry_text(entry)

    def _require_delta(self, entry: Entry) -> None:
        """Refuse a budget with a larger δ than the total has, unless that was confirmed."""
        wrong = larger_delta(self.total, entry.asked)
        if wrong and not self._allow_larger_delta:
            cost = self.shares.percent(self.added_up([entry]))
            raise LedgerError(
                f"{wrong}, and the fit would cost {cost} of the total; nothing was booked. Lower δ, or confirm "
                "it with --allow-larger-delta, in Python dp.Ledger.open(path, allow_larger_delta=True)"
            )

    def _protects(self, entry: Entry) -> str:
        """Return which side protects rows and which all rows of a unit, where they differ."""
        if self.neighbours.units == entry.neighbours.units:
            return ""
        if self.neighbours.units:
            return " (it protects all rows of a unit and the fit one row)"
        return " (it protects one row and the fit all rows of a unit)"

    def _too_much(self, entries: Sequence[Entry], entry: Entry) -> str:
        """Return why the total does not pay for the entry."""
        if self._count([*entries, entry]).late:
            return (
                "levels come first: how much of an (epsilon, delta) total's delta they take is fixed by its first "
                "entry, and this ledger has one; learn ranges alone, and state the levels in the schema"
            )
        largest = self._count(entries).largest()
        needed = accountant.spent(self.total, entry.events)
        less = ""
        if needed <= largest:  # it is judged by another filter
            less = ", less where its noise is not all Gaussian, as that of a penalised fit"
        sign = self.shares.sign
        return (
            f"this costs {sign} = {needed:.6g}, and the next question may cost up to "
            f"{self.shares.up_to(largest, 6)} of the total, {self.total.amount}{less}: lower its budget, or stop here"
        )

    def _beyond(self, own: Sequence[Entry], entry: Entry, within: Allowance) -> str:
        """Return why the allowance does not pay for the entry, next to the ``own`` ones of its
        asker.
        """
        amount = self.added_up([entry])
        left = max(0.0, _amount(within) - self.added_up(own))
        return (
            f"this costs {self.shares.cost(entry.asked, amount)}, and the allowance of {entry.by!r}, "
            f"{self.shares.percent(_amount(within))} of the total, has {self.shares.percent(left)} left, for "
            f"{self.shares.up_to(self.shares.epsilon(left), 6)} at most: lower its budget, or ask for a larger "
            "allowance"
        )

    # A copy would be a second budget for the same data, so there are none.
    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if self.path is None:
            raise LedgerError(
                "a ledger in memory cannot be sent to another process, where it would be spent twice: "
                "use dp.Ledger.create(path)"
            )
        return _opened, (type(self), self.path, self._allow_larger_delta)


def _opened(cls: type[Ledger], path: Path, allow_larger_delta: bool) -> Ledger:
    """Return the ledger of another process, opened in this one."""
    return cls.open(path, allow_larger_delta=allow_larger_delta)


def larger_delta(total: Total, asked: object) -> str:
    """Return what is wrong with a budget whose δ is larger than the total's; empty if nothing is."""
    if not isinstance(total, ApproxDP) or not isinstance(asked, ApproxDP):
        return ""
    if asked.delta <= total.delta:
        return ""
    return f"δ = {power_of_ten(asked.delta)} is larger than the δ of the total, {power_of_ten(total.delta)}"


def _amount(allowance: Allowance) -> float:
    return allowance.epsilon if isinstance(allowance, PureDP) else allowance.rho


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _new_terms(total: Total, unit: str, adjacency: str | None, title: str) -> Terms:
    """Return the terms of a new ledger.  A δ that is no promise is refused here and not when an old
    ledger is opened.
    """
    require_promise(total)
    return Terms(
        total,
        unit,
        Adjacency.of(adjacency or Adjacency.REPLACE),
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
