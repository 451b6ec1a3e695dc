"""Steps towards a logistic fit: exact where x is Gaussian and nothing is noisy, careful where it
is.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from dpinfer.inference.moments import Columns, preconditioner
from dpinfer.inference.newton import (
    LocalModel,
    MeanInformation,
    expected_hessian,
    logistic_pilot,
    normal_nodes,
    poisson_pilot,
)
from dpinfer.inference.tails import CountSizes
from dpinfer.numerics.links import LOG
from helpers.handmade import columns_of

N = 200_000
KAPPA = 8.0
COLUMNS = columns_of([False, False])


def gaussian(coef, seed=3):
    """Gaussian rows with labels of a logistic model; the coefficients decide how much is curved."""
    rng = np.random.default_rng(seed)
    x = np.column_stack(
        [np.ones(N), rng.multivariate_normal([0.2, -0.1], [[0.3, 0.1], [0.1, 0.2]], N)]
    )
    y = (rng.random(N) < expit(x @ coef)).astype(float)
    return x, y


def curvature(x, coef):
    p = expit(x @ coef)
    return (x * (p * (1 - p))[:, None]).T @ x


def test_the_nodes_are_those_of_a_normal_number():
    nodes, weights = normal_nodes()
    for power, moment in ((0, 1.0), (1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0)):
        assert weights @ nodes**power == pytest.approx(moment, abs=1e-9)


@pytest.mark.parametrize("coef", [[-0.7, 2.0, -1.0], [0.3, 0.0, 0.0], [1.5, -4.0, 3.0]])
def test_the_information_is_that_of_gaussian_rows(coef):
    """Stein's identity is exact: what is left is sampling, 1 in 450 of the total."""
    x, _ = gaussian(np.array(coef))
    exact = curvature(x, coef)
    found = expected_hessian(x.T @ x, np.array(coef))
    size = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    assert np.abs(found - exact).max() < 0.02 * size.max()
    assert (np.abs(found - exact) < 0.04 * size).all()


@pytest.mark.parametrize("coef", [[-0.7, 2.0, -1.0], [-2.0, 1.0, 0.0], [0.0, -5.0, 4.0]])
def test_a_first_line_without_noise_is_near_the_truth(coef):
    """Direction by least squares, length by two scalar equations: both are right where x is
    Gaussian.
    """
    x, y = gaussian(np.array(coef))
    line = logistic_pilot(x.T @ x, x.T @ (y - 0.5), float(N), COLUMNS, np.zeros((3, 3)), KAPPA)
    assert line == pytest.approx(coef, abs=0.06 + 0.03 * np.abs(coef).max())


def test_a_first_line_with_noise_is_short():
    """With a score that is all noise nothing is believed of the slopes; the level is that of the
    outcomes.
    """
    x, y = gaussian(np.array([-0.7, 2.0, -1.0]))
    line = logistic_pilot(x.T @ x, x.T @ (y - 0.5), float(N), COLUMNS, 1e7 * np.eye(3), KAPPA)
    assert np.abs(line[1:]).max() < 0.05
    assert expit(line[0]) == pytest.approx(y.mean(), abs=0.01)


def test_a_first_line_has_a_largest_spread():
    """Separated data have no longest line: its predictor has a deviation of 4 at most."""
    x, _ = gaussian(np.zeros(3))
    y = (x[:, 1] > 0.2).astype(float)
    M = x.T @ x
    line = logistic_pilot(M, x.T @ (y - 0.5), float(N), COLUMNS, np.zeros((3, 3)), KAPPA)
    assert np.isfinite(line).all()
    assert (x @ line).std() < 4.05
    one_class = logistic_pilot(M, x.T @ np.full(N, 0.5), float(N), COLUMNS, np.zeros((3, 3)), KAPPA)
    assert np.isfinite(one_class).all()


