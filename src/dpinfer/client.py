"""A desk on a network, from an analyst's own machine: `dp.connect`.  The standard library alone.

    site = dp.connect("https://stats.example.org", token)        # or DPINFER_TOKEN
    table = site.table("visits")                                 # table.schema is a dp.Schema
    table.check("visit ~ age + health", dp.ApproxDP(1.0, 1e-6))  # cost and advice, free of charge
    asked = table.ask("visit ~ age + health", dp.ApproxDP(1.0, 1e-6))
    result = asked.wait()                                        # the same FitResult as at home

A call that breaks off is sent again with the same key, so that a question is asked once.
"""

import http.client
import ipaddress
import json
import math
import os
import random
import ssl
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode, urlsplit

from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import DpinferError, InputError, LedgerError, NoAnswerError, ServerError
from dpinfer.moment_release.released_moments import MomentRelease
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.privacy.shares import rounded_down
from dpinfer.result.result import FitResult
from dpinfer.result.text import facts_page
from dpinfer.schema.schema import Schema
from dpinfer.simulate.forecast import Forecast

TOKEN = "DPINFER_TOKEN"
"""The environment variable with the token, if none is given."""

_TRIES = 6
_FIRST_WAIT = 0.25  # seconds before the second try; doubled for each further one
_MAX_WAIT = 60.0
_POLL = 2.0  # seconds between two calls about a question that is not booked yet
_MAX_BYTES = 64 * 2**20  # bytes of a response
_RETRY_STATUSES = (429, 503)  # too many requests, unavailable


def connect(
    url: str,
    token: str | None = None,
    *,
    cafile: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
) -> "RemoteDesk":
    """Connect to a desk on a network, as the analyst to whom a token belongs.

    Parameters
    ----------
    url : str
        The address of the desk, ``https://…``; ``http://`` is accepted for this machine alone.
    token : str, optional
        The token that the desk issued; by default that in the environment variable
        ``DPINFER_TOKEN``.
    cafile : path, optional
        The certificates of an authority of your own, as PEM; by default those of this machine.
    timeout : float
        Seconds that one response may take; 30 by default.

    Returns
    -------
    RemoteDesk
        The desk: ``tables()``, ``table(name)``, ``questions()`` and ``question(id)``.

    Raises
    ------
    InputError
        If the address, the token or the certificates cannot be used; nothing was sent then.

    Examples
    --------
    It needs a desk that is running.

    >>> import dpinfer as dp
    >>> site = dp.connect("https://desk.example.org", token="...")  # doctest: +SKIP
    >>> site.tables()  # doctest: +SKIP
    {'visits': 'RAND Health Insurance Experiment'}
    """
    given = token if token is not None else os.environ.get(TOKEN, "")
    if not given or not given.isascii() or not given.isprintable() or " " in given:
        raise InputError(
            f"a desk on a network needs a token: give the one that its page has made for you, or set {TOKEN}"
        )
    return RemoteDesk(_Connection(*_parts(url), given, _context(cafile), float(timeout)))


def _parts(url: str) -> tuple[bool, str, int | None, str]:
    """Return whether an address has TLS, its host, its port and its path."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts = urlsplit("")
        port = None
    host = parts.hostname or ""
    if parts.scheme not in ("https", "http") or not host or parts.query or parts.fragment:
        raise InputError(
            "the address of a desk is such as https://stats.example.org: give it without anything behind it"
        )
    if parts.username is not None or parts.password is not None:
        raise InputError("an address has no name and no password in it: give the token instead")
    if parts.scheme == "http" and not _loopback(host):
        raise InputError(
            "over http:// everybody on the way could read the token: give an address that begins with https://"
        )
    return parts.scheme == "https", host, port, parts.path.rstrip("/")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _context(cafile: str | os.PathLike[str] | None) -> ssl.SSLContext:
    # The default context checks certificates and host names; there is no option to switch that off.
    try:
        return ssl.create_default_context(cafile=cafile)
    except (OSError, ssl.SSLError):
        raise InputError(
            "the certificates in cafile cannot be read: give a file in the form PEM"
        ) from None


@dataclass(frozen=True)
class _Response:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def document(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            raise ServerError(
                "the server did not answer as a desk does: check the address"
            ) from None

    @property
    def retry_after(self) -> float | None:
        """Return the seconds after which to call again, if the server says so."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdecimal() else None


