"""First lines, and steps from them towards the coefficients, from released sums.

Post-processing only.

| symbol | meaning                                                                | name in code  |
| ------ | ---------------------------------------------------------------------- | ------------- |
| M      | sum x xᵀ, as far as it is known                                        | `moments`     |
| t      | a line: coefficients of (1, x)                                         | `line`        |
| I(t)   | sum h' x xᵀ there, h' the slope of the mean, if x is Gaussian          | `information` |
| u      | coordinates of a geometry A: t = Aᵀ u                                  |               |
| g, H   | released score and curvature at the line, in u                         |               |
| a      | a step from the line, in u                                             | `step`        |

A step is a best guess, not a solution: what it leaves is released, so that a bad one costs length,
never validity.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import expit

from dpinfer.inference.moments import Columns, preconditioner, raised
from dpinfer.inference.tails import CountSizes
from dpinfer.inference.tilting import tilted
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST, LOGIT, Family

LARGEST_SPREAD = 4.0
"""Cap on the standard deviation of the linear predictor in a first guess."""
_LARGEST_SHARE = 0.4995  # beyond one half: a rarer outcome is taken for one in 2,000
_EXPECTED = 1.0  # deviation of the log-odds that a first line expects of whitened columns together
_EXPECTED_LOG = 0.5  # deviation of the logarithm of a count that a first line expects
_MIN_RATE = 0.2  # of the mean of a capped count: the least that a line takes it for
_HALVINGS = 6  # of a step whose curvature is that half way
_WIDE = 3.0  # root mean squares of a step that its rest lets in
# of a change of the predictor, which no record's exceeds (`dpinfer.mechanisms.step_sums.remainder_sum`)
_WIDEST = 60.0
_MAX_SECOND_DERIVATIVE = 1 / (6 * np.sqrt(3))  # the largest second derivative of a probability
_TINY = 1e-12
_SIGNAL = 0.1  # the variance of a scaled outcome that a line is expected to explain


@lru_cache(maxsize=2)
def normal_nodes(number: int = 41) -> tuple[Array, Array]:
    """Nodes and weights of a mean over standard normal numbers."""
    nodes, weights = (
        np.asarray(part, dtype=float) for part in np.polynomial.hermite_e.hermegauss(number)
    )
    return nodes, weights / weights.sum()


def expected_hessian(moments: Array, coef: Array, family: Family = LOGIT) -> Array:
    """I(t): with η = a + sZ, Stein's identity leaves three numbers, E h, E hZ/s and E h(Z² - 1)/s²,
    h the slope of the mean.
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
    slope = h @ nodes / spread
    bend = h @ (nodes**2 - 1) / spread**2
    return np.asarray(
        n * (h.sum() * second + slope * (cross + cross.T) + bend * np.outer(along, along))
    )


def mean_at(predictor: Array, family: Family) -> Array:
    """The mean of the outcome at a predictor that is not too far out, so that there is information
    to divide by.
    """
    return family.mean(np.clip(predictor, -FARTHEST, FARTHEST))


def _root(expected_hessian: Array) -> Array:
    """A Cholesky factor, of a matrix that is flat in no direction."""
    return np.asarray(
        np.linalg.cholesky(raised(expected_hessian, 1e-6 * float(np.abs(expected_hessian).max()))),
        dtype=float,
    )


