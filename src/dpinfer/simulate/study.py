"""Coverage and length of the intervals, and variability intervals, over thousands of replicates of a data set."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from dpinfer import codec, text
from dpinfer.data.formula import parse
from dpinfer.data.records import read
from dpinfer.data.schema import Schema
from dpinfer.data.source import UNSCALED, Rows
from dpinfer.errors import InputError
from dpinfer.fit.plan import Plan, default_penalty
from dpinfer.fit.run import Setting, choose_plan
from dpinfer.fit.target import check_target
from dpinfer.maths.arrays import Array
from dpinfer.maths.check import check_loss
from dpinfer.maths.losses import Logistic, Loss, describe, kind
from dpinfer.privacy.budget import Budget
from dpinfer.simulate.engine import Engine
from dpinfer.simulate.population import Population
from dpinfer.simulate.runner import Checkpoint, batches_of, run_batches
from dpinfer.simulate.trial import BLOCK, Tally, Trial


@dataclass(frozen=True, eq=False)
class Study:
    """What a coverage study found, one number a coefficient.  Not private: computed from the records themselves.

    ``coverage``, ``length`` (a mean) and ``length_sd`` are over the replicates with a finite interval, and ``reported``
    is their share; ``nonprivate_length`` is the mean length without noise on the same replicates (NaN if it was not
    asked for).
    """

    names: tuple[str, ...]
    target: Array
    coverage: Array
    length: Array
    length_sd: Array
    nonprivate_length: Array
    reported: Array
    replicates: int
    level: float
    seed: int
    setting: str

    @property
    def mean_coverage(self) -> float:
        """Coverage averaged over the coefficients that are ever reported; NaN if there are none."""
        return _mean(self.coverage)

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
        columns = ("target", "coverage", "length", "length_sd", "nonprivate_length", "reported")
        values = {column: getattr(self, column) for column in columns}
        return [{"name": n, **{c: float(v[j]) for c, v in values.items()}} for j, n in enumerate(self.names)]

    def summary(self) -> str:
        """The table as text, with what was studied under it."""
        error = float(np.sqrt(self.level * (1 - self.level) / self.replicates))
        return text.study(
            self.table(),
            [
                f"Mean coverage {self.mean_coverage:.4f}, smallest {self.min_coverage:.4f}, nominal {self.level:g} "
                f"(Monte Carlo error of one coefficient {error:.4f}); mean length {self.mean_length:.4g}.",
                f"{self.replicates} replicates, seed {self.seed}; {self.setting}.",
                "NOT PRIVATE: a study reads the records without noise. Do not publish it from sensitive data.",
            ],
        )

    def to_json(self) -> str:
        """The study as a JSON object."""
        return json.dumps(codec.encode(self), ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, document: str) -> "Study":
        """The inverse of `to_json`."""
        study: Study = codec.decode(json.loads(document), {"Study": Study})
        return study


def coverage(  # noqa: PLR0913  (the public face)
    X: Any,
    y: npt.ArrayLike | None = None,
    *,
    loss: Loss | None = None,
    penalty: float | None = None,
    budget: Budget | None = None,
    plan: Plan | None = None,
    target: str = "penalised",
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
    with ``schema`` and ``formula``.  With ``truth``, probabilities of the label +1 (an array, or a function of the
    rows), labels are drawn from them, without ``y``.
    ``device`` runs the fits on torch ("cuda", "cpu"); ``checkpoint`` names a file to resume from.  The numbers depend
    on the seed, not on workers, tiles or device.  Memory: about 8 (d(d+1)/2 + 8 d) bytes a record, and 256 bytes a
    record and worker for the counts; twice that with ``truth``.
    """
    _check(level, replicates, seed, workers)
    trial, names = _trial(X, y, truth, (schema, formula), _Options(loss, penalty, budget, plan, target, seed, device))
    size = BLOCK if device is None else 32 * BLOCK
    batches = batches_of(replicates, size)
    book = Checkpoint(checkpoint, _key(trial, replicates, level, size, nonprivate))
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
    trial, _ = _trial(X, y, truth, (None, None), _Options(loss, penalty, budget, plan, "penalised", seed, device))
    batches = batches_of(replicates, BLOCK if device is None else 32 * BLOCK)
    coef = np.concatenate([c for _, c in run_batches(trial.estimates, batches, _workers(workers, device), progress)])
    low, high = np.quantile(coef, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


@dataclass(frozen=True)
class _Options:
    loss: Loss | None
    penalty: float | None
    budget: Budget | None
    plan: Plan | None
    target: str
    seed: int
    device: str | None


def _trial(
    X: Any, y: Any, truth: Any, table: tuple[Schema | None, str | None], options: _Options
) -> tuple[Trial, tuple[str, ...]]:
    schema, formula = table
    plan, loss = choose_plan(options.budget, options.plan), options.loss or Logistic()
    check_loss(loss)
    if formula is not None or schema is not None:
        if formula is None or y is not None or truth is not None:
            raise InputError("a table is studied with schema= and formula=, and without y or truth=")
        design, source, scale = read(X, *parse(formula, schema), kind(loss))
        population, names, back = Population.of_records(source), design.names, design.back()
    else:
        population, scale = _of_arrays(X, y, truth, kind(loss)), UNSCALED
        dim = population.rows.shape[1]
        names, back = tuple(f"x{j + 1}" for j in range(dim)), np.eye(dim)
    penalty = (
        default_penalty(plan, loss, population.n, population.rows.shape[1], check_target(options.target))
        if options.penalty is None
        else options.penalty
    )
    setting = Setting(loss, penalty, plan, names, back, target=options.target, outcome=scale)
    with threadpool_limits(1, "blas"):
        engine = Engine(population, setting.risk(population.n), *_namespace(options.device))
        trial = Trial(engine, population, plan, options.seed, setting.mapping, setting.shift, options.target)
    return trial, names


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
    try:
        import array_api_compat.torch as xp  # noqa: PLC0415  (an optional extra)
    except ImportError:
        raise InputError("device= needs torch, which is not installed: leave it out to run on numpy") from None
    return xp, device


def _key(trial: Trial, *facts: Any) -> str:
    """A name for the whole study: data, setting and seed."""
    data = hashlib.sha256()
    for array in (trial.population.rows, trial.population.labels, trial.population.weights, trial.back, trial.shift):
        data.update(np.ascontiguousarray(array).tobytes())
    risk, z = trial.engine.risk, np.linspace(-5, 5, 201)
    for array in (risk.loss.slope(z), risk.loss.curvature(z)):  # a loss by what it does, not by its name
        data.update(np.ascontiguousarray(array).tobytes())
    described = repr((trial.plan, trial.aimed_at, describe(risk.loss), risk.penalty, risk.n, trial.seed, facts))
    return hashlib.sha256(data.digest() + described.encode()).hexdigest()


def _study(total: Tally, trial: Trial, names: tuple[str, ...], level: float, nonprivate: bool) -> Study:
    k, risk, plan = total.replicates, trial.engine.risk, trial.plan
    with np.errstate(invalid="ignore"):  # a coefficient that is never reported has no coverage and no length
        m = np.where(total.reported > 0, total.reported, np.nan)
    length = total.length / m
    spread = np.sqrt(np.maximum(total.length_squared / m - length**2, 0) * m / np.maximum(m - 1, 1))
    model = f"n = {risk.n}, {describe(risk.loss)}, {trial.aimed_at} target, penalty {risk.penalty:.6g}"
    return Study(
        names=names,
        target=trial.target,
        coverage=total.covered / m,
        length=length,
        length_sd=spread,
        nonprivate_length=total.nonprivate / m if nonprivate else np.full(len(length), np.nan),
        reported=total.reported / k,
        replicates=k,
        level=level,
        seed=trial.seed,
        setting=f"{model}, {plan.mechanism}, recipe {plan.recipe}, {plan.budget}",
    )


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


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
