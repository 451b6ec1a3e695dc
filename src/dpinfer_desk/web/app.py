"""The page of a desk as an application: its addresses, its forms, its templates and its errors."""

import asyncio
import base64
import hashlib
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
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
from starlette.routing import BaseRoute, Route

from dpinfer.errors import DpinferError, LedgerError, NoAnswerError
from dpinfer.views.page import style
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.store import tickets
from dpinfer_desk.store.accounts import LockedError
from dpinfer_desk.store.roles import ANALYST, AUDITOR, STEWARD
from dpinfer_desk.web import account_pages, question_pages, steward_pages
from dpinfer_desk.web.guard import ENTERED, POLICY, Door, Entered, Guard
from dpinfer_desk.web.messages import Application
from dpinfer_desk.web.visit import (
    NOBODY,
    Answer,
    Document,
    Elsewhere,
    Fields,
    Handler,
    Page,
    Site,
    Visit,
    address,
)
from dpinfer_desk.worker.forecasts import BusyError

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 3000  # two for each column of a wide table
_STATUSES: dict[type[DpinferError], int] = {
    NotFoundError: 404,
    NoAnswerError: 410,
    BusyError: 429,
    LockedError: 429,
    LedgerError: 409,
}
_WAIT = {"retry-after": "60"}  # goes with the status 429
_LINE = 8  # passwords that wait for the one that is hashed
_TO_SIGN_IN = Elsewhere(("sign-in",))
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)

_ALL = (STEWARD, ANALYST, AUDITOR)
_ASK = (STEWARD, ANALYST)
_READ = (STEWARD, AUDITOR)
_DECIDE = (STEWARD,)
_ANYONE = ("",)
"""Also who has not signed in."""

_ROUTES: tuple[tuple[str, str, Handler, tuple[str, ...]], ...] = (
    ("GET", "/", steward_pages.home, _ALL),
    ("GET", "/t/{table}", steward_pages.table, _ALL),
    ("GET", "/t/{table}/schema.toml", steward_pages.schema, _ALL),
    ("GET", "/t/{table}/practice.csv", steward_pages.practice, _ALL),
    ("GET", "/t/{table}/ledger.jsonl", steward_pages.ledger, _READ),
    ("GET", "/t/{table}/people", steward_pages.people, _READ),
    ("POST", "/t/{table}/people", steward_pages.add_person, _DECIDE),
    ("POST", "/t/{table}/allowance", steward_pages.allow, _DECIDE),
    ("POST", "/t/{table}/state", steward_pages.set_state, _DECIDE),
    ("POST", "/t/{table}/policy", steward_pages.set_policy, _DECIDE),
    ("POST", "/t/{table}/pause", steward_pages.pause, _DECIDE),
    ("POST", "/t/{table}/resume", steward_pages.resume, _DECIDE),
    ("GET", "/journal", steward_pages.journal, _READ),
    ("GET", "/journal.jsonl", steward_pages.export, _READ),
    ("GET", "/verify", steward_pages.verify, _READ),
    ("GET", "/t/{table}/ask", question_pages.ask, _ASK),
    ("POST", "/t/{table}/file", question_pages.of_file, _ASK),
    ("GET", "/t/{table}/confirm", question_pages.confirm, _ASK),
    ("POST", "/t/{table}/questions", question_pages.send, _ASK),
    ("GET", "/q", question_pages.listed, _ALL),
    ("GET", "/approvals", question_pages.approvals, _DECIDE),
    ("GET", "/q/{question}", question_pages.question, _ALL),
    ("GET", "/q/{question}/report", question_pages.report, _ALL),
    ("GET", "/q/{question}/result.json", question_pages.result, _ALL),
    ("GET", "/q/{question}/coefficients.csv", question_pages.coefficients, _ALL),
    ("POST", "/q/{question}/approve", question_pages.approve, _DECIDE),
    ("POST", "/q/{question}/decline", question_pages.decline, _DECIDE),
    ("POST", "/q/{question}/withdraw", question_pages.withdraw, _ASK),
)
_ACCOUNT_ROUTES: tuple[tuple[str, str, Handler, tuple[str, ...]], ...] = (
    ("GET", "/sign-in", account_pages.sign_in, _ANYONE),
    ("POST", "/sign-in", account_pages.signed_in, _ANYONE),
    ("POST", "/sign-out", account_pages.sign_out, _ALL),
    ("GET", "/join", account_pages.join, _ANYONE),
    ("POST", "/join", account_pages.joined, _ANYONE),
    ("GET", "/password", account_pages.password, _ALL),
    ("POST", "/password", account_pages.set_password, _ALL),
    ("GET", "/tokens", account_pages.tokens, _ALL),
    ("POST", "/tokens", account_pages.make_token, _ALL),
    ("POST", "/tokens/revoke", account_pages.revoke_token, _ALL),
    ("GET", "/accounts", account_pages.accounts, _READ),
    ("POST", "/accounts", account_pages.open_account, _DECIDE),
    ("POST", "/accounts/invite", account_pages.invite, _DECIDE),
    ("POST", "/accounts/close", account_pages.close, _DECIDE),
)
_HASHING = (account_pages.signed_in, account_pages.joined, account_pages.set_password)
"""What hashes passwords."""
_LINKS = (
    ("tables", ("",), "Tables", _ALL),
    ("questions", ("q",), "Questions", _ALL),
    ("approvals", ("approvals",), "Approvals", _DECIDE),
    ("journal", ("journal",), "Journal", _READ),
    ("verify", ("verify",), "Verify", _READ),
)
_ACCOUNT_LINKS = (
    ("accounts", ("accounts",), "Accounts", _READ),
    ("tokens", ("tokens",), "Tokens", _ALL),
)
"""What stands at the top of each page, and for whom."""
_FILES = {
    "/style.css": ("text/css", "desk.css"),
    "/desk.js": ("text/javascript", "desk.js"),
    "/icon.svg": ("image/svg+xml", "icon.svg"),
}


