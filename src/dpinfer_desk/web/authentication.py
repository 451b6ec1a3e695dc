"""Who sent a request: a session, the token of this run, a header of a trusted proxy, or a bearer token.

Pages know people by a cookie or, where the steward chose so, by a header that the proxy in front
sets; programs, below `API`, by a bearer token that each request brings, and by nothing else.
"""

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from html import escape
from typing import Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from dpinfer_desk.store.accounts import Accounts, Signed
from dpinfer_desk.store.roles import STEWARD
from dpinfer_desk.web.http_errors import RequestError

API = "/api/"
"""Paths below it are for programs."""
ANONYMOUS = Signed("", "", ())
"""The identity of whoever has not signed in."""
_PUBLIC_PATHS = ("/style.css", "/desk.js", "/join.js", "/icon.svg", "/health")
_JOIN = "/join"
_INVITATION = "/invitation"
_ENTER = "/enter"
_SAME_SITE = (
    "same-origin",
    "none",
)  # what a browser says of a link of ours, and of a typed address
_INTERSTITIAL = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={address}"><link rel="icon" href="{home}/icon.svg">
<title>The desk</title></head>
<body><main><h1>The desk</h1><p><a href="{address}">Go on to the desk</a></p></main></body></html>
"""
_MAX_RETURNS = 1000
_LONGEST_RETURN = 8 * 1024  # letters of an address
_OTHER_SITE = (
    "This request came from another site, so nothing was done: open the page and do it there."
)
_NO_TOKEN = "This page is for the one who opened the desk: use the address that `dpinfer desk open` printed."
_NO_ACCOUNT = "You have no account at this desk: ask the steward for one."


@dataclass(frozen=True)
class Credentials:
    """The identity of a sender, with CSRF token, session and client address.

    ``csrf_token`` stands in each form of this person, ``session`` is the secret of the cookie,
    ``client`` the network address by which tries of passwords are counted.
    """

    identity: Signed = ANONYMOUS
    csrf_token: str = ""
    session: str = ""
    client: str = ""


class AuthBackend(Protocol):
    """A method of authentication."""

    def authenticate(self, request: Request, client: str) -> Credentials | Response:
        """Return who sent the request, or the page to show instead; raise `RequestError` to refuse it."""
        ...


@dataclass(frozen=True)
class SessionCookie:
    """The cookie that holds the secret of a session."""

    name: str
    path: str = "/"
    secure: bool = False

    @classmethod
    def of_server(cls, *, secure: bool) -> "SessionCookie":
        """Return the cookie of a desk on a network.

        Browsers take one whose name begins with __Host- from this server alone, and by TLS.
        """
        return cls("__Host-desk" if secure else "desk", secure=secure)

    @property
    def scheme(self) -> str:
        """Return the scheme of the addresses of this server."""
        return "https" if self.secure else "http"

    def read(self, request: Request) -> str:
        """Return the secret that a request brings; empty where it brings none."""
        return str(request.cookies.get(self.name, ""))

    def write(self, response: Response, session: str) -> None:
        """Set the cookie."""
        response.set_cookie(
            self.name,
            session,
            path=self.path,
            secure=self.secure,
            httponly=True,
            samesite="Strict",
        )

    def delete(self, response: Response) -> None:
        """Take the cookie away."""
        response.delete_cookie(
            self.name, path=self.path, secure=self.secure, httponly=True, samesite="Strict"
        )


class ReturnAddresses:
    """The addresses at which sessions ended by the clock, for the same person in the same browser.

    An address may hold a question that somebody has typed.  It stays in this process, and no address
    of another page, nor any page, holds it: it is given back once, to the person of the session that
    ended, in the browser that still has the cookie of that session.

    Guarantee [return_to_own_question]: after a session has ended nobody but its person is led back to
    what was typed in it, and nobody is led to another site.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, session: str, person: str, address: str) -> None:
        """Keep an address of this server; one that holds fields is not replaced by one without."""
        with self._lock:
            there = self._kept.pop(_session_digest(session), ("", ""))[1]
            if len(address) > _LONGEST_RETURN or ("?" in there and "?" not in address):
                address = there
            self._kept[_session_digest(session)] = (person, address)
            while len(self._kept) > _MAX_RETURNS:
                self._kept.popitem(last=False)

    def take(self, session: str, person: str) -> str:
        """Return the address that was kept, once; empty where there is none, or for another person."""
        with self._lock:
            owner, address = self._kept.pop(_session_digest(session), ("", ""))
        return address if owner == person else ""


