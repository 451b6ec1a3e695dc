"""Every page, judged by axe-core at three widths, and nothing wider than its window."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from dpinfer_desk.desk import Desk
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.store.tickets import CLAIMED, QUEUED
from helpers.visits import SLOT, made, question
from helpers.windows import Window, opened

AXE = (Path(__file__).parents[1] / "vendor/axe.min.js").read_text(encoding="utf-8")
WIDTHS = (390, 768, 1280)
FOUND = "axe.run().then(found => found.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 160))]))"
ASKED = "formula=visit+~+age+%2B+health&rho=0.2&by=a.meier"


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """A desk with a question in each state that people see, and one without any table."""
    folder = made(tmp_path_factory.mktemp("judged"), Policy("above", 0.4))
    desk = Desk.open(folder)
    found = {"lost": lose(desk, desk.ask("visits", question("visit ~ health", 0.1), "b.okafor"))}
    with opened(folder) as site, opened_empty(tmp_path_factory.mktemp("empty")) as empty:
        found["answered"] = desk.ask("visits", question("visit ~ age", 0.1, title="Age"), "a.meier")
        found["waiting"] = desk.ask("visits", question("visit ~ age + income", 0.5), "a.meier")
        found["declined"] = desk.ask("visits", question("visit ~ income", 0.41), "b.okafor")
        desk.decide(found["declined"].id, False, "Too dear.")
        found["withdrawn"] = desk.ask("visits", question("visit ~ income", 0.42), "b.okafor")
        desk.withdraw(found["withdrawn"].id)
        assert settled(desk, found["lost"].id) == "lost"
        assert settled(desk, found["answered"].id) == "answered"
        desk.set_state("visits", "b.okafor", "paused", "for a while")
        yield site, empty, {state: ticket.id for state, ticket in found.items()}


def opened_empty(folder):
    Desk.create(folder / "desk", "An empty desk")
    return opened(folder / "desk")


def settled(desk, ident):
    deadline = time.monotonic() + 60
    while not desk.ticket(ident).ended and time.monotonic() < deadline:
        time.sleep(0.1)
    return desk.ticket(ident).state


def lose(desk, ticket):
    """What a crash after booking leaves: an entry in the ledger, and no result."""
    desk.register.move(ticket.id, (QUEUED,), CLAIMED, "worker", slot=SLOT)
    checked = desk.check(ticket.table, ticket.question, ticket.by)
    desk.table(ticket.table).ledger().book(replace(checked.entry, by=ticket.by, request=ticket.id))
    return ticket


def pages(idents):
    yield from ("/", "/t/visits", "/t/visits/people", "/t/visits/ask", "/q", "/q?state=answered")
    yield from ("/approvals", "/journal", "/verify", "/verify?go=verify", "/nothing")
    yield f"/t/visits/ask?{ASKED}&go=forecast"
    yield "/t/visits/ask?formula=visit+~+agee&rho=1&by=a.meier&go=forecast"
    yield f"/t/visits/confirm?{ASKED}"
    yield f"/t/visits/confirm?{ASKED.replace('0.2', '9')}"
    yield "/t/visits/confirm?formula=visit+~+age&rho=0.1&by=a.meier"  # answered already
    yield from (f"/q/{ident}" for ident in idents.values())
    yield f"/q/{idents['answered']}/report"


@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_nothing(chromium, states, width):
    site, empty, idents = states
    here = Window(chromium, site, width=width)
    faults = []
    paths = list(pages(idents))
    for path in paths:
        here.go(path)
        faults += [(path, *fault) for fault in judged(here.page)]
        if here.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append((path, f"wider than {width} pixels"))
    assert faults == []
    assert len(paths) == 22
    here.context.close()
    assert here.faults == []
    bare = Window(chromium, empty, width=width)
    for path in ("/", "/q", "/approvals"):
        bare.go(path)
        assert judged(bare.page) == [], path
    assert "There is no table at this desk yet." in bare.go("/").text()
    bare.context.close()


def judged(page):
    page.evaluate(AXE)
    return page.evaluate(FOUND)


def test_axe_finds_what_is_wrong(chromium, states):
    here = Window(chromium, states[0])
    here.go("/")
    here.page.evaluate("document.querySelector('h1').innerHTML = '<img src=x>'")
    assert "image-alt" in {name for name, _ in judged(here.page)}
    here.context.close()


def test_a_lost_question_has_one_text(chromium, states):
    site, _, idents = states
    here = Window(chromium, site)
    here.go(f"/q/{idents['lost']}")
    assert "It was booked, so it is paid for" in here.words()
    answer = here.context.request.get(site.at(f"/q/{idents['lost']}/report"))
    assert answer.status == 410
    here.context.close()
