"""The process of one fit: it books, reads, fits and keeps the result, under limits, and says nothing.

Its parent reads no word of it: only the ledger, the file of the result, and whether it still lives.
"""

import math
import os
import resource
import sys
import traceback
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

from dpinfer import persistence
from dpinfer.desk import tables, tickets
from dpinfer.desk.desk import Desk
from dpinfer.desk.holding import held
from dpinfer.desk.people import ACTIVE, allowance_of
from dpinfer.desk.tables import Table
from dpinfer.desk.tickets import Ticket
from dpinfer.desk.verification import whole_result
from dpinfer.errors import DpinferError, HopelessFitWarning
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.ledger import Allowance, Ledger

FAULT = (
    "something went wrong before anything was booked: the steward finds it in the log of the desk"
)
_CPU = 60  # seconds of processor time beyond what all cores may do in a slot


@dataclass
class Booking:
    """A ledger that books for one question, and tells the desk before a record is read."""

    desk: Desk
    ticket: Ticket
    ledger: Ledger
    within: Allowance
    done: bool = False

    def book(self, entry: Entry) -> str:
        """Book within the allowance, once, and write down when."""
        named = replace(entry, by=self.ticket.by, request=self.ticket.id)
        release = self.ledger.book(named, within=self.within)
        self.done = True
        (booked,) = (one for one in self.ledger.entries() if one.release == release)
        mark_booked(self.desk, self.ticket.id, booked)
        return release


def mark_booked(desk: Desk, ident: str, entry: Entry) -> None:
    """Write down that the ledger has the entry of a question."""
    desk.register.move(
        ident,
        (tickets.CLAIMED,),
        tickets.BOOKED,
        "worker",
        booked=entry.time,
        release=entry.release,
    )


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
        _limit(desk, ticket)
        _log(desk.folder.logs / f"{ident}.log")
        warnings.simplefilter("ignore", HopelessFitWarning)
        _answer(desk, ticket)


def _answer(desk: Desk, ticket: Ticket) -> None:
    table = desk.table(ticket.table)
    ledger = table.ledger()
    amount, state = desk.register.allowances(table.name).get(
        ticket.by, (0.0, "without an allowance")
    )
    refusal = _refusal(desk, table, ticket, state)
    if refusal:
        _refuse(desk, ticket, refusal)
        return
    booking = Booking(desk, ticket, ledger, allowance_of(ledger.total, amount))
    try:
        model = ticket.question.model(table.schema, ledger.neighbours)
        model.set_params(ledger=booking)
        result = model.fit(table.place).result_
    except BaseException as fault:
        traceback.print_exc()
        if not booking.done:
            _refuse(desk, ticket, str(fault) if isinstance(fault, DpinferError) else FAULT)
        return
    path = desk.folder.result(ticket.id)
    path.parent.mkdir(exist_ok=True)
    persistence.write(path, result.to_json().encode())
    # said here, as a parent with much to do could come to it after the slot has ended
    assert result.privacy.release is not None
    if whole_result(desk.folder, ticket.id, result.privacy.release) is not None:
        desk.register.settle(ticket.id, tickets.KEPT)


def _refusal(desk: Desk, table: Table, ticket: Ticket, state: str) -> str:
    """Why nothing is booked; empty where something is."""
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
    return ""


def _refuse(desk: Desk, ticket: Ticket, reason: str) -> None:
    desk.register.move(
        ticket.id,
        (tickets.CLAIMED,),
        tickets.REFUSED,
        "worker",
        decided=tickets.now().isoformat(),
        reason=reason,
    )


def _limit(desk: Desk, ticket: Ticket) -> None:
    """No more memory and time than is allowed, and no copy of the memory on the disk."""
    assert ticket.slot is not None
    seconds = math.ceil(ticket.slot * (os.cpu_count() or 1)) + _CPU
    memory = desk.settings.memory * 10**6
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, memory),
    ):
        hard = resource.getrlimit(limit)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (most, most))


def _log(path: Path) -> None:
    """From here on everything that is printed goes to the steward's log."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
