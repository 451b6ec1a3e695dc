"""`dpinfer coverage`: good runs, and one line with a remedy for every bad one."""

import csv
import io
import json
import os
import pty
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import dpinfer as dp
from helpers.terminal import (
    PROGRAM,
    SCHEMA,
    SECRET,
    beside_notes,
    fails,
    files_in,
    run,
    run_here,
    table,
)

ROOT = Path(__file__).parents[2]
DATA = '[data]\npath = "table.csv"\nschema = "schema.toml"\nformula = "y ~ a + b"\n'
PRIVACY = "[privacy]\nepsilon = 5.0\n"
STUDY = "[study]\nreplicates = 40\n"
GOOD = DATA + PRIVACY + STUDY


@pytest.fixture
def folder(tmp_path):
    return files_in(tmp_path)


def spec(folder, text=GOOD):
    path = folder / "spec.toml"
    path.write_text(text, encoding="utf-8")
    return path


def expected(folder, **options):
    schema = dp.Schema.read(folder / "schema.toml")
    options = {"budget": dp.PureDP(5.0), "replicates": 40} | options
    return dp.simulate.coverage(table(), schema=schema, formula="y ~ a + b", **options)


def test_version_and_help():
    done = run("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dpinfer {dp.__version__}\n", "")
    assert "coverage" in run_here().stdout
    shown = run_here("coverage", "--help").stdout
    for word in ("[data]", "[model]", "[privacy]", "[study]", "shares = [2, 1, 1]", "NOT PRIVATE"):
        assert word in shown


