"""The only door from exact numbers to released ones.

A gate is opened with the releases of one fit.  It books them all, then carries each out once, as it was booked.
Nothing the solver says (iterations, gradient norm) leaves the gate.
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.data.source import Source
from dpinfer.errors import LedgerError, PrivacyError
from dpinfer.maths.arrays import Array
from dpinfer.maths.laws import Law
from dpinfer.maths.minimise import minimum
from dpinfer.maths.risk import Risk
from dpinfer.maths.sums import BoundedSum
from dpinfer.privacy.book import Book, Entry
from dpinfer.privacy.noise import privacy_randomness
from dpinfer.privacy.release import Minimum, NoisyMinimum, NoisySum, Release


@dataclass(frozen=True)
class Released:
    """A number that may be published, and the law of the noise that is in it (or in its objective)."""

    value: Array
    noise: Law


class Gate:
    """One fit's releases.

    Guarantee [booked_first]: the spend is in the ledger before the first record is read; if it is refused,
    nothing is computed.
    Guarantee [spent_once]: each booked release is carried out once, with the noise that was booked.
    """

    def __init__(self, entry: Entry, ledger: Book | None, insecure_seed: int | None = None) -> None:
        self._left = list(entry.events)
        self._randomness = privacy_randomness(insecure_seed)
        self.entry, self.seed = entry, insecure_seed
        self.release_id: str | None = None
        if ledger is None:
            return
        if not hasattr(ledger, "book"):
            raise LedgerError("ledger= takes a dpinfer Ledger, or None to book nothing")
        if insecure_seed is not None:
            raise LedgerError("a seeded fit is not private and cannot be booked: drop insecure_seed or the ledger")
        self.release_id = ledger.book(entry)

    def release(self, booked: Release, source: Source, what: BoundedSum | Risk) -> Released:
        """Carry out one booked release: of a bounded sum, or of the minimum of a risk."""
        if booked not in self._left:
            raise PrivacyError(f"nothing like this is booked, or left, for the step {booked.step!r}")
        self._left.remove(booked)
        if isinstance(booked, NoisySum) and isinstance(what, BoundedSum):
            noise = booked.noise(what)
            exact = source.total(what.of_block)
            return Released(exact + self._draw(noise, exact.size).reshape(exact.shape), noise)
        if isinstance(booked, Minimum) and isinstance(what, Risk):
            noise = booked.noise(what)
            b = self._draw(noise, source.dim)
            if isinstance(booked, NoisyMinimum):
                return Released(minimum(what, source.total, np.zeros(source.dim)) + b, noise)
            return Released(minimum(what, source.total, b), noise)
        raise PrivacyError(f"the step {booked.step!r} was booked as {booked.mechanism}, and that is not its release")

    def _draw(self, noise: Law, size: int) -> Array:
        return noise.sample(self._randomness, (size,))
