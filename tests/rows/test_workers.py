"""Threads, their limits, and what a fit may take of this machine."""

import shutil
import threading
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

import dpinfer as dp
from dpinfer.rows import workers


def test_results_come_in_order_and_errors_come_through(monkeypatch):
    monkeypatch.setenv("DPINFER_THREADS", "3")

    def work(j):
        if j == 77:
            raise KeyError(j)
        return j * j

    with workers.worker_pool():
        assert list(workers.map_ordered(work, range(60))) == [j * j for j in range(60)]
        assert list(workers.map_ordered(work, iter(()))) == []
        assert list(workers.map_ordered(work, range(3), light=False)) == [0, 1, 4]
        with pytest.raises(KeyError):
            list(workers.map_ordered(work, range(200)))
    for wrong in ("0", "two", "-1"):
        monkeypatch.setenv("DPINFER_THREADS", wrong)
        with pytest.raises(dp.InputError, match="DPINFER_THREADS"):
            workers.check()


def test_few_light_items_are_not_handed_over():
    """Heavy ones are."""

    def thread(_):
        return threading.get_ident()

    with workers.worker_pool(2):
        here = {threading.get_ident()}
        assert set(workers.map_ordered(thread, range(2))) == here
        assert set(workers.map_ordered(thread, range(2), light=False)).isdisjoint(here)
        assert set(workers.map_ordered(thread, range(9))).isdisjoint(here)
    assert set(workers.map_ordered(thread, range(9), light=False)) == here


def test_items_are_taken_as_they_are_needed():
    taken = []

    def items():
        for j in range(100):
            taken.append(j)
            yield j

    with workers.worker_pool(2):
        results = workers.map_ordered(lambda j: j, items())
        assert next(results) == 0
        assert len(taken) <= 5
        results.close()


def test_linear_algebra_has_one_thread_in_a_pool_and_its_own_number_after():
    def threads():
        return [
            library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
        ]

    before = threads()
    with workers.worker_pool(), workers.worker_pool():
        assert set(threads()) == {1}
    assert threads() == before


def test_the_default_is_half_of_a_disk_and_nothing_of_memory(tmp_path, monkeypatch):
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(workers, "is_memory", lambda folder: False)
    assert workers.disk() == pytest.approx(free / 2, rel=0.2)
    monkeypatch.setattr(workers, "is_memory", lambda folder: folder == str(tmp_path))
    assert workers.disk() == 0
    monkeypatch.setenv("DPINFER_DISK", "7")
    assert workers.disk() == 7e6


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no folder that is memory")
def test_a_folder_thatis_memory_is_known():
    assert workers.is_memory("/dev/shm")
    assert not workers.is_memory("/proc")


def test_a_folder_that_is_none_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    assert workers.scratch() != str(tmp_path / "none")
    assert workers.disk() > 0
    monkeypatch.setattr(workers, "scratch", lambda: str(tmp_path / "none"))
    assert workers.disk() == 0
