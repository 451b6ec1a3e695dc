"""The law of the curvature: the release where it is precise, the guess where it is not, and honest
in between.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpinfer.inference.hessian import (
    HessianPosterior,
    HessianPrior,
    hessian_posterior,
    hessian_prior,
    released_moments,
    twice_log_likelihood,
    within_factors,
)
from dpinfer.inference.moments import Moments
from dpinfer.numerics.arrays import unsvec
from dpinfer.numerics.links import IDENTITY, LOGIT
from helpers.handmade import QUIET, columns_of, mixed, to_centre

D = 6
NUMBERS = columns_of([False] * (D - 1))


def symmetric(scale, d, rng):
    """Noise of the kind that releases have: this deviation on the diagonal, less by sqrt 2 beside
    it.
    """
    return scale * unsvec(rng.standard_normal(d * (d + 1) // 2), d)


def handmade_guess(rng, size=60.0, d=D):
    root = rng.standard_normal((d, 4 * d))
    S = size * root @ root.T / (4 * d)
    nothing = np.zeros(d)
    free = np.zeros(d, dtype=bool)
    return HessianPrior(nothing, S, nothing, np.full(d, np.inf), free)


def quiet_moments(d=D):
    return Moments(np.eye(d), np.zeros(d), 1.0, np.eye(d), np.eye(d), 1e-12)


def known(released, noise, S, d=D):
    return hessian_posterior(released, noise, S, np.eye(d), quiet_moments(d))


def whole(found):
    """H in u again."""
    return found.basis @ found.matrix @ found.basis.T


def test_without_noise_the_release_is_believed():
    rng = np.random.default_rng(0)
    S = handmade_guess(rng)
    H = handmade_guess(rng).matrix
    found = known(H, 1e-6, S)
    assert whole(found) == pytest.approx(H, abs=1e-6)
    assert found.entry_sd.max() < 2e-6


def test_with_endless_noise_the_guess_is_believed():
    """What is left unsure is what the guess is off by, and no more."""
    rng = np.random.default_rng(1)
    S = handmade_guess(rng)
    found = known(S.matrix + symmetric(1e6, D, rng), 1e6, S)
    assert whole(found) == pytest.approx(S.matrix, abs=0.1 * np.diag(S.matrix).max())
    assert (found.entry_sd < 0.7 * np.diag(S.matrix).max()).all()


def test_in_between_it_is_between():
    rng = np.random.default_rng(2)
    S = handmade_guess(rng)
    H = S.matrix + symmetric(8.0, D, rng)
    for noise in (1.0, 10.0, 100.0):
        found = known(H, noise, S)
        part = np.linalg.norm(whole(found) - S.matrix) / np.linalg.norm(H - S.matrix)
        assert 0 < part < 1
    assert (found.entry_sd <= noise).all()


def errors(part, noise, rng):
    """H drawn around its guess, then released with noise: how far its entries are off, in
    deviations that are left.
    """
    S = handmade_guess(rng, size=100.0)
    root = np.linalg.cholesky(part * S.matrix)
    H = S.matrix + root @ symmetric(1.0, D, rng) @ root.T
    found = known(H + symmetric(noise, D, rng), noise, S)
    off = found.basis.T @ H @ found.basis - found.matrix
    return (off / found.entry_sd)[np.triu_indices(D)]


@pytest.mark.parametrize("part", [0.02, 0.05, 0.15])
@pytest.mark.parametrize("noise", [2.0, 8.0, 40.0])
def test_the_law_is_exact_where_it_is_known_how_far_the_guess_is_off(part, noise, monkeypatch):
    """Entry by entry, whatever the noise: the part is told, and no direction is without
    information.
    """
    monkeypatch.setattr("dpinfer.inference.hessian._PARTS", [part])
    rng = np.random.default_rng([3, int(100 * part), int(noise)])
    z = [errors(part, noise, rng) for _ in range(150)]
    assert 0.9 < np.mean(np.square(z)) < 1.1
    assert abs(np.mean(z)) < 0.06


@pytest.mark.parametrize(("part", "noise"), [(0.05, 1.0), (0.1, 2.0), (0.2, 2.0), (0.2, 4.0)])
def test_the_release_shows_how_far_the_guess_is_off(part, noise):
    """The part is not told but found, where noise does not hide it."""
    rng = np.random.default_rng([4, int(100 * part), int(noise)])
    z = [errors(part, noise, rng) for _ in range(150)]
    assert 0.9 < np.mean(np.square(z)) < 1.35


def test_the_likelihood_is_that_of_independent_normal_entries():
    """Beside the diagonal an entry has half the variance, and counts once though it stands there
    twice.
    """
    rng = np.random.default_rng(9)
    gap = symmetric(3.0, 4, rng)
    first, second = (np.abs(symmetric(4.0, 4, rng)) + 1 for _ in range(2))

    def exact(variance):
        own = variance * np.where(np.eye(4) > 0, 1.0, 0.5)
        return 2 * stats.norm.logpdf(gap, scale=np.sqrt(own))[np.triu_indices(4)].sum()

    assert twice_log_likelihood(gap, first) - twice_log_likelihood(gap, second) == pytest.approx(
        exact(first) - exact(second)
    )


def test_what_is_unsure_times_a_vector_has_the_stated_covariance():
    """Entries of a symmetric matrix with independent errors, against draws."""
    rng = np.random.default_rng(4)
    left = np.abs(symmetric(1.0, 4, rng)) + 0.2
    law = HessianPosterior(np.eye(4), np.eye(4), left, np.zeros(4))
    delta = np.array([1.0, -2.0, 0.5, 3.0])
    upper = np.triu(rng.standard_normal((40_000, 4, 4)))
    errors = (upper + np.triu(upper, 1).mT) * left
    drawn = errors @ delta
    assert law.moved(np.outer(delta, delta)) == pytest.approx(np.cov(drawn.T), rel=0.05, abs=0.1)


def exact_seen(data, noise=QUIET):
    fit = data.fit(np.zeros(data.x.shape[1]))
    H = released_moments(fit.last.hessian, np.linalg.inv(data.matrix).T, data.columns, noise)
    return (
        H,
        released_moments(fit.moments.released, fit.moments.back.T, data.columns, noise),
        fit,
    )


@pytest.mark.parametrize("logit", [True, False])
def test_a_clean_release_is_seen_as_it_is(logit):
    data = mixed(logit=logit)
    H, M, _ = exact_seen(data)
    weight = 0.25 if logit else 1.0  # the curvature at 0
    mean = data.x.mean(axis=0)
    covariance = np.cov(data.x.T, bias=True) * weight * len(data.x)
    assert H.first == pytest.approx(weight * len(data.x))
    assert H.mean[1:] == pytest.approx(mean[1:], abs=1e-6)
    assert H.variance[1:] == pytest.approx(np.diag(covariance)[1:], rel=1e-5)
    assert H.raw[1:, 1:] == pytest.approx(covariance[1:, 1:], abs=1e-3)
    assert M.mean[1:] == pytest.approx(mean[1:], abs=1e-6)


def test_the_deviations_of_what_is_seen_are_those_of_draws():
    """The sums of a number and of a level, and entries about the mean."""
    data = mixed()
    fit = data.fit(np.zeros(5))
    back = np.linalg.inv(data.matrix).T
    rng = np.random.default_rng(5)
    noise = 2.0
    drawn = [
        released_moments(fit.last.hessian + symmetric(noise, 5, rng), back, data.columns, noise)
        for _ in range(1500)
    ]
    first = np.array([one.first for one in drawn])
    total = np.array([one.mean * one.first for one in drawn])
    assert first.std() == pytest.approx(drawn[0].first_sd, rel=0.1)
    assert total.std(axis=0)[1:] == pytest.approx(drawn[0].sum_sd[1:], rel=0.1)
    entries = np.array([one.raw[1, 2] for one in drawn])
    assert entries.std() == pytest.approx(drawn[0].entry_sd[1, 2], rel=0.15)


def test_levels_of_a_factor_leave_some_for_their_reference():
    columns = columns_of([True, True, False, True], [0, 0, 1, 2])
    mean = within_factors(np.array([0.0, 0.9, 0.6, 0.8, 0.7]), columns)
    assert mean[1:3].sum() == pytest.approx(0.99)
    assert mean[1] / mean[2] == pytest.approx(1.5)
    assert mean[3:].tolist() == [0.8, 0.7]


@pytest.mark.parametrize("logit", [True, False])
@pytest.mark.parametrize("noise", [QUIET, 20.0])
def test_levels_exclude_each_other(logit, noise):
    """No record has two of them: about the mean that is minus the product of the means, whatever
    noise says.
    """
    data = mixed(logit=logit)
    fit = data.fit(np.zeros(5), noise=noise)
    rng = np.random.default_rng(6)
    back = np.linalg.inv(data.matrix).T
    H = released_moments(fit.last.hessian + symmetric(noise, 5, rng), back, data.columns, noise)
    M = released_moments(
        fit.moments.released + symmetric(noise, 5, rng),
        fit.moments.back.T,
        data.columns,
        noise,
    )
    family = LOGIT if logit else IDENTITY
    free = np.zeros(5, dtype=bool)
    S = hessian_prior(H, M, fit.moments.matrix, data.columns, np.zeros(5), family, free)
    assert S.matrix[3, 4] == pytest.approx(-H.first * S.mean[3] * S.mean[4], rel=1e-6)
    assert S.matrix[3, 3] == pytest.approx(H.first * S.mean[3] * (1 - S.mean[3]), rel=1e-6)
    assert S.matrix[0, 1:] == pytest.approx(0, abs=1e-9 * H.first)
    assert np.linalg.eigvalsh(S.matrix)[0] > 0


def test_the_guess_of_clean_releases_is_the_curvature():
    """Least squares: it is that of the moments.  Logistic at 0: a quarter of it."""
    for logit, weight in ((True, 0.25), (False, 1.0)):
        data = mixed(logit=logit)
        H, M, fit = exact_seen(data)
        family = LOGIT if logit else IDENTITY
        free = np.zeros(5, dtype=bool)
        S = hessian_prior(H, M, fit.moments.matrix, data.columns, np.zeros(5), family, free)
        covariance = np.cov(data.x.T, bias=True) * weight * len(data.x)
        covariance[0, 0] = weight * len(data.x)
        assert S.matrix == pytest.approx(covariance, rel=0.01, abs=0.01 * covariance[1, 1])


@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
def test_the_sd_of_the_sum_of_a_level_is_that_of_draws(share):
    """Noise of its two entries is correlated in a geometry that whitens the rows."""
    second = np.array([[1.0, share], [share, share]])
    back = np.linalg.cholesky(second).T
    inverse = np.linalg.inv(back)
    clean = inverse.T @ (1000 * second) @ inverse
    rng = np.random.default_rng(11)
    columns = columns_of([True])
    drawn = [
        released_moments(clean + symmetric(1.0, 2, rng), back, columns, 1.0) for _ in range(3000)
    ]
    total = np.array([one.mean[1] * one.first for one in drawn])
    assert total.std() == pytest.approx(drawn[0].sum_sd[1], rel=0.06)


def test_a_rare_level_is_believed_to_be_unrelated():
    """What noise says of its correlations counts for next to nothing, however large it looks."""
    data = mixed()
    _, M, fit = exact_seen(data)
    rng = np.random.default_rng(7)
    loud = replace(M, entry_sd=np.full((5, 5), 0.5) * np.sqrt(np.outer(M.variance, M.variance)))
    H = exact_seen(data)[0]
    rare = replace(H, mean=H.mean * np.array([0, 1, 1, 0.003, 1]), sum_sd=H.sum_sd + 1e-9)
    noisy = fit.moments.matrix + len(data.x) * symmetric(0.02, 5, rng)
    usual, scarce = (
        hessian_prior(one, loud, noisy, data.columns, np.zeros(5), LOGIT, np.zeros(5, dtype=bool))
        for one in (H, rare)
    )

    def correlation(S, j, k):
        return S.matrix[j, k] / np.sqrt(S.matrix[j, j] * S.matrix[k, k])

    assert scarce.rare[3] < 0.01 < usual.rare[3]
    assert abs(correlation(scarce, 1, 3)) < 0.2 * abs(correlation(usual, 1, 3))


def test_the_whole_law_of_a_clean_fit_is_the_released_curvature():
    """Through the columns about the mean of the guess, levels and all: rarity cuts the guess, not a
    precise release.
    """
    data = mixed()
    coef = np.array([-0.3, 1.0, -1.5, 0.5, -0.7])
    fit = data.fit(coef)
    H = released_moments(fit.last.hessian, fit.back @ to_centre(fit.centre), data.columns, QUIET)
    M = released_moments(fit.moments.released, fit.moments.back.T, data.columns, QUIET)
    S = hessian_prior(
        H,
        M,
        fit.moments.matrix,
        data.columns,
        np.linalg.solve(fit.back, fit.last.coef_u),
        fit.last.family,
        np.zeros(len(data.columns), dtype=bool),
    )
    found = hessian_posterior(
        fit.last.hessian,
        QUIET,
        S,
        fit.back @ to_centre(fit.centre - S.mean),
        fit.moments,
    )
    assert whole(found) == pytest.approx(fit.last.hessian, rel=1e-5, abs=1e-4)
