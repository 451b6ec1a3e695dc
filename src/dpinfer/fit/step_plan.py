"""The sharing of a budget among the releases of a stepped fit: frozen, and free of data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError, one_of_two
from dpinfer.fit.column_scaling import ZOOMS as COLUMN_HISTOGRAMS
from dpinfer.fit.column_scaling import (
    column_histograms_bound,
)
from dpinfer.fit.recipe import Options
from dpinfer.inference.moments import (
    Columns,
    Scales,
)
from dpinfer.mechanisms.histograms import histogram_bound
from dpinfer.mechanisms.step_sums import (
    Stack,
    remainder_bound,
)
from dpinfer.mechanisms.sums import (
    DEFAULT_MAX_RECORDS,
    exposure_bound,
    in_floats,
    moment_and_score_bound,
    second_moment_bound,
)
from dpinfer.numerics.bins import OUTCOME_ZOOMS
from dpinfer.numerics.reasons import ShareTable
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP, compose
from dpinfer.privacy.release import NoisySum
from dpinfer.schema.design import Design

ORDINARY = "ordinary"
ROBUST = "robust"
CLIP = "clip"
STRICT = "strict"
FAR_VALUES = (CLIP, STRICT)
"""A winsorised number is reported with its ordinary coefficient, or only as an alternative."""
TARGET_ALIASES = {"asked": ORDINARY}
"""Other names of targets."""
# The stages of a fit, in order, each of one release or a few.  Ledgers and results keep these texts.
ROWS = "rows of a unit"
SCALES = "scales"
CRUDE = "crude moments"
OUTCOME = "outcome range"
SIZES = "outcome sizes"
LIFE_TABLE = "life table"
EXPOSURE = "exposure"
MOMENTS = "moments"
FIRST = "first steps"
INFLUENCE = "influence"
FIRST_STEP = "first step"
ESTIMATE = "estimate"
REMAINDER = "rest"
UNIT_SHARES = ShareTable(
    {ROWS: 0.02, INFLUENCE: 0.05},
    name="UNIT_SHARES",
    decides="the shares of the stages that a fit has more where every row counts once, beside those of its plan",
    reason="numbers of rows are a histogram that need not be precise; influences have what they have in least squares",
    source="convention",
)
StepBudget = ZCDP | ApproxDP | NoPrivacy
"""The budgets of a stepped fit; without privacy the releases have no noise."""
Stage = tuple[str, float, int]
"""A stage: its name, its sensitivity, and its number of releases."""


@dataclass(frozen=True)
class Releases:
    """The releases of a fit by their stage, in the order in which they are carried out."""

    stages: tuple[tuple[str, tuple[NoisySum, ...]], ...]

    def of(self, stage: str) -> tuple[NoisySum, ...]:
        """Return the releases of a stage; none where the fit has no such stage."""
        return dict(self.stages).get(stage, ())

    @property
    def all(self) -> tuple[NoisySum, ...]:
        """Return all releases in order."""
        return tuple(release for _, releases in self.stages for release in releases)


def _releases(stages: Sequence[Stage], shares: Sequence[ZCDP | NoPrivacy]) -> Releases:
    pairs = zip(stages, shares, strict=True)
    return Releases(tuple((stage[0], _released(stage, share)) for stage, share in pairs))


def _released(stage: Stage, share: ZCDP | NoPrivacy) -> tuple[NoisySum, ...]:
    """Return the releases of a stage, with equal shares."""
    name, bound, parts = stage
    if parts == 1:
        return (NoisySum(name, share, bound),)
    split: Sequence[ZCDP | NoPrivacy] = share.split(*[1.0] * parts)
    return tuple(
        NoisySum(f"{name}, {k + 1} of {parts}", part, bound) for k, part in enumerate(split)
    )


@lru_cache(maxsize=256)
def planned(budget: StepBudget, stages: tuple[Stage, ...], shares: tuple[float, ...]) -> Releases:
    """Return the releases of a budget: sums with Gaussian noise, whose costs add up exactly in zCDP."""
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
    """The common part of the plans of stepped fits: `GeometryPlan`, `LinearPlan` and `PoissonPlan`."""

    budget: StepBudget
    target: str = ORDINARY
    adjacency: str | None = None
    shares: tuple[float, ...] = ()
    draws: int = 10_000
    far_values: str = CLIP
    neighbours: str | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def default_shares(self) -> Mapping[str, float]:
        """Return the stages of the fit with their default shares of the budget."""
        raise NotImplementedError

    @property
    def parts(self) -> Mapping[str, int]:
        """Return the number of releases of a stage, where it is more than one."""
        return {SCALES: COLUMN_HISTOGRAMS, OUTCOME: OUTCOME_ZOOMS}

    @property
    def stack(self) -> Stack:
        """Return the weights of Hessian and score covariance in the stacked query."""
        raise NotImplementedError

    def strength(self, columns: Columns, n: float) -> float:
        """Return the expected signal of a typical one of ``columns`` over what it needs, with ``n`` records."""
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
            len(self.default_shares),
        ):
            raise BudgetError(
                f"such a plan has {len(self.default_shares)} shares ({', '.join(self.default_shares)}): give as "
                "many numbers, or none"
            )
        object.__setattr__(
            self, "shares", tuple(self.shares) or tuple(self.default_shares.values())
        )
        if isinstance(self.draws, bool) or not isinstance(self.draws, int) or self.draws < 100:
            raise InputError(f"draws must be a whole number of at least 100, not {self.draws!r}")
        self.budget.split(*self.shares)  # refuses shares that are not positive

    @property
    def relation(self) -> Adjacency:
        """Return the adjacency, which has the default where none was given."""
        return Adjacency.of(self._given_adjacency() or Adjacency.REPLACE)

    def _given_adjacency(self) -> str | None:
        """Return the adjacency that was given, under either name.

        `dataclasses.replace` hands on both fields as this plan has set them, as `Adjacency`: a text
        in one of them is then the new value.
        """
        given = [self.adjacency, self.neighbours]
        if len({isinstance(one, Adjacency) for one in given}) == 2 and None not in given:
            given = [None if isinstance(one, Adjacency) else one for one in given]
        return one_of_two("adjacency=", given[0], "neighbours=", given[1])

    def stack_of(self, *, every: bool) -> Stack:
        """Return the weights of the stacked matrices; ``every`` says that a unit is one record."""
        return Stack.of_units(self.relation) if every else self.stack

    def bounds(self, numbers: int, *, every: bool = False) -> Mapping[str, float]:
        """Return the sensitivity of each stage; ``numbers`` columns have their range released.

        ``every`` says that every row of a unit counts once, so that steps bound a unit as a whole.
        """
        adjacency = self.relation
        stack = self.stack_of(every=every)
        step = stack.unit_bound if every else stack.bound
        return {
            ROWS: histogram_bound(adjacency),
            SCALES: column_histograms_bound(numbers, adjacency),
            CRUDE: second_moment_bound(adjacency),
            OUTCOME: histogram_bound(adjacency),
            SIZES: histogram_bound(adjacency),
            EXPOSURE: exposure_bound(),
            MOMENTS: moment_and_score_bound(adjacency),
            INFLUENCE: histogram_bound(adjacency),
            FIRST: step,
            FIRST_STEP: step,
            ESTIMATE: step,
            REMAINDER: remainder_bound(adjacency),
        }

    def releases(
        self,
        *,
        numbers: int = 1,
        exposed: bool = False,
        records: int = DEFAULT_MAX_RECORDS,
        every: bool = False,
    ) -> Releases:
        """Return the releases of the fit, in order.

        Parameters
        ----------
        numbers : int
            How many columns have their range released; with 0 there is no release of ranges, and
            the other stages get its share.
        exposed : bool
            Whether records have an exposure; without one there is no release of exposures.
        records : int
            The largest number of rows that the fit may have.
        every : bool
            Whether every row of a unit counts once: numbers of rows, and influences of units, are
            released then.

        Returns
        -------
        Releases
            The releases by stage; ``all`` has them in one tuple.

        Notes
        -----
        Guarantee [stepped_composition]: all releases are sums plus Gaussian noise, whose parameters
        add up exactly: an (ε, δ) budget is spent to the last digit.
        """
        bounds = self.bounds(numbers, every=every)
        shares = dict(zip(self.default_shares, self.shares, strict=True))
        if not numbers:
            del shares[SCALES]
        if not exposed:
            shares.pop(EXPOSURE, None)
        if every:
            shares = _of_units(shares)
        stages = tuple(
            (name, in_floats(bounds[name], records), self.parts.get(name, 1)) for name in shares
        )
        return planned(self.budget, stages, tuple(shares.values()))

    @property
    def cost(self) -> ZCDP | NoPrivacy:
        """Return what the releases cost together.

        Returns
        -------
        ZCDP or NoPrivacy
            The sum of the costs; for an (ε, δ) budget, its size in ρ after exact composition.
        """
        cost = compose(release.share for release in self.releases().all)
        assert not isinstance(cost, PureDP)
        return cost

    @property
    def promise(self) -> Budget:
        """Return the budget as it was given; the shares never add up to more."""
        return self.budget

    def scales(
        self,
        *,
        numbers: int = 1,
        stage: str = ESTIMATE,
        exposed: bool = False,
        records: int = DEFAULT_MAX_RECORDS,
        every: bool = False,
    ) -> Scales:
        """Return the noise sd of every release, from public facts; ``stage`` is which step is meant."""
        return _scales(self, numbers, stage, exposed, records, every)


def _of_units(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of a fit in which every row counts once: its stages, rows first, influences before the
    estimate.
    """
    found = {ROWS: UNIT_SHARES[ROWS]}
    for stage, share in shares.items():
        if stage == ESTIMATE and INFLUENCE not in found:
            found[INFLUENCE] = UNIT_SHARES[INFLUENCE]
        found[stage] = share
    return found


