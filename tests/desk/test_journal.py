import json
import re
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import dpinfer as dp
import dpinfer_desk
from dpinfer.privacy import store
from dpinfer.privacy.store import FileStore
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.store.journal import Event, EventFilter, Journal
from dpinfer_desk.store.sentences import KINDS, actions_of
from dpinfer_desk.store.tables import Policy
from helpers.desks import ask, desk_in, hasten, work


def busy_desk(folder):
    desk = desk_in(folder, policy=Policy("each"))
    first, second = ask(desk), ask(desk, rho=0.2)
    desk.decide(first.id, True, "of use")
    desk.decide(second.id, False, "too wide")
    desk.add_person("huber", "of the university")
    desk.allow("visits", "huber", 0.5)
    desk.allow("visits", "huber", 0.7)
    desk.set_state("visits", "huber", "paused", "holiday")
    desk.set_policy("visits", Policy("above", 0.1, shared=False))
    desk.pause("visits", "new rows")
    desk.resume("visits", "the same people")
    return desk


def replayed(events):
    """People, allowances, tables and questions, from the journal alone."""
    state = {"people": set(), "allowances": {}, "tables": {}, "questions": {}}
    for event in events:
        facts = event.facts
        if event.action == "a person was added":
            state["people"].add(facts["person"])
        elif event.action == "a table was added":
            state["tables"][facts["table"]] = ["open", facts["policy"]]
        elif event.action == "policy":
            state["tables"][facts["table"]][1] = facts["policy"]
        elif event.action.startswith("table "):
            state["tables"][facts["table"]][0] = event.action.removeprefix("table ")
        elif event.action == "allowance":
            before = state["allowances"].get((facts["table"], facts["person"]), (0, "active"))
            state["allowances"][facts["table"], facts["person"]] = (facts["amount"], before[1])
        elif event.action.startswith("analyst "):
            key = facts["table"], facts["person"]
            state["allowances"][key] = (state["allowances"][key][0], event.action.split()[1])
        elif event.action == "asked":
            state["questions"][facts["question"]] = facts["state"]
        elif "question" in facts:
            state["questions"][facts["question"]] = event.action
    return state


def test_the_journal_replays_to_the_present(tmp_path):
    desk = busy_desk(tmp_path)
    state = replayed(desk.journal())
    assert state["people"] == {person.name for person in desk.persons()}
    assert state["allowances"] == {
        ("visits", person): given for person, given in desk.register.allowances("visits").items()
    }
    table = desk.table("visits")
    policy = [table.policy.approval, table.policy.up_to, table.policy.shared]
    assert state["tables"] == {"visits": [table.state, policy]}
    assert state["questions"] == {ticket.id: ticket.state for ticket in desk.tickets()}
    assert {event.who for event in desk.journal()} == {"steward"}
    reasons = [event.facts.get("reason") for event in desk.journal()]
    assert {"of use", "too wide", "holiday", "new rows", "the same people"} <= set(reasons)


def test_guarantee_journal_is_a_chain(tmp_path):
    """Changed, removed or put between others: found; through SQL nothing is changed at all."""
    desk = busy_desk(tmp_path)
    path = desk.folder.journal
    assert desk.verify().ok
    lines = [json.loads(line) for line in desk.export_journal().splitlines()]
    assert [line["number"] for line in lines] == list(range(len(desk.journal()) + 1))
    with sqlite3.connect(path) as sql, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sql.execute("UPDATE chain SET body = '' WHERE number = 3")
    for damage in (
        "UPDATE chain SET body = replace(body, 'meier', 'huber') WHERE number = 3",
        "DELETE FROM chain WHERE number = 4",
    ):
        whole = path.read_bytes()
        with sqlite3.connect(path) as sql:
            rules = sql.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            for name, _ in rules:
                sql.execute(f"DROP TRIGGER {name}")
            sql.execute(damage)
            for _, text in rules:
                sql.execute(text)
        sql.close()
        assert not desk.verify().ok
        with pytest.raises(dp.LedgerError, match=r"the journal .* is broken"):
            desk.journal()
        for file in tmp_path.joinpath("desk/shared").glob("journal.db*"):
            file.unlink()
        path.write_bytes(whole)
        assert desk.verify().ok


