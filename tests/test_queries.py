"""Every query states input, output, sensitivity, pseudo-code and proof, as docs/queries.md shows them."""

import math

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from tools import queries

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.column_scaling import column_histograms
from dpinfer.mechanisms import column_sums, histograms, moment_sums, step_sums, sums, unit_sums
from dpinfer.mechanisms.column_sums import Cuts, Grouping, JointQuery, Levels, Numbers
from dpinfer.mechanisms.moment_sums import COUNT_WEIGHT
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.running_counts import TimeIntervals, root_norm, running_counts
from dpinfer.mechanisms.step_sums import Linearization, Stack
from dpinfer.numerics.links import IDENTITY
from dpinfer.tables.cells import cells_of
from dpinfer.tables.levels import tally

ALL = {query.name: query for query in queries.queries()}
LINE = np.array([0.1, 0.2])
AT = Linearization(IDENTITY, np.eye(2), LINE, math.inf, np.full(2, -1.0), np.full(2, 1.0))
LEVELS = Levels(np.array([1]), np.array([3]))
NUMBERS = Numbers(np.array([1]), np.array([0.0]), np.array([1.0]), np.array([False]))
CUTS = Cuts([[np.array([5])], [np.array([7])]])
GROUPS = {False: Grouping(), True: Grouping(True, 2)}
EDGES = np.tile(np.linspace(-1.0, 1.0, 9), (3, 1))
CENTRE = np.zeros((2, 1))
UNITS = unit_sums.linked_units(AT, 1.0, 2.0)
POINTS = np.zeros((2, 1, 2))


def risk(adjacency):
    return Risk(dp.Logistic(), 2.0, 100, adjacency)


def joint(adjacency, pure):
    query = column_sums.level_counts(LEVELS, Grouping(), adjacency)
    return JointQuery([query], [np.ones(1)], pure).sum()


def of_columns(name, *arguments):
    query = getattr(column_sums, name)
    return lambda adjacency, grouped=False: query(*arguments, GROUPS[grouped], adjacency)


STACK = {"h": 0.5, "s": 0.45, "c": min(math.sqrt(0.5), 1 / 1.9)}
CODE = {
    "column_histograms": (lambda a: column_histograms(np.arange(3), EDGES, 1.0, a), {"p": 3}),
    "level_counts": (of_columns("level_counts", LEVELS), {}),
    "moments": (of_columns("moments", NUMBERS), {"grouped": False}),
    "moment_squares": (of_columns("moment_squares", NUMBERS), {}),
    "level_squares": (of_columns("level_squares", LEVELS), {}),
    "histograms": (of_columns("histograms", NUMBERS, CUTS), {}),
    "distance_squares": (of_columns("distance_squares", NUMBERS, CENTRE, POINTS), {"k": 3}),
    "JointQuery.sum": (lambda a: joint(a, True), {"pure": True}),
    "histogram": (lambda a: histograms.histogram(np.zeros(3), a), {}),
    "influence_histogram": (lambda a: histograms.influence_histogram(1.0, a), {}),
    "counted_moments": (
        lambda a: moment_sums.counted_moments(AT, 2.0, a), {"c": float(COUNT_WEIGHT)}
    ),
    "fourth_moments": (lambda a: moment_sums.fourth_moments(AT, 2.0, a), {}),
    "Risk.curvature_sum": (lambda a: risk(a).curvature_sum(LINE), {"t": 0.25}),
    "Risk.score_sum": (
        lambda a: risk(a).score_sum(LINE), {"s": 1 / (1 + math.exp(-math.hypot(*LINE)))}
    ),
    "Risk.stacked_sum": (lambda a: risk(a).stacked_sum(LINE), {"m": 1.0356}),
    "step_sums": (lambda a: step_sums.step_sums(AT, 1.0, Stack(0.5, 0.45, a), 2.0), STACK),
    "remainder_sum": (lambda a: step_sums.remainder_sum(AT, LINE, 1.0, 2.0, a), {}),
    "unit_stack": (lambda a: unit_sums.unit_stack(UNITS, 1.0, Stack(0.5, 0.45, a)), STACK),
    "unit_remainder": (lambda a: unit_sums.unit_remainder(UNITS, IDENTITY, LINE, 1.0, a), {}),
    "unit_influences": (lambda a: unit_sums.unit_influences(UNITS, 1.0, a), {}),
    "unit_row_counts": (unit_sums.unit_row_counts, {}),
    "unit_histogram": (lambda a: unit_sums.unit_histogram(len, np.zeros(3), a), {}),
    "second_moment": (sums.second_moment, {}),
    "moment_and_score": (sums.moment_and_score, {}),
    "exposure_total": (lambda a: sums.exposure_total(1.0), {}),
    "running_counts": (
        lambda a: running_counts(TimeIntervals(0.0, (1.0, 2.0), (1, 0)), a), {"late": False, "b": root_norm(3)}
    ),
}  # fmt: skip
"""Each query as the code makes it, and what the symbols of its sensitivity stand for."""


