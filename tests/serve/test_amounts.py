"""Amounts on pages and for programs: one quantity and one currency, whatever shows it."""

import html
import re
from dataclasses import replace
from urllib.parse import urlencode

import pytest

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import NoisySum
from helpers import asgi
from helpers.calling import PEOPLE, Site

TOTAL = dp.ApproxDP(3.0, 1e-6)
QUESTION = {"formula": "visit ~ age", "epsilon": "0.5", "delta": "1e-6", "loss": "logistic"}


class Pages(Site):
    """The pages of a desk with an (ε, δ) total, as everybody sees them."""

    def __init__(self, folder):
        super().__init__(folder, total=TOTAL)
        self.sessions = {person: self.accounts.open_session(person) for person in PEOPLE}
        self.shares = self.desk.shares("visits")
        for person in ("a.meier", "b.okafor"):
            self.desk.allow("visits", person, self.shares.read("10 %"))

    def get(self, path, by="s.berg", **query):
        """The words of a page."""
        address = f"{path}?{urlencode(query)}" if query else path
        reply = asgi.request(self.app, "GET", address, [("cookie", f"desk={self.sessions[by]}")])
        assert reply.status == 200, reply.text
        return reply.text

    def words(self, path, by="s.berg", **query):
        text = re.sub("<[^>]*>", " ", self.get(path, by, **query))
        return " ".join(html.unescape(text).split())

    def post(self, path, by="s.berg", **fields):
        """A form as a page sends it."""
        token = self.get("/tokens", by).partition('name="form" value="')[2].partition('"')[0]
        headers = [
            ("cookie", f"desk={self.sessions[by]}"),
            ("origin", f"http://{asgi.HOST}"),
            ("content-type", "application/x-www-form-urlencoded"),
        ]
        body = urlencode({"form": token, **fields}).encode()
        return asgi.request(self.app, "POST", path, headers, body)

    def book(self, typed, by="a.meier"):
        """A question of Gaussian noise, in the ledger."""
        share = dp.ZCDP(self.shares.read(typed))
        noise = (NoisySum("sum", share, 1.0),)
        asked = dp.ApproxDP(float(f"{self.shares.epsilon(share.rho):.4g}"), 1e-6)
        self.desk.table("visits").ledger().book(
            Entry("fit", "one person", noise, by=by, asked=asked)
        )


@pytest.fixture
def site(tmp_path):
    return Pages(tmp_path)


def bars(page):
    return re.findall(r'<rect class="meter-part" width="([\d.]+)"', page)


def test_bar_number_chart_and_programs_show_one_quantity(site):
    """Home, table, burn-down, account and ledger: the share of the total that is used."""
    site.book("4 %")
    words = "4 % of the total is used. The next question may cost up to ε = 2.91."
    assert words in site.words("/")
    page = site.get("/t/visits")
    assert words in site.words("/t/visits")
    assert bars(site.get("/")) == bars(page)[:1] == ["4.0"]
    top, bottom = 10.0, 164.0  # of the wide drawing
    path = re.search(r'<path d="(M[^"]*)" class="burning"', page)[1]
    height = float(re.findall(r"V([\d.]+)", path)[-1])
    assert (bottom - height) / (bottom - top) == pytest.approx(0.04, abs=0.001)
    _, account = site.call("GET", "/tables/visits/account", "s.berg")
    assert account["share"] == pytest.approx(0.04, rel=1e-12)
    assert {"spent", "left", "largest_fit", "total", "measure"} <= set(account)
    assert account["spent"] == site.desk.account("visits").ledger.spent()


def test_costs_are_explained_behind_one_link(site):
    site.book("4 %")
    page = site.get("/t/visits")
    assert '<a href="#counting">How this is counted</a>' in page
    assert 'id="counting"' in page
    before = site.words("/t/visits").partition("How costs are counted")[0]
    assert "ρ" not in before.replace("ρ selected", "").partition("Which questions wait")[0]


@pytest.mark.parametrize(
    "path", ["/", "/t/visits/people", "/t/visits/confirm", "/approvals", "/q", "/journal"]
)
def test_no_page_counts_in_rho(site, path):
    """Costs, allowances, thresholds and buttons: ε as it was asked, and percent of the total."""
    site.desk.set_policy("visits", type(site.desk.table("visits").policy)("each"))
    asked = site.post("/t/visits/questions", "a.meier", **QUESTION, key="k")
    assert asked.status == 303
    query = QUESTION if path.endswith("confirm") else {}
    page = site.words(path, "a.meier" if query else "s.berg", **query)
    for unit in ("% of the total ε ρ",):  # the units that may be chosen
        page = page.replace(unit, "")
    assert "ρ" not in page
    assert "%" in page


def test_a_question_costs_what_it_was_asked_at(site):
    site.post("/t/visits/questions", "a.meier", **QUESTION, key="k")
    (ticket,) = site.desk.tickets()
    for path in ("/q", f"/q/{ticket.id}"):
        assert "ε = 0.5 (3.7 % of the total)" in site.words(path, "a.meier")
    confirm = site.words("/t/visits/confirm", "b.okafor", **QUESTION)
    assert "Ask: costs ε = 0.5 (3.7 % of the total)" in confirm
    assert "10 % left of 10 % of the total (ε = 0.855)" in confirm
    assert "3.7 % of the total is used. The next question may cost up to" in confirm
    asked = site.words("/t/visits/ask", "b.okafor", **QUESTION, go="forecast")
    assert "Of the total Then left" in asked


