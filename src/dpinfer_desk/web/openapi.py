"""The document of the interface, OpenAPI 3.1: made from the operations, and from the rules of the command line."""

from functools import cache
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse, Response

from dpinfer_desk.web.api import OPERATIONS, Operation
from dpinfer_desk.web.requests import DeskRequest
from dpinfer_desk.web.schemas import BODIES, JSON, NAMES, SCHEMAS

PREFIX = "/api/v1"
VERSION = "1.0.0"
"""Of the interface, not of dpinfer."""
_REFUSALS = {
    400: "what was sent is not right, and the text says what",
    401: "no token, or one that is not good any more",
    403: "this token may not do this",
    404: "it is not there, or not yours",
    408: "what was sent did not arrive in time",
    409: "it cannot be done as things stand",
    410: "the answer is lost; it was paid for",
    413: "more than 64 kB were sent",
    414: "the address is too long",
    415: "what was sent is not JSON",
    425: "there is no answer yet",
    429: "too much is asked for",
    503: "the desk is busy, or cannot be read or written now",
}
_PATH_NAMES = {
    "table": "the name of a table",
    "key": "a key of the caller's own, such as a UUID",
    "question": "the id of a question",
    "forecast": "the id of a forecast",
    "analyst": "the name of a person",
    "token": "the id of a token",
    "release": "the id of a moment release in the ledger",
}


@cache
def document() -> dict[str, Any]:
    """Return the whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    bodies = {name: body.schema() for name, body in BODIES.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dpinfer serve",
            "version": VERSION,
            "summary": "Differentially private regressions for analysts who must never see the data",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": PREFIX}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**SCHEMAS, **bodies},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def statuses(operation: Operation) -> dict[int, str]:
    """Return the refusals that an operation may have, by status."""
    codes = {400, 414, 503, *operation.refusals}
    if operation.roles:
        codes |= {401, 403}
    if operation.parts:
        codes.add(404)
    if operation.body:
        codes |= {408, 413, 415}
    return {code: _REFUSALS[code] for code in sorted(codes)}


def _described(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.description.partition(".")[0],
        "description": f"{operation.description} {_who(operation)}",
        "parameters": [_path_parameter(name) for name in operation.parts]
        + [
            _query_parameter(name, rule.schema, rule.description)
            for name, rule in operation.options.items()
        ],
        "responses": {
            **{str(code): _reply(code, kind) for code, kind in operation.replies.items()},
            **{
                str(code): {"description": refusal, "content": _content("Error")}
                for code, refusal in statuses(operation).items()
            },
        },
    }
    if not operation.roles:
        described["security"] = []
    if operation.body:
        described["requestBody"] = {"required": True, "content": _content(operation.body)}
    return described


def _who(operation: Operation) -> str:
    if not operation.roles:
        return "For anyone, without a token."
    return f"For {', '.join(operation.roles)}, with the scope {operation.scope}."


def _path_parameter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_NAMES[name],
        "schema": {"type": "string", "pattern": f"^{NAMES[name]}$"},
    }


def _query_parameter(name: str, schema: Any, description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": dict(schema)}


def _reply(code: int, kind: str) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(code).phrase}
    if kind:
        described["content"] = _content(kind)
    return described


def _content(kind: str) -> dict[str, Any]:
    """Describe a JSON document by the name of its schema, or a text by its type."""
    if "/" in kind:
        return {kind: {"schema": {"type": "string"}}}
    return {JSON: {"schema": {"$ref": f"#/components/schemas/{kind}"}}}


def _show_document(_: DeskRequest) -> Response:
    return JSONResponse(document())


OPENAPI = Operation(
    _show_document,
    "GET",
    "/openapi.json",
    roles=(),
    scope="",
    body="",
    options={},
    replies={200: "OpenAPI"},
    refusals=(),
)
"""The operation that shows the document, which does not describe itself."""
