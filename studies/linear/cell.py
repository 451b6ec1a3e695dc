"""One replicate: a bootstrap sample, the package's fit, and what its lines are held against."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.fit.linear import LinearPlan, LinearSteps
from dpinfer.fit.recipe import fit
from dpinfer.rows.source import Rows
from studies.asked import Found, Whole, budget, held
from studies.linear.designs import load


@dataclass(frozen=True)
class Cell:
    """A design, a budget as `studies.asked.budget` reads it, a target, its tail, and neighbours."""

    design: str
    budget: str
    target: str = "asked"
    tail: str = "balanced"
    neighbours: str = "replace"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.target}-{self.tail}-{self.neighbours}"

    @property
    def plan(self) -> LinearPlan:
        """The package's plan."""
        return LinearPlan(budget(self.budget), self.target, self.neighbours, tail=self.tail)


@lru_cache(maxsize=2)
def whole(design: str, folder: Path) -> Whole:
    """The population of a design, and least squares of all its columns."""
    return Whole.of(load(design, folder), squares=True)


def replicate(cell: Cell, folder: Path, index: int) -> Found:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        at = whole(cell.design, folder)
        data = at.data
        sample = data.sample(index)
        result = fit(LinearSteps(data.design, cell.plan), Rows(sample), insecure_seed=index)
        assert result.band is not None
        found, about = held(result, at, sample)
        assert about is not None
        spread = float(np.std(data.labels - data.x @ at.asked.coef))
        more = {
            "down_weighted": about.down_weighted,
            "clipped": about.clipped,
            "band": result.band.width / (data.design.outcome.half * spread),
        }
        return {"index": index, **found, **more}
