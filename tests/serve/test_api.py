"""The interface of a desk, called in this process: who may what, what comes back, and what is sent twice."""

import json
import math
import threading
from datetime import timedelta
from itertools import pairwise

import pytest

import dpinfer as dp
from dpinfer.asking.questions import SECTIONS, question_schema
from dpinfer.asking.spec import RULES
from dpinfer.errors import NO_ANSWER
from dpinfer.privacy.store import link
from dpinfer.result import text
from dpinfer_desk.store import tickets
from dpinfer_desk.store.tables import Policy
from dpinfer_desk.web.api import OPERATIONS
from dpinfer_desk.web.openapi import document, statuses
from dpinfer_desk.web.schemas import BODIES
from dpinfer_desk.worker.worker import Worker
from helpers import api_page
from helpers.calling import KEY, PEOPLE, QUESTION, Site
from helpers.visits import published

BODIES_SENT = {
    "Question": QUESTION,
    "Ahead": QUESTION,
    "Decision": {"approve": True},
    "MomentQuestion": {"question": "age ~ health"},
    "Access": {"amount": 0.5},
    "NewToken": {"scopes": ["read"], "days": 1},
}
NOBODY = "0" * 32


class Clock:
    """A time that tests move."""

    def __init__(self):
        self.ahead = timedelta()

    def __call__(self):
        return tickets.now() + self.ahead


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A desk with one answer, by a.meier, and a question of his that waits."""
    found = Site(tmp_path_factory.mktemp("answered"))
    status, asked = found.ask()
    assert status == 201
    waits = {"formula": "visit ~ income", "rho": 0.3}
    assert found.ask("22222222-waits", question=waits)[1]["state"] == "waiting"
    Worker(found.desk, "fork").run(until_idle=True)
    found.asked = asked["id"]
    found.release = published(found.desk)
    return found


def filled(operation, **names):
    """The address of an operation with names that are fine."""
    given = {
        "table": "visits",
        "key": KEY,
        "question": NOBODY,
        "forecast": NOBODY,
        "analyst": "a.meier",
        "token": "0" * 12,
        "release": NOBODY,
    }
    return operation.path.format(**(given | names))


def sent(site, operation, token=None, path="", headers=()):
    body = BODIES_SENT.get(operation.body)
    return site.reply(
        operation.method, path or filled(operation), token=token, body=body, headers=headers
    )


def test_guarantee_token_alone(tmp_path):
    """Every operation, by every role, with every scope, and with tokens that are none any more."""
    clock = Clock()
    site = Site(tmp_path, clock=clock)
    gone = site.token("s.berg")
    site.accounts.revoke_token("s.berg", site.accounts.tokens("s.berg")[0].id)
    clock.ahead = timedelta(days=-2)
    old = site.token("s.berg", days=1)
    clock.ahead = timedelta()
    site.desk.add_person("f.former")
    site.accounts.open("f.former", "steward", "steward")
    closed = site.token("f.former")
    site.accounts.close("f.former", "steward")
    good = site.tokens["s.berg"]
    none = [None, "", "x", gone, old, closed, good[:-1], good + "A", good.upper()]
    cookie = [("cookie", f"desk={good}; token={good}")]
    before = site.desk.export_journal()
    for operation in OPERATIONS:
        if not operation.roles:
            assert sent(site, operation).status == 200
            continue
        replies = [sent(site, operation, token) for token in none]
        replies += [sent(site, operation, headers=cookie)]
        for scheme in (f"Basic {good}", good, f"Bearer{good}", "Bearer"):
            replies.append(sent(site, operation, headers=[("authorization", scheme)]))
        replies.append(sent(site, operation, good, headers=[("authorization", f"Bearer {good}")]))
        assert {reply.status for reply in replies} == {401}, operation.name
        assert len({reply.content for reply in replies}) == 1
        assert {reply.headers["www-authenticate"] for reply in replies} == {"Bearer"}
    assert site.desk.export_journal() == before
    kinds = (("read",), ("ask",), ("read", "ask"))
    tokens = {(person, kind): site.token(person, kind) for person in PEOPLE for kind in kinds}
    for operation in filter(lambda one: one.roles, OPERATIONS):
        for person, role in PEOPLE.items():
            for scopes in kinds:
                status = sent(site, operation, tokens[person, scopes]).status
                may = role in operation.roles and operation.scope in scopes
                if operation.name == "make_token" and "read" not in scopes:
                    may = False
                assert (status == 403) is not may, (operation.name, role, scopes, status)
                assert status < 500
                assert status in (403, 404) or may


def test_what_is_refused_by_role_changes_nothing(site):
    """The test above has power over changes, too: what is allowed does leave events."""
    read = {person: site.token(person, ("read",)) for person in PEOPLE}
    before = site.desk.export_journal()
    for operation in OPERATIONS:
        for person, role in PEOPLE.items():
            if operation.roles and (role not in operation.roles or operation.scope == "ask"):
                sent(site, operation, read[person])
    assert site.desk.export_journal() == before
    assert site.ask()[0] == 201
    assert site.desk.export_journal() != before


def test_guarantee_equal_nowhere(answered):
    """Two analysts walk each other's ids, and ids that nobody has."""
    waiting = answered.desk.tickets(states=("waiting",))[0].id
    _, ahead = answered.call("POST", "/tables/visits/forecasts", "a.meier", QUESTION)
    places = {"question": waiting, "forecast": ahead["id"], "table": "visits"}
    places["release"] = answered.release
    own = answered.accounts.tokens("a.meier")[0].id
    for operation in OPERATIONS:
        if not operation.parts or "analyst" not in operation.roles:
            continue
        by = "c.outside" if operation.parts[0] == "table" else "b.okafor"
        part = operation.parts[0]
        theirs = filled(operation, **places, token=own)
        nowhere = filled(operation, table="none", token="f" * 12)
        bad = filled(operation, **{part: "..%2F" if part == "table" else "A"})
        found = [
            sent(answered, operation, answered.tokens[by], path) for path in (theirs, nowhere, bad)
        ]
        assert [reply.status for reply in found] == [404, 404, 404], operation.name
        assert len({(reply.content, str(reply.headers)) for reply in found}) == 1
        if operation.method == "GET":  # the test has power
            mine = sent(answered, operation, answered.tokens["a.meier"], theirs)
            assert mine.status != 404, operation.name
    unknown = answered.reply("GET", "/nothing/at/all", "b.okafor")
    assert unknown.content == found[0].content
    assert answered.desk.ticket(waiting).state == "waiting"
    assert answered.accounts.by_token(answered.tokens["a.meier"]) is not None


