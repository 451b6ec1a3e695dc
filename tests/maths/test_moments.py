"""The geometry from a moment matrix: exact on clean input, and each formula against its definition."""

import numpy as np
import pytest

from dpinfer.maths.arrays import unsvec
from dpinfer.maths.moments import (
    Columns,
    centre_of,
    clean,
    deviations,
    preconditioner,
    radius_factor,
    raised,
    shrink,
    two_values,
    undispersed,
)

COLUMNS = Columns(np.array([False, False, False, True, True]), np.array([-1, 0, 1, 2, 2]))


def rows(n=4000, rare=0.1, seed=0):
    rng = np.random.default_rng(seed)
    numbers = np.clip(rng.standard_normal((n, 2)) / 4 + [0.2, -0.1], -1, 1)
    level = rng.choice(3, n, p=[0.9 - rare, rare, 0.1])
    return np.column_stack([np.ones(n), numbers, level == 1, level == 2]).astype(float)


def noise(scale, d, seed):
    return scale * unsvec(np.random.default_rng(seed).standard_normal(d * (d + 1) // 2), d)


def test_cleaning_is_exact_on_clean_input():
    M = rows().T @ rows()
    assert np.allclose(clean(M, COLUMNS, 4000), M, atol=1e-9)


def test_cleaning_repairs_what_is_known():
    exact = rows().T @ rows()
    M = clean(exact + noise(50.0, 5, 1), COLUMNS, 4000)
    assert M[0, 0] == 4000
    assert M[3, 4] == 0 == M[4, 3]
    assert M[3, 3] == M[0, 3] == M[3, 0]
    assert np.array_equal(M, M.T)
    plain = [abs((exact + noise(50.0, 5, s))[3, 3] - exact[3, 3]) for s in range(300)]
    cleaned = [abs(clean(exact + noise(50.0, 5, s), COLUMNS, 4000)[3, 3] - exact[3, 3]) for s in range(300)]
    assert np.mean(cleaned) == pytest.approx(np.mean(plain) / np.sqrt(3), rel=0.15)  # variances 1 : 1/2, so 1/3


def test_norm_counts_groups():
    assert COLUMNS.norm2 == 4  # the intercept, two numbers, one factor
    assert COLUMNS.take(np.array([0, 3, 4])).norm2 == 2
    assert (rows() ** 2).sum(axis=1).max() <= COLUMNS.norm2


def test_the_preconditioner_whitens_light_columns():
    """Without heavy columns A is the inverse root of M/n over R."""
    x, kappa = rows(rare=0.4), 8.0
    M = x.T @ x
    A = preconditioner(M, COLUMNS, len(x), kappa)
    assert np.allclose(A @ (M / len(x)) @ A.T * kappa * 5, np.eye(5), atol=1e-8)


def test_the_pseudo_variance_is_the_reach_over_the_radius():
    """A 1 % dummy: its variance is raised to (1 - m)²/(κ d), and its rows are hardly down-weighted."""
    x, kappa = rows(n=20_000, rare=0.01), 4.0
    M = x.T @ x / len(x)
    A = preconditioner(M * len(x), COLUMNS, len(x), kappa)
    gram = np.linalg.inv(A.T @ A) / (kappa * 5) - M
    m, low = M[0], np.array([1, -1, -1, 0, 0])
    reach = np.maximum(1 - m, m - low)  # from the mean to the farther end
    expected = np.maximum(0, reach**2 / (kappa * 5) - (np.diag(M) - m**2))
    assert expected[3] > 4 * (M[3, 3] - m[3] ** 2)
    assert np.allclose(gram, np.diag(expected), atol=1e-8)
    u = x[x[:, 3] == 1] @ A.T
    assert np.median((u**2).sum(axis=1)) < 1.2
    whitened = x[x[:, 3] == 1] @ np.linalg.inv(np.linalg.cholesky(M)).T / np.sqrt(kappa * 5)
    assert np.median((whitened**2).sum(axis=1)) > 4


def test_radius_factor_stays_in_its_limits():
    assert radius_factor(20, 100, (5.0, 10.0), 1.0) == 1
    assert radius_factor(20, 100, (5.0, 10.0), 2.0) == 2
    assert radius_factor(10, 100, (5.0, 10.0), 1.0) == 2  # 20/d
    assert radius_factor(10, 1e9, (5.0, 10.0), 1.0) == 8
    assert radius_factor(2, 100, (5.0, 10.0), 1.0) == 10
    assert 2 < radius_factor(10, 30_000, (1.2, 4.0), 1.0) < 8
    assert 1 < radius_factor(40, 100_000, (5.0, 8.0), 1.0) < 2  # the noise of the gradient decides


def test_shrinking_knows_its_noise():
    target, truth = np.eye(8) * 100, np.eye(8) * 100
    errors = []
    for seed in range(200):
        matrix, left = shrink(truth + noise(5.0, 8, seed), target, 5.0, 0.2)
        errors.append((np.linalg.norm(matrix - truth), left))
    assert np.mean([e for e, _ in errors]) < 0.4 * 5 * np.sqrt(36)
    far, left = shrink(truth + noise(5.0, 8, 0), np.zeros((8, 8)), 5.0, 0.2)
    assert np.linalg.norm(far - truth) < 1.1 * np.linalg.norm(noise(5.0, 8, 0))
    assert left == pytest.approx(5.0, rel=0.02)
    assert shrink(truth, truth, 0.0, 0.2)[1] == 0


def test_eigenvalues_are_moved_back_together():
    truth = np.diag(np.linspace(50, 60, 12))
    spread = lambda M: np.ptp(np.linalg.eigvalsh(M))  # noqa: E731
    noisy = [truth + noise(3.0, 12, seed) for seed in range(100)]
    before, after = np.mean([spread(M) for M in noisy]), np.mean([spread(undispersed(M, 3.0)) for M in noisy])
    assert before > 19
    assert 10 < after < before - 4
    assert np.allclose(undispersed(truth, 0.0), truth)


def test_raised():
    M = raised(np.diag([-3.0, 1.0]), 0.5)
    assert np.allclose(M, np.diag([0.5, 1.0]))


def test_a_long_tail_in_generous_bounds_is_not_taken_for_a_yes_and_no():
    moments = np.array([[1.0, -0.97, 0.4], [-0.97, 0.97**2 + 9e-4, -0.3], [0.4, -0.3, 1.0]]) * 1000
    columns = Columns(np.array([False, False, False]), np.array([-1, 0, 1]))
    ends = two_values(moments, columns)
    assert np.isnan(ends[1]).all()
    assert ends[2].tolist() == [-1.0, 1.0]
    assert deviations(moments) == pytest.approx([1.0, 0.03, np.sqrt(1 - 0.16)])
    assert centre_of(moments * np.array([1.0, 1.2, 1.0]), columns).tolist() == [1.0, -1.0, 0.4]


def test_a_stack_is_undispersed_matrix_by_matrix():
    stack = np.array([np.diag([5.0, 7.0, 9.0]) + noise(1.0, 3, seed) for seed in range(4)])
    assert np.allclose(undispersed(stack, 1.0), [undispersed(M, 1.0) for M in stack])
