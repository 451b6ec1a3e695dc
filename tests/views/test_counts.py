"""Results of counts in every format: log rates, and rate ratios beside them."""

import csv
import io
import re

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.result import coefficient_table, text
from helpers import claims
from helpers.pages import Tree

RESULT = claims.model(budget=dp.ApproxDP(1.0, 1e-6), insecure_seed=1).fit(claims.table()).result_
PARTIAL = claims.model(budget=dp.ZCDP(0.02), insecure_seed=1).fit(claims.table(3000)).result_


def column(page, title):
    """The cells of a column of the first table of a Markdown report, by the names of the rows."""
    lines = [line.replace("\\", "") for line in page.splitlines() if line.startswith("|")]
    titles, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    place = [words.partition(" (")[0] for words in titles].index(title)
    return {row[0]: row[place] for row in rows if len(row) == len(titles)}


def test_rate_ratios_are_a_column_of_the_report():
    assert not PARTIAL.reported.all()
    for result, level in ((RESULT, 0.95), (RESULT, 0.8), (PARTIAL, 0.95)):
        listed = column(dp.report.markdown(result, level=level), "Rate ratio")
        ratios = result.rate_ratios(level)
        assert [name for name in listed if name in result.names] == ["(Intercept)", *ratios.index]
        assert listed["(Intercept)"] == "–"
        for name, (ratio, low, high) in ratios[["rate_ratio", "low", "high"]].iterrows():
            if ratios.loc[name, "status"] != "reported":
                assert listed[name] == "–"
                continue
            numbers = [float(number) for number in re.findall(r"[0-9.]+", listed[name])]
            assert np.allclose(numbers, (ratio, low, high), rtol=0.02)
        table = Tree(dp.report.html(result, level=level)).root.all("table")[0]
        shown = {row.all("th")[0].words(): row.all("td")[2].words() for row in table.all("tr")[1:]}
        assert {
            name: words for name, words in shown.items() if name in listed and words != "–"
        } == {name: words for name, words in listed.items() if words != "–" and name in shown}
        assert "The rates are multiplied by it" in dp.report.markdown(result, level=level)


def test_the_summary_has_a_column_of_ratios_in_one_page():
    for result in (RESULT, PARTIAL):
        summary = result.summary()
        lines = summary.splitlines()
        first, last = [j for j, line in enumerate(lines) if set(line) == {"="}][-2:]
        table = "\n".join(lines[first:last])
        shown = {
            label: re.search(rf"^{re.escape(label)}\s.*?(\S+)$", table, re.MULTILINE)[1]
            for label in result.labels
        }
        labels = dict(zip(result.names, result.labels, strict=True))
        for name, row in result.rate_ratios().iterrows():
            if row["status"] == "reported":
                assert float(shown[labels[name]]) == pytest.approx(row["rate_ratio"], rel=1e-3)
        assert shown["(Intercept)"] == "–"
        assert max(map(len, summary.splitlines())) <= text.PAGE_WIDTH


def test_every_format_says_what_the_numbers_are():
    page = dp.report.html(RESULT)
    assert "Coefficients of the logarithm of the rate" in page
    for words in (page, dp.report.markdown(RESULT), RESULT.to_markdown(), RESULT.to_latex()):
        assert coefficient_table.LOG_RATES in words
    assert coefficient_table.LOG_RATES in RESULT._repr_html_()
    assert "how large outcomes are" in page
    assert "log rate at the released centre" in " ".join(RESULT.summary(full=True).split())
    assert dp.plot.forest(RESULT).axes[-1].get_xlabel() == "Rate ratios, on a logarithmic scale"
    assert "logarithm of the rate" in dp.plot.forest(RESULT, exp=False).axes[-1].get_xlabel()
    demo = dp.datasets.rand_hie()
    other = dp.LinearRegression(
        "log(1 + mdvis) ~ lncoins", schema=demo.schema, budget=dp.ZCDP(1.0), insecure_seed=1
    )
    linear = other.fit(demo.table).result_
    for words in (dp.report.html(linear), dp.report.csv(linear), linear.to_markdown()):
        assert "rate_ratio" not in words
        assert "logarithm of the rate" not in words
    assert dp.plot.forest(linear).axes[-1].get_xlabel() == "Coefficients in original units"


@pytest.mark.parametrize("result", [RESULT, PARTIAL], ids=["reported", "partial"])
def test_csv_has_rate_ratios(result):
    rows = list(csv.DictReader(io.StringIO(dp.report.csv(result))))
    for row in rows:
        if row["name"].startswith("(Intercept"):
            assert row["rate_ratio"] == row["rate_ratio_low"] == row["rate_ratio_high"] == ""
            continue
        pairs = (("estimate", ""), ("low", "_low"), ("high", "_high"))
        for end, ending in pairs:
            ratio = float(row[f"rate_ratio{ending}"])
            assert ratio == pytest.approx(np.exp(float(row[end])), nan_ok=True)


def test_a_ratio_in_words():
    """With the digits of its own error; never too large for floats."""
    row = {"status": "reported", "estimate": -0.0213, "std_error": 0.0006}
    cell = coefficient_table.ratio_cell(row | {"low": -0.0225, "high": -0.0201})
    assert str(cell) == "0.97893 (0.97775 to 0.98010)"
    row = {"status": "reported", "estimate": 900.0, "std_error": 300.0}
    assert "(" in str(coefficient_table.ratio_cell(row | {"low": 100.0, "high": 5000.0}))
    why = row | {"status": "not reported: why"}
    assert str(coefficient_table.ratio_cell(why)) == "not reported"
