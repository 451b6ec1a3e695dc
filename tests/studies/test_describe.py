"""The study of descriptions: its page is made of its results, its truth is that of the table, and a
small cell runs.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from studies.describe.cell import Cell, keys, replicate, setting
from studies.describe.report import KINDS, LOW, SHARED, outside, page, summarise, told

from dpinfer.mechanisms.sums import Block
from dpinfer.privacy.budget import NoPrivacy

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies/describe/results/describe.json"


def test_the_page_is_made_of_the_results():
    cells = json.loads(RESULTS.read_text(encoding="utf-8"))
    assert len(cells) == 28
    assert {cell["replicates"] for cell in cells} == {200}
    assert page(cells) == (ROOT / "docs/describe-study.md").read_text(encoding="utf-8")


def test_no_figure_is_held_less_or_more_often_than_it_should_be():
    """Over all intervals of a figure, and in each cell as far as chance lets that be told."""
    cells = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name in KINDS:
        coverage, without, prints = told(name, cells)
        average = float(np.average(coverage, weights=prints))
        if name in SHARED:
            assert 0.95 < average < float(np.average(without, weights=prints))
            assert coverage.min() > LOW
        else:
            assert 0.945 < average < 0.97, name
            assert not outside(coverage, prints).any(), name


def test_no_line_that_is_often_printed_is_far_below_its_level():
    """The lowest of about 6,000 lines with 200 replicates each."""
    cells = json.loads(RESULTS.read_text(encoding="utf-8"))
    lowest = [
        one["lowest"] for cell in cells for one in cell["figures"].values() if "lowest" in one
    ]
    assert min(lowest) > 0.87


def test_an_interval_by_ranks_is_that_of_the_books():
    """Of 999 different numbers the median lies between the 469th and the 531st."""
    cell = Cell("known", "1,1e-6", grouped=False)
    people = setting(cell, Path()).people
    block = Block(
        np.column_stack([np.ones(999), np.tile(np.arange(999.0)[:, None], 13)]), np.zeros(999)
    )
    found = people._ranked(block, np.ones(999), None, 1.96)
    low, high = found["wide", None, None, "median"]
    assert (low, high) == (468, 530)


@pytest.mark.parametrize("design", ["known", "persons"])
def test_a_small_cell(design):
    """Without noise a description of the population itself is its truth, and a replicate answers for
    every line.
    """
    cell = Cell(design, "1,1e-6", grouped=True)
    where = setting(cell, Path())
    whole = where.people.sample(0, NoPrivacy()).run(insecure_seed=0)
    assert set(keys(whole)) <= set(where.truth)
    assert set(where.shared) <= set(where.truth)
    found = [replicate(cell, Path(), index) for index in range(2)]
    assert len(found[0]["private"]["covered"]) == len(whole.figures)
    numbers = summarise(cell, found, Path())
    assert numbers["replicates"] == 2
    assert numbers["figures"]["share"]["lines"] == sum(
        figure == "share" for _, _, _, figure in keys(whole)
    )
