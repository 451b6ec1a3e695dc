"""Pages of questions: ask, forecast, confirm, wait, the answer; approvals, and what was asked."""

import math
from typing import Any
from uuid import uuid4

from starlette.responses import Response

from dpinfer.asking.questions import AnalystQuestion, question_of
from dpinfer.errors import NO_ANSWER, DpinferError, InputError
from dpinfer.estimators.aliases import HERE
from dpinfer.fit.choose import TARGETS
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, PureDP
from dpinfer.simulate.forecast import Forecast
from dpinfer.views import report as documents
from dpinfer_desk.desk import Desk, QuestionCheck, state_message
from dpinfer_desk.store import tickets
from dpinfer_desk.store.roles import ACTIVE, Analyst
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.web.drawings import NARROW, WIDE, widths
from dpinfer_desk.web.forms import PRODUCTS, SHAPES, QuestionForm, fields_of
from dpinfer_desk.web.http_errors import request_error
from dpinfer_desk.web.requests import DeskRequest, download, page, redirect, standalone_page
from dpinfer_desk.web.schemas import CSV, JSON, SHOWN_STATES, with_amount
from dpinfer_desk.web.steward_pages import SIGNS, Spending, delta_of, label, table_of

MODELS = {
    "logistic": "logistic regression, for two levels",
    "linear": "least squares, for a number",
    "poisson": "Poisson regression, for counts and rates",
    "svm": "support vector classifier",
    "huber": "Huber regression",
    "quantile": "quantile regression",
}
_TIMES = (0.25, 0.5, 1.0, 2.0)
"""Of the budget that was asked for: those in the forecast."""
_LOOK_AGAIN = 3  # seconds after which a page looks whether a question was booked
_SOON = 1  # seconds after which it looks whether a forecast is there


def ask(request: DeskRequest) -> Response:
    """Show the form and, where it is asked for, the forecast under it.  Nothing is spent here."""
    table = table_of(request)
    form = QuestionForm.of(table, request.fields)
    analysts = [one for one in _possible_analysts(request, table) if one.state == ACTIVE]
    parts: dict[str, Any] = {
        "table": table,
        "asked": form,
        "analysts": analysts,
        "shapes": {key: name for key, (name, _) in SHAPES.items()},
        "rows": range(PRODUCTS),
        "models": {loss: MODELS.get(loss, loss) for loss in HERE},
        "targets": TARGETS,
        "total": table.ledger().total,
        "pure": isinstance(table.ledger().total, PureDP),
        "zcdp": isinstance(table.ledger().total, ZCDP),
        "fault": "",
        "ahead": None,
        "soon": False,
        "again": {},
    }
    if request.fields.text("go") != "forecast":
        return page(request, "ask.html.j2", parts)
    try:
        parts["ahead"] = _ahead(request, table, form)
    except DpinferError as fault:
        error = request_error(fault, in_full=request.from_steward)
        return page(request, "ask.html.j2", parts | {"fault": str(error)}, error.status)
    if parts["ahead"] is None:
        # with its address: where that ends in #forecast a browser takes the same one for a position in the page
        sent = {"soon": True, "again": request.fields.texts}
        return page(request, "ask.html.j2", parts | sent, refresh=_SOON)
    return page(request, "ask.html.j2", parts)


def _possible_analysts(request: DeskRequest, table: RegisteredTable) -> list[Analyst]:
    """Return the analysts in whose name one may ask: for a steward all who may, for others themselves."""
    if request.from_steward:
        return request.desk.analysts(table.name)
    return [request.permissions.analyst(table.name)]


def _ahead(
    request: DeskRequest, table: RegisteredTable, form: QuestionForm
) -> dict[str, Any] | None:
    """Return what each budget costs and how wide the intervals will be; None while the forecast is under way."""
    desk = request.desk
    question = form.question(table)
    by = _analyst(request, form.value("by"))
    checked = desk.check(table.name, question, by)
    budgets = [_times(question.budget, factor) for factor in _TIMES]
    ahead: dict[str, Any] = {
        "question": question,
        "check": checked,
        "sign": SIGNS[checked.measure],
        "delta": delta_of(question.budget),
        "offers": [],
        "forecast": None,
        "drawings": [],
        "why": "",
    }
    forecast = None
    if table.records is None:
        ahead["why"] = (
            "The number of records is private, and no guess of it was registered: there is no forecast, only the cost."
        )
    else:
        forecasts = request.services.forecasts
        ident = forecasts.ask(table.name, question, request.identity.person, budgets)
        forecast = forecasts.get(ident, request.identity.person, request.services.patience)
        if forecast is None:
            return None
        ahead["forecast"] = forecast
        ahead["drawings"] = [widths(forecast, size) for size in (WIDE, NARROW)]
    for number, budget in enumerate(budgets):
        offer = desk.check(table.name, question.at(budget), by)
        ahead["offers"].append(_offer(offer, by, forecast, number))
    return ahead


