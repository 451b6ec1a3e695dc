"""From a request to its response: who may, what was sent, in which thread, and what becomes of errors."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qs, parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dpinfer.errors import InputError
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.store.accounts import LockedError
from dpinfer_desk.web.api import Operation, forbidden
from dpinfer_desk.web.authentication import API, only_header
from dpinfer_desk.web.http_errors import RequestError, json_error, request_error, text_error
from dpinfer_desk.web.requests import DeskRequest, FormFields, page, redirect
from dpinfer_desk.web.schemas import BODIES, JSON, NAMES
from dpinfer_desk.web.security import read_body

Handler = Callable[[DeskRequest], Response]

ANYONE = ("",)
"""The roles that include whoever has not signed in."""
_FORM = "application/x-www-form-urlencoded"
_FIELD_LIMIT = 3000  # two for each column of a wide table
_OPTION_LIMIT = 20
_PASSWORD_QUEUE = 8  # requests that wait for the password that is hashed
_NO_FORM = "This is no form of the page: send it from there."
_NOT_FIELDS = "What was sent is no form: send it from the page."
_OTHER_SESSION = "This form is not of this session, so nothing was done: open the page again and send it from there."

# Programs have threads of their own, so that they keep no page waiting.
_programs = ThreadPoolExecutor(8, thread_name_prefix="programs")


class PasswordQueue:
    """One thread in which passwords are hashed, one at a time, with few requests that wait.

    Whoever guesses keeps no page waiting.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._waiting = 0

    async def run(self, handler: Handler, request: DeskRequest) -> Response:
        """Handle a request in its turn; `LockedError` where too many wait."""
        if self._waiting > _PASSWORD_QUEUE:
            raise LockedError
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._thread, handler, request)
        finally:
            self._waiting -= 1


@dataclass(frozen=True)
class PageEndpoint:
    """A page, or a form that is sent from one, for people of some roles; ``queue`` is for those that hash passwords."""

    handler: Handler
    roles: tuple[str, ...]
    queue: PasswordQueue | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = DeskRequest(scope, receive)
        try:
            response = await self._response(request)
        except Exception as fault:
            response = await run_in_threadpool(error_page, request, fault)
        await response(scope, receive, send)

    async def _response(self, request: DeskRequest) -> Response:
        role = request.identity.role
        if self.roles != ANYONE:
            if not role:
                await run_in_threadpool(request.keep_address)
                return redirect(request, "sign-in")
            if role not in self.roles:
                raise NotFoundError
        request.fields = await _fields(request)
        if self.queue is not None:
            return await self.queue.run(self.handler, request)
        return await run_in_threadpool(self.handler, request)


@dataclass(frozen=True)
class ApiEndpoint:
    """The operations of one address of `/api/v1`, by method.

    Guarantee [token_alone]: without a token that is good now nothing is done and nothing is shown,
    whatever cookies say; and a token does what its role and its scopes allow, and no more.
    Guarantee [equal_nowhere]: what is not there and what is somebody else's have one answer, byte
    for byte.
    """

    operations: Mapping[str, Operation]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            response = await self._response(DeskRequest(scope, receive))
        except Exception as fault:
            response = json_error(request_error(fault))
        await response(scope, receive, send)

    async def _response(self, request: DeskRequest) -> Response:
        """Refuse for the method, the token, the role or scope, the options, the body, the names, in this order."""
        operation = self.operations.get(request.method)
        if operation is None:
            raise _other_method(tuple(self.operations))
        if operation.roles:
            _require_permission(operation, request)
        request.options = _options(operation, request)
        if operation.body:
            request.document = await _document(operation, request)
        for name, value in request.path_params.items():
            if not re.fullmatch(NAMES[name], value):
                raise NotFoundError
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_programs, operation.handler, request)


async def missing_page(request: Any, _: Exception) -> Response:
    """Answer for an address that is not there, or not for this method.

    Nobody who has not signed in is told which of them are.
    """
    request = DeskRequest(request.scope)
    if request.services.accounts is not None and request.scope["path"].startswith(API):
        return json_error(request_error(NotFoundError()))
    if not request.identity.role:
        return redirect(request, "sign-in")
    return await run_in_threadpool(error_page, request, NotFoundError())


