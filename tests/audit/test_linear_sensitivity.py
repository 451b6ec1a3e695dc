"""Sensitivities of the sums of least squares by adversarial search, for both notions of neighbours."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms import step_sums as families
from dpinfer.mechanisms import sums
from dpinfer.mechanisms.histograms import BoundedCounts, histogram, influence_histogram
from dpinfer.mechanisms.step_sums import Linearization, LinearizedBlock, Stack, step_sums
from dpinfer.mechanisms.sums import Block, moment_and_score
from dpinfer.numerics.bins import inner_edges
from dpinfer.numerics.links import IDENTITY
from helpers.support import clipped_sums, identity_line, influences_at

NOTIONS = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)  # units: test_unit_sensitivity.py
DIM = 2
LINE = np.array([0.3, -0.7])


def record(flat):
    """A mapped record from numbers without limits: a row and an outcome in [-1, 1]."""
    return Block(flat[None, :DIM], np.tanh(flat[DIM:])).mapped(np.eye(DIM), Adjacency.REPLACE)


def worst_change(bounded, neighbours, starts=400, polish=3):
    """Largest change of a sum between neighbours, by random starts and local search of the best of
    them.
    """
    rng = np.random.default_rng(0)

    def change(flat):
        first = bounded.of_block(record(flat[: DIM + 1]))
        second = (
            bounded.of_block(record(flat[DIM + 1 :])) if neighbours is Adjacency.REPLACE else 0.0
        )
        return float(np.linalg.norm(first - second))

    points = rng.standard_normal((starts, 2 * DIM + 2)) * 10 ** rng.uniform(-1, 1.5, (starts, 1))
    mirrored = np.concatenate(
        [points[:, : DIM + 1], points[:, : DIM + 1] * [*[1] * DIM, -1]], axis=1
    )
    points = sorted([*points, *mirrored], key=change)
    found = [change(points[-1])]
    for point in points[-polish:] if polish else ():
        least = optimize.minimize(
            lambda z: -change(z), point, method="Nelder-Mead", options={"maxiter": 800}
        )
        found.append(-least.fun)
    return max(found)


STACKS = {  # least squares, and logistic regression
    Adjacency.REPLACE: [
        (Stack.of(Adjacency.REPLACE), 4.5),
        (Stack(1.0, 0.25, Adjacency.REPLACE), 5.0),
    ],
    Adjacency.ADD_REMOVE: [
        (Stack.of(Adjacency.ADD_REMOVE), 1.4),
        (Stack(0.5, 0.1, Adjacency.ADD_REMOVE), 1.6),
    ],
}


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("clip", [0.02, 0.3])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_clipped_stack_sensitivity(neighbours, which, clip, robust):
    stack, squared = STACKS[neighbours][which]
    bounded = clipped_sums(LINE, clip, stack, robust=robust)
    assert bounded.bound**2 == pytest.approx(squared, abs=1e-12)
    worst = worst_change(bounded, neighbours)
    assert worst <= bounded.bound * (1 + 1e-9)
    if not (
        robust and neighbours is Adjacency.ADD_REMOVE
    ):  # a clipped record has no curvature there
        assert worst > 0.98 * bounded.bound


def winsorised_line(low, high, size=100.0):
    """A line of least squares over (1, x, z) with winsorised columns, whose u is ``size`` times x."""
    matrix = np.zeros((3, 3))
    matrix[0, 1] = size
    matrix[1, 2] = 0.3
    return Linearization(
        IDENTITY, matrix, np.array([0.1, 0.5, -0.2]), np.inf, np.array(low), np.array(high)
    )


LIMITS = {
    "none": ([-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]),
    "one": ([-1.0, -0.2, -1.0], [1.0, 0.3, 1.0]),
    "both": ([-1.0, -0.2, 0.1], [1.0, 0.3, 0.4]),
    "above the middle": ([-1.0, 0.01, -1.0], [1.0, 0.3, 1.0]),
}


def random_records(n, seed):
    """Rows (1, x, z) over the root of their largest squared norm, outcomes at and inside their bounds,
    and rows that cannot be encoded.
    """
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2)) ** rng.choice([1, 3, 9], (n, 1))])
    x[:: n // 10, 1:] = rng.choice([-1.0, 0.0, 1.0], (len(x[:: n // 10]), 2))
    x[1 :: n // 5] = 0.0
    return Block(x / np.sqrt(3), rng.choice([-1.0, 1.0, 0.0, 0.5, 0.02, -0.03], n))


def largest_change(bounded, neighbours, records):
    """Of all pairs of some records, or of one more or less."""
    each = np.array([bounded.of_block(records[k : k + 1]) for k in range(len(records))])
    if neighbours is Adjacency.ADD_REMOVE:
        return float(np.linalg.norm(each, axis=1).max())
    return max(float(np.linalg.norm(each - one, axis=1).max()) for one in each)


@pytest.mark.parametrize("covariance", [True, False], ids=["estimate", "pilot step"])
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("neighbours", NOTIONS)
def test_winsorised_columns_and_the_pilot_step_keep_the_bound(neighbours, limits, covariance):
    """Both sums of least squares, at any limits, for pairs of 600 records: never beyond the bound.
    Where one record is replaced a pair attains it, with and without the covariance of the scores; one
    more or less attains that of what is summed.
    """
    line = winsorised_line(*LIMITS[limits])
    stack = Stack.of(neighbours)
    worst = []
    for clip in (0.002, 0.1, 2.0):
        bounded = step_sums(line, clip, stack, 3.0, covariance=covariance)
        assert bounded.bound == stack.bound
        for seed in range(2):
            worst.append(largest_change(bounded, neighbours, random_records(600, seed)))
    assert max(worst) <= stack.bound * (1 + 1e-9)
    summed = 1 + stack.hessian + (stack.score_cov if covariance else 0.0)
    attained = stack.bound if neighbours is Adjacency.REPLACE else np.sqrt(summed)
    # 0 is not within these limits, so that no record has next to no leverage, as the worst pair has
    inside = limits == "above the middle" and neighbours is Adjacency.REPLACE
    assert max(worst) > (0.9 if inside else 0.97) * attained


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_a_pilot_step_without_its_clip_is_caught(neighbours, monkeypatch):
    monkeypatch.setattr(
        LinearizedBlock, "influence", property(lambda at: np.full(len(at.block), 1e-3))
    )
    bounded = step_sums(
        winsorised_line(*LIMITS["one"]), 0.002, Stack.of(neighbours), 3.0, covariance=False
    )
    assert largest_change(bounded, neighbours, random_records(200, 0)) > 2 * bounded.bound


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_outcomes_move_the_second_release_as_labels_do(neighbours):
    """(y - middle)/half is pulled into [-1, 1]: the bound of labels -1 and +1 holds, and is
    attained.
    """
    bounded = moment_and_score(neighbours, 0.2, 0.05)
    assert bounded.bound**2 == pytest.approx(neighbours.pick(2.53125, 1.25))
    assert 0.99 * bounded.bound < worst_change(bounded, neighbours) <= bounded.bound * (1 + 1e-9)


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_mutations_are_caught(neighbours, monkeypatch):
    """A clip of the residual alone, none at all, or the bound of the score alone: all are exceeded."""
    bounded = clipped_sums(LINE, 0.02, Stack.of(neighbours))
    assert worst_change(bounded, neighbours) > neighbours.pick(2.0, 1.0) * 1.03
    for mutant in (0.1, 0.0):
        monkeypatch.setattr(
            LinearizedBlock,
            "influence",
            property(lambda at, mutant=mutant: np.full(len(at.block), mutant)),
        )
        assert (
            worst_change(clipped_sums(LINE, 0.02, Stack.of(neighbours)), neighbours, polish=0)
            > 2 * bounded.bound
        )


@pytest.mark.parametrize("neighbours", NOTIONS)
@pytest.mark.parametrize(
    "weights",
    [
        (0.5, 0.45),
        (0.25, 0.15),
        (1.0, 0.25),
        (0.5, 0.1),
        (0.1, 0.5),
        (1.0, 0.5),
        (0.9, 0.1),
        (3.0, 0.5),
    ],
)
def test_the_bound_of_a_stack_is_the_maximum(neighbours, weights):
    """Over the norms of the two records' parts and the cosine of their rows, on a fine grid."""
    h, s = weights
    cosine = np.linspace(-1, 1, 2001)
    unit = [0.0, 0.5, 1.0]
    found = [
        g * g + k * k - 2 * g * k * cosine
        + s * (g**4 + k**4 - 2 * g**2 * k**2 * cosine**2)
        + h * (m * m + p * p - 2 * m * p * cosine**2)
        for g in unit for k in (unit if neighbours is Adjacency.REPLACE else [0.0])
        for m in unit for p in (unit if neighbours is Adjacency.REPLACE else [0.0])
    ]  # fmt: skip
    assert Stack(h, s, neighbours).bound ** 2 == pytest.approx(np.max(found), abs=1e-6)


