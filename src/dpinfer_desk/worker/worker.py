"""The worker of a desk: it claims questions, starts a process for each, and waits for the answer time.

It takes one question of a table at a time, and the next one after the answer time, however short the fit
was: so the queue does not depend on the data either.
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
from dpinfer_desk.store import locks, published, tables, tickets
from dpinfer_desk.store.roles import ACTIVE
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.worker import fit_process, response_times
from dpinfer_desk.worker.recovery import recover, settle

_POLL = 0.02  # seconds between two checks of a running question
_IDLE = 0.5  # seconds between two checks of an empty queue
_TRIES = 3  # processes that end before they book or refuse, then the question is refused
_TO_BOOK = 120.0  # seconds in which a process has to book


@dataclass
class _Running:
    """A running question; ``process`` is None if an earlier worker started it."""

    table: str
    process: Any
    since: float


class Worker:
    """The worker of a desk, which runs its questions.

    ``method`` is the start method of ``multiprocessing``: a fork server that has everything imported, or
    "fork", as in tests.
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
        """Run questions until ``stop`` is set or, with ``until_idle``, until none can be run.

        Questions that an earlier worker left are settled first.  A desk has one worker at a time.
        """
        self._stop = stop or threading.Event()
        with locks.acquire(self._desk.folder.locks / "worker") as acquired:
            if not acquired:
                raise InputError("a worker of this desk runs already: leave it running, or stop it")
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
        """Take over questions whose process outlived its worker, and outcomes not yet shown."""
        for ticket in self._desk.register.tickets():
            if ticket.state in (*tickets.RUNNING, *tickets.SETTLED):
                self._running[ticket.id] = _Running(ticket.table, None, time.monotonic())

    def _publish(self) -> None:
        """Publish copies of the ledgers, not more often than every few seconds."""
        if time.monotonic() < self._published + published.EVERY:
            return
        for table in self._desk.tables():
            self._desk.publish(table.name)
        published.beat(self._desk.folder.accounts)
        self._published = time.monotonic()

    # Running questions

    def _look_after(self) -> None:
        for ident, running in list(self._running.items()):
            ticket = self._desk.register.ticket(ident)
            try:
                if ticket.state in tickets.RUNNING:
                    ticket = self._settled(ticket, running)
            except LedgerError as fault:
                # Only this table pauses; the next worker tries to settle the question again.
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
        """Return the question, settled if its process has ended or was killed for lateness."""
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
        """Make the outcome public, at the answer time, and end a process that still runs."""
        if self._alive(ticket, running):
            self._kill(ticket, running)
        self._desk.register.show(ticket.id, tickets.SETTLED[ticket.state])

    def _alive(self, ticket: Ticket, running: _Running) -> bool:
        if running.process is not None and running.process.is_alive():
            return True
        return locks.holder(self._desk.folder.locks / ticket.id) is not None

    def _late(self, ticket: Ticket, running: _Running) -> bool:
        """Tell whether the process has passed its deadline, or has not booked in time."""
        deadline = ticket.deadline
        if deadline is None:
            return time.monotonic() - running.since > _TO_BOOK
        return self._now() >= deadline

    def _over(self, ticket: Ticket) -> bool:
        return ticket.due is not None and self._now() >= ticket.due

    def _kill(self, ticket: Ticket, running: _Running) -> None:
        """Kill the process and its children."""
        ids = [locks.holder(self._desk.folder.locks / ticket.id)]
        if running.process is not None and running.process.is_alive():
            ids.append(running.process.pid)
        for process in filter(None, ids):
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(process, signal.SIGKILL)
        _join(running)

    # Queued questions

    def _start_some(self) -> bool:
        """Start at most one question, or find its response time; return whether there was one.

        At most one, as running questions are looked after in between.
        """
        busy = {running.table for running in self._running.values()}
        for table in self._desk.tables():
            if table.name in busy or table.state != tables.OPEN:
                continue
            ticket = self._next(table)
            if ticket is None:
                continue
            response_time = self._response_time(table, ticket)
            if response_time is not None:
                self._start(table, ticket, response_time)
            elif self._running:
                # Timed while no fit runs, whose load would tell of another table: so nothing starts
                # until all running questions have reached their answer times.
                return False
            else:
                self._calibrate(ticket)
            return True
        return False

    def _next(self, table: RegisteredTable) -> Ticket | None:
        """Return the first queued question whose analyst is active."""
        allowances = self._desk.register.allowances(table.name)
        queued = self._desk.register.tickets("tab = ? AND state = ?", table.name, tickets.QUEUED)
        for ticket in queued:
            if allowances.get(ticket.by, (0.0, ""))[1] == ACTIVE:
                return ticket
        return None

    def _start(self, table: RegisteredTable, ticket: Ticket, response_time: float) -> None:
        claimed = self._desk.register.move(
            ticket.id, (tickets.QUEUED,), tickets.CLAIMED, "worker", slot=response_time
        )
        if claimed is None:  # withdrawn a moment ago
            return
        process = self._process(fit_process.main, ticket)
        self._running[ticket.id] = _Running(table.name, process, time.monotonic())

    def _response_time(self, table: RegisteredTable, ticket: Ticket) -> float | None:
        """Return the response time of a question; None if it must be chosen first.

        A stored one that is not among those of the desk any more is ignored.
        """
        response_times = self._desk.settings.response_times
        if len(response_times) == 1:
            return response_times[0]
        known = self._desk.register.response_time(table.name, ticket.question.digest())
        return known if known in response_times else None

    def _calibrate(self, ticket: Ticket) -> None:
        """Have the response time of a question chosen while nothing runs; a failure is a refusal."""
        process = self._process(response_times.main, ticket)
        while process.is_alive() and not self._stop.is_set():
            process.join(_POLL)
        if process.is_alive():
            process.kill()
            process.join()
            return
        if self._response_time(self._desk.table(ticket.table), ticket) is None:
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
