"""A part of the rows: which ones is public, and what stands for what."""

import numpy as np
import pytest

from dpinfer.maths.sums import Block
from dpinfer.neighbours import Neighbours
from dpinfer.rows.encoded import part_of
from dpinfer.rows.source import Rows, block_height

RNG = np.random.default_rng(3)
WIDE = 700  # columns: blocks are short, so that few rows have many of them


def numbered(n):
    """Rows of which the second column is their number."""
    rows = np.zeros((n, WIDE))
    rows[:, 0] = 0.5
    rows[:, 1] = np.arange(n) / n / 2
    return Rows(Block(rows, np.ones(n)))


def members(source, n):
    """The numbers of the rows that a pass sees."""
    found = []
    source.total(lambda block: found.append(np.rint(block.rows[:, 1] * 2 * n)) or np.zeros(1))
    return np.concatenate(found).astype(int)


@pytest.mark.parametrize("n", [256, 4096, 5000, 20_000])
@pytest.mark.parametrize("records", [1, 700, 2000])
def test_every_kth_block(n, records):
    rows = numbered(n)
    part = part_of(rows, Neighbours.REPLACE, records)
    every = n // records
    height = block_height(WIDE)
    kept = [i for i in range(n) if (i // height) % max(every, 1) == 0]
    assert list(members(part, n)) == kept
    assert (part.n, part.dim) == (n, WIDE)


def test_a_total_is_that_of_its_blocks():
    rows = numbered(20_000)
    height = block_height(WIDE)
    part = part_of(rows, Neighbours.REPLACE, 20_000 // 7)
    direct = sum(
        rows.block.rows[start : start + height].sum(axis=0)
        for start in range(0, 20_000, 7 * height)
    )
    assert part.total(lambda block: block.rows.sum(axis=0)) == pytest.approx(direct, rel=1e-12)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_guarantee_parts_are_public(value):
    """Whatever a record holds, the same records are in the part; and where one record more would
    move the others, all of them are.
    """
    n = 5000
    rows = numbered(n)
    part = part_of(rows, Neighbours.REPLACE, 700)
    inside = members(part, n)
    for i in RNG.integers(n, size=20):
        changed = numbered(n)
        changed.block.rows[i, 2:] = value
        changed.block.labels[i] = -1
        assert np.array_equal(members(part_of(changed, Neighbours.REPLACE, 700), n), inside)
    for notion in Neighbours:
        if notion is not Neighbours.REPLACE:
            assert part_of(rows, notion, 700) is rows
    # the reason: one record less, and other records are in every block but the first
    shorter = Rows(Block(rows.block.rows[1:], rows.block.labels[1:]))
    moved = members(part_of(shorter, Neighbours.REPLACE, 700), n)
    assert len(set(moved) ^ set(inside)) > 2


def test_a_source_that_is_elsewhere_is_whole():
    class Elsewhere:
        n = 10**6
        dim = 3

    source = Elsewhere()
    assert part_of(source, Neighbours.REPLACE, 10) is source
