"""Fits with derived columns, end to end: on every kind of table, saved, predicted from, forecast."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.rows.encoded import Encoding
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.tables.memory import FormulaReader
from helpers.derived import BASE, SCHEMA, TEXT, table

FRAME = table(6000)
FORMULA = "any_claim ~ senior + coast + month(admitted) + income"
BY_HAND = {"senior": FRAME["age"] >= 65, "smoker": FRAME["smoker"], "income": FRAME["income"]}


def model(formula, cls=dp.LogisticRegression, schema=SCHEMA, **options):
    options = {"budget": dp.ZCDP(50.0), "insecure_seed": 0, **options}
    return cls(formula, schema=schema, **options)


def logit(columns, answers):
    design = sm.add_constant(pd.DataFrame(columns).astype(float))
    return sm.Logit(answers.astype(float), design).fit(disp=0)


@pytest.mark.parametrize("left", ["claims > 0", "any_claim", "not claims == 0"])
@pytest.mark.parametrize("right", ["senior + smoker + income", "age >= 65 + smoker + income"])
def test_without_noise_a_comparison_is_that_of_statsmodels(left, right):
    found = model(f"{left} ~ {right}", budget=dp.NoPrivacy(), target="unpenalised").fit(FRAME)
    theirs = logit(BY_HAND, FRAME["claims"] > 0)
    assert np.allclose(found.result_.estimate, theirs.params, atol=1e-6)
    assert list(found.classes_) == [False, True]


FITS = {
    "a comparison on the left": (
        "claims > 0 ~ age >= 65 + smoker",
        dp.LogisticRegression,
        "age >= 65",
    ),
    "levels on the left": ("region in ('north', 'east') ~ smoker", dp.LogisticRegression, None),
    "a cut": ("claims ~ cut(age, 40, 65)", dp.LinearRegression, "cut(age, 40, 65)[65 or more]"),
    "a derived column": ("any_claim ~ senior + coast", dp.LogisticRegression, "senior"),
    "dates": ("any_claim ~ senior + admitted + weekday(admitted)", dp.LogisticRegression, "senior"),
    "counts": ("claims ~ senior*smoker + year(admitted)", dp.PoissonRegression, "senior"),
    "a robust fit": ("claims ~ senior + group", dp.HuberRegression, None),
}


@pytest.mark.parametrize(("formula", "cls", "moved"), FITS.values(), ids=FITS)
def test_fits(formula, cls, moved):
    """The true effect of age is there, and a saved result predicts the same."""
    result = model(formula, cls).fit(FRAME).result_
    if moved is not None:
        assert result.conf_int()[result.names.index(moved), 0] > 0
    again = dp.FitResult.from_json(result.to_json())
    assert again.question == result.question
    rows = FRAME.head(5)
    assert again.predict(rows).equals(result.predict(rows))
    assert "nan" not in result.summary()


def test_every_kind_of_table_gives_the_same_fit(tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_parquet(tmp_path / "t.parquet")
    tables = [FRAME, pl.from_pandas(FRAME), tmp_path / "t.csv", tmp_path / "t.parquet"]
    fits = [model(FORMULA).fit(one).result_.estimate for one in tables]
    for estimate in fits[1:]:
        assert np.array_equal(estimate, fits[0])


def test_persons_have_derived_columns_too():
    unit = '[unit]\nname = "one person"\ncolumn = "who"\nrows = "average"\n'
    schema = dp.Schema.parse(unit + TEXT.replace('unit = "one person"\n', ""))
    frame = FRAME.assign(who=np.arange(len(FRAME)) // 2)
    result = model(FORMULA, schema=schema).fit(frame).result_
    assert result.question.derived == SCHEMA.derived_from(["any_claim", "senior", "coast"])
    text = TEXT.replace("age >= 65", "who >= 65")
    with pytest.raises(dp.InputError, match="'who' holds the ids or the weights: leave it out"):
        dp.Schema.parse(unit + text.replace('unit = "one person"\n', ""))


def test_the_encoding_travels():
    """A reader is sent to the workers of a cluster, each of which reads a part of the table."""
    response, terms = parse("claims > 0 ~ senior + coast + month(admitted) + group", SCHEMA)
    encoding = Encoding(Design.of_formula(response, terms, "margin"), "margin")
    reader = FormulaReader(response, terms, encoding)
    there = pickle.loads(pickle.dumps(reader))
    whole = list(reader.blocks(FRAME))
    parts = [*there.blocks(FRAME[:1000]), *there.blocks(FRAME[1000:])]
    for what in ("rows", "labels"):
        one, other = (
            np.concatenate([getattr(block, what) for block in blocks]) for blocks in (whole, parts)
        )
        assert np.array_equal(one, other)


def test_predictions_and_margins():
    """Effects of what is derived are those of its levels; a number that is compared does not move
    them.
    """
    result = model("claims > 0 ~ age >= 65 + cut(income, 4) + smoker").fit(FRAME).result_
    rows = FRAME.head(300)
    effects = result.margins(rows)["effect"]
    assert list(effects.index) == ["age >= 65", "cut(income, 4)[4 or more]", "smoker"]
    old = result.predict(rows.assign(age=80.0))["prediction"]
    young = result.predict(rows.assign(age=20.0))["prediction"]
    assert effects["age >= 65"] == pytest.approx((old - young).mean(), abs=1e-12)
    rich = result.predict(rows.assign(income=9.0))["prediction"]
    poor = result.predict(rows.assign(income=1.0))["prediction"]
    assert effects.iloc[1] == pytest.approx((rich - poor).mean(), abs=1e-12)
    one = {"age": 70, "income": 3, "smoker": True}
    assert 0 < result.predict(one)["prediction"].item() < 1


def test_margins_of_dates_and_years():
    formula = "claims ~ admitted + year(admitted) + month(admitted)"
    result = model(formula, dp.LinearRegression, budget=dp.NoPrivacy()).fit(FRAME).result_
    effects = result.margins(FRAME.head(50))["effect"]
    named = dict(zip(result.names, result.estimate, strict=True))
    assert effects["admitted"] == pytest.approx(named["admitted"], rel=1e-6)
    assert effects["year(admitted)"] == pytest.approx(named["year(admitted)"], rel=1e-6)
    june = "month(admitted)[June]"
    assert effects[june] == pytest.approx(named[june], rel=1e-9)


def test_a_number_and_its_comparison_move_apart():
    result = model("claims ~ income + income > 4", dp.LinearRegression).fit(FRAME).result_
    effects = result.margins(FRAME.head(50))["effect"]
    named = dict(zip(result.names, result.estimate, strict=True))
    assert effects["income"] == pytest.approx(named["income"], rel=1e-6)
    assert effects["income > 4"] == pytest.approx(named["income > 4"], rel=1e-9)


def test_tests_name_comparisons():
    result = model("claims > 0 ~ age >= 65 + region == 'north'").fit(FRAME).result_
    assert result.wald("age >= 65 = 0, region == north = 0").df == 2
    cut = model("claims > 0 ~ cut(age, 40, 65) + smoker").fit(FRAME).result_
    assert cut.wald("cut(age, 40, 65)").df == 2
    both = result.contrast("age >= 65 - region == north")
    assert both.estimate == pytest.approx(result.estimate[1] - result.estimate[2])


def test_results_say_what_is_derived():
    result = model(FORMULA).fit(FRAME).result_
    assert "senior: age >= 65" in result.question.bounds()
    assert "admitted: from 2019-03-05 to 2022-12-31" in result.question.bounds()
    assert "any_claim is True (against False)" in result.summary()


def test_forecasts_need_no_table():
    asked = model(FORMULA, budget=dp.ZCDP(1.0), insecure_seed=None)
    found = dp.simulate.forecast(asked, records=3000, replicates=2)
    assert "senior" in str(found.to_frame())


def test_a_forecast_draws_the_share_that_follows_from_its_columns():
    schema = dp.Schema.parse(BASE.replace("high = 40", "high = 40\ntypical = { mean = 4, sd = 3 }"))
    asked = model("claims > 20 ~ income", schema=schema, budget=dp.ZCDP(1.0), insecure_seed=None)
    assert dp.simulate.forecast(asked, records=3000, replicates=2) is not None


@pytest.mark.parametrize(
    ("formula", "cls"),
    [
        ("claims > 0 ~ age", dp.LinearRegression),
        ("smoker ~ age", dp.HuberRegression),
        ("any_claim ~ age", dp.PoissonRegression),
    ],
)
def test_a_regression_explains_no_answer(formula, cls):
    with pytest.raises(dp.InputError, match="true or false, which a classifier explains"):
        model(formula, cls).fit(FRAME)
