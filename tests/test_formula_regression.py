import numpy as np
import pandas as pd
import pytest

import dpinfer as dp

RNG = np.random.default_rng(0)
T = pd.DataFrame({"age": RNG.uniform(20, 60, 3000), "sex": RNG.choice(["f", "m"], 3000)})
T["wage"] = 20 + 0.5 * T["age"] + 3 * (T["sex"] == "m") + 2 * RNG.standard_normal(3000)
S = dp.Schema.parse("""
[columns.wage]
type="outcome"
low=0
high=80
[columns.age]
type="number"
low=18
high=70
[columns.sex]
type="category"
levels=["f","m"]
""")


@pytest.mark.parametrize("cls", [dp.HuberRegression, dp.QuantileRegression])
def test_formula(cls):
    m = cls("wage ~ age + sex", schema=S, budget=dp.NoPrivacy(), penalty=0.0).fit(T)
    X = np.column_stack([T["age"], T["sex"] == "m"]).astype(float)
    a = cls(bounds=([18, 0], [70, 1]), outcome=(0, 80), budget=dp.NoPrivacy(), penalty=0.0).fit(X, T["wage"])
    assert np.allclose(m.coef_, a.coef_, rtol=1e-6) and np.isclose(m.intercept_, a.intercept_)
    assert np.allclose(m.predict(T), a.predict(X))
    n = cls("wage ~ 0 + age + sex", schema=S, budget=dp.NoPrivacy(), penalty=0.0).fit(T)
    print(n.result_.summary())
    assert n.intercept_ == 0
    assert abs(np.median(T["wage"] - n.predict(T))) < 1
    st = dp.simulate.coverage(
        T, schema=S, formula="wage ~ age + sex", loss=dp.Huber(0.1), budget=dp.ZCDP(0.5), replicates=200
    )
    print(st.summary())
    assert abs(st.target[0] - 20) < 3 and st.mean_coverage > 0.85
    with pytest.raises(dp.InputError, match="drop outcome="):
        cls("wage ~ age", schema=S, budget=dp.NoPrivacy(), outcome=(0, 1)).fit(T)
    with pytest.raises(dp.InputError, match="two levels"):
        dp.LogisticRegression("wage ~ age", schema=S, budget=dp.NoPrivacy()).fit(T)
