"""The door of the page on the loopback address: one steward, who has the token that is printed.

Every program and every user of the machine can knock there.  So a request is answered only

- below a secret path: a cookie goes to all ports of an address, but only below its path, so that a
  server of somebody else on another port is never sent it;
- with the cookie, which is had for the token that `dpinfer desk open` prints;
- not from another site: Sec-Fetch-Site says where a request was made, also one of another port,
  and what changes something needs our own Origin; the token in each form is checked by the app.
"""

import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from dpinfer_desk.store.accounts import Signed
from dpinfer_desk.store.roles import STEWARD
from dpinfer_desk.web.guard import FOREIGN, Entered, Told, Visitor, welcome

_ENTER = "/enter"
_NO_TOKEN = "This page is for the one who opened the desk: use the address that `dpinfer desk open` printed."


@dataclass(frozen=True)
class Access:
    """Who may in: the names of the server, who the steward is, and the secrets of this run.

    ``home`` is the path that everything is below, ``token`` is printed once, ``session`` is in the
    cookie, ``form`` in each form.

    Guarantee [page_is_the_stewards]: without the token or the cookie, under another name of the
    server or from another site nothing is shown and nothing is changed.
    """

    hosts: tuple[str, ...]
    steward: str
    home: str = field(default_factory=lambda: f"/desk-{secrets.token_hex(8)}")
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    secure: bool = False

    @property
    def address(self) -> str:
        """What is printed: it holds the token."""
        return f"http://{self.hosts[0]}{self.home}{_ENTER}?token={self.token}"

    def for_programs(self, _: str) -> bool:
        """There is no interface for programs here."""
        return False

    def cookie(self, session: str) -> str:
        """The cookie as it is set."""
        return f"desk={session}; Path={self.home}; HttpOnly; SameSite=Strict"

    def admit(self, visitor: Visitor) -> Entered | Told:
        """The steward, if the cookie is that of this run; the token becomes a cookie."""
        if visitor.path == self.home + _ENTER and visitor.method == "GET":
            return self._enter(visitor)  # a link to it may stand in a mail
        if visitor.from_elsewhere("http"):
            return Told(403, FOREIGN)
        here = visitor.path.startswith(f"{self.home}/")
        cookie = visitor.cookie("desk").encode()
        if not here or not secrets.compare_digest(cookie, self.session.encode()):
            return Told(403, _NO_TOKEN)
        return Entered(Signed(self.steward, STEWARD), self.form, self.session, visitor.address)

    def _enter(self, visitor: Visitor) -> Told:
        given = parse_qs(visitor.query).get("token", [""])[-1]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return Told(403, _NO_TOKEN)
        return welcome(self.home, f"{self.home}/", {"set-cookie": self.cookie(self.session)})
