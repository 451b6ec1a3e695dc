"""The pages of an analyst, called in this process: what was typed comes back, what an answer shows, and to whom."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import urlencode

import pytest

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer.result.estimates import PEEK
from dpinfer_desk.store.accounts import IDLE, SESSION
from dpinfer_desk.store.tickets import Ticket
from dpinfer_desk.web.question_code import in_python, in_r
from helpers import asgi
from helpers.calling import Site
from helpers.hostile import HOSTILE
from helpers.serving import KINDS, served, worked
from helpers.visits import question

FORM = "application/x-www-form-urlencoded"
ORIGIN = f"http://{asgi.HOST}"
ASK = "/t/visits/ask?formula=visit+~+age&rho=0.1"
CONFIRM = "/t/visits/confirm?formula=visit+~+age&rho=0.1"


class Clock:
    """The time, as far ahead as a test wants it."""

    def __init__(self):
        self.ahead = timedelta()

    def __call__(self):
        return datetime.now(UTC) + self.ahead


class Browser:
    """A browser of one person: its cookie, and the pages that it has opened."""

    def __init__(self, site, person):
        self.site = site
        self.cookie = site.accounts.open_session(person)

    def get(self, path, **headers):
        return asgi.request(self.site.app, "GET", path, [*self._cookie, *headers.items()])

    def csrf_token(self, path="/sign-in"):
        return self.get(path).text.partition('name="form" value="')[2].partition('"')[0]

    def post(self, path, fields=(), page="/sign-in", **headers):
        body = urlencode({"form": self.csrf_token(page), **dict(fields)}).encode()
        sent = {"origin": ORIGIN, "content-type": FORM, "referer": ORIGIN + page} | headers
        return asgi.request(self.site.app, "POST", path, [*self._cookie, *sent.items()], body)

    def sign_in(self, person):
        """Sign in with whatever cookie there is, and keep the new one."""
        fields = {"person": person, "password": PASSWORD}
        reply = self.post("/sign-in", fields, "/sign-in")
        self.cookie = reply.headers["set-cookie"].partition("=")[2].partition(";")[0]
        return reply

    @property
    def _cookie(self):
        return [("cookie", f"desk={self.cookie}")]


PASSWORD = "some words that do not belong together"


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path, clock=Clock())
    found.clock = found.desk.clock
    return found


def asked(site, formula="visit ~ age", rho=0.1, by="a.meier", **keys):
    return site.desk.ask("visits", question(formula, rho, **keys), by)


def send(browser, key, **fields):
    fields = {"formula": "visit ~ age", "rho": "0.1", "key": key} | fields
    return browser.post("/t/visits/questions", fields, CONFIRM)


# Refused forms


def test_a_refused_form_has_what_was_typed_and_the_fault_at_its_field(site):
    """On the page that forecasts, on the one that confirms, and when the question is sent."""
    mine = Browser(site, "a.meier")
    typed = {"formula": "visit ~ agee", "rho": "a,5", "level": "0,9", "title": "Why <so>?"}
    for reply in (
        mine.get(f"/t/visits/ask?{urlencode(typed | {'go': 'forecast'})}"),
        mine.get(f"/t/visits/confirm?{urlencode(typed)}"),
        send(mine, "1" * 32, **typed),
    ):
        assert reply.status == 400
        shown = unescape(reply.text)
        assert "Nothing was asked, and nothing was spent." in shown
        for words, field in (("did you mean 'age'?", "formula"), ("ρ must be a number", "rho")):
            fault = re.search(rf'<span class="fault" id="fault-{field}">(.*?)</span>', shown)[1]
            assert words in fault
            assert f'aria-invalid="true" aria-describedby="fault-{field}"' in shown
            assert f'href="#field-{field}"' in shown
        for value in typed.values():
            assert value in shown
        assert "fault-level" not in shown
        assert "<so>" not in reply.text
    assert site.desk.tickets() == []


def test_a_question_that_is_refused_comes_back_to_be_confirmed(site):
    """With its title and its key: over the limit, over the allowance, and asked already, which needs a tick."""
    mine = Browser(site, "a.meier")
    first = send(mine, "1" * 32, title="First")
    assert first.status == 303
    again = send(mine, "2" * 32, title="Once more")
    assert again.status == 409
    assert "The same question was asked already" in unescape(again.text)
    assert 'name="again" value="yes"' in again.text
    assert 'value="Once more"' in again.text
    assert f'name="key" value="{"2" * 32}"' in again.text
    assert "--again" not in again.text
    assert send(mine, "2" * 32, again="yes").status == 303
    dear = send(mine, "3" * 32, rho="0.9")
    assert dear.status == 409
    assert "It cannot be asked now" in dear.text
    assert send(mine, "4" * 32, formula="visit ~ income").status == 303
    full = send(mine, "5" * 32, formula="visit ~ health")
    assert full.status == 409
    assert "has 3 open questions at visits" in unescape(full.text)
    assert len(site.desk.tickets()) == 3


def test_hardly_any_coefficient_needs_a_tick(site):
    mine = Browser(site, "a.meier")
    fields = {"rho": "0.00001"}
    shown = mine.get(f"/t/visits/confirm?{urlencode({'formula': 'visit ~ age'} | fields)}").text
    assert 'name="anyway" value="yes"' in shown
    refused = send(mine, "1" * 32, **fields)
    assert refused.status == 409
    assert "--anyway" not in refused.text
    assert send(mine, "1" * 32, anyway="yes", **fields).status == 303


def test_the_limit_of_open_questions_is_shown_before_it_is_reached(site):
    mine = Browser(site, "a.meier")
    for number in range(3):
        assert f"You have {number} of at most 3 open questions" in mine.get(ASK).text
        shown = mine.get(CONFIRM).text
        assert f"{number} of at most 3" in shown
        assert 'id="send"' in shown
        asked(site, rho=0.01 + number / 100)
    shown = mine.get(CONFIRM).text
    assert "It cannot be asked now" in shown
    assert 'id="send"' not in shown
    assert "You can forecast, but not ask now" in mine.get(ASK).text
    assert "You have 0 of at most 3" in Browser(site, "b.okafor").get(ASK).text


def test_a_question_file_comes_back_with_its_text(site):
    mine = Browser(site, "a.meier")
    text = 'formula = "visit ~ age"\nledger = "</textarea>"\n'
    reply = mine.post("/t/visits/file", {"file": text}, ASK)
    assert reply.status == 400
    assert text in unescape(reply.text).replace("\r", "")
    assert '</textarea>"' not in reply.text
    assert re.search(r'id="fault-file">[^<]*ledger', reply.text)
    assert (
        mine.post("/t/visits/file", {"file": text.partition("\n")[0]}, ASK).status == 400
    )  # no budget
    whole = 'formula = "visit ~ age"\nrho = 0.1\n'
    assert mine.post("/t/visits/file", {"file": whole}, ASK).status == 303


def test_a_form_of_another_session_leads_back_to_its_page(site):
    mine = Browser(site, "a.meier")
    fields = {"form": "0" * 64, "key": "1" * 32}
    reply = mine.post("/t/visits/questions", fields, CONFIRM)
    assert reply.status == 403
    assert "Nothing was done, and nothing was spent." in reply.text
    assert f'href="{CONFIRM}"' in unescape(reply.text)
    for elsewhere in (
        "https://evil.example/x",
        f"http://evil@{asgi.HOST}/x",
        "//evil.example",
        "x[",
    ):
        reply = mine.post("/t/visits/questions", fields, CONFIRM, referer=elsewhere)
        assert "Back to the form" not in reply.text
        assert "evil" not in reply.text


def test_no_page_names_an_option_of_a_command(site):
    """Nor does what the desk says when it refuses."""
    mine = Browser(site, "a.meier")
    ticket = asked(site, rho=0.3)
    pages = [
        *(
            mine.get(path)
            for path in ("/", "/q", ASK, f"{ASK}&go=forecast", CONFIRM, f"/q/{ticket.id}")
        ),
        *(send(mine, "1" * 32, rho=rho) for rho in ("0.3", "9", "0.00001", "x")),
        mine.get(f"/q/{ticket.id}/report"),
    ]
    for reply in pages:
        words = re.sub(r"<[^>]*>", " ", reply.text)
        assert not re.search(r"(?<![\w-])--[a-z]", words), words


# A session that has ended


def with_passwords(site, *people):
    for person in people:
        site.accounts.set_password(person, PASSWORD)


def test_guarantee_return_to_own_question(site):
    """Its person is led back to the typed question; nobody else, also in the same browser, nor another browser."""
    with_passwords(site, "a.meier", "b.okafor")
    typed = "/t/visits/ask?formula=visit+~+log%28age%29&rho=0.123&title=secret"
    for ended in (IDLE, SESSION):
        mine = Browser(site, "a.meier")
        assert mine.get(typed).status == 200
        site.clock.ahead += ended + timedelta(seconds=1)
        reply = mine.get(typed)
        assert (reply.status, reply.headers["location"], reply.content) == (303, "/sign-in", b"")
        assert "secret" not in mine.get("/sign-in").text
        back = mine.sign_in("a.meier")
        assert (back.status, back.headers["location"]) == (303, typed)
        assert mine.get(typed).status == 200
    # Somebody else in the same browser: the address is forgotten, also for the one who typed it.
    mine = Browser(site, "a.meier")
    site.clock.ahead += IDLE + timedelta(seconds=1)
    mine.get(typed)
    ended = mine.cookie
    assert mine.sign_in("b.okafor").headers["location"] == "/"
    mine.cookie = ended
    assert mine.sign_in("a.meier").headers["location"] == "/"
    # Another browser, or a wrong password.
    mine = Browser(site, "a.meier")
    site.clock.ahead += IDLE + timedelta(seconds=1)
    mine.get(typed)
    other = Browser(site, "a.meier")
    other.cookie = "unknown"
    assert other.sign_in("a.meier").headers["location"] == "/"
    wrong = mine.post("/sign-in", {"person": "a.meier", "password": "wrong"})
    assert wrong.status == 403
    assert "secret" not in wrong.text
    assert 'value="a.meier"' in wrong.text  # the name comes back, the password does not
    assert mine.sign_in("a.meier").headers["location"] == typed
    # A session that somebody has ended, and nobody's.
    mine = Browser(site, "a.meier")
    site.accounts.close_sessions("a.meier")
    assert mine.get(typed).headers["location"] == "/sign-in"
    assert mine.sign_in("a.meier").headers["location"] == "/"


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example/?x=1",
        "/\\evil.example/?x=1",
        "/\t/evil.example?x=1",
        "/%2F%2Fevil.example?x=1",
    ],
)
def test_nobody_is_led_to_another_site(site, path):
    with_passwords(site, "a.meier")
    mine = Browser(site, "a.meier")
    site.clock.ahead += IDLE + timedelta(seconds=1)
    mine.get("/t/visits/ask")
    mine.get(path)
    mine.post("/t/visits/questions", {}, referer="https://evil.example/t/visits?x=1")
    mine.post("/t/visits/questions", {}, referer=f"{ORIGIN}//evil.example/?x=1")
    address = mine.sign_in("a.meier").headers["location"]
    assert re.fullmatch(r"/(t/visits/ask|evil\.example/\?x=1)", address), address


def test_a_question_that_was_sent_too_late_comes_back(site):
    """Its body is not read, but its page has the question in its address; a poll does not take its place."""
    with_passwords(site, "a.meier")
    mine = Browser(site, "a.meier")
    site.clock.ahead += IDLE + timedelta(seconds=1)
    assert mine.post("/t/visits/questions", {"formula": "visit ~ age"}, CONFIRM).status == 303
    assert mine.get("/q").status == 303
    assert mine.sign_in("a.meier").headers["location"] == CONFIRM
    assert site.desk.tickets() == []


# What ε means


def test_the_form_says_what_its_budget_means(site):
    mine = Browser(site, "a.meier")
    shown = mine.get("/t/visits/ask?formula=visit+~+age&epsilon=0,5&delta=1e-6").text
    assert "A suspicion of 5 in 100 about one person can become at most 9 in 100." in shown
    assert 'class="suspected"' in shown
    assert "All questions to this table together" in shown
    chosen = mine.get("/t/visits/ask?formula=visit+~+age&rho=0.2&preset=1").text
    assert 'name="epsilon" size="8" value="1"' in chosen
    assert "at most 14 in 100" in chosen
    faulty = mine.get("/t/visits/ask?formula=visit+~+age&epsilon=x")
    assert faulty.status == 200
    assert 'class="suspected"' not in faulty.text
    assert "A suspicion of 5 in 100" in mine.get(CONFIRM).text


# Waiting, and the answer


def test_nothing_loads_itself_again(site):
    """Axe finds a page that does; there is a link instead, and times that a script can show."""
    mine = Browser(site, "a.meier")
    for state, ticket in (("In line", asked(site)), ("Waiting for approval", asked(site, rho=0.3))):
        shown = mine.get(f"/q/{ticket.id}").text
        assert 'http-equiv="refresh"' not in shown
        assert f">{state}</span>" in shown
        assert 'aria-live="polite"' in shown
        assert f'<a href="/q/{ticket.id}">Look again</a>' in shown
        assert re.search(r'<time datetime="20[0-9-]{8}T[0-9:]{8}Z">', shown)
    listed = mine.get("/q?state=In+line").text
    assert "visit ~ age" in listed
    assert mine.get("/q?state=queued").text.count("In line") == listed.count("In line")
    assert "visit ~ age" not in mine.get("/q?state=Ready").text
    assert "visit ~ age" not in mine.get("/q?state=nothing").text


def test_looking_again_without_a_script_asks_the_server_each_time(site):
    """A browser follows a link to the address of its own page and a place on it without a request."""
    site.services.forecasts.get = lambda *_: None  # it never ends
    mine = Browser(site, "a.meier")
    address = f"{ASK}&go=forecast"
    for _ in range(3):
        link = re.search(r'<noscript><p><a href="([^"#]*)#forecast">', mine.get(address).text)[1]
        assert unescape(link) != address
        address = unescape(link)


def test_a_forecast_shows_its_progress_and_its_chart_first(site):
    mine = Browser(site, "a.meier")
    under_way = mine.get(f"{ASK}&go=forecast&script=yes").text
    assert re.search(r"\d+ of 20 fits on made-up records are done", under_way)
    assert "<progress " in under_way
    assert 'http-equiv="refresh"' not in under_way
    shown = mine.get(f"{ASK}&go=forecast").text
    assert 0 < shown.index('<svg class="wide"') < shown.index("What each budget costs")


DOWNLOADS = ("report.html", "coefficients.csv", "forest.png", "result.json")


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A desk with an answer, which is shared with nobody."""
    site = Site(tmp_path_factory.mktemp("answered"))
    with worked(site):
        ticket = asked(site, "visit ~ age + health", 0.12, title="Age & health", level=0.9)
        site.before = {path: page(site, ticket, path).status for path in ("report", *DOWNLOADS)}
        with served(site, KINDS[0]) as found:
            dp.connect(found, site.tokens["a.meier"]).question(ticket.id).wait()
    return site, site.desk.ticket(ticket.id)


