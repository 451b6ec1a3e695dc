"""Forecasts: records like the guesses, many from few exactly, and half-widths that fits then have."""

import dataclasses
import json
import sys

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.fit.choose import choose
from dpinfer.fit.linear import LeastSquares
from dpinfer.fit.recipe import Options, fit
from dpinfer.mechanisms.losses import Logistic
from dpinfer.mechanisms.sums import Block
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.guesses import Spread
from dpinfer.simulate import Forecast, synthetic
from dpinfer.simulate.forecast import label
from dpinfer.simulate.synthetic import OfGuesses, Repeated, max_records, values_at

# The package has a function of the same name.
forecast_module = sys.modules[Forecast.__module__]

SCHEMA = dp.Schema.parse(
    """
[columns.age]
type = "number"
low = 0
high = 100
typical = { mean = 30, sd = 12 }
[columns.gain]
type = "number"
low = 0
high = 1000
typical = { mean = 20, sd = 90 }
[columns.region]
type = "category"
levels = ["a", "b", "c"]
typical = { a = 0.6, b = 0.3, c = 0.1 }
[columns.grade]
type = "integer"
low = 1
high = 3
levels = [1, 2, 3]
typical = { 1 = 0.5, 2 = 0.3, 3 = 0.2 }
[columns.flag]
type = "boolean"
typical = { true = 0.2 }
[columns.ill]
type = "outcome"
levels = ["no", "yes"]
typical = { yes = 0.3 }
[columns.cost]
type = "outcome"
low = 0
high = 50
typical = { mean = 12, sd = 6 }
"""
)
FORMULA = "ill ~ age + region + flag"
BUDGET = dp.ZCDP(0.1)


def guesses(formula, effects=None):
    response, terms = parse(formula, SCHEMA)
    kind = "margin" if response.levels else "residual"
    design = Design.of_formula(response, terms, kind, SCHEMA.unit)
    return design, OfGuesses(response, terms, design, SCHEMA.typical, effects)


def in_units(design, rows):
    return design.middle + design.half * rows.block.rows * np.sqrt(design.norm2)


def test_records_are_like_the_guesses():
    """Means, deviations and shares; of transforms, factors and both kinds of draws."""
    formula = "ill ~ age + gain + log1p(gain) + region + C(grade) + flag"
    design, made = guesses(formula, {})
    for rows, off in (
        (made.typical(8192), 0.002),
        (made.sample(40_000, np.random.default_rng(1)), 0.02),
    ):
        x = dict(zip(design.names, in_units(design, rows).T, strict=True))
        assert x["age"].mean() == pytest.approx(30, rel=off)
        assert x["age"].std() == pytest.approx(12, rel=off)
        assert x["gain"].mean() == pytest.approx(20, rel=3 * off)
        assert x["gain"].std() == pytest.approx(90, rel=3 * off)
        assert np.allclose(x["log1p(gain)"], np.log1p(x["gain"]), atol=1e-6)
        shares = [
            x[name].mean() for name in ("region[b]", "region[c]", "grade[2]", "grade[3]", "flag")
        ]
        assert np.allclose(shares, (0.3, 0.1, 0.3, 0.2, 0.2), atol=0.01)
        assert (rows.block.labels > 0).mean() == pytest.approx(0.3, abs=off)
        assert abs(np.corrcoef(x["age"], x["gain"])[0, 1]) < 0.04


@pytest.mark.parametrize(
    ("low", "high", "mean", "sd"),
    [
        (0, 121, 3.2, 6.7),
        (0, 50, 0.3, 0.7),
        (1, 5, 2.1, 0.9),
        (18, 99, 40, 10),
        (0, 10**6, 4e4, 3e4),
    ],
)
def test_integers_are_integers_with_the_mean_and_deviation_of_the_guess(low, high, mean, sd):
    """A beta law alone would have none of them; rounded to the nearest it would have another mean."""
    column = dp.Schema.parse(f'[columns.k]\ntype = "integer"\nlow = {low}\nhigh = {high}\n')["k"]
    values = values_at(column, Spread(mean, sd), (np.arange(8192) + 0.5) / 8192)
    assert (values % 1 == 0).all()
    assert values.min() >= low
    assert values.max() <= high
    assert values.mean() == pytest.approx(mean, rel=0.002)
    assert values.std() == pytest.approx(sd, rel=0.002)


