"""Totals of a ledger under adaptive choice: laws of the filters, and an adversary that a wrong one
lets overspend.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.mechanisms.privacy_cost import (
    ORDERS,
    PerturbedObjective,
    epsilon_at,
    epsilon_from_renyi,
)
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import BRANCH, Count, renyi_orders
from dpinfer.privacy.entries import Entry, Terms, header_text, terms_of
from dpinfer.privacy.release import (
    LaplaceMinimum,
    NoisyMinimum,
    NoisySum,
    PerturbedMinimum,
)
from dpinfer.privacy.shares import rounded_down
from helpers.searches import examples
from helpers.support import labelled

TOTAL = dp.ApproxDP(1.0, 1e-6)
X, Y = labelled(200, 2)


def gaussian(rho):
    return NoisySum("matrices", dp.ZCDP(rho), 1.0)


def perturbed(scale, k=0.05, shape="one-sided", mask=0.0):
    objective = PerturbedObjective(scale, k, shape)
    return PerturbedMinimum("estimate", dp.ZCDP(objective.cost() + mask**2 / 2), objective, mask)


def pure(epsilon):
    return LaplaceMinimum("estimate", dp.PureDP(epsilon), epsilon / 4, 0.1)


def opaque(rho):
    """A release of which the accountant knows the share alone."""
    return LaplaceMinimum("estimate", dp.ZCDP(rho), rate=0.0, k=0.0)


def count(*entries, total=TOTAL):
    return Count(total, renyi_orders(total), tuple(map(tuple, entries)))


def booked(entry):
    return Entry("test", "one record", tuple(entry))


# The largest next fit


LEDGERS = {
    "a Gaussian fit": [[gaussian(0.01)]],
    "two": [[gaussian(0.01)], [gaussian(0.002), gaussian(0.001)]],
    "a penalised fit first": [[perturbed(12.0)]],
    "a penalised fit later": [[gaussian(0.004)], [perturbed(30.0)]],
    "a pure one": [[pure(0.2)]],
}


@pytest.mark.parametrize("entries", LEDGERS.values(), ids=list(LEDGERS))
def test_the_largest_next_fit_is_paid_and_nothing_larger(entries):
    """What is told is an ε at the total's own δ, as a user gives it."""
    found = count(*entries)
    assert found.paid()
    largest = found.largest()

    def next_fit(epsilon):
        plan = dp.LinearPlan(dp.ApproxDP(epsilon, TOTAL.delta))
        return count(*entries, plan.releases().all)

    assert next_fit(largest).paid()
    assert not next_fit(largest * (1 + 1e-4)).paid()


def test_the_largest_fit_of_an_empty_a_full_and_an_additive_ledger():
    assert count().largest() == TOTAL.epsilon
    full = count([gaussian(dp.LinearPlan(TOTAL).cost.rho)])
    assert full.largest() == 0.0
    for total, entry in ((dp.ZCDP(1.0), gaussian(0.25)), (dp.PureDP(1.0), pure(0.25))):
        assert count([entry], total=total).largest() == 0.75


def test_more_than_what_is_left_may_be_spent():
    """The ledger of an (ε, δ) total: fits cost less together than one by one."""
    ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6))
    ledger.book(booked(dp.LinearPlan(dp.ApproxDP(1.0, 1e-6)).releases().all))
    assert ledger.left() < 1.0
    largest = ledger.largest_fit()
    assert 1.6 < largest < 1.7
    preview = ledger.preview(booked(dp.LinearPlan(dp.ApproxDP(1.5, 1e-6)).releases().all))
    assert preview.accepted
    assert 0.6 < preview.largest < 0.7
    refusal = (
        r"this costs ε = 1\.8, .* may cost up to ε = 1\.66\d* of the total, ε = 2, δ = 10⁻⁶: lower"
    )
    with pytest.raises(dp.LedgerError, match=refusal):
        ledger.book(booked(dp.LinearPlan(dp.ApproxDP(1.8, 1e-6)).releases().all))


@given(st.floats(1e-300, 1e300), st.integers(1, 12))
def test_what_may_be_spent_is_rounded_down(amount, digits):
    told = rounded_down(amount, digits)
    assert told <= amount
    assert told >= amount * (1 - 10.0 ** (1 - digits)) * (1 - 1e-15)
    assert float(f"{told:.{digits}g}") == told


