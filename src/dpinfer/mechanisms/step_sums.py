"""Links between a predictor and the mean of an outcome, and what a record adds to a step at a line.

| symbol | meaning                                                             | name in code  |
| ------ | ------------------------------------------------------------------- | ------------- |
| t, η   | a released line of (1, x), and the predictor x·t                    | `Line.coef`   |
| h, h'  | the mean of the outcome at η, and its slope, a function of h        | `mean`, `slope` |
| m      | the farthest an outcome can be from its mean; none if it has no end | `farthest`    |
| A, u   | a released matrix, and the row A x                                  | `Line.matrix` |
| B      | the largest influence ‖u‖ m of an outcome on the score              | `Line.most`   |
| w      | min(1, 1/(h'‖u‖²), B/(‖u‖ m)): what a record counts                 |               |
| g, H   | score Σ w (y - h) u and curvature Σ w h' u uᵀ                       |               |
| b      | the clip: influences w‖u‖(y - h) are pulled into [-b, b]            | `clip`        |
| a_H²…  | squared weights of curvature and score covariance in the stack      | `Stack`       |

A step a of the coefficients of u moves the score to g - H a - R, where R = Σ w (h(η + z) - h(η) -
h'(η) z) u with z = u·a.  R has no outcome in it; for the identity it is 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.summation_error import Reach, rest_error, step_error
from dpinfer.mechanisms.sums import (
    LARGEST,
    Block,
    BoundedSum,
    shrunk,
    square,
    squared_norms,
    weighted_sum,
)
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array, svec, unsvec
from dpinfer.numerics.links import FARTHEST, Family

_TINY = np.finfo(float).tiny
# influence that a clip is divided by: of a shorter row the squares underflow, and so would the clip
_LEAST = 1e-150


def row_weights(family: Family, rows: Array, predictor: Array, most: float) -> Array:
    """Return the weights w of rows u with their predictors."""
    mean = family.mean(predictor)
    return _row_weights(family, squared_norms(rows), mean, most, rows.shape[-1])


def _row_weights(family: Family, length2: Array, mean: Array, most: float, dim: int) -> Array:
    """Return w, a little smaller where rounding asks for it: w h'‖u‖² <= 1 in real numbers."""
    limit = shrunk(dim + 4)
    by_length = limit / np.maximum(limit, family.slope(mean) * length2)
    if family.farthest is None:
        return np.asarray(by_length)
    influence = np.sqrt(length2) * family.farthest(mean)
    return np.minimum(by_length, most / np.maximum(influence, _TINY))


@dataclass(frozen=True, eq=False)
class Linked:
    """Rows of a block at a line: u, w and y - h as a `Block`, with ‖u‖, the predictor and h' of
    each row.
    """

    block: Block
    length: Array
    predictor: Array
    slope: Array

    @property
    def influence(self) -> Array:
        """w‖u‖, without a row's share of its unit."""
        return np.asarray(self.block.weights / self.block.shares * self.length)


