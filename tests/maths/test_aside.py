"""Each rule by which a column is set aside, on fits written down by hand."""

from dataclasses import replace

import numpy as np
import pytest

from dpinfer.maths.aside import Estimate, block, events, fitted, reportable
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import Columns
from handmade import SCALES, STRONG


def kept(fit=STRONG, **changes):
    return reportable(replace(fit, **changes)).tolist()


def noisy(**changes):
    return replace(SCALES, **changes)


def test_strong_columns_stay():
    assert kept() == [0, 1, 2, 3]


def test_too_little_information():
    assert kept(hessian=np.diag([400.0, 300.0, 2.9, 100.0])) == [0, 1, 3]
    weak = {"gradient": np.zeros(4), "scales": noisy(gradient=0.1), "score_cov": np.diag([400.0, 300.0, 3.1, 100.0])}
    assert kept(hessian=np.diag([400.0, 300.0, 3.1, 100.0]), **weak) == [0, 1, 2, 3]
    assert kept(scales=noisy(hessian=90.0)) == [0, 1]


def test_a_hessian_that_is_not_positive_definite():
    H = STRONG.hessian.copy()
    H[1, 2] = H[2, 1] = 260.0  # beyond sqrt(300 · 200)
    assert len(kept(hessian=H)) == 3


def level(curvature, push=0.0, **changes):
    """Records at one value of the last column with this curvature, and residuals that sum to ``push`` there."""
    at_high = np.array([0.2, 0.0, 0.0, 1.0])  # v·u = 1 for these records
    basis = np.eye(4)
    basis[:, 0], basis[:, 3] = basis[0] - at_high, at_high
    inverse = np.linalg.inv(basis)
    H = inverse.T @ np.diag([400.0, 300.0, 200.0, curvature]) @ inverse
    g = inverse.T @ np.array([5.0, -12.0, 6.0, push])
    return replace(STRONG, **{"hessian": H, "released": H, "gradient": g, **changes})


def test_the_number_of_events_is_curvature_less_gradient():
    """vᵀHv - |v·g| over its noise hypot(σ‖v‖, h‖v‖²), at the worse of the two values."""
    v = np.array([0.2, 0.0, 0.0, 1.0])
    noise = np.hypot(2.0 * np.linalg.norm(v), 1.0 * v @ v)
    found = events(level(60.0, push=25.0))
    assert found.doubt[3] == pytest.approx(noise / 35.0)
    assert found.doubt[:3].tolist() == [0, 0, 0]
    assert events(level(60.0, push=-25.0)).doubt[3] == pytest.approx(noise / 35.0)


@pytest.mark.parametrize(("curvature", "push", "enough"), [(9.0, 0.0, True), (7.9, 0.0, False), (60.0, 53.0, False)])
def test_a_level_with_few_events(curvature, push, enough):
    """Fewer than 8: also where the curvature is large, but the gradient takes nearly all of it back (separation)."""
    assert kept(level(curvature, push)) == ([0, 1, 2, 3] if enough else [0, 1, 2])


def test_events_must_be_clear_of_their_noise():
    assert kept(level(24.0, scales=noisy(gradient=9.0))) == [0, 1, 2, 3]
    assert kept(level(20.0, scales=noisy(gradient=9.0))) == [0, 1, 2]


@pytest.mark.parametrize(("intercept", "toward"), [(2.0, 1.0), (-2.0, -1.0)])
def test_the_direction_of_few_events(intercept, toward):
    """A level whose records are mostly 1 would have a larger coefficient with fewer 0s, and the reverse."""
    fit = level(30.0, coef=np.array([intercept, 1.0, 0.5, 0.3]))
    found = events(fit)
    assert found.toward[3] == toward
    q = 2 * found.doubt[3]
    assert found.allowance[3] == pytest.approx(-np.log(1 - q) - q)
    assert found.allowance[0] == 0
    assert np.isfinite(events(level(5.0)).allowance).all()


