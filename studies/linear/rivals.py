"""Least squares from noisy sufficient statistics, on the samples that the package is measured on.

| rival       | what it is                                                                                       |
| ----------- | ------------------------------------------------------------------------------------------------ |
| SSP counted | one Gaussian release of all second moments of (x, y) in the public box (Dwork et al. 2014;       |
|             | Sheffet 2017); the interval counts its noise by the delta method                                 |
| SSP range   | the same after the package's own private range of the outcome: more than was published           |
| AdaSSP      | Wang 2018 in its zCDP form: a ridge as large as the noise asks for; the noise counts, not a bias |
| SSP naive   | SSP with the textbook interval, as if the moments were exact                                     |
| no noise    | least squares with the sandwich HC0, not private                                                 |

Replace-one neighbours.  Rows are x = (1, x~) with ‖x‖² <= R², outcomes y in [-1, 1], both by public
bounds.  A rival fails where its matrix is not positive definite.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpinfer.adjacency import Adjacency
from dpinfer.fit.noiseless import least_squares
from dpinfer.inference.ranges import narrowed
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.sums import Block, square
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.bins import OUTCOME_ZOOMS, inner_edges
from dpinfer.privacy.budget import ZCDP
from studies.asked import Z95
from studies.linear.cell import Cell, whole
from studies.linear.designs import load

_RANGE_SHARE = 0.02  # of the budget, for the range: as in the package
_RIDGE_FAILS = 0.05  # the chance that AdaSSP's ridge is too small
_LEAST = 1e-4  # of the residual variance of a scaled outcome

Answer = tuple[Array, Array]
"""Coefficients of (1, x~), and their standard errors."""


@dataclass(frozen=True, eq=False)
class Task:
    """Records x = (1, x~) and y, the bound R² of ‖x‖², a zCDP budget, and noise."""

    x: Array
    y: Array
    norm2: float
    rho: float
    rng: np.random.Generator

    @property
    def n(self) -> int:
        """Public."""
        return len(self.y)

    def symmetric(self, d: int, scale: float) -> Array:
        """A matrix that hides one of Frobenius sensitivity ``scale`` sqrt(2 rho): Gaussian,
        diagonal sqrt 2 wider.
        """
        noise = self.rng.normal(scale=scale / 2, size=(d, d))
        return np.asarray(noise + noise.T)


def counted(task: Task) -> Answer | None:
    """SSP with its noise in the interval."""
    return _ssp(task, 1.0)


def naive(task: Task) -> Answer | None:
    """SSP with the textbook interval."""
    return _ssp(task, 0.0)


def _ssp(task: Task, counts: float) -> Answer | None:
    """z = (x, y) has ‖z‖² <= R² + 1, so that sum z zᵀ moves by at most sqrt 2 (R² + 1)."""
    d = task.x.shape[1]
    scale = np.sqrt(2) * (task.norm2 + 1) / np.sqrt(2 * task.rho)
    S = square(np.column_stack([task.x, task.y]), 1.0) + task.symmetric(d + 1, scale)
    S[0, 0] = task.n
    H, g = S[:d, :d], S[:d, d]
    if np.linalg.eigvalsh(H)[0] <= 0:
        return None
    coef = np.asarray(np.linalg.solve(H, g), dtype=np.float64)
    variance = max(float(S[d, d] - g @ coef) / task.n, _LEAST)
    return coef, _errors(
        H, variance * H + counts * (_noise(coef, scale) + scale**2 / 2 * np.eye(d))
    )


def _noise(coef: Array, scale: float) -> Array:
    """The covariance of E b for symmetric noise E."""
    return np.asarray(scale**2 / 2 * (coef @ coef * np.eye(len(coef)) + np.outer(coef, coef)))


def _errors(H: Array, V: Array) -> Array:
    inverse = np.linalg.inv(H)
    return np.asarray(np.sqrt(np.maximum(np.diag(inverse @ V @ inverse), 0.0)))


def ranged(task: Task) -> Answer | None:
    """SSP after three histograms that narrow the range of the outcome."""
    low = -1.0
    high = 1.0
    part = _RANGE_SHARE * task.rho
    noise = np.sqrt(2) / np.sqrt(2 * part / OUTCOME_ZOOMS)
    for _ in range(OUTCOME_ZOOMS):
        counts = histogram(inner_edges(low, high), Adjacency.REPLACE).of_block(
            Block(task.x, task.y)
        )
        low, high = narrowed(
            counts + task.rng.normal(scale=noise, size=len(counts)), low, high, task.n, noise
        )
    middle, half = (low + high) / 2, (high - low) / 2
    inside = np.clip((task.y - middle) / half, -1.0, 1.0)
    found = counted(Task(task.x, inside, task.norm2, task.rho - part, task.rng))
    return (
        None
        if found is None
        else (half * found[0] + middle * np.eye(len(found[0]))[0], half * found[1])
    )


def adaptive(task: Task) -> Answer | None:
    """AdaSSP: a quarter of the budget each for the smallest eigenvalue, xxᵀ, xy, and y² for the
    residual variance.

    These move by at most R², sqrt 2 R², 2R and 1.  The ridge is the size of the noise, less a lower
    bound of the smallest eigenvalue.
    """
    d = task.x.shape[1]
    unit = 1 / np.sqrt(2 * task.rho / 4)
    in_matrix, in_score = np.sqrt(2) * task.norm2 * unit, 2 * np.sqrt(task.norm2) * unit
    exact = square(task.x, 1.0)
    off = task.norm2 * unit
    least = max(float(np.linalg.eigvalsh(exact)[0] + task.rng.normal(scale=off) - 2 * off), 0.0)
    ridge = max(0.0, in_matrix / np.sqrt(2) * np.sqrt(d * np.log(2 * d**2 / _RIDGE_FAILS)) - least)
    H = exact + task.symmetric(d, in_matrix)
    g = task.y @ task.x + task.rng.normal(scale=in_score, size=d)
    total = task.y @ task.y + task.rng.normal(scale=unit)
    raised = H + ridge * np.eye(d)
    if np.linalg.eigvalsh(raised)[0] <= 0:
        return None
    coef = np.linalg.solve(raised, g)
    variance = float(np.clip((total - 2 * g @ coef + coef @ H @ coef) / task.n, _LEAST, 1.0))
    return coef, _errors(raised, variance * H + in_score**2 * np.eye(d) + _noise(coef, in_matrix))


def exact(task: Task) -> Answer | None:
    """Least squares without noise."""
    found = least_squares(task.x, task.y)
    return found.coef, np.sqrt(np.diag(found.covariance))


RIVALS: dict[str, Callable[[Task], Answer | None]] = {
    "SSP counted": counted,
    "SSP range": ranged,
    "AdaSSP": adaptive,
    "SSP naive": naive,
    "no noise": exact,
}


def contest(cell: Cell, folder: Path, index: int) -> dict[str, Any]:
    """Slopes of all rivals on one sample: whether they cover those of the population, and lengths
    over its own.
    """
    with threadpool_limits(1, "blas"):
        data = load(cell.design, folder)
        block = data.sample(index)
        population = whole(cell.design, folder).asked
        x = block.rows * np.sqrt(data.design.norm2)
        norm2 = data.design.norm2
        cost = cell.plan.cost
        assert isinstance(cost, ZCDP)
        rho = cost.rho
        slopes = np.arange(1, x.shape[1])
        own = np.sqrt(np.diag(population.covariance))[slopes]
        found: dict[str, Any] = {}
        for number, (name, answer) in enumerate(RIVALS.items()):
            said = answer(
                Task(x, block.labels, norm2, rho, np.random.default_rng([index, 11, number]))
            )
            coef, error = (np.full(x.shape[1], np.nan),) * 2 if said is None else said
            off = np.abs(coef - population.coef)[slopes]
            covered = np.where(np.isfinite(off), off <= Z95 * error[slopes], np.nan)
            found[name] = {"covered": covered.tolist(), "ratio": (error[slopes] / own).tolist()}
        return found
