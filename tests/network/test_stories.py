"""What an analyst, a steward and an auditor do in a real browser, with and without JavaScript; each
page judged by axe-core, and by keyboard alone.
"""

import re
import time

import pytest
from playwright.sync_api import expect

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from helpers.hostile import HOSTILE
from helpers.servers import PASSWORD, peopled, served
from helpers.visits import made, question
from helpers.windows import Looking, judged

BOTH = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])
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
    assert page.get_by_role("combobox", name="Analyst").count() == 0
    page.get_by_label("Formula").fill("visit ~ age + health")
    page.get_by_label("ρ").fill(rho)
    click(page.get_by_role("button", name="Forecast"))
    wait_for(page.get_by_role("heading", name="Forecast"), page, script)
    click(page.get_by_role("link", name=f"Ask for ρ = {rho}", exact=True))
    assert "Never refunded." in mine.words()
    click(page.get_by_role("button", name="Ask: costs"))
    page.get_by_role("heading", name=re.compile("In line|Running|Ready")).wait_for()
    assert len(clicks) <= 8
    report = page.get_by_role("link", name="Read the report")
    wait_for(report, page, script)
    report.click()
    page.get_by_role("heading", name="Visits to a doctor, 2024").wait_for()
    page.get_by_role("link", name="Back to the question").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="result (JSON)").click()
    result = dp.FitResult.from_json(download.value.path().read_text(encoding="utf-8"))
    assert "age" in result.names
    page.get_by_role("link", name="Questions").click()
    page.get_by_role("heading", name="Your questions").wait_for()
    page.get_by_role("link", name="Tokens").click()
    page.get_by_label("Name of the token").fill("laptop")
    page.get_by_role("checkbox", name="ask").check()
    page.get_by_role("button", name="Make the token").click()
    assert re.fullmatch(r"dpinfer-[\w-]{43}", page.locator(".secret").inner_text())
    assert f'site = dp.connect("{mine.site.origin}")' in mine.words()
    assert f'site <- desk_connect("{mine.site.origin}")' in mine.words()
    expect(page.get_by_role("button", name=re.compile("^Copy"))).to_have_count(3 * script)
    page.get_by_role("button", name="Revoke laptop").first.click()
    page.get_by_text("The token was revoked").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_text("You are signed out.").wait_for()
    mine.go("/t/visits")
    page.get_by_role("heading", name="Sign in").wait_for()


def invited(boss, guest, name, script):
    """From the form of the steward to the first page of a new analyst, by the link of the invitation."""
    page = boss.page
    page.get_by_role("link", name="Accounts").click()
    page.get_by_label("User name").fill(name)
    page.get_by_role("button", name="Open the account").click()
    link = page.locator(".secret").inner_text()
    assert link.startswith(f"{boss.site.origin}/join#")
    copy = page.get_by_role("button", name="Copy the link")
    expect(copy).to_have_count(int(script))
    if script:
        boss.context.grant_permissions(["clipboard-read", "clipboard-write"])
        copy.click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == link
    entered(guest, link, script)
    guest.page.get_by_role("heading", name=f"Welcome, {name}").wait_for()
    assert "#" not in guest.page.url
    for label in ("Password, of 12", "Repeat password"):
        guest.page.get_by_label(label).fill(PASSWORD)
    guest.page.get_by_role("button", name="Set the password and sign in").click()
    guest.page.get_by_text("Your password is set, and you are signed in.").wait_for()
    assert "There is no table here that you may ask." in guest.words()
    entered(guest, link, script)  # it works once
    guest.page.get_by_role("alert").filter(has_text="this invitation was used").wait_for()
    return guest


def entered(guest, link, script):
    """Follow the link of an invitation; without JavaScript it is pasted, too."""
    guest.page.goto(link)
    if not script:
        guest.page.get_by_label("Invitation").fill(link)
        guest.page.get_by_role("button", name="Continue").click()