def page(site, ticket, path="", by="a.meier"):
    return Browser(site, by).get(f"/q/{ticket.id}" + (f"/{path}" if path else ""))


def test_the_page_of_an_answer_has_the_estimates_and_the_downloads(answered):
    """After its public time and not before; to nobody else is it there at all."""
    site, ticket = answered
    assert set(site.before.values()) == {400}
    shown = page(site, ticket).text
    result = site.desk.result(ticket.id)
    for row in result.table(0.9):
        assert row["name"] in shown
    assert "90% interval" in shown
    assert 'class="inner"' in shown  # a bar of the forest plot
    kinds = {}
    for name in DOWNLOADS:
        assert f'href="/q/{ticket.id}/{name}" download' in shown
        reply = page(site, ticket, name)
        kinds[name] = reply.headers["content-type"].partition(";")[0]
        assert reply.headers["content-disposition"].startswith("attachment; filename=")
    assert list(kinds.values()) == ["text/html", "text/csv", "image/png", "application/json"]
    assert page(site, ticket, "forest.png").content.startswith(b"\x89PNG")
    back = f'<a href="/q/{ticket.id}">Back to the question</a>'
    assert back in page(site, ticket, "report").text
    assert "Back to the question" not in page(site, ticket, "report.html").text
    stranger = Browser(site, "c.outside")
    missing = {
        (reply.status, re.sub("<time.*?</time>", "", reply.text))
        for ident in (ticket.id, "0" * 32)
        for name in ("", "/report", *(f"/{name}" for name in DOWNLOADS))
        for reply in (stranger.get(f"/q/{ident}{name}"),)
    }
    assert [status for status, _ in missing] == [404]


