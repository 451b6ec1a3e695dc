"""The process of one fit: it books the cost, reads the data, fits and stores the result, under limits.

Its output goes to a log.  Its parent learns of it only from the ledger, from desk.db, from the file of the
result, and by whether it still runs.
"""

import math
import os
import resource
import signal
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

from dpinfer import persistence
from dpinfer.errors import DpinferError, LedgerError
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Ledger
from dpinfer_desk.desk import Desk, delta_fault
from dpinfer_desk.store import checkpoints, locks, tables, tickets
from dpinfer_desk.store.roles import ACTIVE, allowance_of
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.store.verification import valid_result

FAULT = (
    "something went wrong before anything was booked: the steward finds it in the log of the desk"
)
NO_SUCH_RESPONSE_TIME = (
    "the response time of the question is none of this desk: nothing was booked, ask again"
)
_NOT_CLAIMED = "the question was booked and is not claimed any more: no record is read"
_CPU = 60  # seconds of processor time beyond those of all cores in a response time


@dataclass
class Booking:
    """A ledger that books for one question, and has desk.db know it before a record is read."""

    desk: Desk
    ticket: Ticket
    ledger: Ledger

    def book(self, entry: Entry) -> str:
        """Book a fit within the allowance of its analyst, and return the id of the release."""
        # Checked here once more, as access may have been revoked meanwhile.
        amount = self._allowance()
        named = replace(entry, by=self.ticket.by, request=self.ticket.id)
        release = self.ledger.book(named, within=allowance_of(self.ledger.total, amount))
        # The order matters.  The ledger comes first, as it alone decides what was paid.  Then the timer:
        # whatever goes wrong below, the process ends before the answer time.  The checkpoint comes before
        # desk.db, which somebody else could change, and desk.db before the first record is read: if the
        # question is not claimed any more, `record_booking` raises and none is read.
        (booked,) = (one for one in self.ledger.entries() if one.release == release)
        _set_timer(replace(self.ticket, booking_time=booked.time))
        checkpoints.extends(self.desk.folder.checkpoints, str(self.ledger.path), self.ledger)
        record_booking(self.desk, self.ticket.id, booked)
        self.desk.publish(self.ticket.table)
        return release

    def _allowance(self) -> float:
        """Return the allowance of the analyst; `LedgerError` if nothing may be booked."""
        self.desk.register.require_newest()
        refusal = _refusal(self.desk, self.ticket, self.ledger)
        if refusal:
            raise LedgerError(refusal)
        return self.desk.register.allowances(self.ticket.table)[self.ticket.by][0]


def record_booking(desk: Desk, ident: str, entry: Entry) -> None:
    """Store that the ledger has an entry of a question; `LedgerError` if it is not claimed."""
    moved = desk.register.move(
        ident,
        (tickets.CLAIMED,),
        tickets.BOOKED_STATE,
        "worker",
        booked=entry.time,
        release=entry.release,
    )
    if moved is None:
        raise LedgerError(_NOT_CLAIMED)


def _set_timer(ticket: Ticket) -> None:
    """Have the kernel end this process at its deadline, even if the worker is gone by then."""
    deadline = ticket.deadline
    assert deadline is not None
    left = (deadline - tickets.now()).total_seconds()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))


def main(folder: str, ident: str) -> None:
    """Fit one claimed question; the process ends with it."""
    os.setsid()  # so that the worker can kill this process together with its own children
    desk = Desk.open(folder, who="worker")
    with locks.acquire(desk.folder.locks / ident) as acquired:
        if not acquired:
            return
        ticket = desk.register.ticket(ident)
        if ticket.state != tickets.CLAIMED:  # another process has it, or it was refused
            return
        if ticket.response_time is None or ticket.response_time not in desk.settings.response_times:
            refuse(desk, ticket, (tickets.CLAIMED,), NO_SUCH_RESPONSE_TIME)
            return
        limit(desk.settings.memory, ticket.response_time)
        _log(desk.folder.logs / f"{ident}.log")
        _answer(desk, ticket)


