"""Event studies and differences in differences."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpinfer as dp

YEARS = list(range(2000, 2008))
PUBLIC = f"""
unit = {{name = "one person", column = "id"}}
columns.y = {{type = "number", low = -8, high = 8}}
columns.new = {{type = "boolean"}}
columns.arm = {{type = "category", levels = ["old", "new"]}}
columns.start = {{type = "integer", low = 2000, high = 2099, missing = 2099}}
columns.year = {{type = "integer", low = 2000, high = 2007, levels = {YEARS}}}
columns.day = {{type = "integer", low = 1, high = 365}}
"""
SCHEMA = dp.Schema.parse(PUBLIC)
COHORTS = (2003, 2005)
GROWTH = {2003: 0.1, 2005: 0.0}


def made(persons, seed):
    rng = np.random.default_rng(seed)
    start = rng.choice([2099, *COHORTS], persons, p=[0.4, 0.35, 0.25])
    since = np.array(YEARS) - start[:, None]
    growth = np.array([GROWTH.get(int(one), 0.0) for one in start])[:, None]
    y = rng.normal(0, 1, (persons, 1)) + 0.05 * np.arange(8) + 0.3 * rng.normal(0, 1, since.shape)
    y = y + np.where(since >= 0, 0.2 + growth * since, 0.0)
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(persons), 8),
            "year": np.tile(YEARS, persons),
            "start": np.repeat(np.where(start == 2099, np.nan, start), 8),
            "new": np.repeat(start == 2003, 8),
            "arm": np.repeat(np.where(start == 2003, "new", "old"), 8),
            "y": y.ravel(),
        }
    )


TABLE = made(600, 0)
TWO_ARMS = TABLE[TABLE["start"] != 2005]


def study(table=TABLE, kind=dp.EventStudy, **options):
    given = {"period": "year", "schema": SCHEMA, "budget": dp.NoPrivacy()} | options
    return kind("y ~ 1", **given).fit(table)


def test_one_start_is_the_regression_on_periods_of_the_treated():
    model = study(TWO_ARMS, start=2003, treated="new", window=(-2, 2))
    used = TWO_ARMS.assign(k=np.where(TWO_ARMS["new"], np.clip(TWO_ARMS["year"] - 2003, -2, 2), -1))
    other = smf.ols("y ~ C(k, Treatment(-1)) + C(year) + C(id)", used).fit()
    asked = [other.params[f"C(k, Treatment(-1))[T.{k}]"] for k in (-2, 0, 1, 2)]
    effects = model.period_effects()
    assert effects.periods == (-2, 0, 1, 2)
    assert effects.labels == ("-2 or earlier", "0", "1", "2 or later")
    np.testing.assert_allclose(effects.estimate, asked, atol=1e-8)
    assert (effects.band[:, 0] < effects.interval[:, 0]).all()
    assert (effects.interval[:, 1] < effects.band[:, 1]).all()
    assert model.average_effect().estimate == pytest.approx(np.mean(asked[1:]))
    assert model.pretrend_test().df == 1
    assert list(effects.to_frame().index) == [-2, 0, 1, 2]
    by_arm = study(TWO_ARMS, start=2003, treated="arm == 'new'", window=(-2, 2))
    np.testing.assert_allclose(by_arm.period_effects().estimate, effects.estimate, atol=1e-10)


def test_differences_in_differences():
    model = study(TWO_ARMS, dp.DifferenceInDifferences, start=2003, treated="new")
    used = TWO_ARMS.assign(post=TWO_ARMS["new"] & (TWO_ARMS["year"] >= 2003))
    other = smf.ols("y ~ post + C(year) + C(id)", used).fit()
    assert model.average_effect().estimate == pytest.approx(other.params["post[T.True]"], abs=1e-8)
    assert "all periods before" in repr(model.period_effects())


def test_cohorts_are_averaged_by_their_released_shares():
    """Of a balanced panel the shares are those of persons; the coefficients are those of cohort x period."""
    model = study(start="start", cohorts=COHORTS, window=(-2, 2))
    persons = TABLE.groupby("id")["start"].first()
    counts = np.array([(persons == cohort).sum() for cohort in COHORTS])
    shares = model.shares()
    np.testing.assert_allclose([shares[cohort] for cohort in COHORTS], counts / counts.sum())
    since = np.clip(TABLE["year"] - TABLE["start"], -2, 2)
    cells = [
        "reference" if np.isnan(k) or k == -1 else f"{start:.0f}:{k:.0f}"
        for start, k in zip(TABLE["start"], since, strict=True)
    ]
    joint = TABLE.assign(cell=cells)
    other = smf.ols("y ~ C(cell, Treatment('reference')) + C(year) + C(id)", joint).fit()
    found = [
        [other.params[f"C(cell, Treatment('reference'))[T.{cohort}:{k}]"] for k in (-2, 0, 1, 2)]
        for cohort in COHORTS
    ]
    asked = counts @ np.array(found) / counts.sum()
    np.testing.assert_allclose(model.period_effects().estimate, asked, atol=1e-8)
    assert "released shares" in repr(model.period_effects())


def test_starts_that_differ_are_warned_of():
    with pytest.warns(UserWarning, match="weights that may be negative"):
        pooled = study(start="start", window=(-2, 2))
    with pytest.warns(UserWarning, match="cohorts="):
        study(kind=dp.DifferenceInDifferences, start="start")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study(start="start", cohorts=COHORTS, window=(-2, 2))
    assert pooled.period_effects().periods == (-2, 0, 1, 2)
    assert pooled.shares() == {}


def test_persons_without_a_start_are_warned_of():
    """They would be left out, and with them whom the treated are compared with."""
    text = PUBLIC.replace("high = 2099, missing = 2099", "high = 2007")
    with pytest.warns(UserWarning, match="rows without a start"):
        study(start="start", cohorts=COHORTS, window=(-2, 2), schema=dp.Schema.parse(text))


def test_a_private_study():
    model = study(
        made(6_000, 1),
        start="start",
        cohorts=COHORTS,
        window=(-2, 2),
        budget=dp.ApproxDP(3, 1e-6),
        insecure_seed=2,
    )
    effects = model.period_effects()
    assert effects.known.all()
    truth = [0.0, 0.2, 0.2 + 0.1 * 0.58, 0.2 + 0.1 * 0.58 * 3]
    assert (np.abs(effects.estimate - truth) < 3.5 * effects.std_error + 0.05).all()
    assert sum(model.shares().values()) == pytest.approx(1)
    assert "start == 2003" in model.summary()


def test_what_is_not_known_is_said_to_be():
    model = study(
        TABLE[:400], start="start", cohorts=COHORTS, budget=dp.ZCDP(0.001), insecure_seed=2
    )
    effects = model.period_effects()
    assert not effects.known.any()
    assert "not reported" in repr(effects)
    assert effects.to_frame().isna().all(axis=None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"period": ""}, "period= is missing"),
        ({"period": "day"}, "integer with levels"),
        ({"period": "nobody"}, "no column 'nobody'"),
        ({"start": None}, "start= is missing"),
        ({"start": "arm"}, "must be an integer"),
        ({"start": 2003}, "treated= is missing"),
        ({"start": 2003, "treated": "arm"}, "not yes or no"),
        ({"start": 2003, "treated": "new", "cohorts": (2003,)}, "column of starts"),
        ({"start": 2050, "treated": "new"}, "one from it on"),
        ({"formula": "y ~ new", "start": 2003, "treated": "new"}, "is in the model as treated="),
        ({"start": 2000, "treated": "new"}, "to be compared with"),
        ({"start": 2003.5, "treated": "new"}, "whole number"),
        ({"cohorts": (2003, 2000)}, "the start 2000"),
        ({"cohorts": ()}, "one or more different starts"),
        ({"cohorts": ("a",)}, "whole numbers"),
        ({"window": (1, 3)}, "window goes from"),
        ({"window": 3}, "pair of whole numbers"),
        ({"reference": 9}, "must be in the window"),
    ],
)
def test_faults_have_a_remedy(options, message):
    given = {"formula": "y ~ 1", "period": "year", "start": "start", "cohorts": COHORTS} | options
    if options.get("start", "start") != "start" and "cohorts" not in options:
        given["cohorts"] = None
    model = dp.EventStudy(schema=SCHEMA, budget=dp.ZCDP(0.1), **given)
    with pytest.raises(dp.InputError) as raised:
        model.entry(100)
    assert message in str(raised.value)


def test_the_formula_has_no_effects_of_its_own():
    model = dp.EventStudy("y ~ 1 | id", schema=SCHEMA, period="year", start=2003, treated="new")
    with pytest.raises(dp.InputError, match="leave out the part behind"):
        model.entry(100)
    with pytest.raises(dp.InputError, match="for a formula and a schema"):
        dp.EventStudy(schema=SCHEMA, period="year").entry(100)


def test_the_figure(tmp_path):
    effects = study(start="start", cohorts=COHORTS, window=(-3, 3)).period_effects()
    figure = dp.plot.event_study(effects)
    figure.savefig(tmp_path / "effects.png")
    (panel,) = figure.axes
    labels = [label.get_text().replace("\n", " ") for label in panel.get_xticklabels()]
    assert labels == ["-3 or earlier", "-2", "-1", "0", "1", "2", "3 or later"]
