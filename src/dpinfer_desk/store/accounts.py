"""Accounts at a desk: passwords, invitations, sessions and tokens, stored in desk.db as hashes.

    accounts = Accounts(desk.register)
    accounts.open("a.meier", ANALYST, who="steward")
    accounts.accept(accounts.invite("a.meier", who="steward"), "a long password")
    signed = accounts.check("a.meier", "a long password", "10.0.0.7")     # None if it is wrong
    secret = accounts.open_session("a.meier")                            # goes into a cookie
    accounts.by_session(secret)
    ident, secret = accounts.make_token("a.meier", ("read", "ask"), 30, "laptop")
    accounts.by_token(secret)                                            # None once it is revoked

The journal records accounts, new passwords, invitations and tokens, by name and never with a secret.  It
does not record who signs in, when or how often: no decision depends on it, and it is personal.
"""

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any

from dpinfer.errors import InputError
from dpinfer_desk.store import tickets
from dpinfer_desk.store.register import Change, Register
from dpinfer_desk.store.roles import ANALYST, REVOKED, role_named

READ = "read"
ASK = "ask"
SCOPES = (READ, ASK)
"""The permissions of a token: to read, and to ask."""

LONGEST = 90
"""The longest life of a token, in days."""
MAX_TOKENS = 20
"""The largest number of tokens of a person."""
INVITATION = timedelta(days=7)
"""The time in which an invitation can be accepted."""
SESSION = timedelta(hours=12)
"""The longest life of a session."""
IDLE = timedelta(hours=1)
"""The time after which a session ends if it is not used."""
TRIES = 5
"""The passwords that may be tried in a minute for one person from one address."""
USED_INVITATION = "this invitation was used, or is too old: ask the steward for another one"
SHORTEST_PASSWORD = 12
LONGEST_PASSWORD = 1000

_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_BY_PERSON = 50  # tries in an hour for one person, from all addresses together
_BY_ADDRESS = 60  # tries in a minute from one address, for all persons together
# Parameters of scrypt as OWASP recommends them: 128 N r bytes = 128 MB, about half a second.
_N = 2**17
_R = 8
_MEMORY = 2**28  # bytes that OpenSSL may use for it: twice what it needs
_KNOWN = timedelta(days=1)  # after a session has ended: for `ended_session` alone
_LAST_USE = timedelta(minutes=1)  # resolution of the last use, so that not each request writes
_LONGEST_NAME = 100
_SALT = 16
_NO_ANALYST = "the account of the analyst was closed, or has another role now"
_TOKEN = "dpinfer-"  # the prefix of a token, by which scanners for leaked secrets can recognise one
_REVOKE = (
    "DELETE FROM tokens WHERE id IN (WITH RECURSIVE gone (id) AS ("
    "SELECT id FROM tokens WHERE person = ? AND id = ? "
    "UNION SELECT tokens.id FROM tokens JOIN gone ON tokens.maker = gone.id) SELECT id FROM gone)"
)


@dataclass(frozen=True)
class Signed:
    """A person who is signed in, by a session with all ``scopes``, or by a token with those of it.

    ``token`` is the id of the token, empty in a session.
    """

    person: str
    role: str
    scopes: tuple[str, ...] = SCOPES
    token: str = field(default="", compare=False)


@dataclass(frozen=True)
class AccountInfo:
    """An account without its secrets; ``invited`` is the time until which an invitation is valid."""

    person: str
    role: str
    opened: str
    has_password: bool
    invited: str


@dataclass(frozen=True)
class Token:
    """A token without its secret, which was shown once; ``last_used`` is empty before the first use."""

    id: str
    name: str
    scopes: tuple[str, ...]
    made: str
    ends: str
    last_used: str


