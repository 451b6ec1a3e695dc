"""Estimates of survival from counts: their derivatives, the law of their error, and the size of tests."""

from functools import cache

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.inference.survival_estimates import (
    SurvivalEstimate,
    TimeAxis,
    TimeCounts,
    log_rank,
    normal_draws,
)
from dpinfer.mechanisms.running_counts import TimeIntervals, running_counts, running_root
from dpinfer.mechanisms.sums import Block

EDGES = np.linspace(0.5, 10, 20)
FOLLOW_UP = TimeIntervals(0.0, tuple(EDGES), (1, 0), groups=2, grouped=True)
NONE = np.zeros((21, 21))


def cohort(rng, n, effect=0.0):
    """Weibull times of two groups, 60 % with an event by time 10, censored at random."""
    group = (rng.random(n) < 0.4).astype(float)
    times = 10 * rng.weibull(1.3, n) * np.exp(-effect * group)
    censored = np.minimum(rng.exponential(15, n), 10)
    return np.minimum(times, censored), times <= censored, group


def released(rng, n, rho, effect=0.0):
    """The counts of both groups with noise, as they are released."""
    exits, events, group = cohort(rng, n, effect)
    query = running_counts(FOLLOW_UP, Adjacency.REPLACE)
    block = Block(np.column_stack([np.ones(n), exits, events]), group)
    inverse = np.linalg.inv(running_root(21))
    sd = query.bound / np.sqrt(2 * rho)
    running = query.of_block(block)[:-1].reshape(FOLLOW_UP.shape)
    noisy = (running + rng.normal(0, sd, running.shape)) @ inverse.T
    return [TimeCounts(one, sd * inverse, FOLLOW_UP.away, late=False) for one in noisy]


@cache
def replicates():
    """Two hundred releases of 2,000 persons at ρ = .028: the budget (1, 10⁻⁶)."""
    rng = np.random.default_rng(1)
    return [[SurvivalEstimate(one) for one in released(rng, 2000, 0.028)] for _ in range(200)]


def test_intervals_and_bands_cover():
    """Pointwise as often as the level says, bands of the whole curve, too; noise that is not counted would show."""
    truth = np.exp(-((EDGES / 10) ** 1.3))
    draws = normal_draws(20)[:4000]
    inside = []
    together = []
    plain = []
    for groups in replicates():
        for one in groups:
            m = one.supported
            low, high = one.survival.ends(1.96)
            inside.append(np.mean((low <= truth[:m]) & (truth[:m] <= high)))
            low, high = one.survival.ends(one.survival.critical(0.95, draws))
            together.append(np.all((low <= truth[:m]) & (truth[:m] <= high)))
            se = np.sqrt(np.diag(one.survival.sampling))
            plain.append(np.mean(np.abs(one.survival.values - truth[:m]) <= 1.96 * se))
    assert 0.935 < np.mean(inside) < 0.97
    assert 0.93 < np.mean(together) < 0.985
    assert np.mean(plain) < 0.9


def test_the_log_rank_test_has_its_size_and_finds_differences():
    """Of 200 tables without a difference few are called different; of those with one most are."""
    values = [log_rank(groups).p_value for groups in replicates()]
    assert 0.02 < np.mean(np.array(values) < 0.05) < 0.09
    rng = np.random.default_rng(2)
    power = []
    for _ in range(40):
        groups = [SurvivalEstimate(one) for one in released(rng, 2000, 0.028, effect=0.3)]
        power.append(log_rank(groups).p_value < 0.05)
    assert np.mean(power) > 0.8


def exact(causes, intervals=6, late=False, seed=0):
    """Counts without noise of three thousand persons."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(20, 60, (causes + 1 + late, intervals + 1)).astype(float)
    counts[causes, -1] += 500
    if late:
        counts[-1] = 100.0
        counts[-1, 0] = 2000.0
    return counts


def estimate(counts, causes, late=False, sd=1.0):
    size = counts.shape[1]
    return SurvivalEstimate(TimeCounts(counts, sd * np.eye(size), np.full(size - 1, 0.5), late))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("cause", [None, 0, 1])
def test_the_noise_of_a_curve_is_its_derivative_times_that_of_the_counts(cause, late):
    """Against finite differences of the estimate itself."""
    counts = exact(2, late=late)

    def values(changed):
        one = estimate(changed, 2, late)
        return one.survival.values if cause is None else one.incidence(cause).values

    step = 1e-4
    slopes = []
    for place in np.ndindex(counts.shape):
        moved = counts.copy()
        moved[place] += step
        slopes.append((values(moved) - values(counts)) / step)
    slopes = np.array(slopes).T
    one = estimate(counts, 2, late)
    curve = one.survival if cause is None else one.incidence(cause)
    np.testing.assert_allclose(curve.noise, slopes @ slopes.T, rtol=2e-3, atol=1e-9)


def test_the_sampling_variance_is_that_of_greenwood():
    counts = exact(1)
    one = estimate(counts, 1)
    events, risk = one.counts.events[0], one.at_risk
    greenwood = np.cumsum(events / risk / (risk - events))
    expected = np.minimum.outer(np.arange(6), np.arange(6))
    s = one.survival.values
    np.testing.assert_allclose(one.survival.sampling, np.outer(s, s) * greenwood[expected])


def test_causes_add_up_to_the_events():
    one = estimate(exact(3), 3)
    total = sum(one.incidence(cause).values for cause in range(3))
    np.testing.assert_allclose(total, 1 - one.survival.values, atol=1e-12)


def test_an_interval_without_events_reaches_from_one_to_wilsons_end():
    """With no event among m persons the lower end is m/(m + z²)."""
    counts = np.zeros((2, 4))
    counts[1, -1] = 100.0
    one = SurvivalEstimate(TimeCounts(counts, np.zeros((4, 4)), np.full(3, 0.5), late=False))
    low, high = one.survival.ends(1.96)
    np.testing.assert_allclose(low, 100 / (100 + 1.96**2), rtol=1e-6)
    np.testing.assert_allclose(high, 1.0)


def test_curves_end_where_too_few_are_at_risk():
    """The number at risk must be five sds of its noise, and fifteen."""
    counts = np.zeros((2, 4))
    counts[1] = [10.0, 80.0, 5.0, 5.0]
    for sd, supported in ((0.0, 2), (1.0, 2), (30.0, 0)):
        root = sd * np.eye(4)
        assert TimeCounts(counts, root, np.full(3, 0.5), late=False).supported() == supported


def test_times_of_quantiles_and_means():
    axis = TimeAxis(np.array([0.0, 2.0, 4.0]), integer_times=False)
    assert axis.crossing(np.array([0.6, 0.4]), 0.5) == pytest.approx(3.0)
    assert axis.crossing(np.array([0.6, 0.55]), 0.5) == np.inf
    constant, weights = axis.mean_weights(2)
    assert constant + weights @ [0.6, 0.4] == pytest.approx(1.6 + 1.0)
    months = TimeAxis(np.array([0.0, 1.0, 2.0, 3.0]), integer_times=True)
    assert months.crossing(np.array([0.7, 0.6, 0.2]), 0.5) == 3.0
    constant, weights = months.mean_weights(3)
    assert constant + weights @ [0.7, 0.6, 0.2] == pytest.approx(1 + 0.7 + 0.6)
