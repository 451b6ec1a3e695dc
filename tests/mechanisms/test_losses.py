import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.mechanisms.losses import check_loss, slope_within
from helpers.support import Tripled, labelled, numeric

losses = st.one_of(
    st.just(dp.Logistic()),
    st.builds(dp.HuberHinge, st.floats(0.05, 5)),
    st.builds(dp.Huber, st.floats(0.05, 5)),
    st.builds(dp.SmoothedQuantile, st.floats(0.01, 0.99), st.floats(0.05, 5)),
)
margins = st.floats(-20, 20)


@given(losses, margins)
def test_slope_and_curvature_are_derivatives(loss, z):
    middle = 1 if isinstance(loss, dp.HuberHinge) else 0
    if hasattr(loss, "knee") and abs(abs(z - middle) - loss.knee) < 1e-3:
        return  # the curvature jumps at the two ends of the knee
    h = 1e-5
    left, right = np.array([z - h]), np.array([z + h])
    assert loss.slope(np.array([z]))[0] == pytest.approx(
        (loss.value(right) - loss.value(left))[0] / (2 * h), abs=1e-5
    )
    assert loss.curvature(np.array([z]))[0] == pytest.approx(
        (loss.slope(right) - loss.slope(left))[0] / (2 * h), abs=1e-4
    )


