"""Parameters with two names, and public names with two names."""

import numpy as np
import pytest
from sklearn.base import clone

import dpinfer as dp

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (2000, 2))
Y = (RNG.random(2000) < 0.5).astype(int)
WEIGHTS = RNG.uniform(0, 2, 2000)
BUDGET = dp.ApproxDP(2.0, 1e-6)


def model(**options):
    return dp.LogisticRegression(bounds=(-1, 1), budget=BUDGET, insecure_seed=0, **options)


def test_adjacency_and_neighbours_are_one_parameter():
    fits = [model(**{name: "add-remove"}).fit(X, Y).result_ for name in ("adjacency", "neighbours")]
    assert fits[0].privacy.neighbours == "add-remove"
    assert fits[0].to_json() == fits[1].to_json()
    assert model(adjacency="replace", neighbours="replace").fit(X, Y).result_.reported.any()


def test_max_weight_and_most_weight_are_one_parameter():
    fits = [
        model(**{name: 2.0}).fit(X, Y, weights=WEIGHTS).result_
        for name in ("max_weight", "most_weight")
    ]
    assert fits[0].to_json() == fits[1].to_json()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"adjacency": "replace", "neighbours": "add-remove"},
            "adjacency= and neighbours= are two names of one parameter: give adjacency= alone",
        ),
        ({"max_weight": 2.0, "most_weight": 3.0}, "max_weight= and most_weight= are two names"),
    ],
)
def test_two_values_of_one_parameter_are_refused(options, words):
    weights = WEIGHTS if "max_weight" in options else None
    with pytest.raises(dp.InputError, match=words):
        model(**options).fit(X, Y, weights=weights)


def test_parameters_are_kept_as_they_were_given():
    """As scikit-learn asks: an alias is no other parameter's value."""
    given = model(adjacency="replace", most_weight=2.0)
    for one in (given, clone(given)):
        params = one.get_params()
        assert (params["adjacency"], params["neighbours"]) == ("replace", None)
        assert (params["max_weight"], params["most_weight"]) == (None, 2.0)


def test_studies_and_ledgers_take_both_names():
    ledgers = [
        dp.Ledger(dp.ZCDP(1.0), "one record", "add-remove"),
        dp.Ledger(dp.ZCDP(1.0), adjacency="add-remove"),
        dp.Ledger(dp.ZCDP(1.0), neighbours="add-remove"),
    ]
    assert {ledger.neighbours for ledger in ledgers} == {"add-remove"}
    with pytest.raises(dp.InputError, match="two names"):
        dp.Ledger(dp.ZCDP(1.0), adjacency="replace", neighbours="add-remove")
    demo = dp.datasets.rand_hie()
    with pytest.raises(dp.InputError, match="two names"):
        dp.simulate.forecast(
            demo.formula,
            schema=demo.schema,
            records=1000,
            budgets=[BUDGET],
            adjacency="replace",
            neighbours="add-remove",
        )
    with pytest.raises(dp.InputError, match="two names"):
        dp.describe(demo.table, demo.schema, BUDGET, adjacency="replace", neighbours="add-remove")
    with pytest.raises(dp.InputError, match="two names"):
        dp.learn_bounds(
            demo.table, demo.schema, budget=BUDGET, adjacency="replace", neighbours="add-remove"
        )


def test_the_other_name_of_the_warning():
    assert dp.HopelessFitWarning is dp.LowBudgetWarning
