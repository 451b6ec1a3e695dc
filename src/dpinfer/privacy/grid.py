"""Sums on a grid: whole multiples of a power of two, so that nothing is lost in scaling."""

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dpinfer.errors import InputError
from dpinfer.maths.arrays import Array

Integers = npt.NDArray[np.int64]

LARGEST = 2.0**62
"""No number on a grid is larger: int64 has room for noise beside it."""


def grid(bound: float, m: int) -> float:
    """The largest power of two that is at most 2⁻¹² bound/sqrt(m), exactly."""
    if not 0 < bound < math.inf or m < 1:
        raise InputError("a grid needs a positive finite bound and one coordinate or more")
    square = Fraction(bound) ** 2 / (m << 24)
    exponent = square.numerator.bit_length() - square.denominator.bit_length()
    if square < Fraction(2) ** exponent:
        exponent -= 1  # now 2^exponent <= square < 2^(exponent + 1)
    if exponent // 2 < -1074:
        raise InputError(
            f"the bound {bound!r} is too small for a grid of doubles: measure in smaller units"
        )
    return math.ldexp(1.0, exponent // 2)


def to_grid(values: Array, step: float) -> Integers:
    """Each value over ``step``, a power of two, rounded half to even; at most 2⁶² in size; 0 for
    what is not finite.
    """
    exponent = _exponent(step)
    finite = np.where(np.isfinite(values), values, 0.0)
    # beyond all doubles is beyond 2⁶²; a subnormal rounds to 0
    with np.errstate(over="ignore", under="ignore"):
        steps = np.rint(np.ldexp(finite, -exponent))
    return np.clip(steps, -LARGEST, LARGEST).astype(np.int64)


def from_grid(integers: Integers, step: float) -> Array:
    """``integers`` times ``step``, a power of two: exact below 2⁵³, correctly rounded beyond."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(integers.astype(np.float64), _exponent(step)))


def _exponent(step: float) -> int:
    fraction, exponent = math.frexp(step)
    if fraction != 0.5:
        raise InputError(f"the step of a grid is a power of two, not {step!r}")
    return exponent - 1
