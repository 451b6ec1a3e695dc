"""A desk on a network: the process that shows pages, which reads neither data nor ledgers.

It listens on the loopback address, unless it has a certificate or stands behind a proxy that was
named: what people send by it are passwords.
"""

import ipaddress
import re
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from dpinfer.errors import InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import published
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.app import application
from dpinfer_desk.web.authentication import (
    AuthBackend,
    IdentityHeaderBackend,
    SessionBackend,
    SessionCookie,
)
from dpinfer_desk.web.requests import Services
from dpinfer_desk.web.security import ConnectionPolicy, networks_of
from dpinfer_desk.web.sockets import HEADER_LIMIT, DeadlineProtocol, listening_socket
from dpinfer_desk.worker.forecasts import Forecasts

PORT = 8766
"""Where the server listens, unless another port is asked for."""
_PATIENCE = 2.0  # seconds that a page waits for a forecast
_CONNECTIONS = 1000
_HEADER_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")  # proxies drop or confuse names with an underscore
_TAKEN_HEADERS = (
    *("authorization", "connection", "content-length", "content-type", "cookie", "expect", "host"),
    *("origin", "sec-fetch-mode", "sec-fetch-site", "transfer-encoding", "upgrade"),
    *("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-real-ip", "forwarded"),
    *("user-agent", "referer", "from", "accept", "accept-encoding", "accept-language"),
)
_IDLE_WORKER = "the worker is not at work, so questions wait; nothing of them is lost"


@dataclass(frozen=True)
class ServerConfig:
    """Where the server listens, and how requests reach it.

    ``names`` are those by which people know it, such as stats.example.org.  ``proxies`` are addresses
    of proxies that are trusted; ``certificate`` and ``key`` are files for TLS of its own.  Where there
    is an ``identity_header``, those proxies sign people in and name them in this header.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    names: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    identity_header: str = ""

    @property
    def secure(self) -> bool:
        """Return whether requests come by TLS alone."""
        return bool(self.proxies) or self.certificate is not None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return what may stand in the Host of a request."""
        if self.names:
            return tuple(host for name in self.names for host in (name, f"{name}:{self.port}"))
        name = f"[{self.host}]" if ":" in self.host else self.host
        return (f"{name}:{self.port}", f"localhost:{self.port}")

    @property
    def address(self) -> str:
        """Return what people type; behind a proxy that is the proxy's."""
        if self.proxies:
            return f"https://{self.names[0]}/"
        scheme = "https" if self.certificate is not None else "http"
        return f"{scheme}://{self.hosts[-1] if self.names else self.hosts[0]}/"

    def check(self) -> None:
        """Refuse an address where passwords could be read on their way.

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
        if self.identity_header:
            self._check_identity_header()
        if self.secure and not self.names:
            raise InputError("name the server as people know it: --name stats.example.org")
        if self.certificate is not None:
            self.context()

    def _check_identity_header(self) -> None:
        """Refuse an identity header without one trusted proxy, or one that has another meaning."""
        if not self.proxies:
            raise InputError(
                "--identity-header is taken from a trusted proxy alone: name the proxy with --behind-proxy"
            )
        name = self.identity_header.lower()
        if not _HEADER_NAME.fullmatch(name) or name in _TAKEN_HEADERS:
            raise InputError(
                "--identity-header takes the name of a header that nothing else uses, such as X-Remote-User"
            )

    def context(self) -> ssl.SSLContext:
        """Return TLS with the certificate; `InputError` where the files are no such."""
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


def services_of(desk: Desk, config: ServerConfig) -> Services:
    """Return what all requests to a desk on a network share."""

    def worker_fault() -> str:
        return "" if published.at_work(desk.folder.accounts) else _IDLE_WORKER

    return Services(
        desk,
        Forecasts(desk),
        worker_fault,
        SessionCookie.of_server(secure=config.secure),
        Accounts(desk.register),
        passwords=not config.identity_header,
        patience=_PATIENCE,
    )


def app_of(desk: Desk, config: ServerConfig) -> ASGIApp:
    """Return the application of a desk on a network."""
    assert desk.public
    services = services_of(desk, config)
    accounts = services.accounts
    assert accounts is not None
    threading.Thread(target=services.forecasts.warm, daemon=True).start()
    backend: AuthBackend = SessionBackend(accounts, services.cookie)
    if config.identity_header:
        backend = IdentityHeaderBackend(accounts, config.identity_header)
    policy = ConnectionPolicy(config.hosts, config.secure, networks_of(config.proxies))
    return application(services, policy, backend)


def serve(desk: Desk, config: ServerConfig, announce: Callable[[str], None]) -> None:
    """Serve the desk until the process has to end.  ``announce`` is called with the address."""
    config.check()
    with listening_socket(config.host, config.port) as listener:
        actual = replace(config, port=listener.getsockname()[1])
        options = uvicorn.Config(
            app_of(desk, actual),
            log_level="warning",
            access_log=False,  # addresses hold questions
            server_header=False,
            proxy_headers=False,  # `ConnectionPolicy` looks at them
            h11_max_incomplete_event_size=HEADER_LIMIT,
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=5,
            http=DeadlineProtocol,
            ws="none",
            loop="asyncio",
            lifespan="off",
        )
        options.load()
        if actual.certificate is not None:
            options.ssl = actual.context()
        announce(actual.address)
        uvicorn.Server(options).run(sockets=[listener])
