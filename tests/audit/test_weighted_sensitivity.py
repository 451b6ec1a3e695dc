"""Sensitivities of the weighted sums by adversarial search, for both notions of neighbours: attained, not exceeded."""

from functools import partial

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit, logsumexp

import dpinfer as dp
from dpinfer.data.source import Rows
from dpinfer.maths import sums as maths_sums
from dpinfer.maths.capped import CappedLogistic
from dpinfer.maths.cost import PerturbedObjective, scale_with_ridge
from dpinfer.maths.losses import slope_kind
from dpinfer.maths.sums import Block, moment_and_score, row_weights, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.release import NoisySum, PerturbedMinimum
from support import follows, gate_of, weighted_risk

NOTIONS = (Neighbours.REPLACE, Neighbours.ADD_REMOVE)
LOSSES = {"logistic": dp.Logistic(), "capped": CappedLogistic()}
DIM = 3


def ridge_for(loss, rho):
    return scale_with_ridge(rho, loss.curvature_bound, slope_kind(loss))


def worst_change(bounded, neighbours, ball=False, polish=2):
    """Largest change of a sum between neighbours, by random starts and local search of the best of them.

    Rows may lie anywhere, or with ``ball`` in the unit ball.
    """
    rng = np.random.default_rng(0)

    def value(row, label):
        row = row / max(1, np.linalg.norm(row)) if ball else row
        return bounded.of_block(Block(row[None], np.array([label])).mapped(np.eye(DIM), Neighbours.REPLACE))

    def change(flat, labels):
        first = value(flat[:DIM], labels[0])
        second = value(flat[DIM:], labels[1]) if neighbours == "replace" else 0 * first
        return float(np.linalg.norm(first - second))

    best = 0.0
    for labels in ((1.0, 1.0), (1.0, -1.0)):
        points = rng.standard_normal((300, 2 * DIM)) * 10 ** rng.uniform(-1, 1.5, (300, 1))
        points = sorted(points, key=partial(change, labels=labels))
        best = max(best, change(points[-1], labels))
        for point in points[-polish:] if polish else ():
            least = partial(lambda flat, labels: -change(flat, labels), labels=labels)
            best = max(best, -optimize.minimize(least, point, method="Nelder-Mead", options={"maxiter": 500}).fun)
    return best


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_moment_sensitivity(neighbours):
    bounded = second_moment(neighbours)
    assert bounded.bound == {"replace": np.sqrt(2), "add-remove": 1.0}[neighbours]
    worst = worst_change(bounded, neighbours, ball=True)
    assert 0.99 * bounded.bound < worst <= bounded.bound * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_moment_and_score_sensitivity(neighbours):
    bounded = moment_and_score(neighbours)
    assert bounded.bound == pytest.approx({"replace": 1.590990, "add-remove": 1.118034}[neighbours], abs=1e-6)
    worst = worst_change(bounded, neighbours)
    assert 0.99 * bounded.bound < worst <= bounded.bound * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", NOTIONS)
@pytest.mark.parametrize("size", [0.0, 1.0, 5.0, 50.0])
@pytest.mark.parametrize(("loss", "once"), [("logistic", 1.0356), ("capped", 1.0441)])
def test_guarantee_weighted_stack_sensitivity(neighbours, size, loss, once):
    """At every released coefficient; attained where the margins allow the worst slope."""
    coef = size * np.array([0.6, -0.8, 0.0])
    bounded = weighted_risk(5.0, np.zeros(DIM), 10, neighbours, LOSSES[loss]).stacked_sum(coef)
    assert bounded.bound == pytest.approx({"replace": np.sqrt(2) * once, "add-remove": once}[neighbours])
    worst = worst_change(bounded, neighbours, polish=2 if loss == "logistic" else 6)
    assert worst <= bounded.bound
    if size == 5.0:
        assert worst > 0.97 * bounded.bound


