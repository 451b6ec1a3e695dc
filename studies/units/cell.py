"""One replicate: a bootstrap sample of persons, the package's fit, and what it is about on the population."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.data.design import Design
from dpinfer.data.source import Rows
from dpinfer.fit.linear.plan import LinearPlan
from dpinfer.fit.linear.run import Linear
from dpinfer.fit.recipe import fit
from dpinfer.fit.weighted.plan import GeometryPlan
from dpinfer.fit.weighted.run import Weighted
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block
from dpinfer.simulate.draws import Population
from dpinfer.simulate.single import noise_seed
from dpinfer.simulate.stated import Plain, stated
from studies.linear.cell import Z95, budget
from studies.units.designs import NUMERIC, load

GROUP = "group"
SEED = 0
_UNITS = "replace-unit"


@dataclass(frozen=True)
class Cell:
    """A design, a budget ("approx" is (1, 1e-6), a number a zCDP budget), and a method.

    The method is the number of a person's rows that count alike, or "group": a fit that protects rows, at ρ/m².
    """

    design: str
    budget: str
    method: str = "1"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.method}"

    def recipe(self, design: Design, most: int) -> Weighted | Linear:
        """What the package would run; ``most`` is the largest number of rows of a person."""
        if self.design in NUMERIC:
            return Linear(design, LinearPlan(budget(self.budget), neighbours=_UNITS))
        plan = GeometryPlan(budget(self.budget), neighbours=_UNITS)
        return Weighted(design, GeometryPlan(dp.ZCDP(plan.cost.rho / most**2)) if self.method == GROUP else plan)


@dataclass(frozen=True, eq=False)
class Setting:
    """What all replicates of a cell share: rows as (1, x~), counted as the method does, and as the average row."""

    recipe: Weighted | Linear
    population: Population
    people: Block
    plain: Plain
    average: Plain

    def sample(self, index: int, by_row: bool) -> Rows:
        """The persons of a replicate, the same for every budget and method."""
        drawn = self.population.sample(SEED, index)
        return Rows(Block(drawn.block.rows, drawn.block.labels)) if by_row else drawn


@lru_cache(maxsize=1)
def setting(cell: Cell, folder: Path) -> Setting:
    """Of a cell, made once for all of its replicates."""
    found, by_row, squares = load(cell.design, folder), cell.method == GROUP, cell.design in NUMERIC
    design, population = found.of_units(1.0 if by_row else float(cell.method))
    recipe = cell.recipe(found.design if by_row else design, found.most)
    x = population.rows * np.sqrt(design.norm2)
    rows = Block(x, population.labels, starts=population.starts)
    people = rows if by_row else Block(x, population.labels, population.shares, population.shares, population.starts)
    return Setting(recipe, population, people, Plain(people, squares=squares), Plain(rows, squares=squares))


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        at = setting(cell, folder)
        result = fit(at.recipe, at.sample(index, cell.method == GROUP), insecure_seed=noise_seed(SEED, index))
        design, nowhere = at.recipe.design, np.zeros(len(at.recipe.design.names))
        about = stated(result, design, at.people, nowhere, at.plain)
        row, error = at.average.said(result, design)
        covered = {"stated": about.target, "ordinary": about.ordinary, "rows": row}
        return {**compare(result, covered, error, about.target), "down_weighted": about.down_weighted}


def compare(result: dp.FitResult, targets: dict[str, Array], error: Array, target: Array) -> dict[str, Any]:
    """Which targets the intervals cover, and their length over that of an interval without noise."""
    assert result.geometry is not None
    reported, (low, high) = result.reported, result.conf_int().T
    with np.errstate(invalid="ignore"):
        covered = {
            key: np.where(reported, (low <= coef) & (coef <= high), np.nan).tolist() for key, coef in targets.items()
        }
        return {
            **covered,
            "ratio": ((high - low) / (2 * Z95 * error)).tolist(),
            "z": ((result.estimate - target) / result.std_error).tolist(),
            "reported": reported.astype(float).tolist(),
            "in_model": np.isin(result.names, result.geometry.in_model).astype(float).tolist(),
        }
