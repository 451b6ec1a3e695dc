"""The posterior of the Hessian H given all releases.

The release of H has isotropic noise in u.  The second moments M of the rows give a prior mean S of H, from
which H may deviate by a share of itself.  The posterior is a precision-weighted average: of Ĥ where the
release is precise, of S elsewhere.

| symbol | meaning                                                               | name in code      |
| ------ | --------------------------------------------------------------------- | ----------------- |
| Ĥ, h   | released H, and the sd of its noise, in u                             | `released`        |
| M̂      | released second moments                                               | `Moments`         |
| S      | prior mean of H, centred at its own mean, in (1, x)                   | `HessianPrior.matrix` |
| P      | scale of H - S = F N Fᵀ with FFᵀ = P; N is symmetric, N(0, 1) on the diagonal, N(0, 1/2) off it |   |
| Q      | eigenvectors of P in u                                                | `basis`           |

Symmetric Gaussian noise has independent entries in any orthonormal basis, and F N Fᵀ in that of Q.  So in Q
the posterior of H factorises over entries, each with a normal likelihood and a normal prior.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.inference.constants import (
    HESSIAN_PRIOR_SD,
    MAX_LEVEL_SHARE,
    MIN_HESSIAN_VARIANCE,
    MIN_NOISE_SDS,
    RARE_LEVEL_SHIFT,
)
from dpinfer.inference.joint import doubled
from dpinfer.inference.moments import Columns, Moments, within_factors
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST, Family
from dpinfer.numerics.reasons import Numerical

_SMALLEST: Numerical[float] = 1e-4  # lower bound of an eigenvalue of a correlation matrix
_RAREST: Numerical[float] = 1e-6  # smallest share of a level, or of its reference
_PARTS: Numerical[Array] = np.geomspace(
    0.02, 0.6, 12
)  # grid of α, the relative deviation of H from S


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """A released second moment of (1, x), centred at its own mean.

    ``first`` is its first entry, with noise sd ``first_sd``; ``mean`` the means of the columns, whose sums have
    noise sds ``sum_sd``; ``raw`` the entries, with noise sds ``entry_sd``, and ``variance`` the variances within
    what is possible.
    """

    first: float
    first_sd: float
    mean: Array
    sum_sd: Array
    variance: Array
    raw: Array
    entry_sd: Array


def released_moments(
    released: Array, back: Array, columns: Columns, noise: float
) -> ReleasedMoments:
    """Return backᵀ released back, centred at its mean; ``noise`` is the noise sd of ``released``.

    A dummy's entries next to the intercept and on the diagonal are the same number, and are averaged with
    the least variance.
    """
    H = back.T @ released @ back
    length = back.T @ back
    first_sd = noise * float(length[0, 0])
    first = max(float(H[0, 0]), first_sd)
    beside = noise**2 / 2 * (length[0, 0] * np.diag(length) + length[0] ** 2)
    own = (noise * np.diag(length)) ** 2
    # noise of the two entries of a dummy is correlated: the best linear unbiased average of them
    shared = noise**2 * length[0] * np.diag(length)
    gap = np.maximum(beside + own - 2 * shared, np.finfo(float).tiny)
    weight = np.clip((beside - shared) / gap, 0.0, 1.0) * columns.dummy
    total = weight * np.diag(H) + (1 - weight) * H[0]
    sum_sd = np.sqrt(
        weight**2 * own + (1 - weight) ** 2 * beside + 2 * weight * (1 - weight) * shared
    )
    least = np.where(columns.dummy, MIN_NOISE_SDS * sum_sd / first, -1.0)
    mean = within_factors(
        np.clip(total / first, least, np.where(columns.dummy, MAX_LEVEL_SHARE, 1.0)), columns
    )
    mean[0] = 0.0
    centred = back - np.outer(back[:, 0], mean)
    squares = centred.T @ centred
    entry_sd = noise * np.sqrt((np.outer(np.diag(squares), np.diag(squares)) + squares**2) / 2)
    raw = centred.T @ released @ centred
    of_number = np.maximum(np.diag(raw), MIN_NOISE_SDS * np.diag(entry_sd))
    variance = np.where(columns.dummy, first * mean * (1 - mean), of_number)
    variance[0] = first
    return ReleasedMoments(first, first_sd, mean, sum_sd, variance, raw, entry_sd)


@dataclass(frozen=True, eq=False)
class HessianPrior:
    """The prior mean S of the Hessian, centred at ``mean``.

    ``variance_sd`` has the sds of the variances, those of levels by the release of H alone; ``rare`` is the share
    of the rarer value of a column, and infinite of a number.  ``limited`` marks numbers whose variance M does not
    have.
    """

    mean: Array
    matrix: Array
    variance_sd: Array
    rare: Array
    limited: npt.NDArray[np.bool_]


def hessian_prior(
    H: ReleasedMoments,
    M: ReleasedMoments,
    moments: Array,
    columns: Columns,
    coef: Array,
    family: Family,
    limited: npt.NDArray[np.bool_],
) -> HessianPrior:
    """Return the prior of the Hessian: correlations of M, and means and variances averaged with those of H.

    A level's share in H has a prior sd of half its share in M (`HESSIAN_PRIOR_SD`).  The mean of a column in a
    rare level has a prior sd of `RARE_LEVEL_SHIFT` sds of the column, so that a very rare level is nearly
    uncorrelated.  ``coef`` are the pilot coefficients: in Poisson regression they change the weighted means
    of the columns.

    Numbers that are ``limited`` are winsorised in H, and down-weighted by rows in M, so that the one says
    little of the variance of the other.
    """
    mean0 = moments[0] / moments[0, 0]
    plain = moments / moments[0, 0] - np.outer(mean0, mean0)
    variance0 = np.maximum(np.diag(plain), 1e-9)
    correlation = plain / np.sqrt(np.outer(variance0, variance0))

    frequency = np.where(columns.dummy, np.clip(M.mean, _RAREST, MAX_LEVEL_SHARE), mean0)
    if family.counts:
        frequency = _tilted(frequency, plain, coef, columns)
    off = HESSIAN_PRIOR_SD * np.where(columns.dummy, frequency, np.sqrt(variance0))
    mean, _ = _averaged(H.mean, H.sum_sd / H.first, frequency, np.hypot(off, M.sum_sd / M.first))
    mean = np.clip(
        mean, np.where(columns.dummy, _RAREST, -1.0), np.where(columns.dummy, MAX_LEVEL_SHARE, 1.0)
    )
    mean = within_factors(mean, columns)
    other_sd = np.hypot(HESSIAN_PRIOR_SD * variance0, np.diag(M.entry_sd) / M.first)
    variance, of_number = _averaged(
        np.diag(H.raw) / H.first, np.diag(H.entry_sd) / H.first, variance0, other_sd
    )
    variance = np.where(
        columns.dummy, mean * (1 - mean), np.maximum(variance, MIN_HESSIAN_VARIANCE * variance0)
    )
    # the variance of a level is s (H₀₀ - s)/H₀₀, s its sum, with the derivatives 1 - 2p and p²
    of_level = np.hypot((1 - 2 * mean) * H.sum_sd, mean**2 * H.first_sd)
    variance_sd = np.where(columns.dummy, of_level, H.first * of_number)
    variance_sd[0] = H.first_sd
    mean[0] = 0.0
    variance[0] = 1.0
    # the correlation of a level of share p with a column is its shift of the mean, in sds, times √(p/(1 - p)), about
    # √p; its square is at most 1, as that of two numbers
    rare = np.where(columns.dummy, np.minimum(mean, 1 - mean), np.inf)
    believed = np.minimum(RARE_LEVEL_SHIFT**2 * np.minimum.outer(rare, rare), 1.0)
    correlation *= believed / (
        believed + (M.entry_sd / np.sqrt(np.outer(M.variance, M.variance))) ** 2
    )
    size = np.sqrt(np.outer(variance, variance))
    correlation[0] = correlation[:, 0] = 0.0
    exclusive = columns.group[:, None] == columns.group
    correlation[exclusive] = (-np.outer(mean, mean) / size)[exclusive]
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    correlation = (vectors * np.maximum(values, _SMALLEST)) @ vectors.T
    return HessianPrior(mean, H.first * correlation * size, variance_sd, rare, limited)


def _tilted(mean: Array, covariance: Array, coef: Array, columns: Columns) -> Array:
    """Return the means of the columns with records weighted by exp(x·θ).

    The mean of a Gaussian number changes by Cov(x) θ; a level is weighted by its own rate.
    """
    found = np.clip(mean + covariance @ np.concatenate([[0.0], coef[1:]]), -1.0, 1.0)
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        rates = mean[levels] * np.exp(np.clip(coef[levels], -FARTHEST, FARTHEST))
        found[levels] = rates / (max(1 - float(mean[levels].sum()), _RAREST) + rates.sum())
    return np.asarray(np.where(columns.dummy, np.clip(found, _RAREST, MAX_LEVEL_SHARE), found))


def _averaged(value: Array, noise: Array, other: Array, other_sd: Array) -> tuple[Array, Array]:
    """Return the precision-weighted average of two measurements, and its sd."""
    precision = noise**-2.0 + other_sd**-2.0
    return (value * noise**-2.0 + other * other_sd**-2.0) / precision, precision**-0.5


@dataclass(frozen=True, eq=False)
class HessianPosterior:
    """The posterior of H in the basis Q: its mean ``matrix``, and the sds ``entry_sd`` of its entries.

    ``cut`` is the share by which the rarity of each column reduces the prior variance of its covariances.
    """

    basis: Array
    matrix: Array
    entry_sd: Array
    cut: Array

    def moved(self, second: Array) -> Array:
        """Return Cov((H - E H) δ) for the second moment of δ, both in the basis."""
        variance = self.entry_sd**2
        found = variance * second
        np.fill_diagonal(found, variance @ np.diag(second))
        return np.asarray(found)


def hessian_posterior(
    released: Array, noise: float, S: HessianPrior, back: Array, moments: Moments
) -> HessianPosterior:
    """Return the posterior of H given its release and its prior.

    P = αS + the noise of the moments, as a Wishart matrix deviates from its mean; in rare levels it has at most
    the prior sd `RARE_LEVEL_SHIFT`, in sds of a column.  α is averaged over a grid, weighted by the likelihood
    of the release.  ``back`` maps coefficients of columns centred at the mean of S to u.
    """
    forward = np.linalg.inv(back)
    about = np.eye(len(released))
    about[:, 0] -= S.mean
    about[0, 0] = 1.0
    inner = about @ moments.back
    of_moments = inner @ inner.T * (moments.noise * S.matrix[0, 0] / moments.n)
    base = forward.T @ S.matrix @ forward

    def judged(part: float) -> tuple[float, Array, Array, Array]:
        """Return twice the log-likelihood of the release, eigenvalues and vectors of P in u, and the sds kept."""
        loose = np.where(S.limited, np.sqrt(max(HESSIAN_PRIOR_SD / part, 1.0)), 1.0)
        P = part * S.matrix * np.outer(loose, loose) + of_moments
        ratio = np.diag(P) / np.diag(S.matrix)
        typical = float(np.median(ratio[1:])) if len(ratio) > 1 else 1.0
        kept = np.sqrt(np.minimum(1.0, RARE_LEVEL_SHIFT**2 * S.rare / (typical * ratio)))
        P = forward.T @ (P * np.outer(kept, kept)) @ forward
        values, vectors = np.linalg.eigh((P + P.T) / 2)
        values = np.maximum(values, 1e-9 * values[-1])
        gap = vectors.T @ (released - base) @ vectors
        return twice_log_likelihood(gap, np.outer(values, values) + noise**2), values, vectors, kept

    likely = np.array([judged(float(part))[0] for part in _PARTS])
    weights = np.exp((likely - likely.max()) / 2)
    _, values, Q, kept = judged(float(weights @ _PARTS / weights.sum()))
    prior = np.outer(values, values)
    part = prior / (prior + noise**2)
    entry_sd = noise * np.sqrt(part / 2)
    np.fill_diagonal(entry_sd, np.sqrt(2) * np.diag(entry_sd))
    matrix = Q.T @ base @ Q + part * (Q.T @ (released - base) @ Q)
    lowest, vectors = np.linalg.eigh(matrix)
    squares = vectors**2
    floor = MIN_NOISE_SDS * np.sqrt(
        np.einsum("kj,kl,lj->j", squares, doubled(entry_sd**2), squares)
    )
    matrix = (vectors * np.maximum(lowest, floor)) @ vectors.T
    return HessianPosterior(Q, matrix, entry_sd, 1 - kept**2)


def twice_log_likelihood(gap: Array, variance: Array) -> float:
    """Return 2 log p(gap), but for a constant, of a symmetric matrix with independent normal entries.

    ``variance`` has their variances on the diagonal, and twice their variances off it.
    """
    rows, others = np.triu_indices(len(gap))
    twice = np.where(rows == others, 1.0, 2.0)
    v = variance[rows, others]
    return float((-np.log(v) - twice * gap[rows, others] ** 2 / v).sum())
