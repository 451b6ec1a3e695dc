"""Exact audit of the privacy profile: hockey-stick divergences by quadrature, d = 1 and 2, alone
and composed.
"""

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

import dpinfer as dp
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from helpers.exact import Pair, turned

EPSILONS = (0.02, 0.1, 0.3, 1.0, 2.0)
NAMES = {"ids": lambda loss: f"{type(loss).__name__}-{loss.curvature_bound:g}"}
ONE = [
    ((1.0,), (-1.0,)),
    ((1.0, 1.0), (1.0, -1.0)),
    ((1.0,), (0.0,)),
    ((0.0,), (1.0,)),
    ((0.6,), (-1.0,)),
]
LOSSES = [dp.Logistic(), dp.HuberHinge(0.5)]


def pairs(loss, dim):
    if dim == 1:
        return [
            Pair(loss, *p, ridge, scale)
            for ridge in (0.5, 2.0, 20.0, 400.0)
            for scale in (0.7, 2.0)
            for p in ONE
        ]
    turns = [
        (0.0, (0.0, 0.0)),
        (0.1, (0.0, -80.0)),
        (0.6, (0.0, -9.0)),
        (1.2, (0.0, 0.0)),
        (-0.6, (0.0, 0.0)),
    ]
    return [
        Pair(loss, *turned(a), ridge, 2.0, centre)
        for ridge in (2.0, 20.0, 400.0)
        for a, centre in turns
    ]


def release(pair, factor=1.0):
    loss = pair.loss
    return PerturbedObjective(
        pair.scale / factor, loss.curvature_bound / pair.ridge, slope_kind(loss)
    )


def worst(loss, dim, factor=1.0):
    ratios = [0.0]
    for pair in pairs(loss, dim):
        claimed = [release(pair, factor).delta(epsilon) for epsilon in EPSILONS]
        ratios += [
            exact / delta
            for exact, delta in zip(divergences(pair), claimed, strict=True)
            if delta > 1e-9
        ]
    return max(ratios)


@cache
def divergences(pair):
    """At all ε; mutations are held against the same ones."""
    _, hockey = pair.divergences()
    return [hockey(epsilon) for epsilon in EPSILONS]


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
def test_guarantee_privacy_profile(loss):
    in_line, in_plane = worst(loss, 1), worst(loss, 2)
    assert max(in_line, in_plane) <= 1 + 1e-4
    assert in_plane > 0.95


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
def test_mutation_less_noise_is_caught(loss):
    assert worst(loss, 2, factor=0.95) > 1.02


def test_mutation_without_the_curvature_is_caught():
    """Dropping κ claims too little for the hinge, whose steep records still bend."""
    loss = dp.HuberHinge(0.5)
    pair = Pair(loss, (1.0,), (-1.0,), 20.0, 200.0)
    _, hockey = pair.divergences()
    flat = PerturbedObjective(pair.scale, 0.0, "one-sided")
    assert hockey(0.02) > 10 * flat.delta(0.02)
    assert hockey(0.02) <= release(pair).delta(0.02)


@pytest.mark.parametrize("mu", [0.1, 0.5])
def test_composed_with_a_gaussian_release(mu):
    """The exact δ of both releases together, by quadrature over both losses, is at most the claimed
    one.
    """
    pair = Pair(dp.HuberHinge(0.5), (1.0,), (-1.0,), 400.0, 2.0)
    _, hockey = pair.divergences()
    z = np.linspace(-8, 8, 401)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    ratios = []
    for epsilon in (0.3, 1.0, 2.0):
        exact = sum(
            w * hockey(epsilon - mu * x - mu**2 / 2) for w, x in zip(weights, z, strict=True)
        )
        ratios.append(exact / release(pair).delta(epsilon, mu))
    assert 0.95 < max(ratios) <= 1 + 1e-4


def test_without_curvature_it_is_the_gaussian_release():
    """δ of N(0, s²) with sensitivity 2 together with μ is that of sqrt(4/s² + μ²), but for losses
    below 0.
    """
    s, mu, epsilon = 3.0, 0.2, 1.5
    whole = np.hypot(2 / s, mu)
    exact = norm.cdf(whole / 2 - epsilon / whole) - np.exp(epsilon) * norm.cdf(
        -whole / 2 - epsilon / whole
    )
    claimed = PerturbedObjective(s, 1e-12, "one-sided").delta(epsilon, mu)
    assert exact <= claimed <= 1.01 * exact


@pytest.mark.parametrize("kind", ["logistic", "two-sided"])
def test_epsilon_is_the_smaller_of_profile_and_renyi(kind):
    """By the profile, but for the largest δ, where what it pays for the curvature is most of ε."""
    usual, large = PerturbedObjective(9.0, 1e-3, kind), PerturbedObjective(100.0, 0.01, kind)
    assert usual.delta(usual.epsilon(1e-6, 0.3), 0.3) == pytest.approx(1e-6, rel=1e-4)
    assert usual.epsilon(1e-6, 0.3) < 0.99 * best_order(usual, 0.3, 1e-6)
    assert large.delta(large.epsilon(1e-2)) > 1.3e-2
    assert large.epsilon(1e-2) == pytest.approx(best_order(large, 0.0, 1e-2), rel=1e-3)


def best_order(objective, mu, delta):
    """ε at δ of Rényi divergences, added up at the best order."""
    alpha = 1 + np.geomspace(1e-2, 1e5, 4001)
    total = np.array([objective.renyi(a - 1) for a in alpha]) + alpha * mu**2 / 2
    return (total + np.log1p(-1 / alpha) - (np.log(delta) + np.log(alpha)) / (alpha - 1)).min()


def test_slopes_of_either_sign_cost_a_little_more():
    """δ is at most twice as large, which is a few hundredths of ε."""
    one, two = (
        PerturbedObjective(9.0, 1e-3, kind).epsilon(1e-6, 0.1)
        for kind in ("one-sided", "two-sided")
    )
    assert one < two < 1.05 * one


@pytest.mark.parametrize("delta", [1e-6, 1e-19, 1e-30])
def test_one_more_release_never_costs_less(delta):
    """Also far in the tail: a Gaussian release alone costs no more than together with another."""
    mu = 1.0
    alone = next(e for e in np.linspace(0, 20, 4001) if gaussian(e, mu) <= delta)
    assert PerturbedObjective(1000.0, 0.001, "logistic").epsilon(delta, mu) >= alone - 0.01


def gaussian(epsilon, mu):
    first, second = (
        norm.logcdf(mu / 2 - epsilon / mu),
        epsilon + norm.logcdf(-mu / 2 - epsilon / mu),
    )
    return np.exp(first) * -np.expm1(second - first)