def test_a_moment_release_is_asked_for_free(answered):
    """By each analyst of the table, without a ticket, with the answers of its file."""
    before = answered.desk.account("visits").entries
    path = f"/tables/visits/releases/{answered.release}"
    status, listed = answered.call("GET", "/tables/visits/releases", "b.okafor")
    (line,) = listed["releases"]
    assert (status, line["release"], line["budget"]) == (200, answered.release, {"rho": 0.05})
    file = answered.reply("GET", path, "b.okafor").content.decode()
    release = dp.MomentRelease.from_json(file)
    assert line["columns"] == list(release.names[1:])
    question = {"question": "age ~ health + visit"}
    status, told = answered.call("POST", f"{path}/answers", "b.okafor", question)
    assert status == 200
    assert told["figure"] is None
    result = dp.FitResult.from_json(json.dumps(told["result"]))
    assert result.to_json() == release.ols(question["question"]).to_json()
    question = {"question": "mean(age)", "level": 0.9}
    _, told = answered.call("POST", f"{path}/answers", "t.audit", question)
    assert told["result"] is None
    assert told["figure"]["low"] == release.mean("age", 0.9).low
    for wrong in ("nonsense", "mean(nothing)", "age ~ log(income)", "x" * 4001):
        status, error = answered.call("POST", f"{path}/answers", "b.okafor", {"question": wrong})
        assert (status, error["code"]) == (400, "input")
    assert answered.call("GET", path, "c.outside")[0] == 404
    assert answered.desk.account("visits").entries == before


