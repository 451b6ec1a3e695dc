"""Forecasts for people who ask, each in a process of its own with limits, and none of them twice.

A forecast runs fits on made-up records, so it can be made to last.  It gets 20 s of processor time
and 1 GB; one runs at a time, on one core, and a person may have 30 in an hour, 3 of them under way.
The process reads no file of the desk, and its parent takes a text of it, never an object.
"""

import hashlib
import json
import multiprocessing
import os
import queue
import resource
import secrets
import signal
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dpinfer.asking.allowed import Question
from dpinfer.errors import DpinferError, InputError
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.accountant import Total
from dpinfer.schema.schema import Schema
from dpinfer.simulate.forecast import Forecast, forecast
from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import NowhereError

CPU = 20
"""Seconds of processor time that a forecast has."""
MEMORY = 10**9
"""Bytes that it may take beyond those that every process of dpinfer has."""
RATE = 30
"""Forecasts that a person may have in an hour; those that are there already do not count."""
MOST_BUDGETS = 6

_WALL = 90.0  # seconds by the clock, on a busy machine
_KEPT = 500  # forecasts that are remembered
_KEPT_BYTES = 16 * 2**20  # of their texts, all together
_WAITING = 20  # forecasts that may wait for the one that runs
_OF_ONE = 3  # of them that may be one person's, with the one that runs
_HOUR = timedelta(hours=1)
_LONGEST = 4 * 2**20  # bytes of the text of a forecast
_REPLICATES = 20
_GIVEN_UP = (
    "the forecast took too long or too much memory: ask for fewer columns, or for fewer budgets"
)
_SAYS_NO = b"!"


class BusyError(InputError):
    """Too many forecasts, of one person or of all."""


@dataclass(frozen=True)
class _Task:
    """What is forecast: public facts alone."""

    text: str
    records: int
    neighbours: str
    question: dict[str, Any]
    budgets: tuple[dict[str, Any], ...]
    half_width: float | None
    coefficient: str | None


@dataclass
class _Job:
    """A forecast under way or done: it is there, or the fault is, once ``done`` is set."""

    by: str
    task: _Task | None
    forecast: Forecast | None = None
    fault: str = ""
    size: int = 0
    done: threading.Event = field(default_factory=threading.Event)


class Forecasts:
    """The forecasts of a desk.  ``rate`` bounds those of one person in an hour; None does not."""

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
        self._queue: queue.Queue[_Job] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None

    def ask(
        self,
        table: str,
        question: Question,
        by: str,
        budgets: Sequence[Total] = (),
        *,
        half_width: float | None = None,
        coefficient: str | None = None,
    ) -> str:
        """The id of a forecast, for each of some budgets or for a half-width; the same for the same
        question of the same person.
        """
        if len(budgets) > MOST_BUDGETS:
            raise InputError(f"a forecast has at most {MOST_BUDGETS} budgets: leave some out")
        task = self._task(table, question, budgets, half_width, coefficient)
        asked = json.dumps([by, vars(task)], sort_keys=True)
        key = hashlib.sha256(asked.encode()).hexdigest()  # a schema may be long
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                return known
            now = self._desk.clock()
            self._require_fewer(by, now)
            job = _Job(by, task)
            try:
                self._queue.put_nowait(job)
            except queue.Full:
                raise BusyError("many forecasts are under way: try again in a minute") from None
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
        """Have everything loaded that a forecast needs, so that the first one is as quick as others."""
        process = self._context.Process(target=_nothing)
        process.start()
        process.join()

    def found(self, ident: str, by: str, patience: float = 0.0) -> Forecast | None:
        """A forecast of this person; None where it is still under way after some seconds.
        `InputError` says why there is none.
        """
        job = self._jobs.get(ident)
        if job is None or job.by != by:
            raise NowhereError
        if not job.done.wait(patience):
            return None
        if job.forecast is None:
            raise InputError(job.fault)
        return job.forecast

    def _task(
        self,
        name: str,
        question: Question,
        budgets: Sequence[Total],
        half_width: float | None,
        coefficient: str | None,
    ) -> _Task:
        table = self._desk.table(name)
        if table.records is None:
            raise InputError(
                f"the number of records of {name} is private, and no guess of it was registered: there is no forecast"
            )
        asked = [question.at(budget) for budget in budgets] or [question]
        return _Task(
            text=table.text,
            records=table.records,
            neighbours=str(table.ledger().neighbours),
            question=question.keys(),
            budgets=tuple(one.keys() for one in asked),
            half_width=half_width,
            coefficient=coefficient,
        )

    def _require_fewer(self, by: str, now: datetime) -> None:
        """Refuse a person who has had many forecasts, or for whom some are under way."""
        if self._rate is None:
            return
        under_way = sum(job.by == by and not job.done.is_set() for job in self._jobs.values())
        if under_way >= _OF_ONE:
            raise BusyError(
                f"{_OF_ONE} forecasts of yours are under way: wait until one of them is there"
            )
        past = self._starts.get(by, ())
        if sum(time > now - _HOUR for time in past) >= self._rate:
            raise BusyError(
                f"a person may have {self._rate} forecasts in an hour: those that are there can be read again; wait "
                "for others"
            )

    def _forget(self) -> None:
        """Forget the oldest ones that are done, where there are too many or they are too large."""
        size = sum(job.size for job in self._jobs.values())
        number = len(self._jobs)
        old = set()
        for ident, job in self._jobs.items():
            if number <= _KEPT and size <= _KEPT_BYTES:
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
                job.forecast, job.fault, job.size = self._run(job.task)
            except Exception:  # a fault of ours must not end the others
                job.fault = _GIVEN_UP
            job.task = None
            job.done.set()

    def _run(self, task: _Task) -> tuple[Forecast | None, str, int]:
        """The forecast, or why there is none, and how many bytes were told."""
        mouth, ear = self._context.Pipe(duplex=False)
        with mouth:
            process = self._context.Process(target=main, args=(ear, task))
            with ear:
                process.start()
            said = b""
            with suppress(EOFError, OSError):
                if mouth.poll(_WALL):
                    said = mouth.recv_bytes(_LONGEST)
            process.join(1.0)
            if process.is_alive():
                process.kill()
                process.join()
        if said.startswith(_SAYS_NO):
            return None, said[1:].decode(), len(said)
        if not said:
            return None, _GIVEN_UP, 0
        return Forecast.from_json(said.decode()), "", len(said)


def main(ear: Any, task: _Task) -> None:
    """Make one forecast and tell it; the process ends with it."""
    os.environ["DPINFER_THREADS"] = "1"
    _limit()
    try:
        said = _forecast(task).to_json().encode()
    except DpinferError as fault:
        said = _SAYS_NO + str(fault).encode()
    except MemoryError:
        said = _SAYS_NO + _GIVEN_UP.encode()
    ear.send_bytes(said)


def _nothing() -> None:
    """What a process does that only has to be there."""


def _limit() -> None:
    """No more time and memory than there is for it, and nothing of it on the disk."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, CPU),
        (resource.RLIMIT_AS, now + MEMORY),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def _forecast(task: _Task) -> Forecast:
    question = Question(**task.question)
    model = question.model(Schema.parse(task.text), Neighbours.of(task.neighbours))
    return forecast(
        model,
        records=task.records,
        budgets=[Question(**keys).budget for keys in task.budgets],
        half_width=task.half_width,
        coefficient=task.coefficient,
        level=question.level,
        replicates=_REPLICATES,
    )
