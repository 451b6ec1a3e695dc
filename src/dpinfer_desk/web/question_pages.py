"""Pages of questions: ask, forecast, confirm, wait, the answer; approvals, and what was asked."""

import math
from typing import Any
from uuid import uuid4

from dpinfer.asking.questions import AnalystQuestion, question_of
from dpinfer.errors import NO_ANSWER, DpinferError, InputError
from dpinfer.estimators.aliases import HERE
from dpinfer.fit.choose import TARGETS
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.simulate.forecast import Forecast
from dpinfer.views import report as documents
from dpinfer_desk.desk import Desk, QuestionCheck, state_message
from dpinfer_desk.store import tickets
from dpinfer_desk.store.roles import ACTIVE, Analyst
from dpinfer_desk.store.tables import RegisteredTable
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.web.asked_form import PRODUCTS, AskedForm, fields_of
from dpinfer_desk.web.drawings import NARROW, WIDE, widths
from dpinfer_desk.web.steward_pages import SIGNS, Purse, delta_of, found, label
from dpinfer_desk.web.ticks import SHAPES
from dpinfer_desk.web.visit import Answer, Document, Elsewhere, Page, Visit
from dpinfer_desk.worker.forecasts import BusyError

STATES = (
    tickets.WAITING,
    tickets.QUEUED,
    tickets.CLAIMED,
    tickets.BOOKED_STATE,
    *tickets.ENDED,
)
"""Of a question, as they are shown."""
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


