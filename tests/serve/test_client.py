"""`dp.connect` against a running server: asking, waiting, lines that break off, certificates, errors."""

import os
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest

import dpinfer as dp
from dpinfer import client
from dpinfer.errors import NO_ANSWER, NoAnswerError
from helpers.calling import KEY, Site
from helpers.serving import KINDS, Breaking, certificate_in, served, worked
from helpers.visits import SLOT, published

FORMULA = "visit ~ age + health"
BUDGET = dp.ZCDP(0.1)


@pytest.fixture
def quick(monkeypatch):
    """No waiting where a line breaks off."""
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.01)


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("client"))


@pytest.fixture(params=KINDS, scope="module")
def address(request, desk):
    with served(desk, request.param) as found:
        yield found


@pytest.fixture
def table(desk, address):
    return dp.connect(address, desk.tokens["a.meier"]).table("visits")


def test_the_page_for_analysts_runs(tmp_path, monkeypatch):
    """All Python blocks of docs/howto/connect.md, in order, with a server in the place of its address."""
    desk = Site(tmp_path)
    page = (Path(__file__).parents[2] / "docs/howto/connect.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    monkeypatch.setenv("DPINFER_TOKEN", desk.tokens["a.meier"])
    names = {}
    with worked(desk), served(desk, KINDS[-1]) as address:
        for block in blocks:
            exec(
                compile(block.replace("https://stats.example.org", address), "page", "exec"), names
            )
    assert isinstance(names["result"], dp.FitResult)
    assert len(desk.desk.table("visits").ledger().entries()) == 1


def test_what_is_public(desk, address, table, monkeypatch):
    monkeypatch.setenv("DPINFER_TOKEN", desk.tokens["a.meier"])
    site = dp.connect(f"{address}/")
    assert site.tables() == {"visits": "Visits to a doctor, 2024"}
    assert isinstance(table.schema, dp.Schema)
    assert table.schema == desk.desk.table("visits").schema
    assert (table.records, table.counted, table.unit) == (4000, True, "one person")
    assert (table.neighbours, table.measure, table.response_times) == ("replace", "rho", [SLOT])
    assert table.allowance["amount"] == 0.8
    assert desk.tokens["a.meier"] not in repr(site) + repr(table) + repr(vars(site))
    home = dp.simulate.forecast(
        dp.LogisticRegression(FORMULA, schema=table.schema, budget=BUDGET), records=table.records
    )
    assert home.names[1] == "age"


def test_check_and_forecast(table, desk):
    found = table.check(FORMULA, BUDGET)
    assert found.names == ("(Intercept)", "age", "health[fair]", "health[poor]")
    assert (found.cost, found.permitted, found.waits) == (0.1, True, False)
    ahead = table.forecast(FORMULA, BUDGET, amounts=[0.05, 0.2])
    assert ahead.budgets == (dp.ZCDP(0.05), dp.ZCDP(0.2))
    assert ahead.half_width[0, 1] > ahead.half_width[1, 1] > 0
    assert not desk.desk.table("visits").ledger().entries()


def test_what_is_printed_reads_like_a_summary(table):
    """A check, an account and an allowance: one fact per line, in 80 columns, nothing as a dict."""
    asked = table.check(FORMULA, BUDGET)
    for page, words in (
        (asked, ("Coefficients", "4: (Intercept), age", "rho = 0.1", "Can be paid", "yes")),
        (
            table.account,
            ("Total", "rho = 2", "Next question", "may cost up to rho = 2", "0 so far"),
        ),
        (table.allowance, ("The allowance of a.meier", "Spent", "rho = 0", "active")),
    ):
        shown = str(page)
        assert shown == repr(page)
        assert max(map(len, shown.splitlines())) <= 80
        for word in words:
            assert word in shown
        for sign in "{}[]":
            assert sign not in shown.replace("health[fair], health[poor]", "")
    assert table.account["entries"] == 0
    assert isinstance(table.account, dict)
    refused = table.check(FORMULA, dp.ZCDP(1.9))
    assert not refused.permitted
    assert refused.reason in " ".join(str(refused).split())
    shared = client.RemoteAccount(table.account | {"share": 0.0412})
    assert "4.12 % of the total" in str(shared)


def test_former_names_are_still_read(table):
    found = table.check(FORMULA, BUDGET)
    assert table.slots == table.response_times
    assert (found.allowed, found.hopeless) == (found.permitted, found.low_budget)
    asked = table.ask("visit ~ age", dp.ZCDP(0.01))
    assert asked.told == asked.state_message
    asked.withdraw()
    with pytest.raises(AttributeError, match="'RemoteCheck' object has no attribute 'nothing'"):
        _ = found.nothing


def test_a_moment_release_is_fetched_and_asked_here(tmp_path):
    desk = Site(tmp_path)
    with served(desk, KINDS[-1]) as address:
        table = dp.connect(address, desk.tokens["a.meier"]).table("visits")
        assert table.moment_releases() == {}
        with pytest.raises(dp.InputError, match="no moment release"):
            table.moments()
        ident = published(desk.desk)
        assert table.moment_releases() == {ident: "visit + age + income + health"}
        release = table.moments()
        assert table.moments(ident).to_json() == release.to_json()
    (own,) = desk.desk.moment_releases("visits")
    formula = "income ~ age + health"
    assert release.ols(formula).to_json() == own.ols(formula).to_json()


def test_ask_and_wait(tmp_path):
    """The same result as at home, also by the id alone, from another machine."""
    desk = Site(tmp_path)
    with served(desk) as address:
        site = dp.connect(address, desk.tokens["a.meier"])
        table = site.table("visits")
        asked = table.ask(FORMULA, BUDGET, title="Does age matter?", level=0.9)
        assert asked.state == "queued"
        with pytest.raises(dp.ServerError, match="not there yet"):
            asked.wait(timeout=0.5)
        with worked(desk):
            result = asked.wait(timeout=300)
        assert isinstance(result, dp.FitResult)
        assert result.to_json() == desk.desk.result(asked.id).to_json()
        assert asked.state == "answered"
        assert result.privacy.release == asked.release
        assert site.question(asked.id).wait().to_json() == result.to_json()
        assert [one.id for one in site.questions(state="answered")] == [asked.id]
        other = dp.connect(address, desk.tokens["b.okafor"]).table("visits")
        (line,) = other.answers()
        assert line.result().to_json() == result.to_json()
        with pytest.raises(dp.InputError, match="this was answered already"):
            table.ask(FORMULA, BUDGET)
        desk.desk.folder.result(asked.id).unlink()
        with pytest.raises(NoAnswerError) as lost:
            asked.wait()
        assert str(lost.value) == NO_ANSWER


def test_withdrawn_and_declined(table, desk):
    asked = table.ask("visit ~ age", dp.ZCDP(0.01))
    assert asked.withdraw().state == "withdrawn"
    assert asked.withdraw().state == "withdrawn"
    with pytest.raises(dp.InputError, match="there will be no answer, as it was withdrawn"):
        asked.wait()
    other = table.ask("visit ~ age", dp.ZCDP(0.3))
    desk.desk.decide(other.id, False, "ask for less")
    assert other.refresh().state_message == "it was declined: ask for less"
    with pytest.raises(dp.InputError, match="declined: ask for less"):
        other.wait()


@pytest.mark.usefixtures("quick")
def test_lines_that_break_off(desk, address):
    """Whatever is lost on the way, the question is there once."""
    for plan in (
        ["before"],
        ["after"],
        ["middle"],
        ["after", "middle", "before", "after", "after"],
    ):
        with Breaking(address, plan) as broken:
            site = dp.connect(broken, desk.tokens["b.okafor"])
            connection = site._connection
            key = uuid.uuid4().hex
            body = {"formula": "visit ~ age", "rho": 0.02}
            answer = connection.call_or_raise("PUT", f"/tables/visits/questions/{key}", body)
            assert answer.document["key"] == key
            found = [one for one in desk.desk.tickets(by="b.okafor") if one.key == key]
            assert len(found) == 1
            assert answer.status == (201 if plan == ["before"] else 200)
            assert dp.connect(broken, desk.tokens["b.okafor"]).question(found[0].id).withdraw()
    with Breaking(address, ["before"] * 50) as broken:
        start = time.monotonic()
        site = dp.connect(broken, desk.tokens["b.okafor"])
        with pytest.raises(dp.ServerError, match="cannot be reached"):
            site.tables()
        assert time.monotonic() - start < 5


def test_errors_are_those_of_the_desk(desk, address, table):
    with pytest.raises(dp.InputError, match="age2"):
        table.check("visit ~ age2", BUDGET)
    with pytest.raises(
        dp.LedgerError, match=r"has 40 % left, for ρ = 0\.8 at most: lower its budget"
    ):
        table.ask(FORMULA, dp.ZCDP(0.9))
    with pytest.raises(dp.InputError, match="nothing of yours"):
        dp.connect(address, desk.tokens["c.outside"]).table("visits")
    with pytest.raises(dp.InputError, match="token that is good now"):
        dp.connect(address, "x" * 40).tables()
    with pytest.raises(dp.InputError, match="may not do this"):
        dp.connect(address, desk.token("a.meier", ("read",))).table("visits").ask(FORMULA, BUDGET)
    asked = table.ask("visit ~ age", dp.ZCDP(0.01), key=KEY)
    with pytest.raises(dp.InputError, match="this key was used"):
        table.ask("visit ~ age", dp.ZCDP(0.011), key=KEY)
    asked.withdraw()


def test_what_is_wrong_is_told_before_anything_is_sent(table, monkeypatch):
    monkeypatch.setattr(socket, "create_connection", None)
    with pytest.raises(dp.InputError, match="a question has no key 'ledger'"):
        table.ask(FORMULA, BUDGET, ledger="x")
    with pytest.raises(dp.InputError, match="a question needs a budget"):
        table.ask(FORMULA, 1.0)
    with pytest.raises(dp.InputError, match="level must be"):
        table.check(FORMULA, BUDGET, level=2)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://stats.example.org", "everybody on the way"),
        ("http://192.0.2.1:8000", "everybody on the way"),
        ("http://localhost.example.org", "everybody on the way"),
        ("http://127.0.0.1.example.org", "everybody on the way"),
        ("ftp://stats.example.org", "is such as"),
        ("stats.example.org", "is such as"),
        ("https://", "is such as"),
        ("https://[::1", "is such as"),
        ("https://stats.example.org:port", "is such as"),
        ("https://stats.example.org/?a=b", "without anything behind it"),
        ("https://me:secret@stats.example.org", "no name and no password"),
    ],
)
def test_addresses_that_are_refused(url, words):
    with pytest.raises(dp.InputError, match=words):
        dp.connect(url, "token")


