"""The designs of the study: panels with effects of persons, made up or of a survey."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.numerics.arrays import Array

POPULATION = 60_000
"""Persons of a made-up population, from which replicates draw."""
_AR = 0.4
_MOST_VISITS = 365.0


@dataclass(frozen=True, eq=False)
class Panel:
    """A population with its public schema, the question, and the number of persons of a replicate.

    ``kind`` is the model, ``options`` what it takes beside formula and schema; persons are all of them where
    ``persons`` is 0.
    """

    table: pd.DataFrame
    schema: str
    formula: str
    persons: int = 0
    kind: str = "LinearRegression"
    options: dict[str, Any] = field(default_factory=dict)

    def model(self, budget: Any, adjacency: str = "replace") -> Any:
        """Return the model of the package."""
        make = getattr(dp, self.kind)
        return make(
            self.formula,
            schema=dp.Schema.parse(self.schema),
            budget=budget,
            adjacency=adjacency,
            **self.options,
        )


@dataclass(frozen=True)
class _Recipe:
    """A made-up panel: outcome = effect of the person + effect of the period + x·θ + autocorrelated errors.

    Columns are correlated with the effect of the person, so that a pooled regression is off.  ``kinds`` has one
    letter per column: n a number, d one of 0 and 1, t a number with a long tail.
    """

    periods: int
    kinds: str
    effects: tuple[float, ...]
    persons_sd: float = 1.0
    errors_sd: float = 0.6
    ar: float = _AR
    missing: float = 0.0

    def drawn(self, rng: np.random.Generator, treatment: Any = 0.0) -> pd.DataFrame:
        """Return the table; ``treatment`` is added to the outcome, one number per person and period."""
        size = (POPULATION, self.periods)
        person = rng.normal(0, 1, POPULATION)
        columns: dict[str, Array] = {}
        outcome = self.persons_sd * person[:, None] + 0.1 * np.sin(np.arange(self.periods))
        for j, (kind, effect) in enumerate(zip(self.kinds, self.effects, strict=True)):
            own = 0.6 * person + 0.5 * rng.normal(0, 1, POPULATION)
            latent = own[:, None] + rng.normal(0, 1, size)
            if kind == "n":
                column = np.clip(latent / 4, -1, 1)
            elif kind == "t":
                column = np.clip(np.exp(latent) / 40, 0, 1)
            else:
                column = (latent > 1.0).astype(float)
            columns[f"x{j + 1}"] = column
            outcome = outcome + effect * column
        outcome = outcome + self._errors(rng, size) + treatment
        kept = rng.random(size) >= self.missing
        flat = {name: column[kept] for name, column in columns.items()}
        return pd.DataFrame(
            {
                "id": np.broadcast_to(np.arange(POPULATION)[:, None], size)[kept],
                "year": np.broadcast_to(np.arange(self.periods), size)[kept],
                **flat,
                "y": outcome[kept],
            }
        )

    def _errors(self, rng: np.random.Generator, size: tuple[int, int]) -> Array:
        errors = rng.normal(0, self.errors_sd, size)
        for t in range(1, self.periods):
            errors[:, t] = self.ar * errors[:, t - 1] + np.sqrt(1 - self.ar**2) * errors[:, t]
        return errors

    def schema(self, limit: float, more: str = "") -> str:
        """Return the public schema, with outcomes up to ``limit`` on either side."""
        columns = []
        for j, kind in enumerate(self.kinds):
            if kind == "d":
                columns.append(f'[columns.x{j + 1}]\ntype = "integer"\nlow = 0\nhigh = 1')
            else:
                low = 0 if kind == "t" else -1
                columns.append(f'[columns.x{j + 1}]\ntype = "number"\nlow = {low}\nhigh = 1')
        return _schema(limit, list(range(self.periods)), "\n".join([*columns, more]))

    @property
    def formula(self) -> str:
        """Return the formula of the columns, with the effects."""
        columns = " + ".join(f"x{j + 1}" for j in range(len(self.kinds)))
        return f"y ~ {columns} | id + year"


def _schema(limit: float, years: list[int], columns: str, low: float | None = None) -> str:
    return f"""
