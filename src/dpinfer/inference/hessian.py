"""The law of the curvature H given all releases.  Post-processing only.

The release shows H with noise that is the same in every direction of u.  The moments tell what it
should look like: a guess S, which is off by a part of itself.  Where the release is precise it is
believed, elsewhere the guess.

| symbol | meaning                                                               | name in code      |
| ------ | --------------------------------------------------------------------- | ----------------- |
| Ĥ, h   | H as it was released, and the scale of its noise, in u                | `released`        |
| M̂      | the second moments as they were released                              | `Moments`         |
| S      | a guess of H about its own mean, in (1, x)                            | `HessianPrior.matrix`    |
| P      | what H is off S: F N Fᵀ with FFᵀ = P, N symmetric with N(0, 1) entries |                  |
| Q      | eigenvectors of P in u                                                | `basis`           |

Noise of Ĥ is independent by entry in any orthogonal basis, and so is F N Fᵀ in Q.  So the law of H
given Ĥ is exact and entry by entry there.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.inference.joint import doubled
from dpinfer.inference.moments import LEVELS, Columns, Moments, within_factors
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST, Family

_MIN_SDS = 0.5  # deviations of its noise that a variance, or an eigenvalue, has at least
_SMALLEST = 1e-4  # of an eigenvalue of a correlation matrix
_PARTS = np.geomspace(0.02, 0.6, 12)  # by which H is off its guess: those that are tried
# by which the curvature of a column is off that of all records
_CURVED = 0.5


@dataclass(frozen=True, eq=False)
class ReleasedMoments:
    """A noisy second moment of (1, x) about its own mean: its first entry, variances, entries and
    their deviations.

    ``loose`` is the deviation of the first entry, ``unsure`` those of the sums of the columns.
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
    """backᵀ released back about its mean; ``noise`` is the scale of the symmetric noise of
    ``released``.

    A dummy's entries beside the intercept and on the diagonal are the same number, and are
    averaged.
    """
    H = back.T @ released @ back
    length = back.T @ back
    first_sd = noise * float(length[0, 0])
    first = max(float(H[0, 0]), first_sd)
    beside = noise**2 / 2 * (length[0, 0] * np.diag(length) + length[0] ** 2)
    own = (noise * np.diag(length)) ** 2
    both = 1 / (1 / beside + 1 / own)
    total = np.where(columns.dummy, (H[0] / beside + np.diag(H) / own) * both, H[0])
    sum_sd = np.sqrt(np.where(columns.dummy, both, beside))
    least = np.where(columns.dummy, _MIN_SDS * sum_sd / first, -1.0)
    mean = within_factors(
        np.clip(total / first, least, np.where(columns.dummy, LEVELS, 1.0)), columns
    )
    mean[0] = 0.0
    centred = back - np.outer(back[:, 0], mean)
    squares = centred.T @ centred
    deviation = noise * np.sqrt((np.outer(np.diag(squares), np.diag(squares)) + squares**2) / 2)
    raw = centred.T @ released @ centred
    of_number = np.maximum(np.diag(raw), _MIN_SDS * np.diag(deviation))
    variance = np.where(columns.dummy, first * mean * (1 - mean), of_number)
    variance[0] = first
    return ReleasedMoments(first, first_sd, mean, sum_sd, variance, raw, deviation)


@dataclass(frozen=True, eq=False)
class HessianPrior:
    """S about ``mean``, and what it is unsure of.

    ``count`` has the deviations of the variances, those of levels by the release of H alone;
    ``limited`` are numbers whose variance M does not tell.
    """

    mean: Array
    matrix: Array
    count: Array
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
    """Correlations of the moments; means and variances of H as far as they are known, else those of
    the moments.

    A level's mean curvature is that of all records but for a factor.  ``line`` has the coefficients
    of the fit: in one of counts they move the means of the columns.

    Numbers that are ``limited`` count in H as far as their limits go, in M by the weights of their
    rows, so that the one says little of the variance of the other.
    """
    mean0 = moments[0] / moments[0, 0]
    plain = moments / moments[0, 0] - np.outer(mean0, mean0)
    variance0 = np.maximum(np.diag(plain), 1e-9)
    correlation = plain / np.sqrt(np.outer(variance0, variance0))

    frequency = np.where(columns.dummy, np.clip(M.mean, 1e-6, LEVELS), mean0)
    if family.counts:
        frequency = _tilted(frequency, plain, coef, columns)
    off = _CURVED * np.where(columns.dummy, frequency, np.sqrt(variance0))
    mean, _ = _averaged(H.mean, H.sum_sd / H.first, frequency, np.hypot(off, M.sum_sd / M.first))
    mean = np.clip(mean, np.where(columns.dummy, 1e-6, -1.0), np.where(columns.dummy, LEVELS, 1.0))
    mean = within_factors(mean, columns)
    unsure = np.hypot(_CURVED * variance0, np.diag(M.entry_sd) / M.first)
    variance, sure = _averaged(
        np.diag(H.raw) / H.first, np.diag(H.entry_sd) / H.first, variance0, unsure
    )
    variance = np.where(columns.dummy, mean * (1 - mean), np.maximum(variance, 0.1 * variance0))
    # the variance of a level is s (H₀₀ - s)/H₀₀, s its sum: where nearly all records have it, noise of
    # H₀₀ counts as much as that of s
    of_level = np.hypot(H.sum_sd, mean**2 * H.first_sd)
    count = np.where(columns.dummy, of_level, H.first * sure)
    count[0] = H.first_sd
    mean[0] = 0.0
    variance[0] = 1.0
    size = np.sqrt(np.outer(variance, variance))
    correlation[0] = correlation[:, 0] = 0.0
    exclusive = columns.group[:, None] == columns.group
    correlation[exclusive] = (-np.outer(mean, mean) / size)[exclusive]
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    correlation = (vectors * np.maximum(values, _SMALLEST)) @ vectors.T
    return HessianPrior(mean, H.first * correlation * size, count, limited)


