"""Effects of persons: the within estimator, with and without noise."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.result.statements import ALIASED, INTERCEPT_ABSORBED

PERSONS = 4_000
YEARS = (2001, 2002, 2003, 2004)
FORMULA = "y ~ x + works + group | person + year"
PUBLIC = f"""
unit = {{name = "one person", column = "person"}}
columns.y = {{type = "number", low = -12, high = 12}}
columns.x = {{type = "number", low = -5, high = 5}}
columns.twin = {{type = "number", low = -5, high = 5}}
columns.works = {{type = "boolean"}}
columns.born = {{type = "integer", low = 1940, high = 2000}}
columns.group = {{type = "category", levels = ["a", "b", "c"]}}
columns.year = {{type = "integer", low = 2001, high = 2004, levels = {list(YEARS)}}}
"""
SCHEMA = dp.Schema.parse(PUBLIC)


def made(persons=PERSONS, seed=0):
    """An unbalanced panel in which x and work depend on the effect of a person, and some cells are missing."""
    rng = np.random.default_rng(seed)
    size = (persons, len(YEARS))
    effect = rng.normal(0, 1.5, (persons, 1))
    x = np.clip(0.8 * effect + rng.normal(0, 1, size), -5, 5)
    works = effect + rng.normal(0, 1, size) > 0
    group = rng.integers(0, 3, size)
    y = effect + 0.5 * x + 0.4 * works + 0.3 * (group == 1) + 0.1 * np.arange(len(YEARS))
    y = np.clip(y + rng.normal(0, 0.6, size), -12, 12)
    table = pd.DataFrame(
        {
            "person": np.repeat(rng.permutation(persons), len(YEARS)),
            "year": np.tile(YEARS, persons),
            "x": x.ravel(),
            "twin": (x + rng.normal(0, 0.05, size)).ravel(),
            "works": works.ravel(),
            "group": np.array(["a", "b", "c"])[group.ravel()],
            "born": np.repeat(rng.integers(1940, 2001, persons), len(YEARS)),
            "y": y.ravel(),
        }
    )
    table.loc[rng.random(len(table)) < 0.02, "x"] = np.nan
    return table.sample(frac=0.8, random_state=1)


TABLE = made()


def fitted(formula=FORMULA, budget=None, table=TABLE, **options):
    budget = dp.NoPrivacy() if budget is None else budget
    model = dp.LinearRegression(formula, schema=SCHEMA, budget=budget, insecure_seed=3, **options)
    return model.fit(table).result_


@pytest.fixture(scope="module")
def private():
    return fitted(budget=dp.ApproxDP(3, 1e-6))


def test_without_noise_it_is_the_regression_on_dummies_of_persons():
    """Of 300 persons, some with a single row, and with rows that cannot be used."""
    table = made(300, 1)
    result = fitted(table=table)
    used = table.dropna()
    columns = {"x": used["x"], "works": used["works"]}
    columns |= {f"group[{level}]": used["group"] == level for level in ("b", "c")}
    columns |= {f"year[{year}]": used["year"] == year for year in YEARS[1:]}
    X = pd.DataFrame(columns).astype(float)
    dummies = pd.get_dummies(used["person"]).astype(float)
    kept = {"groups": used["person"], "use_correction": False}
    other = sm.OLS(used["y"], pd.concat([X, dummies], axis=1)).fit(
        cov_type="cluster", cov_kwds=kept
    )
    assert result.names[1:] == tuple(X.columns)
    np.testing.assert_allclose(result.estimate[1:], other.params[: X.shape[1]], atol=1e-8)
    persons = table["person"].nunique()
    np.testing.assert_allclose(
        result.std_error[1:], other.bse[: X.shape[1]] * np.sqrt(persons / (persons - 1)), rtol=1e-8
    )
    assert result.status[0] == INTERCEPT_ABSORBED


def test_the_argument_is_the_formula():
    short = fitted("y ~ x + works + group + C(year)", effects="person")
    np.testing.assert_array_equal(short.estimate, fitted().estimate)


def test_every_row_counts_once_whatever_the_schema_says():
    """The within estimator is that of all rows: an average of persons is not what fixed effects mean."""
    average = dp.Schema.parse(PUBLIC.replace('"person"}', '"person", rows = "average"}'))
    assert not average.unit.every
    model = dp.LinearRegression(FORMULA, schema=average, budget=dp.NoPrivacy())
    np.testing.assert_array_equal(model.fit(TABLE).result_.estimate, fitted().estimate)


def test_a_private_fit_is_near_it(private):
    exact = fitted()
    assert private.reported[1:].all()
    assert private.status[0] == INTERCEPT_ABSORBED
    off = np.abs(private.estimate - exact.estimate)[1:] / private.std_error[1:]
    assert off.max() < 3
    assert (private.std_error / exact.std_error)[1:].max() < 2.5
    assert "intercept of its own" in private.model.estimand()
    assert "no unit has an effect of its own" not in private.model.estimand()


def test_a_column_that_is_constant_within_persons_is_not_reported():
    exact = fitted("y ~ x + born | person")
    assert exact.status[2] == ALIASED
    private = fitted("y ~ x + born | person", dp.ApproxDP(10, 1e-6))
    assert list(private.reported) == [False, True, False]


def test_columns_that_are_nearly_one_within_persons_are_not_reported_apart():
    private = fitted("y ~ x + twin + works | person", dp.ApproxDP(1, 1e-6))
    assert list(private.reported) == [False, False, False, True]


def test_it_is_saved_and_predicts_nothing(private):
    again = dp.FitResult.from_json(private.to_json())
    assert again.model.effects
    np.testing.assert_array_equal(again.conf_int(), private.conf_int())
    with pytest.raises(dp.InputError, match="intercept of every person"):
        again.predict(TABLE[:3])
    model = dp.LinearRegression(FORMULA, schema=SCHEMA, budget=dp.NoPrivacy()).fit(TABLE)
    with pytest.raises(dp.InputError, match="predicts no outcome"):
        model.predict(TABLE[:3])
    assert again.contrast("x - works").estimate == pytest.approx(
        private.estimate[1] - private.estimate[2]
    )
    assert "Released centre" not in private.summary(full=True)


def test_files_and_order_of_rows_change_nothing(tmp_path):
    TABLE.to_parquet(tmp_path / "panel.parquet", index=False)
    by_person = TABLE.sort_values(["person", "year"], kind="stable")
    first = fitted(table=str(tmp_path / "panel.parquet"))
    np.testing.assert_allclose(first.estimate, fitted(table=by_person).estimate, atol=1e-12)


def test_other_targets_and_models_are_refused():
    with pytest.raises(dp.InputError, match="least squares"):
        dp.QuantileRegression(FORMULA, schema=SCHEMA, budget=dp.ZCDP(0.1)).entry(100)
    with pytest.raises(dp.InputError, match="'ordinary'"):
        dp.LinearRegression(FORMULA, schema=SCHEMA, budget=dp.ZCDP(0.1), target="robust").entry(100)


@pytest.mark.parametrize("budget", [dp.NoPrivacy(), dp.ZCDP(0.1)], ids=["exact", "private"])
@pytest.mark.parametrize("rows", [0, 1])
def test_tables_of_hardly_a_row_have_a_result(rows, budget):
    """Nobody has two rows: nothing is reported, and nothing fails."""
    result = fitted("y ~ x | person", budget, TABLE[:rows], adjacency="add-remove")
    assert not result.reported.any()


def test_no_table_has_an_intercept(private):
    """Every person has one of its own: it is in no list of what is missing either."""
    assert [row["name"] for row in private.table()] == list(private.names[1:])
    assert "(Intercept)" not in private.summary()
    assert "7, all reported" in private.summary()
    assert "(Intercept)" not in dp.plot.forest_text(private)
    assert list(private.to_frame().index) == list(private.names[1:])
    assert "7 coefficients" in repr(private)
