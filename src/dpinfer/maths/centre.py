"""A first guess of logistic coefficients from released moments: Brillinger's identity.

If x~ is near Gaussian, Cov(x~, y/2) = E[σ'(η)] Cov(x~) θ: ordinary least squares has the right direction, and two
scalar equations give its length and the intercept.  The guess only centres a ridge, so some tens of per cent do.
"""

import numpy as np
from scipy.special import expit

from dpinfer.maths.arrays import Array

LARGEST_SPREAD = 4.0
"""Cap on the standard deviation of the linear predictor."""


def brillinger(moments: Array, score: Array, n: float, floor: float) -> Array:
    """Coefficients of (1, x~) from sum x xᵀ and sum x y/2.

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
