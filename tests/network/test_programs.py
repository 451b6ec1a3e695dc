"""Programs at a desk on a network, as the real command serves it: tokens alone, and errors in JSON."""

import json

import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from helpers.servers import Client


@pytest.fixture(scope="module")
def token(site):
    accounts = Accounts(Desk.open(site.folder).register)
    ident, secret = accounts.make_token("a.meier", ("read", "ask"), 1, "test")
    yield secret
    accounts.revoke_token("a.meier", ident)  # the desk is that of other tests, too


def test_from_the_table_to_the_result(site, token):
    """Two processes: the one that answers reads neither data nor ledger."""
    table = dp.connect(site.origin, token).table("visits")
    assert table.allowance["amount"] == 0.8
    found = table.check("visit ~ age + income", dp.ZCDP(0.05))
    assert (found.cost, found.permitted) == (0.05, True)
    ahead = table.forecast("visit ~ age + income", dp.ZCDP(0.05))
    assert ahead.names == found.names
    asked = table.ask("visit ~ age + income", dp.ZCDP(0.05))
    result = asked.wait(timeout=300)
    assert result.privacy.release == asked.release
    assert result.to_json() == Desk.open(site.folder).result(asked.id).to_json()


def test_a_cookie_is_no_token(site, visitors, token):
    """Whoever is signed in on pages is nobody to the interface."""
    visitor = visitors["a.meier"]
    assert visitor.go("/").status == 200
    ours = {"origin": site.origin, "content-type": "application/json"}
    for method, path in (
        ("GET", "/tables"),
        ("DELETE", f"/questions/{'0' * 32}"),
        ("POST", "/tokens"),
    ):
        answer = visitor.sent(method, f"/api/v1{path}", ours, b"{}")
        assert (answer.status, json.loads(answer.text)["code"]) == (401, "token")
        assert "set-cookie" not in answer.headers
    bearer = {"authorization": f"Bearer {token}"}
    assert Client(site).sent("GET", "/api/v1/tables", bearer).status == 200
    assert "visits" not in Client(site).sent("GET", "/t/visits", bearer).text


def test_errors_of_the_server_itself_are_json(site, token):
    bearer = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    check = "/api/v1/tables/visits/check"
    for method, path, more, body, status in (
        ("GET", "/api/v1/tables", {"host": "evil.example"}, None, 421),
        ("PATCH", "/api/v1/tables", {}, b"{}", 405),
        ("BREW", "/api/v1/tables", {}, None, 405),
        ("GET", "/api/v2/tables", {}, None, 404),
        ("GET", f"/api/v1/questions?table={'x' * 60_000}", {}, None, 400),
        ("POST", check, {}, b" " * 70_000, 413),
        ("POST", check, {}, (b" " * 1000 for _ in range(200)), 413),
        ("POST", check, {"content-type": "text/plain"}, b"{}", 415),
    ):
        answer = Client(site).sent(method, path, bearer | more, body)
        assert answer.status == status, (method, path)
        assert set(json.loads(answer.text)) == {"error", "remedy", "code"}
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "GET" in Client(site).sent("PATCH", "/api/v1/tables", bearer).headers["allow"]
