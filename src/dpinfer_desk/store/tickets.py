"""A question at a desk: its states, its times, and what may be shown of it when.

    waiting ── approve ──▶ queued ── claim ──▶ claimed ── book ──▶ booked ──▶ kept ─── slot ends ──▶ answered
       │ decline   │ withdraw │ withdraw          │ ledger says no     │ overrun, kill, fault
       ▼           ▼          ▼                   ▼                    ▼
    declined    withdrawn  withdrawn (free)    refused (free)        failed ── slot ends ──▶ lost (paid)

After booking there are two outcomes, at a public time: the result, or `NO_ANSWER`.  "kept" and "failed"
are written down and shown to nobody: until the slot ends the question is "booked".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dpinfer.asking.allowed import Question
from dpinfer.errors import InputError, LedgerError

WAITING = "waiting"
QUEUED = "queued"
CLAIMED = "claimed"
BOOKED = "booked"
KEPT = "kept"
FAILED = "failed"
ANSWERED = "answered"
LOST_STATE = "lost"
DECLINED = "declined"
WITHDRAWN = "withdrawn"
REFUSED = "refused"

OPEN = (WAITING, QUEUED, CLAIMED)
"""Nothing is spent yet."""
RUNNING = (CLAIMED, BOOKED)
"""A process is at work, or was when everything stopped."""
SETTLED = {KEPT: ANSWERED, FAILED: LOST_STATE}
"""The outcome is there and is not shown before the slot ends; and what it is called then."""
SHOWN = {BOOKED: LOST_STATE, **SETTLED}
"""What a state is called when the slot has ended."""
MARGIN = 0.1
"""The part of a slot at its end in which no fit runs any more: the outcome is there when it ends."""
_LARGEST_MARGIN = 1.0  # seconds
_ID = re.compile(r"[0-9a-f]{32}")
PAID = (BOOKED, *SETTLED, *SETTLED.values())
"""The ledger has the entry."""
ASKED = (*OPEN, BOOKED, ANSWERED)
"""As it is shown: it is paid for, or will be."""
FREE = (DECLINED, WITHDRAWN, REFUSED)
"""It has ended and nothing was spent."""
ENDED = (ANSWERED, LOST_STATE, *FREE)
"""Nothing happens any more."""


class ConflictError(InputError):
    """What is asked for is right as such, and cannot be done as things stand."""


class RefusedError(LedgerError):
    """Total or allowance do not pay for a question, or nothing is booked for its asker now; the text
    is for analysts.
    """


@dataclass(frozen=True)
class Ticket:
    """A question at a desk.

    ``id`` names it, also in the ledger; ``key`` is the asker's own, so that sending twice is asking
    once.  ``cost`` is in the terms of allowances.  ``asked`` and ``decided`` are times (UTC, ISO),
    ``decider`` and ``reason`` go with a decision or a refusal.  ``booked`` is the time in the
    ledger, ``slot`` the seconds from there to the answer, ``release`` the id of the entry.
    """

    id: str
    table: str
    by: str
    key: str
    question: Question
    cost: float
    state: str
    asked: str
    decided: str = ""
    decider: str = ""
    reason: str = ""
    slot: float | None = None
    booked: str = ""
    release: str = ""

    @property
    def due(self) -> datetime | None:
        """When the outcome is shown; None before the booking."""
        if not self.booked or self.slot is None:
            return None
        return datetime.fromisoformat(self.booked) + timedelta(seconds=self.slot)

    @property
    def ends(self) -> datetime | None:
        """When its process is ended: a margin before the slot ends; None before the booking."""
        due = self.due
        if due is None or self.slot is None:
            return None
        return due - timedelta(seconds=min(MARGIN * self.slot, _LARGEST_MARGIN))

    def seen(self, now: datetime) -> "Ticket":
        """What may be shown of it: the outcome appears when the slot ends, not before and not later.
        What has none by then is lost, and stays so: `Register.settle` keeps nothing after its slot.

        Guarantee [public_answer_times]: between booking and the end of the slot nothing that is
        shown depends on whether, when or how the fit ended; and nothing changes after it.
        """
        if self.state not in PAID or self.due is None:
            return self
        if now < self.due:
            return replace(self, state=BOOKED)
        return replace(self, state=SHOWN.get(self.state, self.state))

    @property
    def ended(self) -> bool:
        """Whether nothing happens to it any more."""
        return self.state in ENDED


def ticket_named(ident: str) -> str:
    """An id that may be the name of a file."""
    if not isinstance(ident, str) or not _ID.fullmatch(ident):
        raise InputError("the id of a question is 32 digits and letters from a to f")
    return ident


def stored_as(shown: Sequence[str]) -> tuple[str, ...]:
    """The states that are written down where one of these is shown, and perhaps some more."""
    if any(state in PAID for state in shown):
        return (*shown, *PAID)
    return tuple(shown)


def now() -> datetime:
    """The time, as it is written down."""
    return datetime.now(UTC)
