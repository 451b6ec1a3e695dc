"""The shares of a description's columns in its budget, and the queries that are released of them.

1. counts and moments   counts of levels, sums of numbers and squares, equal bins on the public ranges
2. quartiles            two rounds of histograms, each with finer bins around the quartiles of the last
3. with the last        sums from which the sampling variance of standard deviations is estimated and, where
                        observations have unequal weights, that of quartiles

Every column has its share of the cost in every release, as if it were described alone with that share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpinfer.adjacency import Adjacency
from dpinfer.description.intervals import LONGEST_HISTOGRAM
from dpinfer.errors import BudgetError, InputError
from dpinfer.mechanisms.column_sums import QUARTILES, Grouping, Levels, Numbers
from dpinfer.mechanisms.sums import DEFAULT_MAX_RECORDS, in_floats
from dpinfer.numerics.arrays import Array
from dpinfer.numerics.reasons import Constant, Numerical, ShareTable
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, NoPrivacy, PureDP, Share
from dpinfer.privacy.release import NoisyCounts, NoisySum, has_room
from dpinfer.schema.columns import Column, Number, Outcome, levels_of

STEPS = ("counts and moments", "quartiles, 1 of 2", "quartiles, 2 of 2")
"""The releases of a description; without numbers the first alone."""

COUNTS = "counts"
LEVEL_SQUARES = "level squares"
MOMENTS = "moments"
MOMENT_SQUARES = "moment squares"
BINS = "bins"
DISTANCE_SQUARES = "distance squares"

_WHY_SHARES = (
    "most for the first and the last release, which moments and quartiles are read from; the bins of the first "
    "two only say where to look"
)
# Weights are equal where every record has weight 1; they differ as with several rows per unit.
EQUAL_WEIGHT_SHARES = (
    ShareTable(
        {MOMENTS: 0.42, BINS: 0.07},
        name="EQUAL_WEIGHT_SHARES",
        decides="the shares of a column of numbers in release 1 of 3, where all records count alike",
        reason=_WHY_SHARES,
        source="convention",
    ),
    ShareTable(
        {BINS: 0.13},
        name="EQUAL_WEIGHT_SHARES",
        decides="the shares of a column of numbers in release 2 of 3, where all records count alike",
        reason=_WHY_SHARES,
        source="convention",
    ),
    ShareTable(
        {BINS: 0.34, DISTANCE_SQUARES: 0.04},
        name="EQUAL_WEIGHT_SHARES",
        decides="the shares of a column of numbers in release 3 of 3, where all records count alike",
        reason=_WHY_SHARES,
        source="convention",
    ),
)
UNEQUAL_WEIGHT_SHARES = (
    ShareTable(
        {MOMENTS: 0.36, MOMENT_SQUARES: 0.08, BINS: 0.07},
        name="UNEQUAL_WEIGHT_SHARES",
        decides="the shares of a column of numbers in release 1 of 3, where weights differ: squares cost more",
        reason=_WHY_SHARES,
        source="convention",
    ),
    ShareTable(
        {BINS: 0.13},
        name="UNEQUAL_WEIGHT_SHARES",
        decides="the shares of a column of numbers in release 2 of 3, where weights differ: squares cost more",
        reason=_WHY_SHARES,
        source="convention",
    ),
    ShareTable(
        {BINS: 0.28, DISTANCE_SQUARES: 0.08},
        name="UNEQUAL_WEIGHT_SHARES",
        decides="the shares of a column of numbers in release 3 of 3, where weights differ: squares cost more",
        reason=_WHY_SHARES,
        source="convention",
    ),
)
LEVEL_SQUARES_SHARE = Constant(
    0.2,
    name="LEVEL_SQUARES_SHARE",
    decides="the share of a column of levels that goes to its squared weights, where weights differ",
    reason="squares enter the length of an interval only, the counts its middle, too",
    source="convention",
)
TOTAL_SHARE = Constant(
    0.25,
    name="TOTAL_SHARE",
    decides="the cost of the number of all records, where it is not public, over that of a column",
    reason="it is one number that all columns use, as a denominator",
    source="convention",
)
# Part of ρ that the search for the largest scale of an (ε, δ) budget starts below.
_ROUNDED: Numerical[float] = 1e-9
_INTEGER_KINDS = ("integer", "date")


@dataclass(frozen=True)
class ColumnSet:
    """Columns that are described with one grouping: all records together, or by the levels of a column.

    ``positions`` are those of the columns in a row, ``weights`` their shares of the cost in any unit.
    """

    grouping: Grouping
    columns: tuple[Column, ...]
    positions: tuple[int, ...]
    weights: tuple[float, ...]
    total_known: bool

    def _chosen(self, *, levels: bool) -> list[int]:
        return [j for j, column in enumerate(self.columns) if bool(levels_of(column)) == levels]

    @property
    def level_columns(self) -> list[Column]:
        return [self.columns[j] for j in self._chosen(levels=True)]

    @property
    def number_columns(self) -> list[Column]:
        return [self.columns[j] for j in self._chosen(levels=False)]

    @property
    def levels(self) -> Levels:
        chosen = self._chosen(levels=True)
        return Levels(
            np.array([self.positions[j] for j in chosen], dtype=np.intp),
            np.array([len(levels_of(self.columns[j])) for j in chosen], dtype=np.intp),
        )

    @property
    def counts_all(self) -> bool:
        """Whether all records are counted: their number is needed for the missing values of numbers."""
        return not self.total_known and bool(self.number_columns)

    @property
    def counted(self) -> Levels:
        """The columns of counts: levels, and all records where their number is not public."""
        levels = self.levels
        if not self.counts_all:
            return levels
        return Levels(np.append(levels.positions, 0), np.append(levels.sizes, 0))

    @cached_property
    def numbers(self) -> Numbers:
        chosen = self._chosen(levels=False)
        columns = [self.columns[j] for j in chosen]
        return Numbers(
            np.array([self.positions[j] for j in chosen], dtype=np.intp),
            np.array([number_of(column).low for column in columns]),
            np.array([number_of(column).high for column in columns]),
            np.array([number_of(column).kind in _INTEGER_KINDS for column in columns], dtype=bool),
        )

    def length(self, *, equal_weights: bool) -> int:
        """Return the largest number of values in one release."""
        groups = self.grouping.groups
        sizes = self.counted.sizes
        counts = groups * (sizes + 1)
        of_number = groups * (3 + LONGEST_HISTOGRAM + 2 * (1 + len(QUARTILES)))
        length = int(counts.sum()) + len(self.number_columns) * of_number
        if equal_weights:
            return length
        level_squares = groups**2 * (2 * sizes + 1)
        moment_squares = 4 * groups**2
        return length + int(level_squares.sum()) + len(self.number_columns) * moment_squares

    def level_weights(self) -> Array:
        return np.array([self.weights[j] for j in self._chosen(levels=True)])

    def number_weights(self) -> Array:
        return np.array([self.weights[j] for j in self._chosen(levels=False)])


def number_of(column: Column) -> Number:
    """Return a column without levels as a number with its bounds."""
    if isinstance(column, Outcome):
        assert column.low is not None
        assert column.high is not None
        return Number(column.name, column.low, column.high)
    assert isinstance(column, Number)
    return column


@dataclass(frozen=True)
class ReleasePart:
    """A query of a release: its kind, the index of its column set, and the share of each of its columns.

    The shares of a description add up to 1.
    """

    kind: str
    column_set: int
    shares: Array


@dataclass(frozen=True)
class DescriptionPlan:
    """The shares of column sets in the budget of a description.

    ``equal_weights`` says that every record has weight 1; ``records`` is the largest number of rows.
    """

    budget: Budget
    column_sets: tuple[ColumnSet, ...]
    adjacency: Adjacency
    equal_weights: bool
    records: int = DEFAULT_MAX_RECORDS

    def __post_init__(self) -> None:
        if not isinstance(self.budget, PureDP | ZCDP | ApproxDP | NoPrivacy):
            raise BudgetError(
                "a table is described with budget=dp.ApproxDP(epsilon, delta), dp.ZCDP(rho) or dp.PureDP(epsilon)"
            )

    @property
    def pure(self) -> bool:
        """Whether ε is shared, rather than ρ."""
        return isinstance(self.budget, PureDP)

    def parts(self) -> list[list[ReleasePart]]:
        """Return the parts of each release that has any."""
        total = sum(
            sum(column_set.weights)
            + (TOTAL_SHARE * max(column_set.weights) if column_set.counts_all else 0.0)
            for column_set in self.column_sets
        )
        stages: list[list[ReleasePart]] = [[] for _ in STEPS]
        for index, column_set in enumerate(self.column_sets):
            stages[0] += self._of_levels(index, column_set, total)
            if not column_set.number_columns:
                continue
            weights = column_set.number_weights() / total
            for stage, shares in zip(stages, self._shares, strict=True):
                stage += [
                    ReleasePart(kind, index, share * weights) for kind, share in shares.items()
                ]
        return [stage for stage in stages if stage]

    @property
    def _shares(self) -> tuple[Mapping[str, float], ...]:
        return EQUAL_WEIGHT_SHARES if self.equal_weights else UNEQUAL_WEIGHT_SHARES

    def _of_levels(self, index: int, column_set: ColumnSet, total: float) -> list[ReleasePart]:
        weights = column_set.level_weights() / total
        parts = []
        counts = weights
        if not self.equal_weights and len(weights):
            parts.append(ReleasePart(LEVEL_SQUARES, index, LEVEL_SQUARES_SHARE * weights))
            counts = (1 - LEVEL_SQUARES_SHARE) * weights
        if column_set.counts_all:
            counts = np.append(counts, TOTAL_SHARE * max(column_set.weights) / total)
        if len(counts):
            parts.append(ReleasePart(COUNTS, index, counts))
        return parts

    def length(self) -> int:
        """Return the largest number of values in one release."""
        return sum(
            column_set.length(equal_weights=self.equal_weights) for column_set in self.column_sets
        )

    def require_room(self) -> None:
        """Refuse more figures of so many records than integers of 64 bits have room for."""
        length = self.length()
        if not has_room(self.records, length, counts=self.pure):
            raise InputError(
                f"up to {length:,} numbers of up to {self.records:,} records are too many for one release: their "
                "sums do not fit whole numbers of 64 bits on the grid of the noise; describe fewer columns "
                "at once, or a part of the records"
            )

    def releases(self) -> tuple[NoisySum | NoisyCounts, ...]:
        """Return the releases, in order.

        Guarantee [description_composition]: all of them together keep the budget; an (ε, δ) budget
        is spent to the last digit.
        """
        shares = tuple(sum(float(part.shares.sum()) for part in stage) for stage in self.parts())
        return _planned(self.budget, shares, in_floats(1.0, self.records))


@lru_cache(maxsize=256)
def _planned(
    budget: Budget, shares: tuple[float, ...], bound: float
) -> tuple[NoisySum | NoisyCounts, ...]:
    if not isinstance(budget, ApproxDP):
        return _released(budget, shares, bound)
    rho = budget.zcdp().rho * (1 - _ROUNDED)
    factor = largest_factor(budget, lambda f: _released(ZCDP(f * rho), shares, bound))
    return _released(ZCDP(factor * rho), shares, bound)


def _released(
    budget: Share, shares: tuple[float, ...], bound: float
) -> tuple[NoisySum | NoisyCounts, ...]:
    """Return one release for each share; each sum moves by at most ``bound``."""
    releases: list[NoisySum | NoisyCounts] = []
    split: Sequence[Share] = budget.split(*shares)
    for step, share in zip(STEPS, split, strict=False):
        if isinstance(share, PureDP):
            releases.append(NoisyCounts(step, share, bound))
        else:
            releases.append(NoisySum(step, share, bound))
    return tuple(releases)
