import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from dpinfer.mechanisms import privacy_cost as a

amounts, deltas = st.floats(1e-6, 1e3), st.floats(1e-12, 0.5)


@given(amounts)
def test_pure_and_zcdp_are_inverse(epsilon):
    assert a.pure_from_zcdp(a.zcdp_from_pure(epsilon)) == pytest.approx(epsilon)


@settings(deadline=None)
@given(amounts, st.floats(1e-12, 1e-3))
def test_approx_and_zcdp_are_inverse(epsilon, delta):
    rho = a.zcdp_from_approx(epsilon, delta)
    assert a.epsilon_from_zcdp(rho, delta) <= epsilon
    assert a.epsilon_from_zcdp(rho, delta) == pytest.approx(epsilon, rel=1e-6)


@settings(deadline=None)
@given(amounts, deltas)
def test_the_conversion_is_the_best_order_and_never_worse_than_the_classical_one(rho, delta):
    alpha = 1 + np.geomspace(1e-6, 1e8, 20_001)
    orders = rho * alpha + np.log1p(-1 / alpha) - (np.log(delta) + np.log(alpha)) / (alpha - 1)
    best = max(1e-12, min(orders.min(), rho + 2 * np.sqrt(-rho * np.log(delta))))
    assert a.epsilon_from_zcdp(rho, delta) <= best * (1 + 1e-9)
    assert a.epsilon_from_zcdp(rho, delta) >= best - 1e-3 * max(1, best)


def test_known_values():
    assert a.zcdp_from_pure(0.5) == 0.125
    assert a.epsilon_from_zcdp(0.1875, 1e-6) == pytest.approx(
        3.0216, abs=1e-4
    )  # 3.406 by ρ + 2 sqrt(ρ log 1/δ)
    assert a.zcdp_from_approx(1.0, 1e-6) == pytest.approx(0.024356, abs=1e-6)


@given(st.floats(0.01, 5), deltas)
def test_conversion_covers_the_gaussian_mechanism(rho, delta):
    """The exact δ of a ρ-zCDP Gaussian release, at the converted ε, never exceeds the stated δ."""
    epsilon, mu = a.epsilon_from_zcdp(rho, delta), np.sqrt(2 * rho)
    exact = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert exact <= delta
    assert a.gaussian_delta(epsilon, mu) == pytest.approx(exact)


SHAPES = ["two-sided", "one-sided", "logistic", "logistic of units"]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rho", [1e-4, 0.5, 10.0])
def test_the_smallest_scale_is_found_for_every_curvature(rho, shape):
    """Also where curvature costs next to nothing, and the scale is that without it up to the last
    bits.
    """
    for k in 10.0 ** np.array([-14, -12, -11, -9, -7, -6, -5, -4, -3, -2, -1.5, -0.75]):
        scale = a.perturbed_objective_scale(rho, k, shape)
        if np.isinf(scale):
            continue
        assert a.PerturbedObjective(scale, k, shape).cost() <= rho
        least = scale * (1 - 1e-9)
        assert least < np.sqrt(2 / rho) or a.PerturbedObjective(least, k, shape).cost() > rho


@given(st.floats(0.05, 100), st.floats(1e-9, 50), st.sampled_from(SHAPES), st.floats(1e-2, 1e5))
def test_no_bound_of_a_divergence_is_below_the_least(scale, k, shape, beyond):
    release = a.PerturbedObjective(scale, k, shape)
    assert release.renyi(beyond) >= (1 + beyond) * release.lower_limit * (1 - 1e-12)


@settings(deadline=None)
@given(st.floats(0.05, 100), st.floats(1e-13, 50), st.sampled_from(SHAPES))
def test_whether_a_release_costs_more_agrees_with_its_cost(scale, k, shape):
    release = a.PerturbedObjective(scale, k, shape)
    cost = release.cost()
    assert release.costs_more_than(cost * (1 - 1e-9))
    assert not release.costs_more_than(cost * (1 + 1e-9))
    for no_budget in (0.0, -1.0, np.nan):
        assert release.costs_more_than(no_budget)


@given(st.floats(-5, 5), st.floats(-0.04, 0.04))
def test_the_lowest_place_is_found(place, off):
    found = a.lowest_near(lambda x: abs(x - place), place + off, 0.05)
    assert found == pytest.approx(place, abs=1e-11)


def test_guarantee_gaussian_profile():
    """Against balls of 300 bits: never below, and above by next to nothing."""
    rng = np.random.default_rng(5)
    kept = flint.ctx.prec
    flint.ctx.prec = 300
    try:
        for _ in range(1500):
            mu = float(np.exp(rng.uniform(np.log(1e-6), np.log(50))))
            drawn = (0.0, mu**2 / 2, rng.uniform(0, 100), mu * rng.uniform(0, 38))
            epsilon = float(rng.choice(drawn))
            exact = _exact_delta(epsilon, mu)
            stated = float(a.gaussian_delta(epsilon, mu))
            assert not exact > stated
            if stated > 1e-290:
                assert not exact * (1 + 1e-11) < stated
    finally:
        flint.ctx.prec = kept


def _exact_delta(epsilon, mu):
    e, m, root = flint.arb(epsilon), flint.arb(mu), flint.arb(2).sqrt()
    first = ((e / m - m / 2) / root).erfc()
    return (first - e.exp() * ((e / m + m / 2) / root).erfc()) / 2


def test_no_profile_overflows():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert float(a.gaussian_delta(1e90, 1e45)) <= 1
        assert float(a.gaussian_delta(1e90, 1e-10)) < 1e-300
        assert a.PerturbedObjective(1e-9, 0.1, "two-sided").delta(1e18) <= 1
