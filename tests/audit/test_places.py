"""A search for a row whose term moves by more than is counted, where a product rounds it by its
place.
"""

import numpy as np
import pytest

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms import sums
from dpinfer.mechanisms.histograms import influence_histogram
from dpinfer.mechanisms.moment_sums import counted_moments, fourth_moments
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_sum, step_sums
from dpinfer.mechanisms.summation_error import (
    SUMMATION_ERROR,
    UNIT,
    carried,
    moment_error,
    remainder_error,
    step_error,
)
from dpinfer.mechanisms.sums import (
    BLOCK,
    DEFAULT_MAX_RECORDS,
    SLACK,
    Block,
    clip_rows,
    moment_and_score,
    sum_error,
)
from dpinfer.numerics.links import IDENTITY, LOG, LOGIT
from dpinfer.rows.encoded import Mapped
from dpinfer.rows.source import Rows

DIM = 4
NOTION = Adjacency.ADD_REMOVE
FAMILIES = {"logit": LOGIT, "identity": IDENTITY, "log": LOG}


def lines(family, seed):
    """Lines with matrices of any size and condition."""
    rng = np.random.default_rng(seed)
    everywhere = np.ones(DIM)
    for _ in range(12):
        matrix = rng.standard_normal((DIM, DIM)) * 10.0 ** rng.uniform(-2, 2)
        matrix *= 10.0 ** rng.uniform(-1, 1, (DIM, 1))
        coef = rng.standard_normal(DIM) * 10.0 ** rng.uniform(-1, 0.7)
        most = 10.0 ** rng.uniform(-1, 1) if family is LOGIT else np.inf
        yield Linearization(family, matrix, coef, most, -everywhere, everywhere)


def rows_at(matrix, rng):
    """Rows of the unit ball: anywhere, along the axes, and such that A x is 0 but for rounding or
    at the bend of a weight.
    """
    anywhere = rng.standard_normal((12, DIM))
    flat = np.linalg.svd(matrix)[2]
    bends = flat / np.maximum(np.linalg.norm(matrix @ flat.T, axis=0), 1e-9)[:, None]
    small = anywhere * 10.0 ** rng.uniform(-6, 0, (12, 1))
    return clip_rows(np.vstack([anywhere, np.eye(DIM), flat, bends, small]))


