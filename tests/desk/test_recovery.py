"""What a kill at any place leaves, and what old copies of files lead to."""

import os
import shutil
import signal
import time
from datetime import timedelta

import pytest

import dpinfer as dp
from dpinfer import persistence
from dpinfer.estimators.models import LinearModel
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.ledger import Ledger
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.journal import Journal
from dpinfer_desk.store.register import Register
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.store.verification import valid_result
from dpinfer_desk.worker import fit_process
from dpinfer_desk.worker.recovery import recover, settle
from helpers.desks import ask, desk_in, hasten, later, question, work
from helpers.forking import forked

PLACES = 24  # at which a desk or its fit is killed
WATCHED = [
    (Register, "move"),
    (Register, "settle"),
    (Register, "show"),
    (Journal, "take"),
    (Ledger, "book"),
    (Gate, "release"),
    (persistence, "write"),
    (fit_process, "limit"),
    (fit_process, "_answer"),
]


def watch(marks, place):
    """Write a mark before and after each call of some functions, in this process and its children;
    whoever writes mark number ``place`` is killed.
    """

    def mark():
        handle = os.open(marks, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, b".")
        number = os.fstat(handle).st_size
        os.close(handle)
        if number == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def marked(function):
        def wrapper(*arguments, **options):
            mark()
            found = function(*arguments, **options)
            mark()
            return found

        return wrapper

    for owner, name in WATCHED:
        setattr(owner, name, marked(getattr(owner, name)))


def test_guarantee_every_end(tmp_path):
    """A desk at work is killed at each of its places in turn, itself or its fit; after one restart no
    result lacks its entry, nothing is booked twice, all has ended.
    """
    desk = desk_in(tmp_path, response_times=(600.0,))
    ends = set()
    for place in range(1, PLACES + 1):
        asked = question(rho=0.1)
        ticket = desk.ask("visits", asked, "meier", str(place), again=True, anyway=True)
        marks = tmp_path / f"marks {place}"

        def killed(marks=marks, place=place):
            watch(marks, place)
            work(hasten(Desk.open(desk.folder.path)))

        os.waitpid(forked(killed), 0)
        assert marks.stat().st_size >= place
        work(hasten(Desk.open(desk.folder.path, who="restart")))
        entries = dp.Ledger.open(tmp_path / "ledger.db").entries()
        shown = later(desk)
        own = [entry for entry in entries if entry.request == ticket.id]
        state = shown.ticket(ticket.id).state
        ends.add(state)
        assert state in (tickets.ANSWERED, tickets.LOST_STATE)
        assert len(own) == 1
        kept = valid_result(desk.folder, ticket.id, own[0].release) is not None
        assert kept == (state == tickets.ANSWERED)
    assert ends == {tickets.ANSWERED, tickets.LOST_STATE}
    assert shown.verify().ok
    assert len({entry.request for entry in entries}) == PLACES


def claimed(desk, slot=600.0, **keys):
    ticket = ask(desk, **keys)
    desk.register.move(ticket.id, (tickets.QUEUED,), tickets.CLAIMED, "worker", slot=slot)
    return ticket


def booked(desk, ticket):
    """The entry of a question, without the desk knowing."""
    table = desk.table("visits")
    model = ticket.question.model(table.schema, table.ledger().neighbours)
    ledger = table.ledger()
    entry = model.entry(table.records)
    named = type(entry)(**{**vars(entry), "by": ticket.by, "request": ticket.id})
    return ledger.book(named)


def with_result(desk, ticket, release):
    """A result that names a release."""
    table = desk.table("visits")
    model = ticket.question.model(table.schema, table.ledger().neighbours)
    result = model.fit(table.data_path).result_
    privacy = type(result.privacy)(
        **{**vars(result.privacy), "release": release, "in_ledger": True}
    )
    desk.folder.result(ticket.id).parent.mkdir()
    whole = type(result)(**{**vars(result), "privacy": privacy})
    desk.folder.result(ticket.id).write_text(whole.to_json(), encoding="utf-8")


