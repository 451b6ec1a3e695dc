"""The designs of the study: tables with ids of persons and public bounds, encoded by the package
itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

import dpinfer as dp
from dpinfer.numerics.arrays import Indices
from dpinfer.rows.source import Rows
from dpinfer.schema.columns import Category, Number, Outcome
from dpinfer.schema.design import Design
from dpinfer.schema.terms import ModelTerms, Response, of_column
from dpinfer.schema.unit import Unit
from dpinfer.simulate.population import Population
from dpinfer.tables.ids import identities
from dpinfer.tables.table import read
from studies.geometry.designs import factor

BINARY = ("gsoep", "rand", "visits")
NUMERIC = ("gsoep_log", "visits_score")
MOST_VISITS = 100.0
"""To a doctor in a quarter: public, and more are taken for as many."""
PERSONS = 20_000
"""Of the synthetic visits."""


@dataclass(frozen=True, eq=False)
class Question:
    """A table with a column ``outcome``, ids, and its terms; ``limits`` is the range of a numeric
    outcome.
    """

    table: pd.DataFrame
    ids: Any
    terms: list[Number | Category]
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class People:
    """Encoded rows, whose they are, and the public design, in which a unit is a row."""

    rows: Rows
    units: Indices
    design: Design

    @property
    def most(self) -> int:
        """The largest number of rows of a person."""
        return int(np.bincount(self.units).max())

    def of_units(self, rows: float) -> tuple[Design, Population]:
        """Persons, whose rows count alike up to ``rows`` of them."""
        unit = Unit("one person", "id", rows)
        return replace(self.design, unit=unit), Population.of_records(
            self.rows.counted(unit.max_total, self.units)
        )


@lru_cache(maxsize=1)
def load(name: str, folder: Path) -> People:
    """A design by its name, from the folder of the data files."""
    asked = {"gsoep": _gsoep, "visits": _visits, "rand": _rand}[name.partition("_")[0]](
        name, folder
    )
    if asked.limits is None:
        response = Response(Outcome("outcome", (False, True)))
        kind = "margin"
    else:
        response = Response(of_column(Number("outcome", *asked.limits)))
        kind = "residual"
    design, pending = read(asked.table, response, ModelTerms.plain(asked.terms), kind)
    return People(pending.rows(), identities("ids", asked.ids, len(asked.table)), design)


def _numbers(limits: Mapping[str, tuple[float, float]]) -> list[Number | Category]:
    return [Number(name, *ends) for name, ends in limits.items()]


def _gsoep(name: str, folder: Path) -> Question:
    """Did a person see a doctor in a quarter, and how often; five years of a survey, with its ids."""
    table = pd.read_parquet(folder / "gsoep_rwm5yr.parquet")
    terms = _numbers({"age": (25.0, 64.0), "hhninc": (0.0, 15.0), "educ": (7.0, 18.0)})
    terms += [
        factor(table, column) for column in ("outwork", "female", "married", "kids", "self", "year")
    ]
    if name == "gsoep":
        table["outcome"] = table["docvis"] > 0
        return Question(table, table["id"].to_numpy(), terms)
    table["outcome"] = np.log1p(table["docvis"])
    return Question(table, table["id"].to_numpy(), terms, (0.0, float(np.log1p(MOST_VISITS))))


def _rand(_: str, __: Path) -> Question:
    """The persons are reconstructed: `persons`."""
    table = dp.datasets.rand_hie().table
    ids = persons(table)
    for short, level in (("hlthg", "good"), ("hlthf", "fair"), ("hlthp", "poor")):
        table[short] = (table["health"] == level).astype(float)
    columns = ("lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp")
    table["outcome"] = table["mdvis"] > 0
    return Question(
        table, ids, _numbers({column: (0.0, float(table[column].max())) for column in columns})
    )


def persons(table: pd.DataFrame) -> Indices:
    """Ids of RAND HIE, approximately: the extract has none.

    The rows of a person follow each other with equal covariates, and persons took part for three or
    five years.  So a run of more than five equal rows is several persons of five rows or, where
    only three divides it, of three.
    """
    covariates = table.drop(columns=["mdvis", "visit"]).astype({"health": str})
    run = (covariates != covariates.shift()).any(axis=1).cumsum().to_numpy() - 1
    length = np.bincount(run)
    years = np.where((length % 5 != 0) & (length % 3 == 0), 3, 5)
    place = np.arange(len(run)) - (np.cumsum(length) - length)[run]
    first = place % np.where(length > 5, years, length)[run] == 0
    return np.asarray(np.cumsum(first) - 1)


def _visits(name: str, _: Path) -> Question:
    """A geometric number of rows, four on average; two covariates of the person, one of both, two
    of the row.
    """
    rng = np.random.default_rng(3)
    number = np.minimum(rng.geometric(0.25, PERSONS), 40)
    ids = np.repeat(np.arange(PERSONS), number)
    n = len(ids)
    person = rng.standard_normal((PERSONS, 3))
    mixed = 0.6 * person[ids, 2:] + 0.8 * rng.standard_normal((n, 1))
    x = np.hstack([person[ids, :2], mixed, rng.standard_normal((n, 2))])
    sex = (rng.random(PERSONS) < 0.5)[ids]
    eta = (
        -0.5
        + x @ np.array([0.5, -0.4, 0.4, 0.3, 0.0])
        + 0.3 * sex
        + 1.2 * rng.standard_normal(PERSONS)[ids]
    )
    table = pd.DataFrame(x, columns=list("abcde"))
    table["sex"] = sex.astype(int)
    terms = [*_numbers(dict.fromkeys("abcde", (-4.0, 4.0))), factor(table, "sex")]
    if name == "visits":
        table["outcome"] = rng.random(n) < expit(eta)
        return Question(table, ids, terms)
    table["outcome"] = eta + rng.standard_normal(n)
    return Question(table, ids, terms, (-10.0, 10.0))