def _session_digest(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class SessionBackend:
    """Sessions of people who have signed in with their password.

    Guarantee [no_other_site]: a request that changes something is carried out only with the session,
    our own Origin and the CSRF token of the forms of this session.
    """

    accounts: Accounts
    cookie: SessionCookie

    def authenticate(self, request: Request, client: str) -> Credentials | Response:
        """Return the person of the session, or nobody."""
        path = request.scope["path"]
        if path in _PUBLIC_PATHS:
            return Credentials(client=client)
        if path == _JOIN and request.method in ("GET", "HEAD"):
            # A link in a mail leads here.  The page is the same for everybody, and `_landing_page` would
            # lose the invitation, which stands behind the # of the link.
            return Credentials(client=client)
        if from_other_site(request, self.cookie.scheme):
            return _landing_page(request)
        session = self.cookie.read(request)
        identity = self.accounts.by_session(session) if session else None
        if identity is None:
            return Credentials(client=client)
        if path in (_JOIN, _INVITATION):  # the forms of nobody; the session ends with the new one
            return Credentials(session=session, client=client)
        return Credentials(identity, csrf_token_of(session), session, client)


@dataclass(frozen=True)
class IdentityHeaderBackend:
    """Authenticate people by the header in which the trusted proxy names them.

    `ConnectionPolicy` has checked that the connection comes from an address of the proxy.  That nobody
    else sets the header is the proxy's part, which removes what clients send under its name.

    Guarantee [one_identity]: a header that is missing, sent twice or not UTF-8, a name without an
    account and a closed account have one answer, which shows nothing; and a form needs our own Origin
    and the CSRF token of this person.
    """

    accounts: Accounts
    header: str
    # Sessions, from which the token of a form follows elsewhere, are the proxy's: so it follows from the
    # name and a key of this process.
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def authenticate(self, request: Request, client: str) -> Credentials | Response:
        """Return the person whom the proxy names."""
        if request.scope["path"] in _PUBLIC_PATHS:
            return Credentials(client=client)
        if from_other_site(request, "https"):
            return _landing_page(request)
        person = self._person(request)
        role = self.accounts.role(person) if person else ""
        if not role:
            raise RequestError(403, "request", _NO_ACCOUNT)
        token = hmac.digest(self.key, person.encode(), hashlib.sha256).hex()
        return Credentials(Signed(person, role), token, client=client)

    def _person(self, request: Request) -> str:
        """Return the one name that was sent; empty where there is none, or several.

        Some proxies join headers of one name by commas, so a name that holds one is none.
        """
        try:
            person = only_header(request, self.header).encode("latin-1").decode("utf-8")
        except UnicodeError:
            return ""
        return "" if "," in person else person


@dataclass(frozen=True)
class LoopbackBackend:
    """The page on the loopback address: one steward, who has the token that is printed.

    Every program and every user of the machine can connect.  So a request is answered only

    - below a secret path, ``home``: a cookie goes to all ports of an address, but only below its
      path, so that a server of somebody else on another port is never sent it;
    - with the cookie, which is had for the token that `dpinfer desk open` prints;
    - not from another site: Sec-Fetch-Site says where a request was made, also one of another port,
      and what changes something needs our own Origin and the token of each form.

    Guarantee [page_is_the_stewards]: without the token or the cookie, under another name of the
    server or from another site nothing is shown and nothing is changed.
    """

    steward: str
    home: str = field(default_factory=lambda: f"/desk-{secrets.token_hex(8)}")
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def cookie(self) -> SessionCookie:
        """Return the cookie, named so that no server on another port can set one of its name."""
        return SessionCookie(self.home.strip("/"), self.home)

    def address(self, host: str) -> str:
        """Return the address that is printed: it holds the token."""
        return f"http://{host}{self.home}{_ENTER}?token={self.token}"

    def authenticate(self, request: Request, client: str) -> Credentials | Response:
        """Return the steward, if the cookie is that of this run; the token becomes a cookie."""
        path = request.scope["path"]
        if path == self.home + _ENTER and request.method == "GET":
            return self._enter(request)  # a link to it may stand in a mail
        if from_other_site(request, "http"):
            raise RequestError(403, "request", _OTHER_SITE)
        session = self.cookie.read(request).encode()
        below = path.startswith(f"{self.home}/")
        if not below or not secrets.compare_digest(session, self.session.encode()):
            raise RequestError(403, "request", _NO_TOKEN)
        identity = Signed(self.steward, STEWARD)
        return Credentials(identity, csrf_token_of(self.session), self.session, client)

    def _enter(self, request: Request) -> Response:
        query = parse_qs(request.scope["query_string"].decode("latin-1"))
        given = query.get("token", [""])[-1]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            raise RequestError(403, "request", _NO_TOKEN)
        response = _interstitial(self.home, f"{self.home}/")
        self.cookie.write(response, self.session)
        return response


@dataclass(frozen=True)
class BearerBackend:
    """Programs, by bearer tokens.

    A cookie is not looked at, so that no other site can make a browser call.
    """

    accounts: Accounts

    def authenticate(self, request: Request, client: str) -> Credentials:
        """Return whose token it is, or nobody."""
        scheme, _, secret = only_header(request, "authorization").partition(" ")
        identity = None
        if scheme.lower() == "bearer" and secret.strip():
            identity = self.accounts.by_token(secret.strip())
        return Credentials(identity or ANONYMOUS, client=client)


def csrf_token_of(session: str) -> str:
    """Return the token in the forms of a session, which nobody else can know."""
    return hmac.digest(session.encode(), b"form", hashlib.sha256).hex()


def only_header(request: Request, name: str) -> str:
    """Return the one header of a name; empty where there is none, or several."""
    values = request.headers.getlist(name)
    return str(values[0]) if len(values) == 1 else ""


def from_other_site(request: Request, scheme: str) -> bool:
    """Return whether a request may come from another site, by Sec-Fetch-Site and Origin."""
    if any(value not in _SAME_SITE for value in request.headers.getlist("sec-fetch-site")):
        return True
    ours = f"{scheme}://{request.headers.get('host')}"
    return request.method not in ("GET", "HEAD") and only_header(request, "origin") != ours


def _landing_page(request: Request) -> Response:
    """Answer a request from another site: a link may lead here, and that is all."""
    if request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate":
        return _interstitial("", own_address(request))
    raise RequestError(403, "request", _OTHER_SITE)


def _interstitial(home: str, address: str) -> Response:
    """Return a same-site page that leads on, so that SameSite=Strict cookies are sent with the next request."""
    return HTMLResponse(_INTERSTITIAL.format(home=escape(home), address=escape(address)))


def own_address(request: Request) -> str:
    """Return the address that was asked for, as a path of this server."""
    return _local(request.scope["path"], request.scope["query_string"].decode("latin-1"))


def referring_address(request: Request, scheme: str) -> str:
    """Return the page of this server from which a request was sent, as a path; empty where it is not known."""
    try:
        parts = urlsplit(only_header(request, "referer"))
    except ValueError:
        return ""
    if (parts.scheme, parts.netloc) != (scheme, request.headers.get("host")):
        return ""
    return _local(unquote(parts.path), parts.query)


def _local(path: str, query: str) -> str:
    """Return an address of this server.

    Two slashes would be another one, also with characters in between that browsers leave out.
    """
    path = quote("/" + path.lstrip("/\\"), safe="/")
    return f"{path}?{query}" if query else path
