"""Logistic regression by Newton steps on noisy sums: a pilot, the estimate and its remainder.

| symbol | meaning                                                                  |
| ------ | ------------------------------------------------------------------------ |
| θ      | coefficients of (1, x'), the standardised columns                        |
| A, u   | preconditioner, and the row A x': typical h'‖u‖² is 1/κ                  |
| p      | E[y] given x, at the pilot coefficients                                  |
| g, H   | score Σ w (y - p) u and Hessian Σ w p(1 - p) u uᵀ, w the row weights     |

A Newton step from pilot coefficients solves H a = g.  Near the maximum its error is quadratic in the
distance, so that three pilot steps with little of the budget come close enough for one exact step.  What
that step leaves, the remainder R, has no outcome in it and is released as well, so that the equation of
the posterior (`dpinfer.inference.posterior`) holds where few records are beyond the clip of the remainder.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpinfer.errors import BudgetError, InputError
from dpinfer.fit import noiseless
from dpinfer.fit.context import FitContext
from dpinfer.fit.noiseless import NoiselessFit
from dpinfer.fit.publishing import UNITS_CLIPPED, in_the_geometry, ordinary_words
from dpinfer.fit.recipe import Options, Recipe
from dpinfer.fit.step_plan import (
    CLIP,
    CRUDE,
    ESTIMATE,
    FIRST,
    MOMENTS,
    ORDINARY,
    REMAINDER,
    SCALES,
    StepBudget,
    StepPlan,
    adjacency,
    require_alone,
    spendable,
    target_of,
)
from dpinfer.fit.stepped import FittedModel, Pilot, Stepped, crude_moments, refined_moments
from dpinfer.inference.constants import (
    FARTHEST_SDS,
    LEVEL_PRIOR_SD,
    LINEAR_INFLUENCE_REACH,
    LOGISTIC_HESSIAN_WEIGHT,
    LOGISTIC_HESSIAN_WEIGHT_ADD_REMOVE,
    LOGISTIC_SCORE_COV_WEIGHT,
    LOGISTIC_SCORE_COV_WEIGHT_ADD_REMOVE,
    MAX_INFLUENCE_RATIO,
    MIN_EVENTS,
    MIN_INFLUENCE_RATIO,
    MIN_SIGNAL,
    SCORE_NOISE_SHARE,
    SURE_SDS,
    TYPICAL_LEVEL_SHARE,
    TYPICAL_RESIDUAL,
    TYPICAL_SLOPE,
)
from dpinfer.inference.moments import Columns, Moments, centre_of, preconditioner, raised
from dpinfer.inference.newton import LocalModel, MeanInformation, expected_hessian, logistic_pilot
from dpinfer.inference.posterior import ReleasedFit
from dpinfer.inference.tails import Clip, Tail, TailLaw
from dpinfer.inference.winsorising import Costs, WinsorLimits, logistic, winsor_limits
from dpinfer.mechanisms.losses import Logistic
from dpinfer.mechanisms.step_sums import Stack
from dpinfer.mechanisms.sums import Block, moment_and_score
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.links import LOGIT
from dpinfer.numerics.reasons import Numerical, ShareTable
from dpinfer.privacy.gate import Gate
from dpinfer.result.result import FitResult
from dpinfer.result.statements import Words
from dpinfer.rows.source import Source
from dpinfer.schema.design import Design

LOGISTIC_TARGETS = (ORDINARY,)
PILOT_STEPS: Numerical[int] = 3
"""Pilot Newton steps, which share one part of the budget."""
LOGISTIC_SHARES = ShareTable(
    {SCALES: 0.03, CRUDE: 0.05, MOMENTS: 0.09, FIRST: 0.12, ESTIMATE: 0.68, REMAINDER: 0.03},
    name="LOGISTIC_SHARES",
    decides="the shares of the budget of each stage in logistic regression",
    reason="a larger share of one stage is taken from all others; halving or doubling any one share shortens "
    "intervals by at most 1.1 % on average",
    source="simulation: python -m studies.ordinary.shares, studies/ordinary/results/shares.json, at 20,000 records",
)


@dataclass(frozen=True)
class GeometryPlan(StepPlan):
    """The plan of a logistic regression without a penalty: its budget, and the share of each stage.

    Parameters
    ----------
    budget : ZCDP, ApproxDP or NoPrivacy
        What the fit may cost.
    target : str
        What the intervals are about; the only target is "ordinary", the ordinary coefficients.
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
    >>> plan = dp.GeometryPlan(dp.ZCDP(0.1), adjacency="add-remove")
    >>> print(f"{plan.cost.rho:.2f}")
    0.10
    """

    def __post_init__(self) -> None:
        self._check(LOGISTIC_TARGETS)

    @property
    def default_shares(self) -> Mapping[str, float]:
        """Return the shares: most for the estimate, the rest for its pilot and the remainder."""
        return LOGISTIC_SHARES

    @property
    def parts(self) -> Mapping[str, int]:
        """Return the number of releases of a stage: there are three pilot steps."""
        return {**super().parts, FIRST: PILOT_STEPS}

    @property
    def stack(self) -> Stack:
        """Return the weights of the stacked matrices.

        The Hessian has a larger weight than in least squares: its noise decides more of the error, and the
        score covariance V is close to H, which it equals where the model is right.
        """
        adjacency = self.relation
        if adjacency.counted:
            return Stack(LOGISTIC_HESSIAN_WEIGHT, LOGISTIC_SCORE_COV_WEIGHT, adjacency)
        return Stack(
            LOGISTIC_HESSIAN_WEIGHT_ADD_REMOVE, LOGISTIC_SCORE_COV_WEIGHT_ADD_REMOVE, adjacency
        )

    def strength(self, columns: Columns, n: float) -> float:
        """Return the expected signal of a typical one of ``columns`` over what it needs, with ``n`` records.

        Typical is a level that one record in twenty has.  With a mean p(1 - p) of .15 it has N = .15 n/20
        events of its rarer outcome.  To be reported it needs N >= 8, and N clear of the noise of score and
        Hessian in its direction.
        """
        scales = self.scales()
        d = len(columns)
        number = TYPICAL_SLOPE * n * TYPICAL_LEVEL_SHARE
        kappa = scales.kappa(d, n)
        by_curvature = TYPICAL_SLOPE * scales.hessian * max(1.0, kappa * d * TYPICAL_LEVEL_SHARE)
        by_score = (
            TYPICAL_RESIDUAL * scales.gradient * math.sqrt(max(1 / kappa, d * TYPICAL_LEVEL_SHARE))
        )
        return number / max(
            MIN_EVENTS, MIN_SIGNAL * by_curvature, SURE_SDS * math.hypot(by_score, by_curvature)
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
    LOSS = Logistic
    PLAN = GeometryPlan
    LOSS_NAME = "Logistic()"

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """Return the recipe where these options ask for no penalty, else None.

        It is the default with a zCDP or (ε, δ) budget, or `NoPrivacy`, where there is an intercept.
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
                adjacency(design, options),
                far_values=options.far_values or CLIP,
            )
        if options.penalty is not None:
            raise InputError(f"the target {plan.target!r} has no penalty: leave it out")
        if not design.intercept:
            raise InputError(
                f"the target {plan.target!r} needs an intercept: drop the -1 or 0 from the formula"
            )
        return cls(design, plan)

    @staticmethod
    def _default(design: Design, options: Options) -> str | None:
        """Return the target where none is asked for; None where such a fit has a penalty."""
        if options.plan is not None or options.penalty is not None:
            return None
        if not isinstance(options.budget, StepBudget):
            return None
        if not design.intercept:
            return None
        return ORDINARY

    @staticmethod
    def ordinary(observations: Block) -> NoiselessFit:
        """Return the ordinary logistic regression of rows (1, x~).  NOT PRIVATE."""
        start = np.zeros(observations.rows.shape[1])
        return noiseless.logistic(
            observations.rows, observations.labels, start, observations.shares, observations.starts
        )

    @staticmethod
    def stated_regression(
        result: FitResult,  # noqa: ARG004  (no outcome is clipped)
        design: Design,  # noqa: ARG004
        observations: Block,
        columns: Array,  # noqa: ARG004
        ordinary: NoiselessFit,
    ) -> tuple[NoiselessFit, float]:
        """Return the logistic regression with the weights and clips of a result.  NOT PRIVATE."""
        return noiseless.logistic(
            observations.rows, observations.labels, ordinary.coef, observations.weights
        ), 0.0

    def words(self, n: int | None) -> Words:  # noqa: ARG002
        """Return name, estimand and method for reports."""
        about = [ordinary_words(self.design, self.NAME), in_the_geometry(self.design, "log-odds")]
        if self.every:
            about.insert(1, UNITS_CLIPPED)
        return Words(
            name=self.NAME,
            about=". ".join(about),
            method="logistic regression in a released geometry, docs/geometry.md of dpinfer.",
        )

    def _fit(self, gate: Gate, source: Source, context: FitContext, seed: int) -> FittedModel:
        releases = self.releases_by_stage
        # Σ x xᵀ twice: the first release gives a preconditioner, the second is precise in its metric.
        # The score at θ = 0, Σ w (y - 1/2) u, is released along with the second.
        crude = crude_moments(gate, releases.of(CRUDE)[0], source, context)
        query = moment_and_score(self.neighbours)
        moments = refined_moments(gate, releases.of(MOMENTS)[0], source, context, crude, query)
        pilot_coef = logistic_pilot(
            moments.matrix,
            moments.score,
            moments.n,
            context.columns,
            moments.noise * moments.back,
            self._scales().kappa(len(moments.matrix), moments.n),
        )
        limits = self._winsor_limits(moments, pilot_coef, context)
        pilot = self._pilot(moments, limits, pilot_coef, context)
        # Pilot steps.  Their noise is an error of the point where scores are evaluated, not of the
        # estimate: that uses fresh noise, and is corrected for the distance by the remainder.
        for release in releases.of(FIRST):
            pilot_coef = self._pilot_step(
                gate, release, source, pilot, pilot.max_influence, context
            )
            # winsor limits depend on the slopes, and the row weights on p(1 - p): both anew
            limits = self._winsor_limits(moments, pilot_coef, context)
            pilot = self._pilot(moments, limits, pilot_coef, context)
        typical = MeanInformation.at(moments.definite, pilot.local_model.coef)
        # The scores of a unit of several rows are clipped, by the released tail of their lengths; a single row
        # has a weight that bounds its influence.
        clip = Clip(pilot.max_influence)
        if self.every:
            law = self._law(gate, source, moments.n, pilot, context)
            coef = pilot.local_model.coef * typical.mean_slope
            noise = self._scales().gradient / moments.n
            clip = self._chosen_clip(law, limits, coef, pilot.local_model.matrix, noise)
        # The estimate: g, H and V at the last pilot coefficients, then R after the step a.
        last = self._final_step(gate, source, moments.n, pilot, clip.size, context)
        fit = ReleasedFit.of(
            last,
            pilot.local_model.matrix,
            moments,
            context.columns,
            centre_of(moments.matrix, context.columns),
        )
        if self.every:
            fit = self._with_clip_bias(fit, clip, typical)
        # Post-processing: bias bounds of the winsor limits, the posterior, and what is reported.
        clipped = pilot.linearization.clipped
        fit, inference = self._inferred(
            self._with_contrasts(fit, context), limits, typical.mean_slope, clipped, seed
        )
        return FittedModel(pilot.linearization, fit, inference)

    def _law(
        self, gate: Gate, source: Source, n: float, pilot: Pilot, context: FitContext
    ) -> TailLaw:
        """Release the histogram of influences of units at the pilot, and return the law of its tail."""
        largest = LINEAR_INFLUENCE_REACH * pilot.max_influence
        counts, noise_sd = self._released_influences(
            gate, source, pilot.linearization, context, largest
        )
        return TailLaw(Tail.halving(counts, n, noise_sd, largest))

    def _with_clip_bias(
        self, fit: ReleasedFit, clip: Clip, typical: MeanInformation
    ) -> ReleasedFit:
        """Add the clipping bias: the mean excess for the intercept, `_clip_bias` for all directions."""
        bias_bound = np.zeros(len(fit.centre))
        kappa = self._scales().kappa(len(fit.centre), fit.moments.n)
        bias_bound[0] = math.sqrt(kappa / typical.mean_slope) * clip.excess
        return replace(fit, bias=self._clip_bias(fit, clip), bias_bound=bias_bound)

    def _influence(self, typical: MeanInformation, n: float) -> float:
        """Return the largest influence allowed, over a typical one.

        A larger one gives more noise, a smaller one down-weights more rows, which costs bias.
        """
        # the clip c at which c times the noise for a clip of 1 is `SCORE_NOISE_SHARE` of the sampling sd
        added = SCORE_NOISE_SHARE / self._noise_of(typical, n)
        # Above `MAX_INFLUENCE_RATIO` it grows as the square root, so that noise still vanishes with n and so do the
        # weights: no record is down-weighted in the limit.
        return float(
            max(
                MIN_INFLUENCE_RATIO,
                min(added, math.sqrt(MAX_INFLUENCE_RATIO * added), FARTHEST_SDS),
            )
        )

    def _noise_of(self, typical: MeanInformation, n: float) -> float:
        """Return the noise sd of the score over its sampling sd, at the influence of a typical row."""
        d = len(self.design.names)
        return self._scales().gradient * math.sqrt(
            d * typical.max_residual2 / (n * typical.mean_slope)
        )

    def _winsor_limits(self, moments: Moments, coef: Array, context: FitContext) -> WinsorLimits:
        """Return the winsor limits of numeric columns.

        A row has full weight where its leverage is at most κ and its largest influence at most B, that is
        within the smaller of the two squared radii d κ and d B².
        """
        scales = self._scales()
        d = len(coef)
        n = moments.n
        second_moments = moments.definite
        typical = MeanInformation.at(second_moments, coef)
        influence = self._influence(typical, n)
        kappa = scales.kappa(d, n)
        hessian = raised(expected_hessian(second_moments, coef) / n, 1e-8)
        mean = second_moments[0] / second_moments[0, 0]
        costs = Costs(
            radius2=d * min(kappa, influence**2),
            noise_share=(influence * self._noise_of(typical, n)) ** 2,
            hessian_share=scales.hessian * kappa * d / n,
            size=LEVEL_PRIOR_SD / 2,
            response=logistic(
                float(mean @ coef),
                math.sqrt(
                    max(
                        coef @ second_moments @ coef / second_moments[0, 0] - (mean @ coef) ** 2,
                        0.0,
                    )
                ),
                typical.mean_slope,
            ),
        )
        numbers = context.numbers(hessian, moments, costs.radius2)
        return winsor_limits(numbers, coef, n * typical.mean_slope, costs)

    def _pilot(
        self, moments: Moments, limits: WinsorLimits, coef: Array, context: FitContext
    ) -> Pilot:
        """Return local model and linearization at coefficients of (1, x').

        The preconditioner is the inverse root of the expected Hessian, with columns that have far values
        scaled down (`preconditioner`).
        """
        scales = self._scales()
        columns = context.columns
        d = len(columns)
        second_moments = moments.definite
        typical = MeanInformation.at(second_moments, coef)
        hessian = raised(expected_hessian(second_moments, coef) / moments.n, 1e-8) * moments.n
        influence = self._influence(typical, moments.n)
        kappa = scales.kappa(d, moments.n)
        # columns with limits are scaled down further, so that the bound of influences takes no weight
        # from a row within its limits
        stretch = math.sqrt(max(1.0, kappa / influence**2))
        distance = np.where(limits.limited, stretch, 1.0) * limits.reach
        matrix = preconditioner(hessian, columns, hessian[0, 0], kappa, distance) / np.sqrt(
            hessian[0, 0] / moments.n
        )
        # mean squared influence ‖u‖² max(p, 1 - p)², for Gaussian rows
        typical2 = (
            float(np.trace(matrix @ hessian @ matrix.T))
            / (moments.n * typical.mean_slope)
            * typical.max_residual2
        )
        max_influence = influence * float(np.sqrt(typical2))
        return Pilot(
            LocalModel(second_moments, coef, matrix),
            self._linearization(
                matrix, coef, limits, context, math.inf if self.every else max_influence
            ),
            max_influence,
        )
