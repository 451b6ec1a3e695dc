"""Forecasts that know means, deviations and shares alone, held against what the studies of real data
found: the ranges and the words that forecasts print are those of the comparison.
"""

import sys

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.simulate import Forecast, synthetic
from studies import forecast

FOUND = {study.name: forecast.read(study.results / "forecast.json") for study in forecast.STUDIES}
# The package has a function of the same name.
forecast_module = sys.modules[Forecast.__module__]


@pytest.mark.parametrize("study", forecast.STUDIES, ids=lambda study: study.name)
def test_the_comparison_is_of_all_real_designs_and_budgets(study):
    """And a few of its numbers are those that forecasts give now."""
    rows = FOUND[study.name]
    found = [(row["design"], row["budget"]) for row in rows]
    assert found == [(design, name) for design in study.designs for name in forecast.BUDGETS]
    (again,) = forecast.compare(study, study.designs[0], ["1,1e-6"], replicates=4)
    kept = next(row for row in rows if (row["design"], row["budget"]) == found[1])
    assert again["printed"] == kept["printed"]
    assert np.allclose(forecast.lengths([again]), forecast.lengths([kept]), rtol=0.25)


@pytest.mark.parametrize("study", forecast.STUDIES, ids=lambda study: study.name)
def test_four_intervals_in_five_are_in_the_range_of_guesses(study):
    """The range is no wider than it takes: a quarter as forecast, more or less, would not do."""
    times = forecast.lengths(FOUND[study.name])
    assert len(times) > 300
    low, high = synthetic.OFF
    assert ((low <= times) & (times <= high)).mean() >= 0.8
    assert (times < low).mean() < 0.1
    assert (times > high).mean() < 0.12
    assert ((times > 0.75) & (times < 1.25)).mean() < 0.7


def test_lines_that_all_simulated_fits_print_may_be_missing():
    rows = [row for found in FOUND.values() for row in found]
    real, simulated = forecast.printed(rows)
    missing = (real[simulated == 1] < forecast.OFTEN).mean()
    assert round(1 / missing) == forecast_module._ONE_NOT_REPORTED_IN
    # ... and those that few of them print are not reported
    assert (real[simulated < 0.5] < forecast.OFTEN).mean() > 0.95


def test_the_check_can_fail(monkeypatch):
    """Without effects on the log-odds lengths are too short by more."""
    (kept,) = (
        row for row in FOUND["geometry"] if (row["design"], row["budget"]) == ("acs_s", "0.3,1e-6")
    )
    monkeypatch.setattr(synthetic, "LOG_ODDS", 0.0)
    (row,) = forecast.compare(forecast.LOGISTIC, "acs_s", ["0.3,1e-6"], replicates=4)
    assert np.median(forecast.lengths([row])) > 1.2 * np.median(forecast.lengths([kept]))


@pytest.mark.parametrize(
    ("study", "design"), [(forecast.LOGISTIC, "rand"), (forecast.SQUARES, "rand_log")]
)
def test_the_facts_are_those_of_the_design(study, design, tmp_path):
    """Those of the bundled design can be made without a folder of data."""
    told = forecast.facts(study, design, tmp_path)
    assert told == study.facts[design]
    formula, schema = forecast.question(told)
    table = dp.datasets.rand_hie().table
    assert schema.typical["disea"].mean == pytest.approx(table["disea"].mean(), rel=1e-5)
    assert schema.typical["disea"].sd == pytest.approx(np.std(table["disea"]), rel=1e-5)
    assert "`disea`" in formula
