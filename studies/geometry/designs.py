"""The designs of the study: tables with public terms, encoded by the package itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import dpinfer as dp
from dpinfer.data.columns import Category, Number, Outcome
from dpinfer.data.design import Design
from dpinfer.data.reading import read
from dpinfer.data.response import Response
from dpinfer.data.terms import Terms
from dpinfer.maths.arrays import Array

Bounds = Mapping[str, tuple[float, float]]
REAL = ("rand", "adult_s", "bank_s", "adult", "bank", "acs_s", "acs")
SYNTHETIC = (
    "syn_5k_5_corr_well", "syn_5k_10_heavy_mis", "syn_20k_5_heavy_mis", "syn_20k_10_corr_well", "syn_20k_10_heavy_mis",
    "syn_100k_5_corr_well", "syn_20k_20_rare_well", "syn_100k_10_heavy_mis", "syn_20k_20_rare_mis",
    "syn_100k_20_corr_mis", "syn_20k_40_corr_well", "syn_20k_40_rare_mis", "syn_100k_40_rare_well",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Data:
    """Encoded rows (norm at most 1, intercept first), labels, and the public design."""

    rows: Array
    labels: Array
    design: Design

    @property
    def x(self) -> Array:
        """The rows as (1, x~)."""
        return np.asarray(self.rows * np.sqrt(self.design.norm2))


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> Data:
    """A design by its name, from the folder of the data files."""
    if name.startswith("syn_"):
        table, terms = _synthetic(name)
    else:
        table, bounds, factors = _READERS[name](folder)
        terms = [Number(column, *limits) for column, limits in bounds.items()]
        terms += [factor(table, column) for column in factors]
    design, pending = read(table, Response(Outcome("outcome", (False, True))), Terms.plain(terms), "margin")
    source = pending.rows()
    return Data(source.block.rows, source.block.labels, design)


def factor(table: pd.DataFrame, column: str) -> Category:
    """All levels of a column; the most common one is the reference."""
    table[column] = table[column].astype(str)
    return Category(column, tuple(sorted(table[column].unique())), str(table[column].value_counts().index[0]))


def _rand(_: Path) -> tuple[pd.DataFrame, Bounds, Sequence[str]]:
    table = dp.datasets.rand_hie().table
    for short, level in (("hlthg", "good"), ("hlthf", "fair"), ("hlthp", "poor")):
        table[short] = (table["health"] == level).astype(float)
    columns = ("lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp")
    table["outcome"] = table["mdvis"] > 0
    return table, {column: (0.0, float(table[column].max())) for column in columns}, ()


def _adult(folder: Path, small: bool) -> tuple[pd.DataFrame, Bounds, Sequence[str]]:
    table = pd.read_parquet(folder / "adult_train_complete.parquet")
    table["outcome"] = table["income"].str.contains(">50K").astype(bool)
    bounds = {
        "age": (17.0, 90.0), "education-num": (1.0, 16.0), "capital-gain": (0.0, 99999.0),
        "capital-loss": (0.0, 4356.0), "hours-per-week": (1.0, 99.0),
    }  # fmt: skip
    if not small:
        return table, bounds, ("workclass", "marital-status", "occupation", "relationship", "race", "sex")
    return table, {c: bounds[c] for c in ("age", "education-num", "hours-per-week")}, ("race", "sex")


def _bank(folder: Path, small: bool) -> tuple[pd.DataFrame, Bounds, Sequence[str]]:
    table = pd.read_parquet(folder / "bank_full.parquet")
    table["outcome"] = table["y"] == "yes"
    bounds = {
        "age": (18.0, 95.0), "balance": (-8019.0, 102127.0), "day": (1.0, 31.0), "duration": (0.0, 4918.0),
        "campaign": (1.0, 63.0),
    }  # fmt: skip
    if small:
        return table, {c: bounds[c] for c in ("age", "balance", "duration")}, ("housing", "loan", "marital")
    factors = ("job", "marital", "education", "default", "housing", "loan", "contact", "poutcome")
    return table, bounds, factors


def _acs(folder: Path, small: bool) -> tuple[pd.DataFrame, Bounds, Sequence[str]]:
    """Persons with a recorded income; is it above 50,000?"""
    table = pd.read_parquet(folder / "acs2019_national_nist.parquet")
    table = table[table["PINCP"].astype(str) != "N"].copy()
    table["outcome"] = table["PINCP"].astype(float) > 50_000
    bounds: dict[str, tuple[float, float]] = {"AGEP": (15.0, 99.0), "EDU": (0.0, 12.0)}
    factors = ["SEX", "RAC1P", "HISP"]
    if not small:
        bounds["DENSITY"] = (0.0, 60000.0)
        factors += ["MSP", "OWN_RENT", "DPHY", "DEYE", "DEAR"]
    for column in bounds:
        table[column] = pd.to_numeric(table[column], errors="coerce").fillna(0.0).astype(float)
    return table, bounds, factors


_READERS: dict[str, Callable[[Path], Any]] = {
    "rand": _rand,
    "adult_s": lambda folder: _adult(folder, True),
    "adult": lambda folder: _adult(folder, False),
    "bank_s": lambda folder: _bank(folder, True),
    "bank": lambda folder: _bank(folder, False),
    "acs_s": lambda folder: _acs(folder, True),
    "acs": lambda folder: _acs(folder, False),
}


def _synthetic(name: str) -> tuple[pd.DataFrame, list[Number | Category]]:
    """syn_n_d_kind_spec: d counts the intercept; kind corr, heavy or rare; spec well or mis."""
    _, size, dim, kind, spec = name.split("_")
    n, d = int(size.replace("k", "000")), int(dim)
    rng = np.random.default_rng(d * 7 + len(kind))
    x, first_dummy = synthetic_rows(n, d - 1, kind, rng)
    coef = np.random.default_rng(5 + d).standard_normal(d - 1) * (0.9 / np.sqrt(d - 1)) / np.maximum(x.std(0), 0.1)
    eta = x @ coef - 1 - x.mean(0) @ coef
    if spec == "mis":
        eta = 1.5 * np.tanh(eta) + 0.8 * (np.abs(eta) > 2)
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(d - 1)])
    table["outcome"] = rng.random(n) < expit(eta)
    terms: list[Number | Category] = [Number(f"x{j}", -1.0, 1.0) for j in range(first_dummy)]
    for j in range(first_dummy, d - 1):
        table[f"x{j}"] = table[f"x{j}"].astype(int)
        terms.append(Category(f"x{j}", (0, 1), 0))
    return table, terms


def synthetic_rows(n: int, p: int, kind: str, rng: np.random.Generator) -> tuple[Array, int]:
    """Columns, and the place of the first dummy: AR(.8) normals, half of them log-normal, or half of them rare."""
    Z = rng.standard_normal((n, p))
    if kind == "corr":
        for j in range(1, p):
            Z[:, j] = 0.8 * Z[:, j - 1] + 0.6 * Z[:, j]
        return np.clip(Z / 4, -1, 1), p
    if kind == "heavy":
        Z = 0.5 * Z[:, [0]] + 0.87 * Z
        x, half = np.clip(Z / 4, -1, 1), (p + 1) // 2
        x[:, :half] = np.clip(np.exp(1.2 * Z[:, :half]) / 40 * 2 - 1, -1, 1)
        return x, p
    x, half = np.clip(Z / 4, -1, 1), max(2, p // 2)
    for j, rate in enumerate(np.geomspace(0.3, 0.003, p - half)):
        x[:, half + j] = rng.random(n) < expit(np.log(rate / (1 - rate)) + 0.25 * Z[:, 0])
    return x, half
