"""Persons with several rows on the command line: no number of rows on any screen, in any file."""

import json

import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from helpers.people import AVERAGE, COLUMNS, PERSONS, ROWS, UNIT, WEIGHTS, table, tells
from helpers.terminal import fails, run_here, succeeds

FIT = ["fit", "table.csv", "--schema", "schema.toml", "--formula", "y ~ a + b", "--rho", "0.5"]


@pytest.fixture
def folder(tmp_path):
    table().to_csv(tmp_path / "table.csv", index=False)
    table().to_parquet(tmp_path / "table.parquet")
    (tmp_path / "schema.toml").write_text(AVERAGE + COLUMNS, encoding="utf-8")
    return tmp_path


def ledger(folder, *options):
    return succeeds(
        run_here(
            "budget", "init", "l.db", "--rho", "2", "--schema", "schema.toml", *options, cwd=folder
        )
    )


def everything(folder, name):
    """All that a fit has written, as text."""
    return "\n".join(
        (folder / name / file).read_text(encoding="utf-8")
        for file in ("result.json", "coefficients.csv", "report.html")
    )


@pytest.mark.parametrize("rows", ['rows = "average"', 'rows = "every"', f"units = {PERSONS}"])
def test_nothing_tells_the_number_of_rows(folder, rows):
    (folder / "schema.toml").write_text(UNIT + rows + "\n" + COLUMNS, encoding="utf-8")
    shown = [ledger(folder)]
    for options in (
        ["--dry-run"],
        ["--dry-run", "--json"],
        ["--out", "one"],
        ["--out", "two", "--json"],
    ):
        shown.append(succeeds(run_here(*FIT, "--ledger", "l.db", *options, cwd=folder)))
        assert tells(shown[-1], PERSONS)
    shown += [
        succeeds(run_here("budget", "show", "l.db", *options, cwd=folder))
        for options in ([], ["--json"])
    ]
    shown += [everything(folder, name) for name in ("one", "two")]
    assert not any(tells(text, ROWS) for text in shown)
    assert "3,001 units, one person each" in shown[1]
    assert ("and the ids, to count the units" in shown[1]) == ("units" not in rows)
    for text in (shown[2], shown[4]):
        told = json.loads(text)
        assert (told["records"], told["units"]) == (None, PERSONS)
    assert (
        "all rows of one unit replaced, number of units public, number of rows private"
        in " ".join(shown[5].split())
    )


def test_a_private_number_of_units(folder):
    ledger(folder, "--neighbours", "add-remove")
    assert dp.Ledger.open(folder / "l.db").neighbours is Adjacency.ADD_REMOVE_UNIT
    given = [*FIT, "--neighbours", "add-remove", "--ledger", "l.db"]
    shown = succeeds(run_here(*given, "--dry-run", cwd=folder))
    assert "table.csv, number of units and of rows private" in " ".join(shown.split())
    told = succeeds(run_here(*given, "--dry-run", "--json", cwd=folder))
    assert (json.loads(told)["records"], json.loads(told)["units"]) == (None, None)
    for text in (shown, told):
        assert not tells(text, ROWS)
        assert not tells(text, PERSONS)
    fitted = succeeds(run_here(*given, "--out", "out", "--json", cwd=folder))
    assert not tells(fitted, ROWS)
    # the number that is released is noisy, and may be the true one
    assert (json.loads(fitted)["records"], json.loads(fitted)["units"]) == (None, None)
    assert not tells(everything(folder, "out"), ROWS)


def test_a_dry_run_depends_on_the_number_of_units_alone(folder):
    """Other values, other rows a person, another number of rows: the same lines."""
    first = succeeds(run_here(*FIT, "--dry-run", cwd=folder))
    table(5000, PERSONS, seed=3).to_csv(folder / "table.csv", index=False)
    assert succeeds(run_here(*FIT, "--dry-run", cwd=folder)) == first
    table(5000, 2000, seed=3).to_csv(folder / "table.csv", index=False)
    assert succeeds(run_here(*FIT, "--dry-run", cwd=folder)) != first


def test_a_ledger_for_rows_refuses_units_and_the_other_way_round(folder):
    options = ["--rho", "2", "--unit", "one person"]
    succeeds(run_here("budget", "init", "rows.db", *options, cwd=folder))
    fails(
        run_here(*FIT, "--ledger", "rows.db", "--out", "o", cwd=folder),
        "one row",
        "all rows of a unit",
        code=3,
    )
    succeeds(
        run_here("budget", "init", "l.db", *options, "--neighbours", "replace-unit", cwd=folder)
    )
    (folder / "schema.toml").write_text('unit = "one person"\n' + COLUMNS, encoding="utf-8")
    fails(
        run_here(*FIT, "--ledger", "l.db", "--out", "o", cwd=folder),
        "one row",
        "all rows of a unit",
        code=3,
    )
    assert not (folder / "o" / "result.json").exists()


def test_neighbours_of_a_fit_without_ids(folder):
    (folder / "schema.toml").write_text(COLUMNS, encoding="utf-8")
    fails(run_here(*FIT, "--neighbours", "replace-unit", "--out", "o", cwd=folder), "need ids")


@pytest.mark.parametrize("file", ["table.csv", "table.parquet"])
def test_a_schema_is_checked_with_its_ids_and_weights(folder, file):
    shown = succeeds(run_here("schema", "check", "schema.toml", "--data", file, cwd=folder))
    for words in (
        "one person",
        "all with the same person are protected together",
        "every unit counts alike",
        "id",
    ):
        assert words in " ".join(shown.split())
    (folder / "schema.toml").write_text(UNIT + "units = 5\n" + WEIGHTS + COLUMNS, encoding="utf-8")
    shown = succeeds(
        run_here("schema", "check", "schema.toml", "--data", file, "--formula", "y ~ a", cwd=folder)
    )
    for words in ("by w, trimmed at 6 a unit", "row not used", "believed"):
        assert words in " ".join(shown.split())
    told = json.loads(
        succeeds(run_here("schema", "check", "schema.toml", "--data", file, "--json", cwd=folder))
    )
    assert (told["unit"], told["ids"], told["rows"], told["units"]) == (
        "one person",
        "person",
        None,
        5,
    )
    assert (told["weights"], told["most_weight"]) == ("w", 6.0)
    assert [column["type"] for column in told["columns"]][-2:] == ["id", "weight"]
    (folder / "schema.toml").write_text(
        AVERAGE.replace('"person"', '"nobody"') + COLUMNS, encoding="utf-8"
    )
    failed = run_here("schema", "check", "schema.toml", "--data", file, "--quiet", cwd=folder)
    fails(failed, "no column 'nobody'")


def test_weights_on_the_command_line(folder):
    (folder / "schema.toml").write_text(UNIT + WEIGHTS + COLUMNS, encoding="utf-8")
    shown = succeeds(run_here(*FIT, "--out", "o", cwd=folder))
    assert "sampling weights" in " ".join(shown.split())
    assert not tells(shown + everything(folder, "o"), ROWS)
