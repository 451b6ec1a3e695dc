"""With the noise off the fit equals the references."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import optimize
from sklearn.linear_model import LogisticRegression

import dpinfer as dp
from helpers.support import labelled


@pytest.mark.parametrize(("n", "d"), [(500, 3), (3000, 8)])
def test_unpenalised_logistic_is_statsmodels_hc0(n, d):
    X, y = labelled(n, d)
    ours = dp.infer(
        X, y, loss=dp.Logistic(), penalty=0.0, budget=dp.NoPrivacy(), target="unpenalised"
    )
    theirs = sm.Logit((y + 1) / 2, X).fit(cov_type="HC0", disp=False, method="newton", tol=1e-12)
    assert np.allclose(ours.estimate, theirs.params, rtol=1e-6)
    assert np.allclose(ours.std_error, theirs.bse, rtol=1e-6)
    assert np.allclose(ours.covariance, theirs.cov_params(), rtol=1e-6)
    assert np.allclose(ours.conf_int(0.9), theirs.conf_int(alpha=0.1), rtol=1e-6)
    joint = theirs.wald_test(np.eye(d)[:2], use_f=False, scalar=True)
    assert ours.wald(np.eye(d)[:2]).statistic == pytest.approx(float(joint.statistic), rel=1e-6)
    assert ours.wald(np.eye(d)[:2]).p_value == pytest.approx(float(joint.pvalue), rel=1e-5)
    assert [row["p_value"] for row in ours.table()] == pytest.approx(list(theirs.pvalues), rel=1e-5)


@pytest.mark.parametrize("c", [1e-4, 1e-2, 1.0])
def test_penalised_logistic_is_scikit_learn(c):
    X, y = labelled(1000, 5)
    ours = dp.infer(X, y, loss=dp.Logistic(), penalty=c, budget=dp.NoPrivacy())
    theirs = LogisticRegression(
        C=1 / (2 * 1000 * c), fit_intercept=False, solver="newton-cholesky", tol=1e-12
    )
    assert np.allclose(ours.estimate, theirs.fit(X, y).coef_[0], rtol=1e-6)


@pytest.mark.parametrize("knee", [0.2, 1.0])
def test_huberised_hinge_is_a_scipy_minimisation(knee):
    X, y = labelled(400, 4)
    c = 0.01

    def objective(theta):
        gap = 1 - y * (X @ theta)
        loss = np.where(gap > knee, gap, np.where(gap < -knee, 0, (knee + gap) ** 2 / (4 * knee)))
        return loss.mean() + c * theta @ theta

    theirs = optimize.minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    theirs = optimize.minimize(
        objective, theirs, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-16}
    ).x
    ours = dp.infer(X, y, loss=dp.HuberHinge(knee), penalty=c, budget=dp.NoPrivacy())
    assert np.allclose(ours.estimate, theirs, rtol=1e-5, atol=1e-6)


def test_a_wrong_penalty_scale_is_noticed():
    X, y = labelled(1000, 5)
    ours = dp.infer(X, y, loss=dp.Logistic(), penalty=0.011, budget=dp.NoPrivacy())
    theirs = LogisticRegression(
        C=1 / (2 * 1000 * 0.01), fit_intercept=False, solver="newton-cholesky", tol=1e-12
    )
    assert not np.allclose(ours.estimate, theirs.fit(X, y).coef_[0], rtol=1e-3)
