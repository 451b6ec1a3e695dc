"""A desk on a network, from an analyst's own machine: `dp.connect`.  The standard library alone.

    site = dp.connect("https://stats.example.org", token)        # or DPINFER_TOKEN
    table = site.table("visits")                                 # table.schema is a dp.Schema
    table.check("visit ~ age + health", dp.ApproxDP(1.0, 1e-6))  # cost and advice, for nothing
    asked = table.ask("visit ~ age + health", dp.ApproxDP(1.0, 1e-6))
    result = asked.wait()                                        # the same FitResult as at home

Whatever breaks off is sent again with the same key, and what was asked is asked once.
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
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from dpinfer.asking.allowed import Question
from dpinfer.errors import DpinferError, InputError, LedgerError, NoAnswerError, ServerError
from dpinfer.privacy.accountant import Total
from dpinfer.privacy.budget import ZCDP, ApproxDP, PureDP
from dpinfer.result.result import FitResult
from dpinfer.schema.schema import Schema
from dpinfer.simulate.forecast import Forecast

TOKEN = "DPINFER_TOKEN"
"""The environment variable that has the token where none is given."""

_TRIES = 6
_FIRST_WAIT = 0.25  # seconds before it is tried again; then twice as long each time
_LONGEST_WAIT = 60.0
_LOOK_AGAIN = 2.0  # seconds between two looks at a question that is not booked yet
_LARGEST = 64 * 2**20  # bytes of an answer
_LATER = (429, 503)


def connect(
    url: str,
    token: str | None = None,
    *,
    cafile: str | os.PathLike[str] | None = None,
    timeout: float = 30.0,
) -> "Site":
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
    Site
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
    return Site(_Line(*_place(url), given, _context(cafile), float(timeout)))


def _place(url: str) -> tuple[bool, str, int | None, str]:
    """Whether an address is secured, its host, its port and its path."""
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
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _context(cafile: str | os.PathLike[str] | None) -> ssl.SSLContext:
    """Certificates are always checked, and names, too."""
    try:
        return ssl.create_default_context(cafile=cafile)
    except (OSError, ssl.SSLError):
        raise InputError(
            "the certificates in cafile cannot be read: give a file in the form PEM"
        ) from None


@dataclass(frozen=True)
class _Answer:
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
    def later(self) -> float | None:
        """After how many seconds to look again, where that is said."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdecimal() else None


@dataclass(frozen=True)
class _Line:
    """Calls to one server.  Each has a connection of its own, and is tried again where that breaks
    off: whatever is called twice does what it does once.
    """

    secured: bool
    host: str
    port: int | None
    path: str
    token: str = field(repr=False)
    context: ssl.SSLContext = field(repr=False)
    timeout: float = 30.0

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> _Answer:
        """The answer to a call, an error of the server included."""
        wait = _FIRST_WAIT
        for left in reversed(range(_TRIES)):
            try:
                answer = self._once(method, path, body, options)
            except ssl.SSLCertVerificationError as fault:
                raise ServerError(
                    f"the certificate of {self.host} is not one to trust ({fault.verify_message}): check the address, "
                    "or give the certificates of your own authority (cafile=)"
                ) from None
            except (OSError, http.client.HTTPException) as fault:
                if not left:
                    raise ServerError(
                        f"{self.host} cannot be reached ({type(fault).__name__}): check the address and the network; "
                        "whatever was asked is asked once"
                    ) from None
                time.sleep(wait * random.uniform(0.5, 1.5))
                wait *= 2
                continue
            pause = answer.later or wait
            if answer.status not in _LATER or not left or pause > _LONGEST_WAIT:
                return answer
            time.sleep(pause)
            wait *= 2
        raise AssertionError("the last try returns or raises")

    def good(self, method: str, path: str, body: Any = None, **options: Any) -> _Answer:
        """The answer to a call; an error of the server is raised."""
        answer = self.call(method, path, body, **options)
        if answer.status >= 300:
            raise _error(answer)
        return answer

    def _once(self, method: str, path: str, body: Any, options: Mapping[str, Any]) -> _Answer:
        query = f"?{urlencode(options)}" if options else ""
        headers = {"authorization": f"Bearer {self.token}", "accept": "application/json"}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            headers["content-type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, f"{self.path}/api/v1{path}{query}", content, headers)
            found = connection.getresponse()
            text = found.read(_LARGEST + 1)
        finally:
            connection.close()
        if not _whole(found, text):
            raise http.client.IncompleteRead(text)
        if len(text) > _LARGEST:
            raise ServerError("the server answered with more than a desk does: check the address")
        names = {key.lower(): value for key, value in found.getheaders()}
        return _Answer(found.status, names, text.decode("utf-8", "replace"))

    def _connection(self) -> http.client.HTTPConnection:
        if self.secured:
            return http.client.HTTPSConnection(
                self.host, self.port, timeout=self.timeout, context=self.context
            )
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)


