"""Pages of accounts: sign in, join by an invitation, password, tokens; and the steward's list of them."""

from starlette.responses import RedirectResponse, Response

from dpinfer.errors import InputError
from dpinfer_desk.store.accounts import LONGEST, SCOPES, SHORTEST_PASSWORD, USED_INVITATION
from dpinfer_desk.store.roles import ROLES
from dpinfer_desk.web.requests import Confirmation, DeskRequest, is_confirmed, page, redirect

_WRONG = "Name or password is wrong."
_DONE = {
    "password": "The password was changed, and all sessions and tokens have ended: sign in with it.",
    "out": "You are signed out.",
    "revoked": "The token was revoked: it opens nothing any more.",
    "closed": "The account was closed, with its sessions and tokens.",
}
"""What was done, by the word that stands for it in an address."""
_DAYS = 30


def sign_in(request: DeskRequest, fault: str = "") -> Response:
    """Show the form of name and password."""
    parts = {"fault": fault, "done": _done(request), "name": request.fields.text("person")}
    return page(request, "sign-in.html.j2", parts, 403 if fault else 200)


def signed_in(request: DeskRequest) -> Response:
    """Open a session for the right password; a name that is not known is a wrong password.

    Who was signed in before, in the same browser, is led back to where the session ended.
    """
    fields = request.fields
    identity = request.accounts.check(
        fields.text("person"), fields.exact("password"), request.credentials.client
    )
    if identity is None:
        return sign_in(request, _WRONG)
    services = request.services
    address = services.returns.take(services.cookie.read(request), identity.person)
    return _with_session(
        request,
        identity.person,
        RedirectResponse(address, 303) if address else redirect(request, ""),
    )


def sign_out(request: DeskRequest) -> Response:
    """End the session, here and now."""
    request.accounts.close_session(request.credentials.session)
    return _without_session(request, "out")


def join(request: DeskRequest, invitation: str = "", fault: str = "") -> Response:
    """Show the form of an invitation or, where it is good, its person and the form of a first password.

    No address that reaches the server holds an invitation.  It stands behind the # of its link, and
    `join.js` puts it into the form; without JavaScript it is pasted.
    """
    invited = request.accounts.invited(invitation) if invitation else ""
    if invitation and not invited:
        fault = USED_INVITATION
    parts = {
        "fault": fault,
        "invitation": invitation,
        "invited": invited,
        "least": SHORTEST_PASSWORD,
    }
    return page(request, "join.html.j2", parts, 400 if fault else 200)


def show_invited(request: DeskRequest) -> Response:
    """Show whom an invitation is for; it is pasted, or its whole link is."""
    return join(request, request.fields.text("invitation").rpartition("#")[2])


def joined(request: DeskRequest) -> Response:
    """Set the password of whom the invitation is for, and open a session."""
    invitation = request.fields.text("invitation")
    try:
        person = request.accounts.accept(invitation, _new_password(request))
    except InputError as fault:
        return join(request, invitation, str(fault))
    return _with_session(request, person, redirect(request, "", done="joined"))


def password(request: DeskRequest, fault: str = "") -> Response:
    """Show the form of a new password."""
    parts = {"fault": fault, "least": SHORTEST_PASSWORD}
    return page(request, "password.html.j2", parts, 400 if fault else 200)


def set_password(request: DeskRequest) -> Response:
    """Set another password, for who knows the present one; all sessions and tokens end."""
    person = request.identity.person
    present = request.fields.exact("present")
    if request.accounts.check(person, present, request.credentials.client) is None:
        return password(request, "The current password is wrong.")
    try:
        request.accounts.set_password(person, _new_password(request))
    except InputError as fault:
        return password(request, str(fault))
    return _without_session(request, "password")


def _with_session(request: DeskRequest, person: str, response: Response) -> Response:
    """Open a new session with a response; the one that the browser had ends."""
    if request.credentials.session:
        request.accounts.close_session(request.credentials.session)
    request.services.cookie.write(response, request.accounts.open_session(person))
    return response


