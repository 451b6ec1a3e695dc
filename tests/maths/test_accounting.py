import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from dpinfer.maths import accounting as a

amounts, deltas = st.floats(1e-6, 1e3), st.floats(1e-12, 0.5)


@given(amounts)
def test_pure_and_zcdp_are_inverse(epsilon):
    assert a.pure_from_zcdp(a.zcdp_from_pure(epsilon)) == pytest.approx(epsilon)


@given(amounts, deltas)
def test_approx_and_zcdp_are_inverse(epsilon, delta):
    assert a.epsilon_from_zcdp(a.zcdp_from_approx(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-9)


def test_known_values():
    assert a.zcdp_from_pure(0.5) == 0.125
    assert a.epsilon_from_zcdp(0.1875, 1e-6) == pytest.approx(0.1875 + 2 * np.sqrt(0.1875 * np.log(1e6)))
    assert a.zcdp_from_approx(1.0, 1e-6) == pytest.approx(0.01747, abs=1e-5)


@given(st.floats(0.01, 5), deltas)
def test_conversion_covers_the_gaussian_mechanism(rho, delta):
    """The exact δ of a ρ-zCDP Gaussian release, at the converted ε, never exceeds the stated δ."""
    epsilon, mu = a.epsilon_from_zcdp(rho, delta), np.sqrt(2 * rho)
    exact = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    assert exact <= delta
