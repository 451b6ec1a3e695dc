"""The public edges of histograms."""

import numpy as np

from dpinfer.numerics.arrays import Array

BINS = 16
"""Bins of a histogram that zooms in."""


OUTCOME_ZOOMS = 3
"""Histograms of the outcome, each inside the last."""


COLUMN_ZOOMS = 2
"""Histograms of a column after that of its magnitudes, each inside the last."""


LARGEST_POWER = 400  # powers of two that have a bin; beyond, double precision cannot square


def inner_edges(low: float, high: float) -> Array:
    """Return the edges between the bins of [low, high]."""
    return np.asarray(np.linspace(low, high, BINS + 1)[1:-1])


COUNT_BINS = 22
"""Bins of the sizes of a count, each twice as wide as the next: six decades below its bound."""


def count_edges() -> Array:
    """Return the edges between these bins, for counts over their public bound."""
    return np.asarray(2.0 ** -np.arange(COUNT_BINS - 1.0, 0.0, -1.0))


ZERO_BIN = 2 * LARGEST_POWER + 1  # the bin around 0


_POWERS = 2.0 ** np.arange(-LARGEST_POWER, LARGEST_POWER + 1)


MAGNITUDES = np.concatenate([-_POWERS[::-1], _POWERS])
"""The edges between the bins of magnitudes."""

_ROW_OCTAVES = np.arange(1.0, 21.0)

UNIT_ROW_EDGES = np.sort(np.concatenate([2.0**_ROW_OCTAVES, 1.5 * 2.0**_ROW_OCTAVES]))
"""The edges between the bins of numbers of rows of a unit: 2, 3, 4, 6, 8, 12 and on; the last bin has no end."""
