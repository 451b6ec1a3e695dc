"""The first release of a fit: how far histograms of all numbers move, and what a record's bins
depend on.
"""

from fractions import Fraction

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit import column_scaling as scalings
from dpinfer.fit.column_scaling import (
    Winsorised,
    column_histograms,
    public_scaling,
    release_scaling,
    scaled_columns,
)
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.bins import BINS, inner_edges
from dpinfer.rows.source import Rows
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from helpers.support import gate_of

COLUMNS = (1, 3, 7)


def design_of(p):
    """Numbers between -1 and 1, with an intercept."""
    return Design.of_bounds((-1.0, 1.0), tuple(f"x{j}" for j in range(p)))


def sum_of(p, notion, seed=0):
    """Histograms of p numbers, each inside a range of its own."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-0.4, 0.4, p)
    half = rng.uniform(0.05, 0.6, p)
    edges = np.array([inner_edges(m - h, m + h) for m, h in zip(middle, half, strict=True)])
    return column_histograms(np.arange(1, p + 1), edges, np.sqrt(design_of(p).norm2), notion)


def unit_of(values, p, weights=None):
    """One unit with these rows of numbers as it comes to a sum, whatever its number of rows."""
    source = Rows.encoded(
        design_of(p).rows(np.atleast_2d(values)), np.ones(len(np.atleast_2d(values))), "margin"
    )
    if weights is None and len(source.block) == 1:
        return source.block
    return source.counted(1.0, np.zeros(len(source.block), dtype=np.intp), weights).block


def units(p, notion, rng):
    """Random units and hopeless ones: at one end, at the other, and with a number that is missing."""
    yield unit_of(np.full((1, p), -1.0), p)
    yield unit_of(np.full((1, p), 1.0), p)
    yield unit_of(np.full((1, p), np.nan), p)
    for _ in range(40):
        many = int(rng.integers(1, 6)) if notion.units else 1
        weights = (
            rng.uniform(0, 3, many) * (rng.random(many) < 0.8)
            if notion.units and rng.random() < 0.5
            else None
        )
        values = rng.uniform(-1.2, 1.2, (many, p))
        values[rng.random((many, p)) < 0.02] = np.inf
        yield unit_of(values, p, weights)


def largest(p, notion):
    """The largest squared change between neighbours, in rational arithmetic."""
    bounded = sum_of(p, notion)
    added = [
        [Fraction(float(x)) for x in bounded.of_block(unit)]
        for unit in units(p, notion, np.random.default_rng(p))
    ]
    nothing = [Fraction(0)] * len(added[0])
    others = added if notion.counted else [nothing]
    return max(
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
        for one in added
        for other in others
    )


@pytest.mark.parametrize("p", COLUMNS)
@pytest.mark.parametrize("notion", Adjacency)
def test_guarantee_frame_sensitivity(notion, p):
    """sqrt(2p) or sqrt p, and two records at opposite ends attain it; half of the bound would be
    exceeded.
    """
    bounded = sum_of(p, notion)
    assert bounded.bound == pytest.approx(np.sqrt(2 * p if notion.counted else p), rel=1e-15)
    found = largest(p, notion)
    assert found <= Fraction(bounded.bound**2) * (1 + Fraction(1, 10**12))
    assert found == (2 * p if notion.counted else p)


@pytest.mark.parametrize("notion", [notion for notion in Adjacency if notion.units])
def test_mutation_rows_that_count_one_are_caught(notion):
    """A unit of three rows whose rows count fully moves the histograms by more than their bound."""
    bounded = sum_of(3, notion)
    block = unit_of(np.full((3, 3), 1.0), 3)
    whole = Block(block.rows, block.labels, 1.0, np.ones(3), block.starts)
    assert np.linalg.norm(bounded.of_block(block)) <= bounded.bound
    assert np.linalg.norm(bounded.of_block(whole)) > 1.2 * bounded.bound


def test_a_row_that_cannot_be_encoded_is_in_no_bin():
    bounded = sum_of(3, Adjacency.REPLACE)
    assert not bounded.of_block(unit_of([[0.1, np.nan, 0.2]], 3)).any()
    assert bounded.of_block(unit_of([[0.1, 0.3, 0.2]], 3)).sum() == 3


def test_the_bins_of_a_record_depend_on_that_record_alone():
    """On edges and beside them, at any place, among any others: one by one they are in the same
    bins.
    """
    p = 3
    design = design_of(p)
    bounded = sum_of(p, Adjacency.ADD_REMOVE)
    rng = np.random.default_rng(1)
    edges = np.linspace(-0.6, 0.6, 25)
    values = np.concatenate(
        [rng.choice(edges, (300, p)), np.nextafter(rng.choice(edges, (300, p)), 2.0)]
    )
    block = Rows.encoded(design.rows(values), np.ones(600), "margin").block
    alone = np.array([bounded.of_block(block[k : k + 1]) for k in range(600)])
    assert ((alone == 0) | (alone == 1)).all()
    assert (alone.reshape(600, p, BINS).sum(axis=2) == 1).all()
    for first, last in ((0, 600), (1, 600), (7, 311), (255, 256)):
        assert np.array_equal(bounded.of_block(block[first:last]), alone[first:last].sum(axis=0))


def test_the_edges_are_those_of_the_numbers():
    """The bin of a number is that of `numpy.histogram`; beyond either end are the bins at the ends."""
    design = design_of(1)
    inner = inner_edges(-0.5, 0.25)
    bounded = column_histograms(
        np.array([1]), inner[None], np.sqrt(design.norm2), Adjacency.REPLACE
    )
    values = np.random.default_rng(0).uniform(-1, 1, 4000)
    found = bounded.of_block(
        Rows.encoded(design.rows(values[:, None]), np.ones(4000), "margin").block
    )
    known, _ = np.histogram(values, np.concatenate([[-1.0], inner, [1.0]]))
    assert np.array_equal(found, known)


MIXED = [
    Number("age", 0.0, 80.0),
    Category("kind", ("a", "b", "c"), "a"),
    Number("ill", 0, 1, kind="boolean"),
]


def test_only_numbers_of_their_own_are_framed():
    """Neither the intercept nor levels, nor what is yes or no."""
    assert scaled_columns(Design.of_terms(MIXED)).tolist() == [1]
    assert scaled_columns(Design.of_terms(MIXED[1:])).tolist() == []


@pytest.mark.parametrize(
    ("steps", "plan"), [(LogisticSteps, dp.GeometryPlan), (LinearSteps, dp.LinearPlan)]
)
def test_nothing_is_booked_without_numbers(steps, plan):
    """And nothing is released: the gate is asked for no histogram."""
    with_numbers = steps(Design.of_terms(MIXED), plan(dp.ZCDP(0.5)))
    without = steps(Design.of_terms(MIXED[1:]), plan(dp.ZCDP(0.5)))
    assert [release.step for release in with_numbers.releases(100)[:3]] == [
        "scales, 1 of 2",
        "scales, 2 of 2",
        "crude moments",
    ]
    assert without.releases(100)[0].step == "crude moments"
    design = without.design
    found = release_scaling(
        gate_of(0),
        without.releases_by_stage.of("scales"),
        Rows.of(np.zeros((5, 3)), np.ones(5)),
        design,
        Adjacency.REPLACE,
    )
    assert np.array_equal(found.middle, public_scaling(design).middle)


def test_a_frame_is_made_of_what_is_released(monkeypatch):
    """Ranges are inside the public ones, and nobody's number changes them beyond the counts."""
    design = design_of(2)
    plan = dp.GeometryPlan(dp.ZCDP(50.0))
    values = np.random.default_rng(0).normal(0.2, [0.01, 0.2], (4000, 2))
    source = Rows.encoded(design.rows(values), np.ones(4000), "margin")
    booked = plan.releases(numbers=2).of("scales")
    found = release_scaling(gate_of(3, *booked), booked, source, design, Adjacency.REPLACE)
    low = found.middle - found.half
    high = found.middle + found.half
    assert (low[1:] >= -1).all()
    assert (high[1:] <= 1).all()
    assert low[1] < 0.18
    assert high[1] > 0.23
    assert high[1] - low[1] < 0.15
    seen = []
    right = scalings.column_histograms

    def noted(places, edges, radius, neighbours):
        seen.append(edges)
        return right(places, edges, radius, neighbours)

    monkeypatch.setattr(scalings, "column_histograms", noted)
    release_scaling(gate_of(3, *booked), booked, source, design, Adjacency.REPLACE)
    assert np.array_equal(seen[0], np.tile(inner_edges(-1.0, 1.0), (2, 1)))


