"""A factor whose reference level next to nobody has: what the lines say, and that the advice works."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp

SCHEMA = dp.Schema.parse(
    """
    [columns.ill]
    type = "outcome"
    levels = [false, true]
    [columns.cost]
    type = "number"
    low = -5
    high = 15
    [columns.age]
    type = "number"
    low = 18
    high = 90
    [columns.colour]
    type = "category"
    levels = ["none", "blue", "green"]
    """
)


def records(n=20_000):
    """Four are at the reference, a third of the others has the level green."""
    rng = np.random.default_rng(0)
    colours = rng.choice(["blue", "green"], n, p=[2 / 3, 1 / 3])
    colours[:4] = "none"
    age = rng.uniform(18, 90, n)
    score = -1 + 0.02 * age + 0.5 * (colours == "blue")
    return pd.DataFrame(
        {
            "colour": colours,
            "age": age,
            "ill": rng.random(n) < 1 / (1 + np.exp(-score)),
            "cost": 0.1 * age + (colours == "blue") + rng.normal(0, 1, n),
        }
    )


@pytest.mark.parametrize(
    ("model", "outcome"), [(dp.LogisticRegression, "ill"), (dp.LinearRegression, "cost")]
)
def test_a_rare_reference_is_named_and_another_level_helps(model, outcome):
    table = records()
    options = {"schema": SCHEMA, "budget": dp.ZCDP(0.5), "insecure_seed": 1}
    result = model(f"{outcome} ~ age + colour", **options).fit(table).result_
    statuses = dict(zip(result.names, result.statuses, strict=True))
    for level in ("colour[blue]", "colour[green]"):
        assert "its reference level" in statuses[level]
        assert "separated" not in statuses[level]
        assert "such as blue: C(colour, level)" in statuses[level]
    advised = model(f"{outcome} ~ age + C(colour, 'blue')", **options).fit(table).result_
    assert dict(zip(advised.names, advised.reported, strict=True))["colour[green]"]
    columns = dict(SCHEMA.columns)
    columns["colour"] = dataclasses.replace(columns["colour"], reference="blue")
    stated = options | {"schema": dp.Schema(columns)}
    declared = model(f"{outcome} ~ age + colour", **stated).fit(table).result_
    assert np.array_equal(declared.estimate, advised.estimate)


@pytest.mark.parametrize(
    ("model", "outcome", "reason"),
    [
        (dp.LogisticRegression, "ill", "too few events of one kind"),
        (dp.LinearRegression, "cost", "too few records of this level"),
    ],
)
def test_a_rare_level_is_named_by_what_it_lacks(model, outcome, reason):
    """Events are those of an outcome with two levels; a number has records alone."""
    table = records()
    options = {"schema": SCHEMA, "budget": dp.ZCDP(0.5), "insecure_seed": 1}
    result = model(f"{outcome} ~ age + C(colour, 'blue')", **options).fit(table).result_
    status = dict(zip(result.names, result.statuses, strict=True))["colour[none]"]
    assert status.startswith("not reported: ")
    assert reason in status