def test_events_are_taken_over_after_a_crash(tmp_path, monkeypatch):
    """A change is in desk.db and the process dies: the journal has it when the desk is next opened."""
    desk = desk_in(tmp_path)
    number = len(desk.journal())

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "take", dies)
    with pytest.raises(KeyboardInterrupt):
        desk.add_person("huber")
    monkeypatch.undo()
    assert len(desk.journal()) == number
    Desk.open(desk.folder.path)
    assert [event.action for event in desk.journal()][number:] == ["a person was added"]
    with pytest.raises(dp.LedgerError, match="lacks events"):
        Journal(desk.folder.journal).take([Event(number + 9, "", "", "", {})])


def test_a_change_that_fails_leaves_no_event(tmp_path):
    desk = desk_in(tmp_path)
    before = desk.journal()
    with pytest.raises(dp.InputError, match="already"):
        desk.add_person("meier")
    assert desk.journal() == before


def test_a_change_whose_event_the_journal_could_not_take(tmp_path, monkeypatch):
    """It happened, so it is no error; the next change brings both events."""
    desk = desk_in(tmp_path)
    number = len(desk.journal())

    def full(*_):
        raise dp.LedgerError("the disk is full")

    monkeypatch.setattr(Journal, "take", full)
    assert desk.add_person("huber").name == "huber"
    monkeypatch.undo()
    assert len(desk.journal()) == number
    desk.add_person("lang")
    assert [event.facts["person"] for event in desk.journal()[number:]] == ["huber", "lang"]


def test_an_event_costs_the_same_however_long_the_journal_is(tmp_path):
    """The work of SQLite for one event, in its own steps, after few events and after many."""
    desk = desk_in(tmp_path)
    journal = Journal(desk.folder.journal)
    steps = []

    def work(number):
        counted = []
        connect = sqlite3.connect

        def counting(*args, **options):
            connection = connect(*args, **options)
            connection.set_progress_handler(lambda: counted.append(1), 1)
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store.sqlite3, "connect", counting)
            journal.take([Event(number, "", "", "x", {})])
        steps.append(len(counted))

    start = journal.last() + 1
    work(start)
    journal.take([Event(number, "", "", "x", {}) for number in range(start + 1, start + 2000)])
    work(start + 2000)
    assert journal.last() == start + 2000
    assert journal.verify() == ""
    assert steps[1] <= steps[0] + 20


def test_the_last_event_is_read_alone(tmp_path, monkeypatch):
    """However long the journal is: a change of the desk looks at its end."""
    desk = desk_in(tmp_path)
    journal = Journal(desk.folder.journal)
    rows = FileStore(desk.folder.journal).rows()
    monkeypatch.setattr(FileStore, "rows", lambda _: pytest.fail("all of it was read"))
    assert journal.last() == rows[-1][0] > 0
    assert journal.last_event() == rows[-1][:2]
    assert journal.head() == rows[-1][2]
    empty = tmp_path / "empty.db"
    FileStore.create(empty, "header")
    with closing(sqlite3.connect(empty)) as connection:
        connection.executescript("DROP TRIGGER rows_stay; DELETE FROM chain")
    with pytest.raises(dp.LedgerError, match="has no header"):
        FileStore(empty).last()


def test_every_event_is_a_sentence(tmp_path):
    """Who did what to whom, with the reason; and every action that the sources have belongs to a kind."""
    desk = busy_desk(tmp_path)
    accounts = Accounts(desk.register)
    accounts.open("huber", "analyst", "boss")
    accounts.accept(accounts.invite("huber", "boss"), "four words that rhyme")
    ident, _ = accounts.make_token("huber", ("read", "ask"), 30, "laptop")
    accounts.revoke_token("huber", ident)
    accounts.close("huber", "boss")
    events = desk.journal()
    told = desk.sentences(events)
    first, second = (ticket.id[:12] for ticket in desk.tickets())
    for sentence in (
        "steward added the table visits: every question needs approval, and all analysts read all answers.",
        f"steward asked question {first} at visits for meier (y ~ a + b; ρ = 0.1), which needs approval.",
        f"steward approved question {first} of meier at visits (y ~ a + b). Reason: of use",
        f"steward declined question {second} of meier at visits (y ~ a + b). Reason: too wide",
        "steward set the allowance of huber at visits to 0.1 % of the total (ρ = 0.7).",
        "steward paused the access of huber to visits. Reason: holiday",
        "steward resumed the table visits. Reason: the same people",
        "boss gave huber an account as analyst.",
        "huber set a new password.",
        f"huber made the token {ident}, to read and ask for 30 days.",
    ):
        assert sentence in told
    known = {action for kind in KINDS for action in actions_of(kind)}
    assert {event.action for event in events} <= known
    sources = Path(dpinfer_desk.__file__).parent.rglob("*.py")
    literal = re.compile(r'\bevent\(\s*"([^"]+)"')
    stated = {name for path in sources for name in literal.findall(path.read_text("utf-8"))}
    assert len(stated) > 12
    assert stated <= known
    assert known >= {*tickets.OPEN[1:], tickets.BOOKED_STATE, *tickets.ENDED}


