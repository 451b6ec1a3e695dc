"""What levels and histograms cost, and where a ledger books them."""

import math

import numpy as np
import pytest
from scipy import stats

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.histograms import histogram
from dpinfer.mechanisms.privacy_cost import gaussian_delta
from dpinfer.mechanisms.sums import Block
from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import BRANCH, Count, renyi_orders
from dpinfer.privacy.entries import Entry, entry_of, entry_text
from dpinfer.privacy.release import NoisyCounts, NoisySum, ShownLevels, delta_of
from dpinfer.rows.source import Rows
from helpers.support import follows, gate_of, opaque

TOTAL = dp.ApproxDP(1.0, 1e-6)
LEVELS = ShownLevels("levels of a", dp.ZCDP(0.002), 3e-7, math.sqrt(2))
SUM = NoisySum("sum", dp.ZCDP(0.001), 1.0)


def entry(*events):
    return Entry("test", "one record", events)


def count(*entries, total=TOTAL):
    return Count(total, renyi_orders(total), entries)


def test_levels_cost_their_noise_and_their_delta():
    found, mu = accountant.spent(TOTAL, (LEVELS, SUM)), math.sqrt(2 * 0.003)
    assert gaussian_delta(found, mu) == pytest.approx(TOTAL.delta - 3e-7, rel=1e-6)
    assert (
        accountant.spent(TOTAL, (SUM,))
        < accountant.spent(TOTAL, (NoisySum("other", LEVELS.share, 1.0), SUM))
        < found
    )
    assert accountant.affordable(TOTAL, (LEVELS,) * 3)
    assert not accountant.affordable(TOTAL, (LEVELS,) * 4)  # all of delta and more
    assert accountant.spent(TOTAL, (LEVELS,) * 4) == math.inf
    assert delta_of((SUM, LEVELS, LEVELS)) == 6e-7


@pytest.mark.parametrize("total", [dp.PureDP(1.0), dp.ZCDP(1.0)])
def test_a_ledger_without_a_delta_refuses_levels(total):
    ledger = dp.Ledger(total)
    with pytest.raises(dp.LedgerError, match="levels take a delta"):
        ledger.book(entry(LEVELS))
    seen = ledger.preview(entry(LEVELS))
    assert not seen.accepted
    assert "levels take a delta" in seen.reason
    assert ledger.entries() == ()


def test_guarantee_levels_first():
    """What the first entry's levels take of δ is taken from every rule; later ones are refused,
    whatever is left.
    """
    rest = TOTAL.delta - 3e-7
    assert count((LEVELS, SUM), (SUM,))._filter.delta == pytest.approx((1 - BRANCH) * rest)
    assert count((LEVELS,), (opaque(dp.ZCDP(1e-3)),))._filter.delta == pytest.approx(BRANCH * rest)
    pure = NoisyCounts("counts", dp.PureDP(0.01), 2.0)
    assert count((LEVELS, pure), (SUM,))._filter.delta == pytest.approx(rest)
    assert (
        count((LEVELS, SUM), (SUM,)).spent()
        > count((NoisySum("x", LEVELS.share, 1.0), SUM), (SUM,)).spent()
    )
    assert count((LEVELS,), (SUM,)).paid()
    ledger = dp.Ledger(TOTAL)
    ledger.book(entry(LEVELS))
    ledger.book(entry(SUM))
    for other in (ledger, _with(entry(SUM))):
        before = other.entries()
        with pytest.raises(dp.LedgerError, match="levels come first"):
            other.book(entry(ShownLevels("levels of b", dp.ZCDP(1e-6), 1e-12, 1.0)))
        assert "levels come first" in other.preview(entry(LEVELS)).reason
        assert other.entries() == before
        other.book(entry(SUM))  # anything else goes on
    late = count((SUM,), (LEVELS,))
    assert (late.paid(), late.spent(), late.left()) == (False, math.inf, 0.0)
    over = count((ShownLevels("levels", dp.ZCDP(1e-6), 1e-5, 1.0),))
    assert (over.paid(), over.spent(), over.left()) == (False, math.inf, 0.0)
    assert not dp.Ledger(TOTAL).preview(entry(*over.entries[0])).accepted


