"""What was regressed stands in every file, and the files alone are enough to predict."""

import csv
import dataclasses
import io
import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpinfer as dp
from dpinfer.result.statements import MAYBE_UNUSABLE, REPORTED, TOO_NOISY, UNUSABLE
from dpinfer.schema.columns import Category, Number, Outcome

SCHEMA = dp.Schema.parse(
    """
unit = "one person"
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
[columns.spent]
type = "number"
low = 0
high = 500
unit = "euro"
[columns.age]
type = "integer"
low = 18
high = 100
unit = "year"
[columns.income]
type = "number"
low = 1000
high = 150000
[columns.health]
type = "category"
levels = ["good", "fair", "poor"]
[columns.insured]
type = "boolean"
"""
)
LOGISTIC = "visit ~ age + log(income) + health * insured"
LINEAR = "log(1 + spent) ~ age + I(age ** 2) + C(health, 'fair')"


def table(n=6000, seed=1):
    rng = np.random.default_rng(seed)
    age, income = rng.integers(18, 96, n), rng.lognormal(10.2, 0.6, n).round()
    health, insured = (
        rng.choice(["good", "fair", "poor"], n, p=[0.5, 0.3, 0.2]),
        rng.random(n) < 0.6,
    )
    z = -2 + 0.03 * age + 0.8 * (health == "poor") - 0.01 * income / 1000 + 0.4 * insured
    visit = np.where(rng.random(n) < 1 / (1 + np.exp(-z)), "yes", "no")
    spent = np.exp(2 + z / 2 + 0.4 * rng.standard_normal(n)) - 1
    columns = {"visit": visit, "age": age, "income": income, "health": health, "insured": insured}
    return pd.DataFrame(columns | {"spent": spent})


TABLE = table()


def logistic(formula=LOGISTIC, **options):
    options = {"budget": dp.ZCDP(5.0)} | options
    return dp.LogisticRegression(formula, schema=SCHEMA, insecure_seed=3, **options).fit(TABLE)


def linear(formula=LINEAR, **options):
    return dp.LinearRegression(
        formula, schema=SCHEMA, budget=dp.ZCDP(5.0), insecure_seed=3, **options
    ).fit(TABLE)


@pytest.fixture(scope="module")
def visits():
    return logistic()


@pytest.fixture(scope="module")
def amounts():
    return linear()


def test_a_question_has_what_is_public(visits, amounts):
    asked = visits.result_.question
    assert (asked.formula, asked.outcome, asked.levels, asked.yes) == (
        LOGISTIC,
        "visit",
        ("no", "yes"),
        "yes",
    )
    assert asked.references == (("health", "good"),)
    assert {column.name: type(column) for column in asked.columns} == {
        "visit": Outcome, "age": Number, "income": Number, "health": Category, "insured": Number,
    }  # fmt: skip
    asked = amounts.result_.question
    assert (asked.outcome, asked.yes, asked.references) == (
        "log(1 + spent)",
        None,
        (("health", "fair"),),
    )
    assert (asked.low, asked.high) == (0.0, np.log(501))


def test_questions_of_arrays_and_of_bare_rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(0, 2, 500), "b": rng.uniform(-1, 1, 500)})
    y = np.where(rng.random(500) < 0.5, "in", "out")
    options = {"bounds": ([0, -1], [2, 1]), "budget": dp.ZCDP(5.0), "insecure_seed": 1}
    result = dp.LogisticRegression(classes=("out", "in"), **options).fit(X, y).result_
    assert result.question.columns == (Number("a", 0.0, 2.0), Number("b", -1.0, 1.0))
    assert (result.question.yes, result.question.asked) == ("in", "y ~ a + b")
    assert dp.FitResult.from_json(result.to_json()).question == result.question
    inside = result.predict({"a": [1.0, 2.0], "b": 0.5})["prediction"]
    assert np.array_equal(inside, result.predict(np.array([[1.0, 0.5], [2.0, 0.5]]))["prediction"])
    with pytest.raises(dp.InputError, match="2 columns: a, b"):
        result.predict([[1.0]])
    numeric = dp.LinearRegression(outcome=(0, 4), **options).fit(X, X["a"] + 1).result_
    assert (numeric.question.low, numeric.question.high, numeric.question.levels) == (0.0, 4.0, ())
    bare = dp.infer(
        X / 4, np.where(y == "in", 1, -1), loss=dp.Logistic(), penalty=0.1, budget=dp.NoPrivacy()
    )
    assert bare.question is None
    with pytest.raises(dp.InputError, match="does not know its columns"):
        bare.predict({"x1": 0.1, "x2": 0.1})


