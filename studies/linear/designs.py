"""The designs of the study: tables with public bounds of columns and outcome, encoded by the
package itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Category, Number
from dpinfer.schema.terms import ModelTerms, Response, of_column
from dpinfer.tables.table import read
from studies.asked import Data
from studies.geometry.designs import factor, synthetic_rows, widened

TUNING = ("rand_log", "rand_mdvis", "adult_s", "adult_f", "acs_log", "acs_inc")
HELD_OUT = ("bank_age", "br_hours", "bank_bal")
REAL = (*TUNING, *HELD_OUT)
WIDE = {"acs_log_wide": "acs_log", "adult_s_lin_wide": "adult_s"}
"""Bounds of numbers and outcome ten times too wide: each with the design it is made of."""
SYNTHETIC = (
    "syn_100k_20_corr_het", "syn_20k_10_corr_highr2", "syn_20k_10_corr_mis", "syn_20k_10_corr_skew",
    "syn_20k_10_heavy_het", "syn_20k_10_rare_hetskew", "syn_5k_5_corr_t3",
)  # fmt: skip
DESIGNS = (*REAL, *WIDE)
"""Those of the page; the synthetic ones are run when they are asked for."""


@dataclass(frozen=True, eq=False)
class Question:
    """A table with a column ``outcome``, its range, the ranges of numbers, and the names of
    factors.
    """

    table: pd.DataFrame
    outcome: tuple[float, float]
    numbers: Mapping[str, tuple[float, float]]
    factors: tuple[str, ...]

    def terms(self) -> list[Number | Category]:
        """All columns, numbers first; the most common level of a factor is its reference."""
        numbers = [Number(name, *limits) for name, limits in self.numbers.items()]
        return [*numbers, *(factor(self.table, name) for name in self.factors)]

    def wide(self) -> "Question":
        """The same with bounds of numbers and outcome ten times as wide."""
        numbers = {name: widened(limits) for name, limits in self.numbers.items()}
        return replace(self, outcome=widened(self.outcome), numbers=numbers)


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> Data:
    """A design by its name, from the folder of the data files; its labels are outcomes scaled to
    [-1, 1].
    """
    asked = _question(WIDE.get(name, name), folder)
    if name in WIDE:
        asked = asked.wide()
    response = Response(of_column(Number("outcome", *asked.outcome)))
    design, pending = read(asked.table, response, ModelTerms.plain(asked.terms()), "residual")
    block = pending.rows().block
    return Data(block.rows, block.labels, design)


def _question(name: str, folder: Path) -> Question:
    if name.startswith("syn_"):
        return _synthetic(name)
    return _READERS[name.partition("_")[0]](name, folder)


def _rand(name: str, _: Path) -> Question:
    table = dp.datasets.rand_hie().table
    logs = name == "rand_log"
    table["outcome"] = np.log1p(table["mdvis"]) if logs else table["mdvis"].astype(float)
    numbers = {
        "lncoins": (0.0, 4.61513), "lpi": (0.0, 7.32), "fmde": (0.0, 8.2941), "physlm": (0.0, 1.0),
        "disea": (0.0, 60.0),
    }  # fmt: skip
    return Question(table, (0.0, float(np.log(101)) if logs else 100.0), numbers, ("idp", "health"))


def _adult(name: str, folder: Path) -> Question:
    table = pd.read_parquet(folder / "adult_train_complete.parquet")
    table["outcome"] = table["hours-per-week"].astype(float)
    numbers = {"age": (17.0, 90.0), "education-num": (1.0, 16.0)}
    factors = ("race", "sex", "income")
    if name == "adult_f":
        numbers |= {"capital-gain": (0.0, 99999.0), "capital-loss": (0.0, 4356.0)}
        return Question(
            table,
            (1.0, 99.0),
            numbers,
            ("workclass", "marital-status", "occupation", "relationship", "race", "sex"),
        )
    return Question(table, (1.0, 99.0), numbers, factors)


def _acs(name: str, folder: Path) -> Question:
    """Persons with a recorded income, in dollars or, where it is positive, its logarithm."""
    table = pd.read_parquet(folder / "acs2019_national_nist.parquet")
    table["outcome"] = pd.to_numeric(table["PINCP"], errors="coerce")
    logs = name == "acs_log"
    table = table[table["outcome"] > 0 if logs else table["outcome"].notna()].copy()
    table["edu"] = pd.to_numeric(table["EDU"], errors="coerce")
    table["married"] = (table["MSP"] == "1").astype(int)
    table["race"] = table["RAC1P"].where(table["RAC1P"].isin([1, 2, 6]), 0)
    table["disabled"] = (table["DREM"] == "1").astype(int)
    table["hispanic"] = (table["HISP"] > 0).astype(int)
    limits = (-20_000.0, 1_500_000.0)
    if logs:
        table["outcome"] = np.log(table["outcome"])
        limits = float(np.log(10)), float(np.log(2e6))
    factors = ("SEX", "married", "race", "disabled", "hispanic", "OWN_RENT")
    return Question(table, limits, {"AGEP": (15.0, 99.0), "edu": (0.0, 12.0)}, factors)


def _bank(name: str, folder: Path) -> Question:
    table = pd.read_parquet(folder / "bank_full.parquet")
    age = (18.0, 95.0)
    balance = (-10_000.0, 110_000.0)
    duration = (0.0, 5000.0)
    factors = ("marital", "education", "housing", "loan", "default")
    if name == "bank_age":
        table["outcome"] = table["age"].astype(float)
        return Question(
            table, age, {"balance": balance, "duration": duration, "campaign": (1.0, 63.0)}, factors
        )
    table["outcome"] = table["balance"].astype(float)
    return Question(table, balance, {"age": age, "duration": duration}, factors)


def _br(_name: str, folder: Path) -> Question:
    """Hours; the source has no codebook, so that most names stay its own."""
    table = pd.read_parquet(folder / "ipums_br_dpagd_encoded.parquet")
    table["region"] = table[["x1", "x2", "x3", "x4", "x5"]].to_numpy().argmax(axis=1)
    table["education"] = table[["x32", "x33", "x34", "x35"]].to_numpy().argmax(axis=1)
    table["outcome"] = table["x50"].astype(float)
    numbers = {"x13": (10.0, 100.0), "x9": (1.0, 30.0), "x11": (0.0, 9.0)}
    return Question(table, (1.0, 140.0), numbers, ("region", "education", "x6", "x14", "x8", "y"))


_READERS: dict[str, Callable[[str, Path], Question]] = {
    "rand": _rand,
    "adult": _adult,
    "acs": _acs,
    "bank": _bank,
    "br": _br,
}


def _synthetic(name: str) -> Question:
    """syn_n_d_kind_errors: d counts the intercept; kind corr, heavy or rare."""
    _, size, dim, kind, errors = name.split("_")
    n, d = int(size.replace("k", "000")), int(dim)
    rng = np.random.default_rng(d * 7 + len(kind) + len(errors))
    x, first_dummy = synthetic_rows(n, d - 1, kind, rng)
    coef = (
        np.random.default_rng(5 + d).standard_normal(d - 1)
        / np.sqrt(d - 1)
        / np.maximum(x.std(axis=0), 0.1)
    )
    line = x @ coef
    line -= line.mean()
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(d - 1)])
    table["outcome"] = _outcome(line, errors, rng)
    dummies = tuple(table.columns[first_dummy : d - 1])
    table = table.astype(dict.fromkeys(dummies, int))
    limits = (-30.0, 30.0) if errors == "highr2" else (-15.0, 25.0)
    return Question(table, limits, dict.fromkeys(table.columns[:first_dummy], (-1.0, 1.0)), dummies)


def _outcome(line: Array, errors: str, rng: np.random.Generator) -> Array:
    """A line plus errors of variance about 1: skewed, with heavy tails, or wider where the line is
    high.

    "mis" has a kink in the line, "highr2" little error beside it.
    """
    e = rng.standard_normal(len(line))
    if errors in ("skew", "hetskew"):
        e = (np.exp(0.8 * e) - np.exp(0.32)) / np.sqrt((np.exp(0.64) - 1) * np.exp(0.64))
    if errors == "t3":
        e = rng.standard_t(3, len(line)) / np.sqrt(3)
    if errors in ("het", "hetskew"):
        e = e * np.exp(0.5 * line) / 1.2
    if errors == "mis":
        return np.asarray(np.where(line > 0, 1.6 * line, 0.6 * line) + e)
    return np.asarray((4 * line if errors == "highr2" else line) + e)
