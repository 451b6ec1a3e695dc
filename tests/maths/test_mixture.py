"""The mixture law against brute force, and its methods against each other."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from dpinfer.maths import error as inference
from dpinfer.maths.arrays import unsvec
from dpinfer.maths.mixture import MixtureLaw, no_law


def law(hessian_noise=6.0, components=4000, **changes):
    fields = {
        "hessian": np.array([[60.0, 10.0, 0.0], [10.0, 40.0, 5.0], [0.0, 5.0, 30.0]]),
        "sampling": np.diag([50.0, 30.0, 20.0]),
        "gradient": np.array([20.0, -15.0, 10.0]),
        "prior": np.eye(3) * 1e-4,
        "transform": np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3]]),
        "allowance": np.zeros(2),
        "gradient_noise": 4.0,
        "hessian_noise": hessian_noise,
        "components": components,
        "draws": 20_000,
        "seed": 5,
    }
    return MixtureLaw(**{**fields, **changes})


def brute_force(mixture, draws=200_000):
    """θ = H_k⁻¹(g + e), the prior left out: it is negligible here."""
    rng = np.random.default_rng(1)
    H = mixture.hessian + mixture.hessian_noise * unsvec(rng.standard_normal((draws, 6)), 3)
    total = mixture.sampling + mixture.gradient_noise**2 * np.eye(3)
    e = rng.multivariate_normal(mixture.gradient, total, draws)
    return np.linalg.solve(H, e[..., None])[..., 0] @ mixture.transform.T


@pytest.mark.parametrize("hessian_noise", [0.0, 2.0, 6.0])
def test_intervals_against_brute_force(hessian_noise):
    mixture = law(hessian_noise)
    sample = brute_force(mixture)
    found = mixture.interval(mixture.step(), 0.95)
    expected = np.quantile(sample, [0.025, 0.975], axis=0).T
    assert (np.abs(found - expected) < 0.02 * np.ptp(expected, axis=1, keepdims=True)).all()
    narrow = law(0.0).interval(law(0.0).step(), 0.95)
    if hessian_noise == 6.0:
        assert (np.ptp(found, axis=1) > 1.04 * np.ptp(narrow, axis=1)).all()


def test_without_noise_in_the_hessian_it_is_the_sandwich():
    mixture = law(0.0, components=20, prior=np.zeros((3, 3)))
    inverse = np.linalg.inv(mixture.hessian)
    cov = inverse @ (mixture.sampling + 16 * np.eye(3)) @ inverse
    expected = mixture.transform @ cov @ mixture.transform.T
    assert np.allclose(mixture.covariance(), expected)
    assert np.allclose(mixture.step(), mixture.transform @ inverse @ mixture.gradient)
    half = 1.959964 * np.sqrt(np.diag(expected))
    assert np.allclose(mixture.interval(np.zeros(2), 0.95), np.stack([-half, half], axis=1), rtol=1e-6)
    sampling = mixture.transform @ inverse @ mixture.sampling @ inverse @ mixture.transform.T
    assert np.allclose(mixture.noise_share(), 1 - np.diag(sampling) / np.diag(expected))


def test_the_sample_has_the_covariance_and_the_quantiles():
    mixture = law(draws=80_000)
    sample = mixture.sample()
    assert np.allclose(np.cov(sample.T), mixture.covariance(), rtol=0.05, atol=1e-4)
    assert sample.mean(axis=0) == pytest.approx(0, abs=0.01)
    quantiles = np.quantile(sample, [0.05, 0.95], axis=0).T
    assert quantiles == pytest.approx(mixture.interval(np.zeros(2), 0.9), abs=0.01)
    assert np.array_equal(sample, mixture.sample())


def test_p_values_are_dual_to_intervals():
    mixture = law(allowance=np.array([0.05, 0.1]))
    for estimate in (np.array([0.5, -0.9]), np.array([0.05, 0.02])):
        for p, level in zip(mixture.p_values(estimate), range(2), strict=True):
            interval = mixture.interval(estimate, min(max(1 - p, 1e-9), 1 - 1e-12))[level]
            if p < 1:
                assert np.abs(interval).min() == pytest.approx(0, abs=1e-6)
            else:
                assert interval[0] <= 0 <= interval[1]


def test_the_allowance_widens_both_ends_and_is_mapped_in_absolute_value():
    plain, wide = law(), law().with_allowance(np.array([0.1, 0.2]))
    gap = wide.interval(np.zeros(2), 0.9) - plain.interval(np.zeros(2), 0.9)
    assert np.allclose(gap, [[-0.1, 0.1], [-0.2, 0.2]])
    contrast = wide.mapped(np.array([[1.0, -1.0]]))
    gap = contrast.interval(np.zeros(1), 0.9) - plain.mapped(np.array([[1.0, -1.0]])).interval(np.zeros(1), 0.9)
    assert np.allclose(gap, [[-0.3, 0.3]])
    assert np.allclose(np.abs(wide.sample()), np.abs(plain.sample()) + np.array([0.1, 0.2]))


def test_mapping_is_that_of_the_draws():
    mixture, matrix = law(), np.array([[1.0, -1.0]])
    mapped = mixture.mapped(matrix)
    assert np.allclose(mapped.covariance(), matrix @ mixture.covariance() @ matrix.T)
    assert mapped.interval(np.zeros(1), 0.9)[0] == pytest.approx(
        np.quantile(mixture.sample() @ matrix[0], [0.05, 0.95]), abs=0.02
    )
    again = dataclasses.replace(mapped)  # components drawn anew
    assert np.array_equal(again.covariance(), mapped.covariance())


def test_a_weak_hessian_widens_by_itself_up_to_the_prior():
    weak = law(8.0, hessian=np.diag([60.0, 40.0, 4.0]), transform=np.eye(3), allowance=np.zeros(3), prior=np.eye(3) / 4)
    deviations = np.sqrt(np.diag(weak.covariance()))
    assert deviations[2] > 4 * deviations[0]
    assert deviations[2] < 2.2


def test_bands_and_tests_of_several_coefficients():
    mixture = law()
    bands = inference.simultaneous(np.zeros(2), mixture, 0.95)
    inside = ((mixture.sample() >= bands[:, 0]) & (mixture.sample() <= bands[:, 1])).all(axis=1)
    assert inside.mean() == pytest.approx(0.95, abs=0.002)
    statistic, p_value = inference.wald(np.array([0.4, 0.1]), law(0.0))
    assert p_value == pytest.approx(stats.chi2(2).sf(statistic), abs=0.01)


def test_the_law_of_nothing():
    nothing = no_law(3)
    assert nothing.covariance().shape == (0, 0)
    assert nothing.interval(np.zeros(0), 0.95).shape == (0, 2)
    assert nothing.p_values(np.zeros(0)).shape == nothing.noise_share().shape == (0,)
    assert inference.simultaneous(np.zeros(0), nothing, 0.95).shape == (0, 2)
