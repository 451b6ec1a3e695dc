"""The two regressors: original units, references, declared ranges, coverage of the truth."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import optimize, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import dpinfer as dp
from dpinfer.fit.penalised import in_words
from dpinfer.inference.error_laws import sandwich

RNG = np.random.default_rng(0)
N = 3000
LOW, HIGH = np.array([-3.0, 0.0]), np.array([3.0, 100.0])
X = np.column_stack([RNG.uniform(-3, 3, N), RNG.uniform(0, 100, N)])
Y = 60 + 4 * X[:, 0] - 0.3 * X[:, 1] + 5 * RNG.standard_t(3, N)
RANGE = (-20.0, 140.0)
CONSTANT = sm.add_constant(X)
BOTH = [dp.HuberRegression, dp.QuantileRegression]


def of(cls, **options):
    return cls(
        **(
            {"bounds": (LOW, HIGH), "outcome": RANGE, "budget": dp.NoPrivacy(), "penalty": 0.0}
            | options
        )
    )


def test_huber_without_noise_is_statsmodels():
    """Scale 1 and threshold 7: statsmodels' M-estimator with its scale held fixed."""
    model = of(dp.HuberRegression, knee=7.0).fit(X, Y)
    theirs = sm.RLM(Y, CONSTANT, M=sm.robust.norms.HuberT(7.0))
    coef = np.linalg.lstsq(CONSTANT, Y, rcond=None)[0]
    for _ in range(200):  # its own loop, but with scale 1
        coef = sm.WLS(Y, CONSTANT, weights=theirs.M.weights(Y - CONSTANT @ coef)).fit().params
    assert np.allclose([model.intercept_, *model.coef_], coef, rtol=1e-7)
    assert model.coef_.shape == (2,)
    assert isinstance(model.intercept_, float)
    assert np.allclose(model.predict(X), CONSTANT @ coef, rtol=1e-7)
    residual = Y - CONSTANT @ coef
    bend = CONSTANT.T @ (CONSTANT * (np.abs(residual) <= 7)[:, None])
    score = CONSTANT.T @ (CONSTANT * np.clip(residual, -7, 7)[:, None] ** 2)
    covariance = np.linalg.inv(bend) @ score @ np.linalg.inv(bend)
    assert np.allclose(model.result_.covariance, covariance, rtol=1e-6)


@pytest.mark.parametrize(("quantile", "bandwidth"), [(0.5, 2.0), (0.9, 1.0)])
def test_smoothed_quantile_is_a_scipy_minimisation(quantile, bandwidth):
    scaled = CONSTANT / [1, 3, 100]

    def objective(theta):
        r = Y - scaled @ theta
        return (quantile * r + bandwidth * np.logaddexp(0, -r / bandwidth)).mean()

    theirs = optimize.minimize(objective, [60, 0, 0], method="BFGS", options={"gtol": 1e-8}).x / [
        1,
        3,
        100,
    ]
    model = of(dp.QuantileRegression, quantile=quantile, bandwidth=bandwidth).fit(X, Y)
    assert np.allclose([model.intercept_, *model.coef_], theirs, rtol=1e-5, atol=1e-6)
    assert np.mean(model.predict(X) > Y) == pytest.approx(quantile, abs=0.01)


def test_a_narrow_bandwidth_is_statsmodels_quantile_regression():
    model = of(dp.QuantileRegression, quantile=0.75, bandwidth=0.7).fit(X, Y)
    theirs = sm.QuantReg(Y, CONSTANT).fit(q=0.75)
    assert np.allclose([model.intercept_, *model.coef_], theirs.params, rtol=0.01)
    assert np.allclose(model.result_.std_error, theirs.bse, rtol=0.2)


@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize("budget", [dp.PureDP(2.0), dp.ZCDP(0.5), dp.ApproxDP(2.0, 1e-6)])
def test_private_fits_are_near_the_truth(cls, budget):
    model = of(cls, budget=budget, penalty=None, insecure_seed=1).fit(X, Y)
    assert model.coef_ == pytest.approx([4, -0.3], rel=0.2)
    assert model.score(X, Y) > 0.5
    assert model.penalty_ > 0


