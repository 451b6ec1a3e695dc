"""Rows of units: what they count, in real numbers; the same totals wherever they stand; float sums
and their bounds.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.column_scaling import column_histograms
from dpinfer.mechanisms.histograms import histogram, tail_counts
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.moment_sums import counted_moments, fourth_moments
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_sum
from dpinfer.mechanisms.sums import (
    BLOCK,
    DEFAULT_MAX_RECORDS,
    SLACK,
    UNIT,
    Block,
    moment_and_score,
    second_moment,
    sum_error,
)
from dpinfer.numerics.bins import inner_edges
from dpinfer.numerics.links import IDENTITY, LOGIT
from dpinfer.rows.source import Rows
from helpers.support import clipped_sums, influences_at

UNITS = (Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT)
LINE = np.array([0.3, -0.2, 0.1])


def panel(n=3000, units=700, seed=0, d=3):
    """Rows with ids of any frequency, in any order."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, units, n) if units else np.arange(n)
    rows = np.column_stack([np.full(n, 0.5), rng.uniform(-0.6, 0.6, (n, d - 1))])
    return Rows.of(rows, rng.choice([-1.0, 1.0], n)), ids


def exact(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


def of_units(source, factors):
    """What the rows of each unit count together, exactly."""
    edges = [*source.block.starts.tolist(), len(source.block)]
    return [sum(exact(factors[first:last])) for first, last in pairwise(edges)]


WILD = [5e-324, 1e-310, 1e-200, 1e-16, 0.1, 1 / 3, 1.0, 3.0, 1e16, 1e200, 1.7e308]


@pytest.mark.parametrize("most", [1.0, 2.5, 7.0, 1e99])
@pytest.mark.parametrize("weighted", [False, True])
def test_guarantee_units_count_at_most_one(most, weighted):
    """In rational arithmetic, for units of 1 to 3,000 rows and weights of every size: at most a
    millionth less.
    """
    rng, (source, ids) = np.random.default_rng(1), panel(9000, 40)
    ids = np.where(rng.random(9000) < 0.3, 7, ids)
    weights = rng.choice(WILD, 9000) * rng.uniform(0.5, 1, 9000) if weighted else None
    counted = source.counted(most, ids, weights)
    together = of_units(counted, counted.block.shares)
    assert max(together) <= 1
    if not weighted and most < 100:
        assert max(together) > 1 - Fraction(1, 2**19)
    if most == 1 and not weighted:  # without the margin some unit counts more than 1
        naive = np.repeat(
            1 / np.diff([*counted.block.starts, 9000]), np.diff([*counted.block.starts, 9000])
        )
        assert max(of_units(counted, naive)) > 1


@pytest.mark.parametrize("most", [1.0, 3.0])
def test_a_row_counts_one_over_the_larger_of_both(most):
    source, ids = panel(50, 12)
    counted, known = source.counted(most, ids), np.bincount(ids)
    sizes = np.sort(ids, kind="stable")
    assert np.allclose(counted.block.shares, 1 / np.maximum(most, known[sizes]), rtol=1e-5)
    assert counted.n == len(np.unique(ids))
    assert np.array_equal(counted.block.labels, source.block.labels[np.argsort(ids, kind="stable")])
    omega = np.random.default_rng(0).uniform(0, 2, 50)
    total = np.bincount(ids, omega)[ids]
    weighted = source.counted(most, ids, omega).block.shares
    assert np.allclose(
        weighted, (omega / np.maximum(most, total))[np.argsort(ids, kind="stable")], rtol=1e-5
    )


def sums_of(notion):
    """Every sum over rows of a fit, of least squares or logistic."""
    risk = Risk(dp.Logistic(), 5.0, 10, notion)
    everywhere = np.ones(3)
    line = Linearization(LOGIT, np.eye(3) + 0.3, LINE, 1.0, -everywhere, everywhere)
    straight = Linearization(IDENTITY, np.eye(3) + 0.3, 0 * LINE, np.inf, -everywhere, everywhere)
    return [
        second_moment(notion), moment_and_score(notion), histogram(inner_edges(-0.5, 0.9), notion),
        influences_at(LINE, 2.0, notion), clipped_sums(LINE, 0.3, Stack.of(notion)), risk.stacked_sum(4 * LINE),
        risk.score_sum(LINE), risk.curvature_sum(LINE), remainder_sum(line, 4 * LINE, 0.1, 1.0, notion),
        column_histograms(np.array([1, 2]), np.array([inner_edges(-0.5, 0.5)] * 2), 1.0, notion),
        tail_counts(np.array([1, 2]), np.zeros(2), np.full(2, 0.1), np.array([[1.0, 3.0]] * 2), notion),
        counted_moments(straight, 1.0, notion), fourth_moments(straight, 1.0, notion),
    ]  # fmt: skip


@pytest.mark.parametrize("notion", UNITS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_totals_do_not_depend_on_where_the_rows_stand(notion, weighted, monkeypatch):
    """Shuffled, with other codes for the ids, and cut into blocks of any length: the same to 1e-12
    of the total.
    """
    rng, (source, ids) = np.random.default_rng(2), panel()
    weights = rng.uniform(0, 2, len(ids)) if weighted else None
    matrix = rng.standard_normal((3, 3))
    order, codes = rng.permutation(len(ids)), rng.permutation(ids.max() + 1)
    moved = Rows(Block(source.block.rows[order], source.block.labels[order]))
    moved = moved.counted(1.0, codes[ids[order]], None if weights is None else weights[order])
    together = source.counted(1.0, ids, weights)
    for bounded in sums_of(notion):
        first = Rows(together.block.mapped(matrix, notion)).total(bounded.of_block)
        for step in (1, 7, 256):
            monkeypatch.setattr("dpinfer.rows.source.BLOCK", step)
            second = Rows(moved.block.mapped(matrix, notion)).total(bounded.of_block)
            assert np.abs(first - second).max() <= 1e-12 * max(1, np.abs(first).max())
        monkeypatch.undo()


@pytest.mark.parametrize("step", [1, 5, 64, 2048])
def test_blocks_hold_whole_units(step, monkeypatch):
    monkeypatch.setattr("dpinfer.rows.source.BLOCK", step)
    source, ids = panel(2000, 300)
    ids[500:1400] = 3  # longer than most blocks
    counted, seen = source.counted(1.0, ids), []
    counted.total(
        lambda block: seen.append((len(block), block.starts, of_units_shares(block))) or np.zeros(1)
    )
    assert sum(length for length, _, _ in seen) == 2000
    assert sum(len(starts) for _, starts, _ in seen) == counted.n
    for length, starts, together in seen:
        assert starts[0] == 0
        assert length <= step or len(starts) == 1
        assert together == pytest.approx(np.ones(len(starts)), rel=1e-5)


def of_units_shares(block):
    return np.add.reduceat(block.shares, block.starts)


def test_rows_without_an_id_or_a_weight_count_for_nothing():
    """Such rows may hold anything; parts too small for floats end in zero rows, huge weights count
    alike.
    """
    source, ids = panel(400, 60)
    wild = np.where(np.arange(400) % 5 == 0, -1, ids)
    matrix = np.random.default_rng(0).standard_normal((3, 3))
    kept = source.block.rows[wild >= 0], source.block.labels[wild >= 0]
    plain, without = source.counted(1.0, wild), Rows(Block(*kept)).counted(1.0, wild[wild >= 0])
    assert plain.n == without.n
    weights = np.ones(400)
    weights[:40] = np.resize([np.nan, np.inf, -np.inf, -1.0, 0.0], 40)
    weights[40:80] = np.resize([1.7e308, 1e-320], 40)
    ids[40:80] = 99  # one unit whose weights would add up to more than a float
    broken = source.counted(1.0, ids, weights)
    whole = np.array([index for index in range(400) if index >= 40 or not index])
    for bounded in sums_of(Adjacency.REPLACE_UNIT):
        values = [
            Rows(s.block.mapped(matrix, UNITS[0])).total(bounded.of_block)
            for s in (plain, without, broken)
        ]
        assert np.array_equal(values[0], values[1])
        assert np.isfinite(values[2]).all()
        good = Rows(Block(source.block.rows[whole], source.block.labels[whole]))
        omega = np.where((whole == 0) | ((whole < 80) & (whole % 2 == 1)), 0.0, 1.0)
        assert np.allclose(
            values[2],
            Rows(good.counted(1.0, ids[whole], omega).block.mapped(matrix, UNITS[0])).total(
                bounded.of_block
            ),
        )


def test_no_rows_at_all():
    empty = Rows.of(np.zeros((5, 3)), np.ones(5)).counted(1.0, np.full(5, -1))
    assert empty.n == 0
    for bounded in sums_of(Adjacency.ADD_REMOVE_UNIT):
        assert not empty.total(bounded.of_block).any()


@pytest.mark.parametrize("notion", UNITS)
def test_the_numbers_of_a_row_do_not_depend_on_its_place(notion):
    """Other rows move where a unit gets more of them; a product of matrices rounds by place."""
    rng = np.random.default_rng(3)
    block = Rows.of(rng.standard_normal((300, 40)), np.ones(300)).counted(1.0, np.arange(300)).block
    matrix = rng.standard_normal((40, 40))
    whole = block.mapped(matrix, notion)
    for k in (1, 2, 7, 255, 299):
        part = block[k:].mapped(matrix, notion)
        assert np.array_equal(part.rows, whole.rows[k:])
        assert np.array_equal(part.weights, whole.weights[k:])


@pytest.mark.parametrize("notion", UNITS)
def test_no_unit_moves_a_float_sum_beyond_its_bound(notion):
    """Wild units of up to 3 blocks, beside others that move to other blocks; differences in
    rational arithmetic.
    """
    rng, d = np.random.default_rng(4), 3
    common, ids = panel(3 * BLOCK, 1500, d=d)
    risk = Risk.penalised(dp.Logistic(), 0.01, 1501, notion)
    everywhere = np.ones(d)
    straight = Linearization(IDENTITY, 9 * np.eye(d), np.zeros(d), np.inf, -everywhere, everywhere)
    worst = {}
    for i, size in enumerate([1, 2, 50, 3 * BLOCK, 1, 700]):
        direction = rng.standard_normal(d)
        steep, turned = (
            -0.8 * direction / np.linalg.norm(direction),
            np.cross(direction, rng.standard_normal(d)),
        )
        sides = [
            (np.outer(np.ones(size), direction), 1.0),
            (np.outer(np.ones(1 + i), turned), -1.0),
        ]
        if not notion.counted:
            sides[1] = (np.zeros((1, d)), 1.0)
        for name, what in {
            "moments": moment_and_score(notion),
            "stack": risk.stacked_sum(steep),
            "fourth moments": fourth_moments(straight, 1.0, notion),
        }.items():
            totals = [exact(total_with(common, ids, *side, i, what)) for side in sides]
            moved = sum((a - b) ** 2 for a, b in zip(*totals, strict=True))
            assert moved <= (Fraction(what.bound) * (1 + Fraction(1, 2**12))) ** 2
            worst[name] = max(worst.get(name, 0), float(moved) ** 0.5 / what.bound)
    assert min(worst.values()) > 0.6  # the units are no idle ones


def total_with(common, ids, rows, label, place, what):
    """The total of the others and of one unit more, whose code is anywhere."""
    more = Rows.of(rows * 10, np.full(len(rows), label)).block
    block = Block(
        np.vstack([common.block.rows, more.rows]),
        np.concatenate([common.block.labels, more.labels]),
    )
    codes = np.concatenate(
        [np.where(ids >= 100 * place, ids + 1, ids), np.full(len(rows), 100 * place)]
    )
    return Rows(block).counted(1.0, codes).total(what.of_block)


def test_the_error_of_sums_over_units_is_covered():
    """Half of the slack is for two float sums, also of s sᵀ and of units longer than a block."""
    assert sum_error(private_number=True) < sum_error(private_number=False, units=True)
    assert 2 * sum_error(private_number=False, units=True) <= SLACK / 2
    size = 40 * BLOCK
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (size, 1)) * 10.0 ** rng.integers(-12, 1, (size, 1))
    source = Rows.of(rows, np.ones(size)).counted(1.0, np.repeat([0, 1], [size - 500, 500]))
    shares = source.block.shares
    score = [Fraction(0), Fraction(0)]
    for value, share, unit in zip(
        source.block.rows[:, 0], shares, np.repeat([0, 1], [size - 500, 500]), strict=True
    ):
        score[unit] += Fraction(float(value)) * Fraction(float(share))
    real = sum(s**2 for s in score)
    found = source.total(lambda block: block.outer(block.shares))
    assert abs(Fraction(float(found[0, 0])) - real) <= Fraction(
        (BLOCK + 11) * UNIT * 2 + 3 * size * UNIT
    )


def test_the_minimum_of_long_units_is_within_its_error():
    """One unit of twenty blocks beside short ones: the bound has the rows that a longer block may
    round.
    """
    source, ids = panel(20 * BLOCK + 900, 0)
    ids = np.where(ids < 20 * BLOCK, 0, ids)
    counted = source.counted(1.0, ids)
    risks = [
        Risk.penalised(dp.Logistic(), 0.01, counted.n, n)
        for n in (Adjacency.REPLACE, Adjacency.REPLACE_UNIT)
    ]
    row, unit = (risk.minimum_error(3) * risk.ridge for risk in risks)
    assert unit - row == pytest.approx(UNIT * DEFAULT_MAX_RECORDS, rel=1e-6)
    found = minimum(risks[1], counted.total, np.zeros(3))
    assert found.gradient_norm <= risks[1].tolerance
