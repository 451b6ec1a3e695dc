"""The procedure of a stepped fit, for every family: noisy sums over records, then inference.

1. scales          histograms of numeric columns          -> ranges that standardise them
2. crude moments   Σ x xᵀ                                 -> a crude preconditioner
3. moments         Σ w u uᵀ and the score at 0            -> a pilot estimate and its preconditioner
4. steps           score, Hessian, score covariance       -> better pilots, then the step of the estimate
                   and remainder of the last step
5. inference       nothing more is released               -> the posterior of all coefficients

`dpinfer.fit.step_plan` says how a budget is shared among these releases.  Each family has a module of its
own: `dpinfer.fit.logistic`, `dpinfer.fit.linear` and `dpinfer.fit.poisson`.

Coefficients have four coordinate systems: those of (1, x), in original units; of (1, x~), scaled by public
bounds; of (1, x'), standardised by released ranges, which `coef` is where nothing else is said; and of
u = A (1, x'), in which noise is isotropic (``coef_u``, and every step).
"""

import math
import secrets
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.column_scaling import (
    Winsorised,
    release_scaling,
    scaled_columns,
)
from dpinfer.fit.context import FitContext
from dpinfer.fit.noiseless import NoiselessFit, observations_of, units_matrix
from dpinfer.fit.publishing import alternatives, contrasts_of, in_units, published, statuses
from dpinfer.fit.recipe import NoLoss, Options, Recipe, privacy
from dpinfer.fit.step_plan import (
    CLIP,
    ESTIMATE,
    FIRST_STEP,
    INFLUENCE,
    ORDINARY,
    REMAINDER,
    ROWS,
    SCALES,
    STRICT,
    Releases,
    StepPlan,
    adjacency,
    require_alone,
    spendable,
    target_of,
)
from dpinfer.fit.unit_rows import release_mean_rows
from dpinfer.inference.constants import (
    AMPLE_STRENGTH,
    FARTHEST_SDS,
    FUTILITY_SDS,
    MIN_EVENTS,
    MIN_NUMBER,
    NEGLIGIBLE_VARIANCE,
    SURE_SDS,
)
from dpinfer.inference.moments import (
    Crude,
    Moments,
    Scales,
    posterior,
    preconditioner,
    raised,
    refined,
    shrink,
)
from dpinfer.inference.newton import LocalModel
from dpinfer.inference.posterior import Equation, Inference, ReleasedFit, Step, infer
from dpinfer.inference.tails import Clip, TailLaw
from dpinfer.inference.winsorising import WinsorLimits
from dpinfer.mechanisms.histograms import influence_histogram
from dpinfer.mechanisms.losses import Logistic
from dpinfer.mechanisms.step_sums import (
    Linearization,
    Stack,
    remainder_sum,
    step_sums,
)
from dpinfer.mechanisms.sums import (
    Block,
    BoundedSum,
    Change,
    second_moment,
)
from dpinfer.mechanisms.unit_sums import (
    Linked,
    linked_units,
    unit_influences,
    unit_remainder,
    unit_stack,
)
from dpinfer.numerics.arrays import Array, solved, unsvec
from dpinfer.numerics.links import Family
from dpinfer.privacy.budget import Budget
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, Release
from dpinfer.result.coefficient_table import REMEDIES
from dpinfer.result.result import FitResult
from dpinfer.result.statements import (
    WITHIN,
    Band,
    Model,
    Words,
)
from dpinfer.rows.encoded import Changed, EveryRow, RowsUpTo, cached
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.design import Design


def overload_warning(strength: float, design: Design, n: int) -> str:
    """Return a warning where a typical column has less than twice the signal it needs.

    ``strength`` is its signal-to-noise ratio over the reporting threshold.
    """
    if strength >= AMPLE_STRENGTH:
        return ""
    one = "unit" if design.unit.many else "record"
    return (
        f"this budget may be too small for {len(design.names)} coefficients at {n:,} {one}s: a level with one {one} "
        f"in twenty would have {strength:.1g} times the signal that an interval needs, and twice is safe. Expect "
        f"that some coefficients are not reported; {'; '.join(REMEDIES)}"
    )


