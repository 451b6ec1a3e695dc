"""A stepped fit, for every family: sums over records with Gaussian noise, then post-processing.

1. scales          histograms of the numbers             -> the range of each, in which the fit measures it
2. crude moments   sum x xᵀ                              -> a crude geometry
3. moments         sum w u uᵀ and the score there        -> a first line, its geometry
4. steps           score, curvature, score covariance    -> a line near the estimate, then a step from it
5. inference       nothing more is released              -> what is known of all coefficients together

`StepPlan` says how a budget is shared among these releases; it is frozen and free of data.  What is
particular to logistic regression and to least squares stands in their own modules.
"""

import math
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpinfer.errors import BudgetError, InputError, one_of_two
from dpinfer.fit.frame import ZOOMS as FRAME_ZOOMS
from dpinfer.fit.frame import (
    Frame,
    Winsorised,
    column_histograms_bound,
    framed,
    framed_columns,
)
from dpinfer.fit.noiseless import NoiselessFit, people_of, units_matrix
from dpinfer.fit.recipe import Options, Recipe, privacy
from dpinfer.inference.joint import FEW, REFERENCE, SIGNAL, TAIL, TOGETHER
from dpinfer.inference.moments import (
    FARTHEST_SDS,
    LEAST_EVENTS,
    SMALLEST,
    SURE,
    Columns,
    Crude,
    Moments,
    Radius,
    Scales,
    farthest,
    posterior,
    preconditioner,
    raised,
    refined,
    shrink,
)
from dpinfer.inference.newton import Terrain
from dpinfer.inference.posterior import Conclusion, Fitted, Step, conclude, varies
from dpinfer.inference.posterior import posterior as inferred
from dpinfer.inference.tails import Clip, TailLaw
from dpinfer.inference.winsorising import Costs, Numbers, WinsorLimits, winsor_limits
from dpinfer.mechanisms.histograms import histogram_bound
from dpinfer.mechanisms.step_sums import Line, Stack, rest_bound, rest_sum, step_sums
from dpinfer.mechanisms.summation_error import moment_error
from dpinfer.mechanisms.sums import (
    DEFAULT_MAX_RECORDS,
    Block,
    BoundedSum,
    Change,
    exposure_bound,
    in_floats,
    moment_and_score_bound,
    second_moment,
    second_moment_bound,
)
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array, solved, unsvec
from dpinfer.numerics.bins import OUTCOME_ZOOMS
from dpinfer.numerics.links import Family
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP, compose
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import NoisySum, Release
from dpinfer.result.coefficient_table import REMEDIES
from dpinfer.result.estimates import Alternatives
from dpinfer.result.result import FitResult
from dpinfer.result.statements import (
    NO_EVENTS_AT_ALL,
    OPEN,
    OPEN_FEW,
    OPEN_LEVEL,
    OPEN_RARE_REFERENCE,
    OPEN_REFERENCE,
    OPEN_TAIL,
    OPEN_TOGETHER,
    OTHER_REFERENCE,
    REPORTED,
    UNIDENTIFIED,
    Geometry,
    Model,
    Words,
)
from dpinfer.rows.encoded import Changed, Mapped, cached
from dpinfer.rows.source import Rows, Source
from dpinfer.schema.design import CountScale, Design

ORDINARY = "ordinary"
ROBUST = "robust"
CLIP = "clip"
STRICT = "strict"
FAR_VALUES = (CLIP, STRICT)
"""What is reported of a number that was winsorised: its coefficient, or only an alternative."""
TARGET_ALIASES = {"asked": ORDINARY}
"""Other names of targets."""
# The stages of a fit, in order; each is one release or a few.
SCALES = "scales"
CRUDE = "crude moments"
OUTCOME = "outcome range"
SIZES = "outcome sizes"
EXPOSURE = "exposure"
MOMENTS = "moments"
FIRST = "first steps"
INFLUENCE = "influence"
FIRST_STEP = "first step"
ESTIMATE = "estimate"
REST = "rest"
StepBudget = ZCDP | ApproxDP | NoPrivacy
"""What a stepped fit may be told to cost; without privacy the releases have no noise."""
# a stage by its name, how far one record moves its sums, and how many releases it has
_Stage = tuple[str, float, int]
TYPICAL = 1 / 20
"""The share of records with a typical level."""


@dataclass(frozen=True)
class Releases:
    """The releases of a fit, by their stage, in the order in which they are carried out."""

    stages: tuple[tuple[str, tuple[NoisySum, ...]], ...]

    def of(self, stage: str) -> tuple[NoisySum, ...]:
        """Those of one stage; none where the fit has no such stage."""
        return dict(self.stages).get(stage, ())

    @property
    def all(self) -> tuple[NoisySum, ...]:
        """All of them."""
        return tuple(release for _, releases in self.stages for release in releases)


def _releases(stages: Sequence[_Stage], shares: Sequence[ZCDP | NoPrivacy]) -> Releases:
    pairs = zip(stages, shares, strict=True)
    return Releases(tuple((stage[0], _released(stage, share)) for stage, share in pairs))


def _released(stage: _Stage, share: ZCDP | NoPrivacy) -> tuple[NoisySum, ...]:
    """The releases of a stage, which share alike."""
    name, bound, parts = stage
    if parts == 1:
        return (NoisySum(name, share, bound),)
    part = ZCDP(share.rho / parts) if isinstance(share, ZCDP) else share
    return tuple(NoisySum(f"{name}, {k + 1} of {parts}", part, bound) for k in range(parts))


