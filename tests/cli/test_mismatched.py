"""Five files that do not match their schema: what is said before a fit, after it, and by a look at values."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from helpers.terminal import run_here, succeeds

SCHEMA = """
unit = "one person"
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
[columns.sex]
type = "category"
levels = ["female", "male"]
[columns.income]
type = "number"
low = 0
high = 100000
[columns.admitted]
type = "date"
low = 2020-01-01
high = 2022-12-31
[columns.town]
type = "category"
levels = ["Köln", "Bonn", "Aachen"]
"""
FORMULA = "visit ~ sex + income + year(admitted) + town"
N = 6000


def table():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, N), "D")
    return pd.DataFrame(
        {
            "visit": rng.choice(["no", "yes"], N),
            "sex": rng.choice(["female", "male"], N),
            "income": rng.integers(1000, 90000, N),
            "admitted": days.strftime("%Y-%m-%d"),
            "town": rng.choice(["Köln", "Bonn", "Aachen"], N),
        }
    )


def changed(column, change):
    frame = table()
    frame[column] = change(frame[column])
    return frame


MISMATCHED = {
    "capitals": (lambda: changed("sex", lambda c: c.str.upper()), "utf-8", 'spelling = "any"'),
    "0 and 1": (
        lambda: changed("visit", lambda c: (c == "yes").astype(int)),
        "utf-8",
        "visit: most cells that are not read are 0 and 1: write levels = [0, 1]",
    ),
    "thousands": (
        lambda: changed("income", lambda c: c.map("{:,}".format)),
        "utf-8",
        "income: most cells that are not read have commas between thousands",
    ),
    "dates": (
        lambda: changed("admitted", lambda c: pd.to_datetime(c).dt.strftime("%d/%m/%Y")),
        "utf-8",
        "admitted: most cells that are not read are dates in another form",
    ),
    "Latin-1": (table, "latin-1", "of them since they are not UTF-8: save the file as UTF-8"),
}
OTHER_REASONS = (
    "merge rare levels",
    "give a larger budget",
    "take a common one",
    "tighter public bounds",
)


@pytest.fixture(params=MISMATCHED)
def case(request, tmp_path):
    frame, encoding, words = MISMATCHED[request.param]
    frame().to_csv(tmp_path / "table.csv", index=False, encoding=encoding)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path, words


def plain(text):
    return " ".join(text.split())


def test_a_file_that_does_not_match_its_schema(case):
    """Before the fit nothing is said to fit; after it the warning comes first, and no other reason."""
    folder, words = case
    check = ("schema", "check", "schema.toml", "--data", "table.csv", "--formula", FORMULA)
    shown = succeeds(run_here(*check, cwd=folder))
    assert "matches" not in shown
    assert "A CSV file has no types. Values were not read." in plain(shown)
    looked = succeeds(run_here(*check, "--peek", cwd=folder))
    assert words in plain(looked)
    assert re.search(r"(0|3,\d{3}|4,\d{3}) of 6,000 rows have a value that fits", plain(looked))
    asked = ("fit", "table.csv", "--schema", "schema.toml", "--formula", FORMULA, "--rho", "0.2")
    dry = plain(succeeds(run_here(*asked, "--dry-run", cwd=folder)))
    assert "not checked: dpinfer schema check SCHEMA --data TABLE --peek counts those" in dry
    shown = succeeds(run_here(*asked, "-o", "out", cwd=folder))
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert shown.index("WARNING: only about") < shown.index("(Intercept)")
    assert page.index("WARNING: only about") < page.index("<dl") < page.index("<table")
    for text in (plain(shown), plain(page)):
        assert "could be used" in text
        for other in OTHER_REASONS:
            assert other not in text


def test_a_file_that_matches_has_no_remark(tmp_path):
    table().to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    check = ("schema", "check", "schema.toml", "--data", "table.csv", "--peek")
    shown = succeeds(run_here(*check, cwd=tmp_path))
    assert "6,000 of 6,000 rows" in shown
    assert "most cells" not in shown
    told = json.loads(succeeds(run_here(*check, "--json", cwd=tmp_path)))["peek"]
    assert {column["form"] for column in told["columns"]} == {""}
    assert told["no_text"] == 0