@pytest.mark.parametrize(
    ("typed", "unit", "share"),
    [
        ("5", "percent", 0.05),
        ("5,0 %", "epsilon", 0.05),
        ("0,5", "epsilon", 0.03671),
        ("ε = 0.5", "", 0.03671),
    ],
)
def test_an_allowance_is_typed_as_percent_or_as_epsilon(site, typed, unit, share):
    path = "/t/visits/allowance"
    assert site.post(path, person="a.meier", amount=typed, unit=unit).status == 303
    amount = site.desk.analyst("visits", "a.meier").amount
    assert site.shares.of(amount) == pytest.approx(share, abs=1e-5)
    page = site.get("/t/visits/people")
    text, chosen = site.shares.typed(amount)
    assert f'value="{text}"' in page  # as it was typed, so that sending it again changes nothing
    site.post(path, person="a.meier", amount=text, unit=chosen)
    assert site.desk.analyst("visits", "a.meier").amount == amount
    place = "/tables/visits/analysts/a.meier"
    status, found = site.call("PUT", place, "s.berg", {"allowance": "2,5 %"})
    assert (status, found["share"]) == (200, pytest.approx(0.025, rel=1e-12))
    assert found["largest_fit"] == pytest.approx(site.shares.epsilon(found["left"]))


def test_an_allowance_says_what_its_next_question_may_cost(site):
    site.book("ε = 0.5")
    left = site.shares.read("10 %") - site.shares.read("ε = 0.5")
    largest = site.shares.up_to(site.shares.epsilon(left))
    room = f"3.7 % of the total used, 6.3 % left. The next question may cost up to {largest}."
    for path, person in (("/t/visits/people", "s.berg"), ("/t/visits", "a.meier")):
        words = site.words(path, person)
        assert "10 % of the total (ε = 0.855)" in words
        assert room in words
    assert "Allowances use 20 % of it, so everyone can spend theirs in full." in site.words(
        "/t/visits/people"
    )
    for person in ("a.meier", "b.okafor"):
        site.desk.allow("visits", person, site.shares.read("50 %"))
    crowded = site.words("/t/visits/people")
    assert "Allowances use 100 % of it, so who asks first is served first" in crowded
    assert "only up to 88.2 % could surely everyone" in crowded


@pytest.mark.parametrize(
    ("amount", "unit", "words"),
    [
        ("", "percent", "typed as 10 % or ε = 0.5"),
        ("ten", "percent", "typed as 10 % or ε = 0.5, not &#39;ten&#39;"),
        ("0", "percent", "more than nothing"),
        ("120", "percent", "more than the total, ε = 3, δ = 10⁻⁶"),
        ("0.5", "", "has no unit"),
    ],
)
def test_an_allowance_that_is_none_changes_nothing(site, amount, unit, words):
    before = site.desk.analyst("visits", "a.meier").amount
    reply = site.post("/t/visits/allowance", person="a.meier", amount=amount, unit=unit)
    assert reply.status == 400
    assert words in reply.text
    assert site.desk.analyst("visits", "a.meier").amount == before
    both = {"amount": 0.1, "allowance": "10 %"}
    place = "/tables/visits/analysts/a.meier"
    assert site.call("PUT", place, "s.berg", both)[0] == 400
    assert site.call("PUT", place, "s.berg", {"allowance": "ten"})[0] == 400


def test_a_threshold_is_typed_like_an_allowance(site):
    sent = {"approval": "above", "up_to": "0,5", "unit": "epsilon", "shared": "yes"}
    assert site.post("/t/visits/policy", **sent).status == 303
    policy = site.desk.table("visits").policy
    assert policy.up_to == site.shares.read("ε = 0.5")
    words = site.words("/t/visits")
    assert "questions that cost more than 3.7 % of the total (ε = 0.5)" in words
    for epsilon, waits in (("0.5", False), ("0.51", True)):
        asked = site.desk.check("visits", _question(epsilon), "a.meier")
        assert asked.waits is waits


def test_the_journal_says_allowances_in_percent(site):
    words = site.words("/journal")
    assert "to 10 % of the total (ε = 0.855)" in words
    event = next(one for one in site.desk.journal()[::-1] if one.action == "allowance")
    (sentence,) = site.desk.sentences([event])
    assert "10 % of the total (ε = 0.855)" in sentence
    facts = {key: value for key, value in event.facts.items() if key != "allowance"}
    (old,) = site.desk.sentences([replace(event, facts=facts)])  # as earlier versions wrote it
    assert old == sentence


def test_a_larger_delta_than_that_of_the_total_is_refused(site):
    """With a remedy for the analyst, and no option of a command."""
    typed = QUESTION | {"delta": "0.01"}
    found = site.desk.check("visits", _question("0.5", "0.01"), "a.meier")
    assert not found.permitted
    words = "δ = 0.01 is larger than the δ of the total, 10⁻⁶, and would cost much of the total: "
    words += "ask with δ = 10⁻⁶ or less"
    assert found.reason == words
    assert words in site.words("/t/visits/confirm", "a.meier", **typed)
    assert "--" not in words
    reply = site.post("/t/visits/questions", "a.meier", **typed, key="k")
    assert reply.status == 409
    body = {"formula": "visit ~ age", "epsilon": 0.5, "delta": 0.01}
    status, fault = site.ask(question=body)
    assert (status, fault["remedy"]) == (409, "ask with δ = 10⁻⁶ or less")
    assert site.desk.tickets() == []


def _question(epsilon, delta="1e-6"):
    keys = {"formula": "visit ~ age", "epsilon": float(epsilon), "delta": float(delta)}
    return AnalystQuestion.of(keys)
