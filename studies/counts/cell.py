"""One replicate: a bootstrap sample of records or persons, the package's fit, and what its lines are
held against; and the rival on the same sample.

The rival is least squares of log(1 + y), of a rate where there is an exposure, without any noise,
its coefficients read as logarithms of rate ratios.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.fit.noiseless import NoiselessFit, Observations, least_squares, observations_of
from dpinfer.fit.poisson import PoissonPlan, PoissonSteps
from dpinfer.fit.recipe import fit
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from dpinfer.simulate.estimands import SteppedEstimand, alternative_estimands, stated_estimand
from dpinfer.simulate.replicates import noise_seed
from studies.asked import Z95, Found, budget
from studies.counts.designs import load

SEED = 0
_LOGS = "log(1 + y)"
_NO_NOISE = "no noise"
RIVALS = (_LOGS, _NO_NOISE)


@dataclass(frozen=True)
class Cell:
    """A design, and a budget as `studies.asked.budget` reads it."""

    design: str
    budget: str

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}"

    def recipe(self, design: Design) -> PoissonSteps:
        """What the package would run."""
        neighbours = "replace-unit" if design.unit.many else "replace"
        return PoissonSteps(design, PoissonPlan(budget(self.budget), neighbours=neighbours))


@lru_cache(maxsize=2)
def setting(cell: Cell, folder: Path) -> SteppedEstimand:
    """The population of a cell and the regression asked for, made once for all of its replicates."""
    data = load(cell.design, folder)
    return SteppedEstimand(cell.recipe(data.design), data.population)


def without_noise(design: Design, sample: Rows) -> NoiselessFit:
    """The ordinary Poisson regression of a replicate: not private."""
    return PoissonSteps.ordinary(observations_of(design, sample.block))


def replicate(cell: Cell, folder: Path, index: int) -> Found:
    """What one replicate says of each coefficient: NaN where it is not reported.

    asked, stated: whether the interval holds what was asked, and what the band and the weights of
    the fit give on the population.  ceiling: whether an interval without noise of the same sample
    holds what was asked.  ratio: length over that of the interval without noise of the population.
    """
    with threadpool_limits(1, "blas"):
        at = setting(cell, folder)
        design = at.recipe.design
        sample = at.population.sample(SEED, index)
        result = fit(at.recipe, sample, insecure_seed=noise_seed(SEED, index))
        assert result.geometry is not None
        centre = result.geometry.centre
        asked = at.asked.in_units(design, centre)
        about = stated_estimand(result, design, at.observations, at.asked)
        other = without_noise(design, sample).in_units(design, centre)
        low, high = result.conf_int().T
        printed = result.reported

        def covered(coef: np.ndarray) -> list[float]:
            inside = (low <= coef) & (coef <= high)
            return [float(value) for value in np.where(printed, inside, np.nan)]

        estimands = alternative_estimands(result, design, at.observations, at.asked).tolist()
        instead = [
            {
                "name": row["name"],
                "instead_of": row["instead_of"],
                "covered": float(row["low"] <= value <= row["high"]),
            }
            for row, value in zip(result.instead_rows(), estimands, strict=True)
        ]
        within = np.abs(other.coef - asked.coef) <= Z95 * other.std_error
        ratio = (high - low) / (2 * Z95 * asked.std_error)
        return {
            "asked": covered(asked.coef),
            "stated": covered(about.coef),
            "ceiling": within.astype(float).tolist(),
            "ratio": np.where(printed, ratio, np.nan).tolist(),
            "printed": printed.astype(float).tolist(),
            "rejected": [float("nan")] * len(printed),
            "instead": instead,
            "down_weighted": about.down_weighted,
            "clipped": about.clipped,
        }


def contest(cell: Cell, folder: Path, index: int) -> Found:
    """Slopes of the rival and of the ordinary regression on one sample: whether they cover those of
    the population, and lengths over its own.
    """
    with threadpool_limits(1, "blas"):
        at = setting(cell, folder)
        design = at.recipe.design
        people = observations_of(design, at.population.sample(SEED, index).block)
        answers = {_LOGS: _logs(design, people), _NO_NOISE: PoissonSteps.ordinary(people)}
        own = at.asked.std_error[1:]
        found: Found = {}
        for name, answer in answers.items():
            error = answer.std_error[1:]
            covered = np.abs(answer.coef - at.asked.coef)[1:] <= Z95 * error
            found[name] = {
                "covered": covered.astype(float).tolist(),
                "ratio": (error / own).tolist(),
            }
        return found


def _logs(design: Design, people: Observations) -> NoiselessFit:
    """Least squares of log(1 + y/exposure)."""
    rates = design.outcome.half * people.labels / np.exp(people.offset)
    return least_squares(people.rows, np.log1p(rates), people.shares, people.starts)