def test_the_table_of_recovery(tmp_path):
    desk = desk_in(tmp_path)
    nothing, kept, lost = (claimed(desk, rho=rho) for rho in (0.1, 0.2, 0.3))
    with_result(desk, kept, booked(desk, kept))
    booked(desk, lost)
    recover(desk)
    states = [desk.register.ticket(one.id).state for one in (nothing, kept, lost)]
    assert states == ["queued", "kept", "failed"]
    assert [later(desk).ticket(one.id).state for one in (kept, lost)] == ["answered", "lost"]
    recover(desk)  # changes nothing any more
    assert [desk.register.ticket(one.id).state for one in (nothing, kept, lost)] == states
    assert desk.table("visits").state == "open"


def test_a_result_without_an_entry_is_shown_to_nobody(tmp_path):
    desk = desk_in(tmp_path)
    ticket = claimed(desk)
    with_result(desk, ticket, "0" * 32)
    assert any("without an entry" in fault for fault in desk.verify().faults)
    recover(desk)
    assert desk.ticket(ticket.id).state == "refused"
    assert desk.table("visits").state == "paused"
    with pytest.raises(dp.InputError):
        desk.result(ticket.id)


def files_of(folder, name):
    return [path for path in folder.iterdir() if path.name.startswith(name)]


def put_back(copy, folder, name):
    for path in files_of(folder, name):
        path.unlink()
    for path in files_of(copy, name):
        shutil.copy(path, folder)


def test_guarantee_asked_once(tmp_path):
    """An old desk.db is refused; taken all the same, the question is made anew from the ledger, and
    the same key is not booked again.
    """
    desk = desk_in(tmp_path, response_times=(600.0,))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in files_of(desk.folder.shared, "desk.db"):
        shutil.copy(path, copy)
    ticket = ask(desk, key="mine")
    lost = ask(desk, rho=0.2, key="other")
    work(hasten(desk))
    shutil.rmtree(desk.folder.results / lost.id)
    assert desk.register.ticket(ticket.id).state == "answered"
    put_back(copy, desk.folder.shared, "desk.db")
    with pytest.raises(dp.LedgerError, match=r"desk\.db lacks \d+ events"):
        Desk.open(desk.folder.path)
    old = Desk.open(desk.folder.path, old_copy=True)
    assert old.tickets() == []
    assert not old.verify().ok  # entries of questions that nobody knows
    recover(old)
    again = later(desk)
    assert again.ticket(ticket.id).state == "answered"
    assert again.result(ticket.id).privacy.release == again.ticket(ticket.id).release
    assert again.ticket(lost.id).state == "lost"
    assert (again.ticket(ticket.id).by, again.ticket(ticket.id).question.formula) == (
        "meier",
        "y ~ a + b",
    )
    with pytest.raises(dp.InputError, match="this key was used for another question"):
        again.ask("visits", question(rho=0.3), "meier", "mine", anyway=True)
    work(hasten(old))
    assert len(dp.Ledger.open(tmp_path / "ledger.db").entries()) == 2
    assert again.verify().ok


def test_an_old_ledger_pauses_its_table(tmp_path):
    desk = desk_in(tmp_path, response_times=(600.0,))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in files_of(tmp_path, "ledger.db"):
        shutil.copy(path, copy)
    ticket = ask(desk)
    work(hasten(desk))
    put_back(copy, tmp_path, "ledger.db")
    assert any("no entry of it" in fault for fault in desk.verify().faults)
    recover(desk)
    assert desk.table("visits").state == "paused"
    assert "an old copy was put back" in desk.table("visits").reason
    with pytest.raises(dp.LedgerError, match="paused"):
        ask(desk, rho=0.2)
    assert later(desk).ticket(ticket.id).state == "answered"


def fitted(desk, ticket):
    """Run the process of a question that was claimed, without a worker; how it ended."""
    return os.waitpid(forked(lambda: fit_process.main(str(desk.folder.path), ticket.id)), 0)[1]