def ask(visit: Visit) -> Answer:
    """The form and, where it is asked for, the forecast under it.  Nothing is spent here."""
    table = found(visit)
    form = AskedForm.of(table, visit.fields)
    analysts = [one for one in _askers(visit, table) if one.state == ACTIVE]
    parts: dict[str, Any] = {
        "table": table,
        "asked": form,
        "analysts": analysts,
        "shapes": {key: words for key, (words, _) in SHAPES.items()},
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
    if visit.fields.text("go") != "forecast":
        return Page("ask.html.j2", parts)
    try:
        parts["ahead"] = _ahead(visit, table, form)
    except DpinferError as fault:
        status = 429 if isinstance(fault, BusyError) else 400
        return Page("ask.html.j2", parts | {"fault": str(fault)}, status=status)
    if parts["ahead"] is None:
        # with its address: where that ends in #forecast a browser takes the same one for a place in the page
        sent = {"soon": True, "again": visit.fields.texts}
        return Page("ask.html.j2", parts | sent, refresh=_SOON)
    return Page("ask.html.j2", parts)


def _askers(visit: Visit, table: RegisteredTable) -> list[Analyst]:
    """In whose name the visitor may ask: a steward in that of everybody who may, others in their own."""
    if visit.steward:
        return visit.desk.analysts(table.name)
    return [visit.sight.analyst(table.name)]


def _ahead(visit: Visit, table: RegisteredTable, form: AskedForm) -> dict[str, Any] | None:
    """The forecast: what each budget costs, and how wide the intervals will be; None while it is
    under way.
    """
    desk = visit.desk
    question = form.question(table)
    by = _asker(visit, form.value("by"))
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
        forecasts = visit.site.forecasts
        ident = forecasts.ask(table.name, question, visit.signed.person, budgets)
        forecast = forecasts.get(ident, visit.signed.person, visit.site.patience)
        if forecast is None:
            return None
        ahead["forecast"] = forecast
        ahead["drawings"] = [widths(forecast, size) for size in (WIDE, NARROW)]
    for place, budget in enumerate(budgets):
        offer = desk.check(table.name, question.at(budget), by)
        ahead["offers"].append(_offer(offer, by, forecast, place))
    return ahead


def _offer(
    checked: QuestionCheck, by: str, forecast: Forecast | None, place: int
) -> dict[str, Any]:
    """One line of the forecast: a budget, its cost, how wide, and what to do."""
    width = "–"
    if forecast is not None:
        low, high = forecast.range(place)
        width = (
            f"±{low:.2g} to {high:.2g}"
            if math.isfinite(high)
            else "no line is likely to be printed"
        )
    return {
        "label": label(checked.question.budget),
        "cost": checked.cost,
        "left": checked.analyst.left - checked.cost,
        "width": width,
        "allowed": checked.permitted,
        "reason": checked.reason,
        "fields": fields_of(checked.question, by),
        "asked": _TIMES[place] == 1,
    }


def of_file(visit: Visit) -> Answer:
    """A question file that somebody sent, as the form."""
    table = found(visit)
    named, question = question_of(visit.fields.text("file"))
    if named not in ("", table.name):
        raise InputError(f"this question is for the table {named!r}: open it there")
    query = fields_of(question, _asker(visit, visit.fields.text("by"))) | {"go": "forecast"}
    return Elsewhere(("t", table.name, "ask"), query)


def confirm(visit: Visit) -> Answer:
    """The last page before a question is asked: what it costs and what is left."""
    table = found(visit)
    question = AskedForm.of(table, visit.fields).question(table)
    by = _asker(visit, visit.fields.text("by"))
    checked = visit.desk.check(table.name, question, by)
    return Page(
        "confirm.html.j2",
        {
            "table": table,
            "question": question,
            "label": label(question.budget),
            "delta": delta_of(question.budget),
            "check": checked,
            "sign": SIGNS[checked.measure],
            "facts": asked_facts(question),
            "then": Purse(visit.desk.account(table.name)).spending(checked.preview.spent),
            "fields": fields_of(question, by),
            "key": uuid4().hex,
            "by": by,
        },
    )


def send(visit: Visit) -> Answer:
    """Ask.  The form has a key of its own, so that sending it twice is asking once."""
    table = found(visit)
    question = AskedForm.of(table, visit.fields).question(table)
    key = visit.fields.text("key")
    if not key:
        raise InputError("the form has no key: open the page of the question again")
    ticket = visit.desk.ask(
        table.name,
        question,
        _asker(visit, visit.fields.text("by")),
        key,
        again=visit.fields.text("again") == "yes",
        anyway=visit.fields.text("anyway") == "yes",
    )
    return Elsewhere(("q", ticket.id))


def listed(visit: Visit) -> Answer:
    """What was asked, newest first; of a table, by a person or in a state; an analyst's own alone."""
    sight = visit.sight
    name = visit.fields.text("table")
    by = visit.fields.text("by")
    state = visit.fields.text("state")
    asked = sight.tickets(name, by, (state,) if state else ())
    return Page(
        "questions.html.j2",
        {
            "tickets": asked[::-1],
            "tables": [one.name for one in sight.tables()],
            "people": [one.name for one in visit.desk.persons()] if sight.unrestricted else [],
            "whole": sight.unrestricted,
            "states": STATES,
            "chosen": {"table": name, "by": by, "state": state},
        },
    )


def approvals(visit: Visit) -> Answer:
    """Questions that wait for the steward."""
    rows = []
    for ticket in visit.desk.tickets(states=(tickets.WAITING,)):
        rows.append(
            {
                "ticket": ticket,
                "label": label(ticket.question.budget) + delta_of(ticket.question.budget),
                "checked": _checked(visit.desk, ticket),
                "fields": fields_of(ticket.question, ticket.by) | {"go": "forecast"},
                "facts": asked_facts(ticket.question),
            }
        )
    return Page("approvals.html.j2", {"rows": rows, "signs": SIGNS})


def question(visit: Visit) -> Answer:
    """Where a question stands.  Before its public time nothing here depends on the data, so there is
    no progress bar.
    """
    ticket = _ticket(visit)
    decides = visit.steward and ticket.state == tickets.WAITING
    own = visit.steward or ticket.by == visit.signed.person
    waits = ticket.state in (tickets.QUEUED, tickets.CLAIMED, tickets.BOOKED_STATE)
    refresh = None
    if waits:
        refresh = _LOOK_AGAIN
        if ticket.due is not None:
            away = (ticket.due - visit.desk.clock()).total_seconds()
            refresh = max(1, math.ceil(away))
    return Page(
        "question.html.j2",
        {
            "ticket": ticket,
            "told": state_message(ticket),
            "lost": NO_ANSWER,
            "label": label(ticket.question.budget) + delta_of(ticket.question.budget),
            "sign": _sign(visit.desk, ticket),
            "facts": asked_facts(ticket.question),
            "fields": fields_of(ticket.question, ticket.by),
            "checked": _checked(visit.desk, ticket) if decides else None,
            "decides": decides,
            "open": ticket.state in (tickets.WAITING, tickets.QUEUED) and own,
            "sees_table": any(one.name == ticket.table for one in visit.sight.tables()),
        },
        refresh=refresh,
    )


def report(visit: Visit) -> Answer:
    """The answer as a document, as it is."""
    ticket = _ticket(visit)
    answer = visit.desk.result(ticket.id)
    title = ticket.question.title or visit.desk.table(ticket.table).title
    return Document(documents.html(answer, title=title, level=ticket.question.level), "text/html")


def result(visit: Visit) -> Answer:
    """The answer for programs: `dp.FitResult.from_json` reads it."""
    ticket = _ticket(visit)
    answer = visit.desk.result(ticket.id)
    return Document(answer.to_json(), "application/json", f"{ticket.id[:12]}-result.json")


def coefficients(visit: Visit) -> Answer:
    """The coefficients of the answer as a table."""
    ticket = _ticket(visit)
    answer = visit.desk.result(ticket.id)
    text = documents.csv(answer, level=ticket.question.level)
    return Document(text, "text/csv", f"{ticket.id[:12]}-coefficients.csv")


def approve(visit: Visit) -> Answer:
    """By question and cost, never by what the data hold."""
    ticket = visit.desk.decide(_ticket(visit).id, True, visit.fields.text("reason"))
    return Elsewhere(("q", ticket.id))


def decline(visit: Visit) -> Answer:
    """With a reason, which the asker reads."""
    ticket = visit.desk.decide(_ticket(visit).id, False, visit.fields.text("reason"))
    return Elsewhere(("q", ticket.id))


def withdraw(visit: Visit) -> Answer:
    """Take a question back before it is booked."""
    ticket = visit.sight.own(visit.names["question"])
    return Elsewhere(("q", visit.desk.withdraw(ticket.id).id))


def asked_facts(question: AnalystQuestion) -> dict[str, str]:
    """What is asked beside formula and budget."""
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
    facts = {words: str(keys[key]) for key, words in names.items() if key in keys}
    facts["Model"] = MODELS.get(question.loss, question.loss)
    facts["Level"] = f"{100 * question.level:.4g} %"
    return facts


def _ticket(visit: Visit) -> Ticket:
    """The question in the address, by its whole id, if the visitor may see it."""
    return visit.sight.ticket(visit.names["question"])


def _asker(visit: Visit, name: str) -> str:
    """Who asks: a steward may enter the question of somebody else, everybody else asks himself."""
    if not visit.steward:
        return visit.signed.person
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
    """A multiple of a budget, of the same kind; δ stays."""
    if isinstance(budget, ApproxDP):
        return ApproxDP(budget.epsilon * factor, budget.delta)
    if isinstance(budget, ZCDP):
        return ZCDP(budget.rho * factor)
    assert isinstance(budget, PureDP)
    return PureDP(budget.epsilon * factor)
