import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpinfer as dp
from dpinfer.inference.error_laws import sandwich

RNG = np.random.default_rng(0)
LOW, HIGH = np.array([-3.0, 0.0]), np.array([3.0, 100.0])
X = np.column_stack([RNG.uniform(-3, 3, 4000), RNG.uniform(0, 100, 4000)])
P = 1 / (1 + np.exp(-(1.0 + 0.8 * X[:, 0] - 0.03 * X[:, 1])))
Y = (RNG.random(4000) < P).astype(int)


def logistic(**options):
    options = {"bounds": (LOW, HIGH), "budget": dp.NoPrivacy(), "penalty": 0.0} | options
    return dp.LogisticRegression(**options)


def test_original_units_without_noise_are_statsmodels():
    model = logistic().fit(X, Y)
    theirs = sm.Logit(Y, sm.add_constant(X)).fit(
        cov_type="HC0", disp=False, method="newton", tol=1e-12
    )
    assert np.allclose([*model.intercept_, *model.coef_[0]], theirs.params, rtol=1e-6)
    assert np.allclose(model.result_.std_error, theirs.bse, rtol=1e-6)
    assert np.allclose(model.result_.conf_int(), theirs.conf_int(), rtol=1e-6)
    assert np.allclose(model.result_.covariance, theirs.cov_params(), rtol=1e-6)
    assert np.allclose(model.predict_proba(X)[:, 1], theirs.predict(sm.add_constant(X)), rtol=1e-6)
    assert model.result_.names == ("(Intercept)", "x1", "x2")


@pytest.mark.parametrize("cls", [dp.LogisticRegression, dp.LinearSVC])
@pytest.mark.parametrize("budget", [dp.PureDP(2.0), dp.ZCDP(0.5), dp.ApproxDP(2.0, 1e-6)])
def test_private_fits_find_the_signs(cls, budget):
    model = cls(bounds=(LOW, HIGH), budget=budget, insecure_seed=1).fit(X, Y)
    assert model.coef_[0, 0] > 0 > model.coef_[0, 1]
    assert model.score(X, Y) > 0.65
    free = cls is dp.LogisticRegression and not isinstance(budget, dp.PureDP | dp.NoPrivacy)
    assert (model.result_.model.target == "ordinary") == free
    assert (model.penalty_ > 0) != free
    assert f"{model.penalty_:.6g}" in model.result_.summary()


def test_what_is_asked_for_decides_the_target():
    asked = {
        "ordinary": {"budget": dp.ApproxDP(2, 1e-6)},
        "unpenalised": {"budget": dp.ZCDP(0.5), "target": "unpenalised"},
        "penalised": {"budget": dp.ZCDP(0.5), "penalty": 0.01},
    }
    for target, options in asked.items():
        model = dp.LogisticRegression(bounds=(LOW, HIGH), insecure_seed=1, **options).fit(X, Y)
        assert model.result_.model.target == target
    plain = dp.Plan(dp.OutputPerturbation(), *dp.ZCDP(0.5).split(2, 1, 1))
    assert (
        dp.LogisticRegression(bounds=(LOW, HIGH), plan=plain).fit(X, Y).result_.model.target
        == "penalised"
    )


def test_matrices_are_in_original_units_too():
    for model in (
        logistic(penalty=0.01),
        logistic(penalty=0.01, budget=dp.ZCDP(0.5), insecure_seed=0),
    ):
        result = model.fit(X, Y).result_
        assert np.allclose(
            sandwich(result.hessian, result.score_cov, 4000), result.error.sampling, rtol=1e-6
        )


def test_the_model_and_its_result_share_no_memory():
    model = logistic(penalty=0.01).fit(X, Y)
    model.coef_ *= -1
    assert np.array_equal(model.result_.estimate[1:], -model.coef_[0])


def test_scikit_learn_conventions():
    model = logistic(penalty=0.01).fit(X, Y)
    assert clone(model).get_params()["bounds"][1] is not None
    assert model.coef_.shape == (1, 2)
    assert model.intercept_.shape == (1,)
    assert np.array_equal(
        model.predict(X), model.classes_[(model.decision_function(X) > 0).astype(int)]
    )
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)
    piped = make_pipeline(FunctionTransformer(), logistic(penalty=0.01)).fit(X, Y)
    assert np.array_equal(piped.predict(X), model.predict(X))
    search = GridSearchCV(logistic(), {"penalty": [0.01, 0.1]}, cv=2).fit(X, Y)
    assert search.best_params_["penalty"] in (0.01, 0.1)
    assert not hasattr(dp.LinearSVC, "predict_proba")


