"""Exact audit of Gaussian objective perturbation: Rényi divergences of its output by quadrature in one dimension."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import dpinfer as dp
from dpinfer.maths.accounting import largest_curvature_ratio, perturbed_objective_cost, perturbed_objective_scale
from support import Tripled


def log_density(loss, records, ridge, scale, theta):
    """Log of ν(b_D(θ)) A_D(θ) on a grid of θ; records are labels times rows."""
    margins = records[:, None] * theta
    b = -(records[:, None] * loss.slope(margins)).sum(axis=0) - ridge * theta
    bend = ridge + (records[:, None] ** 2 * loss.curvature(margins)).sum(axis=0)
    return np.log(bend) - (b / scale) ** 2 / 2


def renyi(loss, pair, ridge, scale, alpha):
    """D_α between the outputs on two data sets, by the trapezoid rule; both densities are normalised on the grid."""
    reach = (12 * scale + 2 * alpha + sum(np.abs(pair[0]))) / ridge
    theta = np.linspace(-reach, reach, 50_001)
    p, q = (log_density(loss, np.asarray(records, float), ridge, scale, theta) for records in pair)
    p, q = p - logsumexp(p), q - logsumexp(q)
    return logsumexp(alpha * p + (1 - alpha) * q) / (alpha - 1)


PAIRS = [([1.0], [-1.0]), ([1.0, 1.0], [1.0, -1.0]), ([-1.0] * 4, [-1.0] * 3 + [1.0]), ([0.6], [-1.0]), ([1.0], [0.0])]
GRID = [(ridge, scale) for ridge in (0.5, 2.0, 20.0, 200.0) for scale in (0.7, 2.0, 6.0)]
LOSSES = [dp.Logistic(), dp.HuberHinge(0.5), dp.HuberHinge(1.0)]


def worst(loss, scale_factor=1.0):
    """Largest ratio of an exact divergence to the claimed ρα, over pairs, sizes of noise and orders."""
    ratios = [0.0]
    for ridge, scale in GRID:
        rho = perturbed_objective_cost(scale / loss.slope_bound, loss.curvature_bound / ridge)
        for pair in PAIRS:
            for alpha in (1.01, 2.0, 8.0):
                ratios.append(renyi(loss, pair, ridge, scale * scale_factor, alpha) / (rho * alpha))
    return max(ratios)


@pytest.mark.parametrize(
    "loss", [*LOSSES, Tripled(dp.HuberHinge(0.5))], ids=lambda loss: f"{type(loss).__name__}-{loss.curvature_bound:g}"
)
def test_guarantee_gaussian_objective_perturbation(loss):
    largest = worst(loss)
    assert largest <= 1 + 1e-6
    if not isinstance(
        loss, dp.Logistic
    ):  # in one dimension opposite records of the logistic loss never both have slope 1
        assert largest > 0.95


def test_mutation_less_noise_is_caught():
    assert worst(dp.HuberHinge(0.5), scale_factor=0.95) > 1.02


def test_mutation_without_the_cost_of_curvature_is_caught():
    """Claiming 2/σ² alone is too little where the curvature counts."""
    loss, ridge, scale = dp.HuberHinge(0.5), 2.0, 60.0
    claimed = 2 / scale**2
    found = max(renyi(loss, pair, ridge, scale, alpha) / alpha for pair in PAIRS for alpha in (1.01, 1.5, 3.0))
    assert found > 1.05 * claimed
    assert found <= perturbed_objective_cost(scale, loss.curvature_bound / ridge)


@settings(deadline=None, max_examples=50)
@given(st.floats(1e-3, 10), st.floats(1e-5, 0.3))
def test_scale_and_cost_are_inverse(rho, k):
    scale = perturbed_objective_scale(rho, k)
    if not np.isfinite(scale):
        assert k > largest_curvature_ratio(rho) * (1 - 1e-6)
        return
    assert perturbed_objective_cost(scale, k) <= rho
    assert perturbed_objective_cost(scale * 0.999, k) > rho
    assert scale >= np.sqrt(2 / rho)


@given(st.floats(0.5, 50), st.floats(1e-4, 2))
def test_the_cost_bounds_both_curves_at_every_order(scale, k):
    """The certificate: rho is at least min(T, A)/α on a fine grid of orders."""
    alpha = np.concatenate([1 + np.geomspace(1e-6, 1 / k, 4000)[:-1], 1 + np.geomspace(1 / k, 1e6 / k, 2000)])
    x, base = alpha * (alpha - 1), 2 / scale**2
    with np.errstate(all="ignore"):
        T = np.where(alpha < 1 + 1 / k, base - np.log1p(-np.minimum(x * k**2 / (1 + k), 1)) / x, np.inf)
    A = np.log1p(k) / alpha + base + np.log(2 * (1 + np.exp(-base * x))) / x
    assert np.nanmax(np.minimum(T, A)) <= perturbed_objective_cost(scale, k) * (1 + 1e-9)


def test_first_order():
    assert perturbed_objective_cost(1e9, 1e-3) == pytest.approx(2.6e-6, rel=0.03)
    assert perturbed_objective_cost(3.0, 1e-9) == pytest.approx(2 / 9, rel=1e-6)
