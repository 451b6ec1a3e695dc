"""The first release of a fit: where the numbers are inside their public bounds.

Noisy histograms of all numbers, zooming in.  The fit measures each column from the middle of the
range that was found, in halves of its width.  Bounds that are far too wide so cost next to nothing.
Nobody is clipped to a range but for the crude moments, and where a fit says so (`Linearization.low`).
"""

import math
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dpinfer.inference.moments import Columns, Local
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.winsorising import Histograms
from dpinfer.mechanisms.histograms import counts_of
from dpinfer.mechanisms.sums import Block, BoundedSum, Change, row_weights
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.bins import BINS, inner_edges
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.rows.encoded import Changed
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design, SplineColumns

# sds of the noise by which a count at an end of a range is told from nothing: an empty bin passes for
# a filled one at one end of 50 numbers, and a range that is too long wastes the bins of the next
_SURE = 3.0
ZOOMS = 2
"""Histograms of a column, each inside the last."""


def framed_columns(design: Design) -> Indices:
    """The places of the numbers whose range is released: those that are columns of their own.

    A number times a factor is 0 for the records of other levels, and must stay so; a power or a
    product is measured by the ranges of what it is made of, and a spline by its public knots.
    """
    columns = design.columns
    alone = (columns.group[:, None] == columns.group).sum(axis=0) == 1
    number = ~columns.dummy & alone & ~answers(design)
    number[: int(design.intercept)] = False
    number[[j for j, _ in design.products]] = False
    for spline in design.splines:
        number[list(spline.columns)] = False
    return np.flatnonzero(number)


def answers(design: Design) -> npt.NDArray[np.bool_]:
    """Which columns are yes or no: they are measured as 0 and 1, as levels are."""
    found = design.columns.yes_no
    return np.zeros(len(design.names), dtype=bool) if found is None else found


def column_histograms(
    places: Indices, edges: Array, radius: float, neighbours: Neighbours
) -> BoundedSum:
    """Counts of each column of ``places`` in bins between equidistant inner edges, which are for
    rows times ``radius``.

    Guarantee [frame_sensitivity]: between neighbours it moves by at most sqrt(2p) (replace) or sqrt
    p (add-remove), p the number of columns: a row adds p unit vectors or, if it cannot be encoded,
    nothing, and two such stacks have an inner product of at least 0.  A unit adds a mean of them.
    A record's bin depends on the record alone.
    """
    width = (edges[:, -1] - edges[:, 0]) / (BINS - 2)
    scale = radius / width
    start = edges[:, 0] / width - 1.0
    first_bin = BINS * np.arange(len(places))

    def of_block(block: Block) -> Array:
        # bins are as wide as each other, so a bin is an element-wise function of a value, whatever
        # stands beside it
        present = block.rows[..., 0] != 0
        # indices would lay the copy out column by column, and every step after it would be slower
        values = np.take(block.rows, places, axis=-1)
        values *= scale
        values -= start
        np.clip(values, 0.0, BINS - 0.5, out=values)
        bins = values.astype(np.intp)  # rounds down
        bins += first_bin
        shares = block.shares * present
        weights = None
        if not (shares == 1).all():
            weights = np.repeat(shares, len(places), axis=-1)
        return counts_of(bins.reshape(*block.stack, -1), BINS * len(places), weights)

    return BoundedSum(of_block, column_histograms_bound(len(places), neighbours))


def column_histograms_bound(number: int, neighbours: Neighbours) -> float:
    """How far `column_histograms` of a number of columns move."""
    return neighbours.pick(math.sqrt(2), 1.0) * math.sqrt(number)


@dataclass(frozen=True, eq=False)
class Frame:
    """How a fit measures its columns: each from the ``middle`` of its range, in ``half`` of its
    width, of (1, x~).

    Powers and products are those of columns so measured, and splines are made of functions that are
    nobody's reference: they span the same model, and are far less correlated.  ``histograms`` are
    the released ones of each number, by its place; ``two_valued`` are the numbers that have records at
    both public bounds and none between, which are measured as 0 and 1, as levels are.
    """

    middle: Array
    half: Array
    products: tuple[tuple[int, tuple[int, ...]], ...] = ()
    splines: tuple[SplineColumns, ...] = ()
    histograms: tuple[tuple[int, Histograms], ...] = ()
    two_valued: tuple[int, ...] = ()

    def of_units(self, design: Design) -> Array:
        """The matrix from (1, x) in original units to (1, x')."""
        centre = design.middle + design.half * self.middle
        size = design.half * self.half
        found = np.diag(1 / size)
        found[1:, 0] = -(centre / size)[1:]
        places: dict[tuple[int, ...], int] = {(): 0}
        places |= {(j,): j for j in range(1, len(centre))}
        places |= {tuple(sorted(factors)): j for j, factors in self.products}
        for j, factors in self.products:
            found[j] = 0.0
            for size_of_part in range(len(factors) + 1):
                for part in combinations(range(len(factors)), size_of_part):
                    others = [factors[k] for k in range(len(factors)) if k not in part]
                    place = places[tuple(sorted(factors[k] for k in part))]
                    found[j, place] += np.prod(-centre[others]) / np.prod(size[list(factors)])
        for spline in self.splines:
            found[list(spline.columns)] = 0.0
            for row, j in zip(spline.matrix, spline.columns, strict=True):
                found[j, [spline.base, *spline.columns]] = row
        return found

    def matrix(self, design: Design) -> Array:
        """The matrix from (1, x~) to (1, x'); ``design`` is the public one."""
        to_units = np.diag(design.half)
        to_units[1:, 0] = design.middle[1:]
        return np.asarray(self.of_units(design) @ to_units)

    def columns(self, design: Design) -> Columns:
        """The columns so measured, with how far they can be beyond 1."""
        dummy = design.columns.dummy | answers(design)
        dummy[list(self.two_valued)] = True
        far = np.where(dummy, 1.0, (1 + np.abs(self.middle)) / self.half)
        far[0] = 1.0
        for j, factors in self.products:
            far[j] = np.prod(far[list(factors)])
        local = tuple(_local(spline, design) for spline in self.splines)
        return replace(design.columns, dummy=dummy, far=far, local=local)

    def low(self, design: Design) -> Array:
        """The lower end of every range in original units."""
        return np.asarray(design.middle + design.half * (self.middle - self.half))

    def high(self, design: Design) -> Array:
        """The upper end of every range in original units."""
        return np.asarray(design.middle + design.half * (self.middle + self.half))


