"""The tables of the study, each with its public schema, and what their figures are on the population."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import ndtr

import dpinfer as dp
from dpinfer.description.describing import Describing, describing
from dpinfer.mechanisms.column_sums import QUARTILES
from dpinfer.mechanisms.sums import Block
from dpinfer.numerics.arrays import Array, Indices
from dpinfer.privacy.budget import ApproxDP, Budget, NoPrivacy
from dpinfer.result import description
from dpinfer.rows.source import Pending, Rows
from dpinfer.schema.columns import Category, Column, Number, levels_of
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW, Unit

REAL = ("adult", "bank", "rand", "gsoep", "gsoep_weights")
SYNTHETIC = ("known", "persons")
DESIGNS = (*REAL, *SYNTHETIC)
RECORDS = 20_000
"""Of the synthetic table."""
PERSONS = 1000
"""With several rows, in another."""
_SEED = 11
_CLOSE = 1e-12
_SELDOM = 0.03
_QUARTILES = (description.Q25, description.MEDIAN, description.Q75)
_RANGES: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "adult": {
        "age": (17, 90),
        "fnlwgt": (0, 1_500_000),
        "education-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 5000),
        "hours-per-week": (1, 99),
    },
    "bank": {
        "age": (18, 100),
        "balance": (-10_000, 110_000),
        "day": (1, 31),
        "duration": (0, 5000),
        "campaign": (1, 65),
        "pdays": (-1, 900),
        "previous": (0, 300),
    },
}
_GROUPS = {"adult": "sex", "bank": "y"}

Key = tuple[str, object, object, str]
"""Column, level, group and figure."""


@dataclass(frozen=True, eq=False)
class Data:
    """A table and its schema; figures are by the levels of ``by``, too, where it is given."""

    table: pd.DataFrame
    schema: Schema
    by: str | None


def data(name: str, folder: Path) -> Data:
    """A table of the study."""
    if name in ("adult", "bank"):
        file = "adult_train.parquet" if name == "adult" else "bank_full.parquet"
        table = pd.read_parquet(folder / file)
        return Data(table, _schema(table, _RANGES[name]), _GROUPS[name])
    if name == "rand":
        return _rand()
    if name in ("gsoep", "gsoep_weights"):
        return _gsoep(folder, weighted=name != "gsoep")
    return _persons() if name == "persons" else _known()


def _schema(
    table: pd.DataFrame, ranges: Mapping[str, tuple[float, float]], unit: Unit = ROW
) -> Schema:
    """Ranges as given, all other columns by their levels; "?" is what is missing."""
    columns: dict[str, Column] = {}
    for name in table.columns:
        if name in ranges:
            low, high = ranges[name]
            kind = "integer" if pd.api.types.is_integer_dtype(table[name]) else "number"
            columns[name] = Number(name, float(low), float(high), kind=kind)
        elif pd.api.types.is_numeric_dtype(table[name]) and set(table[name]) <= {0, 1}:
            columns[name] = Number(name, 0.0, 1.0, kind="boolean")
        elif name not in (unit.column, unit.weights):
            levels = tuple(sorted(level for level in table[name].unique() if level != "?"))
            columns[name] = Category(name, levels, levels[0])
    return Schema(columns, unit)


def _rand() -> Data:
    """The RAND Health Insurance Experiment."""
    table = dp.datasets.rand_hie().table
    ranges = {
        "mdvis": (0.0, 100.0),
        "lncoins": (0.0, 5.0),
        "lpi": (0.0, 8.0),
        "fmde": (0.0, 10.0),
        "physlm": (0.0, 1.0),
        "disea": (0.0, 60.0),
    }
    kept = table[[*ranges, "idp", "health"]]
    return Data(kept, _schema(kept, ranges), "health")


def _gsoep(folder: Path, *, weighted: bool) -> Data:
    """People with one to five rows; or rows with made-up sampling weights."""
    table = pd.read_parquet(folder / "gsoep_rwm5yr.parquet")
    named = ["id", "docvis", "hospvis", "age", "educ", "hhninc", "female", "married", "kids"]
    table = table[named].astype({"educ": float})
    rng = np.random.default_rng(_SEED)
    table.loc[rng.random(len(table)) < 0.03, "educ"] = np.nan
    ranges = {
        "docvis": (0.0, 100.0),
        "hospvis": (0.0, 60.0),
        "age": (18.0, 80.0),
        "educ": (5.0, 20.0),
        "hhninc": (0.0, 40.0),
    }
    unit = Unit("one person", "id")
    if weighted:
        table["weight"] = rng.uniform(0.2, 2.0, len(table)) * np.where(
            table["female"] == 1, 0.7, 1.3
        )
        table = table.drop(columns="id")
        unit = Unit("one record", weights="weight", max_weight=3.0)
    return Data(table, _schema(table, ranges, unit), "female")


def _known() -> Data:
    """Normal, skew, heavy-tailed and heaped numbers, with bounds that are tight, wide and far too
    wide; rare levels; missing values.
    """
    rng = np.random.default_rng(_SEED)
    n = RECORDS
    normal = rng.normal(50.0, 10.0, n)
    table = pd.DataFrame(
        {
            "tight": normal,
            "wide": normal,
            "far": normal,
            "skew": rng.exponential(1.0, n),
            "heavy": rng.standard_t(3, n),
            "heaped": np.round(rng.normal(40.0, 8.0, n) / 5) * 5.0,
            "zeros": np.where(rng.random(n) < 0.7, 0.0, rng.lognormal(0.0, 1.0, n)),
            "count": rng.poisson(2.0, n),
            "long": rng.lognormal(3.0, 1.0, n),
            "one": np.full(n, 7.0),
            "sparse": np.where(rng.random(n) < 0.7, np.nan, rng.normal(50.0, 10.0, n)),
            "g": rng.choice(["a", "b", "c"], n, p=[0.6, 0.35, 0.05]),
            "rare": rng.choice(["x", "y", "z"], n, p=[0.95, 0.049, 0.001]),
        }
    )
    for name in ("tight", "skew"):
        table.loc[rng.random(n) < 0.05, name] = np.nan
    ranges = {
        "tight": (10.0, 90.0),
        "wide": (0.0, 200.0),
        "far": (-1000.0, 1000.0),
        "skew": (0.0, 20.0),
        "heavy": (-50.0, 50.0),
        "heaped": (0.0, 100.0),
        "zeros": (0.0, 100.0),
        "count": (0.0, 30.0),
        "long": (0.0, 1000.0),
        "one": (0.0, 10.0),
        "sparse": (0.0, 100.0),
    }
    return Data(table, _schema(table, ranges), "g")


def _persons() -> Data:
    """A thousand persons with one to five rows, of which up to five count alike; some rows are of
    one group, some of the other.
    """
    rng = np.random.default_rng(_SEED)
    ids = np.repeat(np.arange(PERSONS), rng.integers(1, 6, PERSONS))
    n = len(ids)
    chance = np.clip(0.3 + 0.2 * rng.normal(size=PERSONS), 0.0, 1.0)
    table = pd.DataFrame(
        {
            "id": ids,
            "score": 50 + 8 * rng.normal(size=PERSONS)[ids] + 6 * rng.normal(size=n),
            "yes": np.where(rng.random(n) < chance[ids], "a", "b"),
            "g": rng.choice(["u", "v"], n, p=[0.6, 0.4]),
            "rare": np.where(rng.random(n) < 0.05, "x", np.where(rng.random(n) < 0.8, "?", "y")),
        }
    )
    return Data(table, _schema(table, {"score": (0.0, 100.0)}, Unit("one person", "id", 5.0)), "g")


@dataclass(frozen=True, eq=False)
class Population:
    """The encoded rows of a table, of which a replicate draws as many units, with replacement."""

    asked: Describing
    block: Block

    @property
    def n(self) -> int:
        """Records or units."""
        return len(self.block if self.block.starts is None else self.block.starts)

    def sample(self, seed: int, budget: Budget) -> Describing:
        """The description of a bootstrap sample; a person that is drawn twice is two."""
        drawn = np.random.default_rng([_SEED, seed]).integers(0, self.n, self.n)
        rows = Rows(self._taken(drawn))
        plan = replace(self.asked.plan, budget=budget)
        return replace(self.asked, plan=plan, records=Pending(self.n, lambda: rows))

    def _taken(self, units: Indices) -> Block:
        block = self.block
        places = units
        starts = None
        if block.starts is not None:
            sizes = np.diff(np.append(block.starts, len(block)))[units]
            starts = np.cumsum(sizes) - sizes
            places = np.repeat(block.starts[units] - starts, sizes) + np.arange(sizes.sum())
        shares = 1.0 if isinstance(block.shares, float) else block.shares[places]
        return Block(block.rows[places], block.labels[places], shares, shares, starts)

    def ordinary(self, seed: int, z: float) -> dict[Key, tuple[float, float]]:
        """The quartiles of the same sample with the intervals that there are without privacy: between
        two of its values, by their ranks; of units and with weights by Woodruff's method.
        """
        drawn = self.sample(seed, NoPrivacy()).records.rows().block
        weights = _counted(drawn)
        found = self._ranked(drawn, weights, None, z)
        for g, group in enumerate(self._groups):
            found |= self._ranked(drawn, np.where(drawn.labels == g, weights, 0.0), group, z)
        return found

    def _ranked(
        self, block: Block, weights: Array, group: object, z: float
    ) -> dict[Key, tuple[float, float]]:
        found: dict[Key, tuple[float, float]] = {}
        for j, column in enumerate(self.asked.columns):
            if levels_of(column):
                continue
            values = block.rows[:, 1 + j]
            here = np.where(np.isnan(values), 0.0, weights)
            order = np.argsort(values)
            below = np.cumsum(here[order])
            for figure, p in zip(_QUARTILES, QUARTILES, strict=True):
                place = p * below[-1]
                middle = values[order][np.searchsorted(below, place - _CLOSE)]
                moved = here * ((values <= middle) - p)
                if block.starts is not None:
                    moved = np.add.reduceat(moved, block.starts)
                far = z * float(np.sqrt(moved @ moved))
                ends = np.searchsorted(below, [place - far, place + far + _CLOSE])
                low, high = values[order][np.clip(ends, 0, np.count_nonzero(~np.isnan(values)) - 1)]
                found[column.name, None, group, figure] = (float(low), float(high))
        return found

    def truth(self) -> dict[Key, float]:
        """Every figure on the population; counts as they are expected in a sample."""
        weights = _counted(self.block)
        found = self._figures(weights, None)
        for g, group in enumerate(self._groups):
            found |= self._figures(np.where(self.block.labels == g, weights, 0.0), group)
        return found | _differences(found, self._groups)

    @property
    def _groups(self) -> tuple[object, ...]:
        return () if self.asked.by is None else levels_of(self.asked.by)

    def shared(self, z: float) -> set[Key]:
        """The quartiles that so many share that no interval can hold them as seldom as it should: the
        chance of an interval without noise is above 97 in 100, by arithmetic.
        """
        weights = _counted(self.block)
        found = self._shared(weights, None, z)
        for g, group in enumerate(self._groups):
            found |= self._shared(np.where(self.block.labels == g, weights, 0.0), group, z)
        return found

    def _shared(self, weights: Array, group: object, z: float) -> set[Key]:
        found: set[Key] = set()
        truth = self._figures(weights, group)
        for j, column in enumerate(self.asked.columns):
            if levels_of(column):
                continue
            values = self.block.rows[:, 1 + j]
            here = np.where(np.isnan(values), 0.0, weights)
            for figure, p in zip(_QUARTILES, QUARTILES, strict=True):
                key = (column.name, None, group, figure)
                moved = here * ((values <= truth[key]) - p)
                above = float(moved.sum())
                below = float(here @ ((values < truth[key]) - p))
                if self.block.starts is not None:
                    moved = np.add.reduceat(moved, self.block.starts)
                deviation = float(np.sqrt(moved @ moved))
                missed = ndtr(-z - above / deviation) + ndtr(-z + below / deviation)
                if missed < _SELDOM:
                    found.add(key)
        return found

    def _figures(self, weights: Array, group: object) -> dict[Key, float]:
        factor = self.asked.facts.factor
        found: dict[Key, float] = {}
        for j, column in enumerate(self.asked.columns):
            values = self.block.rows[:, 1 + j]
            here = np.where(np.isnan(values), 0.0, weights)
            filled = np.nan_to_num(values)
            name = column.name
            found[name, None, group, description.RECORDS] = factor * here.sum()
            found[name, None, group, description.MISSING] = factor * (weights.sum() - here.sum())
            levels = levels_of(column)
            for code, level in enumerate(levels):
                count = here[filled == code].sum()
                found[name, level, group, description.COUNT] = factor * count
                found[name, level, group, description.SHARE] = count / here.sum()
            if levels:
                continue
            mean = here @ filled / here.sum()
            found[name, None, group, description.MEAN] = mean
            square = here @ (filled - mean) ** 2 / here.sum()
            found[name, None, group, description.SD] = float(np.sqrt(square))
            order = np.argsort(filled)
            below = np.cumsum(here[order]) / here.sum()
            for figure, p in zip(_QUARTILES, QUARTILES, strict=True):
                place = int(np.searchsorted(below, p - _CLOSE))
                found[name, None, group, figure] = float(filled[order][place])
        return found


def _counted(block: Block) -> Array:
    """What each row counts: nothing where it is no record."""
    weights = np.broadcast_to(block.shares, len(block)).astype(float)
    return np.where(block.rows[:, 0] != 0, weights, 0.0)


def _differences(found: Mapping[Key, float], groups: tuple[object, ...]) -> dict[Key, float]:
    differences: dict[Key, float] = {}
    for (name, level, group, figure), value in found.items():
        if group in groups[1:] and figure in (description.MEAN, description.SHARE):
            first = found[name, level, groups[0], figure]
            differences[name, level, group, description.DIFFERENCE] = value - first
    return differences


@lru_cache(maxsize=2)
def population(name: str, folder: Path, *, grouped: bool = False) -> Population:
    """The population of a design."""
    one = data(name, folder)
    budget = ApproxDP(1.0, 1e-6)
    asked = describing(one.table, one.schema, budget, by=one.by if grouped else None)
    source = asked.records.rows()
    return Population(asked, source.block)
