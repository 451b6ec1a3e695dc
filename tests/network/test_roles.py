"""Who sees which page and who may do what: every address, for every role, and for nobody."""

import json
import re
import time

import pytest

from dpinfer_desk.desk import Desk
from dpinfer_desk.web.app import ACCOUNT_PAGES, PAGES, PASSWORD_PAGES
from dpinfer_desk.web.endpoints import ANYONE
from helpers.servers import Client
from helpers.visits import published, question

ROLES = {
    "boss": "steward",
    "a.meier": "analyst",
    "stranger": "analyst",
    "checker": "auditor",
}


@pytest.fixture(scope="module")
def asked(site):
    """Questions of a.meier: one answered, one that waits."""
    desk = Desk.open(site.folder, "steward")
    done = desk.ask("visits", question(rho=0.05), "a.meier")
    waits = desk.ask("visits", question("visit ~ age + income", 0.3), "a.meier")
    deadline = time.monotonic() + 300
    while not desk.ticket(done.id).ended and time.monotonic() < deadline:
        assert site.process.poll() is None, "the server has ended"
        time.sleep(0.2)
    assert desk.ticket(done.id).state == "answered"
    return {"answered": done.id, "waiting": waits.id, "release": published(desk)}


def without_time(text):
    """A page but for the moment at which it was made and the word in its forms."""
    return re.sub(r'Seen [^.]*\.|name="form" value="\w+"', "", text)


def addresses(asked):
    for method, path, _, roles in (*PAGES, *ACCOUNT_PAGES, *PASSWORD_PAGES):
        place = path.replace("{table}", "visits").replace("{question}", asked["answered"])
        if place.endswith("{release}/report"):
            place += "?question=age+~+health"
        place = place.replace("{release}", asked["release"])
        yield method, place, roles


def test_who_has_not_signed_in_is_told_nothing(site, asked):
    """Each address, those that are not there too, leads to the form of name and password, with the
    same bytes.
    """
    nobody = Client(site)
    told = set()
    for method, path, roles in addresses(asked):
        if roles == ANYONE:
            continue
        answer = nobody.sent(method, path, {"origin": site.origin})
        told.add((answer.status, answer.headers["location"], answer.text))
    for path in ("/nothing", "/t/none", "/q/" + "0" * 32, "/t/visits/nothing", "/SIGN-IN"):
        answer = nobody.go(path)
        told.add((answer.status, answer.headers["location"], answer.text))
    assert told == {(303, "/sign-in", "")}
    assert nobody.go("/health").text == "ok\n"
    for path in (
        "/style.css",
        "/desk.js",
        "/join.js",
        "/icon.svg",
        "/sign-in",
        "/join",
    ):
        assert nobody.go(path).status == 200


def test_each_page_is_for_its_roles(site, visitors, asked):
    """What is not for a role is, byte for byte, what is not there."""
    for name, role in ROLES.items():
        visitor = visitors[name]
        nothing = without_time(visitor.go("/nothing").text)
        for method, path, roles in addresses(asked):
            if method != "GET" or roles == ANYONE:
                continue
            answer = visitor.go(path)
            seen = role in roles and not (name == "stranger" and path.startswith(("/t/", "/q/")))
            if seen:
                assert answer.status == 200 or "confirm" in path, (name, path, answer.status)
            else:
                assert answer.status == 404, (name, path)
                assert without_time(answer.text) == nothing, (name, path)


NOT_FOR = {
    "a.meier": [
        *("/journal", "/journal.jsonl", "/verify", "/verify?go=verify", "/approvals", "/accounts"),
        *("/t/visits/people", "/t/visits/ledger.jsonl"),
    ],
    "checker": ["/approvals", "/t/visits/ask", "/t/visits/confirm?formula=visit+~+age&rho=0.1"],
    "stranger": ["/t/visits", "/t/visits/ask", "/t/visits/practice.csv", "/journal", "/accounts"],
}
"""Written down here and not taken from the table of addresses: whoever changes that has to change this."""


