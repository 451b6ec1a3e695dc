"""The only privacy randomness: noise rounded to whole numbers, exactly, from fair bits.

Noise that is added in floats has gaps that give the exact sum away (Mironov, 2012). Here a sum on a grid plus
round(noise) is round(sum + noise): post-processing of the mechanism with real noise. So the costs are those
of the continuous laws, and no analysis of discrete ones (Canonne, Kamath and Steinke, 2020) is needed. Floats
decide a draw only where their enclosure of the real number leaves one integer; balls and more bits decide the
rest. How many words are drawn depends on the size alone, how many more bits on the bits alone: there is no
data here.

The law is exact if the bits are fair, python-flint's balls enclose, and floats give ndtri on
[2⁻⁴⁸, 1/2] and log on [2⁻⁴⁸, 1] within 2⁻³⁷ (2⁻⁴⁸ is measured).
"""

import math
import os
from fractions import Fraction
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpinfer.errors import InputError
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.noise_laws import Gaussian, Laplace, Law

Integers = npt.NDArray[np.int64]

GRID_LARGEST = 2.0**62
"""No number on a grid is larger: int64 has room for noise beside it."""

Words = npt.NDArray[np.uint64]

LARGEST = 2.0**60
"""The largest scale; the smallest is its inverse."""

_TRUSTED = 2.0**-48  # the smallest probability of which floats say anything
_MARGIN = 2.0**-36  # a bound of the error of floats: see _around


class Bits(Protocol):
    """A source of fair, independent bits."""

    def words(self, size: int, /) -> Words:
        """Return ``size`` words of 64 bits."""
        ...

    def more(self, count: int, /) -> int:
        """Return a whole number of ``count`` bits."""
        ...