@pytest.mark.parametrize("cls", BOTH)
def test_units_of_the_outcome_change_nothing_but_the_units(cls):
    """Degrees of another kind: y' = 32 + 1.8 y, with its range and its knee or bandwidth."""
    name = "knee" if cls is dp.HuberRegression else "bandwidth"
    for budget in (dp.NoPrivacy(), dp.ZCDP(0.5), dp.PureDP(3.0)):
        common = {"budget": budget, "penalty": 0.01, "insecure_seed": 3}
        here = of(cls, **{name: 3.0}, **common).fit(X, Y).result_
        there = of(cls, **{name: 5.4}, **common, outcome=(-4.0, 284.0)).fit(X, 32 + 1.8 * Y).result_
        assert np.allclose(there.estimate, 1.8 * here.estimate + [32, 0, 0], rtol=1e-6)
        assert np.allclose(there.std_error, 1.8 * here.std_error, rtol=1e-6)
        assert np.allclose(there.conf_int(), 1.8 * here.conf_int() + [[32], [0], [0]], rtol=1e-6)


@pytest.mark.parametrize("cls", BOTH)
def test_matrices_are_in_original_units_too(cls):
    for options in ({}, {"budget": dp.ZCDP(0.5), "insecure_seed": 0}):
        result = of(cls, penalty=0.01, **options).fit(X, Y).result_
        assert np.allclose(
            sandwich(result.hessian, result.score_cov, N), result.error.sampling, rtol=1e-6
        )


def test_the_estimand_is_the_minimiser_of_what_is_printed():
    """In outcome units, with the printed loss and penalty on the coefficients of the bounded row."""
    scaled = (X - (LOW + HIGH) / 2) / ((HIGH - LOW) / 2)
    rows = np.column_stack([np.ones(N), scaled]) / np.sqrt(3)
    for cls, loss, divisor in (
        (dp.HuberRegression, dp.Huber(5.0), 1.0),
        (dp.QuantileRegression, dp.SmoothedQuantile(0.5, 5.0), 80.0),
    ):
        name = "knee" if cls is dp.HuberRegression else "bandwidth"
        result = of(cls, **{name: 5.0}, penalty=0.02).fit(X, Y).result_
        words = result.model.estimand()
        size = "c‖θ‖², c = 0.02" if divisor == 1 else "c‖θ‖²/80, c = 0.02"
        assert (
            f"E[f(y - θ·x)] plus {size}. Here f is {in_words(loss)[1]}, and x the row scaled by its public bounds. "
            "y is the outcome less 60" in words
        )
        assert words.endswith(
            "For the coefficients of ordinary least squares use the model linear (LinearRegression)"
        )

        def objective(theta, loss=loss, divisor=divisor):
            return loss.value(Y - 60 - rows @ theta).mean() + 0.02 * theta @ theta / divisor

        theta = optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
        assert np.allclose(rows @ theta + 60, CONSTANT @ result.estimate, rtol=1e-4)


def test_only_penalised_residuals_are_told_of_least_squares():
    model = of(dp.HuberRegression, penalty=0.02).fit(X, Y).result_.model
    assert "LinearRegression" in model.estimand()
    free = of(dp.HuberRegression, penalty=0.02, target="unpenalised").fit(X, Y).result_.model
    margin = dp.LinearSVC(bounds=(LOW, HIGH), budget=dp.NoPrivacy(), penalty=0.02)
    for other in (free, margin.fit(X, Y > 60).result_.model):
        assert "LinearRegression" not in other.estimand()


def test_the_estimand_of_a_margin_is_unchanged():
    result = dp.infer(X / 200, np.sign(Y), loss=dp.Logistic(), penalty=0.1, budget=dp.NoPrivacy())
    words = (
        "the penalised coefficients of logistic regression in the population. They are the θ that "
        "minimises E[f(y θ·x)] plus c‖θ‖², c = 0.1. Here f is the logistic loss log(1 + exp(-z)), and x "
        "the row scaled by its public bounds. The penalty"
    )
    assert words in result.model.estimand()
    assert dp.FitResult.from_json(result.to_json()).model == result.model


def test_guarantee_outcome_range_is_declared():
    """What lies beyond the range is clipped, and the range never moves with y."""
    far, near = Y.copy(), Y.copy()
    far[:40], near[:40] = 1e9, RANGE[1]
    for cls in BOTH:
        a, b = (of(cls, penalty=0.01).fit(X, y).result_ for y in (far, near))
        assert np.allclose(a.estimate, b.estimate, rtol=1e-9)
        assert a.model == b.model == of(cls, penalty=0.01).fit(X, Y / 100).result_.model


def test_what_is_not_finite_counts_as_the_zero_row():
    spoilt, y = X.copy(), Y.copy()
    spoilt[:10, 0], y[10:20], y[20:30] = np.nan, np.nan, np.inf
    kept = of(dp.HuberRegression, penalty=0.01 * N / (N - 30)).fit(X[30:], Y[30:])
    ours = of(dp.HuberRegression, penalty=0.01).fit(spoilt, y)
    assert np.allclose(ours.coef_, kept.coef_, rtol=1e-9)
    assert ours.result_.model.n == N


