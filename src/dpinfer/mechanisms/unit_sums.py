"""Sums in which one unit is one record: its score, Hessian and remainder are bounded as a whole.

Every row of a unit counts alike, however many there are.  A unit i has rows u_j = A x_j, and adds

| symbol | meaning                                                              | name in code          |
| ------ | -------------------------------------------------------------------- | --------------------- |
| c      | what one row counts: public, released, or a function of the unit     | `UnitRows.counts`     |
| s_i    | score of the unit, Σ_j c (y_j - h_j) u_j                             |                       |
| H_i    | Hessian of the unit, Σ_j c h'_j u_j u_jᵀ                             |                       |
| w_i    | weight of the unit, min(1, 1/‖H_i‖_F)                                | `UnitRows.weights`    |
| b      | clip: w_i s_i is pulled into the ball of this radius                 | `clip`                |
| g_i    | w_i s_i, pulled, over b                                              |                       |
| z_j    | change of the predictor of a row by a released step a, u_j·a         |                       |
| R_i    | remainder of the step, w_i Σ_j c (h(η_j + z_j) - h_j - h'_j z_j) u_j |                       |

The stacked query is Σ (g_i, a_H w_i H_i, a_S g_i g_iᵀ).  ‖H_i‖_F is the norm of the Gram matrix of the rows
√(c h'_j) u_j, or of the d x d matrix where a unit has more rows than columns.  The proofs are in docs/method.md,
section 8.5: they use nothing of how rows, residuals and slopes were made but that they are functions of the
unit's own rows, so that a fit may make them in any way.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms.histograms import counts_of, histogram_bound
from dpinfer.mechanisms.step_sums import Linearization, Stack, remainder_bound
from dpinfer.mechanisms.sums import LARGEST, Block, BoundedSum, shrunk, square
from dpinfer.numerics.arrays import Array, Indices, svec
from dpinfer.numerics.bins import UNIT_ROW_EDGES
from dpinfer.numerics.links import FARTHEST, Family
from dpinfer.numerics.reasons import Numerical

# numbers in one stack of Gram matrices, so that it stays in cache
_STACK: Numerical[int] = 2**18
# octaves of a histogram of influences, as in `dpinfer.mechanisms.histograms`
_OCTAVES: Numerical[int] = 13


@dataclass(frozen=True, eq=False)
class UnitRows:
    """The rows of some whole units at released coefficients, those of a unit together.

    ``starts`` has the position of the first row of each unit.  ``predictor``, ``gap`` and ``slope`` are η, y - h
    and h' of a row, and ``counts`` what it counts.
    """

    rows: Array
    predictor: Array
    gap: Array
    slope: Array
    counts: Array
    starts: Indices

    @cached_property
    def sizes(self) -> Indices:
        """Return the number of rows of each unit."""
        return np.diff(np.append(self.starts, len(self.rows)))

    def summed(self, values: Array) -> Array:
        """Return the sum of an array of row vectors over each unit."""
        if not len(self.starts):
            return np.zeros((0, *values.shape[1:]))
        return np.asarray(np.add.reduceat(values, self.starts, axis=0))

    def of_rows(self, by_unit: Array) -> Array:
        """Return one number per row, that of its unit."""
        return np.repeat(by_unit, self.sizes)

    @cached_property
    def hessian_norms(self) -> Array:
        """Return ‖H_i‖_F of each unit, from inner products that do not depend on the position of a unit."""
        roots = self.rows * np.sqrt(self.counts * self.slope)[:, None]
        found = np.empty(len(self.starts))
        for units, rows in self._stacks():
            group = roots[rows]
            long = group.shape[1] > group.shape[2]
            products = np.einsum("kid,kie->kde" if long else "kid,kjd->kij", group, group)
            found[units] = np.sqrt(np.einsum("kij,kij->k", products, products))
        # where a product overflows the weight is 0
        return np.where(np.isfinite(found), found, np.inf)

    @cached_property
    def weights(self) -> Array:
        """Return w of each unit, a little smaller where rounding asks for it.

        Guarantee [unit_hessian_norm]: ‖w H‖_F is at most 1 in real numbers, for any rows, slopes and numbers
        of rows of a unit.
        """
        # the inner products of n rows of d numbers err by (n + d + 8)u of the trace, which is at most √d ‖H‖_F,
        # and the sum of their squares, d² at most, by d² u of itself
        dim = self.rows.shape[1]
        limit = 1 - ((self.sizes + 4.0 * dim + 64) * math.sqrt(dim) + dim**2) * 2.0**-52
        return np.asarray(limit / np.maximum(limit, self.hessian_norms))

    def _stacks(self) -> Iterator[tuple[Indices, Indices]]:
        """Yield units with equally many rows, a few at a time, and the positions of their rows."""
        order = np.argsort(self.sizes, kind="stable")
        numbers, first, counts = np.unique(self.sizes[order], return_index=True, return_counts=True)
        for number, begin, count in zip(
            numbers.tolist(), first.tolist(), counts.tolist(), strict=True
        ):
            step = max(1, _STACK // max(number * max(number, self.rows.shape[1]), 1))
            for at in range(begin, begin + count, step):
                units = order[at : min(at + step, begin + count)]
                yield units, self.starts[units][:, None] + np.arange(number)

    @cached_property
    def scores(self) -> Array:
        """Return w_i s_i of each unit."""
        factors = self.of_rows(self.weights) * self.counts * self.gap
        return self.summed(self.rows * factors[:, None])


Linked = Callable[[Block], UnitRows]
"""From a block of whole units to their rows at released coefficients, a function of each unit alone."""


def linked_units(linearization: Linearization, count: float, norm2: float) -> Linked:
    """Return the function that evaluates the rows of whole units at released coefficients.

    A row counts ``count``; rows of the block are (1, x~)/sqrt ``norm2``.

    Guarantee [linked_units]: the numbers of a row depend on that row alone, and the order of the rows of a unit
    on nothing but these rows, wherever it stands.
    """
    row_map = linearization.row_map(norm2)
    if not np.abs(row_map).max(initial=0.0) < LARGEST:
        raise PrivacyError(
            "released coefficients are too large for floats: nothing can be released around them"
        )
    family = linearization.family

    def of_block(block: Block) -> UnitRows:
        block = in_own_order(block)
        rows = linearization.inside(block.rows)
        # row by row: a product of matrices would round a row by its position
        mapped = np.einsum("ij,kj->ik", rows, row_map)
        predictor = mapped[:, -1]
        if not family.exact:
            predictor = np.clip(predictor, -FARTHEST, FARTHEST)
        mean = family.mean(predictor)
        return UnitRows(
            mapped[:, :-1],
            predictor,
            family.outcome(block.labels) - mean,
            family.slope(mean),
            np.full(len(mean), count),
            starts_of(block),
        )

    return of_block


def starts_of(block: Block) -> Indices:
    """Return the positions of the first rows of units; a block without ids has none, and is refused."""
    if block.starts is None:
        raise PrivacyError("the rows of a unit must be together: these rows have no ids")
    return block.starts


def in_own_order(block: Block) -> Block:
    """Return a block whose rows within a unit have an order that depends on these rows alone.

    In memory and in files it is that of the table.  A cluster may place rows by what others hold, so that there
    the rows of a unit are sorted by their numbers: equal rows may change places.
    """
    starts = starts_of(block)
    if block.fixed or not len(starts):
        return block
    units = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(block))))
    order = np.lexsort((block.labels, *block.rows.T, units))
    weights, shares = (
        w if isinstance(w, float) else w[order] for w in (block.weights, block.shares)
    )
    return Block(
        block.rows[order], block.labels[order], weights, shares, starts, block.fixed, block.among
    )


def unit_stack(link: Linked, clip: float, stack: Stack, *, covariance: bool = True) -> BoundedSum:
    """Return the query of score, Hessian and score covariance of units, their scores pulled to norm b.

    Its sums are Σ g, a_H Σ w H and, with ``covariance``, a_S Σ g gᵀ; `Stack.split` takes them apart.

    Guarantee [unit_stack_sensitivity]: between neighbours it moves by at most sqrt(4 + 2 a_H²) (replace) or
    sqrt(1 + a_H² + a_S²) (add-remove), whatever the rows of a unit are: it adds (g, a_H P, a_S g gᵀ) with ‖g‖ <= 1
    and P positive semidefinite, ‖P‖_F <= 1.

    Input
    -----
    whole units: rows u, residuals r = y - h, slopes h' >= 0 and counts c >= 0 of their rows, each a function
    of that unit and of released numbers; a released clip b.  Shares and weights of rows are not used

    Output
    ------
    d + d(d + 1)/2 numbers, and d(d + 1)/2 more with ``covariance``

    Sensitivity
    -----------
    replace, replace-unit : sqrt(4 + 2*h)
    add-remove, add-remove-unit : sqrt(1 + h + s)
    with h = a_H², s = a_S² <= 1/2

    Pseudo-code
    -----------
    G, H, C = 0, 0, 0
    for each unit with rows j:
        w = min(1, 1 / ‖sum_j c_j h'_j u_j u_j^T‖_F)
        g = w (sum_j c_j r_j u_j) / b
        g = g / max(1, ‖g‖)
        G += g;  C += g g^T
        H += w sum_j c_j h'_j u_j u_j^T
    return G, a_H svec(H), a_S svec(C)

    Proof
    -----
    docs/method.md, 8.5; tests/audit/test_unit_sums.py
    """
    _require_clip(clip)
    a_h = math.sqrt(stack.hessian)
    a_s = math.sqrt(stack.score_cov)

    def of_block(block: Block) -> Array:
        at = link(block)
        pulled = _pulled(at.scores, clip)
        counted = at.of_rows(at.weights) * at.counts * at.slope
        parts = [pulled.sum(axis=0), a_h * svec(square(at.rows, counted))]
        if covariance:
            parts.append(a_s * svec(pulled.T @ pulled))
        return np.concatenate(parts)

    return BoundedSum(of_block, stack.unit_bound)


def unit_remainder(
    link: Linked, family: Family, step: Array, clip: float, neighbours: Adjacency
) -> BoundedSum:
    """Return the query of Σ R/clip for a released step; what a unit adds is pulled to norm 1.

    Guarantee [unit_remainder_sensitivity]: a unit adds a vector of norm at most 1, so between neighbours the sum
    moves by at most 2 (replace) or 1 (add-remove).

    Input
    -----
    whole units, as in `unit_stack`, with predictors eta; a released step a and clip b

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
    for each unit with rows j:
        w = min(1, 1 / ‖sum_j c_j h'_j u_j u_j^T‖_F);  z_j = u_j·a
        v = w sum_j c_j (h(eta_j + z_j) - h(eta_j) - h'(eta_j) z_j) u_j / b
        R += v / max(1, ‖v‖)
    return R

    Proof
    -----
    docs/method.md, 8.5; tests/audit/test_unit_sums.py
    """
    _require_clip(clip)
    if not np.abs(step).max(initial=0.0) < LARGEST:
        raise PrivacyError(
            "a released step is too large for floats: nothing can be released around it"
        )

    def of_block(block: Block) -> Array:
        at = link(block)
        z = np.clip(np.einsum("ij,j->i", at.rows, step), -2 * FARTHEST, 2 * FARTHEST)
        factors = at.of_rows(at.weights) * at.counts * family.left(at.predictor, z)
        return np.asarray(_pulled(at.summed(at.rows * factors[:, None]), clip).sum(axis=0))

    return BoundedSum(of_block, remainder_bound(neighbours))


def unit_influences(link: Linked, largest: float, neighbours: Adjacency) -> BoundedSum:
    """Count influences ‖w s‖ of units in the bins largest · 2⁻ᵏ, the largest first, all smaller ones in the last.

    A unit without an influence is in no bin.  The sensitivity is that of `unit_histogram`.

    Input
    -----
    whole units, as in `unit_stack`; a public or released largest influence

    Output
    ------
    13 counts

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    n = 0 for each bin
    for each unit with rows j:
        w = min(1, 1 / ‖sum_j c_j h'_j u_j u_j^T‖_F)
        size = ‖w sum_j c_j r_j u_j‖
        if size > 0: n[its bin] += 1
    return n, the bin of the largest sizes first

    Proof
    -----
    docs/method.md, 8.5; tests/audit/test_unit_sums.py
    """
    edges = largest * 2.0 ** -np.arange(_OCTAVES - 1.0, 0.0, -1.0)
    counted = unit_histogram(lambda block: _norms(link(block).scores), edges, neighbours)
    return BoundedSum(lambda block: counted.of_block(block)[::-1], counted.bound)


def unit_row_counts(neighbours: Adjacency) -> BoundedSum:
    """Count units by their number of rows, those that could be encoded; the bins are public.

    Input
    -----
    whole units with their rows x; a zero row could not be encoded

    Output
    ------
    41 counts: of 1, 2, 3, 4 and 5, 6 and 7 rows, and so on

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    n = 0 for each bin
    for each unit:
        size = number of its rows that are not the zero row
        if size > 0: n[its bin] += 1
    return n

    Proof
    -----
    docs/method.md, 8.5; tests/audit/test_unit_sums.py
    """

    def rows_of(block: Block) -> Array:
        present = (block.rows[:, 0] != 0).astype(float)
        return np.add.reduceat(present, starts_of(block)) if len(block) else np.zeros(0)

    return unit_histogram(rows_of, UNIT_ROW_EDGES, neighbours)


def unit_histogram(
    size: Callable[[Block], Array], edges: Array, neighbours: Adjacency
) -> BoundedSum:
    """Count units by one number of each, which is at least 0; a unit whose number is 0 is in no bin.

    Guarantee [unit_histogram_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1
    (add-remove): a unit is in one bin, whatever its number is.

    Input
    -----
    whole units; ``size``, one number of each, a function of that unit and of released numbers; public or
    released ``edges``

    Output
    ------
    one count per bin, len(edges) + 1

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    n = 0 for each bin
    for each unit:
        s = size of the unit
        if s > 0: n[number of edges that are at most s] += 1
    return n

    Proof
    -----
    docs/method.md, 8.5; tests/audit/test_unit_sums.py
    """

    def of_block(block: Block) -> Array:
        sizes = size(block)
        codes = np.searchsorted(edges, sizes, side="right")
        return counts_of(codes, len(edges) + 1, (sizes > 0).astype(float))

    return BoundedSum(of_block, histogram_bound(neighbours))


def _pulled(vectors: Array, clip: float) -> Array:
    """Return vectors over ``clip``, pulled into the unit ball; their norm is at most 1 in real numbers."""
    most = clip * shrunk(vectors.shape[1])
    return vectors * (shrunk(vectors.shape[1]) / np.maximum(most, _norms(vectors)))[:, None]


def _norms(vectors: Array) -> Array:
    """Return the norms of vectors, infinite where a square overflows."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)))


def _require_clip(clip: float) -> None:
    if not 1 / LARGEST < clip < LARGEST:
        raise PrivacyError(
            "a released clip is too large for floats: nothing can be released around it"
        )