def test_the_stacks_are_bounded_on_a_fine_grid():
    """The largest norm over all margins is the bound, to its last place; a third decimal less is exceeded."""
    z = np.linspace(-8, 8, 400_001)
    for name, (a, b, bound) in {"logistic": (4.0, 1.0, 1.0356), "capped": (3.2, 0.7, 1.0441)}.items():
        largest = np.hypot(a * LOSSES[name].curvature(z), b * LOSSES[name].slope(z) ** 2).max()
        assert bound - 5e-4 < largest < bound


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize("neighbours", NOTIONS)
def test_mutations_are_caught(neighbours, loss, monkeypatch):
    """A halved bound, no weight at all, or a weight without the square: all are exceeded."""
    risk = weighted_risk(5.0, np.zeros(DIM), 10, neighbours, loss)
    sums = [moment_and_score(neighbours), risk.stacked_sum(5 * np.array([0.6, -0.8, 0.0]))]
    for bounded in sums:
        assert worst_change(bounded, neighbours, polish=0) > bounded.bound / 2
    for mutant in (lambda u: np.ones(len(u)), lambda u: 1 / np.maximum(1, np.linalg.norm(u, axis=1))):
        monkeypatch.setattr(maths_sums, "row_weights", mutant)
        for bounded in sums:
            assert worst_change(bounded, neighbours, polish=0) > 2 * bounded.bound


def test_nobody_counts_beyond_the_weight_rule():
    u = np.random.default_rng(0).standard_normal((1000, 4)) * np.geomspace(1e-3, 1e6, 1000)[:, None]
    w, size = row_weights(u), np.linalg.norm(u, axis=1)
    assert (w * size**2 <= 1 + 1e-12).all()
    assert (w * size <= 1 + 1e-12).all()
    assert np.array_equal(w == 1, size <= 1)


def log_density(records, weights, risk, scale, t):
    """Log density of the minimum in one dimension: ν(b_D(t)) A_D(t); records are labels times rows."""
    margins = records[:, None] * t
    slope, bend = risk.loss.slope(margins), risk.loss.curvature(margins)
    b = -(weights[:, None] * records[:, None] * slope).sum(axis=0) - risk.ridge * (t - risk.centre[0])
    A = risk.ridge + (weights[:, None] * records[:, None] ** 2 * bend).sum(axis=0)
    return np.log(A) - (b / scale) ** 2 / 2


PAIRS = {
    "replace": [([1.0], [-1.0]), ([3.0, 1.0], [3.0, -1.0]), ([-1.0] * 3, [-1.0] * 2 + [4.0]), ([1.0], [0.0])],
    "add-remove": [([1.0], []), ([-1.0, 1.0], [-1.0]), ([2.0, -1.0], [-1.0]), ([0.7], [])],
}


def worst_ratio(loss, neighbours, scale_factor=1.0, weigh=row_weights):
    """Largest exact Rényi divergence over the claimed ρα, by quadrature."""
    ratios = []
    for rho in (0.01, 0.3, 2.0):
        risk = weighted_risk(ridge_for(loss, rho), np.array([1.5]), 4, neighbours, loss)
        scale = risk.perturbation_scale(rho) * scale_factor
        t = 1.5 + np.linspace(-1, 1, 40_001) * (12 * scale + 40) / risk.ridge
        for pair in PAIRS[neighbours]:
            p, q = (
                log_density(r, weigh(r[:, None]) if len(r) else r, risk, scale, t)
                for r in (np.array(side, float) for side in pair)
            )
            p, q = p - logsumexp(p), q - logsumexp(q)
            for alpha in (1.01, 2.0, 6.0):
                for a, b in ((p, q), (q, p)):
                    ratios.append(logsumexp(alpha * a + (1 - alpha) * b) / (alpha - 1) / (rho * alpha))
    return max(ratios)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_weighted_objective_perturbation(neighbours, loss):
    """One dimension: two records with opposite labels never both have slope 1, so replacing attains about half."""
    largest = worst_ratio(loss, neighbours)
    assert largest <= 1
    assert largest > {"replace": 0.2, "add-remove": 0.7}[neighbours]
    if neighbours == "add-remove":
        assert worst_ratio(loss, neighbours, scale_factor=0.8) > 1
    assert worst_ratio(loss, neighbours, scale_factor=0.4) > 1
    assert worst_ratio(loss, neighbours, weigh=lambda u: np.full(len(u), 3.0)) > 1


