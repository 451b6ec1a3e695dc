"""What is refused before anything is done, and in which order; called in this process, without a network."""

import json
from urllib.parse import urlencode

import pytest

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.web import security
from dpinfer_desk.web.api import OPERATIONS
from dpinfer_desk.web.app import application, page_table
from dpinfer_desk.web.authentication import LoopbackBackend
from dpinfer_desk.web.http_errors import request_error
from dpinfer_desk.web.network import ServerConfig, app_of, services_of
from dpinfer_desk.web.requests import Services
from dpinfer_desk.web.security import ConnectionPolicy, networks_of
from dpinfer_desk.worker.forecasts import Forecasts
from helpers import asgi
from helpers.calling import KEY, PEOPLE, QUESTION, Site

FORM = "application/x-www-form-urlencoded"
ORIGIN = f"http://{asgi.HOST}"
STYLE = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
)
STYLE += "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A desk, with a session of everybody."""
    found = Site(tmp_path_factory.mktemp("security"))
    found.sessions = {person: found.accounts.open_session(person) for person in PEOPLE}
    return found


def csrf_token(site, session):
    page = asgi.request(site.app, "GET", "/tokens", [("cookie", f"desk={session}")])
    return page.text.partition('name="form" value="')[2].partition('"')[0]


def post(site, path, person="s.berg", fields=None, headers=None, **more):
    """A form as the page of a person sends it; a header that is None is left out."""
    session = site.sessions.get(person, "")
    fields = {"form": csrf_token(site, session)} | (fields or {})
    ours = {"cookie": f"desk={session}", "origin": ORIGIN, "content-type": FORM} | (headers or {})
    sent = [(key, value) for key, value in ours.items() if value is not None]
    return asgi.request(site.app, "POST", path, sent, urlencode(fields).encode(), **more)


FORGED = {
    "no origin": {"origin": None},
    "origin null": {"origin": "null"},
    "another origin": {"origin": "http://evil.example"},
    "another port": {"origin": "http://127.0.0.1:1"},
    "another scheme": {"origin": f"https://{asgi.HOST}"},
    "another site": {"sec-fetch-site": "cross-site"},
    "another port of this machine": {"sec-fetch-site": "same-site"},
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_form_needs_our_own_origin(site, forged):
    before = site.desk.export_journal()
    reply = post(site, "/t/visits/pause", headers=forged)
    assert reply.status == 403
    assert b"came from another site" in reply.content
    assert site.desk.export_journal() == before


def test_a_link_from_elsewhere_leads_to_an_invitation(site):
    """At once: a page in between would lose what stands behind the #.  What changes something needs our Origin."""
    site.desk.add_person("g.guest")
    site.accounts.open("g.guest", "analyst", "steward")
    secret = site.accounts.invite("g.guest", "steward")
    mail = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]
    own = ("cookie", f"desk={site.sessions['s.berg']}")
    for headers in (mail, [*mail, own], [own], []):
        reply = asgi.request(site.app, "GET", "/join", headers)
        assert (reply.status, reply.headers.get("set-cookie")) == (200, None)
        assert 'action="/invitation"' in reply.text
        assert "s.berg" not in reply.text
    chosen = "four words that rhyme"
    fields = {"form": "", "invitation": secret, "password": chosen, "again": chosen}
    for path in ("/invitation", "/join"):
        for forged in FORGED.values():
            reply = post(site, path, fields=fields, headers=forged)
            assert (reply.status, "g.guest" in reply.text) == (403, False)
    assert site.accounts.invited(secret) == "g.guest"


