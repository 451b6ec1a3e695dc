"""The sharing of a budget among the stages of a moment release, and the price that it gives, from public facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dpinfer.adjacency import Adjacency
from dpinfer.errors import BudgetError, InputError
from dpinfer.fit.column_scaling import ZOOMS, column_histograms_bound
from dpinfer.fit.step_plan import SCALES, Releases, StepBudget, planned, spendable
from dpinfer.inference.moment_geometry import MAX_PRICE, MomentGeometry
from dpinfer.mechanisms.histograms import histogram_bound
from dpinfer.mechanisms.moment_sums import counted_moments_bound, fourth_moments_bound
from dpinfer.mechanisms.sums import in_floats, second_moment_bound
from dpinfer.numerics.reasons import Numerical, ShareTable
from dpinfer.privacy.budget import NoPrivacy, PureDP
from dpinfer.privacy.release import NoisySum, has_room

CRUDE = "crude moments"
FIRST = "moments in a first geometry"
TAILS = "tails"
SECOND = "second moments"
FOURTH = "fourth moments"
MOMENT_SHARES = ShareTable(
    {SCALES: 0.04, CRUDE: 0.05, FIRST: 0.06, TAILS: 0.03, SECOND: 0.77, FOURTH: 0.05},
    name="MOMENT_SHARES",
    decides="the shares of the stages of a moment release",
    reason="the second moments answer all questions, so they have what the others can spare; with 4, 5 or 8 % for the "
    "fourth moments, and 6, 9 or 14 % for the first geometry, lengths are within 2 %",
    source="simulation over 16 tables (python -m studies.moments)",
)
MAX_FEATURES: Numerical[int] = 60
"""The fourth moments of more features would be more than two million numbers."""


@dataclass(frozen=True)
class MomentPlan:
    """The releases of ``features``, of up to ``largest`` records: ``numbers`` of them have a released
    range, and ``clippable`` may be clipped to a part of it.
    """

    budget: StepBudget
    adjacency: Adjacency
    features: int
    numbers: int
    clippable: int
    largest: int

    def __post_init__(self) -> None:
        if isinstance(self.budget, PureDP):
            raise BudgetError(
                "a moment release needs Gaussian noise, which gives no pure privacy: give a delta beside epsilon, as "
                "dp.ApproxDP(epsilon, delta), or rho, as dp.ZCDP(rho)"
            )
        spendable(self.budget)
        if self.features < 2:  # the intercept, and a column
            raise InputError("nothing is to be released: name columns, as in 'income + age'")
        if self.features > MAX_FEATURES:
            raise BudgetError(
                f"{self.features} features are more than {MAX_FEATURES}: declare what will be asked, not all that "
                "could be, or make two releases"
            )
        if not has_room(self.largest, self._fourth_numbers):
            raise BudgetError(
                f"{self.features} features of up to {self.largest:,} records are more than whole numbers have room "
                "for: declare fewer features, or a smaller largest_table"
            )

    @property
    def _fourth_numbers(self) -> int:
        """Return how many fourth moments are released."""
        pairs = self.features * (self.features + 1) // 2
        return pairs * (pairs + 1) // 2

    @property
    def _bounds(self) -> Mapping[str, float]:
        return {
            SCALES: column_histograms_bound(self.numbers, self.adjacency),
            CRUDE: second_moment_bound(self.adjacency),
            FIRST: second_moment_bound(self.adjacency),
            TAILS: histogram_bound(self.adjacency),
            SECOND: counted_moments_bound(self.adjacency),
            FOURTH: fourth_moments_bound(self.adjacency),
        }

    @cached_property
    def releases(self) -> Releases:
        """The releases by stage, in order; without numbers there are no ranges and no tails to release."""
        shares = dict(MOMENT_SHARES)
        if not self.numbers:
            del shares[SCALES]
        if not self.clippable:
            del shares[TAILS]
        stages = tuple(
            (name, in_floats(self._bounds[name], self.largest), ZOOMS if name == SCALES else 1)
            for name in shares
        )
        return planned(self.budget, stages, tuple(shares.values()))

    def release(self, stage: str) -> NoisySum:
        """Return the one release of a stage."""
        (found,) = self.releases.of(stage)
        return found

    def noise_sd(self, stage: str) -> float:
        """Return the noise sd of a stage; 0 without privacy."""
        if isinstance(self.budget, NoPrivacy):
            return 0.0
        return self.release(stage).noise_sd

    def geometry(self, records: float) -> MomentGeometry:
        """Return the geometry that so many records would have."""
        return MomentGeometry.of(self.features, records, self.noise_sd(SECOND))

    def require_worthwhile(self, records: int) -> None:
        """Refuse a release whose noise would drown every answer, by public facts alone."""
        price = self.geometry(records).price
        if isinstance(self.budget, NoPrivacy) or price <= MAX_PRICE:
            return
        raise BudgetError(
            f"{self.features} features cost too much at this budget: noise would make every interval "
            f"{(1 + price) ** 0.5:.1f} times as long with {records:,} records. Declare fewer features, or give more "
            "budget"
        )
