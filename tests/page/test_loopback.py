"""Who may look and who may act: the token, the names of the server, other sites, sizes and times."""

import http.client
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlencode, urlsplit

import pytest

from dpinfer_desk.desk import Desk
from helpers.visits import made, question
from helpers.windows import opened


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with opened(made(tmp_path_factory.mktemp("guarded"))) as found:
        yield found


def sent(site, method, path, headers=None, body=None):
    """One request as bytes, with no browser in between: status, headers, text."""
    place = urlsplit(site.origin)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers, text


def cookie(site):
    _, headers, _ = sent(site, "GET", site.address.removeprefix(site.origin))
    return headers["set-cookie"].partition(";")[0]


def form_token(site, known):
    _, _, page = sent(site, "GET", f"{site.home}/t/visits", known)
    return page.partition('name="form" value="')[2].partition('"')[0]


FORM = "application/x-www-form-urlencoded"


def ours(site):
    """The headers of a request that a form of the page sends."""
    return {"cookie": cookie(site), "origin": site.origin, "content-type": FORM}


def test_guarantee_page_is_the_stewards(site):
    """Every address, without the token, with a wrong one, under another name, from another site."""
    desk = Desk.open(site.folder)
    ticket = desk.ask("visits", question(rho=0.3), "a.meier")
    good = {"cookie": cookie(site)}
    port = urlsplit(site.origin).port
    paths = ["/", "/t/visits", "/t/visits/ask", "/t/visits/people", "/t/visits/schema.toml", "/q"]
    paths += [
        f"/q/{ticket.id}",
        "/approvals",
        "/journal",
        "/journal.jsonl",
        "/verify",
        "/style.css",
    ]
    for path in paths:
        place = f"{site.home}{path}"
        assert sent(site, "GET", place, good)[0] == 200
        bad = {
            "no cookie": ({}, 403),
            "a wrong cookie": ({"cookie": "desk=AAAA"}, 403),
            "the token as cookie": ({"cookie": f"desk={site.address.rpartition('=')[2]}"}, 403),
            "a foreign name": (good | {"host": f"evil.example:{port}"}, 421),
            "no port": (good | {"host": "127.0.0.1"}, 421),
            "another port": (good | {"host": "127.0.0.1:1"}, 421),
            "a name that resolves here": (good | {"host": f"127.0.0.1.nip.io:{port}"}, 421),
            "another site": (good | {"sec-fetch-site": "cross-site"}, 403),
            "another port of this machine": (good | {"sec-fetch-site": "same-site"}, 403),
        }
        for what, (headers, status) in bad.items():
            found, _, text = sent(site, "GET", place, headers)
            assert (found, "visits" in text) == (status, False), (path, what)
        assert sent(site, "GET", path, good)[0] == 403, "not below the secret path"
    assert sent(site, "GET", f"{site.home}/enter?token=AAAA")[0] == 403
    assert sent(site, "DELETE", f"{site.home}/q", good)[0] == 405
    fields = {"form": form_token(site, good), "reason": "sent by somebody else"}
    whole = ours(site)
    forged = {
        "no origin": {key: value for key, value in whole.items() if key != "origin"},
        "origin null": whole | {"origin": "null"},
        "another origin": whole | {"origin": "http://evil.example"},
        "another port": whole | {"origin": "http://127.0.0.1:1"},
        "https": whole | {"origin": site.origin.replace("http", "https")},
        "another site": whole | {"sec-fetch-site": "cross-site"},
        "no cookie": {key: value for key, value in whole.items() if key != "cookie"},
    }
    decline = f"{site.home}/q/{ticket.id}/decline"
    for what, headers in forged.items():
        assert sent(site, "POST", decline, headers, urlencode(fields))[0] == 403, what
    for wrong in ({}, {"form": ""}, {"form": "AAAA"}):
        assert sent(site, "POST", decline, whole, urlencode({"reason": "x"} | wrong))[0] == 403
    assert desk.ticket(ticket.id).state == "waiting"
    assert sent(site, "POST", decline, whole, urlencode(fields))[0] == 303  # the test has power
    assert desk.ticket(ticket.id).state == "declined"


def test_the_cookie_and_the_headers(site):
    status, headers, text = sent(site, "GET", site.address.removeprefix(site.origin))
    assert status == 200
    kept = headers["set-cookie"]
    assert f"Path={site.home};" in kept
    assert "HttpOnly" in kept
    assert "SameSite=Strict" in kept
    assert site.address.rpartition("=")[2] not in kept + text, "the token is in the address alone"
    for path in ("/", "/style.css", "/nothing"):
        _, headers, _ = sent(site, "GET", f"{site.home}{path}", {"cookie": cookie(site)})
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "server" not in headers


def test_only_the_loopback_address_listens(site):
    """Not one address of this machine that others reach."""
    port = urlsplit(site.origin).port
    names = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for name in names - {"127.0.0.1"}:
        with (
            pytest.raises((ConnectionError, TimeoutError)),
            socket.create_connection((name, port), 2),
        ):
            pass


NOTE = """import os, sys, urllib.parse
place = urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[1]).path)
words = [sys.argv[1], oct(os.stat(place).st_mode), oct(os.stat(os.path.dirname(place)).st_mode), open(place).read()]
open({told!r} + ".part", "w").write("\\n".join(words))
os.rename({told!r} + ".part", {told!r})
"""