def test_an_integer_that_varies_less_than_its_mean_lets_it_is_one_of_two():
    column = dp.Schema.parse('[columns.k]\ntype = "integer"\nlow = 0\nhigh = 9\n')["k"]
    values = values_at(column, Spread(3.2, 0.1), (np.arange(1000) + 0.5) / 1000)
    assert np.unique(values).tolist() == [3, 4]
    assert values.mean() == pytest.approx(3.2, abs=0.001)


def test_integers_are_integers_in_every_made_up_record():
    """Those that explain, and those that are explained, with and without effects."""
    text = (
        '[columns.visits]\ntype = "integer"\nlow = 0\nhigh = 60\ntypical = { mean = 3, sd = 5 }\n'
        '[columns.age]\ntype = "integer"\nlow = 18\nhigh = 90\n'
    )
    schema = dp.Schema.parse(text)
    for effects in (None, {"age": 0.05}):
        response, terms = parse("visits ~ age", schema)
        design = Design.of_formula(response, terms, "residual")
        rows = OfGuesses(response, terms, design, schema.typical, effects).typical(2000)
        visits = design.outcome.centre + design.outcome.half * rows.block.labels
        for values in (visits, in_units(design, rows)[:, 1]):
            assert np.allclose(values, values.round(), atol=1e-6)
    response, terms = parse("visits > 0 ~ age", schema)
    design = Design.of_formula(response, terms, "margin")
    labels = OfGuesses(response, terms, design, schema.typical, {}).typical(8000).block.labels
    assert 0.3 < (labels > 0).mean() < 0.7


def test_a_made_up_divisor_may_be_0():
    """Such a record has no quotient, and cannot be used; the others are what they are."""
    text = (
        '[columns.km]\ntype = "number"\nlow = 0\nhigh = 9\n'
        '[columns.trips]\ntype = "integer"\nlow = 0\nhigh = 9\ntypical = { mean = 2, sd = 2 }\n'
        '[columns.ill]\ntype = "boolean"\n'
    )
    schema = dp.Schema.parse(text)
    for formula in ("ill ~ clip(km / trips, 0, 5)", "clip(km / trips, 0, 5) ~ ill"):
        response, terms = parse(formula, schema)
        kind = "margin" if response.levels else "residual"
        design = Design.of_formula(response, terms, kind)
        rows = OfGuesses(response, terms, design, schema.typical, None).typical(4000).block.rows
        assert 0.1 < (rows == 0).all(axis=1).mean() < 0.4
    model = dp.LogisticRegression("ill ~ clip(km / trips, 0, 5)", schema=schema)
    ahead = dp.simulate.forecast(model, records=20_000, budgets=[dp.ZCDP(1.0)], replicates=2)
    assert (ahead.reported == 1).all()


def test_a_forecast_says_what_it_was_not_told():
    asked = {"schema": SCHEMA, "budgets": [dp.ZCDP(1e-4)], "records": 500, "replicates": 2}
    ahead = dp.simulate.forecast(FORMULA, **asked)
    assert ahead.unstated == ()
    assert ahead.low_budget().endswith("0 of 5 in simulated fits, on average")
    bare = dp.Schema(SCHEMA.columns)
    ahead = dp.simulate.forecast(FORMULA, **(asked | {"schema": bare}))
    assert ahead.unstated == ("ill", "age", "region", "flag")
    assert "typical of ill, age, region and 1 more: add typical" in ahead.low_budget()
    assert dp.simulate.Forecast.from_json(ahead.to_json()).unstated == ahead.unstated
    ahead = dp.simulate.forecast(FORMULA, **(asked | {"budgets": [dp.ZCDP(50.0)]}))
    assert ahead.low_budget() == ""


def test_a_deviation_as_large_as_can_be_has_two_values():
    schema = SCHEMA.guess({"age": {"mean": 20, "sd": 40}})
    response, terms = parse("ill ~ age", schema)
    design = Design.of_formula(response, terms, "margin")
    ages = in_units(design, OfGuesses(response, terms, design, schema.typical, {}).typical(1000))[
        :, 1
    ]
    assert np.unique(np.round(ages, 3)).tolist() == [0, 100]
    assert ages.mean() == pytest.approx(20, abs=0.01)