# What each rule is


def test_which_rule_judges_what():
    assert count(total=dp.PureDP(1.0)).rule == "sum of epsilon"
    assert count([gaussian(0.1)], [opaque(0.1)], total=dp.ZCDP(1.0)).rules() == ("sum of rho",) * 2
    assert count().rules() == ()
    assert count().rule == count([opaque(1.0)]).rule == "exact, first entry"
    noisy, other = (
        [gaussian(1e-3), NoisyMinimum("estimate", dp.ZCDP(1e-3), 1.0)],
        [gaussian(1e-3), perturbed(30.0)],
    )
    first = "exact, first entry"
    assert count(noisy, noisy, noisy).rules() == (first, "Gaussian filter", "Gaussian filter")
    assert count(other, noisy, noisy).rules() == (first, *["Renyi filter of order 22"] * 2)
    assert count(noisy, other, noisy).rules() == (first, *["Renyi filter of order 26.2"] * 2)
    assert count(noisy, noisy, other).rules() == (
        first,
        "Gaussian filter",
        "Renyi filter of order 26.2",
    )
    for not_gaussian in (pure(0.01), opaque(1e-3), NoisySum("matrices", dp.PureDP(0.01), 1.0)):
        assert "Renyi" in count([not_gaussian], noisy).rule


@pytest.mark.parametrize(
    "total", [TOTAL, dp.ApproxDP(0.1, 1e-9), dp.ApproxDP(8.0, 1e-5), dp.ApproxDP(50.0, 1e-3)]
)
def test_the_orders_are_the_best_for_the_total(total):
    """At the order, the filter is worth the whole of zCDP's conversion; at others less."""
    for order, delta in zip(renyi_orders(total), (total.delta, BRANCH * total.delta), strict=True):

        def worth(order, delta=delta):
            beyond = order - 1
            return (
                total.epsilon
                + math.log1p(1 / beyond)
                + (math.log(delta) + math.log1p(beyond)) / beyond
            ) / order

        assert worth(order) == pytest.approx(dp.ApproxDP(total.epsilon, delta).zcdp().rho, rel=1e-9)
        assert worth(order) > max(worth(1 + 1.1 * (order - 1)), worth(1 + 0.9 * (order - 1)))


def test_the_orders_are_written_down_once():
    assert dp.Ledger(TOTAL)._terms.orders == renyi_orders(TOTAL)
    assert dp.Ledger(dp.ZCDP(1.0))._terms.orders == ()
    stored = header_text(Terms(TOTAL, "one record", "replace", "", "", orders=(12.5, 14.5)))
    assert terms_of(stored).orders == (12.5, 14.5)
    for wrong in ("[0.5, 14.5]", "[12.5]", "[1e999, 2.0]"):
        with pytest.raises(dp.LedgerError, match="header cannot be read"):
            terms_of(stored.replace("[12.5, 14.5]", wrong))


# Laws

releases = st.one_of(
    st.builds(gaussian, st.floats(1e-5, 0.03)),
    st.builds(pure, st.floats(1e-3, 0.3)),
    st.builds(opaque, st.floats(1e-5, 0.03)),
    st.builds(
        perturbed, st.sampled_from([8.0, 13.0, 40.0]), st.sampled_from([1e-3, 0.05]),
        st.sampled_from(["one-sided", "two-sided", "logistic"]), st.sampled_from([0.0, 0.01]),
    ),
)  # fmt: skip
many = st.lists(st.lists(releases, min_size=1, max_size=3), min_size=2, max_size=4)


def response_divergence(epsilon, order):
    """Of randomised response, by summation."""
    p = 1 / (1 + math.exp(-epsilon))
    whole = np.logaddexp(
        order * math.log(p) + (1 - order) * math.log1p(-p),
        order * math.log1p(-p) + (1 - order) * math.log(p),
    )
    return whole / (order - 1)


