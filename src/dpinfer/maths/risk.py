"""The penalised empirical risk of the paper, and every constant its privacy rests on.

| symbol | meaning                                                         | name in code       |
| ------ | --------------------------------------------------------------- | ------------------ |
| c      | penalty of the mean objective, c ‖θ‖²                           | `penalty`          |
| λ      | 2 n c, penalty of the sum objective, λ/2 ‖θ‖²                   | `ridge`            |
| θ      | coefficients                                                    | `coef`             |
| t, L   | curvature and slope bounds of the loss                          | `curvature_bound`… |
| ε'     | ε - log(1 + t/λ), what Algorithm 1 has left for its noise       | `left`             |

Scale: sums over records, never means.  Neighbours: one record replaced, n public.
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.maths.arrays import Array
from dpinfer.maths.bounded import BoundedSum, OfBlock
from dpinfer.maths.check import check_loss
from dpinfer.maths.losses import (
    Logistic,
    Loss,
    SmoothedQuantile,
    line,
    reach,
    slope_and_curvature,
    slope_kind,
    slope_within,
)
from dpinfer.maths.perturbation import PerturbedObjective, largest_curvature_ratio, perturbed_objective_scale
from dpinfer.maths.symmetric import svec


@dataclass(frozen=True)
class PenalisedRisk:
    """sum_i f(z_i) + λ/2 ‖θ‖² over n records with ‖x_i‖ <= 1, z_i = y_i θ·x_i or y_i - θ·x_i as the loss says."""

    loss: Loss
    penalty: float
    n: int

    def __post_init__(self) -> None:
        check_loss(self.loss)
        if not (isinstance(self.penalty, int | float | np.number) and 0 <= self.penalty < np.inf):
            raise InputError(f"penalty must be a finite number >= 0, not {self.penalty!r}")
        if self.n < 1:
            raise InputError("there are no records: n must be at least 1")

    @property
    def ridge(self) -> float:
        """λ = 2 n c."""
        return 2 * self.n * self.penalty

    def totals(self, coef: Array) -> OfBlock:
        """Value, gradient and Hessian of the loss at ``coef``, one flat array of 1 + d + d² sums.

        Exact and private: for the minimiser behind the gate only.
        """

        def of_block(rows: Array, labels: Array) -> Array:
            sign, _ = line(self.loss, labels)
            z = self._z(coef, rows, labels)
            slope, curvature = slope_and_curvature(self.loss, z)
            gradient = (sign * slope) @ rows
            hessian = _weighted_square(rows, curvature)
            return np.concatenate([[self.loss.value(z).sum()], gradient, hessian.ravel()])

        return of_block

    def curvature_sum(self, coef: Array) -> BoundedSum:
        """sum f'' x xᵀ, the data part of n H.

        Guarantee [curvature_sensitivity]: replacing one record moves it by at most 2t in Frobenius norm.
        """

        largest = self.loss.curvature_bound

        def of_block(rows: Array, labels: Array) -> Array:
            curvature = self.loss.curvature(self._z(coef, rows, labels))
            return _weighted_square(rows, np.clip(curvature, 0.0, largest))

        return BoundedSum(of_block, 2 * largest)

    def score_sum(self, coef: Array) -> BoundedSum:
        """sum f'² x xᵀ, the data part of n Σ.

        Guarantee [score_sensitivity]: replacing one record moves it by at most 2 sup f'², the supremum over
        margins up to ‖coef‖, or residuals up to ‖coef‖ + 1: 2 S(‖coef‖)² for the logistic loss, at the released
        coefficients.
        """

        largest = slope_within(self.loss, reach(self.loss, coef))

        def of_block(rows: Array, labels: Array) -> Array:
            slope = self.loss.slope(self._z(coef, rows, labels))
            return _weighted_square(rows, np.clip(slope, -largest, largest) ** 2)

        return BoundedSum(of_block, 2 * largest**2)

    @property
    def stack_weight(self) -> float:
        """w = L²/t: the weight at which curvature and squared slope reach the same bound."""
        return float(self.loss.slope_bound**2 / self.loss.curvature_bound)

    def stacked_sum(self, coef: Array) -> BoundedSum:
        """svec of w sum f'' x xᵀ and of sum f'² x xᵀ, as one vector.

        Guarantee [stacked_sensitivity]: replacing one record moves it by at most sqrt 2 sup sqrt(w² f''² + f'⁴), as
        both blocks of a record are non-negative multiples of the same x xᵀ.  The supremum is at most sqrt 2 L², and
        1.0356 L² for the logistic loss and the smoothed quantile, whose slope and curvature peak apart: for the price
        of one matrix, two.
        """
        w, curvature, slope = self.stack_weight, self.curvature_sum(coef), self.score_sum(coef)

        def of_block(rows: Array, labels: Array) -> Array:
            return self.stack(curvature.of_block(rows, labels), slope.of_block(rows, labels))

        apart = type(self.loss) in (Logistic, SmoothedQuantile)
        both = np.hypot(w * self.loss.curvature_bound, slope.bound / 2)
        largest = 1.0356 * self.loss.slope_bound**2 if apart else both
        return BoundedSum(of_block, float(np.sqrt(2) * largest))

    def stack(self, curvature: Array, score: Array) -> Array:
        """One vector of the two sums, or a stack of such vectors."""
        return np.concatenate([svec(self.stack_weight * curvature), svec(score)], axis=-1)

    def minimiser_sensitivity(self) -> float:
        """Algorithm 4.

        Guarantee [minimiser_sensitivity]: replacing one record moves the minimiser by at most L/(nc).
        """
        if self.penalty == 0:
            raise BudgetError("output perturbation needs a penalty above 0: its sensitivity is 1/(n penalty)")
        return self.loss.slope_bound / (self.n * self.penalty)

    def perturbation_rate(self, epsilon: float, *, sharp: bool = False) -> float:
        """Algorithm 1: the rate ε'/(2L) of the spherical Laplace vector b.

        With ``sharp``, the logistic loss keeps all of ε where ncε >= 1: steep records have no curvature, and there the
        density ratio is largest without any.

        Guarantee [objective_perturbation]: argmin of the risk plus b·θ is ε-differentially private.
        """
        if sharp and type(self.loss) is Logistic and self.n * self.penalty * epsilon >= 1:
            return epsilon / 2
        left = epsilon - np.log1p(self.loss.curvature_bound / self.ridge) if self.ridge > 0 else 0.0
        if not left > 0:
            raise BudgetError(
                f"penalty {self.penalty:.6g} is too small for objective perturbation at epsilon = {epsilon:.6g} "
                f"with n = {self.n}: it must exceed {self.smallest_penalty(epsilon):.6g}; "
                "raise the penalty or the budget"
            )
        return float(left / (2 * self.loss.slope_bound))

    def perturbation_scale(self, rho: float) -> float:
        """The scale of a Gaussian b that makes objective perturbation cost ρ in zCDP."""
        t, L, kind = self.loss.curvature_bound, self.loss.slope_bound, slope_kind(self.loss)
        scale = perturbed_objective_scale(rho, t / self.ridge, kind) if self.ridge > 0 else np.inf
        if not np.isfinite(scale):
            smallest = t / (2 * self.n * largest_curvature_ratio(rho, kind))
            raise BudgetError(
                f"penalty {self.penalty:.6g} is too small for Gaussian objective perturbation at rho = {rho:.6g} with "
                f"n = {self.n}: it must exceed {smallest:.6g}; raise the penalty or the budget"
            )
        return float(L * scale)

    def perturbed(self, scale: float) -> PerturbedObjective:
        """Objective perturbation with Gaussian noise of this scale, as its cost sees it."""
        ratio = self.loss.curvature_bound / self.ridge
        return PerturbedObjective(scale / self.loss.slope_bound, ratio, slope_kind(self.loss))

    def _z(self, coef: Array, rows: Array, labels: Array) -> Array:
        """The margins or residuals of a block."""
        sign, offset = line(self.loss, labels)
        return np.asarray(offset + sign * (rows @ coef))

    def smallest_penalty(self, epsilon: float) -> float:
        """t/(2n(e^ε - 1)): the penalty must exceed it, or nothing is left of ε."""
        return float(self.loss.curvature_bound * np.exp(-epsilon) / (-2 * self.n * np.expm1(-epsilon)))


def _weighted_square(rows: Array, weights: Array) -> Array:
    """sum_i w_i x_i x_iᵀ for weights >= 0, as one symmetric rank-k product."""
    scaled = rows * np.sqrt(weights)[:, None]
    return scaled.T @ scaled
