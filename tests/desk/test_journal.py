import json
import sqlite3
from contextlib import closing

import pytest

import dpinfer as dp
from dpinfer.privacy import store
from dpinfer.privacy.store import FileStore
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.journal import Event, Journal
from dpinfer_desk.store.tables import Policy
from helpers.desks import ask, desk_in


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
