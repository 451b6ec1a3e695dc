"""Sums that describe columns one by one: counts of levels, moments and histograms of numbers, by group.

A row of a description is 1 and then, for each column, the place of its level or its number in
original units, and NaN where it has none.  The label is the place of the record's group, or NaN.

| symbol | meaning                                                            | name in code |
| ------ | ------------------------------------------------------------------ | ------------ |
| w      | what a row counts; the rows of a unit count at most 1 together     | `shares`     |
| u      | whether a row has a number, 1 or 0                                 |              |
| t      | that number in [-1, 1], by its public bounds; 0 where there is none |              |
| p      | whether a row has a level, 1 or 0                                  |              |

Each sum is a `Part` of a stack, and knows how far one record moves it *in one column*.  A `Stack`
scales columns and parts, so that a share of the budget is spent on each, and moves by at most 1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.histograms import Counts, counts_of
from dpinfer.mechanisms.sums import Block, OfBlock, weighted_sum
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array, Indices

Cells = npt.NDArray[np.int32]
Tally = npt.NDArray[np.int64]
_ROUNDED = 1 - 2.0**-40  # of a stack's scales, which are quotients of rounded roots
CELLS = 2**16
"""Into which the range of a number is divided; what is in one of them is not told apart."""
_TABLES = 2**10  # histograms whose bins are looked up: their tables are 64 MB
QUARTILES = (0.25, 0.5, 0.75)
POWERS = 5
"""Of t whose sums are kept by one pass, from the zeroth."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Columns of levels: their places in a row, and how many levels each has.

    A column without any level counts all records.
    """

    places: Indices
    sizes: Indices


@dataclass(frozen=True, eq=False)
class Numbers:
    """Columns of numbers: their places in a row, public bounds, and which hold whole numbers."""

    places: Indices
    low: Array
    high: Array
    whole: Indices

    @cached_property
    def middle(self) -> Array:
        """Of the bounds."""
        return np.asarray((self.low + self.high) / 2)

    @cached_property
    def half(self) -> Array:
        """Half their distance: the larger half, where they differ by rounding."""
        return np.asarray(np.maximum(self.high - self.middle, self.middle - self.low))

    @cached_property
    def width(self) -> Array:
        """Of a cell: whole where the numbers are."""
        span = self.high - self.low
        whole = np.maximum(np.ceil(span / CELLS), 1.0)
        return np.where(self.whole, whole, span / CELLS * (1 + 2.0**-40))

    @cached_property
    def per_width(self) -> Array:
        """Cells per unit; of whole numbers in wide cells so little less that the last number of a cell
        stays in it, however the product is rounded.
        """
        wide = self.whole & (self.width > 1)
        return np.where(wide, 1 - 2.0**-40, 1.0) / self.width

    @cached_property
    def last(self) -> Indices:
        """The cell of the upper bound."""
        return np.ceil((self.high - self.low) / self.width).astype(np.intp)

    def cells(self, values: Array) -> Cells:
        """The cell of each value: 0 is the lower bound alone, and cell c has what lies in the c-th
        width above it, its upper end included.  A value that is missing is beyond all cells.

        It is an element-wise function, so that a record's cells depend on the record alone.
        """
        found = values - self.low
        found *= self.per_width
        np.ceil(found, out=found)
        np.clip(found, 0.0, self.last, out=found)
        if np.isnan(found.sum()):  # the other operation takes longer than this
            np.fmin(found, CELLS + 1.0, out=found)
        return found.astype(np.int32)  # faster by far than to eight bytes


@dataclass(frozen=True)
class Panel:
    """The groups that records are counted in: all of them together, or those of a column.

    ``groups`` is their number.  A record whose group is missing is in none.
    """

    grouped: bool = False
    groups: int = 1

    def members(self, block: Block) -> tuple[Indices, Array]:
        """The group of each row, and what it counts there: 0 where it is in none."""
        counts = _present(block)
        if not self.grouped:
            return np.zeros(counts.shape, dtype=np.intp), counts
        groups = places_of(block.labels, self.groups)
        inside = groups < self.groups
        return np.where(inside, groups, 0), np.where(inside, counts, 0.0)


def places_of(codes: npt.NDArray[Any], last: Indices | int) -> Indices:
    """Codes as places from 0 to ``last``, which stands for what is missing, whatever they are."""
    found = np.clip(codes, 0, last)
    if found.dtype.kind == "f" and np.isnan(found.sum()):  # the other operation takes longer
        found = np.fmin(found, last)
    return np.asarray(found, dtype=np.intp)


def _turned(block: Block) -> Block:
    """The same rows, with the numbers of a column side by side in memory.

    What is done to columns, each with bounds of its own, is so done to many numbers at once: numpy
    keeps the layout of what it is given.
    """
    columns = _columns_first(block.rows)
    if columns.strides[-1] == columns.itemsize:  # they lie so already
        return block
    return replace(block, rows=_columns_first(np.ascontiguousarray(columns)))


def _columns_first(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An axis for columns, then one for rows."""
    return rows.swapaxes(-1, -2)


