"""Rows that are cached, in memory or in a temporary file: the same bits as rows that are made anew."""

import os

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import Block, moment_and_score, second_moment
from dpinfer.rows import workers
from dpinfer.rows.encoded import Mapped, OutcomesOnly, cached, sample
from dpinfer.rows.source import MEMORY, PIECE, Blocks, Disk, Rows, block_height

D = 5
N = 150_000
RNG = np.random.default_rng(5)
MATRIX = RNG.standard_normal((D, D)) * 2
SUMS = [second_moment(Adjacency.REPLACE).of_block, moment_and_score(Adjacency.REPLACE).of_block]


class Limited(Blocks):
    """Rows that may not be cached in memory, as those of large files."""

    memory_limit = 0.0

    def __init__(self, rows):
        self.rows = rows

    @property
    def n(self):
        return self.rows.n

    @property
    def dim(self):
        return self.rows.dim

    @property
    def size(self):
        return self.rows.size + 1  # at most

    def pieces(self):
        return self.rows.pieces()


def rows(n=N, *, weights=1.0, shares=1.0, starts=None):
    X = RNG.uniform(-1, 1, (n, D)) / np.sqrt(D)
    return Rows(Block(X, np.where(RNG.random(n) < 0.5, -1.0, 1.0), weights, shares, starts))


def with_units(n, chance=0.3):
    share = RNG.uniform(0.1, 1, n)
    starts = np.flatnonzero(np.append(True, RNG.random(n - 1) < chance))
    return rows(n, weights=share * 0.9, shares=share, starts=starts)


def on_disk(source):
    result = cached(Limited(source))
    assert isinstance(result, Rows)
    assert isinstance(result.storage, Disk)
    return result


def equal(left, right):
    return all(np.array_equal(left.total(of_block), right.total(of_block)) for of_block in SUMS)


CASES = {
    "records": rows,
    "weights": lambda: rows(weights=RNG.uniform(0, 1, N)),
    "shares": lambda: rows(weights=RNG.uniform(0, 0.5, N), shares=RNG.uniform(0.5, 1, N)),
    "units": lambda: with_units(N),
    "units longer than a block": lambda: with_units(N, 1e-4),
    "few": lambda: rows(7),
    "none": lambda: rows(0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_blocks(case):
    """As `Rows` has them, with everything that a block holds, whatever the number of cores."""
    memory = CASES[case]()
    with workers.worker_pool():
        disk = on_disk(memory)
    assert (disk.n, disk.dim) == (memory.n, memory.dim)
    assert disk.layout == memory.layout
    pairs = zip(blocks_of(disk), blocks_of(memory), strict=True)
    for left, right in pairs:
        for name in ("rows", "labels", "weights", "shares", "starts"):
            one = getattr(left, name)
            other = getattr(right, name)
            assert type(one) is type(other)
            assert np.array_equal(one, other)
    assert equal(disk, memory)


def blocks_of(source):
    stacks = [block for piece in source.pieces() for block in piece.blocks()]
    return [block for stack in stacks for block in stack.apart()]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dim", [D, 3])
def test_mapped_rows_are_those_of_memory(case, dim, monkeypatch):
    """In memory or in a file of their own, with the blocks of the rows that were mapped."""
    memory = CASES[case]()
    expected = Mapped(memory, MATRIX[:dim], Adjacency.REPLACE)
    disk = on_disk(memory)
    mapped = Mapped(disk, MATRIX[:dim], Adjacency.REPLACE)
    in_memory = cached(mapped)
    assert in_memory.storage is MEMORY
    assert equal(in_memory, expected)
    monkeypatch.setenv("DPINFER_MEMORY", "0")
    with workers.worker_pool():
        in_a_file = cached(mapped)
    assert equal(in_a_file, expected)
    if len(memory.block):
        assert in_a_file.storage not in (MEMORY, disk.storage)
    again = Mapped(in_a_file, np.eye(dim)[::-1], Adjacency.REPLACE)
    assert equal(cached(again), Mapped(cached(expected), np.eye(dim)[::-1], Adjacency.REPLACE))
    assert equal(disk, memory)  # the first file is as it was


@pytest.mark.parametrize("case", ["records", "units"])
def test_the_outcomes_of_a_file_are_cached_in_memory(case):
    memory = CASES[case]()
    outcomes = cached(OutcomesOnly(on_disk(memory)))
    assert outcomes.storage is MEMORY
    assert outcomes.n == memory.n
    assert outcomes.dim == 1
    for of_block in SUMS:  # a product of strided columns may round otherwise
        expected = OutcomesOnly(memory).total(of_block)
        assert np.allclose(outcomes.total(of_block), expected, rtol=1e-12)


def test_rows_are_cached_once():
    memory = rows()
    disk = on_disk(memory)
    assert cached(memory) is memory
    assert cached(disk) is disk


class Cluster:
    """A source that keeps its rows itself."""

    n = 3
    dim = 2

    def total(self, _):
        return np.zeros(1)


def test_rows_on_a_cluster_stay_there():
    source = Cluster()
    assert cached(source) is source
    outcomes = OutcomesOnly(source)
    assert cached(outcomes) is outcomes


def test_a_sample_is_that_of_rows_in_memory():
    memory = rows(300_000)
    disk = on_disk(memory)
    for of_block in SUMS:
        assert np.array_equal(sample(memory)(of_block), sample(disk)(of_block))
    blocks = blocks_of(memory)[::PIECE]
    scale = -(-memory.size // block_height(D)) / len(blocks)
    assert np.allclose(sample(memory)(SUMS[0]), scale * sum(map(SUMS[0], blocks)), rtol=1e-12)


def test_few_rows_and_rows_that_are_made_anew_have_no_sample():
    memory = rows(64 * block_height(D))
    assert sample(memory) is None
    assert sample(Limited(rows(300_000))) is None


def test_no_room_leaves_the_source_as_it_is(monkeypatch):
    source = Limited(rows())
    monkeypatch.setenv("DPINFER_DISK", "1")
    assert cached(source) is source

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.delenv("DPINFER_DISK")
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert cached(source) is source


@pytest.mark.parametrize("error", [None, OSError(28, "No space left on device")])
def test_a_disk_that_fails_costs_time_only(error, monkeypatch):
    """Rows are made anew in every pass then; a write that is too short is a failure as well."""
    source = Limited(rows())
    calls = []
    write = os.pwrite

    def failing(*given):
        calls.append(given)
        if len(calls) > 20 and error is not None:
            raise error
        return write(*given) - (len(calls) > 20)

    monkeypatch.setattr(os, "pwrite", failing)
    assert cached(source) is source
    through = Mapped(source, MATRIX, Adjacency.REPLACE)
    assert cached(through) is through


def test_progress_is_told():
    told = []
    with dp.progress(lambda step, done: told.append((step, done))):
        on_disk(rows())
    assert told == [("reading", mark / 20) for mark in range(21)]
