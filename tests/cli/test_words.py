"""What the command line says: errors for programs, words that are no Python, what a fit says before
it is booked.
"""

import json
import re

import pytest

import dpinfer as dp
from helpers.terminal import beside_notes, files_in, run, run_here, succeeds

FIT = ["fit", "table.csv", "--schema", "schema.toml", "--formula", "y ~ a + b"]
PENALTY = "logistic regression is fitted with a penalty, which shrinks the vector of coefficients"


@pytest.fixture
def folder(tmp_path):
    return files_in(tmp_path)


FAULTS = {
    "no such option": (["fit", "--nonsense"], 2),
    "no such file": (["schema", "check", "none.toml"], 2),
    "no budget": (FIT, 2),
    "bad target": ([*FIT, "--rho", "1", "--target", "best"], 2),
    "over budget": ([*FIT, "--rho", "2", "--ledger", "small.db", "--out", "o"], 3),
    "no ledger": (["budget", "show", "none.db"], 2),
    "no result": (["report", "table.csv"], 2),
}


@pytest.mark.parametrize("case", FAULTS)
def test_with_json_an_error_is_json(case, folder):
    succeeds(run_here("budget", "init", "small.db", "--rho", "1", cwd=folder))
    arguments, code = FAULTS[case]
    plain, told = (run_here(*arguments, *more, cwd=folder) for more in ([], ["--json"]))
    assert plain.returncode == told.returncode == code
    found = json.loads(told.stderr)
    assert (beside_notes(plain), found["code"]) == ([f"error: {found['error']}"], code)
    assert told.stdout == ""


def test_with_json_an_error_of_the_executable_is_json(folder):
    done = run("budget", "show", "none.db", "--json", cwd=folder)
    assert json.loads(done.stderr)["code"] == done.returncode == 2


def test_a_refused_dry_run_is_json_on_both_streams(folder):
    succeeds(run_here("budget", "init", "small.db", "--rho", "1", cwd=folder))
    done = run_here(*FIT, "--rho", "2", "--ledger", "small.db", "--dry-run", "--json", cwd=folder)
    assert json.loads(done.stdout)["after"]["allowed"] is False
    assert json.loads(done.stderr)["code"] == done.returncode == 3


PYTHON = re.compile(r"\b\w+=['\")({]|\bdp\.|\b[a-z_]+=(?=[\s,:;.)]|$)|\bNone\b|DP\(")
ASKED = {
    "add-remove with a penalty": ["--epsilon", "1", "--neighbours", "add-remove"],
    "units without ids": ["--rho", "1", "--neighbours", "replace-unit"],
    "ordinary and pure": ["--epsilon", "1", "--target", "ordinary"],
    "ordinary and a penalty": ["--rho", "1", "--target", "ordinary", "--penalty", "0.1"],
    "ordinary svm": ["--rho", "1", "--target", "ordinary", "--loss", "svm"],
    "no intercept": ["--rho", "1", "--target", "ordinary", "--formula", "y ~ a - 1"],
    "no such target": ["--rho", "1", "--target", "unweighted"],
    "two adjacencies": ["--rho", "1", "--adjacency", "replace", "--neighbours", "add-remove"],
    "tail of another loss": ["--rho", "1", "--tail", "all"],
    "unknown neighbours": ["--rho", "1", "--neighbours", "nobody"],
    "delta alone": ["--rho", "1", "--delta", "0.1"],
    "large delta": ["--epsilon", "1", "--delta", "0.5"],
    "tiny penalty": ["--epsilon", "1", "--penalty", "1e-15"],
    "a number for a classifier": ["--rho", "1", "--formula", "a ~ b"],
    "levels for a regression": ["--rho", "1", "--loss", "linear"],
    "pure least squares": ["--epsilon", "1", "--loss", "linear"],
    "robust tail": [
        "--rho",
        "1",
        "--loss",
        "linear",
        "--formula",
        "a ~ b",
        "--target",
        "robust",
        "--tail",
        "all",
    ],
    "target of least squares": ["--rho", "1", "--target", "robust"],
    "a file of another program": ["--rho", "1", "--schema", "table.csv"],
}


@pytest.mark.parametrize("case", ASKED)
def test_errors_are_not_in_python(case, folder):
    done = run_here(*FIT, *ASKED[case], "--out", "o", cwd=folder)
    assert done.returncode == 2
    (line,) = beside_notes(done)
    assert not PYTHON.search(line), line
    assert not (folder / "o/result.json").exists()


