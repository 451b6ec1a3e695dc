"""A second accountant for a ledger: Google's dp_accounting composes the same releases, as events of its own.

Its privacy loss distributions share no code with the filters and closed forms of `accountant`, except
where a mixture of noises is convolved there.  Noise multipliers are standard deviations over the
sensitivity between neighbours of the ledger.  dp_accounting calls that convention ``REPLACE_SPECIAL``;
under ``REPLACE_ONE`` it doubles the sensitivity.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from dpinfer.errors import LedgerError
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Count
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP, power_of_ten
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import Additive, Release, ShownLevels, delta_of

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

COMPARED_DELTA = 1e-6
"""The δ at which a total without one is compared."""
_STEP = 1e-3  # of their privacy losses, over ε
_ROUNDED_UP = 1e-4  # relative error of theirs with such steps; 2e-5 was the largest of 200 ledgers


@dataclass(frozen=True)
class AccountantComparison:
    """The ε of one ledger by two accountants, over the releases that both know.

    Attributes
    ----------
    ours, theirs : float
        ε at ``delta``: by this package, and by dp_accounting.
    delta : float
        δ of the total less what levels take; 10⁻⁶ where the total has none.
    compared : int
        The number of releases in both.
    without_event : tuple of str
        The releases that dp_accounting has no event for, by purpose and step.  They are not compared.
    """

    ours: float
    theirs: float
    delta: float
    compared: int
    without_event: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether ours is not smaller, up to the rounding of theirs."""
        return self.theirs <= self.ours * (1 + _ROUNDED_UP)

    def state(self) -> dict[str, Any]:
        """Return the same for a program."""
        return asdict(self) | {"ok": self.ok}

    def sentence(self) -> str:
        """Say what both count, at which δ."""
        if not self.compared:
            return "no release has an event of dp_accounting: nothing was compared"
        number = "1 release" if self.compared == 1 else f"{self.compared} releases"
        return (
            f"ε = {self.ours:.4g} here, ε = {self.theirs:.4g} by dp_accounting, at δ = "
            f"{power_of_ten(self.delta)}, for {number}"
        )


def compare(entries: Sequence[Entry], count: Count) -> AccountantComparison:
    """Return the ε of the entries of a ledger by both accountants, given how the ledger counts them.

    An (ε, δ) total is compared at what its filter has counted.  The sums of ε or ρ of other totals are
    compared as the ε at δ = 10⁻⁶ that `accountant.spent` derives from them.
    """
    from dp_accounting import NeighboringRelation, pld  # noqa: PLC0415  (slow to load)

    known = [tuple(filter(_has_event, entry.events)) for entry in entries]
    known = [releases for releases in known if releases]
    delta = count.total.delta if isinstance(count.total, ApproxDP) else COMPARED_DELTA
    delta -= delta_of(release for entry in entries for release in entry.events)
    if delta <= 0:
        raise LedgerError("levels take all of δ: there is nothing to compare")
    ours = _ours(count, known, delta)
    theirs = 0.0
    if known:
        second = pld.PLDAccountant(NeighboringRelation.REPLACE_SPECIAL, _STEP * ours)
        second.compose(event_tree(known))
        theirs = float(second.get_epsilon(delta))
    unknown = [
        f"{entry.purpose}: {release.step}"
        for entry in entries
        for release in entry.events
        if not _has_event(release)
    ]
    return AccountantComparison(ours, theirs, delta, sum(map(len, known)), tuple(unknown))


def event_tree(entries: Sequence[Sequence[Release]]) -> "DpEvent":
    """Return one composed event per entry, with one event per release."""
    from dp_accounting.dp_event import ComposedDpEvent  # noqa: PLC0415  (slow to load)

    return ComposedDpEvent(
        [ComposedDpEvent([event_of(release) for release in releases]) for releases in entries]
    )


def event_of(release: Release) -> "DpEvent":
    """Return the event of one release: its noise, or its share in zCDP, which bounds it."""
    from dp_accounting import dp_event  # noqa: PLC0415  (slow to load)

    share = release.share
    if isinstance(release, ShownLevels):
        raise LedgerError(
            "levels take a part of delta, and dp_accounting has no event for that: read the ledger by spent()"
        )
    if isinstance(share, PureDP):
        # randomised response dominates every ε-private release (Kairouz, Oh and Viswanath, 2015)
        return dp_event.RandomizedResponseDpEvent(2 / (1 + math.exp(share.epsilon)), 2)
    assert isinstance(share, ZCDP)
    if isinstance(release, Additive):
        return dp_event.GaussianDpEvent(1 / math.sqrt(2 * share.rho))
    return dp_event.ZCDpEvent(share.rho)


def _has_event(release: Release) -> bool:
    """Whether the release has an event of its own.

    Levels have none, and the zCDP event of a perturbed minimum would only repeat our bound of its cost.
    """
    if isinstance(release, ShownLevels):
        return False
    return isinstance(release.share, PureDP) or isinstance(release, Additive)


def _ours(count: Count, known: Sequence[tuple[Release, ...]], delta: float) -> float:
    if isinstance(count.total, ApproxDP):
        total = ApproxDP(count.total.epsilon, delta)
        return replace(count, total=total, entries=tuple(known)).spent()
    releases = [release for entry in known for release in entry]
    return accountant.spent(ApproxDP(1.0, delta), releases)
