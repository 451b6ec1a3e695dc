"""Hazard regression: equal to statsmodels without noise, near Cox regression, and the same whatever bad records do."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.fit import recipe
from dpinfer.fit.hazard import HazardSteps
from dpinfer.fit.recipe import Subject, fit
from dpinfer.privacy.gate import Gate, Released
from dpinfer.schema.design import HAZARD
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read

CUTS = [1, 2, 3, 5, 7]
SCHEMA = dp.Schema.parse("""
[columns]
entry = { type = "number", low = 0, high = 20 }
exit = { type = "number", low = 0, high = 20 }
died = { type = "integer", low = 0, high = 1 }
age = { type = "number", low = 30, high = 90 }
treated = { type = "boolean" }
[unit]
name = "one patient"
column = "id"
""")
ROWS = dp.Schema.parse("""
unit = "one patient"
[columns]
entry = { type = "number", low = 0, high = 20 }
exit = { type = "number", low = 0, high = 20 }
died = { type = "integer", low = 0, high = 1 }
age = { type = "number", low = 30, high = 90 }
treated = { type = "boolean" }
""")
FORMULA = "Surv(entry, exit, died) ~ age + treated"


def cohort(persons, seed=0):
    """Spells of persons: treatment begins during follow-up for half of them, and some enter late."""
    rng = np.random.default_rng(seed)
    age = np.round(rng.uniform(40, 80, persons), 1)
    begin = np.where(rng.random(persons) < 0.5, rng.uniform(0.5, 6, persons), np.inf)
    entry = np.where(rng.random(persons) < 0.3, rng.uniform(0, 2, persons), 0.0)
    end = np.minimum(rng.exponential(14, persons), 10.0) + entry
    hazard = 0.06 * np.exp(0.04 * (age - 60))
    spells = []
    for i in range(persons):
        left = rng.exponential()
        at = entry[i]
        for treated, last in ((False, min(begin[i], end[i])), (True, end[i])):
            if last <= at:
                continue
            rate = hazard[i] * np.exp(-0.5 * treated)
            time = at + left / rate
            died = time <= last
            spells.append((i, at, min(time, last), int(died), age[i], treated))
            left -= rate * (last - at)
            at = last
            if died:
                break
    table = pd.DataFrame(spells, columns=["id", "entry", "exit", "died", "age", "treated"])
    return table.sample(frac=1, random_state=seed).reset_index(drop=True)


def split(table, horizon=10.0):
    """Person-time by interval, as survSplit makes it."""
    edges = [0, *CUTS, horizon]
    rows = []
    for one in table.itertuples():
        for k, (low, high) in enumerate(pairwise(edges)):
            time = min(one.exit, high) - max(one.entry, low)
            if time > 0:
                died = one.died * (low < one.exit <= high)
                rows.append((one.id, k, time, died, one.age, float(one.treated)))
    return pd.DataFrame(rows, columns=["id", "k", "time", "died", "age", "treated"])


def model(budget, schema=SCHEMA, formula=FORMULA, **options):
    return dp.HazardRegression(
        formula, cuts=CUTS, horizon=10, schema=schema, budget=budget, **options
    )


@pytest.fixture(scope="module")
def small():
    return cohort(400)


def test_without_noise_it_is_a_poisson_regression_of_person_time(small):
    """The coefficients of statsmodels' GLM with the logarithm of time, and its errors clustered by person (CR1)."""
    result = model(dp.NoPrivacy()).fit(small).result_
    rows = split(small)
    x = pd.get_dummies(rows["k"], prefix="k", drop_first=True).astype(float)
    x = pd.concat([rows[["age", "treated"]], x], axis=1)
    theirs = sm.GLM(
        rows["died"], sm.add_constant(x), sm.families.Poisson(), offset=np.log(rows["time"])
    ).fit(
        tol=1e-14,
        maxiter=100,
        cov_type="cluster",
        cov_kwds={"groups": rows["id"], "use_correction": False},
    )
    persons = small["id"].nunique()
    errors = theirs.bse * np.sqrt(persons / (persons - 1))
    assert np.abs(result.estimate - theirs.params).max() < 1e-8
    assert np.abs(result.std_error - errors).max() < 1e-8
    assert result.names[-2:] == ("interval[5..7]", "interval[7..10]")


