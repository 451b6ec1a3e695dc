"""`dpinfer serve` as an operator types it; what needs the extra is in tests/network."""

import json
import os
import signal
import stat

import pytest

from dpinfer_desk.desk import Desk
from dpinfer_desk.store import accounts as module
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.worker.worker import Worker
from helpers.terminal import fails, files_in, run, run_here, succeeds

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Hashes of passwords that cost less."""
    monkeypatch.setattr(module, "_N", 2**4)


@pytest.fixture
def folder(tmp_path):
    files_in(tmp_path)
    succeeds(run_here("serve", "init", tmp_path / "desk", "--ladder", "600", "--title", "Here"))
    add = ["serve", "table", "add", tmp_path / "desk", "visits", "--data", tmp_path / "table.csv"]
    files = ["--schema", tmp_path / "schema.toml", "--ledger", tmp_path / "ledger.db"]
    succeeds(run_here(*add, *files, "--rho", "100"))
    return tmp_path / "desk"


def given(done):
    return json.loads(succeeds(done))


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_what_the_pages_may_and_what_they_may_not(folder):
    """They write into the files of shared/ alone, make none there, and the secret, logs and locks are not theirs."""
    assert mode(folder) == 0o750
    assert mode(folder / "shared") == 0o2750
    for name in ("desk.db", "journal.db"):
        for ending in ("", "-wal", "-shm"):
            assert mode(folder / "shared" / f"{name}{ending}") == 0o660
    assert mode(folder / "desk.toml") == 0o640
    for name in ("accounts", "results"):
        assert mode(folder / name) & 0o027 == 0
    for name in ("secret", "logs", "locks"):
        assert mode(folder / name) & 0o077 == 0
    assert (folder / "accounts" / "visits.json").exists()


def test_people_are_invited_or_have_a_password(folder, monkeypatch):
    told = given(run_here("serve", "person", "add", folder, "a.meier", "--json"))
    assert told["person"] == "a.meier"
    accounts = Accounts(Desk.open(folder).register)
    assert accounts.invited(told["invitation"]) == "a.meier"
    add = ["person", "add", folder, "boss", "--role", "steward", "--password"]
    done = run("serve", *add, input=f"{PASSWORD}\n")
    assert PASSWORD not in done.stdout + done.stderr
    assert "signs in with the password, as steward" in succeeds(done)
    allowed = ["b.okafor", "--table", "visits", "--rho", "0.5", "--words", "of the university"]
    succeeds(run_here("serve", "person", "add", folder, *allowed))
    desk = Desk.open(folder)
    assert desk.analyst("visits", "b.okafor").amount == 0.5
    listed = given(run_here("serve", "person", "list", folder, "--json"))["accounts"]
    assert [(one["person"], one["role"]) for one in listed] == [
        ("a.meier", "analyst"),
        ("b.okafor", "analyst"),
        ("boss", "steward"),
    ]
    again = given(run_here("serve", "person", "invite", folder, "a.meier", "--json"))
    assert accounts.invited(told["invitation"]) == ""
    assert accounts.invited(again["invitation"]) == "a.meier"
    assert again["link"] is None
    invite = ("serve", "person", "invite", folder, "a.meier", "--address")
    link = succeeds(run_here(*invite, "https://stats.example.org/")).splitlines()[-1]
    assert link.startswith("https://stats.example.org/join#")
    assert accounts.invited(link.partition("#")[2]) == "a.meier"
    fails(run_here(*invite, "stats.example.org"), "--address takes the address of the desk")
    assert accounts.invited(link.partition("#")[2]) == "a.meier"  # nothing was made anew
    succeeds(run_here("serve", "person", "close", folder, "a.meier"))
    assert accounts.role("a.meier") == ""
    fails(run_here("serve", "person", "add", folder, "x", "--role", "root"), "a role is steward")
    assert "x" not in {person.name for person in desk.persons()}
    short = run("serve", "person", "add", folder, "c", "--password", input="short\n")
    fails(short, "a password has 12")


def test_a_backup_prints_heads(folder, tmp_path):
    told = given(run_here("serve", "backup", folder, tmp_path / "copy", "--json"))
    assert told["heads"] == Desk.open(folder).heads()
    fails(run_here("serve", "backup", folder, tmp_path / "copy"), "name a new folder")


def test_check_says_what_is_missing(folder):
    done = run_here("serve", "check", folder, "--json")
    assert done.returncode == 2
    told = json.loads(done.stdout)
    assert not told["ok"]
    words = [one["words"] for one in told["findings"] if not one["fine"]]
    assert any("there was no backup yet" in one for one in words)
    assert any("no steward can sign in" in one for one in words)
    given(run_here("serve", "person", "add", folder, "s.berg", "--role", "steward", "--json"))
    done = run_here("serve", "check", folder, "--identity-header", "X-Remote-User", "--json")
    assert "no steward can sign in" not in done.stdout


def test_one_or_the_other(folder):
    both = run_here("serve", "run", folder, "--web-only", "--worker-only")
    fails(both, "give one of them")


def test_the_worker_alone_needs_no_extra(folder, monkeypatch):
    """It is the worker of every desk, and a signal ends it in good order."""
    seen = []
    monkeypatch.setattr(Worker, "run", lambda self, stop: seen.append(stop.is_set()))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process is that of the tests
    done = run_here("serve", "run", folder, "--worker-only")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert seen == [False]
