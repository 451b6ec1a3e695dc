"""A schema with derived columns of every kind, a table that fits it, and what pandas makes of it."""

import numpy as np
import pandas as pd

import dpinfer as dp

BASE = """
unit = "one person"

[columns.claims]
type = "integer"
low = 0
high = 40

[columns.age]
type = "number"
low = 18
high = 100

[columns.income]
type = "number"
low = 1
high = 9

[columns.region]
type = "category"
levels = ["north", "south", "east", "West Side"]

[columns.grade]
type = "integer"
low = 1
high = 3
levels = [1, 2, 3]

[columns.smoker]
type = "boolean"

[columns.admitted]
type = "date"
low = 2019-03-05
high = "2022-12-31"
"""
TEXT = (
    BASE
    + """
[columns.senior]
from = "age >= 65"
description = "of the age of a pension"

[columns.group]
from = "cut(age, 30, 50, 65)"

[columns.coast]
from = "merge(region, {'the coast': ('north', 'east')})"

[columns.old_smoker]
from = "senior and smoker"

[columns.any_claim]
from = "claims > 0"
"""
)
SCHEMA = dp.Schema.parse(TEXT)


def table(n=2000, seed=0):
    """All cells within their bounds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 101, n).astype(float),
            "income": rng.uniform(1, 9, n),
            "region": rng.choice(["north", "south", "east", "West Side"], n),
            "grade": rng.integers(1, 4, n),
            "smoker": rng.random(n) < 0.3,
            "admitted": np.datetime64("2019-03-05") + rng.integers(0, 1398, n),
        }
    )
    rate = np.exp(-1 + 0.8 * (frame["age"] >= 65) + 0.4 * frame["smoker"])
    frame["claims"] = rng.poisson(rate)
    return frame
