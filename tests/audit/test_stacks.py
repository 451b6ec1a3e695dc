"""Stacks of blocks: one part per block, the bits of the block alone, and no product over more rows
than are proved for.
"""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.description.intervals import first_cuts
from dpinfer.errors import PrivacyError
from dpinfer.fit.column_scaling import ColumnScaling, Winsorised, column_histograms
from dpinfer.mechanisms.column_sums import (
    Cuts,
    Grouping,
    Levels,
    Numbers,
    distance_squares,
    histograms,
    level_counts,
    level_squares,
    moment_squares,
    moments,
)
from dpinfer.mechanisms.histograms import histogram, influence_histogram, tail_counts
from dpinfer.mechanisms.moment_sums import counted_moments, fourth_moments
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_sum, step_sums
from dpinfer.mechanisms.sums import BLOCK, Block, exposure_total, moment_and_score, second_moment
from dpinfer.numerics.bins import inner_edges
from dpinfer.numerics.links import IDENTITY, LOG, LOGIT
from dpinfer.rows import source as source_module
from dpinfer.rows import workers
from dpinfer.rows.encoded import Encoding, Raw, in_memory
from dpinfer.rows.source import PIECE, Rows, block_height
from dpinfer.schema.design import Design

D = 6
HEIGHT = 300
NOTIONS = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)


def line_of(family):
    rng = np.random.default_rng(3)
    low = np.full(D, -1.0)
    low[2] = -0.4  # so that a column is clipped
    return Linearization(
        family, rng.standard_normal((D, D)), 0.3 * np.ones(D), 3.0, low, np.ones(D)
    )


def mapped(what, notion, error):
    matrix = np.random.default_rng(4).standard_normal((D, D))
    return lambda block: what.of_block(block.mapped(matrix, notion, error))


def winsorised():
    frame = ColumnScaling(np.full(D, 0.1), np.full(D, 0.7), ((3, (1, 2)),))
    change = Winsorised(Rows.of(np.zeros((1, D)), np.ones(1)), frame).change
    return lambda block: second_moment(Adjacency.REPLACE).of_block(change(block))


def sums_of_rows(notion):
    """Every sum over bounded rows, by name."""
    coef = np.linspace(-1, 2, D)
    stack = Stack.of(notion)
    edges = np.tile(inner_edges(-1, 1), (D - 1, 1))
    found = {
        "moments": second_moment(notion).of_block,
        "winsorised": winsorised(),
        "by products": mapped(moment_and_score(notion), notion, 0.0),
        "one by one": mapped(moment_and_score(notion), notion, np.inf),
        "exposures": exposure_total(2.0).of_block,
        "outcomes": histogram(inner_edges(-1, 1), notion).of_block,
        "influences": influence_histogram(1.0, notion).of_block,
        "columns": column_histograms(np.arange(1, D), edges, 2.0, notion).of_block,
        "tails": tail_counts(
            np.arange(1, D),
            np.zeros(D - 1),
            np.full(D - 1, 0.1),
            np.tile([0.5, 2.0], (D - 1, 1)),
            notion,
        ).of_block,
        "second moments": counted_moments(line_of(IDENTITY), float(D), notion).of_block,
        "fourth moments": fourth_moments(line_of(IDENTITY), float(D), notion).of_block,
        "rest": remainder_sum(line_of(LOGIT), coef, 0.5, float(D), notion).of_block,
    }
    for family in (LOGIT, IDENTITY, LOG):
        for robust in (False, True):
            what = step_sums(line_of(family), 0.4, stack, float(D), robust=robust)
            found[f"a step, {family.name}, {robust}"] = what.of_block
    for loss in (dp.Logistic(), dp.HuberHinge(0.5)):
        risk = Risk.penalised(loss, 0.01, 1000, notion)
        found |= {
            f"value, {loss}": risk.totals(coef),
            f"gradient, {loss}": risk.gradient_total(coef),
            f"curvature, {loss}": risk.curvature_sum(coef).of_block,
            f"score, {loss}": risk.score_sum(coef).of_block,
            f"stacked, {loss}": risk.stacked_sum(coef).of_block,
        }
    return found


def sums_of_columns(notion, groups, *, weighted):
    """Every sum of a description, by name; what is kept of records is of those that count alike."""
    grouping = Grouping(groups > 1, groups)
    p = D - 2
    numbers = Numbers(np.arange(2, D), -np.ones(p), 0.3 * np.ones(p), np.zeros(p, bool))
    levels = Levels(np.array([1, 0]), np.array([3, 0]))
    many = Cuts([[np.arange(j, 60_000, 7_000) for j in range(p)]] * groups)
    points = np.tile(np.array([-0.5, 0.0, 0.2]), (groups, p, 1))
    parts = {
        "levels": level_counts(levels, grouping, notion),
        "level squares": level_squares(Levels(np.array([1]), np.array([3])), grouping, notion),
        "moments": moments(numbers, grouping, notion),
        "moment squares": moment_squares(numbers, grouping, notion),
        "bins": histograms(numbers, first_cuts(numbers, groups), grouping, notion),
        "other bins": histograms(numbers, many, grouping, notion),
        "spreads": distance_squares(numbers, np.zeros((groups, p)), None, grouping, notion),
        "spreads and points": distance_squares(
            numbers, np.zeros((groups, p)), points, grouping, notion
        ),
    }
    return {name: part.of_block for name, part in parts.items()}


