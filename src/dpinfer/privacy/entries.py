"""What is written down: events, entries, the terms of a ledger; as values and as stored texts."""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from dpinfer import persistence
from dpinfer.errors import LedgerError
from dpinfer.maths.arrays import boundary
from dpinfer.maths.privacy_cost import PerturbedObjective
from dpinfer.neighbours import Neighbours, of_sentence
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP, Share, compose
from dpinfer.privacy.filters import renyi_orders
from dpinfer.privacy.release import (
    LaplaceMinimum,
    NoisyCounts,
    NoisyMinimum,
    NoisySum,
    PastRelease,
    PerturbedMinimum,
    Release,
    ShownLevels,
)
from dpinfer.privacy.store import RESTORE

FORMAT, VERSION = "dpinfer.Ledger", 2
"""Version 1 had events with flags, and neighbours in words; it is read, and goes on in the present
format.
"""

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        PureDP, ZCDP, ApproxDP, PerturbedObjective,
        NoisySum, NoisyCounts, ShownLevels, NoisyMinimum, PerturbedMinimum, LaplaceMinimum, PastRelease,
    )
}  # fmt: skip
"""The values that a ledger stores inside its header and its events."""


@dataclass(frozen=True)
class Entry:
    """All releases of one fit, booked together.  The ledger fills in ``release`` and ``time``
    (UTC).
    """

    purpose: str
    unit: str
    events: tuple[Release, ...]
    neighbours: Neighbours = Neighbours.REPLACE
    schema: str = ""
    release: str = ""
    time: str = ""

    @property
    def cost(self) -> Share:
        """The composed cost of the events."""
        return compose(event.share for event in self.events)


class Book(Protocol):
    """What the gate asks of a ledger."""

    def book(self, entry: Entry) -> str:
        """Write the entry down and name it, or raise `LedgerError` and leave everything as it was."""
        ...


@dataclass(frozen=True)
class Terms:
    """What a ledger declares once; ``orders`` of its filters are the default ones where an old
    header has none.
    """

    total: Total
    unit: str
    neighbours: Neighbours
    title: str
    created: str
    orders: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.total, Total):
            raise LedgerError("a ledger keeps a privacy budget: give it PureDP, ZCDP or ApproxDP")
        if not all(isinstance(words, str) for words in (self.unit, self.title)):
            raise LedgerError("a ledger's unit and title are texts")
        usual = renyi_orders(self.total)
        if not self.orders:
            object.__setattr__(self, "orders", usual)
        if len(self.orders) != len(usual) or not all(1 < order < math.inf for order in self.orders):
            raise ValueError("orders")


def header_text(terms: Terms) -> str:
    """The header as it is stored."""
    return _text({"format": FORMAT, "version": VERSION, **persistence.encode(terms)})


def entry_text(entry: Entry) -> str:
    """An entry as it is stored, with its cost for readers; nothing is derived from that."""
    try:
        text = _text(
            {
                **persistence.encode(entry),
                "version": VERSION,
                "cost": persistence.encode(entry.cost),
            }
        )
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


def understated(entry: Entry) -> str:
    """The first step whose own parameters cost more than its share; empty if there is none.

    Guarantee [stated_costs]: an entry with such a step is neither booked nor read.
    """
    return next((event.step for event in entry.events if _understated(event)), "")


@lru_cache(maxsize=16_384)
def _understated(release: Release) -> bool:
    most = 1 + _ROUNDING
    if isinstance(release, PerturbedMinimum):
        return _dearer(release.objective, release.share.rho * most - release.mask**2 / 2)
    if isinstance(release, LaplaceMinimum):
        return not release.cost() <= release.share.pure().epsilon * most
    return False


def terms_of(header: str) -> Terms:
    """The inverse of `header_text`."""
    try:
        raw = json.loads(header)
        if raw.pop("format") != FORMAT:
            raise KeyError
        return Terms(**_fields(raw) | {"neighbours": _neighbours(raw)})
    except _UNREADABLE:
        raise LedgerError(
            "the header cannot be read by this version of dpinfer: use a newer one"
        ) from None


def entry_of(number: int, text: str) -> Entry:
    """The inverse of `entry_text`.  A field that was added to events or entries later takes its
    default.
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


def _dearer(objective: PerturbedObjective, rho: float) -> bool:
    """Whether its cost exceeds ρ, ten times as quickly as by the cost itself, which is where its
    two bounds meet.
    """
    if objective.k < 1e-12:
        return not objective.cost() <= rho
    low, high = 1e-6 / objective.k, (1 - 1e-9) / objective.k
    if not objective.falling(high) <= rho:
        return True
    least = boundary(
        lambda beyond: objective.falling(beyond) <= rho, high, low, 1e-12, by_ratio=True
    )[0]
    return not objective.growing(least) <= rho


_ROUNDING = 1e-9
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError)


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)


def _fields(raw: dict[str, Any]) -> dict[str, Any]:
    return {
        name: persistence.decode(value, KINDS)
        for name, value in raw.items()
        if name not in ("kind", "version")
    }


@lru_cache(maxsize=16_384)
def _read(text: str) -> tuple[Entry, str]:
    """The entry of a text and its first step that states too little."""
    entry = _entry(text)
    return entry, understated(entry)


def _entry(text: str) -> Entry:
    raw = json.loads(text)
    neighbours = _neighbours(raw)
    events = tuple(
        past_event(e) if e["kind"] == "Event" else persistence.decode(e, KINDS)
        for e in raw.pop("events")
    )
    raw.pop("cost")
    return Entry(**_fields(raw) | {"events": events, "neighbours": neighbours})


def _neighbours(raw: dict[str, Any]) -> Neighbours:
    """By the code or, in version 1, by the sentence."""
    version = raw.get("version", 1)
    if version not in (1, VERSION):
        raise KeyError
    return of_sentence(raw["neighbours"]) if version == 1 else Neighbours(raw["neighbours"])


def past_event(raw: dict[str, Any]) -> Release:
    """The release that an event of version 1 stands for, by its flags."""
    step, share = raw["step"], persistence.decode(raw["share"], KINDS)
    if raw.get("additive"):
        return NoisySum(step, share)
    objective = raw.get("perturbed")
    return (
        PastRelease(step, share)
        if objective is None
        else PerturbedMinimum(step, share, persistence.decode(objective, KINDS))
    )
