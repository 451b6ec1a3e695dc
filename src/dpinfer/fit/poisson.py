"""Poisson regression of counts, rates and costs: E[y | x] = exposure · exp(x·θ), y at least 0.

This is quasi-likelihood (Gourieroux, Monfort and Trognon 1984): the mean is modelled, and the variance is
estimated by the sandwich.  A Newton step at released coefficients is a weighted least-squares step with
weights μ, so that influences w‖u‖|y - μ| are clipped as in `dpinfer.fit.linear`; its remainder has no
outcome in it and is released, as in `dpinfer.fit.logistic`.

Outcomes are over their public bound, and exposures over theirs; the result is in the units of the user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpinfer.fit import noiseless
from dpinfer.fit.context import FitContext
from dpinfer.fit.noiseless import NoiselessFit, Observations
from dpinfer.fit.publishing import UNITS_CLIPPED, band, in_the_geometry, ordinary_words
from dpinfer.fit.recipe import NoLoss
from dpinfer.fit.step_plan import (
    CRUDE,
    ESTIMATE,
    EXPOSURE,
    FIRST_STEP,
    INFLUENCE,
    MOMENTS,
    ORDINARY,
    REMAINDER,
    SCALES,
    SIZES,
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
    CLIP_SDS,
    COUNT_INFLUENCE_REACH,
    LEVEL_PRIOR_SD,
    MIN_EVENTS,
    MIN_SIGNAL,
    TYPICAL_LEVEL_SHARE,
)
from dpinfer.inference.moments import Columns, Moments, centre_of, preconditioner, raised
from dpinfer.inference.newton import LocalModel, expected_hessian, poisson_pilot
from dpinfer.inference.posterior import ReleasedFit
from dpinfer.inference.tails import Clip, CountSizes, Tail, TailLaw
from dpinfer.inference.winsorising import (
    Costs,
    NumberLaws,
    WinsorLimits,
    exponential,
    winsor_limits,
)
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.step_sums import Linearization, Stack
from dpinfer.mechanisms.sums import Block, exposure_total, moment_and_score
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.bins import count_edges
from dpinfer.numerics.links import FARTHEST_OFFSET, LOG
from dpinfer.numerics.reasons import Numerical, ShareTable
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Band, Model, Words
from dpinfer.rows.encoded import OutcomesOnly, WithoutOffset, cached
from dpinfer.rows.source import Source
from dpinfer.schema.design import COUNT, Design

POISSON_TARGETS = (ORDINARY,)
POISSON_SHARES = ShareTable(
    {
        SCALES: 0.02,
        CRUDE: 0.03,
        EXPOSURE: 0.005,
        SIZES: 0.02,
        MOMENTS: 0.05,
        FIRST_STEP: 0.09,
        INFLUENCE: 0.06,
        ESTIMATE: 0.70,
        REMAINDER: 0.03,
    },
    name="POISSON_SHARES",
    decides="the shares of the budget of each stage in Poisson regression",
    reason="a larger share of one stage is taken from all others; halving or doubling any one share shortens "
    "intervals by at most .5 % on average",
    source="simulation: python -m studies.ordinary.shares, studies/ordinary/results/shares.json, at 20,000 records",
)
_TINY: Numerical[float] = 1e-300  # smallest information of all records, in units of the outcome
# change of an outcome below which it counts as unclipped: rounding
_CLIPPED: Numerical[float] = 1e-9


_MEANING = (
    "A coefficient is a change of the logarithm of the mean outcome, so that exp of it is a rate ratio. No Poisson "
    "law is assumed, and outcomes need not be whole numbers"
)
_MEANING_EXPOSED = (
    "A coefficient is a change of the logarithm of the mean outcome per unit of exposure, so that exp of it is a rate "
    "ratio. No Poisson law is assumed, and outcomes need not be whole numbers"
)
_IN_THE_BAND = (
    "In the fit, outcomes are clipped to a released band around a released line. The intervals allow for the bias "
    "that the released tail of influences leaves"
)


@dataclass(frozen=True)
class Counts(NoLoss):
    """The Poisson likelihood, whose score is not bounded: influences are clipped instead."""


@dataclass(frozen=True)
class PoissonPlan(StepPlan):
    """The plan of a Poisson regression without a penalty: its budget, and the share of each stage.

    Parameters
    ----------
    budget : ZCDP, ApproxDP or NoPrivacy
        What the fit may cost.
    target : str
        What the intervals are about; the only target is "ordinary", ordinary Poisson regression with
        robust standard errors.
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

    Examples
    --------
    >>> import dpinfer as dp
    >>> plan = dp.PoissonPlan(dp.ApproxDP(1.0, 1e-6))
    >>> plan.promise
    ApproxDP(epsilon=1.0, delta=1e-06)
    """

    def __post_init__(self) -> None:
        self._check(POISSON_TARGETS)

    @property
    def default_shares(self) -> Mapping[str, float]:
        """Return the stages with their default shares of the budget."""
        return POISSON_SHARES

    @property
    def stack(self) -> Stack:
        """Return the weights of the stacked matrices, which are those of least squares."""
        return Stack.of(self.relation)

    def strength(self, columns: Columns, n: float) -> float:
        """Return the expected signal of a typical one of ``columns`` over what it needs, with ``n`` records.

        It is that of least squares (`LinearPlan.strength`), with 8 records.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL_LEVEL_SHARE)
        return n * TYPICAL_LEVEL_SHARE / max(MIN_EVENTS, noise * max(MIN_SIGNAL, math.sqrt(2 * d)))


