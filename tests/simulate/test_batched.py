"""Many fits at once are the product's fits one by one."""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.mechanisms.losses import Logistic, kind
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.noise_laws import SphericalLaplace
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from dpinfer.simulate import batched
from dpinfer.simulate.batched import TOLERANCE, Engine
from dpinfer.simulate.population import Population, bootstrap_counts
from helpers.support import LOSSES as MARGIN_LOSSES
from helpers.support import RESIDUAL_LOSSES, labelled, numeric

N = 1500
D = 4
C = 0.005
K = 20
X, Y = labelled(N, D)
_, OUTCOMES = numeric(N, D)
LOSSES = [*MARGIN_LOSSES, *RESIDUAL_LOSSES]
COUNTS = bootstrap_counts(1, range(K), N)
B = SphericalLaplace(0.25).sample(np.random.default_rng(0), (K, D))


class Plain:
    """A user's loss: no declared Lipschitz constant, so its certificate is the measured gradient."""

    slope_bound, curvature_bound = 1.0, 0.25
    value, slope, curvature = Logistic().value, Logistic().slope, Logistic().curvature


def outcomes(loss):
    return Y if kind(loss) == "margin" else OUTCOMES


def engine(loss, penalty=C, n=N):
    rows = Rows.of(X[:n], outcomes(loss)[:n], kind(loss))
    return Engine(Population.of_records(rows), Risk.penalised(loss, penalty, n))


@pytest.mark.parametrize("loss", [*LOSSES, Plain()])
def test_a_batch_is_the_product_fit_of_each_replicate(loss):
    """Rows repeated by their counts, fitted one by one without privacy."""
    batch = engine(loss).fit(COUNTS, np.zeros((K, D)))
    assert np.all(batch.certificate <= TOLERANCE)
    for r in range(0, K, 5):
        rows = np.repeat(np.arange(N), COUNTS[r])
        one = dp.infer(X[rows], outcomes(loss)[rows], loss=loss, penalty=C, budget=dp.NoPrivacy())
        assert np.allclose(batch.coef[r], one.estimate, atol=1e-8)
        assert np.allclose(batch.curvature[r] / N + 2 * C * np.eye(D), one.hessian, atol=1e-6)
        known = 4 * C**2 * np.outer(batch.coef[r], batch.coef[r])
        assert np.allclose(batch.score[r] / N - known, one.score_cov, atol=1e-6)


@pytest.mark.parametrize("loss", [*LOSSES, Plain()])
def test_the_certificate_bounds_the_true_gradient(loss):
    fitted = engine(loss)
    batch = fitted.fit(COUNTS, B)
    for r in range(K):
        margin = kind(loss) == "margin"
        z = Y * (X @ batch.coef[r]) if margin else OUTCOMES - X @ batch.coef[r]
        slope = COUNTS[r] * loss.slope(z) * (Y if margin else -1)
        gradient = slope @ X / N + 2 * C * batch.coef[r] + B[r] / N
        assert np.linalg.norm(gradient) <= batch.certificate[r] + 1e-14
        assert batch.certificate[r] <= TOLERANCE


def test_the_certificate_is_tight_where_the_curvature_changes_fastest():
    """Equal records at the steepest point of f'': the bound is the true gradient, so half of it
    would be too small.
    """
    point, step, n = np.log(2 + np.sqrt(3)), 1e-3, 50
    lone = Engine(
        Population.of_records(Rows.of(np.ones((n, 1)), np.ones(n))),
        Risk.penalised(dp.Logistic(), 0.01, n),
    )
    loss, start = dp.Logistic(), np.array([[point + step / 2]])
    bend = float(loss.curvature(start[0])[0]) + 0.02
    tilt = (
        step * bend - float(loss.slope(start[0])[0]) - 0.02 * start
    )  # the gradient at the start asks for this step
    batch = lone._newton(np.ones((1, n), dtype=np.uint8), start, tilt)
    true = abs(float(loss.slope(batch.coef[0])[0]) + 0.02 * batch.coef[0, 0] + tilt[0, 0])
    assert 0.9 * batch.certificate[0] < true <= batch.certificate[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
def test_large_perturbations_are_repeated_until_they_are_certified(loss, size):
    small = engine(loss, n=60, penalty=0.02)
    counts = bootstrap_counts(2, range(30), 60)
    linear = SphericalLaplace(D / size).sample(np.random.default_rng(1), (30, D))
    batch = small.fit(counts, linear)
    assert np.all(batch.certificate <= TOLERANCE)
    for r in range(30):
        assert np.allclose(
            batch.coef[r], small._fit_one(counts[r].astype(float), linear[r]), atol=1e-6
        )


def test_what_fails_goes_to_the_certified_minimiser(monkeypatch):
    monkeypatch.setattr(batched, "PASSES", 1)
    monkeypatch.setattr(batched, "CHORDS", 1)
    batch = engine(dp.HuberHinge(0.5)).fit(COUNTS, B)
    assert np.all(batch.certificate <= TOLERANCE)
    monkeypatch.undo()
    assert np.allclose(batch.coef, engine(dp.HuberHinge(0.5)).fit(COUNTS, B).coef, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_tiles_change_nothing(loss):
    first, second = engine(loss), engine(loss)
    second.rows_in_tile = 97
    a, b = first.fit(COUNTS, B), second.fit(COUNTS, B)
    assert np.allclose(a.coef, b.coef, atol=1e-10)
    assert np.allclose(a.curvature, b.curvature, rtol=1e-7)


def test_which_recipes_can_be_run_at_once():
    """Fits with a penalty, of records that count alike; None says that others cannot be."""
    population = Population.of_records(Rows.of(X, Y))
    recipe = Penalised(Design.of_rows(D), dp.Logistic(), default_plan(dp.ZCDP(0.5)), penalty=C)
    trial = batched.batched_trial(recipe, population, 3)
    assert (trial.recipe, trial.population, trial.seed) == (recipe, population, 3)
    units = Population.of_records(Rows.of(X, Y).counted(1.0, np.arange(N) // 2))
    assert batched.batched_trial(recipe, units, 3) is None
    stepped = LogisticSteps(Design.of_rows(D), dp.GeometryPlan(dp.ZCDP(0.5)))
    assert batched.batched_trial(stepped, population, 3) is None
