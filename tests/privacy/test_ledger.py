import copy
import math
import pickle
import threading
import time
import uuid
from datetime import datetime, timedelta

import pytest
from sklearn.base import clone

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.privacy import accountant, entries
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import LaplaceMinimum, NoisySum, PerturbedMinimum
from helpers.forking import in_a_child
from helpers.support import labelled, opaque

X, Y = labelled(200, 2)


def entry(*shares, **fields):
    events = tuple(opaque(share, f"step {j}") for j, share in enumerate(shares))
    return Entry(**{"purpose": "test", "unit": "one record", "events": events, **fields})


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """A new ledger of either sort."""
    if request.param == "memory":
        return dp.Ledger
    return lambda total, **declared: dp.Ledger.create(
        tmp_path / f"{uuid.uuid4().hex}.db", total, **declared
    )


def test_it_counts_in_the_terms_of_its_total(make):
    ledger = make(dp.PureDP(1.0))
    ledger.book(entry(dp.PureDP(0.25), dp.PureDP(0.25)))
    assert ledger.spent() == 0.5
    assert ledger.left() == 0.5
    ledger = make(dp.ZCDP(1.0))
    ledger.book(entry(dp.PureDP(0.5), dp.ZCDP(0.125)))
    assert ledger.spent() == pytest.approx(0.25)
    ledger = make(dp.ApproxDP(1.0, 1e-6))
    assert (ledger.spent(), ledger.left()) == (0.0, 1.0)
    ledger.book(entry(dp.ZCDP(0.01)))
    assert ledger.spent() == pytest.approx(dp.ZCDP(0.01).approx(1e-6).epsilon)
    assert ledger.left() == pytest.approx(1 - ledger.spent())


def test_guarantee_never_overspent(make, monkeypatch):
    paid = accountant.Count.paid

    def slowly(count):  # so that without a lock the threads would overtake each other
        found = paid(count)
        time.sleep(1e-4)
        return found

    monkeypatch.setattr(accountant.Count, "paid", slowly)
    ledger = make(dp.ZCDP(1.0))
    refused = []

    def spend():
        for _ in range(10):
            try:
                ledger.book(entry(dp.ZCDP(0.05)))
            except dp.LedgerError as refusal:
                refused.append(refusal)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.entries()) == 20
    assert len(refused) == 20
    assert ledger.left() == pytest.approx(0, abs=1e-12)


def test_a_refusal_changes_nothing_and_says_what_is_left(make):
    ledger = make(dp.PureDP(1.0))
    ledger.book(entry(dp.PureDP(0.75)))
    before = ledger.verify()
    with pytest.raises(dp.LedgerError, match=r"epsilon = 0\.25 left of 1, and this fit needs 0\.5"):
        ledger.book(entry(dp.PureDP(0.5)))
    assert ledger.spent() == 0.75
    assert ledger.verify() == before
    ledger = make(dp.ApproxDP(0.5, 1e-6))
    with pytest.raises(
        dp.LedgerError,
        match=r"epsilon = 0\.5 left of 0\.5 at delta = 1e-06 for a next fit, and this fit needs 7",
    ):
        ledger.book(entry(dp.ZCDP(1.0)))


def test_what_it_cannot_count(make):
    with pytest.raises(dp.LedgerError, match="use a ZCDP or ApproxDP total"):
        make(dp.PureDP(1.0)).book(entry(dp.ZCDP(0.1)))
    for nothing in (entry(dp.NoPrivacy()), entry()):
        with pytest.raises(dp.LedgerError, match="without privacy"):
            make(dp.ZCDP(1.0)).book(nothing)
    with pytest.raises(dp.BudgetError, match="as a whole or not at all"):
        make(dp.ZCDP(1.0)).book(entry(dp.NoPrivacy(), dp.ZCDP(0.1)))
    for unknown in (object(), dp.Logistic()):
        odd = entry(dp.ZCDP(0.1), events=(PerturbedMinimum("estimate", dp.ZCDP(0.1), unknown),))
        with pytest.raises(dp.LedgerError, match="cannot store"):
            make(dp.ZCDP(1.0)).book(odd)
    for total in (dp.NoPrivacy(), 1.0):
        with pytest.raises(dp.LedgerError, match="keeps a privacy budget"):
            make(total)
    with pytest.raises(dp.LedgerError, match="are texts"):
        make(dp.ZCDP(1.0), unit=3)


