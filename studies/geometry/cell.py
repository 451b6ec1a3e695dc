"""One replicate: a bootstrap sample, the package's fit, and the targets of what it reports, without noise."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.data.source import Rows
from dpinfer.fit.recipe import fit
from dpinfer.fit.weighted.plan import GeometryPlan
from dpinfer.fit.weighted.run import Weighted
from dpinfer.maths.arrays import Array
from dpinfer.maths.sums import Block
from dpinfer.simulate.stated import Minimum, minimum, stated
from studies.geometry.designs import Data, load

ISOTROPIC_SHARE, RIDGE = 0.85, 1e-3  # the ridge keeps a separated design invertible


@dataclass(frozen=True)
class Cell:
    """A design, a budget ("approx" is (1, 1e-6), a number a zCDP budget), a target and a notion of neighbours."""

    design: str
    budget: str
    target: str = "weighted"
    neighbours: str = "replace"

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.design}-{self.budget}-{self.target}-{self.neighbours}"

    @property
    def rho(self) -> float:
        """What the releases cost in zCDP."""
        return self.plan.cost.rho

    @property
    def plan(self) -> GeometryPlan:
        """The package's plan."""
        budget = dp.ApproxDP(1.0, 1e-6) if self.budget == "approx" else dp.ZCDP(float(self.budget))
        return GeometryPlan(budget, self.target, self.neighbours)


@lru_cache(maxsize=2)
def whole(design: str, folder: Path) -> Minimum:
    """The full model on the whole data set."""
    data = load(design, folder)
    return minimum(data.x, data.labels, np.zeros(len(data.design.names)))


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        data = load(cell.design, folder)
        n = len(data.labels)
        drawn = np.sort(np.random.default_rng([index, 7]).integers(0, n, n))
        sample = Rows(Block(data.rows[drawn], data.labels[drawn]))
        result = fit(Weighted(data.design, cell.plan), sample, insecure_seed=index)
        return {"index": index, **_compare(data, result, whole(cell.design, folder))}


def _compare(data: Data, result: dp.FitResult, full: Minimum) -> dict[str, Any]:
    geometry, reported = result.geometry, result.reported
    assert geometry is not None
    about, (low, high) = stated(result, data.design, Block(data.x, data.labels), full.coef), result.conf_int().T

    def covered(coef: Array) -> Any:
        return np.where(reported, (low <= coef) & (coef <= high), np.nan).tolist()

    with np.errstate(invalid="ignore"):
        return {
            "stated": covered(about.target),
            "ordinary": covered(about.ordinary),
            "full": covered(about.full),
            "reading": np.where(reported, geometry.full_model_reading, np.nan).tolist(),
            "ratio": ((high - low) / (2 * 1.959964 * about.std_error)).tolist(),
            "z": ((result.estimate - about.target) / result.std_error).tolist(),
            "reported": reported.astype(float).tolist(),
            "in_model": np.isin(data.design.names, geometry.in_model).astype(float).tolist(),
            "down_weighted": about.down_weighted,
        }


def isotropic(cell: Cell, folder: Path) -> Array:
    """Length of an interval with isotropic noise in the public box and exactly known matrices, over the sandwich's."""
    data, full = load(cell.design, folder), whole(cell.design, folder)
    p = expit(-data.labels * (data.x @ full.coef))
    inverse = np.linalg.inv((data.x * (p * (1 - p))[:, None]).T @ data.x + RIDGE * np.eye(data.x.shape[1]))
    noise = 2 * 1.03 / (ISOTROPIC_SHARE * cell.rho) * data.design.norm2 * inverse @ inverse
    return np.asarray(np.sqrt(1 + np.diag(noise) / np.diag(full.covariance)))
