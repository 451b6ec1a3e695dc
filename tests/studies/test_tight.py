"""The committed comparison holds what it claims, and its page is made from its numbers."""

import json
from pathlib import Path

import pytest
from studies.tight.__main__ import page

ROOT = Path(__file__).parent.parent.parent
RESULTS = json.loads((ROOT / "studies/tight/results/tight.json").read_text(encoding="utf-8"))
LIMITS = {
    "zCDP, rho = .1875": ("ratio", [1.32, 1.18, 1.14, 1.12, 1.32, 1.17], (0.938, 0.965)),
    "pure, epsilon = 1": ("length", [0.55, 0.58, 0.33, 0.20, 0.41, 0.45], (0.94, 1.0)),
    "(1, 1e-6)": ("ratio", [3.0] * 6, (0.93, 1.0)),
}


@pytest.mark.parametrize("budget", LIMITS)
def test_lengths_and_coverages(budget):
    measure, limits, (low, high) = LIMITS[budget]
    cells = list(RESULTS[budget].values())
    for cell, limit in zip(cells, limits, strict=True):
        assert cell[measure] <= limit
        assert low <= cell["coverage"] <= high
        assert cell["length"] < cell["paper_length"]
        assert abs(cell["length_of_50_fits"] / cell["length"] - 1) < 0.1


def test_the_page_is_made_from_the_results():
    assert (ROOT / "docs/tight.md").read_text(encoding="utf-8") == page(RESULTS, 1000)
