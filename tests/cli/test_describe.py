"""`dpinfer describe`: what is booked, what is written, what is shown; forecasts stand on it."""

import json
import os
import stat
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer import persistence
from dpinfer.description import describing
from dpinfer.result import table_one
from helpers.terminal import SECRET, fails, run, run_here, succeeds

SCHEMA = """\
title = "A survey"
unit = "one person"
[columns.age]  # stays
type = "integer"
low = 18
high = 95
[columns.health]
type = "category"
levels = ["good", "fair", "poor"]
[columns.sex]
type = "category"
levels = ["f", "m"]
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
"""
FILES = ["description.json", "table1.csv", "table1.html", "table1.md", "table1.tex"]
GIVEN = ["describe", "table.csv", "--schema", "schema.toml"]
BUDGET = ["--epsilon", 1, "--delta", 1e-6]
BOOKED = [*GIVEN, *BUDGET, "--ledger", "ledger.db"]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    n = 4000
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "health": rng.choice(["good", "fair", "poor"], n, p=[0.6, 0.3, 0.1]),
            "sex": rng.choice(["f", "m"], n),
            "visit": rng.choice(["no", "yes"], n),
        }
    )
    frame.loc[0, "health"] = str(SECRET)
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    dp.Ledger.create(tmp_path / "ledger.db", dp.ApproxDP(2.0, 1e-5), unit="one person")
    return tmp_path


def entries(folder):
    return dp.Ledger.open(folder / "ledger.db").entries()


def test_through_the_executable(folder):
    asked = [*BOOKED, "--by", "sex", "--columns", "age,health", "-o", "out"]
    dry = succeeds(run_here(*asked, "--dry-run", cwd=folder))
    for words in ("no value was read", "4,000 records", "age, health", "After this", "each sex"):
        assert words in dry
    assert entries(folder) == ()
    assert not (folder / "out").exists()
    shown = succeeds(run(*asked, cwd=folder))
    assert sorted(os.listdir(folder / "out")) == FILES
    (entry,) = entries(folder)
    assert entry.purpose == "describe age, health by sex"
    assert entry.schema == dp.Schema.read(folder / "schema.toml").digest()
    description = dp.Description.load(folder / "out/description.json")
    assert description.privacy.release == entry.release
    assert description.groups == ("f", "m")
    for words in ("A survey", "sex = m", "m less f", entry.release, "table1.html", "4,000 records"):
        assert words in shown
    for line in table_one.screen(description).splitlines():
        assert line in shown
    assert str(SECRET) not in shown + "".join(
        (folder / "out" / name).read_text(encoding="utf-8") for name in FILES
    )
    assert (folder / "schema.toml").read_text(encoding="utf-8") == SCHEMA
    verified = json.loads(
        succeeds(
            run_here("budget", "verify", "ledger.db", "out/description.json", "--json", cwd=folder)
        )
    )
    assert verified["ok"]


def test_json(folder):
    told = json.loads(succeeds(run_here(*BOOKED, "--dry-run", "--json", cwd=folder)))
    assert told["records"] == 4000
    assert told["columns"] == ["age", "health", "sex", "visit"]
    assert all(row["noise"] > 0 for row in told["expected"])
    told = json.loads(succeeds(run_here(*BOOKED, "-o", "out", "--json", cwd=folder)))
    description = dp.Description.load(folder / "out/description.json")
    assert told["release"] == description.privacy.release
    assert len(told["figures"]) == len(description.figures)
    assert told["typical"] == description.typical()
    assert told["files"] == [f"out/{name}" for name in FILES]
    assert succeeds(run_here(*GIVEN, "--rho", 0.1, "-o", "quiet", "-q", cwd=folder)) == ""


def test_refused_before_booking(folder):
    (folder / "other.toml").write_text(SCHEMA.replace("95", "99"), encoding="utf-8")
    for options, words in (
        ([], "--out DIR"),
        (["-o", "out", "--by", "age"], "levels"),
        (["-o", "out", "--columns", "agee"], "did you mean 'age'"),
        (["-o", "out", "--level", 2], "--level"),
        (["-o", "table.csv/x"], "cannot be written"),
        (["-o", "out", "--into", "other.toml"], "otherwise than --schema"),
        (["-o", "out", "--into", "nothing.toml"], "cannot be read"),
        (["-o", "out", "--neighbours", "one"], "--neighbours"),
    ):
        fails(run_here(*BOOKED, *options, cwd=folder), words)
    fails(run_here("describe", "table.csv", *BUDGET, "-o", "out", cwd=folder), "--schema")
    fails(run_here(*GIVEN, "-o", "out", cwd=folder), "--epsilon")
    fails(run_here("describe", "none.csv", *BOOKED[2:], "-o", "out", cwd=folder), "none.csv")
    over = [*GIVEN, "--epsilon", 9, "--delta", 1e-6, "--ledger", "ledger.db", "-o", "out"]
    fails(run_here(*over, cwd=folder), code=3)
    assert run_here(*over, "--dry-run", cwd=folder).returncode == 3
    assert entries(folder) == ()


