"""The geometry of a fit, and the centre of its ridge.  Post-processing of released moments."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.moments import Columns, Scales, preconditioner, reaches
from dpinfer.maths.posterior import Moments

LARGEST_SPREAD = 4.0
"""Cap on the standard deviation of the linear predictor in a first guess."""
_ALL = 0.97  # of the distance a column can have from its mean: then no row counts less for that column alone
_LARGEST_SHARE = 0.4995  # beyond one half: a rarer outcome is taken for one in 2,000
_MANY = 15  # columns from which on the floor is added in full: fewer are known well enough not to need it
_BEND = 0.7  # of p(1 - p): a public guess of the mean curvature


@dataclass(frozen=True, eq=False)
class Shape:
    """The columns of the fit, their M, the preconditioner A, and the centre of the ridge in u = Ax.

    ``short`` are numbers with records, possibly, that are so far out that they count less.
    """

    kept: Indices
    n: float
    moments: Array
    preconditioner: Array
    centre: Array
    short: npt.NDArray[np.bool_]


OfColumns = Callable[[Indices], Array]


def shape_of(
    moments: Moments, columns: Columns, scales: Scales, guess: OfColumns, *, weighted: bool = True, bend: float = 1.0
) -> Shape:
    """Geometry and centre of the fit of all columns; without weights the geometry is the public box.

    ``guess`` has coefficients of (1, x~); ``bend`` is the mean curvature of a record.
    """
    n = moments.n
    clear = bend * n / scales.hessian

    def geometry(kept: Indices) -> Array:
        some = columns.take(kept)
        if not weighted:
            return np.asarray(np.eye(len(kept)) / np.sqrt(some.norm2))
        return preconditioner(moments.matrix[np.ix_(kept, kept)], some, n, scales.kappa(len(kept), n), clear)

    kept = np.arange(len(columns))
    A = geometry(kept)
    centre = np.asarray(np.linalg.solve(A.T, guess(kept)), dtype=np.float64)
    reach, m = reaches(moments.matrix, columns, n, clear), moments.matrix[0] / n
    far = reach if columns.far is None else columns.far + np.abs(np.clip(m, -1.0, 1.0))
    short = ~columns.dummy & (reach < _ALL * far)
    short[0] = False
    return Shape(kept, n, moments.of(kept), A, centre, short)


def logistic_shape(moments: Moments, columns: Columns, scales: Scales, *, weighted: bool) -> Shape:
    """The shape of a logistic fit, around Brillinger's guess."""
    n = moments.n

    def guess(kept: Indices) -> Array:
        floor = moments.scale * scales.kappa(len(kept), n) * len(kept) / (2 * n)
        return brillinger(moments.matrix[np.ix_(kept, kept)], moments.score[kept], n, floor)

    p = 0.5 + float(np.clip(moments.score[0] / n, -_LARGEST_SHARE, _LARGEST_SHARE))
    return shape_of(moments, columns, scales, guess, weighted=weighted, bend=_BEND * p * (1 - p))


def brillinger(moments: Array, score: Array, n: float, floor: float) -> Array:
    """Coefficients of (1, x~) from sum x xᵀ and sum x y/2: a guess that only centres a ridge.

    If x~ is near Gaussian, Cov(x~, y/2) = E[σ'(η)] Cov(x~) θ: ordinary least squares has the right direction, and two
    scalar equations give its length and the intercept.

    Eigenvalues of the covariance are raised to ``floor``, for the direction and its spread alike: else the guess could
    explode in a direction that is only noise.
    """
    m, share = moments[0] / n, float(np.clip(score[0] / n, -_LARGEST_SHARE, _LARGEST_SHARE))
    cov = (moments / n - np.outer(m, m))[1:, 1:]
    toward = (score / n - m * score[0] / n)[1:]
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values + floor * min(1.0, (len(m) / _MANY) ** 2), max(floor, 1e-4))
    along = vectors.T @ toward
    direction, spread = vectors @ (along / values), float(np.sqrt(max((along**2 / values).sum(), 1e-12)))
    scale, intercept = _length(spread, share)
    slopes = scale * direction
    return np.concatenate([[intercept - slopes @ m[1:]], slopes])


def _length(spread: float, share: float) -> tuple[float, float]:
    """k and a such that η = a + k spread Z has mean success .5 + share and k E[σ'(η)] = 1, k spread capped."""
    nodes, weights = normal_nodes()
    k, a = 4.0, 0.0
    for _ in range(60):
        k = min(k, LARGEST_SPREAD / spread)
        for _ in range(8):
            p = expit(a + k * spread * nodes)
            a = min(max(a - float(weights @ p - 0.5 - share) / max(float(weights @ (p * (1 - p))), 0.01), -8.0), 8.0)
        p = expit(a + k * spread * nodes)
        before, k = k, k / 2 + min(1 / float(weights @ (p * (1 - p))), LARGEST_SPREAD / spread) / 2
        if abs(k - before) <= 1e-10 * k:
            break
    return float(k), a


@lru_cache(maxsize=1)
def normal_nodes() -> tuple[Array, Array]:
    """Nodes and weights of a mean over standard normal numbers."""
    nodes, weights = (np.asarray(part, dtype=float) for part in np.polynomial.hermite_e.hermegauss(41))
    return nodes, weights / weights.sum()
