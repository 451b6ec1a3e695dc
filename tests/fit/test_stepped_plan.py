"""Plans of stepped fits: what they cost, what noise they have, which names they know."""

from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant

import dpinfer as dp
from dpinfer.fit.step_plan import ESTIMATE, FIRST, SCALES
from dpinfer.privacy import accountant
from dpinfer.schema.design import Design

APPROX = dp.ApproxDP(1.0, 1e-6)
PLANS = {
    "logistic": lambda budget, notion: dp.GeometryPlan(budget, neighbours=notion),
    "linear": lambda budget, notion: dp.LinearPlan(budget, neighbours=notion),
    "robust": lambda budget, notion: dp.LinearPlan(budget, "robust", notion),
    "all": lambda budget, notion: dp.LinearPlan(budget, neighbours=notion, tail="all"),
}
EVERY = pytest.mark.parametrize("kind", PLANS)
NOTIONS = pytest.mark.parametrize(
    "notion", ["replace", "add-remove", "replace-unit", "add-remove-unit"]
)


@EVERY
@NOTIONS
@pytest.mark.parametrize("budget", [dp.ZCDP(0.3), APPROX, dp.ApproxDP(4.0, 1e-5)], ids=str)
@pytest.mark.parametrize("numbers", [True, False])
def test_the_releases_spend_the_budget_and_no_more(kind, notion, budget, numbers):
    """Whether there are numbers to scale or not: their share goes to the others."""
    releases = PLANS[kind](budget, notion).releases(numbers=numbers).all
    most = accountant.limit(budget)
    assert 0.999 * most < accountant.spent(budget, releases) <= most * (1 + 2e-9)
    assert any(SCALES in release.step for release in releases) == numbers


@EVERY
@pytest.mark.parametrize("budget", [APPROX, dp.ApproxDP(0.3, 1e-8)], ids=str)
def test_the_noise_costs_what_is_promised_by_another_library(kind, budget):
    """dp-accounting agrees on ε at δ; with 5 % less noise it is more."""
    releases = PLANS[kind](budget, "replace").releases().all
    for factor, holds in ((1.0, True), (0.95, False)):
        other = PLDAccountant(value_discretization_interval=1e-4 * budget.epsilon)
        for release in releases:
            other.compose(GaussianDpEvent(factor / np.sqrt(2 * release.share.rho)))
        assert (other.get_epsilon(budget.delta) <= budget.epsilon * 1.002) == holds


def test_gaussian_releases_add_up_exactly():
    plan = dp.GeometryPlan(APPROX)
    assert plan.promise.epsilon == pytest.approx(1.0, rel=1e-6)
    assert plan.cost.rho == pytest.approx(0.02801, abs=5e-6)
    assert plan.cost.rho > 1.1 * APPROX.zcdp().rho
    assert dp.GeometryPlan(dp.ZCDP(0.3)).promise.rho == pytest.approx(0.3)


def test_the_stages_in_order():
    steps = [release.step for release in dp.GeometryPlan(APPROX).releases().all]
    assert steps == [
        "scales, 1 of 2", "scales, 2 of 2", "crude moments", "moments",
        "first steps, 1 of 3", "first steps, 2 of 3", "first steps, 3 of 3",
        "estimate", "rest",
    ]  # fmt: skip
    linear = [release.step for release in dp.LinearPlan(APPROX).releases().all]
    assert linear[2:] == [
        "crude moments", "outcome range, 1 of 3", "outcome range, 2 of 3", "outcome range, 3 of 3",
        "moments", "first step", "influence", "estimate",
    ]  # fmt: skip
    robust = [release.step for release in dp.LinearPlan(APPROX, "robust").releases().all]
    assert robust[6:] == ["moments", "influence", "first step", "estimate"]
    # nobody is clipped, so that influences are not counted and no pilot step is taken
    everybody = [release.step for release in dp.LinearPlan(APPROX, tail="all").releases().all]
    assert everybody[6:] == ["moments", "estimate"]


def test_parts_of_a_stage_share_alike():
    releases = dp.GeometryPlan(dp.ZCDP(1.0)).releases()
    for stage in (SCALES, FIRST):
        assert len({release.share.rho for release in releases.of(stage)}) == 1
    assert releases.of("no such stage") == ()


@EVERY
def test_noise_falls_with_the_budget_and_with_the_notion(kind):
    """Four times the budget: half the noise.  Add or remove moves sums by less than replace."""
    small, large = (PLANS[kind](dp.ZCDP(rho), "replace").scales() for rho in (0.1, 0.4))
    other = PLANS[kind](dp.ZCDP(0.1), "add-remove").scales()
    for name in ("crude", "moments", "gradient", "hessian", "score_cov"):
        assert getattr(small, name) == pytest.approx(2 * getattr(large, name))
    for name in ("crude", "moments", "gradient"):
        assert getattr(other, name) < getattr(small, name)


