"""Algorithms 3 and 5, end to end."""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.fit import recipe
from dpinfer.fit.penalised_plan import default_plan
from dpinfer.inference.error_laws import sandwich
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import PerturbedObjective
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.sums import SLACK
from dpinfer.numerics.arrays import unsvec
from dpinfer.numerics.noise_laws import SphericalLaplace
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import MASK
from helpers.support import LOSSES, Tripled, labelled

X, Y = labelled(3000, 3)
OBJECTIVE, OUTPUT = dp.ObjectivePerturbation("laplace"), dp.OutputPerturbation()
GAUSSIAN = dp.ObjectivePerturbation("gaussian")
N, C = 3000, 0.01


@pytest.mark.parametrize("loss", LOSSES)
def test_algorithm_5_zcdp_is_the_closed_form(loss):
    """U = I/(2ρ₁(nc)²) + H~⁻¹ Σ~ H~⁻¹/n, intervals θ~ ± z sqrt(U_jj)."""
    plan = dp.Plan(OUTPUT, dp.ZCDP(0.2), dp.ZCDP(0.1), dp.ZCDP(0.1))
    fit = dp.infer(X, Y, loss=loss, penalty=C, plan=plan, insecure_seed=1)
    inverse = np.linalg.inv(fit.hessian)
    U = (1 + SLACK) ** 2 * np.eye(3) / (
        2 * 0.2 * (N * C) ** 2
    ) + inverse @ fit.score_cov @ inverse / N
    assert np.allclose(fit.covariance, U, rtol=1e-12)
    half = 1.959963984540054 * np.sqrt(np.diag(U))
    assert np.allclose(
        fit.conf_int(0.95), np.stack([fit.estimate - half, fit.estimate + half], axis=1), rtol=1e-12
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_gaussian_objective_perturbation_is_a_closed_form(loss):
    """U = H~⁻¹(Σ~/n + σ² I/n²)H~⁻¹."""
    fit = dp.infer(
        X,
        Y,
        loss=loss,
        penalty=C,
        plan=dp.Plan(GAUSSIAN, *dp.ZCDP(0.4).split(2, 1, 1)),
        insecure_seed=1,
    )
    inverse, sigma = np.linalg.inv(fit.hessian), fit.error.noise.scale
    release = PerturbedObjective(sigma, loss.curvature_bound / (2 * N * C), slope_kind(loss))
    assert release.cost() == pytest.approx(0.2 * (1 - MASK))
    assert fit.privacy.events[0].objective.cost() == pytest.approx(release.cost())
    U = inverse @ (fit.score_cov / N + sigma**2 * np.eye(3) / N**2) @ inverse
    masked = fit.covariance - U
    assert np.allclose(masked, masked[0, 0] * np.eye(3), atol=1e-15)
    assert 0 < masked[0, 0] < 1e-3 * U[0, 0]
    assert fit.error.closed_form


@pytest.mark.parametrize("share", [dp.PureDP(1.0), dp.ZCDP(0.5)])
@pytest.mark.parametrize("mechanism", [OBJECTIVE, OUTPUT])
@pytest.mark.parametrize("loss", LOSSES)
def test_sampled_intervals_are_the_papers(loss, mechanism, share):
    """Fresh draws of H~⁻¹(G + b/√n)/√n, or of H~⁻¹G/√n - b, give the interval of the result."""
    if mechanism is OUTPUT and isinstance(share, dp.ZCDP):
        return  # closed form, tested above
    plan = dp.Plan(mechanism, share, share, share, draws=100_000)
    fit = dp.infer(X, Y, loss=loss, penalty=C, plan=plan, insecure_seed=1)
    rng, m = np.random.default_rng(99), 100_000
    left = 1.0 - np.log(1 + loss.curvature_bound / (2 * N * C))
    G = rng.multivariate_normal(np.zeros(3), fit.score_cov, m)
    b = SphericalLaplace(left / 2 if mechanism is OBJECTIVE else N * C * 1.0).sample(rng, (m, 3))
    inverse = np.linalg.inv(fit.hessian)
    if mechanism is OBJECTIVE:
        draws = fit.estimate + (G + b / np.sqrt(N)) @ inverse / np.sqrt(N)
    else:
        draws = fit.estimate - b + G @ inverse / np.sqrt(N)
    expected = np.quantile(draws, [0.025, 0.975], axis=0).T
    width = (expected[:, 1] - expected[:, 0])[:, None]
    assert np.all(np.abs(fit.conf_int(0.95) - expected) < 0.015 * width)


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [(m, b) for m in (OBJECTIVE, OUTPUT) for b in (dp.PureDP(3.0), dp.ZCDP(1.0))]
    + [(GAUSSIAN, dp.ZCDP(1.0))],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_four_times_the_loss_and_the_penalty_is_the_same_fit(loss, mechanism, budget):
    """Every noise scale follows the slope bound: the same seed gives the same coefficients and
    intervals.

    Four, as the steps of a grid are powers of two: then they follow too.
    """
    plan, c = dp.Plan(mechanism, *budget.split(1, 1, 1)), 0.002
    plain = (
        Tripled(loss, 1) if mechanism == GAUSSIAN else loss
    )  # the built-in losses pay less for their curvature
    once = dp.infer(X, Y, loss=plain, penalty=c, plan=plan, insecure_seed=1)
    fourfold = dp.infer(X, Y, loss=Tripled(loss, 4), penalty=4 * c, plan=plan, insecure_seed=1)
    assert (
        np.linalg.eigvalsh(fourfold.score_cov)[0] > 32 * c * 1.001
    )  # no floor at work in either fit
    assert np.allclose(fourfold.estimate, once.estimate, rtol=1e-5)
    assert np.allclose(fourfold.hessian, 4 * once.hessian, rtol=1e-3, atol=1e-5)
    assert np.allclose(fourfold.score_cov, 16 * once.score_cov, rtol=1e-3, atol=1e-5)
    assert np.allclose(fourfold.covariance, once.covariance, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("mechanism", [GAUSSIAN, OUTPUT])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_noise_of_the_matrices_is_stated_as_it_is(loss, mechanism):
    """Deviation of one entry of H~ and Σ~, and with it the spread of a standard error, by drawing
    that noise again.
    """
    plan = dp.Plan(mechanism, dp.ZCDP(0.2), dp.ZCDP(0.5), dp.ZCDP(0.7), recipe="tight")
    fit = dp.infer(X, Y, loss=loss, penalty=C, plan=plan, insecure_seed=1)
    bound, w = (np.sqrt(2) * 1.0356, 4.0) if isinstance(loss, dp.Logistic) else (2.0, 2 * loss.knee)
    entry = bound * (1 + SLACK) / np.sqrt(2 * 1.2) / N
    assert fit.error.hessian_noise == pytest.approx(entry / w)
    assert fit.error.score_noise == pytest.approx(entry / N)
    rng = np.random.default_rng(0)
    E, F = (unsvec(rng.standard_normal((20_000, 6)) * s, 3) for s in (entry / w, entry))
    noisy = sandwich(fit.hessian + E, fit.score_cov + F, N)
    sigma2 = fit.error.noise.scale**2
    if mechanism is GAUSSIAN:
        inverse = np.linalg.inv(fit.hessian + E)
        noisy = noisy + sigma2 * inverse @ inverse / N**2
    else:
        noisy = noisy + sigma2 * np.eye(3)
    deviations = np.sqrt(np.diagonal(noisy, axis1=1, axis2=2))
    assert np.allclose(
        deviations.var(axis=0) / np.diag(fit.covariance), fit.error.spread(), rtol=0.06
    )


def test_every_fit_samples_its_intervals_anew():
    plan = dp.Plan(OBJECTIVE, *dp.PureDP(3.0).split(1, 1, 1))
    seeds = {dp.infer(X, Y, loss=dp.Logistic(), penalty=C, plan=plan).error.seed for _ in range(5)}
    assert len(seeds) == 5


def test_shares_of_the_default_plan():
    pure, zcdp = default_plan(dp.PureDP(1.0)), default_plan(dp.ZCDP(0.16))
    assert pure.recipe == zcdp.recipe == "tight"
    risk = Risk.penalised(dp.Logistic(), C, N)
    assert [e.share.epsilon for e in pure.releases(risk)] == pytest.approx([0.7, 0.3])
    assert [e.share.rho for e in zcdp.releases(risk)] == pytest.approx([0.14, 0.02])
    assert [event.step for event in zcdp.releases(risk)] == ["estimate", "matrices"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("share", [dp.PureDP(1.0), dp.ZCDP(0.5)])
def test_the_tight_matrices(loss, share):
    """One release of both: H~ above 2c, Σ~ above 0, and with a huge share the exact matrices at θ~."""
    mechanism = OBJECTIVE if isinstance(share, dp.PureDP) else GAUSSIAN
    noisy = [
        dp.infer(X[:50], Y[:50], loss=loss, penalty=0.2, insecure_seed=seed,
                 plan=dp.Plan(mechanism, share, *share.split(1, 1), recipe="tight"))
        for seed in range(50)
    ]  # fmt: skip
    assert all(np.linalg.eigvalsh(fit.hessian)[0] >= 0.4 * (1 - 1e-9) for fit in noisy)
    assert all(np.linalg.eigvalsh(fit.score_cov)[0] >= -1e-12 for fit in noisy)
    assert (
        min(np.linalg.eigvalsh(fit.score_cov)[0] for fit in noisy) < 0.1
    )  # below the paper's floor
    rich = dp.Plan(mechanism, share, *type(share)(1e12).split(1, 1), recipe="tight")
    fit = dp.infer(X, Y, loss=loss, penalty=C, plan=rich, insecure_seed=1)
    z = Y * (X @ fit.estimate)
    exact_h = (X * loss.curvature(z)[:, None]).T @ X / N + 2 * C * np.eye(3)
    exact_s = (X * loss.slope(z)[:, None] ** 2).T @ X / N - 4 * C**2 * np.outer(
        fit.estimate, fit.estimate
    )
    assert np.allclose(fit.hessian, exact_h, atol=1e-6)
    assert np.allclose(fit.score_cov, exact_s, atol=1e-6)


def test_intervals_use_m_draws():
    plan = dp.Plan(OBJECTIVE, *dp.PureDP(3.0).split(1, 1, 1))
    fit = dp.infer(X, Y, loss=dp.Logistic(), penalty=C, plan=plan)
    assert fit.error.draws == 10_000
    assert fit.error.sample().shape == (10_000, 3)


def test_order_of_the_matrices_is_after_the_estimate():
    """H~ and Σ~ belong to the released θ~: with hardly any matrix noise they equal the sums there,
    not at θ^.
    """
    plan = dp.Plan(OUTPUT, dp.PureDP(0.5), dp.PureDP(1e7), dp.PureDP(1e7))
    fit = dp.infer(X, Y, loss=dp.Logistic(), penalty=1e-2, plan=plan, insecure_seed=4)
    z = Y * (X @ fit.estimate)
    S = (X * (1 / (1 + np.exp(z)))[:, None] ** 2).T @ X / N - 4e-4 * np.outer(
        fit.estimate, fit.estimate
    )
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    assert np.allclose(fit.score_cov, (vectors * np.maximum(values, 2 * C)) @ vectors.T, atol=1e-5)


@pytest.fixture(scope="module")
def known_population():
    truth_x, truth_y = labelled(200_000, 3, seed=77)
    whole = dp.infer(truth_x, truth_y, loss=dp.Logistic(), penalty=C, budget=dp.NoPrivacy())
    return truth_x, truth_y, whole.estimate


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        (OBJECTIVE, dp.PureDP(2.0)),
        (OUTPUT, dp.PureDP(2.0)),
        (OBJECTIVE, dp.ZCDP(0.5)),
        (OUTPUT, dp.ZCDP(0.5)),
        (GAUSSIAN, dp.ZCDP(0.5)),
    ],
)
def test_coverage_of_the_known_penalised_target(mechanism, budget, known_population):
    """200 samples from a known population; the target is the penalised minimiser on 200,000 records
    of it.
    """
    truth_x, truth_y, target = known_population
    plan = dp.Plan(mechanism, *budget.split(2, 1, 1))
    covered = np.zeros(3)
    for seed in range(200):
        take = slice(1000 * seed, 1000 * (seed + 1))
        fit = dp.infer(
            truth_x[take],
            truth_y[take],
            loss=dp.Logistic(),
            penalty=C,
            plan=plan,
            insecure_seed=seed,
        )
        low, high = fit.conf_int(0.95).T
        covered += (low <= target) & (target <= high)
    assert np.all(covered / 200 >= 0.91)


def test_guarantee_refused_before_booking():
    ledger, zcdp = dp.Ledger(dp.PureDP(1.0)), dp.Ledger(dp.ZCDP(1.0))
    smallest = 0.25 / (2 * N * np.expm1(0.7 * (1 - MASK)))
    with pytest.raises(dp.BudgetError, match=f"exceed {smallest:.6g}"):
        dp.infer(X, Y, loss=dp.Logistic(), penalty=smallest, budget=dp.PureDP(1.0), ledger=ledger)
    with pytest.raises(dp.BudgetError, match="penalty above 0"):
        dp.infer(
            X,
            Y,
            loss=dp.Logistic(),
            penalty=0.0,
            plan=dp.Plan(OUTPUT, *dp.ZCDP(1.0).split(1, 1, 1)),
            ledger=zcdp,
        )
    for faulty in (
        lambda: dp.infer(
            X, Y, loss=dp.Logistic(), penalty=1e-100, budget=dp.ZCDP(0.1), ledger=zcdp
        ),
        lambda: dp.infer(
            X, Y, loss=dp.Logistic(), penalty=C, budget=dp.ZCDP(0.1), ledger=zcdp, insecure_seed=1
        ),
        lambda: dp.infer(
            X, Y, loss=dp.Logistic(), penalty=C, budget=dp.ZCDP(0.1), ledger=zcdp, insecure_seed="a"
        ),
        lambda: dp.Plan(
            OBJECTIVE, dp.ZCDP(0.1), dp.ZCDP(0.1), dp.ZCDP(0.1), approx=dp.ApproxDP(1, 2.0)
        ),
        lambda: dp.Plan(OBJECTIVE, dp.PureDP(1.0), dp.NoPrivacy(), dp.NoPrivacy()),
        lambda: dp.LogisticRegression(bounds=(-1e308, 1e308), budget=dp.ZCDP(0.1), ledger=zcdp).fit(
            X, Y
        ),
    ):
        with pytest.raises(dp.DpinferError):
            faulty()
    assert ledger.entries() == zcdp.entries() == ()
    dp.infer(
        X, Y, loss=dp.Logistic(), penalty=1.01 * smallest, budget=dp.PureDP(1.0), ledger=ledger
    )
    assert ledger.left() == 0


@pytest.mark.parametrize(
    "plan", [dp.Plan(OUTPUT, *dp.ZCDP(1.0).split(1, 1, 1)), default_plan(dp.PureDP(2.0))]
)
@pytest.mark.parametrize("target", ["penalised", "unpenalised"])
def test_the_same_releases_on_other_records_give_the_same_bytes(plan, target, monkeypatch):
    """Everything published is made of released and public numbers."""
    released = []

    class Recorder(Gate):
        def release(self, booked, source, what):
            released.append(super().release(booked, source, what))
            return released[-1]

    options = {
        "loss": dp.Logistic(),
        "penalty": C,
        "plan": plan,
        "target": target,
        "insecure_seed": 3,
    }
    monkeypatch.setattr(recipe, "Gate", Recorder)
    first = dp.infer(X, Y, **options).to_json()
    replay = iter(released)

    class Replay(Gate):
        def release(self, booked, source, what):
            return next(replay)

    monkeypatch.setattr(recipe, "Gate", Replay)
    assert dp.infer(-X[::-1], np.ones(len(Y)), **options).to_json() == first


def test_a_penalty_shrinks_the_vector_and_may_move_one_coefficient_away_from_0():
    """So no result says that a penalty pulls a coefficient towards 0."""
    rng = np.random.default_rng(3)
    common = rng.standard_normal(4000)
    X = 0.3 * np.column_stack([common + 0.3 * rng.standard_normal(4000), common])
    y = np.where(rng.random(4000) < 1 / (1 + np.exp(-8 * X[:, 1])), 1.0, -1.0)
    options = {"loss": dp.Logistic(), "budget": dp.NoPrivacy()}
    free = dp.infer(X, y, penalty=0.0, **options)
    bound = dp.infer(X, y, penalty=0.02, **options)
    assert np.linalg.norm(bound.estimate) < np.linalg.norm(free.estimate)
    assert abs(bound.estimate[0]) > 2 * abs(free.estimate[0])
    pure = dp.infer(X, y, loss=dp.Logistic(), budget=dp.PureDP(1.0), insecure_seed=1)
    for view in (pure.summary(full=True), dp.report.markdown(pure), dp.report.html(pure)):
        words = " ".join(view.split())
        assert "towards 0" not in words
        assert "shrinks the vector of coefficients of the scaled rows as a whole" in words
        assert "Which of these is unknown without the data" in words


class Capped:
    """A loss that the package does not know."""

    slope_bound = 1.0
    curvature_bound = 0.25
    value = staticmethod(dp.Logistic().value)
    slope = staticmethod(dp.Logistic().slope)
    curvature = staticmethod(dp.Logistic().curvature)


NAMES = {
    "logistic regression": dp.Logistic(),
    "support vector machine, hinge rounded within 0.5 of its corner": dp.HuberHinge(0.5),
    "Huber regression, knee 0.2": dp.Huber(0.2),
    "quantile regression at 0.25, smoothed over 0.1": dp.SmoothedQuantile(0.25, 0.1),
    "regression with the loss Capped()": Capped(),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_has_the_name_that_statisticians_know(name):
    rng = np.random.default_rng(4)
    X = rng.uniform(-0.5, 0.5, (300, 2))
    y = np.sign(rng.standard_normal(300))
    result = dp.infer(X, y, loss=NAMES[name], budget=dp.ZCDP(1.0), penalty=0.1, insecure_seed=1)
    assert f"Model: {name}, penalised." in result.summary().replace("\n  ", " ")
    report = dp.report.markdown(result)
    assert f"- Model: {name}, penalised, c = 0.1" in report.replace("\u00a0", " ")
    summary = result.summary(full=True).replace("\n  ", " ")
    assert f"the penalised coefficients of {name} in the population" in summary
    assert "\nEstimand: the penalised coefficients of " in result.summary()
    if type(NAMES[name]) is not Capped:
        for view in (result.summary(full=True), report, dp.report.html(result), result.to_latex()):
            assert f"{type(NAMES[name]).__name__}(" not in view
            assert "Recipe" not in view


def test_without_a_budget_one_with_a_delta_or_rho_comes_first():
    with pytest.raises(dp.BudgetError, match=r"example dp.ApproxDP\(1.0, 1e-6\) or dp.ZCDP"):
        dp.infer(np.zeros((5, 1)), np.ones(5), loss=dp.Logistic())