def test_what_is_written_comes_back(make):
    ledger = make(dp.ZCDP(1.0), unit="one person", title="Claims of 2024")
    assert (ledger.total, ledger.unit, ledger.title) == (
        dp.ZCDP(1.0),
        "one person",
        "Claims of 2024",
    )
    events = (
        LaplaceMinimum("estimate", dp.PureDP(1 / 3), 0.1, 0.02),
        NoisySum("matrices", dp.ZCDP(0.1), 1.0),
    )
    given = [
        Entry("main model", "one person", events, schema="c0ffee"),
        Entry('naïve ‘x’ \n"', "one person", events),
    ]
    ids = [ledger.book(each) for each in given]
    for booked, each, name in zip(ledger.entries(), given, ids, strict=True):
        assert booked.release == name == uuid.UUID(name, version=4).hex
        assert datetime.fromisoformat(booked.time).utcoffset() == timedelta(0)
        assert (
            Entry(booked.purpose, booked.unit, booked.events, booked.neighbours, booked.schema)
            == each
        )
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("name", "words"), [("unit", "one person"), ("neighbours", Adjacency.ADD_REMOVE)]
)
def test_costs_of_different_promises_do_not_add_up(make, name, words):
    ledger = make(dp.ZCDP(1.0))
    with pytest.raises(dp.LedgerError, match=f"made with {name}='{words}'"):
        ledger.book(entry(dp.ZCDP(0.1), **{name: words}))
    assert ledger.entries() == ()
    make(dp.ZCDP(1.0), **{name: words}).book(entry(dp.ZCDP(0.1), **{name: words}))


def test_a_preview_tells_and_does_nothing(make):
    ledger = make(dp.ZCDP(1.0))
    ledger.book(entry(dp.ZCDP(0.25)))
    before = ledger.verify()
    fine = ledger.preview(entry(dp.ZCDP(0.5)))
    assert (fine.spent, fine.left, fine.accepted, fine.reason) == (0.75, 0.25, True, "")
    much = ledger.preview(entry(dp.ZCDP(1.5)))
    assert (much.spent, much.left, much.accepted) == (1.75, 0.0, False)
    assert "rho = 0.75 left of 1" in much.reason
    for wrong, reason in [
        (entry(dp.ZCDP(0.1), unit="one person"), "unit"),
        (entry(dp.NoPrivacy()), "without privacy"),
        (entry(dp.NoPrivacy(), dp.ZCDP(0.1)), "as a whole"),
    ]:
        refused = ledger.preview(wrong)
        assert not refused.accepted
        assert reason in refused.reason
    assert "pure epsilon" in make(dp.PureDP(1.0)).preview(entry(dp.ZCDP(0.1))).reason
    assert ledger.verify() == before


def test_there_is_no_second_copy(make):
    ledger = make(dp.ZCDP(1.0))
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy(ledger) is ledger
    assert clone(dp.LogisticRegression(ledger=ledger)).ledger is ledger


def test_another_process_needs_a_file(tmp_path):
    ledger = dp.Ledger(dp.ZCDP(1.0))
    with pytest.raises(dp.LedgerError, match="another process"):
        pickle.dumps(ledger)

    def spend_in_a_fork():
        with pytest.raises(dp.LedgerError, match="belongs to the process that made it"):
            ledger.book(entry(dp.ZCDP(0.1)))

    assert in_a_child(spend_in_a_fork)
    ledger = dp.Ledger.create(tmp_path / "book.db", dp.ZCDP(1.0))
    sent = pickle.loads(pickle.dumps(ledger))
    sent.book(entry(dp.ZCDP(0.25)))
    assert in_a_child(lambda: ledger.book(entry(dp.ZCDP(0.25))))
    assert ledger.spent() == sent.spent() == 0.5


