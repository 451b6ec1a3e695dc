"""The committed results of the studies behind the defaults say what the documents say."""

import json
from pathlib import Path

import pytest
from studies.split.__main__ import BUDGETS, DEFAULT
from studies.split.__main__ import page as split_page
from studies.unpenalised.__main__ import page as unpenalised_page

SPLIT = json.loads(Path("studies/split/results/split.json").read_text())
UNPENALISED = json.loads(Path("studies/unpenalised/results/unpenalised.json").read_text())


@pytest.mark.parametrize("population", UNPENALISED)
def test_the_unpenalised_target_is_covered_or_refused(population):
    for budget, cell in UNPENALISED[population].items():
        if cell["reported"] >= 0.3:
            assert 0.93 <= cell["coverage"] <= 0.97, budget
        if "rho = .1875" in budget and "100," in population:
            assert cell["reported"] == 1


@pytest.mark.parametrize("budget", SPLIT)
def test_the_default_share_is_near_the_best_everywhere(budget):
    default = str(DEFAULT[type(BUDGETS[budget])])
    for cells in SPLIT[budget].values():
        assert cells[default]["ratio"] <= 1.1 * min(cell["ratio"] for cell in cells.values())
        assert (
            cells[default]["coverage"] >= 0.95 - 3 * (0.95 * 0.05 / 200) ** 0.5
        )  # Monte Carlo error of one coefficient


def test_the_pages_are_those_of_the_results():
    assert Path("docs/unpenalised.md").read_text() == unpenalised_page(UNPENALISED, 1000)
    assert Path("docs/split.md").read_text() == split_page(SPLIT, 200)