@dataclass(frozen=True, eq=False)
class Line:
    """A released line and its geometry, for rows (1, x~).

    Columns are clipped to [``low``, ``high``] first, -1 and 1 where nothing is clipped.
    """

    family: Family
    matrix: Array
    coef: Array
    most: float
    low: Array
    high: Array

    @property
    def clipped(self) -> npt.NDArray[np.bool_]:
        """Which columns are clipped."""
        return np.asarray((self.low > -1.0) | (self.high < 1.0))

    def linked(self, block: Block, norm2: float, neighbours: Neighbours) -> Linked:
        """The rows of a block at the line: see `link`."""
        return self.link(norm2, neighbours)(block)

    def link(
        self, norm2: float, neighbours: Neighbours, error: float = math.inf
    ) -> Callable[[Block], Linked]:
        """What makes the rows of a block those at the line; its own rows are (1, x~)/sqrt ``norm2``,
        and ``error`` is that of `Block.product`.

        Guarantee [linked_rows]: w h'‖u‖² <= 1 in real numbers whatever line, matrix and clip are; a
        zero row stays one; and the numbers of a row depend on that row alone, where its place may
        differ between neighbours, but for what ``error`` counts.
        """
        whole = self.whole(norm2)
        if not (np.abs(whole).max(initial=0.0) < LARGEST and self.most > 0):
            raise PrivacyError(
                "a released line is too large for floats: nothing can be released around it"
            )
        family = self.family

        def of_block(block: Block) -> Linked:
            rows = self._inside(block.rows)
            mapped = block.product(rows, whole, neighbours, error)
            u = mapped[..., :-1]
            predictor = mapped[..., -1]
            if not family.exact:
                predictor = np.clip(predictor, -FARTHEST, FARTHEST)
            length2 = squared_norms(u)
            mean = family.mean(predictor)
            weights = _row_weights(family, length2, mean, self.most, u.shape[-1])
            gap = family.outcome(block.labels) - mean
            seen = Block(u, gap, block.shares * weights, block.shares, block.starts, block.fixed)
            return Linked(seen, np.sqrt(length2), predictor, family.slope(mean))

        return of_block

    @np.errstate(all="ignore")
    def whole(self, norm2: float) -> Array:
        """The matrix and the line below it, for rows (1, x~)/sqrt ``norm2``."""
        return np.asarray(np.vstack([self.matrix, self.coef]) * math.sqrt(norm2))

    @np.errstate(all="ignore")  # numbers too large for floats are refused by `link`
    def reach(self, norm2: float, farther: float = 0.0) -> Reach:
        """What rows can come to at the line, or at most ``farther`` from it along the predictor."""
        whole = self.whole(norm2)
        length = float(np.linalg.norm(whole[-1]))
        farthest = length if self.family.exact else min(length, FARTHEST)
        mean = self.family.mean(np.array([-1.0, 0.0, 1.0]) * (farthest + farther))
        return Reach(
            mean=float(np.abs(mean).max()),
            slope=float(self.family.slope(mean).max()),
            matrix=float(np.linalg.norm(whole[:-1])),
        )

    def _inside(self, rows: Array) -> Array:
        """Rows with some columns clipped, element by element; a zero row stays one."""
        places = np.flatnonzero(self.clipped)
        if not len(places):
            return rows
        first = rows[..., :1]
        found = rows.copy()
        found[..., places] = np.clip(
            rows[..., places], first * self.low[places], first * self.high[places]
        )
        return found


@dataclass(frozen=True)
class Stack:
    """The squared weights a_H², a_S² of the two matrices beside the score, for a notion of
    neighbours.
    """

    curvature: float
    score: float
    neighbours: Neighbours

    @classmethod
    def of(cls, neighbours: Neighbours) -> "Stack":
        """Where one record is replaced the score moves most, and there the matrices do not move at
        all.
        """
        return cls(0.5, 0.45, neighbours) if neighbours.counted else cls(0.25, 0.15, neighbours)

    @property
    def bound(self) -> float:
        """The most that a score of norm 1 and the two matrices move together.

        With c the cosine of the two rows the square is at most 2 + 2c + a_S²(2 - 2c²) + a_H² max(2
        - 2c², 1), if a_S² is at most 1/2: 4 + a_H² at c = 1, or less at c = 1/(2(a_H² + a_S²)).
        """
        h = self.curvature
        s = self.score
        if s > 0.5:
            raise PrivacyError("the weight of the score covariance is at most 1/2 in this proof")
        if not self.neighbours.counted:
            return math.sqrt(1 + h + s)
        inner = min(math.sqrt(0.5), 1 / (2 * (h + s)))
        apart = 2 + 2 * inner + (h + s) * (2 - 2 * inner**2)
        return math.sqrt(max(4 + h, apart))

    def steer(self, released: Array, dim: int, clip: float) -> tuple[Array, Array]:
        """Score and curvature, in units of the outcome, from the release."""
        m = dim * (dim + 1) // 2
        curvature = unsvec(released[dim : dim + m], dim) / math.sqrt(self.curvature)
        return clip * released[:dim], curvature

    def split(self, released: Array, dim: int, clip: float) -> tuple[Array, Array, Array]:
        """Score, curvature and score covariance, in units of the outcome, from the release."""
        score, curvature = self.steer(released, dim, clip)
        m = dim * (dim + 1) // 2
        return score, curvature, clip**2 * unsvec(released[dim + m :], dim) / math.sqrt(self.score)