def test_a_moment_release_has_a_page(answered):
    page = answered.seen(f"/t/visits/releases/{answered.release}")
    assert "visit + age + income + health" in page
    asked = answered.seen(
        f"/t/visits/releases/{answered.release}?question=age+~+health+%2B+visit&level=0.9"
    )
    release = answered.desk.moment_releases("visits")[0]
    result = release.ols("age ~ health + visit")
    assert "health[poor]" in asked
    row = result.table(0.9)[1]
    assert text.number(row["estimate"], text.decimals_for(row["std_error"])) in asked
    figure = answered.seen(f"/t/visits/releases/{answered.release}?question=mean(age)")
    assert str(release.mean("age")) in figure
    wrong = answered.seen(f"/t/visits/releases/{answered.release}?question=mean(<b>)", 400)
    assert "<b>" not in wrong.partition("<main")[2]
    report = answered.seen(f"/t/visits/releases/{answered.release}/report?question=age+~+health")
    assert "age ~ health" in report
    file = answered.seen(f"/t/visits/releases/{answered.release}/file.json")
    assert dp.MomentRelease.from_json(file).to_json() == release.to_json()
    assert answered.release in answered.seen("/t/visits")


def test_a_key_is_asked_once(site):
    first, asked = site.ask()
    again, same = site.ask()
    assert (first, again) == (201, 200)
    assert same == asked
    for other in (
        {**QUESTION, "rho": 0.11},
        {**QUESTION, "title": "Another"},
        {**QUESTION, "level": 0.9},
        {**QUESTION, "formula": "visit ~ age"},
    ):
        status, fault = site.ask(question=other)
        assert (status, fault["code"]) == (409, "conflict")
    assert site.ask(by="b.okafor")[0] == 201  # a key is its asker's own
    assert len(site.desk.tickets()) == 2
    site.desk.decide(asked["id"], False, "no")
    assert site.ask()[1]["state"] == "declined"
    status, fault = site.ask(question={**QUESTION, "rho": 0.11})
    assert (status, fault["error"]) == (409, "this key was used for another question")
    assert len(site.desk.tickets()) == 2


