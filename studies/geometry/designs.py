"""The designs of the study: tables with public terms, encoded by the package itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit

import dpinfer as dp
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Category, Column, Number, Outcome
from dpinfer.schema.formula import parse
from dpinfer.schema.terms import ModelTerms, Response
from dpinfer.tables.table import read
from studies.asked import Data

Bounds = Mapping[str, tuple[float, float]]
REAL = ("rand", "adult_s", "bank_s", "adult", "bank", "acs_s", "acs", "age2", "spline", "spline_in")
WIDE = ("adult_s_wide", "bank_s_wide", "acs_s_wide")
KNOWN = ("strong_2.25", "strong_3.75", "rare_0.5", "rare_2", "levels_30", "poor_reference")
SYNTHETIC = (
    "syn_5k_5_corr_well", "syn_5k_10_heavy_mis", "syn_20k_5_heavy_mis", "syn_20k_10_corr_well", "syn_20k_10_heavy_mis",
    "syn_100k_5_corr_well", "syn_20k_20_rare_well", "syn_100k_10_heavy_mis", "syn_20k_20_rare_mis",
    "syn_100k_20_corr_mis", "syn_20k_40_corr_well", "syn_20k_40_rare_mis", "syn_100k_40_rare_well",
)  # fmt: skip
DESIGNS = (*REAL, *WIDE, *KNOWN)
"""Those of the page; the synthetic ones are run when they are asked for."""


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> Data:
    """A design by its name, from the folder of the data files."""
    if name.startswith("syn_"):
        return encoded(*_synthetic(name))
    if name in _MADE:
        return _MADE[name](np.random.default_rng(sum(map(ord, name))))
    if name in _CURVES:
        return _curve(_CURVES[name], folder)
    base = name.removesuffix("_wide")
    table, bounds, factors = _READERS[base](folder)
    if base != name:
        bounds = {column: widened(limits) for column, limits in bounds.items()}
    numbers = [number(table, column, limits) for column, limits in bounds.items()]
    return encoded(table, [*numbers, *(factor(table, column) for column in factors)])


def encoded(table: pd.DataFrame, terms: Sequence[Number | Category]) -> Data:
    """Rows and labels of a table with a column ``outcome`` of false and true."""
    design, pending = read(
        table, Response(Outcome("outcome", (False, True))), ModelTerms.plain(list(terms)), "margin"
    )
    block = pending.rows().block
    return Data(block.rows, block.labels, design)


def widened(limits: tuple[float, float], times: float = 10.0) -> tuple[float, float]:
    """Bounds so many times as wide, about their middle."""
    middle = (limits[0] + limits[1]) / 2
    half = (limits[1] - limits[0]) / 2
    return middle - times * half, middle + times * half


def number(table: pd.DataFrame, column: str, limits: tuple[float, float]) -> Number:
    """A number with its bounds; one that is 0 or 1 throughout, within these bounds, is a yes or no."""
    yes_no = limits == (0.0, 1.0) and bool(table[column].isin([0, 1]).all())
    return Number(column, *limits, kind="boolean" if yes_no else "number")


def factor(table: pd.DataFrame, column: str) -> Category:
    """All levels of a column; the most common one is the reference."""
    table[column] = table[column].astype(str)
    return Category(
        column, tuple(sorted(table[column].unique())), str(table[column].value_counts().index[0])
    )


def _rand(_: Path) -> tuple[pd.DataFrame, Bounds, Sequence[str]]:
    table = dp.datasets.rand_hie().table
    for short, level in (("hlthg", "good"), ("hlthf", "fair"), ("hlthp", "poor")):
        table[short] = (table["health"] == level).astype(int)
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
        return (
            table,
            bounds,
            ("workclass", "marital-status", "occupation", "relationship", "race", "sex"),
        )
    return (
        table,
        {c: bounds[c] for c in ("age", "education-num", "hours-per-week")},
        ("race", "sex"),
    )


def _bank(folder: Path, small: bool) -> tuple[pd.DataFrame, Bounds, Sequence[str]]:
    table = pd.read_parquet(folder / "bank_full.parquet")
    table["outcome"] = table["y"] == "yes"
    bounds = {
        "age": (18.0, 95.0), "balance": (-8019.0, 102127.0), "day": (1.0, 31.0), "duration": (0.0, 4918.0),
        "campaign": (1.0, 63.0),
    }  # fmt: skip
    if small:
        return (
            table,
            {c: bounds[c] for c in ("age", "balance", "duration")},
            ("housing", "loan", "marital"),
        )
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


_CURVES = {
    "age2": "age + I(age**2)",
    "spline": "ns(age, 30, 45, 60)",
    "spline_in": "ns(age, 30, 45, 60, low=25, high=70)",
}
"""Designs of Adult with a curve of age."""


def _curve(of_age: str, folder: Path) -> Data:
    """Adult with a curve of age, whose columns have their own bounds."""
    table, bounds, _ = _adult(folder, small=True)
    columns: dict[str, Column] = {name: Number(name, *limits) for name, limits in bounds.items()}
    columns["sex"] = factor(table, "sex")
    columns["outcome"] = Outcome("outcome", (False, True))
    formula = f"outcome ~ {of_age} + `education-num` + `hours-per-week` + sex"
    design, pending = read(table, *parse(formula, dp.Schema(columns)), "margin")
    block = pending.rows().block
    return Data(block.rows, block.labels, design)


def _drawn(
    table: pd.DataFrame,
    terms: Sequence[Number | Category],
    eta: Array,
    zero: Sequence[str],
    rng: np.random.Generator,
) -> Data:
    """A design whose truth is known: log-odds ``eta``, and the columns without an effect."""
    chance = expit(eta)
    data = encoded(table.assign(outcome=rng.random(len(table)) < chance), terms)
    return replace(data, chance=chance, zero=tuple(zero))


def _normal(
    n: int, p: int, most: float, rng: np.random.Generator
) -> tuple[pd.DataFrame, list[Number | Category]]:
    """Independent normal columns x0, x1, ... clipped to ± ``most``, which are their bounds."""
    names = [f"x{j}" for j in range(p)]
    table = pd.DataFrame(np.clip(rng.standard_normal((n, p)), -most, most), columns=names)
    return table, [Number(name, -most, most) for name in names]


def _strong(deviation: float, rng: np.random.Generator) -> Data:
    """Log-odds with a large deviation; the last column has no effect."""
    table, terms = _normal(10_000, 5, 5.0, rng)
    coef = np.array([0.5, -0.8, 1.2, -1.5, 0.0])
    coef *= deviation / np.linalg.norm(coef)
    return _drawn(table, terms, table.to_numpy() @ coef - 0.3, ["x4"], rng)


def _rare(share: float, n: int, rng: np.random.Generator) -> Data:
    """A rare outcome of four numbers, one without an effect, and two factors."""
    table, terms = _normal(n, 4, 4.0, rng)
    x = table.to_numpy()
    table["f"] = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    table["g"] = rng.choice(["u", "v"], n, p=[0.7, 0.3])
    eta = (
        x @ [0.5, -0.4, 0.3, 0.0]
        + 0.6 * (table["f"] == "b")
        - 0.3 * (table["f"] == "c")
        + 0.5 * (table["g"] == "v")
    )
    level = brentq(lambda a: expit(eta + a).mean() - share, -20.0, 5.0)
    terms += [Category("f", ("a", "b", "c"), "a"), Category("g", ("u", "v"), "u")]
    return _drawn(table, terms, np.asarray(eta + level), ["x3"], rng)


def _levels(rng: np.random.Generator) -> Data:
    """A factor with 30 levels of different frequency; the second number has no effect."""
    n = 40_000
    table, terms = _normal(n, 2, 4.0, rng)
    x = table.to_numpy()
    level = rng.choice(30, n, p=np.random.default_rng(3).dirichlet(np.full(30, 3.0)))
    effects = 0.6 * np.random.default_rng(4).standard_normal(30)
    table["f"] = np.array([f"l{k:02d}" for k in range(30)])[level]
    terms.append(factor(table, "f"))
    return _drawn(table, terms, effects[level] + 0.5 * x[:, 0] - 0.7, ["x1"], rng)


def _poor_reference(rng: np.random.Generator) -> Data:
    """A factor whose reference level has next to no events; the second number has no effect."""
    n = 26_000
    table, terms = _normal(n, 2, 4.0, rng)
    x = table.to_numpy()
    table["f"] = rng.choice(["r", "a", "b", "c"], n, p=[0.45, 0.3, 0.15, 0.1])
    table["g"] = rng.choice(["u", "v"], n)
    base = table["f"].map({"r": -7.0, "a": -4.3, "b": -2.8, "c": -1.6}).to_numpy(dtype=float)
    terms += [Category("f", ("r", "a", "b", "c"), "r"), Category("g", ("u", "v"), "u")]
    return _drawn(
        table, terms, np.asarray(base + 0.5 * x[:, 0] + 0.4 * (table["g"] == "v")), ["x1"], rng
    )


_MADE: dict[str, Callable[[np.random.Generator], Data]] = {
    "strong_2.25": partial(_strong, 2.25),
    "strong_3.75": partial(_strong, 3.75),
    "rare_0.5": partial(_rare, 0.005, 100_000),
    "rare_2": partial(_rare, 0.02, 20_000),
    "levels_30": _levels,
    "poor_reference": _poor_reference,
}


def _synthetic(name: str) -> tuple[pd.DataFrame, list[Number | Category]]:
    """syn_n_d_kind_spec: d counts the intercept; kind corr, heavy or rare; spec well or mis."""
    _, size, dim, kind, spec = name.split("_")
    n, d = int(size.replace("k", "000")), int(dim)
    rng = np.random.default_rng(d * 7 + len(kind))
    x, first_dummy = synthetic_rows(n, d - 1, kind, rng)
    coef = (
        np.random.default_rng(5 + d).standard_normal(d - 1)
        * (0.9 / np.sqrt(d - 1))
        / np.maximum(x.std(0), 0.1)
    )
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
    """Columns, and the place of the first dummy: AR(.8) normals, half of them log-normal, or half
    of them rare.
    """
    Z = rng.standard_normal((n, p))
    if kind == "corr":
        for j in range(1, p):
            Z[:, j] = 0.8 * Z[:, j - 1] + 0.6 * Z[:, j]
        return np.clip(Z / 4, -1, 1), p
    if kind == "heavy":
        Z = 0.5 * Z[:, [0]] + 0.87 * Z
        x = np.clip(Z / 4, -1, 1)
        half = (p + 1) // 2
        x[:, :half] = np.clip(np.exp(1.2 * Z[:, :half]) / 40 * 2 - 1, -1, 1)
        return x, p
    x = np.clip(Z / 4, -1, 1)
    half = max(2, p // 2)
    for j, rate in enumerate(np.geomspace(0.3, 0.003, p - half)):
        x[:, half + j] = rng.random(n) < expit(np.log(rate / (1 - rate)) + 0.25 * Z[:, 0])
    return x, half
