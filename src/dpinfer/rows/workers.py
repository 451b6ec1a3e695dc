"""What a fit may take of this machine: environment variables, read and checked before anything is
booked.

Who works on blocks of rows: as many at once as there are cores, with results in order; and who
watches.

Within a block linear algebra has one thread, so that the same block gives the same bits on a
machine with any number of cores.  What is watched is how far a pass is, never what it found.
"""

import os
import shutil
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypeVar

from dpinfer.errors import InputError


def check() -> None:
    """Refuse a variable that is no number."""
    threads(), memory(), disk()


def threads() -> int:
    """How many blocks are worked on at once: ``DPINFER_THREADS``, or the cores that this process
    may use.
    """
    asked = _whole("DPINFER_THREADS", "a whole number of at least 1", least=1)
    if asked is not None:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def memory() -> float:
    """Bytes that the rows of files may take in memory: ``DPINFER_MEMORY`` megabytes, 256 by
    default.
    """
    asked = _whole("DPINFER_MEMORY", "a whole number of megabytes")
    return (256 if asked is None else asked) * 1e6


def disk() -> float:
    """Bytes that they may take in a temporary file: ``DPINFER_DISK`` megabytes, by default half of
    what is free.

    Where it cannot be had the fit goes on without: 0 in a folder that is memory, or that is none.
    """
    asked = _whole("DPINFER_DISK", "a whole number of megabytes")
    if not hasattr(os, "posix_fallocate"):  # nor is there a read at a place
        return 0.0
    try:
        return (
            asked * 1e6
            if asked is not None
            else 0.0
            if _memory(scratch())
            else shutil.disk_usage(scratch()).free / 2
        )
    except OSError:
        return 0.0


def scratch() -> str:
    """The folder for large temporary files: ``TMPDIR`` if it is one, or ``/var/tmp``, as ``/tmp``
    may be memory.
    """
    for folder in (os.environ.get("TMPDIR", ""), "/var/tmp"):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return gettempdir()


def _memory(folder: str) -> bool:
    """Whether what is written to a folder stays in memory; False where the system does not tell."""
    device = os.stat(folder).st_dev
    try:
        mounts = (
            Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        )
    except OSError:
        return False
    at = f" {os.major(device)}:{os.minor(device)} "
    return any(at in mount and " - tmpfs " in mount for mount in mounts)


def _whole(name: str, words: str, least: int = 0) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= least):
        raise InputError(f"{name} must be {words}: correct it, or unset it")
    return int(text)


T = TypeVar("T")
R = TypeVar("R")
Watch = Callable[[str, float], None]

_AHEAD = 2  # tasks a worker that wait or are done, at most
_MARKS = 20  # of a pass, at which whoever watches is told

_crew: ContextVar["_Crew | None"] = ContextVar("crew", default=None)
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_step: ContextVar[str] = ContextVar("step", default="")


@contextmanager
def at_work(size: int | None = None) -> Iterator[None]:
    """Inside, blocks are worked on by all cores or ``size`` threads; linear algebra has one thread
    a block.
    """
    crew = _Crew(threads() if size is None else size)
    token = _crew.set(crew)
    try:
        with one_thread():
            yield
    finally:
        _crew.reset(token)
        crew.dismiss()


def one_thread() -> AbstractContextManager[None]:
    """Inside, linear algebra has one thread, in the whole process."""
    return _BLAS


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Inside, ``watch`` is told the step of a fit and which part of a pass over the rows is done.

    How many passes a search makes depends on the data: what is told is for the holder of the data
    alone.
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def step(name: str) -> Iterator[None]:
    """What the passes inside are for, in words that are public."""
    token = _step.set(name)
    try:
        yield
    finally:
        _step.reset(token)


class Pass:
    """One pass over the rows, for whoever watches: told at fixed marks, so that their number tells
    nothing.
    """

    def __init__(self) -> None:
        self._watch, self._last = _watch.get(), -1

    def seen(self, done: float) -> None:
        """So much of the pass is done."""
        mark = int(min(max(done, 0.0), 1.0) * _MARKS)
        if self._watch is not None and mark > self._last:
            for passed in range(self._last + 1, mark + 1):
                self._watch(_step.get(), passed / _MARKS)
            self._last = mark


def in_order(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """What ``work`` makes of each item, in order; the items are taken as they are needed."""
    crew = _crew.get()
    if crew is None or crew.size == 1:
        yield from map(work, items)
        return
    yield from crew.in_order(work, items)


class _Crew:
    """Threads that are there from the first pass with enough to do."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool: ThreadPoolExecutor | None = None

    def in_order(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        items, begun = iter(items), []
        for item in items:
            begun.append(item)
            if len(begun) > self.size:
                break
        else:
            yield from map(work, begun)  # too little to share
            return
        self._pool = self._pool or ThreadPoolExecutor(self.size)
        waiting: deque[Future[R]] = deque(self._pool.submit(work, item) for item in begun)
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > _AHEAD * self.size:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def dismiss(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


class _OneThread:
    """One thread for linear algebra while anybody is inside; the setting is that of the whole
    process.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit.enter_context(_limit())

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.close()


_BLAS = _OneThread()


def _limit() -> AbstractContextManager[Any]:
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  (loads ctypes)

    return ThreadpoolController()