def test_addresses_that_are_taken():
    for url in (
        "https://stats.example.org/desk",
        "http://localhost:1",
        "http://[::1]:1",
        "http://127.1.2.3",
    ):
        assert dp.connect(url, "token")


def test_no_token(monkeypatch):
    monkeypatch.delenv("DPINFER_TOKEN", raising=False)
    for token in (None, "", "a b", "a\nb", "ä"):
        with pytest.raises(dp.InputError, match="needs a token"):
            dp.connect("https://stats.example.org", token)


def test_certificates_are_checked(desk, tmp_path):
    files = certificate_in(tmp_path)
    token = desk.tokens["a.meier"]
    with served(desk, KINDS[-1], files) as address:
        assert dp.connect(address, token, cafile=files[0]).tables()
        with pytest.raises(dp.ServerError, match=r"not one to trust .*self.signed"):
            dp.connect(address, token).tables()
        other = address.replace("localhost", "127.0.0.1")
        with pytest.raises(dp.ServerError, match="not one to trust"):
            dp.connect(other, token, cafile=files[0]).tables()
    with pytest.raises(dp.InputError, match="cafile cannot be read"):
        dp.connect(address, token, cafile=files[1] + "none")
    (tmp_path / "empty.pem").write_text("no certificate", encoding="utf-8")
    with pytest.raises(dp.InputError, match="cafile cannot be read"):
        dp.connect(address, token, cafile=tmp_path / "empty.pem")


