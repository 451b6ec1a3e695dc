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
from dpinfer.fit.geometry.plan import GeometryPlan
from dpinfer.fit.geometry.run import fit_geometry
from dpinfer.maths.arrays import Array
from dpinfer.maths.minimise import minimise
from studies.geometry.designs import Data, load

ISOTROPIC_SHARE, RIDGE = 0.85, 1e-3


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


@dataclass(frozen=True, eq=False)
class Minimum:
    """A weighted logistic fit with an offset, and its sandwich covariance."""

    coef: Array
    covariance: Array


def minimum(x: Array, y: Array, start: Array, weights: Array | None = None, offset: Array | None = None) -> Minimum:
    """The package's own search from ``start``, with a ridge of .001 against separation; and the sandwich."""
    w = np.ones(len(y)) if weights is None else weights
    shift = np.zeros(len(y)) if offset is None else offset

    def totals(step: Array) -> tuple[float, Array, Array]:
        coef = start + step
        margins = y * (x @ coef + shift)
        p = expit(-margins)
        hessian = (x * (w * p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(len(coef))
        return (
            float(w @ np.logaddexp(0, -margins) + RIDGE / 2 * coef @ coef),
            RIDGE * coef - (w * p * y) @ x,
            hessian,
        )

    coef = start + minimise(totals, len(start), 1e-4).coef  # a millionth of a standard error
    scores = x * (w * expit(-y * (x @ coef + shift)))[:, None]
    inverse = np.linalg.inv(totals(coef - start)[2])
    return Minimum(coef, inverse @ (scores.T @ scores) @ inverse)


@lru_cache(maxsize=2)
def whole(design: str, folder: Path) -> Minimum:
    """The full model on the whole data set."""
    data = load(design, folder)
    return minimum(data.x, data.labels, np.zeros(len(data.box.names)))


def replicate(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """What one replicate says of each coefficient: NaN where it is not reported."""
    with threadpool_limits(1, "blas"):
        data = load(cell.design, folder)
        n = len(data.labels)
        drawn = np.sort(np.random.default_rng([index, 7]).integers(0, n, n))
        sample = Rows(data.rows[drawn], data.labels[drawn])
        result = fit_geometry(sample, data.box, cell.plan, None, index)
        return {"index": index, **_compare(data, result, whole(cell.design, folder))}


def _compare(data: Data, result: dp.FitResult, full: Minimum) -> dict[str, Any]:
    geometry, box, x = result.geometry, data.box, data.x
    assert geometry is not None
    names = np.array(box.names)
    reported, offset = result.reported, np.isin(names, geometry.offset)
    model = reported.copy()
    model[0] = True
    S, D, C = np.flatnonzero(model), np.flatnonzero(offset), np.flatnonzero(np.isin(names, geometry.columns))
    to_x = np.diag(box.half[C])  # the preconditioner again for (1, x~)
    to_x[1:, 0] = box.middle[C][1:]
    u = x[:, C] @ (geometry.preconditioner @ to_x).T
    weights = 1 / np.maximum(1, np.einsum("ij,ij->i", u, u))
    shift = x[:, D] @ (result.estimate[D] * box.half[D])
    unweighted = minimum(x[:, S], data.labels, np.zeros(len(S)), None, shift)
    weighted = minimum(x[:, S], data.labels, unweighted.coef, weights, shift)
    centre = np.concatenate([[1.0], (geometry.centre - box.middle[1:]) / box.half[1:]])
    to_report = np.diag(1 / box.half[S])
    to_report[0] = centre[S]
    constant = np.zeros(len(S))
    constant[0] = centre[D] @ (result.estimate[D] * box.half[D])
    interval, half = result.conf_int(), 1.959964 * np.sqrt(np.diag(to_report @ unweighted.covariance @ to_report.T))

    def spread(values: Array, places: Any) -> Array:
        out = np.full(len(names), np.nan)
        out[places] = values
        return np.where(reported, out, np.nan)

    def covered(coef: Array, places: Any) -> Any:
        inside = (interval[places, 0] <= coef) & (coef <= interval[places, 1])
        return spread(inside.astype(float), places).tolist()

    slopes = np.arange(1, len(names))
    target = to_report @ weighted.coef + constant
    full_reading = np.array(geometry.full_model_reading)
    return {
        "stated": covered(target, S),
        "unweighted": covered(to_report @ unweighted.coef + constant, S),
        "full": covered(full.coef[1:] / box.half[1:], slopes),
        "reading": np.where(reported, full_reading, np.nan).tolist(),
        "ratio": spread((interval[S, 1] - interval[S, 0]) / (2 * half), S).tolist(),
        "z": spread((result.estimate[S] - target) / result.std_error[S], S).tolist(),
        "reported": reported.astype(float).tolist(),
        "down_weighted": float((weights < 1 - 1e-9).mean()),
    }


def isotropic(cell: Cell, folder: Path) -> Array:
    """Length of an interval with isotropic noise in the public box and exactly known matrices, over the sandwich's."""
    data, full = load(cell.design, folder), whole(cell.design, folder)
    p = expit(-data.labels * (data.x @ full.coef))
    inverse = np.linalg.inv((data.x * (p * (1 - p))[:, None]).T @ data.x + RIDGE * np.eye(data.x.shape[1]))
    noise = 2 * 1.03 / (ISOTROPIC_SHARE * cell.rho) * data.box.norm2 * inverse @ inverse
    return np.asarray(np.sqrt(1 + np.diag(noise) / np.diag(full.covariance)))
