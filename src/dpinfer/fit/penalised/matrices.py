"""Private Hessian and score covariance at the released coefficients.

The paper releases each with Algorithm 2.  The tight recipe releases both in one stacked vector, noises only what
depends on data, and floors the Hessian at 2c and the covariance at 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpinfer.data.source import Source
from dpinfer.maths.arrays import Array
from dpinfer.maths.laws import NO_NOISE, Gaussian, Law
from dpinfer.maths.risk import Risk
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import Release


@dataclass(frozen=True)
class Matrices:
    """H~ and Σ~, one pair or a stack, and the deviation of the noise on their diagonals where it is counted."""

    hessian: Array
    score_cov: Array
    hessian_noise: float | Array = 0.0
    score_noise: float | Array = 0.0


def private_matrices(gate: Gate, releases: Sequence[Release], source: Source, risk: Risk, coef: Array) -> Matrices:
    """H~ and Σ~ at ``coef``: (1/n) sum f'' x xᵀ + 2c I and (1/n) sum f'² x xᵀ - 4c² θ~θ~ᵀ, each with noise.

    One release is the stacked vector of the tight recipe, two are the matrices of the paper.
    """
    if len(releases) == 1:
        stacked = gate.release(releases[0], source, risk.stacked_sum(coef))
        return tight(risk, coef, stacked.value, stacked.noise)
    curvature = gate.release(releases[0], source, risk.curvature_sum(coef))
    score = gate.release(releases[1], source, risk.score_sum(coef))
    return paper(risk, coef, curvature.value, score.value, noisy=curvature.noise != NO_NOISE)


def paper(risk: Risk, coef: Array, curvature: Array, score: Array, *, noisy: bool) -> Matrices:
    """Means, known terms, then lines 9-14 of Algorithm 2: the symmetric part, eigenvalues raised to 2c.

    Works on one fit or on a stack of them.  The floor repairs noise, so without noise there is none.
    """
    hessian, score_cov = _known_terms(risk, coef, curvature, score)
    floor = 2 * risk.penalty if noisy else None
    return Matrices(priv_spd_mat(hessian, floor), priv_spd_mat(score_cov, floor))


def tight(risk: Risk, coef: Array, stacked: Array, noise: Law, bound: float | Array = 1.0) -> Matrices:
    """The two matrices from a noisy stacked vector; its noise is ``bound`` times ``noise``, in every entry.

    Gaussian noise is counted in the intervals, by an expansion for small noise.  Laplace noise is not small, and what
    it does to the inverse already widens them: counting it too would over-cover.
    """
    hessian, score_cov = _known_terms(risk, coef, *risk.unstack(stacked, coef.shape[-1]))
    if noise == NO_NOISE:
        return Matrices(priv_spd_mat(hessian, None), priv_spd_mat(score_cov, None))
    entry = bound * noise.scale / risk.n if isinstance(noise, Gaussian) else 0.0
    floored = priv_spd_mat(hessian, 2 * risk.penalty), priv_spd_mat(score_cov, 0.0)
    return Matrices(*floored, hessian_noise=entry / risk.stack_weight, score_noise=entry)


def _known_terms(risk: Risk, coef: Array, curvature: Array, score: Array) -> tuple[Array, Array]:
    """The means, with what the penalty adds; a covariance over units has the factor n/(n - 1)."""
    c = risk.penalty
    hessian = curvature / risk.n + 2 * c * np.eye(coef.shape[-1])
    clusters = risk.n / max(risk.n - 1, 1) if risk.neighbours.units else 1.0
    return hessian, clusters * (score / risk.n - 4 * c**2 * coef[..., :, None] * coef[..., None, :])


def priv_spd_mat(matrix: Array, floor: float | None) -> Array:
    """Symmetric part, eigenvalues raised to the floor."""
    matrix = (matrix + matrix.mT) / 2
    if floor is None:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, floor))[..., None, :]
    return np.asarray(root @ root.mT)
