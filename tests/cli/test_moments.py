"""`dpinfer moments`: what is booked, what is written, what is answered; the file alone answers."""

import json
import os
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer import persistence
from dpinfer.errors import InputError
from dpinfer.moment_release import releasing
from dpinfer.moment_release.moment_questions import answer
from helpers.terminal import SECRET, fails, run, run_here, succeeds

SCHEMA = """\
title = "A survey"
unit = "one person"
[columns.age]
type = "integer"
low = 18
high = 95
[columns.hours]
type = "number"
low = 0
high = 80
[columns.health]
type = "category"
levels = ["good", "fair", "poor"]
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
"""
COLUMNS = ["--columns", "age + hours + health + visit"]
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
GIVEN = ["table.csv", "--schema", "schema.toml", *COLUMNS, *BUDGET]
RELEASE = ["moments", "release", *GIVEN, "--ledger", "ledger.db"]


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    folder = tmp_path_factory.mktemp("survey")
    rng = np.random.default_rng(0)
    n = 6000
    age = rng.integers(18, 90, n)
    frame = pd.DataFrame(
        {
            "age": age,
            "hours": np.clip(20 + 0.2 * age + rng.normal(0, 8, n), 0, 80),
            "health": rng.choice(["good", "fair", "poor"], n, p=[0.6, 0.3, 0.1]),
            "visit": np.where(rng.random(n) < 0.4, "yes", "no"),
        }
    )
    frame.loc[0, "health"] = str(SECRET)
    frame.to_csv(folder / "table.csv", index=False)
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    dp.Ledger.create(folder / "ledger.db", dp.ApproxDP(2.0, 1e-5), unit="one person")
    succeeds(run_here(*RELEASE, "-o", "survey.moments", cwd=folder))
    return folder


def entries(folder):
    return dp.Ledger.open(folder / "ledger.db").entries()


def test_a_forecast_reads_no_table(survey, tmp_path):
    asked = ["moments", "plan", survey / "schema.toml", *COLUMNS, "--records", 6000, *BUDGET]
    shown = succeeds(run_here(*asked, cwd=tmp_path))
    told = json.loads(succeeds(run_here(*asked, "--json", cwd=tmp_path)))
    assert f"{told['price']:.2f}: noise variance" in shown
    assert told["worthwhile"] is True
    assert told["terms"][0]["term"] == "health"
    dear = succeeds(run_here(*asked[:-4], "--rho", 0.001, cwd=tmp_path))
    assert "Refused" in dear


def test_a_release_is_booked_once_and_verified(survey):
    (entry,) = entries(survey)
    assert entry.purpose == "moments of age + hours + health + visit"
    found = dp.moments(survey / "survey.moments")
    assert found.privacy.release == entry.release
    shown = succeeds(run_here("moments", "show", "survey.moments", cwd=survey))
    for line in found.summary().splitlines():
        assert line in shown
    told = json.loads(succeeds(run_here("moments", "show", "survey.moments", "--json", cwd=survey)))
    assert told["columns"] == ["age", "hours", "health[fair]", "health[poor]", "visit[yes]"]
    assert told["records"] == 6000
    verify = ["budget", "verify", "ledger.db", "survey.moments", "--json"]
    assert json.loads(succeeds(run_here(*verify, cwd=survey)))["results"][0]["matches"] is True


def test_a_dry_run_books_nothing_and_refuses_what_a_release_would(survey):
    before = entries(survey)
    shown = succeeds(run_here(*RELEASE, "--dry-run", cwd=survey))
    for words in ("no value was read", "6,000 records", "After this", "Price without it"):
        assert words in shown
    told = json.loads(succeeds(run_here(*RELEASE, "--dry-run", "--json", cwd=survey)))
    assert told["after"]["allowed"] is True
    assert told["forecast"]["price"] > 0
    dear = ["moments", "release", *GIVEN[:5], "--epsilon", 5, "--delta", 1e-6]
    refused = run_here(*dear, "--ledger", "ledger.db", "--dry-run", cwd=survey)
    assert refused.returncode == 3
    assert entries(survey) == before


