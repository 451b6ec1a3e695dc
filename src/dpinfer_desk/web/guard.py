"""What is refused before a page is made, how much is read of a request, and the headers of every answer.

Whoever can reach the server can knock, and so can every site that a browser shows.  So a request is
answered only under a name of this server (another Host is a foreign name that was made to point
here), by a method that there is, and where the door lets it in: `access.Access` is that of the page
of one steward, `entrance.Entrance` that of a desk on a network.  Of a body at most `LARGEST` bytes are
kept, read in at most `READING` seconds.  Of one that is refused some more is taken and thrown away: a
client that is still sending when the connection ends may lose the answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import escape
from typing import Protocol

from dpinfer_desk.store.accounts import Signed
from dpinfer_desk.web.messages import LARGEST, READING, Application, Message, Receive, Scope, Send

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
_HSTS = {"strict-transport-security": "max-age=31536000"}
_LAST = {"connection": "close"}
_THROWN = 2**20  # bytes of a refused body that are taken and thrown away
_THROWING = 2.0  # seconds for that
ENTERED = "dpinfer.entered"
"""Under which the application finds in its scope who has come in."""
_METHODS = ("GET", "HEAD", "POST")
_THREADS = 4  # of the door alone: whatever pages wait for, who has come in is known at once
_OURS = ("same-origin", "none")  # what a browser says of a link of ours, and of a typed address
_WELCOME = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={place}"><link rel="icon" href="{home}/icon.svg">
<title>The desk</title></head>
<body><main><h1>The desk</h1><p><a href="{place}">Go on to the desk</a></p></main></body></html>
"""
FOREIGN = "This request came from another site, so nothing was done: open the page and do it there."
_NO_HOST = "This server goes by other names: use the address that you were given."
_TOO_LARGE = f"A request has at most {LARGEST // 1024} kB: shorten what was sent."


@dataclass(frozen=True)
class Visitor:
    """A request as a door sees it; ``address`` is where it came from, by the connection."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    address: str

    def cookie(self, name: str) -> str:
        """The value of a cookie; empty where there is none."""
        for part in self.headers.get("cookie", "").split(";"):
            key, _, value = part.strip().partition("=")
            if key == name:
                return value
        return ""

    def from_elsewhere(self, scheme: str) -> bool:
        """Whether another site made the request; one that changes something has to say who did."""
        if self.headers.get("sec-fetch-site", "none") not in _OURS:
            return True
        ours = f"{scheme}://{self.headers.get('host')}"
        return self.method not in ("GET", "HEAD") and self.headers.get("origin") != ours


@dataclass(frozen=True)
class Entered:
    """Who has come in: nobody before signing in.  ``form`` stands in each form, ``session`` is the
    secret of the cookie, ``address`` is where the visitor is.  What a ``program`` sends is read by
    who answers programs.
    """

    signed: Signed | None
    form: str = ""
    session: str = ""
    address: str = ""
    program: bool = False


@dataclass(frozen=True)
class Told:
    """An answer of the door itself."""

    status: int
    words: str
    kind: str = "text/plain"
    headers: Mapping[str, str] = field(default_factory=dict)


class Door(Protocol):
    """Who may in: ``home`` is the path that everything is below, ``secure`` whether by TLS alone."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the server."""
        ...

    @property
    def home(self) -> str:
        """The path that everything is below."""
        ...

    @property
    def secure(self) -> bool:
        """Whether requests come by TLS alone."""
        ...

    def for_programs(self, path: str) -> bool:
        """Whether a path is that of an interface, which has methods of its own."""
        ...

    def admit(self, visitor: Visitor) -> Entered | Told:
        """Who this is, or what is said to him."""
        ...

    def cookie(self, session: str) -> str:
        """A cookie as it is set; an empty session takes it away."""
        ...


def welcome(home: str, place: str, headers: Mapping[str, str] | None = None) -> Told:
    """A page of ours that leads on: what follows is then no longer a request from elsewhere, to which
    a browser would not add the cookie.
    """
    page = _WELCOME.format(home=escape(home), place=escape(place))
    return Told(200, page, "text/html", headers or {})


