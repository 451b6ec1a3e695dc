"""Exact audit of the privacy profile of residual losses: hockey-sticks by quadrature, d = 1 and 2,
and its lemma.

Their slopes have either sign.  The profile allows a loss to be steep both ways, which one pair of
records is not: exact divergences stay below about half of it where it is small.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

import dpinfer as dp
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from helpers.exact import Pair, turned

LOSSES = [
    dp.Huber(0.1),
    dp.Huber(1.0),
    dp.SmoothedQuantile(0.5, 0.1),
    dp.SmoothedQuantile(0.8, 0.05),
]
losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)
LINE = [(0.5, 2.0), (0.5, 20.0), (2.0, 0.7), (20.0, 2.0), (200.0, 0.7), (200.0, 6.0)]
SLOPES = [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (0.1, 1.0), (0.0, -1.0)]
EPSILONS = (0.02, 0.1, 0.3, 1.0, 2.0)


def pairs(loss, dim):
    """A record and its replacement: equal, opposite, shorter and turned rows; outcomes that set
    slopes of any sign.
    """
    noise = loss.slope_bound
    if dim == 1:
        rows = [((1.0,), (1.0,)), ((1.0,), (-1.0,)), ((1.0,), (0.0,)), ((0.5,), (-1.0,))]
        return [
            Pair(
                loss,
                *way,
                ridge,
                noise * scale,
                outcomes=tuple((y,) for y in ys[:: 1 if way is pair else -1]),
            )
            for (ridge, scale), pair, ys in product(LINE, rows, SLOPES)
            for way in (pair, pair[::-1])
        ]
    turns = [
        (0.0, (0.0, 0.0)),
        (0.2, (0.0, -3.0)),
        (0.6, (0.0, 2.0)),
        (1.2, (0.0, 0.0)),
        (-0.6, (0.0, 0.0)),
    ]
    grid = [(2.0, 6.0), (20.0, 2.0), (200.0, 6.0)]
    crowd = ((np.cos(0.5), np.sin(0.5)),) * 2
    return [
        Pair(
            loss,
            others + a,
            others + b,
            ridge,
            noise * scale,
            centre,
            tuple((0.0,) * len(others) + (y,) for y in ys),
        )
        for (ridge, scale), (angle, centre), ys, others in product(
            grid, turns, SLOPES[:3], ((), crowd)
        )
        for a, b in [turned(angle)]
    ]


def claim(pair, noise=1.0, curvature=1.0):
    """The stated profile; for mutations with a multiple of the noise, or of the price of the
    curvature.
    """
    loss = pair.loss
    k = loss.curvature_bound / pair.ridge
    return PerturbedObjective(
        noise * pair.scale / loss.slope_bound, (1 + k) ** curvature - 1, slope_kind(loss)
    )


def worst(loss, dim, **mutation):
    """Largest ratio of an exact δ to the claimed one, over pairs and ε, among them some beyond the
    curvature.
    """
    ratios = [0.0]
    for pair in pairs(loss, dim):
        stated = claim(pair, **mutation)
        for epsilon, exact in divergences(pair, 4001 if dim == 1 else 161):
            ratios.append(exact / max(stated.delta(epsilon), 1e-300))
    return max(ratios)


@cache
def divergences(pair, points):
    """ε and the exact δ, where the claimed one is not next to nothing; mutations are held against
    the same ones.
    """
    _, hockey = pair.divergences(points)
    right = claim(pair)
    epsilons = (*EPSILONS, right.kappa, right.kappa + 3 / right.scale)
    return [(epsilon, hockey(epsilon)) for epsilon in epsilons if right.delta(epsilon) > 1e-9]


@losses
def test_on_a_line(loss):
    assert 0.8 < worst(loss, 1) <= 1


@losses
def test_in_the_plane(loss):
    assert 0.45 < worst(loss, 2) <= 1


@losses
def test_mutations_without_the_curvature_or_with_half_of_it_are_caught(loss):
    assert worst(loss, 1, curvature=0.0) > 100
    assert worst(loss, 1, curvature=0.5) > 10


@pytest.mark.parametrize("loss", [dp.Huber(0.1), dp.SmoothedQuantile(0.5, 0.1)], ids=repr)
def test_mutations_of_the_curvature_are_caught_in_the_plane(loss):
    """Where the noise is wide and one record bends in a strip that the other leaves straight."""
    rows = turned(0.3)
    pair = Pair(
        loss, *rows, loss.curvature_bound, 20 * loss.slope_bound, outcomes=((0.2,), (-0.3,))
    )
    _, hockey = pair.divergences()
    epsilon = 0.9 * claim(pair).kappa
    assert hockey(epsilon) <= claim(pair).delta(epsilon)
    assert hockey(epsilon) > 5 * claim(pair, curvature=0.5).delta(epsilon)
    assert hockey(epsilon) > 100 * claim(pair, curvature=0.0).delta(epsilon)


@pytest.mark.parametrize("loss", [dp.Huber(0.1), *LOSSES[2:]], ids=repr)
def test_mutation_less_noise_is_caught(loss):
    """For a wide knee the slopes are not opposite for long enough."""
    assert worst(loss, 1, noise=1.1) > 1.1


@pytest.mark.parametrize("mu", [0.1, 0.5])
@pytest.mark.parametrize("loss", [dp.Huber(0.1), dp.SmoothedQuantile(0.5, 0.1)], ids=repr)
def test_composed_with_a_gaussian_release(loss, mu):
    """The exact δ of both together, by quadrature over both losses: below the claimed one, above
    half the δ alone.
    """
    pair = Pair(loss, (1.0,), (-1.0,), 400.0, 2.0 * loss.slope_bound, outcomes=((1.0,), (1.0,)))
    _, hockey = pair.divergences()
    z = np.linspace(-8, 8, 401)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    for epsilon in (0.3, 1.0, 2.0):
        exact = sum(
            w * hockey(epsilon - mu * x - mu**2 / 2) for w, x in zip(weights, z, strict=True)
        )
        assert 0.4 * claim(pair).delta(epsilon, mu) < exact <= claim(pair).delta(epsilon, mu)
        assert claim(pair).delta(epsilon, mu) > claim(pair).delta(epsilon)


def profile_of(generators, signs, scale, a):
    """E(1 - e^{a-M})₊ in the plane, M the largest loss over all sums of parts of the generators: at
    its vertices.
    """
    axis = scale * np.linspace(-6, 6, 241)
    b = np.stack([side.ravel() for side in np.meshgrid(axis, axis)], axis=1)
    density = np.exp(-(b**2).sum(axis=1) / (2 * scale**2))
    parts = (-1.0, 1.0) if signs == 2 else (0.0, 1.0)
    vertices = np.array(list(product(parts, repeat=len(generators)))) @ generators
    largest = ((2 * b @ vertices.T + (vertices**2).sum(axis=1)) / (2 * scale**2)).max(axis=1)
    return (density * np.maximum(0, -np.expm1(a - largest))).sum() / density.sum()


@pytest.mark.parametrize(("signs", "shape"), [(1, "one-sided"), (2, "two-sided")])
@pytest.mark.parametrize("scale", [0.7, 2.0, 6.0])
def test_a_segment_is_the_worst_zonotope(signs, shape, scale):
    """For any number of generators of total length 2, and every a, also below 0; aligned ones
    attain the profile.
    """
    rng = np.random.default_rng(7)
    claimed = PerturbedObjective(scale, 0.0, shape)
    for a in (-1.0, 0.0, 0.3 / scale, 2 / scale**2, 2 / scale**2 + 3 / scale):
        for count in (1, 2, 3, 4):
            z = rng.standard_normal((count, 2))
            z *= 2 / np.linalg.norm(z, axis=1).sum()
            assert profile_of(z, signs, scale, a) <= claimed.delta(a) * (1 + 4e-3)
        aligned = np.array([[1.2, 0.0], [0.8, 0.0]])
        assert profile_of(aligned, signs, scale, a) == pytest.approx(claimed.delta(a), rel=4e-3)


def test_mutation_one_sign_for_slopes_of_either_is_caught():
    aligned, a = np.array([[1.0, 0.0], [1.0, 0.0]]), 1.5
    assert profile_of(aligned, 2, 2.0, a) > 1.9 * PerturbedObjective(2.0, 0.0, "one-sided").delta(a)