def test_events_of_a_run_are_sentences(tmp_path):
    desk = hasten(desk_in(tmp_path))
    ticket = ask(desk)
    work(desk)
    told = desk.sentences(desk.journal())
    about = f"question {ticket.id[:12]} of meier at visits (y ~ a + b)"
    assert f"The worker started {about}; its response time is 0.6 s." in told
    assert f"The worker booked the cost of {about}." in told
    assert f"The worker answered {about}." in told


@pytest.mark.parametrize(
    ("action", "facts"),
    [("a later version did this", {"person": "meier"}), ("allowance", {"person": "meier"})],
)
def test_an_event_that_is_not_known_keeps_its_facts(tmp_path, action, facts):
    desk = desk_in(tmp_path)
    told = desk.sentences([Event(9, "", "boss", action, facts)])
    assert told == [f"boss: {action} (person meier)."]


def test_amounts_that_an_event_has_in_words_are_taken_as_they_are(tmp_path):
    desk = desk_in(tmp_path)
    facts = {"table": "visits", "person": "meier", "amount": 0.1, "allowance": "5 % of the total"}
    limit = {"table": "visits", "policy": ["above", 0.1, True], "up_to": "2 % of the total"}
    events = [Event(9, "", "boss", "allowance", facts), Event(10, "", "boss", "policy", limit)]
    assert desk.sentences(events) == [
        "boss set the allowance of meier at visits to 5 % of the total.",
        "boss changed the policy of visits: questions that cost more than 2 % of the total need approval, "
        "and all analysts read all answers.",
    ]


def test_sentences_change_no_hash(tmp_path):
    desk = busy_desk(tmp_path)
    before = desk.export_journal()
    desk.sentences(desk.journal())
    desk.journal_page(EventFilter(person="meier"), 10)
    assert desk.export_journal() == before
    assert desk.verify().ok


def test_the_journal_is_selected_in_pages(tmp_path):
    """By person, table, kind and days; pages together are the selection, and each is bounded."""
    desk = busy_desk(tmp_path)
    events = desk.journal()[::-1]

    def numbers(**selection):
        return [event.number for event in desk.journal_page(EventFilter(**selection), 100)]

    assert numbers() == [event.number for event in events]
    asked = {ticket.id for ticket in desk.tickets(by="meier")}
    of_meier = [
        event.number
        for event in events
        if event.facts.get("person") == "meier" or event.facts.get("question") in asked
    ]
    assert len(of_meier) > 4
    assert numbers(person="meier") == of_meier
    assert numbers(person="steward") == numbers()
    assert numbers(person="me") == numbers(table="x") == []
    of_table = [event.number for event in events if {"table", "question"} & set(event.facts)]
    assert numbers(table="visits") == of_table
    for kind in KINDS:
        of_kind = [event.number for event in events if event.action in actions_of(kind)]
        assert numbers(actions=actions_of(kind)) == of_kind
    day = datetime.fromisoformat(events[0].time).date()
    assert numbers(first=day - timedelta(days=1), last=day) == numbers()
    assert numbers(last=day - timedelta(days=1)) == numbers(first=day + timedelta(days=1)) == []
    pages = []
    before = None
    while page := desk.journal_page(EventFilter(table="visits", before=before), 3):
        assert len(page) <= 3
        pages += page
        before = page[-1].number
    assert [event.number for event in pages] == of_table
