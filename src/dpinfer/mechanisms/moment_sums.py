"""Sums of second and of fourth moments of rows at a released preconditioner, with their sensitivities.

| symbol | meaning                                                          | name in code   |
| ------ | ---------------------------------------------------------------- | -------------- |
| u      | the row A x, A a released preconditioner                         | `block.rows`   |
| w      | weight of a row, min(1, 1/‖u‖²)                                  | `row_weights`  |
| q      | what a record adds to Σ w u uᵀ: w svec(u uᵀ); of a unit the mean over its rows | `additions` |
| t      | excess of a row beyond the radius, min(max(‖u‖² - 1, 0), 1)       | `excess`       |
| c      | weight of Σ w and of Σ t beside the second moments               | `COUNT_WEIGHT` |
"""

import math

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.step_sums import Linearization
from dpinfer.mechanisms.summation_error import moment_error
from dpinfer.mechanisms.sums import Block, BoundedSum, squared_norms
from dpinfer.numerics.arrays import Array, svec
from dpinfer.numerics.reasons import Constant

COUNT_WEIGHT = Constant(
    0.15,
    name="COUNT_WEIGHT",
    decides="the weight of the sums of weights and of excesses beside the second moments, in a release of moments",
    reason="both sums are wanted to a few records; at .15 they cost 1.1 % of noise, by sqrt(2 + 2c²)",
    source="derivation of the bound; the weight itself is a convention",
)


def additions(block: Block) -> Array:
    """Return q of each record of a block of rows u with weights w, or of each unit: (d(d + 1)/2, m).

    Records are columns, so that every product is over neighbouring numbers.
    """
    columns = np.ascontiguousarray(block.rows.T)
    d = len(columns)
    found = np.empty((d * (d + 1) // 2, columns.shape[1]))
    start = 0
    for j in range(d):
        weighted = columns[j] * block.weights
        np.multiply(weighted, columns[j], out=found[start])
        np.multiply(
            weighted * math.sqrt(2.0), columns[j + 1 :], out=found[start + 1 : start + d - j]
        )
        start += d - j
    if block.starts is not None and len(block):
        return np.asarray(np.add.reduceat(found, block.starts, axis=1))
    return found


def counted_moments(
    linearization: Linearization, norm2: float, neighbours: Adjacency
) -> BoundedSum:
    """Return the query of Σ w u uᵀ, as svec, c Σ w and c Σ t, for rows at a released preconditioner.

    Guarantee [counted_moment_sensitivity]: between neighbours it moves by at most sqrt(2 + 2c²)
    (replace) or sqrt(1 + 5c²/4) (add-remove).  q is at most 1 long, and two q have an inner product
    w w' (u·u')² of at least 0, so the moments move by at most sqrt 2; w and t are from 0 to 1, and w is
    at most 1/2 where t is 1, so that w² + t² is at most 5/4.  What a unit adds is a mean of what rows may add.

    Input
    -----
    rows x, a released preconditioner A, shares a

    Output
    ------
    d(d + 1)/2 + 2 numbers

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2 + 2 * c**2)
    add-remove, add-remove-unit : sqrt(1 + 1.25 * c**2)

    Pseudo-code
    -----------
    S, m, e = 0, 0, 0
    for each row i that is not the zero row:
        u = A x_i,  w = a_i min(1, 1 / ‖u‖^2)
        S += w u u^T
        m += w
        e += a_i min(max(‖u‖^2 - 1, 0), 1)
    return svec(S), c m, c e    (c = 0.15)

    Proof
    -----
    docs/method.md, 11; tests/audit/test_moment_release.py
    """
    # w moves by at most 2‖dv‖ and t by 2 sqrt 2‖dv‖ where a row moves by dv, which .15 of both has room for
    link = linearization.link(norm2, neighbours, moment_error(linearization.row_map(norm2)))

    def of_block(block: Block) -> Array:
        parts = []
        for raw, one in zip(block.apart(), link(block).block.apart(), strict=True):
            weights = np.broadcast_to(one.weights, one.labels.shape)
            second = one.rows * np.sqrt(weights)[:, None]
            # an incomplete record is a row of zeros, without its intercept: it is not counted
            counted = weights[raw.rows[:, 0] != 0].sum()
            excess = np.clip(squared_norms(one.rows) - 1, 0.0, 1.0) * one.shares
            sums = COUNT_WEIGHT * np.array([counted, excess.sum()])
            parts.append(np.append(svec(second.T @ second), sums))
        return np.array(parts) if block.stack else parts[0]

    return BoundedSum(of_block, counted_moments_bound(neighbours))


def counted_moments_bound(neighbours: Adjacency) -> float:
    """Return the sensitivity of `counted_moments`."""
    return math.sqrt(neighbours.pick(2 + 2 * COUNT_WEIGHT**2, 1 + 1.25 * COUNT_WEIGHT**2))


def fourth_moments(linearization: Linearization, norm2: float, neighbours: Adjacency) -> BoundedSum:
    """Return the query of Σ q qᵀ, as svec, over records or units.

    Guarantee [fourth_moment_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or
    1 (add-remove): ‖q qᵀ‖ = ‖q‖² is at most 1, also of a unit, whose q is a mean of such; and two of
    them have the inner product (q·q')², which is at least 0.

    Input
    -----
    rows x, a released preconditioner A, shares a of rows, by unit

    Output
    ------
    m(m + 1)/2 numbers, m = d(d + 1)/2

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    S = 0
    for each unit:
        q = 0
        for each row i of it:
            u = A x_i,  w = a_i min(1, 1 / ‖u‖^2)
            q += w svec(u u^T)
        S += q q^T
    return svec(S)

    Proof
    -----
    docs/method.md, 11; tests/audit/test_moment_release.py
    """
    # q qᵀ moves by at most twice what q does, as q is at most 1 long
    link = linearization.link(norm2, neighbours, 2 * moment_error(linearization.row_map(norm2)))

    def of_block(block: Block) -> Array:
        parts = []
        for one in link(block).block.apart():
            q = additions(one)
            parts.append(svec(q @ q.T))
        return np.array(parts) if block.stack else parts[0]

    return BoundedSum(of_block, fourth_moments_bound(neighbours))


def fourth_moments_bound(neighbours: Adjacency) -> float:
    """Return the sensitivity of `fourth_moments`."""
    return neighbours.pick(math.sqrt(2.0), 1.0)
