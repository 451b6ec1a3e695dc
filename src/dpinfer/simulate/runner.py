"""What a study runs: replicates by number, counted against a target; in threads, with a bar,
resumed from a file.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer import persistence
from dpinfer.errors import InputError, installed
from dpinfer.fit.recipe import Recipe
from dpinfer.maths.arrays import Array


@dataclass(frozen=True)
class Tally:
    """Sums over replicates, one number a coefficient; two tallies add up to that of both.

    ``covered`` counts intervals that hold what was asked, ``stated`` those that hold what their fit
    states.  ``answered`` counts lines that are printed or have another line in their stead.
    """

    replicates: int
    covered: Array
    stated: Array
    length: Array
    length_squared: Array
    nonprivate: Array
    reported: Array
    answered: Array

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Trial(Protocol):
    """A recipe on a population, with a seed."""

    @property
    def recipe(self) -> Recipe:
        """What is fitted."""
        ...

    @property
    def batch(self) -> int:
        """Replicates that are run together."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything."""
        ...

    @property
    def target(self) -> Array:
        """What is estimated, for the table of the study."""
        ...

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Run some replicates and count."""
        ...

    def describe(self) -> str:
        """The setting in words."""
        ...

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting."""
        ...


T = TypeVar("T")
_SAVE_EVERY = 10.0  # seconds


def run_batches(
    work: Callable[[range], T], batches: list[range], workers: int, progress: bool
) -> Iterator[tuple[range, T]]:
    """Results in order.  A worker computes a batch alone, with one BLAS thread; at most ``workers``
    are under way.
    """
    np.empty(
        31 * 2**20, dtype=np.uint8
    )  # freed at once: glibc then stops returning a tile's memory to the kernel
    with (
        threadpool_limits(1, "blas"),
        ThreadPoolExecutor(workers) as pool,
        _bar(progress) as advance,
    ):
        waiting = iter(batches)
        running = [
            (batch, pool.submit(work, batch))
            for _, batch in zip(range(workers), waiting, strict=False)
        ]
        while running:
            batch, future = running.pop(0)
            result = future.result()
            running += [
                (after, pool.submit(work, after))
                for _, after in zip(range(1), waiting, strict=False)
            ]
            advance(len(batch), sum(len(b) for b in batches))
            yield batch, result


def check(level: float, replicates: int, seed: int, workers: int | None = None) -> None:
    """Refuse what no study can be made of."""
    if not 0 < level < 1:
        raise InputError(f"a study needs a level strictly between 0 and 1, not {level!r}")
    limits = {
        "replicates": (replicates, 1, 10**9),
        "seed": (seed, 0, 2**32 - 1),
        "workers": (workers or 1, 1, 1024),
    }
    for name, (value, least, most) in limits.items():
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


def workers_of(asked: int | None = None, device: str | None = None) -> int:
    """As many as asked for, else the cores; a device is kept busy by one."""
    if asked is not None or device is not None:
        return asked or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def batches_of(replicates: int, size: int) -> list[range]:
    """Consecutive ranges of at most ``size`` replicates."""
    return [range(a, min(a + size, replicates)) for a in range(0, replicates, size)]


class Checkpoint:
    """Tallies on disk, by the first replicate of their batch; written whole, then renamed.

    ``key`` names the study: a file of another study is refused.
    """

    def __init__(self, path: str | Path | None, key: str) -> None:
        self.path, self.key = (None if path is None else Path(path)), key
        self.done: dict[int, Tally] = {}
        self._saved = time.monotonic()
        if self.path is not None and self.path.exists():
            self._read(self.path)
        elif self.path is not None and not self.path.parent.is_dir():
            raise InputError(
                f"the folder of the checkpoint {str(path)!r} does not exist: make it first"
            )

    def add(self, start: int, tally: Tally) -> None:
        """Keep a tally, and save if some time has passed."""
        self.done[start] = tally
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write all tallies; also when the study is interrupted."""
        if self.path is None or not self.done:
            return
        tallies = {str(k): _plain(t) for k, t in self.done.items()}
        persistence.write(self.path, json.dumps({"study": self.key, "tallies": tallies}).encode())
        self._saved = time.monotonic()

    def _read(self, path: Path) -> None:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            tallies = {
                int(k): Tally(t[0], *map(np.array, t[1:])) for k, t in saved["tallies"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise InputError(
                f"{str(path)!r} is not a checkpoint of a study: remove it or name another file"
            ) from None
        if saved.get("study") != self.key:
            raise InputError(
                f"{str(path)!r} belongs to another study: remove it or name another file"
            )
        self.done = tallies


def _plain(tally: Tally) -> list[Any]:
    return [np.asarray(getattr(tally, f.name)).tolist() for f in fields(tally)]


@contextmanager
def _bar(shown: bool) -> Iterator[Callable[[int, int], None]]:
    if not (shown and installed("rich")):
        yield lambda _done, _total: None
        return
    from rich.console import Console  # noqa: PLC0415  (only where a bar is shown)
    from rich.progress import Progress  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replicates", total=None)
        yield lambda done, total: bar.update(task, advance=done, total=total)