@lru_cache(maxsize=256)
def _planned(budget: StepBudget, stages: tuple[_Stage, ...], shares: tuple[float, ...]) -> Releases:
    """All releases are sums plus Gaussian noise, so that their costs add up exactly."""
    if isinstance(budget, NoPrivacy):
        return _releases(stages, budget.split(*shares))
    rho = budget.zcdp().rho
    factor = 1.0
    if isinstance(budget, ApproxDP):
        factor = largest_factor(
            budget, lambda f: _releases(stages, ZCDP(f * rho).split(*shares)).all
        )
    return _releases(stages, ZCDP(factor * rho).split(*shares))


@dataclass(frozen=True)
class StepPlan:
    """What the plans of stepped fits have in common; use `GeometryPlan` or `LinearPlan`."""

    budget: StepBudget
    target: str = ORDINARY
    adjacency: str | None = None
    shares: tuple[float, ...] = ()
    draws: int = 10_000
    far_values: str = CLIP
    neighbours: str | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def usual(self) -> Mapping[str, float]:
        """The stages of the fit with their usual shares."""
        raise NotImplementedError

    @property
    def parts(self) -> Mapping[str, int]:
        """How many releases a stage has, where it is more than one."""
        return {SCALES: FRAME_ZOOMS, OUTCOME: OUTCOME_ZOOMS}

    @property
    def radius(self) -> Radius:
        """The limits of the radius factor."""
        raise NotImplementedError

    @property
    def stack(self) -> Stack:
        """The weights of the matrices beside the score."""
        raise NotImplementedError

    def strength(self, columns: Columns, n: float) -> float:
        """What a typical one of ``columns`` would have over what it takes to be printed: a rule of
        thumb.
        """
        raise NotImplementedError

    def _check(self, targets: Sequence[str]) -> None:
        spendable(self.budget)
        if self.far_values not in FAR_VALUES:
            raise InputError(
                f"far_values must be {' or '.join(map(repr, FAR_VALUES))}, not {self.far_values!r}"
            )
        object.__setattr__(self, "target", target_of(self.target, targets))
        relation = self.relation
        object.__setattr__(self, "adjacency", relation)
        object.__setattr__(self, "neighbours", relation)
        if not isinstance(self.shares, tuple | list) or len(self.shares) not in (
            0,
            len(self.usual),
        ):
            raise BudgetError(
                f"such a plan has {len(self.usual)} shares ({', '.join(self.usual)}): give as many numbers, or none"
            )
        object.__setattr__(self, "shares", tuple(self.shares) or tuple(self.usual.values()))
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        self.budget.split(*self.shares)  # refuses shares that are not positive

    @property
    def relation(self) -> Neighbours:
        """The neighbouring relation, which has the default where none was given."""
        return Neighbours.of(self._given_adjacency() or Neighbours.REPLACE)

    def _given_adjacency(self) -> str | None:
        """Return the adjacency that was given, under either name.

        `dataclasses.replace` hands on both fields as this plan has set them, as `Neighbours`: a text
        in one of them is then the new value.
        """
        given = [self.adjacency, self.neighbours]
        if len({isinstance(one, Neighbours) for one in given}) == 2 and None not in given:
            given = [None if isinstance(one, Neighbours) else one for one in given]
        return one_of_two("adjacency=", given[0], "neighbours=", given[1])

    def bounds(self, numbers: int) -> Mapping[str, float]:
        """How far one record moves the sums of each stage; ``numbers`` is that of the columns whose
        range is released.
        """
        notion = self.relation
        return {
            SCALES: column_histograms_bound(numbers, notion),
            CRUDE: second_moment_bound(notion),
            OUTCOME: histogram_bound(notion),
            SIZES: histogram_bound(notion),
            EXPOSURE: exposure_bound(),
            MOMENTS: moment_and_score_bound(notion),
            INFLUENCE: histogram_bound(notion),
            FIRST: self.stack.bound,
            FIRST_STEP: self.stack.bound,
            ESTIMATE: self.stack.bound,
            REST: rest_bound(notion),
        }

    def releases(
        self, *, numbers: int = 1, exposed: bool = False, records: int = DEFAULT_MAX_RECORDS
    ) -> Releases:
        """The releases, in order; where no column has its range released (``numbers`` is 0) there
        are no scales, where no record is ``exposed`` there is no exposure, and the other stages get
        their share.  ``records`` is how many rows there are at most.

        Guarantee [stepped_composition]: all releases are sums plus Gaussian noise, whose parameters
        add up exactly: an (ε, δ) budget is spent to the last digit.
        """
        bounds = self.bounds(numbers)
        shares = dict(zip(self.usual, self.shares, strict=True))
        if not numbers:
            del shares[SCALES]
        if not exposed:
            shares.pop(EXPOSURE, None)
        stages = tuple(
            (name, in_floats(bounds[name], records), self.parts.get(name, 1)) for name in shares
        )
        return _planned(self.budget, stages, tuple(shares.values()))

    @property
    def cost(self) -> ZCDP | NoPrivacy:
        """What the releases cost together."""
        cost = compose(release.share for release in self.releases().all)
        assert not isinstance(cost, PureDP)
        return cost

    @property
    def promise(self) -> Budget:
        """The cost, in the terms it was asked for."""
        return self.budget if isinstance(self.budget, ApproxDP) else self.cost

    def scales(
        self,
        *,
        numbers: int = 1,
        stage: str = ESTIMATE,
        exposed: bool = False,
        records: int = DEFAULT_MAX_RECORDS,
    ) -> Scales:
        """The noise of every release, from public facts; ``stage`` is which of the steps towards
        the estimate.
        """
        return _scales(self, numbers, stage, exposed, records)


