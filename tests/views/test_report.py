"""The report: what the page says, that everyone can read it, and that nothing a user names can
break it.
"""

import csv
import dataclasses
import html
import io
import json
import math
import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.stats import norm

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.views import promise
from dpinfer.views.page import MAY_NOT
from helpers import described
from helpers.pages import Tree
from helpers.partial_results import partly_reported
from helpers.people import AVERAGE, UNIT, WEIGHTS
from helpers.people import schema as units
from helpers.people import table as persons
from helpers.support import labelled

X, Y = labelled(2000, 4)
NAMES = ("(Intercept)", "age", "income", "sex[f]")
ODD = ("<script>alert('a')</script>", "quotes \" and ' & more", "x" * 300, "pipe | and `code`")


def fit(names=NAMES, private=True, **options):
    found = dp.infer(
        X,
        Y,
        **(
            {"penalty": 0.01, "budget": dp.ZCDP(0.1), "loss": dp.Logistic(), "insecure_seed": 5}
            | options
        ),
    )
    privacy = dataclasses.replace(found.privacy, private=private)
    return dataclasses.replace(found, names=tuple(names), privacy=privacy)


def without(result, j, word="not identified at this budget"):
    status = tuple(word if k == j else "reported" for k in range(len(result.names)))
    kept = np.delete(np.eye(len(result.names)), j, axis=0)
    return dataclasses.replace(result, error=result.error.mapped(kept), status=status)


PLAIN, ASIDE, NOT_PRIVATE, WILD = fit(), without(fit(), 2), fit(private=False), without(fit(ODD), 0)
ALL = {"plain": PLAIN, "not identified": ASIDE, "not private": NOT_PRIVATE, "odd names": WILD}


def tree(result, **options):
    return Tree(dp.report.html(result, **options)).root


def cells(page):
    body = page.all("tbody")[0]
    return [[cell.words() for cell in row.all("th", "td")] for row in body.all("tr")]


def number(cell):
    return float(cell.replace("−", "-").replace(",", "").rstrip("%"))


@pytest.fixture(params=ALL, scope="module")
def page(request):
    return tree(ALL[request.param])


