"""The contents of a ledger: its terms and the entries of fits, as values and as stored texts."""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from dpinfer import persistence
from dpinfer.adjacency import Adjacency
from dpinfer.errors import LedgerError
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.persistence import FileNames
from dpinfer.privacy.accountant import Total, renyi_orders
from dpinfer.privacy.budget import ZCDP, ApproxDP, Budget, PureDP, Share, compose
from dpinfer.privacy.release import (
    LaplaceMinimum,
    NoisyCounts,
    NoisyMinimum,
    NoisySum,
    PerturbedMinimum,
    Release,
    ScaledSum,
    ShownLevels,
)
from dpinfer.privacy.store import RESTORE

FORMAT = "dpinfer.Ledger"
VERSION = 3
"""The version of the texts.  Versions 1 and 2 were never released: releases had no bounds."""

NAMES = FileNames(
    {
        "PureDP": PureDP,
        "ZCDP": ZCDP,
        "ApproxDP": ApproxDP,
        "NoisySum": NoisySum,
        "ScaledSum": ScaledSum,
        "NoisyCounts": NoisyCounts,
        "ShownLevels": ShownLevels,
        "NoisyMinimum": NoisyMinimum,
        "PerturbedMinimum": PerturbedMinimum,
        "LaplaceMinimum": LaplaceMinimum,
        "PerturbedObjective": PerturbedObjective,
    }
)
"""The names of the values that a ledger stores inside its header and its events.  They never change:
every ledger that was ever written is read by them."""

_ROUNDING = 1e-9  # by which the cost of a release may exceed its share, as both are rounded
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)


@dataclass(frozen=True)
class Entry:
    """All releases of one fit, booked together.  The ledger fills in ``release`` and ``time``
    (UTC).

    ``by`` says who asked for them and ``request`` names what was asked; both are empty where the
    holder of the data fits by himself.  ``asked`` is the budget in the terms in which it was asked;
    None in ledgers of earlier versions.  Nothing is derived from it: the events are what is paid.
    """

    purpose: str
    unit: str
    events: tuple[Release, ...]
    neighbours: Adjacency = Adjacency.REPLACE
    schema: str = ""
    release: str = ""
    time: str = ""
    by: str = ""
    request: str = ""
    asked: Budget | None = None

    @property
    def cost(self) -> Share:
        """The composed cost of the events."""
        return compose(event.share for event in self.events)


class Book(Protocol):
    """The part of a ledger that the gate uses."""

    def book(self, entry: Entry) -> str:
        """Write the entry down and name it, or raise `LedgerError` and leave everything as it was."""
        ...


@dataclass(frozen=True)
class Terms:
    """The terms that a ledger declares once; ``orders`` are the Rényi orders of its filters, fixed when it was made."""

    total: Total
    unit: str
    neighbours: Adjacency
    title: str
    created: str
    orders: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.total, Total):
            raise LedgerError("a ledger keeps a privacy budget: give it PureDP, ZCDP or ApproxDP")
        if not all(isinstance(words, str) for words in (self.unit, self.title)):
            raise LedgerError("a ledger's unit and title are texts")
        if len(self.orders) != len(renyi_orders(self.total)):
            raise ValueError("orders")
        if not all(1 < order < math.inf for order in self.orders):
            raise ValueError("orders")


_NAMES = NAMES | FileNames({"Entry": Entry, "Terms": Terms})


def header_text(terms: Terms) -> str:
    """Return the header as it is stored."""
    return _text({"format": FORMAT, "version": VERSION, **persistence.encode(terms, _NAMES)})


def terms_of(header: str) -> Terms:
    """Return the terms in a header."""
    try:
        raw = json.loads(header)
        if raw.pop("format") != FORMAT:
            raise KeyError
        _require_present(raw["version"])
        return Terms(**_fields(raw))
    except _UNREADABLE:
        raise LedgerError(
            "the header cannot be read by this version of dpinfer: use a newer one"
        ) from None


def entry_text(entry: Entry) -> str:
    """Return an entry as it is stored, with its cost for readers; nothing is derived from that."""
    try:
        cost = persistence.encode(entry.cost, NAMES)
        fields = persistence.encode(entry, _NAMES)
        if entry.asked is None:
            del fields["asked"]  # as in ledgers of earlier versions
        text = _text({**fields, "version": VERSION, "cost": cost})
        if _entry(text) != entry:
            raise KeyError
    except _UNREADABLE:  # written, it would lock the ledger
        raise LedgerError(
            "the fit's events hold a value that a ledger cannot store: fit without the ledger"
        ) from None
    step = understated(entry)
    if step:
        raise LedgerError(
            f"the step {step!r} costs more than it states: make its release with a constructor `of`"
        )
    return text


def entry_of(number: int, text: str) -> Entry:
    """Return the entry in a text.  A field that was added to events or entries later takes
    its default.
    """
    try:
        entry, step = _read(text)
    except _UNREADABLE:
        raise LedgerError(
            f"entry {number} cannot be read by this version of dpinfer: use a newer one"
        ) from None
    if step:
        raise LedgerError(
            f"entry {number} of the ledger is broken, its step {step!r} costs more than it states, and {RESTORE}"
        )
    return entry


def understated(entry: Entry) -> str:
    """Return the first step whose own parameters cost more than its share; empty if there is none.

    Guarantee [stated_costs]: an entry with such a step is neither booked nor read.
    """
    return next((event.step for event in entry.events if _understated(event)), "")


@lru_cache(maxsize=16_384)
def _understated(release: Release) -> bool:
    """Whether a release costs more than its share; of sums plus noise the share is the cost."""
    if isinstance(release, PerturbedMinimum):
        rho = release.share.rho * (1 + _ROUNDING)
        return release.objective.costs_more_than(rho - release.mask**2 / 2)
    if isinstance(release, LaplaceMinimum):
        return not release.cost() <= release.share.pure().epsilon * (1 + _ROUNDING)
    return False


@lru_cache(maxsize=16_384)
def _read(text: str) -> tuple[Entry, str]:
    """Return the entry of a text and its first step that states too little."""
    entry = _entry(text)
    return entry, understated(entry)


def _entry(text: str) -> Entry:
    raw = json.loads(text)
    _require_present(raw["version"])
    del raw["cost"]
    return Entry(**_fields(raw))


def _require_present(version: object) -> None:
    """Refuse what an earlier version wrote, with a sentence, and anything else that is not ours."""
    if isinstance(version, int) and 0 < version < VERSION:
        raise LedgerError(
            f"the ledger has format {version} of an unreleased dpinfer, which is not read any more and left as it is: "
            "go on with it in the version that wrote it, or make a new one"
        )
    if version != VERSION:
        raise KeyError


def _fields(raw: dict[str, Any]) -> dict[str, Any]:
    fields = {
        name: persistence.decode(value, _NAMES)
        for name, value in raw.items()
        if name not in ("kind", "version")
    }
    return fields | {"neighbours": Adjacency(raw["neighbours"])}


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
