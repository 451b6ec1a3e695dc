import numpy as np
import pytest
from scipy import integrate, stats

from dpinfer.numerics.noise_laws import Gaussian, SphericalLaplace
from helpers.support import directions_uniform, follows

RNG = 12345


@pytest.mark.parametrize("dim", [2, 3, 11])
def test_spherical_laplace_radius_and_direction(dim):
    draws = SphericalLaplace(rate=0.7).sample(np.random.default_rng(RNG), (20_000, dim))
    radius = np.linalg.norm(draws, axis=1)
    assert follows(radius, stats.gamma(dim, scale=1 / 0.7))
    assert not follows(radius, stats.gamma(dim, scale=1.2 / 0.7))
    assert directions_uniform(draws)


def test_one_dimension_is_the_laplace_law():
    draws = SphericalLaplace(rate=2.0).sample(np.random.default_rng(RNG), (20_000, 1))[:, 0]
    assert follows(draws, stats.laplace(scale=0.5))


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_spherical_laplace_is_a_gaussian_scale_mixture(dim):
    """v ~ Gamma((dim + 1)/2, rate γ²/2), then N(0, v I): the same law of the radius and of a
    coordinate.
    """
    rng, rate = np.random.default_rng(RNG), 1.3
    v = rng.gamma((dim + 1) / 2, 2 / rate**2, (20_000, 1))
    mixture = np.sqrt(v) * rng.standard_normal((20_000, dim))
    assert follows(np.linalg.norm(mixture, axis=1), stats.gamma(dim, scale=1 / rate))
    direct = SphericalLaplace(rate).sample(rng, (20_000, dim))
    assert stats.ks_2samp(mixture[:, 0], direct[:, 0]).pvalue > 1e-4


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_variance_of_a_coordinate(dim):
    second, _ = integrate.quad(lambda r: r**2 * stats.gamma(dim, scale=1 / 1.3).pdf(r), 0, np.inf)
    assert SphericalLaplace(1.3).variance(dim) == pytest.approx(second / dim)
    assert Gaussian(1.3).variance(dim) == pytest.approx(1.69)


def test_gaussian():
    draws = Gaussian(0.4).sample(np.random.default_rng(RNG), (20_000, 2))[:, 1]
    assert follows(draws, stats.norm(scale=0.4))
    assert not follows(draws, stats.norm(scale=0.4 * 1.2))