@dataclass(frozen=True, eq=False)
class FittedCounts(FittedModel):
    """A fit with the released sizes of its counts, and the clip of influences."""

    sizes: CountSizes
    clip: Clip


def _dispersed(pilot: Pilot, dispersion: float) -> Pilot:
    """Return a pilot whose local model has this dispersion, Var(y)/E[y]."""
    local_model = replace(
        pilot.local_model, dispersion=dispersion, min_information=MIN_EVENTS * dispersion
    )
    return replace(pilot, local_model=local_model)


@dataclass(frozen=True)
class PoissonSteps(Stepped[PoissonPlan]):
    """Poisson regression of a design with an intercept."""

    NAME = "Poisson regression"
    TARGETS: ClassVar[tuple[str, ...]] = POISSON_TARGETS
    OFFER = "Poisson regression has 'ordinary'"
    FAMILY = LOG
    LOSS = Counts
    PLAN = PoissonPlan
    LOSS_NAME = "Poisson"

    @staticmethod
    def ordinary(observations: Block) -> NoiselessFit:
        """Return the ordinary Poisson regression of rows (1, x~).  NOT PRIVATE."""
        assert isinstance(observations, Observations)
        return noiseless.poisson(observations)

    @staticmethod
    def stated_regression(
        result: FitResult,
        design: Design,
        observations: Block,
        columns: Array,
        ordinary: NoiselessFit,  # noqa: ARG004  (the search needs no help)
    ) -> tuple[NoiselessFit, float]:
        """Return the Poisson regression of outcomes clipped to the band of a result.  NOT PRIVATE."""
        geometry = result.geometry
        band = result.band
        assert geometry is not None
        assert band is not None
        assert isinstance(observations, Observations)
        offset = observations.offset + (design.offset or 0.0)
        upper = design.outcome.half
        pulled = band.pulled(geometry, columns, upper * observations.labels, offset) / upper
        clipped = float((np.abs(pulled - observations.labels) > _CLIPPED).mean())
        return noiseless.poisson(
            replace(observations, labels=pulled), observations.weights
        ), clipped

    def words(self, n: int | None) -> Words:  # noqa: ARG002
        """Return name, estimand and method for reports."""
        about = [
            ordinary_words(self.design, self.NAME),
            _MEANING if self.design.offset is None else _MEANING_EXPOSED,
            UNITS_CLIPPED if self.every else _IN_THE_BAND,
            in_the_geometry(self.design, "log rate"),
        ]
        return Words(
            name=self.NAME,
            about=". ".join(about),
            method="Poisson regression in a released geometry, docs/counts.md of dpinfer.",
        )

    def _fit(self, gate: Gate, source: Source, context: FitContext, seed: int) -> FittedCounts:
        releases = self.releases_by_stage
        # The offset is the last column of the rows: it has no coefficient, and no part in the moments.
        predictors = source if self.design.offset is None else WithoutOffset(source)
        crude = crude_moments(gate, releases.of(CRUDE)[0], predictors, context)
        # The mean exposure sets the intercept of the pilot, and a histogram of outcomes the cap c at
        # which E min(y, c) is estimated with the least noise over what it shows of E y.
        log_exposure = self._log_exposure(gate, source, crude.n)
        sizes = self._sizes(gate, source, crude.n)
        half = sizes.cap / 2
        query = moment_and_score(self.neighbours, half, half)
        moments = refined_moments(gate, releases.of(MOMENTS)[0], predictors, context, crude, query)
        noise = moments.noise * moments.back
        pilot_coef = poisson_pilot(
            moments.matrix,
            moments.score,
            noise,
            moments.n,
            context.columns,
            sizes,
            self._kappa(moments.n),
        )
        pilot_coef[0] -= log_exposure
        # A steep pilot slope would give the records far out in that column a mean, and so a weight, that
        # the released sizes of outcomes rule out: slopes are limited to what these allow.
        numbers = self._numbers_at(pilot_coef, moments, context)
        gentle = numbers.gentle(pilot_coef, sizes.largest_ratio)
        if (gentle != pilot_coef).any():
            pilot_coef = gentle
            numbers = self._numbers_at(pilot_coef, moments, context)
        limits = self._winsor_limits(numbers, pilot_coef, moments.n, sizes)
        pilot = self._pilot(moments, limits, pilot_coef, sizes, context)
        for release in releases.of(FIRST_STEP):
            pilot_coef = self._first_step(gate, release, source, moments.n, pilot, sizes, context)
            # winsor limits and the weights μ depend on the coefficients
            numbers = self._numbers_at(pilot_coef, moments, context)
            limits = self._winsor_limits(numbers, pilot_coef, moments.n, sizes)
            pilot = self._pilot(moments, limits, pilot_coef, sizes, context)
        # The clip: by the released tail of influences around the pilot, and no smaller than one event.
        centre = centre_of(moments.matrix, context.columns)
        law = self._law(gate, source, moments.n, pilot, sizes, context)
        clip = self._chosen_clip(
            law,
            limits,
            pilot_coef * sizes.mean,
            pilot.local_model.matrix,
            self._scales().gradient / moments.n,
            self._of_an_event(pilot, centre, sizes, context),
        )
        # the dispersion Var(y)/E[y] is κ E s² by the law of clipped influences s, as typical ‖u‖² is 1/(κ E y)
        dispersed = _dispersed(pilot, law.mean_square(clip.size) * self._kappa(moments.n))
        last = self._final_step(gate, source, moments.n, dispersed, clip.size, context)
        fit = ReleasedFit.of(last, pilot.local_model.matrix, moments, context.columns, centre)
        fit = self._with_clip_bias(fit, clip, sizes)
        clipped = pilot.linearization.clipped[: len(pilot_coef)]
        fit, inference = self._inferred(
            self._with_contrasts(fit, context), limits, sizes.mean, clipped, seed
        )
        return FittedCounts(pilot.linearization, fit, inference, sizes, clip)

    @property
    def _unit(self) -> float:
        """Return the public bound of the outcome, the unit in which it is measured."""
        return self.design.outcome.half

    def _log_exposure(self, gate: Gate, source: Source, n: float) -> float:
        """Release the logarithm of the mean exposure over its bound; 0 without an exposure."""
        if self.design.offset is None:
            return 0.0
        release = self.releases_by_stage.of(EXPOSURE)[0]
        query = exposure_total(FARTHEST_OFFSET * math.sqrt(self.design.norm2))
        released = float(gate.release(release, source, query).value[0])
        # no less than one sd of the noise, so that the intercept of the pilot is never far too high
        return math.log(min(max(released, release.noise_sd) / n, 1.0))

    def _sizes(self, gate: Gate, source: Source, n: float) -> CountSizes:
        """Release the histogram of the outcome, in octaves down from its public bound."""
        release = self.releases_by_stage.of(SIZES)[0]
        query = histogram(count_edges(), self.neighbours)
        counts = gate.release(release, cached(OutcomesOnly(source)), query).value[::-1]
        return CountSizes.of(Tail.halving(counts, n, release.noise_sd, 1.0, generous=True))

    def _expected_hessian(self, moments: Moments, coef: Array) -> Array:
        """Return Σ μ x xᵀ at these coefficients over the mean of μ, for Gaussian rows."""
        hessian = expected_hessian(moments.definite, coef, LOG)
        return raised(hessian / hessian[0, 0], 1e-8) * moments.n

    def _numbers_at(self, coef: Array, moments: Moments, context: FitContext) -> NumberLaws:
        """Return moments and tail laws of the columns, records counted by their means."""
        radius2 = self._kappa(moments.n) * len(coef)
        return context.numbers(self._expected_hessian(moments, coef), moments, radius2)

    def _winsor_limits(
        self, numbers: NumberLaws, coef: Array, n: float, sizes: CountSizes
    ) -> WinsorLimits:
        """Return the winsor limits of numeric columns, with 2.5 sds of an outcome for the clip."""
        d = len(coef)
        scales = self._scales()
        kappa = self._kappa(n)
        costs = Costs(
            radius2=kappa * d,
            noise_share=(scales.gradient * CLIP_SDS) ** 2 * d / n,
            hessian_share=scales.hessian * kappa * d / n,
            size=LEVEL_PRIOR_SD / 2,
            response=exponential,
            largest=sizes.largest_ratio,
        )
        dispersion = sizes.law.mean_square(1.0) / sizes.mean
        return winsor_limits(numbers, coef, n * sizes.mean / dispersion, costs)

    def _pilot(
        self,
        moments: Moments,
        limits: WinsorLimits,
        coef: Array,
        sizes: CountSizes,
        context: FitContext,
    ) -> Pilot:
        """Return local model and linearization at coefficients of (1, x')."""
        columns = context.columns
        hessian = self._expected_hessian(moments, coef)
        matrix = preconditioner(hessian, columns, moments.n, self._kappa(moments.n), limits.reach)
        matrix /= math.sqrt(sizes.mean)
        local_model = LocalModel(
            moments.definite,
            coef,
            matrix,
            LOG,
            min_information=_TINY,
            columns=columns,
        )
        return Pilot(local_model, self._linearization(matrix, coef, limits, context))

    def _linearization(
        self,
        matrix: Array,
        coef: Array,
        limits: WinsorLimits,
        context: FitContext,
        max_influence: float = np.inf,
    ) -> Linearization:
        point = super()._linearization(matrix, coef, limits, context, max_influence)
        if self.design.offset is None:
            return point
        # the offset is a last column of the rows, with a known coefficient and no part in the geometry
        return replace(
            point,
            matrix=np.column_stack([point.matrix, np.zeros(len(matrix))]),
            coef=np.append(point.coef, FARTHEST_OFFSET),
            low=np.append(point.low, -1.0),
            high=np.append(point.high, 1.0),
        )

    def _law(
        self,
        gate: Gate,
        source: Source,
        n: float,
        pilot: Pilot,
        sizes: CountSizes,
        context: FitContext,
    ) -> TailLaw:
        """Release the histogram of influences at the pilot, and return the law of its tail."""
        # an influence w‖u‖|y - μ| is about |y - μ|/sqrt(κ E y), so at most 1/sqrt(E y) for y <= 1
        end = 1.0 / math.sqrt(sizes.mean)
        largest = min(COUNT_INFLUENCE_REACH * sizes.reach, 1.0) * end
        counts, noise_sd = self._released_influences(
            gate, source, pilot.linearization, context, largest
        )
        return TailLaw(Tail.halving(counts, n, noise_sd, largest, end=end))

    def _of_an_event(
        self, pilot: Pilot, centre: Array, sizes: CountSizes, context: FitContext
    ) -> float:
        """Return the largest influence of one event of any level, or reference level, in one row.

        A smaller clip would clip every event of that level, which the histogram of influences cannot
        show: events of a rare level are fewer than its noise.
        """
        dummy = context.columns.dummy
        rows = [centre]
        for j in np.flatnonzero(dummy):
            row = np.where(dummy & (context.columns.group == context.columns.group[j]), 0.0, centre)
            rows += [row, row + (np.arange(len(row)) == j)]
        leverage = np.linalg.norm(np.array(rows) @ pilot.local_model.matrix.T, axis=1)
        return sizes.event * float(leverage.max()) / context.mean_rows

    def _first_step(
        self,
        gate: Gate,
        release: NoisySum,
        source: Source,
        n: float,
        pilot: Pilot,
        sizes: CountSizes,
        context: FitContext,
    ) -> Array:
        """Return better pilot coefficients, with a clip by the sizes of outcomes at typical leverage.

        Influences are not released yet.
        """
        cost = math.sqrt(len(pilot.local_model.coef)) * self._scales(FIRST_STEP).gradient / n
        law = sizes.law
        largest = law.clip(cost)
        dispersion = law.mean_square(largest) / sizes.mean
        clip = largest / math.sqrt(self._kappa(n) * sizes.mean)
        dispersed = _dispersed(pilot, dispersion)
        return self._pilot_step(gate, release, source, dispersed, clip, context)

    def _with_clip_bias(self, fit: ReleasedFit, clip: Clip, sizes: CountSizes) -> ReleasedFit:
        """Add the clipping bias: the mean excess for the intercept, `_clip_bias` for all directions."""
        bias_bound = np.zeros(len(fit.centre))
        bias_bound[0] = math.sqrt(self._kappa(fit.moments.n) / sizes.mean) * clip.excess
        return replace(
            fit,
            bias=self._clip_bias(fit, clip),
            bias_bound=bias_bound,
            without_events=not sizes.positive,
        )

    def _band(self, coef: Array, fitted: FittedModel) -> Band | None:
        assert isinstance(fitted, FittedCounts)
        if self.every:
            return None
        # r = influence/‖u‖, and the average ‖u‖² is 1/(κ E y)
        root = math.sqrt(self._kappa(fitted.fit.moments.n) * fitted.sizes.mean)
        return band(
            coef,
            fitted.clip,
            math.sqrt(self._unit),
            self._unit * root,
            (0.0, self._unit * fitted.sizes.reach),
        )

    def model(self, n: int | None) -> Model:
        """Return what was estimated, for the result."""
        return replace(super().model(n), of=COUNT)
