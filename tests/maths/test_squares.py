"""Least squares through bounded sums: exact where nothing is clipped."""

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer.maths.squares import Stack, clipped_sums, crude_line
from dpinfer.maths.sums import Block
from dpinfer.neighbours import Neighbours

D, N = 4, 900


def data(seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(N), rng.uniform(-1, 1, (N, D - 1))])
    y = x @ np.array([0.1, 0.3, -0.2, 0.0]) + 0.1 * (1 + np.abs(x[:, 1])) * rng.standard_normal(N)
    return x, y


def step(x, y, line, clip):
    """From a line in u, exactly: the coefficients of (1, x) where it ends; no noise and no weights."""
    A = np.diag([0.3, 0.4, 0.2, 0.25])
    stack = Stack.of(Neighbours.REPLACE)
    released = clipped_sums(line, clip, stack).of_block(Block(x @ A.T, y))
    score, hessian, _ = stack.split(released, D, clip)
    return A.T @ (line + np.linalg.solve(hessian, score))


@pytest.mark.parametrize("seed", range(3))
def test_a_step_from_any_line_is_ordinary_least_squares(seed):
    x, y = data(seed)
    line = 5 * np.random.default_rng(seed).standard_normal(D)
    assert step(x, y, line, 1e3) == pytest.approx(sm.OLS(y, x).fit().params, abs=1e-8)


def test_a_clip_pulls_the_outcome_into_its_band():
    """The step from a line is least squares of the outcome within the band, which another clip of it agrees with."""
    x, y = data()
    line, clip = np.array([0.2, 1.0, 0.0, -0.5]), 0.05
    u = x * [0.3, 0.4, 0.2, 0.25]
    most = clip / np.linalg.norm(u, axis=1)
    inside = u @ line + np.clip(y - u @ line, -most, most)
    assert step(x, y, line, clip) == pytest.approx(sm.OLS(inside, x).fit().params, abs=1e-8)


def test_the_robust_curvature_counts_who_is_inside():
    x, y = data()
    u, stack = x * 0.3, Stack.of(Neighbours.REPLACE)
    most = 0.05 / np.linalg.norm(u, axis=1)
    released = clipped_sums(np.zeros(D), 0.05, stack, robust=True).of_block(Block(u, y))
    inside = u[np.abs(y) < most]
    assert stack.split(released, D, 0.05)[1] == pytest.approx(inside.T @ inside)


def test_a_crude_line_without_noise_is_near_least_squares_and_with_noise_near_nothing():
    rng = np.random.default_rng(0)
    z = np.column_stack([np.ones(20_000), rng.standard_normal((20_000, 3))])
    y = z @ np.array([0.1, 0.2, -0.1, 0.0]) + 0.2 * rng.standard_normal(20_000)
    line = crude_line(z.T @ z, z.T @ y, np.zeros((4, 4)), 20_000)
    assert line == pytest.approx([0.1, 0.2, -0.1, 0.0], abs=0.01)
    assert np.linalg.norm(crude_line(z.T @ z, z.T @ y, 1e10 * np.eye(4), 20_000)) < 0.1 * np.linalg.norm(line)
    wild = crude_line(np.diag([2e4, 1.0, -3e4, 2e4]), np.full(4, 2e3), np.zeros((4, 4)), 20_000)
    assert np.abs(wild).max() <= 0.51  # an eigenvalue that is noise is raised to a fifth of n
