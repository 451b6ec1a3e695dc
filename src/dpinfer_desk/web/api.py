"""The operations of `/api/v1`: what analysts, stewards, auditors and their programs may ask of a desk.

Every operation is one function, declared with who may call it and what may come back; `openapi` makes
the document of the interface from the same declarations, and `api_door` lets calls in.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dpinfer.asking.questions import SECTIONS, AnalystQuestion, question_schema
from dpinfer.asking.rules import Rule, one_of
from dpinfer.asking.spec import RULES
from dpinfer.errors import InputError
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.schema.formula import parse
from dpinfer.views import report as documents
from dpinfer_desk.desk import state_message
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.store import roles, tickets
from dpinfer_desk.store.accounts import ASK, LONGEST, READ, SCOPES
from dpinfer_desk.store.register import OTHER_QUESTION
from dpinfer_desk.store.roles import ANALYST, AUDITOR, ROLES, STEWARD
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import ConflictError, Ticket
from dpinfer_desk.web.api_forms import (
    SHOWN_STATES,
    account_form,
    allowance_form,
    answer_form,
    asked_form,
    check_form,
    line_form,
    table_form,
    token_form,
)
from dpinfer_desk.web.calls import (
    CSV,
    HTML,
    JSON,
    LINES,
    Body,
    Call,
    Operation,
    RefusedCallError,
    Reply,
    told,
)
from dpinfer_desk.worker.forecasts import MAX_BUDGETS

OPERATIONS: list[Operation] = []
"""All of them, in the order of the document."""

_FLAG = one_of(["true", "false"])
_TABLE = Rule("the name of a table", {"type": "string", "minLength": 1, "maxLength": 60})
_REASON = Rule(
    "a text of at most 1000 characters", {"type": "string", "maxLength": 1000}, str.isprintable
)
_NUMBER = RULES["privacy"]["rho"]
_LIMIT = Rule("1 to 1000", {"type": "integer", "minimum": 1, "maximum": 1000})
_OFFSET = Rule("0 or more", {"type": "integer", "minimum": 0, "maximum": 10**9})
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
                    "items": dict(_NUMBER.schema),
                },
            ),
            "half_width": _NUMBER,
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
    "Decision": Body({"approve": RULES["study"]["checkpoint"], "reason": _REASON}, ("approve",)),
    "Access": Body(
        {"amount": _NUMBER, "state": one_of(roles.STATES), "reason": _REASON},
        (),
        {"anyOf": [{"required": ["amount"]}, {"required": ["state"]}]},
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
"""What may be sent, by name."""

Handler = Callable[[Call], Reply]


def operation(
    method: str,
    path: str,
    replies: Mapping[int, str],
    *,
    roles: tuple[str, ...] = ROLES,
    scope: str = READ,
    body: str = "",
    options: Mapping[str, Rule] | None = None,
    refusals: tuple[int, ...] = (),
) -> Callable[[Handler], Handler]:
    """Declare a function as an operation."""

    def declared(handler: Handler) -> Handler:
        OPERATIONS.append(
            Operation(handler, method, path, roles, scope, body, options or {}, replies, refusals)
        )
        return handler

    return declared


@operation("GET", "/health", {200: ""}, roles=())
def health(_: Call) -> Reply:
    """Whether the server answers; it says nothing else."""
    return Reply()


# Tables


@operation("GET", "/tables", {200: "Tables"})
def list_tables(call: Call) -> Reply:
    """The tables that the caller may ask or look after."""
    return told({"tables": [line_form(table) for table in call.sight.tables()]})


@operation("GET", "/tables/{table}", {200: "Table"})
def show_table(call: Call) -> Reply:
    """Everything that is public about a table, its account, and the caller's own allowance."""
    table = _table(call)
    own = None
    if call.signed.role == ANALYST:
        own = call.sight.analyst(table.name)
    return told(table_form(call.desk, table, own))


