"""What the entries of a ledger cost together, where earlier results may decide the later ones.

Also the sizes of later entries may depend on earlier results.  The rules:

PureDP total     the sum of ε (Rogers, Roth, Ullman and Vadhan, 2016)
ZCDP total       the sum of ρ (Feldman and Zrnic, 2021, at every order; Whitehouse, Ramdas, Rogers
                 and Wu, 2023)
ApproxDP total   a first entry alone: exact composition, because nothing was seen before it
                 entries that are all Gaussian: the sum of μ² (Smith and Thakurta, 2022; Koskela et
                 al., 2022)
                 others: the sum of Rényi divergences of one order, fixed beforehand (Feldman and
                 Zrnic, 2021)
                 levels are shown by the first entry or never, so that their part of δ is fixed
                 beforehand, too

How one rule goes over into another is proved in docs/ledger.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpinfer.maths.arrays import boundary
from dpinfer.maths.privacy_cost import (
    PerturbedObjective,
    epsilon_at,
    gaussian_delta,
    lowest_near,
)
from dpinfer.privacy.accountant import (
    ROUNDING,
    SEARCHED,
    Total,
    affordable,
    limit,
    measure,
    rho_of,
    spent,
    zcdp_epsilon,
)
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.privacy.release import Additive, PerturbedMinimum, Release, delta_of

BRANCH = 0.1
"""The part of δ that pays for other releases where the first entry is Gaussian; the rest is for
Gaussian ones.
"""

FIRST = "exact, first entry"
GAUSSIAN = "Gaussian filter"
"""The words for two of the rules."""


@dataclass(frozen=True)
class Count:
    """The entries of a ledger under its total, judged by a rule that holds whatever the later ones
    depend on.

    ``orders`` are those of `renyi_orders`, fixed when the ledger was made.  The proof of each rule
    is in docs/ledger.md.

    Guarantee [adaptive_totals]: if every entry was paid for when it came, all of them together keep
    the total, also where later fits and their sizes were chosen by the results of earlier ones.
    Guarantee [levels_first]: under an (ε, δ) total an entry that shows levels is paid for if it is
    the first one, and everything else, whenever it comes, is judged at the δ that those levels
    leave.
    """

    total: Total
    orders: tuple[float, ...]
    entries: tuple[tuple[Release, ...], ...]

    @property
    def rule(self) -> str:
        """Which rule judges the last entry, in words; the first one's where there is none."""
        if not isinstance(self.total, ApproxDP):
            return f"sum of {measure(self.total)}"
        return FIRST if len(self.entries) < 2 else self._filter.words

    def rules(self) -> tuple[str, ...]:
        """The rule that judged each entry when it came."""
        if not self.entries:
            return ()
        kinds = [_gaussian(entry) for entry in self.entries]
        other = kinds.index(False) if False in kinds else len(kinds)
        # rules change after the first entry and with the first one that is not Gaussian
        changes = (1, 2, max(2, other + 1))
        first, second, rest = (replace(self, entries=self.entries[:end]).rule for end in changes)
        rules = [second if place < other else rest for place in range(1, len(kinds))]
        return (first, *rules)

    def spent(self) -> float:
        """ε, ρ, or ε at δ: at most the total exactly if everything is paid for."""
        if self.late or self._delta <= 0:
            return math.inf
        if isinstance(self.total, ApproxDP) and len(self.entries) > 1:
            return self._filter.epsilon(self._releases)
        return spent(self.total, self._releases)

    def left(self) -> float:
        """The total less what its sum, or the filter that would judge a further entry, has counted
        so far.
        """
        if self.late or self._delta <= 0:
            return 0.0
        if isinstance(self.total, ApproxDP) and self.entries:
            return max(0.0, self.total.epsilon - self._filter.epsilon(self._releases))
        return max(0.0, limit(self.total) - spent(self.total, self._releases))

    def paid(self) -> bool:
        """Whether the total pays for everything."""
        if self.late or self._delta <= 0:
            return False
        if isinstance(self.total, ApproxDP) and len(self.entries) > 1:
            return self._filter.admits(self._releases, self.total.epsilon)
        return affordable(self.total, self._releases)

    @property
    def late(self) -> bool:
        """Whether an (ε, δ) total is asked for levels after its first entry, when their part of δ
        is fixed.
        """
        return isinstance(self.total, ApproxDP) and any(
            delta_of(entry) > 0 for entry in self.entries[1:]
        )

    @property
    def _delta(self) -> float:
        """What the levels of the first entry leave of δ; 1 where there is none."""
        if not isinstance(self.total, ApproxDP):
            return 1.0
        taken = delta_of(self.entries[0]) if self.entries else 0.0
        return self.total.delta - taken

    @property
    def _releases(self) -> list[Release]:
        return [release for entry in self.entries for release in entry]

    @property
    def _filter(self) -> "_Filter":
        """By the first entry, which nothing was seen before, and then by whether all are Gaussian."""
        assert isinstance(self.total, ApproxDP)
        order, branch = self.orders
        if not _gaussian(self.entries[0]):
            return _Filter(self._delta, order)
        if all(map(_gaussian, self.entries)):
            return _Filter((1 - BRANCH) * self._delta, None)
        return _Filter(BRANCH * self._delta, branch)