class Accounts:
    """The accounts of a desk.

    Guarantee [no_secret_kept]: passwords, invitations, sessions and tokens are stored as hashes
    alone, so that whoever reads the files of a desk can sign in as nobody.
    Guarantee [revoked_at_once]: a token or session that was revoked, whose account was closed or whose
    owner has a new password opens nothing from then on.
    """

    def __init__(self, register: Register) -> None:
        self._register = register
        self._tries: dict[tuple[str, ...], tuple[datetime, ...]] = {}
        self._lock = threading.Lock()
        # Stands for an unknown person, so that the same work is done: no password has this hash.
        self._unknown = (bytes(_SALT), secrets.token_bytes(64), "")

    # Accounts

    def open(self, person: str, role: str, who: str) -> None:
        """Give a person an account, or another role; `set_password` or `accept` comes next.

        Only an analyst asks: with another role open questions and allowances end, as with `close`.
        """
        role_named(role)
        with self._register.change(who) as change:
            if not change("SELECT 1 FROM people WHERE name = ?", person).fetchone():
                raise InputError(f"there is no person {person!r}: add the person first")
            change(
                "INSERT INTO accounts (person, role, opened) VALUES (?, ?, ?) "
                "ON CONFLICT (person) DO UPDATE SET role = excluded.role",
                *(person, role, self._time()),
            )
            change.event("an account was opened", person=person, role=role)
            if role != ANALYST:
                self._end_asking(change, person, who)

    def close(self, person: str, who: str) -> None:
        """Close an account, with all its sessions and tokens, at once.

        Its unpaid questions are declined and its allowances revoked; a question that is booked stays.
        """
        with self._register.change(who) as change:
            gone = change("DELETE FROM accounts WHERE person = ?", person).rowcount
            if not gone:
                raise _no_account(person)
            _drop(change.connection, person)
            change.event("an account was closed", person=person)
            self._end_asking(change, person, who)

    def _end_asking(self, change: Change, person: str, who: str) -> None:
        # A claimed question is left to its process, which finds the allowance revoked before it books.
        before = (tickets.WAITING, tickets.QUEUED)
        rows = change(
            "SELECT id FROM questions WHERE asker = ? AND state IN (?, ?)", person, *before
        )
        for (ident,) in rows.fetchall():
            change(
                "UPDATE questions SET state = ?, decided = ?, decider = ?, reason = ? WHERE id = ?",
                *(tickets.DECLINED, self._time(), who, _NO_ANALYST, ident),
            )
            change.event(tickets.DECLINED, question=ident, reason=_NO_ANALYST)
        rows = change("SELECT tab FROM allowances WHERE person = ? AND state != ?", person, REVOKED)
        for (table,) in rows.fetchall():
            change(
                "UPDATE allowances SET state = ? WHERE tab = ? AND person = ?",
                *(REVOKED, table, person),
            )
            change.event(f"analyst {REVOKED}", table=table, person=person, reason=_NO_ANALYST)

    def all(self) -> list[AccountInfo]:
        """Return all accounts, by person."""
        with self._register.read() as sql:
            rows = sql(
                "SELECT person, role, opened, password IS NOT NULL, "
                "CASE WHEN invitation IS NULL OR invited < ? THEN '' ELSE invited END "
                "FROM accounts ORDER BY person",
                self._time(),
            ).fetchall()
        return [
            AccountInfo(person, role, opened, bool(known), invited)
            for person, role, opened, known, invited in rows
        ]

    def role(self, person: str) -> str:
        """Return the role of a person; empty if there is no account."""
        with self._register.read() as sql:
            row = sql("SELECT role FROM accounts WHERE person = ?", person).fetchone()
        return "" if row is None else str(row[0])

    # Passwords

    def set_password(self, person: str, password: str, who: str = "") -> None:
        """Set a password; this ends all sessions, tokens and invitations of the person."""
        if not self._set(person, password, who or person):
            raise _no_account(person)

    def _set(self, person: str, password: str, who: str, invitation: str | None = None) -> bool:
        """Set a password and return True; with an invitation only if it is still the current one."""
        _require_password(person, password)
        salt = secrets.token_bytes(_SALT)
        digest = _password_hash(password, salt)
        with self._register.change(who) as change:
            changed = change(
                "UPDATE accounts SET salt = ?, password = ?, invitation = NULL, invited = '' "
                "WHERE person = ? AND coalesce(?, invitation, '') = coalesce(invitation, '')",
                *(salt, digest, person, invitation),
            ).rowcount
            if changed:
                _drop(change.connection, person)
                change.event("a password was set", person=person)
        return bool(changed)

    def invite(self, person: str, who: str) -> str:
        """Return a new secret with which a person can set a password, once."""
        secret = secrets.token_urlsafe(32)
        ends = (self._now() + INVITATION).isoformat()
        with self._register.change(who) as change:
            changed = change(
                "UPDATE accounts SET invitation = ?, invited = ? WHERE person = ?",
                *(_token_hash(secret), ends, person),
            ).rowcount
            if not changed:
                raise _no_account(person)
            change.event("an invitation was made", person=person)
        return secret

    def invited(self, secret: str) -> str:
        """Return the person of an invitation; empty if it is unknown, used or too old."""
        with self._register.read() as sql:
            row = sql(
                "SELECT person FROM accounts WHERE invitation = ? AND invited >= ?",
                *(_token_hash(secret), self._time()),
            ).fetchone()
        return "" if row is None else str(row[0])

    def accept(self, secret: str, password: str) -> str:
        """Set the password of the person of an invitation, and return the person."""
        person = self.invited(secret)
        if not person or not self._set(person, password, person, _token_hash(secret)):
            raise InputError(USED_INVITATION)
        return person

    def check(
        self, person: str, password: str, address: str, now: datetime | None = None
    ) -> Signed | None:
        """Return the person if the password is right, else None; `LockedError` after too many tries.

        Guarantee [names_are_not_told]: a name that is not known takes the same time and gives the
        same answer as a wrong password, also when too many were tried.
        """
        if not person or len(person) > _LONGEST_NAME or len(password) > LONGEST_PASSWORD:
            return None  # no account has such a name: this costs no hash and no memory
        self._require_tries_left(person, address, now or self._now())
        with self._register.read() as sql:
            row = sql(
                "SELECT salt, password, role FROM accounts WHERE person = ?", person
            ).fetchone()
        salt, digest, role = row if row is not None and row[1] is not None else self._unknown
        same = compare_digest(_password_hash(password, salt), digest)
        if not same or not role:
            return None
        with self._lock:
            self._tries.pop(
                ("both", person, address), None
            )  # who knows the password is not locked out
        return Signed(person, role)

    def _require_tries_left(self, person: str, address: str, now: datetime) -> None:
        # Three limits: on guesses at one password, on guesses spread over addresses, and on guesses of
        # one address at many accounts.
        counted = (
            (("both", person, address), TRIES, _MINUTE),
            (("person", person), _BY_PERSON, _HOUR),
            (("address", address), _BY_ADDRESS, _MINUTE),
        )
        with self._lock:
            self._forget(now)
            for key, limit, span in counted:
                past = self._tries.get(key, ())
                if sum(time > now - span for time in past) >= limit:
                    raise LockedError
            for key, limit, _ in counted:
                self._tries[key] = (*self._tries.get(key, ()), now)[-limit:]

    def _forget(self, now: datetime) -> None:
        old = [key for key, past in self._tries.items() if past[-1] <= now - _HOUR]
        for key in old:
            del self._tries[key]

    # Sessions

    def open_session(self, person: str) -> str:
        """Open a session of a person who has signed in, and return its secret, for a cookie."""
        secret = secrets.token_urlsafe(32)
        now = self._now()
        with self._register.write() as sql:
            sql("DELETE FROM sessions WHERE opened <= ?", (now - SESSION - _KNOWN).isoformat())
            sql(
                "INSERT INTO sessions VALUES (?, ?, ?, ?)",
                *(_token_hash(secret), person, now.isoformat(), now.isoformat()),
            )
        return secret

    def by_session(self, secret: str) -> Signed | None:
        """Return the person of a session; None if it has ended."""
        now = self._now()
        with self._register.read() as sql:
            row = sql(
                "SELECT person, role, seen FROM sessions JOIN accounts USING (person) "
                "WHERE mark = ? AND sessions.opened > ? AND seen > ?",
                *(_token_hash(secret), (now - SESSION).isoformat(), (now - IDLE).isoformat()),
            ).fetchone()
        if row is None:
            return None
        person, role, last_used = row
        self._record_use("sessions", secret, last_used, now)
        return Signed(person, role)

    def ended_session(self, secret: str) -> str:
        """Return the person whose session has ended by the clock; empty if somebody ended it, or nobody had it.

        Who it was opens nothing: it decides whose typed question comes back after signing in.
        """
        with self._register.read() as sql:
            row = sql("SELECT person FROM sessions WHERE mark = ?", _token_hash(secret)).fetchone()
        return "" if row is None else str(row[0])

    def close_session(self, secret: str) -> None:
        """End a session."""
        with self._register.write() as sql:
            sql("DELETE FROM sessions WHERE mark = ?", _token_hash(secret))

    def close_sessions(self, person: str) -> None:
        """End all sessions of a person."""
        with self._register.write() as sql:
            sql("DELETE FROM sessions WHERE person = ?", person)

    # Tokens

    def make_token(
        self, person: str, scopes: Sequence[str], days: int, name: str, maker: str = ""
    ) -> tuple[str, str]:
        """Make a token called ``name``; return its id and its secret, which is shown once.

        Guarantee [tokens_of_tokens]: a token that was made with another one, the ``maker``, may do
        no more than that, lasts no longer, and is revoked with it.
        """
        asked = tuple(scope for scope in SCOPES if scope in scopes)
        if not asked or set(scopes) - set(SCOPES):
            raise InputError(f"a token may {' and '.join(SCOPES)}: choose at least one of them")
        if type(days) is not int or not 1 <= days <= LONGEST:
            raise InputError(f"a token lasts 1 to {LONGEST} days: choose a number between")
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            raise InputError(
                f"the name of a token is a text in one line of at most {_LONGEST_NAME} characters"
            )
        ident = secrets.token_hex(6)
        secret = _TOKEN + secrets.token_urlsafe(32)
        now = self._now()
        ends = (now + timedelta(days=days)).isoformat()
        with self._register.change(person) as change:
            if not change("SELECT 1 FROM accounts WHERE person = ?", person).fetchone():
                raise _no_account(person)
            change("DELETE FROM tokens WHERE person = ? AND ends <= ?", person, now.isoformat())
            (held,) = change("SELECT count(*) FROM tokens WHERE person = ?", person).fetchone()
            if held >= MAX_TOKENS:
                raise InputError(
                    f"a person has at most {MAX_TOKENS} tokens: revoke one that is not needed any more"
                )
            if maker:
                ends = min(ends, _maker_ends(change.connection, person, maker, asked))
            change(
                "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, '', ?)",
                *(ident, _token_hash(secret), person, name, " ".join(asked), now.isoformat()),
                *(ends, maker),
            )
            change.event("a token was made", person=person, token=ident, scopes=asked, days=days)
        return ident, secret

    def by_token(self, secret: str) -> Signed | None:
        """Return the person of a token with its scopes; None if it has ended."""
        now = self._now()
        with self._register.read() as sql:
            row = sql(
                "SELECT person, role, scopes, seen, id FROM tokens JOIN accounts USING (person) "
                "WHERE mark = ? AND ends > ?",
                *(_token_hash(secret), now.isoformat()),
            ).fetchone()
        if row is None:
            return None
        person, role, scopes, last_used, ident = row
        self._record_use("tokens", secret, last_used, now)
        return Signed(person, role, tuple(scopes.split()), ident)

    def tokens(self, person: str) -> list[Token]:
        """Return the valid tokens of a person, newest first."""
        with self._register.read() as sql:
            rows = sql(
                "SELECT id, name, scopes, made, ends, seen FROM tokens "
                "WHERE person = ? AND ends > ? ORDER BY made DESC",
                *(person, self._time()),
            ).fetchall()
        return [Token(row[0], row[1], tuple(row[2].split()), *row[3:]) for row in rows]

    def revoke_token(self, person: str, ident: str) -> None:
        """Revoke a token and those that were made with it; `InputError` if the person has no such one."""
        with self._register.change(person) as change:
            gone = change(_REVOKE, person, ident).rowcount
            if not gone:
                raise InputError("there is no such token: look at those that there are")
            change.event("a token was revoked", person=person, token=ident)

    def _record_use(self, where: str, secret: str, last_used: str, now: datetime) -> None:
        if last_used and datetime.fromisoformat(last_used) > now - _LAST_USE:
            return
        with self._register.write() as sql:
            sql(f"UPDATE {where} SET seen = ? WHERE mark = ?", now.isoformat(), _token_hash(secret))

    def _now(self) -> datetime:
        return self._register.now()

    def _time(self) -> str:
        return self._now().isoformat()


