"""The designs of the study: cohorts with public bounds, cuts and horizon, encoded by the package itself.

A made-up cohort is a population of many persons with Weibull hazards, from which replicates draw; a table is its
own population.  Names say the percentage of persons with an event and the number of persons of a replicate.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.fit.hazard import SurvivalTimes
from dpinfer.numerics.arrays import Array
from dpinfer.schema.columns import Category, Column, Number
from dpinfer.schema.design import HAZARD, HazardDesign
from dpinfer.schema.formula import parse
from dpinfer.schema.schema import Schema
from dpinfer.schema.unit import ROW, Unit
from dpinfer.simulate.population import Population
from dpinfer.tables.table import read

POPULATION = 100_000
"""Persons of a made-up cohort."""
_HORIZON = 10.0
_CUTS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
LOSS = SurvivalTimes()


@dataclass(frozen=True, eq=False)
class Cohort:
    """A table of spells with columns ``exit``, ``event`` and maybe ``entry`` and ``id``, and what is public about it.

    ``numbers`` have ranges, ``levels`` the levels of factors, the first of which is the reference; a replicate has
    ``persons``.
    """

    table: pd.DataFrame
    persons: int
    numbers: Mapping[str, tuple[float, float]]
    levels: Mapping[str, Sequence[str]]
    cuts: Sequence[float] = _CUTS
    horizon: float = _HORIZON

    @property
    def delayed(self) -> bool:
        """Whether persons enter late, or have several spells."""
        return "entry" in self.table

    @property
    def schema(self) -> Schema:
        """The public description of the table."""
        ends = 0.0, 2 * self.horizon
        columns: dict[str, Column] = {
            name: Number(name, *limits) for name, limits in self.numbers.items()
        }
        for name, levels in self.levels.items():
            columns[name] = Category(name, tuple(levels), levels[0])
        columns |= {name: Number(name, *ends) for name in ("entry", "exit")}
        columns["event"] = Number("event", 0, 1, kind="integer")
        unit = Unit("one person", "id") if "id" in self.table else ROW
        return Schema(columns, unit)

    @property
    def formula(self) -> str:
        """Hazards by all columns."""
        times = "entry, exit" if self.delayed else "exit"
        cuts = ", ".join(f"{cut:g}" for cut in self.cuts)
        columns = " + ".join([*self.numbers, *self.levels])
        return f"Surv({times}, event, cuts=[{cuts}], horizon={self.horizon:g}) ~ {columns}"


@dataclass(frozen=True, eq=False)
class Encoded:
    """A cohort as the package encodes it."""

    cohort: Cohort
    design: HazardDesign
    population: Population


def _cohort(
    rng: np.random.Generator,
    kinds: Sequence[str | float],
    effects: Sequence[float],
    persons: int,
    rate: float,
    shape: float = 1.3,
    censoring: float = np.inf,
    **more: float,
) -> Cohort:
    """Persons with columns "n" (normal), "s" (log-normal) or yes with a probability, of which ``correlated`` is shared.

    ``rate`` is the share of typical persons with an event before the horizon without censoring.  With ``late`` half
    of the persons enter late; the effect ``fades`` of the first yes/no column is gone after a
    third of follow-up.
    """
    n = POPULATION
    shared = more.get("correlated", 0.0)
    z = np.sqrt(1 - shared) * rng.normal(size=(n, len(kinds)))
    z += np.sqrt(shared) * rng.normal(size=(n, 1))
    columns: dict[str, Array] = {}
    line = np.zeros(n)
    for j, (kind, effect) in enumerate(zip(kinds, effects, strict=True)):
        if kind == "n":
            values = np.clip(z[:, j] / 3, -1, 1)
        elif kind == "s":
            values = np.clip(np.exp(0.8 * z[:, j]) / 5 - 1, -1, 1)
        else:
            values = (z[:, j] > np.quantile(z[:, j], 1 - float(kind))).astype(float)
        columns[f"x{j}"] = values
        line += effect * values
    scale = _HORIZON * (-np.log(1 - rate)) ** (-1 / shape)
    time = scale * rng.weibull(shape, n) * np.exp(-(line - line.mean()) / shape)
    if "fades" in more:
        first = next(j for j, kind in enumerate(kinds) if not isinstance(kind, str))
        until = _HORIZON / 3
        after = until + (time - until) * np.exp(more["fades"])
        time = np.where((columns[f"x{first}"] > 0) & (time > until), after, time)
    end = np.minimum(rng.exponential(censoring, n) if np.isfinite(censoring) else np.inf, _HORIZON)
    table = pd.DataFrame(columns)
    table["exit"] = np.maximum(np.minimum(time, end), 1e-4)
    table["event"] = (time <= end).astype(int)
    if more.get("late"):
        table["entry"] = np.where(rng.random(n) < 0.5, rng.uniform(0, _HORIZON / 2, n), 0.0)
        table = table[table["exit"] > table["entry"]].reset_index(drop=True)
    numbers = {f"x{j}": (-1.0, 1.0) for j, kind in enumerate(kinds) if isinstance(kind, str)}
    levels = {f"x{j}": ("no", "yes") for j, kind in enumerate(kinds) if not isinstance(kind, str)}
    for name in levels:
        table[name] = np.where(table[name] > 0, "yes", "no")
    return Cohort(table, persons, numbers, levels)


def _time_varying(rng: np.random.Generator, persons: int) -> Cohort:
    """A treatment that starts at a random time: two spells for those who start within follow-up."""
    n = POPULATION
    z = np.clip(rng.normal(size=(n, 3)) / 3, -1, 1)
    sex = rng.random(n) < 0.5
    begin = rng.exponential(6, n)
    base = np.exp(0.8 * z[:, 0] - 0.5 * z[:, 1] + 0.4 * sex) * 0.06
    e = rng.exponential(1, n)
    before = e / base
    time = np.where(before <= begin, before, begin + (e - base * begin) / (base * np.exp(-0.6)))
    end = np.minimum(rng.exponential(20, n), _HORIZON)
    stop = np.maximum(np.minimum(time, end), 1e-4)
    two = stop > begin
    first = pd.DataFrame({f"x{j}": z[:, j] for j in range(3)})
    first["sex"] = np.where(sex, "yes", "no")
    first["id"] = np.arange(n)
    second = first[two].copy()
    first = first.assign(
        treated="no",
        entry=0.0,
        exit=np.where(two, begin, stop),
        event=((time <= end) & ~two).astype(int),
    )
    second = second.assign(
        treated="yes", entry=begin[two], exit=stop[two], event=(time <= end)[two].astype(int)
    )
    table = pd.concat([first, second], ignore_index=True)
    numbers = {f"x{j}": (-1.0, 1.0) for j in range(3)}
    return Cohort(table, persons, numbers, {"sex": ("no", "yes"), "treated": ("no", "yes")})


def _rotterdam(folder: Path) -> Cohort:
    """Deaths of women with breast cancer, up to 20 years."""
    t = pd.read_parquet(folder / "rotterdam.parquet")
    table = pd.DataFrame(
        {
            "age": t["age"],
            "nodes": np.log1p(t["nodes"]),
            "size": t["size"].astype(str),
            "grade": np.where(t["grade"] == 3, "3", "2"),
            "hormon": np.where(t["hormon"] > 0, "yes", "no"),
            "chemo": np.where(t["chemo"] > 0, "yes", "no"),
            "meno": np.where(t["meno"] > 0, "yes", "no"),
            "exit": t["dtime"] / 365.25,
            "event": t["death"],
        }
    )
    yes = ("no", "yes")
    levels = {"size": ("<=20", "20-50", ">50"), "grade": ("2", "3")}
    levels |= {"hormon": yes, "chemo": yes, "meno": yes}
    numbers = {"age": (20.0, 90.0), "nodes": (0.0, 4.0)}
    return Cohort(table, len(table), numbers, levels, (1, 2, 3, 4, 6, 8, 10), 20.0)


def _prostate(folder: Path) -> Cohort:
    """Deaths of any cause after prostate cancer, up to 11 years."""
    t = pd.read_parquet(folder / "prostate_survival.parquet")
    table = pd.DataFrame(
        {
            "grade": t["grade"].astype(str),
            "stage": t["stage"].astype(str),
            "age": t["ageGroup"].astype(str),
            "exit": t["survTime"] / 12 + 1e-3,
            "event": (t["status"] > 0).astype(int),
        }
    )
    levels = {
        "grade": ("mode", "poor"),
        "stage": ("T1ab", "T1c", "T2"),
        "age": ("66-69", "70-74", "75-79", "80+"),
    }
    return Cohort(table, len(table), {}, levels, (1, 2, 3, 4, 5, 6, 8), 11.0)


_SIX = ("n", "n", 0.5, 0.2, 0.05, "n")
_EIGHT = ("n", "n", 0.5, 0.2, 0.05, "n", 0.3, "n")
_TEN = ("n", "n", 0.5, 0.25, "n", "n", 0.3, 0.1, "n", 0.5)
_TWELVE = ("n", "n", 0.5, 0.2, 0.05, "n", 0.3, 0.1, "n", 0.5, "n", 0.4)
_MAKERS: dict[str, Callable[[np.random.Generator], Cohort]] = {
    "syn_32_20k": lambda rng: _cohort(
        rng, _SIX, (1, -0.5, 0.4, 0.7, -0.3, 0.2), 20_000, 0.42, censoring=15
    ),
    "syn_60_5k": lambda rng: _cohort(
        rng, ("n", "n", 0.4, 0.1, "n"), (0.9, 0.6, -0.5, 0.3, 0.4), 5_000, 0.7, 0.9, 40
    ),
    "syn_5_50k": lambda rng: _cohort(
        rng, _EIGHT, (1.2, -0.6, 0.5, 0.8, 0, 0.3, -0.4, 0.6), 50_000, 0.08, censoring=15, correlated=0.2
    ),
    "syn_50_2k": lambda rng: _cohort(
        rng, ("n", "n", 0.5, 0.3, "n"), (0.8, -0.5, 0.4, 0.5, 0.3), 2_000, 0.55, censoring=30
    ),
    "syn_tv_8k": lambda rng: _time_varying(rng, 8_000),
    "syn_10_10k_late": lambda rng: _cohort(
        rng, _TEN, (0.8, -0.4, 0.5, 0.6, 0.3, 0.5, -0.3, 0.2, 0.4, 0.1), 10_000, 0.16, censoring=20,
        late=True, correlated=0.25,
    ),
    "syn_skew_20k": lambda rng: _cohort(
        rng, ("s", "s", 0.5, 0.02, "n", "n"), (0.8, -0.5, 0.9, 0.5, 0.3, 0.4), 20_000, 0.25,
        censoring=25, correlated=0.3,
    ),
    "syn_30_20k_nonph": lambda rng: _cohort(
        rng, ("n", "n", 0.5, 0.2, "n"), (0.8, -0.5, 0.9, 0.5, 0.3), 20_000, 0.35, censoring=25, fades=0.9
    ),
    "syn_2_100k": lambda rng: _cohort(
        rng, _TWELVE, (1, -0.5, 0.5, 0.7, 0.4, 0.3, -0.3, 0.2, 0.5, 0, 0.3, -0.2), 100_000, 0.03, censoring=15
    ),
    # two that the method was not tuned on: strong effects with a steep hazard, and many levels
    "syn_strong_10k": lambda rng: _cohort(
        rng, ("n", "n", 0.5, 0.3, "n"), (3.0, -2.0, 1.2, -1.0, 1.0), 10_000, 0.5, shape=2.0, censoring=20
    ),
    "syn_falling_15k": lambda rng: _cohort(
        rng, ("n", 0.5, 0.3, 0.1, 0.05, "n"), (0.6, 0.4, -0.6, 0.5, 0.7, -0.3), 15_000, 0.3, shape=0.5,
        censoring=12, correlated=0.3,
    ),
}  # fmt: skip
_TABLES = {"rotterdam": _rotterdam, "prostate": _prostate}
DESIGNS = (*_TABLES, *_MAKERS)


@lru_cache(maxsize=2)
def cohort(name: str, folder: Path) -> Cohort:
    """A design by its name; made-up ones are the same in every run."""
    if name in _TABLES:
        return _TABLES[name](folder)
    return _MAKERS[name](np.random.default_rng(sum(map(ord, name))))


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> Encoded:
    """A design as the package encodes it."""
    made = cohort(name, folder)
    schema = made.schema
    response, terms = parse(made.formula, schema)
    design, pending = read(made.table, response, terms, HAZARD, schema.unit)
    assert isinstance(design, HazardDesign)
    return Encoded(made, design, Population.of_records(pending.rows()))


def model(name: str, folder: Path, budget: dp.ZCDP | dp.ApproxDP) -> dp.HazardRegression:
    """The model of a design, as a user writes it."""
    made = cohort(name, folder)
    return dp.HazardRegression(made.formula, schema=made.schema, budget=budget)
