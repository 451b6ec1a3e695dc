"""The only door from exact numbers to released ones.

A gate is opened with the releases of one fit.  It books them all, then carries each out once, as it
was booked.  Nothing the solver says (iterations, gradient norm) leaves the gate.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpinfer.errors import LedgerError, PrivacyError
from dpinfer.mechanisms.histograms import BoundedCounts, LevelCounts
from dpinfer.mechanisms.minimise import Minimum as Search
from dpinfer.mechanisms.minimise import minimum
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import SLACK, BoundedSum
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.noise_laws import NO_NOISE, Gaussian, Laplace, Law, SphericalLaplace
from dpinfer.privacy.entries import Book, Entry
from dpinfer.privacy.noise import bits_of, from_grid, rounded, to_grid
from dpinfer.privacy.release import (
    LaplaceMinimum,
    Minimum,
    NoisyCounts,
    NoisyMinimum,
    NoisySum,
    PerturbedMinimum,
    Release,
    ScaledSum,
    ShownLevels,
    grid,
)
from dpinfer.rows import workers
from dpinfer.rows.encoded import sample
from dpinfer.rows.source import Source

_BITS_OF_B = 40  # by which the grid of b is finer than b
_SMALLEST_MASK = 2.0**-7  # share of the effect of the noise on the minimum


@dataclass(frozen=True)
class Released:
    """A number that may be published, and the law of the noise that is in it (or in its objective).

    ``mask`` is the standard deviation of the further noise that hides how far a float minimum is from the
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
        self.entry = entry
        self.seed = insecure_seed
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

    def release(self, release: Release, source: Source, query: BoundedSum | Risk) -> Released:
        """Carry out one booked release: of a bounded sum, or of the minimum of a risk."""
        self._take(release)
        with workers.step(release.step):
            return self._carried_out(release, source, query)

    def _carried_out(self, release: Release, source: Source, query: BoundedSum | Risk) -> Released:
        if isinstance(release, NoisySum | ScaledSum) and isinstance(query, BoundedSum):
            law = release.noise(query)
            exact = source.total(query.of_block)
            return Released(self._added(exact, law, query.bound), law)
        if isinstance(release, NoisyCounts) and isinstance(query, BoundedCounts):
            law = release.noise(query)
            exact = source.total(query.of_block)
            return Released(self._added(exact, law, query.l1_bound), law)
        if isinstance(release, Minimum) and isinstance(query, Risk):
            return self._minimum(release, source, query)
        raise _other(release)

    def levels(self, release: Release, tally: LevelCounts) -> dict[str, float]:
        """Carry out one booked release of levels: those that clear the threshold, with noisy
        counts, largest first.

        What else occurs, or how much, leaves no trace: every level has noise of its own, and the
        order is that of what is shown.
        """
        self._take(release)
        if not isinstance(release, ShownLevels):
            raise _other(release)
        law = release.noise(tally)
        # the number of levels is private; whole numbers are on this grid as they are
        step = grid(tally.bound, 1)
        threshold = math.ceil(release.threshold / step)
        counts = to_grid(tally.counts, step) + rounded(law, step, len(tally.counts), self._bits)
        shown = [
            (tally.levels[j], float(from_grid(counts[j : j + 1], step)[0]))
            for j in np.flatnonzero(counts > threshold)
        ]
        return dict(sorted(shown, key=lambda pair: (-pair[1], pair[0])))

    def _take(self, release: Release) -> None:
        if release not in self._left:
            raise PrivacyError(
                f"nothing like this is booked, or left, for the step {release.step!r}"
            )
        self._left.remove(release)

    def _minimum(self, release: Minimum, source: Source, risk: Risk) -> Released:
        """Return the minimum of a risk plus noise (Algorithm 4), or of the risk plus b·θ, masked
        (Algorithm 1).
        """
        law = release.noise(risk)
        if isinstance(release, NoisyMinimum):
            return self._output_perturbed(law, source, risk)
        return self._objective_perturbed(release, law, source, risk)

    def _output_perturbed(self, law: Law, source: Source, risk: Risk) -> Released:
        """Carry out Algorithm 4; noise that is off leaves the minimum as it is."""
        d = source.dim
        coef = _reached(risk, minimum(risk, source.total, np.zeros(d), sample(source)))
        if law == NO_NOISE:
            return Released(coef, law)
        if not risk.accurate(d):
            raise PrivacyError(
                "output perturbation is not proved here: the recipe should have refused it"
            )
        return Released(self._added(coef, law, risk.minimiser_sensitivity()), law)

    def _objective_perturbed(
        self, release: PerturbedMinimum | LaplaceMinimum, law: Law, source: Source, risk: Risk
    ) -> Released:
        """Carry out Algorithm 1, with the mask that hides how far the float minimum is from the
        real one.
        """
        d = source.dim
        # b on a grid that is finer than its own size by 40 bits: floats hold it exactly
        step = 2.0 ** (math.frexp(_size(law))[1] - _BITS_OF_B)
        b = from_grid(rounded(law, step, d, self._bits), step)
        coef = _reached(risk, minimum(risk, source.total, b, sample(source)))
        # two neighbours' float minima are off by an error each, so the mask hides twice that
        moved = 2 * risk.minimum_error(d, step * math.sqrt(d)) * (1 + SLACK)
        # never smaller than this, which is far below the standard error (docs/method.md, section 7)
        smallest = _SMALLEST_MASK * _size(law)
        smallest /= risk.ridge + risk.n * risk.loss.curvature_bound / d
        size = max(smallest, moved / release.mask)
        mask: Law
        if isinstance(release, PerturbedMinimum):
            mask = Gaussian(size)
        else:
            mask = SphericalLaplace(1 / size)
        value = self._added(coef, mask, release.mask * size)
        return Released(value, law, math.sqrt(mask.variance(d)))

    def _added(self, exact: Array, noise: Law, bound: float) -> Array:
        """Return the array on a grid plus exactly rounded noise: that is round(exact + noise), so
        privacy loses nothing.
        """
        if noise == NO_NOISE:
            return exact
        # one step per number moves a vector by sqrt m steps, and the sum of its entries by m
        of_vector = bound / math.sqrt(exact.size) if isinstance(noise, Laplace) else bound
        step = grid(of_vector, exact.size)
        integers = to_grid(exact, step).ravel() + rounded(noise, step, exact.size, self._bits)
        return from_grid(integers, step).reshape(exact.shape)


def _other(release: Release) -> PrivacyError:
    return PrivacyError(
        f"the step {release.step!r} was booked as {release.mechanism}, and that is not its release"
    )


def _size(law: Law) -> float:
    return law.scale if isinstance(law, Gaussian) else 1 / law.rate


def _reached(risk: Risk, search: Search) -> Array:
    """Return the step to the minimum, drawn back to the public reach; one fixed error if the search
    fell short.
    """
    if risk.ridge == 0:  # noise is off: private releases need a ridge
        return search.coef
    beyond = max(1.0, float(np.linalg.norm(search.coef)) / risk.reach)
    if not search.gradient_norm <= risk.tolerance * beyond:
        raise PrivacyError(
            "the minimum was not reached to the accuracy that privacy rests on: nothing was released"
        )
    return search.coef / beyond