def test_the_proof_asks_for_a_small_weight_of_the_score_covariance():
    with pytest.raises(dp.PrivacyError, match="at most 1/2"):
        clipped_sums(LINE, 0.1, Stack(0.5, 0.51, Adjacency.REPLACE))


@pytest.mark.parametrize(
    ("line", "clip"), [(1e300 * LINE, 0.1), (np.nan * LINE, 0.1), (LINE, 0.0), (LINE, np.inf)]
)
def test_numbers_that_floats_cannot_hold_are_refused(line, clip):
    with pytest.raises(dp.PrivacyError, match="too large for floats"):
        clipped_sums(line, clip, Stack.of(Adjacency.REPLACE)).of_block(record(np.zeros(DIM + 1)))


@pytest.mark.parametrize("d", [1, 3, 9, 40])
def test_a_clipped_score_is_at_most_one_in_real_numbers(d, monkeypatch):
    """The norm of w u ψ/b, with the floats as they are; without the factor for rounding it can be
    above 1.
    """
    rng = np.random.default_rng(d)
    rows = rng.standard_normal((400, d)) * 10 ** rng.uniform(-3, 3, (400, 1))
    block = Block(rows, np.ones(400)).mapped(np.eye(d), Adjacency.REPLACE)
    caught = []
    monkeypatch.setattr(
        sums.Block, "outer", lambda self, factors: caught.append(factors) or np.zeros((d, d))
    )

    def largest():
        caught.clear()
        clipped_sums(np.zeros(d), 1e-6, Stack.of(Adjacency.REPLACE)).of_block(block)
        size = [sum(Fraction(x) ** 2 for x in row) for row in block.rows.tolist()]
        return max(Fraction(w) ** 2 * s for w, s in zip(caught[0].tolist(), size, strict=True))

    assert largest() <= 1
    monkeypatch.setattr(families, "shrunk", lambda dim: 1.0)
    assert largest() > 1