def test_a_ridge_that_no_noise_can_pay_for():
    with pytest.raises(dp.BudgetError, match="too small"):
        weighted_risk(1e-6, np.zeros(2), 1, loss=LOSSES["capped"]).perturbation_scale(0.01)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_ridge_and_noise_cost_their_share(loss):
    for rho in (1e-4, 0.01, 0.5, 20.0):
        s, shape, t = ridge_for(loss, rho), slope_kind(loss), loss.curvature_bound
        assert PerturbedObjective(s, t / s, shape).cost() <= rho
        assert PerturbedObjective(0.999 * s, t / (0.999 * s), shape).cost() > rho
        for neighbours, part in (("replace", 1), ("add-remove", 2)):
            risk = weighted_risk(s, np.zeros(2), 1, neighbours, loss)
            assert risk.perturbation_scale(rho) == pytest.approx(s / part, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize("neighbours", NOTIONS)
def test_the_noise_of_the_minimum_is_recovered(neighbours, loss):
    """b = -(gradient of the weighted risk) at the released point, written out record by record."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((60, DIM)) * 2, rng.choice([-1.0, 1.0], 60)
    rho, found = 0.8, []
    risk = weighted_risk(ridge_for(loss, rho), np.array([0.5, -1.0, 0.2]), 60, neighbours, loss)
    release, source = (
        PerturbedMinimum.of("estimate", dp.ZCDP(rho), risk),
        Rows(Block(X, y).mapped(np.eye(DIM), Neighbours.REPLACE)),
    )
    for seed in range(700):
        t = gate_of(seed, release).release(release, source, risk).value
        scores = [label * -expit(-label * (x @ t)) for x, label in zip(X, y, strict=True)]
        if loss == LOSSES["capped"]:  # v(p - y), p the probability of the label 1
            scores = [s * min(1.25, 1 / max(expit(x @ t), expit(-x @ t))) for s, x in zip(scores, X, strict=True)]
        slopes = [min(1, 1 / (x @ x)) * s * x for s, x in zip(scores, X, strict=True)]
        found.append(-np.sum(slopes, axis=0) - risk.ridge * (t - risk.centre))
    scale = ridge_for(loss, rho) / {"replace": 1, "add-remove": 2}[neighbours]
    b = np.ravel(found)
    assert follows(b, stats.norm(scale=scale))
    assert not follows(b, stats.norm(scale=1.2 * scale))
    assert not follows(b, stats.norm(scale=0.8 * scale))


def test_a_minimum_is_no_sum():
    risk, source = weighted_risk(5.0, np.zeros(DIM), 10, loss=LOSSES["capped"]), Rows(Block(np.eye(DIM), np.ones(DIM)))
    for share in (dp.PureDP(1.0), dp.ZCDP(1.0)):
        release = NoisySum("estimate", share)
        with pytest.raises(dp.PrivacyError, match="not its release"):
            gate_of(0, release).release(release, source, risk)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_the_values_of_the_stack(loss):
    """w f'' u uᵀ and w² f'² u uᵀ, for a row that is down-weighted."""
    u, y, coef = np.array([[1.2, -0.9]]), np.array([-1.0]), np.array([0.4, 0.3])
    w, p = 1 / (u**2).sum(), 1 / (1 + np.exp(-(u @ coef)[0]))
    v = 1.0 if loss == LOSSES["logistic"] else 1.25
    risk = weighted_risk(1.0, np.zeros(2), 1, loss=loss)
    hessian, score = risk.unstack(risk.stacked_sum(coef).of_block(Block(u, y).mapped(np.eye(2), Neighbours.REPLACE)), 2)
    assert np.allclose(hessian, v * w * p * (1 - p) * u.T @ u)
    assert np.allclose(score, (v * w * p) ** 2 * u.T @ u)
