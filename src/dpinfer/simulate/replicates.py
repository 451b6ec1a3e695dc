"""The replicates of a study: run in threads, counted, saved; and one fit after the other.

A `Trial` is a recipe on a population.  It runs replicates by their numbers, and `run_batches`
decides who runs which of them.  `OneByOne` is the trial for every recipe: the product itself on
each bootstrap sample.  The trial for thousands of penalised fits at once is in batched.py.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.fit.recipe import Recipe, fit
from dpinfer.numerics.arrays import Array
from dpinfer.result.result import FitResult
from dpinfer.rows import workers
from dpinfer.rows.source import Rows
from dpinfer.simulate.estimands import Estimand, estimand_of
from dpinfer.simulate.population import Population

T = TypeVar("T")
Progress = Callable[[int, int], None]
"""Called with the number of replicates that are done, and with that of all."""

_SAVE_EVERY = 10.0  # seconds


@dataclass(frozen=True)
class Tally:
    """Sums over replicates, one number per coefficient; two tallies add up to that of both.

    ``covered`` counts intervals that hold what was asked, ``stated`` those that hold what their fit
    states.  ``answered`` counts lines that are printed or have another line in their place.
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
        """The recipe that is studied."""
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
        """The estimand, for the table of the study."""
        ...

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Run the replicates of these numbers and count."""
        ...

    def describe(self) -> str:
        """Describe the setting."""
        ...

    def fingerprint(self) -> bytes:
        """Return a digest of the data and the setting."""
        ...


@dataclass(frozen=True, eq=False)
class OneByOne:
    """Any recipe: the product's own fit of one bootstrap sample after the other."""

    recipe: Recipe
    population: Population
    seed: int
    batch = 8

    @cached_property
    def estimand(self) -> Estimand:
        """The estimand of the intervals."""
        return estimand_of(self.recipe, self.population)

    @property
    def target(self) -> Array:
        """The estimand, for the table of the study."""
        return self.estimand.target

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Compare intervals with the ordinary estimand and with the one that each fit states."""
        total = self._one(replicates[0], level, nonprivate)
        for replicate in replicates[1:]:
            total = total + self._one(replicate, level, nonprivate)
        return total

    def fit(self, sample: Rows, replicate: int) -> FitResult:
        """Fit the bootstrap sample of a replicate."""
        return fit(self.recipe, sample, insecure_seed=noise_seed(self.seed, replicate))

    def describe(self) -> str:
        """Describe the setting."""
        return setting_in_words(self.recipe, self.population)

    def fingerprint(self) -> bytes:
        """Return a digest of the data and the setting."""
        return fingerprint(self.population, self.estimand, self.seed)

    def _one(self, replicate: int, level: float, nonprivate: bool) -> Tally:
        sample = self.population.sample(self.seed, replicate)
        result = self.fit(sample, replicate)
        asked, stated = self.estimand.values(result)
        low, high = result.conf_int(level).T
        reported = result.reported
        length = np.where(reported, high - low, 0.0)
        plain = high - low
        if nonprivate:
            plain = self.estimand.nonprivate_length(result, sample, level)
        others = () if result.instead is None else result.instead.instead_of
        return Tally(
            replicates=1,
            covered=(reported & (low <= asked) & (asked <= high)).astype(float),
            stated=(reported & (low <= stated) & (stated <= high)).astype(float),
            length=length,
            length_squared=length**2,
            nonprivate=np.where(reported, plain, 0.0),
            reported=reported.astype(float),
            answered=(reported | np.isin(result.names, others)).astype(float),
        )


def noise_seed(seed: int, replicate: int) -> int:
    """Return the seed of the noise of one replicate."""
    return int(np.random.SeedSequence([seed, replicate]).generate_state(1)[0])


def setting_in_words(recipe: Recipe, population: Population) -> str:
    """Describe how many records or units there are, and the recipe."""
    n = population.n
    size = f"n = {n}" if population.starts is None else f"{n} units"
    return f"{size}, {recipe.describe(n)}"


def fingerprint(population: Population, estimand: Estimand, seed: int) -> bytes:
    """Return a digest of the population, of the estimand, and of the seed."""
    digest = hashlib.sha256()
    population.update(digest)
    for fact in (*estimand.facts, seed):
        if isinstance(fact, np.ndarray):
            digest.update(np.ascontiguousarray(fact).tobytes())
        else:
            digest.update(repr(fact).encode())
    return digest.digest()


def check_numbers(level: float, replicates: int, seed: int, threads: int | None = None) -> None:
    """Refuse what no study can be made of."""
    if not 0 < level < 1:
        raise InputError(f"a study needs a level strictly between 0 and 1, not {level!r}")
    limits = {
        "replicates": (replicates, 1, 10**9),
        "seed": (seed, 0, 2**32 - 1),
        "workers": (threads or 1, 1, 1024),
    }
    for name, (value, low, high) in limits.items():
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise InputError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def batches_of(replicates: int, size: int) -> list[range]:
    """Return consecutive ranges of at most ``size`` replicates."""
    return [range(a, min(a + size, replicates)) for a in range(0, replicates, size)]


def run_batches(
    work: Callable[[range], T],
    batches: list[range],
    threads: int | None = None,
    progress: Progress | None = None,
    done: int = 0,
) -> Iterator[tuple[range, T]]:
    """Yield results in order, from as many threads as asked for, or as there are cores.

    ``done`` replicates were run before.
    """
    if progress and not callable(progress):
        raise InputError("progress= takes a function of two numbers: replicates done, and all")
    total = done + sum(len(batch) for batch in batches)
    with workers.worker_pool(threads):
        results = workers.map_ordered(work, batches, light=False)
        for batch, result in zip(batches, results, strict=True):
            done += len(batch)
            if progress:
                progress(done, total)
            yield batch, result


class Checkpoint:
    """Tallies on disk, by the first replicate of their batch; written whole, then renamed.

    ``key`` names the study: a file of another study is refused.
    """

    def __init__(self, path: str | Path | None, key: str) -> None:
        self.path = None if path is None else Path(path)
        self.key = key
        self.tallies: dict[int, Tally] = {}
        self._saved = time.monotonic()
        if self.path is None:
            return
        if self.path.exists():
            self.tallies = self._read(self.path)
        elif not self.path.parent.is_dir():
            raise InputError(
                f"the folder of the checkpoint {str(path)!r} does not exist: make it first"
            )

    def add(self, start: int, tally: Tally) -> None:
        """Keep a tally, and save if some time has passed."""
        self.tallies[start] = tally
        if time.monotonic() - self._saved > _SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Write all tallies; also when the study is interrupted."""
        if self.path is None or not self.tallies:
            return
        tallies = {str(start): _plain(tally) for start, tally in self.tallies.items()}
        persistence.write(self.path, json.dumps({"study": self.key, "tallies": tallies}).encode())
        self._saved = time.monotonic()

    def _read(self, path: Path) -> dict[int, Tally]:
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            tallies = {
                int(start): Tally(tally[0], *map(np.array, tally[1:]))
                for start, tally in saved["tallies"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
            raise InputError(
                f"{str(path)!r} is not a checkpoint of a study: remove it or name another file"
            ) from None
        if saved.get("study") != self.key:
            raise InputError(
                f"{str(path)!r} belongs to another study: remove it or name another file"
            )
        return tallies


def _plain(tally: Tally) -> list[Any]:
    return [np.asarray(getattr(tally, f.name)).tolist() for f in fields(tally)]
