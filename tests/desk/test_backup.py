"""Copies of a desk at work, and what is missing before it may stand on a network."""

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

import dpinfer as dp
from dpinfer_desk import checkup
from dpinfer_desk.backup import back_up, last_backup
from dpinfer_desk.checkup import requirements
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from helpers.desks import ask, desk_in, hasten, later, work


@pytest.fixture
def desk(tmp_path):
    return hasten(desk_in(tmp_path, response_times=(600.0,)))


def restored(out, folder, ledger):
    """A backup put in the place of what was lost."""
    shutil.rmtree(folder)
    shutil.copytree(out, folder)
    shutil.copy2(folder / "ledgers" / "visits.db", ledger)
    shutil.rmtree(folder / "ledgers")
    with pytest.raises(dp.LedgerError, match=r"is a backup.*accounts that were closed.*allowances"):
        Desk.open(folder)
    return Desk.open(folder, old_copy=True)


def test_a_backup_is_the_desk(desk, tmp_path):
    """Put back, everything is there, and the desk goes on."""
    asked = ask(desk)
    work(desk)
    heads = back_up(desk, tmp_path / "copies" / "first")
    assert heads == desk.heads()
    assert last_backup(desk) is not None
    before = later(desk).result(asked.id).to_json()
    desk_events = desk.journal()
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    again = restored(tmp_path / "copies" / "first", desk.folder.path, tmp_path / "ledger.db")
    assert again.heads()["ledger of visits"] == heads["ledger of visits"]
    assert again.journal()[:-1] == desk_events
    assert again.journal()[-1].action == "an old copy of desk.db was accepted"
    assert Desk.open(desk.folder.path).verify().ok  # said once
    assert later(again).result(asked.id).to_json() == before
    assert again.verify().ok
    more = ask(again, rho=0.2)
    work(hasten(again))
    assert later(again).ticket(more.id).state == "answered"