@operation("GET", "/tables/{table}/account", {200: "Account"}, roles=(STEWARD, AUDITOR))
def show_account(call: Call) -> Reply:
    """What was spent of the total, what is left, and the head of the ledger to be kept elsewhere."""
    return told(account_form(call.desk, _table(call)))


@operation("GET", "/tables/{table}/ledger", {200: LINES}, roles=(STEWARD, AUDITOR))
def export_ledger(call: Call) -> Reply:
    """The ledger as JSON lines with their hashes, to be checked offline."""
    return Reply(200, call.desk.export_ledger(_table(call).name).encode(), LINES)


@operation("GET", "/journal", {200: LINES}, roles=(STEWARD, AUDITOR))
def export_journal(call: Call) -> Reply:
    """Who did what at the desk, as JSON lines with their hashes, to be checked offline."""
    return Reply(200, call.desk.export_journal().encode(), LINES)


@operation("GET", "/tables/{table}/analysts", {200: "Allowances"}, roles=(STEWARD, AUDITOR))
def list_analysts(call: Call) -> Reply:
    """Everybody with an allowance at a table, and what they have spent."""
    table = _table(call)
    found = call.desk.analysts(table.name)
    document = {
        "analysts": [allowance_form(analyst) for analyst in found],
        "measure": call.desk.measure(table.name),
        "reserved": call.desk.reserved(table.name),
    }
    return told(document)


@operation(
    "PUT",
    "/tables/{table}/analysts/{analyst}",
    {200: "Allowance"},
    roles=(STEWARD,),
    scope=ASK,
    body="Access",
)
def set_access(call: Call) -> Reply:
    """Give somebody an allowance at a table, or make him active, paused or revoked there, at once."""
    table = _table(call)
    person = call.names["analyst"]
    if not any(one.name == person for one in call.desk.persons()):
        raise NotFoundError
    if not {"amount", "state"} & set(call.body):
        raise InputError("nothing is to be changed: send amount, state or both")
    known = person in call.desk.register.allowances(table.name)
    if not known and "amount" not in call.body:
        raise InputError("this person has no allowance at this table yet: send amount, too")
    if "amount" in call.body:
        call.desk.allow(table.name, person, float(call.body["amount"]))
    if "state" in call.body:
        reason = str(call.body.get("reason", ""))
        call.desk.set_state(table.name, person, call.body["state"], reason)
    return told(allowance_form(call.desk.analyst(table.name, person)))


# Asking


@operation("POST", "/tables/{table}/check", {200: "Check"}, roles=(ANALYST,), body="Question")
def check_question(call: Call) -> Reply:
    """What asking would mean: coefficients, cost, advice, and whether it would be paid.  Nothing is
    booked.
    """
    found = call.desk.check(_table(call).name, AnalystQuestion.of(call.body), call.signed.person)
    return told(check_form(found))


@operation(
    "POST",
    "/tables/{table}/forecasts",
    {202: "ForecastState"},
    roles=(ANALYST, STEWARD),
    body="Ahead",
    refusals=(429,),
)
def ask_forecast(call: Call) -> Reply:
    """How wide the intervals will be, for up to six budgets, or which budget gives a half-width; from
    made-up records alone.
    """
    table = _table(call)
    given = dict(call.body)
    amounts = given.pop("amounts", ())
    half_width = given.pop("half_width", None)
    coefficient = given.pop("coefficient", None)
    if amounts and half_width is not None:
        raise InputError("amounts and half_width are two questions: send one of them")
    if coefficient is not None and half_width is None:
        raise InputError("coefficient goes with half_width: send both, or none")
    question = AnalystQuestion.of(given)
    model = question.model(table.schema, table.ledger().neighbours)
    parse(model.asked_formula or "", table.schema)  # what is wrong with it is told at once
    ident = call.forecasts.ask(
        table.name,
        replace(question, title=""),
        call.signed.person,
        [_of_amount(question.budget, float(amount)) for amount in amounts],
        half_width=half_width,
        coefficient=coefficient,
    )
    place = f"/api/v1/forecasts/{ident}"
    return told({"id": ident, "state": "running"}, 202, {"location": place, "retry-after": "1"})


