"""The application of a desk: the addresses of its pages and of `/api/v1`, and its templates."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.templating import Jinja2Templates

from dpinfer.views.page import breakable, style
from dpinfer_desk.store import tickets
from dpinfer_desk.store.roles import ANALYST, AUDITOR, STEWARD
from dpinfer_desk.web import account_pages, moment_pages, question_pages, steward_pages
from dpinfer_desk.web.api import OPERATIONS, Operation
from dpinfer_desk.web.authentication import AuthBackend, BearerBackend
from dpinfer_desk.web.endpoints import (
    ANYONE,
    ApiEndpoint,
    Handler,
    PageEndpoint,
    PasswordQueue,
    missing_page,
)
from dpinfer_desk.web.openapi import OPENAPI, PREFIX
from dpinfer_desk.web.requests import DeskRequest, Services, address, state_name
from dpinfer_desk.web.security import ConnectionPolicy, SecurityMiddleware

_ALL = (STEWARD, ANALYST, AUDITOR)
_ASK = (STEWARD, ANALYST)
_READ = (STEWARD, AUDITOR)
_DECIDE = (STEWARD,)

PageRoute = tuple[str, str, Handler, tuple[str, ...]]

PAGES: tuple[PageRoute, ...] = (
    ("GET", "/", steward_pages.home, _ALL),
    ("GET", "/t/{table}", steward_pages.table, _ALL),
    ("GET", "/t/{table}/schema.toml", steward_pages.schema, _ALL),
    ("GET", "/t/{table}/practice.csv", steward_pages.practice, _ALL),
    ("GET", "/t/{table}/ledger.jsonl", steward_pages.ledger, _READ),
    ("GET", "/t/{table}/people", steward_pages.analysts, _READ),
    ("POST", "/t/{table}/people", steward_pages.add_analyst, _DECIDE),
    ("POST", "/t/{table}/allowance", steward_pages.allow, _DECIDE),
    ("POST", "/t/{table}/state", steward_pages.set_state, _DECIDE),
    ("POST", "/t/{table}/policy", steward_pages.set_policy, _DECIDE),
    ("POST", "/t/{table}/pause", steward_pages.pause, _DECIDE),
    ("POST", "/t/{table}/resume", steward_pages.resume, _DECIDE),
    ("GET", "/t/{table}/releases/{release}", moment_pages.release, _ALL),
    ("GET", "/t/{table}/releases/{release}/file.json", moment_pages.file, _ALL),
    ("GET", "/t/{table}/releases/{release}/report", moment_pages.report, _ALL),
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
    ("GET", "/q/{question}/report.html", question_pages.report_file, _ALL),
    ("GET", "/q/{question}/forest.png", question_pages.plot, _ALL),
    ("GET", "/q/{question}/result.json", question_pages.result, _ALL),
    ("GET", "/q/{question}/coefficients.csv", question_pages.coefficients, _ALL),
    ("POST", "/q/{question}/approve", question_pages.approve, _DECIDE),
    ("POST", "/q/{question}/decline", question_pages.decline, _DECIDE),
    ("POST", "/q/{question}/withdraw", question_pages.withdraw, _ASK),
)
"""Method, path, handler and roles of each page of every desk."""
ACCOUNT_PAGES: tuple[PageRoute, ...] = (
    ("GET", "/tokens", account_pages.tokens, _ALL),
    ("POST", "/tokens", account_pages.make_token, _ALL),
    ("POST", "/tokens/revoke", account_pages.revoke_token, _ALL),
    ("GET", "/accounts", account_pages.accounts, _READ),
    ("POST", "/accounts", account_pages.open_account, _DECIDE),
    ("POST", "/accounts/close", account_pages.close, _DECIDE),
)
"""Pages of a desk on a network."""
PASSWORD_PAGES: tuple[PageRoute, ...] = (
    ("GET", "/sign-in", account_pages.sign_in, ANYONE),
    ("POST", "/sign-in", account_pages.signed_in, ANYONE),
    ("POST", "/sign-out", account_pages.sign_out, _ALL),
    ("GET", "/join", account_pages.join, ANYONE),
    ("POST", "/invitation", account_pages.show_invited, ANYONE),
    ("POST", "/join", account_pages.joined, ANYONE),
    ("GET", "/password", account_pages.password, _ALL),
    ("POST", "/password", account_pages.set_password, _ALL),
    ("POST", "/accounts/invite", account_pages.invite, _DECIDE),
)
"""Pages of a desk where people sign in by a password."""
_HASHING = (account_pages.signed_in, account_pages.joined, account_pages.set_password)
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
"""Links at the top of each page, and the roles that see them."""
_FILES = {
    "/style.css": ("text/css", "desk.css"),
    "/desk.js": ("text/javascript", "desk.js"),
    "/join.js": ("text/javascript", "join.js"),
    "/icon.svg": ("image/svg+xml", "icon.svg"),
}


def application(
    services: Services, policy: ConnectionPolicy, backend: AuthBackend
) -> SecurityMiddleware:
    """Return the pages of a desk and, where it has accounts, its interface for programs."""
    routes = _page_routes(services)
    programs = None
    if services.accounts is not None:
        routes = [Route("/health", _health), *_api_routes(), *routes]
        programs = BearerBackend(services.accounts)
    # Nothing is a redirect that does not have to be: what is not there has one answer.
    router = Router(routes, redirect_slashes=False)
    app = Starlette(
        routes=[Mount(services.home, router)], exception_handlers={HTTPException: missing_page}
    )
    app.state.services = services
    app.state.templates = Jinja2Templates(
        env=_environment(services.home), context_processors=[_context]
    )
    return SecurityMiddleware(app, policy, backend, programs)


def page_table(services: Services) -> tuple[PageRoute, ...]:
    """Return the pages that a desk has."""
    if services.local:
        return PAGES
    return (*PAGES, *ACCOUNT_PAGES, *(PASSWORD_PAGES if services.passwords else ()))


def _page_routes(services: Services) -> list[BaseRoute]:
    queue = PasswordQueue()
    routes: list[BaseRoute] = []
    for method, path, handler, roles in page_table(services):
        endpoint = PageEndpoint(handler, roles, queue if handler in _HASHING else None)
        routes.append(Route(path, endpoint, methods=[method]))
    routes += [Route(path, _file(*content)) for path, content in _FILES.items()]
    return routes


def _api_routes() -> list[BaseRoute]:
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in (*OPERATIONS, OPENAPI):
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [
        Route(f"{PREFIX}{path}", ApiEndpoint(operations)) for path, operations in by_path.items()
    ]


async def _health(_: Request) -> Response:
    """Say that the server answers, and nothing else."""
    return Response("ok\n", media_type="text/plain")


def _file(kind: str, name: str) -> Callable[[Request], Any]:
    """Return the endpoint of a file of the package; a style sheet begins with that of documents."""

    @cache
    def content() -> str:
        own = (files("dpinfer_desk") / "web/pages" / name).read_text(encoding="utf-8")
        return f"{style()}\n{own}" if kind == "text/css" else own

    async def answered(_: Request) -> Response:
        return Response(content(), media_type=kind)

    return answered


def _environment(home: str) -> Environment:
    environment = Environment(
        loader=PackageLoader("dpinfer_desk", "web/pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["to"] = lambda *parts, **query: address(home, parts, query)
    environment.filters["moment"] = _moment
    environment.filters["breakable"] = breakable
    environment.filters["first_capital"] = _first_capital
    environment.filters["state_name"] = state_name
    return environment


def _context(request: DeskRequest) -> dict[str, Any]:
    """Return what every page shows."""
    services = request.services
    desk = services.desk
    links: Sequence[Any] = _LINKS if services.local else (*_LINKS, *_ACCOUNT_LINKS)
    role = request.identity.role
    waiting = len(desk.tickets(states=(tickets.WAITING,))) if request.from_steward else 0
    return {
        "desk": desk.settings.title or desk.folder.path.name,
        "links": [link[:3] for link in links if role in link[3]],
        "waiting": waiting,
        "idle": services.worker_fault() if role else "",
        "csrf_token": request.credentials.csrf_token,
        "now": desk.clock(),
        "local": services.local,
        "passwords": services.passwords and not services.local,
        "role": role,
        "person": request.identity.person,
        "may_ask": role in _ASK,
        "cost_of": desk.cost_writer(),
    }


def _first_capital(text: str) -> str:
    """Return a text as a sentence begins; ε stays ε."""
    return text[:1].upper() + text[1:] if text[:1].isascii() else text


def _moment(time: str | datetime) -> Markup:
    """Return a time to the second, in UTC; the script of the page shows it in the time zone of the reader."""
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    time = time.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        f"{time:%Y-%m-%dT%H:%M:%SZ}", f"{time:%Y-%m-%d %H:%M:%S}"
    )
