"""Exact audits of losses of the residual r = y - θx, written out here: a record's gradient is -x
f'(r).

The densities are those of tests/audit/test_renyi.py and test_density_ratio.py, in one dimension.
"""

import numpy as np
import pytest
from scipy import optimize
from scipy.special import logsumexp

import dpinfer as dp
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block
from dpinfer.rows.source import Rows
from helpers.support import Tripled

LOSSES = [
    dp.Huber(0.1),
    dp.Huber(0.5),
    dp.SmoothedQuantile(0.5, 0.1),
    dp.SmoothedQuantile(0.8, 0.05),
    Tripled(dp.Huber(0.1)),
]
losses = pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: f"{type(loss).__name__}-{loss.slope_bound:g}"
)


def noise_and_bend(loss, records, ridge, theta):
    """b_D(θ) and A_D(θ) on a grid of θ; records are pairs (x, y)."""
    x, y = (np.asarray(side, float)[:, None] for side in zip(*records, strict=True))
    r = y - x * theta
    return (x * loss.slope(r)).sum(axis=0) - ridge * theta, ridge + (x**2 * loss.curvature(r)).sum(
        axis=0
    )


def renyi(loss, pair, ridge, scale, orders):
    """D_α between the outputs on two data sets for some orders α, by the trapezoid rule."""
    reach = (12 * scale + (2 * max(orders) + len(pair[0])) * loss.slope_bound) / ridge
    theta = np.linspace(-reach, reach, 20_001)
    logs = []
    for records in pair:
        b, bend = noise_and_bend(loss, records, ridge, theta)
        logs.append(np.log(bend) - (b / scale) ** 2 / 2)
    p, q = (g - logsumexp(g) for g in logs)
    return [logsumexp(alpha * p + (1 - alpha) * q) / (alpha - 1) for alpha in orders]


CROWD = [(1.0, 0.0), (-1.0, 0.3)]
PAIRS = [
    ([(1.0, 1.0)], [(1.0, -1.0)]),
    ([(1.0, 1.0)], [(-1.0, 1.0)]),
    ([(1.0, -1.0)], [(-1.0, -1.0)]),
    ([*CROWD, (1.0, 1.0)], [*CROWD, (1.0, -1.0)]),
    ([(1.0, 0.0)], [(0.7, 1.0)]),
    ([(1.0, 0.1)], [(1.0, -1.0)]),
    ([(1.0, 0.0)], [(0.0, 0.0)]),
]
ORDERS = (1.01, 2.0, 8.0)
GRID = [(ridge, scale) for ridge in (0.5, 2.0, 20.0, 200.0) for scale in (0.7, 2.0, 6.0, 20.0)]


def worst(loss, scale_factor=1.0):
    """Largest ratio of an exact divergence to the claimed ρα, over pairs, sizes of noise and
    orders.
    """
    ratios = [0.0]
    for ridge, scale in GRID:
        rho = PerturbedObjective(scale, loss.curvature_bound / ridge, slope_kind(loss)).cost()
        for pair in PAIRS:
            found = renyi(loss, pair, ridge, scale * loss.slope_bound * scale_factor, ORDERS)
            ratios += [one / (rho * alpha) for one, alpha in zip(found, ORDERS, strict=True)]
    return max(ratios)


@losses
def test_renyi_divergences_stay_within_the_two_sided_cost_and_reach_it(loss):
    assert 0.95 < worst(loss) <= 1 + 1e-6


def test_mutation_less_noise_is_caught():
    assert worst(dp.Huber(0.1), scale_factor=0.95) > 1.02
    assert worst(dp.SmoothedQuantile(0.5, 0.1), scale_factor=0.95) > 1.02


def test_mutation_without_the_cost_of_curvature_is_caught():
    loss, ridge, scale = dp.Huber(0.1), 2.0, 60.0
    found = max(
        one / alpha
        for pair in PAIRS
        for alpha in (1.5, 3.0)
        for one in renyi(loss, pair, ridge, scale * 0.1, (alpha,))
    )
    assert found > 5 * 2 / scale**2
    assert found <= PerturbedObjective(scale, loss.curvature_bound / ridge, slope_kind(loss)).cost()


def log_ratio(loss, pair, ridge, rate, theta):
    """log g_D/g_D' of Algorithm 1 on a grid of θ."""
    (b, bend), (b2, bend2) = (noise_and_bend(loss, records, ridge, theta) for records in pair)
    return rate * (np.abs(b2) - np.abs(b)) + np.log(bend) - np.log(bend2)


def worst_ratio(loss, ridge, epsilon, rate=None):
    """Over records that are bent at some θ > 0 and steep, against records that are steep the other
    way.
    """
    n = 10
    rate = (
        Risk.penalised(loss, ridge / (2 * n), n).perturbation_rate(epsilon)
        if rate is None
        else rate
    )
    theta, found = np.linspace(-1, 1, 401), []
    for y in np.linspace(-1, 1, 41):
        for other in ((1.0, -1.0), (-1.0, 1.0), (1.0, 1.0), (-1.0, -1.0), (0.5, -1.0)):
            for x in (1.0, -1.0):
                pair = ([(x, y)], [other])
                found += [
                    log_ratio(loss, pair, ridge, rate, theta),
                    log_ratio(loss, pair[::-1], ridge, rate, theta),
                ]
    return np.max(found)


