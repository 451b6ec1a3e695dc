"""Write the pictures of pages in docs/figures from the bundled data: a report, a question with its forecast, an
answer, and small ones of these and of a study for the first page of the documentation.

.venv-page/bin/python tools/figures.py

It needs Debian's Chromium.  The desk is made in a temporary folder and opened by `dpinfer desk open`.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import dpinfer as dp  # noqa: E402  (the source beside this tool)
from dpinfer.asking.questions import AnalystQuestion  # noqa: E402
from dpinfer_desk.desk import Desk  # noqa: E402
from dpinfer_desk.store.tables import ABOVE, Policy  # noqa: E402

FIGURES = ROOT / "docs/figures"
WIDTH = 1000  # pixels
HEIGHT = 1950  # pixels of a picture at most
ANALYST = "a.meier"
ASKED = "visit ~ lncoins + idp + health"
TITLE = "Does cost sharing keep people from seeing a doctor?"
FORECAST = "visit ~ lncoins + idp + physlm + health"
BUDGET = {"epsilon": 0.8, "delta": 1e-6}
TOTAL = dp.ApproxDP(3.0, 1e-6)
ALLOWANCE = dp.ApproxDP(2.0, 1e-6).zcdp().rho
RESPONSE_TIME = 30.0  # seconds
PATIENCE = 120.0  # seconds
REPORT_TITLE = "Cost sharing and visits to a doctor"
REPORT_HEIGHT = 1500  # pixels
ENTRIES = {"report": "entry_report", "desk_ask": "entry_desk", "coverage": "entry_coverage"}
"""Pictures of the first page, by what they are cut from."""
ENTRY_SIZE = (640, 400)


def made(folder: Path) -> tuple[Desk, str]:
    """Make a desk with an analyst, one question in line and one that waits; return it and the first one's id."""
    schema = folder / "schema.toml"
    shutil.copy(ROOT / "src/dpinfer/_datasets/rand_hie.toml", schema)
    dp.datasets.rand_hie().table.to_parquet(folder / "visits.parquet")
    ledger = folder / "ledger.db"
    public = dp.Schema.read(schema)
    dp.Ledger.create(ledger, TOTAL, unit=public.unit.name, title=public.title)
    desk = Desk.create(folder / "desk", "Health statistics", (RESPONSE_TIME,), who="steward")
    allowed = dp.ApproxDP(1.0, 1e-6).zcdp().rho
    policy = Policy(ABOVE, allowed)
    desk.add_table("visits", folder / "visits.parquet", schema, ledger, policy)
    desk.add_person(ANALYST, "Department of Health Economics")
    desk.allow("visits", ANALYST, ALLOWANCE)
    asked = AnalystQuestion.of({"formula": ASKED, "title": TITLE, **BUDGET})
    waiting = AnalystQuestion.of({"formula": "visit ~ disea", "epsilon": 1.2, "delta": 1e-6})
    desk.ask("visits", waiting, ANALYST)
    return desk, desk.ask("visits", asked, ANALYST).id


@contextmanager
def opened(desk: Desk) -> Iterator[str]:
    """Open the desk in a process of its own; yield the address with its token."""
    command = "from dpinfer.cli import main; main()"
    arguments = ["desk", "open", str(desk.folder.path), "--port", "0", "--no-browser"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        found = (re.search(r"http://\S+", line) for line in process.stdout)
        address = next((match[0] for match in found if match), None)
        assert address, "the desk did not open"
        yield address
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def wait_for_answer(desk: Desk, ident: str) -> None:
    """Wait for the answer time of a question."""
    deadline = time.monotonic() + PATIENCE
    while not desk.ticket(ident).ended:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the question is still {desk.ticket(ident).state}")
        time.sleep(0.5)
    assert desk.ticket(ident).state == "answered", desk.ticket(ident).state


def picture(page: Any, name: str) -> None:
    """Write a picture of the whole page, or of its first part."""
    height = min(HEIGHT, page.evaluate("document.documentElement.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height}
    page.screenshot(path=FIGURES / name, full_page=True, clip=clip)


def write_report(folder: Path) -> Path:
    """Fit the bundled question with fresh noise, and write its report."""
    demo = dp.datasets.rand_hie()
    ledger = dp.Ledger(dp.ApproxDP(2.0, 1e-6), unit=demo.schema.unit.name)
    budget = dp.ApproxDP(1.0, 1e-6)
    model = dp.LogisticRegression(demo.formula, schema=demo.schema, budget=budget, ledger=ledger)
    dp.report.write(model.fit(demo.table).result_, folder, title=REPORT_TITLE)
    return folder / "report.html"


def cut_entries() -> None:
    """Cut the small pictures: the top of a tall one, or a wide one on white."""
    from PIL import Image  # noqa: PLC0415  (of matplotlib)

    width, height = ENTRY_SIZE
    for source, name in ENTRIES.items():
        whole = Image.open(FIGURES / f"{source}.png").convert("RGB")
        tall = round(whole.width * height / width)
        shown = Image.new("RGB", (whole.width, tall), "white")
        shown.paste(whole, (0, max(0, (tall - whole.height) // 2)))
        shown.resize(ENTRY_SIZE, Image.Resampling.LANCZOS).save(
            FIGURES / f"{name}.png", optimize=True
        )


def main() -> None:
    """Make a report and a desk, and the pictures."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  (of the page)

    with tempfile.TemporaryDirectory() as folder:
        desk, ident = made(Path(folder))
        with opened(desk) as address, sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            page = browser.new_page(viewport={"width": WIDTH, "height": 700}, color_scheme="light")
            page.set_default_timeout(1000 * PATIENCE)
            page.goto(address)
            home = address.partition("/enter")[0]
            page.wait_for_url(f"{home}/")
            wait_for_answer(desk, ident)
            budget = {key: f"{amount:g}".replace("e-0", "e-") for key, amount in BUDGET.items()}
            fields = {"formula": FORECAST, **budget, "by": ANALYST, "go": "forecast"}
            page.goto(f"{home}/t/visits/ask?{urlencode(fields)}")
            page.locator("#forecast svg.wide").wait_for()
            picture(page, "desk_ask.png")
            page.goto(f"{home}/q/{ident}")
            picture(page, "desk_answered.png")
            page.set_viewport_size({"width": 1100, "height": REPORT_HEIGHT})
            page.goto(write_report(Path(folder) / "report").as_uri())
            page.screenshot(path=FIGURES / "report.png")
            browser.close()
    cut_entries()


if __name__ == "__main__":
    main()