def test_many_senders_of_one_key(site):
    """Exactly one of them is told that it is new."""
    found = []
    threads = [threading.Thread(target=lambda: found.append(site.ask()[0])) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [200] * 11 + [201]
    assert len(site.desk.tickets()) == 1


def test_what_the_ledger_or_the_desk_refuses(site):
    status, fault = site.ask(question={**QUESTION, "rho": 0.9})
    assert (status, fault["code"]) == (409, "refused")
    assert "the allowance of 'a.meier', 40 % of the total, has 40 % left" in fault["error"]
    assert fault["remedy"].startswith("lower its budget")
    for k in range(3):
        assert site.ask(f"0000000{k}", question={**QUESTION, "rho": 0.01 + k / 100})[0] == 201
    status, fault = site.ask("00000004")
    assert (status, fault["code"]) == (409, "conflict")
    site.desk.pause("visits", "the files are looked at")
    status, fault = site.ask("00000005", by="b.okafor")
    assert (status, fault["code"]) == (409, "refused")
    assert fault == {
        "error": "the table visits is paused",
        "remedy": "contact the steward",
        "code": "refused",
    }


def test_check_and_tables(site):
    status, found = site.call("POST", "/tables/visits/check", "a.meier", QUESTION)
    assert status == 200
    assert found["names"] == ["(Intercept)", "age", "health[fair]", "health[poor]"]
    assert (found["cost"], found["measure"], found["allowed"]) == (0.1, "rho", True)
    assert found["left"]["allowance"] == 0.8
    assert not site.desk.tickets()
    _, listed = site.call("GET", "/tables", "a.meier")
    assert [line["name"] for line in listed["tables"]] == ["visits"]
    assert site.call("GET", "/tables", "c.outside") == (200, {"tables": []})
    _, table = site.call("GET", "/tables/visits", "a.meier")
    assert dp.Schema.parse(table["schema"]).columns["age"].high == 100
    assert table["allowance"]["person"] == "a.meier"
    assert table["account"]["total"] == {"rho": 2.0}
    assert site.call("GET", "/tables/visits", "s.berg")[1]["allowance"] is None
    whole = json.dumps(table)
    assert "parquet" not in whole
    assert "ledger.db" not in whole


def test_results(answered):
    place = f"/questions/{answered.asked}/result"
    for by in ("a.meier", "s.berg", "t.audit", "b.okafor"):  # the policy shares answers
        reply = answered.reply("GET", f"{place}.json", by)
        result = dp.FitResult.from_json(reply.content.decode())
        assert "age" in result.names
    assert answered.reply("GET", f"{place}.json", "c.outside").status == 404
    _, asked = answered.call("GET", f"/questions/{answered.asked}", "a.meier")
    assert asked["release"] == result.privacy.release
    assert asked["state"] == "answered"
    assert answered.reply("GET", f"/questions/{answered.asked}", "b.okafor").status == 404
    table = answered.reply("GET", f"{place}.csv", "a.meier")
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert b"age" in table.content
    page = answered.reply("GET", f"{place}.html", "a.meier")
    assert page.headers["content-security-policy"].startswith(
        "default-src 'none'; style-src 'sha256-"
    )
    assert b"<script" not in page.content
    _, answers = answered.call("GET", "/tables/visits/answers", "b.okafor")
    assert [line["id"] for line in answers["answers"]] == [answered.asked]
    assert "a.meier" not in json.dumps(answers)
    _, seen = answered.call("POST", "/tables/visits/check", "b.okafor", QUESTION)
    assert seen["answered"] == [answered.asked]
    status, fault = answered.ask("33333333", by="b.okafor")
    assert (status, fault["code"]) == (409, "conflict")


def test_answers_that_are_not_shared(answered):
    answered.desk.set_policy("visits", Policy("above", 0.2, shared=False))
    try:
        place = f"/questions/{answered.asked}/result.json"
        assert answered.reply("GET", place, "b.okafor").status == 404
        assert answered.reply("GET", place, "a.meier").status == 200
        found = answered.call("GET", "/tables/visits/answers", "b.okafor")
        assert found == (200, {"answers": []})
    finally:
        answered.desk.set_policy("visits", Policy("above", 0.2))


def test_too_early_lost_and_none(tmp_path, answered):
    clock = Clock()
    site = Site(tmp_path, clock=clock)
    ident = site.ask()[1]["id"]
    place = f"/questions/{ident}/result.json"
    early = site.reply("GET", place, "a.meier")
    assert (early.status, "retry-after" in early.headers) == (425, False)
    assert site.reply("GET", place, "b.okafor").status == 404
    register = site.desk.register
    register.move(ident, ("queued",), "claimed", "worker", slot=60.0)
    register.move(
        ident, ("claimed",), "booked", "worker", booked=clock().isoformat(), release="f" * 32
    )
    states = []
    for outcome in ("booked", "failed"):
        register.settle(ident, outcome)
        early = site.reply("GET", place, "a.meier")
        assert (early.status, early.headers["retry-after"]) == (425, "60")
        states.append(site.reply("GET", f"/questions/{ident}", "a.meier").content)
    assert len(set(states)) == 1, "nothing is shown of what has happened to the fit"
    clock.ahead = timedelta(seconds=61)
    lost = site.reply("GET", place, "a.meier")
    assert lost.status == 410
    document_ = json.loads(lost.content)
    assert f"{document_['error']}: {document_['remedy']}" == NO_ANSWER
    assert site.reply("GET", place, "b.okafor").status == 404
    other = site.ask("44444444", question={"formula": "visit ~ age", "rho": 0.01})[1]["id"]
    assert site.call("DELETE", f"/questions/{other}", "a.meier")[1]["state"] == "withdrawn"
    status, fault = site.call("GET", f"/questions/{other}/result.json", "a.meier")
    assert (status, fault["code"]) == (409, "conflict")
    status, fault = site.call("DELETE", f"/questions/{ident}", "a.meier")
    assert (status, fault["code"]) == (409, "conflict")


def test_the_steward_decides(site):
    ident = site.ask(question={**QUESTION, "rho": 0.3})[1]["id"]
    place = f"/questions/{ident}/decision"
    bad = site.call("POST", place, "s.berg", {"reason": "no word of approval"})
    assert bad[0] == 400
    status, fault = site.call("POST", place, "s.berg", {"approve": False})
    assert (status, fault["remedy"]) == (400, "give one")
    status, found = site.call("POST", place, "s.berg", {"approve": False, "reason": "too wide"})
    assert (status, found["state"], found["reason"]) == (200, "declined", "too wide")
    assert site.call("POST", place, "s.berg", {"approve": True})[0] == 409
    event = site.desk.journal()[-1]
    assert (event.who, event.action) == ("s.berg", "declined")
    _, listed = site.call("GET", "/questions?state=declined&limit=5", "t.audit")
    assert [one["id"] for one in listed["questions"]] == [ident]
    assert site.call("GET", "/questions", "b.okafor")[1] == {"questions": []}


def test_allowances_and_access(site):
    place = "/tables/visits/analysts/c.outside"
    assert site.call("PUT", place, "s.berg", {"state": "active"})[0] == 400
    assert site.call("PUT", place, "s.berg", {})[0] == 400
    status, found = site.call("PUT", place, "s.berg", {"amount": 0.3})
    assert (status, found["amount"], found["state"]) == (200, 0.3, "active")
    assert site.ask(by="c.outside")[0] == 201
    site.call("PUT", place, "s.berg", {"state": "revoked", "reason": "has left"})
    assert site.ask("55555555", by="c.outside")[0] == 404
    assert site.desk.tickets(by="c.outside")[0].state == "declined"
    assert (
        site.reply("PUT", "/tables/visits/analysts/nobody", "s.berg", {"amount": 1}).status == 404
    )
    _, all_ = site.call("GET", "/tables/visits/analysts", "t.audit")
    assert {one["person"] for one in all_["analysts"]} == {"a.meier", "b.okafor", "c.outside"}
    assert all_["measure"] == "rho"


def test_ledger_and_journal_can_be_checked_offline(answered):
    for path in ("/tables/visits/ledger", "/journal"):
        status, lines = answered.call("GET", path, "t.audit")
        assert status == 200
        rows = [json.loads(line) for line in lines.decode().splitlines()]
        chain = [(row["number"], row["body"], row["hash"]) for row in rows]
        assert len(chain) > 1
        assert chain[0] == link(None, chain[0][1])
        assert all(after == link(before, after[1]) for before, after in pairwise(chain))
    _, account = answered.call("GET", "/tables/visits/account", "t.audit")
    assert account["head"] == answered.desk.table("visits").ledger().verify().head
    assert (account["spent"], account["entries"]) == (pytest.approx(0.15), 2)


def test_guarantee_tokens_of_tokens(tmp_path):
    """A token makes none that does more, lasts longer, or outlives it."""
    clock = Clock()
    site = Site(tmp_path, clock=clock)
    read = site.token("a.meier", ("read",), days=2)
    wider = {"scopes": ["read", "ask"], "days": 1}
    assert site.call("POST", "/tokens", token=read, body=wider)[0] == 403
    maker = site.accounts.by_token(read).token
    with pytest.raises(dp.InputError, match="may do more than itself"):
        site.accounts.make_token("a.meier", ("ask",), 1, "", maker)
    status, made = site.call("POST", "/tokens", token=read, body={"scopes": ["read"], "days": 90})
    assert status == 201
    assert site.accounts.by_token(made["token"]).scopes == ("read",)
    _, third = site.call(
        "POST", "/tokens", token=made["token"], body={"scopes": ["read"], "days": 1}
    )
    clock.ahead = timedelta(days=2, seconds=1)
    assert site.accounts.by_token(made["token"]) is None
    clock.ahead = timedelta()
    assert site.accounts.by_token(third["token"]) is not None
    _, listed = site.call("GET", "/tokens", token=read)
    assert made["id"] in [one["id"] for one in listed["tokens"]]
    assert made["token"] not in json.dumps(listed)
    first = site.accounts.by_token(read).token
    whole = site.accounts.by_token(site.tokens["a.meier"]).token
    assert site.call("DELETE", f"/tokens/{whole}", token=read)[0] == 403
    assert site.reply("DELETE", f"/tokens/{first}", "b.okafor").status == 404
    assert site.reply("DELETE", f"/tokens/{first}", "a.meier").status == 204
    for secret in (read, made["token"], third["token"]):
        assert site.accounts.by_token(secret) is None
    assert site.accounts.by_token(site.tokens["a.meier"]) is not None


def test_forecasts(site):
    body = {**QUESTION, "amounts": [0.05, 0.2]}
    status, found = site.call("POST", "/tables/visits/forecasts", "a.meier", body)
    assert status == 202
    assert site.call("POST", "/tables/visits/forecasts", "a.meier", body)[1] == found
    site.services.forecasts.get(found["id"], "a.meier", patience=60)
    reply = site.reply("GET", f"/forecasts/{found['id']}", "a.meier")
    assert reply.status == 200
    ahead = dp.simulate.Forecast.from_json(reply.content.decode())
    assert ahead.budgets == (dp.ZCDP(0.05), dp.ZCDP(0.2))
    for bad in (
        {**body, "half_width": 0.1},
        {**QUESTION, "coefficient": "age"},
        {**QUESTION, "amounts": []},
        {**QUESTION, "amounts": [0.1] * 7},
        {**QUESTION, "seed": 3},
    ):
        assert site.call("POST", "/tables/visits/forecasts", "a.meier", bad)[0] == 400


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"formula": "visit ~ age", "rho": NaN}',
    b'{"formula": "visit ~ age", "rho": 1, "rho": 0.1}',
    b'{"formula": "visit ~ \\ud800", "rho": 0.1}',
    b'{"formula": "visit ~ age", "rho": 1' + b"0" * 5000 + b"}",
    b"[" * 30_000,
    b'{"a":' * 10_000,
    b'{"formula": "visit ~ age", "rho": true}',
    b'{"formula": "visit ~ age", "rho": 0.1, "ledger": "x"}',
    b'{"formula": "visit ~ age", "rho": 0.1, "like": "/etc/passwd"}',
    b'{"formula": "visit ~ nothing", "rho": 0.1}',
    b'{"formula": "visit ~ (age+income)**9999", "rho": 0.1}',
    b'{"formula": "visit ~ \\u0000", "rho": 0.1}',
    b'{"formula": "visit ~ age", "rho": 0.1, "title": "\\u001b[2J"}',
    b'{"rho": 0.1}',
    b'{"formula": {"a": 1}, "rho": 0.1}',
]


