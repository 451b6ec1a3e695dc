"""Which columns of a fit can be reported, and the law of their error.  Post-processing of released values only.

Coordinates: t for the rows u the fit worked on, θ for the coefficients at the released centre, t = E θ.

| symbol | meaning                                                        | name in code     |
| ------ | -------------------------------------------------------------- | ---------------- |
| H, V   | curvature and score covariance in t, without the known noise   | `hessian`, `score_cov` |
| g      | λ (t - tc): the gradient there, but for sampling and b         | `gradient`       |
| σ      | scale of b                                                     | `gradient_noise` |
| h, h'  | scale of the noise in H, before and after shrinking            | `hessian_noise`, `left` |
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular

from dpinfer.maths.arrays import Array
from dpinfer.maths.mixture import MixtureLaw
from dpinfer.maths.moments import Indices

LEAST_SIGNAL = 3.0
"""A coefficient is reported if its information is at least this many times the noise of it."""
LEAST_EVENTS = 8.0
"""The least information of a dummy's coefficient or of the intercept: about as many events."""
LARGEST_NOISE = 0.25
"""The largest share of the variance that noise in the Hessian may cause."""
RUNAWAY = 3.0, 0.4
"""Separation: a level whose linear predictor is beyond 3, and still moves outwards by .4 in the debiasing step."""
_WIDE_DUMMY, _WIDE_NUMBER, _WIDE_INTERCEPT = 5.0, 2.0, 10.0  # prior deviations; of a number, over its deviation


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit in its geometry, everything released: ``coef`` is θ, ``back`` is E, ``spread`` the columns' deviations.

    ``released`` is H as it was released; ``ends`` are the two values of a column, from the centre; NaN where a column
    has more than two.
    """

    hessian: Array
    released: Array
    score_cov: Array
    coef: Array
    gradient: Array
    gradient_noise: float
    hessian_noise: float
    left: float
    back: Array
    spread: Array
    ends: Array
    dummy: npt.NDArray[np.bool_]

    @property
    def total(self) -> Array:
        """V + σ² I."""
        return np.asarray(self.score_cov + self.gradient_noise**2 * np.eye(len(self.score_cov)))


def reportable(fit: Fitted) -> Indices:
    """The columns that are strong enough, the intercept always first: the weakest becomes an offset, one at a time."""
    kept = np.arange(len(fit.hessian))
    while len(kept) > 1:
        weakest = _weakest(fit, kept)
        if weakest is None:
            break
        kept = np.delete(kept, weakest)
    return kept


def intercept_reportable(fit: Fitted, kept: Indices) -> bool:
    """Whether the intercept has its eight events, and three times its noise."""
    E = fit.back[:, kept]
    H = E.T @ fit.hessian @ E
    if np.linalg.eigvalsh(H)[0] <= 0:
        return False
    signal, information, _ = _signals(fit, E, _inverse(H))
    return bool(signal[0] >= LEAST_SIGNAL and information[0] >= LEAST_EVENTS)


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _signals(fit: Fitted, E: Array, inverse: Array) -> tuple[Array, Array, Array]:
    """Signal to noise, information given the others, and squared length of the direction of each column."""
    information = 1 / np.diag(inverse)
    length2 = ((E @ (inverse * information)) ** 2).sum(axis=0)
    return information / (fit.hessian_noise * length2), information, length2


def _weakest(fit: Fitted, kept: Indices) -> int | None:
    """The place among ``kept`` of the column to set aside, or None if all are strong enough."""
    E = fit.back[:, kept]
    H = E.T @ fit.hessian @ E
    values, vectors = np.linalg.eigh(H)
    if values[0] <= 0:
        loading = np.abs(vectors[:, 0]) * fit.spread[kept]
        loading[0] = 0.0
        return int(np.argmax(loading))
    inverse = _inverse(H)
    signal, information, length2 = _signals(fit, E, inverse)
    released = np.einsum("ij,ik,kj->j", E, fit.released, E)  # the shrunk one may take over events from its prediction
    events = np.minimum(information, released) / np.diff(fit.ends[kept], axis=1)[:, 0] ** 2
    few = events < LEAST_EVENTS  # of columns with two values: others are NaN
    signal[few] = np.minimum(signal, LEAST_SIGNAL * events / (2 * LEAST_EVENTS))[few]
    signal[0] = np.inf
    weakest = int(np.argmin(signal))
    if signal[weakest] < LEAST_SIGNAL:
        return weakest
    step, total = inverse @ (E.T @ fit.gradient), fit.total
    variance = inverse @ (E.T @ total @ E) @ inverse
    moved = _runaway(fit, kept, step)
    if moved.any():
        return int(np.argmax(moved))
    if _noise_from_hessian(fit, E, step, variance) <= LARGEST_NOISE:
        return None
    share = length2 * (step**2 + np.diag(variance))
    share[0] = 0.0
    return int(np.argmax(share))


def _runaway(fit: Fitted, kept: Indices, step: Array) -> Array:
    """How far a separated level moves outwards, 0 for all other columns.

    Where all records of a level have one label, the gradient is as large as the curvature: every Newton step is
    about 1, for ever, and a finite interval would be wrong.
    """
    ends = np.nan_to_num(fit.ends[kept])
    predictor = fit.coef[0] + step[0] + (fit.coef[kept] + step)[:, None] * ends
    moved = step[:, None] * ends
    outwards = (predictor * moved > 0) & (np.abs(predictor) >= RUNAWAY[0]) & (np.abs(moved) >= RUNAWAY[1])
    return np.asarray(np.where(outwards, np.abs(moved), 0.0).max(axis=1))


def _noise_from_hessian(fit: Fitted, E: Array, step: Array, variance: Array) -> float:
    """The variance that noise in H causes, relative to the variance of the gradient."""
    Q = np.linalg.qr(E)[0]
    moved = ((E @ step) ** 2).sum() + np.trace(E @ variance @ E.T)
    return float(fit.hessian_noise**2 / 2 * moved / (np.trace(Q.T @ fit.total @ Q) / E.shape[1]))


def law_of(fit: Fitted, kept: Indices, components: int, draws: int, seed: int) -> MixtureLaw:
    """The law of target - t for the kept coefficients at the centre, the others held as offsets.

    With E_S = QR the coordinates z = Rθ have Hessian noise of the plain symmetric kind.  The second-order allowance is
    half the squared debiasing step, times the deviation of the column.
    """
    Q, R = np.linalg.qr(fit.back[:, kept])
    inverse = solve_triangular(R, np.eye(len(kept)))
    scale = np.where(fit.dummy[kept], 1.0, fit.spread[kept])
    wide = np.where(fit.dummy[kept], _WIDE_DUMMY, _WIDE_NUMBER / fit.spread[kept])
    scale[0], wide[0] = 1.0, _WIDE_INTERCEPT
    law = MixtureLaw(
        hessian=Q.T @ fit.hessian @ Q,
        sampling=Q.T @ fit.score_cov @ Q,
        gradient=Q.T @ fit.gradient,
        prior=inverse.T @ np.diag(wide**-2.0) @ inverse,
        transform=inverse,
        allowance=np.zeros(len(kept)),
        gradient_noise=fit.gradient_noise,
        hessian_noise=fit.left,
        components=components,
        draws=draws,
        seed=seed,
    )
    return law.with_allowance(law.step() ** 2 * scale / 2)
