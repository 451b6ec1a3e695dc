"""Levels in any case and spacing, and cells that are missing as a level of their own."""

import sys
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.schema.columns import column_of, entry_of, level_meant, spelling_key
from dpinfer.schema.formula import parse
from dpinfer.tables.data_check import peek
from dpinfer.tables.memory import read_labels, read_terms
from dpinfer.tables.table import table_of

TEXT = """
[columns.died]
type = "outcome"
levels = ["alive", "Dead"]
spelling = "any"
[columns.place]
type = "category"
levels = ["Saint  Denis", "Łódź", "Straße"]
spelling = "any"
missing = "level"
[columns.other]
type = "category"
levels = ["a", "A", "b"]
"""
SCHEMA = dp.Schema.parse(TEXT)
CELLS = [
    "saint denis",
    " SAINT \t DENIS",
    "łódź",
    "ŁO\u0301DZ\u0301",
    "STRASSE",
    "Lodz",
    None,
    "missing",
]


def places(cells, schema=SCHEMA):
    _, terms = parse("died ~ 0 + place", schema)
    found = read_terms(table_of(pd.DataFrame({"place": cells})).opened(terms.columns), terms)
    return [int(row.argmax()) if row.any() else -1 for row in np.nan_to_num(found)]


def test_cells_of_any_spelling(tmp_path):
    assert places(CELLS) == [0, 0, 1, 1, 2, 3, 3, 3]
    frame = pd.DataFrame({"place": CELLS})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    _, terms = parse("died ~ 0 + place", SCHEMA)
    for name in ("t.csv", "t.parquet"):
        found = read_terms(table_of(tmp_path / name).opened(terms.columns), terms)
        assert list(found.argmax(axis=1)) == [0, 0, 1, 1, 2, 3, 3, 3]


def test_without_it_case_counts():
    exact = dp.Schema.parse(TEXT.replace('spelling = "any"\n', ""))
    assert places(CELLS, exact) == [3, 3, 3, 3, 3, 3, 3, 3]
    assert places(["Saint  Denis", " Łódź ", "Straße"], exact) == [0, 1, 2]


def test_outcomes_of_any_spelling():
    response, _ = parse("died ~ 1", SCHEMA)
    frame = pd.DataFrame({"died": ["ALIVE", "dead ", "x", None]})
    found = read_labels(table_of(frame).opened(response.columns), response)
    assert np.array_equal(found, [-1, 1, np.nan, np.nan], equal_nan=True)
    compared, _ = parse("died == 'DEAD' ~ 1", SCHEMA)
    again = read_labels(table_of(frame).opened(compared.columns), compared)
    assert np.array_equal(found, again, equal_nan=True)
    assert compared.name == "died == Dead"


def test_what_is_alike_is_counted_as_near():
    exact = dp.Schema.parse(
        TEXT.replace('spelling = "any"\n', "").replace('missing = "level"\n', "")
    )
    (found,) = peek(pd.DataFrame({"place": CELLS}), [exact["place"]]).columns
    assert (found.missing, found.unread, found.near) == (1, 7, 5)


@given(st.text(max_size=20), st.text(max_size=20))
def test_alike_is_an_equivalence_under_case_and_spacing(one, other):
    assert spelling_key(spelling_key(one)) == spelling_key(one)
    assert spelling_key(f" {one}  ") == spelling_key(one)
    assert spelling_key(f"{one} {other}") == spelling_key(f"{one}\t\n{other} ")
    assert spelling_key(one.upper().lower()) == spelling_key(one.upper())


def test_no_character_becomes_none():
    """So that a text which is longer than all levels, made alike, is none of them."""
    for point in range(sys.maxunicode + 1):
        letter = chr(point)
        if not letter.isspace():
            folded = unicodedata.normalize("NFD", letter).casefold()
            assert len(unicodedata.normalize("NFD", folded)) >= 1


def test_long_cells_of_any_spelling_are_quick():
    """A text of accents in the wrong order takes the square of its length to sort."""
    long = "a" + "\u0301\u0323" * 10**6
    assert places([long, "saint" + " " * 10**6 + "denis"]) == [3, 0]


def test_formulas_find_the_only_level_that_is_alike():
    levels = ("a", "A", "b B", "É")
    assert level_meant("B  b", levels) == "b B"
    assert level_meant("e\u0301", levels) == "É"
    assert level_meant("A", levels) == "A"
    assert level_meant(" a ", levels) == "a"
    assert level_meant("Á", levels) is None
    assert level_meant("c", levels) is None
    assert level_meant(1, (1, 2)) == 1
    assert level_meant(True, (1, 2)) is None
    assert level_meant("1", (1, 2)) is None
    _, terms = parse("died ~ C(place, 'straße')", SCHEMA)
    assert terms.blocks[0].factors[0].reference == "Straße"
    with pytest.raises(dp.InputError, match="is not a level"):
        parse("died ~ C(place, 'LODZ')", SCHEMA)


BAD = {
    "another word": ('spelling = "any"', 'spelling = "loose"', 'line 5.*spelling is "any"'),
    "levels that are alike": (
        '["alive", "Dead"]',
        '["dead", "Dead"]',
        "line 4.*in case or white space alone",
    ),
    "numbers": ('["alive", "Dead"]', "[0, 1]", "line 5.*for levels that are text"),
    "a level missing": (
        '"Straße"]',
        '"Missing"]',
        'line 10.*a level "missing" or "level" is there',
    ),
    "a level level": ('"Straße"]', '"level"]', "line 10.*rename it"),
    "numbers and a level": (
        '["a", "A", "b"]',
        '[1, 2]\nmissing = "level"',
        "line 14.*write all levels as texts",
    ),
}


@pytest.mark.parametrize(("old", "new", "message"), BAD.values(), ids=BAD)
def test_bad_entries(old, new, message):
    with pytest.raises(dp.InputError, match=message):
        dp.Schema.parse(TEXT.replace(old, new, 1))


def test_a_missing_level_is_a_level_that_stands_for_what_is_missing():
    place = SCHEMA["place"]
    assert place.levels == ("Saint  Denis", "Łódź", "Straße", "missing")
    assert place.missing == "missing"
    assert column_of("place", entry_of(place)) == place
    by_hand = TEXT.replace('"Straße"]', '"Straße", "missing"]')
    by_hand = dp.Schema.parse(by_hand.replace('missing = "level"', 'missing = "missing"'))
    assert by_hand == SCHEMA
    assert by_hand.digest() == SCHEMA.digest()
