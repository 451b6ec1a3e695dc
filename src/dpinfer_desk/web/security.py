"""What is refused before a page is made, how much is read of a request, and the headers of every response.

Whoever can reach the server can connect, and so can every site that a browser shows.  So a request is
answered only under a name of this server (another Host is a foreign name that was made to point
here), by a method that there is, from the proxy where there is one, and as an `AuthBackend` admits
it.  Then come role and scope, in `endpoints`, and the body last: nothing is read for whom it is not for.
"""

import asyncio
import ipaddress
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpinfer.errors import InputError
from dpinfer_desk.web.authentication import API, AuthBackend, Credentials, only_header
from dpinfer_desk.web.http_errors import RequestError, json_error, request_error, text_error

BODY_LIMIT = 64 * 1024
"""Bytes of a body or of an address that are kept at most."""
DEADLINE = 10.0
"""Seconds in which headers, and then a body, have to be here."""
PAGE_POLICY = (
    "default-src 'none'; style-src {style}; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy of pages; ``style`` is where styles may come from."""
PAGE_HEADERS = {
    "content-security-policy": PAGE_POLICY.format(style="'self'"),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_API_HEADERS = PAGE_HEADERS | {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
_HSTS = {"strict-transport-security": "max-age=31536000"}
_PAGE_METHODS = ("GET", "HEAD", "POST")
_THREADS = (
    4  # for authentication alone: whatever pages wait for, who sent a request is known at once
)
DISCARDED = 2**20
"""Bytes of an unread request that are taken and thrown away."""
DISCARDING = 2.0
"""Seconds for that."""
_OTHER_HOST = "This server goes by other names: use the address that you were given."
_OTHER_METHOD = f"This address takes {', '.join(_PAGE_METHODS)} alone."
ADDRESS_TOO_LONG = "This address is too long: send less with it."
_BODY_TOO_LARGE = f"A request has at most {BODY_LIMIT // 1024} kB: shorten what was sent."
_LATE = "The request did not arrive in time: send it again."
_TWO_LENGTHS = "A request has Content-Length or Transfer-Encoding, not both: send one of them."
_ENDED = "The request has ended before it was here."
_NO_PROXY = "This server is behind a proxy: use the address that you were given."
_NO_TLS = "This server is for https alone: use the address that you were given."

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class ConnectionPolicy:
    """The rules for connections: host names, TLS and trusted proxies.

    ``hosts`` are its names, with their ports.  ``secure`` says that requests come by TLS alone,
    ``proxies`` are the addresses of those who may say where a request came from.
    """

    hosts: tuple[str, ...]
    secure: bool = False
    proxies: tuple[Network, ...] = ()

    def check(self, request: Request) -> None:
        """Refuse a request with too long an address, two lengths of its body, or an unknown host."""
        scope = request.scope
        address = scope.get("raw_path") or scope["path"].encode()
        if len(address) + len(scope["query_string"]) > BODY_LIMIT:
            raise RequestError(414, "size", ADDRESS_TOO_LONG)
        if has_two_lengths(request):
            raise RequestError(400, "request", _TWO_LENGTHS)
        # Starlette's TrustedHostMiddleware leaves ports out, and a server of somebody else on another port
        # of this machine is another site.
        if only_header(request, "host") not in self.hosts:
            raise RequestError(421, "request", _OTHER_HOST)

    def client(self, request: Request) -> str:
        """Return the client of a request, as the trusted proxy reports it; refuse any other sender.

        Of several headers, or several values in one, the last one is the proxy's own.
        """
        sender = request.client.host if request.client else ""
        if not self.proxies:
            return _counted_network(sender)
        address = _address(sender)
        if address is None or not any(address in network for network in self.proxies):
            raise RequestError(403, "request", _NO_PROXY)
        if request.headers.getlist("x-forwarded-proto")[-1:] != ["https"]:
            raise RequestError(403, "request", _NO_TLS)
        forwarded = ",".join(request.headers.getlist("x-forwarded-for"))
        return _counted_network(forwarded.rpartition(",")[2].strip())


def has_two_lengths(request: Request) -> bool:
    """Tell whether a request has both Content-Length and Transfer-Encoding.

    A proxy may have ended the body by the one where the server ends it by the other: the rest would be a
    request of its own, of whoever sends next on this connection.  RFC 9112, section 6.1, has the
    connection closed.
    """
    return {"content-length", "transfer-encoding"} <= {*request.headers.keys()}


def networks_of(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Return the addresses or networks that were named."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError:
        raise InputError(
            "--behind-proxy takes the address of a proxy, such as 127.0.0.1 or 10.0.0.0/24"
        ) from None


def _counted_network(text: str) -> str:
    """Return the IPv4 address or the IPv6 /64 by which password attempts are counted."""
    address = _address(text)
    if address is None:
        return ""
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _address(text: str) -> _Address | None:
    """Return an address; one of IPv4 as such, also where the server listens on IPv6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address
    return address


class SecurityMiddleware:
    """An application behind a connection policy and one authentication back end for pages, and one for programs."""

    def __init__(
        self,
        app: ASGIApp,
        policy: ConnectionPolicy,
        pages: AuthBackend,
        programs: AuthBackend | None = None,
    ) -> None:
        self._app = app
        self._policy = policy
        self._pages = pages
        self._programs = programs
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="authentication")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a socket that nobody accepts is closed
        program = self._programs is not None and scope["path"].startswith(API)
        received = _Received(scope, receive)
        protected = self._with_headers(send, received, program)
        try:
            credentials = await self._authenticated(Request(scope, received), program)
        except Exception as fault:
            error = request_error(fault)
            response = json_error(error) if program else text_error(error)
            await response(scope, received, protected)
            return
        if isinstance(credentials, Response):
            await credentials(scope, received, protected)
            return
        await self._app({**scope, "auth": credentials}, received, protected)

    async def _authenticated(self, request: Request, program: bool) -> Credentials | Response:
        self._policy.check(request)
        if not program and request.method not in _PAGE_METHODS:
            raise RequestError(405, "method", _OTHER_METHOD)
        client = self._policy.client(request)
        backend = self._programs if program else self._pages
        assert backend is not None
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, backend.authenticate, request, client)

    def _with_headers(self, send: Send, received: "_Received", program: bool) -> Send:
        """Add the headers of every response; one that the response has itself stays.

        Where some of the request is still not read the connection ends with the response: nobody takes
        what would follow.
        """
        always = _API_HEADERS if program else PAGE_HEADERS
        if self._policy.secure:
            always = always | _HSTS

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                await received.discard()
                headers = MutableHeaders(scope=message)
                for name, value in always.items():
                    headers.setdefault(name, value)
                if received.is_last or not received.complete:
                    headers["connection"] = "close"
            await send(message)

        return sent


class _Received:
    """The messages of a request; ``complete`` says whether they are all here.

    ``is_last`` says that nothing on its connection is believed after it.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        request = Request(scope)
        headers = request.headers
        self.is_last = has_two_lengths(request)
        chunked = "transfer-encoding" in headers
        self.complete = not chunked and headers.get("content-length", "0") == "0"
        self._held_back = "expect" in headers  # the client sends when it is told to
        self._receive = receive

    async def __call__(self) -> Message:
        """Return the next message."""
        self._held_back = False  # whoever asks for some tells the client to send
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            self.complete = True
        return message

    async def discard(self) -> None:
        """Take what is left, within bounds.

        A client that is still sending when the connection ends may lose the answer.
        """
        if self._held_back:
            return
        left = DISCARDED
        try:
            async with asyncio.timeout(DISCARDING):
                while not self.complete and left > 0:
                    message = await self()
                    if message["type"] != "http.request":
                        return
                    left -= len(message.get("body", b""))
        except TimeoutError:
            return


async def read_body(request: Request) -> bytes:
    """Return the body, counted while it is read, and read in time."""
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or len(declared) > 9 or int(declared) > BODY_LIMIT:
        raise RequestError(413, "size", _BODY_TOO_LARGE)
    body = b""
    try:
        async with asyncio.timeout(DEADLINE):
            async with aclosing(request.stream()) as pieces:
                async for piece in pieces:
                    body += piece
                    if len(body) > BODY_LIMIT:
                        raise RequestError(413, "size", _BODY_TOO_LARGE)
    except TimeoutError:
        raise RequestError(408, "time", _LATE) from None
    except ClientDisconnect:
        raise RequestError(400, "request", _ENDED) from None
    return body
