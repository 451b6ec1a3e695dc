"""`dpinfer schema`."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from helpers.terminal import SECRET, fails, files_in, run, run_here, succeeds


@pytest.fixture
def folder(tmp_path):
    return files_in(tmp_path)


def test_a_draft_through_the_executable(folder):
    done = run("schema", "init", "table.parquet", "-o", "draft.toml", cwd=folder)
    assert "dpinfer schema check draft.toml --data table.parquet" in succeeds(done)
    assert (folder / "draft.toml").read_text(encoding="utf-8") == dp.Schema.draft(
        folder / "table.parquet"
    )
    fails(
        run_here("schema", "check", "draft.toml", cwd=folder), "draft.toml, line", "not filled in"
    )


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
    for words in (
        "0 to 10",
        "p, q, None",
        "type matches",
        "6 coefficients",
        "a:b[None]",
        "one record",
    ):
        assert words in shown
    assert shown.count("Values were not read.") == 1
    assert "fits" not in shown  # no value was looked at
    told = json.loads(succeeds(run_here(*given, "--json", cwd=folder)))
    assert told["digest"] == dp.Schema.read(folder / "schema.toml").digest()
    assert [column["name"] for column in told["columns"]] == ["y", "a", "b"]


def test_columns_that_do_not_fit_are_named(folder):
    frame = pd.DataFrame({"y": ["0"], "a": [str(SECRET)], "c": [1]})
    frame.to_parquet(folder / "other.parquet")
    done = run_here("schema", "check", "schema.toml", "--data", "other.parquet", cwd=folder)
    assert done.returncode == 2
    assert done.stdout.count("does not match") == 2
    assert "'a'" in done.stderr
    assert "(and 1 more)" in done.stderr
    assert str(SECRET) not in done.stdout + done.stderr
    fails(
        run_here("schema", "check", "schema.toml", "--data", "other.parquet", "-q", cwd=folder),
        "'a'",
    )
    formula = ["--formula", "y ~ b"]
    fails(
        run_here(
            "schema", "check", "schema.toml", "--data", "other.parquet", "-q", *formula, cwd=folder
        ),
        "'b'",
    )


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
    for words in (
        "I(y - a), -10 to 8: for a regression",
        "outcome",
        "0 to 8 euro",
        "3 coefficients",
    ):
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


NOT_PRIVATE = "NOT PRIVATE: single values were looked at, without noise."


def test_a_peek_counts_what_does_not_fit_and_says_that_it_is_not_private(folder):
    lines = ["a,b,y", "5,p,0", f"{SECRET},P,na", f"-1,{SECRET},NA", ",q,0 "]
    (folder / "odd.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = ["schema", "check", "schema.toml", "--data", "odd.csv", "--peek"]
    shown = succeeds(run_here(*given, cwd=folder))
    assert NOT_PRIVATE in shown
    assert str(SECRET) not in shown
    for words in (
        r"a\s+1\s+0\s+0\s+1\s+1\n",
        r"b\s+0\s+2\s+1\s+0\s+0\n",
        r"y\s+0\s+1\s+1\s+0\s+0\n",
        "1 of 4 rows",
    ):
        assert re.search(words, shown), words
    assert "large and small letters, and the number of blanks inside, are told apart" in shown
    told = json.loads(succeeds(run_here(*given, "--json", cwd=folder)))
    assert told["peek"]["not_private"].startswith(NOT_PRIVATE)
    assert (told["peek"]["rows"], told["peek"]["usable"]) == (4, 1)
    assert "peek" not in json.loads(succeeds(run_here(*given[:-1], "--json", cwd=folder)))
    assert NOT_PRIVATE not in succeeds(run_here(*given[:-1], cwd=folder))
    fails(run_here("schema", "check", "schema.toml", "--peek", cwd=folder), "--data TABLE")


def test_a_draft_of_a_csv_file_has_stubs_and_with_a_peek_types(folder):
    succeeds(run_here("schema", "init", "table.csv", "-o", "draft.toml", cwd=folder))
    draft = (folder / "draft.toml").read_text(encoding="utf-8")
    assert draft.count('type = "?"') == draft.count("# low =") == draft.count("# levels =") == 3
    assert "no value was read" in draft
    shown = succeeds(
        run_here("schema", "init", "table.csv", "-o", "guess.toml", "--peek", cwd=folder)
    )
    guess = (folder / "guess.toml").read_text(encoding="utf-8")
    assert NOT_PRIVATE in shown
    assert "NOT PRIVATE" in guess
    assert "no value was read" not in guess
    typed = dp.Schema.draft(folder / "table.parquet")
    ours, theirs = (
        text.partition("[columns.a]")[2].partition("[columns.y]")[0] for text in (guess, typed)
    )
    assert ours == theirs
    assert '[columns.y]\ntype = "integer"' in guess  # NA is taken for a missing number
    told = run_here(
        "schema", "init", "table.csv", "-o", "guess.toml", "--peek", "--force", "--json", cwd=folder
    )
    assert json.loads(succeeds(told))["not_private"].startswith(NOT_PRIVATE)


def test_a_draft_of_what_a_formula_needs(tmp_path):
    table = pd.DataFrame({"y": [1.0], "a": [2.0], "my column": ["f"], "other": [3.0], "z": [0.5]})
    table.to_parquet(tmp_path / "t.parquet")
    formula = "log(y) ~ scale(a):z + C(`my column`, 'f')"
    done = run_here("schema", "init", "t.parquet", "--formula", formula, cwd=tmp_path)
    assert "no formula needs" not in succeeds(done)
    assert "--formula" in done.stdout
    text = (tmp_path / "schema.toml").read_text(encoding="utf-8")
    assert re.findall(r"^\[columns\.(.*)\]", text, re.M) == ["y", "a", "z", '"my column"']
    assert "Delete the columns" not in text
    wrong = run_here(
        "schema", "init", "t.parquet", "--formula", "y ~ oter", "--force", cwd=tmp_path
    )
    fails(wrong, "no column 'oter'", "did you mean 'other'?")
