"""`dpinfer schema`."""

import json

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from terminal import SECRET, fails, files_in, run, run_here, succeeds


@pytest.fixture
def folder(tmp_path):
    return files_in(tmp_path)


def test_a_draft_through_the_executable(folder):
    done = run("schema", "init", "table.parquet", "-o", "draft.toml", cwd=folder)
    assert "dpinfer schema check draft.toml --data table.parquet" in succeeds(done)
    assert (folder / "draft.toml").read_text(encoding="utf-8") == dp.Schema.draft(folder / "table.parquet")
    fails(run_here("schema", "check", "draft.toml", cwd=folder), "draft.toml, line", "not filled in")


def test_a_schema_is_not_replaced_unless_told_to(folder):
    before = (folder / "schema.toml").read_bytes()
    fails(run_here("schema", "init", "table.csv", cwd=folder), "'schema.toml'", "--force")
    assert (folder / "schema.toml").read_bytes() == before
    shown = succeeds(run_here("schema", "init", "table.csv", "--force", "--json", cwd=folder))
    assert json.loads(shown) == {"path": "schema.toml", "gaps": 4, "columns": ["a", "b", "y"]}
    assert (folder / "schema.toml").read_bytes() != before


def test_check_through_the_executable(folder):
    given = ["schema", "check", "schema.toml", "--data", "table.parquet", "--formula", "y ~ a*b"]
    shown = succeeds(run(*given, cwd=folder))
    for words in ("0 to 10", "p, q, None", "fits", "6 coefficients", "a:b[None]", "one record"):
        assert words in shown
    told = json.loads(succeeds(run_here(*given, "--json", cwd=folder)))
    assert told["digest"] == dp.Schema.read(folder / "schema.toml").digest()
    assert [column["name"] for column in told["columns"]] == ["y", "a", "b"]


def test_columns_that_do_not_fit_are_named(folder):
    frame = pd.DataFrame({"y": ["0"], "a": [str(SECRET)], "c": [1]})
    frame.to_parquet(folder / "other.parquet")
    done = run_here("schema", "check", "schema.toml", "--data", "other.parquet", cwd=folder)
    assert done.returncode == 2
    assert done.stdout.count("does not fit") == 2
    assert "'a'" in done.stderr
    assert "(and 1 more)" in done.stderr
    assert str(SECRET) not in done.stdout + done.stderr
    fails(run_here("schema", "check", "schema.toml", "--data", "other.parquet", "-q", cwd=folder), "'a'")
    formula = ["--formula", "y ~ b"]
    fails(run_here("schema", "check", "schema.toml", "--data", "other.parquet", "-q", *formula, cwd=folder), "'b'")


def test_a_check_looks_at_no_value(folder):
    """Whatever the rows hold, what is shown depends on names and types."""
    given = ["schema", "check", "schema.toml", "--data", "table.parquet"]
    first = run_here(*given, cwd=folder)
    odd = pd.DataFrame({"a": [np.nan, np.inf, -1e300], "b": ["?", "p", "p"], "y": ["x", "y", "z"]})
    odd.to_parquet(folder / "table.parquet")
    assert succeeds(first) == succeeds(run_here(*given, cwd=folder))


def test_a_first_line_with_values_is_not_quoted(folder):
    (folder / "bare.csv").write_text(f"{SECRET},1,2\n3,4,5\n", encoding="utf-8")
    fails(run_here("schema", "check", "schema.toml", "--data", "bare.csv", cwd=folder), "header")


def test_a_check_tells_the_range_of_what_is_explained(folder):
    (folder / "more.toml").write_text(
        '[columns.y]\ntype = "outcome"\nlow = 0\nhigh = 8\nunit = "euro"\n'
        '[columns.a]\ntype = "number"\nlow = 0\nhigh = 10\nmissing = 3\n'
        '[columns.b]\ntype = "category"\nlevels = ["p", "q", "None"]\n'
    )
    pd.DataFrame({"y": [1.0], "a": [2.0], "b": ["p"]}).to_parquet(folder / "more.parquet")
    given = ["schema", "check", "more.toml", "--data", "more.parquet", "--formula"]
    shown = succeeds(run_here(*given, "I(y - a) ~ b", cwd=folder))
    for words in ("I(y - a), -10 to 8: for a regression", "outcome", "0 to 8 euro", "3 coefficients"):
        assert words in shown
    assert "read as 3" not in shown  # a missing outcome has no substitute
    assert "y, 0 to 8 euro: for a regression" in succeeds(run_here(*given, "y ~ a", cwd=folder))
    assert "read as 3" in succeeds(run_here(*given, "y ~ a", cwd=folder))
    told = json.loads(succeeds(run_here(*given, "I(y - a) ~ b", "--json", cwd=folder)))
    assert [(column["name"], column["type"]) for column in told["columns"]] == [
        ("y", "outcome"),
        ("a", "number"),
        ("b", "category"),
    ]
    two = ["schema", "check", "schema.toml", "--formula"]
    assert "y, two levels: for a classifier" in succeeds(run_here(*two, "y ~ a", cwd=folder))
    fails(run_here(*two, "log(a) ~ b", cwd=folder), "raise low")
    fails(run_here(*two, "I(a + 1) ~ a", cwd=folder), "both sides")
