"""`dpinfer fit` and `dpinfer report`: what is booked, what is written, what is shown."""

import json
import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.asking.from_spec import Data, model_of
from dpinfer.asking.spec import of_options
from dpinfer.inference import posterior as inference
from helpers.terminal import PROGRAM, fails, files_in, run, run_here, succeeds, table

FORMULA = "y ~ a + b"
SPEC = """
[data]
path = "table.csv"
schema = "schema.toml"
formula = "y ~ a + b"
[model]
target = "penalised"
[privacy]
rho = 0.5
ledger = "ledger.db"
[output]
folder = "release"
title = "Title of the spec"
"""
FILES = ["coefficients.csv", "forest.png", "report.html", "result.json"]


@pytest.fixture
def folder(tmp_path):
    dp.Ledger.create(tmp_path / "ledger.db", dp.ZCDP(1.0))
    (tmp_path / "fit.toml").write_text(SPEC, encoding="utf-8")
    return files_in(tmp_path)


def entries(folder):
    return dp.Ledger.open(folder / "ledger.db").entries()


def saved(folder, name="release"):
    return dp.FitResult.from_json((folder / name / "result.json").read_text(encoding="utf-8"))


def test_a_spec_through_the_executable(folder):
    shown = succeeds(run("fit", folder / "fit.toml", cwd="/"))
    assert sorted(os.listdir(folder / "release")) == FILES
    result, (entry,) = saved(folder), entries(folder)
    assert result.privacy.release == entry.release
    assert (entry.purpose, entry.unit) == ("LogisticRegression: y ~ a + b", "one record")
    assert entry.schema == dp.Schema.read(folder / "schema.toml").digest()
    for words in (
        "Title of the spec",
        "b[None]",
        entry.release,
        "50 % of the total is used",
        "up to ρ = 0.5.",
        "penalised",
    ):
        assert words in shown
    assert "Title of the spec" in (folder / "release/report.html").read_text(encoding="utf-8")


def test_options_alone_and_a_json_receipt(folder):
    arguments = [
        "fit",
        "table.parquet",
        "--schema",
        "schema.toml",
        "--formula",
        FORMULA,
        "--epsilon",
        "1",
    ]
    more = [
        "--delta",
        "1e-6",
        "--out",
        "new/place",
        "--level",
        "0.9",
        "--json",
        "--target",
        "penalised",
    ]
    receipt = json.loads(succeeds(run_here(*arguments, *more, cwd=folder)))
    result = saved(folder, "new/place")
    assert (receipt["booked"], receipt["release"], receipt["ledger"]) == (False, None, None)
    assert receipt["budget"] == {"kind": "ApproxDP", "epsilon": 1.0, "delta": 1e-6}
    assert receipt["coefficients"] == result.table(0.9)
    assert result.privacy.budget == dp.ApproxDP(1.0, 1e-6)
    assert not result.privacy.in_ledger
    assert sorted(os.listdir(folder / "new/place")) == FILES
    assert "90% interval" in (folder / "new/place/report.html").read_text(encoding="utf-8")


def test_without_a_ledger_it_says_so(folder):
    arguments = [
        "fit",
        "table.csv",
        "--schema",
        "schema.toml",
        "--formula",
        FORMULA,
        "--rho",
        "1",
        "-o",
        "out",
    ]
    assert "nothing was booked" in succeeds(run_here(*arguments, cwd=folder))
    assert "Nothing was booked" in saved(folder, "out").summary()


