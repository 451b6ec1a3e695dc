"""What the columns that are not in a model may mean for those that are.  Rules of thumb, from released moments."""

from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.moments import Columns, raised

_SMALLEST = 1e-4  # of a variance or of an eigenvalue of a covariance
_TWINS = 2.0  # by how much a column's own variance grows without the one it cannot be told from


@dataclass(frozen=True)
class Size:
    """What effects of columns left out are plausible, and what they do to the others besides correlation.

    ``effect`` is that of a dummy; half of ``spread`` is that of a deviation of a number.  A coefficient shrinks by
    1/sqrt(1 + ``attenuation`` v) if an effect of variance v is left out, v = 1 for a number.
    """

    effect: float = 1.0
    spread: float = 1.0
    attenuation: float = 0.35


LOG_ODDS = Size()


@dataclass(frozen=True, eq=False)
class Model:
    """M/n of all columns, those reported (with estimate and standard error), and all those in the model."""

    mean_moments: Array
    columns: Columns
    reported: Indices
    estimate: Array
    std_error: Array
    inside: Indices

    @property
    def covariance(self) -> Array:
        """Of the columns; the intercept has none."""
        return np.asarray(self.mean_moments - np.outer(self.mean_moments[0], self.mean_moments[0]))

    @property
    def outside(self) -> Indices:
        """The columns that are not in the model."""
        return np.setdiff1d(np.arange(1, len(self.columns)), self.inside)

    def slope(self, j: int, k: int) -> float:
        """By how much column j moves with one unit of column k, given the other columns of the model."""
        others = self.inside[(self.inside > 0) & (self.inside != k)]
        cov = self.covariance
        among = raised(cov[np.ix_(others, others)], _SMALLEST)
        left = cov[k, k] - cov[k, others] @ np.linalg.solve(among, cov[others, k])
        both = cov[j, k] - cov[j, others] @ np.linalg.solve(among, cov[others, k])
        return float(both / max(left, _SMALLEST))


def partners(model: Model, size: Size = LOG_ODDS) -> list[Indices]:
    """For each column, those left out whose plausible effects would move its coefficient by more than a standard error.

    The strongest first; empty for what is not reported.  ``size`` says what is plausible.  An effect moves others
    through correlation; and by attenuation, as far as the columns of the model do not explain the one left out.
    """
    cov, out = model.covariance, model.outside
    slopes = model.inside[model.inside > 0]
    variance = np.maximum(np.diag(cov), _SMALLEST)
    plausible = np.where(model.columns.dummy, size.effect, size.spread / 2 / np.sqrt(variance))[out]
    unexplained = np.clip(np.array([_own(cov, j, slopes) for j in out]) / variance[out], 0.0, 1.0)
    hidden = np.where(model.columns.dummy, variance, 1.0)[out] * unexplained
    pull = np.zeros((len(model.columns), len(out)))
    among = raised(cov[np.ix_(slopes, slopes)], _SMALLEST)
    pull[slopes] = np.linalg.solve(among, cov[np.ix_(slopes, out)]) * plausible
    lost = 1 - 1 / np.sqrt(1 + size.attenuation * hidden.sum())
    found = [out[:0]] * len(model.columns)
    for j, coef, error in zip(model.reported, model.estimate, model.std_error, strict=True):
        shrunk = abs(coef) * lost
        if shrunk <= error and np.linalg.norm(pull[j]) <= error:
            continue
        moves = np.hypot(pull[j], shrunk * hidden / hidden.sum() * (shrunk > error))
        named = max(1, int((moves > error / 2).sum()))
        found[j] = out[np.argsort(-moves)[:named]]
    return found


def twins(model: Model) -> dict[int, int]:
    """Columns left out for the sake of one column of the model: without it their own variance would double."""
    cov = model.covariance
    slopes = model.inside[model.inside > 0]
    found: dict[int, int] = {}
    if not len(slopes):
        return found
    sd = np.sqrt(np.maximum(np.diag(cov), _SMALLEST))
    for j in model.outside:
        nearest = slopes[int(np.argmax(np.abs(cov[j, slopes]) / sd[slopes]))]
        others = slopes[slopes != nearest]
        if _own(cov, j, others) >= _TWINS * _own(cov, j, slopes):
            found[int(j)] = int(nearest)
    return found


def _own(cov: Array, j: int, others: Indices) -> float:
    """Variance of a column given others."""
    among = raised(cov[np.ix_(others, others)], _SMALLEST)
    explained = cov[j, others] @ np.linalg.solve(among, cov[others, j]) if len(others) else 0.0
    return max(float(cov[j, j] - explained), _SMALLEST * float(cov[j, j]))
