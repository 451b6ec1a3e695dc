"""Forecasts that know means, deviations and shares alone are close to what the study of the real
data found.
"""

import numpy as np
import pytest
from studies.geometry import forecast

import dpinfer as dp
from dpinfer.simulate import synthetic

BUDGETS = ("0.3,1e-6", "1,1e-6", "0.1875")
STUDY = forecast.json.loads((forecast.RESULTS / "geometry.json").read_text(encoding="utf-8"))
there_is_a_study = pytest.mark.skipif(
    not STUDY, reason="the study has not been run with the method of this version yet"
)


@there_is_a_study
@pytest.mark.parametrize("design", forecast.DESIGNS)
def test_lengths_are_within_a_quarter_of_the_study(design):
    for row in forecast.compare(design, BUDGETS, replicates=8):
        assert 0.75 < row["over_plain"] < 1.25
        assert 0.75 < row["length"] < 1.25
        study, found = row["reported"]
        assert abs(study - found) < 0.15


@there_is_a_study
def test_the_check_can_fail(monkeypatch):
    """Without effects on the log-odds, or with other shares, lengths are too short."""
    monkeypatch.setattr(synthetic, "LOG_ODDS", 0.0)
    (row,) = forecast.compare("acs_s", ["0.3,1e-6"], replicates=4)
    assert row["length"] < 0.75


def test_the_facts_are_those_of_the_design(tmp_path):
    """Those of the bundled design can be made without a folder of data."""
    assert (
        forecast.facts("rand", tmp_path)
        == forecast.json.loads((forecast.RESULTS / "facts.json").read_text(encoding="utf-8"))[
            "rand"
        ]
    )
    formula, schema = forecast.question(forecast.facts("rand", tmp_path))
    table = dp.datasets.rand_hie().table
    assert schema.typical["disea"].mean == pytest.approx(table["disea"].mean(), rel=1e-5)
    assert schema.typical["disea"].sd == pytest.approx(np.std(table["disea"]), rel=1e-5)
    assert "`disea`" in formula
