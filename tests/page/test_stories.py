"""What people do at the page, in a real browser, with and without JavaScript."""

import json
import re
import time

import pytest
from playwright.sync_api import expect

import dpinfer as dp
from dpinfer_desk.desk import Desk
from helpers.visits import SLOT, made, question
from helpers.windows import Window, opened

WAITS = ("In line", "Running", "Ready")
BOTH = pytest.mark.parametrize("script", [True, False], ids=["script", "plain"])


def asked(window, rho, by="a.meier", formula=""):
    """From the table to the page of the question, as the form leads."""
    page = window.page
    page.get_by_role("link", name="Tables").click()
    page.get_by_role("link", name="Visits to a doctor, 2024", exact=True).click()
    page.get_by_role("link", name="Ask a question").click()
    page.get_by_role("combobox", name="Analyst", exact=True).select_option(by)
    if formula:
        page.get_by_label("Formula").fill(formula)
    else:
        page.get_by_role("combobox", name="Outcome", exact=True).select_option("visit")
        page.get_by_role("checkbox", name=re.compile("^age")).check()
        page.get_by_role("checkbox", name="health").check()
    page.get_by_label("ρ").fill(str(rho))
    page.get_by_role("button", name="Forecast").click()
    page.get_by_role("heading", name="Forecast").wait_for()
    assert "±" in page.inner_text("#forecast")
    page.get_by_role("link", name=f"Ask for ρ = {rho:g}", exact=True).click()
    page.get_by_role("heading", name=re.compile("^Ask this for")).wait_for()
    assert "Never refunded." in window.words()


def answered(window, script=True):
    """Wait as a person does: the page looks again by itself or, without a script, when it is told to."""
    page = window.page
    deadline = time.monotonic() + 60
    while not script and not page.get_by_text("Ready", exact=True).count():
        assert time.monotonic() < deadline
        page.wait_for_timeout(500)
        look_again(page)
    page.get_by_text("Ready", exact=True).first.wait_for(timeout=60_000)
    return page.get_by_role("link", name="Read the report")


def look_again(page):
    page.get_by_role("link", name="Look again").click()
    page.wait_for_load_state()


@BOTH
def test_from_the_schema_to_the_report(window, script):
    """Ask by ticks, see the forecast, confirm, wait, read, and find it among the answers."""
    here = window(script)
    page = here.page
    here.go("/t/visits")
    assert "18 to 100 years" in here.words()
    asked(here, 0.11 if script else 0.12)
    assert "visit ~ age + health" in here.words()
    assert "It joins the line at once." in here.words()
    page.get_by_label("Title").fill("Does age matter?")
    page.get_by_role("button", name="Ask: costs").click()
    page.wait_for_url(re.compile(r"/q/[0-9a-f]{32}$"))
    loads = []
    page.on("load", lambda _: loads.append(1))
    seen = set()
    deadline = time.monotonic() + 60
    while "Ready" not in seen and time.monotonic() < deadline:
        words = here.words()
        state = next((state for state in WAITS if f"\n{state}\n" in words), "")
        seen.add(state)
        assert state != "Running" or "This time does not depend on the data" in words
        assert page.locator("progress, [role=progressbar]").count() == 0
        if state == "Running" and script:
            expect(page.get_by_role("timer")).to_have_text(re.compile(r"^in \d+ s$"))
        page.wait_for_timeout(200)
        if not script and state != "Ready":
            look_again(page)
    assert {"Running", "Ready"} <= seen
    assert bool(loads) != script
    page.get_by_role("heading", name="Estimates").wait_for()
    assert page.locator("svg.wide .inner").count() >= 1
    ident = page.url.rpartition("/")[2].partition("?")[0]
    page.get_by_role("link", name="Read the report").click()
    page.get_by_text("Differentially private regression").wait_for()
    page.get_by_role("link", name="Back to the question").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="result (JSON)").click()
    result = dp.FitResult.from_json(download.value.path().read_text(encoding="utf-8"))
    assert "age" in result.names
    desk = Desk.open(here.site.folder)
    ticket = desk.ticket(ident)
    assert result.privacy.release == ticket.release
    here.go("/t/visits")
    page.get_by_role("link", name="report on visit ~ age + health").first.wait_for()
    assert page.locator("svg.wide").first.is_visible()  # the burn-down


