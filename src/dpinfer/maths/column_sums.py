"""Sums that describe columns one by one: counts of levels, moments and histograms of numbers, by group.

A row of a description is 1 and then, for each column, the place of its level or its number in
original units, and NaN where it has none.  The label is the place of the record's group.

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
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.histograms import Counts
from dpinfer.maths.sums import Block, OfBlock
from dpinfer.neighbours import Neighbours

_ROUNDED = 1 - 2.0**-40  # of a stack's scales, which are quotients of rounded roots
QUARTILES = (0.25, 0.5, 0.75)


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

    @property
    def middle(self) -> Array:
        """Of the bounds."""
        return np.asarray((self.low + self.high) / 2)

    @property
    def half(self) -> Array:
        """Half their distance: the larger half, where they differ by rounding."""
        return np.asarray(np.maximum(self.high - self.middle, self.middle - self.low))


@dataclass(frozen=True)
class Panel:
    """The groups that records are counted in: all of them together, or those of a column.

    ``groups`` is their number.  A record whose group is missing is in none.
    """

    grouped: bool = False
    groups: int = 1

    def members(self, block: Block) -> tuple[Indices, Array]:
        """The group of each row, and what it counts there: 0 where it is in none."""
        counts = np.where(block.rows[:, 0] != 0, block.shares, 0.0)
        if not self.grouped:
            return np.zeros(len(block), dtype=np.intp), counts
        groups = block.labels.astype(np.intp)
        inside = groups < self.groups
        return np.where(inside, groups, 0), np.where(inside, counts, 0.0)


@dataclass(frozen=True, eq=False)
class Part:
    """A sum that is a vector, each entry about one column, its ``owner``.

    One record moves the entries of a column by at most ``moved``, as a vector, and by at most
    ``added`` if the sizes of their changes are added up.
    """

    of_block: OfBlock
    owner: Indices
    moved: float
    added: float


def level_counts(levels: Levels, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column the number of records per group and level, and of those without a level.

    Guarantee [level_counts_sensitivity]: one column moves by at most sqrt 2 (replace) or 1
    (add-remove), and the changes of its counts add up to at most 2 or 1: a record is in one cell of
    it or in none, a unit in cells that add up to at most 1, and no entry is below 0.
    """
    cells = panel.groups * (levels.sizes + 1)
    first = np.cumsum(cells) - cells

    def of_block(block: Block) -> Array:
        groups, counts = panel.members(block)
        codes = block.rows[:, levels.places]
        codes = np.where(np.isnan(codes), levels.sizes, np.minimum(codes, levels.sizes)).astype(
            np.intp
        )
        codes += first + groups[:, None] * (levels.sizes + 1)
        weights = np.repeat(counts, codes.shape[1])
        return np.asarray(np.bincount(codes.ravel(), weights, int(cells.sum())), dtype=np.float64)

    return Part(
        of_block,
        np.repeat(np.arange(len(cells)), cells),
        neighbours.pick(math.sqrt(2), 1.0),
        neighbours.pick(2.0, 1.0),
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
        t, present = _scaled(numbers, block)
        found = np.empty((p, panel.groups, 3))
        for group, counts in enumerate(_by_group(panel, block)):
            found[:, group, 0] = weights.u * (counts @ present)
            found[:, group, 1] = weights.t * (counts @ t)
            found[:, group, 2] = weights.square * (counts @ np.square(t))
        return found.ravel()

    moved = weights.norm
    added = weights.added
    if neighbours.counted and panel.grouped:
        moved = math.sqrt(2) * weights.norm
        added = 2 * weights.added
    elif neighbours.counted:
        moved = 2.0
    return Part(of_block, np.repeat(np.arange(p), panel.groups * 3), moved, added)


def _scaled(numbers: Numbers, block: Block) -> tuple[Array, Array]:
    """t and u of every column."""
    values = block.rows[:, numbers.places]
    missing = np.isnan(values)
    t = np.clip((values - numbers.middle) / numbers.half, -1.0, 1.0)
    t[missing] = 0.0
    return t, (~missing).astype(np.float64)


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
        t, present = _scaled(numbers, block)
        z = np.empty((p, _units(block), size))
        for group, counts in enumerate(_by_group(panel, block)):
            z[:, :, group] = _by_unit(block, counts[:, None] * present).T
            z[:, :, panel.groups + group] = _by_unit(block, counts[:, None] * t).T
        return np.asarray(z.transpose(0, 2, 1) @ z).ravel()

    return Part(
        of_block,
        np.repeat(np.arange(p), size**2),
        neighbours.pick(math.sqrt(8), 2.0),
        neighbours.pick(8.0, 4.0),
    )


def _units(block: Block) -> int:
    return len(block) if block.starts is None else len(block.starts)


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
            has = (block.rows[:, place, None] == np.arange(size)).astype(np.float64)
            p = np.stack([_by_unit(block, has * counts[:, None]) for counts in by_group])
            w = p.sum(axis=2)
            found.append(np.einsum("gul,hul->lgh", p, p).ravel())
            found.append(np.einsum("gul,hu->lgh", p, w).ravel())
            found.append((w @ w.T).ravel())
        return np.concatenate(found)

    return Part(
        of_block,
        np.repeat(np.arange(len(lengths)), lengths),
        neighbours.pick(math.sqrt(6), math.sqrt(3)),
        neighbours.pick(6.0, 3.0),
    )


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where the bins of histograms end, per group and column: public, or from earlier releases.

    Regions of each, from ``start`` on, are cut into ``number`` bins of a ``width``, up to ``most`` of
    them; a region that is not there starts at infinity.  Values that people pile up on have bins of
    their own: the two bounds, where values are clipped to, and 0.
    """

    start: Array  # groups × columns × regions
    width: Array
    number: Array
    most: int

    @property
    def bins(self) -> int:
        """Of a histogram: one more than there may be steps."""
        return int(self.start.shape[2]) * (self.most + 1) + 5


def piles(numbers: Numbers) -> tuple[Array, Array]:
    """For each column the values that a step goes up above, and those that it goes up at; NaN where
    there is none.

    Steps of whole numbers are half way between two.
    """
    zero = np.where((numbers.low < 0) & (numbers.high > 0), 0.0, np.nan)
    above = np.column_stack([numbers.low, zero])
    at = np.column_stack([zero, numbers.high])
    whole = numbers.whole[:, None]
    return np.where(whole, above + 0.5, above), np.where(whole, at - 0.5, at)


def histograms(numbers: Numbers, cuts: Cuts, panel: Panel, neighbours: Neighbours) -> Part:
    """For each column and group the number of records in each bin.

    The bin of a value is the number of steps that it has passed: a sum of functions that never go
    down, element by element, so that a record's bin depends on the record alone.

    Guarantee [column_histograms_sensitivity]: one column moves by at most sqrt 2 or 1, its counts
    by 2 or 1 together, whatever the cuts are.
    """
    p = len(numbers.places)
    above, at = piles(numbers)
    first = cuts.bins * np.arange(p)

    def of_block(block: Block) -> Array:
        groups, counts = panel.members(block)
        values = block.rows[:, numbers.places]
        missing = np.isnan(values)
        values[missing] = 0.0
        passed = np.zeros(values.shape)
        for region in range(cuts.start.shape[2]):
            mine = groups if panel.groups > 1 else 0
            steps = values - cuts.start[mine, :, region]
            steps /= cuts.width[mine, :, region]
            np.floor(steps, out=steps)
            steps += 1.0
            np.clip(steps, 0.0, cuts.number[mine, :, region] + 1.0, out=steps)
            passed += steps
        for j in range(2):
            passed += values > above[:, j]
            passed += values >= at[:, j]
        places = passed.astype(np.intp)
        places += first
        places += (groups * (p * cuts.bins))[:, None]
        weights = np.where(missing, 0.0, counts[:, None])
        size = panel.groups * p * cuts.bins
        found = np.asarray(np.bincount(places.ravel(), weights.ravel(), size), dtype=np.float64)
        return found.reshape(panel.groups, p, cuts.bins).transpose(1, 0, 2).ravel()

    return Part(
        of_block,
        np.repeat(np.arange(p), panel.groups * cuts.bins),
        neighbours.pick(math.sqrt(2), 1.0),
        neighbours.pick(2.0, 1.0),
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
        t, present = _scaled(numbers, block)
        values = block.rows[:, numbers.places]
        found = np.empty((p, panel.groups, k, 2))
        for group, counts in enumerate(_by_group(panel, block)):
            w = _by_unit(block, counts[:, None] * present)
            distance = (t - centre[group]) / (1 + np.abs(centre[group]))
            functions = [np.minimum(np.square(distance), 1.0)]
            if points is not None:
                functions += [(values <= points[group, :, j]) * 1.0 for j in range(k - 1)]
            for j, function in enumerate(functions):
                y = _by_unit(block, counts[:, None] * present * function)
                found[:, group, j, 0] = np.einsum("uj,uj->j", y, y)
                found[:, group, j, 1] = np.einsum("uj,uj->j", y, w)
        return found.ravel()

    return Part(
        of_block,
        np.repeat(np.arange(p), panel.groups * k * 2),
        neighbours.pick(math.sqrt(4 * k), math.sqrt(2 * k)),
        neighbours.pick(4.0 * k, 2.0 * k),
    )


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

        def of_block(block: Block) -> Array:
            return np.concatenate(
                [
                    part.of_block(block) * scale
                    for part, scale in zip(self.parts, scales, strict=True)
                ]
            )

        return Counts(of_block, 1.0, 1.0)

    def apart(self, released: Array) -> list[Array]:
        """What was released, part by part, in the units of the parts."""
        ends = np.cumsum([len(part.owner) for part in self.parts])
        pieces = np.split(released, ends[:-1])
        return [
            np.asarray(piece / scale[part.owner])
            for piece, part, scale in zip(pieces, self.parts, self.scales(), strict=True)
        ]
