"""Predictions, odds ratios and marginal effects, against statsmodels and against the estimators."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpinfer as dp
from dpinfer.inference.error_laws import ErrorLaw
from dpinfer.numerics.noise_laws import NO_NOISE
from dpinfer.result.statements import TOO_NOISY
from result.test_question import TABLE, linear, logistic

ROWS = TABLE.head(40)
DATA = TABLE.assign(
    yes=(TABLE["visit"] == "yes").astype(int), insured=TABLE["insured"].astype(float)
)


def theirs_in_ours(result, fitted):
    """Our result with the coefficients of statsmodels' fit, and their covariance as the law of the
    error.
    """
    names = [
        name.replace("Intercept", "(Intercept)").replace("[T.", "[") for name in fitted.params.index
    ]
    order = [
        names.index(name.replace("health", "C(health, Treatment('good'))")) for name in result.names
    ]
    cov, d = fitted.cov_params().to_numpy()[np.ix_(order, order)], len(order)
    law = ErrorLaw(
        cov, np.zeros((d, 1)), NO_NOISE, 1000, 0, False, np.zeros((d, d)), np.zeros((d, d))
    )
    return dataclasses.replace(result, estimate=fitted.params.to_numpy()[order], error=law)


@pytest.fixture(scope="module")
def logit():
    fitted = smf.logit("yes ~ age + C(health, Treatment('good')) + insured", DATA).fit(disp=0)
    result = logistic("visit ~ age + health + insured", budget=dp.PureDP(5.0)).result_
    return theirs_in_ours(result, fitted), fitted


def test_probabilities_agree_with_statsmodels(logit):
    ours, theirs = logit
    found = ours.predict(ROWS, level=0.9)
    expected = theirs.get_prediction(DATA.head(40), which="mean").summary_frame(alpha=0.1)
    line = theirs.get_prediction(DATA.head(40), which="linear").summary_frame(alpha=0.1)
    assert np.allclose(found["prediction"], expected["predicted"], rtol=1e-8)
    assert np.allclose(found["std_error"], expected["se"], rtol=1e-6)  # the delta method
    for ours_at, theirs_at in (
        ("low", "ci_lower"),
        ("high", "ci_upper"),
    ):  # the ends of the linear predictor's
        assert np.allclose(found[ours_at], 1 / (1 + np.exp(-line[theirs_at])), rtol=1e-8)
    assert set(found["status"]) == {"reported"}
    assert set(found["target"]) == {"penalised"}  # of a pure budget
    free = logistic("visit ~ age + health + insured", budget=dp.ZCDP(5.0)).result_
    assert set(free.predict(ROWS)["target"]) == {"ordinary"}


def test_means_agree_with_statsmodels():
    fitted = smf.ols("np.log(1 + spent) ~ age + C(health, Treatment('good')) + insured", DATA).fit()
    result = linear("log(1 + spent) ~ age + health + insured").result_
    moved = theirs_in_ours(dataclasses.replace(result, geometry=None), fitted)
    found = moved.predict(ROWS, level=0.9)
    expected = fitted.get_prediction(DATA.head(40)).summary_frame(alpha=0.1)
    assert np.allclose(found["prediction"], expected["mean"])
    assert np.allclose(found["std_error"], expected["mean_se"])
    z = 1.6448536269514722
    assert np.allclose(found["low"], expected["mean"] - z * expected["mean_se"])
    effects = moved.margins(level=0.9)
    assert np.allclose(effects["effect"], moved.params[1:])
    assert np.allclose(effects["std_error"], moved.bse[1:])


def test_margins_over_rows_agree_with_statsmodels(logit):
    ours, theirs = logit
    found = ours.margins(TABLE, level=0.9)
    plain = theirs.get_margeff(at="overall").summary_frame(alpha=0.1)
    assert found.loc["age", "effect"] == pytest.approx(plain.loc["age", "dy/dx"], rel=1e-6)
    assert found.loc["age", "std_error"] == pytest.approx(plain.loc["age", "Std. Err."], rel=1e-5)
    switched = theirs.get_margeff(at="overall", dummy=True).summary_frame(alpha=0.1)
    for key, column in (("effect", "dy/dx"), ("std_error", "Std. Err."), ("p_value", "Pr(>|z|)")):
        assert found.loc["insured", key] == pytest.approx(switched.loc["insured", column], rel=1e-5)
    ends = switched.loc["insured", ["Conf. Int. Low", "Cont. Int. Hi."]].to_list()
    assert found.loc["insured", ["low", "high"]].to_list() == pytest.approx(ends, rel=1e-4)


def test_the_effect_of_a_level_is_the_change_from_its_reference(logit):
    """The gradient by the delta method is that of the change itself."""
    ours, _ = logit

    def effect(result):
        ends = [
            result.predict(ROWS.assign(health=level))["prediction"] for level in ("good", "poor")
        ]
        return float(np.mean(ends[1] - ends[0]))

    found = ours.margins(ROWS).loc["health[poor]"]
    gradient = np.array(
        [
            (effect(dataclasses.replace(ours, estimate=ours.estimate + step)) - effect(ours)) / 1e-6
            for step in 1e-6 * np.eye(len(ours.names))
        ]
    )
    assert found["effect"] == pytest.approx(effect(ours))
    assert found["std_error"] == pytest.approx(
        np.sqrt(gradient @ ours.covariance @ gradient), rel=1e-4
    )


def test_every_term_moves_with_its_column():
    result = logistic("visit ~ age + I(age ** 2) + health:age + log(income)").result_
    rows = ROWS.assign(age=50)
    ahead = (
        result.predict(rows.assign(age=51))["prediction"].mean()
        - result.predict(rows)["prediction"].mean()
    )
    assert result.margins(rows).loc["age", "effect"] == pytest.approx(ahead, rel=0.1)
    per_log = result.margins(rows).loc["income", "effect"] * rows["income"].mean()
    assert np.sign(per_log) == np.sign(result.params["log(income)"])
    status = result.margins()["status"]
    assert (
        status["age"] == status["I(age ** 2)"] == "in several terms: give rows, as in margins(rows)"
    )
    assert status["log(income)"] == "reported"


def test_margins_at_the_centre():
    result = logistic("visit ~ age + health").result_
    p = 1 / (1 + np.exp(-result.estimate[0]))
    found = result.margins()
    assert list(found.index) == ["age", "health[fair]", "health[poor]"]
    assert found.loc["age", "effect"] == pytest.approx(p * (1 - p) * result.estimate[1])
    base = result.estimate[0] - result.geometry.centre[1:] @ result.estimate[2:]
    change = 1 / (1 + np.exp(-base - result.estimate[2])) - 1 / (1 + np.exp(-base))
    assert found.loc["health[fair]", "effect"] == pytest.approx(change)
    assert (found["low"] < found["effect"]).all()
    with pytest.raises(dp.InputError, match="another release"):
        result.margins("overall")
    with pytest.raises(dp.InputError, match="no centre"):
        logistic("visit ~ age", budget=dp.PureDP(5.0)).result_.margins()
    with pytest.raises(dp.InputError, match="empty"):
        result.margins(ROWS.head(0))


def test_a_product_that_stands_alone_has_no_effect_at_the_centre():
    """Its column of the design moves with two columns of the table, which no number there says."""
    for formula in ("visit ~ age:income", "visit ~ health:age", "visit ~ insured + age:income"):
        result = logistic(formula).result_
        products = [name for name in result.names if ":" in name]
        assert products
        found = result.margins().loc[products]
        assert set(found["status"]) == {"in several terms: give rows, as in margins(rows)"}
        assert found[["effect", "std_error", "p_value"]].isna().all(axis=None)
        assert np.isinf(found[["low", "high"]]).all(axis=None)
        assert np.isfinite(result.margins(ROWS).loc["age", "effect"])


def test_odds_ratios():
    result = logistic("visit ~ age + health").result_
    found = result.odds_ratios(0.9)
    assert list(found.index) == list(result.names[1:])
    assert np.allclose(found["odds_ratio"], np.exp(result.params[1:]))
    assert np.allclose(found[["low", "high"]], np.exp(result.conf_int(0.9)[1:]))
    assert np.array_equal(found["p_value"], result.pvalues[1:])
    with pytest.raises(dp.InputError, match="logistic"):
        linear("spent ~ age").result_.odds_ratios()


def test_a_column_not_reported_makes_the_interval_of_a_prediction_infinite():
    """Where the law of all coefficients is not there; see test_not_reported for where it is."""
    result = logistic("visit ~ age + health").result_
    status = ("reported", "reported", "reported", TOO_NOISY)
    law = result.error.mapped(np.eye(4)[:3])
    part = dataclasses.replace(result, status=status, error=law, joint=None)
    found = part.predict(ROWS)
    assert np.allclose(found["prediction"], result.predict(ROWS)["prediction"])
    assert np.isnan(found["std_error"]).all()
    assert (found["low"] == 0).all()
    assert (found["high"] == 1).all()
    assert set(found["open"]) == {"health[poor]"}
    assert found["status"].str.contains("health[poor]", regex=False).all()
    assert set(result.predict(ROWS)["open"]) == {""}
    assert (
        part.margins().loc["age", "status"] == "reported"
    )  # at the centre no other column takes part
    assert np.isnan(part.margins(ROWS).loc["age", "effect"])
    ratio = part.odds_ratios().loc["health[poor]"]
    assert np.isnan(ratio["odds_ratio"])
    assert (ratio["low"], ratio["high"]) == (0, np.inf)


@pytest.mark.parametrize("budget", [dp.PureDP(5.0), dp.ZCDP(0.5)])
def test_the_prediction_of_a_row_does_not_depend_on_the_others(budget):
    """Nor do its intervals where the law is sampled."""
    plan = dp.Plan(dp.ObjectivePerturbation(), dp.PureDP(2), dp.PureDP(1), dp.PureDP(1), draws=500)
    options = (
        {"plan": plan, "budget": None} if isinstance(budget, dp.PureDP) else {"budget": budget}
    )
    result = logistic("visit ~ age + health", **options).result_
    whole = result.predict(pd.concat([ROWS] * 8))
    assert len(whole) == 320
    alone = result.predict(ROWS.iloc[[7]])
    assert np.allclose(whole.iloc[[7], :4], alone.iloc[:, :4], rtol=1e-10)
    assert np.allclose(whole.iloc[[287], :4], alone.iloc[:, :4], rtol=1e-10)


def test_a_support_vector_machine_predicts_no_probability():
    model = dp.LinearSVC(
        "visit ~ age", schema=logistic().schema, budget=dp.ZCDP(1.0), insecure_seed=1
    ).fit(TABLE)
    for ask in (lambda r: r.predict(ROWS), lambda r: r.margins(ROWS), lambda r: r.odds_ratios()):
        with pytest.raises(dp.InputError, match=r"LogisticRegression|logistic"):
            ask(model.result_)


def test_a_column_of_yes_and_no_has_one_name_in_all_margins():
    """At the centre and over rows; the effect over rows is the change from no to yes."""
    formula = "visit ~ age + health + member"
    schema = dp.Schema.parse(
        """
        [columns.visit]
        type = "outcome"
        levels = [false, true]
        [columns.age]
        type = "number"
        low = 0
        high = 100
        [columns.health]
        type = "category"
        levels = ["good", "fair", "poor"]
        [columns.member]
        type = "boolean"
        """
    )
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "age": rng.uniform(0, 100, 3000),
            "health": rng.choice(["good", "fair", "poor"], 3000),
            "member": rng.random(3000) < 0.5,
            "visit": rng.random(3000) < 0.4,
        }
    )
    model = dp.LogisticRegression(formula, schema=schema, budget=dp.ZCDP(2.0), insecure_seed=1)
    result = model.fit(table).result_
    names = ["age", "health[fair]", "health[poor]", "member"]
    assert list(result.margins().index) == names
    over = result.margins(table[["age", "health", "member"]].head(50))
    assert list(over.index) == names
    yes, no = (
        result.predict(table[["age", "health"]].head(50).assign(member=answer))["prediction"].mean()
        for answer in (True, False)
    )
    assert over.loc["member", "effect"] == pytest.approx(yes - no)
