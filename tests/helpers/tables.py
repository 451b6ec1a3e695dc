"""A schema with every type of column, and tables that fit it."""

import numpy as np
import pandas as pd

import dpinfer as dp

TEXT = """
title = "t"
unit = "one person"

[columns.ill]
type = "outcome"
levels = [false, true]

[columns.cost]
type = "outcome"
low = -10
high = 30
unit = "euro"

[columns.age]
type = "number"
low = 18
high = 100
unit = "year"
centre = 50
scale = 10

[columns.w]
type = "number"
low = -3
high = 4

[columns.sex]
type = "category"
levels = ["f", "m"]
description = "as registered"
source = "the form"

[columns.h]
type = "category"
levels = ["fair", "good", "poor"]
reference = "good"

[columns.k]
type = "integer"
low = 1
high = 3
levels = [1, 2, 3]

[columns.visits]
type = "integer"
low = 0
high = 50

[columns.smoker]
type = "boolean"

[columns."my column"]
type = "number"
low = 0
high = 1
"""
SCHEMA = dp.Schema.parse(TEXT)


def table(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, n),
            "w": rng.normal(0, 1, n).clip(-3, 3),
            "sex": rng.choice(["f", "m"], n),
            "h": rng.choice(["fair", "good", "poor"], n),
            "k": rng.integers(1, 4, n),
            "visits": rng.poisson(2, n),
            "smoker": rng.random(n) < 0.3,
        }
    )
    score = (
        -2 + 0.02 * frame["age"] + 0.3 * frame["w"] + 0.5 * (frame["sex"] == "f") + 0.1 * frame["k"]
    )
    frame["ill"] = rng.random(n) < 1 / (1 + np.exp(-score))
    frame["cost"] = 5 * frame["w"] + rng.normal(0, 2, n)
    return frame
