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
from dpinfer.schema.columns import Ids
from dpinfer.schema.formula import parse
from dpinfer.tables.arrow_files import Files
from dpinfer.tables.cells import places
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


def csv(folder, sign=","):
    path = folder / "table.csv"
    lines = [
        sign.join((" place", "y ", "id")),
        *(sign.join((cell, " yes", " 7 ")) for cell in CELLS),
    ]
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


def test_names_and_ids_of_a_csv_file_have_no_blanks_around_them(tmp_path):
    path = csv(tmp_path)
    assert [name for name, _ in Files(path).types()] == ["place", "y", "id"]
    assert set(Files(path).read([Ids("id")])["id"].to_pylist()) == {"7"}


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
    assert places("y", ["yes", "Yes", "YES", " yes"], ("no", "yes")).tolist() == [1, 2, 2, 1]


def test_texts_that_are_no_text_are_missing():
    """Bytes that are no UTF-8 and halves of letters raise nothing."""
    broken = pa.chunked_array([pa.array([b"\xff", b" yes"], pa.binary()).view(pa.string())])
    halves = pd.Series(["\ud800", "yes "], dtype=pd.StringDtype("python"))
    for values in (broken, halves, halves.astype(object)):
        assert places("y", values, ("no", "yes")).tolist() == [2, 1]


@pytest.mark.parametrize(("sign", "words"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_sign_than_the_comma(sign, words, tmp_path):
    with pytest.raises(
        dp.InputError, match=f"separated by {words}.*write it with commas.*decimal points"
    ):
        encoded(csv(tmp_path, sign), COMPOSED)


def test_a_name_may_hold_a_semicolon(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b,c,d\n1,2,3\n", encoding="utf-8")
    assert [name for name, _ in Files(path).types()] == ["a;b", "c", "d"]


@pytest.mark.parametrize(
    ("name", "words"),
    {
        "t.dta": r"a Stata file.*read_stata\('t.dta'\).to_parquet\('t.parquet'\)",
        "t.SAV": r"an SPSS file.*read_spss",
        "t.xlsx": "an Excel file.*save the sheet as CSV",
        "t.sas7bdat": r"a SAS file.*read_sas",
        "t.rds": "an R file.*write_parquet",
        "t.tsv": "separated by tabs",
        "t.docx": "must end in .csv or .parquet",
    }.items(),
)
def test_files_of_other_programs(name, words, tmp_path):
    with pytest.raises(dp.InputError, match=words):
        Files(tmp_path / name).types()
