"""The page of a report in a browser, judged by axe-core, which is kept in tests/vendor under its
own licence.
"""

import json
import re
import shutil
import subprocess
from functools import cache
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

import dpinfer as dp
from helpers import described
from helpers.partial_results import partly_reported
from helpers.people import schema, table

AXE = Path(__file__).parents[1] / "vendor/axe.min.js"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking",
    "--virtual-time-budget=10000",
)  # fmt: skip
JUDGE = """<script src="axe.min.js"></script><script>addEventListener("load", () => axe.run().then(found =>
  parent.postMessage(JSON.stringify({
    violations: found.violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 120))]),
    unsure: found.incomplete.map(one => one.id),
    passes: found.passes.map(one => one.id),
    width: innerWidth,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: getComputedStyle(document.body).backgroundColor,
  }), "*")));</script>"""
LISTEN = """<script>addEventListener("message", told => {
  const heard = document.createElement("p");
  heard.id = "axe";
  heard.textContent = told.data;
  document.body.append(heard);
});</script></body>"""
FRAME = (
    '<meta name="color-scheme" content="light dark"><body style="margin:0">'
    '<iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>'
)
# pixels of a window: below that the page stands in a frame, where axe leaves out what is about
# windows
NARROWEST = 500


def logistic():
    """Of the bundled data at a small budget: several coefficients are not reported."""
    demo = dp.datasets.rand_hie()
    options = {"schema": demo.schema, "budget": dp.ApproxDP(0.2, 1e-6), "insecure_seed": 3}
    return dp.LogisticRegression(demo.formula, **options).fit(demo.table).result_


def linear():
    demo = dp.datasets.rand_hie()
    options = {"schema": demo.schema, "budget": dp.ApproxDP(1.0, 1e-6), "insecure_seed": 3}
    return (
        dp.LinearRegression("log(1 + mdvis) ~ lncoins + idp + health", **options)
        .fit(demo.table)
        .result_
    )


def units():
    """With rows that cannot be used, so that the page has its warning."""
    broken: pd.DataFrame = table()
    broken.loc[broken["person"] % 3 == 0, "b"] = "P"
    return (
        dp.LogisticRegression("y ~ a + b", schema=schema(), budget=dp.ZCDP(5.0)).fit(broken).result_
    )


@cache
def page_of(fit):
    """A result and its page, for windows of all widths."""
    result = fit()
    return result, dp.report.html(result)


SCHEMES = {"light": 1, "dark": 0}
"""What the browser prefers, as its setting has it."""


def judged(page, folder, width, scheme="light"):
    """What axe finds on a page that is shown so many pixels wide."""
    shutil.copy(AXE, folder / AXE.name)
    (folder / "page.html").write_text(page.replace("</body>", JUDGE + LISTEN), encoding="utf-8")
    (folder / "frame.html").write_text(FRAME.format(width=width) + LISTEN, encoding="utf-8")
    address = (folder / ("page.html" if width >= NARROWEST else "frame.html")).as_uri()
    call = [
        BROWSER,
        *FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={width},1200",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
        "--dump-dom",
    ]
    done = subprocess.run([*call, address], capture_output=True, timeout=120, check=True)
    found = json.loads(unescape(re.search(r'<p id="axe">(.*?)</p>', done.stdout.decode())[1]))
    assert found["dark"] == (scheme == "dark")
    return found


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("fit", [logistic, linear, units])
def test_axe_finds_nothing(fit, width, scheme, tmp_path):
    result, page = page_of(fit)
    assert (fit is logistic) == (not result.reported.all())
    assert (fit is units) == bool(result.warnings())
    found = judged(page, tmp_path, width, scheme)
    assert found["violations"] == []
    of_window, of_phone = (
        {"document-title", "landmark-one-main", "region"},
        {"scrollable-region-focusable"},
    )
    assert {"color-contrast", "svg-img-alt", "heading-order"} <= set(found["passes"])
    assert (of_window if width >= NARROWEST else of_phone) <= set(found["passes"])
    assert set(found["unsure"]) <= {
        "color-contrast"
    }  # of a drawing, and of cells that are scrolled away
    assert found["width"] == width
    assert (found["paper"] == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_where_models_stand_side_by_side(width, scheme, tmp_path):
    """With coefficients not reported, rows that stand in for them, and more models than fit on a phone."""
    models = {"all columns": partly_reported(), "without income": partly_reported(income=False)}
    more = {"amounts": partly_reported(squares=True), "not private": partly_reported(private=False)}
    found = judged(dp.report.side_by_side(dp.compare(models | more)), tmp_path, width, scheme)
    assert found["violations"] == []
    assert {"color-contrast", "svg-img-alt", "heading-order"} <= set(found["passes"])
    assert set(found["unsure"]) <= {"color-contrast"}
    assert found["width"] == width
    assert (found["paper"] == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [1280, 700, 390])
def test_axe_finds_nothing_on_a_description(width, scheme, tmp_path):
    found = judged(dp.report.html(described.grouped()), tmp_path, width, scheme)
    assert found["violations"] == []
    assert {"color-contrast", "heading-order", "td-headers-attr"} <= set(found["passes"])
    assert set(found["unsure"]) <= {"color-contrast"}
    assert found["width"] == width
    assert (found["paper"] == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_axe_finds_what_is_wrong(tmp_path):
    page = '<!DOCTYPE html><html><head></head><body><img src="x.png"><p style="color:#ccc">pale</p></body></html>'
    found = {name for name, _ in judged(page, tmp_path, 1280)["violations"]}
    assert {"document-title", "html-has-lang", "image-alt", "color-contrast"} <= found