@lru_cache(maxsize=256)
def _scales(
    plan: StepPlan, numbers: int, stage: str, exposed: bool, records: int, every: bool
) -> Scales:
    releases = plan.releases(numbers=numbers, exposed=exposed, records=records, every=every)
    stack = plan.stack_of(every=every)
    score = releases.of(stage)[0].noise_sd
    return Scales(
        crude=releases.of(CRUDE)[0].noise_sd,
        moments=releases.of(MOMENTS)[0].noise_sd,
        gradient=score,
        hessian=score / math.sqrt(stack.hessian),
        score_cov=score / math.sqrt(stack.score_cov),
    )


def target_of(target: object, targets: Sequence[str]) -> str:
    """Return a target by its one name."""
    target = TARGET_ALIASES.get(str(target), target)
    if target in targets:
        return str(target)
    raise InputError(f"the target must be {' or '.join(map(repr, targets))}, not {target!r}")


def spendable(budget: object) -> StepBudget:
    """Return a budget that can pay for Gaussian noise, or none; else raise an error with the remedy."""
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


def adjacency(design: Design, options: Options) -> Adjacency:
    """Return the adjacency that is asked for, of units where rows have ids."""
    return Adjacency.of(options.neighbours or Adjacency.REPLACE, units=design.unit.many)


def require_alone(plan: StepPlan, options: Options) -> None:
    """Refuse options that a plan already has: its budget, target, far_values and neighbours."""
    name = type(plan).__name__
    if options.budget is not None or options.target not in (None, plan.target):
        raise BudgetError(f"a {name} has its budget and its target: leave out budget= and target=")
    if options.far_values not in (None, plan.far_values):
        raise InputError(f"a {name} has its far_values: leave out far_values=")
    if options.neighbours not in (None, plan.adjacency):
        raise InputError(f"a {name} has its adjacency: leave out adjacency=")