@pytest.mark.parametrize("body", BAD_BODIES)
def test_bad_bodies(answered, body):
    for path in ("/tables/visits/check", "/tables/visits/forecasts"):
        status, fault = answered.call("POST", path, "a.meier", body)
        assert (status, fault["code"]) == (400, "input")
        assert set(fault) == {"error", "remedy", "code"}
    status, fault = answered.call("PUT", "/tables/visits/questions/66666666", "a.meier", body)
    assert (status, fault["code"]) == (400, "input")


def test_other_things_that_are_wrong_with_a_request(answered):
    check = "/tables/visits/check"
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
        "application/json; charset=latin-1",
    ):
        reply = answered.reply("POST", check, "a.meier", QUESTION, headers=[("content-type", kind)])
        assert reply.status == 415
    fine = [("content-type", "Application/JSON; charset=UTF-8")]
    assert answered.reply("POST", check, "a.meier", QUESTION, headers=fine).status == 200
    large = json.dumps({**QUESTION, "title": "x" * 70_000}).encode()
    assert answered.reply("POST", check, "a.meier", large).status == 413
    for query in (
        "x=1",
        "limit=0",
        "limit=1e3",
        "limit=1&limit=2",
        "state=kept",
        "table=",
        "limit=%ff",
    ):
        assert answered.reply("GET", f"/questions?{query}", "a.meier").status == 400, query
    for method in ("POST", "PATCH", "HEAD", "OPTIONS", "TRACE", "get"):
        reply = answered.reply(method, "/questions", "a.meier")
        assert (reply.status, reply.headers["allow"]) == (405, "GET")
    for path in ("/tables/", "/tables/visits/", "//tables", "/tables/visits/../visits", "", "/"):
        assert answered.reply("GET", path, "a.meier").status == 404


