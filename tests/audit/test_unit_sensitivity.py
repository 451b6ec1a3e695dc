"""Sensitivities of every sum over units of several rows, by adversarial search: attained, never
exceeded.
"""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.losses import slope_and_curvature
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_sum, step_sums
from dpinfer.mechanisms.sums import Block, moment_and_score, second_moment
from dpinfer.numerics.bins import count_edges, inner_edges
from dpinfer.numerics.links import IDENTITY, LOG, LOGIT
from helpers.support import clipped_sums, influences_at

NOTIONS = (Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT)
DIM = 2
LINE = np.array([0.3, -0.7])
COEF = 5 * np.array([0.6, -0.8])
LOSSES = {
    "logistic": dp.Logistic(), "hinge": dp.HuberHinge(0.5),
    "huber": dp.Huber(0.3), "quantile": dp.SmoothedQuantile(0.3, 0.2),
}  # fmt: skip


def by_rows(shares):
    return shares


class Search:
    """Units as flat numbers: for each of ``size`` rows a row, an outcome and the logarithm of a
    weight.
    """

    def __init__(self, bounded, notion, size, *, ball=False, sign=True, shares=by_rows):
        self.bounded, self.notion, self.size = bounded, notion, size
        self.ball, self.sign, self.shares = ball, sign, shares

    def added(self, flat):
        """What the sum gets of one unit."""
        cells = flat.reshape(self.size, DIM + 2)
        rows, outcomes = cells[:, :DIM], np.tanh(cells[:, DIM])
        labels = np.where(outcomes > 0, 1.0, -1.0) if self.sign else outcomes
        shares = self.shares(expit(cells[:, -1]) / max(1.0, expit(cells[:, -1]).sum()))
        if self.ball:
            rows = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
            return self.bounded.of_block(Block(rows, labels, shares, shares, np.zeros(1, np.intp)))
        block = Block(rows, labels, shares, shares, np.zeros(1, np.intp))
        return self.bounded.of_block(block.mapped(np.eye(DIM), self.notion))

    def change(self, pair):
        first, second = np.split(pair, 2)
        return float(
            np.linalg.norm(self.added(first) - (self.added(second) if self.notion.counted else 0.0))
        )

    def worst(self, seed=0, starts=200, climbs=200):
        """By random units, those of one direction and mirror images among them; all pairs of the
        largest; a climb.
        """
        rng, drawn = np.random.default_rng(seed), []
        for _ in range(starts):
            unit = rng.standard_normal((self.size, DIM + 2)) * 10 ** rng.uniform(-1, 1)
            if rng.random() < 0.6:
                unit[:, :-1] = unit[0, :-1] + rng.choice([0.0, 0.1]) * unit[:, :-1]
            unit[:, -1] = 3.0 if rng.random() < 0.7 else rng.standard_normal()
            drawn += [unit.ravel(), (unit * np.r_[np.ones(DIM), -1, 1]).ravel()]
        drawn = sorted(drawn, key=lambda unit: -np.linalg.norm(self.added(unit)))[:40]
        added = [self.added(unit) for unit in drawn]
        pairs = [(i, j) for i in range(len(drawn)) for j in range(len(drawn))]
        i, j = max(pairs, key=lambda pair: np.linalg.norm(added[pair[0]] - added[pair[1]]))
        pair = np.concatenate([drawn[i if self.notion.counted else 0], drawn[j]])
        best = self.change(pair)
        for step in np.geomspace(1, 1e-3, climbs):
            noise = rng.standard_normal((2, len(pair)))
            ahead = pair * np.exp(step * 0.5 * noise[0]) + 0.1 * step * noise[1]
            value = self.change(ahead)
            best, pair = (value, ahead) if value > best else (best, pair)
        return best


def at(family):
    """A released line whose rows are far out in its geometry."""
    everywhere = np.ones(DIM)
    matrix = np.array([[9.0, -4.0], [3.0, 8.0]])
    return Linearization(
        family, matrix, LINE, 1.5 if family is LOGIT else np.inf, -everywhere, everywhere
    )


