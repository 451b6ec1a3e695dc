"""From the wheel to an analyst's first answer, by the words of docs/howto/serve.md: see `python -m benchmarks.serve`.

A wheel of this source is installed in a new environment, and the commands of the page's first section are run there
as they stand, but for a port of its own and a password that is typed by nobody.  The analyst is a browser.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dpinfer.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/howto/serve.md"
PASSWORD = "correct horse battery"
FORMULA = "visit ~ health"
WITH_PASSWORD = "--password"
PATIENCE = 120_000  # milliseconds


def commands() -> list[str]:
    """The commands of the first section."""
    block = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block[1].replace("\\\n", " ").strip().splitlines()


def start() -> dict[str, Any]:
    """Seconds of every step, and the clicks of the analyst."""
    browser = shutil.which("chromium")
    if browser is None:
        raise InputError("this needs Debian's chromium: install it")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheel = _wheel(folder)
        began = time.monotonic()
        steps: dict[str, float] = {}
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        steps["python -m venv venv"] = time.monotonic() - began
        environment = {**os.environ, "PATH": f"{folder / 'venv/bin'}:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        invitation = ""
        for command in commands():
            step = time.monotonic()
            line = command.replace("'dpinfer[desk]'", f"'{wheel}[desk]'")
            if command.startswith("dpinfer serve run"):
                found = _answered(line, folder, environment, invitation, browser)
                steps[command] = time.monotonic() - step
                break
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=folder,
                env=environment,
                input=PASSWORD if WITH_PASSWORD in line else "",
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise InputError(f"{command!r} went wrong: {done.stderr}")
            steps[command] = time.monotonic() - step
            invitation = (re.findall(r"(?m)^[\w-]{43}$", done.stdout) or [invitation])[-1]
        total = time.monotonic() - began
    return {
        "minutes": round(total / 60, 2),
        **found,
        "seconds_by_step": {step: round(spent, 1) for step, spent in steps.items()},
        "load": os.getloadavg()[0],
    }


def _wheel(folder: Path) -> Path:
    command = ["pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([sys.executable, "-m", *command], check=True)
    return next(folder.glob("dpinfer-*.whl"))


def _answered(
    line: str, folder: Path, environment: dict[str, str], invitation: str, browser: str
) -> dict[str, Any]:
    """What an analyst does in a browser, from an invitation to the answer, and the steward in between."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    process = subprocess.Popen(
        ["bash", "-c", f"exec {line} --port 0"],
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = re.search(r"http://\S+", process.stdout.readline())
        assert address is not None
        with sync_playwright() as playwright:
            window = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = window.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(address[0])
            page.get_by_role("link", name="I have an invitation").click()
            page.get_by_label("Invitation").fill(invitation)
            page.get_by_role("button", name="Continue").click()
            for label in ("Password, of 12", "Repeat password"):
                page.get_by_label(label).fill(PASSWORD)
            clicks = _asked(page)
            _approved(window.new_context().new_page(), address[0])
            page.reload()  # what waits for the steward does not look again by itself
            page.get_by_role("link", name="Read the report").click(timeout=3 * PATIENCE)
            page.get_by_role("heading", level=1).wait_for()
            window.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    return {"clicks_from_sign_in_to_asked": clicks}


def _asked(page: Any) -> int:
    """Sign in by the first password and ask; the number of clicks."""
    clicks = []

    def click(what: Any) -> None:
        clicks.append(what)
        what.click()

    click(page.get_by_role("button", name="Set the password and sign in"))
    click(page.get_by_role("link", name=re.compile("^Ask ")))
    page.get_by_label("Formula").fill(FORMULA)
    page.get_by_label("ε", exact=True).fill("0.5")
    click(page.get_by_role("button", name="Forecast"))
    page.get_by_role("heading", name="Forecast").wait_for()
    click(page.get_by_role("link", name=re.compile("^Ask for ")).first)
    click(page.get_by_role("button", name="Ask: costs"))
    page.get_by_text("It waits for the steward").wait_for()
    return len(clicks)


def _approved(page: Any, address: str) -> None:
    """What the steward does."""
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    page.get_by_label("Name").fill("you")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Approvals").click()
    page.get_by_role("button", name="Approve").click()
    page.get_by_text("You approved").wait_for()
