"""The study of data that no regression can answer: its committed results, and what it calls absurd."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from studies import edges

ROOT = Path(__file__).parents[2]
RESULTS = json.loads((ROOT / "studies/results/edges.json").read_text(encoding="utf-8"))


def test_every_cell_is_there():
    cells = [(row["kind"], row["model"], row["budget"]) for row in RESULTS]
    asked = [
        (kind, model, name)
        for kind in edges.KINDS
        for model in edges.models(kind)
        for name in edges.budgets(kind)
    ]
    assert cells == asked
    assert {row["fits"] for row in RESULTS} == {400}


def test_what_cannot_be_known_is_not_reported():
    """Noise of three deviations may pass for events: it does so in one fit of 400, and no more."""
    for row in RESULTS:
        assert sum(row["absurd"].values()) <= 1
        assert row["sure_zeros"] <= 1
        if row["kind"] in ("one_class", "hopeless"):
            assert row["printed"] == 0.0


def test_the_page_is_that_of_the_results():
    assert (ROOT / "docs/edges-study.md").read_text(encoding="utf-8") == edges.page(RESULTS)


def _fit():
    """A fit of usual data with a large budget, in which all lines are known."""
    rng = np.random.default_rng(0)
    drawn = edges.hopeless(rng)
    return drawn, edges.fitted(drawn, "linear", "1000,1e-3", rng)


@pytest.fixture(scope="module")
def fit():
    return _fit()


def test_nothing_usual_is_absurd(fit):
    drawn, result = fit
    found = edges.judged(result, drawn, size=2.0)
    assert found["lines"] == found["of"] == 5
    assert found["absurd"] == []
    assert found["zeros"] == 2


@pytest.mark.parametrize(
    ("truth", "size", "word"),
    [
        ({"x": 5.0}, 2.0, "far off"),
        ({"x": None}, 2.0, "sure of what nobody can know"),
        ({}, 0.1, "size"),
    ],
)
def test_what_is_absurd_is_found(fit, truth, size, word):
    drawn, result = fit
    told = replace(drawn, truth={**drawn.truth, **truth})
    assert f"x: {word}" in edges.judged(result, told, size)["absurd"]


def test_a_zero_that_is_taken_for_sure_is_counted(fit):
    drawn, result = fit
    told = replace(drawn, truth={**drawn.truth, "x": 0.0})
    assert edges.judged(result, told, 2.0)["sure_zeros"] == 1


@pytest.mark.parametrize("kind", list(edges.KINDS))
def test_a_replicate_runs(kind):
    model = edges.models(kind)[0]
    found = edges.replicate(kind, model, edges.budgets(kind)[0], 0)
    assert found["lines"] <= found["of"]
