"""What is admitted is paid for in real numbers: sums by exact decimals, (ε, δ) by balls of 300 bits."""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import arb, fmpq

import dpinfer as dp
from dpinfer.mechanisms.privacy_cost import ORDERS, epsilon_at, epsilon_from_zcdp
from dpinfer.numerics.arrays import boundary
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Count, renyi_orders
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import NoisySum

TOTALS = [
    dp.ApproxDP(*numbers)
    for numbers in ((0.1, 1e-9), (0.3, 1e-6), (1.0, 1e-6), (3.0, 1e-6), (8.0, 1e-5), (30.0, 1e-12))
]


@pytest.fixture(autouse=True)
def balls():
    kept = flint.ctx.prec
    flint.ctx.prec = 300
    yield
    flint.ctx.prec = kept


def real(number):
    """A float as the decimal that a ledger stores."""
    fraction = Fraction(Decimal(repr(number)))
    return arb(fmpq(fraction.numerator, fraction.denominator))


def release(share):
    return NoisySum("sum", share, 1.0)


def gaussian_delta(epsilon, rho):
    mu, root = (2 * rho).sqrt(), arb(2).sqrt()
    first = ((epsilon / mu - mu / 2) / root).erfc()
    return (first - epsilon.exp() * ((epsilon / mu + mu / 2) / root).erfc()) / 2


def last_paid(total, entries, factor=1.0):
    """The entries with the last share as large as the total pays for."""

    def together(rho):
        shares = [*entries, rho]
        releases = tuple((release(dp.ZCDP(one)),) for one in shares)
        return Count(total, renyi_orders(total), releases)

    start = total.zcdp().rho * 1e-6
    rho = boundary(lambda one: together(one).paid(), start, 1e3 * start * 1e6, 1e-16)[0]
    assert not together(rho * (1 + 1e-9)).paid()  # and nothing is wasted
    return together(rho * factor), [*entries, rho * factor]


@pytest.mark.parametrize("total", TOTALS, ids=str)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_guarantee_rounded_outward(total, before):
    """The largest share that is paid for never spends more than δ: neither alone nor after others.

    With the tolerances of earlier versions δ was exceeded by up to 1.4 parts in ten million.
    """
    entries = [total.zcdp().rho / 7 * (1 + k / 10) for k in range(before)]
    found, shares = last_paid(total, entries)
    rho = sum(map(real, shares), arb(0))
    part = real(total.delta) * (1 if before == 0 else arb(fmpq(9, 10)))
    spent = gaussian_delta(real(total.epsilon), rho)
    assert spent <= part
    assert spent > part * real(1 - 1e-7)
    assert found.spent() <= total.epsilon


@pytest.mark.parametrize("total", TOTALS, ids=str)
def test_the_filter_of_an_order_is_rounded_outward(total):
    """A pure release after Gaussian ones is judged at one order, with a tenth of δ."""
    first = total.zcdp().rho / 50
    order = renyi_orders(total)[1]

    def together(rho):
        entries = ((release(dp.ZCDP(first)),), (release(dp.PureDP(1e-4)), release(dp.ZCDP(rho))))
        return Count(total, renyi_orders(total), entries)

    rho = boundary(lambda one: together(one).paid(), first * 1e-3, total.zcdp().rho * 4, 1e-16)[0]
    alpha = arb(order)
    divergence = alpha * (real(first) + real(rho))  # less than with the pure release
    beyond = alpha - 1
    delta = real(total.delta) / 10
    epsilon = divergence - (1 + 1 / beyond).log() - (delta.log() + (1 + beyond).log()) / beyond
    assert epsilon <= real(total.epsilon)


def test_guarantee_renyi_conversion():
    """Never below the ε of real numbers, and above by next to nothing."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        delta = float(10 ** rng.uniform(-15, -1))
        rho = float(10 ** rng.uniform(-8, 3))
        beyond = float(rng.choice(ORDERS))
        exact = (
            arb(rho) * (1 + arb(beyond))
            - (1 + 1 / arb(beyond)).log()
            - (arb(delta).log() + (1 + arb(beyond)).log()) / arb(beyond)
        )
        stated = float(epsilon_at(np.array(beyond), np.array(rho * (1 + beyond)), delta))
        assert not exact > arb(stated)
        assert not exact + (1e-12 * (abs(exact) + 1 / arb(beyond) + 50)) < arb(stated)
        found = epsilon_from_zcdp(rho, delta)
        # no order gives less: the smallest ε over a grid of orders in real numbers
        smallest = min(float(epsilon_at(ORDERS, rho * (1 + ORDERS), delta).min()), found * 2)
        assert found <= smallest * (1 + 1e-9) or found == 1e-12


@pytest.mark.parametrize("kind", [dp.PureDP, dp.ZCDP])
def test_what_adds_up_in_decimals_is_paid_and_nothing_more(kind):
    """Ten tenths are one, though ten floats 0.1 are more; 0.1 and a trillionth is too much."""
    ledger = dp.Ledger(kind(0.3))
    for _ in range(3):
        ledger.book(Entry("a tenth", "one record", (release(kind(0.1)),)))
    assert ledger.spent() == 0.3
    assert ledger.left() == 0.0
    ledger = dp.Ledger(kind(1.0))
    ledger.book(Entry("most", "one record", (release(kind(0.9)),)))
    assert ledger.left() == 0.1
    more = Entry("too much", "one record", (release(kind(0.1 * (1 + 1e-15))),))
    assert not ledger.preview(more).accepted
    with pytest.raises(dp.LedgerError, match="= 1: lower its budget"):
        ledger.book(more)
    ledger.book(Entry("a tenth", "one record", (release(kind(0.1)),)))
    assert ledger.left() == 0.0


def test_shares_never_add_up_to_more_than_they_were_split_from():
    rng = np.random.default_rng(7)
    for _ in range(300):
        amount = float(10 ** rng.uniform(-4, 3))
        weights = rng.uniform(0.01, 5, rng.integers(1, 9)).tolist()
        shares = [share.rho for share in dp.ZCDP(amount).split(*weights)]
        together = sum(Fraction(Decimal(repr(share))) for share in shares)
        assert together <= Fraction(Decimal(repr(amount)))
        assert math.fsum(shares) == pytest.approx(amount, rel=1e-14)


@pytest.mark.parametrize("total", TOTALS, ids=str)
def test_a_fit_of_exactly_the_total_is_still_paid_for(total):
    """The plan of a fit and the ledger judge by one rule, so that no tolerance is needed."""
    ledger = dp.Ledger(total)
    schema = dp.datasets.rand_hie().schema
    model = dp.LogisticRegression("visit ~ lncoins + health", schema=schema, budget=total)
    entry = replace(model.entry(20_190), unit="one record")
    ledger.book(entry)
    rho = sum((real(event.share.rho) for event in entry.events), arb(0))
    assert gaussian_delta(real(total.epsilon), rho) <= real(total.delta)
    assert ledger.spent() == pytest.approx(total.epsilon, rel=1e-8)
    assert accountant.affordable(total, entry.events)
