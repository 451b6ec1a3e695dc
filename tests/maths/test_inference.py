import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpinfer.maths import inference
from dpinfer.maths.inference import ErrorLaw, sandwich
from dpinfer.maths.laws import Gaussian, SphericalLaplace

rng = np.random.default_rng(0)
ROOT = rng.standard_normal((3, 3))
SAMPLING = ROOT @ ROOT.T / 50
MAP = rng.standard_normal((3, 3)) / 10
ESTIMATE = np.array([0.3, -1.0, 0.1])


def law(noise, draws=200_000):
    return ErrorLaw(SAMPLING, MAP, noise, draws, seed=7)


def sampled_interval(error, level):
    """Quantiles of the draws, whatever the law."""
    tail = (1 - level) / 2
    return ESTIMATE[:, None] + np.quantile(error.sample(), [tail, 1 - tail], axis=0).T


def test_sandwich_is_its_formula():
    H, S = np.diag([1.0, 2.0, 4.0]) + 0.1, SAMPLING
    inverse = np.linalg.inv(H)
    assert np.allclose(sandwich(H, S, 10), inverse @ S @ inverse / 10)


@pytest.mark.parametrize("noise", [Gaussian(0.0), Gaussian(2.0), SphericalLaplace(1.5)])
def test_covariance_is_that_of_the_draws(noise):
    error = law(noise)
    scale = np.sqrt(np.diag(error.covariance()))
    assert np.allclose(
        np.cov(error.sample().T) / np.outer(scale, scale), error.covariance() / np.outer(scale, scale), atol=0.02
    )


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_closed_form_interval_agrees_with_sampling(level):
    error = law(Gaussian(2.0))
    closed, sampled = inference.interval(ESTIMATE, error, level), sampled_interval(error, level)
    width = closed[:, 1] - closed[:, 0]
    assert np.all(np.abs(closed - sampled).max(axis=1) < 0.01 * width)
    wrong = inference.interval(ESTIMATE, law(Gaussian(2.4)), level)
    assert np.any(np.abs(wrong - sampled).max(axis=1) > 0.01 * width)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_sampled_laplace_interval_agrees_with_the_scale_mixture(level):
    """E_v[2Φ(q/sqrt(A + vB)) - 1] = level, by quadrature over v."""
    error = law(SphericalLaplace(1.5))
    mixing = stats.gamma((3 + 1) / 2, scale=2 / 1.5**2)
    for j, (low, high) in enumerate(inference.interval(ESTIMATE, error, level)):
        A, B = SAMPLING[j, j], (MAP @ MAP.T)[j, j]

        def inside(q, A=A, B=B):
            return integrate.quad(lambda v: (2 * stats.norm.cdf(q / np.sqrt(A + v * B)) - 1) * mixing.pdf(v), 0, 60)[0]

        half = optimize.brentq(lambda q: inside(q) - level, 0, 20)
        assert (high - low) / 2 == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize("m", [1, 2, 11, 118, 150, 500])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("share", [0.0, 0.3, 3.0])
def test_half_width_inverts_the_mixture(m, level, share):
    """Against adaptive quadrature over v, for any dimension of the noise and any share of sampling variance."""
    noise_map = np.zeros((1, m))
    noise_map[0, 0] = 1.0
    sampling = np.array([[share * (m + 1)]])
    q = inference.half_width(sampling, noise_map, SphericalLaplace(1.0), level)[0]
    law = stats.gamma((m + 1) / 2, scale=2)

    def inside(u):
        return 2 * stats.norm.cdf(q / np.sqrt(sampling[0, 0] + law.ppf(u))) - 1

    mean, _ = integrate.quad(inside, 0, 1, limit=200)
    assert mean == pytest.approx(level, abs=2e-5 if share else 1e-3 / m**2 + 2e-5)


def test_a_variance_just_below_zero_is_zero():
    assert np.isfinite(inference.half_width(np.diag([-1e-18, 1.0]), np.eye(2), Gaussian(0.0), 0.95)).all()


def test_mapped_law_is_the_law_of_the_mapped_draws():
    R, error = np.array([[1.0, -1.0, 0.0]]), law(SphericalLaplace(1.5))
    assert np.allclose(error.mapped(R).covariance(), R @ error.covariance() @ R.T)
    assert stats.ks_2samp(error.mapped(R).sample()[:5000, 0], (error.sample() @ R.T)[-5000:, 0]).pvalue > 1e-4


@pytest.mark.parametrize("noise", [Gaussian(2.0), SphericalLaplace(1.5)])
def test_simultaneous_bands_hold_together(noise):
    error = law(noise)
    band = inference.simultaneous(np.zeros(3), error, 0.95)
    fresh = ErrorLaw(SAMPLING, MAP, noise, 100_000, seed=8).sample()
    together = np.mean(np.all((band[:, 0] <= fresh) & (fresh <= band[:, 1]), axis=1))
    assert together == pytest.approx(0.95, abs=0.004)
    single = inference.interval(np.zeros(3), error, 0.95)
    assert np.mean(np.all((single[:, 0] <= fresh) & (fresh <= single[:, 1]), axis=1)) < 0.93


@pytest.mark.parametrize("noise", [Gaussian(0.0), Gaussian(2.0), SphericalLaplace(1.5)])
def test_p_values_and_wald_are_uniform_under_the_null(noise):
    error = law(noise, draws=2000)
    truth = ErrorLaw(SAMPLING, MAP, noise, 1000, seed=9).sample()
    single = [inference.p_values(draw, error)[0] for draw in truth]
    joint = [inference.wald(draw, error)[1] for draw in truth]
    assert stats.kstest(single, "uniform").pvalue > 1e-3
    assert stats.kstest(joint, "uniform").pvalue > 1e-3


def test_one_restriction_wald_equals_the_coefficient_test():
    error = law(Gaussian(2.0))
    statistic, p = inference.wald(ESTIMATE[:1], error.mapped(np.array([[1.0, 0, 0]])))
    z = ESTIMATE[0] / np.sqrt(error.covariance()[0, 0])
    assert statistic == pytest.approx(z**2)
    assert p == pytest.approx(inference.p_values(ESTIMATE, error)[0])