def test_effects_are_those_given():
    design, made = guesses("ill ~ age + region", {"age": 0.05, "region[b]": -1.0})
    rows = made.typical(40_000)
    risk = dp.LogisticRegression(
        "ill ~ age + region", schema=SCHEMA, budget=dp.NoPrivacy(), target="unpenalised"
    )
    found = fit(risk.recipe(design, rows.n), rows, insecure_seed=0)
    assert np.allclose(found.estimate[1:], (0.05, -1.0, 0.0), atol=4 * found.std_error[1:])
    assert (rows.block.labels > 0).mean() == pytest.approx(0.3, abs=0.01)
    _, made = guesses("cost ~ age", {"age": 0.3})
    rows = made.typical(8192)
    age, cost = rows.block.rows[:, 1], rows.block.labels
    assert np.corrcoef(age, cost)[0, 1] == pytest.approx(0.3 * 12 / 6, abs=0.02)
    assert 25 * cost.std() == pytest.approx(6, rel=0.05)
    with pytest.raises(dp.InputError, match="explain more than the outcome varies"):
        guesses("cost ~ age", {"age": 1.0})[1].typical(100)
    with pytest.raises(dp.InputError, match="effects names 'agee'"):
        guesses("cost ~ age", {"agee": 1.0})


@pytest.mark.parametrize("formula", ["ill ~ age + region", "cost ~ age + region"])
def test_a_record_that_counts_four_times_is_four_records(formula):
    """The same releases, but for the rounding of sums: intervals agree to many digits."""
    design, made = guesses(formula)
    rows = made.typical(3000)
    block = rows.block
    copies = Rows(Block(np.repeat(block.rows, 4, axis=0), np.repeat(block.labels, 4)))
    loss = Logistic() if formula.startswith("ill") else LeastSquares()
    recipe = choose(design, Options(loss, BUDGET))
    few, many = (
        fit(recipe, source, insecure_seed=3) for source in (Repeated(rows, 12_000), copies)
    )
    assert many.reported.all()
    assert np.allclose(few.estimate, many.estimate, rtol=1e-6)
    assert np.allclose(few.conf_int(), many.conf_int(), rtol=1e-6)
    wrong = fit(recipe, Repeated(rows, 6000), insecure_seed=3)
    assert (np.diff(wrong.conf_int()) > 1.2 * np.diff(many.conf_int())).all()


def test_many_records_take_no_more_than_some(monkeypatch):
    """A forecast of more records than are made agrees with one that makes them all."""
    whole = dp.simulate.forecast(
        FORMULA, schema=SCHEMA, records=12_000, budgets=[BUDGET], replicates=9
    )
    assert max_records(5) == 50_000
    monkeypatch.setattr(synthetic, "_RECORDS", 2000)
    few = dp.simulate.forecast(
        FORMULA, schema=SCHEMA, records=12_000, budgets=[BUDGET], replicates=9
    )
    assert np.allclose(few.half_width, whole.half_width, rtol=0.15)
    assert np.allclose(few.nonprivate, whole.nonprivate, rtol=0.1)
    monkeypatch.undo()
    most = dp.simulate.forecast(
        FORMULA, schema=SCHEMA, records=5_000_000, budgets=[BUDGET], replicates=3
    )
    assert np.allclose(most.nonprivate * np.sqrt(5_000_000 / 12_000), whole.nonprivate, rtol=0.1)


def test_a_forecast_is_what_a_study_then_finds():
    """Of a look-alike table: lengths and shares reported are those of `coverage` on it."""
    demo = dp.datasets.rand_hie()
    table = demo.table.iloc[:4000]
    for formula, model in (
        (demo.formula, dp.LogisticRegression),
        ("mdvis ~ lncoins + idp + health", dp.LinearRegression),
    ):
        asked = model(formula, schema=demo.schema, budget=dp.ZCDP(0.5))
        found = dp.simulate.forecast(asked, like=table, replicates=12)
        study = dp.simulate.coverage(asked, table, replicates=12, nonprivate=True)
        often = (study.reported > 0.5) & (found.reported[0] > 0.5)
        assert often.sum() >= 5
        assert np.allclose((2 * found.half_width[0] / study.length)[often], 1, atol=0.2)
        assert np.allclose((2 * found.nonprivate[0] / study.nonprivate_length)[often], 1, atol=0.2)
        assert np.abs(found.reported[0] - study.reported).mean() < 0.15
        assert found.records == 4000
        more = dp.simulate.forecast(asked, like=table, records=16_000, replicates=3)
        assert np.allclose(more.nonprivate, found.nonprivate / 2)


