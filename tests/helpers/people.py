"""A table with several rows a person, and schemas for it."""

import re

import numpy as np
import pandas as pd

import dpinfer as dp

PERSONS, ROWS = 3001, 12_347
COLUMNS = """
[columns.y]
type = "outcome"
levels = [false, true]
[columns.a]
type = "number"
low = 0
high = 10
[columns.b]
type = "category"
levels = ["p", "q"]
[columns.cost]
type = "number"
low = -10
high = 20
"""
UNIT = '[unit]\nname = "one person"\ncolumn = "person"\n'
AVERAGE = UNIT + 'rows = "average"\n'
EVERY = UNIT + 'rows = "every"\n'
WEIGHTS = '[weights]\ncolumn = "w"\nmost = 6.0\n'


def schema(head=AVERAGE):
    return dp.Schema.parse(head + COLUMNS)


def table(rows=ROWS, persons=PERSONS, seed=0):
    """Everybody has a row at least; rows are in no order, and correlated within a person."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([np.arange(persons), rng.integers(0, persons, rows - persons)])
    rng.shuffle(ids)
    effect, a = rng.normal(0, 1, persons)[ids], rng.uniform(0, 10, rows)
    return pd.DataFrame(
        {
            "person": ids + 1,
            "a": a,
            "b": rng.choice(["p", "q"], rows),
            "y": rng.random(rows) < 1 / (1 + np.exp(-(a - 5) / 2 - effect)),
            "cost": a + effect + rng.normal(0, 1, rows),
            "w": rng.uniform(0.5, 1.5, rows),
        }
    )


def tells(text, number):
    """Whether a number stands in a text, with or without a comma."""
    digits = f"{number:,}".replace(",", ",?")
    return re.search(rf"(?<![\d.]){digits}(?!\d)", text) is not None