@operation(
    "GET",
    "/forecasts/{forecast}",
    {200: "Forecast", 202: "ForecastState"},
    roles=(ANALYST, STEWARD),
)
def show_forecast(call: Call) -> Reply:
    """A forecast; 202 while it is made."""
    ident = call.names["forecast"]
    found = call.forecasts.get(ident, call.signed.person)
    if found is None:
        return told({"id": ident, "state": "running"}, 202, {"retry-after": "1"})
    return Reply(200, found.to_json().encode(), JSON)


@operation(
    "PUT",
    "/tables/{table}/questions/{key}",
    {201: "Asked", 200: "Asked"},
    roles=(ANALYST,),
    scope=ASK,
    body="Question",
    options={"again": _FLAG, "anyway": _FLAG},
    refusals=(409, 503),
)
def ask_question(call: Call) -> Reply:
    """Ask, with a key of the caller's own: however often it is sent, it is asked once.  `again` asks,
    and pays, what was answered or lost before; `anyway` what could print next to nothing.
    """
    table = _table(call)
    question = AnalystQuestion.of(call.body)
    ticket, new = call.desk.submit(
        table.name,
        question,
        call.signed.person,
        call.names["key"],
        again=call.options.get("again") == "true",
        anyway=call.options.get("anyway") == "true",
    )
    if ticket.question != question:
        raise ConflictError(OTHER_QUESTION)
    place = f"/api/v1/questions/{ticket.id}"
    return told(asked_form(ticket), 201 if new else 200, {"location": place})


# Questions and answers


@operation(
    "GET",
    "/questions",
    {200: "Questions"},
    options={
        "table": _TABLE,
        "state": one_of(SHOWN_STATES),
        "limit": _LIMIT,
        "offset": _OFFSET,
    },
)
def list_questions(call: Call) -> Reply:
    """What was asked, newest first: an analyst's own, and everything for stewards and auditors."""
    state = call.options.get("state")
    found = call.sight.tickets(call.options.get("table", ""), "", (state,) if state else ())[::-1]
    first = call.options.get("offset", 0)
    shown = found[first : first + call.options.get("limit", 100)]
    return told({"questions": [asked_form(ticket) for ticket in shown]})


@operation("GET", "/questions/{question}", {200: "Asked"})
def show_question(call: Call) -> Reply:
    """Where a question stands; before its public time nothing here depends on the data."""
    return told(asked_form(_ticket(call)))


@operation(
    "DELETE",
    "/questions/{question}",
    {200: "Asked"},
    roles=(ANALYST,),
    scope=ASK,
    refusals=(409,),
)
def withdraw_question(call: Call) -> Reply:
    """Take a question back before it is booked; that is free."""
    return told(asked_form(call.desk.withdraw(_ticket(call).id)))


@operation(
    "POST",
    "/questions/{question}/decision",
    {200: "Asked"},
    roles=(STEWARD,),
    scope=ASK,
    body="Decision",
    refusals=(409,),
)
def decide_question(call: Call) -> Reply:
    """Approve a question that waits, or decline it with a reason, which the asker reads."""
    reason = str(call.body.get("reason", ""))
    return told(asked_form(call.desk.decide(_ticket(call).id, call.body["approve"], reason)))


@operation("GET", "/questions/{question}/result.json", {200: "Result"}, refusals=(409, 410, 425))
def result_as_json(call: Call) -> Reply:
    """The answer for programs: dp.FitResult.from_json reads it."""
    return Reply(200, _answered(call)[1].to_json().encode(), JSON)


@operation("GET", "/questions/{question}/result.csv", {200: CSV}, refusals=(409, 410, 425))
def result_as_csv(call: Call) -> Reply:
    """The coefficients of the answer as a table."""
    ticket, result = _answered(call)
    return Reply(200, documents.csv(result, level=ticket.question.level).encode(), CSV)


