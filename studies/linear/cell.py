"""One replicate: a bootstrap sample, the package's fit, and what it is about on the population, without noise."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.data.source import Rows
from dpinfer.fit.linear.plan import LinearPlan
from dpinfer.fit.linear.run import Linear
from dpinfer.fit.recipe import fit
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block
from dpinfer.simulate.stated import Minimum, least_squares, stated
from studies.geometry.designs import Data
from studies.linear.designs import load

Z95 = 1.959964


@dataclass(frozen=True)
class Cell:
    """A design, a budget ("approx" is (1, 1e-6), a number a zCDP budget), a target, its tail, and neighbours."""

    design: str
    budget: str
    target: str = "mean"
    tail: str = "balanced"
    neighbours: str = "replace"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.target}-{self.tail}-{self.neighbours}"

    @property
    def plan(self) -> LinearPlan:
        """The package's plan."""
        return LinearPlan(budget(self.budget), self.target, self.tail, self.neighbours)


def budget(text: str) -> dp.ZCDP | dp.ApproxDP:
    """From its short name."""
    return dp.ApproxDP(1.0, 1e-6) if text == "approx" else dp.ZCDP(float(text))


@lru_cache(maxsize=2)
def whole(design: str, folder: Path) -> tuple[Minimum, float]:
    """Least squares of all columns (1, x~) and scaled outcomes on the whole data set, and its residual deviation."""
    data = load(design, folder)
    found = least_squares(data.x, data.labels)
    return found, float(np.std(data.labels - data.x @ found.coef))


def sample(data: Data, index: int) -> Block:
    """A bootstrap sample, the same for every budget and every rival."""
    n = len(data.labels)
    drawn = np.sort(np.random.default_rng([index, 7]).integers(0, n, n))
    return Block(data.rows[drawn], data.labels[drawn])


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        data = load(cell.design, folder)
        result = fit(Linear(data.design, cell.plan), Rows(sample(data, index)), insecure_seed=index)
        return {"index": index, **_compare(data, result, *whole(cell.design, folder))}


def _compare(data: Data, result: dp.FitResult, full: Minimum, spread: float) -> dict[str, Any]:
    geometry, band, reported = result.geometry, result.band, result.reported
    assert geometry is not None
    assert band is not None
    about, (low, high) = stated(result, data.design, Block(data.x, data.labels), full.coef), result.conf_int().T

    def covered(coef: Array) -> Any:
        return np.where(reported, (low <= coef) & (coef <= high), np.nan).tolist()

    with np.errstate(invalid="ignore"):
        return {
            "stated": covered(about.target),
            "ordinary": covered(about.ordinary),
            "full": covered(about.full),
            "ratio": ((high - low) / (2 * Z95 * about.std_error)).tolist(),
            "z": ((result.estimate - about.target) / result.std_error).tolist(),
            "reported": reported.astype(float).tolist(),
            "in_model": np.isin(data.design.names, geometry.in_model).astype(float).tolist(),
            "clipped": about.clipped,
            "down_weighted": about.down_weighted,
            "band": band.width / (data.design.outcome.half * spread),
        }
