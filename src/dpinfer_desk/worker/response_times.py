"""From booking to answer: public times from a ladder, chosen on made-up records.

How long a fit takes tells of the data.  So the answer appears when a slot ends, whose length depends
on the question, the schema and the number of records alone: the fit is timed on made-up tables, hard
ones included, and the slot is the first rung that is at least `SPARE` times the longest of them.
Each question has a slot of its own: the time depends on every key of it.
"""

import signal
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dpinfer.asking.allowed import Question
from dpinfer.errors import DpinferError, InputError, LowBudgetWarning, PrivacyError
from dpinfer.estimators.models import LinearModel
from dpinfer.schema.columns import Column, Number, Outcome, levels_of
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.practice import practice
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.tables import Table
from dpinfer_desk.worker.fit_process import limit, refuse

SPARE = 3.0
UNTIMED = (
    "how long this fit takes could not be found out on made-up records within the memory and the longest slot of this "
    "desk: ask for fewer columns, or for a larger penalty"
)
_MADE = 50_000  # records at most that are made up; a larger table takes as much longer
_START = 0.5  # seconds that a process may take for nothing


def main(folder: str, ident: str) -> None:
    """Find out the slot of a question that is in the queue, in a process of its own: nothing else of
    the desk runs beside it, as that would let the rung tell of another table.
    """
    desk = Desk.open(folder, who="worker")
    ladder = desk.settings.ladder
    ticket = desk.register.ticket(ident)
    most = 2 * ladder[-1]
    limit(desk.settings.memory, most)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, most)
    table = desk.table(ticket.table)
    try:
        seconds = chosen(ladder, table, ticket.question)
    except DpinferError as fault:
        refuse(desk, ticket, (tickets.QUEUED,), table.public(str(fault)))
        return
    desk.register.set_slot(ticket.table, ticket.question.digest(), seconds)


def chosen(ladder: tuple[float, ...], table: Table, question: Question) -> float:
    """The slot of a question.  A ladder of one rung has no choice, and nothing is timed."""
    if len(ladder) == 1:
        return ladder[0]
    needed = SPARE * (longest(table, question) + _START)
    for rung in ladder:
        if rung >= needed:
            return rung
    raise InputError(
        f"the fit may take longer than the longest slot of this desk, {ladder[-1]:g} s: ask for fewer columns"
    )


def longest(table: Table, question: Question) -> float:
    """Seconds of the slowest of some fits on made-up records of the table's schema and size."""
    n = table.records or _MADE
    made = min(n, _MADE)
    model = question.model(table.schema, table.ledger().neighbours)
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for frame in _frames(table.schema, model, made):
            place = _written(frame, Path(scratch), Path(table.place))
            start = time.monotonic()
            with (
                warnings.catch_warnings(action="ignore", category=LowBudgetWarning),
                suppress(PrivacyError),  # its time counts all the same
            ):
                design, source = model.read(str(place))
                # budget and penalty are judged for the public number, as in the fit itself
                public = replace(source, n=n) if n > made else source
                model.fit_read(design, public)
            worst = max(worst, time.monotonic() - start)
    return worst * n / made


def _frames(schema: Schema, model: LinearModel, records: int) -> list[pd.DataFrame]:
    """Records as guessed; with one level, the first, in every column that has some, and outcomes at
    their lower bound; with the last one, and outcomes at their upper bound; and with an outcome
    that a column decides.
    """
    frames = [practice(schema, records)]
    for last in (False, True):
        frame = practice(schema, records)
        for name, column in schema.columns.items():
            if isinstance(column, Outcome) or levels_of(column):
                frame[name] = _end(column, last)
        frames.append(frame)
    response, terms = parse(model.asked_formula or "", schema)
    for column in terms.columns[:1]:
        frame = practice(schema, records)
        ranks = pd.factorize(frame[column.name], sort=True)[0]
        above = ranks > np.median(ranks)
        for outcome in response.columns:
            if isinstance(outcome, Outcome) or levels_of(outcome):
                frame[outcome.name] = np.where(above, _end(outcome, True), _end(outcome, False))
        frames.append(frame)
    return frames


def _end(column: Column, last: bool) -> str | float:
    levels = levels_of(column)
    if levels:
        return levels[-1 if last else 0]
    assert isinstance(column, Number | Outcome)
    assert column.low is not None
    assert column.high is not None
    return column.high if last else column.low


def _written(frame: pd.DataFrame, folder: Path, like: Path) -> Path:
    """The frame in a file of the kind that the table has."""
    if like.suffix.lower() == ".csv":
        path = folder / "made-up.csv"
        frame.to_csv(path, index=False)
    else:
        path = folder / "made-up.parquet"
        frame.to_parquet(path)
    return path
