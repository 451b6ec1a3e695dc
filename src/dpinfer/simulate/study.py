"""What a coverage study found.

Coverage and length of the intervals, and variability intervals, over thousands of replicates of a
data set.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from dpinfer import persistence
from dpinfer.errors import InputError, installed, missing
from dpinfer.fit.choose import choose
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.penalised_plan import Plan
from dpinfer.fit.recipe import NoLoss, Options, Recipe
from dpinfer.fit.stepped import Stepped
from dpinfer.fit.stepped_plan import LOGISTIC_TARGETS, GeometryPlan
from dpinfer.maths.arrays import Array
from dpinfer.maths.losses import Logistic, Loss, check_loss, kind
from dpinfer.privacy.budget import Budget
from dpinfer.result import text
from dpinfer.rows.source import Pending
from dpinfer.schema.design import Design
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.simulate.batched import BatchedTrial
from dpinfer.simulate.engine import Engine
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import PenalisedTrial, SingleTrial
from dpinfer.simulate.runner import (
    Checkpoint,
    Tally,
    Trial,
    batches_of,
    check,
    run_batches,
    workers_of,
)
from dpinfer.tables.memory import rows_of
from dpinfer.tables.table import read


@dataclass(frozen=True, eq=False)
class Study:
    """What a coverage study found, one number a coefficient.  Not private: computed from the
    records themselves.

    ``names`` and ``target`` say what was asked for, ``setting`` how; ``level`` and ``seed`` are
    those asked for.  ``coverage`` is how often an interval holds what was asked: the ordinary
    coefficient of all columns or, with a penalty, the penalised one.  ``stated_coverage`` is how
    often it holds what its own fit states: the same regression with the released weights, clipped
    numbers and band.  They differ by what weights and clips do to a coefficient.

    These, ``length`` (a mean) and ``length_sd`` are over the replicates with a finite interval, and
    ``reported`` is their share; ``answered`` is the share that print the line or another one in its
    stead.  ``nonprivate_length`` is the length without noise (NaN if it was not asked for): of a
    fit without a penalty that of the ordinary regression of the whole data set with its sandwich
    (HC0; CR1 with units), else a mean over the same replicates.
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
        """Coverage of what was asked, averaged over the coefficients that are ever reported; NaN if
        there are none.
        """
        return _mean(self.coverage)

    @property
    def mean_stated_coverage(self) -> float:
        """The same of what was stated."""
        return _mean(self.stated_coverage)

    @property
    def min_coverage(self) -> float:
        """Coverage of the worst coefficient."""
        return float(np.fmin.reduce(self.coverage))

    @property
    def mean_length(self) -> float:
        """Length averaged over the coefficients that are ever reported; NaN if there are none."""
        return _mean(self.length)

    def table(self) -> list[dict[str, Any]]:
        """One row a coefficient."""
        columns = (
            "target", "coverage", "stated_coverage", "length", "length_sd", "nonprivate_length", "reported", "answered",
        )  # fmt: skip
        values = {column: getattr(self, column) for column in columns}
        return [
            {"name": n, **{c: float(v[j]) for c, v in values.items()}}
            for j, n in enumerate(self.names)
        ]

    def summary(self) -> str:
        """The table as text, with what was studied under it."""
        error = float(np.sqrt(self.level * (1 - self.level) / self.replicates))
        return text.study(
            self.table(),
            [
                f"Mean coverage of what was asked {self.mean_coverage:.4f}, smallest {self.min_coverage:.4f}, nominal "
                f"{self.level:g} (Monte Carlo error of one coefficient {error:.4f}); of what each fit states "
                f"{self.mean_stated_coverage:.4f}; mean length {self.mean_length:.4g}.",
                f"{self.replicates} replicates, seed {self.seed}; {self.setting}.",
                "NOT PRIVATE: a study reads the records without noise. Do not publish it from sensitive data.",
            ],
        )

    def to_json(self) -> str:
        """The study as a JSON object.  No number is a text: null stands where there is none."""
        return json.dumps(
            persistence.encode(self, null=True), ensure_ascii=False, indent=1, allow_nan=False
        )

    @classmethod
    def from_json(cls, document: str) -> "Study":
        """The inverse of `to_json`; ``document`` is the text, of earlier versions, too, which wrote
        "nan" for null.

        Earlier versions held every interval against what its fit stated, and knew no lines in
        another's stead.
        """
        plain = json.loads(document)
        if isinstance(plain, dict) and "stated_coverage" not in plain:
            plain |= {"stated_coverage": plain["coverage"], "answered": plain["reported"]}
        study: Study = persistence.decode(plain, {"Study": Study})
        return study


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def coverage(  # noqa: PLR0913  (the public face)
    X: Any,
    y: npt.ArrayLike | None = None,
    *,
    units: Any = None,
    weights: Any = None,
    loss: Loss | None = None,
    penalty: float | None = None,
    budget: Budget | None = None,
    plan: Plan | GeometryPlan | None = None,
    target: str | None = None,
    replicates: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    truth: Any = None,
    schema: Schema | None = None,
    formula: str | None = None,
    model: Any = None,
    neighbours: str | None = None,
    nonprivate: bool = True,
    device: str | None = None,
    workers: int | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
) -> Study:
    """How often the intervals of a fit cover, and how long they are, on bootstrap replicates of a
    data set.

    A study reads records without noise: it is not private.

    Parameters
    ----------
    X : array of shape (n, d), or a table
        Rows in the unit ball; or with ``formula`` or ``model`` what a model is fitted on.
    y : array of shape (n,), optional
        With arrays: labels -1 and +1 or, for a loss of the residual, outcomes in [-1, 1].
    units, weights : arrays of shape (n,), optional
        With arrays and ``model``: as for its ``fit``.  With ids, replicates are samples of units,
        with all their rows.
    loss : Loss, optional
        Logistic by default.
    penalty, budget, plan, target, neighbours : optional
        As for `infer` and the models: what runs is what they would run, chosen in the same place.
    replicates : int
        Bootstrap samples of the data set, each fitted afresh.
    seed : int
        Of everything: the numbers depend on it, not on workers, tiles or device.
    level : float
        Of the intervals.
    truth : array or function, optional
        Instead of ``y``: probabilities of the label +1, one a row or as a function of the rows;
        labels are drawn from them.
    schema, formula : optional
        Study a table as a model would be fitted on it.  Intervals of a fit without a penalty are
        held against the ordinary coefficients of all columns, which were asked for, and against the
        estimand that their own fit states.
    model : a dpinfer model, optional
        Study exactly what ``model.fit(X, y)`` would do, instead of the options above.
    nonprivate : bool
        Also the length without noise: of the same replicates or, of a fit without a penalty, of the
        whole data set.
    device : str, optional
        Run penalised fits on torch ("cuda", "cpu").
    workers : int, optional
        Threads; as many as cores by default.
    progress : bool
        A bar on stderr.
    checkpoint : path, optional
        A file to resume from.

    Returns
    -------
    Study
        Coverage of what was asked and of what was stated, length, and shares of fits, one number a
        coefficient.

    Notes ----- Memory: about 8 (d(d+1)/2 + 8 d) bytes a record, and 256 bytes a record and worker
    for the counts; twice that with ``truth``.
    """
    check(level, replicates, seed, workers)
    options = Options(loss or Logistic(), budget, plan, target, penalty, neighbours)
    trial = _trial(
        X, y, truth, _Asked(options, seed, device, schema, formula, model, units, weights)
    )
    batches = batches_of(replicates, trial.batch)
    book = Checkpoint(checkpoint, _key(trial, replicates, level, trial.batch, nonprivate))
    todo = [batch for batch in batches if batch.start not in book.done]

    def work(batch: range) -> Tally:
        return trial.tally(batch, level, nonprivate=nonprivate)

    try:
        for batch, tally in run_batches(work, todo, workers_of(workers, device), progress):
            book.add(batch.start, tally)
    finally:
        book.save()
    total = book.done[0]
    for batch in batches[1:]:
        total = total + book.done[batch.start]
    return _study(total, trial, level, nonprivate)


