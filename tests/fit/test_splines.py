"""Fits with splines: private ones near the ordinary ones, what follows from them, and what is not
reported.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.special import expit

import dpinfer as dp
from dpinfer.result.result import FitResult
from dpinfer.result.statements import REPORTED, TOO_FEW_EVENTS

TEXT = """
[columns.ill]
type = "outcome"
levels = [false, true]
[columns.cost]
type = "outcome"
low = -20
high = 40
[columns.visits]
type = "integer"
low = 0
high = 60
[columns.age]
type = "integer"
low = 18
high = 90
[columns.sex]
type = "category"
levels = ["f", "m"]
"""
SCHEMA = dp.Schema.parse(TEXT)
KNOTS = (35, 50, 65)
SPLINE = "ns(age, 35, 50, 65)"


def people(n=40_000, seed=3):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, n)
    sex = rng.choice(["f", "m"], n)
    curve = np.sin((age - 18) / 15) + 0.4 * (sex == "m")
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "ill": rng.random(n) < expit(curve - 0.5),
            "cost": 5 * curve + rng.normal(0, 3, n),
            "visits": rng.poisson(np.exp(curve)).clip(0, 60),
        }
    )


TABLE = people()
MODELS = {
    "ill": dp.LogisticRegression,
    "cost": dp.LinearRegression,
    "visits": dp.PoissonRegression,
}


def fitted(outcome, right=f"{SPLINE} + sex", budget=None, table=TABLE):
    budget = dp.ZCDP(0.5) if budget is None else budget
    model = MODELS[outcome](f"{outcome} ~ {right}", schema=SCHEMA, budget=budget, insecure_seed=1)
    return model.fit(table)


@pytest.mark.parametrize("outcome", MODELS)
@pytest.mark.parametrize("right", [f"{SPLINE} + sex", "bs(age, 35, 65) + sex", f"{SPLINE}*sex"])
def test_a_private_curve_is_near_the_ordinary_one(outcome, right):
    """The same seeded noise every time: all lines are there, within five standard errors of the
    ordinary ones and not much longer.
    """
    private = fitted(outcome, right).result_
    plain = fitted(outcome, right, dp.NoPrivacy()).result_
    assert private.names == plain.names
    assert private.reported.all()
    slopes = slice(1, None)  # the intercept of a private fit is that of the centre
    off = np.abs(private.estimate - plain.estimate)[slopes]
    assert (off < 5 * private.std_error[slopes]).all()
    assert (private.std_error[slopes] < 6 * plain.std_error[slopes]).all()


def test_without_noise_it_is_statsmodels_with_the_same_columns():
    """cr of formulaic and ns span the same curves: the same predictions."""
    model = fitted("ill", budget=dp.NoPrivacy())
    table = TABLE.assign(y=TABLE["ill"].astype(int), male=(TABLE["sex"] == "m").astype(int))
    theirs = smf.logit(
        "y ~ cr(age, knots=[35, 50, 65], lower_bound=18, upper_bound=90) + male - 1",
        table,
    ).fit(disp=False, method="newton", tol=1e-12)
    assert model.predict_proba(TABLE)[:, 1] == pytest.approx(theirs.predict(table), rel=1e-6)


@pytest.mark.parametrize("right", [SPLINE, "bs(age, 35, 65)", "poly(age, 3, centre=50)"])
def test_average_effects_move_all_columns_of_a_curve(right):
    """The derivative of the prediction, not that of one column; at the centre it is not told."""
    result = fitted("ill", right).result_
    rows = pd.DataFrame({"age": [30, 45, 60]})
    found = {row["name"]: row for row in result.margins(rows).reset_index().to_dict("records")}
    up = result.predict(pd.DataFrame({"age": [31, 46, 61]}))["prediction"]
    down = result.predict(pd.DataFrame({"age": [29, 44, 59]}))["prediction"]
    assert set(found) == {"age"}
    expected = np.mean((up.to_numpy() - down.to_numpy()) / 2)
    assert found["age"]["effect"] == pytest.approx(expected, rel=0.02)
    assert result.margins().reset_index()["status"].str.contains("give rows").all()


def test_hypotheses_name_the_curve_and_its_reference():
    result = fitted("cost", f"{SPLINE}*sex").result_
    whole = result.wald("ns(age)")
    assert whole.df == 4
    assert result.wald("ns(age):sex").df == 4
    difference = result.contrast("ns(age)[50] - ns(age)[35]")
    line = result.contrast("ns(age)[50]")
    assert difference.estimate == line.estimate
    sentences = result.question.sentences()
    assert "Compared with: sex[f], ns(age)[35]." in sentences


def test_a_saved_result_knows_its_curve(tmp_path):
    result = fitted("ill").result_
    result.save(tmp_path / "result.json")
    again = FitResult.load(tmp_path / "result.json")
    rows = pd.DataFrame({"age": [20, 50, 200], "sex": ["f", "m", "f"]})
    assert again.predict(rows).equals(result.predict(rows))


def test_b_splines_without_events_near_an_end_are_not_reported():
    """Nobody below 35 is ill: no number is told of the curve, whose neighbours would make up for it;
    a natural spline and the other columns are there.  With events everywhere all are told.
    """
    silent = TABLE.assign(ill=TABLE["ill"] & (TABLE["age"] >= 35))
    partial = fitted("ill", "bs(age, 35, 65) + sex", table=silent).result_
    statuses = dict(zip(partial.names, partial.statuses, strict=True))
    for name, status in statuses.items():
        if name.startswith("bs("):
            assert status == TOO_FEW_EVENTS
    assert statuses["sex[m]"] == REPORTED
    told = fitted("ill", "bs(age, 35, 65) + sex").result_
    assert told.reported.all()


def test_a_fit_costs_no_range_of_a_spline():
    """A spline alone has no column whose range is released."""
    releases = fitted("ill", SPLINE).result_.privacy
    assert "scales" not in str(releases)
    assert "scales" in str(fitted("ill", "age").result_.privacy)


def test_forecasts_and_studies_take_curves():
    forecast = dp.simulate.forecast(
        dp.LogisticRegression(f"ill ~ {SPLINE} + sex", schema=SCHEMA, budget=dp.ZCDP(0.5)),
        records=20_000,
        replicates=2,
    )
    assert "ns(age)[50]" in str(forecast.table())
