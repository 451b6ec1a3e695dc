"""Streams of Arrow record batches: the same fit as of the table, read once, and only after it is booked."""

import gc
import os

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dp
from dpinfer.schema.columns import Ids
from dpinfer.tables.table import table_of
from helpers import people

FRAME = people.table(rows=3000, persons=500)
COLUMNS = [people.schema()[name] for name in ("y", "a", "b")]
FORMULA = "y ~ a + b"
ARROW = pa.Table.from_pandas(FRAME, preserve_index=False)


class Stream:
    """Something that hands out a stream, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def relation():
    duckdb = pytest.importorskip("duckdb")
    return duckdb.from_arrow(ARROW).select("*")


def coded():
    """Levels as two types of codes."""
    return pl.from_arrow(ARROW).with_columns(pl.col("b").cast(pl.Categorical)).lazy()


STREAMS = {
    "a lazy frame": lambda: pl.from_arrow(ARROW).lazy(),
    "a lazy frame of codes": coded,
    "a query": lambda: pl.concat([pl.from_arrow(ARROW).lazy()] * 2).head(3000),
    "narwhals": lambda: nw.from_native(pl.from_arrow(ARROW).lazy()),
    "batches": lambda: ARROW.to_reader(max_chunksize=97),
    "a stream": lambda: Stream(ARROW),
    "a relation": relation,
}


def schema(by_person):
    head = people.AVERAGE if by_person else ""
    return dp.Schema.parse(f"{head}\n{people.COLUMNS}")


def result(table, neighbours="replace", ledger=None, *, by_person=False):
    model = dp.LogisticRegression(
        FORMULA,
        schema=schema(by_person),
        budget=dp.ZCDP(2.0),
        adjacency=neighbours,
        ledger=ledger,
        insecure_seed=1 if ledger is None else None,
    )
    return model.fit(table).result_


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("by_person", [True, False])
@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_gives_the_fit_of_its_table(stream, by_person, neighbours):
    found = result(STREAMS[stream](), neighbours, by_person=by_person)
    expected = result(FRAME, neighbours, by_person=by_person)
    np.testing.assert_array_equal(found.estimate, expected.estimate)
    np.testing.assert_array_equal(found.std_error, expected.std_error)
    assert found.model.n == expected.model.n


@pytest.mark.parametrize("stream", STREAMS)
def test_a_stream_answers_like_its_table(stream):
    ours, plain = table_of(STREAMS[stream]()), table_of(ARROW)
    assert ours.types() == plain.types()
    assert (ours.count(COLUMNS), ours.count_units("person")) == (3000, 500)
    assert len(ours.blank(COLUMNS)) == 0
    assert ours.opened(COLUMNS)["a"].to_list() == FRAME["a"].tolist()
    assert table_of(STREAMS[stream]()).opened([Ids("person")]).shape[0] == 3000
    with pytest.raises(dp.InputError, match="the table has no column 'x'"):
        ours.opened([Ids("x")])


class Watch:
    """Which values were asked for."""

    def __init__(self):
        self.looks = 0

    def look(self, values):
        self.looks += 1
        return values

    def lazy(self):
        """A lazy frame of which every value passes here."""
        frame = pl.from_arrow(ARROW).lazy()
        kinds = frame.collect_schema()
        return frame.with_columns(
            pl.col(name).map_batches(self.look, return_dtype=kind) for name, kind in kinds.items()
        )

    def batches(self):
        """A stream of which every batch passes here."""
        return pa.RecordBatchReader.from_batches(
            ARROW.schema, (self.look(batch) for batch in ARROW.to_batches(max_chunksize=100))
        )


@pytest.mark.parametrize("by_person", [True, False])
@pytest.mark.parametrize(
    ("make", "neighbours"), [("lazy", "replace"), ("lazy", "add-remove"), ("batches", "add-remove")]
)
def test_guarantee_streams_are_booked_first(make, neighbours, by_person):
    """A fit that the ledger refuses reads nothing; ids are read where units must be counted."""
    watch = Watch()
    unit = "one person" if by_person else "one record"
    relation = neighbours + "-unit" * by_person
    counts_units = by_person and neighbours == "replace"
    poor = dp.Ledger(dp.ZCDP(0.01), unit=unit, neighbours=relation)
    with pytest.raises(dp.LedgerError):
        result(getattr(watch, make)(), neighbours, poor, by_person=by_person)
    assert watch.looks == int(counts_units)
    rich = dp.Ledger(dp.ZCDP(5.0), unit=unit, neighbours=relation)
    booked = []
    rich_book = rich.book

    def book(entry):
        booked.append(watch.looks)
        return rich_book(entry)

    rich.book = book
    result(getattr(watch, make)(), neighbours, rich, by_person=by_person)
    assert booked == [2 * counts_units]
    assert watch.looks > booked[0]


def test_each_column_is_read_once_however_many_passes_there_are():
    watch = Watch()
    result(watch.lazy())
    assert watch.looks == len(COLUMNS)


def test_a_query_that_fails_quotes_no_value_and_is_booked():
    """Its error may hold one."""
    table = pl.from_arrow(ARROW).lazy().with_columns(a=pl.col("b").cast(pl.Int64).cast(pl.Float64))
    ledger = dp.Ledger(dp.ZCDP(5.0), unit="one record")
    with pytest.raises(dp.InputError, match="polars's LazyFrame cannot be read") as caught:
        result(table, ledger=ledger)
    for level in people.schema()["b"].levels:
        assert f"{level}'" not in str(caught.value)
        assert f'"{level}"' not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(ledger.entries()) == 1


def test_a_query_with_another_number_of_rows_each_time_is_refused():
    calls = []

    def some(frame):
        calls.append(1)
        return frame.head(3000 - len(calls))

    changing = pl.from_arrow(ARROW).lazy().map_batches(some)
    with pytest.raises(dp.InputError, match="another number of rows than before"):
        result(changing)


def test_a_stored_stream_is_gone_with_its_fit():
    def stored():
        folder = "/proc/self/fd"
        links = [os.path.join(folder, name) for name in os.listdir(folder)]
        return sum("(deleted)" in os.readlink(link) for link in links if os.path.lexists(link))

    gc.collect()
    before = stored()
    table = table_of(STREAMS["batches"]())
    table.count(COLUMNS)
    assert stored() == before + 1
    del table
    gc.collect()
    assert stored() == before


def test_other_uses_of_a_stream():
    """Predictions, effects, a description, bounds that are learnt, and a draft."""
    fitted = dp.LogisticRegression(
        FORMULA, schema=schema(by_person=False), budget=dp.ZCDP(2.0), insecure_seed=1
    ).fit(FRAME)
    lazy = STREAMS["a lazy frame"]
    np.testing.assert_array_equal(fitted.predict(lazy()), fitted.predict(FRAME))
    assert fitted.result_.margins(lazy()).equals(fitted.result_.margins(FRAME))
    about = dp.describe(lazy(), schema(by_person=False), dp.ZCDP(2.0), insecure_seed=1)
    assert about.n == 3000
    assert dp.learn_bounds(lazy(), columns=["a"], budget=dp.ZCDP(2.0)).schema["a"].high > 0
    assert dp.Schema.draft(lazy()) == dp.Schema.draft(ARROW)


DICTS = {
    "arrays": lambda: {name: FRAME[name].to_numpy() for name in FRAME},
    "lists": lambda: {name: FRAME[name].tolist() for name in FRAME},
    "columns of pandas": lambda: {name: FRAME[name].sort_index() for name in FRAME},
    "columns of polars": lambda: dict(pl.from_arrow(ARROW).to_dict()),
    "arrays of Arrow": lambda: {name: pa.array(FRAME[name]) for name in FRAME},
}


@pytest.mark.parametrize("kind", DICTS)
@pytest.mark.parametrize("by_person", [True, False])
def test_a_dict_of_columns_is_a_table(kind, by_person):
    found = result(DICTS[kind](), by_person=by_person)
    expected = result(FRAME, by_person=by_person)
    np.testing.assert_array_equal(found.estimate, expected.estimate)


def test_a_list_of_a_dict_has_no_type_whatever_it_holds():
    """So nothing in it is an error: it counts if it is a plain number, or a level."""
    given = {name: FRAME[name].tolist() for name in FRAME}
    given["a"][0] = "48151623"
    given["b"][1] = 48151623
    assert np.isfinite(result(given).estimate).all()
    index = {name: pd.Series(FRAME[name].to_numpy(), FRAME.index[::-1]) for name in FRAME}
    np.testing.assert_array_equal(result(index).estimate, result(FRAME).estimate)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [1], "a": [1, 2]}, "differ in length"),
        ({"y": np.ones((3, 2))}, "'y' of the dict is no column"),
        ({"y": 3}, "'y' of the dict is no column"),
        ({"y": "abc"}, "'y' of the dict is no column"),
        (np.ones((3, 2)), r"give a dict of columns, as in \{'age': X\[:, 0\]\}"),
        (pa.array([1]), r"convert it, as in table.to_pandas\(\)"),
        (pa.chunked_array([[1]]), r"convert it, as in table.to_pandas\(\)"),
    ],
)
def test_what_is_no_table_is_told_how_to_become_one(given, message):
    with pytest.raises(dp.InputError, match=message):
        result(given)
