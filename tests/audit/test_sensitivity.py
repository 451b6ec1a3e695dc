"""Sensitivities by adversarial search: never exceeded, and a halved one is caught."""

import numpy as np
import pytest
from scipy import optimize

import dpinfer as dp
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block
from dpinfer.rows.source import Rows
from helpers.support import LOSSES, Tripled


def worst_change(bounded, d, coef, seed=0):
    """Largest Frobenius change of a sum when one record is replaced, by random starts and local
    search.
    """
    rng = np.random.default_rng(seed)

    def change(flat):
        pair = flat.reshape(2, d)
        pair = pair / np.maximum(1, np.linalg.norm(pair, axis=1, keepdims=True))
        a, b = (bounded.of_block(Block(row[None], np.ones(1))) for row in pair)
        return float(np.linalg.norm(a - b))

    starts = rng.standard_normal((400, 2 * d))
    toward = coef / max(np.linalg.norm(coef), 1e-9)
    starts[:20] = np.concatenate([np.tile(toward, (20, 1)), starts[:20, d:]], axis=1)
    starts[20:40] = np.concatenate([np.tile(-toward, (20, 1)), starts[20:40, d:]], axis=1)
    best = sorted(starts, key=change)[-8:]
    found = [
        optimize.minimize(lambda f: -change(f), s, method="Nelder-Mead", options={"maxiter": 600})
        for s in best
    ]
    return max(-f.fun for f in found)


CASES = [(loss, scale) for loss in LOSSES for scale in (0.0, 0.5, 3.0, 20.0)]


@pytest.mark.parametrize(("loss", "scale"), CASES)
def test_guarantee_curvature_sensitivity(loss, scale):
    coef = scale * np.array([0.6, -0.8, 0.0])
    bounded = Risk.penalised(loss, 0.01, 10).curvature_sum(coef)
    assert bounded.bound == 2 * loss.curvature_bound
    worst = worst_change(bounded, 3, coef)
    assert worst <= bounded.bound
    if scale > 1 or loss.curvature(np.zeros(1)) > 0:  # where both records can have full curvature
        assert worst > 0.7 * bounded.bound  # so half the bound would be exceeded


@pytest.mark.parametrize(("loss", "scale"), CASES)
def test_guarantee_score_sensitivity(loss, scale):
    coef = scale * np.array([0.6, -0.8, 0.0])
    bounded = Risk.penalised(loss, 0.01, 10).score_sum(coef)
    worst = worst_change(bounded, 3, coef)
    assert worst <= bounded.bound
    assert worst > 0.5 * bounded.bound


@pytest.mark.parametrize(("loss", "scale"), CASES)
def test_guarantee_stacked_sensitivity(loss, scale):
    """Both matrices in one vector: never exceeded, and attained where the margins allow the worst
    slope.
    """
    coef = scale * np.array([0.6, -0.8, 0.0])
    risk = Risk.penalised(loss, 0.01, 10)
    bounded = risk.stacked_sum(coef)
    worst = worst_change(bounded, 3, coef)
    assert worst <= bounded.bound
    if scale == 3.0:
        assert worst > 0.85 * bounded.bound
    papers = {"Logistic": np.sqrt(2) * 1.0356, "HuberHinge": 2.0}[type(loss).__name__]
    assert bounded.bound == pytest.approx(papers)
    assert risk.stack_weight == {"Logistic": 4.0}.get(
        type(loss).__name__, 2 * getattr(loss, "knee", 0)
    )


def test_the_supremum_of_the_logistic_stack():
    u = np.linspace(0, 1, 1_000_001)
    assert 1.0355 < np.sqrt(((4 * u * (1 - u)) ** 2 + u**4).max()) < 1.0356


def test_score_sensitivity_is_the_papers_at_the_released_coefficients():
    coef = np.array([0.6, -0.8, 0.0])
    logistic, hinge = (
        Risk.penalised(loss, 0.01, 10).score_sum for loss in (dp.Logistic(), dp.HuberHinge(2.0))
    )
    assert logistic(coef).bound == pytest.approx(2 / (1 + np.exp(-1)) ** 2, rel=1e-12)
    assert hinge(coef).bound == 2.0
    assert hinge(0 * coef).bound == 2.0


def test_mutation_score_sensitivity_at_other_coefficients_is_caught():
    """Σ bounded at θ = 0 instead of the released θ~ is exceeded."""
    coef = np.array([1.8, -2.4, 0.0])
    risk = Risk.penalised(dp.Logistic(), 0.01, 10)
    assert worst_change(risk.score_sum(coef), 3, coef) > risk.score_sum(0 * coef).bound


class Spiky(Tripled):
    """A loss that breaks its promises at single points, which no grid finds."""

    def slope(self, z):
        return np.where(z == 0.625, 50.0, super().slope(z))

    def curvature(self, z):
        return np.where(z == 0.625, 50.0, super().curvature(z))


def test_a_sum_keeps_its_bound_even_if_the_loss_lies():
    risk, coef = Risk.penalised(Spiky(dp.HuberHinge(1.0)), 0.01, 1), np.array([0.625])
    row = np.ones((1, 1))
    for bounded in (risk.curvature_sum(coef), risk.score_sum(coef)):
        assert np.linalg.norm(bounded.of_block(Block(row, np.ones(1)))) == pytest.approx(
            bounded.bound / 2
        )


@pytest.mark.parametrize("loss", LOSSES)
def test_guarantee_minimiser_sensitivity(loss):
    rng = np.random.default_rng(0)
    for _ in range(300):
        n, d, c = int(rng.integers(1, 5)), int(rng.integers(1, 4)), 10 ** rng.uniform(-2, 1)
        risk = Risk.penalised(loss, c, n)
        rows = rng.standard_normal((n + 1, d))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        a, b = (
            minimum(risk, Rows.of(r, np.ones(n)).total, np.zeros(d)).coef
            for r in (rows[:-1], rows[1:])
        )
        assert np.linalg.norm(a - b) <= risk.minimiser_sensitivity() * (1 + 1e-9)


def test_minimiser_sensitivity_is_attained():
    """One record of the linear part of the hinge, turned round: the minimum moves by exactly
    1/(nc).
    """
    c = 2.0
    risk = Risk.penalised(dp.HuberHinge(0.5), c, 1)
    a, b = (minimum(risk, Rows.of([[s]], [1.0]).total, np.zeros(1)).coef for s in (1.0, -1.0))
    assert abs(a - b)[0] == pytest.approx(risk.minimiser_sensitivity(), rel=1e-9)
    assert risk.minimiser_sensitivity() == 1 / c
