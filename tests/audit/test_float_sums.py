"""A search for a record that moves a float sum by more than its bound, in exact rational
arithmetic.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpinfer as dp
import dpinfer.mechanisms.sums
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.moment_sums import counted_moments, fourth_moments
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_sum, step_sums
from dpinfer.mechanisms.sums import (
    BLOCK,
    UNIT,
    Block,
    clip_rows,
    moment_and_score,
    second_moment,
    sum_error,
)
from dpinfer.numerics.links import IDENTITY, LOG, LOGIT
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design

TINY, HUGE = 5e-324, 1.7e308


def wild_rows(d, seed):
    """Huge, tiny, subnormal, opposite, at the norm bound and just beyond it, in every mixture."""
    rng = np.random.default_rng(seed)
    values = np.array(
        [
            0.0,
            TINY,
            -TINY,
            2e-308,
            1e-160,
            1e-16,
            2.0**-27,
            0.5,
            1.0,
            -1.0,
            1 + 2**-52,
            3.0,
            1e154,
            HUGE,
            -HUGE,
        ]
    )
    mixed = rng.choice(values, (60, d))
    unit = rng.standard_normal((200, d)) * 10.0 ** rng.uniform(-3, 3, (200, 1))
    unit[:100] /= np.linalg.norm(
        unit[:100], axis=1, keepdims=True
    )  # at the bound, as floats see it
    unit[:50] *= 1 + np.outer(rng.integers(-4, 5, 50), np.full(d, 2.0**-53))
    equal = np.outer(rng.uniform(0.1, 2, 30), rng.choice([-1.0, 1.0], d)) / np.sqrt(d)
    broken = np.array([np.full(d, np.nan), np.full(d, np.inf), np.r_[np.full(d - 1, 0.1), -np.inf]])
    return np.vstack([mixed, unit, equal, broken])


def exact(values):
    return [Fraction(float(value)) for value in values]


def norm2(row):
    return sum(value**2 for value in exact(row))


def longest(rows):
    return max(norm2(row) for row in rows)


DIMENSIONS = (1, 2, 3, 9, 40)
BARE = (2, 9, 40)
"""Where the root of the public scaling is rounded down, so that rows leave the ball without the
shrinking factor.
"""


@pytest.mark.parametrize("d", DIMENSIONS)
def test_rows_are_in_the_ball_in_real_numbers(d, monkeypatch):
    rows = wild_rows(d, d)
    assert longest(Rows.of(rows, np.ones(len(rows))).block.rows) <= 1
    if d > 1:  # without the shrinking factor some rows are not
        monkeypatch.setattr(dpinfer.mechanisms.sums, "shrunk", lambda dim: 1.0)
        assert longest(clip_rows(rows)) > 1


@pytest.mark.parametrize("d", DIMENSIONS)
def test_encoded_rows_are_in_the_ball_in_real_numbers(d, monkeypatch):
    low, high = -np.linspace(0.1, 7.3, d), np.linspace(0.3, 1e5, d)
    names = tuple(f"x{j}" for j in range(d))
    design = Design.of_bounds((low, high), names)
    rng = np.random.default_rng(d)
    corners = np.where(rng.random((200, d)) < 0.5, low, high)
    beyond = np.vstack([corners, np.nextafter(corners, HUGE), wild_rows(d, d)])
    assert longest(design.rows(beyond)) <= 1
    monkeypatch.setattr("dpinfer.schema.design.shrunk", lambda dim: 1.0)
    assert (longest(replace(design).rows(beyond)) > 1) == (d in BARE)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("most", [0.0, 1.6, -700.0, 1e5, 1e-300])
def test_rows_with_an_offset_are_in_the_ball_in_real_numbers(most, d):
    """Whatever the offset is; at its far end and at the corners of the box the norm is 1, so that
    no smaller bound would do.
    """
    low, high = -np.linspace(0.1, 7.3, d), np.linspace(0.3, 1e5, d)
    names = tuple(f"x{j}" for j in range(d))
    design = Design.of_bounds((low, high), names, offset=most)
    assert design.norm2 == d + 2
    rng = np.random.default_rng(d)
    corners = np.where(rng.random((200, d)) < 0.5, low, high)
    ends = [most, np.nextafter(most, HUGE), most - 30, most - 31, -HUGE, HUGE, 0.0, TINY]
    values = np.column_stack([corners, np.resize(ends, 200)])
    rows = design.rows(values)
    assert longest(rows) <= 1
    assert longest(rows) > Fraction(999999, 1000000)
    assert (rows[:, -1] <= 0).all()  # 0 at the bound
    wild = np.column_stack([wild_rows(d, d), np.resize(ends, len(wild_rows(d, d)))])
    assert longest(design.rows(wild)) <= 1
    values[0, -1] = -np.inf  # the logarithm of no exposure
    values[1, -1] = np.nan
    assert not design.rows(values)[:2].any()


@pytest.mark.parametrize(
    ("low", "high"), [(2.0**53, 2.0**53 + 2), (1.6e9 + 0.1, 1.6e9 + 0.7), (1e9 + 0.1, 1e9 + 1.3)]
)
def test_narrow_ranges_far_from_0_are_in_the_ball_too(low, high):
    """Their middle is rounded, by much of their width."""
    design = Design.of_bounds((low, high), ("x", "y", "z"))
    ends = np.array([[low] * 3, [high] * 3, [low, high, low], [-HUGE, HUGE, 0.0]])
    assert longest(design.rows(ends)) <= 1
    assert longest(replace(design, half=np.full(4, (high - low) / 2)).rows(ends)) > 1


def wild_matrices(d, seed):
    rng = np.random.default_rng(seed)
    square = rng.standard_normal((d, d))
    yield from (square, 1e147 * square, 1e-150 * square, 1e-310 * square, np.ones((d, d)))
    yield square * 10.0 ** rng.uniform(-12, 12, (d, 1))
    yield np.linalg.inv(square) * 10.0 ** rng.uniform(-12, 12, d)


def heaviest(block):
    return max(
        Fraction(float(w)) * norm2(row) for w, row in zip(block.weights, block.rows, strict=True)
    )


@pytest.mark.parametrize("d", [1, 2, 3, 9])
def test_mapped_rows_count_for_at_most_one_in_real_numbers(d, monkeypatch):
    rows = clip_rows(wild_rows(d, d))
    block = Block(rows, np.ones(len(rows)), np.ones(len(rows)))
    for matrix in wild_matrices(d, d):
        with np.errstate(all="ignore"):
            mapped = block.mapped(matrix, Adjacency.REPLACE)
        assert np.isfinite(mapped.rows).all()
        assert heaviest(mapped) <= 1
    monkeypatch.setattr(dpinfer.mechanisms.sums, "shrunk", lambda dim: 1.0)
    if d > 1:
        matrix = next(iter(wild_matrices(d, d)))
        assert heaviest(block.mapped(1e3 * matrix, Adjacency.REPLACE)) > 1


def test_a_mapped_row_does_not_depend_on_its_place():
    """Where a record is added or removed the others move to other places; a matrix product would
    tell (last line).
    """
    rng = np.random.default_rng(3)
    block = Block(clip_rows(rng.standard_normal((300, 40))), np.ones(300))
    matrix = rng.standard_normal((40, 40))
    whole = {notion: block.mapped(matrix, notion) for notion in Adjacency}

    def moved(notion):
        parts = [(block[k:].mapped(matrix, notion), whole[notion][k:]) for k in (1, 2, 7, 255, 299)]
        return any(
            (part.rows != same.rows).any() or (part.weights != same.weights).any()
            for part, same in parts
        )

    assert not moved(Adjacency.ADD_REMOVE)
    if not moved(Adjacency.REPLACE):
        pytest.skip(
            "this machine's matrix products do not round by place: the rule costs nothing here, and shows nothing"
        )


def moment_of(block):
    """Σ x xᵀ of the rows as doubles, in rational arithmetic."""
    d = block.rows.shape[1]
    total = [[Fraction(0)] * d for _ in range(d)]
    for row in block.rows:
        x = exact(row)
        for i in range(d):
            for j in range(d):
                total[i][j] += x[i] * x[j]
    return total


def distance2(matrix, total):
    return sum(
        (Fraction(float(value)) - total[i][j]) ** 2 for (i, j), value in np.ndenumerate(matrix)
    )


def plain_moment(block):
    """Without svec: only products and sums."""
    return dpinfer.mechanisms.sums.square(block.rows, block.weights)


def test_a_block_errs_by_no_more_than_its_bound():
    rng = np.random.default_rng(0)
    rows = clip_rows(np.vstack([wild_rows(3, 1)] * 7)[:BLOCK])
    alternating = clip_rows(np.outer(np.tile([1.0, -1.0], BLOCK // 2), rng.standard_normal(3)))
    for sample in (rows, alternating, clip_rows(rng.standard_normal((BLOCK, 3)) * 1e-160)):
        block = Block(sample, np.ones(len(sample)))
        terms = float(sum(norm2(row) for row in sample))
        bound = Fraction(len(sample) + 8) * Fraction(UNIT) * Fraction(terms)
        subnormal = Fraction(len(sample) * 9) * Fraction(
            TINY
        )  # underflow is absolute, far below every grid
        assert distance2(plain_moment(block), moment_of(block)) <= (bound + subnormal) ** 2


MOMENTS = {"counted": counted_moments, "fourth": fourth_moments}


def at_line(notion, wanted, family=LOGIT):
    """The stack of a step, or its rest, at a line whose rows are far out."""
    rng = np.random.default_rng(9)
    everywhere = np.ones(4)
    matrix = 6 * rng.standard_normal((4, 4))
    most = 1.0 if family is LOGIT else np.inf
    line = Linearization(family, matrix, rng.standard_normal(4), most, -everywhere, everywhere)
    if wanted in MOMENTS:
        return MOMENTS[wanted](line, 1.0, notion)
    if wanted == "rest":
        return remainder_sum(line, rng.standard_normal(4), 1e-4, 1.0, notion)
    if family is LOG:
        return step_sums(line, 0.01, Stack.of(notion), 1.0)
    stack = Stack(1.0, 0.25, notion) if notion.counted else Stack(0.5, 0.1, notion)
    return step_sums(line, 0.01, stack, 1.0)


SUMS = {
    "moments": second_moment, "moments and score": moment_and_score,
    "stack": lambda notion: at_line(notion, "stack"), "rest": lambda notion: at_line(notion, "rest"),
    "stack of counts": lambda notion: at_line(notion, "stack", LOG),
    "rest of counts": lambda notion: at_line(notion, "rest", LOG),
    "second moments": lambda notion: at_line(notion, "counted", IDENTITY),
    "fourth moments": lambda notion: at_line(notion, "fourth", IDENTITY),
}  # fmt: skip


@pytest.mark.parametrize("notion", Adjacency)
@pytest.mark.parametrize("name", SUMS)
def test_no_record_moves_a_float_sum_beyond_its_bound(name, notion):
    """Differences of float sums of wild neighbours, in rational arithmetic: at most the bound times
    1 + 2⁻¹².
    """
    what, rng, d = SUMS[name](notion), np.random.default_rng(3), 4
    wild, common = wild_rows(d, 2), rng.standard_normal((3 * BLOCK, d))
    labels = np.append(np.ones(3 * BLOCK), 1.0)

    def total(row, label):
        labels[-1] = label
        return exact(Rows.of(np.vstack([common, row]), labels).total(what.of_block))

    worst = Fraction(0)
    for i in range(40):
        a, b = wild[rng.integers(len(wild))], wild[rng.integers(len(wild))]
        b = (-a if i % 3 == 0 else b) if notion.counted else np.zeros(d)
        one, other = total(a, 1.0), total(b, -1.0)
        worst = max(worst, sum((x - y) ** 2 for x, y in zip(one, other, strict=True)))
    assert worst <= (Fraction(what.bound) * (1 + Fraction(1, 2**12))) ** 2
    assert worst > Fraction(what.bound) ** 2 / 3  # the search comes near


class Parts:
    """One number a row, to look at the addition of blocks alone."""

    @staticmethod
    def of(values):
        rows = np.zeros((len(values), 1))
        rows[:, 0] = values
        return Rows(Block(rows, np.ones(len(values))))


def last_of(block):
    """The exact sum of a block whose only row that is not 0 is its first."""
    return block.rows[..., 0, :]


def test_blocks_are_added_with_compensation():
    """A large block, many that a naive sum would lose, and the large one taken back."""
    small = np.full(4000, 1.0) + np.linspace(0, 1e-3, 4000)
    parts = np.concatenate([[2.0**27], small * 2.0**-27, [-(2.0**27)]])
    values = np.zeros(len(parts) * BLOCK)
    values[::BLOCK] = parts
    true, size = sum(exact(parts)), sum(abs(value) for value in exact(parts))
    bound = Fraction(UNIT) * abs(true) + (len(parts) * Fraction(UNIT)) ** 2 * size
    found = Parts.of(values).total(last_of)
    assert abs(Fraction(float(found[0])) - true) <= bound
    naive = 0.0
    for part in parts:
        naive += part
    assert abs(Fraction(naive) - true) > bound


def test_the_claimed_error_covers_blocks_and_their_addition():
    assert sum_error(private_number=False) >= (BLOCK + 8) * UNIT * BLOCK
    assert sum_error(private_number=True) * 2 < 2.0**-12  # for terms of norm 1 and sums of bound 1


@pytest.mark.parametrize("d", [2, 13, 33, 40])
def test_a_record_has_the_same_numbers_at_every_place(d):
    """Under add-remove the others move up by one: their margins, and so their terms, keep every
    bit.
    """
    rng = np.random.default_rng(d)
    rows = Rows.of(rng.standard_normal((20_011, d)), np.ones(20_011)).block
    coef, same = 5 * rng.standard_normal(d), {}
    for notion in Adjacency:
        risk, seen = Risk.penalised(dp.Logistic(), 0.01, 20_011, notion), []
        for start in (0, 1):
            found = []
            Rows(rows[start:]).total(
                lambda block, found=found, risk=risk: (
                    found.append(risk._z(coef, block).ravel()) or np.zeros((*block.stack, 1))
                )
            )
            seen.append(np.concatenate(found))
        same[notion] = np.array_equal(seen[0][1:], seen[1])
    assert all(same[notion] for notion in Adjacency if not notion.keeps_positions)
    assert (
        not same[Adjacency.REPLACE] or d < 33
    )  # where every other row keeps its place, it may count
