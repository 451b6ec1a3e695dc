"""Dates of every type of column, in memory and in files: one day each, and no cell raises."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.formula import parse
from dpinfer.tables.cells import column_of, objects
from dpinfer.tables.data_check import peek, typed
from dpinfer.tables.days import to_days
from dpinfer.tables.memory import read_terms
from dpinfer.tables.table import table_of
from helpers.cells import ODD
from helpers.searches import examples

SCHEMA = dp.Schema.parse("""
[columns.y]
type = "number"
low = 0
high = 1
[columns.d]
type = "date"
low = 2019-03-05
high = 2022-12-31
""")
DAYS = [dt.date(2020, 2, 29), None, dt.date(1969, 12, 31), dt.date(2022, 12, 31)]
TIMES = [None if day is None else dt.datetime.combine(day, dt.time(23, 59, 59)) for day in DAYS]
NUMBERS = [18321, np.nan, -1, 19357]
WEST = "America/New_York"

COLUMNS = {
    "objects": pd.Series(objects(DAYS)),
    "times as objects": pd.Series(objects(TIMES)),
    "texts as objects": pd.Series(objects([str(day) for day in DAYS])),
    "mixed objects": pd.Series(
        objects([DAYS[0], float("nan"), "1969-12-31 10:00", pd.Timestamp(TIMES[3])])
    ),
    "numpy scalars": pd.Series(objects([np.datetime64(time) for time in TIMES])),
    **{
        f"numpy {unit}": pd.Series(np.array(TIMES, f"M8[{unit}]"))
        for unit in ("s", "ms", "us", "ns")
    },
    "numpy days": np.array(DAYS, "M8[D]"),
    "numpy hours": np.array(TIMES, "M8[h]"),
    "numpy steps": np.array(TIMES, "M8[10m]"),
    "pandas texts": pd.Series([None if day is None else str(day) for day in DAYS], dtype="string"),
    "pandas category": pd.Series(pd.Categorical(pd.to_datetime(TIMES))),
    "pandas in a zone": pd.Series(pd.to_datetime(TIMES)).dt.tz_localize(WEST),
    "pandas arrow": pd.Series(DAYS, dtype="date32[pyarrow]"),
    "polars dates": pl.Series("d", DAYS),
    "polars times": pl.Series("d", TIMES),
    "polars in a zone": pl.Series("d", TIMES).dt.replace_time_zone(WEST),
    "polars texts": pl.Series("d", [None if day is None else str(day) for day in DAYS]),
    "arrow date32": pa.chunked_array([pa.array(DAYS, pa.date32())]),
    "arrow date64": pa.chunked_array([pa.array(DAYS, pa.date64())]),
    "arrow times": pa.chunked_array([pa.array(TIMES, pa.timestamp("us"))]),
    "arrow codes": pa.chunked_array([pa.array(DAYS, pa.date32()).dictionary_encode()]),
    "arrow texts": pa.chunked_array([pa.array([None if x is None else str(x) for x in DAYS])]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_every_column_of_dates_is_read_alike(column):
    """The date is that of the clock on the wall."""
    assert np.array_equal(to_days(column_of(column)), NUMBERS, equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        np.arange(3),
        np.array([1.5]),
        np.array([True]),
        pl.Series([1]),
        pl.Series([dt.time(3)]),
        pl.Series([dt.timedelta(3)]),
        pa.chunked_array([pa.array([1])]),
        pa.chunked_array([pa.array([3], pa.timestamp("s", "Nowhere/Here"))]),
    ],
)
def test_other_types_are_refused_by_their_type(column):
    assert to_days(column_of(column)) is None
    frame = (
        pa.table({"d": column, "y": np.zeros(len(column))})
        if isinstance(column, pa.ChunkedArray)
        else None
    )
    if frame is not None:
        with pytest.raises(dp.InputError, match="column 'd' must hold dates, as the schema says"):
            dp.LinearRegression("y ~ d", schema=SCHEMA, budget=dp.ZCDP(1.0)).fit(frame)


@examples(33)
@given(st.lists(st.one_of(ODD, st.dates(), st.datetimes(), st.text()), max_size=8))
def test_no_object_raises(cells):
    days = to_days(column_of(pd.Series(objects(cells), dtype=object)))
    assert days.shape == (len(cells),)


@examples(20)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    st.sampled_from(["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "as", "7s", "9Y"]),
)
def test_no_time_of_numpy_raises(cells, unit):
    assert to_days(np.array(cells, np.int64).view(f"M8[{unit}]")).shape == (len(cells),)


@examples(20)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=5),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC", WEST, "+05:30"]),
)
def test_no_time_of_arrow_raises(cells, unit, zone):
    column = pa.chunked_array([pa.array(cells, pa.int64()).cast(pa.timestamp(unit, zone))])
    days = to_days(column_of(column))
    assert list(np.isnan(days)) == [cell is None for cell in cells]


def rows(native):
    _, terms = parse("y ~ d", SCHEMA)
    return read_terms(table_of(native).opened(terms.columns), terms)[:, 0]


def test_files_hold_the_same_dates(tmp_path):
    """Clipped to the bounds; a cell that is no date is missing."""
    texts = ["2020-02-29", "", "1969-12-31", "2099-01-01T10:00", "yesterday"]
    expected = [361, np.nan, 0, 1397, np.nan]
    frame = pd.DataFrame({"d": texts, "y": 0.5})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "texts.parquet")
    typed_frame = frame.assign(d=pd.to_datetime(frame["d"], errors="coerce", format="ISO8601"))
    typed_frame.to_parquet(tmp_path / "t.parquet")
    for native in (
        frame,
        typed_frame,
        *(tmp_path / name for name in ("t.csv", "t.parquet", "texts.parquet")),
    ):
        assert np.array_equal(rows(native), expected, equal_nan=True)


def test_what_does_not_fit_is_counted(tmp_path):
    (tmp_path / "t.csv").write_text(
        "d,y\n2020-02-29,0\n,0\n1969-12-31,0\n2099-01-01,0\nyesterday,0\n", encoding="utf-8"
    )
    (found,) = peek(tmp_path / "t.csv", [SCHEMA["d"]]).columns
    assert (found.missing, found.unread, found.below, found.above) == (1, 1, 1, 1)
    (tmp_path / "u.csv").write_text("d,e\n2020-02-29,x\n,2020-01-01\n", encoding="utf-8")
    assert [str(field.type) for field in typed(tmp_path / "u.csv").schema] == [
        "date32[day]",
        "string",
    ]
