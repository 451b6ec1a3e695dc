"""The dry run warns by public facts alone, in the same words for logistic regression and least
squares.
"""

import re

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.maths.joint import SIGNAL
from dpinfer.schema.design import Design

APPROX = dp.ApproxDP(1.0, 1e-6)


def design(d):
    return Design.of_bounds((np.zeros(d), np.ones(d)), tuple(f"x{j}" for j in range(d)))


def test_the_advice_is_about_public_facts():
    assert LinearSteps(design(3), dp.LinearPlan(APPROX)).advice(20_000) == ""
    told = LinearSteps(design(3), dp.LinearPlan(APPROX)).advice(400)
    assert told.startswith("4 coefficients are more than this budget carries at 400 records")
    assert LinearSteps(design(100), dp.LinearPlan(APPROX)).advice(60_000)
    assert not LinearSteps(design(20), dp.LinearPlan(APPROX)).advice(20_000)
    assert not LinearSteps(design(100), dp.LinearPlan(dp.ZCDP(20.0))).advice(20_000)


def test_the_advice_of_logistic_regression():
    few = LogisticSteps(design(3), dp.GeometryPlan(APPROX))
    assert few.advice(20_000) == ""
    assert few.advice(1000).startswith(
        "4 coefficients are more than this budget carries at 1,000 records"
    )
    assert LogisticSteps(design(200), dp.GeometryPlan(APPROX)).advice(20_000)
    assert not LogisticSteps(design(200), dp.GeometryPlan(dp.ZCDP(20.0))).advice(20_000)


def test_the_words_are_shared():
    squares = LinearSteps(design(100), dp.LinearPlan(APPROX)).advice(5000)
    logistic = LogisticSteps(design(100), dp.GeometryPlan(APPROX)).advice(5000)
    assert re.sub(r"have [\d.]+ times", "", squares) == re.sub(r"have [\d.]+ times", "", logistic)


@pytest.mark.parametrize("n", [100, 310, 10_000])
@pytest.mark.parametrize("d", [1, 5, 50])
def test_strength_is_records_over_what_they_need(n, d):
    """One record in twenty: 15 of them where noise is small, else what is clear of the noise of the
    curvature.
    """
    plan, columns = dp.LinearPlan(dp.ZCDP(1e6)), design(d).columns
    assert plan.strength(columns, n) == pytest.approx(n / 20 / 15)
    plan, d = dp.LinearPlan(dp.ZCDP(0.01)), len(columns)
    noise = plan.scales().hessian * max(1.0, plan.scales().kappa(d, n) * d / 20)
    assert SIGNAL * noise > 15
    assert plan.strength(columns, n) == pytest.approx(
        n / 20 / (noise * max(SIGNAL, np.sqrt(2 * d)))
    )


@pytest.mark.parametrize(
    ("n", "d", "ample"), [(5000, 20, False), (20_000, 20, True), (20_000, 100, False)]
)
def test_the_advice_tells_what_happens(n, d, ample):
    """Levels that one record in twenty has: all are reported where nothing is said, fewer where
    there is a warning.
    """
    rng = np.random.default_rng(0)
    X = (rng.random((n, d)) < 1 / 20) * 1.0
    y = X @ rng.normal(0, 0.1, d) + rng.normal(0, 1, n)
    model = dp.LinearRegression(bounds=(0, 1), outcome=(-8, 8), budget=APPROX, insecure_seed=1)
    recipe = model.recipe(model.read(X, y)[0], n)
    assert (recipe.advice(n) == "") == ample
    assert model.fit(X, y).result_.reported.all() == ample
