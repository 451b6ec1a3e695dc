"""What may be read into a coefficient of a smaller model."""

import numpy as np
import pytest
from dpinfer.maths.reading import Model, partners, twins

from dpinfer.maths.moments import Columns

COLUMNS = Columns(np.array([False, False, False, True]), np.arange(4) - 1)


def model(cov=None, reported=(0, 1), silent=(), std_error=0.05, estimate=1.0):
    cov = np.diag([0.04, 0.04, 0.1]) if cov is None else cov
    M = np.zeros((4, 4))
    m = np.array([1.0, 0.1, -0.1, 0.3])
    M[1:, 1:] = cov
    some = np.array(reported)
    inside = np.sort(np.array([*reported, *silent]))
    values = np.full(len(some), estimate), np.full(len(some), std_error)
    return Model(M + np.outer(m, m), COLUMNS, some, *values, inside)


def names(found):
    return [some.tolist() for some in found]


def test_a_correlated_column_that_is_left_out_is_a_partner():
    cov = np.diag([0.04, 0.04, 0.1])
    cov[0, 1] = cov[1, 0] = 0.02
    # of the predictor half a deviation, .5/.2 = 2.5 for column 2: it moves column 1 by .02/.04 · 2.5
    assert names(partners(model(cov, estimate=0.0, std_error=1.2))) == [[], [2], [], []]
    assert names(partners(model(cov, estimate=0.0, std_error=1.3))) == [[], [], [], []]
    assert names(partners(model(cov, silent=(2,), estimate=0.0, std_error=0.5))) == [[], [], [], []]


def test_attenuation_needs_no_correlation():
    """A number has v = 1 and a dummy its variance: the coefficient shrinks by 1 - 1/sqrt(1 + .35 · 1.1)."""
    shrunk = 1 - 1 / np.sqrt(1 + 0.35 * 1.1)
    assert names(partners(model(std_error=0.99 * shrunk))) == [[2], [2], [], []]
    assert names(partners(model(std_error=1.01 * shrunk))) == [[], [], [], []]


def test_a_twin_does_not_attenuate_the_others():
    cov = np.diag([0.04, 0.04, 0.1])
    cov[0, 1] = cov[1, 0] = 0.0396
    found = partners(model(cov, reported=(0, 1, 3), std_error=0.05, estimate=0.5))
    assert names(found) == [[], [2], [], []]


def test_nothing_left_out_has_no_partners():
    whole = model(reported=(0, 1, 2, 3), std_error=1e-6)
    assert names(partners(whole)) == [[]] * 4
    assert twins(whole) == {}


@pytest.mark.parametrize(("correlation", "found"), [(0.95, {2: 1}), (-0.8, {2: 1}), (0.5, {})])
def test_twins(correlation, found):
    cov = np.diag([0.04, 0.04, 0.1])
    cov[0, 1] = cov[1, 0] = 0.04 * correlation
    assert twins(model(cov, reported=(0, 1, 3))) == found


def test_nothing_in_the_model_has_no_twins():
    assert twins(model(reported=(0,))) == {}
