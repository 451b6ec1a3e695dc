"""Who signs in at a desk: passwords, invitations, sessions, tokens."""

import hashlib
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import accounts as module
from dpinfer_desk.store.accounts import Accounts, LockedError, Signed
from dpinfer_desk.worker import fit_process
from helpers.desks import ask, desk_in
from helpers.forking import forked

PASSWORD = "correct horse battery"
WRONG = "incorrect horse battery"


class Clock:
    def __init__(self):
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.time

    def on(self, **span):
        self.time += timedelta(**span)


@pytest.fixture
def quick(monkeypatch):
    """Hashes of passwords that cost less: one test has the real ones."""
    monkeypatch.setattr(module, "_N", 2**4)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def desk(tmp_path, clock):
    desk_in(tmp_path)
    return Desk.open(tmp_path / "desk", "steward", clock)


@pytest.fixture
def accounts(desk, quick):
    found = Accounts(desk.register)
    found.open("meier", "analyst", "steward")
    found.set_password("meier", PASSWORD)
    return found


def test_a_password_is_a_hash_that_takes_its_time(desk):
    accounts = Accounts(desk.register)
    accounts.open("meier", "analyst", "steward")
    accounts.set_password("meier", PASSWORD)
    with closing(sqlite3.connect(desk.folder.database)) as connection:
        salt, kept = connection.execute("SELECT salt, password FROM accounts").fetchone()
    assert len(salt) == 16
    assert kept == hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2**17, r=8, p=1, maxmem=2**28)
    assert accounts.check("meier", PASSWORD, "10.0.0.1") == Signed("meier", "analyst")
    assert accounts.check("meier", WRONG, "10.0.0.1") is None


def test_who_is_not_known_is_told_nothing_else(accounts, desk):
    desk.add_person("weber")
    accounts.open("weber", "auditor", "steward")  # and no password yet
    for name in ("meier", "weber", "nobody", "", "x" * 10_000):
        assert accounts.check(name, WRONG, "10.0.0.1") is None


def test_guarantee_names_are_not_told(accounts, monkeypatch):
    """A name that is not known is hashed as often as one that is, and is locked like it."""
    hashed = []
    real = hashlib.scrypt
    monkeypatch.setattr(
        module.hashlib,
        "scrypt",
        lambda *given, **more: hashed.append(more["n"]) or real(*given, **more),
    )
    for name in ("meier", "nobody"):
        hashed.clear()
        for _ in range(5):
            assert accounts.check(name, WRONG, "10.0.0.1") is None
        assert len(hashed) == 5
        with pytest.raises(LockedError) as told:
            accounts.check(name, PASSWORD, "10.0.0.1")
        assert str(told.value) == "too many tries: wait a minute, and try again"
        assert len(hashed) == 5  # what is refused costs nothing


def test_tries_are_counted(accounts, clock):
    for _ in range(5):
        accounts.check("meier", WRONG, "10.0.0.1")
    with pytest.raises(LockedError):
        accounts.check("meier", PASSWORD, "10.0.0.1")
    assert accounts.check("meier", PASSWORD, "10.0.0.2")  # nobody is locked out by a stranger
    clock.on(seconds=61)
    for _ in range(10):
        assert accounts.check("meier", PASSWORD, "10.0.0.1")  # who knows it may come and go


def test_ten_thousand_tries_from_everywhere_are_few(accounts, clock):
    """One person from many addresses, and many people from one address."""
    tried = 0
    for k in range(10_000):
        clock.on(seconds=0.1)
        try:
            accounts.check("meier", WRONG, f"10.0.{k % 200}.1")
            tried += 1
        except LockedError:
            continue
    assert tried == 50
    clock.on(hours=2)
    sprayed = 0
    for k in range(1000):
        try:
            accounts.check(f"name {k}", WRONG, "10.0.0.1")
            sprayed += 1
        except LockedError:
            continue
    assert sprayed == 60
    clock.on(hours=2)
    accounts.check("meier", WRONG, "10.0.0.1")
    assert len(accounts._tries) == 3  # what counts for nothing is forgotten


