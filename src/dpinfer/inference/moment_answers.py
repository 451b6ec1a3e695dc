"""Regressions, means and correlations from released second and fourth moments, with the law of their error.

| symbol | meaning                                                               | name in code      |
| ------ | --------------------------------------------------------------------- | ----------------- |
| u      | a row in the geometry of the release, u = M (1, x~)                   | `matrix` is M     |
| N      | Σ w u uᵀ; released with noise E of sd s                               | `second`          |
| Q      | Σ q qᵀ, q = w svec(u uᵀ): fourth moments; released with noise of sd s₄ | `fourth`         |
| λ_k    | a feature as a vector: x_k = λ_k·u                                    | `vectors`         |
| a      | the residual as a vector: y - Σ β_k x_k = a·u                         | `residual`        |
| b_j    | the part of a column that decides its slope: β_j moves by b_jᵀ E a    | `influence`       |
| P      | projection on the matrices that have the known entries                | `projected`       |

**Known entries.**  Many entries of x xᵀ are the same number for every record (`dpinfer.schema.features`).  N̂
is projected on the matrices in which they hold.  That only removes noise, whose law stays exact: its
covariance is s² P.  The released sum of weights is λ₁ᵀN λ₁ seen once more, and enters as in a Kalman filter.

**Weights.**  The coefficients asked for are those of Σ u uᵀ = N + R, R = Σ (1 - w) u uᵀ.  R is positive
semidefinite with the trace Σ (‖u‖² - 1)₊, which is released, so that ‖R‖ is at most that.  In which
direction it points is not known: an error of (k tr R)²/dim in each entry of svec is added to that of the noise.

**A regression.**  With G = (λ_iᵀ N̂ λ_k) and c = (λ_iᵀ N̂ λ_y), the true coefficients have

    c - Gβ = Λ N a + Λ E a,      Cov(Λ E a) = s² ⟨P sym(λ_i aᵀ), P sym(λ_k aᵀ)⟩,

which holds however weak a column is (Anderson and Rubin, 1949).  To first order

    Cov(β̂)_jk = s² ⟨P sym(b_j aᵀ), P sym(b_k aᵀ)⟩ + T(a, a, b_j, b_k),      T = Σ w² (a·u)² (b_j·u)(b_k·u):

noise and sampling; the latter is the sandwich covariance HC0 of the weighted fit (White, 1980), of units the
cluster-robust one (Liang and Zeger, 1986).
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock

import numpy as np
import numpy.typing as npt

from dpinfer.inference.constants import MAX_ERROR_SHARE, MIN_SIGNAL
from dpinfer.numerics.arrays import Array, solved, svec, unsvec
from dpinfer.numerics.reasons import Constant, Numerical

Pair = tuple[int, int]
_AT_ONCE = Lock()
_RANK: Numerical[float] = 1e-9  # of the largest singular value of the known entries
_TINY: Numerical[float] = float(np.finfo(float).tiny)
_NORM_DRAWS: Numerical[int] = 2000
_FAINT: Numerical[float] = 1e-3  # of the prior precision: so that every system has a solution
VARIANCE_RATIOS: Numerical[tuple[tuple[float, float, float], ...]] = (
    (0.9, 1.1, 0.4),
    (0.1, 2.5, 1.5),
)
UNIT_VARIANCE_RATIOS: Numerical[tuple[tuple[float, float, float], ...]] = (
    (0.5, 0.6, 0.3),
    (0.4, 1.1, 0.4),
    (0.1, 2.5, 1.5),
)
"""Probability, mean and sd of the parts of the prior of a sampling variance over that of equal variances.

