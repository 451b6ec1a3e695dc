"""The data sets of the study, each with a least-squares question and public bounds."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

import dpinfer as dp
from dpinfer.schema.formula import parse
from dpinfer.tables.table import read
from studies.asked import Data, Whole
from studies.linear import designs as linear

NAMES = {
    "cps_wage": "CPS, log wage",
    "adult_s": "Adult, hours",
    "bank_age": "Bank, age",
    "acs_log": "ACS, log income",
    "uniform_3": "simulated, uniform",
}
"""The data sets by their short names, in the order of the page."""

_CPS = """
unit = "one earner"
columns.log_wage = {type = "number", low = 0, high = 15}
columns.educ_years = {type = "number", low = 0, high = 22}
columns.experience = {type = "number", low = 0, high = 60}
columns.experience_sq = {type = "number", low = 0, high = 3600}
columns.female = {type = "number", low = 0, high = 1}
"""
_UNIFORM = """
unit = "one record"
columns.y = {type = "number", low = -30, high = 50}
columns.x1 = {type = "number", low = 0, high = 10}
columns.x2 = {type = "number", low = 0, high = 10}
columns.x3 = {type = "number", low = 0, high = 10}
"""
_RECORDS = 20_000  # of the simulated table
_SLOPES = (1.0, -0.5, 0.25)
_ERROR_SD = 5.0


@lru_cache(maxsize=2)
def load(name: str, folder: Path) -> Data:
    """Return the encoded records of a data set, with outcomes scaled to [-1, 1]."""
    if name == "cps_wage":
        table = pd.read_parquet(folder / "cps_asec_2024_wages.parquet")
        return _encoded(table, _CPS, "log_wage ~ educ_years + experience + experience_sq + female")
    if name == "uniform_3":
        return _encoded(_uniform(), _UNIFORM, "y ~ x1 + x2 + x3")
    return linear.load(name, folder)


@lru_cache(maxsize=2)
def whole(name: str, folder: Path) -> Whole:
    """Return the population of a data set, and least squares of all its columns."""
    return Whole.of(load(name, folder), squares=True)


def _encoded(table: pd.DataFrame, schema: str, formula: str) -> Data:
    response, terms = parse(formula, dp.Schema.parse(schema))
    design, pending = read(table, response, terms, "residual")
    block = pending.rows().block
    return Data(block.rows, block.labels, design)


def _uniform() -> pd.DataFrame:
    """Return records with three independent predictors, uniform on 0 to 10, and normal errors."""
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 10.0, (_RECORDS, 3))
    y = 5.0 + x @ _SLOPES + rng.normal(scale=_ERROR_SD, size=_RECORDS)
    return pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "x3": x[:, 2], "y": y})
