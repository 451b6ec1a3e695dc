"""One batch of replicates: draw, fit, add the plan's noise, form the intervals.  The formulas are the product's."""

from dataclasses import dataclass, field, fields

import numpy as np

from dpinfer.fit.estimate import noise_map
from dpinfer.fit.matrices import repaired
from dpinfer.fit.plan import ObjectivePerturbation, Plan
from dpinfer.maths.arrays import Array
from dpinfer.maths.inference import half_width, sandwich
from dpinfer.maths.laws import NO_NOISE, Law
from dpinfer.privacy.budget import NoPrivacy, Share
from dpinfer.simulate.engine import Batch, Engine
from dpinfer.simulate.population import Population

BLOCK = 128
"""Replicates that share a stream of noise; fixed, so that no other size changes a study."""


@dataclass(frozen=True)
class Tally:
    """Sums over replicates, one number a coefficient; two tallies add up to that of both."""

    replicates: int
    covered: Array
    length: Array
    length_squared: Array
    nonprivate: Array
    reported: Array

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class Trial:
    """A study's public setting and its engine.  ``back`` maps coefficients to the units of the study."""

    engine: Engine
    population: Population
    plan: Plan
    seed: int
    back: Array
    noise: Law = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", self.plan.noise(self.engine.risk))

    @property
    def target(self) -> Array:
        """What the intervals should cover: the minimiser on the population."""
        return np.asarray(self.back @ self.engine.start)

    def estimates(self, replicates: range) -> Array:
        """Released coefficients alone."""
        counts = self._counts(replicates)
        b = self._draw(self.noise, 0, replicates, self.engine.dim)
        if isinstance(self.plan.mechanism, ObjectivePerturbation):
            return self.engine.fit(counts, b).coef @ self.back.T
        return (self.engine.fit(counts, 0 * b).coef + b) @ self.back.T

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Intervals of one batch, held against the target."""
        coef, hessian, score_cov, plain = self._release(replicates, nonprivate)
        half = self._half(hessian, score_cov, self.noise, level)
        error = np.abs(coef @ self.back.T - self.target)
        return Tally(
            replicates=len(replicates),
            covered=(error <= half).sum(axis=0).astype(float),
            length=(2 * half).sum(axis=0),
            length_squared=((2 * half) ** 2).sum(axis=0),
            nonprivate=np.zeros(len(self.back)) if plain is None else self._plain_length(plain, level),
            reported=np.isfinite(half).sum(axis=0).astype(float),
        )

    def _release(self, replicates: range, nonprivate: bool) -> tuple[Array, Array, Array, Batch | None]:
        """θ~, H~ and Σ~ of every replicate; and the fits without noise, where they are wanted."""
        engine, counts = self.engine, self._counts(replicates)
        b = self._draw(self.noise, 0, replicates, engine.dim)
        if isinstance(self.plan.mechanism, ObjectivePerturbation):
            batch = engine.fit(counts, b)
            coef, curvature, score = batch.coef, batch.curvature, batch.score
            plain = engine.fit(counts, 0 * b) if nonprivate and self.noise != NO_NOISE else batch
        else:
            plain = engine.fit(counts, 0 * b)
            coef = plain.coef + b
            curvature, score = engine.matrices(counts, coef)
        risk, d = engine.risk, engine.dim
        score_bounds = np.array([risk.score_sum(theta).bound for theta in coef])
        curvature_bound = risk.curvature_sum(coef[0]).bound
        curvature = curvature + curvature_bound * self._matrix_noise(self.plan.hessian, 1, replicates, d)
        score = score + score_bounds[:, None, None] * self._matrix_noise(self.plan.covariance, 2, replicates, d)
        noisy = not isinstance(self.plan.hessian, NoPrivacy)
        return coef, *repaired(risk, coef, curvature, score, noisy=noisy), plain if nonprivate else None

    def _half(self, hessian: Array, score_cov: Array, noise: Law, level: float) -> Array:
        n = self.engine.n
        sampling = self.back @ sandwich(hessian, score_cov, n) @ self.back.T
        return half_width(sampling, self.back @ noise_map(self.plan.mechanism, hessian, n), noise, level)

    def _plain_length(self, plain: Batch, level: float) -> Array:
        matrices = repaired(self.engine.risk, plain.coef, plain.curvature, plain.score, noisy=False)
        return np.asarray((2 * self._half(*matrices, NO_NOISE, level)).sum(axis=0))

    def _matrix_noise(self, share: Share, stream: int, replicates: range, d: int) -> Array:
        """Noise of a matrix whose bound is 1; noise is proportional to the bound."""
        return self._draw(share.noise(1.0), stream, replicates, d * d).reshape(-1, d, d)

    def _counts(self, replicates: range) -> Array:
        counts: Array = self.population.counts(self.engine.xp, self.seed, replicates, self.engine.device)
        return counts

    def _draw(self, law: Law, stream: int, replicates: range, dim: int) -> Array:
        """Noise of some replicates: each block of them has a stream of its own for each release."""
        blocks = range(replicates.start // BLOCK, (replicates.stop - 1) // BLOCK + 1)
        drawn = [law.sample(np.random.default_rng([self.seed, stream, k]), (BLOCK, dim)) for k in blocks]
        offset = replicates.start - blocks.start * BLOCK
        return np.concatenate(drawn)[offset : offset + len(replicates)]
