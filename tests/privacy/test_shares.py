"""Costs and allowances as percent of the total and as ε: one quantity, which adds up."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpinfer as dp
from dpinfer.privacy import accountant
from dpinfer.privacy.account import Account
from dpinfer.privacy.decimals import added, multiplied, written
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import NoisySum
from dpinfer.privacy.shares import EPSILON, PERCENT, RHO, TotalShares, percent

TOTALS = {
    "pure": dp.PureDP(2.0),
    "zcdp": dp.ZCDP(0.3),
    "approx": dp.ApproxDP(3.0, 1e-6),
    "strict": dp.ApproxDP(0.7, 1e-9),
}
X = np.random.default_rng(0).uniform(-0.5, 0.5, (4000, 2))
Y = np.where(X[:, 0] + X[:, 1] > 0, 1, 0)


@pytest.fixture(params=TOTALS)
def shares(request):
    return TotalShares(TOTALS[request.param])


def entry(share, asked=None):
    return Entry("fit", "one record", (NoisySum("sum", share, 1.0),), asked=asked)


def unit_of(total):
    return RHO if isinstance(total, dp.ZCDP) else EPSILON


def test_a_question_at_the_total_is_all_of_it(shares):
    """The whole total as one question, typed and in percent, is one amount, and the ledger pays for it."""
    total = shares.total
    everything = shares.read("100 %")
    assert everything == shares.read(repr(accountant.limit(total)), unit_of(total))
    assert shares.of(everything) == 1
    assert shares.epsilon(everything) == pytest.approx(accountant.limit(total), rel=1e-9)
    kind = dp.PureDP if isinstance(total, dp.PureDP) else dp.ZCDP
    ledger = dp.Ledger(total)
    ledger.book(entry(kind(everything)))
    assert Account.of(ledger).share == 1
    assert Account.of(ledger).statement() == (
        "100 % of the total is used. Nothing is left for another question."
    )


@given(st.lists(st.decimals("0.1", 10, places=1), min_size=1, max_size=12))
def test_percentages_add_up(typed):
    for total in TOTALS.values():
        shares = TotalShares(total)
        amounts = [shares.read(f"{number} %") for number in typed]
        whole = multiplied(written(shares.full_amount), added(typed) / 100)
        assert added(map(written, amounts)) <= whole
        assert float(added(map(written, amounts))) == pytest.approx(float(whole), rel=1e-12)


@given(st.decimals("0.001", 100, places=3), st.booleans())
def test_guarantee_allowances_rounded_down(number, comma):
    """Never more than the percentage, and never more than one question asked at the ε costs."""
    text = str(number).replace(".", ",") if comma else str(number)
    for total in TOTALS.values():
        shares = TotalShares(total)
        whole = written(shares.full_amount)
        assert written(shares.read(f"{text}%")) * 100 <= multiplied(whole, number)
        if number > written(accountant.limit(total)) and unit_of(total) == EPSILON:
            with pytest.raises(dp.InputError, match="more than the total"):
                shares.read(text, unit_of(total))
            continue
        amount = shares.read(text, unit_of(total))
        if isinstance(total, dp.ApproxDP):
            noise = (NoisySum("question", dp.ZCDP(amount), 1.0),)
            assert accountant.affordable(dp.ApproxDP(float(number), total.delta), noise)
            more = (NoisySum("question", dp.ZCDP(amount * (1 + 1e-9)), 1.0),)
            assert not accountant.affordable(dp.ApproxDP(float(number), total.delta), more)
        else:
            assert written(amount) <= number


@pytest.mark.parametrize("model", ["logistic", "linear"])
def test_an_allowance_pays_for_a_question_at_its_epsilon_and_for_none_beyond(model):
    total = dp.ApproxDP(3.0, 1e-6)
    ledger = dp.Ledger(total)
    within = dp.ZCDP(ledger.shares.read("ε = 0.5"))
    for epsilon, paid in ((0.5, True), (0.5001, False)):
        budget = dp.ApproxDP(epsilon, 1e-6)
        if model == "logistic":
            fit = dp.LogisticRegression(bounds=(-0.5, 0.5), budget=budget, target="ordinary")
            fit.fit(X, Y)
        else:
            fit = dp.LinearRegression(bounds=(-0.5, 0.5), outcome=(0, 1), budget=budget)
            fit.fit(X, Y.astype(float))
        events = fit.result_.privacy.events
        booked = Entry("fit", "one record", events, by="meier", asked=budget)
        assert ledger.preview(booked, within=within).accepted is paid, epsilon


@pytest.mark.parametrize(
    ("text", "unit", "same"),
    [
        ("10 %", "", "10%"),
        ("10", PERCENT, "10 %"),
        ("2,5", PERCENT, "2.5 percent"),
        ("ε = 0.5", "", "0.5 ε"),
        ("0,5", EPSILON, "epsilon = .5"),
        ("ε = 0.5", PERCENT, "EPSILON 0.5"),  # what is typed beside the number counts
        ("ρ=0.05", "", "rho = 5e-2"),
    ],
)
def test_what_may_be_typed(text, unit, same):
    shares = TotalShares(TOTALS["approx"])
    assert shares.read(text, unit) == shares.read(same) > 0


@pytest.mark.parametrize(
    ("total", "text", "words"),
    [
        ("approx", "0.5", "'0.5' has no unit: type 10 % or ε = 0.5"),
        ("approx", "ten", "typed as 10 % or ε = 0.5, not 'ten'"),
        ("approx", "-3 %", "typed as 10 % or ε = 0.5"),
        ("approx", "1.000,5 %", "typed as 10 % or ε = 0.5"),
        ("approx", "ε 1 %", "typed as 10 % or ε = 0.5"),
        ("approx", "nan %", "typed as 10 % or ε = 0.5"),
        ("approx", "101 %", "'101 %' is more than the total, ε = 3, δ = 10⁻⁶"),
        ("approx", "ε = 3.1", "'ε = 3.1' is more than the total, ε = 3, δ = 10⁻⁶"),
        ("zcdp", "ε = 0.5", "has no δ"),
        ("zcdp", "", "typed as 10 % or ρ = 0.05"),
        ("pure", "ε = 2.1", "'ε = 2.1' is more than the total, ε = 2:"),
        ("pure", "ρ = 0.5", "counted in ε: type 10 % or ε = 0.5"),
    ],
)
def test_what_may_not_be_typed(total, text, words):
    with pytest.raises(dp.InputError) as refused:
        TotalShares(TOTALS[total]).read(text)
    assert words in str(refused.value)


@pytest.mark.parametrize("number", ["1e99999999", "1e-99999999", "1e999999999999999999999999"])
def test_exponents_of_any_size_are_answered_in_words(shares, number):
    """Only the ρ of an allowance may be more than the total, and then it is a number."""
    for unit in shares.units:
        with suppress(dp.InputError):
            assert np.isfinite(shares.read_allowance(number, unit))


def test_an_allowance_is_more_than_nothing(shares):
    assert shares.read("0 %") == 0
    with pytest.raises(dp.InputError, match="more than nothing"):
        shares.read_allowance("0 %")


@given(st.floats(1e-6, 0.3))
def test_an_amount_is_offered_as_it_is_read_again(amount):
    """So that a form that is sent again changes nothing; what was typed comes back as it was typed."""
    for total in TOTALS.values():
        shares = TotalShares(total)
        text, unit = shares.typed(amount)
        assert shares.read(text, unit) == amount
    approx = TotalShares(TOTALS["approx"])
    assert approx.typed(approx.read("10 %")) == ("10", PERCENT)
    assert approx.typed(approx.read("ε = 0.5")) == ("0.5", EPSILON)


def test_costs_are_written_as_they_were_asked():
    approx = TotalShares(TOTALS["approx"])
    amount = approx.read("ε = 1")
    assert approx.cost(dp.ApproxDP(1.0, 1e-6), amount) == "ε = 1 (13.4 % of the total)"
    assert approx.asked(dp.ApproxDP(1.0, 1e-7), amount) == "ε = 1, δ = 10⁻⁷"
    assert approx.asked(dp.PureDP(0.1), 0.005) == "ε = 0.1, δ = 0"
    assert approx.asked(dp.ZCDP(amount), amount) == "ε = 1"  # asked in ρ: as an ε of the total
    zcdp = TotalShares(TOTALS["zcdp"])
    assert zcdp.cost(dp.ZCDP(0.03), 0.03) == "ρ = 0.03 (10 % of the total)"
    assert zcdp.asked(dp.ApproxDP(1.0, 1e-6), 0.03) == "ε = 1, δ = 10⁻⁶"
    pure = TotalShares(TOTALS["pure"])
    assert pure.cost(dp.PureDP(0.5), 0.5) == "ε = 0.5 (25 % of the total)"
    assert "ρ" not in approx.cost(dp.ZCDP(0.01), 0.01) + approx.allowance(0.01)


def test_one_answer_to_how_much_is_left(shares):
    ledger = dp.Ledger(shares.total)
    kind = dp.PureDP if isinstance(shares.total, dp.PureDP) else dp.ZCDP
    ledger.book(entry(kind(shares.read("4 %"))))
    account = Account.of(ledger)
    assert account.share == pytest.approx(0.04, rel=1e-12)
    largest = shares.up_to(ledger.largest_fit())
    words = f"4 % of the total is used. The next question may cost up to {largest}."
    assert account.statement() == words
    assert account.state()["share"] == account.share
    assert ledger.statement() == words
    assert words in repr(ledger)
    preview = ledger.preview(entry(kind(shares.read("10 %"))))
    assert preview.statement == shares.statement(0.14, preview.largest)
    assert preview.statement.startswith("14 % of the total is used. The next question may cost")


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "0 %"),
        (1e-6, "less than 0.1 %"),
        (0.0367, "3.7 %"),
        (0.04, "4 %"),
        (0.1739, "17.4 %"),
        (0.99999, "more than 99.9 %"),
        (1.0, "100 %"),
        (1.3, "100 %"),
    ],
)
def test_percent(share, words):
    assert percent(share) == words