def value(text, symbols):
    names = {"sqrt": math.sqrt, "min": min, "max": max, "inf": math.inf, **symbols}
    return eval(text, {"__builtins__": {}}, names)


@pytest.mark.parametrize("name", ALL)
def test_a_query_says_what_a_reviewer_compares(name):
    faults = list(ALL[name].faults())
    assert not faults, (
        f"the docstring of {name} in {ALL[name].path.name}: {'; '.join(faults)}. Its format is in "
        "CONTRIBUTING.md, and `second_moment` in mechanisms/sums.py is an example"
    )


def test_the_page_is_that_of_the_docstrings():
    assert queries.PAGE.read_text(encoding="utf-8") == queries.page(), "run `make queries`"


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("name", CODE)
def test_the_stated_sensitivity_is_that_of_the_code(name, adjacency):
    """A query that is not in `CODE` yet is added there with the symbols of its sensitivity."""
    make, symbols = CODE[name]
    query = make(adjacency)
    if name == "moments":
        weights = column_sums.MomentWeights.of(Grouping(), adjacency)
        symbols = {**symbols, "p": weights.u, "b": weights.square}
    stated, _, l1 = ALL[name].sensitivities[adjacency].partition(", L1 ")
    in_code = query.l2_sensitivity if hasattr(query, "l2_sensitivity") else query.bound
    assert value(stated, symbols) == pytest.approx(in_code, rel=1e-12)
    in_code = getattr(query, "l1_sensitivity", getattr(query, "l1_bound", None))
    assert bool(l1) == (in_code is not None)
    if l1:
        assert value(l1, symbols) == pytest.approx(in_code, rel=1e-12)


def test_every_query_is_compared():
    others = {"Risk", "tally"}  # below
    assert set(CODE) | others == set(ALL)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_others(adjacency):
    stated = ALL["Risk"].sensitivities[adjacency]
    symbols = {"L": 1.0, "ridge": 2.0}
    assert value(stated, symbols) == risk(adjacency).minimiser_sensitivity()
    cells = cells_of(nw.from_native(pd.Series(["a", "b", "a"]), series_only=True))
    assert value(ALL["tally"].sensitivities[adjacency], {}) == tally(cells, None, adjacency).bound
    grouped = column_sums.moments(NUMBERS, GROUPS[True], adjacency)
    l2, _, l1 = ALL["moments"].sensitivities[adjacency].partition(", L1 ")
    symbols = {"grouped": True, "p": math.sqrt(0.5), "b": 1.0}
    assert value(l2, symbols) == pytest.approx(grouped.l2_sensitivity)
    assert value(l1, symbols) == pytest.approx(grouped.l1_sensitivity)
    shared = joint(adjacency, False)
    l2, _, l1 = ALL["JointQuery.sum"].sensitivities[adjacency].partition(", L1 ")
    found = (value(l2, {}), value(l1, {"pure": False}))
    assert found == (shared.bound, shared.l1_bound) == (1, math.inf)


def test_a_query_without_its_sections_is_found(tmp_path):
    source = '''
def good(x) -> BoundedSum:
    """Return one.

    Input
    -----
    rows

    Output
    ------
    1 number

    Sensitivity
    -----------
    replace, add-remove, replace-unit : 1

    Pseudo-code
    -----------
    return 0

    Proof
    -----
    docs/method.md, 3; tests/audit/missing.py
    """
    return BoundedSum(x, 1.0)


def bad(x) -> "BoundedCounts":
    """Return one."""
    return BoundedCounts(x, 1.0, 1.0)


def hands_on(x) -> BoundedSum:
    return good(x)


def _private(x) -> BoundedSum:
    return BoundedSum(x, 1.0)
'''
    (tmp_path / "new.py").write_text(source, encoding="utf-8")
    found = {query.name: list(query.faults()) for query in queries.queries(tmp_path)}
    assert list(found) == ["good", "bad"]
    assert found["bad"] == [
        "has the sections none, and needs Input, Output, Sensitivity, Pseudo-code, Proof"
    ]
    assert "add-remove-unit" in found["good"][0]
    assert found["good"][1] == "names tests/audit/missing.py, which is not there"


def test_sections_of_the_mathematics_are_there():
    """Section numbers after docs/method.md are those of its headings."""
    text = (queries.ROOT / "docs/method.md").read_text(encoding="utf-8")
    headings = {line.split()[1].rstrip(".") for line in text.splitlines() if line.startswith("##")}
    for query in ALL.values():
        assert queries.section_numbers(query.sections["Proof"]) <= headings, query.name
    assert queries.section_numbers("docs/method.md, 6.2 and 9; tests/a_1.py") == {"6.2", "9"}
