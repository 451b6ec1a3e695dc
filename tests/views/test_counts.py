"""Results of counts in every format: log rates, and rate ratios beside them."""

import csv
import io
import re

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.result import coefficient_table
from helpers import claims

RESULT = claims.model(budget=dp.ApproxDP(1.0, 1e-6), insecure_seed=1).fit(claims.table()).result_
PARTIAL = claims.model(budget=dp.ZCDP(0.02), insecure_seed=1).fit(claims.table(3000)).result_
NAMES = RESULT.names[1:]


def of_section(page, title):
    """The items of a section of a Markdown report, by name."""
    section = page.split(f"## {title}")[1].split("\n## ")[0]
    items = [line.replace("\\", "")[2:] for line in section.splitlines() if line.startswith("- ")]
    return dict(item.split(": ", 1) for item in items)


def test_rate_ratios_stand_in_the_report():
    assert not PARTIAL.reported.all()
    for result, level in ((RESULT, 0.95), (RESULT, 0.8), (PARTIAL, 0.95)):
        listed = of_section(dp.report.markdown(result, level=level), "Rate ratios")
        ratios = result.rate_ratios(level)
        assert [name for name in listed if name in result.names] == list(ratios.index)
        for name, (ratio, low, high) in ratios[["rate_ratio", "low", "high"]].iterrows():
            if ratios.loc[name, "status"] != "reported":
                assert listed[name] in ("not reported", "not identified")
                continue
            numbers = [float(number) for number in re.findall(r"[0-9.]+", listed[name])]
            assert np.allclose(numbers, (ratio, low, high), rtol=0.02)
        page = dp.report.html(result, level=level)
        assert all(f"<li>{name}: {words}</li>" in page for name, words in listed.items())


def test_every_format_says_what_the_numbers_are():
    page = dp.report.html(RESULT)
    assert "Coefficients of the logarithm of the rate" in page
    for words in (page, dp.report.markdown(RESULT), RESULT.to_markdown(), RESULT.to_latex()):
        assert coefficient_table.LOG_RATES in words
    assert coefficient_table.LOG_RATES in RESULT._repr_html_()
    assert "how large outcomes are" in page
    assert "log rate at the released centre" in " ".join(RESULT.summary().split())
    assert dp.plot.forest(RESULT).axes[-1].get_xlabel().startswith("coefficient of the logarithm")
    demo = dp.datasets.rand_hie()
    other = dp.LinearRegression(
        "log(1 + mdvis) ~ lncoins", schema=demo.schema, budget=dp.ZCDP(1.0), insecure_seed=1
    )
    linear = other.fit(demo.table).result_
    for words in (dp.report.html(linear), dp.report.csv(linear), linear.to_markdown()):
        assert "rate_ratio" not in words
        assert "logarithm of the rate" not in words
    assert dp.plot.forest(linear).axes[-1].get_xlabel() == "coefficient, original units"


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
    assert (
        coefficient_table.ratio(row | {"low": -0.0225, "high": -0.0201})
        == "0.97893 (0.97775 to 0.98010)"
    )
    row = {"status": "reported", "estimate": 900.0, "std_error": 300.0}
    assert "(" in coefficient_table.ratio(row | {"low": 100.0, "high": 5000.0})
    assert coefficient_table.ratio(row | {"status": "not reported: why"}) == "not reported"
