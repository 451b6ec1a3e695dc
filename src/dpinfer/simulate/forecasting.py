"""How long will the intervals be?  The fit itself, on made-up records, before anything is read or booked."""

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from dpinfer.data.design import Design
from dpinfer.data.formula import parse
from dpinfer.data.reading import read
from dpinfer.data.schema import Schema
from dpinfer.data.source import Rows
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.choose import LeastSquares, Options, choose
from dpinfer.fit.penalised.plan import default_plan
from dpinfer.fit.penalised.run import Penalised
from dpinfer.fit.recipe import Recipe, fit
from dpinfer.fit.stepped.linear import LinearSteps
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Logistic
from dpinfer.maths.rounding import MOST_RECORDS
from dpinfer.privacy.budget import ApproxDP, Budget, NoPrivacy
from dpinfer.result.result import FitResult
from dpinfer.simulate.alike import Alike, OfGuesses, OfTable, counted
from dpinfer.simulate.draws import Population
from dpinfer.simulate.foreseen import Forecast
from dpinfer.simulate.runner import batches_of, check, run_batches, workers_of
from dpinfer.simulate.searching import Search, Wanted
from dpinfer.simulate.single import noise_seed
from dpinfer.simulate.stated import least_squares, minimum, to_units


def forecast(  # noqa: PLR0913  (the public face)
    formula: str | None = None,
    *,
    schema: Schema | None = None,
    records: int | None = None,
    budgets: Sequence[Budget] | None = None,
    half_width: float | None = None,
    coefficient: str | None = None,
    like: Any = None,
    model: Any = None,
    effects: Mapping[str, float] | None = None,
    target: str | None = None,
    penalty: float | None = None,
    neighbours: str | None = None,
    replicates: int = 20,
    seed: int = 0,
    level: float = 0.95,
) -> Forecast:
    """How long the intervals of a fit will be, and which lines will be open, from public facts alone.

    The fit itself runs on made-up records, as often as there are replicates.  No record is read and nothing is booked.

    Parameters
    ----------
    formula, schema : optional
        The question, and what is public about the columns; what is ``typical`` in the schema is what records are made
        of.  An outcome with two levels has logistic regression, a number least squares.
    records : int, optional
        The public number of records or, where the schema has a [unit] column, of units; by default that of ``like``.
    budgets : sequence of budgets, optional
        A forecast for each; by default that of ``model``.
    half_width, coefficient : optional
        Find the least budget that is expected to give ± this half-width, in original units, for the coefficient of
        this name, or as the median over all but the intercept.  It is of the kind of the first of ``budgets``, by
        default (ε, 1e-6); the forecast is that of the budget found.
    like : a table, optional
        Public data that are like those of the fit: its records are drawn instead of made up.
    model : a dpinfer model, optional
        Forecast exactly what ``model.fit`` would do, with its formula and schema.
    effects : mapping, optional
        Coefficients by name, in original units; others are 0.
    target, penalty, neighbours : optional
        As for the models.
    replicates, seed : int
        Simulated fits, and the seed of all of them.
    level : float
        Of the intervals.

    Returns
    -------
    Forecast
        Half-width and share reported, one number a budget and coefficient, beside the half-width without noise.
    """
    check(level, replicates, seed)
    options = Options(Logistic(), None, None, target, penalty, neighbours)
    asked = _Asked(formula, schema, options) if model is None else _Asked.of_model(model, formula, schema, options)
    ahead = asked.ahead(records, like, effects, _Run(replicates, seed, level))
    if half_width is None:
        if coefficient is not None:
            raise InputError("coefficient= goes with half_width=: give both, or none")
        return ahead.forecast(asked.budgets(budgets))
    start = (budgets or [ApproxDP(1.0, 1e-6)])[0]
    wanted = Wanted(half_width, coefficient, ahead.design.names)
    return Search(wanted, start, lambda budget: ahead.forecast([budget])).least()


@dataclass(frozen=True, eq=False)
class _Asked:
    """The question, and the options or the model that make a recipe of it."""

    formula: str | None
    schema: Schema | None
    options: Options
    model: Any = None

    @classmethod
    def of_model(cls, model: Any, formula: str | None, schema: Schema | None, options: Options) -> "_Asked":
        if formula is not None or schema is not None or (options.target or options.penalty or options.neighbours):
            raise InputError("model= brings its formula, schema and options: leave out all others")
        if not hasattr(model, "recipe") or model.formula is None:
            raise InputError("model= takes a dpinfer model with a formula and a schema")
        return cls(model.formula, model.schema, options, model)

    def ahead(self, records: int | None, like: Any, effects: Mapping[str, float] | None, how: "_Run") -> "_Ahead":
        """What runs, for so many records."""
        if self.formula is None:
            raise InputError("a forecast needs a formula and schema=, or model=")
        response, terms = parse(self.formula, self.schema)
        assert self.schema is not None
        kind = "margin" if response.levels else "residual"
        if self.model is not None:
            kind = self.model.kind
        design = Design.of_formula(response, terms, kind, self.schema.whom)
        alike: Alike
        if like is None:
            alike = OfGuesses(response, terms, design, self.schema.typical, effects)
        else:
            if effects is not None:
                raise InputError("effects= is for records that are made up: leave it out, or like=")
            population = Population.of_records(read(like, response, terms, kind, self.schema.whom)[1].rows())
            alike = OfTable(population, design.unit.word)
            records = population.n if records is None else records
        if isinstance(records, bool) or not isinstance(records, int) or not 1 <= records <= MOST_RECORDS:
            raise InputError(f"records= is the public number of {design.unit.word}, from 1 to {MOST_RECORDS:,}")
        return _Ahead(self, design, kind, alike, records, how)

    def budgets(self, given: Sequence[Budget] | None) -> list[Budget | None]:
        """Those asked for; None stands for the model's own."""
        if given is not None and len(given):
            return list(given)
        if self.model is None:
            raise BudgetError("a forecast needs budgets=, for example [dp.ApproxDP(1, 1e-6)]")
        return [None]


