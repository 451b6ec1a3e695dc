"""The page of a desk as an application: its addresses, its forms, its templates and its errors."""

import asyncio
import base64
import hashlib
import re
import traceback
from collections.abc import Callable
from datetime import datetime
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from dpinfer.desk import tickets
from dpinfer.desk.desk import Desk
from dpinfer.desk.tickets import LostError
from dpinfer.errors import DpinferError, LedgerError
from dpinfer.serve import question_pages, steward_pages
from dpinfer.serve.guard import LARGEST, POLICY, Access, Application, Guard
from dpinfer.serve.visit import (
    Answer,
    Document,
    Elsewhere,
    Fields,
    Handler,
    NowhereError,
    Page,
    Visit,
    address,
)

_READING = 10.0  # seconds in which a form has to be here
_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 3000  # two for each column of a wide table
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)

_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", steward_pages.home),
    ("GET", "/t/{table}", steward_pages.table),
    ("GET", "/t/{table}/schema.toml", steward_pages.schema),
    ("GET", "/t/{table}/practice.csv", steward_pages.practice),
    ("GET", "/t/{table}/people", steward_pages.people),
    ("POST", "/t/{table}/people", steward_pages.add_person),
    ("POST", "/t/{table}/allowance", steward_pages.allow),
    ("POST", "/t/{table}/state", steward_pages.set_state),
    ("POST", "/t/{table}/policy", steward_pages.set_policy),
    ("POST", "/t/{table}/pause", steward_pages.pause),
    ("POST", "/t/{table}/resume", steward_pages.resume),
    ("GET", "/journal", steward_pages.journal),
    ("GET", "/journal.jsonl", steward_pages.export),
    ("GET", "/verify", steward_pages.verify),
    ("GET", "/t/{table}/ask", question_pages.ask),
    ("POST", "/t/{table}/file", question_pages.of_file),
    ("GET", "/t/{table}/confirm", question_pages.confirm),
    ("POST", "/t/{table}/questions", question_pages.send),
    ("GET", "/q", question_pages.listed),
    ("GET", "/approvals", question_pages.approvals),
    ("GET", "/q/{question}", question_pages.question),
    ("GET", "/q/{question}/report", question_pages.report),
    ("GET", "/q/{question}/result.json", question_pages.result),
    ("GET", "/q/{question}/coefficients.csv", question_pages.coefficients),
    ("POST", "/q/{question}/approve", question_pages.approve),
    ("POST", "/q/{question}/decline", question_pages.decline),
    ("POST", "/q/{question}/withdraw", question_pages.withdraw),
)
_FILES = {
    "/style.css": ("text/css", ("views/style.css", "serve/pages/desk.css")),
    "/desk.js": ("text/javascript", ("serve/pages/desk.js",)),
    "/icon.svg": ("image/svg+xml", ("serve/pages/icon.svg",)),
}


def application(desk: Desk, access: Access, at_work: Callable[[], str]) -> Application:
    """The page of a desk for those who have ``access``; ``at_work`` says what is wrong with its
    worker, nothing where it works.
    """
    site = _Site(desk, access, at_work)
    routes = [
        Route(path, site.endpoint(handler), methods=[method]) for method, path, handler in _ROUTES
    ]
    routes += [Route(path, _file(*content)) for path, content in _FILES.items()]
    handlers = {HTTPException: site.unknown}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), access)