def test_with_six_intervals_it_is_within_a_tenth_of_a_standard_error_of_cox_regression():
    table = cohort(1500, 3)
    table[["entry", "exit"]] = table[["entry", "exit"]].clip(upper=10)
    table = table[table["exit"] > table["entry"]]
    result = model(dp.NoPrivacy()).fit(table).result_
    theirs = sm.PHReg(
        table["exit"],
        table[["age", "treated"]].astype(float),
        status=table["died"],
        entry=table["entry"],
        ties="efron",
    ).fit()
    apart = (result.estimate[1:3] - theirs.params) / result.std_error[1:3]
    assert np.abs(apart).max() < 0.1


def test_persons_without_ids_are_rows():
    """One row is one person: the same numbers as with an id for each, whatever the order."""
    data = dp.datasets.cohort(1500)
    kwargs = {"budget": dp.NoPrivacy()}
    alone = dp.HazardRegression(data.formula, schema=data.schema, **kwargs).fit(data.table).result_
    text = data.schema.digest()
    assert text  # the schema has no unit column
    table = data.table.sample(frac=1, random_state=0)
    other = dp.HazardRegression(data.formula, schema=data.schema, **kwargs).fit(table).result_
    assert np.allclose(alone.estimate, other.estimate, atol=1e-9)
    assert np.allclose(alone.std_error, other.std_error, atol=1e-9)


def test_a_private_fit_is_near_the_ordinary_one_and_says_so():
    """With a large budget estimates agree within a few hundredths of a standard error's noise, at every target."""
    table = cohort(4000, 5)
    plain = model(dp.NoPrivacy()).fit(table).result_
    private = model(dp.ZCDP(2000.0), insecure_seed=1).fit(table).result_
    slopes = slice(1, 3)
    z = (private.estimate - plain.estimate)[slopes] / plain.std_error[slopes]
    assert np.abs(z).max() < 0.35
    assert private.std_error[slopes] == pytest.approx(plain.std_error[slopes], rel=0.1)
    assert private.model.hazards
    assert "hazard ratio" in private.summary(full=True)
    assert "Every row counts once" in private.summary(full=True)
    assert private.hazard_ratios().index.tolist() == ["age", "treated"]
    ratio = private.hazard_ratios().loc["treated", "hazard_ratio"]
    assert ratio == pytest.approx(np.exp(private.estimate[2]))


def test_adding_or_removing_a_person_is_another_adjacency():
    table = cohort(4000, 5)
    result = model(dp.ZCDP(0.5), adjacency="add-remove", insecure_seed=1).fit(table).result_
    assert result.model.n is None
    assert result.reported[1:3].all()


def spoilt(table):
    """The same table with rows that are no spells: of new persons, and beside good rows of known ones."""
    good = table.iloc[:12]
    bad = [
        {"entry": 5.0, "exit": 2.0},  # entry after exit
        {"entry": 3.0, "exit": 3.0},
        {"exit": np.nan},  # an event without a time
        {"exit": -1.0, "entry": -2.0},
        {"exit": np.inf},
        {"died": 0.5},
        {"died": np.nan},
        {"entry": np.nan},
        {"exit": 1e300, "entry": 1e299},
        {"age": np.nan},
        {"entry": 50.0, "exit": 60.0},  # after the horizon
        {"exit": 0.0},
    ]
    rows = []
    for k, changes in enumerate(bad):
        rows.append({**good.iloc[k].to_dict(), "died": 1, **changes, "id": 100_000 + k})
        rows.append({**good.iloc[k].to_dict(), "died": 1, **changes})
    return pd.concat([table, pd.DataFrame(rows)], ignore_index=True)


