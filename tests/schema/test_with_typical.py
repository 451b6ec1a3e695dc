"""What is typical, written into the text of a schema."""

import tomllib

import pytest

import dpinfer as dp
from dpinfer.schema.schema import with_typical

TEXT = """\
title = "T"  # a title
unit = "one person"

[columns.age]  # in years
type = "integer"
low = 18
high = 95
# a comment that stays

[columns.income]
type = "number"
low = 0
typical = { mean = 1, sd = 2 }  # what was guessed
high = 150000
[columns."how are you?"]
type = "category"
levels = [
  "good",  # well
  "poor",
]
[weights]
column = "w"
most = 5
"""
NEW = {
    "age": {"mean": 46.31, "sd": 17.4},
    "income": {"mean": 31230.0, "sd": 2100.0},
    "how are you?": {"good": 0.7, "poor": 0.3},
}


def without_typical(text):
    lines = [line for line in text.splitlines() if not line.startswith("typical")]
    document = tomllib.loads(text)
    for entry in document["columns"].values():
        entry.pop("typical", None)
    return lines, document


def test_guarantee_edits_keep_the_rest():
    edited = with_typical(TEXT, NEW, "release R")
    assert without_typical(edited) == without_typical(TEXT)  # every line, and what is read of them
    columns = tomllib.loads(edited)["columns"]
    assert {name: columns[name]["typical"] for name in NEW} == NEW
    assert edited.count("# release R") == 3
    assert "what was guessed" not in edited
    assert dp.Schema.parse(edited).digest() == dp.Schema.parse(TEXT).digest()
    again = with_typical(edited, NEW, "release S")
    assert again == edited.replace("release R", "release S")
    assert with_typical(TEXT, {}, "nobody") == TEXT


def test_line_ends_stay():
    edited = with_typical(TEXT.replace("\n", "\r\n"), NEW, "release R")
    assert edited == with_typical(TEXT, NEW, "release R").replace("\n", "\r\n")


@pytest.mark.parametrize(
    "column",
    [
        'columns.age = { type = "integer", low = 18, high = 95 } # stays',
        '# stays\ncolumns.age.type = "integer"\ncolumns.age.low = 18\ncolumns.age.high = 95',
        '[columns]\nage = { type = "integer", low = 18, high = 95 }  # stays',
        '[columns.age]  # stays\ntype = "integer"\nlow = 18\nhigh = 95\n[columns.age.typical]\nmean = 40\nsd = 9',
        '[columns.age]\ntype = "integer"  # stays\nlow = 18\nhigh = 95\ntypical.mean = 40\ntypical.sd = 9',
        '[columns.sex]\ntype = "boolean"\n[weights]\ncolumn = "w"\nmost = 5\n[columns.age]\ntype = "integer"\n'
        "low = 18 # stays\nhigh = 95",
    ],
)
def test_any_layout_is_edited(column):
    assert dp.Schema.parse(column)["age"].high == 95
    edited = with_typical(column, {"age": NEW["age"]}, "release R")
    assert "# stays" in edited
    assert tomllib.loads(edited)["columns"]["age"]["typical"] == NEW["age"]
    assert without_typical(edited)[1] == without_typical(column)[1]


@pytest.mark.parametrize("broken", ["[columns.age", "", '[columns.age]\ntype = "integer"'])
def test_an_edit_that_changes_anything_else_is_refused(broken, monkeypatch):
    monkeypatch.setattr("tomlkit.dumps", lambda document: broken)
    with pytest.raises(dp.InputError, match=r"without changing something else: .*\[columns.NAME\]"):
        with_typical(TEXT, {"age": NEW["age"]}, "release R")


def test_what_no_schema_takes_is_refused():
    with pytest.raises(dp.InputError, match="mean must lie between"):
        with_typical(TEXT, {"age": {"mean": 400.0, "sd": 1.0}}, "release R")