class SystemBits:
    """The operating system's bits, asked anew for every draw, so forks never share noise."""

    def words(self, size: int, /) -> Words:
        """Return ``size`` words of 64 bits."""
        return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)

    def more(self, count: int, /) -> int:
        """Return a whole number of ``count`` bits."""
        return int.from_bytes(os.urandom(-(-count // 8))) >> -count % 8


class SeededBits:
    """Bits of a seeded generator, for tests and studies: they protect nobody."""

    def __init__(self, insecure_seed: int) -> None:
        self._rng = np.random.default_rng(insecure_seed)

    def words(self, size: int, /) -> Words:
        """Return ``size`` words of 64 bits."""
        return self._rng.integers(0, 2**64, size, dtype=np.uint64)

    def more(self, count: int, /) -> int:
        """Return a whole number of ``count`` bits."""
        return int.from_bytes(self._rng.bytes(-(-count // 8))) >> -count % 8


SYSTEM = SystemBits()


def bits_of(insecure_seed: int | None) -> Bits:
    """Return the operating system's bits, or for tests seeded ones that protect nobody.

    Guarantee [fresh_noise]: without a seed no two draws, processes or forks share a state.
    """
    if insecure_seed is None:
        return SYSTEM
    if isinstance(insecure_seed, bool) or not isinstance(insecure_seed, int) or insecure_seed < 0:
        raise InputError(f"insecure_seed must be a whole number >= 0, not {insecure_seed!r}")
    return SeededBits(insecure_seed)


def rounded(law: Law, step: float, size: int, bits: Bits) -> Integers:
    """Return one draw of a law, in steps of a grid.

    Guarantee [exactly_rounded]: the draw is round(b/step), b a real vector with the law, ties
    aside, exactly.
    """
    if isinstance(law, Gaussian):
        return rounded_gaussian(Fraction(law.scale) / Fraction(step), size, bits)
    scale = 1 / (Fraction(law.rate) * Fraction(step))
    if isinstance(law, Laplace):
        return rounded_laplaces(scale, size, bits)
    return rounded_laplace(scale, size, bits)


def rounded_gaussian(scale: Fraction | float, size: int, bits: Bits = SYSTEM) -> Integers:
    """Return ``size`` copies of round(scale Z), Z a real standard normal, modulo 2⁶⁴.

    A sum plus the remainder, modulo 2⁶⁴, is a function of sum + round(scale Z), so privacy loses
    nothing; and it is round(scale Z) itself but for one draw in 10¹⁵ at the largest scale, or a
    normal beyond 256 at scales below 2⁵⁵.
    """
    ratio = _ratio(scale)
    words = bits.words(size)
    low, high = _normal_bounds(words)
    sizes, doubtful = _decided(float(ratio) * low, float(ratio) * high)
    if doubtful.size:
        from dpinfer.privacy.balls import settled  # noqa: PLC0415  (python-flint is slow to load)

        for i in doubtful:
            sizes[i] = settled(ratio, words[i : i + 1], words[:0], words[:0], bits.more)[0]
    return _signed(sizes, words)


def rounded_laplace(scale: Fraction | float, m: int, bits: Bits = SYSTEM) -> Integers:
    """Return round(b) for one b in R^m with density ~ exp(-‖b‖/scale), modulo 2⁶⁴ (nothing changes
    at scales below 2⁵⁷/m).

    b = scale sqrt(2G) Z, Z normal and G ~ Gamma((m+1)/2): a sum of exponentials and, for even m,
    half a squared normal.
    """
    ratio = _ratio(scale)
    if m < 1:
        raise InputError(f"a vector of noise has one coordinate or more, not {m}")
    number = (m + 1) // 2  # number of exponentials; a squared normal joins them where m is even
    words = bits.words(number + 1 - m % 2 + m)
    exponentials = words[:number]
    squared = words[number:-m]
    normals = words[-m:]
    bounds = zip(
        _exponential_bounds(exponentials),
        _normal_bounds(squared),
        _normal_bounds(normals),
        strict=True,
    )
    low, high = (
        # fsum rounds once, so its error does not grow with m
        float(ratio) * math.sqrt(2 * math.fsum(e) + math.fsum(z * z)) * size
        for e, z, size in bounds
    )
    sizes, doubtful = _decided(low, high)
    if doubtful.size:
        from dpinfer.privacy.balls import settled  # noqa: PLC0415  (python-flint is slow to load)

        # what floats decided holds for every real number in the cells: more bits cannot change it
        sizes[doubtful] = settled(ratio, normals[doubtful], exponentials, squared, bits.more)
    return _signed(sizes, normals)


def rounded_laplaces(scale: Fraction | float, size: int, bits: Bits = SYSTEM) -> Integers:
    """Return ``size`` copies of round(b), b independent with density ~ exp(-|b|/scale), modulo 2⁶⁴.

    Each is `rounded_laplace` in one dimension: b = scale sqrt(2E) Z, E exponential.
    """
    ratio = _ratio(scale)
    words = bits.words(2 * size)
    exponentials = words[:size]
    normals = words[size:]
    bounds = zip(_exponential_bounds(exponentials), _normal_bounds(normals), strict=True)
    sizes, doubtful = _decided(*(float(ratio) * np.sqrt(2 * e) * z for e, z in bounds))
    if doubtful.size:
        from dpinfer.privacy.balls import settled  # noqa: PLC0415  (python-flint is slow to load)

        for i in doubtful:
            one = slice(i, i + 1)
            sizes[i] = settled(ratio, normals[one], exponentials[one], words[:0], bits.more)[0]
    return _signed(sizes, normals)


def _ratio(scale: Fraction | float) -> Fraction:
    if not 1 / LARGEST <= scale <= LARGEST:
        raise InputError(
            f"the scale of rounded noise lies between 2⁻⁶⁰ and 2⁶⁰ steps, not at {scale}"
        )
    return Fraction(scale)


def _normal_bounds(words: Words) -> tuple[Array, Array]:
    """Return floats around |Z|: all bits of a word but the last are a tail probability below 1/2,
    the last is the sign.
    """
    p = _centres(words >> np.uint64(1))
    return _around(-ndtri(p), p)


def _exponential_bounds(words: Words) -> tuple[Array, Array]:
    """Return floats around -log U."""
    u = _centres(words)
    return _around(-np.log(u), u)


def _centres(cells: Words) -> Array:
    return (cells.astype(np.float64) + 0.5) * 2.0**-64


def _around(values: Array, u: Array) -> tuple[Array, Array]:
    """Return lower and upper ends for the functions of all probabilities of the cells with centres
    ``u``.

    Half a cell, 2⁻⁶⁵, moves log by 2⁻⁶⁵/u, and ndtri by less from 1 on (φ(z) > z Φ(-z)), by 2⁻⁶²
    below: with what it shrinks u by at one end, less than the quotient here.  The margin is for the
    functions (2⁻³⁷), the rounding of u (2⁻⁵¹) and that of all that follows: fewer than 20 times
    2⁻⁵³ relative to numbers below 34, so 2⁻⁴³.
    """
    margin = _MARGIN + 2.0**-64 / u
    return np.maximum(values - margin, 0.0), np.where(u >= _TRUSTED, values + margin, np.inf)


def _decided(low: Array, high: Array) -> tuple[Integers, npt.NDArray[np.intp]]:
    """Return the integers that floats decide, and where they do not; an end on a half is harmless,
    no real number is there.
    """
    nearest = np.rint(low)
    decided = nearest == np.rint(high)
    return np.where(decided, nearest, 0.0).astype(np.int64), np.flatnonzero(~decided)


def _signed(sizes: Integers, words: Words) -> Integers:
    return np.where(words & np.uint64(1), -sizes, sizes)


def to_grid(values: Array, step: float) -> Integers:
    """Return each value over ``step``, a power of two, rounded half to even; at most 2⁶² in size; 0
    for what is not finite.
    """
    exponent = _exponent(step)
    finite = np.where(np.isfinite(values), values, 0.0)
    # beyond all doubles is beyond 2⁶²; a subnormal rounds to 0
    with np.errstate(over="ignore", under="ignore"):
        steps = np.rint(np.ldexp(finite, -exponent))
    return np.clip(steps, -GRID_LARGEST, GRID_LARGEST).astype(np.int64)


def from_grid(integers: Integers, step: float) -> Array:
    """Return ``integers`` times ``step``, a power of two: exact below 2⁵³, correctly rounded
    beyond.
    """
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(integers.astype(np.float64), _exponent(step)))


def _exponent(step: float) -> int:
    fraction, exponent = math.frexp(step)
    if fraction != 0.5:
        raise InputError(f"the step of a grid is a power of two, not {step!r}")
    return exponent - 1