@operation("GET", "/questions/{question}/result.html", {200: HTML}, refusals=(409, 410, 425))
def result_as_html(call: Call) -> Reply:
    """The answer as a document for people."""
    ticket, result = _answered(call)
    title = ticket.question.title or call.desk.table(ticket.table).title
    page = documents.html(result, title=title, level=ticket.question.level)
    return Reply(200, page.encode(), HTML)


@operation("GET", "/tables/{table}/answers", {200: "Answers"})
def list_answers(call: Call) -> Reply:
    """Past answers, free to read: all of them where the table's policy shares them, else the caller's
    own; newest first.
    """
    found = call.sight.answers(_table(call).name)[::-1]
    return told({"answers": [answer_form(ticket) for ticket in found]})


# Tokens


@operation("GET", "/tokens", {200: "Tokens"})
def list_tokens(call: Call) -> Reply:
    """The caller's tokens, without their secrets."""
    found = call.accounts.tokens(call.signed.person)
    return told({"tokens": [token_form(token) for token in found]})


@operation("POST", "/tokens", {201: "MadeToken"}, body="NewToken")
def make_token(call: Call) -> Reply:
    """A new token of the caller.  It may do no more than the one it was asked for with, lasts no longer
    than that, and ends with it.
    """
    scopes = call.body["scopes"]
    if set(scopes) - set(call.signed.scopes):
        raise forbidden()
    ident, secret = call.accounts.make_token(
        call.signed.person, scopes, call.body["days"], call.body.get("name", ""), call.signed.token
    )
    return told({"id": ident, "token": secret}, 201)


@operation("DELETE", "/tokens/{token}", {204: ""})
def revoke_token(call: Call) -> Reply:
    """Take a token of the caller back, at once, with those that were made with it: itself, or one that
    may do no more.
    """
    ident = call.names["token"]
    found = [token for token in call.accounts.tokens(call.signed.person) if token.id == ident]
    if not found:
        raise NotFoundError
    if set(found[0].scopes) - set(call.signed.scopes):
        raise forbidden()
    call.accounts.revoke_token(call.signed.person, ident)
    return Reply(204)


# What is whose


def _table(call: Call) -> RegisteredTable:
    """The table in the address."""
    return call.sight.table(call.names["table"])


def _ticket(call: Call) -> Ticket:
    """The question in the address, if it is the caller's, or all are his to look after."""
    ticket = call.sight.ticket(call.names["question"])
    if not call.sight.unrestricted and ticket.by != call.signed.person:
        raise NotFoundError
    return ticket


def _answered(call: Call) -> tuple[Ticket, Any]:
    """The question in the address and its answer, if the caller may read it: he asked, or looks after
    all, or the table's policy shares answers.
    """
    ticket = call.sight.ticket(call.names["question"])
    if ticket.state in tickets.FREE:
        raise RefusedCallError(
            409, "conflict", f"there will be no answer, as {state_message(ticket)}"
        )
    if not ticket.ended:
        raise RefusedCallError(
            425,
            "too_early",
            f"there is no answer yet, as {state_message(ticket)}",
            _wait(call, ticket),
        )
    return ticket, call.desk.result(ticket.id)


def _wait(call: Call, ticket: Ticket) -> dict[str, str]:
    """When to look again, where that is known: it does not depend on the data."""
    if ticket.due is None:
        return {}
    away = (ticket.due - call.desk.clock()).total_seconds()
    return {"retry-after": str(max(1, math.ceil(away)))}


def forbidden() -> RefusedCallError:
    """What this token may not do, whatever is asked for."""
    return RefusedCallError(
        403, "forbidden", "this token may not do this: use one of another role or scope"
    )


def _of_amount(like: Total, amount: float) -> Total:
    """A budget of the same kind; δ stays."""
    if isinstance(like, ZCDP):
        return ZCDP(amount)
    if isinstance(like, ApproxDP):
        return ApproxDP(amount, like.delta)
    return PureDP(amount)