def _with(first):
    ledger = dp.Ledger(TOTAL)
    ledger.book(first)
    return ledger


def test_levels_and_counts_are_stored_and_read(tmp_path):
    events = (LEVELS, NoisyCounts("magnitudes of b", dp.PureDP(0.01), 2.0), SUM)
    ledger = dp.Ledger.create(tmp_path / "ledger.db", TOTAL)
    ledger.book(entry(*events))
    again = dp.Ledger.open(tmp_path / "ledger.db")
    assert again.entries()[0].events == events
    assert again.spent() == ledger.spent() == pytest.approx(accountant.spent(TOTAL, events))
    text = entry_text(entry(LEVELS))
    for wrong in ("0.0", "-1e-07", "2", '"3e-07"', "null"):
        with pytest.raises(dp.LedgerError, match="cannot be read"):
            entry_of(1, text.replace("3e-07", wrong))
    with pytest.raises(dp.LedgerError, match="cannot be read"):
        entry_of(1, text.replace("ShownLevels", "HiddenLevels"))


# Histograms with Laplace noise

EDGES = np.arange(5.0)
ROWS = Rows(Block(np.ones((90, 1)), np.repeat([0.5, 1.5, 7.0], 30)))


@pytest.mark.parametrize("notion", [Adjacency.REPLACE, Adjacency.ADD_REMOVE])
def test_guarantee_laplace_counts(notion):
    """The exact density ratio of neighbouring histograms never exceeds ε, and comes within a
    thousandth of it.
    """
    rng = np.random.default_rng(0)
    counts = histogram(EDGES, notion)
    release = NoisyCounts("counts", dp.PureDP(0.7), counts.l1_bound)
    rate = release.noise(counts).rate
    other = Rows(Block(np.ones((90, 1)), np.append(np.repeat([0.5, 1.5, 7.0], 30)[:-1], -3.0)))
    if notion is Adjacency.ADD_REMOVE:
        other = Rows(Block(np.ones((89, 1)), np.repeat([0.5, 1.5, 7.0], 30)[:-1]))
    one, two = ROWS.total(counts.of_block), other.total(counts.of_block)
    draws = rng.laplace(0, 40, (4000, len(one))) + one
    ratios = rate * (np.abs(draws - two).sum(axis=1) - np.abs(draws - one).sum(axis=1))
    assert 0.999 * 0.7 < np.abs(ratios).max() <= 0.7
    if (
        notion is Adjacency.REPLACE
    ):  # mutation: scaled to the length of the change, as spherical noise is
        assert np.abs(ratios).max() * counts.l1_bound / counts.bound > 0.9


def test_counts_get_independent_laplace_noise():
    counts = histogram(EDGES, Adjacency.REPLACE)
    release = NoisyCounts("counts", dp.PureDP(0.5), counts.l1_bound)
    exact = ROWS.total(counts.of_block)
    drawn = np.array(
        [
            gate_of(seed, release).release(release, ROWS, counts).value - exact
            for seed in range(2500)
        ]
    )
    assert follows(drawn.ravel(), stats.laplace(scale=4.0))
    assert not follows(drawn.ravel(), stats.laplace(scale=4.6))
    assert (
        np.abs(np.corrcoef(np.abs(drawn).T) - np.eye(len(exact))).max() < 0.1
    )  # spherical noise shares its radius
    with pytest.raises(dp.BudgetError, match="pure share"):
        NoisyCounts("counts", dp.ZCDP(0.5), 2.0)
    gate = gate_of(0, release)
    with pytest.raises(dp.PrivacyError, match="booked as counts"):
        gate.release(release, ROWS, type("Sum", (), {"bound": 1.0})())