@BOTH
def test_a_formula_is_a_form_and_a_form_is_a_formula(window, script):
    here = window(script)
    page = here.page
    here.go("/t/visits/ask")
    formula = page.get_by_label("Formula")
    formula.fill("visit ~ log(age) + health + age:health")
    if script:
        formula.blur()
    else:
        page.get_by_role("button", name="Forecast").click()
    expect(page.get_by_label("age as")).to_have_value("log")
    assert page.get_by_label("Interaction 1, first column").input_value() == "1"
    assert page.get_by_role("checkbox", name="health").is_checked()
    page.get_by_role("checkbox", name="health").uncheck()
    page.get_by_role("checkbox", name="income").check()
    page.get_by_label("income as").select_option("sqrt")
    if not script:
        page.get_by_role("button", name="Forecast").click()
    expect(page.get_by_label("Formula")).to_have_value(
        "visit ~ log(age) + sqrt(income) + age:health"
    )
    formula = page.get_by_label("Formula")
    formula.fill("visit ~ ns(age, 40, 60)")
    if script:
        formula.blur()
    else:
        page.get_by_role("button", name="Forecast").click()
    page.get_by_text("The formula says more than this form has fields for").wait_for()
    assert formula.input_value() == "visit ~ ns(age, 40, 60)"


@BOTH
def test_the_forecast_is_in_place_with_the_script(window, script):
    """With it the page is not loaded again; without it it is."""
    here = window(script)
    page = here.page
    here.go("/t/visits/ask")
    page.get_by_label("Formula").fill("visit ~ age")
    loads = []
    page.on("load", lambda _: loads.append(1))
    page.get_by_role("button", name="Forecast").click()
    page.get_by_role("heading", name="Forecast").wait_for()
    page.wait_for_load_state()  # what is read may be there before the page is
    assert bool(loads) != script
    assert page.locator("#forecast table").count() == 2
    assert page.locator("#forecast svg.wide circle").count() >= 2


@BOTH
def test_errors_have_a_remedy(window, script):
    here = window(script)
    page = here.page
    here.go("/t/visits/ask")
    for formula, words in (
        ("visit ~ agee", "did you mean 'age'?"),
        ("visit ~ (age + income)**12", "a power goes up to 9"),
        ("", "tick an outcome, or write a formula"),
    ):
        page.get_by_label("Formula").fill(formula)
        page.get_by_role("button", name="Forecast").click()
        page.get_by_role("alert").filter(has_text=words).wait_for()
        assert page.locator("#fault-formula").inner_text().count(words) == 1
        assert page.get_by_label("Formula").input_value() == formula


@BOTH
def test_a_budget_is_chosen_and_explained(window, script):
    """By a button, and by typing: the picture follows; Enter in a field makes the forecast and no choice."""
    here = window(script)
    page = here.page
    here.go("/t/visits/ask")
    page.get_by_label("Formula").fill("visit ~ age")
    page.get_by_role("button", name="Strong").click()
    expect(page.get_by_label("ε", exact=True)).to_have_value("0.5")
    expect(page.locator("#meaning")).to_contain_text("can become at most 9 in 100")
    assert page.get_by_label("Formula").input_value() == "visit ~ age"
    page.get_by_label("ε", exact=True).fill("1,0")
    if script:
        page.get_by_label("ε", exact=True).blur()
        expect(page.locator("#meaning")).to_contain_text("can become at most 14 in 100")
    page.get_by_label("ε", exact=True).press("Enter")
    page.get_by_role("heading", name="Forecast").wait_for()
    expect(page.get_by_label("ε", exact=True)).to_have_value("1,0")
    expect(page.locator("#meaning")).to_contain_text("can become at most 14 in 100")
    chart = page.locator("#forecast svg.wide").bounding_box()
    assert chart["y"] < page.locator("#forecast table").first.bounding_box()["y"]


