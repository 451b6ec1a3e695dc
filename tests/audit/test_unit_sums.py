"""Sums in which a unit is one record: bounds attained and never exceeded, for units of any rows; float arithmetic."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms import unit_sums
from dpinfer.mechanisms.step_sums import Linearization, Stack
from dpinfer.mechanisms.sums import Block
from dpinfer.mechanisms.unit_sums import (
    UnitRows,
    in_own_order,
    linked_units,
    unit_histogram,
    unit_influences,
    unit_remainder,
    unit_row_counts,
    unit_stack,
)
from dpinfer.numerics.bins import UNIT_ROW_EDGES
from dpinfer.numerics.links import IDENTITY, LOG, LOGIT
from dpinfer.rows.source import Rows

NOTIONS = (Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT)
FAMILIES = (IDENTITY, LOGIT, LOG)
DIM = 3


def line(family, matrix, coef):
    everywhere = np.ones(len(coef))
    return Linearization(family, matrix, coef, np.inf, -everywhere, everywhere)


def block_of(rows, labels, sizes):
    starts = np.cumsum(np.concatenate([[0], sizes[:-1]])).astype(np.intp)
    return Block(np.asarray(rows, float), np.asarray(labels, float), 1.0, 1.0, starts)


def as_they_are(**changes):
    """A link whose rows are the labels' own: gaps are labels, slopes and counts 1."""

    def link(block):
        m = len(block)
        given = {"gap": block.labels, "slope": np.ones(m), "counts": np.ones(m)} | changes
        return UnitRows(
            block.rows, np.zeros(m), given["gap"], given["slope"], given["counts"], block.starts
        )

    return link


def moved(query, notion, first, second):
    """How far a sum moves, over its bound, if one unit is replaced by another or, without one, added."""
    other = query.of_block(second) if notion.counted else 0.0
    return float(np.linalg.norm(query.of_block(first) - other)) / query.bound


@pytest.mark.parametrize("notion", NOTIONS)
def test_guarantee_unit_stack_sensitivity(notion):
    """The pair of the proof attains the bound: opposite scores, and Hessians along different rows."""
    stack = Stack.of_units(notion)
    squares = 4 + 2 * stack.hessian, 1 + stack.hessian + stack.score_cov
    query = unit_stack(as_they_are(), 0.5, stack)
    assert query.bound**2 == pytest.approx(squares[0] if notion.counted else squares[1])
    tiny = 1e-3
    first = block_of([[40.0, 0, 0], [0, 0, tiny]], [0.0, 1e9], [2])
    second = block_of([[0, 40.0, 0], [0, 0, tiny]], [0.0, -1e9], [2])
    assert 0.999 < moved(query, notion, first, second) <= 1.0
    rng = np.random.default_rng(0)
    for family in FAMILIES:
        worst = searched(rng, family, notion, stack)
        assert 0.85 < worst <= 1.0


def searched(rng, family, notion, stack, tries=300, climbs=250):
    """The largest move, over the bound, of random pairs of units with 1 to 4 rows, and then of a climb."""

    def at(pair, sizes, setting):
        cells = pair.reshape(-1, DIM + 1)
        rows = cells[:, :DIM] / np.maximum(1, np.linalg.norm(cells[:, :DIM], axis=1))[:, None]
        labels = np.where(cells[:, DIM] > 0, 1.0, -1.0)
        labels = labels if family is LOGIT else np.tanh(cells[:, DIM])
        matrix, coef, clip = setting
        query = unit_stack(linked_units(line(family, matrix, coef), 1.0, 1.0), clip, stack)
        units = [
            block_of(rows[: sizes[0]], labels[: sizes[0]], [sizes[0]]),
            block_of(rows[sizes[0] :], labels[sizes[0] :], [sizes[1]]),
        ]
        return moved(query, notion, *units)

    best, where = 0.0, None
    for _ in range(tries):
        sizes = rng.integers(1, 5, 2)
        setting = (
            10 ** rng.uniform(-0.5, 1.5) * rng.standard_normal((DIM, DIM)),
            rng.standard_normal(DIM),
            10 ** rng.uniform(-3, 0),
        )
        pair = rng.standard_normal((sizes.sum(), DIM + 1)) * 10 ** rng.uniform(-1, 1)
        value = at(pair, sizes, setting)
        if value > best:
            best, where = value, (pair, sizes, setting)
    pair, sizes, setting = where
    for step in np.geomspace(1, 1e-3, climbs):
        ahead = pair * np.exp(0.5 * step * rng.standard_normal(pair.shape))
        ahead += 0.2 * step * rng.standard_normal(pair.shape)
        value = at(ahead, sizes, setting)
        if value > best:
            best, pair = value, ahead
    return best


