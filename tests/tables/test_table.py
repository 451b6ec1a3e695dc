"""A table answers the same questions wherever it is, and what it is is asked in one place."""

import ast
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest

import dpinfer as dp
from dpinfer.schema.columns import Ids
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.cluster import ClusterTable
from dpinfer.tables.memory import InMemory
from dpinfer.tables.table import check, table_of
from helpers import people

FRAME = people.table(rows=300, persons=80)
COLUMNS = [people.schema()[name] for name in ("y", "a", "b")]


class Far(ClusterTable):
    """A table of an engine that is asked for nothing but types and numbers."""

    def empty(self, columns):
        return self.native[:0]

    def count(self, columns):
        return len(self.native)

    def count_units(self, ids):
        return self.native[ids].nunique()

    def source(self, reader, n):
        raise AssertionError


def parquet(folder):
    FRAME.to_parquet(folder / "t.parquet")
    return folder / "t.parquet"


PLACES = {
    "pandas": lambda folder: table_of(FRAME),
    "polars": lambda folder: table_of(pl.from_pandas(FRAME)),
    "pyarrow": lambda folder: table_of(pa.Table.from_pandas(FRAME)),
    "a lazy frame": lambda folder: table_of(pl.from_pandas(FRAME).lazy()),
    "a dict": lambda folder: table_of(dict(FRAME.items())),
    "a file": lambda folder: table_of(str(parquet(folder))),
    "a folder": lambda folder: table_of(parquet(folder).parent),
    "a cluster": lambda folder: Far(FRAME),
}


@pytest.mark.parametrize("place", PLACES)
def test_every_table_answers_alike(place, tmp_path):
    table = PLACES[place](tmp_path)
    assert table.types() == [
        ("person", "integer"),
        ("a", "number"),
        ("b", "category"),
        ("y", "boolean"),
        ("cost", "number"),
        ("w", "number"),
    ]
    assert (table.count(COLUMNS), table.count_units("person")) == (300, 80)
    assert len(table.blank(COLUMNS)) == 0
    check(table, [*COLUMNS, Ids("person")])
    with pytest.raises(dp.InputError, match="column 'b' must hold numbers"):
        check(table, [people.schema()["a"].__class__("b", 0, 1)])


@pytest.mark.parametrize("place", [place for place in PLACES if place != "a cluster"])
def test_what_is_here_is_opened(place, tmp_path):
    table = PLACES[place](tmp_path)
    table.require_local()
    opened = table.opened(COLUMNS)
    assert opened["a"].to_list() == FRAME["a"].tolist()


def test_what_a_table_is_is_asked_once():
    assert isinstance(table_of("t.csv"), Files)
    assert isinstance(table_of(Path("t.csv")), Files)
    assert isinstance(table_of(FRAME), InMemory)
    for other in (None, 3, [[1.0]]):
        with pytest.raises(dp.InputError, match="a formula needs a pandas, polars or pyarrow"):
            table_of(other)
    asking = []
    for path in Path(dp.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in (
                "is_dask_dataframe",
                "is_pyspark_dataframe",
            ):
                asking.append(path.name)
    assert set(asking) == {"table.py"}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("by_person", [True, False])
def test_what_cannot_be_learned_from_is_refused_before_booking(neighbours, by_person, monkeypatch):
    """Bounds are learned of rows that are here; on a cluster nothing is spent."""
    monkeypatch.setattr("dpinfer.fit.bounds.table_of", Far)
    ledger = dp.Ledger(dp.ZCDP(1.0), unit="one person")
    head = people.AVERAGE if by_person else '[unit]\nname = "one person"\n'
    schema = head + '[columns.a]\ntype = "number"\nlow = "?"\nhigh = "?"\n'
    with pytest.raises(dp.InputError, match="pandas's DataFrame: collect it"):
        dp.learn_bounds(FRAME, schema, budget=dp.ZCDP(0.5), neighbours=neighbours, ledger=ledger)
    assert not ledger.entries()
    with pytest.raises(dp.InputError, match="collect it"):
        Far(FRAME).opened(COLUMNS)


def twice(folder, kind):
    """A table with a name twice."""
    table = pa.table([pa.array([1.0]), pa.array([48151623.0]), pa.array([2.0])], ["b", "a", "a"])
    if kind == "csv":
        (folder / "t.csv").write_text("b,a,a\n1,48151623,2\n")
        return folder / "t.csv"
    if kind == "arrow":
        pa.feather.write_feather(table, folder / "t.arrow")
        return folder / "t.arrow"
    return table.to_pandas() if kind == "pandas" else table


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "csv", "arrow"])
def test_a_name_twice_is_refused_with_a_remedy(kind, tmp_path):
    """A draft would be no TOML; without a header the names are values, and none is told."""
    with pytest.raises(dp.InputError, match="same name: rename one") as refused:
        dp.Schema.draft(twice(tmp_path, kind))
    assert str(refused.value).startswith("columns 2 and 3 ")
    assert refused.value.__context__ is None
    with pytest.raises(dp.InputError):
        dp.learn_bounds(twice(tmp_path, kind), columns=["a:number"], budget=dp.ZCDP(1.0))
