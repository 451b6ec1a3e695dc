"""The operations of `/api/v1`: what analysts, stewards, auditors and their programs may ask of a desk.

Every operation is one function, declared with who may call it and what may come back; `openapi` makes
the document of the interface from the same declarations, and `endpoints` calls them.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from starlette.responses import JSONResponse, Response

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.asking.rules import Rule, one_of
from dpinfer.errors import InputError
from dpinfer.moment_release.moment_questions import answer
from dpinfer.moment_release.released_moments import MomentRelease
from dpinfer.schema.formula import parse
from dpinfer.views import report as documents
from dpinfer_desk.desk import state_message
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.store import tickets
from dpinfer_desk.store.accounts import ASK, READ
from dpinfer_desk.store.register import OTHER_QUESTION
from dpinfer_desk.store.roles import ANALYST, AUDITOR, ROLES, STEWARD
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import ConflictError, Ticket, UnconfirmedError
from dpinfer_desk.web.http_errors import RequestError
from dpinfer_desk.web.requests import DeskRequest, standalone_page
from dpinfer_desk.web.schemas import (
    CSV,
    FLAG,
    HTML,
    JSON,
    JSONL,
    LIMIT,
    OFFSET,
    SHOWN_STATES,
    TABLE_NAME,
    account_form,
    allowance_form,
    answer_form,
    asked_form,
    check_form,
    moment_answer_form,
    moment_form,
    summary_form,
    table_form,
    token_form,
    with_amount,
)

Handler = Callable[[DeskRequest], Response]
_REPORT_POLICY = "default-src 'none'; style-src {style}; frame-ancestors 'none'"


@dataclass(frozen=True)
class Operation:
    """An operation of the interface: its address, who may call it, and what may come back.

    ``roles`` may do it, with a token of this ``scope``; without roles anyone may, and needs no
    token.  ``body`` names what is sent, ``options`` are those behind the address.  ``replies`` has
    what each good status brings, ``refusals`` the other statuses that are its own.
    """

    handler: Handler
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
        """Return what it is called."""
        return self.handler.__name__

    @property
    def description(self) -> str:
        """Return what it does."""
        return " ".join((self.handler.__doc__ or "").split())

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Return the names that stand in its address."""
        return tuple(re.findall(r"{(\w+)}", self.path))


OPERATIONS: list[Operation] = []
"""All of them, in the order of the document."""


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
def health(_: DeskRequest) -> Response:
    """Whether the server answers; it says nothing else."""
    return Response()


# Tables


@operation("GET", "/tables", {200: "Tables"})
def list_tables(request: DeskRequest) -> Response:
    """The tables that the caller may ask or look after."""
    return JSONResponse({"tables": [summary_form(table) for table in request.permissions.tables()]})


@operation("GET", "/tables/{table}", {200: "Table"})
def show_table(request: DeskRequest) -> Response:
    """Everything that is public about a table, its account, and the caller's own allowance."""
    table = _table(request)
    own = None
    if request.identity.role == ANALYST:
        own = request.permissions.analyst(table.name)
    return JSONResponse(table_form(request.desk, table, own))


@operation("GET", "/tables/{table}/account", {200: "Account"}, roles=(STEWARD, AUDITOR))
def show_account(request: DeskRequest) -> Response:
    """What was spent of the total, what is left, and the head of the ledger to be kept elsewhere."""
    return JSONResponse(account_form(request.desk.account(_table(request).name)))


@operation("GET", "/tables/{table}/ledger", {200: JSONL}, roles=(STEWARD, AUDITOR))
def export_ledger(request: DeskRequest) -> Response:
    """The ledger as JSON lines with their hashes, to be checked offline."""
    return Response(request.desk.export_ledger(_table(request).name), media_type=JSONL)


@operation("GET", "/journal", {200: JSONL}, roles=(STEWARD, AUDITOR))
def export_journal(request: DeskRequest) -> Response:
    """Who did what at the desk, as JSON lines with their hashes, to be checked offline."""
    return Response(request.desk.export_journal(), media_type=JSONL)