def test_no_name_takes_no_place_from_the_address(accounts, monkeypatch):
    """Sixty tries a minute from one address, also where the first ones name nobody; what cannot be
    right costs no hash, and no memory.
    """
    hashed = []
    monkeypatch.setattr(module, "_password_hash", lambda *_: hashed.append(1) or b"")
    long = "x" * 10_000
    for number in range(200):
        for person, password in (("", WRONG), (long, WRONG), (f"name {number}", long)):
            assert accounts.check(person, password, "10.0.0.1") is None
    assert not hashed
    assert not accounts._tries
    tried = 0
    for k in range(100):
        try:
            accounts.check(f"name {k}", WRONG, "10.0.0.1")
            tried += 1
        except LockedError:
            continue
    assert tried == 60


@pytest.mark.parametrize(
    "password", ["short", "x" * 1001, "aaaaaaaaaaaaaaaa", "ab" * 8, "Meier is my name"]
)
def test_passwords_that_are_none(accounts, password):
    with pytest.raises(dp.InputError, match="password"):
        accounts.set_password("meier", password)
    assert accounts.check("meier", PASSWORD, "10.0.0.1")


def test_an_invitation_is_for_once_and_for_a_week(accounts, desk, clock):
    desk.add_person("weber")
    with pytest.raises(dp.InputError, match="no account"):
        accounts.invite("weber", "steward")
    accounts.open("weber", "auditor", "steward")
    secret = accounts.invite("weber", "steward")
    assert accounts.invited(secret) == "weber"
    assert [one.invited != "" for one in accounts.all()] == [False, True]
    with pytest.raises(dp.InputError, match="a password has 12"):
        accounts.accept(secret, "short")
    assert accounts.accept(secret, PASSWORD) == "weber"
    assert accounts.check("weber", PASSWORD, "10.0.0.1") == Signed("weber", "auditor")
    for again in (secret, "", "nonsense"):
        assert accounts.invited(again) == ""
        with pytest.raises(dp.InputError, match="this invitation was used"):
            accounts.accept(again, PASSWORD)
    late = accounts.invite("weber", "steward")
    newer = accounts.invite("weber", "steward")
    assert accounts.invited(late) == ""  # the newest one counts
    clock.on(days=7, seconds=1)
    assert accounts.invited(newer) == ""


def test_a_session_ends(accounts, clock):
    secret = accounts.open_session("meier")
    assert accounts.by_session(secret) == Signed("meier", "analyst")
    assert accounts.by_session(secret + "x") is None
    assert accounts.by_session("") is None
    for _ in range(12):
        clock.on(minutes=58)
        assert accounts.by_session(secret)
    clock.on(minutes=58)  # twelve hours are over, however much was done
    assert accounts.by_session(secret) is None
    idle = accounts.open_session("meier")
    clock.on(minutes=61)
    assert accounts.by_session(idle) is None


def test_guarantee_revoked_at_once(accounts, desk):
    """Sessions and tokens end with a sign-out, a new password, a closed account, and a role changes
    for those that are open.
    """
    first = accounts.open_session("meier")
    second = accounts.open_session("meier")
    _, token = accounts.make_token("meier", ("read",), 30, "laptop")
    accounts.close_session(first)
    assert accounts.by_session(first) is None
    assert accounts.by_session(second)
    accounts.open("meier", "auditor", "steward")
    assert accounts.by_session(second) == Signed("meier", "auditor")
    assert accounts.by_token(token) == Signed("meier", "auditor", ("read",))
    accounts.set_password("meier", WRONG)
    assert accounts.by_session(second) is None
    assert accounts.by_token(token) is None
    ident, token = accounts.make_token("meier", ("read",), 30, "laptop")
    assert accounts.by_token(token)
    accounts.revoke_token("meier", ident)
    assert accounts.by_token(token) is None
    third = accounts.open_session("meier")
    _, other = accounts.make_token("meier", ("read", "ask"), 1, "")
    accounts.close("meier", "steward")
    assert accounts.by_session(third) is None
    assert accounts.by_token(other) is None
    assert accounts.check("meier", WRONG, "10.0.0.1") is None
    accounts.open("meier", "analyst", "steward")  # the same name anew has nothing of the old one
    assert accounts.by_session(third) is None
    assert accounts.by_token(other) is None
    fourth = accounts.open_session("meier")
    accounts.close_sessions("meier")
    assert accounts.by_session(fourth) is None


