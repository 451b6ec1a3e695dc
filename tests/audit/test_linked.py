"""Rows at a released line, the stack of a step, and what a step leaves: bounds attained, never
exceeded; exactness.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms import step_sums as families
from dpinfer.mechanisms.histograms import histogram, influence_histogram
from dpinfer.mechanisms.step_sums import (
    Linearization,
    LinearizedBlock,
    Stack,
    remainder_sum,
    step_sums,
)
from dpinfer.mechanisms.sums import Block, clip_rows
from dpinfer.numerics.bins import count_edges
from dpinfer.numerics.links import IDENTITY, LOG, LOGIT
from dpinfer.rows.source import Rows

FAMILIES = (IDENTITY, LOGIT, LOG)
BENT = (LOGIT, LOG)  # a step of theirs leaves something
NAMES = {"ids": lambda one: getattr(one, "name", str(one))}
TINY = 5e-324


def line_of(matrix, coef, most=1.5, family=LOGIT, low=None, high=None):
    """A line whose columns are clipped nowhere, unless it is said where."""
    everywhere = np.ones(len(coef))
    return Linearization(
        family,
        np.asarray(matrix, dtype=float),
        np.asarray(coef, dtype=float),
        most if family is LOGIT else np.inf,
        -everywhere if low is None else low,
        everywhere if high is None else high,
    )


def exact(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


# --- rows at a line


def wild_rows(d, seed):
    """Rows in the ball with a first column that is 0 in zero rows alone, of all sizes, at the bound
    among them.
    """
    rng = np.random.default_rng(seed)
    mixed = rng.choice([0.0, TINY, -TINY, 2e-308, 1e-160, 2.0**-27, 0.5, -1.0, 1.0], (40, d))
    random = rng.standard_normal((60, d)) * 10.0 ** rng.uniform(-3, 1, (60, 1))
    return np.vstack([clip_rows(np.vstack([mixed, random])), np.zeros((2, d))])


def wild_lines(d, family, seed):
    """Lines, matrices, clips and influences of every size that is not refused."""
    rng = np.random.default_rng(seed)
    square = rng.standard_normal((d, d))
    low = rng.uniform(-1, 0, d)
    high = rng.uniform(0, 1, d)
    for size in (1.0, 1e3, 1e147, 1e-150, 1e-310):
        for steep in (0.0, 1.0, 40.0, 1e146):
            for most in (1e-140, 1e-3, 1.0, 1e9):
                yield line_of(size * square, steep * square[0], most, family)
    for _ in range(4):
        scaled = square * 10.0 ** rng.uniform(-9, 9, (d, 1))
        yield line_of(scaled, 3 * square[0], 1.0, family, low, high)


def heaviest(linked):
    """The largest w h'‖u‖² over the share of its row, in rational arithmetic: of the rows whose
    logarithms, which know no overflow, come near the largest.
    """
    block = linked.block
    factors = np.stack([block.weights, linked.slope, np.broadcast_to(block.shares, len(block))])
    with np.errstate(divide="ignore"):
        w, slope, share = np.log2(factors)
        sizes = np.logaddexp2.reduce(2 * np.log2(np.abs(block.rows)), axis=1)
    logs = w + slope + sizes - share
    found = []
    for k in np.flatnonzero(logs >= logs.max() - 0.01):
        w, slope, share = exact(factors[:, k])
        found.append(w * slope * sum(x**2 for x in exact(block.rows[k])) / share)
    return max(found)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("family", FAMILIES, **NAMES)
@pytest.mark.parametrize("notion", Adjacency)
def test_guarantee_linked_rows(notion, family, d, monkeypatch):
    """In rational arithmetic; with a weight that forgets the slope, or the factor for rounding, it
    is not so.
    """
    rows = wild_rows(d, d)
    source = Rows(Block(rows, np.resize([1.0, -1.0, 0.3], len(rows))))
    if notion.units:
        source = source.counted(
            1.0, np.arange(len(rows)) // 3, np.resize([1.0, 0.2, 0.0, 5.0], len(rows))
        )
    block = source.block
    zero = ~block.rows.any(axis=1)
    assert zero.any()
    for line in wild_lines(d, family, 7):
        with np.errstate(all="ignore"):
            linked = line.linked(block, 1.0, notion)
        seen = linked.block
        assert np.isfinite(seen.rows).all()
        assert np.isfinite(seen.labels).all()
        assert np.isfinite(seen.weights).all()
        assert (seen.weights >= 0).all()
        assert heaviest(linked) <= 1
        assert not seen.rows[zero].any()
        assert np.array_equal(seen.shares, block.shares)
    if d > 1 and not notion.units:
        monkeypatch.setattr(families, "shrunk", lambda dim: 1.0)
        with np.errstate(all="ignore"):
            bare = [line.linked(block, 1.0, notion) for line in list(wild_lines(d, family, 7))[:40]]
        assert max(map(heaviest, bare)) > 1


@pytest.mark.parametrize("d", [2, 13, 33, 40])
@pytest.mark.parametrize("family", FAMILIES, **NAMES)
def test_the_numbers_of_a_row_do_not_depend_on_its_place(d, family):
    """To the bit, where the others may move, with clipped columns and without; and those of its
    rest.
    """
    rng = np.random.default_rng(d)
    block = Block(clip_rows(rng.standard_normal((700, d))), rng.choice([-1.0, 1.0], 700))
    ends = np.where(np.arange(d) % 3 == 1, 0.1, 1.0)
    line = line_of(
        3 * rng.standard_normal((d, d)), rng.standard_normal(d), 1.0, family, -ends, ends
    )
    for notion in (Adjacency.ADD_REMOVE, Adjacency.REPLACE_UNIT, Adjacency.ADD_REMOVE_UNIT):
        whole = line.linked(block, 4.0, notion)
        for k in (1, 2, 3, 5, 16, 255, 699):
            later = line.linked(block[k:], 4.0, notion)
            assert np.array_equal(later.block.rows, whole.block.rows[k:])
            assert np.array_equal(later.block.labels, whole.block.labels[k:])
            assert np.array_equal(later.block.weights, whole.block.weights[k:])
            assert np.array_equal(later.predictor, whole.predictor[k:])
            assert np.array_equal(later.slope, whole.slope[k:])
            assert np.array_equal(later.influence, whole.influence[k:])


def test_rows_that_a_cluster_placed_are_taken_one_by_one():
    """Also where one record is replaced: a matrix product is for rows that keep their place."""
    rng = np.random.default_rng(0)
    rows = clip_rows(rng.standard_normal((300, 40)))
    line = line_of(rng.standard_normal((40, 40)), rng.standard_normal(40))
    moved = line.linked(Block(rows, np.ones(300), fixed=False), 1.0, Adjacency.REPLACE)
    alone = line.linked(Block(rows, np.ones(300)), 1.0, Adjacency.ADD_REMOVE)
    assert np.array_equal(moved.block.rows, alone.block.rows)


def test_columns_are_clipped_before_anything_else():
    """To the stated ends, those of a zero row to 0; others keep every bit."""
    rows = np.array([[0.5, 0.4, -0.4], [0.5, -0.5, 0.1], [0.0, 0.0, 0.0]])
    line = line_of(
        np.eye(3),
        np.zeros(3),
        1e9,
        IDENTITY,
        np.array([-1.0, 0.2, -1.0]),
        np.array([1.0, 0.6, 1.0]),
    )
    seen = line.linked(Block(rows, np.zeros(3)), 4.0, Adjacency.REPLACE).block.rows
    assert np.array_equal(seen, 2 * np.array([[0.5, 0.3, -0.4], [0.5, 0.1, 0.1], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("matrix", "coef", "most"),
    [
        (1e300, 1.0, 1.0),
        (np.nan, 1.0, 1.0),
        (1.0, np.inf, 1.0),
        (1.0, 1e150, 1.0),
        (1.0, 1.0, 0.0),
        (1.0, 1.0, np.nan),
    ],
)
def test_lines_that_floats_cannot_hold_are_refused(matrix, coef, most):
    """By what is released alone: with no record at all, too."""
    line = Linearization(
        LOGIT, np.full((2, 2), matrix), np.full(2, coef), most, -np.ones(2), np.ones(2)
    )
    for rows in (np.zeros((0, 2)), np.full((3, 2), 0.5)):
        with pytest.raises(dp.PrivacyError, match="too large for floats"):
            line.linked(Block(rows, np.ones(len(rows))), 1.0, Adjacency.REPLACE)


@pytest.mark.parametrize("size", [1e-140, 1e-152, 1e-163, 1e-300, 5e-324])
@pytest.mark.parametrize("family", [IDENTITY, LOG], **NAMES)
def test_rows_whose_squares_underflow_are_clipped_too(family, size):
    """A tiny row that is far from an absurd line adds no more than any other."""
    line = line_of(np.eye(2), np.array([1e147, 0.0]), 1.0, family)
    block = Block(np.array([[1.0, 0.0], [1.0, size]]), np.ones(2))
    for matrix in (np.diag([size, size]), np.array([[0.0, 0.0], [0.0, 1.0]])):
        here = replace(line, matrix=matrix)
        for row in (block[:1], block[1:]):
            added = step_sums(here, 1e-140, Stack.of(Adjacency.ADD_REMOVE), 1.0).of_block(row)
            assert np.linalg.norm(added) <= Stack.of(Adjacency.ADD_REMOVE).bound


@pytest.mark.parametrize("family", FAMILIES, **NAMES)
def test_squares_stay_finite_in_many_columns(family):
    """The largest matrix that is not refused, 300 columns: what is not finite would be released as
    0, and tell.  Means of counts are as large as they get.
    """
    d = 300
    coef = np.full(d, 1e3) if family is LOG else np.zeros(d)
    line = line_of(np.full((d, d), 0.99e148), coef, 1.0, family)
    block = Block(np.full((2, d), d**-0.5), np.ones(2))
    for clip in (1e-140, 1.0, 1e140):
        what = step_sums(line, clip, Stack.of(Adjacency.REPLACE), 1.0)
        assert np.isfinite(Rows(block).total(what.of_block)).all()  # and no warning tells of it


# --- the stack of a step


WEIGHTS = [(1.0, 0.25, Adjacency.REPLACE, 5.0), (0.5, 0.1, Adjacency.ADD_REMOVE, 1.6)]
WEIGHTS += [(0.5, 0.45, Adjacency.REPLACE, 4.5), (0.25, 0.15, Adjacency.ADD_REMOVE, 1.4)]
SQUARE = np.array([[1.3, -0.4], [0.6, 2.1]])
COEF = np.array([0.4, -1.1])


def of_record(what, flat):
    """What a record adds: two numbers and an outcome from numbers without limits; the row is (1, x)
    over sqrt 2.
    """
    rows = np.array([[1.0, np.tanh(flat[0])]]) / np.sqrt(2)
    return what.of_block(Block(rows, np.array([1.0 if flat[1] > 0 else -1.0])))


def worst(added, notion, width, starts=150, polish=6):
    """The largest change by random pairs and a local search from the best of them."""
    rng = np.random.default_rng(0)

    def change(pair):
        others = added(pair[width:]) if notion.counted else 0.0
        return float(np.linalg.norm(added(pair[:width]) - others))

    numbers = notion.pick(2, 1) * width
    pairs = rng.standard_normal((starts, numbers)) * 10 ** rng.uniform(-1, 0.7, (starts, 1))
    pairs = sorted(pairs, key=change)
    found = [change(pairs[-1])]
    for pair in pairs[-polish:]:
        search = optimize.minimize(
            lambda z: -change(z), pair, method="Nelder-Mead", options={"maxiter": 300}
        )
        found.append(-search.fun)
    return max(found)


@pytest.mark.parametrize(("curvature", "score", "notion", "squared"), WEIGHTS)
@pytest.mark.parametrize("family", FAMILIES, **NAMES)
def test_the_stack_of_a_step_keeps_its_bound(family, curvature, score, notion, squared):
    """For the weights of all plans and rows (1, x) at lines of every family; the row of worst sizes
    comes near.
    """
    stack = Stack(curvature, score, notion)
    assert stack.bound**2 == pytest.approx(squared, abs=1e-12)
    found = []
    for i, size in enumerate((0.3, 2.0, 30.0)):
        for j, most in enumerate((0.2, 1.0, 5.0)):
            line = line_of(size * SQUARE, COEF, most, family)
            clip = min(line.max_influence, 0.5 * most)
            what = step_sums(line, clip, stack, 2.0, covariance=(i + j) % 2 == 0)
            assert what.bound == stack.bound
            found.append(worst(lambda flat, what=what: of_record(what, flat), notion, 2, 40, 1))
    assert max(found) <= stack.bound * (1 + 1e-9)
    assert max(found) > 0.9 * stack.bound


def test_the_plans_have_these_weights():
    for code in ("replace", "replace-unit", "add-remove", "add-remove-unit"):
        logistic = dp.GeometryPlan(dp.ZCDP(1.0), neighbours=code).stack
        least = dp.LinearPlan(dp.ZCDP(1.0), neighbours=code).stack
        assert dp.PoissonPlan(dp.ZCDP(1.0), neighbours=code).stack == least
        counted = code.startswith("replace")
        assert logistic.bound**2 == pytest.approx(5.0 if counted else 1.6, abs=1e-12)
        assert least.bound**2 == pytest.approx(4.5 if counted else 1.4, abs=1e-12)


# --- what a step leaves


def rest_of(line, step, clip, notion):
    return remainder_sum(line, np.asarray(step, dtype=float), clip, 2.0, notion)


def unit_rest(what, cells, notion):
    """What a unit of several rows adds; without units its first row."""
    cells = cells.reshape(-1, 3)
    rows = np.column_stack([np.ones(len(cells)), np.tanh(cells[:, 0])]) / np.sqrt(2)
    labels = np.where(cells[:, 1] > 0, 1.0, -1.0)
    if not notion.units:
        return what.of_block(Block(rows[:1], labels[:1]))
    shares = expit(cells[:, 2]) / max(1.0, expit(cells[:, 2]).sum())
    return what.of_block(Block(rows, labels, shares, shares, np.zeros(1, np.intp)))


STEPS = [(0.1, 0.05), (-0.6, 1.5), (3.0, -2.0), (40.0, 90.0), (1e3, 0.0)]


@pytest.mark.parametrize("family", BENT, **NAMES)
@pytest.mark.parametrize("notion", Adjacency)
def test_guarantee_remainder_sensitivity(notion, family):
    """2 or 1, by searches over pairs of records and of units of three rows, for short steps and
    absurd ones.
    """
    bound = 2.0 if notion.counted else 1.0
    found = []
    for i, step in enumerate(STEPS):
        for j, clip in enumerate((1e-4, 0.05, 2.0) if family is LOGIT else (1e-4, 2.0)):
            size = 0.5 if family is LOGIT and (i + j) % 2 else 4.0
            what = rest_of(line_of(size * SQUARE, COEF, 1.2, family), step, clip, notion)
            assert what.bound == bound
            width = 9 if notion.units else 3
            added = lambda flat, what=what: unit_rest(what, flat, notion)  # noqa: E731
            found.append(worst(added, notion, width, 30, 1))
    assert max(found) <= bound * (1 + 1e-12)
    assert max(found) > 0.8 * bound


@pytest.mark.parametrize("family", BENT, **NAMES)
def test_mutations_of_the_rest_are_caught(family, monkeypatch):
    """Rows that count more than their share of a unit, or no clip at all: the bound is exceeded."""
    notion = Adjacency.ADD_REMOVE_UNIT
    what = rest_of(line_of(4 * SQUARE, COEF, 1.2, family), STEPS[2], 1e-3, notion)
    flat = np.array([2.0, 1.0, 3.0] * 3)
    assert 0.99 < np.linalg.norm(unit_rest(what, flat, notion)) <= 1
    rows = np.tile(np.array([[1.0, 0.9]]) / np.sqrt(2), (3, 1))
    block = Block(rows, np.ones(3), np.ones(3), np.ones(3), np.zeros(1, np.intp))
    assert np.linalg.norm(what.of_block(block)) > 2
    monkeypatch.setattr(families, "shrunk", lambda dim: 1e9)
    assert np.linalg.norm(unit_rest(what, flat, notion)) > 10


@pytest.mark.parametrize("family", BENT, **NAMES)
def test_a_rest_is_at_most_one_in_real_numbers(family):
    """A record's part in rational arithmetic, where the clip is small and everybody is pulled into
    it.
    """
    rng = np.random.default_rng(0)
    for d in (1, 3, 9):
        rows = np.column_stack([np.ones(60), rng.uniform(-1, 1, (60, d - 1))]) / np.sqrt(d)
        line = line_of(5 * rng.standard_normal((d, d)), rng.standard_normal(d), 1.0, family)
        what = remainder_sum(line, 3 * rng.standard_normal(d), 1e-9, float(d), Adjacency.REPLACE)
        sizes = []
        for row in rows:
            added = what.of_block(Block(row[None], np.ones(1)))
            sizes.append(sum(x**2 for x in exact(added)))
        assert max(sizes) <= 1
        assert max(sizes) > 1 - Fraction(1, 10**12)


@pytest.mark.parametrize(
    ("step", "clip"),
    [(np.inf, 1.0), (np.nan, 1.0), (1e149, 1.0), (1.0, 0.0), (1.0, np.inf), (1.0, np.nan)],
)
def test_steps_that_floats_cannot_hold_are_refused(step, clip):
    with pytest.raises(dp.PrivacyError, match="too large for floats"):
        remainder_sum(line_of(SQUARE, COEF), np.full(2, step), clip, 2.0, Adjacency.REPLACE)


@pytest.mark.parametrize("family", BENT, **NAMES)
def test_a_zero_row_and_no_row_leave_nothing(family):
    line = line_of(SQUARE, COEF, family=family)
    what = remainder_sum(line, np.array([1.0, 2.0]), 1e-3, 2.0, Adjacency.ADD_REMOVE)
    assert not what.of_block(Block(np.zeros((3, 2)), np.ones(3))).any()
    assert not what.of_block(Block(np.zeros((0, 2)), np.ones(0))).any()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("family", BENT, **NAMES)
def test_the_score_after_a_step_is_what_is_left(family, seed):
    """g - H a - R is the weighted score at the line after the step, to 1e-12, the weights being
    those of the line.
    """
    rng = np.random.default_rng(seed)
    n, d = 3000, 4
    x = np.column_stack([np.ones(n), np.clip(rng.standard_normal((n, d - 1)) / 2, -1, 1)])
    y = (rng.random(n) < expit(x @ rng.standard_normal(d))).astype(float)
    labels = np.where(y, 1.0, -1.0)
    if family is LOG:
        labels = y * rng.uniform(0, 1, n)
        y = labels
    matrix = rng.standard_normal((d, d))
    coef = rng.standard_normal(d) / 2
    step = rng.standard_normal(d) / 2
    line = line_of(matrix, coef, 1.5, family)
    source = Rows(Block(x / np.sqrt(d), labels))
    notion = Adjacency.REPLACE
    stack = Stack(1.0, 0.25, notion)
    clip = 1e6
    linked = line.linked(source.block, float(d), notion)
    sums_at = step_sums(line, clip, stack, float(d)).of_block(source.block)
    score, hessian, _ = stack.split(sums_at, d, clip)
    rest = clip * source.total(remainder_sum(line, step, clip, float(d), notion).of_block)
    weights = linked.block.weights
    assert weights.min() < 0.9
    after = matrix @ ((weights * (y - family.mean(x @ (coef + matrix.T @ step)))) @ x)
    assert (
        np.abs(score - hessian @ step - rest - after).max()
        <= 1e-12 * np.abs(weights[:, None] * x @ matrix.T).sum()
    )
    assert np.linalg.norm(rest) > 1e-3 * np.linalg.norm(after)  # the rest is no idle one


def test_what_a_count_leaves_is_bounded_by_the_step():
    """At most ‖a‖(e^Z - 1 - Z)/Z where |z| <= Z, which is attained: w h‖u‖² <= 1, |z| <= ‖u‖‖a‖."""
    rng = np.random.default_rng(3)
    near = 0.0
    for _ in range(300):
        d = int(rng.integers(1, 5))
        matrix = rng.standard_normal((d, d)) * 10 ** rng.uniform(-1, 1)
        step = rng.standard_normal(d) * 10 ** rng.uniform(-2, 1)
        line = line_of(matrix, rng.standard_normal(d) * 10 ** rng.uniform(-1, 0.7), family=LOG)
        x = np.column_stack([np.ones(200), rng.uniform(-1, 1, (200, d - 1))])
        seen = line.linked(Block(x / np.sqrt(d), np.ones(200)), float(d), Adjacency.REPLACE)
        z = seen.block.rows @ step
        size = seen.influence * np.abs(LOG.left(seen.predictor, z))
        some = (np.abs(seen.predictor) < 29) & (np.abs(z) > 1e-2) & (np.abs(z) < 30)
        reach = np.abs(z[some])
        by_length = size[some] / (np.linalg.norm(step) * (np.expm1(reach) - reach) / reach)
        near = max(near, by_length.max(initial=0.0))
    assert 0.99 < near <= 1 + 1e-9


def test_what_a_record_leaves_is_bounded_by_the_step():
    """At most ‖a‖(e^Z - 1 - Z)/Z and at most B Z²/(6 sqrt 3) where |z| <= Z; influences are at most
    B.
    """
    rng = np.random.default_rng(3)
    near = np.zeros(3)
    for _ in range(300):
        d = int(rng.integers(1, 5))
        matrix = rng.standard_normal((d, d)) * 10 ** rng.uniform(-1, 1)
        most = 10 ** rng.uniform(-1, 1)
        step = rng.standard_normal(d) * 10 ** rng.uniform(-2, 1)
        line = line_of(matrix, rng.standard_normal(d) * 10 ** rng.uniform(-1, 0.7), most)
        x = np.column_stack([np.ones(200), rng.uniform(-1, 1, (200, d - 1))])
        seen = line.linked(Block(x / np.sqrt(d), np.ones(200)), float(d), Adjacency.REPLACE)
        z = seen.block.rows @ step
        size = seen.influence * np.abs(LOGIT.left(seen.predictor, z))
        some = (np.abs(seen.predictor) < 29) & (np.abs(z) > 1e-2) & (np.abs(z) < 30)
        reach = np.abs(z[some])
        by_length = size[some] / (np.linalg.norm(step) * (np.expm1(reach) - reach) / reach)
        by_most = size[some] / (most * reach**2 / (6 * np.sqrt(3)))
        influence = seen.influence * LOGIT.farthest(LOGIT.mean(seen.predictor)) / most
        found = [part.max(initial=0.0) for part in (by_length, by_most, influence)]
        near = np.maximum(near, found)
    assert (near <= 1 + 1e-9).all()
    assert (near > [0.5, 0.5, 0.999]).all()


# --- counts with an exposure: the last column of a row is added to the predictor as it is


def offset_line(size=2.0, coef=COEF, notch=30.0):
    """A line of counts whose rows end with the offset, which has no part in the geometry."""
    matrix = np.column_stack([size * SQUARE, np.zeros(2)])
    return line_of(matrix, np.append(coef, notch), family=LOG)


def exposed(cells):
    """Rows (1, x, offset) over sqrt 3 and outcomes in [0, 1], from numbers without limits; the
    offset is in [-1, 0], at its far end among others.
    """
    cells = cells.reshape(-1, 4)
    offset = -np.clip(expit(cells[:, 2]) * 1.2 - 0.1, 0.0, 1.0)
    rows = np.column_stack([np.ones(len(cells)), np.tanh(cells[:, 0]), offset])
    return rows / np.sqrt(3), np.clip(1.2 * expit(cells[:, 1]) - 0.1, 0.0, 1.0), expit(cells[:, 3])


def added_by(what, cells, notion):
    """What a record with an exposure adds, or a unit of several such rows."""
    rows, labels, weights = exposed(cells)
    if not notion.units:
        return what.of_block(Block(rows[:1], labels[:1]))
    shares = weights / max(1.0, weights.sum())
    return what.of_block(Block(rows, labels, shares, shares, np.zeros(1, np.intp)))


LINES = [(2.0, 0.05), (2.0, 3.0), (30.0, 0.3)]


def largest_change(what, notion, starts=60):
    width = 12 if notion.units else 4
    added = lambda flat: added_by(what, flat, notion)  # noqa: E731
    return worst(added, notion, width, starts, 2)


@pytest.mark.parametrize("notion", Adjacency)
def test_whatever_an_exposure_is_the_stack_keeps_its_bound(notion):
    """Attained: an exposure moves the mean and leaves the direction of a row as it is."""
    stack = Stack.of(notion)
    found = []
    for size, clip in LINES:
        what = step_sums(offset_line(size), clip, stack, 3.0)
        assert what.bound == stack.bound
        found.append(largest_change(what, notion))
    assert max(found) <= stack.bound * (1 + 1e-9)
    assert max(found) > (0.85 if notion.units else 0.97) * stack.bound


@pytest.mark.parametrize("notion", Adjacency)
def test_whatever_an_exposure_is_the_rest_keeps_its_bound(notion):
    bound = notion.pick(2.0, 1.0)
    found = []
    for size, clip in ((2.0, 1e-3), (30.0, 0.05)):
        for step in STEPS[1:4]:
            what = remainder_sum(offset_line(size), np.asarray(step), clip, 3.0, notion)
            assert what.bound == bound
            found.append(largest_change(what, notion, 30))
    assert max(found) <= bound * (1 + 1e-9)
    assert max(found) > (0.6 if notion.units else 0.8) * bound


@pytest.mark.parametrize("notion", Adjacency)
def test_whatever_an_exposure_is_a_record_is_in_one_bin(notion):
    """The sizes of counts and of influences: a unit in parts that add up to its share, a zero row
    in none.
    """
    line = offset_line()
    influences = influence_histogram(0.5, notion)
    at_line = replace(
        influences,
        of_block=lambda block: influences.of_block(line.linked(block, 3.0, notion).block),
    )
    for what in (histogram(count_edges(), notion), at_line):
        assert what.bound == notion.pick(2**0.5, 1.0)
        rng = np.random.default_rng(0)
        cells = rng.standard_normal((300, 12)) * 10 ** rng.uniform(-1, 1.5, (300, 1))
        seen = np.array([added_by(what, one, notion) for one in cells])
        assert (seen >= 0).all()
        assert seen.sum(axis=1).max() <= 1 + 1e-12
        apart = np.linalg.norm(seen[:, None] - seen, axis=2).max()
        assert apart <= 2**0.5 * (1 + 1e-12)
        assert apart > 1.3
        zero = Block(np.zeros((2, 3)), np.ones(2))
        assert not what.of_block(zero).any()


@pytest.mark.parametrize("exposure", [-1.0, -0.999, -1e-9, 0.0])
@pytest.mark.parametrize("coef", [(0.0, 0.0), (30.0, 0.0), (-30.0, 0.0), (1e5, 1e5)])
def test_means_at_the_far_ends_are_finite_and_bounded(exposure, coef):
    """A mean of e^-30 and less, or e^30 and more: what a record adds is bounded and no NaN."""
    for notion in (Adjacency.REPLACE, Adjacency.ADD_REMOVE):
        for size in (1e-150, 1e-6, 1.0, 1e6, 1e140):
            line = offset_line(size, np.asarray(coef))
            rows = np.array([[1.0, 1.0, exposure], [1.0, -1.0, exposure]]) / np.sqrt(3)
            for outcome in (0.0, 1e-300, 1.0):
                block = Block(rows, np.full(2, outcome))
                step = np.array([1e3, -1e3])
                for clip in (1e-140, 1e-3, 1e140):
                    stack = step_sums(line, clip, Stack.of(notion), 3.0)
                    rest = remainder_sum(line, step, clip, 3.0, notion)
                    for one in (block[:1], block[1:]):
                        for what, most in (
                            (stack, Stack.of(Adjacency.ADD_REMOVE).bound),
                            (rest, 1.0),
                        ):
                            added = what.of_block(one)
                            assert np.isfinite(added).all()
                            if what is rest or notion is Adjacency.ADD_REMOVE:
                                assert np.linalg.norm(added) <= most * (1 + 1e-9)


# --- mutations of the sums of counts: each must be seen by the searches above


def mutant(monkeypatch, name):
    """Break one of the bounds on purpose."""
    if name == "a clip twice as wide":
        monkeypatch.setattr(families, "shrunk", lambda dim: 2.0)
    elif name == "weights without the slope":
        monkeypatch.setattr(
            families, "_row_weights", lambda family, length2, *_: 1 / np.maximum(1.0, length2)
        )
    elif name == "influence without the weight":
        monkeypatch.setattr(
            LinearizedBlock, "influence", property(lambda at: at.length * at.block.weights**2)
        )
    elif name == "no limit of the predictor":
        monkeypatch.setattr(families, "FARTHEST", 1e4)


@pytest.mark.parametrize("notion", [Adjacency.REPLACE, Adjacency.ADD_REMOVE_UNIT])
@pytest.mark.parametrize(
    "name", ["a clip twice as wide", "weights without the slope", "influence without the weight"]
)
def test_mutations_of_the_stack_of_counts_are_caught(name, notion, monkeypatch):
    mutant(monkeypatch, name)
    stack = Stack.of(notion)
    with np.errstate(all="ignore"):
        found = [
            largest_change(step_sums(offset_line(size, 3 * COEF), clip, stack, 3.0), notion, 30)
            for size, clip in LINES[:2]
        ]
    assert max(found) > 1.2 * stack.bound


def test_without_a_limit_of_the_predictor_a_sum_is_not_finite(monkeypatch):
    line = offset_line(1.0, np.array([1e5, 0.0]))
    block = Block(np.array([[1.0, 0.5, 0.0]]) / np.sqrt(3), np.ones(1))
    what = step_sums(line, 0.1, Stack.of(Adjacency.REPLACE), 3.0)
    assert np.isfinite(what.of_block(block)).all()
    mutant(monkeypatch, "no limit of the predictor")
    with np.errstate(all="ignore"):
        assert not np.isfinite(what.of_block(block)).all()


@pytest.mark.parametrize("notion", Adjacency)
def test_a_histogram_with_the_bound_of_one_record_is_caught(notion):
    """Two counts in different bins are sqrt 2 apart: 1 is enough only where a record is added."""
    what = histogram(count_edges(), notion)
    rows = np.full((1, 1), 0.5)
    moved = what.of_block(Block(rows, np.zeros(1))) - what.of_block(Block(rows, np.ones(1)))
    assert np.linalg.norm(moved) == pytest.approx(2**0.5)
    assert (np.linalg.norm(moved) <= what.bound + 1e-12) == notion.counted
