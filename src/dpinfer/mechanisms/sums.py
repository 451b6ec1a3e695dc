"""Blocks of records, sums over them that know how far one record moves them, and their rounding.

| symbol | meaning                                             | name in code |
| ------ | --------------------------------------------------- | ------------ |
| x, u   | a row; in the unit ball, or mapped by a matrix      | `rows`       |
| y      | a label -1 or +1, or an outcome in [-1, 1]          | `labels`     |
| w      | what a record counts, with w‖u‖² <= 1               | `weights`    |

Floats are not real numbers; how far they are off is bounded for all data, from public facts:

| symbol | meaning                                                     | name in code   |
| ------ | ----------------------------------------------------------- | -------------- |
| u      | 2⁻⁵³, the relative error of one operation                   | `UNIT`         |
| B      | most records in a block                                     | `BLOCK`        |
| N      | most records, a public number                               | `records`      |
| err    | error of a sum whose terms have norm at most 1              | `sum_error`    |

The products and sums of a block err by at most (B + 8) u times the sum of the norms of its terms;
blocks are added with compensation, which errs by u of the total and a square (Ogita, Rump and
Oishi, 2005).  Up to 2²⁸ records the slack of a bound has room for that; beyond, the bound itself is
raised.  The proofs are in docs/method.md, section 7.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, islice

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.errors import PrivacyError
from dpinfer.mechanisms import summation_error
from dpinfer.mechanisms.summation_error import carried
from dpinfer.numerics.arrays import Array, Indices, svec
from dpinfer.numerics.reasons import Numerical

UNIT = summation_error.UNIT
BLOCK: Numerical[int] = 2048
"""Most records of a block.  Other blocks than the changed record's give the same bits for
neighbours (replace).
"""
DEFAULT_MAX_RECORDS = summation_error.DEFAULT_MAX_RECORDS
"""The public ceiling of the number of records where nothing else is declared and it is private."""
MAX_RECORDS: Numerical[int] = 2**40
"""No table has more: sums are proved up to here."""
STRETCH: Numerical[int] = 2**21
"""Sums that are added one after the other: at least the blocks of the usual number of records."""
SLACK: Numerical[float] = 2.0**-11
"""What the bound of a sum is raised by, relatively: half for the grid, half for the errors of two
float sums over the usual number of records.
"""


def shrunk(dim: int) -> float:
    """A factor that takes back the rounding of a norm of ``dim`` numbers: what was at most 1 is so
    in real numbers.
    """
    return 1 - (dim + 4) * 2.0**-52


def sum_error(
    *, private_number: bool, units: bool = False, records: float = DEFAULT_MAX_RECORDS
) -> float:
    """err, over the largest norm of a term.  Where the number of records or of rows is private,
    every block may differ.

    With units a block is longer than B where one unit is, which adds N u, and s sᵀ is formed of a
    rounded sum s, which adds 2 N u and a little.

    Guarantee [float_sums]: the float sum of a source is within err of the real one, up to what
    neighbours share.
    """
    moved = records if private_number or units else BLOCK
    return (BLOCK + (11 if units else 8)) * UNIT * moved + 2 * UNIT * records


def in_floats(bound: float, records: float) -> float:
    """Return the sensitivity of a float sum over at most ``records`` records, given that of the real sum,
    ``bound``.

    That is ``bound`` up to the usual number of records.  Beyond, it is ``bound`` and the errors of
    two sums, with what the places of their rows do, wherever these are and whatever neighbours are.

    Guarantee [any_length]: so raised, and by the slack, a bound holds for float sums over up to 2⁴⁰
    records that are rounded to the grid.
    """
    if records <= DEFAULT_MAX_RECORDS:
        return bound
    error = sum_error(private_number=True, units=True, records=records)
    return bound * (
        1 + 2 * (error + summation_error.SUMMATION_ERROR * records / DEFAULT_MAX_RECORDS)
    )


@dataclass(frozen=True, repr=False)
class Block:
    """Some records: rows (m, d), labels (m,), and weights (m,) or one number for all; or a stack of k
    blocks, all as long as each other, with one axis more in front: (k, m, d), (k, m).

    What is summed over a stack has that axis, too: one part per block.  So a call of numpy has more
    to do, while no product is over more rows than are proved for.

    With ids the rows of a unit follow each other, all of them in one block, ``starts`` are the
    places of the first, and a row counts ``shares`` of a unit, which its weight contains; such
    blocks are not stacked.
    ``fixed`` says that a row keeps its place whatever the others hold, as it does unless a cluster
    has placed it, and ``among`` how many rows are summed with these, at most.
    """

    rows: Array
    labels: Array
    weights: Array | float = 1.0
    shares: Array | float = 1.0
    starts: Indices | None = None
    fixed: bool = True
    among: float = math.inf

    def __len__(self) -> int:
        return int(self.labels.size)

    @property
    def stack(self) -> tuple[int, ...]:
        """The axes before those of one block: none, or the number of blocks."""
        return self.labels.shape[:-1]

    def stacked(self, height: int) -> "Block":
        """The same rows as a stack of blocks of ``height`` rows."""
        if height > BLOCK:
            raise PrivacyError("a block has more rows than sums are proved for")

        def split(array: Array | float) -> Array | float:
            if isinstance(array, float):
                return array
            return array.reshape(-1, height, *array.shape[1:])

        assert self.starts is None
        return replace(
            self,
            rows=self.rows.reshape(-1, height, self.rows.shape[-1]),
            labels=self.labels.reshape(-1, height),
            weights=split(self.weights),
            shares=split(self.shares),
        )

    def apart(self) -> Iterator["Block"]:
        """The blocks of a stack, or this one."""
        if not self.stack:
            yield self
            return
        for k in range(*self.stack):
            weights, shares = (
                w if isinstance(w, float) else w[k] for w in (self.weights, self.shares)
            )
            yield replace(
                self, rows=self.rows[k], labels=self.labels[k], weights=weights, shares=shares
            )

    def parts(self, of_block: "OfBlock") -> Iterator[Array]:
        """Return the values of a function on this block, or on each block of the stack, in their order.

        Guarantee [one_part_per_block]: every sum over a stack has, for each of its blocks, the bits
        of that block alone: none is over more rows than are proved for.
        """
        found = of_block(self)
        if not self.stack:
            yield found
            return
        if found.shape[:1] != self.stack:
            raise PrivacyError("a sum over a stack of blocks has one part for each of them")
        yield from found

    def __getitem__(self, some: slice) -> "Block":
        """Some rows, and with ids those of whole units: ``some`` begins and ends where a unit does."""
        weights, shares = (
            w if isinstance(w, float) else w[some] for w in (self.weights, self.shares)
        )
        starts = self.starts
        if starts is not None:
            first, last, _ = some.indices(len(self))
            starts = starts[np.searchsorted(starts, first) : np.searchsorted(starts, last)] - first
        rows = self.rows[some]
        return Block(rows, self.labels[some], weights, shares, starts, self.fixed, self.among)

    def product(self, rows: Array, matrix: Array, neighbours: Adjacency, error: float) -> Array:
        """matrix @ x of ``rows`` of this block, which are its own or made of them one by one.

        A matrix product rounds a row by its place in the block.  Where the others keep theirs, they
        keep their bits.  Where not, ``error`` is how far a term of the sum may so be off: the bound
        of the sum carries that for so many rows, or the rows are mapped one by one.
        """
        placed = neighbours.keeps_positions and self.fixed
        if placed or carried(error, self.among):
            return np.asarray(rows @ matrix.T)
        return np.asarray(np.einsum("...ij,kj->...ik", rows, matrix))

    def outer(self, factors: Array) -> Array:
        """sum_u s_u s_uᵀ over units, s_u = sum_i factor_i x_i over the rows of one; without ids
        every row is one.
        """
        # bounded as they are; the square of a factor alone could overflow
        scores = self.rows * factors[..., None]
        if self.starts is not None and len(self):
            scores = np.add.reduceat(scores, self.starts, axis=0)
        return np.asarray(scores.swapaxes(-1, -2) @ scores)

    def mapped(self, matrix: Array, neighbours: Adjacency, error: float = math.inf) -> "Block":
        """The rows u = matrix @ x.  Each counts by its new weight, so that w‖u‖² <= 1 whatever the
        matrix is; ``error`` is that of `product`.

        A matrix so large that a square could overflow is refused: it is public or released, so that
        tells nothing.
        """
        if not np.abs(matrix).max(initial=0.0) < LARGEST:
            raise PrivacyError(
                "a released matrix is too large for floats: nothing can be released through it"
            )
        rows = self.product(self.rows, matrix, neighbours, error)
        return replace(self, rows=rows, weights=self.shares * row_weights(rows))


LARGEST: Numerical[float] = 1e148
"""Of the entries of a matrix that rows are mapped by: a squared norm stays finite for up to a
million columns.
"""

OfBlock = Callable[[Block], Array]
"""From a block to its share of a sum, or from a stack of blocks to theirs."""

Change = Callable[[Block], Block]
"""From a block to what becomes of it."""


@dataclass(frozen=True)
class BoundedSum:
    """A sum over records and the most its Frobenius norm can move between neighbouring data sets.

    Guarantee [unit_sum_sensitivity]: where neighbours differ in all rows of a unit, which count at
    most 1 together, the bound is that of one row: what a unit adds is a mean of what rows may add,
    and where s sᵀ is no such mean the proof is that of its sum (docs/method.md, section 8).
    """

    of_block: OfBlock
    bound: float


@dataclass(frozen=True, repr=False)
class Sum:
    """A sum of arrays with the compensation of its rounding errors (Ogita, Rump and Oishi, 2005)."""

    total: Array
    compensation: Array | float

    @classmethod
    def of(cls, parts: Iterator[Array]) -> "Sum":
        """Return the sum of all parts, as `all` adds them."""
        first = next(parts)
        others = (cls(part, 0.0) for part in parts)
        return cls.all(chain([cls(first, np.zeros_like(first))], others))

    @classmethod
    def all(cls, sums: Iterator["Sum"]) -> "Sum":
        """Add all sums, one after the other; more than a stretch of them stretch by stretch.

        The compensation is rounded, too, and that error grows with the number of additions in a row: so
        it stays small however many sums there are.
        """
        total: Sum | None = None
        for first in sums:
            stretch = reduce(cls.plus, islice(sums, STRETCH - 1), first)
            total = stretch if total is None else total.plus(stretch)
        assert total is not None
        return total

    def plus(self, other: "Sum") -> "Sum":
        """Return the sum of both; the rounding error of the addition is computed exactly (Knuth's TwoSum)."""
        ahead = self.total + other.total
        back = ahead - self.total
        compensation = other.total - back
        np.subtract(ahead, back, out=back)
        np.subtract(self.total, back, out=back)
        compensation += back
        compensation += self.compensation
        compensation += other.compensation
        return Sum(ahead, compensation)

    @property
    def value(self) -> Array:
        """The compensated sum."""
        return np.asarray(self.total + self.compensation)


def row_weights(rows: Array) -> Array:
    """min(1, 1/‖u‖²), a little less where rounding asks for it: w‖u‖² <= 1 in real numbers."""
    most = shrunk(rows.shape[-1])
    return np.asarray(most / np.maximum(most, squared_norms(rows)))


def squared_norms(rows: Array) -> Array:
    """‖x‖² of each row."""
    return np.asarray(np.einsum("...ij,...ij->...i", rows, rows))


@np.errstate(all="ignore")  # a warning would tell of a value
def clip_rows(rows: Array) -> Array:
    """Shrink every row into the unit ball; a row with a NaN or an infinity becomes the zero row.

    Guarantee [rows_are_bounded]: every returned row is finite and has norm at most 1, in real
    numbers.
    """
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    largest = np.abs(rows).max(axis=1, initial=0.0, keepdims=True)
    unit = rows / np.where(largest > 0, largest, 1.0)  # so that no square overflows
    norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, None]
    most = shrunk(rows.shape[1])
    return np.where(largest * norm > most, unit / norm * most, rows)