def test_where_the_desk_cannot_be_reached(window):
    """The page says that nothing was spent, keeps what was typed, and works when the network is back."""
    here = window()
    page = here.page
    here.go("/t/visits/ask")
    page.get_by_label("Formula").fill("visit ~ age")
    here.context.set_offline(True)
    page.get_by_role("button", name="Forecast").click()
    page.get_by_text("Nothing was asked, and nothing was spent.").wait_for()
    assert page.get_by_label("Formula").input_value() == "visit ~ age"
    here.context.set_offline(False)
    page.get_by_role("button", name="Forecast").click()
    page.get_by_role("heading", name="Forecast").wait_for()
    here.go("/t/visits/confirm?formula=visit+~+1&rho=0.004&by=a.meier")
    page.get_by_label("Title").fill("Typed")
    here.context.set_offline(True)
    page.get_by_role("button", name="Ask: costs").click()
    page.get_by_text("a question that is sent twice is asked, and paid, once").wait_for()
    here.context.set_offline(False)
    page.get_by_role("button", name="Ask: costs").click()
    page.wait_for_url(re.compile(r"/q/[0-9a-f]{32}$"))
    page.get_by_role("heading", name="Typed").wait_for()


def test_times_are_those_of_the_reader(chromium, site):
    """With the script; without it they are in UTC."""
    context = chromium.new_context(timezone_id="Asia/Kolkata", locale="en-GB")
    page = context.new_page()
    page.goto(site.address)
    page.wait_for_url(site.at())
    shown = page.locator("footer time")
    assert "UTC" not in shown.inner_text()
    assert "UTC" in shown.get_attribute("title")
    assert "Times are in Asia/" in page.inner_text("footer")
    context.close()


@BOTH
def test_the_steward_approves_and_declines(window, script):
    here = window(script)
    page = here.page
    desk = Desk.open(here.site.folder)
    extra = 0.0 if script else 0.01
    first = desk.ask("visits", question("visit ~ income", 0.21 + extra), "b.okafor")
    second = desk.ask("visits", question("visit ~ health", 0.22 + extra), "b.okafor")
    assert {first.state, second.state} == {"waiting"}
    here.go("/approvals")
    card = page.get_by_role("region", name="visit ~ income")
    card.get_by_role("button", name="Decline").click()
    fault = page.get_by_role("alert").filter(has_text="a declined question needs a reason")
    fault.wait_for()
    assert desk.ticket(first.id).state == "waiting"
    card.get_by_label("Message to the analyst").fill("Too dear: halve it.")
    card.get_by_role("button", name="Decline").click()
    page.get_by_text("You declined visit ~ income of b.okafor. One more waits.").wait_for()
    assert desk.ticket(first.id).state == "declined"
    page.get_by_role("region", name="visit ~ health").get_by_role("button", name="Approve").click()
    page.get_by_text("You approved visit ~ health of b.okafor. No other").wait_for()
    page.get_by_role("link", name="visit ~ health").click()
    answered(here, script)
    assert desk.result(second.id).names
    assert desk.ticket(second.id).decider


@BOTH
def test_a_question_is_withdrawn(window, script):
    here = window(script)
    desk = Desk.open(here.site.folder)
    ticket = desk.ask("visits", question("visit ~ 1", 0.25 if script else 0.26), "a.meier")
    here.go(f"/q/{ticket.id}")
    here.page.get_by_role("button", name="Withdraw").click()
    here.page.get_by_text("It was withdrawn. Nothing was spent.").wait_for()


