"""The first release of a fit: the ranges by which numeric columns are standardised.

Noisy histograms of all numeric columns, each zooming in on the last.  A column is centred at the middle
of its released range and scaled by half its width, so that public bounds that are far too wide cost
little.  Values are clipped to these ranges in the crude moments only; `Linearization.low` has the limits
of a winsorised column.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.inference.constants import SURE_SDS
from dpinfer.inference.moments import Columns, Local
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.winsorising import Histograms
from dpinfer.mechanisms.histograms import counts_of
from dpinfer.mechanisms.sums import Block, BoundedSum, Change, row_weights
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.bins import BINS, inner_edges
from dpinfer.numerics.reasons import Numerical
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.rows.encoded import Changed
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design, SplineColumns

ZOOMS: Numerical[int] = 2
"""Histograms per column, each inside the last."""


def scaled_columns(design: Design) -> Indices:
    """Return the positions of the numeric columns whose range is released.

    They are main effects alone.  A number times a factor is 0 for the records of other levels, and must
    stay so; a power or a product is scaled by the ranges of its factors, and a spline by its public knots.
    Deviations from the means of a person are scaled where they are those of a number.
    """
    columns = design.of_values.columns
    alone = (columns.group[:, None] == columns.group).sum(axis=0) == 1
    number = ~columns.dummy & alone & ~answers(design.of_values)
    number[: int(design.intercept)] = False
    number[[j for j, _ in design.products]] = False
    for spline in design.splines:
        number[list(spline.columns)] = False
    return np.flatnonzero(number)


def clippable_columns(design: Design) -> npt.NDArray[np.bool_]:
    """Return a mask of the numbers that may be winsorised: not the factors of a power or product."""
    found = ~(design.columns.dummy | answers(design))
    found[0] = False
    for spline in design.splines:
        found[list(spline.columns)] = False
    for j, factors in design.products:
        found[[j, *factors]] = False
    found[list(design.shared)] = False
    return found


def answers(design: Design) -> npt.NDArray[np.bool_]:
    """Return a mask of the yes/no columns, which are coded 0 and 1, as levels are."""
    found = design.columns.yes_no
    return np.zeros(len(design.names), dtype=bool) if found is None else found


def column_histograms(
    columns: Indices, edges: Array, radius: float, neighbours: Adjacency
) -> BoundedSum:
    """Return the query of one histogram per column, in bins of equal width.

    ``edges`` are the inner edges, one row per column, of rows times ``radius``.

    Guarantee [frame_sensitivity]: between neighbours it moves by at most sqrt(2p) (replace) or sqrt
    p (add-remove), p the number of columns: a row adds p unit vectors or, if it cannot be encoded,
    nothing, and two such stacks have an inner product of at least 0.  A unit adds a mean of them.
    A record's bin depends on the record alone.

    Input
    -----
    rows x, shares a, p columns, public or released edges of equal distance in each

    Output
    ------
    one count per column and bin

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2*p)
    add-remove, add-remove-unit : sqrt(p)

    Pseudo-code
    -----------
    c = 0
    for each row i that is not the zero row:
        for each column j:
            b = clip(floor((radius x_ij - first edge_j) / width_j) + 1, 0, bins - 1)
            c[j, b] += a_i
    return c

    Proof
    -----
    docs/method.md, 6.1; units: 8.1; tests/audit/test_column_scaling.py
    """
    width = (edges[:, -1] - edges[:, 0]) / (BINS - 2)
    scale = radius / width
    start = edges[:, 0] / width - 1.0
    per_column = tuple(scale), tuple(start)

    def of_block(block: Block) -> Array:
        # bins have equal widths, so that a bin is an element-wise function of a value, whatever
        # the rest of its block is
        present = block.rows[..., 0] != 0
        # indices would lay the copy out column by column, and every step after it would be slower
        values = np.take(block.rows, columns, axis=-1)
        scales, starts, first_bins = _for_height(values.shape[-2], *per_column)
        values *= scales
        values -= starts
        np.clip(values, 0.0, BINS - 0.5, out=values)
        bins = values.astype(np.intp)  # rounds down
        bins += first_bins
        shares = block.shares * present
        weights = None
        if not (shares == 1).all():
            weights = np.repeat(shares, len(columns), axis=-1)
        return counts_of(bins.reshape(*block.stack, -1), BINS * len(columns), weights)

    return BoundedSum(of_block, column_histograms_bound(len(columns), neighbours))


@lru_cache(maxsize=4)
def _for_height(
    height: int, scale: tuple[float, ...], start: tuple[float, ...]
) -> tuple[Array, Array, Indices]:
    """Return scale, start and first bin of each column, once per row: a row that is broadcast takes twice the time."""
    first_bin = BINS * np.arange(len(scale))
    found = tuple(np.tile(row, (height, 1)) for row in (scale, start, first_bin))
    for array in found:
        array.flags.writeable = False
    return found[0], found[1], found[2]


def column_histograms_bound(number: int, neighbours: Adjacency) -> float:
    """Return the sensitivity of `column_histograms` of so many columns."""
    return neighbours.pick(math.sqrt(2), 1.0) * math.sqrt(number)


@dataclass(frozen=True, eq=False)
class ColumnScaling:
    """The standardised columns x' of a fit, given those scaled by public bounds, x~.

    x' = (x~ - ``middle``)/``half``.  Powers and products are those of standardised columns, and splines
    are made of functions that are nobody's reference: they span the same model, and are far less
    correlated.  ``histograms`` are the released ones of each number, by its position; ``two_valued`` are
    the numbers that have records at both public bounds and none between, which are coded 0 and 1.
    """

    middle: Array
    half: Array
    products: tuple[tuple[int, tuple[int, ...]], ...] = ()
    splines: tuple[SplineColumns, ...] = ()
    histograms: tuple[tuple[int, Histograms], ...] = ()
    two_valued: tuple[int, ...] = ()

    def of_units(self, design: Design) -> Array:
        """Return the matrix from (1, x) in original units to (1, x')."""
        centre = design.middle + design.half * self.middle
        size = design.half * self.half
        found = np.diag(1 / size)
        found[1:, 0] = -(centre / size)[1:]
        positions: dict[tuple[int, ...], int] = {(): 0}
        positions |= {(j,): j for j in range(1, len(centre))}
        positions |= {tuple(sorted(factors)): j for j, factors in self.products}
        for j, factors in self.products:
            found[j] = 0.0
            for size_of_part in range(len(factors) + 1):
                for part in combinations(range(len(factors)), size_of_part):
                    others = [factors[k] for k in range(len(factors)) if k not in part]
                    position = positions[tuple(sorted(factors[k] for k in part))]
                    found[j, position] += np.prod(-centre[others]) / np.prod(size[list(factors)])
        for spline in self.splines:
            found[list(spline.columns)] = 0.0
            for row, j in zip(spline.matrix, spline.columns, strict=True):
                found[j, [spline.base, *spline.columns]] = row
        return found

    def matrix(self, design: Design) -> Array:
        """Return the matrix from (1, x~) to (1, x'); ``design`` is the public one."""
        to_units = np.diag(design.half)
        to_units[1:, 0] = design.middle[1:]
        return np.asarray(self.of_units(design) @ to_units)

    def columns(self, design: Design) -> Columns:
        """Return what is public about x', with the largest |x'| of each column."""
        dummy = design.columns.dummy | answers(design)
        dummy[list(self.two_valued)] = True
        far = np.where(dummy, 1.0, (1 + np.abs(self.middle)) / self.half)
        far[0] = 1.0
        for j, factors in self.products:
            far[j] = np.prod(far[list(factors)])
        local = tuple(_local(spline, design) for spline in self.splines)
        return replace(design.columns, dummy=dummy, far=far, local=local)

    def low(self, design: Design) -> Array:
        """Return the lower end of every range in original units."""
        return np.asarray(design.middle + design.half * (self.middle - self.half))

    def high(self, design: Design) -> Array:
        """Return the upper end of every range in original units."""
        return np.asarray(design.middle + design.half * (self.middle + self.half))


def _local(spline: SplineColumns, design: Design) -> Local:
    """Return the columns of a spline in original units, each near 0 far from its own knots."""
    back = np.asarray(np.linalg.inv(spline.matrix[:, 1:]), dtype=np.float64)
    places = np.array(spline.columns)
    return Local(
        np.array([spline.base, *spline.columns]),
        np.column_stack([-back @ spline.matrix[:, 0], back]),
        design.low[places],
        design.high[places],
        spline.shares,
    )


def public_scaling(design: Design) -> ColumnScaling:
    """Return the scaling by public bounds, with yes/no columns coded 0 and 1."""
    yes_no = answers(design)
    return ColumnScaling(
        np.where(yes_no, -1.0, 0.0), np.where(yes_no, 2.0, 1.0), design.products, design.splines
    )


@dataclass(frozen=True, repr=False)
class Winsorised(Changed):
    """Rows standardised and clipped to the released ranges, for the crude moments alone.

    A zero row stays zero.
    """

    scaling: ColumnScaling

    @property
    def dim(self) -> int:
        """Return the number of columns, which does not change."""
        return self.source.dim

    @property
    def change(self) -> Change:
        """Return the change, column by column: a row's numbers do not depend on its position."""
        middle = self.scaling.middle
        half = self.scaling.half
        products = self.scaling.products
        splines = self.scaling.splines

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


def release_scaling(
    gate: Gate,
    releases: tuple[NoisySum, ...],
    source: Source,
    design: Design,
    adjacency: Adjacency,
) -> ColumnScaling:
    """Release the ranges of the numeric columns; there is no release where there are none."""
    columns = scaled_columns(design)
    low = -np.ones(len(columns))
    high = np.ones(len(columns))
    radius = math.sqrt(design.norm2)
    ends: list[list[tuple[float, float]]] = [[] for _ in columns]
    counts: list[list[Array]] = [[] for _ in columns]
    for one in releases:
        edges = np.array([inner_edges(*pair) for pair in zip(low, high, strict=True)])
        query = column_histograms(columns, edges, radius, adjacency)
        released = gate.release(one, source, query).value.reshape(len(columns), BINS)
        for k, mine in enumerate(released):
            ends[k].append((float(low[k]), float(high[k])))
            counts[k].append(mine)
            n = max(float(mine.sum()), 0.0)
            low[k], high[k] = narrowed(mine, low[k], high[k], n, one.noise_sd, SURE_SDS)
    histograms = {
        int(j): Histograms(tuple(ends[k]), tuple(counts[k]), releases[0].noise_sd)
        for k, j in enumerate(columns)
    }
    two_valued = []
    if not design.within:
        two_valued = [
            j for j, one in histograms.items() if one.two_valued and _stands_alone(j, design)
        ]
    scaling = public_scaling(design)
    scaling.middle[columns] = (low + high) / 2
    scaling.half[columns] = (high - low) / 2
    scaling.middle[two_valued] = -1.0
    scaling.half[two_valued] = 2.0
    return replace(scaling, histograms=tuple(histograms.items()), two_valued=tuple(two_valued))


def _stands_alone(position: int, design: Design) -> bool:
    """Return whether no power, product or spline is made of a column."""
    return all(position not in factors for _, factors in design.products)
