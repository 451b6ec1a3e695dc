from itertools import pairwise

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import Block, clip_rows
from dpinfer.rows import source as source_module
from dpinfer.rows.source import Rows
from dpinfer.tables.memory import rows_of
from helpers.support import LOSSES, RESIDUAL_LOSSES, exact_gradient, labelled, numeric

anything = hnp.arrays(
    float, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(width=64)
)


@given(anything)
def test_guarantee_rows_are_bounded(rows):
    clipped = clip_rows(rows)
    assert np.isfinite(clipped).all()
    assert np.all(np.linalg.norm(clipped, axis=1) <= 1 + 1e-15 * rows.shape[1])


@given(anything)
def test_bounded_rows_are_left_alone(rows):
    clipped = clip_rows(rows)
    inside = clip_rows(clipped * 0.5)
    assert np.allclose(inside, clipped * 0.5, rtol=1e-13, atol=0)


def test_clipping_keeps_the_direction_and_zeroes_what_is_not_a_number():
    rows = np.array([[3.0, 4.0], [np.nan, 1.0], [np.inf, 0.0], [0.3, 0.4], [1e308, 1e308]])
    expected = [[0.6, 0.8], [0, 0], [0, 0], [0.3, 0.4], [0.5**0.5, 0.5**0.5]]
    assert np.allclose(clip_rows(rows), expected, rtol=1e-15)


@given(st.integers(0, 10**6), st.sampled_from(LOSSES), st.lists(st.integers(1, 199), max_size=6))
def test_any_split_into_blocks_gives_the_same_total(seed, loss, cuts):
    X, y = labelled(200, 3, seed)
    risk, coef = Risk.penalised(loss, 0.01, 200), np.array([0.5, -1.0, 2.0])
    edges = [0, *sorted(cuts), 200]
    for of_block in (
        risk.totals(coef),
        risk.curvature_sum(coef).of_block,
        risk.score_sum(coef).of_block,
    ):
        parts = [of_block(Block(X, y)[a:b]) for a, b in pairwise(edges) if a < b]
        assert np.allclose(sum(parts), of_block(Block(X, y)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("block", [1, 1000, 10**6])
def test_rows_add_up_whatever_the_block_size(monkeypatch, block):
    X, y = labelled(1003, 3)
    risk, coef = Risk.penalised(LOSSES[0], 0.01, 1003), np.ones(3)
    monkeypatch.setattr(source_module, "_BLOCK", block)
    assert np.allclose(
        Rows.of(X, y).total(risk.totals(coef)), risk.totals(coef)(Block(X, y)), rtol=1e-12
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_sums_are_their_formulas(loss):
    X, y = labelled(50, 3)
    risk, coef = Risk.penalised(loss, 0.01, 50), np.array([0.5, -1.0, 2.0])
    z = y * (X @ coef)
    H = sum(w * np.outer(x, x) for w, x in zip(loss.curvature(z), X, strict=True))
    S = sum(w**2 * np.outer(x, x) for w, x in zip(loss.slope(z), X, strict=True))
    assert np.allclose(risk.curvature_sum(coef).of_block(Block(X, y)), H)
    assert np.allclose(risk.score_sum(coef).of_block(Block(X, y)), S)


@pytest.mark.parametrize("loss", RESIDUAL_LOSSES)
def test_sums_of_residuals_are_their_formulas(loss):
    X, y = numeric(50, 3)
    risk, coef = Risk.penalised(loss, 0.01, 50), np.array([0.5, -0.2, 0.1])
    source, r = Rows.of(X, y, "residual"), y - X @ coef
    H = sum(w * np.outer(x, x) for w, x in zip(loss.curvature(r), X, strict=True))
    S = sum(w**2 * np.outer(x, x) for w, x in zip(loss.slope(r), X, strict=True))
    totals = source.total(risk.totals(coef))
    assert np.allclose(source.total(risk.curvature_sum(coef).of_block), H)
    assert np.allclose(source.total(risk.score_sum(coef).of_block), S)
    assert np.allclose(source.total(risk.stacked_sum(coef).of_block), risk.stack(H, S))
    assert np.allclose(totals[4:].reshape(3, 3), H)
    assert np.allclose(totals[1:4] + risk.ridge * coef, exact_gradient(risk, X, y, coef))
    assert totals[0] == pytest.approx(loss.value(r).sum())


def test_outcomes_are_clipped_and_what_is_not_finite_counts_as_the_zero_row():
    X = np.ones((6, 1))
    source = Rows.of(X, [0.25, 3.0, -1e300, np.nan, np.inf, -np.inf], "residual")
    assert source.block.labels.tolist() == [0.25, 1.0, -1.0, 0.0, 0.0, 0.0]
    assert np.allclose(source.block.rows.ravel(), [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], rtol=1e-14)
    assert (source.block.rows <= 1).all()
    with pytest.raises(dp.InputError, match=r"scale it to \[-1, 1\]"):
        rows_of(X, np.array(["a"] * 6), "residual")