def square(rows: Array, weights: Array | float) -> Array:
    """sum_i w_i x_i x_iᵀ for weights >= 0, as one symmetric rank-k product."""
    scaled = (
        rows if isinstance(weights, float) and weights == 1 else rows * np.sqrt(weights)[..., None]
    )
    return np.asarray(scaled.swapaxes(-1, -2) @ scaled)


def weighted_sum(weights: Array, rows: Array) -> Array:
    """sum_i w_i x_i."""
    return np.asarray((weights[..., None, :] @ rows)[..., 0, :])


def second_moment(neighbours: Adjacency) -> BoundedSum:
    """svec of sum x xᵀ over rows in the unit ball.

    Guarantee [moment_sensitivity]: between neighbours it moves by at most sqrt 2 (replace) or 1
    (add-remove), as ‖x xᵀ - z zᵀ‖² = ‖x‖⁴ + ‖z‖⁴ - 2(x·z)².

    Input
    -----
    rows x of norm at most 1, and weights a: 1, or a row's share of its unit

    Output
    ------
    d(d + 1)/2 numbers: the upper triangle, off-diagonal entries times sqrt 2 (svec)

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2)
    add-remove, add-remove-unit : 1

    Pseudo-code
    -----------
    S = 0
    for each row i:
        S += a_i x_i x_i^T
    return svec(S)

    Proof
    -----
    docs/method.md, 6.5; units: 8.1; tests/audit/test_moment_sensitivity.py
    """
    return BoundedSum(
        lambda block: svec(square(block.rows, block.weights)), second_moment_bound(neighbours)
    )