def test_usual_records_are_those_of_gaussian_rows():
    coef = np.array([-0.7, 2.0, -1.0])
    x, _ = gaussian(coef)
    p = expit(x @ coef)
    h = p * (1 - p)
    usual = MeanInformation.at(x.T @ x, coef)
    assert usual.mean_slope == pytest.approx(h.mean(), rel=0.01)
    assert usual.max_residual2 == pytest.approx(
        (h * np.maximum(p, 1 - p) ** 2).mean() / h.mean(), rel=0.01
    )


def local_model(coef, line):
    """A local_model with its exact releases in u; Gaussian rows."""
    x, y = gaussian(np.array(coef))
    M = x.T @ x
    A = preconditioner(M, COLUMNS, float(N), 10.0)
    H = A @ curvature(x, line) @ A.T
    g = A @ x.T @ (y - expit(x @ line))
    return LocalModel(M, np.array(line), A), H, g, x


def test_a_best_step_without_noise_is_the_way():
    """H half way is the secant of the score, so that the step ends near the coefficients; Newton's
    would overshoot.
    """
    coef = np.array([-0.5, 1.5, -1.0])
    start = np.array([-0.3, 0.9, -0.4])
    place, H, g, _ = local_model(coef, start)
    step = place.matrix.T @ place.best_step(H, g, 0.0)
    assert start + step == pytest.approx(coef, abs=0.05)


def test_a_best_step_solves_a_small_score_exactly():
    """Close by, the risk is quadratic; sampling is all that a step is shortened for, and it counts
    little with many.
    """
    coef = np.array([-0.5, 1.5, -1.0])
    place, H, _, _ = local_model(coef, coef)
    many = 1e6 * H
    way = np.linalg.solve(place.matrix.T, [0.0, 0.001, -0.001])
    step = place.best_step(many, many @ way, 0.0)
    assert np.linalg.norm(step - way) < 0.002 * np.linalg.norm(way)


def test_noise_is_no_signal():
    """A score that noise may explain gives no step, and a clear one gives one."""
    coef = np.array([-0.5, 6.0, -5.0])
    place, H, g, _ = local_model(coef, np.zeros(3))
    assert place.length(H, place.best_step(H, g, 0.0)) > 0.5
    assert not place.best_step(H, g, 1e12).any()
    assert not place.best_step(H, np.zeros(3), 0.0).any()


def test_the_curvature_after_a_step_is_the_one_there():
    """Also where H is not that of Gaussian rows: it is changed as theirs is."""
    coef = np.array([-0.5, 1.5, -1.0])
    place, H, _, x = local_model(coef, coef)
    way = np.array([0.4, 0.8, 0.3])
    step = np.linalg.solve(place.matrix.T, way)
    there = place.matrix @ curvature(x, coef + way) @ place.matrix.T
    assert place.hessian_after(H, step) == pytest.approx(
        there, rel=0.05, abs=0.02 * np.abs(there).max()
    )
    assert place.hessian_after(H, np.zeros(3)) == pytest.approx(H)
    assert place.hessian_after(3 * H, step) == pytest.approx(3 * place.hessian_after(H, step))


def test_the_length_of_a_step_is_the_weighted_deviation_of_the_predictor():
    coef = np.array([-0.5, 1.5, -1.0])
    place, H, _, x = local_model(coef, coef)
    way = np.array([0.1, 0.5, -0.2])
    p = expit(x @ coef)
    h = p * (1 - p)
    known = np.sqrt((h * (x @ way) ** 2).sum() / h.sum())
    assert place.length(H, np.linalg.solve(place.matrix.T, way)) == pytest.approx(known)