def test_guarantee_no_old_ledger(tmp_path):
    """An old ledger put back under a worker that runs: the next question is refused."""
    desk = desk_in(tmp_path, response_times=(600.0,))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in files_of(tmp_path, "ledger.db"):
        shutil.copy(path, copy)
    fitted(desk, claimed(desk))
    put_back(copy, tmp_path, "ledger.db")
    second = claimed(desk, rho=0.2)
    fitted(desk, second)
    assert desk.ticket(second.id).state == "refused"
    assert "an old copy was put back" in desk.table("visits").reason
    assert desk.table("visits").ledger().entries() == ()


def test_a_fault_after_the_commit_of_the_ledger_is_paid(tmp_path, monkeypatch):
    desk = desk_in(tmp_path, response_times=(600.0,))
    ticket = ask(desk)
    book = Ledger.book

    def faulty(*arguments, **options):
        book(*arguments, **options)
        raise MemoryError

    monkeypatch.setattr(Ledger, "book", faulty)
    work(hasten(desk))
    assert later(desk).ticket(ticket.id).state == "lost"
    assert desk.verify().ok


def test_a_question_that_is_queued_under_its_process_is_paid(tmp_path, monkeypatch):
    """Recovery looks just before the process takes its lock: booked once, and no record is read."""
    desk = desk_in(tmp_path, response_times=(600.0,))
    ticket = claimed(desk)
    limit = fit_process.limit

    def late(*arguments):
        settle(desk, desk.register.ticket(ticket.id), None)
        limit(*arguments)

    monkeypatch.setattr(fit_process, "limit", late)
    fitted(desk, ticket)
    monkeypatch.undo()
    assert desk.register.ticket(ticket.id).state == "queued"
    assert len(desk.table("visits").ledger().entries()) == 1
    assert not desk.folder.result(ticket.id).exists()
    work(hasten(desk))
    assert later(desk).ticket(ticket.id).state == "lost"
    assert len(desk.table("visits").ledger().entries()) == 1


def test_a_paid_question_that_an_old_copy_has_in_the_queue(tmp_path):
    desk = desk_in(tmp_path, response_times=(600.0,))
    ticket = ask(desk)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in files_of(desk.folder.shared, "desk.db"):
        shutil.copy(path, copy)
    work(hasten(desk))
    put_back(copy, desk.folder.shared, "desk.db")
    old = Desk.open(desk.folder.path, old_copy=True)
    assert old.ticket(ticket.id).state == "queued"
    recover(old)
    assert later(desk).ticket(ticket.id).state == "answered"
    assert later(desk).verify().ok


def test_a_fit_that_nobody_looks_after_ends_before_its_slot(tmp_path, monkeypatch):
    """The worker is gone and the fit overruns: the kernel ends it, and at the slot's end it is lost."""
    desk = desk_in(tmp_path, response_times=(0.5, 600.0))
    ticket = claimed(desk, slot=0.5)
    monkeypatch.setattr(Gate, "release", lambda *_: time.sleep(60))
    assert os.WTERMSIG(fitted(desk, ticket)) == signal.SIGALRM
    due = desk.register.ticket(ticket.id).due
    then = Desk.open(desk.folder.path, clock=lambda: due)
    assert then.ticket(ticket.id).state == "lost"
    recover(then)
    assert later(desk).ticket(ticket.id).state == "lost"


def test_nothing_is_kept_after_its_slot(tmp_path):
    desk = desk_in(tmp_path)
    for seconds, outcome in ((-0.001, "kept"), (0.0, "failed")):
        ticket = claimed(desk, slot=5.0, rho=0.1 + seconds)
        booked = desk.clock()
        desk.register.move(
            ticket.id, (tickets.CLAIMED,), tickets.BOOKED_STATE, "worker", booked=booked.isoformat()
        )
        moment = booked + timedelta(seconds=5.0 + seconds)
        Desk.open(desk.folder.path, clock=lambda moment=moment: moment).register.settle(
            ticket.id, tickets.KEPT
        )
        assert desk.register.ticket(ticket.id).state == outcome


