"""How long fits take beside the slots that a desk gives them: see `python -m benchmarks.serve`.

No slot is waited for.  The slot of each question is found as a desk finds it, on made-up records; then the question
is fitted on tables that are hard in ways which the made-up ones are not, or not all at once.
"""

import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.asking.questions import AnalystQuestion
from dpinfer.errors import LowBudgetWarning, PrivacyError
from dpinfer_desk import timing
from dpinfer_desk.desk import Desk
from dpinfer_desk.store.tables import RegisteredTable

RECORDS = 1000
RESPONSE_TIMES = tuple(0.5 * k for k in range(1, 121))
"""Rungs of half a second: the real ones, from five seconds on, would forgive far more."""
SCHEMA = """
title = "Hard tables"
[columns.yes]
type = "outcome"
levels = ["no", "yes"]
[columns.cost]
type = "number"
low = 0
high = 1000
[columns.visits]
type = "integer"
low = 0
high = 50
[columns.age]
type = "integer"
low = 18
high = 100
[columns.income]
type = "number"
low = 0
high = 200
[columns.group]
type = "category"
levels = ["a", "b", "c", "d", "e"]
"""
QUESTIONS = (
    {"formula": "yes ~ age", "rho": 0.1},
    {"formula": "yes ~ age + income + group", "rho": 0.5},
    {"formula": "yes ~ age * group", "rho": 0.01},
    {"formula": "yes ~ age + income + group", "epsilon": 1.0, "penalty": 0.01},
    {"formula": "yes ~ age + income", "epsilon": 20.0, "penalty": 0.001},
    {"formula": "cost ~ age + income + group", "rho": 0.1, "loss": "linear"},
    {"formula": "visits ~ age + income", "rho": 0.1, "loss": "poisson"},
    {"formula": "yes ~ age + group", "epsilon": 1.0, "loss": "svm", "penalty": 0.01},
)


def _plain(random: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "yes": np.where(random.random(RECORDS) < 0.3, "yes", "no"),
            "cost": random.gamma(1.0, 100.0, RECORDS).clip(0, 1000),
            "visits": random.poisson(3.0, RECORDS).clip(0, 50),
            "age": random.integers(18, 101, RECORDS),
            "income": random.uniform(0, 200, RECORDS),
            "group": random.choice(list("abcde"), RECORDS),
        }
    )


def _separated(random: np.random.Generator) -> pd.DataFrame:
    frame = _plain(random)
    above = frame["age"] + frame["income"] / 4 > 85
    return frame.assign(yes=np.where(above, "yes", "no"), cost=np.where(above, 1000.0, 0.0))


def _one_apart(random: np.random.Generator) -> pd.DataFrame:
    """All alike but one record."""
    frame = _plain(random).assign(yes="no", cost=0.0, visits=0, age=18, income=0.0, group="a")
    frame.loc[0] = ["yes", 1000.0, 50, 100, 200.0, "e"]
    return frame


def _at_corners(random: np.random.Generator) -> pd.DataFrame:
    ends = {"cost": (0.0, 1000.0), "age": (18, 100), "income": (0.0, 200.0), "group": ("a", "e")}
    chosen = {name: random.choice(pair, RECORDS) for name, pair in ends.items()}
    return _plain(random).assign(**chosen)


def _twins(random: np.random.Generator) -> pd.DataFrame:
    frame = _plain(random)
    return frame.assign(income=(frame["age"] - 18) * 200 / 82, cost=frame["age"] * 10.0)


def _unusable(random: np.random.Generator) -> pd.DataFrame:
    """Cells outside of what is public, or empty, in every column."""
    frame = _plain(random)
    frame["group"] = random.choice(["a", "z", ""], RECORDS)
    frame["income"] = random.choice([np.nan, np.inf, -1e300, 1e300, 5e-324], RECORDS)
    frame["cost"] = random.choice([np.nan, 1e308, -1.0, 0.0], RECORDS)
    return frame


TABLES: dict[str, Callable[[np.random.Generator], pd.DataFrame]] = {
    "plain": _plain,
    "all yes": lambda random: _plain(random).assign(yes="yes", cost=1000.0),
    "all no": lambda random: _plain(random).assign(yes="no", cost=0.0),
    "separated": _separated,
    "one apart": _one_apart,
    "at corners": _at_corners,
    "twins": _twins,
    "constant": lambda random: _plain(random).assign(age=18, income=200.0, group="e"),
    "unusable": _unusable,
}


class _Free:
    """A ledger that books nothing: the data are made up."""

    def book(self, _: object) -> str:
        return "none"


def overruns(number: int, seconds: float, before: dict[str, Any]) -> dict[str, Any]:
    """Raw times of fits on hard tables, each next to its slot; it goes on where it stopped ``before``."""
    found = before or {"fits": 0, "overruns": 0, "errors": 0, "slots": {}, "by_table": {}}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", LowBudgetWarning)
        folder = Path(scratch)
        random = np.random.default_rng(found["fits"])
        places = {}
        for name, make in TABLES.items():
            places[name] = folder / f"{name}.parquet"
            make(random).to_parquet(places[name])
        table = _registered(folder, places["plain"])
        asked = [AnalystQuestion(**keys) for keys in QUESTIONS]
        for question in asked:
            key = question.digest()[:12]
            if key not in found["slots"]:
                found["slots"][key] = timing.choose(RESPONSE_TIMES, table, question)
        while found["fits"] < number and time.monotonic() - began < seconds:
            for name, place in places.items():
                for question in asked:
                    _timed(found, name, place, question, table)
    return {
        **found,
        "questions": [dict(keys) for keys in QUESTIONS],
        "records": RECORDS,
        "ladder": f"{RESPONSE_TIMES[0]} to {RESPONSE_TIMES[-1]} s in steps of half a second",
        "load": os.getloadavg()[0],
    }


def _registered(folder: Path, data: Path) -> RegisteredTable:
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    dp.Ledger.create(folder / "ledger.db", dp.ZCDP(1.0))
    desk = Desk.create(folder / "desk", response_times=RESPONSE_TIMES)
    return desk.add_table("hard", data, folder / "schema.toml", folder / "ledger.db")


def _timed(
    found: dict[str, Any], name: str, place: Path, question: AnalystQuestion, table: RegisteredTable
) -> None:
    model = question.model(table.schema, table.ledger().neighbours)
    model.set_params(ledger=_Free())
    start = time.monotonic()
    worked = time.process_time()
    try:
        model.fit(str(place))
    except PrivacyError:  # a minimum that was not reached: its time counts all the same
        found["errors"] += 1
    part = (time.monotonic() - start) / found["slots"][question.digest()[:12]]
    share = (time.process_time() - worked) / found["slots"][question.digest()[:12]]
    found["fits"] += 1
    found["overruns"] += part > 1
    most = found["by_table"].setdefault(
        name, {"fits": 0, "of_slot": 0.0, "of_slot_by_processor": 0.0}
    )
    most["fits"] += 1
    most["of_slot"] = round(max(most["of_slot"], part), 4)
    most["of_slot_by_processor"] = round(max(most["of_slot_by_processor"], share), 4)