def test_options_overrule_a_spec(folder):
    options = [
        "--epsilon",
        "0.5",
        "--loss",
        "svm",
        "--knee",
        "0.7",
        "--penalty",
        "0.05",
        "--out",
        "other",
        "-q",
    ]
    assert succeeds(run_here("fit", "fit.toml", *options, cwd=folder)) == ""
    result = saved(folder, "other")
    assert result.privacy.budget == dp.PureDP(0.5)
    assert (result.model.loss, result.model.penalty) == (repr(dp.HuberHinge(0.7)), 0.05)
    assert not (folder / "release").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--loss", "huber", "--knee", "2"], dp.Huber(2.0)),
        (
            ["--loss", "quantile", "--quantile", "0.9", "--bandwidth", "3"],
            dp.SmoothedQuantile(0.9, 3.0),
        ),
    ],
)
def test_regressions(folder, options, expected):
    numeric = '[columns.a]\ntype = "outcome"\nlow = 0\nhigh = 10\n[columns.b]\ntype = "category"\nlevels = ["p", "q"]\n'
    (folder / "schema.toml").write_text(numeric, encoding="utf-8")
    given = ["fit", "fit.toml", "--formula", "a ~ b", *options, "--out", "out", "-q"]
    succeeds(run_here(*given, cwd=folder))
    assert saved(folder, "out").model.loss == repr(expected)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_dry_run_tells_what_the_fit_books_and_leaves_no_trace(folder, kind):
    before = sorted(path.name for path in folder.iterdir())
    text = SPEC.replace("table.csv", f"table.{kind}")
    (folder / "fit.toml").write_text(text, encoding="utf-8")
    told = json.loads(succeeds(run_here("fit", "fit.toml", "--dry-run", "--json", cwd=folder)))
    shown = succeeds(run_here("fit", "fit.toml", "--dry-run", cwd=folder))
    assert not entries(folder)
    assert sorted(path.name for path in folder.iterdir()) == before
    for words in ("400 records", "4 coefficients", "up to ρ = 1.", "50 % of the total is used"):
        assert words in shown
    assert "not checked: dpinfer schema check SCHEMA --data TABLE --peek" in " ".join(shown.split())
    receipt = json.loads(succeeds(run_here("fit", "fit.toml", "--json", cwd=folder)))
    (entry,) = entries(folder)
    steps = [(e["step"], e["mechanism"], e["share"]["rho"]) for e in told["entry"]["events"]]
    assert steps == [(e.step, e.mechanism, e.share.rho) for e in entry.events]
    assert (told["entry"]["purpose"], told["entry"]["schema"]) == (entry.purpose, entry.schema)
    assert (told["after"]["spent"], told["records"]) == (
        receipt["ledger"]["spent"],
        receipt["records"],
    )
    assert told["coefficients"] == [row["name"] for row in receipt["coefficients"]]


