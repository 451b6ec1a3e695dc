import copy
import math
import pickle
import threading
import time
import uuid
from datetime import datetime, timedelta

import dp_accounting
import pytest
from dp_accounting import rdp
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
    with pytest.raises(
        dp.LedgerError,
        match=r"this costs ε = 0\.5, .* may cost up to ε = 0\.25 of the total, ε = 1:",
    ):
        ledger.book(entry(dp.PureDP(0.5)))
    assert ledger.spent() == 0.75
    assert ledger.verify() == before
    ledger = make(dp.ApproxDP(0.5, 1e-6))
    with pytest.raises(
        dp.LedgerError,
        match=r"this costs ε = 7.* may cost up to ε = 0\.5 of the total, ε = 0\.5, δ = 10⁻⁶:",
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
    assert "up to ρ = 0.75 of the total, ρ = 1:" in much.reason
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
    with pytest.raises(dp.LedgerError, match="may cost up to"):
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
    for words in ("booked before", "may cost up to ρ = 0 of the total"):
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
    with pytest.raises(
        dp.LedgerError, match=r"allowance of 'meier', .* of the total, has 0 % left"
    ) as refusal:
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


def noisy(share, **fields):
    return entry(**{"events": (NoisySum("sum", share, 1.0),), **fields})


def test_an_entry_keeps_the_budget_as_it_was_asked(tmp_path):
    """In the file too, and in every form of the ledger."""
    data = dp.datasets.rand_hie()
    ledger = dp.Ledger.create(tmp_path / "l.db", dp.ApproxDP(3.0, 1e-6), unit="one person-year")
    for budget in (dp.ApproxDP(0.5, 1e-6), dp.ZCDP(0.01), dp.PureDP(0.05)):
        target = "penalised" if isinstance(budget, dp.PureDP) else "ordinary"
        model = dp.LogisticRegression(
            "visit ~ lncoins", schema=data.schema, budget=budget, target=target
        )
        ledger.book(model.entry(20_190))
    dp.describe(data.table, data.schema, dp.ApproxDP(0.2, 1e-7), columns=["mdvis"], ledger=ledger)
    again = dp.Ledger.open(ledger.path)
    asked = [one.asked for one in again.entries()]
    amounts = [one.amount for one in asked]
    assert amounts == ["ε = 0.5, δ = 10⁻⁶", "ρ = 0.01", "ε = 0.05", "ε = 0.2, δ = 10⁻⁷"]
    frame = again.to_frame()
    assert frame["epsilon"].fillna(0).tolist() == pytest.approx([0.5, 0, 0.05, 0.2], rel=1e-12)
    assert frame["delta"].fillna(-1).tolist() == [1e-6, -1, 0, 1e-7]
    assert frame["rho"].fillna(0).tolist() == [0, 0.01, 0, 0]
    assert frame["share"].cumsum().tolist() == pytest.approx(frame["used"].tolist())
    amount = again.added_up(again.entries())
    assert frame["used"].iloc[-1] == pytest.approx(amount / again.shares.full_amount)
    assert frame["release"].tolist() == [one.release for one in again.entries()]
    assert frame["rule"].tolist() == list(again.rules())
    assert dp.Ledger(dp.ZCDP(1.0)).to_frame().columns.tolist() == frame.columns.tolist()


def test_an_entry_without_its_budget_has_the_epsilon_of_its_releases():
    """As entries of ledgers that were written before the budget was kept."""
    ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6))
    amount = ledger.shares.read("ε = 1")
    ledger.book(noisy(dp.ZCDP(amount)))
    (booked,) = ledger.entries()
    assert booked.asked is None
    assert ledger.shares.asked_of(booked) == "ε = 1"
    assert ledger.to_frame()["epsilon"].tolist() == pytest.approx([1.0])


def test_a_ledger_says_what_it_is(tmp_path):
    ledger = dp.Ledger.create(tmp_path / "l.db", dp.ApproxDP(2.0, 1e-6))
    nothing = "0 % of the total is used. The next question may cost up to"
    place = tmp_path / "l.db"
    assert repr(ledger) == f"<Ledger {place}, ε = 2, δ = 10⁻⁶, 0 entries: {nothing} ε = 2.>"
    ledger.book(noisy(dp.ZCDP(ledger.shares.read("25 %"))))
    assert f", 1 entry: {ledger.statement()}>" in repr(ledger)
    assert ledger.statement().startswith("25 % of the total is used. The next question may cost")
    assert (
        repr(dp.Ledger(dp.PureDP(1.0))) == f"<Ledger in memory, ε = 1, 0 entries: {nothing} ε = 1.>"
    )
    ledger.path.unlink()
    assert "it cannot be read" in repr(ledger)


def test_an_event_of_dp_accounting_costs_no_more_than_the_ledger_says():
    ledger = dp.Ledger(dp.ApproxDP(3.0, 1e-6))
    for share in (dp.ZCDP(0.01), dp.ZCDP(0.02), dp.PureDP(0.1)):
        ledger.book(noisy(share))
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    found = rdp.RdpAccountant(neighboring_relation=relation).compose(ledger.to_dp_event())
    orders = found.get_epsilon(1e-6)
    assert 0.9 < orders <= ledger.spent() * 1.001
    assert len(ledger.to_dp_event().events) == 3


def test_a_larger_delta_than_the_totals_is_refused_unless_confirmed(tmp_path):
    """A typing error of δ = .01 would have cost most of the ledger."""
    path = dp.Ledger.create(tmp_path / "l.db", dp.ApproxDP(3.0, 1e-6)).path
    data = dp.datasets.rand_hie()
    wrong = dp.ApproxDP(1.0, 1e-2)
    careful = dp.Ledger.open(path)
    with pytest.raises(
        dp.LedgerError, match=r"δ = 0\.01 is larger than .*, 10⁻⁶, .* 63\.2 %"
    ) as no:
        dp.infer(X, Y, loss=dp.Logistic(), penalty=0.01, budget=wrong, ledger=careful)
    for remedy in (
        "nothing was booked",
        "Lower δ",
        "--allow-larger-delta",
        "allow_larger_delta=True",
    ):
        assert remedy in str(no.value)
    for call in (
        lambda: dp.describe(data.table, data.schema, wrong, columns=["mdvis"], ledger=careful),
        lambda: dp.learn_bounds(data.table[["mdvis"]], budget=wrong, ledger=careful),
    ):
        with pytest.raises(dp.LedgerError):
            call()
    booked = noisy(dp.ZCDP(0.1), asked=wrong)
    assert "larger" in careful.preview(booked).reason
    for fine in (dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(1.0, 1e-7), dp.ZCDP(0.1), dp.PureDP(0.1)):
        assert careful.preview(noisy(dp.ZCDP(0.001), asked=fine)).accepted
    assert careful.entries() == ()
    confirmed = dp.Ledger.open(path, allow_larger_delta=True)
    confirmed.book(booked)
    pickle.loads(pickle.dumps(confirmed)).book(booked)
    with pytest.raises(dp.LedgerError, match="larger"):
        pickle.loads(pickle.dumps(careful)).book(booked)
    dp.Ledger(dp.ApproxDP(3.0, 1e-6), allow_larger_delta=True).book(booked)
    dp.Ledger(dp.ZCDP(1.0)).book(booked)  # a total in ρ has no δ to compare with
