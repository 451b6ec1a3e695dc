"""Survival curves as a picture and as documents: what is drawn is what was released."""

import csv as _csv
import io
from functools import cache

import numpy as np
import pytest

import dpinfer as dp

SCHEMA = dp.Schema.parse("""
unit = "one patient"
[columns.months]
type = "integer"
low = 0
high = 24
label = "time since <operation>"
[columns.status]
type = "category"
levels = ["none", "relapse", "death"]
reference = "none"
[columns.arm]
type = "category"
levels = ["=a", "b"]
""")


@cache
def curves(**options):
    rng = np.random.default_rng(0)
    n = 2000
    table = {
        "months": rng.integers(1, 30, n),
        "status": rng.choice(["none", "relapse", "death"], n).tolist(),
        "arm": rng.choice(["=a", "b"], n).tolist(),
    }
    budget = dp.ZCDP(0.05)
    given = {"time": "months", "event": "status", "by": "arm", "bins": 12, "insecure_seed": 1}
    return dp.survival_curves(table, SCHEMA, budget=budget, **given | options)


def test_a_plot_has_a_curve_per_group_and_numbers_at_risk():
    figure = dp.plot.survival(curves())
    top, bottom = figure.axes
    assert [line.get_label() for line in top.lines] == ["=a", "b"]
    rows = [row for row in curves().curve_rows() if row["group"] == "b"]
    reported = [row["estimate"] for row in rows if row["status"] == "reported"]
    np.testing.assert_allclose(top.lines[1].get_ydata(), [1.0, *reported])
    first = [row["at_risk"] for row in curves().at_risk_rows() if row["time"] == 0]
    shown = [text.get_text() for text in bottom.texts]
    assert [f"{number:,.0f}" in shown for number in first] == [True, True]
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_incidence_rises_from_zero_and_months_are_steps():
    figure = dp.plot.survival(curves(bins=24), cause="death", band=True)
    line = figure.axes[0].lines[0]
    assert line.get_ydata()[0] == 0
    assert line.get_drawstyle() == "steps-post"
    assert dp.plot.survival(curves()).axes[0].lines[0].get_drawstyle() == "default"


def test_faults_of_a_plot():
    with pytest.raises(dp.InputError, match="no cause"):
        dp.plot.survival(curves(), cause="fever")
    with pytest.raises(dp.InputError, match="draws what"):
        dp.plot.survival("curves")


def test_one_group_and_nothing_reported_are_drawn():
    alone = curves(by=None)
    assert len(dp.plot.survival(alone).axes[0].lines) == 1
    assert dp.plot.survival(alone).axes[0].get_legend() is None
    table = {"months": np.array([3, 4]), "status": ["none", "death"], "arm": ["b", "b"]}
    few = dp.survival_curves(
        table, SCHEMA, time="months", event="status", budget=dp.ZCDP(0.01), insecure_seed=0
    )
    assert len(dp.plot.survival(few).axes[0].lines) == 0
    assert "not reported" in dp.report.markdown(few)


def test_the_page_stands_alone():
    page = dp.report.html(curves(), title="Our <trial>")
    assert "<h1>Our &lt;trial&gt;</h1>" in page
    assert page.count("data:image/png;base64,") == 3
    assert "<script" not in page
    assert "http" not in page.split("</style>")[1].replace("http-equiv", "")
    assert "time since &lt;operation&gt;" in page
    for words in ("Numbers at risk", "Log-rank", "How to cite", "NOT PRIVATE", "Cumulative"):
        assert words in page


def test_the_csv_has_every_number():
    rows = list(_csv.DictReader(io.StringIO(dp.report.csv(curves()))))
    assert len(rows) == 3 * 2 * 12
    assert {row["curve"] for row in rows} == {"survival", "incidence"}
    assert {row["group"] for row in rows} == {"'=a", "b"}
    first = curves().curve_rows()[0]
    assert float(rows[0]["estimate"]) == first["estimate"]
    assert float(rows[0]["band_high"]) == first["band_high"]


def test_a_folder_has_all_files(tmp_path):
    paths = dp.report.write(curves(), tmp_path / "out")
    names = sorted(path.name for path in paths)
    assert names == [f"survival.{end}" for end in ("csv", "html", "json", "md", "png")]
    with pytest.raises(dp.InputError, match="decided when it was"):
        dp.report.html(curves(), level=0.9)
