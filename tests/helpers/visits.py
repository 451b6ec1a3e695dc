"""Small desks for tests of the page: made-up visits to a doctor, with everything that a steward does."""

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.tables import Policy

SCHEMA = """
title = "Visits to a doctor, 2024"
unit = "one person"
[columns.visit]
type = "outcome"
levels = ["no", "yes"]
[columns.age]
type = "integer"
low = 18
high = 100
unit = "years"
description = "age in years"
source = "a survey of adults"
typical = { mean = 47, sd = 18 }
[columns.income]
type = "number"
low = 0
high = 200
[columns.health]
type = "category"
levels = ["good", "fair", "poor"]
"""
RECORDS = 4000
SLOT = 8.0
"""Seconds from booking to answer: twenty times what a fit takes, as machines are busy."""


def visits(seed=0):
    random = np.random.default_rng(seed)
    age = random.integers(18, 101, RECORDS)
    yes = random.random(RECORDS) < 0.2 + 0.006 * (age - 18)
    return pd.DataFrame(
        {
            "visit": np.where(yes, "yes", "no"),
            "age": age,
            "income": random.uniform(0, 200, RECORDS).round(1),
            "health": random.choice(["good", "fair", "poor"], RECORDS),
        }
    )


def made(folder, policy=None, total=None):
    """A desk with one table and two analysts, in a folder; its path."""
    visits().to_parquet(folder / "visits.parquet")
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    dp.Ledger.create(folder / "ledger.db", total or dp.ZCDP(2.0), unit="one person")
    desk = Desk.create(folder / "desk", "Health statistics", (SLOT,), who="steward")
    files = [folder / name for name in ("visits.parquet", "schema.toml", "ledger.db")]
    desk.add_table("visits", *files, policy or Policy("above", 0.2))
    for name in ("a.meier", "b.okafor"):
        desk.add_person(name, "of the university")
        desk.allow("visits", name, 0.8)
    return folder / "desk"


def question(formula="visit ~ age", rho=0.1, **keys):
    return AnalystQuestion.of({"formula": formula, "rho": rho, **keys})


def published(desk, columns="visit + age + income + health", rho=0.05):
    """A moment release of the one table, booked in its ledger and published; its id."""
    table = desk.table("visits")
    release = dp.release_moments(
        table.data_path, table.schema, columns, dp.ZCDP(rho), ledger=table.ledger()
    )
    file = desk.folder.path.parent / f"{release.privacy.release}.moments"
    release.save(file)
    return desk.publish_moments("visits", file).privacy.release
