"""What the steward and the analysts do at a desk; nothing is fitted here."""

import hashlib
import os
import stat
import threading
from dataclasses import replace

import pandas as pd
import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk, state_message
from dpinfer_desk.store import tickets
from dpinfer_desk.store.locks import acquire, holder
from dpinfer_desk.store.roles import allowance_of
from dpinfer_desk.store.tables import Fingerprint, Policy
from helpers.desks import ask, desk_in, question
from helpers.forking import forked
from helpers.terminal import files_in

HOSTILE = [
    "<script>alert(1)</script>",
    "'; DROP TABLE questions; --",
    "{{7*7}}",
    "=1+1|cmd",
    "ä ´ ⟩",
]


def test_a_question_is_asked_once(tmp_path):
    desk = desk_in(tmp_path)
    first = ask(desk)
    assert first.state == "queued"
    assert ask(desk) == first  # sent twice
    assert ask(desk, key="mine", again=True) != first
    assert ask(desk, key="mine") == desk.ticket(ask(desk, key="mine").id)
    with pytest.raises(dp.InputError, match="used for another question"):
        ask(desk, rho=0.2, key="mine")
    assert desk.ask("visits", question(rho=0.1, title="x"), "meier").id == first.id
    assert len(desk.tickets()) == 2
    stranger = ask(desk, rho=0.3, key=first.id)  # a key that looks like an id
    assert desk.ticket(first.id) == first
    assert desk.ticket("mine").key == "mine"
    assert stranger.id != first.id
    for key in ("a\nb", "x" * 101):
        with pytest.raises(dp.InputError, match="a key is a text"):
            ask(desk, key=key)


def test_the_same_question_is_not_paid_twice_by_another_key(tmp_path):
    """While it is open, booked or answered; what is free or lost may be asked under any key."""
    desk = desk_in(tmp_path)
    first = ask(desk)

    def twice():
        with pytest.raises(tickets.UnconfirmedError, match=f"{first.id[:12]}.*confirm it") as fault:
            ask(desk, key="another")
        assert fault.value.option == "again"

    for state in ("waiting", "queued", "claimed"):
        desk.register.move(first.id, tickets.OPEN, state, "test")
        twice()
    now = desk.clock()
    facts = {"slot": 60.0, "booked": now.isoformat(), "release": "r"}
    desk.register.move(first.id, tickets.OPEN, "booked", "test", **facts)
    for state in ("booked", "kept", "failed"):  # which of them it is, nobody may know yet
        desk.register.move(first.id, tickets.PAID, state, "test")
        twice()
    desk.register.move(first.id, tickets.PAID, "answered", "test", slot=0.0)
    twice()
    assert len(desk.tickets()) == 1
    assert ask(desk, key="another", again=True).state == "queued"
    desk.withdraw("another")
    desk.register.move(first.id, tickets.PAID, "lost", "test")
    assert ask(desk, key="third").state == "queued"
    desk.add_person("huber")
    desk.allow("visits", "huber", 1.0)
    assert ask(desk, by="huber").state == "queued"


def test_threads_that_send_the_same(tmp_path):
    """40 questions of 10 people, each sent three times: 40 tickets, and one event each."""
    desk = desk_in(tmp_path)
    settings = desk.settings
    desk.folder.write(type(settings)(**{**vars(settings), "open_per_table": 500}))
    keys = [(f"analyst {k % 10}", f"key {k}") for k in range(40)]
    for k in range(10):
        desk.add_person(f"analyst {k}")
        desk.allow("visits", f"analyst {k}", 1.0)
    found = desk.check("visits", question(rho=0.1), "meier")
    waiting = iter(keys * 3)
    lock = threading.Lock()

    def send():
        while True:
            with lock:
                by, key = next(waiting, ("", ""))
            if not key:
                return
            ask(desk, by=by, key=key, again=True)

    desk.check = lambda *_: found  # its numbers are the same for all; it takes most of the time
    limits = type(settings)(**{**vars(settings), "open_per_table": 500, "open_per_person": 9})
    desk.folder.write(limits)
    threads = [threading.Thread(target=send) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(desk.tickets()) == 40
    assert sum(event.action == "asked" for event in desk.journal()) == 40
    assert desk.verify().ok


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (Policy("each"), "waiting"),
        (Policy("above", 0.05), "waiting"),
        (Policy("above", 0.2), "queued"),
        (Policy("none"), "queued"),
    ],
)
def test_who_decides(tmp_path, policy, state):
    assert ask(desk_in(tmp_path, policy=policy)).state == state


