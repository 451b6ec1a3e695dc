"""Pages of questions: ask, forecast, confirm, wait, the answer; approvals, and what was asked."""

import math
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from markupsafe import Markup
from starlette.responses import Response

from dpinfer.asking.questions import AnalystQuestion, question_of
from dpinfer.errors import NO_ANSWER, DpinferError, InputError, LedgerError
from dpinfer.estimators.aliases import HERE
from dpinfer.fit.choose import TARGETS
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP, power_of_ten
from dpinfer.result.estimates import PEEK
from dpinfer.simulate.forecast import Forecast
from dpinfer.views import report as documents
from dpinfer.views.promise import about_one, suspicion, suspicion_picture
from dpinfer_desk.desk import NO_REASON, Desk, OpenQuestions, QuestionCheck, state_message
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.store import tickets
from dpinfer_desk.store.roles import ACTIVE, Analyst
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import ConflictError, RefusedError, Ticket, UnconfirmedError
from dpinfer_desk.web.drawings import NARROW, WIDE, Widths, widths
from dpinfer_desk.web.forms import (
    PRODUCTS,
    SHAPES,
    FormError,
    QuestionForm,
    fields_of,
    offered_presets,
)
from dpinfer_desk.web.http_errors import request_error
from dpinfer_desk.web.question_code import has_key, in_python, in_r
from dpinfer_desk.web.requests import (
    DeskRequest,
    FormFields,
    address,
    download,
    page,
    redirect,
    standalone_page,
    state_name,
)
from dpinfer_desk.web.schemas import CSV, HTML, JSON, SHOWN_STATES, with_amount
from dpinfer_desk.web.steward_pages import label, table_of

MODELS = {
    "logistic": "logistic regression, for two levels",
    "linear": "least squares, for a number",
    "poisson": "Poisson regression, for counts and rates",
    "hazard": "hazard regression, for survival times",
    "svm": "support vector classifier",
    "huber": "Huber regression",
    "quantile": "quantile regression",
}
PNG = "image/png"
_TIMES = (0.25, 0.5, 1.0, 2.0)
"""Of the budget that was asked for: those in the forecast."""
_LOOK_AGAIN = 3  # seconds after which a page looks whether a question was booked
_LOOK_AGAIN_FOR_STEWARD = 15  # seconds after which it looks whether a question was decided
_NO_NUMBER = "The number of records is private, and no guess of it was registered: there is no forecast, only the cost."


def ask(request: DeskRequest) -> Response:
    """Show the form and, where it is asked for, the forecast under it.  Nothing is spent here."""
    table = table_of(request)
    form = QuestionForm.of(table, request.fields)
    if request.fields.text("go") != "forecast":
        return _form_page(request, table, form)
    try:
        ahead = _ahead(request, table, form)
    except DpinferError as fault:
        return _form_page(request, table, form, fault=fault)
    return _form_page(request, table, form, ahead=ahead)


def _form_page(
    request: DeskRequest,
    table: RegisteredTable,
    form: QuestionForm,
    *,
    ahead: "Ahead | None" = None,
    fault: DpinferError | None = None,
    file: str = "",
) -> Response:
    """Show the form as it was filled in, with a forecast or with what is wrong at its fields.

    ``file`` is the text of a question file in which something is wrong.
    """
    total = table.ledger().total
    error = None if fault is None else request_error(fault, in_full=request.from_steward)
    parts: dict[str, Any] = {
        "table": table,
        "asked": form if fault is None else form.with_faults(fault),
        "analysts": [one for one in _possible_analysts(request, table) if one.state == ACTIVE],
        "shapes": {key: name for key, (name, _) in SHAPES.items()},
        "rows": range(PRODUCTS),
        "models": {loss: MODELS.get(loss, loss) for loss in HERE},
        "targets": TARGETS,
        "shares": table.ledger().shares,
        "total": total,
        "pure": isinstance(total, PureDP),
        "zcdp": isinstance(total, ZCDP),
        "fault": "" if error is None else str(error),
        "ahead": ahead,
        "again": _other_address(request),
        "file": file,
        "open": None if request.from_steward else _open_questions(request, table),
        "presets": {
            epsilon: (name, suspicion(budget).counts[1])
            for epsilon, (name, budget) in offered_presets(total).items()
        },
        "meaning": _meaning(table, form.budget()),
        "together": suspicion(total).counts[1],
    }
    return page(request, "ask.html.j2", parts, 200 if error is None else error.status)


