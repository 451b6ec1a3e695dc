"""What one person's rows can decide at a desk: of two neighbours neither the state of a question, nor its cost.

The larger neighbour either keeps the public sizes, and is answered as the other one, or is refused where the
steward alone sees it.
"""

import gzip
import io
import os
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpinfer as dp
from dpinfer.privacy.ledger import Ledger
from dpinfer.tables import csv_files
from dpinfer.tables.arrow_files import Files
from dpinfer_desk.admission import require_memory
from dpinfer_desk.desk import Desk
from dpinfer_desk.store import tables
from dpinfer_desk.store.tables import Policy
from helpers.desks import desk_in, hasten, later, question, work
from helpers.panels import (
    FORMULA,
    MAX_UNIT_ROWS,
    PERSONS,
    ROWS,
    empty_desk,
    panel,
    register,
    written,
)
from helpers.terminal import SECRET, files_in


def asked(desk):
    desk.add_person("meier")
    desk.allow("panel", "meier", 5.0)
    return desk.ask("panel", question(FORMULA, rho=0.5), "meier", anyway=True)


def outcome(folder, frame, ending=".parquet"):
    """What an analyst sees of a question: its state, its reason, its cost, its response time."""
    desk = empty_desk(folder)
    register(desk, folder, frame, ending)
    ticket = asked(desk)
    work(hasten(desk))
    done = later(desk).ticket(ticket.id)
    spent = later(desk).analyst("panel", "meier").spent
    return done.state, done.reason, done.cost, spent, done.response_time


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".arrow"])
def test_neighbours_have_one_outcome(tmp_path, ending):
    """One row or as many as a person may have; an id or a cell of one letter, or of 4,096 bytes."""
    sides = [
        panel(of_last=1),
        panel(of_last=MAX_UNIT_ROWS),
        panel(person="x" * tables.MAX_CELL),
        panel(place="y"),
        panel(place="é" * (tables.MAX_CELL // 2)),
    ]
    seen = {outcome(tmp_path / str(k), side, ending) for k, side in enumerate(sides)}
    assert seen == {("answered", "", 0.5, 0.5, 600.0)}


def test_guarantee_nothing_counted_before_booking(tmp_path, monkeypatch):
    """No row and no id is read until the ledger has an entry, with ids and without, counted or not."""
    desk = empty_desk(tmp_path)
    register(desk, tmp_path, panel(), ".csv")
    ledger = tmp_path / "ledger.db"
    read = []

    def spied(name):
        real = getattr(Files, name)

        def spy(*arguments, **keywords):
            (tmp_path / f"{name} {len(Ledger.open(ledger).entries())} {os.getpid()}").touch()
            return real(*arguments, **keywords)

        monkeypatch.setattr(Files, name, spy)
        read.append(name)

    for name in ("count", "count_units", "unit_sizes", "read", "tables"):
        spied(name)
    ticket = asked(desk)
    work(hasten(desk))
    assert later(desk).ticket(ticket.id).state == "answered"
    found = [path.name.split()[:2] for name in read for path in tmp_path.glob(f"{name} *")]
    assert ["read", "1"] in found
    assert all(entries == "1" for _, entries in found)


@pytest.mark.parametrize("neighbours", ["add-remove", "add-remove-unit"])
def test_a_private_number_is_not_counted_either(tmp_path, neighbours):
    """A fit whose number of records or units is private is booked and answered without it."""
    if neighbours == "add-remove":
        files_in(tmp_path)
        Ledger.create(tmp_path / "ledger.db", dp.ZCDP(10.0), neighbours=neighbours)
        desk = Desk.create(tmp_path / "desk", response_times=(600.0,))
        files = [tmp_path / name for name in ("table.csv", "schema.toml", "ledger.db")]
        desk.add_table("panel", *files, Policy("none"), max_rows=10_000)
        formula = "y ~ a + b"
    else:
        desk = empty_desk(tmp_path, neighbours)
        register(desk, tmp_path, panel(), max_rows=10_000, max_unit_rows=MAX_UNIT_ROWS)
        formula = FORMULA
    assert desk.table("panel").records is None
    desk.add_person("meier")
    desk.allow("panel", "meier", 10.0)
    ticket = desk.ask("panel", question(formula, rho=0.5), "meier", anyway=True)
    work(hasten(desk))
    assert later(desk).ticket(ticket.id).state == "answered"


def test_names_are_read_without_the_records(monkeypatch, tmp_path):
    """However long the records are, their bytes are not read for the names of the columns."""
    positions = []

    class Spied(io.BytesIO):
        def close(self):
            positions.append(self.tell())
            super().close()

    monkeypatch.setattr(csv_files, "_bytes", lambda _: Spied(b"a,b\n" + b"1," * 10**7))
    assert csv_files.column_names(tmp_path / "x.csv") == ["a", "b"]
    assert positions == [4]


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".csv.gz", ".arrow"])
def test_guarantee_sizes_are_public(tmp_path, ending):
    """A table whose files exceed a public number is refused; the error has that number, nothing of the data, and
    nothing of it is left at the desk.
    """
    desk = empty_desk(tmp_path)
    events = len(desk.journal())
    long = str(SECRET).ljust(tables.MAX_CELL + 1, "x")
    refused = {
        "text of more than 4,096": [panel(person=long), panel(place=long)],
        "a unit has more than 40 rows": [panel(of_last=MAX_UNIT_ROWS + 1)],
    }
    for words, frames in refused.items():
        for frame in frames:
            with pytest.raises(dp.InputError, match=words) as told:
                register(desk, tmp_path, frame, ending)
            assert str(SECRET) not in str(told.value)
            assert str(len(frame)) not in str(told.value)
    with pytest.raises(dp.InputError, match="the table has more than 243 rows"):
        register(desk, tmp_path, panel(), ending, max_rows=243, max_unit_rows=MAX_UNIT_ROWS)
    assert desk.tables() == []
    assert len(desk.journal()) == events
    assert Ledger.open(tmp_path / "ledger.db").entries() == ()
    table = register(desk, tmp_path, panel(), ending)
    assert (table.records, table.max_rows, table.max_unit_rows) == (61, 61 * 40, 40)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_a_line_has_a_ceiling_too(tmp_path, ending):
    """Every line of a CSV file is read in full, also cells that the schema does not name."""
    desk = empty_desk(tmp_path)
    frame = panel()
    frame["notes"] = "n"
    head = frame.to_csv(index=False).splitlines()[1]
    longest = tables.MAX_RECORD - len(head) + 1
    frame.loc[0, "notes"] = "n" * (longest + 1)
    with pytest.raises(dp.InputError, match="a line of the CSV file has more than 16,384"):
        register(desk, tmp_path, frame, ending)
    frame.loc[0, "notes"] = "n" * longest
    assert register(desk, tmp_path, frame, ending)


