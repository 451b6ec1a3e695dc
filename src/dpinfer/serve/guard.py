"""What is refused before a page is made, and the headers of every answer.

The page stands on the loopback address, where every program and every user of the machine, and every
site that a browser shows, can knock.  So a request is answered only

- under the names of this server: another Host is a foreign name that was made to point here;
- below a secret path: a cookie goes to all ports of an address, but only below its path, so that a
  server of somebody else on another port is never sent it;
- with the cookie, which is had for the token that `dpinfer desk open` prints;
- not from another site: Sec-Fetch-Site says where a request was made, also one of another port,
  and what changes something needs our own Origin; the token in each form is checked by the app.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import parse_qs

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; style-src {style}; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy; ``style`` is where styles may come from."""
_HEADERS = {
    "content-security-policy": POLICY.format(style="'self'"),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LARGEST = 64 * 1024
"""Bytes of a form or of an address that are read at most."""
_METHODS = ("GET", "HEAD", "POST")
_OURS = ("same-origin", "none")  # what a browser says of a link of ours, and of a typed address
_ENTER = "/enter"
_WELCOME = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={home}/"><link rel="icon" href="{home}/icon.svg">
<title>The desk</title></head>
<body><main><h1>The desk</h1><p><a href="{home}/">Go on to the tables</a></p></main></body></html>
"""
_NO_TOKEN = "This page is for the one who opened the desk: use the address that `dpinfer desk open` printed."
_NO_HOST = "This server goes by other names: use the address that `dpinfer desk open` printed."
_FOREIGN = (
    "This request came from another site, so nothing was done: open the page and do it there."
)


@dataclass(frozen=True)
class Access:
    """Who may in: the names of the server, and the secrets of this run.

    ``home`` is the path that everything is below, ``token`` is printed once, ``session`` is in the
    cookie, ``form`` in each form.
    """

    hosts: tuple[str, ...]
    home: str = field(default_factory=lambda: f"/desk-{secrets.token_hex(8)}")
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def address(self) -> str:
        """What is printed: it holds the token."""
        return f"http://{self.hosts[0]}{self.home}{_ENTER}?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie as it is set."""
        return f"desk={self.session}; Path={self.home}; HttpOnly; SameSite=Strict"


class Guard:
    """An application behind the rules of the module.

    Guarantee [page_is_the_stewards]: without the token or the cookie, under another name of the
    server or from another site nothing is shown and nothing is changed.
    """

    def __init__(self, app: Application, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a socket that nobody accepts is closed
        if len(scope["query_string"]) > LARGEST:
            await _told(send, 414, "This address is too long: send less with it.")
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        home = self._access.home
        path = str(scope["path"])
        refusal = self._refusal(scope["method"], path, headers)
        if refusal is not None:
            await _told(send, *refusal)
        elif path == home + _ENTER:
            await self._enter(scope, send)
        else:
            inner = {**scope, "path": path.removeprefix(home), "root_path": ""}
            await self._app(inner, receive, _with_headers(send))

    def _refusal(
        self, method: str, path: str, headers: Mapping[str, str]
    ) -> tuple[int, str] | None:
        """The status and the words of a request that is not let in; None where it is."""
        if headers.get("host") not in self._access.hosts:
            return 421, _NO_HOST
        if method not in _METHODS:
            return 405, "This page takes GET and POST alone."
        if path == self._access.home + _ENTER and method == "GET":
            return None  # the token is judged there; a link to it may stand in a mail
        if _from_elsewhere(method, headers):
            return 403, _FOREIGN
        if not self._known(path, headers):
            return 403, _NO_TOKEN
        return None

    def _known(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether the path and the cookie are those of this run."""
        cookie = _cookie(headers.get("cookie", ""))
        here = path.startswith(f"{self._access.home}/")
        return here and secrets.compare_digest(cookie.encode(), self._access.session.encode())

    async def _enter(self, scope: Scope, send: Send) -> None:
        """The token becomes a cookie.  A page of ours leads on: what follows is then no longer a
        request from elsewhere, to which a browser would not add the cookie.
        """
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        if not secrets.compare_digest(given.encode(), self._access.token.encode()):
            await _told(send, 403, _NO_TOKEN)
            return
        page = _WELCOME.format(home=escape(self._access.home))
        await _told(send, 200, page, "text/html", {"set-cookie": self._access.cookie})


def _from_elsewhere(method: str, headers: Mapping[str, str]) -> bool:
    """Whether another site made the request; one that changes something has to say who did."""
    if headers.get("sec-fetch-site", "none") not in _OURS:
        return True
    return method == "POST" and headers.get("origin") != f"http://{headers['host']}"


def _cookie(header: str) -> str:
    """The value of ours among the cookies of a request."""
    for part in header.split(";"):
        name, _, value = part.strip().partition("=")
        if name == "desk":
            return value
    return ""


def _with_headers(send: Send) -> Send:
    """Add the headers of every answer; one that the answer has itself stays."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = list(message.get("headers", ()))
            names = {key.lower() for key, _ in own}
            more = [
                (key.encode(), value.encode())
                for key, value in _HEADERS.items()
                if key.encode() not in names
            ]
            message = {**message, "headers": [*own, *more]}
        await send(message)

    return sent


async def _told(
    send: Send,
    status: int,
    words: str,
    kind: str = "text/plain",
    more: Mapping[str, str] | None = None,
) -> None:
    body = words.encode() + (b"\n" if kind == "text/plain" else b"")
    headers = {
        "content-type": f"{kind}; charset=utf-8",
        "content-length": str(len(body)),
        **(more or {}),
    }
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }
    answer = _with_headers(send)
    await answer(start)
    await answer({"type": "http.response.body", "body": body})
