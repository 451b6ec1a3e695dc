"""Pilot estimates from released sums, and Newton steps from them.

| symbol | meaning                                                                | name in code  |
| ------ | ---------------------------------------------------------------------- | ------------- |
| M      | sum x xᵀ, as far as it is known                                        | `moments`     |
| t      | coefficients of (1, x)                                                 | `coef`        |
| I(t)   | Σ h' x xᵀ at t for Gaussian x, h' the derivative of the mean           | `expected_hessian` |
| u      | coordinates of a preconditioner A: t = Aᵀ u                            |               |
| g, H   | released score and Hessian at t, in u                                  |               |
| a      | a step from t, in u                                                    | `step`        |

A step shrinks the score for its noise.  Its remainder is released, so that a poor pilot or step makes
intervals longer; invalid only where many records are beyond the clip of the remainder.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit

from dpinfer.inference.constants import (
    MAX_LEVEL_SHARE,
    MAX_OUTCOME_IMBALANCE,
    MAX_PREDICTOR_SD,
    MAX_STEP,
    MIN_RATE_RATIO,
    MIN_STEP_EIGENVALUE,
    PILOT_LOG_MEAN_SD,
    PILOT_LOG_ODDS_SD,
    PILOT_OUTCOME_VARIANCE,
    REMAINDER_SDS,
)
from dpinfer.inference.moments import Columns, preconditioner, raised
from dpinfer.inference.tails import CountSizes
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST, LOGIT, Family
from dpinfer.numerics.reasons import Numerical

_HALVINGS: Numerical[int] = 6  # iterations of a step whose Hessian is that half way along it
# largest change of a predictor, which no record exceeds (`dpinfer.mechanisms.step_sums.remainder_sum`)
_WIDEST: Numerical[float] = 60.0
_MAX_SECOND_DERIVATIVE: Numerical[float] = 1 / (
    6 * np.sqrt(3)
)  # of the logistic function, at p = (3 ± √3)/6
_TINY: Numerical[float] = 1e-12
# one outcome in 2,000, the rarest by `MAX_OUTCOME_IMBALANCE`, has log-odds of -7.6
_MAX_INTERCEPT: Numerical[float] = 8.0
_RAREST: Numerical[float] = 1e-6  # smallest share of a level
# largest factor by which a step may change a Hessian, so that noise alone never makes one singular
_MAX_CHANGE: Numerical[float] = 100.0


@lru_cache(maxsize=2)
def normal_nodes(number: int = 41) -> tuple[Array, Array]:
    """Return Gauss-Hermite nodes and weights of an expectation over a standard normal variable."""
    nodes, weights = (
        np.asarray(part, dtype=float) for part in np.polynomial.hermite_e.hermegauss(number)
    )
    return nodes, weights / weights.sum()


def expected_hessian(moments: Array, coef: Array, family: Family = LOGIT) -> Array:
    """Return I(t) = n E[h'(η) x xᵀ] for Gaussian x.

    With η = a + sZ, Stein's lemma gives E[h' x xᵀ] = E[h'] E[x xᵀ] + E[h''] (c mᵀ + m cᵀ) + E[h⁽³⁾] c cᵀ, where
    c = Cov(x) t and m = E x, and E[h''] = E[h' Z]/s, E[h⁽³⁾] = E[h' (Z² - 1)]/s².
    """
    n = moments[0, 0]
    mean = moments[0] / n
    covariance = moments / n - np.outer(mean, mean)
    spread = float(np.sqrt(max(coef @ covariance @ coef, 1e-9)))
    nodes, weights = normal_nodes()
    h = weights * family.slope(mean_at(mean @ coef + spread * nodes, family))
    along = covariance @ coef
    cross = np.outer(along, mean)
    second = moments / n
    first_order = h @ nodes / spread
    second_order = h @ (nodes**2 - 1) / spread**2
    return np.asarray(
        n
        * (
            h.sum() * second
            + first_order * (cross + cross.T)
            + second_order * np.outer(along, along)
        )
    )


def mean_at(predictor: Array, family: Family) -> Array:
    """Return the mean of the outcome, with the predictor clipped so that h' is never 0."""
    return family.mean(np.clip(predictor, -FARTHEST, FARTHEST))


def _root(matrix: Array) -> Array:
    """Return the symmetric root of a matrix, with its eigenvalues raised above 0.

    A Cholesky root would do, but it depends on the order of the columns.
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = 1e-6 * float(np.abs(values).max())
    return np.asarray((vectors * np.sqrt(np.maximum(values, floor))) @ vectors.T)


def logistic_pilot(
    moments: Array, score: Array, n: float, columns: Columns, noise: Array, kappa: float
) -> Array:
    """Return pilot coefficients of logistic regression from Σ x xᵀ and the score at 0.

    For Gaussian x, Cov(x, y) = E[p(1 - p)] Cov(x) θ: least squares of the label has the right direction
    (Brillinger 1982), and two scalar equations give its length and the intercept.  It is a ridge estimate in
    whitened columns with a prior sd of 1 of the log-odds; ``noise`` is a root of the noise covariance of the
    score.
    """
    d = len(moments)
    share = float(np.clip(score[0] / n, -MAX_OUTCOME_IMBALANCE, MAX_OUTCOME_IMBALANCE))
    mean_slope = 0.25 - share**2
    whitening = preconditioner(moments, columns, n, kappa) * np.sqrt(kappa * d)
    error = float(((whitening @ noise / n) ** 2).sum()) / d + mean_slope / n
    white = whitening @ moments @ whitening.T / n
    toward = whitening @ (score - share * moments[0]) / n
    values, vectors = np.linalg.eigh((white + white.T) / 2)
    values = np.maximum(values, 0.0)
    ridge = error * d / (PILOT_LOG_ODDS_SD * mean_slope) ** 2
    slopes = whitening.T @ vectors @ (values * (vectors.T @ toward) / (values**2 + ridge))
    slopes[0] = 0.0
    mean = moments[0] / n
    covariance = raised(moments / n, 1e-7) - np.outer(mean, mean)
    spread = float(np.sqrt(max(slopes @ covariance @ slopes, _TINY)))
    scale, intercept = _length(spread, share)
    coef = scale * slopes
    coef[0] = intercept - mean @ coef
    return np.asarray(coef)


def poisson_pilot(
    moments: Array,
    score: Array,
    noise: Array,
    n: float,
    columns: Columns,
    sizes: CountSizes,
    kappa: float,
) -> Array:
    """Return pilot coefficients of Poisson regression from Σ x xᵀ and the score of the capped count.

    ``score`` is Σ x (min(y, c) - c/2)/c, with noise whose covariance has the root ``noise``.  Least squares of
    min(y, c), a ridge estimate in whitened columns with a prior sd of 1/2 of the logarithm, is mapped to the log
    scale as for Gaussian rows: Cov(x, e^η) = E[e^η] Cov(x) θ.  That overstates the effect of a rare level with
    many counts; the logarithm of its ratio of capped means understates it, as more of its counts exceed the
    cap.  The coefficient of a level is the average of the two.
    """
    d = len(moments)
    whitening = preconditioner(moments, columns, n, kappa) * np.sqrt(kappa * d)
    cap = sizes.cap
    mean = sizes.capped
    toward = whitening @ (2 * score + (1 - 2 * mean / cap) * moments[0])
    signal = (2 * PILOT_LOG_MEAN_SD * mean * sizes.shows / cap) ** 2 / d
    error = float(((2 * whitening @ noise) ** 2).sum()) / d + 4 * n * mean / cap
    white = whitening @ moments @ whitening.T
    values, vectors = np.linalg.eigh((white + white.T) / 2)
    values = np.maximum(values, 0.0)
    along = vectors.T @ toward
    slopes = cap / 2 * whitening.T @ vectors @ (values * along / (values**2 + error / signal))
    centre = moments[0] / n
    rate = max(mean + float(centre @ slopes), MIN_RATE_RATIO * mean)
    coef = slopes / (rate * sizes.shows)
    logs = _logs_of_levels(slopes, rate, centre, columns) / sizes.shows
    coef = np.where(columns.dummy, (coef + logs) / 2, coef)
    coef[0] = 0.0
    covariance = raised(moments / n, 1e-7) - np.outer(centre, centre)
    variance = float(coef @ covariance @ coef)
    rate_of_all = rate * sizes.mean / mean
    coef[0] = np.log(rate_of_all) - variance / 2 - centre @ coef
    return np.asarray(coef)


def _logs_of_levels(slopes: Array, rate: float, centre: Array, columns: Columns) -> Array:
    """Return the logarithm of each level's mean over that of its reference, by least squares; 0 for numbers."""
    logs = np.zeros(len(slopes))
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        reference = max(rate - float(centre[levels] @ slopes[levels]), MIN_RATE_RATIO * rate)
        logs[levels] = np.log(np.maximum(1 + slopes[levels] / reference, MIN_RATE_RATIO))
    return logs


def _length(spread: float, share: float) -> tuple[float, float]:
    """Return k and a with E[σ(η)] = 1/2 + share and k E[σ'(η)] = 1, η = a + k spread Z; k spread is capped."""
    nodes, weights = normal_nodes()
    k = 4.0
    a = 0.0
    for _ in range(60):
        k = min(k, MAX_PREDICTOR_SD / spread)
        for _ in range(8):
            p = expit(a + k * spread * nodes)
            down = float(weights @ p - 0.5 - share) / max(float(weights @ (p * (1 - p))), 0.01)
            next_a = min(max(a - down, -_MAX_INTERCEPT), _MAX_INTERCEPT)
            if next_a == a:  # and so for ever
                break
            a = next_a
        p = expit(a + k * spread * nodes)
        before = k
        k = k / 2 + min(1 / float(weights @ (p * (1 - p))), MAX_PREDICTOR_SD / spread) / 2
        if abs(k - before) <= 1e-10 * k:
            break
    return float(k), a


@dataclass(frozen=True)
class MeanInformation:
    """Means over Gaussian rows in logistic regression: of p(1 - p), and of max(p, 1 - p)² weighted by it."""

    mean_slope: float
    max_residual2: float

    @classmethod
    def at(cls, moments: Array, coef: Array) -> "MeanInformation":
        """Return the means at these coefficients."""
        mean = moments[0] / moments[0, 0]
        covariance = moments / moments[0, 0] - np.outer(mean, mean)
        nodes, weights = normal_nodes()
        p = mean_at(mean @ coef + np.sqrt(max(coef @ covariance @ coef, 1e-9)) * nodes, LOGIT)
        h = weights * p * (1 - p)
        return cls(float(h.sum()), float(h @ np.maximum(p, 1 - p) ** 2 / h.sum()))


def tilted_hessian(hessian: Array, step: Array, columns: Columns) -> Array:
    """Return the Hessian Σ μ x xᵀ of counts after a step s of the coefficients of (1, x).

    Each record's weight μ changes by the factor exp(x·s): an exponential tilt of the distribution of x.  The
    weighted share p of a level becomes p e^s over the total of its factor, exactly, however rare the level
    and however long the step; numbers are taken as Gaussian, whose means change by Cov(x) s.  Correlations are
    kept, and so are the means of numbers where levels change and the shares of levels where numbers do.
    """
    total = float(hessian[0, 0])
    if total <= 0:
        return hessian
    mean = hessian[0] / total
    covariance = hessian / total - np.outer(mean, mean)
    after, level = _tilted_means(mean, step, columns)
    before = np.clip(mean, _RAREST, MAX_LEVEL_SHARE)
    grown = np.where(columns.dummy, after * (1 - after) / (before * (1 - before)), 1.0)
    size = np.sqrt(np.clip(grown, 1 / _MAX_CHANGE, _MAX_CHANGE))
    covariance *= np.outer(size, size)
    along = np.where(columns.dummy, 0.0, step)
    along[0] = 0.0
    moved = covariance @ along
    further = float(after @ along + along @ moved / 2)
    level *= float(np.exp(np.clip(further, -FARTHEST, FARTHEST)))
    level = min(max(level, 1 / _MAX_CHANGE), _MAX_CHANGE)
    # shares of levels stay as their own step has left them
    after = np.where(columns.dummy, after, after + moved)
    after[0] = 1.0
    return np.asarray(total * level * (covariance + np.outer(after, after)))


def _tilted_means(mean: Array, step: Array, columns: Columns) -> tuple[Array, float]:
    """Return the means after the tilt by levels, and the factor of the total weight by levels and intercept."""
    after = mean.copy()
    level = float(np.exp(np.clip(step[0], -FARTHEST, FARTHEST)))
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        shares = np.clip(mean[levels], _RAREST, MAX_LEVEL_SHARE)
        rates = shares * np.exp(np.clip(step[levels], -FARTHEST, FARTHEST))
        total = max(1 - float(shares.sum()), _RAREST) + float(rates.sum())
        after[levels] = np.clip(rates / total, _RAREST, MAX_LEVEL_SHARE)
        level *= total
    return after, level


@dataclass(frozen=True, eq=False)
class LocalModel:
    """A local quadratic model of the likelihood: second moments, coefficients t, and preconditioner A.

    ``dispersion`` is Var(y)/h', ``min_information`` a lower bound of Σ h'.  ``columns`` are given in fits of
    counts, whose Hessian follows the shares of levels (`tilted_hessian`).
    """

    moments: Array
    coef: Array
    matrix: Array
    family: Family = LOGIT
    dispersion: float = 1.0
    min_information: float = 1.0
    columns: Columns | None = None

    def hessian_after(self, hessian: Array, step: Array) -> Array:
        """Return the Hessian after a step: T H Tᵀ, where T I(t) Tᵀ is the I of Gaussian rows there.

        In fits of counts it is `tilted_hessian`.
        """
        A = self.matrix
        if self.columns is not None:
            back = self._inverse
            return np.asarray(
                A @ tilted_hessian(back @ hessian @ back.T, A.T @ step, self.columns) @ A.T
            )
        later = A @ expected_hessian(self.moments, self.coef + A.T @ step, self.family) @ A.T
        change = _root(later) @ self._root_inverse
        return np.asarray(change @ hessian @ change.T)

    def expected_hessian(self) -> Array:
        """Return the Hessian at t by the second moments, up to a factor."""
        if self.columns is None:
            hessian = expected_hessian(self.moments, self.coef, self.family)
        else:
            hessian = tilted_hessian(self.moments, self.coef, self.columns)
        return np.asarray(self.matrix @ hessian @ self.matrix.T)

    @cached_property
    def _inverse(self) -> Array:
        """Return A⁻¹."""
        return np.asarray(np.linalg.inv(self.matrix))

    @cached_property
    def _root_inverse(self) -> Array:
        """Return the inverse of a root of A I(t) Aᵀ."""
        A = self.matrix
        before = A @ expected_hessian(self.moments, self.coef, self.family) @ A.T
        return np.asarray(np.linalg.inv(_root(before)))

    def length(self, hessian: Array, step: Array) -> float:
        """Return the root mean square change of the predictor, records weighted by h'."""
        moved = max(float(step @ hessian @ step), 0.0)
        return float(np.sqrt(moved / self._total_slope(hessian)))

    def _total_slope(self, hessian: Array) -> float:
        """Return Σ h' over records."""
        level = self._inverse[0]  # the intercept in u
        return max(float(level @ hessian @ level), self.min_information)

    def best_step(self, hessian: Array, score: Array, noise: float) -> Array:
        """Return the best linear predictor of the distance a to the maximum, given g = H a + error.

        The error has variance ``noise`` + dispersion · H.  A priori a ~ N(0, τ² H⁻¹), as the error of an
        estimate (Zellner's g-prior, 1986), with τ² by the method of moments from ‖g‖².  H is that at the
        midpoint of the step, by fixed-point iteration, as Newton's method overshoots.  The step is at most
        `MAX_STEP`.
        """

        def solved(hessian: Array) -> Array:
            values, vectors = np.linalg.eigh(hessian)
            values = np.maximum(values, 0.0)
            along = vectors.T @ score
            error = noise + self.dispersion * values
            prior = 1 / np.maximum(values / max(values.max(), _TINY), MIN_STEP_EIGENVALUE)
            signal = (along @ along - error.sum()) / max((prior * values**2).sum(), _TINY)
            if signal <= 0:
                return np.zeros(len(score))
            step = vectors @ (prior * values * along / (prior * values**2 + error / signal))
            return np.asarray(step * min(1.0, MAX_STEP / max(self.length(hessian, step), _TINY)))

        step = solved(hessian)
        for _ in range(_HALVINGS):
            step = step / 2 + solved(self.hessian_after(hessian, step / 2)) / 2
        return step

    def remainder_clip(self, hessian: Array, step: Array, max_influence: float) -> float:
        """Return the clip of the remainder: the smallest of three bounds of what a typical record adds to it.

        For |z| <= Z = 3 root mean squares a record adds at most w‖u‖ h' (e^Z - 1 - Z).  That is at most
        ‖a‖ (e^Z - 1 - Z)/Z, by |z| <= ‖u‖‖a‖ and w h'‖u‖² <= 1; where h' is no more than its mean it is at
        most the root of that mean times e^Z - 1 - Z; and of a logit it is at most B Z²/(6 √3), by
        |h''| <= 1/(6 √3) and w‖u‖ max(p, 1 - p) <= B.
        """
        farthest = min(REMAINDER_SDS * max(self.length(hessian, step), _TINY), _WIDEST)
        mean_slope = self._total_slope(hessian) / self.moments[0, 0]
        by_length = min(float(np.linalg.norm(step)) / farthest, np.sqrt(mean_slope))
        by_length *= np.expm1(farthest) - farthest
        return float(
            max(min(by_length, _MAX_SECOND_DERIVATIVE * farthest**2 * max_influence), 1e-6)
        )


def least_squares_pilot(moments: Array, score: Array, noise: Array, n: float) -> Array:
    """Return pilot coefficients of least squares in whitened columns, a ridge estimate.

    Outcomes are in units of half their released range, and ``noise`` is the noise covariance of the score.
    What the columns explain and what they leave have a prior variance of `PILOT_OUTCOME_VARIANCE` each, so that
    a coefficient has 1/d of it.
    """
    d = len(moments)
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, 0.0)
    error = float(np.trace(noise)) / d + PILOT_OUTCOME_VARIANCE * n
    along = vectors.T @ score
    return np.asarray(vectors @ (values * along / (values**2 + error * d / PILOT_OUTCOME_VARIANCE)))
