"""`studies.field`: the committed results, and one sample of the simulated table by every method."""

import json
from pathlib import Path

import numpy as np
import pytest
from studies.field import methods, report
from studies.field.designs import NAMES
from studies.field.methods import DIFFPRIVLIB, METHODS, OLS, OURS, Cell

from dpinfer.mechanisms.privacy_cost import gaussian_delta

ROOT = Path(__file__).parents[2]
CELLS = json.loads((ROOT / "studies/field/results/field.json").read_text(encoding="utf-8"))


def test_the_committed_results_are_complete():
    assert [(cell["design"], cell["budget"]) for cell in CELLS] == [
        (design, budget) for design in NAMES for budget in report.BUDGETS
    ]
    assert all(cell["replicates"] >= 200 for cell in CELLS)
    assert all(set(cell["methods"]) == set(METHODS) for cell in CELLS)
    assert report.page(CELLS) == (ROOT / "docs/field.md").read_text(encoding="utf-8")


def test_the_committed_intervals_cover():
    for cell in CELLS:
        ours = cell["methods"][OURS]
        assert ours["coverage"] >= report.NOMINAL, cell["design"]
        assert ours["reported"] >= 0.98
        assert ours["length"] < min(cell["methods"][name]["length"] for name in ("SSP", "AdaSSP"))
        assert cell["methods"][OLS]["length"] == pytest.approx(1, abs=0.01)
        assert cell["methods"]["SSP textbook"]["coverage"] < report.NOMINAL


def test_noise_of_the_rivals_is_what_the_budget_pays_for():
    rho = Cell("uniform_3", "1,1e-6").gaussian_rho
    assert gaussian_delta(1.0, np.sqrt(2 * rho)) == pytest.approx(1e-6, rel=1e-5)
    assert Cell("uniform_3", "0.1").gaussian_rho == 0.1
    assert Cell("uniform_3", "0.5").pure_epsilon == 1.0
    assert Cell("uniform_3", "3,1e-6").pure_epsilon == 3.0


def test_a_sample_of_every_method(tmp_path):
    cell = Cell("uniform_3", "3,1e-6")
    found = [methods.replicate(cell, tmp_path, index) for index in range(2)]
    assert methods.replicate(cell, tmp_path, 1)[OURS]["ratio"] == found[1][OURS]["ratio"]
    assert set(METHODS) - set(found[0]) <= {DIFFPRIVLIB}
    summary = report.summarise(cell, found, 20_000)
    ours = summary["methods"][OURS]
    assert ours["reported"] == 1
    assert 0.9 < ours["length"] < 1.3 < summary["methods"]["AdaSSP"]["length"]
    assert "uniform_3 3,1e-6: dpinfer" in report.headline([summary])
    report.draw([summary], tmp_path / "field.png", "3,1e-6")
    assert (tmp_path / "field.png").stat().st_size > 10_000
