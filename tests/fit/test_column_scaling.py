"""The range of each number: found by histograms, used as units, and a public one where there is
nothing to find.
"""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.column_scaling import Winsorised, public_scaling, release_scaling, scaled_columns
from dpinfer.fit.step_plan import SCALES
from dpinfer.numerics.splines import b_splines, natural_splines
from dpinfer.rows.source import Rows
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from helpers.support import gate_of

TERMS = [
    Number("age", -1000.0, 1000.0),
    Category("kind", ("a", "b"), "a"),
    Number("share", 0.0, 1.0),
]
DESIGN = Design.of_terms(TERMS)


def table(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(45, 12, n).clip(0, 100), rng.random(n) < 0.3, rng.random(n)])


def frame_of(x, rho=0.5, seed=1, design=DESIGN, notion=Adjacency.REPLACE):
    plan = dp.GeometryPlan(dp.ZCDP(rho), neighbours=notion)
    booked = plan.releases(numbers=len(scaled_columns(design))).of(SCALES)
    source = Rows.of(design.rows(x), np.ones(len(x)))
    return release_scaling(gate_of(seed, *booked), booked, source, design, notion)


def test_numbers_of_their_own_are_framed():
    assert scaled_columns(DESIGN).tolist() == [1, 3]
    assert scaled_columns(Design.of_terms([TERMS[1]])).tolist() == []


@pytest.mark.parametrize("notion", [Adjacency.REPLACE, Adjacency.ADD_REMOVE])
def test_a_range_holds_nearly_all_and_is_not_much_wider(notion):
    """Bounds of 2,000 around numbers from 0 to 100: a range of a few bins of the second histogram."""
    x = table()
    for seed in range(10):
        frame = frame_of(x, 0.5, seed, notion=notion)
        low, high = frame.low(DESIGN)[1], frame.high(DESIGN)[1]
        assert np.mean((x[:, 0] < low) | (x[:, 0] > high)) < 0.03
        assert high - low < 250
        assert (frame.low(DESIGN)[3], frame.high(DESIGN)[3]) == pytest.approx((0.0, 1.0), abs=0.15)


def test_all_histograms_are_kept():
    """Of each number by its place, with the ends of each: the public bounds, then what was found."""
    x = table(20_000)
    frame = frame_of(x, 5.0)
    kept = dict(frame.histograms)
    assert list(kept) == [1, 3]
    for place, one in kept.items():
        assert one.ends[0] == (-1.0, 1.0)
        assert len(one.ends) == len(one.counts) == 2
        column = x[:, place - 1]
        scaled = (column - DESIGN.middle[place]) / DESIGN.half[place]
        for (low, high), counts in zip(one.ends, one.counts, strict=True):
            inner = np.linspace(low, high, 17)[1:-1]
            exact = np.bincount(np.searchsorted(inner, scaled, side="right"), minlength=16)
            assert np.abs(counts - exact).max() < 5 * one.noise
            assert np.abs(counts - exact).max() > 0.1 * one.noise


