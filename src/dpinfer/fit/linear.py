"""Least squares by one step: a crude line, a clip for influences, and an exact step from the line.

Outcomes are in units of half their public range; the result returns to those of the user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpinfer.errors import InputError
from dpinfer.fit import noiseless
from dpinfer.fit.context import FitContext
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.publishing import band, in_the_geometry, ordinary_words
from dpinfer.fit.recipe import NoLoss, Options
from dpinfer.fit.step_plan import (
    ASKED,
    CRUDE,
    ESTIMATE,
    FIRST_STEP,
    INFLUENCE,
    MOMENTS,
    OUTCOME,
    ROBUST,
    SCALES,
    TYPICAL,
    StepPlan,
)
from dpinfer.fit.stepped import (
    FittedModel,
    LinearizedRows,
    Pilot,
    Stepped,
    crude_moments,
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
from dpinfer.inference.newton import LocalModel, least_squares_pilot
from dpinfer.inference.posterior import MIN_RECORDS, ReleasedFit, Step, outcome_sizes
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.tails import Clip, Tail, TailLaw
from dpinfer.inference.winsorising import Costs, WinsorLimits
from dpinfer.mechanisms.histograms import histogram, influence_histogram
from dpinfer.mechanisms.step_sums import Linearization, Stack, step_sums
from dpinfer.mechanisms.sums import Block, moment_and_score
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array, solved
from dpinfer.numerics.bins import inner_edges
from dpinfer.numerics.links import IDENTITY
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Band, Model, Words
from dpinfer.rows.encoded import OutcomesOnly, cached
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design

LINEAR_TARGETS = (ASKED, ROBUST)
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
_CLIP_SDS = 2.5  # of an outcome in half of its released range
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
    """Of least squares: a budget, the target, its tail, the notion of neighbours, and the shares of
    the stages.

    ``target`` is "asked" (ordinary least squares) or "robust" (a Huber estimand, with a first step
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
                "a tail belongs to the target 'asked': leave it out, the robust target clips at a tenth of the records"
            )
        self._check(LINEAR_TARGETS)

    @property
    def default_shares(self) -> Mapping[str, float]:
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
        return Stack.of(Neighbours(self.neighbours))

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
        return n * TYPICAL / max(MIN_RECORDS, noise * max(SIGNAL, math.sqrt(2 * d)))


@dataclass(frozen=True)
class OutcomeRange:
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
class FittedLinear(FittedModel):
    """A fit with the range of its outcome, the clip of influences, and κ of its rows."""

    outcome_range: OutcomeRange
    clip: Clip
    kappa: float


