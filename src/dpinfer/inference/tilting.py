"""How the curvature of counts changes along a step, where a record counts as the mean of its count.

Along a step s of the coefficients of (1, x) every record counts exp(x·s) times as much.  For a level that is one
factor: its share p of all that counts becomes p exp(s) over the total of its factor, however rare the level and
however long the step.  Numbers are taken for Gaussian: their means move by their covariance times s.

Post-processing of released values only.
"""

import numpy as np

from dpinfer.inference.moments import LEVELS, Columns
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST

_RAREST = 1e-6  # the least share of a level


def tilted(information: Array, step: Array, columns: Columns) -> Array:
    """sum μ x xᵀ after a step of the coefficients of (1, x); as it was where nothing counts.

    Correlations stay as they are, and so do the means of numbers where levels move, and shares of
    levels where numbers do.
    """
    total = float(information[0, 0])
    if total <= 0:
        return information
    mean = information[0] / total
    covariance = information / total - np.outer(mean, mean)
    after, level = _shares(mean, step, columns)
    before = np.clip(mean, _RAREST, LEVELS)
    grown = np.where(columns.dummy, after * (1 - after) / (before * (1 - before)), 1.0)
    size = np.sqrt(grown)
    covariance *= np.outer(size, size)
    along = np.where(columns.dummy, 0.0, step)
    along[0] = 0.0
    moved = covariance @ along
    further = float(after @ along + along @ moved / 2)
    level *= float(np.exp(np.clip(further, -FARTHEST, FARTHEST)))
    # shares of levels stay as their own step has left them
    after = np.where(columns.dummy, after, after + moved)
    after[0] = 1.0
    return np.asarray(total * level * (covariance + np.outer(after, after)))


def _shares(mean: Array, step: Array, columns: Columns) -> tuple[Array, float]:
    """Means of the columns after what a step does to levels, and by how much all records count more
    by that, and by the step of the intercept.
    """
    after = mean.copy()
    level = float(np.exp(np.clip(step[0], -FARTHEST, FARTHEST)))
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        shares = np.clip(mean[levels], _RAREST, LEVELS)
        rates = shares * np.exp(np.clip(step[levels], -FARTHEST, FARTHEST))
        total = max(1 - float(shares.sum()), _RAREST) + float(rates.sum())
        after[levels] = np.clip(rates / total, _RAREST, LEVELS)
        level *= total
    return after, level