class _Site:
    """What all pages share."""

    def __init__(self, desk: Desk, access: Access, at_work: Callable[[], str]) -> None:
        self._desk = desk
        self._access = access
        self._at_work = at_work
        self._templates = Environment(
            loader=PackageLoader("dpinfer", "serve/pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals["to"] = self._to
        self._templates.filters["short"] = _short
        self._templates.filters["moment"] = _moment

    def endpoint(self, handler: Handler) -> Callable[[Any], Any]:
        """A handler as the framework calls it."""

        async def answered(request: Any) -> Any:
            try:
                fields = await self._fields(request)
            except _BadFormError as fault:
                return await run_in_threadpool(self._trouble, str(fault), fault.status)
            visit = Visit(self._desk, request.path_params, fields)
            return await run_in_threadpool(self._answer, handler, visit)

        return answered

    async def unknown(self, _: Any, fault: Any) -> Any:
        """An address that is not there, or not for this method."""
        words = "There is nothing at this address: go on from the tables."
        return await run_in_threadpool(self._trouble, words, fault.status_code)

    async def _fields(self, request: Any) -> Fields:
        """What was sent: in the address or, of a form that is ours, in the body."""
        if request.method != "POST":
            return _parsed(str(request.url.query))
        if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
            raise _BadFormError("This is no form of the page: send it from there.", 415)
        try:
            async with asyncio.timeout(_READING):
                body = await _body(request)
        except TimeoutError:
            raise _BadFormError("The form did not arrive in time: send it again.", 408) from None
        fields = _parsed(body.decode("latin-1"))
        if not compare_digest(fields.text("form").encode(), self._access.form.encode()):
            raise _BadFormError(
                "This form is not of this run of the desk, so nothing was done: open the page again and send it from "
                "there.",
                403,
            )
        return fields

    def _answer(self, handler: Handler, visit: Visit) -> Any:
        try:
            return self._response(handler(visit))
        except NowhereError as fault:
            return self._trouble(str(fault), 404)
        except LostError as fault:
            return self._trouble(str(fault), 410)
        except LedgerError as fault:
            return self._trouble(str(fault), 409)
        except DpinferError as fault:
            return self._trouble(str(fault), 400)
        except Exception as fault:
            # its message could hold data
            last = traceback.extract_tb(fault.__traceback__)[-1]
            place = f"{type(fault).__name__}, {Path(last.filename).name} line {last.lineno}"
            words = f"This is a fault of dpinfer itself ({place}): please report it with this line."
            return self._trouble(words, 500)

    def _trouble(self, words: str, status: int) -> Any:
        parts = {"words": words, "status": status, "phrase": HTTPStatus(status).phrase}
        return self._response(Page("trouble.html.j2", parts, status))

    def _response(self, answer: Answer) -> Any:
        if isinstance(answer, Elsewhere):
            place = address(self._access.home, answer.parts, answer.query)
            return RedirectResponse(place, status_code=303)
        if isinstance(answer, Document):
            return _document(answer)
        common = {
            "desk": self._desk.settings.title or self._desk.folder.path.name,
            "waiting": len(self._desk.tickets(states=(tickets.WAITING,))),
            "idle": self._at_work(),
            "form": self._access.form,
            "refresh": answer.refresh,
            "now": self._desk.clock(),
        }
        page = self._templates.get_template(answer.template).render(common | dict(answer.parts))
        return Response(page, status_code=answer.status, media_type="text/html")

    def _to(self, *parts: str, **query: Any) -> str:
        return address(self._access.home, parts, query)


class _BadFormError(Exception):
    """A body that is not read any further."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


async def _body(request: Any) -> bytes:
    """The body, counted while it is read."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST:
            raise _BadFormError(
                f"A form has at most {LARGEST // 1024} kB: shorten what was sent.", 413
            )
    return body


def _parsed(text: str) -> Fields:
    try:
        found = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise _BadFormError("What was sent is no form: send it from the page.", 400) from None
    return Fields(found)


def _document(answer: Document) -> Any:
    """A text with the headers that it needs: a page of ours that stands alone has a style of its own
    and no script.
    """
    headers = {}
    if answer.name:
        headers["content-disposition"] = f'attachment; filename="{answer.name}"'
    style = _STYLE.search(answer.text) if answer.kind == "text/html" else None
    if style:
        digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
        headers["content-security-policy"] = POLICY.format(style=f"'sha256-{digest}'")
    return Response(answer.text, media_type=answer.kind, headers=headers)


def _file(kind: str, names: tuple[str, ...]) -> Callable[[Any], Any]:
    """A file of the package, or several in one."""

    @cache
    def content() -> str:
        return "\n".join((files("dpinfer") / name).read_text(encoding="utf-8") for name in names)

    async def answered(_: Any) -> Any:
        return Response(content(), media_type=kind)

    return answered


def _short(number: float | None) -> str:
    """A number in four digits."""
    return "–" if number is None else f"{number:.4g}"


def _moment(time: str | datetime) -> str:
    """A time to the second."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