def test_information_of_a_yes_and_no_is_counted_in_events():
    wide = STRONG.ends.copy()
    wide[2] = [-1.1, 0.9]  # a yes and no on [-1, 1]: information counts a quarter
    assert kept(hessian=np.diag([400.0, 300.0, 31.0, 100.0]), ends=wide) == [0, 1, 3]
    assert kept(hessian=np.diag([400.0, 300.0, 33.0, 100.0]), ends=wide) == [0, 1, 2, 3]


def test_a_number_that_steps_too_far():
    """The quadratic around the estimate says nothing three units of the linear predictor away."""
    far = np.array([0.0, 0.0, 200.0 * 3.0 / 1.1, 0.0])
    for factor, expected in ((0.99, [0, 1, 2, 3]), (1.01, [0, 1, 3])):
        assert kept(gradient=factor * far, scales=noisy(hessian=1e-3)) == expected


def test_noise_of_the_hessian_may_cause_a_quarter_of_the_variance():
    """One column whose step is long: h²/2 times its square over the mean variance of the gradient."""
    long = {"gradient": np.array([0.0, 0.0, 200 * 2.0, 0.0])}
    variance, step = np.trace(STRONG.score_cov) / 4, 2.0
    limit = np.sqrt(0.25 * 2 * variance / (step**2 + np.trace(np.linalg.inv(STRONG.hessian))))
    for factor, expected in ((0.99, [0, 1, 2, 3]), (1.01, [0, 1, 3])):
        assert kept(**long, scales=noisy(gradient=0.1, hessian=factor * limit)) == expected


def test_a_block_in_other_coordinates():
    """Information is 1/(H_SS⁻¹)_jj; its noise is h times the squared length of the direction."""
    rng = np.random.default_rng(0)
    E, some = rng.standard_normal((4, 4)) + 3 * np.eye(4), np.array([0, 2, 3])
    found = block(replace(STRONG, back=E), some)
    H = (E.T @ STRONG.hessian @ E)[np.ix_(some, some)]
    direction = np.linalg.inv(H)[:, 1] / np.linalg.inv(H)[1, 1]
    assert found.information[1] == pytest.approx(direction @ H @ direction)
    assert found.signal[1] == pytest.approx(found.information[1] / ((E[:, some] @ direction) ** 2).sum())


def test_the_fit_of_a_release():
    """At the released centre: the intercept is the linear predictor there; nothing if H is all noise."""
    A, centre = np.diag([0.5, 0.25, 0.4]), np.array([1.0, 0.3, 0.2, 0.5])
    kept_columns, H = np.array([0, 1, 3]), np.diag([300.0, 200.0, 100.0])
    moments = np.array([[100.0, 30.0, 50.0], [30.0, 20.0, 10.0], [50.0, 10.0, 50.0]])
    shape = Shape(kept_columns, 100.0, moments, A, np.zeros(3))
    columns = Columns(np.array([False, False, False, True]), np.arange(4) - 1)
    found = Estimate(np.array([1.0, 2.0, -1.0]), H, 0.8 * H, np.array([2.0, 4.0, -2.0]))
    fit = fitted(found, shape, centre, columns, SCALES)
    plain = A.T @ found.coef
    assert fit.coef == pytest.approx([plain[0] + 0.3 * plain[1] + 0.5 * plain[2], plain[1], plain[2]])
    assert fit.back @ fit.coef == pytest.approx(found.coef)
    assert fit.gradient == pytest.approx(2.0 * found.coef)
    assert fit.ends[2].tolist() == [-0.5, 0.5]
    assert np.linalg.eigvalsh(fit.hessian).min() > 99
    assert fitted(replace(found, score_cov=H), shape, centre, columns, noisy(hessian=200.0)) is None


def test_the_mask_of_the_minimum_is_counted():
    """A point moved by η has its gradient moved by (H + λI)η."""
    masked = replace(STRONG, mask=0.3)
    K = STRONG.hessian + STRONG.scales.ridge * np.eye(len(STRONG))
    assert np.allclose(masked.total - STRONG.total, 0.09 * K @ K)
