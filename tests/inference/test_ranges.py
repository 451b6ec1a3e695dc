"""The range of a column from noisy histograms: post-processing that never fails, and finds what is
there.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpinfer.inference.ranges import Range, clear_of, friendly, magnitude, zoomed
from dpinfer.numerics.bins import BINS, MAGNITUDES
from dpinfer.numerics.noise_laws import Gaussian, Laplace
from dpinfer.schema.columns import in_reach
from helpers.searches import examples

LAWS = [Gaussian(40.0), Laplace(1 / 40)]


def counted(values, edges):
    return np.bincount(
        np.searchsorted(edges, values, side="right"), minlength=len(edges) + 1
    ).astype(float)


def learnt(values, law, seed=0):
    rng = np.random.default_rng(seed)
    counts = counted(values, MAGNITUDES)
    known = magnitude(counts + law.sample(rng, counts.shape), law)
    for _ in range(2 if known else 0):
        counts = counted(values, known.edges)
        known = zoomed(counts + law.sample(rng, counts.shape), known, law)
    return known


RNG = np.random.default_rng(7)
COLUMNS = {
    "ages": RNG.integers(18, 96, 30_000).astype(float),
    "years": RNG.integers(1990, 2021, 30_000).astype(float),
    "incomes": RNG.lognormal(10, 0.6, 30_000),
    "both signs": RNG.normal(0, 1e-6, 30_000),
    "negative": -RNG.uniform(1e5, 3e5, 30_000),
    "zero and more": RNG.choice([0.0, 3.2, 4.6], 30_000),
    "huge": RNG.uniform(1e110, 3e110, 30_000),
    "constant": np.full(30_000, 7.0),
}


@pytest.mark.parametrize("law", LAWS, ids=["gaussian", "laplace"])
@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_there_is_found(name, law):
    """All but a few per cent of the values, in a range that is mostly not much wider; and what it
    says is true.
    """
    values, widths = COLUMNS[name], []
    inside = np.quantile(values, [0.005, 0.995])
    for seed in range(40):
        found = learnt(values, law, seed)
        low, high = friendly(found, is_integer=False)
        beyond = np.mean((values < low) | (values > high))
        assert beyond < 0.03
        assert beyond <= found.clipped < 0.05
        widths.append(high - low)
    assert np.median(widths) < 1.5 * (inside[1] - inside[0]) + 0.02 * abs(inside[0])
    assert np.quantile(widths, 0.9) < 4 * (inside[1] - inside[0]) + 0.1 * abs(inside[0])


def test_one_value_far_out_moves_nothing():
    """Neither the minimum nor the maximum is told."""
    values = COLUMNS["ages"]
    far = np.append(values[:-2], [1e300, -1e300])
    one, other = (friendly(learnt(some, LAWS[0]), is_integer=True) for some in (values, far))
    assert one == other


@pytest.mark.parametrize("law", LAWS, ids=["gaussian", "laplace"])
def test_noise_alone_is_no_range(law):
    """Of 1603 noisy zeros hardly ever one passes for a magnitude; with the limits of one bin many
    would.
    """
    rng, empty = np.random.default_rng(1), np.zeros(len(MAGNITUDES) + 1)
    drawn = [law.sample(rng, empty.shape) for _ in range(1000)]
    assert sum(magnitude(noise, law) is not None for noise in drawn) <= 9
    assert sum((noise > 0.7 * clear_of(law)).any() for noise in drawn) > 9
    zeros = empty.copy()
    zeros[len(empty) // 2] = 1e6
    assert magnitude(zeros, law) is None


@pytest.mark.parametrize("law", LAWS, ids=["gaussian", "laplace"])
def test_plausible_magnitudes_show_first(law):
    limits = clear_of(law)
    middle = len(limits) // 2
    assert np.array_equal(limits, limits[::-1])
    assert limits[middle + 401] < limits[middle + 440] < limits[-1]
    assert limits.max() < 3 * limits.min()


numbers = st.floats(-1e9, 1e9)


@examples(67)
@given(
    st.lists(numbers, min_size=1, max_size=12),
    st.lists(numbers, min_size=BINS + 2, max_size=BINS + 2),
    st.integers(),
)
def test_whatever_was_released_makes_a_range_or_none(some, zoom, seed):
    """No count raises, and a range that is made can stand in a schema."""
    rng = np.random.default_rng(abs(seed))
    counts = np.zeros(len(MAGNITUDES) + 1)
    counts[rng.integers(0, len(counts), len(some))] = some
    for law in LAWS:
        known = magnitude(counts, law)
        if known is None:
            continue
        for _ in range(2):
            known = zoomed(np.array(zoom), known, law)
            assert 0 <= known.clipped <= 1
        for whole in (False, True):
            low, high = friendly(known, is_integer=whole)
            assert in_reach(low, high)
            assert not whole or (low % 1 == 0 and high % 1 == 0)


def test_friendly_numbers():
    def ends(low, high, is_integer=False):
        return friendly(Range(low, high, 1.0), is_integer=is_integer)

    assert ends(17.3, 98.2) == (16.0, 100.0)
    assert ends(0.0, 4.63) == (0.0, 4.7)
    assert ends(-0.0123, 0.0119) == (-0.0125, 0.012)
    assert ends(3981.2, 85_700.0) == (2000.0, 86_000.0)
    assert ends(0.3, 0.6) == (0.3, 0.6)
    assert ends(0.0, 1.03, is_integer=True) == (0.0, 1.0)
    assert ends(0.4, 1.0, is_integer=True) == (
        1.0,
        2.0,
    )  # there is no whole number in it but for its end
    assert ends(1989.3, 2020.4, is_integer=True) == (1990.0, 2020.0)
    assert ends(-7.5, -6.5, is_integer=True) == (-7.0, -6.0)


def test_ends_that_hold_next_to_nothing_are_cut():
    law = Gaussian(10.0)
    counts = np.zeros(BINS + 2)
    counts[4:9] = 1000.0
    found = zoomed(counts, Range(0.0, 16.0, 5000.0), law)
    assert (found.low, found.high) == (3.0, 8.0)
    counts[2] = 40.0  # more than .4 per cent, and more than noise
    assert zoomed(counts, Range(0.0, 16.0, 5000.0), law).low == 1.0
    counts[0] = 600.0  # beyond the range: nothing below it can be cut, and it is told
    found = zoomed(counts, Range(0.0, 16.0, 5000.0), law)
    assert found.low == 0.0
    assert found.clipped > 600 / 5000
    nothing = zoomed(np.zeros(BINS + 2), Range(0.0, 16.0, 5000.0), law)
    assert (nothing.low, nothing.high) == (0.0, 16.0)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([100.0], (32, 256)),
        ([-100.0], (-256, -32)),
        ([5.0, 100.0], (2, 256)),
        ([0.0, 5.0], (0, 16)),
    ],
)
def test_one_magnitude_more_on_either_side(values, ends):
    """Of [64, 128), where all are, the range is [32, 256): noise may hide a neighbour; 0 has none."""
    found = magnitude(counted(np.repeat(values, 1000), MAGNITUDES), Gaussian(1.0))
    assert (found.low, found.high) == ends
    assert found.n == 1000 * len(values)
