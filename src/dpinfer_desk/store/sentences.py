"""The events of a journal as sentences, and their kinds.

Sentences are made when events are shown.  What is stored and hashed are the events themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpinfer_desk.store import tickets
from dpinfer_desk.store.journal import Event
from dpinfer_desk.store.moment_files import PUBLISHED
from dpinfer_desk.store.roles import ACTIVE, PAUSED, REVOKED
from dpinfer_desk.store.tables import ABOVE, EACH, NONE, OPEN
from dpinfer_desk.store.tables import PAUSED as PAUSED_TABLE
from dpinfer_desk.store.tickets import Ticket

ID_LENGTH = 12
"""The characters of a question's id that name it in a sentence."""
WORKER = "worker"
"""The name under which the worker acts."""
_LONGEST_FORMULA = 80  # characters
_AMOUNTS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}

Sentence = Callable[["Context", Event], str]


@dataclass(frozen=True)
class Context:
    """The facts that sentences need beside the event: questions by their ids, and an amount of a table in words."""

    questions: Mapping[str, Ticket]
    amount: Callable[[str, float], str]

    def question(self, event: Event) -> str:
        """Name the question of an event: its id, and analyst, table and formula as far as they are known."""
        ident = str(event.facts["question"])
        ticket = self.questions.get(ident)
        if ticket is None:
            return f"question {ident[:ID_LENGTH]}"
        formula = _formula(ticket.question.formula)
        return f"question {ident[:ID_LENGTH]} of {ticket.by} at {ticket.table} ({formula})"


def sentence_of(event: Event, context: Context) -> str:
    """Return an event as a sentence: who did what to whom, and the reason that was given."""
    try:
        told = f"{_who(event)} {_ACTIONS[event.action].sentence(context, event)}."
    except (KeyError, TypeError, ValueError):  # of another version of dpinfer
        known = {key: value for key, value in event.facts.items() if value not in (None, "")}
        facts = ", ".join(f"{key} {value}" for key, value in known.items())
        return f"{_who(event)}: {event.action} ({facts})."
    reason = event.facts.get("reason") or event.facts.get("although")
    return f"{told} Reason: {reason}" if reason else told


@dataclass(frozen=True)
class _Action:
    """The sentence of an action without its subject, and the kind of its events."""

    kind: str
    sentence: Sentence


def _who(event: Event) -> str:
    return "The worker" if event.who == WORKER else event.who


def _formula(formula: str) -> str:
    if len(formula) <= _LONGEST_FORMULA:
        return formula
    return f"{formula[: _LONGEST_FORMULA - 1]}…"


def _plain(pattern: str) -> Sentence:
    """Return a sentence with the facts of an event in it."""
    return lambda _, event: pattern.format(**event.facts)


def _of_question(pattern: str) -> Sentence:
    """Return a sentence about a question."""
    return lambda context, event: pattern.format(context.question(event))


def _made_desk(_: Context, event: Event) -> str:
    title = event.facts.get("title")
    return f"made the desk {title}" if title else "made the desk"


def _asked(context: Context, event: Event) -> str:
    facts = event.facts
    ticket = context.questions.get(str(facts["question"]))
    keys: Mapping[str, Any] = facts.get("keys") or (ticket.question.keys() if ticket else {})
    by = facts.get("by") or (ticket.by if ticket else "")
    told = f"asked question {facts['question'][:ID_LENGTH]} at {facts['table']}"
    if by and by != event.who:
        told += f" for {by}"
    if keys:
        budget = ", ".join(
            f"{sign} = {keys[key]:g}" for key, sign in _AMOUNTS.items() if key in keys
        )
        told += f" ({_formula(str(keys['formula']))}; {budget})"
    return told + (", which needs approval" if facts["state"] == tickets.WAITING else "")


def _queued(context: Context, event: Event) -> str:
    if event.who == WORKER:
        return f"put {context.question(event)} back in line"
    return f"approved {context.question(event)}"


def _claimed(context: Context, event: Event) -> str:
    return f"started {context.question(event)}; its response time is {event.facts['slot']:g} s"


def _policy(context: Context, event: Event) -> str:
    table = event.facts["table"]
    return f"changed the policy of {table}: {_policy_words(context, event)}"


def _table_added(context: Context, event: Event) -> str:
    table = event.facts["table"]
    return f"added the table {table}: {_policy_words(context, event)}"


