"""The study of effects of persons: what is drawn, what it is held against, and its page."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import statsmodels.formula.api as smf
from studies.panel import __main__ as command
from studies.panel import designs
from studies.panel.cell import Cell, replicate, setting
from studies.panel.report import BUDGETS, page, results

ROOT = Path(__file__).parents[2]
CELL = Cell("syn_did_10k", "3,1e-6")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Populations of 400 persons."""
    monkeypatch.setattr(designs, "POPULATION", 400)
    for cache in (designs.load, setting):
        cache.cache_clear()
    yield
    for cache in (designs.load, setting):
        cache.cache_clear()


@pytest.mark.parametrize("name", [name for name in designs.DESIGNS if name.startswith("syn")])
def test_every_design_can_be_asked(name):
    at = setting(Cell(name, BUDGETS[0]), Path())
    assert np.isfinite(at.truth[1:]).all()
    assert (at.std_error[1:] > 0).all()


def test_the_truth_is_the_within_estimator_of_the_population():
    at = setting(CELL, Path())
    table = designs.load(CELL.design, Path()).table
    post = "I((treated == 1) & (year >= 3))"
    other = smf.ols(f"y ~ x1 + x2 + {post} + C(year) + C(id)", table).fit()
    named = other.params
    found = [named["x1"], named["x2"], named[f"{post}[T.True]"]]
    np.testing.assert_allclose(at.truth[1:4], found, atol=1e-8)


def test_a_replicate_is_drawn_again_alike():
    first = replicate(CELL, Path(), 3)
    assert json.dumps(first) == json.dumps(replicate(CELL, Path(), 3))
    assert set(first) >= {"covered", "length", "period_covered", "band"}


def test_the_page_is_that_of_the_results():
    stored = (ROOT / "studies/panel/results/panel.json").read_text(encoding="utf-8")
    found = json.loads(stored)
    assert results(found["cells"]) == stored
    assert page(found) == (ROOT / "docs/panel-study.md").read_text(encoding="utf-8")


def test_the_command_goes_on_where_it_was(monkeypatch, tmp_path):
    given = ["study", "--data", str(tmp_path), "--designs", "syn_fe_5k", "--budgets", BUDGETS[1]]
    given += ["--replicates", "2", "--workers", "1"]
    for key in ("work", "out", "docs"):
        given += [f"--{key}", str(tmp_path / key)]
    monkeypatch.setattr(sys, "argv", given)
    command.main()
    written = (tmp_path / "out/panel.json").read_text(encoding="utf-8")
    monkeypatch.setattr(command, "replicate", None)
    command.main()
    assert (tmp_path / "out/panel.json").read_text(encoding="utf-8") == written
    assert "syn_fe_5k" in (tmp_path / "docs/panel-study.md").read_text(encoding="utf-8")