def test_the_longest_record_is_found_wherever_blocks_end(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK", 7)
    for lines in (["a,b", "1,2"], ["a", "x" * 30, "1"], ["a", "", "12345678901234"], ["abc"]):
        for end in ("", "\n"):
            path = tmp_path / "x.csv.gz"
            path.write_bytes(gzip.compress(("\n".join(lines) + end).encode()))
            assert csv_files.longest_record(path) == max(map(len, lines))


def test_a_stream_is_not_registered(tmp_path):
    """Of an Arrow stream all columns are read, whatever a question asks for."""
    desk = empty_desk(tmp_path)
    stream = tmp_path / "stream.arrow"
    read = pa.Table.from_pandas(panel(), preserve_index=False)
    with pa.OSFile(str(stream), "wb") as file, pa.ipc.new_stream(file, read.schema) as writer:
        writer.write_table(read)
    files = (stream, tmp_path / "schema.toml", tmp_path / "ledger.db")
    with pytest.raises(dp.InputError, match="is an Arrow stream"):
        desk.add_table("panel", *files, max_unit_rows=MAX_UNIT_ROWS)


def test_sizes_are_declared_where_they_are_private(tmp_path):
    desk = empty_desk(tmp_path)
    for sizes, words in [
        ({"records": 5}, "several rows: declare how many"),
        ({"max_unit_rows": 0}, "max_unit_rows is a number of rows of at least 1"),
        ({"max_unit_rows": 40, "max_rows": -1}, "max_rows is a number of rows of at least 1"),
        ({"max_unit_rows": 10**8}, "more than the 268,435,456 that noise is sized for"),
        ({"max_unit_rows": 10**6}, "could take more memory than a fit has"),
    ]:
        with pytest.raises(dp.InputError, match=words):
            register(desk, tmp_path, panel(), **sizes)
    private = empty_desk(tmp_path / "private", "add-remove-unit")
    with pytest.raises(dp.InputError, match="number of units is private: declare how many rows"):
        register(private, tmp_path / "private", panel())
    plain = desk_in(tmp_path / "plain") if (tmp_path / "plain").mkdir() is None else None
    files = [tmp_path / "plain" / name for name in ("table.csv", "schema.toml", "ledger.db")]
    with pytest.raises(dp.InputError, match="number of rows is public here"):
        plain.add_table("two", *files, max_rows=1000)
    with pytest.raises(dp.InputError, match="goes with a column of ids"):
        plain.add_table("two", *files, max_unit_rows=1000)


def test_what_does_not_fit_the_memory_is_refused_by_public_facts(tmp_path):
    """The rows that one person may have, with the longest texts: before anything is booked, for any data."""
    desk = empty_desk(tmp_path)
    desk.folder.write(replace(desk.settings, memory=2))
    register(desk, tmp_path, panel())
    with pytest.raises(dp.InputError, match="name fewer columns, or have the steward lower"):
        asked(desk)
    desk.folder.write(replace(desk.settings, memory=200))
    assert desk.ask("panel", question(FORMULA, rho=0.5), "meier", anyway=True)
    require_memory(1, 10**9, 10**9, 1)  # one row is always small


def test_changed_files_are_paused_alike_and_have_to_keep_the_sizes(tmp_path):
    """A new row pauses the table, whatever is in it; it is resumed when the steward has cut what is too long."""
    seen = []
    for name, place in (("short", "y"), ("long", "y" * (tables.MAX_CELL + 1))):
        desk = empty_desk(tmp_path / name)
        register(desk, tmp_path / name, panel())
        ticket = asked(desk)
        written(panel(place=place), tmp_path / name / "table.parquet")
        work(hasten(desk))
        done = desk.ticket(ticket.id)
        table = desk.table("panel")
        seen.append((done.state, done.reason, table.state, table.reason, table.changed()))
        if name == "long":
            with pytest.raises(dp.InputError, match="text of more than 4,096 bytes"):
                desk.resume("panel", "a new wave")
            assert desk.table("panel") == table
            written(panel(place=place[:10]), tmp_path / name / "table.parquet")
        desk.resume("panel", "a new wave")
        again = desk.ask("panel", question(FORMULA, rho=0.5), "meier", anyway=True)
        work(hasten(desk))
        seen.append((later(desk).ticket(again.id).state, desk.table("panel").state))
    assert seen[:2] == seen[2:]
    assert seen[1] == ("answered", "open")


def test_sizes_are_declared_anew_when_a_table_is_resumed(tmp_path):
    """Units that are new are counted; a bound that was declared stays until another one is given, and response times
    are chosen anew.
    """
    desk = empty_desk(tmp_path)
    register(desk, tmp_path, panel())
    digest = question(FORMULA, rho=0.5).digest()
    desk.register.set_response_time("panel", digest, 600.0)
    desk.pause("panel", "a look")
    assert desk.resume("panel", "nothing new").max_rows == 61 * 40
    assert desk.register.response_time("panel", digest) == 600.0
    written(panel(of_last=MAX_UNIT_ROWS + 1), tmp_path / "table.parquet")
    with pytest.raises(dp.InputError, match="a unit has more than 40 rows"):
        desk.resume("panel", "a new wave")
    found = desk.resume("panel", "a new wave", max_unit_rows=50)
    assert (found.max_rows, found.max_unit_rows) == (61 * 50, 50)
    assert found.is_sealed()
    assert desk.register.response_time("panel", digest) is None
    found = desk.resume("panel", "fewer in all", max_rows=500)
    assert (found.max_rows, found.max_unit_rows) == (500, 50)
    more = pd.concat([panel(), panel(person="new").tail(ROWS)])
    written(more, tmp_path / "table.parquet")
    found = desk.resume("panel", "a new person")
    assert (found.records, found.max_rows) == (62, 500)


def test_a_table_of_an_older_version_waits_for_the_steward(tmp_path):
    """Its sizes were never checked: it is shown, nothing is booked, and the steward resumes it."""
    desk = empty_desk(tmp_path)
    register(desk, tmp_path, panel())
    table = desk.table("panel")
    old = replace(table, max_rows=None, max_unit_rows=None).sealed()
    with sqlite3.connect(desk.folder.database) as sql:
        sql.execute("UPDATE tables SET seal = ?", (old.seal,))
        sql.execute("ALTER TABLE tables DROP COLUMN max_rows")
        sql.execute("ALTER TABLE tables DROP COLUMN max_unit_rows")
    desk = Desk.open(desk.folder.path)
    assert desk.table("panel").is_sealed()
    assert desk.table("panel").changed() == tables.UNCHECKED
    ticket = asked(desk)
    work(hasten(desk))
    assert desk.ticket(ticket.id).state == "refused"
    assert desk.table("panel").state == "paused"
    with pytest.raises(dp.InputError, match="declare how many it has at most"):
        desk.resume("panel", "sizes are checked now")
    desk.resume("panel", "sizes are checked now", max_unit_rows=MAX_UNIT_ROWS)
    again = desk.ask("panel", question(FORMULA, rho=0.5), "meier", anyway=True)
    work(hasten(desk))
    assert later(desk).ticket(again.id).state == "answered"


def test_sizes_are_sealed(tmp_path):
    """Who can write into desk.db alone can declare no others, and not take them away."""
    desk = empty_desk(tmp_path)
    table = register(desk, tmp_path, panel())
    for forged in ({"max_rows": 1}, {"max_unit_rows": 1}, {"max_rows": None}):
        assert not replace(table, **forged).is_sealed()


def test_units_are_sized_in_parts_and_in_memory_alike(tmp_path, monkeypatch):
    path = written(panel(of_last=17), tmp_path / "table.parquet")
    in_memory = Files(path).unit_sizes("person")
    monkeypatch.setenv("DPINFER_MEMORY", "0")
    in_parts = Files(path).unit_sizes("person")
    assert len(in_memory) == len(in_parts) == Files(path).count_units("person") == PERSONS + 1
    assert sorted(in_memory) == sorted(in_parts) == [ROWS] * PERSONS + [17]
    frame = panel()
    frame["person"] = None
    nobody = written(frame.astype({"person": "string"}), tmp_path / "nobody.parquet")
    assert np.sum(Files(nobody).unit_sizes("person")) == 0
