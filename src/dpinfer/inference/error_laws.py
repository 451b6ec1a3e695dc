"""The laws of privacy noise and of target - estimate: standard errors, intervals and tests.

What noise was added is unknown, but its law is public: a value that can be printed and integrated
over.  All of it is post-processing and costs nothing.  The error of the released coefficients is

    target - estimate  ~  N(0, sampling) + noise_map b,     b ~ noise,

`sampling` is the sandwich H⁻¹ Σ H⁻¹/n; `noise_map` is H⁻¹/n for objective and -I for output
perturbation.  Gaussian noise gives closed forms; spherical Laplace noise is sampled, as in the
paper.

`BiasedNormal` is a normal law of the error around a bias that is only bounded, at each end by its
own amount.
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, gammaincinv, ndtr, ndtri, roots_genlaguerre, roots_legendre

from dpinfer.inference.constants import NEGLIGIBLE_BIAS
from dpinfer.numerics.arrays import Array, boundary
from dpinfer.numerics.noise_laws import Gaussian, Law
from dpinfer.numerics.reasons import Numerical


def sandwich(hessian: Array, score_cov: Array, n: float) -> Array:
    """H⁻¹ Σ H⁻¹/n, for one pair of matrices or a stack of them."""
    half = np.linalg.solve(hessian, score_cov)
    whole = np.linalg.solve(hessian, half.mT) / n
    return np.asarray((whole + whole.mT) / 2)


class LawOfError(Protocol):
    """The interface of the law of target - estimate to a result."""

    @property
    def draws(self) -> int:
        """Return the number of errors that `sample` returns."""
        ...

    def covariance(self) -> Array:
        """Sampling variance plus noise variance."""
        ...

    def noise_share(self) -> Array:
        """The part of each variance that is privacy noise, from 0 to 1."""
        ...

    def mapped(self, matrix: Array, /) -> "LawOfError":
        """The law of matrix @ (target - estimate)."""
        ...

    def sample(self) -> Array:
        """``draws`` errors, one a row; the same ones each time."""
        ...

    def interval(self, estimate: Array, level: float, /) -> Array:
        """Equal-tailed intervals, one a row."""
        ...

    def length_at(self, level: float, share: Array, /) -> Array:
        """Return the length of each interval if this share of its variance were all of it."""
        ...

    def z_values(self, estimate: Array, /) -> Array:
        """Estimates over standard errors; NaN where these alone do not give the p-values."""
        ...

    def p_values(self, estimate: Array, /) -> Array:
        """Two-sided p-values of "this coefficient is 0", from the same law as the intervals."""
        ...


@dataclass(frozen=True)
class ErrorLaw:
    """The law of target - estimate, with the draws and the seed by which it is sampled where it
    must be.

    ``influence`` and ``response`` are H⁻¹v and Uv, a column for each mapped coordinate v, and the
    two noises are those of the matrices: by them the standard errors themselves are uncertain, and
    intervals widen.  ``step_noise`` is what they add to the covariance where the estimate itself
    was formed with the Hessian.  ``sampled`` asks for quantiles of draws where the law is not
    Gaussian, as the paper does.  The seed makes every interval a function of the result alone; it
    has nothing to do with the privacy noise.
    """

    sampling: Array
    noise_map: Array
    noise: Law
    draws: int
    seed: int
    sampled: bool
    influence: Array
    response: Array
    hessian_noise: float = 0.0
    score_noise: float = 0.0
    step_noise: Array | None = None

    @property
    def closed_form(self) -> bool:
        """Return whether intervals need no draws."""
        return isinstance(self.noise, Gaussian) or not self.sampled

    def covariance(self) -> Array:
        """Sampling variance plus noise variance."""
        return total_covariance(self.normal, self.noise_map, self.noise)

    @property
    def normal(self) -> Array:
        """The covariance of the part that is normal whatever the noise."""
        return self.sampling if self.step_noise is None else self.sampling + self.step_noise

    def noise_share(self) -> Array:
        """The part of each variance that is privacy noise, from 0 to 1."""
        return 1 - np.clip(np.diag(self.sampling) / np.diag(self.covariance()), 0.0, 1.0)

    def mapped(self, matrix: Array) -> "ErrorLaw":
        """The law of matrix @ (target - estimate)."""
        return replace(
            self,
            sampling=matrix @ self.sampling @ matrix.T,
            noise_map=matrix @ self.noise_map,
            influence=self.influence @ matrix.T,
            response=self.response @ matrix.T,
            step_noise=None if self.step_noise is None else matrix @ self.step_noise @ matrix.T,
        )

    def spread(self) -> Array:
        """Relative variance of each standard error, from the noise of the matrices."""
        noise = (self.hessian_noise, self.score_noise)
        return spread(self.influence.T, self.response.T, np.diag(self.covariance()), *noise)

    def sample(self) -> Array:
        """``draws`` errors, one a row; the same ones each time."""
        rng = np.random.default_rng(self.seed)
        root = _square_root(self.normal)
        G = rng.standard_normal((self.draws, len(root))) @ root.T
        errors = (
            G + self.noise.sample(rng, (self.draws, self.noise_map.shape[1])) @ self.noise_map.T
        )
        tau2 = self.spread()
        if not tau2.any():
            return errors
        # widens as `widened` does
        return errors * np.exp(rng.standard_normal((self.draws, 1)) * np.sqrt(tau2) + tau2 / 2)

    def interval(self, estimate: Array, level: float) -> Array:
        """Equal-tailed intervals, one a row: closed form where the law allows it, else quantiles of
        the draws.
        """
        if self.closed_form:
            half = widened(
                half_width(self.normal, self.noise_map, self.noise, level), self.spread(), level
            )
            return np.stack([estimate - half, estimate + half], axis=1)
        tail = (1 - level) / 2
        return estimate[:, None] + np.quantile(self.sample(), [tail, 1 - tail], axis=0).T

    def length_at(self, level: float, share: Array) -> Array:
        """Return the length of each normal interval if this share of its variance were all of it."""
        return np.asarray(-2 * ndtri((1 - level) / 2) * np.sqrt(share * np.diag(self.covariance())))

    def z_values(self, estimate: Array) -> Array:
        """Estimates over standard errors."""
        return np.asarray(estimate / np.sqrt(np.diag(self.covariance())))

    def p_values(self, estimate: Array) -> Array:
        """Two-sided p-values of "this coefficient is 0", from the same law as the intervals."""
        if isinstance(self.noise, Gaussian):
            return _p_values_gaussian(
                np.abs(estimate) / np.sqrt(np.diag(self.covariance())), self.spread()
            )
        if self.closed_form:
            nodes, weights = _gamma_quadrature((self.noise_map.shape[1] + 1) / 2)
            B = np.einsum("ij,ij->i", self.noise_map, self.noise_map)[:, None]
            scales = np.sqrt(np.diag(self.normal)[:, None] + 2 * nodes / self.noise.rate**2 * B)
            return np.asarray(2 * ndtr(-np.abs(estimate)[:, None] / scales) @ weights)
        beyond = np.abs(self.sample()) >= np.abs(estimate)
        return np.asarray((1 + beyond.sum(axis=0)) / (1 + self.draws))


def total_covariance(sampling: Array, noise_map: Array, noise: Law) -> Array:
    """Sampling variance plus noise variance, for one law or a stack."""
    return np.asarray(sampling + noise.variance(noise_map.shape[-1]) * noise_map @ noise_map.mT)


def spread(
    p: Array, q: Array, variance: Array, hessian_noise: float | Array, score_noise: float | Array
) -> Array:
    """τ², the relative variance of standard errors, for rows p = H⁻¹v and q = Uv of each
    coordinate.

    Symmetric noise E of a matrix, diagonal sd s and off-diagonal s/sqrt 2, moves U_vv by -2 pᵀEq
    through H and by pᵀEp/n through Σ; ``score_noise`` is already divided by n.
    """
    if not (np.any(hessian_noise) or np.any(score_noise)):
        return np.zeros_like(variance)
    pp, qq, pq = ((a * b).sum(axis=-1) for a, b in ((p, p), (q, q), (p, q)))
    moved = 2 * np.square(hessian_noise) * (pp * qq + pq**2) + np.square(score_noise) * pp**2
    return np.asarray(moved / (4 * variance**2))


def widened(half: Array, tau2: Array, level: float) -> Array:
    """Half widths that allow for the spread of the standard errors: times 1 + z²τ²/2."""
    z = -ndtri((1 - level) / 2)
    return np.asarray(half * (1 + z**2 * tau2 / 2))


def half_width(sampling: Array, noise_map: Array, noise: Law, level: float) -> Array:
    """Half width of each coordinate's interval without sampling, for one law or a stack of them.

    Gaussian: z sqrt(A + s² B), with A and B the diagonals of the sampling covariance and of
    noise_map noise_mapᵀ.  Spherical Laplace in R^m is N(0, v I) mixed over v ~ Gamma((m + 1)/2,
    rate γ²/2), so the half width q solves E_v[2Φ(q/sqrt(A + vB)) - 1] = level: the limit of the
    sampled interval as the draws grow.
    """
    # rounding can leave a variance just below 0
    A = np.maximum(np.diagonal(sampling, axis1=-2, axis2=-1), 0.0)
    B = np.einsum("...ij,...ij->...i", noise_map, noise_map)
    z = -ndtri((1 - level) / 2)
    if isinstance(noise, Gaussian):
        return np.asarray(z * np.sqrt(A + noise.scale**2 * B))
    m = noise_map.shape[-1]
    nodes, weights = _gamma_quadrature((m + 1) / 2)
    scales = np.sqrt(A[..., None] + 2 * nodes / noise.rate**2 * B[..., None])
    q = z * np.sqrt(A)
    for _ in range(60):  # Newton from the left on a concave function: monotone
        excess = level - (2 * ndtr(q[..., None] / scales) - 1) @ weights
        step = excess / (
            2
            * np.exp(-((q[..., None] / scales) ** 2) / 2)
            / (scales * np.sqrt(2 * np.pi))
            @ weights
        )
        q = q + step
        if np.all(np.abs(step) <= 1e-12 * q):
            break
    return q


def _gamma_quadrature(shape: float) -> tuple[Array, Array]:
    """Nodes and weights of the mean over a Gamma law: Gauss-Laguerre, or Legendre in probability
    for large shapes.
    """
    if shape < 60:
        nodes, weights = roots_genlaguerre(64, shape - 1)
        return nodes, weights / weights.sum()
    nodes, weights = roots_legendre(64)
    return np.asarray(gammaincinv(shape, (nodes + 1) / 2), dtype=float), weights / 2


def _p_values_gaussian(z: Array, tau2: Array) -> Array:
    root = z.copy()
    for _ in range(50):  # z is what z' (1 + z'²τ²/2) must equal
        root = root - (root * (1 + root**2 * tau2 / 2) - z) / (1 + 1.5 * root**2 * tau2)
    return np.asarray(2 * ndtr(-root))


def wald_is_exact(error: LawOfError) -> bool:
    """Return whether the quadratic statistic has a chi-square distribution; else it is simulated."""
    return (
        isinstance(error, ErrorLaw)
        and isinstance(error.noise, Gaussian)
        and not error.spread().any()
    )


def draws_of_test(error: LawOfError, count: int) -> int:
    """Return how many draws decide the p-value of ``count`` restrictions; 0 where it is computed."""
    if count > 1:
        return 0 if wald_is_exact(error) else error.draws
    if isinstance(error, ErrorLaw) and not error.closed_form:
        return error.draws
    return 0


def wald(difference: Array, error: LawOfError) -> tuple[float, float]:
    """Quadratic statistic and p-value of "the mapped target is 0" for a mapped estimate."""
    inverse = np.linalg.inv(error.covariance())
    statistic = float(difference @ inverse @ difference)
    if len(difference) == 1:  # one p-value for one number, wherever it is shown
        return statistic, float(error.p_values(difference)[0])
    if wald_is_exact(error):
        return statistic, float(chdtrc(len(difference), statistic))
    draws = error.sample()
    beyond = np.einsum("ki,ij,kj->k", draws, inverse, draws) >= statistic
    return statistic, float((1 + beyond.sum()) / (1 + error.draws))


def simultaneous(estimate: Array, error: LawOfError, level: float) -> Array:
    """Sup-t bands: intervals that hold all together with probability ``level``."""
    std_error = np.sqrt(np.diag(error.covariance()))
    critical = np.quantile(np.abs(error.sample() / std_error).max(axis=1, initial=0.0), level)
    return np.stack([estimate - critical * std_error, estimate + critical * std_error], axis=1)


def _square_root(covariance: Array) -> Array:
    """A matrix A with A Aᵀ = covariance, for any positive semidefinite covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


