"""Second moments of the rows from two noisy releases, and the preconditioner they give.

| symbol | meaning                                                              | name in code     |
| ------ | -------------------------------------------------------------------- | ---------------- |
| x      | (1, x~), numeric columns in [-1, 1], dummies 0 or 1                  |                  |
| M      | estimate of Σ x xᵀ                                                   | `moments`        |
| A      | preconditioner: a fit works on the rows u = A x                      | `preconditioner` |
| κ      | squared radius of u-space per column: typical ‖u‖² is 1/κ            | `kappa`          |
| γ      | pseudo-variance of a heavy column                                    |                  |

Symmetric noise of scale s is N(0, s² I) on `svec`: s on the diagonal, s/sqrt 2 off it.

The two releases:

| symbol | meaning                                                        | name in code     |
| ------ | -------------------------------------------------------------- | ---------------- |
| M₁     | sum x xᵀ as the first release shows it, shrunk                 | `Crude.moments`  |
| A₁     | the geometry it gives                                          | `Crude.preconditioner` |
| N₂     | sum w u uᵀ, u = A₁x: the second release, with noise of scale s |                  |
| M      | sum x xᵀ by both                                               | `Moments.matrix` |
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.inference.constants import (
    FARTHEST_SDS,
    MAX_COLUMN_RADIUS,
    MAX_LEVEL_SHARE,
    MAX_LINEAR_RADIUS,
    MAX_TOTAL_COLUMN_RADIUS,
    MIN_COLUMN_VARIANCE,
    MIN_CORRELATION_EIGENVALUE,
    MIN_MOMENT_EIGENVALUE,
    MIN_NOISE_SDS,
    MIN_RADIUS,
    MIN_TOTAL_RADIUS,
    RADIUS_FACTOR,
)
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.reasons import Numerical

SMALLEST: Numerical[float] = 1e-7
"""The smallest eigenvalue of a mean second moment: below, rounding errors matter."""


Cell = tuple[int, tuple[tuple[int, float], ...]]
"""The position of a coefficient, and a combination of columns (position, weight) that is 1 for some
records and 0 for others.
"""


@dataclass(frozen=True, eq=False)
class Local:
    """Functions from ``low`` to ``high`` that are near 0 for most records: ``matrix`` times the
    columns at ``columns``, of which the first is the intercept or a level.  They are ``shares`` if,
    with what was left out, they are at least 0 and add up to the first.
    """

    columns: Indices
    matrix: Array
    low: Array
    high: Array
    shares: bool


@dataclass(frozen=True, eq=False)
class Columns:
    """The public facts about the columns of x, the intercept first.

    ``dummy`` are those that are 0 or 1.  Columns of one group are never nonzero together; the
    intercept's group is -1.  ``yes_no`` are numbers that are at one of their bounds, -1 or 1.
    ``far`` is the largest size of a column, 1 where it is None.  ``cells`` are sets of records that
    a coefficient rests on beside those of its own level.  ``local`` has the columns of splines.
    """

    dummy: npt.NDArray[np.bool_]
    group: npt.NDArray[np.intp]
    yes_no: npt.NDArray[np.bool_] | None = None
    far: Array | None = None
    cells: tuple[Cell, ...] = ()
    local: tuple[Local, ...] = ()

    def __len__(self) -> int:
        return len(self.dummy)

    @property
    def of_splines(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the columns of splines."""
        found = np.zeros(len(self), dtype=bool)
        for local in self.local:
            found[local.columns[1:]] = True
        return found

    @property
    def norm2(self) -> float:
        """Return the largest ‖x‖²: every group adds at most 1."""
        return float(len(np.unique(self.group)))


def clean(moments: Array, columns: Columns, n: float) -> Array:
    """Impose what is known of M: n itself, zeros within a group, equal first and second moments of a dummy.

    A dummy's sum is on the diagonal and, with half the noise variance, next to the intercept: the weighted
    mean has weights 1 : 2.
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
    """Return a symmetric matrix with its eigenvalues raised to a floor."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def radius_factor(d: int, n: float, noise: float) -> float:
    """Return κ of d columns and n records, where the Hessian has this noise sd.

    It grows with n over the noise of the Hessian, as down-weighted rows cost bias.
    """
    precise = RADIUS_FACTOR * n / (4 * d * noise * np.sqrt(2 * d))
    upper = max(MAX_LINEAR_RADIUS, MIN_TOTAL_RADIUS / d)
    # above `upper` it grows as the square root, so that noise vanishes and weights do, too
    largest = FARTHEST_SDS**2
    return float(
        max(MIN_RADIUS, MIN_TOTAL_RADIUS / d, min(precise, np.sqrt(upper * precise), largest))
    )


