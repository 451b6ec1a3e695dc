"""The door of `/api/v1`: which operation a request means, who calls, what was sent; and what becomes of errors.

A caller is known by a bearer token and by nothing else: cookies are not looked at, so that no other
site can make a browser call.  What is wrong with the address, the token, the role, the scope and
what was sent is told in this order, before anything is looked up.
"""

import asyncio
import base64
import hashlib
import json
import re
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from dpinfer.errors import DpinferError, InputError, LedgerError, NoAnswerError
from dpinfer_desk.desk import Desk
from dpinfer_desk.permissions import NotFoundError, Permissions
from dpinfer_desk.store.accounts import Accounts, Signed
from dpinfer_desk.store.tickets import ConflictError, RefusedError
from dpinfer_desk.web.api import BODIES, OPERATIONS, forbidden
from dpinfer_desk.web.calls import (
    HTML,
    JSON,
    NAMES,
    Call,
    Operation,
    RefusedCallError,
    Reply,
    refused,
    told,
)
from dpinfer_desk.web.messages import LARGEST, READING, Message, Receive, Scope, Send
from dpinfer_desk.web.openapi import PREFIX, document
from dpinfer_desk.worker.forecasts import BusyError, Forecasts

_DOCUMENT = "/openapi.json"
_MOST_OPTIONS = 20
_THREADS = 8  # so that pages have threads of their own
_NOBODY = Signed("", "", ())
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_STYLED = "default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_NOWHERE = "there is nothing of yours at this address: check the address"
_UNAVAILABLE = "the desk is busy, or cannot be read or written now: try again, or tell the steward"


@dataclass(frozen=True)
class Request:
    """A request as it came; ``path`` is below `PREFIX`, names of headers are in small letters."""

    method: str
    path: str
    query: str = ""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = field(default=b"", repr=False)

    def header(self, name: str) -> str:
        """The one header of a name; empty where there is none, or several."""
        found = [value for key, value in self.headers if key == name]
        return found[0] if len(found) == 1 else ""


class ApiDoor:
    """Lets calls in.

    Guarantee [token_alone]: without a token that is good now nothing is done and nothing is shown,
    whatever cookies say; and a token does what its role and its scopes allow, and no more.
    Guarantee [equal_nowhere]: what is not there and what is somebody else's have one answer, byte
    for byte.
    Guarantee [errors_without_values]: what an error says is a text of dpinfer that holds no value of
    the data; a fault of ours says its kind and place alone.
    """

    def __init__(self, desk: Desk, accounts: Accounts, forecasts: Forecasts | None = None) -> None:
        self._desk = desk
        self._accounts = accounts
        self._forecasts = forecasts or Forecasts(desk)

    def wants_body(self, method: str, path: str) -> bool:
        """Whether what is sent with a request is read at all."""
        return any(
            operation.body and operation.method == method and _names(operation, path) is not None
            for operation in OPERATIONS
        )

    def answer(self, request: Request) -> Reply:
        """What comes back, whatever was asked."""
        try:
            reply = self._answered(request)
        except RefusedCallError as fault:
            reply = refused(fault)
        except NotFoundError:
            reply = refused(RefusedCallError(404, "not_found", _NOWHERE))
        except BusyError as fault:
            reply = refused(RefusedCallError(429, "busy", str(fault), {"retry-after": "60"}))
        except NoAnswerError as fault:
            reply = refused(RefusedCallError(410, "lost", str(fault)))
        except RefusedError as fault:
            reply = refused(RefusedCallError(409, "refused", str(fault)))
        except LedgerError:  # its text may name files
            reply = refused(
                RefusedCallError(503, "unavailable", _UNAVAILABLE, {"retry-after": "5"})
            )
        except ConflictError as fault:
            reply = refused(RefusedCallError(409, "conflict", str(fault)))
        except DpinferError as fault:
            reply = refused(RefusedCallError(400, "input", str(fault)))
        except Exception as fault:
            reply = refused(RefusedCallError(500, "fault", _our_fault(fault)))
        return Reply(reply.status, reply.content, reply.kind, _headers(reply))

    def _answered(self, request: Request) -> Reply:
        if request.path == _DOCUMENT and request.method == "GET":
            return told(document())
        operation, names = _meant(request)
        signed = self._signed(operation, request)
        options = _options(operation, request.query)
        call = Call(
            self._accounts,
            self._forecasts,
            Permissions(self._desk.acting(signed.person), signed),
            names,
            options,
            _sent(operation, request),
        )
        if any(not re.fullmatch(NAMES[name], value) for name, value in names.items()):
            raise NotFoundError
        return operation.handler(call)

    def _signed(self, operation: Operation, request: Request) -> Signed:
        """Who calls, if the role and the token allow it."""
        if not operation.roles:
            return _NOBODY
        scheme, _, secret = request.header("authorization").partition(" ")
        signed = None
        if scheme.lower() == "bearer" and secret.strip():
            signed = self._accounts.by_token(secret.strip())
        if signed is None:
            raise RefusedCallError(
                401,
                "token",
                "this needs a token that is good now: make one on your page, and send it as a bearer token",
                {"www-authenticate": "Bearer"},
            )
        if signed.role not in operation.roles or operation.scope not in signed.scopes:
            raise forbidden()
        return signed


