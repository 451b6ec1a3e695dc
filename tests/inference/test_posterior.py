"""Moments from two noisy releases: right without noise, better than the release with it."""

import numpy as np
import pytest

from dpinfer.inference.moments import Columns, Crude, posterior, preconditioner, refined
from dpinfer.numerics.arrays import unsvec

COLUMNS = Columns(np.array([False, False, False, True, True]), np.array([-1, 0, 1, 2, 2]))
N = 4000


def rows(seed=0, constant=False):
    rng = np.random.default_rng(seed)
    numbers = np.clip(rng.standard_normal((N, 2)) / 4 + [0.2, -0.1], -1, 1)
    numbers[:, 1] = 0.3 if constant else 0.6 * numbers[:, 0] + 0.8 * numbers[:, 1]
    level = rng.choice(3, N, p=[0.6, 0.3, 0.1])
    return np.column_stack([np.ones(N), numbers, level == 1, level == 2]).astype(float)


def noise(scale, seed, d=5):
    return scale * unsvec(np.random.default_rng(seed).standard_normal(d * (d + 1) // 2), d)


def test_without_noise_the_release_is_kept():
    x = rows()
    assert np.allclose(posterior(x.T @ x, COLUMNS, N, 1e-6), x.T @ x, atol=1)


def test_levels_exclude_each_other_and_means_are_possible():
    x = rows()
    for seed in range(20):
        M = posterior(x.T @ x + noise(800.0, seed), COLUMNS, N, 800.0)
        m = M[0] / N
        assert M[0, 0] == pytest.approx(N)
        assert (m[3:] > 0).all()
        assert m[3:].sum() <= 0.99 + 1e-9
        assert np.linalg.eigvalsh(M)[0] > 0


def test_correlations_are_shrunk_towards_none():
    """With noise as large as they are, the posterior is nearer to the truth than the release."""
    x = rows()
    exact = x.T @ x / N
    errors = []
    for seed in range(60):
        noisy = x.T @ x + noise(300.0, seed)
        M = posterior(noisy, COLUMNS, N, 300.0)
        errors.append(
            [np.abs(noisy / N - exact)[1:, 1:].mean(), np.abs(M / N - exact)[1:, 1:].mean()]
        )
    released, known = np.mean(errors, axis=0)
    assert known < 0.75 * released


def second(x, y, scale, seed=0):
    M = posterior(x.T @ x, COLUMNS, N, 50.0)
    A = preconditioner(M, COLUMNS, N, 4.0)
    u = x @ A.T
    w = 1 / np.maximum(1, (u**2).sum(axis=1))
    shaken = noise(scale, seed), scale * np.random.default_rng(seed).standard_normal(5)
    released = (u * w[:, None]).T @ u + shaken[0], (w * y / 2) @ u + shaken[1]
    return refined(*released, scale, Crude(M, float(N), A), COLUMNS), w


def test_the_second_release_is_mapped_back():
    x = rows()
    y = np.where(np.random.default_rng(1).random(N) < 0.3, 1.0, -1.0)
    known, w = second(x, y, 1e-6)
    exact = (x * w[:, None]).T @ x
    assert np.allclose(known.score, (w * y / 2) @ x, atol=1e-3)
    assert np.allclose(known.matrix[1:, 1:], exact[1:, 1:], rtol=0.1, atol=0.03 * N)
    assert np.linalg.eigvalsh(known.definite).min() > 0


NUMBERS = Columns(np.zeros(9, dtype=bool), np.arange(-1, 8))


def unrelated(seed=0):
    numbers = np.random.default_rng(seed).uniform(-1, 1, (N, 8))
    return np.column_stack([np.ones(N), numbers])


def correlations(moments):
    mean = moments[0, 1:] / N
    covariance = moments[1:, 1:] / N - np.outer(mean, mean)
    sd = np.sqrt(np.diag(covariance))
    return (covariance / np.outer(sd, sd))[np.triu_indices(8, 1)]


def test_correlations_of_noise_are_not_believed():
    """Columns that are unrelated look related by the noise: little is left of that, and all of what
    noise cannot explain.
    """
    x = unrelated()
    size = np.sqrt(
        [
            np.mean(
                correlations(posterior(x.T @ x + noise(200.0, seed, 9), NUMBERS, N, 200.0)) ** 2
            )
            for seed in range(40)
        ]
    )
    released = 200.0 / N / np.sqrt(2) * 3  # of a correlation of uniform numbers, of variance 1/3
    assert size.mean() < 0.25 * released
    x[:, 2] = 0.6 * x[:, 1] + 0.4 * x[:, 2]
    strong = posterior(x.T @ x + noise(20.0, 0, 9), NUMBERS, N, 20.0)
    assert correlations(strong)[0] == pytest.approx(np.corrcoef(x[:, 1], x[:, 2])[0, 1], abs=0.03)


def in_geometry(scale, seed):
    """Eigenvalues of M in the geometry of its release, where they are all the same without noise."""
    x = unrelated()
    M = posterior(x.T @ x, NUMBERS, N, 1e-6)
    A = preconditioner(M, NUMBERS, N, 4.0)
    released = A @ (x.T @ x) @ A.T + noise(scale, seed, 9)
    # a guess that is far off, so that the release is believed
    guess = Crude(np.diag(np.diag(M) * np.linspace(1, 60, 9)), float(N), A)
    known = refined(released, np.zeros(9), scale, guess, NUMBERS)
    return np.linalg.eigvalsh(A @ known.matrix @ A.T)


def test_noise_drives_eigenvalues_less_apart():
    """Those of a matrix with noise are farther apart than its own, which is taken back in part."""
    known = np.mean([np.ptp(in_geometry(6.0, seed)) for seed in range(40)])
    released = np.mean([np.ptp(np.linalg.eigvalsh(noise(6.0, seed, 9))) for seed in range(40)])
    assert known < 0.85 * released


def test_no_direction_is_known_better_than_the_noise_allows():
    """The smallest eigenvalue in the geometry is at least a part of the norm of the noise that is
    left.
    """
    for seed in range(10):
        least = 0.15 * 300.0 * np.sqrt(2 * 9)
        assert in_geometry(300.0, seed)[0] >= least * (1 - 1e-9)