@lru_cache(maxsize=256)
def _scales(plan: StepPlan, numbers: int, stage: str, exposed: bool, records: int) -> Scales:
    booked = plan.releases(numbers=numbers, exposed=exposed, records=records)
    score = booked.of(stage)[0].deviation
    return Scales(
        crude=booked.of(CRUDE)[0].deviation,
        moments=booked.of(MOMENTS)[0].deviation,
        gradient=score,
        hessian=score / math.sqrt(plan.stack.curvature),
        score_cov=score / math.sqrt(plan.stack.score),
        radius=plan.radius,
    )


def target_of(target: object, targets: Sequence[str]) -> str:
    """Return a target by its one name."""
    target = TARGET_ALIASES.get(str(target), target)
    if target in targets:
        return str(target)
    raise InputError(f"the target must be {' or '.join(map(repr, targets))}, not {target!r}")


def spendable(budget: object) -> StepBudget:
    """A budget that can pay for Gaussian noise, or none; else an error with the remedy."""
    if isinstance(budget, PureDP):
        raise BudgetError(
            "a fit without a penalty needs Gaussian noise, which gives no pure privacy: give a delta beside epsilon, "
            "as dp.ApproxDP(epsilon, delta), or rho, as dp.ZCDP(rho); with this budget ask for the target 'penalised' "
            "of logistic regression, or for dp.HuberRegression instead of least squares"
        )
    if not isinstance(budget, StepBudget):
        raise BudgetError(
            "a fit without a penalty needs budget=dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta), or dp.NoPrivacy() for "
            "the same regression without noise"
        )
    return budget


_PLAIN_LEVEL = re.compile(r"([^\[\]:]+)\[([^\[\]]+)\]")  # of one factor, as in health[good]
_FEWEST = 50.0  # a private number of records is taken to be at least this
_AMPLE = 2.0  # times what it takes to be printed: columns share what they say
_HOPELESS = 1.0  # deviations of the noise; a line takes 2.5, which luck can add to a little less
_FIRST_POWER = 0.5  # of 1/curvature: how the variance of a step grows with it
_LAST_POWER = 1.0  # ... and that of the last step
_ADDED = 0.02  # of the sampling variance: what the noise of the curvature may add
_LEFT = 2.0  # times what the noise of the first score leaves of the way: that of its curvature, too
_WHOLE = 2.0  # least radius factor of the second release, which should not lose rows


@dataclass(frozen=True, eq=False)
class Setting:
    """What a fit rests on: the encoding, the notion of neighbours, the noise of the releases, and
    the frame.

    ``columns`` are those in the frame, and ``matrix`` leads there from (1, x~).
    """

    design: Design
    neighbours: Neighbours
    scales: Scales
    frame: Frame

    @cached_property
    def columns(self) -> Columns:
        """The columns in the frame."""
        return self.frame.columns(self.design)

    @cached_property
    def matrix(self) -> Array:
        """From (1, x~) to (1, x'), the columns in the frame."""
        return self.frame.matrix(self.design)

    @cached_property
    def of_units(self) -> Array:
        """From (1, x) in original units to (1, x')."""
        return self.frame.of_units(self.design)

    @cached_property
    def clippable(self) -> npt.NDArray[np.bool_]:
        """Numbers that may be clipped to their range: not those that a power or a product is made
        of.
        """
        found = ~self.columns.dummy
        found[0] = False
        found[self.columns.of_splines] = False
        for j, factors in self.frame.products:
            found[[j, *factors]] = False
        found[list(self.design.shared)] = False
        return found

    def numbers(self, moments: Array, known: Moments, radius2: float) -> Numbers:
        """What is known of the columns; ``moments`` count records by their information.

        Numbers all of whose records fit a geometry of squared radius ``radius2`` have no law: nothing
        about them is to be chosen.
        """
        mean = moments[0] / moments[0, 0]
        covariance = moments / moments[0, 0] - np.outer(mean, mean)
        variance = np.maximum(np.diag(covariance), SMALLEST)
        np.fill_diagonal(covariance, variance)
        frame = self.frame
        ends = farthest(moments, self.columns)
        far = self.clippable & (ends**2 > radius2 * variance)
        laws = {}
        for j, histograms in frame.histograms:
            if far[j]:
                centre = frame.middle[j] + frame.half[j] * mean[j]
                unit = frame.half[j] * math.sqrt(variance[j])
                laws[j] = histograms.tails(centre, unit, known.n)
        unsure = known.noise * (known.back**2).sum(axis=1) / known.n
        return Numbers(mean, covariance, ends, variance > SIGNAL * unsure, laws)

    @property
    def known_number(self) -> bool:
        """Whether the records add up to a public number: it is not private, and each counts fully."""
        return self.neighbours.counted and self.design.unit.equal_weights

    def clustered(self, score_cov: Array, source: Source, released: float) -> Array:
        """A covariance over n units has the factor n/(n - 1) (CR1); n is public, or the one
        ``released``.
        """
        n = source.n if self.neighbours.counted else released
        return score_cov * (n / max(n - 1, 1.0)) if self.neighbours.units else score_cov

    def mapped(self, source: Source, matrix: Array) -> Source:
        """The rows u = matrix (1, x~), for their moments."""
        whole = matrix * np.sqrt(self.design.norm2)
        return Mapped(source, whole, self.neighbours, moment_error(whole))


