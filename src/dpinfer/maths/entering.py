"""Which columns enter a fit, in which geometry, around which centre.  Post-processing of released moments."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.losses import Loss
from dpinfer.maths.moments import SMALLEST, Columns, Scales, preconditioner, raised
from dpinfer.maths.posterior import Moments

LEAST_SIGNAL = 2.0
"""A column enters the fit if its predicted curvature, and its own variance, are at least this many times the noise."""
LARGEST_SPREAD = 4.0
"""Cap on the standard deviation of the linear predictor in a first guess."""
_NODES = np.linspace(-7.0, 7.0, 401)  # of a normal variable; a grid, as the capped loss has corners
_MASS = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()


@dataclass(frozen=True, eq=False)
class Shape:
    """The columns of the fit, their M, the preconditioner A, and the centre of the ridge in u = Ax."""

    kept: Indices
    n: float
    moments: Array
    preconditioner: Array
    centre: Array


OfColumns = Callable[[Indices], Array]


def shape_of(
    moments: Moments, columns: Columns, scales: Scales, guess: OfColumns, curvature: OfColumns, *, weighted: bool = True
) -> Shape:
    """Columns, geometry and centre of the fit; without weights the geometry is the public box.

    ``guess`` and ``curvature`` are those of a fit of some columns: coefficients of (1, x~), and a predicted Hessian.
    """
    n = moments.n

    def geometry(kept: Indices) -> Array:
        some = columns.take(kept)
        if not weighted:
            return np.asarray(np.eye(len(kept)) / np.sqrt(some.norm2))
        return preconditioner(moments.matrix[np.ix_(kept, kept)], some, n, scales.kappa(len(kept), n))

    present = np.flatnonzero(moments.presence >= LEAST_SIGNAL)
    kept = entering(present, geometry, curvature, n, scales.hessian)
    A = geometry(kept)
    centre = np.asarray(np.linalg.solve(A.T, guess(kept)), dtype=np.float64)
    return Shape(kept, n, moments.of(kept), A, centre)


def logistic_shape(moments: Moments, columns: Columns, scales: Scales, loss: Loss, *, weighted: bool) -> Shape:
    """The shape of a logistic fit: Brillinger's guess, and the curvature of the loss there."""
    n = moments.n

    def guess(kept: Indices) -> Array:
        floor = moments.scale * scales.kappa(len(kept), n) * len(kept) / (2 * n)
        return brillinger(moments.matrix[np.ix_(kept, kept)], moments.score[kept], n, floor)

    def curvature(kept: Indices) -> Array:
        return expected_curvature(moments.of(kept), guess(kept), loss)

    return shape_of(moments, columns, scales, guess, curvature, weighted=weighted)


def entering(
    candidates: Indices,
    geometry: Callable[[Indices], Array],
    curvature: Callable[[Indices], Array],
    n: float,
    noise: float,
) -> Indices:
    """The columns of the fit: the weakest goes while its own curvature, given the others, is below twice its noise.

    ``geometry`` and ``curvature`` are those of the fit of some columns; the intercept, the first, stays.
    """
    kept = candidates
    while len(kept) > 2:
        A = geometry(kept)
        P = np.linalg.inv(raised(curvature(kept) / n, SMALLEST) * n)
        own = 1 / np.diag(P)
        D = P * own
        signal = own / (noise * np.einsum("ij,ik,kj->j", D, np.linalg.inv(A.T @ A), D))
        signal[0] = np.inf
        weakest = int(np.argmin(signal))
        if signal[weakest] >= LEAST_SIGNAL:
            break
        kept = np.delete(kept, weakest)
    return kept


def expected_curvature(moments: Array, coef: Array, loss: Loss) -> Array:
    """sum E[f''] x xᵀ as it would be at ``coef`` for Gaussian x~ with these moments, if the model were right.

    With h(η) = p f''(η) + (1 - p) f''(-η) and η = a + sZ, Stein's identity leaves three numbers: E h, E hZ/s,
    E h(Z² - 1)/s².
    """
    n = moments[0, 0]
    m = moments[0] / n
    S = moments / n - np.outer(m, m)
    s = float(np.sqrt(max(coef @ S @ coef, 1e-9)))
    eta = m @ coef + s * _NODES
    p = expit(eta)
    h = _MASS * (p * loss.curvature(eta) + (1 - p) * loss.curvature(-eta))
    e0, e1, e2 = h.sum(), h @ _NODES / s, h @ (_NODES**2 - 1) / s**2
    q = S @ coef
    cross = np.outer(q, m)
    return np.asarray(n * (e0 * (S + np.outer(m, m)) + e1 * (cross + cross.T) + e2 * np.outer(q, q)))


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
    nodes, weights = _normal_nodes()
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
def _normal_nodes() -> tuple[Array, Array]:
    """Nodes and weights of a mean over standard normal numbers."""
    nodes, weights = (np.asarray(part, dtype=float) for part in np.polynomial.hermite_e.hermegauss(41))
    return nodes, weights / weights.sum()
