"""How the budget of a description is shared among its columns, and what is released of them.

1. counts and moments   counts of levels, sums of numbers and squares, equal bins on the public ranges
2. quartiles            two rounds of histograms, each with finer bins around the quartiles that the last has seen
3. with the last        what the sampling errors of deviations, and of people's quartiles, rest on

Every column has its share of the budget, in every release, as if it were described alone with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpinfer.description.intervals import LONGEST_HISTOGRAM
from dpinfer.errors import BudgetError, InputError
from dpinfer.mechanisms.column_sums import QUARTILES, Levels, Numbers, Panel
from dpinfer.mechanisms.sums import USUAL_RECORDS, in_floats
from dpinfer.neighbours import Neighbours
from dpinfer.numerics.arrays import Array
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
SPREADS = "spreads"

_ALIKE: tuple[Mapping[str, float], ...] = (
    {MOMENTS: 0.42, BINS: 0.07},
    {BINS: 0.13},
    {BINS: 0.34, SPREADS: 0.04},
)
"""What a number spends on each part of each release where every record counts 1."""
_UNLIKE: tuple[Mapping[str, float], ...] = (
    {MOMENTS: 0.36, MOMENT_SQUARES: 0.08, BINS: 0.07},
    {BINS: 0.13},
    {BINS: 0.28, SPREADS: 0.08},
)
"""The same for people with several rows, and with weights."""
_SQUARES = 0.2  # of the share of a column with levels, where records are not alike
_TOTAL = 0.25  # of the share of a column: the number of records, where it is not public
_ROUNDED = 1e-9  # of ρ
_WHOLE = ("integer", "date")


@dataclass(frozen=True)
class Sheet:
    """The columns that are described for one panel: all records together, or by group."""

    panel: Panel
    columns: tuple[Column, ...]
    places: tuple[int, ...]
    weights: tuple[float, ...]
    total_known: bool

    def _chosen(self, *, levels: bool) -> list[int]:
        return [j for j, column in enumerate(self.columns) if bool(levels_of(column)) == levels]

    @property
    def level_columns(self) -> list[Column]:
        """Those with levels."""
        return [self.columns[j] for j in self._chosen(levels=True)]

    @property
    def number_columns(self) -> list[Column]:
        """Those with numbers."""
        return [self.columns[j] for j in self._chosen(levels=False)]

    @property
    def levels(self) -> Levels:
        """Their places in a row."""
        chosen = self._chosen(levels=True)
        return Levels(
            np.array([self.places[j] for j in chosen], dtype=np.intp),
            np.array([len(levels_of(self.columns[j])) for j in chosen], dtype=np.intp),
        )

    @property
    def counts_all(self) -> bool:
        """Whether all records are counted, for the numbers that are missing."""
        return not self.total_known and bool(self.number_columns)

    @property
    def counted(self) -> Levels:
        """What is counted: levels, and all records where their number is not public."""
        levels = self.levels
        if not self.counts_all:
            return levels
        return Levels(np.append(levels.places, 0), np.append(levels.sizes, 0))

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers, with their bounds."""
        chosen = self._chosen(levels=False)
        columns = [self.columns[j] for j in chosen]
        return Numbers(
            np.array([self.places[j] for j in chosen], dtype=np.intp),
            np.array([number_of(column).low for column in columns]),
            np.array([number_of(column).high for column in columns]),
            np.array([number_of(column).kind in _WHOLE for column in columns], dtype=bool),
        )

    def length(self, *, alike: bool) -> int:
        """Numbers in one release, at most."""
        groups = self.panel.groups
        sizes = self.counted.sizes
        counts = groups * (sizes + 1)
        of_number = groups * (3 + LONGEST_HISTOGRAM + 2 * (1 + len(QUARTILES)))
        length = int(counts.sum()) + len(self.number_columns) * of_number
        if alike:
            return length
        level_squares = groups**2 * (2 * sizes + 1)
        moment_squares = 4 * groups**2
        return length + int(level_squares.sum()) + len(self.number_columns) * moment_squares

    def level_weights(self) -> Array:
        """What is spent on each column with levels."""
        return np.array([self.weights[j] for j in self._chosen(levels=True)])

    def number_weights(self) -> Array:
        """What is spent on each number."""
        return np.array([self.weights[j] for j in self._chosen(levels=False)])


