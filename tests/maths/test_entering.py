"""Columns, geometry and centre of a fit."""

import numpy as np
import pytest
from scipy.special import expit

from dpinfer.maths.capped import CappedLogistic
from dpinfer.maths.entering import entering, expected_curvature, logistic_shape
from dpinfer.maths.losses import Logistic, slope_and_curvature
from dpinfer.maths.moments import Columns, Scales, preconditioner
from dpinfer.maths.posterior import Moments


@pytest.mark.parametrize("loss", [Logistic(), CappedLogistic()], ids=["logistic", "capped"])
def test_expected_curvature_against_draws(loss):
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(400_000), rng.multivariate_normal([0.2, -0.5], [[0.3, 0.1], [0.1, 0.2]], 400_000)])
    coef = np.array([-0.7, 2.0, -1.0])
    y = np.where(rng.random(len(x)) < expit(x @ coef), 1.0, -1.0)
    bend = slope_and_curvature(loss, y * (x @ coef))[1]
    exact = (x * bend[:, None]).T @ x
    assert np.allclose(expected_curvature(x.T @ x, coef, loss), exact, rtol=0.03, atol=0.002 * len(x))


def data(n=20_000, extra=None):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(n), np.clip(rng.standard_normal((n, 2)) / 4, -1, 1)])
    return x if extra is None else np.column_stack([x, extra(x, rng)])


def kept(x, noise=5.0):
    columns, n = Columns(np.zeros(x.shape[1], dtype=bool), np.arange(x.shape[1]) - 1), len(x)
    M = x.T @ x
    geometry = lambda c: preconditioner(M[np.ix_(c, c)], columns.take(c), n, 4.0)  # noqa: E731
    curvature = lambda c: 0.2 * M[np.ix_(c, c)]  # noqa: E731
    return entering(np.arange(x.shape[1]), geometry, curvature, n, noise).tolist()


def test_a_column_without_information_does_not_enter():
    assert kept(data()) == [0, 1, 2]
    assert kept(data(extra=lambda x, rng: np.full(len(x), 0.3))) == [0, 1, 2]
    assert kept(data(extra=lambda x, rng: x[:, 1] + rng.standard_normal(len(x)) / 5)) == [0, 1, 2, 3]
    assert kept(data(), noise=2000.0) in ([0, 1], [0, 2])  # two columns are always tried


SCALES = Scales(crude=27.0, moments=23.0, ridge=10.4, gradient=10.4, hessian=4.9, score_cov=22.0)


@pytest.mark.parametrize("weighted", [True, False])
def test_the_shape_of_a_fit(weighted):
    """An absent column is not considered; the centre is near the coefficients, seen through A."""
    x = data(extra=lambda x, rng: np.clip(rng.standard_normal(len(x)) / 4, -1, 1))
    coef = np.array([-0.5, 2.0, -1.0, 1.0])
    y = np.where(np.random.default_rng(5).random(len(x)) < expit(x @ coef), 1.0, -1.0)
    columns = Columns(np.zeros(4, dtype=bool), np.arange(4) - 1)
    presence = np.array([np.inf, 9.0, 1.9, 9.0])
    known = Moments(x.T @ x, x.T @ y / 2, float(len(x)), 20.0, presence, two_classes=True)
    shape = logistic_shape(known, columns, SCALES, CappedLogistic(), weighted=weighted)
    assert shape.kept.tolist() == [0, 1, 3]
    assert shape.preconditioner.T @ shape.centre == pytest.approx([-0.5, 2.0, 1.0], abs=0.45)
    assert np.allclose(shape.preconditioner, np.eye(3) / np.sqrt(3)) == (not weighted)