_PRECISE: Numerical[float] = 1e-13  # relative width of the bracket of a quantile
_MIN_SHARE: Numerical[float] = 1e-12
"""The smallest share of a variance of which an interval is computed."""
_TINY: Numerical[float] = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class BiasedNormal:
    """The law of target - estimate: N(0, sampling + noise), with ``below`` and ``above`` allowed
    for at the two ends.

    The allowances are for what is not random, as a bias of known size and unknown sign.  The seed
    makes `sample` a function of the result alone; it has nothing to do with the privacy noise.
    """

    sampling: Array
    noise: Array
    below: Array
    above: Array
    draws: int
    seed: int

    def covariance(self) -> Array:
        """Sampling variance plus noise variance."""
        return np.asarray(self.sampling + self.noise)

    @property
    def _std_error(self) -> Array:
        return np.sqrt(np.diag(self.covariance()))

    def noise_share(self) -> Array:
        """The part of each variance that is privacy noise, from 0 to 1."""
        return np.asarray(
            1 - np.clip(np.diag(self.sampling) / np.diag(self.covariance()), 0.0, 1.0)
        )

    def mapped(self, matrix: Array) -> "BiasedNormal":
        """The law of matrix @ (target - estimate); what is allowed at an end follows the signs."""
        up = np.maximum(matrix, 0.0)
        down = np.maximum(-matrix, 0.0)
        return replace(
            self,
            sampling=matrix @ self.sampling @ matrix.T,
            noise=matrix @ self.noise @ matrix.T,
            below=up @ self.below + down @ self.above,
            above=up @ self.above + down @ self.below,
        )

    def sample(self) -> Array:
        """``draws`` errors, one a row, each moved outwards by what is allowed there; the same ones
        each time.
        """
        rng = np.random.default_rng([self.seed, 1])
        values, vectors = np.linalg.eigh(self.covariance())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        errors = rng.standard_normal((self.draws, len(values))) @ root.T
        return np.asarray(errors + np.where(errors > 0, self.above, -self.below))

    def band(self, estimate: Array, level: float) -> Array:
        """Sup-t bands of the law without allowances, longer by each one's own at its ends."""
        nothing = np.zeros_like(self.below)
        plain = simultaneous(estimate, replace(self, below=nothing, above=nothing), level)
        return np.asarray(plain + np.stack([-self.below, self.above], axis=1))

    @property
    def _middle(self) -> Array:
        """The middle of what is allowed for, from the estimate."""
        return np.asarray((self.above - self.below) / 2)

    @property
    def _bias(self) -> Array:
        """The largest bias around that middle, in standard errors."""
        return self._bias_over(self._std_error)

    def _bias_over(self, std_error: Array) -> Array:
        """Return the largest bias in multiples of these standard errors."""
        return np.asarray((self.above + self.below) / 2 / np.maximum(std_error, _TINY))

    def _half_width(self, level: float, std_error: Array) -> Array:
        biases = self._bias_over(std_error).tolist()
        return np.array([folded_quantile(bias, level) for bias in biases]) * std_error

    def length_at(self, level: float, share: Array) -> Array:
        """Return the length of each interval if this share of its variance were all of it; the bound
        of the bias stays.
        """
        # a variance of 0 would make the relative bias infinite
        kept = np.sqrt(np.maximum(share, _MIN_SHARE))
        return 2 * self._half_width(level, self._std_error * kept)

    def interval(self, estimate: Array, level: float) -> Array:
        """The shortest interval around the middle that covers at this level whatever the bias."""
        half = self._half_width(level, self._std_error)
        return np.stack([estimate + self._middle - half, estimate + self._middle + half], axis=1)

    @property
    def allows(self) -> npt.NDArray[np.bool_]:
        """Return whether an interval is longer, at one end or both, than its standard error implies."""
        return np.maximum(self.below, self.above) > NEGLIGIBLE_BIAS * self._std_error

    def z_values(self, estimate: Array) -> Array:
        """Estimates over standard errors; NaN where something is allowed for, as intervals and
        p-values then rest on more than that.
        """
        z = estimate / np.maximum(self._std_error, np.finfo(float).tiny)
        return np.asarray(np.where(self.allows, np.nan, z))

    def p_values(self, estimate: Array) -> Array:
        """Two-sided p-values of "this coefficient is 0": 1 less the largest level whose interval
        excludes it.
        """
        away = np.abs(estimate + self._middle) / np.maximum(self._std_error, np.finfo(float).tiny)
        return np.asarray(ndtr(self._bias - away) + ndtr(-self._bias - away))


def folded_quantile(bias: float, level: float) -> float:
    """c with P(|Z + bias| <= c) = level for a standard normal Z: bias plus a two-sided quantile at
    most.

    It is less by up to the distance to the one-sided quantile, for a bias that moves one end out
    moves the other in.  A smaller bias is covered more often.
    """

    def short(c: float) -> bool:
        return bool(ndtr(c - bias) - ndtr(-c - bias) < level)

    return boundary(short, 0.0, bias - float(ndtri((1 - level) / 2)), _PRECISE)[1]