@pytest.mark.parametrize("which", ["visits", "amounts"])
def test_a_question_is_saved_exactly(which, request):
    result = request.getfixturevalue(which).result_
    again = dp.FitResult.from_json(result.to_json())
    assert again.question == result.question
    assert again.to_json() == result.to_json()
    rows = TABLE.head(50)
    pd.testing.assert_frame_equal(again.predict(rows), result.predict(rows), check_exact=True)


def by_hand(numbers, centre, rows, ends):
    """The linear predictor of `LOGISTIC` from numbers by name, with nothing but their names for a
    guide.
    """
    columns = {
        "age": rows["age"],
        "log(income)": np.log(rows["income"].clip(1000, 150000)),
        "insured": rows["insured"].astype(float),
    }
    for level in ("fair", "poor"):
        columns[f"health[{level}]"] = (rows["health"] == level).astype(float)
        columns[f"health[{level}]:insured"] = columns[f"health[{level}]"] * columns["insured"]
    for name, (low, high) in ends.items():  # numbers that were winsorised
        columns[name] = columns[name].clip(low, high)
    slopes = {name: value for name, value in numbers.items() if not name.startswith("(Intercept")}
    assert columns.keys() == slopes.keys()
    at_zero = numbers["(Intercept at 0)"] + sum(slopes[name] * columns[name] for name in slopes)
    at_centre = numbers["(Intercept)"] + sum(
        slopes[name] * (columns[name] - centre[name]) for name in slopes
    )
    return at_zero, at_centre


@pytest.mark.parametrize("rho", [5.0, 0.005, 0.002])
def test_predicting_from_the_files_alone_is_exact(rho):
    """With a small budget some columns are not reported: what they count in predictions is in the files,
    too.
    """
    model = logistic(budget=dp.ZCDP(rho))
    result, rows = model.result_, TABLE.head(200)
    assert result.reported.all() == (rho == 5.0)
    saved = json.loads(result.to_json())
    shown = saved["reading"]["coefficients"]
    centre = dict(zip(saved["names"][1:], saved["geometry"]["centre"], strict=True))
    numbers = dict(zip(saved["names"], saved["in_predictions"], strict=True))
    numbers["(Intercept at 0)"] = shown[-1]["in_predictions"]
    sheet = list(csv.DictReader(io.StringIO(dp.report.csv(result))))
    told = {row["name"]: float(row["in_predictions"]) for row in sheet if not row["instead_of"]}
    places = {row["name"]: float(row["centre"]) for row in sheet if row["centre"]}
    geometry = saved["geometry"]
    ranges = zip(geometry["low"], geometry["high"], strict=True)
    ends = {
        name: pair
        for name, pair in zip(saved["names"][1:], ranges, strict=True)
        if name in geometry["clipped"]
    }
    for guess in (*by_hand(numbers, centre, rows, ends), *by_hand(told, places, rows, ends)):
        assert np.allclose(guess, model.decision_function(rows), rtol=1e-12, atol=1e-12)
        assert np.allclose(1 / (1 + np.exp(-guess)), result.predict(rows)["prediction"], rtol=1e-12)
    assert float(model.intercept_[0]) == pytest.approx(numbers["(Intercept at 0)"], rel=1e-14)


