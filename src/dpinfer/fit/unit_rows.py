"""The first release of a fit in which every row counts once: the mean number of rows of a unit.

A row counts one over that number, so that a typical unit counts 1, and the releases before the steps let rows
count alike up to it.  It decides nothing that privacy rests on, and little of the estimate: a unit with many more
rows than the mean is bounded as a whole.
"""

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.inference.tails import Tail
from dpinfer.mechanisms.unit_sums import unit_row_counts
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.bins import UNIT_ROW_EDGES
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.rows.source import Source


def release_mean_rows(
    gate: Gate, release: NoisySum, source: Source, neighbours: Adjacency
) -> float:
    """Release the histogram of numbers of rows, and return the mean number of rows of a unit."""
    counts = gate.release(release, source, unit_row_counts(neighbours)).value
    return mean_rows(counts, release.noise_sd)


def mean_rows(counts: Array, noise_sd: float) -> float:
    """Return the mean number of rows of a unit by a noisy histogram, at least 1.

    Bins beyond the farthest that is clear of the noise are left out: a unit of a million rows would count for
    too much there if it were noise.
    """
    low = np.append(1.0, UNIT_ROW_EDGES)
    high = np.append(UNIT_ROW_EDGES - 1, low[-1])
    tail = Tail(
        counts[::-1], float(counts.sum()), noise_sd, low[::-1], 2 * float(low[-1]), generous=True
    )
    kept = np.maximum(counts[: len(counts) - tail.farthest_clear], 0.0)
    if not kept.sum() > 0:
        return 1.0
    return float(kept @ ((low + high) / 2)[: len(kept)] / kept.sum())
