"""What was asked of a fit, and what it states, on a population without noise.

Asked is the ordinary regression of all columns, every row counted by its share.  Stated is what the
fit itself solves:  rows far out count less, some numbers are clipped to their released range, and
outcomes of least squares are pulled into a band.  The first is the same for every fit, but for the
place of its intercept; the second depends on the releases.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpinfer.fit.stepped_plan import ROBUST
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.losses import Logistic, slope_and_curvature
from dpinfer.maths.minimise import minimise
from dpinfer.maths.sums import Block, square
from dpinfer.result.result import FitResult
from dpinfer.schema.design import Design

_RIDGE = 1e-3  # times the variance of a column, in a sum over records: against separation
_SMALLEST = 1e-6  # of a variance there: a sample may not have a level at all
_TOLERANCE = 1e-4  # of a gradient summed over records: a millionth of a standard error
_MOST = 300  # reweightings of a robust fit
_STILL = 1e-6  # of the clip: a step that ends them
_FULLY = 1e-9  # a weight or an outcome that differs by less is the same


@dataclass(frozen=True, eq=False)
class Minimum:
    """A weighted fit, and its sandwich covariance: by rows (HC0) or, with the ``starts`` of units,
    by units (CR1).
    """

    coef: Array
    covariance: Array

    @property
    def std_error(self) -> Array:
        """Of each coefficient."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def in_units(self, design: Design, centre: Array) -> "Minimum":
        """From coefficients of (1, x~) and a scaled outcome to original units, the intercept at
        ``centre``.
        """
        matrix = to_units(design, centre)
        return Minimum(matrix @ self.coef + design.shift, matrix @ self.covariance @ matrix.T)


def minimum(
    x: Array,
    y: Array,
    start: Array,
    weights: Array | float = 1.0,
    starts: Indices | None = None,
) -> Minimum:
    """Logistic regression, by the product's own search from ``start``."""
    w = weights * np.ones(len(y))
    f = Logistic()
    ridge = _RIDGE * np.maximum(x.var(axis=0), _SMALLEST)

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
    """The sum of s sᵀ over rows or, times U/(U - 1), over U units: s = factor x, summed over a
    unit.
    """
    total = Block(x, factors, starts=starts).outer(factors)
    return total if starts is None else total * len(starts) / max(len(starts) - 1, 1)


def least_squares(
    x: Array, y: Array, weights: Array | float = 1.0, starts: Indices | None = None
) -> Minimum:
    """Weighted least squares; a tiny ridge stands against columns that are collinear."""
    w = weights * np.ones(len(y))
    inverse = np.linalg.inv(square(x, w) + np.diag(_RIDGE * np.maximum(x.var(axis=0), _SMALLEST)))
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


def to_units(design: Design, centre: Array) -> Array:
    """The matrix of `Minimum.in_units`, without the shift."""
    matrix = np.diag(1 / design.half)
    matrix[0] = np.concatenate([[1.0], (centre - design.middle[1:]) / design.half[1:]])
    return np.asarray(design.outcome.half * matrix)


def ordinary(people: Block, *, squares: bool) -> Minimum:
    """The regression that was asked for, of rows (1, x~): all columns, every row counted by its
    share.
    """
    x = people.rows
    y = people.labels
    if squares:
        return least_squares(x, y, people.shares, people.starts)
    return minimum(x, y, np.zeros(x.shape[1]), people.shares, people.starts)


@dataclass(frozen=True, eq=False)
class Stated:
    """The estimand of a fit on a population: coefficients in original units, the intercept at the
    result's centre.

    ``down_weighted`` is the share of rows that count less than fully, ``clipped`` that of rows
    whose outcome lies beyond the band.
    """

    coef: Array
    down_weighted: float
    clipped: float


def stated(
    result: FitResult, design: Design, people: Block, asked: Minimum | None = None
) -> Stated:
    """What a fit estimates, for a population of rows (1, x~), labels or scaled outcomes, shares and
    units.

    ``asked`` is the ordinary regression of the same rows, where the search begins; it is made where
    it is not given.
    """
    geometry = result.geometry
    assert geometry is not None
    if asked is None:
        asked = ordinary(people, squares=result.band is not None)
    columns = _columns(design, people.rows)
    weights = geometry.row_weights(columns)
    rows = _rows(design, people.rows, geometry.inside(columns))
    seen = replace(people, rows=rows, weights=weights * people.shares)
    clipped = 0.0
    if result.band is None:
        found = minimum(seen.rows, seen.labels, asked.coef, seen.weights)
    else:
        found, clipped = _in_band(result, design, seen, columns, asked)
    coef = found.in_units(design, geometry.centre).coef
    return Stated(coef, float((weights < 1 - _FULLY).mean()), clipped)


def _in_band(
    result: FitResult, design: Design, seen: Block, columns: Array, asked: Minimum
) -> tuple[Minimum, float]:
    """Least squares of outcomes pulled into the band or, of the robust target, with residuals
    pulled into it.
    """
    geometry = result.geometry
    band = result.band
    assert geometry is not None
    assert band is not None
    scale = design.outcome
    pulled = scale.bounded(band.pulled(geometry, columns, scale.centre + scale.half * seen.labels))
    clipped = float((np.abs(pulled - seen.labels) > _FULLY).mean())
    if result.model.target == ROBUST:
        most = band.most(geometry, columns) / scale.half
        return huber(seen.rows, seen.labels, asked.coef, np.asarray(seen.weights), most), clipped
    return least_squares(seen.rows, pulled, seen.weights), clipped


def _columns(design: Design, rows: Array) -> Array:
    """Columns in original units, from rows (1, x~)."""
    return np.asarray(design.middle[1:] + design.half[1:] * rows[:, 1:])


def _rows(design: Design, before: Array, columns: Array) -> Array:
    """Rows (1, x~) of columns in original units; a row that could not be encoded stays a zero row."""
    rows = before.copy()
    rows[:, 1:] = (columns - design.middle[1:]) / design.half[1:]
    rows[before[:, 0] == 0] = 0.0
    return rows


def instead(result: FitResult, design: Design, people: Block, asked: Minimum) -> Array:
    """What the lines are about that stand for open coefficients, in their order, on a population.

    A level against another one is a difference of coefficients that were asked for.  A number
    clipped to its range is the coefficient of the ordinary regression in which it is clipped, and
    with it all that the fit has clipped.
    """
    lines = result.instead
    geometry = result.geometry
    assert geometry is not None
    if lines is None or not lines.names:
        return np.zeros(0)
    at = {name: j for j, name in enumerate(design.names)}
    coef = asked.in_units(design, geometry.centre).coef
    found = []
    narrow: dict[frozenset[str], Array] = {}
    for name, column in zip(lines.names, lines.instead_of, strict=True):
        other = name.removeprefix(f"{column} - ")
        if other in at:
            found.append(coef[at[column]] - coef[at[other]])
            continue
        clipped = frozenset({column, *geometry.clipped})
        if clipped not in narrow:
            narrow[clipped] = _clipped(result, design, people, clipped)
        found.append(narrow[clipped][at[column]])
    return np.array(found)


def _clipped(result: FitResult, design: Design, people: Block, names: frozenset[str]) -> Array:
    """Coefficients of the ordinary regression with some numbers clipped to their released range."""
    geometry = result.geometry
    assert geometry is not None
    narrowed = replace(geometry, clipped=tuple(names))
    rows = _rows(design, people.rows, narrowed.inside(_columns(design, people.rows)))
    found = ordinary(replace(people, rows=rows), squares=result.band is not None)
    return found.in_units(design, geometry.centre).coef