def _tilted(mean: Array, covariance: Array, coef: Array, columns: Columns) -> Array:
    """Means of the columns where a record counts by the mean of its outcome, exp of the predictor.

    The mean of a number moves by Cov θ, as where all is Gaussian; a level counts as its own rate.
    """
    found = np.clip(mean + covariance @ np.concatenate([[0.0], coef[1:]]), -1.0, 1.0)
    for group in np.unique(columns.group[columns.dummy]):
        levels = columns.dummy & (columns.group == group)
        rates = mean[levels] * np.exp(np.clip(coef[levels], -FARTHEST, FARTHEST))
        found[levels] = rates / (max(1 - float(mean[levels].sum()), 1e-6) + rates.sum())
    return np.asarray(np.where(columns.dummy, np.clip(found, 1e-6, LEVELS), found))


def _averaged(value: Array, noise: Array, other: Array, unsure: Array) -> tuple[Array, Array]:
    """Two measurements averaged by their precision, and the deviation that is left."""
    sure = noise**-2.0 + unsure**-2.0
    return (value * noise**-2.0 + other * unsure**-2.0) / sure, sure**-0.5


@dataclass(frozen=True, eq=False)
class HessianPosterior:
    """H given the releases, in the basis Q: ``matrix`` is its mean there, ``left`` the deviations
    of its entries.
    """

    basis: Array
    matrix: Array
    entry_sd: Array

    def moved(self, second: Array) -> Array:
        """The covariance of (H - mean) δ, for the second moment of δ: both in the basis."""
        variance = self.entry_sd**2
        found = variance * second
        np.fill_diagonal(found, variance @ np.diag(second))
        return np.asarray(found)


def hessian_posterior(
    released: Array, noise: float, S: HessianPrior, back: Array, moments: Moments
) -> HessianPosterior:
    """H from its release and from a guess that is off by a part of itself: the mean of those that
    the release allows.

    P = αS + the noise of the moments, as a Wishart matrix is off its mean.  ``back`` maps coefficients
    of columns about the mean of S to u.
    """
    forward = np.linalg.inv(back)
    about = np.eye(len(released))
    about[:, 0] -= S.mean
    about[0, 0] = 1.0
    inner = about @ moments.back
    of_moments = inner @ inner.T * (moments.noise * S.matrix[0, 0] / moments.n)
    base = forward.T @ S.matrix @ forward

    def judged(part: float) -> tuple[float, Array, Array]:
        """The likelihood of the release, and eigenvalues and eigenvectors of P in u."""
        loose = np.where(S.limited, np.sqrt(max(_CURVED / part, 1.0)), 1.0)
        P = part * S.matrix * np.outer(loose, loose) + of_moments
        P = forward.T @ P @ forward
        values, vectors = np.linalg.eigh((P + P.T) / 2)
        values = np.maximum(values, 1e-9 * values[-1])
        gap = vectors.T @ (released - base) @ vectors
        return _likelihood(gap, np.outer(values, values) + noise**2), values, vectors

    likely = np.array([judged(float(part))[0] for part in _PARTS])
    weights = np.exp((likely - likely.max()) / 2)
    _, values, Q = judged(float(weights @ _PARTS / weights.sum()))
    prior = np.outer(values, values)
    part = prior / (prior + noise**2)
    entry_sd = noise * np.sqrt(part / 2)
    np.fill_diagonal(entry_sd, np.sqrt(2) * np.diag(entry_sd))
    matrix = Q.T @ base @ Q + part * (Q.T @ (released - base) @ Q)
    lowest, vectors = np.linalg.eigh(matrix)
    squares = vectors**2
    floor = _MIN_SDS * np.sqrt(np.einsum("kj,kl,lj->j", squares, doubled(entry_sd**2), squares))
    matrix = (vectors * np.maximum(lowest, floor)) @ vectors.T
    return HessianPosterior(Q, matrix, entry_sd)


def _likelihood(gap: Array, variance: Array) -> float:
    rows, others = np.triu_indices(len(gap))
    twice = np.where(rows == others, 1.0, 2.0)
    v = variance[rows, others]
    return float((-np.log(v) - twice * gap[rows, others] ** 2 / v).sum())
