"""A request with the desk as its sender may use it, and the responses that pages make."""

import base64
import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.templating import Jinja2Templates

from dpinfer.errors import InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import Permissions
from dpinfer_desk.store import tickets
from dpinfer_desk.store.accounts import Accounts, Signed
from dpinfer_desk.store.roles import STEWARD
from dpinfer_desk.web.authentication import (
    Credentials,
    ReturnAddresses,
    SessionCookie,
    own_address,
    referring_address,
)
from dpinfer_desk.web.security import PAGE_POLICY
from dpinfer_desk.worker.forecasts import Forecasts

_STATE_NAMES = {
    tickets.WAITING: "Waiting for approval",
    tickets.QUEUED: "In line",
    tickets.CLAIMED: "In line",
    tickets.BOOKED_STATE: "Running",
    tickets.ANSWERED: "Ready",
    tickets.LOST_STATE: "Lost",
    tickets.DECLINED: "Declined",
    tickets.WITHDRAWN: "Withdrawn",
    tickets.REFUSED: "Refused",
}
"""The states of a question, as pages call them."""
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # 1,250 is either of two numbers
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True)
class FormFields:
    """The fields of a form or of an address, each with the texts that were sent for it."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """Return the last text under a key, without white space around it; empty where there is none."""
        return self.exact(key).strip()

    def exact(self, key: str) -> str:
        """Return the last text under a key as it was typed: white space belongs to a password."""
        return self.all(key)[-1] if self.all(key) else ""

    def all(self, key: str) -> Sequence[str]:
        """Return all texts under a key."""
        return self.texts.get(key, ())

    def number(self, key: str, label: str = "") -> float | None:
        """Return a number, or None where the field is empty; ``label`` is its name in errors."""
        text = self.text(key)
        if not text:
            return None
        if _THOUSANDS.fullmatch(text):
            whole, _, rest = text.partition(",")
            raise InputError(
                f"{label or key} may be read in two ways: write {whole}.{rest} or {whole}{rest}"
            )
        try:
            number = float(text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{label or key} must be a number, such as 0.05 or 1e-6")
        return number

    def required_number(self, key: str, label: str = "") -> float:
        """Return a number that has to be there."""
        number = self.number(key, label)
        if number is None:
            raise InputError(f"{label or key} is missing: fill it in")
        return number


@dataclass(frozen=True)
class Services:
    """The services that all requests share.

    Without ``accounts`` the desk is open on this machine, for one steward.  ``passwords`` says that
    people sign in here, and not at the proxy.  Everything is below the path ``home``.  A page waits
    ``patience`` seconds for a forecast before it says that it is under way.  ``worker_fault`` says
    what is wrong with the worker, nothing where it works.  ``returns`` has where people were when
    their sessions ended.
    """

    desk: Desk
    forecasts: Forecasts
    worker_fault: Callable[[], str]
    cookie: SessionCookie
    accounts: Accounts | None = None
    passwords: bool = True
    home: str = ""
    patience: float = 60.0
    returns: ReturnAddresses = field(default_factory=ReturnAddresses)

    @property
    def local(self) -> bool:
        """Return whether there is one steward and nobody else."""
        return self.accounts is None


class DeskRequest(Request):  # type: ignore[misc]
    """Starlette's request, with the desk as its sender may use it.

    ``fields`` are those of the form or of the address of a page; ``options`` stand behind the address
    of an operation, and ``document`` is what was sent with it.
    """

    fields = FormFields()
    options: Mapping[str, Any] = {}
    document: Mapping[str, Any] = {}

    @property
    def services(self) -> Services:
        """Return what all requests share."""
        services: Services = self.app.state.services
        return services

    @property
    def credentials(self) -> Credentials:
        """Return what `SecurityMiddleware` knows of the sender."""
        credentials: Credentials = self.auth
        return credentials

    @property
    def identity(self) -> Signed:
        """Return who sent the request."""
        return self.credentials.identity

    @property
    def desk(self) -> Desk:
        """Return the desk, where the sender acts."""
        return self.services.desk.acting(self.identity.person)

    @property
    def permissions(self) -> Permissions:
        """Return the desk as the sender sees it."""
        return Permissions(self.desk, self.identity)

    @property
    def from_steward(self) -> bool:
        """Return whether a steward sent the request."""
        return self.identity.role == STEWARD

    @property
    def came_from(self) -> str:
        """Return the page of this desk from which a request was sent, as a path; empty where it is not known."""
        return referring_address(self, self.services.cookie.scheme)

    def keep_address(self) -> None:
        """Keep the page of whoever's session has ended, for the same person after signing in."""
        if self.services.accounts is None:
            return
        session = self.services.cookie.read(self)
        person = self.accounts.ended_session(session) if session else ""
        # What was sent with a form is not read for whom it is not for: its page has the rest in its address.
        address = own_address(self) if self.method == "GET" else self.came_from
        if person and address:
            self.services.returns.keep(session, person, address)

    @property
    def accounts(self) -> Accounts:
        """Return the accounts, where there are some."""
        assert self.services.accounts is not None
        return self.services.accounts

    @property
    def site(self) -> str:
        """Return the address of the desk, under the name by which the sender knows it.

        `ConnectionPolicy` has checked that it is a name of this server.
        """
        scheme = "https" if self.services.cookie.secure else "http"
        return f"{scheme}://{self.headers['host']}{self.services.home}"

    def name(self, part: str) -> str:
        """Return a name that stands in the address."""
        return str(self.path_params[part])


@dataclass(frozen=True)
class Confirmation:
    """A question that is asked once before something is done that others notice at once.

    ``action`` and ``back`` are parts of addresses: where the form is sent, and the page before.
    ``fields`` are those of the form that was sent first.  ``reason`` is what was typed as a reason; None
    where none is asked for.
    """

    heading: str
    consequences: tuple[str, ...]
    button: str
    action: tuple[str, ...]
    back: tuple[str, ...]
    fields: Mapping[str, str]
    reason: str | None = None

    def page(self, request: DeskRequest) -> Response:
        """Return the page that asks; its form says that it was asked."""
        return page(request, "sure.html.j2", {"asked": self})


def is_confirmed(request: DeskRequest) -> bool:
    """Tell whether a form was sent from the page of a `Confirmation`."""
    return request.fields.text("confirmed") == "yes"


def state_name(state: str) -> str:
    """Return what pages call the state of a question; any other text as it is."""
    return _STATE_NAMES.get(state, state)


def page(
    request: DeskRequest,
    template: str,
    parts: Mapping[str, Any],
    status: int = 200,
) -> Response:
    """Return a page."""
    templates: Jinja2Templates = request.app.state.templates
    return templates.TemplateResponse(request, template, dict(parts), status)


def redirect(request: DeskRequest, /, *parts: str, **query: str) -> Response:
    """Lead on to another page."""
    return RedirectResponse(address(request.services.home, parts, query), status_code=303)


def download(content: str | bytes, kind: str, name: str) -> Response:
    """Return what a browser keeps as a file."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)


def standalone_page(text: str, policy: str = PAGE_POLICY) -> Response:
    """Return a document of ours that has a style of its own and no script."""
    style = _STYLE.search(text)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    headers = {"content-security-policy": policy.format(style=f"'sha256-{digest}'")}
    return Response(text, media_type="text/html", headers=headers)


def address(home: str, parts: Sequence[str], query: Mapping[str, Any] | None = None) -> str:
    """Return an address on the page; whatever a part holds, it stays one part."""
    path = "/".join(quote(part, safe="") for part in parts)
    tail = f"?{urlencode(query, doseq=True)}" if query else ""
    return f"{home}/{path}{tail}"