def test_a_token_has_scopes_an_end_and_a_last_use(accounts, desk, clock):
    ident, secret = accounts.make_token("meier", ("ask", "read"), 90, "laptop")
    assert len(secret) >= 43
    (token,) = accounts.tokens("meier")
    assert (token.id, token.name, token.scopes, token.last_used) == (
        ident,
        "laptop",
        ("read", "ask"),
        "",
    )
    assert accounts.by_token(secret).scopes == ("read", "ask")
    (token,) = accounts.tokens("meier")
    assert token.last_used == clock().isoformat()
    clock.on(days=90)
    assert accounts.by_token(secret) is None
    assert accounts.tokens("meier") == []
    for scopes, days, name in (
        ((), 1, ""),
        (("write",), 1, ""),
        (("read",), 91, ""),
        (("read",), 0, ""),
        (("read",), True, ""),
        (("read",), 1, "a\nb"),
        (("read",), 1, "x" * 101),
    ):
        with pytest.raises(dp.InputError):
            accounts.make_token("meier", scopes, days, name)
    desk.add_person("weber")
    with pytest.raises(dp.InputError, match="no account"):
        accounts.make_token("weber", ("read",), 1, "")


def test_a_person_has_twenty_tokens(accounts, clock):
    """And another one after one was revoked, or when they are too old, which are then kept no more."""
    idents = [accounts.make_token("meier", ("read",), 1, "")[0] for _ in range(20)]
    with pytest.raises(dp.InputError, match="at most 20 tokens: revoke one"):
        accounts.make_token("meier", ("read",), 1, "")
    accounts.revoke_token("meier", idents[0])
    accounts.make_token("meier", ("read",), 1, "")
    with pytest.raises(dp.InputError, match="at most 20 tokens"):
        accounts.make_token("meier", ("read",), 1, "")
    clock.on(days=1)
    accounts.make_token("meier", ("read",), 1, "")
    with accounts._register.read() as sql:
        assert sql("SELECT count(*) FROM tokens").fetchone() == (1,)


def test_a_token_of_somebody_else_is_not_revoked(accounts, desk):
    desk.add_person("weber")
    accounts.open("weber", "analyst", "steward")
    ident, secret = accounts.make_token("meier", ("read",), 1, "")
    with pytest.raises(dp.InputError, match="there is no such token"):
        accounts.revoke_token("weber", ident)
    assert accounts.by_token(secret)


def test_guarantee_no_secret_kept(accounts, desk):
    """No file of the desk holds a secret, and neither does the journal."""
    invitation = accounts.invite("meier", "steward")
    secrets = [PASSWORD, invitation, accounts.open_session("meier")]
    secrets.append(accounts.make_token("meier", ("read",), 1, "laptop")[1])
    accounts.by_session(secrets[2])
    accounts.by_token(secrets[3])
    held = [path.read_bytes() for path in desk.folder.path.rglob("*") if path.is_file()]
    held.append(desk.export_journal().encode())
    for secret in secrets:
        assert not any(secret.encode() in content for content in held)
        assert not any(secret.encode()[-20:] in content for content in held)


