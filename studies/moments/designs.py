"""Tables of the study: their public schemas and features, as somebody who publishes moments would declare them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.schema.columns import Category, Column, Number
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import Unit

Bounds = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Table:
    """A table with its schema and the features that are declared."""

    frame: pd.DataFrame
    schema: Schema
    columns: str


def _table(
    frame: pd.DataFrame,
    numbers: Bounds,
    factors: dict[str, str],
    more: tuple[str, ...] = (),
    ids: str = "",
) -> Table:
    """Make a table of numbers with bounds and factors with a reference level, and products of them."""
    kept = [*numbers, *factors, *([ids] if ids else [])]
    frame = frame[kept].dropna().reset_index(drop=True)
    frame = frame.astype(dict.fromkeys(factors, str))
    columns: dict[str, Column] = {name: Number(name, *ends) for name, ends in numbers.items()}
    for name, reference in factors.items():
        levels = tuple(sorted(frame[name].unique()))
        columns[name] = Category(name, levels, reference)
    unit: str | Unit = "one record"
    if ids:
        unit = Unit("one person", column=ids, rows=1.0)
    return Table(frame, Schema(columns, unit), " + ".join([*numbers, *factors, *more]))


def _adult(folder: Path) -> pd.DataFrame:
    d = pd.read_parquet(folder / "adult_train_complete.parquet")
    d.columns = [name.replace("-", "_") for name in d.columns]
    d["married"] = np.where(d.marital_status.str.startswith("Married"), "yes", "no")
    d["race3"] = d.race.where(d.race.isin(["White", "Black"]), "Other")
    d["gains"] = np.log1p(d.capital_gain)
    return d


_ADULT: Bounds = {"age": (17, 90), "education_num": (1, 16), "hours_per_week": (1, 99)}


def adult10(folder: Path) -> Table:
    """Census income, ten columns."""
    factors = {"sex": "Male", "income": "<=50K", "married": "yes", "race3": "White"}
    return _table(_adult(folder), _ADULT, factors, ("I(age**2)",))


def adult20(folder: Path) -> Table:
    """The same with more levels, products, and a number that is 0 for most."""
    factors = {
        "sex": "Male",
        "income": "<=50K",
        "race": "White",
        "marital_status": "Married-civ-spouse",
    }
    more = ("I(age**2)", "age:sex", "education_num:sex")
    return _table(_adult(folder), {**_ADULT, "gains": (0, 11.6)}, factors, more)


def adult40(folder: Path) -> Table:
    """The same with work and occupation."""
    factors = {
        "sex": "Male", "income": "<=50K", "race": "White", "marital_status": "Married-civ-spouse",
        "workclass": "Private", "occupation": "Prof-specialty",
    }  # fmt: skip
    more = ("I(age**2)", "age:sex", "education_num:sex")
    return _table(_adult(folder), {**_ADULT, "gains": (0, 11.6)}, factors, more)


def _rand() -> pd.DataFrame:
    d = dp.datasets.rand_hie().table.copy()
    d["visits"] = np.log1p(d.mdvis)
    d["visit"] = np.where(d.visit, "yes", "no")
    d["idp"] = np.where(d.idp, "yes", "no")
    d["limited"] = np.where(d.physlm > 0.5, "yes", "no")
    d["mdvis"] = d.mdvis.astype(float)
    return d


_RAND: Bounds = {
    "lncoins": (0, 4.61513), "lpi": (0, 7.32), "fmde": (0, 8.2941), "disea": (0, 60), "visits": (0, 4.62),
}  # fmt: skip
_RAND_FACTORS = {"idp": "no", "limited": "no", "health": "excellent", "visit": "no"}


def rand12(folder: Path) -> Table:  # noqa: ARG001
    """The RAND Health Insurance Experiment, visits in logarithms."""
    return _table(_rand(), _RAND, _RAND_FACTORS)


def rand20(folder: Path) -> Table:  # noqa: ARG001
    """The same with raw visits and products of nearly deterministic columns: made to be hard."""
    more = (
        "I(disea**2)",
        "I(lncoins**2)",
        "disea:idp",
        "lncoins:limited",
        "disea:limited",
        "lpi:idp",
    )
    return _table(_rand(), {**_RAND, "mdvis": (0, 100)}, _RAND_FACTORS, more)


def _bank(folder: Path) -> pd.DataFrame:
    d = pd.read_parquet(folder / "bank_full.parquet")
    d["log_balance"] = np.sign(d.balance) * np.log1p(d.balance.abs() / 100)
    d["log_duration"] = np.log1p(d.duration)
    d["calls"] = np.log(d.campaign)
    return d


_BANK: Bounds = {
    "age": (18, 95),
    "log_balance": (-5, 7.1),
    "log_duration": (0, 8.6),
    "calls": (0, 4.2),
}


def bank10(folder: Path) -> Table:
    """Bank marketing, logarithms of amounts."""
    return _table(
        _bank(folder), _BANK, {"y": "no", "housing": "yes", "loan": "no", "marital": "married"}
    )


def bank30(folder: Path) -> Table:
    """The same with all factors."""
    factors = {
        "y": "no", "marital": "married", "education": "secondary", "housing": "yes", "loan": "no", "default": "no",
        "contact": "cellular", "job": "blue-collar", "poutcome": "unknown",
    }  # fmt: skip
    return _table(_bank(folder), _BANK, factors, ("I(age**2)",))


def bankraw(folder: Path) -> Table:
    """Raw euros and seconds, whose bounds reach far beyond most records."""
    numbers: Bounds = {
        "age": (18, 95),
        "balance": (-10000, 110000),
        "duration": (0, 5000),
        "campaign": (1, 63),
    }
    factors = {
        "y": "no", "housing": "yes", "loan": "no", "marital": "married", "education": "secondary", "default": "no",
        "contact": "cellular",
    }  # fmt: skip
    return _table(_bank(folder), numbers, factors, ("I(age**2)",))


def _acs(folder: Path) -> pd.DataFrame:
    d = pd.read_parquet(folder / "acs2019_national_nist.parquet")
    d["income"] = pd.to_numeric(d.PINCP, errors="coerce")
    d["edu"] = pd.to_numeric(d.EDU, errors="coerce")
    d = d[d.income.notna() & d.edu.notna()].copy()
    d["log_income"] = np.log(d.income.clip(lower=500))
    d["family"] = pd.to_numeric(d.NPF, errors="coerce").fillna(1)
    d["hisp"] = np.where(d.HISP > 0, "yes", "no")
    d["race"] = d.RAC1P.where(d.RAC1P.isin([1, 2, 6]), 0)
    d["disabled"] = np.where(d.DREM == "1", "yes", "no")
    d["physical"] = np.where(d.DPHY == "1", "yes", "no")
    return d


_ACS: Bounds = {"AGEP": (15, 99), "edu": (0, 12), "log_income": (6, 14.5), "family": (1, 20)}
_ACS_FACTORS = {"SEX": "1", "hisp": "no", "race": "1", "disabled": "no"}


def acs10(folder: Path) -> Table:
    """American Community Survey, log income."""
    return _table(_acs(folder), _ACS, _ACS_FACTORS, ("I(AGEP**2)",))


def acs20(folder: Path) -> Table:
    """The same with more factors and products."""
    factors = {**_ACS_FACTORS, "physical": "no", "OWN_RENT": "1", "MSP": "1"}
    return _table(_acs(folder), _ACS, factors, ("I(AGEP**2)", "AGEP:SEX", "edu:SEX"))


def acs40(folder: Path) -> Table:
    """The same with industries."""
    factors = {**_ACS_FACTORS, "physical": "no", "OWN_RENT": "1", "MSP": "1", "INDP_CAT": "N"}
    return _table(_acs(folder), _ACS, factors, ("I(AGEP**2)", "AGEP:SEX"))


def acsraw(folder: Path) -> Table:
    """Raw income, whose bounds reach far beyond most records."""
    numbers: Bounds = {
        "AGEP": (15, 99),
        "edu": (0, 12),
        "income": (-20000, 1500000),
        "family": (1, 20),
    }
    factors = {**_ACS_FACTORS, "physical": "no", "OWN_RENT": "1"}
    return _table(_acs(folder), numbers, factors, ("I(AGEP**2)",))


def gsoep(folder: Path) -> Table:
    """A panel of persons with up to five rows, protected together."""
    d = pd.read_parquet(folder / "gsoep_rwm5yr.parquet")
    d["visits"] = np.log1p(d.docvis)
    d["income"] = np.log(d.hhninc.clip(lower=0.1))
    d["doctor"] = np.where(d.docvis > 0, "yes", "no")
    numbers: Bounds = {"visits": (0, 4.9), "income": (-2.4, 3.5), "age": (25, 64), "educ": (7, 18)}
    factors = {
        "doctor": "no", "female": "0", "married": "1", "kids": "0", "outwork": "0", "self": "0", "year": "1984",
    }  # fmt: skip
    return _table(d, numbers, factors, ("I(age**2)",), ids="id")


def cps(folder: Path) -> Table:
    """Wages of the Current Population Survey, with a square and a product."""
    d = pd.read_parquet(folder / "cps_asec_2024_wages.parquet")
    d["sex"] = np.where(d.female == 1, "f", "m")
    numbers: Bounds = {"log_wage": (0, 15), "educ_years": (0, 21), "experience": (-5, 75)}
    return _table(
        d, numbers, {"sex": "m"}, ("I(experience**2)", "educ_years:sex", "experience:sex")
    )


def heteroscedastic(folder: Path) -> Table:  # noqa: ARG001
    """Made up: the sd of a residual is exp(.6 x), and a group has four times the spread of another."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40_000, 6))
    x[:, 1:] = 0.4 * x[:, :1] + 0.9 * x[:, 1:]
    d = pd.DataFrame(x, columns=[f"x{j}" for j in range(6)]).clip(-5, 5)
    noise = np.exp(0.6 * d.x0 - 0.18) * rng.standard_normal(40_000)
    d["y"] = (0.5 * d.x0 + 0.3 * d.x1 + noise).clip(-15, 15)
    d["b"] = (rng.random(40_000) < 0.5 + 0.1 * d.x0.clip(-3, 3)).astype(int)
    d["f"] = rng.choice(["u", "v", "w"], 40_000, p=[0.7, 0.2, 0.1])
    d["g"] = (d.x2 + rng.standard_normal(40_000) * np.where(d.f == "w", 2.5, 0.6)).clip(-12, 12)
    numbers: Bounds = {f"x{j}": (-5.0, 5.0) for j in range(6)}
    return _table(d, numbers | {"y": (-15, 15), "g": (-12, 12)}, {"b": "0", "f": "u"})


