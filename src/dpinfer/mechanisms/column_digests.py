"""What is kept of one column while its records pass by: counts of levels, or counts of cells and sums of powers.

Records count 1 each.  A column is given some records after the other, in order; they are worked on in
portions that stay in the cache of a processor.  A portion is some blocks of at most B records
(`dpinfer.mechanisms.sums`), which are summed block by block and added with compensation; counts are whole
numbers, exact in any order.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from dpinfer.mechanisms.column_sums import CELLS, POWERS, Cells, Numbers, Tally, places_of
from dpinfer.mechanisms.sums import BLOCK, Sum
from dpinfer.numerics.arrays import Array

Groups = npt.NDArray[np.intp]
"""The place of each record's group, and the number of groups where it has none."""
Missing = npt.NDArray[np.bool_]

_MOST_BLOCKS = 64
# Cells of all columns in one portion: 64 MB where they are read together.
_CELLS_AT_ONCE = 2**23
# Records of a column that is read alone: the more at once, the less often threads wait for each other.
_RECORDS_AT_ONCE = 2**20
# The same where each cell is looked up, which takes room for several numbers.
_LEVELS_AT_ONCE = 2**18
_EACH = CELLS + 2  # cells of one group: the last is for what is missing


@dataclass(frozen=True)
class Portions:
    """How records are divided: ``blocks`` blocks of B records are a portion, and ``portions`` portions
    come at once.
    """

    blocks: int
    portions: int

    @classmethod
    def of(cls, columns: int, together: int, *, levels: bool = False) -> "Portions":
        """Those of a table of so many columns, some of which are read together; ``levels`` says that
        these have levels alone.

        A portion depends on the table alone, so that sums have the same bits whichever columns are
        read together.
        """
        blocks = max(1, min(_MOST_BLOCKS, _CELLS_AT_ONCE // (BLOCK * max(columns, 1))))
        most = _LEVELS_AT_ONCE if levels else _RECORDS_AT_ONCE
        portions = most // (blocks * BLOCK * max(together, 1))
        return cls(blocks, max(1, portions))

    @property
    def portion(self) -> int:
        """Records of a portion."""
        return self.blocks * BLOCK

    @property
    def at_once(self) -> int:
        """Records that come at once: the last may be fewer."""
        return self.portions * self.portion


class LevelDigest:
    """How many records have each of ``size`` levels, or none; by group, the last for those without
    one.
    """

    def __init__(self, size: int, groups: int) -> None:
        self._size = size
        self._groups = groups
        self._counts = np.zeros((groups + 1) * (size + 1), dtype=np.int64)

    def add(self, codes: npt.NDArray[Any], groups: Groups | None) -> None:
        """Some records: places of levels; NaN, or the number of levels, for none."""
        places = places_of(codes, self._size)
        if groups is not None:
            places += groups * (self._size + 1)
        self._counts += np.bincount(places, minlength=len(self._counts))

    @property
    def counts(self) -> Tally:
        """An axis for groups, one for levels."""
        return self._counts.reshape(self._groups + 1, -1)


@dataclass(frozen=True)
class _Scale:
    """What is public about one column of numbers; see `Numbers`."""

    low: float
    high: float
    middle: float
    half: float
    width: float
    per_width: float
    last: int
    whole: bool

    @classmethod
    def of(cls, numbers: Numbers, column: int) -> "_Scale":
        return cls(
            float(numbers.low[column]),
            float(numbers.high[column]),
            float(numbers.middle[column]),
            float(numbers.half[column]),
            float(numbers.width[column]),
            float(numbers.per_width[column]),
            int(numbers.last[column]),
            bool(numbers.whole[column]),
        )

    @property
    def per_half(self) -> float:
        """1/half, so little less that t is at most 1 however the product is rounded."""
        return (1 - 2.0**-52) / self.half

    @property
    def scaled_last(self) -> bool:
        """Whether the powers of v - middle are summed as they are, and scaled when they are summed: no
        fourth power of them is too large or too small for a float.
        """
        return 1e-60 < self.half < 1e60

    @property
    def told_by_cells(self) -> bool:
        """Whether a cell has one number alone."""
        return self.whole and self.width == 1.0

    def of_cells(self) -> Array:
        """t of the number in each cell, where it has one alone; 0 beyond the last."""
        t = np.zeros(CELLS + 1)
        t[: self.last + 1] = (self.low + np.arange(self.last + 1) - self.middle) / self.half
        return np.clip(t, -1.0, 1.0)


class Scratch:
    """Room for the portions of a column, used again and again: new memory takes longer than what is
    done in it.
    """

    def __init__(self, portions: Portions) -> None:
        self.portions = portions
        self.t = np.empty(portions.portion)
        self.square = np.empty(portions.portion)
        self.place = np.empty(portions.portion)
        self.cells = np.empty(portions.at_once, dtype=np.int32)
        self.each_once = np.ones(portions.at_once, dtype=np.int32)


class NumberDigest:
    """How many numbers of a column lie in each cell, and the sums of t to t⁴, by group.

    A number that is not finite is missing.  Where a cell has one number alone, the counts tell the
    sums.
    """

    def __init__(self, numbers: Numbers, column: int, groups: int, scratch: Scratch) -> None:
        self._scale = _Scale.of(numbers, column)
        self._groups = groups
        self._scratch = scratch
        self._counts = np.zeros((groups + 1) * _EACH, dtype=np.int64)
        blocks = np.zeros((1 + groups, POWERS - 1, scratch.portions.blocks))
        self._sums = Sum(blocks, np.zeros_like(blocks))

    def add(self, values: Array, groups: Groups | None) -> None:
        """Records that come at once."""
        portion = self._scratch.portions.portion
        for first in range(0, len(values), portion):
            some = slice(first, first + portion)
            of_some = None if groups is None else groups[some]
            self._add(values[some], of_some, self._scratch.cells[some])
        self._count(self._scratch.cells[: len(values)])

    def _add(self, values: Array, groups: Groups | None, cells: Cells) -> None:
        scale = self._scale
        missing = None
        # most columns lie within their bounds: that is seen faster than it is made so
        if not (values.min() >= scale.low and values.max() <= scale.high):
            missing = ~np.isfinite(values)
            values = np.clip(values, scale.low, scale.high)
            values[missing] = scale.middle  # where t is 0
        self._place(values, groups, missing, cells)
        if not scale.told_by_cells:
            self._sum(values, groups)

    def _place(
        self, values: Array, groups: Groups | None, missing: Missing | None, cells: Cells
    ) -> None:
        """The cells of `Numbers.cells`, those of each group after those of the one before."""
        size = len(values)
        place = np.subtract(values, self._scale.low, out=self._scratch.place[:size])
        place *= self._scale.per_width
        np.ceil(place, out=place)
        if missing is not None:
            place[missing] = CELLS + 1
        if groups is not None:
            place += groups * float(_EACH)
        np.copyto(cells[:size], place, casting="unsafe")

    def _count(self, cells: Cells) -> None:
        """A matrix with a 1 for each record, in the row of its cell, times 1: as `np.bincount`, which
        takes longer and lets no other thread work.
        """
        size = len(cells)
        each_once = self._scratch.each_once[:size]
        records = csc_array(
            (each_once, cells, np.array([0, size], dtype=np.int32)),
            shape=(len(self._counts), 1),
        )
        self._counts += np.asarray(records @ np.ones(1, dtype=np.int32))

    def _sum(self, values: Array, groups: Groups | None) -> None:
        """Sums of powers, block by block; a portion that is shorter ends in zeros."""
        size = len(values)
        whole = self._scratch.t
        t = np.subtract(values, self._scale.middle, out=whole[:size])
        if not self._scale.scaled_last:
            t *= self._scale.per_half
        whole[size:] = 0.0
        found = np.empty_like(self._sums.total)
        self._powers(whole, found[0])
        for group in range(self._groups):
            assert groups is not None
            members = np.zeros(len(whole))
            members[:size] = groups == group
            self._powers(np.multiply(whole, members, out=members), found[1 + group])
        self._sums = self._sums.plus(Sum(found, 0.0))

    def _powers(self, t: Array, found: Array) -> None:
        """Sums of t to t⁴: one row per power, one column per block."""
        square = np.multiply(t, t, out=self._scratch.square).reshape(-1, BLOCK)
        t = t.reshape(-1, BLOCK)
        np.vecdot(t, _ONES, out=found[0])
        np.vecdot(t, t, out=found[1])
        np.vecdot(square, t, out=found[2])
        np.vecdot(square, square, out=found[3])

    @property
    def counts(self) -> Tally:
        """An axis for groups, the last for records without one, and one for cells."""
        return self._counts.reshape(self._groups + 1, _EACH)

    @property
    def sums(self) -> Array:
        """Of t⁰ to t⁴: an axis for powers, and one for all records and then the groups."""
        counts = self.counts[:, :-1]  # the last cell has what is missing
        by_group = counts.sum(axis=1)
        number = np.append(by_group.sum(), by_group[:-1]).astype(np.float64)
        if self._scale.told_by_cells:
            of_cells = _sums_of_cells(counts, self._scale.of_cells())
            others = np.vstack([of_cells.sum(axis=0), of_cells[:-1]]).T
        else:
            blocks = (Sum(*pair) for pair in zip(*self._blocks(), strict=True))
            others = Sum.all(blocks).value.T
            if self._scale.scaled_last:
                powers = self._scale.per_half ** np.arange(1, POWERS)
                others *= powers[:, None]
        return np.vstack([number, others])

    def _blocks(self) -> tuple[Array, Array]:
        """The sums of all portions, and what was lost: an axis for the place of a block in front."""
        return np.moveaxis(self._sums.total, -1, 0), np.moveaxis(np.asarray(self._sums.lost), -1, 0)


_ONES = np.ones((1, BLOCK))


def _sums_of_cells(counts: Tally, t: Array) -> Array:
    """sum_c count_c t_cᵏ, for each row of counts and k = 1 to 4: products of at most B cells, which
    are added without an error.
    """
    found = np.zeros((len(counts), POWERS - 1))
    for row, of_row in enumerate(counts):
        some = np.flatnonzero(of_row)
        weights = of_row[some].astype(np.float64)
        starts = range(0, len(some), BLOCK)
        for k in range(POWERS - 1):
            powers = t[some] ** (k + 1)
            parts = [weights[j : j + BLOCK] @ powers[j : j + BLOCK] for j in starts]
            found[row, k] = math.fsum(parts)
    return found
