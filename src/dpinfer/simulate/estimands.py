"""The numbers that intervals should cover, computed without noise: the ordinary estimand, and the
one that a fit states.

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
from dpinfer.fit.choose import stepped_of
from dpinfer.fit.noiseless import NoiselessFit, Observations
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.recipe import Recipe, fit
from dpinfer.fit.stepped import Stepped
from dpinfer.mechanisms.losses import describe
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array
from dpinfer.result.result import FitResult
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design, HazardDesign
from dpinfer.simulate.population import Population

_FULLY = 1e-9  # a weight that differs from 1 by less is 1


class Estimand(Protocol):
    """The number that the intervals of a recipe should cover, on a population."""

    @property
    def target(self) -> Array:
        """The estimand, for the table of a study."""
        ...

    @property
    def facts(self) -> tuple[Any, ...]:
        """Arrays and values that tell this estimand from others."""
        ...

    def values(self, result: FitResult) -> tuple[Array, Array]:
        """Return the ordinary estimand and the one that the fit states, in original units."""
        ...

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:
        """Return the lengths of the intervals without noise, for the fit of a sample."""
        ...


def estimand_of(recipe: Recipe, population: Population) -> Estimand:
    """Choose the estimand of a recipe: the only place that asks which recipe it is."""
    if isinstance(recipe, Penalised):
        return PenalisedEstimand(recipe, population)
    if isinstance(recipe, Stepped):
        return SteppedEstimand(recipe, population)
    if isinstance(recipe, Ordinary):
        return OrdinaryEstimand(recipe, population)
    raise InputError(f"{type(recipe).__name__} cannot be studied: its estimand is not known")


@dataclass(frozen=True, eq=False)
class PenalisedEstimand:
    """The minimum of the risk on the population, with or without its penalty."""

    recipe: Penalised
    population: Population

    @cached_property
    def target(self) -> Array:
        """The minimum on the population, in original units."""
        return self.recipe.estimand(self.population.records)

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

    def values(self, result: FitResult) -> tuple[Array, Array]:  # noqa: ARG002  (the same for all)
        """Return the minimum on the population, twice: a penalised fit states what was asked."""
        return self.target, self.target

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:  # noqa: ARG002
        """Return the lengths of the same fit of the same sample, without noise."""
        plain = fit(self.recipe.noiseless(self.population.n), sample, insecure_seed=0)
        return np.asarray(np.diff(plain.conf_int(level))[:, 0])


@dataclass(frozen=True, eq=False)
class OrdinaryEstimand:
    """The ordinary regression of the population, of a fit without noise."""

    recipe: Ordinary
    population: Population

    @cached_property
    def target(self) -> Array:
        """The ordinary coefficients, the intercept where every column is 0."""
        return self.recipe.estimand(self.population.records)

    @property
    def facts(self) -> tuple[Any, ...]:
        """The model and the public design."""
        design = self.recipe.design
        return design.half, design.middle, (self.recipe.twin.NAME, design.outcome, design.unit)

    def values(self, result: FitResult) -> tuple[Array, Array]:  # noqa: ARG002  (the same for all)
        """Return the ordinary coefficients, twice: without noise they are what is stated."""
        return self.target, self.target

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:  # noqa: ARG002
        """Return the lengths of the fit itself."""
        return np.asarray(np.diff(result.conf_int(level))[:, 0])


@dataclass(frozen=True, eq=False)
class SteppedEstimand:
    """The ordinary regression of the population and, of each fit, the one that it states."""

    recipe: Stepped[Any]
    population: Population

    @cached_property
    def observations(self) -> Block:
        """The population with its rows as (1, x~)."""
        return self.recipe.observations(self.population.records)

    @cached_property
    def asked(self) -> NoiselessFit:
        """The ordinary regression of all columns (1, x~)."""
        return self.recipe.ordinary(self.observations)

    @property
    def target(self) -> Array:
        """The ordinary coefficients, the intercept at the means; NaN where the releases decide."""
        return self.recipe.estimand(self.population.records)

    @property
    def facts(self) -> tuple[Any, ...]:
        """The plan and the public design."""
        design = self.recipe.design
        return design.half, design.middle, (self.recipe.plan, design.outcome, design.unit)

    def values(self, result: FitResult) -> tuple[Array, Array]:
        """Return the ordinary coefficients and those stated, the intercepts at the result's centre.

        Where the releases decide what is estimated, what is asked is what is stated.
        """
        design = self.recipe.design
        assert result.geometry is not None
        stated = stated_estimand(result, design, self.observations, self.asked).coef
        if self.recipe.released_estimand:
            return stated, stated
        return self.asked.in_units(design, result.geometry.centre).coef, stated

    def nonprivate_length(self, result: FitResult, sample: Rows, level: float) -> Array:  # noqa: ARG002
        """Return the lengths of the ordinary regression of the population with its sandwich (White,
        1980).
        """
        assert result.geometry is not None
        asked = self.asked.in_units(self.recipe.design, result.geometry.centre)
        return np.asarray(-2 * ndtri((1 - level) / 2) * asked.std_error)


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
    result: FitResult, design: Design, observations: Block, asked: NoiselessFit | None = None
) -> StatedEstimand:
    """Compute what a fit estimates, for a population of rows (1, x~), labels or scaled outcomes,
    shares and units.

    ``asked`` is the ordinary regression of the same rows, where the search begins; it is made where
    it is not given.
    """
    geometry = result.geometry
    assert geometry is not None
    recipe = stepped_of(result)
    if asked is None:
        asked = recipe.ordinary(observations)
    if design.unit.every or isinstance(design, HazardDesign):
        # a unit is bounded as a whole: which regression that states is not computed
        return StatedEstimand(asked.in_units(design, geometry.centre).coef, 0.0, 0.0)
    columns = _columns(design, observations.rows)
    weights = geometry.row_weights(columns, _offset(design, observations))
    rows = _rows(design, observations.rows, geometry.inside(columns))
    bounded = replace(observations, rows=rows, weights=weights * observations.shares)
    fitted, clipped = recipe.stated_regression(result, design, bounded, columns, asked)
    coef = fitted.in_units(design, geometry.centre).coef
    return StatedEstimand(coef, float((weights < 1 - _FULLY).mean()), clipped)


def alternative_estimands(
    result: FitResult, design: Design, observations: Block, asked: NoiselessFit
) -> Array:
    """Compute what the alternatives estimate, in their order, on a population.

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
            narrow[clipped] = _clipped_regression(result, design, observations, clipped)
        values.append(narrow[clipped][place[column]])
    return np.array(values)