@dataclass(frozen=True)
class LinearSteps(Stepped[LinearPlan]):
    """Least squares of a design with an intercept."""

    NAME = "least squares"
    TARGETS: ClassVar[tuple[str, ...]] = LINEAR_TARGETS
    OFFER = "least squares has 'asked' or 'robust'"
    FAMILY = IDENTITY
    LOSS = LeastSquares
    PLAN = LinearPlan
    LOSS_NAME = "squared error"
    MECHANISM = "Gaussian sums at a released line"

    @classmethod
    def _plan(cls, design: Design, options: Options, **more: Any) -> LinearPlan | None:
        assert isinstance(options.loss, LeastSquares)
        tail = options.loss.tail
        plan = super()._plan(design, options, tail=tail, **more)
        if plan is not None and tail not in (BALANCED, plan.tail):
            raise InputError("a LinearPlan has its tail: leave out tail=")
        return plan

    @staticmethod
    def ordinary(observations: Block) -> NoiselessFit:
        """Ordinary least squares of rows (1, x~).  NOT PRIVATE."""
        return noiseless.least_squares(
            observations.rows, observations.labels, observations.shares, observations.starts
        )

    @staticmethod
    def stated_regression(
        result: FitResult,
        design: Design,
        observations: Block,
        columns: Array,
        ordinary: NoiselessFit,
    ) -> tuple[NoiselessFit, float]:
        """Least squares of outcomes pulled into the band or, of the robust target, with residuals
        pulled into it.  NOT PRIVATE.
        """
        geometry = result.geometry
        band = result.band
        assert geometry is not None
        assert band is not None
        scale = design.outcome
        outcomes = scale.centre + scale.half * observations.labels
        pulled = scale.bounded(band.pulled(geometry, columns, outcomes))
        clipped = float((np.abs(pulled - observations.labels) > _CLIPPED).mean())
        if result.model.target == ROBUST:
            upper = band.most(geometry, columns) / scale.half
            weights = np.asarray(observations.weights)
            return noiseless.huber(
                observations.rows, observations.labels, ordinary.coef, weights, upper
            ), clipped
        return noiseless.least_squares(observations.rows, pulled, observations.weights), clipped

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

    def _fit(self, gate: Gate, source: Source, context: FitContext, seed: int) -> FittedLinear:
        releases = self.releases_by_stage
        crude = crude_moments(gate, releases.of(CRUDE)[0], source, context)
        outcome_range = self._range(gate, cached(OutcomesOnly(source)), crude.n)
        query = moment_and_score(self.neighbours, outcome_range.middle, outcome_range.half)
        moments = refined_moments(gate, releases.of(MOMENTS)[0], source, context, crude, query)
        kappa = of_columns(self._kappa(moments.n), len(context.columns))
        rows = self._kappa(moments.n)
        # a ridge in columns that are whitened, whatever their bounds are
        white = preconditioner(moments.matrix, context.columns, moments.n, rows)
        coef = self._pilot_coef(moments, outcome_range, white, rows)
        if self.plan.target == ASKED and releases.of(FIRST_STEP):
            rows = self._of_rows(moments.n, _CLIP_SDS)
        limits = self._winsor_limits(moments, coef, kappa, rows, outcome_range, context)
        matrix = self._geometry(moments, limits, kappa, rows, context)
        if self.plan.target == ASKED:
            pilot = self._pilot(matrix, coef, limits, moments, outcome_range, context)
            for release in releases.of(FIRST_STEP):
                typical = math.sqrt(moments.n / len(coef)) / release.deviation / _CLIP_SDS
                first = outcome_range.half / math.sqrt(rows) * max(1.0, typical)
                coef = self._pilot_step(gate, release, source, pilot, first)
                # the limits rest on the coefficients, which are known better now
                limits = self._winsor_limits(moments, coef, kappa, rows, outcome_range, context)
                matrix = self._geometry(moments, limits, kappa, rows, context)
        linearization = self._linearization(matrix, coef, limits, context)
        tail = self._influences(gate, source, linearization, moments.n, outcome_range, rows)
        if tail is None:
            clip = Clip(_RANGE)
        elif self.plan.target == ROBUST:
            clip = Clip(tail.point(_KNEE))
            for release in releases.of(FIRST_STEP):
                linearization = self._robust_step(gate, release, source, linearization, clip)
        else:
            noise = self._scales().gradient / moments.n
            clip = self._chosen_clip(TailLaw(tail), limits, coef, matrix, noise)
        last = self._exact_step(gate, source, moments.n, linearization, clip, context)
        fit = ReleasedFit.of(
            last, matrix, moments, context.columns, centre_of(moments.matrix, context.columns)
        )
        fit = self._with_clip_bias(fit, outcome_range, clip, rows)
        fit, inference = self._inferred(
            self._with_contrasts(fit, context), limits, 1.0, linearization.clipped, seed
        )
        return FittedLinear(linearization, fit, inference, outcome_range, clip, rows)

    @staticmethod
    def _geometry(
        moments: Moments, limits: WinsorLimits, kappa: float, rows: float, context: FitContext
    ) -> Array:
        """The matrix of the geometry: columns are scaled by their radius, rows have their own."""
        matrix = preconditioner(
            moments.matrix, context.columns, moments.n, kappa, limits.reach, rows
        )
        return matrix * math.sqrt(kappa / rows)

    def _winsor_limits(
        self,
        moments: Moments,
        coef: Array,
        kappa: float,
        rows: float,
        outcome_range: OutcomeRange,
        context: FitContext,
    ) -> WinsorLimits:
        """The limits of numbers: a clip of influences is taken for 2.5 sds of a residual."""
        d = len(coef)
        scales = self._scales()
        costs = Costs(
            radius2=kappa * d,
            noise_share=(scales.gradient * _CLIP_SDS) ** 2 * d / moments.n,
            hessian_share=scales.hessian * rows * d / moments.n,
            size=outcome_range.half / _CLIP_SDS,
        )
        information = moments.n / (outcome_range.half / _CLIP_SDS) ** 2
        return self._limits(moments.matrix, coef, information, costs, context, moments)

    def _pilot(
        self,
        matrix: Array,
        coef: Array,
        limits: WinsorLimits,
        moments: Moments,
        outcome_range: OutcomeRange,
        context: FitContext,
    ) -> Pilot:
        """Where the first step is taken."""
        second_moments = moments.definite
        dispersion = (outcome_range.half / _CLIP_SDS) ** 2
        local_model = LocalModel(second_moments, coef, matrix, IDENTITY, dispersion=dispersion)
        return Pilot(local_model, self._linearization(matrix, coef, limits, context))

    def _range(self, gate: Gate, source: Source, n: float) -> OutcomeRange:
        """Three histograms, each inside what the last has left."""
        low, high = -_RANGE / 2, _RANGE / 2
        for release in self.releases_by_stage.of(OUTCOME):
            counts = gate.release(
                release, source, histogram(inner_edges(low, high), self.neighbours)
            ).value
            low, high = narrowed(counts, low, high, n, release.deviation)
        return OutcomeRange(low, high)

    def _pilot_coef(
        self, moments: Moments, outcome_range: OutcomeRange, matrix: Array, kappa: float
    ) -> Array:
        """Coefficients of (1, x') from the moments: a ridge in columns whitened by the geometry."""
        whitening = matrix * np.sqrt(kappa * len(matrix))
        noise = 2 * moments.noise * whitening @ moments.back
        second_moments = whitening @ moments.matrix @ whitening.T
        coef = (
            outcome_range.half
            * whitening.T
            @ least_squares_pilot(
                second_moments, 2 * whitening @ moments.score, noise @ noise.T, moments.n
            )
        )
        coef[0] += outcome_range.middle
        return np.asarray(coef)

    def _influences(
        self,
        gate: Gate,
        source: Source,
        linearization: Linearization,
        n: float,
        outcome_range: OutcomeRange,
        kappa: float,
    ) -> Tail | None:
        """The released tail of influences; None where nobody should be clipped.

        The counts begin at four times the released range of outcomes: above, where nearly nobody is,
        each bin would add its noise to all below.
        """
        releases = self.releases_by_stage.of(INFLUENCE)
        if not releases:
            return None
        shorter = math.sqrt(min(1.0, self._kappa(n) / kappa))
        largest = min(_RANGE, _REACH * outcome_range.half) * shorter
        query = influence_histogram(largest, self.neighbours)
        rows = LinearizedRows(source, linearization, self.design.norm2, self.neighbours)
        counts = gate.release(releases[0], rows, query).value
        caution = _CAUTION if self.plan.tail == CAUTIOUS else 0.0
        return Tail.halving(
            counts, n, releases[0].deviation, largest, caution=caution, end=_RANGE * shorter
        )

    def _released(
        self,
        gate: Gate,
        release: NoisySum,
        source: Source,
        linearization: Linearization,
        clip: Clip,
    ) -> tuple[Array, Array, Array]:
        """Score, curvature and score covariance at a line."""
        stack = self.plan.stack
        d = len(linearization.matrix)
        query = step_sums(
            linearization, clip.size, stack, self.design.norm2, robust=self.plan.target == ROBUST
        )
        return stack.split(gate.release(release, source, query).value, d, clip.size)

    def _robust_step(
        self,
        gate: Gate,
        release: NoisySum,
        source: Source,
        linearization: Linearization,
        clip: Clip,
    ) -> Linearization:
        """A better line for the robust target, which is not linear: a step of its own."""
        score, hessian, _ = self._released(gate, release, source, linearization, clip)
        mean = float(np.trace(hessian)) / len(score)
        if mean <= 3 * self._scales(FIRST_STEP).hessian:
            return linearization
        step = solved(raised(hessian, _ONE_STEP * mean), score)
        return replace(linearization, coef=linearization.coef + linearization.matrix.T @ step)

    def _exact_step(
        self,
        gate: Gate,
        source: Source,
        n: float,
        linearization: Linearization,
        clip: Clip,
        context: FitContext,
    ) -> Step:
        """The step of the estimate: it is exact, and leaves nothing."""
        score, hessian, score_cov = self._released(
            gate, self.releases_by_stage.of(ESTIMATE)[0], source, linearization, clip
        )
        scales: Scales = self._scales()
        nothing = np.zeros(len(score))
        return Step(
            coef_u=solved(linearization.matrix.T, linearization.coef),
            step=nothing,
            score=score,
            remainder=nothing,
            hessian=hessian,
            score_cov=context.clustered(score_cov, source, n),
            score_noise=clip.size * scales.gradient,
            remainder_noise=0.0,
            scales=replace(scales, score_cov=clip.size**2 * scales.score_cov),
            family=IDENTITY,
        )

    def _with_clip_bias(
        self, fit: ReleasedFit, outcome_range: OutcomeRange, clip: Clip, kappa: float
    ) -> ReleasedFit:
        """Sizes in units of the outcome; what the clip takes off may all move the level, and any
        direction by a part of it.
        """
        bias_bound = np.zeros(len(fit.centre))
        bias_bound[0] = math.sqrt(kappa) * clip.excess
        return replace(
            fit,
            sizes=outcome_sizes(fit.spread, fit.columns.dummy, outcome_range.half / _CLIP_SDS),
            bias_bound=bias_bound,
            bias=self._clip_bias(fit, clip),
        )

    def _band(self, coef: Array, fitted: FittedModel) -> Band:
        assert isinstance(fitted, FittedLinear)
        outcome = self.design.outcome
        in_units = outcome.half * coef
        in_units[0] += outcome.centre
        return band(
            in_units,
            fitted.clip,
            outcome.half,
            # r = influence/‖u‖, and the average ‖u‖² is 1/κ
            math.sqrt(fitted.kappa) * outcome.half,
            (
                outcome.centre + outcome.half * fitted.outcome_range.low,
                outcome.centre + outcome.half * fitted.outcome_range.high,
            ),
        )

    def model(self, n: int | None) -> Model:
        """Return what was estimated, for the result."""
        return replace(
            super().model(n),
            loss="Huber" if self.plan.target == ROBUST else self.LOSS_NAME,
            of="residual",
            centre=self.design.outcome.centre,
            penalty_scale=self.design.outcome.half,
        )