class LockedError(InputError):
    """Too many passwords were tried for this person or from this address."""

    def __init__(self) -> None:
        super().__init__("too many tries: wait a minute, and try again")


def _password_hash(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=_N, r=_R, p=1, maxmem=_MEMORY
    )


def _token_hash(secret: str) -> str:
    # A fast hash is enough for a random secret of 256 bits, which nobody can guess; for a password it is not.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _maker_ends(
    connection: sqlite3.Connection, person: str, maker: str, asked: Sequence[str]
) -> str:
    """Return when the token ends with which another one is made; `InputError` if it may do less."""
    row = connection.execute(
        "SELECT ends, scopes FROM tokens WHERE person = ? AND id = ?", (person, maker)
    ).fetchone()
    if row is None or set(asked) - set(row[1].split()):
        raise InputError("a token makes none that may do more than itself: ask for less")
    return str(row[0])


def _drop(connection: sqlite3.Connection, person: str) -> None:
    for where in ("sessions", "tokens"):
        connection.execute(f"DELETE FROM {where} WHERE person = ?", (person,))


def _require_password(person: str, password: Any) -> None:
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InputError(
            f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters: some words that do not belong "
            "together are easy to keep in mind"
        )
    if len(set(password)) < 5 or person.lower() in password.lower():
        raise InputError(
            "this password is easily guessed: take some words that do not belong together"
        )


def _no_account(person: str) -> InputError:
    return InputError(
        f"{person!r} has no account: the steward opens one with `dpinfer serve person add`"
    )