def test_what_is_not_for_whom(visitors):
    for name, paths in NOT_FOR.items():
        for path in paths:
            assert visitors[name].go(path).status == 404, (name, path)
    acts = [
        "/accounts",
        "/accounts/invite",
        "/accounts/close",
        "/t/visits/policy",
        "/t/visits/pause",
    ]
    acts += ["/t/visits/people", "/t/visits/allowance", "/t/visits/state", "/t/visits/resume"]
    for name in ("a.meier", "checker"):
        word = visitors[name].word()
        for path in acts:
            assert visitors[name].post(path, {"person": "x"}, form=word).status == 404, (name, path)
    word = visitors["checker"].word()
    fields = {"formula": "visit ~ age", "rho": "0.1", "key": "k", "by": "a.meier"}
    assert visitors["checker"].post("/t/visits/questions", fields, form=word).status == 404


def test_who_may_not_act_changes_nothing(site, visitors, asked):
    """Every form, sent by those who have no right to it: nothing there, and no event."""
    desk = Desk.open(site.folder, "steward")
    before = len(desk.journal())
    fields = {
        "person": "b.okafor",
        "amount": "ρ = 5",
        "state": "revoked",
        "approval": "none",
        "reason": "x",
        "role": "steward",
    }
    for name, role in ROLES.items():
        word = visitors[name].word()
        for method, path, roles in addresses(asked):
            if method != "POST" or role in roles or roles == ANYONE:
                continue
            place = path.replace(asked["answered"], asked["waiting"])
            answer = visitors[name].post(place, fields, form=word)
            assert answer.status == 404, (name, path)
    for name in ("b.okafor", "stranger"):  # withdraw what somebody else has asked
        answer = visitors[name].post(f"/q/{asked['waiting']}/withdraw")
        assert answer.status == 404
    assert len(desk.journal()) == before
    assert desk.ticket(asked["waiting"]).state == "waiting"


def test_equal_bytes_for_what_is_not_yours(visitors, asked):
    """Two analysts walk each other's ids: what is there and what is not look the same."""
    other = visitors["b.okafor"]
    nothing = without_time(other.go("/q/" + "f" * len(asked["waiting"])).text)
    for tail in ("", "/report", "/result.json", "/coefficients.csv", "/report.html", "/forest.png"):
        answer = other.go(f"/q/{asked['waiting']}{tail}")
        assert (answer.status, without_time(answer.text)) == (404, nothing)
    assert other.go(f"/q/{asked['answered']}").status == 200  # the policy shares answers
    stranger = visitors["stranger"]
    nothing = without_time(stranger.go("/t/none").text)
    for path in ("/t/visits", "/t/visits/ask", f"/q/{asked['answered']}", "/t/visits/schema.toml"):
        assert without_time(stranger.go(path).text) == nothing
    assert "visits" not in stranger.go("/").text
    assert visitors["a.meier"].go(f"/q/{asked['waiting'][:12]}").status == 404  # whole ids alone


def test_an_analyst_asks_in_no_other_name(site, visitors):
    desk = Desk.open(site.folder, "steward")
    fields = {"formula": "visit ~ health", "rho": "0.21", "by": "a.meier", "key": "forged"}
    answer = visitors["b.okafor"].post("/t/visits/questions", fields)
    assert answer.status == 303
    ident = answer.headers["location"].rpartition("/")[2]
    ticket = desk.ticket(ident)
    assert ticket.by == "b.okafor"
    (event,) = (one for one in desk.journal() if one.facts.get("question") == ident)
    assert event.who == "b.okafor"
    assert "a.meier" not in visitors["b.okafor"].go("/t/visits/ask").text
    visitors["b.okafor"].post(f"/q/{ident}/withdraw")
    assert desk.ticket(ident).state == "withdrawn"


def test_a_steward_decides_and_it_is_written_down(site, visitors):
    desk = Desk.open(site.folder, "steward")
    ticket = desk.ask("visits", question("visit ~ income", 0.25), "a.meier")
    assert visitors["boss"].post(f"/q/{ticket.id}/decline", {"reason": "no"}).status == 303
    assert desk.ticket(ticket.id).decider == "boss"
    assert desk.journal()[-1].who == "boss"


