"""500 hostile texts as names of columns, levels, descriptions, titles and reasons: none runs, none is
reported by the content security policy, and each is shown as it was written.
"""

from dataclasses import replace

import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.schema.toml import dump
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.store.tickets import DECLINED, WAITING, Ticket
from helpers.hostile import HOSTILE
from helpers.visits import question
from helpers.windows import Window, opened

SIZE = 50
TABLES = range(len(HOSTILE) // SIZE)
QUESTIONS = [HOSTILE[place : place + 4] for place in range(0, len(HOSTILE), 4)]
WATCH = "window.pwned = () => console.error('CSP: pwned')"


def chunk(number):
    return HOSTILE[SIZE * number : SIZE * (number + 1)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    desk = Desk.create(folder / "desk", HOSTILE[4], (3.0,), who=HOSTILE[9])
    for number in TABLES:
        add_table(desk, folder, number)
    for name in ("a.meier", HOSTILE[7]):
        desk.add_person(name, HOSTILE[8])
        desk.allow("table0", name, 0.2)
    for place, texts in enumerate(QUESTIONS):
        add_question(desk, place, " ".join(texts))
    desk.pause("table9", HOSTILE[11])
    with opened(folder / "desk") as found:
        yield found


def add_table(desk, folder, number):
    """Its columns have 50 of the texts as names and all of them as levels and descriptions."""
    texts = chunk(number)
    columns = {"y": {"type": "outcome", "levels": texts[:2]}}
    for text in texts:
        columns[text] = {
            "type": "category",
            "levels": [text, f"{text} again"],
            "description": text,
            "source": text,
        }
    document = {"title": texts[0], "unit": "one person", "columns": columns}
    (folder / f"{number}.toml").write_text(dump(document), encoding="utf-8")
    cells = {"y": texts[:2]} | {text: [text, f"{text} again"] for text in texts}
    pd.DataFrame(cells).to_parquet(folder / f"{number}.parquet")
    dp.Ledger.create(folder / f"{number}.db", dp.ZCDP(1.0), unit="one person")
    files = [folder / f"{number}.{ending}" for ending in ("parquet", "toml", "db")]
    desk.add_table(f"table{number}", *files, Policy())


def add_question(desk, place, text):
    """A question with the text as its title that was declined with the text as the reason; written
    into the register as the desk does it, without the check, which takes its time and knows no
    title as long as that.
    """
    asked = replace(question("y ~ 1", 0.01), title=text)
    time = desk.clock().isoformat()
    ident = f"{place:032x}"
    ticket = Ticket(ident, "table0", HOSTILE[7], str(place), asked, 0.01, WAITING, time)
    desk.register.add(ticket, desk.who, (1000, 1000))
    facts = {"decided": time, "decider": desk.who, "reason": text}
    desk.register.move(ident, (WAITING,), DECLINED, desk.who, **facts)


@pytest.fixture
def here(chromium, site):
    window = Window(chromium, site)
    window.context.add_init_script(WATCH)
    yield window
    window.context.close()
    assert window.faults == []


def test_names_levels_and_descriptions(here):
    shown = set()
    for number in TABLES:
        here.go(f"/t/table{number}")
        shown |= set(here.page.locator("tbody th code").all_inner_texts())
        values = here.page.locator("td.any").all_inner_texts()
        here.go(f"/t/table{number}/ask")
        boxes = here.page.locator(".choice").count()
        writable = sum("`" not in text for text in chunk(number)) + 1
        assert boxes == writable
        assert any("again" in value for value in values)
    assert {alike(text) for text in HOSTILE} <= {alike(text) for text in shown}


def test_titles_and_reasons(here):
    here.go("/q")
    titles = here.page.locator("tbody th .ends").all_inner_texts()
    expected = [alike("".join(texts)) for texts in QUESTIONS]
    assert set(map(alike, titles)) == set(expected)
    for place, text in enumerate(expected):
        here.go(f"/q/{place:032x}")
        assert alike(here.page.locator("blockquote").inner_text()) == text
        assert alike(here.page.locator("h1").inner_text()) == text


def test_other_places(here):
    for path in (
        "/",
        "/journal",
        "/approvals",
        "/t/table9",
        "/t/table0/people",
        "/verify?go=verify",
    ):
        here.go(path)
    here.go("/q?by=%3Cscript%3Epwned()%3C/script%3E&state=%22%3E%3Csvg%20onload=pwned()%3E")
    for text in HOSTILE[::20]:
        query = here.page.evaluate(
            "text => new URLSearchParams({formula: text, by: text, rho: text, title: text, go: 'forecast'}).toString()",
            text,
        )
        here.go(f"/t/table1/ask?{query}")
        assert alike(here.page.get_by_label("Formula").input_value()) == alike(text)
        assert here.page.get_by_role("alert").count() == 1


def test_the_watch_sees(chromium, site):
    """What would run is heard, and what the policy stops is."""
    window = Window(chromium, site)
    window.context.add_init_script(WATCH)
    window.go("/")
    window.page.evaluate("pwned()")
    assert window.faults == ["CSP: pwned"]
    window.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=pwned()>')"
    )
    window.page.wait_for_timeout(500)
    assert any("script-src" in fault for fault in window.faults)
    window.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\">x</p>')"
    )
    window.page.wait_for_timeout(300)
    assert any("style-src" in fault for fault in window.faults)
    window.context.close()


def alike(text):
    """A text but for white space, which a browser shows as it likes."""
    return "".join(text.split())