def test_every_view_names_the_outcome_and_what_it_is_compared_with(visits, amounts):
    for result, outcome, reference in (
        (visits.result_, "visit", "good"),
        (amounts.result_, "log(1 + spent)", "fair"),
    ):
        views = [result.summary(), result.to_json(), dp.report.csv(result), dp.report.html(result)]
        views += [
            dp.report.markdown(result),
            result.to_markdown(),
            result.to_latex(),
            result._repr_html_(),
        ]
        for view in views:
            assert outcome in view
            assert reference in view
        assert outcome in repr(result)
    for view in (
        visits.result_.summary(full=True),
        dp.report.html(visits.result_),
        dp.report.markdown(visits.result_),
    ):
        plain = " ".join(view.replace("\\", "").split())
        assert "visit is yes (against no)" in plain
        assert "from 18 to 100 year" in plain
        assert "Records usable: all 6,000" in plain
        assert "The ordinary intercept" in plain
        assert "Released centre: age" in plain


def test_the_ordinary_intercept_is_a_contrast_of_reported_coefficients(visits):
    result = visits.result_
    row = result.ordinary_intercept(0.9)
    same = result.contrast(np.append(1.0, -result.geometry.centre), 0.9)
    for key in ("estimate", "std_error", "low", "high", "p_value"):
        assert row[key] == pytest.approx(getattr(same, key))
    assert row["status"] == "reported"
    assert result.table()[0]["estimate"] != row["estimate"]
    assert row["std_error"] > result.std_error[0]  # 0 is far from the data


def test_without_an_interval_of_every_slope_the_ordinary_intercept_has_none(visits):
    result = visits.result_
    status = ["reported"] * len(result.names)
    status[2] = TOO_NOISY
    kept = np.delete(np.eye(len(status)), 2, axis=0)
    part = dataclasses.replace(
        result, status=tuple(status), error=result.error.mapped(kept), joint=None
    )
    row = part.ordinary_intercept()
    assert np.isnan([row["estimate"], row["std_error"], row["p_value"]]).all()
    assert (row["low"], row["high"]) == (-np.inf, np.inf)
    assert "log(income)" in row["status"]
    assert row["in_predictions"] == result.ordinary_intercept()["estimate"]
    words = " ".join(part.summary(full=True).split())
    assert "log(income)" in words.split("The ordinary intercept")[1].split("Released centre")[0]


def test_a_penalised_fit_has_one_intercept_and_says_nothing_of_usable_records():
    result = logistic(budget=dp.PureDP(5.0)).result_
    assert result.ordinary_intercept() is None
    assert "was not released" in result.summary(full=True)
    assert result.predict(TABLE.head(2))["status"].tolist() == ["reported"] * 2


def test_values_that_do_not_match_are_the_only_reason_given():
    """A level in capitals: what helps against noise, rare levels and tight bounds is not named."""
    broken = TABLE.copy()
    broken["health"] = broken["health"].str.upper()
    model = dp.LogisticRegression(
        "visit ~ age + health", schema=SCHEMA, budget=dp.ZCDP(0.02), insecure_seed=1
    )
    result = model.fit(broken).result_
    assert set(result.statuses) == {UNUSABLE}
    assert result.to_frame()["status"].tolist() == [UNUSABLE] * len(result.names)
    assert result.ordinary_intercept()["status"] == UNUSABLE
    assert "Released centre" not in result.summary()  # it is made of noise
    assert "in predictions it counts" not in result.summary()
    for shown in (
        result.summary(),
        result.to_markdown(),
        result.to_latex(),
        result._repr_html_(),
        dp.report.html(result),
        dp.report.markdown(result),
        "\n".join(dp.compare([result, result]).notes()),
    ):
        assert "could be used" in shown
        for other in ("merge rare levels", "give a larger budget", "both outcomes are there"):
            assert other not in shown


