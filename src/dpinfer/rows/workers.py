"""Worker threads, the progress of a pass, and what a fit may take of this machine.

Limits are environment variables, read and checked before anything is booked.

Blocks of rows are worked on by as many threads as there are cores, with results in order.  Within a
block linear algebra has one thread, so that the same block gives the same bits on a machine with
any number of cores.  Progress is how far a pass is, never what it found.
"""

import itertools
import math
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

T = TypeVar("T")
R = TypeVar("R")
Watch = Callable[[str, float], None]
"""A function of the step of a fit and of the share of a pass that is done."""

_MEMORY = 256  # megabytes by default
_AHEAD = 2  # tasks per thread that wait or are done, at most
_MARKS = 20  # reports in a pass

_pool: ContextVar["_Pool | None"] = ContextVar("pool", default=None)
_memory: ContextVar[float | None] = ContextVar("memory", default=None)
_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_step: ContextVar[str] = ContextVar("step", default="")


# Limits


def check() -> None:
    """Refuse a variable that is not a number."""
    threads()
    memory()
    disk()
    kept()


def threads() -> int:
    """Return how many blocks are worked on at once: ``DPINFER_THREADS``, or the number of cores."""
    asked = _integer_setting("DPINFER_THREADS", "a whole number of at least 1", minimum=1)
    return cores() if asked is None else asked


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> float:
    """Return how many bytes that the rows of files may take in memory: ``DPINFER_MEMORY``
    megabytes, 256 by default.
    """
    set_here = _memory.get()
    if set_here is not None:
        return set_here
    asked = _integer_setting("DPINFER_MEMORY", "a whole number of megabytes")
    return (_MEMORY if asked is None else asked) * 1e6


@contextmanager
def memory_limit(limit: float) -> Iterator[None]:
    """Let the rows of files take ``limit`` bytes in memory inside, whatever the variable says: a small table is then
    read as a large one is.
    """
    token = _memory.set(limit)
    try:
        yield
    finally:
        _memory.reset(token)


def disk() -> float:
    """Return how many bytes that they may take in a temporary file: ``DPINFER_DISK`` megabytes, by
    default half of what is free.

    By default nothing is written to a folder that is memory, nor where the folder cannot be looked
    at: the fit then goes on without a temporary file.
    """
    asked = _integer_setting("DPINFER_DISK", "a whole number of megabytes")
    if not hasattr(os, "posix_fallocate"):  # room on the disk cannot be reserved
        return 0.0
    if asked is not None:
        return asked * 1e6
    try:
        folder = scratch()
        if is_memory(folder):
            return 0.0
        return shutil.disk_usage(folder).free / 2
    except OSError:
        return 0.0


def may_use_disk() -> bool:
    """Whether a fit may write rows to a disk at all: ``DPINFER_DISK=0`` forbids it."""
    return _integer_setting("DPINFER_DISK", "a whole number of megabytes") != 0


def kept() -> float:
    """Return how many bytes of encoded rows that each worker of a cluster may keep during a fit:
    ``DPINFER_KEEP`` megabytes, by default what its engine allows.
    """
    asked = _integer_setting("DPINFER_KEEP", "a whole number of megabytes")
    return math.inf if asked is None else asked * 1e6


def scratch() -> str:
    """Return the folder for large temporary files: ``TMPDIR`` if it is one, or ``/var/tmp``, as
    ``/tmp`` may be memory.
    """
    for folder in (os.environ.get("TMPDIR", ""), "/var/tmp"):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return gettempdir()


def is_memory(folder: str) -> bool:
    """Whether what is written to a folder stays in memory; False where that is unknown."""
    device = os.stat(folder).st_dev
    try:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    number = f" {os.major(device)}:{os.minor(device)} "
    return any(number in mount and " - tmpfs " in mount for mount in text.splitlines())


def _integer_setting(name: str, rule: str, minimum: int = 0) -> int | None:
    text = os.environ.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) >= minimum):
        raise InputError(f"{name} must be {rule}: correct it, or unset it")
    return int(text)


# Threads


@contextmanager
def worker_pool(size: int | None = None) -> Iterator[None]:
    """Let `map_ordered` work inside with ``size`` threads, by default `threads`, each with one
    thread for linear algebra.
    """
    pool = _Pool(threads() if size is None else size)
    token = _pool.set(pool)
    try:
        with one_thread():
            yield
    finally:
        _pool.reset(token)
        pool.shutdown()


