"""Hazard regression: piecewise-exponential hazards by Newton steps, one person being one record.

The hazard is exp(α_k + x·β) in interval k of public intervals of time.  Time in an interval is an exposure and an
event a count, so that this is Poisson regression of rows (person, interval), with the covariance clustered by
person; with five intervals or more it is nearly Cox regression (Holford 1980; Laird and Olivier 1981).  A person is
one record, however many rows there are (`dpinfer.mechanisms.unit_sums`); weights are predictable
(`dpinfer.mechanisms.spells`).

Second moments of covariates have all persons behind them, while the Hessian has those with events alone.  So the
pilot starts from a life table and the moments of covariates, and takes the same steps as logistic regression.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpinfer.errors import InputError
from dpinfer.fit import noiseless
from dpinfer.fit.column_scaling import ColumnScaling, release_scaling
from dpinfer.fit.context import FitContext
from dpinfer.fit.noiseless import NoiselessFit, Observations, observations_of
from dpinfer.fit.publishing import ordinary_words
from dpinfer.fit.recipe import NoLoss, Options
from dpinfer.fit.step_plan import (
    CRUDE,
    ESTIMATE,
    FIRST,
    LIFE_TABLE,
    MOMENTS,
    ORDINARY,
    REMAINDER,
    SCALES,
    StepPlan,
)
from dpinfer.fit.stepped import FittedModel, Pilot, Stepped, crude_moments
from dpinfer.inference.constants import (
    BASELINE_SCALE,
    FARTHEST_SDS,
    FOLLOW_UP_SIGNAL,
    LEVEL_PRIOR_SD,
    MIN_EVENTS,
    MIN_INFLUENCE_RATIO,
    MIN_RADIUS,
    MIN_SIGNAL,
    SCORE_NOISE_SHARE,
    TYPICAL_LEVEL_SHARE,
)
from dpinfer.inference.life_table import LifeTable, orthogonal_to_baseline
from dpinfer.inference.moments import Columns, Moments, centre_of, preconditioner, raised, refined
from dpinfer.inference.newton import LocalModel, tilted_hessian
from dpinfer.inference.posterior import ReleasedFit
from dpinfer.inference.winsorising import (
    Costs,
    NumberLaws,
    WinsorLimits,
    exponential,
    winsor_limits,
)
from dpinfer.mechanisms.spells import (
    Intervals,
    Spells,
    followed,
    life_table,
    life_table_bound,
    split_parts,
)
from dpinfer.mechanisms.step_sums import Linearization, Stack
from dpinfer.mechanisms.sums import (
    Block,
    BoundedSum,
    Change,
    OfBlock,
    Sum,
    row_weights,
    second_moment,
    second_moment_bound,
)
from dpinfer.mechanisms.unit_sums import unit_remainder, unit_stack
from dpinfer.numerics.arrays import Array, unsvec
from dpinfer.numerics.links import FARTHEST_OFFSET, HAZARD
from dpinfer.numerics.reasons import Numerical, ShareTable
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Model, Words
from dpinfer.rows.encoded import Changed, cached
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.design import HAZARD as OF_HAZARDS
from dpinfer.schema.design import Design, HazardDesign

HAZARD_TARGETS = (ORDINARY,)
PILOT_STEPS: Numerical[int] = 3
"""Pilot Newton steps, which share one part of the budget."""
HAZARD_SHARES = ShareTable(
    {
        SCALES: 0.03,
        CRUDE: 0.04,
        MOMENTS: 0.08,
        LIFE_TABLE: 0.03,
        FIRST: 0.12,
        ESTIMATE: 0.67,
        REMAINDER: 0.03,
    },
    name="HAZARD_SHARES",
    decides="the shares of the budget of each stage in hazard regression",
    reason="those of logistic regression, whose stages it has; the life table needs little, as its counts have all "
    "persons behind them",
    source="convention; the curve of the shares of logistic regression: python -m studies.ordinary.shares",
)
_TINY: Numerical[float] = 1e-300  # smallest information of all persons
# of the mean second moment of a column, below which the Hessian is raised
_FLAT: Numerical[float] = 1e-8


@dataclass(frozen=True)
class SurvivalTimes(NoLoss):
    """The likelihood of survival times with piecewise constant hazards."""


@dataclass(frozen=True)
class HazardPlan(StepPlan):
    """The plan of a hazard regression: its budget, and the share of each stage.

    Parameters
    ----------
    budget : ZCDP, ApproxDP or NoPrivacy
        What the fit may cost.
    target : str
        What the intervals are about; the only target is "ordinary".
    adjacency : "replace" or "add-remove", optional
        What may differ between two data sets: one person replaced, the number of persons public
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
    delayed : bool
        Whether persons may enter after time 0, as declared: the numbers who enter are then released, too.
    neighbours : optional
        Another name of ``adjacency``.

    Examples
    --------
    >>> import dpinfer as dp
    >>> plan = dp.HazardPlan(dp.ApproxDP(1.0, 1e-6))
    >>> plan.promise
    ApproxDP(epsilon=1.0, delta=1e-06)
    """

    delayed: bool = False

    def __post_init__(self) -> None:
        self._check(HAZARD_TARGETS)

    @property
    def default_shares(self) -> Mapping[str, float]:
        """Return the stages with their default shares of the budget."""
        return HAZARD_SHARES

    @property
    def parts(self) -> Mapping[str, int]:
        """Return the number of releases of a stage: there are three pilot steps."""
        return {**super().parts, FIRST: PILOT_STEPS}

    @property
    def stack(self) -> Stack:
        """Return the weights of the stacked matrices, where a person is one record."""
        return Stack.of_units(self.relation)

    def bounds(self, numbers: int, *, every: bool = False) -> Mapping[str, float]:
        """Return the sensitivity of each stage; ``numbers`` columns have their range released.

        ``every`` is as for other plans; here a person is always one record.
        """
        adjacency = self.relation
        steps = dict.fromkeys((FIRST, ESTIMATE), self.stack.unit_bound)
        return {
            **super().bounds(numbers, every=every),
            **steps,
            LIFE_TABLE: life_table_bound(adjacency, delayed=self.delayed),
            MOMENTS: second_moment_bound(adjacency),
        }

    def strength(self, columns: Columns, n: float) -> float:
        """Return the expected signal of a typical one of ``columns`` over what it needs, with ``n`` persons.

        It is that of counts (`PoissonPlan.strength`): a person has at most one event.
        """
        scales = self.scales()
        d = len(columns)
        noise = scales.hessian * max(1.0, scales.kappa(d, n) * d * TYPICAL_LEVEL_SHARE)
        return n * TYPICAL_LEVEL_SHARE / max(MIN_EVENTS, noise * max(MIN_SIGNAL, math.sqrt(2 * d)))


@dataclass(frozen=True, repr=False)
class Covariates(Changed):
    """Spells without their times: rows (1, x~) in the unit ball, each a share of its person."""

    design: HazardDesign

    @property
    def dim(self) -> int:
        """Return the length of a row without entry and exit."""
        return self.source.dim - 2

    @property
    def change(self) -> Change:
        """Return the change to the covariates alone, scaled to the unit ball."""
        longer = math.sqrt(self.design.norm2 / self.design.records.norm2)

        def changed(block: Block) -> Block:
            rows = block.rows[..., :-2] * longer
            return replace(block, rows=rows, weights=block.shares * row_weights(rows))

        return changed


@dataclass(frozen=True, repr=False)
class PersonIntervals(Changed):
    """Spells split into intervals: rows (1, x~, interval, log of time), those of a person together, each counting 1."""

    intervals: Intervals

    @property
    def dim(self) -> int:
        """Return the length of a row: with the intervals but for the first, and the logarithm of time for two times."""
        return self.source.dim - 2 + self.intervals.number

    @property
    def change(self) -> Change:
        """Return the change of a block of persons, all of them at once."""
        intervals = self.intervals
        return lambda block: Spells.of(block).split(intervals)

    def total(self, of_block: OfBlock, /) -> Array:
        """Return the sum over all rows, in parts that are no longer than blocks are."""
        intervals = self.intervals

        def of_spells(block: Block) -> Array:
            if block.stack:
                return np.stack([of_spells(one) for one in block.apart()])
            return Sum.of(of_block(part) for part in split_parts(block, intervals)).value

        return self.source.total(of_spells)


@dataclass(frozen=True)
class HazardSteps(Stepped[HazardPlan]):
    """Hazard regression of a design with intervals of time."""

    NAME = "hazard regression"
    TARGETS: ClassVar[tuple[str, ...]] = HAZARD_TARGETS
    OFFER = "hazard regression has 'ordinary'"
    FAMILY = HAZARD
    LOSS = SurvivalTimes
    PLAN = HazardPlan
    LOSS_NAME = "Hazard"

    @classmethod
    def _plan(cls, design: Design, options: Options, **more: Any) -> HazardPlan | None:
        assert isinstance(design, HazardDesign)
        delayed = design.follow_up.delayed
        plan = super()._plan(design, options, delayed=delayed, **more)
        if plan is not None and plan.delayed != delayed:
            raise InputError(
                f"the outcome has {'an' if delayed else 'no'} entry: give the HazardPlan delayed={delayed}"
            )
        return plan

    @property
    def _survival(self) -> HazardDesign:
        assert isinstance(self.design, HazardDesign)
        return self.design

    @property
    def _intervals(self) -> Intervals:
        return Intervals(self._survival.follow_up.edges)

    @property
    def every(self) -> bool:
        """Return False: the fit needs no histogram of rows per person."""
        return False

    @property
    def _exposed(self) -> bool:
        return False

    @property
    def _most_rows(self) -> int:
        return self.design.unit.largest * self._intervals.number

    def likelihood_rows(self, source: Source) -> Source:
        """Return the rows of the likelihood: those of persons and intervals."""
        return PersonIntervals(source, self._intervals)

    @staticmethod
    def ordinary(observations: Block) -> NoiselessFit:
        """Return the ordinary regression of rows (1, x~, interval).  NOT PRIVATE."""
        assert isinstance(observations, Observations)
        return noiseless.poisson(observations)

    def observations(self, rows: Rows) -> Block:
        """Return the rows of the likelihood as (1, x~, interval)."""
        split = Spells.of(rows.block).split(self._intervals)
        return observations_of(self.design, split)

    @staticmethod
    def stated_regression(
        result: FitResult,  # noqa: ARG004  (the stated regression is the ordinary one)
        design: Design,  # noqa: ARG004
        observations: Block,  # noqa: ARG004
        columns: Array,  # noqa: ARG004
        ordinary: NoiselessFit,
    ) -> tuple[NoiselessFit, float]:
        """Return the ordinary regression, which predictable weights leave where the model is right.  NOT PRIVATE."""
        return ordinary, 0.0

    def words(self, n: int | None) -> Words:  # noqa: ARG002
        """Return name, estimand and method for reports."""
        number = self._intervals.number
        about = [
            ordinary_words(self.design, self.NAME),
            "A coefficient is a change of the logarithm of the hazard, so that exp of it is a hazard ratio. The "
            f"baseline hazard is constant in each of {number} intervals of time; with five or more, hazard ratios are "
            "nearly those of Cox regression. Standard errors are robust, and clustered by person",
            "Persons far from the centre count less in the fit, and a person's time counts until the information in "
            "it reaches a bound. Both are known before what happens next: where hazards are proportional this changes "
            "nothing, as censoring does not; where they are not, persons near the centre and early times decide more. "
            "A coefficient that is not reported is in the model like any other; its uncertainty is inside the "
            "intervals of the others. The intercept is the log hazard at the released centre, of intervals too",
        ]
        return Words(
            name=self.NAME,
            about=". ".join(about),
            method="hazard regression with piecewise constant hazards, docs/survival.md of dpinfer.",
        )

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Carry out all releases, then infer, as `Stepped.run` does: results are functions of releases alone."""
        rows = cached(source)
        scaling = release_scaling(
            gate,
            self.releases_by_stage.of(SCALES),
            Covariates(rows, self._survival),
            self._survival.records,
            self.neighbours,
        )
        context = FitContext(self._survival.records, self.neighbours, self._scales(), scaling)
        return self._carried_out(gate, rows, context)

    def _carried_out(self, gate: Gate, source: Source, covariates: FitContext) -> FitResult:
        context = replace(
            covariates,
            design=self.design,
            scaling=_with_intervals(covariates.scaling, self._survival),
        )
        seed = self._seed(gate)
        moments = self._moments(gate, source, covariates)
        table = self._life_table(gate, source, moments.n)
        fitted = self._fitted(gate, source, context, table, moments, seed)
        return self._result(gate, source.n, context, fitted)

    def _moments(self, gate: Gate, source: Source, context: FitContext) -> Moments:
        """Release the second moments of the covariates of persons, twice: the second time preconditioned."""
        releases = self.releases_by_stage
        rows = Covariates(source, self._survival)
        crude = crude_moments(gate, releases.of(CRUDE)[0], rows, context)
        mapped = context.mapped(rows, crude.preconditioner @ context.matrix)
        released = gate.release(
            releases.of(MOMENTS)[0], mapped, second_moment(self.neighbours)
        ).value
        d = rows.dim
        return refined(
            unsvec(released, d), np.zeros(d), context.scales.moments, crude, context.columns
        )

    def _life_table(self, gate: Gate, source: Source, n: float) -> LifeTable:
        """Release the numbers of persons who leave, and who enter, by interval."""
        release: NoisySum = self.releases_by_stage.of(LIFE_TABLE)[0]
        intervals = self._intervals
        query = life_table(intervals, self.neighbours, delayed=self._survival.follow_up.delayed)
        counts = gate.release(release, source, query).value
        return LifeTable.of(counts, intervals.widths, n, release.noise_sd)

    def _fitted(
        self,
        gate: Gate,
        source: Source,
        context: FitContext,
        table: LifeTable,
        covariates: Moments,
        seed: int,
    ) -> FittedModel:
        """Take pilot steps and the step of the estimate, and infer."""
        rows = self.likelihood_rows(source)
        moments = table.moments(covariates)
        level = table.events_per_person
        coef = table.coef(len(covariates.matrix))
        limits = self._winsor_limits(moments, coef, level, context)
        pilot = self._pilot(moments, limits, coef, level, context)
        for release in self.releases_by_stage.of(FIRST):
            coef = self._pilot_step(
                gate, release, rows, pilot, pilot.linearization.max_influence, context
            )
            limits = self._winsor_limits(moments, coef, level, context)
            pilot = self._pilot(moments, limits, coef, level, context)
        last = self._final_step(
            gate, rows, moments.n, pilot, pilot.linearization.max_influence, context
        )
        fit = ReleasedFit.of(
            last,
            pilot.local_model.matrix,
            moments,
            context.columns,
            centre_of(moments.matrix, context.columns),
        )
        clipped = pilot.linearization.clipped[: len(coef)]
        fit, inference = self._inferred(
            self._with_contrasts(fit, context), limits, level, clipped, seed
        )
        return FittedModel(pilot.linearization, fit, inference)

    def _kappa(self, n: float) -> float:
        """Return κ: a person's time counts until the information in it is κ times that of a typical person.

        It is larger than for rows, as the noise of the Hessian allows: the information of persons grows with time.
        """
        signal = n / (FOLLOW_UP_SIGNAL * len(self.design.names) * self._scales().hessian)
        return float(max(MIN_RADIUS, min(math.sqrt(MIN_RADIUS * signal), FARTHEST_SDS**2)))

    def _influence(self, n: float, level: float) -> float:
        """Return the largest influence of an event allowed, over a typical one, as in logistic regression.

        ``level`` is the number of events per person.
        """
        noise = self._scales().gradient * math.sqrt(len(self.design.names) / (n * level))
        added = SCORE_NOISE_SHARE / noise
        return float(
            max(MIN_INFLUENCE_RATIO, min(math.sqrt(MIN_INFLUENCE_RATIO * added), FARTHEST_SDS))
        )

    @staticmethod
    def _expected_hessian(moments: Moments, coef: Array, columns: Columns) -> Array:
        """Return Σ μ x xᵀ at these coefficients over the mean of μ, levels and intervals by their own rates."""
        hessian = tilted_hessian(moments.definite, coef, columns)
        return raised(hessian / hessian[0, 0], _FLAT) * moments.n

    def _winsor_limits(
        self, moments: Moments, coef: Array, level: float, context: FitContext
    ) -> WinsorLimits:
        """Return the winsor limits of numeric columns; a row is within the radius where its weight is 1."""
        scales = self._scales()
        d = len(coef)
        n = moments.n
        influence = self._influence(n, level)
        kappa = self._kappa(n)
        costs = Costs(
            radius2=d * min(kappa, influence**2),
            noise_share=(influence * scales.gradient) ** 2 * d / (n * level),
            hessian_share=scales.hessian * kappa * d / n,
            size=LEVEL_PRIOR_SD / 2,
            response=exponential,
        )
        numbers: NumberLaws = context.numbers(
            self._expected_hessian(moments, coef, context.columns), moments, costs.radius2
        )
        return winsor_limits(numbers, coef, n * level, costs)

    def _pilot(
        self,
        moments: Moments,
        limits: WinsorLimits,
        coef: Array,
        level: float,
        context: FitContext,
    ) -> Pilot:
        """Return local model and linearization at coefficients of (1, x', interval)."""
        columns = context.columns
        n = moments.n
        hessian = self._expected_hessian(moments, coef, columns)
        influence = self._influence(n, level)
        kappa = self._kappa(n)
        stretch = math.sqrt(max(1.0, kappa / influence**2))
        reach = np.where(limits.limited, stretch, 1.0) * limits.reach
        matrix = preconditioner(hessian, columns, n, kappa, reach) / math.sqrt(level)
        of_covariates = len(self._survival.records.names)
        matrix = orthogonal_to_baseline(matrix, of_covariates, BASELINE_SCALE)
        typical2 = float(np.trace(matrix @ hessian @ matrix.T)) / n
        local_model = LocalModel(
            moments.definite, coef, matrix, HAZARD, min_information=_TINY, columns=columns
        )
        most = influence * math.sqrt(typical2)
        return Pilot(local_model, self._linearization(matrix, coef, limits, context, most))

    def _linearization(
        self,
        matrix: Array,
        coef: Array,
        limits: WinsorLimits,
        context: FitContext,
        max_influence: float = np.inf,
    ) -> Linearization:
        point = super()._linearization(matrix, coef, limits, context, max_influence)
        return replace(
            point,
            matrix=np.column_stack([point.matrix, np.zeros(len(matrix))]),
            coef=np.append(point.coef, FARTHEST_OFFSET),
            low=np.append(point.low, -1.0),
            high=np.append(point.high, 1.0),
        )

    def _step_query(
        self,
        linearization: Linearization,
        clip: float,
        context: FitContext,  # noqa: ARG002  (weights are predictable: nothing else is needed)
        *,
        covariance: bool = True,
    ) -> BoundedSum:
        link = followed(linearization, self.design.norm2)
        return unit_stack(link, clip, self.plan.stack, covariance=covariance)

    def _remainder_query(
        self,
        linearization: Linearization,
        step: Array,
        clip: float,
        context: FitContext,  # noqa: ARG002
    ) -> BoundedSum:
        link = followed(linearization, self.design.norm2)
        return unit_remainder(link, HAZARD, step, clip, self.neighbours)

    @staticmethod
    def _remainder_clip(pilot: Pilot, hessian: Array, step: Array) -> float:
        return pilot.local_model.remainder_clip(hessian, step, np.inf)

    def model(self, n: int | None) -> Model:
        """Return what was estimated, for the result."""
        return replace(super().model(n), of=OF_HAZARDS)


def _with_intervals(scaling: ColumnScaling, design: HazardDesign) -> ColumnScaling:
    """Return the scaling of the covariates, with intervals as they are."""
    more = len(design.names) - len(scaling.middle)
    return replace(
        scaling,
        middle=np.append(scaling.middle, np.zeros(more)),
        half=np.append(scaling.half, np.ones(more)),
    )
