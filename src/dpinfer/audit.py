"""Attacks on this installation."""

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from dpinfer.maths.arrays import Array

_CELLS = 2.0**52


def grid_evidence(noise: Array, scale: float, error: Array) -> float:
    """Log-likelihood that noise is scale · ndtri((k + 1/2)/2⁵²), known up to ``error``, less that of real noise."""
    z = np.abs(noise / scale)
    place = ndtr(-z) * _CELLS - 0.5  # from the nearer tail, where a probability keeps its digits
    apart = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * _CELLS / scale  # cells in a unit of the noise
    blur = np.maximum(error * apart, 0.02)
    away = place - np.rint(place)
    near = np.exp(-((away[:, None] + np.arange(-2, 3)) ** 2) / (2 * blur[:, None] ** 2)).sum(axis=1)
    density = near / (blur * np.sqrt(2 * np.pi))
    told = np.where(blur < 0.5, np.log(0.95 * density + 0.05), 0.0)
    return float(told.sum())


def representable(values: Array, exact: Array) -> npt.NDArray[np.bool_]:
    """Whether some double added to ``exact`` gives each value, in double precision."""
    b = values - exact
    near = (b, np.nextafter(b, np.inf), np.nextafter(b, -np.inf))
    return np.asarray(np.any([exact + one == values for one in near], axis=0))
