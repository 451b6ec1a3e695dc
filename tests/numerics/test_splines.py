"""Splines: those of formulaic, ranges that hold every value, and functions that a fit can tell
apart.
"""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from formulaic.transforms import basis_spline
from formulaic.transforms.cubic_spline import natural_cubic_spline
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.numerics.splines import (
    b_splines,
    distinct,
    natural_splines,
    powers,
    uncorrelated_basis,
)
from helpers.searches import examples

KNOTS = (17.0, 30.0, 50.0, 71.5, 90.0)
X = np.concatenate([np.random.default_rng(0).uniform(17, 90, 2000), KNOTS])


def values(basis, x):
    return np.column_stack([column.values(x) for column in basis])


def theirs(found):
    return np.column_stack([found[key] for key in sorted(found)])


def test_natural_splines_are_those_of_formulaic():
    found = natural_cubic_spline(X, knots=KNOTS[1:-1], lower_bound=17, upper_bound=90)
    assert np.abs(values(natural_splines(*KNOTS), X) - theirs(found)).max() < 1e-12


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_b_splines_are_those_of_formulaic(degree):
    found = basis_spline(
        X,
        knots=KNOTS[1:-1],
        degree=degree,
        lower_bound=17,
        upper_bound=90,
        include_intercept=True,
    )
    assert np.abs(values(b_splines(degree, *KNOTS), X) - theirs(found)).max() < 1e-12


@pytest.mark.parametrize("basis", [natural_splines(*KNOTS), b_splines(3, *KNOTS)])
def test_a_basis_adds_up_to_one_and_holds_lines(basis):
    x = np.linspace(17, 90, 501)
    columns = values(basis, x)
    assert columns.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    line = columns @ np.linalg.lstsq(columns, x, rcond=None)[0]
    assert line == pytest.approx(x, abs=1e-9)
    square = columns[:, :3] @ np.linalg.lstsq(columns[:, :3], x, rcond=None)[0]
    assert np.abs(square - x).max() > 1  # not so without some of the columns


def test_natural_splines_are_1_at_their_knot_and_lines_beyond_the_ends():
    at_knots = values(natural_splines(*KNOTS), np.array(KNOTS))
    assert at_knots == pytest.approx(np.eye(5), abs=1e-14)
    for column in natural_splines(*KNOTS):
        for start, step in ((90.0, 10.0), (17.0, -10.0)):
            bends = np.diff(column.values(start + step * np.arange(4)), 2)
            assert bends == pytest.approx(0.0, abs=1e-12)
            into = column.values(np.array([start - 1e-6 * step, start, start + 1e-6 * step]))
            assert np.diff(into)[0] == pytest.approx(np.diff(into)[1], abs=1e-9)  # no kink


def test_b_splines_are_flat_beyond_the_ends():
    columns = b_splines(3, *KNOTS)
    assert values(columns, np.array([0.0, 16.0])) == pytest.approx(
        np.repeat(values(columns, np.array([17.0])), 2, axis=0)
    )
    assert values(columns, np.array([95.0])) == pytest.approx(np.eye(7)[[6]])


def test_powers():
    x = np.array([40.0, 50.0, 53.0])
    assert values(powers(50.0, 3), x).tolist() == [[-10, 100, -1000], [0, 0, 0], [3, 9, 27]]


knots = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=8, unique=True).map(sorted)


@given(knots, st.integers(0, 3), st.data())
@examples(20)
def test_guarantee_ranges_of_curves(at, kind, data):
    """Every float between two numbers has its value in the range; a range that is a thousandth
    narrower on either side would leave one out.
    """
    if min(np.diff(at)) < 1e-6:
        return
    basis = natural_splines(*at) if kind == 0 else b_splines(kind, *at)
    column = basis[data.draw(st.integers(0, len(basis) - 1))]
    low, high = sorted(data.draw(st.lists(st.floats(-2e3, 2e3), min_size=2, max_size=2)))
    x = np.concatenate([np.linspace(low, high, 4001), np.clip(at, low, high)])
    found = column.values(x)
    least, most = column.range(low, high)
    assert least <= found.min()
    assert found.max() <= most
    size = max(1e-9, np.abs(found).max())
    dense = np.concatenate([np.linspace(a, b, 400) for a, b in pairwise(at)])
    found = column.values(np.concatenate([x, np.clip(dense, low, high)]))
    assert least >= found.min() - 1e-3 * size
    assert most <= found.max() + 1e-3 * size


@given(st.floats(-100, 100), st.integers(1, 9), st.floats(-100, 0), st.floats(0, 100))
@examples(20)
def test_ranges_of_powers_hold_every_value(centre, degree, low, high):
    column = powers(centre, degree)[-1]
    found = column.values(np.linspace(low, high, 2001))
    least, most = column.range(low, high)
    assert least <= found.min()
    assert found.max() <= most
    assert most - least <= found.max() - found.min() + 1e-2 * np.abs(found).max()


@pytest.mark.parametrize("basis", [natural_splines(*KNOTS), b_splines(3, *KNOTS), powers(50.0, 4)])
def test_no_float_raises_or_warns(basis):
    odd = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 50.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = values(basis, odd)
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[-1]).all()


@pytest.mark.parametrize(
    "at", [(0.0, 1e-140, 2e-140), (-1e149, 0.0, 1e149), (0.0, 30.0, 50.0, 1e14)]
)
def test_knots_of_any_size_have_finite_ranges(at):
    for column in (*natural_splines(*at), *b_splines(3, *at)):
        assert np.isfinite(column.range(at[0], at[-1])).all()


@pytest.mark.parametrize("kind", ["ns", "bs"])
def test_evened_functions_are_uncorrelated_between_the_knots(kind):
    """As many records between any two knots; they span what the columns span, and are at most 1 as
    far as the bounds.
    """
    basis = natural_splines(*KNOTS) if kind == "ns" else b_splines(3, *KNOTS)
    basis = basis[1:]
    matrix = uncorrelated_basis(basis, KNOTS, 0.0, 100.0)
    x = np.concatenate([np.linspace(a, b, 2001) for a, b in pairwise(KNOTS)])
    functions = np.column_stack([np.ones(len(x)), values(basis, x)]) @ matrix.T
    correlation = np.corrcoef(functions.T)
    assert np.abs(correlation - np.eye(len(basis))).max() < 0.01
    assert np.abs(np.corrcoef(values(basis, x).T) - np.eye(len(basis))).max() > 0.3
    assert np.linalg.cond(matrix[:, 1:]) < 1e3
    wide = np.linspace(0.0, 100.0, 5001)
    functions = np.column_stack([np.ones(len(wide)), values(basis, wide)]) @ matrix.T
    assert np.abs(functions).max(axis=0) == pytest.approx(0.99, abs=0.01)


def test_names_of_knots_tell_them_apart():
    assert distinct([17.0, 30.5, 1e6]) == ["17", "30.5", "1e+06"]
    assert distinct([100000.1, 100000.2]) == ["100000.1", "100000.2"]
    near = [1.0, float(np.nextafter(1.0, 2.0))]
    assert len(set(distinct(near))) == 2
