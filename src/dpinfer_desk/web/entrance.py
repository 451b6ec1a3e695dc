"""The door of a desk on a network: sessions of those who have signed in, and a proxy that is trusted.

A request comes by TLS, to the server itself or to a proxy whose address was named, or from this
machine alone.  Pages know people by a cookie; programs, below /api/, by a token that each request
brings, and never by a cookie.
"""

import hashlib
import hmac
import ipaddress
from dataclasses import dataclass
from urllib.parse import quote

from dpinfer.errors import InputError
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.guard import FOREIGN, Entered, Told, Visitor, welcome

API = "/api/"
"""What is below it is for programs."""
_NO_PROXY = "This server is behind a proxy: use the address that you were given."
_NO_TLS = "This server is for https alone: use the address that you were given."
_OPEN = ("/style.css", "/desk.js", "/icon.svg", "/health")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Known = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Entrance:
    """Who may in.  ``secure`` says that requests come by TLS alone; ``proxies`` are the addresses of
    those who may say where a request came from.

    Guarantee [no_other_site]: a request that changes something is carried out only with the session,
    our own Origin and the word that stands in the forms of this session.
    """

    accounts: Accounts
    hosts: tuple[str, ...]
    secure: bool
    proxies: tuple[Network, ...] = ()
    home: str = ""

    @property
    def name(self) -> str:
        """Of the cookie: browsers take one of this kind from this server alone, and by TLS."""
        return "__Host-desk" if self.secure else "desk"

    def for_programs(self, path: str) -> bool:
        """Whether a path is below `API`."""
        return path.startswith(API)

    def cookie(self, session: str) -> str:
        """The cookie as it is set; an empty session takes it away."""
        secure = "; Secure" if self.secure else ""
        ends = "" if session else "; Max-Age=0"
        return f"{self.name}={session}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"

    def admit(self, visitor: Visitor) -> Entered | Told:
        """Who has signed in, or nobody; what comes from another site is led in by a page of ours."""
        address = self._address(visitor)
        if isinstance(address, Told):
            return address
        if self.for_programs(visitor.path):
            return Entered(None, address=address, program=True)
        if visitor.path in _OPEN:
            return Entered(None, address=address)
        if visitor.from_elsewhere("https" if self.secure else "http"):
            return _led_in(visitor)
        session = visitor.cookie(self.name)
        signed = self.accounts.by_session(session) if session else None
        if signed is None:
            return Entered(None, address=address)
        return Entered(signed, form_of(session), session, address)

    def _address(self, visitor: Visitor) -> str | Told:
        """Where a request came from, as a proxy that is trusted says it."""
        if not self.proxies:
            return _network(visitor.address)
        if not _among(visitor.address, self.proxies):
            return Told(403, _NO_PROXY)
        if visitor.headers.get("x-forwarded-proto", "") != "https":
            return Told(403, _NO_TLS)
        return _network(visitor.headers.get("x-forwarded-for", "").rpartition(",")[2].strip())


def form_of(session: str) -> str:
    """What stands in the forms of a session: nobody else can know it."""
    return hmac.digest(session.encode(), b"form", hashlib.sha256).hex()


def networks_of(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Addresses or networks that were named."""
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError:
        raise InputError(
            "--behind-proxy takes the address of a proxy, such as 127.0.0.1 or 10.0.0.0/24"
        ) from None


def _among(address: str, networks: tuple[Network, ...]) -> bool:
    known = _known(address)
    return known is not None and any(known in network for network in networks)


def _network(address: str) -> str:
    """An address as tries are counted: whoever has one of IPv6 has 2^64 of them."""
    known = _known(address)
    if known is None:
        return ""
    if known.version == 4:
        return str(known)
    return str(ipaddress.ip_network((known, 64), strict=False))


def _known(address: str) -> _Known | None:
    """An address; one of IPv4 as such, also where the server listens on IPv6."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return None
    if isinstance(known, ipaddress.IPv6Address):
        return known.ipv4_mapped or known
    return known


def _led_in(visitor: Visitor) -> Told:
    """What is said to a request from another site: a link may lead here, and that is all."""
    if visitor.method == "GET" and visitor.headers.get("sec-fetch-mode") == "navigate":
        return welcome("", _place(visitor))
    return Told(403, FOREIGN)


def _place(visitor: Visitor) -> str:
    """The address that was asked for, as a path of this server; two slashes would be another one, also
    with characters in between that browsers leave out.
    """
    path = quote("/" + visitor.path.lstrip("/\\"), safe="/")
    return f"{path}?{visitor.query}" if visitor.query else path