@pytest.mark.parametrize(
    ("model", "formula", "budget", "options"),
    [
        (dp.LogisticRegression, FORMULA, dp.PureDP(5.0), {}),
        (dp.LogisticRegression, FORMULA, dp.ZCDP(0.5), {"target": "ordinary"}),
        (dp.LogisticRegression, FORMULA, dp.ZCDP(0.5), {"neighbours": "add-remove"}),
        (dp.LinearSVC, FORMULA, dp.ZCDP(0.5), {"target": "unpenalised"}),
        (dp.LinearRegression, "cost ~ age + region", dp.ZCDP(0.5), {"target": "robust"}),
        (dp.HuberRegression, "cost ~ age + region", dp.PureDP(5.0), {}),
        (dp.QuantileRegression, "log1p(cost) ~ age", dp.ApproxDP(2.0, 1e-6), {}),
    ],
)
def test_every_recipe_is_forecast(model, formula, budget, options):
    asked = model(formula, schema=SCHEMA, budget=budget, **options)
    found = dp.simulate.forecast(asked, records=5000, replicates=4)
    assert found.budgets == (budget,)
    assert np.isfinite(found.half_width).all()
    assert (found.half_width > 0.7 * found.nonprivate).all()
    assert (found.nonprivate > 0).all()
    assert asked.budget == budget  # nothing was set on the model
    assert not hasattr(asked, "result_")


@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
def test_without_noise_the_two_half_widths_agree(target):
    asked = {"records": 5000, "budgets": [dp.NoPrivacy()], "penalty": 1e-3, "target": target}
    found = dp.simulate.forecast(FORMULA, schema=SCHEMA, **asked, replicates=5)
    assert np.allclose(found.half_width, found.nonprivate, rtol=0.05)
    assert found.reported.all()


def test_a_numeric_outcome_in_any_range_has_least_squares():
    """Also where its scale is that of labels."""
    schema = SCHEMA.guess({}).columns | {
        "z": dataclasses.replace(SCHEMA["cost"], name="z", low=-1.0, high=1.0)
    }
    schema = dp.Schema(schema)
    found = dp.simulate.forecast(
        "z ~ age", schema=schema, records=4000, budgets=[BUDGET], replicates=2
    )
    model = dp.LinearRegression("z ~ age", schema=schema, budget=BUDGET)
    assert np.array_equal(
        found.half_width,
        dp.simulate.forecast(model, records=4000, replicates=2).half_width,
        equal_nan=True,
    )


def test_more_budget_or_records_give_shorter_intervals():
    budgets = [dp.ZCDP(rho) for rho in (0.01, 0.1, 1.0, 10.0)]
    found = dp.simulate.forecast(
        FORMULA, schema=SCHEMA, records=8000, budgets=budgets, replicates=7
    )
    assert (np.diff(found.within, axis=0)[1:] < 0).all()
    assert (found.within[0] > found.within[1]).all()
    assert np.array_equal(found.nonprivate[0], found.nonprivate[3])
    assert np.allclose(found.half_width[3], found.nonprivate[3], rtol=0.15)
    more = dp.simulate.forecast(
        FORMULA, schema=SCHEMA, records=32_000, budgets=budgets, replicates=7
    )
    assert (more.half_width[1] < found.half_width[1] / 1.8).all()