@examples(20)
@given(many)
def test_guarantee_adaptive_totals(entries):
    """Never admitted is what composition of fixed sizes refuses: a sum over a grid of orders, or
    zCDP's conversion.

    Spent, left and admission speak the same rule, and a further entry never makes room.
    """
    found, flat = count(*entries), [release for entry in entries for release in entry]
    assert found.paid() == (found.spent() <= TOTAL.epsilon)
    assert found.left() == max(0.0, TOTAL.epsilon - found.spent())
    order = renyi_orders(TOTAL)[0]
    grid = np.append(ORDERS[::10], order - 1)

    def divergence(release, beyond):
        if isinstance(release, PerturbedMinimum):
            return release.objective.renyi(beyond) + (1 + beyond) * release.mask**2 / 2
        if isinstance(release.share, dp.PureDP):
            return min(
                release.share.epsilon, response_divergence(release.share.epsilon, 1 + beyond)
            )
        return (1 + beyond) * release.share.zcdp().rho

    curve = np.array(
        [math.fsum(divergence(release, beyond) for release in flat) for beyond in grid]
    )
    direct = (curve - np.log1p(1 / grid) - (math.log(TOTAL.delta) + np.log1p(grid)) / grid).min()
    exact = min(direct, accountant.spent(TOTAL, flat))
    if found.paid():
        assert exact <= TOTAL.epsilon * (1 + 1e-13)
        assert count(*entries[:-1]).paid()
    assert exact <= found.spent() * (1 + 1e-6)


@examples(15)
@given(st.lists(st.floats(1e-4, 0.02), min_size=2, max_size=5))
def test_the_gaussian_filter_against_another_accountant(rhos):
    other = PLDAccountant()
    for rho in rhos:
        other.compose(GaussianDpEvent(1 / math.sqrt(2 * rho)))
    found = count(*([gaussian(rho)] for rho in rhos))
    assert found.rule == "Gaussian filter"
    if found.paid():
        assert other.get_epsilon(TOTAL.delta) <= TOTAL.epsilon * (1 + 2e-3)
    within = other.get_epsilon((1 - BRANCH) * TOTAL.delta)
    assert found.spent() == pytest.approx(
        within, rel=2e-3
    )  # and nothing is given away beyond a tenth of delta


def test_a_mask_is_charged_as_the_gaussian_release_that_it_is():
    """The mask of a perturbed minimum has the divergence αμ²/2, on top of that of the minimum."""
    first, mask = [opaque(1e-3)], 0.1
    masked = count(first, [perturbed(12.0, mask=mask)])
    apart = count(first, [perturbed(12.0), gaussian(mask**2 / 2)])
    unmasked = count(first, [perturbed(12.0)])
    assert masked.spent() == pytest.approx(apart.spent(), rel=1e-12)
    assert masked.spent() > 1.1 * unmasked.spent()
    by_rho = accountant.zcdp_epsilon(masked._releases, masked._filter.delta)
    assert masked.spent() < by_rho  # so the filter's own order said it


def test_a_pure_release_is_charged_its_own_divergence():
    """That of randomised response: never above ε or ε²α/2, and no less than direct summation."""
    for epsilon, order in itertools.product((1e-9, 1e-4, 0.3, 5.0, 900.0), (1.5, 22.0, 8000.0)):
        found = accountant._divergence(pure(epsilon), order)
        assert found <= min(epsilon, epsilon**2 * order / 2)
        if 1e-4 <= epsilon <= 5:
            assert found == pytest.approx(response_divergence(epsilon, order), rel=1e-6)


# What a ledger pays for

