"""The designs of the study: tables with public bounds of columns, outcome and exposure, encoded by
the package itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Column, Number
from dpinfer.schema.design import Design
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW, Unit
from dpinfer.simulate.population import Population
from studies.geometry.designs import factor

REAL = ("rand_visits", "gsoep_doctor", "gsoep_hospital", "gsoep_persons")
SYNTHETIC = (
    "syn_pois",
    "syn_nb",
    "syn_rate",
    "syn_cost",
    "syn_strong",
    "syn_mis",
    "syn_rare",
    "syn_tails",
)
DESIGNS = (*REAL, *SYNTHETIC)
RECORDS = 20_000
"""Of a synthetic design."""
_MOST_VISITS = 365.0
_MOST = {"syn_cost": 1e6, "syn_tails": 1e5}
_MOST_OF_OTHERS = 200.0
_SEED = 5


@dataclass(frozen=True, eq=False)
class Question:
    """A table with a column ``outcome``, its largest value, the ranges of numbers, and the names of
    factors; a column ``years`` where there is an exposure, and ``id`` where persons are protected.
    """

    table: pd.DataFrame
    most: float
    numbers: Mapping[str, tuple[float, float]]
    factors: tuple[str, ...]
    unit: Unit = ROW

    @property
    def exposure(self) -> str | None:
        """The name of the column, where there is one."""
        return "years" if "years" in self.table else None

    @property
    def model(self) -> dp.PoissonRegression:
        """All columns, numbers first; the most common level of a factor is its reference."""
        columns: dict[str, Column] = {
            name: Number(name, *limits) for name, limits in self.numbers.items()
        }
        columns |= {name: factor(self.table, name) for name in self.factors}
        formula = "outcome ~ " + " + ".join(columns)
        columns["outcome"] = Number("outcome", 0.0, self.most)
        if self.exposure is not None:
            columns["years"] = Number("years", 0.0, 1.0)
        return dp.PoissonRegression(
            formula, schema=Schema(columns, self.unit), exposure=self.exposure
        )


@dataclass(frozen=True, eq=False)
class Data:
    """A population of records or persons, and its public design."""

    population: Population
    design: Design

    @property
    def n(self) -> int:
        """Records, or persons."""
        return self.population.n


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> Data:
    """A design by its name, from the folder of the data files."""
    asked = _READERS[name.partition("_")[0]](name, folder)
    design, pending = asked.model.read(asked.table)
    return Data(Population.of_records(pending.rows()), design)


def _rand(_: str, __: Path) -> Question:
    table = dp.datasets.rand_hie().table
    table["outcome"] = table["mdvis"].astype(float)
    numbers = {
        "lncoins": (0.0, 4.61513), "lpi": (0.0, 7.32), "fmde": (0.0, 8.2941), "physlm": (0.0, 1.0),
        "disea": (0.0, 60.0),
    }  # fmt: skip
    return Question(table, 100.0, numbers, ("idp", "health"))


def _gsoep(name: str, folder: Path) -> Question:
    """Visits to a doctor in a quarter or to a hospital in a year, of records or of whole persons."""
    table = pd.read_parquet(folder / "gsoep_rwm5yr.parquet")
    visits = "hospvis" if name == "gsoep_hospital" else "docvis"
    table["outcome"] = table[visits].astype(float)
    unit = Unit("one person", "id") if name == "gsoep_persons" else ROW
    numbers = {"age": (20.0, 70.0), "hhninc": (0.0, 20.0), "educ": (7.0, 18.0)}
    factors = ("outwork", "female", "married", "kids", "self")
    return Question(table, _MOST_VISITS, numbers, factors, unit)


def _synthetic(name: str, _: Path) -> Question:
    """Four normal numbers, of which two go together, a factor of four levels and one of two."""
    rng = np.random.default_rng(_SEED)
    table = pd.DataFrame({f"z{j}": rng.normal(size=RECORDS) / 3 for j in range(4)})
    table["z1"] = 0.7 * table["z0"] + 0.7 * table["z1"]
    table["a"] = rng.choice(["p", "q", "r", "s"], RECORDS, p=[0.5, 0.3, 0.15, 0.05])
    table["b"] = (rng.random(RECORDS) < 0.4).astype(int)
    line = (
        0.6 * table["z0"]
        - 0.4 * table["z1"]
        + 0.3 * table["z2"]
        + 0.25 * (table["a"] == "q")
        - 0.4 * (table["a"] == "r")
        + 0.5 * (table["a"] == "s")
        + 0.3 * table["b"]
    ).to_numpy()
    if name == "syn_rate":
        table["years"] = np.clip(rng.gamma(2, 0.2, RECORDS), 0.01, 1)
        line = line + np.log(table["years"].to_numpy())
    if name == "syn_tails":
        table["outcome"] = _of_two_tails(line, table["b"].to_numpy(), rng)
    else:
        table["outcome"] = _OUTCOMES[name](line, rng)
    numbers = {f"z{j}": (-1.5, 1.5) for j in range(4)}
    return Question(table, _MOST.get(name, _MOST_OF_OTHERS), numbers, ("a", "b"))


def _mixed(mean: Array, shape: float, rng: np.random.Generator) -> Array:
    """Poisson counts whose means are gamma: a negative binomial law."""
    return rng.poisson(mean * rng.gamma(shape, 1 / shape, len(mean))).astype(float)


def _costs(line: Array, rng: np.random.Generator) -> Array:
    """Nothing for three in ten, a log-normal amount for the others."""
    amounts = np.exp(line + 6 + 1.2 * rng.normal(size=len(line)) - 0.72) / 0.7
    return np.where(rng.random(len(line)) < 0.7, amounts, 0.0)


def _of_two_tails(line: Array, group: Array, rng: np.random.Generator) -> Array:
    """Log-normal amounts, whose logarithm has the deviation 1 in one group and 1.8 in the other."""
    deviation = np.where(group == 1, 1.8, 1.0)
    noise = deviation * rng.normal(size=len(line)) - deviation**2 / 2
    return np.asarray(10 * np.exp(line + noise))


_OUTCOMES: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "syn_pois": lambda line, rng: rng.poisson(np.exp(line + 0.3)).astype(float),
    "syn_nb": lambda line, rng: _mixed(np.exp(line + 0.5), 0.7, rng),
    "syn_rate": lambda line, rng: _mixed(np.exp(line + 0.3), 1.5, rng),
    "syn_cost": _costs,
    "syn_strong": lambda line, rng: _mixed(np.exp(2.2 * line), 1.5, rng),
    "syn_mis": lambda line, rng: _mixed(np.maximum(0.1, 1.2 + 1.5 * line + line**2), 1.0, rng),
    "syn_rare": lambda line, rng: rng.poisson(np.exp(line - 4.0)).astype(float),
}

_READERS: dict[str, Callable[[str, Path], Question]] = {
    "rand": _rand,
    "gsoep": _gsoep,
    "syn": _synthetic,
}
