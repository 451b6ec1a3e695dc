"""Contrasts and tests by name, against the vectors they stand for and against statsmodels."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpinfer as dp
from dpinfer.inference.error_laws import ErrorLaw
from dpinfer.numerics.noise_laws import NO_NOISE
from dpinfer.result import text as texts
from dpinfer.result.estimates import Estimates
from dpinfer.result.hypotheses import Hypothesis, Vocabulary
from dpinfer.result.statements import TOO_NOISY
from result.test_question import LOGISTIC, TABLE, logistic

NAMES = (
    "(Intercept)",
    "age",
    "log(1 + mdvis)",
    "x1",
    "x10",
    "health[a - b, c=d]",
    "health[fair]",
    "age:health[fair]",
)


def hypothesis(text, zeros=("health[good]",)):
    terms = {"health": ("health[a - b, c=d]", "health[fair]"), "age": ("age",)}
    return Hypothesis(Vocabulary(NAMES, frozenset(zeros), terms), text)


def row(**places):
    found = np.zeros(len(NAMES))
    for place, value in places.items():
        found[int(place[1:])] = value
    return found.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age", row(_1=1)),
        ("x1 - x10", row(_3=1, _4=-1)),
        ("2 * age + x1*3 - 4 * x10 / 2", row(_1=2, _3=3, _4=-2)),
        ("-(age + x1) / 2", row(_1=-0.5, _3=-0.5)),
        ("log(1 + mdvis)-(Intercept)", row(_2=1, _0=-1)),
        ("health[a - b, c=d] - health[fair]", row(_5=1, _6=-1)),
        ("health[fair] - health[good]", row(_6=1)),
        ("age:health[fair] + 1.5e-1 * age", row(_7=1, _1=0.15)),
        ("age + age", row(_1=2)),
        ("+ age", row(_1=1)),
        ("x1 * (2 + 1) - (x10)", row(_3=3, _4=-1)),
        ("1e3*age + .5*x1", row(_1=1000, _3=0.5)),
    ],
)
def test_a_combination_is_read(text, expected):
    assert hypothesis(text).combination().tolist() == expected


@pytest.mark.parametrize(
    "text",
    ["`age`:health[fair] - `x1`", "age:`health`[fair] - x1", "`age:health[fair]` - `x1`"],
)
def test_names_may_stand_in_backticks(text):
    plain = hypothesis("age:health[fair] - x1").combination().tolist()
    assert hypothesis(text).combination().tolist() == plain


def test_a_name_with_backticks_is_found_without_them():
    names = ("log(`class` + 1)", "class[b]")
    known = Vocabulary(names, frozenset(), {"class": ("class[b]",)})
    for text in ("log(class + 1) - `class`[b]", "log(`class` + 1) - class[b]"):
        assert Hypothesis(known, text).combination().tolist() == [1, -1]
    assert Hypothesis(known, "`class`").equations(np.array([True, True])).tested == ("class[b]",)
    apart = Vocabulary(("x[a`]", "x[a]"), frozenset(), {})
    assert Hypothesis(apart, "x[a`]").combination().tolist() == [1, 0]
    assert Hypothesis(apart, "x[a]").combination().tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agee", "did you mean 'age'"),
        ("age +", "missing"),
        ("age = x1", "wald"),
        ("age, x1", "wald"),
        ("age - 2", "no constant"),
        ("health[good]", "reference level"),
        ("age * x1", "linear"),
        ("1 / age", "number other than 0"),
        ("age / 0", "number other than 0"),
        ("(age", "not closed"),
        ("age x1", "cannot be read"),
        ("", "missing"),
        ("health - age", "whole term"),
    ],
)
def test_what_cannot_be_read_says_why(text, message):
    with pytest.raises(dp.InputError, match=message):
        hypothesis(text).combination()


def test_equations_are_read():
    reported = np.ones(len(NAMES), dtype=bool)
    found = hypothesis("age = x1 = 2, x10 = 0").equations(reported)
    assert found.matrix.tolist() == [row(_1=1, _3=-1), row(_3=1), row(_4=1)]
    assert found.right.tolist() == [0, 2, 0]
    assert found.tested == ("age", "x1", "x10")
    found = hypothesis("health, age").equations(reported)
    assert found.tested == ("age", "health[a - b, c=d]", "health[fair]")
    assert len(found.matrix) == 3
    found = hypothesis("health[a - b, c=d] = 1e-3, 2 - x1 = -(age - 1)").equations(reported)
    assert found.matrix.tolist() == [row(_5=1), row(_1=1, _3=-1)]
    assert found.right.tolist() == [1e-3, -1]
    reported[6] = False
    found = hypothesis("health").equations(reported)
    assert (found.tested, found.left_out) == (("health[a - b, c=d]",), ("health[fair]",))
    reported[5] = False
    with pytest.raises(dp.InputError, match="nothing is left to test"):
        hypothesis("health").equations(reported)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 = 1", "names no coefficient"),
        ("health[good] = 0", "names no coefficient"),
        ("age = ", "missing"),
        ("age = 0,", "missing"),
        ("() age = 0", "missing"),
        ("age = 2 x1", "missing"),
        ("health = 0", "whole term: test it alone"),
        ("age = 1e999", "too large"),
        ("age) = 0", "parenthesis"),
        ("age = agee", "did you mean 'age'"),
    ],
)
def test_equations_that_cannot_be_read_say_why(text, message):
    with pytest.raises(dp.InputError, match=message):
        hypothesis(text).equations(np.ones(len(NAMES), dtype=bool))


@pytest.fixture(scope="module")
def pair():
    """Our result with the law of statsmodels' fit in the place of its own: the same numbers, noise
    off.
    """
    theirs = smf.logit(
        "yes ~ age + np.log(income) + C(health, Treatment('good')) * insured",
        TABLE.assign(
            yes=(TABLE["visit"] == "yes").astype(int), insured=TABLE["insured"].astype(float)
        ),
    ).fit(disp=0)
    ours = logistic(budget=dp.PureDP(5.0)).result_
    words = {"Intercept": "(Intercept)", "np.log(income)": "log(income)"}
    names = [
        words.get(name, name).replace("C(health, Treatment('good'))[T.", "health[")
        for name in theirs.params.index
    ]
    order = [names.index(name) for name in ours.names]
    cov, d = theirs.cov_params().to_numpy()[np.ix_(order, order)], len(order)
    law = ErrorLaw(
        cov, np.zeros((d, 1)), NO_NOISE, 1000, 0, False, np.zeros((d, d)), np.zeros((d, d))
    )
    return (
        dataclasses.replace(ours, estimate=theirs.params.to_numpy()[order], error=law),
        theirs,
        order,
    )


def test_named_contrasts_and_tests_agree_with_statsmodels(pair):
    ours, theirs, order = pair
    for text, vector in (
        ("health[fair] - health[poor]", {"health[fair]": 1, "health[poor]": -1}),
        ("2 * age + log(income)", {"age": 2, "log(income)": 1}),
    ):
        weights = np.zeros(len(order))
        for name, weight in vector.items():
            weights[order[ours.names.index(name)]] = weight
        found, expected = ours.contrast(text, 0.9), theirs.t_test(weights)
        assert found.estimate == pytest.approx(float(expected.effect[0]))
        assert found.std_error == pytest.approx(float(np.ravel(expected.sd)[0]))
        assert [found.low, found.high] == pytest.approx(expected.conf_int(alpha=0.1)[0].tolist())
        assert found.p_value == pytest.approx(float(expected.pvalue))
    for text, rows in (
        ("health", [{"health[fair]": 1}, {"health[poor]": 1}]),
        ("age = insured = 0", [{"age": 1, "insured": -1}, {"insured": 1}]),
        ("health:insured", [{"health[fair]:insured": 1}, {"health[poor]:insured": 1}]),
    ):
        matrix = np.zeros((len(rows), len(order)))
        for k, vector in enumerate(rows):
            for name, weight in vector.items():
                matrix[k, order[ours.names.index(name)]] = weight
        expected = theirs.wald_test(matrix, scalar=True)
        found = ours.wald(text)
        assert (found.statistic, found.df) == (pytest.approx(float(expected.statistic)), len(rows))
        assert found.p_value == pytest.approx(float(expected.pvalue))
        assert found.left_out == ()
    assert ours.wald("age = 0.03").statistic == pytest.approx(
        float(theirs.wald_test("age = 0.03", scalar=True).statistic)
    )


def test_the_names_of_statsmodels(pair):
    ours, theirs, order = pair
    for name in ("params", "bse", "tvalues", "pvalues"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name).iloc[order], rtol=1e-10)
        assert list(getattr(ours, name).index) == list(ours.names)
    assert np.allclose(ours.conf_int(alpha=0.1), theirs.conf_int(alpha=0.1).iloc[order])
    assert np.array_equal(ours.conf_int(alpha=0.1), ours.conf_int(0.9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.05}, "write level=0.95 or alpha=0.05"),
        ({"alpha": 0.95}, "write level=0.95 or alpha=0.05"),
        ({"level": 0.9, "alpha": 0.1}, "not both"),
        ({"level": 95}, "strictly between"),
        ({"alpha": 0}, "strictly between"),
    ],
)
def test_a_level_below_a_half_asks_what_was_meant(pair, options, message):
    with pytest.raises(dp.InputError, match=message):
        pair[0].conf_int(**options)


def test_a_factor_with_levels_not_reported_tests_the_others():
    result = logistic("visit ~ age + health", budget=dp.ZCDP(5.0)).result_
    status = ("reported", "reported", "reported", TOO_NOISY)
    part = dataclasses.replace(
        result, status=status, error=result.error.mapped(np.eye(4)[:3]), joint=None
    )
    found = part.wald("health")
    assert (found.tested, found.left_out, found.df) == (("health[fair]",), ("health[poor]",), 1)
    assert found.p_value == part.contrast("health[fair]").p_value == part.pvalues["health[fair]"]
    with pytest.raises(dp.InputError, match=r"health\[poor\] is not reported: too noisy"):
        part.contrast("health[poor] - health[fair]")
    with pytest.raises(dp.InputError, match="leave out r="):
        part.wald("health", 1.0)


@pytest.mark.parametrize("budget", [dp.PureDP(2.0), dp.ZCDP(0.5)])
def test_p_values_agree_between_views(budget):
    result = logistic(LOGISTIC, budget=budget).result_
    for name, kept, row in zip(result.names, result.reported, result.table(), strict=True):
        if kept:
            assert row["p_value"] == result.pvalues[name]
            assert result.wald(name).p_value == pytest.approx(row["p_value"], rel=1e-9)
            assert result.contrast(name).p_value == pytest.approx(row["p_value"], rel=1e-9)


def test_without_a_question_terms_are_names_without_their_levels():
    result = logistic("visit ~ age + health").result_
    bare = dataclasses.replace(result, question=None)
    assert bare.wald("health") == result.wald("health")
    with pytest.raises(dp.InputError, match="no coefficient"):
        bare.contrast("health[fair] - health[good]")
    assert isinstance(bare, Estimates)
    assert isinstance(bare.params, pd.Series)


def test_a_simulated_test_prints_what_its_draws_exclude():
    """With 10,000 draws of which none is beyond, p is 1/10001 as a number, and below .0001 as words."""
    result = logistic(LOGISTIC, budget=dp.ZCDP(0.5)).result_
    far = result.wald("health[fair] = 50, health[poor] = 50")
    assert far.draws == 10_000
    assert far.p_value == 1 / 10_001
    assert "p < .0001 (10,000 draws)" in str(far)
    one = result.wald("age = 50")
    assert one.draws == 0
    assert "p < .001." in str(one)
    assert "1 degree of freedom" in str(one)


def test_contrasts_and_tests_are_printed_as_sentences():
    result = logistic(LOGISTIC, budget=dp.ZCDP(0.5)).result_
    found = result.contrast("age", level=0.9)
    interval = texts.interval(found.low, found.high, found.std_error)
    assert f"90% interval {interval}, standard error" in str(found)
    test = result.wald("health")
    assert all(name in str(test) for name in (*test.tested, *test.left_out))
    assert f"{test.df} degrees of freedom" in str(test)
