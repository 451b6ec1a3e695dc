"""The study of pooled regressions: samples of whole persons, and a page that is that of its results."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from studies.pooled.__main__ import page
from studies.pooled.designs import Pooled, sample

import dpinfer as dp

ROOT = Path(__file__).parent.parent.parent
COLUMNS = '[columns.x]\ntype = "number"\nlow = -3\nhigh = 3\n[columns.y]\ntype = "number"\nlow = -9\nhigh = 9\n'


def design():
    rng = np.random.default_rng(0)
    ids = rng.permutation(np.repeat(np.arange(300), rng.integers(1, 6, 300)))
    table = pd.DataFrame({"id": ids, "x": rng.uniform(-3, 3, len(ids))})
    table["y"] = table["x"] + rng.standard_normal(300)[ids]
    return Pooled(table, COLUMNS, "y ~ x", dp.LinearRegression, 200)


def test_a_replicate_has_whole_persons():
    pooled = design()
    drawn = sample(pooled, pooled.people(), np.random.default_rng(1))
    assert drawn["id"].nunique() == 200
    known = {tuple(rows["x"]) for _, rows in pooled.table.groupby("id")}
    assert {tuple(rows["x"]) for _, rows in drawn.groupby("id")} <= known


def test_the_target_is_the_pooled_regression():
    pooled = design()
    result = pooled.fitted(pooled.table, "every", dp.NoPrivacy(), 0)
    slope = np.polyfit(pooled.table["x"], pooled.table["y"], 1)[0]
    assert np.isclose(result.estimate[1], slope)


def test_the_page_is_that_of_the_results():
    cells = json.loads((ROOT / "studies/pooled/results/pooled.json").read_text(encoding="utf-8"))
    assert (ROOT / "docs/pooled-study.md").read_text(encoding="utf-8") == page(cells)
    assert all(cell["coverage"] > 0.93 for cell in cells)
