"""The proxies of deploy/ for real: nginx and Caddy with TLS, in front of the server, on loopback addresses."""

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from urllib.parse import urlencode

import pytest

from helpers.servers import FORM, PASSWORD, PROGRAM, in_a_minute, listening, peopled, served
from helpers.serving import certificate_in
from helpers.visits import made

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "stats.example.org"
PLAIN = 8080
SECURE = 8443
"""Ports in the place of 80 and 443, which not everybody may have."""
_PID = os.getpid()
ADDRESSES = {
    name: f"127.{first + (_PID >> 16)}.{_PID >> 8 & 255}.{_PID & 255}"
    for name, first in (("nginx", 64), ("caddy", 128))
}
"""Of this machine, by the number of this process, so that nobody else listens there."""
LARGEST = 64 * 1024


def nginx_in(folder, port, files):
    """The snippet in a whole configuration: only ports, addresses and files are others."""
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    text, number = re.subn(r"(?m)^ *listen \[::\].*\n", "", text)
    assert number == 2
    changes = (
        ("listen 80;", f"listen {ADDRESSES['nginx']}:{PLAIN};"),
        ("listen 443 ssl;", f"listen {ADDRESSES['nginx']}:{SECURE} ssl;"),
        ("/etc/ssl/stats.example.org.pem", files[0]),
        ("/etc/ssl/private/stats.example.org.key", files[1]),
        ("http://127.0.0.1:8766", f"http://127.0.0.1:{port}"),
    )
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.getuid() == 0 else ""  # the folder of a test is for its user alone
    head = f"{user}pid {folder}/nginx.pid;\ndaemon off;\nerror_log stderr;\nevents {{}}\n"
    path = folder / "nginx.conf"
    path.write_text(f"{head}http {{\n{temporary}{replaced(text, changes)}\n}}\n", encoding="utf-8")
    return ["nginx", "-p", str(folder), "-c", str(path), "-e", "stderr"]


def caddy_in(folder, port, files):
    """The snippet with a certificate that is there already, and no administration by network."""
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    changes = (
        (f"{NAME} {{", f"{NAME} {{\n\tbind {ADDRESSES['caddy']}\n\ttls {files[0]} {files[1]}"),
        ("{$UPSTREAM:127.0.0.1:8766}", f"127.0.0.1:{port}"),
    )
    head = f"{{\n\tadmin off\n\thttp_port {PLAIN}\n\thttps_port {SECURE}\n\tdefault_bind {ADDRESSES['caddy']}\n}}\n"
    path = folder / "Caddyfile"
    path.write_text(head + replaced(text, changes), encoding="utf-8")
    return ["caddy", "run", "--config", str(path), "--adapter", "caddyfile"]


def replaced(text, changes):
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


PROXIES = {"nginx": nginx_in, "caddy": caddy_in}


@contextmanager
def proxied(command, folder, address):
    """A proxy in a process of its own, once it answers on both ports."""
    said = folder / "proxy.log"
    home = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder),
    }
    with open(said, "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=home)
    try:
        for port in (PLAIN, SECURE):
            while True:
                assert process.poll() is None, said.read_text()
                try:
                    socket.create_connection((address, port), 300).close()
                    break
                except OSError:
                    time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(300)


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """The port of a server that believes proxies on 127.0.0.1, and the files of a certificate."""
    folder = tmp_path_factory.mktemp("behind")
    files = certificate_in(folder)
    desk = peopled(made(folder))
    web = [*PROGRAM, "run", str(desk), "--port", "0", "--web-only", "--name", NAME]
    with served(desk, run=[*web, "--behind-proxy", "127.0.0.1"]) as site:
        yield listening(site.process.pid), files


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request, behind, tmp_path_factory):
    """The address of one of the proxies."""
    name = request.param
    if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
        pytest.skip(f"{name} is not installed")
    folder = tmp_path_factory.mktemp(name)
    with proxied(PROXIES[name](folder, *behind), folder, ADDRESSES[name]):
        yield ADDRESSES[name]


def sent(proxy, method, path, headers=None, body=None, source="127.0.0.1", port=SECURE):
    """One request by TLS, from one of the addresses of this machine."""
    made_ = {"source_address": (source, 0), "timeout": 300}
    if port == SECURE:
        link = Named(proxy, port, context=ssl._create_unverified_context(), **made_)
    else:
        link = http.client.HTTPConnection(proxy, port, **made_)
    with suppress(ConnectionError):  # it may answer before it has read everything
        link.request(method, path, body, {"host": NAME, **(headers or {})})
    answer = link.getresponse()
    answer.text = answer.read().decode()
    link.close()
    return answer


