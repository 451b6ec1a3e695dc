"""A geometry for the rows and a first guess of coefficients, from second moments: post-processing of releases only.

| symbol | meaning                                                              | name in code     |
| ------ | -------------------------------------------------------------------- | ---------------- |
| x      | (1, x~), numeric columns in [-1, 1], dummies 0 or 1                  |                  |
| M      | sum of x xᵀ, as far as it is known                                   | `moments`        |
| A      | preconditioner: a fit works on the rows u = A x                      | `preconditioner` |
| κ      | squared radius of the geometry, per column: typical ‖u‖² is 1/κ      | `kappa`          |
| γ      | pseudo-variance of a heavy column                                    |                  |

Symmetric noise of scale s is N(0, s² I) on `svec`: s on the diagonal, s/sqrt 2 off it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpinfer.maths.arrays import Array

CURVATURE = 0.15
"""A public guess of the mean curvature p(1 - p)."""
LARGEST_SPREAD = 4.0
"""Cap on the standard deviation of the linear predictor in a first guess."""
LEAST_SIGNAL = 2.0
"""A column enters the fit if its signal is at least this many times the noise."""
_LOAD = 0.75  # of the squared radius, what one column alone may use
_SMALLEST = 1e-7  # eigenvalue of a mean second moment, below which rounding begins to count

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Columns:
    """What is public about the columns of x, the intercept first.

    Columns of one group are never nonzero together; the intercept's group is -1.
    """

    dummy: npt.NDArray[np.bool_]
    group: npt.NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.dummy)

    def take(self, kept: Indices) -> "Columns":
        """Some of the columns."""
        return Columns(self.dummy[kept], self.group[kept])

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


def radius_factor(d: int, n: float, curvature_noise: float, gradient_noise: float) -> float:
    """κ: small where the noise of the matrices or of the estimate is large against n, between 2 and 8 or so."""
    matrix = CURVATURE * n / (4 * d * curvature_noise * np.sqrt(2 * d))
    vector = CURVATURE * n / (4 * d * gradient_noise**2)
    return float(np.clip(0.3 * min(matrix, vector), max(2, 20 / d), max(8, 20 / d)))


def preconditioner(moments: Array, columns: Columns, n: float, kappa: float, floor: float = _SMALLEST) -> Array:
    """A = (M/n + diag γ)^(-1/2)/R, R² = κd.

    γ raises the variance of a column to its squared reach over .75 R²: a rare dummy or a long tail is scaled down as a
    column, and its rows keep their weight.  Eigenvalues of M/n are raised to ``floor`` first, but γ is made from M as
    it is: both together keep more columns than either alone.
    """
    M, R2 = moments / n, kappa * len(moments)
    m, low = M[0], np.where(columns.dummy, 0.0, -1.0)
    centre = np.clip(m, low, 1.0)
    reach = np.maximum(1.0 - centre, centre - low)
    reach[0] = 0.0
    gamma = np.maximum(0.0, reach**2 / (_LOAD * R2) - np.maximum(np.diag(M) - m**2, 0.0))
    values, vectors = np.linalg.eigh(raised(M, floor) + np.diag(gamma))
    return np.asarray((vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T / np.sqrt(R2))


def shrink(noisy: Array, target: Array, scale: float, least: float) -> tuple[Array, float]:
    """A matrix with symmetric noise of known scale, moved towards a guess by as much as the noise explains.

    Also the scale of the noise that is left.
    """
    d, gap = len(noisy), noisy - target
    size = max(float((gap**2).sum()), np.finfo(float).tiny)
    part = float(np.clip(1 - scale**2 * d * (d + 1) / 2 / size, least, 1.0))
    return target + part * gap, scale * np.sqrt(part)


def undispersed(matrix: Array, scale: float) -> Array:
    """Eigenvalues moved back together by what symmetric noise of the given scale drives them apart."""
    values, vectors = np.linalg.eigh(matrix)
    gap = values[:, None] - values
    pushed = scale**2 / 2 * (gap / np.maximum(gap**2 + 4 * scale**2, np.finfo(float).tiny)).sum(axis=1)
    return np.asarray((vectors * (values - pushed)) @ vectors.T)


def gaussian_curvature(moments: Array, coef: Array) -> Array:
    """sum p(1-p) x xᵀ as it would be for Gaussian x~ with these moments (Stein's identity), at ``coef``."""
    n = moments[0, 0]
    m = moments[0] / n
    S = moments / n - np.outer(m, m)
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    p = expit(m @ coef + np.sqrt(max(coef @ S @ coef, 1e-9)) * nodes)
    second, bend = p * (1 - p), 1 - 6 * p + 6 * p**2
    e0, e1, e2 = (weights @ f / weights.sum() for f in (second, second * (1 - 2 * p), second * bend))
    q = S @ coef
    cross = np.outer(q, m)
    return np.asarray(n * (e0 * (S + np.outer(m, m)) + e1 * (cross + cross.T) + e2 * np.outer(q, q)))


@dataclass(frozen=True, eq=False)
class Moments:
    """M as released, with the noise of it: scale in the geometry it was released in, whose (AᵀA)⁻¹ is ``gram``."""

    matrix: Array
    n: float
    scale: float
    gram: Array

    def of(self, kept: Indices) -> Array:
        """M of some columns, positive definite."""
        return raised(self.matrix[np.ix_(kept, kept)] / self.n, _SMALLEST) * self.n


def identifiable(moments: Moments, geometry: Callable[[Indices], Array], curvature_noise: float) -> Indices:
    """The columns that can enter the fit: the weakest goes while its signal is below twice the noise.

    ``geometry`` gives the preconditioner that the fit of some columns would use.  The intercept stays.
    """
    kept = np.arange(len(moments.matrix))
    while len(kept) > 2:
        signal = _signal(moments, kept, geometry(kept), curvature_noise)
        weakest = int(np.argmin(signal))
        if signal[weakest] >= LEAST_SIGNAL:
            break
        kept = np.delete(kept, weakest)
    return kept


def _signal(moments: Moments, kept: Indices, A: Array, curvature_noise: float) -> Array:
    """Signal to noise of each column in its own direction: of its curvature in the fit, and of its second moment."""
    P = np.linalg.inv(moments.of(kept) / moments.n)
    own = 1 / np.diag(P)  # variance given the other columns
    D = P * own
    fit, released = np.linalg.inv(A.T @ A), moments.gram[np.ix_(kept, kept)]
    curvature = CURVATURE * own / (curvature_noise * np.einsum("ij,ik,kj->j", D, fit, D))
    second = own / np.maximum(moments.scale * np.einsum("ij,ik,kj->j", D, released, D), np.finfo(float).tiny)
    signal = moments.n * np.minimum(curvature, second)
    signal[0] = np.inf
    return np.asarray(signal)


def brillinger(moments: Array, score: Array, n: float, floor: float) -> Array:
    """Coefficients of (1, x~) from sum x xᵀ and sum x y/2: a guess that only centres a ridge.

    If x~ is near Gaussian, Cov(x~, y/2) = E[σ'(η)] Cov(x~) θ: ordinary least squares has the right direction, and two
    scalar equations give its length and the intercept.

    Eigenvalues of the covariance are raised to ``floor``, for the direction and its spread alike: else the guess could
    explode in a direction that is only noise.
    """
    m, share = moments[0] / n, float(np.clip(score[0] / n, -0.49, 0.49))
    cov = (moments / n - np.outer(m, m))[1:, 1:]
    toward = (score / n - m * score[0] / n)[1:]
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values + floor, max(floor, 1e-4))
    along = vectors.T @ toward
    direction, spread = vectors @ (along / values), float(np.sqrt(max((along**2 / values).sum(), 1e-12)))
    scale, intercept = _length(spread, share)
    slopes = scale * direction
    return np.concatenate([[intercept - slopes @ m[1:]], slopes])


def _length(spread: float, share: float) -> tuple[float, float]:
    """k and a such that η = a + k spread Z has mean success .5 + share and k E[σ'(η)] = 1, k spread capped."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(41)
    weights = weights / weights.sum()
    k, a = 4.0, 0.0
    for _ in range(60):
        k = min(k, LARGEST_SPREAD / spread)
        for _ in range(8):
            p = expit(a + k * spread * nodes)
            a = float(np.clip(a - (weights @ p - 0.5 - share) / max(weights @ (p * (1 - p)), 0.01), -8, 8))
        p = expit(a + k * spread * nodes)
        k = k / 2 + min(1 / (weights @ (p * (1 - p))), LARGEST_SPREAD / spread) / 2
    return float(k), a
