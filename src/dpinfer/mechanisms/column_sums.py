"""Queries that describe columns one by one: counts of levels, moments and histograms of numbers, by group.

A row of a description is 1 and then, for each column, the code of its level or its number in
original units, and NaN where it is missing.  The label is the code of the record's group, or NaN.

| symbol | meaning                                                            | name in code |
| ------ | ------------------------------------------------------------------ | ------------ |
| w      | what a row counts; the rows of a unit count at most 1 together     | `shares`     |
| u      | whether a row has a number, 1 or 0                                 |              |
| t      | that number in [-1, 1], by its public bounds; 0 where there is none |              |
| p      | whether a row has a level, 1 or 0                                  |              |

A `Query` knows its sensitivity *in one column*: how far one record moves the entries of that column.  A
`JointQuery` concatenates queries and scales each column of each by its share of the budget, so that the
vector that is released has sensitivity 1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.histograms import BoundedCounts, counts_of
from dpinfer.mechanisms.sums import Block, OfBlock, weighted_sum
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.reasons import Numerical

Cells = npt.NDArray[np.int32]
CountArray = npt.NDArray[np.int64]
# The scales of a joint query are quotients of rounded roots: a few units in the last place, far below 2⁻⁴⁰.
_ROUNDED: Numerical[float] = 1 - 2.0**-40
CELLS: Numerical[int] = 2**16
"""Cells that the range of a number is divided into: the resolution of every quartile."""
# Histograms whose bins are found in a table of all cells: the tables take 64 MB.
_MAX_TABLES: Numerical[int] = 2**10
QUARTILES: Numerical[tuple[float, ...]] = (0.25, 0.5, 0.75)
POWERS: Numerical[int] = 5
"""Powers of t whose sums one pass keeps, from t⁰ to t⁴."""


@dataclass(frozen=True, eq=False)
class Levels:
    """Columns of levels: their positions in a row, and how many levels each has.

    A column without any level counts all records.
    """

    positions: Indices
    sizes: Indices


@dataclass(frozen=True, eq=False)
class Numbers:
    """Columns of numbers: their positions in a row, public bounds, and which hold integers."""

    positions: Indices
    low: Array
    high: Array
    is_integer: Indices

    @cached_property
    def middle(self) -> Array:
        return np.asarray((self.low + self.high) / 2)

    @cached_property
    def half(self) -> Array:
        """Half the range: the larger half, where the two differ by rounding."""
        return np.asarray(np.maximum(self.high - self.middle, self.middle - self.low))

    @cached_property
    def width(self) -> Array:
        """The width of a cell, an integer where the numbers are integers."""
        span = self.high - self.low
        integers = np.maximum(np.ceil(span / CELLS), 1.0)
        return np.where(self.is_integer, integers, span / CELLS * (1 + 2.0**-40))

    @cached_property
    def per_width(self) -> Array:
        """Cells per unit.

        For integers in cells wider than 1 it is rounded down by 2⁻⁴⁰, so that the last integer of a cell
        stays in it however the product is rounded.
        """
        wide = self.is_integer & (self.width > 1)
        return np.where(wide, 1 - 2.0**-40, 1.0) / self.width

    @cached_property
    def last(self) -> Indices:
        """The cell of the upper bound."""
        return np.ceil((self.high - self.low) / self.width).astype(np.intp)

    def cells(self, values: Array) -> Cells:
        """Return the cell of each value.

        Cell 0 is the lower bound alone; cell c is the c-th interval above it, its upper end included.
        A missing value is in the cell after the last.  The function is element-wise, so that a record's
        cells depend on the record alone.
        """
        found = values - self.low
        found *= self.per_width
        np.ceil(found, out=found)
        np.clip(found, 0.0, self.last, out=found)
        if np.isnan(found.sum()):  # a sum is faster than fmin, and most columns miss nothing
            np.fmin(found, CELLS + 1.0, out=found)
        return found.astype(np.int32)  # faster by far than to eight bytes


@dataclass(frozen=True)
class Grouping:
    """The grouping of records: all of them together, or by the levels of a column.

    ``groups`` is the number of groups.  A record whose group is missing is in none.
    """

    grouped: bool = False
    groups: int = 1

    def members(self, block: Block) -> tuple[Indices, Array]:
        """Return the group of each row and its weight there, 0 where it is in no group."""
        counts = _present(block)
        if not self.grouped:
            return np.zeros(counts.shape, dtype=np.intp), counts
        groups = valid_codes(block.labels, self.groups)
        inside = groups < self.groups
        return np.where(inside, groups, 0), np.where(inside, counts, 0.0)


def valid_codes(codes: npt.NDArray[Any], last: Indices | int) -> Indices:
    """Return codes from 0 to ``last``, the code of a missing value, whatever the input holds.

    The sensitivity of a count rests on this clip, not on whoever encoded the column.
    """
    found = np.clip(codes, 0, last)
    if found.dtype.kind == "f" and np.isnan(found.sum()):  # the other operation takes longer
        found = np.fmin(found, last)
    return np.asarray(found, dtype=np.intp)


def _turned(block: Block) -> Block:
    """Return the same rows in column-major order, so that numpy works on contiguous columns."""
    columns = _columns_first(block.rows)
    if columns.strides[-1] == columns.itemsize:
        return block
    return replace(block, rows=_columns_first(np.ascontiguousarray(columns)))


def _columns_first(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return rows.swapaxes(-1, -2)


def columns_of(block: Block, positions: Indices) -> Array:
    """Return some columns of the rows: a view where they are adjacent, else a copy."""
    if len(positions) and positions[-1] - positions[0] == len(positions) - 1:
        return block.rows[..., positions[0] : positions[-1] + 1]
    return np.take(block.rows.swapaxes(-1, -2), positions, axis=-2).swapaxes(-1, -2)


def _tally(codes: npt.NDArray[Any], size: int, counts: Array | None) -> Array:
    """Return how often each code occurs; given ``counts``, the sum of the weights of its rows."""
    by_column = codes.swapaxes(-1, -2)
    stack = by_column.shape[:-2]
    weights = None
    if counts is not None:
        repeated = np.broadcast_to(counts[..., None, :], by_column.shape)
        weights = repeated.reshape(*stack, -1)
    return counts_of(by_column.reshape(*stack, -1), size, weights)


def _present(block: Block) -> Array:
    """Return the weight of each row, 0 for a zero row, which is no record."""
    if isinstance(block.shares, float):  # every row is a record
        return np.full(block.labels.shape, block.shares)
    return np.where(block.rows[..., 0] != 0, block.shares, 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class ColumnSummaries:
    """Summaries of all columns after one pass over records of weight 1.

    Every query of a description follows from them, whatever cuts and centres it has.  ``cells`` counts the
    numbers of each column: an axis for groups, the last for records without a group, and one for cells.
    ``sums`` has the sums of t⁰ to t⁴: an axis for powers, one for all records and then the groups, and one
    for columns.  ``levels`` counts records by the position of a column in a row, with groups as in ``cells``.
    """

    cells: Sequence[CountArray]
    sums: Array
    levels: Mapping[int, CountArray]

    def in_cells(self, column: int, grouping: Grouping) -> CountArray:
        """Return the counts of a column of numbers by group and cell."""
        return _in_groups(self.cells[column], grouping)

    def with_level(self, position: int, grouping: Grouping) -> CountArray:
        """Return the counts of a column of levels by group and level, the last for missing ones."""
        return _in_groups(self.levels[position], grouping)

    def powers(self, grouping: Grouping) -> Array:
        """Return the sums of t⁰ to t⁴ by power, group and column."""
        return self.sums[:, 1:] if grouping.grouped else self.sums[:, :1]


def _in_groups(counts: CountArray, grouping: Grouping) -> CountArray:
    """Return counts by group without those of no group, or the counts of all records."""
    if grouping.grouped:
        return counts[:-1]
    if len(counts) == 1:  # then there are no groups
        return counts
    return np.asarray(counts.sum(axis=0, keepdims=True))


OfSummaries = Callable[[ColumnSummaries], Array]
"""From the summaries of all records to the sum over them."""


@dataclass(frozen=True, eq=False)
class Query:
    """A sum over records that is a vector; each entry is about one column, its ``owner``.

    ``l2_sensitivity`` and ``l1_sensitivity`` are those of the entries of one column: the largest L2 and L1
    norm by which neighbours differ there.  Where every record has weight 1, ``of_summaries`` gives the same
    sum from the summaries of one pass.
    """

    of_block: OfBlock
    owner: Indices
    l2_sensitivity: float
    l1_sensitivity: float
    of_summaries: OfSummaries | None = None


def level_counts(levels: Levels, grouping: Grouping, neighbours: Adjacency) -> Query:
    """For each column the number of records per group and level, and of those without a level.

    Guarantee [level_counts_sensitivity]: one column moves by at most sqrt 2 (replace) or 1
    (add-remove), and the changes of its counts add up to at most 2 or 1: a record is in one cell of
    it or in none, a unit in cells that add up to at most 1, and no entry is below 0.

    Input
    -----
    codes of levels per column, groups, and shares a

    Output
    ------
    per column one count per group and level, and per group one of missing values

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2), L1 2
    add-remove, add-remove-unit : 1, L1 1

    Pseudo-code
    -----------
    c = 0
    for each row i with a group g:
        for each column j:
            l = clip(code of row i in column j, 0, number of levels)
            c[j, g, l] += a_i
    return c

    Proof
    -----
    docs/method.md, 10; sensitivities are of one column; tests/audit/test_describing.py
    """
    cells = grouping.groups * (levels.sizes + 1)
    first = np.cumsum(cells) - cells

    def of_block(block: Block) -> Array:
        codes = valid_codes(columns_of(block, levels.positions), levels.sizes)
        codes += first
        counts = None
        if grouping.grouped or not isinstance(block.shares, float):
            groups, counts = grouping.members(block)
            codes += groups[..., None] * (levels.sizes + 1)
        return _tally(codes, int(cells.sum()), counts)

    def of_summaries(summaries: ColumnSummaries) -> Array:
        counts = [
            summaries.with_level(position, grouping).ravel()
            for position in levels.positions.tolist()
        ]
        return np.concatenate(counts).astype(np.float64)

    return Query(
        of_block,
        np.repeat(np.arange(len(cells)), cells),
        neighbours.pick(math.sqrt(2), 1.0),
        neighbours.pick(2.0, 1.0),
        of_summaries,
    )


@dataclass(frozen=True)
class MomentWeights:
    """Weights of u, t and t² in `moments`, as large as they may be without a larger sensitivity.

    With one record replaced and one group the sum of t alone has sensitivity 2, and the others come for
    nothing: with weight b of t² two records differ by at most 2 while b <= 1.5, which the proof of
    `moments` needs; with weight a of u a missing number differs from any other by at most
    a² + 1 + b² <= 4, hence a² = 0.75.  Elsewhere a record adds (a, t, t²) once, with norm² at most a² + 2.
    """

    u: float
    t: float
    square: float

    @classmethod
    def of(cls, grouping: Grouping, neighbours: Adjacency) -> "MomentWeights":
        if neighbours.counted and not grouping.grouped:
            return cls(math.sqrt(0.75), 1.0, 1.5)
        return cls(math.sqrt(0.5), 1.0, 1.0)

    @property
    def l2_norm(self) -> float:
        """The largest L2 norm of what one record adds."""
        return math.hypot(self.u, self.t, self.square)

    @property
    def l1_norm(self) -> float:
        """The largest L1 norm of what one record adds."""
        return self.u + self.t + self.square


def moments(numbers: Numbers, grouping: Grouping, neighbours: Adjacency) -> Query:
    """For each column and group the sums of u, t and t², by their weights.

    Guarantee [column_moments_sensitivity]: one column moves by at most 2 (one record replaced,
    without groups), sqrt 5 (with groups) or sqrt 2.5 (added or removed).  Two numbers t and t' move
    it by (t - t')²(1 + b²(t + t')²), and with s = |t + t'|, which is at most 2 - |t - t'|, by at
    most (2 - s)²(1 + b² s²) <= 4 for b <= 1.5; a number in the place of none by the squared norm.
    Between groups the squares of two norms are added.  The sizes add up to at most the sum of the
    weights, or twice that between groups.

    Input
    -----
    numbers v per column with public bounds, groups, and shares a; public weights (p, 1, b)

    Output
    ------
    per column and group 3 numbers

    Sensitivity
    -----------
    replace, replace-unit : sqrt(5) if grouped else 2, L1 (2 if grouped else 1)*(p + 1 + b)
    add-remove, add-remove-unit : sqrt(5/2), L1 p + 1 + b
    with p, b = sqrt(1/2), 1, or sqrt(3/4), 3/2 where a record is replaced and there are no groups

    Pseudo-code
    -----------
    s = 0
    for each row i with a group g, for each column j:
        u, t = 0, 0
        if v_ij is not missing:
            u, t = 1, clip((v_ij - middle_j) / half_j, -1, 1)
        s[j, g] += a_i (p u, t, b t^2)
    return s

    Proof
    -----
    docs/method.md, 10; sensitivities are of one column; tests/audit/test_describing.py
    """
    weights = MomentWeights.of(grouping, neighbours)
    p = len(numbers.positions)

    def of_block(block: Block) -> Array:
        t, missing = scaled(numbers, block)
        found = np.empty((*block.stack, p, grouping.groups, 3))
        for group, counts in enumerate(_by_group(grouping, block)):
            present = _counted(counts, t, missing).sum(axis=-2)
            found[..., group, 0] = weights.u * present
            found[..., group, 1] = weights.t * weighted_sum(counts, t)
            found[..., group, 2] = weights.square * weighted_sum(counts, np.square(t))
        return found.reshape(*block.stack, -1)

    def of_summaries(summaries: ColumnSummaries) -> Array:
        sums = summaries.powers(grouping)[:3].T  # columns, groups, powers
        return np.asarray(sums * [weights.u, weights.t, weights.square]).ravel()

    l2_sensitivity = weights.l2_norm
    l1_sensitivity = weights.l1_norm
    if neighbours.counted and grouping.grouped:
        l2_sensitivity = math.sqrt(2) * weights.l2_norm
        l1_sensitivity = 2 * weights.l1_norm
    elif neighbours.counted:
        l2_sensitivity = 2.0
    return Query(
        of_block,
        np.repeat(np.arange(p), grouping.groups * 3),
        l2_sensitivity,
        l1_sensitivity,
        of_summaries,
    )


def scaled(numbers: Numbers, block: Block) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """Return t of every column, and where numbers are missing; None where none is."""
    t = columns_of(block, numbers.positions) - numbers.middle
    t /= numbers.half
    np.clip(t, -1.0, 1.0, out=t)
    if not np.isnan(t.sum()):  # a sum is faster than to look for NaN
        return t, None
    missing = np.isnan(t)
    t[missing] = 0.0
    return t, missing


def _counted(counts: Array, t: Array, missing: npt.NDArray[np.bool_] | None) -> Array:
    """Return w u of every number: the weight of its row, or 0 where it is missing."""
    if missing is None:
        return np.broadcast_to(counts[..., None], t.shape)
    return np.where(missing, 0.0, counts[..., None])


def _by_group(grouping: Grouping, block: Block) -> list[Array]:
    """Return the weight of each row in each group."""
    groups, counts = grouping.members(block)
    if grouping.groups == 1:
        return [counts]
    return [np.where(groups == group, counts, 0.0) for group in range(grouping.groups)]


def _by_unit(block: Block, values: Array) -> Array:
    """Return sums over the rows of each unit; without ids every row is a unit."""
    if block.starts is None or not len(block):
        return values
    return np.add.reduceat(values, block.starts, axis=0)


def moment_squares(numbers: Numbers, grouping: Grouping, neighbours: Adjacency) -> Query:
    """For each column sum z zᵀ over units, z the unit's sums of w u and of w t in every group.

    The sampling variance of a mean is estimated from it where observations have unequal weights: units
    with several rows, or weights.

    Guarantee [moment_squares_sensitivity]: one column moves by at most 2 sqrt 2 or 2, as ‖z‖² <= 2
    and ‖z zᵀ - y yᵀ‖² <= ‖z‖⁴ + ‖y‖⁴; sizes add up to at most 8 or 4.

    Input
    -----
    numbers v per column with public bounds, groups, and shares a of rows, by unit

    Output
    ------
    per column a matrix of 2 groups × 2 groups

    Sensitivity
    -----------
    replace, replace-unit : 2*sqrt(2), L1 8
    add-remove, add-remove-unit : 2, L1 4

    Pseudo-code
    -----------
    S = 0
    for each unit, for each column j:
        z = (sums of a u by group, sums of a t by group) over the rows of the unit
        S[j] += z z^T
    return S    (u and t as in `moments`)

    Proof
    -----
    docs/method.md, 10; sensitivities are of one column; tests/audit/test_describing.py
    """
    p = len(numbers.positions)
    size = 2 * grouping.groups

    def of_block(block: Block) -> Array:
        t, missing = scaled(numbers, block)
        z = np.empty((*block.stack, p, _units(block), size))
        for group, counts in enumerate(_by_group(grouping, block)):
            of_unit = _by_unit(block, _counted(counts, t, missing))
            z[..., group] = of_unit.swapaxes(-1, -2)
            of_unit = _by_unit(block, counts[..., None] * t)
            z[..., grouping.groups + group] = of_unit.swapaxes(-1, -2)
        return np.asarray(z.swapaxes(-1, -2) @ z).reshape(*block.stack, -1)

    return Query(
        of_block,
        np.repeat(np.arange(p), size**2),
        neighbours.pick(math.sqrt(8), 2.0),
        neighbours.pick(8.0, 4.0),
    )


def _units(block: Block) -> int:
    return block.labels.shape[-1] if block.starts is None else len(block.starts)


def level_squares(levels: Levels, grouping: Grouping, neighbours: Adjacency) -> Query:
    """For each column the sums over units of p q and p w per level and pair of groups, and of w w
    per pair: p and q are the unit's sums of one level in the two groups, w those of all levels.

    Guarantee [level_squares_sensitivity]: one column moves by at most sqrt 6 or sqrt 3, sizes by 6
    or 3: the p of a unit add up to at most 1, so that each of the three kinds of entries has a norm
    and a sum of at most 1, and no entry is below 0.

    Input
    -----
    codes of levels per column, groups, and shares a of rows, by unit

    Output
    ------
    per column and pair of groups 2 numbers per level and 1 more

    Sensitivity
    -----------
    replace, replace-unit : sqrt(6), L1 6
    add-remove, add-remove-unit : sqrt(3), L1 3

    Pseudo-code
    -----------
    S, T, V = 0, 0, 0
    for each unit, for each column j:
        p[g, l] = sum of a over the rows of the unit in group g with level l
        w[g] = sum over l of p[g, l]
        for each pair of groups g, h:
            for each level l:
                S[j, l, g, h] += p[g, l] p[h, l]
                T[j, l, g, h] += p[g, l] w[h]
            V[j, g, h] += w[g] w[h]
    return S, T, V

    Proof
    -----
    docs/method.md, 10; sensitivities are of one column; tests/audit/test_describing.py
    """
    pairs = grouping.groups**2
    lengths = pairs * (2 * levels.sizes + 1)

    def of_block(block: Block) -> Array:
        by_group = _by_group(grouping, block)
        found = []
        for position, size in zip(levels.positions, levels.sizes, strict=True):
            has = (block.rows[..., position, None] == np.arange(size)).astype(np.float64)
            of_units = [_by_unit(block, has * counts[..., None]) for counts in by_group]
            p = np.stack(of_units, axis=-3)
            w = p.sum(axis=-1)
            found.append(np.einsum("...gul,...hul->...lgh", p, p))
            found.append(np.einsum("...gul,...hu->...lgh", p, w))
            found.append(w @ w.swapaxes(-1, -2))
        flat = [sums.reshape(*block.stack, -1) for sums in found]
        return np.concatenate(flat, axis=-1)

    return Query(
        of_block,
        np.repeat(np.arange(len(lengths)), lengths),
        neighbours.pick(math.sqrt(6), math.sqrt(3)),
        neighbours.pick(6.0, 3.0),
    )


@dataclass(frozen=True, eq=False)
class Cuts:
    """Bin edges of histograms, per group and column: public, or from earlier releases.

    ``edges`` are the last cells of bins, in order.
    """

    edges: Sequence[Sequence[Indices]]

    @property
    def bins(self) -> int:
        """Bins of the longest histogram."""
        return 1 + max(len(one) for columns in self.edges for one in columns)

    @cached_property
    def finder(self) -> "_BinFinder":
        by_column = [edges for columns in zip(*self.edges, strict=True) for edges in columns]
        if len(by_column) <= _MAX_TABLES:
            return _TableLookup(by_column, self.bins)
        return _BinarySearch(by_column, self.bins)


class _BinFinder(Protocol):
    """A function from cells, rows × columns, to the codes of their bins among those of all histograms.

    Histograms are numbered column · groups + group; after the bins of each comes one for missing values.
    """

    def codes(self, histogram: Indices, cells: Cells) -> npt.NDArray[Any]:
        """Return the codes; ``cells`` is written over."""
        ...


class _TableLookup:
    """Bins by a table of all cells, in the smallest integer type, so that it stays in a cache."""

    def __init__(self, by_column: Sequence[Indices], missing: int) -> None:
        bins = missing + 1
        dtype = np.min_scalar_type(bins * len(by_column))
        tables = np.empty((len(by_column), CELLS + 2), dtype)
        for number, (table, edges) in enumerate(zip(tables, by_column, strict=True)):
            ends = np.concatenate([[-1], edges, [CELLS]])
            table[:-1] = bins * number + np.repeat(np.arange(len(edges) + 1), np.diff(ends))
            table[-1] = bins * number + missing
        self._table = tables.ravel()

    def codes(self, histogram: Indices, cells: Cells) -> npt.NDArray[Any]:
        cells += ((CELLS + 2) * histogram).astype(np.int32)
        by_column = cells.swapaxes(-1, -2)  # in the order of memory
        return self._table.take(by_column, mode="clip").swapaxes(-1, -2)


class _BinarySearch:
    """Bins by a binary search among the edges of all histograms, where tables would take too much memory."""

    def __init__(self, by_column: Sequence[Indices], missing: int) -> None:
        self._missing = missing
        lengths = np.array([len(edges) for edges in by_column])
        self._before = np.cumsum(lengths) - lengths
        keys = [(CELLS + 2) * number + edges for number, edges in enumerate(by_column)]
        self._keys = np.concatenate(keys)

    def codes(self, histogram: Indices, cells: Cells) -> npt.NDArray[Any]:
        found = np.searchsorted(self._keys, (CELLS + 2) * histogram + cells, side="left")
        found -= self._before[histogram]
        found = np.where(cells > CELLS, self._missing, found)
        return np.asarray(found + (self._missing + 1) * histogram)


def histograms(numbers: Numbers, cuts: Cuts, grouping: Grouping, neighbours: Adjacency) -> Query:
    """For each column and group the number of records in each bin.

    Guarantee [column_histograms_sensitivity]: one column moves by at most sqrt 2 or 1, its counts
    by 2 or 1 together, whatever the cuts are: a record is in one bin of it or in none, and that
    depends on the record alone.

    Input
    -----
    numbers v per column, public or released ``cuts`` per group and column, and shares a

    Output
    ------
    per column and group one count per bin

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2), L1 2
    add-remove, add-remove-unit : 1, L1 1

    Pseudo-code
    -----------
    c = 0
    for each row i with a group g, for each column j:
        if v_ij is not missing:
            k = cell of v_ij among the 65,536 of the public range
            b = number of cuts of (g, j) that are below k
            c[j, g, b] += a_i
    return c

    Proof
    -----
    docs/method.md, 10; sensitivities are of one column; tests/audit/test_describing.py
    """
    p = len(numbers.positions)
    bins = cuts.bins + 1  # the last is for missing values

    def of_block(block: Block) -> Array:
        cells = numbers.cells(columns_of(block, numbers.positions))
        histogram = grouping.groups * np.arange(p)
        counts = None
        if grouping.grouped or not isinstance(block.shares, float):
            groups, counts = grouping.members(block)
            histogram = histogram + groups[..., None]
        codes = cuts.finder.codes(histogram, cells)
        found = _tally(codes, grouping.groups * p * bins, counts)
        by_bin = found.reshape(*block.stack, -1, bins)[..., :-1]
        return by_bin.reshape(*block.stack, -1)

    def of_summaries(summaries: ColumnSummaries) -> Array:
        found = np.zeros((p, grouping.groups, cuts.bins))
        for j in range(p):
            cells = summaries.in_cells(j, grouping)[:, :-1]  # the last is for missing values
            for group, columns in enumerate(cuts.edges):
                first = np.concatenate([[0], columns[j] + 1])
                if not (np.diff(first) > 0).all():  # a record would be in two bins
                    raise PrivacyError("the bins of a histogram must not overlap")
                found[j, group, : len(first)] = np.add.reduceat(cells[group], first)
        return found.ravel()

    return Query(
        of_block,
        np.repeat(np.arange(p), grouping.groups * cuts.bins),
        neighbours.pick(math.sqrt(2), 1.0),
        neighbours.pick(2.0, 1.0),
        of_summaries,
    )


def distance_squares(
    numbers: Numbers,
    centre: Array,
    points: Array | None,
    grouping: Grouping,
    neighbours: Adjacency,
) -> Query:
    """For each column, group and function y the sums over units of Y² and Y W: Y and W are the
    unit's sums of w y and of w u.

    y is the squared distance of t from its released ``centre``, over its largest value; and, given
    released ``points``, whether the number is at most each of them.  The sampling variance of a standard
    deviation is estimated from it and, where observations have unequal weights, that of a quartile.

    Guarantee [spreads_sensitivity]: with k functions one column moves by at most sqrt(4k) or
    sqrt(2k), sizes by 4k or 2k, as every y lies in [0, 1] and no entry is below 0.

    Input
    -----
    numbers v per column, released ``centre`` and ``points``, groups, and shares a, by unit

    Output
    ------
    per column, group and function 2 numbers

    Sensitivity
    -----------
    replace, replace-unit : sqrt(4*k), L1 4*k
    add-remove, add-remove-unit : sqrt(2*k), L1 2*k

    Pseudo-code
    -----------
    S = 0
    for each unit, group g, column j, function f = 1..k:
        y_i = clip(((t_i - centre) / (1 + |centre|))^2, 0, 1) for f = 1
        y_i = 1 if v_i <= points[f - 1] else 0 for f > 1
        Y = sum of a_i u_i y_i,  W = sum of a_i u_i over the rows of the unit in g
        S[j, g, f] += (Y^2, Y W)
    return S

    Proof
    -----
    docs/method.md, 10; sensitivities are of one column; tests/audit/test_describing.py
    """
    p = len(numbers.positions)
    k = 1 if points is None else 1 + points.shape[2]

    def of_block(block: Block) -> Array:
        t, missing = scaled(numbers, block)
        found = np.empty((*block.stack, p, grouping.groups, k, 2))
        for group, counts in enumerate(_by_group(grouping, block)):
            counted = _counted(counts, t, missing)
            w = _by_unit(block, counted)
            distance = t - centre[group]
            distance /= 1 + np.abs(centre[group])
            np.square(distance, out=distance)
            functions = [np.clip(distance, 0.0, 1.0, out=distance)]
            if points is not None:
                values = columns_of(block, numbers.positions)
                functions += [(values <= points[group, :, j]) * 1.0 for j in range(k - 1)]
            for j, function in enumerate(functions):
                y = _by_unit(block, np.multiply(function, counted, out=function))
                found[..., group, j, 0] = np.einsum("...uj,...uj->...j", y, y)
                found[..., group, j, 1] = np.einsum("...uj,...uj->...j", y, w)
        return found.reshape(*block.stack, -1)

    def of_summaries(summaries: ColumnSummaries) -> Array:
        size = 1 + np.abs(centre)
        powers = summaries.powers(grouping)
        fourth = _power_of_distance(powers, 1 / size, -centre / size)
        second = _power_of_distance(powers[:3], 1 / size, -centre / size)
        return np.stack([fourth.T, second.T], axis=-1).ravel()

    return Query(
        of_block,
        np.repeat(np.arange(p), grouping.groups * k * 2),
        neighbours.pick(math.sqrt(4 * k), math.sqrt(2 * k)),
        neighbours.pick(4.0 * k, 2.0 * k),
        of_summaries if points is None else None,
    )


def _power_of_distance(sums: Array, a: Array, b: Array) -> Array:
    """Return sum (a t + b)ᵏ from the sums of powers of t up to k, an even number, by the binomial theorem.

    a + |b| is at most 1, so that the absolute coefficients add up to at most 1: the rounding error is that
    of the sums, and a few roundings of the number of records (docs/method.md, section 10).
    """
    k = len(sums) - 1
    terms = [math.comb(k, j) * a**j * b ** (k - j) * sums[j] for j in range(k + 1)]
    return np.asarray(np.maximum(sum(terms), 0.0))


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Queries concatenated, each entry times its scale: over a block, or over all records by their
    summaries.
    """

    queries: Sequence[Query]
    scales: Sequence[Array]

    def __call__(self, block: Block) -> Array:
        block = _turned(block)
        return self._scaled([query.of_block(block) for query in self.queries])

    def of_summaries(self, summaries: ColumnSummaries) -> Array:
        """Return the sum over all records.

        Guarantee [kept_sums]: it is the sum over their blocks, within rounding (docs/method.md,
        section 10); counts to the last bit before they are scaled.
        """
        found = []
        for query in self.queries:
            if query.of_summaries is None:
                raise PrivacyError("the summaries of the records do not determine this sum")
            found.append(query.of_summaries(summaries))
        return self._scaled(found)

    def _scaled(self, found: Sequence[Array]) -> Array:
        scaled = [sums * scale for sums, scale in zip(found, self.scales, strict=True)]
        return np.concatenate(scaled, axis=-1)