def test_bad_spells_count_for_nothing_and_raise_nothing(small):
    """Whatever a record lacks, there is a result, in memory and from a file, and without noise the same numbers."""
    usable = small[small["exit"] > small["entry"]]
    plain = model(dp.NoPrivacy()).fit(usable).result_
    table = spoilt(small).astype({"treated": bool})
    with_bad = model(dp.NoPrivacy()).fit(table).result_
    assert np.abs(with_bad.estimate - plain.estimate).max() < 1e-8
    for adjacency in ("replace", "add-remove"):
        private = model(dp.ZCDP(0.5), adjacency=adjacency, insecure_seed=3)
        assert private.fit(table).result_.estimate.shape == plain.estimate.shape


def test_overlapping_and_unordered_spells_have_each_moment_once():
    """A spell begins where those before it have ended, in any order of rows."""
    apart = pd.DataFrame(
        {
            "id": [1, 1, 2, 3],
            "entry": [0.0, 4.0, 0.0, 0.0],
            "exit": [4.0, 6.0, 5.0, 2.0],
            "died": [0, 1, 1, 0],
            "age": [50.0, 50.0, 60.0, 70.0],
            "treated": [False, True, False, True],
        }
    )
    overlapping = apart.copy()
    overlapping.loc[1, "entry"] = 1.0
    options = {"formula": "Surv(entry, exit, died) ~ 1 + treated"}
    fits = [
        dp.HazardRegression(cuts=[3], horizon=10, schema=SCHEMA, budget=dp.NoPrivacy(), **options)
        .fit(table)
        .result_.estimate
        for table in (apart, overlapping, overlapping.iloc[::-1])
    ]
    assert np.allclose(fits[0], fits[1])
    assert np.allclose(fits[0], fits[2])


def steps_and_source(table, code, n=None):
    asked = model(dp.ZCDP(0.5), adjacency=code)
    response, terms = parse(asked.asked_formula, SCHEMA)
    design, source = read(table, response, terms, HAZARD, SCHEMA.unit, number=n)
    return asked.recipe(design, source.n), source.rows()


@pytest.mark.parametrize("code", ["replace", "add-remove"])
def test_released_values_decide_everything(code, monkeypatch):
    """The releases of one fit played to another, of quite other persons: every query and the result are the same."""
    table = cohort(900, 1)
    steps, source = steps_and_source(table, code)
    assert isinstance(steps, HazardSteps)
    seen = []

    class Recorder(Gate):
        def release(self, booked, source, query):
            released = super().release(booked, source, query)
            seen.append((booked, query.bound, released))
            return released

    monkeypatch.setattr(recipe, "Gate", Recorder)
    first = fit(steps, source, Subject(), None, 4)
    assert [entry[0] for entry in seen] == list(steps.releases(source.n))
    for booked, bound, released in seen:
        assert booked.bound >= bound
        assert released.noise.scale >= bound / np.sqrt(2 * booked.share.rho)
    replay = iter(seen)

    class Replay(Gate):
        def release(self, booked, source, query) -> Released:
            asked, bound, released = next(replay)
            assert (booked, query.bound) == (asked, bound)
            exact = source.total(query.of_block)
            assert np.isfinite(exact).all()
            return released

    monkeypatch.setattr(recipe, "Gate", Replay)
    other = spoilt(cohort(900, 2)).astype({"treated": bool})
    other.loc[::2, "exit"] = 1e308
    steps, source = steps_and_source(other, code)
    source = replace(source, number=900 if code == "replace" else 950)
    second = fit(steps, source, Subject(), None, 4)
    assert first.to_json() == second.to_json()


def test_nobody_at_all_is_a_fit_where_the_number_of_persons_is_private():
    result = (
        model(dp.ZCDP(0.5), adjacency="add-remove", insecure_seed=1)
        .fit(cohort(30).iloc[:0])
        .result_
    )
    assert not result.reported.any()


