"""Sums of score, Hessian and remainder at released coefficients, with their sensitivities.

| symbol | meaning                                                                | name in code                  |
| ------ | ---------------------------------------------------------------------- | ----------------------------- |
| t, η   | released coefficients of (1, x~), and the linear predictor x·t         | `Linearization.coef`          |
| h, h'  | mean of the outcome at η, and its derivative, a function of h          | `Family.mean`, `Family.slope` |
| m      | largest |y - h| of an outcome; infinite for unbounded outcomes         | `Family.farthest`             |
| A, u   | released preconditioner, and the row A x                               | `Linearization.matrix`        |
| B      | largest influence ‖u‖ m of an outcome on the score                     | `Linearization.max_influence` |
| w      | weight of a row, min(1, 1/(h'‖u‖²), B/(‖u‖ m))                         | `row_weights`                 |
| g, H   | score Σ w (y - h) u and Hessian Σ w h' u uᵀ of the negative likelihood |                               |
| b      | clip: influences w‖u‖(y - h) are clipped to [-b, b]                    | `clip`                        |
| a_H²…  | squared weights of Hessian and score covariance in the stacked query   | `Stack`                       |

A step a of the coefficients of u changes the score to g - H a - R, with the remainder R = Σ w (h(η + z) -
h(η) - h'(η) z) u and z = u·a.  R does not depend on the outcome; under the identity link it is 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.summation_error import RowBounds, remainder_error, step_error
from dpinfer.mechanisms.sums import (
    LARGEST,
    Block,
    BoundedSum,
    shrunk,
    square,
    squared_norms,
    weighted_sum,
)
from dpinfer.numerics.arrays import Array, svec, unsvec
from dpinfer.numerics.links import FARTHEST, Family
from dpinfer.numerics.reasons import Constant, Numerical

_TINY = np.finfo(float).tiny
HESSIAN_WEIGHT = Constant(
    0.5,
    name="HESSIAN_WEIGHT",
    decides="the squared weight of the Hessian beside the score, in least squares and counts, records replaced",
    reason="a replaced record changes the score most where the matrices do not change at all, so that they cost little "
    "beside it",
    source="convention; the sensitivity is proved for every weight",
)
SCORE_COV_WEIGHT = Constant(
    0.45,
    name="SCORE_COV_WEIGHT",
    decides="the squared weight of the score covariance beside the score, in the same fits",
    reason="nearly as large as that of the Hessian, and below 1/2, up to which the sensitivity is proved",
    source="derivation of the bound; below it a convention",
)
HESSIAN_WEIGHT_ADD_REMOVE = Constant(
    0.25,
    name="HESSIAN_WEIGHT_ADD_REMOVE",
    decides="the squared weight of the Hessian, in least squares and counts where a record is added or removed",
    reason="a record that is added changes score and matrices at once, so that matrices cost more beside the score",
    source="convention; the sensitivity is proved for every weight",
)
SCORE_COV_WEIGHT_ADD_REMOVE = Constant(
    0.15,
    name="SCORE_COV_WEIGHT_ADD_REMOVE",
    decides="the squared weight of the score covariance, in the same fits",
    reason="smaller than that of the Hessian, as where records are replaced",
    source="convention; the sensitivity is proved up to 1/2",
)
UNIT_HESSIAN_WEIGHT = Constant(
    1.0,
    name="UNIT_HESSIAN_WEIGHT",
    decides="the squared weight of the Hessian beside the score where a unit is one record, units replaced",
    reason="the noise of the Hessian decides more of the error than that of the score where units are few: the noise "
    "of the score grows by a tenth against a weight of .5, that of the Hessian falls by a quarter",
    source="derivation of both; the sensitivity is proved for every weight",
)
UNIT_HESSIAN_WEIGHT_ADD_REMOVE = Constant(
    0.4,
    name="UNIT_HESSIAN_WEIGHT_ADD_REMOVE",
    decides="the squared weight of the Hessian in the same sums, where a unit is added or removed",
    reason="a unit that is added changes score and matrices at once, so that matrices cost more beside the score",
    source="convention; the sensitivity is proved for every weight",
)
# the smallest influence that a clip is divided by: the squares of a shorter row underflow
_MIN_INFLUENCE: Numerical[float] = 1e-150


def row_weights(family: Family, rows: Array, predictor: Array, max_influence: float) -> Array:
    """Return the weights w of rows u with their predictors."""
    mean = family.mean(predictor)
    return _row_weights(family, squared_norms(rows), mean, max_influence, rows.shape[-1])


def _row_weights(
    family: Family, length2: Array, mean: Array, max_influence: float, dim: int
) -> Array:
    """Return w, a little smaller where rounding asks for it: w h'‖u‖² <= 1 in real numbers."""
    limit = shrunk(dim + 4)
    by_length = limit / np.maximum(limit, family.slope(mean) * length2)
    if family.farthest is None:
        return np.asarray(by_length)
    influence = np.sqrt(length2) * family.farthest(mean)
    return np.minimum(by_length, max_influence / np.maximum(influence, _TINY))