def of_columns(kappa: float, d: int) -> float:
    """Return κ of columns, given that of rows.

    A value at the end of its column makes ‖u‖² of a row at most 3 times a typical one (12/d if columns are
    few), so that a far value costs information on its own column, and on no other.
    """
    return min(kappa, max(MAX_COLUMN_RADIUS, MAX_TOTAL_COLUMN_RADIUS / d))


@dataclass(frozen=True)
class Scales:
    """The noise sd of each release.

    ``crude`` is for rows in the unit ball, the others for rows u; ``gradient`` and ``score_cov`` are for a clip
    of 1.
    """

    crude: float
    moments: float
    gradient: float
    hessian: float
    score_cov: float

    def kappa(self, d: int, n: float) -> float:
        """Return κ of d columns and n records."""
        return radius_factor(d, n, self.hessian)


def box_reach(moments: Array, columns: Columns) -> Array:
    """Return the largest distance from the mean within the ranges, which are [0, 1] or [-1, 1]."""
    low = np.where(columns.dummy, 0.0, -1.0)
    centre = np.clip(moments[0] / moments[0, 0], low, 1.0)
    reach = np.maximum(1.0 - centre, centre - low)
    reach[0] = 0.0
    return np.asarray(reach)


def farthest(moments: Array, columns: Columns) -> Array:
    """Return the largest distance of each column from its mean within public bounds."""
    box = box_reach(moments, columns)
    if columns.far is None:
        return box
    mean = np.clip(moments[0] / moments[0, 0], -1.0, 1.0)
    number = ~columns.dummy
    number[0] = False
    return np.where(number, np.maximum(box, columns.far + np.abs(mean)), box)


def preconditioner(
    moments: Array,
    columns: Columns,
    n: float,
    kappa: float,
    reach: Array | None = None,
    rows: float | None = None,
) -> Array:
    """Return A = (M/n + diag γ)^(-1/2)/R, R² = κd.

    γ raises the variance of a column to its squared range over R²: a rare dummy or a long tail is scaled down
    as a column, and its rows keep their weight.  For splines γ applies to their local functions: near an end
    with few records only that end is scaled down, until its rows are within κ of ``rows``.
    """
    mean = moments[0] / n
    radius2 = kappa * len(moments)
    distance = box_reach(moments, columns) if reach is None else reach
    variance = np.maximum(np.diag(moments) / n - mean**2, 0.0)
    gamma = np.maximum(0.0, distance**2 / radius2 - variance)
    gamma[0] = 0.0
    more = np.diag(gamma)
    for local in columns.local:
        _, *places = local.columns
        more[places] = 0.0
        fits = (kappa if rows is None else rows) * len(moments)
        more[np.ix_(places, places)] = _local_gamma(local, moments / n, fits)
    values, vectors = np.linalg.eigh(raised(moments / n, SMALLEST) + more)
    return np.asarray(
        (vectors / np.sqrt(np.maximum(values, SMALLEST))) @ vectors.T / np.sqrt(radius2)
    )


def _local_gamma(local: Local, mean_moments: Array, radius2: float) -> Array:
    """Return γ of local functions, as a matrix of their columns."""
    among = mean_moments[np.ix_(local.columns, local.columns)]
    mean = local.matrix @ mean_moments[local.columns, 0]
    variance = np.maximum(np.diag(local.matrix @ among @ local.matrix.T) - mean**2, 0.0)
    reach = np.maximum(local.high - mean, mean - local.low)
    gamma = np.maximum(0.0, reach**2 / radius2 - variance)
    back = np.linalg.inv(local.matrix[:, 1:])
    return np.asarray(back * gamma @ back.T)


def shrink(noisy: Array, target: Array, scale: float) -> tuple[Array, float]:
    """Return a noisy matrix shrunk towards a target, and the noise sd that is left.

    It is a positive-part James-Stein estimate: noise explains ``scale``² d(d + 1)/2 of the squared distance, and
    1 less that share is kept.
    """
    d = len(noisy)
    gap = noisy - target
    explained = scale**2 * d * (d + 1) / 2
    size = max(float((gap**2).sum()), explained, np.finfo(float).tiny)
    part = 1 - explained / size
    return target + part * gap, scale * np.sqrt(part)


def undispersed(matrix: Array, scale: float) -> Array:
    """Return a matrix, or a stack, with the spread of its eigenvalues by symmetric noise removed.

    To second order, noise of sd s changes λᵢ by s²/2 Σⱼ 1/(λᵢ - λⱼ) on average; near ties it is regularised.
    """
    values, vectors = np.linalg.eigh(matrix)
    gap = values[..., :, None] - values[..., None, :]
    pushed = (
        scale**2 / 2 * (gap / np.maximum(gap**2 + 4 * scale**2, np.finfo(float).tiny)).sum(axis=-1)
    )
    return np.asarray((vectors * (values - pushed)[..., None, :]) @ vectors.mT)