@operation("GET", "/tables/{table}/analysts", {200: "Allowances"}, roles=(STEWARD, AUDITOR))
def list_analysts(request: DeskRequest) -> Response:
    """Everybody with an allowance at a table, and what they have spent."""
    table = _table(request)
    account = request.desk.account(table.name)
    analysts = request.desk.analysts(table.name)
    document = {
        "analysts": [allowance_form(account, analyst) for analyst in analysts],
        "measure": request.desk.measure(table.name),
        "reserved": request.desk.reserved(table.name),
    }
    return JSONResponse(document)


@operation(
    "PUT",
    "/tables/{table}/analysts/{analyst}",
    {200: "Allowance"},
    roles=(STEWARD,),
    scope=ASK,
    body="Access",
)
def set_access(request: DeskRequest) -> Response:
    """Give somebody an allowance at a table, or make him active, paused or revoked there, at once."""
    table = _table(request)
    person = request.name("analyst")
    if not any(one.name == person for one in request.desk.persons()):
        raise NotFoundError
    amount = _amount(request, table)
    if amount is None and "state" not in request.document:
        raise InputError("nothing is to be changed: send allowance, state or both")
    known = person in request.desk.register.allowances(table.name)
    if not known and amount is None:
        raise InputError("this person has no allowance at this table yet: send allowance, too")
    if amount is not None:
        request.desk.allow(table.name, person, amount)
    if "state" in request.document:
        reason = str(request.document.get("reason", ""))
        request.desk.set_state(table.name, person, request.document["state"], reason)
    account = request.desk.account(table.name)
    return JSONResponse(allowance_form(account, request.desk.analyst(table.name, person)))


def _amount(request: DeskRequest, table: RegisteredTable) -> float | None:
    """Return the allowance that was sent, as a number in the measure of the table or as a text."""
    sent = request.document
    if "amount" in sent and "allowance" in sent:
        raise InputError("amount and allowance are two ways to say one thing: send one of them")
    if "allowance" in sent:
        return request.desk.shares(table.name).read_allowance(sent["allowance"])
    return float(sent["amount"]) if "amount" in sent else None


# Asking


@operation("POST", "/tables/{table}/check", {200: "Check"}, roles=(ANALYST,), body="Question")
def check_question(request: DeskRequest) -> Response:
    """What asking would mean: coefficients, cost, advice, and whether it would be paid.  Nothing is
    booked.
    """
    checked = request.desk.check(
        _table(request).name, AnalystQuestion.of(request.document), request.identity.person
    )
    return JSONResponse(check_form(checked))


@operation(
    "POST",
    "/tables/{table}/forecasts",
    {202: "ForecastState"},
    roles=(ANALYST, STEWARD),
    body="Ahead",
    refusals=(429,),
)
def ask_forecast(request: DeskRequest) -> Response:
    """How wide the intervals will be, for up to six budgets, or which budget gives a half-width; from
    made-up records alone.
    """
    table = _table(request)
    given = dict(request.document)
    amounts = given.pop("amounts", ())
    half_width = given.pop("half_width", None)
    coefficient = given.pop("coefficient", None)
    if amounts and half_width is not None:
        raise InputError("amounts and half_width are two questions: send one of them")
    if coefficient is not None and half_width is None:
        raise InputError("coefficient goes with half_width: send both, or none")
    question = AnalystQuestion.of(given)
    model = question.model(table.schema, table.ledger().neighbours)
    parse(model.asked_formula or "", table.schema)  # a fault in it is an error of this request
    ident = request.services.forecasts.ask(
        table.name,
        replace(question, title=""),
        request.identity.person,
        [with_amount(question.budget, float(amount)) for amount in amounts],
        half_width=half_width,
        coefficient=coefficient,
    )
    location = f"/api/v1/forecasts/{ident}"
    return JSONResponse(
        {"id": ident, "state": "running"}, 202, {"location": location, "retry-after": "1"}
    )


@operation(
    "GET",
    "/forecasts/{forecast}",
    {200: "Forecast", 202: "ForecastState"},
    roles=(ANALYST, STEWARD),
)
def show_forecast(request: DeskRequest) -> Response:
    """A forecast; 202 while it is made."""
    ident = request.name("forecast")
    forecast = request.services.forecasts.get(ident, request.identity.person)
    if forecast is None:
        return JSONResponse({"id": ident, "state": "running"}, 202, {"retry-after": "1"})
    return Response(forecast.to_json(), media_type=JSON)


