"""`dpinfer schema learn`."""

import json

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from helpers.terminal import SECRET, fails, run, run_here, succeeds

TYPED = "age:integer,income:number,health:category,visit:outcome"


@pytest.fixture
def folder(tmp_path):
    rng, n = np.random.default_rng(0), 6000
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 96, n),
            "income": rng.lognormal(10, 0.5, n).round(2),
            "health": rng.choice(["good", "fair", "poor"], n, p=[0.6, 0.3, 0.1]),
            "visit": rng.choice(["no", "yes"], n),
            "nothing": np.nan,
        }
    )
    frame.loc[0, "health"] = str(SECRET)
    frame.loc[1, "income"] = SECRET * 1e9
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet")
    dp.Ledger.create(tmp_path / "ledger.db", dp.ApproxDP(3.0, 1e-5), unit="one person")
    return tmp_path


def entries(folder, name="ledger.db"):
    return dp.Ledger.open(folder / name).entries()


def test_from_a_csv_file_through_the_executable(folder):
    budget = ["--epsilon", 2, "--delta", 1e-6, "--ledger", "ledger.db"]
    given = ["schema", "learn", "table.csv", "--columns", TYPED, *budget]
    dry = succeeds(run_here(*given, "--dry-run", "--verbose", cwd=folder))
    for words in (
        "no value was read",
        "6,000 records",
        "levels of health",
        "After this",
        "a level that about",
    ):
        assert words in dry
    assert entries(folder) == ()
    assert not (folder / "schema.toml").exists()
    shown = succeeds(run(*given, cwd=folder))
    assert str(SECRET) not in shown
    (booked,) = entries(folder)
    for words in (
        "good, fair, poor",
        "no, yes",
        booked.release,
        "dpinfer schema check schema.toml --data table.csv",
    ):
        assert words in shown
    schema = dp.Schema.read(folder / "schema.toml")
    assert {schema[name].learned for name in schema.columns} == {booked.release}
    assert schema.unit.name == "one person"
    # the noise is the operating system's, so how close a range comes is left to seeded tests
    # (tests/fit/test_bounds.py)
    assert schema["age"].low < schema["age"].high
    assert schema["income"].low < schema["income"].high
    checked = succeeds(
        run_here("schema", "check", "schema.toml", "--data", "table.csv", cwd=folder)
    )
    assert f"(learned, release {booked.release[:8]})" in " ".join(checked.split())
    shown = succeeds(run_here("budget", "show", "ledger.db", cwd=folder))
    assert "took δ = 5·10⁻⁷" in shown
    assert (
        json.loads(succeeds(run_here("budget", "show", "ledger.db", "--json", cwd=folder)))[
            "levels_delta"
        ]
        == 5e-7
    )


def test_json(folder):
    given = ["schema", "learn", "table.parquet", "--rho", 0.05, "--json", "-o", "out.toml"]
    told = json.loads(succeeds(run_here(*given, "--dry-run", cwd=folder)))
    assert told["ranges"] == ["age", "income", "nothing"]
    assert told["skipped"] == ["health", "visit"]
    assert told["records"] == 6000
    assert len(told["entry"]["events"]) == 9
    told = json.loads(succeeds(run_here(*given, cwd=folder)))
    assert (told["booked"], told["release"], told["path"]) == (False, None, "out.toml")
    age, income, nothing = told["columns"]
    assert age["low"] <= 19
    assert 0 < income["clipped"] < 0.1
    assert "low" not in nothing
    assert told["gaps"] == 4  # two ends of a column of nothing, two columns of text
    text = (folder / "out.toml").read_text(encoding="utf-8")
    assert 'learned = "not booked"' in text
    assert "# levels take a delta: state them" in text
    assert "# no range is clear of the noise" in text
    fails(run_here("schema", "check", "out.toml", cwd=folder), "out.toml, line", "not filled in")


def test_a_schema_with_gaps_is_filled_in(folder):
    (folder / "draft.toml").write_text(
        'title = "T"\nunit = "one person"\n[columns.age]\ntype = "integer"\nlow = 18\nhigh = "?"\nsource = "adults"\n'
    )
    given = [
        "schema",
        "learn",
        "table.csv",
        "--schema",
        "draft.toml",
        "--epsilon",
        1,
        "--ledger",
        "ledger.db",
    ]
    fails(
        run_here(*given, "-o", "draft.toml", cwd=folder), "'draft.toml' is there already", "--force"
    )
    assert entries(folder) == ()
    succeeds(run_here(*given, "-o", "draft.toml", "--force", "--quiet", cwd=folder))
    schema = dp.Schema.read(folder / "draft.toml")
    assert (schema.title, schema["age"].low, schema["age"].source) == ("T", 18, "adults")
    assert schema["age"].learned == entries(folder)[0].release