def _meant(request: Request) -> tuple[Operation, Mapping[str, str]]:
    """The operation of a request, and the names in its address."""
    methods = ["GET"] if request.path == _DOCUMENT else []
    for operation in OPERATIONS:
        names = _names(operation, request.path)
        if names is None:
            continue
        if operation.method == request.method:
            return operation, names
        methods.append(operation.method)
    if methods:
        raise RefusedCallError(
            405,
            "method",
            "this address takes other methods: see the header allow",
            {"allow": ", ".join(methods)},
        )
    raise NotFoundError


def _names(operation: Operation, path: str) -> dict[str, str] | None:
    found = operation.pattern.fullmatch(path)
    return None if found is None else found.groupdict()


def _options(operation: Operation, query: str) -> dict[str, Any]:
    """What stands behind an address, each once and of the right kind."""
    try:
        found = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=_MOST_OPTIONS
        )
    except ValueError:
        raise InputError("what stands behind the address cannot be read: correct it") from None
    options: dict[str, Any] = {}
    for key, text in found:
        rule = operation.options.get(key)
        if rule is None or key in options:
            known = ", ".join(operation.options) or "none"
            raise InputError(
                f"what stands behind the address is unknown, or there twice: there is {known}"
            )
        whole = rule.schema["type"] == "integer"
        value: Any = text
        if whole and re.fullmatch(r"[0-9]{1,10}", text):
            value = int(text)
        if not rule.holds(value):
            raise InputError(f"{key} must be {rule.description}: correct it")
        options[key] = value
    return options


def _sent(operation: Operation, request: Request) -> Mapping[str, Any]:
    """What was sent, of known keys and the right kinds."""
    if not operation.body:
        return {}
    kind, _, more = request.header("content-type").partition(";")
    if kind.strip().lower() != JSON or "charset" in more.lower().replace("charset=utf-8", ""):
        raise RefusedCallError(
            415, "type", "what is sent has to be JSON in UTF-8: set content-type: application/json"
        )
    if len(request.body) > LARGEST:
        raise _too_large()
    return BODIES[operation.body].checked(_object(request.body))


def _object(body: bytes) -> dict[str, Any]:
    """A JSON object in which no key is there twice and everything can be written down again."""
    bad = InputError("what was sent is not a JSON object in UTF-8, with each key once: correct it")
    try:
        found = json.loads(body.decode("utf-8"), object_pairs_hook=_once)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError):  # half a surrogate and NaN, too
        raise bad from None
    if not isinstance(found, dict):
        raise bad
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _too_large() -> RefusedCallError:
    return RefusedCallError(
        413, "size", f"more than {LARGEST // 1024} kB were sent: send the question alone"
    )


def _our_fault(fault: Exception) -> str:
    """The kind and the place of a fault; its message could hold data."""
    last = traceback.extract_tb(fault.__traceback__)[-1]
    place = f"{type(fault).__name__}, {Path(last.filename).name} line {last.lineno}"
    return f"this is a fault of dpinfer itself ({place}): please report it with this line"


def _headers(reply: Reply) -> dict[str, str]:
    headers = {**_HEADERS, **reply.headers}
    style = _STYLE.search(reply.content.decode()) if reply.kind == HTML else None
    if style:
        digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
        headers["content-security-policy"] = _STYLED.format(digest=digest)
    if reply.kind:
        charset = "; charset=utf-8" if reply.kind.startswith("text/") else ""
        headers["content-type"] = reply.kind + charset
    return headers


class ApiApplication:
    """The door as an application: it reads bodies, counted and in time, and works in threads."""

    def __init__(self, door: ApiDoor) -> None:
        self._door = door
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="api")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request below `PREFIX`."""
        if scope["type"] != "http":
            return
        reply = await self._reply(scope, receive)
        headers = {**reply.headers, "content-length": str(len(reply.content))}
        if reply.status == 204:
            del headers["content-length"]
        if reply.status in (408, 413):
            headers["connection"] = "close"
        start: Message = {
            "type": "http.response.start",
            "status": reply.status,
            "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        }
        await send(start)
        await send({"type": "http.response.body", "body": reply.content})

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        path = str(scope["path"]).removeprefix(PREFIX)
        method = str(scope["method"])
        headers = [
            (key.decode("latin-1").lower(), value.decode("latin-1"))
            for key, value in scope["headers"]
        ]
        if len(scope["query_string"]) > LARGEST:
            return _of(RefusedCallError(414, "size", "this address is too long: send less with it"))
        body = b""
        if self._door.wants_body(method, path):
            try:
                async with asyncio.timeout(READING):
                    body = await _read(receive)
            except TimeoutError:
                return _of(
                    RefusedCallError(
                        408, "time", "what was sent did not arrive in time: send it again"
                    )
                )
        query = scope["query_string"].decode("latin-1")
        request = Request(method, path, query, headers, body)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._door.answer, request)


def _of(fault: RefusedCallError) -> Reply:
    reply = refused(fault)
    return Reply(reply.status, reply.content, reply.kind, _headers(reply))


async def _read(receive: Receive) -> bytes:
    """The body; of one that is too large no more than shows that it is."""
    body = b""
    more = True
    while more and len(body) <= LARGEST:
        message = await receive()
        if message["type"] == "http.disconnect":
            break
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body
