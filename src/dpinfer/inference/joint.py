"""What is known of all coefficients together, and what may be said of one combination of them.

Post-processing of released values only.  Every line that is printed, every alternative and every
contrast is one question to the same law: a combination c of the coefficients θ.

| symbol | meaning                                                       | name in code  |
| ------ | ------------------------------------------------------------- | ------------- |
| S      | plausible size of a coefficient                               | `sizes`       |
| H      | curvature in a basis in which what is unsure is independent   | `hessian`   |
| R      | deviations of its entries                                     | `doubt`       |
| Q      | from θ to that basis                                          | `basis`       |
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpinfer.inference.error_laws import BiasedNormal
from dpinfer.inference.moments import SURE
from dpinfer.numerics.arrays import Array

OPEN = 0.4
"""A combination is known if its standard error is at most this part of its plausible size."""
SIGNAL = 2.5
"""... and if its information given all else is at least this many times the noise of that."""
NO_EVENTS = 1e9
"""Relative doubt of a number of events that may be none.  It is finite, as a file has no
infinities.
"""
# What is said of a combination: that it is known, or why it is open.
KNOWN = "known"
WEAK = "weak"
TOGETHER = "together"
FEW = "few"
REFERENCE = "reference"
TAIL = "tail"
_LEFT = 1e-12  # of its information: what is left at least without a combination's own size


@dataclass(frozen=True, eq=False)
class Answers:
    """Combinations of coefficients: estimates, the law of their errors, and of each whether it is
    known, or why not.
    """

    estimate: Array
    law: BiasedNormal
    why: tuple[str, ...]

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Whether each has an interval."""
        return np.array([word == KNOWN for word in self.why], dtype=bool)


