"""A desk on a network in its two processes, and people who visit it without a browser."""

import http.client
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from dpinfer_desk.desk import Desk
from dpinfer_desk.store.accounts import Accounts

PROGRAM = [sys.executable, "-m", "dpinfer", "serve"]
PASSWORD = "correct horse battery"
PEOPLE = {
    "boss": "steward",
    "a.meier": "analyst",
    "b.okafor": "analyst",
    "stranger": "analyst",
    "checker": "auditor",
}
FORM = "application/x-www-form-urlencoded"


def peopled(folder):
    """A desk to which everybody can sign in."""
    desk = Desk.open(folder, "steward")
    desk.folder.share()
    accounts = Accounts(desk.register)
    known = {person.name for person in desk.persons()}
    for name, role in PEOPLE.items():
        if name not in known:
            desk.add_person(name)
        accounts.open(name, role, "steward")
    accounts.set_password("boss", PASSWORD, "steward")
    with desk.register.write() as sql:  # hashed once: that takes half a second
        hashed = sql("SELECT salt, password FROM accounts WHERE person = 'boss'").fetchone()
        sql("UPDATE accounts SET salt = ?, password = ?", *hashed)
    return folder


class Served:
    """A desk that is served: its folder, its address, its process, and what both have said."""

    def __init__(self, folder, process, said):
        self.folder = folder
        self.process = process
        self.said = said
        self.origin = ""

    @property
    def port(self):
        return urlsplit(self.origin).port

    def at(self, path="/"):
        return f"{self.origin}{path}"

    def pids(self):
        """Of the processes that were started: web and worker, by what they were told to be."""
        listed = subprocess.run(
            ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found = {}
        for line in listed.splitlines():
            pid, _, command = line.strip().partition(" ")
            for name in ("web", "worker"):
                if command.endswith(f"--{name}-only"):
                    found[name] = int(pid)
        return found


@contextmanager
def served(folder, *options, run=None, complaints=()):
    """`dpinfer serve run` in processes of its own, ended as a user ends it; ``run`` is another
    command.
    """
    with tempfile.TemporaryDirectory() as scratch:
        said = Path(scratch) / "said"
        with open(said, "wb") as out:
            process = subprocess.Popen(
                run or [*PROGRAM, "run", str(folder), "--port", "0", *options],
                stdout=subprocess.PIPE,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        found = Served(folder, process, said)
        try:
            for line in process.stdout:
                match = re.search(rb"https?://\S+?(?=/\s)", line)
                if match:
                    found.origin = match[0].decode()
                    break
            assert found.origin, said.read_text()
            yield found
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=300)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            process.stdout.close()
        words = said.read_text()
        assert "Traceback" not in words, words


def listening(pid):
    """The port on which a process listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except OSError:
            continue
        if found:
            inodes.add(found[1])
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            return int(fields[1].rpartition(":")[2], 16)
    raise AssertionError("it does not listen")


def in_a_minute(attempt):
    """The statuses of six tries within a minute; a machine that is too busy for that begins anew."""
    while True:
        start = time.monotonic()
        statuses = [attempt().status for _ in range(6)]
        if time.monotonic() - start < 50:
            return statuses
        time.sleep(61)


class Client:
    """Somebody who visits pages with no browser in between."""

    def __init__(self, site, name=""):
        self.site = site
        self.cookie = ""
        self.name = name
        if name:
            answer = self.sign_in(name)
            assert answer.status == 303, answer.text

    def sent(self, method, path, headers=None, body=None):
        """One request as bytes: status, headers and text are in the answer."""
        place = urlsplit(self.site.origin)
        if place.scheme == "https":
            context = ssl._create_unverified_context()
            link = http.client.HTTPSConnection(
                place.hostname, place.port, timeout=300, context=context
            )
        else:
            link = http.client.HTTPConnection(place.hostname, place.port, timeout=300)
        own = {"cookie": self.cookie} if self.cookie else {}
        with suppress(ConnectionError):  # it may answer before it has read everything
            link.request(method, path, body, {**own, **(headers or {})})
        answer = link.getresponse()
        answer.text = answer.read().decode(errors="replace")  # a picture, too
        link.close()
        kept = answer.headers.get("set-cookie")
        if kept:
            self.cookie = kept.partition(";")[0]
        return answer

    def go(self, path, **headers):
        return self.sent("GET", path, headers)

    def post(self, path, fields=None, headers=None, form=None):
        """A form of the page, with the word that stands in it."""
        if form is None:
            form = self.word()
        ours = {"origin": self.site.origin, "content-type": FORM, **(headers or {})}
        body = urlencode({"form": form, **(fields or {})}, doseq=True)
        return self.sent("POST", path, ours, body)

    def word(self):
        """What stands in the forms of this session; nothing before there is one."""
        if not self.cookie:
            return ""
        found = re.search(r'name="form" value="([^"]*)"', self.go("/sign-in").text)
        return found[1]

    def sign_in(self, name, password=PASSWORD):
        return self.post("/sign-in", {"person": name, "password": password})
