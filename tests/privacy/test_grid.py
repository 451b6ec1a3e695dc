"""Sums on a grid of a power of two: nothing is rounded but what must be."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpinfer.errors import InputError
from dpinfer.privacy.noise import from_grid, to_grid
from dpinfer.privacy.release import grid

POWERS = st.integers(-1074, 1023).map(lambda k: math.ldexp(1.0, k))
SMALLEST_BOUND = 2.0**-1062  # its grid for one coordinate is the smallest double


@given(st.floats(SMALLEST_BOUND, allow_infinity=False), st.integers(1, 10**6))
@example(SMALLEST_BOUND, 1)
@example(1.0, 4)
@example(math.nextafter(1.0, 0), 1)
@example(math.nextafter(2.0, 0), 4)
@example(1.7976931348623157e308, 1)
@example(3.0, 9 << 24)
def test_the_grid_is_the_largest_power_that_is_small_enough(bound, m):
    allowed = Fraction(bound) ** 2 / (m << 24)
    if allowed < Fraction(1, 4**1074):
        with pytest.raises(InputError, match="too small"):
            grid(bound, m)
        return
    step = grid(bound, m)
    assert math.frexp(step)[0] == 0.5
    assert Fraction(step) ** 2 <= allowed < Fraction(2 * Fraction(step)) ** 2


def test_known_grids():
    assert grid(1.0, 1) == 2.0**-12
    assert grid(1.0, 2) == 2.0**-13
    assert grid(1.0, 4) == 2.0**-13
    assert grid(math.nextafter(1.0, 0), 4) == 2.0**-14
    assert grid(SMALLEST_BOUND, 1) == 5e-324


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_a_grid_needs_a_bound(bound):
    with pytest.raises(InputError, match="positive finite bound"):
        grid(bound, 3)


@pytest.mark.parametrize(
    ("bound", "m"), [(5e-324, 1), (math.nextafter(SMALLEST_BOUND, 0), 1), (SMALLEST_BOUND, 2)]
)
def test_no_double_is_small_enough(bound, m):
    with pytest.raises(InputError, match="too small"):
        grid(bound, m)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5), POWERS)
@example([0.5, 1.5, -2.5, 0.0, -0.0], 1.0)
@example([5e-324, -5e-324, 1e-310, 7.5e-324], 5e-324)
@example([2.0**61, 2.0**62, 2.0**63, -1.7e308], 1.0)
@example([1.7e308, -1.7e308], 5e-324)
@example([1.7e308, 2.0**1022], 2.0**1023)
def test_values_are_rounded_half_to_even(values, step):
    rounded = to_grid(np.array(values), step)
    assert rounded.dtype == np.int64
    for value, integer in zip(values, rounded.tolist(), strict=True):
        assert integer == min(max(round(Fraction(value) / Fraction(step)), -(2**62)), 2**62)


def test_what_is_not_finite_is_zero():
    assert to_grid(np.array([[np.nan, np.inf], [-np.inf, 3.0]]), 2.0).tolist() == [[0, 0], [0, 2]]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5), st.integers(-1074, 960))
@example([2**53 - 1, 2**53 + 1, 2**54 + 2, 2**62 + 1, 1], -1074)
def test_back_from_the_grid(integers, exponent):
    step = math.ldexp(1.0, exponent)
    values = from_grid(np.array(integers), step)
    for integer, value in zip(integers, values.tolist(), strict=True):
        exact = Fraction(integer) * Fraction(step)
        assert value == float(exact)  # of a fraction it is correctly rounded
        assert abs(integer) > 2**53 or Fraction(value) == exact


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=5), st.integers(-1074, 960))
def test_there_and_back(integers, exponent):
    step = math.ldexp(1.0, exponent)
    assert to_grid(from_grid(np.array(integers), step), step).tolist() == integers


def test_beyond_all_doubles():
    assert from_grid(np.array([2, -2]), 2.0**1023).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("step", [0.0, -1.0, 3.0, 0.1, math.inf, math.nan])
def test_a_step_is_a_power_of_two(step):
    for change in (
        lambda: to_grid(np.ones(1), step),
        lambda: from_grid(np.ones(1, dtype=np.int64), step),
    ):
        with pytest.raises(InputError, match="power of two"):
            change()
