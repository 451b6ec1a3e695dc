"""The noise of earlier versions, in floats, behind a gate of its own; and attacks on the last bits
of a release.

An attacker knows the code, every digit that is published and two neighbouring data sets.  For each
of the two the noise is recovered and compared with what a sampler of floats can draw and add.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpinfer.audit import grid_evidence, representable
from dpinfer.mechanisms.minimise import minimum
from dpinfer.numerics.noise_laws import NO_NOISE
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.gate import Gate, Released
from dpinfer.privacy.release import NoisyMinimum


class Inverted:
    """Normal and exponential numbers by inversion of the midpoints of 2⁵² cells, as earlier
    versions drew them.
    """

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)

    def _uniform(self, shape):
        return (self._rng.integers(0, 2**52, shape).astype(float) + 0.5) / 2.0**52

    def standard_normal(self, shape):
        return ndtri(self._uniform(shape))

    def standard_exponential(self, shape):
        return -np.log(self._uniform(shape))


class FloatGate(Gate):
    """The gate of earlier versions: float noise added in double precision, minima as the search
    leaves them.
    """

    def _draw(self, noise, size):
        if not hasattr(self, "_old"):
            self._old = Inverted(self.seed)
        return noise.sample(self._old, (size,))

    def _added(self, exact, noise, bound):
        return (
            exact
            if noise == NO_NOISE
            else exact + self._draw(noise, exact.size).reshape(exact.shape)
        )

    def _minimum(self, booked, source, risk):
        noise = booked.noise(risk)
        b = self._draw(noise, source.dim)
        if isinstance(booked, NoisyMinimum):
            return Released(minimum(risk, source.total, np.zeros(source.dim)).coef + b, noise)
        return Released(minimum(risk, source.total, b).coef, noise)


def released(gate, booked, source, what, seed):
    """One release through a gate of a kind."""
    return gate(Entry("audit", "", (booked,)), None, seed).release(booked, source, what)


def rounding(*numbers):
    """The deviation of what adding or storing these numbers in double precision loses."""
    return 0.3 * sum(np.spacing(np.abs(number)) for number in numbers)


def of_sum(out, source, what):
    """Evidence that the noise of a Gaussian sum is what a float sampler draws, if the records are
    these.
    """
    noise = out.value - source.total(what.of_block)
    return grid_evidence(noise.ravel(), out.noise.scale, rounding(out.value, noise).ravel())


def of_output(out, source, risk):
    """The same for output perturbation: the minimum is as well known as the records."""
    noise = out.value - minimum(risk, source.total, np.zeros(source.dim)).coef
    return grid_evidence(noise, out.noise.scale, rounding(out.value, noise))


def gradient(risk, source, point):
    """Of the risk with its ridge; its negative is the b that has its minimum here."""
    return source.total(risk.totals(point))[1 : source.dim + 1] + risk.ridge * point


def of_objective(out, source, risk):
    """The same for objective perturbation: the search is inverted, with the residual that it leaves
    near here.
    """
    b = -gradient(risk, source, out.value)
    again = minimum(risk, source.total, b).coef
    b = b + (b + gradient(risk, source, again))
    return grid_evidence(b, out.noise.scale, rounding(b, risk.ridge * out.value))


def fits_sum(out, source, what):
    """Minus the number of entries that no double added to this sum can give."""
    return -float((~representable(out.value.ravel(), source.total(what.of_block).ravel())).sum())


def fits_objective(out, source, risk):
    """The same where the loss is straight: the minimum is -(g + b)/λ, the quotient exact for a
    power of 4.
    """
    straight = source.total(risk.totals(np.zeros(source.dim)))[1 : source.dim + 1]
    return -float((~representable(-out.value * risk.ridge, straight)).sum())


@dataclass(frozen=True)
class Score:
    """How many data sets were told from their neighbour; ties are decided by a coin."""

    hits: int
    runs: int
    first: tuple[float, ...]
    second: tuple[float, ...]


def identify(pair, release, evidence, runs, seed=0):
    """Release one of two neighbours, each half of the time, and guess which."""
    rng, differences = np.random.default_rng(seed), ([], [])
    hits = 0
    for run in range(runs):
        truth = run % 2
        out = release(pair[truth], run)
        difference = evidence(out, pair[0]) - evidence(out, pair[1])
        differences[truth].append(difference)
        guess = int(difference < 0) if difference else int(rng.integers(2))
        hits += guess == truth
    return Score(hits, runs, tuple(differences[0]), tuple(differences[1]))


@dataclass(frozen=True)
class Transcript:
    """The estimate of a stepped fit: its value, and what was released, at which released line."""

    value: object
    booked: object
    what: object


def of_transcript(out, source):
    """The same for a stepped fit: the score and both matrices at its last line, if the records are
    these.
    """
    noise = out.value - source.total(out.what.of_block)
    scale = out.booked.noise(out.what).scale
    return grid_evidence(noise, scale, np.spacing(np.hypot(out.value, scale)))
