"""The joint posterior of all coefficients, and intervals of contrasts of them.

Every reported coefficient, every alternative and every contrast that a user asks for is a contrast c·θ under
the same posterior.  Its own prior is divided out, so that its interval rests on the data; the priors of all
other directions stay.  It is reported if its standard error is small beside its prior sd, and if its
information is clear of the noise of the Hessian.

| symbol | meaning                                                       | name in code  |
| ------ | ------------------------------------------------------------- | ------------- |
| S      | prior sd, the plausible size of a coefficient                 | `sizes`       |
| H      | Hessian in a basis in which its entries are independent       | `hessian`     |
| R      | sds of its entries                                            | `hessian_sd`  |
| Q      | matrix from θ to that basis                                   | `basis`       |

The posterior variance of a contrast is the sum of what the terms of the score equation contribute to it
(`VarianceTerm`), of the uncertainty of the Hessian, and of the priors of the other coefficients.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.inference.constants import (
    CLEAR_SDS,
    EVENT_SDS,
    MAX_ERROR_SHARE,
    MAX_EVENT_LOSS,
    MIN_SIGNAL,
)
from dpinfer.inference.error_laws import BiasedNormal
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Numerical

NO_EVENTS: Numerical[float] = 1e9
"""Relative noise of a number of events that may be 0.  It is finite, as JSON has no infinity."""
# The reasons of a contrast: that it is reported, or why it is not.
KNOWN = "known"
WEAK = "weak"
TOGETHER = "together"
FEW = "few"
REFERENCE = "reference"
TAIL = "tail"
# The terms of a variance; results have a column of each.
SAMPLING = "sampling"
PRIVACY_NOISE = "privacy_noise"
BIAS_BOUND = "bias_bound"
HESSIAN = "hessian"
# smallest share of its information that a contrast keeps without its own prior
_LEFT: Numerical[float] = 1e-12


@dataclass(frozen=True, eq=False)
class Answers:
    """Estimates of contrasts, the law of their errors, and for each whether it is reported, or why not."""

    estimate: Array
    law: BiasedNormal
    why: tuple[str, ...]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Return whether each has an interval."""
        return np.array([word == KNOWN for word in self.why], dtype=bool)


@dataclass(frozen=True, eq=False)
class VarianceTerm:
    """A term of the posterior covariance: its name, and what it contributes."""

    name: str
    covariance: Array


