"""Coverage and length of the intervals, and variability intervals, over thousands of replicates of a data set."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from dpinfer.data.formula import parse
from dpinfer.data.records import read
from dpinfer.data.schema import Schema
from dpinfer.data.source import UNSCALED, Rows, Scale
from dpinfer.errors import InputError, installed, missing
from dpinfer.fit.geometry.box import Box
from dpinfer.fit.geometry.plan import TARGETS, GeometryPlan, geometry_plan, usual_target
from dpinfer.fit.plan import Plan, default_penalty
from dpinfer.fit.run import Setting, choose_plan
from dpinfer.fit.target import check_target
from dpinfer.maths.arrays import Array
from dpinfer.maths.check import check_loss
from dpinfer.maths.losses import Logistic, Loss, kind
from dpinfer.privacy.budget import Budget
from dpinfer.simulate.engine import Engine
from dpinfer.simulate.findings import Study
from dpinfer.simulate.population import Population
from dpinfer.simulate.runner import Checkpoint, batches_of, run_batches
from dpinfer.simulate.trial import Tally, Trial
from dpinfer.simulate.weighted import WeightedTrial


class Experiment(Protocol):
    """What a study runs: replicates by number, held against a target."""

    @property
    def batch(self) -> int:
        """Replicates that are run together."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything."""
        ...

    @property
    def target(self) -> Array:
        """What is estimated, for the table of the study."""
        ...

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Run some replicates and count."""
        ...

    def describe(self) -> str:
        """The setting in words."""
        ...

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting."""
        ...


