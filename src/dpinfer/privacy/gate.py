"""The only door from exact numbers to released ones.

A gate is opened with the shares of one fit.  It books them all, then lets each share be used once:
a bounded sum plus noise, the minimum of a perturbed risk, or a minimum plus noise.
Nothing the solver says (iterations, gradient norm) leaves the gate.
"""

from dataclasses import dataclass

import numpy as np

from dpinfer.data.source import Source
from dpinfer.errors import LedgerError, PrivacyError
from dpinfer.maths.arrays import Array
from dpinfer.maths.bounded import BoundedSum
from dpinfer.maths.laws import NO_NOISE, Gaussian, Law, SphericalLaplace
from dpinfer.maths.minimise import minimise
from dpinfer.maths.perturbation import PerturbedObjective
from dpinfer.maths.risk import PenalisedRisk
from dpinfer.maths.weighted import WeightedRisk, perturbed
from dpinfer.privacy.budget import ZCDP, NoPrivacy, Share
from dpinfer.privacy.ledger import Book, Entry
from dpinfer.privacy.noise import privacy_randomness

TOLERANCE = 1e-12
"""Gradient norm a record at which a minimum counts as reached, relative to the slope bound."""


@dataclass(frozen=True)
class Released:
    """A number that may be published, and the law of the noise that is in it (or in its objective)."""

    value: Array
    noise: Law


class Gate:
    """One fit's releases.

    Guarantee [booked_first]: the spend is in the ledger before the first record is read; if it is refused,
    nothing is computed.
    Guarantee [spent_once]: each booked share pays for one release.
    """

    def __init__(self, entry: Entry, ledger: Book | None, insecure_seed: int | None = None) -> None:
        self._shares: dict[str, Share] = {event.step: event.share for event in entry.events}
        self._additive = {event.step for event in entry.events if event.additive}
        self._perturbed = {event.step: event.perturbed for event in entry.events}
        self._randomness = privacy_randomness(insecure_seed)
        self.release_id: str | None = None
        if ledger is None:
            return
        if not hasattr(ledger, "book"):
            raise LedgerError("ledger= takes a dpinfer Ledger, or None to book nothing")
        if insecure_seed is not None:
            raise LedgerError("a seeded fit is not private and cannot be booked: drop insecure_seed or the ledger")
        self.release_id = ledger.book(entry)

    def noisy_sum(self, step: str, source: Source, bounded: BoundedSum) -> Released:
        """A sum over records plus noise scaled to its bound, in every entry of the array."""
        noise = self._take(step).noise(bounded.bound)
        exact = source.total(bounded.of_block)
        return Released(exact + self._draw(noise, exact.size).reshape(exact.shape), noise)

    def perturbed_minimum(self, step: str, source: Source, risk: PenalisedRisk, kind: str) -> Released:
        """The minimum of the risk plus b·θ (Algorithm 1); the noise is that of b, Laplace or Gaussian."""
        self._not_additive(step)
        noise = objective_noise(self._take(step), risk, kind)
        if isinstance(noise, Gaussian) and noise != NO_NOISE:
            self._as_booked(step, risk.perturbed(noise.scale))
        return Released(_minimiser(source, risk, self._draw(noise, source.dim)), noise)

    def centred_minimum(self, step: str, source: Source, risk: WeightedRisk) -> Released:
        """The minimum of a weighted risk plus b·t, b Gaussian, as the step from the centre of its ridge."""
        self._not_additive(step)
        share = self._take(step)
        if not isinstance(share, ZCDP):
            raise PrivacyError(f"the step {step!r} draws Gaussian noise and needs a zCDP share")
        noise = Gaussian(risk.perturbation_scale(share.rho))
        self._as_booked(step, perturbed(noise.scale, risk.ridge, risk.neighbours))
        return Released(_minimiser(source, risk, self._draw(noise, source.dim)), noise)

    def noisy_minimum(self, step: str, source: Source, risk: PenalisedRisk) -> Released:
        """The minimum of the risk, plus noise (Algorithm 4)."""
        noise = output_noise(self._take(step), risk)
        exact = _minimiser(source, risk, np.zeros(source.dim))
        return Released(exact + self._draw(noise, source.dim), noise)

    def _not_additive(self, step: str) -> None:
        if step in self._additive:
            raise PrivacyError(f"the step {step!r} was booked as a sum plus noise, which costs less: book it as it is")

    def _as_booked(self, step: str, release: PerturbedObjective) -> None:
        """What was booked with its parameters must be released with them: the (ε, δ) cost rests on both."""
        booked = self._perturbed.get(step)
        if booked is not None and (release.shape, f"{release.scale:.9g} {release.k:.9g}") != (
            booked.shape,
            f"{booked.scale:.9g} {booked.k:.9g}",
        ):
            raise PrivacyError(f"the step {step!r} was booked with other parameters than those of its release")

    def _take(self, step: str) -> Share:
        if step not in self._shares:
            raise PrivacyError(f"no booked share is left for the step {step!r}")
        return self._shares.pop(step)

    def _draw(self, noise: Law, size: int) -> Array:
        return noise.sample(self._randomness, (size,))


def objective_noise(share: Share, risk: PenalisedRisk, kind: str) -> Law:
    """The law of b in objective perturbation; with Laplace noise a zCDP share runs at ε = sqrt(2ρ)."""
    if isinstance(share, NoPrivacy):
        return NO_NOISE
    if kind == "gaussian":
        return Gaussian(risk.perturbation_scale(share.zcdp().rho))
    return SphericalLaplace(risk.perturbation_rate(share.pure().epsilon, sharp=kind == "sharp laplace"))


def output_noise(share: Share, risk: PenalisedRisk) -> Law:
    """The law of the noise in Algorithm 4."""
    return NO_NOISE if isinstance(share, NoPrivacy) else share.noise(risk.minimiser_sensitivity())


@np.errstate(all="ignore")  # a warning would tell of a value
def _minimiser(source: Source, risk: PenalisedRisk | WeightedRisk, b: Array) -> Array:
    """argmin of the risk plus b·θ."""
    d = source.dim
    ridge = risk.ridge * np.eye(d)

    def totals(coef: Array) -> tuple[float, Array, Array]:
        sums = source.total(risk.totals(coef))
        value = float(sums[0] + risk.ridge / 2 * coef @ coef + b @ coef)
        return value, sums[1 : d + 1] + risk.ridge * coef + b, sums[d + 1 :].reshape(d, d) + ridge

    tolerance = TOLERANCE * risk.n * risk.loss.slope_bound
    return minimise(totals, d, tolerance, strongly_convex=risk.ridge > 0).coef