def test_joining_opens_a_new_session_and_ends_the_one_before(site):
    site.desk.add_person("h.guest")
    site.accounts.open("h.guest", "analyst", "steward")
    secret = site.accounts.invite("h.guest", "steward")
    before = site.accounts.open_session("b.okafor")
    site.sessions["before"] = before
    shown = post(site, "/invitation", "before", {"form": "", "invitation": secret})
    assert "Welcome, h.guest" in shown.text
    assert "set-cookie" not in shown.headers
    assert site.accounts.by_session(before).person == "b.okafor"
    chosen = "four words that rhyme"
    fields = {"form": "", "invitation": secret, "password": chosen, "again": chosen}
    joined = post(site, "/join", "before", fields)
    assert (joined.status, joined.headers["location"]) == (303, "/?done=joined")
    kept = joined.headers["set-cookie"]
    for word in ("HttpOnly", "Path=/;", "SameSite=Strict"):
        assert word in kept
    fresh = kept.partition("=")[2].partition(";")[0]
    assert fresh not in (before, secret)
    assert site.accounts.by_session(fresh).person == "h.guest"
    assert site.accounts.by_session(before) is None
    assert post(site, "/join", "before", fields).status == 400


def test_a_form_needs_the_token_of_its_session(site):
    before = site.desk.export_journal()
    other = csrf_token(site, site.sessions["a.meier"])
    assert len(other) == 64
    for wrong in ("", "AAAA", other):
        assert post(site, "/t/visits/pause", fields={"form": wrong}).status == 403
    assert site.desk.export_journal() == before
    assert post(site, "/t/visits/pause").status == 303  # the test has power
    assert post(site, "/t/visits/resume", fields={"reason": "the test is over"}).status == 303
    assert site.desk.export_journal() != before


def pieces(number, size=2**14):
    """A body in pieces of unknown number, the last of which never comes."""
    return [{"type": "http.request", "body": b"x" * size, "more_body": True}] * number


CHUNKED = ("transfer-encoding", "chunked")


def requests_with_a_body(site):
    """A form and a call, by who may send them: the path, method and headers of each."""
    token = site.tokens["a.meier"]
    session = site.sessions["a.meier"]
    return (
        (
            "POST",
            "/t/visits/file",
            [("cookie", f"desk={session}"), ("origin", ORIGIN), ("content-type", FORM)],
        ),
        (
            "POST",
            "/api/v1/tables/visits/check",
            [("authorization", f"Bearer {token}"), ("content-type", "application/json")],
        ),
    )


def test_a_body_is_counted_while_it_is_read(site):
    """Nobody says how long it is: it is refused after 64 kB, and of the rest 1 MB is thrown away."""
    for method, path, headers in requests_with_a_body(site):
        messages = pieces(1000)
        reply = asgi.request(site.app, method, path, [*headers, CHUNKED], messages=messages)
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert 1000 - len(messages) == 5 + 2**20 // 2**14
        declared = asgi.request(
            site.app, method, path, [*headers, ("content-length", "65537")], messages=pieces(0)
        )
        assert (declared.status, declared.headers["connection"]) == (413, "close")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(security, "DEADLINE", 0.05)
    monkeypatch.setattr(security, "DISCARDING", 0.05)


def test_a_body_has_to_be_here_in_time(site, impatient):
    for method, path, headers in requests_with_a_body(site):
        reply = asgi.request(site.app, method, path, [*headers, CHUNKED], messages=pieces(1))
        assert (reply.status, reply.headers["connection"]) == (408, "close")
        gone = [{"type": "http.disconnect"}]
        assert asgi.request(site.app, method, path, headers, messages=gone).status == 400


def test_a_body_comes_in_pieces(site):
    """The ones that end within the limit are read, however they are cut."""
    body = json.dumps(QUESTION).encode()
    parts = [
        {"type": "http.request", "body": body[:10], "more_body": True},
        {"type": "http.request", "body": body[10:], "more_body": False},
    ]
    _, (method, path, headers) = requests_with_a_body(site)
    reply = asgi.request(site.app, method, path, [*headers, CHUNKED], messages=parts)
    assert reply.status == 200
    assert reply.headers["content-length"] == str(len(reply.content))
    assert "connection" not in reply.headers