class Guard:
    """An application behind a door; ``told`` gives what the guard says itself another form."""

    def __init__(
        self, app: Application, door: Door, told: Callable[[Told], Told] = lambda found: found
    ) -> None:
        self._app = app
        self._door = door
        self._told = told
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="door")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a socket that nobody accepts is closed
        visitor = _visitor(scope)
        reading = _Reading(visitor, receive)
        answer = self._with_headers(send, reading)
        refused = self._refused(visitor)
        found = refused or await self._admitted(visitor)
        if isinstance(found, Told):
            await _tell(answer, self._told(found))
            return
        path = visitor.path.removeprefix(self._door.home)
        inner = {**scope, "path": path, "root_path": "", ENTERED: found}
        if found.program:
            await self._app(inner, reading, answer)
            return
        try:
            body = await _body(visitor, reading)
        except _UnreadError as fault:
            await _tell(answer, self._told(fault.told))
            return
        await self._app(inner, _again(body, reading), answer)

    async def _admitted(self, visitor: Visitor) -> Entered | Told:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._door.admit, visitor)

    def _refused(self, visitor: Visitor) -> Told | None:
        """What is said to a request that nobody looks at further."""
        if len(visitor.query) > LARGEST:
            return Told(414, "This address is too long: send less with it.")
        if visitor.headers.get("host") not in self._door.hosts:
            return Told(421, _NO_HOST)
        if visitor.method not in _METHODS and not self._door.for_programs(visitor.path):
            return Told(405, f"This address takes {', '.join(_METHODS)} alone.")
        return None

    def _with_headers(self, send: Send, reading: "_Reading") -> Send:
        """Add the headers of every answer; one that the answer has itself stays.  Where some of the
        request is still not read the connection ends with the answer: nobody takes what would follow.
        """
        always = _HEADERS | (_HSTS if self._door.secure else {})

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await reading.throw_away()
                common = always | ({} if reading.whole else _LAST)
                own = list(message.get("headers", ()))
                names = {key.lower() for key, _ in own}
                more = [
                    (key.encode(), value.encode())
                    for key, value in common.items()
                    if key.encode() not in names
                ]
                message = {**message, "headers": [*own, *more]}
            await send(message)

        return sent


def _visitor(scope: Scope) -> Visitor:
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
    client = scope.get("client") or ("", 0)
    query = scope["query_string"].decode("latin-1")
    return Visitor(scope["method"], str(scope["path"]), query, headers, str(client[0]))


class _Reading:
    """What is received of a request; ``whole`` says whether that is all of it."""

    def __init__(self, visitor: Visitor, receive: Receive) -> None:
        chunked = "transfer-encoding" in visitor.headers
        self.whole = not chunked and visitor.headers.get("content-length", "0") == "0"
        self._held_back = "expect" in visitor.headers  # the client sends when it is told to
        self._receive = receive

    async def __call__(self) -> Message:
        """The next message."""
        self._held_back = False  # whoever asks for some tells the client to send
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            self.whole = True
        return message

    async def throw_away(self) -> None:
        """Take what is left, within bounds, so that the client hears the answer."""
        if self._held_back:
            return
        left = _THROWN
        try:
            async with asyncio.timeout(_THROWING):
                while not self.whole and left > 0:
                    message = await self()
                    if message["type"] != "http.request":
                        return
                    left -= len(message.get("body", b""))
        except TimeoutError:
            return


class _UnreadError(Exception):
    """A body that is not read any further."""

    def __init__(self, status: int, words: str) -> None:
        self.told = Told(status, words, headers=_LAST)


async def _body(visitor: Visitor, receive: Receive) -> bytes:
    """The body, counted while it is read."""
    if visitor.method in ("GET", "HEAD"):
        return b""
    try:
        async with asyncio.timeout(READING):
            return await _counted(visitor, receive)
    except TimeoutError:
        raise _UnreadError(408, "The request did not arrive in time: send it again.") from None


async def _counted(visitor: Visitor, receive: Receive) -> bytes:
    declared = visitor.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 9 or int(declared) > LARGEST:
        raise _UnreadError(413, _TOO_LARGE)
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _UnreadError(400, "The request has ended before it was here.")
        body += bytes(message.get("body", b""))
        if len(body) > LARGEST:
            raise _UnreadError(413, _TOO_LARGE)
        if not message.get("more_body"):
            return body


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, for the application."""
    waiting = [body]

    async def received() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return received


async def _tell(send: Send, told: Told) -> None:
    body = told.words.encode() + (b"\n" if told.kind == "text/plain" else b"")
    headers = {
        "content-type": told.kind
        if told.kind == "application/json"
        else f"{told.kind}; charset=utf-8",
        "content-length": str(len(body)),
        **told.headers,
    }
    start = {
        "type": "http.response.start",
        "status": told.status,
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})
