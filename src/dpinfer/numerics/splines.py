"""Curves with public knots: the columns of natural splines, B-splines and powers, with their ranges.

A column is a function of one number.  A spline is a polynomial between two knots:

| symbol | meaning                                                       | name in code |
| ------ | ------------------------------------------------------------- | ------------ |
| t      | (x - start)/unit, from 0 to 1 between the knots of a piece    |              |
| c_k    | the polynomial of a piece is the sum of c_k t^k               | `coefs`      |
| h      | the distances of the knots                                    | `gaps`       |
| m      | second derivatives at the knots                               | `second`     |

Knots include the two ends; a curve goes on beyond them, a natural spline as a line, others flat.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from dpinfer.numerics.arrays import Array

_POINTS = 40  # between two knots
_BETWEEN = 1.01  # times the largest value at a point: more than any between two points
_FLATTEST = 1e-10  # variance of a function over the largest: flatter ones are roundings
_SLACK = 64 * np.finfo(float).eps  # more than the roundings of a cubic, of its size


class Column(Protocol):
    """A column of a basis: a function of one number."""

    def values(self, x: Array) -> Array:
        """Its values; NaN stays NaN."""
        ...

    def range(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest value between two numbers, as floats never leave it."""
        ...


@dataclass(frozen=True, eq=False)
class Piecewise:
    """A polynomial of degree 3 at most on each piece, one row of ``coefs`` per piece.

    The first piece lies below the first of the ``knots``, the last one at the last of them and
    above.
    """

    knots: Array
    start: Array
    unit: Array
    coefs: Array

    @np.errstate(all="ignore")  # a warning would tell of a value
    def values(self, x: Array) -> Array:
        """Its values; NaN stays NaN."""
        piece = np.searchsorted(self.knots, x, side="right")
        t = (x - self.start[piece]) / self.unit[piece]
        return _horner(self.coefs[piece], t)

    @np.errstate(all="ignore")  # a range without end is refused by who asks for it
    def range(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest value between two numbers, as floats never leave it.

        Guarantee [ranges_of_curves]: every value between them, as it is computed, lies in the range,
        and the range is no wider than by rounding.
        """
        ends = np.concatenate([[-math.inf], self.knots, [math.inf]])
        first = (np.clip(ends[:-1], low, high) - self.start) / self.unit
        last = (np.clip(ends[1:], low, high) - self.start) / self.unit
        turns = np.clip(_turns(self.coefs), first, last)  # what is not inside is an end
        points = np.vstack([first, last, turns])
        values = _horner(self.coefs, points)
        within = (ends[:-1] <= high) & (ends[1:] >= low)
        size = _horner(np.abs(self.coefs), np.abs(points))[:, within].max()
        return _widened(values[:, within].min(), values[:, within].max(), size)


@dataclass(frozen=True)
class Power:
    """(x - centre)^exponent."""

    centre: float
    exponent: int

    @np.errstate(all="ignore")  # a warning would tell of a value
    def values(self, x: Array) -> Array:
        """Its values; NaN stays NaN."""
        return np.asarray(np.power(x - self.centre, self.exponent))

    @np.errstate(all="ignore")  # a range without end is refused by who asks for it
    def range(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest value between two numbers, as floats never leave it."""
        values = self.values(np.array([low, high, np.clip(self.centre, low, high)]))
        return _widened(values.min(), values.max(), np.abs(values).max())


@lru_cache(maxsize=256)
def natural_splines(*knots: float) -> tuple[Piecewise, ...]:
    """One natural cubic spline per knot: 1 there and 0 at the other knots, a line beyond the ends.

    A combination of them has their coefficients as its values at the knots.
    """
    at = np.array(knots)
    gaps = np.diff(at)
    second = _second_derivatives(
        gaps / gaps.sum()
    )  # in units of the whole, whatever x is measured in
    squares = (gaps / gaps.sum()) ** 2
    splines = []
    for value, curve in zip(np.eye(len(at)), second.T, strict=True):
        coefs = np.zeros((len(at) + 1, 4))
        inner = coefs[1:-1]
        inner[:, 0] = value[:-1]
        inner[:, 1] = np.diff(value) - squares / 6 * (2 * curve[:-1] + curve[1:])
        inner[:, 2] = squares / 2 * curve[:-1]
        inner[:, 3] = squares / 6 * np.diff(curve)
        coefs[0, :2] = inner[0, :2]
        coefs[-1, :2] = (value[-1], inner[-1] @ [0.0, 1.0, 2.0, 3.0])
        splines.append(_piecewise(at, coefs))
    return tuple(splines)


@lru_cache(maxsize=256)
def b_splines(degree: float, *knots: float) -> tuple[Piecewise, ...]:
    """All B-splines of a degree up to 3, flat beyond the ends."""
    order = int(degree)
    padded = [*knots[:1] * order, *knots, *knots[-1:] * order]
    at = np.array(knots)
    start = at[:-1]
    unit = np.diff(at)

    def rising(i: int, d: int, polynomial: Array) -> Array:
        """Times (x - padded[i])/(padded[i + d] - padded[i])."""
        width = padded[i + d] - padded[i]
        if width == 0:
            return np.zeros_like(polynomial)
        product = polynomial * ((start - padded[i]) / width)[:, None]
        product[:, 1:] += polynomial[:, :-1] * (unit / width)[:, None]
        return product

    # of degree 0: 1 on one piece; the recursion of Cox and de Boor, on polynomials
    splines = [np.zeros((len(unit), order + 1)) for _ in padded[1:]]
    for piece in range(len(unit)):
        splines[order + piece][piece, 0] = 1.0
    for d in range(1, order + 1):
        splines = [
            rising(i, d, splines[i]) + splines[i + 1] - rising(i + 1, d, splines[i + 1])
            for i in range(len(splines) - 1)
        ]
    return tuple(_piecewise(at, _flat_beyond(coefs)) for coefs in splines)


@lru_cache(maxsize=256)
def powers(centre: float, degree: float) -> tuple[Power, ...]:
    """(x - centre), its square, and so on."""
    return tuple(Power(centre, k + 1) for k in range(int(degree)))


def uncorrelated_basis(
    columns: Sequence[Column], knots: Sequence[float], low: float, high: float
) -> Array:
    """The matrix from (1, columns) to as many functions that a fit can tell apart: uncorrelated
    where any two neighbouring knots have as many records between them, and at most 1 in size from
    ``low`` to ``high``.

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


def _piecewise(at: Array, coefs: Array) -> Piecewise:
    """Pieces between knots, and two beyond them that are measured as their neighbours are."""
    gaps = np.diff(at)
    start = np.concatenate([at[:1], at])
    return Piecewise(at, start, np.concatenate([gaps[:1], gaps, gaps[-1:]]), coefs)


def _flat_beyond(inner: Array) -> Array:
    coefs = np.zeros((len(inner) + 2, inner.shape[1]))
    coefs[1:-1] = inner
    coefs[0, 0] = inner[0, 0]
    coefs[-1, 0] = inner[-1].sum()
    return coefs


def _second_derivatives(gaps: Array) -> Array:
    """The second derivatives at all knots, one column per knot whose spline it is: 0 at the ends,
    and first derivatives that agree in between.
    """
    number = len(gaps) + 1
    slopes = np.diff(np.eye(number), axis=0) / gaps[:, None]
    equations = (
        np.diag((gaps[:-1] + gaps[1:]) / 3)
        + np.diag(gaps[1:-1] / 6, 1)
        + np.diag(gaps[1:-1] / 6, -1)
    )
    second = np.zeros((number, number))
    second[1:-1] = np.linalg.solve(equations, np.diff(slopes, axis=0))
    return second


def _horner(coefs: Array, t: Array) -> Array:
    """The sum of c_k t^k; the last axis of ``coefs`` is k."""
    total = coefs[..., -1] + 0 * t
    for k in reversed(range(coefs.shape[-1] - 1)):
        total = total * t + coefs[..., k]
    return np.asarray(total)


def _turns(coefs: Array) -> Array:
    """Where the derivatives of polynomials up to degree 3 are 0, two places each; 0 where there is
    none.
    """
    padded = np.zeros((len(coefs), 4))
    padded[:, : coefs.shape[1]] = coefs
    _, c, b, a = (padded * [0.0, 1.0, 2.0, 3.0]).T  # a t² + b t + c
    # of the two usual formulas the one without cancellation, for each root
    q = -(b + np.copysign(np.sqrt(np.maximum(b**2 - 4 * a * c, 0.0)), b)) / 2
    turns = np.array([np.divide(q, a), np.divide(c, q)])
    return np.where(np.isfinite(turns), turns, 0.0)


def _widened(low: float, high: float, size: float) -> tuple[float, float]:
    return float(low - _SLACK * size), float(high + _SLACK * size)


def distinct(numbers: Iterable[float]) -> list[str]:
    """Places in as few digits as tell them apart, six at least."""
    numbers = list(numbers)
    for digits in range(6, 17):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            return texts
    return [repr(number) for number in numbers]