@dataclass(frozen=True, eq=False)
class Joint:
    """The law of all coefficients of a fit, open ones too, at the released centre.

    ``estimate``, ``covariance`` and ``sampling`` (the part of it that is no noise) are given that
    each coefficient is N(``prior_mean``, ``prior_sd``²) a priori: ``prior_sd`` is S but for the intercept,
    which is as good as free.  ``own`` is what is unsure of a column's own information beside
    ``hessian_sd``.

    ``curvature_correction`` and ``bias_bound`` are allowed for at both ends of an interval: what a quadratic does not
    see of the last step, and what a fit may be off beside.  ``few`` and ``toward`` are, of each
    level, the relative noise of its number of events and the side to which it would move its
    coefficient; ``reference_few`` and ``reference_toward`` those of the reference of its factor.
    ``group`` is its factor, -1 for what is no level.  ``withheld`` says that the records far out in a
    column count less, or not as they are.  ``tail_allowance`` is an allowance on one side that saved results of
    an earlier version have.

    All these are about columns as the fit measures them, ``centre`` where the intercept is the
    predictor.  ``contrasts`` has, for every coefficient of the formula in its own units, the
    combination of theirs that it is; ``shift`` is added to the intercept.
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

    def __len__(self) -> int:
        return len(self.estimate)

    def about(self, asked: Array, draws: int, seed: int) -> Answers:
        """What is known of combinations of the coefficients of the formula, one a row.

        Their own plausible size is divided out: only that of others counts.
        """
        vectors = asked @ self.contrasts
        variance = np.einsum("ij,jk,ik->i", vectors, self.covariance, vectors)
        prior_sd = vectors**2 @ self.prior_sd**2
        alone = 1 / np.maximum(1 / variance - 1 / prior_sd, _LEFT / variance)
        start = vectors @ self.prior_mean
        estimate = start + (vectors @ self.estimate - start) * alone / variance
        stretch = np.sqrt(alone / variance)
        sampling = (vectors @ self.sampling @ vectors.T) * np.outer(stretch, stretch)
        total = (vectors @ self.covariance @ vectors.T) * np.outer(stretch, stretch)
        noise = total - sampling
        below, above = self._allowances(vectors)
        law = BiasedNormal(sampling, (noise + noise.T) / 2, below, above, draws, seed)
        return Answers(estimate + self.shift * asked[:, 0], law, self._reasons(vectors, alone))

    @property
    def coef(self) -> Array:
        """The mean of every coefficient of the formula, shrunk towards the line where little is
        known of it.
        """
        found = self.contrasts @ self.estimate
        found[0] += self.shift
        return np.asarray(found)

    def at(self, further: Array) -> "Joint":
        """The same law with the intercept at a centre so much further."""
        to = np.eye(len(further))
        to[0, 1:] = further[1:]
        return replace(
            self,
            estimate=to @ self.estimate,
            prior_mean=to @ self.prior_mean,
            covariance=to @ self.covariance @ to.T,
            sampling=to @ self.sampling @ to.T,
            basis=self.basis @ np.linalg.inv(to),
            centre=self.centre + further,
        )

    @cached_property
    def _inverse(self) -> Array:
        """The inverse of the curvature, in coefficients."""
        half = np.linalg.solve(self.basis, np.linalg.inv(self.hessian))
        return np.asarray(np.linalg.solve(self.basis, half.T))

    def signal(self, vectors: Array) -> Array:
        """The information on each combination given all else, over the noise of that."""
        reached = self._inverse @ vectors.T
        information = 1 / np.einsum("ij,ji->i", vectors, reached)
        directions = reached * information  # of each combination, as coefficients
        squares = (self.basis @ directions) ** 2
        by_entry = np.einsum("ki,kl,li->i", squares, doubled(self.hessian_sd**2), squares)
        by_column = _by_itself(vectors) ** 4 @ self.own**2
        return np.asarray(information / np.sqrt(by_entry + by_column))

    def nearest(self, j: int) -> int:
        """The column that column j is hardest to tell apart from."""
        inverse = self._inverse
        partial = np.abs(inverse[j]) / np.sqrt(np.diag(inverse))
        partial[[0, j]] = -1.0
        return int(np.argmax(partial))

    def _reasons(self, vectors: Array, alone: Array) -> tuple[str, ...]:
        signal = self.signal(vectors)
        used = vectors != 0
        withheld = (used & (self.withheld > 0)).any(axis=1)
        few = (used & (self.few > 1 / SURE)).any(axis=1)
        reference = (self._of_references(vectors) != 0) & (self.reference_few > 1 / SURE)
        size = np.sqrt(vectors**2 @ self.sizes**2)
        known = (
            (np.sqrt(alone) <= OPEN * size)
            & (self._curvature_correction(vectors) <= OPEN * size)
            & (signal >= SIGNAL)
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
        """Whether a combination is too weak by itself, or cannot be told apart from others."""
        alone = _by_itself(vector)
        by_itself = self.basis @ alone
        noise = np.sqrt(
            (by_itself**2) @ doubled(self.hessian_sd**2) @ (by_itself**2) + alone**4 @ self.own**2
        )
        apart = float(by_itself @ self.hessian @ by_itself) >= 2 * SIGNAL * noise
        return TOGETHER if signal < SIGNAL and apart else WEAK

    def _of_references(self, vectors: Array) -> Array:
        """What combinations say of the reference of each factor, at the place of its first level.

        A difference of levels says minus the sum of its parts.  The intercept is that of the
        centre, where a part of the records is at the reference.
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
        """What a quadratic does not see: of one column b, of a combination its step times the
        largest b/|step| in it.

        So nothing is allowed for where the steps of its parts cancel.
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
        """What is allowed for below and above: bends at both ends, few events and longer tails on the
        side to which they would move.
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


def _by_itself(vectors: Array) -> Array:
    """The shortest way by which each combination becomes 1."""
    squared = (vectors**2).sum(axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(squared, np.finfo(float).tiny))


def event_allowance(doubt: Array) -> Array:
    """The part of an interval of a logarithm beyond the normal one, for a number known to this
    relative deviation.
    """
    q = np.minimum(2 * doubt, 0.95)
    return np.asarray(-np.log(1 - q) - q)


def doubled(variance: Array) -> Array:
    """Off the diagonal twice: an entry of a symmetric matrix stands in it twice."""
    return np.asarray(2 * variance - np.diag(np.diag(variance)))