def logistic_pilot(
    moments: Array, score: Array, n: float, columns: Columns, noise: Array, kappa: float
) -> Array:
    """A line from sum x xᵀ and the score at 0: least squares of the label, then its length.

    If x is near Gaussian, Cov(x, y) = E[p(1 - p)] Cov(x) θ: ordinary least squares has the right
    direction, and two scalar equations give its length and the intercept (Brillinger).  It is a
    ridge in whitened columns, which expects log-odds with a deviation of 1; ``noise`` is a root of
    the covariance of the noise of the score.
    """
    d = len(moments)
    share = float(np.clip(score[0] / n, -_LARGEST_SHARE, _LARGEST_SHARE))
    curvature = 0.25 - share**2
    whitening = preconditioner(moments, columns, n, kappa) * np.sqrt(kappa * d)
    error = float(((whitening @ noise / n) ** 2).sum()) / d + curvature / n
    white = whitening @ moments @ whitening.T / n
    toward = whitening @ (score - share * moments[0]) / n
    values, vectors = np.linalg.eigh((white + white.T) / 2)
    values = np.maximum(values, 0.0)
    ridge = error * d / (_EXPECTED * curvature) ** 2
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
    """A line of the logarithm of a count from sum x xᵀ and the score of the capped count.

    ``score`` is sum x (min(y, c) - c/2)/c, of noise whose covariance has the root ``noise``.  Least
    squares of min(y, c), a ridge in whitened columns that expects a logarithm with a deviation of
    1/2, is mapped to the log scale as for Gaussian rows: Cov(x, e^η) = E[e^η] Cov(x) θ.  That makes
    too much of a rare level with many counts, and the logarithm of its ratio of means too little, as
    more of them are beyond the cap: levels are in the middle.  A bad line costs length, never
    validity.
    """
    d = len(moments)
    whitening = preconditioner(moments, columns, n, kappa) * np.sqrt(kappa * d)
    cap = sizes.cap
    mean = sizes.capped
    toward = whitening @ (2 * score + (1 - 2 * mean / cap) * moments[0])
    signal = (2 * _EXPECTED_LOG * mean * sizes.shows / cap) ** 2 / d
    error = float(((2 * whitening @ noise) ** 2).sum()) / d + 4 * n * mean / cap
    white = whitening @ moments @ whitening.T
    values, vectors = np.linalg.eigh((white + white.T) / 2)
    values = np.maximum(values, 0.0)
    along = vectors.T @ toward
    slopes = cap / 2 * whitening.T @ vectors @ (values * along / (values**2 + error / signal))
    centre = moments[0] / n
    rate = max(mean + float(centre @ slopes), _MIN_RATE * mean)
    coef = slopes / (rate * sizes.shows)
    logs = _logs_of_levels(slopes, rate, centre, columns) / sizes.shows
    coef = np.where(columns.dummy, (coef + logs) / 2, coef)
    coef[0] = 0.0
    covariance = raised(moments / n, 1e-7) - np.outer(centre, centre)
    variance = float(coef @ covariance @ coef)
    whole = rate * sizes.mean / mean
    coef[0] = np.log(whole) - variance / 2 - centre @ coef
    return np.asarray(coef)


def _logs_of_levels(slopes: Array, rate: float, centre: Array, columns: Columns) -> Array:
    """Logarithms of the ratio of the mean of each level and that of its reference, as least squares
    tells them; 0 for numbers.
    """
    logs = np.zeros(len(slopes))
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        reference = max(rate - float(centre[levels] @ slopes[levels]), _MIN_RATE * rate)
        logs[levels] = np.log(np.maximum(1 + slopes[levels] / reference, _MIN_RATE))
    return logs


def _length(spread: float, share: float) -> tuple[float, float]:
    """k and a such that η = a + k spread Z has mean success .5 + share and k E[σ'(η)] = 1, k spread
    capped.
    """
    nodes, weights = normal_nodes()
    k = 4.0
    a = 0.0
    for _ in range(60):
        k = min(k, LARGEST_SPREAD / spread)
        for _ in range(8):
            p = expit(a + k * spread * nodes)
            down = float(weights @ p - 0.5 - share) / max(float(weights @ (p * (1 - p))), 0.01)
            next_a = min(max(a - down, -8.0), 8.0)
            if next_a == a:  # and so for ever
                break
            a = next_a
        p = expit(a + k * spread * nodes)
        before = k
        k = k / 2 + min(1 / float(weights @ (p * (1 - p))), LARGEST_SPREAD / spread) / 2
        if abs(k - before) <= 1e-10 * k:
            break
    return float(k), a


@dataclass(frozen=True)
class MeanInformation:
    """Of records at a line, if x is Gaussian: the mean information p(1 - p), and over it the mean
    of max(p, 1 - p)².
    """

    mean_slope: float
    max_residual2: float

    @classmethod
    def at(cls, moments: Array, coef: Array) -> "MeanInformation":
        """At this line."""
        mean = moments[0] / moments[0, 0]
        covariance = moments / moments[0, 0] - np.outer(mean, mean)
        nodes, weights = normal_nodes()
        p = mean_at(mean @ coef + np.sqrt(max(coef @ covariance @ coef, 1e-9)) * nodes, LOGIT)
        h = weights * p * (1 - p)
        return cls(float(h.sum()), float(h @ np.maximum(p, 1 - p) ** 2 / h.sum()))