@dataclass(frozen=True, eq=False)
class Joint:
    """The posterior of all coefficients of a fit, reported or not, with the intercept at ``centre``.

    ``estimate``, ``covariance`` and ``sampling``, the part of it that is not noise, are given that each
    coefficient is N(``prior_mean``, ``prior_sd``²) a priori: ``prior_sd`` is S, but for a flat prior of the
    intercept.  ``own`` is the noise sd of a column's own information, beyond that of H.

    ``curvature_correction``, a bound of the third-order error of the last step, and ``bias_bound`` are added at
    both ends of an interval.  ``few`` is the relative noise of the number of events of each level, ``toward`` the
    sign of the change of its coefficient with fewer; ``reference_few`` and ``reference_toward`` are those of the
    reference of its factor.  ``group`` is its factor, -1 for columns that are no level.  ``withheld`` marks
    winsorised numbers whose ordinary coefficient is not reported.  ``tail_allowance`` is one-sided and occurs
    in saved results of an earlier version only.  ``terms`` are the privacy noise and the bias bounds in
    ``covariance``; they are empty in results that were saved without them.

    All these are for standardised columns.  ``contrasts`` has, for every coefficient of the formula in original
    units, the contrast of theirs that it is; ``shift`` is added to the intercept.
    """

    estimate: Array
    prior_mean: Array
    covariance: Array
    sampling: Array
    sizes: Array
    prior_sd: Array
    basis: Array
    hessian: Array
    hessian_sd: Array
    own: Array
    curvature_correction: Array
    bias_bound: Array
    few: Array
    toward: Array
    reference_few: Array
    reference_toward: Array
    group: Array
    withheld: Array
    centre: Array
    contrasts: Array
    shift: float = 0.0
    tail_allowance: Array | float = 0.0
    terms: tuple[VarianceTerm, ...] = ()

    def __len__(self) -> int:
        return len(self.estimate)

    def about(self, asked: Array, draws: int, seed: int) -> Answers:
        """Return estimates of contrasts of the coefficients of the formula, one per row.

        With posterior variance v and prior variance p of a contrast, the data and the priors of all else give
        it variance 1/(1/v - 1/p), and an estimate that is farther from the prior mean by that over v.
        """
        vectors = asked @ self.contrasts
        variance = _variances(vectors, self.covariance)
        prior_variance = vectors**2 @ self.prior_sd**2
        alone = 1 / np.maximum(1 / variance - 1 / prior_variance, _LEFT / variance)
        start = vectors @ self.prior_mean
        estimate = start + (vectors @ self.estimate - start) * alone / variance
        stretch = np.sqrt(alone / variance)
        sampling = (vectors @ self.sampling @ vectors.T) * np.outer(stretch, stretch)
        total = (vectors @ self.covariance @ vectors.T) * np.outer(stretch, stretch)
        noise = total - sampling
        below, above = self._allowances(vectors)
        law = BiasedNormal(sampling, (noise + noise.T) / 2, below, above, draws, seed)
        return Answers(estimate + self.shift * asked[:, 0], law, self._reasons(vectors, alone))

    def variance_shares(self, asked: Array) -> dict[str, Array]:
        """Return the share of each term in the posterior variance of contrasts, by name; they add up to 1.

        The Hessian has the share that the other terms leave, with the priors of other coefficients.  A contrast's
        own prior is divided out of all terms alike, so that shares stay as they are.
        """
        vectors = asked @ self.contrasts
        variance = _variances(vectors, self.covariance)
        terms = (VarianceTerm(SAMPLING, self.sampling), *self.terms)
        shares = {term.name: _variances(vectors, term.covariance) / variance for term in terms}
        # rounding may leave less than 0
        return shares | {HESSIAN: np.maximum(1 - np.sum(list(shares.values()), axis=0), 0.0)}

    @property
    def coef(self) -> Array:
        """Return the posterior mean of every coefficient of the formula, shrunk towards the prior mean."""
        found = self.contrasts @ self.estimate
        found[0] += self.shift
        return np.asarray(found)

    def at(self, further: Array) -> "Joint":
        """Return the same posterior with the intercept at a centre that is ``further`` away."""
        to = np.eye(len(further))
        to[0, 1:] = further[1:]
        return replace(
            self,
            estimate=to @ self.estimate,
            prior_mean=to @ self.prior_mean,
            covariance=to @ self.covariance @ to.T,
            sampling=to @ self.sampling @ to.T,
            terms=tuple(
                replace(term, covariance=to @ term.covariance @ to.T) for term in self.terms
            ),
            basis=self.basis @ np.linalg.inv(to),
            centre=self.centre + further,
        )

    @cached_property
    def _inverse(self) -> Array:
        """Return the inverse Hessian, in coefficients."""
        half = np.linalg.solve(self.basis, np.linalg.inv(self.hessian))
        return np.asarray(np.linalg.solve(self.basis, half.T))

    def signal(self, vectors: Array) -> Array:
        """Return the partial information on each contrast, given all else, over the sd of its noise."""
        reached = self._inverse @ vectors.T
        information = 1 / np.einsum("ij,ji->i", vectors, reached)
        directions = reached * information  # of each combination, as coefficients
        squares = (self.basis @ directions) ** 2
        by_entry = np.einsum("ki,kl,li->i", squares, doubled(self.hessian_sd**2), squares)
        by_column = _min_norm_change(vectors) ** 4 @ self.own**2
        return np.asarray(information / np.sqrt(by_entry + by_column))

    def nearest(self, j: int) -> int:
        """Return the column with the largest partial correlation with column j."""
        inverse = self._inverse
        partial = np.abs(inverse[j]) / np.sqrt(np.diag(inverse))
        partial[[0, j]] = -1.0
        return int(np.argmax(partial))

    def _reasons(self, vectors: Array, alone: Array) -> tuple[str, ...]:
        signal = self.signal(vectors)
        used = vectors != 0
        withheld = (used & (self.withheld > 0)).any(axis=1)
        few = (used & (self.few > 1 / CLEAR_SDS)).any(axis=1)
        reference = (self._of_references(vectors) != 0) & (self.reference_few > 1 / CLEAR_SDS)
        size = np.sqrt(vectors**2 @ self.sizes**2)
        known = (
            (np.sqrt(alone) <= MAX_ERROR_SHARE * size)
            & (self._curvature_correction(vectors) <= MAX_ERROR_SHARE * size)
            & (signal >= MIN_SIGNAL)
        )
        found = {
            TAIL: withheld,
            FEW: few,
            REFERENCE: reference.any(axis=1),
            KNOWN: known,
        }
        return tuple(
            next((word for word, of in found.items() if of[i]), None)
            or self._unknown(vectors[i], signal[i])
            for i in range(len(vectors))
        )

    def _unknown(self, vector: Array, signal: float) -> str:
        """Return whether a contrast has too little information by itself, or only given all others."""
        alone = _min_norm_change(vector)
        by_itself = self.basis @ alone
        noise = np.sqrt(
            (by_itself**2) @ doubled(self.hessian_sd**2) @ (by_itself**2) + alone**4 @ self.own**2
        )
        apart = float(by_itself @ self.hessian @ by_itself) >= 2 * MIN_SIGNAL * noise
        return TOGETHER if signal < MIN_SIGNAL and apart else WEAK

    def _of_references(self, vectors: Array) -> Array:
        """Return the weight of the reference level of each factor in each contrast, at its first level.

        It is minus the sum of the weights of the other levels, plus the share of the reference at the centre
        times the weight of the intercept.
        """
        found = np.zeros_like(vectors)
        for group in np.unique(self.group[self.group >= 0]):
            levels = np.flatnonzero(self.group == group)
            at_reference = 1 - float(self.centre[levels].sum())
            found[:, levels[0]] = vectors[:, 0] * at_reference - vectors[:, levels].sum(axis=1)
        return np.where(
            np.abs(found) > 1e-9 * np.abs(vectors).max(axis=1, keepdims=True), found, 0.0
        )

    def _curvature_correction(self, vectors: Array) -> Array:
        """Return the bound of the third-order error of contrasts: |step| times the largest b/|step| in each.

        b is that of a column.  It is 0 where the steps of the columns cancel.
        """
        step = self.estimate - self.prior_mean
        slope = self.curvature_correction / np.maximum(np.abs(step), np.finfo(float).tiny)
        largest = np.where(vectors != 0, slope, 0.0).max(axis=1, initial=0.0)
        return np.asarray(
            np.minimum(
                np.abs(vectors @ step) * largest, np.abs(vectors) @ self.curvature_correction
            )
        )

    def _allowances(self, vectors: Array) -> tuple[Array, Array]:
        """Return what is added to the lower and upper ends of intervals, beyond the normal error.

        Bias bounds and third-order errors are added at both ends, few events at the end towards which the
        estimate would change with fewer.
        """
        both = self._curvature_correction(vectors) + np.abs(vectors) @ self.bias_bound
        below = both.copy()
        above = both.copy()
        parts = (
            (vectors, np.broadcast_to(self.tail_allowance, len(self)), 1.0),
            (vectors, event_allowance(self.few), self.toward),
            (
                self._of_references(vectors),
                event_allowance(self.reference_few),
                self.reference_toward,
            ),
        )
        for weights, allowance, toward in parts:
            moved = weights * allowance * toward
            above += np.maximum(moved, 0.0).sum(axis=1)
            below += np.maximum(-moved, 0.0).sum(axis=1)
        return below, above


def _variances(vectors: Array, covariance: Array) -> Array:
    """Return the variance of each contrast, given the covariance of the coefficients."""
    return np.asarray(np.einsum("ij,jk,ik->i", vectors, covariance, vectors))


def _min_norm_change(vectors: Array) -> Array:
    """Return the least-norm change of coefficients that changes each contrast by 1."""
    squared = (vectors**2).sum(axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(squared, np.finfo(float).tiny))


def event_allowance(doubt: Array) -> Array:
    """Return how far an interval of a logarithm exceeds the normal one, for a number with this relative sd.

    The lower end of log(n (1 - q)) at q = 2 sds is -log(1 - q), of which q is in the normal interval.
    """
    q = np.minimum(EVENT_SDS * doubt, MAX_EVENT_LOSS)
    return np.asarray(-np.log(1 - q) - q)


def doubled(variance: Array) -> Array:
    """Return variances with those off the diagonal doubled: a symmetric matrix has such entries twice."""
    return np.asarray(2 * variance - np.diag(np.diag(variance)))
