"""The story of a least-squares fit: Gaussian sums, then post-processing only.

1. crude moments   sum x xᵀ                              -> a crude geometry
2. outcome range   three histograms of y, zooming in     -> a scale for y in the next release
3. moments         sum w u uᵀ and the score there        -> the columns of the fit, its geometry, a crude line
4. influence       a histogram of w‖u‖|r|                -> the clip
5. estimate        score, curvature, score covariance    -> an exact step from the line, and its intervals

Outcomes are in units of half their public range; `Linear._result` returns to those of the user.
"""

import secrets
from dataclasses import dataclass, replace

import numpy as np

from dpinfer.data.changed import Narrow, kept
from dpinfer.data.source import Source
from dpinfer.fit.frame import Frame, Winsorised, framed, in_frame
from dpinfer.fit.geometry import InGeometry, crude_moments, in_units, published, refined_moments, to_box
from dpinfer.fit.linear.plan import CAUTIOUS, ROBUST, LinearPlan
from dpinfer.fit.recipe import privacy
from dpinfer.maths.arrays import Array, Indices
from dpinfer.maths.aside import SQUARES, Estimate, fitted
from dpinfer.maths.asked import Conclusion, conclude, nothing, outcome_sizes
from dpinfer.maths.entering import Shape, shape_of
from dpinfer.maths.histograms import Tail, histogram, influence_histogram, inner_edges, narrowed
from dpinfer.maths.moments import SquaresScales, centre_of, preconditioner, raised
from dpinfer.maths.posterior import Crude, Moments
from dpinfer.maths.squares import Stack, clipped_sums, crude_line
from dpinfer.maths.sums import moment_and_score
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, Release
from dpinfer.result.band import Band
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Model

_RANGE = 2.0  # of a scaled outcome
_KNEE = 0.1  # the share of records that the robust target clips
_BEYOND_ONE = 0.32  # the share of normal numbers beyond one deviation
_CAUTION = 1.0  # deviations of its noise by which a cautious tail is longer
_SLOPES = 0.5  # of what is clipped on average: how much more or less of it a level, or a deviation of a number, may have
_DEVIATIONS = 2.5  # of an outcome in half of its released range
_ONE_STEP = 0.3  # of the mean curvature: the least that a first step trusts


