"""Survival curves of tables: without noise those of Kaplan and Meier, and what is refused before booking."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.survfunc import CumIncidenceRight, SurvfuncRight, survdiff

import dpinfer as dp
from dpinfer.description.survival_release import survival_release

SCHEMA = dp.Schema.parse("""
unit = "one patient"
[columns.months]
type = "integer"
low = 0
high = 36
[columns.entered]
type = "integer"
low = 0
high = 36
[columns.years]
type = "number"
low = 0
high = 3
[columns.died]
type = "boolean"
label = "death"
[columns.status]
type = "integer"
low = 0
high = 2
levels = [0, 1, 2]
reference = 0
[columns.cause]
type = "category"
levels = ["none", "relapse", "death"]
reference = "none"
[columns.arm]
type = "category"
levels = ["a", "b", "c"]
""")
MONTHS = list(range(1, 37))
NOISELESS = {"budget": dp.NoPrivacy(), "bins": MONTHS, "time": "months"}


@cache
def patients():
    """Four thousand patients in three arms, with late entries and two causes."""
    rng = np.random.default_rng(0)
    n = 4000
    arm = rng.choice(3, n)
    event = np.ceil(20 * rng.weibull(1.3, n) * (1 + 0.1 * arm))
    censored = np.minimum(rng.integers(1, 60, n), 36)
    months = np.minimum(event, censored).astype(int)
    died = event <= censored
    status = np.where(died, rng.integers(1, 3, n), 0)
    late = rng.random(n) < 0.5
    entered = np.minimum(np.where(late, rng.integers(0, 12, n), 0), months - 1)
    return pd.DataFrame(
        {
            "months": months,
            "entered": entered,
            "years": months / 12,
            "died": died,
            "status": status,
            "cause": np.array(["none", "relapse", "death"])[status],
            "arm": np.array(list("abc"))[arm],
        }
    )


@cache
def by_arm():
    return dp.survival_curves(patients(), SCHEMA, event="died", by="arm", **NOISELESS)


def at_months(fitted):
    """A curve of statsmodels at every month."""
    places = np.searchsorted(fitted.surv_times, MONTHS, side="right") - 1
    return np.where(places >= 0, fitted.surv_prob[places], 1.0)


def test_without_noise_a_curve_is_that_of_kaplan_and_meier():
    frame = by_arm().to_frame()
    for arm, rows in patients().groupby("arm"):
        fitted = SurvfuncRight(rows["months"], rows["died"].astype(int))
        found = frame[frame["group"] == arm]
        np.testing.assert_allclose(found["survival"], at_months(fitted), atol=1e-12)
        at_risk = [(rows["months"] > month).sum() for month in MONTHS[:-1]]
        assert found["at_risk"].to_list()[:-1] == at_risk


def test_without_noise_late_entries_count_from_their_entry_on():
    rows = patients()
    curves = dp.survival_curves(rows, SCHEMA, event="died", entry="entered", **NOISELESS)
    fitted = SurvfuncRight(rows["months"], rows["died"].astype(int), entry=rows["entered"])
    np.testing.assert_allclose(curves.to_frame()["survival"], at_months(fitted), atol=1e-12)


@pytest.mark.parametrize("event", ["status", "cause"])
def test_without_noise_incidence_is_that_of_aalen_and_johansen(event):
    rows = patients()
    curves = dp.survival_curves(rows, SCHEMA, event=event, **NOISELESS)
    fitted = CumIncidenceRight(rows["months"], rows["status"])
    for cause, expected in zip(curves.causes, fitted.cinc, strict=True):
        found = curves.incidence(cause)["incidence"]
        places = np.searchsorted(fitted.times, MONTHS, side="right") - 1
        np.testing.assert_allclose(found, expected[places], atol=1e-12)


def test_without_noise_the_test_is_the_log_rank_test():
    rows = patients()
    statistic, p_value = survdiff(rows["months"], rows["died"].astype(int), rows["arm"])
    found = by_arm().test()
    # those at risk for one time only add nothing, but curves end before there are so few
    assert found.statistic == pytest.approx(statistic, rel=1e-2)
    assert found.p_value == pytest.approx(p_value, rel=0.1)
    assert found.df == 2
    assert found.noise_share == 0


def test_without_noise_medians_and_means_are_those_of_the_steps():
    medians = by_arm().median().set_index("group")
    means = by_arm().restricted_mean(36)
    means = means[means["figure"] == "mean"].set_index("group")
    for arm, rows in patients().groupby("arm"):
        fitted = SurvfuncRight(rows["months"], rows["died"].astype(int))
        assert medians.loc[arm, "time"] == fitted.quantile(0.5)
        steps = np.concatenate([[1.0], at_months(fitted)[:-1]])
        assert means.loc[arm, "estimate"] == pytest.approx(steps.sum())


def test_differences_of_means_are_from_the_first_group():
    frame = by_arm().rmst().set_index(["figure", "group"])["estimate"]
    assert frame["difference", "c"] == pytest.approx(frame["mean", "c"] - frame["mean", "a"])
    assert ("difference", "a") not in frame.index


def test_times_in_continuous_units_are_near_the_curve():
    """Half of an interval for those censored in it: within a thousandth with forty intervals."""
    rng = np.random.default_rng(1)
    years = np.minimum(rng.exponential(2, 4000), 3)
    censored = rng.uniform(0, 6, 4000)
    table = {"years": np.minimum(years, censored), "died": (years <= censored) & (years < 3)}
    fitted = SurvfuncRight(table["years"], table["died"].astype(int))
    curves = dp.survival_curves(
        table, SCHEMA, time="years", event="died", budget=dp.NoPrivacy(), bins=40
    )
    frame = curves.to_frame()
    places = np.searchsorted(fitted.surv_times, frame["time"], side="right") - 1
    assert np.abs(fitted.surv_prob[places] - frame["survival"]).max() < 1e-3


def test_curves_from_a_later_start_are_of_who_is_still_there():
    rows = patients()
    curves = dp.survival_curves(
        rows, SCHEMA, event="died", start=6, **NOISELESS | {"bins": [12, 24]}
    )
    later = rows[rows["months"] > 6]
    other = dp.survival_curves(
        later, SCHEMA, event="died", start=6, **NOISELESS | {"bins": [12, 24]}
    )
    assert curves.to_frame().equals(other.to_frame())


def test_files_and_frames_give_the_same_counts(tmp_path):
    rows = patients()
    path = tmp_path / "patients.parquet"
    rows.to_parquet(path)
    options = {"event": "status", "by": "arm", "entry": "entered"} | NOISELESS
    frame = dp.survival_curves(rows, SCHEMA, **options)
    assert dp.survival_curves(path, SCHEMA, **options).counts.tolist() == frame.counts.tolist()


@pytest.mark.parametrize("counted", ["every", "average"])
def test_ids_make_one_record_of_several_rows(counted):
    """Spells of a patient are one time from the first entry to the last exit."""
    rows = patients()
    middle = (rows["months"] + rows["entered"]) // 2
    split = rows["months"] - rows["entered"] >= 2
    first = rows[split].assign(months=middle[split], died=False)
    second = pd.concat([rows[split].assign(entered=middle[split]), rows[~split]])
    spells = pd.concat([first, second]).reset_index(names="id").sample(frac=1, random_state=0)
    document = SCHEMA.document() | {
        "unit": {"name": "one patient", "column": "id", "rows": counted}
    }
    schema = dp.Schema.of_document(document)
    options = {"event": "died", "by": "arm", "entry": "entered"} | NOISELESS
    curves = dp.survival_curves(spells, schema, **options)
    assert curves.n == len(rows)
    alone = dp.survival_curves(rows, SCHEMA, **options)
    assert curves.counts.tolist() == alone.counts.tolist()
    assert dp.SurvivalCurves.from_json(curves.to_json()).unit == curves.unit == schema.unit
    assert "All rows with one id are one record" in curves.summary(full=True)


def test_an_outcome_and_a_comparison_are_events_too():
    rows = patients()
    of_status = dp.survival_curves(rows, SCHEMA, event="status == 1", **NOISELESS)
    table = rows.assign(died=rows["status"] == 1)
    of_column = dp.survival_curves(table, SCHEMA, event="died", **NOISELESS)
    assert of_status.counts.tolist() == of_column.counts.tolist()
    assert of_column.causes == ("death",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time": "arm"}, "must be a number"),
        ({"time": 3}, "takes the name of a column"),
        ({"event": "years"}, "must have levels"),
        ({"event": None}, "takes the name of a column"),
        ({"by": "years"}, "is a number"),
        ({"bins": [5, 3]}, "from small to large"),
        ({"bins": [12, 48]}, "beyond the upper bound"),
        ({"bins": "months"}, "takes the ends"),
        ({"bins": []}, "all of them after start"),
        ({"bins": 1000}, "36 intervals|1 to 200|makes"),
        ({"bins": 0}, "takes a number of intervals"),
        ({"start": "x"}, "start= takes a number"),
        ({"start": 40, "bins": 3}, "upper bound of the time"),
        ({"level": 2.0}, "level must be"),
        ({"adjacency": "all"}, "replace"),
        ({"budget": dp.PureDP(1.0)}, "need Gaussian noise"),
    ],
)
def test_faults_are_found_before_anything_is_booked(options, words, tmp_path):
    ledger = dp.Ledger.create(tmp_path / "ledger", dp.ZCDP(1.0), unit="one patient")
    given = {"time": "months", "event": "died", "bins": 12, "budget": dp.ZCDP(0.1)} | options
    if options == {"bins": 1000}:
        given["time"] = "years"
    with pytest.raises(dp.DpinferError, match=words):
        dp.survival_curves(patients(), SCHEMA, ledger=ledger, **given)
    assert not ledger.entries()


def test_no_budget_and_weights_are_refused():
    with pytest.raises(dp.BudgetError, match="needs a budget"):
        dp.survival_curves(patients(), SCHEMA, time="months", event="died")
    document = SCHEMA.document() | {"weights": {"column": "years", "most": 3}}
    with pytest.raises(dp.InputError, match="count alike"):
        dp.survival_curves(patients(), dp.Schema.of_document(document), event="died", **NOISELESS)


def test_one_entry_is_booked_that_costs_the_budget(tmp_path):
    ledger = dp.Ledger.create(tmp_path / "ledger", dp.ApproxDP(2.0, 1e-6), unit="one patient")
    curves = dp.survival_curves(
        patients(),
        SCHEMA,
        time="months",
        event="died",
        by="arm",
        budget=dp.ApproxDP(1.0, 1e-6),
        ledger=ledger,
    )
    (entry,) = ledger.entries()
    assert entry.purpose == "survival: died by months by arm"
    assert len(entry.events) == 1
    assert entry.release == curves.privacy.release
    assert 0.99 < ledger.spent() <= 1.0


def test_the_noise_is_that_of_the_bound():
    """√2‖B‖/sqrt(2ρ) in running sums; half with one added or removed, less √2."""
    options = {"time": "months", "event": "died", "budget": dp.ZCDP(0.1), "bins": MONTHS}
    replaced = survival_release(patients(), SCHEMA, **options)
    removed = survival_release(patients(), SCHEMA, adjacency="add-remove", **options)
    late = survival_release(patients(), SCHEMA, entry="entered", **options)
    assert replaced.noise_sd / removed.noise_sd == pytest.approx(np.sqrt(2))
    assert late.noise_sd / replaced.noise_sd == pytest.approx(np.sqrt(2))


def test_saved_curves_are_read_exactly(tmp_path):
    curves = dp.survival_curves(
        patients(),
        SCHEMA,
        time="months",
        event="cause",
        by="arm",
        budget=dp.ZCDP(0.1),
        insecure_seed=3,
    )
    curves.save(tmp_path / "survival.json")
    again = dp.SurvivalCurves.load(tmp_path / "survival.json")
    assert again.to_json() == curves.to_json()
    assert again.to_frame().equals(curves.to_frame())
    assert again.summary(full=True) == curves.summary(full=True)
    written = json.loads(curves.to_json())
    assert written["format"] == "dpinfer.SurvivalCurves"
    with pytest.raises(dp.InputError, match="of version 2"):
        dp.SurvivalCurves.from_json(json.dumps(written | {"version": 2}))
    with pytest.raises(dp.InputError, match="no saved survival curves"):
        dp.SurvivalCurves.from_json(json.dumps(written | {"counts": [[1.0]]}))
    with pytest.raises(dp.InputError, match="no saved survival curves"):
        dp.SurvivalCurves.from_json("{}")
    with pytest.raises(dp.InputError, match="cannot be read"):
        dp.SurvivalCurves.load(tmp_path / "nothing.json")
    with pytest.raises(dp.InputError, match="cannot be written"):
        curves.save(tmp_path / "no folder" / "survival.json")


def test_summaries_are_short_and_full_ones_say_everything():
    shown = by_arm().summary()
    under = shown.rsplit("=" * 80, 1)[-1].strip().splitlines()
    assert len(under) <= 10
    assert max(map(len, shown.splitlines())) <= 80
    assert "NOT PRIVATE" in shown
    assert "Log-rank" in by_arm().summary(full=True)
    assert "Log-rank" in by_arm().to_markdown()
    assert "<table>" in by_arm()._repr_html_()
    assert repr(by_arm()) == "<SurvivalCurves of died by arm: 4,000 records, NOT PRIVATE>"


def test_what_a_small_budget_does_not_support_is_not_reported():
    curves = dp.survival_curves(
        patients().head(300),
        SCHEMA,
        time="months",
        event="died",
        by="arm",
        budget=dp.ZCDP(0.0005),
        insecure_seed=0,
    )
    frame = curves.to_frame()
    assert (frame["status"] != "reported").any()
    hidden = frame[frame["status"] != "reported"]
    assert hidden["survival"].isna().all()
    assert curves.test().status != "reported"
    assert np.isnan(curves.test().p_value)
    assert "not reported" in str(curves.test())
    assert "not reported" in curves.summary()


def test_questions_that_have_no_answer_name_a_remedy():
    curves = dp.survival_curves(patients(), SCHEMA, event="cause", **NOISELESS)
    with pytest.raises(dp.InputError, match="compares groups"):
        curves.test()
    with pytest.raises(dp.InputError, match="there is no cause"):
        curves.incidence("fever")
    with pytest.raises(dp.InputError, match="not the end of an interval"):
        curves.rmst(13.5)
    with pytest.raises(dp.InputError, match="between 0 and 1"):
        curves.quantile(2)
    assert curves.quantile(0.001)["time"].to_list() == [np.inf]
    assert set(curves.incidence()["cause"]) == {"relapse", "death"}
    assert curves.numbers_at_risk()["at_risk"].iloc[0] == 4000
