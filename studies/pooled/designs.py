"""The designs: a table of persons with several rows, its public schema, and the regression that is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.numerics.arrays import Indices

_MAX_VISITS = 100.0
_PERSONS = 60_000  # of a made-up population
_PERIODS = 8


@dataclass(frozen=True, eq=False)
class Pooled:
    """A population; ``persons`` are drawn from it with replacement, all their rows together."""

    table: pd.DataFrame
    columns: str
    formula: str
    model: type[Any]
    persons: int

    def schema(self, rows: str) -> dp.Schema:
        """Return the public schema; ``rows`` is "every" or "average"."""
        unit = f'[unit]\nname = "one person"\ncolumn = "id"\nrows = "{rows}"\n'
        return dp.Schema.parse(f'title = "panel"\n{unit}{self.columns}')

    def people(self) -> list[Indices]:
        """Return the positions of the rows of each person."""
        order = np.argsort(self.table["id"].to_numpy(), kind="stable")
        ids = self.table["id"].to_numpy()[order]
        return np.split(order, np.flatnonzero(np.diff(ids)) + 1)

    def fitted(self, table: pd.DataFrame, rows: str, budget: Any, seed: int) -> Any:
        """Return the result of a fit of a table."""
        model = self.model(
            self.formula, schema=self.schema(rows), budget=budget, insecure_seed=seed
        )
        return model.fit(table).result_


def _number(name: str, low: float, high: float, kind: str = "number") -> str:
    return f'[columns.{name}]\ntype = "{kind}"\nlow = {low}\nhigh = {high}\n'


def _answer(name: str) -> str:
    return f'[columns.{name}]\ntype = "boolean"\n'


def _levels(name: str, levels: list[int]) -> str:
    return f'[columns.{name}]\ntype = "category"\nlevels = {levels}\n'


_ANSWERS = ("outwork", "female", "married", "kids", "self")


def _gsoep(name: str, folder: Path) -> Pooled:
    """Visits to a doctor in five years of the German Socio-Economic Panel: 6,127 persons, 1 to 5 rows each."""
    table = pd.read_parquet(folder / "gsoep_rwm5yr.parquet")
    for column in _ANSWERS:
        table[column] = table[column].astype(bool)
    columns = _number("age", 25, 65) + _number("hhninc", 0, 8) + _number("educ", 7, 18)
    columns += "".join(map(_answer, _ANSWERS)) + _levels("year", list(range(1984, 1989)))
    models: dict[str, tuple[Any, Any, str]] = {
        "gsoep_log": (
            dp.LinearRegression,
            np.log1p(table["docvis"]),
            _number("outcome", 0, float(np.log1p(365))),
        ),
        "gsoep_any": (
            dp.LogisticRegression,
            np.where(table["docvis"] > 0, "yes", "no"),
            '[columns.outcome]\ntype = "outcome"\nlevels = ["no", "yes"]\n',
        ),
        "gsoep_visits": (
            dp.PoissonRegression,
            table["docvis"].astype(float),
            _number("outcome", 0, _MAX_VISITS),
        ),
    }
    model, table["outcome"], outcome = models[name]
    formula = f"outcome ~ age + {' + '.join(_ANSWERS)} + hhninc + educ + year"
    return Pooled(table, columns + outcome, formula, model, table["id"].nunique())


def _panel(name: str, _: Path) -> Pooled:
    """A made-up panel: up to eight periods, of which 45 % are missing; effects of persons; errors of order one."""
    rng = np.random.default_rng(sum(map(ord, name)))
    effect = rng.normal(0, 1, _PERSONS)
    z = 0.6 * effect[:, None, None] + 0.5 * rng.normal(0, 1, (_PERSONS, 1, 4))
    z = z + rng.normal(0, 1, (_PERSONS, _PERIODS, 4))
    z[..., :2] = np.clip(z[..., :2] / 4, -1, 1)
    z[..., 2:] = z[..., 2:] > 1.0
    error = np.zeros((_PERSONS, _PERIODS))
    error[:, 0] = rng.normal(0, 0.8, _PERSONS)
    for t in range(1, _PERIODS):
        error[:, t] = 0.4 * error[:, t - 1] + rng.normal(0, 0.8 * np.sqrt(1 - 0.4**2), _PERSONS)
    outcome = 0.7 * effect[:, None] + 0.1 * np.sin(np.arange(_PERIODS)) + error
    outcome += z @ np.array([0.5, -0.3, 0.2, 0.4])
    kept = rng.random((_PERSONS, _PERIODS)) >= 0.45
    person, period = np.nonzero(kept)
    x = z[kept]
    table = pd.DataFrame({"id": person, "period": period, "outcome": outcome[kept]})
    for j in range(4):
        table[f"x{j + 1}"] = x[:, j] if j < 2 else x[:, j].astype(bool)
    columns = _number("x1", -1, 1) + _number("x2", -1, 1) + _answer("x3") + _answer("x4")
    columns += _levels("period", list(range(_PERIODS))) + _number("outcome", -8, 8)
    formula = "outcome ~ x1 + x2 + x3 + x4 + period"
    return Pooled(table, columns, formula, dp.LinearRegression, 10_000)


def _visits(_: str, __: Path) -> Pooled:
    """Made-up visits: numbers of rows are geometric, so that few persons have very many; a binary outcome."""
    rng = np.random.default_rng(3)
    rows = rng.geometric(0.25, _PERSONS)
    person = np.repeat(np.arange(_PERSONS), rows)
    effect = rng.normal(0, 1, _PERSONS)[person]
    age = rng.integers(18, 96, _PERSONS)[person]
    busy = rng.random(len(person)) < 0.3
    region = rng.choice(4, _PERSONS, p=[0.5, 0.3, 0.15, 0.05])[person]
    predictor = -2 + 0.03 * age + 0.4 * busy - 0.2 * region + effect
    ill = rng.random(len(person)) < 1 / (1 + np.exp(-predictor))
    table = pd.DataFrame({"id": person, "age": age, "busy": busy, "region": region})
    table["outcome"] = np.where(ill, "yes", "no")
    columns = _number("age", 18, 100, "integer") + _answer("busy") + _levels("region", [0, 1, 2, 3])
    columns += '[columns.outcome]\ntype = "outcome"\nlevels = ["no", "yes"]\n'
    return Pooled(table, columns, "outcome ~ age + busy + region", dp.LogisticRegression, 10_000)


_MADE: dict[str, Callable[[str, Path], Pooled]] = {
    "gsoep_log": _gsoep,
    "gsoep_any": _gsoep,
    "gsoep_visits": _gsoep,
    "syn_pool_10k": _panel,
    "syn_visits_10k": _visits,
}
DESIGNS = tuple(_MADE)


@lru_cache(maxsize=1)
def load(name: str, folder: Path) -> Pooled:
    """Return a design by its name; ``folder`` has the data files."""
    return _MADE[name](name, folder)


def sample(pooled: Pooled, people: list[Indices], rng: np.random.Generator) -> pd.DataFrame:
    """Draw persons with replacement; each one drawn is a person of its own."""
    drawn = [people[k] for k in rng.integers(0, len(people), pooled.persons)]
    table = pooled.table.iloc[np.concatenate(drawn)].reset_index(drop=True)
    table["id"] = np.repeat(np.arange(len(drawn)), [len(rows) for rows in drawn])
    return table
