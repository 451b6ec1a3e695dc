"""Sensitivities of the two releases of moments by adversarial search, for both notions: attained,
not exceeded.
"""

from functools import partial

import numpy as np
import pytest
from scipy import optimize

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms import sums as maths_sums
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block, moment_and_score, row_weights, second_moment
from dpinfer.privacy.release import NoisySum
from dpinfer.rows.source import Rows
from helpers.support import gate_of

NOTIONS = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
DIM = 3


def worst_change(bounded, neighbours, ball=False, polish=2):
    """Largest change of a sum between neighbours, by random starts and local search of the best of
    them.

    Rows may lie anywhere, or with ``ball`` in the unit ball.
    """
    rng = np.random.default_rng(0)

    def value(row, label):
        row = row / max(1, np.linalg.norm(row)) if ball else row
        return bounded.of_block(
            Block(row[None], np.array([label])).mapped(np.eye(DIM), Adjacency.REPLACE)
        )

    def change(flat, labels):
        first = value(flat[:DIM], labels[0])
        second = value(flat[DIM:], labels[1]) if neighbours == "replace" else 0 * first
        return float(np.linalg.norm(first - second))

    best = 0.0
    for labels in ((1.0, 1.0), (1.0, -1.0)):
        points = rng.standard_normal((300, 2 * DIM)) * 10 ** rng.uniform(-1, 1.5, (300, 1))
        points = sorted(points, key=partial(change, labels=labels))
        best = max(best, change(points[-1], labels))
        for point in points[-polish:] if polish else ():
            least = partial(lambda flat, labels: -change(flat, labels), labels=labels)
            best = max(
                best,
                -optimize.minimize(
                    least, point, method="Nelder-Mead", options={"maxiter": 500}
                ).fun,
            )
    return best


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_moment_sensitivity(neighbours):
    bounded = second_moment(neighbours)
    assert bounded.bound == {"replace": np.sqrt(2), "add-remove": 1.0}[neighbours]
    worst = worst_change(bounded, neighbours, ball=True)
    assert 0.99 * bounded.bound < worst <= bounded.bound * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_moment_and_score_sensitivity(neighbours):
    bounded = moment_and_score(neighbours)
    assert bounded.bound == pytest.approx(
        {"replace": 1.590990, "add-remove": 1.118034}[neighbours], abs=1e-6
    )
    worst = worst_change(bounded, neighbours)
    assert 0.99 * bounded.bound < worst <= bounded.bound * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_mutations_are_caught(neighbours, monkeypatch):
    """A halved bound, no weight at all, or a weight without the square: all are exceeded."""
    bounded = moment_and_score(neighbours)
    assert worst_change(bounded, neighbours, polish=0) > bounded.bound / 2
    for mutant in (
        lambda u: np.ones(len(u)),
        lambda u: 1 / np.maximum(1, np.linalg.norm(u, axis=1)),
    ):
        monkeypatch.setattr(maths_sums, "row_weights", mutant)
        assert worst_change(bounded, neighbours, polish=0) > 2 * bounded.bound


def test_nobody_counts_beyond_the_weight_rule():
    u = np.random.default_rng(0).standard_normal((1000, 4)) * np.geomspace(1e-3, 1e6, 1000)[:, None]
    w, size = row_weights(u), np.linalg.norm(u, axis=1)
    assert (w * size**2 <= 1 + 1e-12).all()
    assert (w * size <= 1 + 1e-12).all()
    assert np.array_equal(w == 1, size <= 1)


def test_a_minimum_is_no_sum():
    risk, source = Risk(dp.Logistic(), 5.0, 10), Rows(Block(np.eye(DIM), np.ones(DIM)))
    for share in (dp.PureDP(1.0), dp.ZCDP(1.0)):
        release = NoisySum("estimate", share, 1.0)
        with pytest.raises(dp.PrivacyError, match="not its release"):
            gate_of(0, release).release(release, source, risk)
