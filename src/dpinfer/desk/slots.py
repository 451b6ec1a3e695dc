"""From booking to answer: public times from a ladder, chosen on made-up records.

How long a fit takes tells of the data.  So the answer appears when a slot ends, whose length depends
on the question, the schema and the number of records alone: the fit is timed on made-up tables, hard
ones included, and the slot is the first rung that is at least `SPARE` times the longest of them.
"""

import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

import pandas as pd

from dpinfer.asking.allowed import Question
from dpinfer.desk.tables import Table
from dpinfer.errors import HopelessFitWarning, InputError, PrivacyError
from dpinfer.schema.columns import Column, Number, Outcome, levels_of
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.practice import practice

SPARE = 3.0
_MOST = 50_000  # records that are made up; a larger table takes as much longer
_START = 0.5  # seconds that a process may take for nothing


def shape(question: Question, schema: Schema) -> str:
    """What the time of a fit depends on, as a text: questions of one shape have one slot."""
    budget = type(question.budget).__name__
    columns = len(parse(question.formula, schema)[1])
    return f"{question.loss}/{question.target or ''}/{budget}/{columns}"


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
    n = table.records or _MOST
    made = min(n, _MOST)
    model = question.model(table.schema, table.ledger().neighbours)
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for frame in _frames(table, made):
            place = _written(frame, Path(scratch), Path(table.place))
            start = time.monotonic()
            with (
                warnings.catch_warnings(action="ignore", category=HopelessFitWarning),
                suppress(PrivacyError),  # its time counts all the same
            ):
                model.fit(str(place))
            worst = max(worst, time.monotonic() - start)
    return worst * n / made


def _frames(table: Table, records: int) -> list[pd.DataFrame]:
    """Records as guessed; with one level, the first, in every column that has some, and outcomes at
    their lower bound; and with the last one, and outcomes at their upper bound.
    """
    schema = table.schema
    frames = [practice(schema, records)]
    for last in (False, True):
        frame = practice(schema, records)
        for name, column in schema.columns.items():
            if isinstance(column, Outcome) or levels_of(column):
                frame[name] = _end(column, last)
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