def test_guarantee_errors_without_values(site, monkeypatch):
    """A fault of ours and a file that cannot be read tell nothing of what they met."""
    secret = "/srv/data/visits.parquet has 4711 rows"

    def broken(*_, **__):
        raise ZeroDivisionError(secret)

    def locked(*_, **__):
        raise dp.LedgerError(secret)

    monkeypatch.setattr(site.desk.__class__, "tickets", broken)
    reply = site.reply("GET", "/questions", "a.meier")
    assert reply.status == 500
    assert b"4711" not in reply.content
    assert b"ZeroDivisionError, test_api.py line" in reply.content
    monkeypatch.setattr(site.desk.__class__, "tickets", locked)
    reply = site.reply("GET", "/questions", "a.meier")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert b"4711" not in reply.content
    assert b"/srv" not in reply.content


def test_headers_of_every_reply(answered):
    for path in ("/health", "/tables", "/nothing", "/openapi.json"):
        headers = answered.reply("GET", path, "a.meier").headers
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
        assert "access-control-allow-origin" not in headers
        assert "set-cookie" not in headers


def named(node):
    """All names that a document refers to."""
    if isinstance(node, dict):
        found = {node["$ref"]} if "$ref" in node else set()
        return found.union(*map(named, node.values()))
    return set().union(*map(named, node)) if isinstance(node, list) else set()