def test_a_level_that_is_lost_is_not_called_rare():
    """A third of the records is not usable, and with them a level: that may be why, whatever else is."""
    broken = TABLE.copy()
    broken["health"] = broken["health"].replace("fair", "FAIR")
    model = dp.LogisticRegression(
        "visit ~ age + C(health, 'fair')", schema=SCHEMA, budget=dp.ZCDP(0.5), insecure_seed=1
    )
    result = model.fit(broken).result_
    assert 0.5 < result.geometry.records / 6000 < 0.95
    assert set(result.statuses) == {REPORTED, MAYBE_UNUSABLE}
    for shown in (result.summary(), result.to_markdown(), dp.report.html(result)):
        plain = " ".join(shown.split())
        assert "records that could not be used may be" in plain
        for other in ("merge rare levels", "give a larger budget", "take a common one"):
            assert other not in plain


def test_fewer_usable_records_are_told():
    broken = TABLE.copy()
    broken.loc[: len(broken) // 2, "health"] = "Good"
    model = dp.LogisticRegression(
        "visit ~ age + health", schema=SCHEMA, budget=dp.ZCDP(5.0), insecure_seed=1
    )
    result = model.fit(broken).result_
    assert result.geometry.records == pytest.approx(3000, abs=30)
    assert "usable (noisy)" in result.records
    assert "of 6,000, from the released moments" in result.usable
    for shown in (result.summary(), dp.report.markdown(result).replace("\\", "")):
        plain = " ".join(shown.split())
        assert re.search(
            r"WARNING: only about [23],\d{3} of 6,000 records \(5\d %\) could be used", plain
        )
        assert "dpinfer schema check SCHEMA --data TABLE --peek" in plain
        assert plain.index("WARNING") < plain.index("visit ~ age")
    page = dp.report.html(result)
    assert page.index("WARNING: only about") < page.index("<dl") < page.index("<table")
    for table in (result.to_markdown(), result.to_latex(), result._repr_html_()):
        assert "WARNING: only about" in table
    assert result.warnings() == [result.too_few]
    whole = model.fit(TABLE).result_
    assert whole.warnings() == []
    assert "WARNING" not in whole.summary()
    few = TABLE.copy()
    few.loc[: len(few) // 30, "health"] = "Good"  # one in thirty
    found = model.fit(few).result_
    assert found.geometry.records < 6000
    assert found.warnings() == []
    assert json.loads(result.to_json())["reading"]["records_usable"] == result.geometry.records


def test_no_value_of_the_table_is_in_a_question(visits):
    """The question is the same whatever the table holds."""
    other = dp.LogisticRegression(
        LOGISTIC, schema=SCHEMA, budget=dp.ZCDP(5.0), insecure_seed=3
    ).fit(table(700, 9))
    assert other.result_.question == visits.result_.question


def test_rows_are_read_from_tables_dicts_and_files(visits, tmp_path):
    rows = TABLE.head(20)
    path = tmp_path / "rows.parquet"
    rows.to_parquet(path)
    expected = visits.predict_proba(rows)[:, 1]
    for given in (rows, rows.to_dict("list"), pl.from_pandas(rows), path):
        assert np.allclose(visits.result_.predict(given)["prediction"], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"health": "goodd"}, "health"),
        ({"age": 30.5}, "look at age"),
        ({"income": [1e4, 2e4], "age": [1, 2, 3]}, "length"),
    ],
)
def test_rows_that_cannot_be_encoded_are_refused_without_their_values(visits, change, message):
    rows = {"age": 40, "income": 3e4, "health": "good", "insured": True} | change
    with pytest.raises(dp.InputError, match=message) as fault:
        visits.result_.predict(rows)
    assert "goodd" not in str(fault.value)
    del rows["age"]
    with pytest.raises(dp.InputError, match="age"):
        visits.result_.predict(rows | {"health": "good", "income": 3e4})
