"""A geometry for the rows, from their second moments: post-processing of released matrices only.

| symbol | meaning                                                              | name in code     |
| ------ | -------------------------------------------------------------------- | ---------------- |
| x      | (1, x~), numeric columns in [-1, 1], dummies 0 or 1                  |                  |
| M      | sum of x xᵀ, as far as it is known                                   | `moments`        |
| A      | preconditioner: a fit works on the rows u = A x                      | `preconditioner` |
| κ      | squared radius of the geometry, per column: typical ‖u‖² is 1/κ      | `kappa`          |
| γ      | pseudo-variance of a heavy column                                    |                  |

Symmetric noise of scale s is N(0, s² I) on `svec`: s on the diagonal, s/sqrt 2 off it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.maths.arrays import Array, Indices

CURVATURE = 0.15
"""A public guess of the mean curvature p(1 - p)."""
AFFORDED = 5.0
"""Information over its noise that a number keeps as rows beyond its released range are let in."""
WITHIN = 1.5
"""Times the released range of a number whose tail cannot be let in: what its rows may use of the radius."""
SMALLEST = 1e-7
"""Eigenvalue of a mean second moment, below which rounding begins to count."""
_AT_BOUNDS = 0.5  # of the largest variance, from which a column in [-1, 1] is taken for a yes and no


@dataclass(frozen=True, eq=False)
class Columns:
    """What is public about the columns of x, the intercept first.

    Columns of one group are never nonzero together; the intercept's group is -1.  ``far`` is the largest size of a
    column, 1 where it is None.
    """

    dummy: npt.NDArray[np.bool_]
    group: npt.NDArray[np.intp]
    far: Array | None = None
    pulled: bool = False

    def __len__(self) -> int:
        return len(self.dummy)

    def take(self, kept: Indices) -> "Columns":
        """Some of the columns."""
        return Columns(self.dummy[kept], self.group[kept], None if self.far is None else self.far[kept], self.pulled)

    @property
    def norm2(self) -> float:
        """The largest ‖x‖²: every group adds at most 1."""
        return float(len(np.unique(self.group)))


def clean(moments: Array, columns: Columns, n: float) -> Array:
    """What is known of M put in place: n itself, zeros within a group, equal first and second moments of a dummy.

    A dummy's sum stands on the diagonal and, with half the variance, beside the intercept: the mean weighs them 1 : 2.
    """
    M = (moments + moments.T) / 2
    shared = (np.diag(M) + 2 * M[0]) / 3
    j = np.flatnonzero(columns.dummy)
    M[j, j] = M[0, j] = M[j, 0] = shared[j]
    together = (columns.group[:, None] == columns.group) & ~np.eye(len(M), dtype=bool)
    M[together] = 0.0
    M[0, 0] = n
    return M


def raised(matrix: Array, floor: float) -> Array:
    """A symmetric matrix with its eigenvalues raised to a floor."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def radius_factor(d: int, n: float, noise: tuple[float, float], least: float) -> float:
    """κ: small where the noise of the curvature or that of the gradient is large against n.

    Between 1 or 2 and 8 or so: down to ``least`` (at most 2) where noise dominates, for down-weighted rows cost less
    there than the noise they save; never below 20/d.
    """
    matrix = CURVATURE * n / (4 * d * noise[0] * np.sqrt(2 * d))
    vector = CURVATURE * n / (4 * d * noise[1] ** 2)
    lowest = max(float(np.clip(vector, least, 2.0)), 20 / d)
    return float(np.clip(0.3 * min(matrix, vector), lowest, max(8, 20 / d)))


@dataclass(frozen=True)
class Scales:
    """Standard deviation of the noise in each release, and the ridge λ.

    ``crude`` is for rows in the unit ball, the others for rows in the geometry of their release.
    """

    crude: float
    moments: float
    ridge: float
    gradient: float
    hessian: float
    score_cov: float

    def kappa(self, d: int, n: float, least: float = 1.0) -> float:
        """The radius factor of a geometry of d columns."""
        return radius_factor(d, n, (self.hessian, self.gradient), least)


@dataclass(frozen=True)
class SquaresScales(Scales):
    """Of least squares: ``gradient`` and ``score_cov`` are for a clip of 1."""

    def kappa(self, d: int, n: float, least: float = 1.0) -> float:  # noqa: ARG002
        """The radius factor: smaller than in a logistic fit, as the influence of rare rows raises the clip for all."""
        matrix = 0.2 * n / (4 * d * self.hessian * np.sqrt(2 * d))
        return float(np.clip(2 * matrix, max(2, 30 / d), max(8, 30 / d)))