def test_a_backup_holds_no_record_and_is_for_its_owner(desk, tmp_path):
    back_up(desk, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0
    for name in ("secret", "shared/desk.db", "shared/journal.db", "ledgers/visits.db"):
        assert (tmp_path / "copy" / name).stat().st_mode & 0o077 == 0
    table = (tmp_path / "table.parquet").read_bytes()
    for path in (tmp_path / "copy").rglob("*"):
        assert path.is_dir() or path.read_bytes() != table
    with pytest.raises(dp.InputError, match="name a new folder"):
        back_up(desk, tmp_path / "copy")


def test_a_backup_brings_no_access_back(desk, tmp_path, monkeypatch):
    """Sessions, tokens and invitations of the time of the backup open nothing."""
    monkeypatch.setattr("dpinfer_desk.store.accounts._N", 16)
    accounts = Accounts(desk.register)
    accounts.open("meier", "analyst", "steward")
    accounts.set_password("meier", "correct horse battery")
    session = accounts.open_session("meier")
    _, token = accounts.make_token("meier", ("read",), 30, "laptop")
    invitation = accounts.invite("meier", "steward")
    back_up(desk, tmp_path / "copy")
    assert accounts.by_token(token)  # and here nothing has changed
    assert accounts.by_session(session)
    assert accounts.invited(invitation)
    for name in ("sessions", "tokens", "accounts WHERE invitation IS NOT NULL"):
        place = tmp_path / "copy" / "shared" / "desk.db"
        with closing(sqlite3.connect(place)) as connection:
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
    again = Accounts(restored(tmp_path / "copy", desk.folder.path, tmp_path / "ledger.db").register)
    assert again.by_token(token) is None
    assert again.by_session(session) is None
    assert again.invited(invitation) == ""
    assert again.role("meier") == "analyst"


def test_a_ledger_that_is_gone_is_no_backup(desk, tmp_path):
    (tmp_path / "ledger.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(dp.LedgerError):
        back_up(desk, tmp_path / "copy")
    assert last_backup(desk) is None


def test_an_old_ledger_from_a_backup_is_refused(desk, tmp_path):
    """What was booked after the backup is paid for: the old ledger books nothing."""
    ask(desk)
    work(desk)
    back_up(desk, tmp_path / "copy")
    ask(desk, rho=0.2)
    work(desk)
    for name in ("ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy2(tmp_path / "copy" / "ledgers" / "visits.db", tmp_path / "ledger.db")
    late = ask(desk, rho=0.3)
    work(desk)
    assert desk.table("visits").state == "paused"
    assert desk.ticket(late.id).state != "answered"


def lacking(desk, web="root"):
    return [one.message for one in requirements(desk, web) if not one.met]


def test_what_is_missing_is_told(desk, tmp_path, monkeypatch):
    """Each fault that is made is found, and each one that is mended is no longer."""
    words = "\n".join(lacking(desk, ""))
    for part in (
        "logs is for the worker alone",
        "table.parquet of visits is not for everybody",
        "name it with --web-user",
        "there was no backup yet",
        "no steward can sign in",
        "the worker is not running",
    ):
        assert part in words, part
    with pytest.raises(dp.InputError, match="there is no user"):
        lacking(desk, "no such user at all")
    desk.folder.share()
    for name in ("table.parquet", "ledger.db"):
        os.chmod(tmp_path / name, 0o600)
    back_up(desk, tmp_path / "copy")
    monkeypatch.setattr("dpinfer_desk.store.accounts._N", 16)
    desk.add_person("boss")
    accounts = Accounts(desk.register)
    accounts.open("boss", "steward", "steward")
    accounts.set_password("boss", "correct horse battery")
    work(desk)
    left = [one for one in lacking(desk, "") if "time server" not in one and "unshare" not in one]
    assert left == [one for one in left if "--web-user" in one]
    now = desk.clock()
    desk.clock = lambda: now + timedelta(days=8)
    assert any("8 days old" in one for one in lacking(desk))
    desk.clock = lambda: now - timedelta(days=1)
    assert any("the clock is behind" in one for one in lacking(desk))
    desk.clock = lambda: now
    os.chmod(desk.folder.secret, 0o640)
    assert any("secret is for the worker alone" in one for one in lacking(desk))
    settings = desk.settings
    desk.folder.write(type(settings)(**{**vars(settings), "free": 10**9}))
    assert any("nothing is booked below" in one for one in lacking(desk))
    monkeypatch.setattr(checkup, "UNSHARE", ("no-such-command",))
    assert any("starts no process without a network" in one for one in lacking(desk))


def test_a_steward_who_signs_in_at_the_proxy_needs_no_password(desk):
    def reported(header):
        found = requirements(desk, "root", header)
        return any("no steward can sign in" in one.message for one in found if not one.met)

    assert reported("X-Remote-User")  # there is no account yet
    accounts = Accounts(desk.register)
    accounts.open("meier", "analyst", "steward")
    assert reported("X-Remote-User")
    desk.add_person("boss")
    accounts.open("boss", "steward", "steward")
    assert not reported("X-Remote-User")
    assert reported("")


@pytest.mark.skipif(os.getuid() != 0, reason="gives files to another user")
def test_what_a_user_may(tmp_path):
    """By the modes of a path and of the folders that lead there."""
    place = tmp_path / "in" / "file"
    place.parent.mkdir()
    place.write_text("x")
    os.chown(place, 1001, 2001)
    os.chmod(place, 0o640)
    for above in place.parents:
        if above.is_relative_to(tmp_path):
            os.chmod(above, 0o711)

    def may(user, group, right=os.R_OK):
        steps = [(one, os.X_OK) for one in place.parents if one.is_relative_to(tmp_path)]
        return all(
            checkup._allows(path, user, {group}, needed)
            for path, needed in [*steps, (place, right)]
        )

    assert may(1001, 5)
    assert may(1001, 5, os.W_OK)
    assert may(1002, 2001)
    assert not may(1002, 2001, os.W_OK)
    assert not may(1002, 2002)
    os.chmod(place.parent, 0o700)
    assert not may(1001, 5)
    assert checkup._may(place, 0, set(), os.R_OK)
    assert not checkup._may(tmp_path / "none", 1001, set(), os.R_OK)
