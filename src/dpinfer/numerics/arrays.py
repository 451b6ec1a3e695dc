"""The array type, symmetric matrices as vectors, what a law draws from, and the one bisection."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]
Array = npt.NDArray[np.float64]


class Randomness(Protocol):
    """A source of draws for a law: a numpy Generator (studies), or the operating system (releases)."""

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Draw independent N(0, 1) numbers."""
        ...

    def standard_exponential(self, size: tuple[int, ...], /) -> Array:
        """Draw independent exponential numbers with mean 1."""
        ...


def solved(matrix: Array, right: Array) -> Array:
    """Return matrix⁻¹ right."""
    return np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)


def svec(matrix: Array) -> Array:
    """Return the upper triangle of a symmetric matrix or a stack, off-diagonals times sqrt 2: a
    vector of the same norm.
    """
    dim = matrix.shape[-1]
    indices, factors = _triangle(dim)
    flat = matrix.reshape(*matrix.shape[:-2], dim * dim)
    return np.asarray(flat[..., indices] * factors)


def unsvec(vector: Array, dim: int) -> Array:
    """Return the matrix that `svec` made a vector of."""
    indices, factors = _triangle(dim)
    rows, columns = np.divmod(indices, dim)
    half = vector / factors
    matrix = np.empty((*vector.shape[:-1], dim, dim))
    matrix[..., rows, columns] = half
    matrix[..., columns, rows] = half
    return matrix


@lru_cache(maxsize=32)
def _triangle(dim: int) -> tuple[Indices, Array]:
    """Return the indices of the upper triangle in a flat matrix, with weights 1 on the diagonal,
    sqrt 2 beside it.
    """
    rows, columns = np.triu_indices(dim)
    return rows * dim + columns, np.where(rows == columns, 1.0, np.sqrt(2))


def boundary(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    relative: float,
    *,
    by_ratio: bool = False,
) -> tuple[float, float]:
    """Return a bracket of the boundary between ``low``, where the statement holds, and ``high``,
    where it does not.

    It is narrowed to ``relative`` times its upper end, by halves, or by_ratio by geometric means.
    The first number is on the side where the statement was seen to hold, the second on the other:
    callers choose the safe one.  ``low`` may lie above ``high``, for a statement that holds from
    some number on.
    """
    while abs(high - low) > relative * max(low, high):
        middle = math.sqrt(low * high) if by_ratio else (low + high) / 2
        if middle in (low, high):  # no number lies between
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high
