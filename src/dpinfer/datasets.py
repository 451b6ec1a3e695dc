"""Public data sets that come with the package."""

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pandas as pd

from dpinfer.schema.schema import Schema


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table, its schema, and a question to begin with.

    Attributes
    ----------
    table : DataFrame
        The records.
    schema : Schema
        What is public about the columns.
    formula : str
        A regression to begin with.
    """

    table: pd.DataFrame
    schema: Schema
    formula: str


def rand_hie() -> Dataset:
    """Load the RAND Health Insurance Experiment: does cost sharing keep people from seeing a doctor?

    Returns
    -------
    Dataset
        The ``table`` as a pandas data frame, its ``schema``, and a ``formula`` to begin with.

    Notes
    -----
    The table has 20,190 person-years and is in the public domain (Manning et al., 1987, Health
    insurance and the demand for medical care; Cameron and Trivedi, 2005, Microeconometrics).
    ``visit`` is mdvis > 0; ``health`` joins the three dummies of the source.  The rows are
    person-years, so that the unit protected is one person-year, not one person.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.rand_hie()
    >>> data.table.shape
    (20190, 9)
    >>> data.formula
    'visit ~ lncoins + idp + lpi + fmde + physlm + disea + health'
    """
    folder = files("dpinfer") / "_datasets"
    with (folder / "rand_hie.csv.gz").open("rb") as file:
        table = pd.read_csv(file, compression="gzip")
    levels = ["excellent", "good", "fair", "poor"]
    health = np.select(
        [table["hlthg"] == 1, table["hlthf"] == 1, table["hlthp"] == 1], levels[1:], levels[0]
    )
    table = table.drop(columns=["hlthg", "hlthf", "hlthp"])
    table["health"] = pd.Categorical(health, categories=levels)
    table["visit"] = table["mdvis"] > 0
    return Dataset(
        table=table,
        schema=Schema.parse((folder / "rand_hie.toml").read_text(encoding="utf-8")),
        formula="visit ~ lncoins + idp + lpi + fmde + physlm + disea + health",
    )
