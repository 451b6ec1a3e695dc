"""Answers of moment releases: without noise they are least squares, with noise they have its law."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import dpinfer as dp
from dpinfer.errors import BudgetError, InputError
from dpinfer.inference import moment_answers
from dpinfer.moment_release import releasing as releasing_module
from dpinfer.moment_release.moment_plan import TAILS
from dpinfer.privacy.gate import Gate
from dpinfer.schema.columns import Number

DEMO = dp.datasets.rand_hie()
COLUMNS = "mdvis + visit + lncoins + idp + physlm + disea + health + lpi + I(disea**2) + disea:idp"
EXACT = dp.release_moments(DEMO.table, DEMO.schema, COLUMNS, dp.NoPrivacy())
TABLE = DEMO.table.assign(
    idp=DEMO.table.idp.astype(float),
    visit=DEMO.table.visit.astype(float),
    **{f"health[{k}]": (DEMO.table.health == k) * 1.0 for k in ("good", "fair", "poor")},
)
TABLE["I(disea ** 2)"] = TABLE.disea**2
TABLE["disea:idp"] = TABLE.disea * TABLE.idp


def ordinary(outcome, names):
    x = sm.add_constant(TABLE[names].to_numpy(float))
    return sm.OLS(TABLE[outcome].to_numpy(float), x).fit(cov_type="HC0")


def test_answers_without_noise_are_least_squares_with_hc0():
    """200 random formulas."""
    rng = np.random.default_rng(0)
    numbers = ["mdvis", "lncoins", "physlm", "disea", "lpi"]
    others = [*numbers, "idp", "health[good]", "health[fair]", "health[poor]"]
    products = {"I(disea ** 2)": "I(disea**2)", "disea:idp": "disea:idp"}
    worst = 0.0
    for _ in range(200):
        outcome = str(rng.choice(numbers))
        chosen = [one for one in ("lncoins", "physlm", "disea", "lpi", "idp") if one != outcome]
        chosen = [str(one) for one in rng.choice(chosen, rng.integers(1, 4), replace=False)]
        names, terms = list(chosen), list(chosen)
        if rng.random() < 0.5:
            names += others[-3:]
            terms.append("health")
        if outcome != "disea" and "disea" in chosen and rng.random() < 0.5:
            names.append("I(disea ** 2)")
            terms.append(products["I(disea ** 2)"])
        answer = EXACT.ols(f"{outcome} ~ {' + '.join(terms)}")
        fit = ordinary(outcome, names)
        at = [answer.names.index(name) for name in names]
        worst = max(
            worst,
            (np.abs(answer.estimate[at] - fit.params[1:]) / fit.bse[1:]).max(),
            np.abs(answer.std_error[at] / fit.bse[1:] - 1).max(),
        )
    assert worst < 1e-8


def test_levels_may_be_merged_or_have_another_reference():
    other = EXACT.ols("mdvis ~ C(health, 'poor') + lncoins")
    own = EXACT.ols("mdvis ~ health + lncoins")
    assert other.names[1:4] == ("health[excellent]", "health[good]", "health[fair]")
    assert other.estimate[1] == pytest.approx(-own.estimate[3])
    merged = EXACT.ols("mdvis ~ merge(health, ill=('fair', 'poor'))")
    table = TABLE.assign(ill=TABLE["health[fair]"] + TABLE["health[poor]"])
    x = sm.add_constant(table[["health[good]", "ill"]].to_numpy())
    np.testing.assert_allclose(
        merged.estimate, sm.OLS(table.mdvis.to_numpy(float), x).fit().params, rtol=1e-8
    )


def test_levels_may_be_outcomes_and_compared():
    """Every level is an outcome; comparisons of a declared factor are sums of its levels."""
    answer = EXACT.ols("health == 'poor' ~ lncoins + disea")
    fit = ordinary("health[poor]", ["lncoins", "disea"])
    np.testing.assert_allclose(answer.estimate, fit.params, rtol=1e-8)
    np.testing.assert_allclose(answer.std_error[1:], fit.bse[1:], rtol=1e-8)
    compared = EXACT.ols("mdvis ~ {health in ('fair', 'poor')}")
    merged = EXACT.ols("mdvis ~ merge(health, well=('excellent', 'good'), ill=('fair', 'poor'))")
    np.testing.assert_allclose(compared.estimate, merged.estimate, rtol=1e-8)


def test_an_outcome_of_the_schema_may_explain_and_be_explained():
    assert EXACT.ols("mdvis ~ visit").names == ("(Intercept)", "visit[True]")
    assert EXACT.ols("visit ~ lncoins").estimate[1] == pytest.approx(
        ordinary("visit", ["lncoins"]).params[1]
    )


def test_figures_without_noise_are_those_of_the_table():
    assert EXACT.mean("disea").estimate == pytest.approx(TABLE.disea.mean())
    assert EXACT.mean("health[excellent]").estimate == pytest.approx(
        (DEMO.table.health == "excellent").mean()
    )
    assert EXACT.covariance("disea", "lpi").estimate == pytest.approx(
        np.cov(TABLE.disea, TABLE.lpi, bias=True)[0, 1]
    )
    assert EXACT.correlation("mdvis", "disea").estimate == pytest.approx(
        TABLE[["mdvis", "disea"]].corr().iloc[0, 1]
    )
    assert EXACT.r_squared("mdvis ~ disea + lpi").estimate == pytest.approx(
        ordinary("mdvis", ["disea", "lpi"]).rsquared
    )
    x = sm.add_constant(TABLE[["lncoins"]].to_numpy())
    left = [
        TABLE[name] - sm.OLS(TABLE[name].to_numpy(float), x).fit().fittedvalues
        for name in ("mdvis", "disea")
    ]
    assert EXACT.partial_correlation("mdvis", "disea", "lncoins").estimate == pytest.approx(
        np.corrcoef(*left)[0, 1]
    )
    error = EXACT.mean("disea").std_error
    assert error == pytest.approx(TABLE.disea.std(ddof=0) / np.sqrt(len(TABLE)), rel=1e-6)


def test_a_result_has_what_other_results_have():
    result = EXACT.ols("mdvis ~ lncoins + health")
    assert result.contrast("health[fair] - health[good]").estimate == pytest.approx(
        result.estimate[3] - result.estimate[2]
    )
    assert result.wald("health").df == 3
    rows = result.predict({"lncoins": [0.0, 4.0], "health": "good"})
    assert rows["prediction"].iloc[0] == pytest.approx(result.estimate[0] + result.estimate[2])
    assert "least squares from released moments" in result.summary()
    again = dp.FitResult.from_json(result.to_json())
    np.testing.assert_array_equal(again.estimate, result.estimate)


def test_noise_has_the_stated_law():
    """The error of slopes by noise alone, over the stated sd, in 60 releases of one table."""
    table = DEMO.table.iloc[:4000]
    exact = dp.release_moments(table, DEMO.schema, "disea + lpi + lncoins + health", dp.NoPrivacy())
    truth = exact.ols("disea ~ lpi + lncoins").estimate
    errors = []
    for seed in range(60):
        noisy = dp.release_moments(
            table, DEMO.schema, "disea + lpi + lncoins + health", dp.ZCDP(0.5), insecure_seed=seed
        )
        columns, outcome = np.eye(7)[[0, 2, 3]], np.eye(7)[1]
        answer = moment_answers.regression(noisy.sums, columns, outcome, np.zeros(3, dtype=bool))
        errors.append((answer.coef - truth)[1:] / np.sqrt(np.diag(answer.noise))[1:])
    spread = np.sqrt((np.array(errors) ** 2).mean())
    assert 0.8 < spread < 1.2


def test_the_price_is_the_same_for_all_questions():
    """Noise over sampling variance is near s²R⁴/(2n), whatever the outcome and the columns are."""
    rng = np.random.default_rng(0)
    mixing = np.eye(6) + 0.1 * rng.standard_normal((6, 6))
    x = rng.standard_normal((20_000, 6)) @ mixing
    scale = np.abs(x).max() * 1.01
    frame = pd.DataFrame(x, columns=list("abcdef"))
    schema = dp.Schema.parse(
        'unit = "one row"\n'
        + "\n".join(
            f'[columns.{c}]\ntype = "number"\nlow = {-scale}\nhigh = {scale}' for c in "abcdef"
        )
    )
    release = dp.release_moments(
        frame, schema, "a + b + c + d + e + f", dp.ZCDP(0.1), insecure_seed=3
    )
    ratios = []
    for outcome in "abcdef":
        others = [c for c in "abcdef" if c != outcome][:3]
        result = release.ols(f"{outcome} ~ {' + '.join(others)}")
        share = result.noise_share[1:]
        ratios += (share / (1 - share)).tolist()
    assert np.median(ratios) == pytest.approx(release.price, rel=0.35)


def test_a_release_is_saved_and_read_exactly(tmp_path):
    release = dp.release_moments(
        DEMO.table, DEMO.schema, COLUMNS, dp.ApproxDP(1.0, 1e-6), insecure_seed=1
    )
    release.save(tmp_path / "visits.moments")
    again = dp.moments(tmp_path / "visits.moments")
    formula = "mdvis ~ lncoins + disea + health"
    assert again.ols(formula).to_json() == release.ols(formula).to_json()
    assert again.to_json() == release.to_json()
    assert repr(again) == repr(release)


def test_what_cannot_be_asked_is_refused_with_a_remedy(tmp_path):
    with pytest.raises(InputError, match="not among the declared features"):
        EXACT.ols("mdvis ~ log(1 + disea)")
    with pytest.raises(InputError, match="no declared column"):
        EXACT.mean("diseas")
    with pytest.raises(InputError, match="has levels: name one of them, as in 'health"):
        EXACT.mean("health")
    with pytest.raises(InputError, match="two columns"):
        EXACT.correlation("mdvis", "mdvis")
    with pytest.raises(InputError, match="nothing of it is left"):
        EXACT.partial_correlation("mdvis", "disea", "disea + lpi")
    with pytest.raises(InputError, match="name the other columns"):
        EXACT.partial_correlation("mdvis", "disea", "")
    with pytest.raises(InputError, match="columns that explain"):
        EXACT.r_squared("mdvis ~ 1")
    with pytest.raises(InputError, match="a formula is a text"):
        EXACT.ols(3)
    with pytest.raises(InputError, match="name columns"):
        dp.release_moments(DEMO.table, DEMO.schema, "", dp.ZCDP(1.0))
    with pytest.raises(BudgetError, match="a moment release needs Gaussian noise"):
        dp.release_moments(DEMO.table, DEMO.schema, COLUMNS, dp.PureDP(1.0))
    with pytest.raises(InputError, match="leave out ~"):
        dp.release_moments(DEMO.table, DEMO.schema, "mdvis ~ disea", dp.ZCDP(1.0))
    with pytest.raises(BudgetError, match="fewer features"):
        dp.release_moments(DEMO.table, DEMO.schema, COLUMNS, dp.ZCDP(0.002))
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="no moment release"):
        dp.moments(tmp_path / "other.json")
    with pytest.raises(InputError, match="cannot be read"):
        dp.moments(tmp_path / "gone.json")


def test_a_file_whose_fourth_moments_are_damaged_is_refused():
    document = json.loads(EXACT.to_json())
    for damaged in (document["fourth"][:-8], document["fourth"][:-1] + "!", "", None):
        with pytest.raises(InputError, match="cannot be read"):
            dp.MomentRelease.from_json(json.dumps(document | {"fourth": damaged}))


def test_intervals_allow_for_what_weights_take():
    """The excess of rows beyond the radius, .15 of it in a direction that is not known."""
    release = dp.release_moments(
        DEMO.table, DEMO.schema, "mdvis + lncoins + disea", dp.ZCDP(0.5), insecure_seed=0
    )
    rng = np.random.default_rng(0)
    gradient = rng.standard_normal((2, len(release.sums.second)))
    plain = replace(release.sums, excess=-3.0)
    far = replace(release.sums, excess=200.0)
    inner = far.projected(gradient)
    np.testing.assert_allclose(
        plain.error_covariance(gradient), plain.noise_covariance(gradient), atol=1e-12
    )
    np.testing.assert_allclose(
        far.error_covariance(gradient) - far.noise_covariance(gradient),
        (0.15 * 200) ** 2 / inner.shape[1] * inner @ inner.T,
    )
    answers = [replace(release, sums=one) for one in (plain, far)]
    slopes = [one.ols("mdvis ~ disea + lncoins").std_error for one in answers]
    assert (slopes[1] > slopes[0]).all()
    assert answers[1].mean("disea").std_error > answers[0].mean("disea").std_error


def test_limits_and_their_bias_bounds_are_by_different_releases(monkeypatch):
    """Heavier tails in the release that bounds the bias leave the limits where they are."""
    more = 0.0

    class Heavier(Gate):
        def release(self, release, source, query):
            released = super().release(release, source, query)
            return replace(released, value=released.value + more * (release.step == TAILS))

    monkeypatch.setattr(releasing_module, "Gate", Heavier)
    given = {"columns": "income + age", "budget": dp.ApproxDP(1.0, 1e-6), "insecure_seed": 3}
    first = dp.release_moments(spending(20_000), SPENDING, **given)
    more = 60.0
    second = dp.release_moments(spending(20_000), SPENDING, **given)
    assert list(first.clipped) == ["income"]
    assert first.clipped == second.clipped
    np.testing.assert_array_equal(first.sums.second, second.sums.second)
    for bias in ("slope_bias", "mean_bias", "moment_bias"):
        before, after = getattr(first.sums, bias), getattr(second.sums, bias)
        assert after[1] > 1.2 * before[1] > 0, bias


def test_what_weights_take_is_at_most_the_excess():
    """The norm of Σ (1 - w) u uᵀ, whose trace is that of the rows beyond the radius."""
    rng = np.random.default_rng(1)
    for scale in (0.5, 1.0, 3.0):
        u = rng.standard_normal((50, 4)) * scale * rng.exponential(size=(50, 1))
        length2 = (u**2).sum(axis=1)
        taken = (u * (1 - np.minimum(1, 1 / length2))[:, None]).T @ u
        excess = np.maximum(length2 - 1, 0).sum()
        assert np.trace(taken) == pytest.approx(excess)
        assert np.linalg.norm(taken) <= excess * (1 + 1e-12)


def test_an_any_model_band_has_the_norm_of_random_matrices():
    """About 2 sqrt p + 1 standard errors, and never fewer than a usual interval."""
    factor = moment_answers.any_model_factor(20, 0.95)
    assert factor == pytest.approx(2 * np.sqrt(20) + 1, rel=0.03)
    assert moment_answers.any_model_factor(20, 0.99) > factor
    result = EXACT.ols("mdvis ~ lncoins + disea")
    band = EXACT.any_model_band("mdvis ~ lncoins + disea")
    away = (band[:, 1] - band[:, 0]) / 2
    np.testing.assert_allclose(
        away, moment_answers.any_model_factor(len(EXACT.names), 0.95) * result.std_error
    )


SPENDING = dp.Schema.parse("""
unit = "one person"
[columns.income]
type = "number"
low = 0
high = 1000
[columns.age]
type = "number"
low = 18
high = 90
[columns.rare]
type = "boolean"
""")


def spending(n, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n)
    income = np.exp(rng.normal(3, 1.2, n)) * (1 + age / 90)
    return pd.DataFrame({"income": income, "age": age, "rare": rng.random(n) < 0.0005})


def test_figures_of_clipped_numbers_say_so_and_allow_for_it():
    """The mean of a clipped number is too small; its interval holds that of the numbers as they are."""
    truth = spending(400_000, seed=1)
    income = np.clip(truth.income, 0, 1000)
    held, held_plain = [], []
    for seed in range(12):
        release = dp.release_moments(
            spending(20_000, 100 + seed),
            SPENDING,
            "income + age",
            dp.ApproxDP(1.0, 1e-6),
            insecure_seed=seed,
        )
        found = release.mean("income")
        assert found.clipped_to == {"income": release.clipped["income"]}
        assert found.high - found.low > 2 * 1.96 * found.std_error
        assert not release.mean("age").clipped_to
        held.append(found.low < income.mean() < found.high)
        held_plain.append(abs(found.estimate - income.mean()) < 1.96 * found.std_error)
        pair = release.correlation("income", "age")
        assert pair.clipped_to
        assert pair.low < np.corrcoef(income, truth.age)[0, 1] < pair.high
    assert sum(held) >= 11
    assert sum(held_plain) < sum(held)


def test_figures_that_noise_hides_are_not_reported():
    """Also where noise has made a variance positive, as in half of the releases."""
    for seed in range(5, 10):
        release = dp.release_moments(
            spending(2000), SPENDING, "income + age + rare", dp.ZCDP(0.05), insecure_seed=seed
        )
        for found in (
            release.correlation("rare", "age"),
            release.partial_correlation("income", "age", "rare"),
            release.r_squared("rare ~ age"),
        ):
            assert np.isnan(found.estimate)
            assert found.status.startswith("not reported: ")
            assert str(found) == f"{found.name}: {found.status}"
        assert str(release.mean("age")).startswith("mean of age: ")


def test_a_number_that_is_part_of_a_product_is_not_clipped():
    """x·d = (x:d)·1 would not hold for a record whose x is clipped and whose product is not."""
    table = spending(20_000)
    table["rare"] = table.age > 40
    budget = dp.ApproxDP(1.0, 1e-6)
    for columns, clipped in (
        ("income + age", ["income"]),
        ("income + age + income:rare + rare", []),
        ("income + age + I(income**2)", []),
    ):
        release = dp.release_moments(table, SPENDING, columns, budget, insecure_seed=1)
        assert list(release.clipped) == clipped, columns


@pytest.mark.parametrize("units", [False, True])
def test_the_noise_of_sampling_variances_has_the_stated_sd(units):
    """Contractions of noise alone, over their sd: of records by the symmetric tensor, of units as they are."""
    p = len(EXACT.names)
    pairs = p * (p + 1) // 2
    rng = np.random.default_rng(0)
    residual = rng.standard_normal(p)
    influence = rng.standard_normal((3, p))
    found = []
    for _ in range(400):
        noise = 2.0 * rng.standard_normal(pairs * (pairs + 1) // 2)
        sums = replace(EXACT.sums, fourth=noise, fourth_noise=2.0, of_units=units)
        covariance, sd = sums.sampling(residual, influence)
        found.append(np.diag(covariance) / sd)
    assert np.sqrt((np.array(found) ** 2).mean()) == pytest.approx(1.0, rel=0.1)


def test_r_squared_of_no_relation_begins_at_0():
    rng = np.random.default_rng(2)
    table = spending(5000)
    table["income"] = rng.uniform(0, 1000, 5000)
    release = dp.release_moments(
        table, SPENDING, "income + age", dp.ApproxDP(3.0, 1e-6), insecure_seed=1
    )
    found = release.r_squared("income ~ age")
    assert found.low == 0.0
    assert 0 < found.high < 0.02


VISITS = """
unit = "one person"
[unit]
name = "one person"
column = "id"
rows = "average"
[columns.x]
type = "number"
low = -4
high = 4
[columns.y]
type = "number"
low = -8
high = 8
"""


def visits(units, seed=0):
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(units), rng.integers(1, 5, units))
    own = rng.normal(0, 1, units)[ids]
    x = np.clip(0.5 * own + rng.normal(0, 0.8, len(ids)), -4, 4)
    y = np.clip(x + own + rng.normal(0, 0.5, len(ids)), -8, 8)
    return pd.DataFrame({"id": ids, "x": x, "y": y})


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_answers_of_persons_are_weighted_least_squares_clustered_by_person(adjacency):
    table = visits(3000)
    schema = dp.Schema.parse(VISITS.replace('unit = "one person"\n[unit]', "[unit]"))
    exact = dp.release_moments(table, schema, "x + y", dp.NoPrivacy(), adjacency=adjacency)
    weights = 1 / table.groupby("id").x.transform("size")
    fit = sm.WLS(table.y, sm.add_constant(table[["x"]]), weights).fit(
        cov_type="cluster",
        cov_kwds={"groups": table.id, "use_correction": False, "df_correction": False},
    )
    answer = exact.ols("y ~ x")
    np.testing.assert_allclose(answer.estimate, fit.params, rtol=1e-8)
    np.testing.assert_allclose(answer.std_error[1], fit.bse.iloc[1], rtol=1e-8)
    noisy = dp.release_moments(
        table, schema, "x + y", dp.ApproxDP(2.0, 1e-6), adjacency=adjacency, insecure_seed=1
    )
    assert noisy.n == (3000 if adjacency == "replace" else None)
    low, high = noisy.ols("y ~ x").conf_int()[1]
    assert low < fit.params.iloc[1] < high


def test_answers_with_sampling_weights_are_weighted_least_squares():
    table = visits(4000).drop_duplicates("id").drop(columns="id")
    table["w"] = np.random.default_rng(1).uniform(0.5, 2.0, len(table))
    text = VISITS.replace('[unit]\nname = "one person"\ncolumn = "id"\nrows = "average"\n', "")
    text = text.replace("[columns.x]", '[weights]\ncolumn = "w"\nmost = 2.0\n[columns.x]')
    exact = dp.release_moments(table, dp.Schema.parse(text), "x + y", dp.NoPrivacy())
    fit = sm.WLS(table.y, sm.add_constant(table[["x"]]), table.w).fit(cov_type="HC0")
    answer = exact.ols("y ~ x")
    np.testing.assert_allclose(answer.estimate, fit.params, rtol=1e-8)
    np.testing.assert_allclose(answer.std_error[1], fit.bse.iloc[1], rtol=1e-8)


def test_a_file_that_does_not_fit_its_columns_is_refused(tmp_path):
    release = dp.release_moments(
        visits(500),
        dp.Schema.parse(VISITS.replace('unit = "one person"\n[unit]', "[unit]")),
        "x + y",
        dp.ZCDP(1.0),
        insecure_seed=1,
    )
    text = release.to_json()
    (tmp_path / "short.moments").write_text(text.replace('"x + y"', '"x"', 1))
    with pytest.raises(InputError, match="do not fit its columns"):
        dp.moments(tmp_path / "short.moments")


def test_a_release_that_whole_numbers_have_no_room_for_is_refused():
    many = " + ".join(f"x{k}" for k in range(50))
    text = 'unit = "one person"\n[unit]\nname = "one person"\nlargest_table = 1000000000000\n'
    text = text.partition("\n")[2] + "".join(
        f'[columns.x{k}]\ntype = "number"\nlow = 0\nhigh = 1\n' for k in range(50)
    )
    schema = dp.Schema.parse(text)
    with pytest.raises(BudgetError, match="declare fewer features"):
        dp.plan_moments(schema, many, 10**9, dp.ZCDP(1.0), adjacency="add-remove")


def test_incomplete_records_are_not_counted():
    """With 30 % of a number missing, means, covariances and intervals are those of the complete records."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.uniform(-1, 1, 4000), "y": rng.uniform(-1, 1, 4000)})
    table.loc[rng.random(4000) < 0.3, "x"] = np.nan
    schema = dp.Schema({name: Number(name, -1, 1) for name in table})
    release = dp.release_moments(table, schema, "x + y", dp.NoPrivacy())
    complete = table.dropna()
    assert release.sums.n == pytest.approx(len(complete))
    assert "far out or incomplete" in release.summary()
    assert release.weight_loss == pytest.approx(1 - len(complete) / len(table))
    assert release.mean("x").estimate == pytest.approx(complete.x.mean())
    assert release.covariance("x", "y").estimate == pytest.approx(
        complete.cov().loc["x", "y"], rel=1e-2
    )
    fit = sm.OLS(complete.y, sm.add_constant(complete.x)).fit(cov_type="HC0")
    answer = release.ols("y ~ x")
    np.testing.assert_allclose(answer.estimate, fit.params, rtol=1e-8)
    np.testing.assert_allclose(answer.std_error, fit.bse, rtol=1e-6)


def test_more_columns_than_the_release_has_are_refused_before_they_are_made():
    """Merged levels could be typed a hundred thousand times, each a row of the release."""
    terms = (
        " + ".join(f"{{disea > {k}}}" for k in range(40))
        + " + merge(health, ill=('fair', 'poor'))" * 60
    )
    with pytest.raises(InputError, match="leave out"):
        EXACT.ols(f"mdvis ~ {terms}")
