"""Totals against other accountants, closed forms and direct integration; wrong counts are caught."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

import dpinfer as dp
from dpinfer.mechanisms.privacy_cost import ORDERS, PerturbedObjective
from dpinfer.persistence import FileNames
from dpinfer.privacy import accountant, entries
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import LaplaceMinimum, NoisySum, PerturbedMinimum
from helpers.searches import examples

DELTA = 1e-6
TOTAL = dp.ApproxDP(1.0, DELTA)


@dataclass(frozen=True)
class Perturbed:
    """Objective perturbation: its loss is κ + max(0, 2/s² + 2Z/s), or κ + 2/s² + 2|Z|/s; κ =
    log(1+k), of units k.
    """

    scale: float
    k: float
    shape: str = "one-sided"

    @property
    def signs(self):
        return 2 if self.shape.startswith("two-sided") else 1

    @property
    def kappa(self):
        return self.k if self.shape.endswith("of units") else math.log1p(self.k)

    @property
    def lower_limit(self):
        return 2 / self.scale**2

    def losses(self, cells=4001):
        """The loss as points with their chances, by the midpoint rule."""
        z = np.linspace(-9, 9, cells)
        mass = np.diff(ndtr(z))
        middle = (z[1:] + z[:-1]) / 2
        steep = 2 / self.scale**2 + 2 / self.scale * (np.abs(middle) if self.signs == 2 else middle)
        return self.kappa + np.maximum(0, steep), mass

    def delta(self, epsilon, mu):
        loss, mass = self.losses()
        return float(mass @ gaussian_profile(epsilon - loss, mu))

    def renyi(self, beyond):
        alpha, s = 1 + beyond, self.scale
        if self.signs == 2:
            inner = 2 * ndtr(2 * beyond / s)
        else:
            inner = math.exp(-2 * alpha * beyond / s**2) * ndtr(-1 / s) + ndtr((2 * alpha - 1) / s)
        return self.kappa + 2 * alpha / s**2 + math.log(inner) / beyond

    def divergences(self):
        return np.array([self.renyi(beyond) for beyond in ORDERS])

    def costs_more_than(self, rho):
        return self.cost() > rho

    def cost(self):
        return max(self.renyi(b) / (1 + b) for b in np.geomspace(1e-1, 1e4, 200))


def gaussian_profile(shifted, mu):
    """E[(1 - exp(shifted - G))+], G the loss of a Gaussian release."""
    if mu == 0:
        return np.maximum(0, -np.expm1(np.minimum(shifted, 0)))
    with np.errstate(over="ignore", invalid="ignore"):
        away = np.exp(np.minimum(shifted, 500)) * ndtr(-mu / 2 - shifted / mu)
    return ndtr(mu / 2 - shifted / mu) - away


def gaussian(rho):
    return NoisySum("matrices", dp.ZCDP(rho), 1.0)


def pure(epsilon):
    return LaplaceMinimum("estimate", dp.PureDP(epsilon), 0.5, 0.1)


def opaque(rho):
    """A release of which the accountant knows the share alone."""
    return LaplaceMinimum("estimate", dp.ZCDP(rho), rate=0.0, k=0.0)


def perturbed(scale, k=0.05, shape="one-sided"):
    release = Perturbed(scale, k, shape)
    return PerturbedMinimum("estimate", dp.ZCDP(release.cost()), release)


@cache
def other_accountant(kind, event, times):
    return kind().compose(SelfComposedDpEvent(event, times)).get_epsilon(DELTA)


@pytest.mark.parametrize("times", [1, 7, 40])
@pytest.mark.parametrize("rho", [0.001, 0.05])
def test_gaussian_releases_agree_with_two_accountants(times, rho):
    found = accountant.spent(TOTAL, [gaussian(rho)] * times)
    event = GaussianDpEvent(1 / math.sqrt(2 * rho))
    assert found == pytest.approx(other_accountant(PLDAccountant, event, times), rel=2e-3)
    assert found <= other_accountant(RdpAccountant, event, times)
    assert found < accountant.spent(TOTAL, [opaque(rho)] * times)


def optimal_composition(epsilon, times, at):
    """δ at ε of the worst ε-private releases (Kairouz, Oh and Viswanath, 2015)."""
    ways = [
        math.comb(times, j) * (math.exp((times - j) * epsilon) - math.exp(at + j * epsilon))
        for j in range(times)
    ]
    return math.fsum(w for w in ways if w > 0) / (1 + math.exp(epsilon)) ** times


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 10), (0.1, 60), (0.5, 12), (1.5, 3)])
def test_pure_releases_cost_the_worst_pure_releases(epsilon, times):
    found = accountant.spent(TOTAL, [pure(epsilon)] * times)
    assert optimal_composition(epsilon, times, found) <= DELTA
    assert optimal_composition(epsilon, times, 0.998 * found) > DELTA
    laplace = other_accountant(PLDAccountant, LaplaceDpEvent(1 / epsilon), times)
    assert laplace * 0.999 <= found <= epsilon * times


def test_one_pure_release_costs_itself():
    for epsilon in (1e-3, 1.0, 50.0, 2000.0):
        assert accountant.spent(TOTAL, [pure(epsilon)]) == pytest.approx(epsilon, rel=1e-2)
        assert accountant.affordable(dp.ApproxDP(epsilon, DELTA), [pure(epsilon)])


def delta_of(releases, mu, at):
    """δ of perturbed and Gaussian releases by direct integration: sums of all losses, point by
    point.
    """
    loss, mass = np.zeros(1), np.ones(1)
    for release in releases:
        points, chances = release.losses(601)
        loss, mass = np.add.outer(loss, points).ravel(), np.multiply.outer(mass, chances).ravel()
    return float(mass @ gaussian_profile(at - loss, mu))


@pytest.mark.parametrize("rho", [0.0, 0.02])
@pytest.mark.parametrize("scales", [(12.0, 12.0), (9.0, 20.0)])
@pytest.mark.parametrize(
    "shapes", [("one-sided",) * 2, ("two-sided",) * 2, ("two-sided", "one-sided")]
)
def test_two_perturbed_releases_against_direct_integration(scales, rho, shapes):
    """One grid for both: slopes of one sign, of either, or one release of each kind."""
    pairs = [(s, 0.01, shape) for s, shape in zip(scales, shapes, strict=True)]
    found = accountant.spent(
        TOTAL, [perturbed(*pair) for pair in pairs] + [gaussian(rho) for _ in range(rho > 0)]
    )
    releases, mu = [Perturbed(*pair) for pair in pairs], math.sqrt(2 * rho)
    assert delta_of(releases, mu, found) <= DELTA * (1 + 1e-3)
    assert delta_of(releases, mu, 0.995 * found) > DELTA


@pytest.mark.parametrize("shape", ["one-sided", "two-sided"])
def test_every_kind_together(shape):
    """Pure releases join: an integral over randomised response as well."""
    found = accountant.spent(TOTAL, [pure(0.3), perturbed(12.0, 0.01, shape), gaussian(0.01)])
    heads = 1 / (1 + math.exp(-0.3))

    def delta(at):
        release, mu = [Perturbed(12.0, 0.01, shape)], math.sqrt(0.02)
        return heads * delta_of(release, mu, at - 0.3) + (1 - heads) * delta_of(
            release, mu, at + 0.3
        )

    assert delta(found) <= DELTA * (1 + 1e-3)
    assert delta(0.995 * found) > DELTA


@pytest.mark.parametrize("shape", ["one-sided", "two-sided"])
def test_next_to_a_release_without_a_profile_divergences_count(shape):
    known = perturbed(10.0, 0.05, shape)
    found = accountant.spent(TOTAL, [known, opaque(0.01)])
    orders = np.geomspace(1e-2, 1e5, 2000)
    divergence = np.array([known.objective.renyi(b) for b in orders]) + 0.01 * (1 + orders)
    best = (divergence - np.log1p(1 / orders) - (math.log(DELTA) + np.log1p(orders)) / orders).min()
    assert best <= found <= best * 1.001
    assert found > accountant.spent(TOTAL, [known, gaussian(0.01)])


def test_mutation_slopes_of_either_sign_counted_as_one_are_caught():
    """The composed total of two-sided releases is above that of one-sided ones, whose δ it would
    exceed.
    """
    one, two = ([Perturbed(12.0, 0.01, shape)] * 2 for shape in ("one-sided", "two-sided"))
    found = accountant.spent(TOTAL, [perturbed(12.0, 0.01)] * 2)
    assert delta_of(one, 0.0, found) <= DELTA * (1 + 1e-3)
    assert delta_of(two, 0.0, found) > 2 * DELTA


@pytest.mark.parametrize("shape", ["one-sided", "two-sided"])
def test_units_pay_for_every_rank(shape):
    """Two perturbed minima of units on one grid, with κ = k; log(1+k) in its place would exceed δ."""
    found = {
        name: accountant.spent(TOTAL, [perturbed(12.0, 0.5, name)] * 2)
        for name in (shape, f"{shape} of units")
    }
    releases = [Perturbed(12.0, 0.5, f"{shape} of units")] * 2
    assert delta_of(releases, 0.0, found[f"{shape} of units"]) <= DELTA * (1 + 1e-3)
    assert delta_of(releases, 0.0, found[shape]) > 10 * DELTA


@pytest.mark.parametrize("shape", ["one-sided", "two-sided"])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 6.0])
def test_a_fit_of_exactly_the_total_is_accepted(epsilon, shape, monkeypatch):
    monkeypatch.setattr(entries, "_NAMES", entries._NAMES | FileNames({"Perturbed": Perturbed}))
    safe = dp.ApproxDP(epsilon, DELTA).zcdp().rho
    rho, mu = 0.1 * safe, math.sqrt(0.2 * safe)

    def excess(scale):
        return math.log(Perturbed(scale, 0.01, shape).delta(epsilon, mu) / DELTA)

    scale = brentq(excess, 0.1, 1e3, xtol=1e-13, rtol=1e-14)
    for factor, accepted in ((1 + 1e-12, True), (1 - 1e-6, False)):
        ledger = dp.Ledger(dp.ApproxDP(epsilon, DELTA))
        entry = Entry("fit", "one record", (perturbed(scale * factor, 0.01, shape), gaussian(rho)))
        assert ledger.preview(entry).accepted == accepted
        if accepted:
            ledger.book(entry)
            assert ledger.entries()[0].events == entry.events
            assert ledger.spent() == pytest.approx(epsilon, rel=1e-9)
    most = brentq(
        lambda r: math.log(gaussian_profile(epsilon, math.sqrt(2 * r)) / DELTA),
        safe,
        8 * safe,
        xtol=1e-18,
        rtol=1e-14,
    )
    assert accountant.affordable(
        dp.ApproxDP(epsilon, DELTA), [gaussian(most * (1 - 1e-12) / 2)] * 2
    )
    assert not accountant.affordable(
        dp.ApproxDP(epsilon, DELTA), [gaussian(most * (1 + 1e-6) / 2)] * 2
    )


events = st.one_of(
    st.builds(gaussian, st.floats(1e-5, 1)),
    st.builds(pure, st.floats(1e-3, 3)),
    st.builds(opaque, st.floats(1e-5, 1)),
    st.builds(
        perturbed,
        st.sampled_from([1.5, 8.0, 40.0]),
        st.just(0.05),
        st.sampled_from(["one-sided", "two-sided"]),
    ),
)


@examples(15)
@given(st.lists(events, min_size=1, max_size=4), st.sampled_from([1e-3, 1e-9, 1e-14]))
def test_guarantee_derived_totals(releases, delta):
    """Sums in ε and ρ; in (ε, δ) never more than zCDP says, never less than any of the releases,
    whatever the kinds.
    """
    rho = math.fsum(r.share.zcdp().rho for r in releases)
    assert accountant.spent(dp.ZCDP(1.0), releases) == pytest.approx(rho, rel=1e-15)
    pures = [r for r in releases if isinstance(r.share, dp.PureDP)]
    added = math.fsum(r.share.epsilon for r in pures)
    assert accountant.spent(dp.PureDP(1.0), pures) == pytest.approx(added, rel=1e-15)
    if len(pures) < len(releases):
        with pytest.raises(dp.LedgerError, match="pure epsilon"):
            accountant.spent(dp.PureDP(1.0), releases)
    total = dp.ApproxDP(1.0, delta)
    whole = accountant.spent(total, releases)
    assert whole <= dp.ZCDP(rho).approx(delta).epsilon * (1 + 1e-14)
    for j in range(len(releases)):
        assert accountant.spent(total, releases[:j] + releases[j + 1 :]) <= whole * (1 + 1e-3)


def test_mutation_zcdp_alone_is_not_gaussian():
    """Counting a zCDP release as Gaussian would be too little for objective perturbation, whose
    loss has a shift.
    """
    release = perturbed(12.0, 1.0)
    taken_for_gaussian = accountant.spent(TOTAL, [gaussian(2 / 12.0**2)])
    assert release.objective.delta(taken_for_gaussian, 0.0) > 100 * DELTA
    assert accountant.spent(TOTAL, [opaque(0.01)]) == dp.ZCDP(0.01).approx(DELTA).epsilon


def test_releases_that_cost_next_to_nothing():
    """Where a Rényi order already gives ε = 0, nothing is composed."""
    release = PerturbedObjective(1e4, 1e-4, "logistic")
    event = PerturbedMinimum("estimate", dp.ZCDP(release.cost()), release)
    assert accountant.spent(dp.ApproxDP(1.0, 1e-3), [event, event]) == 0.0


def test_composed_losses_are_never_below_the_exact_ones():
    """Two objective releases whose curvature is all: each loss is at least log(1 + k), rounded up."""
    release = PerturbedObjective(50.0, 0.2, "one-sided")
    event = PerturbedMinimum("estimate", dp.ZCDP(release.cost()), release)
    delta = 1e-5
    epsilon = accountant.spent(dp.ApproxDP(9.0, delta), [event, event])
    mean, sd = 2 / 50.0**2, 2 / 50.0
    z = np.linspace(-9, 9, 20_001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    loss = (
        2 * np.log1p(0.2)
        + np.maximum(0, mean + sd * z)[:, None]
        + np.maximum(0, mean + sd * z[::40])[None]
    )
    outer = weights[::40] / weights[::40].sum()
    exact = weights @ np.maximum(0, -np.expm1(epsilon - loss)) @ outer
    assert 0.9 * delta < exact <= 1.001 * delta


@pytest.mark.parametrize("most", np.geomspace(0.2, 6, 12))
def test_divergences_are_looked_at_unless_they_are_clearly_too_large(most):
    """The way around is taken for some of these and not for others, and never changes an answer."""
    plan = dp.GeometryPlan(budget=TOTAL)
    for releases in (plan.releases().all, plan.releases().all[1:]):
        whole, asked = (
            accountant._renyi_epsilon(releases, DELTA, limit) for limit in (math.inf, most)
        )
        assert asked == whole or (math.isinf(asked) and whole > most)
    assert math.isinf(accountant._renyi_epsilon(plan.releases().all, DELTA, 0.2))