TWO_VALUED = Design.of_terms([Number("age", 0.0, 100.0), Number("yes", 5.0, 6.0)])
SQUARED = dp.Schema(
    {
        "y": Outcome("y", (False, True)),
        "age": Number("age", 0.0, 100.0),
        "yes": Number("yes", 5.0, 6.0),
    }
)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_number_that_is_only_at_its_bounds_is_measured_as_a_level(share):
    """As 0 and 1, and so it is a dummy to the fit; with a power of it, it stays a number."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(0, 100, 20_000), 5.0 + (rng.random(20_000) < share)])
    for seed in range(20):
        frame = frame_of(x, 0.05, seed, TWO_VALUED)
        assert frame.two_valued == (2,)
        assert frame.columns(TWO_VALUED).dummy.tolist() == [False, False, True]
        inside = np.column_stack([np.ones(len(x)), x]) @ frame.of_units(TWO_VALUED).T
        assert set(np.round(inside[:, 2], 9)) == {0.0, 1.0}
    squared = Design.of_terms(parse("y ~ age + yes + I(yes ** 2)", SQUARED)[1])
    frame = frame_of(np.column_stack([x, x[:, 1] ** 2]), 0.05, 0, squared)
    assert frame.two_valued == ()


@pytest.mark.parametrize("rho", [0.005, 0.5])
def test_a_number_with_records_between_stays_one(rho):
    """Ages are spread, and of shares one in ten is in the middle, clear of the noise of a count."""
    rng = np.random.default_rng(0)
    shares = np.where(rng.random(20_000) < 0.9, 5.0 + (rng.random(20_000) < 0.5), 5.5)
    x = np.column_stack([rng.uniform(0, 100, 20_000), shares])
    found = [frame_of(x, rho, seed, TWO_VALUED).two_valued for seed in range(40)]
    assert not any(found)


def test_with_hopeless_noise_a_range_is_still_one():
    """Whatever noise says: inside the public bounds, and of some width."""
    for seed in range(30):
        frame = frame_of(table(200), 1e-6, seed)
        low, high = frame.low(DESIGN), frame.high(DESIGN)
        assert (low[[1, 3]] < high[[1, 3]]).all()
        assert low[1] >= -1000 - 1e-9
        assert high[1] <= 1000 + 1e-9


@pytest.mark.parametrize("value", [0.0, 999.0, 45.0])
def test_a_constant_and_a_lone_end_have_a_range(value):
    x = table()
    x[:, 0] = value
    frame = frame_of(x)
    assert frame.low(DESIGN)[1] <= value + 1e-9
    assert value - 1e-9 <= frame.high(DESIGN)[1]


def test_rows_that_cannot_be_encoded_are_in_no_bin():
    """A zero row would look like one at the middle of the public bounds, here 0, which is far from
    all records.
    """
    x = table()
    x[:, 0] += 400
    x[::2] = np.nan
    frame = frame_of(x, 50.0)
    assert frame.low(DESIGN)[1] > 300
    assert frame.high(DESIGN)[1] < 600


def test_a_fit_measures_columns_in_the_frame():
    """In the frame the numbers are in [-1, 1] but for a few, and levels stay 0 and 1."""
    x = table()
    frame = frame_of(x)
    rows = DESIGN.rows(x) * np.sqrt(DESIGN.norm2)
    inside = rows @ frame.matrix(DESIGN).T
    assert inside[:, 0] == pytest.approx(1.0)
    assert np.mean(np.abs(inside[:, 1]) <= 1) > 0.96
    assert inside[:, 1].std() > 0.08
    assert set(np.round(inside[:, 2], 9)) == {0.0, 1.0}
    units = np.column_stack([np.ones(len(x)), x]) @ frame.of_units(DESIGN).T
    assert inside == pytest.approx(units, abs=1e-9)


def test_how_far_public_bounds_go_beyond_is_known():
    frame = frame_of(table())
    far = frame.columns(DESIGN).far
    low, high = frame.low(DESIGN)[1], frame.high(DESIGN)[1]
    half = (high - low) / 2
    middle = (high + low) / 2
    assert far[1] == pytest.approx((1000 + abs(middle)) / half, rel=1e-6)
    assert far[2] == 1


SPLINE = Design.of_terms(
    parse(
        "y ~ ns(age, 30, 50, 70)*kind + bs(share, 0.5, degree=2) + ns(age, 30, 50, 70):w",
        dp.Schema(
            {
                "y": Outcome("y", (False, True)),
                "age": Number("age", 0.0, 100.0),
                "kind": TERMS[1],
                "share": TERMS[2],
                "w": Number("w", 0.0, 1.0),
            }
        ),
    )[1]
)


def spline_rows(n=3000, seed=0):
    """(1, x) in original units, with as many ages between any two knots."""
    rng = np.random.default_rng(seed)
    age = np.interp(rng.uniform(0, 4, n), range(5), (0, 30, 50, 70, 100))
    share = rng.random(n)
    w = rng.random(n)
    b = (rng.random(n) < 0.3).astype(float)
    curve = np.column_stack([column.values(age) for column in natural_splines(0, 30, 50, 70, 100)])
    curve = curve[:, [0, 2, 3, 4]]
    shares = np.column_stack([column.values(share) for column in b_splines(2, 0, 0.5, 1)])[:, 1:]
    found = {"(Intercept)": np.ones(n), "kind[b]": b}
    for k, knot in enumerate((0, 50, 70, 100)):
        found[f"ns(age)[{knot}]"] = curve[:, k]
        found[f"ns(age)[{knot}]:kind[b]"] = curve[:, k] * b
        found[f"ns(age)[{knot}]:w"] = curve[:, k] * w
    found |= {f"bs(share)[{k + 1}]": shares[:, k] for k in range(3)}
    return np.column_stack([found[name] for name in SPLINE.names])


def test_splines_are_measured_by_their_knots():
    """No range of their columns is released; in the frame they are uncorrelated, by themselves and
    in each level, where their columns are not, and the map from one to the other is invertible.
    """
    framed_names = [SPLINE.names[j] for j in scaled_columns(SPLINE)]
    assert framed_names == [f"ns(age)[{knot}]:w" for knot in (0, 50, 70, 100)]
    units = spline_rows(20_000)
    frame = public_scaling(SPLINE)
    inside = units @ frame.of_units(SPLINE).T
    rows = SPLINE.rows(units[:, 1:]) * np.sqrt(SPLINE.norm2)
    assert np.allclose(rows @ frame.matrix(SPLINE).T, inside, atol=1e-9)
    assert np.linalg.cond(frame.of_units(SPLINE)) < 1e4
    for spline in SPLINE.splines:
        places = list(spline.columns)
        own = inside[units[:, spline.base] == 1][:, places]
        assert np.abs(own).max() <= 1 + 1e-9
        assert np.abs(np.corrcoef(own.T) - np.eye(len(places))).max() < 0.05
        assert not inside[units[:, spline.base] == 0][:, places].any()
    assert np.abs(np.corrcoef(units[:, list(SPLINE.splines[0].columns)].T) - np.eye(4)).max() > 0.3


def test_rows_are_pulled_into_the_frame_with_their_splines():
    """What a fit is told of a row is what the map says, as no function of a spline goes beyond 1."""
    units = spline_rows(300)
    source = Rows.of(SPLINE.rows(units[:, 1:]), np.ones(len(units)))
    frame = public_scaling(SPLINE)
    inside = Winsorised(source, frame).change(source.block).rows
    expected = units @ frame.of_units(SPLINE).T * source.block.rows[:, :1]
    places = [j for spline in SPLINE.splines for j in spline.columns]
    assert inside[:, places] == pytest.approx(expected[:, places], abs=1e-12)


def test_local_functions_are_the_columns():
    units = spline_rows(300)
    frame = public_scaling(SPLINE)
    inside = units @ frame.of_units(SPLINE).T
    for local, spline in zip(frame.columns(SPLINE).local, SPLINE.splines, strict=True):
        columns = inside[:, local.columns] @ local.matrix.T
        assert columns == pytest.approx(units[:, list(spline.columns)], abs=1e-9)
        assert (columns >= local.low - 1e-9).all()
        assert (columns <= local.high + 1e-9).all()
    assert [local.shares for local in frame.columns(SPLINE).local] == [False, True, False]
