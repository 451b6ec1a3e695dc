import numpy as np
import pytest
from scipy.special import expit

from dpinfer.maths.entering import LARGEST_SPREAD, brillinger

COEF = np.array([-0.8, 3.0, -1.5, 0.0])


def data(n=200_000, coef=COEF):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, 3)) * 0.3 + [0.1, -0.2, 0.0]])
    return x, np.where(rng.random(n) < expit(x @ coef), 1.0, -1.0)


def guess(x, y, floor=1e-4):
    return brillinger(x.T @ x, x.T @ y / 2, len(x), floor)


def test_gaussian_columns_give_the_coefficients():
    assert guess(*data()) == pytest.approx(COEF, abs=0.06)


def test_a_floor_shrinks_the_guess():
    x, y = data()
    assert np.linalg.norm(guess(x, y, 0.2)[1:]) < 0.8 * np.linalg.norm(COEF[1:])


@pytest.mark.parametrize("label", [1.0, -1.0])
def test_one_class_gives_a_finite_guess(label):
    x, y = data(2000)
    coef = guess(x, label * np.abs(y))
    assert np.isfinite(coef).all()
    assert np.sign(coef[0]) == label


def test_the_spread_is_capped():
    x, y = data(20_000, 100 * COEF)
    coef = guess(x, y)
    assert np.std(x @ coef) <= LARGEST_SPREAD * 1.1


def test_pure_noise_does_not_explode():
    rng = np.random.default_rng(1)
    for _ in range(20):
        E = rng.standard_normal((4, 4)) * 100
        coef = brillinger(E + E.T, rng.standard_normal(4) * 100, 200.0, 0.5)
        assert np.isfinite(coef).all()
