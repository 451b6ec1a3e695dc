"""The cost of releases together: those of one fit, and the entries of a ledger, one after the other.

Always derived from the releases, never from old sums.  The releases of one fit, whose sizes are
fixed beforehand, in the terms of a total budget:

PureDP total     ε adds
ZCDP total       ρ adds; a pure release counts ε²/2
ApproxDP total   ε at the total's δ: the smallest of what zCDP says, what Rényi divergences say,
                 what the privacy losses say where all are known, and the sum of ε where all are
                 pure
                 where levels are shown, at what they leave of δ; other totals cannot pay for them

The entries of a ledger are judged by filters, as later ones may be chosen, also their sizes, by
earlier results:

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

Nothing is rounded in favour of a fit.  Shares and totals count as the decimals that the ledger
stores, and sums of them are exact; what takes more than sums is rounded up, and its part of δ down.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from dpinfer.errors import LedgerError
from dpinfer.mechanisms.privacy_cost import (
    ORDERS,
    PerturbedObjective,
    epsilon_at,
    epsilon_from_renyi,
    epsilon_from_zcdp,
    gaussian_delta,
    lowest_near,
)
from dpinfer.numerics.arrays import boundary
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
from dpinfer.privacy.decimals import (
    added,
    float_above,
    float_below,
    multiplied,
    subtracted,
    written,
    written_down,
    written_up,
)
from dpinfer.privacy.release import (
    Additive,
    NoisySum,
    PerturbedMinimum,
    Release,
    ShownLevels,
    delta_of,
)

Total = PureDP | ZCDP | ApproxDP
"""A budget that releases are counted against."""

_NOTHING_LEFT = 1e-9  # share of a total's ρ that no fit can use
_SEARCHED_SHARE = 1e-9  # relative error of the ρ of the largest fit
_SPARE = 1e-8  # share of the largest fit's ε that is kept for rounding
_SEARCHED = 1e-9  # relative error of an ε that a search found, where the total is used up exactly
_SUMMED = 2.0**-44  # relative error of a float sum of divergences
_HALF = Decimal("0.5")
_GRID = 4000  # steps of the privacy loss per release, so that rounding up costs at most 1/4000 of ε
_LARGEST_GRID = 200_000
_SMALLEST_DELTA = 1e-12  # below it the rounding of the convolutions counts
_TAIL = 9.0  # standard deviations of a privacy loss that are kept; a larger loss counts as infinite


def limit(total: Total) -> float:
    """Return the total as a number: ρ for ZCDP, ε otherwise."""
    return total.rho if isinstance(total, ZCDP) else total.epsilon


def measure(total: Total) -> str:
    """Return the name of that number."""
    return "rho" if isinstance(total, ZCDP) else "epsilon"


def counted_in(total: Total) -> str:
    """Return the name of what `added_up` adds up."""
    return "epsilon" if isinstance(total, PureDP) else "rho"


def added_up(total: Total, releases: Sequence[Release]) -> Decimal:
    """Return the costs of releases one by one, added up, so that any part of them is judged by
    itself: ε for a PureDP total, ρ for others.
    """
    if isinstance(total, PureDP):
        return added(map(_pure_cost, releases))
    return _rho_together(releases)


def affordable(total: Total, releases: Sequence[Release]) -> bool:
    """Whether the total pays for all releases together.

    Guarantee [rounded_outward]: never where they cost more than the total in real numbers, be it by
    the last digit of a float.
    """
    if not isinstance(total, ApproxDP):
        return _sum_for(total, releases) <= written(limit(total))
    epsilon = float_below(written(total.epsilon))
    delta = float_below(_delta_left(total, releases))
    if delta <= 0:
        return False
    if zcdp_epsilon(releases, delta) <= epsilon:
        return True
    losses = _losses(releases)
    profile = None if losses is None else losses.profile()
    if profile is not None:  # asking at one ε is quicker than searching for the smallest
        return profile(epsilon) <= delta or _renyi_epsilon(releases, delta, epsilon) <= epsilon
    return spent(total, releases) <= epsilon


def largest_factor(total: ApproxDP, scaled: Callable[[float], Sequence[Release]]) -> float:
    """Return by how much the shares of a plan may grow and still be paid for together; 1 is known
    to be paid for.

    ``scaled`` gives the releases for a factor.  Found to within a ten-thousandth, or exactly where
    the noise of a factor needs no search of its own.
    """
    quick = all(isinstance(release, Additive) for release in scaled(1.0))
    relative = 1e-12 if quick else 1e-4
    return boundary(
        lambda factor: affordable(total, scaled(factor)), 1.0, 16.0, relative, by_ratio=True
    )[0]


def spent(total: Total, releases: Sequence[Release]) -> float:
    """Return the cost of releases together; for ApproxDP each may depend on the results of the others,
    but its size may not.

    Guarantee [derived_totals]: never below the privacy loss of the releases: ε adds for a PureDP
    total, ρ for a ZCDP total; for an ApproxDP total it is an ε at which all of them together are
    (ε, δ)-private, δ less what levels take.
    """
    if not releases:
        return 0.0
    if not isinstance(total, ApproxDP):
        return written_up(_sum_for(total, releases))
    delta = float_below(_delta_left(total, releases))
    if delta <= 0:
        return math.inf
    by_order = min(zcdp_epsilon(releases, delta), _renyi_epsilon(releases, delta))
    return min(by_order, _exact_epsilon(releases, delta, by_order))


def _sum_for(total: PureDP | ZCDP, releases: Sequence[Release]) -> Decimal:
    """Return the sum of the costs in the terms of a total that adds them up."""
    if any(isinstance(r, ShownLevels) for r in releases):
        raise LedgerError(
            f"levels take a delta, and this ledger, which counts {measure(total)}, has none: state them in the schema, "
            "or use a ledger with an (epsilon, delta) total"
        )
    return added_up(total, releases)


def _delta_left(total: ApproxDP, releases: Sequence[Release]) -> Decimal:
    """Return what the levels among the releases leave of δ."""
    taken = added(written(r.delta) for r in releases if isinstance(r, ShownLevels))
    return subtracted(written(total.delta), taken)


def _pure_cost(release: Release) -> Decimal:
    if not isinstance(release.share, PureDP):
        raise LedgerError(
            "this ledger counts pure epsilon and cannot pay for zCDP: use a ZCDP or ApproxDP total"
        )
    return written(release.share.epsilon)


@lru_cache(maxsize=16_384)
def _rho(share: PureDP | ZCDP) -> Decimal:
    """Return the cost of a share in zCDP, ε²/2 of a pure one."""
    if isinstance(share, ZCDP):
        return written(share.rho)
    return _half_square(share.epsilon)


def _half_square(number: float) -> Decimal:
    square = multiplied(written(number), written(number))
    return multiplied(square, _HALF)


def rho_of(release: Release) -> Decimal:
    """Return the cost of a release in zCDP."""
    assert not isinstance(release.share, NoPrivacy)
    return _rho(release.share)


def _rho_together(releases: Sequence[Release]) -> Decimal:
    return added(map(rho_of, releases))


def _mu(rho: Decimal) -> float:
    """Return the parameter μ = sqrt(2ρ) of Gaussian releases, rounded up."""
    return math.nextafter(math.sqrt(2 * float_above(rho)), math.inf) if rho else 0.0


def zcdp_epsilon(releases: Sequence[Release], delta: float) -> float:
    """Return ε at δ of the sum of ρ."""
    return epsilon_from_zcdp(float_above(_rho_together(releases)), delta)


def _renyi_epsilon(releases: Sequence[Release], delta: float, ceiling: float = math.inf) -> float:
    """Return ε at δ by the best order of the divergences added up; infinite if zCDP knows as much, or if it
    is clearly above ``ceiling``.
    """
    minima = [release.objective for release in releases if isinstance(release, PerturbedMinimum)]
    if not minima:
        return math.inf
    zcdp = float_above(
        added(
            _half_square(r.mask) if isinstance(r, PerturbedMinimum) else rho_of(r) for r in releases
        )
    )
    smallest = zcdp + math.fsum(objective.lower_limit for objective in minima)
    if epsilon_from_renyi(smallest * (1 + ORDERS), delta) > ceiling:
        return math.inf
    curves = np.sum([objective.divergences() for objective in minima], axis=0)
    return epsilon_from_renyi((curves + zcdp * (1 + ORDERS)) * (1 + _SUMMED), delta)


@dataclass(frozen=True)
class _Losses:
    """The privacy losses of releases: Gaussian ones are one of parameter μ, pure ones are
    randomised response.
    """

    mu: float
    pure: tuple[float, ...]
    perturbed: tuple[PerturbedObjective, ...]

    def profile(self) -> Callable[[float], float] | None:
        """Return δ as a function of ε where it has a closed form: Gaussian releases, with one
        perturbed minimum or none.
        """
        if self.pure or len(self.perturbed) > 1:
            return None
        if not self.perturbed:
            return lambda epsilon: float(gaussian_delta(epsilon, self.mu))
        (only,) = self.perturbed
        return lambda epsilon: only.delta(epsilon, self.mu)


def _losses(releases: Sequence[Release]) -> _Losses | None:
    """Return the losses by kind; None if a release has a zCDP cost and nothing else."""
    rhos: list[Decimal] = []
    pure: list[float] = []
    perturbed: list[PerturbedObjective] = []
    for release in releases:
        if isinstance(release.share, PureDP):
            pure.append(release.share.epsilon)
        elif isinstance(release, Additive):
            rhos.append(rho_of(release))
        elif isinstance(release, PerturbedMinimum):
            perturbed.append(release.objective)
            rhos.append(_half_square(release.mask))
        else:
            return None
    return _Losses(_mu(added(rhos)), tuple(pure), tuple(perturbed))


def _exact_epsilon(releases: Sequence[Release], delta: float, epsilon: float) -> float:
    """Return ε at δ from the privacy losses themselves; ``epsilon``, which is valid, if that is no
    better or they are not all known.
    """
    losses = _losses(releases)
    if losses is None:
        return epsilon
    profile = losses.profile()
    if profile is not None:
        if profile(epsilon) > delta:
            return epsilon
        return boundary(lambda e: profile(e) <= delta, epsilon, 0.0, 1e-13)[0]
    only_pure = losses.mu == 0 and not losses.perturbed
    in_sum = float_above(added(map(written, losses.pure))) if only_pure else math.inf
    return min(in_sum, _composed_epsilon(losses, delta, epsilon))


def _composed_epsilon(losses: _Losses, delta: float, size: float) -> float:
    """Return ε at δ of all privacy losses added up on a grid, rounded up; ``size`` is about how
    large it is.
    """
    if delta < _SMALLEST_DELTA:
        return math.inf
    if size == 0:
        return size
    from dp_accounting.pld import privacy_loss_distribution as pld  # noqa: PLC0415  (slow to load)

    count = len(losses.pure) + len(losses.perturbed)
    step = size / min(_GRID * count, _LARGEST_GRID)
    pure = Counter(losses.pure)
    perturbed = Counter((p.scale, p.kappa, p.signs) for p in losses.perturbed)
    repeated = [(_pure_loss(epsilon, step), times) for epsilon, times in pure.items()]
    repeated += [(_perturbed_loss(*shape, step), times) for shape, times in perturbed.items()]
    parts = [pld.PrivacyLossDistribution(loss).self_compose(times) for loss, times in repeated]
    if losses.mu > 0:
        parts.append(pld.from_gaussian_mechanism(1 / losses.mu, value_discretization_interval=step))
    together = parts[0]
    for part in parts[1:]:
        together = together.compose(part)
    return float(together.get_epsilon_for_delta(delta))


def _pure_loss(epsilon: float, step: float) -> Any:
    """Return the loss of randomised response, which dominates every ε-private release (Kairouz, Oh and
    Viswanath, 2015).
    """
    from dp_accounting.pld import pld_pmf  # noqa: PLC0415

    top = math.ceil(epsilon / step)
    bottom = math.ceil(-epsilon / step)
    mass = {top: 1.0}
    if bottom < top:
        mass = {bottom: float(expit(-epsilon)), top: float(expit(epsilon))}
    return pld_pmf.SparsePLDPmf(mass, step, 0.0, pessimistic_estimate=True)


def _perturbed_loss(scale: float, kappa: float, signs: int, step: float) -> Any:
    """Return the loss κ + max(0, 2/s² + 2Z/s), or κ + 2/s² + 2|Z|/s where the slope has two signs;
    Z standard normal.
    """
    from dp_accounting.pld import pld_pmf  # noqa: PLC0415

    mean = kappa + 2 / scale**2
    sd = 2 / scale
    lowest = mean if signs == 2 else kappa
    first = math.ceil(lowest / step)
    last = math.ceil((mean + _TAIL * sd) / step)
    steps = step * np.arange(first, last + 1)
    # the chance of a loss above each step
    beyond = np.minimum(1.0, signs * ndtr((mean - steps) / sd))
    chance = -np.diff(beyond, prepend=1.0)
    return pld_pmf.DensePLDPmf(step, first, chance, float(beyond[-1]), pessimistic_estimate=True)


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
        """The rule that judges the last entry, in words; the first one's where there is none."""
        if not isinstance(self.total, ApproxDP):
            return f"sum of {measure(self.total)}"
        return FIRST if len(self.entries) < 2 else self._filter.words

    def rules(self) -> tuple[str, ...]:
        """Return the rule that judged each entry when it came."""
        if not self.entries:
            return ()
        kinds = [_gaussian(entry) for entry in self.entries]
        other = kinds.index(False) if False in kinds else len(kinds)
        # rules change after the first entry and with the first one that is not Gaussian
        changes = (1, 2, max(2, other + 1))
        first, second, later = (replace(self, entries=self.entries[:end]).rule for end in changes)
        rules = [second if number < other else later for number in range(1, len(kinds))]
        return (first, *rules)

    def spent(self) -> float:
        """Return ε, ρ, or ε at δ: at most the total exactly if everything is paid for."""
        if self.late or self._delta <= 0:
            return math.inf
        if isinstance(self.total, ApproxDP) and len(self.entries) > 1:
            found = self._filter.epsilon(self._releases)
        else:
            found = spent(self.total, self._releases)
        # where the total is used up, the search for ε ends a little above it
        upper = limit(self.total)
        if upper < found <= upper * (1 + _SEARCHED) and self.paid():
            return upper
        return found

    def left(self) -> float:
        """Return the total less what its sum, or the filter that would judge a further entry, has
        counted so far.
        """
        if self.late or self._delta <= 0:
            return 0.0
        if not isinstance(self.total, ApproxDP):
            counted = _sum_for(self.total, self._releases)
            return max(0.0, written_down(subtracted(written(limit(self.total)), counted)))
        if not self.entries:
            return self.total.epsilon
        return max(0.0, self.total.epsilon - self._filter.epsilon(self._releases))

    def largest(self) -> float:
        """Return the most that one further fit may cost, in the terms of the total, if all its
        noise is Gaussian.

        Under an (ε, δ) total that is an ε at the total's own δ.  Fits cost less together than one
        by one, so it is more than `left`.  A fit with other noise, as a penalised one, may be
        judged by another filter, and may get less.
        """
        if not isinstance(self.total, ApproxDP):
            return self.left()
        if not self.entries:
            return self.total.epsilon
        upper = self.total.zcdp().rho

        def pays(rho: float) -> bool:
            return replace(self, entries=(*self.entries, _sum_of(rho))).paid()

        # a first entry alone is judged exactly, which may pay a little more than zCDP's conversion
        while pays(upper):
            upper *= 2
        lower = upper * _NOTHING_LEFT
        if not pays(lower):
            return 0.0
        rho, _ = boundary(pays, lower, upper, _SEARCHED_SHARE, by_ratio=True)
        # a fit finds its ρ by a search of its own, which may end a little higher
        return spent(self.total, _sum_of(rho)) * (1 - _SPARE)

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
    def _delta(self) -> Decimal:
        """The part of δ that the levels of the first entry leave; 1 where there is none."""
        if not isinstance(self.total, ApproxDP):
            return Decimal(1)
        return _delta_left(self.total, self.entries[0] if self.entries else ())

    @property
    def _releases(self) -> list[Release]:
        return [release for entry in self.entries for release in entry]

    @property
    def _filter(self) -> "_Filter":
        """The filter: by the first entry, which nothing was seen before, and then by whether all
        are Gaussian.
        """
        order, branch = self.orders
        if not _gaussian(self.entries[0]):
            return _Filter(float_below(self._delta), order)
        others = multiplied(self._delta, written(BRANCH))
        if all(map(_gaussian, self.entries)):
            return _Filter(float_below(subtracted(self._delta, others)), None)
        return _Filter(float_below(others), branch)


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
        limit = float_below(written(epsilon))
        if self.order is None:
            return float(gaussian_delta(limit, _mu(_rho_together(releases)))) <= self.delta
        return self._at_order(releases) <= limit

    def epsilon(self, releases: Sequence[Release]) -> float:
        """Return an ε at ``delta`` of these releases: at most that of the total exactly if the
        filter admits them.

        An order that is good where the total is nearly spent is poor where little is; zCDP's
        conversion, which uses the best order, is no smaller than the total where the filter is
        full.
        """
        by_rho = zcdp_epsilon(releases, self.delta)
        if self.order is None:
            mu = _mu(_rho_together(releases))
            return boundary(
                lambda e: float(gaussian_delta(e, mu)) <= self.delta, by_rho, 0.0, 1e-13
            )[0]
        return min(by_rho, self._at_order(releases))

    def _at_order(self, releases: Sequence[Release]) -> float:
        assert self.order is not None
        divergence = math.fsum(_divergence(release, self.order) for release in releases)
        divergence *= 1 + _SUMMED
        return float(epsilon_at(np.array(self.order - 1), np.array(divergence), self.delta))


