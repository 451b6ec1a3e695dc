"""The study runs, resumes, and counts what it says it counts."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize
from studies.geometry import __main__ as command
from studies.geometry.cell import Cell, minimum, replicate
from studies.geometry.designs import SYNTHETIC, load
from studies.geometry.report import PROTOTYPE, name_of, page

from dpinfer.maths.capped import CappedLogistic
from dpinfer.maths.losses import Logistic

NAME = "syn_5k_5_corr_well"


def run(monkeypatch, folder, *more):
    asked = ["--data", str(folder), "--designs", NAME, "--budgets", "0.5", "--workers", "1"]
    asked += ["--work", str(folder), "--out", str(folder / "out"), "--docs", str(folder)]
    monkeypatch.setattr(sys, "argv", ["studies.geometry", *asked, *more])
    command.main()
    return json.loads((folder / f"{NAME}-0.5-weighted-replace.json").read_text(encoding="utf-8"))


def test_a_cell_from_the_command_line(monkeypatch, tmp_path, capsys):
    cell = run(monkeypatch, tmp_path, "--replicates", "6")
    assert (cell["n"], cell["d"], cell["replicates"]) == (5000, 5, 6)
    assert 0.7 < cell["stated"] <= 1
    assert 1 < cell["length"] < 1.4
    assert cell["aside"] == 0
    assert len(cell["coefficients"]["coverage"]) == 5
    assert NAME in (tmp_path / "geometry-study.md").read_text(encoding="utf-8")
    assert "stated" in capsys.readouterr().out
    again = run(monkeypatch, tmp_path, "--replicates", "4")
    assert again == cell  # there are enough already
    assert capsys.readouterr().out == ""


RESULTS = json.loads((Path(__file__).parents[2] / "studies/geometry/results/geometry.json").read_text(encoding="utf-8"))
KNOWN = {
    "bank-0.005-weighted-replace": {"aside"},  # all is set aside where the rarer class is not clear of the noise
    "adult-0.1875-weighted-replace": {"capital-loss"},  # .80: moved by capital-gain, whose tail is not fitted
}
USUAL = [c for c in RESULTS if (c["target"], c["neighbours"]) == ("weighted", "replace")]
LONGEST = {"rand": 1.25, "adult_s": 1.35, "bank_s": 1.32, "acs_s": 1.68, "bank": 1.70, "acs": 2.0, "adult": 2.45}


@pytest.mark.parametrize("cell", RESULTS, ids=name_of)
def test_the_committed_results(cell):
    """Coverage of the stated estimand, no often reported coefficient far below, lengths and shares of the prototype."""
    n, known = cell["replicates"], KNOWN.get(name_of(cell), set())
    error = np.sqrt(0.95 * 0.05 / n)
    assert cell["stated"] is None or cell["stated"] >= 0.94 - 2 * error / 2  # an average over several coefficients
    columns = cell["coefficients"]
    for name, coverage, reported in zip(*(columns[key] for key in ("names", "coverage", "reported")), strict=True):
        if reported >= 0.5 and name not in known:
            assert coverage >= 0.88 - 2 * np.sqrt(0.88 * 0.12 / (n * reported))
    prototype = PROTOTYPE.get(name_of(cell))
    if prototype is not None:
        often = [j for j, reported in enumerate(columns["reported"]) if reported >= 0.5]
        if often != [0]:  # the prototype's intercept was at another place, where its own interval is longer
            assert cell["length"] <= 1.1 * prototype[2]
        assert "aside" in known or cell["aside"] <= prototype[3] + 0.05  # it asks for a few events less


@pytest.mark.parametrize("cell", USUAL, ids=name_of)
def test_the_limits_of_a_cell(cell):
    """Coverage of what is stated, of each often reported coefficient, and the length at (1, 1e-6)."""
    assert cell["stated"] is None or 0.93 <= cell["stated"] <= 0.98
    assert cell["stated_min"] is None or cell["stated_min"] >= (0.80 if cell["design"] == "adult" else 0.86)
    if cell["budget"] == "approx" and cell["design"] in LONGEST:
        assert cell["length"] <= LONGEST[cell["design"]]


def test_what_is_stated_is_covered_on_average():
    assert 0.945 <= np.mean([cell["stated"] for cell in USUAL if cell["stated"] is not None]) <= 0.97


def test_the_page_is_that_of_the_results():
    assert (Path(__file__).parents[2] / "docs/geometry-study.md").read_text(encoding="utf-8") == page(RESULTS)


def test_at_epsilon_1_rand_hie_is_useful():
    (cell,) = [c for c in RESULTS if name_of(c) == "rand-approx-weighted-replace"]
    assert cell["length"] <= 1.4
    assert cell["stated"] >= 0.94


def test_replicates_are_repeatable_and_independent(tmp_path):
    cell = Cell(NAME, "0.5", "unweighted", "add-remove")
    first, second = replicate(cell, tmp_path, 1), replicate(cell, tmp_path, 2)
    assert np.array_equal(replicate(cell, tmp_path, 1)["z"], first["z"], equal_nan=True)
    assert not np.array_equal(first["z"], second["z"], equal_nan=True)
    assert first["down_weighted"] == 0


@pytest.mark.parametrize("loss", [Logistic(), CappedLogistic()], ids=["logistic", "capped"])
def test_the_minimum_against_another_search(loss):
    data = load(NAME, None)
    x, y = data.x[:800], data.labels[:800]
    w = np.linspace(0.5, 1, 800)

    def value(t):
        return w @ loss.value(y * (x @ t)) + 5e-4 * x.var(axis=0) @ t**2

    found = minimum(x, y, np.ones(5), w, loss)
    assert found.coef == pytest.approx(optimize.minimize(value, np.zeros(5), tol=1e-10).x, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if "_20k_" in name or "_5k_" in name])
def test_synthetic_designs(name):
    data, d = load(name, None), int(name.split("_")[2])
    assert data.rows.shape[1] == d
    assert np.linalg.norm(data.rows, axis=1).max() <= 1 + 1e-12
    assert data.design.columns.dummy.sum() == (d - 1 - max(2, (d - 1) // 2) if "rare" in name else 0)
    assert 0.1 < (data.labels > 0).mean() < 0.6
