"""Least squares through bounded sums: exact where nothing is clipped."""

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer.adjacency import Adjacency
from dpinfer.inference.newton import least_squares_pilot
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_sum, step_sums
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.links import FAMILIES, IDENTITY, LOG, LOGIT

D, N = 4, 900


def data(seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(N), rng.uniform(-1, 1, (N, D - 1))])
    y = x @ np.array([0.1, 0.3, -0.2, 0.0]) + 0.1 * (1 + np.abs(x[:, 1])) * rng.standard_normal(N)
    return x, y


A = np.diag([0.3, 0.4, 0.2, 0.25])
STACK = Stack.of(Adjacency.REPLACE)


def line_of(coef, family=IDENTITY, most=np.inf):
    return Linearization(family, A, np.asarray(coef, dtype=float), most, -np.ones(D), np.ones(D))


def step(x, y, coef, clip):
    """From a line, exactly: the coefficients where it ends; no noise and no weights."""
    released = step_sums(line_of(coef), clip, STACK, 1.0).of_block(Block(x, y))
    score, hessian, _ = STACK.split(released, D, clip)
    return coef + A.T @ np.linalg.solve(hessian, score)


@pytest.mark.parametrize("seed", range(3))
def test_a_step_from_any_line_is_ordinary_least_squares(seed):
    x, y = data(seed)
    line = 5 * np.random.default_rng(seed).standard_normal(D)
    assert step(x, y, line, 1e3) == pytest.approx(sm.OLS(y, x).fit().params, abs=1e-8)


def test_a_clip_pulls_the_outcome_into_its_band():
    """The step from a line is least squares of the outcome within the band, which another clip of
    it agrees with.
    """
    x, y = data()
    coef, clip = np.array([0.06, 0.4, 0.0, -0.1]), 0.05
    most = clip / np.linalg.norm(x @ A.T, axis=1)
    inside = x @ coef + np.clip(y - x @ coef, -most, most)
    assert step(x, y, coef, clip) == pytest.approx(sm.OLS(inside, x).fit().params, abs=1e-8)


def test_the_robust_curvature_counts_who_is_inside():
    x, y = data()
    u = x @ A.T
    most = 0.05 / np.linalg.norm(u, axis=1)
    released = step_sums(line_of(np.zeros(D)), 0.05, STACK, 1.0, robust=True).of_block(Block(x, y))
    inside = u[np.abs(y) < most]
    assert STACK.split(released, D, 0.05)[1] == pytest.approx(inside.T @ inside)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_derivatives_of_a_family(family):
    """Mean, slope and bends are those of the cumulant, by differences; what a step leaves is of
    second order.
    """
    eta = np.linspace(-4, 4, 33)
    h = 1e-4
    near = {"abs": 2e-6 * max(1.0, family.mean(eta).max())}
    mean = family.mean(eta)
    assert mean == pytest.approx(
        (family.cumulant(eta + h) - family.cumulant(eta - h)) / (2 * h), **near
    )

    def slope(at):
        return family.slope(family.mean(at))

    first, second = family.bends(mean)
    assert slope(eta) == pytest.approx(
        (family.mean(eta + h) - family.mean(eta - h)) / (2 * h), **near
    )
    assert first == pytest.approx((slope(eta + h) - slope(eta - h)) / (2 * h), **near)
    assert second == pytest.approx(
        (slope(eta + h) - 2 * slope(eta) + slope(eta - h)) / h**2, rel=1e-3, abs=1e-3
    )
    assert (np.abs(first) <= family.slope(mean) + 1e-12).all()
    left = family.left(eta, np.full(33, 1e-3))
    assert left == pytest.approx(first * 5e-7, rel=1e-2, abs=1e-9)


def test_a_step_of_counts_and_its_rest_lead_to_the_score_where_it_ends():
    """F(t + a) = g - H a - R, with an offset in the rows that has no part in the geometry."""
    rng = np.random.default_rng(3)
    x, _ = data()
    offset = rng.uniform(-1, 0, N)
    coef = np.array([-0.4, 1.0, -0.5, 0.2])
    way = np.array([0.3, 0.8, -0.6, 0.5])
    y = rng.poisson(np.exp(x @ coef + 2 * offset)).astype(float)
    matrix = np.column_stack([4 * A, np.zeros(D)])
    everywhere = np.ones(D + 1)
    line = Linearization(LOG, matrix, np.append(coef, 2.0), np.inf, -everywhere, everywhere)
    block = Block(np.column_stack([x, offset]), y)
    a = np.linalg.solve(4 * A.T, way)
    score, hessian, _ = STACK.split(step_sums(line, 1e3, STACK, 1.0).of_block(block), D, 1e3)
    rest = 1e3 * remainder_sum(line, a, 1e3, 1.0, Adjacency.REPLACE).of_block(block)
    at = line.linked(block, 1.0, Adjacency.REPLACE).block
    assert at.weights.min() < 0.9  # some count less
    means = np.exp(x @ (coef + way) + 2 * offset)
    there = ((y - means) * at.weights) @ (4 * x @ A.T)
    assert score - hessian @ a - rest == pytest.approx(there, abs=1e-9 * means.sum())
    # the column of the intercept of the curvature there is known too
    level = np.linalg.solve(4 * A.T, np.eye(D)[0])
    moved = (means * at.weights) @ (4 * x @ A.T)
    assert hessian @ (level + a) + rest == pytest.approx(moved, rel=1e-9)


def test_a_step_and_its_rest_lead_to_the_score_where_it_ends():
    """Σ w (y - h) u at the end is that at the line less H a less R, with the weights of the line:
    no sum is missed.
    """
    rng = np.random.default_rng(3)
    x, _ = data()
    labels = np.where(rng.random(N) < 0.4, 1.0, -1.0)
    coef, way = np.array([-0.4, 1.0, -0.5, 0.2]), np.array([0.3, 0.8, -0.6, 0.5])
    line = line_of(coef, LOGIT, 0.4)
    a = np.linalg.solve(A.T, way)
    block = Block(x, labels)
    score, hessian, _ = STACK.split(step_sums(line, 10.0, STACK, 1.0).of_block(block), D, 10.0)
    rest = 10.0 * remainder_sum(line, a, 10.0, 1.0, Adjacency.REPLACE).of_block(block)
    at = line.linked(block, 1.0, Adjacency.REPLACE).block
    assert at.weights.min() < 0.9  # some count less
    there = ((labels + 1) / 2 - 1 / (1 + np.exp(-x @ (coef + way)))) * at.weights @ (x @ A.T)
    assert score - hessian @ a - rest == pytest.approx(there, abs=1e-9)


def test_a_crude_line_without_noise_is_near_least_squares_and_with_noise_near_nothing():
    rng = np.random.default_rng(0)
    z = np.column_stack([np.ones(20_000), rng.standard_normal((20_000, 3))])
    y = z @ np.array([0.1, 0.2, -0.1, 0.0]) + 0.2 * rng.standard_normal(20_000)
    line = least_squares_pilot(z.T @ z, z.T @ y, np.zeros((4, 4)), 20_000)
    assert line == pytest.approx([0.1, 0.2, -0.1, 0.0], abs=0.01)
    assert np.linalg.norm(
        least_squares_pilot(z.T @ z, z.T @ y, 1e10 * np.eye(4), 20_000)
    ) < 0.1 * np.linalg.norm(line)
    wild = least_squares_pilot(
        np.diag([2e4, 1.0, -3e4, 2e4]), np.full(4, 2e3), np.zeros((4, 4)), 20_000
    )
    assert np.abs(wild).max() <= 0.51  # an eigenvalue that is noise is raised to a fifth of n
