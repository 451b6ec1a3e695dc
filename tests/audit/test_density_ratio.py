"""Exact audit of Algorithm 1: the closed density of its output, its worst ratio over adversarial
neighbours.

With b_D(θ) = -sum grad - λθ and A_D(θ) = λI + sum Hessians the output density is ν(b_D(θ)) det
A_D(θ), so log g_D/g_D' = γ(‖b_D'‖ - ‖b_D‖) + log det A_D - log det A_D'.
"""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block
from helpers.support import Tripled


def log_ratio(risk, rate, rest, record, other, coef):
    """log g_D(coef)/g_D'(coef), D = rest + record, D' = rest + other; rows already multiplied by
    their label.

    ``rest`` is the crowd's totals at ``coef``.
    """
    d = len(coef)

    def norm_and_determinant(row):
        sums = rest + risk.totals(coef)(Block(row[None], np.ones(1)))
        b = -sums[1 : d + 1] - risk.ridge * coef
        return np.linalg.norm(b), np.linalg.slogdet(
            sums[d + 1 :].reshape(d, d) + risk.ridge * np.eye(d)
        )[1]

    (norm, det), (norm2, det2) = norm_and_determinant(record), norm_and_determinant(other)
    return rate * (norm2 - norm) + det - det2


def worst_ratio(loss, ridge, epsilon, margins, rate=None):
    """An adversarial pair in two dimensions: θ is long along one axis, so tiny first coordinates
    set the margins, and the second coordinates of the two records point apart; a crowd without
    curvature aligns b with that axis.
    """
    n, length = 400_001, 1000.0
    risk = Risk.penalised(loss, ridge / (2 * n), n)
    rate = risk.perturbation_rate(epsilon) if rate is None else rate
    coef = np.array([-length, 0.0])

    def row(margin, side):
        return np.array([-margin / length, side * np.sqrt(1 - (margin / length) ** 2)])

    crowd = (n - 1) * risk.totals(coef)(Block(row(-25.0, 1.0)[None], np.ones(1)))
    return max(
        log_ratio(risk, rate, crowd, row(m, -1.0), row(m2, 1.0), coef)
        for m in margins
        for m2 in margins
    )


def test_slopes_beyond_one_are_counted():
    """Three times the hinge reaches the same ε with its own rate, and breaks it with the rate of
    slope 1.
    """
    margins, ridge = [0.5 + 1e-9, -20.0], 6.0
    loss = Tripled(dp.HuberHinge(0.5))
    assert 0.99 < worst_ratio(loss, ridge, 1.0, margins) <= 1 + 1e-9
    rate = 3 * Risk.penalised(loss, ridge / 800_002, 400_001).perturbation_rate(1.0)
    assert worst_ratio(loss, ridge, 1.0, margins, rate) > 1.5


def hinge_worst_ratio(knee, ridge, epsilon, rate=None):
    """Within the knee, at its steep end, slope and curvature are both at their bounds."""
    return worst_ratio(dp.HuberHinge(knee), ridge, epsilon, [1 - knee + 1e-9, -20.0, 1.0], rate)


def logistic_worst_ratio(ridge, epsilon, rate=None):
    return worst_ratio(dp.Logistic(), ridge, epsilon, -np.linspace(-1, 12, 40), rate)


def coupled_supremum(ridge, rate):
    """Largest γ(u1 + u2) + log(1 + u1(1 - u1)/λ) - log(1 + u2(1 - u2)/λ), as |f'| = u and f'' = u(1
    - u).
    """
    u = np.linspace(0, 1, 2001)
    bend = np.log1p(u * (1 - u) / ridge)
    return (rate * u + bend).max() + (rate * u - bend).max()


HINGES = [
    (knee, ridge, eps)
    for knee in (0.3, 0.5, 1.0, 2.0)
    for ridge in (2.0, 10.0)
    for eps in (0.7, 1.0, 3.0)
]
HINGES = [(h, r, e) for h, r, e in HINGES if e > np.log1p(1 / (2 * h * r))]