def test_what_was_done_to_accounts_is_in_the_journal(accounts, desk):
    ident, _ = accounts.make_token("meier", ("read",), 1, "laptop")
    accounts.revoke_token("meier", ident)
    accounts.close("meier", "steward")
    did = [(event.who, event.action) for event in desk.journal()]
    assert did[-6:] == [
        ("steward", "an account was opened"),
        ("meier", "a password was set"),
        ("meier", "a token was made"),
        ("meier", "a token was revoked"),
        ("steward", "an account was closed"),
        ("steward", "analyst revoked"),
    ]
    assert desk.verify().ok


def test_only_people_of_the_desk_have_accounts(accounts):
    with pytest.raises(dp.InputError, match="there is no person"):
        accounts.open("weber", "analyst", "steward")
    with pytest.raises(dp.InputError, match="a role is steward, analyst, auditor"):
        accounts.open("meier", "root", "steward")
    for act in (accounts.close, accounts.set_password):
        with pytest.raises(dp.InputError, match="has no account"):
            act("weber", PASSWORD)


def test_an_old_copy_brings_no_token_back(accounts, desk):
    """What was revoked stays revoked when an old desk.db is accepted."""
    ident, secret = accounts.make_token("meier", ("read",), 1, "")
    session = accounts.open_session("meier")
    invitation = accounts.invite("meier", "steward")
    with closing(sqlite3.connect(desk.folder.database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    old = desk.folder.database.read_bytes()
    accounts.revoke_token("meier", ident)
    accounts.close_session(session)
    for name in ("desk.db-wal", "desk.db-shm"):
        (desk.folder.shared / name).unlink(missing_ok=True)
    desk.folder.database.write_bytes(old)
    again = Desk.open(desk.folder.path, clock=desk.clock, old_copy=True)
    found = Accounts(again.register)
    assert found.by_token(secret) is None
    assert found.by_session(session) is None
    assert found.invited(invitation) == ""
    assert found.check("meier", PASSWORD, "10.0.0.1")


@pytest.mark.parametrize("role", ["", "auditor", "steward"])
def test_who_is_no_analyst_any_more_asks_nothing(accounts, desk, role):
    """Closed, or given another role: what is open ends, allowances too; what is booked stays."""
    booked = ask(desk)
    facts = {"slot": 60.0, "booked": desk.clock().isoformat(), "release": "r"}
    desk.register.move(booked.id, ("queued",), "booked", "worker", **facts)
    waiting = ask(desk, rho=0.2)
    desk.register.move(waiting.id, ("queued",), "waiting", "test")
    queued = ask(desk, rho=0.3)
    events = len(desk.journal())
    if role:
        accounts.open("meier", role, "steward")
    else:
        accounts.close("meier", "steward")
    assert [desk.ticket(one.id).state for one in (booked, waiting, queued)] == [
        "booked",
        "declined",
        "declined",
    ]
    assert desk.register.allowances("visits")["meier"] == (100.0, "revoked")
    assert [event.action for event in desk.journal()[events:]] == [
        "an account was closed" if not role else "an account was opened",
        "declined",
        "declined",
        "analyst revoked",
    ]
    with pytest.raises(dp.LedgerError, match="access of 'meier' to visits is revoked"):
        ask(desk, rho=0.4)


def test_a_claimed_question_of_a_closed_account_is_refused(tmp_path, quick):
    desk = desk_in(tmp_path)
    accounts = Accounts(desk.register)
    accounts.open("meier", "analyst", "steward")
    asked = ask(desk)
    desk.register.move(asked.id, ("queued",), "claimed", "worker", slot=0.6)
    accounts.close("meier", "steward")
    _, status = os.waitpid(forked(lambda: fit_process.main(str(desk.folder.path), asked.id)), 0)
    assert status == 0
    assert desk.ticket(asked.id).state == "refused"
    assert desk.table("visits").ledger().entries() == ()


def test_an_analyst_who_stays_one_keeps_everything(accounts, desk):
    asked = ask(desk)
    accounts.open("meier", "analyst", "steward")
    assert desk.ticket(asked.id).state == "queued"
    assert desk.register.allowances("visits")["meier"] == (100.0, "active")