class Named(http.client.HTTPSConnection):
    """Names the server as people know it, as a browser does."""

    def connect(self):
        http.client.HTTPConnection.connect(self)
        self.sock = self._context.wrap_socket(self.sock, server_hostname=NAME)


OURS = {"origin": f"https://{NAME}", "content-type": FORM}


def signed_in(proxy, source, password=PASSWORD, person="a.meier", **headers):
    body = urlencode({"person": person, "password": password})
    return sent(proxy, "POST", "/sign-in", {**OURS, **headers}, body, source)


def test_people_sign_in(proxy):
    """From the door in the clear to a page, with the headers that the server sets."""
    led = sent(proxy, "GET", "/t/visits", port=PLAIN)
    assert led.status in (301, 308)
    assert re.fullmatch(rf"https://{NAME}(:{SECURE})?/t/visits", led.headers["location"])
    answer = signed_in(proxy, "127.0.0.1")
    assert answer.status == 303
    kept = answer.headers["set-cookie"]
    assert kept.startswith("__Host-desk=")
    for word in ("; Secure", "HttpOnly", "SameSite=Strict"):
        assert word in kept
    page = sent(proxy, "GET", "/t/visits", {"cookie": kept.partition(";")[0]})
    assert page.status == 200
    assert "Visits to a doctor, 2024" in page.text
    assert page.headers.get_all("strict-transport-security") == ["max-age=31536000"]
    assert page.headers.get_all("content-security-policy")[0].startswith("default-src 'none'")
    assert len(page.headers.get_all("content-security-policy")) == 1
    assert page.headers["cache-control"] == "no-store"
    assert sent(proxy, "GET", "/health").text == "ok\n"


def test_what_a_client_says_of_its_address_counts_for_nothing(proxy):
    """Five tries in a minute from where the connection comes from, whatever stands in headers."""
    person = f"guessed at {proxy}"
    source = "127.0.1.1" if proxy == ADDRESSES["nginx"] else "127.0.1.2"
    words = cycle(("192.0.2.1", "192.0.2.2, 127.0.0.1", "::ffff:192.0.2.3", "", "192.0.2.5", "x"))
    more = ("x-real-ip", "forwarded", "x-client-ip", "client-ip")

    def tries():
        word = next(words)
        forged = {"x-forwarded-for": word, **dict.fromkeys(more, f"for={word}")}
        return signed_in(proxy, source, "wrong", person, **forged)

    assert in_a_minute(tries) == [403] * 5 + [429]
    elsewhere = source.replace("127.0.1", "127.0.2")
    assert signed_in(proxy, elsewhere, "wrong", person, **{"x-forwarded-for": source}).status == 403


def test_what_a_client_says_of_tls_and_names_counts_for_nothing(proxy):
    for forged in ({"x-forwarded-proto": "http"}, {"x-forwarded-host": "evil.example"}):
        assert sent(proxy, "GET", "/sign-in", forged).status == 200
    clear = sent(proxy, "GET", "/sign-in", {"x-forwarded-proto": "https"}, port=PLAIN)
    assert clear.status in (301, 308)
    foreign = sent(proxy, "GET", "/sign-in", {"host": "evil.example"})
    assert foreign.status != 200 or "Sign in" not in foreign.text
    for headers in ({**OURS, "origin": "https://evil.example"}, {"content-type": FORM}):
        body = urlencode({"person": "a.meier", "password": PASSWORD})
        assert sent(proxy, "POST", "/sign-in", headers, body).status == 403


def test_bodies_are_bounded(proxy):
    """By what is declared and, where nothing is, by what comes; one of the largest size passes."""
    filling = "x" * LARGEST
    refused = (413, 502)  # as Caddy says it, which hands on what comes before it has all of it
    if proxy == ADDRESSES["nginx"]:
        refused = (413,)
    assert sent(proxy, "POST", "/sign-in", OURS, filling + "x").status in refused
    pieces = (b"x" * 8192 for _ in range(20))
    assert sent(proxy, "POST", "/sign-in", OURS, pieces).status in refused
    within = sent(proxy, "POST", "/sign-in", OURS, filling)
    assert within.status in (400, 403)  # read, and no form


def test_programs_come_through(proxy):
    answer = sent(proxy, "GET", "/api/v1/tables", {"authorization": "Bearer nonsense"})
    assert answer.status == 401
    assert answer.headers["content-type"] == "application/json"