def test_a_description_is_not_replaced_unless_told(folder):
    asked = [*BOOKED, "-o", "out", "-q"]
    succeeds(run_here(*asked, cwd=folder))
    fails(run_here(*asked, cwd=folder), "is there already", "--force")
    assert len(entries(folder)) == 1
    succeeds(run_here(*asked, "--force", cwd=folder))
    assert len(entries(folder)) == 2


def test_nothing_is_lost_after_booking(folder):
    asked = [*BOOKED, "-o", "out"]
    real = persistence.write_all

    def full(folder, contents):
        if "table1.html" in contents:
            raise OSError(28, "No space left on device")
        real(folder, contents)

    with mock.patch.object(persistence, "write_all", full):
        fails(run_here(*asked, cwd=folder), "the description is safe in out/description.json")
    kept = dp.Description.load(folder / "out/description.json")
    assert kept.privacy.release == entries(folder)[0].release
    succeeds(run_here("report", "out/description.json", cwd=folder))
    assert sorted(os.listdir(folder / "out")) == FILES
    with mock.patch.object(persistence, "write_all", side_effect=OSError(28, "No space left")):
        done = run_here(*GIVEN, "--rho", 0.01, "-o", "new", cwd=folder)
    assert done.returncode == 2
    assert "printed to stdout" in done.stderr
    assert dp.Description.from_json(done.stdout).n == 4000


def test_a_fault_after_booking_names_the_release(folder):
    with mock.patch.object(describing.Describing, "_released", side_effect=MemoryError):
        done = run_here(*BOOKED, "-o", "out", cwd=folder)
    assert done.returncode == 2
    assert f"booked as release {entries(folder)[0].release}" in done.stderr


def test_forecasts_stand_on_what_was_released(folder):
    asked = ["--columns", "age,visit", "-o", "out", "--into", "schema.toml", "-q"]
    mode = stat.S_IMODE(os.stat(folder / "schema.toml").st_mode)
    succeeds(run_here(*BOOKED, *asked, cwd=folder))
    text = (folder / "schema.toml").read_text(encoding="utf-8")
    release = entries(folder)[0].release
    assert text.count(f"# dpinfer describe, release {release}") == 2
    assert [line for line in text.splitlines() if "typical" not in line] == SCHEMA.splitlines()
    assert mode == stat.S_IMODE(os.stat(folder / "schema.toml").st_mode)
    filled = dp.Schema.read(folder / "schema.toml")
    description = dp.Description.load(folder / "out/description.json")
    assert filled.typical == dp.Schema.parse(SCHEMA).guess(description.typical()).typical
    options = {"records": 4000, "replicates": 2, "budgets": [dp.ApproxDP(1.0, 1e-6)], "seed": 1}
    before, after, said = (
        dp.simulate.forecast("visit ~ age", schema=schema, **options).nonprivate[0]
        for schema in (
            dp.Schema.parse(SCHEMA),
            filled,
            dp.Schema.parse(SCHEMA).guess(description.typical()),
        )
    )
    assert np.array_equal(after, said)
    assert not np.allclose(before, after, rtol=0.05)


def test_a_saved_description_is_reported_again(folder):
    succeeds(run_here(*BOOKED, "-o", "out", "-q", cwd=folder))
    succeeds(
        run_here("report", "out/description.json", "-o", "again", "--title", "Who?", cwd=folder)
    )
    assert sorted(os.listdir(folder / "again")) == FILES
    assert "Who?" in (folder / "again/table1.html").read_text(encoding="utf-8")
    shown = succeeds(run_here("report", "out/description.json", "--text", cwd=folder))
    description = dp.Description.load(folder / "out/description.json")
    assert shown == description.summary() + "\n"
    fails(run_here("report", "out/description.json", "--level", 0.9, cwd=folder), "leave level out")


def test_expressions_and_shares(folder):
    """Commas inside of brackets are those of an expression; a share changes what is left to others."""
    asked = [
        *GIVEN,
        *BUDGET,
        "--columns",
        "sex, cut(age, 40, 65), age >= 65",
        "--dry-run",
        "--json",
    ]
    told = json.loads(succeeds(run_here(*asked, cwd=folder)))
    assert told["columns"] == ["sex", "cut(age, 40, 65)", "age >= 65"]
    more = json.loads(succeeds(run_here(*asked, "--share", "sex=2", cwd=folder)))
    noise = [{row["column"]: row["noise"] for row in answer["expected"]} for answer in (told, more)]
    assert (noise[0]["sex"] / noise[1]["sex"]) ** 2 == pytest.approx(2 * 3 / 4)
    assert noise[1]["age >= 65"] > noise[0]["age >= 65"]
    filled = [*GIVEN, *BUDGET, "--columns", "sex,age >= 65", "--into", "schema.toml", "-o", "out"]
    succeeds(run_here(*filled, cwd=folder))
    assert (folder / "schema.toml").read_text(encoding="utf-8").count("typical") == 1
    for words in ("sex", "sex=much", "2=x"):
        told = run_here(*asked[:-1], "--share", words, cwd=folder)
        fails(told, "--share takes NAME=NUMBER")