def test_no_body_is_read_for_whom_it_is_not_for(site, impatient):
    """Token, role and scope are asked first; a body that never comes keeps nobody waiting."""
    waits = [CHUNKED, ("content-type", "application/json")]
    outside = ("authorization", f"Bearer {site.tokens['t.audit']}")
    reading = ("authorization", f"Bearer {site.token('a.meier', ('read',))}")
    ask = f"/api/v1/tables/visits/questions/{KEY}"
    for headers, status in (
        (waits, 401),
        ([*waits, outside], 403),
        ([*waits, reading], 403),
    ):
        assert asgi.request(site.app, "PUT", ask, headers, messages=pieces(0)).status == status
    form = [CHUNKED, ("content-type", FORM), ("origin", ORIGIN)]
    place = "/t/visits/pause"
    assert asgi.request(site.app, "POST", place, form, messages=pieces(0)).status == 303
    analyst = ("cookie", f"desk={site.sessions['a.meier']}")
    assert asgi.request(site.app, "POST", place, [*form, analyst], messages=pieces(0)).status == 404


def test_the_order_of_refusals(site):
    """Address, host, token, role and scope, options, kind of the body: the first one decides."""
    bearer = [("authorization", f"Bearer {site.tokens['a.meier']}")]
    auditor = [("authorization", f"Bearer {site.tokens['t.audit']}")]
    check = "/api/v1/tables/none/check?x=1"
    text = [("content-type", "text/plain")]
    foreign = [("host", "evil.example")]
    long = "/api/v1/tables?" + "x" * 70_000
    two_lengths = [("content-length", "7"), ("transfer-encoding", "chunked")]
    for path, headers, status in (
        (long, [*foreign, *text], 414),
        (long.replace("?", "/"), [*two_lengths, *text], 414),
        (check, [*two_lengths, *foreign], 400),
        (check, [*foreign, *text], 421),
        ("/api/v1/checks?x=1", text, 404),
        (check, text, 401),
        (check, [*auditor, *text], 403),
        (check, [*bearer, *text], 400),
        (check.partition("?")[0], [*bearer, *text], 415),
        (check.partition("?")[0], [*bearer, ("content-type", "application/json")], 400),
    ):
        reply = asgi.request(site.app, "POST", path, headers, b"no JSON")
        assert reply.status == status, path
        assert set(json.loads(reply.content)) == {"error", "remedy", "code"}


def test_hosts(site):
    for host in ("evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.nip.io:8766", ""):
        for path in ("/", "/sign-in", "/api/v1/health", "/style.css"):
            reply = asgi.request(site.app, "GET", path, [("host", host)])
            assert reply.status == 421, host
    twice = [("host", asgi.HOST), ("host", asgi.HOST)]
    assert asgi.request(site.app, "GET", "/sign-in", twice).status == 421


def test_the_headers_of_every_response(site):
    """Of pages, files, errors and refusals; and one cookie, which is for this server and this path."""
    common = {
        "x-content-type-options": "nosniff",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }
    pages = common | {"content-security-policy": STYLE, "referrer-policy": "same-origin"}
    programs = common | {
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "referrer-policy": "no-referrer",
    }
    for path, status in (
        ("/sign-in", 200),
        ("/", 303),
        ("/none", 303),
        ("/style.css", 200),
        ("/health", 200),
    ):
        reply = asgi.request(site.app, "GET", path)
        assert (reply.status, reply.headers | pages) == (status, reply.headers)
    assert asgi.request(site.app, "DELETE", "/").headers.items() >= pages.items()
    for path in ("/api/v1/health", "/api/v1/tables", "/api/none"):
        reply = asgi.request(site.app, "GET", path)
        assert reply.headers.items() >= programs.items()
        assert "strict-transport-security" not in reply.headers
    signed_out = post(site, "/sign-out", "c.outside")
    kept = signed_out.headers["set-cookie"]
    assert kept.startswith('desk="";')
    for word in ("HttpOnly", "Max-Age=0", "Path=/;", "SameSite=Strict"):
        assert word in kept
    assert site.accounts.by_session(site.sessions["c.outside"]) is None


def test_nothing_is_a_redirect_to_what_is_there(site):
    """Whoever has not signed in is told neither pages nor that a slash is one too many."""
    replies = {
        (reply.status, reply.headers["location"], reply.content)
        for path in ("/q", "/q/", "/t/visits", "/t/visits/", "/none", "//q", "/tokens")
        for reply in (asgi.request(site.app, "GET", path),)
    }
    assert replies == {(303, "/sign-in", b"")}