@BOTH
def test_a_question_file(window, script):
    here = window(script)
    page = here.page
    here.go("/t/visits/ask")
    page.get_by_text("Open a question file").click()
    page.get_by_label("Analyst who sent it").select_option("b.okafor")
    page.get_by_label("Its text").fill(
        'table = "visits"\nformula = "visit ~ age*health"\nrho = 0.05\n'
    )
    page.get_by_role("button", name="Open it").click()
    page.get_by_role("heading", name="Forecast").wait_for()
    assert page.get_by_role("combobox", name="Analyst", exact=True).input_value() == "b.okafor"
    assert page.get_by_label("ρ").input_value() == "0.05"
    here.go("/t/visits/ask?formula=visit+~+age&epsilon=0.5&delta=1e-6&by=a.meier&go=forecast")
    assert page.get_by_label("ε", exact=True).input_value() == "0.5"  # though the total is in ρ
    page.get_by_role("link", name="Ask for ε = 0.5", exact=True).wait_for()
    here.go("/t/visits/ask")
    page.get_by_text("Open a question file").click()
    page.get_by_label("Its text").fill(
        'formula = "visit ~ age"\nrho = 0.05\nledger = "/etc/passwd"\n'
    )
    page.get_by_role("button", name="Open it").click()
    page.get_by_role("alert").filter(has_text="ledger").wait_for()


@BOTH
def test_people_and_their_allowances(window, script):
    here = window(script)
    page = here.page
    name = f"c.lindqvist {script} <b>"
    here.go("/t/visits/people")
    page.get_by_label("User name").fill(name)
    page.get_by_role("region", name="Give somebody an allowance").get_by_label("Allowance").fill(
        "0.02"
    )
    page.get_by_role("button", name="Give the allowance").click()
    card = page.get_by_role("region", name=name)
    card.get_by_label("Allowance of").fill("ρ = 0.03")
    card.get_by_role("button", name="Change").click()
    page.get_by_text(f"The allowance of {name} was changed.").wait_for()
    desk = Desk.open(here.site.folder)

    def choose(button):
        card = page.get_by_role("region", name=name)
        card.get_by_label("Reason (recorded").fill(f"as agreed: {button}")
        card.get_by_role("button", name=button).click()

    for button, state in (("Pause", "paused"), ("Resume", "active")):
        choose(button)
        page.get_by_role("heading", name=f"{name} {state}").wait_for()
    choose("Revoke")
    page.get_by_role("heading", name=f"Revoke the access of {name} to visits?").wait_for()
    assert desk.analyst("visits", name).state == "active"
    page.get_by_role("button", name="Revoke the access").click()
    page.get_by_role("heading", name=f"{name} revoked").wait_for()
    found = desk.analyst("visits", name)
    assert (found.amount, found.state) == (0.03, "revoked")
    assert desk.journal()[-1].facts["reason"] == "as agreed: Revoke"


def test_an_allowance_that_does_not_suffice(window):
    """Told before anything is asked, and refused if it is sent all the same."""
    here = window()
    here.go("/t/visits/confirm?formula=visit+~+age&rho=1.5&by=a.meier")
    assert "It cannot be asked" in here.words()
    assert here.page.get_by_role("button", name="Ask").count() == 0


