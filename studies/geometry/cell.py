"""One replicate: a sample, the package's fit, and what its lines are held against."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from threadpoolctl import threadpool_limits

from dpinfer.fit.logistic import GeometryPlan, LogisticSteps
from dpinfer.fit.recipe import fit
from dpinfer.rows.source import Rows
from studies.asked import THOROUGH, Found, Whole, budget, held
from studies.geometry.designs import load


@dataclass(frozen=True)
class Cell:
    """A design, a budget as `studies.asked.budget` reads it, and a notion of neighbours."""

    design: str
    budget: str
    neighbours: str = "replace"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.neighbours}"

    @property
    def plan(self) -> GeometryPlan:
        """The package's plan."""
        return GeometryPlan(budget(self.budget), neighbours=self.neighbours)


@lru_cache(maxsize=2)
def whole(design: str, folder: Path) -> Whole:
    """The population of a design, and the logistic regression asked for."""
    return Whole.of(load(design, folder), squares=False)


def replicate(cell: Cell, folder: Path, index: int) -> Found:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        at = whole(cell.design, folder)
        sample = at.data.sample(index)
        result = fit(LogisticSteps(at.data.design, cell.plan), Rows(sample), insecure_seed=index)
        found, about = held(result, at, sample, thorough=index % THOROUGH == 0)
        weighted = float("nan") if about is None else about.down_weighted
        return {"index": index, **found, "down_weighted": weighted}
