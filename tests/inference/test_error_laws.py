import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpinfer.inference import error_laws as inference
from dpinfer.inference.error_laws import ErrorLaw, sandwich
from dpinfer.numerics.arrays import unsvec
from dpinfer.numerics.noise_laws import Gaussian, SphericalLaplace

rng = np.random.default_rng(0)
ROOT = rng.standard_normal((3, 3))
SAMPLING = ROOT @ ROOT.T / 50
MAP = rng.standard_normal((3, 3)) / 10
UNIT = np.eye(3)
ESTIMATE = np.array([0.3, -1.0, 0.1])


def law(noise, draws=200_000, seed=7, **options):
    return ErrorLaw(
        SAMPLING,
        MAP,
        noise,
        draws,
        seed,
        **({"sampled": True, "influence": UNIT, "response": UNIT} | options),
    )


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
        np.cov(error.sample().T) / np.outer(scale, scale),
        error.covariance() / np.outer(scale, scale),
        atol=0.02,
    )


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_closed_form_interval_agrees_with_sampling(level):
    error = law(Gaussian(2.0))
    closed, sampled = error.interval(ESTIMATE, level), sampled_interval(error, level)
    width = closed[:, 1] - closed[:, 0]
    assert np.all(np.abs(closed - sampled).max(axis=1) < 0.01 * width)
    wrong = law(Gaussian(2.4)).interval(ESTIMATE, level)
    assert np.any(np.abs(wrong - sampled).max(axis=1) > 0.01 * width)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_sampled_laplace_interval_agrees_with_the_scale_mixture(level):
    """E_v[2Φ(q/sqrt(A + vB)) - 1] = level, by quadrature over v."""
    error = law(SphericalLaplace(1.5))
    mixing = stats.gamma((3 + 1) / 2, scale=2 / 1.5**2)
    for j, (low, high) in enumerate(error.interval(ESTIMATE, level)):
        A, B = SAMPLING[j, j], (MAP @ MAP.T)[j, j]

        def inside(q, A=A, B=B):
            return integrate.quad(
                lambda v: (2 * stats.norm.cdf(q / np.sqrt(A + v * B)) - 1) * mixing.pdf(v), 0, 60
            )[0]

        half = optimize.brentq(lambda q: inside(q) - level, 0, 20)
        assert (high - low) / 2 == pytest.approx(half, rel=0.01)


@pytest.mark.parametrize("m", [1, 2, 11, 118, 150, 500])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("share", [0.0, 0.3, 3.0])
def test_half_width_inverts_the_mixture(m, level, share):
    """Against adaptive quadrature over v, for any dimension of the noise and any share of sampling
    variance.
    """
    noise_map = np.zeros((1, m))
    noise_map[0, 0] = 1.0
    sampling = np.array([[share * (m + 1)]])
    q = inference.half_width(sampling, noise_map, SphericalLaplace(1.0), level)[0]
    law = stats.gamma((m + 1) / 2, scale=2)

    def inside(u):
        return 2 * stats.norm.cdf(q / np.sqrt(sampling[0, 0] + law.ppf(u))) - 1

    mean, _ = integrate.quad(inside, 0, 1, limit=200)
    assert mean == pytest.approx(level, abs=2e-5 if share else 1e-3 / m**2 + 2e-5)


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_laplace_intervals_without_sampling_are_the_sampled_ones(level):
    sampled = law(SphericalLaplace(1.5)).interval(ESTIMATE, level)
    closed = law(SphericalLaplace(1.5), sampled=False).interval(ESTIMATE, level)
    assert np.allclose(closed, sampled, atol=0.01 * np.diff(closed).max())


def test_spread_is_the_variance_of_a_noisy_standard_error():
    """Symmetric noise on H and on Σ, drawn: the relative variance of sqrt(U_jj) is τ²."""
    rng, n, k = np.random.default_rng(1), 500, 40_000
    H, S, s_h, s_s = np.diag([1.0, 0.7, 0.4]) + 0.1, SAMPLING + np.eye(3), 2e-3, 4e-3
    E, F = (unsvec(rng.standard_normal((k, 6)), 3) * s for s in (s_h, s_s))
    deviations = np.sqrt(np.diagonal(sandwich(H + E, S + F, n), axis1=1, axis2=2))
    U = sandwich(H, S, n)
    tau2 = inference.spread(np.linalg.inv(H), U, np.diag(U), s_h, s_s / n)
    assert np.allclose(deviations.var(axis=0) / np.diag(U), tau2, rtol=0.05)
    mapped = ErrorLaw(
        U, 0 * UNIT, Gaussian(0.0), 100, 1, False, np.linalg.inv(H), U, s_h, s_s / n
    ).mapped(np.ones((1, 3)))
    summed = np.sqrt(np.ones(3) @ sandwich(H + E, S + F, n) @ np.ones(3))
    assert mapped.spread()[0] == pytest.approx(
        summed.var() / (np.ones(3) @ U @ np.ones(3)), rel=0.05
    )