@losses
@pytest.mark.parametrize(("ridge", "epsilon"), [(2.0, 3.0), (10.0, 1.0), (50.0, 0.5)])
def test_the_density_ratio_stays_below_epsilon(loss, ridge, epsilon):
    k = loss.curvature_bound / ridge
    if np.log1p(k) >= epsilon:
        with pytest.raises(dp.BudgetError, match="too small"):
            worst_ratio(loss, ridge, epsilon)
        return
    largest = worst_ratio(loss, ridge, epsilon)
    assert largest <= epsilon * (1 + 1e-9)
    if isinstance(loss, dp.Huber):  # slope and curvature are at their bounds together, at the knee
        assert largest > 0.99 * epsilon


def test_mutations_of_the_rate_are_caught():
    """Without κ, and without the slope bound."""
    loss, ridge, epsilon = dp.Huber(0.1), 2.0, 1.0
    assert worst_ratio(loss, ridge, epsilon, rate=epsilon / (2 * loss.slope_bound)) > 1.3 * epsilon
    tripled = Tripled(loss)
    rate = Risk.penalised(loss, ridge / 20, 10).perturbation_rate(epsilon)
    assert worst_ratio(tripled, 3 * ridge, epsilon, rate=rate) > 1.5 * epsilon


def worst_change(bounded, coef, seed=0):
    """Largest Frobenius change of a sum when one record (x, y) is replaced, by random starts and
    local search.
    """
    d, rng = len(coef), np.random.default_rng(seed)

    def change(flat):
        parts = []
        for record in flat.reshape(2, d + 1):
            x = record[:d] / max(1, np.linalg.norm(record[:d]))
            parts.append(bounded.of_block(Block(x[None], np.clip(record[d:], -1, 1))))
        return float(np.linalg.norm(parts[0] - parts[1]))

    starts = rng.standard_normal((400, 2 * (d + 1)))
    best = sorted(starts, key=change)[-3:]
    found = [
        optimize.minimize(lambda f: -change(f), s, method="Nelder-Mead", options={"maxiter": 600})
        for s in best
    ]
    return max(-f.fun for f in found)


COEF = np.array([0.6, -0.8])
SUMS = [
    ("curvature_sum", lambda loss, risk: 2 * loss.curvature_bound, 0.7),
    ("score_sum", lambda loss, risk: 2 * loss.slope_bound**2, 0.7),
    ("stacked_sum", lambda loss, risk: risk.stacked_sum(COEF).bound, 0.9),
]


@losses
@pytest.mark.parametrize(("name", "stated", "attained"), SUMS, ids=[row[0] for row in SUMS])
def test_sensitivities_are_attained_and_never_exceeded(loss, name, stated, attained):
    """A factor sqrt 2 of the first two bounds is the triangle inequality's, as in the paper."""
    risk = Risk.penalised(loss, 0.01, 10)
    bounded = getattr(risk, name)(COEF)
    assert bounded.bound == pytest.approx(stated(loss, risk), rel=1e-4)
    largest = worst_change(bounded, COEF)
    assert attained * bounded.bound < largest <= bounded.bound * (1 + 1e-12)


def test_the_stacked_bounds():
    huber, quantile = dp.Huber(0.3), dp.SmoothedQuantile(0.8, 0.05)
    assert Risk.penalised(huber, 0.01, 10).stacked_sum(COEF).bound == pytest.approx(2 * 0.3**2)
    assert Risk.penalised(quantile, 0.01, 10).stacked_sum(COEF).bound == pytest.approx(
        2**0.5 * 1.0356 * 0.8**2
    )
    s = np.linspace(0, 1, 100_001)
    for tau in np.linspace(0.01, 0.99, 99):
        L = max(tau, 1 - tau)
        assert np.sqrt(((4 * L**2 * s * (1 - s)) ** 2 + (tau - s) ** 4).max()) <= 1.0356 * L**2


def test_mutation_residuals_no_larger_than_the_coefficients_is_caught():
    """The outcome moves a residual too: a slope bound over abs(r) <= ‖θ‖ is exceeded."""
    loss, coef = dp.Huber(2.0), np.array([0.3, 0.0])
    bounded = Risk.penalised(loss, 0.01, 10).score_sum(coef)
    assert bounded.bound == pytest.approx(2 * 1.3**2)
    assert worst_change(bounded, coef) > 4 * 2 * loss.slope_within(0.3) ** 2


@losses
def test_the_minimiser_moves_by_at_most_its_sensitivity(loss):
    rng, ratios = np.random.default_rng(0), []
    for _ in range(100):
        n, d, c = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 10 ** rng.uniform(-2, 1)
        risk = Risk.penalised(loss, c, n)
        rows, y = rng.standard_normal((n + 1, d)), rng.choice([-1, 1, 0.3], n + 1)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        a, b = (
            minimum(risk, Rows.of(rows[s], y[s], "residual").total, np.zeros(d)).coef
            for s in (slice(n), slice(1, n + 1))
        )
        ratios.append(np.linalg.norm(a - b) / risk.minimiser_sensitivity())
    assert 0.7 < max(ratios) <= 1 + 1e-9


def test_residual_losses_claim_no_one_sided_slope():
    """A tighter account for slopes of one sign is not theirs."""
    for loss in LOSSES:
        assert not getattr(loss, "nonincreasing", False)
        assert loss.slope(np.array([-1.0]))[0] < 0 < loss.slope(np.array([1.0]))[0]