def skewed(folder: Path) -> Table:  # noqa: ARG001
    """Made up: a log-normal number with a curved effect, bounds three times as wide as its records."""
    rng = np.random.default_rng(4)
    n = 40_000
    d = pd.DataFrame({"wealth": rng.lognormal(0, 1, n), "age": rng.normal(50, 15, n).clip(18, 95)})
    d["y"] = np.log(d.wealth) + 0.02 * d.age + rng.normal(size=n)
    d["f"] = rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2])
    return _table(d, {"wealth": (0, 200), "age": (18, 95), "y": (-8, 12)}, {"f": "u"})


def dense(folder: Path) -> Table:  # noqa: ARG001
    """Made up: twelve normal numbers with correlations up to .9, and twelve levels."""
    rng = np.random.default_rng(5)
    n = 40_000
    x = rng.standard_normal((n, 12))
    x[:, 1::2] = 0.9 * x[:, ::2] + np.sqrt(1 - 0.81) * x[:, 1::2]
    d = pd.DataFrame(x, columns=[f"x{j}" for j in range(12)]).clip(-5, 5)
    d["f"] = rng.choice([f"l{k:02d}" for k in range(12)], n)
    return _table(d, {f"x{j}": (-5.0, 5.0) for j in range(12)}, {"f": "l00"})


DESIGNS: dict[str, Callable[[Path], Table]] = {
    one.__name__: one
    for one in (
        adult10, adult20, adult40, rand12, rand20, bank10, bank30, bankraw, acs10, acs20, acs40, acsraw, gsoep, cps,
        heteroscedastic, skewed, dense,
    )
}  # fmt: skip
OWN = ("cps", "skewed", "dense")
"""Designs that nothing was chosen on."""


@lru_cache(maxsize=1)
def load(name: str, folder: Path) -> Table:
    """Read a design's table."""
    return DESIGNS[name](folder)
