"""Logistic regression by steps: a first line, three steps, that of the estimate, and its rest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.fit import noiseless
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.recipe import Options, Recipe
from dpinfer.fit.stepped import (
    CLIP,
    CRUDE,
    ESTIMATE,
    FIRST,
    MOMENTS,
    ORDINARY,
    REST,
    SCALES,
    TYPICAL,
    Finished,
    Place,
    Setting,
    StepBudget,
    Stepped,
    StepPlan,
    crude_moments,
    in_the_geometry,
    notion,
    ordinary_words,
    refined_moments,
    require_alone,
    spendable,
    target_of,
)
from dpinfer.inference.joint import SIGNAL
from dpinfer.inference.moments import (
    FARTHEST_SDS,
    LEAST_EVENTS,
    LOGISTIC_RADIUS,
    SURE,
    Columns,
    Moments,
    Radius,
    centre_of,
    preconditioner,
    raised,
)
from dpinfer.inference.newton import Terrain, Usual, first_line, information
from dpinfer.inference.posterior import LEVEL, Fitted
from dpinfer.inference.winsorising import Costs, WinsorLimits, logistic
from dpinfer.mechanisms.losses import Logistic
from dpinfer.mechanisms.step_sums import Line, Stack
from dpinfer.mechanisms.sums import Block, moment_and_score
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import LOGIT
from dpinfer.privacy.budget import NoPrivacy
from dpinfer.privacy.gate import Gate
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Model, Words
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design

LOGISTIC_TARGETS = (ORDINARY,)
_LOGISTIC = {SCALES: 0.03, CRUDE: 0.05, MOMENTS: 0.09, FIRST: 0.12, ESTIMATE: 0.68, REST: 0.03}
_TYPICAL_CURVATURE = 0.15  # a public guess of the mean curvature p(1 - p)
_TYPICAL_FARTHEST = 1.1  # ... and of the largest influence of an outcome over a typical one

# of the deviation of the score: what its noise may add if the largest influence can make it so
_ADDED = 0.75
_INFLUENCE = (1.2, 3.0)  # the largest influence over a typical one, at least and at most


@dataclass(frozen=True)
class GeometryPlan(StepPlan):
    """Of logistic regression: a budget, the target, the adjacency, and the shares of the
    stages.

    ``adjacency`` is "replace" or "add-remove"; ``neighbours`` is another name of it.

    The only target is "ordinary".  ``draws`` are those of the law of the error, for bands; they cost
    nothing.
    ``far_values`` says whether a winsorised number is reported ("clip") or only an alternative
    ("strict").
    """

    def __post_init__(self) -> None:
        self._check(LOGISTIC_TARGETS)

    @property
    def usual(self) -> Mapping[str, float]:
        """Three first steps, then the estimate and what it leaves."""
        return _LOGISTIC

    @property
    def parts(self) -> Mapping[str, int]:
        """Three first steps."""
        return {**super().parts, FIRST: 3}

    @property
    def radius(self) -> Radius:
        """Those of logistic regression."""
        return LOGISTIC_RADIUS

    @property
    def stack(self) -> Stack:
        """The curvature counts for more than in least squares: it decides more of the error, and V
        is near to it.
        """
        notion = self.relation
        return Stack(1.0, 0.25, notion) if notion.counted else Stack(0.5, 0.1, notion)

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed: a rule of
        thumb.

        Typical is a level that one record in twenty has.  With mean curvature .15 there are N = .15
        n/20 events of its rarer outcome.  It takes N >= 8, and a number that is clear of the noise
        of score and curvature there.
        """
        scales = self.scales()
        d = len(columns)
        number = _TYPICAL_CURVATURE * n * TYPICAL
        kappa = scales.kappa(d, n)
        by_curvature = _TYPICAL_CURVATURE * scales.hessian * max(1.0, kappa * d * TYPICAL)
        by_score = _TYPICAL_FARTHEST * scales.gradient * math.sqrt(max(1 / kappa, d * TYPICAL))
        return number / max(
            LEAST_EVENTS, SIGNAL * by_curvature, SURE * math.hypot(by_score, by_curvature)
        )