def curve_design():
    """A spline, by itself and in a level, whose functions go beyond 1 where the frame says so."""
    columns = {
        "y": Outcome("y", (False, True)),
        "age": Number("age", 0.0, 100.0),
        "kind": Category("kind", ("a", "b"), "a"),
    }
    return Design.of_terms(parse("y ~ ns(age, 30, 60)*kind", dp.Schema(columns))[1])


@pytest.mark.parametrize("notion", Adjacency)
def test_splines_pulled_into_a_frame_count_for_at_most_one(notion):
    """The same of a spline, whatever its rows hold: also of ones that no age has."""
    rng = np.random.default_rng(3)
    design = curve_design()
    values = rng.uniform(-2, 2, (200, len(design.names) - 1))
    values[3] = np.nan
    source = Rows.encoded(design.rows(values), np.ones(200), "margin")
    if notion.units:
        source = source.counted(1.0, np.repeat(np.arange(50), 4))
    check_pulled(source, public_scaling(design))


@pytest.mark.parametrize("notion", Adjacency)
def test_rows_pulled_into_a_frame_count_for_at_most_one(notion):
    """w‖u‖² <= 1 in rational arithmetic, a zero row stays one, and a row's numbers do not depend on
    its place.
    """
    rng = np.random.default_rng(2)
    design = design_of(5)
    values = rng.uniform(-1, 1, (200, 5))
    values[3] = np.nan
    source = Rows.encoded(design.rows(values), np.ones(200), "margin")
    if notion.units:
        source = source.counted(1.0, np.repeat(np.arange(50), 4))
    frame = public_scaling(design)
    frame.middle[1:] = rng.uniform(-0.9, 0.9, 5)
    frame.half[1:] = rng.uniform(1 / 512, 0.3, 5)
    check_pulled(source, frame)


def check_pulled(source, frame):
    change = Winsorised(source, frame).change
    whole = change(source.block)
    shares = np.broadcast_to(source.block.shares, 200)
    for row, weight, share in zip(
        whole.rows, np.broadcast_to(whole.weights, 200), shares, strict=True
    ):
        assert Fraction(float(weight)) * sum(Fraction(float(x)) ** 2 for x in row) <= Fraction(
            float(share)
        )
    assert not whole.rows[~source.block.rows.any(axis=1)].any()
    for k in (4, 8, 196):
        later = change(source.block[k:])
        assert np.array_equal(later.rows, whole.rows[k:])
        assert np.array_equal(later.weights, whole.weights[k:])
