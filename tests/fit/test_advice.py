"""The dry run warns by public facts alone, in the same words for logistic regression and least
squares.
"""

import json
import re
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from studies.asked import budget

import dpinfer as dp
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.inference.constants import MIN_SIGNAL
from dpinfer.schema.design import Design

APPROX = dp.ApproxDP(1.0, 1e-6)


def design(d):
    return Design.of_bounds((np.zeros(d), np.ones(d)), tuple(f"x{j}" for j in range(d)))


def test_the_advice_is_about_public_facts():
    assert LinearSteps(design(3), dp.LinearPlan(APPROX)).advice(20_000) == ""
    told = LinearSteps(design(3), dp.LinearPlan(APPROX)).advice(400)
    assert told.startswith("this budget may be too small for 4 coefficients at 400 records")
    assert LinearSteps(design(100), dp.LinearPlan(APPROX)).advice(60_000)
    assert not LinearSteps(design(20), dp.LinearPlan(APPROX)).advice(20_000)
    assert not LinearSteps(design(100), dp.LinearPlan(dp.ZCDP(20.0))).advice(20_000)


def test_the_advice_of_logistic_regression():
    few = LogisticSteps(design(3), dp.GeometryPlan(APPROX))
    assert few.advice(20_000) == ""
    assert few.advice(1000).startswith(
        "this budget may be too small for 4 coefficients at 1,000 records"
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
    assert MIN_SIGNAL * noise > 15
    assert plan.strength(columns, n) == pytest.approx(
        n / 20 / (noise * max(MIN_SIGNAL, np.sqrt(2 * d)))
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


STUDIES = Path(__file__).parents[2] / "studies"


def easy(model, n, d, seed=0):
    """Columns at their bounds, half of the records at each, and no effects: nothing is easier."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (n, d + 1))
    return (
        model(bounds=(-1, 1), **{dp.LinearRegression: {"outcome": (-1, 1)}}.get(model, {})),
        signs[:, 1:],
        signs[:, 0],
    )


@pytest.mark.parametrize("model", [dp.LogisticRegression, dp.LinearRegression])
@pytest.mark.parametrize("d", [1, 3, 12])
def test_a_fit_that_is_told_to_be_hopeless_prints_hardly_a_line(model, d):
    """On data as easy as can be; and budgets that print a line in ten are not warned of."""
    n = 300
    asked, X, y = easy(model, n, d)
    warned = []
    for rho in 10 ** np.arange(-5.0, 2.6, 0.5):
        asked.set_params(budget=dp.ZCDP(rho))
        futility = bool(asked.recipe(asked.read(X, y)[0], n).futility(n))
        warned.append(futility)
        if futility and rho > 1e-3:
            with warnings.catch_warnings(action="ignore", category=dp.LowBudgetWarning):
                fits = [asked.set_params(insecure_seed=seed).fit(X, y).result_ for seed in range(8)]
            assert np.mean([fit.reported.mean() for fit in fits]) < 0.1
    assert warned[0]
    assert not warned[-1]
    assert warned == sorted(warned, reverse=True)


def test_no_fit_of_the_studies_is_told_to_be_hopeless_that_prints():
    geometry = json.loads((STUDIES / "geometry/results/geometry.json").read_text(encoding="utf-8"))
    linear = json.loads((STUDIES / "linear/results/linear.json").read_text(encoding="utf-8"))
    logistic = [(cell, LogisticSteps, dp.GeometryPlan) for cell in geometry]
    squares = [(cell, LinearSteps, dp.LinearPlan) for cell in linear["cells"]]
    assert len(logistic) + len(squares) > 100
    for cell, steps, plan in (*logistic, *squares):
        recipe = steps(design(cell["d"] - 1), plan(budget(cell["budget"])))
        assert cell["printed"] < 0.1 or not recipe.futility(cell["n"])


def test_the_warning_comes_before_the_booking():
    asked, X, y = easy(dp.LogisticRegression, 300, 3)
    book = dp.Ledger(dp.ZCDP(1.0))
    asked.set_params(budget=dp.ZCDP(1e-4), ledger=book)
    with (
        warnings.catch_warnings(action="error", category=dp.LowBudgetWarning),
        pytest.raises(dp.LowBudgetWarning, match="whatever the 300 records hold"),
    ):
        asked.fit(X, y)
    assert book.entries() == ()
    with pytest.warns(dp.LowBudgetWarning, match="The budget is spent all the same") as told:
        asked.fit(X, y)
    assert told[0].filename == __file__
    assert len(book.entries()) == 1


def test_what_is_refused_is_not_warned_of(monkeypatch):
    """A fault comes first: nothing would be booked."""
    asked, X, y = easy(dp.LogisticRegression, 300, 3)
    monkeypatch.setenv("DPINFER_THREADS", "-1")
    with (
        warnings.catch_warnings(action="error", category=dp.LowBudgetWarning),
        pytest.raises(dp.InputError, match="DPINFER_THREADS"),
    ):
        asked.set_params(budget=dp.ZCDP(1e-4)).fit(X, y)


def test_a_rare_outcome_is_hopeless_where_the_schema_says_so():
    """With 400 of 20,000 records a fit is worth its budget, with 8 it is not; least squares does
    not ask.
    """
    recipe = LogisticSteps(design(3), dp.GeometryPlan(APPROX))
    assert recipe.futility(20_000) == recipe.futility(20_000, 0.02) == ""
    assert "with an outcome that 0.04% of them have" in recipe.futility(20_000, 0.0004)
    assert recipe.futility(20_000, 0.9996)
    assert recipe.futility(20_000, 0.0)
    assert not LinearSteps(design(3), dp.LinearPlan(APPROX)).futility(20_000, 0.0)
    columns = {"y": dp.Schema.parse('[columns.y]\ntype = "outcome"\nlevels = ["n", "y"]\n')["y"]}
    schema = dp.Schema(columns)
    model = dp.LogisticRegression("y ~ 1", schema=schema, budget=dp.ZCDP(0.5))
    table = {"y": np.where(np.arange(4000) % 2, "n", "y")}
    frame = pd.DataFrame(table)
    assert model.fit(frame).result_.reported.all()
    rare = dp.LogisticRegression(
        "y ~ 1", schema=schema.guess({"y": {"y": 0.001}}), budget=dp.ZCDP(0.5)
    )
    with pytest.warns(dp.LowBudgetWarning, match=r"that 0\.1% of them have"):
        rare.fit(frame)


def test_a_private_number_of_records_is_never_told_to_be_too_small():
    plan = dp.GeometryPlan(dp.ZCDP(1e-6), neighbours="add-remove")
    assert LogisticSteps(design(3), plan).futility(10) == ""


def test_the_bound_takes_no_time():
    recipe = LogisticSteps(design(50), dp.GeometryPlan(APPROX))
    recipe.releases(1000)  # sizes the noise, which every fit does
    times = []
    for _ in range(20):
        began = time.process_time()
        recipe.futility(1000)
        times.append(time.process_time() - began)
    assert min(times) < 0.005
