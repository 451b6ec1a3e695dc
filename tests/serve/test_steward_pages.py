"""Pages of the steward and of accounts, called in this process: what they show and what is asked first."""

import re
from urllib.parse import urlencode

import pytest
from markupsafe import escape

from dpinfer.views.page import breakable
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.web import steward_pages
from helpers import asgi
from helpers.calling import Site
from helpers.hostile import HOSTILE
from helpers.pages import Tree
from helpers.visits import question

FORM = "application/x-www-form-urlencoded"
STEWARD = "s.berg"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    found = Site(tmp_path_factory.mktemp("steward"), Policy("each"))
    found.session = found.accounts.open_session(STEWARD)
    return found


def go(site, path):
    return asgi.request(site.app, "GET", path, [("cookie", f"desk={site.session}")])


def tree(reply):
    return Tree(reply.text).root


def send(site, path, **fields):
    form = re.search(r'name="form" value="(\w+)"', go(site, "/tokens").text)[1]
    headers = [
        ("cookie", f"desk={site.session}"),
        ("origin", f"http://{asgi.HOST}"),
        ("content-type", FORM),
    ]
    body = urlencode({"form": form, **fields}).encode()
    return asgi.request(site.app, "POST", path, headers, body)


def words(reply):
    """What a page says, without white space that its tags leave before a full stop."""
    return re.sub(r" (?=[.,;])", "", tree(reply).words())


def test_a_new_desk_has_a_check_list_until_the_first_question(tmp_path):
    site = Site(tmp_path)
    site.session = site.accounts.open_session(STEWARD)
    with site.desk.register.write() as sql:
        allowances = sql("SELECT * FROM allowances").fetchall()
        sql("DELETE FROM allowances")

    def steps():
        listed = tree(go(site, "/")).all("ol")
        return [one.words() for one in listed[0].all("li")] if listed else []

    first = steps()
    assert first[0] == "Register a table done"
    assert first[1].startswith("Give an analyst an allowance It limits")
    assert first[2] == "Open an account for the analyst done"
    assert first[3].startswith("Wait for the first question")
    with site.desk.register.write() as sql:
        sql("INSERT INTO allowances VALUES (?, ?, ?, ?)", *allowances[0])
    assert steps()[1] == "Give an analyst an allowance done"
    site.session = site.accounts.open_session("t.audit")
    assert steps() == []
    site.session = site.accounts.open_session(STEWARD)
    site.ask()
    assert steps() == []


def test_after_a_decision_comes_the_next_one(site):
    desk = site.desk
    first, second, third = (
        desk.ask("visits", question(rho=rho), "a.meier", again=True) for rho in (0.01, 0.02, 0.03)
    )
    refused = send(site, f"/q/{first.id}/decline", reason="  ")
    assert refused.status == 400
    (field,) = (node for node in tree(refused).all("input") if "aria-invalid" in node.attributes)
    assert field.attributes["aria-describedby"] == "fault"
    assert desk.ticket(first.id).state == "waiting"
    declined = send(site, f"/q/{first.id}/decline", reason="too wide")
    assert declined.headers["location"] == f"/approvals?decided={first.id}"
    page = words(go(site, declined.headers["location"]))
    assert "You declined visit ~ age of a.meier. 2 more wait." in page
    approved = send(site, f"/q/{second.id}/approve")
    page = words(go(site, approved.headers["location"]))
    assert "You approved visit ~ age of a.meier. One more waits." in page
    late = send(site, f"/q/{first.id}/decline", reason="")
    assert late.status == 400
    for nothing in (f"/approvals?decided={third.id}", "/approvals?decided=x", "/approvals"):
        assert "You " not in words(go(site, nothing))
    desk.withdraw(third.id)
    desk.withdraw(second.id)


