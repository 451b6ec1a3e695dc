"""Desks with a panel: a few rows of each of 60 persons, and the rows of one more, which an attacker chooses."""

import pyarrow as pa

import dpinfer as dp
from dpinfer.privacy.ledger import Ledger
from dpinfer.simulate.practice import practice
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.tables import Policy

SCHEMA = """
title = "Persons over the years"
[unit]
name = "one person"
column = "person"
rows = "average"
[columns.age]
type = "number"
low = 18
high = 90
[columns.place]
type = "category"
levels = ["north", "south"]
[columns.ill]
type = "outcome"
levels = ["no", "yes"]
"""
PERSONS = 60
ROWS = 4
MAX_UNIT_ROWS = 40
FORMULA = "ill ~ age + place"


def panel(of_last=ROWS, place=None, person="last"):
    """Some rows of each of 60 persons, whose ids are texts; the last one is chosen by an attacker."""
    schema = dp.Schema.parse(SCHEMA)
    frame = practice(schema, PERSONS * ROWS + of_last)
    ids = [f"p{k % PERSONS}" for k in range(PERSONS * ROWS)] + [person] * of_last
    frame["person"] = ids
    if place is not None:
        frame.loc[frame["person"] == person, "place"] = place
    return frame


def written(frame, path):
    if path.name.endswith((".csv", ".csv.gz")):
        frame.to_csv(path, index=False)
    elif path.suffix == ".arrow":
        pa_table = pa.Table.from_pandas(frame, preserve_index=False)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa_table.schema) as writer:
            writer.write_table(pa_table)
    else:
        frame.to_parquet(path)
    return path


def empty_desk(folder, neighbours="replace-unit", response_times=(600.0,)):
    folder.mkdir(exist_ok=True)
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    Ledger.create(folder / "ledger.db", dp.ZCDP(10.0), unit="one person", neighbours=neighbours)
    return Desk.create(folder / "desk", response_times=response_times, who="steward")


def register(desk, folder, frame, ending=".parquet", **sizes):
    path = written(frame, folder / f"table{ending}")
    files = (path, folder / "schema.toml", folder / "ledger.db")
    sizes = sizes or {"max_unit_rows": MAX_UNIT_ROWS}
    return desk.add_table("panel", *files, Policy("none"), **sizes)