def test_allowances_that_were_revoked_do_not_count(tmp_path):
    """What a revoked analyst has spent counts, and what is left of the allowance does not."""
    desk = desk_in(tmp_path, total=dp.ZCDP(1.0), allowance=0.7)
    desk.add_person("huber")
    desk.allow("visits", "huber", 0.6)
    ticket = ask(desk, rho=0.1, by="huber")
    checked = desk.check("visits", ticket.question, "huber")
    desk.table("visits").ledger().book(replace(checked.entry, request=ticket.id))
    assert (desk.allotted("visits"), desk.reserved("visits")) == (pytest.approx(1.3), False)
    desk.set_state("visits", "huber", "paused")
    assert not desk.reserved("visits")  # it may be resumed
    desk.set_state("visits", "huber", "revoked")
    assert (desk.allotted("visits"), desk.reserved("visits")) == (pytest.approx(0.8), True)
    desk.allow("visits", "meier", 0.95)
    assert not desk.reserved("visits")
    desk.set_state("visits", "huber", "active")
    desk.allow("visits", "huber", 0.05)  # less than was spent
    assert desk.allotted("visits") == pytest.approx(1.05)


def test_decisions(tmp_path):
    desk = desk_in(tmp_path, policy=Policy("each"))
    one, two, three = (ask(desk, rho=rho) for rho in (0.1, 0.2, 0.3))
    for reason in ("", "  "):
        with pytest.raises(dp.InputError, match="a declined question needs a reason"):
            desk.decide(two.id, False, reason)
    assert desk.ticket(two.id).state == "waiting"
    assert desk.decide(one.id, True, "of use").state == "queued"
    assert desk.decide(two.id, False, "too wide").state == "declined"
    assert "too wide" in state_message(desk.ticket(two.id[:10]))
    assert desk.withdraw(three.id).state == "withdrawn"
    for ticket in (two, three):
        with pytest.raises(dp.InputError, match="cannot be approved any more: it was"):
            desk.decide(ticket.id, True)
        with pytest.raises(dp.InputError, match="cannot be withdrawn any more"):
            desk.withdraw(ticket.id)
    with pytest.raises(dp.InputError, match="no answer yet: it is in line"):
        desk.result(one.id)
    assert ask(desk, rho=0.2).state == "waiting"  # it was free, and is asked anew
    assert desk.ticket(two.id).reason == ""
    assert ask(desk, rho=0.3).id == three.id
    desk.withdraw(three.id)
    own = ask(desk, rho=0.3, key="own")
    desk.withdraw(own.id)
    assert ask(desk, rho=0.3, key="own").state == "withdrawn"  # a key is one sending
    desk.add_person("huber")
    desk.allow("visits", "huber", 1.0)
    ask(desk, rho=0.4, by="huber", key="own")
    with pytest.raises(dp.InputError, match="'own' names 2 questions"):
        desk.ticket("own")


def test_guarantee_fingerprints_tell_nothing(tmp_path):
    """Neither desk.db nor the journal has a hash or a size of the data that others could compute."""
    desk = desk_in(tmp_path)
    path = tmp_path / "table.parquet"
    desk.resume("visits", "the same people")
    told = desk.export_journal() + "".join(map(str, desk.register.tables()))
    assert hashlib.sha256(path.read_bytes()).hexdigest() not in told
    assert str(path.stat().st_size) not in told
    assert str(path.stat().st_ino) not in told.replace(str(tmp_path), "")
    assert stat.S_IMODE(desk.folder.secret.stat().st_mode) == 0o600
    assert desk.verify(thorough=True).ok
    first = desk.table("visits").fingerprint
    desk.folder.secret.write_bytes(b"another one")
    again = Fingerprint.of(path, desk.folder.secret)
    assert first != again
    assert not first.shares(again)
    desk.folder.secret.unlink()
    assert desk.table("visits").changed()