def test_the_seed_decides_everything():
    asked = {"schema": SCHEMA, "records": 3000, "budgets": [BUDGET], "replicates": 3}
    first, again = (dp.simulate.forecast(FORMULA, **asked) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert first.to_json() != dp.simulate.forecast(FORMULA, **asked, seed=1).to_json()


def test_a_level_that_nobody_has():
    schema = SCHEMA.guess({"region": {"a": 0.7, "b": 0.3, "c": 0.0}})
    asked = {"schema": schema, "records": 3000, "budgets": [dp.ZCDP(1.0)], "replicates": 2}
    found = dp.simulate.forecast("ill ~ age + region", **asked)
    assert np.isnan(found.half_width[0, -1])
    assert np.isnan(found.nonprivate[0, -1])
    assert found.reported[0].tolist() == [1, 1, 1, 0]
    assert "– (0%)" in found.summary()
    assert found.open() == ("region[c]",)
    assert "Not likely to be reported at rho 1: region[c]." in found.summary()


def test_within_counts_fits_that_do_not_report():
    """Twenty fits: with 13 that report, half of all keep within a longer interval than half of
    those.
    """
    budgets = [dp.ZCDP(rho) for rho in (0.004, 0.01)]
    found = dp.simulate.forecast("ill ~ age + region", schema=SCHEMA, records=5000, budgets=budgets)
    some = (found.reported > 0.5) & (found.reported < 0.8)
    assert some.any()
    assert (found.within[some] > found.half_width[some]).all()
    assert np.array_equal(found.within[found.reported == 1], found.half_width[found.reported == 1])
    assert np.isinf(found.within[found.reported < 0.5]).all()
    again = Forecast.from_json(found.to_json())
    assert np.array_equal(again.within, found.within)


def test_ranges_allow_for_guesses():
    """Eight simulated fits in ten, and by how much guesses missed; of a table that is alike, the
    former alone.
    """
    asked = {"records": 4000, "budgets": [BUDGET], "replicates": 11}
    found = dp.simulate.forecast("ill ~ age + region", schema=SCHEMA, **asked)
    assert found.off == synthetic.OFF == (0.9, 2.3)
    assert (found.low <= 0.9 * found.half_width).all()
    assert (found.low > 0.6 * found.half_width).all()
    assert (found.high >= 2.2 * found.half_width).all()
    assert (found.high < 3.5 * found.half_width).all()
    row = found.table()[1]
    assert (row["low"], row["high"]) == (found.low[0, 1], found.high[0, 1])
    slopes = found.low[0, 1:], found.high[0, 1:]
    assert found.range() == tuple(float(np.median(ends)) for ends in slopes)
    words = " ".join(found.summary(full=True).split())
    assert f"±{found.low[0, 1]:.2g} to {found.high[0, 1]:.2g}" in words
    assert "0.9 to 2.3 times as long" in words
    assert "one in 17 was not reported" in words
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(0, 100, 4000), "region": rng.choice([*"abc"], 4000)})
    table["ill"] = np.where(rng.random(4000) < 0.5, "yes", "no")
    alike = dp.simulate.forecast("ill ~ age + region", schema=SCHEMA, like=table, **asked)
    assert alike.off == (1.0, 1.0)
    assert (alike.low <= alike.half_width).all()
    assert (alike.half_width <= alike.high).all()
    assert (alike.high < 1.5 * alike.low).all()
    assert "Ranges allow for guesses" not in alike.summary(full=True)


def test_what_it_says():
    budgets = [dp.ApproxDP(1.0, 1e-6), dp.PureDP(2.0)]
    model = dp.LogisticRegression("ill ~ age + region", schema=dp.Schema(SCHEMA.columns))
    found = dp.simulate.forecast(model, records=2000, budgets=budgets, replicates=2)
    words = " ".join(found.summary(full=True).split())
    for part in (
        "(1, 1e-06)",
        "ε = 2",
        "2,000 records",
        "levels equally frequent: ill, region",
        "sixth",
    ):
        assert part in words
    assert words.count("no noise") == 2  # the penalised fit has a penalty of its own
    rows = found.table()
    assert len(rows) == 8
    assert rows[1]["name"] == "age"
    assert rows[1]["half_width"] == found.half_width[0, 1]
    assert found.to_frame().loc[("(1, 1e-06)", "age"), "nonprivate"] == found.nonprivate[0, 1]
    again = Forecast.from_json(found.to_json())
    assert again.summary() == found.summary()
    assert again.budgets == found.budgets
    json.loads(found.to_json())


WANTED = {"schema": SCHEMA, "records": 8000, "replicates": 3}


