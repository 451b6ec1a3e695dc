"""Exact audit of the zCDP cost of Gaussian objective perturbation: Rényi divergences by quadrature,
d = 1 and 2.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp

import dpinfer as dp
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import (
    PerturbedObjective,
    largest_curvature_ratio,
    perturbed_objective_scale,
)
from helpers.exact import Pair, turned
from helpers.searches import examples
from helpers.support import Tripled

KINDS = ["logistic", "one-sided", "two-sided"]
ONE = [
    ((1.0,), (-1.0,)),
    ((1.0, 1.0), (1.0, -1.0)),
    ((-1.0,) * 4, (-1.0, -1.0, -1.0, 1.0)),
    ((0.6,), (-1.0,)),
]
ONE += [((1.0,), (0.0,)), ((0.0,), (1.0,))]
GRID = [(ridge, scale) for ridge in (0.5, 2.0, 20.0, 200.0) for scale in (0.7, 2.0, 6.0)]
ORDERS = (1.01, 2.0, 8.0, 30.0)
NAMES = {"ids": lambda loss: f"{type(loss).__name__}-{loss.curvature_bound:g}"}
LOSSES = [
    dp.Logistic(),
    dp.HuberHinge(0.5),
    dp.HuberHinge(1.0),
    Tripled(dp.HuberHinge(0.5)),
]


def claim(loss, ridge, scale):
    return PerturbedObjective(
        scale / loss.slope_bound, loss.curvature_bound / ridge, slope_kind(loss)
    ).cost()


def pairs(loss, dim):
    """Adjacency, ridges, scales.  In the plane records are turned and the ridge is centred where
    both are steep.
    """
    if dim == 1:
        return [Pair(loss, *pair, ridge, scale) for ridge, scale in GRID for pair in ONE]
    turns = [(0.0, (0.0, 0.0)), (0.2, (0.0, -40.0)), (0.6, (0.0, -9.0)), (1.2, (0.0, 0.0))]
    grid = [(2.0, 2.0), (20.0, 2.0), (20.0, 6.0), (200.0, 6.0)]
    return [
        Pair(loss, *turned(a), ridge, scale, centre) for ridge, scale in grid for a, centre in turns
    ]


def worst(loss, dim, factor=1.0):
    """Largest ratio of an exact divergence to the claimed ρα."""
    ratios = [0.0]
    for pair in pairs(loss, dim):
        rho = claim(loss, pair.ridge, pair.scale / factor)
        ratios += [
            divergence / (rho * alpha)
            for alpha, divergence in zip(ORDERS, divergences(pair), strict=True)
        ]
    return max(ratios)


@cache
def divergences(pair):
    """Of all orders; mutations are held against the same ones."""
    renyi, _ = pair.divergences()
    return [renyi(alpha) for alpha in ORDERS]


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
def test_guarantee_gaussian_objective_perturbation(loss):
    largest = worst(loss, 1)
    assert largest <= 1 + 1e-6
    if not isinstance(loss, dp.Logistic):  # on a line its two opposite slopes never add up to 2
        assert largest > 0.95


@pytest.mark.parametrize("loss", [dp.Logistic(), dp.HuberHinge(0.5)], **NAMES)
def test_in_the_plane(loss):
    largest = worst(loss, 2)
    assert 0.95 < largest <= 1 + 1e-5


@pytest.mark.parametrize("loss", [dp.Logistic(), dp.HuberHinge(0.5)], **NAMES)
def test_mutation_less_noise_is_caught(loss):
    assert worst(loss, 2, factor=0.95) > 1.02


def test_mutation_without_the_cost_of_curvature_is_caught():
    """Claiming 2/σ² alone is too little where the curvature counts."""
    loss, ridge, scale = dp.HuberHinge(0.5), 2.0, 60.0
    found = max(
        Pair(loss, *p, ridge, scale).divergences()[0](a) / a for p in ONE for a in (1.01, 1.5, 3.0)
    )
    assert found > 1.05 * 2 / scale**2
    assert found <= claim(loss, ridge, scale)


@examples(15)
@given(st.floats(1e-3, 10), st.floats(1e-5, 0.3), st.sampled_from(KINDS))
def test_scale_and_cost_are_inverse(rho, k, kind):
    scale = perturbed_objective_scale(rho, k, kind)
    if not np.isfinite(scale):
        assert k > largest_curvature_ratio(rho, kind) * (1 - 1e-6)
        return
    assert PerturbedObjective(scale, k, kind).cost() <= rho
    assert PerturbedObjective(scale * 0.999, k, kind).cost() > rho
    assert scale >= np.sqrt(2 / rho) * (1 - 1e-9)


def theorem(scale, k, beyond):
    """The Rényi theorem with curvatures coupled to slopes, maximised by a search: max over (u₁,
    u₂), over α.
    """
    alpha, lam = 1 + beyond, 0.25 / k

    def negative(u):
        p, q = u * (1 - u) / lam
        first = alpha * np.log1p(p) - np.log1p(alpha * p)
        second = -beyond * np.log1p(q) - np.log1p(-beyond * q)
        return -(u.sum() ** 2 / (2 * scale**2) + (first + second) / (alpha * beyond))

    starts = [(1.0, 1.0), (0.5, 0.5), (1.0, 0.5), (0.5, 1.0), (0.75, 0.75)]
    found = [minimize(negative, start, bounds=[(0, 1)] * 2, method="L-BFGS-B") for start in starts]
    return max(-f.fun for f in found)


@examples(15)
@given(
    st.floats(0.5, 50),
    st.floats(1e-3, 1),
    st.floats(0.01, 0.98),
)
def test_the_coupled_bound_is_the_theorem_or_a_little_more(scale, k, part):
    bound = PerturbedObjective(scale, k, "logistic").growing(part / k)
    exact = theorem(scale, k, part / k)
    assert exact <= bound * (1 + 1e-9)
    free = PerturbedObjective(scale, k, "one-sided").growing(part / k)
    assert bound <= free * (1 + 1e-9)
    if k <= 0.25 / scale and part <= 0.5:  # both records steep: no penalty at all
        assert bound == pytest.approx(2 / scale**2, rel=1e-3)


@examples(15)
@given(st.floats(0.5, 50), st.floats(1e-4, 2), st.sampled_from(KINDS))
def test_one_bound_grows_and_the_other_falls(scale, k, kind):
    """The certificate: so the cost is at least the smaller of the two bounds at every order."""
    release = PerturbedObjective(scale, k, kind)
    below, above = np.geomspace(1e-3, 0.999, 60) / k, np.geomspace(1e-3, 1e4, 90) / k
    grown, fallen = (
        np.array([f(b) for b in x]) for f, x in ((release.growing, below), (release.falling, above))
    )
    assert np.all(np.diff(grown) >= -1e-9 * np.minimum(grown[1:], 1e300))
    assert np.all(np.diff(fallen) <= 1e-9 * fallen[1:])
    smaller = [release.renyi(b) / (1 + b) for b in above]
    assert max(smaller) <= release.cost() * (1 + 1e-6)


def test_first_order():
    assert PerturbedObjective(0.1, 1e-3, "two-sided").cost() - 200 == pytest.approx(2e-6, rel=0.03)
    assert PerturbedObjective(1e9, 1e-3, "two-sided").cost() == pytest.approx(1.4e-6, rel=0.03)
    assert PerturbedObjective(3.0, 1e-9, "two-sided").cost() == pytest.approx(2 / 9, rel=1e-6)
    assert PerturbedObjective(5.0, 1e-3, "one-sided").cost() - 2 / 25 <= 1.6e-6
    at_equal_ridge = [
        PerturbedObjective(s, 0.25 / s, "logistic").cost() * s**2 / 2 for s in (40.0, 10.0, 1.2)
    ]
    assert at_equal_ridge == pytest.approx([1.031, 1.030, 1.0235], abs=5e-4)


@pytest.mark.parametrize("kind", ["one-sided", "two-sided"])
@pytest.mark.parametrize(("scale", "k"), [(0.7, 0.2), (3.0, 0.01), (40.0, 1.0)])
def test_the_falling_bound_is_the_divergence_of_the_dominating_loss(scale, k, kind):
    """By quadrature of log(1+k) + max(0, 2/s² + 2z/s), or of log(1+k) + 2/s² + 2 abs(z)/s for
    slopes of either sign.
    """
    z = np.linspace(-40, 40, 400_001)
    steep = 2 / scale**2 + 2 / scale * (np.abs(z) if kind == "two-sided" else z)
    loss, weight = np.log1p(k) + np.maximum(0, steep), -(z**2) / 2
    for beyond in (0.01, 0.5, 3.0, 7.0):
        divergence = (logsumexp(weight + beyond * loss) - logsumexp(weight)) / beyond
        found = (1 + beyond) * PerturbedObjective(scale, k, kind).falling(beyond)
        assert found == pytest.approx(divergence, rel=1e-6)
