"""What each row counts, so that all rows of a unit together count at most 1."""

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.sums import Block

_HEAVIEST = 1e100  # times the bound of weights: beyond, floats do not tell how much more
_LEAST = 2.0**-500  # of what a row counts: by less nothing can be divided safely


@np.errstate(all="ignore")  # a warning would tell of a value
def counted(
    block: Block, most: float, units: Indices | None = None, weights: Array | None = None
) -> Block:
    """The rows of each unit together, each counting ω/max(most, sum of ω over its unit).

    ``units`` has one number per row, below 0 where the id is missing: such a row counts for
    nothing, and is no unit.  Without it each row is one.  ω are the ``weights``, 1 by default, and
    0 for a row that could not be encoded: it takes nothing from the other rows of its unit.  A row
    without a positive one is a zero row, and so is one whose part of its unit is so small that
    floats would lose it.

    Guarantee [units_count_at_most_one]: what the rows of a unit count adds up to at most 1, in real
    numbers.
    """
    rows = block.rows
    labels = block.labels
    if weights is None:
        omega = np.ones(len(rows))
    else:
        omega = np.where(np.isfinite(weights), weights, 0.0)
    encoded = rows.any(axis=1)
    omega = np.where(encoded, np.clip(omega / most, 0.0, _HEAVIEST), 0.0)
    total = omega  # over the unit of each row
    starts = None
    if units is not None:
        order = np.argsort(units, kind="stable")
        order = order[units[order] >= 0]
        rows = rows[order]
        labels = labels[order]
        omega = omega[order]
        _, starts, sizes = np.unique(units[order], return_index=True, return_counts=True)
        by_unit = np.add.reduceat(omega, starts) if len(order) else omega
        total = np.repeat(by_unit, sizes)
    shares = omega / np.maximum(1.0, total) * (1 - 2.0**-20)  # a sum of 2²⁸ numbers errs by less
    counts = shares > _LEAST
    rows = np.where(counts[:, None], rows, 0.0)
    shares = np.where(counts, shares, _LEAST)
    return Block(rows, labels, shares, shares, starts)