def test_the_noise_of_a_stack_is_that_of_its_bound():
    """sqrt(4 + a²) for score and curvature where a record is replaced, over the share of the
    estimate.
    """
    plan = dp.GeometryPlan(dp.ZCDP(0.5))
    scales = plan.scales()
    rho = plan.releases().of(ESTIMATE)[0].share.rho
    assert scales.gradient == pytest.approx(
        plan.stack.bound / np.sqrt(2 * rho), rel=2e-3
    )  # and what rounding takes
    assert scales.hessian == pytest.approx(scales.gradient / np.sqrt(plan.stack.hessian))
    assert scales.score_cov == pytest.approx(scales.gradient / np.sqrt(plan.stack.score_cov))
    first = plan.releases().of(FIRST)[0].share.rho
    assert plan.scales(stage=FIRST).gradient == pytest.approx(
        plan.stack.bound / np.sqrt(2 * first), rel=2e-3
    )
    assert plan.scales(numbers=False).gradient < scales.gradient


@pytest.mark.parametrize("make", [dp.GeometryPlan, dp.LinearPlan, dp.PoissonPlan])
def test_the_other_name_of_the_ordinary_target(make):
    plan = make(APPROX, "asked")
    assert plan.target == "ordinary"
    assert plan == make(APPROX)


@pytest.mark.parametrize("make", [dp.GeometryPlan, dp.LinearPlan, dp.PoissonPlan])
def test_adjacency_has_two_names(make):
    plan = make(APPROX, adjacency="add-remove")
    assert plan == make(APPROX, neighbours="add-remove") == make(APPROX, "ordinary", "add-remove")
    assert plan.adjacency == plan.neighbours == "add-remove"
    assert make(APPROX).adjacency == "replace"
    assert make(APPROX, adjacency="replace", neighbours="replace") == make(APPROX)
    with pytest.raises(dp.InputError, match="adjacency= and neighbours= are two names of one"):
        make(APPROX, adjacency="replace", neighbours="add-remove")


@pytest.mark.parametrize("make", [dp.GeometryPlan, dp.LinearPlan, dp.PoissonPlan])
def test_a_changed_plan_has_the_new_adjacency(make):
    plan = make(APPROX, adjacency="add-remove")
    assert replace(plan, draws=200).adjacency == "add-remove"
    assert replace(plan, adjacency="replace") == replace(plan, neighbours="replace") == make(APPROX)


@pytest.mark.parametrize("make", [dp.GeometryPlan, dp.LinearPlan])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"target": "x"}, "the target must be 'ordinary'"),
        ({"neighbours": "x"}, "neighbours must be"),
        ({"draws": 1.5}, "draws must be"),
        ({"draws": 10}, "draws must be"),
        ({"draws": True}, "draws must be"),
        ({"shares": (1, 2)}, "shares"),
        ({"shares": 3}, "shares"),
        ({"shares": "abcdef"}, "shares|positive"),
    ],
)
def test_refusals(make, wrong, words):
    with pytest.raises((dp.InputError, dp.BudgetError), match=words):
        make(dp.ZCDP(1.0), **wrong)


def test_a_share_must_be_positive():
    for make, count in ((dp.GeometryPlan, 6), (dp.LinearPlan, 7)):
        with pytest.raises(dp.BudgetError, match="positive"):
            make(dp.ZCDP(1.0), shares=(0.3,) * (count - 1) + (-0.5,))


@pytest.mark.parametrize("make", [dp.GeometryPlan, dp.LinearPlan])
@pytest.mark.parametrize("budget", [dp.PureDP(1.0), 1.0], ids=str)
def test_gaussian_noise_needs_a_delta_or_rho(make, budget):
    with pytest.raises(dp.BudgetError, match="rho"):
        make(budget)


def test_robust_is_of_least_squares_alone():
    with pytest.raises(dp.InputError, match="must be 'ordinary', not 'robust'"):
        dp.GeometryPlan(APPROX, "robust")
    with pytest.raises(dp.InputError, match="belongs to the target 'ordinary'"):
        dp.LinearPlan(APPROX, "robust", tail="all")


def test_own_shares_are_used():
    shares = (0.05, 0.05, 0.1, 0.2, 0.5, 0.1)
    releases = dp.GeometryPlan(dp.ZCDP(1.0), shares=shares).releases()
    assert [sum(r.share.rho for r in stage) for _, stage in releases.stages] == pytest.approx(
        shares
    )


def test_strength_grows_with_budget_and_records_and_falls_with_columns():
    few, many = (
        Design.of_bounds((-1.0, 1.0), tuple(f"x{j}" for j in range(d))).columns for d in (3, 60)
    )
    for make in (dp.GeometryPlan, dp.LinearPlan):
        plan, more = make(dp.ZCDP(0.02)), make(dp.ZCDP(0.2))
        assert plan.strength(few, 5000) < plan.strength(few, 50_000)
        assert plan.strength(few, 5000) < more.strength(few, 5000)
        assert plan.strength(many, 5000) < plan.strength(few, 5000)
