"""Numbers for people."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.result import text


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
    assert {error: text.decimals_for(error) for error in errors} == errors
    assert text.interval(5.678, 5.682, 0.001) == "5.6780 to 5.6820"
    assert text.interval(-0.75, 0.004, 0.2) == "−0.750 to 0.004"  # its sign shows
    assert text.interval(-0.75, 0.0, 0.2) == "−0.75 to 0.00"


def test_p_values_for_people():
    written = {0.0: "< .001", 0.00099: "< .001", 0.001: ".001", 0.0312: ".031", 1.0: "1.000"}
    assert {value: text.p_value(value) for value in written} == written
    assert text.p_value(np.nan) == "–"


@pytest.mark.parametrize(
    ("draws", "shown"),
    [
        (100, "< .01"),
        (1_000, "< .001"),
        (2_000, "< .0005"),
        (9_999, "< .0002"),
        (10_000, "< .0001"),
    ],
)
def test_a_simulated_p_value_has_the_floor_of_its_draws(draws, shown):
    """No draw reached the statistic: the p-value is 1/(draws + 1), and what is printed lies above it."""
    floor = 1 / (draws + 1)
    assert text.p_value(floor, draws) == shown
    assert float(shown.removeprefix("< ")) > floor
    assert text.p_value(0.25, draws) == ".250"
    assert text.p_value(1e-9) == "< .001"


@given(st.text(max_size=60), st.integers(1, 30))
def test_no_letter_of_a_broken_name_is_lost(name, width):
    lines = text.broken(name, width)
    assert "".join(lines) == name
    assert all(len(line.rstrip()) <= width for line in lines)


def test_a_name_is_broken_where_its_parts_meet():
    lines = text.broken("hospital_admissions_last_year[two or more]", 20)
    assert lines == ["hospital_admissions_", "last_year[two or ", "more]"]