def overloaded(strength: float, design: Design, n: int) -> str:
    """A warning where a typical column has less than twice what it takes to be printed;
    ``strength`` is how much.
    """
    if strength >= _AMPLE:
        return ""
    one = "unit" if design.unit.many else "record"
    return (
        f"{len(design.names)} coefficients are more than this budget carries at {n:,} {one}s: a level with one {one} "
        f"in twenty would have {strength:.1g} times what it takes to be printed, and twice is safe. Expect many to be "
        f"open; {'; '.join(REMEDIES)}"
    )


def crude_moments(gate: Gate, booked: NoisySum, source: Source, at: Setting) -> Crude:
    """Second moments of rows pulled into the frame.  The number of records is public or, if
    private, read off them.

    Rows that cannot be encoded count for nothing: where the release shows clearly fewer records, it
    is believed.
    """
    released = gate.release(booked, Winsorised(source, at.frame), second_moment(at.neighbours))
    d = source.dim
    norm2 = at.design.norm2
    moments = unsvec(released.value, d) * norm2
    noise = at.scales.crude * norm2
    n = max(float(moments[0, 0]), _FEWEST)
    if at.known_number and n >= source.n - SURE * noise:
        n = float(source.n)
    known = posterior(moments, at.columns, n, noise)
    kappa = at.scales.radius.of(d, n, at.scales.hessian, _WHOLE)
    return Crude(known, n, preconditioner(known, at.columns, n, kappa))


def refined_moments(
    gate: Gate, booked: NoisySum, source: Source, at: Setting, crude: Crude, what: BoundedSum
) -> Moments:
    """Second moments again, in the geometry of the crude ones; ``what`` is `moment_and_score`."""
    d = source.dim
    u = at.mapped(source, crude.preconditioner @ at.matrix)
    released = gate.release(booked, u, what).value
    return refined(unsvec(released[:-d], d), released[-d:], at.scales.moments, crude, at.columns)


def published(line: Line, said: Conclusion, at: Setting, n: float) -> Geometry:
    """The geometry in original units; ``line`` is about rows (1, x~)."""
    design = at.design
    d = len(design.names)
    to_box = np.diag(1 / design.half)
    to_box[1:, 0] = -(design.middle / design.half)[1:]
    slopes = at.of_units[1:, 1:]
    dummy = at.columns.dummy
    low, high = limits_in_units(line, at)
    matrix = line.matrix[:, :d] @ to_box
    coef = line.coef[:d] @ to_box
    if line.family.counts:  # from outcomes over their bound to their own units
        matrix = matrix / math.sqrt(design.outcome.half)
        coef[0] += design.shift[0]
    return Geometry(
        columns=design.names,
        family=line.family.name,
        preconditioner=matrix,
        pilot_coef=coef,
        max_influence=line.most,
        centre=solved(slopes, said.centre[1:] - at.of_units[1:, 0]),
        records=n,
        low=np.where(dummy, 0.0, low)[1:],
        high=np.where(dummy, 1.0, high)[1:],
        clipped=tuple(design.names[j] for j in np.flatnonzero(line.clipped[:d])),
    )


def limits_in_units(line: Line, at: Setting) -> tuple[Array, Array]:
    """The limits of winsorised columns, and the released range of others, in original units."""
    design = at.design
    d = len(design.names)
    clipped = line.clipped[:d]
    low = design.middle + design.half * line.low[:d]
    high = design.middle + design.half * line.high[:d]
    return (
        np.where(clipped, low, at.frame.low(design)),
        np.where(clipped, high, at.frame.high(design)),
    )


def lines_of(at: Setting) -> Array:
    """For every coefficient of the formula, the combination of those of the columns in the frame
    that it is.
    """
    lines = at.of_units.T.copy()
    lines[0] = 0.0
    lines[0, 0] = 1.0  # the intercept is at the centre, whatever the columns are measured by
    return np.asarray(at.design.outcome.slope * lines)


def statuses(said: Conclusion, line: Line, at: Setting) -> tuple[str, ...]:
    """Of each coefficient that it is printed, or why it is open."""
    if not said.whole:
        unidentified = (
            NO_EVENTS_AT_ALL if isinstance(at.design.outcome, CountScale) else UNIDENTIFIED
        )
        return (unidentified,) * len(at.design.names)
    return tuple(_status(j, said, line, at) for j in range(len(at.design.names)))


def _status(j: int, said: Conclusion, line: Line, at: Setting) -> str:
    if said.printed[j]:
        return REPORTED
    if j == 0:
        return OPEN_LEVEL
    why = said.answers.why[j]
    if why == TAIL and (j, -1) in said.other_columns:
        low, high = limits_in_units(line, at)
        return OPEN_TAIL.format(low=low[j], high=high[j])
    if why == REFERENCE:
        return OPEN_REFERENCE + _other_reference(j, said, at)
    if why == TOGETHER:
        return _status_together(j, said, at)
    return OPEN_FEW if why == FEW else OPEN


def _status_together(j: int, said: Conclusion, at: Setting) -> str:
    nearest = said.joint.nearest(j)
    # two levels of one factor look alike where nothing is left to compare them with
    if at.columns.dummy[j] and at.columns.group[j] == at.columns.group[nearest]:
        return OPEN_RARE_REFERENCE + _other_reference(j, said, at)
    return OPEN_TOGETHER.format(other=at.design.names[nearest])


