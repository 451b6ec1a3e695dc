import math

import numpy as np
import pytest
from dp_accounting import dp_event

import dpinfer as dp
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.privacy.accountant import Count, renyi_orders
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import (
    LaplaceMinimum,
    NoisyCounts,
    NoisySum,
    PerturbedMinimum,
    ShownLevels,
)
from dpinfer.privacy.second_accountant import AccountantComparison, compare

TOTALS = [
    dp.ApproxDP(0.5, 1e-9),
    dp.ApproxDP(1.0, 1e-6),
    dp.ApproxDP(3.0, 1e-6),
    dp.ApproxDP(8.0, 1e-7),
    dp.ZCDP(0.1),
    dp.PureDP(1.0),
]


def entry(*releases, purpose="a fit"):
    return Entry(purpose=purpose, unit="one record", events=tuple(releases))


def compared(total, entries):
    count = Count(total, renyi_orders(total), tuple(one.events for one in entries))
    return compare(entries, count)


def a_ledger(rng, total, gaussian):
    """Up to four entries of up to three releases, within the total."""
    if isinstance(total, dp.PureDP):
        epsilon = total.epsilon / 12
        whole = None
    else:
        whole = total.rho if isinstance(total, dp.ZCDP) else total.zcdp().rho
        epsilon = math.sqrt(2 * whole / 12)

    def release(j):
        part = rng.uniform(0.05, 1)
        if whole is not None and (gaussian or rng.random() < 0.6):
            return NoisySum(f"step {j}", dp.ZCDP(whole / 12 * part), 1.0)
        kind = NoisySum if rng.random() < 0.5 else NoisyCounts
        return kind(f"step {j}", dp.PureDP(epsilon * part), 1.0)

    return [entry(*map(release, range(rng.integers(1, 4)))) for _ in range(rng.integers(1, 5))]


def test_ours_is_never_smaller_for_200_ledgers_and_close_where_all_noise_is_gaussian():
    rng = np.random.default_rng(44)
    gaussian = 0
    for k in range(200):
        total = TOTALS[k % len(TOTALS)]
        entries = a_ledger(rng, total, gaussian=k % 4 < 2)
        found = compared(total, entries)
        assert found.without_event == ()
        assert found.compared == sum(len(one.events) for one in entries)
        assert found.ok, (total, entries)
        # much stricter than `ok`: theirs is rounded up by so little
        assert found.theirs <= found.ours * (1 + 3e-5)
        if all(isinstance(release.share, dp.ZCDP) for one in entries for release in one.events):
            gaussian += 1
            assert found.ours <= 1.01 * found.theirs
    assert gaussian > 50


def test_a_ledger_that_counts_too_little_is_found(monkeypatch):
    entries = [entry(NoisySum("a sum", dp.ZCDP(0.01), 1.0))]
    assert compared(dp.ApproxDP(1.0, 1e-6), entries).ok
    right = Count.spent
    monkeypatch.setattr(Count, "spent", lambda count: 0.999 * right(count))
    assert not compared(dp.ApproxDP(1.0, 1e-6), entries).ok


def test_releases_without_an_event_are_named_and_not_compared():
    objective = PerturbedObjective(10.0, 0.1, "logistic")
    known = NoisySum("a sum", dp.ZCDP(0.01), 1.0)
    entries = [
        entry(ShownLevels("levels", dp.ZCDP(0.001), 1e-7, 1.0), known, purpose="learning levels"),
        entry(
            PerturbedMinimum("estimate", dp.ZCDP(0.05), objective),
            LaplaceMinimum("pure estimate", dp.PureDP(0.1), rate=0.01, k=1.0),
            purpose="logistic",
        ),
        entry(LaplaceMinimum("zcdp estimate", dp.ZCDP(0.1), rate=0.01, k=1.0), purpose="svm"),
    ]
    found = compared(dp.ApproxDP(3.0, 1e-6), entries)
    named = ("learning levels: levels", "logistic: estimate", "svm: zcdp estimate")
    assert found.without_event == named
    assert found.compared == 2
    assert found.delta == pytest.approx(9e-7)
    assert found.ok
    assert "for 2 releases" in found.sentence()
    nothing = compared(dp.ApproxDP(3.0, 1e-6), entries[2:])
    assert nothing == AccountantComparison(0.0, 0.0, 1e-6, 0, ("svm: zcdp estimate",))
    assert nothing.ok
    assert nothing.sentence() == "no release has an event of dp_accounting: nothing was compared"


def test_levels_may_not_take_all_of_delta():
    levels = ShownLevels("levels", dp.ZCDP(0.001), 1e-6, 1.0)
    with pytest.raises(dp.LedgerError, match="levels take all of δ"):
        compared(dp.ApproxDP(3.0, 1e-6), [entry(levels)])


def test_the_events_of_a_ledger_are_a_tree_with_one_branch_per_entry():
    ledger = dp.Ledger(dp.ApproxDP(3.0, 1e-6))
    ledger.book(entry(NoisySum("a", dp.ZCDP(0.02), 1.0), NoisySum("b", dp.PureDP(0.1), 1.0)))
    ledger.book(entry(NoisySum("c", dp.ZCDP(0.005), 1.0)))
    gaussian, pure = ledger.to_dp_event().events[0].events
    assert gaussian == dp_event.GaussianDpEvent(5.0)
    # the chance of the true answer over that of the other one is e^ε
    other = pure.noise_parameter / 2
    assert math.log((1 - other) / other) == pytest.approx(0.1)
    assert ledger.to_dp_event().events[1].events == [dp_event.GaussianDpEvent(10.0)]
    assert ledger.second_accountant().compared == 3
