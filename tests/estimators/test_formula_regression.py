"""Regressors on a table: the same numbers as on arrays, in the units of the schema."""

import numpy as np
import pandas as pd
import pytest

import dpinfer as dp

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"age": RNG.uniform(20, 60, 3000), "sex": RNG.choice(["f", "m"], 3000)})
TABLE["wage"] = 20 + 0.5 * TABLE["age"] + 3 * (TABLE["sex"] == "m") + 2 * RNG.standard_normal(3000)
SCHEMA = dp.Schema.parse("""
[columns.wage]
type = "outcome"
low = 0
high = 80
[columns.age]
type = "number"
low = 18
high = 70
[columns.sex]
type = "category"
levels = ["f", "m"]
""")
EXACT = {"budget": dp.NoPrivacy(), "penalty": 0.0}
BOTH = pytest.mark.parametrize("estimator", [dp.HuberRegression, dp.QuantileRegression])


@BOTH
def test_a_table_and_its_arrays_give_the_same_fit(estimator):
    fitted = estimator("wage ~ age + sex", schema=SCHEMA, **EXACT).fit(TABLE)
    X = np.column_stack([TABLE["age"], TABLE["sex"] == "m"]).astype(float)
    array = estimator(bounds=([18, 0], [70, 1]), outcome=(0, 80), **EXACT).fit(X, TABLE["wage"])
    assert np.allclose(fitted.coef_, array.coef_, rtol=1e-6)
    assert np.isclose(fitted.intercept_, array.intercept_)
    assert np.allclose(fitted.predict(TABLE), array.predict(X))


@BOTH
def test_without_an_intercept(estimator):
    fitted = estimator("wage ~ 0 + age + sex", schema=SCHEMA, **EXACT).fit(TABLE)
    assert fitted.intercept_ == 0
    assert fitted.result_.names == ("age", "sex[f]", "sex[m]")
    assert abs(np.median(TABLE["wage"] - fitted.predict(TABLE))) < 0.2
    assert np.allclose(fitted.coef_, [0.5, 20, 23], rtol=0.05)


def test_a_study_of_a_table():
    study = dp.simulate.coverage(
        TABLE,
        schema=SCHEMA,
        formula="wage ~ age + sex",
        loss=dp.Huber(0.1),
        budget=dp.ZCDP(0.5),
        replicates=256,
    )
    limit = 4 * np.sqrt(0.95 * 0.05 / 256)
    assert np.all(study.coverage > 0.95 - limit)
    assert study.target[0] == pytest.approx(20, abs=3)


@BOTH
def test_faults(estimator):
    with pytest.raises(dp.InputError, match="drop outcome="):
        estimator("wage ~ age", schema=SCHEMA, outcome=(0, 1), **EXACT).fit(TABLE)
    with pytest.raises(dp.InputError, match="two levels"):
        dp.LogisticRegression("wage ~ age", schema=SCHEMA, **EXACT).fit(TABLE)
