"""Counts, rates and costs by steps: E[y | x] = exposure · exp(x·θ), y at least 0, without a law for y.

At a released line a Poisson step is a least-squares step, with a clip of its own for influences; what
it leaves has no outcome in it and is released beside, as in logistic regression.  Outcomes are over
their public bound, and an exposure over its own; the result returns to the units of the user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpinfer.fit import noiseless
from dpinfer.fit.noiseless import NoiselessFit, People
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.recipe import NoLoss, Options, Recipe
from dpinfer.fit.stepped import (
    CRUDE,
    ESTIMATE,
    EXPOSURE,
    FIRST_STEP,
    INFLUENCE,
    MOMENTS,
    ORDINARY,
    REST,
    SCALES,
    SIZES,
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
    COUNTS_RADIUS,
    LEAST_EVENTS,
    Columns,
    Moments,
    Radius,
    centre_of,
    preconditioner,
    raised,
)
from dpinfer.inference.newton import Terrain, count_line, information
from dpinfer.inference.posterior import LEVEL, Fitted
from dpinfer.inference.tails import Clip, CountSizes, Tail, TailLaw
from dpinfer.inference.winsorising import Costs, WinsorLimits, exponential
from dpinfer.mechanisms.histograms import histogram, influence_histogram
from dpinfer.mechanisms.step_sums import Line, Stack
from dpinfer.mechanisms.sums import Block, exposure_total, moment_and_score
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.bins import count_edges
from dpinfer.numerics.links import LOG
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Band, Model, Words
from dpinfer.rows.encoded import OutcomesOnly, WithoutOffset, cached
from dpinfer.rows.source import Source
from dpinfer.schema.design import COUNT, Design
from dpinfer.schema.terms import FARTHEST_OFFSET

POISSON_TARGETS = (ORDINARY,)
_SHARES = {
    SCALES: 0.02,
    CRUDE: 0.03,
    EXPOSURE: 0.005,
    SIZES: 0.02,
    MOMENTS: 0.05,
    FIRST_STEP: 0.09,
    INFLUENCE: 0.06,
    ESTIMATE: 0.70,
    REST: 0.03,
}
_REACH = 4.0  # times how far counts are seen to go: the largest influence that is told apart
_DEVIATIONS = 4.0  # of an outcome: a clip of influences, before one is chosen
_TINY = 1e-300  # the least information of all records, in units of the outcome
_CLIPPED = 1e-9  # an outcome that the band moves by less is as it was


_MEANING = (
    "a coefficient is a change of the logarithm of the mean outcome, so that exp of it is a rate ratio; no Poisson "
    "law is supposed, and outcomes need not be whole"
)
_MEANING_EXPOSED = (
    "a coefficient is a change of the logarithm of the mean outcome per unit of exposure, so that exp of it is a rate "
    "ratio; no Poisson law is supposed, and outcomes need not be whole"
)
_IN_THE_BAND = (
    "in the fit, outcomes are pulled into a released band around a released line, and the intervals allow for the bias "
    "that the released tail of influences leaves"
)


@dataclass(frozen=True)
class Counts(NoLoss):
    """Counts, rates and costs, whose likelihood has a clip in the place of a bound."""


@dataclass(frozen=True)
class PoissonPlan(StepPlan):
    """Of counts, rates and costs: a budget, the target, the adjacency, and the shares of the
    stages.

    ``adjacency`` is "replace" or "add-remove"; ``neighbours`` is another name of it.

    ``target`` is "ordinary", ordinary Poisson regression with robust errors.  ``draws`` are those of
    the law of the error, for bands; they cost nothing.
    ``far_values`` says whether a winsorised number is reported ("clip") or only an alternative
    ("strict").
    """

    def __post_init__(self) -> None:
        self._check(POISSON_TARGETS)

    @property
    def usual(self) -> Mapping[str, float]:
        """The stages with their usual shares."""
        return _SHARES

    @property
    def radius(self) -> Radius:
        """That of counts."""
        return COUNTS_RADIUS

    @property
    def stack(self) -> Stack:
        """That of least squares."""
        return Stack.of(self.relation)

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed, with ``n``
        records: as in least squares.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL)
        return n * TYPICAL / max(LEAST_EVENTS, noise * max(SIGNAL, math.sqrt(2 * d)))


@dataclass(frozen=True, eq=False)
class FinishedCounts(Finished):
    """A fit with what is known of the sizes of its counts, and the clip of influences."""

    sizes: CountSizes
    clip: Clip


def _dispersed(place: Place, dispersion: float) -> Place:
    """A place with what is known of the variance of an outcome over its mean."""
    terrain = replace(place.terrain, dispersion=dispersion, least=LEAST_EVENTS * dispersion)
    return replace(place, terrain=terrain)


@dataclass(frozen=True)
class PoissonSteps(Stepped[PoissonPlan]):
    """Poisson regression of a design with an intercept."""

    NAME = "Poisson regression"
    TARGETS: ClassVar[tuple[str, ...]] = POISSON_TARGETS
    OFFER = "Poisson regression has 'ordinary'"
    FAMILY = LOG

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """Whatever is asked of counts, by a budget or a plan."""
        if not isinstance(options.loss, Counts):
            return None
        plan = cls._plan(PoissonPlan, design, options)
        if plan is None:
            return None
        cls._require_plain(design, options)
        if isinstance(plan.budget, NoPrivacy):
            return Ordinary(cls(design, plan))
        return cls(design, plan)

    @staticmethod
    def ordinary(people: Block) -> NoiselessFit:
        """The ordinary Poisson regression of rows (1, x~).  NOT PRIVATE."""
        assert isinstance(people, People)
        return noiseless.poisson(people)

    @staticmethod
    def as_seen(
        result: FitResult,
        design: Design,
        seen: Block,
        columns: Array,
        asked: NoiselessFit,  # noqa: ARG004  (the search needs no help)
    ) -> tuple[NoiselessFit, float]:
        """The Poisson regression of outcomes pulled into the band, with the weights of a result.
        NOT PRIVATE.
        """
        geometry = result.geometry
        band = result.band
        assert geometry is not None
        assert band is not None
        assert isinstance(seen, People)
        offset = seen.offset + (design.offset or 0.0)
        most = design.outcome.half
        pulled = band.pulled(geometry, columns, most * seen.labels, offset) / most
        clipped = float((np.abs(pulled - seen.labels) > _CLIPPED).mean())
        return noiseless.poisson(replace(seen, labels=pulled), seen.weights), clipped

    def words(self, n: int | None) -> Words:  # noqa: ARG002
        """Of the ordinary regression, in a released geometry."""
        about = [
            ordinary_words(self.design, self.NAME),
            _MEANING if self.design.offset is None else _MEANING_EXPOSED,
            _IN_THE_BAND,
            in_the_geometry(self.design, "log rate"),
        ]
        return Words(
            name=self.NAME,
            about="; ".join(about),
            method="Poisson regression in a released geometry, docs/counts.md of dpinfer.",
        )

    def _fitted(self, gate: Gate, source: Source, at: Setting, seed: int) -> FinishedCounts:
        booked = self.booked
        predictors = source if self.design.offset is None else WithoutOffset(source)
        crude = crude_moments(gate, booked.of(CRUDE)[0], predictors, at)
        log_exposure = self._log_exposure(gate, source, crude.n)
        sizes = self._sizes(gate, source, crude.n)
        half = sizes.cap / 2
        what = moment_and_score(self.neighbours, half, half)
        known = refined_moments(gate, booked.of(MOMENTS)[0], predictors, at, crude, what)
        noise = known.noise * known.back
        first = count_line(known.matrix, known.score, noise, known.n, at.columns, sizes)
        first[0] -= log_exposure
        seen = self._information(known, first)
        numbers = at.numbers(seen, known, self._kappa(known.n) * len(first))
        first = numbers.gentle(first, sizes.largest_ratio)
        limits = self._limits_of(known, first, sizes, at)
        place = self._place(known, limits, first, sizes, at)
        for release in booked.of(FIRST_STEP):
            line = self._first_step(gate, release, source, known.n, place, sizes)
            # the limits rest on the coefficients, which are known better now
            limits = self._limits_of(known, line, sizes, at)
            place = self._place(known, limits, line, sizes, at)
        centre = centre_of(known.matrix, at.columns)
        law = self._law(gate, source, place, known.n, sizes)
        clip = self._chosen_clip(
            law,
            limits,
            line * sizes.mean,
            place.terrain.matrix,
            self._scales().gradient / known.n,
            self._of_an_event(place, centre, sizes, at),
        )
        # the variance of an outcome over its mean, as the tail has it
        dispersed = _dispersed(place, law.mean_square(clip.size) * self._kappa(known.n))
        last = self._step_and_rest(gate, source, known.n, dispersed, clip.size, at)
        fit = Fitted.of(last, place.terrain.matrix, known, at.columns, centre)
        fit = self._allowing_for(fit, clip, sizes)
        clipped = place.line.clipped[: len(first)]
        fit, said = self._concluded(self._asked(fit, at), limits, sizes.mean, clipped, seed)
        return FinishedCounts(place.line, fit, said, sizes, clip)

    @property
    def _unit(self) -> float:
        """The public bound of the outcome: a unit in which it is measured."""
        return self.design.outcome.half

    def _kappa(self, n: float) -> float:
        return self._scales().kappa(len(self.design.names), n)

    def _log_exposure(self, gate: Gate, source: Source, n: float) -> float:
        """The logarithm of the mean exposure over its bound; 0 where there is none."""
        if self.design.offset is None:
            return 0.0
        booked = self.booked.of(EXPOSURE)[0]
        what = exposure_total(FARTHEST_OFFSET * math.sqrt(self.design.norm2))
        released = float(gate.release(booked, source, what).value[0])
        # no less than what noise alone may be, so that a first line is never far too high
        return math.log(min(max(released, booked.deviation) / n, 1.0))

    def _sizes(self, gate: Gate, source: Source, n: float) -> CountSizes:
        """One histogram of the outcome, in bins by factors of two from its public bound down."""
        booked = self.booked.of(SIZES)[0]
        what = histogram(count_edges(), self.neighbours)
        counts = gate.release(booked, cached(OutcomesOnly(source)), what).value[::-1]
        return CountSizes.of(Tail.halving(counts, n, booked.deviation, 1.0, generous=True))

    def _information(self, known: Moments, line: Array) -> Array:
        """sum μ x xᵀ at a line, in units of the mean of μ."""
        seen = information(known.of(np.arange(len(line))), line, LOG)
        return raised(seen / seen[0, 0], 1e-8) * known.n

    def _limits_of(
        self, known: Moments, line: Array, sizes: CountSizes, at: Setting
    ) -> WinsorLimits:
        """The limits of numbers: a clip of influences is taken for 4 sds of an outcome."""
        d = len(line)
        n = known.n
        scales = self._scales()
        kappa = self._kappa(n)
        costs = Costs(
            radius2=kappa * d,
            noise_share=(scales.gradient * _DEVIATIONS) ** 2 * d / n,
            hessian_share=scales.hessian * kappa * d / n,
            size=LEVEL / 2,
            response=exponential,
            largest=sizes.largest_ratio,
        )
        dispersion = TailLaw(sizes.tail).mean_square(1.0) / sizes.mean
        seen = self._information(known, line) / n
        return self._limits(seen, line, n * sizes.mean / dispersion, costs, at, known)

    def _place(
        self, known: Moments, limits: WinsorLimits, line: Array, sizes: CountSizes, at: Setting
    ) -> Place:
        """The geometry of a line: that of its information."""
        columns = at.columns
        seen = self._information(known, line)
        matrix = preconditioner(seen, columns, known.n, self._kappa(known.n), limits.reach)
        matrix /= math.sqrt(sizes.mean)
        low, high = self._winsorised(limits, at)
        inner = matrix @ at.matrix
        coef = line @ at.matrix
        if self.design.offset is not None:
            # it is added to the predictor as it is, and has no part in the geometry
            inner = np.column_stack([inner, np.zeros(len(inner))])
            coef = np.append(coef, FARTHEST_OFFSET)
            low = np.append(low, -1.0)
            high = np.append(high, 1.0)
        terrain = Terrain(
            known.of(np.arange(len(line))), line, matrix, LOG, least=_TINY, columns=columns
        )
        return Place(terrain, Line(LOG, inner, coef, np.inf, low, high))

    def _law(
        self, gate: Gate, source: Source, place: Place, n: float, sizes: CountSizes
    ) -> TailLaw:
        """The law of influences at the line of the estimate, by a released histogram."""
        booked = self.booked.of(INFLUENCE)[0]
        # influences are about an outcome over the root of its mean
        end = 1.0 / math.sqrt(sizes.mean)
        largest = min(_REACH * sizes.reach, 1.0) * end
        what = influence_histogram(largest, self.neighbours)
        rows = AtLine(source, place.line, self.design.norm2, self.neighbours)
        counts = gate.release(booked, rows, what).value
        return TailLaw(Tail.halving(counts, n, booked.deviation, largest, end=end))

    def _of_an_event(self, place: Place, centre: Array, sizes: CountSizes, at: Setting) -> float:
        """The influence of one event of the level, or reference, whose records have the largest: a
        smaller clip would cut every event of that level.

        The histogram of influences cannot tell: events of a rare level are fewer than its noise.
        """
        dummy = at.columns.dummy
        rows = [centre]
        for j in np.flatnonzero(dummy):
            row = np.where(dummy & (at.columns.group == at.columns.group[j]), 0.0, centre)
            rows += [row, row + (np.arange(len(row)) == j)]
        leverage = np.linalg.norm(np.array(rows) @ place.terrain.matrix.T, axis=1)
        return sizes.event * float(leverage.max())

    def _first_step(
        self,
        gate: Gate,
        booked: NoisySum,
        source: Source,
        n: float,
        place: Place,
        sizes: CountSizes,
    ) -> Array:
        """A line near the estimate.  Influences are not known yet, so that the sizes of outcomes
        tell the clip, for a record of usual leverage.
        """
        cost = math.sqrt(len(place.terrain.line)) * self._scales(FIRST_STEP).gradient / n
        law = TailLaw(sizes.tail)
        largest = law.clip(cost)
        dispersion = law.mean_square(largest) / sizes.mean
        clip = largest / math.sqrt(self._kappa(n) * sizes.mean)
        return self._better_line(gate, booked, source, _dispersed(place, dispersion), clip)

    def _allowing_for(self, fit: Fitted, clip: Clip, sizes: CountSizes) -> Fitted:
        """What the clip takes off may all move the level, and any direction by a part of it."""
        allowed = np.zeros(len(fit.centre))
        allowed[0] = math.sqrt(self._kappa(fit.moments.n) / sizes.mean) * clip.excess
        return replace(
            fit,
            bias=self._clip_bias(fit, clip),
            allowed=allowed,
            unseen=not sizes.seen,
        )

    def _result(self, gate: Gate, n: int, at: Setting, done: Finished) -> FitResult:
        assert isinstance(done, FinishedCounts)
        result = super()._result(gate, n, at, done)
        assert result.geometry is not None
        return replace(result, band=self._band(result.geometry.pilot_coef, done))

    def _band(self, line: Array, done: FinishedCounts) -> Band:
        """The band around the line, in the units of the user."""
        clip = done.clip
        size = self._unit * math.sqrt(self._kappa(done.fit.moments.n) * done.sizes.mean)
        return Band(
            pilot_coef=line,
            clip=math.sqrt(self._unit) * clip.size,
            width=size * clip.size,
            excess=size * clip.excess,
            limit=size * clip.limit,
            low=0.0,
            high=self._unit * done.sizes.reach,
        )

    def model(self, n: int | None) -> Model:
        """What was estimated."""
        return Model(
            loss="Poisson",
            penalty=0.0,
            n=n,
            target=self.plan.target,
            unit=self.design.unit,
            mechanism="Gaussian sums at released lines",
            recipe="steps",
            words=self.words(n),
            of=COUNT,
        )