def test_landmarks_and_headings(page):
    (root,) = page.all("html")
    assert root.attributes["lang"] == "en"
    assert page.all("title")[0].words()
    for landmark in ("header", "main", "footer", "h1"):
        assert len(page.all(landmark)) == 1
    levels = [int(node.tag[1]) for node in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(node.words() for node in page.all("h1", "h2"))


def test_ids_are_unique_and_references_resolve(page):
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in page.all():
        assert set(node.attributes.get("aria-labelledby", "").split()) <= set(ids)
    for node in page.all("section"):
        assert node.attributes["aria-labelledby"]


def test_the_table_can_be_read_aloud(page):
    (table,) = page.all("table")
    assert table.all("caption")[0].words()
    columns = table.all("thead")[0].all("th")
    assert {node.attributes["scope"] for node in columns} == {"col"}
    for row in table.all("tbody")[0].all("tr"):
        first, *others = row.all("th", "td")
        assert first.attributes["scope"] == "row"
        assert len(others) == len(columns) - 1
        assert {node.tag for node in others} == {"td"}
    holder = table.parent
    assert holder.attributes["tabindex"] == "0"  # a keyboard can scroll it
    assert holder.attributes["role"] == "region"


def test_drawings_have_words(page):
    for drawing in page.all("svg"):
        if drawing.attributes.get("aria-hidden") == "true" or drawing.parent.tag == "svg":
            continue
        assert drawing.attributes["role"] == "img"
        first, second = drawing.children[1], drawing.children[3]
        assert (first.tag, second.tag) == ("title", "desc")
        assert (
            drawing.attributes["aria-labelledby"]
            == f"{first.attributes['id']} {second.attributes['id']}"
        )
        assert first.words()
        assert second.words()
    key = next(node for node in page.all("ul") if node.attributes.get("class") == "key")
    assert all(item.words() for item in key.all("li"))  # no colour alone


def test_the_page_needs_no_network_and_no_script(page):
    assert not page.all("script", "link", "iframe", "object", "embed", "img")
    for node in page.all():
        assert not {"src", "href", "xlink:href", "style"} & set(node.attributes)
        assert not [name for name in node.attributes if name.startswith("on")]
    (style,) = page.all("style")
    for word in ("http:", "https:", "url(", "@import"):
        assert word not in style.words()
    assert "http" not in page.words()
    assert (
        "width=device-width" in [node.attributes.get("content", "") for node in page.all("meta")][1]
    )


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def palettes(style):
    """The named colours of a style sheet, by the colour scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", style)
    return {
        scheme: dict(re.findall(r"--(\w+): (#\w{6})", found))
        for scheme, found in (("light", light), ("dark", dark))
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(scheme):
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)
    style = tree(PLAIN).all("style")[0].words()
    found = palettes(style)
    assert found["light"].keys() == found["dark"].keys()
    colours = found[scheme]
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    assert not re.search(r"(?<!-)color: #|fill: #|stroke: #", style)  # every colour has a name
    texts = 0
    for selector, body in rules:
        ground = re.search(r"background: var\(--(\w+)\)", body)
        grounds = [ground[1]] if ground else ["paper", "pale"]
        drawn = r"|fill" if "text" in selector or ".head" in selector or ".tick" in selector else ""
        for ink in re.findall(rf"(?:(?<!-)color{drawn}): var\(--(\w+)\)", body):
            texts += 1
            assert all(contrast(colours[ink], colours[g]) >= 4.5 for g in grounds), (selector, ink)
    assert texts > 8
    # marks that carry meaning, and the colours of models
    for line in ("blue", "orange", "green", "bias", "olive", "muted", "ink"):
        for ground in ("paper", "pale"):
            assert contrast(colours[line], colours[ground]) >= 3


def test_the_dark_colours_are_for_screens_alone():
    """Paper is white, whatever the browser prefers."""
    style = tree(PLAIN).all("style")[0].words()
    assert "@media screen and (prefers-color-scheme: dark)" in style
    assert style.count("prefers-color-scheme") == 1


def test_the_cost_of_each_step_is_folded():
    """On the page on demand; in Markdown it is a list like any other."""
    page = tree(PLAIN)
    (details,) = page.all("details")
    assert details.all("summary")[0].words() == "What each step cost"
    items = [item.words() for item in details.all("li")]
    assert len(items) == len(PLAIN.privacy.events)
    text = dp.report.markdown(PLAIN)
    assert "What each step cost:" in text
    assert all(item.split(":")[0] in text for item in items)


def test_names_break_at_underscores():
    """Where a browser may break a line, and nowhere in what is copied."""
    name = "hospital_admissions_last_year"
    page = dp.report.html(fit(("(Intercept)", "age", name, "<i>_x")))
    assert "hospital_<wbr>admissions_<wbr>last_<wbr>year" in page
    assert "&lt;i&gt;_<wbr>x" in page
    pictures = tree(fit(("(Intercept)", "age", f"{name}_of_the_household", "x"))).all("svg")
    drawn = [one for one in pictures if one.all("tspan")][-1]
    words = {word for span in drawn.all("tspan") for word in span.words().split("_")}
    assert {*name.split("_"), "of", "the", "household"} <= words


@pytest.mark.parametrize("budget", [dp.ZCDP(0.1), dp.PureDP(1.0), dp.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_every_number_of_the_table_is_there(budget, level):
    result = fit(budget=budget)
    page = tree(result, level=level)
    assert page.all("thead")[0].all("th")[2].words() == f"{100 * level:g}% interval"
    rows = zip(cells(page), result.table(level), result.interval_shares(level), strict=True)
    for (name, estimate, interval, ratio, error, z, p, parts), row, shares in rows:
        assert name == row["name"]
        assert (ratio == "–") == (name == "(Intercept)")
        close = 0.051 * row["std_error"]  # two digits of the standard error are shown
        assert number(estimate) == pytest.approx(row["estimate"], abs=close)
        assert number(error) == pytest.approx(row["std_error"], abs=close)
        assert [number(end) for end in interval.split(" to ")] == pytest.approx(
            [row["low"], row["high"]], abs=close
        )
        assert number(z) == pytest.approx(row["z"], abs=0.0051)
        assert (
            row["p_value"] < 0.001
            if p == "< .001"
            else number(p) == pytest.approx(row["p_value"], abs=5.1e-4)
        )
        percents = [float(part) for part in parts.removesuffix("%").split(" / ")]
        assert sum(percents) == 100
        assert percents == pytest.approx(100 * shares, abs=1)


def test_the_estimates_alone_are_those_of_the_page():
    """A page of another program shows the same table and the same plot."""
    for result in ALL.values():
        alone = dp.report.estimates(result, level=0.9)
        assert alone.strip() in dp.report.html(result, level=0.9)
        assert "<html" not in alone
    assert imread(io.BytesIO(dp.report.png(PLAIN)), format="png").shape[2] == 4


def test_the_drawing_is_to_scale():
    """Ticks and bars lie on one line: place = a + b log ratio, in both drawings and in each panel."""
    factors = np.array([1e-2, 1e-2, 1.0, 1.0])
    result = fit()
    result = dataclasses.replace(
        result,
        estimate=np.array([0.5, -0.3, 0.4, 0.2]) * factors,
        error=result.error.mapped(np.diag(factors)),
    )
    low, high = result.conf_int().T
    part_lengths = result.interval_parts()["sampling"].to_numpy()
    for drawing in tree(result).all("svg"):
        if drawing.attributes.get("role") != "img":
            continue
        for panel, rows in ((0, [1]), (1, [2, 3])):
            of_panel = slice(0, 3) if panel == 0 else slice(3, 9)
            paths = [node.attributes["d"] for node in drawing.all("path")][of_panel]
            spans = [
                tuple(map(float, re.match(r"M(\S+) \S+?H([\d.]+)", d).groups())) for d in paths
            ]
            values = np.concatenate([[low[j], high[j]] for j in rows])
            places = np.array(spans[::3]).ravel()
            b, a = np.polyfit(values, places, 1)
            assert b > 0
            (axis,) = {
                (n.attributes["x1"], n.attributes["x2"])
                for n in drawing.all("line")
                if "axis" in n.attributes["class"]
            }
            assert float(axis[0]) <= places.min() < places.max() <= float(axis[1])
            assert b * (max(0, *values) - min(0, *values)) > 0.85 * (
                float(axis[1]) - float(axis[0])
            )
            assert np.allclose(a + b * values, places, atol=0.02)
            for j, (left, right) in zip(rows, spans[2::3], strict=True):
                assert right - left == pytest.approx(b * part_lengths[j], abs=0.03)
            top = min(float(re.match(r"M\S+ ([\d.]+?)H", d)[1]) for d in paths)
            ticks = [t for t in drawing.all("text") if t.attributes.get("class") == "tick"]
            below = min({float(t.attributes["y"]) for t in ticks if float(t.attributes["y"]) > top})
            marks = [t for t in ticks if float(t.attributes["y"]) == below]
            assert len(marks) >= 3
            for tick in marks:
                assert float(tick.attributes["x"]) == pytest.approx(
                    a + b * np.log(number(tick.words())), abs=0.02
                )


def test_user_names_are_escaped():
    title = "</title><script>alert(1)</script>"
    text = dp.report.html(WILD, title=title)
    assert "<script" not in text
    page = Tree(text).root
    assert page.all("h1")[0].words() == title
    assert [row[0] for row in cells(page)] == [ODD[0] + " not identified at this budget", *ODD[1:]]
    unit = "<img src=x onerror=alert(1)>"
    hostile = dataclasses.replace(PLAIN, privacy=dataclasses.replace(PLAIN.privacy, unit=unit))
    page = tree(hostile)
    assert not page.all("img")
    assert unit in page.words()


def test_what_is_not_identified_is_named_and_explained():
    page = tree(ASIDE)
    name, *numbers = cells(page)[2]
    assert name == "income not identified at this budget"
    assert numbers == ["–", "not identified", "–", "–", "–", "–", "–"]
    assert "What is not identified" in [node.words() for node in page.all("h2")]
    shown = page.all("main")[0].words()
    for remedy in ("merge rare levels", "tighter public bounds", "larger budget"):
        assert remedy in shown
    assert not re.search(r"\b(nan|inf)\b", shown)
    assert "income: not identified at this budget" in [item.words() for item in page.all("li")]
    for drawing in page.all("svg"):
        if drawing.attributes.get("role") == "img":
            assert len(drawing.all("circle")) == 2  # without the intercept
            assert "not identified at this budget" in drawing.words()
    assert "What is not identified" not in [node.words() for node in tree(PLAIN).all("h2")]


def test_a_result_without_any_interval_is_a_page_too():
    nothing = dataclasses.replace(
        PLAIN, error=PLAIN.error.mapped(np.empty((0, 4))), status=("not identified",) * 4
    )
    assert [row[2] for row in cells(tree(nothing))] == ["not identified"] * 4
    assert dp.report.markdown(nothing).count("| not identified |") == 4


@pytest.mark.parametrize("result", [NOT_PRIVATE, fit(private=False, budget=dp.NoPrivacy())])
def test_what_is_not_private_says_so_loudly(result):
    page = tree(result, title="Visits")
    assert page.all("title")[0].words() == "NOT PRIVATE: Visits"
    (banner,) = [node for node in page.all("p") if node.attributes.get("class") == "warning"]
    assert banner.attributes["role"] == "alert"
    assert banner.words().startswith("NOT PRIVATE")
    assert "The release satisfies" not in page.words()
    assert "NOT PRIVATE" in page.all("footer")[0].words()
    assert dp.report.markdown(result).count("NOT PRIVATE") >= 2
    assert "NOT PRIVATE" not in tree(PLAIN).words()
    assert "NOT PRIVATE" not in dp.report.markdown(PLAIN)


def test_the_statements():
    released = dataclasses.replace(
        PLAIN, privacy=dataclasses.replace(PLAIN.privacy, in_ledger=True, release="R-17")
    )
    for view in (tree(released).words(), dp.report.markdown(released)):
        assert "booked in a ledger before anything was computed from the data" in view
        assert "R-17" in view
    shown = tree(PLAIN).words()
    assert "was not booked" in shown
    assert "release id" not in shown
    for word in (
        PLAIN.model.estimand(), PLAIN.model.mechanism, PLAIN.privacy.neighbours, "ρ = 0.1", "2,000",
        *PLAIN.privacy.caveats(), "How to cite", "How to read an interval", dp.__version__,
    ):  # fmt: skip
        assert word in shown
    for event in PLAIN.privacy.events:
        assert event.share.amount in shown


@pytest.mark.parametrize("alarm", [0.01, 0.05, 0.5])
def test_detection_bounds_the_best_test(alarm):
    """Randomised response attains the pure bound; the best test of Gaussian noise stays below that
    of zCDP.
    """
    for epsilon in (0.1, 1.0, 3.0):
        attained = min(np.exp(epsilon) * alarm, 1 - np.exp(-epsilon) * (1 - alarm))
        assert promise.detection(dp.PureDP(epsilon), alarm) == pytest.approx(attained)
    for rho in (0.001, 0.1, 0.5, 2.0):
        exact = norm.cdf(norm.ppf(alarm) + np.sqrt(2 * rho))
        bound = promise.detection(dp.ZCDP(rho), alarm)
        assert exact <= bound < min(1, 2.2 * exact)
    attained = min(np.exp(1.0) * alarm + 1e-6, 1 - np.exp(-1.0) * (1 - alarm - 1e-6))
    assert promise.detection(dp.ApproxDP(1.0, 1e-6), alarm) == pytest.approx(attained)
    assert promise.detection(dp.NoPrivacy(), alarm) == 1


def odds(probability):
    return probability / (1 - probability)


@pytest.mark.parametrize("before", [0.01, 0.05, 0.5])
def test_a_suspicion_grows_by_no_more_than_the_promise_allows(before):
    """Randomised response attains the pure bound; Gaussian noise exceeds the others as often as allowed."""
    for epsilon in (0.1, 1.0, 3.0):
        truth = np.exp(epsilon) / (1 + np.exp(epsilon))
        posterior = before * truth / (before * truth + (1 - before) * (1 - truth))
        found = promise.suspicion(dp.PureDP(epsilon), before)
        assert (found.after, found.failure) == (pytest.approx(posterior), 0)
    for rho in (0.001, 0.05, 0.5, 2.0):
        sd = np.sqrt(2 * rho)  # of the privacy loss, whose mean is rho

        def exceeds(loss, sd=sd):
            return norm.sf(loss, sd**2 / 2, sd)

        found = promise.suspicion(dp.ZCDP(rho), before)
        growth = np.log(odds(found.after) / odds(before))
        assert exceeds(growth) <= found.failure < exceeds(0.8 * growth)
        for epsilon in (rho + sd, rho + 3 * sd, rho + 5 * sd):
            delta = exceeds(epsilon) - np.exp(epsilon) * norm.sf(epsilon, -rho, sd)
            found = promise.suspicion(dp.ApproxDP(epsilon, delta), before)
            growth = np.log(odds(found.after) / odds(before))
            assert exceeds(growth) <= found.failure == pytest.approx(10 * delta)
            assert exceeds(epsilon) > delta  # e^ε does not hold but for a chance of δ
    assert promise.suspicion(dp.NoPrivacy(), before).after == 1


def test_the_report_says_and_draws_what_a_suspicion_can_become():
    approx = promise.suspicion(dp.ApproxDP(0.5, 1e-6))
    assert approx.sentence("about one person") == (
        "A suspicion of 5 in 100 about one person can become at most 9 in 100. "
        "The chance that it becomes more is at most 1 in 100,000."
    )
    fitted = dp.infer(X, Y, loss=dp.Logistic(), budget=dp.PureDP(0.5))
    said = "A suspicion of 5 in 100 about one record can become at most 8 in 100."
    assert said in " ".join(dp.report.markdown(fitted).split())
    page = tree(fitted)
    assert said in page.all("main")[0].words()
    (picture,) = [node for node in page.all("figure") if "suspicion" in str(node.attributes)]
    filled = [
        node.attributes["d"].count("M")
        for node in picture.all("path")
        if node.attributes["class"] == "suspected"
    ]
    assert filled == [5, 8]
    assert "suspicion" not in dp.report.markdown(fit(private=False, budget=dp.NoPrivacy()))


def test_a_suspicion_is_about_what_neighbours_differ_in():
    assert promise.about_one("one person", Adjacency.REPLACE_UNIT) == "about one person"
    assert promise.about_one("one person", Adjacency.ADD_REMOVE).endswith("is among the records")


def test_what_the_page_says_holds_for_what_was_spent():
    """An (ε, δ) budget buys more zCDP than converts to it; the page goes by the releases."""
    budget = dp.ApproxDP(4.0, 1e-6)
    fitted = dp.infer(X, Y, loss=dp.Logistic(), penalty=0.05, budget=budget)
    rho = sum(event.share.rho for event in fitted.privacy.events)
    assert rho > 1.05 * budget.zcdp().rho
    told = int(
        re.search(r"right in at most (\d+) of 100", " ".join(dp.report.markdown(fitted).split()))[1]
    )
    assert (
        told
        == np.ceil(100 * promise.detection(dp.ZCDP(rho)))
        > np.ceil(100 * promise.detection(budget.zcdp()))
    )


def test_the_page_tells_what_the_promise_alone_allows():
    """The table of docs/howto is by the promise, and the page of the demo says why it has less; one
    rule for both.
    """
    fitted = (
        dp.LogisticRegression(bounds=(-1, 1), classes=(-1, 1), budget=dp.ApproxDP(1.0, 1e-6))
        .fit(X, Y)
        .result_
    )
    said = " ".join(dp.report.markdown(fitted).split())
    assert "right in at most 9 of 100" in said
    assert "By the promise alone it would be 14; the noise of these releases allows less." in said
    pure = dp.infer(X, Y, loss=dp.Logistic(), budget=dp.PureDP(1.0))
    said = " ".join(dp.report.markdown(pure).split())
    assert "right in at most 14 of 100" in said
    assert "By the promise alone" not in said
    guide = (Path(__file__).parents[2] / "docs/howto/choose-epsilon.md").read_text(encoding="utf-8")
    row = [
        math.ceil(100 * promise.detection(dp.PureDP(epsilon))) for epsilon in (0.1, 0.5, 1, 2, 4)
    ]
    assert f"| of 100 | {' | '.join(map(str, row))} |" in guide
    row = [promise.suspicion(dp.PureDP(epsilon)).counts[1] for epsilon in (0.1, 0.5, 1, 2, 4)]
    assert f"| in 100 | {' | '.join(map(str, row))} |" in guide
    assert promise.suspicion(dp.ApproxDP(0.5, 1e-6)).counts == (5, 9)
    assert "at most 9 of 100, where the promise alone gives 14" in guide


def test_csv_has_the_rows_of_the_table():
    result = without(fit(ODD), 1)
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(result, level=0.9))))
    assert [row["name"] for row in rows] == list(ODD)
    for row, expected in zip(rows, result.table(0.9), strict=True):
        assert list(row)[: len(expected)] == list(expected)
        for key in ("estimate", "std_error", "z", "p_value", "low", "high"):
            assert np.array_equal(float(row[key]), expected[key], equal_nan=True)
        assert row["status"] == expected["status"]
    assert (rows[1]["low"], rows[1]["high"], rows[1]["estimate"]) == ("-inf", "inf", "nan")


def test_markdown_keeps_its_shape():
    shown = dp.report.markdown(WILD, title="a # title\nof two lines").splitlines()
    assert shown[0] == "# a \\# title of two lines"
    table = [line for line in shown if line.startswith("|")]
    assert len(table) == 2 + 4
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {9}
    assert not any(
        re.search(r"(?<!\\)<", line) for line in table[:2] + table[3:] if "< .001" not in line
    )
    titles = [node.words() for node in tree(WILD).all("h2")][1:]
    assert [line.removeprefix("## ") for line in shown if line.startswith("## ")] == titles


def test_write_leaves_whole_files_and_nothing_else(tmp_path):
    folder = tmp_path / "new" / "report"
    for result in (PLAIN, ASIDE):  # the second time over the first
        paths = dp.report.write(result, folder, title="Visits")
        assert [path.name for path in paths] == [
            "result.json",
            "coefficients.csv",
            "report.html",
            "forest.png",
        ]
        assert sorted(os.listdir(folder)) == sorted(path.name for path in paths)
        saved, sheet, page, picture = (path.read_bytes() for path in paths)
        assert dp.FitResult.from_json(saved.decode()).to_json() == result.to_json()
        assert json.loads(saved)["format"] == "dpinfer.FitResult"
        assert sheet.decode() == dp.report.csv(result)
        assert page.decode() == dp.report.html(result, title="Visits")
        assert picture.startswith(b"\x89PNG")


def test_write_where_it_cannot(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(dp.InputError, match="name a folder"):
        dp.report.write(PLAIN, tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
    (tmp_path / "result.json").mkdir()
    with pytest.raises(dp.InputError, match="name a folder"):
        dp.report.write(PLAIN, tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["result.json", "taken"]


BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
MEASURE = """<body style="margin:0"><iframe style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe>
<p id="found"></p><script>onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const at = drawing => getComputedStyle(page.querySelector(drawing)).display;
  const table = page.querySelector("table").getBoundingClientRect();
  document.getElementById("found").textContent = [page.documentElement.scrollWidth, page.documentElement.scrollHeight,
    at("svg.wide"), at("svg.narrow"), Math.round(table.width)].join(" ");
}}</script>"""


def browse(address, *options):
    """Run the browser on a page of ours with a profile of its own; its sandbox is off since root
    may not have one.
    """
    call = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    call += [f"--user-data-dir={address.parent / 'profile'}", *options, address.as_uri()]
    return subprocess.run(call, capture_output=True, timeout=120, check=True).stdout.decode()


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
@pytest.mark.parametrize(("width", "shown"), [(360, ("none", "block")), (1200, ("block", "none"))])
@pytest.mark.parametrize("result", [PLAIN, WILD], ids=["plain", "odd names"])
def test_a_browser_shows_it_without_sideways_scrolling(tmp_path, result, width, shown):
    frame = tmp_path / "frame.html"
    frame.write_text(
        MEASURE.format(width=width, page=html.escape(dp.report.html(result))), encoding="utf-8"
    )
    found = re.search(r'<p id="found">(.*?)</p>', browse(frame, "--dump-dom"))[1].split()
    assert int(found[0]) == width
    assert int(found[1]) > 1000
    assert tuple(found[2:4]) == shown
    assert int(found[4]) > 300


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_a_browser_draws_and_prints_it(tmp_path):
    page = tmp_path / "report.html"
    page.write_text(dp.report.html(NOT_PRIVATE), encoding="utf-8")
    browse(page, "--window-size=1000,1400", f"--screenshot={tmp_path / 'page.png'}")
    pixels = imread(tmp_path / "page.png")[..., :3]
    assert pixels.shape == (1400, 1000, 3)
    for colour in ((0xA3, 0, 0), (0, 0x72, 0xB2), (0xD5, 0x5E, 0)):  # banner, inner bar, whole bar
        assert np.all(np.abs(pixels - np.array(colour) / 255) < 0.02, axis=-1).sum() > 20
    browse(page, "--no-pdf-header-footer", f"--print-to-pdf={tmp_path / 'page.pdf'}")
    printed = (tmp_path / "page.pdf").read_bytes()
    assert 2 <= len(re.findall(rb"/Type /Page\b", printed)) <= 4
    assert re.search(rb"/MediaBox \[0 0 59[456][\d.]* 84[12]", printed)  # A4


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\n=1"])
def test_a_spreadsheet_runs_no_name(name):
    named = dataclasses.replace(PLAIN, names=(name, *PLAIN.names[1:]))
    first = next(iter(csv.DictReader(io.StringIO(dp.report.csv(named), newline=""))))
    assert first["name"] == f"'{name}"
    assert (
        PLAIN.names[1]
        == [row["name"] for row in csv.DictReader(io.StringIO(dp.report.csv(named), newline=""))][1]
    )
    assert "\r" not in dp.report.csv(dataclasses.replace(PLAIN, names=("x\r=1", *PLAIN.names[1:])))


LONG = "not reported: too few events of one kind; it cannot be told from age, income, sex[f] and 12 more"
NAMED = (
    "(Intercept)",
    "health[good, as stated by the person in the interview]",
    "income",
    "sex[f]",
)


def test_long_names_and_statuses_take_lines_of_their_own():
    """In both drawings: names wrap, the axis is as long as without a status, and no text is set
    closer.
    """
    result = without(fit(NAMED), 2, LONG)
    for drawing, plain in zip(tree(result).all("svg"), tree(fit(NAMED)).all("svg"), strict=True):
        if drawing.attributes.get("role") != "img":
            continue
        shown = drawing.words()
        assert "health[good, as" in shown
        assert "interview]" in shown
        assert LONG.split("; ", maxsplit=1)[0] in " ".join(shown.split())
        axis, other = (
            [n.attributes["x2"] for n in svg.all("line") if n.attributes["class"] == "axis"]
            for svg in (drawing, plain)
        )
        assert axis[0] == other[0]
        why = [node for node in drawing.all("text") if node.attributes.get("class") == "why"]
        assert why
        assert all("textLength" not in node.attributes for node in why)
        bottom = min(
            float(n.attributes["y1"])
            for n in drawing.all("line")
            if n.attributes["class"] == "axis"
        )
        assert all(float(node.attributes["y"]) <= bottom for node in why)


def test_a_line_says_what_may_not_be_concluded():
    for view in (tree(ASIDE).words(), dp.report.markdown(ASIDE)):
        assert MAY_NOT in view


EDGES = MEASURE.replace(
    'table.width)].join', 'table.width), ...[...page.querySelectorAll("td:nth-child(3), thead th:nth-child(3)")].map('
    'cell => Math.round(cell.getBoundingClientRect().right))].join'
)  # fmt: skip


@pytest.mark.skipif(BROWSER is None, reason="no Chromium here")
def test_the_intervals_can_be_read_on_a_phone_without_scrolling(tmp_path):
    frame = tmp_path / "frame.html"
    page = dp.report.html(without(fit(NAMED), 2, LONG))
    frame.write_text(EDGES.format(width=390, page=html.escape(page)), encoding="utf-8")
    found = re.search(r'<p id="found">(.*?)</p>', browse(frame, "--dump-dom"))[1].split()
    edges = [int(edge) for edge in found[5:]]
    assert len(edges) == 5
    assert max(edges) <= 370


RAND = dp.datasets.rand_hie()
ASKED = {"schema": RAND.schema, "budget": dp.ApproxDP(1.0, 1e-6), "insecure_seed": 1}
LONG_TAIL = "mdvis ~ lncoins + disea + health"


def counted(model, head):
    options = {"schema": units(head), "budget": dp.ZCDP(0.5), "insecure_seed": 1}
    return lambda: model("y ~ a + b", **options).fit(persons(700, 150)).result_


REPORTED = {
    "logistic": lambda: dp.LogisticRegression(RAND.formula, **ASKED).fit(RAND.table).result_,
    "linear": lambda: dp.LinearRegression(LONG_TAIL, **ASKED).fit(RAND.table).result_,
    "robust": lambda: (
        dp.LinearRegression(LONG_TAIL, target="robust", **ASKED).fit(RAND.table).result_
    ),
    "counts": lambda: dp.PoissonRegression(LONG_TAIL, **ASKED).fit(RAND.table).result_,
    "penalised": lambda: (
        dp.LogisticRegression(RAND.formula, **ASKED | {"budget": dp.PureDP(1.0)})
        .fit(RAND.table)
        .result_
    ),
    "hinge": counted(dp.LinearSVC, UNIT + WEIGHTS),
    "units": counted(dp.LogisticRegression, AVERAGE),
    "every": counted(dp.LogisticRegression, UNIT + 'rows = "every"\n'),
    "partly reported": partly_reported,
}


def sentences_of(text):
    """The sentences of a Markdown document outside its tables."""
    for line in text.replace("\\", "").splitlines():
        if not line.startswith("|"):
            yield from re.split(r"(?<=[.?!]) +(?=[A-Z(])", line.strip("-* "))


@pytest.mark.parametrize("kind", REPORTED)
@pytest.mark.parametrize("private", [True, False])
def test_sentences_of_a_report_are_short(kind, private):
    """Fewer than 25 words each, so that they can be read once."""
    result = REPORTED[kind]()
    privacy = dataclasses.replace(result.privacy, private=private, in_ledger=private)
    result = dataclasses.replace(result, privacy=privacy)
    for sentence in sentences_of(dp.report.markdown(result)):
        words = [word for word in sentence.split() if re.search("[A-Za-z]", word)]
        assert len(words) < 25, sentence


@pytest.mark.parametrize(
    "document",
    [
        lambda: dp.report.markdown(described.plain()),
        lambda: dp.report.markdown(described.grouped()),
        lambda: dp.compare([partly_reported(), partly_reported(income=False)]).to_markdown(),
    ],
)
def test_sentences_of_other_documents_are_short(document):
    for sentence in sentences_of(document()):
        words = [word for word in sentence.split() if re.search("[A-Za-z]", word)]
        assert len(words) < 25, sentence