def _other_address(request: DeskRequest) -> dict[str, Any]:
    """Return the fields of this request, with one changed that nothing reads.

    A browser follows a link to the address of its own page and a place on it without asking the server.
    """
    return {**request.fields.texts, "look": [] if request.fields.text("look") else ["again"]}


def _open_questions(request: DeskRequest, table: RegisteredTable) -> OpenQuestions:
    return request.desk.open_questions(table.name, request.identity.person)


def _meaning(table: RegisteredTable, budget: Total | None) -> tuple[str, str] | None:
    """Return what a budget means for one unit: a sentence, and a picture as HTML."""
    if budget is None:
        return None
    found = suspicion(budget)
    about = about_one(table.schema.unit.name, table.ledger().neighbours)
    return found.sentence(about), Markup(suspicion_picture(found))


def _possible_analysts(request: DeskRequest, table: RegisteredTable) -> list[Analyst]:
    """Return the analysts in whose name one may ask: for a steward all who may, for others themselves."""
    if request.from_steward:
        return request.desk.analysts(table.name)
    return [request.permissions.analyst(table.name)]


@dataclass(frozen=True)
class Ahead:
    """The forecasts and costs that are shown before a question is asked.

    ``offers`` are the rows of the table, one per budget.  ``progress`` is that of a forecast which is
    under way; then there is nothing else yet.
    """

    question: AnalystQuestion
    check: QuestionCheck
    offers: tuple[dict[str, Any], ...] = ()
    forecast: Forecast | None = None
    drawings: tuple[Widths, ...] = ()
    why: str = ""
    progress: tuple[int, int] | None = None

    @property
    def delta(self) -> str:
        """δ of an (ε, δ) budget, in words."""
        return _delta_of(self.question.budget)


def _ahead(request: DeskRequest, table: RegisteredTable, form: QuestionForm) -> Ahead:
    """Return what each budget costs and how wide the intervals will be, or how far the forecast is."""
    desk = request.desk
    question = form.question(table)
    by = _analyst(request, form.value("by"))
    ahead = Ahead(question, desk.check(table.name, question, by))
    budgets = [_times(question.budget, factor) for factor in _TIMES]
    if table.records is None:
        ahead = replace(ahead, why=_NO_NUMBER)
    else:
        forecasts = request.services.forecasts
        person = request.identity.person
        ident = forecasts.ask(table.name, question, person, budgets)
        # The script looks again by itself, and shows how far the forecast is.
        patience = 0.0 if request.fields.text("script") else request.services.patience
        forecast = forecasts.get(ident, person, patience)
        if forecast is None:
            return replace(ahead, progress=forecasts.progress(ident, person))
        drawings = tuple(widths(forecast, size) for size in (WIDE, NARROW))
        ahead = replace(ahead, forecast=forecast, drawings=drawings)
    offers = []
    for number, budget in enumerate(budgets):
        offer = desk.check(table.name, question.at(budget), by)
        offers.append(_offer(offer, by, ahead.forecast, number))
    return replace(ahead, offers=tuple(offers))


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
    """Fill in the form by a question file that somebody sent; one that is wrong comes back to be corrected."""
    table = table_of(request)
    text = request.fields.exact("file")
    by = request.fields.text("by")
    try:
        named, question = question_of(text)
        if named not in ("", table.name):
            raise InputError(f"this question is for the table {named!r}: open it there")
        query = fields_of(question, _analyst(request, by)) | {"go": "forecast"}
    except DpinferError as fault:
        form = QuestionForm.of(table, FormFields({"by": (by,)}))
        told = FormError({"file": str(fault)})
        return _form_page(request, table, form, fault=told, file=text)
    return redirect(request, "t", table.name, "ask", **query)


def confirm(request: DeskRequest) -> Response:
    """Show the last page before a question is asked: what it costs and what is left."""
    table = table_of(request)
    form = QuestionForm.of(table, request.fields)
    try:
        return _confirmation(request, table, form.question(table))
    except (NotFoundError, LedgerError):
        raise
    except DpinferError as fault:
        return _form_page(request, table, form, fault=fault)


