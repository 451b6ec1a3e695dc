"""The worker of a desk: it claims questions, has each fitted in a process of its own, and waits out
the slot.

One question of a table at a time.  The worker is busy with it for the whole slot, whatever the fit
does, so that the queue tells nothing of the data either.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dpinfer.errors import InputError, LedgerError
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import published, tables, tickets
from dpinfer_desk.store.locks import held, holder
from dpinfer_desk.store.roles import ACTIVE
from dpinfer_desk.store.tables import Table
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.worker import fit_process, response_times
from dpinfer_desk.worker.recovery import recover, settle

_POLL = 0.02  # seconds between two looks at a question that is under way
_IDLE = 0.5  # seconds between two looks at an empty queue
_TRIES = 3  # of a process that ends before it has booked or refused
_TO_BOOK = 120.0  # seconds that a process has before it books


@dataclass
class _Running:
    """A question under way; ``process`` is None where an earlier worker has started it."""

    table: str
    process: Any
    since: float


class Worker:
    """Runs the questions of a desk.

    ``method`` is how processes are started: from a server that has everything imported, or by a
    fork of this process, as tests do.
    """

    def __init__(self, desk: Desk, method: str = "forkserver") -> None:
        self._desk = desk
        self._context = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(["dpinfer_desk.worker.fit_process"])
        self._running: dict[str, _Running] = {}
        self._tries: dict[str, int] = {}
        self._stop = threading.Event()
        self._published = -math.inf

    def run(self, *, until_idle: bool = False, stop: threading.Event | None = None) -> None:
        """Work until ``stop`` is set or, with ``until_idle``, until nothing can be done.  What an
        earlier worker left is settled first.  One worker per desk.
        """
        self._stop = stop or threading.Event()
        with held(self._desk.folder.locks / "worker") as mine:
            if not mine:
                raise InputError("a worker of this desk runs already: leave it at work, or stop it")
            recover(self._desk)
            self._take_over()
            while not self._stop.is_set():
                self._publish()
                self._look_after()
                started = self._start_some()
                if until_idle and not started and not self._running:
                    return
                if not started:
                    self._stop.wait(_POLL if self._running else _IDLE)

    def _take_over(self) -> None:
        """Questions whose process has outlived the worker that started it, and outcomes that are
        not shown yet.
        """
        for ticket in self._desk.register.tickets():
            if ticket.state in (*tickets.RUNNING, *tickets.SETTLED):
                self._running[ticket.id] = _Running(ticket.table, None, time.monotonic())

    def _publish(self) -> None:
        """Now and then, what those may know who read neither data nor ledgers."""
        if time.monotonic() < self._published + published.EVERY:
            return
        for table in self._desk.tables():
            self._desk.publish(table.name)
        published.beat(self._desk.folder.accounts)
        self._published = time.monotonic()

    # What is under way

    def _look_after(self) -> None:
        for ident, running in list(self._running.items()):
            ticket = self._desk.register.ticket(ident)
            try:
                if ticket.state in tickets.RUNNING:
                    ticket = self._settled(ticket, running)
            except LedgerError as fault:  # other tables go on; the next worker looks at it again
                self._kill(ticket, running)
                self._desk.alarm(running.table, str(fault))
                del self._running[ident]
                continue
            if ticket.state in tickets.SETTLED and self._over(ticket):
                self._end(ticket, running)
            elif ticket.state in (*tickets.RUNNING, *tickets.SETTLED):
                continue
            _join(running)
            del self._running[ident]

    def _settled(self, ticket: Ticket, running: _Running) -> Ticket:
        """The question after its process has ended, or was ended; as it is while that is at work."""
        if self._alive(ticket, running):
            if not self._late(ticket, running):
                return ticket
            self._kill(ticket, running)
        fresh = self._desk.register.ticket(ticket.id)
        if fresh.state not in tickets.RUNNING:
            return fresh
        ledger = self._desk.table(ticket.table).ledger()
        entry = next((one for one in ledger.entries() if one.request == ticket.id), None)
        if entry is None:
            self._tries[ticket.id] = self._tries.get(ticket.id, 0) + 1
            if self._tries[ticket.id] >= _TRIES:
                fit_process.refuse(self._desk, fresh, (tickets.CLAIMED,), fit_process.FAULT)
                return self._desk.register.ticket(ticket.id)
        settle(self._desk, fresh, entry)
        return self._desk.register.ticket(ticket.id)

    def _end(self, ticket: Ticket, running: _Running) -> None:
        """The slot has ended: its process with it, and the outcome is an event."""
        if self._alive(ticket, running):
            self._kill(ticket, running)
        self._desk.register.show(ticket.id, tickets.SETTLED[ticket.state])

    def _alive(self, ticket: Ticket, running: _Running) -> bool:
        if running.process is not None and running.process.is_alive():
            return True
        return holder(self._desk.folder.locks / ticket.id) is not None

    def _late(self, ticket: Ticket, running: _Running) -> bool:
        """Whether the process has used up its slot, or its time to book."""
        ends = ticket.ends
        if ends is None:
            return time.monotonic() - running.since > _TO_BOOK
        return self._now() >= ends

    def _over(self, ticket: Ticket) -> bool:
        return ticket.due is not None and self._now() >= ticket.due

    def _kill(self, ticket: Ticket, running: _Running) -> None:
        """End the process and what it has started."""
        ids = [holder(self._desk.folder.locks / ticket.id)]
        if running.process is not None and running.process.is_alive():
            ids.append(running.process.pid)
        for process in filter(None, ids):
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(process, signal.SIGKILL)
        _join(running)

    # What waits

    def _start_some(self) -> bool:
        """Claim the next question of the first table that is free; whether there was one.  Of one
        alone, as what is under way is looked after in between.
        """
        busy = {running.table for running in self._running.values()}
        for table in self._desk.tables():
            if table.name in busy or table.state != tables.OPEN:
                continue
            ticket = self._next(table)
            if ticket is None:
                continue
            slot = self._slot(table, ticket)
            if slot is not None:
                self._start(table, ticket, slot)
            elif self._running:  # timed alone, so nothing starts until all slots are over
                return False
            else:
                self._calibrate(ticket)
            return True
        return False

    def _next(self, table: Table) -> Ticket | None:
        """The first question in the queue whose asker is not paused."""
        allowances = self._desk.register.allowances(table.name)
        queued = self._desk.register.tickets("tab = ? AND state = ?", table.name, tickets.QUEUED)
        for ticket in queued:
            if allowances.get(ticket.by, (0.0, ""))[1] == ACTIVE:
                return ticket
        return None

    def _start(self, table: Table, ticket: Ticket, slot: float) -> None:
        claimed = self._desk.register.move(
            ticket.id, (tickets.QUEUED,), tickets.CLAIMED, "worker", slot=slot
        )
        if claimed is None:  # withdrawn a moment ago
            return
        process = self._process(fit_process.main, ticket)
        self._running[ticket.id] = _Running(table.name, process, time.monotonic())

    def _slot(self, table: Table, ticket: Ticket) -> float | None:
        """The slot of a question; None where it is to be found out.  One that is no rung of the ladder
        any more is forgotten.
        """
        ladder = self._desk.settings.ladder
        if len(ladder) == 1:
            return ladder[0]
        known = self._desk.register.slot(table.name, ticket.question.digest())
        return known if known in ladder else None

    def _calibrate(self, ticket: Ticket) -> None:
        """Have the slot of a question found out while nothing runs; whatever goes wrong is a refusal."""
        process = self._process(response_times.main, ticket)
        while process.is_alive() and not self._stop.is_set():
            process.join(_POLL)
        if process.is_alive():
            process.kill()
            process.join()
            return
        if self._slot(self._desk.table(ticket.table), ticket) is None:
            fit_process.refuse(self._desk, ticket, (tickets.QUEUED,), response_times.UNTIMED)

    def _process(self, work: Callable[[str, str], None], ticket: Ticket) -> Any:
        arguments = (str(self._desk.folder.path), ticket.id)
        process = self._context.Process(target=work, args=arguments)  # type: ignore[attr-defined]
        process.start()
        return process

    def _now(self) -> datetime:
        return self._desk.clock()


def _join(running: _Running) -> None:
    if running.process is not None:
        running.process.join(timeout=10)