def test_a_search_books_every_fit_in_the_shared_ledger():
    ledger = dp.Ledger(dp.ZCDP(1.0))
    model = logistic(budget=dp.ZCDP(0.1), penalty=0.01, ledger=ledger)
    GridSearchCV(model, {"penalty": [0.01, 0.1]}, cv=2).fit(X, Y)
    assert ledger.spent() == pytest.approx(0.5)  # two penalties on two folds, and the final fit


def test_guarantee_classes_are_declared():
    words = np.where(Y == 1, "yes", "no")
    model = logistic(classes=("no", "yes")).fit(X, words)
    assert list(model.classes_) == ["no", "yes"]
    assert set(model.predict(X)) == {"no", "yes"}
    assert np.allclose(model.coef_, logistic().fit(X, Y).coef_)
    one_sided = logistic(penalty=0.1).fit(X, np.ones(4000))
    assert list(one_sided.classes_) == [0, 1]
    turned = logistic(classes=(1, 0)).fit(X, Y)
    assert np.allclose(turned.coef_, -logistic().fit(X, Y).coef_)


def test_values_beyond_the_bounds_are_clipped():
    far = X.copy()
    far[:50, 1] = 1e12
    near = X.copy()
    near[:50, 1] = 100.0
    assert np.allclose(logistic().fit(far, Y).coef_, logistic().fit(near, Y).coef_, rtol=1e-9)


def test_what_cannot_be_encoded_counts_as_the_zero_row():
    """NaN, infinity, an undeclared label: each row is as good as absent from the sums, but is
    counted in n.
    """
    spoilt, labels = X.copy(), Y.astype(float)
    spoilt[:10, 0], spoilt[10:20, 1], labels[20:30] = np.nan, np.inf, 7.0
    n = len(X)
    kept = logistic(penalty=0.01).fit(X[30:], Y[30:])
    # the same λ = 2nc with fewer rows
    kept = logistic(penalty=0.01 * n / (n - 30)).fit(X[30:], Y[30:])
    ours = logistic(penalty=0.01).fit(spoilt, labels)
    assert np.allclose(ours.coef_, kept.coef_, rtol=1e-9)
    assert ours.result_.model.n == n


TABLE = pd.DataFrame(
    {
        "age": RNG.uniform(20, 80, 3000),
        "sex": RNG.choice(["f", "m"], 3000),
        "region": RNG.integers(1, 4, 3000),
        "smoker": RNG.random(3000) < 0.3,
    }
)
TABLE["ill"] = np.where(
    RNG.random(3000) < 1 / (1 + np.exp(2 - 0.03 * TABLE["age"] - TABLE["smoker"])), "yes", "no"
)
SCHEMA = dp.Schema.parse(
    """
    unit = "one person"
    [columns.ill]
    type = "outcome"
    levels = ["no", "yes"]
    [columns.age]
    type = "number"
    low = 18
    high = 100
    [columns.sex]
    type = "category"
    levels = ["m", "f"]
    [columns.region]
    type = "category"
    levels = [1, 2, 3]
    reference = 2
    [columns.smoker]
    type = "boolean"
    """
)
FORMULA = "ill ~ age + sex + region + smoker"


def by_formula(table, **options):
    options = {"schema": SCHEMA, "budget": dp.NoPrivacy(), "penalty": 0.0} | options
    return dp.LogisticRegression(FORMULA, **options).fit(table)


def test_a_table_with_a_schema_is_statsmodels():
    model = by_formula(TABLE)
    names = ("(Intercept)", "age", "sex[f]", "region[1]", "region[3]", "smoker")
    assert model.result_.names == names
    columns = np.column_stack(
        [
            np.ones(3000),
            TABLE["age"],
            TABLE["sex"] == "f",
            TABLE["region"] == 1,
            TABLE["region"] == 3,
            TABLE["smoker"],
        ]
    ).astype(float)
    theirs = sm.Logit(TABLE["ill"] == "yes", columns).fit(
        cov_type="HC0", disp=False, method="newton", tol=1e-12
    )
    assert np.allclose(model.result_.estimate, theirs.params, rtol=1e-6)
    assert np.allclose(model.result_.std_error, theirs.bse, rtol=1e-6)
    assert np.allclose(model.predict_proba(TABLE)[:, 1], theirs.predict(columns), rtol=1e-6)
    assert list(model.classes_) == ["no", "yes"]
    assert "one person" in model.result_.summary()


