"""The studies of moment releases run, and their documents are those of their results."""

import json
from pathlib import Path

from studies.moments import figures
from studies.moments.designs import DESIGNS
from studies.moments.report import fails, low_slopes, page

import dpinfer as dp


def test_a_cell_has_a_row_for_each_kind_of_figure():
    rows = figures.rows(3000, dp.ApproxDP(3.0, 1e-6), 2)
    assert [row.split(" (")[0].removeprefix("| ") for row in rows] == list(figures.QUESTIONS)
    assert all("| 3,000 | ε = 3 |" in row for row in rows)


def test_the_document_has_every_cell():
    text = Path("docs/moments.md").read_text(encoding="utf-8")
    for records, budget in figures.CELLS:
        for kind, asked in figures.QUESTIONS.items():
            assert f"| {kind} ({len(asked)}) | {records:,} | {figures.label(budget)} |" in text


ROOT = Path(__file__).parents[2]
RESULTS = json.loads((ROOT / "studies/moments/results/moments.json").read_text(encoding="utf-8"))
LOW: dict[str, set[str]] = {}
"""Slopes far below their level, by cell."""


def test_no_cell_fails_and_low_slopes_are_named():
    assert [cell["cell"] for cell in RESULTS if fails(cell)] == []
    found = {cell["cell"]: set(low_slopes(cell)) for cell in RESULTS if low_slopes(cell)}
    assert found == LOW
    assert {cell["design"] for cell in RESULTS} == set(DESIGNS)


def test_the_page_is_that_of_the_results():
    assert (ROOT / "docs/moments-study.md").read_text(encoding="utf-8") == page(RESULTS)
