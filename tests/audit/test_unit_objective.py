"""Exact audits of objective perturbation with units of several rows: divergences, density ratios,
determinants.
"""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import OF_UNITS, PerturbedObjective
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block
from dpinfer.privacy.release import LaplaceMinimum
from helpers.exact import Pair

LOSSES = [dp.Logistic(), dp.HuberHinge(0.5)]
NAMES = {"ids": lambda loss: type(loss).__name__}
NOISES = [(2.0, 2.0), (6.0, 2.0), (20.0, 6.0)]  # ridge, scale
ORDERS = (1.05, 2.0, 6.0)


def claim(loss, ridge, scale):
    return PerturbedObjective(scale, loss.curvature_bound / ridge, slope_kind(loss) + OF_UNITS)


def unit(rng, dim, rank, angle, spread):
    """Rows of norm 1 near one direction, or anywhere; weights that add up to 1."""
    rows = rng.standard_normal((rank, dim))
    if dim == 2 and spread is not None:
        turned = angle + spread * rng.standard_normal(rank)
        rows = np.stack([np.cos(turned), np.sin(turned)], axis=1)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return tuple(map(tuple, rows)), tuple(rng.dirichlet(np.full(rank, 3.0)))


def pairs(loss, dim, ridge, scale, count):
    """Units of 1 to 3 rows, nearly aligned and opposite where both are steep, or in any direction."""
    rng = np.random.default_rng(0)
    for step in range(count):
        angle, wide = [(0.1, -80.0), (0.3, -20.0), (0.6, -9.0), (1.0, 0.0)][step % 4]
        spread = None if step % 3 == 2 else 0.05 * (step % 3)
        centre = (0.0, wide * min(1.0, 6 / scale)) if dim == 2 else (rng.standard_normal() * 2,)
        first, a = unit(rng, dim, 1 + step % 3, angle, spread)
        second, b = unit(rng, dim, 2 + step % 2, np.pi - angle, spread)
        yield Pair(loss, first, second, ridge, scale, centre, weights=(a, b))


def worst(loss, dim, noise=1.0, count=12):
    """Largest exact Rényi divergence over the claimed ρα, and largest hockey-stick over the claimed
    δ.
    """
    renyi, profile = [0.0], [0.0]
    for ridge, scale in NOISES:
        claimed = claim(loss, ridge, scale / noise)
        rho, epsilons = claimed.cost(), np.array([0.25, 0.7, 1.5]) * 2 / scale + claimed.kappa
        for pair in pairs(loss, dim, ridge, scale, count):
            divergence, hockey = pair.divergences(points=201 if dim == 2 else 4001)
            renyi += [divergence(alpha) / (rho * alpha) for alpha in ORDERS]
            profile += [hockey(epsilon) / claimed.delta(epsilon) for epsilon in epsilons]
    return max(renyi), max(profile)


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
def test_guarantee_unit_objective_perturbation(loss):
    """By quadrature in the plane and on a line; nearly aligned rows come near."""
    for dim in (1, 2):
        renyi, profile = worst(loss, dim)
        assert max(renyi, profile) <= 1 + 1e-4
    assert renyi > 0.9
    assert profile > 0.8


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
def test_mutation_less_noise_is_caught(loss):
    """A tenth less noise than was booked."""
    renyi, _ = worst(loss, 2, noise=0.9, count=8)
    assert renyi > 1.05


def two_bent_rows(scale, ridge=1.0, knee=0.5, points=400):
    """Logarithms of the densities of two orthogonal rows of weight 1/2, and of no row, where both
    rows bend; cells.
    """
    loss, span = dp.HuberHinge(knee), np.linspace(1 - knee, 1 + knee, points + 1)
    theta = np.stack(
        np.meshgrid((span[1:] + span[:-1]) / 2, (span[1:] + span[:-1]) / 2), axis=-1
    ).reshape(-1, 2)
    b = -(
        0.5 * loss.slope(theta) + ridge * (theta - 1.0)
    )  # a margin is a coordinate; the ridge is centred at (1, 1)
    bend = np.log(ridge + 0.5 * loss.curvature(theta)).sum(axis=1)
    plain = -math.log(2 * math.pi * scale**2)
    with_unit = plain + bend - (b**2).sum(axis=1) / (2 * scale**2)
    without = (
        plain + 2 * math.log(ridge) - (ridge**2 * (theta - 1.0) ** 2).sum(axis=1) / (2 * scale**2)
    )
    return with_unit, without, (span[1] - span[0]) ** 2