def _whole(found: http.client.HTTPResponse, text: bytes) -> bool:
    """Whether all of an answer is here: a line that broke off in the middle of it, or of its headers,
    is no error to `http.client`.
    """
    declared = found.getheader("content-length", "")
    if found.chunked or found.status == 204 or len(text) > _LARGEST:
        return True
    return declared == str(len(text))


def _error(answer: _Answer) -> DpinferError:
    """What the server says is wrong, as the error that it is at home."""
    if 300 <= answer.status < 400:
        return ServerError(
            "the server leads elsewhere, and no token goes there: give the address itself"
        )
    try:
        document = json.loads(answer.text)
        words = ": ".join(filter(None, (document["error"], document["remedy"])))
        code = document["code"]
    except (ValueError, KeyError, TypeError):
        return ServerError(
            f"the server answered {answer.status}, and not as a desk does: check the address"
        )
    if code == "lost":
        return NoAnswerError()
    if code == "refused":
        return LedgerError(words)
    if answer.status >= 500 or answer.status == 429:
        return ServerError(words)
    return InputError(words)


@dataclass(frozen=True)
class Check:
    """The cost of a question and whether it would be paid, from `RemoteTable.check`.

    Attributes
    ----------
    names : tuple of str
        The names of the coefficients.
    cost : float
        The cost, in ``measure``.
    measure : str
        What allowances are counted in: epsilon or rho.
    allowed : bool
        Whether the total and the allowance would pay for it now.
    reason : str
        Why they would not.
    left : dict
        What is left of the allowance, and of the total for a next fit.
    waits : bool
        Whether the steward has to approve it.
    warning : str
        What to expect of it.
    hopeless : str
        Why hardly any coefficient could be reported.
    answered : tuple of str
        The ids of answers to the same question, which are free to read.
    """

    names: tuple[str, ...]
    cost: float
    measure: str
    allowed: bool
    reason: str
    left: Mapping[str, float | None]
    waits: bool
    warning: str
    hopeless: str
    answered: tuple[str, ...]


class Site:
    """A desk on a network, made by `connect`."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def __repr__(self) -> str:
        return f"<desk at {self._line.host}>"

    def tables(self) -> dict[str, str]:
        """Return the tables that the analyst may ask.

        Returns
        -------
        dict
            Titles by name.
        """
        found = self._line.good("GET", "/tables").document
        return {line["name"]: line["title"] for line in found["tables"]}

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
            self._line, self._line.good("GET", f"/tables/{quote(name, safe='')}").document
        )

    def questions(self, table: str = "", state: str = "") -> list["Asked"]:
        """Return the analyst's questions, the newest first.

        Parameters
        ----------
        table : str
            The name of a table; by default questions of all tables are returned.
        state : str
            A state; by default questions in any state are returned.

        Returns
        -------
        list of Asked
            The questions.
        """
        chosen = {key: value for key, value in (("table", table), ("state", state)) if value}
        found = self._line.good("GET", "/questions", **chosen).document
        return [Asked(self._line, one) for one in found["questions"]]

    def question(self, ident: str) -> "Asked":
        """Return one question.

        Parameters
        ----------
        ident : str
            Its id.

        Returns
        -------
        Asked
            The question, with its state.
        """
        found = self._line.good("GET", f"/questions/{quote(ident, safe='')}").document
        return Asked(self._line, found)


class RemoteTable:
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
    slots : list of float
        The response times, in seconds from booking to answer.
    measure : str
        What allowances are counted in.
    account, allowance : dict
        The account of the table, and the analyst's allowance.
    """

    def __init__(self, line: _Line, found: Mapping[str, Any]) -> None:
        self._line = line
        self.name: str = found["name"]
        self.title: str = found["title"]
        self.schema = Schema.parse(found["schema"])
        self.records: int | None = found["records"]
        self.counted: bool = found["counted"]
        self.unit: str = found["unit"]
        self.neighbours: str = found["neighbours"]
        self.state: str = found["state"]
        self.policy: dict[str, Any] = found["policy"]
        self.slots: list[float] = found["slots"]
        self.measure: str = found["measure"]
        self.account: dict[str, Any] = found["account"]
        self.allowance: dict[str, Any] | None = found["allowance"]

    def __repr__(self) -> str:
        return f"<table {self.name!r} at {self._line.host}>"

    def check(self, formula: str, budget: Total, **keys: Any) -> Check:
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
        Check
            Coefficients, cost, and whether total and allowance would pay.
        """
        found = self._line.good(
            "POST", f"{self._path}/check", _question(formula, budget, keys)
        ).document
        names = tuple(found.pop("names"))
        return Check(names=names, answered=tuple(found.pop("answered")), **found)

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
            ident = self._line.good("POST", f"{self._path}/forecasts", body).document["id"]
            answer = self._line.call("GET", f"/forecasts/{ident}")
            while answer.status == 202 and time.monotonic() < until:
                time.sleep(answer.later or _LOOK_AGAIN)
                answer = self._line.call("GET", f"/forecasts/{ident}")
            if answer.status == 404:  # the server was started anew
                time.sleep(_LOOK_AGAIN)
                continue
            if answer.status == 200:
                return Forecast.from_json(answer.text)
            if answer.status != 202:
                raise _error(answer)
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
    ) -> "Asked":
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
        Asked
            The question, to ``wait()`` for.
        """
        body = _question(formula, budget, keys)
        chosen = {name: "true" for name, on in (("again", again), ("anyway", anyway)) if on}
        path = f"{self._path}/questions/{quote(key or str(uuid.uuid4()), safe='')}"
        return Asked(self._line, self._line.good("PUT", path, body, **chosen).document)

    def answers(self) -> list["Answer"]:
        """Return past answers that are free to read, the newest first.

        Returns
        -------
        list of Answer
            The answers, each with its ``result()``.
        """
        found = self._line.good("GET", f"{self._path}/answers").document
        return [Answer(self._line, one) for one in found["answers"]]

    @property
    def _path(self) -> str:
        return f"/tables/{quote(self.name, safe='')}"


