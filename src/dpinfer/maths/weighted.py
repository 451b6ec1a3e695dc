"""Sums over weighted rows, each with its bound, and the weighted logistic risk with a ridge around a released point.

A row u = A x counts with the weight w = min(1, 1/‖u‖²), so w‖u‖² <= 1 and w‖u‖ <= 1 for every record, whatever A is.
Neighbours: "replace" (one record replaced, n public) or "add-remove" (one record added or removed, n private).

| symbol | meaning                                    | name in code |
| ------ | ------------------------------------------ | ------------ |
| u      | row in the geometry of the fit             | `rows`       |
| λ, tc  | ridge λ/2 ‖t - tc‖²                        | `ridge`, `centre` |
| σ      | scale of the Gaussian b in the objective   |              |
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.bounded import BoundedSum, OfBlock
from dpinfer.maths.losses import Logistic, slope_and_curvature
from dpinfer.maths.perturbation import PerturbedObjective, perturbed_objective_scale
from dpinfer.maths.symmetric import svec, unsvec

REPLACE, ADD_REMOVE = "replace", "add-remove"
STACK_WEIGHT = 4.0
"""The curvature's weight beside the squared slope: both then reach 1."""


def check_neighbours(neighbours: str) -> None:
    """One of the two notions."""
    if neighbours not in (REPLACE, ADD_REMOVE):
        raise InputError(f"neighbours must be 'replace' or 'add-remove', not {neighbours!r}")


def row_weights(rows: Array) -> Array:
    """min(1, 1/‖u‖²)."""
    return np.asarray(1 / np.maximum(1.0, np.einsum("ij,ij->i", rows, rows)))


def second_moment(neighbours: str) -> BoundedSum:
    """svec of sum x xᵀ over rows in the unit ball.

    Guarantee [moment_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1 (add-remove), as
    ‖x xᵀ - z zᵀ‖² = ‖x‖⁴ + ‖z‖⁴ - 2(x·z)².
    """

    def of_block(rows: Array, labels: Array) -> Array:  # noqa: ARG001  (one signature for all sums)
        return svec(rows.T @ rows)

    return BoundedSum(of_block, math.sqrt(2) if neighbours == REPLACE else 1.0)


def weighted_moment_and_score(neighbours: str) -> BoundedSum:
    """svec of sum w u uᵀ, and sum w y u/2, the score at 0, as one vector.

    Guarantee [moment_and_score_sensitivity]: between neighbours it moves by at most sqrt(2 + 1/2 + 1/32) (replace):
    with c the cosine of the two rows the squares are at most max(2 - 2c², 1) and (1 + c)/2, whose sum is largest at
    c = 1/8; and by at most sqrt(1 + 1/4) (add-remove).
    """

    def of_block(rows: Array, labels: Array) -> Array:
        w = row_weights(rows)
        return np.concatenate([svec((rows * w[:, None]).T @ rows), (w * labels / 2) @ rows])

    return BoundedSum(of_block, math.sqrt(2 + 1 / 2 + 1 / 32) if neighbours == REPLACE else math.sqrt(1 + 1 / 4))


def perturbed(scale: float, ridge: float, neighbours: str) -> PerturbedObjective:
    """Objective perturbation with weighted losses, as its cost sees it.

    The gradient of w f has norm at most |f'| and its Hessian at most f'', and both enter the bounds monotonely.  An
    added or removed record moves the gradient by 1 instead of 2: the same release with twice the noise.
    """
    twice = scale if neighbours == REPLACE else 2 * scale
    return PerturbedObjective(twice, Logistic.curvature_bound / ridge, "logistic")


@lru_cache(maxsize=1024)
def ridge_for(rho: float) -> float:
    """The s at which objective perturbation with σ = λ = s costs ρ: noise and ridge chosen together."""
    low, high = math.sqrt(2 / rho), 2 * math.sqrt(2 / rho) + 1
    while perturbed(high, high, REPLACE).cost() > rho:
        high *= 2
    while high > low * (1 + 1e-11):
        middle = (low + high) / 2
        low, high = (low, middle) if perturbed(middle, middle, REPLACE).cost() <= rho else (middle, high)
    return high


@dataclass(frozen=True, eq=False)
class WeightedRisk:
    """sum w f(y u·t) + λ/2 ‖t - tc‖² for the logistic f, as a function of the step t - tc.

    ``n`` is the number of records where it is public, else a released one.
    """

    ridge: float
    centre: Array
    n: float
    neighbours: str = REPLACE
    loss = Logistic()

    def totals(self, step: Array) -> OfBlock:
        """Value, gradient and Hessian of the loss at tc + step, one flat array.

        Exact and private: for the minimiser behind the gate only.
        """
        coef = self.centre + step

        def of_block(rows: Array, labels: Array) -> Array:
            w, margins = row_weights(rows), labels * (rows @ coef)
            slope, curvature = slope_and_curvature(self.loss, margins)
            hessian = (rows * (w * curvature)[:, None]).T @ rows
            return np.concatenate([[w @ self.loss.value(margins)], (w * labels * slope) @ rows, hessian.ravel()])

        return of_block

    def perturbation_scale(self, rho: float) -> float:
        """The scale of a Gaussian b that makes objective perturbation cost ρ in zCDP.

        Guarantee [weighted_objective_perturbation]: argmin of the risk plus b·t costs ρ: in t - tc it is objective
        perturbation with losses w f, whose gradients have norm at most 1 and whose Hessians at most f''.  An added or
        removed record moves the gradient by 1 instead of 2, which halves σ.
        """
        scale = perturbed_objective_scale(rho, self.loss.curvature_bound / self.ridge, "logistic")
        if not math.isfinite(scale):
            raise BudgetError(f"no noise makes objective perturbation cost rho = {rho:.6g} with so small a ridge")
        return scale if self.neighbours == REPLACE else scale / 2

    def stacked_sum(self, coef: Array) -> BoundedSum:
        """svec of 4 sum w f'' u uᵀ and of sum w² f'² u uᵀ at ``coef``, as one vector.

        Guarantee [weighted_stack_sensitivity]: between neighbours it moves by at most sqrt 2 · 1.0356 (replace) or
        1.0356 (add-remove): both blocks of a record are non-negative multiples of one u uᵀ, and
        max (4v(1-v))² + v⁴ < 1.0356².
        """

        def of_block(rows: Array, labels: Array) -> Array:
            w = row_weights(rows)
            slope, curvature = slope_and_curvature(self.loss, labels * (rows @ coef))
            hessian = (rows * (STACK_WEIGHT * w * curvature)[:, None]).T @ rows
            scaled = rows * (w * slope)[:, None]
            return np.concatenate([svec(hessian), svec(scaled.T @ scaled)])

        return BoundedSum(of_block, 1.0356 * (math.sqrt(2) if self.neighbours == REPLACE else 1.0))


def unstack(stacked: Array, dim: int) -> tuple[Array, Array]:
    """The curvature and the score covariance of a stacked vector."""
    half = len(stacked) // 2
    return unsvec(stacked[:half], dim) / STACK_WEIGHT, unsvec(stacked[half:], dim)
