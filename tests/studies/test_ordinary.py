"""Laws of the committed cells on drawn populations, and a cell from the command line."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from studies.ordinary import __main__ as command
from studies.ordinary import derived, far
from studies.ordinary.grid import GRIDS
from studies.ordinary.populations import Cell
from studies.ordinary.report import failures, judged, page

ROOT = Path(__file__).parents[2]
RESULTS = json.loads((ROOT / "studies/ordinary/results/ordinary.json").read_text(encoding="utf-8"))
BY_NAME = {cell["cell"]: cell for cell in RESULTS}
FAILING = {
    "group_tails-linear-20000-1,1e-6",
    "group_tails-linear-20000-0.3,1e-6",
    "curve-poisson-20000-1,1e-6",
    "curve-poisson-20000-draw1-1,1e-6",
}
"""A group with a longer tail than the others, whose loss by the clip points along one level; and the
end of a spline, which is reported where noise makes its information look large.
"""


def test_every_cell_is_there():
    names = {cell.name for grid, cells in GRIDS.items() if grid != "budgets" for cell in cells}
    assert names <= set(BY_NAME)


def test_no_cell_fails_but_those_that_are_named():
    assert {cell["cell"] for cell in judged(RESULTS) if failures(cell)} == FAILING


@pytest.mark.parametrize("population", ["curved_log", "curved_step"])
@pytest.mark.parametrize("link", ["linear", "logistic"])
def test_intervals_of_curved_effects_come_near_those_without_noise(population, link):
    """At a fixed budget, as records become more, although the model is not right."""
    cells = [BY_NAME[f"{population}-{link}-{n}-1,1e-6"] for n in (20_000, 100_000, 1_000_000)]
    lengths = [cell["length"] for cell in cells]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < 1.1
    assert all(cell["coverage"] + 2 * cell["coverage_error"] > 0.93 for cell in cells)


@pytest.mark.parametrize("wide", ["wide3", "wide10"])
def test_numbers_with_generous_bounds_are_reported(wide):
    cells = [cell for name, cell in BY_NAME.items() if f"-{wide}-" in name]
    assert len(cells) == 6
    assert all(cell["reported"] > 0.95 for cell in cells)
    assert all(cell["coverage"] > 0.93 for cell in cells)


def test_the_page_is_that_of_the_results():
    assert (ROOT / "docs/ordinary-study.md").read_text(encoding="utf-8") == page(RESULTS)


def test_a_cell_from_the_command_line(monkeypatch, tmp_path):
    asked = ["--populations", "plain", "--links", "linear", "--replicates", "3", "--workers", "1"]
    asked += ["--work", str(tmp_path), "--out", str(tmp_path / "out"), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["studies.ordinary", *asked])
    command.main()
    cell = json.loads((tmp_path / "plain-linear-20000-1,1e-6.json").read_text(encoding="utf-8"))
    assert cell["replicates"] == 3
    assert 1 < cell["length"] < 1.5
    assert "plain" in (tmp_path / "ordinary-study.md").read_text(encoding="utf-8")


DERIVED = json.loads((ROOT / "studies/ordinary/results/derived.json").read_text(encoding="utf-8"))


def test_tests_bands_predictions_and_margins_keep_their_levels():
    assert len(DERIVED) == len(derived.grid())
    assert [derived.failures(cell) for cell in DERIVED if derived.failures(cell)] == []
    assert (ROOT / "docs/derived-study.md").read_text(encoding="utf-8") == derived.page(DERIVED)


def test_a_size_or_a_coverage_beyond_its_limit_is_a_failure():
    (cell, *_) = DERIVED
    worse = {"value": 0.2, "error": 0.02, "count": 100}
    assert derived.failures({**cell, "rejected": worse}) == ["rejected 0.200"]
    assert derived.failures({**cell, "band": {**worse, "value": 0.8}}) == ["band 0.800"]
    assert derived.failures({**cell, "band": {**worse, "value": 0.8, "count": 9}}) == []


def test_a_derived_cell_from_the_command_line(monkeypatch, tmp_path):
    asked = ["--populations", "rare", "--replicates", "2", "--workers", "1"]
    asked += ["--out", str(tmp_path), "--docs", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["studies.ordinary.derived", *asked])
    derived.main()
    found = json.loads((tmp_path / "derived.json").read_text(encoding="utf-8"))
    assert {cell["population"] for cell in found} == {"rare"}
    assert all(0 <= cell["predictions"]["value"] <= 1 for cell in found)


def test_one_record_decides_the_residuals_of_a_count_with_a_curved_effect():
    """Of 10,000; and the other coefficients are not those of the fit without it."""
    found = far.decided(Cell("curved_log", "poisson", 10_000))
    assert 0.1 < found["largest leverage"] < 1
    assert 0.3 < found["share of one record"] < 1
    assert 0 < found["slope over winsorised"] < 1
    assert np.abs(found["without one record"]).max() > 0.1


def test_the_far_records_of_a_table_from_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["far", "--size", "2000", "--tables", "1"])
    far.main()
    assert capsys.readouterr().out.startswith("0 {'slope over winsorised'")
