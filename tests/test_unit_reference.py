"""With the noise off, or next to none, fits of units equal statsmodels with weights 1/n_u and
clusters.
"""

import numpy as np
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.column_scaling import public_scaling
from dpinfer.fit.context import FitContext
from dpinfer.mechanisms.sums import Block, square
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design

D = 3
BOUNDS = (-np.ones(D), np.ones(D))


def panel(units=4000, seed=0):
    """Rows of persons with an effect of their own, in any order: 1 to 6, more where the effect is
    positive.
    """
    rng = np.random.default_rng(seed)
    effect = 1.5 * rng.standard_normal(units)
    ids = np.repeat(np.arange(units), rng.integers(1, 4, units) + 3 * (effect > 0))
    own = 0.6 * rng.standard_normal((units, D))[ids]
    X = np.clip(0.5 * own + 0.4 * rng.standard_normal((len(ids), D)), -0.99, 0.99)
    chance = 1 / (1 + np.exp(-(X @ [1.0, -0.7, 0.0] + effect[ids])))
    y = np.where(rng.random(len(ids)) < chance, 1, 0)
    numeric = np.clip(
        0.3 * X @ [1.0, -0.7, 0.0] + 0.15 * effect[ids] + 0.1 * rng.standard_normal(len(ids)),
        -0.95,
        0.95,
    )
    order = rng.permutation(len(ids))
    return X[order], y[order], numeric[order], ids[order]


def by_clusters(kind, X, y, ids, weights):
    """Coefficients and cluster-robust covariance of a weighted fit, with the factor U/(U - 1)
    alone.
    """
    design = sm.add_constant(X)
    if kind == "linear":
        groups = {"groups": ids, "use_correction": False}
        fit = sm.WLS(y, design, weights=weights).fit(cov_type="cluster", cov_kwds=groups)
    else:  # generalised estimating equations with independence: the only logistic fit there with weights and clusters
        fit = sm.GEE(y, design, groups=ids, family=sm.families.Binomial(), weights=weights).fit(
            ctol=1e-12
        )
    units = len(np.unique(ids))
    return fit.params, fit.cov_params() * units / (units - 1)


def share(ids, most=1.0):
    return 1 / np.maximum(most, np.bincount(ids)[ids])


@pytest.mark.parametrize("kind", ["linear", "logistic", "counts"])
def test_without_noise_every_row_counts_as_in_statsmodels(kind):
    """The ordinary pooled regression with cluster-robust covariance, to eight digits."""
    X, y, numeric, ids = panel(600)
    models = {
        "linear": (dp.LinearRegression, {"outcome": (-1, 1)}, numeric, None),
        "logistic": (dp.LogisticRegression, {"classes": (0, 1)}, y, sm.families.Binomial()),
        "counts": (dp.PoissonRegression, {"outcome": (0, 1)}, y, sm.families.Poisson()),
    }
    model, options, outcome, family = models[kind]
    found = model(bounds=BOUNDS, budget=dp.NoPrivacy(), rows="every", **options)
    result = found.fit(X, outcome, units=ids).result_
    design = sm.add_constant(X)
    if family is None:
        theirs = sm.OLS(outcome, design)
    else:
        theirs = sm.GLM(outcome, design, family=family)
    fitted = theirs.fit(
        cov_type="cluster", cov_kwds={"groups": ids, "use_correction": False}, **exact(family)
    )
    covariance = fitted.cov_params() * 600 / 599
    assert np.allclose(result.estimate, fitted.params, rtol=1e-8, atol=1e-9)
    assert np.allclose(result.covariance, covariance, rtol=1e-7, atol=1e-12)


def exact(family):
    """Options of statsmodels for a maximum to the last digits."""
    return {} if family is None else {"tol": 1e-14}


@pytest.mark.parametrize("rows", ["average"])
def test_logistic_regression_without_noise_is_the_weighted_fit_with_clusters(rows):
    X, y, _, ids = panel()
    model = dp.LogisticRegression(
        bounds=BOUNDS,
        classes=(0, 1),
        penalty=0.0,
        budget=dp.NoPrivacy(),
        target="unpenalised",
        rows=rows,
    ).fit(X, y, units=ids)
    coef, covariance = by_clusters("logistic", X, y, ids, share(ids))
    assert np.allclose(model.result_.estimate, coef, rtol=1e-5, atol=1e-6)
    assert np.allclose(model.result_.std_error, np.sqrt(np.diag(covariance)), rtol=1e-5)
    assert np.allclose(model.result_.covariance, covariance, rtol=1e-4, atol=1e-9)


def test_mutations_of_the_weight_and_of_the_clusters_are_noticed(monkeypatch):
    """Weight 1 a row is another estimate; the covariance of rows another width."""
    X, y, _, ids = panel()
    model = dp.LogisticRegression(
        bounds=BOUNDS, classes=(0, 1), penalty=0.0, budget=dp.NoPrivacy(), target="unpenalised"
    )
    right = model.fit(X, y, units=ids).result_
    coef, covariance = by_clusters("logistic", X, y, ids, np.ones(len(ids)))
    assert np.abs(right.estimate - coef).max() > 0.2
    assert np.abs(right.std_error / np.sqrt(np.diag(covariance)) - 1).max() > 0.02
    monkeypatch.setattr(Block, "outer", lambda block, factors: square(block.rows, factors**2))
    rows = model.fit(X, y, units=ids).result_
    assert np.allclose(rows.estimate, right.estimate)
    assert (rows.std_error < 0.85 * right.std_error).any()


