"""Fits of made-up tables are timed for the public sizes of a table: as many rows, a unit as large, texts as long."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.rows import id_buckets, workers
from dpinfer.tables import arrow_files, csv_files
from dpinfer_desk import timing
from dpinfer_desk.store import tables
from helpers.desks import desk_in, question
from helpers.panels import FORMULA, empty_desk, panel, register

ASKED = question(FORMULA, rho=0.5)


def made_up(table, made, folder):
    """The files that are timed, as bytes or as tables."""
    model = ASKED.model(table.schema, table.ledger().neighbours)
    for path in timing._files(table, model, made, folder):
        read = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
        yield path.read_bytes(), read


def frames(table, made, folder):
    model = ASKED.model(table.schema, table.ledger().neighbours)
    return [pd.read_parquet(path) for path in timing._files(table, model, made, folder)]


def clock(monkeypatch):
    """Each fit takes a second."""
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=itertools.count().__next__))


def test_guarantee_times_are_public(tmp_path):
    """What is timed is the same, byte for byte, for neighbours; and the files of the table may be gone."""
    timed = []
    for name, side in (("one", panel(of_last=1)), ("many", panel(of_last=40, place="y" * 4096))):
        desk = empty_desk(tmp_path / name)
        table = register(desk, tmp_path / name, side)
        (tmp_path / name / "table.parquet").unlink()
        timed.append([content for content, _ in made_up(table, 200, tmp_path)])
        assert timing.longest_fit(table, ASKED) > 0
    assert timed[0] == timed[1]
    assert len(timed[0]) == 5


def test_as_many_rows_are_timed_as_the_table_may_have(tmp_path, monkeypatch):
    """A panel of 61 persons with at most 40 rows each is no table of 61 rows."""
    desk = empty_desk(tmp_path)
    table = register(desk, tmp_path, panel())
    monkeypatch.setattr(timing, "_MAX_MADE_UP", 244)
    clock(monkeypatch)
    assert timing.longest_fit(table, ASKED) == pytest.approx(61 * 40 / 244)
    fewer = replace(table, max_rows=488).sealed()
    assert timing.longest_fit(fewer, ASKED) == 2.0
    assert timing.choose((5.0, 15.0, 60.0), fewer, ASKED) == 15.0  # 3 (2 + .5) = 7.5
    assert timing.choose((5.0, 15.0, 60.0), table, ASKED) == 60.0  # 3 (10 + .5) = 31.5


def test_the_largest_unit_is_as_large_as_it_may_be(tmp_path):
    """One person has its share of the rows, all over the table; in the last table its texts are as long as any."""
    desk = empty_desk(tmp_path)
    table = register(desk, tmp_path, panel(), max_unit_rows=40, max_rows=610)
    found = frames(table, 305, tmp_path)
    for frame in found[:-1]:
        sizes = frame["person"].value_counts()
        assert len(frame) == 305
        assert 28 <= len(sizes) <= 30
        assert 20 <= sizes.iloc[0] <= 40
        assert sizes.iloc[1] <= 12
        assert frame["place"].isin(["north", "south"]).all()
    lengths = found[-1]["place"].map(lambda text: len(text.encode()))
    long = lengths > 100
    assert long.sum() == 20
    assert lengths[long].between(0.99 * tables.MAX_CELL, tables.MAX_CELL).all()
    assert found[-1]["place"][long].nunique() == 20
    assert found[-1]["person"][long].nunique() == 1
    assert len(found[-1]["person"][long].iloc[0].encode()) > 0.99 * tables.MAX_CELL
    alone = replace(table, max_unit_rows=1, max_rows=61).sealed()
    assert len(frames(alone, 61, tmp_path)) == 4


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_lines_of_csv_files_are_as_slow_as_any(tmp_path, ending):
    desk = empty_desk(tmp_path)
    table = register(desk, tmp_path, panel(), ending)
    model = ASKED.model(table.schema, table.ledger().neighbours)
    for path in timing._files(table, model, 610, tmp_path):
        assert path.name == f"made-up{ending}"
        assert csv_files.count(path) == 610
    longest = csv_files.longest_record(path)
    assert 0.99 * tables.MAX_RECORD < longest <= tables.MAX_RECORD
    rows = pd.concat(
        piece.to_pandas() for piece in csv_files.tables(path, table.schema.unit.columns)
    )
    assert rows["person"].isna().sum() == 10  # 40 of 2440


def test_a_folder_is_timed_as_its_files_are(tmp_path):
    (tmp_path / "wave=1").mkdir()
    for name, found in [("a.csv", ".csv"), ("b.csv.gz", ".csv.gz")]:
        (tmp_path / "wave=1" / name).touch()
        assert timing._kind(tmp_path) == (True, found)
        (tmp_path / "wave=1" / name).unlink()
    assert timing._kind(tmp_path) == (False, ".parquet")
    assert timing._kind(tmp_path / "*.csv") == (True, ".csv")
    assert timing._kind(Path("gone.CSV.GZ")) == (True, ".csv.gz")


def test_a_part_is_read_as_the_whole_is(tmp_path, monkeypatch):
    """The made-up rows get their share of the memory: they are sorted into as many parts as all would be."""
    desk = empty_desk(tmp_path)
    table = replace(register(desk, tmp_path, panel()), max_rows=24_400).sealed()
    numbers = []
    real = arrow_files.number_of_parts

    def parts(rows, width, memory):
        numbers.append((rows, width, memory, real(rows, width, memory)))
        return numbers[-1][-1]

    monkeypatch.setattr(arrow_files, "number_of_parts", parts)
    monkeypatch.setattr(timing, "_MAX_MADE_UP", 244)
    monkeypatch.setenv("DPINFER_MEMORY", "1")
    timing.longest_fit(table, ASKED)
    assert {rows for rows, *_ in numbers} == {244}
    width = numbers[0][1]
    assert {number for *_, number in numbers} == {id_buckets.number_of_parts(24_400, width, 1e6)}
    assert numbers[0][-1] > 1
    assert workers.memory() == 1e6


def test_a_table_that_cannot_be_answered_in_time_is_not_registered(tmp_path, monkeypatch):
    """It depends on the declared number of rows alone, and comes before anything can be paid."""
    desk = empty_desk(tmp_path, response_times=(5.0, 15.0))
    monkeypatch.setattr(timing, "_MAX_MADE_UP", 244)
    clock(monkeypatch)
    sizes = {"max_unit_rows": 40, "max_rows": 10_000}
    for side in (panel(of_last=1), panel(of_last=40)):
        with pytest.raises(
            dp.InputError, match="a fit of 10,000 rows may take longer than"
        ) as told:
            register(desk, tmp_path, side, **sizes)
        assert "15 s" in str(told.value)
    assert desk.tables() == []
    register(desk, tmp_path, panel(), max_unit_rows=40, max_rows=1000)
    with pytest.raises(dp.InputError, match="a fit of 10,000 rows"):
        desk.resume("panel", "a larger table", max_rows=10_000)
    assert desk.table("panel").max_rows == 1000
    single = empty_desk(tmp_path / "single", response_times=(5.0,))
    assert register(single, tmp_path / "single", panel(), **sizes)  # nothing is timed


@pytest.mark.parametrize(
    ("columns", "formula"),
    [
        ('[columns.y]\ntype = "outcome"\nlevels = ["a", "b"]', "y ~ x"),
        ('[columns.c]\ntype = "category"\nlevels = ["a b", "c"]', "c == 'a b' ~ x"),
        ('[columns.c]\ntype = "category"\nlevels = [1, 2]', "c == 1 ~ x"),
        ('[columns.n]\ntype = "integer"\nlow = 0\nhigh = 9', "n > 4.5 ~ x"),
        ('[columns.d]\ntype = "date"\nlow = 2020-01-01\nhigh = 2020-12-31', "x > 0.5 ~ d"),
    ],
)
def test_the_simplest_question(tmp_path, columns, formula):
    """Any schema with two columns permits a question that can be timed."""
    table = desk_in(tmp_path).table("visits")
    number = '[columns.x]\ntype = "number"\nlow = 0\nhigh = 1\n'
    text = f'title = "t"\n{columns}\n{number}'
    found = timing._simplest_question(replace(table, schema_text=text).sealed())
    assert (found.formula, found.rho) == (formula, 1000.0)
    alone = replace(table, schema_text=f'title = "t"\n{number}').sealed()
    assert timing._simplest_question(alone) is None
    timing.require_answerable((1e-9, 2e-9), alone)
