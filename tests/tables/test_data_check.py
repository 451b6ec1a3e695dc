"""What does not fit is counted as a fit would count it, and no cell is shown."""

import gzip

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.schema.formula import parse
from dpinfer.tables.data_check import CellCounts, peek, typed
from dpinfer.tables.memory import read_labels, read_terms
from dpinfer.tables.table import table_of
from helpers.tables import SCHEMA, table

SMALL = dp.Schema.parse("""
[unit]
name = "one person"
column = "id"
rows = "average"
[columns.y]
type = "outcome"
levels = ["no", "yes"]
[columns.cost]
type = "outcome"
low = 0
high = 5
[columns.age]
type = "integer"
low = 18
high = 90
[columns.sex]
type = "category"
levels = ["f", "m"]
missing = "f"
""")
LINES = """id, age ,y,sex,cost
1,20,yes,f,1.5
2,x,Yes,m,2
3,17,no,,3
4,99,no ,F,
5,,no,q,6
6,30,yes,m
 ,30.5,maybe,m,n/a
"""
COUNTS = (
    CellCounts("y", missing=1, unread=2, below=0, above=0, near=1),
    CellCounts("cost", missing=2, unread=1, below=0, above=1, near=0),
    CellCounts("age", missing=2, unread=2, below=1, above=1, near=0),
    CellCounts("sex", missing=2, unread=2, below=0, above=0, near=1),
    CellCounts("id", missing=2, unread=0, below=0, above=0, near=0),
)


def test_a_csv_file(tmp_path):
    (tmp_path / "t.csv").write_text(LINES, encoding="utf-8")
    found = peek(tmp_path / "t.csv", [*SMALL.columns.values(), *SMALL.unit.columns])
    assert (found.rows, found.usable, found.broken, found.columns) == (7, 2, 1, COUNTS)


@pytest.mark.parametrize("as_file", [True, False])
def test_typed_tables(as_file, tmp_path):
    frame = pd.DataFrame(
        {
            "age": [20.0, 30.5, 17, 99, np.nan],
            "y": ["yes", "Yes", "no", "no ", None],
            "sex": ["f", "m", "", "F", "q"],
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    found = peek(
        tmp_path / "t.parquet" if as_file else frame, [SMALL[name] for name in ("y", "age", "sex")]
    )
    assert (found.rows, found.usable, found.broken) == (5, 3, 0)
    assert found.columns == (
        CellCounts("y", missing=1, unread=1, below=0, above=0, near=1),
        CellCounts("age", missing=1, unread=1, below=1, above=1, near=0),
        CellCounts("sex", missing=1, unread=2, below=0, above=0, near=1),
    )


def test_usable_is_what_a_fit_can_encode():
    """With every type of column: a row is usable if and only if the fit does not count it as a row
    of zeros.
    """
    frame = table(600).mask(np.random.default_rng(0).random((600, len(table(600).columns))) < 0.03)
    response, terms = parse("ill ~ age + sex + h + k + smoker", SCHEMA)
    columns = [*response.columns, *terms.columns]
    opened = table_of(frame).opened(columns)
    kept = np.isfinite(read_labels(opened, response)) & np.isfinite(read_terms(opened, terms)).all(
        axis=1
    )
    found = peek(frame, columns)
    assert 0 < found.usable == kept.sum() < 600


def test_types_are_guessed_from_cells(tmp_path):
    text = "i,d,b,s,n,z\n1,1.5,true,a,NA,007\n-2,2,FALSE,3,,1\n,1e3,,x y,n/a,2\nbroken\n"
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write(text.encode())
    for name in ("t.csv", "t.csv.gz"):
        found = typed(tmp_path / name)
        kinds = {field.name: str(field.type) for field in found.schema}
        assert kinds == {
            "i": "int64",
            "d": "double",
            "b": "bool",
            "s": "string",
            "n": "null",
            "z": "int64",
        }
        assert len(found) == 0
    table(600).to_parquet(tmp_path / "t.parquet")
    assert dp.Schema.draft(typed(tmp_path / "t.parquet")) == dp.Schema.draft(tmp_path / "t.parquet")
