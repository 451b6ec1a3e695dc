"""Curves with public knots: the columns of natural splines, B-splines and powers, with their ranges.

A column is a function of one number.  The polynomials of splines are those of scipy, in units t = x/2^e such that
the knots are about 1 apart: numbers of any size then have finite coefficients, and no bit is lost.  Knots include
the two ends; beyond them a natural spline is a line, and a B-spline is flat.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpinfer.numerics.arrays import Array

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

_POINTS = 40  # between two knots
_BETWEEN = 1.01  # times the largest value at a point: more than any between two points
_FLATTEST = 1e-10  # variance of a function over the largest: flatter ones are roundings
_SLACK = 64 * np.finfo(float).eps  # more than the roundings of a cubic, of its size


class Column(Protocol):
    """A column of a basis: a function of one number."""

    def values(self, x: Array) -> Array:
        """Return its values; NaN stays NaN."""
        ...

    def range(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the largest value between two numbers, as floats never leave it."""
        ...


@dataclass(frozen=True, eq=False)
class Spline:
    """A piecewise polynomial of t = x/2^``exponent``, and beyond its ends two lines with these ``slopes``."""

    polynomial: "PPoly"
    slopes: tuple[float, float]
    exponent: int

    @np.errstate(all="ignore")  # a warning would reveal a value
    def values(self, x: Array) -> Array:
        """Return its values; NaN stays NaN."""
        return self._values(np.ldexp(x, -self.exponent))

    def _values(self, t: Array) -> Array:
        low, high = self.polynomial.x[[0, -1]]
        below, above = self.slopes
        inside = self.polynomial(np.clip(t, low, high))
        return np.asarray(
            inside + below * np.minimum(t - low, 0.0) + above * np.maximum(t - high, 0.0)
        )

    @np.errstate(all="ignore")  # a range without end is refused by who asks for it
    def range(self, low: float, high: float) -> tuple[float, float]:
        """Return the smallest and the largest value between two numbers, as floats never leave it.

        Guarantee [ranges_of_curves]: every value between them, as it is computed, lies in the range,
        and the range is no wider than by rounding.
        """
        # Between two numbers a value is farthest at one of them, at a knot, or where the derivative is 0.
        ends = np.ldexp([low, high], -self.exponent)
        turns = self.polynomial.derivative().roots(
            extrapolate=False
        )  # with NaN for constant pieces
        points = np.concatenate([ends, self.polynomial.x, turns[np.isfinite(turns)]])
        values = self._values(np.clip(points, *ends))
        powers = np.diff(self.polynomial.x) ** np.arange(len(self.polynomial.c))[::-1, None]
        size = (np.abs(self.polynomial.c) * powers).sum(axis=0).max() + np.abs(values).max()
        return _widened(values.min(), values.max(), size)


@dataclass(frozen=True)
class Power:
    """(x - centre)^exponent."""

    centre: float
    exponent: int

    @np.errstate(all="ignore")  # a warning would reveal a value
    def values(self, x: Array) -> Array:
        """Return its values; NaN stays NaN."""
        return np.asarray(np.power(x - self.centre, self.exponent))

    @np.errstate(all="ignore")  # a range without end is refused by who asks for it
    def range(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the largest value between two numbers, as floats never leave it."""
        values = self.values(np.array([low, high, np.clip(self.centre, low, high)]))
        return _widened(values.min(), values.max(), np.abs(values).max())


@lru_cache(maxsize=256)
def natural_splines(*knots: float) -> tuple[Spline, ...]:
    """Return one natural cubic spline per knot: 1 there, 0 at the other knots, a line beyond the ends.

    A combination of them has their coefficients as its values at the knots.
    """
    from scipy.interpolate import CubicSpline  # noqa: PLC0415  (slow to load)

    exponent, t = _scaled(knots)
    cubics = [CubicSpline(t, values, bc_type="natural") for values in np.eye(len(t))]
    return tuple(
        Spline(one, (float(one(t[0], 1)), float(one(t[-1], 1))), exponent) for one in cubics
    )


@lru_cache(maxsize=256)
def b_splines(degree: float, *knots: float) -> tuple[Spline, ...]:
    """Return all B-splines of a degree up to 3, flat beyond the ends."""
    from scipy.interpolate import PPoly  # noqa: PLC0415  (slow to load)

    order = int(degree)
    exponent, t = _scaled(knots)
    padded = np.pad(t, order, "edge")
    polynomials = []
    for coefs in np.eye(len(padded) - order - 1):
        padded_polynomial = PPoly.from_spline((padded, coefs, order))
        pieces = slice(order, len(padded) - order - 1)  # those between different knots
        polynomials.append(PPoly(padded_polynomial.c[:, pieces], t))
    return tuple(Spline(one, (0.0, 0.0), exponent) for one in polynomials)


def _scaled(knots: Sequence[float]) -> tuple[int, Array]:
    """Return the exponent e of the distance of the ends, and t at all knots."""
    exponent = math.frexp(knots[-1] - knots[0])[1]
    return exponent, np.ldexp(knots, -exponent)


@lru_cache(maxsize=256)
def powers(centre: float, degree: float) -> tuple[Power, ...]:
    """Return (x - centre), its square, and so on."""
    return tuple(Power(centre, k + 1) for k in range(int(degree)))


def uncorrelated_basis(
    columns: Sequence[Column], knots: Sequence[float], low: float, high: float
) -> Array:
    """Return the matrix from (1, columns) to as many functions that a fit can tell apart:
    uncorrelated where any two neighbouring knots have as many records between them, and at most 1
    in size from ``low`` to ``high``.

    Public knots say where records are expected.  The columns of a basis all refer to what was left
    out of it, of which little may be known; these functions do not.
    """
    inside = (np.arange(_POINTS) + 0.5) / _POINTS
    points = (np.array(knots[:-1])[:, None] + np.diff(knots)[:, None] * inside).ravel()
    values = np.column_stack([column.values(points) for column in columns])
    mean = values.mean(axis=0)
    sizes, directions = np.linalg.eigh((values - mean).T @ (values - mean) / len(points))
    root = directions / np.sqrt(np.maximum(sizes, _FLATTEST * sizes.max())) @ directions.T
    # beyond the ends a spline is a line, which is largest at its own end
    ends = np.column_stack([column.values(np.array([low, high])) for column in columns])
    root /= _BETWEEN * np.abs((np.vstack([values, ends]) - mean) @ root).max(axis=0)
    return np.column_stack([-mean @ root, root.T])


def _widened(low: float, high: float, size: float) -> tuple[float, float]:
    return float(low - _SLACK * size), float(high + _SLACK * size)


def distinct(numbers: Iterable[float]) -> list[str]:
    """Return numbers as texts, with as few digits as make them different and six at least."""
    numbers = list(numbers)
    for digits in range(6, 17):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(number) for number in numbers]