def test_the_browser_is_given_a_file_and_not_the_token(tmp_path):
    """All users of a machine see the command line of a browser."""
    told = tmp_path / "told"
    script = tmp_path / "browser.py"
    script.write_text(NOTE.format(told=str(told)), encoding="utf-8")
    with opened(made(tmp_path), f"{sys.executable} {script} %s") as site:
        deadline = time.monotonic() + 60
        while not told.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        given, mode, around, content = told.read_text(encoding="utf-8").split("\n", 3)
        leaf = Path(unquote(urlsplit(given).path))
        assert given.startswith("file:///")
        assert (mode[-3:], around[-3:]) == ("600", "700")
        assert site.address in content
        assert leaf.exists()
    assert not leaf.exists()


def test_sizes_and_kinds(site):
    where = f"{site.home}/t/visits/file"
    token = form_token(site, {"cookie": cookie(site)})
    large = urlencode({"form": token, "file": "x" * 64 * 1024})
    assert sent(site, "POST", where, ours(site), large)[0] == 413
    pieces = (b"x" * 1024 for _ in range(200))  # of unknown length
    assert sent(site, "POST", where, ours(site), pieces)[0] == 413
    multipart = ours(site) | {"content-type": "multipart/form-data; boundary=b"}
    assert sent(site, "POST", where, multipart, "--b--")[0] == 415
    assert sent(site, "POST", where, ours(site), "&".join("a=1" for _ in range(4000)))[0] == 400
    assert sent(site, "POST", where, ours(site), f"form={token}&file=%ff%fe")[0] == 400
    assert sent(site, "GET", f"{site.home}/q?by=" + "x" * 100_000, ours(site))[0] == 414


def test_a_slow_form_is_given_up(site):
    place = urlsplit(site.origin)
    lines = [
        f"POST {site.home}/t/visits/file HTTP/1.1",
        f"Host: {place.netloc}",
        *(f"{key}: {value}" for key, value in ours(site).items()),
        "Content-Length: 100",
    ]
    with socket.create_connection((place.hostname, place.port), 30) as connection:
        connection.sendall("\r\n".join([*lines, "", "form="]).encode())
        start = time.monotonic()
        assert b" 408 " in connection.recv(1000)
        assert time.monotonic() - start > 9


def test_addresses_lead_nowhere_else(site):
    known = {"cookie": cookie(site)}
    for path in (
        "/t/..%2f..%2fetc%2fpasswd",
        "/t/visits/../../etc/passwd",
        "/style.css/../../x",
        "/t/none",
        "/q/" + "0" * 32,
        "/q/%00",
        "/q/" + "%F0%9F%98%80",
        "/t/visits/schema.toml%00.html",
    ):
        status, _, text = sent(site, "GET", f"{site.home}{path}", known)
        assert status in (400, 404), path
        assert "root:" not in text
        assert "Traceback" not in text


ATTACK = """<!DOCTYPE html><title>elsewhere</title>
<form id="f" method="post" action="{place}"><input name="form" value="x"><input name="reason" value="forged"></form>
<iframe name="inside"></iframe><img src="{page}"><p id="told">not yet</p>
<script>
  const body = new URLSearchParams({{reason: "forged"}});
  const tries = [
    fetch("{place}", {{method: "POST", credentials: "include", mode: "no-cors", body}}),
    fetch("{page}", {{credentials: "include", mode: "no-cors"}}),
    fetch("{page}", {{credentials: "include"}}).then(a => a.text()).then(t => {{ told.dataset.read = t; }}),
  ];
  f.target = "inside";
  f.submit();
  Promise.allSettled(tries).then(() => setTimeout(() => {{ told.textContent = "tried"; }}, 500));
</script>"""


class Elsewhere(BaseHTTPRequestHandler):
    """A site of somebody else: on another port, and under another name."""

    page = ""

    def do_GET(self):
        body = self.page.encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_another_site_in_the_same_browser_does_nothing(chromium, site, name):
    """From another port, which is the same site to a cookie, and from another site: a form and
    requests of a script, while the steward is signed in.
    """
    desk = Desk.open(site.folder)
    ticket = desk.ask("visits", question("visit ~ income", 0.31, title=name), "b.okafor", key=name)
    Elsewhere.page = ATTACK.format(place=site.at(f"/q/{ticket.id}/approve"), page=site.at("/q"))
    server = ThreadingHTTPServer((name, 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = chromium.new_context()
    asked = []
    answers = []
    try:
        page = context.new_page()
        page.goto(site.address)
        page.wait_for_url(site.at())
        page.wait_for_load_state("networkidle")
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda answer: answers.append((answer.url, answer.status)))
        page.goto(f"http://{name}:{server.server_port}/")
        page.get_by_text("tried").wait_for()
        assert page.locator("#told").get_attribute("data-read") is None
    finally:
        context.close()
        server.shutdown()
        server.server_close()
    assert sum(url.startswith(site.origin) for url in asked) >= 4
    assert {status for url, status in answers if url.startswith(site.origin)} == {403}
    assert desk.ticket(ticket.id).state == "waiting"
    desk.withdraw(ticket.id)


def test_a_link_from_elsewhere_signs_in_and_leads_on(chromium, site):
    """The token may come from a file or a mail: the pages after it are ours."""
    Elsewhere.page = f'<!DOCTYPE html><title>x</title><a href="{site.address}">open</a>'
    server = ThreadingHTTPServer(("localhost", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://localhost:{server.server_port}/")
        page.get_by_text("open").click()
        page.get_by_role("heading", name="Tables").wait_for()
    finally:
        context.close()
        server.shutdown()
        server.server_close()
