import numpy as np
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.schema.columns import Number

DEMO = dp.datasets.rand_hie()


def test_the_bundled_table_is_the_source():
    source = sm.datasets.randhie.load_pandas().data
    assert len(DEMO.table) == 20_190
    for name in ("mdvis", "lncoins", "idp", "lpi", "fmde", "physlm", "disea"):
        assert np.array_equal(DEMO.table[name], source[name])
    assert np.array_equal(DEMO.table["visit"], source["mdvis"] > 0)
    for level, dummy in (("good", "hlthg"), ("fair", "hlthf"), ("poor", "hlthp")):
        assert np.array_equal(DEMO.table["health"] == level, source[dummy] == 1)


def test_bounds_are_public_and_have_a_source():
    assert "person-year" in DEMO.schema.unit.name
    for name, column in DEMO.schema.columns.items():
        if isinstance(column, Number):
            assert column.source, name
            assert (
                DEMO.table[name].between(column.low, column.high).all()
            )  # a test may look; the schema did not


def test_without_noise_the_answer_is_statsmodels():
    model = dp.LogisticRegression(
        DEMO.formula, schema=DEMO.schema, penalty=0.0, budget=dp.NoPrivacy()
    )
    result = model.fit(DEMO.table).result_
    source = sm.datasets.randhie.load_pandas().data
    X = sm.add_constant(source.drop(columns="mdvis"))
    theirs = sm.Logit(source["mdvis"] > 0, X).fit(
        cov_type="HC0", disp=False, method="newton", tol=1e-12
    )
    assert np.allclose(result.estimate, theirs.params, rtol=1e-6)
    assert np.allclose(result.std_error, theirs.bse, rtol=1e-6)


def test_the_question_has_an_answer():
    """Cost sharing reduces visits: the private interval of lncoins lies below 0, fit after fit."""
    model = dp.LogisticRegression(DEMO.formula, schema=DEMO.schema, budget=dp.ZCDP(0.1875))
    below = [
        model.set_params(insecure_seed=s).fit(DEMO.table).result_.conf_int()[1, 1] < 0
        for s in range(20)
    ]
    assert all(below)