def _clipped_regression(
    result: FitResult, design: Design, observations: Block, names: frozenset[str]
) -> Array:
    """Fit the ordinary regression with these numbers clipped to their released range."""
    geometry = result.geometry
    assert geometry is not None
    narrowed = replace(geometry, clipped=tuple(names))
    rows = _rows(design, observations.rows, narrowed.inside(_columns(design, observations.rows)))
    fitted = stepped_of(result).ordinary(replace(observations, rows=rows))
    return fitted.in_units(design, geometry.centre).coef


def _offset(design: Design, observations: Block) -> Array | float:
    """Return the offset of each row's predictor, in original units."""
    if not isinstance(observations, Observations) or design.offset is None:
        return 0.0
    return observations.offset + design.offset


def _columns(design: Design, rows: Array) -> Array:
    """Return columns in original units, from rows (1, x~)."""
    return np.asarray(design.middle[1:] + design.half[1:] * rows[:, 1:])


def _rows(design: Design, before: Array, columns: Array) -> Array:
    """Return rows (1, x~) of columns in original units; a row that could not be encoded stays a
    zero row.
    """
    rows = before.copy()
    rows[:, 1:] = (columns - design.middle[1:]) / design.half[1:]
    rows[before[:, 0] == 0] = 0.0
    return rows
