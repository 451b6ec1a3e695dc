"""Least squares from the command line: dry run, fit, report, study."""

import json
import os

import numpy as np
import pytest

import dpinfer as dp
from helpers.terminal import run_here, succeeds, table

SCHEMA = """
[columns.cost]
type = "outcome"
low = 0
high = 60
[columns.a]
type = "number"
low = 0
high = 10
[columns.b]
type = "category"
levels = ["p", "q", "None"]
"""
SPEC = """
{top}
[data]
path = "table.csv"
schema = "schema.toml"
formula = "{left} ~ a + b"
{model}
[privacy]
rho = 0.5
ledger = "ledger.db"
[output]
folder = "release"
"""
LOGISTIC_WORDS = ("odds", "event", "class", "logistic", "Wang")


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0))
    frame = table(4000)
    frame["cost"] = (
        5 + 2 * frame["a"] + np.random.default_rng(1).exponential(4, len(frame))
    ).round(2)
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    return tmp_path


def spec(folder, top="", model="", left="cost"):
    (folder / "fit.toml").write_text(SPEC.format(top=top, model=model, left=left), encoding="utf-8")
    return "fit.toml"


def saved(folder, name="release"):
    return dp.FitResult.from_json((folder / name / "result.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"model": '[model]\nloss = "linear"'}, []),
        ({"top": 'model = {loss = "linear"}'}, []),
        ({}, ["--loss", "linear"]),
        ({}, ["--model", "linear"]),
        ({"model": '[model]\nloss = "huber"'}, ["--model", "linear"]),
    ],
)
def test_every_way_of_asking(folder, given, options):
    told = json.loads(
        succeeds(
            run_here("fit", spec(folder, **given), *options, "--dry-run", "--json", cwd=folder)
        )
    )
    assert told["entry"]["purpose"] == "LinearRegression: cost ~ a + b"
    assert [event["step"] for event in told["entry"]["events"]][-1] == "estimate"
    assert told["warning"] is None


def test_a_dry_run_warns(folder):
    name = spec(folder, 'model = {loss = "linear"}')
    told = json.loads(
        succeeds(run_here("fit", name, "--rho", "0.001", "--dry-run", "--json", cwd=folder))
    )
    assert told["warning"].startswith(
        "this budget may be too small for 4 coefficients at 4,000 records"
    )


def test_a_fit_and_its_files(folder):
    shown = " ".join(
        succeeds(
            run_here("fit", spec(folder, 'model = {loss = "linear"}'), "-v", cwd=folder)
        ).split()
    )
    result, (entry,) = saved(folder), dp.Ledger.open(folder / "ledger.db").entries()
    assert (result.model.target, result.privacy.release) == ("ordinary", entry.release)
    assert result.conf_int()[1, 0] < 2 < result.conf_int()[1, 1]
    page = (folder / "release/report.html").read_text(encoding="utf-8")
    for words in ("ordinary least squares", "of the released line", "Released centre"):
        assert words in shown
        assert words in page
    assert "<dd>least squares, no" in page
    assert "docs/linear.md" in page
    text = shown + page.split("<body>")[1] + dp.report.markdown(result) + result.summary()
    visible = text.replace(' class="', "").replace("</svg", "")
    assert not [word for word in LOGISTIC_WORDS if word in visible]
    assert sorted(os.listdir(folder / "release")) == [
        "coefficients.csv",
        "forest.png",
        "report.html",
        "result.json",
    ]
    succeeds(
        run_here("report", "release/result.json", "--out", "again", "--level", "0.9", cwd=folder)
    )
    assert "90% interval" in (folder / "again/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "robust"], "Residuals count up to"),
        (["--tail", "all"], "Nobody is clipped"),
        (["--tail", "cautious"], "What lies beyond is cut off"),
        (["--neighbours", "add-remove", "--rho", "0.9"], "about"),
    ],
)
def test_targets_and_tails(folder, options, words):
    name = spec(folder, 'model = {loss = "linear"}')
    text = (folder / name).read_text(encoding="utf-8").replace('ledger = "ledger.db"', "")
    (folder / name).write_text(text, encoding="utf-8")
    assert words in succeeds(
        run_here("fit", name, *options, "--out", "out", "--verbose", cwd=folder)
    )
    assert words in (folder / "out/report.html").read_text(encoding="utf-8")


def test_a_logarithm(folder):
    succeeds(
        run_here(
            "fit",
            spec(folder, 'model = {loss = "linear"}', left="log(1 + cost)"),
            "--quiet",
            cwd=folder,
        )
    )
    result = saved(folder)
    assert 0 < result.conf_int()[1, 0] < result.conf_int()[1, 1] < 0.5
    assert "as it stands on the left of the formula" in (folder / "release/report.html").read_text(
        encoding="utf-8"
    )


def test_a_study(folder):
    name = spec(folder, 'model = {loss = "linear"}')
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write("[study]\nreplicates = 8\n")
    shown = " ".join(run_here("coverage", name, "--out", "study", cwd=folder).stdout.split())
    assert "least squares" in shown
    assert sorted(os.listdir(folder / "study")) == ["coverage.csv", "coverage.png", "study.json"]
