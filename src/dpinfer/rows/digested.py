"""Records of which one pass has kept all that a description asks for."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.errors import PrivacyError
from dpinfer.maths.arrays import Array
from dpinfer.maths.column_sums import (
    CELLS,
    POWERS,
    Cells,
    ColumnSums,
    Levels,
    Numbers,
    Statistics,
    columns_first,
    columns_of,
    places_of,
    scaled,
    turned,
)
from dpinfer.maths.sums import Block, OfBlock
from dpinfer.rows import workers
from dpinfer.rows.source import Blocks

MOST_HISTOGRAMS = 2**8
"""Columns of numbers times groups that are kept at once: half a megabyte each."""
_HELD = 2**21  # numbers whose cells are counted at once: 8 MB


class Digest:
    """What is kept of a pass, while it runs: `of_block` is given every block once, by any thread.

    Counts are whole numbers, so that they are exact in any order.
    """

    def __init__(self, numbers: Numbers, levels: Levels, groups: int) -> None:
        self._numbers = numbers
        self._levels = levels
        self._groups = groups
        columns = len(numbers.places)
        self._cells = np.zeros((columns, (groups + 1) * (CELLS + 2)), dtype=np.int64)
        self._counts = [
            np.zeros((groups + 1) * (size + 1), dtype=np.int64) for size in levels.sizes.tolist()
        ]
        self._held: list[Cells] = []
        self._lock = threading.Lock()

    def of_block(self, block: Block) -> Array:
        """The sums of powers in a block, or in each block of a stack; what else is kept is counted."""
        if not (isinstance(block.shares, float) and block.shares == 1.0):
            raise PrivacyError("what is kept of records counts each of them once")
        block = turned(block)
        groups = np.zeros(block.labels.shape, dtype=np.int32)
        if self._groups:
            groups = places_of(block.labels, self._groups).astype(np.int32)
        self._count_levels(block, groups)
        if not len(self._numbers.places):
            return np.zeros((*block.stack, 0))
        t, missing = scaled(self._numbers, block)
        values = columns_of(block, self._numbers.places)
        self._count_cells(self._numbers.cells(values, none_missing=missing is None), groups)
        sums = self._powers(columns_first(t), groups, missing)
        return sums.reshape(*block.stack, -1)

    def _count_levels(self, block: Block, groups: npt.NDArray[np.int32]) -> None:
        pairs = zip(self._levels.places.tolist(), self._levels.sizes.tolist(), strict=True)
        for j, (place, size) in enumerate(pairs):
            codes = places_of(block.rows[..., place], size)
            if self._groups:
                codes += groups * (size + 1)
            counts = np.bincount(codes.ravel(), minlength=len(self._counts[j]))
            with self._lock:
                self._counts[j] += counts

    def _count_cells(self, cells: Cells, groups: npt.NDArray[np.int32]) -> None:
        if self._groups:
            cells += (groups * np.int32(CELLS + 2))[..., None]
        with self._lock:
            self._held.append(columns_first(cells))
            if sum(one.size for one in self._held) < _HELD:
                return
            held = self._held
            self._held = []
        self._count(held)

    def _count(self, held: Sequence[Cells]) -> None:
        """Count cells that were held back, column by column: the counts of one stay in the cache of
        the processor, and in a few rows alone most of them would be 0.
        """
        columns, cells = self._cells.shape
        for j in range(columns):
            mine = np.concatenate([one[..., j, :] for one in held], axis=None, dtype=np.intp)
            counts = np.bincount(mine, minlength=cells)
            with self._lock:
                self._cells[j] += counts

    def _powers(
        self,
        t: Array,
        groups: npt.NDArray[np.int32],
        missing: npt.NDArray[np.bool_] | None,
    ) -> Array:
        """Sums of t⁰ to t⁴, for all records and for each group: numbers of a column lie side by side."""
        present = np.ones((1, t.shape[-1]))
        if missing is not None:
            present = (~columns_first(missing)).astype(np.float64)
        square = t * t
        powers = [(present, present), (present, t), (t, t), (square, t), (square, square)]
        found = np.empty((*t.shape[:-2], POWERS, 1 + self._groups, t.shape[-2]))
        for k, (one, other) in enumerate(powers):
            found[..., k, 0, :] = np.vecdot(one, other)
        for group in range(self._groups):
            members = (groups == group)[..., None, :]
            for k, (one, other) in enumerate(powers):
                found[..., k, 1 + group, :] = np.vecdot(one * members, other)
        return found

    def statistics(self, sums: Array) -> Statistics:
        """Everything, given the total of `of_block`."""
        if self._held:
            self._count(self._held)
            self._held = []
        groups = self._groups
        columns = len(self._numbers.places)
        pairs = zip(self._levels.places.tolist(), self._counts, strict=True)
        return Statistics(
            self._cells.reshape(columns, groups + 1, CELLS + 2),
            sums.reshape(POWERS, 1 + groups, columns),
            {place: counts.reshape(groups + 1, -1) for place, counts in pairs},
        )


@dataclass(frozen=True, repr=False)
class Digested:
    """A source whose records were read once; it has the total of sums that describe columns, and of
    no others.
    """

    n: int
    dim: int
    statistics: Statistics

    def total(self, of_block: OfBlock, /) -> Array:
        """The sum over all records, from what was kept of them."""
        if not isinstance(of_block, ColumnSums):
            raise PrivacyError("what was kept of the records does not tell this sum")
        return of_block.of_statistics(self.statistics)


def digested(source: Blocks, numbers: Numbers, levels: Levels, groups: int) -> Digested:
    """Read all records, each of which counts 1, and keep what describes these columns by so many
    groups.
    """
    digest = Digest(numbers, levels, groups)
    with workers.step("reading"):
        sums = source.total(digest.of_block)
    return Digested(source.n, source.dim, digest.statistics(sums))
