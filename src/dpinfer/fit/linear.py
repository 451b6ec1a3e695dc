"""Least squares by one exact Newton step from a pilot, with residuals clipped by influence.

The risk is quadratic, so that the step from any pilot is exact: H θ = Σ w x y without a remainder.  The pilot
only centres the outcomes: influences w‖u‖|y - x·θ| around it are clipped, so that the closer it is, the
smaller the clip, and with it the noise of the score.  A released histogram of influences tells how much
any clip would cut off (`dpinfer.inference.tails`); the clip that is chosen weighs noise against that
clipping bias.

Outcomes are scaled by half their public range; the result is in the units of the user.
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
from dpinfer.fit.publishing import UNITS_CLIPPED, band, in_the_geometry, ordinary_words
from dpinfer.fit.recipe import NoLoss, Options
from dpinfer.fit.step_plan import (
    CRUDE,
    ESTIMATE,
    FIRST_STEP,
    INFLUENCE,
    MOMENTS,
    ORDINARY,
    OUTCOME,
    ROBUST,
    SCALES,
    StepPlan,
)
from dpinfer.fit.stepped import (
    FittedModel,
    Pilot,
    Stepped,
    crude_moments,
    refined_moments,
)
from dpinfer.inference.constants import (
    CAUTIOUS_SDS,
    CLIP_SDS,
    LINEAR_INFLUENCE_REACH,
    MIN_PILOT_EIGENVALUE,
    MIN_RECORDS,
    MIN_SIGNAL,
    ROBUST_CLIPPED,
    SURE_SDS,
    TYPICAL_LEVEL_SHARE,
)
from dpinfer.inference.moments import (
    Columns,
    Moments,
    Scales,
    centre_of,
    of_columns,
    preconditioner,
    raised,
)
from dpinfer.inference.newton import LocalModel, least_squares_pilot
from dpinfer.inference.posterior import ReleasedFit, Step, outcome_sizes
from dpinfer.inference.ranges import narrowed
from dpinfer.inference.tails import Clip, Tail, TailLaw
from dpinfer.inference.winsorising import Costs, NumberLaws, WinsorLimits, winsor_limits
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.step_sums import Linearization, Stack, step_sums
from dpinfer.mechanisms.sums import Block, moment_and_score
from dpinfer.numerics.arrays import Array, solved
from dpinfer.numerics.bins import inner_edges
from dpinfer.numerics.links import IDENTITY
from dpinfer.numerics.reasons import Numerical, ShareTable
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

LINEAR_SHARES = ShareTable(
    {
        SCALES: 0.03,
        CRUDE: 0.05,
        OUTCOME: 0.02,
        MOMENTS: 0.10,
        FIRST_STEP: 0.09,
        INFLUENCE: 0.05,
        ESTIMATE: 0.66,
    },
    name="LINEAR_SHARES",
    decides="the shares of the budget of each stage in least squares",
    reason="a larger share of one stage is taken from all others; halving or doubling any one share shortens "
    "intervals by at most 1.8 % on average",
    source="simulation: python -m studies.ordinary.shares, studies/ordinary/results/shares.json, at 20,000 records",
)
ROBUST_SHARES = ShareTable(
    {
        SCALES: 0.03,
        CRUDE: 0.05,
        OUTCOME: 0.02,
        MOMENTS: 0.14,
        INFLUENCE: 0.03,
        FIRST_STEP: 0.24,
        ESTIMATE: 0.49,
    },
    name="ROBUST_SHARES",
    decides="the shares of each stage for the robust target",
    reason="as in least squares, with more for the pilot steps, whose score is not linear",
    source="convention",
)
ALL_SHARES = ShareTable(
    {SCALES: 0.03, CRUDE: 0.05, OUTCOME: 0.02, MOMENTS: 0.14, ESTIMATE: 0.76},
    name="ALL_SHARES",
    decides="the shares of each stage of least squares without a clip of influences",
    reason="as in least squares, with the shares of the stages that are left out divided among the others",
    source="convention",
)

_RANGE: Numerical[float] = 2.0  # the range of a scaled outcome
# change of an outcome below which it counts as unclipped: rounding
_CLIPPED: Numerical[float] = 1e-9


@dataclass(frozen=True)
class LeastSquares(NoLoss):
    """The squared error, whose derivative is not bounded: influences are clipped instead."""

    tail: str = BALANCED


_IN_THE_BAND = (
    "In the fit, outcomes are clipped to a released band around a released line. The intervals allow for the part of "
    "the released tail beyond it. Where more is cut off, they are about outcomes in the band"
)
_HUBER = (
    "the coefficients of a Huber regression in the population, with all columns of the formula. Its residuals are "
    "clipped to a released band. They are not the coefficients of least squares, and no substitute for them"
)


@dataclass(frozen=True)
class LinearPlan(StepPlan):
    """The plan of a least-squares fit without a penalty: its budget, and the share of each stage.

    Parameters
    ----------
    budget : ZCDP, ApproxDP or NoPrivacy
        What the fit may cost.
    target : "ordinary" or "robust"
        What the intervals are about: ordinary least squares (the default), or a Huber estimand, for
        which one pilot step is added.
    adjacency : "replace" or "add-remove", optional
        What may differ between two data sets: one record replaced, the number of records public
        (the default); or one added or removed.
    shares : tuple of float
        Relative shares of the stages, one positive number each; by default those that suit most
        fits.
    draws : int
        The number of draws from the distribution of the error, for simultaneous intervals: at least
        100, by default 10,000.  They cost nothing.
    far_values : "clip" or "strict"
        Whether a number winsorised to a released range is reported ("clip") or is only an
        alternative ("strict").
    neighbours : optional
        Another name of ``adjacency``.
    tail : "balanced", "cautious" or "all"
        How much of the tail of the outcome is kept: "balanced" (the default) weighs noise against
        clipping bias, "cautious" assumes a longer tail than the released one, and "all" clips no
        outcome whose prediction is within the public range.

    Examples
    --------
    >>> import dpinfer as dp
    >>> plan = dp.LinearPlan(dp.ZCDP(0.1), tail="cautious")
    >>> print(f"{plan.cost.rho:.2f}")
    0.10
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
    def default_shares(self) -> Mapping[str, float]:
        """Return the shares; where no outcome is clipped, there is no histogram of influences."""
        if self.tail == ALL:
            return ALL_SHARES
        return ROBUST_SHARES if self.target == ROBUST else LINEAR_SHARES

    @property
    def stack(self) -> Stack:
        """Return the weights of the stacked matrices for least squares."""
        return Stack.of(self.relation)

    def strength(self, columns: Columns, n: float) -> float:
        """Return the expected signal of a typical one of ``columns`` over what it needs, with ``n`` records.

        Typical is a level of N = n/20 records, in a direction of squared length v² = κd/20, at least 1.
        It needs N >= 15 and N >= 2.5 h v², h the noise sd of the Hessian.  The eigenvalues n/(κd) of the
        Hessian must also exceed the operator norm h sqrt(2d) of its noise (Wigner), so N >= h v² sqrt(2d):
        with many columns this binds first.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL_LEVEL_SHARE)
        return n * TYPICAL_LEVEL_SHARE / max(MIN_RECORDS, noise * max(MIN_SIGNAL, math.sqrt(2 * d)))


@dataclass(frozen=True)
class OutcomeRange:
    """The released range of the outcome."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Return its middle."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Return half its width."""
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
    OFFER = "least squares has 'ordinary' or 'robust'"
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
        if plan is not None and design.within and (plan.target == ROBUST or plan.tail == ALL):
            raise InputError(
                f"effects of persons go with the target {ORDINARY!r} and a tail that is {BALANCED!r} or {CAUTIOUS!r}: "
                "the score of a person is bounded as a whole"
            )
        return plan

    @classmethod
    def _with_unit(cls, design: Design, plan: LinearPlan) -> Design:
        if plan.target == ORDINARY and plan.tail != ALL:
            return design
        return replace(design, unit=design.unit.averaged)

    @staticmethod
    def ordinary(observations: Block) -> NoiselessFit:
        """Return ordinary least squares of rows (1, x~).  NOT PRIVATE."""
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
        """Return least squares of outcomes clipped to the band; of the robust target, of residuals.

        NOT PRIVATE.
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
            upper = band.half_width(geometry, columns) / scale.half
            weights = np.asarray(observations.weights)
            return noiseless.huber(
                observations.rows, observations.labels, ordinary.coef, weights, upper
            ), clipped
        return noiseless.least_squares(observations.rows, pulled, observations.weights), clipped

    @property
    def released_estimand(self) -> bool:
        """Return whether the target is robust: its knee is released."""
        return self.plan.target == ROBUST

    def words(self, n: int | None) -> Words:  # noqa: ARG002  (nothing depends on it)
        """Return name, estimand and method for reports."""
        geometry = in_the_geometry(self.design, "prediction")
        name = f"{self.NAME} with effects of persons" if self.design.within else self.NAME
        clipped = UNITS_CLIPPED if self.every else _IN_THE_BAND
        about = [ordinary_words(self.design, self.NAME), clipped, geometry]
        if self.plan.target == ROBUST:
            name = "robust regression, no mean"
            about = [_HUBER, geometry]
        return Words(
            name=name,
            about=". ".join(about),
            method="least squares in a released geometry, docs/linear.md of dpinfer.",
        )

    def _fit(self, gate: Gate, source: Source, context: FitContext, seed: int) -> FittedLinear:
        releases = self.releases_by_stage
        # Σ x xᵀ twice, as in logistic regression.  Outcomes are centred and scaled by their released
        # range, so that Σ w u y, released beside the second one, has as little noise as possible.
        crude = crude_moments(gate, releases.of(CRUDE)[0], source, context)
        outcome_range = self._range(gate, cached(OutcomesOnly(source)), crude.n)
        query = moment_and_score(self.neighbours, outcome_range.middle, outcome_range.half)
        moments = refined_moments(gate, releases.of(MOMENTS)[0], source, context, crude, query)
        column_kappa = of_columns(self._kappa(moments.n), len(context.columns))
        row_kappa = self._kappa(moments.n)
        # κ of columns says how far out a value may be before its column is scaled down, κ of rows which
        # leverage has full weight.  The pilot is a ridge estimate, in columns whitened without limits.
        white = preconditioner(moments.matrix, context.columns, moments.n, row_kappa)
        coef = self._pilot_coef(moments, outcome_range, white, row_kappa)
        if self.plan.target == ORDINARY and releases.of(FIRST_STEP):
            row_kappa = self._row_kappa(moments.n, CLIP_SDS)
        rows = 1.0
        if self.design.within:
            # The m rows of a person have k = m - 1 deviations that are free, in many directions: ‖H‖ of a person is
            # about √(1/k + 1/d) times the typical ‖u‖² of a row, and one value far out is 1/k of the longest row's.
            # Both κ are for a person as a whole.
            rows = max(context.mean_rows - 1.0, 1.0)
            shorter = min(1.0, math.sqrt(1 / rows + 1 / len(coef)))
            row_kappa *= shorter
            column_kappa *= max(1.0, shorter * rows)
        numbers = context.numbers(moments.matrix, moments, column_kappa * len(coef))
        limits = self._winsor_limits(
            numbers, coef, moments.n, column_kappa, row_kappa, outcome_range
        )
        matrix = self._geometry(moments, limits, column_kappa, row_kappa, context)
        if self.plan.target == ORDINARY:
            # A pilot step.  Influences are not known yet: its clip is what a residual of half the
            # released range has at typical leverage, or longer by the expected distance of the pilot.
            pilot = self._pilot(matrix, coef, limits, moments, outcome_range, context)
            for release in releases.of(FIRST_STEP):
                distance = math.sqrt(moments.n / len(coef)) / release.noise_sd / CLIP_SDS
                pilot_clip = outcome_range.half / math.sqrt(row_kappa * rows) * max(1.0, distance)
                coef = self._pilot_step(gate, release, source, pilot, pilot_clip, context)
                # winsor limits depend on the slopes
                limits = self._winsor_limits(
                    numbers, coef, moments.n, column_kappa, row_kappa, outcome_range
                )
                matrix = self._geometry(moments, limits, column_kappa, row_kappa, context)
        # The clip: by the released tail of the influences around the pilot.
        linearization = self._linearization(matrix, coef, limits, context)
        tail = self._influences(
            gate, source, linearization, moments.n, outcome_range, row_kappa, context
        )
        if tail is None:
            clip = Clip(_RANGE)
        elif self.plan.target == ROBUST:
            clip = Clip(tail.point(ROBUST_CLIPPED))
            for release in releases.of(FIRST_STEP):
                linearization = self._robust_step(
                    gate, release, source, linearization, clip, context
                )
        else:
            noise = self._scales().gradient / moments.n
            clip = self._chosen_clip(TailLaw(tail), limits, coef, matrix, noise)
        # The estimate: score, Hessian and score covariance at the pilot; the step needs no remainder.
        last = self._exact_step(gate, source, moments.n, linearization, clip, context)
        fit = ReleasedFit.of(
            last, matrix, moments, context.columns, centre_of(moments.matrix, context.columns)
        )
        fit = self._with_clip_bias(fit, outcome_range, clip, row_kappa)
        fit, inference = self._inferred(
            self._with_contrasts(fit, context), limits, 1.0, linearization.clipped, seed
        )
        if self.design.within:
            inference = inference.without_intercept()
        return FittedLinear(linearization, fit, inference, outcome_range, clip, row_kappa)

    @staticmethod
    def _geometry(
        moments: Moments,
        limits: WinsorLimits,
        column_kappa: float,
        row_kappa: float,
        context: FitContext,
    ) -> Array:
        """Return the preconditioner: κ of columns scales columns, and κ of rows the rows."""
        matrix = preconditioner(
            moments.matrix, context.columns, moments.n, column_kappa, limits.reach, row_kappa
        )
        return matrix * math.sqrt(column_kappa / row_kappa)

    def _winsor_limits(
        self,
        numbers: NumberLaws,
        coef: Array,
        n: float,
        column_kappa: float,
        row_kappa: float,
        outcome_range: OutcomeRange,
    ) -> WinsorLimits:
        """Return the winsor limits of numeric columns, with 2.5 sds of a residual for the clip."""
        d = len(coef)
        scales = self._scales()
        costs = Costs(
            radius2=column_kappa * d,
            noise_share=(scales.gradient * CLIP_SDS) ** 2 * d / n,
            hessian_share=scales.hessian * row_kappa * d / n,
            size=outcome_range.half / CLIP_SDS,
        )
        information = n / (outcome_range.half / CLIP_SDS) ** 2
        return winsor_limits(numbers, coef, information, costs)

    def _pilot(
        self,
        matrix: Array,
        coef: Array,
        limits: WinsorLimits,
        moments: Moments,
        outcome_range: OutcomeRange,
        context: FitContext,
    ) -> Pilot:
        """Return local model and linearization at coefficients of (1, x')."""
        second_moments = moments.definite
        dispersion = (outcome_range.half / CLIP_SDS) ** 2
        local_model = LocalModel(second_moments, coef, matrix, IDENTITY, dispersion=dispersion)
        return Pilot(local_model, self._linearization(matrix, coef, limits, context))

    def _range(self, gate: Gate, source: Source, n: float) -> OutcomeRange:
        """Release the range of the outcome by histograms, each zooming in on the last."""
        low, high = -_RANGE / 2, _RANGE / 2
        for release in self.releases_by_stage.of(OUTCOME):
            counts = gate.release(
                release, source, histogram(inner_edges(low, high), self.neighbours)
            ).value
            low, high = narrowed(counts, low, high, n, release.noise_sd)
        return OutcomeRange(low, high)

    def _pilot_coef(
        self, moments: Moments, outcome_range: OutcomeRange, matrix: Array, kappa: float
    ) -> Array:
        """Return pilot coefficients of (1, x'): a ridge estimate in whitened columns."""
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
        context: FitContext,
    ) -> Tail | None:
        """Release the tail of influences; None where no outcome is to be clipped.

        Its bins begin at `LINEAR_INFLUENCE_REACH` times half the released range of outcomes: above, where hardly any
        record is, every further bin would add its noise to all cumulated counts.
        """
        if not self.releases_by_stage.of(INFLUENCE):
            return None
        shorter = math.sqrt(min(1.0, self._kappa(n) / kappa))
        largest = min(_RANGE, LINEAR_INFLUENCE_REACH * outcome_range.half) * shorter
        counts, noise_sd = self._released_influences(gate, source, linearization, context, largest)
        caution = CAUTIOUS_SDS if self.plan.tail == CAUTIOUS else 0.0
        return Tail.halving(counts, n, noise_sd, largest, caution=caution, end=_RANGE * shorter)

    def _released(
        self,
        gate: Gate,
        release: NoisySum,
        source: Source,
        linearization: Linearization,
        clip: Clip,
        context: FitContext,
    ) -> tuple[Array, Array, Array]:
        """Release score, Hessian and score covariance at a linearization."""
        stack = self.stack
        d = len(linearization.matrix)
        if self.plan.target == ROBUST:
            query = step_sums(linearization, clip.size, stack, self.design.norm2, robust=True)
        else:
            query = self._step_query(linearization, clip.size, context)
        return stack.split(gate.release(release, source, query).value, d, clip.size)

    def _robust_step(
        self,
        gate: Gate,
        release: NoisySum,
        source: Source,
        linearization: Linearization,
        clip: Clip,
        context: FitContext,
    ) -> Linearization:
        """Return the linearization after a pilot step of the robust target, whose score is not linear."""
        score, hessian, _ = self._released(gate, release, source, linearization, clip, context)
        mean = float(np.trace(hessian)) / len(score)
        if mean <= SURE_SDS * self._scales(FIRST_STEP).hessian:
            return linearization
        step = solved(raised(hessian, MIN_PILOT_EIGENVALUE * mean), score)
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
        """Release the last score and matrices: the posterior takes the step, which has no remainder."""
        score, hessian, score_cov = self._released(
            gate, self.releases_by_stage.of(ESTIMATE)[0], source, linearization, clip, context
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
        """Add prior sds in units of the outcome, and the clipping bias.

        The bias of the intercept is at most the mean excess over the clip at typical leverage, as all of
        it may be on one side; `_clip_bias` has that of all directions.
        """
        bias_bound = np.zeros(len(fit.centre))
        bias_bound[0] = math.sqrt(kappa) * clip.excess
        return replace(
            fit,
            sizes=outcome_sizes(fit.spread, fit.columns.dummy, outcome_range.half / CLIP_SDS),
            bias_bound=bias_bound,
            bias=self._clip_bias(fit, clip),
        )

    def _band(self, coef: Array, fitted: FittedModel) -> Band | None:
        assert isinstance(fitted, FittedLinear)
        if self.every:
            return None
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
