"""One replicate: a sample of persons, the package's fit, and the ordinary within estimator of the population."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.estimators.panel import StartRegression
from dpinfer.fit.recipe import Recipe, fit
from dpinfer.numerics.arrays import Array
from dpinfer.simulate.population import Population
from studies.asked import budget
from studies.panel.designs import load

SEED = 0


@dataclass(frozen=True)
class Cell:
    """A design, a budget ("1,1e-6" is (ε, δ), a number a zCDP budget), and the neighbours."""

    design: str
    budget: str
    adjacency: str = "replace"

    @property
    def name(self) -> str:
        """Return a file name."""
        return f"{self.design}-{self.budget}-{self.adjacency}"


@dataclass(frozen=True, eq=False)
class Setting:
    """What all replicates of a cell share: population, truth, and the errors of a fit without noise."""

    recipe: Recipe
    population: Population
    persons: int
    names: tuple[str, ...]
    truth: Array
    std_error: Array
    covariance: Array
    model: Any

    def sample(self, index: int) -> Any:
        """Return the persons of a replicate, drawn with replacement."""
        rng = np.random.default_rng([SEED, index])
        return self.population.of(rng.integers(0, self.population.n, self.persons))


@lru_cache(maxsize=1)
def setting(cell: Cell, folder: Path) -> Setting:
    """Return the setting of a cell, made once for all of its replicates."""
    panel = load(cell.design, folder)
    twin = panel.model(dp.NoPrivacy())
    design, pending = twin.read(panel.table)
    population = Population.of_records(pending.rows())
    persons = panel.persons or population.n
    ordinary = fit(twin.recipe(design, population.n), population.records, insecure_seed=0)
    model = panel.model(budget(cell.budget), cell.adjacency)
    model.read(panel.table)
    covariance = ordinary.covariance * population.n / persons
    return Setting(
        model.recipe(design, persons),
        population,
        persons,
        design.names,
        ordinary.estimate,
        np.sqrt(np.diag(covariance)),
        covariance,
        model,
    )


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """Return what one replicate says of each coefficient, NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        at = setting(cell, folder)
        result = fit(at.recipe, at.sample(index), insecure_seed=index + 1)
        found = _compared(
            result.estimate[1:],
            result.conf_int()[1:],
            result.std_error[1:],
            (result.reported[1:], at.truth[1:], at.std_error[1:]),
        )
        if isinstance(at.model, StartRegression):
            found |= _by_period(at, result)
        return found


def _compared(
    estimate: Array, ends: Array, error: Array, against: tuple[Any, Array, Array]
) -> dict[str, Any]:
    reported, truth, std_error = against
    with np.errstate(invalid="ignore"):
        covered = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
        return {
            "covered": np.where(reported, covered, np.nan).tolist(),
            "ratio": np.where(reported, error / std_error, np.nan).tolist(),
            "length": np.where(
                reported, (ends[:, 1] - ends[:, 0]) / (2 * 1.959964 * std_error), np.nan
            ).tolist(),
            "z": np.where(reported, (estimate - truth) / error, np.nan).tolist(),
            "off": np.where(reported, (estimate - truth) / std_error, np.nan).tolist(),
            "reported": reported.astype(float).tolist(),
        }


def _by_period(at: Setting, result: dp.FitResult) -> dict[str, Any]:
    """Return the same for effects by period, about the cohorts by their released shares, and of the band."""
    model = at.model
    model.result_ = result
    effects = model.period_effects()
    matrix = np.array([one.vector for one in model._relative()])
    truth = matrix @ np.where(np.isfinite(at.truth), at.truth, 0.0)
    used = (matrix != 0).any(axis=0)
    inner = at.covariance[np.ix_(used, used)]
    std_error = np.sqrt(np.diag(matrix[:, used] @ inner @ matrix[:, used].T))
    found = _compared(
        effects.estimate, effects.interval, effects.std_error, (effects.known, truth, std_error)
    )
    in_band = (effects.band[:, 0] <= truth) & (truth <= effects.band[:, 1])
    band = bool(in_band[effects.known].all()) if effects.known.any() else np.nan
    return {f"period_{key}": value for key, value in found.items()} | {"band": float(band)}