@pytest.mark.parametrize("budget", [dp.PureDP(1.0), dp.ZCDP(0.5), dp.ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("model", [dp.LogisticRegression, dp.LinearSVC])
def test_a_model_tells_what_it_would_book(folder, budget, model):
    ledger = dp.Ledger(dp.ApproxDP(9.0, 1e-5))
    chosen = model(
        FORMULA, schema=dp.Schema.read(folder / "schema.toml"), budget=budget, ledger=ledger
    )
    told = chosen.entry(400)
    foretold = ledger.preview(told)
    chosen.fit(table())
    (booked,) = ledger.entries()
    assert (told.events, told.unit, told.schema) == (booked.events, booked.unit, booked.schema)
    assert foretold.spent == ledger.spent()


def test_no_entry_without_a_formula():
    with pytest.raises(dp.InputError, match="formula and a schema"):
        dp.LogisticRegression(bounds=(0, 1), budget=dp.ZCDP(1.0)).entry(10)


def test_guarantee_dry_runs_read_no_value(folder):
    """Tables with the same shape and other values give the same lines."""
    first = run_here("fit", "fit.toml", "--dry-run", cwd=folder)
    table().iloc[::-1].assign(a="x", y="0").to_csv(folder / "table.csv", index=False)
    assert succeeds(first) == succeeds(run_here("fit", "fit.toml", "--dry-run", cwd=folder))


def test_a_dry_run_keeps_a_private_number_of_records(folder):
    """Under add-remove a table with another number of rows gives the same lines."""
    succeeds(
        run_here(
            "budget", "init", "other.db", "--rho", "1", "--neighbours", "add-remove", cwd=folder
        )
    )
    asked = (
        "fit",
        "table.csv",
        "--schema",
        "schema.toml",
        "--formula",
        "y ~ a + b",
        "--rho",
        "0.5",
    )
    asked += ("--neighbours", "add-remove", "--ledger", "other.db", "--dry-run")
    for more in ((), ("--json",)):
        table().to_csv(folder / "table.csv", index=False)
        first = succeeds(run_here(*asked, *more, cwd=folder))
        table().iloc[:-1].to_csv(folder / "table.csv", index=False)
        assert succeeds(run_here(*asked, *more, cwd=folder)) == first


def test_a_dry_run_tells_of_a_refusal(folder):
    done = run_here("fit", "fit.toml", "--rho", "3", "--dry-run", cwd=folder)
    assert done.returncode == 3
    assert done.stderr.startswith(
        "error: this costs ρ = 3, and the next question may cost up to ρ = 1 of the total"
    )
    assert "refused" in done.stdout


def test_a_result_is_not_replaced_unless_told_to(folder):
    succeeds(run_here("fit", "fit.toml", "-q", cwd=folder))
    first = saved(folder)
    fails(run_here("fit", "fit.toml", "--rho", "0.1", cwd=folder), "release/result.json", "--force")
    assert len(entries(folder)) == 1
    succeeds(run_here("fit", "fit.toml", "--rho", "0.1", "--force", "-q", cwd=folder))
    assert saved(folder).privacy.release == entries(folder)[1].release != first.privacy.release


@pytest.mark.parametrize(
    ("fault", "code"), [(OSError(28, "No space left on device"), 2), (KeyError("48151623"), 1)]
)
def test_no_fault_of_the_report_loses_the_result(folder, monkeypatch, fault, code):
    """The result is there, and the report follows later."""

    def broken(*_, **__):
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr("dpinfer.views.report.forest", broken)
        done = run_here("fit", "fit.toml", cwd=folder)
    assert done.returncode == code
    assert "the result is safe in release/result.json" in done.stderr
    assert "48151623" not in done.stderr
    assert saved(folder).privacy.release == entries(folder)[0].release
    succeeds(run_here("report", "release/result.json", cwd=folder))
    assert sorted(os.listdir(folder / "release")) == FILES


def test_a_result_that_cannot_be_written_is_printed(folder, monkeypatch):
    """The folder breaks after the booking: a full disk, a share that went away."""
    real = os.replace

    def broken(source, target):
        if str(target).endswith("result.json"):
            raise OSError(28, "No space left on device")
        return real(source, target)

    monkeypatch.setattr(os, "replace", broken)
    done = run_here("fit", "fit.toml", cwd=folder)
    assert done.returncode == 2
    assert "printed to stdout" in done.stderr
    assert dp.FitResult.from_json(done.stdout).privacy.release == entries(folder)[0].release


def test_a_fault_after_booking_names_the_release(folder, monkeypatch):
    def fault(*_):
        raise KeyError("48151623")

    monkeypatch.setattr("dpinfer.fit.penalised.private_matrices", fault)
    done = run_here("fit", "fit.toml", "--spend-anyway", cwd=folder)
    (entry,) = entries(folder)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert entry.release in first
    assert second.startswith("error: this is a fault of dpinfer itself (KeyError, ")
    assert "48151623" not in done.stderr


def test_the_bundled_data_by_a_spec(tmp_path):
    (tmp_path / "fit.toml").write_text(
        '[data]\ndataset = "rand_hie"\n[privacy]\nrho = 1\n', encoding="utf-8"
    )
    told = json.loads(succeeds(run_here("fit", tmp_path / "fit.toml", "--dry-run", "--json")))
    assert (told["records"], len(told["coefficients"]), told["after"]) == (
        20190,
        10,
        {"allowed": None},
    )


def test_a_formula_of_several_lines(folder):
    text = SPEC.replace('"y ~ a + b"', '"""\ny ~ a\n  + b\n"""')
    (folder / "fit.toml").write_text(text, encoding="utf-8")
    told = json.loads(succeeds(run_here("fit", "fit.toml", "--dry-run", "--json", cwd=folder)))
    assert (told["entry"]["purpose"], len(told["coefficients"])) == (
        "LogisticRegression: y ~ a + b",
        4,
    )


def test_a_plan_by_a_spec(folder):
    text = SPEC.replace("rho = 0.5", 'rho = 0.5\nmechanism = "output"\nshares = [2, 1, 1]')
    (folder / "fit.toml").write_text(text, encoding="utf-8")
    succeeds(run_here("fit", "fit.toml", "-q", cwd=folder))
    assert saved(folder).model.mechanism == "output perturbation"
    assert [event.share.rho for event in entries(folder)[0].events] == [0.25, 0.25]


def test_a_target_reaches_the_model(folder):
    data = Data(folder / "table.csv", dp.Schema.read(folder / "schema.toml"), FORMULA)
    asked = {
        ("model", "loss"): "huber",
        ("model", "target"): "unpenalised",
        ("privacy", "rho"): 1.0,
    }
    assert model_of(of_options(asked), data).target == "unpenalised"
    assert model_of(of_options({**asked, ("model", "target"): None}), data).target is None


def test_report_through_the_executable(folder):
    succeeds(run_here("fit", "fit.toml", "-q", cwd=folder))
    shutil.copy(folder / "release/result.json", folder / "kept.json")
    given = ["report", "kept.json", "-o", "again", "--title", "Another title", "--level", "0.5"]
    assert "wrote again/report.html" in succeeds(run(*given, cwd=folder))
    assert sorted(os.listdir(folder / "again")) == FILES
    page = (folder / "again/report.html").read_text(encoding="utf-8")
    assert "Another title" in page
    assert "50% interval" in page
    assert json.loads(succeeds(run_here("report", "kept.json", "--json", cwd=folder)))["release"]


def test_a_poor_terminal_costs_no_result(folder):
    done = run_here("fit", "fit.toml", cwd=folder, encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert "b[None]" in done.stdout


def test_a_reader_that_leaves_is_no_error(folder):
    command = f"'{PROGRAM}' fit fit.toml | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert saved(folder).privacy.in_ledger


def test_python_m_dpinfer():
    done = subprocess.run(
        [sys.executable, "-m", "dpinfer", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"dpinfer {dp.__version__}\n"


def test_what_is_not_identified_is_said_and_kept(folder, monkeypatch):
    """Four hundred records at epsilon = 1: nothing is identified, and every view says so.

    Noise would hide it in one fit of 300, where events look sure.
    """
    monkeypatch.setattr(inference, "enough_events", lambda _: False)
    arguments = [
        "fit",
        "table.csv",
        "--schema",
        "schema.toml",
        "--formula",
        FORMULA,
        "--epsilon",
        "1",
    ]
    arguments += ["--delta", "1e-6", "-o", "out", "--spend-anyway"]
    shown = succeeds(run_here(*arguments, cwd=folder))
    result = saved(folder, "out")
    assert result.model.target == "ordinary"
    assert not result.reported.any()
    assert "4 coefficients have no estimate at this budget" in " ".join(shown.split())
    assert result.status[1] in " ".join(shown.split())
    assert "What is not identified" in (folder / "out/report.html").read_text(encoding="utf-8")
    assert succeeds(run_here("report", "out/result.json", "-o", "again", cwd=folder))


def state_typical(folder, **others):
    """Say in the schema what is typical of every column of the formula."""
    schema = dp.Schema.read(folder / "schema.toml")
    typical = {"y": {"NA": 0.4}, "a": {"mean": 5, "sd": 2}, "b": {"None": 0.3}}
    schema.guess(typical | others).write(folder / "schema.toml")


def test_guarantee_hopeless_fits_stop(folder):
    """Four hundred records at rho = .05: the dry run tells, the fit stops, and nothing is booked
    unless it is told to.
    """
    state_typical(folder)
    asked = ("fit", "fit.toml", "--target", "ordinary", "--rho", "0.05")
    told = json.loads(succeeds(run_here(*asked, "--dry-run", "--json", cwd=folder)))
    assert told["hopeless"] is True
    assert "--spend-anyway" in succeeds(run_here(*asked, "--dry-run", cwd=folder))
    stopped = run_here(*asked, "--force", cwd=folder)
    fails(
        stopped,
        "0 of 4 in simulated fits, on average",
        "nothing was booked",
        "--spend-anyway",
    )
    assert entries(folder) == ()
    assert not (folder / "release/result.json").exists()
    succeeds(run_here(*asked, "--spend-anyway", cwd=folder))
    assert len(entries(folder)) == 1
    assert not saved(folder).reported.any()


def test_a_forecast_from_usual_values_warns_and_does_not_stop(folder):
    """Where the schema does not say what is typical, the remedy is to say so."""
    asked = ("fit", "fit.toml", "--target", "ordinary", "--rho", "0.05")
    told = json.loads(succeeds(run_here(*asked, "--dry-run", "--json", cwd=folder)))
    assert told["hopeless"] is False
    for words in ("0 of 4 in simulated fits", "what is typical of y, a, b", "typical = {"):
        assert words in told["low_budget"]
    done = run_here(*asked, cwd=folder)
    succeeds(done)
    assert "note: hardly a coefficient is likely to be reported" in done.stderr
    assert "add typical" in done.stderr
    assert len(entries(folder)) == 1


def test_a_comparison_of_counts_is_not_refused_for_made_up_counts(folder):
    """A made-up count of which nothing is said is never 0; one with its typical mean often is."""
    rng = np.random.default_rng(0)
    counts = pd.DataFrame({"visits": rng.poisson(rng.gamma(0.5, 6.0, 20_000)), "age": 0.0})
    counts["age"] = rng.uniform(20, 60, len(counts))
    counts.to_csv(folder / "counts.csv", index=False)
    text = (
        '[columns.visits]\ntype = "integer"\nlow = 0\nhigh = 150\n'
        '[columns.age]\ntype = "number"\nlow = 20\nhigh = 60\n'
    )
    (folder / "counts.toml").write_text(text, encoding="utf-8")
    asked = ["fit", "counts.csv", "--schema", "counts.toml", "--formula", "visits > 0 ~ age"]
    asked += ["--epsilon", "1", "--delta", "1e-6", "-o", "counts"]
    succeeds(run_here(*asked, cwd=folder))
    assert saved(folder, "counts").reported.all()
    typical = text.replace("high = 150", "high = 150\ntypical = { mean = 3, sd = 5 }")
    (folder / "counts.toml").write_text(typical, encoding="utf-8")
    told = json.loads(succeeds(run_here(*asked, "--dry-run", "--json", cwd=folder)))
    assert told["low_budget"] is None
    assert all(row["reported"] == 1 for row in told["forecast"])


@pytest.mark.parametrize("rho", [1e-6, 0.05, 1.0])
@pytest.mark.parametrize("stated", [True, False])
def test_the_command_stops_where_python_warns(folder, rho, stated):
    if stated:
        state_typical(folder)
    asked = ("fit", "fit.toml", "--target", "ordinary", "--rho", str(rho), "--dry-run", "--json")
    told = json.loads(succeeds(run_here(*asked, cwd=folder)))
    model = dp.LogisticRegression(
        FORMULA, schema=folder / "schema.toml", budget=dp.ZCDP(rho), target="ordinary"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dp.LowBudgetWarning)
        model.fit(folder / "table.csv")
    warned = any(issubclass(one.category, dp.LowBudgetWarning) for one in caught)
    assert warned is told["hopeless"]
    assert warned is (rho == 1e-6 or (stated and rho == 0.05))


def test_rare_events_stop_a_fit_and_others_do_not(folder):
    """The same records and budget: what the schema says of the outcome decides."""
    files_in(folder, 4000)
    asked = ("fit", "fit.toml", "--target", "ordinary", "-o")
    assert (
        json.loads(succeeds(run_here(*asked, "b", "--dry-run", "--json", cwd=folder)))["hopeless"]
        is False
    )
    schema = dp.Schema.read(folder / "schema.toml")
    schema.guess({"y": {"NA": 0.002}}).write(folder / "schema.toml")
    fails(run_here(*asked, "a", cwd=folder), "with an outcome that 0.2% of them have")
    assert entries(folder) == ()
    schema.write(folder / "schema.toml")
    succeeds(run_here(*asked, "b", cwd=folder))
    assert saved(folder, "b").reported.any()


def test_a_private_number_of_records_stops_nothing(folder):
    """Whether there are enough would tell how many there are."""
    asked = ("--target", "ordinary", "--rho", "0.05", "--neighbours", "add-remove")
    dp.Ledger.create(folder / "other.db", dp.ZCDP(1.0), neighbours="add-remove")
    succeeds(run_here("fit", "fit.toml", *asked, "--ledger", "other.db", cwd=folder))
    assert len(dp.Ledger.open(folder / "other.db").entries()) == 1


@pytest.mark.parametrize("path", ["tables", "tables/*.csv"])
def test_a_spec_may_name_a_folder_or_a_pattern(path, folder):
    (folder / "tables").mkdir()
    shutil.move(folder / "table.csv", folder / "tables" / "1.csv")
    shutil.copy(folder / "tables" / "1.csv", folder / "tables" / "2.csv")
    (folder / "fit.toml").write_text(SPEC.replace("table.csv", path), encoding="utf-8")
    succeeds(run_here("fit", folder / "fit.toml"))
    assert saved(folder).model.n == 2 * len(table())


def test_a_pattern_of_nothing_is_told_before_anything_is_booked(folder):
    (folder / "fit.toml").write_text(SPEC.replace("table.csv", "no*.csv"), encoding="utf-8")
    fails(run_here("fit", folder / "fit.toml"), "holds no file that is read")
    assert not entries(folder)


def test_a_result_of_another_version_says_so(folder):
    old = folder / "old.json"
    old.write_text('{"format": "dpinfer.FitResult", "version": 3}', encoding="utf-8")
    fails(
        run_here("report", old, "-o", "again", cwd=folder),
        "of version 3",
        "read it with the dpinfer that wrote it",
    )


def test_what_a_fit_says_is_short_and_verbose_says_all(folder):
    """One line for the estimand; the statements and the cost of each step come with --verbose."""
    given = ["fit", "fit.toml", "--out", "out", "--force", "--spend-anyway"]
    spent = "estimate ρ"
    for asked in ([*given, "--dry-run"], given):
        short = succeeds(run_here(*asked, cwd=folder))
        long = succeeds(run_here(*asked, "--verbose", cwd=folder))
        assert spent not in " ".join(short.split())
        assert spent in " ".join(long.split())
        assert len(long.splitlines()) > len(short.splitlines())
        if "--dry-run" not in asked:
            lines = [line.rstrip() for line in short.splitlines()]
            (estimand,) = [j for j, line in enumerate(lines) if line.startswith("Estimand")]
            assert lines[estimand].endswith(
                "  the penalised coefficients of logistic regression in the population"
            )
            assert not lines[estimand + 1].startswith(" ")