def test_access_that_is_revoked_while_a_fit_is_planned(tmp_path, monkeypatch):
    desk = desk_in(tmp_path, response_times=(600.0,))
    ticket = claimed(desk)
    read = LinearModel.read

    def slowly(*arguments, **keywords):
        found = read(*arguments, **keywords)
        desk.set_state("visits", "meier", "revoked")
        return found

    monkeypatch.setattr(LinearModel, "read", slowly)
    fitted(desk, ticket)
    assert desk.ticket(ticket.id).state == "refused"
    assert "is revoked" in desk.ticket(ticket.id).reason
    assert desk.table("visits").ledger().entries() == ()


def test_an_old_desk_in_a_ledger_of_two_tables(tmp_path):
    """Questions made anew are at the table that they were asked of."""
    desk = desk_in(tmp_path, response_times=(600.0,))
    files = [tmp_path / name for name in ("table.parquet", "schema.toml", "ledger.db")]
    desk.add_table("first", *files, Policy("none"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in files_of(desk.folder.shared, "desk.db"):
        shutil.copy(path, copy)
    ticket = ask(desk)
    booked(desk, ticket)
    put_back(copy, desk.folder.shared, "desk.db")
    old = Desk.open(desk.folder.path, old_copy=True)
    recover(old)
    assert [(one.id, one.table) for one in old.tickets()] == [(ticket.id, "visits")]


def test_guarantee_no_old_desk(tmp_path):
    """An old desk.db put back under an open desk: nothing is changed, and nothing booked, in it."""
    desk = desk_in(tmp_path)
    ticket = claimed(desk)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in files_of(desk.folder.shared, "desk.db"):
        shutil.copy(path, copy)
    desk.set_state("visits", "meier", "revoked")
    events = desk.journal()
    put_back(copy, desk.folder.shared, "desk.db")
    with pytest.raises(dp.LedgerError, match="an old copy was put back"):
        desk.add_person("huber")
    booking = fit_process.Booking(desk, ticket, desk.table("visits").ledger())
    with pytest.raises(dp.LedgerError, match="an old copy was put back"):
        booking.book(desk.check("visits", ticket.question, "meier").entry)
    assert desk.table("visits").ledger().entries() == ()
    assert desk.journal() == events
    with pytest.raises(dp.LedgerError, match="another event in the place"):
        Journal(desk.folder.journal).take([type(events[0])(3, "", "", "", {})])


def test_a_booked_question_whose_entry_is_gone_is_lost(tmp_path):
    desk = desk_in(tmp_path)
    ticket = claimed(desk)
    desk.register.move(
        ticket.id,
        (tickets.CLAIMED,),
        tickets.BOOKED_STATE,
        "worker",
        booked=desk.clock().isoformat(),
    )
    recover(desk)
    assert later(desk).ticket(ticket.id).state == "lost"
    assert desk.table("visits").state == "paused"


def test_a_broken_ledger_stops_its_own_table_alone(tmp_path):
    desk = desk_in(tmp_path, response_times=(600.0,))
    dp.Ledger.create(tmp_path / "other.db", dp.ZCDP(10.0))
    desk.add_table(
        "other", tmp_path / "table.parquet", tmp_path / "schema.toml", tmp_path / "other.db",
        Policy("none"), although="a test",
    )  # fmt: skip
    desk.allow("other", "meier", 1.0)
    stuck = claimed(desk)
    fine = desk.ask("other", question(rho=0.1), "meier", anyway=True)
    (tmp_path / "ledger.db").rename(tmp_path / "away.db")
    work(hasten(desk))
    assert (desk.table("visits").state, desk.table("other").state) == ("paused", "open")
    assert later(desk).ticket(fine.id).state == "answered"
    (tmp_path / "away.db").rename(tmp_path / "ledger.db")
    desk.resume("visits", "the ledger is back")
    work(hasten(desk))
    assert later(desk).ticket(stuck.id).state == "answered"