def test_mutation_kappa_of_a_row_is_caught_in_the_profile_and_in_divergences():
    """Two rows bend in two directions: the determinant moves by (1 + k/2)², which is more than 1 +
    k.
    """
    p, q, cell = two_bent_rows(200.0)
    row, units = (PerturbedObjective(200.0, 1.0, "one-sided" + of) for of in ("", OF_UNITS))
    hockey = (
        np.maximum(np.exp(p) - np.exp(0.75 + q), 0).sum() * cell
    )  # of that part alone: no more is needed
    assert hockey > 100 * row.delta(0.75)
    assert hockey <= units.delta(0.75)
    beyond = 1000.0
    divergence = (logsumexp(p + beyond * (p - q)) + np.log(cell)) / beyond
    assert divergence > 1.02 * row.renyi(beyond)
    assert divergence <= units.renyi(beyond)


def split(k, alpha, parts):
    """φ of an eigenvalue k, or of ``parts`` equal ones that add up to it."""
    return parts * (alpha * math.log1p(k / parts) - math.log1p(alpha * k / parts))


@pytest.mark.parametrize("k", [0.01, 0.3, 0.7, 2.0, 10.0])
@pytest.mark.parametrize("shape", ["one-sided", "two-sided"])
def test_the_growing_bound_covers_every_rank(k, shape):
    """Also where k sqrt(α) is above 1 and one row is no longer the worst."""
    for part in (0.01, 0.3, 0.5, 0.99):
        beyond = part / k
        alpha, x = 1 + beyond, beyond * (1 + beyond)
        down = -beyond * math.log1p(k) - math.log1p(-part)
        for parts in (1, 2, 3, 10):
            exact = 2 / 9 + (split(k, alpha, parts) + down) / x
            assert exact <= PerturbedObjective(3.0, k, shape + OF_UNITS).growing(beyond) * (
                1 + 1e-9
            )


def test_mutation_the_growing_bound_of_a_row_is_exceeded_beyond_its_range():
    k, beyond = 10.0, 0.05
    x = beyond * (1 + beyond)
    down = -beyond * math.log1p(k) - math.log1p(-beyond * k)
    several = 2 / 9 + (split(k, 1 + beyond, 2) + down) / x
    assert several > 1.01 * PerturbedObjective(3.0, k, "one-sided").growing(beyond)


def positive(rng, dim, rank, trace):
    root = rng.standard_normal((dim, rank)) * rng.gamma(0.5, 1, rank)
    return root @ root.T * trace / np.trace(root @ root.T)


def logdet(matrix):
    return np.linalg.slogdet(matrix)[1]


def test_determinants_of_any_rank():
    """The three inequalities of the proof on random matrices; κ = log(1 + k) is exceeded."""
    rng, most = np.random.default_rng(0), 0.0
    for _ in range(3000):
        dim, k = int(rng.integers(1, 6)), 10 ** rng.uniform(-2, 0.8)
        alpha = 1 + rng.uniform(0.001, 0.999) / k
        (p, q), ranks = k * rng.uniform(0.1, 1, 2), rng.integers(1, dim + 1, 2)
        rest = np.eye(dim) + (positive(rng, dim, dim, rng.gamma(1)) if rng.random() < 0.5 else 0)
        one, other = positive(rng, dim, ranks[0], p), positive(rng, dim, ranks[1], q)
        moved = alpha * logdet(rest + one) + (1 - alpha) * logdet(rest + other)
        moved -= logdet(rest + alpha * one + (1 - alpha) * other)
        down = -(alpha - 1) * math.log1p(q) - math.log1p(-(alpha - 1) * q)
        assert moved <= alpha * (alpha - 1) * p**2 / 2 + down + 1e-9
        if p * math.sqrt(alpha) <= 1:
            assert moved <= split(p, alpha, 1) + down + 1e-9
        assert logdet(rest + one) - logdet(rest) <= p + 1e-9
        most = max(most, (logdet(rest + one) - logdet(rest)) - math.log1p(p))
    assert most > 0.3


