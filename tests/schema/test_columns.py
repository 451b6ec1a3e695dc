"""Texts that look the same are the same level, in files and in tables; what differs in letters does
not fit.
"""

import unicodedata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpinfer as dp
from dpinfer.schema.columns import column_of, did_you_mean
from dpinfer.schema.formula import parse
from dpinfer.tables.levels import level_codes
from dpinfer.tables.memory import read_labels, read_terms
from dpinfer.tables.table import table_of

COMPOSED, APART = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
TEXT = """
[columns.y]
type = "outcome"
levels = ["no", "yes"]
[columns.place]
type = "category"
levels = ["home", "{level}", "work"]
reference = "home"
"""
CELLS = ["home", COMPOSED, APART, f"  {APART}\t", "work ", "Work", "\u00a0home", "cafe", ""]
FOUND = [[0, 0], [1, 0], [1, 0], [1, 0], [0, 1], None, [0, 0], None, None]


def schema(level):
    return dp.Schema.parse(TEXT.format(level=level))


def encoded(table, level):
    response, terms = parse("y ~ place", schema(level))
    opened = table_of(table).opened([*response.columns, *terms.columns])
    return read_terms(opened, terms), read_labels(opened, response)


def csv(folder):
    path = folder / "table.csv"
    lines = [" place,y ,id", *(f"{cell}, yes, 7 " for cell in CELLS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("level", [COMPOSED, APART, f" {APART} "])
@pytest.mark.parametrize(
    "kind", ["csv", "pandas", "category", "polars", "pyarrow", "objects", "parquet"]
)
def test_the_same_level_in_every_kind_of_table(kind, level, tmp_path):
    columns = {"place": CELLS, "y": [" yes"] * len(CELLS)}
    tables = {
        "csv": lambda: csv(tmp_path),
        "pandas": lambda: pd.DataFrame(columns),
        "category": lambda: pd.DataFrame(columns).astype("category"),
        "polars": lambda: pl.DataFrame(columns),
        "pyarrow": lambda: pa.table(columns),
        "objects": lambda: pd.DataFrame(columns, dtype=object),
        "parquet": lambda: tmp_path / "table.parquet",
    }
    pd.DataFrame(columns).to_parquet(tmp_path / "table.parquet")
    values, labels = encoded(tables[kind](), level)
    assert [row.tolist() if np.isfinite(row).all() else None for row in values] == FOUND
    assert (labels == 1).all()


def test_levels_are_named_in_one_form():
    for level in (COMPOSED, APART, f" {APART}"):
        assert schema(level).digest() == schema(COMPOSED).digest()
        assert parse(f"y ~ C(place, '{level}')", schema(APART))[1].blocks[0].names == (
            "place[home]",
            "place[work]",
        )


@pytest.mark.parametrize("twin", [APART, f"{COMPOSED} "])
def test_two_levels_that_are_one_are_refused(twin):
    with pytest.raises(dp.InputError, match=r"line 7: .*different levels.*white space.*accents"):
        schema(f'{COMPOSED}", "{twin}')
    with pytest.raises(dp.InputError, match="two different classes"):
        dp.LogisticRegression(bounds=(0, 1), classes=(COMPOSED, twin), budget=dp.ZCDP(1.0)).fit(
            [[0.5]], [twin]
        )


def test_large_and_small_letters_are_told_apart():
    assert schema('yes", "Yes')["place"].levels == ("home", "yes", "Yes", "work")
    assert level_codes("y", ["yes", "Yes", "YES", " yes"], ("no", "yes")).tolist() == [1, 2, 2, 1]


def test_texts_that_are_no_text_are_missing():
    """Bytes that are no UTF-8 and halves of letters raise nothing."""
    broken = pa.chunked_array([pa.array([b"\xff", b" yes"], pa.binary()).view(pa.string())])
    halves = pd.Series(["\ud800", "yes "], dtype=pd.StringDtype("python"))
    for values in (broken, halves, halves.astype(object)):
        assert level_codes("y", values, ("no", "yes")).tolist() == [2, 1]


def test_the_remedy_for_an_unknown_name():
    assert did_you_mean("agee", {"age": 1, "sex": 2}) == "did you mean 'age'?"
    assert did_you_mean(11, (1, 2)) == "did you mean 1?"
    assert did_you_mean("height", ["sex", "age"]) == "it has 'age', 'sex'"
    many = did_you_mean("height", "abcdefghij")
    assert many.startswith("it has 'a', 'b'")
    assert many.endswith("'h' and 2 more")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "number", "low": 0, "high": 1e200}, "too far apart for double precision"),
        ({"type": "number", "low": 0, "high": 1e-200}, "too close or too far"),
        ({"type": "number", "low": 2, "high": 1}, "with low < high"),
        ({"type": "number", "low": 0, "high": float("inf")}, "must be finite"),
        ({"type": "number", "low": 0, "high": 1, "scale": 1e-200}, "between 1e-150 and 1e150"),
        ({"type": "integer", "low": 0, "high": 3, "levels": []}, "whole numbers: correct them"),
        ({"type": "integer", "low": 0, "high": 3, "levels": ["a", "b"]}, "'category'"),
        ({"type": "integer", "low": 0, "high": 1, "levels": [False, True]}, "whole numbers"),
    ],
)
def test_the_fault_is_the_one_that_is_named(entry, message):
    with pytest.raises(dp.InputError, match=message):
        column_of("x", entry)