def second_moment_bound(neighbours: Adjacency) -> float:
    """Return the sensitivity of `second_moment`."""
    return neighbours.pick(math.sqrt(2), 1.0)


def moment_and_score(neighbours: Adjacency, middle: float = 0.0, half: float = 1.0) -> BoundedSum:
    """svec of sum w u uᵀ, and sum w y u/2, the score at 0, as one vector.

    For labels y is -1 or +1; for outcomes it is (y - middle)/half, pulled into [-1, 1].

    Guarantee [moment_and_score_sensitivity]: between neighbours it moves by at most sqrt(2 + 1/2 +
    1/32) (replace):  with c the cosine of the two rows the squares are at most max(2 - 2c², 1) and
    (1 + c)/2, whose sum is largest at c = 1/8; and by at most sqrt(1 + 1/4) (add-remove).

    Input
    -----
    rows u = A x for a released or public A, weights w = a min(1, 1/‖u‖²), and labels or outcomes y

    Output
    ------
    d(d + 1)/2 + d numbers: svec of the second moment, and the score at 0

    Sensitivity
    -----------
    replace, replace-unit : sqrt(2 + 1/2 + 1/32)
    add-remove, add-remove-unit : sqrt(1 + 1/4)

    Pseudo-code
    -----------
    S, g = 0, 0
    for each row i:
        t = clip((y_i - middle) / half, -1, 1)
        S += w_i u_i u_i^T
        g += w_i t u_i / 2
    return svec(S), g

    Proof
    -----
    docs/method.md, 6.5; units: 8.1; tests/audit/test_moment_sensitivity.py
    """

    def of_block(block: Block) -> Array:
        labels = np.clip((block.labels - middle) / half, -1.0, 1.0)
        score = weighted_sum(block.weights * labels / 2, block.rows)
        return np.concatenate([svec(square(block.rows, block.weights)), score], axis=-1)

    return BoundedSum(of_block, moment_and_score_bound(neighbours))


