"""What a study draws from, and bootstrap counts: draw i of replicate r is a function of (seed, r,
i) alone.

So a study gives the same replicates whatever its tiles, threads or device.  For studies only: a
multiply-shift has a bias of n/2³² a cell, and the generator (splitmix64) hides nothing.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block
from dpinfer.rows.source import Rows
from dpinfer.tables.memory import rows_of

_GOLDEN, _MIX1, _MIX2 = (
    -0x61C8864680B583EB,
    -0x40A7B892E31B1A47,
    -0x6B2FB644ECCEEE15,
)  # as signed 64-bit integers
_LOW = 2**32 - 1
_TOGETHER = (
    1024  # replicates drawn at once on a device; numpy draws one at a time, to stay in cache
)


def bootstrap_counts(
    xp: Any, seed: int, replicates: range, n: int, device: Any = None, positive: Any = None
) -> Any:
    """How often each of n records is drawn in n draws with replacement: uint8, one replicate a row.

    With ``positive``, the probabilities of the label +1, a draw of row i counts in cell i or, for
    the label -1, n + i.
    """
    steps = xp.arange(1, (n + 1) // 2 + 1, dtype=xp.int64, device=device)[None, :] * _GOLDEN
    together = 1 if xp is np else _TOGETHER
    parts = []
    for start in range(replicates.start, replicates.stop, together):
        some = range(start, min(start + together, replicates.stop))
        cells = [(words * n) >> 32 for words in _words(steps + _keys(xp, seed, some, 0, device), n)]
        if positive is not None:
            coins = _words(steps + _keys(xp, seed, some, 1, device), n)
            cells = [
                _labelled(xp, c, coin, positive, n) for c, coin in zip(cells, coins, strict=True)
            ]
        parts.append(_histograms(xp, cells, n if positive is None else 2 * n, device))
    return xp.concat(parts)


def _keys(xp: Any, seed: int, replicates: range, stream: int, device: Any) -> Any:
    """The start of each replicate's own sequence, as a column."""
    numbers = xp.arange(replicates.start, replicates.stop, dtype=xp.int64, device=device)[:, None]
    base = _mix(_mix(xp.asarray([[seed]], dtype=xp.int64, device=device) + _GOLDEN) + stream)
    return _mix(base + numbers * _GOLDEN)


def _words(z: Any, n: int) -> tuple[Any, Any]:
    """n numbers of 32 bits a row, in two halves: the upper and the lower words of mixed 64-bit
    integers.
    """
    z = _mix(z)
    return (z >> 32) & _LOW, z[:, : n // 2] & _LOW


def _mix(z: Any) -> Any:
    """The mixing function of splitmix64; products wrap, masks make the shifts unsigned."""
    z = (z ^ ((z >> 30) & (2**34 - 1))) * _MIX1
    z = (z ^ ((z >> 27) & (2**37 - 1))) * _MIX2
    return z ^ ((z >> 31) & (2**33 - 1))


def _labelled(xp: Any, cells: Any, coin: Any, positive: Any, n: int) -> Any:
    """Move a draw to the cells of the label -1 where its coin says so."""
    chance = xp.reshape(xp.take(positive, xp.reshape(cells, (-1,))), cells.shape)
    return cells + n * xp.astype(xp.astype(coin, xp.float64) / 2.0**32 >= chance, xp.int64)


def _histograms(xp: Any, cells: list[Any], size: int, device: Any) -> Any:
    """Counts of each row.  No array standard has a histogram: torch scatters on its device, others
    go through numpy.
    """
    k = cells[0].shape[0]
    if hasattr(xp, "scatter_add"):
        counts = xp.zeros((k, size), dtype=xp.int32, device=device)
        one = xp.ones((1, 1), dtype=xp.int32, device=device)
        for part in cells:
            counts.scatter_add_(1, part, one.expand(part.shape))
        return xp.astype(counts, xp.uint8)
    rows = [
        np.bincount(np.concatenate([np.asarray(part[r, :]) for part in cells]), minlength=size)
        for r in range(k)
    ]
    return xp.asarray(np.stack(rows).astype(np.uint8))


@dataclass(frozen=True, repr=False)
class Population:
    """Records with weights that add up to ``n``; a replicate is ``n`` draws with replacement.

    With known truth every row stands twice, with label +1 and with label -1, weighted by the two
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
        """The bootstrap: each record, or unit, once."""
        block = source.block
        return cls(block.rows, block.labels, np.ones(len(block)), None, block.shares, block.starts)

    @classmethod
    def of_truth(cls, X: npt.ArrayLike, truth: Any) -> "Population":
        """Rows of X, labels +1 with probability ``truth(X)`` or ``truth[i]``."""
        rows = rows_of(X, np.ones(len(np.asarray(X)))).block.rows
        positive = np.asarray(truth(rows) if callable(truth) else truth, dtype=float)
        if positive.shape != (len(rows),) or not np.all((positive >= 0) & (positive <= 1)):
            raise InputError(
                "truth must give one probability of the label +1 a row of X, between 0 and 1"
            )
        labels = np.repeat([1.0, -1.0], len(rows))
        return cls(
            np.vstack([rows, rows]), labels, np.concatenate([positive, 1 - positive]), positive
        )

    def weighted(self, weights: Array) -> Rows:
        """All records, each counted by its weight."""
        return Rows(Block(self.rows, self.labels, weights))

    def sample(self, seed: int, replicate: int) -> Rows:
        """The records of one replicate; a unit that is drawn twice is two units."""
        counts = self.counts(np, seed, range(replicate, replicate + 1), None)[0]
        return self.of(np.repeat(np.arange(len(counts)), counts))

    def of(self, drawn: Indices) -> Rows:
        """Some records or units, by their places; one that is named twice is there twice."""
        starts = None
        if self.starts is not None:
            sizes = np.diff(self.starts, append=len(self.rows))[drawn]
            starts = np.cumsum(sizes) - sizes
            drawn = np.repeat(self.starts[drawn] - starts, sizes) + np.arange(sizes.sum())
        shares = self.shares if isinstance(self.shares, float) else self.shares[drawn]
        return Rows(Block(self.rows[drawn], self.labels[drawn], shares, shares, starts))

    @property
    def whole(self) -> Rows:
        """All records, each counting its share."""
        return Rows(Block(self.rows, self.labels, self.shares, self.shares, self.starts))

    @property
    def alike(self) -> bool:
        """Whether every row is a record of its own and counts fully."""
        return self.starts is None and isinstance(self.shares, float)

    @property
    def n(self) -> int:
        """Records, or units, in a replicate."""
        if self.positive is not None:
            return len(self.positive)
        return len(self.rows if self.starts is None else self.starts)

    def update(self, digest: "hashlib._Hash") -> None:
        """Add all that is drawn from to a digest."""
        counted: tuple[Any, ...] = (
            () if self.alike else (self.shares, () if self.starts is None else self.starts)
        )
        for array in (self.rows, self.labels, self.weights, *counted):
            digest.update(np.ascontiguousarray(array).tobytes())

    def counts(self, xp: Any, seed: int, replicates: range, device: Any) -> Any:
        """How often each record, or unit, is drawn, one replicate a row."""
        positive = None if self.positive is None else xp.asarray(self.positive, device=device)
        return bootstrap_counts(xp, seed, replicates, self.n, device, positive)
