"""Each rule by which a column is set aside, on fits written down by hand."""

from dataclasses import replace

import numpy as np
import pytest

from dpinfer.maths.aside import Fitted, intercept_reportable, law_of, reportable

NAN = np.full(2, np.nan)
STRONG = Fitted(
    hessian=np.diag([400.0, 300.0, 200.0, 100.0]),
    released=np.diag([400.0, 300.0, 200.0, 100.0]),
    score_cov=np.diag([400.0, 300.0, 200.0, 100.0]),
    coef=np.array([-0.5, 1.0, 0.5, 0.3]),
    gradient=np.array([10.0, -12.0, 6.0, 3.0]),
    gradient_noise=2.0,
    hessian_noise=1.0,
    left=0.5,
    back=np.eye(4),
    spread=np.array([1.0, 0.5, 0.5, 0.4]),
    ends=np.array([NAN, NAN, NAN, [-0.2, 0.8]]),
    dummy=np.array([False, False, False, True]),
)


def kept(**changes):
    return reportable(replace(STRONG, **changes)).tolist()


def test_strong_columns_stay():
    assert kept() == [0, 1, 2, 3]
    assert intercept_reportable(STRONG, np.arange(4))


def test_too_little_information():
    assert kept(hessian=np.diag([400.0, 300.0, 2.9, 100.0])) == [0, 1, 3]
    assert kept(hessian=np.diag([400.0, 300.0, 3.1, 100.0]), gradient=np.zeros(4), gradient_noise=0.1) == [0, 1, 2, 3]
    assert kept(hessian_noise=90.0) == [0, 1]


def test_a_hessian_that_is_not_positive_definite():
    H = STRONG.hessian.copy()
    H[1, 2] = H[2, 1] = 260.0  # beyond sqrt(300 · 200)
    assert len(kept(hessian=H)) == 3


def test_a_level_with_few_events():
    assert kept(hessian=np.diag([400.0, 300.0, 200.0, 7.9])) == [0, 1, 2]
    assert kept(hessian=np.diag([400.0, 300.0, 200.0, 8.1])) == [0, 1, 2, 3]
    wide = STRONG.ends.copy()
    wide[2] = [-1.0, 1.0]  # a yes and no on [-1, 1]: information counts a quarter
    assert kept(hessian=np.diag([400.0, 300.0, 31.0, 100.0]), ends=wide) == [0, 1, 3]
    assert kept(hessian=np.diag([400.0, 300.0, 33.0, 100.0]), ends=wide) == [0, 1, 2, 3]


@pytest.mark.parametrize(("coef", "push", "runs"), [(5.0, 60.0, True), (5.0, -60.0, False), (1.0, 60.0, False)])
def test_a_separated_level_runs_away(coef, push, runs):
    """An extreme level that the debiasing step moves outwards; not inwards, and not a moderate one."""
    found = kept(coef=np.array([0.0, 0.0, 0.0, coef]), gradient=np.array([0.0, 0.0, 0.0, push]))
    assert found == ([0, 1, 2] if runs else [0, 1, 2, 3])


def test_noise_of_the_hessian_may_cause_a_quarter_of_the_variance():
    """One column whose step is long: h²/2 times its square over the mean variance of the gradient."""
    long = {"gradient": np.array([0.0, 0.0, 200 * 2.0, 0.0]), "gradient_noise": 0.1}
    variance, step = np.trace(STRONG.score_cov) / 4, 2.0
    limit = np.sqrt(0.25 * 2 * variance / (step**2 + np.trace(np.linalg.inv(STRONG.hessian))))
    for factor, expected in ((0.99, [0, 1, 2, 3]), (1.01, [0, 1, 3])):
        assert kept(**long, hessian_noise=factor * limit) == expected


@pytest.mark.parametrize("information", [2.0, 7.0])
def test_the_intercept_has_the_same_limits(information):
    """Fewer than 8 events, or less than 3 times the noise."""
    weak = replace(STRONG, hessian=np.diag([information, 300.0, 200.0, 100.0]))
    assert not intercept_reportable(weak, np.arange(4))
    noisy = replace(STRONG, hessian_noise=150.0)
    assert not intercept_reportable(noisy, np.array([0]))
    assert not intercept_reportable(replace(STRONG, hessian=-STRONG.hessian), np.array([0]))
    assert reportable(weak)[0] == 0  # it stays in the model


def test_the_law_debiases_and_holds_the_others_as_offsets():
    """In the coordinates of the coefficients, with E not the identity: the step is H_SS⁻¹ g_S."""
    rng = np.random.default_rng(0)
    E = rng.standard_normal((4, 4)) + 3 * np.eye(4)
    fit, some = replace(STRONG, back=E, left=0.0), np.array([0, 2, 3])
    law = law_of(fit, some, 20, 1000, 1)
    H, V = (E.T @ M @ E for M in (fit.hessian, fit.total))
    inverse = np.linalg.inv(H[np.ix_(some, some)])
    step = inverse @ (E.T @ fit.gradient)[some]
    assert law.step() == pytest.approx(step, rel=0.01)
    assert np.allclose(law.covariance(), inverse @ V[np.ix_(some, some)] @ inverse, rtol=0.01, atol=1e-6)
    assert law.allowance == pytest.approx(law.step() ** 2 / 2 * [1.0, 0.5, 1.0])


def test_events_are_those_of_the_release_and_not_of_its_prediction():
    """A level with one event among many records: its predicted curvature must not stand in for the released one."""
    assert kept(released=np.diag([400.0, 300.0, 200.0, 7.9])) == [0, 1, 2]
    assert kept(released=np.diag([400.0, 300.0, 200.0, 8.1])) == [0, 1, 2, 3]
    assert kept(released=np.diag([400.0, 300.0, -5.0, 100.0])) == [0, 1, 2, 3]  # a number has no events
