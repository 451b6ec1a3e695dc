"""Many penalised fits at once: draw, fit, add the plan's noise, form the intervals.  The formulas
are the product's.
"""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dpinfer.fit.penalised import (
    Aimed,
    Matrices,
    Penalised,
    aim,
    moved_by_hessian,
    noise_map,
    paper,
    tight,
)
from dpinfer.fit.penalised_plan import ObjectivePerturbation, Plan, hessian_noise
from dpinfer.maths.arrays import Array
from dpinfer.maths.error_laws import half_width, sandwich, spread, total_covariance, widened
from dpinfer.maths.losses import describe
from dpinfer.maths.noise_laws import NO_NOISE, Law
from dpinfer.maths.sums import SLACK
from dpinfer.privacy.budget import NoPrivacy, Share
from dpinfer.simulate.engine import Batch, Engine
from dpinfer.simulate.population import Population
from dpinfer.simulate.runner import Tally

BLOCK = 128
"""Replicates that share a stream of noise; fixed, so that no other size changes a study."""

GIVEN_UP = 1e-6
"""A replicate whose gradient norm could not be brought below this is not reported."""

SINGULAR = 1e-12
"""Without noise and penalty, a replicate whose mean Hessian has an eigenvalue below this is not
identified.
"""


@dataclass(frozen=True)
class BatchedTrial:
    """A penalised recipe, whose fits are so alike that an engine makes many at once."""

    recipe: Penalised
    engine: Engine
    population: Population
    seed: int
    plan: Plan = field(init=False)
    noise: Law = field(init=False)
    back: Array = field(init=False)
    target: Array = field(init=False)

    def __post_init__(self) -> None:
        """``target`` is what the intervals should cover: the minimiser on the population."""
        engine, free = (
            self.engine,
            self.recipe.target == "unpenalised" and self.engine.risk.ridge > 0,
        )
        plan = self.recipe.plan.calibrated(engine.risk)
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "noise", plan.coefficients(engine.risk).noise(engine.risk))
        object.__setattr__(self, "back", self.recipe.design.mapping)
        object.__setattr__(
            self, "target", self._in_units(engine.unpenalised() if free else engine.start)
        )

    @property
    def batch(self) -> int:
        """Replicates that are run together."""
        return BLOCK if self.engine.device is None else 32 * BLOCK

    def describe(self) -> str:
        """The setting in words."""
        risk, plan = self.engine.risk, self.plan
        model = f"n = {risk.n}, {describe(risk.loss)}, {self.recipe.target} target, penalty {risk.penalty:.6g}"
        return f"{model}, {plan.mechanism}, recipe {plan.recipe}, {plan.budget}"

    def fingerprint(self) -> bytes:
        """A digest of the data and the setting; a loss by what it does, not by its name."""
        data, risk, z = hashlib.sha256(), self.engine.risk, np.linspace(-5, 5, 201)
        self.population.update(data)
        for array in (
            self.back,
            self.recipe.design.shift,
            risk.loss.slope(z),
            risk.loss.curvature(z),
        ):
            data.update(np.ascontiguousarray(array).tobytes())
        data.update(
            repr(
                (
                    self.plan,
                    self.recipe.target,
                    describe(risk.loss),
                    risk.penalty,
                    risk.n,
                    self.seed,
                )
            ).encode()
        )
        return data.digest()

    def estimates(self, replicates: range) -> Array:
        """Released coefficients alone."""
        counts = self._counts(replicates)
        b = self._draw(self.noise, 0, replicates, self.engine.dim)
        if isinstance(self.plan.mechanism, ObjectivePerturbation):
            return self._in_units(self.engine.fit(counts, b).coef)
        return self._in_units(self.engine.fit(counts, 0 * b).coef + b)

    def tally(self, replicates: range, level: float, *, nonprivate: bool) -> Tally:
        """Intervals of one batch, held against the target."""
        coef, matrices, plain = self._release(replicates, nonprivate)
        first = self.plan.matrices(self.engine.risk)[0]
        aimed = self._aim(
            coef,
            matrices,
            hessian_noise(self.plan.recipe, first, self.engine.risk, self.engine.dim),
        )
        half = self._half(aimed, self.noise, level)
        error = np.abs(self._in_units(aimed.coef) - self.target)
        finite = np.isfinite(half) & np.isfinite(error)
        length = np.where(finite, 2 * half, 0.0)
        covered = (finite & (error <= half)).sum(axis=0).astype(float)
        reported = finite.sum(axis=0).astype(float)
        return Tally(
            replicates=len(replicates),
            covered=covered,
            stated=covered,
            length=length.sum(axis=0),
            length_squared=(length**2).sum(axis=0),
            nonprivate=length.sum(axis=0)
            if plain is None
            else self._plain_length(plain, level, finite),
            reported=reported,
            answered=reported,
        )

    def _in_units(self, coef: Array) -> Array:
        return np.asarray(coef @ self.back.T + self.recipe.design.shift)

    def _release(self, replicates: range, nonprivate: bool) -> tuple[Array, Matrices, Batch | None]:
        """θ~, H~ and Σ~ of every replicate, NaN where there is no fit; and the fits without noise,
        where wanted.
        """
        engine, counts = self.engine, self._counts(replicates)
        b = self._draw(self.noise, 0, replicates, engine.dim)
        plain = None
        if isinstance(self.plan.mechanism, ObjectivePerturbation):
            batch = engine.fit(counts, b)
            coef, curvature, score = batch.coef, batch.curvature, batch.score
            if nonprivate and self.noise != NO_NOISE:
                plain = engine.fit(counts, 0 * b)
        else:
            batch = engine.fit(counts, 0 * b)
            coef = batch.coef + b
            curvature, score = engine.matrices(counts, coef)
            plain = batch if nonprivate and self.noise != NO_NOISE else None
        fitted = batch.certificate <= GIVEN_UP
        if isinstance(self.plan.hessian, NoPrivacy):
            fitted &= (
                np.linalg.eigvalsh(np.nan_to_num(curvature))[:, 0] + engine.risk.ridge
                > SINGULAR * engine.n
            )
            curvature, score = (
                np.where(fitted[:, None, None], x, np.nan) for x in (curvature, score)
            )
            return coef, paper(engine.risk, coef, curvature, score, noisy=False), plain
        matrices = self._with_noise(coef, curvature, score, replicates)
        return np.where(fitted[:, None], coef, np.nan), matrices, plain

    def _with_noise(
        self, coef: Array, curvature: Array, score: Array, replicates: range
    ) -> Matrices:
        """The matrices with the noise of their shares, scaled by the product's bounds at the
        released coefficients.
        """
        risk, d = self.engine.risk, self.engine.dim
        if self.plan.recipe == "tight":
            law, size = self.plan.matrices(risk)[0].share.noise(1 + SLACK), d * (d + 1)
            bounds = np.array([risk.stacked_sum(theta).bound for theta in coef])[:, None]
            stacked = risk.stack(curvature, score) + bounds * self._draw(law, 1, replicates, size)
            return tight(risk, coef, stacked, law, bounds)
        bounds = np.array([risk.score_sum(theta).bound for theta in coef])[:, None, None]
        curvature_noise = risk.curvature_sum(coef[0]).bound * self._matrix_noise(
            self.plan.hessian, 1, replicates, d
        )
        score_noise = bounds * self._matrix_noise(self.plan.covariance, 2, replicates, d)
        return paper(risk, coef, curvature + curvature_noise, score + score_noise, noisy=True)

    def _aim(self, coef: Array, matrices: Matrices, entry_noise: float) -> Aimed:
        return aim(self.recipe.target, self.engine.risk, coef, matrices, entry_noise)

    def _half(self, aimed: Aimed, noise: Law, level: float) -> Array:
        n, back, matrices = self.engine.n, self.back, aimed.matrices
        sampling = sandwich(matrices.hessian, matrices.score_cov, n)
        mapping = noise_map(self.plan.mechanism, matrices.hessian, n, aimed.stepped)
        normal = sampling if aimed.step_noise is None else sampling + aimed.step_noise
        half = half_width(back @ normal @ back.T, back @ mapping, noise, level)
        if not np.any(matrices.hessian_noise):
            return half
        U = total_covariance(normal, mapping, noise)
        p = back @ np.linalg.inv(matrices.hessian)
        q = back @ moved_by_hessian(self.plan.mechanism, sampling, U)
        variance = np.einsum("ij,...jk,ik->...i", back, U, back)
        return widened(
            half, spread(p, q, variance, matrices.hessian_noise, matrices.score_noise / n), level
        )

    def _plain_length(self, plain: Batch, level: float, reported: npt.NDArray[np.bool_]) -> Array:
        """Summed length without noise, over the replicates whose private interval is reported."""
        matrices = paper(self.engine.risk, plain.coef, plain.curvature, plain.score, noisy=False)
        half = self._half(self._aim(plain.coef, matrices, 0.0), NO_NOISE, level)
        return np.asarray(np.where(reported, 2 * half, 0.0).sum(axis=0))

    def _matrix_noise(self, share: Share, stream: int, replicates: range, d: int) -> Array:
        """Noise of a matrix whose bound is 1; noise is proportional to the bound."""
        return self._draw(share.noise(1 + SLACK), stream, replicates, d * d).reshape(-1, d, d)

    def _counts(self, replicates: range) -> Array:
        counts: Array = self.population.counts(
            self.engine.xp, self.seed, replicates, self.engine.device
        )
        return counts

    def _draw(self, law: Law, stream: int, replicates: range, dim: int) -> Array:
        """Noise of some replicates: each block of them has a stream of its own for each release."""
        blocks = range(replicates.start // BLOCK, (replicates.stop - 1) // BLOCK + 1)
        drawn = [
            law.sample(np.random.default_rng([self.seed, stream, k]), (BLOCK, dim)) for k in blocks
        ]
        offset = replicates.start - blocks.start * BLOCK
        return np.concatenate(drawn)[offset : offset + len(replicates)]
