"""The methods of the study: each from one sample to slopes, standard errors and seconds.

| method       | what it is                                                                                 |
| ------------ | ------------------------------------------------------------------------------------------ |
| dpinfer      | `dp.LinearRegression` with its defaults                                                     |
| SSP          | noisy sufficient statistics in the public box, by the analytic Gaussian mechanism; the      |
|              | interval counts the noise by the delta method                                              |
| SSP textbook | the same release with the textbook interval, which ignores the noise                       |
| AdaSSP       | Wang (2018): a ridge as large as the noise asks for; the interval counts the noise         |
| diffprivlib  | its LinearRegression, a functional mechanism at pure ε; it gives no interval               |
| OLS          | least squares with the sandwich HC0, not private                                           |

Neighbours differ in one record.  A method without an interval has NaN in its place.
"""

import sys
import time
import types
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import dpinfer as dp
from dpinfer.fit.linear import LinearPlan, LinearSteps
from dpinfer.fit.recipe import fit
from dpinfer.mechanisms.privacy_cost import gaussian_delta
from dpinfer.numerics.arrays import Array, boundary
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design
from studies.asked import Z95, Found, budget, held
from studies.field.designs import load, whole
from studies.linear.rivals import Task, adaptive, counted, exact, naive

OURS = "dpinfer"
OLS = "OLS, not private"
DIFFPRIVLIB = "diffprivlib"
_BY_TASK = {"SSP": counted, "SSP textbook": naive, "AdaSSP": adaptive, OLS: exact}
METHODS = (OURS, "SSP", "AdaSSP", "SSP textbook", DIFFPRIVLIB, OLS)
_LARGEST_MU = 20.0  # of a Gaussian release: far above every budget of the study


@dataclass(frozen=True)
class Cell:
    """A data set and a budget as `studies.asked.budget` reads it."""

    design: str
    budget: str

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return f"{self.design}-{self.budget}"

    @property
    def gaussian_rho(self) -> float:
        """Return the zCDP cost of the Gaussian releases that the budget pays for, by their exact profile."""
        asked = budget(self.budget)
        if isinstance(asked, dp.ZCDP):
            return asked.rho
        mu, _ = boundary(
            lambda mu: float(gaussian_delta(asked.epsilon, mu)) <= asked.delta,
            1e-6,
            _LARGEST_MU,
            1e-9,
        )
        return mu**2 / 2

    @property
    def pure_epsilon(self) -> float:
        """Return the ε of a method with pure privacy: that of the budget, or sqrt(2ρ)."""
        asked = budget(self.budget)
        if isinstance(asked, dp.ZCDP):
            return float(np.sqrt(2 * asked.rho))
        return asked.epsilon


def replicate(cell: Cell, folder: Path, index: int) -> Found:
    """Return what each method says of one sample, by method."""
    with threadpool_limits(1, "blas"):
        data = load(cell.design, folder)
        sample = data.sample(index)
        at = whole(cell.design, folder)
        norm2 = data.design.norm2
        x = sample.rows * np.sqrt(norm2)
        slopes = np.arange(1, x.shape[1])
        truth = at.asked.coef[slopes]
        own = np.sqrt(np.diag(at.asked.covariance))[slopes]
        found = {OURS: _ours(cell, folder, index)}
        for number, (name, method) in enumerate(_BY_TASK.items()):
            rng = np.random.default_rng([index, 44, number])
            began = time.perf_counter()
            answer = method(Task(x, sample.labels, norm2, cell.gaussian_rho, rng))
            seconds = time.perf_counter() - began
            coef, error = (np.full(x.shape[1], np.nan),) * 2 if answer is None else answer
            off = np.abs(coef[slopes] - truth)
            covered = np.where(np.isfinite(off), off <= Z95 * error[slopes], np.nan)
            found[name] = {
                "covered": covered.tolist(),
                "ratio": (error[slopes] / own).tolist(),
                "off": (off / own).tolist(),
                "seconds": seconds,
            }
        if diffprivlib() is not None:
            coef, seconds = _diffprivlib(cell, data.design, x, sample.labels, index)
            nothing = [float("nan")] * len(slopes)
            found[DIFFPRIVLIB] = {
                "covered": nothing,
                "ratio": nothing,
                "off": (np.abs(coef - truth) / own).tolist(),
                "seconds": seconds,
            }
        return found


def _ours(cell: Cell, folder: Path, index: int) -> Found:
    at = whole(cell.design, folder)
    sample = at.data.sample(index)
    began = time.perf_counter()
    plan = LinearPlan(budget(cell.budget))
    result = fit(LinearSteps(at.data.design, plan), Rows(sample), insecure_seed=index)
    seconds = time.perf_counter() - began
    about, _ = held(result, at, sample, thorough=False)
    assert result.geometry is not None
    asked = at.asked.in_units(at.data.design, result.geometry.centre)
    off = np.where(result.reported, np.abs(result.params - asked.coef) / asked.std_error, np.nan)
    return {
        "covered": about["asked"][1:],
        "ratio": about["ratio"][1:],
        "off": off[1:].tolist(),
        "seconds": seconds,
    }


@cache
def diffprivlib() -> Any:
    """Return diffprivlib's models, or None where it is not installed.

    Version 0.6.6 does not import beside scikit-learn 1.9, for its forests alone: they are left out.
    """
    forest = types.ModuleType("diffprivlib.models.forest")
    forest.RandomForestClassifier = forest.DecisionTreeClassifier = None  # type: ignore[attr-defined]
    sys.modules.setdefault("diffprivlib.models.forest", forest)
    try:
        from diffprivlib import models  # type: ignore[import-not-found]  # noqa: PLC0415
    except ImportError:
        return None
    return models


def _diffprivlib(
    cell: Cell, design: Design, x: Array, labels: Array, index: int
) -> tuple[Array, float]:
    """Return its slopes, given the bounds of scaled columns and outcome, and the seconds it took."""
    low = np.where(design.low < design.middle, -1.0, 0.0)[1:]  # 0 for a level of a factor
    model = diffprivlib().LinearRegression(
        epsilon=cell.pure_epsilon,
        bounds_X=(low, np.ones(len(low))),
        bounds_y=(-1.0, 1.0),
        random_state=index,
    )
    began = time.perf_counter()
    model.fit(x[:, 1:], labels)
    return np.asarray(model.coef_), time.perf_counter() - began