@BOTH
def test_journal_export_and_verification(window, script):
    here = window(script)
    page = here.page
    page.get_by_role("link", name="Journal").click()
    assert "steward made the desk Health statistics." in here.words()
    page.get_by_label("Person").fill("b.okafor")
    page.get_by_label("Kind").select_option("allowances")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("set the allowance of b.okafor at visits").first.wait_for()
    assert "a.meier at visits" not in page.inner_text("main table")
    page.get_by_label("Person").fill("nobody")
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_text("No event was found.").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 5
    assert all(json.loads(line)["hash"] for line in lines)
    page.get_by_role("link", name="Verify").click()
    page.get_by_label("Compare the bytes").check()
    page.get_by_role("button", name="Verify now").click()
    page.get_by_role("heading", name="Verified").wait_for()


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A desk of its own, for what would disturb others."""
    with opened(made(tmp_path_factory.mktemp("other"))) as found:
        yield found


@BOTH
def test_a_table_is_paused(window, other, script):
    here = window(script, at=other)
    page = here.page
    here.go("/t/visits")
    page.get_by_label("Reason (recorded").fill("the data are updated")
    page.get_by_role("button", name="Pause the table").click()
    page.get_by_text("This table is paused: the data are updated.").wait_for()
    here.go("/t/visits/confirm?formula=visit+~+age&rho=0.05&by=a.meier")
    assert "It cannot be asked" in here.words()
    here.go("/t/visits")
    page.get_by_label("Why it may be asked again").fill("the same people")
    page.get_by_role("button", name="Open the table again").click()
    page.get_by_text("The table may be asked again.").wait_for()
    page.get_by_label("none", exact=True).check()
    page.get_by_role("button", name="Change the policy").click()
    page.get_by_text("no question waits for the steward").wait_for()


def test_asked_again_shows_the_answer_first_and_paying_twice_needs_a_tick(window, other):
    here = window(at=other)
    page = here.page
    desk = Desk.open(other.folder)
    ticket = desk.ask("visits", question("visit ~ age", 0.06), "a.meier")
    deadline = time.monotonic() + 60
    while desk.ticket(ticket.id).state != "answered" and time.monotonic() < deadline:
        time.sleep(0.2)
    here.go("/t/visits/confirm?formula=visit+~+age&rho=0.06&by=a.meier")
    assert "This was answered already, and that is free to read" in here.words()
    page.get_by_role("button", name="Ask: costs").click()
    assert "/confirm" in page.url  # the browser asks for the tick
    page.get_by_label("Ask and pay again").check()
    page.get_by_role("button", name="Ask: costs").dblclick()
    page.wait_for_url(re.compile(r"/q/[0-9a-f]{32}$"))
    same = [one for one in desk.tickets() if one.question.digest() == ticket.question.digest()]
    assert len(same) == 2


def test_an_answer_has_its_public_time_and_not_before(window, other):
    """Delivery - booking is the slot, as the page tells it."""
    here = window(at=other)
    desk = Desk.open(other.folder)
    ticket = desk.ask("visits", question("visit ~ income", 0.05), "b.okafor")
    here.go(f"/q/{ticket.id}")
    page = here.page
    page.get_by_text("The answer is shown at").wait_for(timeout=60_000)
    before = here.context.request.get(other.at(f"/q/{ticket.id}/report"))
    assert page.locator("#outcome").get_attribute("aria-live") == "polite"
    assert before.status == 400
    assert "There is no answer yet" in before.text()
    answered(here)
    found = desk.ticket(ticket.id)
    assert found.response_time == SLOT


def test_keyboard_alone(chromium, site):
    """From the tables to a question that is asked, with Tab, Space, Enter and letters."""
    here = Window(chromium, site)
    page = here.page
    keys = page.keyboard

    def reach(role, name, most=80):
        for _ in range(most):
            keys.press("Tab")
            there = page.get_by_role(role, name=name).locator(":scope:focus")
            if there.count():
                return
        raise AssertionError(f"no {role} {name!r} is reached")

    reach("link", "Skip to the content")
    keys.press("Enter")
    reach("link", re.compile("^Ask"))
    keys.press("Enter")
    page.get_by_role("heading", name="Ask a question").wait_for()
    reach("combobox", re.compile("^Outcome$"))
    keys.type("visit")
    reach("checkbox", re.compile("^income"))
    keys.press("Space")
    expect(page.get_by_label("Formula")).to_have_value("visit ~ income")
    reach("textbox", "ρ")
    keys.press("Control+A")
    keys.type("0.07")
    reach("button", re.compile("^Forecast"))
    keys.press("Enter")
    page.get_by_role("heading", name="Forecast").wait_for()
    reach("link", "Ask for ρ = 0.07")
    keys.press("Enter")
    page.get_by_role("heading", name=re.compile("^Ask this for")).wait_for()
    reach("button", re.compile("^Ask: costs"))
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/q/[0-9a-f]{32}$"))
    here.context.close()
    assert here.faults == []
