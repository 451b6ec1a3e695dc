"""What an analyst, a steward and an auditor do in a real browser, with and without JavaScript; each
page judged by axe-core, and by keyboard alone.
"""

import re
import time
from pathlib import Path

import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk
from helpers.hostile import HOSTILE
from helpers.servers import PASSWORD, peopled, served
from helpers.visits import made, question
from helpers.windows import Looking

BOTH = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
AXE = (Path(__file__).parents[1] / "vendor/axe.min.js").read_text(encoding="utf-8")
FOUND = "axe.run().then(found => found.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 160))]))"
WIDTHS = (390, 768, 1280)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with served(peopled(made(tmp_path_factory.mktemp("stories")))) as found:
        yield found


class Person(Looking):
    """Somebody with a browser."""

    def sign_in(self, name, password=PASSWORD):
        self.go("/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("heading", name="Tables").wait_for()
        return self


@pytest.fixture
def person(chromium, here):
    made_ = []

    def make(name="", script=True, width=1280):
        made_.append(Person(chromium, here, script, width))
        return made_[-1].sign_in(name) if name else made_[-1]

    yield make
    for one in made_:
        one.context.close()
        assert one.faults == []


@BOTH
def test_an_analyst_asks_and_reads_in_eight_clicks(person, script):
    """From the form of the password to a question that is asked; then the answer, a token, and out."""
    mine = person(script=script)
    page = mine.page
    clicks = []
    rho = "0.03" if script else "0.04"

    def click(what):
        clicks.append(1)
        what.click()

    mine.go("/")
    page.get_by_label("Name").fill("a.meier")
    page.get_by_label("Password").fill(PASSWORD)
    click(page.get_by_role("button", name="Sign in"))
    click(page.get_by_role("link", name="Ask Visits to a doctor, 2024"))
    assert page.get_by_label("Who asks").count() == 0
    page.get_by_label("Formula").fill("visit ~ age + health")
    page.get_by_label("ρ").fill(rho)
    click(page.get_by_role("button", name="Forecast"))
    page.get_by_role("heading", name="Forecast").wait_for(timeout=300_000)
    click(page.get_by_role("link", name=f"Ask for ρ = {rho}", exact=True))
    assert "Never refunded." in mine.words()
    click(page.get_by_role("button", name="Ask: costs"))
    page.get_by_role("heading", name=re.compile("queued|claimed|booked|answered")).wait_for()
    assert len(clicks) <= 8
    page.get_by_role("link", name="Read the report").click(timeout=300_000)
    page.get_by_role("heading", name="Visits to a doctor, 2024").wait_for()
    page.go_back()
    with page.expect_download() as download:
        page.get_by_role("link", name="result.json").click()
    result = dp.FitResult.from_json(download.value.path().read_text(encoding="utf-8"))
    assert "age" in result.names
    page.get_by_role("link", name="Questions").click()
    page.get_by_role("heading", name="Your questions").wait_for()
    page.get_by_role("link", name="Tokens").click()
    page.get_by_label("What it is for").fill("laptop")
    page.get_by_role("checkbox", name="ask").check()
    page.get_by_role("button", name="Make it").click()
    assert re.fullmatch(r"dpinfer-[\w-]{43}", page.locator(".secret").inner_text())
    page.get_by_role("button", name="Revoke laptop").first.click()
    page.get_by_text("The token was revoked").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    mine.go("/t/visits")
    page.get_by_role("heading", name="Sign in").wait_for()


@BOTH
def test_a_steward_invites_allows_decides_and_revokes(person, here, script):
    boss = person("boss", script)
    page = boss.page
    name = f"guest {script}"
    page.get_by_role("link", name="Accounts").click()
    page.get_by_label("User name").fill(name)
    page.get_by_role("button", name="Open the account").click()
    invitation = page.locator(".secret").inner_text()
    guest = person(script=script)
    guest.go("/")
    guest.page.get_by_role("link", name="I have an invitation").click()
    guest.page.get_by_label("Invitation").fill(invitation)
    for label in ("Password, of 12", "Repeat password"):
        guest.page.get_by_label(label).fill(PASSWORD)
    guest.page.get_by_role("button", name="Set the password").click()
    guest.page.get_by_text("The password is set").wait_for()
    guest.sign_in(name)
    assert "There is no table here that you may ask." in guest.words()
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("link", name="Analysts of").click()
    page.get_by_label("User name").fill(name)
    page.get_by_label("Allowance, ρ", exact=True).last.fill("0.5")
    page.get_by_role("button", name="Give the allowance").click()
    page.get_by_text("The analyst was added").wait_for()
    guest.go("/t/visits/confirm?formula=visit+~+income&rho=0.3")
    assert "The steward decides on it first." in guest.words()
    guest.page.get_by_role("button", name="Ask: costs").click()
    guest.page.get_by_text("It waits for the steward").wait_for()
    page.get_by_role("link", name="Approvals").click()
    card = page.locator("section.card").filter(has_text=name)
    card.get_by_label("Message to the analyst").fill("Too dear for what it tells.")
    card.get_by_role("button", name="Decline").click()
    guest.page.reload()
    assert "Too dear for what it tells." in guest.words()
    page.get_by_role("link", name="Accounts").click()
    page.get_by_role("button", name=f"Close the account of {name}").click()
    page.get_by_text("The account was closed").wait_for()
    guest.page.reload()
    guest.page.get_by_role("heading", name="Sign in").wait_for()
    desk = Desk.open(here.folder)
    about = (event.who for event in desk.journal() if event.facts.get("person") == name)
    assert next(about) == "boss"


def test_an_auditor_reads_everything_and_changes_nothing(person, here):
    checker = person("checker")
    page = checker.page
    page.get_by_role("link", name="Visits to a doctor, 2024", exact=True).click()
    assert page.locator("main form").count() == 0
    with page.expect_download() as download:
        page.get_by_role("link", name="Ledger (JSON lines)").click()
    assert download.value.path().read_text(encoding="utf-8").count("\n") >= 1
    page.get_by_role("link", name="Journal").click()
    page.get_by_role("link", name="Verify").click()
    page.get_by_role("button", name="Verify now").click()
    page.get_by_role("heading", name="Verified").wait_for()
    assert page.get_by_role("link", name="Approvals").count() == 0


def test_by_keyboard_alone(person):
    """Sign in and reach a question's form without a pointer."""
    mine = person()
    page = mine.page
    mine.go("/sign-in")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "person":
            break
    page.keyboard.type("b.okafor")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Tables").wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").startswith("Ask"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Ask a question").wait_for()


def test_texts_of_people_stay_texts(person):
    """Names, words and tokens that would be scripts are shown as they were written."""
    boss = person("boss")
    boss.context.add_init_script("window.pwned = () => console.error('CSP: pwned')")
    page = boss.page
    shown = HOSTILE[:: len(HOSTILE) // 8]
    for place, text in enumerate(shown):
        one_line = " ".join(text.split())[:60]
        page.get_by_role("link", name="Tokens").click()
        page.get_by_label("What it is for").fill(one_line)
        page.get_by_role("button", name="Make it").click()
        page.get_by_role("link", name="Accounts").click()
        page.get_by_label("User name").fill(f"{place} {one_line}")
        page.get_by_label("Full name").fill(one_line)
        page.get_by_role("button", name="Open the account").click()
        assert alike(one_line) in alike(boss.words())
        boss.go("/tokens")
        assert alike(one_line) in alike(boss.words())
    boss.go("/journal")


def alike(text):
    """A text but for white space, which a browser shows as it likes."""
    return "".join(text.split())


def pages(role, idents):
    yield from ("/", "/t/visits", "/q", "/tokens", "/password", "/nothing", f"/q/{idents[0]}")
    if role != "auditor":
        yield "/t/visits/ask"
        yield "/t/visits/confirm?formula=visit+~+age&rho=0.1&by=a.meier"
    if role != "analyst":
        yield from ("/accounts", "/journal", "/verify?go=verify", "/t/visits/people")
    if role == "steward":
        yield from ("/approvals", f"/q/{idents[1]}")


def test_axe_finds_nothing(person, here):
    """Every page of every role, at three widths, and nothing wider than its window."""
    desk = Desk.open(here.folder)
    asked = [desk.ask("visits", question(rho=rho), "a.meier", again=True) for rho in (0.01, 0.22)]
    idents = [ticket.id for ticket in asked]
    deadline = time.monotonic() + 300
    while not desk.ticket(idents[0]).ended and time.monotonic() < deadline:
        time.sleep(0.2)  # one that is under way looks again every second, which axe does not like
    assert desk.ticket(idents[0]).ended
    faults = []
    seen = 0
    for name, role in (
        ("", ""),
        ("a.meier", "analyst"),
        ("boss", "steward"),
        ("checker", "auditor"),
    ):
        one = person(name)
        paths = list(pages(role, idents)) if role else ["/sign-in", "/join"]
        for path in paths:
            one.go(path)
            for width in WIDTHS:
                one.page.set_viewport_size({"width": width, "height": 900})
                one.page.evaluate(AXE)
                faults += [(role, path, width, *fault) for fault in one.page.evaluate(FOUND)]
                if one.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    faults.append((role, path, f"wider than {width} pixels"))
                seen += 1
    assert faults == []
    assert seen == 3 * (2 + 9 + 15 + 11)
    desk.decide(idents[1], False)