def _confirmation(
    request: DeskRequest,
    table: RegisteredTable,
    question: AnalystQuestion,
    fault: DpinferError | None = None,
) -> Response:
    """Show what a question costs, and what was wrong when it was sent; what was typed comes back."""
    by = _analyst(request, request.fields.text("by"))
    checked = request.desk.check(table.name, question, by)
    error = None if fault is None else request_error(fault, in_full=request.from_steward)
    unconfirmed = fault.option if isinstance(fault, UnconfirmedError) else ""
    parts: dict[str, Any] = {
        "table": table,
        "question": question,
        "label": label(question.budget),
        "check": checked,
        "facts": asked_facts(question),
        "fields": fields_of(question, by),
        "key": request.fields.text("key") or uuid4().hex,
        "by": by,
        "open": request.desk.open_questions(table.name, by),
        "meaning": _meaning(table, question.budget),
        "fault": "" if error is None else str(error),
        "again": bool(checked.answered) or unconfirmed == "again",
    }
    return page(request, "confirm.html.j2", parts, 200 if error is None else error.status)


def send(request: DeskRequest) -> Response:
    """Ask a question.  The form has a key of its own, so that sending it twice is asking once.

    One that is refused comes back with all that was typed.
    """
    table = table_of(request)
    form = QuestionForm.of(table, request.fields)
    try:
        question = form.question(table)
    except DpinferError as fault:
        return _form_page(request, table, form, fault=fault)
    key = request.fields.text("key")
    if not key:
        raise InputError("the form has no key: open the page of the question again")
    by = _analyst(request, request.fields.text("by"))
    try:
        ticket = request.desk.ask(
            table.name,
            question,
            by,
            key,
            again=request.fields.text("again") == "yes",
            anyway=request.fields.text("anyway") == "yes",
        )
    except (ConflictError, RefusedError) as fault:
        return _confirmation(request, table, question, fault)
    return redirect(request, "q", ticket.id)


def listed(request: DeskRequest) -> Response:
    """List questions, newest first: of a table, by a person or in a state; an analyst's own alone."""
    permissions = request.permissions
    name = request.fields.text("table")
    by = request.fields.text("by")
    state = request.fields.text("state")
    states = tuple(one for one in SHOWN_STATES if state_name(one) == state_name(state))
    asked = permissions.tickets(name, by, states or ((state,) if state else ()))
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
            "states": tuple(dict.fromkeys(map(state_name, SHOWN_STATES))),
            "chosen": {"table": name, "by": by, "state": state_name(state)},
        },
    )


def approvals(request: DeskRequest, without_reason: str = "") -> Response:
    """List the questions that wait for the steward, and what was decided last.

    ``without_reason`` is one that was to be declined without a reason: the field says what is missing.
    """
    rows = []
    for ticket in request.desk.tickets(states=(tickets.WAITING,)):
        rows.append(
            {
                "ticket": ticket,
                "checked": _checked(request.desk, ticket),
                "fields": fields_of(ticket.question, ticket.by) | {"go": "forecast"},
                "facts": asked_facts(ticket.question),
            }
        )
    parts = {
        "rows": rows,
        "decided": _decided_last(request),
        "without_reason": without_reason,
        "fault": NO_REASON,
    }
    return page(request, "approvals.html.j2", parts, 400 if without_reason else 200)


def _decided_last(request: DeskRequest) -> Ticket | None:
    """Return the question in the address that was decided a moment ago."""
    try:
        ticket = request.permissions.ticket(request.fields.text("decided"))
    except NotFoundError:
        return None
    return ticket if ticket.decider else None


