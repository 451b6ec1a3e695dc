"""The four releases of a fit in a private geometry, each through the gate, and what is made of them.

1. crude moments   sum x xᵀ                            -> a crude geometry
2. moments         sum w u uᵀ and the score there      -> the columns of the fit, its geometry, a centre for its ridge
3. estimate        minimum of the perturbed risk       -> coefficients
4. matrices        curvature and score covariance      -> what the intervals need
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.data.design import Design
from dpinfer.data.source import Source, mapped
from dpinfer.fit.weighted.plan import UNWEIGHTED, GeometryPlan, Scales, risk_of
from dpinfer.maths.arrays import Array, unsvec
from dpinfer.maths.aside import LEAST_EVENTS
from dpinfer.maths.moments import (
    Columns,
    Indices,
    Moments,
    brillinger,
    clean,
    gaussian_curvature,
    identifiable,
    preconditioner,
    raised,
    shrink,
    undispersed,
)
from dpinfer.maths.sums import moment_and_score, second_moment
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, PerturbedMinimum

_FEWEST = 50.0  # a private number of records is taken to be at least this
_SURE = 3.0  # deviations
_NEVER = 40.0  # deviations: a normal number beyond has a chance of 10⁻³⁴⁹
_AT_BOUNDS = 0.9  # of the largest variance, from which a column in [-1, 1] is taken for a yes and no


@dataclass(frozen=True, eq=False)
class Setting:
    """What is public about a fit: the encoding, the plan, its releases and their noise."""

    design: Design
    plan: GeometryPlan
    releases: tuple[NoisySum, NoisySum, PerturbedMinimum, NoisySum]
    scales: Scales

    @classmethod
    def of(cls, design: Design, plan: GeometryPlan) -> "Setting":
        """From the design and the plan."""
        return cls(design, plan, plan.releases(), plan.scales())

    @property
    def neighbours(self) -> Neighbours:
        """What may differ between two data sets."""
        return Neighbours(self.plan.neighbours)


@dataclass(frozen=True, eq=False)
class Crude:
    """The first release: M, the number of records it is about, and the geometry it gives."""

    moments: Array
    n: float
    preconditioner: Array


@dataclass(frozen=True, eq=False)
class Known:
    """The second release: M, the score at 0, and whether both classes are surely there."""

    moments: Moments
    score: Array
    two_classes: bool


@dataclass(frozen=True, eq=False)
class Shape:
    """The columns of the fit, their M, the preconditioner A, and the centre of the ridge in u."""

    kept: Indices
    n: float
    moments: Array
    preconditioner: Array
    centre: Array


@dataclass(frozen=True, eq=False)
class Estimate:
    """The third and fourth release: coefficients in u, curvature and score covariance there."""

    coef: Array
    hessian: Array
    score_cov: Array


def crude_moments(gate: Gate, source: Source, at: Setting) -> Crude:
    """Release 1.  The number of records is public or, if private, read off the release.

    Rows that cannot be encoded count for nothing: where the release shows clearly fewer records, it is believed.
    """
    released = gate.release(at.releases[0], source, second_moment(at.neighbours))
    d, norm2, columns = source.dim, at.design.norm2, at.design.columns
    moments = unsvec(released.value, d) * norm2
    noise = at.scales.crude * norm2
    n = max(float(moments[0, 0]), _FEWEST)
    if at.neighbours is Neighbours.REPLACE and n >= source.n - _SURE * noise:
        n = float(source.n)
    moments = clean(moments, columns, n)
    floor = noise * np.sqrt(2 * d) / n  # the largest eigenvalue of the noise
    A = preconditioner(moments, columns, n, at.scales.kappa(d, n), floor)
    return Crude(raised(moments / n, floor) * n, n, A)


def refined_moments(gate: Gate, source: Source, at: Setting, crude: Crude) -> Known:
    """Release 2, mapped back to x; its matrix is shrunk towards the first."""
    A, d, n, noise = crude.preconditioner, source.dim, crude.n, at.scales.moments
    u = mapped(source, A * np.sqrt(at.design.norm2))
    released = gate.release(at.releases[1], u, moment_and_score(at.neighbours)).value
    noisy, score = unsvec(released[:-d], d), released[-d:]
    matrix, left = shrink(noisy, A @ crude.moments @ A.T, noise, 0.2)
    back = np.linalg.inv(A)
    matrix, score = back @ matrix @ back.T, back @ score
    first = float(back[0] @ back[0])
    rare = matrix[0, 0] / 2 - abs(score[0])  # weighted records of the rarer class
    unsure = np.hypot(left * first / 2, noise * np.sqrt(first))
    moments = Moments(clean(matrix, at.design.columns, n), n, left, back @ back.T)
    return Known(moments, score, bool(rare >= LEAST_EVENTS + _SURE * unsure))


def shape_of(known: Known, at: Setting) -> Shape:
    """Post-processing: which columns enter the fit, in which geometry, around which centre."""
    n, scales = known.moments.n, at.scales

    def geometry(kept: Indices) -> Array:
        columns = at.design.columns.take(kept)
        if at.plan.target == UNWEIGHTED:
            return np.asarray(np.eye(len(kept)) / np.sqrt(columns.norm2))
        moments = known.moments.matrix[np.ix_(kept, kept)]
        return preconditioner(moments, columns, n, scales.kappa(len(kept), n))

    kept = identifiable(known.moments, geometry, scales.hessian)
    d, A, moments = len(kept), geometry(kept), known.moments.of(kept)
    floor = known.moments.scale * scales.kappa(d, n) * d / (2 * n)
    guess = brillinger(known.moments.matrix[np.ix_(kept, kept)], known.score[kept], n, floor)
    return Shape(kept, n, moments, A, np.asarray(np.linalg.solve(A.T, guess), dtype=np.float64))


def estimate(gate: Gate, source: Source, at: Setting, shape: Shape) -> Estimate:
    """Releases 3 and 4."""
    _, _, third, fourth = at.releases
    matrix = np.zeros((len(shape.kept), source.dim))
    matrix[:, shape.kept] = shape.preconditioner * np.sqrt(at.design.norm2)
    most = source.n if at.neighbours is Neighbours.REPLACE else shape.n + _NEVER * at.scales.crude * at.design.norm2
    u, risk = mapped(source, matrix), risk_of(third.share, at.neighbours, most, shape.centre)
    coef = gate.release(third, u, risk).value
    stacked = gate.release(fourth, u, risk.stacked_sum(coef)).value
    return Estimate(coef, *risk.unstack(stacked, len(coef)))


@dataclass(frozen=True, eq=False)
class Matrices:
    """H and V as the inference uses them, and the scale of the noise left in H; None where H is all noise."""

    hessian: Array
    score_cov: Array
    left: float


def matrices_of(estimate: Estimate, shape: Shape, scales: Scales) -> Matrices | None:
    """Post-processing: H towards its prediction from the moments, V towards H; None if H as a whole is too weak."""
    A, noisy, d = shape.preconditioner, estimate.hessian, len(estimate.coef)
    size = float(np.trace(noisy))
    if not size > _SURE * scales.hessian * np.sqrt(d):
        return None
    predicted = A @ gaussian_curvature(shape.moments, A.T @ estimate.coef) @ A.T
    hessian, left = shrink(noisy, predicted * (size / np.trace(predicted)), scales.hessian, 0.5)
    ratio = float(np.trace(estimate.score_cov) / np.trace(hessian))
    score_cov, _ = shrink(estimate.score_cov, hessian * (ratio if ratio > 0 else 1.0), scales.score_cov, 0.0)
    return Matrices(undispersed(hessian, left), raised(score_cov, 0.0), left)


def deviations(moments: Array) -> Array:
    """Standard deviation of each column, never below .01; the intercept's is 1."""
    M = moments / moments[0, 0]
    spread = np.sqrt(np.maximum(np.diag(M) - M[0] ** 2, 1e-4))
    spread[0] = 1.0
    return np.asarray(spread)


def two_values(moments: Array, columns: Columns) -> Array:
    """The two values of each column, NaN if it has more: dummies, and numbers that are nearly all at their bounds.

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
