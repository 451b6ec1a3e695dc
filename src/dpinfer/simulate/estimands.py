"""What intervals should hold, without noise: what was asked, and what a fit states.

Asked is the ordinary regression of all columns, every row counted by its share.  Stated is what the
fit itself solves: rows far out count less, some numbers are clipped to their released range, and
outcomes of least squares are pulled into a band.  The first is the same for every fit, but for the
place of its intercept; the second depends on the releases.  A fit with a penalty states what was
asked: the minimum of its own risk.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import ndtri

from dpinfer.errors import InputError
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.fit.recipe import Recipe, fit
from dpinfer.fit.stepped_plan import ROBUST
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.losses import Logistic, describe, slope_and_curvature
from dpinfer.maths.minimise import minimise, minimum
from dpinfer.maths.sums import Block, square
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.result.result import FitResult
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from dpinfer.simulate.population import Population
from dpinfer.simulate.synthetic import repeated

_RIDGE = 1e-3  # times the variance of a column, in a sum over records: against separation
_SMALLEST = 1e-6  # of a variance there: a sample may not have a level at all
_TOLERANCE = 1e-4  # of a gradient summed over records: a millionth of a standard error
_REWEIGHTINGS = 300  # of a robust fit, at most
_STILL = 1e-6  # of the clip: a step that ends them
_FULLY = 1e-9  # a weight or an outcome that differs by less is the same


class Estimand(Protocol):
    """What the intervals of a recipe are held against, on a population."""

    @property
    def target(self) -> Array:
        """What is estimated, for the table of a study."""
        ...

    @property
    def facts(self) -> tuple[Any, ...]:
        """Arrays and values that tell this estimand from others."""
        ...

    def describe(self) -> str:
        """The setting in words."""
        ...

    def values(self, result: FitResult) -> tuple[Array, Array]:
        """What was asked, and what the fit states, in original units."""
        ...

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:
        """Lengths of the intervals without noise, for the fit of a sample."""
        ...

    def nonprivate_half_width(self, n: int, level: float) -> Array:
        """Half-widths without noise for ``n`` records like these; NaN for a constant column."""
        ...


def estimand_of(recipe: Recipe, population: Population) -> Estimand:
    """The only place that asks which recipe it is."""
    if isinstance(recipe, Penalised):
        return PenalisedEstimand(recipe, population)
    if isinstance(recipe, LogisticSteps | LinearSteps):
        return SteppedEstimand(recipe, population, squares=isinstance(recipe, LinearSteps))
    raise InputError(f"{type(recipe).__name__} cannot be studied: its estimand is not known")


@dataclass(frozen=True, eq=False)
class PenalisedEstimand:
    """The minimum of the risk on the population, with or without its penalty."""

    recipe: Penalised
    population: Population

    @cached_property
    def target(self) -> Array:
        """The minimum on the population, in original units."""
        risk = self.recipe.risk(self.population.n)
        if self.recipe.target == "unpenalised":
            risk = replace(risk, ridge=0.0)
        people = self.population.whole
        coef = minimum(risk, people.total, np.zeros(people.dim)).coef
        design = self.recipe.design
        return np.asarray(design.mapping @ coef + design.shift)

    @property
    def facts(self) -> tuple[Any, ...]:
        """A loss by what it does, not by its name."""
        recipe = self.recipe
        design = recipe.design
        z = np.linspace(-5, 5, 201)
        return (
            design.mapping,
            design.shift,
            recipe.loss.slope(z),
            recipe.loss.curvature(z),
            (recipe.plan, recipe.target, describe(recipe.loss), recipe.penalty, design.unit),
        )

    def describe(self) -> str:
        """The setting in words."""
        recipe = self.recipe
        penalty = recipe.risk(self.population.n).penalty
        model = f"{describe(recipe.loss)}, {recipe.target} target, penalty {penalty:.6g}"
        plan = f"{recipe.plan.mechanism}, recipe {recipe.plan.recipe}, {recipe.budget}"
        return f"{_size(self.population)}, {model}, {plan}"

    def values(self, result: FitResult) -> tuple[Array, Array]:  # noqa: ARG002  (the same for all)
        """The minimum on the population, twice: a penalised fit states what was asked."""
        return self.target, self.target

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:  # noqa: ARG002
        """That of the same fit of the same sample, without noise."""
        plain = fit(self._without_noise(self.population.n), sample, insecure_seed=0)
        return np.asarray(np.diff(plain.conf_int(level))[:, 0])

    def nonprivate_half_width(self, n: int, level: float) -> Array:
        """By the same fit, without noise, of these records repeated."""
        source = repeated(self.population.whole, n)
        return half_widths(fit(self._without_noise(n), source, insecure_seed=0), level)

    def _without_noise(self, n: int) -> Penalised:
        """With the penalty that noise would have asked for."""
        penalty = self.recipe.risk(n).penalty
        return replace(self.recipe, plan=default_plan(NoPrivacy()), penalty=penalty)


@dataclass(frozen=True, eq=False)
class SteppedEstimand:
    """The ordinary regression of the population and, of each fit, the one that it states.

    With ``squares`` it is that of least squares, else logistic regression.
    """

    recipe: LogisticSteps | LinearSteps
    population: Population
    squares: bool

    @cached_property
    def people(self) -> Block:
        """The population with its rows as (1, x~)."""
        rows = self.population.rows * np.sqrt(self.recipe.design.norm2)
        return replace(self.population.whole.block, rows=rows)

    @cached_property
    def asked(self) -> "NoiselessFit":
        """The ordinary regression of all columns (1, x~)."""
        return ordinary_regression(self.people, squares=self.squares)

    @property
    def target(self) -> Array:
        """The ordinary coefficients, the intercept at the means; NaN of robust fits, each of which
        has a band of its own.
        """
        design = self.recipe.design
        if self.recipe.plan.target == ROBUST:
            return np.full(len(design.names), np.nan)
        return self.asked.in_units(design, self._means()).coef

    @property
    def facts(self) -> tuple[Any, ...]:
        """The plan and the public design."""
        design = self.recipe.design
        return design.half, design.middle, (self.recipe.plan, design.outcome, design.unit)

    def describe(self) -> str:
        """The setting in words."""
        plan = self.recipe.plan
        model = "least squares" if self.squares else "logistic regression"
        return f"{_size(self.population)}, {model}, target {plan.target}, {plan.budget}"

    def values(self, result: FitResult) -> tuple[Array, Array]:
        """The ordinary coefficients and those stated, the intercepts at the result's centre.

        Of the robust target what is asked is the Huber regression that is stated.
        """
        design = self.recipe.design
        assert result.geometry is not None
        stated = stated_estimand(result, design, self.people, self.asked).coef
        if self.recipe.plan.target == ROBUST:
            return stated, stated
        return self.asked.in_units(design, result.geometry.centre).coef, stated

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:  # noqa: ARG002
        """That of the ordinary regression of the population with its sandwich."""
        assert result.geometry is not None
        asked = self.asked.in_units(self.recipe.design, result.geometry.centre)
        return np.asarray(-2 * ndtri((1 - level) / 2) * asked.std_error)

    def nonprivate_half_width(self, n: int, level: float) -> Array:
        """By the ordinary regression of the columns that vary, scaled from these records to n."""
        design = self.recipe.design
        x = self.people.rows
        varying = np.flatnonzero((x.var(axis=0) > 0) | (np.arange(x.shape[1]) == 0))
        plain = ordinary_regression(replace(self.people, rows=x[:, varying]), squares=self.squares)
        matrix = units_matrix(design, self._means())[np.ix_(varying, varying)]
        variance = np.diag(matrix @ plain.covariance @ matrix.T) * self.population.n / n
        half = np.full(len(design.names), np.nan)
        half[varying] = -ndtri((1 - level) / 2) * np.sqrt(variance)
        return half

    def _means(self) -> Array:
        """Of the columns, in original units."""
        people = self.people
        means = np.average(people.rows, axis=0, weights=people.shares * np.ones(len(people)))
        design = self.recipe.design
        return np.asarray((design.middle + design.half * means)[1:])


def half_widths(result: FitResult, level: float) -> Array:
    """Half the length of each interval, infinite where none is reported."""
    low, high = result.conf_int(level).T
    with np.errstate(invalid="ignore"):
        return np.where(result.reported & np.isfinite(high - low), (high - low) / 2, np.inf)


def _size(population: Population) -> str:
    return f"n = {population.n}" if population.starts is None else f"{population.n} units"


@dataclass(frozen=True, eq=False)
class NoiselessFit:
    """A weighted regression, and its sandwich covariance: by rows (HC0) or, with the ``starts`` of
    units, by units (CR1).
    """

    coef: Array
    covariance: Array

    @property
    def std_error(self) -> Array:
        """Of each coefficient."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def in_units(self, design: Design, centre: Array) -> "NoiselessFit":
        """From coefficients of (1, x~) and a scaled outcome to original units, the intercept at
        ``centre``.
        """
        matrix = units_matrix(design, centre)
        coef = matrix @ self.coef + design.shift
        return NoiselessFit(coef, matrix @ self.covariance @ matrix.T)