@pytest.mark.parametrize(
    "changed",
    [
        {"weights": lambda at: np.ones(len(at.starts))},
        {"weights": lambda at: np.minimum(1, 1 / at.summed((at.rows**2).max(axis=1)))},
    ],
)
def test_weights_that_forget_the_rows_are_caught(changed, monkeypatch):
    """Without a weight, or with one of the largest entries alone, a unit moves the stack by more than its bound."""
    monkeypatch.setattr(UnitRows, "weights", property(changed["weights"]))
    stack = Stack.of_units(NOTIONS[0])
    query = unit_stack(as_they_are(), 0.5, stack)
    first = block_of(np.full((5, DIM), 0.9), np.ones(5), [5])
    second = block_of([[1.0, -1.0, 0]], [-1.0], [1])
    assert moved(query, NOTIONS[0], first, second) > 1.0


def test_rows_clipped_one_by_one_are_caught(monkeypatch):
    """A clip by rows instead of by units would let a unit add as much as it has rows."""

    def by_rows(at):
        return np.repeat(at.scores, 4, axis=0)

    query = unit_stack(as_they_are(), 0.5, Stack.of_units(NOTIONS[0]))
    one = block_of(np.eye(DIM), np.ones(DIM), [DIM])
    assert moved(query, NOTIONS[0], one, block_of([[0.0, 0, -1]], [9.0], [1])) <= 1
    monkeypatch.setattr(UnitRows, "scores", property(by_rows_of(UnitRows.scores.func, by_rows)))
    far = block_of([[0.0, 0, 1]], [9.0], [1])
    assert moved(query, NOTIONS[0], far, block_of([[0.0, 0, -1]], [9.0], [1])) > 1


def by_rows_of(scores, repeat):
    """Scores of a unit as often as it would have rows."""
    return lambda at: np.repeat(scores(at), 4, axis=0)


WILD = (1e-300, 1e-160, 1e-20, 1e-3, 0.3, 1.0, 7.0, 1e3, 1e20, 1e140)


def test_guarantee_unit_hessian_norm(monkeypatch):
    """In rational arithmetic, for units of one row to many more than columns, and sizes of every order."""
    rng = np.random.default_rng(1)
    worst = Fraction(0)

    def largest(trials=60):
        found = Fraction(0)
        for trial in range(trials):
            sizes = [int(rng.integers(1, 12)) for _ in range(3)]
            scale = WILD[trial % len(WILD)]
            rows = rng.standard_normal((sum(sizes), DIM)) * scale
            rows[rng.random(len(rows)) < 0.2] = rows[0]
            slope = np.where(rng.random(len(rows)) < 0.1, 0.0, rng.uniform(0, 1, len(rows)))
            at = as_they_are(slope=slope)(block_of(rows, np.zeros(len(rows)), sizes))
            counted = np.sqrt(at.of_rows(at.weights) * at.counts * at.slope)
            vectors = at.rows * counted[:, None]
            for first, size in zip(at.starts, at.sizes, strict=True):
                found = max(found, squared_norm(vectors[first : first + size]))
        return found

    worst = largest()
    assert 1 - Fraction(1, 10**9) < worst <= 1
    # without the room for rounding some unit is beyond 1
    weights = lambda at: 1 / np.maximum(1, at.hessian_norms)  # noqa: E731
    monkeypatch.setattr(UnitRows, "weights", property(weights))
    assert largest(200) > 1


def squared_norm(vectors):
    """Return ‖Σ v vᵀ‖_F² exactly."""
    exact = [[Fraction(float(x)) for x in v] for v in vectors]
    inner = [[sum(a * b for a, b in zip(v, w, strict=True)) for w in exact] for v in exact]
    return sum(x * x for row in inner for x in row)