def test_uncertain_standard_errors_widen_intervals_and_raise_p_values():
    plain = law(Gaussian(0.5), influence=UNIT, response=UNIT)
    unsure = law(Gaussian(0.5), influence=UNIT, response=UNIT, hessian_noise=0.02, score_noise=0.02)
    tau2 = unsure.spread()
    assert np.all(tau2 > 0)
    half = np.diff(plain.interval(ESTIMATE, 0.95))[:, 0]
    assert np.allclose(
        np.diff(unsure.interval(ESTIMATE, 0.95))[:, 0], half * (1 + 1.96**2 / 2 * tau2), rtol=1e-4
    )
    assert np.all(unsure.p_values(ESTIMATE) > plain.p_values(ESTIMATE))
    edge = unsure.interval(ESTIMATE, 0.95)[:, 0]
    assert np.allclose(
        unsure.p_values(ESTIMATE - edge), 0.05, rtol=1e-6
    )  # tests and intervals agree
    assert inference.wald(ESTIMATE, unsure)[1] > inference.wald(ESTIMATE, plain)[1]
    moderate = 2 * plain.covariance()[0, 0] * np.sqrt(0.05)  # a relative variance of .05
    one = law(Gaussian(0.5), score_noise=moderate).mapped(np.array([[1.0, 0, 0]]))
    assert one.spread()[0] == pytest.approx(0.05)
    low, high = one.interval(np.zeros(1), 0.95)[0]
    band = inference.simultaneous(np.zeros(1), one, 0.95)[0]
    assert band == pytest.approx([low, high], rel=0.02)  # draws and closed form tell the same
    assert inference.wald(np.array([high]), one)[1] == pytest.approx(0.05, abs=0.004)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_laplace_p_values_without_draws_agree_with_the_intervals(level):
    error = law(SphericalLaplace(1.5), sampled=False)
    edge = error.interval(np.zeros(3), level)[:, 1]
    assert np.allclose(error.p_values(edge), 1 - level, rtol=1e-6)


def test_no_variance_and_no_noise_is_no_spread():
    assert not inference.spread(UNIT, UNIT, np.zeros(3), 0.0, 0.0).any()


def test_a_variance_just_below_zero_is_zero():
    assert np.isfinite(
        inference.half_width(np.diag([-1e-18, 1.0]), np.eye(2), Gaussian(0.0), 0.95)
    ).all()


def test_mapped_law_is_the_law_of_the_mapped_draws():
    R, error = np.array([[1.0, -1.0, 0.0]]), law(SphericalLaplace(1.5))
    assert np.allclose(error.mapped(R).covariance(), R @ error.covariance() @ R.T)
    assert (
        stats.ks_2samp(error.mapped(R).sample()[:5000, 0], (error.sample() @ R.T)[-5000:, 0]).pvalue
        > 1e-4
    )


@pytest.mark.parametrize("noise", [Gaussian(2.0), SphericalLaplace(1.5)])
def test_simultaneous_bands_hold_together(noise):
    error = law(noise)
    band = inference.simultaneous(np.zeros(3), error, 0.95)
    fresh = law(noise, 100_000, seed=8).sample()
    together = np.mean(np.all((band[:, 0] <= fresh) & (fresh <= band[:, 1]), axis=1))
    assert together == pytest.approx(0.95, abs=0.004)
    single = error.interval(np.zeros(3), 0.95)
    assert np.mean(np.all((single[:, 0] <= fresh) & (fresh <= single[:, 1]), axis=1)) < 0.93


@pytest.mark.parametrize("noise", [Gaussian(0.0), Gaussian(2.0), SphericalLaplace(1.5)])
def test_p_values_and_wald_are_uniform_under_the_null(noise):
    error = law(noise, draws=2000)
    truth = law(noise, 1000, seed=9).sample()
    single = [error.p_values(draw)[0] for draw in truth]
    joint = [inference.wald(draw, error)[1] for draw in truth]
    assert stats.kstest(single, "uniform").pvalue > 1e-3
    assert stats.kstest(joint, "uniform").pvalue > 1e-3


def test_one_restriction_wald_equals_the_coefficient_test():
    error = law(Gaussian(2.0))
    statistic, p = inference.wald(ESTIMATE[:1], error.mapped(np.array([[1.0, 0, 0]])))
    z = ESTIMATE[0] / np.sqrt(error.covariance()[0, 0])
    assert statistic == pytest.approx(z**2)
    assert p == pytest.approx(error.p_values(ESTIMATE)[0])
