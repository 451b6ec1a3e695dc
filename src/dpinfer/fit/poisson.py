"""Counts, rates and costs by steps: E[y | x] = exposure · exp(x·θ), y at least 0, without a law for y.

At a released line a Poisson step is a least-squares step, with a clip of its own for influences; what
it leaves has no outcome in it and is released beside, as in logistic regression.  Outcomes are over
their public bound, and an exposure over its own; the result returns to the units of the user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpinfer.fit import noiseless
from dpinfer.fit.noiseless import NoiselessFit, People
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.recipe import NoLoss, Options, Recipe
from dpinfer.fit.stepped import (
    ASKED,
    CRUDE,
    ESTIMATE,
    EXPOSURE,
    FIRST,
    INFLUENCE,
    MOMENTS,
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
from dpinfer.maths.arrays import Array
from dpinfer.maths.families import LOG, Line, Stack
from dpinfer.maths.histograms import (
    COARSE,
    CountSizes,
    Tail,
    count_edges,
    histogram,
    influence_histogram,
)
from dpinfer.maths.inference import Fitted, Step, conclude
from dpinfer.maths.joint import SIGNAL
from dpinfer.maths.moments import (
    LEAST_EVENTS,
    SQUARES_RADIUS,
    Columns,
    Moments,
    Radius,
    Reach,
    centre_of,
    preconditioner,
    raised,
    reaches,
)
from dpinfer.maths.spreads import DOUBTFUL, Known, Spreads, beyond_doubt, unexplained
from dpinfer.maths.stepping import Terrain, count_line, information
from dpinfer.maths.sums import Block, exposure_total, moment_and_score
from dpinfer.maths.tail_law import TailLaw
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Band, Model, Words
from dpinfer.rows.encoded import OutcomesOnly, WithoutOffset, cached
from dpinfer.rows.source import Source
from dpinfer.schema.design import COUNT, Design
from dpinfer.schema.terms import FARTHEST_OFFSET

POISSON_TARGETS = (ASKED,)
_SHARES = {
    SCALES: 0.02,
    CRUDE: 0.03,
    EXPOSURE: 0.005,
    SIZES: 0.02,
    MOMENTS: 0.05,
    INFLUENCE: 0.06,
    FIRST: 0.09,
    ESTIMATE: 0.69,
    REST: 0.04,
}
_REACH = 4.0  # times how far counts are seen to go: the largest influence that is told apart
# of what one law of outcomes over their mean says that a column loses by the cut: the truth is
# between none and all of it
_PUT_BACK = 0.5
# of what is cut off on average: how much more or less of it a deviation of a column may have for
# other reasons; a level is as many deviations as it is rare
_SLOPES = 0.25
_TINY = 1e-300  # the least information of all records, in units of the outcome
# of a mean: how the deviation of an outcome falls behind it, where variances are in proportion to
# means, and where outcomes over their mean have one law
_POWERS = (0.5, 0.0)
_FARTHEST = 3.0  # in logarithms of a mean: how far from its centre a level is taken to be
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
    "in the fit, outcomes are pulled into a released band around a released line, and a part of what that takes is put "
    "back"
)


@dataclass(frozen=True)
class Counts(NoLoss):
    """Counts, rates and costs, whose likelihood has a clip in the place of a bound."""


@dataclass(frozen=True)
class PoissonPlan(StepPlan):
    """Of counts, rates and costs: a budget, the target, the notion of neighbours, and the shares of
    the stages.

    ``target`` is "asked", ordinary Poisson regression with robust errors.  ``draws`` are those of
    the law of the error, for bands; they cost nothing.
    """

    def __post_init__(self) -> None:
        self._check(POISSON_TARGETS)

    @property
    def usual(self) -> Mapping[str, float]:
        """The stages with their usual shares."""
        return _SHARES

    @property
    def parts(self) -> Mapping[str, int]:
        """Two first steps."""
        return {**super().parts, FIRST: 2}

    @property
    def radius(self) -> Radius:
        """That of least squares."""
        return SQUARES_RADIUS

    @property
    def stack(self) -> Stack:
        """That of least squares."""
        return Stack.of(Neighbours(self.neighbours))

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed, with ``n``
        records: as in least squares.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL)
        return n * TYPICAL / max(LEAST_EVENTS, noise * max(SIGNAL, math.sqrt(2 * d)))


@dataclass(frozen=True, eq=False)
class Clip:
    """The clip of influences, the law of their sizes, a cautious mean of what the clip takes off, the same of a
    convex tail, a limit of that, and the variance of an outcome over its mean as the tail has it.
    """

    size: float
    law: TailLaw
    excess: float
    convex: float
    limit: float
    dispersion: float


@dataclass(frozen=True, eq=False)
class FinishedCounts(Finished):
    """A fit with what is known of the sizes of its counts, and the clip of influences."""

    sizes: CountSizes
    clip: Clip


@dataclass(frozen=True)
class _Record:
    """A typical record: its mean, its squared length in the geometry, w‖u‖μ, and w‖u‖²μ."""

    mean: float
    length2: float
    influence: float
    leverage: float


@dataclass(frozen=True, eq=False)
class _Typical:
    """What records are like in a geometry, by their columns, at a line."""

    matrix: Array
    line: Array
    centre: Array
    kappa: float
    mean: float

    @property
    def usual(self) -> float:
        """w‖u‖μ of a usual record."""
        return math.sqrt(self.mean / self.kappa)

    @cached_property
    def _others2(self) -> float:
        """What columns that are at their centre add to a squared length."""
        at_centre = self.matrix @ self.centre
        return max(1 / (self.kappa * self.mean) - float(at_centre @ at_centre), 0.0)

    def record(self, row: Array) -> _Record:
        """One with these columns, as far as they are given, and usual others."""
        u = self.matrix @ row
        length2 = float(u @ u) + self._others2
        further = float(np.clip((row - self.centre) @ self.line, -_FARTHEST, _FARTHEST))
        mean = self.mean * math.exp(further)
        weight = 1 / max(1.0, mean * length2)
        return _Record(mean, length2, weight * mean * math.sqrt(length2), weight * mean * length2)


def _ends(fit: Fitted, j: int) -> tuple[Array, Array]:
    """The rows that a column is judged by: a level and its reference, a number one deviation below
    its centre and one above; the first is the lower one.
    """
    low = fit.centre.copy()
    high = fit.centre.copy()
    if fit.columns.dummy[j]:
        together = fit.columns.group == fit.columns.group[j]
        low[together] = 0.0
        high[together] = 0.0
        high[j] = 1.0
    else:
        low[j] -= fit.spread[j]
        high[j] += fit.spread[j]
    return low, high


@dataclass(frozen=True)
class PoissonSteps(Stepped[PoissonPlan]):
    """Poisson regression of a design with an intercept."""

    NAME = "Poisson regression"
    TARGETS: ClassVar[tuple[str, ...]] = POISSON_TARGETS
    OFFER = "Poisson regression has 'asked'"
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
        reach = self._reach(known, first, at)
        place = self._place(known, reach, first, sizes, at)
        clip = self._clip(gate, source, place, known.n, sizes)
        for release in booked.of(FIRST):
            line = self._first_step(gate, release, source, place, clip)
            place = self._place(known, reach, line, sizes, at)
        last = self._last_step(gate, source, known.n, place, clip, at)
        fit = Fitted.of(
            last, place.terrain.matrix, known, at.columns, centre_of(known.matrix, at.columns)
        )
        fit = self._asked(self._judged(fit, reach, place, clip, sizes), at)
        said = conclude(fit, place.line.clipped[: len(first)], self.plan.draws, seed)
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
        return CountSizes.of(Tail(counts, n, booked.deviation, 1.0, width=COARSE))

    def _information(self, known: Moments, line: Array) -> Array:
        """sum μ x xᵀ at a line, in units of the mean of μ."""
        seen = information(known.of(np.arange(len(line))), line, LOG)
        return raised(seen / seen[0, 0], 1e-8) * known.n

    def _reach(self, known: Moments, line: Array, at: Setting) -> Reach:
        """Which numbers are let in as far as their public bounds go; the others are clipped to
        their released range.
        """
        seen = self._information(known, line) / known.n
        return reaches(seen, at.columns, known.n / self._scales().hessian, at.clippable)

    def _place(
        self, known: Moments, reach: Reach, line: Array, sizes: CountSizes, at: Setting
    ) -> Place:
        """The geometry of a line: that of its information."""
        columns = at.columns
        seen = self._information(known, line)
        matrix = preconditioner(seen, columns, known.n, self._kappa(known.n), reach.distance)
        matrix /= math.sqrt(sizes.mean)
        clipped = reach.tail & at.clippable
        low = np.where(clipped, at.frame.middle - at.frame.half, -1.0)
        high = np.where(clipped, at.frame.middle + at.frame.half, 1.0)
        inner = matrix @ at.matrix
        coef = line @ at.matrix
        if self.design.offset is not None:
            # it is added to the predictor as it is, and has no part in the geometry
            inner = np.column_stack([inner, np.zeros(len(inner))])
            coef = np.append(coef, FARTHEST_OFFSET)
            low = np.append(low, -1.0)
            high = np.append(high, 1.0)
        terrain = Terrain(known.of(np.arange(len(line))), line, matrix, LOG, least=_TINY)
        return Place(terrain, Line(LOG, inner, coef, np.inf, low, high))

    def _clip(self, gate: Gate, source: Source, place: Place, n: float, sizes: CountSizes) -> Clip:
        """The clip by the released tail of influences at a first line."""
        booked = self.booked.of(INFLUENCE)[0]
        d = len(place.terrain.line)
        # influences are about an outcome over the root of its mean
        largest = min(_REACH * sizes.reach, 1.0) / math.sqrt(sizes.mean)
        counts = gate.release(
            booked,
            AtLine(source, place.line, self.design.norm2, self.neighbours),
            influence_histogram(largest, self.neighbours, COARSE),
        ).value
        end = 1.0 / math.sqrt(sizes.mean)
        tail = Tail(counts, n, booked.deviation, largest, end=end, width=COARSE)
        law = TailLaw(tail)
        # the noise of d slopes per deviation, and what their intervals allow for
        size = law.clip(math.sqrt(d) * self._scales().gradient / n, _SLOPES)
        dispersion = tail.mean_square(size) * self._kappa(n)
        drawn = law.excess(size)
        convex = max(tail.excess(size, convex=True), drawn)
        # all of it moves the level, so that a tail which looks light is not believed to be
        excess = max(tail.excess(size), tail.most_excess(size, convex=True), drawn)
        return Clip(size, law, excess, convex, max(tail.limit(size), excess), dispersion)

    @staticmethod
    def _dispersed(place: Place, clip: Clip) -> Place:
        """A place with what is known of the dispersion of the outcome."""
        least = LEAST_EVENTS * clip.dispersion
        return replace(
            place, terrain=replace(place.terrain, dispersion=clip.dispersion, least=least)
        )

    def _first_step(
        self, gate: Gate, booked: NoisySum, source: Source, place: Place, clip: Clip
    ) -> Array:
        return self._better_line(gate, booked, source, self._dispersed(place, clip), clip.size)

    def _last_step(
        self, gate: Gate, source: Source, n: float, place: Place, clip: Clip, at: Setting
    ) -> Step:
        """The step of the estimate.  What is cut off falls in one direction or another: its sum over
        records is like noise.
        """
        last = self._step_and_rest(gate, source, n, self._dispersed(place, clip), clip.size, at)
        cut_off = math.sqrt(n * clip.law.square(clip.size) / len(last.score))
        return replace(last, rest_noise=math.hypot(last.rest_noise, cut_off))

    def _judged(
        self, fit: Fitted, reach: Reach, place: Place, clip: Clip, sizes: CountSizes
    ) -> Fitted:
        """What the clip cuts off, by columns: put back as far as one law of outcomes over their mean
        tells it, and allowed for.
        """
        typical = self._typical(fit, place, sizes)
        lost = self._lost(fit, typical, clip)
        last = fit.last
        score = last.score + last.hessian @ (fit.back @ (_PUT_BACK * lost))
        # two unknowns that have nothing to do with each other
        allowed = np.hypot(_SLOPES * lost[0] / fit.spread, (1 - _PUT_BACK) * lost)
        of_mean = math.sqrt(typical.kappa / sizes.mean)
        allowed[0] = of_mean * clip.excess
        gaps = [Known(0.0, 0.0)] * len(fit.centre)
        if self._alike:
            gaps = self._gaps(fit, typical, clip)
        doubtful = np.array([beyond_doubt(gap, DOUBTFUL) for gap in gaps])
        sure = np.array([beyond_doubt(gap) for gap in gaps])
        return replace(
            fit,
            last=replace(last, score=score),
            tail=reach.tail,
            allowed=allowed,
            longer=of_mean * clip.convex * doubtful,
            # what is sure rests on no caution: the excess is the average of the laws
            surely_longer=of_mean * clip.law.excess(clip.size) * sure,
        )

    @property
    def _alike(self) -> bool:
        """Whether all records count alike and as long: where they do not, the released squares of two
        groups differ by that too, and no sum tells it from a longer tail.
        """
        return not self.design.unit.columns and self.design.offset is None

    def _typical(self, fit: Fitted, place: Place, sizes: CountSizes) -> "_Typical":
        """What records are like after the step."""
        matrix = place.terrain.matrix
        line = place.terrain.line + matrix.T @ fit.last.step
        return _Typical(matrix, line, fit.centre, self._kappa(fit.moments.n), sizes.mean)

    @staticmethod
    def _lost(fit: Fitted, typical: "_Typical", clip: Clip) -> Array:
        """By how much coefficients are too small because of the clip, if outcomes over their mean
        have one law.

        Then an outcome with the influence f times its residual over its mean loses of that mean
        what the tail has beyond b f̄/f, f̄ that of a usual record.
        """
        usual = typical.usual

        def part(row: Array) -> float:
            record = typical.record(row)
            return clip.law.excess(clip.size * usual / record.influence) / usual

        lost = np.empty(len(fit.centre))
        lost[0] = part(fit.centre)
        for j in range(1, len(lost)):
            low, high = _ends(fit, j)
            lost[j] = (part(high) - part(low)) / (high[j] - low[j])
        return lost

    @staticmethod
    def _gaps(fit: Fitted, typical: "_Typical", clip: Clip) -> list[Known]:
        """By how much more outcomes spread at one end of each column than at the other, beside what
        their means explain, for a unit of the column.

        Good reasons are two: outcomes over their mean have one law, or variances are in proportion
        to means; and in either the clip, which leaves less of a record with more influence.
        """
        last = fit.last
        uncentred = fit.back.copy()
        uncentred[:, 1:] += np.outer(fit.back[:, 0], fit.centre[1:])
        everybody = fit.back[:, 0]
        seen = Spreads(
            last.hessian,
            last.score_cov,
            last.scales.hessian,
            last.scales.score_cov,
            everybody,
            clip.size,
        )
        of_all = clip.law.seen.mean_square(clip.size)

        def explained(record: "_Record", power: float) -> float:
            behind = math.pow(typical.mean / record.mean, power)
            scale = record.influence / typical.usual * behind
            left = scale**2 * clip.law.seen.mean_square(clip.size / scale) / of_all
            return left / (record.leverage * typical.kappa)

        gaps = [Known(0.0, 0.0)]
        for j in range(1, len(fit.centre)):
            low, high = _ends(fit, j)
            upper = typical.record(high)
            lower = typical.record(low)
            reasons = [explained(upper, power) - explained(lower, power) for power in _POWERS]
            if fit.columns.dummy[j]:
                together = fit.columns.dummy & (fit.columns.group == fit.columns.group[j])
                of_level = seen.of_some(uncentred[:, j], upper.length2)
                reference = everybody - uncentred[:, together].sum(axis=1)
                of_reference = seen.of_some(reference, lower.length2)
                difference = of_level.less(of_reference)
                both = max(of_level.value + of_reference.value, 2.0)
            else:
                difference = seen.along(typical.matrix @ (high - low))
                both = 2.0
            gap = unexplained(difference, (reasons[0], reasons[1]))
            gaps.append(gap.times(both / float(high[j] - low[j])))
        return gaps

    def _result(self, gate: Gate, n: int, at: Setting, done: Finished) -> FitResult:
        assert isinstance(done, FinishedCounts)
        result = super()._result(gate, n, at, done)
        assert result.geometry is not None
        return replace(result, band=self._band(result.geometry.line, done))

    def _band(self, line: Array, done: FinishedCounts) -> Band:
        """The band around the line, in the units of the user."""
        clip = done.clip
        size = self._unit * math.sqrt(self._kappa(done.fit.moments.n) * done.sizes.mean)
        return Band(
            line=line,
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
