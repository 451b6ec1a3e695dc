"""One place chooses: the faces, the laboratory, the command line and the dry run agree on what is
run.
"""

import re

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.choose import choose
from dpinfer.fit.linear import LeastSquares, LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.ordinary import Ordinary
from dpinfer.fit.penalised import Penalised
from dpinfer.fit.recipe import Options
from dpinfer.schema.design import Design

DESIGN = Design.of_bounds((-1.0, 1.0), ("a", "b"))
APPROX = dp.ApproxDP(1.0, 1e-6)


def chosen(loss=None, design=DESIGN, **options):
    return choose(design, Options(loss or dp.Logistic(), **options))


def test_the_defaults():
    for budget in (dp.ZCDP(0.5), APPROX):
        assert isinstance(chosen(budget=budget), LogisticSteps)
        assert isinstance(chosen(budget=budget, penalty=0.1), Penalised)
        assert isinstance(chosen(dp.HuberHinge(), budget=budget), Penalised)
        assert isinstance(chosen(design=Design.of_rows(3), budget=budget), Penalised)
        assert isinstance(chosen(design=Design.of_terms([]), budget=budget), LogisticSteps)
    assert isinstance(chosen(budget=dp.PureDP(1.0)), Penalised)
    assert isinstance(chosen(budget=dp.NoPrivacy()), Ordinary)
    assert isinstance(chosen(budget=dp.NoPrivacy(), penalty=0.0), Penalised)
    assert chosen(budget=APPROX).plan.target == "ordinary"
    assert chosen(budget=APPROX, target="ordinary").plan == chosen(budget=APPROX).plan
    for target in ("penalised", "unpenalised"):
        assert chosen(budget=APPROX, target=target).target == target


def test_an_intercept_alone():
    """The share of an outcome and the mean of a number, as any other coefficient."""
    demo = dp.datasets.rand_hie()
    options = {"schema": demo.schema, "budget": dp.ApproxDP(1, 1e-6), "insecure_seed": 1}
    share = dp.LogisticRegression("visit ~ 1", **options).fit(demo.table).result_
    p = (demo.table["mdvis"] > 0).mean()
    assert share.reported.all()
    assert abs(share.estimate[0] - np.log(p / (1 - p))) < 4 * share.std_error[0]
    assert share.std_error[0] < 1.5 / np.sqrt(len(demo.table) * p * (1 - p))
    mean = dp.LinearRegression("log(1 + mdvis) ~ 1", **options).fit(demo.table).result_
    assert abs(mean.estimate[0] - np.log1p(demo.table["mdvis"]).mean()) < 4 * mean.std_error[0]
    assert "Released centre: none, as there is no column." in mean.summary(full=True)
    assert "(Intercept)" in share.summary()
    assert share.predict(demo.table[:2])["prediction"].to_numpy() == pytest.approx(p, abs=0.02)


def test_least_squares():
    for budget in (dp.ZCDP(0.5), APPROX):
        recipe = chosen(LeastSquares("cautious"), budget=budget)
        assert isinstance(recipe, LinearSteps)
        assert (recipe.plan.target, recipe.plan.tail) == ("ordinary", "cautious")
        assert chosen(LeastSquares(), budget=budget, target="robust").plan.target == "robust"
    plan = dp.LinearPlan(APPROX, tail="all")
    for tail in ("balanced", "all"):
        assert chosen(LeastSquares(tail), plan=plan).plan is plan
    with pytest.raises(dp.InputError, match="leave out tail="):
        chosen(LeastSquares("cautious"), plan=plan)