@dataclass(frozen=True)
class LogisticSteps(Stepped[GeometryPlan]):
    """Logistic regression of a design with an intercept."""

    NAME = "logistic regression"
    TARGETS: ClassVar[tuple[str, ...]] = LOGISTIC_TARGETS
    OFFER = (
        "logistic regression has 'ordinary', without a penalty, and 'penalised' or 'unpenalised', as other models with "
        "a penalty have"
    )
    FAMILY = LOGIT

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """By default with a zCDP or (ε, δ) budget, or none, and nothing else asked for, where there
        is an intercept.
        """
        if not isinstance(options.loss, Logistic):
            return None
        target = cls._default(design, options) if options.target is None else options.target
        plan = options.plan
        if not isinstance(plan, GeometryPlan) and target not in cls.TARGETS:
            return None
        if isinstance(plan, GeometryPlan):
            require_alone(plan, options)
        elif plan is not None or options.budget is None:
            raise BudgetError(
                f"the target {target!r} takes a budget, or a GeometryPlan, and no other plan, mechanism or shares: "
                "leave these out"
            )
        else:
            name = target_of(target, cls.TARGETS)
            plan = GeometryPlan(
                spendable(options.budget),
                name,
                notion(design, options),
                far_values=options.far_values or CLIP,
            )
        if options.penalty is not None:
            raise InputError(f"the target {plan.target!r} has no penalty: leave it out")
        if not design.intercept:
            raise InputError(
                f"the target {plan.target!r} needs an intercept: drop the -1 or 0 from the formula"
            )
        if isinstance(plan.budget, NoPrivacy):
            return Ordinary(cls(design, plan))
        return cls(design, plan)

    @staticmethod
    def _default(design: Design, options: Options) -> str | None:
        """The target where none is asked for; None where the fit has a penalty then."""
        if options.plan is not None or options.penalty is not None:
            return None
        if not isinstance(options.budget, StepBudget):
            return None
        if not design.intercept:
            return None
        return ORDINARY

    @staticmethod
    def ordinary(people: Block) -> NoiselessFit:
        """The ordinary logistic regression of rows (1, x~).  NOT PRIVATE."""
        start = np.zeros(people.rows.shape[1])
        return noiseless.logistic(people.rows, people.labels, start, people.shares, people.starts)

    @staticmethod
    def as_seen(
        result: FitResult,  # noqa: ARG004  (no outcome is clipped)
        design: Design,  # noqa: ARG004
        seen: Block,
        columns: Array,  # noqa: ARG004
        asked: NoiselessFit,
    ) -> tuple[NoiselessFit, float]:
        """The logistic regression of rows with the weights and clips of a result.  NOT PRIVATE."""
        return noiseless.logistic(seen.rows, seen.labels, asked.coef, seen.weights), 0.0

    def words(self, n: int | None) -> Words:  # noqa: ARG002
        """Of the ordinary regression, in a released geometry."""
        about = [ordinary_words(self.design, self.NAME), in_the_geometry(self.design, "log-odds")]
        return Words(
            name=self.NAME,
            about="; ".join(about),
            method="logistic regression in a released geometry, docs/geometry.md of dpinfer.",
        )

    def _fitted(self, gate: Gate, source: Source, at: Setting, seed: int) -> Finished:
        booked = self.booked
        crude = crude_moments(gate, booked.of(CRUDE)[0], source, at)
        what = moment_and_score(self.neighbours)
        known = refined_moments(gate, booked.of(MOMENTS)[0], source, at, crude, what)
        first = first_line(known.matrix, known.score, known.n, at.columns, known.noise * known.back)
        limits = self._limits_of(known, first, at)
        place = self._place(known, limits, first, at)
        for release in booked.of(FIRST):
            line = self._better_line(gate, release, source, place, place.line.most)
            # the limits rest on the coefficients, which are known better now
            limits = self._limits_of(known, line, at)
            place = self._place(known, limits, line, at)
        last = self._step_and_rest(gate, source, known.n, place, place.line.most, at)
        fit = Fitted.of(
            last, place.terrain.matrix, known, at.columns, centre_of(known.matrix, at.columns)
        )
        usual = Usual.at(known.of(np.arange(len(first))), place.terrain.line)
        clipped = place.line.clipped
        fit, said = self._concluded(self._asked(fit, at), limits, usual.information, clipped, seed)
        return Finished(place.line, fit, said)

    def _influence(self, usual: Usual, n: float) -> float:
        """The largest influence over a typical one: large where noise is small, as weights cost
        bias.
        """
        added = _ADDED / self._noise_of(usual, n)
        least, most = _INFLUENCE
        # beyond, both grow: what is let in, and n over noise
        return float(max(least, min(added, math.sqrt(most * added), FARTHEST_SDS)))

    def _noise_of(self, usual: Usual, n: float) -> float:
        """The sd of the noise of a score over its own, if the largest influence is a typical one."""
        d = len(self.design.names)
        return self._scales().gradient * math.sqrt(d * usual.farthest2 / (n * usual.information))

    def _limits_of(self, known: Moments, line: Array, at: Setting) -> WinsorLimits:
        """The limits of numbers: a row counts fully where neither its leverage nor the largest
        influence of its label is too large.
        """
        scales = self._scales()
        d = len(line)
        n = known.n
        moments = known.of(np.arange(d))
        usual = Usual.at(moments, line)
        influence = self._influence(usual, n)
        kappa = scales.kappa(d, n)
        seen = raised(information(moments, line) / n, 1e-8)
        mean = moments[0] / moments[0, 0]
        costs = Costs(
            radius2=d * min(kappa, influence**2),
            noise_share=(influence * self._noise_of(usual, n)) ** 2,
            hessian_share=scales.hessian * kappa * d / n,
            size=LEVEL / 2,
            response=logistic(
                float(mean @ line),
                math.sqrt(max(line @ moments @ line / moments[0, 0] - (mean @ line) ** 2, 0.0)),
                usual.information,
            ),
        )
        return self._limits(seen, line, n * usual.information, costs, at, known)

    def _place(self, known: Moments, limits: WinsorLimits, line: Array, at: Setting) -> Place:
        """The geometry of a line: that of its information, and the largest influence of a label."""
        scales = self._scales()
        columns = at.columns
        d = len(columns)
        moments = known.of(np.arange(d))
        usual = Usual.at(moments, line)
        seen = raised(information(moments, line) / known.n, 1e-8) * known.n
        influence = self._influence(usual, known.n)
        kappa = scales.kappa(d, known.n)
        # so that the largest influence takes no weight from what is within its limit
        stretch = math.sqrt(max(1.0, kappa / influence**2))
        distance = np.where(limits.limited, stretch, 1.0) * limits.reach
        matrix = preconditioner(seen, columns, seen[0, 0], kappa, distance) / np.sqrt(
            seen[0, 0] / known.n
        )
        typical2 = (
            float(np.trace(matrix @ seen @ matrix.T))
            / (known.n * usual.information)
            * usual.farthest2
        )
        most = influence * float(np.sqrt(typical2))
        low, high = self._winsorised(limits, at)
        seen_at = Line(LOGIT, matrix @ at.matrix, line @ at.matrix, most, low, high)
        return Place(Terrain(moments, line, matrix), seen_at)

    def model(self, n: int | None) -> Model:
        """What was estimated."""
        return Model(
            loss="Logistic()",
            penalty=0.0,
            n=n,
            target=self.plan.target,
            unit=self.design.unit,
            mechanism="Gaussian sums at released lines",
            recipe="steps",
            words=self.words(n),
        )
