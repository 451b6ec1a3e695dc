import itertools

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import pld_privacy_accountant as pld

import dpinfer as dp
from dpinfer.adjacency import Adjacency
from dpinfer.fit.penalised_plan import default_penalty, default_plan
from dpinfer.mechanisms.privacy_cost import largest_curvature_ratio
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.arrays import unsvec
from dpinfer.privacy import accountant
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.release import MASK, NoisySum

OBJECTIVE, OUTPUT = dp.ObjectivePerturbation("laplace"), dp.OutputPerturbation()
GAUSSIAN = dp.ObjectivePerturbation("gaussian")
RISK = Risk.penalised(dp.Logistic(), 0.01, 1000)


def test_costs_add_up():
    pure = dp.Plan(OBJECTIVE, dp.PureDP(0.5), dp.PureDP(0.25), dp.PureDP(0.25), recipe="paper")
    assert pure.cost == dp.PureDP(1.0)
    zcdp = dp.Plan(OUTPUT, dp.ZCDP(0.125), dp.ZCDP(0.03125), dp.ZCDP(0.03125))
    assert zcdp.cost == dp.ZCDP(0.1875)
    mixed = dp.Plan(
        OBJECTIVE, estimate=dp.PureDP(0.5), hessian=dp.ZCDP(0.03125), covariance=dp.ZCDP(0.03125)
    )
    assert mixed.cost == dp.ZCDP(0.1875)  # the paper's ε²/2 + ρ₂ + ρ₃


SHARES = [dp.PureDP(0.5), dp.PureDP(0.3), dp.ZCDP(0.1), dp.ZCDP(0.07)]


@pytest.mark.parametrize("recipe", ["paper", "tight"])
def test_the_stated_cost_is_what_the_ledger_books(recipe):
    """For every mixture of shares; two pure shares pooled into one release cost (ε₂+ε₃)²/2 beside a
    zCDP share.
    """
    for estimate, hessian, covariance in itertools.product(SHARES, repeat=3):
        plan = dp.Plan(OUTPUT, estimate, hessian, covariance, recipe=recipe)
        assert plan.cost == Entry("", "", plan.releases(RISK)).cost
        if isinstance(plan.cost, dp.PureDP):
            assert plan.cost.epsilon == pytest.approx(
                estimate.epsilon + hessian.epsilon + covariance.epsilon
            )
    pooled = dp.Plan(OUTPUT, dp.ZCDP(0.1), dp.PureDP(0.5), dp.PureDP(0.3), recipe="tight")
    assert pooled.matrices(RISK) == (
        NoisySum("matrices", dp.PureDP(0.8), RISK.stacked_sum_bound_anywhere),
    )
    assert pooled.cost.rho == pytest.approx(0.1 + 0.32)


@pytest.mark.parametrize(
    "budget", [dp.PureDP(1.0), dp.ZCDP(0.1875), dp.ApproxDP(1.0, 1e-6), dp.NoPrivacy()]
)
def test_default_plan_spends_the_budget(budget):
    stated = default_plan(budget).budget
    assert type(stated) is type(budget)
    if isinstance(budget, dp.ApproxDP):
        assert (stated.epsilon, stated.delta) == (pytest.approx(1.0), 1e-6)
    else:
        assert stated == budget


@pytest.mark.parametrize(
    "budget", [dp.PureDP(0.05), dp.PureDP(20.0), dp.PureDP(2000.0), dp.ZCDP(1e-4), dp.NoPrivacy()]
)
@pytest.mark.parametrize("n", [1, 50, 10**6])
@pytest.mark.parametrize("loss", [dp.Logistic(), dp.HuberHinge(0.1)])
@pytest.mark.parametrize("notion", [Adjacency.REPLACE, Adjacency.REPLACE_UNIT])
def test_default_penalty_is_valid(budget, n, loss, notion):
    for mechanism in (OBJECTIVE, OUTPUT, *[GAUSSIAN] * isinstance(budget, dp.ZCDP)):
        plan = dp.Plan(mechanism, *budget.split(2, 1, 1))
        penalty = default_penalty(plan, loss, n, 4, units=notion.units)
        assert penalty >= 1e-3 or mechanism is GAUSSIAN
        plan.releases(Risk.penalised(loss, penalty, n, notion))


def test_default_penalty_leaves_nine_tenths_of_the_share():
    plan = default_plan(dp.PureDP(1.0))
    risk = Risk.penalised(dp.Logistic(), default_penalty(plan, dp.Logistic(), 100, 4), 100)
    assert 2 * risk.perturbation_rate(0.7) == pytest.approx(0.63)
    penalty = default_penalty(plan, dp.Logistic(), 100, 4, units=True)
    of_units = Risk.penalised(dp.Logistic(), penalty, 100, Adjacency.REPLACE_UNIT)
    assert 2 * of_units.perturbation_rate(0.7) == pytest.approx(0.63)


