"""What programs send and what comes back: JSON and its JSON Schema, side by side."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpinfer.asking.questions import SECTIONS, question_schema
from dpinfer.asking.rules import Rule, one_of
from dpinfer.asking.spec import RULES, check, check_name
from dpinfer.errors import InputError
from dpinfer.moment_release.moment_questions import FORMS
from dpinfer.moment_release.released_moments import MomentFigure, MomentRelease
from dpinfer.privacy import accountant
from dpinfer.privacy.account import Account
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, NoPrivacy, PureDP
from dpinfer.result.result import FitResult
from dpinfer_desk.desk import Desk, QuestionCheck, state_message
from dpinfer_desk.store import roles, tables, tickets
from dpinfer_desk.store.accounts import LONGEST, SCOPES, Token
from dpinfer_desk.store.roles import Analyst
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.worker.forecasts import MAX_BUDGETS

JSON = "application/json"
JSONL = "application/jsonl"
CSV = "text/csv"
HTML = "text/html"

NAMES = {
    "table": r"[a-z0-9][a-z0-9._-]{0,59}",
    "key": r"[A-Za-z0-9_-]{8,100}",
    "question": r"[0-9a-f]{32}",
    "forecast": r"[0-9a-f]{32}",
    "analyst": r"[^/]{1,100}",
    "token": r"[0-9a-f]{12}",
    "release": r"[0-9a-f]{32}",
}
"""What may stand in an address, as regular expressions; what does not match is nowhere."""
SHOWN_STATES = (
    tickets.WAITING,
    tickets.QUEUED,
    tickets.CLAIMED,
    tickets.BOOKED_STATE,
    *tickets.ENDED,
)
"""The states of a question, as they are shown."""
MEASURES = ("rho", "epsilon")
"""What allowances and costs are counted in."""

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_INTEGER: dict[str, Any] = {"type": "integer"}
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
_SHARE = {"type": "number", "description": "of the total, 1 for all of it"}
_ALLOWANCE = _object(
    person=_TEXT,
    amount=_NUMBER,
    spent=_NUMBER,
    left=_NUMBER,
    share=_SHARE,
    share_spent=_SHARE,
    largest_fit={"type": "number", "description": "the most that a question may be asked at"},
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
        records=_or_null(_INTEGER),
        state={"type": "string", "enum": [tables.OPEN, tables.PAUSED]},
    ),
    "Tables": _object(tables=_list(_named("TableLine"))),
    "Account": _object(
        total=_named("Budget"),
        measure=_TEXT,
        share=_SHARE,
        spent=_or_null(_NUMBER),
        left=_or_null(_NUMBER),
        largest_fit=_or_null(_NUMBER),
        entries=_INTEGER,
        head=_TEXT,
    ),
    "Table": _object(
        name=_TEXT,
        title=_TEXT,
        unit=_TEXT,
        neighbours=_TEXT,
        records=_or_null(_INTEGER),
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
        "properties": {"format": {"const": "dpinfer.FitResult"}, "version": _INTEGER},
        "required": ["format", "version"],
    },
    "MomentReleases": _object(releases=_list(_named("MomentLine"))),
    "MomentLine": _object(
        release=_TEXT,
        columns=_list(_TEXT),
        declared={"type": "string", "description": "the columns as a formula's right side"},
        budget=_named("Budget"),
        price=_NUMBER,
        effective=_NUMBER,
        clipped={"type": "object", "additionalProperties": _list(_NUMBER)},
        notes=_list(_TEXT),
    ),
    "MomentRelease": {"type": "object", "description": "dp.MomentRelease.from_json reads it"},
    "MomentAnswer": _object(
        question=_TEXT,
        result={"oneOf": [_named("Result"), {"type": "null"}]},
        figure={"oneOf": [_named("Figure"), {"type": "null"}]},
    ),
    "Figure": _object(
        name=_TEXT,
        estimate=_or_null(_NUMBER),
        std_error=_or_null(_NUMBER),
        low=_or_null(_NUMBER),
        high=_or_null(_NUMBER),
        status=_TEXT,
        clipped_to={"type": "object", "additionalProperties": _list(_NUMBER)},
    ),
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
"""The JSON Schema of what comes back, by name."""


@dataclass(frozen=True)
class Body:
    """The rules of the body of a request: its keys, and those that have to be there."""

    rules: Mapping[str, Rule]
    required: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """Return the rules as JSON Schema."""
        keys = {
            key: {**rule.schema, "description": rule.description}
            for key, rule in self.rules.items()
        }
        document = {"type": "object", "properties": keys, "additionalProperties": False}
        if self.required:
            document["required"] = list(self.required)
        return document | dict(self.more)

    def checked(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what was sent if it follows the rules; raise `InputError` if not."""
        for key, value in given.items():
            check_name("what was sent", "key", key, self.rules)
            check(key, value, self.rules[key])
        for key in self.required:
            if key not in given:
                raise InputError(f"what was sent lacks {key}: add it")
        return given