@dataclass(frozen=True)
class _Connection:
    """A server and the token for it; each call opens a connection of its own.

    A call is tried again if the connection breaks off: all calls are idempotent, as a question is sent
    by PUT under a key of its own.
    """

    secured: bool
    host: str
    port: int | None
    path: str
    token: str = field(repr=False)
    context: ssl.SSLContext = field(repr=False)
    timeout: float = 30.0

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> _Response:
        """Return the response to a call, which may be an error of the server."""
        wait = _FIRST_WAIT
        for left in reversed(range(_TRIES)):
            try:
                response = self._once(method, path, body, options)
            except ssl.SSLCertVerificationError as fault:
                raise ServerError(
                    f"the certificate of {self.host} is not one to trust ({fault.verify_message}): check the address, "
                    "or give the certificates of your own authority (cafile=)"
                ) from None
            except (OSError, http.client.HTTPException) as fault:
                if not left:
                    raise ServerError(
                        f"{self.host} cannot be reached ({type(fault).__name__}): check the address and the network; "
                        "a question that was sent is asked once"
                    ) from None
                time.sleep(wait * random.uniform(0.5, 1.5))
                wait *= 2
                continue
            pause = response.retry_after or wait
            if response.status not in _RETRY_STATUSES or not left or pause > _MAX_WAIT:
                return response
            time.sleep(pause)
            wait *= 2
        raise AssertionError("the last try returns or raises")

    def call_or_raise(self, method: str, path: str, body: Any = None, **options: Any) -> _Response:
        """Return the response to a call; an error of the server is raised."""
        response = self.call(method, path, body, **options)
        if response.status >= 300:
            raise _error_of(response)
        return response

    def _once(self, method: str, path: str, body: Any, options: Mapping[str, Any]) -> _Response:
        query = f"?{urlencode(options)}" if options else ""
        headers = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers["content-type"] = "application/json"
        connection = self._open()
        try:
            connection.request(method, f"{self.path}/api/v1{path}{query}", content, headers)
            response = connection.getresponse()
            text = response.read(_MAX_BYTES + 1)
        finally:
            connection.close()
        if not _is_complete(response, text):
            raise http.client.IncompleteRead(text)
        if len(text) > _MAX_BYTES:
            raise ServerError("the server answered with more than a desk does: check the address")
        names = {key.lower(): value for key, value in response.getheaders()}
        return _Response(response.status, names, text.decode("utf-8", "replace"))

    def _open(self) -> http.client.HTTPConnection:
        if self.secured:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=self.timeout, context=self.context
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)


def _is_complete(response: http.client.HTTPResponse, text: bytes) -> bool:
    """Tell whether the whole body was received; `http.client` does not report one that breaks off."""
    declared = response.getheader("content-length", "")
    if response.chunked or response.status == 204 or len(text) > _MAX_BYTES:
        return True
    return declared == str(len(text))


def _error_of(response: _Response) -> DpinferError:
    """Return an error of the server as the error that dpinfer raises locally."""
    if 300 <= response.status < 400:
        return ServerError(
            "the server redirects to another address, to which no token is sent: give that address itself"
        )
    try:
        document = json.loads(response.text)
        message = ": ".join(filter(None, (document["error"], document["remedy"])))
        code = document["code"]
    except (ValueError, KeyError, TypeError):
        return ServerError(
            f"the server answered {response.status}, and not as a desk does: check the address"
        )
    if code == "lost":
        return NoAnswerError()
    if code == "refused":
        return LedgerError(message)
    if response.status >= 500 or response.status == 429:
        return ServerError(message)
    return InputError(message)


