"""The study of descriptions: its page is made of its results, its truth is that of the table, and a
small cell runs.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from studies.describe.cell import Cell, keys, replicate, setting
from studies.describe.report import FIGURES, page, summarise

from dpinfer.privacy.budget import NoPrivacy

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies/describe/results/describe.json"


def test_the_page_is_made_of_the_results():
    cells = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert len(cells) == 28
    assert {cell["replicates"] for cell in cells} == {200}
    assert page(cells) == (ROOT / "docs/describe-study.md").read_text(encoding="utf-8")


def test_no_figure_that_is_often_printed_is_far_below_its_level():
    """The lowest of about 6,000 lines with 200 replicates each, and the averages of all."""
    cells = json.loads(RESULTS.read_text(encoding="utf-8"))
    lowest = [
        one["lowest"] for cell in cells for one in cell["figures"].values() if "lowest" in one
    ]
    assert min(lowest) > 0.87
    for figure in FIGURES:
        coverage = [
            cell["figures"][figure]["coverage"]
            for cell in cells
            if figure in cell["figures"] and cell["figures"][figure]["printed"] > 0.5
        ]
        assert 0.945 < np.mean(coverage) < 1


@pytest.mark.parametrize("design", ["known", "persons"])
def test_a_small_cell(design):
    """Without noise a description of the population itself is its truth, and a replicate answers for
    every line.
    """
    cell = Cell(design, "1,1e-6", grouped=True)
    people, truth = setting(cell, Path())
    told = people.sample(0, NoPrivacy()).run(insecure_seed=0)
    assert set(keys(told)) <= set(truth)
    found = [replicate(cell, Path(), index) for index in range(2)]
    assert len(found[0]["private"]["covered"]) == len(told.figures)
    numbers = summarise(cell, found, Path())
    assert numbers["replicates"] == 2
    assert numbers["figures"]["share"]["lines"] == sum(
        figure == "share" for _, _, _, figure in keys(told)
    )