@pytest.mark.parametrize(("knee", "ridge", "epsilon"), HINGES)
def test_guarantee_objective_perturbation(knee, ridge, epsilon):
    worst = hinge_worst_ratio(knee, ridge, epsilon)
    assert worst <= epsilon * (1 + 1e-9)
    assert worst >= 0.99 * epsilon


@pytest.mark.parametrize(
    ("ridge", "epsilon"), [(1.0, 1.0), (0.5, 2.0), (5.0, 0.5), (20.0, 0.2), (8.0, 3.0)]
)
def test_logistic_reaches_its_coupled_supremum(ridge, epsilon):
    n = 400_001
    rate = Risk.penalised(dp.Logistic(), ridge / (2 * n), n).perturbation_rate(epsilon)
    worst, supremum = logistic_worst_ratio(ridge, epsilon), coupled_supremum(ridge, rate)
    assert worst <= epsilon
    assert worst <= supremum * (1 + 1e-9)
    assert worst >= 0.99 * supremum
    if ridge * rate >= 1:  # n c ε' >= 1
        assert supremum == pytest.approx(2 * rate, rel=1e-9)


@pytest.mark.parametrize(
    "loss", [dp.Logistic(), dp.HuberHinge(0.5), dp.HuberHinge(1.0), Tripled(dp.HuberHinge(0.5))]
)
def test_random_neighbours_never_exceed_epsilon(loss):
    rng = np.random.default_rng(0)
    for _ in range(
        2000 if not isinstance(loss, Tripled) else 50
    ):  # a loss of one's own is checked each time
        n, d, epsilon = int(rng.integers(1, 6)), int(rng.integers(1, 4)), float(rng.uniform(0.2, 3))
        risk = Risk.penalised(loss, 0, n)
        risk = Risk.penalised(loss, risk.smallest_penalty(epsilon) * rng.uniform(1.01, 20), n)
        rows = rng.standard_normal((n + 1, d))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        coef = rng.standard_normal(d) * 10 ** rng.uniform(-2, 2)
        rest = risk.totals(coef)(Block(rows[2:], np.ones(n - 1)))
        ratio = log_ratio(risk, risk.perturbation_rate(epsilon), rest, rows[0], rows[1], coef)
        assert ratio <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 3.0])
def test_mutation_without_kappa_is_caught(epsilon):
    """Rate ε/2 instead of ε'/2 breaks the promise on the Huberised hinge."""
    assert hinge_worst_ratio(0.5, 2.0, epsilon, rate=epsilon / 2) > 1.1 * epsilon


@pytest.mark.parametrize(("ridge", "epsilon"), [(2.0, 1.0), (4.0, 0.5), (10.0, 1.0), (0.7, 3.0)])
def test_the_sharp_logistic_constant(ridge, epsilon):
    """Where ncε >= 1 the logistic loss needs no κ: rate ε/2 reaches ε and does not exceed it."""
    n = 400_001
    rate = Risk.penalised(dp.Logistic(), ridge / (2 * n), n).perturbation_rate(epsilon, sharp=True)
    assert rate == epsilon / 2
    assert coupled_supremum(ridge, rate) <= epsilon * (1 + 1e-9)
    assert 0.99 * epsilon <= logistic_worst_ratio(ridge, epsilon, rate) <= epsilon * (1 + 1e-9)
    below = Risk.penalised(dp.Logistic(), 0.99 / epsilon / n, n)
    assert (
        below.perturbation_rate(epsilon, sharp=True)
        == below.perturbation_rate(epsilon)
        < epsilon / 2
    )
    assert (
        Risk.penalised(dp.HuberHinge(1.0), ridge, n).perturbation_rate(epsilon, sharp=True)
        < epsilon / 2
    )


def test_mutation_of_the_factor_two_is_caught():
    """Rate ε instead of ε'/2 breaks it on both losses."""
    assert hinge_worst_ratio(0.5, 10.0, 1.0, rate=1.0) > 1.9
    assert logistic_worst_ratio(5.0, 0.5, rate=0.5) > 0.9
