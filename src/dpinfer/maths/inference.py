"""From released numbers to standard errors, intervals and tests.  All of it is post-processing and costs nothing.

The error of the released coefficients is

    target - estimate  ~  N(0, sampling) + noise_map b,     b ~ noise,

`sampling` is the sandwich H⁻¹ Σ H⁻¹/n; `noise_map` is H⁻¹/n for objective and -I for output perturbation.
Gaussian noise gives closed forms; spherical Laplace noise is sampled, as in the paper.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.laws import Gaussian, Law


def sandwich(hessian: Array, score_cov: Array, n: int) -> Array:
    """H⁻¹ Σ H⁻¹/n."""
    if not np.linalg.cond(hessian) < 1e15:
        raise InputError("the Hessian is singular: a column is constant or a combination of others; set penalty > 0")
    half = np.linalg.solve(hessian, score_cov)
    whole = np.linalg.solve(hessian, half.T) / n
    return (whole + whole.T) / 2


@dataclass(frozen=True)
class ErrorLaw:
    """The law of target - estimate, with the draws and the seed by which it is sampled where it must be.

    The seed makes every interval a function of the result alone; it has nothing to do with the privacy noise.
    """

    sampling: Array
    noise_map: Array
    noise: Law
    draws: int
    seed: int

    @property
    def closed_form(self) -> bool:
        """Whether the law is Gaussian."""
        return isinstance(self.noise, Gaussian)

    def covariance(self) -> Array:
        """Sampling variance plus noise variance."""
        return self.sampling + self.noise.variance(self.noise_map.shape[1]) * self.noise_map @ self.noise_map.T

    def mapped(self, matrix: Array) -> "ErrorLaw":
        """The law of matrix @ (target - estimate)."""
        return ErrorLaw(matrix @ self.sampling @ matrix.T, matrix @ self.noise_map, self.noise, self.draws, self.seed)

    def sample(self) -> Array:
        """``draws`` errors, one a row; the same ones each time."""
        rng = np.random.default_rng(self.seed)
        root = _square_root(self.sampling)
        G = rng.standard_normal((self.draws, len(root))) @ root.T
        return G + self.noise.sample(rng, (self.draws, self.noise_map.shape[1])) @ self.noise_map.T


def interval(estimate: Array, error: ErrorLaw, level: float) -> Array:
    """Equal-tailed intervals, one a row: closed form where the law is Gaussian, else quantiles of the draws."""
    tail = (1 - level) / 2
    if error.closed_form:
        half = -ndtri(tail) * np.sqrt(np.diag(error.covariance()))
        return np.stack([estimate - half, estimate + half], axis=1)
    return estimate[:, None] + np.quantile(error.sample(), [tail, 1 - tail], axis=0).T


def p_values(estimate: Array, error: ErrorLaw) -> Array:
    """Two-sided p-values of "this coefficient is 0", from the same law as the intervals."""
    if error.closed_form:
        return np.asarray(2 * ndtr(-np.abs(estimate) / np.sqrt(np.diag(error.covariance()))))
    beyond = np.abs(error.sample()) >= np.abs(estimate)
    return np.asarray((1 + beyond.sum(axis=0)) / (1 + error.draws))


def wald(difference: Array, error: ErrorLaw) -> tuple[float, float]:
    """Quadratic statistic and p-value of "the mapped target is 0" for a mapped estimate."""
    inverse = np.linalg.inv(error.covariance())
    statistic = float(difference @ inverse @ difference)
    if error.closed_form:
        return statistic, float(chdtrc(len(difference), statistic))
    draws = error.sample()
    beyond = np.einsum("ki,ij,kj->k", draws, inverse, draws) >= statistic
    return statistic, float((1 + beyond.sum()) / (1 + error.draws))


def simultaneous(estimate: Array, error: ErrorLaw, level: float) -> Array:
    """Sup-t bands: intervals that hold all together with probability ``level``."""
    std_error = np.sqrt(np.diag(error.covariance()))
    critical = np.quantile(np.abs(error.sample() / std_error).max(axis=1), level)
    return np.stack([estimate - critical * std_error, estimate + critical * std_error], axis=1)


def _square_root(covariance: Array) -> Array:
    """A matrix A with A Aᵀ = covariance, for any positive semidefinite covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