def renyi_orders(total: Total) -> tuple[float, ...]:
    """Return the orders of the filters of an ApproxDP total: the best of zCDP's conversion, at δ
    and at its `BRANCH`.
    """
    if not isinstance(total, ApproxDP):
        return ()
    return _order(total.epsilon, total.delta), _order(total.epsilon, BRANCH * total.delta)


@lru_cache(maxsize=1024)
def _order(epsilon: float, delta: float) -> float:
    """Return the α at which ε at δ pays for the largest ρ."""

    def missing(log_beyond: float) -> float:
        """Return -ρ, so that the best order is where it is lowest."""
        beyond = np.array(math.exp(log_beyond))
        return float((epsilon_at(beyond, np.zeros(()), delta) - epsilon) / (1 + beyond))

    best = min((step / 20 for step in range(-200, 401)), key=missing)
    return 1 + math.exp(lowest_near(missing, best, 0.05))


def _gaussian(releases: Sequence[Release]) -> bool:
    return all(isinstance(r, Additive) and isinstance(r.share, ZCDP) for r in releases)


def _sum_of(rho: float) -> tuple[Release, ...]:
    """Return the releases of a fit of Gaussian noise that costs ρ: one sum of that cost stands for
    all.
    """
    return (NoisySum("a next fit", ZCDP(rho), 1.0),)


def _divergence(release: Release, order: float) -> float:
    """Return D_α of one release: never above ρα, which its share allows."""
    by_rho = float(rho_of(release)) * order
    if isinstance(release.share, PureDP):
        return min(by_rho, _of_randomised_response(release.share.epsilon, order))
    if isinstance(release, PerturbedMinimum):
        of_mask = release.mask**2 / 2 * order
        return min(by_rho, _of_objective(release.objective, order) + of_mask)
    return by_rho


def _of_randomised_response(epsilon: float, order: float) -> float:
    """Return the largest D_α of all ε-private releases."""
    top = float(np.logaddexp(order * epsilon, (1 - order) * epsilon) - np.logaddexp(0.0, epsilon))
    rounding = 4e-16 * (1 + order * epsilon)
    return min(epsilon, (top + rounding) / (order - 1))


@lru_cache(maxsize=65_536)
def _of_objective(objective: PerturbedObjective, order: float) -> float:
    return objective.renyi(order - 1)
