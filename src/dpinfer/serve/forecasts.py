"""Forecasts for those who ask by a program: each in a process of its own, under limits, and known by its digest.

A forecast is made of the schema, the question and the number of records, so its process needs
neither the data nor the ledger.  The parent reads one file of it, and no object.
"""

import hashlib
import json
import multiprocessing
import os
import queue
import tempfile
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpinfer import persistence
from dpinfer.asking.allowed import Question
from dpinfer.desk.child import bound
from dpinfer.errors import DpinferError
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.schema.schema import Schema
from dpinfer.serve.calls import RefusedCallError
from dpinfer.simulate.forecast import forecast

HOURLY = 30
"""Forecasts that one person may have made in an hour; what is known already is free."""
MOST_AMOUNTS = 6
"""Budgets of one forecast."""
_CPU = 20  # seconds of the processor
_CLOCK = 60.0  # seconds, as other work may be in the way
_MEMORY = 3000  # megabytes of addresses: threads reserve much that they never use
_WAITING = 20  # forecasts in the queue
_KEPT = 300  # forecasts that are remembered
_HOUR = 3600.0
_JOB = "job.json"
_ANSWER = "answer.json"
_TOO_LARGE = "this forecast takes more time or memory than there is for one: ask for fewer columns or amounts"


@dataclass(frozen=True)
class Job:
    """What is forecast: all of it is public.

    ``amounts`` are budgets of the kind that the question has; ``half_width`` asks for the least one
    that gives it, for a ``coefficient`` or as the median over all.
    """

    table: str
    schema: str
    neighbours: str
    records: int
    question: Mapping[str, Any]
    amounts: tuple[float, ...] = ()
    half_width: float | None = None
    coefficient: str | None = None

    def text(self) -> str:
        """The job as its process reads it."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def id(self) -> str:
        """The same for the same job, whoever asks."""
        return hashlib.sha256(self.text().encode()).hexdigest()

    def done(self) -> str:
        """The forecast as a document."""
        question = Question.of(self.question)
        model = question.model(Schema.parse(self.schema), Neighbours(self.neighbours))
        amounts = self.amounts or (_amount(question.budget),)
        found = forecast(
            model,
            records=self.records,
            budgets=[_of_amount(question.budget, amount) for amount in amounts],
            half_width=self.half_width,
            coefficient=self.coefficient,
            level=question.level,
        )
        return found.to_json()


@dataclass(frozen=True)
class Known:
    """A forecast that is known: of which table, and what came out, None while it is made.  Its
    ``fault`` says why there is none.
    """

    table: str
    document: str | None = None
    fault: str = ""


class Forecasts:
    """Forecasts, made one after the other.

    Guarantee [forecasts_apart]: a forecast that takes too long, or too much memory, ends alone; and
    nobody has more than `HOURLY` made in an hour.
    """

    def __init__(
        self, method: str = "forkserver", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload(["dpinfer.serve.forecasts"])
        self._clock = clock
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._made: dict[str, deque[float]] = {}
        self._jobs: queue.Queue[Job] = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def ask(self, job: Job, by: str) -> None:
        """Have a forecast made, if it is not known or under way already."""
        with self._lock:
            if job.id in self._known:
                self._known.move_to_end(job.id)
                return
            self._count(by)
            try:
                self._jobs.put_nowait(job)
            except queue.Full:
                raise RefusedCallError(
                    429,
                    "busy",
                    "too many forecasts wait: try again in a minute",
                    {"retry-after": "60"},
                ) from None
            self._known[job.id] = Known(job.table)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="forecasts", daemon=True)
                self._thread.start()

    def known(self, ident: str) -> Known | None:
        """What is known of a forecast; None where it was never asked for, or is forgotten."""
        with self._lock:
            return self._known.get(ident)

    def _count(self, by: str) -> None:
        """Refuse more than there may be in an hour."""
        now = self._clock()
        past = self._made.setdefault(by, deque())
        while past and past[0] <= now - _HOUR:
            past.popleft()
        if len(past) >= HOURLY:
            wait = int(past[0] + _HOUR - now) + 1
            raise RefusedCallError(
                429,
                "too_many",
                f"{HOURLY} forecasts were made for you within an hour: wait, or plan at home with the schema",
                {"retry-after": str(wait)},
            )
        past.append(now)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                found = self._of_process(job)
            except OSError:  # no process, no file: the next one may be luckier
                found = Known(job.table, fault=_TOO_LARGE)
            with self._lock:
                self._known[job.id] = found

    def _of_process(self, job: Job) -> Known:
        with tempfile.TemporaryDirectory(prefix="dpinfer-") as folder:
            place = Path(folder)
            (place / _JOB).write_text(job.text(), encoding="utf-8")
            process = self._context.Process(target=main, args=(folder,))  # type: ignore[attr-defined]
            process.start()
            process.join(_CLOCK)
            if process.is_alive():
                process.kill()
                process.join()
            answer = place / _ANSWER
            if not answer.exists():
                return Known(job.table, fault=_TOO_LARGE)
            return Known(job.table, **json.loads(answer.read_text(encoding="utf-8")))


def main(folder: str) -> None:
    """Make one forecast; the process ends with it."""
    bound(_MEMORY, _CPU)
    os.environ["DPINFER_THREADS"] = "1"  # pages have the other cores
    place = Path(folder)
    job = json.loads((place / _JOB).read_text(encoding="utf-8"))
    try:
        found = {"document": Job(**{**job, "amounts": tuple(job["amounts"])}).done()}
    except DpinferError as fault:
        found = {"fault": str(fault)}
    persistence.write(place / _ANSWER, json.dumps(found).encode())


def _amount(budget: Total) -> float:
    return budget.rho if isinstance(budget, ZCDP) else budget.epsilon


def _of_amount(like: Total, amount: float) -> Total:
    """A budget of the same kind; δ stays."""
    if isinstance(like, ZCDP):
        return ZCDP(amount)
    if isinstance(like, ApproxDP):
        return ApproxDP(amount, like.delta)
    return PureDP(amount)