@given(losses, st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_bounds_hold(loss, z):
    z = np.array(z)
    assert np.all(np.abs(loss.slope(z)) <= loss.slope_bound)
    assert np.all(loss.curvature(z) >= 0)
    assert np.all(loss.curvature(z) <= loss.curvature_bound)
    assert np.isfinite(loss.value(z)).all()


@given(losses, st.floats(0, 50))
def test_slope_within_bounds_every_smaller_margin(loss, radius):
    z = np.linspace(-radius, radius, 101)
    assert np.abs(loss.slope(z)).max() <= slope_within(loss, radius) <= loss.slope_bound


def test_papers_constants():
    assert dp.Logistic().curvature_bound == 0.25
    assert slope_within(dp.Logistic(), 2.0) == pytest.approx(1 / (1 + np.exp(-2.0)), rel=1e-15)
    assert dp.HuberHinge(0.5).curvature_bound == 1.0
    assert slope_within(dp.HuberHinge(3.0), 0.1) == 1.0


def test_huber_hinge_pieces():
    loss, z = dp.HuberHinge(0.5), np.array([2.0, 1.5, 1.0, 0.5, -3.0])
    assert np.allclose(loss.value(z), [0, 0, 0.125, 0.5, 4])
    assert np.allclose(loss.slope(z), [0, 0, -0.5, -1, -1])


def test_residual_losses_have_the_stated_constants():
    huber, quantile = dp.Huber(0.3), dp.SmoothedQuantile(0.2, 0.1)
    assert (huber.slope_bound, huber.curvature_bound) == (0.3, 1.0)
    assert (quantile.slope_bound, quantile.curvature_bound) == (0.8, 2.5)
    assert huber.slope_within(0.1) == 0.1
    assert quantile.slope_within(1e9) == 0.8
    assert quantile.slope(np.array([1e9]))[0] == pytest.approx(0.2)
    z = np.array([-2.0, -0.3, 0.1, 0.3, 1.0])
    assert np.allclose(huber.value(z), [0.555, 0.045, 0.005, 0.045, 0.255])
    assert np.allclose(huber.slope(z), [-0.3, -0.3, 0.1, 0.3, 0.3])
    assert np.array_equal(huber.curvature(z), [0, 1, 1, 1, 0])
    assert dp.Huber(np.int64(2)).slope_bound == 2


@pytest.mark.parametrize(("tau", "bandwidth"), [(0.5, 0.2), (0.9, 0.05), (0.1, 1.0)])
def test_the_smoothed_quantile_is_a_convolution(tau, bandwidth):
    """The check loss, averaged over logistic noise, by the trapezoid rule."""
    loss, u = dp.SmoothedQuantile(tau, bandwidth), np.linspace(-40, 40, 400_001)
    density = 1 / (4 * np.cosh(u / 2) ** 2)
    for r in (-1.0, -0.03, 0.0, 0.2, 2.0):
        moved = r + bandwidth * u
        expected = np.trapezoid(np.where(moved >= 0, tau, tau - 1) * moved * density, u)
        assert loss.value(np.array([r]))[0] == pytest.approx(expected, rel=1e-7)
    curvature = loss.curvature(np.linspace(-3, 3, 100_001))
    steepest = np.abs(np.diff(curvature)).max() / 6e-5
    assert 0.99 * loss.curvature_lipschitz < steepest <= loss.curvature_lipschitz * (1 + 1e-6)


@pytest.mark.parametrize("loss", [dp.Huber(0.3), dp.SmoothedQuantile(0.2, 0.1)])
@pytest.mark.parametrize("factor", [0.02, 50.0])
def test_rescaled_is_the_same_loss_in_other_units(loss, factor):
    r = np.linspace(-2, 2, 41)
    assert np.allclose(
        loss.rescaled(factor).value(factor * r), factor**loss.degree * loss.value(r), rtol=1e-9
    )


class Probit:
    """A user's own loss, by the five names alone: log-cosh, flat to the right."""

    slope_bound = 1.0
    curvature_bound = 0.5

    def value(self, z):
        return (np.logaddexp(z, -z) - z) / 2

    def slope(self, z):
        return (np.tanh(z) - 1) / 2

    def curvature(self, z):
        return (1 - np.tanh(z) ** 2) / 2


def broken(**names):
    return type("Broken", (Probit,), names)()


def test_own_loss_works_everywhere():
    check_loss(Probit())
    X, y = labelled(500, 3)
    for budget in (dp.PureDP(2.0), dp.ZCDP(0.5), dp.NoPrivacy()):
        result = dp.infer(X, y, loss=Probit(), penalty=0.05, budget=budget)
        assert np.isfinite(result.conf_int()).all()


@pytest.mark.parametrize(
    ("loss", "fault"),
    [
        (broken(slope_bound=0.9), "slope exceeds"),
        (broken(curvature_bound=0.49), "curvature exceeds"),
        (broken(curvature=lambda self, z: np.full_like(z, 0.1)), "not the derivative of slope"),
        (broken(slope=lambda self, z: (np.tanh(z) - 1) / 4), "not the derivative of value"),
        (broken(slope=lambda self, z: np.tanh(-z) / 2), "not convex"),
        (broken(value=lambda self, z: z * np.nan), "not finite"),
        (broken(slope_bound=float("inf")), "positive and finite"),
        (broken(curvature_bound=-1.0), "positive and finite"),
        (object(), "is not a loss"),
    ],
)
def test_guarantee_false_bounds_are_refused(loss, fault):
    X, y = labelled(20, 2)
    with pytest.raises(dp.InputError, match=fault):
        dp.infer(X, y, loss=loss, penalty=0.1, budget=dp.PureDP(1.0))


def test_a_sharp_corner_is_found():
    """A kink far steeper than declared, hidden between the points of a coarse grid."""
    hinge = dp.HuberHinge(1e-4)

    class Sharp:
        slope_bound, curvature_bound = 1.0, 10.0

        def value(self, z):
            return hinge.value(z + 0.0037)

        def slope(self, z):
            return hinge.slope(z + 0.0037)

        def curvature(self, z):
            return np.minimum(hinge.curvature(z + 0.0037), 10.0)

    with pytest.raises(dp.InputError, match="curvature exceeds"):
        check_loss(Sharp())


class Far(Probit):
    """Within its bounds up to z = -1000, beyond them farther out."""

    def slope(self, z):
        return super().slope(z) - np.maximum(-z - 1000, 0) * 1e-3


class Jump(Probit):
    """A slope with a jump so small that it hides among the rises of the others."""

    def slope(self, z):
        return super().slope(z) + 1e-4 * (z > 5.0003)


@pytest.mark.parametrize("loss", [Far(), Jump()])
def test_faults_far_out_and_small_ones_are_found(loss):
    with pytest.raises(dp.InputError, match="refused"):
        check_loss(loss)


def test_a_plain_hinge_is_no_smooth_loss():
    hinge = dp.HuberHinge(1e-9)

    class Plain:
        slope_bound, curvature_bound = 1.0, 1e5
        value, slope = hinge.value, hinge.slope

        def curvature(self, z):
            return 0 * z

    with pytest.raises(dp.InputError, match="refused"):
        check_loss(Plain())


@pytest.mark.parametrize("knee", [0.01, 0.3, 1.0, 4.0])
def test_honest_losses_pass(knee):
    hinge = dp.HuberHinge(knee)
    check_loss(Tripled(hinge))
    check_loss(Tripled(dp.Logistic()))


@pytest.mark.parametrize("size", [0.01, 0.3, 4.0])
def test_the_generic_check_accepts_the_residual_losses(size):
    """They are trusted as built-in; tripled they are not, and pass."""
    for loss in (dp.Huber(size), dp.SmoothedQuantile(0.5, size), dp.SmoothedQuantile(0.1, size)):
        check_loss(loss)
        check_loss(Tripled(loss))
        false = Tripled(loss)
        false.curvature_bound *= 0.9
        with pytest.raises(dp.InputError, match="curvature exceeds"):
            check_loss(false)


class LogCosh:
    """A user's loss of the residual."""

    of = "residual"
    slope_bound, curvature_bound = 1.0, 1.0

    def value(self, z):
        return np.logaddexp(z, -z) - np.log(2)

    def slope(self, z):
        return np.tanh(z)

    def curvature(self, z):
        return 1 - np.tanh(z) ** 2


def test_own_residual_loss_works():
    X, y = numeric(500, 3)
    result = dp.infer(X, y, loss=LogCosh(), penalty=1e-6, budget=dp.NoPrivacy())
    assert np.allclose(
        X.T @ np.tanh(y - X @ result.estimate), 2 * 500 * 1e-6 * result.estimate, atol=1e-9
    )
    assert "the loss LogCosh()" in result.model.estimand()
    assert "minimises E[f(y - θ·x)]" in result.model.estimand()
    for budget in (dp.PureDP(2.0), dp.ZCDP(0.5)):
        assert np.isfinite(
            dp.infer(X, y, loss=LogCosh(), penalty=0.05, budget=budget).conf_int()
        ).all()


def test_a_loss_of_something_else_is_refused():
    X, y = numeric(20, 2)
    loss = LogCosh()
    loss.of = "ratio"
    with pytest.raises(dp.InputError, match="of must be 'margin' or 'residual'"):
        dp.infer(X, y, loss=loss, penalty=0.1, budget=dp.PureDP(1.0))


def test_declared_slope_within_is_checked():
    loss = broken(slope_within=lambda self, radius: 0.1)
    with pytest.raises(dp.InputError, match="slope_within"):
        slope_within(loss, 1.0)


@pytest.mark.parametrize("knee", [0.0, -1.0, float("nan"), float("inf"), "wide"])
def test_bad_parameters(knee):
    for build in (dp.HuberHinge, dp.Huber):
        with pytest.raises(dp.InputError, match="knee"):
            build(knee)
    with pytest.raises(dp.InputError, match="bandwidth"):
        dp.SmoothedQuantile(0.5, knee)
    with pytest.raises(dp.InputError, match="tau"):
        dp.SmoothedQuantile(knee, 0.1)