RECIPES = {
    "asked": lambda **to: dp.LogisticRegression(bounds=([-1, -1], [1, 1]), **to),
    "penalised": lambda **to: dp.LogisticRegression(
        bounds=([-1, -1], [1, 1]), target="penalised", **to
    ),
    "svm": lambda **to: dp.LinearSVC(bounds=([-1, -1], [1, 1]), **to),
    "huber": lambda **to: dp.HuberRegression(bounds=([-1, -1], [1, 1]), outcome=(-1, 1), **to),
    "quantile": lambda **to: dp.QuantileRegression(
        bounds=([-1, -1], [1, 1]), outcome=(-1, 1), **to
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_a_fresh_ledger_pays_for_one_fit_of_its_size(name):
    ledger = dp.Ledger(TOTAL)
    RECIPES[name](budget=TOTAL, ledger=ledger).fit(X, Y)
    assert ledger.spent() <= TOTAL.epsilon
    assert ledger.left() < 0.03
    with pytest.raises(dp.LedgerError, match="of the total, ε = 1"):
        RECIPES[name](budget=dp.ApproxDP(0.3, 1e-6), ledger=ledger).fit(X, Y)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("name", RECIPES)
def test_two_halves_fit(name):
    ledger = dp.Ledger(TOTAL)
    half = dp.ZCDP(TOTAL.zcdp().rho / 2)
    RECIPES[name](budget=half, ledger=ledger).fit(X, Y)
    RECIPES[name](budget=half, ledger=ledger).fit(X, Y)
    # a fit of Gaussian sums alone is followed by the filter that is made for these
    later = "Gaussian filter" if name == "asked" else "Renyi filter of order 22"
    assert ledger.rules() == ("exact, first entry", later)
    assert ledger.spent() + ledger.left() == pytest.approx(1.0)
    with pytest.raises(dp.LedgerError, match="of the total, ε = 1"):
        RECIPES[name](budget=half, ledger=ledger).fit(X, Y)


def test_halves_of_each_filter_fit_to_the_last_digit():
    whole = dp.ApproxDP(1.0, (1 - BRANCH) * 1e-6)
    low, high = 0.02, 0.05
    while high - low > 1e-15:
        middle = (low + high) / 2
        low, high = (
            (middle, high) if accountant.affordable(whole, [gaussian(middle)]) else (low, middle)
        )
    for one, full in ((gaussian, low), (opaque, TOTAL.zcdp().rho)):
        assert count([one(full / 2)], [one(full / 2)]).paid()
        assert not count([one(full / 2)], [one(full / 2 * (1 + 1e-6))]).paid()
        assert count(*([one(full / 1000)],) * 999).paid()
    branch = dp.ApproxDP(1.0, BRANCH * 1e-6).zcdp().rho
    assert count([gaussian(branch / 2)], [opaque(branch / 2)]).paid()
    assert not count([gaussian(branch / 2)], [opaque(branch / 2 * (1 + 1e-6))]).paid()


def test_what_is_left_after_a_first_entry_is_what_the_filter_leaves():
    """Exact composition makes more of δ than a filter: a first entry of nearly all leaves nothing."""
    most = 0.97 * 0.0294
    ledger = dp.Ledger(TOTAL)
    ledger.book(booked([perturbed(1 / math.sqrt(most / 2) * 1.05, 1e-4)]))
    assert 0.9 < ledger.spent() <= 1.0
    assert ledger.left() < 1 - ledger.spent()
    assert not ledger.preview(booked([gaussian(0.005)])).accepted


# An adversary


@dataclass(frozen=True)
class Spike:
    """A release that shows something with a small chance: loss ``loss`` with chance ``chance``,
    else nearly none.
    """

    loss: float
    chance: float
    shape: str = "two-sided"

    @property
    def rest(self):
        """The loss otherwise: probabilities under the neighbour add up to 1."""
        return math.log((1 - self.chance) / (1 - self.chance * math.exp(-self.loss)))

    def renyi(self, beyond):
        q, p = self.chance * math.exp(-self.loss), self.chance
        forth = np.logaddexp(math.log(p) + beyond * self.loss, math.log1p(-p) + beyond * self.rest)
        back = np.logaddexp(math.log(q) - beyond * self.loss, math.log1p(-q) - beyond * self.rest)
        return max(forth, back) / beyond

    def divergences(self):
        return np.array([self.renyi(beyond) for beyond in ORDERS])

    def outcomes(self):
        return ((self.chance, self.loss), (1 - self.chance, self.rest))


def spike(release):
    return PerturbedMinimum("estimate", dp.ZCDP(1e6), release)


def adaptive_delta(first, second, epsilon):
    """δ at ε of a release followed by one that depends on what it showed."""
    losses = (
        (chance * then, loss + more)
        for (chance, loss), follows in zip(first.outcomes(), second, strict=True)
        for then, more in follows.outcomes()
    )
    return math.fsum(chance * max(0.0, -math.expm1(epsilon - loss)) for chance, loss in losses)


def test_mutation_an_order_chosen_afterwards_is_overspent():
    """After a surprise the adversary takes what is cheap at a high order, else what is cheap at a
    low one.

    For either pair the best order says (ε, δ); the two together, one after each outcome, are not.
    A filter with one order refuses one of them.
    """
    total = dp.ApproxDP(8.0, 1e-6)
    first = Spike(0.5, 1e-2)
    after_surprise = Spike(8.0 + math.log(24 / 23) - 0.5, 0.85 * 24 * 1e-6 / 1e-2)
    otherwise = Spike(8.0 + math.log(4 / 3) - first.rest, 0.85 * 4 * 1e-6)
    pairs = [[spike(first)], [spike(after_surprise)]], [[spike(first)], [spike(otherwise)]]
    for one, other in pairs:
        divergences = [release.objective.divergences() for release in (*one, *other)]
        assert (
            epsilon_from_renyi(np.sum(divergences, axis=0), total.delta) <= total.epsilon
        )  # the mutation admits both
    assert adaptive_delta(first, (after_surprise, otherwise), total.epsilon) > 1.5 * total.delta
    for alone in (after_surprise, otherwise):
        assert adaptive_delta(first, (alone, alone), total.epsilon) <= total.delta
    assert not all(count(*pair, total=total).paid() for pair in pairs)


def test_one_order_is_never_overspent_by_that_adversary():
    """Scaled until the filter admits both, the adversary stays within δ, whatever the order."""
    total = dp.ApproxDP(8.0, 1e-6)
    first = Spike(0.5, 1e-2)
    for high, low in itertools.product((4.0, 8.0, 24.0), (1.5, 3.0, 4.0)):
        pair = []
        for order, seen in ((high, 0.5), (low, first.rest)):
            loss = 8.0 + math.log(order / (order - 1)) - seen
            chances = [c for c in np.geomspace(1e-12, 1e-2, 300)
                       if count([spike(first)], [spike(Spike(loss, c))], total=total).paid()]  # fmt: skip
            pair.append(Spike(loss, max(chances)))
        assert adaptive_delta(first, tuple(pair), total.epsilon) <= total.delta


def test_mutation_going_from_one_filter_to_another_for_nothing_is_overspent():
    """Were both filters given all of δ, one chosen by an earlier result, the two branches would add
    up.
    """
    full = count([gaussian(1e-4)], [gaussian(0.9)], total=dp.ApproxDP(8.0, 1e-6))
    whole = accountant._Filter(full.total.delta, full.orders[0])
    assert (
        full._filter.delta + accountant._Filter(BRANCH * 1e-6, full.orders[1]).delta
        <= full.total.delta
    )
    mixed = count([gaussian(1e-4)], [opaque(1e-4)], total=full.total)._filter
    assert mixed.delta + full._filter.delta <= full.total.delta < whole.delta + full._filter.delta


def test_mutation_levels_whenever_they_fit_would_be_overspent():
    """After a surprise the adversary asks for more noise-paid releases, else for levels: each alone
    fits into δ.

    The surprise weighs little for δ of levels and much for divergences, so both together are far
    beyond δ.
    """
    total, order = dp.ApproxDP(8.0, 1e-6), 24.0
    first = Spike(0.5, 1e-2)
    after = Spike(8.0 + math.log(24 / 23) - 0.5, 0.85 * 24 * 1e-6 / 1e-2)
    beyond = np.array(order - 1)
    divergence = first.renyi(order - 1) + after.renyi(order - 1)
    assert epsilon_at(beyond, np.array(divergence), total.delta) <= total.epsilon
    left = total.delta - math.exp(
        (order - 1) * (first.renyi(order - 1) - total.epsilon)
    )  # nearly all of it
    assert left > 0.999 * total.delta
    nothing = Spike(1e-9, 1e-9)
    found = adaptive_delta(first, (after, nothing), total.epsilon) + (1 - first.chance) * left
    assert found > 1.5 * total.delta


@pytest.mark.parametrize("recipe", ["paper", "tight"])
@pytest.mark.parametrize(
    "mechanism",
    [dp.OutputPerturbation(), dp.ObjectivePerturbation(), dp.ObjectivePerturbation("gaussian")],
)
def test_a_fresh_ledger_pays_for_one_fit_of_every_plan(mechanism, recipe):
    ledger = dp.Ledger(TOTAL)
    plan = dp.Plan(mechanism, *TOTAL.split(2, 1, 1), recipe=recipe, approx=TOTAL)
    dp.infer(X, Y, loss=dp.Logistic(), penalty=0.5, plan=plan, ledger=ledger)
    assert ledger.rules() == ("exact, first entry",)
    with pytest.raises(dp.LedgerError, match="of the total, ε = 1"):
        dp.infer(X, Y, loss=dp.Logistic(), penalty=0.5, plan=plan, ledger=ledger)
