"""A fit in its geometry as the inference sees it, and which of its coefficients can be reported.

Post-processing of released values only.

Coordinates: t for the rows u the fit worked on, θ for the coefficients at the released centre, t = E θ.

| symbol | meaning                                                        | name in code     |
| ------ | -------------------------------------------------------------- | ---------------- |
| H, V   | curvature and score covariance in t, without the known noise   | `hessian`, `score_cov` |
| g      | minus the gradient there, but for sampling and noise           | `gradient`       |
| W      | V + σ² I                                                       | `total`          |
| σ, h   | scales of b and of the noise in H                              | `scales`         |
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import Columns, Scales, deviations, raised, shrink, two_values, undispersed
from dpinfer.maths.posterior import LEAST_EVENTS, SURE

SURE_EVENTS = 2.33
"""Deviations of its noise that a number of events must reach: noise alone does so once in a hundred times."""
FARTHEST = 3.0
"""The largest debiasing step of a number times its reach: beyond, a quadratic around the estimate is of no use."""

TYPICAL = 1 / 20
"""The share of records with a typical level."""


@dataclass(frozen=True)
class Rules:
    """When a coefficient is reported.

    Its information is at least ``signal`` times the noise of it; a column with two values has ``events`` or more; noise
    in the Hessian causes at most ``noise`` of the variance of the others.  ``quadratic`` says that the risk is one: a
    step is exact then, however far, and records of both outcomes are not needed.
    """

    signal: float
    events: float
    noise: float
    quadratic: bool = False


BINARY = Rules(signal=3.0, events=LEAST_EVENTS, noise=0.25)
SQUARES = Rules(signal=3.0, events=15.0, noise=1.0, quadratic=True)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The last releases: coefficients in u, curvature and score covariance there, and g."""

    coef: Array
    hessian: Array
    score_cov: Array
    gradient: Array
    mask: float = 0.0


@dataclass(frozen=True, eq=False)
class Fitted:
    """``coef`` is θ, ``back`` is E, ``released`` H with its noise.

    ``centre`` is the released one, ``spread`` the columns' deviations; ``ends`` are the two values of a column, from
    the centre, NaN where it has more than two.
    """

    hessian: Array
    released: Array
    score_cov: Array
    coef: Array
    gradient: Array
    back: Array
    centre: Array
    spread: Array
    ends: Array
    dummy: npt.NDArray[np.bool_]
    scales: Scales
    rules: Rules = BINARY
    mask: float = 0.0

    def __len__(self) -> int:
        return len(self.coef)

    @property
    def total(self) -> Array:
        """V + σ² I + m² (H + λI)²: the covariance of the gradient at the estimate, m the deviation of its mask."""
        moved = self.mask * (self.hessian + self.scales.ridge * np.eye(len(self)))
        return np.asarray(self.score_cov + self.scales.gradient**2 * np.eye(len(self)) + moved @ moved)


def fitted(
    found: Estimate, shape: Shape, centre: Array, columns: Columns, scales: Scales, rules: Rules = BINARY
) -> Fitted | None:
    """The fit of ``shape``; ``centre`` and ``columns`` are those of all columns.  None if H as a whole is noise."""
    k, kept = len(found.coef), shape.kept
    if not np.trace(found.hessian) > SURE * scales.hessian * np.sqrt(k):
        return None
    guess = found.hessian * _ratio(found, scales, rules)
    to_centre = np.eye(k)
    to_centre[0] = centre[kept]
    forward, some = to_centre @ shape.preconditioner.T, columns.take(kept)
    return Fitted(
        hessian=undispersed(found.hessian, scales.hessian),
        released=found.hessian,
        score_cov=raised(shrink(found.score_cov, guess, scales.score_cov, 0.0)[0], 0.0),
        coef=forward @ found.coef,
        gradient=found.gradient,
        back=np.asarray(np.linalg.inv(forward), dtype=np.float64),
        centre=centre[kept],
        spread=deviations(shape.moments),
        ends=two_values(shape.moments, some) - centre[kept, None],
        dummy=some.dummy,
        scales=scales,
        rules=rules,
        mask=found.mask,
    )


def _ratio(found: Estimate, scales: Scales, rules: Rules) -> float:
    """tr V/tr H.  Where noise leaves nothing of it: 1 for a logistic fit, one deviation of the noise for squares."""
    size, whole = float(np.trace(found.score_cov)), float(np.trace(found.hessian))
    if rules.quadratic:
        return max(size, scales.score_cov * float(np.sqrt(len(found.coef)))) / whole
    return size / whole if size > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Block:
    """Some columns of a fit: E_S, H_SS⁻¹ and, of each column, its information given the others and its direction.

    ``length2`` is the squared length of that direction in t, so h times it is the noise of the information.
    """

    back: Array
    inverse: Array
    information: Array
    length2: Array
    signal: Array


def block(fit: Fitted, some: Indices) -> Block:
    """The block of some columns, whose H_SS must be invertible."""
    E = fit.back[:, some]
    inverse = np.asarray(np.linalg.inv(E.T @ fit.hessian @ E), dtype=np.float64)
    information = 1 / np.diag(inverse)
    length2 = ((E @ (inverse * information)) ** 2).sum(axis=0)
    return Block(E, inverse, information, length2, information / (fit.scales.hessian * length2))