def application(
    site: Site, door: Door, at_work: Callable[[], str], more: Sequence[BaseRoute] = ()
) -> Application:
    """The pages of a desk behind a door, and ``more`` that is there; ``at_work`` says what is wrong
    with its worker, nothing where it works.
    """
    house = _House(site, door, at_work)
    table = _ROUTES if site.alone else (*_ROUTES, *_ACCOUNT_ROUTES)
    routes: list[BaseRoute] = [
        Route(path, house.endpoint(handler, roles), methods=[method])
        for method, path, handler, roles in table
    ]
    routes += [Route(path, _file(*content)) for path, content in _FILES.items()]
    handlers = {HTTPException: house.unknown}
    return Guard(Starlette(routes=[*routes, *more], exception_handlers=handlers), door)


class _House:
    """What all pages share."""

    def __init__(self, site: Site, door: Door, at_work: Callable[[], str]) -> None:
        self._site = site
        self._door = door
        self._at_work = at_work
        self._hasher = ThreadPoolExecutor(1, thread_name_prefix="hasher")
        self._hashing = 0
        self._templates = Environment(
            loader=PackageLoader("dpinfer_desk", "web/pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals["to"] = self._to
        self._templates.filters["short"] = _short
        self._templates.filters["moment"] = _moment

    def endpoint(self, handler: Handler, roles: tuple[str, ...]) -> Callable[[Any], Any]:
        """A handler as the framework calls it, for those who have one of some roles."""

        async def answered(request: Any) -> Any:
            entered: Entered = request.scope[ENTERED]
            visit = self._visit(entered, request.path_params)
            if entered.signed is None and roles != _ANYONE:
                return self._response(_TO_SIGN_IN, visit)
            if roles != _ANYONE and visit.signed.role not in roles:
                return await run_in_threadpool(self._trouble, visit, str(NotFoundError()), 404)
            try:
                fields = await _fields(request, entered)
            except _BadFormError as fault:
                return await run_in_threadpool(self._trouble, visit, str(fault), fault.status)
            answer = self._hashed if handler in _HASHING else self._in_a_thread
            return await answer(handler, replace(visit, fields=fields))

        return answered

    async def _in_a_thread(self, handler: Handler, visit: Visit) -> Any:
        return await run_in_threadpool(self._answer, handler, visit)

    async def _hashed(self, handler: Handler, visit: Visit) -> Any:
        """An answer for which passwords are hashed: one at a time, in a thread of its own, few in line.
        Whoever guesses keeps no page waiting.
        """
        if self._hashing > _LINE:
            return await run_in_threadpool(self._trouble, visit, str(LockedError()), 429)
        self._hashing += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._hasher, self._answer, handler, visit)
        finally:
            self._hashing -= 1

    async def unknown(self, request: Any, _: Any) -> Any:
        """An address that is not there, or not for this method: nobody who has not signed in is told
        which of them are.
        """
        entered: Entered = request.scope[ENTERED]
        visit = self._visit(entered, {})
        if entered.signed is None:
            return self._response(_TO_SIGN_IN, visit)
        return await run_in_threadpool(self._trouble, visit, str(NotFoundError()), 404)

    def _visit(self, entered: Entered, names: Mapping[str, str]) -> Visit:
        return Visit(
            self._site,
            entered.signed or NOBODY,
            names,
            form=entered.form,
            session=entered.session,
            address=entered.address,
        )

    def _answer(self, handler: Handler, visit: Visit) -> Any:
        try:
            return self._response(handler(visit), visit)
        except DpinferError as fault:
            return self._trouble(visit, str(fault), _status(fault))
        except Exception as fault:
            # its message could hold data
            last = traceback.extract_tb(fault.__traceback__)[-1]
            place = f"{type(fault).__name__}, {Path(last.filename).name} line {last.lineno}"
            words = f"This is a fault of dpinfer itself ({place}): please report it with this line."
            return self._trouble(visit, words, 500)

    def _trouble(self, visit: Visit, words: str, status: int) -> Any:
        parts = {"words": words, "status": status, "phrase": HTTPStatus(status).phrase}
        response = self._response(Page("trouble.html.j2", parts, status), visit)
        response.headers.update(_WAIT if status == 429 else {})
        return response

    def _response(self, answer: Answer, visit: Visit) -> Any:
        if isinstance(answer, Elsewhere):
            place = address(self._door.home, answer.parts, answer.query)
            response = RedirectResponse(place, status_code=303)
            if answer.session is not None:
                response.headers["set-cookie"] = self._door.cookie(answer.session)
            return response
        if isinstance(answer, Document):
            return _document(answer)
        page = self._templates.get_template(answer.template).render(
            self._common(visit) | {"refresh": answer.refresh} | dict(answer.parts)
        )
        return Response(page, status_code=answer.status, media_type="text/html")

    def _common(self, visit: Visit) -> dict[str, Any]:
        """What every page shows."""
        desk = self._site.desk
        links = _LINKS if self._site.alone else (*_LINKS, *_ACCOUNT_LINKS)
        role = visit.signed.role
        waiting = len(desk.tickets(states=(tickets.WAITING,))) if visit.steward else 0
        return {
            "desk": desk.settings.title or desk.folder.path.name,
            "links": [link[:3] for link in links if role in link[3]],
            "waiting": waiting,
            "idle": self._at_work() if role else "",
            "form": visit.form,
            "now": desk.clock(),
            "alone": self._site.alone,
            "role": role,
            "person": visit.signed.person,
            "may_ask": role in _ASK,
        }

    def _to(self, *parts: str, **query: Any) -> str:
        return address(self._door.home, parts, query)


def _status(fault: DpinferError) -> int:
    """The status of an error that is told."""
    for kind, status in _STATUSES.items():
        if isinstance(fault, kind):
            return status
    return 400


class _BadFormError(Exception):
    """A body that is not read any further."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


async def _fields(request: Any, entered: Entered) -> Fields:
    """What was sent: in the address or, of a form that is ours, in the body."""
    if request.method != "POST":
        return _parsed(str(request.url.query))
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        raise _BadFormError("This is no form of the page: send it from there.", 415)
    fields = _parsed((await request.body()).decode("latin-1"))
    if not compare_digest(fields.text("form").encode(), entered.form.encode()):
        raise _BadFormError(
            "This form is not of this session, so nothing was done: open the page again and send it from there.",
            403,
        )
    return fields


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


def _file(kind: str, name: str) -> Callable[[Any], Any]:
    """A file of the package; a style sheet begins with that of documents."""

    @cache
    def content() -> str:
        own = (files("dpinfer_desk") / "web/pages" / name).read_text(encoding="utf-8")
        return f"{style()}\n{own}" if kind == "text/css" else own

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
