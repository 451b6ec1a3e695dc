"""Counts from the command line: dry run, fit, report, plan, study, and what is refused."""

import csv
import json
import os

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.result import text
from helpers import claims
from helpers.terminal import fails, run, run_here, succeeds

SPEC = """
[data]
path = "table.csv"
schema = "schema.toml"
formula = "{formula}"
[model]
loss = "poisson"
{exposure}
[privacy]
rho = 0.5
ledger = "ledger.db"
[output]
folder = "release"
[study]
replicates = 8
"""
NAMES = ["(Intercept)", "age", "region[south]", "region[west]"]


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0))
    claims.table().to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(claims.COLUMNS, encoding="utf-8")
    text = SPEC.format(formula=claims.FORMULA, exposure='exposure = "years"')
    (tmp_path / "fit.toml").write_text(text, encoding="utf-8")
    text = SPEC.format(formula=claims.WITH_OFFSET, exposure="")
    (tmp_path / "offset.toml").write_text(text, encoding="utf-8")
    return tmp_path


OPTIONS = ("table.csv", "--schema", "schema.toml", "--rho", "0.5", "--ledger", "ledger.db")
ASKED = (*OPTIONS, "--out", "release")


def told(folder, *arguments):
    return json.loads(succeeds(run_here(*arguments, "--json", cwd=folder)))


@pytest.mark.parametrize(
    "asked",
    [
        ("fit.toml",),
        ("offset.toml",),
        (*ASKED, "--formula", claims.FORMULA, "--model", "poisson", "--exposure", "years"),
        (*ASKED, "--formula", claims.WITH_OFFSET, "--loss", "poisson"),
    ],
)
def test_every_way_of_asking(folder, asked):
    dry = told(folder, "fit", *asked, "--dry-run")
    assert dry["entry"]["purpose"].startswith("PoissonRegression: claims ~ age + region + offset(")
    assert dry["coefficients"] == NAMES
    assert dry["records"] == 6000
    assert dry["warning"] is None
    assert not dry["hopeless"]
    assert [row["name"] for row in dry["forecast"]] == NAMES
    assert all(row["reported"] == 1 for row in dry["forecast"])


def test_a_fit_and_its_files(folder):
    done = run("fit", "fit.toml", "--verbose", cwd=folder, env={"COLUMNS": "80"})
    screen = succeeds(done)
    assert max(map(len, screen.splitlines())) <= 80
    shown = " ".join(screen.split())
    result = dp.FitResult.load(folder / "release/result.json")
    (entry,) = dp.Ledger.open(folder / "ledger.db").entries()
    assert result.privacy.release == entry.release
    assert entry.purpose.startswith("PoissonRegression: claims ~ age + region + offset(log(")
    page = (folder / "release/report.html").read_text(encoding="utf-8")
    for words in ("the log rate at the released centre", "Outcomes count within"):
        assert words in shown
        assert words in page
    ratio = result.rate_ratios().iloc[0]
    decimals = text.decimals_for(ratio["rate_ratio"] * result.std_error[1])
    assert text.number(ratio["rate_ratio"], decimals) in shown
    assert "<dd>Poisson regression, no" in page
    with (folder / "release/coefficients.csv").open(encoding="utf-8") as sheet:
        rows = {row["name"]: row for row in csv.DictReader(sheet)}
    ratios = result.rate_ratios()
    for name in NAMES[1:]:
        cells = [rows[name][f"rate_ratio{end}"] for end in ("", "_low", "_high")]
        numbers = [float(cell or "nan") for cell in cells]
        expected = ratios.loc[name, ["rate_ratio", "low", "high"]].astype(float)
        assert np.array_equal(numbers, expected, equal_nan=True)
    assert rows["(Intercept)"]["rate_ratio"] == rows["(Intercept at 0)"]["rate_ratio"] == ""
    assert sorted(os.listdir(folder / "release")) == [
        "coefficients.csv",
        "forest.png",
        "report.html",
        "result.json",
    ]
    succeeds(run_here("report", "release/result.json", "--out", "again", cwd=folder))
    assert (folder / "again/report.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "linear", "--exposure", "years"], "belongs to the loss poisson"),
        (["--exposure", "years"], "belongs to the loss poisson"),
        (["--model", "poisson", "--exposure", "yeers"], "did you mean 'years'"),
        (["--model", "poisson", "--exposure", "region"], "only a number can be transformed"),
        (["--model", "poisson", "--exposure", "claims"], "both sides of ~"),
        (["--model", "poisson", "--target", "penalised"], "not to poisson"),
        (["--model", "poisson", "--penalty", "0.1"], "not to poisson"),
        (["--model", "poisson", "--tail", "all"], "not to poisson"),
        (["--model", "linear", "--formula", claims.WITH_OFFSET], "offset is for counts"),
    ],
)
def test_bad_options(folder, options, words):
    asked = (*ASKED, "--formula", claims.FORMULA, *options)
    fails(run_here("fit", *asked, cwd=folder), words)
    assert dp.Ledger.open(folder / "ledger.db").entries() == ()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("high = 2\n", "", "column 'years': high is missing"),
        ("[columns.years]", "[columns.time]", "the schema has no column 'years'"),
        ("low = 0\nhigh = 1000", "low = -1\nhigh = 1000", "a count, a rate or a cost has low = 0"),
        ("low = 0\nhigh = 2\n", "low = -2\nhigh = 0\n", "needs values above 0"),
    ],
)
def test_bad_schemas(folder, before, after, words):
    text = claims.COLUMNS.replace(before, after)
    assert text != claims.COLUMNS
    (folder / "schema.toml").write_text(text, encoding="utf-8")
    for command in (("fit", "fit.toml"), ("fit", "fit.toml", "--dry-run"), ("plan", "fit.toml")):
        fails(run_here(*command, cwd=folder), words)
    assert dp.Ledger.open(folder / "ledger.db").entries() == ()


def test_an_exposure_that_the_table_lacks(folder):
    claims.table().drop(columns="years").to_csv(folder / "table.csv", index=False)
    for command in (("fit", "fit.toml"), ("fit", "offset.toml", "--dry-run")):
        fails(run_here(*command, cwd=folder), "years")
    fails(run_here("coverage", "fit.toml", cwd=folder), "years")
    assert dp.Ledger.open(folder / "ledger.db").entries() == ()


def test_a_plan_and_a_study_know_the_exposure(folder):
    plan = succeeds(run_here("plan", "fit.toml", "--records", "3000", "--verbose", cwd=folder))
    assert "as often small as large, up to their bound: years" in " ".join(plan.split())
    studies = [told(folder, "coverage", name) for name in ("fit.toml", "offset.toml")]
    assert studies[0] == studies[1]
    assert studies[0]["names"] == NAMES
    assert studies[0]["reported"] == [1.0] * len(NAMES)


def test_schemas_know_the_exposure(folder):
    checked = told(
        folder, "schema", "check", "schema.toml", "--data", "table.csv", "--formula",
        claims.WITH_OFFSET,
    )  # fmt: skip
    assert [column["name"] for column in checked["columns"]] == ["claims", "age", "region", "years"]
    assert checked["coefficients"] == NAMES
    shown = run_here("schema", "check", "schema.toml", "--formula", claims.WITH_OFFSET, cwd=folder)
    assert "log(years), added to a log rate as it is" in " ".join(succeeds(shown).split())
    drafted = told(
        folder, "schema", "init", "table.csv", "-o", "draft.toml", "--formula", claims.WITH_OFFSET
    )
    assert drafted["columns"] == ["claims", "age", "region", "years"]
