"""The paper's cells, the runner that resumes, the report, and a reduced reproduction on the bundled
data.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from studies.paper import cells, report, run, store
from studies.paper.cells import Cell
from studies.paper.store import Results, Settings
from studies.paper.verdicts import printed, verdicts

import dpinfer as dp
from dpinfer.mechanisms.risk import Risk
from dpinfer.simulate.batched import BatchedTrial

CELL = Cell("adult", 30_162, 10, "LR", "DP", "objective", 0.7, 0.25, 0.25)


def test_expansion():
    tables = [cell for chart in cells.tables() for cell in chart.cells()]
    points = [cell for chart in cells.panels() for cell in chart.cells()]
    assert len(tables) == len(cells.unique(tables)) == 376
    assert len(cells.panels()) == 36
    assert {(c.name, c.panel) for c in cells.panels()} == {
        (f, p) for f in ("obj", "output", "dp", "zcdp") for p in "abcdefghi"
    }
    assert len(cells.unique(points)) < len(points)
    assert {cell.n for cell in tables if cell.data == "us"} == {23_006}
    assert len({cell.key for cell in points}) == len(set(points))  # a key names one cell
    jobs = run.jobs("figures")
    assert len({(job.kind, job.cell.key) for job in jobs}) == len(jobs)
    assert all(job.cell == job.cell.released() for job in jobs if job.kind == "variability")


@pytest.mark.parametrize(
    "chart", cells.rand_tables() + cells.tables(), ids=lambda c: f"{c.name}-{c.loss}"
)
def test_a_chart_sweeps_one_parameter(chart):
    for line in chart.lines:
        found = [chart.cell(line, value) for value in chart.values]
        assert [getattr(cell, chart.parameter) for cell in found] == list(chart.values)
        assert len({replace(cell, **{chart.parameter: 1}) for cell in found}) == 1
        assert {(cell.privacy, cell.mechanism) for cell in found} == {line}


def test_plans():
    plan = CELL.plan()
    assert (plan.estimate, plan.hessian, plan.covariance) == (
        dp.PureDP(0.7),
        dp.PureDP(0.25),
        dp.PureDP(0.25),
    )
    assert (plan.mechanism, plan.recipe) == (dp.ObjectivePerturbation("laplace"), "paper")
    plan = replace(CELL, privacy="zCDP", mechanism="output").plan()
    assert plan.estimate.rho == pytest.approx(0.245)
    assert (plan.hessian, plan.mechanism) == (dp.ZCDP(0.03125), dp.OutputPerturbation())


def test_cells_that_share_a_variability_interval_release_the_same():
    risk = Risk.penalised(dp.Logistic(), cells.PENALTY, 1000)
    for line in cells.LINES:
        cell = replace(CELL, privacy=line[0], mechanism=line[1], epsilon2=0.7, epsilon3=0.9)
        here, there = (c.plan().coefficients(risk).noise(risk) for c in (cell, cell.released()))
        assert type(here) is type(there)
        assert np.allclose(*(list(vars(law).values()) for law in (here, there)), rtol=1e-12)
    assert replace(CELL, privacy="zCDP").released() == CELL.released()
    output = replace(CELL, mechanism="output")
    assert replace(output, privacy="zCDP").released() != output.released()


def command(folder: Path, *more: str) -> int:
    folders = [
        "--data",
        str(folder),
        "--out",
        str(folder / "results"),
        "--docs",
        str(folder / "docs"),
    ]
    return run.main([*folders, "--replicates", "6", "--variability", "6", *more])


def test_an_interrupted_run_goes_on(tmp_path, monkeypatch):
    calls, study = [], run.study

    def interrupted(job, *rest):
        calls.append(job)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return study(job, *rest)

    monkeypatch.setattr(run, "study", interrupted)
    monkeypatch.setattr(report, "write", lambda results, docs: None)
    assert command(tmp_path, "--only", "rand") == 130
    saved = tmp_path / "results" / "rand_hie.json"
    first = json.loads(saved.read_text())["cells"]
    assert list(first) == sorted(job.cell.key for job in calls[:2])
    assert command(tmp_path, "--only", "rand", "--limit", "2") == 0
    assert [calls[0], calls[1], calls[2]] == calls[:2] + calls[
        3:4
    ]  # the lost one again, the done ones never
    assert len(calls) == len(set(calls)) + 1 == 5
    again = json.loads(saved.read_text())["cells"]
    assert len(again) == 4
    assert again.items() >= first.items()
    assert command(tmp_path, "--only", "rand", "--limit", "0") == 0
    assert len(calls) == 5
    assert not list(saved.parent.glob("*.part"))
    with pytest.raises(SystemExit, match="name another --out"):
        command(tmp_path, "--seed", "1")


def test_a_cell_of_a_table_serves_the_figures(tmp_path):
    results = Results(tmp_path, Settings())
    shared = cells.tables()[0].cell(("DP", "objective"), 50_000)
    assert results.get("cells", shared) is None
    results.add("tables", "cells", shared, {"coverage": 1 / 3})
    assert Results(tmp_path).get("cells", shared) == {"coverage": 0.3333333}
    assert shared in [job.cell for job in run.jobs("figures")]
    assert (
        run.compute(
            [run.Job("figures", "cells", shared)], results, lambda job: {}, run.Console(quiet=True)
        )
        == 0
    )


def test_missing_files_are_named_and_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "write", lambda results, docs: None)
    assert command(tmp_path, "--only", "tables") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert all(
        file in said
        for file in ("adult_train_complete.parquet", "kddcup99_10pct.parquet", "acs2019")
    )


@pytest.mark.parametrize("line", cells.LINES)
def test_a_cell_on_a_file(tmp_path, line):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 9, (300, 52)), columns=[f"x{j}" for j in range(1, 53)])
    table.assign(y=rng.integers(0, 2, 300)).to_parquet(tmp_path / "ipums_br_dpagd_encoded.parquet")
    run._rows.cache_clear()
    for order in ("paper", "select-first"):
        cell = Cell("br", 200, 3, "SVM", *line, 1.0, 1.0, 1.0, order)
        found = run.study(run.Job("tables", "cells", cell), tmp_path, Settings(20, 20), None)
        assert len(found["coverages"]) == 4
        assert found["coverage"] == pytest.approx(np.mean(found["coverages"]), abs=1e-5)
        assert found["minimum"] <= found["coverage"] <= 1
        assert found["length_sd"] < found["length"]
        spectrum = run.study(run.Job("tables", "spectrum", cell), tmp_path, Settings(20, 20), None)
        assert len(spectrum["eigenvalues"]) == 4
        assert spectrum["below"] == sum(np.array(spectrum["eigenvalues"]) < 0.002)
        shortest = run.study(
            run.Job("figures", "variability", cell), tmp_path, Settings(20, 20), None
        )
        assert 0 < shortest["first_length"] < 2 * found["first_length"]


def test_findings_on_the_printed_numbers():
    """The notes of findings.json count the printed numbers; the checks must count the same."""
    found = {v.finding["id"]: v for v in verdicts(printed, only_tables=True)}
    assert found["coverage-valid"].word == "confirmed"
    assert (found["coverage-close"].word, found["coverage-close"].holding) == ("partly", 376 - 134)
    assert found["table-kdd-zcdp-output-most-conservative"].word == "confirmed"
    assert "0.946 to" in found["coverage-valid"].numbers()
    assert {v.word for v in verdicts(lambda *place: None)} == {"no results"}


def test_findings_on_made_up_lengths():
    def look(chart, line, value, measure):
        """zCDP half as long as DP, and everything falls with the sweep."""
        size = (1 if line[0] == "DP" else 0.5) * (2 - chart.values.index(value) / len(chart.values))
        return {"ratio": 1.2, "coverage": 0.96, "variability": 1.0}.get(measure, size)

    word = {v.finding["id"]: v.word for v in verdicts(look)}
    assert (
        word["obj-zcdp-shorter"]
        == word["output-zcdp-steadier"]
        == word["vi-ignores-matrix-shares"]
        == "confirmed"
    )
    assert (
        word["obj-kdd-similar"]
        == word["obj-zcdp-near-vi"]
        == word["zcdp-objective-grows-with-d"]
        == "not confirmed"
    )
    assert word["output-near-vi"] == word["coverage-close"] == "confirmed"


def fill(results: Results, parts: tuple[str, ...]) -> None:
    """Made-up records for all cells of some parts, without a save after each."""
    for part in parts:
        file = results.files.setdefault(store.PARTS[part], {kind: {} for kind in store.KINDS})
        for job in run.jobs(part):
            length = 1 / job.cell.epsilon1 + job.cell.d / 50 + 1e4 / job.cell.n
            record = {
                "length": length,
                "first_length": 2 * length,
                "length_sd": 0.1,
                "first_length_sd": 0.2,
            }
            record |= {
                "coverage": 0.9612,
                "minimum": 0.9412,
                "inflation": 3.21,
                "below": 2,
                "eigenvalues": [0, 0, 1],
            }
            file[job.kind][job.cell.key] = record


def test_the_report_of_all_results(tmp_path):
    results = Results(tmp_path / "results", Settings(7, 8, 9))
    fill(results, ("tables", "figures", "rand"))
    report.write(results, tmp_path)
    page = (tmp_path / report.PAGE).read_text(encoding="utf-8")
    assert page.count("**.9612**") == 376 + sum(
        len(c.lines) * len(c.values) for c in cells.rand_tables()
    )
    assert "**.9612**<br>.9680<br>−.0068<br>.941" in page  # the first cell of the first table
    assert all(
        text in page
        for text in ("not private", "7 bootstrap", "over 8,", "seed 9", "make reproduce", "23,006")
    )
    assert (
        page.count("| **")
        == page.count("| **DP") + page.count("| **zCDP") + len(verdicts(printed)) + 376 + 320
    )
    for figure in ("obj", "output", "dp", "zcdp"):
        assert (tmp_path / "figures" / f"paper_{figure}.png").stat().st_size > 20_000
        assert (
            "<svg"
            in (tmp_path / "figures" / f"paper_{figure}.svg").read_text(encoding="utf-8")[:2000]
        )
        assert f"figures/paper_{figure}.png" in page
    assert "BR SVM 2 of 3." in page
    assert str(tmp_path) not in page


def test_the_report_of_no_results_and_of_some(tmp_path):
    assert "confirmed" in report.page(Results(tmp_path / "results"))
    some = Results(tmp_path / "results", Settings())
    fill(some, ("tables",))
    assert "376 of 376 cells" in report.page(some)


# One cell of every sweep, reduced: fewer rows, 200 replicates, the bundled data.  Privacy noise
# dominates in all five.
REDUCED = {
    "n": Cell("rand_hie", 1000, 3, "LR", "DP", "objective", 0.5, 0.25, 0.25),
    "d": Cell("rand_hie", 1500, 3, "SVM", "zCDP", "objective", 0.5, 0.25, 0.25),
    "epsilon1": Cell("rand_hie", 2500, 7, "LR", "zCDP", "output", 0.3, 0.25, 0.25),
    "epsilon2": Cell("rand_hie", 2500, 7, "SVM", "zCDP", "output", 0.5, 1.0, 0.25),
    "epsilon3": Cell("rand_hie", 2500, 7, "LR", "DP", "output", 0.5, 0.25, 1.0),
}
BAND = (0.93, 0.985)
"""Over seeds 0 to 7 the five cells lie between .941 and .971, with half the noise above .992, with
twice below .90.
"""


def in_band(cell: Cell) -> bool:
    found = run.study(
        run.Job("rand", "cells", cell), Path(), Settings(replicates=200, seed=3), None
    )
    return BAND[0] <= found["coverage"] <= BAND[1]


@pytest.mark.parametrize("sweep", REDUCED)
def test_reduced_reproduction(sweep, monkeypatch):
    """The right noise is in the band; half of the noise covers too often, twice the noise too
    seldom.
    """
    cell, drawn = REDUCED[sweep], BatchedTrial._draw
    assert in_band(cell)
    for factor in (0.5, 2.0):

        def wrong(self, law, stream, replicates, dim, factor=factor):
            return drawn(self, law, stream, replicates, dim) * (factor if stream == 0 else 1)

        monkeypatch.setattr(BatchedTrial, "_draw", wrong)
        assert not in_band(cell)