class Scripted:
    """A server that says what it is told to, once per connection."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = []

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._listen, daemon=True).start()
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __exit__(self, *_):
        self._listener.close()

    def _listen(self):
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # closed while it waited for somebody to connect
                return
            with connection:
                self.asked.append(connection.recv(65536))
                connection.sendall(answer)


def said(status, body=b"", headers=""):
    head = f"HTTP/1.1 {status} x\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


@pytest.mark.usefixtures("quick")
def test_servers_that_are_no_desk():
    """No redirect is followed, so that no token goes elsewhere; what is no answer of a desk is said."""
    away = said(302, headers="location: http://192.0.2.1/\r\n")
    with (
        Scripted(away) as address,
        pytest.raises(dp.ServerError, match="redirects to another address"),
    ):
        dp.connect(address, "token").tables()
    for answer in (said(200, b"<html>"), said(404, b"<html>"), said(500, b"[]")):
        with Scripted(answer) as address, pytest.raises(dp.ServerError, match="check the address"):
            dp.connect(address, "token").tables()
    fault = b'{"error": "the desk is busy", "remedy": "try again", "code": "unavailable"}'
    fine = said(200, b'{"tables": []}')
    with Scripted(said(503, fault), said(503, fault), fine) as address:
        assert dp.connect(address, "token").tables() == {}
    always = [said(503, fault)] * 6
    with Scripted(*always) as address, pytest.raises(dp.ServerError, match="busy: try again"):
        dp.connect(address, "token").tables()
    many = said(429, fault, "retry-after: 3000\r\n")
    with Scripted(many) as address, pytest.raises(dp.ServerError, match="busy"):
        dp.connect(address, "token").tables()


@pytest.mark.usefixtures("quick")
def test_a_forecast_that_is_always_gone(desk, monkeypatch):
    """A server that takes it and knows nothing of it is asked now and then, and no more."""
    slept = []
    clock = SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept))
    monkeypatch.setattr(client, "time", clock)
    with served(desk, KINDS[0]) as address:
        table = dp.connect(address, desk.tokens["a.meier"]).table("visits")
    fault = b'{"error": "nothing here", "remedy": "look elsewhere", "code": "not_found"}'
    gone = [said(202, b'{"id": "0"}'), said(404, fault)]
    server = Scripted(*gone * 10)
    with server as address:
        table._connection = dp.connect(address, "token", timeout=2.0)._connection
        with pytest.raises(dp.ServerError, match="not there yet"):
            table.forecast("visit ~ age", dp.ZCDP(0.1), timeout=10.0)
    assert len(server.asked) == 10
    assert slept == [client._POLL] * 5


@pytest.mark.usefixtures("quick")
def test_a_server_that_says_nothing():
    with Scripted(*[b""] * 6) as address:
        start = time.monotonic()
        with pytest.raises(dp.ServerError, match="cannot be reached"):
            dp.connect(address, "token", timeout=0.2).tables()
        assert time.monotonic() - start < 60


def test_the_client_needs_no_extra():
    """Neither a package nor a web framework is loaded for it."""
    program = (
        "import sys, dpinfer as dp; dp.connect('https://stats.example.org', 'x'); "
        "print([name for name in ('starlette', 'uvicorn', 'requests', 'httpx', 'jinja2', 'typer') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    assert done.stdout == "[]\n"