@operation(
    "PUT",
    "/tables/{table}/questions/{key}",
    {201: "Asked", 200: "Asked"},
    roles=(ANALYST,),
    scope=ASK,
    body="Question",
    options={"again": FLAG, "anyway": FLAG},
    refusals=(409, 503),
)
def ask_question(request: DeskRequest) -> Response:
    """Ask, with a key of the caller's own: however often it is sent, it is asked once.  `again` asks,
    and pays, what was answered or lost before; `anyway` what could print next to nothing.
    """
    table = _table(request)
    question = AnalystQuestion.of(request.document)
    try:
        ticket, new = request.desk.submit(
            table.name,
            question,
            request.identity.person,
            request.name("key"),
            again=request.options.get("again") == "true",
            anyway=request.options.get("anyway") == "true",
        )
    except UnconfirmedError as fault:
        raise ConflictError(f"{fault} by the option {fault.option!r}") from None
    if ticket.question != question:
        raise ConflictError(OTHER_QUESTION)
    location = f"/api/v1/questions/{ticket.id}"
    return JSONResponse(asked_form(ticket), 201 if new else 200, {"location": location})


# Questions and answers


@operation(
    "GET",
    "/questions",
    {200: "Questions"},
    options={
        "table": TABLE_NAME,
        "state": one_of(SHOWN_STATES),
        "limit": LIMIT,
        "offset": OFFSET,
    },
)
def list_questions(request: DeskRequest) -> Response:
    """What was asked, newest first: an analyst's own, and everything for stewards and auditors."""
    state = request.options.get("state")
    asked = request.permissions.tickets(
        request.options.get("table", ""), "", (state,) if state else ()
    )[::-1]
    first = request.options.get("offset", 0)
    shown = asked[first : first + request.options.get("limit", 100)]
    return JSONResponse({"questions": [asked_form(ticket) for ticket in shown]})


@operation("GET", "/questions/{question}", {200: "Asked"})
def show_question(request: DeskRequest) -> Response:
    """Where a question stands; before its public time nothing here depends on the data."""
    return JSONResponse(asked_form(_ticket(request)))


@operation(
    "DELETE",
    "/questions/{question}",
    {200: "Asked"},
    roles=(ANALYST,),
    scope=ASK,
    refusals=(409,),
)
def withdraw_question(request: DeskRequest) -> Response:
    """Take a question back before it is booked; that is free."""
    return JSONResponse(asked_form(request.desk.withdraw(_ticket(request).id)))


@operation(
    "POST",
    "/questions/{question}/decision",
    {200: "Asked"},
    roles=(STEWARD,),
    scope=ASK,
    body="Decision",
    refusals=(409,),
)
def decide_question(request: DeskRequest) -> Response:
    """Approve a question that waits, or decline it with a reason, which the asker reads."""
    reason = str(request.document.get("reason", ""))
    return JSONResponse(
        asked_form(request.desk.decide(_ticket(request).id, request.document["approve"], reason))
    )


@operation("GET", "/questions/{question}/result.json", {200: "Result"}, refusals=(409, 410, 425))
def result_as_json(request: DeskRequest) -> Response:
    """The answer for programs: dp.FitResult.from_json reads it."""
    return Response(_answered(request)[1].to_json(), media_type=JSON)


@operation("GET", "/questions/{question}/result.csv", {200: CSV}, refusals=(409, 410, 425))
def result_as_csv(request: DeskRequest) -> Response:
    """The coefficients of the answer as a table."""
    ticket, result = _answered(request)
    return Response(documents.csv(result, level=ticket.question.level), media_type=CSV)


@operation("GET", "/questions/{question}/result.html", {200: HTML}, refusals=(409, 410, 425))
def result_as_html(request: DeskRequest) -> Response:
    """The answer as a document for people."""
    ticket, result = _answered(request)
    title = ticket.question.title or request.desk.table(ticket.table).title
    page = documents.html(result, title=title, level=ticket.question.level)
    return standalone_page(page, _REPORT_POLICY)


@operation("GET", "/tables/{table}/answers", {200: "Answers"})
def list_answers(request: DeskRequest) -> Response:
    """Past answers, free to read: all of them where the table's policy shares them, else the caller's
    own; newest first.
    """
    answers = request.permissions.answers(_table(request).name)[::-1]
    return JSONResponse({"answers": [answer_form(ticket) for ticket in answers]})


# Moment releases


