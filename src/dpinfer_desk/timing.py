"""Times of fits on made-up tables of the public sizes of a registered one, hard tables included.

No record is read.  At most `_MAX_MADE_UP` rows are made.  They get their share of the memory, so that a part of a
large table is read as the large one is, and the time is multiplied.
"""

import gzip
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import DpinferError, InputError, PrivacyError
from dpinfer.estimators.models import LinearModel
from dpinfer.rows import workers
from dpinfer.schema.columns import Column, Number, Outcome, levels_of
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.practice import practice
from dpinfer_desk.store import tables
from dpinfer_desk.store.tables import RegisteredTable

SPARE = 3.0
"""A response time over the longest fit of made-up records: real tables can be harder, or the machine busy."""
_MAX_MADE_UP = 50_000  # rows; the time of a larger table is in proportion to its size
_START = 0.5  # seconds that a process may take to start
_LONG = "é"  # two bytes: texts that are not ASCII take longer


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


def require_answerable(response_times: tuple[float, ...], table: RegisteredTable) -> None:
    """Refuse a table of which a question with one column cannot be answered in time."""
    question = _simplest_question(table)
    if len(response_times) == 1 or question is None:
        return
    seconds = 0.0
    with suppress(DpinferError):  # a question that is refused takes no time
        seconds = longest_fit(table, question)
    if SPARE * (seconds + _START) > response_times[-1]:
        raise InputError(
            f"a fit of {table.max_rows:,} rows may take longer than the longest response time of this desk, "
            f"{response_times[-1]:g} s: add a longer one to ladder in desk.toml, or declare fewer rows"
        )


def _simplest_question(table: RegisteredTable) -> AnalystQuestion | None:
    """Return a question with one explanatory column; None if the schema permits none."""
    schema = table.schema
    total = table.ledger().total
    names = [name for name in schema.columns if name.isidentifier()]
    for outcome in filter(None, (_answer(schema.columns[name]) for name in names)):
        for name in names:
            formula = f"{outcome} ~ {name}"
            try:
                parse(formula, schema)
            except InputError:
                continue
            return AnalystQuestion(formula).at(total)
    return None


def _answer(column: Column) -> str:
    """Return a formula's left side with two answers, made of one column; empty if it has none."""
    levels = levels_of(column)
    if isinstance(column, Outcome) and levels:
        return column.name
    if levels:
        return f"{column.name} == {levels[0]!r}"
    if isinstance(column, Number) and column.kind in ("number", "integer"):
        return f"{column.name} > {(column.low + column.high) / 2:g}"
    return ""


def longest_fit(table: RegisteredTable, question: AnalystQuestion) -> float:
    """Return the seconds of the slowest of some fits on made-up records, for the table's public sizes.

    Guarantee [times_are_public]: the seconds depend on the question, the schema and the public sizes of the table,
    and on no record; they are those of as many rows as the table may have.
    """
    assert table.max_rows is not None
    rows = max(table.max_rows, 1)
    made = min(rows, _MAX_MADE_UP)
    counted = table.ledger().neighbours.counted
    model = question.model(table.schema, table.ledger().neighbours)
    worst = 0.0
    with (
        tempfile.TemporaryDirectory() as scratch,
        workers.memory_limit(workers.memory() * made / rows),
    ):
        for path in _files(table, model, made, Path(scratch)):
            start = time.monotonic()
            with suppress(PrivacyError):  # a fit that is refused late has taken its time, too
                # Budget and penalty are checked for the public number, as in the fit itself.
                number = table.records if counted else 0
                design, source = model.read(str(path), number=number)
                model.fit_read(design, source)
            worst = max(worst, time.monotonic() - start)
    # Passes over the records take most of the time, so it grows in proportion to their number.
    return worst * rows / made


def _files(table: RegisteredTable, model: LinearModel, made: int, folder: Path) -> Iterator[Path]:
    """Write made-up tables one after the other, each over the one before; see `_frames`.

    Where one unit may have many rows, they are as slow to read as any in a last one or two: with the longest
    texts, and in a CSV file with the longest lines that are no rows.
    """
    is_csv, ending = _kind(Path(table.data_path))
    path = folder / f"made-up{ending}"
    of_one = _rows_of_one(table, made)
    for frame in _frames(table.schema, model, made):
        written = _with_units(frame, table, of_one)
        _write(written, path)
        yield path
    if len(of_one) > 1:
        _write(_with_long_texts(written, table.schema, of_one), path)
        yield path
    if len(of_one) > 1 and is_csv:
        _write_broken(written, path, of_one)
        yield path


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


def _rows_of_one(table: RegisteredTable, made: int) -> npt.NDArray[np.intp]:
    """Return the rows of the largest unit among so many made-up ones, spread over all of them."""
    assert table.max_rows is not None
    assert table.max_unit_rows is not None
    number = -(-table.max_unit_rows * made // max(table.max_rows, 1))
    return np.linspace(0, made - 1, min(number, made)).astype(np.intp)


def _with_units(
    frame: pd.DataFrame, table: RegisteredTable, of_one: npt.NDArray[np.intp]
) -> pd.DataFrame:
    """Return the rows with ids, of which one has as many rows as one may have."""
    ids = table.schema.unit.column
    if not ids:
        return frame
    assert table.max_rows is not None
    made = len(frame)
    units = max(1, (table.records or table.max_rows // 2) * made // max(table.max_rows, 1))
    numbers = np.arange(made) % units
    numbers[of_one] = 0
    # Texts, which take longer than numbers, as the type of the ids is not in the schema.
    return frame.assign(**{ids: [f"unit {number}" for number in numbers]})


def _with_long_texts(
    frame: pd.DataFrame, schema: Schema, of_one: npt.NDArray[np.intp]
) -> pd.DataFrame:
    """Return the rows with the longest texts in those of one unit."""
    texts = [f"{row}".ljust(tables.MAX_CELL // 2 - 10, _LONG) for row in of_one]
    changed = frame.copy()
    ids = schema.unit.column
    for name in changed.columns:
        if name == ids:
            changed.loc[of_one, name] = texts[0]
        elif pd.api.types.is_string_dtype(changed[name]):
            changed.loc[of_one, name] = texts
    return changed


def _kind(path: Path) -> tuple[bool, str]:
    """Return whether a table is in CSV files, and the ending of a file of the same kind: reading takes a part of the
    time.  The files may be gone.
    """
    names = (
        [path.name, *(one.name for one in path.rglob("*.csv*"))] if path.is_dir() else [path.name]
    )
    for ending in (".csv.gz", ".csv"):
        if any(name.lower().endswith(ending) for name in names):
            return True, ending
    return False, ".parquet"


def _write(frame: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)


def _write_broken(frame: pd.DataFrame, path: Path, of_one: npt.NDArray[np.intp]) -> None:
    """Write a CSV file in which the rows of one unit are lines that are slow to find broken."""
    lines = frame.to_csv(index=False).splitlines(keepends=True)
    for row in of_one:
        lines[1 + row] = '"",' * (tables.MAX_RECORD // 3) + "\n"
    text = "".join(lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