def sums_of(notion):
    """Name -> sum, whether rows lie in the ball, whether outcomes are labels, and how near a search
    must come.

    One matrix alone has the bound of the triangle inequality, of which at most sqrt 1/2 can be
    reached.
    """
    line = {
        "moments": (second_moment(notion), True, True, 0.97),
        "moments and score": (moment_and_score(notion), False, True, 0.97),
        "histogram": (histogram(inner_edges(-0.4, 0.9), notion), False, False, 0.97),
        "influence": (influences_at(LINE, 2.0, notion), False, False, 0.97),
        "squares": (clipped_sums(LINE, 0.05, Stack.of(notion)), False, False, 0.97),
        "robust": (clipped_sums(LINE, 0.05, Stack.of(notion), robust=True), False, False, 0.8),
    }
    stack = Stack(1.0, 0.25, notion) if notion.counted else Stack(0.5, 0.1, notion)
    line["step, logit"] = step_sums(at(LOGIT), 0.05, stack, 1.0), True, True, 0.85
    line["step, identity"] = step_sums(at(IDENTITY), 0.05, Stack.of(notion), 1.0), True, False, 0.85
    line["step, log"] = step_sums(at(LOG), 0.05, Stack.of(notion), 1.0), True, False, 0.85
    line["rest"] = remainder_sum(at(LOGIT), 3 * LINE, 1e-3, 1.0, notion), True, True, 0.9
    line["rest, log"] = remainder_sum(at(LOG), 3 * LINE, 1e-3, 1.0, notion), True, False, 0.9
    line["sizes of counts"] = histogram(count_edges(), notion), False, False, 0.97
    for name, loss in LOSSES.items():
        inside = Risk.penalised(loss, 0.05, 100, notion)
        labels = name in ("logistic", "hinge")
        line[f"stack in the ball, {name}"] = inside.stacked_sum(COEF), True, labels, 0.75
        if notion.counted:
            line[f"curvature, {name}"] = inside.curvature_sum(COEF), True, labels, 0.42
            line[f"score, {name}"] = inside.score_sum(COEF), True, labels, 0.6
    return line


CASES = [(notion, name) for notion in NOTIONS for name in sums_of(notion)]


@pytest.mark.parametrize(("notion", "name"), CASES, ids=str)
def test_guarantee_unit_sum_sensitivity(notion, name):
    """Units of 1 to 4 rows never exceed the bound of a row, which single rows attain."""
    bounded, ball, labels, near = sums_of(notion)[name]
    search = partial(Search, bounded, notion, ball=ball, sign=labels)
    single = search(1).worst()
    several = [search(size).worst(seed) for seed, size in enumerate((2, 4))]
    assert max(single, *several) <= bounded.bound * (1 + 1e-9)
    assert max(single, *several) > near * bounded.bound


@pytest.mark.parametrize("notion", NOTIONS)
def test_mutation_rows_that_count_one_are_caught(notion):
    """Weight 1 instead of 1/n_u: every sum moves by more than its bound."""
    for bounded, ball, labels, _ in sums_of(notion).values():
        mutant = Search(bounded, notion, 3, ball=ball, sign=labels, shares=np.ones_like)
        assert mutant.worst(starts=60, climbs=30) > 1.2 * bounded.bound


def units_of(loss, rng, size=4):
    """Slope and curvature of random units: P, ‖s‖ and the trace of the curvature, rows anywhere."""
    rows = rng.standard_normal((size, DIM)) * 10 ** rng.uniform(-1, 1, (size, 1))
    shares = rng.dirichlet(np.ones(size)) * rng.choice([1.0, 0.7])
    w = shares * np.minimum(1, 1 / (rows**2).sum(axis=1))
    slope, bend = slope_and_curvature(loss, rng.standard_normal(size) * 10 ** rng.uniform(-1, 1))
    length = np.linalg.norm(rows, axis=1)
    steep = (w * np.maximum(length, length**2) * np.abs(slope)).sum()
    return steep, np.linalg.norm((w * slope) @ rows), (w * bend * length**2).sum()


def test_slope_and_curvature_of_a_unit_are_coupled():
    """‖s‖ <= P and the trace is at most the curvature P(1 - P) of a row of that slope."""
    rng = np.random.default_rng(0)
    for _ in range(3000):
        steep, score, trace = units_of(dp.Logistic(), rng)
        assert score <= steep * (1 + 1e-12)
        assert trace <= steep * (1 - steep) * (1 + 1e-12)


@pytest.mark.parametrize("weight", [0.45, 0.25, 0.15, 0.1, 0.5])
def test_the_stack_of_least_squares_is_convex_in_the_score_of_a_unit(weight):
    """2I + a²(4‖s‖²I + 8ssᵀ - 4ttᵀ) has no negative eigenvalue for a² <= 1/2, and has one beyond."""
    rng = np.random.default_rng(0)

    def smallest(a2):
        found = []
        for _ in range(500):
            s, t = (
                v / max(1, np.linalg.norm(v))
                for v in rng.standard_normal((2, 3)) * 10 ** rng.uniform(-2, 1, (2, 1))
            )
            bend = 2 * np.eye(3) + a2 * (
                4 * (s @ s) * np.eye(3) + 8 * np.outer(s, s) - 4 * np.outer(t, t)
            )
            found.append(np.linalg.eigvalsh(bend)[0])
        return min(found)

    assert smallest(weight) >= -1e-12
    assert smallest(0.6) < -0.1
