"""Fits at a desk: public times, two outcomes, and nothing else that anybody could see."""

import errno
import itertools
import json
import os
import signal
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

import dpinfer as dp
from dpinfer import persistence
from dpinfer.errors import NO_ANSWER, NoAnswerError, PrivacyError
from dpinfer.privacy.gate import Gate
from dpinfer_desk import timing
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tickets
from dpinfer_desk.store.folder import Folder
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.worker import fit_process, response_times
from dpinfer_desk.worker.worker import Worker
from helpers.desks import ask, desk_in, forks, hasten, later, question, work
from helpers.terminal import SECRET, run_here


def more_tables(desk, folder, number):
    """So many tables of the same files and the same ledger, and a person for each."""
    files = [folder / name for name in ("table.parquet", "schema.toml", "ledger.db")]
    for k in range(number):
        desk.add_table(f"t{k}", *files, Policy("none"))
    return [f"t{k}" for k in range(number)]


def test_a_question_from_asking_to_answer(tmp_path):
    desk = desk_in(tmp_path, response_times=(600.0,))
    ticket = ask(desk, rho=50.0)
    work(hasten(desk))
    done = later(desk).ticket(ticket.id)
    assert done.state == "answered"
    result = later(desk).result(ticket.id)
    (entry,) = dp.Ledger.open(tmp_path / "ledger.db").entries()
    assert (entry.by, entry.request, entry.release) == ("meier", ticket.id, result.privacy.release)
    assert (done.booking_time, done.release) == (entry.time, entry.release)
    assert [one.id for one in later(desk).answers("visits")] == [ticket.id]
    with pytest.raises(dp.InputError, match="answered already"):
        later(desk).ask("visits", question(rho=50.0), "meier", "another key", anyway=True)
    assert desk.verify(thorough=True).ok
    desk.folder.result(ticket.id).unlink()
    with pytest.raises(NoAnswerError):  # and no path
        later(desk).result(ticket.id)
    assert desk.analyst("visits", "meier").spent == pytest.approx(50.0)
    assert [spend.by for spend in desk.burn_down("visits")] == ["meier"]


def test_guarantee_public_answer_times(tmp_path, monkeypatch):
    """Fits slowed by 0, .1 and .3 s, side by side: what is shown changes at booking + slot, to the
    microsecond; and in real time not before.
    """
    slot = 6.0
    desk = desk_in(tmp_path, response_times=(slot,))
    names = more_tables(desk, tmp_path, 3)
    delays = dict(zip(names, (0.0, 0.1, 0.3), strict=True))
    for name in names:
        desk.allow(name, "meier", 100.0)
    asked = {name: desk.ask(name, question(rho=0.1), "meier", anyway=True) for name in names}
    marked = fit_process.record_booking

    def slowly(desk, ident, entry):
        marked(desk, ident, entry)
        time.sleep(delays[desk.register.ticket(ident).table])

    monkeypatch.setattr(fit_process, "record_booking", slowly)
    seen = {}
    over = threading.Event()

    def watch():
        while len(seen) < 3 and not over.wait(0.01):
            for name, ticket in asked.items():
                if name not in seen and desk.ticket(ticket.id).state == "answered":
                    seen[name] = desk.clock()

    watcher = threading.Thread(target=watch)
    watcher.start()
    work(desk)
    over.set()
    watcher.join()
    booked = {one.request: one.time for one in dp.Ledger.open(tmp_path / "ledger.db").entries()}
    for name, ticket in asked.items():
        done = desk.ticket(ticket.id)
        assert done.state == "answered"
        assert done.booking_time == booked[ticket.id]
        assert (done.due - type(done.due).fromisoformat(done.booking_time)).total_seconds() == slot
        before = Desk.open(
            desk.folder.path, clock=lambda due=done.due: due - timedelta(microseconds=1)
        )
        then = Desk.open(desk.folder.path, clock=lambda due=done.due: due)
        assert before.ticket(ticket.id).state == "booked"
        assert then.ticket(ticket.id).state == "answered"
        with pytest.raises(dp.InputError, match="no answer yet: it is booked"):
            before.result(ticket.id)
        assert before.answers(name) == []
        assert seen.get(name, done.due) >= done.due


@pytest.mark.parametrize("state", ["kept", "failed", "answered", "lost"])
def test_an_outcome_is_not_seen_before_its_time(state):
    ticket = tickets.Ticket(
        *("i", "t", "b", "k", question(rho=0.1), 0.1, state, ""),
        response_time=5.0,
        booking_time="2026-01-01T00:00:00+00:00",
    )
    assert ticket.as_shown(ticket.due - timedelta(microseconds=1)).state == "booked"
    shown = {"kept": "answered", "failed": "lost"}.get(state, state)
    assert ticket.as_shown(ticket.due).state == shown