def exposure_total(scale: float) -> BoundedSum:
    """The sum of exposures over their bound, exp(``scale`` times the last column of a row).

    Guarantee [exposure_sensitivity]: between neighbours it moves by at most 1, as a record, or a
    unit in parts, adds a number from 0 to 1.

    Input
    -----
    rows whose last column is the logarithm of an exposure, divided by ``scale``; shares a

    Output
    ------
    1 number

    Sensitivity
    -----------
    replace, add-remove, replace-unit, add-remove-unit : 1

    Pseudo-code
    -----------
    total = 0
    for each row i that is not the zero row:
        total += a_i exp(min(scale * last column of x_i, 0))
    return total

    Proof
    -----
    no term is below zero or above one; units: docs/method.md, 8.1; tests/audit/test_exposure.py
    """

    def of_block(block: Block) -> Array:
        present = np.where(block.rows[..., 0] != 0, block.shares, 0.0)
        exposures = np.exp(np.minimum(scale * block.rows[..., -1:], 0.0))
        return weighted_sum(present, exposures)

    return BoundedSum(of_block, exposure_bound())


def exposure_bound() -> float:
    """Return the sensitivity of `exposure_total`, for any adjacency."""
    return 1.0


def moment_and_score_bound(neighbours: Adjacency) -> float:
    """Return the sensitivity of `moment_and_score`."""
    return neighbours.pick(math.sqrt(2 + 1 / 2 + 1 / 32), math.sqrt(1 + 1 / 4))