def coverage(  # noqa: PLR0913  (the public face)
    X: Any,
    y: npt.ArrayLike | None = None,
    *,
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
    nonprivate: bool = True,
    device: str | None = None,
    workers: int | None = None,
    progress: bool = False,
    checkpoint: str | Path | None = None,
) -> Study:
    """How often the intervals of a plan cover, and how long they are, on bootstrap replicates of a data set.

    Give rows in the unit ball with labels, or for a loss of the residual with outcomes in [-1, 1]; or a table or file
    with ``schema`` and ``formula``, which is then studied as an estimator fits it: logistic regression with a zCDP or
    (ε, δ) budget in a private geometry (``target`` "weighted", or "unweighted"), each interval held against the
    estimand its own fit states.  Otherwise ``target`` is "penalised" or "unpenalised".  With ``truth``, probabilities
    of the label +1 (an array, or a function of the rows), labels are drawn from them, without ``y``.
    ``device`` runs the fits on torch ("cuda", "cpu"); ``checkpoint`` names a file to resume from.  The numbers depend
    on the seed, not on workers, tiles or device.  Memory: about 8 (d(d+1)/2 + 8 d) bytes a record, and 256 bytes a
    record and worker for the counts; twice that with ``truth``.
    """
    _check(level, replicates, seed, workers)
    trial, names = _trial(X, y, truth, (schema, formula), _Options(loss, penalty, budget, plan, target, seed, device))
    batches = batches_of(replicates, trial.batch)
    book = Checkpoint(checkpoint, _key(trial, replicates, level, trial.batch, nonprivate))
    todo = [batch for batch in batches if batch.start not in book.done]

    def work(batch: range) -> Tally:
        return trial.tally(batch, level, nonprivate=nonprivate)

    try:
        for batch, tally in run_batches(work, todo, _workers(workers, device), progress):
            book.add(batch.start, tally)
    finally:
        book.save()
    total = book.done[0]
    for batch in batches[1:]:
        total = total + book.done[batch.start]
    return _study(total, trial, names, level, nonprivate)


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
    """The variability interval: equal-tailed quantiles of the released coefficients over replicates."""
    _check(level, replicates, seed, workers)
    trial, _ = _of_rows(X, y, truth, _Options(loss, penalty, budget, plan, "penalised", seed, device))
    batches = batches_of(replicates, trial.batch)
    coef = np.concatenate([c for _, c in run_batches(trial.estimates, batches, _workers(workers, device), progress)])
    low, high = np.quantile(coef, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


@dataclass(frozen=True)
class _Options:
    loss: Loss | None
    penalty: float | None
    budget: Budget | None
    plan: Plan | GeometryPlan | None
    target: str | None
    seed: int
    device: str | None


def _trial(
    X: Any, y: Any, truth: Any, table: tuple[Schema | None, str | None], options: _Options
) -> tuple[Experiment, tuple[str, ...]]:
    schema, formula = table
    if formula is None and schema is None:
        return _of_rows(X, y, truth, options)
    if formula is None or y is not None or truth is not None:
        raise InputError("a table is studied with schema= and formula=, and without y or truth=")
    loss = options.loss or Logistic()
    check_loss(loss)
    design, source, scale = read(X, *parse(formula, schema), kind(loss))
    target = options.target
    if target is None and isinstance(loss, Logistic):
        target = usual_target(options.budget, options.penalty, options.plan, design)
    geometry = geometry_plan(target, options.budget, options.plan)
    if geometry is None:
        return _engine_trial(Population.of_records(source), (design.names, design.back()), scale, options)
    if not isinstance(loss, Logistic) or options.penalty is not None or options.device is not None:
        raise InputError("a private geometry is for logistic regression, without a penalty and without device=")
    return WeightedTrial(source, Box.of(design), geometry, options.seed), design.names


def _of_rows(X: Any, y: Any, truth: Any, options: _Options) -> tuple[Trial, tuple[str, ...]]:
    if options.target in TARGETS or isinstance(options.plan, GeometryPlan):
        raise InputError("a private geometry is studied on a table: give schema= and formula=, or another target=")
    population = _of_arrays(X, y, truth, kind(options.loss or Logistic()))
    dim = population.rows.shape[1]
    return _engine_trial(population, (tuple(f"x{j + 1}" for j in range(dim)), np.eye(dim)), UNSCALED, options)


def _engine_trial(
    population: Population, coefficients: tuple[tuple[str, ...], Array], scale: Scale, options: _Options
) -> tuple[Trial, tuple[str, ...]]:
    names, back = coefficients
    plan, loss = choose_plan(options.budget, options.plan), options.loss or Logistic()
    check_loss(loss)
    target = check_target("penalised" if options.target is None else options.target)
    usual = default_penalty(plan, loss, population.n, population.rows.shape[1], target)
    penalty = usual if options.penalty is None else options.penalty
    setting = Setting(loss, penalty, plan, names, back, target=target, outcome=scale)
    with threadpool_limits(1, "blas"):
        engine = Engine(population, setting.risk(population.n), *_namespace(options.device))
        return Trial(engine, population, plan, options.seed, setting.mapping, setting.shift, target), names


def _of_arrays(X: Any, y: Any, truth: Any, kind: str) -> Population:
    if (y is None) == (truth is None):
        raise InputError("a study needs labels y or a known truth=, one of them")
    if y is not None:
        return Population.of_records(Rows.of(X, y, kind))
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


def _key(experiment: Experiment, *facts: Any) -> str:
    """A name for the whole study: data, setting and seed."""
    return hashlib.sha256(experiment.fingerprint() + repr(facts).encode()).hexdigest()


def _study(total: Tally, experiment: Experiment, names: tuple[str, ...], level: float, nonprivate: bool) -> Study:
    k = total.replicates
    with np.errstate(invalid="ignore"):  # a coefficient that is never reported has no coverage and no length
        m = np.where(total.reported > 0, total.reported, np.nan)
    length = total.length / m
    spread = np.sqrt(np.maximum(total.length_squared / m - length**2, 0) * m / np.maximum(m - 1, 1))
    return Study(
        names=names,
        target=experiment.target,
        coverage=total.covered / m,
        length=length,
        length_sd=spread,
        nonprivate_length=total.nonprivate / m if nonprivate else np.full(len(length), np.nan),
        reported=total.reported / k,
        replicates=k,
        level=level,
        seed=experiment.seed,
        setting=experiment.describe(),
    )


def _check(level: float, replicates: int, seed: int, workers: int | None) -> None:
    """Refuse what no study can be made of."""
    if not 0 < level < 1:
        raise InputError(f"a study needs a level strictly between 0 and 1, not {level!r}")
    limits = {"replicates": (replicates, 1, 10**9), "seed": (seed, 0, 2**32 - 1), "workers": (workers or 1, 1, 1024)}
    for name, (value, least, most) in limits.items():
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


def _workers(asked: int | None, device: str | None) -> int:
    """As many as asked for, else the cores; a device is kept busy by one."""
    if asked is not None or device is not None:
        return asked or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
