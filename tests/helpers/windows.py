"""A desk that is open in a process of its own, and windows of a real browser that look at its page."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = "from dpinfer.cli import main; main()"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Open:
    """A desk that is open: its folder, and the addresses of its page."""

    def __init__(self, folder, address):
        self.folder = folder
        self.address = address
        self.origin, self.home = re.match(r"(http://[^/]+)(/[^/]+)/enter", address).groups()

    def at(self, path="/"):
        return f"{self.origin}{self.home}{path}"


@contextmanager
def opened(folder, browser=""):
    """`dpinfer desk open` in a process of its own, ended as a user ends it; ``browser`` is a command
    that is started instead of one.
    """
    arguments = ["desk", "open", str(folder), "--port", "0"]
    if not browser:
        arguments.append("--no-browser")
    with started(arguments, folder, browser) as found:
        yield found


@contextmanager
def started(arguments, folder, browser):
    """A command that opens the desk in ``folder``, until the block ends."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "BROWSER": browser}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            lines = iter(process.stdout.readline, "")
            found = (re.search(r"http://\S+", line) for line in lines)
            address = next((match[0] for match in found if match), None)
            assert address, process.stderr.read()
            yield Open(folder, address)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                _, complaints = process.communicate(timeout=300)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert "Traceback" not in complaints, complaints


LISTEN = """
addEventListener("securitypolicyviolation", heard =>
  console.error("CSP: " + heard.violatedDirective + " " + heard.blockedURI));
"""


class Looking:
    """A window of a browser that looks at a site, and what went wrong in it: scripts that ran, reports
    of the policy, requests to elsewhere.
    """

    def __init__(self, chromium, site, script=True, width=1280):
        self.site = site
        self.context = chromium.new_context(
            java_script_enabled=script, viewport={"width": width, "height": 900}
        )
        self.context.set_default_timeout(120_000)
        self.faults = []
        self.context.add_init_script(LISTEN)
        self.context.on("dialog", lambda dialog: (self.faults.append("dialog"), dialog.dismiss()))
        self.context.on("request", self._asked)
        self.page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda fault: self.faults.append(f"script: {fault}"))

    def _asked(self, request):
        if not request.url.startswith((self.site.origin, "blob:", "about:")):
            self.faults.append(f"request: {request.url}")

    def _said(self, message):
        if "CSP" in message.text or "Content Security Policy" in message.text:
            self.faults.append(message.text)

    def go(self, path="/"):
        return self.page.goto(self.site.at(path))

    def words(self):
        return self.page.inner_text("body")


class Window(Looking):
    """A window that has entered by the token of a desk that is open."""

    def __init__(self, chromium, site, script=True, width=1280):
        super().__init__(chromium, site, script, width)
        self.page.goto(site.address)
        self.page.wait_for_url(site.at())


@pytest.fixture(scope="session")
def chromium():
    """The browser; each window of it has cookies of its own."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


AXE = (Path(__file__).parents[1] / "vendor/axe.min.js").read_text(encoding="utf-8")
FOUND = (
    "options => axe.run(options).then(found => "
    "found.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 160))]))"
)
COLOURS = ["color-contrast", "link-in-text-block"]
"""What the dark scheme can change: it has other colours and nothing else."""


def judged(page):
    """What axe finds by day, and of colours by night; and whether the page is wider than its window."""
    page.evaluate(AXE)
    found = []
    for scheme, options in (("light", {}), ("dark", {"runOnly": COLOURS})):
        page.emulate_media(color_scheme=scheme)
        found += [(scheme, *fault) for fault in page.evaluate(FOUND, options)]
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        found.append(("wider than the window",))
    return found