@dataclass(frozen=True, eq=False)
class Events:
    """Of each column with two values: the noise in its number of rarer outcomes over that number, 0 for other columns.

    Infinite where the number is below 8.  ``toward`` is the direction, 1 or -1, in which the coefficient would run if
    there were fewer.
    """

    doubt: Array
    toward: Array

    @property
    def enough(self) -> npt.NDArray[np.bool_]:
        """Whether a column has enough events at both values."""
        return np.asarray(self.doubt <= 1 / SURE_EVENTS)

    @property
    def allowance(self) -> Array:
        """How much longer than a normal interval one for the logarithm of the number is, on its longer side."""
        q = np.minimum(2 * self.doubt, 0.95)
        return np.asarray(-np.log(1 - q) - q)


def events(fit: Fitted) -> Events:
    """Lower estimates of the number of rarer outcomes among the records at each of a column's two values.

    With v·u = 1 for these records and 0 for the others, the residuals sum to v·(g + b) at the minimum, and either
    outcome has at least vᵀHv: so there are vᵀHv - |v·g| or more (weighted, at most 1/c of them each) but for the noise
    hypot(σ‖v‖, h‖v‖²).  Least squares has no outcomes that could be rare.
    """
    low, high = fit.ends.T
    at_high = (fit.back - np.outer(fit.back[:, 0], low)) / (high - low)
    doubt, toward = np.zeros(len(fit)), np.zeros(len(fit))
    if fit.rules.quadratic:
        return Events(doubt, toward)
    for v, end, sign in ((fit.back[:, [0]] - at_high, low, -1.0), (at_high, high, 1.0)):
        length = np.linalg.norm(v, axis=0)
        number = np.einsum("ij,ik,kj->j", v, fit.released, v) - np.abs(fit.gradient @ v)
        noise = np.hypot(fit.scales.gradient * length, fit.scales.hessian * length**2)
        here = np.where(number >= LEAST_EVENTS, noise / np.maximum(number, LEAST_EVENTS), np.inf)
        here = np.where(np.isnan(end), 0.0, here)
        predictor = fit.coef[0] + fit.coef * np.nan_to_num(end)
        toward = np.where(here > doubt, sign * np.sign(predictor), toward)
        doubt = np.maximum(doubt, here)
    return Events(doubt, toward)


def reportable(fit: Fitted) -> Indices:
    """The columns that are strong enough, the intercept always first.

    Those with too few events go at once, then the weakest, one at a time.
    """
    kept = np.flatnonzero(events(fit).enough)
    while len(kept) > 1:
        weakest = _weakest(fit, kept)
        if weakest is None:
            break
        kept = np.delete(kept, weakest)
    return kept


def _weakest(fit: Fitted, kept: Indices) -> int | None:
    """The place among ``kept`` of the column to set aside, or None if all are strong enough."""
    E = fit.back[:, kept]
    values, vectors = np.linalg.eigh(E.T @ fit.hessian @ E)
    if values[0] <= 0:
        return _largest(np.abs(vectors[:, 0]) * fit.spread[kept])
    some = block(fit, kept)
    signal = _signal(fit, kept, some)
    weakest = int(np.argmin(signal))
    if signal[weakest] < fit.rules.signal:
        return weakest
    step = some.inverse @ (E.T @ fit.gradient)
    variance = some.inverse @ (E.T @ fit.total @ E) @ some.inverse
    far = np.abs(step) * np.where(np.isnan(fit.ends[kept, 0]), 1 + np.abs(fit.centre[kept]), 0.0)
    if far[1:].max() > FARTHEST and not fit.rules.quadratic:
        return _largest(far)
    if _noise_from_hessian(fit, E, step, variance) <= fit.rules.noise:
        return None
    return _largest(some.length2 * (step**2 + np.diag(variance)))


def _largest(values: Array) -> int:
    """The place of the largest value, the intercept's left out."""
    return 1 + int(np.argmax(values[1:]))


def _signal(fit: Fitted, kept: Indices, some: Block) -> Array:
    """Information over its noise, lowered where a column with two values has too few effective events."""
    signal = some.signal.copy()
    released = np.einsum("ij,ik,kj->j", some.back, fit.released, some.back)
    number = np.minimum(some.information, released) / np.diff(fit.ends[kept], axis=1)[:, 0] ** 2
    least = fit.rules.events
    few = number < least  # of columns with two values: others are NaN
    signal[few] = np.minimum(signal, fit.rules.signal * number / (2 * least))[few]
    signal[0] = np.inf
    return signal


def _noise_from_hessian(fit: Fitted, E: Array, step: Array, variance: Array) -> float:
    """The variance that noise in H causes, relative to the variance of the gradient."""
    Q = np.linalg.qr(E)[0]
    moved = ((E @ step) ** 2).sum() + np.trace(E @ variance @ E.T)
    return float(fit.scales.hessian**2 / 2 * moved / (np.trace(Q.T @ fit.total @ Q) / E.shape[1]))
