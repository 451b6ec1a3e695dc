"""Pages of moment releases: what was published, any linear model of it at once, and the file."""

from typing import Any

from starlette.responses import Response

from dpinfer.errors import InputError
from dpinfer.moment_release.moment_questions import FORMS, answer
from dpinfer.moment_release.released_moments import MomentFigure, MomentRelease
from dpinfer.result import coefficient_table, text
from dpinfer.result.result import FitResult
from dpinfer.views import report as documents
from dpinfer_desk.web.http_errors import request_error
from dpinfer_desk.web.requests import DeskRequest, download, page, standalone_page
from dpinfer_desk.web.schemas import JSON, MAX_QUESTION
from dpinfer_desk.web.steward_pages import table_of

_LEVEL = 0.95  # of intervals, where nobody says another


def release(request: DeskRequest) -> Response:
    """Show a release with the form of a question and, where one is asked, its answer.  Nothing is spent."""
    found = _release(request)
    question = request.fields.text("question")
    parts: dict[str, Any] = {
        "table": table_of(request),
        "release": found,
        "question": question,
        "level": request.fields.text("level") or f"{_LEVEL:g}",
        "percent": f"{100 * _LEVEL:.4g}",
        "longest": MAX_QUESTION,
        "forms": [form.strip('"') for form in FORMS],
        "file": f"{request.name('table')}-{request.name('release')[:12]}.moments",
        "rows": [],
        "figure": None,
        "warnings": [],
        "fault": "",
    }
    status = 200
    if question:
        try:
            parts |= _shown(answer(found, _checked(question), _level(request)), _level(request))
        except InputError as fault:
            error = request_error(fault)
            parts["fault"] = str(error)
            status = error.status
    return page(request, "release.html.j2", parts, status)


def file(request: DeskRequest) -> Response:
    """Return the file of a release, which answers without the desk."""
    name = f"{request.name('table')}-{request.name('release')[:12]}.moments"
    return download(_release(request).to_json(), JSON, name)


def report(request: DeskRequest) -> Response:
    """Show a regression as a document."""
    question = _checked(request.fields.text("question"))
    found = answer(_release(request), question, _level(request))
    if not isinstance(found, FitResult):
        raise InputError("a report is about a regression: ask a formula such as y ~ x")
    page_ = documents.html(found, title=" ".join(question.split()), level=_level(request))
    return standalone_page(page_)


def _release(request: DeskRequest) -> MomentRelease:
    return request.permissions.moment_release(request.name("table"), request.name("release"))


def _checked(question: str) -> str:
    if len(question) > MAX_QUESTION:
        raise InputError(f"a question has at most {MAX_QUESTION} characters: shorten it")
    return question


def _level(request: DeskRequest) -> float:
    level = request.fields.number("level", "the confidence level")
    if level is None:
        return _LEVEL
    if not 0.5 <= level < 1:
        raise InputError("the confidence level must be a number from 0.5 to below 1")
    return level


def _shown(found: FitResult | MomentFigure, level: float) -> dict[str, Any]:
    """Return an answer in the words of a page."""
    if isinstance(found, MomentFigure):
        return {"figure": str(found)}
    rows = []
    for row in found.table(level):
        decimals = text.decimals_for(row["std_error"])
        rows.append(
            {
                "name": row["name"],
                "estimate": text.number(row["estimate"], decimals),
                "std_error": text.number(row["std_error"], decimals),
                "interval": coefficient_table.interval(row),
                "p": text.p_value(row["p_value"]),
            }
        )
    reasons = coefficient_table.reasons(found.table(level))
    return {
        "rows": rows,
        "percent": f"{100 * level:.4g}",
        "warnings": [*found.warnings(), *reasons],
    }