def _other_reference(j: int, said: Conclusion, at: Setting) -> str:
    """Which level to take instead: the one that the released curvature knows most of."""
    levels = np.flatnonzero(at.columns.dummy & (at.columns.group == at.columns.group[j]))
    own = said.joint.basis[:, levels]
    most = levels[np.argmax(np.einsum("ik,ij,jk->k", own, said.joint.curvature, own))]
    plain = _PLAIN_LEVEL.fullmatch(at.design.names[most])
    if plain is None or len(levels) < 2:
        return "; another reference would help"
    return OTHER_REFERENCE.format(factor=plain[1], level=plain[2])


def alternatives(said: Conclusion, line: Line, at: Setting) -> Alternatives:
    """What is known instead of open coefficients, in original units."""
    return Alternatives(
        names=tuple(_other_name(j, base, line, at) for j, base in said.other_columns),
        instead_of=tuple(at.design.names[j] for j, _ in said.other_columns),
        estimate=said.others.estimate,
        error=said.others.law,
    )


def _other_name(j: int, base: int, line: Line, at: Setting) -> str:
    name = at.design.names[j]
    if base >= 0:
        return f"{name} - {at.design.names[base]}"
    low, high = limits_in_units(line, at)
    return f"{name} clipped to {low[j]:.4g}..{high[j]:.4g}"


def in_units(matrix: Array, fit: Fitted, at: Setting) -> Array:
    """A released matrix per record, about the coefficients of the formula in the units of its
    columns.
    """
    back = fit.back @ np.linalg.inv(fit.lines / at.design.outcome.slope)
    inner = back.T @ matrix @ back / fit.moments.n
    return np.asarray((inner + inner.T) / 2)


P = TypeVar("P", bound=StepPlan)


@dataclass(frozen=True, repr=False)
class AtLine(Changed):
    """Rows at a released line: u, y - h and w of `dpinfer.mechanisms.step_sums`."""

    line: Line
    norm2: float
    neighbours: Neighbours

    @property
    def dim(self) -> int:
        """Length of u."""
        return len(self.line.matrix)

    @property
    def change(self) -> Change:
        """The rows of a block at the line."""
        link = self.line.link(self.norm2, self.neighbours)
        return lambda block: link(block).block


@dataclass(frozen=True, eq=False)
class Place:
    """A line of (1, x') with its geometry, and the line over (1, x~) that rows are seen at."""

    terrain: Terrain
    line: Line


@dataclass(frozen=True, eq=False)
class Finished:
    """What a fit is made of when all is released: the last line over (1, x~), the step, and what is
    said of it.
    """

    line: Line
    fit: Fitted
    said: Conclusion


