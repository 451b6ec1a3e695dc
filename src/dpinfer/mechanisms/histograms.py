"""Histograms of outcomes, columns and influences: the counts that are released.

A record is in one bin, so that a histogram moves by sqrt 2 or 1.  Bins are compared with, never
computed by a logarithm: a record's bin depends on the record alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.mechanisms.sums import Block, BoundedSum, squared_norms
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array

_POWERS_OF_SIZES = 13  # powers of two that the bins of influences span


@dataclass(frozen=True)
class Counts(BoundedSum):
    """A histogram, and the most that the sizes of the changes of its counts add up to between
    neighbours.
    """

    added: float


@dataclass(frozen=True, repr=False)
class Tally:
    """The levels that occur in a column, how many units have each, and how far these counts move
    between neighbours.
    """

    levels: tuple[str, ...]
    counts: Array
    bound: float


def histogram(edges: Array, neighbours: Neighbours) -> Counts:
    """Counts of outcomes between inner edges; what lies beyond goes to the end bins, a zero row to
    none.

    Guarantee [histogram_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1
    (add-remove), and the changes of its counts add up to at most 2 or 1.
    """

    def of_block(block: Block) -> Array:
        present = np.where(block.rows[..., 0] != 0, block.shares, 0.0)
        return counts_of(
            np.searchsorted(edges, block.labels, side="right"), len(edges) + 1, present
        )

    return Counts(of_block, histogram_bound(neighbours), histogram_added(neighbours))


def histogram_bound(neighbours: Neighbours) -> float:
    """How far a histogram moves: a record, or a unit in parts, is in one bin."""
    return neighbours.pick(math.sqrt(2), 1.0)


def histogram_added(neighbours: Neighbours) -> float:
    """What the sizes of the changes of its counts add up to."""
    return neighbours.pick(2.0, 1.0)


def influence_histogram(largest: float, neighbours: Neighbours) -> BoundedSum:
    """Counts of the sizes w‖u‖|r| in the bins largest 2^(-k), the largest first, the rest in
    the last.

    It is about rows at a line, whose labels are residuals r.  The bound is that of `histogram`,
    however wide the bins are.
    """
    bins = _POWERS_OF_SIZES
    edges = largest * 2.0 ** -np.arange(bins - 1.0, 0.0, -1.0)

    def of_block(block: Block) -> Array:
        influence = block.weights / block.shares * np.sqrt(squared_norms(block.rows))
        counts = np.where(influence > 0, block.shares, 0.0)
        places = np.searchsorted(edges, influence * np.abs(block.labels), side="right")
        return counts_of(places, bins, counts)[..., ::-1]

    return BoundedSum(of_block, histogram_bound(neighbours))


def counts_of(places: npt.NDArray[Any], bins: int, weights: Array | None = None) -> Array:
    """How often each of ``bins`` places stands in the last axis, or what the weights there add up to,
    one after the other.
    """
    found = np.empty((*places.shape[:-1], bins))
    for one in np.ndindex(places.shape[:-1]):
        found[one] = np.bincount(places[one], None if weights is None else weights[one], bins)
    return found
