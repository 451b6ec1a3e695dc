"""What a program asks of a desk and what comes back, as values: operations, calls, replies; no network here."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpinfer.asking.rules import Rule
from dpinfer.asking.spec import check, check_name
from dpinfer.errors import InputError
from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import Permissions
from dpinfer_desk.store.accounts import Accounts, Signed
from dpinfer_desk.worker.forecasts import Forecasts

JSON = "application/json"
LINES = "application/jsonl"
CSV = "text/csv"
HTML = "text/html"

NAMES = {
    "table": r"[a-z0-9][a-z0-9._-]{0,59}",
    "key": r"[A-Za-z0-9_-]{8,100}",
    "question": r"[0-9a-f]{32}",
    "forecast": r"[0-9a-f]{32}",
    "analyst": r"[^/]{1,100}",
    "token": r"[0-9a-f]{12}",
}
"""What may stand in an address, as regular expressions; what does not match is nowhere."""


class RefusedCallError(Exception):
    """A call that is answered by an error, with nothing done: its status, a word for programs, and
    the sentence for people.
    """

    def __init__(
        self, status: int, code: str, words: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(words)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


@dataclass(frozen=True)
class Body:
    """What the body of a call may be: its keys with their rules, and those that have to be there."""

    rules: Mapping[str, Rule]
    required: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """The same as JSON Schema."""
        keys = {
            key: {**rule.schema, "description": rule.description}
            for key, rule in self.rules.items()
        }
        document = {"type": "object", "properties": keys, "additionalProperties": False}
        if self.required:
            document["required"] = list(self.required)
        return document | dict(self.more)

    def checked(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """What was sent, if it is that."""
        for key, value in given.items():
            check_name("what was sent", "key", key, self.rules)
            check(key, value, self.rules[key])
        for key in self.required:
            if key not in given:
                raise InputError(f"what was sent lacks {key}: add it")
        return given


@dataclass(frozen=True)
class Reply:
    """What comes back."""

    status: int = 200
    content: bytes = b""
    kind: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    """One call: the desk as the caller sees it, the names in the address, the options behind it, and
    what was sent.
    """

    accounts: Accounts
    forecasts: Forecasts
    sight: Permissions
    names: Mapping[str, str]
    options: Mapping[str, Any]
    body: Mapping[str, Any]

    @property
    def desk(self) -> Desk:
        """The desk, where the caller acts."""
        return self.sight.desk

    @property
    def signed(self) -> Signed:
        """Who calls."""
        return self.sight.signed


@dataclass(frozen=True)
class Operation:
    """One thing that can be asked: how, by whom, and what may come back.

    ``roles`` may do it, with a token of this ``scope``; without roles anyone may, and needs no
    token.  ``body`` names what is sent, ``options`` are those behind the address.  ``replies`` has
    what each good status brings, ``refusals`` the other statuses that are its own.
    """

    handler: Callable[[Call], Reply]
    method: str
    path: str
    roles: tuple[str, ...]
    scope: str
    body: str
    options: Mapping[str, Rule]
    replies: Mapping[int, str]
    refusals: tuple[int, ...]

    @property
    def name(self) -> str:
        """What it is called."""
        return self.handler.__name__

    @property
    def words(self) -> str:
        """What it does."""
        return " ".join((self.handler.__doc__ or "").split())

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The names that stand in its address."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The addresses that are its own."""
        fixed = re.escape(self.path).replace(r"\{", "{").replace(r"\}", "}")
        return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", fixed))


def told(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A JSON document as a reply."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    return Reply(status, text.encode(), JSON, headers or {})


def refused(fault: RefusedCallError) -> Reply:
    """An error as a reply.  ``error`` and ``remedy``, joined by a colon, are the sentence of the
    command line.
    """
    error, colon, remedy = str(fault).rpartition(": ")
    if not colon:
        error, remedy = remedy, ""
    document = {"error": error, "remedy": remedy, "code": fault.code}
    return told(document, fault.status, fault.headers)