def test_a_file_alone_answers(survey, tmp_path):
    (tmp_path / "survey.moments").write_bytes((survey / "survey.moments").read_bytes())
    questions = [
        "hours ~ age + health",
        "mean(age)",
        "correlation(hours, age)",
        "correlation(hours, age | health)",
        "covariance(hours, age)",
        "r_squared(hours ~ age)",
        "iv(hours ~ age | health)",
    ]
    asked = ["moments", "ask", "survey.moments", *questions]
    shown = succeeds(run(*asked, cwd=tmp_path))
    release = dp.moments(tmp_path / "survey.moments")
    for question in questions[1:]:
        assert str(answer(release, question)) in shown
    assert "health[poor]" in shown
    told = json.loads(succeeds(run_here(*asked, "--level", 0.9, "--json", cwd=tmp_path)))
    assert [one["question"] for one in told["answers"]] == questions
    low, high = release.ols("hours ~ age + health").conf_int(0.9)[1]
    assert (
        told["answers"][0]["coefficients"][1]["low"],
        told["answers"][0]["coefficients"][1]["high"],
    ) == (low, high)
    assert told["answers"][-1]["first_stage"] == release.iv("hours ~ age | health").first_stage
    assert told["answers"][1]["low"] == release.mean("age", 0.9).low
    assert os.listdir(tmp_path) == ["survey.moments"]


def test_an_answer_has_a_report_as_a_fit_has(survey, tmp_path):
    file = survey / "survey.moments"
    asked = ["moments", "ask", file, "hours ~ age", "-o", "out", "--title", "Hours"]
    assert "report.html" in succeeds(run_here(*asked, cwd=tmp_path))
    result = dp.FitResult.load(tmp_path / "out" / persistence.RESULT)
    assert result.to_json() == dp.moments(file).ols("hours ~ age").to_json()
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "Hours" in page
    fails(run_here(*asked, cwd=tmp_path), "--force")
    assert run_here(*asked, "--force", cwd=tmp_path).returncode == 0
    verified = run_here("budget", "verify", "ledger.db", tmp_path / "out/result.json", cwd=survey)
    assert verified.returncode == 0


def test_errors_say_what_to_do(survey, tmp_path):
    file = survey / "survey.moments"
    for question, words in (
        ("hours", "is no question"),
        ("men(hours)", "did you mean 'mean'"),
        ("mean(hour)", "did you mean 'hours'"),
        ("correlation(hours)", "two columns"),
        ("hours ~ log(age)", "declared features"),
    ):
        fails(run_here("moments", "ask", file, question, cwd=tmp_path), words)
    fails(run_here("moments", "ask", file, "mean(age)", "-o", "x", cwd=tmp_path), "--out takes one")
    fails(run_here("moments", "ask", file, "mean(age)", "--level", 2, cwd=tmp_path), "--level")
    fails(run_here("moments", "ask", survey / "table.csv", "mean(age)"), "no moment release")
    fails(run_here("moments", "show", "gone", cwd=tmp_path), "cannot be read")
    fails(run_here(*RELEASE, cwd=survey), "--out FILE")
    fails(run_here(*RELEASE, "-o", "survey.moments", cwd=survey), "--force")
    assert len(entries(survey)) == 1


def test_a_release_that_stops_says_that_it_was_booked(survey, tmp_path):
    for name in ("table.csv", "schema.toml"):
        (tmp_path / name).write_bytes((survey / name).read_bytes())
    dp.Ledger.create(tmp_path / "ledger.db", dp.ApproxDP(2.0, 1e-5), unit="one person")
    with mock.patch.object(releasing.Releasing, "_released", side_effect=MemoryError):
        done = run_here(*RELEASE, "-o", "x.moments", cwd=tmp_path)
    assert done.returncode == 2
    assert "the spend was booked as release" in done.stderr
    assert not (tmp_path / "x.moments").exists()


def test_a_call_is_told_from_a_formula_that_looks_like_one():
    table = pd.DataFrame({"y": np.linspace(1, 9, 200), "x": np.linspace(0, 1, 200) ** 2})
    schema = dp.Schema.parse(
        'unit = "one row"\n[columns.y]\ntype = "number"\nlow = 1\nhigh = 9\n'
        '[columns.x]\ntype = "number"\nlow = 0\nhigh = 1\n'
    )
    release = dp.release_moments(table, schema, "log(y) + exp(x)", dp.NoPrivacy())
    assert isinstance(answer(release, "log(y) ~ exp(x)"), dp.FitResult)
    assert answer(release, "mean(exp(x))").estimate == pytest.approx(np.exp(table.x).mean())
    with pytest.raises(InputError, match="two columns"):
        answer(release, "correlation(exp(x), )")
