"""Draws that floats leave in doubt, decided by balls and more bits."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from flint import arb, ctx, fmpq

Words = npt.NDArray[np.uint64]


@dataclass
class Cell:
    """A real uniform number, known to lie in [number, number + 1]/2^known."""

    number: int
    known: int = 64

    def exponential(self) -> arb:
        """Return -log U."""
        return -self._ball().log()

    def normal(self) -> arb:
        """Return |Z|/sqrt(2), from the tail: no cancellation."""
        return (2 * self._ball()).erfcinv()

    def extend(self, more: Callable[[int], int]) -> None:
        """Ask for 64 more bits."""
        self.number = self.number << 64 | more(64)
        self.known += 64

    def _ball(self) -> arb:
        return arb((2 * self.number + 1, -self.known - 1), (1, -self.known - 1))


# python-flint has one precision for all threads.  Balls enclose at any precision, so no other thread's
# change of it can make a draw wrong; the lock keeps our threads from restoring each other's.  A
# fork waits for it: no child inherits it shut.
_PRECISION = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_PRECISION.acquire,
        after_in_parent=_PRECISION.release,
        after_in_child=_PRECISION.release,
    )


def settled(
    ratio: Fraction, normals: Words, exponentials: Words, squared: Words, more: Callable[[int], int]
) -> list[int]:
    """Return round(ratio sqrt(2G) |Z|) modulo 2⁶⁴ for the ``normals``; without exponentials G is
    1/2.
    """
    drawn = [Cell(int(word) >> 1) for word in normals]  # the last bit of a word is the sign
    squares = [Cell(int(word) >> 1) for word in squared]
    terms = [Cell(int(word)) for word in exponentials]
    while True:
        with _PRECISION, ctx.workprec(drawn[0].known + 64):
            G = sum((cell.exponential() for cell in terms), arb(0 if terms else 0.5))
            G += sum((cell.normal() ** 2 for cell in squares), arb(0))
            scale = 2 * arb(fmpq(ratio.numerator, ratio.denominator)) * G.sqrt()
            sizes = [(scale * cell.normal() + arb(0.5)).floor().unique_fmpz() for cell in drawn]
        decided = [(int(size) + 2**63) % 2**64 - 2**63 for size in sizes if size is not None]
        if len(decided) == len(sizes):
            return decided
        for cell in (*terms, *squares, *drawn):
            cell.extend(more)
