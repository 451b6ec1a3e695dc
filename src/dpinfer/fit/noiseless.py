"""Regressions without noise, NOT PRIVATE: what studies and forecasts hold a fit against."""

from dataclasses import dataclass

import numpy as np

from dpinfer.mechanisms.losses import Logistic, slope_and_curvature
from dpinfer.mechanisms.minimise import minimise
from dpinfer.mechanisms.sums import Block, square
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.numerics.links import FARTHEST, FARTHEST_OFFSET
from dpinfer.numerics.reasons import Numerical
from dpinfer.rows.encoded import every_row
from dpinfer.schema.design import Design

# times the variance of a column, in a sum over records: against separation
_RIDGE: Numerical[float] = 1e-3
_SMALLEST: Numerical[float] = 1e-6  # of a variance there: a sample may not have a level at all
# of a gradient summed over records: a millionth of a standard error
_TOLERANCE: Numerical[float] = 1e-4
_REWEIGHTINGS: Numerical[int] = 300  # of a robust fit, at most
_STILL: Numerical[float] = 1e-6  # of the clip: a step that ends them


@dataclass(frozen=True, repr=False)
class Observations(Block):
    """Rows (1, x~), with what is added to the predictor of each as it is."""

    offset: Array | float = 0.0


@dataclass(frozen=True, eq=False)
class NoiselessFit:
    """A weighted fit, and its sandwich covariance: by rows (HC0) or, with the ``starts`` of units,
    by units (CR1).
    """

    coef: Array
    covariance: Array

    @property
    def std_error(self) -> Array:
        """Return the standard error of each coefficient."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def in_units(self, design: Design, centre: Array) -> "NoiselessFit":
        """Map coefficients of (1, x~) and a scaled outcome to original units, with the intercept at
        ``centre``.
        """
        matrix = units_matrix(design, centre)
        return NoiselessFit(matrix @ self.coef + design.shift, matrix @ self.covariance @ matrix.T)


def logistic(
    x: Array,
    y: Array,
    start: Array,
    weights: Array | float = 1.0,
    starts: Indices | None = None,
) -> NoiselessFit:
    """Logistic regression, by the product's own search from ``start``."""
    w = weights * np.ones(len(y))
    loss = Logistic()
    ridge = _RIDGE * np.maximum(x.var(axis=0), _SMALLEST)

    def totals(step: Array) -> tuple[float, Array, Array]:
        coef = start + step
        margins = y * (x @ coef)
        slope, curvature = slope_and_curvature(loss, margins)
        hessian = (x * (w * curvature)[:, None]).T @ x + np.diag(ridge)
        value = w @ loss.value(margins) + ridge @ coef**2 / 2
        return float(value), ridge * coef + (w * slope * y) @ x, hessian

    coef = start + minimise(totals, np.zeros(len(start)), _TOLERANCE).coef
    inverse = np.linalg.inv(totals(coef - start)[2])
    scores = _score_total(x, w * y * loss.slope(y * (x @ coef)), starts)
    return NoiselessFit(coef, inverse @ scores @ inverse)


def poisson(observations: Observations, weights: Array | float | None = None) -> NoiselessFit:
    """Poisson regression of rows (1, x~); by default each row counts by its share.

    A zero row, which could not be encoded, counts for nothing.
    """
    x = observations.rows
    y = observations.labels
    offset = observations.offset * np.ones(len(y))
    counts = (observations.shares if weights is None else weights) * np.ones(len(y))
    w = np.where(x[:, 0] != 0, counts, 0.0)
    total = max(float(w @ y), np.finfo(float).tiny)
    mean = total / max(float(w.sum()), np.finfo(float).tiny)
    start = np.zeros(x.shape[1])
    start[0] = np.log(total / max(float(w @ np.exp(offset)), np.finfo(float).tiny))
    ridge = mean * _RIDGE * np.maximum(x.var(axis=0), _SMALLEST)

    def totals(step: Array) -> tuple[float, Array, Array]:
        predictor = np.minimum(x @ (start + step) + offset, FARTHEST)
        means = np.exp(predictor)
        value = w @ (means - y * predictor) + ridge @ step**2 / 2
        gradient = ridge * step + (w * (means - y)) @ x
        return float(value), gradient, square(x, w * means) + np.diag(ridge)

    step = minimise(totals, np.zeros(len(start)), mean * _TOLERANCE).coef
    inverse = np.linalg.inv(totals(step)[2])
    gaps = w * (y - np.exp(np.minimum(x @ (start + step) + offset, FARTHEST)))
    scores = _score_total(x, gaps, observations.starts)
    return NoiselessFit(start + step, inverse @ scores @ inverse)


def observations_of(design: Design, block: Block) -> Observations:
    """Bounded rows as (1, x~), with the offset beside them where there is one."""
    if design.unit.every:
        block = every_row(block)
    rows = block.rows * np.sqrt(design.norm2)
    offset: Array | float = 0.0
    if design.offset is not None:
        offset = FARTHEST_OFFSET * rows[:, -1]
        rows = rows[:, :-1]
    return Observations(
        rows, block.labels, block.weights, block.shares, block.starts, block.fixed, offset=offset
    )


def _score_total(x: Array, factors: Array, starts: Indices | None) -> Array:
    """The sum of s sᵀ over rows or, times U/(U - 1), over U units: s = factor x, summed over a
    unit.
    """
    total = Block(x, factors, starts=starts).outer(factors)
    if starts is None:
        return total
    return total * len(starts) / max(len(starts) - 1, 1)


def least_squares(
    x: Array, y: Array, weights: Array | float = 1.0, starts: Indices | None = None
) -> NoiselessFit:
    """Weighted least squares; a tiny ridge stands against columns that are collinear."""
    w = weights * np.ones(len(y))
    inverse = np.linalg.inv(square(x, w) + np.diag(_RIDGE * np.maximum(x.var(axis=0), _SMALLEST)))
    coef = inverse @ ((w * y) @ x)
    scores = _score_total(x, w * (y - x @ coef), starts)
    return NoiselessFit(coef, inverse @ scores @ inverse)


def huber(x: Array, y: Array, start: Array, weights: Array, clip: Array) -> NoiselessFit:
    """The zero of sum w x clip(y - x·coef, ± clip), by reweighting."""
    coef = start
    fitted = least_squares(x, y, weights)
    for _ in range(_REWEIGHTINGS):
        inside = np.minimum(1.0, clip / np.maximum(np.abs(y - x @ coef), np.finfo(float).tiny))
        fitted = least_squares(x, y, weights * inside)
        step = np.abs(fitted.coef - coef).max()
        coef = fitted.coef
        if step < _STILL * clip.min():
            break
    return fitted


def units_matrix(design: Design, centre: Array) -> Array:
    """The matrix of `NoiselessFit.in_units`, without the shift."""
    matrix = np.diag(1 / design.half)
    matrix[0] = np.concatenate([[1.0], (centre - design.middle[1:]) / design.half[1:]])
    return np.asarray(design.outcome.slope * matrix)
