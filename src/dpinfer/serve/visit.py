"""What somebody asks of the page of a desk and what comes back, as values: no network here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from dpinfer.desk.desk import Desk
from dpinfer.errors import InputError


class NowhereError(InputError):
    """There is nothing at this address."""


@dataclass(frozen=True)
class Fields:
    """Fields of a form or of an address, each with the texts that were sent for it."""

    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """The last text under a key, without white space around it; empty where there is none."""
        return self.all(key)[-1].strip() if self.all(key) else ""

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
class Visit:
    """One request: the desk, ``names`` from the address, and the fields that were sent."""

    desk: Desk
    names: Mapping[str, str] = field(default_factory=dict)
    fields: Fields = field(default_factory=Fields)


@dataclass(frozen=True)
class Page:
    """A page: its template, what is filled in, and after how many seconds it loads itself again."""

    template: str
    parts: Mapping[str, Any]
    status: int = 200
    refresh: int | None = None


@dataclass(frozen=True)
class Elsewhere:
    """Another address to go to: its parts, and fields in it."""

    parts: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict)


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
