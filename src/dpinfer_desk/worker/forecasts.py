"""Forecasts for analysts, each in a process of its own with limits, and each computed once.

A forecast runs fits on made-up records, so a question could be made to take long.  It gets 20 s of
processor time and 1 GB; one runs at a time, on one core, and a person may have 30 in an hour, 3 of them
at once.  The process reads no file of the desk, and its parent accepts a text from it, never an object,
as unpickling one would run code of its choice.
"""

import hashlib
import json
import multiprocessing
import os
import queue
import re
import resource
import secrets
import signal
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dpinfer.adjacency import Adjacency
from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import DpinferError, InputError
from dpinfer.privacy.accountant import Total
from dpinfer.schema.schema import Schema
from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import NotFoundError

CPU = 20
"""Processor time of a forecast, in seconds."""
MEMORY = 10**9
"""Memory of a forecast in bytes, beyond that of every process of dpinfer."""
RATE = 30
"""New forecasts of a person in an hour; stored ones do not count."""
MAX_BUDGETS = 6

_WALL = 90.0  # seconds by the clock, on a busy machine
_MAX_STORED = 500  # forecasts
_MAX_STORED_BYTES = 16 * 2**20  # of their texts together
_MAX_WAITING = 20  # forecasts, of all persons
_MAX_OF_PERSON = 3  # forecasts of one person, waiting or running
_HOUR = timedelta(hours=1)
_MAX_REPLY = 4 * 2**20  # bytes of the text of a forecast
_REPLICATES = 20
_GIVEN_UP = (
    "the forecast took too long or too much memory: ask for fewer columns, or for fewer budgets"
)
_REFUSAL = b"!"  # the first byte of a reply that is an error
_PROGRESS = re.compile(rb"%([0-9]{1,6})/([0-9]{1,6})")  # a message that is no reply yet


class BusyError(InputError):
    """There are too many forecasts, of one person or of all."""


@dataclass(frozen=True)
class _Task:
    """The facts of a forecast, all of which are public."""

    text: str
    records: int
    neighbours: str
    question: dict[str, Any]
    budgets: tuple[dict[str, Any], ...]
    half_width: float | None
    coefficient: str | None


@dataclass
class _Job:
    """A forecast in progress; once ``done`` is set, either ``forecast`` or ``fault`` is there.

    ``progress`` is how many simulated fits are done, of how many.
    """

    by: str
    task: _Task | None
    forecast: Forecast | None = None
    fault: str = ""
    progress: tuple[int, int] = (0, _REPLICATES)
    size: int = 0
    done: threading.Event = field(default_factory=threading.Event)