def test_one_map_of_errors(site, monkeypatch):
    """A ledger that cannot be read is 503 for pages as for programs; only a steward reads which file it is."""
    secret = "/srv/ledgers/visits.db is broken"

    def broken(*_, **__):
        raise dp.LedgerError(secret)

    monkeypatch.setattr(site.desk.__class__, "answers", broken)
    for person in ("a.meier", "s.berg"):
        page = asgi.request(
            site.app, "GET", "/t/visits", [("cookie", f"desk={site.sessions[person]}")]
        )
        assert (page.status, page.headers["retry-after"]) == (503, "5")
        assert (secret in page.text) is (person == "s.berg")
        reply = site.reply("GET", "/tables/visits/answers", person)
        assert (reply.status, reply.headers["retry-after"]) == (503, "5")
        assert secret not in reply.text
    refused = request_error(dp.InputError("what is wrong: correct it"))
    assert (refused.status, refused.code) == (400, "input")


def test_a_fault_of_every_page_is_told_without_its_message(site, monkeypatch):
    """Not even the page of the error can be made, as it counts the questions that wait."""

    def broken(*_, **__):
        raise ZeroDivisionError("4711 rows")

    monkeypatch.setattr(site.desk.__class__, "tickets", broken)
    for path in ("/", "/none", "/q"):
        page = asgi.request(site.app, "GET", path, [("cookie", f"desk={site.sessions['s.berg']}")])
        assert page.status == (404 if path == "/none" else 500)
        assert "4711" not in page.text
        assert page.headers["content-security-policy"] == STYLE


# Behind a proxy


def proxied(site, header="", proxies=("10.0.0.0/24",)):
    config = ServerConfig(
        "127.0.0.1", 8766, ("stats.example.org",), proxies, identity_header=header
    )
    config.check()
    site.desk.publish("visits")
    desk = Desk.open(site.desk.folder.path, clock=site.desk.clock, public=True)
    return app_of(desk, config)


TLS = [("host", "stats.example.org"), ("x-forwarded-proto", "https")]
PROXY = "10.0.0.7"


def test_addresses_of_both_kinds():
    """A server that listens on IPv6 sees those of IPv4 as they are: each alone, and proxies by name."""

    def client(address, proxies=(), forwarded=()):
        headers = [("x-forwarded-proto", "https")]
        headers += [("x-forwarded-for", one) for one in forwarded or (address,)]
        seen = []

        async def app(scope, receive, send):
            seen.append(scope["auth"])
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        class Everybody:
            def authenticate(self, _, client):
                return client

        policy = ConnectionPolicy((asgi.HOST,), True, networks_of(proxies))
        middleware = security.SecurityMiddleware(app, policy, Everybody())
        reply = asgi.request(middleware, "GET", "/", headers, client=address)
        assert reply.headers["strict-transport-security"] == "max-age=31536000"
        return seen[0] if seen else reply.status

    assert client("::ffff:192.0.2.1") == "192.0.2.1"
    assert client("192.0.2.1") == "192.0.2.1"
    assert client("2001:db8::1") == "2001:db8::/64"
    assert client("nonsense") == ""
    proxies = ("10.0.0.0/24",)
    assert client("::ffff:10.0.0.7", proxies) == "10.0.0.7"
    assert client("::ffff:10.0.1.7", proxies) == 403
    assert client("nonsense", proxies) == 403
    said = ["192.0.2.9", "192.0.2.8, 203.0.113.1"]  # by the client, and then by the proxy
    assert client("10.0.0.7", proxies, said) == "203.0.113.1"


