"""Numbers for people, and the one function that makes plain-text tables."""

import numpy as np
import pytest

from dpinfer.result import text
from dpinfer.result.statements import OPEN, REPORTED


@pytest.mark.parametrize(
    ("value", "decimals", "written"),
    [
        (1234.5678, 1, "1,234.6"),
        (-0.5, 2, "−0.50"),
        (-0.0001, 2, "0.00"),
        (np.nan, 2, "–"),
        (np.inf, 2, "–"),
        (1.25e-12, 14, "1.25e−12"),
        (-3e12, 0, "−3e+12"),
    ],
)
def test_numbers_for_people(value, decimals, written):
    assert text.number(value, decimals) == written


def test_decimals_follow_the_standard_error():
    errors = {0.0123: 3, 0.99: 2, 1.0: 1, 25.0: 0, 300.0: 0, 0.0: 3, np.inf: 3}
    assert {error: text.places(error) for error in errors} == errors
    sharp = {"low": 5.678, "high": 5.682, "std_error": 0.001, "status": REPORTED}
    assert text.interval(sharp) == "5.6780 to 5.6820"
    wide = sharp | {"low": -0.75, "std_error": 0.2}
    assert text.interval(wide | {"high": 0.004}) == "−0.750 to 0.004"  # its sign shows
    assert text.interval(wide | {"high": 0.0}) == "−0.75 to 0.00"


def test_p_values_for_people():
    written = {0.0: "< .001", 0.00099: "< .001", 0.001: ".001", 0.0312: ".031", 1.0: "1.000"}
    assert {value: text.p_value(value) for value in written} == written
    assert text.p_value(np.nan) == "–"


def test_a_table_is_as_wide_as_its_cells():
    shown = text.table(["first", "second"], [("a", ["1", "2"]), ("b", ["3", "4" * 15])])
    rule, head, thin, *lines, last = shown.splitlines()
    assert (set(rule), set(thin), last) == ({"="}, {"-"}, rule)
    assert {len(line) for line in (head, *lines)} == {20 + 11 + 16}
    assert head.endswith("first" + "second".rjust(16))
    assert lines[0].split() == ["a", "1", "2"]
    far = text.table(["first"], [("a", ["1" * 30])], narrowest=10, gap=2).splitlines()
    assert far[2] == "-" * 86
    assert far[3] == f"{'a':<20}{'1' * 30:>32}"


def test_words_in_the_place_of_cells_take_lines_of_their_own():
    long = "n" * 40
    shown = text.table(["first"], [(long, OPEN), ("b", ["1"])]).splitlines()[3:-1]
    assert " ".join(" ".join(shown[:-1]).split()) == f"{long} {OPEN}"
    assert len(shown) == 3
    assert shown[1].startswith(" " * 43)
    assert shown[-1] == f"{'b':<41}{'1':>11}"


def test_a_table_obeys_no_name_and_no_status():
    shown = text.table(["first"], [("a\x1b[2J", ["1"]), ("b\n", "open\u202e: x")])
    assert "\\x1b[2J" in shown
    assert "b\\x0a" in shown
    assert "\\u202e" in shown
    assert not set("\x1b\u202e") & set(shown)
    assert len(shown.splitlines()) == 6
