"""The only door from exact numbers to released ones.

A gate is opened with the releases of one fit.  It books them all, then carries each out once, as it
was booked.  Nothing the solver says (iterations, gradient norm) leaves the gate.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpinfer.errors import LedgerError, PrivacyError
from dpinfer.maths.arrays import Array
from dpinfer.maths.histograms import Counts, Tally
from dpinfer.maths.minimise import Minimum as Found
from dpinfer.maths.minimise import minimum
from dpinfer.maths.noise_laws import NO_NOISE, Gaussian, Laplace, Law, SphericalLaplace
from dpinfer.maths.risk import Risk
from dpinfer.maths.sums import SLACK, BoundedSum
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.grid import from_grid, grid, to_grid
from dpinfer.privacy.noise import bits_of, rounded
from dpinfer.privacy.release import (
    Minimum,
    NoisyCounts,
    NoisyMinimum,
    NoisySum,
    PerturbedMinimum,
    Release,
    ShownLevels,
)
from dpinfer.rows import workers
from dpinfer.rows.source import Source
from dpinfer.rows.transforms import sample


@dataclass(frozen=True)
class Released:
    """A number that may be published, and the law of the noise that is in it (or in its objective).

    ``mask`` is the deviation of the further noise that hides how far a float minimum is from the
    real one.
    """

    value: Array
    noise: Law
    mask: float = 0.0


class Gate:
    """One fit's releases.

    Guarantee [booked_first]: the spend is in the ledger before anything is computed from a record;
    if it is refused, nothing is.  Guarantee [spent_once]: each booked release is carried out once,
    with the noise that was booked.
    """

    def __init__(self, entry: Entry, ledger: Book | None, insecure_seed: int | None = None) -> None:
        self._left = list(entry.events)
        self._bits = bits_of(insecure_seed)
        self.entry, self.seed = entry, insecure_seed
        self.release_id: str | None = None
        if ledger is None:
            return
        if not hasattr(ledger, "book"):
            raise LedgerError("ledger= takes a dpinfer Ledger, or None to book nothing")
        if insecure_seed is not None:
            raise LedgerError(
                "a seeded fit is not private and cannot be booked: drop insecure_seed or the ledger"
            )
        self.release_id = ledger.book(entry)

    def release(self, booked: Release, source: Source, what: BoundedSum | Risk) -> Released:
        """Carry out one booked release: of a bounded sum, or of the minimum of a risk."""
        self._take(booked)
        with workers.step(booked.step):
            return self._carried_out(booked, source, what)

    def _carried_out(self, booked: Release, source: Source, what: BoundedSum | Risk) -> Released:
        if isinstance(booked, NoisySum) and isinstance(what, BoundedSum):
            noise = booked.noise(what)
            exact = source.total(what.of_block)
            return Released(self._added(exact, noise, what.bound), noise)
        if isinstance(booked, NoisyCounts) and isinstance(what, Counts):
            law = booked.noise(what)
            return Released(self._added(source.total(what.of_block), law, what.added), law)
        if isinstance(booked, Minimum) and isinstance(what, Risk):
            return self._minimum(booked, source, what)
        raise _other(booked)

    def levels(self, booked: Release, tally: Tally) -> dict[str, float]:
        """Carry out one booked release of levels: those that clear the threshold, with noisy
        counts, largest first.

        What else occurs, or how much, leaves no trace: every level has noise of its own, and the
        order is that of what is shown.
        """
        self._take(booked)
        if not isinstance(booked, ShownLevels):
            raise _other(booked)
        step = grid(
            tally.bound, 1
        )  # the number of levels is private; whole numbers are on this grid as they are
        noise, least = booked.noise(tally.bound), math.ceil(booked.threshold(tally.bound) / step)
        found = to_grid(tally.counts, step) + rounded(noise, step, len(tally.counts), self._bits)
        shown = [
            (tally.levels[j], float(from_grid(found[j : j + 1], step)[0]))
            for j in np.flatnonzero(found > least)
        ]
        return dict(sorted(shown, key=lambda pair: (-pair[1], pair[0])))

    def _take(self, booked: Release) -> None:
        if booked not in self._left:
            raise PrivacyError(
                f"nothing like this is booked, or left, for the step {booked.step!r}"
            )
        self._left.remove(booked)

    def _minimum(self, booked: Minimum, source: Source, risk: Risk) -> Released:
        """The minimum of a risk plus noise (Algorithm 4), or of the risk plus b·θ, masked
        (Algorithm 1).
        """
        noise, d = booked.noise(risk), source.dim
        if isinstance(booked, NoisyMinimum):
            found = _reached(risk, minimum(risk, source.total, np.zeros(d), sample(source)))
            if noise == NO_NOISE:
                return Released(found, noise)
            moved = risk.minimiser_sensitivity()
            if not risk.accurate(d):
                raise PrivacyError(
                    "output perturbation is not proved here: the recipe should have refused it"
                )
            return Released(self._added(found, noise, moved), noise)
        step = 2.0 ** (math.frexp(_size(noise))[1] - 40)
        b = from_grid(rounded(noise, step, d, self._bits), step)
        found = _reached(risk, minimum(risk, source.total, b, sample(source)))
        moved = 2 * risk.minimum_error(d, step * math.sqrt(d)) * (1 + SLACK)
        least = 2.0**-7 * _size(noise) / (risk.ridge + risk.n * risk.loss.curvature_bound / d)
        size = max(least, moved / booked.mask)
        mask: Law = (
            Gaussian(size) if isinstance(booked, PerturbedMinimum) else SphericalLaplace(1 / size)
        )
        return Released(
            self._added(found, mask, booked.mask * size), noise, math.sqrt(mask.variance(d))
        )

    def _added(self, exact: Array, noise: Law, bound: float) -> Array:
        """The array on a grid plus exactly rounded noise: that is round(exact + noise), so privacy
        loses nothing.
        """
        if noise == NO_NOISE:
            return exact
        # one step a number moves a vector by sqrt m steps, and the sum of its entries by m
        step = grid(
            bound / math.sqrt(exact.size) if isinstance(noise, Laplace) else bound, exact.size
        )
        integers = to_grid(exact, step).ravel() + rounded(noise, step, exact.size, self._bits)
        return from_grid(integers, step).reshape(exact.shape)


def _other(booked: Release) -> PrivacyError:
    return PrivacyError(
        f"the step {booked.step!r} was booked as {booked.mechanism}, and that is not its release"
    )


def _size(law: Law) -> float:
    return law.scale if isinstance(law, Gaussian) else 1 / law.rate


def _reached(risk: Risk, found: Found) -> Array:
    """The step to the minimum, drawn back to the public reach; one fixed error if the search fell
    short.
    """
    far = max(1.0, float(np.linalg.norm(found.coef)) / risk.reach)
    if risk.ridge > 0 and not found.gradient_norm <= risk.tolerance * far:
        raise PrivacyError(
            "the minimum was not reached to the accuracy that privacy rests on: nothing was released"
        )
    return found.coef / far if risk.ridge > 0 else found.coef