Robust variances are mostly .7 to 1.5 times those of equal variances, and seldom several times; those of averages
over the rows of a unit are smaller.
"""
MIN_VARIANCE_RATIO = Constant(
    0.2,
    name="MIN_VARIANCE_RATIO",
    decides="the smallest sampling variance over that of equal variances, in answers from released moments",
    reason="below it noise would take a sampling variance for next to none; robust variances of real regressions are "
    "seldom below a third",
    source="convention",
)
WEIGHT_BIAS = Constant(
    0.15,
    name="WEIGHT_BIAS",
    decides="the root mean square of what weights take from the second moments in a direction, over the excess of all "
    "rows beyond the radius",
    reason="what they take is positive semidefinite with that excess as its trace, which bounds its norm; where a "
    "hundred records or more are in excess, .06 to .16 of that is in the directions that decide slopes",
    source="simulation over 10 cells (python -m studies.moments.weights)",
)
MAX_BIAS_SHARE = Constant(
    0.3,
    name="MAX_BIAS_SHARE",
    decides="the bias bound of a clipped number, over its slope, beyond which the slope is not reported",
    reason="a slope that may be three tenths too large or too small says little but its sign",
    source="convention",
)


def symmetric(first: Array, second: Array) -> Array:
    """Return svec of (a bᵀ + b aᵀ)/2, for vectors or stacks of them."""
    both = first[..., :, None] * second[..., None, :]
    return svec((both + both.swapaxes(-1, -2)) / 2)


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """The published sums of a moment release in its geometry, their noise, and public facts about them.

    ``weight`` is the sum of weights, ``excess`` that of what rows are beyond the radius.
    ``same`` are the pairs of features whose product is that of another pair, or 0.  Of each feature
    ``slope_bias`` is the largest share of a slope that its clipping may have changed, ``mean_bias`` that of
    its mean, and ``moment_bias`` the share of a covariance.
    """

    matrix: Array
    middle: Array
    half: Array
    second: Array
    weight: float
    excess: float
    noise: float
    weight_noise: float
    fourth: Array
    fourth_noise: float
    of_units: bool
    same: tuple[tuple[Pair, Pair | None], ...]
    slope_bias: Array
    mean_bias: Array
    moment_bias: Array

    def __len__(self) -> int:
        return len(self.middle)

    def fits(self, features: int) -> bool:
        """Return whether all arrays are those of so many features, and all numbers finite."""
        pairs = features * (features + 1) // 2
        shapes = {
            (features, features): (self.matrix,),
            (features,): (
                self.middle,
                self.half,
                self.slope_bias,
                self.mean_bias,
                self.moment_bias,
            ),
            (pairs,): (self.second,),
            (pairs * (pairs + 1) // 2,): (self.fourth,),
        }
        return all(
            array.shape == shape and bool(np.isfinite(array).all())
            for shape, arrays in shapes.items()
            for array in arrays
        )

    @cached_property
    def vectors(self) -> Array:
        """λ_k: each feature in original units as a vector, one a row."""
        to_units = np.diag(self.half)
        to_units[:, 0] = self.middle
        to_units[0, 0] = 1.0
        return np.asarray(np.linalg.solve(self.matrix.T, to_units.T).T)

    @cached_property
    def _known(self) -> Array:
        """An orthonormal basis of the matrices that are orthogonal to Σ w u uᵀ for every table.

        With many levels it takes a second, so that threads that ask at once wait for one of them.
        """
        with _AT_ONCE:
            if "_known" not in self.__dict__:
                self.__dict__["_known"] = self._known_basis()
            return np.asarray(self.__dict__["_known"])

    def _known_basis(self) -> Array:
        dim = len(self.matrix) * (len(self.matrix) + 1) // 2
        if not self.same:
            return np.zeros((0, dim))
        vectors = self.vectors
        rows = np.empty((len(self.same), dim))
        for place, ((j, k), other) in enumerate(self.same):
            rows[place] = symmetric(vectors[j], vectors[k])
            if other is not None:
                rows[place] -= symmetric(vectors[other[0]], vectors[other[1]])
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
        # products of independent features are independent, so that nearly always nothing is left out
        basis, triangle = np.linalg.qr(rows.T)
        sizes = np.abs(np.diag(triangle))
        if sizes.min() > _RANK * sizes.max():
            return np.asarray(basis.T)
        _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
        return np.asarray(basis[sizes > _RANK * sizes[0]])

    def projected(self, gradients: Array) -> Array:
        """Return P g for each gradient g."""
        return np.asarray(gradients - (gradients @ self._known.T) @ self._known)

    @cached_property
    def _counted(self) -> tuple[Array, float]:
        """The gradient of the sum of weights, and the gain of its second release."""
        gradient = self.projected(symmetric(self.vectors[0], self.vectors[0]))
        ratio2 = (self.weight_noise / max(self.noise, _TINY)) ** 2
        return gradient, 1 / (float(gradient @ gradient) + ratio2)

    @cached_property
    def moments(self) -> Array:
        """N̂ with all that is known of it."""
        gradient, gain = self._counted
        found = self.projected(self.second)
        seen = float(symmetric(self.vectors[0], self.vectors[0]) @ found)
        return unsvec(found + gain * (self.weight - seen) * gradient, len(self.matrix))

    @cached_property
    def n(self) -> float:
        """The sum of weights, at least 1."""
        return max(float(self.vectors[0] @ self.moments @ self.vectors[0]), 1.0)

    def noise_covariance(self, gradients: Array) -> Array:
        """Return the covariance of the noise of linear functions of N̂, by their gradients (k, dim)."""
        inner = self.projected(gradients)
        gradient, gain = self._counted
        along = inner @ gradient
        return np.asarray(self.noise**2 * (inner @ inner.T - gain * np.outer(along, along)))

    def error_covariance(self, gradients: Array) -> Array:
        """Return the covariance of the error of linear functions of N̂ that is not sampling error: its noise,
        and what weights take from the moments, in a direction that is not known.
        """
        inner = self.projected(gradients)
        lost = WEIGHT_BIAS * max(self.excess, 0.0)
        of_weights = lost**2 / inner.shape[-1] * (inner @ inner.T)
        return np.asarray(self.noise_covariance(gradients) + of_weights)

    @cached_property
    def _fourth(self) -> Array:
        dim = len(self.matrix) * (len(self.matrix) + 1) // 2
        return unsvec(self.fourth, dim)

    def sampling(self, residual: Array, influence: Array) -> tuple[Array, Array]:
        """Return T(a, a, b_j, b_k) and the sd of the noise of each T(a, a, b_j, b_j).

        Without units Q is a symmetric tensor of order 4, and the released one is projected on those: a
        contraction is then the mean over the three ways to pair a, a, b_j and b_k.
        """
        both = symmetric(np.broadcast_to(residual, influence.shape), influence)
        found = both @ self._fourth @ both.T
        if self.of_units:
            return found, self.fourth_noise * (both**2).sum(axis=1)
        squares = unsvec(symmetric(residual, residual) @ self._fourth, len(self.matrix))
        found = (2 * found + influence @ squares @ influence.T) / 3
        aa = float(residual @ residual)
        bb = (influence**2).sum(axis=1)
        ab = influence @ residual
        norm2 = (4 * (aa * bb) ** 2 + 16 * aa * bb * ab**2 + 4 * ab**4) / 24
        return found, self.fourth_noise * np.sqrt(norm2)

    def spread(self, gradient: Array) -> tuple[float, float]:
        """Return Σ (q·γ)² for one gradient γ, and the sd of its noise."""
        return float(gradient @ self._fourth @ gradient), self.fourth_noise * float(
            gradient @ gradient
        )

    def shrunk_ratio(self, ratio: Array, noise: Array) -> tuple[Array, Array]:
        """Return mean and sd of the ratio of a sampling variance to that of equal variances, given what
        was released of it with this noise.
        """
        prior = np.array(UNIT_VARIANCE_RATIOS if self.of_units else VARIANCE_RATIOS)
        chance, mean, sd = prior.T[:, :, None]
        total = sd**2 + noise**2
        log_weight = np.log(chance) - (ratio - mean) ** 2 / total / 2 - np.log(total) / 2
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight /= weight.sum(axis=0)
        middle = (ratio * sd**2 + mean * noise**2) / total
        first = (weight * middle).sum(axis=0)
        second = (weight * (middle**2 + (sd * noise) ** 2 / total)).sum(axis=0)
        return np.maximum(first, MIN_VARIANCE_RATIO), np.sqrt(np.maximum(second - first**2, 0.0))


@dataclass(frozen=True, eq=False)
class Answer:
    """A regression from released moments: coefficients, the two parts of their covariance, bias bounds.

    ``signal`` is the information on a column over the sd of its noise, ``plausible`` the size that a
    coefficient is expected to have at most.
    """

    coef: Array
    sampling: Array
    noise: Array
    bias: Array
    signal: Array
    plausible: Array
    second: Array
    score_cov: Array

    @property
    def std_error(self) -> Array:
        """Return the standard errors, without bias bounds."""
        return np.sqrt(np.diag(self.sampling + self.noise))

    @property
    def too_noisy(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the coefficients that noise decides."""
        found = (self.signal < MIN_SIGNAL) | (self.std_error > MAX_ERROR_SHARE * self.plausible)
        found[0] = self.signal[0] < MIN_SIGNAL
        return np.asarray(found)

    def too_biased(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the slopes whose clipping may have changed too much of them."""
        size = np.maximum(np.abs(self.coef), self.std_error)
        found = self.bias > MAX_BIAS_SHARE * size
        found[0] = False
        return np.asarray(found)


def regression(
    sums: ReleasedSums, columns: Array, outcome: Array, levels: npt.NDArray[np.bool_]
) -> Answer:
    """Return least squares of an outcome on columns, each a combination of the features.

    ``levels`` marks columns that are 0 or 1; the first column is the intercept.
    """
    x = columns @ sums.vectors
    y = outcome @ sums.vectors
    mean = x @ sums.moments @ x[0] / sums.n
    mean[0] = 0.0
    centred = x - mean[:, None] * x[0]
    sd, sd_y = _sds(sums, centred), _sds(sums, y[None])[0]
    sd[0] = 1.0
    plausible = np.where(levels, np.minimum(1.0, 2 * sd), 1.0)
    plausible[0] = 10 * (1 + abs(float(y @ sums.moments @ x[0])) / sums.n / sd_y)
    found = _solved(sums, centred / sd[:, None], y / sd_y, plausible)
    # back to original units, and from the intercept at the means to the one at 0
    back = np.diag(sd_y / sd)
    back[0, 1:] = -mean[1:] * sd_y / sd[1:]
    coef = back @ found.coef
    return Answer(
        coef=coef,
        sampling=back @ found.sampling @ back.T,
        noise=back @ found.noise @ back.T,
        bias=_bias(sums, columns, outcome, coef, mean),
        signal=found.signal,
        plausible=plausible * sd_y / sd,
        second=x @ sums.moments @ x.T / sums.n,
        score_cov=sums.sampling(y - coef @ x, x)[0] / sums.n,
    )


def _sds(sums: ReleasedSums, vectors: Array) -> Array:
    """Return the sds of columns, by more than the noise of their variances."""
    m = sums.moments
    n = sums.n
    one = sums.vectors[0]
    variance = np.einsum("ij,jk,ik->i", vectors, m, vectors) / n - (vectors @ m @ one / n) ** 2
    floor = sums.noise / n * np.einsum("ij,ij->i", vectors, vectors)
    return np.asarray(np.sqrt(np.maximum(variance, floor + _TINY)))


@dataclass(frozen=True, eq=False)
class _StandardisedAnswer:
    coef: Array
    sampling: Array
    noise: Array
    signal: Array


def _solved(sums: ReleasedSums, x: Array, y: Array, plausible: Array) -> _StandardisedAnswer:
    """Return the regression between columns and outcome of sd 1.

    The estimate solves c - Gβ = 0 in the metric of its noise.  For the slope of one column all other
    coefficients have the prior N(β̂, plausible²), so that a weak column does not decide others; without
    noise they have none.
    """
    m = sums.moments
    n = sums.n
    d = len(x)
    gram = x @ m @ x.T
    score = x @ m @ y
    coef: Array = np.asarray(np.linalg.pinv(gram) @ score)
    precision: Array = np.eye(d)
    faint = _FAINT * np.diag(plausible**-2.0) if sums.noise else np.zeros((d, d))
    for _ in range(2):  # the noise of c - Gβ depends on β
        residual = y - coef @ x
        noise = sums.noise_covariance(symmetric(x, np.broadcast_to(residual, x.shape)))
        variance = max(float(residual @ m @ residual), sums.noise * float(residual @ residual)) / n
        precision = np.asarray(
            np.linalg.inv(noise + variance * _positive(gram, x, sums.noise)), dtype=np.float64
        )
        fisher = gram @ precision @ gram
        coef = solved(fisher + faint, gram @ (precision @ score))
    maps, estimate, pulled = np.empty((d, d)), np.empty(d), np.empty(d)
    for j in range(d):
        prior = plausible**-2.0 if sums.noise else np.zeros(d)
        prior[j] = 0.0
        maps[j] = solved(fisher + np.diag(prior), gram @ precision)[j]
        left = np.eye(d)[j] - maps[j] @ gram
        estimate[j] = maps[j] @ score + left @ coef
        left[j] = 0.0
        pulled[j] = ((left * plausible) ** 2).sum()
    residual = y - coef @ x
    influence = maps @ x
    noise = sums.error_covariance(symmetric(influence, np.broadcast_to(residual, influence.shape)))
    about = np.einsum("ij,jk,ik->i", influence, m, influence)
    squares = symmetric(influence, influence)
    doubt = np.sqrt(np.maximum(np.diag(sums.noise_covariance(squares)), _TINY))
    equal = variance * np.maximum(about, doubt)
    sampling = _sampling(sums, residual, influence, equal, np.diag(noise))
    # noise of the information on other columns times that of the column's own direction
    relative = sums.noise * float(np.median((influence**2).sum(axis=1) / np.maximum(about, doubt)))
    more = pulled + np.diag(noise) * (d - 1) * relative**2 / 2
    return _StandardisedAnswer(
        coef=estimate,
        sampling=sampling,
        noise=noise + np.diag(more),
        signal=about / doubt,
    )


def _sampling(
    sums: ReleasedSums, residual: Array, influence: Array, equal: Array, noise: Array
) -> Array:
    """Return the sampling covariance: released fourth moments, each variance drawn to that of equal
    variances as far as noise hides it, and raised for what stays unknown.

    A variance that is unknown by the sd t, beside a noise variance v, is raised by (z² + 1)/4 t²/(v + its
    mean), what the concavity of the coverage in the variance costs on average; z = 1.96.
    """
    found, unsure = sums.sampling(residual, influence)
    ratio, left = sums.shrunk_ratio(np.diag(found) / equal, unsure / equal)
    variance = equal * ratio
    raised = (1.96**2 + 1) / 4 * (equal * left) ** 2 / np.maximum(variance + noise, _TINY)
    variance = variance + np.minimum(raised, equal * left)
    # the correlations of noisy variances, none of which is below a fifth of that of equal variances
    sd = np.sqrt(np.maximum(np.diag(found), MIN_VARIANCE_RATIO * equal))
    correlation = found / np.outer(sd, sd)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(np.clip(correlation, -1.0, 1.0))
    correlation = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = np.sqrt(np.diag(correlation))
    root = np.sqrt(variance) / size
    return np.asarray(correlation * np.outer(root, root))


def _positive(gram: Array, x: Array, noise: float) -> Array:
    """Return a Gram matrix with its eigenvalues at least one noise sd, in the geometry of the release."""
    if not noise:
        return gram
    inner = x @ x.T
    root = np.linalg.cholesky(inner + 1e-12 * np.trace(inner) * np.eye(len(x)))
    middle = np.linalg.solve(root, np.linalg.solve(root, gram).T)
    values, vectors = np.linalg.eigh((middle + middle.T) / 2)
    return np.asarray(root @ (vectors * np.maximum(values, noise)) @ vectors.T @ root.T)


def _bias(sums: ReleasedSums, columns: Array, outcome: Array, coef: Array, mean: Array) -> Array:
    """Return a bound of what clipped numbers change of each coefficient.

    A clipped column changes its own slope by at most its share, a clipped outcome every slope by its own;
    the intercept follows by the slopes, and by the means of columns and outcome.
    """
    own = np.array([_largest(sums.slope_bias, row) for row in columns])
    bias = np.asarray((own + _largest(sums.slope_bias, outcome)) * np.abs(coef))
    of_means = np.abs(np.vstack([outcome, columns[1:]])) @ sums.mean_bias
    bias[0] = bias[1:] @ np.abs(mean[1:]) + of_means @ np.append(1.0, np.abs(coef[1:]))
    return bias


def _largest(bias: Array, feature: Array) -> float:
    """Return the largest bias bound among the features that a combination is made of."""
    return float(bias[feature != 0].max(initial=0.0))


def any_model_factor(features: int, level: float) -> float:
    """Return standard errors within which, with chance ``level``, every slope of every regression is.

    For normal rows in coordinates that whiten them exactly, noise and sampling error together are one
    isotropic symmetric matrix E, and |bᵀE a| <= ‖E‖ ‖a‖ ‖b‖, where the sd of bᵀE a is ‖a‖ ‖b‖/sqrt 2 for
    an entry of svec(E) with sd 1: sqrt 2 times a quantile of the spectral norm, near 2 sqrt p + 1.
    """
    return math.sqrt(2.0) * float(np.quantile(_spectral_norms(features), level))


@lru_cache(maxsize=4)
def _spectral_norms(features: int) -> Array:
    rng = np.random.default_rng(features)
    dim = features * (features + 1) // 2
    return np.array(
        [
            np.abs(np.linalg.eigvalsh(unsvec(rng.standard_normal(dim), features))).max()
            for _ in range(_NORM_DRAWS)
        ]
    )


@dataclass(frozen=True)
class MomentEstimate:
    """One number from released moments, with its standard error and a bound of what clipping changes."""

    value: float
    std_error: float
    bias: float


TOO_NOISY = MomentEstimate(math.nan, math.nan, math.nan)
"""An estimate that noise hides: a variance that it divides by is not clear of noise."""


def functional(
    sums: ReleasedSums, value: float, gradient: Array, radius2: float, bias: float
) -> MomentEstimate:
    """Return the error of a smooth function of N by its gradient, as svec: noise, and sampling by the
    fourth moments.

    For normal rows its sampling variance is 2n‖γ‖²/R⁴, to which the released one is drawn.
    """
    noise = float(sums.error_covariance(gradient[None])[0, 0])
    found, unsure = sums.spread(gradient)
    normal = 2 * sums.n / radius2**2 * float(gradient @ gradient)
    ratio, left = sums.shrunk_ratio(np.array([found / normal]), np.array([unsure / normal]))
    variance = normal * float(ratio[0])
    raised = (1.96**2 + 1) / 4 * (normal * float(left[0])) ** 2 / max(variance + noise, _TINY)
    variance += min(raised, normal * float(left[0]))
    return MomentEstimate(value, math.sqrt(noise + variance), bias)


def mean(sums: ReleasedSums, feature: Array, radius2: float) -> MomentEstimate:
    """Return the mean of a combination of features."""
    one = sums.vectors[0]
    x = feature @ sums.vectors
    value = float(x @ sums.moments @ one) / sums.n
    gradient = symmetric(one, x - value * one) / sums.n
    return functional(sums, value, gradient, radius2, float(np.abs(feature) @ sums.mean_bias))


def covariance(sums: ReleasedSums, first: Array, second: Array, radius2: float) -> MomentEstimate:
    """Return the covariance of two combinations of features."""
    one, x, y = _centred(sums, first, second)
    value = float(x @ sums.moments @ y) / sums.n
    gradient = symmetric(x, y) - value * symmetric(one, one)
    share = _moment_bias(sums, first, second)
    return functional(sums, value, gradient / sums.n, radius2, share * abs(value))


def _moment_bias(sums: ReleasedSums, first: Array, second: Array) -> float:
    """Return the share of a covariance that clipping may have changed, and so of a correlation."""
    return _largest(sums.moment_bias, first) + _largest(sums.moment_bias, second)


def correlation(sums: ReleasedSums, first: Array, second: Array, radius2: float) -> MomentEstimate:
    """Return the correlation of two combinations of features."""
    _, x, y = _centred(sums, first, second)
    return _correlated(sums, x, y, radius2, _moment_bias(sums, first, second))


def partial_correlation(
    sums: ReleasedSums, first: Array, second: Array, given: Array, radius2: float
) -> MomentEstimate:
    """Return the correlation of two combinations of features given others, the intercept among them.

    It is that of the residuals; the errors of their coefficients change it by products of errors alone.
    """
    z = given @ sums.vectors
    m = sums.moments
    inverse = np.linalg.pinv(z @ m @ z.T)
    # what others leave of each column: its second moment is 1 over the diagonal of the inverse
    if not all(_clear(sums, one) for one in inverse @ z):
        return TOO_NOISY
    x, y = (v - (inverse @ (z @ m @ v)) @ z for v in (first @ sums.vectors, second @ sums.vectors))
    return _correlated(sums, x, y, radius2, _moment_bias(sums, first, second))


def _centred(sums: ReleasedSums, first: Array, second: Array) -> tuple[Array, Array, Array]:
    one = sums.vectors[0]
    x, y = (
        v - float(v @ sums.moments @ one) / sums.n * one
        for v in (first @ sums.vectors, second @ sums.vectors)
    )
    return one, x, y


def _clear(sums: ReleasedSums, vector: Array) -> bool:
    """Return whether the second moment of a column is above 0, and clear of its noise."""
    square = symmetric(vector, vector)
    noise_sd = math.sqrt(max(float(sums.noise_covariance(square[None])[0, 0]), 0.0))
    found = float(vector @ sums.moments @ vector)
    return found > max(MIN_SIGNAL * noise_sd, _TINY)


def _correlated(
    sums: ReleasedSums, x: Array, y: Array, radius2: float, share: float
) -> MomentEstimate:
    m = sums.moments
    n = sums.n
    if not (_clear(sums, x) and _clear(sums, y)):
        return TOO_NOISY
    variances = float(x @ m @ x) / n, float(y @ m @ y) / n
    x = x / math.sqrt(variances[0])
    y = y / math.sqrt(variances[1])
    r = min(max(float(x @ m @ y) / n, -0.9999), 0.9999)
    gradient = symmetric(x, y) - r / 2 * (symmetric(x, x) + symmetric(y, y))
    return functional(sums, r, gradient / n, radius2, share * abs(r))


def r_squared(
    sums: ReleasedSums, columns: Array, outcome: Array, coef: Array, radius2: float
) -> MomentEstimate:
    """Return R² of a regression with these coefficients: errors of them change it to second order alone."""
    _, y, _ = _centred(sums, outcome, outcome)
    m = sums.moments
    n = sums.n
    residual = outcome @ sums.vectors - coef @ (columns @ sums.vectors)
    if not (_clear(sums, y) and _clear(sums, residual)):
        return TOO_NOISY
    total = float(y @ m @ y) / n
    left = float(residual @ m @ residual) / n
    gradient = left / total**2 * symmetric(y, y) - symmetric(residual, residual) / total
    used = np.abs(columns).sum(axis=0)
    bias = 2 * _moment_bias(sums, used, outcome) * abs(1 - left / total)
    return functional(sums, 1 - left / total, gradient / n, radius2, bias)
