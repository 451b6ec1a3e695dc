import numpy as np
import pandas as pd
import pytest

import dpinfer as dp
from dpinfer.simulate.practice import practice

TEXT = """
[unit]
name = "one person"
column = "person"
[weights]
column = "w"
most = 5.0
[columns.y]
type = "outcome"
levels = ["no", "yes"]
typical = { yes = 0.2 }
[columns.cost]
type = "outcome"
low = 0
high = 10
[columns.age]
type = "integer"
low = 18
high = 99
typical = { mean = 40, sd = 10 }
[columns.sex]
type = "category"
levels = ["f", "m", "<script>alert(1)</script>"]
[columns.smokes]
type = "boolean"
[columns.since]
type = "date"
low = 2015-01-01
high = 2024-12-31
[columns.old]
from = "age >= 65"
"""


def test_guarantee_practice_is_made_up():
    """By schema, number and seed alone, inside public bounds and levels, around what is typical."""
    schema = dp.Schema.parse(TEXT)
    frame = practice(schema, 5000)
    pd.testing.assert_frame_equal(frame, practice(dp.Schema.parse(TEXT), 5000))
    assert not frame.equals(practice(schema, 5000, seed=1))
    assert list(frame) == ["person", "y", "cost", "age", "sex", "smokes", "since", "w"]
    assert set(frame.y) == {"no", "yes"}
    assert (frame.y == "yes").mean() == pytest.approx(0.2, abs=0.03)
    assert frame.age.dtype.kind == "i"
    assert frame.age.between(18, 99).all()
    assert frame.age.mean() == pytest.approx(40, abs=1)
    assert set(frame.sex) == {"f", "m", "<script>alert(1)</script>"}
    assert frame.since.min() >= "2015-01-01"
    assert frame.since.max() <= "2024-12-31"
    assert frame.cost.between(0, 10).all()
    assert frame.w.between(0, 5).all()
    assert frame.person.nunique() < 5000


def test_a_practice_table_is_fitted_like_the_real_one(tmp_path):
    schema = dp.Schema.parse(TEXT)
    practice(schema, 400).to_csv(tmp_path / "practice.csv", index=False)
    model = dp.LogisticRegression(
        "y ~ age + sex + old + smokes", schema=schema, budget=dp.ZCDP(1e4)
    ).fit(tmp_path / "practice.csv")
    assert np.isfinite(model.result_.estimate).all()
    for records in (0, 10**7):
        with pytest.raises(dp.InputError, match="1 to 1,000,000 rows"):
            practice(schema, records)
