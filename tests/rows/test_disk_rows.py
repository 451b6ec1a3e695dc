"""Rows that are kept in a temporary file: the same bits as rows in memory, and nothing left behind."""

import gc
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.maths.sums import Block, moment_and_score, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.rows import disk_rows, workers
from dpinfer.rows.disk_rows import File, Spooled, spooled
from dpinfer.rows.source import PIECE, Rows
from dpinfer.rows.transforms import Mapped, Narrow, kept, sample

D = 5
RNG = np.random.default_rng(5)
MATRIX = RNG.standard_normal((D, D)) * 2
SUMS = [second_moment(Neighbours.REPLACE).of_block, moment_and_score(Neighbours.REPLACE).of_block]


def rows(n=150_000, *, weights=1.0, shares=1.0, starts=None):
    X = RNG.uniform(-1, 1, (n, D)) / np.sqrt(D)
    return Rows(Block(X, np.where(RNG.random(n) < 0.5, -1.0, 1.0), weights, shares, starts))


def same_block(block):
    return block


def in_a_file(source):
    found = spooled(source, same_block, source)
    assert isinstance(found, Spooled)
    return found


def equal(left, right):
    return all(np.array_equal(left.total(of_block), right.total(of_block)) for of_block in SUMS)


def with_units(n, chance=0.3):
    share = RNG.uniform(0.1, 1, n)
    starts = np.flatnonzero(np.append(True, RNG.random(n - 1) < chance))
    return rows(n, weights=share * 0.9, shares=share, starts=starts)


CASES = {
    "records": rows,
    "weights": lambda: rows(weights=RNG.uniform(0, 1, 150_000)),
    "shares": lambda: rows(
        weights=RNG.uniform(0, 0.5, 150_000), shares=RNG.uniform(0.5, 1, 150_000)
    ),
    "units": lambda: with_units(150_000),
    "units longer than a block": lambda: with_units(150_000, 1e-4),
    "few": lambda: rows(7),
    "none": lambda: rows(0),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_blocks(case):
    """As `Rows` has them, with everything that a block holds, whatever the number of cores."""
    memory = CASES[case]()
    with workers.at_work():
        disk = in_a_file(memory)
    for name in ("n", "dim", "size", "bulk", "height", "number"):
        assert getattr(disk, name) == getattr(memory, name)
    found, expected = (
        [b for piece in s.pieces() for b in map(copied, piece.blocks())] for s in (disk, memory)
    )
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
    with workers.at_work():
        found = kept(Mapped(disk, MATRIX[:dim], Neighbours.REPLACE), last=True)
    assert isinstance(found, Spooled)
    assert found.file is disk.file
    assert equal(found, through)
    assert equal(found.origin, through)
    with pytest.raises(TypeError):  # the rows before are gone
        disk.total(SUMS[0])
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
    assert all(
        np.allclose(kept(Narrow(disk)).total(f), Narrow(memory).total(f), rtol=1e-12) for f in SUMS
    )
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
    assert spooled(memory, same_block, memory) is None

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.delenv("DPINFER_DISK")
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert spooled(memory, same_block, memory) is None


def test_a_file_that_grows_too_large_is_given_up(monkeypatch):
    """Should there be more rows than were counted, the limit shows when it is reached."""
    source = rows()
    monkeypatch.setattr(Rows, "bulk", 1)
    monkeypatch.setenv("DPINFER_DISK", "2")
    assert spooled(source, same_block, source) is None


def test_the_default_is_half_of_a_disk_and_nothing_of_memory(tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(workers, "_memory", lambda folder: False)
    assert workers.disk() == pytest.approx(free / 2, rel=0.2)
    monkeypatch.setattr(workers, "_memory", lambda folder: folder == str(tmp_path))
    assert workers.disk() == 0
    assert spooled(rows(), same_block, rows()) is None
    monkeypatch.setenv("DPINFER_DISK", "7")
    assert workers.disk() == 7e6


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no folder that is memory")
def test_a_folder_that_is_memory_is_known():
    assert workers._memory("/dev/shm")
    assert not workers._memory("/proc")


def test_a_folder_that_is_none_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert workers.scratch() != str(tmp_path / "none")
    assert isinstance(spooled(source := rows(), same_block, source), Spooled)
    monkeypatch.setattr(workers, "scratch", lambda: str(tmp_path / "none"))
    assert workers.disk() == 0
    monkeypatch.setenv("DPINFER_DISK", "1000")
    assert spooled(source, same_block, source) is None


def failing(act, after, error):
    """``act``, and after some calls an error or, instead of it, one byte less than there was."""
    calls = []

    def acting(*given):
        calls.append(given)
        if len(calls) > after and error is not None:
            raise error
        return act(*given) - (len(calls) > after)

    return acting


def test_a_file_that_cannot_be_read_is_told_without_a_value(monkeypatch):
    disk = in_a_file(rows())
    for error in (None, OSError(5, "Input/output error 4815162342")):
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", failing(os.preadv, 3, error))
            with pytest.raises(dp.InputError, match="temporary file") as caught:
                disk.total(SUMS[0])
        assert "4815162342" not in str(caught.value)


@pytest.mark.parametrize("error", [None, OSError(28, "No space left on device")])
def test_a_disk_that_fails_costs_time_only(error, monkeypatch):
    """The first time that rows are written, and when they are written over: they are made anew in
    every pass then.
    """
    memory, through = rows(), None
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", failing(os.pwritev, 20, error))
        assert spooled(memory, same_block, memory) is None
    disk = in_a_file(memory)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", failing(os.pwritev, 20, error))
        through = kept(Mapped(disk, MATRIX, Neighbours.REPLACE), last=True)
    assert isinstance(through, Mapped)
    assert equal(through, Mapped(memory, MATRIX, Neighbours.REPLACE))
    with pytest.raises(TypeError):
        disk.total(SUMS[0])


def test_a_file_is_closed_also_where_no_thread_can_start(monkeypatch):
    disk = in_a_file(rows(10))
    number = disk.file._file

    def none(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none)
    del disk
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_units_are_not_gathered_in_memory():
    """Where one begins is known block by block."""
    memory = with_units(150_000)
    found = kept(Narrow(in_a_file(memory)))
    assert isinstance(found, Spooled)
    assert [len(b.starts) for p in found.pieces() for b in p.blocks()]
    assert found.n == memory.n


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
    threads = [
        threading.Thread(target=lambda: places.extend(file.reserve(100) for _ in range(50)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(places) == list(range(0, 200 * 800, 800))
    assert disk_rows.File().reserve(0) == 0