def test_the_clip_of_a_remainder_is_the_smallest_of_three_bounds():
    """At three root mean squares Z."""
    coef = np.array([-0.5, 1.5, -1.0])
    place, H, _, x = local_model(coef, coef)
    step = np.linalg.solve(place.matrix.T, [0.1, 0.5, -0.2])
    Z = 3 * place.length(H, step)
    p = expit(x @ coef)
    mean_slope = (p * (1 - p)).mean()
    left = np.exp(Z) - 1 - Z
    bounds = (np.linalg.norm(step) / Z * left, np.sqrt(mean_slope) * left)
    assert bounds[1] < bounds[0]
    assert place.remainder_clip(H, step, 1e9) == pytest.approx(bounds[1])
    loose = replace(place, matrix=place.matrix / 3)  # rows of a ninth of the leverage
    short = np.linalg.solve(loose.matrix.T, [0.1, 0.5, -0.2])
    assert loose.remainder_clip(H / 9, short, 1e9) == pytest.approx(bounds[1])
    assert place.remainder_clip(H, step, 0.01) == pytest.approx(0.01 * Z**2 / (6 * np.sqrt(3)))
    assert (
        place.remainder_clip(H, np.zeros(3), 1.0) == 1e-6
    )  # no step leaves nothing, and a clip is above 0


def test_what_records_add_to_a_rest_is_mostly_below_the_clip():
    """The clip holds for nearly all records."""
    coef = np.array([-0.5, 1.5, -1.0])
    place, H, _, x = local_model(coef, coef)
    way = np.array([0.1, 0.5, -0.2])
    step = np.linalg.solve(place.matrix.T, way)
    eta, z = x @ coef, x @ way
    left = expit(eta + z) - expit(eta) - expit(eta) * expit(-eta) * z
    added = np.linalg.norm(x @ place.matrix.T, axis=1) * np.abs(left)
    most = (np.linalg.norm(x @ place.matrix.T, axis=1) * expit(np.abs(eta))).max()
    assert np.mean(added > place.remainder_clip(H, step, most)) < 0.01


@pytest.mark.parametrize("coef", [[-0.7, 0.8, -1.0], [0.3, 0.0, 0.0], [1.5, -1.0, 0.5]])
def test_the_information_of_counts_is_that_of_gaussian_rows(coef):
    x, _ = gaussian([0.0, 0.0, 0.0])
    line = np.array(coef)
    exact = (x * np.exp(x @ line)[:, None]).T @ x
    found = expected_hessian(x.T @ x, line, LOG)
    assert np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


@pytest.mark.parametrize("slopes", [[0.8, -0.5], [0.0, 0.0], [-0.4, 0.9]])
@pytest.mark.parametrize("cap", [0.02, 0.5])
def test_a_first_line_of_counts_is_exact_for_gaussian_rows(slopes, cap):
    """Without noise, and up to what a law of outcomes over their mean leaves open where they are
    capped; noise draws it towards one level for all.
    """
    rng = np.random.default_rng(3)
    x, _ = gaussian([0.0, 0.0, 0.0])
    line = np.array([-5.0, *slopes])
    y = np.minimum(np.exp(x @ line) * rng.exponential(1, N), 1.0)
    capped = np.minimum(y, cap)
    below = np.where(y < cap, y, 0.0).mean()
    sizes = CountSizes(cap, capped.mean(), y.mean(), below / capped.mean(), y.max(), None)
    score = ((capped - cap / 2) / cap) @ x
    moments = x.T @ x
    found = poisson_pilot(moments, score, np.zeros((3, 3)), N, COLUMNS, sizes, KAPPA)
    assert found == pytest.approx(line, abs=0.1)
    noisy = poisson_pilot(moments, score, 1e6 * np.eye(3), N, COLUMNS, sizes, KAPPA)
    assert np.abs(noisy[1:]).max() < 0.02
    assert noisy[0] == pytest.approx(np.log(y.mean()), abs=0.05)


def test_a_first_line_of_counts_is_a_line_whatever_the_noise_says():
    """It is finite."""
    rng = np.random.default_rng(0)
    x, _ = gaussian([0.0, 0.0, 0.0])
    moments = x.T @ x
    for _ in range(100):
        cap = 10 ** rng.uniform(-6, 0)
        mean = cap * 10 ** rng.uniform(-3, 0)
        sizes = CountSizes(cap, mean, min(2 * mean, 1.0), rng.uniform(1e-6, 1), 1.0, None)
        score = rng.standard_normal(3) * 10 ** rng.uniform(0, 8)
        noise = np.eye(3) * 10 ** rng.uniform(0, 6)
        found = poisson_pilot(moments, score, noise, N, COLUMNS, sizes, KAPPA)
        assert np.isfinite(found).all()


