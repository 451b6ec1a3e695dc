"""How the curvature of counts changes along a step: levels exactly, numbers as if Gaussian."""

import numpy as np
import pytest

from dpinfer.inference.moments import Columns
from dpinfer.inference.newton import tilted_hessian

_N = 200_000


def _information(x, coef):
    """sum μ x xᵀ at these coefficients."""
    return (x * np.exp(x @ coef)[:, None]).T @ x


def _of_a_factor():
    """Three levels beside a reference."""
    place = np.random.default_rng(1).choice(4, _N, p=[0.5, 0.3, 0.18, 0.02])
    x = np.column_stack([np.ones(_N), *(place == k for k in (1, 2, 3))]).astype(float)
    return x, Columns(np.array([False, True, True, True]), np.array([-1, 0, 0, 0]))


@pytest.mark.parametrize(
    "step", [[0.0, 0.4, -0.5, 0.9], [-0.3, 0.0, 0.0, 1.0], [0.5, -0.6, 0.2, -0.9]]
)
def test_shares_of_levels_are_exact(step):
    x, columns = _of_a_factor()
    start = np.array([-1.0, 0.2, -0.3, 0.4])
    found = tilted_hessian(_information(x, start), np.array(step), columns)
    exact = _information(x, start + step)
    assert found[0] == pytest.approx(exact[0], rel=1e-9)
    assert np.diag(found) == pytest.approx(np.diag(exact), rel=1e-9)
    # levels of one factor are never there together
    assert np.abs(found - exact).max() < 0.15 * exact.max()


@pytest.mark.parametrize("slopes", [[0.5, 0.0], [-0.4, 0.6]])
def test_numbers_are_gaussian(slopes):
    rng = np.random.default_rng(2)
    first = rng.normal(size=_N)
    x = np.column_stack([np.ones(_N), first, 0.6 * first + 0.8 * rng.normal(size=_N)])
    columns = Columns(np.zeros(3, dtype=bool), np.array([-1, 0, 1]))
    step = np.array([0.1, *slopes])
    found = tilted_hessian(_information(x, np.zeros(3)), step, columns)
    exact = _information(x, step)
    assert np.abs(found - exact).max() < 0.03 * exact.max()


def test_no_step_changes_nothing():
    x, columns = _of_a_factor()
    H = _information(x, np.zeros(4))
    assert tilted_hessian(H, np.zeros(4), columns) == pytest.approx(H)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_released_there_are_numbers(seed):
    """Noise alone, and steps of any length: finite, and no more than a bounded change of what all
    records count together.
    """
    rng = np.random.default_rng(seed)
    columns = Columns(np.array([False, False, True, True]), np.array([-1, 0, 1, 1]))
    noise = rng.normal(size=(4, 4)) * 10 ** rng.uniform(-3, 6)
    H = noise + noise.T
    found = tilted_hessian(H, rng.normal(size=4) * 10 ** rng.uniform(-2, 4), columns)
    assert np.isfinite(found).all()
    if H[0, 0] <= 0:
        assert found is H
    else:
        assert found[0, 0] > 0