def test_screens_are_not_in_python(folder):
    shown = succeeds(run_here(*FIT, "--epsilon", "1", "--dry-run", cwd=folder))
    shown += succeeds(run_here(*FIT, "--epsilon", "1", "--out", "o", cwd=folder))
    shown += succeeds(run_here(*FIT, "--rho", "1", "--out", "p", cwd=folder))
    words = shown.replace("[None]", "").replace("f = Logistic()", "")  # a level of b is named so
    assert not PYTHON.search(words), PYTHON.search(words)


def test_a_missing_delta_is_said_at_once(folder):
    """In the dry run, before the fit is booked, and in the result."""
    flat = " ".join(succeeds(run_here(*FIT, "--epsilon", "1", "--dry-run", cwd=folder)).split())
    assert f"Without a delta {PENALTY}" in flat
    assert "give a delta beside epsilon, for example 1e-6, or a budget in rho" in flat
    succeeds(run_here("budget", "init", "l.db", "--epsilon", "0.5", cwd=folder))
    refused = run_here(*FIT, "--epsilon", "1", "--ledger", "l.db", "--out", "o", cwd=folder)
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"note: Without a delta {PENALTY}")  # nothing was booked yet
    done = run_here(*FIT, "--epsilon", "1", "--out", "o", cwd=folder)
    assert done.stderr.startswith(f"note: Without a delta {PENALTY}")
    assert f"Without a delta {PENALTY}" in " ".join(done.stdout.split())
    told = json.loads(
        succeeds(run_here(*FIT, "--epsilon", "1", "--out", "p", "--json", cwd=folder))
    )
    assert told["warnings"][0].startswith(f"Without a delta {PENALTY}")
    result = dp.FitResult.load(folder / "o/result.json")
    assert PENALTY in " ".join(result.summary().split())
    assert PENALTY in dp.report.markdown(result)
    for budget in (["--rho", "1"], ["--epsilon", "1", "--delta", "1e-6"]):
        quiet = run_here(*FIT, *budget, "--dry-run", cwd=folder)
        assert PENALTY not in " ".join((quiet.stdout + quiet.stderr).split())


def test_a_dry_run_names_each_kind_of_noise_once(folder):
    flat = " ".join(
        succeeds(run_here(*FIT, "--rho", "1", "--dry-run", "--verbose", cwd=folder)).split()
    )
    assert flat.count("a sum over records plus Gaussian noise") == 1
    for said in ("crude moments ρ = 0.05", "moments ρ = 0.09", "estimate ρ = 0.68"):
        assert said in flat


def test_the_other_name_of_the_ordinary_target(folder):
    succeeds(run_here(*FIT, "--rho", "1", "--target", "asked", "--out", "o", cwd=folder))
    assert dp.FitResult.load(folder / "o/result.json").model.target == "ordinary"


def test_few_usable_records_are_said(folder):
    text = (folder / "table.csv").read_text(encoding="utf-8")
    (folder / "table.csv").write_text(
        text.replace(",p,", ",P,").replace(",q,", ",Q,"), encoding="utf-8"
    )
    shown = " ".join(succeeds(run_here(*FIT, "--rho", "5000", "--out", "o", cwd=folder)).split())
    warning = re.search(r"WARNING: only about 12\d of 400 records \(30 %\) could be used", shown)
    assert warning.start() < shown.index("Estimate")  # before any number
    told = json.loads(succeeds(run_here(*FIT, "--rho", "5000", "--out", "p", "--json", cwd=folder)))
    assert told["usable"] == pytest.approx(121, abs=2)  # noise of .2
    assert told["warnings"][0].startswith("WARNING: only about")


def test_a_study_of_another_estimand_says_so(folder):
    data = '[data]\npath = "table.csv"\nschema = "schema.toml"\nformula = "y ~ a"\n'
    study = data + "[privacy]\n{budget}\n[study]\nreplicates = 2\n"
    spec = folder / "s.toml"
    spec.write_text(study.format(budget="none = true"), encoding="utf-8")
    assert run_here("coverage", "s.toml", cwd=folder).stderr == ""  # it is the one that was asked
    spec.write_text(study.format(budget="epsilon = 1.0"), encoding="utf-8")
    done = run_here("coverage", "s.toml", cwd=folder)
    assert done.stderr.startswith(f"note: Without a delta {PENALTY}")
    assert run_here("coverage", "s.toml", "--json", "-q", cwd=folder).stderr == ""
