"""One replicate: a sample of persons, the package's fit, and what its coefficients are held against."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.fit.hazard import HazardPlan, HazardSteps
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.recipe import fit
from dpinfer.numerics.arrays import Array
from dpinfer.rows.source import Rows
from dpinfer.simulate.replicates import noise_seed
from studies.asked import THOROUGH, Z95, Found, budget
from studies.survival.cox import cox
from studies.survival.designs import Encoded, load

SEED = 11


@dataclass(frozen=True)
class Cell:
    """A design, a budget as `studies.asked.budget` reads it, and what neighbours differ in."""

    design: str
    budget: str
    adjacency: str = "replace"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.adjacency}"

    def recipe(self, data: Encoded) -> HazardSteps:
        """What the package would run."""
        ids = "-unit" if data.design.unit.many else ""
        plan = HazardPlan(
            budget(self.budget), adjacency=self.adjacency + ids, delayed=data.cohort.delayed
        )
        return HazardSteps(data.design, plan)


@dataclass(frozen=True, eq=False)
class Asked:
    """The ordinary coefficients of a population, their standard errors for a replicate, and Cox coefficients."""

    data: Encoded
    fitted: NoiselessFit
    covariates: int
    cox: Array
    events: float

    @property
    def coef(self) -> Array:
        """The coefficients of the covariates, in units of the columns."""
        return self._units[0]

    @property
    def std_error(self) -> Array:
        """Their robust standard errors without noise, for as many persons as a replicate has."""
        return np.asarray(
            self._units[1] * np.sqrt(self.data.population.n / self.data.cohort.persons)
        )

    @property
    def _units(self) -> tuple[Array, Array]:
        design = self.data.design
        found = self.fitted.in_units(design, design.middle[1:])
        some = slice(1, 1 + self.covariates)
        return found.coef[some], found.std_error[some]


@lru_cache(maxsize=2)
def asked(design: str, folder: Path) -> Asked:
    """What a design asks for, computed once for all of its cells."""
    data = load(design, folder)
    recipe = Cell(design, "1,1e-6").recipe(data)
    rows = data.population.records
    fitted = recipe.ordinary(recipe.observations(rows))
    covariates = len(data.design.records.names) - 1
    made = data.cohort
    block = rows.block
    times = block.rows[:, -2:] / block.rows[:, :1] * made.horizon
    x = data.design.middle[1 : 1 + covariates] + data.design.half[1 : 1 + covariates] * (
        block.rows[:, 1 : 1 + covariates] / block.rows[:, :1]
    )
    coef = cox(times[:, 0], times[:, 1], block.labels, x)
    events = float(block.labels.sum()) * made.persons / data.population.n
    return Asked(data, fitted, covariates, coef, events)


def _without_noise(at: Asked, sample: Rows) -> list[float]:
    """Say of each covariate whether the ordinary interval of a sample holds the coefficient of the population."""
    recipe = Cell("", "1,1e-6").recipe(at.data)
    design = at.data.design
    found = recipe.ordinary(recipe.observations(sample)).in_units(design, design.middle[1:])
    some = slice(1, 1 + at.covariates)
    within = np.abs(found.coef[some] - at.coef) <= Z95 * found.std_error[some]
    return [float(one) for one in within]


def replicate(cell: Cell, folder: Path, index: int) -> Found:
    """Say of each covariate whether its interval holds the ordinary and the Cox coefficient, and its length.

    ``ratio`` is the length over that of the interval without noise of the population.
    """
    with threadpool_limits(1, "blas"):
        at = asked(cell.design, folder)
        rng = np.random.default_rng([SEED, index])
        population = at.data.population
        sample = population.of(rng.integers(0, population.n, at.data.cohort.persons))
        result = fit(cell.recipe(at.data), sample, insecure_seed=noise_seed(SEED, index))
        some = slice(1, 1 + at.covariates)
        low, high = result.conf_int()[some].T
        reported = result.reported[some]

        def covered(coef: Array) -> list[float]:
            return [float(v) for v in np.where(reported, (low <= coef) & (coef <= high), np.nan)]

        unknown = [float("nan")] * at.covariates
        ratio = (high - low) / (2 * Z95 * at.std_error)
        return {
            "asked": covered(at.coef),
            "cox": covered(at.cox),
            "ratio": np.where(reported, ratio, np.nan).tolist(),
            "printed": reported.astype(float).tolist(),
            "ceiling": _without_noise(at, sample) if index % THOROUGH == 0 else unknown,
        }