@pytest.mark.parametrize(
    "convert",
    [
        pl.from_pandas,
        pa.Table.from_pandas,
        lambda t: t.astype({"sex": "category"}),
        lambda t: t.astype({"sex": object, "age": "float32"}),
        lambda t: pl.from_pandas(t).with_columns(pl.col("sex").cast(pl.Categorical)),
    ],
)
def test_every_kind_of_table_gives_the_same_fit(convert):
    model = by_formula(convert(TABLE))
    assert np.allclose(model.result_.estimate, by_formula(TABLE).result_.estimate, rtol=1e-4)
    assert (model.predict(convert(TABLE)) == by_formula(TABLE).predict(TABLE)).mean() > 0.99


def test_unknown_levels_and_nulls_count_as_the_zero_row():
    spoilt = TABLE.copy()
    spoilt.loc[:9, "sex"] = "unknown"
    spoilt.loc[10:19, "age"] = np.nan
    spoilt.loc[20:29, "ill"] = None
    expected = by_formula(TABLE.iloc[30:], penalty=0.01 * 3000 / 2970).result_.estimate
    for table in (spoilt, pl.from_pandas(spoilt), pa.Table.from_pandas(spoilt)):
        assert np.allclose(by_formula(table, penalty=0.01).result_.estimate, expected, rtol=1e-9)
    with pytest.raises(dp.InputError, match="cannot be encoded"):
        by_formula(TABLE).predict(spoilt)


BAD = [
    ({"bounds": None}, "declare public bounds"),
    ({"bounds": (0, 0)}, "low < high"),
    ({"bounds": (0, np.inf)}, "low and high must be finite"),
    ({"bounds": ([0, 1, 2], 5)}, "one per column"),
    ({"bounds": "wide"}, "pair"),
    ({"classes": (0, 1, 2)}, "two different classes"),
    ({"classes": (1, 1)}, "two different classes"),
    ({"budget": None}, "give either budget"),
    ({"budget": 1.0}, "budget must be PureDP"),
    ({"budget": dp.PureDP(1.0), "penalty": 1e-9}, "too small"),
    ({"budget": dp.PureDP(1.0), "penalty": -1.0}, "finite number >= 0"),
    ({"plan": dp.PureDP(1.0), "budget": None}, "takes a dpinfer Plan"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_parameters(options, message):
    with pytest.raises(dp.DpinferError, match=message):
        logistic(**options).fit(X, Y)


def test_bad_tables():
    for table, message in [
        (TABLE.drop(columns="age"), "no column 'age'"),
        (TABLE.astype({"age": str}), "must hold numbers"),
        (TABLE.assign(region="north"), "its levels in the schema are int"),
        (TABLE.assign(ill=1.0), "its levels in the schema are str"),
        (X, "needs a pandas, polars or pyarrow table"),
        ("none.csv", "there is no file 'none.csv': check the path"),
    ]:
        with pytest.raises(dp.InputError, match=message):
            by_formula(table)
    with pytest.raises(dp.InputError, match=r"call fit\(table\)"):
        dp.LogisticRegression(FORMULA, schema=SCHEMA, budget=dp.NoPrivacy()).fit(TABLE, Y)
    with pytest.raises(dp.InputError, match="needs schema="):
        dp.LogisticRegression(FORMULA, budget=dp.NoPrivacy()).fit(TABLE)


def in_geometry(n=20_000, **options):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(40, 10, n), rng.normal(0, 1, n)])
    p = 1 / (1 + np.exp(-(0.05 * (X[:, 0] - 40) - 0.5 * X[:, 1] - 0.4)))
    y = (rng.random(n) < p).astype(int)
    model = dp.LogisticRegression(bounds=([0, -4], [80, 4]), insecure_seed=3, **options)
    return model.fit(X, y), X


