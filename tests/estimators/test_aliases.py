"""Who asks for a model by another name is told what to use, in Python, in a spec and on the page."""

import re
from pathlib import Path

import pytest

import dpinfer as dp
from dpinfer.estimators.aliases import (
    HERE,
    IN_OPTIONS,
    IN_PYTHON,
    IN_SPECS,
    MODEL_ADVICE,
    model_advice,
)

PAGE = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("OLS", "use dp.LinearRegression"),
        ("Logit", "use dp.LogisticRegression"),
        ("LogisticRegressionCV", "use dp.LogisticRegression"),
        ("Probit", "near is dp.LogisticRegression"),
        ("PoissonRegressor", "use dp.PoissonRegression: its errors are robust"),
        ("QuasiPoisson", "use dp.PoissonRegression: its errors are robust"),
        ("NegativeBinomial", "use dp.PoissonRegression: the same rate ratios"),
        ("GammaRegressor", "use dp.PoissonRegression: the same rate ratios of the mean"),
        ("Tweedie", "use dp.PoissonRegression: the same rate ratios of the mean"),
        ("ZeroInflatedPoisson", "and dp.LogisticRegression of any against none"),
        ("OrderedModel", "dp.LogisticRegression of a cut"),
        ("CoxPHFitter", "risk sets"),
        ("PanelOLS", "behind a bar in the formula"),
        ("MixedLM", "no sum over records"),
        ("WLS", "weights= of fit"),
        ("IV2SLS", "Anderson-Rubin"),
        ("KaplanMeierFitter", "use dp.survival_curves"),
        ("QuantReg", "use dp.QuantileRegression"),
        ("HuberRegressor", 'dp.LinearRegression with target "robust"'),
        ("LassoCV", "selection"),
        ("SVC", "use dp.LinearSVC"),
    ],
)
def test_a_model_asked_for_by_name(name, words):
    assert not hasattr(dp, name)
    with pytest.raises(AttributeError, match="has no attribute") as told:
        getattr(dp, name)
    assert words in str(told.value)
    assert "docs/models.md" in str(told.value)
    with pytest.raises(ImportError):
        exec(f"from dpinfer import {name}", {})


@pytest.mark.parametrize(
    "name", ["nothing_of_the_kind", "_ols", "__ols__", "regression", "model", "x"]
)
def test_other_names_are_just_not_there(name):
    with pytest.raises(AttributeError) as told:
        getattr(dp, name)
    assert str(told.value) == f"module 'dpinfer' has no attribute {name!r}"


def test_one_name_one_answer():
    names = [name for one in MODEL_ADVICE for name in one.names.split()]
    assert len(set(names)) == len(names)
    assert all(model_advice(name) is one for one in MODEL_ADVICE for name in one.names.split())
    assert model_advice("negative-binomial") is model_advice("NegativeBinomialRegression")
    assert not set(names) & {"linear", "svm", "quantile"}  # nobody is sent away from what is here


@pytest.mark.parametrize("words", [IN_PYTHON, IN_SPECS, IN_OPTIONS])
def test_sentences_have_no_gaps(words):
    for one in MODEL_ADVICE:
        sentence = one.sentence(words)
        assert not re.search(r"[{}]|\.\.", sentence)
        assert any(word in sentence for word in (*words.values(), "dp."))


def test_the_models_that_are_here():
    assert all(isinstance(getattr(dp, face.name), type) for face in HERE.values())
    assert {f"`dp.{face.name}`" for face in HERE.values()} <= set(re.findall(r"`dp\.\w+`", PAGE))


def row(one):
    """A line of the page's table."""
    use = one.use.format(**{loss: f"`{name}`" for loss, name in IN_PYTHON.items()})
    return f"| {one.asked} | {use} | {one.why or 'it is there'} |"


def test_the_page_and_the_table_agree():
    _, _, *rows = re.findall(
        r"^\|.*\|$", PAGE.split("## I want")[1].split("\n## ")[0], re.MULTILINE
    )
    assert rows == [row(one) for one in MODEL_ADVICE]
