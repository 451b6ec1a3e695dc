"""What becomes of a label, and where blocks are cut."""

import numpy as np
import pytest

from dpinfer.mechanisms.sums import BLOCK, Block
from dpinfer.rows.encoded import Encoding, Raw
from dpinfer.rows.source import PIECE, Rows, block_height, cuts, labelled
from dpinfer.schema.design import Design

LABELS = [-1.0, 1.0, 0.0, 0.5, -2.0, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize(
    ("kind", "seen", "zero"),
    [
        ("margin", [-1, 1, 1, 1, 1, 1, 1, 1], [2, 3, 4, 5, 6, 7]),
        ("residual", [-1, 1, 0, 0.5, -1, 0, 0, 0], [5, 6, 7]),
    ],
)
def test_a_label_that_is_not_known_makes_a_zero_row(kind, seen, zero):
    """In arrays and in tables alike; what the caller gave stays as it was."""
    values = np.full((len(LABELS), 2), 0.5)
    labels = np.array(LABELS)
    rows = Rows.encoded(values, labels, kind).block
    design = Design.of_rows(2)
    encoded = Encoding(design, kind).block(Raw(values, labels))
    for block in (rows, encoded, labelled(values.copy(), labels, kind)):
        assert block.labels.tolist() == seen
        assert np.flatnonzero(~block.rows.any(axis=1)).tolist() == zero
    assert np.array_equal(values, np.full((len(LABELS), 2), 0.5))
    assert np.array_equal(labels, LABELS, equal_nan=True)


@pytest.mark.parametrize("dim", [1, 20, 33, 100, 1000])
def test_blocks_fit_the_cache_and_the_proof(dim):
    height = block_height(dim)
    assert 256 <= height <= BLOCK
    assert height == 256 or height * dim <= 2**16


def test_cuts():
    assert list(cuts(0, 10)) == [(0, 0)]
    assert list(cuts(25, 10)) == [(0, 10), (10, 20), (20, 25)]


def test_the_layout_of_rows():
    height = block_height(3)
    n = height * (PIECE + 2) + 5
    layout = Rows(Block(np.zeros((n, 3)), np.ones(n))).layout
    assert [len(ends) - 1 for ends in layout] == [PIECE, 3]
    assert layout[1] == [height * PIECE, height * (PIECE + 1), height * (PIECE + 2), n]