def test_one_set_of_files_has_one_total(tmp_path):
    desk = desk_in(tmp_path)
    files = [tmp_path / name for name in ("table.parquet", "schema.toml", "other.db")]
    dp.Ledger.create(files[2], dp.ZCDP(1.0))
    copy = tmp_path / "copy.parquet"
    copy.write_bytes(files[0].read_bytes())
    for data in (files[0], copy):
        with pytest.raises(dp.InputError, match="protected by two totals"):
            desk.add_table("two", data, *files[1:])
    desk.add_table("two", *files, although="a test")
    assert desk.journal()[-1].facts["although"] == "a test"
    desk.add_table("three", *files[:2], tmp_path / "ledger.db", although="of the first ledger")


def test_resume_looks_at_the_files(tmp_path):
    desk = desk_in(tmp_path)
    path = tmp_path / "table.parquet"
    frame = pd.read_parquet(path)
    desk.register.set_response_time("visits", "a question", 5.0)
    desk.pause("visits", "new rows")
    assert desk.register.response_time("visits", "a question") == 5.0
    pd.DataFrame({"zz": [1]}).to_parquet(path)
    with pytest.raises(dp.InputError):
        desk.resume("visits", "the same people")
    assert desk.table("visits").state == "paused"
    pd.concat([frame, frame]).to_parquet(path)
    assert desk.resume("visits", "the same people").records == 2 * len(frame)
    assert desk.register.response_time("visits", "a question") is None


def test_analysts_are_told_no_paths(tmp_path):
    desk = desk_in(tmp_path)
    (tmp_path / "ledger.db").rename(tmp_path / "away.db")
    with pytest.raises(dp.LedgerError, match=r"there is no ledger at ledger\.db") as fault:
        ask(desk)
    assert str(tmp_path) not in str(fault.value)


def test_asking_who_holds_a_file_keeps_nobody_from_it(tmp_path):
    path = tmp_path / "lock"
    path.touch()

    def look():
        for _ in range(2000):
            holder(path)

    looking = forked(look)
    assert all(_taken(path) for _ in range(2000))
    os.waitpid(looking, 0)


def _taken(path):
    with acquire(path) as mine:
        return mine


def test_limits_allowance_and_states_of_people(tmp_path):
    desk = desk_in(tmp_path, allowance=0.25)
    with pytest.raises(
        dp.LedgerError,
        match=r"this costs ρ = 0\.3 .* allowance of 'meier', .* for ρ = 0\.25 at most",
    ):
        ask(desk, rho=0.3)
    for rho in (0.1, 0.11, 0.12):
        ask(desk, rho=rho)
    with pytest.raises(dp.InputError, match="'meier' has 3 open questions"):
        ask(desk, rho=0.13)
    with pytest.raises(dp.InputError, match="'huber' has no allowance at visits"):
        ask(desk, by="huber")
    desk.set_state("visits", "meier", "paused", "holiday")
    with pytest.raises(dp.LedgerError, match="access of 'meier' to visits is paused"):
        ask(desk, rho=0.13)
    desk.set_state("visits", "meier", "revoked")
    assert {ticket.state for ticket in desk.tickets()} == {"declined"}
    with pytest.raises(dp.InputError, match="an analyst is"):
        desk.set_state("visits", "meier", "gone")
    desk.set_state("visits", "meier", "active")
    desk.pause("visits", "new rows")
    with pytest.raises(dp.LedgerError, match="visits is paused"):
        ask(desk, rho=0.13)
    with pytest.raises(dp.InputError, match="give a reason"):
        desk.resume("visits", " ")
    assert desk.resume("visits", "the same people").state == "open"


def test_nothing_is_taken_without_room(tmp_path):
    desk = desk_in(tmp_path)
    desk.folder.write(type(desk.settings)(**{**vars(desk.settings), "free": 10**9}))
    with pytest.raises(dp.InputError, match="are free on the disk"):
        ask(desk)