def broken(kind):
    def fault():
        raise kind(f"of the record {SECRET}")

    return fault


def killed(sign):
    def fault():
        signal.signal(sign, signal.SIG_DFL) if sign != signal.SIGKILL else None
        os.kill(os.getpid(), sign)
        time.sleep(60)

    return fault


def greedy():
    return [bytearray(10**9) for _ in range(10)]


IN_THE_FIT = {
    "a fault": broken(ValueError),
    "an unreached minimum": broken(PrivacyError),
    "no memory": broken(MemoryError),
    "too much memory": greedy,
    "an interrupt": broken(KeyboardInterrupt),
    "kill": killed(signal.SIGKILL),
    "terminate": killed(signal.SIGTERM),
    "a bad address": killed(signal.SIGSEGV),
    "an exit": lambda: sys.exit(0),
    "a quick exit": lambda: os._exit(0),
}
OVERRUN = "an overrun"
KEEPING = ("a full disk", "half a result", "another release", "no folder")
FAULTS = (*IN_THE_FIT, OVERRUN, *KEEPING)


def force(monkeypatch, late):
    """Each asker has the fault of his name, once his question is booked."""
    now = []
    release = Gate.release
    marked = fit_process.record_booking
    write = persistence.write

    def mark(desk, ident, entry):
        marked(desk, ident, entry)
        now.append(entry.by)

    def faulty(gate, *arguments):
        if now and now[0] in IN_THE_FIT:
            IN_THE_FIT[now[0]]()
        if now == [OVERRUN]:
            late.touch()
            time.sleep(60)
        return release(gate, *arguments)

    def unwritable(path, content):
        fault = now[0] if now and path.name == persistence.RESULT else ""
        if fault == "a full disk":
            raise OSError(errno.ENOSPC, f"no room for {SECRET}")
        if fault == "no folder":
            path.parent.rmdir()
        if fault == "half a result":
            content = content[: len(content) // 2]
        if fault == "another release":
            document = json.loads(content)
            document["privacy"]["release"] = "0" * 32
            content = json.dumps(document).encode()
        write(path, content)

    monkeypatch.setattr(fit_process, "record_booking", mark)
    monkeypatch.setattr(Gate, "release", faulty)
    monkeypatch.setattr(persistence, "write", unwritable)


def test_guarantee_two_outcomes(tmp_path, monkeypatch):
    """Fifteen faults after booking: one answer, byte for byte, and the same time; a fit without a
    fault beside them is answered.
    """
    desk = desk_in(tmp_path, response_times=(600.0,))
    names = more_tables(desk, tmp_path, len(FAULTS))
    for name, fault in zip(names, FAULTS, strict=True):
        desk.add_person(fault)
        desk.allow(name, fault, 1.0)
    asked = {
        fault: desk.ask(name, question(rho=0.1), fault, anyway=True)
        for name, fault in zip(names, FAULTS, strict=True)
    }
    control = ask(desk)
    late = tmp_path / "late"
    force(monkeypatch, late)
    plain = desk.clock
    locks = [desk.folder.locks / ticket.id for ticket in (control, *asked.values())]
    over = []

    def clock():  # the slots end when everything but the overrun has ended
        if not over and late.exists() and all(lock.exists() for lock in locks):
            over.extend([True] * (sum(map(busy, locks)) == 1))
        return plain() + timedelta(seconds=700 * len(over))

    desk.clock = clock
    work(desk)
    shown = later(desk)
    assert shown.ticket(control.id).state == "answered"
    answers = set()
    for ticket in asked.values():
        assert shown.ticket(ticket.id).state == "lost"
        with pytest.raises(NoAnswerError) as lost:
            shown.result(ticket.id)
        assert str(lost.value) == NO_ANSWER
        done = shown.ticket(ticket.id)
        assert (done.due - type(done.due).fromisoformat(done.booking_time)).total_seconds() == 600
        shrink(desk, ticket.id)
        told = run_here("desk", "answer", desk.folder.path, ticket.id)
        answers.add((told.returncode, told.stdout.encode(), told.stderr.encode()))
    assert len(answers) == 1
    assert answers == {(2, b"", f"error: {NO_ANSWER}\n".encode())}
    assert len(dp.Ledger.open(tmp_path / "ledger.db").entries()) == len(FAULTS) + 1
    assert desk.verify().ok


def busy(path):
    from dpinfer_desk.store.locks import holder  # noqa: PLC0415

    return holder(path) is not None


def shrink(desk, ident):
    """The slot of a question as one of a second, so that it has ended for the command line."""
    with desk.register.change("test") as change:
        change("UPDATE questions SET slot = 0.001 WHERE id = ?", ident)


def test_what_is_refused_before_booking_is_free(tmp_path, monkeypatch):
    desk = desk_in(tmp_path, allowance=0.15, response_times=(600.0,))
    first = ask(desk)
    second = ask(desk, rho=0.11)  # the allowance pays for one of them
    work(hasten(desk))
    assert later(desk).ticket(first.id).state == "answered"
    refused = desk.ticket(second.id)
    assert refused.state == "refused"
    assert "this costs ρ = 0.11 (less than 0.1 % of the total)" in refused.reason
    assert "the allowance of 'meier', less than 0.1 % of the total, has" in refused.reason
    assert "for ρ = 0.0499999 at most" in refused.reason
    assert len(dp.Ledger.open(tmp_path / "ledger.db").entries()) == 1
    desk.allow("visits", "meier", 1.0)
    third = ask(desk, rho=0.12)
    monkeypatch.setattr(Policy, "waits", lambda *_: False)

    def fault(*_):
        raise ValueError(f"of the record {SECRET}")

    monkeypatch.setattr(fit_process, "_refusal", lambda *_: "")
    monkeypatch.setattr(fit_process.Booking, "book", fault)
    work(desk)
    assert desk.ticket(third.id).state == "refused"
    assert desk.ticket(third.id).reason == fit_process.FAULT
    assert str(SECRET) not in "".join(event.text() for event in desk.journal())


def test_guarantee_registered_table(tmp_path):
    """Other bytes, another time, another file in its place: nothing is booked, the table pauses."""
    desk = desk_in(tmp_path, response_times=(600.0,))
    path = tmp_path / "table.parquet"
    first = path.read_bytes()

    def later_time():
        os.utime(path, (1, 1))

    def other_bytes():
        path.write_bytes(first[::-1])

    def other_file():
        path.unlink()
        path.write_bytes(first)

    for k, change in enumerate((later_time, other_bytes, other_file, path.unlink)):
        ticket = ask(desk, rho=0.1 + k / 100)
        change()
        work(desk)
        assert desk.ticket(ticket.id).state == "refused"
        assert desk.table("visits").state == "paused"
        assert not desk.verify().ok
        path.write_bytes(first)
        desk.resume("visits", "the same people")
    assert dp.Ledger.open(tmp_path / "ledger.db").entries() == ()
    ticket = ask(desk, rho=0.3)
    work(hasten(desk))
    assert later(desk).ticket(ticket.id).state == "answered"


def test_one_worker_a_desk(tmp_path):
    desk = desk_in(tmp_path)
    stop = threading.Event()
    with forks():
        thread = threading.Thread(target=lambda: Worker(desk, "fork").run(stop=stop))
        thread.start()
        try:
            deadline = time.monotonic() + 30
            while not busy(desk.folder.locks / "worker") and time.monotonic() < deadline:
                time.sleep(0.01)
            with pytest.raises(dp.InputError, match="runs already"):
                Worker(desk, "fork").run(until_idle=True)
        finally:
            stop.set()
            thread.join()


def test_the_queue_waits_for_who_is_paused(tmp_path):
    desk = desk_in(tmp_path, response_times=(600.0,))
    ticket = ask(desk)
    desk.set_state("visits", "meier", "paused")
    work(desk)
    assert desk.ticket(ticket.id).state == "queued"
    desk.set_state("visits", "meier", "active")
    work(hasten(desk))
    assert later(desk).ticket(ticket.id).state == "answered"


def test_response_times_are_chosen_on_made_up_records(tmp_path, monkeypatch):
    """The response time depends on the longest fit, and the fit never sees the table."""
    desk = desk_in(tmp_path)
    table = desk.table("visits")
    monkeypatch.setattr(timing, "longest_fit", lambda *_: 1.2)
    asked = question(rho=0.1)
    assert timing.choose((2.0,), table, asked) == 2.0
    assert timing.choose((5.0, 15.0, 60.0), table, asked) == 15.0  # 3 (1.2 + .5) = 5.1
    with pytest.raises(dp.InputError, match="longer than the longest response time"):
        timing.choose((1.0, 2.0), table, asked)
    monkeypatch.undo()
    (tmp_path / "table.parquet").unlink()
    assert timing.longest_fit(table, asked) > 0
    assert timing.longest_fit(table, question(epsilon=1.0)) > 0  # a pure budget, with a search
    # 50,000 records would need a larger penalty than the million that there are
    monkeypatch.setattr(timing, "_MAX_MADE_UP", 400)
    large = replace(table, records=20_000, max_rows=20_000).sealed()
    sharp = question(epsilon=1.0, loss="svm", target="penalised", knee=0.01, penalty=5e-3)
    assert timing.longest_fit(large, sharp) > 0
    with pytest.raises(dp.BudgetError):
        timing.longest_fit(table, sharp)


def test_response_times_grow_with_the_table(tmp_path, monkeypatch):
    """Fits are timed on at most so many made-up records; a table four times as large takes four times
    as long, and gets a response time for that.
    """
    desk = desk_in(tmp_path)
    monkeypatch.setattr(timing, "_MAX_MADE_UP", 400)
    clock = SimpleNamespace(monotonic=itertools.count().__next__)  # each fit takes a second
    monkeypatch.setattr(timing, "time", clock)
    small, large = (
        replace(desk.table("visits"), records=n, max_rows=n).sealed() for n in (400, 1600)
    )
    assert timing.longest_fit(small, question(rho=0.1)) == 1.0
    assert timing.longest_fit(large, question(rho=0.1)) == 4.0
    times = (1.0, 5.0, 15.0, 60.0)
    assert timing.choose(times, small, question(rho=0.1)) == 5.0  # 3 (1 + .5) = 4.5
    assert timing.choose(times, large, question(rho=0.1)) == 15.0  # 3 (4 + .5) = 13.5


@pytest.mark.parametrize("checks", [0, 1])
def test_nothing_is_booked_while_the_disk_is_short(tmp_path, monkeypatch, checks):
    """It is checked before rows are counted, and once more just before the booking."""
    desk = desk_in(tmp_path, response_times=(600.0,))
    asked = ask(desk)
    needed = desk.settings.free
    free = itertools.chain([needed] * checks, itertools.repeat(needed - 1))
    monkeypatch.setattr(Folder, "free_megabytes", lambda _: next(free))
    work(hasten(desk))
    refused = desk.ticket(asked.id)
    assert refused.state == "refused"
    assert "not enough free space" in refused.reason
    assert dp.Ledger.open(tmp_path / "ledger.db").entries() == ()
    assert desk.analyst("visits", "meier").spent == 0
    monkeypatch.undo()
    monkeypatch.setattr(Folder, "free_megabytes", lambda _: needed)  # just enough
    again = ask(desk)
    work(hasten(desk))
    assert later(desk).ticket(again.id).state == "answered"


def test_one_made_up_table_has_an_outcome_that_a_column_decides(tmp_path):
    table = desk_in(tmp_path).table("visits")
    model = question(rho=0.1).model(table.schema, table.ledger().neighbours)
    frame = timing._frames(table.schema, model, 100)[-1]
    groups = frame.groupby("y")["a"].agg(["min", "max"]).sort_values("min")
    assert len(groups) == 2
    assert groups["max"].iloc[0] < groups["min"].iloc[1]


def test_a_response_time_is_chosen_alone_and_for_each_question(tmp_path, monkeypatch):
    """While something runs nothing is timed, so that the response time does not depend on another table; questions that
    differ in one number have response times of their own; new settings drop old ones.
    """
    desk = desk_in(tmp_path, response_times=(600.0, 900.0))
    beside = []

    def longest(table, asked):
        beside.extend(one.state for one in desk.register.tickets() if one.state in tickets.RUNNING)
        (tmp_path / f"timed {asked.rho}").touch()
        assert not beside
        return 250.0 if asked.rho == 0.2 else 0.1

    more_tables(desk, tmp_path, 1)
    monkeypatch.setattr(timing, "longest_fit", longest)
    desk.allow("t0", "meier", 100.0)
    first = ask(desk)
    other = desk.ask("t0", question(rho=0.2), "meier", anyway=True)
    work(hasten(desk))
    assert [later(desk).ticket(one.id).state for one in (first, other)] == ["answered"] * 2
    assert [desk.ticket(one.id).response_time for one in (first, other)] == [600.0, 900.0]
    assert len(list(tmp_path.glob("timed *"))) == 2
    worker = Worker(desk, "fork")
    assert worker._response_time(desk.table("visits"), first) == 600.0
    desk.folder.write(replace(desk.settings, response_times=(700.0, 900.0)))
    assert worker._response_time(desk.table("visits"), first) is None


@pytest.mark.parametrize("fault", [lambda *_: greedy(), lambda *_: os._exit(1)])
def test_a_timing_that_fails_is_a_refusal(tmp_path, monkeypatch, fault):
    desk = desk_in(tmp_path, response_times=(600.0, 900.0))
    ticket = ask(desk)
    monkeypatch.setattr(timing, "longest_fit", fault)
    work(desk)
    assert desk.ticket(ticket.id).state == "refused"
    assert desk.ticket(ticket.id).reason == response_times.UNTIMED


def test_a_penalty_below_the_floor_is_refused(tmp_path):
    desk = desk_in(tmp_path, total=dp.PureDP(100.0))
    keys = {"epsilon": 20.0, "loss": "svm", "target": "penalised", "knee": 0.01}
    with pytest.raises(dp.InputError, match="at a desk a penalty of at least"):
        desk.ask("visits", question(**keys, penalty=1e-7), "meier")
    assert desk.ask("visits", question(**keys, penalty=1e-2), "meier", anyway=True)