def number_of(column: Column) -> Number:
    """A column without levels, as a number with its bounds."""
    if isinstance(column, Outcome):
        assert column.low is not None
        assert column.high is not None
        return Number(column.name, column.low, column.high)
    assert isinstance(column, Number)
    return column


@dataclass(frozen=True)
class Slot:
    """One part of a release: its kind, its sheet, and what is spent on each of its columns, of 1 in
    the whole description.
    """

    kind: str
    sheet: int
    shares: Array


@dataclass(frozen=True)
class DescriptionPlan:
    """A budget, and the sheets it is shared among; ``alike`` says that every record counts 1, and
    ``records`` how many rows there are at most.
    """

    budget: Budget
    sheets: tuple[Sheet, ...]
    neighbours: Neighbours
    alike: bool
    records: int = USUAL_RECORDS

    def __post_init__(self) -> None:
        if not isinstance(self.budget, PureDP | ZCDP | ApproxDP | NoPrivacy):
            raise BudgetError(
                "a table is described with budget=dp.ApproxDP(epsilon, delta), dp.ZCDP(rho) or dp.PureDP(epsilon)"
            )

    @property
    def pure(self) -> bool:
        """Whether ε is shared, and not ρ."""
        return isinstance(self.budget, PureDP)

    def slots(self) -> list[list[Slot]]:
        """The parts of each release; releases without any are left out."""
        whole = sum(
            sum(sheet.weights) + (_TOTAL * max(sheet.weights) if sheet.counts_all else 0.0)
            for sheet in self.sheets
        )
        stages: list[list[Slot]] = [[] for _ in STEPS]
        for place, sheet in enumerate(self.sheets):
            stages[0] += self._of_levels(place, sheet, whole)
            if not sheet.number_columns:
                continue
            weights = sheet.number_weights() / whole
            for stage, parts in zip(stages, _ALIKE if self.alike else _UNLIKE, strict=True):
                stage += [Slot(kind, place, part * weights) for kind, part in parts.items()]
        return [stage for stage in stages if stage]

    def _of_levels(self, place: int, sheet: Sheet, whole: float) -> list[Slot]:
        weights = sheet.level_weights() / whole
        slots = []
        counts = weights
        if not self.alike and len(weights):
            slots.append(Slot(LEVEL_SQUARES, place, _SQUARES * weights))
            counts = (1 - _SQUARES) * weights
        if sheet.counts_all:
            counts = np.append(counts, _TOTAL * max(sheet.weights) / whole)
        if len(counts):
            slots.append(Slot(COUNTS, place, counts))
        return slots

    def length(self) -> int:
        """Numbers in one release, at most."""
        return sum(sheet.length(alike=self.alike) for sheet in self.sheets)

    def require_room(self) -> None:
        """Refuse more figures of so many records than whole numbers have room for."""
        length = self.length()
        if not has_room(self.records, length, counts=self.pure):
            raise InputError(
                f"up to {length:,} numbers of up to {self.records:,} records are too many for one release: their "
                "sums do not fit whole numbers of 64 bits on the grid of the noise; describe fewer "
                "columns at once, or a part of the records"
            )

    def releases(self) -> tuple[NoisySum | NoisyCounts, ...]:
        """The releases, in order.

        Guarantee [description_composition]: all of them together keep the budget; an (ε, δ) budget
        is spent to the last digit.
        """
        shares = tuple(sum(float(slot.shares.sum()) for slot in stage) for stage in self.slots())
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
    whole: Share, shares: tuple[float, ...], bound: float
) -> tuple[NoisySum | NoisyCounts, ...]:
    """One release per share of the whole; each moves by at most ``bound``."""
    releases: list[NoisySum | NoisyCounts] = []
    parts: Sequence[Share] = whole.split(*shares)
    for step, share in zip(STEPS, parts, strict=False):
        if isinstance(share, PureDP):
            releases.append(NoisyCounts(step, share, bound))
        else:
            releases.append(NoisySum(step, share, bound))
    return tuple(releases)