def test_files_memory_and_order_of_rows_agree(tmp_path, small):
    """A CSV file, polars and pandas, rows of a person together or not: the same result to the last digit or nearly."""
    polars = pytest.importorskip("polars")
    path = tmp_path / "cohort.csv"
    small.to_csv(path, index=False)
    private = model(dp.ZCDP(0.5), insecure_seed=7)
    first = private.fit(small).result_.estimate
    for table in (path, polars.from_pandas(small)):
        assert np.allclose(private.fit(table).result_.estimate, first, rtol=1e-9)


def test_survival_and_baseline_are_those_of_the_hazards(small):
    result = model(dp.NoPrivacy()).fit(small).result_
    person = {"age": [60.0], "treated": [True]}
    hazards = result.baseline(person)["hazard"].to_numpy()
    expected = result.estimate[0] + 60 * result.estimate[1] + result.estimate[2]
    assert hazards[0] == pytest.approx(np.exp(expected))
    assert hazards[-1] == pytest.approx(np.exp(expected + result.estimate[-1]))
    survival = result.predict_survival(person, [0.5, 1.5, 10.0])
    cumulated = [0.5 * hazards[0], hazards[0] + 0.5 * hazards[1], hazards @ np.diff([0, *CUTS, 10])]
    assert survival["survival"].to_numpy() == pytest.approx(np.exp(-np.array(cumulated)))
    assert (survival["low"] < survival["survival"]).all()
    assert (survival["survival"] < survival["high"]).all()
    # the interval of a cumulated hazard of one interval is that of a contrast
    weights = np.array([1.0, 60.0, 1.0, *np.zeros(5)])
    found = result.contrast(weights)
    assert survival.loc[0, "low"] == pytest.approx(np.exp(-0.5 * np.exp(found.high)))
    with pytest.raises(dp.InputError, match="up to the horizon 10"):
        result.predict_survival(person, [11.0])
    with pytest.raises(dp.InputError, match="use predict_survival"):
        result.predict(person)


def test_other_models_have_no_hazards():
    data = dp.datasets.rand_hie()
    result = (
        dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
        .fit(data.table)
        .result_
    )
    for ask in (result.hazard_ratios, result.baseline):
        with pytest.raises(dp.InputError, match="HazardRegression"):
            ask()


def test_a_saved_result_answers_the_same(small):
    result = model(dp.ZCDP(0.5), insecure_seed=1).fit(small).result_
    again = dp.FitResult.from_json(result.to_json())
    assert json.loads(again.to_json()) == json.loads(result.to_json())
    assert again.hazard_ratios().equals(result.hazard_ratios())
    assert again.baseline().equals(result.baseline())


def test_names_of_lifelines_are_taken(small):
    asked = dp.HazardRegression(
        "age + treated",
        duration_col="exit",
        event_col="died",
        entry_col="entry",
        cuts=CUTS,
        horizon=10,
        schema=SCHEMA,
        budget=dp.NoPrivacy(),
    )
    ours = model(dp.NoPrivacy()).fit(small)
    theirs = asked.fit(small)
    assert np.array_equal(ours.result_.estimate, theirs.result_.estimate)
    hazards = theirs.predict(small.iloc[:2])
    x = small.iloc[:2][["age", "treated"]].to_numpy(float)
    assert hazards == pytest.approx(np.exp(x @ theirs.coef_))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cuts": None}, "declare cuts="),
        ({"horizon": None}, "declare cuts="),
        ({"cuts": [5, 3]}, "must rise"),
        ({"cuts": [3, 12]}, "must rise"),
        ({"cuts": []}, "2 to 12 intervals"),
        ({"cuts": list(np.linspace(0.5, 9.5, 12))}, "2 to 12 intervals"),
        ({"cuts": "soon"}, "declare cuts="),
        ({"formula": "died ~ age"}, "Surv"),
        ({"formula": "age", "duration_col": "exit"}, "go together"),
        ({"duration_col": "exit", "event_col": "died"}, "give the outcome once"),
        ({"formula": None}, "needs a formula"),
        ({"formula": "Surv(exit, age) ~ treated"}, "whether there was an event"),
        ({"formula": "Surv(exit) ~ treated"}, r"write Surv\(exit, event\)"),
        ({"formula": "Surv(exit, died) ~ age + offset(log(age))"}, "drop offset"),
        ({"formula": "Surv(exit, died) ~ age - 1"}, "needs an intercept"),
        ({"formula": "Surv(exit, died) ~ age + exit"}, "both sides"),
    ],
)
def test_what_cannot_be_fitted_is_refused_with_a_remedy(options, words, small):
    given = {"formula": FORMULA, "cuts": CUTS, "horizon": 10, **options}
    ledger = dp.Ledger(dp.ZCDP(1.0), neighbours="replace-unit")
    asked = dp.HazardRegression(schema=SCHEMA, budget=dp.ZCDP(0.5), ledger=ledger, **given)
    with pytest.raises(dp.InputError, match=words):
        asked.fit(small)
    assert not ledger.entries()