def _local(spline: SplineColumns, design: Design) -> Local:
    """The columns of a spline in original units, each of which is near 0 far from its own place."""
    back = np.asarray(np.linalg.inv(spline.matrix[:, 1:]), dtype=np.float64)
    places = np.array(spline.columns)
    return Local(
        np.array([spline.base, *spline.columns]),
        np.column_stack([-back @ spline.matrix[:, 0], back]),
        design.low[places],
        design.high[places],
        spline.shares,
    )


def public_frame(design: Design) -> Frame:
    """The public bounds, and 0 to 1 for what is yes or no."""
    yes_no = answers(design)
    return Frame(
        np.where(yes_no, -1.0, 0.0), np.where(yes_no, 2.0, 1.0), design.products, design.splines
    )


@dataclass(frozen=True, repr=False)
class Winsorised(Changed):
    """Rows pulled into the frame, then measured in it; a zero row stays one.  For the crude moments
    alone.
    """

    frame: Frame

    @property
    def dim(self) -> int:
        """As many columns as before."""
        return self.source.dim

    @property
    def change(self) -> Change:
        """Column by column, so that a row's numbers do not depend on its place."""
        middle = self.frame.middle
        half = self.frame.half
        products = self.frame.products
        splines = self.frame.splines

        def changed(block: Block) -> Block:
            first = block.rows[..., :1]
            inside = first * middle
            np.subtract(block.rows, inside, out=inside)
            inside /= half
            np.clip(inside, -first, first, out=inside)
            ones = first[..., 0]
            inside[..., 0] = ones
            present = ones != 0
            for j, factors in products:
                share = np.ones(ones.shape)
                for k in factors:
                    share[present] *= inside[..., k][present] / ones[present]
                inside[..., j] = ones * share
            for spline in splines:
                columns = [block.rows[..., k] for k in (spline.base, *spline.columns)]
                for j, row in zip(spline.columns, spline.encoded, strict=True):
                    made = sum(weight * column for weight, column in zip(row, columns, strict=True))
                    inside[..., j] = np.clip(made, -ones, ones)
            weights = block.shares * row_weights(inside)
            return Block(inside, block.labels, weights, block.shares, block.starts, block.fixed)

        return changed


def framed(
    gate: Gate,
    releases: tuple[NoisySum, ...],
    source: Source,
    design: Design,
    adjacency: Neighbours,
) -> Frame:
    """The released ranges of the numbers; nothing is booked where there is none."""
    places = framed_columns(design)
    low = -np.ones(len(places))
    high = np.ones(len(places))
    radius = math.sqrt(design.norm2)
    ends: list[list[tuple[float, float]]] = [[] for _ in places]
    counts: list[list[Array]] = [[] for _ in places]
    for one in releases:
        edges = np.array([inner_edges(*pair) for pair in zip(low, high, strict=True)])
        query = column_histograms(places, edges, radius, adjacency)
        released = gate.release(one, source, query).value.reshape(len(places), BINS)
        for k, mine in enumerate(released):
            ends[k].append((float(low[k]), float(high[k])))
            counts[k].append(mine)
            n = max(float(mine.sum()), 0.0)
            low[k], high[k] = narrowed(mine, low[k], high[k], n, one.deviation, _SURE)
    histograms = {
        int(j): Histograms(tuple(ends[k]), tuple(counts[k]), releases[0].deviation)
        for k, j in enumerate(places)
    }
    two_valued = [j for j, one in histograms.items() if one.two_valued and _stands_alone(j, design)]
    frame = public_frame(design)
    frame.middle[places] = (low + high) / 2
    frame.half[places] = (high - low) / 2
    frame.middle[two_valued] = -1.0
    frame.half[two_valued] = 2.0
    return replace(frame, histograms=tuple(histograms.items()), two_valued=tuple(two_valued))


def _stands_alone(place: int, design: Design) -> bool:
    """Whether no power, product or spline is made of a column."""
    return all(place not in factors for _, factors in design.products)
