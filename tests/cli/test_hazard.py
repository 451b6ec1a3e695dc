"""Hazards from the command line: spec and options agree, a dry run books nothing, faults are named."""

import json

import pytest

import dpinfer as dp
from helpers.terminal import fails, run_here, succeeds

DATA = dp.datasets.cohort(1500)
SCHEMA = """
unit = "one patient"
[columns]
years = { type = "number", low = 0, high = 10 }
died = { type = "boolean" }
age = { type = "number", low = 30, high = 90 }
treated = { type = "boolean" }
"""
SPEC = """
[data]
path = "cohort.csv"
schema = "schema.toml"
formula = "Surv(years, died) ~ age + treated"
[model]
loss = "hazard"
cuts = [1, 2.5, 5]
horizon = 10
[privacy]
rho = 0.5
ledger = "ledger.db"
[output]
folder = "release"
"""
OPTIONS = (
    "cohort.csv", "--schema", "schema.toml", "--formula", "Surv(years, died) ~ age + treated", "--rho", "0.5",
    "--ledger", "ledger.db", "--out", "release", "--loss", "hazard",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0), unit="one patient")
    DATA.table.drop(columns="stage").to_csv(tmp_path / "cohort.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "fit.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "asked", [("fit.toml",), (*OPTIONS, "--cuts", "1,2.5,5", "--horizon", "10")]
)
def test_a_fit_by_spec_or_by_options(folder, asked):
    told = json.loads(succeeds(run_here("fit", *asked, "--json", cwd=folder)))
    assert told
    result = dp.FitResult.load(folder / "release" / "result.json")
    assert result.names == (
        "(Intercept)", "age", "treated", "interval[1..2.5]", "interval[2.5..5]", "interval[5..10]"
    )  # fmt: skip
    assert result.model.hazards
    assert result.question.follow_up.cuts == (1.0, 2.5, 5.0)
    report = (folder / "release" / "report.html").read_text(encoding="utf-8")
    assert "azard ratio" in report
    assert len(dp.Ledger.open(folder / "ledger.db").entries()) == 1


def test_a_dry_run_books_nothing(folder):
    shown = succeeds(run_here("fit", "fit.toml", "--dry-run", cwd=folder))
    assert "life table" in shown or "ρ" in shown
    assert not dp.Ledger.open(folder / "ledger.db").entries()


def test_a_schema_is_checked_with_a_survival_outcome(folder):
    asked = ("schema", "check", "schema.toml", "--formula", "Surv(years, died) ~ age")
    assert "a survival time" in succeeds(run_here(*asked, cwd=folder))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "declare cuts="),
        (("--cuts", "1,soon", "--horizon", "10"), "times with commas"),
        (("--cuts", "5,1", "--horizon", "10"), "must rise"),
        (("--cuts", "1,5", "--horizon", "10", "--tail", "all"), "belongs to the loss linear"),
    ],
)
def test_what_is_refused(folder, more, words):
    fails(run_here("fit", *OPTIONS, *more, cwd=folder), words)
    assert not dp.Ledger.open(folder / "ledger.db").entries()


def test_cuts_belong_to_hazards(folder):
    asked = [one if one != "hazard" else "linear" for one in OPTIONS]
    fails(run_here("fit", *asked, "--cuts", "1,5", cwd=folder), "belongs to the loss hazard")
