"""Where numeric columns are inside their public bounds: noisy histograms of all of them, zooming in.

A record is in one bin of each column, so that p histograms together move by sqrt(2p) or sqrt p.  The columns are then
measured from the middle of the range that was found, in halves of its width.  Nobody is clipped to it in the fit: rows
beyond count less, by their length in the geometry.

Guarantee [frame_sensitivity]: a row adds p vectors of a histogram with one 1 each, a vector of squared length p or, if
it cannot be encoded, 0; two such vectors are apart by sqrt(2p) at most, as their inner product is not negative.  A unit
adds a mean of such vectors with shares that add up to at most 1: the squared change is convex in each, so a single row
is the worst.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dpinfer.data.changed import Changed, Mapped, kept
from dpinfer.data.design import Design
from dpinfer.data.source import Source
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.histograms import BINS, inner_edges, narrowed
from dpinfer.maths.laws import deviation
from dpinfer.maths.sums import Block, BoundedSum, Change, row_weights
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum

ZOOMS = 2
"""Histograms of a column, each inside the last."""


def column_histograms(places: Indices, edges: Array, radius: float, neighbours: Neighbours) -> BoundedSum:
    """Counts of each column of ``places`` between its inner edges, which are for rows times ``radius``."""
    limits = edges / radius

    def of_block(block: Block) -> Array:
        present = np.where(block.rows[:, 0] != 0, block.shares, 0.0)
        counts = [
            np.bincount(np.searchsorted(inner, block.rows[:, j], side="right"), present, len(inner) + 1)
            for j, inner in zip(places, limits, strict=True)
        ]
        return np.concatenate(counts) if counts else np.zeros(1)

    return BoundedSum(of_block, neighbours.pick(math.sqrt(2), 1.0) * math.sqrt(max(1, len(places))))


@dataclass(frozen=True, eq=False)
class Frame:
    """The released range of every column, -1 to 1 where it is the public one: middle and half of its width."""

    middle: Array
    half: Array

    @property
    def matrix(self) -> Array:
        """From (1, x~) to (1, x'), x' = (x~ - middle)/half."""
        found = np.diag(1 / self.half)
        found[1:, 0] = -(self.middle / self.half)[1:]
        return found

    def design(self, design: Design, *, pull: bool = False) -> Design:
        """The encoding in these units; what a column can reach beyond 1 stands with the columns."""
        far = np.where(design.columns.dummy, 1.0, (1 + np.abs(self.middle)) / self.half)
        far[0] = 1.0
        return replace(
            design,
            middle=design.middle + design.half * self.middle,
            half=design.half * self.half,
            columns=replace(design.columns, far=far, pulled=pull),
        )


@dataclass(frozen=True, repr=False)
class Winsorised(Changed):
    """Rows pulled into the frame, then measured in it; a zero row stays one.  For the crude moments alone."""

    frame: Frame

    @property
    def dim(self) -> int:
        """As many columns as before."""
        return self.source.dim

    @property
    def change(self) -> Change:
        """Column by column, so that a row's numbers do not depend on its place."""
        middle, half = self.frame.middle, self.frame.half

        def changed(block: Block) -> Block:
            first = block.rows[:, :1]
            inside = np.clip((block.rows - first * middle) / half, -first, first)
            inside[:, 0] = first[:, 0]
            return Block(inside, block.labels, block.shares * row_weights(inside), block.shares, block.starts, block.fixed)

        return changed


@dataclass(frozen=True, repr=False)
class Pulled(Changed):
    """Rows (1, x') with some columns pulled into the released range, element by element; a zero row stays one."""

    places: Indices

    @property
    def dim(self) -> int:
        """As many columns as before."""
        return self.source.dim

    @property
    def change(self) -> Change:
        """Column by column, so that a row's numbers do not depend on its place."""
        places = self.places

        def changed(block: Block) -> Block:
            first, rows = block.rows[:, :1], block.rows.copy()
            rows[:, places] = np.clip(rows[:, places], -first, first)
            return Block(rows, block.labels, block.shares * row_weights(rows), block.shares, block.starts, block.fixed)

        return changed


def pulled(source: Source, short: Array) -> Source:
    """The rows in the frame, with the numbers whose tails cannot be let in clipped to their released range."""
    places = np.flatnonzero(short)
    return kept(Pulled(source, places)) if len(places) else source


def framed(gate: Gate, booked: tuple[NoisySum, ...], source: Source, design: Design, notion: Neighbours) -> Frame:
    """The released ranges of the numeric columns."""
    yes_no = (design.low == 0) & (design.high == 1)  # such numbers mostly are 0 or 1, however rare
    places = np.flatnonzero(~design.columns.dummy & ~yes_no)[int(design.intercept) :]
    low, high = -np.ones(len(places)), np.ones(len(places))
    radius = math.sqrt(design.norm2)
    for one in booked:
        edges = np.array([inner_edges(*ends) for ends in zip(low, high, strict=True)]).reshape(len(places), BINS - 1)
        what = column_histograms(places, edges, radius, notion)
        counts, noise = gate.release(one, source, what).value, deviation(one.noise(what))
        for k in range(len(places)):
            mine = counts[k * BINS : (k + 1) * BINS]
            low[k], high[k] = narrowed(mine, low[k], high[k], max(float(mine.sum()), 0.0), noise)
    middle, half = np.zeros(len(design.names)), np.ones(len(design.names))
    middle[places], half[places] = (low + high) / 2, (high - low) / 2
    return Frame(middle, half)


def in_frame(frame: Frame, source: Source, notion: Neighbours) -> Source:
    """The rows (1, x')."""
    return kept(Mapped(source, frame.matrix, notion))