@pytest.mark.parametrize("rho", [0.01, 0.2, 2.0])
def test_default_penalty_of_gaussian_noise_costs_little_and_stands_above_the_hessian_noise(rho):
    plan, n, d = default_plan(dp.ZCDP(rho)), 10_000, 8
    penalty = default_penalty(plan, dp.Logistic(), n, d)
    scale = Risk.penalised(dp.Logistic(), penalty, n).perturbation_scale(plan.estimate.rho)
    assert 2 / scale**2 >= 0.95 * plan.estimate.rho
    (matrices,) = plan.matrices(Risk.penalised(dp.Logistic(), penalty, n))
    noise = matrices.law.sample(np.random.default_rng(0), (200, d * (d + 1) // 2)) / (4 * n)
    assert np.mean(np.linalg.eigvalsh(unsvec(noise, d))[:, -1] < 2 * penalty) > 0.8


@pytest.mark.parametrize("penalty", [1e-200, 1e-13])
def test_absurd_penalties_are_refused(penalty):
    for mechanism in (OUTPUT, GAUSSIAN):
        with pytest.raises(dp.BudgetError, match="at least 1e-12"):
            dp.Plan(mechanism, *dp.ZCDP(1e6).split(1, 1, 1)).releases(
                Risk.penalised(dp.Logistic(), penalty, 10)
            )
    huge = Risk.penalised(dp.Logistic(), 1e300, 10).perturbation_scale(2.0)
    assert huge == pytest.approx(1.0)
    with pytest.raises(dp.BudgetError, match="must exceed"):
        Risk.penalised(dp.Logistic(), 1e-3, 10).perturbation_scale(1e-292)


def test_gaussian_noise_needs_zcdp():
    with pytest.raises(dp.BudgetError, match="no pure privacy"):
        dp.Plan(GAUSSIAN, dp.PureDP(1.0), dp.PureDP(1.0), dp.PureDP(1.0))
    smallest = 0.25 / (2 * 1000 * largest_curvature_ratio(0.1 * (1 - MASK), "logistic"))
    plan = dp.Plan(GAUSSIAN, *dp.ZCDP(0.3).split(1, 1, 1))
    with pytest.raises(dp.BudgetError, match=f"exceed {smallest:.6g}"):
        plan.releases(Risk.penalised(dp.Logistic(), smallest * 0.999, 1000))
    plan.releases(Risk.penalised(dp.Logistic(), smallest * 1.001, 1000))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("laplace", dp.PureDP(1), dp.PureDP(1), dp.PureDP(1)), "mechanism"),
        ((OBJECTIVE, 0.5, dp.PureDP(1), dp.PureDP(1)), "estimate share"),
        ((OBJECTIVE, dp.PureDP(1), dp.ApproxDP(1, 1e-6), dp.PureDP(1)), "hessian share"),
        ((OBJECTIVE, dp.PureDP(1), dp.PureDP(1), dp.PureDP(1), "sharp"), "recipe"),
        ((OBJECTIVE, dp.PureDP(1), dp.PureDP(1), dp.PureDP(1), "paper", 10), "draws"),
        (
            (
                OBJECTIVE,
                dp.PureDP(1),
                dp.PureDP(1),
                dp.PureDP(1),
                "paper",
                1000,
                dp.ApproxDP(1, 1e-6),
            ),
            "approx",
        ),
    ],
)
def test_bad_plans(arguments, message):
    with pytest.raises((dp.InputError, dp.BudgetError), match=message):
        dp.Plan(*arguments)


def test_unknown_noise():
    with pytest.raises(dp.InputError, match="'laplace' or 'gaussian'"):
        dp.ObjectivePerturbation("cauchy")


@pytest.mark.parametrize("mechanism", [GAUSSIAN, OUTPUT])
@pytest.mark.parametrize(
    "budget", [dp.ApproxDP(1.0, 1e-6), dp.ApproxDP(0.2, 1e-9), dp.ApproxDP(5.0, 1e-5)], ids=str
)
def test_guarantee_approx_composition(mechanism, budget):
    """The scaled releases cost ε at δ and hardly less: dp-accounting agrees, and finds 5 % less
    noise too little.
    """
    risk = Risk.penalised(dp.Logistic(), 0.05, 10_000)
    plan = dp.Plan(mechanism, *budget.split(14, 1, 1), approx=budget).calibrated(risk)
    assert plan.calibrated(risk).cost.rho == pytest.approx(plan.cost.rho, rel=2e-4)
    assert plan.cost.rho > 1.02 * budget.zcdp().rho
    noise = plan.coefficients(risk).noise(risk).scale
    noise *= 1.0 if mechanism == GAUSSIAN else 2 / risk.minimiser_sensitivity()
    for factor, holds in ((1.0, True), (0.95, False)):
        accountant = pld.PLDAccountant(value_discretization_interval=1e-4 * budget.epsilon)
        # without the curvature, which costs next to nothing here, the estimate is a Gaussian
        # release of sensitivity 2
        accountant.compose(GaussianDpEvent(factor * noise / 2))
        for share in (plan.hessian, plan.covariance):
            accountant.compose(GaussianDpEvent(factor / np.sqrt(2 * share.rho)))
        assert (accountant.get_epsilon(budget.delta) <= budget.epsilon * 1.005) == holds


