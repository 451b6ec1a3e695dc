"""The array type of the package, symmetric matrices as vectors, and the little randomness a formula may be handed."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.intp]
Array = npt.NDArray[np.float64]


def namespace(array: Any) -> Any:
    """numpy, or the array-API namespace of another library's array (studies on a GPU)."""
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace  # noqa: PLC0415  (only where such an array exists)

    return array_namespace(array)


class Randomness(Protocol):
    """What a law needs to draw: a numpy Generator (studies), or the operating system (releases)."""

    def standard_normal(self, size: tuple[int, ...], /) -> Array:
        """Independent N(0, 1) numbers."""
        ...

    def standard_exponential(self, size: tuple[int, ...], /) -> Array:
        """Independent exponential numbers with mean 1."""
        ...


def svec(matrix: Array) -> Array:
    """Upper triangle of a symmetric matrix or a stack, off-diagonals times sqrt 2: a vector of the same norm."""
    rows, columns = np.triu_indices(matrix.shape[-1])
    return np.asarray(matrix[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2)))


def unsvec(vector: Array, dim: int) -> Array:
    """The inverse of `svec`."""
    rows, columns = np.triu_indices(dim)
    half = vector / np.where(rows == columns, 1.0, np.sqrt(2))
    matrix = np.empty((*vector.shape[:-1], dim, dim))
    matrix[..., rows, columns] = half
    matrix[..., columns, rows] = half
    return matrix