def test_a_missing_outcome_never_decides_whether_a_fit_fails():
    """None in a list, NaN, and a missing value of a pandas column with a type that has one."""
    for make in (
        list,
        np.array,
        lambda y: pd.Series(y, dtype="Float64"),
        lambda y: pd.Series(y, dtype="float64"),
    ):
        whole, spoilt = Y.tolist(), [None, *Y.tolist()[1:]]
        if make is np.array:
            spoilt[0] = np.nan
        fits = [of(dp.HuberRegression, penalty=0.01).fit(X, make(y)).coef_ for y in (whole, spoilt)]
        assert not np.array_equal(*fits)
        assert np.allclose(*fits, rtol=0.01)


def test_defaults_come_from_public_facts():
    assert of(dp.HuberRegression).fit(X, Y).result_.model.loss == "Huber(knee=16)"
    bandwidth = 80 * ((3 + np.log(N)) / N) ** 0.4
    expected = f"SmoothedQuantile(tau=0.5, bandwidth={bandwidth:.6g})"
    assert of(dp.QuantileRegression).fit(X, Y).result_.model.loss == expected
    many = np.tile(X, (20, 1)), np.tile(Y, 20)
    assert "bandwidth=4)" in of(dp.QuantileRegression).fit(*many).result_.model.loss


def test_scikit_learn_conventions():
    model = of(dp.QuantileRegression, penalty=0.01, quantile=0.25)
    assert clone(model).get_params()["quantile"] == 0.25
    search = GridSearchCV(of(dp.HuberRegression), {"knee": [5.0, 10.0]}, cv=2).fit(X, Y)
    assert search.best_params_["knee"] in (5.0, 10.0)
    assert of(dp.HuberRegression, penalty=0.01).fit(
        pd.DataFrame(X, columns=["a", "b"]), Y
    ).result_.names[1:] == (
        "a",
        "b",
    )


