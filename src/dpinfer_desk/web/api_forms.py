"""What the interface shows of tables, questions, people and tokens: as JSON, and the JSON Schema of it beside it."""

import math
from typing import Any

from dpinfer.privacy import accountant
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer_desk.desk import Desk, QuestionCheck, state_message
from dpinfer_desk.store import roles, tables, tickets
from dpinfer_desk.store.accounts import SCOPES, Token
from dpinfer_desk.store.roles import Analyst
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket

SHOWN_STATES = (
    tickets.WAITING,
    tickets.QUEUED,
    tickets.CLAIMED,
    tickets.BOOKED_STATE,
    *tickets.ENDED,
)
"""Of a question, as they are shown."""
MEASURES = ("rho", "epsilon")
"""What allowances and costs are counted in."""

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_TIME: dict[str, Any] = {"type": "string", "description": "UTC, ISO 8601; empty before it happened"}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


def _object(**keys: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": keys,
        "required": list(keys),
        "additionalProperties": False,
    }


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _named(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


_BUDGET = {
    "type": "object",
    "properties": {"epsilon": _NUMBER, "delta": _NUMBER, "rho": _NUMBER},
    "additionalProperties": False,
}
_ALLOWANCE = _object(
    person=_TEXT,
    amount=_NUMBER,
    spent=_NUMBER,
    left=_NUMBER,
    state={"type": "string", "enum": list(roles.STATES)},
)
SCHEMAS: dict[str, dict[str, Any]] = {
    "AskedQuestion": {
        "type": "object",
        "description": "the keys of a question, as they were sent",
        "properties": {"formula": _TEXT},
        "required": ["formula"],
    },
    "Error": _object(error=_TEXT, remedy=_TEXT, code=_TEXT),
    "Budget": _BUDGET,
    "Allowance": _ALLOWANCE,
    "Allowances": _object(analysts=_list(_named("Allowance")), measure=_TEXT, reserved=_FLAG),
    "TableLine": _object(
        name=_TEXT,
        title=_TEXT,
        unit=_TEXT,
        records=_or_null(_WHOLE),
        state={"type": "string", "enum": [tables.OPEN, tables.PAUSED]},
    ),
    "Tables": _object(tables=_list(_named("TableLine"))),
    "Account": _object(
        total=_named("Budget"),
        measure=_TEXT,
        spent=_or_null(_NUMBER),
        left=_or_null(_NUMBER),
        largest_fit=_or_null(_NUMBER),
        entries=_WHOLE,
        head=_TEXT,
    ),
    "Table": _object(
        name=_TEXT,
        title=_TEXT,
        unit=_TEXT,
        neighbours=_TEXT,
        records=_or_null(_WHOLE),
        counted={"type": "boolean", "description": "whether the number is public, or a guess"},
        state={"type": "string", "enum": [tables.OPEN, tables.PAUSED]},
        schema={"type": "string", "description": "what is public about the columns, as TOML"},
        policy=_object(
            approval={"type": "string", "enum": list(tables.APPROVALS)},
            up_to=_NUMBER,
            shared=_FLAG,
        ),
        slots={**_list(_NUMBER), "description": "seconds from booking to answer that there are"},
        measure={"type": "string", "enum": list(MEASURES)},
        account=_named("Account"),
        allowance={"oneOf": [_named("Allowance"), {"type": "null"}]},
    ),
    "Check": _object(
        names=_list(_TEXT),
        cost=_NUMBER,
        measure={"type": "string", "enum": list(MEASURES)},
        allowed=_FLAG,
        reason=_TEXT,
        left=_object(allowance=_NUMBER, total=_or_null(_NUMBER)),
        waits=_FLAG,
        warning=_TEXT,
        hopeless=_TEXT,
        answered=_list(_TEXT),
    ),
    "Asked": _object(
        id=_TEXT,
        table=_TEXT,
        by=_TEXT,
        key=_TEXT,
        question=_named("AskedQuestion"),
        cost=_NUMBER,
        state={"type": "string", "enum": list(SHOWN_STATES)},
        told={"type": "string", "description": "the state in a sentence"},
        asked=_TIME,
        decided=_TIME,
        reason=_TEXT,
        booked=_TIME,
        slot=_or_null(_NUMBER),
        due={"type": "string", "description": "when the answer is shown; empty before booking"},
        release=_TEXT,
    ),
    "Questions": _object(questions=_list(_named("Asked"))),
    "AnswerLine": _object(
        id=_TEXT,
        table=_TEXT,
        question=_named("AskedQuestion"),
        cost=_NUMBER,
        shown=_TEXT,
        release=_TEXT,
    ),
    "Answers": _object(answers=_list(_named("AnswerLine"))),
    "ForecastState": _object(id=_TEXT, state={"type": "string", "enum": ["running", "done"]}),
    "Forecast": {"type": "object", "description": "dpinfer.simulate.Forecast.from_json reads it"},
    "Result": {
        "type": "object",
        "description": "dp.FitResult.from_json reads it; `reading` is for programs without dpinfer",
        "properties": {"format": {"const": "dpinfer.FitResult"}, "version": _WHOLE},
        "required": ["format", "version"],
    },
    "Token": _object(
        id=_TEXT,
        name=_TEXT,
        scopes=_list({"type": "string", "enum": list(SCOPES)}),
        made=_TIME,
        ends=_TIME,
        seen=_TIME,
    ),
    "Tokens": _object(tokens=_list(_named("Token"))),
    "MadeToken": _object(id=_TEXT, token={"type": "string", "description": "shown this once"}),
    "OpenAPI": {"type": "object", "description": "this document"},
}
"""What comes back, by name."""


def budget_form(total: Total) -> dict[str, float]:
    """A budget by the keys of a question."""
    if isinstance(total, ZCDP):
        return {"rho": total.rho}
    if isinstance(total, ApproxDP):
        return {"epsilon": total.epsilon, "delta": total.delta}
    assert isinstance(total, PureDP)
    return {"epsilon": total.epsilon}


def line_form(table: RegisteredTable) -> dict[str, Any]:
    """A table in one line."""
    schema = table.schema
    return {
        "name": table.name,
        "title": schema.title or table.name,
        "unit": schema.unit.name,
        "records": table.records,
        "state": table.state,
    }


def allowance_form(analyst: Analyst) -> dict[str, Any]:
    """What somebody may spend."""
    return {
        "person": analyst.person,
        "amount": analyst.amount,
        "spent": analyst.spent,
        "left": analyst.left,
        "state": analyst.state,
    }


def account_form(desk: Desk, table: RegisteredTable) -> dict[str, Any]:
    """What was spent of a total, and what is left."""
    account = desk.account(table.name)
    total = account.ledger.total
    return {
        "total": budget_form(total),
        "measure": accountant.measure(total),
        "spent": _finite(account.spent),
        "left": _finite(account.left),
        "largest_fit": _finite(account.largest),
        "entries": len(account.entries),
        "head": account.ledger.verify().head,
    }


def table_form(desk: Desk, table: RegisteredTable, analyst: Analyst | None) -> dict[str, Any]:
    """Everything that is public about a table, and the caller's own allowance."""
    ledger = table.ledger()
    policy = table.policy
    return {
        **line_form(table),
        "neighbours": str(ledger.neighbours),
        "counted": ledger.neighbours.counted,
        "schema": table.schema_text,
        "policy": {"approval": policy.approval, "up_to": policy.up_to, "shared": policy.shared},
        "slots": list(desk.settings.response_times),
        "measure": accountant.counted_in(ledger.total),
        "account": account_form(desk, table),
        "allowance": None if analyst is None else allowance_form(analyst),
    }


def check_form(found: QuestionCheck) -> dict[str, Any]:
    """What asking would mean."""
    return {
        "names": list(found.names),
        "cost": found.cost,
        "measure": found.measure,
        "allowed": found.permitted,
        "reason": found.reason,
        "left": {
            "allowance": found.analyst.left,
            "total": _finite(found.preview.largest),
        },
        "waits": found.waits,
        "warning": found.warning,
        "hopeless": found.low_budget,
        "answered": [ticket.id for ticket in found.answered],
    }


def asked_form(ticket: Ticket) -> dict[str, Any]:
    """A question as its asker and the steward see it."""
    due = ticket.due
    return {
        "id": ticket.id,
        "table": ticket.table,
        "by": ticket.by,
        "key": ticket.key,
        "question": ticket.question.keys(),
        "cost": ticket.cost,
        "state": ticket.state,
        "told": state_message(ticket),
        "asked": ticket.asked,
        "decided": ticket.decided,
        "reason": ticket.reason,
        "booked": ticket.booking_time,
        "slot": ticket.response_time,
        "due": "" if due is None else due.isoformat(),
        "release": ticket.release,
    }


def answer_form(ticket: Ticket) -> dict[str, Any]:
    """An answer as others read it: not who asked, and not by which key."""
    due = ticket.due
    return {
        "id": ticket.id,
        "table": ticket.table,
        "question": ticket.question.keys(),
        "cost": ticket.cost,
        "shown": "" if due is None else due.isoformat(),
        "release": ticket.release,
    }


def token_form(token: Token) -> dict[str, Any]:
    """A token without its secret."""
    return {
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "made": token.made,
        "ends": token.ends,
        "seen": token.last_used,
    }


def _finite(number: float) -> float | None:
    """JSON has no other numbers."""
    return number if math.isfinite(number) else None