@dataclass(frozen=True)
class Stepped(Generic[P]):
    """A fit of a design with an intercept, without a penalty.

    ``FAMILY`` is that of the rows; a result names it, too.
    """

    NAME: ClassVar[str]
    TARGETS: ClassVar[tuple[str, ...]]
    OFFER: ClassVar[str]
    FAMILY: ClassVar[Family]

    design: Design
    plan: P

    @classmethod
    def of(cls, design: Design, options: Options) -> Recipe | None:
        """The recipe that these options ask for, from public facts alone; None where they are for
        another one.  An error where they do not go together.
        """
        raise NotImplementedError

    @classmethod
    def _plan(cls, kind: type[P], design: Design, options: Options, **more: Any) -> P | None:
        """The plan that is given, or one of this ``kind`` for the budget that is; None where the
        target is another recipe's.  ``more`` is what the kind has beside.
        """
        if isinstance(options.plan, kind):
            require_alone(options.plan, options)
            return options.plan
        if options.plan is not None or options.budget is None:
            raise BudgetError(
                f"{cls.NAME} takes budget=dp.ZCDP(rho) or dp.ApproxDP(epsilon, delta), or a {kind.__name__}"
            )
        if options.target not in (None, *cls.TARGETS):
            return None
        target = ORDINARY if options.target is None else target_of(options.target, cls.TARGETS)
        return kind(
            spendable(options.budget),
            target,
            notion(design, options),
            far_values=options.far_values or CLIP,
            **more,
        )

    @classmethod
    def _require_plain(cls, design: Design, options: Options) -> None:
        """No penalty, and an intercept."""
        if options.penalty is not None:
            raise InputError(f"{cls.NAME} has no penalty: leave it out")
        if not design.intercept:
            raise InputError(f"{cls.NAME} needs an intercept: drop the -1 or 0 from the formula")

    @property
    def neighbours(self) -> Neighbours:
        """Those of the plan."""
        return self.plan.relation

    @property
    def budget(self) -> Budget:
        """That of the plan."""
        return self.plan.promise

    @property
    def booked(self) -> Releases:
        """The releases by their stage; scales only where there is a number."""
        return self.plan.releases(
            numbers=self._numbers, exposed=self._exposed, records=self.design.unit.largest
        )

    @property
    def _numbers(self) -> int:
        return len(framed_columns(self.design))

    @property
    def _exposed(self) -> bool:
        return self.design.offset is not None

    def releases(self, n: int) -> tuple[Release, ...]:  # noqa: ARG002  (the design knows how many)
        """Sums over records, all of them."""
        return self.booked.all

    def advice(self, n: int) -> str:
        """A warning where a typical column has less than twice what it takes to be printed; none
        where n is private.
        """
        if not self.neighbours.counted:
            return ""
        return overloaded(self.plan.strength(self.design.columns, n), self.design, n)

    def hopeless(self, n: int, share: float | None = None) -> str:
        """Why no ``n`` records could give more than one line in ten, by the bound `_clear`; nothing
        where n is private.

        ``share`` is a public guess of the share of the outcome's second level, where there is one.
        """
        if not self.neighbours.counted or self._clear(n, share) >= _HOPELESS:
            return ""
        one = "unit" if self.design.unit.many else "record"
        rare = ""
        if share is not None and not self.FAMILY.exact:
            rare = f" with an outcome that {100 * share:.3g}% of them have"
        return (
            f"hardly a line can be printed, whatever the {n:,} {one}s hold{rare}: the noise of this budget "
            "hides them"
        )

    def _clear(self, n: int, share: float | None) -> float:
        """How many deviations of its noise the information of all records is clear of 0, at most.

        The direction of the intercept has the squared length κdc in the geometry, c the mean
        curvature, so that n c has the noise h κdc of the curvature.  No column has more
        information for its noise, and a line takes 2.5 deviations; where outcomes have no end, c is
        the unit in which the geometry measures it.  In logistic regression c <= p(1 - p), p the mean
        of the outcome: at least 8 of n c must be clear of the noise of score and curvature, by 3
        deviations, before any line is printed (`inference/posterior.py`).
        """
        scales = self._scales()
        d = len(self.design.names)
        radius2 = scales.kappa(d, n) * d
        if self.FAMILY.farthest is None:
            return n / (scales.hessian * radius2)
        p = 0.5 if share is None else share
        curvature = p * (1 - p)
        spare = n * curvature - LEAST_EVENTS
        if spare <= 0:
            return 0.0
        by_score = scales.gradient * math.sqrt(radius2 * curvature)
        return spare / math.hypot(by_score, scales.hessian * radius2 * curvature)

    def _scales(self, stage: str = ESTIMATE) -> Scales:
        """The noise of the releases; ``stage`` is which of the steps towards the estimate."""
        return self.plan.scales(
            numbers=self._numbers,
            stage=stage,
            exposed=self._exposed,
            records=self.design.unit.largest,
        )

    def run(self, gate: Gate, source: Source) -> FitResult:
        """All releases, then post-processing.

        Guarantee [released_values_only]: line, geometry, clips, statuses and intervals are
        functions of the releases and of public facts: with the same releases, other records give
        the same result.
        """
        rows = cached(source)
        frame = framed(gate, self.booked.of(SCALES), rows, self.design, self.neighbours)
        at = Setting(self.design, self.neighbours, self._scales(), frame)
        seed = secrets.randbits(63) if gate.seed is None else gate.seed
        return self._result(gate, source.n, at, self._fitted(gate, rows, at, seed))

    def _fitted(self, gate: Gate, source: Source, at: Setting, seed: int) -> Finished:
        """The releases of the fit, in the frame, and what is said of them."""
        raise NotImplementedError

    def _better_line(
        self, gate: Gate, booked: NoisySum, source: Source, place: Place, clip: float
    ) -> Array:
        """A first step, where a step leaves something.  Its noise is not that of the estimate: what
        counts is where the last line is.
        """
        terrain = place.terrain
        stack = self.plan.stack
        d = len(terrain.line)
        what = step_sums(place.line, clip, stack, self.design.norm2, covariance=False)
        score, hessian = stack.steer(gate.release(booked, source, what).value, d, clip)
        unsure = booked.deviation / math.sqrt(stack.curvature)
        if not np.trace(hessian) > SURE * unsure * np.sqrt(d):
            return terrain.line
        expected = terrain.expected()
        expected *= np.trace(hessian) / np.trace(expected)
        hessian, _ = shrink(hessian, expected, unsure, 0.0)
        step = terrain.best_step(hessian, score, (clip * booked.deviation) ** 2, _FIRST_POWER)
        return np.asarray(terrain.line + terrain.matrix.T @ step)

    def _of_rows(self, n: float, clip: float, way: float = 1.0) -> float:
        """κ of rows, which count fully up to κ times a typical leverage: as far as the noise of the
        curvature, times the way that the first step leaves, adds a small part of the sampling
        variance, and no less than what its radius says.

        The squared length of that way is d (σ₁ b₁ d κ/n)² or a few times that, and the noise of the
        curvature adds h²/2 times it to each direction; over n s²/(κd), the sampling variance of one,
        with b₁ = ``clip`` s/sqrt κ, that is κ² times the cost.
        """
        d = len(self.design.names)
        scales = self._scales()
        first = self._scales(FIRST_STEP).gradient
        # the noise of the first step, or a way of so many standard errors
        usual = max(clip, way * math.sqrt(n / d) / first)
        cost = _LEFT * (usual * scales.hessian * first * d**2) ** 2 / (2 * n**3)
        least = scales.kappa(d, n)
        # half way in logarithms: both grow, what is let in and n over noise
        return max(least, min(math.sqrt(least * math.sqrt(_ADDED / cost)), FARTHEST_SDS**2))

    def _limits(
        self,
        moments: Array,
        coef: Array,
        information: float,
        costs: Costs,
        at: Setting,
        known: Moments,
    ) -> WinsorLimits:
        """The limits of numbers: ``moments`` count records by their information, and ``coef`` are
        pilot coefficients.
        """
        numbers = at.numbers(moments, known, costs.radius2)
        return winsor_limits(numbers, coef, information, costs)

    @staticmethod
    def _winsorised(limits: WinsorLimits, at: Setting) -> tuple[Array, Array]:
        """The limits of winsorised columns of (1, x~); -1 and 1 for others."""
        frame = at.frame
        low = frame.middle + frame.half * (limits.numbers.mean - limits.distance)
        high = frame.middle + frame.half * (limits.numbers.mean + limits.distance)
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
        least: float = 0.0,
    ) -> Clip:
        """Return the clip of influences with the shortest intervals, on geometric average, by sampling
        variance, noise² and bias² of the scores; ``noise`` is that of a clip of 1, over n.

        What a clip takes off by the released tail is spread among all directions.  What it takes off
        records far out in a number, if its effect ends there, points along that column.
        """
        clips, excess = law.excesses
        misfit = limits.misfit(coef, matrix, law)
        d = len(coef)
        sampling = law.mean_square(np.inf) / (d * law.seen.n)
        other = sampling + (noise * clips) ** 2 + excess**2 / d
        cost = d * np.log(other) + np.log1p(misfit**2 / other).sum(axis=0)
        best = int(np.argmin(np.where(clips < least, np.inf, cost)))
        return Clip(
            size=float(clips[best]),
            excess=float(excess[best]),
            limit=max(law.seen.limit(clips[best]), float(excess[best])),
            along=matrix / np.linalg.norm(matrix, axis=0) * misfit[:, best],
        )

    @staticmethod
    def _clip_bias(fit: Fitted, clip: Clip) -> Array:
        """The second moment of the bias of a score that intervals allow for: n E as scores are spread,
        and what may point along single columns.
        """
        V = fit.score_cov
        size = float(np.trace(V))
        spread = V / size if size > 0 else np.zeros_like(V)
        return fit.moments.n**2 * (clip.excess**2 * spread + clip.along @ clip.along.T)

    def _concluded(
        self,
        fit: Fitted,
        limits: WinsorLimits,
        slope: float,
        clipped: npt.NDArray[np.bool_],
        seed: int,
    ) -> tuple[Fitted, Conclusion]:
        """Add the bias bounds of the limits to a fit, and return it with its inference.

        ``slope`` is the mean of h', ``clipped`` are the numbers that are pulled in.  One that the bounds
        leave without an interval is not reported, and known as winsorised.
        """
        known = ~limits.unknown & (limits.numbers.varies | varies(fit))
        hidden = limits.limited & ~known
        if self.plan.far_values == STRICT:
            hidden |= clipped
        fit = replace(fit, limited=limits.limited)
        pilot = solved(fit.back, fit.last.line + fit.last.step)
        estimate = inferred(fit).estimate
        # a bound grows with the slope: it is that of the larger of two noisy ones
        bounds = limits.bounds(np.where(np.abs(pilot) > np.abs(estimate), pilot, estimate))
        bounds[2] = np.where(known, bounds[2], 0.0)
        bounded = self._bounded(fit, limits, bounds, slope, hidden)
        said = conclude(bounded, clipped, self.plan.draws, seed)
        more = clipped & ~said.printed & ~hidden
        if more.any():
            bounded = self._bounded(fit, limits, bounds, slope, hidden | more)
            said = conclude(bounded, clipped, self.plan.draws, seed)
        return bounded, said

    @staticmethod
    def _bounded(
        fit: Fitted,
        limits: WinsorLimits,
        bounds: Array,
        slope: float,
        hidden: npt.NDArray[np.bool_],
    ) -> Fitted:
        """Return the fit with the bias bounds of every column that is not ``hidden``."""
        slopes, means, squares = bounds
        vectors = limits.bias(
            np.where(hidden, 0.0, slopes), np.where(hidden, 0.0, means), fit.centre
        )
        score_bias = vectors @ fit.back.T @ fit.last.hessian
        residuals = slope * float(squares.sum()) * raised(fit.last.hessian, 0.0)
        bias = fit.bias + score_bias.T @ score_bias + residuals
        return replace(fit, tail=hidden, bias=bias)

    def _step_and_rest(
        self, gate: Gate, source: Source, n: float, place: Place, clip: float, at: Setting
    ) -> Step:
        """The step of the estimate, and what it leaves."""
        terrain = place.terrain
        scales = self._scales()
        stack = self.plan.stack
        d = len(terrain.line)
        what = step_sums(place.line, clip, stack, self.design.norm2)
        released = gate.release(self.booked.of(ESTIMATE)[0], source, what).value
        score, hessian, score_cov = stack.split(released, d, clip)
        noise = clip * scales.gradient
        step = np.zeros(d)
        if np.trace(hessian) > SURE * scales.hessian * np.sqrt(d):
            step = terrain.best_step(hessian, score, noise**2, _LAST_POWER)
        rest, rest_noise = self._rest(gate, source, place, hessian, step)
        return Step(
            line=solved(terrain.matrix.T, terrain.line),
            step=step,
            score=score,
            rest=rest,
            hessian=hessian,
            score_cov=at.clustered(score_cov, source, n),
            score_noise=noise,
            rest_noise=rest_noise,
            scales=replace(scales, score_cov=clip**2 * scales.score_cov),
            family=terrain.family,
        )

    def _rest(
        self, gate: Gate, source: Source, place: Place, hessian: Array, step: Array
    ) -> tuple[Array, float]:
        """What a step leaves, and the scale of its noise."""
        booked = self.booked.of(REST)[0]
        clip = place.terrain.rest_clip(hessian, step, place.line.most)
        what = rest_sum(place.line, step, clip, self.design.norm2, self.neighbours)
        return clip * gate.release(booked, source, what).value, clip * booked.deviation

    def model(self, n: int | None) -> Model:
        """What was estimated."""
        raise NotImplementedError

    def words(self, n: int | None) -> Words:
        """Name, estimand and method."""
        raise NotImplementedError

    def _asked(self, fit: Fitted, at: Setting) -> Fitted:
        """A fit that knows what was asked: the coefficients of the formula, in the units of the
        user.
        """
        return replace(fit, lines=lines_of(at), shift=float(self.design.shift[0]))

    def _result(self, gate: Gate, n: int, at: Setting, done: Finished) -> FitResult:
        """The result in the units of the user."""
        said = done.said
        last = done.fit.last
        printed = np.flatnonzero(said.printed)
        return FitResult(
            names=self.design.names,
            estimate=said.coef,
            error=said.answers.law.mapped(np.eye(len(said.printed))[printed]),
            hessian=at.design.outcome.curvature * in_units(last.hessian, done.fit, at),
            score_cov=at.design.outcome.half**2 * in_units(last.score_cov, done.fit, at),
            model=self.model(n if self.neighbours.counted else None),
            privacy=privacy(gate, self.plan.promise),
            status=statuses(said, done.line, at),
            geometry=published(done.line, said, at, done.fit.moments.n),
            instead=alternatives(said, done.line, at),
            joint=said.joint,
        )

    @staticmethod
    def ordinary(people: Block) -> NoiselessFit:
        """The regression that was asked for, of rows (1, x~): all columns, every row counted by its
        share.  NOT PRIVATE.
        """
        raise NotImplementedError

    @staticmethod
    def as_seen(
        result: FitResult, design: Design, seen: Block, columns: Array, asked: NoiselessFit
    ) -> tuple[NoiselessFit, float]:
        """The regression that a result states, and the share of rows whose outcome it clips;
        ``seen`` are rows (1, x~) with the weights and clips of the result.  NOT PRIVATE.

        ``columns`` are the rows in original units; ``asked`` is where a search begins.
        """
        raise NotImplementedError

    @property
    def released_estimand(self) -> bool:
        """Whether the releases decide what is estimated, so that what is asked is what is stated."""
        return False

    def estimand(self, population: Rows) -> Array:
        """The ordinary coefficients, the intercept at the means; NaN where the releases decide.
        NOT PRIVATE.
        """
        if self.released_estimand:
            return np.full(len(self.design.names), np.nan)
        people = self._people(population)
        means = np.average(people.rows, axis=0, weights=people.shares * np.ones(len(people)))
        centre = (self.design.middle + self.design.half * means)[1:]
        return self.ordinary(people).in_units(self.design, centre).coef

    def nonprivate(self, rows: Rows, source: Source, level: float) -> Array:
        """Half-widths of the ordinary regression, the intercept at the means; NaN for a column that
        never varies.  NOT PRIVATE.
        """
        people = self._people(rows)
        x = people.rows
        means = np.average(x, axis=0, weights=people.shares * np.ones(len(x)))
        varying = np.flatnonzero((x.var(axis=0) > 0) | (np.arange(x.shape[1]) == 0))
        fitted = self.ordinary(replace(people, rows=x[:, varying]))
        centre = (self.design.middle + self.design.half * means)[1:]
        matrix = units_matrix(self.design, centre)[np.ix_(varying, varying)]
        variance = np.diag(matrix @ fitted.covariance @ matrix.T) * rows.n / source.n
        half = np.full(len(self.design.names), np.nan)
        half[varying] = -ndtri((1 - level) / 2) * np.sqrt(variance)
        return half

    def _people(self, rows: Rows) -> Block:
        """Rows as (1, x~)."""
        return people_of(self.design, rows.block)

    def describe(self, n: int) -> str:  # noqa: ARG002  (nothing depends on it)
        """The setting of a study, in words."""
        return f"{self.NAME}, target {self.plan.target}, {self.plan.budget}"


