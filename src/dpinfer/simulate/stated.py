"""What a result is about, on a population: its stated model, fitted without noise.

The estimand of a fit in a private geometry depends on its releases: the weights, the band, and which columns are in the
model.  So each result has a target of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpinfer.data.design import Design
from dpinfer.fit.weighted.plan import TARGET_LOSS
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.losses import Logistic, Loss, slope_and_curvature
from dpinfer.maths.minimise import minimise
from dpinfer.maths.sums import square
from dpinfer.result.result import FitResult

_RIDGE = 1e-3  # times the variance of a column, in a sum over records: against separation
_TOLERANCE = 1e-4  # of a gradient summed over records: a millionth of a standard error
_MOST = 300  # reweightings of a robust fit
_STILL = 1e-6  # of the clip: a step that ends them


@dataclass(frozen=True, eq=False)
class Minimum:
    """A weighted fit, and its sandwich covariance."""

    coef: Array
    covariance: Array


def minimum(x: Array, y: Array, start: Array, weights: Array | None = None, loss: Loss | None = None) -> Minimum:
    """The product's own search from ``start``; the loss is the logistic one where none is given."""
    w, f = np.ones(len(y)) if weights is None else weights, Logistic() if loss is None else loss
    ridge = _RIDGE * x.var(axis=0)

    def totals(step: Array) -> tuple[float, Array, Array]:
        coef = start + step
        margins = y * (x @ coef)
        slope, curvature = slope_and_curvature(f, margins)
        hessian = (x * (w * curvature)[:, None]).T @ x + np.diag(ridge)
        value = w @ f.value(margins) + ridge @ coef**2 / 2
        return float(value), ridge * coef + (w * slope * y) @ x, hessian

    coef = start + minimise(totals, len(start), _TOLERANCE).coef
    scores = x * (w * f.slope(y * (x @ coef)))[:, None]
    inverse = np.linalg.inv(totals(coef - start)[2])
    return Minimum(coef, inverse @ (scores.T @ scores) @ inverse)


def least_squares(x: Array, y: Array, weights: Array | None = None) -> Minimum:
    """Weighted least squares with the sandwich HC0; a tiny ridge stands against columns that are collinear."""
    w = np.ones(len(y)) if weights is None else weights
    inverse = np.linalg.inv(square(x, w) + np.diag(_RIDGE * x.var(axis=0)))
    coef = inverse @ ((w * y) @ x)
    return Minimum(coef, inverse @ square(x, (w * (y - x @ coef)) ** 2) @ inverse)


def huber(x: Array, y: Array, start: Array, weights: Array, most: Array) -> Minimum:
    """The zero of sum w x clip(y - x·coef, ± most), by reweighting."""
    coef, found = start, least_squares(x, y, weights)
    for _ in range(_MOST):
        inside = np.minimum(1.0, most / np.maximum(np.abs(y - x @ coef), np.finfo(float).tiny))
        found = least_squares(x, y, weights * inside)
        step, coef = np.abs(found.coef - coef).max(), found.coef
        if step < _STILL * most.min():
            break
    return found


@dataclass(frozen=True, eq=False)
class Stated:
    """What a result is about, on the population: coefficients in its units, NaN where none is reported.

    ``target`` is the stated estimand; ``ordinary`` the plain fit of the same model, ``std_error`` its standard error
    without noise; ``full`` the plain fit of all columns.  All intercepts are at the result's centre.  ``clipped`` is
    the share of records whose outcome lies beyond the band.
    """

    target: Array
    ordinary: Array
    full: Array
    std_error: Array
    down_weighted: float
    clipped: float = 0.0


def full_model(x: Array, y: Array, *, squares: bool) -> Array:
    """Coefficients of all columns (1, x~), without noise or weights."""
    return least_squares(x, y).coef if squares else minimum(x, y, np.zeros(x.shape[1])).coef


def in_units(design: Design, centre: Array) -> Callable[[Array], Array]:
    """From coefficients of (1, x~) and a scaled outcome to original units, the intercept at ``centre``."""
    matrix = _to_units(design, centre)
    return lambda coef: matrix @ coef + design.shift


def _to_units(design: Design, centre: Array) -> Array:
    matrix = np.diag(1 / design.half)
    matrix[0] = np.concatenate([[1.0], (centre - design.middle[1:]) / design.half[1:]])
    return np.asarray(design.outcome.half * matrix)


def stated(result: FitResult, design: Design, x: Array, y: Array, full: Array | None = None) -> Stated:
    """The estimand of a result, for the rows x = (1, x~) and labels or scaled outcomes of the population.

    ``full`` are the coefficients of (1, x~) in the full model, if they are known already.
    """
    geometry = result.geometry
    assert geometry is not None
    inside = np.flatnonzero(np.isin(design.names, geometry.in_model))
    kept = np.flatnonzero(np.isin(design.names, geometry.columns))[1:]
    rows = design.middle[kept] + design.half[kept] * x[:, kept]
    weights, to_units = geometry.row_weights(rows), _to_units(design, geometry.centre)
    squares = result.band is not None
    plain, target, clipped = (_of_squares if squares else _logistic)(result, design, (x[:, inside], y), rows, weights)
    full = full_model(x, y, squares=squares) if full is None else full

    def whole(values: Array, some: Indices) -> Array:
        return np.where(result.reported, to_units[:, some] @ values + design.shift, np.nan)

    covariance = to_units[:, inside] @ plain.covariance @ to_units[:, inside].T
    return Stated(
        target=whole(target.coef, inside),
        ordinary=whole(plain.coef, inside),
        full=whole(full, np.arange(len(design.names))),
        std_error=np.where(result.reported, np.sqrt(np.diag(covariance)), np.nan),
        down_weighted=float((weights < 1 - 1e-9).mean()),
        clipped=clipped,
    )


_Fits = tuple[Minimum, Minimum, float]


def _logistic(result: FitResult, design: Design, data: tuple[Array, Array], rows: Array, weights: Array) -> _Fits:  # noqa: ARG001
    x, y = data
    plain = minimum(x, y, np.zeros(x.shape[1]))
    return plain, minimum(x, y, plain.coef, weights, TARGET_LOSS[result.model.target]), 0.0


def _of_squares(result: FitResult, design: Design, data: tuple[Array, Array], rows: Array, weights: Array) -> _Fits:
    """Least squares, and that of the outcome pulled into the band (mean) or with residuals pulled into it (robust)."""
    (x, y), band, geometry, scale = data, result.band, result.geometry, design.outcome
    assert band is not None
    assert geometry is not None
    pulled = scale.bounded(band.pulled(geometry, rows, scale.centre + scale.half * y))
    clipped = float((np.abs(pulled - y) > 1e-9).mean())
    plain = least_squares(x, y)
    if result.model.target == "mean":
        return plain, least_squares(x, pulled, weights), clipped
    return plain, huber(x, y, plain.coef, weights, band.most(geometry, rows) / scale.half), clipped