def worst_move(monkeypatch, what, whole, rng):
    """The farthest that the term of one row moves, over all ways to round its product that are
    allowed: (d + 2)u times the norm of what it is mapped by.
    """
    size = np.append(np.full(len(whole) - 1, 0.0), 0.0)
    worst = 0.0
    of_row = (DIM + 2) * UNIT * np.linalg.norm(whole[:-1])
    of_predictor = (DIM + 2) * UNIT * np.linalg.norm(whole[-1])
    for row in rows_at(whole, rng):
        block = Block(row[None], rng.choice([-1.0, 1.0], 1))
        terms = []
        for k in range(6):
            direction = rng.standard_normal(len(whole) - 1)
            if k % 2:
                direction = whole[:-1] @ row * (1 if k == 1 else -1) + 1e-300
            size[:-1] = of_row * direction / np.linalg.norm(direction)
            size[-1] = of_predictor * (-1) ** (k // 2)
            moved = row @ whole.T + size
            monkeypatch.setattr(Block, "product", lambda *_, moved=moved: moved[None].copy())
            with np.errstate(all="ignore"):
                terms.append(what.of_block(block))
            monkeypatch.undo()
        worst = max(worst, *(np.linalg.norm(one - terms[0]) for one in terms))
    return worst


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("clip", [1e-3, 0.1, 3.0])
def test_guarantee_counted_products(name, clip, monkeypatch):
    """No term moves by more than twice what is counted; without the factors of the matrix and of
    the clip some would.
    """
    rng = np.random.default_rng(5)
    found = []
    plain = []
    for line in lines(FAMILIES[name], 3):
        whole = line.row_map(2.0)
        step = rng.standard_normal(DIM) * 10.0 ** rng.uniform(-2, 0)
        size = float(np.linalg.norm(step))
        near = line.row_bounds(2.0)
        far = line.row_bounds(2.0, min(size * near.matrix, 60.0))
        for what, error in (
            (step_sums(line, clip, Stack(1.0, 0.5, NOTION), 2.0), step_error(whole, near, clip)),
            (remainder_sum(line, step, clip, 2.0, NOTION), remainder_error(whole, far, size, clip)),
        ):
            moved = worst_move(monkeypatch, what, whole, rng)
            found.append(moved / (2 * error))
            plain.append(moved / (8 * DIM * UNIT))
    assert max(found) <= 1
    assert max(found) > 1 / 200  # the search comes near, so the count is not idle
    assert max(plain) > 1


def test_moments_of_mapped_rows(monkeypatch):
    rng = np.random.default_rng(6)
    what = moment_and_score(NOTION)
    found = []
    for line in lines(IDENTITY, 4):
        matrix = line.matrix

        def of_block(block, matrix=matrix):
            mapped = block.mapped(np.vstack([matrix, np.zeros(DIM)]), NOTION)
            return what.of_block(Block(mapped.rows[:, :-1], mapped.labels, mapped.weights))

        moved = worst_move(
            monkeypatch, type(what)(of_block, 1.0), np.vstack([matrix, np.zeros(DIM)]), rng
        )
        found.append(moved / (2 * moment_error(matrix)))
    assert max(found) <= 1
    assert max(found) > 1 / 20


def test_queries_of_a_moment_release(monkeypatch):
    """What a row adds to the second moments with their number moves by no more than is counted, and to the
    fourth moments by no more than twice that.
    """
    rng = np.random.default_rng(7)
    found = {"counted": [], "fourth": []}
    for line in lines(IDENTITY, 5):
        whole = line.row_map(2.0)
        error = moment_error(whole)
        for name, query, counted in (
            ("counted", counted_moments(line, 2.0, NOTION), error),
            ("fourth", fourth_moments(line, 2.0, NOTION), 2 * error),
        ):
            found[name].append(worst_move(monkeypatch, query, whole, rng) / (2 * counted))
    for moves in found.values():
        assert max(moves) <= 1
        assert max(moves) > 1 / 20


def test_queries_of_a_moment_release_count_that_much(monkeypatch):
    """What is counted above is what decides whether rows are mapped by products."""
    seen = []
    monkeypatch.setattr(sums, "carried", lambda error, rows: seen.append(error) or True)
    line = next(lines(IDENTITY, 5))
    block = Block(np.full((3, DIM), 0.1), np.zeros(3))
    counted_moments(line, 2.0, NOTION).of_block(block)
    fourth_moments(line, 2.0, NOTION).of_block(block)
    error = moment_error(line.row_map(2.0))
    assert seen == [error, 2 * error]


def test_the_count_fits_beside_the_sums():
    """Two sums, each with its own error and that of its places, within half of the slack."""
    for units in (False, True):
        error = sum_error(private_number=True, units=units)
        assert 2 * (error + SUMMATION_ERROR) <= SLACK / 2
    assert 2 * (sum_error(private_number=True) + 4 * SUMMATION_ERROR) > SLACK / 2
    assert carried(SUMMATION_ERROR / 1001, 1000)
    assert not carried(SUMMATION_ERROR / 1001, 1001)
    # beyond the usual number the bound grows with the rows, and one row decides
    assert carried(SUMMATION_ERROR / DEFAULT_MAX_RECORDS, np.inf)
    assert not carried(1.01 * SUMMATION_ERROR / DEFAULT_MAX_RECORDS, DEFAULT_MAX_RECORDS)
    assert not carried(np.inf, np.inf)
    assert not carried(np.nan, 1)


def seen_by(what, source):
    """Whether rows are mapped by products, at every row of a source."""
    seen = set()
    real = np.einsum

    def noted(rule, *given):
        seen.add(rule)
        return real(rule, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "einsum", noted)
        source.total(what.of_block)
    return "...ij,kj->...ik" not in seen


def test_who_is_mapped_by_products():
    """Smooth sums, up to a number of rows; what jumps never is, where rows may lose their places."""
    rng = np.random.default_rng(0)
    source = Rows.of(rng.standard_normal((3 * BLOCK, DIM)), np.ones(3 * BLOCK))
    everywhere = np.ones(DIM)
    line = Linearization(LOGIT, np.eye(DIM), np.ones(DIM), 1.0, -everywhere, everywhere)
    clip = 0.5
    assert seen_by(step_sums(line, clip, Stack.of(NOTION), 1.0), source)
    assert not seen_by(step_sums(line, clip, Stack.of(NOTION), 1.0, robust=True), source)
    far = Linearization(LOGIT, 1e7 * np.eye(DIM), np.ones(DIM), 1.0, -everywhere, everywhere)
    assert not seen_by(step_sums(far, clip, Stack.of(NOTION), 1.0), source)
    matrix = np.eye(DIM)
    what = moment_and_score(NOTION)
    assert seen_by(what, Mapped(source, matrix, NOTION, moment_error(matrix)))
    assert not seen_by(influence_histogram(1.0, NOTION), Mapped(source, matrix, NOTION))
    assert seen_by(influence_histogram(1.0, NOTION), Mapped(source, matrix, Adjacency.REPLACE))
    # more rows than a small error can be counted for
    assert not carried(
        step_error(line.row_map(1.0), line.row_bounds(1.0), clip / 1e3), DEFAULT_MAX_RECORDS
    )


@pytest.mark.parametrize("notion", [n for n in Adjacency if not n.units])
def test_sums_do_not_depend_on_places_by_more_than_is_counted(notion):
    """The same rows in another order, and one row more before all others: real products."""
    rng = np.random.default_rng(1)
    d = 40
    rows = rng.standard_normal((3 * BLOCK + 5, d))
    order = rng.permutation(len(rows))
    everywhere = np.ones(d)
    line = Linearization(
        LOGIT, rng.standard_normal((d, d)), np.ones(d) / 3, 1.0, -everywhere, everywhere
    )
    what = step_sums(line, 0.1, Stack.of(notion), 1.0)
    labels = np.where(rng.random(len(rows)) < 0.5, -1.0, 1.0)
    one = Rows.of(rows, labels)
    zero = Rows.of(np.vstack([np.zeros(d), rows]), np.append(1.0, labels))
    totals = [
        Rows.of(rows[order], labels[order]).total(what.of_block),
        zero.total(what.of_block),
    ]
    error = step_error(line.row_map(1.0), line.row_bounds(1.0), 0.1) * len(rows)
    assert carried(error / len(rows), len(rows))
    for total in totals:
        moved = np.linalg.norm(total - one.total(what.of_block))
        assert moved <= 2 * (error + (BLOCK + 10) * UNIT * len(rows))