def test_a_fit_is_booked_whole(make):
    ledger = make(dp.ZCDP(1.0))
    result = dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.4), ledger=ledger)
    assert ledger.spent() == pytest.approx(0.4)
    (booked,) = ledger.entries()
    assert booked.events == result.privacy.events
    assert [event.step for event in booked.events] == ["estimate", "matrices"]
    assert result.privacy.in_ledger
    assert booked.unit == "one record"
    with pytest.raises(dp.LedgerError):
        dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.7), ledger=ledger)
    with pytest.raises(dp.LedgerError, match="takes a dpinfer Ledger"):
        dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, budget=dp.ZCDP(0.1), ledger="book.db")


@pytest.mark.parametrize(
    "budget", [dp.PureDP(1.0), dp.ZCDP(0.1875), dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(8.0, 1e-9)]
)
def test_a_total_pays_for_a_fit_of_its_own_size_once(budget):
    ledger = dp.Ledger(budget)
    dp.infer(X, Y, loss=dp.HuberHinge(1.0), penalty=0.5, budget=budget, ledger=ledger)
    with pytest.raises(dp.LedgerError, match="left of"):
        dp.infer(X, Y, loss=dp.HuberHinge(1.0), penalty=0.5, budget=budget, ledger=ledger)


def test_guarantee_stated_costs(make):
    """A release that costs more than it states is not booked, and not read if it got into the
    chain.
    """
    objective = PerturbedObjective(10.0, 0.05, "logistic")
    rho, mask = objective.cost(), 0.01
    honest = [
        PerturbedMinimum("estimate", dp.ZCDP(rho), objective),
        PerturbedMinimum("estimate", dp.ZCDP(rho + mask**2 / 2), objective, mask),
        LaplaceMinimum("estimate", dp.PureDP(0.5), 0.25, 0.0625, sharp=True),
        LaplaceMinimum("estimate", dp.ZCDP(0.125), 0.24 - math.log1p(0.2) / 2, 0.2, 0.02),
    ]
    false = [
        PerturbedMinimum("estimate", dp.ZCDP(rho * (1 - 1e-6)), objective),
        PerturbedMinimum("estimate", dp.ZCDP(rho), objective, mask),
        PerturbedMinimum("estimate", dp.ZCDP(1e-9), PerturbedObjective(1e3, 1e-13, "logistic")),
        LaplaceMinimum("estimate", dp.PureDP(0.5), 0.2501, 0.0625, sharp=True),
        LaplaceMinimum("estimate", dp.PureDP(0.5), 0.25, 0.0625),  # the curvature costs
        LaplaceMinimum(
            "estimate", dp.PureDP(0.5), 0.25, 0.0626, sharp=True
        ),  # too much of it to be free
        LaplaceMinimum("estimate", dp.ZCDP(0.125), 0.2401 - math.log1p(0.2) / 2, 0.2, 0.02),
    ]
    for total in (dp.ZCDP(5.0), dp.ApproxDP(5.0, 1e-6)):
        ledger = make(total)
        for release in honest:
            ledger.book(entry(events=(release,)))
        for release in false:
            assert "costs more than it states" in ledger.preview(entry(events=(release,))).reason
            with pytest.raises(
                dp.LedgerError, match="'estimate' costs more than it states: make its release"
            ):
                ledger.book(entry(events=(release,)))
        assert len(ledger.entries()) == len(honest)
    text = entries.entry_text(entry(events=(honest[2],))).replace("0.25", "0.26")
    ledger._store.append(lambda rows: text)
    for use in (ledger.entries, ledger.spent, lambda: ledger.book(entry(dp.ZCDP(0.01)))):
        with pytest.raises(
            dp.LedgerError, match="entry 5 of the ledger is broken, its step 'estimate' costs more"
        ):
            use()
    assert "costs more" in ledger.verify().fault


def test_what_is_no_promise(make):
    for delta in (0.1, 0.5):
        with pytest.raises(dp.BudgetError, match=r"must be below 0\.1"):
            make(dp.ApproxDP(1.0, delta))
        with pytest.raises(dp.BudgetError, match=r"must be below 0\.1"):
            dp.infer(X, Y, loss=dp.Logistic(), budget=dp.ApproxDP(1.0, delta))
    make(dp.ApproxDP(1.0, 0.09))


