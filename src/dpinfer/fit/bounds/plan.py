"""How a budget is shared among the releases that learn ranges and levels.  Frozen and free of data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dpinfer.errors import BudgetError
from dpinfer.maths.ranges import ZOOMS
from dpinfer.privacy.accountant import largest_factor
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP, Share
from dpinfer.privacy.release import NoisyCounts, NoisySum, ShownLevels

Histogram = NoisyCounts | NoisySum

_OF_LEVELS = 0.5  # of δ: shown levels take it, the rest makes Gaussian noise (ε, δ)
_MAGNITUDES = 0.3  # of the share of a range, whose zooms have the rest in equal parts


@dataclass(frozen=True)
class BoundsPlan:
    """A budget, and the columns whose ``ranges`` and ``levels`` it is shared among, alike."""

    budget: PureDP | ZCDP | ApproxDP
    ranges: tuple[str, ...]
    levels: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.budget, PureDP | ZCDP | ApproxDP):
            raise BudgetError("bounds are learnt with budget=dp.PureDP(epsilon), dp.ZCDP(rho) or dp.ApproxDP(...)")
        if self.levels and not isinstance(self.budget, ApproxDP):
            raise BudgetError(
                f"the levels of {self.levels[0]!r} take a delta: give (epsilon, delta), or state them in the schema"
            )

    def releases(self) -> "Releases":
        """The releases, in order.

        Guarantee [bounds_composition]: all of them together keep the budget; an (ε, δ) budget is spent to the last
        digit, half of its δ by levels, in equal parts, where there are any.
        """
        return _planned(self)

    def scaled(self, share: PureDP | ZCDP, delta: float) -> "Releases":
        """The releases for a share of all together, and a δ for the levels of each column."""
        parts: Sequence[PureDP | ZCDP] = share.split(*[1.0] * len(self.ranges + self.levels))
        ranges, levels = parts[: len(self.ranges)], parts[len(self.ranges) :]
        return Releases(
            {name: _histograms(name, part) for name, part in zip(self.ranges, ranges, strict=True)},
            {
                name: ShownLevels(f"levels of {name}", part, delta)
                for name, part in zip(self.levels, levels, strict=True)
                if isinstance(part, ZCDP)
            },
        )


@dataclass(frozen=True)
class Releases:
    """One release of magnitudes and one a zoom for each range; one for the levels of each text column."""

    ranges: dict[str, tuple[Histogram, ...]]
    levels: dict[str, ShownLevels]

    @property
    def all(self) -> tuple[Histogram | ShownLevels, ...]:
        """In the order in which they are carried out."""
        return (*(one for several in self.ranges.values() for one in several), *self.levels.values())


@lru_cache(maxsize=256)
def _planned(plan: BoundsPlan) -> Releases:
    budget = plan.budget
    if not isinstance(budget, ApproxDP):
        return plan.scaled(budget, 0.0)
    taken = _OF_LEVELS * budget.delta if plan.levels else 0.0
    each = taken / max(1, len(plan.levels))
    rho = ApproxDP(budget.epsilon, budget.delta - taken).zcdp().rho * (1 - 1e-9)  # deltas of levels are rounded
    factor = largest_factor(budget, lambda f: plan.scaled(ZCDP(f * rho), each).all)
    return plan.scaled(ZCDP(factor * rho), each)


def _histograms(name: str, share: PureDP | ZCDP) -> tuple[Histogram, ...]:
    first, *zooms = share.split(_MAGNITUDES, *[(1 - _MAGNITUDES) / ZOOMS] * ZOOMS)
    steps = [f"magnitudes of {name}", *(f"range of {name}, {k + 1} of {ZOOMS}" for k in range(ZOOMS))]
    return tuple(_histogram(step, part) for step, part in zip(steps, [first, *zooms], strict=True))


def _histogram(step: str, share: Share) -> Histogram:
    return NoisyCounts(step, share) if isinstance(share, PureDP) else NoisySum(step, share)
