"""The study of logistic regression: its committed results keep a few laws, and it runs, resumes and
counts.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize
from studies.asked import BUDGETS, Whole, budget, held, summary
from studies.geometry import __main__ as command
from studies.geometry.cell import Cell, replicate, whole
from studies.geometry.designs import DESIGNS, KNOWN, SYNTHETIC, load
from studies.geometry.report import name_of, page

import dpinfer as dp
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.noiseless import logistic
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.losses import Logistic
from dpinfer.rows.source import Rows
from helpers import laws

NAME = "syn_5k_5_corr_well"
ROOT = Path(__file__).parents[2]
RESULTS = json.loads((ROOT / "studies/geometry/results/geometry.json").read_text(encoding="utf-8"))
COVERAGE = {"acs-1,1e-6-replace": 0.91}
"""Cells whose mean coverage is below .93, each with the least it may have.  Of 26 columns of the survey
many are rare levels; a number that goes with them, the population density, covers .75.
"""
LOW: dict[str, set[str]] = {
    "acs-1,1e-6-replace": {"DENSITY"},
    "bank-1,1e-6-replace": {"poutcome[success]"},
    "bank-0.1875-replace": {"duration"},
}
"""Cells with coefficients far below the ceiling, each with their names.  In bank the effect of the
length of a call ends inside the limit of that number, and one level goes with the days since a call,
which are pulled in.
"""


INSTEAD: dict[str, float] = {}
"""Cells whose rows instead of coefficients not reported cover less."""


def test_every_cell_is_there():
    """Fails until the study has been run with the method of this version."""
    assert {name_of(cell) for cell in RESULTS} >= {
        Cell(design, b).name for design in DESIGNS for b in BUDGETS
    }


def test_the_committed_results():
    """Every cell keeps every law."""
    faults = []
    for cell in RESULTS:
        name = name_of(cell)
        kept = {
            "covers what was asked": laws.covers_what_was_asked(cell, COVERAGE.get(name, 0.93)),
            "near the ceiling": laws.near_the_ceiling(cell, LOW.get(name, ())) == [],
            "lines instead cover": laws.lines_instead_cover(cell, INSTEAD.get(name, 0.9)),
            "keeps its level": laws.keeps_its_level(cell),
            "is in order": laws.is_in_order(cell),
        }
        faults += [f"{name}: {law}" for law, holds in kept.items() if not holds]
    assert faults == []


def test_exceptions_are_of_cells_that_there_are():
    assert {*COVERAGE, *LOW, *INSTEAD} <= {name_of(cell) for cell in RESULTS}


def test_the_page_is_that_of_the_results():
    assert (ROOT / "docs/geometry-study.md").read_text(encoding="utf-8") == page(RESULTS)


def run(monkeypatch, folder, *more):
    asked = ["--data", str(folder), "--designs", NAME, "--budgets", "0.5", "--workers", "1"]
    asked += ["--work", str(folder), "--out", str(folder / "out"), "--docs", str(folder)]
    monkeypatch.setattr(sys, "argv", ["studies.geometry", *asked, *more])
    command.main()
    return json.loads((folder / f"{NAME}-0.5-replace.json").read_text(encoding="utf-8"))


def test_a_cell_from_the_command_line(monkeypatch, tmp_path, capsys):
    cell = run(monkeypatch, tmp_path, "--replicates", "6")
    assert (cell["n"], cell["d"], cell["replicates"]) == (5000, 5, 6)
    assert 0.7 < cell["asked"] <= 1
    assert 0.7 < cell["stated"] <= 1
    assert 1 < cell["length"] < 1.4
    assert cell["printed"] == cell["answered"] > 0.8
    assert cell["worst"]["name"] in cell["coefficients"]["names"]
    assert len(cell["coefficients"]["asked"]) == 5
    assert NAME in (tmp_path / "geometry-study.md").read_text(encoding="utf-8")
    assert "asked" in capsys.readouterr().out
    again = run(monkeypatch, tmp_path, "--replicates", "4")
    assert again == cell  # there are enough already
    assert capsys.readouterr().out == ""


def test_budgets_by_their_short_names():
    assert budget("0.3,1e-6") == dp.ApproxDP(0.3, 1e-6)
    assert budget("0.1875") == dp.ZCDP(0.1875)
    assert Cell(NAME, "1,1e-6").plan.budget == dp.ApproxDP(1.0, 1e-6)


def test_replicates_are_repeatable_and_independent(tmp_path):
    cell = Cell(NAME, "0.5", "add-remove")
    first = replicate(cell, tmp_path, 1)
    assert np.array_equal(replicate(cell, tmp_path, 1)["ratio"], first["ratio"], equal_nan=True)
    assert not np.array_equal(replicate(cell, tmp_path, 2)["ratio"], first["ratio"], equal_nan=True)


def fitted(design, rho, index=1):
    at = whole(design, None)
    sample = at.data.sample(index)
    return (
        at,
        sample,
        fit(
            LogisticSteps(at.data.design, dp.GeometryPlan(dp.ZCDP(rho))),
            Rows(sample),
            insecure_seed=1,
        ),
    )


def test_what_lines_are_held_against():
    """Asked, stated and ceiling are three things: each falls alone where its own target is moved."""
    at, sample, result = fitted(NAME, 0.5)
    found, _ = held(result, at, sample)
    assert np.mean(found["asked"]) > 0.5
    far = Whole(
        at.data, at.people, logistic(at.people.rows, -at.people.labels, np.zeros(5)), squares=False
    )
    moved, _ = held(result, far, sample)
    assert np.mean(moved["asked"]) < 0.5
    assert moved["stated"] == found["stated"]
    other = at.data.sample(2)
    assert held(result, at, other)[0]["asked"] == found["asked"]
    assert held(result, at, sample)[0]["ceiling"] == found["ceiling"]
    assert np.mean(held(result, far, sample)[0]["ceiling"]) < 0.5


@pytest.mark.parametrize("name", ["strong_2.25", "rare_2", "poor_reference"])
def test_a_known_truth_is_what_is_asked(name):
    """The ordinary regression of both labels, by their chances, has the coefficients that outcomes
    are drawn with.
    """
    at = whole(name, None)
    data = at.data
    eta = np.log(data.chance / (1 - data.chance))
    assert at.asked.coef == pytest.approx(np.linalg.lstsq(data.x, eta, rcond=None)[0], abs=0.02)
    zero = [data.design.names.index(column) for column in data.zero]
    assert (
        np.abs(
            at.asked.in_units(data.design, np.zeros(len(data.design.names) - 1)).coef[zero]
        ).max()
        < 1e-3
    )
    shares = [(data.sample(k).labels > 0).mean() for k in range(20)]
    assert np.mean(shares) == pytest.approx(data.chance.mean(), rel=0.05)
    assert np.std(shares) > 0


def test_deviations_and_shares_are_as_named():
    for name in KNOWN:
        data = load(name, None)
        kind, _, size = name.partition("_")
        if kind == "strong":
            assert np.log(data.chance / (1 - data.chance)).std() == pytest.approx(
                float(size), rel=0.03
            )
        if kind == "rare":
            assert 100 * data.chance.mean() == pytest.approx(float(size), rel=1e-6)
    assert len(load("levels_30", None).design.names) == 32


def test_yes_and_no_of_rand_are_declared():
    design = load("rand", None).design
    assert [name for name, yes in zip(design.names, design.columns.yes_no, strict=True) if yes] == [
        "idp", "hlthg", "hlthf", "hlthp",
    ]  # fmt: skip


def replicate_of(asked, instead=()):
    lines = [
        {"name": f"{name} clipped", "instead_of": name, "covered": covered}
        for name, covered in instead
    ]
    nan = float("nan")
    printed = [float(np.isfinite(value)) for value in asked]
    return {
        "asked": asked, "stated": [1.0 if p else nan for p in printed], "ceiling": [1.0, 0.0],
        "ratio": [2.0 if p else nan for p in printed], "printed": printed, "rejected": [nan, nan], "instead": lines,
    }  # fmt: skip


def test_a_summary():
    nan = float("nan")
    found = [
        replicate_of([1.0, 0.0]),
        replicate_of([1.0, 1.0]),
        replicate_of([1.0, nan], [("b", 1.0)]),
        replicate_of([1.0, nan]),
    ]
    cell = summary(found, ("a", "b"))
    assert (cell["asked"], cell["stated"]) == (pytest.approx(5 / 6, abs=1e-4), 1)
    assert (cell["printed"], cell["answered"], cell["instead"]) == (0.5, 0.75, 1)  # of slopes
    assert cell["worst"] == {"name": "b", "asked": 0.5, "ceiling": 0.0}
    assert cell["rejected"] is None
    nothing = summary([replicate_of([nan, nan])], ("a", "b"))
    assert (nothing["asked"], nothing["length"], nothing["length_max"], nothing["worst"]) == (
        None,
        None,
        None,
        None,
    )
    assert page([]).endswith("yet.\n")
    shown = page([{"design": "rand", "n": 9, "budget": "1,1e-6", "neighbours": "replace", **cell}])
    assert "| rand | 9 | 2 | (1, 1e-6) | 0.833 | b 0.50 (0.00) | 1.000 |" in shown
    assert "- rand at (1, 1e-6): `b` 0.50, without noise 0.00" in shown


def test_the_minimum_against_another_search():
    data = load(NAME, None)
    x, y = data.x[:800], data.labels[:800]
    w = np.linspace(0.5, 1, 800)

    def value(t):
        return w @ Logistic().value(y * (x @ t)) + 5e-4 * x.var(axis=0) @ t**2

    found = logistic(x, y, np.ones(5), w)
    assert found.coef == pytest.approx(optimize.minimize(value, np.zeros(5), tol=1e-10).x, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in SYNTHETIC if "_20k_" in name or "_5k_" in name])
def test_synthetic_designs(name):
    data, d = load(name, None), int(name.split("_")[2])
    assert data.rows.shape[1] == d
    assert np.linalg.norm(data.rows, axis=1).max() <= 1 + 1e-12
    assert data.design.columns.dummy.sum() == (
        d - 1 - max(2, (d - 1) // 2) if "rare" in name else 0
    )
    assert 0.1 < (data.labels > 0).mean() < 0.6
