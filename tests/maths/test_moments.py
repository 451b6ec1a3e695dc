"""The geometry from a moment matrix: exact on clean input, and each formula against its definition."""

import numpy as np
import pytest
from scipy.special import expit

from dpinfer.maths.arrays import unsvec
from dpinfer.maths.moments import (
    Columns,
    Moments,
    clean,
    gaussian_curvature,
    identifiable,
    preconditioner,
    radius_factor,
    raised,
    shrink,
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


def test_the_pseudo_variance_is_the_reach_over_three_quarters_of_the_radius():
    """A 1 % dummy: its variance is raised to (1 - m)²/(.75 κ d), and its rows are not down-weighted."""
    x, kappa = rows(n=20_000, rare=0.01), 4.0
    M = x.T @ x / len(x)
    A = preconditioner(M * len(x), COLUMNS, len(x), kappa)
    gram = np.linalg.inv(A.T @ A) / (kappa * 5) - M
    m, low = M[0], np.array([1, -1, -1, 0, 0])
    reach = np.maximum(1 - m, m - low)  # from the mean to the farther end
    expected = np.maximum(0, reach**2 / (0.75 * kappa * 5) - (np.diag(M) - m**2))
    assert expected[3] > 5 * (M[3, 3] - m[3] ** 2)
    assert np.allclose(gram, np.diag(expected), atol=1e-8)
    u = x[x[:, 3] == 1] @ A.T
    assert np.median((u**2).sum(axis=1)) < 1
    whitened = x[x[:, 3] == 1] @ np.linalg.inv(np.linalg.cholesky(M)).T / np.sqrt(kappa * 5)
    assert np.median((whitened**2).sum(axis=1)) > 4


def test_radius_factor_stays_in_its_limits():
    assert radius_factor(10, 100, 5.0, 10.0) == 2
    assert radius_factor(10, 1e9, 5.0, 10.0) == 8
    assert radius_factor(2, 100, 5.0, 10.0) == 10
    assert 2 < radius_factor(10, 30_000, 1.2, 4.0) < 8


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


def test_gaussian_curvature_against_draws():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(400_000), rng.multivariate_normal([0.2, -0.5], [[0.3, 0.1], [0.1, 0.2]], 400_000)])
    coef = np.array([-0.7, 2.0, -1.0])
    p = expit(x @ coef)
    exact = (x * (p * (1 - p))[:, None]).T @ x
    assert np.allclose(gaussian_curvature(x.T @ x, coef), exact, rtol=0.03, atol=0.002 * len(x))


def test_raised():
    M = raised(np.diag([-3.0, 1.0]), 0.5)
    assert np.allclose(M, np.diag([0.5, 1.0]))


def kept(x, curvature_noise=0.5, scale=1.0):
    columns = Columns(np.zeros(x.shape[1], dtype=bool), np.arange(x.shape[1]) - 1)
    M, n = x.T @ x, len(x)
    moments = Moments(M, n, scale, np.eye(x.shape[1]) * 20)
    geometry = lambda c: preconditioner(moments.of(c), columns.take(c), n, 4.0)  # noqa: E731
    return identifiable(moments, geometry, curvature_noise).tolist()


def test_a_column_without_information_does_not_enter_the_fit():
    x = rows()[:, :3]
    assert kept(x) == [0, 1, 2]
    assert kept(np.column_stack([x, np.full(len(x), 0.3)])) == [0, 1, 2]
    twice = kept(np.column_stack([x, x[:, 1]]))
    assert twice in ([0, 1, 2], [0, 2, 3])
    assert kept(x, curvature_noise=50.0) in ([0, 1], [0, 2])  # two columns are always tried