def _offer(
    checked: QuestionCheck, by: str, forecast: Forecast | None, number: int
) -> dict[str, Any]:
    """Return one row of the forecast: a budget, its cost, how wide, and what to do."""
    width = "–"
    if forecast is not None:
        low, high = forecast.range(number)
        width = (
            f"±{low:.2g} to {high:.2g}"
            if math.isfinite(high)
            else "no coefficient is likely to be reported"
        )
    return {
        "label": label(checked.question.budget),
        "cost": checked.cost,
        "left": checked.analyst.left - checked.cost,
        "width": width,
        "allowed": checked.permitted,
        "reason": checked.reason,
        "fields": fields_of(checked.question, by),
        "asked": _TIMES[number] == 1,
    }


def of_file(request: DeskRequest) -> Response:
    """Fill in the form by a question file that somebody sent."""
    table = table_of(request)
    named, question = question_of(request.fields.text("file"))
    if named not in ("", table.name):
        raise InputError(f"this question is for the table {named!r}: open it there")
    query = fields_of(question, _analyst(request, request.fields.text("by"))) | {"go": "forecast"}
    return redirect(request, "t", table.name, "ask", **query)


def confirm(request: DeskRequest) -> Response:
    """Show the last page before a question is asked: what it costs and what is left."""
    table = table_of(request)
    question = QuestionForm.of(table, request.fields).question(table)
    by = _analyst(request, request.fields.text("by"))
    checked = request.desk.check(table.name, question, by)
    return page(
        request,
        "confirm.html.j2",
        {
            "table": table,
            "question": question,
            "label": label(question.budget),
            "delta": delta_of(question.budget),
            "check": checked,
            "sign": SIGNS[checked.measure],
            "facts": asked_facts(question),
            "then": Spending(request.desk.account(table.name)).after(checked.preview.spent),
            "fields": fields_of(question, by),
            "key": uuid4().hex,
            "by": by,
        },
    )


def send(request: DeskRequest) -> Response:
    """Ask a question.  The form has a key of its own, so that sending it twice is asking once."""
    table = table_of(request)
    question = QuestionForm.of(table, request.fields).question(table)
    key = request.fields.text("key")
    if not key:
        raise InputError("the form has no key: open the page of the question again")
    ticket = request.desk.ask(
        table.name,
        question,
        _analyst(request, request.fields.text("by")),
        key,
        again=request.fields.text("again") == "yes",
        anyway=request.fields.text("anyway") == "yes",
    )
    return redirect(request, "q", ticket.id)


def listed(request: DeskRequest) -> Response:
    """List questions, newest first: of a table, by a person or in a state; an analyst's own alone."""
    permissions = request.permissions
    name = request.fields.text("table")
    by = request.fields.text("by")
    state = request.fields.text("state")
    asked = permissions.tickets(name, by, (state,) if state else ())
    return page(
        request,
        "questions.html.j2",
        {
            "tickets": asked[::-1],
            "tables": [one.name for one in permissions.tables()],
            "people": [one.name for one in request.desk.persons()]
            if permissions.unrestricted
            else [],
            "sees_all": permissions.unrestricted,
            "states": SHOWN_STATES,
            "chosen": {"table": name, "by": by, "state": state},
        },
    )


def approvals(request: DeskRequest) -> Response:
    """List the questions that wait for the steward."""
    rows = []
    for ticket in request.desk.tickets(states=(tickets.WAITING,)):
        rows.append(
            {
                "ticket": ticket,
                "label": label(ticket.question.budget) + delta_of(ticket.question.budget),
                "checked": _checked(request.desk, ticket),
                "fields": fields_of(ticket.question, ticket.by) | {"go": "forecast"},
                "facts": asked_facts(ticket.question),
            }
        )
    return page(request, "approvals.html.j2", {"rows": rows, "signs": SIGNS})