@pytest.mark.parametrize("start", [dp.ZCDP(1.0), dp.ZCDP(0.004), dp.ApproxDP(1.0, 1e-6)])
def test_the_least_budget(start):
    found = dp.simulate.forecast(
        FORMULA, **WANTED, half_width=0.2, coefficient="region[b]", budgets=[start]
    )
    (budget,), j = found.budgets, found.names.index("region[b]")
    assert type(budget) is type(start)
    assert found.within[0, j] <= 0.2
    amount = "rho" if isinstance(start, dp.ZCDP) else "epsilon"
    less = dataclasses.replace(budget, **{amount: 0.93 * getattr(budget, amount)})
    assert dp.simulate.forecast(FORMULA, **WANTED, budgets=[less]).within[0, j] > 0.2


def test_the_least_budget_for_the_median():
    found = dp.simulate.forecast(FORMULA, **WANTED, half_width=0.2, budgets=[dp.ZCDP(1.0)])
    assert 0.17 < np.median(found.within[0, 1:]) <= 0.2


def test_no_budget_is_enough(monkeypatch):
    with pytest.raises(dp.InputError, match="without privacy 8,000 records give"):
        dp.simulate.forecast(FORMULA, **WANTED, half_width=0.01)
    monkeypatch.setattr(forecast_module, "_LARGEST", 0.02)
    with pytest.raises(dp.InputError, match="no budget up to rho"):
        dp.simulate.forecast(
            FORMULA, **WANTED, half_width=0.17, coefficient="region[b]", budgets=[dp.ZCDP(0.01)]
        )
    monkeypatch.undo()
    plenty = dp.simulate.forecast(
        "ill ~ age", **WANTED | {"records": 10**8}, half_width=50.0, budgets=[dp.ZCDP(0.1)]
    )
    assert plenty.budgets[0].rho < forecast_module._SMALLEST


PEOPLE = """
[unit]
name = "one person"
column = "id"
rows = {rows}
[columns.age]
type = "number"
low = 0
high = 100
[columns.ill]
type = "outcome"
levels = ["no", "yes"]
"""


def test_a_summary_is_short_and_80_letters_wide():
    """With six budgets the table has parts; ten lines are under it."""
    budgets = [dp.ZCDP(rho) for rho in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)]
    found = dp.simulate.forecast(
        "ill ~ age * region", schema=SCHEMA, records=5000, budgets=budgets, replicates=2
    )
    for full in (False, True):
        lines = found.summary(full=full).splitlines()
        assert max(map(len, lines)) <= 80
        assert all(any(label(budget) in line for line in lines) for budget in budgets)
    short = found.summary().splitlines()
    assert short.count("=" * 80) > 2
    under = short[len(short) - short[::-1].index("=" * 80) :]
    assert 5 < len(under) <= 10
    assert "--verbose" in under[-1]
    assert "Assumed: " in found.summary(full=True)


def test_units():
    """One row a unit, whatever the word; ids of a look-alike table."""
    plain = dp.Schema(dp.Schema.parse(PEOPLE.format(rows='"average"')).columns)
    asked = {"records": 4000, "budgets": [dp.ZCDP(1.0)], "replicates": 3}
    rows = dp.simulate.forecast("ill ~ age", schema=plain, **asked)
    average, every = (
        dp.simulate.forecast("ill ~ age", schema=dp.Schema.parse(PEOPLE.format(rows=rows)), **asked)
        for rows in ('"average"', '"every"')
    )
    assert np.allclose(average.nonprivate, rows.nonprivate, rtol=0.01)
    assert np.allclose(every.nonprivate, rows.nonprivate, rtol=0.01)
    assert "4,000 units" in every.summary()
    assert "one row per unit" in " ".join(every.summary(full=True).split())
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": rng.integers(0, 500, 2000), "age": rng.uniform(0, 100, 2000)})
    table["ill"] = np.where(rng.random(2000) < 0.5, "yes", "no")
    schema = dp.Schema.parse(PEOPLE.format(rows='"average"'))
    found = dp.simulate.forecast(
        "ill ~ age", schema=schema, like=table, budgets=[dp.ZCDP(1.0)], replicates=2
    )
    assert found.records == table["id"].nunique()