[unit]
name = "one person"
column = "id"
rows = "{ROWS}"
[columns.y]
type = "number"
low = {-limit if low is None else low}
high = {limit}
[columns.year]
type = "integer"
low = {years[0]}
high = {years[-1]}
levels = {years}
{columns}
"""


ROWS = "every"
_TREATED = '[columns.treated]\ntype = "integer"\nlow = 0\nhigh = 1'
_START = '[columns.start]\ntype = "integer"\nlow = 0\nhigh = 99\nmissing = 99'


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, name)))


def _by_person(table: pd.DataFrame, values: Array) -> Array:
    """Return a number of each person, once per row."""
    return np.asarray(values[table["id"].to_numpy()])


def _fe_5k(_: Path) -> Panel:
    recipe = _Recipe(5, "nndd", (0.5, -0.3, 0.2, 0.4))
    return Panel(recipe.drawn(_rng("syn_fe_5k")), recipe.schema(8), recipe.formula, 5_000)


def _fe_20k(_: Path) -> Panel:
    recipe = _Recipe(4, "nnddnd", (0.5, -0.3, 0.2, 0.4, 0.0, 0.3), 1.5, 0.8, 0.7, 0.3)
    return Panel(recipe.drawn(_rng("syn_fe_20k")), recipe.schema(10), recipe.formula, 20_000)


def _did_10k(_: Path) -> Panel:
    rng = _rng("syn_did_10k")
    recipe = _Recipe(6, "nd", (0.5, 0.2))
    treated = rng.random(POPULATION) < 0.4
    table = recipe.drawn(rng, 0.15 * np.outer(treated, np.arange(6) >= 3))
    table["treated"] = _by_person(table, treated.astype(int))
    options = {"period": "year", "start": 3, "treated": "treated"}
    schema = recipe.schema(8, _TREATED)
    return Panel(table, schema, "y ~ x1 + x2", 10_000, "DifferenceInDifferences", options)


def _event_table(name: str) -> tuple[pd.DataFrame, str]:
    rng = _rng(name)
    recipe = _Recipe(8, "n", (0.5,), missing=0.1)
    treated = rng.random(POPULATION) < 0.35
    path = np.array([0, 0, 0, 0, 0.1, 0.2, 0.25, 0.25])
    table = recipe.drawn(rng, np.outer(treated, path))
    table["treated"] = _by_person(table, treated.astype(int))
    return table, recipe.schema(8, _TREATED)


def _event_8k(_: Path) -> Panel:
    """Leads and lags as columns, compared with two periods before the start."""
    table, schema = _event_table("syn_event_8k")
    cells = " + ".join(f"{{(treated == 1) & (year == {year})}}" for year in (1, 2, 4, 5, 6, 7))
    return Panel(table, schema, f"y ~ x1 + {cells} | id + year", 8_000)


def _leads_8k(_: Path) -> Panel:
    """The same as an event study, compared with the period before the start alone."""
    table, schema = _event_table("syn_leads_8k")
    options = {"period": "year", "start": 4, "treated": "treated", "window": (-3, 3)}
    return Panel(table, schema, "y ~ x1", 8_000, "EventStudy", options)


def _staggered_9k(_: Path) -> Panel:
    """Three cohorts with effects of their own, a third never treated."""
    rng = _rng("syn_staggered_9k")
    recipe = _Recipe(8, "n", (0.5,), missing=0.05)
    start = rng.choice([2, 4, 5, 99], POPULATION, p=[0.2, 0.25, 0.2, 0.35])
    since = np.arange(8) - start[:, None]
    growth = np.select([start == 2, start == 4], [0.1, 0.05], 0.0)[:, None]
    table = recipe.drawn(rng, np.where(since >= 0, 0.1 + growth * since, 0.0))
    table["start"] = _by_person(table, start)
    options = {"period": "year", "start": "start", "cohorts": (2, 4, 5), "window": (-2, 2)}
    return Panel(table, recipe.schema(8, _START), "y ~ x1", 9_000, "EventStudy", options)


def _skewed_8k(_: Path) -> Panel:
    """Numbers with long tails, a rare change, and a third of the rows missing."""
    recipe = _Recipe(6, "ttdn", (2.0, 0.0, 0.2, 0.3), 1.0, 0.8, 0.5, 0.35)
    return Panel(recipe.drawn(_rng("syn_skewed_8k")), recipe.schema(10), recipe.formula, 8_000)


def _collinear_6k(_: Path) -> Panel:
    """Age and experience, which grow nearly together within persons, beside a column that does not."""
    rng = _rng("syn_collinear_6k")
    recipe = _Recipe(8, "n", (0.5,), missing=0.2)
    works = np.cumsum(rng.random((POPULATION, 8)) < rng.beta(6, 1, POPULATION)[:, None], axis=1)
    table = recipe.drawn(rng, 0.02 * works)
    table["experience"] = works[table["id"], table["year"]] + rng.integers(0, 20, POPULATION)[
        table["id"]
    ].clip(0, 22)
    table["age"] = rng.integers(18, 40, POPULATION)[table["id"]] + table["year"]
    more = (
        '[columns.age]\ntype = "integer"\nlow = 18\nhigh = 48\n'
        '[columns.experience]\ntype = "integer"\nlow = 0\nhigh = 30'
    )
    formula = "y ~ age + experience + x1 | id"
    return Panel(table, recipe.schema(8, more), formula, 6_000)


def _gsoep_fe(folder: Path) -> Panel:
    table = pd.read_parquet(folder / "gsoep_rwm5yr.parquet")
    table["y"] = np.log1p(table["docvis"])
    yes_no = "\n".join(
        f'[columns.{name}]\ntype = "integer"\nlow = 0\nhigh = 1'
        for name in ("outwork", "married", "kids", "self")
    )
    income = '[columns.hhninc]\ntype = "number"\nlow = 0\nhigh = 8'
    high = float(np.log1p(_MOST_VISITS))
    years = sorted(int(year) for year in table["year"].unique())
    schema = _schema(high, years, f"{yes_no}\n{income}", low=0.0)
    formula = "y ~ outwork + married + kids + hhninc + self | id + year"
    return Panel(table, schema, formula)


DESIGNS: dict[str, Callable[[Path], Panel]] = {
    "syn_fe_5k": _fe_5k,
    "gsoep_fe": _gsoep_fe,
    "syn_did_10k": _did_10k,
    "syn_event_8k": _event_8k,
    "syn_fe_20k": _fe_20k,
    "syn_leads_8k": _leads_8k,
    "syn_staggered_9k": _staggered_9k,
    "syn_skewed_8k": _skewed_8k,
    "syn_collinear_6k": _collinear_6k,
}


@lru_cache(maxsize=1)
def load(name: str, folder: Path) -> Panel:
    """Return a design by its name, from the folder of the data files."""
    return DESIGNS[name](folder)
