"""Errors as responses: one map from what went wrong to a status, a code for programs and a sentence for people."""

import traceback
from collections.abc import Mapping
from pathlib import Path

from starlette.responses import JSONResponse, PlainTextResponse, Response

from dpinfer.errors import DpinferError, LedgerError, NoAnswerError
from dpinfer_desk.permissions import NotFoundError
from dpinfer_desk.store.accounts import LockedError
from dpinfer_desk.store.tickets import ConflictError, RefusedError
from dpinfer_desk.worker.forecasts import BusyError

_STATUSES: tuple[tuple[type[DpinferError], int, str], ...] = (
    (NotFoundError, 404, "not_found"),
    (BusyError, 429, "busy"),
    (LockedError, 429, "busy"),
    (NoAnswerError, 410, "lost"),
    # The budget does not pay for this question: it conflicts with what was spent, and another one may be fine.
    (RefusedError, 409, "refused"),
    # Any other one says that a ledger or a database is locked, damaged or not there.  The request is not at
    # fault and may be sent again as it is, so this is the server's 503, on pages as for programs.
    (LedgerError, 503, "unavailable"),
    (ConflictError, 409, "conflict"),
    (DpinferError, 400, "input"),
)
"""The first kind of error that fits decides."""
_MESSAGES = {
    404: "there is nothing of yours at this address: check the address",
    503: "the desk is busy, or cannot be read or written now: try again, or tell the steward",
}
"""Replaces the text of a ledger error, which may name files."""
_RETRY_AFTER = {429: "60", 503: "5"}  # seconds


class RequestError(Exception):
    """A request that is answered by an error, with nothing done.

    ``code`` is a word for programs, the message a sentence for people.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        wait = {"retry-after": _RETRY_AFTER[status]} if status in _RETRY_AFTER else {}
        self.headers = wait | dict(headers or {})


def request_error(fault: Exception, *, in_full: bool = False) -> RequestError:
    """Return the answer to an error; ``in_full`` keeps its own text, which may name files.

    Guarantee [errors_without_values]: what an error says is a text of dpinfer that holds no value of
    the data; a fault of ours says its kind and where it arose alone.
    """
    if isinstance(fault, RequestError):
        return fault
    for kind, status, code in _STATUSES:
        if isinstance(fault, kind):
            general = None if in_full and status == 503 else _MESSAGES.get(status)
            return RequestError(status, code, general or str(fault))
    # The message of any other exception could hold data.
    last = traceback.extract_tb(fault.__traceback__)[-1]
    origin = f"{type(fault).__name__}, {Path(last.filename).name} line {last.lineno}"
    message = f"this is a fault of dpinfer itself ({origin}): please report it with this line"
    return RequestError(500, "fault", message)


def json_error(error: RequestError) -> Response:
    """Return an error for programs.

    ``error`` and ``remedy``, joined by a colon, are the sentence of the command line.
    """
    message, colon, remedy = str(error).rpartition(": ")
    if not colon:
        message, remedy = remedy, ""
    document = {"error": message, "remedy": remedy, "code": error.code}
    return JSONResponse(document, error.status, error.headers)


def text_error(error: RequestError) -> Response:
    """Return an error for people whom no page can be shown."""
    return PlainTextResponse(f"{error}\n", error.status, error.headers)
