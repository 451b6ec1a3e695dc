"""The second moments of the rows from two noisy releases.  Post-processing only.

| symbol | meaning                                                        | name in code     |
| ------ | -------------------------------------------------------------- | ---------------- |
| M₁     | sum x xᵀ as the first release shows it, shrunk                 | `Crude.moments`  |
| A₁     | the geometry it gives                                          | `Crude.preconditioner` |
| N₂     | sum w u uᵀ, u = A₁x: the second release, with noise of scale s |                  |
| M      | sum x xᵀ by both                                               | `Moments.matrix` |
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.moments import SMALLEST, Columns, clean, raised, shrink, undispersed

LEAST_EVENTS = 8.0
"""The fewest records of a kind that a statement may rest on."""
SURE = 3.0
"""Deviations of the noise that make sure of something about the whole fit."""
_CORRELATION = 0.03, 0.3  # the smallest and largest deviation that correlations are believed to have
_SAME = 0.95  # the largest correlation of columns of different groups
_LEVELS = 0.99  # the largest sum of the frequencies of a factor's levels
_FLAT = 0.1  # the smallest eigenvalue of a correlation matrix
_TRUST = 0.2  # the least part of the second release that is kept
_FLOOR = 0.3  # of the operator norm of the noise: the smallest eigenvalue of M in the geometry of its release


@dataclass(frozen=True, eq=False)
class Crude:
    """What the first release gives: M₁, the number of records, the geometry of the second release."""

    moments: Array
    n: float
    preconditioner: Array


@dataclass(frozen=True, eq=False)
class Moments:
    """M and the score at 0.  ``released`` is N₂ with its ``noise``; ``back`` maps it to (1, x)."""

    matrix: Array
    score: Array
    n: float
    released: Array
    back: Array
    noise: float

    def of(self, kept: Indices) -> Array:
        """M of some columns, positive definite."""
        return raised(self.matrix[np.ix_(kept, kept)] / self.n, SMALLEST) * self.n


def posterior(released: Array, columns: Columns, n: float, noise: float) -> Array:
    """M₁ given its release with symmetric noise of this scale, columns of different groups being independent a priori.

    Means and variances are those released, within what is possible; correlations are shrunk one by one by what their
    own noise explains.
    """
    M, e = clean(released, columns, n), noise / n
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
    covariance = raised(correlation, _FLAT) * sd
    covariance[0] = covariance[:, 0] = 0.0
    return np.asarray((covariance + np.outer(mean, mean)) * n)


def _means(released: Array, columns: Columns, e: float) -> Array:
    """A level has at least half a deviation of the noise; the levels of a factor leave some for the reference."""
    mean = np.where(columns.dummy, np.clip(released, e / 2, 1.0), np.clip(released, -1.0, 1.0))
    mean[0] = 1.0
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        mean[levels] *= min(1.0, _LEVELS / mean[levels].sum())
    return np.asarray(mean)


def _shrunk(raw: Array, noise: Array, columns: Columns) -> Array:
    """Correlations times τ²/(τ² + s²), τ² their mean square beyond the noise, precise ones counting most."""
    rows, others = np.triu_indices(len(raw), 1)
    free = (columns.group[rows] != columns.group[others]) & (rows > 0)
    r2, s2 = raw[rows, others][free] ** 2, noise[rows, others][free] ** 2
    weight = (s2 + 0.01) ** -2.0
    tau2 = weight @ (r2 - s2) / weight.sum() if free.any() else 0.0
    tau2 = np.clip(tau2, _CORRELATION[0] ** 2, _CORRELATION[1] ** 2)
    return np.asarray(np.clip(raw * tau2 / (tau2 + noise**2), -_SAME, _SAME))


def refined(noisy: Array, score: Array, noise: float, crude: Crude, columns: Columns) -> Moments:
    """M from the second release: N₂ is shrunk towards the first, mapped back, and told what is known of it."""
    A, n, d = crude.preconditioner, crude.n, len(noisy)
    back = np.asarray(np.linalg.inv(A), dtype=np.float64)
    guess = A @ crude.moments @ A.T
    N, left = shrink(noisy, guess * (np.trace(noisy) / np.trace(guess)), noise, _TRUST)
    M = clean(back @ undispersed(N, left) @ back.T, columns, n)
    M = back @ raised(A @ M @ A.T, _FLOOR * left * np.sqrt(2 * d)) @ back.T
    return Moments(
        matrix=(M + M.T) / 2,
        score=back @ score,
        n=n,
        released=noisy,
        back=back,
        noise=noise,
    )
