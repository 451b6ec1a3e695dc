"""Links between a linear predictor and the mean of an outcome, and what one record adds to a step at a released line.

| symbol | meaning                                                             | name in code  |
| ------ | ------------------------------------------------------------------- | ------------- |
| t, η   | a released line of (1, x), and the predictor x·t                    | `Line.coef`   |
| h      | the mean of the outcome at η; |h''| <= h'                           | `mean`        |
| m      | the farthest an outcome can be from its mean; infinite if unbounded | `farthest`    |
| A      | a released matrix: the geometry                                     | `Line.matrix` |
| v, r   | sqrt(h') A x and (y - h)/sqrt(h'): score v r, curvature v vᵀ        |               |
| B      | the largest influence ‖A x‖ m of an outcome on the score            | `Line.most`   |
| w      | min(1, 1/‖v‖², B/(‖A x‖ m)): what a record counts                   |               |

A step a moves the score from Σ w v r to Σ w v r - H a - R, where R = Σ w v (h(η + z) - h(η) - h'(η) z)/sqrt(h') with
z = x·a.  R has no outcome in it; for the identity it is 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from dpinfer.errors import PrivacyError
from dpinfer.maths.arrays import Array
from dpinfer.maths.rounding import shrunk
from dpinfer.maths.squares import Stack, clipped_sums
from dpinfer.maths.sums import LARGEST, Block, BoundedSum, row_weights
from dpinfer.neighbours import Neighbours

_FARTHEST = 30.0  # of a linear predictor: beyond, a probability is as good as 0 or 1
_TINY = np.finfo(float).tiny

OfPredictor = Callable[[Array], Array]


def _mean(eta: Array) -> Array:
    return np.asarray(expit(eta))


def _slope(eta: Array) -> Array:
    return np.asarray(expit(eta) * expit(-eta))


def _rarer(eta: Array) -> Array:
    return np.asarray(expit(np.abs(eta)))


def _same(eta: Array) -> Array:
    return eta


def _unbounded(eta: Array) -> Array:
    return np.full_like(eta, np.inf)


@dataclass(frozen=True)
class Family:
    """A canonical link: ``mean`` and ``slope`` of the outcome at a predictor, and how far it can be from its mean.

    ``exact`` says that a step leaves nothing.  ``low`` and ``high`` are what the labels -1 and +1 stand for.
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

    def weights(self, mapped: Array, predictor: Array, most: float) -> Array:
        """w of rows A x with their predictors."""
        eta = np.clip(predictor, -_FARTHEST, _FARTHEST) if not self.exact else predictor
        root = np.sqrt(self.slope(eta))
        by_length = row_weights(mapped * root[:, None])
        if self.exact:
            return by_length
        influence = np.sqrt(np.einsum("ij,ij->i", mapped, mapped)) * self.farthest(eta)
        return np.minimum(by_length, most / np.maximum(influence, _TINY))

    def left(self, eta: Array, z: Array) -> Array:
        """What a step z of the predictor leaves: h(η + z) - h(η) - h'(η) z."""
        return np.asarray(self.mean(eta + z) - self.mean(eta) - self.slope(eta) * z)


IDENTITY = Family("identity", _same, np.ones_like, _unbounded, exact=True, low=-1.0, high=1.0)
LOGIT = Family("logit", _mean, _slope, _rarer, exact=False, low=0.0, high=1.0)
FAMILIES = {family.name: family for family in (IDENTITY, LOGIT)}


@dataclass(frozen=True, eq=False)
class Linked:
    """Rows of a block at a line: v, r and w as a `Block`, with the predictor and sqrt(h') of each row."""

    block: Block
    predictor: Array
    root: Array


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

    def _inside(self, rows: Array) -> Array:
        """Rows with some columns clipped, element by element; a zero row stays one."""
        places = np.flatnonzero(self.clipped)
        if not len(places):
            return rows
        first = rows[:, :1]
        found = rows.copy()
        found[:, places] = np.clip(rows[:, places], first * self.low[places], first * self.high[places])
        return found

    def linked(self, block: Block, norm2: float, neighbours: Neighbours) -> Linked:
        """The rows of a block at the line; its own rows are (1, x~)/sqrt ``norm2``.

        Guarantee [linked_rows]: w‖v‖² <= 1 in real numbers whatever line, matrix and clip are; a zero row stays one;
        and the numbers of a row depend on that row alone, where its place may differ between neighbours.
        """
        whole = np.vstack([self.matrix, self.coef]) * np.sqrt(norm2)
        if not np.abs(whole).max(initial=0.0) < LARGEST:
            raise PrivacyError("a released line is too large for floats: nothing can be released around it")
        rows = self._inside(block.rows)
        # a matrix product rounds a row by its place in the block: see `Block.mapped`
        placed = neighbours.in_place and block.fixed
        mapped = rows @ whole.T if placed else np.einsum("ij,kj->ik", rows, whole)
        predictor = mapped[:, -1] if self.family.exact else np.clip(mapped[:, -1], -_FARTHEST, _FARTHEST)
        root = np.sqrt(self.family.slope(predictor))
        weights = self.family.weights(mapped[:, :-1], predictor, self.most)
        residual = (self.family.outcome(block.labels) - self.family.mean(predictor)) / root
        v = mapped[:, :-1] * root[:, None]
        seen = Block(v, residual, block.shares * weights, block.shares, block.starts, block.fixed)
        return Linked(seen, predictor, root)


def step_sums(stack: Stack, dim: int, clip: float, *, robust: bool = False) -> BoundedSum:
    """Score, curvature and score covariance of rows at a line (`Line.linked`), influences clipped: `clipped_sums`."""
    return clipped_sums(np.zeros(dim), clip, stack, robust=robust)


def rest_sum(line: Line, step: Array, clip: float, norm2: float, neighbours: Neighbours) -> BoundedSum:
    """R of a released step of the coefficients in v, over the clip; what a record adds is pulled into it.

    Guarantee [rest_sensitivity]: a record adds a vector of norm at most 1, so between neighbours the sum moves by at
    most 2 (replace) or 1 (add-remove); a unit adds a mean of such vectors.
    """
    if not (np.abs(step).max(initial=0.0) < LARGEST and 1 / LARGEST < clip < LARGEST):
        raise PrivacyError("a released step or clip is too large for floats: nothing can be released around it")

    def of_block(block: Block) -> Array:
        at = line.linked(block, norm2, neighbours)
        rows = at.block.rows
        z = np.clip(np.einsum("ij,j->i", rows, step) / at.root, -2 * _FARTHEST, 2 * _FARTHEST)
        moved = line.family.left(at.predictor, z) / at.root
        influence = at.block.weights / at.block.shares * np.sqrt(np.einsum("ij,ij->i", rows, rows))
        most = clip * shrunk(rows.shape[1]) / np.maximum(influence, _TINY)
        return np.asarray((at.block.weights * np.clip(moved, -most, most) / clip) @ rows)

    return BoundedSum(of_block, neighbours.pick(2.0, 1.0))