def test_the_document(site):
    status, found = site.call("GET", "/openapi.json")
    assert status == 200
    assert found == json.loads(json.dumps(document()))
    assert found["openapi"].startswith("3.1")
    known = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert named(found) <= known
    assert sum(len(one) for one in found["paths"].values()) == len(OPERATIONS)
    names = [operation.name for operation in OPERATIONS]
    assert len(names) == len(set(names))
    asked = found["components"]["schemas"]["Question"]
    assert asked == json.loads(json.dumps(question_schema()))
    assert set(asked["properties"]) == set(SECTIONS)
    for operation in OPERATIONS:
        described = found["paths"][operation.path][operation.method.lower()]
        documented = {int(code) for code in described["responses"]}
        assert documented == {*operation.replies, *statuses(operation)}
        assert not 500 <= max(documented) <= 502
        assert described["description"].endswith(".")


def test_the_page_of_the_interface_is_its_operations():
    page = api_page.PAGE.read_text(encoding="utf-8")
    assert api_page.renewed(page) == page, "run `python tests/helpers/api_page.py`"


VALUES = [
    0, 1, -1, 0.5, 0.49, 1.0, 2, 1e-20, 1e-21, 1e20, 1.1e20, 1e8, 10**8, 10**8 + 1, True, False, None,
    "", " ", "a", "a\nb", "x" * 201, "logistic", "linear", "balanced", "rand_hie", "replace", [], [1, 1, 1], [1, 1],
    [1, 1, 0], [1, 1, "a"], {}, float("nan"), float("inf"),
]  # fmt: skip


def allows(schema, value):
    """JSON Schema, for the words that rules use, written by its specification."""
    kinds = {
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "array": isinstance(value, list),
    }
    if not kinds[schema["type"]]:
        return False
    limits = [
        value in schema.get("enum", [value]),
        "minimum" not in schema or value >= schema["minimum"],
        "maximum" not in schema or value <= schema["maximum"],
        "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"],
        "exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"],
        "minLength" not in schema or len(value) >= schema["minLength"],
        "maxLength" not in schema or len(value) <= schema["maxLength"],
        "minItems" not in schema or len(value) >= schema["minItems"],
        "maxItems" not in schema or len(value) <= schema["maxItems"],
        "items" not in schema or all(allows(schema["items"], one) for one in value),
    ]
    return all(limits)


def test_guarantee_one_truth():
    """What a rule takes its JSON Schema allows, and the other way round but for what JSON Schema cannot say."""
    rules = [rule for section in RULES.values() for rule in section.values()]
    rules += [rule for body in BODIES.values() for rule in body.rules.values()]
    seen = set()
    for rule in rules:
        for value in VALUES:
            if isinstance(value, float) and math.isnan(value):
                assert not rule.holds(value)
                continue
            holds = rule.holds(value)
            seen.add(holds)
            assert holds == (allows(rule.schema, value) and rule.besides(value)), (rule, value)
        for word in rule.former:
            assert rule.holds(word)
            assert not allows(rule.schema, word)
    assert seen == {True, False}