def _answer(desk: Desk, ticket: Ticket) -> None:
    table = desk.table(ticket.table)
    try:
        ledger = table.ledger()
        refusal = _refusal(desk, ticket, ledger) or delta_fault(ledger, ticket.question)
        if refusal:
            raise LedgerError(refusal)
        model = ticket.question.model(table.schema, ledger.neighbours)
        model.set_params(ledger=Booking(desk, ticket, ledger))
        design, source = model.read(table.data_path, number=_sealed_number(table, ledger))
        result = model.fit_read(design, source).result_
    except BaseException as fault:
        traceback.print_exc()
        # After booking nothing is said: any word about the fault could depend on the data.
        if not _has_entry(table, ticket):
            reason = table.without_folders(str(fault)) if isinstance(fault, DpinferError) else FAULT
            refuse(desk, ticket, (tickets.CLAIMED,), reason)
        return
    path = desk.folder.result(ticket.id)
    path.parent.mkdir(exist_ok=True)
    persistence.write(path, result.to_json().encode())
    # Stored here and not by the worker, which could be busy until after the answer time.
    assert result.privacy.release is not None
    if valid_result(desk.folder, ticket.id, result.privacy.release) is not None:
        desk.register.settle(ticket.id, tickets.KEPT)


def _sealed_number(table: RegisteredTable, ledger: Ledger) -> int:
    """Return the number of records or units that was sealed at registration; 0 where it is private.

    Guarantee [nothing_counted_before_booking]: of the files of a table nothing is read before booking but their names,
    types and metadata, so that no row and no id decides whether a question is refused free of charge.
    """
    if not ledger.neighbours.counted:
        return 0
    assert table.records is not None
    return table.records


def _has_entry(table: RegisteredTable, ticket: Ticket) -> bool:
    return any(entry.request == ticket.id for entry in table.ledger().entries())


def _refusal(desk: Desk, ticket: Ticket, ledger: Ledger) -> str:
    """Return why the question must not be booked; empty if it may be.

    Guarantee [no_old_ledger]: nothing is booked in a ledger that lacks an entry of a question that
    was paid from it, or the row that was its last one when the worker saw it last, whatever desk.db
    says; the table pauses.
    """
    table = desk.table(ticket.table)
    allowances = desk.register.allowances(table.name)
    state = allowances.get(ticket.by, (0.0, "without an allowance"))[1]
    if table.state != tables.OPEN:
        return f"the table {table.name} is paused"
    if state != ACTIVE:
        return f"the access of {ticket.by!r} to {table.name} is {state}"
    if desk.folder.free_megabytes() < desk.settings.free:
        return "there is not enough free space on the disk of the desk"
    changed = table.changed()
    if changed:
        desk.pause(table.name, changed)
        return "the table is not the one that was registered, and is paused until the steward has looked at it"
    # desk.db before the ledger: an entry that another process books in between is then in the ledger alone.
    paid = desk.register.paid(table.ledger_path)
    complete = {entry.request for entry in ledger.entries()}.issuperset(paid)
    if not complete or not checkpoints.extends(desk.folder.checkpoints, table.ledger_path, ledger):
        desk.alarm(table.name, checkpoints.OLD_LEDGER)
        return checkpoints.OLD_LEDGER
    return ""


def refuse(desk: Desk, ticket: Ticket, from_: tuple[str, ...], reason: str) -> None:
    """Refuse a question that was not booked, with a reason for its analyst."""
    desk.register.move(
        ticket.id,
        from_,
        tickets.REFUSED,
        "worker",
        decided=desk.clock().isoformat(),
        reason=reason,
    )


def limit(megabytes: int, response_time: float) -> None:
    """Limit memory and processor time of this process, and forbid core files, which would hold records."""
    seconds = math.ceil(response_time * (os.cpu_count() or 1)) + _CPU
    memory = megabytes * 10**6
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
    ):
        hard = resource.getrlimit(kind)[1]
        upper = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (upper, upper))


def _log(path: Path) -> None:
    """Redirect all output to a log, which only the steward may read."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    if os.fstat(handle).st_nlink > 1:
        raise LedgerError(f"{path} has a second name: take it away, and find out who made it")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
