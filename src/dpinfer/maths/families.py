"""Links between a linear predictor and the mean of an outcome, and what one record adds to a step
at a released line.

| symbol | meaning                                                             | name in code  |
| ------ | ------------------------------------------------------------------- | ------------- |
| t, η   | a released line of (1, x), and the predictor x·t                    | `Line.coef`   |
| h, h'  | the mean of the outcome at η, and its slope; |h''| <= h'            | `mean`, `slope` |
| m      | the farthest an outcome can be from its mean; infinite if unbounded | `farthest`    |
| A, u   | a released matrix, and the row A x                                  | `Line.matrix` |
| B      | the largest influence ‖u‖ m of an outcome on the score              | `Line.most`   |
| w      | min(1, 1/(h'‖u‖²), B/(‖u‖ m)): what a record counts                 |               |
| g, H   | score Σ w (y - h) u and curvature Σ w h' u uᵀ                       |               |

A step a of the coefficients of u moves the score to g - H a - R, where R = Σ w (h(η + z) - h(η) -
h'(η) z) u with z = u·a.  R has no outcome in it; for the identity it is 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpinfer.errors import PrivacyError
from dpinfer.maths.arrays import Array, svec
from dpinfer.maths.squares import Stack
from dpinfer.maths.sums import LARGEST, Block, BoundedSum, shrunk, square
from dpinfer.neighbours import Neighbours

_FARTHEST = 30.0  # of a linear predictor: beyond, a probability is as good as 0 or 1
_TINY = np.finfo(float).tiny
# influence that a clip is divided by: of a shorter row the squares underflow, and so would the clip
_LEAST = 1e-150

OfPredictor = Callable[[Array], Array]


def _mean(eta: Array) -> Array:
    return np.asarray(expit(eta))


def _slope(eta: Array) -> Array:
    p = expit(eta)
    return np.asarray(p * (1 - p))


def _rarer(eta: Array) -> Array:
    return np.asarray(expit(np.abs(eta)))


def _same(eta: Array) -> Array:
    return eta


def _unbounded(eta: Array) -> Array:
    return np.full_like(eta, np.inf)


@dataclass(frozen=True)
class Family:
    """A canonical link: ``mean`` and ``slope`` of the outcome at a predictor, and how far it can be
    from its mean.

    ``exact`` says that a step leaves nothing.  ``low`` and ``high`` are what the labels -1 and +1
    stand for.
    """

    name: str
    mean: OfPredictor
    slope: OfPredictor
    farthest: OfPredictor
    exact: bool
    low: float
    high: float

    def outcome(self, labels: Array) -> Array:
        """The outcome of a label or of a scaled outcome."""
        return np.asarray((self.low + self.high) / 2 + (self.high - self.low) / 2 * labels)

    def weights(self, rows: Array, predictor: Array, most: float) -> Array:
        """w of rows u with their predictors."""
        length2 = np.einsum("ij,ij->i", rows, rows)
        return self._weights(length2, self.slope(predictor), predictor, most, rows.shape[1])

    def _weights(
        self, length2: Array, slope: Array, predictor: Array, most: float, dim: int
    ) -> Array:
        """A little less where rounding asks for it: w h'‖u‖² <= 1 in real numbers."""
        limit = shrunk(dim + 4)
        by_length = limit / np.maximum(limit, slope * length2)
        if self.exact:
            return np.asarray(by_length)
        influence = np.sqrt(length2) * self.farthest(predictor)
        return np.minimum(by_length, most / np.maximum(influence, _TINY))

    def left(self, eta: Array, z: Array) -> Array:
        """What a step z of the predictor leaves: h(η + z) - h(η) - h'(η) z."""
        return np.asarray(self.mean(eta + z) - self.mean(eta) - self.slope(eta) * z)


IDENTITY = Family("identity", _same, np.ones_like, _unbounded, exact=True, low=-1.0, high=1.0)
LOGIT = Family("logit", _mean, _slope, _rarer, exact=False, low=0.0, high=1.0)
FAMILIES = {family.name: family for family in (IDENTITY, LOGIT)}


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
        """The rows of a block at the line; its own rows are (1, x~)/sqrt ``norm2``.

        Guarantee [linked_rows]: w h'‖u‖² <= 1 in real numbers whatever line, matrix and clip are; a
        zero row stays one; and the numbers of a row depend on that row alone, where its place may
        differ between neighbours.
        """
        whole = np.vstack([self.matrix, self.coef]) * math.sqrt(norm2)
        if not (np.abs(whole).max(initial=0.0) < LARGEST and self.most > 0):
            raise PrivacyError(
                "a released line is too large for floats: nothing can be released around it"
            )
        rows = self._inside(block.rows)
        # a matrix product rounds a row by its place in the block: see `Block.mapped`
        placed = neighbours.in_place and block.fixed
        mapped = rows @ whole.T if placed else np.einsum("ij,kj->ik", rows, whole)
        u = mapped[:, :-1]
        predictor = (
            mapped[:, -1] if self.family.exact else np.clip(mapped[:, -1], -_FARTHEST, _FARTHEST)
        )
        length2 = np.einsum("ij,ij->i", u, u)
        slope = self.family.slope(predictor)
        weights = self.family._weights(length2, slope, predictor, self.most, u.shape[1])
        gap = self.family.outcome(block.labels) - self.family.mean(predictor)
        seen = Block(u, gap, block.shares * weights, block.shares, block.starts, block.fixed)
        return Linked(seen, np.sqrt(length2), predictor, slope)

    def _inside(self, rows: Array) -> Array:
        """Rows with some columns clipped, element by element; a zero row stays one."""
        places = np.flatnonzero(self.clipped)
        if not len(places):
            return rows
        first = rows[:, :1]
        found = rows.copy()
        found[:, places] = np.clip(
            rows[:, places], first * self.low[places], first * self.high[places]
        )
        return found


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
    a_h, a_s = math.sqrt(stack.curvature), math.sqrt(stack.score)

    def of_block(block: Block) -> Array:
        at = line.linked(block, norm2, stack.neighbours)
        gap, u = at.block.labels, at.block.rows
        most = clip * shrunk(u.shape[1]) / np.maximum(at.influence, _LEAST)
        pulled = at.block.weights * np.clip(gap, -most, most) / clip
        counted = at.block.weights * at.slope
        if robust:
            counted = np.where(np.abs(gap) < most, counted, 0.0)
        parts = [pulled @ u, a_h * svec(square(u, counted))]
        if covariance:
            parts.append(a_s * svec(at.block.outer(pulled)))
        return np.concatenate(parts)

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

    def of_block(block: Block) -> Array:
        at = line.linked(block, norm2, neighbours)
        u = at.block.rows
        z = np.clip(np.einsum("ij,j->i", u, step), -2 * _FARTHEST, 2 * _FARTHEST)
        most = clip * shrunk(u.shape[1]) / np.maximum(at.influence, _LEAST)
        moved = np.clip(line.family.left(at.predictor, z), -most, most)
        return np.asarray((at.block.weights * moved / clip) @ u)

    return BoundedSum(of_block, rest_bound(neighbours))


def rest_bound(neighbours: Neighbours) -> float:
    """How far `rest_sum` moves."""
    return neighbours.pick(2.0, 1.0)