def column_sds(moments: Array) -> Array:
    """Return the sd of each column, never below .01; that of the intercept is 1."""
    M = moments / moments[0, 0]
    spread = np.sqrt(np.maximum(np.diag(M) - M[0] ** 2, MIN_COLUMN_VARIANCE))
    spread[0] = 1.0
    return np.asarray(spread)


def centre_of(moments: Array, columns: Columns) -> Array:
    """Return the means of the columns, clipped to their ranges; 1 for the intercept."""
    centre = np.clip(moments[0] / moments[0, 0], np.where(columns.dummy, 0.0, -1.0), 1.0)
    centre[0] = 1.0
    return np.asarray(centre)


@dataclass(frozen=True, eq=False)
class Crude:
    """The first release: M₁, the number of records, and the preconditioner of the second release."""

    moments: Array
    n: float
    preconditioner: Array


@dataclass(frozen=True, eq=False)
class Moments:
    """M and the score at 0; ``released`` is N₂ with its noise sd ``noise``, ``back`` maps it to (1, x)."""

    matrix: Array
    score: Array
    n: float
    released: Array
    back: Array
    noise: float

    @cached_property
    def definite(self) -> Array:
        """Return M with its eigenvalues raised until it is positive definite."""
        return raised(self.matrix / self.n, SMALLEST) * self.n


def posterior(released: Array, columns: Columns, n: float, noise: float) -> Array:
    """Return M₁ given its release with symmetric noise, columns of different groups independent a priori.

    Means and variances are those released, within what is possible; each correlation is shrunk by its own
    noise.
    """
    M = clean(released, columns, n)
    e = noise / n
    mean = _means(M[0] / n, columns, e)
    variance = np.where(columns.dummy, mean * (1 - mean), np.maximum(np.diag(M) / n - mean**2, e))
    variance[0] = 1.0
    sd = np.sqrt(np.maximum(np.outer(variance, variance), np.finfo(float).tiny))
    raw = (M / n - np.outer(mean, mean)) / sd
    correlation = _shrunk(raw, e / np.sqrt(2) / sd, columns)
    exclusive = columns.group[:, None] == columns.group
    correlation[exclusive] = (-np.outer(mean, mean) / sd)[exclusive]
    correlation[0] = correlation[:, 0] = 0.0
    np.fill_diagonal(correlation, 1.0)
    covariance = raised(correlation, MIN_CORRELATION_EIGENVALUE) * sd
    covariance[0] = covariance[:, 0] = 0.0
    return np.asarray((covariance + np.outer(mean, mean)) * n)


def _means(released: Array, columns: Columns, e: float) -> Array:
    """Return means within what is possible: a level has a share of at least half a noise sd."""
    mean = np.where(
        columns.dummy, np.clip(released, MIN_NOISE_SDS * e, 1.0), np.clip(released, -1.0, 1.0)
    )
    mean[0] = 1.0
    return within_factors(mean, columns)


def within_factors(frequencies: Array, columns: Columns) -> Array:
    """Return frequencies of levels scaled so that their reference has at least one in a hundred."""
    result = frequencies.copy()
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        result[levels] *= min(1.0, MAX_LEVEL_SHARE / result[levels].sum())
    return result


def _shrunk(raw: Array, noise: Array, columns: Columns) -> Array:
    """Return correlations times τ²/(τ² + s²), with their variance τ² by DerSimonian and Laird (1986), mean 0."""
    rows, others = np.triu_indices(len(raw), 1)
    free = (columns.group[rows] != columns.group[others]) & (rows > 0)
    r2 = raw[rows, others][free] ** 2
    s2 = noise[rows, others][free] ** 2
    weight = 1 / np.maximum(s2, SMALLEST)
    tau2 = weight @ (r2 - s2) / weight.sum() if free.any() else 0.0
    tau2 = max(float(tau2), SMALLEST)
    return np.asarray(np.clip(raw * tau2 / (tau2 + noise**2), -1.0, 1.0))


def refined(noisy: Array, score: Array, noise: float, crude: Crude, columns: Columns) -> Moments:
    """Return M from the second release: N₂ is shrunk towards the first, and mapped back to (1, x)."""
    A = crude.preconditioner
    n = crude.n
    d = len(noisy)
    back = np.asarray(np.linalg.inv(A), dtype=np.float64)
    guess = A @ crude.moments @ A.T
    N, left = shrink(noisy, guess * (np.trace(noisy) / np.trace(guess)), noise)
    M = clean(back @ undispersed(N, left) @ back.T, columns, n)
    M = back @ raised(A @ M @ A.T, MIN_MOMENT_EIGENVALUE * noise * np.sqrt(2 * d)) @ back.T
    return Moments(
        matrix=(M + M.T) / 2,
        score=back @ score,
        n=n,
        released=noisy,
        back=back,
        noise=noise,
    )