def error_page(request: DeskRequest, fault: Exception) -> Response:
    """Return an error as a page; a steward, who may know the files of the desk, reads its own text."""
    error = request_error(fault, in_full=request.from_steward)
    sent = request.method == "POST"
    parts = {
        "message": str(error),
        "undone": sent and error.status < 500,
        "back": request.came_from if sent else "",
        "status": error.status,
        "phrase": HTTPStatus(error.status).phrase,
    }
    try:
        response = page(request, "trouble.html.j2", parts, error.status)
    except Exception:
        # What every page shows cannot be read either; a server would write down what was raised, with its message.
        return text_error(error)
    response.headers.update(error.headers)
    return response


async def _fields(request: DeskRequest) -> FormFields:
    """Return what was sent: in the address or, by a form that is ours, in the body."""
    if request.method != "POST":
        return _parsed(request.scope["query_string"])
    if only_header(request, "content-type").partition(";")[0].strip() != _FORM:
        raise RequestError(415, "type", _NO_FORM)
    fields = _parsed(await read_body(request))
    token = request.credentials.csrf_token
    if not compare_digest(fields.text("form").encode(), token.encode()):
        raise RequestError(403, "request", _OTHER_SESSION)
    return fields


def _parsed(sent: bytes) -> FormFields:
    text = sent.decode("latin-1")
    try:
        fields = parse_qs(
            text, keep_blank_values=True, errors="strict", max_num_fields=_FIELD_LIMIT
        )
    except ValueError:
        raise RequestError(400, "input", _NOT_FIELDS) from None
    return FormFields(fields)


def _other_method(methods: tuple[str, ...]) -> RequestError:
    message = "this address takes other methods: see the header allow"
    return RequestError(405, "method", message, {"allow": ", ".join(methods)})


def _require_permission(operation: Operation, request: DeskRequest) -> None:
    """Refuse a call without a token, or with one whose role or scopes do not allow it."""
    identity = request.identity
    if not identity.role:
        message = "this needs a token that is good now: make one on your page, and send it as a bearer token"
        raise RequestError(401, "token", message, {"www-authenticate": "Bearer"})
    if identity.role not in operation.roles or operation.scope not in identity.scopes:
        raise forbidden()


def _options(operation: Operation, request: DeskRequest) -> dict[str, Any]:
    """Return what stands behind an address, each option once and of the right kind."""
    query = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_OPTION_LIMIT
        )
    except ValueError:
        raise InputError("what stands behind the address cannot be read: correct it") from None
    options: dict[str, Any] = {}
    for key, text in pairs:
        rule = operation.options.get(key)
        if rule is None or key in options:
            known = ", ".join(operation.options) or "none"
            raise InputError(
                f"what stands behind the address is unknown, or there twice: there is {known}"
            )
        value: Any = text
        if rule.schema["type"] == "integer" and re.fullmatch(r"[0-9]{1,10}", text):
            value = int(text)
        if not rule.holds(value):
            raise InputError(f"{key} must be {rule.description}: correct it")
        options[key] = value
    return options


async def _document(operation: Operation, request: DeskRequest) -> Mapping[str, Any]:
    """Return what was sent, of known keys and the right kinds."""
    kind, _, more = only_header(request, "content-type").partition(";")
    if kind.strip().lower() != JSON or "charset" in more.lower().replace("charset=utf-8", ""):
        message = "what is sent has to be JSON in UTF-8: set content-type: application/json"
        raise RequestError(415, "type", message)
    return BODIES[operation.body].checked(_json_object(await read_body(request)))


def _json_object(body: bytes) -> dict[str, Any]:
    """Return a JSON object in which no key is there twice and everything can be written down again."""
    fault = InputError(
        "what was sent is not a JSON object in UTF-8, with each key once: correct it"
    )
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_unique_keys)
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError):  # half a surrogate and NaN, too
        raise fault from None
    if not isinstance(document, dict):
        raise fault
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) != len(pairs):
        raise ValueError
    return keys