def test_a_first_line_is_not_drawn_far_beyond_a_rare_level_with_many_counts():
    """Twelve times the rate of the others: mapped as a number would be, it is three times that far
    out; by the ratio of means alone it would be exact here, where nothing is beyond the cap.
    """
    rng = np.random.default_rng(6)
    n = 50_000
    level = (rng.random(n) < 0.02).astype(float)
    x = np.column_stack([np.ones(n), rng.normal(size=n) / 3, level])
    columns = Columns(np.array([False, False, True]), np.array([-1, 1, 2]))
    effect = np.log(12.0)
    y = rng.poisson(np.exp(-0.5 + effect * level)) / 100
    sizes = CountSizes(1.0, y.mean(), y.mean(), 1.0, 1.0, None)
    moments = x.T @ x
    found = poisson_pilot(moments, (y - 0.5) @ x, np.zeros((3, 3)), n, columns, sizes, KAPPA)
    rate = y.mean()
    as_a_number = (y[level == 1].mean() - y[level == 0].mean()) / rate
    assert as_a_number > 3 * effect
    assert effect < found[2] < 0.6 * as_a_number


def test_logarithms_of_levels_are_finite_whatever_the_noise_says():
    """Of means below 0, or of a reference without any, too."""
    rng = np.random.default_rng(7)
    columns = Columns(np.array([False, False, True, True]), np.array([-1, 1, 2, 2]))
    for _ in range(200):
        x = np.column_stack(
            [np.ones(500), rng.normal(size=500) / 3, np.eye(3)[rng.integers(3, size=500)][:, :2]]
        )
        cap = 10 ** rng.uniform(-6, 0)
        mean = cap * 10 ** rng.uniform(-3, 0)
        sizes = CountSizes(cap, mean, min(2 * mean, 1.0), rng.uniform(1e-6, 1), 1.0, None)
        score = rng.standard_normal(4) * 10 ** rng.uniform(0, 8)
        found = poisson_pilot(
            x.T @ x, score, np.eye(4) * 10 ** rng.uniform(0, 6), 500, columns, sizes, KAPPA
        )
        assert np.isfinite(found).all()


@pytest.mark.parametrize(("share", "effect"), [(0.02, 1.8), (0.1, -1.5), (0.5, 1.5)])
def test_a_step_towards_a_strong_effect_of_a_level_ends_there(share, effect):
    """Its curvature follows its own rate: that of Gaussian rows would pass a rare level by, or stop
    short of it.
    """
    rng = np.random.default_rng(5)
    n = 50_000
    level = (rng.random(n) < share).astype(float)
    x = np.column_stack([np.ones(n), rng.normal(size=n) / 3, level])
    columns = Columns(np.array([False, False, True]), np.array([-1, 0, 1]))
    coef = np.array([0.3, 0.6, effect])
    start = np.array([0.3 + 0.5 * share * effect, 0.5, 0.0])
    y = np.exp(x @ coef)
    mean = np.exp(x @ start)
    M = x.T @ x
    A = preconditioner(M, columns, float(n), 3.0)
    H = A @ ((x * mean[:, None]).T @ x) @ A.T
    g = A @ x.T @ (y - mean)
    aware = LocalModel(M, start, A, LOG, dispersion=1e-3, min_information=1e-9, columns=columns)
    found = start + A.T @ aware.best_step(H, g, 0.0)
    assert found == pytest.approx(coef, abs=0.25)
    gaussian_rows = replace(aware, columns=None)
    other = start + A.T @ gaussian_rows.best_step(H, g, 0.0)
    assert abs(other[2] - effect) > 2 * abs(found[2] - effect)