@dataclass(frozen=True)
class _Filter:
    """Divergences of one fixed order added up or, without an order, the μ² of Gaussian releases; at
    its part of δ.
    """

    delta: float
    order: float | None

    @property
    def words(self) -> str:
        return GAUSSIAN if self.order is None else f"Renyi filter of order {self.order:.3g}"

    def admits(self, releases: Sequence[Release], epsilon: float) -> bool:
        if self.order is None:
            mu = math.sqrt(2 * math.fsum(map(rho_of, releases)))
            return float(gaussian_delta(epsilon * (1 + SEARCHED), mu)) <= self.delta
        return self._at_order(releases) <= epsilon * (1 + ROUNDING)

    def epsilon(self, releases: Sequence[Release]) -> float:
        """An ε at ``delta`` of these releases: at most that of the total exactly if the filter
        admits them.

        An order that is good where the total is nearly spent is poor where little is; zCDP's
        conversion, which uses the best order, is no smaller than the total where the filter is
        full.
        """
        by_rho = zcdp_epsilon(releases, self.delta)
        if self.order is None:
            mu = math.sqrt(2 * math.fsum(map(rho_of, releases)))
            return boundary(
                lambda e: float(gaussian_delta(e, mu)) <= self.delta, by_rho, 0.0, 1e-13
            )[0]
        return min(by_rho, self._at_order(releases))

    def _at_order(self, releases: Sequence[Release]) -> float:
        assert self.order is not None
        divergence = math.fsum(_divergence(release, self.order) for release in releases)
        return float(epsilon_at(np.array(self.order - 1), np.array(divergence), self.delta))


def renyi_orders(total: Total) -> tuple[float, ...]:
    """The orders of the filters of an ApproxDP total: the best of zCDP's conversion, at δ and at
    its `BRANCH`.
    """
    if not isinstance(total, ApproxDP):
        return ()
    return _order(total.epsilon, total.delta), _order(total.epsilon, BRANCH * total.delta)


@lru_cache(maxsize=1024)
def _order(epsilon: float, delta: float) -> float:
    """The α at which ε at δ pays for the largest ρ."""

    def missing(log_beyond: float) -> float:
        """-ρ, so that the best order is where it is lowest."""
        beyond = np.array(math.exp(log_beyond))
        return float((epsilon_at(beyond, np.zeros(()), delta) - epsilon) / (1 + beyond))

    best = min((step / 20 for step in range(-200, 401)), key=missing)
    return 1 + math.exp(lowest_near(missing, best, 0.05))


def _gaussian(releases: Sequence[Release]) -> bool:
    return all(isinstance(r, Additive) and isinstance(r.share, ZCDP) for r in releases)


def _divergence(release: Release, order: float) -> float:
    """D_α of one release: never above ρα, which its share allows."""
    by_rho = rho_of(release) * order
    if isinstance(release.share, PureDP):
        return min(by_rho, _of_randomised_response(release.share.epsilon, order))
    if isinstance(release, PerturbedMinimum):
        of_mask = release.mask**2 / 2 * order
        return min(by_rho, _of_objective(release.objective, order) + of_mask)
    return by_rho


def _of_randomised_response(epsilon: float, order: float) -> float:
    """The largest D_α of all ε-private releases."""
    top = float(np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0.0, epsilon))
    rounding = 4e-16 * (1 + order * epsilon)
    return min(epsilon, (top + rounding) / (order - 1))


@lru_cache(maxsize=65_536)
def _of_objective(objective: PerturbedObjective, order: float) -> float:
    return objective.renyi(order - 1)