@dataclass(frozen=True)
class Range:
    """Where the outcome is, by the histograms."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Of the range."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Of its width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Clip:
    """The clip of influences w‖u‖|r|, the mean of what it takes off, and a usual size of one, where it is known."""

    size: float
    excess: float
    usual: float | None = None


@dataclass(frozen=True)
class Linear(InGeometry[LinearPlan]):
    """Least squares of a design with an intercept, without a penalty."""

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (their noise does not depend on n)
        """Sums over records, all of them."""
        return self.plan.releases().all

    def run(self, gate: Gate, source: Source) -> FitResult:
        """All releases, then post-processing.

        Guarantee [linear_released_values_only]: line, clip, columns, statuses and intervals are functions of the
        releases and of public facts: with the same releases, other records give the same result.
        """
        rows = kept(source)
        frame = framed(gate, self.plan.releases().scales, rows, self.design, self.neighbours)
        return replace(self, design=frame.design(self.design)).run_in(gate, source, rows, frame)

    def run_in(self, gate: Gate, source: Source, rows: Source, frame: Frame) -> FitResult:
        """The releases of the fit, in the frame."""
        at = self.setting()
        booked = self.plan.releases()
        crude = crude_moments(gate, booked.crude, Winsorised(rows, frame), at)
        where = self._range(gate, kept(Narrow(rows)), crude.n)
        rows = in_frame(frame, rows, self.neighbours)
        what = moment_and_score(self.neighbours, where.middle, where.half)
        known = refined_moments(gate, booked.moments, rows, at, crude, what)
        shape = self._shape(known, crude, where)
        u = kept(at.mapped(rows, shape.kept, shape.preconditioner), last=True)
        clip = self._clip(gate, u, shape)
        shape = self._stepped(gate, u, shape, clip)
        found = self._step(gate, booked.steps[-1], u, shape, clip)
        centre = centre_of(known.matrix, self.design.columns)
        seed = secrets.randbits(63) if gate.seed is None else gate.seed
        said = self._conclude(known, shape, found, centre, (where, clip), seed)
        return self._result(gate, source, (shape, found, said), centre, (where, clip))

    def _range(self, gate: Gate, source: Source, n: float) -> Range:
        """Three histograms, each inside what the last has left."""
        low, high = -_RANGE / 2, _RANGE / 2
        for booked in self.plan.releases().ranges:
            counts = gate.release(booked, source, histogram(inner_edges(low, high), self.neighbours)).value
            low, high = narrowed(counts, low, high, n, self.plan.counts(booked))
        return Range(low, high)

    def _shape(self, known: Moments, crude: Crude, where: Range) -> Shape:
        """The columns of the fit, its geometry, and a crude line as its centre."""
        scales, columns, n = self.plan.scales(), self.design.columns, known.n
        back = np.linalg.inv(crude.preconditioner)

        def guess(kept: Indices) -> Array:
            kappa = scales.kappa(len(kept), n)
            matrix = known.matrix[np.ix_(kept, kept)]
            C = preconditioner(matrix, columns.take(kept), n, kappa) * np.sqrt(kappa * len(kept))
            own = 2 * scales.moments * C @ back[kept]
            line = where.half * C.T @ crude_line(C @ matrix @ C.T, 2 * C @ known.score[kept], own @ own.T, n)
            line[0] += where.middle
            return np.asarray(line)

        return shape_of(known, columns, scales, guess)

    def _clip(self, gate: Gate, u: Source, shape: Shape) -> Clip:
        """The clip by the released tail of influences, or the largest one where nobody should be clipped."""
        booked, plan, scales = self.plan.releases().influence, self.plan, self.plan.scales()
        if booked is None:
            return Clip(_RANGE, 0.0)
        counts = gate.release(booked, u, influence_histogram(shape.centre, _RANGE, self.neighbours)).value
        caution = _CAUTION if plan.tail == CAUTIOUS else 0.0
        tail = Tail(counts, shape.n, plan.counts(booked), _RANGE, caution)
        if plan.target == ROBUST:
            return Clip(tail.point(_KNEE), 0.0, tail.point(_BEYOND_ONE))
        clip = tail.clip(np.sqrt(len(shape.kept)) * scales.gradient / shape.n)
        return Clip(*clip, tail.point(_BEYOND_ONE))

    def _step(self, gate: Gate, booked: NoisySum, u: Source, shape: Shape, clip: Clip) -> Estimate:
        """Score, curvature and score covariance at the line."""
        stack, robust = Stack.of(self.neighbours), self.plan.target == ROBUST
        released = gate.release(booked, u, clipped_sums(shape.centre, clip.size, stack, robust=robust)).value
        gradient, hessian, score_cov = stack.split(released, len(shape.kept), clip.size)
        return Estimate(shape.centre, hessian, self.setting().clustered(score_cov, u, shape.n), gradient)

    def _stepped(self, gate: Gate, u: Source, shape: Shape, clip: Clip) -> Shape:
        """The line after all steps but the last: the robust target is not linear, so it takes one of its own."""
        for k, booked in enumerate(self.plan.releases().steps[:-1]):
            found, scales = self._step(gate, booked, u, shape, clip), self.plan.scales(k)
            mean = float(np.trace(found.hessian)) / len(shape.kept)
            if mean > 3 * scales.hessian:
                step = np.linalg.solve(raised(found.hessian, _ONE_STEP * mean), found.gradient)
                shape = replace(shape, centre=shape.centre + step)
        return shape

    def _at_clip(self, clip: Clip) -> SquaresScales:
        scales = self.plan.scales()
        return replace(scales, gradient=clip.size * scales.gradient, score_cov=clip.size**2 * scales.score_cov)

    def _conclude(
        self, known: Moments, shape: Shape, found: Estimate, centre: Array, limits: tuple[Range, Clip], seed: int
    ) -> Conclusion:
        """What is said of the columns; the level may be off by all that was clipped, a slope by half of it."""
        where, clip = limits
        fit = fitted(found, shape, centre, self.design.columns, self._at_clip(clip), SQUARES)
        if fit is None:
            return nothing(found, shape, centre, seed)
        plausible = outcome_sizes(fit.spread, fit.dummy, where.half / _DEVIATIONS)
        said = conclude(fit, self.design.columns, plausible, known, self.plan.draws, seed)
        part = np.where(fit.dummy, _SLOPES, _SLOPES / fit.spread)
        part[0] = 1.0
        off = self._unit(shape) * clip.excess * part[said.reported]
        return replace(said, law=replace(said.law, below=said.law.below + off, above=said.law.above + off))

    def _unit(self, shape: Shape) -> float:
        """sqrt κ: an influence w‖u‖|r| times it is a residual, for a record of average influence."""
        return float(np.sqrt(self.plan.scales().kappa(len(shape.kept), shape.n)))

    def _result(
        self,
        gate: Gate,
        source: Source,
        made: tuple[Shape, Estimate, Conclusion],
        centre: Array,
        limits: tuple[Range, Clip],
    ) -> FitResult:
        (shape, found, said), (where, clip), design = made, limits, self.design
        unit = design.outcome.half
        coef = np.zeros(len(design.names))
        coef[shape.kept], centre[shape.kept] = said.coef, said.centre
        status, geometry = published(shape, said, centre, design)
        return FitResult(
            names=design.names,
            estimate=unit * coef / design.half + design.shift,
            error=said.law.mapped(np.diag(unit / design.half[shape.kept[said.reported]])),
            hessian=in_units(found.hessian, shape, centre, design),
            score_cov=unit**2 * in_units(found.score_cov, shape, centre, design),
            model=self._model(source.n),
            privacy=privacy(gate, self.plan.promise),
            status=status,
            geometry=geometry,
            band=self._band(shape, where, clip),
        )

    def _band(self, shape: Shape, where: Range, clip: Clip) -> Band:
        """The line and the band around it, in the units of the user."""
        outcome, kept = self.design.outcome, shape.kept
        line = outcome.half * (shape.preconditioner.T @ shape.centre) @ to_box(self.design, kept)
        line[0] += outcome.centre
        size = self._unit(shape) * outcome.half
        return Band(
            line=np.asarray(line),
            clip=outcome.half * clip.size,
            width=size * clip.size,
            excess=size * clip.excess,
            low=outcome.centre + outcome.half * where.low,
            high=outcome.centre + outcome.half * where.high,
        )

    def _model(self, n: int) -> Model:
        return Model(
            loss="Huber" if self.plan.target == ROBUST else "squared error",
            penalty=0.0,
            n=n if self.neighbours.counted else None,
            target=self.plan.target,
            whom=self.design.unit,
            mechanism="Gaussian sums in a released geometry",
            recipe="least squares",
            of="residual",
            centre=self.design.outcome.centre,
            unit=self.design.outcome.half,
        )
