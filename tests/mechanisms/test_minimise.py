import numpy as np
import pytest
from scipy import optimize

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.minimise import minimise, minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block, second_moment
from dpinfer.rows.encoded import Mapped, sample
from dpinfer.rows.source import Rows
from helpers.support import labelled, unit_rows


def objective(loss, X, y, penalty, b):
    n, d = X.shape
    risk = Risk.penalised(loss, penalty, n)

    def totals(coef):
        sums = risk.totals(coef)(Block(X, y))
        return (
            float(sums[0] + risk.ridge / 2 * coef @ coef + b @ coef),
            sums[1 : d + 1] + risk.ridge * coef + b,
            sums[d + 1 :].reshape(d, d) + risk.ridge * np.eye(d),
        )

    return totals


HARD = [
    (dp.Logistic(), 1e-3),
    (dp.Logistic(), 1e-8),
    (dp.HuberHinge(1.0), 1e-3),
    (dp.HuberHinge(1.0), 1e-6),
    (dp.HuberHinge(0.5), 1e-6),
    (dp.HuberHinge(0.01), 1e-3),
    (dp.HuberHinge(0.01), 1e-6),
    (dp.HuberHinge(1e-4), 1e-3),
]


@pytest.mark.parametrize("separated", [False, True])
@pytest.mark.parametrize("size", [0.0, 30.0])
@pytest.mark.parametrize(("loss", "penalty"), HARD)
def test_guarantee_certified_minimum(loss, penalty, size, separated):
    n, d = 2000, 8
    X = unit_rows(n, d, 3)
    rng = np.random.default_rng(4)
    y = np.sign(X @ np.ones(d) + (0 if separated else 0.3 * rng.standard_normal(n)))
    totals = objective(loss, X, y, penalty, size * rng.standard_normal(d))
    found = minimise(totals, np.zeros(d), tolerance=1e-9)
    assert found.gradient_norm <= 1e-9
    assert np.linalg.norm(totals(found.coef)[1]) == found.gradient_norm


@pytest.mark.parametrize("loss", [dp.Logistic(), dp.HuberHinge(0.5)])
def test_agrees_with_scipy(loss):
    X, y = labelled(400, 4)
    totals = objective(loss, X, y, 0.01, np.array([3.0, -1.0, 0.5, 2.0]))
    reference = optimize.minimize(
        lambda t: totals(t)[:2],
        np.zeros(4),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 1e-15},
    )
    assert np.allclose(minimise(totals, np.zeros(4), 1e-10).coef, reference.x, atol=1e-6)


def test_it_says_where_rounding_stopped_it():
    X, y = labelled(400, 4)
    found = minimise(objective(dp.Logistic(), X, y, 0.01, np.zeros(4)), np.zeros(4), tolerance=0.0)
    assert 0 < found.gradient_norm < 1e-11


def test_no_minimum_is_an_error_only_without_a_penalty():
    X = unit_rows(100, 2)
    y = np.sign(X[:, 0])
    with pytest.raises(dp.InputError, match="set penalty > 0"):
        dp.infer(X, y, loss=dp.Logistic(), penalty=0.0, budget=dp.NoPrivacy())
    assert np.isfinite(
        dp.infer(X, y, loss=dp.Logistic(), penalty=1e-9, budget=dp.NoPrivacy()).estimate
    ).all()


@pytest.mark.parametrize("knee", [1e-3, 0.05])
def test_a_start_without_any_curvature(knee):
    """All residuals lie beyond the knee at 0, and there is no penalty: the Hessian is 0 there."""
    rng = np.random.default_rng(0)
    X = unit_rows(500, 3)
    y = 0.8 * X[:, 2] + 0.1 * np.clip(rng.standard_normal(500), -2, 2)
    assert not dp.Huber(knee).curvature(y[np.abs(y) > 0.06]).any()
    X, y = X[np.abs(y) > 0.06], y[np.abs(y) > 0.06]
    result = dp.infer(X, y, loss=dp.Huber(knee), penalty=0.0, budget=dp.NoPrivacy())
    assert np.linalg.norm(X.T @ np.clip(y - X @ result.estimate, -knee, knee)) < 1e-9


def test_near_the_minimum_one_hessian_serves_for_several_steps():
    X, y = labelled(4000, 6)
    totals, seen = objective(dp.Logistic(), X, y, 1e-3, np.zeros(6)), {"all": 0, "gradient": 0}

    def every(coef):
        seen["all"] += 1
        return totals(coef)

    def gradient(coef):
        seen["gradient"] += 1
        return totals(coef)[1]

    plain = minimise(every, np.zeros(6), 1e-9)
    hessians, seen["all"] = seen["all"], 0
    found = minimise(every, np.zeros(6), 1e-9, gradient=gradient)
    assert found.gradient_norm <= 1e-9
    assert np.linalg.norm(totals(found.coef)[1]) == found.gradient_norm
    assert np.allclose(found.coef, plain.coef, atol=1e-9)
    assert seen["gradient"] > 0
    assert seen["all"] < hessians


@pytest.mark.parametrize("loss", [dp.HuberHinge(0.01), dp.Logistic()])
def test_steps_with_an_old_hessian_that_do_not_help_are_given_up(loss):
    """A loss with corners, and a gradient that is not the objective's: the end is certified by the
    objective itself.
    """
    X, y = labelled(2000, 4)
    totals = objective(loss, X, y, 1e-4, np.array([3.0, -1.0, 0.5, 2.0]))
    found = minimise(totals, np.zeros(4), 1e-8, gradient=lambda coef: totals(coef)[1] + 1.0)
    assert np.linalg.norm(totals(found.coef)[1]) <= 1e-8


@pytest.mark.parametrize("factor", [1.0, 0.0, -3.0, 1e3])
def test_a_search_ends_at_the_same_minimum_wherever_it_begins(factor):
    """A sample that is like the whole, one that says nothing, one that lies."""
    X, y = labelled(4000, 4)
    risk, b = Risk.penalised(dp.Logistic(), 1e-3, 4000), np.array([3.0, -1.0, 0.5, 2.0])
    total, some = Rows.of(X, y).total, Rows.of(X[::16], y[::16])
    plain = minimum(risk, total, b)
    found = minimum(risk, total, b, lambda of_block: 16 * factor * some.total(of_block))
    assert found.gradient_norm <= risk.tolerance
    assert np.linalg.norm(found.coef - plain.coef) <= 2 * risk.minimum_error(4)


def test_a_sample_is_taken_of_many_rows_in_memory_alone():
    X, y = labelled(200_000, 3)
    source = Rows.of(X, y)
    total = sample(source)
    of_block = second_moment(Adjacency.REPLACE).of_block
    assert np.allclose(total(of_block), source.total(of_block), rtol=0.05, atol=2000)
    assert sample(Rows.of(X[:20_000], y[:20_000])) is None
    assert sample(Mapped(source, np.eye(3), Adjacency.REPLACE)) is None
