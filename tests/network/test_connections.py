"""Signing in and out, other sites, sizes, slow clients, proxies and TLS."""

import http.client
import re
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import uvicorn

import dpinfer as dp
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts
from dpinfer_desk.web.network import ServerConfig
from dpinfer_desk.web.sockets import DeadlineProtocol
from helpers.servers import FORM, PASSWORD, PROGRAM, Client, in_a_minute, listening, peopled, served
from helpers.visits import made, question


def test_signing_in_and_out(site):
    mine = Client(site)
    assert mine.sign_in("a.meier", "wrong password").status == 403
    assert mine.cookie == ""
    assert mine.sign_in("a.meier").status == 303
    first = mine.cookie
    assert mine.go("/").status == 200
    kept = mine.post("/sign-out").headers["set-cookie"]
    assert "Max-Age=0" in kept
    mine.cookie = first
    assert mine.go("/").status == 303  # the session itself has ended


def test_a_wrong_name_and_a_wrong_password_are_told_alike(site):
    visitor = Client(site)
    told = {
        re.sub(r"<time.*?</time>", "", visitor.sign_in(name, "not the password").text).replace(
            name, ""
        )
        for name in ("checker", "who is that")
    }
    assert len(told) == 1
    assert "Name or password is wrong." in told.pop()


def test_guessing_is_slowed_down(site):
    """Five in a minute for one person from one address; the sixth is not even looked at."""
    visitor = Client(site)
    assert in_a_minute(lambda: visitor.sign_in("guessed", "guess")) == [403] * 5 + [429]


def test_a_password_is_changed_by_who_knows_it(site):
    mine = Client(site, "stranger")
    other = Client(site, "stranger")
    fields = {
        "present": PASSWORD,
        "password": "other words altogether",
        "again": "other words altogether",
    }
    assert mine.post("/password", {**fields, "present": "wrong"}).status == 400
    assert mine.post("/password", {**fields, "again": "no"}).status == 400
    assert mine.post("/password", fields).headers["location"] == "/sign-in?done=password"
    assert other.go("/").status == 303  # all sessions have ended
    Accounts(Desk.open(site.folder).register).set_password("stranger", PASSWORD)


def test_no_address_fills_in_an_invitation(site):
    """A link of somebody else would have his invitation accepted."""
    assert "planted" not in Client(site).go("/join?invitation=planted").text
    fields = {"invitation": "typed", "password": PASSWORD, "again": PASSWORD}
    answer = Client(site).post("/join", fields)
    assert answer.status == 400
    assert 'value="typed"' in answer.text