def test_the_shares_of_other_plans_stay_as_they_are():
    risk, budget = Risk.penalised(dp.Logistic(), 0.05, 10_000), dp.ApproxDP(1.0, 1e-6)
    for plan in (
        default_plan(dp.ZCDP(0.1)),
        default_plan(dp.PureDP(1.0)),
    ):
        assert plan.calibrated(risk) == plan
    laplace = dp.Plan(OBJECTIVE, *budget.split(2, 1, 1), approx=budget).calibrated(risk)
    assert laplace.cost.rho == pytest.approx(budget.zcdp().rho)


def test_curvature_is_paid_for_in_an_approx_budget():
    budget = dp.ApproxDP(1.0, 1e-6)
    little, much = (
        default_plan(budget).calibrated(Risk.penalised(dp.Logistic(), c, 10_000))
        for c in (0.05, 0.0002)
    )
    scales = []
    for plan, c in ((little, 0.05), (much, 0.0002)):
        first, second = plan.releases(Risk.penalised(dp.Logistic(), c, 10_000))
        mu = np.hypot(np.sqrt(2 * second.share.rho), first.mask)
        assert first.objective.epsilon(1e-6, mu) == pytest.approx(1.0, abs=1e-4)
        scales.append(first.objective.scale)
    assert scales[1] > 1.01 * scales[0]


@pytest.mark.parametrize("mechanism", [GAUSSIAN, OUTPUT, OBJECTIVE])
@pytest.mark.parametrize("loss", [dp.Logistic(), dp.Huber(0.2)], ids=repr)
def test_shares_of_any_size_are_proportions_of_an_approx_budget(mechanism, loss):
    """Shares that are far too large, or too small, are given the size that the budget pays for."""
    risk, budget = Risk.penalised(loss, 0.05, 10_000), dp.ApproxDP(1.0, 1e-6)
    plans = [
        dp.Plan(
            mechanism, *dp.ZCDP(size).split(10, 1, 1), recipe="tight", approx=budget
        ).calibrated(risk)
        for size in (12.0, 1e-5)
    ]
    assert plans[0].cost.rho == pytest.approx(plans[1].cost.rho, rel=1e-3)
    assert plans[0].budget == budget
    for plan in plans:
        total = dp.Ledger(budget)
        total.book(Entry("fit", "one record", plan.releases(risk)))
        assert total.spent() == pytest.approx(1.0, abs=2e-3)


# ρ in all at the default penalty, 10,000 records and 5 columns; the conversion of zCDP buys .02436
BOUGHT = [
    (dp.Huber(0.2), 0.02594),
    (dp.SmoothedQuantile(0.5, 0.1), 0.02598),
    (dp.HuberHinge(1.0), 0.02759),
    (dp.Logistic(), 0.02743),
]


@pytest.mark.parametrize(("loss", "bought"), BOUGHT, ids=[repr(loss) for loss, _ in BOUGHT])
def test_what_one_and_a_millionth_buys(loss, bought):
    """Residual losses, whose slopes have either sign, get a little less than losses of the margin."""
    budget = dp.ApproxDP(1.0, 1e-6)
    plan = default_plan(budget)
    risk = Risk.penalised(loss, default_penalty(plan, loss, 10_000, 5), 10_000)
    assert plan.calibrated(risk).cost.rho == pytest.approx(bought, abs=6e-6)
    assert budget.zcdp().rho == pytest.approx(0.02436, abs=6e-6)


def test_pure_shares_of_an_approx_budget_are_not_taken_for_gaussian():
    """Composed as what they are: the plan is within its budget and hardly below; as Gaussian it
    would spend .0386.
    """
    budget, risk = dp.ApproxDP(0.01, 0.05), Risk.penalised(dp.Logistic(), 0.05, 10_000)
    shares = (dp.ZCDP(1e-5), dp.PureDP(0.005), dp.PureDP(0.005))
    plan = dp.Plan(GAUSSIAN, *shares, recipe="tight", approx=budget).calibrated(risk)
    spent = accountant.spent(budget, plan.releases(risk))
    assert spent <= budget.epsilon * (1 + 1e-9)
    assert isinstance(plan.hessian, dp.PureDP)
    assert spent > 0.5 * budget.epsilon