def _without_session(request: DeskRequest, done: str) -> Response:
    response = redirect(request, "sign-in", done=done)
    request.services.cookie.delete(response)
    return response


def _new_password(request: DeskRequest) -> str:
    chosen = request.fields.exact("password")
    if chosen != request.fields.exact("again"):
        raise InputError("the two passwords differ: type the same one twice")
    return chosen


def tokens(request: DeskRequest, secret: str = "") -> Response:
    """Show one's own tokens, for programs, and the secret of a new one, once."""
    parts = {
        "tokens": request.accounts.tokens(request.identity.person),
        "secret": secret,
        "scopes": SCOPES,
        "days": _DAYS,
        "longest": LONGEST,
        "site": request.site,
        "done": _done(request),
    }
    return page(request, "tokens.html.j2", parts)


def make_token(request: DeskRequest) -> Response:
    """Make a new token: its secret is on this page alone, once."""
    fields = request.fields
    days = fields.required_number("days", "the number of days")
    if days != int(days):
        raise InputError(f"a token lasts 1 to {LONGEST} days: choose a whole number")
    _, secret = request.accounts.make_token(
        request.identity.person, fields.all("scope"), int(days), fields.text("name")
    )
    return tokens(request, secret)


def revoke_token(request: DeskRequest) -> Response:
    """Take a token back."""
    request.accounts.revoke_token(request.identity.person, request.fields.text("token"))
    return redirect(request, "tokens", done="revoked")


def accounts(request: DeskRequest, invited: str = "", invitation: str = "") -> Response:
    """Show who has an account, and in which role; and a new invitation, once."""
    parts = {
        "accounts": request.accounts.all(),
        "words": {person.name: person.description for person in request.desk.persons()},
        "roles": ROLES,
        "invited": invited,
        "link": f"{request.site}/join#{invitation}" if invitation else "",
        "done": _done(request),
    }
    return page(request, "accounts.html.j2", parts)


def open_account(request: DeskRequest) -> Response:
    """Open an account, or give another role; a name that is new here is added first.

    Who signs in by a password and has none yet gets an invitation, which is on this page alone, once.
    """
    name = request.fields.text("person")
    role = request.fields.text("role")
    _require_somebody_else(request, name)
    if role not in ROLES:
        raise InputError(f"a role is {', '.join(ROLES)}: choose one of them")
    if name not in {person.name for person in request.desk.persons()}:
        name = request.desk.add_person(name, request.fields.text("words")).name
    request.accounts.open(name, role, request.identity.person)
    known = any(one.person == name and one.has_password for one in request.accounts.all())
    if known or not request.services.passwords:
        return accounts(request)
    return accounts(request, name, request.accounts.invite(name, request.identity.person))


def invite(request: DeskRequest) -> Response:
    """Invite anew who has lost the first invitation, or a password."""
    name = request.fields.text("person")
    return accounts(request, name, request.accounts.invite(name, request.identity.person))


def close(request: DeskRequest) -> Response:
    """Take an account away, with all sessions and tokens, after asking once."""
    name = request.fields.text("person")
    _require_somebody_else(request, name)
    if not is_confirmed(request):
        return Confirmation(
            heading=f"Close the account of {name}?",
            consequences=(
                "All sessions and tokens of this account end at once.",
                "Questions that are not booked yet are declined, and all allowances are revoked.",
            ),
            button="Close the account",
            action=("accounts", "close"),
            back=("accounts",),
            fields={"person": name},
        ).page(request)
    request.accounts.close(name, request.identity.person)
    return redirect(request, "accounts", done="closed")


def _require_somebody_else(request: DeskRequest, name: str) -> None:
    """Refuse to change one's own account: who locks himself out could leave no steward at all."""
    if name == request.identity.person:
        raise InputError("this is your own account: another steward changes or closes it")


def _done(request: DeskRequest) -> str:
    return _DONE.get(request.fields.text("done"), "")
