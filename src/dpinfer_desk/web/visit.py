"""What somebody asks of the page of a desk and what comes back, as values: no network here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from dpinfer.errors import InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import Permissions
from dpinfer_desk.store.accounts import Accounts, Signed
from dpinfer_desk.store.roles import STEWARD
from dpinfer_desk.worker.forecasts import Forecasts

NOBODY = Signed("", "", ())
"""Who has not signed in."""


@dataclass(frozen=True)
class Fields:
    """Fields of a form or of an address, each with the texts that were sent for it."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """The last text under a key, without white space around it; empty where there is none."""
        return self.all(key)[-1].strip() if self.all(key) else ""

    def exact(self, key: str) -> str:
        """The last text under a key as it was typed: white space belongs to a password."""
        return self.all(key)[-1] if self.all(key) else ""

    def all(self, key: str) -> Sequence[str]:
        """All texts under a key."""
        return self.texts.get(key, ())

    def number(self, key: str, called: str = "") -> float | None:
        """A number; None where the field is empty.  It is ``called`` something in errors."""
        text = self.text(key)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"{called or key} must be a number, such as 0.05 or 1e-6")
        return number

    def needed(self, key: str, called: str = "") -> float:
        """A number that has to be there."""
        number = self.number(key, called)
        if number is None:
            raise InputError(f"{called or key} is missing: fill it in")
        return number


@dataclass(frozen=True)
class Site:
    """What all visits share.  Without ``accounts`` the desk is open on this machine, for one steward.
    A page waits ``patience`` seconds for a forecast before it says that it is under way.
    """

    desk: Desk
    forecasts: Forecasts
    accounts: Accounts | None = None
    patience: float = 60.0

    @property
    def alone(self) -> bool:
        """Whether there is one steward and nobody else."""
        return self.accounts is None


@dataclass(frozen=True)
class Visit:
    """One request: who it is of, ``names`` from the address, and the fields that were sent.
    ``form`` stands in each form, ``session`` is the secret of the cookie, ``address`` is where the
    visitor is.
    """

    site: Site
    signed: Signed = NOBODY
    names: Mapping[str, str] = field(default_factory=dict)
    fields: Fields = field(default_factory=Fields)
    form: str = ""
    session: str = ""
    address: str = ""

    @property
    def desk(self) -> Desk:
        """The desk, where the visitor acts."""
        return self.site.desk.acting(self.signed.person)

    @property
    def sight(self) -> Permissions:
        """What the visitor sees of it."""
        return Permissions(self.desk, self.signed)

    @property
    def steward(self) -> bool:
        """Whether a steward visits."""
        return self.signed.role == STEWARD

    @property
    def accounts(self) -> Accounts:
        """The accounts, where there are some."""
        assert self.site.accounts is not None
        return self.site.accounts


@dataclass(frozen=True)
class Page:
    """A page: its template, what is filled in, and after how many seconds it loads itself again."""

    template: str
    parts: Mapping[str, Any]
    status: int = 200
    refresh: int | None = None


@dataclass(frozen=True)
class Elsewhere:
    """Another address to go to: its parts, and fields in it.  A ``session`` goes into the cookie, an
    empty one takes it away.
    """

    parts: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None


@dataclass(frozen=True)
class Document:
    """A text that stands alone: of a ``kind``, kept as a file where it has a ``name``."""

    text: str
    kind: str
    name: str = ""


Answer = Page | Elsewhere | Document
Handler = Callable[[Visit], Answer]


def address(home: str, parts: Sequence[str], query: Mapping[str, Any] | None = None) -> str:
    """An address on the page; whatever a part holds, it stays one part."""
    path = "/".join(quote(part, safe="") for part in parts)
    tail = f"?{urlencode(query, doseq=True)}" if query else ""
    return f"{home}/{path}{tail}"