@dataclass(frozen=True, eq=False)
class LinearizedBlock:
    """The rows of a block at a linearization: u, w and y - h as a `Block`, with ‖u‖, η and h'."""

    block: Block
    length: Array
    predictor: Array
    slope: Array

    @property
    def influence(self) -> Array:
        """Return w‖u‖, without a row's share of its unit."""
        return np.asarray(self.block.weights / self.block.shares * self.length)


@dataclass(frozen=True, eq=False)
class Linearization:
    """Released coefficients of (1, x~) and the preconditioner, at which scores are evaluated.

    x~ are the columns scaled by their public bounds.  Columns are clipped to [``low``, ``high``] first, -1
    and 1 where nothing is clipped.
    """

    family: Family
    matrix: Array
    coef: Array
    max_influence: float
    low: Array
    high: Array

    @property
    def clipped(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the clipped columns."""
        return np.asarray((self.low > -1.0) | (self.high < 1.0))

    def linked(self, block: Block, norm2: float, neighbours: Adjacency) -> LinearizedBlock:
        """Return the rows of a block at these coefficients: see `link`."""
        return self.link(norm2, neighbours)(block)

    def link(
        self, norm2: float, neighbours: Adjacency, error: float = math.inf
    ) -> Callable[[Block], LinearizedBlock]:
        """Return the function that evaluates the rows of a block at these coefficients.

        The rows of the block are (1, x~)/sqrt ``norm2``; ``error`` is that of `Block.product`.

        Guarantee [linked_rows]: w h'‖u‖² <= 1 in real numbers whatever coefficients, matrix and clip are; a
        zero row stays one; and the numbers of a row depend on that row alone, where its place may
        differ between neighbours, but for what ``error`` counts.
        """
        row_map = self.row_map(norm2)
        if not (np.abs(row_map).max(initial=0.0) < LARGEST and self.max_influence > 0):
            raise PrivacyError(
                "released coefficients are too large for floats: nothing can be released around them"
            )
        family = self.family

        def of_block(block: Block) -> LinearizedBlock:
            rows = self.inside(block.rows)
            mapped = block.product(rows, row_map, neighbours, error)
            u = mapped[..., :-1]
            predictor = mapped[..., -1]
            if not family.exact:
                predictor = np.clip(predictor, -FARTHEST, FARTHEST)
            length2 = squared_norms(u)
            mean = family.mean(predictor)
            weights = _row_weights(family, length2, mean, self.max_influence, u.shape[-1])
            gap = family.outcome(block.labels) - mean
            seen = Block(u, gap, block.shares * weights, block.shares, block.starts, block.fixed)
            return LinearizedBlock(seen, np.sqrt(length2), predictor, family.slope(mean))

        return of_block

    @np.errstate(all="ignore")
    def row_map(self, norm2: float) -> Array:
        """Return the matrix and the coefficients below it, for rows (1, x~)/sqrt ``norm2``."""
        return np.asarray(np.vstack([self.matrix, self.coef]) * math.sqrt(norm2))

    @np.errstate(all="ignore")  # numbers too large for floats are refused by `link`
    def row_bounds(self, norm2: float, farther: float = 0.0) -> RowBounds:
        """Return bounds of what rows can be here, or where η is at most ``farther`` away."""
        row_map = self.row_map(norm2)
        length = float(np.linalg.norm(row_map[-1]))
        farthest = length if self.family.exact else min(length, FARTHEST)
        mean = self.family.mean(np.array([-1.0, 0.0, 1.0]) * (farthest + farther))
        return RowBounds(
            mean=float(np.abs(mean).max()),
            slope=float(self.family.slope(mean).max()),
            matrix=float(np.linalg.norm(row_map[:-1])),
        )

    def inside(self, rows: Array) -> Array:
        """Return rows with columns clipped element by element; a zero row stays zero."""
        places = np.flatnonzero(self.clipped)
        if not len(places):
            return rows
        first = rows[..., 0]
        found = rows.copy()
        # in place and column by column: an index of columns would copy them twice
        for j in places:
            column = found[..., j]
            np.clip(column, first * self.low[j], first * self.high[j], out=column)
        return found


@dataclass(frozen=True)
class Stack:
    """The squared weights a_H², a_S² of Hessian and score covariance, stacked below the score."""

    hessian: float
    score_cov: float
    neighbours: Adjacency

    @classmethod
    def of(cls, neighbours: Adjacency) -> "Stack":
        """Return the weights of least squares and of counts.

        A replaced record changes the score most where the matrices do not change at all.
        """
        if neighbours.counted:
            return cls(HESSIAN_WEIGHT, SCORE_COV_WEIGHT, neighbours)
        return cls(HESSIAN_WEIGHT_ADD_REMOVE, SCORE_COV_WEIGHT_ADD_REMOVE, neighbours)

    @classmethod
    def of_units(cls, neighbours: Adjacency) -> "Stack":
        """Return the weights of sums in which a unit is one record."""
        if neighbours.counted:
            return cls(UNIT_HESSIAN_WEIGHT, SCORE_COV_WEIGHT, neighbours)
        return cls(UNIT_HESSIAN_WEIGHT_ADD_REMOVE, SCORE_COV_WEIGHT_ADD_REMOVE, neighbours)

    @property
    def unit_bound(self) -> float:
        """Return the sensitivity where score and Hessian are those of a unit, of norm 1 each.

        The Hessian of a unit is positive semidefinite, and need not point where its score does: the
        squares are 4 + 2 a_H² or 1 + a_H² + a_S², if a_S² is at most 1/2.
        """
        self._require_proved()
        if self.neighbours.counted:
            return math.sqrt(4 + 2 * self.hessian)
        return math.sqrt(1 + self.hessian + self.score_cov)

    def _require_proved(self) -> None:
        if self.score_cov > 0.5:
            raise PrivacyError("the weight of the score covariance is at most 1/2 in this proof")

    @property
    def bound(self) -> float:
        """Return the sensitivity of a score of norm 1 and the two matrices together.

        With c the cosine of the two rows the square is at most 2 + 2c + a_S²(2 - 2c²) + a_H² max(2
        - 2c², 1), if a_S² is at most 1/2: 4 + a_H² at c = 1, or less at c = 1/(2(a_H² + a_S²)).
        """
        h = self.hessian
        s = self.score_cov
        self._require_proved()
        if not self.neighbours.counted:
            return math.sqrt(1 + h + s)
        inner = min(math.sqrt(0.5), 1 / (2 * (h + s)))
        apart = 2 + 2 * inner + (h + s) * (2 - 2 * inner**2)
        return math.sqrt(max(4 + h, apart))

    def score_and_hessian(self, released: Array, dim: int, clip: float) -> tuple[Array, Array]:
        """Return score and Hessian, in units of the outcome, from the release."""
        m = dim * (dim + 1) // 2
        hessian = unsvec(released[dim : dim + m], dim) / math.sqrt(self.hessian)
        return clip * released[:dim], hessian

    def split(self, released: Array, dim: int, clip: float) -> tuple[Array, Array, Array]:
        """Return score, Hessian and score covariance, in units of the outcome, from the release."""
        score, hessian = self.score_and_hessian(released, dim, clip)
        m = dim * (dim + 1) // 2
        return (
            score,
            hessian,
            clip**2 * unsvec(released[dim + m :], dim) / math.sqrt(self.score_cov),
        )


def step_sums(
    linearization: Linearization,
    clip: float,
    stack: Stack,
    norm2: float,
    *,
    robust: bool = False,
    covariance: bool = True,
) -> BoundedSum:
    """Return the query of score, Hessian and score covariance, with influences clipped to b.

    Its sums are Σ w ψ u/b, a_H Σ w h' u uᵀ and, with ``covariance``, a_S Σ w² ψ² u uᵀ/b²; ψ is y - h
    clipped to ± b/(w‖u‖).  With ``robust`` the Hessian counts the unclipped records only.

    Guarantee [clipped_stack_sensitivity]: between neighbours it moves by at most the bound of the
    stack: a record adds ±γ e, m e eᵀ and γ² e eᵀ with e = u/‖u‖ and γ, m in [0, 1].  A unit adds a
    mean s of such scores, one of such Hessians, and s sᵀ: the squared change is convex in both,
    so a single row is the worst.

    Input
    -----
    rows x, clipped at released limits, outcomes y, shares a; released coefficients t, preconditioner A
    and clip b

    Output
    ------
    d + d(d + 1)/2 numbers, and d(d + 1)/2 more with ``covariance``

    Sensitivity
    -----------
    replace, replace-unit : sqrt(max(4 + h, 2 + 2*c + (h + s)*(2 - 2*c**2)))
    add-remove, add-remove-unit : sqrt(1 + h + s)
    with h = a_H², s = a_S² <= 1/2, c = min(sqrt(1/2), 1/(2(h + s)))

    Pseudo-code
    -----------
    g, H, C = 0, 0, 0
    for each unit, s = 0, for each row i of it:
        eta = t·x_i,  u = A x_i,  h = mean(eta),  h' = slope(eta),  m = largest |y - h|
        w = min(1, 1 / (h' ‖u‖^2), B / (‖u‖ m))
        r = clip(y_i - h, -b / (w ‖u‖), b / (w ‖u‖))
        g += a_i w r u / b;  s += a_i w r u / b
        H += a_i w h' u u^T    (robust: not where r was clipped)
        after its rows: C += s s^T
    return g, a_H svec(H), a_S svec(C)

    Proof
    -----
    docs/method.md, 6.2 and 6.3; units: 8.1; tests/audit/test_linear_sensitivity.py
    """
    if not 1 / LARGEST < clip < LARGEST:
        raise PrivacyError(
            "a released clip is too large for floats: nothing can be released around it"
        )
    a_h = math.sqrt(stack.hessian)
    a_s = math.sqrt(stack.score_cov)
    # a band has an end at which the curvature jumps
    error = (
        math.inf
        if robust
        else step_error(linearization.row_map(norm2), linearization.row_bounds(norm2), clip)
    )
    link = linearization.link(norm2, stack.neighbours, error)

    def of_block(block: Block) -> Array:
        at = link(block)
        gap, u = at.block.labels, at.block.rows
        most = clip * shrunk(u.shape[-1]) / np.maximum(at.influence, _MIN_INFLUENCE)
        pulled = at.block.weights * np.clip(gap, -most, most) / clip
        counted = at.block.weights * at.slope
        if robust:
            counted = np.where(np.abs(gap) < most, counted, 0.0)
        parts = [weighted_sum(pulled, u), a_h * svec(square(u, counted))]
        if covariance:
            parts.append(a_s * svec(at.block.outer(pulled)))
        return np.concatenate(parts, axis=-1)

    return BoundedSum(of_block, stack.bound)


def remainder_sum(
    linearization: Linearization, step: Array, clip: float, norm2: float, neighbours: Adjacency
) -> BoundedSum:
    """Return the query of R/clip for a released step; the norm of what a record adds is clipped.

    Guarantee [remainder_sensitivity]: a record adds a vector of norm at most 1, so between neighbours
    the sum moves by at most 2 (replace) or 1 (add-remove); a unit adds a mean of such vectors.

    Input
    -----
    rows x, clipped at released limits, shares a; released coefficients t, preconditioner A, step v and
    clip c

    Output
    ------
    d numbers

    Sensitivity
    -----------
    replace, replace-unit : 2
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    R = 0
    for each row i:
        eta, u, h, h', w as in `step_sums`;  z = clip(u·v, -60, 60)
        r = mean(eta + z) - h - h' z
        r = clip(r, -c / (w ‖u‖), c / (w ‖u‖))
        R += a_i w r u / c
    return R

    Proof
    -----
    docs/method.md, 6.4; units: 8.1; tests/audit/test_linked.py
    """
    if not (np.abs(step).max(initial=0.0) < LARGEST and 1 / LARGEST < clip < LARGEST):
        raise PrivacyError(
            "a released step or clip is too large for floats: nothing can be released around it"
        )
    size = float(np.linalg.norm(step))
    row_bounds = linearization.row_bounds(norm2)
    row_bounds = linearization.row_bounds(norm2, min(size * row_bounds.matrix, 2 * FARTHEST))
    link = linearization.link(
        norm2, neighbours, remainder_error(linearization.row_map(norm2), row_bounds, size, clip)
    )

    def of_block(block: Block) -> Array:
        at = link(block)
        u = at.block.rows
        z = np.clip(np.einsum("...ij,j->...i", u, step), -2 * FARTHEST, 2 * FARTHEST)
        most = clip * shrunk(u.shape[-1]) / np.maximum(at.influence, _MIN_INFLUENCE)
        moved = np.clip(linearization.family.left(at.predictor, z), -most, most)
        return weighted_sum(at.block.weights * moved / clip, u)

    return BoundedSum(of_block, remainder_bound(neighbours))


def remainder_bound(neighbours: Adjacency) -> float:
    """Return the sensitivity of `remainder_sum`."""
    return neighbours.pick(2.0, 1.0)