def crude_moments(gate: Gate, release: NoisySum, source: Source, context: FitContext) -> Crude:
    """Release the second moments of standardised rows, clipped to their ranges.

    The number of records is public or, if private, the first entry of the release.  Rows that cannot be
    encoded are zero: where the release shows clearly fewer records than the public number, it is used.
    """
    released = gate.release(
        release, Winsorised(source, context.scaling), second_moment(context.neighbours)
    )
    d = source.dim
    norm2 = context.design.norm2
    second_moments = unsvec(released.value, d) * norm2
    noise = context.scales.crude * norm2
    n = max(float(second_moments[0, 0]), MIN_NUMBER)
    if context.known_number and n >= source.n - SURE_SDS * noise:
        n = float(source.n)
    shrunk = posterior(second_moments, context.columns, n, noise)
    kappa = context.scales.kappa(d, n)
    return Crude(shrunk, n, preconditioner(shrunk, context.columns, n, kappa))


def refined_moments(
    gate: Gate,
    release: NoisySum,
    source: Source,
    context: FitContext,
    crude: Crude,
    query: BoundedSum,
) -> Moments:
    """Release the second moments again, preconditioned by the crude ones, by `moment_and_score`."""
    d = source.dim
    u = context.mapped(source, crude.preconditioner @ context.matrix)
    released = gate.release(release, u, query).value
    return refined(
        unsvec(released[:-d], d), released[-d:], context.scales.moments, crude, context.columns
    )


P = TypeVar("P", bound=StepPlan)


@dataclass(frozen=True, repr=False)
class LinearizedRows(Changed):
    """Rows at a linearization: u, y - h and w of `dpinfer.mechanisms.step_sums`."""

    linearization: Linearization
    norm2: float
    neighbours: Adjacency

    @property
    def dim(self) -> int:
        """Return the length of u."""
        return len(self.linearization.matrix)

    @property
    def change(self) -> Change:
        """Return the change of a block into these rows."""
        link = self.linearization.link(self.norm2, self.neighbours)
        return lambda block: link(block).block