@operation("GET", "/tables/{table}/releases", {200: "MomentReleases"})
def list_moment_releases(request: DeskRequest) -> Response:
    """The published moment releases of a table, newest first: every linear model of their columns is
    free.
    """
    found = request.desk.moment_releases(_table(request).name)
    return JSONResponse({"releases": [moment_form(release) for release in found]})


@operation("GET", "/tables/{table}/releases/{release}", {200: "MomentRelease"})
def show_moment_release(request: DeskRequest) -> Response:
    """The file of a moment release: dp.MomentRelease.from_json reads it, and answers without the desk."""
    return Response(_moment_release(request).to_json(), media_type=JSON)


@operation(
    "POST",
    "/tables/{table}/releases/{release}/answers",
    {200: "MomentAnswer"},
    body="MomentQuestion",
)
def ask_moment_release(request: DeskRequest) -> Response:
    """A regression, mean, covariance, correlation or R² from a moment release: at once, and at no
    cost.
    """
    question = str(request.document["question"])
    level = float(request.document.get("level", 0.95))
    found = answer(_moment_release(request), question, level)
    return JSONResponse(moment_answer_form(question, found))


# Tokens


@operation("GET", "/tokens", {200: "Tokens"})
def list_tokens(request: DeskRequest) -> Response:
    """The caller's tokens, without their secrets."""
    tokens = request.accounts.tokens(request.identity.person)
    return JSONResponse({"tokens": [token_form(token) for token in tokens]})


@operation("POST", "/tokens", {201: "MadeToken"}, body="NewToken")
def make_token(request: DeskRequest) -> Response:
    """A new token of the caller.  It may do no more than the one it was asked for with, lasts no longer
    than that, and ends with it.
    """
    scopes = request.document["scopes"]
    if set(scopes) - set(request.identity.scopes):
        raise forbidden()
    ident, secret = request.accounts.make_token(
        request.identity.person,
        scopes,
        request.document["days"],
        request.document.get("name", ""),
        request.identity.token,
    )
    return JSONResponse({"id": ident, "token": secret}, 201)


@operation("DELETE", "/tokens/{token}", {204: ""})
def revoke_token(request: DeskRequest) -> Response:
    """Take a token of the caller back, at once, with those that were made with it: itself, or one that
    may do no more.
    """
    ident = request.name("token")
    tokens = [
        token for token in request.accounts.tokens(request.identity.person) if token.id == ident
    ]
    if not tokens:
        raise NotFoundError
    if set(tokens[0].scopes) - set(request.identity.scopes):
        raise forbidden()
    request.accounts.revoke_token(request.identity.person, ident)
    return Response(status_code=204)


# What is whose


def _table(request: DeskRequest) -> RegisteredTable:
    """The table in the address."""
    return request.permissions.table(request.name("table"))


def _ticket(request: DeskRequest) -> Ticket:
    """The question in the address, if it is the caller's, or all are his to look after."""
    ticket = request.permissions.ticket(request.name("question"))
    if not request.permissions.unrestricted and ticket.by != request.identity.person:
        raise NotFoundError
    return ticket


def _answered(request: DeskRequest) -> tuple[Ticket, Any]:
    """The question in the address and its answer, if the caller may read it: he asked, or looks after
    all, or the table's policy shares answers.
    """
    ticket = request.permissions.ticket(request.name("question"))
    if ticket.state in tickets.FREE:
        raise RequestError(409, "conflict", f"there will be no answer, as {state_message(ticket)}")
    if not ticket.ended:
        raise RequestError(
            425,
            "too_early",
            f"there is no answer yet, as {state_message(ticket)}",
            _wait(request, ticket),
        )
    return ticket, request.desk.result(ticket.id)


def _moment_release(request: DeskRequest) -> MomentRelease:
    """The moment release in the address, if the caller may see its table."""
    return request.permissions.moment_release(request.name("table"), request.name("release"))


def _wait(request: DeskRequest, ticket: Ticket) -> dict[str, str]:
    """When to look again, where that is known: it does not depend on the data."""
    if ticket.due is None:
        return {}
    away = (ticket.due - request.desk.clock()).total_seconds()
    return {"retry-after": str(max(1, math.ceil(away)))}


def forbidden() -> RequestError:
    """What this token may not do, whatever is asked for."""
    return RequestError(
        403, "forbidden", "this token may not do this: use one of another role or scope"
    )