def _policy_words(context: Context, event: Event) -> str:
    approval, up_to, shared = event.facts["policy"]
    limit = event.facts.get("up_to") or context.amount(event.facts["table"], up_to)
    approvals = {
        EACH: "every question needs approval",
        ABOVE: f"questions that cost more than {limit} need approval",
        NONE: "no question needs approval",
    }
    readers = "all analysts read all answers" if shared else "analysts read their own answers"
    return f"{approvals[approval]}, and {readers}"


def _person_added(_: Context, event: Event) -> str:
    words = event.facts.get("words")
    return f"added {event.facts['person']} ({words})" if words else f"added {event.facts['person']}"


def _allowance(context: Context, event: Event) -> str:
    table = event.facts["table"]
    amount = event.facts.get("allowance") or context.amount(table, event.facts["amount"])
    return f"set the allowance of {event.facts['person']} at {table} to {amount}"


def _password(_: Context, event: Event) -> str:
    person = event.facts["person"]
    return "set a new password" if person == event.who else f"set the password of {person}"


def _token_made(_: Context, event: Event) -> str:
    scopes = " and ".join(event.facts["scopes"])
    return f"made the token {event.facts['token']}, to {scopes} for {event.facts['days']} days"


QUESTIONS = "questions"
ALLOWANCES = "allowances"
TABLES = "tables"
ACCOUNTS = "accounts"
DESK = "desk"
_ACTIONS = {
    "asked": _Action(QUESTIONS, _asked),
    tickets.QUEUED: _Action(QUESTIONS, _queued),
    tickets.DECLINED: _Action(QUESTIONS, _of_question("declined {}")),
    tickets.WITHDRAWN: _Action(QUESTIONS, _of_question("withdrew {}")),
    tickets.CLAIMED: _Action(QUESTIONS, _claimed),
    tickets.REFUSED: _Action(QUESTIONS, _of_question("refused {}, and nothing was spent")),
    tickets.BOOKED_STATE: _Action(QUESTIONS, _of_question("booked the cost of {}")),
    tickets.ANSWERED: _Action(QUESTIONS, _of_question("answered {}")),
    tickets.LOST_STATE: _Action(QUESTIONS, _of_question("lost the answer to {}, which was paid")),
    "made anew from the ledger": _Action(QUESTIONS, _of_question("restored {} from the ledger")),
    "allowance": _Action(ALLOWANCES, _allowance),
    f"analyst {ACTIVE}": _Action(ALLOWANCES, _plain("resumed the access of {person} to {table}")),
    f"analyst {PAUSED}": _Action(ALLOWANCES, _plain("paused the access of {person} to {table}")),
    f"analyst {REVOKED}": _Action(ALLOWANCES, _plain("revoked the access of {person} to {table}")),
    "a table was added": _Action(TABLES, _table_added),
    PUBLISHED: _Action(TABLES, _plain("published a moment release of {table} ({columns})")),
    "policy": _Action(TABLES, _policy),
    f"table {OPEN}": _Action(TABLES, _plain("resumed the table {table}")),
    f"table {PAUSED_TABLE}": _Action(TABLES, _plain("paused the table {table}")),
    "slot": _Action(
        TABLES, _plain("chose a response time of {seconds:g} s for a question at {table}")
    ),
    "a person was added": _Action(ACCOUNTS, _person_added),
    "an account was opened": _Action(ACCOUNTS, _plain("gave {person} an account as {role}")),
    "an account was closed": _Action(ACCOUNTS, _plain("closed the account of {person}")),
    "a password was set": _Action(ACCOUNTS, _password),
    "an invitation was made": _Action(ACCOUNTS, _plain("invited {person}")),
    "a token was made": _Action(ACCOUNTS, _token_made),
    "a token was revoked": _Action(ACCOUNTS, _plain("revoked the token {token}")),
    "a desk was made": _Action(DESK, _made_desk),
    "an old copy of desk.db was accepted": _Action(
        DESK, _plain("went on with an old copy of desk.db, which lacked {lacks} events")
    ),
}
KINDS = (QUESTIONS, ALLOWANCES, TABLES, ACCOUNTS, DESK)
"""The kinds of events, each of some actions."""


def actions_of(kind: str) -> tuple[str, ...]:
    """Return the actions of a kind of events."""
    return tuple(name for name, action in _ACTIONS.items() if action.kind == kind)
