"""Rows that are kept in a temporary file: the same bits as rows in memory, and nothing left behind."""

import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.data import crew, spool
from dpinfer.data.changed import Mapped, Narrow, kept, sample
from dpinfer.data.source import PIECE, Rows
from dpinfer.data.spool import File, Spooled, spooled
from dpinfer.maths.sums import Block, moment_and_score, second_moment
from dpinfer.neighbours import Neighbours

D = 5
RNG = np.random.default_rng(5)
MATRIX = RNG.standard_normal((D, D)) * 2
SUMS = [second_moment(Neighbours.REPLACE).of_block, moment_and_score(Neighbours.REPLACE).of_block]


def rows(n=150_000, *, weights=1.0, shares=1.0, starts=None):
    X = RNG.uniform(-1, 1, (n, D)) / np.sqrt(D)
    return Rows(Block(X, np.where(RNG.random(n) < 0.5, -1.0, 1.0), weights, shares, starts))


def same_block(block):
    return block


def in_a_file(source, changed=same_block, dim=D):
    found = spooled(source, changed, dim)
    assert isinstance(found, Spooled)
    return found


def equal(left, right):
    return all(np.array_equal(left.total(of_block), right.total(of_block)) for of_block in SUMS)


def with_units(n):
    share = RNG.uniform(0.1, 1, n)
    starts = np.flatnonzero(np.append(True, RNG.random(n - 1) < 0.3))
    return rows(n, weights=share * 0.9, shares=share, starts=starts)


CASES = {
    "records": rows,
    "weights": lambda: rows(weights=RNG.uniform(0, 1, 150_000)),
    "shares": lambda: rows(weights=RNG.uniform(0, 0.5, 150_000), shares=RNG.uniform(0.5, 1, 150_000)),
    "units": lambda: with_units(150_000),
    "few": lambda: rows(7),
    "none": lambda: rows(0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_blocks(case):
    """As `Rows` has them, with everything that a block holds, whatever the number of cores."""
    memory = CASES[case]()
    with crew.at_work():
        disk = in_a_file(memory)
    assert (disk.n, disk.dim, disk.size, disk.height) == (memory.n, memory.dim, memory.size, memory.height)
    found, expected = ([b for piece in s.pieces() for b in map(copied, piece.blocks())] for s in (disk, memory))
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        for name in ("rows", "labels", "weights", "shares", "starts"):
            one, other = getattr(left, name), getattr(right, name)
            assert type(one) is type(other)
            assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other
    assert equal(disk, memory)


def copied(block):
    """A block of its own: those of a file take turns in the same memory."""
    parts = (block.rows, block.labels, block.weights, block.shares, block.starts)
    return Block(*(np.array(part) if isinstance(part, np.ndarray) else part for part in parts))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dim", [D, 3])
def test_rows_are_mapped_in_their_place(case, dim):
    memory = CASES[case]()
    through = Mapped(memory, MATRIX[:dim], Neighbours.REPLACE)
    disk = in_a_file(memory)
    with crew.at_work():
        found = kept(Mapped(disk, MATRIX[:dim], Neighbours.REPLACE), last=True)
    assert isinstance(found, Spooled)
    assert found.file is disk.file
    assert equal(found, through)
    again = kept(Mapped(found, np.eye(dim)[::-1], Neighbours.REPLACE), last=True)
    assert equal(again, Mapped(kept(through), np.eye(dim)[::-1], Neighbours.REPLACE))


def test_what_is_needed_again_is_not_written_over(monkeypatch):
    memory = rows()
    disk = in_a_file(memory)
    through = kept(Mapped(disk, MATRIX, Neighbours.REPLACE))
    assert isinstance(through, Rows)
    monkeypatch.setattr(Spooled, "room", 0.0)
    through = kept(Mapped(disk, MATRIX, Neighbours.REPLACE))
    assert through.file is not disk.file
    assert equal(through, Mapped(memory, MATRIX, Neighbours.REPLACE))
    assert all(np.allclose(kept(Narrow(disk)).total(f), Narrow(memory).total(f), rtol=1e-12) for f in SUMS)
    assert equal(disk, memory)


def test_a_sample_is_that_of_rows_in_memory():
    memory = rows(300_000)
    disk = in_a_file(memory)
    for of_block in SUMS:
        assert np.array_equal(sample(memory)(of_block), sample(disk)(of_block))
    blocks = [b for piece in memory.pieces() for b in piece.blocks()][::PIECE]
    scale = -(-memory.size // memory.height) / len(blocks)
    assert np.allclose(sample(memory)(SUMS[0]), scale * sum(map(SUMS[0], blocks)), rtol=1e-12)


def test_no_room_leaves_the_source_as_it_is(monkeypatch):
    memory = rows()
    monkeypatch.setenv("DPINFER_DISK", "1")
    assert spooled(memory, same_block, D) is None

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.delenv("DPINFER_DISK")
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert spooled(memory, same_block, D) is None


def test_a_file_that_grows_too_large_is_given_up(monkeypatch):
    """The rows of units are not counted before: the limit shows when it is reached."""
    monkeypatch.setattr(Rows, "size", 1)
    monkeypatch.setenv("DPINFER_DISK", "2")
    assert spooled(rows(), same_block, D) is None


def test_without_a_folder_for_temporary_files_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert spooled(rows(), same_block, D) is None
    monkeypatch.setenv("DPINFER_DISK", "1000")
    assert spooled(rows(), same_block, D) is None


def test_a_broken_file_is_told_without_a_value():
    disk = in_a_file(rows())
    os.ftruncate(disk.file._file, 10_000)
    with pytest.raises(dp.InputError, match="temporary file"):
        disk.total(SUMS[0])
    whole = in_a_file(rows())
    other, write = os.pwritev, []

    def failing(*given):
        write.append(given)
        if len(write) > 3:
            raise OSError(5, "Input/output error 4815162342")
        return other(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", failing)
        with pytest.raises(dp.InputError, match="temporary file") as caught:
            whole.over(same_block, D)
    assert "4815162342" not in str(caught.value)


def test_the_file_has_no_name_and_goes_with_the_source(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    disk = in_a_file(rows())
    assert not list(tmp_path.iterdir())
    number = disk.file._file
    assert os.fstat(number).st_mode & 0o077 == 0
    link = Path(f"/proc/self/fd/{number}")
    assert "dpinfer-" in os.readlink(link)
    del disk
    gc.collect()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(5)
    assert not link.exists() or "dpinfer-" not in os.readlink(link)


def test_progress_is_told():
    told = []
    with dp.watching(lambda step, done: told.append(done)):
        in_a_file(rows())
    assert told[0] == 0.0
    assert told[-1] == 1.0
    assert told == sorted(told)


def test_places_do_not_overlap():
    file, places = File(), []
    threads = [threading.Thread(target=lambda: places.extend(file.reserve(100) for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(0, 200 * 800, 800))
    assert spool.File().reserve(0) == 0
