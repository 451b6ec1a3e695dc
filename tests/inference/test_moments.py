"""The geometry from a moment matrix: exact on clean input, and each formula against its definition."""

import numpy as np
import pytest

from dpinfer.inference.constants import FARTHEST_SDS
from dpinfer.inference.moments import (
    Columns,
    Scales,
    box_reach,
    centre_of,
    clean,
    column_sds,
    farthest,
    of_columns,
    preconditioner,
    radius_factor,
    raised,
    shrink,
    undispersed,
)
from dpinfer.numerics.arrays import unsvec

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
    cleaned = [
        abs(clean(exact + noise(50.0, 5, s), COLUMNS, 4000)[3, 3] - exact[3, 3]) for s in range(300)
    ]
    assert np.mean(cleaned) == pytest.approx(
        np.mean(plain) / np.sqrt(3), rel=0.15
    )  # variances 1 : 1/2, so 1/3


def test_norm_counts_groups():
    assert COLUMNS.norm2 == 4  # the intercept, two numbers, one factor
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


def test_the_radius_stays_in_its_limits():
    assert radius_factor(20, 1.0, 10.0) == 2
    assert radius_factor(4, 1.0, 10.0) == 6.25  # 25/d
    between = radius_factor(10, 30_000, 25.0)
    assert 2.5 < between < 10
    assert between == pytest.approx(0.5 * 30_000 / (4 * 10 * 25.0 * np.sqrt(20)))
    assert radius_factor(10, 60_000, 50.0) == pytest.approx(between)


def test_a_well_known_curvature_lets_in_more_and_is_known_better_still():
    """Beyond the most that is usual κ grows as the root of n over the noise, up to eight sds: more is
    let in, and the noise of the curvature, times κ, still falls.
    """
    for d, usual in ((4, 10.0), (1, 25.0)):  # 25/d is more than the largest of many columns
        known = [0.5 * n / (4 * d * 10.0 * np.sqrt(2 * d)) for n in (1e4, 1.05e4, 1e10)]
        found = [radius_factor(d, n, 10.0) for n in (1e4, 1.05e4, 1e10)]
        assert found[:2] == pytest.approx(np.sqrt(usual * np.array(known[:2])))
        assert (np.array(found) > usual).all()
        assert found[2] == FARTHEST_SDS**2
        assert (np.diff(np.array(found) / known) < 0).all()


def test_columns_have_a_shorter_radius_than_rows():
    """Three typical leverages, 12/d of few columns, and never more than rows have."""
    assert of_columns(8.0, 12) == 3
    assert of_columns(8.0, 2) == 6
    assert of_columns(2.0, 2) == 2
    assert of_columns(2.5, 12) == 2.5


def test_a_better_known_curvature_gives_a_larger_radius():
    """Down-weighted rows cost bias: noise alone may make the radius small."""
    found = [radius_factor(12, 30_000, noise) for noise in (1.0, 10.0, 100.0, 1e4)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]
    scales = Scales(1.0, 1.0, 1.0, 10.0, 1.0)
    assert scales.kappa(12, 30_000) == found[1]


def release_scaling(far=(1.0, 1.0, 6.0, 1.0, 1.0)):
    """Columns of which the third may be beyond its released range, by public bounds."""
    return Columns(COLUMNS.dummy, COLUMNS.group, far=np.array(far))


def test_the_farthest_record_is_at_an_end_of_the_box_or_of_the_public_bounds():
    x = rows()
    M = x.T @ x
    mean = M[0] / M[0, 0]
    box = [0, 1 + mean[1], 1 - mean[2], 1 - mean[3], 1 - mean[4]]
    assert box_reach(M, COLUMNS) == pytest.approx(box)
    assert farthest(M, COLUMNS) == pytest.approx(box)
    found = farthest(M, release_scaling())
    assert found[[0, 3, 4]] == pytest.approx(np.array(box)[[0, 3, 4]])
    assert found[2] == pytest.approx(6.0 + abs(mean[2]))
    for end in (-6.0, 6.0):
        assert abs(end - mean[2]) <= found[2] + 1e-12


def test_a_reach_scales_its_column_down_and_keeps_the_rows():
    """γ = Δ²/R²: a record at the far end of a long tail keeps its weight."""
    x = rows(n=20_000)
    M = x.T @ x
    kappa = 4.0
    far = np.array([1.0, 0.2, -6.0, 0.0, 0.0])
    long, short = (
        preconditioner(M, release_scaling(), len(x), kappa, r)
        for r in (farthest(M, release_scaling()), None)
    )
    assert np.linalg.norm(long @ far) < 1.1
    assert np.linalg.norm(short @ far) > 3


def test_shrinking_knows_its_noise():
    target, truth = np.eye(8) * 100, np.eye(8) * 100
    errors = []
    for seed in range(200):
        matrix, left = shrink(truth + noise(5.0, 8, seed), target, 5.0)
        errors.append((np.linalg.norm(matrix - truth), left))
    assert np.mean([e for e, _ in errors]) < 0.4 * 5 * np.sqrt(36)
    far, left = shrink(truth + noise(5.0, 8, 0), np.zeros((8, 8)), 5.0)
    assert np.linalg.norm(far - truth) < 1.1 * np.linalg.norm(noise(5.0, 8, 0))
    assert left == pytest.approx(5.0, rel=0.02)
    assert shrink(truth, truth, 0.0)[1] == 0


def test_eigenvalues_are_moved_back_together():
    truth = np.diag(np.linspace(50, 60, 12))
    spread = lambda M: np.ptp(np.linalg.eigvalsh(M))  # noqa: E731
    noisy = [truth + noise(3.0, 12, seed) for seed in range(100)]
    before, after = (
        np.mean([spread(M) for M in noisy]),
        np.mean([spread(undispersed(M, 3.0)) for M in noisy]),
    )
    assert before > 19
    assert 10 < after < before - 4
    assert np.allclose(undispersed(truth, 0.0), truth)


def test_raised():
    M = raised(np.diag([-3.0, 1.0]), 0.5)
    assert np.allclose(M, np.diag([0.5, 1.0]))


def test_deviations_and_centres():
    moments = np.array([[1.0, -0.97, 0.4], [-0.97, 0.97**2 + 9e-4, -0.3], [0.4, -0.3, 1.0]]) * 1000
    columns = Columns(np.array([False, False, False]), np.array([-1, 0, 1]))
    assert column_sds(moments) == pytest.approx([1.0, 0.03, np.sqrt(1 - 0.16)])
    assert centre_of(moments * np.array([1.0, 1.2, 1.0]), columns).tolist() == [1.0, -1.0, 0.4]


def test_a_stack_is_undispersed_matrix_by_matrix():
    stack = np.array([np.diag([5.0, 7.0, 9.0]) + noise(1.0, 3, seed) for seed in range(4)])
    assert np.allclose(undispersed(stack, 1.0), [undispersed(M, 1.0) for M in stack])
