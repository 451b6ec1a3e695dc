"""Pages of accounts: sign in, join by an invitation, password, tokens; and the steward's list of them."""

from typing import Any

from dpinfer.errors import InputError
from dpinfer_desk.store.accounts import LONGEST, SCOPES, SHORTEST_PASSWORD
from dpinfer_desk.store.roles import ROLES
from dpinfer_desk.web.visit import Answer, Elsewhere, Page, Visit

_WRONG = "Name or password is wrong."
_DONE = {
    "joined": "The password is set: sign in with it.",
    "password": "The password was changed, and all sessions and tokens have ended: sign in with it.",
    "out": "You are signed out.",
    "revoked": "The token was revoked: it opens nothing any more.",
    "closed": "The account was closed, with its sessions and tokens.",
}
"""What was done, by the word that stands for it in an address."""
_DAYS = 30


def sign_in(visit: Visit) -> Answer:
    """The form of name and password."""
    return _sign_in(visit)


def signed_in(visit: Visit) -> Answer:
    """A session for the right password; a name that is not known is a wrong password."""
    person = visit.fields.text("person")
    signed = visit.accounts.check(person, visit.fields.exact("password"), visit.address)
    if signed is None:
        return _sign_in(visit, _WRONG)
    if visit.session:
        visit.accounts.close_session(visit.session)
    return Elsewhere(("",), session=visit.accounts.open_session(signed.person))


def _sign_in(visit: Visit, fault: str = "") -> Page:
    parts = {"fault": fault, "done": _DONE.get(visit.fields.text("done"), "")}
    return Page("sign-in.html.j2", parts, status=403 if fault else 200)


def sign_out(visit: Visit) -> Answer:
    """The session ends, here and now."""
    visit.accounts.close_session(visit.session)
    return Elsewhere(("sign-in",), {"done": "out"}, session="")


def join(_: Visit) -> Answer:
    """The form of an invitation and a first password; nothing in the address fills it in."""
    return _join()


def joined(visit: Visit) -> Answer:
    """Set the password of whom the invitation is for.  It is typed, and stands in no address."""
    invitation = visit.fields.text("invitation")
    try:
        visit.accounts.accept(invitation, _new_password(visit))
    except InputError as fault:
        return _join(invitation, str(fault))
    return Elsewhere(("sign-in",), {"done": "joined"})


def _join(invitation: str = "", fault: str = "") -> Page:
    parts = {"fault": fault, "invitation": invitation, "least": SHORTEST_PASSWORD}
    return Page("join.html.j2", parts, status=400 if fault else 200)


def password(_: Visit) -> Answer:
    """The form of a new password."""
    return _password()


def set_password(visit: Visit) -> Answer:
    """Another password, for who knows the present one; all sessions and tokens end."""
    person = visit.signed.person
    if visit.accounts.check(person, visit.fields.exact("present"), visit.address) is None:
        return _password("The present password is wrong.")
    try:
        visit.accounts.set_password(person, _new_password(visit))
    except InputError as fault:
        return _password(str(fault))
    return Elsewhere(("sign-in",), {"done": "password"}, session="")


def _password(fault: str = "") -> Page:
    parts = {"fault": fault, "least": SHORTEST_PASSWORD}
    return Page("password.html.j2", parts, status=400 if fault else 200)


def _new_password(visit: Visit) -> str:
    chosen = visit.fields.exact("password")
    if chosen != visit.fields.exact("again"):
        raise InputError("the two passwords differ: type the same one twice")
    return chosen


def tokens(visit: Visit) -> Answer:
    """One's own tokens, for programs."""
    return _tokens(visit)


def make_token(visit: Visit) -> Answer:
    """A new token: its secret is on this page alone, once."""
    days = visit.fields.needed("days", "the number of days")
    if days != int(days):
        raise InputError(f"a token lasts 1 to {LONGEST} days: choose a whole number")
    _, secret = visit.accounts.make_token(
        visit.signed.person, visit.fields.all("scope"), int(days), visit.fields.text("name")
    )
    return _tokens(visit, secret)


def revoke_token(visit: Visit) -> Answer:
    """Take a token back."""
    visit.accounts.revoke_token(visit.signed.person, visit.fields.text("token"))
    return Elsewhere(("tokens",), {"done": "revoked"})


def _tokens(visit: Visit, secret: str = "") -> Page:
    parts = {
        "tokens": visit.accounts.tokens(visit.signed.person),
        "secret": secret,
        "scopes": SCOPES,
        "days": _DAYS,
        "longest": LONGEST,
        "done": _DONE.get(visit.fields.text("done"), ""),
    }
    return Page("tokens.html.j2", parts)


def accounts(visit: Visit) -> Answer:
    """Who has an account, and in which role."""
    return _accounts(visit)


def open_account(visit: Visit) -> Answer:
    """An account, or another role; a name that is new here is added first.  Who has no password yet
    gets an invitation, which is on this page alone, once.
    """
    name = visit.fields.text("person")
    role = visit.fields.text("role")
    _require_somebody_else(visit, name)
    if role not in ROLES:
        raise InputError(f"a role is {', '.join(ROLES)}: choose one of them")
    if name not in {person.name for person in visit.desk.persons()}:
        name = visit.desk.add_person(name, visit.fields.text("words")).name
    visit.accounts.open(name, role, visit.signed.person)
    if any(one.person == name and one.has_password for one in visit.accounts.all()):
        return _accounts(visit)
    return _accounts(visit, name, visit.accounts.invite(name, visit.signed.person))


def invite(visit: Visit) -> Answer:
    """Another invitation, for who has lost the first one, or a password."""
    name = visit.fields.text("person")
    return _accounts(visit, name, visit.accounts.invite(name, visit.signed.person))


def close(visit: Visit) -> Answer:
    """Take an account away, with all sessions and tokens."""
    name = visit.fields.text("person")
    _require_somebody_else(visit, name)
    visit.accounts.close(name, visit.signed.person)
    return Elsewhere(("accounts",), {"done": "closed"})


def _require_somebody_else(visit: Visit, name: str) -> None:
    """A steward who locks himself out could leave nobody who can open the door."""
    if name == visit.signed.person:
        raise InputError("this is your own account: another steward changes or closes it")


def _accounts(visit: Visit, invited: str = "", invitation: str = "") -> Page:
    words = {person.name: person.description for person in visit.desk.persons()}
    parts: dict[str, Any] = {
        "accounts": visit.accounts.all(),
        "words": words,
        "roles": ROLES,
        "invited": invited,
        "invitation": invitation,
        "done": _DONE.get(visit.fields.text("done"), ""),
    }
    return Page("accounts.html.j2", parts)
