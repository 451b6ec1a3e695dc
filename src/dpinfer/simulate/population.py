"""The population of a study, and bootstrap samples of it by seed and number.

Draw i of replicate r is a function of (seed, r, i) alone, so a study gives the same replicates
whatever its tiles or threads.  For studies only: a multiply-shift has a bias of n/2³² per
cell, and the generator (splitmix64) hides nothing.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.rows.source import Rows
from dpinfer.tables.memory import rows_of

Counts = npt.NDArray[np.uint8]
Words = npt.NDArray[np.int64]

# The constants of splitmix64, as signed 64-bit integers.
_GOLDEN = -0x61C8864680B583EB
_MIX1 = -0x40A7B892E31B1A47
_MIX2 = -0x6B2FB644ECCEEE15
_LOW = 2**32 - 1

RECORDS = 0
"""The stream of words that say which record is drawn."""

LABELS = 1
"""The stream of words that say which label it has, where the truth is known."""


@dataclass(frozen=True, repr=False)
class Population:
    """Records with weights that add up to ``n``; a replicate is ``n`` draws with replacement.

    With known truth every row is there twice, with label +1 and with label -1, weighted by the two
    probabilities.  With ``shares`` and ``starts``, as in `Block`, what is drawn are units: all rows
    of one, as often as it is drawn.
    """

    rows: Array
    labels: Array
    weights: Array
    positive: Array | None = None
    shares: Array | float = 1.0
    starts: Indices | None = None

    @classmethod
    def of_records(cls, source: Rows) -> "Population":
        """Make the population of the bootstrap: each record, or unit, once."""
        block = source.block
        return cls(block.rows, block.labels, np.ones(len(block)), None, block.shares, block.starts)

    @classmethod
    def of_truth(cls, X: npt.ArrayLike, truth: Any) -> "Population":
        """Make a population of rows X with labels +1 with probability ``truth(X)`` or ``truth[i]``."""
        rows = rows_of(X, np.ones(len(np.asarray(X)))).block.rows
        positive = np.asarray(truth(rows) if callable(truth) else truth, dtype=float)
        if positive.shape != (len(rows),) or not np.all((positive >= 0) & (positive <= 1)):
            raise InputError(
                "truth must give one probability of the label +1 per row of X, between 0 and 1"
            )
        labels = np.repeat([1.0, -1.0], len(rows))
        weights = np.concatenate([positive, 1 - positive])
        return cls(np.vstack([rows, rows]), labels, weights, positive)

    @property
    def n(self) -> int:
        """Records, or units, in a replicate."""
        if self.positive is not None:
            return len(self.positive)
        return len(self.rows if self.starts is None else self.starts)

    @property
    def equally_counted(self) -> bool:
        """Whether every row is a record of its own and counts fully."""
        return self.starts is None and isinstance(self.shares, float)

    @property
    def records(self) -> Rows:
        """All records, each counting its share."""
        return Rows(Block(self.rows, self.labels, self.shares, self.shares, self.starts))

    def weighted(self, weights: Array) -> Rows:
        """Return all records, each counted by its weight."""
        return Rows(Block(self.rows, self.labels, weights))

    def sample(self, seed: int, replicate: int) -> Rows:
        """Draw the records of one replicate; a unit that is drawn twice is two units."""
        counts = self.counts(seed, range(replicate, replicate + 1))[0]
        return self.of(np.repeat(np.arange(len(counts)), counts))

    def of(self, drawn: Indices) -> Rows:
        """Return the records or units at these positions; one that is named twice is there twice."""
        starts = None
        if self.starts is not None:
            sizes = np.diff(self.starts, append=len(self.rows))[drawn]
            starts = np.cumsum(sizes) - sizes
            drawn = np.repeat(self.starts[drawn] - starts, sizes) + np.arange(sizes.sum())
        shares = self.shares if isinstance(self.shares, float) else self.shares[drawn]
        return Rows(Block(self.rows[drawn], self.labels[drawn], shares, shares, starts))

    def counts(self, seed: int, replicates: range) -> Counts:
        """Count how often each record, or unit, is drawn: one row per replicate."""
        return bootstrap_counts(seed, replicates, self.n, self.positive)

    def update(self, digest: "hashlib._Hash") -> None:
        """Add all that is drawn from to a digest."""
        arrays: list[Any] = [self.rows, self.labels, self.weights]
        if not self.equally_counted:
            arrays.append(self.shares)
            arrays.append(() if self.starts is None else self.starts)
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())


def bootstrap_counts(seed: int, replicates: range, n: int, positive: Array | None = None) -> Counts:
    """Count how often each of n records is drawn in n draws with replacement, one row per
    replicate.

    With ``positive``, the probabilities of the label +1, a draw of row i counts in cell i or, for
    the label -1, n + i.
    """
    steps = draw_steps(n)
    size = n if positive is None else 2 * n
    counts = np.empty((len(replicates), size), dtype=np.uint8)
    for line, replicate in enumerate(replicates):  # one at a time, to stay in the cache
        one = range(replicate, replicate + 1)
        cells = np.hstack(drawn_cells(steps + replicate_keys(seed, one, RECORDS), n))[0]
        if positive is not None:
            coins = np.hstack(drawn_words(steps + replicate_keys(seed, one, LABELS), n))[0]
            cells = cells + n * (coins / 2.0**32 >= positive[cells])
        counts[line] = np.bincount(cells, minlength=size)
    return counts


def draw_steps(n: int) -> Words:
    """Return one step of the generator for two draws of a replicate, as a row."""
    steps: Words = np.arange(1, (n + 1) // 2 + 1, dtype=np.int64)[None, :] * _GOLDEN
    return steps


def replicate_keys(seed: int, replicates: range, stream: int) -> Words:
    """Return where the sequence of each replicate starts in a stream, as a column."""
    numbers = np.arange(replicates.start, replicates.stop, dtype=np.int64)[:, None]
    base = _mixed(_mixed(np.array([[seed]], dtype=np.int64) + _GOLDEN) + stream)
    keys: Words = _mixed(base + numbers * _GOLDEN)
    return keys


def drawn_cells(sequence: Any, n: int) -> tuple[Any, Any]:
    """Return which of n records each draw takes, in two parts; for an array of any library."""
    upper, lower = drawn_words(sequence, n)
    return (upper * n) >> 32, (lower * n) >> 32


def drawn_words(sequence: Any, n: int) -> tuple[Any, Any]:
    """Draw n numbers of 32 bits per row, in two parts; for an array of any library.

    They are the upper and the lower words of mixed 64-bit integers.
    """
    mixed = _mixed(sequence)
    return (mixed >> 32) & _LOW, mixed[:, : n // 2] & _LOW


def _mixed(z: Any) -> Any:
    """Apply the mixing function of splitmix64; products wrap, masks make the shifts unsigned."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _MIX1
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _MIX2
    return z ^ ((z >> 31) & (2**33 - 1))
