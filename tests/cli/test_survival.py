"""`dpinfer survival`: what is booked, what is written, what is shown."""

import json
import os
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer import persistence
from helpers.terminal import SECRET, fails, run_here, succeeds

SCHEMA = """\
title = "A trial"
unit = "one patient"
[columns.years]
type = "number"
low = 0
high = 10
[columns.entered]
type = "number"
low = 0
high = 10
[columns.status]
type = "category"
levels = ["none", "relapse", "death"]
reference = "none"
[columns.arm]
type = "category"
levels = ["a", "b"]
"""
FILES = ["survival.csv", "survival.html", "survival.json", "survival.md", "survival.png"]
GIVEN = [
    *["survival", "table.csv", "--schema", "schema.toml", "--time", "years", "--event", "status"],
    *["--bins", "5"],
]
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
BOOKED = [*GIVEN, *BUDGET, "--ledger", "ledger.db"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    n = 3000
    frame = pd.DataFrame(
        {
            "years": rng.exponential(6, n).round(3),
            "entered": 0.0,
            "status": rng.choice(["none", "relapse", "death"], n),
            "arm": rng.choice(["a", "b"], n),
        }
    )
    frame.loc[0, "arm"] = str(SECRET)
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    dp.Ledger.create(tmp_path / "ledger.db", dp.ApproxDP(2.0, 1e-5), unit="one patient")
    return tmp_path


def entries(folder):
    return dp.Ledger.open(folder / "ledger.db").entries()


def test_curves_are_booked_written_and_shown(folder):
    asked = [
        *BOOKED,
        "--event",
        "status == 'death'",
        "--by",
        "arm",
        "--entry",
        "entered",
        "-o",
        "out",
    ]
    dry = succeeds(run_here(*asked, "--dry-run", cwd=folder))
    for words in ("no value was read", "3,000 records", "5, from 0 to 10", "After this", "sd"):
        assert words in dry
    assert entries(folder) == ()
    assert not (folder / "out").exists()
    shown = succeeds(run_here(*asked, cwd=folder))
    assert sorted(os.listdir(folder / "out")) == FILES
    (entry,) = entries(folder)
    assert entry.purpose == "survival: status == 'death' by years by arm"
    curves = dp.SurvivalCurves.load(folder / "out/survival.json")
    assert curves.privacy.release == entry.release
    for words in ("A trial", "Log-rank", "Median survival time", entry.release, "survival.png"):
        assert words in shown
    written = "".join(
        (folder / "out" / name).read_text(encoding="utf-8") for name in FILES if "png" not in name
    )
    assert str(SECRET) not in shown + written
    checked = run_here("budget", "verify", "ledger.db", "out/survival.json", "--json", cwd=folder)
    assert json.loads(succeeds(checked))["ok"]
    before = {name: (folder / "out" / name).read_bytes() for name in FILES}
    succeeds(run_here("report", "out/survival.json", "-o", "again", cwd=folder))
    again = {name: (folder / "again" / name).read_bytes() for name in FILES}
    assert again["survival.json"] == before["survival.json"]
    assert again["survival.csv"] == before["survival.csv"]
    assert "Log-rank" in succeeds(run_here("report", "out/survival.json", "--text", cwd=folder))
    filed = ["report", "out/survival.json", "--registry", "--disclosure", "-o", "filed", "-q"]
    succeeds(run_here(*filed, "--ledger", "ledger.db", cwd=folder))
    disclosed = (folder / "filed/disclosure.md").read_text(encoding="utf-8")
    for words in ("Survival curves", "5 intervals from 0 to 10", "points of survival curves"):
        assert words in disclosed
    with_others = ["report", "out/survival.json", "out/survival.json", "--side-by-side"]
    fails(run_here(*with_others, cwd=folder), "survival curves")
    fails(run_here("report", "out/survival.json", "--level", 0.9, cwd=folder), "leave level out")


def test_json(folder):
    told = json.loads(succeeds(run_here(*BOOKED, "--dry-run", "--json", cwd=folder)))
    assert told["records"] == 3000
    assert told["intervals"] == 5
    assert told["count_sd"] > 0
    told = json.loads(succeeds(run_here(*BOOKED, "-o", "out", "--json", cwd=folder)))
    curves = dp.SurvivalCurves.load(folder / "out/survival.json")
    assert told["release"] == curves.privacy.release
    assert len(told["survival"]) == 5
    assert set(told["incidence"]) == {"relapse", "death"}
    assert sorted(os.path.basename(path) for path in told["files"]) == FILES


def test_refused_before_booking(folder):
    for options, words in (
        ([], "--out DIR"),
        (["-o", "out", "--by", "years"], "is a number"),
        (["-o", "out", "--by", "agee"], "agee"),
        (["-o", "out", "--bins", "5,x"], "--bins"),
        (["-o", "out", "--bins", "5,3"], "small to large"),
        (["-o", "out", "--level", 2], "--level"),
        (["-o", "table.csv/x"], "cannot be written"),
        (["-o", "out", "--neighbours", "one"], "--neighbours"),
    ):
        fails(run_here(*BOOKED, *options, cwd=folder), words)
    fails(run_here(GIVEN[0], GIVEN[1], *GIVEN[4:], *BUDGET, "-o", "x", cwd=folder), "--schema")
    fails(run_here(*GIVEN, "-o", "out", cwd=folder), "--epsilon")
    fails(run_here(*GIVEN, "--epsilon", 1, "-o", "out", cwd=folder), "Gaussian noise")
    over = [*GIVEN, "--epsilon", 9, "--delta", 1e-6, "--ledger", "ledger.db", "-o", "out"]
    fails(run_here(*over, cwd=folder), code=3)
    assert run_here(*over, "--dry-run", cwd=folder).returncode == 3
    assert entries(folder) == ()


def test_curves_are_not_replaced_unless_told(folder):
    asked = [*BOOKED, "-o", "out", "-q"]
    with mock.patch.object(dp.report, "write", return_value=[]):  # pictures take long
        succeeds(run_here(*asked, cwd=folder))
        fails(run_here(*asked, cwd=folder), "is there already", "--force")
        assert len(entries(folder)) == 1
        succeeds(run_here(*asked, "--force", cwd=folder))
    assert len(entries(folder)) == 2


def test_nothing_is_lost_after_booking(folder):
    """Curves that cannot be written are printed; a page that cannot be made leaves them in the folder."""
    asked = [*BOOKED, "-o", "out"]
    with mock.patch.object(persistence, "write", side_effect=OSError(28, "no space")):
        done = run_here(*asked, cwd=folder)
    assert done.returncode == 2
    assert dp.SurvivalCurves.from_json(done.stdout).privacy.release == entries(folder)[0].release
    with mock.patch.object(dp.report, "write", side_effect=dp.InputError("no room")):
        fails(run_here(*asked, "--force", cwd=folder), "the curves are safe in")
    assert dp.SurvivalCurves.load(folder / "out/survival.json").privacy.release