def columns_of(block: Block, places: Indices) -> Array:
    """Some columns of the rows: as they lie where they follow each other, else copied."""
    if len(places) and places[-1] - places[0] == len(places) - 1:
        return block.rows[..., places[0] : places[-1] + 1]
    return np.take(block.rows.swapaxes(-1, -2), places, axis=-2).swapaxes(-1, -2)


def _tally(places: npt.NDArray[Any], bins: int, counts: Array | None) -> Array:
    """How many rows have each of ``bins`` places, of which every column has its own; or what these
    rows count.
    """
    by_column = places.swapaxes(-1, -2)
    stack = by_column.shape[:-2]
    weights = None
    if counts is not None:
        repeated = np.broadcast_to(counts[..., None, :], by_column.shape)
        weights = repeated.reshape(*stack, -1)
    return counts_of(by_column.reshape(*stack, -1), bins, weights)


def _present(block: Block) -> Array:
    """What each row counts: nothing where it is no record."""
    if isinstance(block.shares, float):  # every row is a record
        return np.full(block.labels.shape, block.shares)
    return np.where(block.rows[..., 0] != 0, block.shares, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """What one pass over records that count 1 each has kept: every sum of a description follows from
    it, whatever cuts and centres are asked about later.

    ``cells`` counts the numbers of each column: an axis for groups, whose last is for records without
    any, and one for cells.  ``sums`` has those of t⁰ to t⁴: an axis for powers, one for all records
    and then the groups, and one for columns.  ``levels`` counts records by the place of a column in
    a row, for groups as in ``cells``.
    """

    cells: Sequence[Tally]
    sums: Array
    levels: Mapping[int, Tally]

    def in_cells(self, column: int, panel: Panel) -> Tally:
        """The numbers of a column, by its place among them, in each group of a panel and cell."""
        return _in_groups(self.cells[column], panel)

    def with_level(self, place: int, panel: Panel) -> Tally:
        """The records of each group of a panel with each level of a column, and without any."""
        return _in_groups(self.levels[place], panel)

    def powers(self, panel: Panel) -> Array:
        """The sums of t⁰ to t⁴ for each group of a panel, and column."""
        return self.sums[:, 1:] if panel.grouped else self.sums[:, :1]


def _in_groups(counts: Tally, panel: Panel) -> Tally:
    """Counts by group, those without one left out; or all of them together."""
    if panel.grouped:
        return counts[:-1]
    if len(counts) == 1:  # then there are no groups
        return counts
    return np.asarray(counts.sum(axis=0, keepdims=True))


OfStatistics = Callable[[Statistics], Array]
"""From what was kept of all records to a sum over them."""


@dataclass(frozen=True, eq=False)
class Part:
    """A sum that is a vector, each entry about one column, its ``owner``.

    One record moves the entries of a column by at most ``moved``, as a vector, and by at most
    ``added`` if the sizes of their changes are added up.  Where records count 1 each, ``of_statistics``
    has the same sum over all of them from what one pass has kept.
    """

    of_block: OfBlock
    owner: Indices
    moved: float
    added: float
    of_statistics: OfStatistics | None = None


def level_counts(levels: Levels, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column the number of records per group and level, and of those without a level.

    Guarantee [level_counts_sensitivity]: one column moves by at most sqrt 2 (replace) or 1
    (add-remove), and the changes of its counts add up to at most 2 or 1: a record is in one cell of
    it or in none, a unit in cells that add up to at most 1, and no entry is below 0.
    """
    cells = panel.groups * (levels.sizes + 1)
    first = np.cumsum(cells) - cells

    def of_block(block: Block) -> Array:
        codes = places_of(columns_of(block, levels.places), levels.sizes)
        codes += first
        counts = None
        if panel.grouped or not isinstance(block.shares, float):
            groups, counts = panel.members(block)
            codes += groups[..., None] * (levels.sizes + 1)
        return _tally(codes, int(cells.sum()), counts)

    def of_statistics(statistics: Statistics) -> Array:
        counts = [statistics.with_level(place, panel).ravel() for place in levels.places.tolist()]
        return np.concatenate(counts).astype(np.float64)

    return Part(
        of_block,
        np.repeat(np.arange(len(cells)), cells),
        neighbours.pick(math.sqrt(2), 1.0),
        neighbours.pick(2.0, 1.0),
        of_statistics,
    )


@dataclass(frozen=True)
class MomentWeights:
    """By how much u, t and t² count in `moments`: as much as they may without moving further.

    With one record replaced, and one group, t alone moves by 2; the others come for nothing.
    """

    u: float
    t: float
    square: float

    @classmethod
    def of(cls, panel: Panel, neighbours: Neighbours) -> "MomentWeights":
        """Those of a panel."""
        if neighbours.counted and not panel.grouped:
            return cls(math.sqrt(0.75), 1.0, 1.5)
        return cls(math.sqrt(0.5), 1.0, 1.0)

    @property
    def norm(self) -> float:
        """Of what one record adds, at most."""
        return math.hypot(self.u, self.t, self.square)

    @property
    def added(self) -> float:
        """The sum of its sizes, at most."""
        return self.u + self.t + self.square


def moments(numbers: Numbers, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column and group the sums of u, t and t², by their weights.

    Guarantee [column_moments_sensitivity]: one column moves by at most 2 (one record replaced,
    without groups), sqrt 5 (with groups) or sqrt 2.5 (added or removed).  Two numbers t and t' move
    it by (t - t')²(1 + b²(t + t')²), and with s = |t + t'|, which is at most 2 - |t - t'|, by at
    most (2 - s)²(1 + b² s²) <= 4 for b <= 1.5; a number in the place of none by the squared norm.
    Between groups the squares of two norms are added.  The sizes add up to at most the sum of the
    weights, or twice that between groups.
    """
    weights = MomentWeights.of(panel, neighbours)
    p = len(numbers.places)

    def of_block(block: Block) -> Array:
        t, missing = scaled(numbers, block)
        found = np.empty((*block.stack, p, panel.groups, 3))
        for group, counts in enumerate(_by_group(panel, block)):
            present = _counted(counts, t, missing).sum(axis=-2)
            found[..., group, 0] = weights.u * present
            found[..., group, 1] = weights.t * weighted_sum(counts, t)
            found[..., group, 2] = weights.square * weighted_sum(counts, np.square(t))
        return found.reshape(*block.stack, -1)

    def of_statistics(statistics: Statistics) -> Array:
        sums = statistics.powers(panel)[:3].T  # columns, groups, powers
        return np.asarray(sums * [weights.u, weights.t, weights.square]).ravel()

    moved = weights.norm
    added = weights.added
    if neighbours.counted and panel.grouped:
        moved = math.sqrt(2) * weights.norm
        added = 2 * weights.added
    elif neighbours.counted:
        moved = 2.0
    return Part(of_block, np.repeat(np.arange(p), panel.groups * 3), moved, added, of_statistics)


def scaled(numbers: Numbers, block: Block) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """t of every column, and where u is 0: none where no number is missing."""
    t = columns_of(block, numbers.places) - numbers.middle
    t /= numbers.half
    np.clip(t, -1.0, 1.0, out=t)
    if not np.isnan(t.sum()):  # none is missing; this takes less time than to look for them
        return t, None
    missing = np.isnan(t)
    t[missing] = 0.0
    return t, missing


def _counted(counts: Array, t: Array, missing: npt.NDArray[np.bool_] | None) -> Array:
    """w u of every number: what its row counts, or nothing."""
    if missing is None:
        return np.broadcast_to(counts[..., None], t.shape)
    return np.where(missing, 0.0, counts[..., None])


def _by_group(panel: Panel, block: Block) -> list[Array]:
    """What each row counts in each group."""
    groups, counts = panel.members(block)
    if panel.groups == 1:
        return [counts]
    return [np.where(groups == group, counts, 0.0) for group in range(panel.groups)]


def _by_unit(block: Block, values: Array) -> Array:
    """Sums over the rows of each unit; without ids every row is one."""
    if block.starts is None or not len(block):
        return values
    return np.add.reduceat(values, block.starts, axis=0)


def moment_squares(numbers: Numbers, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column sum z zᵀ over units, z the unit's sums of w u and of w t in every group.

    It is what the sampling error of a mean rests on where rows are not alike: people with several
    rows, or weights.

    Guarantee [moment_squares_sensitivity]: one column moves by at most 2 sqrt 2 or 2, as ‖z‖² <= 2
    and ‖z zᵀ - y yᵀ‖² <= ‖z‖⁴ + ‖y‖⁴; sizes add up to at most 8 or 4.
    """
    p = len(numbers.places)
    size = 2 * panel.groups

    def of_block(block: Block) -> Array:
        t, missing = scaled(numbers, block)
        z = np.empty((*block.stack, p, _units(block), size))
        for group, counts in enumerate(_by_group(panel, block)):
            of_unit = _by_unit(block, _counted(counts, t, missing))
            z[..., group] = of_unit.swapaxes(-1, -2)
            of_unit = _by_unit(block, counts[..., None] * t)
            z[..., panel.groups + group] = of_unit.swapaxes(-1, -2)
        return np.asarray(z.swapaxes(-1, -2) @ z).reshape(*block.stack, -1)

    return Part(
        of_block,
        np.repeat(np.arange(p), size**2),
        neighbours.pick(math.sqrt(8), 2.0),
        neighbours.pick(8.0, 4.0),
    )


def _units(block: Block) -> int:
    return block.labels.shape[-1] if block.starts is None else len(block.starts)


def level_squares(levels: Levels, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column the sums over units of p q and p w per level and pair of groups, and of w w
    per pair: p and q are the unit's sums of one level in the two groups, w those of all levels.

    Guarantee [level_squares_sensitivity]: one column moves by at most sqrt 6 or sqrt 3, sizes by 6
    or 3: the p of a unit add up to at most 1, so that each of the three kinds of entries has a norm
    and a sum of at most 1, and no entry is below 0.
    """
    pairs = panel.groups**2
    lengths = pairs * (2 * levels.sizes + 1)

    def of_block(block: Block) -> Array:
        by_group = _by_group(panel, block)
        found = []
        for place, size in zip(levels.places, levels.sizes, strict=True):
            has = (block.rows[..., place, None] == np.arange(size)).astype(np.float64)
            of_units = [_by_unit(block, has * counts[..., None]) for counts in by_group]
            p = np.stack(of_units, axis=-3)
            w = p.sum(axis=-1)
            found.append(np.einsum("...gul,...hul->...lgh", p, p))
            found.append(np.einsum("...gul,...hu->...lgh", p, w))
            found.append(w @ w.swapaxes(-1, -2))
        flat = [sums.reshape(*block.stack, -1) for sums in found]
        return np.concatenate(flat, axis=-1)

    return Part(
        of_block,
        np.repeat(np.arange(len(lengths)), lengths),
        neighbours.pick(math.sqrt(6), math.sqrt(3)),
        neighbours.pick(6.0, 3.0),
    )


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where the bins of histograms end, per group and column: public, or from earlier releases.

    ``steps`` has the cells that are the last of a bin, in order.
    """

    steps: Sequence[Sequence[Indices]]

    @property
    def bins(self) -> int:
        """Of the longest histogram."""
        return 1 + max(len(one) for columns in self.steps for one in columns)

    @cached_property
    def finder(self) -> "_Finder":
        """What finds the bin of a cell."""
        by_column = [steps for columns in zip(*self.steps, strict=True) for steps in columns]
        if len(by_column) <= _TABLES:
            return _Lookup(by_column, self.bins)
        return _Search(by_column, self.bins)


class _Finder(Protocol):
    """From cells, rows × columns, to their places among the bins of all histograms.

    A histogram has the place column · groups + group among them, and after its bins one more, for
    what is missing.
    """

    def places(self, histogram: Indices, cells: Cells) -> npt.NDArray[Any]:
        """The places; ``cells`` is written over."""
        ...


class _Lookup:
    """A table of all cells: of numbers as small as may be, which stay in a cache."""

    def __init__(self, by_column: Sequence[Indices], missing: int) -> None:
        bins = missing + 1
        number = np.min_scalar_type(bins * len(by_column))
        tables = np.empty((len(by_column), CELLS + 2), number)
        for place, (table, steps) in enumerate(zip(tables, by_column, strict=True)):
            ends = np.concatenate([[-1], steps, [CELLS]])
            table[:-1] = bins * place + np.repeat(np.arange(len(steps) + 1), np.diff(ends))
            table[-1] = bins * place + missing
        self._table = tables.ravel()

    def places(self, histogram: Indices, cells: Cells) -> npt.NDArray[Any]:
        cells += ((CELLS + 2) * histogram).astype(np.int32)
        by_column = cells.swapaxes(-1, -2)  # in the order of memory
        return self._table.take(by_column, mode="clip").swapaxes(-1, -2)


class _Search:
    """A search among the steps of all histograms: their tables would be too many."""

    def __init__(self, by_column: Sequence[Indices], missing: int) -> None:
        self._missing = missing
        lengths = np.array([len(steps) for steps in by_column])
        self._before = np.cumsum(lengths) - lengths
        keys = [(CELLS + 2) * place + steps for place, steps in enumerate(by_column)]
        self._keys = np.concatenate(keys)

    def places(self, histogram: Indices, cells: Cells) -> npt.NDArray[Any]:
        found = np.searchsorted(self._keys, (CELLS + 2) * histogram + cells, side="left")
        found -= self._before[histogram]
        found = np.where(cells > CELLS, self._missing, found)
        return np.asarray(found + (self._missing + 1) * histogram)


def histograms(numbers: Numbers, cuts: Cuts, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column and group the number of records in each bin.

    Guarantee [column_histograms_sensitivity]: one column moves by at most sqrt 2 or 1, its counts
    by 2 or 1 together, whatever the cuts are: a record is in one bin of it or in none, and that
    depends on the record alone.
    """
    p = len(numbers.places)
    bins = cuts.bins + 1  # the last has what is missing

    def of_block(block: Block) -> Array:
        cells = numbers.cells(columns_of(block, numbers.places))
        histogram = panel.groups * np.arange(p)
        counts = None
        if panel.grouped or not isinstance(block.shares, float):
            groups, counts = panel.members(block)
            histogram = histogram + groups[..., None]
        places = cuts.finder.places(histogram, cells)
        found = _tally(places, panel.groups * p * bins, counts)
        by_bin = found.reshape(*block.stack, -1, bins)[..., :-1]
        return by_bin.reshape(*block.stack, -1)

    def of_statistics(statistics: Statistics) -> Array:
        found = np.zeros((p, panel.groups, cuts.bins))
        for j in range(p):
            cells = statistics.in_cells(j, panel)[:, :-1]  # the last has what is missing
            for group, columns in enumerate(cuts.steps):
                first = np.concatenate([[0], columns[j] + 1])
                if not (np.diff(first) > 0).all():  # a record would be in two bins
                    raise PrivacyError("the bins of a histogram must not overlap")
                found[j, group, : len(first)] = np.add.reduceat(cells[group], first)
        return found.ravel()

    return Part(
        of_block,
        np.repeat(np.arange(p), panel.groups * cuts.bins),
        neighbours.pick(math.sqrt(2), 1.0),
        neighbours.pick(2.0, 1.0),
        of_statistics,
    )


def spreads(
    numbers: Numbers, centre: Array, points: Array | None, panel: Panel, neighbours: Neighbours
) -> Part:
    """For each column, group and function y the sums over units of Y² and Y W: Y and W are the
    unit's sums of w y and of w u.

    y is the squared distance of t from its released ``centre``, over the largest there is; and,
    given released ``points``, whether the number is at most each of them.  It is what the sampling error of
    a deviation rests on and, where rows are not alike, that of a quartile.

    Guarantee [spreads_sensitivity]: with k functions one column moves by at most sqrt(4k) or
    sqrt(2k), sizes by 4k or 2k, as every y lies in [0, 1] and no entry is below 0.
    """
    p = len(numbers.places)
    k = 1 if points is None else 1 + points.shape[2]

    def of_block(block: Block) -> Array:
        t, missing = scaled(numbers, block)
        found = np.empty((*block.stack, p, panel.groups, k, 2))
        for group, counts in enumerate(_by_group(panel, block)):
            counted = _counted(counts, t, missing)
            w = _by_unit(block, counted)
            distance = t - centre[group]
            distance /= 1 + np.abs(centre[group])
            np.square(distance, out=distance)
            functions = [np.clip(distance, 0.0, 1.0, out=distance)]
            if points is not None:
                values = columns_of(block, numbers.places)
                functions += [(values <= points[group, :, j]) * 1.0 for j in range(k - 1)]
            for j, function in enumerate(functions):
                y = _by_unit(block, np.multiply(function, counted, out=function))
                found[..., group, j, 0] = np.einsum("...uj,...uj->...j", y, y)
                found[..., group, j, 1] = np.einsum("...uj,...uj->...j", y, w)
        return found.reshape(*block.stack, -1)

    def of_statistics(statistics: Statistics) -> Array:
        size = 1 + np.abs(centre)
        powers = statistics.powers(panel)
        fourth = _power_of_distance(powers, 1 / size, -centre / size)
        second = _power_of_distance(powers[:3], 1 / size, -centre / size)
        return np.stack([fourth.T, second.T], axis=-1).ravel()

    return Part(
        of_block,
        np.repeat(np.arange(p), panel.groups * k * 2),
        neighbours.pick(math.sqrt(4 * k), math.sqrt(2 * k)),
        neighbours.pick(4.0 * k, 2.0 * k),
        of_statistics if points is None else None,
    )


def _power_of_distance(sums: Array, a: Array, b: Array) -> Array:
    """sum (a t + b)ᵏ from the sums of powers of t up to k, an even number; a + |b| is at most 1.

    The sizes of the coefficients then add up to at most 1, so that it errs by what the sums err by,
    and by a few roundings of the number of records (docs/method.md, section 10).
    """
    k = len(sums) - 1
    terms = [math.comb(k, j) * a**j * b ** (k - j) * sums[j] for j in range(k + 1)]
    return np.asarray(np.maximum(sum(terms), 0.0))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Parts under each other, each entry by its scale: of a block, or of all records from what was
    kept of them.
    """

    parts: Sequence[Part]
    scales: Sequence[Array]

    def __call__(self, block: Block) -> Array:
        """Of a block, or of each block of a stack."""
        block = _turned(block)
        return self._scaled([part.of_block(block) for part in self.parts])

    def of_statistics(self, statistics: Statistics) -> Array:
        """Of all records.

        Guarantee [kept_sums]: it is the sum over their blocks, within rounding (docs/method.md,
        section 10); counts to the last bit before they are scaled.
        """
        found = []
        for part in self.parts:
            if part.of_statistics is None:
                raise PrivacyError("what was kept of the records does not tell this sum")
            found.append(part.of_statistics(statistics))
        return self._scaled(found)

    def _scaled(self, found: Sequence[Array]) -> Array:
        scaled = [sums * scale for sums, scale in zip(found, self.scales, strict=True)]
        return np.concatenate(scaled, axis=-1)


@dataclass(frozen=True, eq=False)
class Stack:
    """Parts under each other.  ``shares`` has, for each part and column, what is spent on it, of 1
    in all.

    Guarantee [description_stack]: it moves by at most 1, whatever the parts are: the squares of how
    far the columns of its parts move add up to the shares; or, where ``pure``, the sizes themselves
    do.
    """

    parts: Sequence[Part]
    shares: Sequence[Array]
    pure: bool = False

    def scales(self) -> list[Array]:
        """What the entries of each part are multiplied by, column by column."""
        found = []
        for part, share in zip(self.parts, self.shares, strict=True):
            scale = share / part.added if self.pure else np.sqrt(share) / part.moved
            found.append(np.asarray(scale * _ROUNDED))
        return found

    def sum(self) -> Counts:
        """What is released."""
        scales = [scale[part.owner] for part, scale in zip(self.parts, self.scales(), strict=True)]
        return Counts(ColumnSums(self.parts, scales), 1.0, 1.0)

    def apart(self, released: Array) -> list[Array]:
        """What was released, part by part, in the units of the parts."""
        ends = np.cumsum([len(part.owner) for part in self.parts])
        pieces = np.split(released, ends[:-1])
        return [
            np.asarray(piece / scale[part.owner])
            for piece, part, scale in zip(pieces, self.parts, self.scales(), strict=True)
        ]
