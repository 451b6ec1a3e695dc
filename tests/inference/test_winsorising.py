"""Limits of winsorised numbers: what released histograms show of a tail, and the limit with the least
noise and bias.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import statsmodels.api as sm

from dpinfer.inference.constants import MIN_SIGNAL, MIN_TAIL_RECORDS
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.tails import Tail, TailLaw
from dpinfer.inference.winsorising import (
    Costs,
    Histograms,
    NumberLaws,
    WinsorLimits,
    exponential,
    logistic,
    straight,
    winsor_limits,
)
from dpinfer.numerics.bins import BINS
from dpinfer.numerics.links import LOGIT

N = 20_000


def counts_of(x, low, high):
    edges = np.linspace(low, high, BINS + 1)
    return np.bincount(np.searchsorted(edges[1:-1], x, side="right"), minlength=BINS)


def histograms_of(x, low, high, noise, seed=0, zooms=2):
    """Histograms of a number as a fit releases them: each inside the last, without its empty ends."""
    rng = np.random.default_rng(seed)
    ends = []
    counts = []
    for _ in range(zooms):
        drawn = counts_of(x, low, high) + noise * rng.standard_normal(BINS)
        ends.append((low, high))
        counts.append(drawn)
        low, high = narrowed(drawn, low, high, max(float(drawn.sum()), 0.0), noise, 3.0)
    return Histograms(tuple(ends), tuple(counts), noise)


def drawn(name, n=N, seed=4):
    """Records of a law with mean 0 and variance 1."""
    rng = np.random.default_rng(seed)
    if name == "normal":
        return rng.standard_normal(n)
    if name == "log-normal":
        x = np.exp(0.8 * rng.standard_normal(n))
        return (x - np.exp(0.32)) / np.sqrt((np.exp(0.64) - 1) * np.exp(0.64))
    return rng.standard_t(3, n) / np.sqrt(3)


def second_moment_beyond(law, limits):
    """E, the mean of (s - c)₊ s, of each limit c: the integral of P(s > t) d/dt[(t - c) t]."""
    sizes, beyond = law.curve
    values = np.maximum(sizes - np.asarray(limits)[:, None], 0.0) * sizes
    return np.diff(values) @ ((beyond[1:] + beyond[:-1]) / 2)


# --- bins


@pytest.mark.parametrize("seed", range(5))
def test_bins_of_nested_histograms_are_disjoint_and_add_up(seed):
    """Next to no noise: a bin holds the records between its ends, and all of them hold everybody."""
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(rng.uniform(-50, 50), 10.0 ** rng.uniform(-1, 1), 5000), -100, 100)
    x[:25] = rng.uniform(-100, 100, 25)
    found = histograms_of(x, -100.0, 100.0, 1e-9, seed, zooms=3)
    assert len({*found.ends}) == 3
    low, high, counts, _ = found.bins()
    assert low[0] == -100
    assert high[-1] == 100
    assert high[:-1] == pytest.approx(low[1:])
    assert (high > low).all()
    inside = [np.sum((a <= x) & (x < b)) for a, b in zip(low, high, strict=True)]
    inside[-1] += np.sum(x == 100)
    assert counts == pytest.approx(inside, abs=1e-6)
    assert counts.sum() == pytest.approx(5000)


def test_the_noise_of_an_end_bin_is_that_of_its_difference():
    """The counts of a second histogram hold what lies beyond its ends, which the first tells apart."""
    noise = 3.0
    first = np.zeros(BINS)
    second = np.zeros(BINS)
    found = Histograms(((0.0, 16.0), (4.0, 12.0)), (first, second), noise)
    low, _, _, sd = found.bins()
    assert len(low) == 8 + BINS
    assert sd[[0, 1, 2, 3]] == pytest.approx(noise)
    assert sd[4] == pytest.approx(noise * np.sqrt(5))  # itself, and the four below
    assert sd[4 + BINS - 1] == pytest.approx(noise * np.sqrt(5))
    assert sd[5 : 4 + BINS - 1] == pytest.approx(noise)
    first[0] = 7.0
    second[0] = 10.0
    _, _, counts, _ = found.bins()
    assert counts[[0, 4]].tolist() == [7.0, 3.0]


# --- two values


def test_a_number_with_records_at_both_ends_and_none_between_has_two_values():
    rng = np.random.default_rng(0)
    for share in (0.05, 0.5):
        x = np.where(rng.random(N) < share, 1.0, -1.0)
        assert all(histograms_of(x, -1.0, 1.0, 60.0, seed).two_valued for seed in range(20))


@pytest.mark.parametrize("kind", ["between", "one end", "a few between", "zoomed", "noise alone"])
def test_other_numbers_are_not_taken_for_two_valued(kind):
    """Few between the ends may be missed, but not those that are clear of the noise: 4 sds of all
    inner counts of both histograms together.
    """
    rng = np.random.default_rng(1)
    x = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    noise = 60.0
    if kind == "between":
        x = rng.uniform(-1, 1, N)
    elif kind == "one end":
        x = np.ones(N)
    elif kind == "a few between":
        x[: int(5 * noise / np.sqrt(2) * np.sqrt(2 * (BINS - 2)))] = rng.uniform(-0.8, 0.8)
    elif kind == "zoomed":
        x = 0.3 * x
    elif kind == "noise alone":
        x = np.zeros(0)
    assert not any(histograms_of(x, -1.0, 1.0, noise, seed).two_valued for seed in range(20))


def test_two_values_are_those_at_both_public_bounds():
    """Of released counts themselves: at one end alone, or at the ends of a range that was found inside
    the public bounds, there are no two values.
    """
    ends = np.zeros(BINS)
    ends[[0, -1]] = 5000.0
    lone = np.zeros(BINS)
    lone[0] = 5000.0
    public = (-1.0, 1.0)
    assert Histograms((public, public), (ends, ends), 60.0).two_valued
    assert not Histograms((public, public), (lone, lone), 60.0).two_valued
    assert not Histograms((public, (-0.5, 1.0)), (ends, ends), 60.0).two_valued


# --- the law of a number


def second_moments(x, bound, noise, limits, seeds=20):
    """E over the variance that histograms show of each limit in sds, over seeds; and the truth."""
    x = np.clip(x, -bound, bound)
    mean, sd = x.mean(), x.std()
    s = np.abs(x - mean) / sd
    found = [
        sum(
            second_moment_beyond(law, limits)
            for law in histograms_of(x, -bound, bound, noise, seed).tails(mean, sd, len(x))
            if law is not None
        )
        for seed in range(seeds)
    ]
    return np.array(found), np.array([np.mean(np.maximum(s - c, 0) * s) for c in limits])


@pytest.mark.parametrize("noise", [20.0, 60.0])
@pytest.mark.parametrize("bound", [10.0, 100.0])
@pytest.mark.parametrize("name", ["log-normal", "t3"])
def test_what_a_limit_takes_from_a_heavy_tail_is_right_on_average(name, bound, noise):
    """E by the laws, whose bins are far wider than these tails where bounds are 100 sds: on average
    over releases no less than two thirds of the truth and no more than four times.
    """
    found, truth = second_moments(drawn(name), bound, noise, (2.0, 3.0, 5.0))
    ratio = found.mean(axis=0) / truth
    assert (ratio > 0.67).all()
    assert (ratio < 4).all()


@pytest.mark.parametrize("noise", [20.0, 60.0])
@pytest.mark.parametrize("bound", [10.0, 100.0])
def test_what_a_limit_takes_from_a_light_tail_is_little(bound, noise):
    """Of a normal law: to 3 % of the variance, on average over releases."""
    found, truth = second_moments(drawn("normal"), bound, noise, (2.0, 3.0, 5.0))
    assert np.abs(found.mean(axis=0) - truth).max() < 0.03


def test_what_a_limit_takes_is_the_integral_of_the_tail():
    """E = mean of (s - c)₊ s, here of an exponential law, whose truth is (2 + c) e^(-c)."""
    rng = np.random.default_rng(2)
    sizes = rng.exponential(1.0, 400_000)
    edges = 64.0 * 2.0 ** -np.arange(1.0, 14.0)
    counts = np.diff([0, *[(sizes >= edge).sum() for edge in edges]])
    law = TailLaw(Tail(counts.astype(float), 4e5, 1.0, edges, 64.0))
    for limit in (1.0, 3.0):
        exact = (2 + limit) * np.exp(-limit)
        assert second_moment_beyond(law, [limit])[0] == pytest.approx(exact, rel=0.12)
    assert second_moment_beyond(law, [1e3])[0] == 0.0


def test_a_side_without_room_beyond_one_sd_has_no_law():
    x = np.abs(drawn("normal"))  # from 0, which is 1.3 sds below the mean
    mean, sd = x.mean(), x.std()
    above, below = histograms_of(x, 0.0, 100.0, 20.0).tails(mean, sd, N)
    assert above is not None
    assert below is None
    assert None not in histograms_of(x, -100.0, 100.0, 20.0).tails(mean, sd, N)


# --- limits


def numbers_of(x, bound, noise=30.0, seed=0):
    """What a fit knows of one number behind an intercept, in units of its own."""
    x = np.clip(x, -bound, bound)
    mean, sd = x.mean(), x.std()
    laws = histograms_of(x, -bound, bound, noise, seed).tails(mean, sd, len(x))
    return NumberLaws(
        mean=np.array([1.0, mean]),
        covariance=np.diag([1.0, sd**2]),
        farthest=np.array([0.0, bound + abs(mean)]),
        varies=np.ones(2, dtype=bool),
        laws={1: laws},
    )


COSTS = Costs(radius2=12.0, noise_share=0.5, hessian_share=0.05, size=1.0)


def bounds_at(laws, limits, slope, response):
    """1 - f, the change of the mean outcome and the mean square of residuals, of a number with variance 1."""
    numbers = NumberLaws(np.zeros(2), np.eye(2), np.full(2, 1e9), np.ones(2, dtype=bool), {1: laws})
    none = np.zeros(2, dtype=bool)
    found = []
    for limit in limits:
        limits_now = np.array([0.0, limit])
        at = WinsorLimits(numbers, response, limits_now, limits_now, limits_now, none, none)
        found.append(at.bounds(np.array([0.0, slope]))[:, 1])
    bias, mean, square = np.transpose(found)
    return np.stack([bias / abs(slope), mean, square])


def limits_of(numbers, coef=0.05, n=N, costs=COSTS):
    return winsor_limits(numbers, np.array([0.0, coef]), float(n), costs)


def test_columns_without_a_law_end_at_their_public_bounds():
    """A number all of whose records fit the geometry has none: nothing is lost and nothing chosen."""
    numbers = replace(numbers_of(drawn("t3"), 100.0), laws={})
    found = limits_of(numbers, coef=3.0)
    assert found.distance.tolist() == numbers.farthest.tolist()
    assert found.reach.tolist() == numbers.farthest.tolist()
    assert not found.winsorised.any()
    assert not found.limited.any()
    assert not found.bounds(np.array([0.0, 1e9])).any()


def test_where_no_record_is_beyond_a_limit_costs_nothing():
    """A bounded number 50 times inside its bounds: scaled to where its records end, clipped nowhere
    that a record is, with a bias below half of the standard error.
    """
    x = np.random.default_rng(3).uniform(-1, 1, N)
    for seed in range(10):
        found = limits_of(numbers_of(x, 50.0, seed=seed), coef=0.05)
        assert not found.unknown.any()
        assert found.reach[1] < 10
        assert found.distance[1] > 1
        bias = found.bounds(np.array([0.0, 0.05]))[0, 1]
        assert N * bias**2 * found.numbers.variance[1] < 0.25


@pytest.mark.parametrize("name", ["log-normal", "t3"])
def test_limits_widen_as_noise_falls_and_bias_counts_more(name):
    """The noise of a fit falls, records or the coefficient grow: each asks for a wider limit."""
    numbers = numbers_of(drawn(name), 30.0)
    costs = [
        replace(COSTS, noise_share=q, hessian_share=h)
        for q, h in ((2, 0.2), (0.5, 0.05), (0.02, 0.002))
    ]
    for found in (
        [limits_of(numbers, costs=one).reach[1] for one in costs],
        [limits_of(numbers, n=n).reach[1] for n in (2e3, 2e4, 2e5)],
        [limits_of(numbers, coef=b).reach[1] for b in (0.005, 0.02, 0.06)],
    ):
        assert found == sorted(found)
        assert found[-1] > 1.2 * found[0]


@pytest.mark.parametrize("tolerance", [1.0, 0.2])
def test_a_limit_has_the_least_noise_and_bias_of_all(tolerance):
    """By the formulas of the module: of the limits whose signal suffices."""
    numbers = numbers_of(drawn("log-normal"), 30.0)
    numbers = replace(numbers)
    numbers.__dict__["tolerance"] = np.array([1.0, tolerance])
    coef = np.array([0.0, 0.05])
    found = winsor_limits(numbers, coef, float(N), COSTS)
    sd = np.sqrt(numbers.variance[1])
    tried = np.geomspace(1.0, numbers.farthest[1] / sd, 60)
    bias = bounds_at(numbers.laws[1], tried, coef[1] * sd, straight)[0]
    stretch = 1 + np.maximum(0.0, tried**2 / COSTS.radius2 - 1) / tolerance
    score = COSTS.noise_share * stretch
    cost = 1 + score + 2 * (1 + score) * (COSTS.hessian_share * stretch) ** 2
    cost += N * tolerance * coef[1] ** 2 * numbers.variance[1] * bias**2
    few = (stretch > 1) & (1 / (COSTS.hessian_share * stretch) < 2 * MIN_SIGNAL)
    assert few.any()
    cost[few] = np.inf
    assert found.limits[1] == pytest.approx(tried[np.argmin(cost)])
    assert found.reach[1] == pytest.approx(sd * found.limits[1])
    assert found.winsorised.tolist() == [False, True]


def test_a_limit_with_next_to_no_bias_clips_nobody():
    """The geometry ends at the limit, and rows beyond it count less: so few that nothing is clipped."""
    found = limits_of(numbers_of(drawn("normal"), 100.0, noise=5.0), coef=1e-4)
    assert found.reach[1] < 20
    assert found.distance[1] == found.numbers.farthest[1]
    assert not found.winsorised.any()


def test_a_number_that_no_limit_identifies_is_unknown():
    """Its information given the others is below 2.5 times the noise of that even at the tightest limit."""
    numbers = numbers_of(drawn("t3"), 100.0)
    assert not limits_of(numbers).unknown[1]
    for share, unknown in ((0.39, False), (0.41, True)):
        costs = replace(COSTS, hessian_share=share)
        assert limits_of(numbers, costs=costs).unknown[1] == unknown


def test_where_the_ordinary_slope_could_not_be_reported_no_noise_is_paid():
    """A plausible size so small that no interval is short enough: the widest limit in the radius."""
    numbers = numbers_of(drawn("t3"), 100.0)
    costs = replace(COSTS, size=1e-3)
    tried = np.geomspace(1.0, numbers.farthest[1] / np.sqrt(numbers.variance[1]), 60)
    widest = tried[tried**2 <= COSTS.radius2][-1]
    found = limits_of(numbers, coef=0.5, n=1e3, costs=costs)
    assert found.limits[1] == pytest.approx(widest)
    assert limits_of(numbers, coef=0.5, n=1e3).limits[1] > widest


def test_the_tolerance_of_collinear_numbers_is_small():
    """1/VIF: 1 - r² of two columns, and 1 of one that is unrelated."""
    numbers = numbers_of(drawn("t3"), 100.0)
    covariance = np.eye(4)
    covariance[1, 2] = covariance[2, 1] = 0.9
    covariance *= np.outer([1, 2, 3, 4], [1, 2, 3, 4])
    found = replace(numbers, covariance=covariance).tolerance
    assert found == pytest.approx([1, 0.19, 0.19, 1])


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
@pytest.mark.parametrize("k", [1.0, 1.5, 10.0])
def test_the_noise_of_a_column_that_is_scaled_down(correlation, k):
    """Against matrices: the noise of the information on a column given another is the squared length of
    its direction in the geometry, in which k - 1 is added to its variance.
    """
    moments = np.array([[1.0, correlation], [correlation, 1.0]])
    inverse = np.linalg.inv(moments)
    direction = inverse[:, 0] / inverse[0, 0]
    tolerance = 1 / inverse[0, 0]

    def share(added):
        """Noise over information."""
        return direction @ (moments + np.diag([added, 0.0])) @ direction / tolerance

    found = COSTS.stretch(np.array([np.sqrt(k * COSTS.radius2)]), tolerance)[0]
    assert found == pytest.approx(share(k - 1) / share(0.0))


# --- bias bounds


def close_laws(x):
    """Tail laws of a number with mean 0 and variance 1, from histograms with next to no noise."""
    return histograms_of(x, -60.0, 60.0, 2.0, zooms=5).tails(0.0, 1.0, len(x))


def standardised(name):
    """Records with mean 0 and variance 1, within bounds that the histograms have."""
    x = drawn(name, 400_000).clip(-30.0, 30.0)
    return (x - x.mean()) / x.std()


@pytest.mark.parametrize("limit", [1.5, 3.0, 5.0])
@pytest.mark.parametrize("name", ["log-normal", "t3", "normal"])
def test_the_bound_of_a_slope_is_the_bias_of_an_effect_that_ends_at_the_limit(name, limit):
    """Least squares, where it is E[x (x - x_c)]/v: against records.  A straight effect, and all between,
    have less.
    """
    x = standardised(name)
    pulled = np.clip(x, -limit, limit)
    bias = 1 - (x @ pulled) / (x @ x)
    bound = bounds_at(close_laws(x), [limit], 0.5, straight)[0, 0]
    if limit < np.abs(x).max():
        assert bound == pytest.approx(bias, rel=0.12, abs=0.002)
    for end in (1.5 * limit, 3 * limit, 1e9):
        y = np.clip(x, -end, end)
        winsorised = (pulled @ y) / (pulled @ pulled)
        assert abs(1 - (x @ y) / (x @ x) / winsorised) <= bias + 1e-9


@pytest.mark.parametrize(("slope", "limit"), [(0.1, 3.0), (0.3, 3.0), (0.3, 6.0)])
def test_the_bound_of_a_slope_of_counts(slope, limit):
    """exp: the ordinary Poisson regression of an effect that ends at the limit, with x centred at its
    mean by the means of the outcomes, as in a fit.
    """
    x = standardised("log-normal")
    mean = np.exp(slope * np.clip(x, -limit, limit))
    design = np.column_stack([np.ones(len(x)), x])
    ordinary = sm.GLM(mean, design, family=sm.families.Poisson()).fit(tol=1e-12).params[1]
    bound = bounds_at(close_laws(x), [limit], slope, exponential)[0, 0]
    assert bound > 0.75 * (1 - ordinary / slope)
    assert bound < 2 * (1 - ordinary / slope)


def test_the_bounds_of_mean_and_residuals():
    """Least squares: β E[x - x_c] for a side, and the mean square of the residuals of the ordinary
    regression of an effect that ends, against records.
    """
    x = standardised("log-normal")
    pulled = np.clip(x, -3.0, 3.0)
    _, mean, square = bounds_at(close_laws(x), [3.0], 0.5, straight)[:, 0]
    assert mean == pytest.approx(0.5 * np.mean(x - pulled), rel=0.1)
    slope = (x @ pulled) / (x @ x)
    residual = pulled - pulled.mean() - slope * x
    assert square == pytest.approx(0.25 * np.mean(residual**2), rel=0.25)


def test_bounds_are_the_same_for_either_sign_of_a_straight_effect():
    laws = numbers_of(drawn("log-normal"), 30.0).laws[1]
    limits = [1.0, 3.0, 9.0]
    up, down = (bounds_at(laws, limits, b, straight) for b in (0.4, -0.4))
    assert up == pytest.approx(down)
    assert not bounds_at(laws, limits, 1e-300, straight)[1:].any()
    assert np.isfinite(bounds_at(laws, limits, 1e-9, exponential)).all()


def test_the_response_of_a_logit():
    """Where an outcome is rare the chance grows as exp does; where it is not, straight on."""
    z = np.linspace(-5, 5, 41)
    rare = logistic(-9.0, 0.0, float(LOGIT.slope(LOGIT.mean(np.array(-9.0)))))
    assert rare(z[z > 0]) == pytest.approx(np.expm1(z[z > 0]), rel=0.03)
    assert rare(z[z <= 0]) == pytest.approx(z[z <= 0])
    common = logistic(0.0, 0.0, 0.25)
    assert common(z) == pytest.approx(z)
    for response in (rare, common, logistic(-2.0, 1.0, 0.1)):
        assert response(np.zeros(1))[0] == pytest.approx(0.0, abs=1e-9)
        assert (np.diff(response(z)) > 0).all()


def test_bias_vectors_move_a_slope_about_the_mean_and_the_intercept():
    numbers = numbers_of(drawn("t3"), 100.0)
    found = limits_of(numbers)
    vectors = found.bias(np.array([0.0, 0.2]), np.array([0.0, 0.3]), np.array([1.0, 2.0]))
    assert vectors[1].tolist() == pytest.approx([0.2 * (2.0 - numbers.mean[1]), 0.2])
    assert vectors[3].tolist() == pytest.approx([0.3, 0.0])
    assert not vectors[[0, 2]].any()
    bounds = found.bounds(np.array([5.0, -0.1]))
    direct = bounds_at(
        numbers.laws[1], found.limits[[1]], -0.1 * np.sqrt(numbers.variance[1]), straight
    )
    assert bounds[:, 1].tolist() == pytest.approx([0.1 * direct[0, 0], direct[1, 0], direct[2, 0]])


def test_no_limit_of_counts_gives_a_record_more_than_outcomes_have():
    """exp of the slope times the limit is at most the largest of few outcomes over their mean."""
    numbers = numbers_of(drawn("log-normal"), 30.0)
    costs = replace(COSTS, response=exponential, largest=20.0)
    sd = np.sqrt(numbers.variance[1])
    for coef in (0.5, 1.0, 2.0):
        found = limits_of(numbers, coef=coef, costs=costs)
        assert found.distance[1] <= max(np.log(20.0) / coef, sd) * (1 + 1e-9)
        assert found.reach[1] > found.distance[1]  # records count as their means


def test_a_gentle_pilot_keeps_the_farthest_records():
    """exp of the slope times the distance that few records exceed is at most the largest mean, and the
    mean of all records is as it was.
    """
    numbers = numbers_of(drawn("log-normal"), 30.0)
    coef = np.array([-1.0, 5.0])
    found = numbers.gentle(coef, 20.0)
    assert np.exp(found[1] * numbers.far(1)) == pytest.approx(20.0)
    assert found[0] + numbers.mean[1] * found[1] == pytest.approx(-1 + 5 * numbers.mean[1])
    assert numbers.gentle(np.array([-1.0, 0.01]), 20.0).tolist() == [-1.0, 0.01]
    assert numbers.gentle(-coef, 20.0)[1] == pytest.approx(-found[1])
    seen = np.mean(np.abs(drawn("log-normal") - numbers.mean[1]) > numbers.far(1)) * N
    assert MIN_TAIL_RECORDS / 5 < seen < 5 * MIN_TAIL_RECORDS


# --- records far out whose effect ends


def influences(x, slope, noise=20.0, seed=0):
    """A released histogram of influences, of outcomes whose effect ends at two sds."""
    rng = np.random.default_rng(seed)
    residual = slope * (np.clip(x, -2, 2) - x) + 0.3 * rng.standard_normal(len(x))
    sizes = np.hypot(1.0, x) * np.abs(residual)
    largest = 64.0
    edges = largest * 2.0 ** -np.arange(12.0, 0, -1)
    counts = np.bincount(np.searchsorted(edges, sizes, side="right"), minlength=13)[::-1]
    drawn_counts = counts + noise * rng.standard_normal(13)
    return sizes, TailLaw(Tail.halving(drawn_counts, float(len(x)), noise, largest))


def test_the_misfit_of_a_bent_effect_grows_with_its_slope():
    """0 without a slope, no less for a steeper one and for a smaller clip; none for what is unknown."""
    x = drawn("log-normal")
    numbers = numbers_of(x, 30.0)
    _, law = influences(x, 1.0)
    found = limits_of(numbers)
    misfits = [found.misfit(np.array([0.0, b]), np.eye(2), law) for b in (0.0, 0.1, -0.5, 1.0)]
    assert all(one.shape == (2, len(law.excesses[0])) for one in misfits)
    assert not misfits[0].any()
    assert not np.any([one[0] for one in misfits])
    for less, more in pairwise(misfits):
        assert (more[1] >= less[1]).all()
        assert more[1].max() > less[1].max()
        assert (np.diff(more[1]) <= 1e-12).all()
    unknown = replace(found, unknown=np.array([False, True]))
    assert not unknown.misfit(np.array([0.0, 1.0]), np.eye(2), law).any()


def test_the_misfit_is_what_a_clip_takes_off_records_far_out():
    """Of outcomes whose effect does end at two sds, against the mean of what is taken off these records
    along the column, the residuals of others being small.
    """
    x = drawn("log-normal", 200_000)
    numbers = numbers_of(x, 30.0, noise=5.0)
    slope = 1.0
    _, law = influences(x, slope, noise=5.0)
    # no limit: records are where they are
    found = replace(limits_of(numbers), distance=numbers.farthest)
    clips = law.excesses[0]
    misfit = found.misfit(np.array([0.0, slope]), np.eye(2), law)[1]
    far = np.abs(x) * slope * np.maximum(np.abs(x) - 2, 0)
    for clip in (1.0, 4.0, 16.0):
        truth = np.maximum(far - clip, 0).mean()
        assert np.interp(clip, clips, misfit) == pytest.approx(truth, rel=0.5)
    # no more records can have large influences than the released counts let be
    none = replace(law.tail, counts=np.append(np.zeros(12), 2e5), noise=1e-3)
    assert found.misfit(np.array([0.0, slope]), np.eye(2), TailLaw(none)).max() < 1e-3
