"""A fit in its geometry as the inference sees it, and whether its levels have enough events.

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

from dpinfer.maths.arrays import Array
from dpinfer.maths.entering import Shape
from dpinfer.maths.moments import Columns, Scales, deviations, raised, shrink, two_values, undispersed
from dpinfer.maths.posterior import LEAST_EVENTS, SURE

SURE_EVENTS = 2.33
"""Deviations of its noise that a number of events must reach: noise alone does so once in a hundred times."""
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
    group: npt.NDArray[np.intp]
    short: npt.NDArray[np.bool_]
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
        short=shape.short,
        group=some.group,
    )


def _ratio(found: Estimate, scales: Scales, rules: Rules) -> float:
    """tr V/tr H.  Where noise leaves nothing of it: 1 for a logistic fit, one deviation of the noise for squares."""
    size, whole = float(np.trace(found.score_cov)), float(np.trace(found.hessian))
    if rules.quadratic:
        return max(size, scales.score_cov * float(np.sqrt(len(found.coef)))) / whole
    return size / whole if size > 0 else 1.0


@dataclass(frozen=True, eq=False)
class Events:
    """Of each column with two values: the noise in its number of rarer outcomes over that number, 0 for other columns.

    Infinite where the number is below 8.  ``toward`` is the direction, 1 or -1, in which the coefficient would run if
    there were fewer; ``reference`` says whether the reference level has too few.  ``level`` and ``sign`` are those of the
    records at the upper value alone, whatever they are compared with.
    """

    doubt: Array
    toward: Array
    reference: npt.NDArray[np.bool_]
    level: Array
    sign: Array

    @property
    def enough(self) -> npt.NDArray[np.bool_]:
        """Whether a column has enough events at both values."""
        return np.asarray(self.doubt <= 1 / SURE_EVENTS)

    @property
    def allowance(self) -> Array:
        """How much longer than a normal interval one for the logarithm of the number is, on its longer side."""
        return allowed_for(self.doubt)


def allowed_for(doubt: Array) -> Array:
    """The part of an interval of a logarithm beyond the normal one, for a number known to this relative deviation."""
    q = np.minimum(2 * doubt, 0.95)
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
        return Events(doubt, toward, doubt > 0, doubt, toward)
    together = fit.dummy[:, None] & (fit.group[:, None] == fit.group)  # the levels of one factor
    reference = fit.back[:, [0]] - np.nan_to_num(at_high) @ together  # with which every level is compared
    own = fit.coef[0] + fit.coef * np.nan_to_num(high), fit.coef[0] + fit.coef * np.nan_to_num(low)
    base = fit.coef[0] - together @ (fit.centre * fit.coef)
    each = []
    for v, end, predictor, sign in (
        (fit.back[:, [0]] - at_high, low, own[1], -1.0),
        (at_high, high, own[0], 1.0),
        (reference, np.where(fit.dummy, 0.0, np.nan), base, -1.0),
    ):
        length = np.linalg.norm(v, axis=0)
        number = np.einsum("ij,ik,kj->j", v, fit.released, v) - np.abs(fit.gradient @ v)
        noise = np.hypot(fit.scales.gradient * length, fit.scales.hessian * length**2)
        here = np.where(number >= LEAST_EVENTS, noise / np.maximum(number, LEAST_EVENTS), np.inf)
        here = np.where(np.isnan(end), 0.0, here)
        each.append((here, np.sign(predictor)))
        toward = np.where(here > doubt, sign * np.sign(predictor), toward)
        doubt = np.maximum(doubt, here)
    return Events(doubt, toward, here > 1 / SURE_EVENTS, *each[1])  # the last of them is the reference