def test_a_penalised_fit_of_units_is_its_formula():
    """Minimum and sandwich written out over units, on the scaled rows."""
    X, y, _, ids = panel(600)
    c, a = 0.003, share(ids)
    model = dp.LogisticRegression(
        bounds=BOUNDS, classes=(0, 1), penalty=c, budget=dp.NoPrivacy()
    ).fit(X, y, units=ids)
    rows, sign, units = sm.add_constant(X) / 2, 2 * y - 1, 600  # ‖(1, x)‖ <= 2
    theta = np.zeros(D + 1)
    for _ in range(40):
        p = 1 / (1 + np.exp(sign * (rows @ theta)))
        hessian = (rows * (a * p * (1 - p))[:, None]).T @ rows + 2 * units * c * np.eye(D + 1)
        theta = theta + np.linalg.solve(hessian, (a * p * sign) @ rows - 2 * units * c * theta)
    scores = np.zeros((units, D + 1))
    np.add.at(scores, ids, (a * p * sign)[:, None] * rows)
    middle = (scores.T @ scores - 4 * c**2 * units * np.outer(theta, theta)) * units / (units - 1)
    covariance = np.linalg.solve(hessian, np.linalg.solve(hessian, middle).T) / 4
    assert np.allclose(model.result_.estimate, theta / 2, rtol=1e-6, atol=1e-7)
    assert np.allclose(model.result_.std_error, np.sqrt(np.diag(covariance)), rtol=1e-6)


FEW = Rows(Block(np.zeros((50, 2)), np.zeros(50)))


def test_the_factor_of_few_clusters():
    """U/(U - 1) where units are protected, nothing where rows are."""
    design = Design.of_bounds(BOUNDS, ("a", "b", "c"))
    for notion, factor in ((Adjacency.REPLACE, 1.0), (Adjacency.REPLACE_UNIT, 50 / 49)):
        scales = dp.GeometryPlan(dp.ZCDP(1.0), neighbours=notion).scales()
        found = FitContext(design, notion, scales, public_scaling(design)).clustered(
            np.eye(2), FEW, 50.0
        )
        assert found == pytest.approx(factor * np.eye(2))


HUGE = dp.ZCDP(1e8)


def compared(model, X, y, ids, coef, covariance):
    result = model.fit(X, y, units=ids).result_
    reported = np.isfinite(result.std_error)
    assert reported.all()
    move = np.eye(D + 1)
    move[0, 1:] = result.geometry.centre  # the intercept is the line at the released centre
    coef, error = move @ coef, np.sqrt(np.diag(move @ covariance @ move.T))
    return (result.estimate - coef) / error, result.std_error / error


def weights_of(rows, ids):
    """What a row counts: one, or one over the number of rows of its unit."""
    return np.ones(len(ids)) if rows == "every" else share(ids)


@pytest.mark.parametrize("rows", ["average", "every"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_least_squares_with_a_huge_budget_is_the_weighted_fit_with_clusters(neighbours, rows):
    X, _, y, ids = panel()
    coef, covariance = by_clusters("linear", X, y, ids, weights_of(rows, ids))
    model = dp.LinearRegression(
        bounds=BOUNDS,
        outcome=(-1, 1),
        budget=HUGE,
        tail="all" if rows == "average" else "balanced",
        neighbours=neighbours,
        rows=rows,
        insecure_seed=0,
    )
    off, ratio = compared(model, X, y, ids, coef, covariance)
    assert np.abs(off).max() < 0.1
    assert np.abs(ratio - 1).max() < 0.03


@pytest.mark.parametrize("rows", ["average", "every"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_logistic_regression_with_a_huge_budget_is_the_weighted_fit_with_clusters(neighbours, rows):
    X, y, _, ids = panel()
    coef, covariance = by_clusters("logistic", X, y, ids, weights_of(rows, ids))
    model = dp.LogisticRegression(
        bounds=BOUNDS,
        classes=(0, 1),
        budget=HUGE,
        neighbours=neighbours,
        rows=rows,
        insecure_seed=0,
    )
    off, ratio = compared(model, X, y, ids, coef, covariance)
    assert np.abs(off).max() < 0.1
    assert np.abs(ratio - 1).max() < 0.03


@pytest.mark.parametrize("model", [dp.LogisticRegression, dp.LinearRegression])
def test_the_factor_of_clusters_reaches_the_interval(model, monkeypatch):
    """With four times the covariance of the scores, the sampling part of the variance is four times
    as large.
    """
    rng = np.random.default_rng(0)
    ids, X = np.repeat(np.arange(2000), 2), rng.uniform(-1, 1, (4000, 2))
    logistic = model is dp.LogisticRegression
    y = (rng.random(4000) < 0.5).astype(int) if logistic else rng.uniform(-1, 1, 4000)
    options = {} if logistic else {"outcome": (-1.0, 1.0)}

    def sampling():
        fitted = model(bounds=(-1, 1), budget=dp.ZCDP(1e6), insecure_seed=1, **options).fit(
            X, y, units=ids
        )
        return np.diag(fitted.result_.error.sampling)

    before, right = sampling(), FitContext.clustered
    monkeypatch.setattr(
        FitContext, "clustered", lambda at, matrix, *others: 4 * right(at, matrix, *others)
    )
    assert sampling() == pytest.approx(4 * before, rel=0.05)