def question(request: DeskRequest) -> Response:
    """Show the state of a question.

    Before its public time nothing here depends on the data, so there is no progress bar.
    """
    ticket = _ticket(request)
    decides = request.from_steward and ticket.state == tickets.WAITING
    own = request.from_steward or ticket.by == request.identity.person
    waits = ticket.state in (tickets.QUEUED, tickets.CLAIMED, tickets.BOOKED_STATE)
    refresh = None
    if waits:
        refresh = _LOOK_AGAIN
        if ticket.due is not None:
            away = (ticket.due - request.desk.clock()).total_seconds()
            refresh = max(1, math.ceil(away))
    return page(
        request,
        "question.html.j2",
        {
            "ticket": ticket,
            "told": state_message(ticket),
            "lost": NO_ANSWER,
            "label": label(ticket.question.budget) + delta_of(ticket.question.budget),
            "sign": _sign(request.desk, ticket),
            "facts": asked_facts(ticket.question),
            "fields": fields_of(ticket.question, ticket.by),
            "checked": _checked(request.desk, ticket) if decides else None,
            "decides": decides,
            "open": ticket.state in (tickets.WAITING, tickets.QUEUED) and own,
            "sees_table": any(one.name == ticket.table for one in request.permissions.tables()),
        },
        refresh=refresh,
    )


def report(request: DeskRequest) -> Response:
    """Show the answer as a document."""
    ticket = _ticket(request)
    answer = request.desk.result(ticket.id)
    title = ticket.question.title or request.desk.table(ticket.table).title
    return standalone_page(documents.html(answer, title=title, level=ticket.question.level))


def result(request: DeskRequest) -> Response:
    """Return the answer for programs: `dp.FitResult.from_json` reads it."""
    ticket = _ticket(request)
    answer = request.desk.result(ticket.id)
    return download(answer.to_json(), JSON, f"{ticket.id[:12]}-result.json")


def coefficients(request: DeskRequest) -> Response:
    """Return the coefficients of the answer as a table."""
    ticket = _ticket(request)
    answer = request.desk.result(ticket.id)
    text = documents.csv(answer, level=ticket.question.level)
    return download(text, CSV, f"{ticket.id[:12]}-coefficients.csv")


def approve(request: DeskRequest) -> Response:
    """Approve a question, by formula and cost, never by what the data hold."""
    ticket = request.desk.decide(_ticket(request).id, True, request.fields.text("reason"))
    return redirect(request, "q", ticket.id)


def decline(request: DeskRequest) -> Response:
    """Decline a question with a reason, which the analyst reads."""
    ticket = request.desk.decide(_ticket(request).id, False, request.fields.text("reason"))
    return redirect(request, "q", ticket.id)


def withdraw(request: DeskRequest) -> Response:
    """Take a question back before it is booked."""
    ticket = request.permissions.own(request.name("question"))
    return redirect(request, "q", request.desk.withdraw(ticket.id).id)


def asked_facts(question: AnalystQuestion) -> dict[str, str]:
    """Return what is asked beside formula and budget."""
    names = {
        "loss": "Model",
        "level": "Level",
        "target": "Target",
        "tail": "Tail",
        "far_values": "Far values",
        "exposure": "Exposure",
    }
    names |= {
        "penalty": "Penalty",
        "knee": "Knee",
        "quantile": "Quantile",
        "bandwidth": "Bandwidth",
    }
    keys = question.keys()
    facts = {name: str(keys[key]) for key, name in names.items() if key in keys}
    facts["Model"] = MODELS.get(question.loss, question.loss)
    facts["Level"] = f"{100 * question.level:.4g} %"
    return facts


def _ticket(request: DeskRequest) -> Ticket:
    """Return the question in the address, by its whole id, if the sender may see it."""
    return request.permissions.ticket(request.name("question"))


def _analyst(request: DeskRequest, name: str) -> str:
    """Return who asks: a steward may enter the question of an analyst, everybody else asks himself."""
    if not request.from_steward:
        return request.identity.person
    if not name:
        raise InputError("nobody asks yet: choose the analyst, or give one an allowance first")
    return name


def _checked(desk: Desk, ticket: Ticket) -> QuestionCheck | None:
    """What approving would mean now; None where the question cannot be checked any more."""
    try:
        return desk.check(ticket.table, ticket.question, ticket.by)
    except DpinferError:
        return None


def _sign(desk: Desk, ticket: Ticket) -> str:
    pure = isinstance(desk.table(ticket.table).ledger().total, PureDP)
    return "ε" if pure else "ρ"


def _times(budget: Total, factor: float) -> Total:
    """Return a multiple of a budget, of the same kind; δ stays."""
    amount = budget.rho if isinstance(budget, ZCDP) else budget.epsilon
    return with_amount(budget, amount * factor)