def test_a_delta_that_lets_a_record_through_is_named():
    weak, fine = dp.ApproxDP(1.0, 1 / 200), dp.ApproxDP(1.0, 1 / 201)
    for budget, named in ((weak, True), (fine, False), (dp.ZCDP(0.1), False)):
        result = dp.infer(X, Y, loss=dp.Logistic(), budget=budget)
        assert ("is not below 1/n" in " ".join(result.privacy.caveats(result.model.n))) == named
        assert ("is not below 1/n" in " ".join(result.summary().split())) == named
        assert "1/n" not in " ".join(result.privacy.caveats())  # where n is private


def test_guarantee_allowance_kept(make):
    """120 requests of 30 askers, each sent three times by 30 threads, for 2.4 times the total."""
    ledger = make(dp.ZCDP(1.0))
    asked = [(f"analyst {k % 30}", f"request {k}") for k in range(120)] * 3
    waiting = iter(asked)
    take = threading.Lock()
    refusals = []

    def work():
        while True:
            with take:
                by, request = next(waiting, ("", ""))
            if not request:
                return
            try:
                ledger.book(entry(dp.ZCDP(0.02), by=by, request=request), within=dp.ZCDP(0.06))
            except dp.LedgerError as refusal:
                refusals.append(str(refusal))

    threads = [threading.Thread(target=work) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    booked = ledger.entries()
    assert len(booked) == 50
    assert len(refusals) == 310
    assert ledger.spent() == pytest.approx(1.0, rel=1e-12)
    assert len({one.request for one in booked}) == 50
    spent = [ledger.added_up(one for one in booked if one.by == f"analyst {k}") for k in range(30)]
    assert max(spent) <= 0.06 * (1 + 1e-12)
    for words in ("booked before", "left of 1, and this fit needs"):
        assert any(words in refusal for refusal in refusals)


@pytest.mark.parametrize(
    ("total", "share", "allowance"),
    [
        (dp.PureDP(1.0), dp.PureDP(0.1), dp.PureDP(0.2)),
        (dp.ZCDP(1.0), dp.PureDP(0.2), dp.ZCDP(0.04)),  # a pure release counts ε²/2
        (dp.ApproxDP(2.0, 1e-6), dp.ZCDP(0.01), dp.ZCDP(0.02)),
    ],
)
def test_allowances_are_added_up_in_the_terms_of_the_total(make, total, share, allowance):
    ledger = make(total)
    for request in "ab":
        ledger.book(entry(share, by="meier", request=request), within=allowance)
    third = entry(share, by="meier", request="c")
    preview = ledger.preview(third, within=allowance)
    assert not preview.accepted
    with pytest.raises(dp.LedgerError, match=r"allowance of 'meier' has .* = 0 left of") as refusal:
        ledger.book(third, within=allowance)
    assert str(refusal.value) == preview.reason
    ledger.book(entry(share, by="huber", request="c"), within=allowance)
    ledger.book(third.__class__(**{**vars(third), "request": "d"}))  # the holder sets no bound
    assert [(one.by, one.request) for one in ledger.entries()] == [
        ("meier", "a"), ("meier", "b"), ("huber", "c"), ("meier", "d"),
    ]  # fmt: skip


def test_a_request_is_booked_once(make):
    ledger = make(dp.ZCDP(1.0))
    ledger.book(entry(dp.ZCDP(0.1), request="a"))
    with pytest.raises(dp.LedgerError, match="booked before and is not booked twice"):
        ledger.book(entry(dp.ZCDP(0.1), by="other", request="a"))
    for _ in range(2):
        ledger.book(entry(dp.ZCDP(0.1)))  # no request, nothing to repeat
    assert len(ledger.entries()) == 3


def test_an_allowance_is_of_the_kind_of_the_total(make):
    with pytest.raises(dp.LedgerError, match="counted in rho: give it as ZCDP"):
        make(dp.ApproxDP(1.0, 1e-6)).book(entry(dp.ZCDP(0.1)), within=dp.PureDP(1.0))
    with pytest.raises(dp.LedgerError, match="counted in epsilon: give it as PureDP"):
        make(dp.PureDP(1.0)).book(entry(dp.PureDP(0.1)), within=dp.ZCDP(1.0))
