"""Without noise every model and target is the regression that was asked for: statsmodels is the
reference.
"""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.base import clone

import dpinfer as dp
from dpinfer.result.statements import ALIASED, SEPARATED

RNG = np.random.default_rng(20)
N = 900
X = RNG.uniform(-2, 3, (N, 3))
PREDICTOR = 0.3 + X @ [0.8, -0.5, 0.1]
LABELS = (RNG.uniform(size=N) < 1 / (1 + np.exp(-PREDICTOR))).astype(int)
NUMBERS = PREDICTOR + RNG.standard_t(4, N)
DESIGN = sm.add_constant(X)

LOGISTIC = dp.LogisticRegression(bounds=(-2, 3), classes=(0, 1), budget=dp.NoPrivacy())
LINEAR = dp.LinearRegression(bounds=(-2, 3), outcome=(-60, 60), budget=dp.NoPrivacy())


def peer(model, weights=None, **covariance):
    if model is LINEAR:
        return sm.WLS(NUMBERS, DESIGN, 1.0 if weights is None else weights).fit(**covariance)
    family = sm.families.Binomial()
    return sm.GLM(LABELS, DESIGN, family, freq_weights=weights).fit(tol=1e-13, **covariance)


def outcomes(model):
    return NUMBERS if model is LINEAR else LABELS


@pytest.mark.parametrize("model", [LOGISTIC, LINEAR], ids=["logistic", "linear"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_it_is_the_fit_of_statsmodels(model, neighbours):
    result = clone(model).set_params(neighbours=neighbours).fit(X, outcomes(model)).result_
    other = peer(model, cov_type="HC0")
    np.testing.assert_allclose(result.params, other.params, atol=1e-9)
    np.testing.assert_allclose(result.bse, other.bse, rtol=1e-9)
    assert result.reported.all()
    assert not result.privacy.private
    assert "there is no privacy noise" in result.summary()
    again = dp.FitResult.from_json(result.to_json())
    np.testing.assert_array_equal(again.conf_int(), result.conf_int())


@pytest.mark.parametrize("model", [LOGISTIC, LINEAR], ids=["logistic", "linear"])
def test_units_have_clustered_errors(model):
    """Of three rows each: every unit counts alike, so the coefficients are those of all rows."""
    units = np.arange(N) // 3
    result = clone(model).fit(X, outcomes(model), units=units).result_
    groups = {"groups": units, "use_correction": False}
    other = peer(model, cov_type="cluster", cov_kwds=groups)
    np.testing.assert_allclose(result.params, other.params, atol=1e-8)
    count = N // 3
    np.testing.assert_allclose(result.bse, other.bse * np.sqrt(count / (count - 1)), rtol=1e-5)


def test_weights_count():
    weights = RNG.uniform(0.5, 2, N)
    model = clone(LINEAR).set_params(most_weight=2.0)
    result = model.fit(X, NUMBERS, weights=weights).result_
    np.testing.assert_allclose(result.params, peer(LINEAR, weights).params, atol=1e-8)


def test_columns_that_are_one_are_not_identified_and_others_are():
    twins = np.column_stack([X, X[:, 0], np.ones(N)])
    result = clone(LINEAR).fit(twins, NUMBERS).result_
    assert [word == ALIASED for word in result.status] == [True, True, False, False, True, True]
    np.testing.assert_allclose(
        result.params.iloc[2:4], sm.OLS(NUMBERS, DESIGN).fit().params[2:], atol=1e-9
    )
    assert np.isnan(result.params.iloc[[0, 1, 4, 5]]).all()
    assert "at this budget" not in result.summary()


def test_separated_classes_are_said_to_be():
    result = clone(LOGISTIC).fit(X, (X[:, 0] > 0).astype(int)).result_
    assert set(result.status) == {SEPARATED}
    assert np.isinf(result.conf_int()).all()


@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
def test_penalised_targets_have_theirs(target):
    model = clone(LOGISTIC).set_params(target=target)
    assert model.fit(X, LABELS).result_.model.target == target


def test_the_robust_target_is_a_huber_fit_without_noise():
    """Two fits are the same to the last bit, and close to the mean where tails are even."""
    model = clone(LINEAR).set_params(target="robust")
    first = model.fit(X, NUMBERS).result_
    again = clone(model).fit(X, NUMBERS).result_
    assert first.reported.all()
    np.testing.assert_array_equal(first.params, again.params)
    ordinary = clone(LINEAR).fit(X, NUMBERS).result_
    apart = np.abs(first.params - ordinary.params)[1:] / ordinary.bse[1:]
    assert apart.max() < 1.5


def test_a_study_of_it_covers():
    study = dp.simulate.coverage(LINEAR, X, NUMBERS, replicates=60, seed=3)
    assert 0.9 <= study.coverage.mean() <= 0.99
    asked = pd.Series(study.target)
    np.testing.assert_allclose(asked, sm.OLS(NUMBERS, DESIGN).fit().params, atol=1e-8)
