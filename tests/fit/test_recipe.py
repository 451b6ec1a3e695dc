"""A recipe answers for itself: a model is one class in `fit/`, one name in the registry, and a face."""

from dataclasses import dataclass

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.estimators.models import LinearClassifier
from dpinfer.fit import choose as registry
from dpinfer.fit.choose import RECIPES, STEPPED, TARGETS, choose, stepped_of
from dpinfer.fit.hazard import HazardSteps
from dpinfer.fit.linear import LeastSquares, LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.poisson import Counts, PoissonSteps
from dpinfer.fit.recipe import NoLoss, Options, fit
from dpinfer.result.statements import Words
from dpinfer.rows.source import Rows
from dpinfer.schema.design import Design

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (900, 2))
Y = RNG.random(900) < 1 / (1 + np.exp(-1 - 2 * X[:, 0]))
DESIGN = Design.of_bounds((-1.0, 1.0), ("a", "b"))
ROWS = Rows.encoded(DESIGN.rows(X), np.where(Y, 1.0, -1.0), "margin")
ASKED = {
    "logistic": Options(dp.Logistic(), dp.ZCDP(0.5)),
    "penalised": Options(dp.Logistic(), dp.ZCDP(0.5), target="penalised"),
    "unpenalised": Options(dp.HuberHinge(), dp.NoPrivacy(), target="unpenalised"),
    "squares": Options(LeastSquares(), dp.ZCDP(0.5)),
    "robust": Options(LeastSquares(), dp.ZCDP(0.5), target="robust"),
    "counts": Options(Counts(), dp.ZCDP(0.5)),
}


def test_the_registry():
    assert (LogisticSteps, LinearSteps, PoissonSteps, HazardSteps, Penalised) == RECIPES
    assert TARGETS == ("ordinary", "robust", "penalised", "unpenalised")
    for recipe in RECIPES:
        told = [name for name in recipe.TARGETS if f"'{name}'" in recipe.OFFER]
        assert told == list(recipe.TARGETS) or recipe is Penalised
    assert all(f"'{name}'" in LogisticSteps.OFFER for name in Penalised.TARGETS)


@pytest.mark.parametrize("name", ASKED)
def test_every_recipe_answers(name):
    recipe = choose(DESIGN, ASKED[name])
    result = fit(recipe, ROWS, insecure_seed=1)
    words = recipe.words(900)
    assert result.model.words == words
    assert all((words.name, words.about, words.method))
    assert result.model.estimand() == words.about
    assert str(recipe.budget) in recipe.describe(900)
    estimand = recipe.estimand(ROWS)
    assert estimand.shape == (3,)
    assert np.isnan(estimand).all() == (name == "robust")
    half = recipe.nonprivate(ROWS, ROWS, 0.95)
    assert ((half > 0) & (half < 10)).all()
    if result.geometry is not None:
        assert isinstance(recipe, stepped_of(result))


def test_without_noise_a_penalised_fit_has_its_estimand():
    """And the stepped one near to no noise, but for the place of its intercept."""
    recipe = choose(DESIGN, ASKED["penalised"])
    plain = fit(recipe.noiseless(900), ROWS, insecure_seed=0)
    assert plain.estimate == pytest.approx(recipe.estimand(ROWS), abs=1e-6)
    assert recipe.nonprivate(ROWS, ROWS, 0.95) == pytest.approx(
        np.diff(plain.conf_int(0.95))[:, 0] / 2
    )
    steps = choose(DESIGN, Options(dp.Logistic(), dp.ZCDP(1e6)))
    close = fit(steps, ROWS, insecure_seed=0)
    half = steps.nonprivate(ROWS, ROWS, 0.95)
    assert np.abs(close.estimate - steps.estimand(ROWS))[1:] == pytest.approx(0, abs=half[1:].min())
    assert np.diff(close.conf_int(0.95))[1:, 0] / 2 == pytest.approx(half[1:], rel=0.1)


@dataclass(frozen=True)
class Twice(NoLoss):
    """In the place of a loss."""


@dataclass(frozen=True)
class TwiceSteps(LogisticSteps):
    """A new recipe."""

    NAME = "logistic regression, once more"
    OFFER = "the new model has 'ordinary'"

    @classmethod
    def of(cls, design, options):
        if not isinstance(options.loss, Twice):
            return None
        return cls(design, dp.GeometryPlan(options.budget))

    def words(self, n):
        return Words(self.NAME, "the coefficients of a new model", "a page of its own.")


@dataclass(eq=False, repr=False, kw_only=True)
class TwiceRegression(LinearClassifier):
    """Its face."""

    def _loss(self, n, design):
        return Twice()


def test_a_new_model_is_a_class_and_a_name(monkeypatch):
    """Nobody else asks which recipe it is: fits, reports, studies and forecasts follow."""
    model = TwiceRegression(
        bounds=(-1, 1), budget=dp.ZCDP(0.5), classes=(False, True), insecure_seed=1
    )
    with pytest.raises(dp.InputError, match="there is no target None"):
        model.fit(X, Y)
    monkeypatch.setattr(registry, "STEPPED", (TwiceSteps, *STEPPED))
    monkeypatch.setattr(registry, "RECIPES", (TwiceSteps, *RECIPES))
    result = model.fit(X, Y).result_
    known = dp.LogisticRegression(
        bounds=(-1, 1), budget=dp.ZCDP(0.5), classes=(False, True), insecure_seed=1
    )
    assert np.array_equal(result.estimate, known.fit(X, Y).result_.estimate)
    assert "the coefficients of a new model" in result.summary()
    page = dp.report.markdown(result)
    assert "Model: logistic regression, once more" in page
    assert "Method: a page of its own." in page
    assert dp.FitResult.from_json(result.to_json()).model == result.model
    study = dp.simulate.coverage(X, Y, model=model, replicates=4)
    assert "logistic regression, once more, target ordinary" in study.setting
    assert np.array_equal(
        study.length, dp.simulate.coverage(X, Y, model=known, replicates=4).length, equal_nan=True
    )
    with pytest.raises(dp.InputError, match="the new model has 'ordinary'"):
        choose(DESIGN, Options(dp.Logistic(), dp.ZCDP(1.0), target="median"))
