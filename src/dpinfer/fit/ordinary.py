"""The regression that was asked for, without noise, NOT PRIVATE: the twin of a private fit.

Maximum likelihood over all rows, with the sandwich covariance of rows (HC0) or of units (CR1).
Nothing is weighted down, clipped further or left out but rows that cannot be encoded.  The
intercept is the linear predictor where every column is 0.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dpinfer.adjacency import Adjacency
from dpinfer.fit.publishing import ordinary_words
from dpinfer.fit.recipe import fit, half_widths, privacy
from dpinfer.fit.stepped import Stepped
from dpinfer.inference.error_laws import ErrorLaw, sandwich
from dpinfer.mechanisms.minimise import minimise
from dpinfer.mechanisms.sums import Block, square, weighted_sum
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import FARTHEST, FARTHEST_OFFSET
from dpinfer.numerics.noise_laws import NO_NOISE
from dpinfer.numerics.reasons import Numerical
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisyMinimum, Release
from dpinfer.result.result import FitResult
from dpinfer.result.statements import (
    ALIASED,
    INTERCEPT_ABSORBED,
    REPORTED,
    SEPARATED,
    Model,
    Words,
)
from dpinfer.rows.encoded import cached
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.design import Design

_TOLERANCE: Numerical[float] = 1e-10  # of a gradient, per record: a tiny part of a standard error
# of a mean second moment of 1: no two records differ in this direction
_FLAT: Numerical[float] = 1e-10


@dataclass(frozen=True)
class Ordinary:
    """The noiseless twin of a stepped fit.  The budget of ``twin`` does not matter."""

    twin: Stepped[Any]

    @property
    def design(self) -> Design:
        """Return the design of the private fit."""
        return self.twin.design

    @property
    def neighbours(self) -> Adjacency:
        """Return the adjacency of the private fit."""
        return self.twin.neighbours

    @property
    def budget(self) -> NoPrivacy:
        """Return no budget."""
        return NoPrivacy()

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (nothing depends on it)
        """The coefficients as they are."""
        return (NoisyMinimum("estimate", NoPrivacy()),)

    def advice(self, n: int) -> str:  # noqa: ARG002
        """Return no warning."""
        return ""

    def futility(self, n: int, share: float | None = None) -> str:  # noqa: ARG002
        """Return nothing: there is no noise."""
        return ""

    def run(self, gate: Gate, source: Source) -> FitResult:
        """The maximum of the likelihood, and the matrices there.

        Where records do not tell some columns apart, their coefficients are not reported, and the
        others are those of a fit with as few of these columns as say the same.
        """
        rows = self.twin.likelihood_rows(cached(source))
        varying, flat = self._directions(rows)
        start, size = self._start(rows, varying)
        coef = varying @ self._maximum(rows, varying, start, size)
        n = max(rows.n, 1)
        curvature, scores = self._matrices(rows, coef) / n
        if self.neighbours.units:
            scores *= n / max(n - 1, 1)
        back = self.design.mapping
        status = [REPORTED if one else ALIASED for one in _known(back, flat)]
        if self.design.within:
            status[0] = INTERCEPT_ABSORBED
        steep, level = _split_flat(varying.T @ curvature @ varying, size)
        steep = varying @ steep
        for j, one in enumerate(_known(back, varying @ level)):
            if status[j] == REPORTED and not one:
                status[j] = SEPARATED
        inner = sandwich(steep.T @ curvature @ steep, steep.T @ scores @ steep, n)
        law = _normal(steep @ inner @ steep.T, gate.seed)
        printed = [j for j, word in enumerate(status) if word == REPORTED]
        forward = np.linalg.inv(self.design.back())
        outcome = self.design.outcome
        return FitResult(
            names=self.design.names,
            estimate=back @ coef + self.design.shift,
            error=law.mapped(back[printed]),
            hessian=outcome.curvature * forward.T @ curvature @ forward,
            score_cov=outcome.half**2 * forward.T @ scores @ forward,
            status=tuple(status),
            model=self._model(rows.n),
            privacy=privacy(gate, self.budget),
        )

    def _directions(self, rows: Source) -> tuple[Array, Array]:
        """Directions of coefficients in which records differ, and those in which they do not."""
        split = self._split

        def of_block(block: Block) -> Array:
            return square(split(block)[0], block.shares * np.ones(block.labels.shape))

        moments = rows.total(of_block) / max(rows.n, 1)
        sizes = np.sqrt(np.maximum(np.diag(moments), np.finfo(float).tiny))
        # columns of length 1, so that short ones are not taken for none
        values, vectors = np.linalg.eigh(moments / np.outer(sizes, sizes))
        vectors = vectors / sizes[:, None]
        flat = values <= _FLAT
        return vectors[:, ~flat], vectors[:, flat]

    def _maximum(self, rows: Source, varying: Array, start: Array, size: float) -> Array:
        """The coefficients of ``varying``, directions in which records differ, from ``start``;
        ``size`` is that of an outcome.
        """
        family = self.twin.FAMILY
        split = self._split

        def totals(step: Array) -> tuple[float, Array, Array]:
            coef = varying @ step

            def of_block(block: Block) -> Array:
                rows, offset = split(block)
                predictor = np.minimum(rows @ coef + offset, self._largest)
                mean = family.mean(predictor)
                counts = block.shares * np.ones(block.labels.shape)
                outcome = family.outcome(block.labels)
                losses = family.cumulant(predictor) - outcome * predictor
                value = weighted_sum(counts, losses[..., None])
                gradient = weighted_sum(counts * (mean - outcome), rows)
                hessian = square(rows, counts * family.slope(mean))
                lines = [gradient, np.broadcast_to(value, gradient.shape)]
                return np.concatenate([hessian, np.stack(lines, axis=-2)], axis=-2)

            summed = rows.total(of_block)
            return summed[-1, 0], varying.T @ summed[-2], varying.T @ summed[:-2] @ varying

        tolerance = _TOLERANCE * max(rows.n, 1) * size
        return minimise(totals, start, tolerance).coef

    def _start(self, rows: Source, varying: Array) -> tuple[Array, float]:
        """Return the start of the search, 0 or for counts their mean, and the size of an outcome."""
        start = np.zeros(varying.shape[1])
        if not self.twin.FAMILY.counts:
            return start, 1.0
        split = self._split

        def of_block(block: Block) -> Array:
            kept, offset = split(block)
            counts = np.where(kept[..., 0] != 0, block.shares, 0.0)
            return weighted_sum(counts, np.stack([block.labels, np.exp(offset)], axis=-1))

        total, exposed = np.maximum(rows.total(of_block), np.finfo(float).tiny)
        if total <= np.finfo(float).tiny:  # nothing to count: there is no rate
            return start, 1.0
        level = np.zeros(len(varying))
        level[0] = np.log(total / exposed) * np.sqrt(self.design.norm2)
        found, *_ = np.linalg.lstsq(varying, level, rcond=None)
        return np.asarray(found, dtype=np.float64), float(total / max(rows.n, 1))

    @property
    def _largest(self) -> float:
        """Return an upper bound of the predictor, above which the mean of a count would overflow."""
        return FARTHEST if self.twin.FAMILY.counts else np.inf

    def _split(self, block: Block) -> tuple[Array, Array]:
        """The columns with coefficients, and what is added to the predictor as it is."""
        if self.design.offset is None:
            return block.rows, np.zeros(block.labels.shape)
        scale = FARTHEST_OFFSET * np.sqrt(self.design.norm2)
        return block.rows[..., :-1], scale * block.rows[..., -1]

    def _matrices(self, rows: Source, coef: Array) -> Array:
        """Curvature and score covariance, summed over records."""
        family = self.twin.FAMILY
        split = self._split

        def of_block(block: Block) -> Array:
            kept, offset = split(block)
            mean = family.mean(np.minimum(kept @ coef + offset, self._largest))
            gaps = block.shares * (family.outcome(block.labels) - mean)
            curvature = square(kept, block.shares * family.slope(mean))
            return np.stack([curvature, replace(block, rows=kept).outer(gaps)], axis=-3)

        return rows.total(of_block)

    def _model(self, n: int) -> Model:
        return replace(
            self.twin.model(n), mechanism="maximum likelihood, without noise", words=self.words(n)
        )

    def words(self, n: int | None) -> Words:  # noqa: ARG002
        """Return name, estimand and method for reports."""
        return Words(
            name=self.twin.NAME,
            about=ordinary_words(self.design, self.twin.NAME),
            method=f"maximum likelihood with robust standard errors, without noise ({self.twin.NAME}).",
        )

    def describe(self, n: int) -> str:  # noqa: ARG002
        """The setting of a study, in words."""
        return f"{self.twin.NAME}, target {self.twin.plan.target}, {self.budget}"

    def estimand(self, population: Rows) -> Array:
        """The same on the population.  NOT PRIVATE."""
        rows = self.twin.likelihood_rows(population)
        varying, flat = self._directions(rows)
        coef = varying @ self._maximum(rows, varying, *self._start(rows, varying))
        back = self.design.mapping
        return np.where(_known(back, flat), back @ coef + self.design.shift, np.nan)

    def nonprivate(self, rows: Rows, source: Source, level: float) -> Array:  # noqa: ARG002
        """Half-widths of this very fit.  NOT PRIVATE."""
        return half_widths(fit(self, source, insecure_seed=0), level)


def _split_flat(curvature: Array, size: float) -> tuple[Array, Array]:
    """Directions in which the likelihood is curved, and those in which it is as good as flat."""
    values, vectors = np.linalg.eigh(curvature)
    flat = values <= _FLAT * size
    return vectors[:, ~flat], vectors[:, flat]


def _known(back: Array, flat: Array) -> npt.NDArray[np.bool_]:
    """Return which coefficients, in the units of ``back``, do not change along a flat direction."""
    if not flat.shape[1]:
        return np.ones(len(back), bool)
    lengths = np.linalg.norm(back, axis=1)[:, None] * np.linalg.norm(flat, axis=0)
    return np.asarray((np.abs(back @ flat) <= np.sqrt(_FLAT) * lengths).all(axis=1))


def _normal(covariance: Array, seed: int | None) -> ErrorLaw:
    """A normal law with this covariance, and nothing of privacy noise in it."""
    nothing = np.zeros_like(covariance)
    return ErrorLaw(
        sampling=covariance,
        noise_map=nothing,
        noise=NO_NOISE,
        draws=10_000,
        seed=secrets.randbits(63) if seed is None else seed,
        sampled=False,
        influence=nothing,
        response=nothing,
    )
