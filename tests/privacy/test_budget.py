import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.numerics.noise_laws import Gaussian, SphericalLaplace
from dpinfer.privacy.budget import compose

amounts = st.floats(1e-4, 1e3)
weights = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6)


@given(amounts, weights)
def test_shares_add_up(amount, parts):
    assert math.fsum(s.epsilon for s in dp.PureDP(amount).split(*parts)) == pytest.approx(
        amount, rel=1e-12
    )
    assert math.fsum(s.rho for s in dp.ZCDP(amount).split(*parts)) == pytest.approx(
        amount, rel=1e-12
    )
    approx = dp.ApproxDP(amount, 1e-6)
    assert math.fsum(s.rho for s in approx.split(*parts)) == pytest.approx(
        approx.zcdp().rho, rel=1e-12
    )
    assert dp.NoPrivacy().split(*parts) == (dp.NoPrivacy(),) * len(parts)


@given(st.lists(amounts, min_size=1, max_size=6))
def test_guarantee_composition(parts):
    assert compose(dp.PureDP(a) for a in parts) == dp.PureDP(math.fsum(parts))
    assert compose(dp.ZCDP(a) for a in parts) == dp.ZCDP(math.fsum(parts))
    mixed = compose([dp.ZCDP(1.0), *(dp.PureDP(a) for a in parts)])
    assert isinstance(mixed, dp.ZCDP)
    assert mixed.rho == pytest.approx(1 + math.fsum(a**2 / 2 for a in parts))


def test_a_plan_is_private_as_a_whole_or_not_at_all():
    assert compose([dp.NoPrivacy(), dp.NoPrivacy()]) == dp.NoPrivacy()
    with pytest.raises(dp.BudgetError, match="as a whole"):
        compose([dp.NoPrivacy(), dp.PureDP(1.0)])


@given(amounts, amounts)
def test_guarantee_laplace_scale(epsilon, bound):
    assert dp.PureDP(epsilon).noise(bound) == SphericalLaplace(epsilon / bound)


@given(amounts, amounts)
def test_guarantee_gaussian_scale(rho, bound):
    noise = dp.ZCDP(rho).noise(bound)
    assert isinstance(noise, Gaussian)
    assert bound**2 / (2 * noise.scale**2) == pytest.approx(
        rho
    )  # the Rényi cost of a Gaussian shift, over α


def test_conversions():
    assert dp.PureDP(0.5).zcdp() == dp.ZCDP(0.125)
    assert dp.ZCDP(0.125).pure() == dp.PureDP(0.5)
    assert dp.ApproxDP(1.0, 1e-6).zcdp().approx(1e-6).epsilon == pytest.approx(1.0)
    assert dp.NoPrivacy().noise(1.0) == Gaussian(0.0)


@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan, "1", None, True])
@pytest.mark.parametrize("kind", [dp.PureDP, dp.ZCDP, lambda e: dp.ApproxDP(e, 1e-6)])
def test_bad_amounts(kind, bad):
    with pytest.raises(dp.BudgetError, match="positive finite number"):
        kind(bad)


@pytest.mark.parametrize("bad", [0, 1, -1e-6, math.nan, "x", True])
def test_bad_delta(bad):
    with pytest.raises(dp.BudgetError, match="delta"):
        dp.ApproxDP(1.0, bad)
    with pytest.raises(dp.BudgetError, match="delta"):
        dp.ZCDP(1.0).approx(bad)


@pytest.mark.parametrize("bad", [(), (0,), (1, -1), (math.inf,)])
def test_bad_weights(bad):
    with pytest.raises(dp.BudgetError, match="positive weight"):
        dp.PureDP(1.0).split(*bad)