@dataclass(frozen=True, eq=False)
class JointQuery:
    """Queries concatenated, with ``shares`` of the cost for each query and column, 1 in all.

    Guarantee [description_stack]: it moves by at most 1, whatever the queries are: the squared L2
    sensitivities of its scaled columns add up to the shares or, where ``pure``, their L1 sensitivities do.
    Laplace noise is refused where it is not ``pure``: its L1 sensitivity is then not bounded by 1.
    """

    queries: Sequence[Query]
    shares: Sequence[Array]
    pure: bool = False

    def scales(self) -> list[Array]:
        """Return the factor of each column of each query."""
        found = []
        for query, share in zip(self.queries, self.shares, strict=True):
            scale = (
                share / query.l1_sensitivity if self.pure else np.sqrt(share) / query.l2_sensitivity
            )
            found.append(np.asarray(scale * _ROUNDED))
        return found

    def sum(self) -> BoundedCounts:
        """Return the sum that is released.

        Input
        -----
        queries k of columns j with sensitivities D_k (L1 where ``pure``), and shares f_kj that add up to 1

        Output
        ------
        the entries of all queries, one below the other

        Sensitivity
        -----------
        replace, add-remove, replace-unit, add-remove-unit : 1, L1 1 if pure else inf

        Pseudo-code
        -----------
        for each query k, for each column j:
            c = f_kj / D_k if pure else sqrt(f_kj) / D_k
            part[k, j] = c (1 - 2^-40) (entries of column j in query k)
        return all parts

        Proof
        -----
        docs/method.md, 10; tests/audit/test_describing.py
        """
        scales = [
            scale[query.owner] for query, scale in zip(self.queries, self.scales(), strict=True)
        ]
        return BoundedCounts(ColumnSums(self.queries, scales), 1.0, 1.0 if self.pure else math.inf)

    def split(self, released: Array) -> list[Array]:
        """Return the released values, query by query, in the units of the queries."""
        ends = np.cumsum([len(query.owner) for query in self.queries])
        pieces = np.split(released, ends[:-1])
        return [
            np.asarray(piece / scale[query.owner])
            for piece, query, scale in zip(pieces, self.queries, self.scales(), strict=True)
        ]
