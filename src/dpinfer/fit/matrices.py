"""Private Hessian and score covariance at the released coefficients: Algorithm 2, used twice."""

import numpy as np

from dpinfer.data.source import Source
from dpinfer.maths.arrays import Array
from dpinfer.maths.laws import NO_NOISE
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.privacy.gate import Gate, Released


def private_matrices(gate: Gate, source: Source, risk: PenalisedRisk, coef: Array) -> tuple[Array, Array]:
    """H~ and Σ~ at ``coef``: (1/n) sum f'' x xᵀ + 2c I and (1/n) sum f'² x xᵀ - 4c² θ~θ~ᵀ, each with noise."""
    c = risk.penalty
    curvature = gate.noisy_sum("hessian", source, risk.curvature_sum(coef))
    score = gate.noisy_sum("covariance", source, risk.score_sum(coef))
    hessian = priv_spd_mat(curvature, risk, 2 * c * np.eye(len(coef)))
    score_cov = priv_spd_mat(score, risk, -4 * c**2 * np.outer(coef, coef))
    return hessian, score_cov


def priv_spd_mat(noisy: Released, risk: PenalisedRisk, known: Array) -> Array:
    """Lines 9-14 of Algorithm 2: mean, symmetric part, eigenvalues raised to 2c.

    ``known`` is the part of the matrix that needs no noise.  The floor repairs noise, so without noise there is none.
    """
    matrix = noisy.value / risk.n + known
    matrix = (matrix + matrix.T) / 2
    if noisy.noise == NO_NOISE:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, 2 * risk.penalty))
    return np.asarray(root @ root.T)
