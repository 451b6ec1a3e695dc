"""A desk on a network: the process that shows pages, which reads neither data nor ledgers.

It listens on the loopback address, unless it has a certificate or stands behind a proxy that was
named: what people send by it are passwords.
"""

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import uvicorn
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from dpinfer.errors import InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import published
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.api_door import ApiApplication, ApiDoor
from dpinfer_desk.web.app import application
from dpinfer_desk.web.calls import JSON, RefusedCallError, refused
from dpinfer_desk.web.entrance import API, Entrance, networks_of
from dpinfer_desk.web.guard import Guard, Told
from dpinfer_desk.web.messages import (
    LARGEST,
    READING,
    Application,
    Receive,
    Scope,
    Send,
    tcp_socket,
)
from dpinfer_desk.web.visit import Site
from dpinfer_desk.worker.forecasts import Forecasts

PORT = 8766
"""Where the server listens, unless another port is asked for."""
_PATIENCE = 2.0  # seconds that a page waits for a forecast
_CONNECTIONS = 1000
_IDLE_WORKER = "the worker is not at work, so questions wait; nothing of them is lost"


@dataclass(frozen=True)
class Place:
    """Where the server listens, and how requests reach it.

    ``names`` are those by which people know it, such as stats.example.org.  ``proxies`` are addresses
    of proxies that are trusted; ``certificate`` and ``key`` are files for TLS of its own.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None

    @property
    def secure(self) -> bool:
        """Whether requests come by TLS alone."""
        return bool(self.proxies) or self.certificate is not None

    @property
    def hosts(self) -> tuple[str, ...]:
        """What may stand in the Host of a request."""
        if self.names:
            return tuple(host for name in self.names for host in (name, f"{name}:{self.port}"))
        name = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{name}:{self.port}", f"localhost:{self.port}")

    @property
    def address(self) -> str:
        """What people type; behind a proxy that is the proxy's."""
        if self.proxies:
            return f"https://{self.names[0]}/"
        scheme = "https" if self.certificate is not None else "http"
        return f"{scheme}://{self.hosts[-1] if self.names else self.hosts[0]}/"

    def check(self) -> None:
        """Refuse a place where passwords could be read on their way.

        Guarantee [no_password_in_the_clear]: without a certificate of its own or a proxy that was
        named the server listens on the loopback address alone, and behind a proxy it answers nobody
        else, and only what came to the proxy by TLS.
        """
        networks_of(self.proxies)
        if (self.certificate is None) != (self.key is None):
            raise InputError("--certificate and --key go together: give both files, or none")
        if self.certificate is not None and self.proxies:
            raise InputError("--behind-proxy or --certificate: give one of them")
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            raise InputError(
                f"--host takes an address, such as 127.0.0.1, not {self.host!r}"
            ) from None
        if not self.secure and not address.is_loopback:
            raise InputError(
                f"{self.host} can be reached from elsewhere, and passwords would be sent in the clear: name the proxy "
                "that speaks TLS (--behind-proxy 127.0.0.1), or give --certificate and --key, or listen on 127.0.0.1"
            )
        if self.secure and not self.names:
            raise InputError("name the server as people know it: --name stats.example.org")
        if self.certificate is not None:
            self.context()

    def context(self) -> ssl.SSLContext:
        """TLS with the certificate; `InputError` where the files are no such."""
        assert self.certificate is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as fault:
            raise InputError(
                f"certificate or key cannot be used ({fault.strerror or fault.__class__.__name__}): check both files"
            ) from None
        return context


def site_of(desk: Desk) -> Site:
    """What all visits to a desk on a network share."""
    return Site(desk, Forecasts(desk), Accounts(desk.register), _PATIENCE)


def routes_of(site: Site) -> Sequence[BaseRoute]:  # noqa: ARG001
    """What there is beside pages."""
    return (Route("/health", _health, methods=["GET"]),)


async def _health(_: Any) -> Any:
    """That the server answers, and nothing else."""
    return Response("ok\n", media_type="text/plain")


def app_of(desk: Desk, place: Place) -> Application:
    """The application of a desk on a network."""
    assert desk.public
    site = site_of(desk)
    threading.Thread(target=site.forecasts.warm, daemon=True).start()
    entrance = Entrance(site.accounts, place.hosts, place.secure, networks_of(place.proxies))  # type: ignore[arg-type]

    def idle() -> str:
        return "" if published.at_work(desk.folder.accounts) else _IDLE_WORKER

    pages = application(site, entrance, idle, routes_of(site))
    assert site.accounts is not None
    door = ApiDoor(desk, site.accounts, site.forecasts)
    programs = Guard(ApiApplication(door), entrance, told_to_programs)

    async def whole(scope: Scope, receive: Receive, send: Send) -> None:
        below = str(scope.get("path", "")).startswith(API)
        await (programs if below else pages)(scope, receive, send)

    return whole


def told_to_programs(told: Told) -> Told:
    """What the guard says, in the form of the interface."""
    reply = refused(RefusedCallError(told.status, "request", told.words.rstrip(".")))
    return Told(told.status, reply.content.decode(), JSON, told.headers)


def serve(desk: Desk, place: Place, announce: Callable[[str], None]) -> None:
    """Serve the pages until the process is told to end.  ``announce`` is told the address."""
    place.check()
    with _listening(place) as listener:
        here = replace(place, port=listener.getsockname()[1])
        config = uvicorn.Config(
            app_of(desk, here),
            log_level="warning",
            access_log=False,  # addresses hold questions
            server_header=False,
            proxy_headers=False,  # the entrance looks at them
            h11_max_incomplete_event_size=LARGEST,
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=5,
            http=Impatient,
            ws="none",
            loop="asyncio",
            lifespan="off",
        )
        config.load()
        if here.certificate is not None:
            config.ssl = here.context()
        announce(here.address)
        uvicorn.Server(config).run(sockets=[listener])


def _listening(place: Place) -> socket.socket:
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listener = tcp_socket(family)
    try:
        listener.bind((place.host, place.port))
        listener.listen(_CONNECTIONS)
    except (OSError, OverflowError):
        listener.close()
        raise InputError(
            f"port {place.port} of {place.host} is taken or not allowed: give another one with --port"
        ) from None
    return listener


class Impatient(H11Protocol):  # type: ignore[misc]
    """Connections whose headers have to be here in time, and that end with an answer that did not wait
    for all of the request: the framework itself waits, and reads, for ever.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._begun = False
        self._late = self.loop.call_later(READING, self._give_up)

    def data_received(self, data: bytes) -> None:
        """Start the clock of a further request, and stop it once its headers are here."""
        if self._begun and self._done():
            self._begun = False
            self._late = self.loop.call_later(READING, self._give_up)
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._begun = True
            self._late.cancel()

    def on_response_complete(self) -> None:
        """Close where more of the request would come."""
        if self.cycle.more_body:
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the clock."""
        self._late.cancel()
        super().connection_lost(exc)

    def _done(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        self.transport.close()