def _question(formula: str, budget: Total, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a question, checked here as the server will check them."""
    if not isinstance(budget, ZCDP | ApproxDP | PureDP):
        raise InputError(
            "a question needs a budget: give dp.ApproxDP(1.0, 1e-6), dp.ZCDP(0.1) or dp.PureDP(1.0)"
        )
    return Question.of({"formula": formula, **keys, **vars(budget)}).keys()


class Answer:
    """A question that was answered, as everybody who may ask the table can read it."""

    def __init__(self, line: _Line, found: Mapping[str, Any]) -> None:
        self._line = line
        self.id: str = found["id"]
        self.table: str = found["table"]
        self.question = dict(found["question"])
        self.cost: float = found["cost"]
        self.release: str = found["release"]

    def __repr__(self) -> str:
        return f"<answer {self.id[:12]}: {self.question['formula']}>"

    def result(self) -> FitResult:
        """Return the result of the fit.

        Returns
        -------
        FitResult
            The same as from a fit on this machine.
        """
        return FitResult.from_json(self._line.good("GET", f"/questions/{self.id}/result.json").text)


class Asked(Answer):
    """A question of the analyst's own.

    ``state``, and ``told``, the state in a sentence, are as of the last `refresh`; ``due`` is when
    the answer is shown, once the question is booked.
    """

    def __init__(self, line: _Line, found: Mapping[str, Any]) -> None:
        super().__init__(line, found)
        self.key: str = found["key"]
        self._seen(found)

    def __repr__(self) -> str:
        return f"<question {self.id[:12]}: {self.question['formula']}, {self.state}>"

    def _seen(self, found: Mapping[str, Any]) -> None:
        self.state: str = found["state"]
        self.told: str = found["told"]
        self.reason: str = found["reason"]
        self.due: str = found["due"]
        self.release = found["release"]

    def refresh(self) -> "Asked":
        """Ask the server for the state of the question, and return the question."""
        self._seen(self._line.good("GET", f"/questions/{self.id}").document)
        return self

    def wait(self, timeout: float | None = None) -> FitResult:
        """Wait for the result.

        It comes after a public response time, which does not depend on the data.  The method may be
        called again, also on another machine, by `Site.question`.

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
            answer = self._line.call("GET", f"/questions/{self.id}/result.json")
            if answer.status != 425:
                break
            pause = answer.later or _LOOK_AGAIN
            if time.monotonic() + pause > until:
                raise ServerError("the answer is not there yet: wait again, it is asked once")
            time.sleep(pause)
        if answer.status != 200:
            raise _error(answer)
        self.refresh()
        return FitResult.from_json(answer.text)

    def withdraw(self) -> "Asked":
        """Take the question back before it is booked; that is free."""
        answer = self._line.call("DELETE", f"/questions/{self.id}")
        self.refresh()
        if answer.status >= 300 and self.state != "withdrawn":  # a first try may have done it
            raise _error(answer)
        return self
