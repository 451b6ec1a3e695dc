import pytest

import dpinfer as dp
from dpinfer.fit.plan import default_penalty, default_plan
from dpinfer.maths.risk import PenalisedRisk

OBJECTIVE, OUTPUT = dp.ObjectivePerturbation("laplace"), dp.OutputPerturbation()


def test_costs_add_up():
    pure = dp.Plan(OBJECTIVE, dp.PureDP(0.5), dp.PureDP(0.25), dp.PureDP(0.25), recipe="paper")
    assert pure.cost == dp.PureDP(1.0)
    zcdp = dp.Plan(OUTPUT, dp.ZCDP(0.125), dp.ZCDP(0.03125), dp.ZCDP(0.03125))
    assert zcdp.cost == dp.ZCDP(0.1875)
    mixed = dp.Plan(OBJECTIVE, estimate=dp.PureDP(0.5), hessian=dp.ZCDP(0.03125), covariance=dp.ZCDP(0.03125))
    assert mixed.cost == dp.ZCDP(0.1875)  # the paper's ε²/2 + ρ₂ + ρ₃


@pytest.mark.parametrize("budget", [dp.PureDP(1.0), dp.ZCDP(0.1875), dp.ApproxDP(1.0, 1e-6), dp.NoPrivacy()])
def test_default_plan_spends_the_budget(budget):
    stated = default_plan(budget).budget
    assert type(stated) is type(budget)
    if isinstance(budget, dp.ApproxDP):
        assert (stated.epsilon, stated.delta) == (pytest.approx(1.0), 1e-6)
    else:
        assert stated == budget


@pytest.mark.parametrize("budget", [dp.PureDP(0.05), dp.PureDP(20.0), dp.PureDP(2000.0), dp.ZCDP(1e-4), dp.NoPrivacy()])
@pytest.mark.parametrize("n", [1, 50, 10**6])
@pytest.mark.parametrize("loss", [dp.Logistic(), dp.HuberHinge(0.1)])
def test_default_penalty_is_valid(budget, n, loss):
    for mechanism in (OBJECTIVE, OUTPUT):
        plan = dp.Plan(mechanism, *budget.split(2, 1, 1))
        penalty = default_penalty(plan, loss, n)
        assert penalty >= 1e-3
        plan.noise(PenalisedRisk(loss, penalty, n))


def test_default_penalty_leaves_nine_tenths_of_the_share():
    plan = default_plan(dp.PureDP(1.0))
    risk = PenalisedRisk(dp.Logistic(), default_penalty(plan, dp.Logistic(), 100), 100)
    assert 2 * risk.perturbation_rate(0.5) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplace", dp.PureDP(1), dp.PureDP(1), dp.PureDP(1)), "mechanism"),
        ((OBJECTIVE, 0.5, dp.PureDP(1), dp.PureDP(1)), "estimate share"),
        ((OBJECTIVE, dp.PureDP(1), dp.ApproxDP(1, 1e-6), dp.PureDP(1)), "hessian share"),
        ((OBJECTIVE, dp.PureDP(1), dp.PureDP(1), dp.PureDP(1), "sharp"), "recipe"),
        ((OBJECTIVE, dp.PureDP(1), dp.PureDP(1), dp.PureDP(1), "paper", 10), "draws"),
        ((OBJECTIVE, dp.PureDP(1), dp.PureDP(1), dp.PureDP(1), "paper", 1000, 1e-6), "delta"),
    ],
)
def test_bad_plans(arguments, message):
    with pytest.raises((dp.InputError, dp.BudgetError), match=message):
        dp.Plan(*arguments)


def test_unknown_noise():
    with pytest.raises(dp.InputError, match="'laplace'"):
        dp.ObjectivePerturbation("cauchy")
