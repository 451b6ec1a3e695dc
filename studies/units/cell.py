"""One replicate: a bootstrap sample of persons, the package's fit, and what it is about on the
population.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.fit.linear import LinearPlan, LinearSteps
from dpinfer.fit.logistic import GeometryPlan, LogisticSteps
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from dpinfer.simulate.estimands import stated_estimand
from dpinfer.simulate.population import Population
from dpinfer.simulate.replicates import noise_seed
from studies.asked import Z95
from studies.asked import budget as read_budget
from studies.units.designs import NUMERIC, load

GROUP = "group"
SEED = 0
_UNITS = "replace-unit"
_SHORT = {"approx": "1,1e-6"}


def budget(text: str) -> dp.ZCDP | dp.ApproxDP:
    """From its short name."""
    return read_budget(_SHORT.get(text, text))


@dataclass(frozen=True)
class Cell:
    """A design, a budget ("approx" is (1, 1e-6), a number a zCDP budget), and a method.

    The method is the number of a person's rows that count alike, or "group": a fit that protects
    rows, at ρ/m².
    """

    design: str
    budget: str
    method: str = "1"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.method}"

    def recipe(self, design: Design, most: int) -> LogisticSteps | LinearSteps:
        """What the package would run; ``most`` is the largest number of rows of a person."""
        if self.design in NUMERIC:
            return LinearSteps(design, LinearPlan(budget(self.budget), neighbours=_UNITS))
        plan = GeometryPlan(budget(self.budget), neighbours=_UNITS)
        if self.method == GROUP:
            cost = plan.cost
            assert isinstance(cost, dp.ZCDP)
            plan = GeometryPlan(dp.ZCDP(cost.rho / most**2))
        return LogisticSteps(design, plan)


@dataclass(frozen=True, eq=False)
class Setting:
    """What all replicates of a cell share: rows as (1, x~), counted as the method does, and as the
    average row.
    """

    recipe: LogisticSteps | LinearSteps
    population: Population
    people: Block
    asked: NoiselessFit
    average: NoiselessFit

    def sample(self, index: int, by_row: bool) -> Rows:
        """The persons of a replicate, the same for every budget and method."""
        drawn = self.population.sample(SEED, index)
        return Rows(Block(drawn.block.rows, drawn.block.labels)) if by_row else drawn


@lru_cache(maxsize=1)
def setting(cell: Cell, folder: Path) -> Setting:
    """Of a cell, made once for all of its replicates."""
    found = load(cell.design, folder)
    by_row = cell.method == GROUP
    design, population = found.of_units(1.0 if by_row else float(cell.method))
    recipe = cell.recipe(found.design if by_row else design, found.most)
    x = population.rows * np.sqrt(design.norm2)
    rows = Block(x, population.labels, starts=population.starts)
    people = rows
    if not by_row:
        shares = population.shares
        people = Block(x, population.labels, shares, shares, population.starts)
    return Setting(
        recipe,
        population,
        people,
        recipe.ordinary(people),
        recipe.ordinary(rows),
    )


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        at = setting(cell, folder)
        result = fit(
            at.recipe, at.sample(index, cell.method == GROUP), insecure_seed=noise_seed(SEED, index)
        )
        design = at.recipe.design
        assert result.geometry is not None
        about = stated_estimand(result, design, at.people, at.asked)
        asked = at.asked.in_units(design, result.geometry.centre)
        average = at.average.in_units(design, result.geometry.centre)
        covered = {"asked": asked.coef, "stated": about.coef, "rows": average.coef}
        return {**compare(result, covered, average.std_error), "down_weighted": about.down_weighted}


def compare(result: dp.FitResult, targets: dict[str, Array], error: Array) -> dict[str, Any]:
    """Which targets the intervals cover, and their length over that of an interval without noise.

    "asked" is among the targets.
    """
    reported = result.reported
    low, high = result.conf_int().T
    with np.errstate(invalid="ignore"):
        covered = {
            key: np.where(reported, (low <= coef) & (coef <= high), np.nan).tolist()
            for key, coef in targets.items()
        }
        return {
            **covered,
            "ratio": ((high - low) / (2 * Z95 * error)).tolist(),
            "z": ((result.estimate - targets["asked"]) / result.std_error).tolist(),
            "reported": reported.astype(float).tolist(),
        }