def test_an_auditor_exports_and_can_check(site, visitors, asked):
    """Journal and ledger with their hashes, and results: nothing else is needed offline."""
    checker = visitors["checker"]
    desk = Desk.open(site.folder, "steward")
    lines = [json.loads(line) for line in checker.go("/journal.jsonl").text.splitlines()]
    assert lines[-1]["hash"] == desk.heads()["journal"]
    rows = [json.loads(line) for line in checker.go("/t/visits/ledger.jsonl").text.splitlines()]
    assert rows[-1]["hash"] == desk.heads()["ledger of visits"]
    assert checker.go(f"/q/{asked['answered']}/result.json").status == 200
    assert "are consistent" in checker.go("/verify?go=verify").text
    assert '<form method="post" action="/t/' not in checker.go("/t/visits/people").text


def test_an_analyst_sees_the_total_and_nobody_else(site, visitors, asked):
    page = visitors["b.okafor"].go("/t/visits").text
    assert "of the total is used" in page
    assert "Your allowance" in page
    assert "Who decides" not in page
    assert "burn-down" not in page
    home = visitors["b.okafor"].go("/q").text
    assert asked["waiting"] not in home


def test_tokens_are_made_shown_once_and_revoked(site, visitors):
    mine = visitors["a.meier"]
    fields = {"name": "laptop", "scope": ["read", "ask"], "days": "30"}
    page = mine.post("/tokens", fields).text
    secret = re.search(r'<code class="secret" id="token">(dpinfer-[\w-]{43})</code>', page)[1]
    assert page.count(secret) == 1  # the button that copies it names the element
    again = mine.go("/tokens").text
    assert "laptop" in again
    assert secret not in again
    (ident,) = set(re.findall(r'name="token" value="(\w+)"', again))
    assert visitors["b.okafor"].post("/tokens/revoke", {"token": ident}).status == 400
    assert "laptop" in mine.go("/tokens").text
    assert mine.post("/tokens/revoke", {"token": ident}).status == 303
    assert "laptop" not in mine.go("/tokens").text
    for wrong in (
        {"days": "91"},
        {"days": "1.5"},
        {"days": "x"},
        {"scope": "write"},
        {"scope": []},
    ):
        assert mine.post("/tokens", {**fields, **wrong}).status == 400


def test_a_steward_opens_accounts_and_closes_them(site, visitors):
    boss = visitors["boss"]
    page = boss.post("/accounts", {"person": "new one", "role": "analyst", "words": "a guest"}).text
    link = re.search(r'<code class="secret" id="link">([^<]*)</code>', page)[1]
    address, _, invitation = link.partition("#")
    assert address == f"{site.origin}/join"
    assert re.fullmatch(r"[\w-]{43}", invitation)
    assert page.count(invitation) == 1
    assert invitation not in boss.go("/accounts").text
    guest = Client(site)
    chosen = "four words that rhyme"
    for pasted in (invitation, link):
        assert "Welcome, new one" in guest.post("/invitation", {"invitation": pasted}).text
    assert guest.post("/invitation", {"invitation": invitation[:-1]}).status == 400
    typed = {"invitation": invitation, "password": chosen, "again": chosen}
    differs = guest.post("/join", {**typed, "again": "x"}).text
    assert "differ" in differs
    assert "Welcome, new one" in differs
    assert guest.post("/join", typed).headers["location"] == "/?done=joined"
    assert "you are signed in" in guest.go("/?done=joined").text
    assert Client(site).post("/join", typed).status == 400  # for once
    other = Client(site)
    assert other.sign_in("new one", chosen).status == 303
    assert boss.post("/accounts/close", {"person": "new one"}).status == 200  # it asks first
    assert guest.go("/").status == 200
    assert boss.post("/accounts/close", {"person": "new one", "confirmed": "yes"}).status == 303
    assert guest.go("/").status == other.go("/").status == 303  # at once
    assert guest.sign_in("new one", chosen).status == 403
    for path in ("/accounts", "/accounts/close"):
        own = boss.post(path, {"person": "boss", "role": "analyst"})
        assert own.status == 400
        assert "own account" in own.text