@dataclass(frozen=True, eq=False)
class LocalModel:
    """Where steps are taken: the moments, a line, and the matrix A of its geometry.

    ``dispersion`` is the variance of an outcome over the slope of its mean, ``least`` the least
    information that all records have together.  ``columns`` are those of a fit of counts, whose
    curvature follows the shares of levels.
    """

    moments: Array
    coef: Array
    matrix: Array
    family: Family = LOGIT
    dispersion: float = 1.0
    min_information: float = 1.0
    columns: Columns | None = None

    def hessian_after(self, hessian: Array, step: Array) -> Array:
        """H after a step: changed as the information of Gaussian rows is, as T H Tᵀ; that of counts
        as `tilted` has it.
        """
        A = self.matrix
        if self.columns is not None:
            back = self._inverse
            return np.asarray(A @ tilted(back @ hessian @ back.T, A.T @ step, self.columns) @ A.T)
        later = A @ expected_hessian(self.moments, self.coef + A.T @ step, self.family) @ A.T
        change = _root(later) @ self._root_inverse
        return np.asarray(change @ hessian @ change.T)

    def expected_hessian(self) -> Array:
        """H at the line as the moments have it, but for a factor."""
        if self.columns is None:
            seen = expected_hessian(self.moments, self.coef, self.family)
        else:
            seen = tilted(self.moments, self.coef, self.columns)
        return np.asarray(self.matrix @ seen @ self.matrix.T)

    @cached_property
    def _inverse(self) -> Array:
        """A⁻¹."""
        return np.asarray(np.linalg.inv(self.matrix))

    @cached_property
    def _root_inverse(self) -> Array:
        """The inverse of a root of the information at the line."""
        A = self.matrix
        before = A @ expected_hessian(self.moments, self.coef, self.family) @ A.T
        return np.asarray(np.linalg.inv(_root(before)))

    def length(self, hessian: Array, step: Array) -> float:
        """Root mean square of the change of the predictor, in the measure of the curvature."""
        moved = max(float(step @ hessian @ step), 0.0)
        return float(np.sqrt(moved / self._total_slope(hessian)))

    def _total_slope(self, hessian: Array) -> float:
        """The sum of h' over records."""
        level = self._inverse[0]  # the intercept in u
        return max(float(level @ hessian @ level), self.min_information)

    def best_step(self, hessian: Array, score: Array, noise: float) -> Array:
        """The step that undoes a score, as far as it is more than noise of this variance and
        sampling.

        g = H a + error, with a ~ N(0, s H⁻¹), as the error of an estimate is (Zellner's g-prior); the
        length of g tells s: the best linear guess of a.  H is taken half way, as Newton's method overshoots.
        """

        def solved(curvature: Array) -> Array:
            values, vectors = np.linalg.eigh(curvature)
            values = np.maximum(values, 0.0)
            along = vectors.T @ score
            error = noise + self.dispersion * values
            signal = (along @ along - error.sum()) / max(values.sum(), _TINY)
            if signal <= 0:
                return np.zeros(len(score))
            return np.asarray(vectors @ (along / (values + error / signal)))

        step = solved(hessian)
        for _ in range(_HALVINGS):
            step = step / 2 + solved(self.hessian_after(hessian, step / 2)) / 2
        return step

    def remainder_clip(self, hessian: Array, step: Array, max_influence: float) -> float:
        """What a record may add to the rest of a step: the smaller of two bounds for those within
        three mean squares.

        With |z| <= Z a record adds w‖u‖ h' (e^Z - 1 - Z) at most.  That is no more than ‖a‖ (e^Z - 1 - Z)/Z,
        as |z| <= ‖u‖ ‖a‖ and w h'‖u‖² <= 1; where h' is no more than its mean, it is no more than the root
        of that mean times e^Z - 1 - Z; and for a logit no more than B Z²/(6 sqrt 3).
        """
        reach = min(_WIDE * max(self.length(hessian, step), _TINY), _WIDEST)
        left = np.expm1(reach) - reach
        slope = self._total_slope(hessian) / self.moments[0, 0]
        by_length = min(float(np.linalg.norm(step)) / reach, np.sqrt(slope)) * left
        return float(max(min(by_length, _MAX_SECOND_DERIVATIVE * reach**2 * max_influence), 1e-6))


def least_squares_pilot(moments: Array, score: Array, noise: Array, n: float) -> Array:
    """Coefficients of whitened columns from noisy moments and a noisy score of a scaled outcome; a
    ridge.

    ``noise`` is the covariance of the noise of the score.  A coefficient is expected to have a
    variance of .1/d.  A bad line costs length, never validity.
    """
    d = len(moments)
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, 0.0)
    error = float(np.trace(noise)) / d + _SIGNAL * n
    along = vectors.T @ score
    return np.asarray(vectors @ (values * along / (values**2 + error * d / _SIGNAL)))