def log_ratio(risk, rate, unit, other, theta, pull=0.0):
    """log g_D/g_D' at θ for two units; a unit is rows times labels, and their weights.

    ``pull`` is what all other records add to -b, over the ridge: they may be many, and steep
    without a bend.
    """
    d, found = len(theta), []
    for rows, weights in (unit, other):
        sums = risk.totals(theta)(Block(np.asarray(rows), np.ones(len(rows)), np.asarray(weights)))
        b = -sums[1 : d + 1] - risk.ridge * (theta - pull)
        found.append(
            (np.linalg.norm(b), logdet(sums[d + 1 :].reshape(d, d) + risk.ridge * np.eye(d)))
        )
    (norm, det), (norm2, det2) = found
    return rate * (norm2 - norm) + det - det2


def orthogonal_rows(dim, ridge=1.0, knee=0.5):
    """d orthogonal rows of weight 1/d at the steep end of their bend, against one steep row that
    points away.
    """
    risk = Risk(dp.HuberHinge(knee), ridge, 1, Adjacency.REPLACE_UNIT)
    theta = np.full(dim, 1 - knee + 1e-9)
    away = -np.ones(dim) / math.sqrt(dim)
    pair = (np.eye(dim), np.full(dim, 1 / dim)), (away[None], np.ones(1))
    return risk, (*pair, theta, theta + 1e6 * away)


def test_mutation_the_pure_rate_of_a_row_is_caught():
    """Two orthogonal rows of weight 1/2: .859 at ε = .75 with κ = log(1 + k)."""
    risk, pair = orthogonal_rows(2)
    row = Risk(risk.loss, risk.ridge, 1, Adjacency.REPLACE)
    rate = row.perturbation_rate(0.75)
    assert log_ratio(risk, rate, *pair) == pytest.approx(0.859, abs=1e-3)
    with pytest.raises(dp.BudgetError, match=r"must exceed 0\.666667"):
        risk.perturbation_rate(0.75)  # k = 1: nothing is left of ε


@pytest.mark.parametrize(
    ("dim", "ridge", "epsilon"), [(1, 1.0, 1.1), (2, 1.0, 1.1), (40, 1.0, 1.02), (40, 4.0, 0.3)]
)
def test_the_pure_rate_of_units_holds(dim, ridge, epsilon):
    """It is attained, nearly, by many rows in many directions."""
    risk, pair = orthogonal_rows(dim, ridge)
    ratio = log_ratio(risk, risk.perturbation_rate(epsilon), *pair)
    assert ratio <= epsilon
    if dim == 40:
        assert ratio > 0.92 * epsilon