@pytest.mark.parametrize("target", [None, "ordinary"])
@pytest.mark.parametrize("budget", [dp.ZCDP(0.5), dp.ApproxDP(4.0, 1e-6)])
def test_the_target_without_a_penalty(target, budget):
    """Ordinary coefficients and intercept, whatever centre the result reports its own at."""
    model, X = in_geometry(budget=budget, target=target)
    assert model.coef_[0] == pytest.approx([0.05, -0.5], abs=0.05)
    assert model.intercept_[0] == pytest.approx(-2.4, abs=0.25)
    assert model.result_.model.target == "ordinary"
    at_centre = model.decision_function(model.result_.geometry.centre[None])
    assert at_centre[0] == pytest.approx(model.result_.estimate[0], rel=1e-9)
    assert model.predict_proba(X[:50]).shape == (50, 2)
    assert str(model.result_.privacy.budget).startswith(str(budget).split(",", maxsplit=1)[0])


def test_a_geometry_plan_and_add_remove_neighbours():
    model, _ = in_geometry(plan=dp.GeometryPlan(dp.ZCDP(0.5), neighbours="add-remove"))
    assert model.result_.model.n is None
    assert model.result_.reported.all()


def test_what_a_geometry_refuses():
    plan = dp.GeometryPlan(dp.ZCDP(0.5))
    for fault, options in (
        ("pure", {"budget": dp.PureDP(1.0), "target": "ordinary"}),
        ("penalty", {"budget": dp.ZCDP(1.0), "target": "ordinary", "penalty": 0.1}),
        ("takes a budget", {"target": "ordinary"}),
        ("GeometryPlan", {"plan": plan, "budget": dp.ZCDP(1.0)}),
        ("there is no target 'median'", {"budget": dp.ZCDP(1.0), "target": "median"}),
    ):
        with pytest.raises(dp.DpinferError, match=fault):
            in_geometry(200, **options)
    with pytest.raises(
        dp.InputError,
        match=r"logistic regression.* least squares.* Poisson regression.* hazard regression only",
    ):
        dp.LinearSVC(bounds=(-1, 1), plan=plan).fit(np.zeros((10, 2)), np.arange(10) % 2)


def test_a_formula_in_a_geometry():
    demo = dp.datasets.rand_hie()
    model = dp.LogisticRegression(
        demo.formula, schema=demo.schema, budget=dp.ZCDP(0.1875), target="ordinary", insecure_seed=0
    ).fit(demo.table)
    assert model.result_.names[-1] == "health[poor]"
    assert "one person-year" in model.result_.summary()
    assert model.predict(demo.table.head(20)).shape == (20,)


def test_a_schema_may_be_the_path_of_its_file(tmp_path):
    """In models, forecasts and studies alike; a path that is none is said so."""
    SCHEMA.write(tmp_path / "schema.toml")
    options = {"budget": dp.ZCDP(1.0), "insecure_seed": 3}
    given = dp.LogisticRegression(FORMULA, schema=SCHEMA, **options).fit(TABLE).result_
    for path in (tmp_path / "schema.toml", str(tmp_path / "schema.toml")):
        model = dp.LogisticRegression(FORMULA, schema=path, **options)
        assert model.entry(500) == dp.LogisticRegression(FORMULA, schema=SCHEMA, **options).entry(
            500
        )
        assert np.array_equal(model.fit(TABLE).result_.estimate, given.estimate)
        ahead = [
            dp.simulate.forecast(
                FORMULA, records=2000, budgets=[dp.ZCDP(1.0)], replicates=2, schema=schema
            ).half_width
            for schema in (path, SCHEMA)
        ]
        assert np.array_equal(*ahead, equal_nan=True)
        coverage = [
            dp.simulate.coverage(
                TABLE, schema=schema, formula=FORMULA, budget=dp.ZCDP(1.0), replicates=2
            ).table()
            for schema in (path, SCHEMA)
        ]
        assert str(coverage[0]) == str(coverage[1])
    with pytest.raises(dp.InputError, match="nowhere"):
        dp.LogisticRegression(FORMULA, schema="nowhere.toml", **options).fit(TABLE)
    with pytest.raises(dp.InputError, match="a formula needs schema=: the path"):
        dp.LogisticRegression(FORMULA, **options).fit(TABLE)
