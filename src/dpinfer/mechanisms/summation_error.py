"""The effect of the order of rows on the rounding of a sum of matrix products.

A product rounds a row by its place in a block.  Where the other rows may lose theirs, as one is
added or removed or a cluster places them, that is counted: a sum may be off by so much for every
row, and that fits its bound as long as there are not too many rows.  Else rows are mapped one by
one, as they are for sums that jump: histograms, and counts of what lies inside a band.

| symbol | meaning                                                            | name in code |
| ------ | ------------------------------------------------------------------ | ------------ |
| u      | 2⁻⁵³, the relative error of one operation                          | `UNIT`       |
| A, t   | what a row x, ‖x‖ <= 1, is mapped by: to v = A x and η = t·x       |              |
| δ      | (d + 2)u‖A‖: how far a product is from A x, in any order           | `_product`   |
| b      | the clip of a step                                                 | `clip`       |
| G, S²  | the largest |y - h| and h' that the rows can have                  | `RowBounds`      |
| ε      | how far the term of a row is from that of the real A x, t·x        |              |

The proofs are in docs/method.md, section 7.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

UNIT: Numerical[float] = 2.0**-53
DEFAULT_MAX_RECORDS: Numerical[int] = 2**28
"""Records up to which the slack of every bound has room for what floats do to a sum."""
SUMMATION_ERROR: Numerical[float] = 2.0**-15
"""The largest effect of the order of so many rows on a sum, relative to its bound."""


def carried(error: float, rows: float) -> bool:
    """Return whether a sum may have this ``error`` for each of so many rows, and one row more.

    Beyond the usual number of records the bound is raised with their number, so that the error of
    one row alone decides.

    Guarantee [counted_products]: where it may, the float sum over rows that are mapped by products
    is within 2⁻¹⁵ of the one over the real A x for each 2²⁸ rows begun, wherever the rows stand; and
    so is that over rows mapped one by one, so that the number of rows may decide, also where it is
    private.
    """
    return error * min(rows + 1, DEFAULT_MAX_RECORDS) <= SUMMATION_ERROR


@np.errstate(all="ignore")  # numbers too large for floats are refused where rows are mapped
def moment_error(matrix: Array) -> float:
    """Return ε of w v vᵀ and w y v/2, w = min(1, 1/‖v‖²); they move by at most 3.5‖dv‖ and ‖dv‖."""
    return 4.5 * _product(matrix) + _terms(matrix)


@dataclass(frozen=True)
class RowBounds:
    """Bounds at a linearization: the largest |h| and h' of a row, and the norm of A."""

    mean: float
    slope: float
    matrix: float


@np.errstate(all="ignore")  # numbers too large for floats are refused where rows are mapped
def step_error(row_map: Array, row_bounds: RowBounds, clip: float) -> float:
    """Return ε of what a row adds to a step: score γe, Hessian and γ²e eᵀ, e = v/‖v‖.

    Influences w‖v‖ grow no faster than ‖v‖ and no slower than its inverse, and γ, clipped at 1, is
    at most G‖v‖/b.
    """
    gap = (1 + row_bounds.mean) / clip
    steep = math.sqrt(row_bounds.slope)
    of_row = 6 * gap + 3.5 * steep
    of_predictor = 4.5 + 3 * steep / clip
    # what the mean and its slope are rounded by, which a long row makes more of
    rounded = 24 * gap * row_bounds.matrix + 32 * row_bounds.matrix * row_bounds.matrix
    return (
        of_row * _product(row_map[:-1])
        + of_predictor * _product(row_map[-1:])
        + 3 * _terms(row_map)
        + UNIT * rounded
    )


@np.errstate(all="ignore")  # numbers too large for floats are refused where rows are mapped
def remainder_error(row_map: Array, row_bounds: RowBounds, step: float, clip: float) -> float:
    """Return ε of the remainder of a row after a step of this norm, within ``row_bounds``."""
    moved = min(step * row_bounds.matrix, _FARTHEST)
    long = row_bounds.matrix / clip
    of_row = 4 * row_bounds.slope * moved / clip + 2 * long * row_bounds.slope * step
    of_predictor = 1 + long * row_bounds.slope * (2 + moved)
    means = 16 * (1 + row_bounds.mean) + 8 * moved * (1 + row_bounds.mean + row_bounds.slope)
    d = int(row_map.shape[1])
    lengths = 2 * row_bounds.slope * (d + 2) * step * row_bounds.matrix
    return (
        of_row * _product(row_map[:-1])
        + of_predictor * _product(row_map[-1:])
        + _terms(row_map)
        + UNIT * (long * (means + lengths) + 8 * row_bounds.matrix * row_bounds.matrix)
    )


_FARTHEST: Numerical[float] = 60.0  # a step of a predictor goes no farther


def _product(matrix: Array) -> float:
    """Return δ, for a sum of d products in any order, fused or not."""
    d = int(matrix.shape[1])
    return (d + 2) * UNIT * float(np.linalg.norm(matrix))


def _terms(matrix: Array) -> float:
    """Return the rounding of norms, weights and a few functions of a row, in a term of size 1."""
    d = int(matrix.shape[1])
    return (4 * d + 64) * UNIT
