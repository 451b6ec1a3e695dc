"""A table of claims with the time insured, of persons with several policies, and its schema."""

import numpy as np
import pandas as pd

import dpinfer as dp

COLUMNS = """
[columns.claims]
type = "integer"
low = 0
high = 1000
[columns.age]
type = "integer"
low = 18
high = 90
[columns.region]
type = "category"
levels = ["north", "south", "west"]
[columns.years]
type = "number"
low = 0
high = 2
"""
UNIT = '[unit]\nname = "one person"\ncolumn = "person"\nrows = "average"\n'
EVERY = UNIT.replace("average", "every")
FORMULA = "claims ~ age + region"
WITH_OFFSET = FORMULA + " + offset(log(years))"
SLOPES = (-0.02, 0.5, -0.4)
"""Of age, south and west."""


def schema(head=""):
    return dp.Schema.parse(head + COLUMNS)


def table(n=6000, seed=0):
    """Overdispersed; the log rate is linear in the columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 91, n),
            "region": rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2]),
            "years": rng.beta(2, 1, n).round(3) * 2,
            "person": rng.permutation(np.arange(n) // 2),
        }
    )
    age, south, west = SLOPES
    predictor = age * (frame["age"] - 50) + south * (frame["region"] == "south")
    predictor += west * (frame["region"] == "west")
    rate = frame["years"] * np.exp(predictor) * rng.gamma(2, 0.5, n)
    frame.insert(0, "claims", rng.poisson(rate))
    return frame


def model(formula=FORMULA, head="", **options):
    """With the exposure by its name, unless the formula has it."""
    if "offset" not in formula:
        options.setdefault("exposure", "years")
    options.setdefault("budget", dp.ZCDP(0.5))
    return dp.PoissonRegression(formula, schema=schema(head), **options)
