"""Figures from sums: without noise they are those that statisticians know, with it they widen."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from dpinfer.maths.column_sums import CELLS, QUARTILES, Numbers, Panel, histograms
from dpinfer.maths.figures import (
    Histogram,
    Interval,
    Moments,
    Quadratic,
    binomial,
    brackets_of,
    closer_cuts,
    first_cuts,
    ratio,
)
from dpinfer.maths.sums import Block
from dpinfer.neighbours import Neighbours

Z = float(norm.ppf(0.975))


@pytest.mark.parametrize(("count", "n"), [(0, 50), (1, 50), (13, 40), (50, 50), (300, 10_000)])
def test_a_share_without_noise_has_wilsons_interval(count, n):
    low, high = proportion_confint(count, n, method="wilson")
    share = ratio(count, n, Quadratic(0.0, n, -n), Z)
    assert (share.low, share.high) == pytest.approx((low, high), abs=1e-9)
    counted = ratio(count, 1.0, binomial(n), Z)
    assert (counted.low, counted.high) == pytest.approx((n * low, n * high), abs=1e-6)


def test_a_difference_of_shares_is_newcombes():
    shares = [ratio(k, n, Quadratic(0.0, n, -n), Z) for k, n in ((40, 100), (25, 120))]
    low, high = confint_proportions_2indep(40, 100, 25, 120, method="newcomb")
    found = shares[0].less(shares[1])
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)
    together = shares[0].less(shares[1], 0.5)
    assert together.high - together.low < found.high - found.low


def test_what_may_be_divided_by_0_is_not_known():
    found = ratio(3.0, 1.0, Quadratic(4.0, 0.0, 4.0), Z)
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.within(0.0, 1.0) == Interval(1.0, 0.0, 1.0)


def moments_of(t, noise=(0.0, 0.0, 0.0)):
    centre = float(t.mean())
    y = np.square((t - centre) / (1 + abs(centre)))
    return Moments(
        len(t), t.sum(), np.square(t).sum(), noise, centre, None, (float(y @ y), float(y.sum()))
    )


def test_a_mean_and_a_deviation_are_those_of_the_numbers():
    t = np.clip(np.random.default_rng(0).normal(0.2, 0.2, 20_000), -1, 1)
    one = moments_of(t)
    mean = one.mean(Z)
    assert mean.estimate == pytest.approx(t.mean())
    assert (mean.high - mean.low) / (2 * Z) == pytest.approx(t.std() / math.sqrt(len(t)), rel=1e-3)
    deviation = one.deviation(Z)
    assert deviation.estimate == pytest.approx(t.std())
    spread = np.square(t - t.mean()).std() / (2 * t.std() * math.sqrt(len(t)))
    assert (deviation.high - deviation.low) / (2 * Z) == pytest.approx(spread, rel=1e-2)


def test_noise_widens_by_its_deviation():
    t = np.clip(np.random.default_rng(0).normal(0.2, 0.2, 20_000), -1, 1)
    plain = moments_of(t).mean(Z)
    noisy = moments_of(t, (0.0, 50.0, 0.0)).mean(Z)
    added = (noisy.high - noisy.low) ** 2 - (plain.high - plain.low) ** 2
    assert math.sqrt(added) / (2 * Z) == pytest.approx(50 / len(t), rel=1e-3)
    hidden = moments_of(t, (0.0, 0.0, 2000.0)).deviation(Z)
    assert hidden.low == 0
    assert math.isfinite(hidden.high)


def counted(values, whole, low, high, noise=0.0, seed=0, rounds=2):
    """The histogram that a description would end with."""
    numbers = Numbers(np.array([1]), np.array([low]), np.array([high]), np.array([whole]))
    block = Block(np.column_stack([np.ones(len(values)), values]), np.zeros(len(values)))
    rng = np.random.default_rng(seed)
    cuts = first_cuts(numbers, 1, 48)
    for last in [False] * rounds + [True]:
        exact = histograms(numbers, cuts, Panel(), Neighbours.REPLACE).of_block(block)
        found = Histogram.of(exact + noise * rng.standard_normal(len(exact)), cuts, numbers, 0, 0)
        if not last:
            cuts = closer_cuts(brackets_of([[found]], np.array([noise])), numbers, 16)
    return found


@pytest.mark.parametrize("p", QUARTILES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 100.0), (-1000.0, 3000.0)])
def test_a_quartile_is_found_in_a_few_rounds(p, low, high):
    values = np.random.default_rng(1).normal(50, 10, 20_000).clip(0, 100)
    found = counted(values, False, low, high)
    truth = float(np.quantile(values, p))
    variance = len(values) * p * (1 - p) + 0 * found.noise(p)
    one = found.quantile(p, variance, Z)
    half = Z * math.sqrt(p * (1 - p) / len(values)) / norm.pdf(norm.ppf(p)) * 10
    assert one.low <= truth <= one.high
    assert abs(one.estimate - truth) < half
    assert one.high - one.low < 2 * 2 * half  # bins end an interval, so it is longer


def test_whole_numbers_and_piles_are_told_exactly():
    rng = np.random.default_rng(2)
    ages = rng.integers(17, 90, 5000).astype(float)
    found = counted(ages, True, 0.0, 120.0)
    for p in QUARTILES:
        one = found.quantile(p, np.zeros(len(found.steps)), Z)
        assert one.low == one.high == one.estimate == np.quantile(ages, p, method="inverted_cdf")
    zeros = np.where(rng.random(5000) < 0.8, 0.0, rng.uniform(0, 1e5, 5000))
    found = counted(zeros, False, 0.0, 1e5, noise=20.0)
    one = found.quantile(0.5, 400 * found.noise(0.5) + 5000 / 4, Z)
    assert (one.low, one.estimate, one.high) == (0, 0, 0)


@pytest.mark.parametrize("noise", [0.0, 30.0])
def test_a_quartile_is_covered(noise):
    """By about 95 of 100 intervals, with noise and without; with intervals for no noise by far
    fewer.
    """
    hits = 0
    careless = 0
    for seed in range(300):
        values = np.random.default_rng(seed).normal(50, 10, 4000).clip(0, 100)
        found = counted(values, False, 0.0, 100.0, noise, seed)
        sampling = len(values) * 0.1875 + 0 * found.noise(0.25)
        truth = 50 + 10 * norm.ppf(0.25)
        one = found.quantile(0.25, sampling + noise**2 * found.noise(0.25), Z)
        hits += one.low <= truth <= one.high
        other = found.quantile(0.25, sampling, Z)
        careless += other.low <= truth <= other.high
    assert 0.93 * 300 < hits < 300
    assert careless == hits if noise == 0 else careless < 0.85 * 300


def test_a_quartile_that_noise_hides_is_not_told():
    values = np.random.default_rng(0).normal(50, 10, 300).clip(0, 100)
    found = counted(values, False, 0.0, 100.0, 100.0)
    assert not found.told(0.25, 300.0, 1e4 * found.noise(0.25), Z)
    assert found.told(0.25, 3e5, 1e4 * found.noise(0.25), Z)


def test_a_range_of_more_numbers_than_cells_is_told_in_pairs():
    numbers = Numbers(np.array([1]), np.array([0.0]), np.array([99_999.0]), np.array([True]))
    assert numbers.width.tolist() == [2.0]
    assert int(numbers.last[0]) <= CELLS
    assert numbers.cells(np.array([[0.0], [1.0], [2.0], [3.0], [99_999.0]])).ravel().tolist() == [
        0, 1, 1, 2, 50_000,
    ]  # fmt: skip
