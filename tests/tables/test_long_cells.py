"""A cell of 4 MB costs no more than its bytes, in every type of column and every reader.

Accents are stored in any order, and sorting them takes the square of their number: a text that is
too long for a level must not be sorted.
"""

import faulthandler
import sys
import time
import unicodedata
from contextlib import contextmanager

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.schema.columns import tidy
from dpinfer.tables.data_check import peek, typed
from dpinfer.tables.levels import LONGEST, MARKS, match, tally

ACCENTS = "\u0301\u0323"  # in the wrong order
SIZE = 2**22 - 100  # bytes; to sort so many accents takes minutes
LONG = {
    "accents": "a" + ACCENTS * (SIZE // 4),
    "digits": "1" * SIZE + "x",
    "a number": "1" * SIZE,
    "blanks": " " * (SIZE // 2) + "p" + " " * (SIZE // 2 - 10),
}
"""Texts of 4 MB; the last one is a level with blanks around it."""
SECONDS = 10

SCHEMA = """
[unit]
name = "one person"
column = "who"
rows = "average"
[columns.y]
type = "outcome"
levels = ["no", "yes"]
[columns.text]
type = "category"
levels = ["p", "q\u0301\u0323"]
[columns.number]
type = "number"
low = 0
high = 9
[columns.flag]
type = "boolean"
missing = false
"""
COLUMNS = {
    "who": ["1", "2", "3", "4"],
    "y": ["no", "yes", "no", "yes"],
    "text": ["p", "q", "p", "q"],
    "number": ["1", "2", "3", "4"],
    "flag": ["true", "false", "true", "false"],
}
TEXTS = ("who", "y", "text")


@contextmanager
def quick():
    """What takes long fails; what would take hours ends the tests, as nothing else can end it."""
    faulthandler.dump_traceback_later(300, exit=True, file=sys.__stderr__)
    start = time.process_time()
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
    assert time.process_time() - start < SECONDS


def frame_of(column, cell, kind=object):
    """A frame whose ``column`` holds one long cell: texts of ``kind``, else objects."""
    cells = {name: list(values) for name, values in COLUMNS.items()}
    cells["number"] = [1.0, 2.0, 3.0, 4.0]
    cells["flag"] = [True, False, True, False]
    cells[column][1] = cell
    kinds = {name: kind if name in TEXTS else object for name in cells}
    return pd.DataFrame({name: pd.Series(cells[name], dtype=kinds[name]) for name in cells})


def csv_of(path, column, cell):
    cells = {name: list(values) for name, values in COLUMNS.items()}
    cells[column][1] = cell
    lines = [",".join(cells), *map(",".join, zip(*cells.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def arrow_of(frame):
    """Numbers and booleans as such, as a column of Arrow has one type."""
    frame = frame.assign(
        number=pd.to_numeric(frame["number"], errors="coerce"), flag=[True, None, True, False]
    )
    return pa.Table.from_pandas(frame, preserve_index=False)


def file_of(write, name):
    def make(folder, column, cell):
        write(arrow_of(frame_of(column, cell)), folder / name)
        return folder / name

    return make


READERS = {
    "pandas objects": lambda _, column, cell: frame_of(column, cell),
    "pandas text": lambda _, column, cell: frame_of(column, cell, "string[python]"),
    "pandas text on arrow": lambda _, column, cell: frame_of(column, cell, "string[pyarrow]"),
    "pandas categories": lambda _, column, cell: frame_of(column, cell, "category"),
    "polars": lambda _, column, cell: pl.from_arrow(arrow_of(frame_of(column, cell))),
    "arrow": lambda _, column, cell: arrow_of(frame_of(column, cell)),
    "CSV": lambda folder, column, cell: csv_of(folder / "t.csv", column, cell),
    "Parquet": file_of(pq.write_table, "t.parquet"),
    "Arrow file": file_of(pa.feather.write_feather, "t.arrow"),
}


@pytest.mark.parametrize(
    ("reader", "cell"),
    [
        *((reader, "accents") for reader in READERS),
        *(("CSV", cell) for cell in LONG if cell != "accents"),
    ],
)
def test_guarantee_long_cells_are_quick(reader, cell, tmp_path):
    """In every type of column."""
    schema = dp.Schema.parse(SCHEMA)
    for column in COLUMNS:
        if column not in TEXTS and reader not in ("pandas objects", "CSV"):
            continue  # whose types hold no text
        table = READERS[reader](tmp_path, column, LONG[cell])
        with quick():
            model = dp.LogisticRegression(
                "y ~ text + number + flag", schema=schema, budget=dp.ZCDP(1.0), insecure_seed=1
            )
            model.fit(table)


@pytest.mark.parametrize("cell", LONG)
def test_one_cell_hangs_no_search_for_levels_and_no_check(cell, tmp_path):
    path = csv_of(tmp_path / "t.csv", "text", LONG[cell])
    schema = dp.Schema.parse(SCHEMA)
    with quick():
        dp.learn_bounds(path, columns=["text:category"], budget=dp.ApproxDP(200.0, 0.09))
    with quick():
        found = peek(path, [schema["text"], schema["y"]])
        assert found.columns[0].unread == 1 + (cell != "blanks")
    with quick():
        typed(path)
    with quick():
        frame = frame_of("text", LONG[cell])
        dp.learn_bounds(frame, columns=["text:category"], budget=dp.ApproxDP(200.0, 0.09))


# What is too long is no level


SPELLED = st.text("aq\u0301\u0323é\u1e69s\u0307 ", max_size=12)


@given(SPELLED, SPELLED)
def test_no_spelling_of_a_level_is_too_long(level, cell):
    """The rule without a length, on texts with accents in any order and form."""
    level = tidy(level) or "x"
    same = int(tidy(cell) != level)
    spelled = np.array([cell, *(unicodedata.normalize(form, level) for form in ("NFC", "NFD"))])
    assert match(spelled.astype(object), [level]).tolist() == [same, 0, 0]


def test_a_level_of_200_letters_may_be_stored_as_four_times_as_many():
    """No letter is stored as more than four, and none as nothing."""
    parts = [len(unicodedata.normalize("NFD", chr(code))) for code in range(sys.maxunicode + 1)]
    assert min(parts) == 1
    assert max(parts) == MARKS
    longest = "\u1f82" * LONGEST
    stored = unicodedata.normalize("NFD", longest)
    assert len(stored) == MARKS * LONGEST
    cells = np.array([stored, longest, longest + "a", stored + "\u0345"], dtype=object)
    found = tally(cells, None, Adjacency.REPLACE)
    assert dict(zip(found.levels, found.counts, strict=True)) == {longest: 2.0}