class _FormerNames:
    """A mixin by which attributes can still be read by former names."""

    _FORMER: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in self._FORMER:
                return getattr(self, self._FORMER[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@dataclass(frozen=True, repr=False)
class RemoteCheck(_FormerNames):
    """The cost of a question and whether it would be paid, from `RemoteTable.check`; printed, it is a
    page.

    Attributes
    ----------
    names : tuple of str
        The names of the coefficients.
    cost : float
        The cost, in ``measure``.
    measure : str
        What allowances are counted in: epsilon or rho.
    permitted : bool
        Whether the total and the allowance would pay for it now.
    reason : str
        Why they would not.
    left : dict
        What is left of the allowance, and of the total for a next fit.
    waits : bool
        Whether the steward has to approve it.
    warning : str
        What to expect of it.
    low_budget : str
        Why hardly any coefficient could be reported.
    answered : tuple of str
        The ids of answers to the same question, which are free to read.
    """

    _FORMER: ClassVar[Mapping[str, str]] = {  # also the keys of the document
        "allowed": "permitted",
        "hopeless": "low_budget",
    }

    names: tuple[str, ...]
    cost: float
    measure: str
    permitted: bool
    reason: str
    left: Mapping[str, float | None]
    waits: bool
    warning: str
    low_budget: str
    answered: tuple[str, ...]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "RemoteCheck":
        """Return the check in a document of the server."""
        values = {cls._FORMER.get(key, key): value for key, value in document.items()}
        values["names"] = tuple(values["names"])
        values["answered"] = tuple(values["answered"])
        return cls(**values)

    def __repr__(self) -> str:
        allowed = "yes" if self.permitted else f"no: {self.reason}"
        facts = {
            "Coefficients": f"{len(self.names)}: {', '.join(self.names)}",
            "Cost": f"{self.measure} = {self.cost:.4g}",
            "Can be paid": allowed,
            "Allowance left": _amount(self.left.get("allowance"), self.measure),
            "Approval": "the steward decides" if self.waits else "not needed",
            "Warning": self.warning,
            "Low budget": self.low_budget,
            "Answered": "",
        }
        if self.answered:
            facts["Answered"] = f"before, free to read: {', '.join(self.answered)}"
        return facts_page(
            "A question, not yet asked: nothing is booked",
            {name: fact for name, fact in facts.items() if fact},
        )


class RemoteAccount(dict[str, Any]):
    """The account of a table: a dict of what was spent and what is left; printed, it is a page."""

    def __repr__(self) -> str:
        total = self.get("total") or {}
        facts = {"Total": str(_budget(total)) if total else "–"}
        if self.get("share") is not None:
            facts["Used"] = f"{100 * self['share']:.3g} % of the total"
        facts["Next question"] = "nothing is left for it"
        if self.get("largest_fit"):
            measure = "rho" if "rho" in total else "epsilon"
            facts["Next question"] = (
                f"may cost up to {measure} = {rounded_down(self['largest_fit'], 4):.4g}"
            )
        facts["Booked"] = f"{self.get('entries', 0):,} so far"
        return facts_page("The account of a table", facts)


class RemoteAllowance(dict[str, Any]):
    """An analyst's allowance at a table: a dict; printed, it is a page."""

    def __init__(self, values: Mapping[str, Any], measure: str) -> None:
        super().__init__(values)
        self._measure = measure

    def __repr__(self) -> str:
        facts = {
            name: _amount(self.get(key), self._measure)
            for name, key in (("Allowance", "amount"), ("Spent", "spent"), ("Left", "left"))
        }
        return facts_page(
            f"The allowance of {self.get('person', '')}", facts | {"State": self.get("state", "")}
        )


def _budget(keys: Mapping[str, float]) -> Total:
    """Return a budget from its keys."""
    if "rho" in keys:
        return ZCDP(keys["rho"])
    if "delta" in keys:
        return ApproxDP(keys["epsilon"], keys["delta"])
    return PureDP(keys["epsilon"])


def _amount(value: float | None, measure: str) -> str:
    return "" if value is None else f"{measure} = {rounded_down(value, 4):.4g}"


class RemoteDesk:
    """A desk on a network, made by `connect`."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<desk at {self._connection.host}>"

    def tables(self) -> dict[str, str]:
        """Return the tables that the analyst may ask.

        Returns
        -------
        dict
            Titles by name.
        """
        document = self._connection.call_or_raise("GET", "/tables").document
        return {table["name"]: table["title"] for table in document["tables"]}

    def table(self, name: str) -> "RemoteTable":
        """Return one of the tables.

        Parameters
        ----------
        name : str
            Its name, a key of `tables`.

        Returns
        -------
        RemoteTable
            What is public about the table, as it is now.
        """
        return RemoteTable(
            self._connection,
            self._connection.call_or_raise("GET", f"/tables/{quote(name, safe='')}").document,
        )

    def questions(self, table: str = "", state: str = "") -> list["RemoteQuestion"]:
        """Return the analyst's questions, the newest first.

        Parameters
        ----------
        table : str
            The name of a table; by default questions of all tables are returned.
        state : str
            A state; by default questions in any state are returned.

        Returns
        -------
        list of RemoteQuestion
            The questions.
        """
        chosen = {key: value for key, value in (("table", table), ("state", state)) if value}
        document = self._connection.call_or_raise("GET", "/questions", **chosen).document
        return [RemoteQuestion(self._connection, one) for one in document["questions"]]

    def question(self, ident: str) -> "RemoteQuestion":
        """Return one question.

        Parameters
        ----------
        ident : str
            Its id.

        Returns
        -------
        RemoteQuestion
            The question, with its state.
        """
        document = self._connection.call_or_raise(
            "GET", f"/questions/{quote(ident, safe='')}"
        ).document
        return RemoteQuestion(self._connection, document)


class RemoteTable(_FormerNames):
    """A table at a desk: what is public about it, and the questions that it can be asked.

    The attributes are as they were when the table was fetched.

    Attributes
    ----------
    name, title : str
        The name at the desk, and the title.
    schema : Schema
        The schema.
    records : int or None
        The number of records where it is public, or a guess.
    counted : bool
        Whether the number is public.
    unit, neighbours : str
        What is protected, and what may differ between two data sets.
    state : str
        Whether the table is open for questions.
    policy : dict
        Which questions the steward has to approve, and whether answers are shared.
    response_times : list of float
        The response times, in seconds from booking to answer.
    measure : str
        What allowances are counted in.
    account, allowance : dict
        The account of the table, and the analyst's allowance; each prints as a page.  In both,
        ``share`` is a share of the total, which adds up: the one that is used, and that of the
        allowance; ``largest_fit`` is the most that the next question may be asked at.
    """

    _FORMER: ClassVar[Mapping[str, str]] = {"slots": "response_times"}

    def __init__(self, connection: _Connection, document: Mapping[str, Any]) -> None:
        self._connection = connection
        self.name: str = document["name"]
        self.title: str = document["title"]
        self.schema = Schema.parse(document["schema"])
        self.records: int | None = document["records"]
        self.counted: bool = document["counted"]
        self.unit: str = document["unit"]
        self.neighbours: str = document["neighbours"]
        self.state: str = document["state"]
        self.policy: dict[str, Any] = document["policy"]
        self.response_times: list[float] = document["slots"]
        self.measure: str = document["measure"]
        self.account = RemoteAccount(document["account"])
        self.allowance: RemoteAllowance | None = None
        if document["allowance"] is not None:
            self.allowance = RemoteAllowance(document["allowance"], self.measure)

    def __repr__(self) -> str:
        return f"<table {self.name!r} at {self._connection.host}>"

    def check(self, formula: str, budget: Total, **keys: Any) -> RemoteCheck:
        """Return the cost of a question and whether it would be paid; nothing is booked.

        Parameters
        ----------
        formula : str
            The formula, such as ``"visit ~ age + health"``.
        budget : PureDP, ZCDP or ApproxDP
            What the answer may cost.
        **keys
            The other keys of a question: loss, target, level, title and so on.

        Returns
        -------
        RemoteCheck
            Coefficients, cost, and whether total and allowance would pay.
        """
        body = _question(formula, budget, keys)
        return RemoteCheck.of(
            self._connection.call_or_raise("POST", f"{self._path}/check", body).document
        )

    def forecast(
        self,
        formula: str,
        budget: Total,
        *,
        amounts: Sequence[float] | None = None,
        half_width: float | None = None,
        coefficient: str | None = None,
        timeout: float = 120.0,
        **keys: Any,
    ) -> Forecast:
        """Forecast the length of the intervals, on the server and from the schema alone.

        Parameters
        ----------
        formula : str
            The formula.
        budget : PureDP, ZCDP or ApproxDP
            The budget of the question.
        amounts : sequence of float, optional
            Up to six amounts of the same kind of budget, to compare; by default that of ``budget``
            alone.
        half_width, coefficient : optional
            Find the budget that gives this half-width, for the coefficient of this name or as the
            median over all.
        timeout : float
            Seconds to wait; 120 by default.
        **keys
            The other keys of a question.

        Returns
        -------
        Forecast
            As from `dp.simulate.forecast`.

        Raises
        ------
        ServerError
            If the forecast is not there in time; it goes on, and a second call finds it.
        """
        body = _question(formula, budget, keys)
        wanted = {"half_width": half_width, "coefficient": coefficient}
        body |= {key: value for key, value in wanted.items() if value is not None}
        if amounts is not None:
            body["amounts"] = [float(amount) for amount in amounts]
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            ident = self._connection.call_or_raise(
                "POST", f"{self._path}/forecasts", body
            ).document["id"]
            response = self._connection.call("GET", f"/forecasts/{ident}")
            while response.status == 202 and time.monotonic() < until:
                time.sleep(response.retry_after or _POLL)
                response = self._connection.call("GET", f"/forecasts/{ident}")
            if response.status == 404:  # the server was started anew
                time.sleep(_POLL)
                continue
            if response.status == 200:
                return Forecast.from_json(response.text)
            if response.status != 202:
                raise _error_of(response)
        raise ServerError("the forecast is not there yet: call again, it goes on")

    def ask(
        self,
        formula: str,
        budget: Total,
        *,
        key: str | None = None,
        again: bool = False,
        anyway: bool = False,
        **keys: Any,
    ) -> "RemoteQuestion":
        """Ask a question.

        Parameters
        ----------
        formula : str
            The formula.
        budget : PureDP, ZCDP or ApproxDP
            What the answer may cost.
        key : str, optional
            The analyst's own name of the question: what is sent twice with one key is asked once.
            By default it is new.
        again : bool
            Whether to ask, and pay, again what was answered or lost before; by default it is not.
        anyway : bool
            Whether to ask though hardly any coefficient could be reported; by default it is not.
        **keys
            The other keys of a question.

        Returns
        -------
        RemoteQuestion
            The question, to ``wait()`` for.
        """
        body = _question(formula, budget, keys)
        chosen = {name: "true" for name, on in (("again", again), ("anyway", anyway)) if on}
        path = f"{self._path}/questions/{quote(key or str(uuid.uuid4()), safe='')}"
        return RemoteQuestion(
            self._connection, self._connection.call_or_raise("PUT", path, body, **chosen).document
        )

    def answers(self) -> list["RemoteAnswer"]:
        """Return past answers that are free to read, the newest first.

        Returns
        -------
        list of RemoteAnswer
            The answers, each with its ``result()``.
        """
        document = self._connection.call_or_raise("GET", f"{self._path}/answers").document
        return [RemoteAnswer(self._connection, one) for one in document["answers"]]

    def moment_releases(self) -> dict[str, str]:
        """Return the moment releases of the table, the newest first.

        Returns
        -------
        dict
            The columns of each, by its id.
        """
        document = self._connection.call_or_raise("GET", f"{self._path}/releases").document
        return {one["release"]: one["declared"] for one in document["releases"]}

    def moments(self, release: str = "") -> MomentRelease:
        """Fetch a moment release, which answers every linear model of its columns on this machine, for free.

        Parameters
        ----------
        release : str
            Its id; the newest one by default.

        Returns
        -------
        MomentRelease
            The same as from `dpinfer.moments`.

        Raises
        ------
        InputError
            If there is none.
        """
        ident = release or next(iter(self.moment_releases()), "")
        if not ident:
            raise InputError(
                f"the table {self.name} has no moment release: ask the steward to publish one, or ask a question"
            )
        path = f"{self._path}/releases/{quote(ident, safe='')}"
        return MomentRelease.from_json(self._connection.call_or_raise("GET", path).text)

    @property
    def _path(self) -> str:
        return f"/tables/{quote(self.name, safe='')}"


def _question(formula: str, budget: Total, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a question, checked here as the server will check them."""
    if not isinstance(budget, ZCDP | ApproxDP | PureDP):
        raise InputError(
            "a question needs a budget: give dp.ApproxDP(1.0, 1e-6), dp.ZCDP(0.1) or dp.PureDP(1.0)"
        )
    return AnalystQuestion.of({"formula": formula, **keys, **vars(budget)}).keys()


class RemoteAnswer:
    """A question that was answered, as everybody who may ask the table can read it."""

    def __init__(self, connection: _Connection, document: Mapping[str, Any]) -> None:
        self._connection = connection
        self.id: str = document["id"]
        self.table: str = document["table"]
        self.question = dict(document["question"])
        self.cost: float = document["cost"]
        self.release: str = document["release"]

    def __repr__(self) -> str:
        return f"<answer {self.id[:12]}: {self.question['formula']}>"

    def result(self) -> FitResult:
        """Return the result of the fit.

        Returns
        -------
        FitResult
            The same as from a fit on this machine.
        """
        return FitResult.from_json(
            self._connection.call_or_raise("GET", f"/questions/{self.id}/result.json").text
        )


class RemoteQuestion(RemoteAnswer, _FormerNames):
    """A question of the analyst's own.

    ``state``, and ``state_message``, the state in a sentence, are as of the last `refresh`; ``due`` is when
    the answer is shown, once the question is booked.
    """

    _FORMER: ClassVar[Mapping[str, str]] = {"told": "state_message"}

    def __init__(self, connection: _Connection, document: Mapping[str, Any]) -> None:
        super().__init__(connection, document)
        self.key: str = document["key"]
        self._update(document)

    def __repr__(self) -> str:
        return f"<question {self.id[:12]}: {self.question['formula']}, {self.state}>"

    def _update(self, document: Mapping[str, Any]) -> None:
        self.state: str = document["state"]
        self.state_message: str = document["told"]
        self.reason: str = document["reason"]
        self.due: str = document["due"]
        self.release = document["release"]

    def refresh(self) -> "RemoteQuestion":
        """Ask the server for the state of the question, and return the question."""
        self._update(self._connection.call_or_raise("GET", f"/questions/{self.id}").document)
        return self

    def wait(self, timeout: float | None = None) -> FitResult:
        """Wait for the result.

        It comes after a public response time, which does not depend on the data.  The method may be
        called again, also on another machine, by `RemoteDesk.question`.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait; by default as long as it takes.

        Returns
        -------
        FitResult
            The result of the fit.

        Raises
        ------
        NoAnswerError
            If the answer is lost.
        InputError
            If there will be none.
        ServerError
            If it is not there in time.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            response = self._connection.call("GET", f"/questions/{self.id}/result.json")
            if response.status != 425:
                break
            pause = response.retry_after or _POLL
            if time.monotonic() + pause > until:
                raise ServerError("the answer is not there yet: wait again, it is asked once")
            time.sleep(pause)
        if response.status != 200:
            raise _error_of(response)
        self.refresh()
        return FitResult.from_json(response.text)

    def withdraw(self) -> "RemoteQuestion":
        """Withdraw the question before it is booked, free of charge."""
        response = self._connection.call("DELETE", f"/questions/{self.id}")
        self.refresh()
        # A first try may have withdrawn it, although its response was lost.
        if response.status >= 300 and self.state != "withdrawn":
            raise _error_of(response)
        return self