@BOTH
def test_a_session_that_ends_leads_back_to_the_typed_question(person, here, script):
    """Also where the script of the page noticed it, and also when the question was to be asked."""
    mine = person("b.okafor", script)
    page = mine.page
    mine.go("/t/visits/ask")
    page.get_by_label("Formula").fill("visit ~ log(age)")
    page.get_by_label("ρ").fill("0.002")
    end_sessions(here)
    page.get_by_role("button", name="Forecast").click()
    signed_in_again(page)
    page.get_by_role("heading", name="Ask a question").wait_for()
    assert page.get_by_label("Formula").input_value() == "visit ~ log(age)"
    assert page.get_by_label("ρ").input_value() == "0.002"
    mine.go("/t/visits/confirm?formula=visit+~+age&rho=0.002")
    page.get_by_label("Title").fill("Typed late")
    page.get_by_label("Title").blur()
    end_sessions(here)
    page.get_by_role("button", name="Ask: costs").click()
    signed_in_again(page)
    page.get_by_role("heading", name="Ask this for").wait_for()
    assert page.get_by_label("Title").input_value() == ("Typed late" if script else "")


def wait_for(awaited, page, script):
    """The page looks again by itself or, without a script, when it is told to."""
    deadline = time.monotonic() + 200
    while not awaited.count():
        assert time.monotonic() < deadline
        page.wait_for_timeout(500)
        if not script:
            link = page.get_by_role("link", name="Look again")
            if link.count():
                link.click()
                page.wait_for_load_state()


def end_sessions(here):
    """All sessions were used for the last time long ago."""
    with Desk.open(here.folder).register.write() as sql:
        sql("UPDATE sessions SET seen = '2020-01-01T00:00:00+00:00'")


def signed_in_again(page):
    page.get_by_role("heading", name="Sign in").wait_for()
    page.get_by_label("Name").fill("b.okafor")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


@BOTH
def test_a_steward_invites_allows_decides_and_revokes(person, here, script):
    boss = person("boss", script)
    page = boss.page
    name = f"guest {script}"
    guest = invited(boss, person(script=script), name, script)
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("link", name="Analysts of").click()
    page.get_by_label("User name").fill(name)
    page.get_by_label("Allowance", exact=True).last.fill("ρ = 0.5")
    page.get_by_role("button", name="Give the allowance").click()
    page.get_by_text(f"{name} was added and may now ask this table.").wait_for()
    guest.go("/t/visits/confirm?formula=visit+~+income&rho=0.3")
    assert "The steward decides on it first." in guest.words()
    guest.page.get_by_role("button", name="Ask: costs").click()
    guest.page.get_by_text("It waits for the steward").wait_for()
    page.get_by_role("link", name="Approvals").click()
    card = page.locator("section.card").filter(has_text=name)
    card.get_by_role("button", name="Decline").click()
    card.get_by_role("alert").filter(has_text="a declined question needs a reason").wait_for()
    card.get_by_label("Message to the analyst").fill("Too dear for what it tells.")
    card.get_by_role("button", name="Decline").click()
    page.get_by_text("You declined visit ~ income").wait_for()
    guest.page.reload()
    assert "Too dear for what it tells." in guest.words()
    page.get_by_role("link", name="Accounts").click()
    page.get_by_role("button", name=f"Close the account of {name}").click()
    page.get_by_role("heading", name=f"Close the account of {name}?").wait_for()
    assert name in {one.person for one in Accounts(Desk.open(here.folder).register).all()}
    page.get_by_role("button", name="Close the account").click()
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
        page.get_by_label("Name of the token").fill(one_line)
        page.get_by_role("button", name="Make the token").click()
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
    """Every page of every role, at three widths, light and dark, and nothing wider than its window."""
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
            faults += [(role, path, *fault) for fault in at_each_width(one.page)]
        seen += len(paths)
    assert seen == 2 + 9 + 15 + 11
    for path, button in (
        ("/tokens", "Make the token"),
        ("/accounts", "Invite a.meier anew"),
        ("/accounts", "Close the account of a.meier"),
    ):
        boss = person("boss")
        boss.go(path)
        boss.page.get_by_role("button", name=button).click()
        boss.page.wait_for_load_state()
        faults += [(button, *fault) for fault in at_each_width(boss.page)]
    guest = person()
    secret = Accounts(desk.register).invite("stranger", "steward")
    guest.go(f"/join#{secret}")
    guest.page.get_by_role("heading", name="Welcome, stranger").wait_for()
    faults += [("welcome", *fault) for fault in at_each_width(guest.page)]
    assert faults == []
    desk.decide(idents[1], False, "the test is over")


def at_each_width(page):
    """What axe finds at each width."""
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        found += [(width, *fault) for fault in judged(page)]
    return found