MAX_QUESTION = 4000
"""Characters of a question of a moment release."""
FLAG = one_of(["true", "false"])
TABLE_NAME = Rule("the name of a table", {"type": "string", "minLength": 1, "maxLength": 60})
_REASON = Rule(
    "a text of at most 1000 characters", {"type": "string", "maxLength": 1000}, str.isprintable
)
_AMOUNT = RULES["privacy"]["rho"]
LIMIT = Rule("1 to 1000", {"type": "integer", "minimum": 1, "maximum": 1000})
OFFSET = Rule("0 or more", {"type": "integer", "minimum": 0, "maximum": 10**9})
_QUESTION = {key: RULES[section][key] for key, section in SECTIONS.items()}
_SCOPE_NAMES = {"type": "string", "enum": list(SCOPES)}
BODIES: dict[str, Body] = {
    "Question": Body(
        _QUESTION,
        ("formula",),
        question_schema(),
    ),
    "Ahead": Body(
        {
            **_QUESTION,
            "amounts": Rule(
                f"1 to {MAX_BUDGETS} numbers above 0: budgets of the kind that the question has",
                {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_BUDGETS,
                    "items": dict(_AMOUNT.schema),
                },
            ),
            "half_width": _AMOUNT,
            "coefficient": Rule(
                "the name of a coefficient", {"type": "string", "minLength": 1, "maxLength": 1000}
            ),
        },
        ("formula",),
        {
            "oneOf": [{"required": ["epsilon"]}, {"required": ["rho"]}],
            "dependentRequired": {"delta": ["epsilon"], "coefficient": ["half_width"]},
        },
    ),
    "MomentQuestion": Body(
        {
            "question": Rule(
                f"a text of at most {MAX_QUESTION} characters, such as {FORMS[0]} or {FORMS[1]}",
                {"type": "string", "minLength": 1, "maxLength": MAX_QUESTION},
            ),
            "level": RULES["output"]["level"],
        },
        ("question",),
    ),
    "Decision": Body({"approve": RULES["study"]["checkpoint"], "reason": _REASON}, ("approve",)),
    "Access": Body(
        {
            "amount": _AMOUNT,
            "allowance": Rule(
                "an allowance as people type it, such as 10 % or ε = 0.5",
                {"type": "string", "minLength": 1, "maxLength": 40},
            ),
            "state": one_of(roles.STATES),
            "reason": _REASON,
        },
        (),
        {
            "anyOf": [
                {"required": ["amount"]},
                {"required": ["allowance"]},
                {"required": ["state"]},
            ]
        },
    ),
    "NewToken": Body(
        {
            "name": Rule(
                "a text of at most 100 characters",
                {"type": "string", "maxLength": 100},
                str.isprintable,
            ),
            "scopes": Rule(
                f"some of {', '.join(SCOPES)}",
                {"type": "array", "minItems": 1, "maxItems": len(SCOPES), "items": _SCOPE_NAMES},
            ),
            "days": Rule(f"1 to {LONGEST}", {"type": "integer", "minimum": 1, "maximum": LONGEST}),
        },
        ("scopes", "days"),
    ),
}
"""The bodies that may be sent, by name."""


def budget_form(total: Total) -> dict[str, float]:
    """Return a budget by the keys of a question."""
    if isinstance(total, ZCDP):
        return {"rho": total.rho}
    if isinstance(total, ApproxDP):
        return {"epsilon": total.epsilon, "delta": total.delta}
    assert isinstance(total, PureDP)
    return {"epsilon": total.epsilon}


def summary_form(table: RegisteredTable) -> dict[str, Any]:
    """Return a table in the list of tables."""
    schema = table.schema
    return {
        "name": table.name,
        "title": schema.title or table.name,
        "unit": schema.unit.name,
        "records": table.records,
        "state": table.state,
    }


