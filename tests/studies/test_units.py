"""The study of persons with several rows: its committed results keep their limits, and it runs,
resumes and counts.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from statsmodels.api import GLM, families
from studies.units import __main__ as command
from studies.units.cell import GROUP, Cell, replicate, setting
from studies.units.designs import BINARY, NUMERIC, load, persons
from studies.units.report import BUDGETS, name_of, page
from studies.units.survey import (
    IGNORED,
    LEAST,
    MOST_ROWS,
    PERSONS,
    ROWS,
    SIZE,
    TRUTH,
    WEIGHTED,
    Survey,
    draw,
    survey,
)

import dpinfer as dp

ROOT = Path(__file__).parents[2]
RESULTS = json.loads((ROOT / "studies/units/results/units.json").read_text(encoding="utf-8"))
BY_NAME = {name_of(cell): cell for cell in RESULTS["cells"]}
AVERAGE = [cell for cell in RESULTS["cells"] if cell["method"] == "1" and cell["design"] in BINARY]
SURVEYS = {name_of(cell): cell for cell in RESULTS["surveys"]}


def test_every_cell_is_there():
    """Fails until the study has been run with the method of this version."""
    assert {name_of(cell) for cell in AVERAGE} == {
        f"{design}-{budget}-1" for design in BINARY for budget in BUDGETS
    }
    assert {cell["replicates"] for cell in AVERAGE} == {100}
    assert {cell["replicates"] for cell in RESULTS["surveys"]} == {100}
    assert len(SURVEYS) == 8


def cells_of(method):
    cells = [cell for cell in RESULTS["cells"] if cell["method"] == method]
    assert cells
    return cells


def test_what_was_asked_of_persons_is_covered():
    """Where enough is printed for an average to be one."""
    faults = []
    for cell in cells_of("1"):
        lines = (1 - cell["open"]) * cell["d"] * cell["replicates"]
        if lines >= 100 and cell["asked"] < 0.93:
            faults.append(name_of(cell))
    # at most two of them have intervals that are as short and cover as well
    assert len(faults) <= 2


def test_group_privacy_is_longer_or_too_short():
    """It pays by the largest number of rows; where that is cheap its intervals miss, as rows are
    not independent.
    """
    faults = []
    for cell in cells_of(GROUP):
        ours = BY_NAME[f"{cell['design']}-{cell['budget']}-1"]
        if cell["length"] <= ours["length"] and cell["asked"] >= ours["asked"] - 0.02:
            faults.append(name_of(cell))
    # at most two of them have intervals that are as short and cover as well
    assert len(faults) <= 2


@pytest.mark.parametrize("budget", ["approx", "0.1875"])
@pytest.mark.parametrize("design", [ROWS, PERSONS])
def test_sampling_weights_reach_the_population(design, budget):
    if not SURVEYS:
        pytest.skip("the study has not been run with the method of this version yet")
    used, ignored = (SURVEYS[f"{design}-{budget}-{how}"] for how in (WEIGHTED, IGNORED))
    assert used["asked"] >= 0.92  # three standard errors of 1,000 intervals
    assert used["asked_min"] >= 0.86
    assert ignored["asked_min"] < 0.1
    assert used["length"] > ignored["length"]  # the price


def test_the_page_is_that_of_the_results():
    assert (ROOT / "docs/units-study.md").read_text(encoding="utf-8") == page(RESULTS)


def run(monkeypatch, folder, *more):
    asked = ["--data", str(folder), "--designs", "rand", "--budgets", "0.1875", "--workers", "1"]
    asked += [
        "--parts",
        "main",
        "beside",
        "weights",
        "--work",
        str(folder),
        "--out",
        str(folder / "out"),
    ]
    monkeypatch.setattr(sys, "argv", ["studies.units", *asked, "--docs", str(folder), *more])
    command.main()
    return json.loads((folder / "out/units.json").read_text(encoding="utf-8"))


def test_cells_from_the_command_line(monkeypatch, tmp_path, capsys):
    found = run(monkeypatch, tmp_path, "--replicates", "4", "--fewer", "3")
    cells = {cell["method"]: cell for cell in found["cells"]}
    assert {how: cell["replicates"] for how, cell in cells.items()} == {"1": 4, "3": 3, GROUP: 3}
    assert (cells["1"]["units"], cells["1"]["d"], cells["1"]["most"]) == (5867, 10, 5)
    assert all(0.6 < cell["asked"] <= 1 and 1 < cell["length"] < 2.5 for cell in cells.values())
    assert [(c["design"], c["method"]) for c in found["surveys"]] == [
        (design, how) for design in (ROWS, PERSONS) for how in (IGNORED, WEIGHTED)
    ]
    assert (tmp_path / "units-study.md").read_text(encoding="utf-8") == page(found)
    assert capsys.readouterr().out.count("\n") == 7
    assert (
        run(monkeypatch, tmp_path, "--replicates", "3", "--fewer", "3") == found
    )  # there are enough already
    assert capsys.readouterr().out == ""


def test_every_part_has_its_cells(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["studies.units", "--data", "."])
    chosen = command.options()
    names = {cell.name for cell, _ in command.cells(chosen)} | {
        one.name for one in command.surveys(chosen)
    }
    stored = {name_of(cell).replace(" ", "_") for cell in (*RESULTS["cells"], *RESULTS["surveys"])}
    assert stored <= names
    assert len(names) == 6 * len(BINARY) + 2 * 4 * len(BINARY) + 2 * len(NUMERIC) + 8


def test_replicates_are_repeatable_and_share_their_samples():
    cell, beside = Cell("rand", "approx"), Cell("rand", "approx", GROUP)
    first = replicate(cell, Path(), 1)
    assert json.dumps(replicate(cell, Path(), 1)) == json.dumps(
        first
    )  # a NaN is not equal to itself
    assert replicate(cell, Path(), 2)["ratio"] != first["ratio"]
    persons_, rows = setting(cell, Path()).sample(5, False), setting(beside, Path()).sample(5, True)
    assert np.array_equal(persons_.block.rows, rows.block.rows)
    assert (persons_.n, rows.block.starts) == (5867, None)
    again = replicate(Cell("visits_score", "0.1875"), Path(), 1)
    assert np.nanmean(again["asked"]) > 0.7


def test_group_privacy_pays_by_the_square():
    design = load("rand", Path()).design
    cost = Cell("rand", "0.5", GROUP).recipe(design, 5).plan.cost.rho
    assert cost == pytest.approx(0.5 / 25)
    assert Cell("rand", "approx", GROUP).recipe(design, 5).plan.cost.rho == pytest.approx(
        0.0280 / 25, rel=0.01
    )


def test_persons_of_rand_are_runs_of_equal_rows():
    table = dp.datasets.rand_hie().table
    ids = persons(table)
    sizes = np.bincount(ids)
    assert (len(sizes), sizes.max(), sizes.min()) == (5867, 5, 1)
    assert np.all(np.diff(ids) >= 0)
    assert table.drop(columns=["mdvis", "visit"]).groupby(ids).nunique().max().max() == 1


def test_synthetic_visits():
    data = load("visits", Path())
    assert (data.units.max() + 1, len(data.units), data.most) == (20_000, 79_863, 36)
    assert data.design.columns.dummy.sum() == 1


@pytest.mark.parametrize("design", [ROWS, PERSONS])
def test_the_truth_of_a_survey(design):
    """Weighted rows give the coefficients of the population, and rows as they come do not; weights
    keep their bound.
    """
    samples = [draw(design, k) for k in range(4)]
    x = np.vstack([sample.x for sample in samples])
    y, weights = (
        np.concatenate([getattr(sample, key) for sample in samples]) for key in ("y", "weights")
    )
    raw = np.column_stack([np.ones(len(x)), x])
    right = GLM(y, raw, family=families.Binomial(), freq_weights=weights).fit().params
    wrong = GLM(y, raw, family=families.Binomial()).fit().params
    assert right == pytest.approx(TRUTH, abs=0.06)
    assert wrong[1] > TRUTH[1] + 0.2
    sample = samples[0]
    assert len(np.unique(sample.ids)) == SIZE
    assert np.bincount(sample.ids).max() == (MOST_ROWS if design == PERSONS else 1)
    together = np.bincount(sample.ids, sample.weights).max()
    assert 1 <= sample.weights.min() <= sample.weights.max() <= 1 / LEAST
    assert together <= Survey(design, "approx").most_weight
    assert expit(right[0]) == pytest.approx(expit(TRUTH[0]), abs=0.02)


def test_a_survey_is_repeatable():
    cell = Survey(PERSONS, "0.1875")
    assert survey(cell, 3) == survey(cell, 3)
    assert np.mean(survey(cell, 3)["asked"]) > 0.5