BAD = [
    ({"outcome": None}, r"declare the public range outcome=\(low, high\)"),
    ({"outcome": (1.0, 1.0)}, "low < high"),
    ({"outcome": (0.0, np.inf)}, "finite"),
    ({"outcome": "wide"}, "pair"),
    ({"outcome": (1, 2, 3)}, "pair"),
    ({"bounds": None}, "declare public bounds"),
    ({"knee": -1.0}, "knee"),
    ({"knee": "wide"}, "knee"),
    ({"budget": dp.PureDP(1.0), "penalty": 1e-9}, "too small"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_parameters(options, message):
    with pytest.raises(dp.DpinferError, match=message):
        of(dp.HuberRegression, **options).fit(X, Y)


def test_bad_outcomes_and_quantiles():
    for options, message in (({"quantile": 1.0}, "tau"), ({"bandwidth": 0.0}, "bandwidth")):
        with pytest.raises(dp.InputError, match=message):
            of(dp.QuantileRegression, **options).fit(X, Y)
    with pytest.raises(dp.InputError, match="numeric outcome"):
        of(dp.HuberRegression).fit(X, np.array(["a"] * N))
    with pytest.raises(dp.InputError, match="one dimension"):
        of(dp.HuberRegression).fit(X, X)
    with pytest.raises(dp.InputError, match="requires y"):
        of(dp.HuberRegression).fit(X)


def test_an_outcome_with_levels_is_refused():
    schema = dp.Schema.parse(
        '[columns.y]\ntype = "outcome"\nlevels = ["a", "b"]\n[columns.x]\ntype = "boolean"'
    )
    table = pd.DataFrame({"y": ["a", "b"], "x": [True, False]})
    with pytest.raises(
        dp.InputError, match="'y' is an outcome with levels: a regression needs low and high"
    ):
        dp.HuberRegression("y ~ x", schema=schema, budget=dp.NoPrivacy()).fit(table)
    with pytest.raises(dp.InputError, match="needs low and high in the schema"):
        dp.simulate.coverage(
            table, schema=schema, formula="y ~ x", loss=dp.Huber(0.1), budget=dp.NoPrivacy()
        )


def misses_by_chance(covered, replicates, level=0.95):
    """Whether a coefficient covers so rarely or so often that a correct build shows it less than
    once in 10,000.
    """
    tail = stats.binom(replicates, level)
    return (covered < tail.ppf(5e-5)) | (covered > tail.ppf(1 - 5e-5))


TRUTH = np.array([5.0, 2.0, -1.0])


def drawn(rng, n):
    """Rows and outcomes of a linear model with symmetric errors: the mean, the median and Huber's
    centre agree.
    """
    rows = rng.uniform(-1, 1, (n, 2))
    return rows, TRUTH[0] + rows @ TRUTH[1:] + rng.laplace(size=n)


@pytest.mark.parametrize(
    ("budget", "penalty"), [(dp.NoPrivacy(), 1e-9), (dp.ZCDP(1.0), 2e-3), (dp.PureDP(3.0), 2e-3)]
)
@pytest.mark.parametrize("cls", BOTH)
def test_intervals_cover_the_truth(cls, budget, penalty):
    """Fresh data each time.  Without a penalty the target is the truth itself; with one, the fit of
    a large sample.
    """
    rng, replicates, covered = np.random.default_rng(7), 100, np.zeros(3)
    name = "knee" if cls is dp.HuberRegression else "bandwidth"
    common = {"bounds": (-1, 1), "outcome": (-5, 15), "penalty": penalty, name: 1.0}
    large = cls(budget=dp.NoPrivacy(), **common).fit(*drawn(rng, 200_000)).result_
    assert np.allclose(large.estimate, TRUTH, rtol=0.08 if penalty > 1e-6 else 0.005)
    target = TRUTH if penalty < 1e-6 else large.estimate
    for seed in range(replicates):
        model = cls(budget=budget, insecure_seed=seed, **common).fit(*drawn(rng, 2000))
        low, high = model.result_.conf_int().T
        covered += (low <= target) & (target <= high)
    assert not misses_by_chance(covered, replicates).any(), covered / replicates


VISITS = dp.Schema.parse(
    '[columns.visits]\ntype = "integer"\nlow = 0\nhigh = 60\n[columns.age]\ntype = "number"\nlow = 18\nhigh = 90'
)


def visits(n=4000):
    rng = np.random.default_rng(5)
    age = rng.uniform(18, 90, n)
    return pd.DataFrame({"age": age, "visits": rng.poisson(np.exp(0.3 + 0.02 * age))})


@pytest.mark.parametrize("cls", BOTH)
def test_a_transformed_outcome_is_predicted_in_its_own_units(cls):
    """The same fit as with the logarithms as an array, and predictions are logarithms, too."""
    table = visits()
    options = {"budget": dp.ZCDP(0.5), "insecure_seed": 2}
    ours = cls("log(1 + visits) ~ age", schema=VISITS, **options).fit(table)
    X, y = table[["age"]], np.log(1 + table["visits"])
    theirs = cls(bounds=(18, 90), outcome=(0, np.log(61)), **options).fit(X, y)
    assert ours.result_.model.loss == theirs.result_.model.loss
    assert np.allclose(ours.result_.conf_int(), theirs.result_.conf_int(), rtol=1e-7)
    assert np.allclose(ours.predict(table), theirs.predict(X), rtol=1e-7)
    assert ours.predict(table).mean() == pytest.approx(y.mean(), rel=0.1)


def test_what_a_fit_with_a_transform_books():
    ledger = dp.Ledger(dp.ZCDP(1.0))
    model = dp.HuberRegression(
        "log(1 +  visits) ~ age", schema=VISITS, budget=dp.ZCDP(0.5), ledger=ledger
    )
    foreseen = model.entry(4000)
    model.fit(visits())
    (booked,) = ledger.entries()
    assert booked.purpose == foreseen.purpose == "HuberRegression: log(1 + visits) ~ age"
    assert booked.events == foreseen.events
    assert booked.schema == VISITS.digest()


def test_the_range_of_an_outcome_is_not_given_twice():
    model = dp.HuberRegression(
        "log1p(visits) ~ age", schema=VISITS, budget=dp.NoPrivacy(), outcome=(0, 5)
    )
    with pytest.raises(dp.InputError, match="comes from the schema: drop outcome="):
        model.fit(visits())


def test_studies_take_a_transformed_outcome(tmp_path):
    visits().to_parquet(tmp_path / "t.parquet")
    model = dp.HuberRegression("log1p(visits) ~ age", schema=VISITS, budget=dp.ZCDP(1.0))
    studies = [
        dp.simulate.coverage(model, data, replicates=20)
        for data in (visits(), tmp_path / "t.parquet")
    ]
    assert studies[0].to_json() == studies[1].to_json()
    asked = {
        "schema": VISITS,
        "formula": "log1p(visits) ~ age",
        "loss": dp.Huber(0.2),
        "budget": dp.ZCDP(1.0),
    }
    assert dp.simulate.coverage(visits(), **asked, replicates=20).to_json()
