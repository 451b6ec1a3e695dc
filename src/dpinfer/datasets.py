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


def cohort(persons: int = 20_000) -> Dataset:
    """Make up a cohort of patients with survival times, the same each time.

    Parameters
    ----------
    persons : int
        How many patients there are.

    Returns
    -------
    Dataset
        The ``table`` as a pandas data frame, its ``schema``, and a ``formula`` to begin with.

    Notes
    -----
    No person is behind a row: hazards grow slowly with time, by exp(.03) per year of age and exp(.4) and
    exp(.9) in the stages II and III, and treatment takes a third off them.  Follow-up ends after ten years;
    some patients leave before.

    Examples
    --------
    >>> import dpinfer as dp
    >>> data = dp.datasets.cohort()
    >>> data.table.columns.tolist()
    ['age', 'stage', 'treated', 'years', 'died']
    >>> data.formula
    'Surv(years, died, cuts=[1, 2, 3, 5, 7], horizon=10) ~ age + stage + treated'
    """
    rng = np.random.default_rng(1972)
    age = np.clip(np.round(rng.normal(62, 11, persons)), 30, 90)
    stage = rng.choice(["I", "II", "III"], persons, p=[0.5, 0.35, 0.15])
    treated = rng.random(persons) < 0.5
    log_hazard = 0.03 * (age - 62) + np.log(2 / 3) * treated
    log_hazard += np.select([stage == "II", stage == "III"], [0.4, 0.9], 0.0)
    death = (rng.exponential(1, persons) * np.exp(-log_hazard) / 0.055) ** (1 / 1.15)
    end = np.minimum(rng.exponential(18, persons), 10.0)
    years = np.maximum(np.round(np.minimum(death, end), 3), 0.001)
    table = pd.DataFrame(
        {"age": age, "stage": stage, "treated": treated, "years": years, "died": death <= end}
    )
    schema = (files("dpinfer") / "_datasets" / "cohort.toml").read_text(encoding="utf-8")
    return Dataset(
        table=table,
        schema=Schema.parse(schema),
        formula="Surv(years, died, cuts=[1, 2, 3, 5, 7], horizon=10) ~ age + stage + treated",
    )


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