@dataclass(frozen=True)
class _Run:
    replicates: int
    seed: int
    level: float


@dataclass(frozen=True, eq=False)
class _Ahead:
    """A fit to come: what runs, on which records, how often."""

    asked: _Asked
    design: Design
    kind: str
    alike: Alike
    n: int
    how: _Run

    def forecast(self, budgets: Sequence[Budget | None]) -> Forecast:
        """Run every budget on the same records with the same seeds of noise."""
        recipes = [self.recipe(budget) for budget in budgets]
        for recipe in recipes:
            recipe.releases(self.n)  # refuses what a fit refuses; and noise is sized once, not in every thread

        def work(batch: range) -> Array:
            source = self.alike.sample(self.n, np.random.default_rng([self.how.seed, batch.start]))
            seed = noise_seed(self.how.seed, batch.start)
            return np.array([_half(fit(recipe, source, insecure_seed=seed), self.how.level) for recipe in recipes])

        batches = batches_of(self.how.replicates, 1)
        found = np.array([half for _, half in run_batches(work, batches, workers_of(), False)])
        reported = np.isfinite(found)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # a coefficient that is never reported
            half_width = np.nanmedian(np.where(reported, found, np.nan), axis=0)
        typical = self.alike.typical(self.n)
        return Forecast(
            names=self.design.names,
            budgets=tuple(recipe.budget if b is None else b for b, recipe in zip(budgets, recipes, strict=True)),
            half_width=half_width,
            within=np.median(found, axis=0),
            reported=reported.mean(axis=0),
            nonprivate=np.array([_nonprivate(recipe, typical, self.n, self.how.level) for recipe in recipes]),
            records=self.n,
            level=self.how.level,
            replicates=self.how.replicates,
            seed=self.how.seed,
            setting=f"{self.asked.formula}, {self.design.unit.size(self.n)}",
            assumed=self.alike.assumed,
        )

    def recipe(self, budget: Budget | None) -> Recipe:
        """What a fit with this budget runs; None stands for the model's own."""
        if self.asked.model is None:
            loss = Logistic() if self.kind == "margin" else LeastSquares()
            return choose(self.design, replace(self.asked.options, loss=loss, budget=budget))
        model = copy.copy(self.asked.model)
        if budget is not None:
            if model.plan is not None:
                raise BudgetError("the model has a plan, which has its budget: leave out budgets=")
            model.budget = budget
        recipe: Recipe = model.recipe(self.design, self.n)
        return recipe


def _half(result: FitResult, level: float) -> Array:
    """Half the length of each interval, infinite where none is reported."""
    low, high = result.conf_int(level).T
    with np.errstate(invalid="ignore"):
        return np.where(result.reported & np.isfinite(high - low), (high - low) / 2, np.inf)


def _nonprivate(recipe: Recipe, rows: Rows, n: int, level: float) -> Array:
    """Half-widths of the same model without noise; NaN for a column that never varies."""
    if isinstance(recipe, Penalised):
        plain = replace(recipe, plan=default_plan(NoPrivacy()), penalty=recipe.risk(n).penalty)
        return _half(fit(plain, counted(rows, n), insecure_seed=0), level)
    design, block = recipe.design, rows.block
    x, shares = block.rows * np.sqrt(design.norm2), block.shares
    centre = np.average(x, axis=0, weights=shares * np.ones(len(x)))
    some = np.flatnonzero((x.var(axis=0) > 0) | (np.arange(x.shape[1]) == 0))
    if isinstance(recipe, LinearSteps):
        found = least_squares(x[:, some], block.labels, shares, block.starts)
    else:
        found = minimum(x[:, some], block.labels, np.zeros(len(some)), shares, block.starts)
    matrix = to_units(design, (design.middle + design.half * centre)[1:])[np.ix_(some, some)]
    half = np.full(len(design.names), np.nan)
    half[some] = -ndtri((1 - level) / 2) * np.sqrt(np.diag(matrix @ found.covariance @ matrix.T) * rows.n / n)
    return half