def test_an_allowance_at_a_pure_total_is_counted_in_epsilon(tmp_path):
    """It pays for questions up to its ε and up to rounding, and for none beyond; half of it is spent here
    before.  In ρ, which is at most ε²/2, it would pay for less, or for more.
    """
    desk = desk_in(tmp_path, total=dp.PureDP(100.0), allowance=3.0)
    assert desk.measure("visits") == "epsilon"
    assert allowance_of(dp.PureDP(100.0), 3.0) == dp.PureDP(3.0)
    assert allowance_of(dp.ZCDP(100.0), 3.0) == dp.ZCDP(3.0)
    ledger = dp.Ledger.open(tmp_path / "ledger.db")
    spent = desk.check("visits", question(epsilon=1.5), "meier").entry
    ledger.book(spent)
    assert desk.analyst("visits", "meier").left == pytest.approx(1.5, rel=1e-12)
    for epsilon, permitted in ((1.5, True), (1.5 * (1 + 1e-9), False), (1.4, True), (2.0, False)):
        checked = desk.check("visits", question(epsilon=epsilon), "meier")
        assert checked.permitted is permitted, epsilon
        assert ("the allowance of 'meier'" in checked.reason) is not permitted
        assert checked.cost == pytest.approx(epsilon, rel=1e-12)


def test_check_tells_and_books_nothing(tmp_path):
    desk = desk_in(tmp_path, total=dp.ApproxDP(2.0, 1e-6), allowance=0.05)
    found = desk.check("visits", question(epsilon=1.0, delta=1e-6), "meier")
    assert found.names == ("(Intercept)", "a", "b[q]", "b[None]")
    assert found.permitted
    assert found.measure == "rho"
    assert 0 < found.cost < 0.05
    assert "records" in found.warning  # 400 are few
    hopeless = question(epsilon=0.01, delta=1e-6)
    assert desk.check("visits", hopeless, "meier").low_budget
    with pytest.raises(dp.InputError, match="nothing was asked"):
        desk.ask("visits", hopeless, "meier")
    assert not desk.check("visits", question(epsilon=1.9, delta=1e-6), "meier").permitted
    assert desk.account("visits").spent == 0
    assert desk.tickets() == []
    forecast = desk.forecast("visits", question(rho=5.0), [dp.ZCDP(5.0), dp.ZCDP(50.0)], 4)
    assert forecast is desk.forecast("visits", question(rho=5.0), [dp.ZCDP(5.0), dp.ZCDP(50.0)], 4)
    assert forecast.records == 400


@pytest.mark.parametrize(
    "formula",
    ["y ~ nothing", "a ~ b", "y ~ a + ", "y ~ __import__('os')", "y ~ open('/etc/passwd')"],
)
def test_bad_formulas_are_refused_before_anything(tmp_path, formula):
    desk = desk_in(tmp_path)
    with pytest.raises(dp.InputError):
        desk.ask("visits", question(formula, rho=0.1), "meier")
    assert desk.tickets() == []


def test_a_pure_total_counts_epsilon(tmp_path):
    desk = desk_in(tmp_path, total=dp.PureDP(3.0), allowance=2.0)
    found = desk.check("visits", question(epsilon=1.0), "meier")
    assert (found.measure, found.cost) == ("epsilon", pytest.approx(1.0))
    with pytest.raises(dp.LedgerError, match="counts pure epsilon"):
        desk.check("visits", question(rho=0.1), "meier")
    assert desk.reserved("visits")
    desk.allow("visits", "meier", 4.0)
    assert not desk.reserved("visits")


def test_a_private_number_is_not_told(tmp_path):
    """Neither the cost nor a warning depends on it, and there is a forecast for a public guess alone."""
    files_in(tmp_path)
    dp.Ledger.create(tmp_path / "l.db", dp.ZCDP(10.0), neighbours="add-remove")
    desk = Desk.create(tmp_path / "desk")
    files = (tmp_path / "table.csv", tmp_path / "schema.toml", tmp_path / "l.db")
    with pytest.raises(dp.InputError, match="is private: declare how many rows"):
        desk.add_table("one", *files)
    table = desk.add_table("one", *files, max_rows=1000)
    assert (table.records, table.max_rows, table.max_unit_rows) == (None, 1000, 1)
    desk.add_person("meier")
    desk.allow("one", "meier", 1.0)
    found = desk.check("one", question(rho=0.1), "meier")
    with pytest.raises(dp.InputError, match="is private, and no guess"):
        desk.forecast("one", question(rho=0.1))
    desk.add_table("two", *files, records=123_456, max_rows=200_000)
    desk.allow("two", "meier", 1.0)
    other = desk.check("two", question(rho=0.1), "meier")
    assert (found.cost, found.warning, found.low_budget) == (
        other.cost,
        other.warning,
        other.low_budget,
    )
    assert found.entry == other.entry


