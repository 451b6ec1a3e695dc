"""A question at a desk: its states, its times, and the state that may be shown at a time.

    waiting ── approve ──▶ queued ── claim ──▶ claimed ── book ──▶ booked ──▶ kept ─── answer time ──▶ answered
       │ decline   │ withdraw │ withdraw          │ ledger says no     │ overrun, kill, fault
       ▼           ▼          ▼                   ▼                    ▼
    declined    withdrawn  withdrawn (free)    refused (free)        failed ── answer time ──▶ lost (paid)

After booking there are two outcomes, at a public time: the result, or `NO_ANSWER`.  "kept" and "failed"
are stored and shown to nobody: until its answer time the question is "booked".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import InputError, LedgerError

WAITING = "waiting"
QUEUED = "queued"
CLAIMED = "claimed"
BOOKED_STATE = "booked"
KEPT = "kept"
FAILED = "failed"
ANSWERED = "answered"
LOST_STATE = "lost"
DECLINED = "declined"
WITHDRAWN = "withdrawn"
REFUSED = "refused"

OPEN = (WAITING, QUEUED, CLAIMED)
"""Nothing has been spent."""
RUNNING = (CLAIMED, BOOKED_STATE)
"""A process works on the question, or did when the machine stopped."""
SETTLED = {KEPT: ANSWERED, FAILED: LOST_STATE}
"""Stored outcomes, each with the state that is shown from the answer time on."""
SHOWN = {BOOKED_STATE: LOST_STATE, **SETTLED}
"""The states that are shown from the answer time on: a question without an outcome by then is lost."""
MARGIN = 0.1
"""The last part of a response time, in which no fit runs, so that the outcome is stored in time."""
_MAX_MARGIN = 1.0  # seconds
_ID = re.compile(r"[0-9a-f]{32}")
PAID = (BOOKED_STATE, *SETTLED, *SETTLED.values())
"""The ledger has an entry of the question."""
ASKED = (*OPEN, BOOKED_STATE, ANSWERED)
"""Shown states of a question that is paid for, or will be."""
FREE = (DECLINED, WITHDRAWN, REFUSED)
"""Nothing was spent, and nothing will be."""
ENDED = (ANSWERED, LOST_STATE, *FREE)
"""Nothing changes any more."""


class ConflictError(InputError):
    """A request is valid, but the state of the desk does not permit it now."""


class UnconfirmedError(ConflictError):
    """A question is asked only if its analyst confirms it, by the option ``again`` or ``anyway``."""

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


class RefusedError(LedgerError):
    """Total or allowance do not pay for a question, or its analyst may not ask now.

    The message is for analysts.
    """


@dataclass(frozen=True)
class Ticket:
    """A question at a desk, as one row of desk.db.

    ``id`` names it, also in the ledger; ``key`` is the analyst's own name of it, so that sending it
    twice is asking once.  ``cost`` is in the measure of allowances.  ``asked`` and ``decided`` are
    times (UTC, ISO), ``decider`` and ``reason`` belong to a decision or a refusal.  ``booking_time``
    is that of the entry in the ledger, ``response_time`` the seconds from there to the answer, and
    ``release`` the id of the entry.
    """

    id: str
    table: str
    by: str
    key: str
    question: AnalystQuestion
    cost: float
    state: str
    asked: str
    decided: str = ""
    decider: str = ""
    reason: str = ""
    response_time: float | None = None
    booking_time: str = ""
    release: str = ""

    @property
    def due(self) -> datetime | None:
        """Return the answer time, when the outcome is shown; None before the booking."""
        if not self.booking_time or self.response_time is None:
            return None
        return datetime.fromisoformat(self.booking_time) + timedelta(seconds=self.response_time)

    @property
    def deadline(self) -> datetime | None:
        """Return the time at which its process is killed, a margin before the answer time."""
        due = self.due
        if due is None or self.response_time is None:
            return None
        return due - timedelta(seconds=min(MARGIN * self.response_time, _MAX_MARGIN))

    def as_shown(self, now: datetime) -> "Ticket":
        """Return the question as it may be shown: its outcome appears at the answer time, not before.

        A question without an outcome by then is lost, and stays so: `Register.settle` stores none later.

        Guarantee [public_answer_times]: between booking and the answer time nothing that is shown
        depends on whether, when or how the fit ended; and nothing changes after it.
        """
        if self.state not in PAID or self.due is None:
            return self
        if now < self.due:
            return replace(self, state=BOOKED_STATE)
        return replace(self, state=SHOWN.get(self.state, self.state))

    @property
    def ended(self) -> bool:
        return self.state in ENDED


def ticket_named(ident: str) -> str:
    """Return the id of a question if it may be the name of a file."""
    if not isinstance(ident, str) or not _ID.fullmatch(ident):
        raise InputError("the id of a question is 32 digits and letters from a to f")
    return ident


def stored_as(shown: Sequence[str]) -> tuple[str, ...]:
    """Return the stored states of which some may be shown as one of these."""
    if any(state in PAID for state in shown):
        return (*shown, *PAID)
    return tuple(shown)


def now() -> datetime:
    """Return the time in UTC, as it is stored."""
    return datetime.now(UTC)