@pytest.mark.parametrize("neighbours", NOTIONS)
def test_guarantee_histogram_sensitivity(neighbours):
    """A record is in one bin, or in none if it could not be encoded."""
    for bounded in (
        histogram(inner_edges(-0.4, 0.9), neighbours),
        influences_at(LINE, 2.0, neighbours),
    ):
        assert bounded.bound == neighbours.pick(2**0.5, 1.0)
        rng, seen = np.random.default_rng(0), []
        for _ in range(300):
            flat = rng.standard_normal(DIM + 1) * 10 ** rng.uniform(-6, 3)
            seen.append(bounded.of_block(record(flat)))
            assert sorted(seen[-1])[-2:] == [0.0, 1.0]
        assert np.linalg.norm(seen[0] - np.array(seen), axis=1).max() == 2**0.5
        assert not bounded.of_block(record(np.zeros(DIM + 1))).any()
        if isinstance(bounded, BoundedCounts):
            assert np.abs(seen[0] - np.array(seen)).sum(axis=1).max() == 2.0
            assert np.abs(seen).sum(axis=1).max() == 1.0
            assert bounded.l1_bound == neighbours.pick(2.0, 1.0)


@pytest.mark.parametrize("d", [2, 13, 33, 40])
def test_the_influence_of_a_record_does_not_depend_on_its_place(d):
    """To the bit, wherever a block is cut; a product of the block with the line would tell where it
    can.
    """
    rng = np.random.default_rng(d)
    block = Block(rng.standard_normal((700, d)), rng.uniform(-1, 1, 700))
    matrix, coef = rng.standard_normal((d, d)), rng.standard_normal(d)
    line = replace(identity_line(coef), matrix=matrix)
    whole = line.linked(block, 1.0, Adjacency.ADD_REMOVE)
    for k in (1, 2, 3, 5, 16, 255, 699):
        left = line.linked(block[k:], 1.0, Adjacency.ADD_REMOVE)
        assert np.array_equal(left.influence, whole.influence[k:])
        assert np.array_equal(left.block.labels, whole.block.labels[k:])
    u = whole.block.rows.copy()
    products = [(u[k:] @ coef != (u @ coef)[k:]).any() for k in (1, 2, 3, 5, 16, 255, 699)]
    assert any(products) or d == 2  # what the rule is for


@pytest.mark.parametrize("name", ["log1p", "log", "sqrt", "exp", "log10"])
def test_a_transformed_outcome_does_not_depend_on_its_place(name):
    """Counts sit on the edges of bins by the thousands."""
    y = np.random.default_rng(0).integers(1, 60, 5000).astype(float)
    whole = getattr(np, name)(y)
    for k in (1, 2, 3, 5, 7, 4999):
        assert np.array_equal(getattr(np, name)(y[k:].copy()), whole[k:])


def test_the_bin_of_a_record_does_not_depend_on_its_place():
    """Where a record is added or removed, the others keep their bins, also at the edges."""
    rng = np.random.default_rng(1)
    block = Block(rng.standard_normal((3000, 9)), rng.uniform(-1, 1, 3000))
    line = replace(identity_line(rng.standard_normal(9)), matrix=rng.standard_normal((9, 9)))
    whole = line.linked(block, 1.0, Adjacency.ADD_REMOVE)
    sizes = whole.influence * np.abs(whole.block.labels)
    bounded = influence_histogram(
        2 * float(sizes[17]), Adjacency.ADD_REMOVE
    )  # record 17 is on an edge
    for k in (1, 5, 16):
        left = line.linked(block[k:], 1.0, Adjacency.ADD_REMOVE).block
        assert np.array_equal(bounded.of_block(left), bounded.of_block(whole.block[k:]))