def in_the_geometry(design: Design, level: str) -> str:
    """What the estimand of every stepped fit says; ``level`` is what the intercept is."""
    one = "row" if design.unit.many else "record"
    return (
        f"in the fit, {one}s x far out count less, with the weight w(x) that is released with the result; where the "
        "model is right that changes nothing, where it is not the others decide more of the line; an open coefficient "
        "is in the model like any other, and its uncertainty is inside the intervals of the others; the intercept is "
        f"the {level} at the released centre"
    )


def ordinary_words(design: Design, name: str) -> str:
    """The ordinary regression that was asked for."""
    one = "row" if design.unit.many else "record"
    return (
        f"the coefficients of the ordinary {name} that was asked for, with all columns of the formula, every {one} "
        "once, values clipped to their declared bounds"
    )


def notion(design: Design, options: Options) -> Neighbours:
    """The neighbours asked for, of units where rows have ids."""
    return Neighbours.of(options.neighbours or Neighbours.REPLACE, units=design.unit.many)


def require_alone(plan: StepPlan, options: Options) -> None:
    """A plan that has its budget, target and neighbours is not told others."""
    name = type(plan).__name__
    if options.budget is not None or options.target not in (None, plan.target):
        raise BudgetError(f"a {name} has its budget and its target: leave out budget= and target=")
    if options.far_values not in (None, plan.far_values):
        raise InputError(f"a {name} has its far_values: leave out far_values=")
    if options.neighbours not in (None, plan.adjacency):
        raise InputError(f"a {name} has its adjacency: leave out adjacency=")