@pytest.mark.parametrize("loss", [dp.Logistic(), dp.HuberHinge(0.5), dp.Huber(0.5)], ids=repr)
@pytest.mark.parametrize("sharp", [False, True])
def test_random_units_never_exceed_epsilon(loss, sharp):
    """With the smallest penalty and above; where the logistic loss keeps all of ε as well."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        d, epsilon = int(rng.integers(1, 5)), float(rng.uniform(0.2, 3))
        k = epsilon / rng.uniform(1.01, 10)
        risk = Risk(loss, loss.curvature_bound / k, 1, Adjacency.REPLACE_UNIT)
        pull = 10 * rng.standard_normal(d)
        assert risk.penalty > risk.smallest_penalty(epsilon)
        units = []
        for size in rng.integers(1, 6, 2):
            rows = rng.standard_normal((size, d))
            units.append(
                (rows / np.linalg.norm(rows, axis=1, keepdims=True), rng.dirichlet(np.ones(size)))
            )
        theta = rng.standard_normal(d) * 10 ** rng.uniform(-1, 1)
        ratio = log_ratio(risk, risk.perturbation_rate(epsilon, sharp=sharp), *units, theta, pull)
        assert ratio <= epsilon * (1 + 1e-9)


def test_the_sharp_logistic_constant_of_units():
    """γP + P(1 - P)/λ is largest at P = 1 where γλ >= 1, and not below."""
    steep = np.linspace(0, 1, 2001)
    for rate, free in ((1.0, True), (1.5, True), (0.8, False)):
        found = (rate * steep + steep * (1 - steep)).max()
        assert (found <= rate * (1 + 1e-12)) == free
    risk = Risk.penalised(dp.Logistic(), 0.01, 100, Adjacency.REPLACE_UNIT)
    booked = LaplaceMinimum.of("estimate", dp.PureDP(1.1), risk, sharp=True)
    assert booked.sharp
    assert booked.units
    assert booked.cost() == pytest.approx(1.1)
    plain = LaplaceMinimum.of("estimate", dp.PureDP(1.1), risk, sharp=False)
    assert plain.cost() == pytest.approx(1.1)
    assert 2 * plain.rate == pytest.approx(1.1 * 0.999 - risk.loss.curvature_bound / risk.ridge)
    with pytest.raises(dp.PrivacyError, match="another loss or unit"):
        plain.noise(Risk.penalised(dp.Logistic(), 0.01, 100))


def test_the_price_of_many_rows():
    """σ = λ = s: a few thousandths above the cost of rows."""
    for s in (100.0, 10.0, 1.2, 0.4):
        row = PerturbedObjective(s, 0.25 / s, "logistic").cost()
        units = PerturbedObjective(s, 0.25 / s, "logistic of units").cost()
        assert 1 < units / row < 1.0045
    known = [
        PerturbedObjective(s, 0.25 / s, "logistic of units").cost() * s**2 / 2
        for s in (100.0, 10.0, 3.0, 1.2)
    ]
    assert known == pytest.approx([1.0312, 1.0305, 1.0289, 1.0259], abs=1e-4)


@pytest.mark.parametrize("kind", ["logistic", "one-sided", "two-sided"])
@pytest.mark.parametrize(("scale", "k"), [(0.7, 0.05), (3.0, 0.7), (20.0, 2.0), (3.0, 10.0)])
def test_one_bound_grows_and_the_other_falls(scale, k, kind):
    """The certificate of the cost, also over the jump of the growing bound to the form for every
    rank.
    """
    release = PerturbedObjective(scale, k, kind + OF_UNITS)
    below, above = np.geomspace(1e-3, 0.999, 60) / k, np.geomspace(1e-3, 1e4, 90) / k
    grown, fallen = (
        np.array([f(b) for b in x]) for f, x in ((release.growing, below), (release.falling, above))
    )
    assert np.all(np.diff(grown) >= -1e-9 * np.minimum(grown[1:], 1e300))
    assert np.all(np.diff(fallen) <= 1e-9 * fallen[1:])
    assert max(release.renyi(b) / (1 + b) for b in above) <= release.cost() * (1 + 1e-6)
    assert release.cost() >= PerturbedObjective(scale, k, kind).cost() * (1 - 1e-9)


@pytest.mark.parametrize("loss", LOSSES, **NAMES)
def test_one_unit_added_or_removed_has_half_the_noise(loss):
    """Exact divergences in the plane with σ = s/2 and one side without the unit."""
    ridge, scale = 6.0, 2.0
    claimed = claim(loss, ridge, scale)
    assert Risk(loss, ridge, 1, Adjacency.ADD_REMOVE_UNIT).perturbed(scale / 2) == claimed
    rng, ratios = np.random.default_rng(1), []
    for step in range(6):
        rows, weights = unit(rng, 2, 1 + step % 3, np.pi / 2, 0.05)
        sides = [(rows, weights), (((0.0, 0.0),), (1.0,))]
        for way in (sides, sides[::-1]):
            pair = Pair(
                loss,
                way[0][0],
                way[1][0],
                ridge,
                scale / 2,
                (0.0, -3.0),
                weights=(way[0][1], way[1][1]),
            )
            renyi, _ = pair.divergences(points=201)
            ratios += [renyi(alpha) / (claimed.cost() * alpha) for alpha in ORDERS]
    assert 0.8 < max(ratios) <= 1 + 1e-4
