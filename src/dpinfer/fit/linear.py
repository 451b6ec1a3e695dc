"""Least squares by one step: a crude line, a clip for influences, and an exact step from the line.

Outcomes are in units of half their public range; the result returns to those of the user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpinfer.errors import InputError
from dpinfer.fit import noiseless
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.recipe import NoLoss, Options, Recipe
from dpinfer.fit.stepped import (
    CRUDE,
    ESTIMATE,
    FIRST_STEP,
    INFLUENCE,
    MOMENTS,
    ORDINARY,
    OUTCOME,
    ROBUST,
    SCALES,
    TYPICAL,
    AtLine,
    Finished,
    Place,
    Setting,
    Stepped,
    StepPlan,
    crude_moments,
    in_the_geometry,
    ordinary_words,
    refined_moments,
)
from dpinfer.inference.joint import SIGNAL
from dpinfer.inference.moments import (
    SQUARES_RADIUS,
    Columns,
    Moments,
    Radius,
    Scales,
    centre_of,
    of_columns,
    preconditioner,
    raised,
)
from dpinfer.inference.newton import Terrain, crude_line
from dpinfer.inference.posterior import LEAST_RECORDS, Fitted, Step, outcome_sizes
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.tails import Clip, Tail, TailLaw
from dpinfer.inference.winsorising import Costs, WinsorLimits
from dpinfer.mechanisms.histograms import histogram, influence_histogram
from dpinfer.mechanisms.step_sums import Line, Stack, step_sums
from dpinfer.mechanisms.sums import Block, moment_and_score
from dpinfer.numerics.arrays import Array, solved
from dpinfer.numerics.bins import inner_edges
from dpinfer.numerics.links import IDENTITY
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Band, Model, Words
from dpinfer.rows.encoded import OutcomesOnly, cached
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design

LINEAR_TARGETS = (ORDINARY, ROBUST)
BALANCED = "balanced"
CAUTIOUS = "cautious"
ALL = "all"
TAILS = (BALANCED, CAUTIOUS, ALL)

_LINEAR = {
    SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.10, FIRST_STEP: 0.09, INFLUENCE: 0.05, ESTIMATE: 0.66,
}  # fmt: skip
_ROBUST = {
    SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.14, INFLUENCE: 0.03, FIRST_STEP: 0.24, ESTIMATE: 0.49,
}  # fmt: skip
_ALL = {SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.14, ESTIMATE: 0.76}

_RANGE = 2.0  # of a scaled outcome
_REACH = 4.0  # times half the released range of outcomes: the largest influence that is told apart
_KNEE = 0.1  # the share of records that the robust target clips
_CAUTION = 1.0  # deviations of its noise by which a cautious tail is longer
_DEVIATIONS = 2.5  # of an outcome in half of its released range
_ONE_STEP = 0.3  # of the mean curvature: the least that a first step trusts
_CLIPPED = 1e-9  # an outcome that the band moves by less is as it was


@dataclass(frozen=True)
class LeastSquares(NoLoss):
    """Least squares, whose loss has a clip in the place of a bound."""

    tail: str = BALANCED


_IN_THE_BAND = (
    "in the fit, outcomes are pulled into a released band around a released line; the intervals allow for what the "
    "tail that the budget can see leaves beyond it, and where more is cut off they are about outcomes in the band"
)
_HUBER = (
    "the coefficients of a Huber regression in the population, with all columns of the formula, whose residuals are "
    "pulled into a released band; they are not those of least squares, and no stand-in for them"
)


@dataclass(frozen=True)
class LinearPlan(StepPlan):
    """Of least squares: a budget, the target, its tail, the adjacency, and the shares of the
    stages.

    ``adjacency`` is "replace" or "add-remove"; ``neighbours`` is another name of it.

    ``target`` is "ordinary" (ordinary least squares) or "robust" (a Huber estimand, with a first step
    of its own).  ``tail`` says how much of the outcome's tail is kept: "balanced" weighs noise
    against what is clipped, "cautious" takes the tail for longer than it looks, "all" clips nobody
    whose prediction is within the public range.  ``draws`` are those of the law of the error, for
    bands; they cost nothing.
    ``far_values`` says whether a winsorised number is reported ("clip") or only an alternative
    ("strict").
    """

    tail: str = BALANCED

    def __post_init__(self) -> None:
        if self.tail not in TAILS:
            raise InputError(
                f"tail of least squares must be one of {', '.join(map(repr, TAILS))}, not {self.tail!r}"
            )
        if self.target == ROBUST and self.tail != BALANCED:
            raise InputError(
                "a tail belongs to the target 'ordinary': leave it out, the robust target clips at a tenth of the "
                "records"
            )
        self._check(LINEAR_TARGETS)

    @property
    def usual(self) -> Mapping[str, float]:
        """The robust target takes a step more, as it is not linear; where nobody is clipped no
        influence is needed.
        """
        if self.tail == ALL:
            return _ALL
        return _ROBUST if self.target == ROBUST else _LINEAR

    @property
    def radius(self) -> Radius:
        """Those of least squares."""
        return SQUARES_RADIUS

    @property
    def stack(self) -> Stack:
        """That of least squares."""
        return Stack.of(self.relation)

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed: a rule of
        thumb.

        Typical is a level that N = n/20 records have, in a direction of squared length v² = κd/20,
        at least 1.  It takes N >= 15 and N >= 2.5 h v², h the noise of the curvature.  And it takes
        a curvature n/κd of all columns that is clear of the norm h sqrt(2d) of its noise, N >= h v²
        sqrt(2d): noise that bends all directions hides columns long before it hides one of them.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL)
        return n * TYPICAL / max(LEAST_RECORDS, noise * max(SIGNAL, math.sqrt(2 * d)))


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


@dataclass(frozen=True, eq=False)
class FinishedLine(Finished):
    """A fit with the range of its outcome, the clip of influences, and κ of its rows."""

    where: Range
    clip: Clip
    kappa: float


@dataclass(frozen=True)
class LinearSteps(Stepped[LinearPlan]):
    """Least squares of a design with an intercept."""

    NAME = "least squares"
    TARGETS: ClassVar[tuple[str, ...]] = LINEAR_TARGETS
    OFFER = "least squares has 'ordinary' or 'robust'"
    FAMILY = IDENTITY

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """Whatever is asked of least squares, by a budget or a plan."""
        if not isinstance(options.loss, LeastSquares):
            return None
        tail = options.loss.tail
        plan = cls._plan(LinearPlan, design, options, tail=tail)
        if plan is None:
            return None
        if tail not in (BALANCED, plan.tail):
            raise InputError("a LinearPlan has its tail: leave out tail=")
        cls._require_plain(design, options)
        # the robust target has its band from the releases, with or without noise
        if isinstance(plan.budget, NoPrivacy) and plan.target == ORDINARY:
            return Ordinary(cls(design, plan))
        return cls(design, plan)

    @staticmethod
    def ordinary(people: Block) -> NoiselessFit:
        """Ordinary least squares of rows (1, x~).  NOT PRIVATE."""
        return noiseless.least_squares(people.rows, people.labels, people.shares, people.starts)

    @staticmethod
    def as_seen(
        result: FitResult, design: Design, seen: Block, columns: Array, asked: NoiselessFit
    ) -> tuple[NoiselessFit, float]:
        """Least squares of outcomes pulled into the band or, of the robust target, with residuals
        pulled into it.  NOT PRIVATE.
        """
        geometry = result.geometry
        band = result.band
        assert geometry is not None
        assert band is not None
        scale = design.outcome
        outcomes = scale.centre + scale.half * seen.labels
        pulled = scale.bounded(band.pulled(geometry, columns, outcomes))
        clipped = float((np.abs(pulled - seen.labels) > _CLIPPED).mean())
        if result.model.target == ROBUST:
            most = band.half_width(geometry, columns) / scale.half
            weights = np.asarray(seen.weights)
            return noiseless.huber(seen.rows, seen.labels, asked.coef, weights, most), clipped
        return noiseless.least_squares(seen.rows, pulled, seen.weights), clipped

    @property
    def released_estimand(self) -> bool:
        """The robust target has its band from the releases."""
        return self.plan.target == ROBUST

    def words(self, n: int | None) -> Words:  # noqa: ARG002  (nothing depends on it)
        """Of least squares, or of the Huber regression of the robust target."""
        geometry = in_the_geometry(self.design, "prediction")
        name = self.NAME
        about = [ordinary_words(self.design, self.NAME), _IN_THE_BAND, geometry]
        if self.plan.target == ROBUST:
            name = "robust regression, no mean"
            about = [_HUBER, geometry]
        return Words(
            name=name,
            about="; ".join(about),
            method="least squares in a released geometry, docs/linear.md of dpinfer.",
        )

    def _fitted(self, gate: Gate, source: Source, at: Setting, seed: int) -> FinishedLine:
        booked = self.booked
        crude = crude_moments(gate, booked.of(CRUDE)[0], source, at)
        where = self._range(gate, cached(OutcomesOnly(source)), crude.n)
        what = moment_and_score(self.neighbours, where.middle, where.half)
        known = refined_moments(gate, booked.of(MOMENTS)[0], source, at, crude, what)
        kappa = of_columns(self._kappa(known.n), len(at.columns))
        rows = self._kappa(known.n)
        # a ridge in columns that are whitened, whatever their bounds are
        white = preconditioner(known.matrix, at.columns, known.n, rows)
        coef = self._crude_line(known, where, white, rows)
        if self.plan.target == ORDINARY and booked.of(FIRST_STEP):
            rows = self._of_rows(known.n, _DEVIATIONS)
        limits = self._limits_of(known, coef, kappa, rows, where, at)
        matrix = self._geometry(known, limits, kappa, rows, at)
        if self.plan.target == ORDINARY:
            place = self._place(matrix, coef, limits, known, where, at)
            for release in booked.of(FIRST_STEP):
                usual = math.sqrt(known.n / len(coef)) / release.deviation / _DEVIATIONS
                first = where.half / math.sqrt(rows) * max(1.0, usual)
                coef = self._better_line(gate, release, source, place, first)
                # the limits rest on the coefficients, which are known better now
                limits = self._limits_of(known, coef, kappa, rows, where, at)
                matrix = self._geometry(known, limits, kappa, rows, at)
        line = self._line(matrix, coef, limits, at)
        tail = self._influences(gate, source, line, known.n, where, rows)
        if tail is None:
            clip = Clip(_RANGE)
        elif self.plan.target == ROBUST:
            clip = Clip(tail.point(_KNEE))
            for release in booked.of(FIRST_STEP):
                line = self._robust_step(gate, release, source, line, clip)
        else:
            noise = self._scales().gradient / known.n
            clip = self._chosen_clip(TailLaw(tail), limits, coef, matrix, noise)
        last = self._last_step(gate, source, known.n, line, clip, at)
        fit = Fitted.of(last, matrix, known, at.columns, centre_of(known.matrix, at.columns))
        fit = self._allowing_for(fit, where, clip, rows)
        fit, said = self._concluded(self._asked(fit, at), limits, 1.0, line.clipped, seed)
        return FinishedLine(line, fit, said, where, clip, rows)

    def _kappa(self, n: float) -> float:
        return self._scales().kappa(len(self.design.names), n)

    @staticmethod
    def _geometry(
        known: Moments, limits: WinsorLimits, kappa: float, rows: float, at: Setting
    ) -> Array:
        """The matrix of the geometry: columns are scaled by their radius, rows have their own."""
        matrix = preconditioner(known.matrix, at.columns, known.n, kappa, limits.reach, rows)
        return matrix * math.sqrt(kappa / rows)

    def _limits_of(
        self, known: Moments, coef: Array, kappa: float, rows: float, where: Range, at: Setting
    ) -> WinsorLimits:
        """The limits of numbers: a clip of influences is taken for 2.5 sds of a residual."""
        d = len(coef)
        scales = self._scales()
        costs = Costs(
            radius2=kappa * d,
            noise_share=(scales.gradient * _DEVIATIONS) ** 2 * d / known.n,
            hessian_share=scales.hessian * rows * d / known.n,
            size=where.half / _DEVIATIONS,
        )
        information = known.n / (where.half / _DEVIATIONS) ** 2
        return self._limits(known.matrix, coef, information, costs, at, known)

    def _place(
        self,
        matrix: Array,
        coef: Array,
        limits: WinsorLimits,
        known: Moments,
        where: Range,
        at: Setting,
    ) -> Place:
        """Where the first step is taken."""
        moments = known.of(np.arange(len(coef)))
        dispersion = (where.half / _DEVIATIONS) ** 2
        terrain = Terrain(moments, coef, matrix, IDENTITY, dispersion=dispersion)
        return Place(terrain, self._line(matrix, coef, limits, at))

    def _range(self, gate: Gate, source: Source, n: float) -> Range:
        """Three histograms, each inside what the last has left."""
        low, high = -_RANGE / 2, _RANGE / 2
        for booked in self.booked.of(OUTCOME):
            counts = gate.release(
                booked, source, histogram(inner_edges(low, high), self.neighbours)
            ).value
            low, high = narrowed(counts, low, high, n, booked.deviation)
        return Range(low, high)

    def _crude_line(self, known: Moments, where: Range, matrix: Array, kappa: float) -> Array:
        """Coefficients of (1, x') from the moments: a ridge in columns whitened by the geometry."""
        whitening = matrix * np.sqrt(kappa * len(matrix))
        noise = 2 * known.noise * whitening @ known.back
        moments = whitening @ known.matrix @ whitening.T
        line = (
            where.half
            * whitening.T
            @ crude_line(moments, 2 * whitening @ known.score, noise @ noise.T, known.n)
        )
        line[0] += where.middle
        return np.asarray(line)

    def _line(self, matrix: Array, coef: Array, limits: WinsorLimits, at: Setting) -> Line:
        ends = self._winsorised(limits, at)
        return Line(IDENTITY, matrix @ at.matrix, coef @ at.matrix, np.inf, *ends)

    def _influences(
        self, gate: Gate, source: Source, line: Line, n: float, where: Range, kappa: float
    ) -> Tail | None:
        """The released tail of influences; None where nobody should be clipped.

        The counts begin at four times the released range of outcomes: above, where nearly nobody is,
        each bin would add its noise to all below.
        """
        booked = self.booked.of(INFLUENCE)
        if not booked:
            return None
        shorter = math.sqrt(min(1.0, self._kappa(n) / kappa))
        largest = min(_RANGE, _REACH * where.half) * shorter
        what = influence_histogram(largest, self.neighbours)
        rows = AtLine(source, line, self.design.norm2, self.neighbours)
        counts = gate.release(booked[0], rows, what).value
        caution = _CAUTION if self.plan.tail == CAUTIOUS else 0.0
        return Tail.halving(
            counts, n, booked[0].deviation, largest, caution=caution, end=_RANGE * shorter
        )

    def _released(
        self, gate: Gate, booked: NoisySum, source: Source, line: Line, clip: Clip
    ) -> tuple[Array, Array, Array]:
        """Score, curvature and score covariance at a line."""
        stack = self.plan.stack
        d = len(line.matrix)
        what = step_sums(
            line, clip.size, stack, self.design.norm2, robust=self.plan.target == ROBUST
        )
        return stack.split(gate.release(booked, source, what).value, d, clip.size)

    def _robust_step(
        self, gate: Gate, booked: NoisySum, source: Source, line: Line, clip: Clip
    ) -> Line:
        """A better line for the robust target, which is not linear: a step of its own."""
        score, hessian, _ = self._released(gate, booked, source, line, clip)
        mean = float(np.trace(hessian)) / len(score)
        if mean <= 3 * self._scales(FIRST_STEP).hessian:
            return line
        step = solved(raised(hessian, _ONE_STEP * mean), score)
        return replace(line, coef=line.coef + line.matrix.T @ step)

    def _last_step(
        self, gate: Gate, source: Source, n: float, line: Line, clip: Clip, at: Setting
    ) -> Step:
        """The step of the estimate: it is exact, and leaves nothing."""
        score, hessian, score_cov = self._released(
            gate, self.booked.of(ESTIMATE)[0], source, line, clip
        )
        scales: Scales = self._scales()
        nothing = np.zeros(len(score))
        return Step(
            line=solved(line.matrix.T, line.coef),
            step=nothing,
            score=score,
            rest=nothing,
            hessian=hessian,
            score_cov=at.clustered(score_cov, source, n),
            score_noise=clip.size * scales.gradient,
            rest_noise=0.0,
            scales=replace(scales, score_cov=clip.size**2 * scales.score_cov),
            family=IDENTITY,
        )

    def _allowing_for(self, fit: Fitted, where: Range, clip: Clip, kappa: float) -> Fitted:
        """Sizes in units of the outcome; what the clip takes off may all move the level, and any
        direction by a part of it.
        """
        allowed = np.zeros(len(fit.centre))
        allowed[0] = math.sqrt(kappa) * clip.excess
        return replace(
            fit,
            sizes=outcome_sizes(fit.spread, fit.columns.dummy, where.half / _DEVIATIONS),
            allowed=allowed,
            bias=self._clip_bias(fit, clip),
        )

    def _result(self, gate: Gate, n: int, at: Setting, done: Finished) -> FitResult:
        assert isinstance(done, FinishedLine)
        result = super()._result(gate, n, at, done)
        assert result.geometry is not None
        return replace(result, band=self._band(result.geometry.pilot_coef, done))

    def _band(self, line: Array, done: FinishedLine) -> Band:
        """The line and the band around it, in the units of the user."""
        outcome = self.design.outcome
        where = done.where
        clip = done.clip
        drawn = outcome.half * line
        drawn[0] += outcome.centre
        # an influence times it is a residual, for a record of average influence
        size = math.sqrt(done.kappa) * outcome.half
        return Band(
            pilot_coef=drawn,
            clip=outcome.half * clip.size,
            width=size * clip.size,
            excess=size * clip.excess,
            limit=size * clip.limit,
            low=outcome.centre + outcome.half * where.low,
            high=outcome.centre + outcome.half * where.high,
        )

    def model(self, n: int | None) -> Model:
        """What was estimated."""
        return Model(
            loss="Huber" if self.plan.target == ROBUST else "squared error",
            penalty=0.0,
            n=n,
            target=self.plan.target,
            unit=self.design.unit,
            mechanism="Gaussian sums at a released line",
            recipe="steps",
            words=self.words(n),
            of="residual",
            centre=self.design.outcome.centre,
            penalty_scale=self.design.outcome.half,
        )