def test_other_models_refuse_a_survival_outcome(small):
    for kind in (dp.LinearRegression, dp.LogisticRegression, dp.PoissonRegression):
        with pytest.raises(dp.InputError, match="fit HazardRegression"):
            kind("Surv(exit, died) ~ age", schema=SCHEMA, budget=dp.ZCDP(1.0)).fit(small)


def test_plans_say_whether_persons_enter_late():
    plan = dp.HazardPlan(dp.ZCDP(0.5), adjacency="replace-unit")
    assert (
        plan.releases().of("life table")[0].bound
        < dp.HazardPlan(dp.ZCDP(0.5), delayed=True).releases().of("life table")[0].bound
    )
    with pytest.raises(dp.InputError, match="delayed=True"):
        dp.HazardRegression(FORMULA, cuts=CUTS, horizon=10, schema=SCHEMA, plan=plan).fit(
            cohort(50)
        )


def test_events_are_outcomes_comparisons_or_numbers():
    """An outcome with two levels, a comparison and a boolean give the same fit."""
    data = dp.datasets.cohort(800)
    table = data.table.assign(
        status=np.where(data.table["died"], 2, 1),
        state=np.where(data.table["died"], "dead", "alive"),
    )
    text = """
    unit = "one patient"
    [columns]
    years = { type = "number", low = 0, high = 10 }
    died = { type = "boolean" }
    status = { type = "integer", low = 1, high = 2 }
    state = { type = "outcome", levels = ["alive", "dead"] }
    age = { type = "number", low = 30, high = 90 }
    """
    schema = dp.Schema.parse(text)
    found = [
        dp.HazardRegression(
            f"Surv(years, {event}) ~ age",
            cuts=[2, 5],
            horizon=9,
            schema=schema,
            budget=dp.NoPrivacy(),
        )
        .fit(table)
        .result_.estimate
        for event in ("died", "status == 2", "state")
    ]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("formula", "options", "words"),
    [
        ("Surv(exit, died) ~ 1", {}, "needs a covariate.*dp.survival_curves"),
        ("Surv(exit, died) ~", {}, "name columns$"),
        ("Surv(exit, died) ~ age", {"horizon": 25}, "horizon 25 is beyond 20"),
        (
            "Surv(age, exit, died) ~ treated",
            {},
            "nobody enters before the horizon 10: 'age' begins at 30",
        ),
    ],
)
def test_follow_up_that_cannot_be_is_refused_before_anything_is_booked(formula, options, words):
    ledger = dp.Ledger(dp.ApproxDP(1.0, 1e-6), unit="one patient")
    model = dp.HazardRegression(
        formula,
        cuts=CUTS,
        **{"horizon": 10} | options,
        schema=ROWS,
        budget=dp.ApproxDP(0.5, 1e-6),
        ledger=ledger,
    )
    with pytest.raises(dp.InputError, match=words):
        model.fit(cohort(50))
    assert list(ledger.entries()) == []
