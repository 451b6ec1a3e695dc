"""Every page, judged by axe-core at three widths, and nothing wider than its window."""

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dpinfer_desk.desk import Desk
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.store.tickets import CLAIMED, QUEUED, WAITING
from dpinfer_desk.worker.fit_process import record_booking
from helpers.visits import SLOT, made, published, question
from helpers.windows import Window, judged, opened

WIDTHS = (390, 768, 1280)
DARK = re.compile(
    r"@media screen and \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}\s*\}", re.DOTALL
)
STYLES = ("dpinfer/views/style.css", "dpinfer_desk/web/pages/desk.css")
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
        found["claimed"] = desk.ask("visits", question("visit ~ income", 0.43), "b.okafor")
        desk.register.move(found["claimed"].id, (WAITING,), CLAIMED, "worker")
        found["booked"] = desk.ask("visits", question("visit ~ income", 0.44), "b.okafor")
        lose(desk, found["booked"], 3600.0)
        (entry,) = (
            entry
            for entry in desk.table("visits").ledger().entries()
            if entry.request == found["booked"].id
        )
        record_booking(desk, found["booked"].id, entry)
        desk.set_state("visits", "b.okafor", "paused", "for a while")
        idents = {state: ticket.id for state, ticket in found.items()}
        yield site, empty, idents | {"release": published(desk)}


def opened_empty(folder):
    Desk.create(folder / "desk", "An empty desk")
    return opened(folder / "desk")


def settled(desk, ident):
    deadline = time.monotonic() + 60
    while not desk.ticket(ident).ended and time.monotonic() < deadline:
        time.sleep(0.1)
    return desk.ticket(ident).state


def lose(desk, ticket, slot=SLOT):
    """What a crash after booking leaves: an entry in the ledger, and no result."""
    desk.register.move(ticket.id, (QUEUED, WAITING), CLAIMED, "worker", slot=slot)
    checked = desk.check(ticket.table, ticket.question, ticket.by)
    desk.table(ticket.table).ledger().book(replace(checked.entry, by=ticket.by, request=ticket.id))
    return ticket


def pages(idents):
    yield from ("/", "/t/visits", "/t/visits/people", "/t/visits/ask", "/q", "/q?state=answered")
    yield from ("/approvals", "/verify", "/verify?go=verify", "/nothing")
    yield from ("/journal", "/journal?kind=questions&person=a.meier", "/journal?first=x")
    yield f"/approvals?decided={idents['declined']}"
    yield "/t/visits/people?done=paused&person=b.okafor"
    yield f"/t/visits/ask?{ASKED}&go=forecast"
    yield "/t/visits/ask?formula=visit+~+agee&rho=1&by=a.meier&go=forecast"
    yield f"/t/visits/confirm?{ASKED}"
    yield f"/t/visits/confirm?{ASKED.replace('0.2', '9')}"
    yield "/t/visits/confirm?formula=visit+~+age&rho=0.1&by=a.meier"  # answered already
    yield "/t/visits/ask?formula=visit+~+age&epsilon=x&delta=2&level=y&title=t&by=a.meier&go=forecast"
    yield "/t/visits/ask?formula=visit+~+health&epsilon=0,31&delta=1e-6&by=a.meier&go=forecast&script=1"
    yield from (f"/q/{ident}" for state, ident in idents.items() if state != "release")
    release = f"/t/visits/releases/{idents['release']}"
    yield from (release, f"{release}?question=age+~+health", f"{release}?question=mean(age)")
    yield from (f"{release}?question=nonsense", f"{release}/report?question=age+~+health")
    yield f"/q/{idents['answered']}/report"


@pytest.mark.parametrize(
    ("width", "script"),
    [*((width, True) for width in WIDTHS), (WIDTHS[0], False), (WIDTHS[-1], False)],
)
def test_axe_finds_nothing(chromium, states, width, script):
    """By day and by night, with the scripts of the pages and as a browser without scripts shows them."""
    site, empty, idents = states
    here = looking(chromium, site, script, width)
    faults = []
    paths = list(pages(idents))
    for path in paths:
        here.go(path)
        faults += [(path, *fault) for fault in judged(here.page)]
    assert len(paths) == len(set(paths)) > 25
    for button, fields in {
        "Decline": {},
        "Revoke": {"Reason (recorded in the journal), of a.meier": "left"},
    }.items():
        here.go("/approvals" if button == "Decline" else "/t/visits/people")
        for label, text in fields.items():
            here.page.get_by_label(label).fill(text)
        here.page.get_by_role("button", name=button).first.click()
        faults += [(button, *fault) for fault in judged(here.page)]
    assert faults == []
    here.context.close()
    assert here.faults == []
    bare = looking(chromium, empty, script, width)
    for path in ("/", "/q", "/approvals", "/journal"):
        bare.go(path)
        assert judged(bare.page) == [], path
    assert "There is no table at this desk yet." in bare.go("/").text()
    bare.context.close()


def looking(chromium, site, script, width):
    """A window of this width, with scripts or as without."""
    window = Window(chromium, site, width=width)
    if not script:
        window.page.route("**/*", without_script)
    return window


def without_script(route):
    """Show a page as a browser without scripts does: axe itself needs one that has them."""
    if route.request.resource_type != "document":
        route.continue_()
        return
    answer = route.fetch()
    shown = re.sub(r"</?noscript>|<script.*?</script>", "", answer.text())
    route.fulfill(response=answer, body=shown)


def test_the_dark_scheme_has_other_colours_and_nothing_else():
    """So that by night it is enough to judge colours."""
    for name in STYLES:
        text = (Path(__file__).parents[2] / "src" / name).read_text(encoding="utf-8")
        (dark,) = DARK.findall(text)
        assert text.count("prefers-color-scheme") == 1
        names = [one.split(":")[0].strip() for one in dark.split(";") if one.strip()]
        assert [one for one in names if not re.fullmatch("--.*|color-scheme", one)] == []


def test_axe_finds_what_is_wrong(chromium, states):
    here = Window(chromium, states[0])
    here.go("/")
    here.page.evaluate("document.querySelector('h1').innerHTML = '<img src=x>'")
    assert "image-alt" in {name for _, name, _ in judged(here.page)}
    here.go("/")
    # a colour that is meant for paper
    here.page.evaluate("document.querySelector('h1').style.color = '#1a1a1a'")
    found = judged(here.page)
    assert {scheme for scheme, name, _ in found if name == "color-contrast"} == {"dark"}
    here.context.close()


def test_a_lost_question_has_one_text(chromium, states):
    site, _, idents = states
    here = Window(chromium, site)
    here.go(f"/q/{idents['lost']}")
    assert "It was booked, so it is paid for" in here.words()
    answer = here.context.request.get(site.at(f"/q/{idents['lost']}/report"))
    assert answer.status == 410
    here.context.close()