def test_revoking_asks_once_and_keeps_the_reason(site):
    desk = site.desk
    waiting = desk.ask("visits", question(rho=0.04), "b.okafor", again=True)
    typed = {"person": "b.okafor", "state": "revoked", "reason": 'left "us" <b>'}
    asked = send(site, "/t/visits/state", **typed)
    assert asked.status == 200
    assert "Revoke the access of b.okafor to visits?" in words(asked)
    assert "declined: 1 now." in words(asked)
    assert desk.analyst("visits", "b.okafor").state == "active"
    (form,) = (
        one for one in tree(asked).all("form") if one.attributes["action"] == "/t/visits/state"
    )
    fields = {
        one.attributes["name"]: one.attributes["value"]
        for one in form.all("input")
        if one.attributes["name"] != "form"
    }
    assert fields == {**typed, "confirmed": "yes"}
    done = send(site, "/t/visits/state", **fields)
    assert done.status == 303
    assert desk.analyst("visits", "b.okafor").state == "revoked"
    assert desk.ticket(waiting.id).state == "declined"
    assert desk.journal()[-2].facts["reason"] == typed["reason"]
    assert "The access of b.okafor was revoked" in words(go(site, done.headers["location"]))
    pause = send(site, "/t/visits/state", person="b.okafor", state="active")
    assert pause.status == 303  # what takes nothing away is not asked
    assert send(site, "/t/visits/state", person="nobody", state="revoked").status == 400


def test_a_revoked_allowance_leaves_the_sum(site):
    shared = r"Allowances use ([\d.]+) % of it"
    before = float(re.search(shared, words(go(site, "/t/visits/people")))[1])
    site.desk.set_state("visits", "b.okafor", "revoked")
    after = float(re.search(shared, words(go(site, "/t/visits/people")))[1])
    assert (before, after) == (80.0, 40.0)
    site.desk.set_state("visits", "b.okafor", "active")


def test_a_message_names_only_those_who_are_here(site):
    assert "b.okafor may ask" in words(go(site, "/t/visits/people?done=active&person=b.okafor"))
    spoofed = words(go(site, "/t/visits/people?done=active&person=Call+0900"))
    assert "Call 0900" not in spoofed


def test_the_journal_is_turned_page_by_page(site, monkeypatch):
    monkeypatch.setattr(steward_pages, "_EVENTS", 7)
    desk = site.desk
    seen = []
    path = "/journal?person=a.meier"
    while path:
        reply = go(site, path)
        rows = tree(reply).all("tbody")[0].all("tr")
        assert len(rows) <= 7
        seen += [int(row.all("td")[2].words()) for row in rows]
        links = [node for node in tree(reply).all("a") if node.words() == "Older events"]
        path = links[0].attributes["href"] if links else ""
    assert len(seen) > 7
    assert seen == sorted(set(seen), reverse=True)
    asked = {ticket.id for ticket in desk.tickets(by="a.meier")}
    about = [
        event.number
        for event in desk.journal()
        if "a.meier" in (event.who, event.facts.get("person"))
        or event.facts.get("question") in asked
    ]
    assert seen == about[::-1]
    first = words(go(site, "/journal?kind=questions"))
    assert "declined question" in first
    assert "Reason: too wide" in first
    assert "invited" not in first


@pytest.mark.parametrize(
    ("query", "typed"),
    [("first=yesterday", "yesterday"), ("last=2026-02-31", "2026-02-31"), ("before=-1", "")],
)
def test_a_selection_that_cannot_be_read_comes_back(site, query, typed):
    reply = go(site, f"/journal?person=a.meier&{query}")
    assert reply.status == 400
    assert "correct it" in words(reply) or "go back" in words(reply)
    values = [node.attributes.get("value", "") for node in tree(reply).all("input")]
    assert "a.meier" in values
    assert typed in values


def test_names_break_after_underscores_and_stay_texts():
    assert str(breakable("number_of_visits")) == "number_<wbr>of_<wbr>visits"
    for text in HOSTILE:
        assert str(breakable(text)).replace("_<wbr>", "_") == str(escape(text))
