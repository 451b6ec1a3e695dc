"""The process of one fit: it books, reads, fits and keeps the result, under limits, and says nothing.

Its parent reads no word of it: only the ledger, the file of the result, and whether it still lives.
"""

import math
import os
import resource
import signal
import sys
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from dpinfer import persistence
from dpinfer.errors import DpinferError, LedgerError, LowBudgetWarning
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tables, tickets
from dpinfer_desk.store.checkpoints import OLD_LEDGER, still_has
from dpinfer_desk.store.locks import held
from dpinfer_desk.store.roles import ACTIVE, allowance_of
from dpinfer_desk.store.tables import Table
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.store.verification import whole_result

FAULT = (
    "something went wrong before anything was booked: the steward finds it in the log of the desk"
)
NO_RUNG = "the slot of the question is none of this desk: nothing was booked, ask again"
_NOT_CLAIMED = "the question was booked and is not claimed any more: no record is read"
_CPU = 60  # seconds of processor time beyond what all cores may do in a slot


@dataclass
class Booking:
    """A ledger that books for one question, and tells the desk before a record is read."""

    desk: Desk
    ticket: Ticket
    ledger: Ledger

    def book(self, entry: Entry) -> str:
        """Book within the allowance, once, and write down when.  Whether the question may be booked
        is judged here, after rows were counted, as access may be revoked meanwhile.  From then on
        the process has the slot, less its margin, to live.
        """
        amount = self._allowed()
        named = replace(entry, by=self.ticket.by, request=self.ticket.id)
        release = self.ledger.book(named, within=allowance_of(self.ledger.total, amount))
        (booked,) = (one for one in self.ledger.entries() if one.release == release)
        _end_at(replace(self.ticket, booked=booked.time))
        still_has(self.desk.folder.seen, str(self.ledger.path), self.ledger)
        mark_booked(self.desk, self.ticket.id, booked)
        self.desk.publish(self.ticket.table)
        return release

    def _allowed(self) -> float:
        """The allowance of the asker; `LedgerError` where nothing is booked."""
        self.desk.register.require_newest()
        refusal = _refusal(self.desk, self.ticket, self.ledger)
        if refusal:
            raise LedgerError(refusal)
        return self.desk.register.allowances(self.ticket.table)[self.ticket.by][0]


def mark_booked(desk: Desk, ident: str, entry: Entry) -> None:
    """Write down that the ledger has the entry of a question; `LedgerError` if it is not claimed."""
    moved = desk.register.move(
        ident,
        (tickets.CLAIMED,),
        tickets.BOOKED,
        "worker",
        booked=entry.time,
        release=entry.release,
    )
    if moved is None:
        raise LedgerError(_NOT_CLAIMED)


def _end_at(ticket: Ticket) -> None:
    """Let the kernel end this process before the slot of a question does, whoever looks after it."""
    ends = ticket.ends
    assert ends is not None
    left = (ends - tickets.now()).total_seconds()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))


def main(folder: str, ident: str) -> None:
    """Fit one question that was claimed; the process ends with it."""
    os.setsid()
    desk = Desk.open(folder, who="worker")
    with held(desk.folder.locks / ident) as mine:
        if not mine:
            return
        ticket = desk.register.ticket(ident)
        if ticket.state != tickets.CLAIMED:  # somebody was quicker
            return
        if ticket.slot is None or ticket.slot not in desk.settings.ladder:
            refuse(desk, ticket, (tickets.CLAIMED,), NO_RUNG)
            return
        limit(desk.settings.memory, ticket.slot)
        _log(desk.folder.logs / f"{ident}.log")
        warnings.simplefilter("ignore", LowBudgetWarning)
        _answer(desk, ticket)


def _answer(desk: Desk, ticket: Ticket) -> None:
    table = desk.table(ticket.table)
    try:
        ledger = table.ledger()
        refusal = _refusal(desk, ticket, ledger)
        if refusal:
            raise LedgerError(refusal)
        model = ticket.question.model(table.schema, ledger.neighbours)
        model.set_params(ledger=Booking(desk, ticket, ledger))
        result = model.fit(table.place).result_
    except BaseException as fault:
        traceback.print_exc()
        if not _is_booked(table, ticket):
            reason = table.public(str(fault)) if isinstance(fault, DpinferError) else FAULT
            refuse(desk, ticket, (tickets.CLAIMED,), reason)
        return
    path = desk.folder.result(ticket.id)
    path.parent.mkdir(exist_ok=True)
    persistence.write(path, result.to_json().encode())
    # said here, as a parent with much to do could come to it after the slot has ended
    assert result.privacy.release is not None
    if whole_result(desk.folder, ticket.id, result.privacy.release) is not None:
        desk.register.settle(ticket.id, tickets.KEPT)


def _is_booked(table: Table, ticket: Ticket) -> bool:
    """Whether the ledger has the question; the ledger alone decides."""
    return any(entry.request == ticket.id for entry in table.ledger().entries())


def _refusal(desk: Desk, ticket: Ticket, ledger: Ledger) -> str:
    """Why nothing is booked; empty where something is.

    Guarantee [no_old_ledger]: nothing is booked in a ledger that lacks an entry of a question that
    was paid from it, or the row that was its last one when the worker saw it last, whatever desk.db
    says; the table pauses.
    """
    table = desk.table(ticket.table)
    state = desk.register.allowances(table.name).get(ticket.by, (0.0, "without an allowance"))[1]
    if table.state != tables.OPEN:
        return f"the table {table.name} is paused"
    if state != ACTIVE:
        return f"the access of {ticket.by!r} to {table.name} is {state}"
    if desk.folder.room() < desk.settings.free:
        return "there is not enough room on the disk of the desk"
    changed = table.changed()
    if changed:
        desk.pause(table.name, changed)
        return "the table is not the one that was registered, and is paused until the steward has looked at it"
    paid = desk.register.paid(table.book)  # first: another process may book in between
    kept = {entry.request for entry in ledger.entries()}.issuperset(paid)
    if not kept or not still_has(desk.folder.seen, table.book, ledger):
        desk.alarm(table.name, OLD_LEDGER)
        return OLD_LEDGER
    return ""


def refuse(desk: Desk, ticket: Ticket, from_: tuple[str, ...], reason: str) -> None:
    """Nothing was booked, and nothing will be: say why."""
    desk.register.move(
        ticket.id,
        from_,
        tickets.REFUSED,
        "worker",
        decided=desk.clock().isoformat(),
        reason=reason,
    )


def limit(megabytes: int, slot: float) -> None:
    """No more memory and time than is allowed, and no copy of the memory on the disk."""
    seconds = math.ceil(slot * (os.cpu_count() or 1)) + _CPU
    memory = megabytes * 10**6
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
    ):
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def _log(path: Path) -> None:
    """From here on everything that is printed goes to the steward's log."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    if os.fstat(handle).st_nlink > 1:
        raise LedgerError(f"{path} has a second name: take it away, and find out who made it")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
