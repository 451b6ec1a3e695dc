"""The empirical risk with a ridge, and every constant its privacy rests on.

| symbol | meaning                                                         | name in code       |
| ------ | --------------------------------------------------------------- | ------------------ |
| c      | penalty of the mean objective, c ‖θ‖²                           | `penalty`          |
| λ      | 2 n c, penalty of the sum objective, λ/2 ‖θ‖²                   | `ridge`            |
| θ      | coefficients                                                    | `coef`             |
| w      | weight of a row: 1, or its share of a unit                      | `block.weights`    |
| t, L   | curvature and slope bounds of the loss                          | `curvature_bound`… |
| ε'     | ε - log(1 + t/λ), what Algorithm 1 has left for its noise       | `left`             |

Scale: sums over records, never means.
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError
from dpinfer.mechanisms.losses import (
    Logistic,
    Loss,
    SmoothedQuantile,
    check_loss,
    reach,
    sign_and_offset,
    slope_and_curvature,
    slope_kind,
    slope_within,
)
from dpinfer.mechanisms.privacy_cost import (
    OF_UNITS,
    PerturbedObjective,
    largest_curvature_ratio,
    perturbed_objective_scale,
)
from dpinfer.mechanisms.sums import (
    BLOCK,
    DEFAULT_MAX_RECORDS,
    SLACK,
    UNIT,
    Block,
    BoundedSum,
    OfBlock,
    in_floats,
    square,
    weighted_sum,
)
from dpinfer.numerics.arrays import Array, svec, unsvec
from dpinfer.numerics.reasons import Numerical

_STACKS: Numerical[dict[type, float]] = {Logistic: 1.0356, SmoothedQuantile: 1.0356}
"""Losses whose slope and curvature peak apart: a bound of sqrt(v² f''² + f'⁴)/L² with v = L²/t."""


@dataclass(frozen=True, eq=False)
class Risk:
    """sum_i w_i f(z_i) + λ/2 ‖θ‖², z_i = y_i θ·x_i or y_i - θ·x_i as the loss says.

    Rows lie in the unit ball.  ``n`` is the number of records or units where it is public, else a
    released one.  ``records`` is how many rows there are at most, a public number.

    As a query it asks for the minimum.  Output perturbation adds noise to it; objective perturbation
    adds b·θ to the risk, and its privacy rests on the density of the minimum, not on a sensitivity.

    Input
    -----
    rows x of norm at most 1, labels y, shares a; a public ridge λ > 0, a loss with slope at most L; for
    objective perturbation a random vector b

    Output
    ------
    d numbers

    Sensitivity
    -----------
    replace, add-remove, replace-unit, add-remove-unit : 2*L/ridge
    of the minimum without b

    Pseudo-code
    -----------
    F(coef) = ridge/2 ‖coef‖^2 + b·coef    (b = 0 for output perturbation)
    for each row i:
        z = y_i coef·x_i, or y_i - coef·x_i for a loss of the residual
        F(coef) += a_i f(z)
    coef = the minimiser of F, by a search that ends where the gradient is at most a public tolerance
    return coef, drawn back to the public reach    (the gate adds noise, or a mask of the error)

    Proof
    -----
    docs/method.md, 1 and 2; units: 8.2; tests/audit/test_sensitivity.py and
    tests/audit/test_density_ratio.py
    """

    loss: Loss
    ridge: float
    n: float
    neighbours: Adjacency = Adjacency.REPLACE
    records: int = DEFAULT_MAX_RECORDS

    @classmethod
    def penalised(
        cls,
        loss: Loss,
        penalty: float,
        n: int,
        neighbours: Adjacency = Adjacency.REPLACE,
        records: int = DEFAULT_MAX_RECORDS,
    ) -> "Risk":
        """The risk of the paper: λ = 2 n c around 0, n the number of records or units."""
        check_loss(loss)
        if not (isinstance(penalty, int | float | np.number) and 0 <= penalty < np.inf):
            raise InputError(f"penalty must be a finite number >= 0, not {penalty!r}")
        if n < 1:
            raise InputError("there are no records: n must be at least 1")
        return cls(loss, 2 * n * penalty, n, neighbours, records)

    @property
    def penalty(self) -> float:
        """c = λ/(2n)."""
        return float(self.ridge / (2 * self.n))

    def totals(self, coef: Array, *, value: bool = True) -> OfBlock:
        """Value, if asked for, gradient and Hessian of the loss, one flat array of 1 + d + d² sums.

        Exact and private: for the minimiser behind the gate only.
        """

        def of_block(block: Block) -> Array:
            sign, _ = sign_and_offset(self.loss, block.labels)
            z = self._z(coef, block)
            slope, curvature = slope_and_curvature(self.loss, z)
            gradient = weighted_sum(block.weights * sign * slope, block.rows)
            hessian = square(block.rows, block.weights * curvature)
            level = np.zeros(block.stack)
            if value:
                level = np.sum(block.weights * self.loss.value(z), axis=-1)
            flat = hessian.reshape(*block.stack, -1)
            return np.concatenate([level[..., None], gradient, flat], axis=-1)

        return of_block

    def gradient_total(self, coef: Array) -> OfBlock:
        """The gradient of the loss; exact and private too."""

        def of_block(block: Block) -> Array:
            sign, _ = sign_and_offset(self.loss, block.labels)
            slope = self.loss.slope(self._z(coef, block))
            return weighted_sum(block.weights * sign * slope, block.rows)

        return of_block

    def curvature_sum(self, coef: Array) -> BoundedSum:
        """sum w f'' x xᵀ, the data part of n H.

        Guarantee [curvature_sensitivity]: replacing one record moves it by at most 2t in Frobenius
        norm.

        Input
        -----
        rows x of norm at most 1, labels y, shares a; released coefficients

        Output
        ------
        d × d numbers

        Sensitivity
        -----------
        replace, add-remove, replace-unit, add-remove-unit : 2*t
        with t the bound of the curvature of the loss

        Pseudo-code
        -----------
        H = 0
        for each row i:
            z = y_i coef·x_i, or y_i - coef·x_i for a loss of the residual
            H += a_i clip(f''(z), 0, t) x_i x_i^T
        return H

        Proof
        -----
        docs/method.md, 3; units: 8.1; tests/audit/test_sensitivity.py
        """

        def of_block(block: Block) -> Array:
            return self._bent(block, self.loss.curvature(self._z(coef, block)))

        return BoundedSum(of_block, self.curvature_sum_bound)

    @property
    def curvature_sum_bound(self) -> float:
        """Return the sensitivity of `curvature_sum`, at any coefficients."""
        return in_floats(float(2 * self.loss.curvature_bound), self.records)

    def score_sum(self, coef: Array) -> BoundedSum:
        """sum w² f'² x xᵀ, or over units sum s sᵀ, s the sum of w f' y x over the rows of one; the
        data part of n Σ.

        Guarantee [score_sensitivity]: replacing one record moves it by at most 2 sup f'².  For rows
        in the unit ball the supremum is over margins up to ‖coef‖, or residuals up to ‖coef‖ + 1: 2
        S(‖coef‖)² for the logistic loss, at the released coefficients.

        Input
        -----
        rows x of norm at most 1, labels y, shares a of rows, by unit; released coefficients

        Output
        ------
        d × d numbers

        Sensitivity
        -----------
        replace, add-remove, replace-unit, add-remove-unit : 2*s**2
        with s the largest |f'(z)| at these coefficients

        Pseudo-code
        -----------
        C = 0
        for each unit:
            v = 0
            for each row i of it:
                z as in `curvature_sum`
                v += a_i clip(f'(z), -s, s) y_i x_i    (-x_i for a loss of the residual)
            C += v v^T
        return C

        Proof
        -----
        docs/method.md, 3; units: 8.1; tests/audit/test_sensitivity.py
        """
        largest = self._steepest(coef)

        def of_block(block: Block) -> Array:
            return self._steep(block, self.loss.slope(self._z(coef, block)), largest)

        return BoundedSum(of_block, in_floats(2 * largest**2, self.records))

    def _bent(self, block: Block, curvature: Array) -> Array:
        bounded = np.clip(curvature, 0.0, self.loss.curvature_bound)
        return square(block.rows, block.weights * bounded)

    def _steep(self, block: Block, slope: Array, largest: float) -> Array:
        sign, _ = sign_and_offset(self.loss, block.labels)
        return block.outer(np.asarray(block.weights * sign * np.clip(slope, -largest, largest)))

    def _steepest(self, coef: Array) -> float:
        return slope_within(self.loss, reach(self.loss, coef))

    @property
    def stack_weight(self) -> float:
        """v = L²/t: the weight at which the curvature reaches the bound of the squared slope."""
        return float(self.loss.slope_bound**2 / self.loss.curvature_bound)

    def stacked_sum(self, coef: Array) -> BoundedSum:
        """svec of v sum w f'' x xᵀ and of sum w² f'² x xᵀ, as one vector.

        Guarantee [stacked_sensitivity]: replacing one record moves it by at most sqrt 2 sup sqrt(v²
        f''² + f'⁴), adding or removing one by the supremum, as both blocks of a record are
        non-negative multiples of the same x xᵀ.  The supremum is at most sqrt 2 L², and where slope
        and curvature peak apart 1.0356 L² (logistic loss, smoothed quantile): for the price of one
        matrix, two.

        Input
        -----
        rows x of norm at most 1, labels y, shares a of rows, by unit; released coefficients

        Output
        ------
        d(d + 1) numbers

        Sensitivity
        -----------
        replace, replace-unit : sqrt(2)*m
        add-remove, add-remove-unit : m
        with m the largest sqrt(v² f''² + f'⁴), v = L²/t

        Pseudo-code
        -----------
        H = `curvature_sum`
        C = `score_sum`
        return v svec(H), svec(C)

        Proof
        -----
        docs/method.md, 3.1; units: 8.1; tests/audit/test_sensitivity.py
        """
        steepest = self._steepest(coef)

        def of_block(block: Block) -> Array:
            slope, curvature = slope_and_curvature(self.loss, self._z(coef, block))
            return self.stack(self._bent(block, curvature), self._steep(block, slope, steepest))

        return BoundedSum(of_block, self.stacked_sum_bound(steepest))

    def stacked_sum_bound(self, steepest: float) -> float:
        """Return the sensitivity of `stacked_sum` where no slope exceeds ``steepest``."""
        apart = _STACKS.get(type(self.loss))
        if apart is None:
            largest = np.hypot(self.stack_weight * self.loss.curvature_bound, steepest**2)
        else:
            largest = apart * self.loss.slope_bound**2
        bound = float(self.neighbours.pick(np.sqrt(2), 1.0) * largest)
        return in_floats(bound, self.records)

    @property
    def stacked_sum_bound_anywhere(self) -> float:
        """Return the sensitivity of `stacked_sum`, at any coefficients."""
        return self.stacked_sum_bound(float(self.loss.slope_bound))

    @property
    def stacked_sum_bound_is_fixed(self) -> bool:
        """Return whether that is the sensitivity at all coefficients, not only at large ones."""
        return type(self.loss) in _STACKS or not hasattr(self.loss, "slope_within")

    def stack(self, curvature: Array, score: Array) -> Array:
        """One vector of the two sums, or a stack of such vectors."""
        return np.concatenate([svec(self.stack_weight * curvature), svec(score)], axis=-1)

    def unstack(self, stacked: Array, dim: int) -> tuple[Array, Array]:
        """The inverse of `stack`."""
        half = stacked.shape[-1] // 2
        curvature = unsvec(stacked[..., :half], dim)
        score = unsvec(stacked[..., half:], dim)
        return curvature / self.stack_weight, score

    def minimiser_sensitivity(self) -> float:
        """Algorithm 4.

        Guarantee [minimiser_sensitivity]: replacing one record moves the minimiser by at most
        L/(nc).
        """
        if self.ridge == 0:
            raise BudgetError(
                "output perturbation needs a penalty above 0: its sensitivity is 1/(n penalty)"
            )
        return 2 * self.loss.slope_bound / self.ridge

    def curvature_is_free(self, epsilon: float) -> bool:
        """Return whether the curvature adds nothing to the cost at ε: for the logistic loss where ncε >= 1."""
        return type(self.loss) is Logistic and self.n * self.penalty * epsilon >= 1

    def perturbation_rate(self, epsilon: float, *, sharp: bool = False) -> float:
        """Algorithm 1: the rate ε'/(2L) of the spherical Laplace vector b.

        With ``sharp``, the logistic loss keeps all of ε where ncε >= 1: steep records have no
        curvature, and there the density ratio is largest without any.

        Guarantee [objective_perturbation]: argmin of the risk plus b·θ is ε-differentially private.
        """
        if sharp and self.curvature_is_free(epsilon):
            return epsilon / 2
        left = epsilon - self.kappa if self.ridge > 0 else 0.0
        if not left > 0:
            raise BudgetError(
                f"penalty {self.penalty:.6g} is too small for objective perturbation at epsilon = {epsilon:.6g} "
                f"with n = {self.n}: it must exceed {self.smallest_penalty(epsilon):.6g}; "
                "raise the penalty or the budget"
            )
        return float(left / (2 * self.loss.slope_bound))

    @property
    def shape(self) -> str:
        """Return what the cost of objective perturbation may use of the loss, and whether neighbours differ
        in a unit.
        """
        return slope_kind(self.loss) + (OF_UNITS if self.neighbours.units else "")

    @property
    def kappa(self) -> float:
        """The most the logarithm of the determinant of the Hessian moves: log(1 + t/λ), and t/λ for
        a unit.

        Guarantee [unit_objective_perturbation]: with it argmin of the risk plus b·θ costs its share
        where neighbours differ in a unit with any number of rows, for Gaussian and for spherical
        Laplace noise.
        """
        k = self.loss.curvature_bound / self.ridge
        return float(k if self.neighbours.units else np.log1p(k))

    def perturbation_scale(self, rho: float) -> float:
        """The scale of a Gaussian b that makes objective perturbation cost ρ in zCDP.

        An added or removed record moves the gradient by L instead of 2L, which halves σ.
        """
        t, L = self.loss.curvature_bound, self.loss.slope_bound
        scale = np.inf
        if self.ridge > 0:
            scale = perturbed_objective_scale(rho, t / self.ridge, self.shape)
        if not np.isfinite(scale):
            smallest = t / (2 * self.n * largest_curvature_ratio(rho, self.shape))
            raise BudgetError(
                f"penalty {self.penalty:.6g} is too small for Gaussian objective perturbation at rho = {rho:.6g} with "
                f"n = {self.n:.0f}: it must exceed {smallest:.6g}; raise the penalty or the budget"
            )
        return float(L * scale * self.neighbours.pick(1.0, 0.5))

    def perturbed(self, scale: float) -> PerturbedObjective:
        """Objective perturbation with Gaussian noise of this scale, as its cost sees it.

        One record added or removed is the same release as one replaced, with twice the noise.
        """
        relative = scale / self.loss.slope_bound * self.neighbours.pick(1.0, 2.0)
        k = self.loss.curvature_bound / self.ridge
        return PerturbedObjective(relative, k, self.shape)

    @property
    def reach(self) -> float:
        """A public radius; what lies beyond is drawn back to it before it is released."""
        if self.ridge == 0:
            return 2.0**10
        start = float(np.asarray(self.loss.value(np.array([0.0, 1.0, -1.0]))).max())
        return max(2.0**10, 4 * float(np.sqrt(start / self.penalty)))

    @property
    def tolerance(self) -> float:
        """The gradient norm that the search must reach, and can: a little per record, and the
        rounding of θ.
        """
        size = self.n * self.loss.curvature_bound + self.ridge
        return 1e-12 * self.n * self.loss.slope_bound + 4 * UNIT * size * self.reach

    def minimum_error(self, dim: int, b_error: float = 0.0) -> float:
        """e: how far the float minimum may be from the real one, from public facts.

        The gradient as it is coded errs by (B + 10) u L per record for its products and sums, by t (d
        + 4) u ‖θ‖ for the argument of the slope, by 4 u λ ‖θ‖ for the ridge, and by the error of b;
        the search leaves its tolerance.  The blocks and their addition add 2 N u L, and units
        longer than a block N u L more.  The objective is λ-strongly convex.

        Guarantee [float_minimum]: ‖θ - θ_exact‖ <= e, both drawn back to `reach`.
        """
        L, t = self.loss.slope_bound, self.loss.curvature_bound
        size = self.reach
        blocks = (3 if self.neighbours.units else 2) * UNIT * self.records * L
        records = self.n * ((BLOCK + 10) * UNIT * L + t * (dim + 4) * UNIT * size) + blocks
        gradient = self.tolerance + records + 4 * UNIT * self.ridge * size + b_error
        drawn_back = (dim + 4) * UNIT * size
        return gradient / self.ridge + drawn_back

    def accurate(self, dim: int) -> bool:
        """Return whether twice the error of the minimum is within the slack of output perturbation."""
        return 2 * self.minimum_error(dim) <= self.minimiser_sensitivity() * SLACK / 2

    def smallest_penalty(self, epsilon: float) -> float:
        """t/(2n(e^ε - 1)), or t/(2nε) for units: the penalty must exceed it, or nothing is left of
        ε.
        """
        if self.neighbours.units:
            return float(self.loss.curvature_bound / (2 * self.n * epsilon))
        shrunk = self.loss.curvature_bound * np.exp(-epsilon)  # e^ε itself may overflow
        return float(shrunk / (-2 * self.n * np.expm1(-epsilon)))

    def _z(self, coef: Array, block: Block) -> Array:
        """The margins or residuals of a block.

        A matrix product rounds the last rows of a block in another way, so that a record's number
        depends on its place.  Where others may lose theirs, as one is added or removed, they are
        taken row by row.
        """
        sign, offset = sign_and_offset(self.loss, block.labels)
        placed = self.neighbours.keeps_positions and block.fixed
        each = block.rows @ coef if placed else np.einsum("...ij,j->...i", block.rows, coef)
        return np.asarray(offset + sign * each)
