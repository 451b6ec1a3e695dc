"""A fitted model has what its result has; names of statsmodels that are not here say what to use."""

import copy
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpinfer as dp
from dpinfer.result.absent import INSTEAD

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 1, size=(500, 2))
Y = X @ [1.0, 2.0] + RNG.normal(0, 0.1, 500)


@pytest.fixture(scope="module")
def fitted():
    return dp.LinearRegression(bounds=(0, 1), outcome=(-1, 4), budget=dp.NoPrivacy()).fit(X, Y)


@pytest.mark.parametrize("method", ["summary", "conf_int", "to_frame", "margins", "tidy"])
def test_methods_of_the_result_work_on_the_model(fitted, method):
    mine = getattr(fitted, method)(level=0.9)
    assert str(mine) == str(getattr(fitted.result_, method)(level=0.9))


@pytest.mark.parametrize("name", ["params", "bse", "tvalues", "pvalues"])
def test_numbers_of_the_result_are_on_the_model(fitted, name):
    assert getattr(fitted, name).equals(getattr(fitted.result_, name))
    assert name in dir(fitted)


def test_predictions_are_those_of_the_model(fitted):
    assert fitted.predict(X).shape == (500,)


def test_before_the_fit_the_error_says_to_fit(fitted):
    model = clone(fitted)
    for name in ("summary", "params", "conf_int", "names", "result_"):
        assert not hasattr(model, name)
        assert name not in dir(model)
    with pytest.raises(NotFittedError, match="call fit first"):
        model.summary()


@pytest.mark.parametrize("name", INSTEAD)
def test_names_of_statsmodels_say_what_to_use(fitted, name):
    for owner in (fitted, fitted.result_, clone(fitted)):
        assert not hasattr(owner, name)
        with pytest.raises(AttributeError, match=f"^{type(owner).__name__} has no {name}: "):
            getattr(owner, name)


def test_what_they_say_to_use_is_here(fitted):
    advice = " ".join(INSTEAD.values())
    used = [*re.findall(r"(\w+)\(", advice), "params", "bse", "nobs"]
    assert len(used) > 8
    for name in used:
        assert hasattr(fitted.result_, name)


def test_other_names_are_missing_as_everywhere(fitted):
    for owner in (fitted, fitted.result_):
        with pytest.raises(AttributeError, match="has no attribute 'sumary'"):
            owner.sumary  # noqa: B018


def test_a_fitted_model_can_be_copied_and_pickled(fitted):
    for again in (copy.copy(fitted), copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert again.params.equals(fitted.params)
    assert copy.deepcopy(fitted.result_).params.equals(fitted.params)
