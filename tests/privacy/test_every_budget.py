"""Every budget that is a number is paid out, or refused with a fault and a remedy."""

import warnings

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.linear import LinearPlan
from dpinfer.fit.logistic import GeometryPlan
from dpinfer.fit.penalised_plan import default_penalty, default_plan
from dpinfer.mechanisms import privacy_cost
from dpinfer.mechanisms.losses import Huber, HuberHinge, Logistic, SmoothedQuantile
from dpinfer.mechanisms.risk import Risk

LOSSES = (Logistic(), HuberHinge(), Huber(0.3), SmoothedQuantile(0.5, 0.1))
SHAPES = [
    kind + unit for kind in ("two-sided", "one-sided", "logistic") for unit in ("", " of units")
]


def test_a_search_whose_end_is_its_answer_ends():
    """exp(log(x)) is not x to the last bit, so that an end of a search may lie on the other side."""
    plan = default_plan(dp.ApproxDP(1.0348251944076154, 1e-6))
    for dim in range(2, 8):
        for target in ("penalised", "unpenalised"):
            penalty = default_penalty(plan, Logistic(), 300, dim, target)
            risk = Risk.penalised(Logistic(), penalty, 300)
            assert plan.calibrated(risk).cost.rho >= plan.approx.zcdp().rho * (1 - 1e-9)


def _budget(rng, kind):
    size = 250 if rng.random() < 0.2 else 12
    amount = float(np.exp(rng.uniform(-size, size)))
    if kind == "pure":
        return dp.PureDP(amount)
    if kind == "zcdp":
        return dp.ZCDP(amount)
    return dp.ApproxDP(amount, float(np.exp(rng.uniform(-40, np.log(0.09)))))


def _size(rng):
    """Size one fit, of any kind."""
    notion = list(Adjacency)[rng.integers(4)]
    if rng.random() < 0.3:
        budget = _budget(rng, str(rng.choice(["zcdp", "approx"])))
        kind = (LinearPlan, GeometryPlan)[rng.integers(2)]
        for release in kind(budget, neighbours=notion).releases(numbers=int(rng.integers(9))).all:
            assert release.law.scale > 0
        return
    plan = default_plan(
        _budget(rng, str(rng.choice(["pure", "zcdp", "approx"], p=[0.4, 0.4, 0.2])))
    )
    loss = LOSSES[rng.integers(4)]
    n = int(10 ** rng.uniform(0, 8.4))
    penalty = float(10 ** rng.uniform(-10, 4))
    if rng.random() < 0.7:
        target = str(rng.choice(["penalised", "unpenalised"]))
        penalty = default_penalty(plan, loss, n, 5, target, units=notion.units)
    risk = Risk.penalised(loss, penalty, n, notion)
    plan.calibrated(risk).releases(risk)


def test_no_search_ends_in_an_error_of_its_own():
    rng = np.random.default_rng(11)
    refusals = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(250):
            try:
                _size(rng)
            except (dp.BudgetError, dp.InputError) as fault:
                refusals.append(str(fault))
    assert 0 < len(refusals) < 125
    assert all("raise the" in words or "choose a number" in words for words in refusals)


def test_no_scale_ends_in_an_error_of_its_own():
    rng = np.random.default_rng(12)
    for _ in range(1500):
        rho = float(np.exp(rng.uniform(-12, 12)))
        k = float(np.sqrt(rho) * np.exp(rng.uniform(-25, 2)))
        shape = SHAPES[rng.integers(6)]
        scale = privacy_cost.perturbed_objective_scale(rho, k, shape)
        if np.isfinite(scale):
            assert privacy_cost.PerturbedObjective(scale, k, shape).cost() <= rho


@pytest.mark.parametrize("amount", [5e-324, 1e-250, 1e250, 1e308])
def test_what_cannot_be_computed_with_is_refused(amount):
    for made in (dp.PureDP, dp.ZCDP, lambda epsilon: dp.ApproxDP(epsilon, 1e-6)):
        with pytest.raises(dp.BudgetError, match="choose a number from"):
            made(amount)