class Forecasts:
    """The forecasts of a desk; ``rate`` bounds those of a person in an hour, None does not."""

    def __init__(self, desk: Desk, rate: int | None = RATE) -> None:
        self._desk = desk
        self._rate = rate
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["dpinfer_desk.worker.fit_process", "dpinfer_desk.worker.forecasts"]
        )
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._known: dict[str, str] = {}
        self._starts: dict[str, deque[datetime]] = {}
        self._queue: queue.Queue[_Job] = queue.Queue(_MAX_WAITING)
        self._thread: threading.Thread | None = None

    def ask(
        self,
        table: str,
        question: AnalystQuestion,
        by: str,
        budgets: Sequence[Total] = (),
        *,
        half_width: float | None = None,
        coefficient: str | None = None,
    ) -> str:
        """Start a forecast for some budgets or for a half-width, and return its id.

        The same question of the same person has the same id, and is computed once.
        """
        if len(budgets) > MAX_BUDGETS:
            raise InputError(f"a forecast has at most {MAX_BUDGETS} budgets: leave some out")
        task = self._task(table, question, budgets, half_width, coefficient)
        content = json.dumps([by, vars(task)], sort_keys=True)
        key = hashlib.sha256(content.encode()).hexdigest()  # shorter than the schema in it
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                return known
            now = self._desk.clock()
            self._require_below_limits(by, now)
            job = _Job(by, task)
            try:
                self._queue.put_nowait(job)
            except queue.Full:
                raise BusyError("many forecasts are running: try again in a minute") from None
            self._starts.setdefault(by, deque(maxlen=self._rate)).append(now)
            ident = secrets.token_hex(16)
            self._jobs[ident] = job
            self._known[key] = ident
            self._forget()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="forecasts", daemon=True)
                self._thread.start()
        return ident

    def warm(self) -> None:
        """Load everything that a forecast needs, so that the first one is as quick as others."""
        process = self._context.Process(target=_do_nothing)
        process.start()
        process.join()

    def get(self, ident: str, by: str, patience: float = 0.0) -> Forecast | None:
        """Return a forecast of a person; None if it is not done within ``patience`` seconds.

        `InputError` says why it failed.
        """
        job = self._job(ident, by)
        if not job.done.wait(patience):
            return None
        if job.forecast is None:
            raise InputError(job.fault)
        return job.forecast

    def progress(self, ident: str, by: str) -> tuple[int, int]:
        """Return how many simulated fits of a person's forecast are done, and of how many.

        It rests on made-up records, as the forecast does.
        """
        return self._job(ident, by).progress

    def _job(self, ident: str, by: str) -> _Job:
        job = self._jobs.get(ident)
        if job is None or job.by != by:
            raise NotFoundError
        return job

    def _task(
        self,
        name: str,
        question: AnalystQuestion,
        budgets: Sequence[Total],
        half_width: float | None,
        coefficient: str | None,
    ) -> _Task:
        table = self._desk.table(name)
        if table.records is None:
            raise InputError(
                f"the number of records of {name} is private, and no guess of it was registered: there is no forecast"
            )
        tried = [question.at(budget) for budget in budgets] or [question]
        return _Task(
            text=table.schema_text,
            records=table.records,
            neighbours=str(table.ledger().neighbours),
            question=question.keys(),
            budgets=tuple(one.keys() for one in tried),
            half_width=half_width,
            coefficient=coefficient,
        )

    def _require_below_limits(self, by: str, now: datetime) -> None:
        """Raise `BusyError` for a person with many forecasts in an hour, or some in progress."""
        if self._rate is None:
            return
        running = sum(job.by == by and not job.done.is_set() for job in self._jobs.values())
        if running >= _MAX_OF_PERSON:
            raise BusyError(
                f"{_MAX_OF_PERSON} of your forecasts are running: wait until one of them is done"
            )
        past = self._starts.get(by, ())
        if sum(time > now - _HOUR for time in past) >= self._rate:
            raise BusyError(
                f"a person may have {self._rate} forecasts in an hour: read earlier ones again, or wait"
            )

    def _forget(self) -> None:
        """Drop the oldest forecasts that are done, while there are too many or they are too large."""
        size = sum(job.size for job in self._jobs.values())
        number = len(self._jobs)
        old = set()
        for ident, job in self._jobs.items():
            if number <= _MAX_STORED and size <= _MAX_STORED_BYTES:
                break
            if not job.done.is_set():
                continue
            old.add(ident)
            number -= 1
            size -= job.size
        for ident in old:
            del self._jobs[ident]
        self._known = {key: ident for key, ident in self._known.items() if ident not in old}

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            assert job.task is not None
            try:
                job.forecast, job.fault, job.size = self._run(job, job.task)
            except Exception:  # an unexpected fault must not end the thread of all forecasts
                job.fault = _GIVEN_UP
            job.task = None
            job.done.set()

    def _run(self, job: _Job, task: _Task) -> tuple[Forecast | None, str, int]:
        """Return the forecast or why it failed, and the size of the reply in bytes."""
        end = time.monotonic() + _WALL
        receiver, sender = self._context.Pipe(duplex=False)
        with receiver:
            process = self._context.Process(target=main, args=(sender, task))
            with sender:
                process.start()
            reply = b""
            with suppress(EOFError, OSError):
                while not reply and receiver.poll(max(0.0, end - time.monotonic())):
                    reply = receiver.recv_bytes(_MAX_REPLY)
                    progress = _PROGRESS.fullmatch(reply)
                    if progress is not None:
                        job.progress = (int(progress[1]), int(progress[2]))
                        reply = b""
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
        if reply.startswith(_REFUSAL):
            return None, reply[1:].decode(), len(reply)
        if not reply:
            return None, _GIVEN_UP, 0
        return Forecast.from_json(reply.decode()), "", len(reply)


def main(sender: Any, task: _Task) -> None:
    """Make one forecast and send it; the process ends with it."""
    os.environ["DPINFER_THREADS"] = "1"
    _limit()

    def progress(done: int, of: int) -> None:
        sender.send_bytes(f"%{done}/{of}".encode())

    try:
        reply = _forecast(task, progress).to_json().encode()
    except DpinferError as fault:
        reply = _REFUSAL + str(fault).encode()
    except MemoryError:
        reply = _REFUSAL + _GIVEN_UP.encode()
    sender.send_bytes(reply)


def _do_nothing() -> None:
    """Do nothing, in a process that is started only to have modules loaded."""


def _limit() -> None:
    """Limit processor time and memory of this process, and forbid it to write files."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    for kind, upper in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, CPU),
        (resource.RLIMIT_AS, now + MEMORY),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (upper, upper))


def _forecast(task: _Task, progress: Callable[[int, int], None]) -> Forecast:
    question = AnalystQuestion(**task.question)
    model = question.model(Schema.parse(task.text), Adjacency.of(task.neighbours))
    return forecast(
        model,
        records=task.records,
        budgets=[AnalystQuestion(**keys).budget for keys in task.budgets],
        half_width=task.half_width,
        coefficient=task.coefficient,
        level=question.level,
        replicates=_REPLICATES,
        progress=progress,
    )
