"""Arrays in a temporary file: read as they were written, and nothing is left behind."""

import errno
import gc
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from dpinfer.rows import workers
from dpinfer.rows.source import MEMORY, Disk

LINUX = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system has no /proc")


@pytest.mark.parametrize("make", [lambda _: MEMORY, Disk])
def test_what_is_read_is_what_was_written(make):
    rng = np.random.default_rng(0)
    storage = make(8 * (1000 * 7 + 1000 + 300))
    rows = storage.empty((1000, 7))
    labels = storage.empty((1000,))
    starts = storage.empty((300,), np.intp)
    assert starts.dtype == np.intp
    numbers = rng.standard_normal((1000, 7))
    for first in (500, 0):
        some = slice(first, first + 500)
        storage.write(rows[some], np.asfortranarray(numbers[some]))
        storage.write(labels[some], numbers[some, 0])
    storage.write(starts, np.arange(300, dtype=np.int32))
    for _ in range(2):
        assert np.array_equal(rows, numbers)
        assert np.array_equal(labels, numbers[:, 0])
        assert np.array_equal(starts, np.arange(300))
        for array in (rows[300:], labels, starts, rows[:0]):
            storage.forget(array)


def test_threads_may_write_at_once():
    disk = Disk(8 * 200 * 1000)
    array = disk.empty((200, 1000))

    def write(first):
        for j in range(first, 200, 4):
            disk.write(array[j], np.full(1000, float(j)))
            disk.forget(array[j])

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(array, np.repeat(np.arange(200.0), 1000).reshape(200, 1000))


def test_a_file_may_be_empty():
    disk = Disk(0)
    array = disk.empty((0, 5))
    disk.write(array, np.empty((0, 5)))
    disk.forget(array)
    assert array.shape == (0, 5)


def test_a_file_is_as_large_as_it_may_be(monkeypatch):
    monkeypatch.setenv("DPINFER_DISK", "2")
    Disk(2_000_000)
    with pytest.raises(OSError, match="larger than it may be"):
        Disk(2_000_001)


def test_a_full_disk_is_told_before_anything_is_written(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        Disk(1000)


def test_a_file_system_that_cannot_reserve_is_written_in_full(monkeypatch):
    def unable(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", unable)
    size = 5 * 2**20 + 8
    disk = Disk(size)
    assert os.fstat(disk._file).st_size == size
    assert os.fstat(disk._file).st_blocks * 512 >= size
    assert not disk.empty((size // 8,)).any()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        Disk(1000)


def test_a_folder_that_is_gone_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "scratch", lambda: str(tmp_path / "none"))
    monkeypatch.setenv("DPINFER_DISK", "1000")
    with pytest.raises(FileNotFoundError):
        Disk(1000)


@LINUX
def test_the_file_has_no_name_and_goes_with_its_arrays(tmp_path, monkeypatch):
    def opened():
        links = []
        for descriptor in os.listdir("/proc/self/fd"):
            try:
                links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            except OSError:  # that of the folder itself
                continue
        return [link for link in links if link.startswith(str(tmp_path))]

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DPINFER_DISK", "1")  # the folder may be in memory
    disk = Disk(80_000)
    assert not list(tmp_path.iterdir())
    assert os.fstat(disk._file).st_mode & 0o077 == 0
    assert all("(deleted)" in link for link in opened())
    array = disk.empty((10_000,))
    disk.write(array, np.arange(10_000.0))
    del disk
    gc.collect()
    assert opened()
    assert array[-1] == 9_999
    del array
    gc.collect()
    assert not opened()


@LINUX
def test_what_was_read_does_not_stay_in_memory():
    def resident():
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        (line,) = [line for line in status.splitlines() if line.startswith("RssFile:")]
        return int(line.split()[1]) // 1000

    disk = Disk(80_000_000)
    array = disk.empty((10_000_000,))
    before = resident()
    assert not array.any()
    assert resident() > before + 70
    disk.forget(array)
    assert resident() < before + 10