@pytest.mark.parametrize("loss", [dp.Logistic(), LeastSquares()], ids=["logistic", "squares"])
def test_the_other_name_of_the_ordinary_target(loss):
    plan = chosen(loss, budget=APPROX).plan
    assert chosen(loss, budget=APPROX, target="asked").plan == plan
    with pytest.raises(dp.InputError, match="there is no target 'mean'"):
        chosen(loss, budget=APPROX, target="mean")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "budget="),
        (
            {"budget": APPROX, "target": "median"},
            "'ordinary', without a penalty.*'penalised' or 'unpenalised'.*'ordinary' or 'robust'",
        ),
        (
            {"budget": dp.PureDP(1.0), "target": "ordinary"},
            "give a delta beside epsilon.*the target 'penalised'",
        ),
        ({"budget": APPROX, "target": "ordinary", "penalty": 0.1}, "no penalty"),
        ({"budget": APPROX, "plan": dp.GeometryPlan(APPROX)}, "leave out budget="),
        ({"plan": dp.GeometryPlan(APPROX), "target": "unweighted"}, "leave out budget="),
        ({"plan": dp.GeometryPlan(APPROX), "neighbours": "add-remove"}, "leave out adjacency="),
        ({"plan": 3.0}, "takes a dpinfer Plan"),
        (
            {"budget": APPROX, "target": "penalised", "neighbours": "add-remove"},
            "number of records private",
        ),
        ({"budget": APPROX, "neighbours": "replaced"}, "'replace' or 'add-remove'"),
        (
            {"loss": dp.HuberHinge(), "budget": APPROX, "target": "ordinary"},
            "logistic regression.* least squares.* Poisson regression.* hazard regression only",
        ),
        ({"budget": APPROX, "target": "ordinary", "design": Design.of_rows(2)}, "intercept"),
        ({"loss": object(), "budget": APPROX}, "not a loss"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(dp.DpinferError, match=message):
        chosen(**options)


def test_releases_are_public_facts_in_order():
    steps = [release.step for release in chosen(budget=APPROX).releases(100)]
    assert steps[:4] == ["scales, 1 of 2", "scales, 2 of 2", "crude moments", "moments"]
    assert steps[-2:] == ["estimate", "rest"]
    assert [release.step for release in chosen(budget=APPROX).releases(9**9)] == steps
    assert [r.step for r in chosen(budget=dp.PureDP(1.0)).releases(100)] == ["estimate", "matrices"]
    assert chosen(budget=APPROX, neighbours="add-remove").neighbours is Adjacency.ADD_REMOVE


def test_neighbours_of_an_estimator_reach_the_ledger_and_the_result():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (500, 2)), rng.integers(0, 2, 500)
    ledger = dp.Ledger(APPROX, neighbours="add-remove")
    model = dp.LogisticRegression(
        bounds=(-1, 1), budget=APPROX, neighbours="add-remove", ledger=ledger
    ).fit(X, y)
    assert model.result_.privacy.neighbours == "add-remove"
    assert model.result_.model.n is None
    assert ledger.entries()[0].neighbours is Adjacency.ADD_REMOVE
    with pytest.raises(dp.LedgerError, match="made with neighbours='replace'"):
        model.set_params(neighbours=None).fit(X, y)
    with pytest.raises(dp.InputError, match="'replace' or 'add-remove'"):
        dp.Ledger(APPROX, neighbours="one record replaced")


@pytest.mark.parametrize(
    "cls", [dp.LinearSVC, dp.LogisticRegression, dp.HuberRegression, dp.QuantileRegression]
)
@pytest.mark.parametrize("budget", [dp.PureDP(3.0), dp.ZCDP(1.0)])
def test_a_study_of_a_model_is_of_what_it_fits(cls, budget):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 2))
    numeric = cls in (dp.HuberRegression, dp.QuantileRegression)
    y = (
        X[:, 0] + rng.standard_normal(800)
        if numeric
        else rng.random(800) < 1 / (1 + np.exp(-2 * X[:, 0]))
    )
    model = cls(
        bounds=(-1, 1),
        budget=budget,
        **{"outcome": (-4, 4)} if numeric else {"classes": (False, True)},
    )
    study = dp.simulate.coverage(model, X, y, replicates=16, seed=1)
    result = model.fit(X, y).result_
    assert study.names == result.names
    target = result.model.target
    assert f"{target} target" in study.setting or f"target {target}" in study.setting
    assert result.model.penalty == 0 or f"penalty {result.model.penalty:.6g}" in study.setting
    assert (np.abs(study.target - result.estimate) < 6 * result.std_error).all()


def test_a_study_of_a_model_takes_nothing_else():
    for extra in ({"schema": 1}, {"formula": "y ~ a"}, {"truth": [0.5]}):
        with pytest.raises(dp.InputError, match="the model brings"):
            dp.simulate.coverage(
                [[0.0]], [1], model=dp.LinearSVC(bounds=(-1, 1), budget=APPROX), **extra
            )
    with pytest.raises(dp.InputError, match="takes a dpinfer model"):
        dp.simulate.coverage([[0.0]], [1], model="line")


def test_a_penalty_that_nobody_asked_for_is_said_with_its_alternative():
    lacks = {
        "Without a delta.*give a delta beside epsilon": chosen(budget=dp.PureDP(1.0)),
        "Without an intercept.*drop the -1 or 0": chosen(design=Design.of_rows(3), budget=APPROX),
    }
    for words, recipe in lacks.items():
        assert re.match(words, recipe.advice(1000))
        assert "not what the usual fit estimates" in recipe.advice(1000)
    for options in (
        {"budget": dp.PureDP(1.0), "target": "penalised"},
        {"budget": dp.PureDP(1.0), "penalty": 0.1},
        {"budget": APPROX, "target": "penalised"},
        {"budget": dp.PureDP(1.0), "loss": dp.HuberHinge()},
    ):
        assert chosen(**options).advice(1000) == ""
