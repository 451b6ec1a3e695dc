"""Private Hessian and score covariance at the released coefficients: Algorithm 2, used twice."""

import numpy as np

from dpinfer.data.source import Source
from dpinfer.maths.arrays import Array
from dpinfer.maths.laws import NO_NOISE
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.gate import Gate


def private_matrices(gate: Gate, source: Source, risk: PenalisedRisk, coef: Array) -> tuple[Array, Array]:
    """H~ and Σ~ at ``coef``: (1/n) sum f'' x xᵀ + 2c I and (1/n) sum f'² x xᵀ - 4c² θ~θ~ᵀ, each with noise."""
    curvature = gate.noisy_sum("hessian", source, risk.curvature_sum(coef))
    score = gate.noisy_sum("covariance", source, risk.score_sum(coef))
    noisy = curvature.noise != NO_NOISE
    return repaired(risk, coef, curvature.value, score.value, noisy=noisy)


def repaired(risk: PenalisedRisk, coef: Array, curvature: Array, score: Array, *, noisy: bool) -> tuple[Array, Array]:
    """H~ and Σ~ from the two noisy sums: means, the known terms 2c I and -4c² θ~θ~ᵀ, then lines 9-14 of Algorithm 2.

    Works on one fit or on a stack of them.  The floor repairs noise, so without noise there is none.
    """
    c = risk.penalty
    hessian = curvature / risk.n + 2 * c * np.eye(coef.shape[-1])
    score_cov = score / risk.n - 4 * c**2 * coef[..., :, None] * coef[..., None, :]
    floor = 2 * c if noisy else None
    return priv_spd_mat(hessian, floor), priv_spd_mat(score_cov, floor)


def priv_spd_mat(matrix: Array, floor: float | None) -> Array:
    """Symmetric part, eigenvalues raised to the floor."""
    matrix = (matrix + matrix.mT) / 2
    if floor is None:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, floor))[..., None, :]
    return np.asarray(root @ root.mT)
