"""Histograms of outcomes, columns and influences, with their sensitivities.

A record is in one bin, so that a histogram has sensitivity sqrt 2 (replace) or 1 (add-remove).  Bins are
found by comparisons with their edges, never by a logarithm: a record's bin depends on the record alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.sums import Block, BoundedSum, shrunk, squared_norms
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.reasons import Numerical

# Octaves of a histogram of influences.  The first edge is the largest influence that rows can have, so that
# a clip of 2⁻¹² of it can still be chosen; below that the clipping bias is of order 2⁻¹² and no clip is needed.
_INFLUENCE_BINS: Numerical[int] = 13


@dataclass(frozen=True)
class BoundedCounts(BoundedSum):
    """A bounded sum that also has an L1 sensitivity, as counts do: Laplace noise is added by it."""

    l1_bound: float


@dataclass(frozen=True, repr=False)
class LevelCounts:
    """Levels that occur in a column, how many units have each, and the L2 sensitivity of the counts."""

    levels: tuple[str, ...]
    counts: Array
    bound: float


def histogram(edges: Array, neighbours: Adjacency) -> BoundedCounts:
    """Count outcomes between inner edges; those beyond go to the end bins, zero rows to none.

    Guarantee [histogram_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1
    (add-remove), and the changes of its counts add up to at most 2 or 1.

    Input
    -----
    rows x (a zero row is no record), outcomes y, shares a; public or released ``edges``

    Output
    ------
    one count per bin, len(edges) + 1

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2), L1 2
    add-remove, add-remove-unit : 1, L1 1

    Pseudo-code
    -----------
    c = 0 for each bin
    for each row i that is not the zero row:
        b = number of edges that are at most y_i
        c[b] += a_i
    return c

    Proof
    -----
    docs/method.md, 6.6 and 9 (L1); units: 8.1; tests/audit/test_linear_sensitivity.py
    """

    def of_block(block: Block) -> Array:
        present = np.where(block.rows[..., 0] != 0, block.shares, 0.0)
        return counts_of(
            np.searchsorted(edges, block.labels, side="right"), len(edges) + 1, present
        )

    return BoundedCounts(of_block, histogram_bound(neighbours), histogram_l1_bound(neighbours))


def tail_counts(
    columns: Indices, centre: Array, unit: Array, edges: Array, neighbours: Adjacency
) -> BoundedSum:
    """Count values far from a centre, by column, side and distance; a row that is far in m columns
    adds 1/sqrt m to each of its m counts.

    ``edges`` has for each column the distances at which bins begin, in units of ``unit``; nearer values
    are not counted.  ``centre`` and ``unit`` are those of the numbers of a row.

    Guarantee [tail_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1
    (add-remove), however many columns there are: a row adds m numbers 1/sqrt m, a vector of norm 1, or
    nothing, and two of these have an inner product of at least 0.  A unit adds a mean of them.

    Input
    -----
    rows x (a zero row is no record), shares a; released ``centre``, ``unit`` and ``edges`` of some columns

    Output
    ------
    one count per column, side and bin

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    c = 0 for each column, side and bin
    for each row i that is not the zero row:
        D_k = (x_ik - centre_k) / unit_k for each column k
        m = number of columns with |D_k| at least the first edge of k
        for each of these m columns k:
            b = number of edges of k that are at most |D_k|
            c[k, side of D_k, b] += a_i / sqrt(m)
    return c

    Proof
    -----
    docs/method.md, 11; tests/audit/test_moment_release.py
    """
    bins = edges.shape[-1] + 1  # those before the first edge are dropped
    # a little less, so that m squares add up to at most 1 in real numbers
    sizes = shrunk(len(columns)) / np.sqrt(np.maximum(np.arange(len(columns) + 1), 1))

    def of_block(block: Block) -> Array:
        # element by element, so that a bin depends on the row alone
        distance = (np.take(block.rows, columns, axis=-1) - centre) / unit
        present = block.rows[..., 0] != 0
        places = np.stack(
            [
                np.searchsorted(edge, np.abs(distance[..., k]), side="right")
                for k, edge in enumerate(edges)
            ],
            axis=-1,
        )
        places[~present] = 0
        weights = block.shares * sizes[(places > 0).sum(axis=-1)]
        found = [
            counts_of(places[..., k] + bins * (distance[..., k] < 0), 2 * bins, weights)
            for k in range(len(columns))
        ]
        counts = np.stack(found, axis=-2).reshape(*block.stack, 2 * len(columns), bins)
        return counts[..., 1:].reshape(*block.stack, -1)

    return BoundedSum(of_block, histogram_bound(neighbours))


def histogram_bound(neighbours: Adjacency) -> float:
    """Return the L2 sensitivity of a histogram: a record, or a unit in parts, is in one bin."""
    return neighbours.pick(math.sqrt(2), 1.0)


def histogram_l1_bound(neighbours: Adjacency) -> float:
    """Return the L1 sensitivity of a histogram: a record leaves one bin and enters another."""
    return neighbours.pick(2.0, 1.0)


def influence_histogram(largest: float, neighbours: Adjacency) -> BoundedSum:
    """Count influences w‖u‖|r| in the bins largest · 2⁻ᵏ, the largest first, all smaller ones in the last.

    The labels of the rows are residuals r.  The sensitivity is that of `histogram`, however wide the
    bins are.

    Input
    -----
    rows u with weights w at a linearization, residuals r as labels, shares a

    Output
    ------
    13 counts, the largest influences first

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    c = 0 for each bin
    for each row i with w_i ‖u_i‖ > 0:
        s = (w_i / a_i) ‖u_i‖ |r_i|
        b = number of edges largest 2^-12, ..., largest 2^-1 that are at most s
        c[b] += a_i
    return c in reverse order

    Proof
    -----
    docs/method.md, 6.6; units: 8.1; tests/audit/test_linear_sensitivity.py
    """
    bins = _INFLUENCE_BINS
    edges = largest * 2.0 ** -np.arange(bins - 1.0, 0.0, -1.0)

    def of_block(block: Block) -> Array:
        influence = block.weights / block.shares * np.sqrt(squared_norms(block.rows))
        counts = np.where(influence > 0, block.shares, 0.0)
        codes = np.searchsorted(edges, influence * np.abs(block.labels), side="right")
        return counts_of(codes, bins, counts)[..., ::-1]

    return BoundedSum(of_block, histogram_bound(neighbours))


def counts_of(codes: npt.NDArray[Any], bins: int, weights: Array | None = None) -> Array:
    """Return how often each of ``bins`` codes occurs along the last axis, or the sums of its weights.

    Weights are added one after the other, in the order of the rows.
    """
    found = np.empty((*codes.shape[:-1], bins))
    for one in np.ndindex(codes.shape[:-1]):
        found[one] = np.bincount(codes[one], None if weights is None else weights[one], bins)
    return found