def variability(  # noqa: PLR0913  (the public face)
    X: Any,
    y: npt.ArrayLike | None = None,
    *,
    loss: Loss | None = None,
    penalty: float | None = None,
    budget: Budget | None = None,
    plan: Plan | None = None,
    replicates: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    truth: Any = None,
    device: str | None = None,
    workers: int | None = None,
    progress: bool = False,
) -> tuple[Array, Array]:
    """The variability interval: equal-tailed quantiles of the released coefficients over
    replicates.

    Parameters
    ----------
    X, y, loss, penalty, budget, plan, truth
        The data and the fit, as for `coverage` with arrays.
    replicates, seed, level, device, workers, progress
        As for `coverage`.

    Returns
    -------
    low, high : arrays of shape (d,)
        The two quantiles of each coefficient.
    """
    check(level, replicates, seed, workers)
    trial = _trial(
        X,
        y,
        truth,
        _Asked(Options(loss or Logistic(), budget, plan, "penalised", penalty), seed, device),
    )
    assert isinstance(trial, BatchedTrial)
    batches = batches_of(replicates, trial.batch)
    coef = np.concatenate(
        [c for _, c in run_batches(trial.estimates, batches, workers_of(workers, device), progress)]
    )
    low, high = np.quantile(coef, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


@dataclass(frozen=True)
class _Asked:
    """What a study was asked for beside the data; ``options`` go to `choose`."""

    options: Options
    seed: int
    device: str | None = None
    schema: Schema | None = None
    formula: str | None = None
    model: Any = None
    units: Any = None
    weights: Any = None


def _trial(X: Any, y: Any, truth: Any, asked: _Asked) -> Trial:
    """The recipe that a fit of these data would run, on the population that they are."""
    if asked.model is not None:
        if asked.formula is not None or asked.schema is not None or truth is not None:
            raise InputError(
                "model= brings its formula and schema: leave out schema=, formula= and truth="
            )
        if not hasattr(asked.model, "recipe"):
            raise InputError("model= takes a dpinfer model, such as dp.LogisticRegression(...)")
        design, source = asked.model.read(X, y, asked.units, asked.weights)
        return trial_of(
            asked.model.recipe(design, source.n), _of_source(source), asked.seed, asked.device
        )
    if asked.units is not None or asked.weights is not None:
        raise InputError(
            "units= and weights= are those of a model's fit: give model=, such as dp.LogisticRegression"
        )
    loss = asked.options.loss
    assert not isinstance(loss, NoLoss)  # comes with model=
    check_loss(loss)
    if asked.formula is None and asked.schema is None:
        if asked.options.target in LOGISTIC_TARGETS or isinstance(asked.options.plan, GeometryPlan):
            raise InputError(
                "a fit without a penalty is studied on a table: give schema= and formula=, or a penalty="
            )
        population = _of_arrays(X, y, truth, kind(loss))
        design = Design.of_rows(population.rows.shape[1])
        return trial_of(choose(design, asked.options), population, asked.seed, asked.device)
    if asked.formula is None or y is not None or truth is not None:
        raise InputError("a table is studied with schema= and formula=, and without y or truth=")
    response, terms = parse(asked.formula, asked.schema)
    assert asked.schema is not None
    design, source = read(X, response, terms, kind(loss), asked.schema.unit)
    return trial_of(choose(design, asked.options), _of_source(source), asked.seed, asked.device)


def _of_source(source: Pending) -> Population:
    if source.n < 1:
        raise InputError("a study needs at least one record")
    return Population.of_records(source.rows())


def trial_of(recipe: Recipe, population: Population, seed: int, device: str | None = None) -> Trial:
    """Replicates of a recipe: penalised fits by the engine, others by the product itself, one after
    the other.
    """
    if isinstance(recipe, Penalised) and population.alike:
        with threadpool_limits(1, "blas"):
            engine = Engine(population, recipe.risk(population.n), *_namespace(device))
            return BatchedTrial(recipe, engine, population, seed)
    if device is not None:
        raise InputError(
            "device= is for fits with a penalty, without units or weights: leave it out"
        )
    if isinstance(recipe, Penalised):
        return PenalisedTrial(recipe, population, seed)
    assert isinstance(recipe, Stepped)
    return SingleTrial(recipe, population, seed)


def _of_arrays(X: Any, y: Any, truth: Any, kind: str) -> Population:
    if (y is None) == (truth is None):
        raise InputError("a study needs labels y or a known truth=, one of them")
    if y is not None:
        return Population.of_records(rows_of(X, y, kind))
    if kind != "margin":
        raise InputError(
            "truth= gives probabilities of the label +1: with a loss of the residual give outcomes y instead"
        )
    return Population.of_truth(X, truth)


def _namespace(device: str | None) -> tuple[Any, Any]:
    if device is None:
        return np, None
    if not installed("torch"):
        raise missing("device=", "gpu", "torch", otherwise="leave it out to run on numpy")
    import array_api_compat.torch as xp  # noqa: PLC0415  (an optional extra)

    return xp, device


def _key(trial: Trial, *facts: Any) -> str:
    """A name for the whole study: data, setting and seed."""
    return hashlib.sha256(trial.fingerprint() + repr(facts).encode()).hexdigest()


def _study(total: Tally, trial: Trial, level: float, nonprivate: bool) -> Study:
    k = total.replicates
    with np.errstate(
        invalid="ignore"
    ):  # a coefficient that is never reported has no coverage and no length
        m = np.where(total.reported > 0, total.reported, np.nan)
    length = total.length / m
    spread = np.sqrt(np.maximum(total.length_squared / m - length**2, 0) * m / np.maximum(m - 1, 1))
    return Study(
        names=trial.recipe.design.names,
        target=trial.target,
        coverage=total.covered / m,
        stated_coverage=total.stated / m,
        length=length,
        length_sd=spread,
        nonprivate_length=total.nonprivate / m if nonprivate else np.full(len(length), np.nan),
        reported=total.reported / k,
        answered=total.answered / k,
        replicates=k,
        level=level,
        seed=trial.seed,
        setting=trial.describe(),
    )