def allowance_form(account: Account, analyst: Analyst) -> dict[str, Any]:
    """Return what an analyst may spend, in the measure of allowances and as shares of the total."""
    shares = account.shares
    return {
        "person": analyst.person,
        "amount": analyst.amount,
        "spent": analyst.spent,
        "left": analyst.left,
        "share": shares.of(analyst.amount),
        "share_spent": shares.of(analyst.spent),
        "largest_fit": min(shares.epsilon(analyst.left), account.largest),
        "state": analyst.state,
    }


def account_form(account: Account) -> dict[str, Any]:
    """Return what was spent of a total, and what is left."""
    total = account.ledger.total
    return {
        "total": budget_form(total),
        "measure": accountant.measure(total),
        "share": account.share,
        "spent": _finite(account.spent),
        "left": _finite(account.left),
        "largest_fit": _finite(account.largest),
        "entries": len(account.entries),
        "head": account.ledger.verify().head,
    }


def table_form(desk: Desk, table: RegisteredTable, analyst: Analyst | None) -> dict[str, Any]:
    """Return everything that is public about a table, and the caller's own allowance."""
    account = desk.account(table.name)
    ledger = account.ledger
    policy = table.policy
    return {
        **summary_form(table),
        "neighbours": str(ledger.neighbours),
        "counted": ledger.neighbours.counted,
        "schema": table.schema_text,
        "policy": {"approval": policy.approval, "up_to": policy.up_to, "shared": policy.shared},
        "slots": list(desk.settings.response_times),
        "measure": accountant.counted_in(ledger.total),
        "account": account_form(account),
        "allowance": None if analyst is None else allowance_form(account, analyst),
    }


def check_form(checked: QuestionCheck) -> dict[str, Any]:
    """Return what asking would mean."""
    return {
        "names": list(checked.names),
        "cost": checked.cost,
        "measure": checked.measure,
        "allowed": checked.permitted,
        "reason": checked.reason,
        "left": {
            "allowance": checked.analyst.left,
            "total": _finite(checked.preview.largest),
        },
        "waits": checked.waits,
        "warning": checked.warning,
        "hopeless": checked.low_budget,
        "answered": [ticket.id for ticket in checked.answered],
    }


def asked_form(ticket: Ticket) -> dict[str, Any]:
    """Return a question as its analyst and the steward see it."""
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
    """Return an answer as others read it: not who asked, and not by which key."""
    due = ticket.due
    return {
        "id": ticket.id,
        "table": ticket.table,
        "question": ticket.question.keys(),
        "cost": ticket.cost,
        "shown": "" if due is None else due.isoformat(),
        "release": ticket.release,
    }


def moment_form(release: MomentRelease) -> dict[str, Any]:
    """Return what a published moment release is."""
    budget = release.privacy.budget
    assert not isinstance(budget, NoPrivacy)
    return {
        "release": release.privacy.release,
        "columns": list(release.names[1:]),
        "declared": release.declared,
        "budget": budget_form(budget),
        "price": release.price,
        "effective": release.geometry.effective,
        "clipped": {name: list(ends) for name, ends in release.clipped.items()},
        "notes": release.notes(),
    }


def moment_answer_form(question: str, answer: FitResult | MomentFigure) -> dict[str, Any]:
    """Return the answer of a moment release: a result as `result.json` has it, or a figure."""
    if isinstance(answer, FitResult):
        return {"question": question, "result": json.loads(answer.to_json()), "figure": None}
    figure = {
        "name": answer.name,
        "estimate": _finite(answer.estimate),
        "std_error": _finite(answer.std_error),
        "low": _finite(answer.low),
        "high": _finite(answer.high),
        "status": answer.status,
        "clipped_to": {name: list(ends) for name, ends in answer.clipped_to.items()},
    }
    return {"question": question, "result": None, "figure": figure}


def token_form(token: Token) -> dict[str, Any]:
    """Return a token without its secret."""
    return {
        "id": token.id,
        "name": token.name,
        "scopes": list(token.scopes),
        "made": token.made,
        "ends": token.ends,
        "seen": token.last_used,
    }


def with_amount(budget: Total, amount: float) -> Total:
    """Return a budget of the same kind with another ε or ρ; δ stays."""
    if isinstance(budget, ZCDP):
        return ZCDP(amount)
    if isinstance(budget, ApproxDP):
        return ApproxDP(amount, budget.delta)
    return PureDP(amount)


def _finite(number: float) -> float | None:
    """Return a finite number, or None: JSON has no other numbers."""
    return number if math.isfinite(number) else None