def units_matrix(design: Design, centre: Array) -> Array:
    """The matrix of `NoiselessFit.in_units`, without the shift."""
    matrix = np.diag(1 / design.half)
    matrix[0] = np.concatenate([[1.0], (centre - design.middle[1:]) / design.half[1:]])
    return np.asarray(design.outcome.half * matrix)


def ordinary_regression(people: Block, *, squares: bool) -> NoiselessFit:
    """What is asked for, of rows (1, x~): all columns, every row counted by its share."""
    x = people.rows
    y = people.labels
    if squares:
        return least_squares(x, y, people.shares, people.starts)
    return logistic(x, y, np.zeros(x.shape[1]), people.shares, people.starts)


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


def _score_total(x: Array, factors: Array, starts: Indices | None) -> Array:
    """The sum of s sᵀ over rows or, times U/(U - 1), over U units: s = factor x, summed over a
    unit.
    """
    total = Block(x, factors, starts=starts).outer(factors)
    if starts is None:
        return total
    return total * len(starts) / max(len(starts) - 1, 1)


@dataclass(frozen=True, eq=False)
class StatedEstimand:
    """The estimand of a fit on a population: coefficients in original units, the intercept at the
    result's centre.

    ``down_weighted`` is the share of rows that count less than fully, ``clipped`` that of rows
    whose outcome lies beyond the band.
    """

    coef: Array
    down_weighted: float
    clipped: float