def test_the_cookie_and_the_headers(site):
    mine = Client(site)
    kept = mine.sign_in("a.meier").headers["set-cookie"]
    assert "HttpOnly" in kept
    assert "SameSite=Strict" in kept
    assert "Path=/" in kept
    for path in ("/", "/sign-in", "/style.css", "/nothing", "/health"):
        headers = mine.go(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_guarantee_no_other_site(site, visitors):
    """Forms from elsewhere, with every header and word that another site could send."""
    desk = Desk.open(site.folder, "steward")
    ticket = desk.ask("visits", question("visit ~ age + health", 0.24), "a.meier")
    boss = visitors["boss"]
    word = boss.word()
    place = f"/q/{ticket.id}/decline"
    body = urlencode({"form": word, "reason": "forged"})
    ours = {"origin": site.origin, "content-type": FORM}
    forged = {
        "no origin": {"content-type": FORM},
        "origin null": {**ours, "origin": "null"},
        "another origin": {**ours, "origin": "http://evil.example"},
        "another port": {**ours, "origin": "http://127.0.0.1:1"},
        "https": {**ours, "origin": site.origin.replace("http", "https")},
        "another site": {**ours, "sec-fetch-site": "cross-site"},
        "another port of this machine": {**ours, "sec-fetch-site": "same-site"},
    }
    for what, headers in forged.items():
        assert boss.sent("POST", place, headers, body).status == 403, what
    foreign = visitors["a.meier"].word()
    for wrong in ("", "AAAA", foreign):
        sent = urlencode({"form": wrong, "reason": "forged"})
        assert boss.sent("POST", place, ours, sent).status == 403
    stranger = Client(site)
    assert stranger.sent("POST", place, ours, body).status == 303  # to the form of the password
    for what, host in {"foreign": "evil.example", "no port": "127.0.0.1"}.items():
        assert boss.sent("POST", place, {**ours, "host": host}, body).status == 421, what
    assert desk.ticket(ticket.id).state == "waiting"
    assert boss.sent("POST", place, ours, body).status == 303  # the test has power
    assert desk.ticket(ticket.id).state == "declined"


def test_a_link_from_elsewhere_leads_in(site, visitors):
    """A browser sends no cookie with it: a page of ours leads on, and nowhere else."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    dropped = [f"/{code}{more}/evil" for code in ("%09", "%0a", "%0d", "%5c") for more in ("", "/")]
    for path in ("/t/visits", "//evil.example/x", "/\\evil.example", '/"><script>', *dropped):
        answer = visitors["a.meier"].sent("GET", path, headers)
        assert answer.status == 200
        (place,) = set(re.findall(r'url=([^"]*)"', answer.text))
        assert re.match(r"/[^/\\\s]", place)
        assert not re.search(r"[\x00-\x20\x7f\\]", place)
        assert "visits" not in answer.text.replace(place, "")
        assert "<script>" not in answer.text
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert visitors["a.meier"].sent("GET", "/t/visits", image).status == 403


def test_sizes_and_kinds(site, visitors):
    mine = visitors["a.meier"]
    where = "/t/visits/file"
    assert mine.post(where, {"file": "x" * 64 * 1024}).status == 413
    ours = {"origin": site.origin, "content-type": FORM}
    assert b" 413 " in raw(site, in_pieces(site, "/sign-in") + b"10001\r\n" + b"x" * 0x10001)
    multipart = {**ours, "content-type": "multipart/form-data; boundary=b"}
    assert mine.sent("POST", where, multipart, "--b--").status == 415
    assert mine.sent("POST", where, ours, "&".join("a=1" for _ in range(4000))).status == 400
    assert mine.sent("GET", "/q?by=" + "x" * 100_000).status == 414
    assert mine.sent("DELETE", "/q").status == 405
    assert mine.sent("TRACE", "/q").status == 405


def in_pieces(site, where, more=""):
    """The head of a form that comes in pieces, so that nobody knows its length."""
    return (
        f"POST {where} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nOrigin: {site.origin}\r\n"
        f"Content-Type: {FORM}\r\n{more}Transfer-Encoding: chunked\r\n\r\n"
    ).encode()


def raw(site, text, wait=300):
    """What comes back to bytes, until the server closes or nothing comes."""
    with socket.create_connection(("127.0.0.1", site.port), wait) as link:
        link.sendall(text)
        found = b""
        while True:
            try:
                piece = link.recv(65536)
            except TimeoutError:
                return found + b"(open)"
            if not piece:
                return found
            found += piece


@pytest.mark.parametrize("expect", ["", "Expect: 100-continue\r\n"])
def test_who_sends_too_much_hears_the_answer(site, expect):
    """Half a megabyte in pieces, all of it sent before the answer is read: the connection does not end
    in between.
    """
    head = in_pieces(site, "/sign-in", expect)
    piece = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", site.port), 300) as link:
        link.sendall(head)
        if expect:
            assert b" 100 " in link.recv(1000)
        for _ in range(128):
            link.sendall(piece)
            time.sleep(0.001)
        link.sendall(b"0\r\n\r\n")
        assert b" 413 " in link.recv(1000)


def test_an_answer_is_sent_at_once(site):
    """Nagle's algorithm would hold the second part of each answer back until the client's receipt, which
    is sent after 40 ms: the fastest of many answers on one line would take that long.
    """
    link = http.client.HTTPConnection("127.0.0.1", site.port, timeout=300)
    times = []
    for _ in range(40):
        start = time.monotonic()
        link.request("GET", "/health")
        link.getresponse().read()
        times.append(time.monotonic() - start)
    link.close()
    assert min(times[20:]) < 0.03


def test_slow_clients_are_given_up(site):
    """Headers that never end, a body that never comes, and a second request that is slow: each is
    closed in time, all of them at once.
    """
    host = f"Host: 127.0.0.1:{site.port}\r\n".encode()
    ours = f"Origin: {site.origin}\r\nContent-Type: {FORM}\r\nContent-Length: 100\r\n".encode()
    whole = b"GET /health HTTP/1.1\r\n" + host + b"\r\n"
    cases = [
        (b"", b""),
        (b"GET / HTTP/1.1\r\n" + host + b"X-Slow: ", b""),
        (b"POST /sign-in HTTP/1.1\r\n" + host + ours + b"\r\nperson=", b" 408 "),
        (whole + b"GET / HTTP/1.1\r\nX-", b" 200 "),
    ]
    start = time.monotonic()
    with ThreadPoolExecutor(len(cases)) as pool:
        found = list(pool.map(lambda case: raw(site, case[0]), cases))
    assert 9 < time.monotonic() - start < 200
    for (_, expected), answer in zip(cases, found, strict=True):
        assert expected in answer
        assert not answer.endswith(b"(open)")


def rss(pid):
    """Kilobytes of memory that a process has."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1])


def test_a_body_without_end_is_not_read(site):
    """Chunks for ever: 413 after 64 kB, the connection ends, and the memory stays as it was."""
    web = site.pids()["web"]
    flood(site)  # what is loaded for the first request is there
    before = rss(web)
    sent, answer = flood(site)
    assert sent < 20 * 2**20
    assert not answer or b" 413 " in answer
    assert rss(web) - before < 20_000


def flood(site):
    """Chunks until nobody takes them: how many bytes were sent, and what came back."""
    head = in_pieces(site, "/sign-in")
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", site.port), 300) as link:
        link.sendall(head)
        sent = 0
        try:
            for _ in range(2000):
                link.sendall(chunk)
                sent += len(chunk)
        except (ConnectionError, TimeoutError):
            pass
        try:
            answer = link.recv(1000)
        except ConnectionError:
            answer = b""
    return sent, answer


BODILESS = ("GET /health", "GET /sign-in", "DELETE /q", "GET /api/v1/health", "GET /api/v1/tables")


@pytest.mark.parametrize("asked", BODILESS)
def test_what_nobody_reads_ends_the_connection(site, asked):
    """A gigabyte that belongs to an answer which needs none of it: the answer comes at once, says that
    it is the last one, and what follows is not taken.
    """
    head = (
        f"{asked} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nContent-Length: {2**30}\r\n\r\n"
    ).encode()
    with socket.create_connection(("127.0.0.1", site.port), 300) as link:
        link.sendall(head)
        answer = b""
        while piece := link.recv(65536):
            answer += piece
        assert b"connection: close\r\n" in answer
        with pytest.raises(ConnectionError):
            link.sendall(b"x" * 2**26)


def test_the_server_itself_ends_such_a_connection():
    """Also where the application does not say that its answer is the last one."""

    async def app(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": LENGTH})
        await send({"type": "http.response.body", "body": b"ok"})

    config = uvicorn.Config(
        app,
        http=DeadlineProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        timeout_keep_alive=1,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            port = listener.getsockname()[1]
            head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n"
            for asked, answered in ((head.format(0) * 2, 2), (head.format(5), 1)):
                found = raw(SimpleNamespace(port=port), asked.encode())
                assert found.count(b" 200 ") == answered
                assert found.endswith(b"ok")
        finally:
            server.should_exit = True
            thread.join()


LENGTH = [(b"content-length", b"2")]
PATHS = [
    "/t/..%2f..%2fetc%2fpasswd",
    "/t/visits/../../etc/passwd",
    "/style.css/../../x",
    "/../../../../etc/passwd",
    "/t/%2e%2e/%2e%2e/secret",
    "/q/..%2f..%2fsecret/result.json",
    "/q/%00",
    "/q/%F0%9F%98%80",
    "/t/visits/schema.toml%00.html",
    "/accounts/visits.json",
    "/shared/desk.db",
    "/secret",
    "/t/visits%0d%0aset-cookie:x=1",
]


def test_no_path_leads_to_a_file(site, visitors):
    """A thousand of them: each is nothing, also for who may read everything."""
    link = http.client.HTTPConnection("127.0.0.1", site.port, timeout=300)
    places = [f"/{'../' * depth}{path.lstrip('/')}" for path in PATHS for depth in range(77)]
    assert len(places) > 1000
    for place in places:
        link.putrequest("GET", place, skip_host=True)
        link.putheader("Host", f"127.0.0.1:{site.port}")
        link.putheader("Cookie", visitors["checker"].cookie)
        link.endheaders()
        answer = link.getresponse()
        text = answer.read().decode()
        assert answer.status in (400, 404), place
        assert "root:" not in text
        assert "Traceback" not in text
        assert answer.headers.get("set-cookie") is None
    link.close()


CLEAR = {
    "in the clear": [{"host": "0.0.0.0"}, {"host": "::"}, {"host": "192.0.2.1", "names": ("a",)}],
    "takes an address": [{"host": "stats.example.org"}],
    "as people know it": [{"proxies": ("10.0.0.1",)}],
    "the address of a proxy": [{"proxies": ("everybody",), "names": ("a",)}],
    "go together": [{"certificate": Path("x.pem"), "names": ("a",)}, {"key": Path("x.key")}],
    "cannot be used": [{"certificate": Path("x.pem"), "key": Path("x.key"), "names": ("a",)}],
    "from a trusted proxy alone": [{"identity_header": "X-Remote-User"}],
    "that nothing else uses": [
        {"proxies": ("127.0.0.1",), "names": ("a",), "identity_header": name}
        for name in ("Host", "cookie", "X-Forwarded-For", "X_Remote_User", "X Remote")
    ],
    "give one of them": [
        {"certificate": Path("x"), "key": Path("y"), "names": ("a",), "proxies": ("127.0.0.1",)}
    ],
}


def test_guarantee_no_password_in_the_clear(tmp_path):
    """Where passwords could be read on their way the server does not start."""
    for words, places in CLEAR.items():
        for place in places:
            with pytest.raises(dp.InputError, match=words):
                ServerConfig(**place).check()
    for fine in (
        {},
        {"host": "::1"},
        {"host": "0.0.0.0", "proxies": ("10.0.0.0/24",), "names": ("a",)},
    ):
        ServerConfig(**fine).check()
    command = [*PROGRAM, "run", str(made(tmp_path)), "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "in the clear" in done.stderr


def test_behind_a_proxy(tmp_path):
    """Only the proxy is answered, only what came to it by TLS, and tries are counted by what it says
    of where they came from.
    """
    folder = peopled(made(tmp_path))
    web = [*PROGRAM, "run", str(folder), "--port", "0", "--web-only", "--name", "stats.example.org"]
    with served(folder, run=[*web, "--behind-proxy", "127.0.0.1"]) as site:
        port = listening(site.process.pid)
        site.origin = f"http://127.0.0.1:{port}"
        visitor = Client(site)
        proxied = {"host": "stats.example.org", "x-forwarded-proto": "https"}
        assert visitor.sent("GET", "/sign-in").status == 421
        assert visitor.sent("GET", "/sign-in", {"host": "stats.example.org"}).status == 403
        plain = {**proxied, "x-forwarded-proto": "http"}
        assert visitor.sent("GET", "/sign-in", plain).status == 403
        answer = visitor.sent("GET", "/sign-in", proxied)
        assert answer.status == 200
        assert answer.headers["strict-transport-security"] == "max-age=31536000"
        ours = {**proxied, "origin": "https://stats.example.org", "content-type": FORM}
        body = urlencode({"person": "a.meier", "password": PASSWORD})
        wrong = urlencode({"person": "a.meier", "password": "wrong"})
        said = (f"192.0.2.{number}" for number in count())  # by the client, before the proxy

        def tries():
            at = {**ours, "x-forwarded-for": f"{next(said)}, 203.0.113.1"}
            return visitor.sent("POST", "/sign-in", at, wrong)

        assert in_a_minute(tries) == [403] * 5 + [429]
        elsewhere = {**ours, "x-forwarded-for": "203.0.113.2"}
        kept = visitor.sent("POST", "/sign-in", elsewhere, body).headers["set-cookie"]
        assert kept.startswith("__Host-desk=")
        assert "; Secure" in kept
        assert visitor.sent("GET", "/", proxied).status == 200
    with served(folder, run=[*web, "--behind-proxy", "192.0.2.1"]) as site:
        site.origin = f"http://127.0.0.1:{listening(site.process.pid)}"
        assert Client(site).sent("GET", "/sign-in", proxied).status == 403


def test_a_proxy_that_names_people(tmp_path):
    """The option reaches the process with the network, and the header the desk."""
    folder = peopled(made(tmp_path))
    options = ["--name", "stats.example.org", "--behind-proxy", "127.0.0.1"]
    with served(folder, *options, "--identity-header", "X-Remote-User") as site:
        site.origin = f"http://127.0.0.1:{listening(site.pids()['web'])}"
        visitor = Client(site)
        proxied = {"host": "stats.example.org", "x-forwarded-proto": "https"}
        analyst = {**proxied, "x-remote-user": "a.meier"}
        assert visitor.sent("GET", "/t/visits", proxied).status == 403
        assert visitor.sent("GET", "/t/visits", {**proxied, "x-remote-user": "x"}).status == 403
        assert visitor.sent("GET", "/t/visits", analyst).status == 200
        assert visitor.sent("GET", "/journal", analyst).status == 404
        assert visitor.sent("GET", "/sign-in", analyst).status == 404
        steward = {**proxied, "x-remote-user": "boss"}
        assert visitor.sent("GET", "/journal", steward).status == 200
        assert visitor.cookie == ""


def test_with_a_certificate_of_its_own(tmp_path):
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    files = [str(tmp_path / name) for name in ("key.pem", "cert.pem")]
    made_ = subprocess.run(
        [*command, "-keyout", files[0], "-out", files[1]], capture_output=True, check=False
    )
    if made_.returncode:
        pytest.skip("openssl is not here")
    folder = peopled(made(tmp_path))
    files = ["--certificate", str(tmp_path / "cert.pem"), "--key", str(tmp_path / "key.pem")]
    web = [*PROGRAM, "run", str(folder), "--port", "0", "--web-only", "--name", "localhost"]
    with served(folder, run=[*web, *files]) as site:
        assert site.origin.startswith("https://localhost:")
        mine = Client(site, "a.meier")
        assert mine.cookie.startswith("__Host-desk=")
        answer = mine.go("/t/visits")
        assert answer.status == 200
        assert "strict-transport-security" in answer.headers
        site.origin = site.origin.replace("https", "http")
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            Client(site).go("/sign-in")
