"""Symmetric matrices as vectors of the same norm: off-diagonal entries times sqrt 2."""

import numpy as np

from dpinfer.maths.arrays import Array


def svec(matrix: Array) -> Array:
    """Upper triangle, off-diagonals times sqrt 2, for one matrix or a stack."""
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