def records(blocks, *, weighted):
    """Bounded rows, some of them zero rows."""
    rng = np.random.default_rng(1)
    n = blocks * HEIGHT
    rows = rng.standard_normal((n, D)) / D
    rows[:, 0] = 1 / np.sqrt(D)
    source = Rows.of(rows, np.where(rng.random(n) < 0.4, 1.0, -1.0))
    source.block.rows[7::50] = 0.0
    if not weighted:
        return source.block
    return source.counted(1.0, None, rng.random(n)).block


def described(blocks, *, weighted):
    """Rows of a description, some of them without a number, a level or a group."""
    block = records(blocks, weighted=weighted)
    rng = np.random.default_rng(2)
    n = len(block)
    rows = rng.uniform(-1, 1, (n, D))
    rows[:, 0] = 1.0
    rows[:, 1] = rng.integers(0, 3, n)
    rows[rng.random((n, D)) < 0.01] = np.nan
    rows[:, 0] = 1.0
    labels = rng.integers(0, 2, n).astype(float)
    labels[3::70] = np.nan
    return Block(rows, labels, block.weights, block.shares)


def alone(of_block, block):
    """The parts of blocks that are given one by one."""
    return [of_block(block[k : k + HEIGHT]) for k in range(0, len(block), HEIGHT)]


def same(parts, others):
    return len(parts) == len(others) and all(
        np.array_equal(one, other) for one, other in zip(parts, others, strict=True)
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.filterwarnings("ignore")
def test_guarantee_one_part_per_block(notion, weighted):
    """Every sum over a stack has, for each block, the bits of that block alone."""
    rows = records(6, weighted=weighted)
    columns = described(6, weighted=weighted)
    with workers.one_thread():
        cases = [(rows, sums_of_rows(notion))]
        cases += [
            (columns, sums_of_columns(notion, groups, weighted=weighted)) for groups in (1, 2)
        ]
        for block, sums in cases:
            for name, of_block in sums.items():
                parts = list(block.stacked(HEIGHT).parts(of_block))
                assert same(parts, alone(of_block, block)), name


def test_a_sum_over_all_rows_of_a_stack_is_told_apart():
    """The test above can fail, and a sum that forgets the stack is refused."""
    block = records(4, weighted=False)

    def forgetful(stack):
        rows = stack.rows.reshape(-1, D)
        return rows.T @ rows

    with pytest.raises(PrivacyError, match="one part for each"):
        list(block.stacked(HEIGHT).parts(forgetful))
    of_block = second_moment(Adjacency.REPLACE).of_block
    twice = [of_block(block[: 2 * HEIGHT]), of_block(block[2 * HEIGHT :])]
    parts = list(block.stacked(HEIGHT).parts(of_block))
    assert not same([parts[0] + parts[1], parts[2] + parts[3]], twice)


@pytest.mark.parametrize("dim", [1, 5, 11, 20, 33, 90])
def test_no_block_has_more_rows_than_are_proved_for(dim):
    """In memory and as it is encoded: all rows, each once, in blocks of at most B."""
    n = (PIECE + 5) * block_height(dim) + 17
    rows = np.full((n, dim), 0.1)
    labels = np.where(np.arange(n) % 3, 1.0, -1.0)
    encoding = Encoding(Design.of_rows(dim), "margin")
    for source in (Rows.of(rows, labels), in_memory(Raw(rows, labels), encoding)):
        found = [block for piece in source.pieces() for block in piece.blocks()]
        assert max(block.labels.shape[-1] for block in found) == block_height(dim) <= BLOCK
        assert any(block.stack for block in found)
        heights = [len(one) for block in found for one in block.apart()]
        assert heights == [block_height(dim)] * (PIECE + 5) + [17]
        again = np.concatenate([one.labels for block in found for one in block.apart()])
        assert np.array_equal(again, labels)


def test_a_block_twice_as_long_is_refused(monkeypatch):
    n = 8 * BLOCK
    source = Rows.of(np.full((n, 3), 0.1), np.ones(n))
    of_block = second_moment(Adjacency.REPLACE).of_block
    source.total(of_block)
    monkeypatch.setattr(source_module, "BLOCK", 2 * BLOCK)
    with pytest.raises(PrivacyError, match="more rows than sums are proved for"):
        source.total(of_block)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_short_rows_have_the_same_bits_on_any_number_of_threads(threads):
    """More pieces than threads, so that these are used; against blocks that are not stacked."""
    rng = np.random.default_rng(0)
    n = 7 * PIECE * BLOCK + 1234
    source = Rows.of(rng.standard_normal((n, 2)), np.where(rng.random(n) < 0.5, 1.0, -1.0))
    of_block = moment_and_score(Adjacency.REPLACE).of_block
    with workers.worker_pool(threads):
        assert source.parallel
        found = source.total(of_block)
    with pytest.MonkeyPatch.context() as patch, workers.worker_pool(1):
        patch.setattr(source_module, "_STACK", 1)
        assert not any(block.stack for piece in source.pieces() for block in piece.blocks())
        assert np.array_equal(source.total(of_block), found)