def code_of(site, ticket, language, by="a.meier"):
    shown = page(site, ticket, by=by).text
    return unescape(
        re.search(rf'<pre id="code-{language}".*?<code>(.*?)</code>', shown, re.DOTALL)[1]
    )


def test_the_code_of_a_question_reads_its_answer_and_asks_nothing_again(
    answered, monkeypatch, capsys
):
    site, ticket = answered
    monkeypatch.setenv("DPINFER_TOKEN", site.tokens["a.meier"])
    text = code_of(site, ticket, "Python")
    assert f"http://{asgi.HOST}" in text
    with served(site, KINDS[-1]) as address:
        names = {}
        exec(compile(text.replace(f"http://{asgi.HOST}", address), "page", "exec"), names)
    assert names["asked"].id == ticket.id
    assert names["result"].to_json() == site.desk.result(ticket.id).to_json()
    assert "health[fair]" in capsys.readouterr().out
    assert len(site.desk.tickets()) == 1
    assert ticket.key not in code_of(site, ticket, "Python", by="t.audit")
    assert ticket.key not in code_of(site, ticket, "R", by="s.berg")


@pytest.mark.parametrize("text", HOSTILE)
def test_code_keeps_hostile_texts_as_texts(text):
    """In Python they are what they were; in R every letter that could end a text is escaped."""
    title = " ".join(text.split()) or "x"
    keys = {"formula": f"`{text}` ~ age", "epsilon": 1.0, "delta": 1e-6, "level": 0.9}
    asked_ = AnalystQuestion(**keys, title=title)
    ticket = Ticket("0" * 32, "visits", "a", "k" * 8, asked_, 0.1, "queued", "")
    heard = []

    class Table:
        def ask(self, *arguments, **keys):
            heard.append((arguments, keys))
            return type(
                "Asked", (), {"wait": lambda _: type("R", (), {"summary": lambda _: ""})()}
            )()

    code = in_python(ticket, "https://stats.example.org", own=True)
    site = type("Site", (), {"table": lambda *_: Table()})()
    connect = type("dp", (), {"connect": lambda _: site, "ApproxDP": dp.ApproxDP})
    exec(code.replace("import dpinfer as dp", ""), {"dp": connect})
    ((formula, budget), options) = heard[0]
    assert (formula, budget) == (keys["formula"], dp.ApproxDP(1.0, 1e-6))
    assert options == {"level": 0.9, "loss": "logistic", "title": title, "key": "k" * 8}
    in_quotes = re.sub(
        r'"(?:[^"\\]|\\.)*"', "", in_r(ticket, "https://stats.example.org", own=False)
    )
    assert "age" not in in_quotes
    assert in_quotes.isascii()
    assert "`" not in in_quotes


def test_what_only_the_holder_of_the_data_can_do_is_not_asked_of_analysts(answered, monkeypatch):
    site, ticket = answered
    monkeypatch.setattr(dp.FitResult, "warnings", lambda _: (f"Look for the reason: {PEEK}.",))
    for path in ("", "report", "report.html"):
        shown = page(site, ticket, path).text
        assert "the steward can compare the table with the schema" in shown
        assert "--peek" not in shown