def map_ordered(work: Callable[[T], R], items: Iterable[T], *, light: bool = True) -> Iterator[R]:
    """Yield the result of ``work`` for each item, in order; the items are taken as they are needed.

    ``light`` work takes milliseconds: items that are no more than the threads are not handed over,
    as that would take longer than it saves.  Without a `worker_pool` there is one thread.
    """
    pool = _pool.get()
    if pool is None or pool.size == 1:
        yield from map(work, items)
        return
    waiting = iter(items)
    if light:
        first = list(itertools.islice(waiting, pool.size + 1))
        if len(first) <= pool.size:
            yield from map(work, first)
            return
        waiting = itertools.chain(first, waiting)
    yield from pool.map_ordered(work, waiting)


class _Pool:
    """Threads that are started when there is enough to do."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._executor: ThreadPoolExecutor | None = None

    def map_ordered(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield results in order, of at most a few items at once."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self.size)
        begun: deque[Future[R]] = deque()
        try:
            for item in items:
                begun.append(self._executor.submit(work, item))
                if len(begun) > _AHEAD * self.size:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            for future in begun:
                future.cancel()

    def shutdown(self) -> None:
        """End the threads; what has not begun is dropped."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


def one_thread() -> AbstractContextManager[None]:
    """Give linear algebra one thread inside, in the whole process."""
    return _ONE_THREAD


class _OneThread:
    """One thread for linear algebra while anybody is inside: the setting is that of the whole
    process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit.enter_context(_controller().limit(limits=1, user_api="blas"))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.close()


_ONE_THREAD = _OneThread()


def steady_heap() -> AbstractContextManager[None]:
    """Keep freed memory with the process inside, to be used again.

    Dask starts its workers with ``MALLOC_TRIM_THRESHOLD_``, so that they give freed memory back at
    once.  Every array of a block is then made of new pages, and a pass takes twice as long.
    """
    return _STEADY_HEAP


class _SteadyHeap:
    """High thresholds of the C library while anybody is inside, and afterwards those of before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                _set_heap(_STEADY, _STEADY)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _set_heap(int(os.environ.get(_TRIM, "0")), _MAPPED)


_STEADY_HEAP = _SteadyHeap()
_STEADY = 2**25  # bytes: larger than any array of a block
_TRIM = "MALLOC_TRIM_THRESHOLD_"
_MAPPED = 2**17  # bytes beyond which the C library asks the system for pages, as it comes


def _set_heap(trim: int, mapped: int) -> None:
    """Set two thresholds of glibc; nothing where it is another library, or adapts them itself."""
    if not os.environ.get(_TRIM, "").isdigit():
        return
    import ctypes  # noqa: PLC0415  (slow to load)

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(-1, trim)  # M_TRIM_THRESHOLD
        mallopt(-3, mapped)  # M_MMAP_THRESHOLD


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415  (loads ctypes)

    return ThreadpoolController()


# Progress


@contextmanager
def progress(watch: Watch) -> Iterator[None]:
    """Call a function with the progress of every pass over the rows, inside a ``with`` block.

    How many passes a search makes depends on the data: only the holder of the data may see the
    calls.

    Parameters
    ----------
    watch : callable
        Called with the name of the step and the part of its pass that is done, from 0 to 1.

    Yields
    ------
    None
        The fits inside the block are watched.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.NoPrivacy())
    >>> parts = []
    >>> with dp.progress(lambda step, part: parts.append(part)):
    ...     result = model.fit(data.table).result_
    >>> max(parts)
    1.0
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Name the passes inside, in words that are public."""
    token = _step.set(name)
    try:
        yield
    finally:
        _step.reset(token)


class Progress:
    """One pass over the rows, reported at fixed marks, so that their number reveals nothing."""

    def __init__(self) -> None:
        self._watch = _watch.get()
        self._step = _step.get()  # which a thread of the pool does not know
        self._last = -1

    def update(self, done: float) -> None:
        """Tell that this part of the pass is done, from 0 to 1."""
        mark = int(min(max(done, 0.0), 1.0) * _MARKS)
        if self._watch is None or mark <= self._last:
            return
        for passed in range(self._last + 1, mark + 1):
            self._watch(self._step, passed / _MARKS)
        self._last = mark