def test_gram_and_square_matrices_have_the_same_norm():
    """A unit with more rows than columns takes the other way, with the same number."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((60, DIM))
    at = as_they_are()(
        block_of(rows, np.zeros(60), [1, 2, DIM, DIM + 1, 40, 60 - 41 - 2 * DIM - 2])
    )
    for norm, first, size in zip(at.hessian_norms, at.starts, at.sizes, strict=True):
        part = rows[first : first + size]
        assert norm == pytest.approx(np.linalg.norm(part.T @ part), rel=1e-12)


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_guarantee_unit_remainder_sensitivity(notion, family):
    """Of random pairs of units none exceeds the bound, and some are near it."""
    rng = np.random.default_rng(3)
    bound = 2.0 if notion.counted else 1.0
    worst = 0.0
    for _ in range(60):
        link = linked_units(
            line(family, rng.standard_normal((DIM, DIM)), rng.standard_normal(DIM)), 1.0, 1.0
        )
        step = rng.standard_normal(DIM) * 10 ** rng.uniform(-1, 1)
        query = unit_remainder(link, family, step, 10 ** rng.uniform(-8, 0), notion)
        assert query.bound == bound
        sizes = rng.integers(1, 6, 8)
        units = [block_of(rng.standard_normal((m, DIM)), np.ones(m), [m]) for m in sizes]
        worst = max(worst, *(moved(query, notion, *pair) for pair in combinations(units, 2)))
    assert worst <= 1
    if not family.exact:
        assert worst > 0.7


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_changes_the_score_as_released(family):
    """With the weights of the line, score after a step = g - H a - R, exactly."""
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 9, 40)
    rows = rng.standard_normal((sizes.sum(), DIM)) / 3
    block = block_of(rows, rng.choice([-1.0, 1.0], len(rows)), sizes)
    matrix, coef = rng.standard_normal((DIM, DIM)), rng.standard_normal(DIM)
    step = 0.3 * rng.standard_normal(DIM)
    stack = Stack.of_units(NOTIONS[0])
    link = linked_units(line(family, matrix, coef), 0.4, 1.0)
    at = link(block)
    score, hessian = stack.score_and_hessian(
        unit_stack(link, 1e6, stack, covariance=False).of_block(block), DIM, 1e6
    )
    remainder = 1e6 * unit_remainder(link, family, step, 1e6, NOTIONS[0]).of_block(block)
    after = linked_units(line(family, matrix, coef + matrix.T @ step), 0.4, 1.0)(block)
    factors = at.of_rows(at.weights) * at.counts * after.gap
    assert score - hessian @ step - remainder == pytest.approx(factors @ at.rows, abs=1e-9)


def test_the_remainder_of_a_unit_is_within_the_bound_that_chooses_its_clip():
    """‖R_i‖ <= ‖a‖ (e^Z - 1 - Z)/Z with Z = max |z_j|, for units of any number of rows."""
    rng = np.random.default_rng(5)
    nearest = 0.0
    for family in (LOGIT, LOG):
        for _ in range(300):
            size = int(rng.integers(1, 8))
            block = block_of(rng.standard_normal((size, DIM)), np.ones(size), [size])
            point = line(family, 3 * rng.standard_normal((DIM, DIM)), rng.standard_normal(DIM))
            link = linked_units(point, 1.0, 1.0)
            step = rng.standard_normal(DIM) * 10 ** rng.uniform(-2, 0)
            far = np.abs(link(block).rows @ step).max()
            if far > 20:
                continue
            bound = np.linalg.norm(step) * (np.expm1(far) - far) / far
            clip = 1e6
            found = clip * np.linalg.norm(
                unit_remainder(link, family, step, clip, NOTIONS[0]).of_block(block)
            )
            nearest = max(nearest, found / bound)
    assert 0.5 < nearest <= 1


@pytest.mark.parametrize("notion", NOTIONS)
def test_guarantee_unit_histogram_sensitivity(notion):
    """A unit is in one bin, or in none, whatever its number."""
    rng = np.random.default_rng(6)
    link = linked_units(line(LOGIT, 5 * np.eye(DIM), np.ones(DIM)), 1.0, 1.0)
    queries = [
        unit_influences(link, 2.0, notion),
        unit_row_counts(notion),
        unit_histogram(lambda block: np.full(len(block.starts), np.inf), np.ones(3), notion),
    ]
    for query in queries:
        assert query.bound == pytest.approx(np.sqrt(2) if notion.counted else 1)
        for size in (1, 2, 5, 30):
            rows = rng.standard_normal((size, DIM)) * rng.choice([0.0, 1e-9, 1.0, 1e9])
            counts = query.of_block(block_of(rows, np.ones(size), [size]))
            assert sorted(counts)[-1] <= 1
            assert counts.sum() <= 1
    counts = unit_row_counts(notion).of_block(
        block_of(np.ones((13, DIM)), np.ones(13), [1, 2, 3, 7])
    )
    assert counts[:5].tolist() == [1, 1, 1, 0, 1]
    assert UNIT_ROW_EDGES[:6].tolist() == [2, 3, 4, 6, 8, 12]


@pytest.mark.parametrize("notion", NOTIONS)
def test_guarantee_linked_units(notion):
    """The bits of a unit do not depend on where it stands, nor on a cluster on the order of its rows."""
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 30, 80)
    rows = rng.standard_normal((sizes.sum(), 12))
    block = block_of(rows, rng.choice([-1.0, 1.0], len(rows)), sizes)
    link = linked_units(line(LOG, rng.standard_normal((12, 12)), rng.standard_normal(12)), 0.3, 1.0)
    together = link(block)
    for k in (0, 1, 17, 79):
        first, last = block.starts[k], block.starts[k] + sizes[k]
        alone = link(block[first:last])
        assert np.array_equal(alone.scores[0], together.scores[k])
        assert alone.weights[0] == together.weights[k]
        shuffled = rng.permutation(sizes[k])
        moved_rows = Block(
            block.rows[first:last][shuffled],
            block.labels[first:last][shuffled],
            starts=np.zeros(1, np.intp),
            fixed=False,
        )
        placed = Block(
            block.rows[first:last],
            block.labels[first:last],
            starts=np.zeros(1, np.intp),
            fixed=False,
        )
        assert np.array_equal(link(moved_rows).scores, link(placed).scores)
        assert np.array_equal(in_own_order(placed).rows, in_own_order(moved_rows).rows)


@pytest.mark.parametrize("notion", NOTIONS)
def test_nothing_that_is_not_finite_comes_out(notion):
    """Rows and lines of every size, zero rows, and blocks without rows; without ids there is no unit."""
    rng = np.random.default_rng(8)
    for family in FAMILIES:
        for scale in (0.0, 1e-140, 1.0, 1e60, 1e140):
            for clip in (1e-140, 1.0, 1e140):
                link = linked_units(
                    line(family, scale * rng.standard_normal((DIM, DIM)), scale * np.ones(DIM)),
                    1.0,
                    1.0,
                )
                rows = rng.standard_normal((7, DIM)) * 10 ** rng.uniform(-5, 5, (7, 1))
                rows[2] = 0.0
                block = block_of(rows, np.ones(7), [1, 2, 4])
                stack = Stack.of_units(notion)
                with np.errstate(all="ignore"):
                    for query in (
                        unit_stack(link, clip, stack),
                        unit_remainder(link, family, np.ones(DIM), clip, notion),
                        unit_influences(link, 1.0, notion),
                    ):
                        assert np.isfinite(query.of_block(block)).all()
                        assert not query.of_block(block[0:0]).any()
    with pytest.raises(PrivacyError):
        unit_row_counts(notion).of_block(Block(np.ones((2, DIM)), np.ones(2)))
    for clip in (0.0, 1e200, np.nan):
        with pytest.raises(PrivacyError):
            unit_stack(as_they_are(), clip, Stack.of_units(notion))
    with pytest.raises(PrivacyError):
        linked_units(line(LOGIT, 1e200 * np.eye(DIM), np.ones(DIM)), 1.0, 1.0)
    with pytest.raises(PrivacyError):
        unit_remainder(as_they_are(), LOGIT, np.array([1e200]), 1.0, notion)


@pytest.mark.parametrize("step", [1, 7, 256])
def test_blocks_never_split_a_unit(step, monkeypatch):
    """The totals are those of one block, however long blocks are."""
    monkeypatch.setattr("dpinfer.rows.source.BLOCK", step)
    rng = np.random.default_rng(9)
    ids = rng.integers(0, 60, 900)
    ids[100:500] = 7
    source = Rows.of(rng.uniform(-0.5, 0.5, (900, DIM)), rng.choice([-1.0, 1.0], 900))
    counted = source.counted(1.0, ids)
    link = linked_units(line(LOGIT, 3 * np.eye(DIM), np.ones(DIM)), 0.2, 1.0)
    for query in (unit_stack(link, 0.1, Stack.of_units(NOTIONS[0])), unit_row_counts(NOTIONS[0])):
        assert counted.total(query.of_block) == pytest.approx(
            query.of_block(counted.block), rel=1e-11
        )


def test_the_order_of_stacks_changes_no_bit(monkeypatch):
    """Gram matrices are formed some units at a time."""
    rng = np.random.default_rng(10)
    sizes = rng.integers(1, 6, 300)
    at = as_they_are()(
        block_of(rng.standard_normal((sizes.sum(), DIM)), np.zeros(sizes.sum()), sizes)
    )
    whole = at.hessian_norms
    monkeypatch.setattr(unit_sums, "_STACK", 1)
    again = as_they_are()(block_of(at.rows, np.zeros(len(at.rows)), sizes)).hessian_norms
    assert np.array_equal(whole, again)