def step_sums(
    line: Line,
    clip: float,
    stack: Stack,
    norm2: float,
    *,
    robust: bool = False,
    covariance: bool = True,
) -> BoundedSum:
    """Score, curvature and score covariance at a line as one vector, influences w‖u‖|y - h| clipped
    to b.

    That is sum w ψ u/b, a_H sum w h' u uᵀ and, with ``covariance``, a_S sum w² ψ² u uᵀ/b²; ψ is y -
    h pulled into ± b/(w‖u‖).  With ``robust`` the curvature counts the records inside the band
    alone.

    Guarantee [clipped_stack_sensitivity]: between neighbours it moves by at most the bound of the
    stack: a record adds ±γ e, m e eᵀ and γ² e eᵀ with e = u/‖u‖ and γ, m in [0, 1].  A unit adds a
    mean s of such scores, one of such curvatures, and s sᵀ: the squared change is convex in both,
    so a single row is the worst.
    """
    if not 1 / LARGEST < clip < LARGEST:
        raise PrivacyError(
            "a released clip is too large for floats: nothing can be released around it"
        )
    a_h = math.sqrt(stack.curvature)
    a_s = math.sqrt(stack.score)
    # a band has an end at which the curvature jumps
    error = math.inf if robust else step_error(line.whole(norm2), line.reach(norm2), clip)
    link = line.link(norm2, stack.neighbours, error)

    def of_block(block: Block) -> Array:
        at = link(block)
        gap, u = at.block.labels, at.block.rows
        most = clip * shrunk(u.shape[-1]) / np.maximum(at.influence, _LEAST)
        pulled = at.block.weights * np.clip(gap, -most, most) / clip
        counted = at.block.weights * at.slope
        if robust:
            counted = np.where(np.abs(gap) < most, counted, 0.0)
        parts = [weighted_sum(pulled, u), a_h * svec(square(u, counted))]
        if covariance:
            parts.append(a_s * svec(at.block.outer(pulled)))
        return np.concatenate(parts, axis=-1)

    return BoundedSum(of_block, stack.bound)


def rest_sum(
    line: Line, step: Array, clip: float, norm2: float, neighbours: Neighbours
) -> BoundedSum:
    """R of a released step of the coefficients of u, over the clip; what a record adds is pulled
    into it.

    Guarantee [rest_sensitivity]: a record adds a vector of norm at most 1, so between neighbours
    the sum moves by at most 2 (replace) or 1 (add-remove); a unit adds a mean of such vectors.
    """
    if not (np.abs(step).max(initial=0.0) < LARGEST and 1 / LARGEST < clip < LARGEST):
        raise PrivacyError(
            "a released step or clip is too large for floats: nothing can be released around it"
        )
    size = float(np.linalg.norm(step))
    reach = line.reach(norm2)
    reach = line.reach(norm2, min(size * reach.matrix, 2 * FARTHEST))
    link = line.link(norm2, neighbours, rest_error(line.whole(norm2), reach, size, clip))

    def of_block(block: Block) -> Array:
        at = link(block)
        u = at.block.rows
        z = np.clip(np.einsum("...ij,j->...i", u, step), -2 * FARTHEST, 2 * FARTHEST)
        most = clip * shrunk(u.shape[-1]) / np.maximum(at.influence, _LEAST)
        moved = np.clip(line.family.left(at.predictor, z), -most, most)
        return weighted_sum(at.block.weights * moved / clip, u)

    return BoundedSum(of_block, rest_bound(neighbours))


def rest_bound(neighbours: Neighbours) -> float:
    """How far `rest_sum` moves."""
    return neighbours.pick(2.0, 1.0)
