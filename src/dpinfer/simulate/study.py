"""Do the intervals of a fit cover, and how long are they?

A study runs the fit on replicates of a data set and holds its intervals against what they estimate.
`coverage` and `variability` take a model first.  Without one the older form is meant, with the
options of `infer` or with a formula and a schema; `StudyQuestion` then stands in for the model.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dpinfer import persistence
from dpinfer.errors import InputError, one_of_two
from dpinfer.fit.choose import choose
from dpinfer.fit.linear import LeastSquares, LinearPlan
from dpinfer.fit.logistic import LOGISTIC_TARGETS, GeometryPlan
from dpinfer.fit.penalised_plan import Plan
from dpinfer.fit.poisson import Counts, PoissonPlan
from dpinfer.fit.recipe import NoLoss, Options, Recipe
from dpinfer.fit.step_plan import TARGET_ALIASES
from dpinfer.mechanisms.losses import Logistic, Loss, check_loss, kind
from dpinfer.numerics.arrays import Array
from dpinfer.persistence import FileNames
from dpinfer.privacy.budget import Budget
from dpinfer.result import text
from dpinfer.result.grid import Grid, GridRow, TextLayout
from dpinfer.rows.source import Pending
from dpinfer.schema.design import COUNT, Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.batched import BatchedTrial, batched_trial
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import (
    Checkpoint,
    OneByOne,
    Progress,
    Tally,
    Trial,
    batches_of,
    check_numbers,
    run_batches,
)
from dpinfer.tables.memory import rows_of
from dpinfer.tables.table import read

_TITLES = {
    "target": "target",
    "ordinary": "coverage",
    "stated": "stated_coverage",
    "length": "length",
    "sd": "length_sd",
    "no noise": "nonprivate_length",
    "reported": "reported",
    "answered": "answered",
}
_LONG_NAME = 25  # letters of a name that stands beside its numbers
_LOSSES: dict[str, Loss | NoLoss] = {
    "logistic": Logistic(),
    "linear": LeastSquares(),
    "poisson": Counts(),
}
"""The models that can be named by a word."""


@dataclass(frozen=True, eq=False)
class Study:
    """The findings of a coverage study, one number per coefficient.

    A study is not private: it is computed from the records without noise.

    Attributes
    ----------
    names : tuple of str
        The names of the coefficients.
    target : array
        The coefficients that the intervals are held against.
    coverage : array
        The share of intervals that hold the target: the ordinary coefficient of all columns or,
        with a penalty, the penalised one.
    stated_coverage : array
        The share of intervals that hold the estimand which their own fit states: the same
        regression with the released weights, clipped numbers and clipped outcomes.
    length, length_sd : array
        The mean and the standard deviation of the length of the intervals.
    nonprivate_length : array
        The length without noise, NaN if it was not asked for: without a penalty that of the
        ordinary regression of the whole data set with its sandwich covariance (HC0; CR1 with
        units), otherwise a mean over the same replicates.
    reported : array
        The share of replicates that report the coefficient; the numbers above are over these.
    answered : array
        The share of replicates that report the coefficient or an alternative to it.
    replicates : int
        The number of replicates.
    level : float
        The confidence level.
    seed : int
        The seed of all random numbers.
    setting : str
        The model and its budget, in words.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.5))
    >>> study = dp.simulate.coverage(model, data.table, replicates=2, nonprivate=False)
    >>> study.replicates, study.names
    (2, ('(Intercept)', 'physlm'))
    """

    names: tuple[str, ...]
    target: Array
    coverage: Array
    stated_coverage: Array
    length: Array
    length_sd: Array
    nonprivate_length: Array
    reported: Array
    answered: Array
    replicates: int
    level: float
    seed: int
    setting: str

    @property
    def mean_coverage(self) -> float:
        """Return the coverage of the target, averaged over the coefficients that are ever reported.

        It is NaN if there are none.
        """
        return _mean(self.coverage)

    @property
    def mean_stated_coverage(self) -> float:
        """Return the coverage of the stated estimands, averaged in the same way."""
        return _mean(self.stated_coverage)

    @property
    def min_coverage(self) -> float:
        """Return the coverage of the worst coefficient."""
        return float(np.fmin.reduce(self.coverage))

    @property
    def mean_length(self) -> float:
        """Return the length, averaged over the coefficients that are ever reported.

        It is NaN if there are none.
        """
        return _mean(self.length)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per coefficient.

        Returns
        -------
        list of dict
            name, target, coverage, stated_coverage, length, length_sd, nonprivate_length, reported
            and answered.
        """
        columns = (
            "target",
            "coverage",
            "stated_coverage",
            "length",
            "length_sd",
            "nonprivate_length",
            "reported",
            "answered",
        )
        return [
            {"name": name, **{column: float(getattr(self, column)[j]) for column in columns}}
            for j, name in enumerate(self.names)
        ]

    def summary(self) -> str:
        """Return the table as text, with the setting under it.

        Returns
        -------
        str
            The table, to print.
        """
        error = float(np.sqrt(self.level * (1 - self.level) / self.replicates))
        findings = (
            f"Mean coverage of the ordinary coefficients {self.mean_coverage:.4f}, "
            f"smallest {self.min_coverage:.4f}, nominal {self.level:g} "
            f"(Monte Carlo error of one coefficient {error:.4f}); of what each fit states "
            f"{self.mean_stated_coverage:.4f}; mean length {self.mean_length:.4g}."
        )
        setting = f"{self.replicates} replicates, seed {self.seed}; {self.setting}."
        warning = (
            "NOT PRIVATE: a study reads the records without noise. "
            "Do not publish it from sensitive data."
        )
        rows = [
            GridRow.of(row["name"], [f"{row[key]:.4g}" for key in _TITLES.values()])
            for row in self.table()
        ]
        table = Grid(("", *_TITLES), tuple(rows)).text(
            TextLayout(min_column=9, max_name=_LONG_NAME, split=True)
        )
        return text.with_notes(table, [findings, setting, warning])

    def to_json(self) -> str:
        """Return the study as a JSON object.

        Returns
        -------
        str
            The JSON text, with null where there is no number.
        """
        fields = persistence.encode(self, FileNames({"Study": Study}), null=True)
        return json.dumps(fields, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "Study":
        """Read a study from its JSON text.

        Parameters
        ----------
        document : str
            The text that `to_json` returned.

        Returns
        -------
        Study
            The study.
        """
        study: Study = persistence.decode(json.loads(document), FileNames({"Study": Study}))
        return study


def _mean(values: Array) -> float:
    finite = values[~np.isnan(values)]
    return float(finite.mean()) if finite.size else float("nan")


class ModelOptions(TypedDict, total=False):
    """The options of a question beside its data, where no model has them."""

    formula: str | None
    schema: Schema | str | os.PathLike[str] | None
    loss: Loss | None
    penalty: float | None
    plan: Plan | GeometryPlan | LinearPlan | PoissonPlan | None
    target: str | None
    adjacency: str | None
    neighbours: str | None


class StudyOptions(ModelOptions, total=False):
    """The same for a study, which has one budget."""

    budget: Budget | None
    truth: Any
    model: Any


def coverage(  # noqa: PLR0913  (the public face)
    model: Any,
    /,
    data: Any = None,
    y: npt.ArrayLike | None = None,
    *,
    units: Any = None,
    weights: Any = None,
    exposure: Any = None,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    nonprivate: bool = True,
    workers: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
    **options: Unpack[StudyOptions],
) -> Study:
    """Estimate the coverage and the length of intervals on bootstrap replicates of a data set.

    A study reads records without noise: it is not private.

    Parameters
    ----------
    model : a dpinfer model
        The study is of exactly what ``model.fit(data, y)`` would do.
    data : a table, or array of shape (n, d)
        What the model is fitted on.
    y : array of shape (n,), optional
        The outcomes, with arrays only.
    units, weights, exposure : arrays of shape (n,), optional
        With arrays: as for the model's ``fit``.  With ids, replicates are samples of units, with
        all their rows.
    replicates : int
        The number of bootstrap samples of the data set, each fitted afresh; 1000 by default.
    seed : int
        The seed of all random numbers, 0 by default: results depend on it, not on workers or tiles.
    level : float
        The confidence level; 0.95 by default.
    nonprivate : bool
        Whether the length without noise is computed, too, as it is by default: of the same
        replicates or, of a fit without a penalty, of the whole data set.
    workers : int, optional
        The number of threads; by default ``DPINFER_THREADS`` or as many as cores.
    progress : callable, optional
        Called with the number of replicates that are done, and with that of all.
    checkpoint : path, optional
        A file from which an interrupted study is continued; by default nothing is kept.
    **options
        Without a model first: ``coverage(X, y, loss=, penalty=, budget= or plan=, target=)`` with
        the options of `infer`, for rows in the unit ball and labels -1 and +1 (or, for a loss of
        the residual, outcomes in [-1, 1]); or ``coverage(table, schema=, formula=, ...)``, where
        model="linear" stands for least squares and model="poisson" for counts.  With ``truth=``
        instead of y, the probabilities of the label +1, one per row or as a function of the rows,
        labels are drawn from them.

    Returns
    -------
    Study
        Coverage of the target and of the stated estimand, length, and shares of fits, one number
        per coefficient.  Intervals of a fit without a penalty are held against the ordinary
        coefficients of all columns, and against the estimand that their own fit states.

    Raises
    ------
    InputError, BudgetError
        If an option is wrong.

    Notes
    -----
    Memory of a study of penalised fits: about 8 (d(d+1)/2 + 8 d) bytes per record, and 256 bytes
    per record and worker for the counts; twice that with ``truth``.

    Examples
    --------
    Real studies have a thousand replicates.

    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> model = dp.LinearRegression("mdvis ~ physlm", schema=data.schema, budget=dp.ZCDP(0.5))
    >>> study = dp.simulate.coverage(model, data.table, replicates=4, nonprivate=False)
    >>> print(f"{study.reported.min():.2f}")
    1.00
    """
    check_numbers(level, replicates, seed, workers)
    arrays = RowArrays(units, weights, exposure)
    trial = trial_of(*recipe_and_population((model, data, y), options, arrays), seed)
    return coverage_of(
        trial,
        replicates,
        level=level,
        nonprivate=nonprivate,
        workers=workers,
        progress=progress,
        checkpoint=checkpoint,
    )


def coverage_of(
    trial: Trial,
    replicates: int,
    *,
    level: float,
    nonprivate: bool,
    workers: int | None = None,
    progress: Progress | None = None,
    checkpoint: str | Path | None = None,
) -> Study:
    """Run the replicates of a trial that are not in the checkpoint, and return its study."""
    batches = batches_of(replicates, trial.batch)
    book = Checkpoint(checkpoint, _key(trial, replicates, level, trial.batch, nonprivate))
    left = [batch for batch in batches if batch.start not in book.tallies]
    done = replicates - sum(len(batch) for batch in left)

    def work(batch: range) -> Tally:
        return trial.tally(batch, level, nonprivate=nonprivate)

    try:
        for batch, tally in run_batches(work, left, workers, progress, done):
            book.add(batch.start, tally)
    finally:
        book.save()
    total = book.tallies[0]
    for batch in batches[1:]:
        total = total + book.tallies[batch.start]
    return _study(total, trial, level, nonprivate)


def variability(
    model: Any,
    /,
    data: Any = None,
    y: npt.ArrayLike | None = None,
    *,
    replicates: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    workers: int | None = None,
    progress: Progress | None = None,
    **options: Unpack[StudyOptions],
) -> tuple[Array, Array]:
    """Estimate the variability interval: quantiles of the released coefficients over replicates.

    It is not private: it is computed from the records without noise.

    Parameters
    ----------
    model, data, y : as for `coverage`
        A model with a penalty and what it is fitted on.
    replicates : int
        The number of bootstrap samples of the data set, each fitted afresh; 10,000 by default.
    seed, level, workers, progress : optional
        As for `coverage`.
    **options
        Without a model first: ``variability(X, y, loss=, penalty=, budget= or plan=)``, and
        ``truth=`` instead of y, as for `coverage`; the target is the penalised one.

    Returns
    -------
    low, high : arrays of shape (d,)
        The two quantiles of each coefficient, which have equal tails.

    Examples
    --------
    >>> import numpy as np
    >>> import dpinfer as dp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.7, 0.7, size=(1000, 2))
    >>> y = np.where(X[:, 0] + rng.normal(size=1000) > 0, 1, -1)
    >>> low, high = dp.simulate.variability(
    ...     X, y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.5), replicates=50
    ... )
    >>> bool((low < high).all())
    True
    """
    check_numbers(level, replicates, seed, workers)
    if not is_model(model) and not is_model(options.get("model")):
        options = {**options, "target": options.get("target") or "penalised"}
    trial = trial_of(*recipe_and_population((model, data, y), options), seed)
    return variability_of(trial, replicates, level=level, workers=workers, progress=progress)


def variability_of(
    trial: Trial,
    replicates: int,
    *,
    level: float,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[Array, Array]:
    """Return equal-tailed quantiles of the released coefficients over the replicates of a trial."""
    if not isinstance(trial, BatchedTrial) or trial.recipe.target != "penalised":
        raise InputError(
            "the variability interval is of fits with the target 'penalised', without units or weights"
        )
    batches = batches_of(replicates, trial.batch)
    runs = run_batches(trial.estimates, batches, workers, progress)
    coef = np.concatenate([estimates for _, estimates in runs])
    low, high = np.quantile(coef, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def trial_of(recipe: Recipe, population: Population, seed: int) -> Trial:
    """Choose how replicates are run: many at once if possible, else one after the other."""
    return batched_trial(recipe, population, seed) or OneByOne(recipe, population, seed)


class StudiedModel(Protocol):
    """An estimator, or `StudyQuestion`."""

    formula: str | None
    schema: Schema | str | os.PathLike[str] | None
    budget: Budget | None
    plan: Any

    @property
    def kind(self) -> str:
        """The argument of its loss: "margin", "residual" or "count"."""
        ...

    @property
    def asked_formula(self) -> str | None:
        """The formula, with what the other parameters add to it."""
        ...

    def read(
        self,
        X: Any,
        y: Any = None,
        units: Any = None,
        weights: Any = None,
        exposure: Any = None,
    ) -> tuple[Design, Pending]:
        """Return the public encoding of the data, and the records, not yet read."""
        ...

    def recipe(self, design: Design, n: int) -> Recipe:
        """Return the recipe of a fit of ``n`` records."""
        ...


def is_model(value: Any) -> bool:
    """Return whether this is an estimator; by what it can do, as estimators are built on this
    package.
    """
    return not isinstance(value, type) and hasattr(value, "recipe") and hasattr(value, "read")


@dataclass(eq=False)
class StudyQuestion:
    """A question in options, in the place of an estimator: of a table or of bounded rows."""

    formula: str | None = None
    schema: Schema | str | os.PathLike[str] | None = None
    loss: Loss | NoLoss | None = None
    budget: Budget | None = None
    plan: Any = None
    target: str | None = None
    penalty: float | None = None
    adjacency: str | None = None
    neighbours: str | None = None
    truth: Any = None

    @classmethod
    def of(cls, *, model: Any = None, **options: Any) -> "StudyQuestion":
        """Make a question of the options of a call; ``model`` is a word for a loss."""
        names = [field.name for field in fields(cls)]
        for name in options:
            if name not in names:
                raise TypeError(f"unexpected option {name}=: there are {', '.join(names)}")
        asked = cls(**options)
        if model is None:
            return asked
        if not isinstance(model, str) or model not in _LOSSES:
            raise InputError(
                "model= takes a dpinfer model, such as dp.LogisticRegression(...), or one of "
                f"{', '.join(map(repr, _LOSSES))}"
            )
        if asked.loss is not None:
            raise InputError(f"model={model!r} has its loss: leave out loss=")
        asked.loss = _LOSSES[model]
        return asked

    @property
    def kind(self) -> str:
        """The argument of the loss."""
        loss = self._loss
        if isinstance(loss, Counts):
            return COUNT
        return "residual" if isinstance(loss, NoLoss) else kind(loss)

    @property
    def asked_formula(self) -> str | None:
        """The formula."""
        return self.formula

    @property
    def _loss(self) -> Loss | NoLoss:
        return Logistic() if self.loss is None else self.loss

    def read(
        self,
        X: Any,
        y: Any = None,
        units: Any = None,
        weights: Any = None,
        exposure: Any = None,
    ) -> tuple[Design, Pending]:
        """Read a table by formula and schema."""
        self._check(units, weights, exposure)
        if self.formula is None or y is not None or self.truth is not None:
            raise InputError(
                "a table is studied with schema= and formula=, and without y or truth="
            )
        schema = Schema.of(self.schema)
        response, terms = parse(self.formula, schema)
        return read(X, response, terms, self.kind, schema.unit)

    def population(self, X: Any, y: Any, arrays: "RowArrays") -> Population:
        """Return bounded rows with their labels, or with the probabilities of the label +1."""
        self._check(arrays.units, arrays.weights, arrays.exposure)
        stepped = self.target in (*LOGISTIC_TARGETS, *TARGET_ALIASES) or isinstance(
            self.plan, GeometryPlan
        )
        if stepped or isinstance(self._loss, NoLoss):
            raise InputError(
                "a fit without a penalty is studied on a table: give schema= and formula=, or a penalty="
            )
        if (y is None) == (self.truth is None):
            raise InputError("a study needs labels y or a known truth=, one of them")
        if y is not None:
            return Population.of_records(rows_of(X, y, self.kind))
        if self.kind != "margin":
            raise InputError(
                "truth= gives probabilities of the label +1: with a loss of the residual give outcomes y instead"
            )
        return Population.of_truth(X, self.truth)

    def recipe(self, design: Design, n: int) -> Recipe:
        """Return the recipe that `infer`, or a model with these options, would run."""
        adjacency = one_of_two("adjacency=", self.adjacency, "neighbours=", self.neighbours)
        options = Options(self._loss, self.budget, self.plan, self.target, self.penalty, adjacency)
        return choose(design, options, n)

    def _check(self, units: Any, weights: Any, exposure: Any) -> None:
        if units is not None or weights is not None or exposure is not None:
            raise InputError(
                "units=, weights= and exposure= are those of a model's fit: give a model first, such as "
                "dp.LogisticRegression"
            )
        if not isinstance(self._loss, NoLoss):
            check_loss(self._loss)


@dataclass(frozen=True, eq=False)
class RowArrays:
    """The arrays of a fit beside columns and outcomes: one entry per row."""

    units: Any = None
    weights: Any = None
    exposure: Any = None


_NO_ARRAYS = RowArrays()


def without_options(model: Any, options: Mapping[str, Any]) -> StudiedModel:
    """Return a model, and refuse options beside it."""
    given = [f"{name}=" for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"the model brings its formula, schema and options: leave out {', '.join(given)}"
        )
    asked: StudiedModel = model
    return asked


def _question(data: Sequence[Any], options: Mapping[str, Any]) -> tuple[StudiedModel, Any, Any]:
    """Return the model, the data and the outcomes of a call with a model first, or of the older form."""
    first, table, y = (*data, None, None)[:3]
    if is_model(first):
        return without_options(first, options), table, y
    if table is not None and y is not None:
        raise InputError("what comes first is a dpinfer model, such as dp.LogisticRegression(...)")
    outcomes = y if table is None else table
    others = dict(options)
    model = others.pop("model", None)
    if is_model(model):
        return without_options(model, others), first, outcomes
    return StudyQuestion.of(model=model, **others), first, outcomes


def recipe_and_population(
    data: Sequence[Any], options: Mapping[str, Any], arrays: RowArrays = _NO_ARRAYS
) -> tuple[Recipe, Population]:
    """Return what a fit would run, and the records it is studied on.

    ``data`` are the arguments of `coverage` by position: a model first, or none.
    """
    model, table, y = _question(data, options)
    if isinstance(model, StudyQuestion) and model.formula is None and model.schema is None:
        population = model.population(table, y, arrays)
        return model.recipe(Design.of_rows(population.rows.shape[1]), population.n), population
    design, source = model.read(table, y, arrays.units, arrays.weights, arrays.exposure)
    if source.n < 1:
        raise InputError("a study needs at least one record")
    return model.recipe(design, source.n), Population.of_records(source.rows())


def _key(trial: Trial, *facts: Any) -> str:
    """Name the study by its data, setting and seed."""
    return hashlib.sha256(trial.fingerprint() + repr(facts).encode()).hexdigest()


def _study(total: Tally, trial: Trial, level: float, nonprivate: bool) -> Study:
    k = total.replicates
    # A coefficient that is never reported has no coverage and no length.
    m = np.where(total.reported > 0, total.reported, np.nan)
    length = total.length / m
    spread = np.sqrt(np.maximum(total.length_squared / m - length**2, 0) * m / np.maximum(m - 1, 1))
    nonprivate_length = np.full(len(length), np.nan)
    if nonprivate:
        nonprivate_length = total.nonprivate / m
    return Study(
        names=trial.recipe.design.names,
        target=trial.target,
        coverage=total.covered / m,
        stated_coverage=total.stated / m,
        length=length,
        length_sd=spread,
        nonprivate_length=nonprivate_length,
        reported=total.reported / k,
        answered=total.answered / k,
        replicates=k,
        level=level,
        seed=trial.seed,
        setting=trial.describe(),
    )