def stated_estimand(
    result: FitResult, design: Design, people: Block, asked: NoiselessFit | None = None
) -> StatedEstimand:
    """What a fit estimates, for a population of rows (1, x~), labels or scaled outcomes, shares and
    units.

    ``asked`` is the ordinary regression of the same rows, where the search begins; it is made where
    it is not given.
    """
    geometry = result.geometry
    assert geometry is not None
    if asked is None:
        asked = ordinary_regression(people, squares=result.band is not None)
    columns = _columns(design, people.rows)
    weights = geometry.row_weights(columns)
    rows = _rows(design, people.rows, geometry.inside(columns))
    bounded = replace(people, rows=rows, weights=weights * people.shares)
    clipped = 0.0
    if result.band is None:
        fitted = logistic(bounded.rows, bounded.labels, asked.coef, bounded.weights)
    else:
        fitted, clipped = _in_band(result, design, bounded, columns, asked)
    coef = fitted.in_units(design, geometry.centre).coef
    return StatedEstimand(coef, float((weights < 1 - _FULLY).mean()), clipped)


def _in_band(
    result: FitResult, design: Design, seen: Block, columns: Array, asked: NoiselessFit
) -> tuple[NoiselessFit, float]:
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
        clip = band.most(geometry, columns) / scale.half
        return huber(seen.rows, seen.labels, asked.coef, np.asarray(seen.weights), clip), clipped
    return least_squares(seen.rows, pulled, seen.weights), clipped


def alternative_estimands(
    result: FitResult, design: Design, people: Block, asked: NoiselessFit
) -> Array:
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
    place = {name: j for j, name in enumerate(design.names)}
    coef = asked.in_units(design, geometry.centre).coef
    values = []
    narrow: dict[frozenset[str], Array] = {}
    for name, column in zip(lines.names, lines.instead_of, strict=True):
        other = name.removeprefix(f"{column} - ")
        if other in place:
            values.append(coef[place[column]] - coef[place[other]])
            continue
        clipped = frozenset({column, *geometry.clipped})
        if clipped not in narrow:
            narrow[clipped] = _clipped_regression(result, design, people, clipped)
        values.append(narrow[clipped][place[column]])
    return np.array(values)


def _clipped_regression(
    result: FitResult, design: Design, people: Block, names: frozenset[str]
) -> Array:
    """Coefficients of the ordinary regression with these numbers clipped to their released range."""
    geometry = result.geometry
    assert geometry is not None
    narrowed = replace(geometry, clipped=tuple(names))
    rows = _rows(design, people.rows, narrowed.inside(_columns(design, people.rows)))
    fitted = ordinary_regression(replace(people, rows=rows), squares=result.band is not None)
    return fitted.in_units(design, geometry.centre).coef


def _columns(design: Design, rows: Array) -> Array:
    """Columns in original units, from rows (1, x~)."""
    return np.asarray(design.middle[1:] + design.half[1:] * rows[:, 1:])


def _rows(design: Design, before: Array, columns: Array) -> Array:
    """Rows (1, x~) of columns in original units; a row that could not be encoded stays a zero row."""
    rows = before.copy()
    rows[:, 1:] = (columns - design.middle[1:]) / design.half[1:]
    rows[before[:, 0] == 0] = 0.0
    return rows
