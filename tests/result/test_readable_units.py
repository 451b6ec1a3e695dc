"""Rows with tiny numbers are printed per 1,000, in every format that people read and in no file."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.result import coefficient_table, text
from dpinfer.views.forest import result_rows

SCHEMA = dp.Schema.parse(
    """
    [columns.cost]
    type = "number"
    low = 0
    high = 10
    [columns.ill]
    type = "outcome"
    levels = [false, true]
    [columns.income]
    type = "number"
    low = 0
    high = 250000
    [columns.profit]
    type = "number"
    low = 0
    high = 4e9
    [columns.share]
    type = "number"
    low = 0
    high = 1
    """
)
N = 4000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    income, profit, share = (rng.uniform(0, top, N) for top in (2.5e5, 4e9, 1.0))
    predictor = 3 + 1.2e-5 * income + 1e-10 * profit + share
    return pd.DataFrame(
        {
            "income": income,
            "profit": profit,
            "share": share,
            "cost": np.clip(predictor + rng.normal(0, 0.01, N), 0, 10),
            "ill": rng.random(N) < 1 / (1 + np.exp(4 - predictor)),
        }
    )


def fitted(model, outcome, table):
    options = {"schema": SCHEMA, "budget": dp.NoPrivacy()}
    return model(f"{outcome} ~ income + profit + share", **options).fit(table).result_


def test_numbers_are_multiplied_where_the_range_is_as_long(table):
    """A share has a range of 1: its standard error is as small, and it stays as it is."""
    result = fitted(dp.LinearRegression, "cost", table)
    rows = {row["name"]: row for row in result.table()}
    assert rows["share"]["std_error"] < 1e-3
    shown = {row["name"]: row for row in coefficient_table.printed_rows(result, 0.95)}
    for name, factor in (("income", 1000), ("profit", 10**9), ("share", 1), ("(Intercept)", 1)):
        for key in ("estimate", "std_error", "low", "high"):
            assert shown[name][key] == factor * rows[name][key]
        assert shown[name]["z"] == rows[name]["z"] or np.isnan(rows[name]["z"])
        assert shown[name]["p_value"] == rows[name]["p_value"]
        label = name if factor == 1 else f"{name} (per {factor:,})"
        assert coefficient_table.label(shown[name]) == label


@pytest.mark.parametrize(
    ("model", "outcome"), [(dp.LinearRegression, "cost"), (dp.LogisticRegression, "ill")]
)
def test_every_format_for_people_says_the_unit_and_no_file_has_it(model, outcome, table):
    result = fitted(model, outcome, table)
    row = result.table()[1]
    number = text.number(1000 * row["estimate"], text.decimals_for(1000 * row["std_error"]))
    printed = [result.to_markdown(), result.to_latex(), result._repr_html_()]
    printed += [dp.report.html(result), dp.report.markdown(result)]
    for shown in (*printed, result.summary(), dp.plot.forest_text(result)):
        assert "income (per 1,000)" in shown.replace("\\", "")
    assert all(number in shown.replace("$-$", "−") for shown in printed)
    for shown in (*printed, result.summary(), result.summary(full=True)):
        assert "row per unit" in " ".join(shown.split())
    assert result.to_frame().loc["income", "estimate"] == row["estimate"]
    (line,) = [
        line
        for line in csv.DictReader(io.StringIO(dp.report.csv(result)))
        if line["name"] == "income"
    ]
    assert float(line["estimate"]) == row["estimate"]
    assert "per 1,000" not in dp.report.csv(result)
    assert "per 1,000" not in result.to_json()
    assert json.loads(result.to_json())["names"] == list(result.names)


def test_the_plot_has_the_numbers_of_the_table(table):
    """Bars and ratios are those of the row that is printed."""
    result = fitted(dp.LogisticRegression, "ill", table)
    (bar,) = [row.bars[0] for row in result_rows(result, 0.95, ratio="Odds ratio")][:1]
    shown = coefficient_table.printed_rows(result, 0.95)[1]
    assert (bar.low, bar.high) == (shown["low"], shown["high"])
    ratio = coefficient_table.ratio_cell(shown)
    assert bar.label == f"{ratio.estimate} ({ratio.interval})"
    assert bar.title == "income (per 1,000)"


def test_models_side_by_side_have_one_unit_per_row(table):
    linear, logistic = (
        fitted(dp.LinearRegression, "cost", table),
        fitted(dp.LogisticRegression, "ill", table),
    )
    both = dp.compare([linear, logistic])
    assert both.units == {"income": 1000, "profit": 10**9}
    shown = both.to_markdown().replace("\\", "")
    for result in (linear, logistic):
        row = result.table()[1]
        number = text.number(1000 * row["estimate"], text.decimals_for(1000 * row["std_error"]))
        assert number in shown
    assert "row per unit" in shown
    assert list(both.to_frame()["estimate"][:2]) == [row["estimate"] for row in linear.table()[:2]]


def test_ordinary_numbers_stay_as_they_are():
    """No row of the bundled data is rescaled, though some standard errors are small."""
    data = dp.datasets.rand_hie()
    model = dp.LinearRegression("mdvis ~ physlm + disea", schema=data.schema, budget=dp.NoPrivacy())
    result = model.fit(data.table).result_
    assert "per 1,000" not in result.summary() + result.to_markdown()