@dataclass(frozen=True, eq=False)
class Pilot:
    """A pilot estimate: its local model, for (1, x'), and its linearization, for rows (1, x~).

    ``max_influence`` is the clip of its steps in logistic regression.
    """

    local_model: LocalModel
    linearization: Linearization
    max_influence: float = math.inf


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A fit with its inference: the last linearization, the released step, and the posterior."""

    linearization: Linearization
    fit: ReleasedFit
    inference: Inference


@dataclass(frozen=True)
class Stepped(Generic[P]):
    """A fit of a design with an intercept, without a penalty; a subclass per family."""

    NAME: ClassVar[str]
    TARGETS: ClassVar[tuple[str, ...]]
    OFFER: ClassVar[str]
    FAMILY: ClassVar[Family]
    LOSS: ClassVar[type[Logistic | NoLoss]]
    PLAN: ClassVar[type[StepPlan]]
    LOSS_NAME: ClassVar[str]
    MECHANISM: ClassVar[str] = "Gaussian sums at released lines"

    design: Design
    plan: P

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """Return the recipe that these options ask for, from public facts alone.

        None where they ask for another one; an error where they do not go together.
        """
        if not isinstance(options.loss, cls.LOSS):
            return None
        plan = cls._plan(design, options)
        if plan is None:
            return None
        if options.penalty is not None:
            raise InputError(f"{cls.NAME} has no penalty: leave it out")
        if not design.intercept:
            raise InputError(f"{cls.NAME} needs an intercept: drop the -1 or 0 from the formula")
        return cls(cls._with_unit(design, plan), plan)

    @classmethod
    def _with_unit(cls, design: Design, plan: P) -> Design:  # noqa: ARG003  (a subclass looks at it)
        """Return the design, with the average unit where the plan cannot bound a unit as a whole."""
        return design

    @classmethod
    def _plan(cls, design: Design, options: Options, **more: Any) -> P | None:
        """Return the given plan, or one for the given budget; None for another recipe's target.

        ``more`` are the fields of the plan that not all plans have.
        """
        kind = cls.PLAN
        if isinstance(options.plan, kind):
            require_alone(options.plan, options)
            return cast("P", options.plan)
        if options.plan is not None or options.budget is None:
            raise BudgetError(
                f"{cls.NAME} takes budget=dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta), or a {kind.__name__}"
            )
        if options.target not in (None, *cls.TARGETS):
            return None
        target = ORDINARY if options.target is None else target_of(options.target, cls.TARGETS)
        plan = kind(
            spendable(options.budget),
            target,
            adjacency(design, options),
            far_values=options.far_values or CLIP,
            **more,
        )
        return cast("P", plan)

    @property
    def neighbours(self) -> Adjacency:
        """Return the adjacency of the plan."""
        return self.plan.relation

    @property
    def budget(self) -> Budget:
        """Return the cost of the plan, in the terms in which it was given."""
        return self.plan.promise

    @property
    def releases_by_stage(self) -> Releases:
        """Return the releases by their stage; scales only where there is a numeric column."""
        return self.plan.releases(
            numbers=self._numbers,
            exposed=self._exposed,
            records=self._most_rows,
            every=self.every,
        )

    @property
    def _most_rows(self) -> int:
        """Return the largest number of rows that sums may have."""
        return self.design.unit.largest

    @property
    def every(self) -> bool:
        """Return whether every row of a unit counts once, so that a unit is one record."""
        return self.design.unit.every

    @property
    def stack(self) -> Stack:
        """Return the weights of the stacked matrices."""
        return self.plan.stack_of(every=self.every)

    @property
    def _numbers(self) -> int:
        return len(scaled_columns(self.design))

    @property
    def _exposed(self) -> bool:
        return self.design.offset is not None

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (the design knows how many)
        """Return all releases, which are sums over records."""
        return self.releases_by_stage.all

    def advice(self, n: int) -> str:
        """Return a warning where a typical column has less than twice the signal it needs; none where n is private."""
        if not self.neighbours.counted:
            return ""
        return overload_warning(self.plan.strength(self.design.columns, n), self.design, n)

    def futility(self, n: int, share: float | None = None) -> str:
        """Return why hardly a coefficient could be reported, whatever the records; nothing if n is private.

        It is a bound by public facts alone (`_signal_bound`).  ``share`` is a public guess of the share of
        the outcome's second level, where there is one.
        """
        if not self.neighbours.counted or self._signal_bound(n, share) >= FUTILITY_SDS:
            return ""
        one = "unit" if self.design.unit.many else "record"
        rare = ""
        if share is not None and not self.FAMILY.exact:
            rare = f" with an outcome that {100 * share:.3g}% of them have"
        return (
            f"hardly a coefficient can be reported, whatever the {n:,} {one}s hold{rare}: the noise of this "
            "budget exceeds the information in them"
        )

    def _signal_bound(self, n: int, share: float | None) -> float:
        """Return an upper bound of the information of any column over the sd of its noise.

        The direction of the intercept has squared length κdc in u, c the mean of h', so that its
        information n c has noise h κdc, h that of the Hessian.  No column has more information for its
        noise, and a coefficient needs `MIN_SIGNAL` = 2.5 sds; for unbounded outcomes u is measured in units of
        c, so that c = 1.  In logistic regression c <= p(1 - p), p the mean of the outcome, and at least
        8 of n c must be 3 sds clear of the noise of score and Hessian before any coefficient is reported
        (`dpinfer.inference.posterior.enough_events`).  The noise of the score is left out: it is smaller, and the
        clip that it is in proportion to is not public.
        """
        scales = self._scales()
        d = len(self.design.names)
        radius2 = scales.kappa(d, n) * d
        if self.FAMILY.farthest is None:
            return n / (scales.hessian * radius2)
        p = 0.5 if share is None else share
        mean_slope = p * (1 - p)
        spare = n * mean_slope - MIN_EVENTS
        if spare <= 0:
            return 0.0
        return spare / (scales.hessian * radius2 * mean_slope)

    def _kappa(self, n: float) -> float:
        """Return κ of the last step, with ``n`` records."""
        return self._scales().kappa(len(self.design.names), n)

    def _scales(self, stage: str = ESTIMATE) -> Scales:
        """Return the noise sd of every release; ``stage`` is which of the steps is meant."""
        return self.plan.scales(
            numbers=self._numbers,
            stage=stage,
            exposed=self._exposed,
            records=self._most_rows,
            every=self.every,
        )

    def run(self, gate: Gate, source: Source) -> FitResult:
        """Carry out all releases, then infer.

        Guarantee [released_values_only]: coefficients, geometry, clips, statuses and intervals are
        functions of the releases and of public facts: with the same releases, other records give
        the same result.
        """
        rows = cached(source)
        mean_rows = 1.0
        for release in self.releases_by_stage.of(ROWS):
            mean_rows = release_mean_rows(gate, release, rows, self.neighbours)
            rows = RowsUpTo(rows, mean_rows)
        scaling = release_scaling(
            gate, self.releases_by_stage.of(SCALES), rows, self.design, self.neighbours
        )
        context = FitContext(self.design, self.neighbours, self._scales(), scaling, mean_rows)
        fitted = self._fit(gate, rows, context, self._seed(gate))
        return self._result(gate, source.n, context, fitted)

    @staticmethod
    def _seed(gate: Gate) -> int:
        """Return the seed of the draws of inference, which cost nothing."""
        return secrets.randbits(63) if gate.seed is None else gate.seed

    def likelihood_rows(self, source: Source) -> Source:
        """Return the rows of the likelihood: those of the source, each counting 1 where every row does."""
        return EveryRow(source) if self.design.unit.every else source

    def _fit(self, gate: Gate, source: Source, context: FitContext, seed: int) -> FittedModel:
        """Carry out the releases after the ranges of columns, and infer."""
        raise NotImplementedError

    def _step_query(
        self,
        linearization: Linearization,
        clip: float,
        context: FitContext,
        *,
        covariance: bool = True,
    ) -> BoundedSum:
        """Return the query of score, Hessian and score covariance at a linearization."""
        if self.every:
            return unit_stack(
                self._linked(linearization, context), clip, self.stack, covariance=covariance
            )
        return step_sums(linearization, clip, self.stack, self.design.norm2, covariance=covariance)

    def _linked(self, linearization: Linearization, context: FitContext) -> Linked:
        """Return the rows of units at a linearization, where every row counts once."""
        return linked_units(linearization, 1 / context.mean_rows, self.design.norm2)

    def _released_influences(
        self,
        gate: Gate,
        source: Source,
        linearization: Linearization,
        context: FitContext,
        largest: float,
    ) -> tuple[Array, float]:
        """Release the histogram of influences in octaves below ``largest``; return it with its noise sd."""
        release = self.releases_by_stage.of(INFLUENCE)[0]
        if self.every:
            query = unit_influences(self._linked(linearization, context), largest, self.neighbours)
            return gate.release(release, source, query).value, release.noise_sd
        query = influence_histogram(largest, self.neighbours)
        rows = LinearizedRows(source, linearization, self.design.norm2, self.neighbours)
        return gate.release(release, rows, query).value, release.noise_sd

    def _pilot_step(
        self,
        gate: Gate,
        release: NoisySum,
        source: Source,
        pilot: Pilot,
        clip: float,
        context: FitContext,
    ) -> Array:
        """Return better pilot coefficients after a Newton step on one release.

        Its noise is no noise of the estimate: it affects only where the last linearization is.
        """
        local_model = pilot.local_model
        stack = self.stack
        d = len(local_model.coef)
        query = self._step_query(pilot.linearization, clip, context, covariance=False)
        score, hessian = stack.score_and_hessian(
            gate.release(release, source, query).value, d, clip
        )
        noise_sd = release.noise_sd / math.sqrt(stack.hessian)
        if not np.trace(hessian) > SURE_SDS * noise_sd * np.sqrt(d):
            return local_model.coef
        expected = local_model.expected_hessian()
        expected *= np.trace(hessian) / np.trace(expected)
        hessian, _ = shrink(hessian, expected, noise_sd)
        step = local_model.best_step(hessian, score, (clip * release.noise_sd) ** 2)
        return np.asarray(local_model.coef + local_model.matrix.T @ step)

    def _row_kappa(self, n: float, clip: float, way: float = 1.0) -> float:
        """Return κ of rows: they have full weight up to κ times a typical leverage.

        It is as large as the noise of the Hessian allows.  The step from the pilot has squared length
        ‖δ‖² of about d (σ₁ b₁ d κ/n)², the noise of the pilot step, and the noise of the Hessian adds
        h² ‖δ‖²/2 to the variance of each direction.  Relative to n s²/(κd), the sampling variance of one
        direction, with b₁ = ``clip`` s/sqrt κ, that is κ² times ``cost`` below, which may be
        `NEGLIGIBLE_VARIANCE`.
        κ is never below what the plan's bounds of κ ask for.
        """
        d = len(self.design.names)
        scales = self._scales()
        first = self._scales(FIRST_STEP).gradient
        # the noise of the pilot step, or a distance of so many standard errors
        typical = max(clip, way * math.sqrt(n / d) / first)
        cost = (typical * scales.hessian * first * d**2) ** 2 / (2 * n**3)
        smallest = scales.kappa(d, n)
        # geometric mean of both, so that κ grows with n, but slower than n over noise
        return max(
            smallest,
            min(math.sqrt(smallest * math.sqrt(NEGLIGIBLE_VARIANCE / cost)), FARTHEST_SDS**2),
        )

    def _linearization(
        self,
        matrix: Array,
        coef: Array,
        limits: WinsorLimits,
        context: FitContext,
        max_influence: float = np.inf,
    ) -> Linearization:
        """Return the linearization at coefficients of (1, x'), with ``matrix`` as preconditioner."""
        low, high = self._winsorised(limits, context)
        return Linearization(
            self.FAMILY,
            matrix @ context.matrix,
            coef @ context.matrix,
            max_influence,
            low,
            high,
        )

    @staticmethod
    def _winsorised(limits: WinsorLimits, context: FitContext) -> tuple[Array, Array]:
        """Return the limits of winsorised columns of (1, x~); -1 and 1 for others."""
        scaling = context.scaling
        low = scaling.middle + scaling.half * (limits.numbers.mean - limits.distance)
        high = scaling.middle + scaling.half * (limits.numbers.mean + limits.distance)
        return (
            np.where(limits.winsorised, np.clip(low, -1.0, 1.0), -1.0),
            np.where(limits.winsorised, np.clip(high, -1.0, 1.0), 1.0),
        )

    @staticmethod
    def _chosen_clip(
        law: TailLaw,
        limits: WinsorLimits,
        coef: Array,
        matrix: Array,
        noise: float,
        smallest: float = 0.0,
    ) -> Clip:
        """Return the clip of influences that minimises the geometric mean length of intervals.

        By direction, the squared length is sampling variance + noise² + bias² of the mean score: σ² = E r²/(dn),
        (``noise`` b)² and E²/d, where E(b) is the mean excess over the clip b by the released tail, spread
        evenly over d directions.  ``misfit`` is the bias along single columns, if the effect of a number
        ends at two sds: it adds one eigenvalue per column, log(1 + misfit²/rest) in the log-determinant.
        """
        clips, excess = law.excesses
        misfit = limits.misfit(coef, matrix, law)
        d = len(coef)
        sampling = law.mean_square(np.inf) / (d * law.tail.n)
        other = sampling + (noise * clips) ** 2 + excess**2 / d
        cost = d * np.log(other) + np.log1p(misfit**2 / other).sum(axis=0)
        best = int(np.argmin(np.where(clips < smallest, np.inf, cost)))
        return Clip(
            size=float(clips[best]),
            excess=float(excess[best]),
            limit=max(law.tail.limit(clips[best]), float(excess[best])),
            along=matrix / np.linalg.norm(matrix, axis=0) * misfit[:, best],
        )

    @staticmethod
    def _clip_bias(fit: ReleasedFit, clip: Clip) -> Array:
        """Return the second moment of the clipping bias of the score, which intervals allow for.

        It is n² (E² V/tr V + Σ b_j b_jᵀ): the mean excess E in the directions in which scores vary, and
        the bias b_j along single columns.
        """
        V = fit.score_cov
        size = float(np.trace(V))
        spread = V / size if size > 0 else np.zeros_like(V)
        return fit.moments.n**2 * (clip.excess**2 * spread + clip.along @ clip.along.T)

    def _inferred(
        self,
        fit: ReleasedFit,
        limits: WinsorLimits,
        slope: float,
        clipped: npt.NDArray[np.bool_],
        seed: int,
    ) -> tuple[ReleasedFit, Inference]:
        """Add the bias bounds of the winsor limits to a fit, and return it with its inference.

        ``slope`` is the mean of h', ``clipped`` are the winsorised numbers.  A number that is not clear of
        its bias bound is withheld: the slope of the winsorised number is reported instead.
        """
        fit = replace(fit, limited=limits.limited)
        equation = Equation.of(fit)
        if not limits.limited.any():
            return fit, infer(equation, clipped, self.plan.draws, seed)
        reportable = ~limits.unknown & (limits.numbers.varies | equation.varies)
        withheld = limits.limited & ~reportable
        if self.plan.far_values == STRICT:
            withheld |= clipped
        pilot = solved(fit.back, fit.last.coef_u + fit.last.step)
        estimate = equation.posterior().estimate
        # a bound grows with |slope|, so that it is taken at the larger of two noisy estimates
        bounds = limits.bounds(np.where(np.abs(pilot) > np.abs(estimate), pilot, estimate))
        bounds[2] = np.where(reportable, bounds[2], 0.0)
        bounded = self._bounded(fit, limits, bounds, slope, withheld)
        inference = infer(equation.with_bias(bounded), clipped, self.plan.draws, seed)
        # a number that its own bias bound leaves without an interval adds no bias to the others
        not_clear = clipped & ~inference.reported & ~withheld
        if not_clear.any():
            bounded = self._bounded(fit, limits, bounds, slope, withheld | not_clear)
            inference = infer(equation.with_bias(bounded), clipped, self.plan.draws, seed)
        return bounded, inference

    @staticmethod
    def _bounded(
        fit: ReleasedFit,
        limits: WinsorLimits,
        bounds: Array,
        slope: float,
        withheld: npt.NDArray[np.bool_],
    ) -> ReleasedFit:
        """Return the fit with the bias bounds of every column that is not ``withheld``.

        The bias of coefficients, one vector per number and direction, is mapped to the score by H.
        """
        slopes, means, squares = bounds
        vectors = limits.bias(
            np.where(withheld, 0.0, slopes), np.where(withheld, 0.0, means), fit.centre
        )
        score_bias = vectors @ fit.back.T @ fit.last.hessian
        # residuals that the ordinary fit has and this one has not are h' r, r in units of the predictor:
        # Var(score) = E (h' r)² Σ u uᵀ = h' E r² H
        residuals = slope * float(squares.sum()) * raised(fit.last.hessian, 0.0)
        bias = fit.bias + score_bias.T @ score_bias + residuals
        return replace(fit, withheld=withheld, bias=bias)

    def _final_step(
        self, gate: Gate, source: Source, n: float, pilot: Pilot, clip: float, context: FitContext
    ) -> Step:
        """Release score, Hessian and score covariance, take the step of the estimate, and release R."""
        local_model = pilot.local_model
        scales = self._scales()
        stack = self.stack
        d = len(local_model.coef)
        query = self._step_query(pilot.linearization, clip, context)
        released = gate.release(self.releases_by_stage.of(ESTIMATE)[0], source, query).value
        score, hessian, score_cov = stack.split(released, d, clip)
        noise = clip * scales.gradient
        step = np.zeros(d)
        if np.trace(hessian) > SURE_SDS * scales.hessian * np.sqrt(d):
            step = local_model.best_step(hessian, score, noise**2)
        remainder, remainder_noise = self._remainder(gate, source, pilot, hessian, step, context)
        return Step(
            coef_u=solved(local_model.matrix.T, local_model.coef),
            step=step,
            score=score,
            remainder=remainder,
            hessian=hessian,
            score_cov=context.clustered(score_cov, source, n),
            score_noise=noise,
            remainder_noise=remainder_noise,
            scales=replace(scales, score_cov=clip**2 * scales.score_cov),
            family=local_model.family,
        )

    def _remainder(
        self,
        gate: Gate,
        source: Source,
        pilot: Pilot,
        hessian: Array,
        step: Array,
        context: FitContext,
    ) -> tuple[Array, float]:
        """Release the remainder of a step; return it with the sd of its noise."""
        release = self.releases_by_stage.of(REMAINDER)[0]
        clip = self._remainder_clip(pilot, hessian, step)
        query = self._remainder_query(pilot.linearization, step, clip, context)
        return clip * gate.release(release, source, query).value, clip * release.noise_sd

    def _remainder_query(
        self, linearization: Linearization, step: Array, clip: float, context: FitContext
    ) -> BoundedSum:
        """Return the query of the remainder of a step."""
        if self.every:
            link = self._linked(linearization, context)
            return unit_remainder(link, self.FAMILY, step, clip, self.neighbours)
        return remainder_sum(linearization, step, clip, self.design.norm2, self.neighbours)

    @staticmethod
    def _remainder_clip(pilot: Pilot, hessian: Array, step: Array) -> float:
        """Return the clip of what a record adds to the remainder."""
        return pilot.local_model.remainder_clip(hessian, step, pilot.linearization.max_influence)

    def model(self, n: int | None) -> Model:
        """Return what was estimated, for the result."""
        return Model(
            loss=self.LOSS_NAME,
            penalty=0.0,
            n=n,
            target=WITHIN if self.design.within else self.plan.target,
            unit=self.design.unit,
            mechanism=self.MECHANISM,
            recipe="steps",
            words=self.words(n),
        )

    def words(self, n: int | None) -> Words:
        """Return name, estimand and method for reports."""
        raise NotImplementedError

    def _with_contrasts(self, fit: ReleasedFit, context: FitContext) -> ReleasedFit:
        """Add the contrasts that are the coefficients of the formula, in the units of the user."""
        return replace(fit, contrasts=contrasts_of(context), shift=float(self.design.shift[0]))

    def _result(self, gate: Gate, n: int, context: FitContext, fitted: FittedModel) -> FitResult:
        """Return the result in the units of the user."""
        inference = fitted.inference
        geometry = published(fitted.linearization, inference, context, fitted.fit.moments.n)
        last = fitted.fit.last
        reported = np.flatnonzero(inference.reported)
        return FitResult(
            names=self.design.names,
            estimate=inference.coef,
            error=inference.answers.law.mapped(np.eye(len(inference.reported))[reported]),
            hessian=context.design.outcome.curvature * in_units(last.hessian, fitted.fit, context),
            score_cov=context.design.outcome.half**2
            * in_units(last.score_cov, fitted.fit, context),
            model=self.model(n if self.neighbours.counted else None),
            privacy=privacy(gate, self.plan.promise),
            status=statuses(inference, fitted.linearization, context),
            geometry=geometry,
            band=self._band(geometry.pilot_coef, fitted),
            instead=alternatives(inference, fitted.linearization, context),
            joint=inference.joint,
        )

    def _band(self, coef: Array, fitted: FittedModel) -> Band | None:  # noqa: ARG002
        """Return the band within which outcomes count, around ``coef`` in original units, if any.

        There is none where the score of a unit is bounded as a whole.
        """
        return None

    @staticmethod
    def ordinary(observations: Block) -> NoiselessFit:
        """Return the ordinary regression of rows (1, x~), each weighted by its share.  NOT PRIVATE."""
        raise NotImplementedError

    @staticmethod
    def stated_regression(
        result: FitResult,
        design: Design,
        observations: Block,
        columns: Array,
        ordinary: NoiselessFit,
    ) -> tuple[NoiselessFit, float]:
        """Return the regression that a result states, and the share of clipped outcomes.  NOT PRIVATE.

        ``observations`` are rows (1, x~) with the weights and clips of the result, ``columns`` the same in
        original units; the search starts at ``ordinary``.
        """
        raise NotImplementedError

    @property
    def released_estimand(self) -> bool:
        """Return whether the releases define the estimand, as the band of the robust target does."""
        return False

    def estimand(self, population: Rows) -> Array:
        """Return the ordinary coefficients, intercept at the means; NaN where the releases define them.

        NOT PRIVATE.
        """
        if self.released_estimand:
            return np.full(len(self.design.names), np.nan)
        observations = self.observations(population)
        means = np.average(
            observations.rows, axis=0, weights=observations.shares * np.ones(len(observations))
        )
        centre = (self.design.middle + self.design.half * means)[1:]
        return self.ordinary(observations).in_units(self.design, centre).coef

    def nonprivate(self, rows: Rows, source: Source, level: float) -> Array:
        """Return the half-widths of the ordinary regression; NaN for constant columns.  NOT PRIVATE."""
        observations = self.observations(rows)
        x = observations.rows
        means = np.average(x, axis=0, weights=observations.shares * np.ones(len(x)))
        varying = np.flatnonzero((x.var(axis=0) > 0) | (np.arange(x.shape[1]) == 0))
        fitted = self.ordinary(replace(observations, rows=x[:, varying]))
        centre = (self.design.middle + self.design.half * means)[1:]
        matrix = units_matrix(self.design, centre)[np.ix_(varying, varying)]
        variance = np.diag(matrix @ fitted.covariance @ matrix.T) * rows.n / source.n
        half = np.full(len(self.design.names), np.nan)
        half[varying] = -ndtri((1 - level) / 2) * np.sqrt(variance)
        return half

    def observations(self, rows: Rows) -> Block:
        """Return the rows as (1, x~)."""
        return observations_of(self.design, rows.block)

    def describe(self, n: int) -> str:  # noqa: ARG002  (nothing depends on it)
        """Return the setting of a study, in words."""
        return f"{self.NAME}, target {self.plan.target}, {self.plan.budget}"
