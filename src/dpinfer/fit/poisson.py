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
    ASKED,
    CRUDE,
    ESTIMATE,
    EXPOSURE,
    FIRST_STEP,
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
from dpinfer.maths.cut_off import CutOff, Typical
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
    COUNTS_RADIUS,
    LEAST_EVENTS,
    Columns,
    Moments,
    Radius,
    Reach,
    centre_of,
    preconditioner,
    raised,
    reaches,
)
from dpinfer.maths.spreads import DOUBTFUL, UNKNOWN_PART, beyond_doubt
from dpinfer.maths.stepping import Terrain, count_line, information
from dpinfer.maths.sums import Block, exposure_total, moment_and_score
from dpinfer.maths.tail_law import TailLaw
from dpinfer.neighbours import Neighbours
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.gate import Gate
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
    FIRST_STEP: 0.09,
    INFLUENCE: 0.06,
    ESTIMATE: 0.70,
    REST: 0.03,
}
_REACH = 4.0  # times how far counts are seen to go: the largest influence that is told apart
# of what is cut off: what counts beside noise where a clip is chosen; and in the first step, where
# all of it would move the level, which the estimate puts right
_CHOSEN = 0.2
_CHOSEN_FIRST = 0.5
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
    def radius(self) -> Radius:
        """That of counts."""
        return COUNTS_RADIUS

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


def _dispersed(place: Place, dispersion: float) -> Place:
    """A place with what is known of the variance of an outcome over its mean."""
    terrain = replace(place.terrain, dispersion=dispersion, least=LEAST_EVENTS * dispersion)
    return replace(place, terrain=terrain)


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
        line = self._first_step(gate, source, known.n, place, sizes)
        place = self._place(known, reach, line, sizes, at)
        clip = self._clip(gate, source, place, known.n, sizes)
        last = self._last_step(gate, source, known.n, place, clip, at)
        fit = Fitted.of(
            last, place.terrain.matrix, known, at.columns, centre_of(known.matrix, at.columns)
        )
        fit = self._asked(self._judged(fit, reach, place, clip, sizes, at), at)
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
        return CountSizes.of(Tail(counts, n, booked.deviation, 1.0, width=COARSE, generous=True))

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
        terrain = Terrain(
            known.of(np.arange(len(line))), line, matrix, LOG, least=_TINY, columns=columns
        )
        return Place(terrain, Line(LOG, inner, coef, np.inf, low, high))

    def _clip(self, gate: Gate, source: Source, place: Place, n: float, sizes: CountSizes) -> Clip:
        """The clip by the released tail of influences at the line of the estimate."""
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
        # the noise of d slopes per deviation, and what may be cut off them
        size = law.clip(math.sqrt(d) * self._scales().gradient / n, _CHOSEN)
        dispersion = tail.mean_square(size) * self._kappa(n)
        drawn = law.excess(size)
        convex = max(tail.excess(size, convex=True), drawn)
        # all of it moves the level, so that a tail which looks light is not believed to be
        excess = max(tail.excess(size), tail.most_excess(size, convex=True), drawn)
        return Clip(size, law, excess, convex, max(tail.limit(size), excess), dispersion)

    def _first_step(
        self, gate: Gate, source: Source, n: float, place: Place, sizes: CountSizes
    ) -> Array:
        """A line near the estimate.  Influences are not known yet, so that the sizes of outcomes
        tell the clip, for a record of usual leverage.
        """
        cost = math.sqrt(len(place.terrain.line)) * self._scales(FIRST_STEP).gradient / n
        largest = TailLaw(sizes.tail).clip(cost, _CHOSEN_FIRST)
        dispersion = sizes.tail.mean_square(largest) / sizes.mean
        clip = largest / math.sqrt(self._kappa(n) * sizes.mean)
        booked = self.booked.of(FIRST_STEP)[0]
        return self._better_line(gate, booked, source, _dispersed(place, dispersion), clip)

    def _last_step(
        self, gate: Gate, source: Source, n: float, place: Place, clip: Clip, at: Setting
    ) -> Step:
        """The step of the estimate."""
        dispersed = _dispersed(place, clip.dispersion)
        return self._step_and_rest(gate, source, n, dispersed, clip.size, at)

    def _judged(
        self, fit: Fitted, reach: Reach, place: Place, clip: Clip, sizes: CountSizes, at: Setting
    ) -> Fitted:
        """What the clip cuts off, by columns: put back as far as one law of outcomes over their mean
        tells it, and allowed for.
        """
        typical = self._typical(fit, place, sizes)
        cut_off = CutOff(fit, typical, clip.size, clip.law, dict(at.frame.bars))
        of_level = cut_off.of_level
        part = cut_off.one_law if self._alike else UNKNOWN_PART
        moved, allowed = cut_off.lost(part)
        moved[0] = of_level  # all records lose it, whatever their spreads are
        of_mean = math.sqrt(typical.kappa / sizes.mean)
        # of the level a cautious tail may be cut off above, and the part of it below that outcomes
        # have which are not less than 0
        cautious = of_mean * clip.excess
        more = cautious - of_level
        less = cautious * cut_off.part_below + of_level
        allowed[0] = min(less, more)
        doubtful = np.zeros(len(allowed))
        sure = np.zeros(len(allowed))
        if self._alike:
            gaps = cut_off.gaps()
            doubtful = np.array([beyond_doubt(gap, DOUBTFUL) for gap in gaps])
            sure = np.array([beyond_doubt(gap) for gap in gaps])
        longer = of_mean * clip.convex * doubtful + cut_off.lost_beside()
        longer[0] = more - less
        return replace(
            fit,
            put_back=moved,
            hidden=cut_off.hidden(),
            tail=reach.tail,
            allowed=allowed,
            longer=longer,
            # what is sure rests on no caution: the excess is the average of the laws
            surely_longer=of_mean * clip.law.excess(clip.size) * sure,
            # outcomes would be measured by next to nothing, and cut off there
            unseen=not sizes.seen,
        )

    @property
    def _alike(self) -> bool:
        """Whether all records count alike and as long: where they do not, the released squares of two
        groups differ by that too, and no sum tells it from a longer tail.
        """
        return not self.design.unit.columns and self.design.offset is None

    def _typical(self, fit: Fitted, place: Place, sizes: CountSizes) -> Typical:
        """What records are like after the step."""
        matrix = place.terrain.matrix
        line = place.terrain.line + matrix.T @ fit.last.step
        return Typical(matrix, line, fit.centre, self._kappa(fit.moments.n), sizes.mean)

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
