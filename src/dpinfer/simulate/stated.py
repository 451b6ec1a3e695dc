"""What a result is about, on a population: its stated model, fitted without noise.

The estimand of a fit in a private geometry depends on its releases: the weights, the band, and which columns are in the
model.  So each result has a target of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpinfer.data.design import Design
from dpinfer.fit.weighted.plan import TARGET_LOSS
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.losses import Logistic, Loss, slope_and_curvature
from dpinfer.maths.minimise import minimise
from dpinfer.maths.sums import Block, square
from dpinfer.result.result import FitResult

_RIDGE = 1e-3  # times the variance of a column, in a sum over records: against separation
_TOLERANCE = 1e-4  # of a gradient summed over records: a millionth of a standard error
_MOST = 300  # reweightings of a robust fit
_STILL = 1e-6  # of the clip: a step that ends them


@dataclass(frozen=True, eq=False)
class Minimum:
    """A weighted fit, and its sandwich covariance: by rows (HC0) or, with the ``starts`` of units, by units (CR1)."""

    coef: Array
    covariance: Array


def minimum(
    x: Array,
    y: Array,
    start: Array,
    weights: Array | float = 1.0,
    loss: Loss | None = None,
    starts: Indices | None = None,
) -> Minimum:
    """The product's own search from ``start``; the loss is the logistic one where none is given."""
    w, f = weights * np.ones(len(y)), Logistic() if loss is None else loss
    ridge = _RIDGE * x.var(axis=0)

    def totals(step: Array) -> tuple[float, Array, Array]:
        coef = start + step
        margins = y * (x @ coef)
        slope, curvature = slope_and_curvature(f, margins)
        hessian = (x * (w * curvature)[:, None]).T @ x + np.diag(ridge)
        value = w @ f.value(margins) + ridge @ coef**2 / 2
        return float(value), ridge * coef + (w * slope * y) @ x, hessian

    coef = start + minimise(totals, np.zeros(len(start)), _TOLERANCE).coef
    inverse = np.linalg.inv(totals(coef - start)[2])
    return Minimum(coef, inverse @ _of_scores(x, w * y * f.slope(y * (x @ coef)), starts) @ inverse)


def _of_scores(x: Array, factors: Array, starts: Indices | None) -> Array:
    """The sum of s sᵀ over rows or, times U/(U - 1), over U units: s = factor x, summed over a unit."""
    total = Block(x, factors, starts=starts).outer(factors)
    return total if starts is None else total * len(starts) / max(len(starts) - 1, 1)


def least_squares(x: Array, y: Array, weights: Array | float = 1.0, starts: Indices | None = None) -> Minimum:
    """Weighted least squares; a tiny ridge stands against columns that are collinear."""
    w = weights * np.ones(len(y))
    inverse = np.linalg.inv(square(x, w) + np.diag(_RIDGE * x.var(axis=0)))
    coef = inverse @ ((w * y) @ x)
    return Minimum(coef, inverse @ _of_scores(x, w * (y - x @ coef), starts) @ inverse)


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

    ``target`` is the stated estimand; ``ordinary`` the plain fit of the same model, where a row counts its share,
    ``std_error`` its standard error without noise, cluster-robust with units; ``full`` the plain fit of all columns.
    All intercepts are at the result's centre.  ``clipped`` is the share of rows whose outcome lies beyond the band.
    """

    target: Array
    ordinary: Array
    full: Array
    std_error: Array
    down_weighted: float
    clipped: float = 0.0


def full_model(people: Block, *, squares: bool) -> Array:
    """Coefficients of all columns (1, x~), without noise; every row counts its share, and no weight of a geometry."""
    x, y = people.rows, people.labels
    if squares:
        return least_squares(x, y, people.shares).coef
    return minimum(x, y, np.zeros(x.shape[1]), people.shares).coef


def in_units(design: Design, centre: Array) -> Callable[[Array], Array]:
    """From coefficients of (1, x~) and a scaled outcome to original units, the intercept at ``centre``."""
    matrix = to_units(design, centre)
    return lambda coef: matrix @ coef + design.shift


def to_units(design: Design, centre: Array) -> Array:
    """The matrix of `in_units`, without the shift."""
    matrix = np.diag(1 / design.half)
    matrix[0] = np.concatenate([[1.0], (centre - design.middle[1:]) / design.half[1:]])
    return np.asarray(design.outcome.half * matrix)


class Plain:
    """Plain fits of a population, of which each is made once: a row counts its share, and no weight of a geometry."""

    def __init__(self, people: Block, *, squares: bool) -> None:
        self.people, self.squares = people, squares
        self._known: dict[tuple[int, ...], Minimum] = {}

    def of(self, inside: Indices) -> Minimum:
        """That of some columns."""
        key = tuple(inside.tolist())
        if key not in self._known:
            people, x = self.people, self.people.rows[:, inside]
            self._known[key] = (
                least_squares(x, people.labels, people.shares, people.starts)
                if self.squares
                else minimum(x, people.labels, np.zeros(len(key)), people.shares, None, people.starts)
            )
        return self._known[key]

    def said(self, result: FitResult, design: Design) -> tuple[Array, Array]:
        """Coefficients and standard errors of a result's model in its units, NaN where it reports none."""
        assert result.geometry is not None
        inside, kept = _inside(result, design), result.reported
        matrix, found = to_units(design, result.geometry.centre)[:, inside], self.of(inside)
        errors = np.sqrt(np.diag(matrix @ found.covariance @ matrix.T))
        return np.where(kept, matrix @ found.coef + design.shift, np.nan), np.where(kept, errors, np.nan)