def test_weights_need_a_table():
    schema = dp.Schema.parse(
        '[weights]\ncolumn = "w"\nmost = 5.0\n' + PEOPLE.split("rows = {rows}\n")[1]
    )
    with pytest.raises(dp.InputError, match="nothing is guessed about sampling weights"):
        dp.simulate.forecast("ill ~ age", schema=schema, records=1000, budgets=[BUDGET])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"formula": None}, "needs a model with a formula"),
        ({"schema": None}, "a formula needs schema="),
        ({"records": None}, "records= is the public number of records"),
        ({"records": 0}, "records= is the public number of records"),
        ({"records": True}, "records= is the public number of records"),
        ({"budgets": None}, "needs budgets="),
        ({"budgets": []}, "needs budgets="),
        ({"replicates": 0}, "replicates must be a whole number"),
        ({"level": 1.0}, "level strictly between 0 and 1"),
        ({"coefficient": "age"}, "goes with half_width="),
        ({"half_width": -1.0}, "half_width must be a positive number"),
        ({"half_width": 0.1, "coefficient": "agee"}, "there is no coefficient 'agee'"),
        ({"half_width": 0.1, "budgets": [dp.NoPrivacy()]}, "searched among those of a kind"),
        (
            {"model": dp.LogisticRegression(FORMULA, schema=SCHEMA)},
            "brings its formula, schema and options: leave out formula=, schema=",
        ),
        (
            {"formula": None, "schema": None, "model": dp.LogisticRegression(bounds=(0, 1))},
            "with a formula",
        ),
        ({"formula": None, "schema": None, "model": 3}, "takes a dpinfer model"),
        ({"like": pd.DataFrame(), "effects": {"age": 1.0}}, "is for records that are made up"),
        ({"formula": "ill ~ age - 1", "target": "ordinary"}, "needs an intercept"),
    ],
)
def test_bad_requests(options, words):
    asked = {
        "formula": FORMULA,
        "schema": SCHEMA,
        "records": 1000,
        "budgets": [BUDGET],
        "replicates": 2,
    } | options
    with pytest.raises((dp.InputError, dp.BudgetError), match=words):
        dp.simulate.forecast(**asked)


def test_a_formula_comes_by_place_or_by_name_and_a_model_too():
    asked = {"records": 1000, "replicates": 2}
    first = dp.simulate.forecast(FORMULA, schema=SCHEMA, budgets=[BUDGET], **asked)
    again = dp.simulate.forecast(formula=FORMULA, schema=SCHEMA, budgets=[BUDGET], **asked)
    model = dp.LogisticRegression(FORMULA, schema=SCHEMA, budget=BUDGET)
    named = dp.simulate.forecast(model=model, **asked)
    assert first.to_json() == again.to_json() == named.to_json()


def test_progress_is_told_in_order():
    told = []
    model = dp.LogisticRegression(FORMULA, schema=SCHEMA, budget=BUDGET)
    dp.simulate.forecast(
        model, records=500, replicates=3, progress=lambda *numbers: told.append(numbers)
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_default_effects_move_the_outcome_up_and_down_in_turn():
    """Every column moves the log-odds by as much: so its neighbours move them the other way."""
    rng = np.random.default_rng(0)
    columns = rng.standard_normal((20_000, 6))
    columns = columns - columns.mean(axis=0)
    log_odds = synthetic._default_effects(columns, synthetic.LOG_ODDS)
    coef = np.linalg.lstsq(columns, log_odds, rcond=None)[0]
    assert np.array_equal(np.sign(coef), [1, -1, 1, -1, 1, -1])
    assert np.allclose(np.abs(coef), synthetic.LOG_ODDS / np.sqrt(6), rtol=0.05)
    assert log_odds.std() == pytest.approx(synthetic.LOG_ODDS)
    assert abs(np.corrcoef(log_odds, columns.sum(axis=1))[0, 1]) < 0.05


def test_a_plan_has_its_budget():
    model = dp.LogisticRegression(FORMULA, schema=SCHEMA, plan=dp.GeometryPlan(dp.ZCDP(0.5)))
    found = dp.simulate.forecast(model, records=3000, replicates=2)
    assert found.budgets[0].rho == pytest.approx(0.5)
    with pytest.raises(dp.BudgetError, match="leave out budgets="):
        dp.simulate.forecast(model, records=3000, replicates=2, budgets=[BUDGET])