def test_what_does_not_fit_is_not_registered(tmp_path):
    desk = desk_in(tmp_path)
    files = [tmp_path / name for name in ("table.parquet", "schema.toml", "ledger.db")]
    for name in ("Visits", "../x", "", "a b", "x" * 61):
        with pytest.raises(dp.InputError, match="name of a table"):
            desk.add_table(name, *files)
    with pytest.raises(dp.InputError, match="a table 'visits' already"):
        desk.add_table("visits", *files)
    dp.Ledger.create(tmp_path / "other.db", dp.ZCDP(1.0), unit="one person")
    with pytest.raises(dp.InputError, match="protects 'one person' and the schema 'one record'"):
        desk.add_table("two", *files[:2], tmp_path / "other.db")
    with pytest.raises(dp.InputError, match="at least 1, not -5"):
        desk.add_table("two", *files, records=-5)
    with pytest.raises(dp.InputError, match="there is no file"):
        desk.add_table("two", tmp_path / "none.csv", *files[1:])
    (tmp_path / "more.toml").write_text(
        files[1].read_text(encoding="utf-8") + "[columns.z]\ntype = 'boolean'", encoding="utf-8"
    )
    with pytest.raises(dp.InputError, match="'z'"):
        desk.add_table("two", files[0], tmp_path / "more.toml", files[2])
    with pytest.raises(dp.InputError, match="no desk in"):
        Desk.open(tmp_path / "nowhere")
    with pytest.raises(dp.InputError, match="is there already"):
        Desk.create(tmp_path)


def test_hostile_texts_stay_texts(tmp_path):
    desk = desk_in(tmp_path, policy=Policy("each"))
    for k, text in enumerate(HOSTILE):
        desk.add_person(text, description=text)
        desk.allow("visits", text, 1.0)
        asked = desk.ask("visits", question(rho=0.1 + k / 100, title=text), text, text, anyway=True)
        desk.decide(asked.id, False, text)
        there = desk.ticket(asked.id)
        assert (there.by, there.key, there.question.title, there.reason) == (text,) * 4
    assert {person.name for person in desk.persons()} == {"meier", *HOSTILE}
    assert desk.verify().ok
    for name in ("", " ", "a\nb", "a\x00b", "x" * 101):
        with pytest.raises(dp.InputError, match="name of a person"):
            desk.add_person(name)


def test_settings_that_are_none(tmp_path):
    desk = desk_in(tmp_path)
    path = desk.folder.path / "desk.toml"
    good = path.read_text(encoding="utf-8")
    for line, words in [
        ("colour = 1", "has no key 'colour'"),
        ("memory = 'much'", "memory in desk.toml must be"),
        ("free = -1", "free in desk.toml"),
    ]:
        kept = [old for old in good.splitlines() if old.split(" ")[0] != line.split(" ")[0]]
        path.write_text("\n".join([*kept, line]), encoding="utf-8")
        with pytest.raises(dp.InputError, match=words):
            _ = desk.settings
    for ladder in ([], [5, 1], [0], ["a"]):
        path.write_text(f'id = "abcdefgh"\nladder = {ladder}', encoding="utf-8")
        with pytest.raises(dp.InputError, match=r"ladder in desk\.toml"):
            _ = desk.settings


def test_states_in_words():
    for state in (*tickets.OPEN, tickets.BOOKED_STATE, *tickets.ENDED):
        one = tickets.Ticket("i", "t", "b", "k", question(rho=0.1), 0.1, state, "")
        assert state_message(one)