def _inside(result: FitResult, design: Design) -> Indices:
    assert result.geometry is not None
    return np.flatnonzero(np.isin(design.names, result.geometry.in_model))


def stated(
    result: FitResult, design: Design, people: Block, full: Array | None = None, plain: Plain | None = None
) -> Stated:
    """The estimand of a result, for a population: rows (1, x~), labels or scaled outcomes, shares, and units.

    ``full`` are the coefficients of (1, x~) in the full model, and ``plain`` plain fits, if they are known already.
    """
    geometry, x = result.geometry, people.rows
    assert geometry is not None
    inside = _inside(result, design)
    kept = np.flatnonzero(np.isin(design.names, geometry.columns))[1:]
    rows = design.middle[kept] + design.half[kept] * x[:, kept]
    weights, matrix = geometry.row_weights(rows), to_units(design, geometry.centre)
    squares = result.band is not None
    inner = replace(people, rows=x[:, inside], weights=weights * people.shares)
    plain = Plain(people, squares=squares) if plain is None else plain
    target, clipped = (_of_squares if squares else _logistic)(result, design, inner, rows, plain.of(inside).coef)
    full = full_model(people, squares=squares) if full is None else full

    def whole(values: Array, some: Indices) -> Array:
        return np.where(result.reported, matrix[:, some] @ values + design.shift, np.nan)

    ordinary, std_error = plain.said(result, design)
    return Stated(
        target=whole(target.coef, inside),
        ordinary=ordinary,
        full=whole(full, np.arange(len(design.names))),
        std_error=std_error,
        down_weighted=float((weights < 1 - 1e-9).mean()),
        clipped=clipped,
    )


def _logistic(result: FitResult, design: Design, inner: Block, rows: Array, start: Array) -> tuple[Minimum, float]:  # noqa: ARG001
    return minimum(inner.rows, inner.labels, start, inner.weights, TARGET_LOSS[result.model.target]), 0.0


def _of_squares(result: FitResult, design: Design, inner: Block, rows: Array, start: Array) -> tuple[Minimum, float]:
    """Least squares of the outcome pulled into the band (mean), or with residuals pulled into it (robust)."""
    x, y, weights = inner.rows, inner.labels, inner.weights
    band, geometry, scale = result.band, result.geometry, design.outcome
    assert band is not None
    assert geometry is not None
    pulled = scale.bounded(band.pulled(geometry, rows, scale.centre + scale.half * y))
    clipped = float((np.abs(pulled - y) > 1e-9).mean())
    if result.model.target == "mean":
        return least_squares(x, pulled, weights), clipped
    return huber(x, y, start, np.asarray(weights), band.most(geometry, rows) / scale.half), clipped