def test_a_csv_file_gives_the_table_of_the_library(folder):
    done = run("coverage", spec(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout == expected(folder).summary() + "\n"
    assert beside_notes(done) == []


def test_both_coverages_are_printed(folder):
    """Of what was asked, and of what each fit states: on the screen, in the CSV file and as JSON."""
    text = GOOD.replace("epsilon = 5.0", "rho = 0.5").replace("replicates = 40", "replicates = 4")
    done = run_here("coverage", spec(folder, text), "--out", folder / "out")
    assert done.returncode == 0, done.stderr
    head = next(line for line in done.stdout.splitlines() if "target" in line)
    assert head.split()[:3] == ["target", "ordinary", "stated"]
    study = dp.simulate.Study.from_json((folder / "out" / "study.json").read_text())
    line = next(line for line in done.stdout.splitlines() if line.startswith("a "))
    shown = line.split()[2:4]
    assert shown == [f"{study.coverage[1]:.4g}", f"{study.stated_coverage[1]:.4g}"]
    words = " ".join(done.stdout.split())
    assert f"Mean coverage of the ordinary coefficients {study.mean_coverage:.4f}" in words
    assert f"of what each fit states {study.mean_stated_coverage:.4f}" in words
    rows = list(csv.DictReader(io.StringIO((folder / "out" / "coverage.csv").read_text())))
    assert np.array_equal([float(row["coverage"]) for row in rows], study.coverage, equal_nan=True)
    assert np.array_equal(
        [float(row["stated_coverage"]) for row in rows], study.stated_coverage, equal_nan=True
    )


def test_a_parquet_file_gives_all_files(folder):
    out = folder / "deep" / "out"
    text = GOOD.replace(".csv", ".parquet")
    done = run_here("coverage", spec(folder, text), "--out", out, "--json")
    study = expected(folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(study.to_json())
    assert sorted(path.name for path in out.iterdir()) == [
        "coverage.csv",
        "coverage.png",
        "study.json",
    ]
    assert done.stderr.count("wrote") == 3
    assert (
        dp.simulate.Study.from_json((out / "study.json").read_text()).summary() == study.summary()
    )
    rows = list(csv.DictReader(io.StringIO((out / "coverage.csv").read_text())))
    assert [row["name"] for row in rows] == list(study.names)
    assert [float(row["length"]) for row in rows] == list(study.length)
    assert (out / "coverage.png").read_bytes().startswith(b"\x89PNG")


def test_every_key_reaches_the_study(folder):
    text = (
        DATA
        + '[model]\nloss = "svm"\nknee = 0.5\npenalty = 0.02\n[privacy]\nepsilon = 3\ndelta = 1e-6\n'
        'mechanism = "output"\nshares = [2, 1, 1]\n[study]\nreplicates = 20\nseed = 7\nlevel = 0.9\ncheckpoint = true\n'
    )
    done = run_here("coverage", spec(folder, text), "--json", "--quiet", "--out", folder / "out")
    assert done.stderr == ""
    shares = dp.ApproxDP(3.0, 1e-6).split(2, 1, 1)
    plan = dp.Plan(dp.OutputPerturbation(), *shares, recipe="tight", approx=dp.ApproxDP(3.0, 1e-6))
    options = {"budget": None, "plan": plan, "loss": dp.HuberHinge(0.5), "penalty": 0.02}
    assert json.loads(done.stdout) == json.loads(
        expected(folder, replicates=20, seed=7, level=0.9, **options).to_json()
    )
    assert not (folder / "out" / "resume.json").exists()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("rho = 0.5", "ρ = 0.5"),
        ("none = true", "noise off"),
        ('rho = 9\nmechanism = "objective"', "objective"),
    ],
)
def test_kinds_of_budget(folder, keys, words):
    done = run_here("coverage", spec(folder, DATA + f"[privacy]\n{keys}\n" + STUDY))
    assert done.returncode == 0, done.stderr
    assert words in " ".join(done.stdout.split())


def test_the_example_runs(tmp_path):
    text = (ROOT / "examples/coverage.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["study"]["replicates"] == 1000
    done = run_here("coverage", spec(tmp_path, text.replace("1000", "50")))
    assert done.returncode == 0, done.stderr
    for words in ("lncoins", "health[poor]", "n = 20190", "50 replicates", "NOT PRIVATE"):
        assert words in done.stdout


def test_a_bar_on_a_terminal_and_130_on_interrupt(folder):
    ours, theirs = pty.openpty()
    path = spec(folder, GOOD.replace("40", "90_000_000"))
    child = subprocess.Popen([PROGRAM, "coverage", path], stderr=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    while b"replicates" not in shown:
        shown += os.read(ours, 1000)
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(ours, 1000)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        shown += more
    output, _ = child.communicate(timeout=30)
    os.close(ours)
    assert (child.returncode, output) == (130, b"")
    assert shown.rstrip().endswith(b"interrupted")
    assert b"Traceback" not in shown


BAD = {
    "syntax": (GOOD + "level = = 1\n", "not valid TOML", "line 9"),
    "empty": ("", "[data]", "for example"),
    "section": (GOOD + "[studdy]\n", "'studdy'", "did you mean 'study'?"),
    "other section": (GOOD + "[zzz]\n", "'zzz'", "it has 'data'"),
    "no section": ("data = 3\n", "write [data]"),
    "key": (GOOD + "[model]\npenaltie = 1\n", "[model]", "did you mean 'penalty'?"),
    "other key": (GOOD + '[model]\n"x\\ny" = 1\n', "[model]", "it has 'bandwidth'"),
    "data": (PRIVACY, "[data]", "path, dataset"),
    "both data": (DATA + 'dataset = "rand_hie"\n' + PRIVACY, "[data]", "exactly one"),
    "dataset": ('[data]\ndataset = "iris"\n' + PRIVACY, "[data] dataset", "rand_hie"),
    "no schema": (GOOD.replace("schema", "#"), "[data]", 'schema = "schema.toml"'),
    "no formula": (GOOD.replace("formula", "#"), "[data]", 'formula = "y ~ a + b"'),
    "path": (GOOD.replace("table.csv", "none.csv"), "[data] path", "'none.csv'", "relative"),
    "schema": (
        GOOD.replace("schema.toml", "none.toml"),
        "[data] schema",
        "'none.toml'",
        "relative",
    ),
    "a folder": (GOOD.replace("table.csv", "."), "[data] path"),
    "bad schema": (
        GOOD.replace("schema.toml", "broken.toml"),
        "the schema is not valid TOML",
        "line 1",
    ),
    "suffix": (GOOD.replace("table.csv", "broken.toml"), "[data] path", ".csv or .parquet"),
    "not Parquet": (
        GOOD.replace("table.csv", "fake.parquet"),
        "[data] path",
        "'fake.parquet'",
        "no readable Parquet",
    ),
    "no bytes": (
        GOOD.replace("table.csv", "empty.csv"),
        "[data] path",
        "'empty.csv'",
        "no readable CSV",
    ),
    "no rows": (GOOD.replace("table.csv", "header.csv"), "at least one record"),
    "column type": (GOOD.replace("table.csv", "text.parquet"), "'a'", "numbers"),
    "column": (GOOD.replace("table.csv", "narrow.csv"), "no column 'b'"),
    "formula": (GOOD.replace("y ~ a + b", "y ~ a + z"), "no column 'z'", "it has"),
    "formula text": (GOOD.replace("y ~ a + b", "y ~ a +"), "formula"),
    "formula type": (GOOD.replace('"y ~ a + b"', "3"), "[data] formula", "text in quotes"),
    "loss": (
        GOOD + '[model]\nloss = "hinge"\n',
        "[model] loss",
        '"logistic" or "linear" or "poisson"',
    ),
    "loss type": (GOOD + "[model]\nloss = [1]\n", "[model] loss", "not [1]"),
    "knee": (GOOD + '[model]\nloss = "svm"\nknee = 0\n', "[model] knee", "above 0"),
    "lonely knee": (GOOD + "[model]\nknee = 1.0\n", "[model] knee", "svm"),
    "penalty": (GOOD + "[model]\npenalty = -1\n", "[model] penalty", "0 or a number above"),
    "penalty nan": (GOOD + "[model]\npenalty = nan\n", "[model] penalty", "0 or a number above"),
    "penalty small": (GOOD + "[model]\npenalty = 1e-9\n", "penalty", "must exceed"),
    "no budget": (DATA, "[privacy]", "epsilon, rho, none"),
    "two budgets": (
        GOOD.replace("epsilon = 5.0", "epsilon = 1\nrho = 1"),
        "[privacy]",
        "exactly one",
    ),
    "epsilon": (GOOD.replace("5.0", "0"), "[privacy] epsilon", "above 0"),
    "epsilon inf": (GOOD.replace("5.0", "inf"), "[privacy] epsilon", "1e20"),
    "epsilon text": (GOOD.replace("5.0", '"1"'), "[privacy] epsilon", "number"),
    "epsilon true": (GOOD.replace("5.0", "true"), "[privacy] epsilon", "number"),
    "delta": (GOOD.replace("5.0", "5.0\ndelta = 1.0"), "[privacy] delta", "between 0 and 1"),
    "lonely delta": (
        GOOD.replace("epsilon = 5.0", "rho = 1\ndelta = 1e-6"),
        "[privacy] delta",
        "epsilon",
    ),
    "none": (GOOD.replace("epsilon = 5.0", "none = false"), "[privacy] none", "true"),
    "mechanism": (
        GOOD.replace("5.0", '5.0\nmechanism = "exponential"'),
        "[privacy] mechanism",
        '"objective"',
    ),
    "shares": (GOOD.replace("5.0", "5.0\nshares = [1, 1]"), "[privacy] shares", "three"),
    "shares zero": (GOOD.replace("5.0", "5.0\nshares = [1, 1, 0]"), "[privacy] shares", "positive"),
    "replicates": (GOOD.replace("40", "0"), "[study] replicates", "1 to 100 million"),
    "replicates float": (GOOD.replace("40", "10.5"), "[study] replicates", "whole number"),
    "seed": (GOOD + "seed = -1\n", "[study] seed", "0 or more"),
    "level": (GOOD + "level = 95\n", "[study] level", "between 0 and 1"),
    "device": (GOOD + 'device = "cuda"\n', "device"),
    "checkpoint": (GOOD + "checkpoint = 1\n", "[study] checkpoint", "true or false"),
    "checkpoint out": (GOOD + "checkpoint = true\n", "[study] checkpoint", "--out"),
}


@pytest.fixture(scope="module")
def bad_folder(tmp_path_factory):
    """The good files, and broken ones that hold a secret."""
    here = tmp_path_factory.mktemp("bad")
    table().to_csv(here / "table.csv", index=False)
    (here / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    (here / "broken.toml").write_text("[columns\nx", encoding="utf-8")
    (here / "fake.parquet").write_text(f"{SECRET}", encoding="utf-8")
    (here / "bytes.csv").write_bytes(b"y,a,b\n0,1,\xff48151623\n")
    (here / "empty.csv").write_text("", encoding="utf-8")
    (here / "header.csv").write_text("y,a,b\n", encoding="utf-8")
    table().assign(a=str(SECRET)).to_parquet(here / "text.parquet")
    (here / "narrow.csv").write_text("y,a\n0,1\n", encoding="utf-8")
    return here


@pytest.mark.parametrize("case", BAD)
def test_bad_specs(bad_folder, case):
    """In this process; the next test takes one of them through the executable."""
    text, *words = BAD[case]
    fails(run_here("coverage", spec(bad_folder, text)), *words)


def test_bad_specs_of_the_executable(bad_folder):
    text, *words = BAD["syntax"]
    fails(run("coverage", spec(bad_folder, text)), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["coverage"], ["SPEC", "--help"]),
        (["coverage", "no.toml"], ["no.toml", "check the path"]),
        (["coverage", "spec.toml", "--fast"], ["--fast", "--help"]),
        (["cover", "spec.toml"], ["cover", "--help"]),
        (["coverage", "spec.toml", "--out", "table.csv"], ["table.csv", "name another"]),
        (["coverage", "bytes.toml"], ["bytes.toml", "not valid TOML"]),
    ],
)
def test_bad_command_lines(folder, arguments, words):
    spec(folder)
    (folder / "bytes.toml").write_bytes(b"\xff")
    fails(run_here(*arguments, cwd=folder), *words)


def test_a_checkpoint_of_another_study_is_refused(folder):
    out = folder / "out"
    out.mkdir()
    (out / "resume.json").write_text(json.dumps({"study": "another", "tallies": {}}))
    fails(
        run_here("coverage", spec(folder, GOOD + "checkpoint = true\n"), "--out", out),
        "resume.json",
        "remove it",
    )
    assert [path.name for path in out.iterdir()] == ["resume.json"]


def test_a_fault_of_ours_shows_no_value(folder):
    (folder / "tomllib.py").write_text(
        f"def loads(text): raise KeyError({SECRET})\n", encoding="utf-8"
    )
    done = run("coverage", spec(folder), env={"PYTHONPATH": str(folder)})
    assert done.returncode == 1
    assert done.stderr.startswith("error: this is a fault of dpinfer itself (KeyError")
    assert str(SECRET) not in done.stderr
