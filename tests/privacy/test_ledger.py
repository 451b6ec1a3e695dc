import copy
import pickle
import threading
import time

import pytest
from sklearn.base import clone

import dpinfer as dp
from dpinfer.privacy.ledger import Entry, Event
from support import labelled


def entry(*shares):
    return Entry("test", "one record", tuple(Event(f"step {j}", "test", s) for j, s in enumerate(shares)))


def test_it_counts_in_the_terms_of_its_total():
    ledger = dp.Ledger(dp.PureDP(1.0))
    ledger.book(entry(dp.PureDP(0.25), dp.PureDP(0.25)))
    assert ledger.spent() == 0.5
    assert ledger.left() == 0.5
    ledger = dp.Ledger(dp.ZCDP(1.0))
    ledger.book(entry(dp.PureDP(0.5), dp.ZCDP(0.125)))
    assert ledger.spent() == pytest.approx(0.25)
    assert dp.Ledger(dp.ApproxDP(1.0, 1e-6)).left() == pytest.approx(dp.ApproxDP(1.0, 1e-6).zcdp().rho)


def test_guarantee_never_overspent(monkeypatch):
    amount = dp.Ledger._amount

    def slowly(self, entries):  # so that without a lock the threads would overtake each other
        found = amount(self, entries)
        time.sleep(1e-4)
        return found

    monkeypatch.setattr(dp.Ledger, "_amount", slowly)
    ledger = dp.Ledger(dp.ZCDP(1.0))
    refused = []

    def spend():
        for _ in range(50):
            try:
                ledger.book(entry(dp.ZCDP(0.01)))
            except dp.LedgerError as refusal:
                refused.append(refusal)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries()) == 100
    assert len(refused) == 100
    assert ledger.left() == pytest.approx(0, abs=1e-12)


def test_a_refusal_changes_nothing_and_says_what_is_left():
    ledger = dp.Ledger(dp.PureDP(1.0))
    ledger.book(entry(dp.PureDP(0.75)))
    with pytest.raises(dp.LedgerError, match=r"epsilon = 0\.25 left of 1"):
        ledger.book(entry(dp.PureDP(0.5)))
    assert ledger.spent() == 0.75


def test_what_it_cannot_count():
    with pytest.raises(dp.LedgerError, match="use a ZCDP or ApproxDP total"):
        dp.Ledger(dp.PureDP(1.0)).book(entry(dp.ZCDP(0.1)))
    with pytest.raises(dp.LedgerError, match="without privacy"):
        dp.Ledger(dp.ZCDP(1.0)).book(entry(dp.NoPrivacy()))
    for total in (dp.NoPrivacy(), 1.0):
        with pytest.raises(dp.LedgerError, match="keeps a privacy budget"):
            dp.Ledger(total)


def test_there_is_no_second_copy():
    ledger = dp.Ledger(dp.ZCDP(1.0))
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy(ledger) is ledger
    assert clone(dp.LogisticRegression(ledger=ledger)).ledger is ledger
    with pytest.raises(dp.LedgerError, match="another process"):
        pickle.dumps(ledger)


def test_a_fit_is_booked_whole():
    X, y = labelled(200, 2)
    ledger = dp.Ledger(dp.ZCDP(1.0))
    result = dp.infer(X, y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.4), ledger=ledger)
    assert ledger.spent() == pytest.approx(0.4)
    assert [event.step for event in ledger.entries()[0].events] == ["estimate", "matrices"]
    assert result.privacy.booked
    assert ledger.entries()[0].unit == "one record"
    with pytest.raises(dp.LedgerError):
        dp.infer(X, y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.7), ledger=ledger)
    with pytest.raises(dp.LedgerError, match="takes a dpinfer Ledger"):
        dp.infer(X, y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.1), ledger="book.db")
