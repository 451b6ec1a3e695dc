"""Response times: the public times from booking to answer, chosen on made-up records.

How long a fit takes depends on the data.  So the answer appears after a response time that depends only on
the question, the schema and the public number of records: the fit is timed on made-up tables, hard ones
included, and the response time is the first of a short list that is at least `SPARE` times the longest.
Each question has its own, as the time depends on every key of a question.
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

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import DpinferError, InputError, LowBudgetWarning, PrivacyError
from dpinfer.estimators.models import LinearModel
from dpinfer.schema.columns import Column, Number, Outcome, levels_of
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.practice import practice
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.worker.fit_process import limit, refuse

SPARE = 3.0
"""A response time over the longest fit of made-up records: real tables can be harder, or the machine busy."""
UNTIMED = (
    "this fit could not be timed on made-up records within the memory and the longest response time of this desk: ask "
    "for fewer columns, or for a larger penalty"
)
_MAX_MADE_UP = 50_000  # records; the time of a larger table is in proportion to its size
_START = 0.5  # seconds that a process may take to start


def main(folder: str, ident: str) -> None:
    """Choose the response time of a queued question, in a process of its own.

    No fit of the desk runs meanwhile, as its load would make the choice depend on another table.
    """
    desk = Desk.open(folder, who="worker")
    response_times = desk.settings.response_times
    ticket = desk.register.ticket(ident)
    timeout = 2 * response_times[-1]
    limit(desk.settings.memory, timeout)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout)
    table = desk.table(ticket.table)
    try:
        seconds = choose(response_times, table, ticket.question)
    except DpinferError as fault:
        refuse(desk, ticket, (tickets.QUEUED,), table.without_folders(str(fault)))
        return
    desk.register.set_response_time(ticket.table, ticket.question.digest(), seconds)


def choose(
    response_times: tuple[float, ...], table: RegisteredTable, question: AnalystQuestion
) -> float:
    """Choose the response time of a question; if there is but one, nothing is timed."""
    if len(response_times) == 1:
        return response_times[0]
    needed = SPARE * (longest_fit(table, question) + _START)
    for one in response_times:
        if one >= needed:
            return one
    raise InputError(
        f"the fit may take longer than the longest response time of this desk, {response_times[-1]:g} s: ask for fewer "
        "columns"
    )


def longest_fit(table: RegisteredTable, question: AnalystQuestion) -> float:
    """Return the seconds of the slowest of some fits on made-up records, for the table's size."""
    n = table.records or _MAX_MADE_UP
    made = min(n, _MAX_MADE_UP)
    model = question.model(table.schema, table.ledger().neighbours)
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for frame in _frames(table.schema, model, made):
            path = _written(frame, Path(scratch), Path(table.data_path))
            start = time.monotonic()
            with (
                warnings.catch_warnings(action="ignore", category=LowBudgetWarning),
                suppress(PrivacyError),  # a fit that is refused late has taken its time, too
            ):
                design, source = model.read(str(path))
                # Budget and penalty are checked for the public number, as in the fit itself.
                public = replace(source, n=n) if n > made else source
                model.fit_read(design, public)
            worst = max(worst, time.monotonic() - start)
    # Passes over the records take most of the time, so it grows in proportion to their number.
    return worst * n / made


def _frames(schema: Schema, model: LinearModel, records: int) -> list[pd.DataFrame]:
    """Return made-up tables, three of which are hard to fit.

    One has typical records; in the next two each column with levels has its first or last one alone, with
    outcomes at their lower or upper bound; in the last one column separates the outcomes.
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
    # In a file of the same kind, as reading takes a part of the time.
    if like.suffix.lower() == ".csv":
        path = folder / "made-up.csv"
        frame.to_csv(path, index=False)
    else:
        path = folder / "made-up.parquet"
        frame.to_parquet(path)
    return path
