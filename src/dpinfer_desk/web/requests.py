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
from dpinfer_desk.store.accounts import Accounts, Signed
from dpinfer_desk.store.roles import STEWARD
from dpinfer_desk.web.authentication import Credentials, SessionCookie
from dpinfer_desk.web.security import PAGE_POLICY
from dpinfer_desk.worker.forecasts import Forecasts

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
        try:
            number = float(text)
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
    what is wrong with the worker, nothing where it works.
    """

    desk: Desk
    forecasts: Forecasts
    worker_fault: Callable[[], str]
    cookie: SessionCookie
    accounts: Accounts | None = None
    passwords: bool = True
    home: str = ""
    patience: float = 60.0

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
    def accounts(self) -> Accounts:
        """Return the accounts, where there are some."""
        assert self.services.accounts is not None
        return self.services.accounts

    def name(self, part: str) -> str:
        """Return a name that stands in the address."""
        return str(self.path_params[part])


def page(
    request: DeskRequest,
    template: str,
    parts: Mapping[str, Any],
    status: int = 200,
    refresh: int | None = None,
) -> Response:
    """Return a page, which loads itself again after ``refresh`` seconds."""
    templates: Jinja2Templates = request.app.state.templates
    return templates.TemplateResponse(request, template, {"refresh": refresh, **parts}, status)


def redirect(request: DeskRequest, /, *parts: str, **query: str) -> Response:
    """Lead on to another page."""
    return RedirectResponse(address(request.services.home, parts, query), status_code=303)


def download(text: str, kind: str, name: str) -> Response:
    """Return a text that a browser keeps as a file."""
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type=kind, headers=headers)


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
