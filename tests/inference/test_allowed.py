"""A normal law with allowances: intervals, p-values, maps and draws against each other."""

import numpy as np
import pytest
from scipy import stats

from dpinfer.inference import error_laws as laws
from dpinfer.inference.error_laws import BiasedNormal, folded_quantile


def law(**changes):
    fields = {
        "sampling": np.array([[1.0, 0.3], [0.3, 0.5]]),
        "noise": np.array([[0.5, -0.2], [-0.2, 0.4]]),
        "below": np.array([0.1, 0.0]),
        "above": np.array([0.3, 0.2]),
        "draws": 40_000,
        "seed": 3,
    }
    return BiasedNormal(**{**fields, **changes})


PLAIN = law(below=np.zeros(2), above=np.zeros(2))


@pytest.mark.parametrize("level", [0.3, 0.9, 0.999])
@pytest.mark.parametrize("bias", [0.0, 0.2, 1.0, 40.0])
def test_the_quantile_of_a_folded_normal(bias, level):
    c = folded_quantile(bias, level)
    assert stats.norm.cdf(c - bias) - stats.norm.cdf(-c - bias) == pytest.approx(level)
    assert c <= bias + stats.norm.ppf((1 + level) / 2) + 1e-9


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_cover_whatever_the_bias_and_at_the_largest_as_promised(level):
    """Target - estimate is N(bias, variance): the allowances added to both ends would cover more
    than was asked.
    """
    found = law().interval(np.zeros(2), level)
    sd = np.sqrt(np.diag(law().covariance()))
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        bias = (1 - share) * -law().below + share * law().above
        covered = stats.norm.cdf(found[:, 1], bias, sd) - stats.norm.cdf(found[:, 0], bias, sd)
        assert (covered >= level - 1e-9).all()
        if share in (0.0, 1.0):
            assert covered == pytest.approx(np.full(2, level))


def test_without_allowances_intervals_are_normal_ones():
    found, half = PLAIN.interval(np.array([1.0, -2.0]), 0.9), 1.644854 * np.sqrt([1.5, 0.9])
    assert np.allclose(found, np.array([[1.0], [-2.0]]) + np.array([[-1, 1]]) * half[:, None])
    assert np.allclose(law().noise_share(), [0.5 / 1.5, 0.4 / 0.9])


@pytest.mark.parametrize(
    "estimate", [np.array([2.9, -1.4]), np.array([0.05, 0.1]), np.array([-1.0, 1.0])]
)
def test_p_values_are_dual_to_intervals(estimate):
    for j, p in enumerate(law().p_values(estimate)):
        low, high = law().interval(estimate, min(1 - p, 1 - 1e-12) if p < 1 else 1e-9)[j]
        if p < 1:
            assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-6)
        else:
            assert low <= 0 <= high


def test_a_map_carries_allowances_by_their_sign():
    mapped = law().mapped(np.array([[1.0, -2.0], [-1.0, 0.0]]))
    assert np.allclose(mapped.below, [0.1 + 2 * 0.2, 0.3])
    assert np.allclose(mapped.above, [0.3 + 2 * 0.0, 0.1])
    matrix = np.array([[1.0, -2.0], [-1.0, 0.0]])
    assert np.allclose(mapped.covariance(), matrix @ law().covariance() @ matrix.T)
    drawn = PLAIN.mapped(matrix).sample()
    assert np.allclose(np.cov(drawn.T), matrix @ PLAIN.covariance() @ matrix.T, rtol=0.05)


def test_draws_are_as_wide_as_intervals():
    tails = np.quantile(PLAIN.sample(), [0.025, 0.975], axis=0).T
    assert tails == pytest.approx(PLAIN.interval(np.zeros(2), 0.95), abs=0.06)
    assert np.array_equal(law().sample(), law().sample())
    assert not np.array_equal(law().sample(), law(seed=4).sample())


def test_draws_allow_for_either_sign_at_once():
    """For several coefficients no sign of the bias is the worst: draws are wider than the interval
    of one.
    """
    low, high = np.quantile(law().sample(), [0.025, 0.975], axis=0)
    found = law().interval(np.zeros(2), 0.95)
    assert (low < found[:, 0] + 0.03).all()
    assert (high > found[:, 1] - 0.03).all()


def test_bands_and_tests_of_several_coefficients():
    bands = laws.simultaneous(np.zeros(2), law(), 0.95)
    inside = ((law().sample() >= bands[:, 0]) & (law().sample() <= bands[:, 1])).all(axis=1)
    assert inside.mean() == pytest.approx(0.95, abs=0.002)
    statistic, p_value = laws.wald(np.array([2.0, 0.5]), PLAIN)
    assert p_value == pytest.approx(stats.chi2(2).sf(statistic), abs=0.01)
    assert laws.wald(np.array([2.0, 0.5]), law())[1] > p_value


def test_the_law_of_nothing():
    none = np.zeros(0)
    nothing = BiasedNormal(np.zeros((0, 0)), np.zeros((0, 0)), none, none, 1, 3)
    assert nothing.covariance().shape == (0, 0)
    assert nothing.interval(np.zeros(0), 0.95).shape == (0, 2)
    assert nothing.p_values(np.zeros(0)).shape == nothing.noise_share().shape == (0,)
    assert nothing.mapped(np.zeros((0, 0))).sample().shape == (1, 0)
    assert laws.simultaneous(np.zeros(0), nothing, 0.95).shape == (0, 2)


def test_bands_hold_all_coefficients_whatever_the_bias():
    """Each end is moved out by its own allowance, so that no bias within them is too much."""
    bands = law().band(np.zeros(2), 0.95)
    ends = np.stack([-law().below, law().above], axis=1)
    assert bands == pytest.approx(PLAIN.band(np.zeros(2), 0.95) + ends)
    errors = PLAIN.sample()
    for bias in (ends[:, 0], ends[:, 1], np.diag(ends), np.diag(ends[:, ::-1])):
        inside = (errors + bias >= bands[:, 0]) & (errors + bias <= bands[:, 1])
        assert inside.all(axis=1).mean() >= 0.949
    moved = law().band(np.array([1.0, -1.0]), 0.95)
    assert moved == pytest.approx(bands + np.array([[1.0], [-1.0]]))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_a_bias_makes_intervals_longer_by_less_than_its_bounds(level):
    added = np.diff(law().interval(np.zeros(2), level) - PLAIN.interval(np.zeros(2), level))[:, 0]
    all_of_it = np.ones(2)
    longer = law().length_at(level, all_of_it) - PLAIN.length_at(level, all_of_it)
    assert longer == pytest.approx(added, rel=1e-9)
    assert (added > 0).all()
    assert (added < law().below + law().above).all()
    half = law().length_at(level, np.full(2, 0.25))
    assert (half > PLAIN.length_at(level, all_of_it) / 2).all()
    assert (half < law().length_at(level, all_of_it)).all()