def test_the_last_word_of_tls_is_the_proxys(site):
    app = proxied(site)
    clear = [
        ("host", "stats.example.org"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-proto", "http"),
    ]
    assert asgi.request(app, "GET", "/sign-in", clear, client=PROXY).status == 403
    assert asgi.request(app, "GET", "/sign-in", TLS, client=PROXY).status == 200


# People whom the proxy names


USER = "x-remote-user"


@pytest.fixture(scope="module")
def named(site):
    return proxied(site, "X-Remote-User")


def named_as(app, *names, method="GET", path="/t/visits", headers=(), body=b"", client=PROXY):
    sent = [*TLS, *((USER, name) for name in names), *headers]
    return asgi.request(app, method, path, sent, body, client=client)


def test_a_header_of_the_proxy_names_the_person(site, named):
    for person, role in PEOPLE.items():
        page = named_as(named, person, path="/tokens")
        assert page.status == 200
        assert person in page.text
        assert ("Journal" in page.text) is (role != "analyst")
        assert "set-cookie" not in page.headers
        assert "Sign out" not in page.text
    assert named_as(named, "c.outside").status == 404  # roles and allowances count as ever
    assert named_as(named, "a.meier", path="/journal").status == 404


def test_guarantee_one_identity(site, named):
    """Nobody, somebody unknown, several, and somebody whose account was closed have one answer."""
    site.desk.add_person("f.former")
    site.accounts.open("f.former", "steward", "steward")
    assert named_as(named, "f.former", path="/journal").status == 200
    site.accounts.close("f.former", "steward")
    site.desk.add_person("no account")
    wrong = [
        (),
        ("",),
        ("nobody",),
        ("f.former",),
        ("no account",),
        ("s.berg", "s.berg"),
        ("a.meier", "s.berg"),
        ("a.meier, s.berg",),
        ("s.berg,",),
        ("S.BERG",),
        ("s.berg\xff",),
        ("s.berg\x00",),
    ]
    for path in ("/", "/t/visits", "/journal", "/tokens", "/none", "/sign-in", "/join"):
        replies = [named_as(named, *names, path=path) for names in wrong]
        assert {reply.status for reply in replies} == {403}, path
        assert len({(reply.content, str(reply.headers)) for reply in replies}) == 1
    assert named_as(named, path="/health").status == 200
    # A form is carried out by whom the proxy names, with our Origin and the token of this person alone.
    before = site.desk.export_journal()
    page = named_as(named, "s.berg", path="/tokens")
    token = page.text.partition('name="form" value="')[2].partition('"')[0]
    other = named_as(named, "a.meier", path="/tokens").text
    other = other.partition('name="form" value="')[2].partition('"')[0]
    assert token != other
    assert len(token) == 64
    ours = [("origin", "https://stats.example.org"), ("content-type", FORM)]

    def paused(*names, form=token, headers=ours):
        body = urlencode({"form": form}).encode()
        reply = named_as(
            named, *names, method="POST", path="/t/visits/pause", headers=headers, body=body
        )
        return reply.status

    assert paused("s.berg", form="") == 403
    assert paused("s.berg", form=other) == 403
    assert paused("s.berg", headers=ours[1:]) == 403
    assert paused("s.berg", headers=[("origin", "https://evil.example"), ours[1]]) == 403
    assert paused("s.berg", headers=[*ours, ("sec-fetch-site", "cross-site")]) == 403
    assert paused("a.meier", form=other) == 404
    assert paused() == paused("s.berg", "s.berg") == paused("nobody") == 403
    assert site.desk.export_journal() == before
    assert paused("s.berg") == 303  # the test has power
    site.desk.resume("visits", "the test is over")
    assert site.desk.journal()[-2].who == "s.berg"


def test_a_header_from_elsewhere_names_nobody(site, named):
    """Not the proxy, not by TLS, another name of the header, or a server that was told of no header."""
    for address in ("10.0.1.7", "127.0.0.1", "192.0.2.1"):
        assert named_as(named, "s.berg", client=address).status == 403
    clear = [("host", "stats.example.org"), ("x-forwarded-proto", "http"), (USER, "s.berg")]
    assert asgi.request(named, "GET", "/t/visits", clear, client=PROXY).status == 403
    for name in ("remote-user", "x-forwarded-user", "x_remote_user"):
        other = named_as(named, headers=[(name, "s.berg")])
        assert other.status == 403
    unaware = proxied(site)
    assert named_as(unaware, "s.berg").status == 303
    assert asgi.request(site.app, "GET", "/t/visits", [(USER, "s.berg")]).status == 303


def test_where_the_proxy_signs_in_there_are_no_passwords_and_sessions(site, named):
    session = ("cookie", f"__Host-desk={site.sessions['s.berg']}")
    assert named_as(named, headers=[session]).status == 403
    assert "Journal" not in named_as(named, "a.meier", headers=[session], path="/tokens").text
    for path in ("/sign-in", "/join", "/password"):
        assert named_as(named, "s.berg", path=path).status == 404
    config = ServerConfig(names=("a",), proxies=("10.0.0.7",), identity_header=USER)
    paths = {path for _, path, *_ in page_table(services_of(site.desk, config))}
    assert "/accounts" in paths
    assert not paths & {"/sign-in", "/sign-out", "/join", "/password", "/accounts/invite"}
    page = named_as(named, "s.berg", path="/accounts").text
    assert "Close" in page
    assert "invite" not in page.lower().replace("invitation", "")
    token = page.partition('name="form" value="')[2].partition('"')[0]
    fields = {"form": token, "person": "n.new", "role": "auditor", "words": ""}
    ours = [("origin", "https://stats.example.org"), ("content-type", FORM)]
    opened = named_as(
        named,
        "s.berg",
        method="POST",
        path="/accounts",
        headers=ours,
        body=urlencode(fields).encode(),
    )
    assert opened.status == 200
    assert 'class="secret"' not in opened.text
    assert named_as(named, "n.new", path="/journal").status == 200


def test_programs_need_a_token_all_the_same(site, named):
    for operation in OPERATIONS:
        if operation.roles:
            path = "/api/v1" + operation.path.format(
                table="visits",
                key=KEY,
                question="0" * 32,
                forecast="0" * 32,
                analyst="x",
                token="0" * 12,
                release="0" * 32,
            )
            assert named_as(named, "s.berg", method=operation.method, path=path).status == 401
    bearer = [("authorization", f"Bearer {site.tokens['a.meier']}")]
    assert named_as(named, "s.berg", path="/api/v1/journal", headers=bearer).status == 403


# The page of one steward


def test_the_page_on_the_loopback_address(site):
    """Without the token or the cookie nothing is shown; and the cookie has a name that nobody else knows."""
    backend = LoopbackBackend("steward")
    forecasts = Forecasts(site.desk, rate=None)
    services = Services(site.desk, forecasts, lambda: "", backend.cookie, home=backend.home)
    app = application(services, ConnectionPolicy((asgi.HOST,)), backend)
    enter = backend.address(asgi.HOST).removeprefix(f"http://{asgi.HOST}")
    assert asgi.request(app, "GET", f"{backend.home}/enter?token=AAAA").status == 403
    reply = asgi.request(app, "GET", enter, [("sec-fetch-site", "cross-site")])
    kept = reply.headers["set-cookie"]
    assert f"Path={backend.home};" in kept
    assert "SameSite=Strict" in kept
    assert "HttpOnly" in kept
    assert backend.token not in kept + reply.text
    cookie = ("cookie", f"{kept.partition(';')[0]}; desk=AAAA")
    for path in ("/", "/t/visits", "/journal", "/style.css"):
        assert asgi.request(app, "GET", backend.home + path, [cookie]).status == 200
        assert asgi.request(app, "GET", backend.home + path).status == 403
        assert asgi.request(app, "GET", path, [cookie]).status == 403
        elsewhere = [cookie, ("sec-fetch-site", "same-site")]
        assert asgi.request(app, "GET", backend.home + path, elsewhere).status == 403
    for path in ("/tokens", "/sign-in", "/api/v1/tables", "/t/visits/"):
        assert asgi.request(app, "GET", backend.home + path, [cookie]).status == 404
    assert asgi.request(app, "GET", "/api/v1/tables", [cookie]).status == 403
    assert asgi.request(app, "GET", backend.home, [cookie]).status == 403