def test_a_second_time_levels_are_refused_and_ranges_are_not(folder):
    given = [
        "schema",
        "learn",
        "table.parquet",
        "--epsilon",
        0.5,
        "--delta",
        1e-6,
        "--ledger",
        "ledger.db",
        "-q",
    ]
    succeeds(run_here(*given, "--columns", "health", cwd=folder))
    fails(
        run_here(*given, "--columns", "visit", "-o", "b.toml", cwd=folder),
        "levels come first",
        code=3,
    )
    dry = run_here(*given[:-1], "--columns", "visit", "-o", "b.toml", "--dry-run", cwd=folder)
    assert dry.returncode == 3
    assert "refused: levels come first" in dry.stdout
    succeeds(run_here(*given, "--columns", "age", "-o", "b.toml", cwd=folder))
    assert len(entries(folder)) == 2


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (["--epsilon", 1, "--columns", "agee"], ["no column 'agee'", "'age'"], 2),
        (["--epsilon", 1, "--columns", "health"], ["'health' take a delta"], 2),
        (["--epsilon", 1, "--columns", "age:text"], ["no column 'age:text'"], 2),
        (["--epsilon", 1, "--columns", ","], ["no column has a type and a gap"], 2),
        (["--epsilon", 1, "--columns", "age:category"], ["has a type already"], 2),
        (["--epsilon", 1e-6], ["too small to show anything", "spend more"], 2),
        (["--epsilon", 1, "--rho", 1], ["exactly one of --epsilon, --rho"], 2),
        (["--delta", 1e-6], ["exactly one of"], 2),
        ([], ["exactly one of"], 2),
        (["--epsilon", 1, "--delta", 0.5], ["no promise"], 2),
        (["--epsilon", 1, "--neighbours", "some"], ["--neighbours must be"], 2),
        (["--epsilon", 1, "--neighbours", "add-remove"], ["neighbours is 'replace'"], 3),
        (["--epsilon", 1, "--schema", "none.toml"], ["'none.toml' cannot be read"], 2),
        (["--epsilon", 9], ["this costs ε = 9", "may cost up to ε = 3"], 3),
    ],
)
def test_bad_input_books_nothing(folder, options, words, code):
    given = ["schema", "learn", "table.parquet", "--ledger", "ledger.db", "-o", "out.toml"]
    fails(run_here(*given, *options, cwd=folder), *words, code=code)
    assert entries(folder) == ()
    assert not (folder / "out.toml").exists()


def test_ledgers_without_a_delta(folder):
    for name, total in (("pure.db", dp.PureDP(9.0)), ("rho.db", dp.ZCDP(9.0))):
        dp.Ledger.create(folder / name, total)
        given = [
            "schema",
            "learn",
            "table.parquet",
            "--ledger",
            name,
            "--epsilon",
            1,
            "--delta",
            1e-6,
        ]
        fails(run_here(*given, "--columns", "health", cwd=folder), "levels take a delta", code=3)
        assert entries(folder, name) == ()
    succeeds(
        run_here(
            "schema",
            "learn",
            "table.parquet",
            "--ledger",
            "pure.db",
            "--epsilon",
            1,
            "-q",
            cwd=folder,
        )
    )
    assert len(entries(folder, "pure.db")) == 1


def test_other_bad_files(folder):
    given = ["--epsilon", 1, "--ledger", "ledger.db"]
    fails(run_here("schema", "learn", "none.csv", *given, cwd=folder), "no file 'none.csv'")
    (folder / "empty.csv").write_text("")
    fails(run_here("schema", "learn", "empty.csv", *given, cwd=folder), "first line")
    (folder / "head.csv").write_text("a,b\n")
    fails(
        run_here("schema", "learn", "head.csv", "--columns", "a:number", *given, cwd=folder),
        "no rows",
    )
    fails(
        run_here("schema", "learn", "table.csv", *given, cwd=folder),
        "no column has a type",
        "age:integer",
    )
    fails(
        run_here("schema", "learn", "table.csv", "--columns", "age", *given, cwd=folder),
        "write age:TYPE",
    )
    fails(
        run_here(
            "schema", "learn", "table.parquet", "--epsilon", 1, "--ledger", "no.db", cwd=folder
        ),
        "no ledger",
    )
    given += ["-o", "not/there/out.toml", "--columns", "age"]
    succeeds(
        run_here("schema", "learn", "table.parquet", *given, "-q", cwd=folder)
    )  # the folder is made
    (folder / "file").write_text("")
    fails(
        run_here("schema", "learn", "table.parquet", "--rho", 1, "-o", "file/x.toml", cwd=folder),
        "cannot be written",
    )


def test_a_disk_that_fails_at_the_end_costs_no_result(folder, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpinfer.persistence.write", full)
    done = run_here(
        "schema", "learn", "table.parquet", "--columns", "age", "--rho", 0.1, cwd=folder
    )
    assert done.returncode == 2
    assert "printed to stdout" in done.stderr
    assert dp.Schema.parse(done.stdout)["age"].high > 90


def test_persons(folder):
    frame = pd.read_parquet(folder / "table.parquet").assign(
        person=lambda t: np.arange(len(t)) // 3
    )
    frame.to_parquet(folder / "people.parquet")
    (folder / "people.toml").write_text(
        '[unit]\nname = "one person"\ncolumn = "person"\nrows = "average"\n[columns.age]\ntype = "integer"\n'
    )
    dp.Ledger.create(folder / "p.db", dp.ZCDP(1.0), unit="one person", neighbours="replace-unit")
    given = [
        "schema",
        "learn",
        "people.parquet",
        "--schema",
        "people.toml",
        "--rho",
        0.1,
        "--ledger",
        "p.db",
    ]
    dry = succeeds(run_here(*given, "--dry-run", cwd=folder))
    assert "people.parquet, whose units are not counted" in " ".join(dry.split())
    assert "6,000" not in dry
    assert "2,000" not in dry
    succeeds(run_here(*given, "-q", cwd=folder))
    assert entries(folder, "p.db")[0].neighbours == "replace-unit"
    fails(run_here(*given[:-1], "ledger.db", "-o", "x.toml", cwd=folder), "neighbours", code=3)
