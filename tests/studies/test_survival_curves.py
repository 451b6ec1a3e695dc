"""The study of survival curves: its page is made of its results, these hold what is promised, and a cell runs."""

import json
from pathlib import Path

import numpy as np
import pytest
from studies.survival_curves.cell import BUDGETS, KEYS, NONE, replicate
from studies.survival_curves.designs import DESIGNS, cohort, design, exact
from studies.survival_curves.report import LOW, below, page, summarise

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies/survival_curves/results/survival_curves.json"


def cells():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def test_the_page_is_made_of_the_results():
    assert [one["design"] for one in cells()] == list(DESIGNS)
    assert min(one["replicates"] for one in cells()) >= 100
    text = (ROOT / "docs/survival-curves-study.md").read_text(encoding="utf-8")
    assert page(cells()) == text


@pytest.mark.parametrize("key", ["point", "point band", "incidence", "incidence band"])
def test_curves_and_bands_cover(key):
    assert below(cells(), key) == []


def test_curves_of_twenty_thousand_persons_are_short():
    """At (1, 10⁻⁶) within 15 % of those without noise."""
    for one in cells():
        if one["design"].startswith("cohort_20k"):
            assert one["cells"]["1,1e-6"]["point length"] <= 1.15


def test_the_log_rank_test_has_its_size_over_all_cells():
    sizes = [cell["size"] for one in cells() for cell in one["cells"].values()]
    assert 0.03 < np.mean(sizes) < 0.06


def test_the_truth_of_a_population_is_that_of_all_its_times():
    time = np.array([1.0, 2.0, 2.0, 3.0, 4.0])
    event = np.array([1, 0, 2, 1, 0])
    survival, incidence, median, mean = exact(time, event, np.array([1.5, 3.5]), 2)
    np.testing.assert_allclose(survival, [0.8, 0.8 * 0.75 * 0.5])
    np.testing.assert_allclose(incidence, [[0.2, 0.2 + 0.6 * 0.5], [0.0, 0.2]])
    assert median == 3.0
    assert mean == pytest.approx(1 + 0.8 + 0.6 + 0.5 * 0.3)


def test_a_small_cell_runs(monkeypatch):
    monkeypatch.setitem(DESIGNS, "cohort_2k", lambda _: cohort(400, 0.7, 0.3, 5))
    design.cache_clear()
    found = [replicate("cohort_2k", Path(), index) for index in range(2)]
    design.cache_clear()
    assert set(found[0]) == {NONE, *BUDGETS}
    assert {*KEYS, "size", "power"} == set(found[0][NONE])
    summary = summarise("cohort_2k", 400, found)
    assert summary["cells"][NONE]["point length"] == 1.0
    assert summary["cells"]["1,1e-6"]["point length"] > 1.0
    assert 0.0 <= summary["cells"][NONE]["point"] <= 1.0
    assert "cohort_2k" in page([summary])
    assert LOW == 0.93