def question(request: DeskRequest) -> Response:
    """Show the state of a question, and its answer from its public time on.

    Before that nothing here depends on the data, so there is no progress bar.
    """
    ticket = _ticket(request)
    decides = request.from_steward and ticket.state == tickets.WAITING
    is_own = ticket.by == request.identity.person
    parts: dict[str, Any] = {
        "ticket": ticket,
        "told": state_message(ticket),
        "lost": NO_ANSWER,
        "facts": asked_facts(ticket.question),
        "fields": fields_of(ticket.question, ticket.by),
        "checked": _checked(request.desk, ticket) if decides else None,
        "decides": decides,
        "open": ticket.state in (tickets.WAITING, tickets.QUEUED)
        and (request.from_steward or is_own),
        "wait": _seconds_to_wait(request.desk, ticket),
        "sees_table": any(one.name == ticket.table for one in request.permissions.tables()),
        "reads": is_own and has_key(ticket),
        "programs": _programs(request, ticket),
        "answer": None,
        "careful": (),
    }
    if ticket.state == tickets.ANSWERED:
        answer = request.desk.result(ticket.id)
        # All names in it are escaped by the template of reports.
        estimates = documents.estimates(answer, level=ticket.question.level)
        parts["answer"] = Markup(_for_analysts(estimates))
        parts["careful"] = tuple(map(_for_analysts, answer.warnings()))
    return page(request, "question.html.j2", parts)


def _seconds_to_wait(desk: Desk, ticket: Ticket) -> int | None:
    """Return after how many seconds to look again; None where nothing will change by itself."""
    if ticket.ended:
        return None
    if ticket.due is not None:
        return max(1, math.ceil((ticket.due - desk.clock()).total_seconds()))
    return _LOOK_AGAIN_FOR_STEWARD if ticket.state == tickets.WAITING else _LOOK_AGAIN


def _programs(request: DeskRequest, ticket: Ticket) -> dict[str, str]:
    """Return a question as code, by language; a desk on this machine alone has no interface for programs."""
    services = request.services
    if services.local:
        return {}
    address = f"{services.cookie.scheme}://{request.headers['host']}"
    own = ticket.by == request.identity.person
    return {
        "Python": in_python(ticket, address, own=own),
        "R": in_r(ticket, address, own=own),
    }


def _for_analysts(text: str) -> str:
    """Return a text of a result without the command of who holds the data."""
    return text.replace(PEEK, "the steward can compare the table with the schema")


def report(request: DeskRequest) -> Response:
    """Show the answer as a document, with a way back to the question."""
    ticket = _ticket(request)
    back = address(request.services.home, ("q", ticket.id))
    return standalone_page(_document(request, ticket, back))


def report_file(request: DeskRequest) -> Response:
    """Return the document as a file, which leads nowhere."""
    ticket = _ticket(request)
    return download(_document(request, ticket), HTML, f"{ticket.id[:12]}-report.html")


def _document(request: DeskRequest, ticket: Ticket, back: str = "") -> str:
    answer = request.desk.result(ticket.id)
    title = ticket.question.title or request.desk.table(ticket.table).title
    text = documents.html(answer, title=title, level=ticket.question.level, back=back)
    return _for_analysts(text)


def plot(request: DeskRequest) -> Response:
    """Return the forest plot of the answer as a picture."""
    ticket = _ticket(request)
    answer = request.desk.result(ticket.id)
    picture = documents.png(answer, level=ticket.question.level)
    return download(picture, PNG, f"{ticket.id[:12]}-forest.png")


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
    """Approve a question, by formula and cost, never by what the data hold; the next one follows."""
    ticket = request.desk.decide(_ticket(request).id, True, request.fields.text("reason"))
    return redirect(request, "approvals", decided=ticket.id)


def decline(request: DeskRequest) -> Response:
    """Decline a question with a reason, which the analyst reads; the next one follows."""
    ticket = _ticket(request)
    reason = request.fields.text("reason")
    if ticket.state == tickets.WAITING and not reason:
        return approvals(request, ticket.id)
    request.desk.decide(ticket.id, False, reason)
    return redirect(request, "approvals", decided=ticket.id)


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
    """Return the check of a question as of now; None where it cannot be checked any more."""
    try:
        return desk.check(ticket.table, ticket.question, ticket.by)
    except DpinferError:
        return None


def _delta_of(budget: Total) -> str:
    """Return the δ that all budgets of a forecast share; empty where there is none."""
    return f"δ = {power_of_ten(budget.delta)}" if isinstance(budget, ApproxDP) else ""


def _times(budget: Total, factor: float) -> Total:
    """Return a multiple of a budget, of the same kind; δ stays."""
    amount = budget.rho if isinstance(budget, ZCDP) else budget.epsilon
    return with_amount(budget, amount * factor)