def reaches(moments: Array, columns: Columns, n: float, clear: float) -> Array:
    """How far from its mean a row may be in a column before it counts less for that alone.

    Beyond the released range of a number there may be records.  All that the public bounds allow are let in if the
    information on the column stays 5 times its noise; else those for which it stays 20 times; ``clear`` is that of a unit of variance over the noise
    of a unit.
    """
    M = moments / n
    m, low = M[0], np.where(columns.dummy, 0.0, -1.0)
    centre = np.clip(m, low, 1.0)
    reach = np.maximum(1.0 - centre, centre - low)
    if columns.far is not None:
        far = np.maximum(reach, columns.far + np.abs(centre))
        let_in = np.sqrt(clear * np.maximum(np.diag(M) - m**2, 0.0) / AFFORDED)
        reach = np.where(columns.dummy, reach, np.where(let_in >= far, far, reach if columns.pulled else np.minimum(far, np.maximum(let_in / 2, WITHIN * reach))))
    reach[0] = 0.0
    return np.asarray(reach)


def preconditioner(moments: Array, columns: Columns, n: float, kappa: float, clear: float = 0.0) -> Array:
    """A = (M/n + diag γ)^(-1/2)/R, R² = κd.

    γ raises the variance of a column to its squared reach over R²: a rare dummy or a long tail is scaled down as a
    column, and its rows keep their weight.
    """
    M, R2 = moments / n, kappa * len(moments)
    reach = reaches(moments, columns, n, clear)
    gamma = np.maximum(0.0, reach**2 / R2 - np.maximum(np.diag(M) - M[0] ** 2, 0.0))
    gamma[0] = 0.0
    values, vectors = np.linalg.eigh(raised(M, SMALLEST) + np.diag(gamma))
    return np.asarray((vectors / np.sqrt(np.maximum(values, SMALLEST))) @ vectors.T / np.sqrt(R2))


def shrink(noisy: Array, target: Array, scale: float, least: float) -> tuple[Array, float]:
    """A matrix with symmetric noise of known scale, moved towards a guess by as much as the noise explains.

    Also the scale of the noise that is left.
    """
    d, gap = len(noisy), noisy - target
    explained = scale**2 * d * (d + 1) / 2
    size = max(float((gap**2).sum()), explained, np.finfo(float).tiny)
    part = max(least, 1 - explained / size)
    return target + part * gap, scale * np.sqrt(part)


def undispersed(matrix: Array, scale: float) -> Array:
    """Eigenvalues moved back together by what symmetric noise of the given scale drives them apart; or of a stack."""
    values, vectors = np.linalg.eigh(matrix)
    gap = values[..., :, None] - values[..., None, :]
    pushed = scale**2 / 2 * (gap / np.maximum(gap**2 + 4 * scale**2, np.finfo(float).tiny)).sum(axis=-1)
    return np.asarray((vectors * (values - pushed)[..., None, :]) @ vectors.mT)


def deviations(moments: Array) -> Array:
    """Standard deviation of each column, never below .01; the intercept's is 1."""
    M = moments / moments[0, 0]
    spread = np.sqrt(np.maximum(np.diag(M) - M[0] ** 2, 1e-4))
    spread[0] = 1.0
    return np.asarray(spread)


def two_values(moments: Array, columns: Columns) -> Array:
    """The two values of each column, NaN if it has more: dummies, and numbers that are mostly at their bounds.

    A column in [-1, 1] with mean m has a variance of 1 - m² if it only takes the values -1 and 1, else less.
    """
    m = moments[0] / moments[0, 0]
    both = np.diag(moments) / moments[0, 0] - m**2 > _AT_BOUNDS * (1 - m**2)
    low = np.where(columns.dummy, 0.0, np.where(both, -1.0, np.nan))
    low[0] = np.nan
    return np.column_stack([low, np.where(np.isnan(low), np.nan, 1.0)])


def centre_of(moments: Array, columns: Columns) -> Array:
    """Means of the columns, clipped to the box; 1 for the intercept."""
    centre = np.clip(moments[0] / moments[0, 0], np.where(columns.dummy, 0.0, -1.0), 1.0)
    centre[0] = 1.0
    return np.asarray(centre)
