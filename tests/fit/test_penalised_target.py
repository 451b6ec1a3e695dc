"""The unpenalised target: one step back from the penalised coefficients, or a plain refusal."""

import numpy as np
import pytest

import dpinfer as dp
from dpinfer.fit.penalised import Matrices, aim
from dpinfer.mechanisms.risk import Risk
from dpinfer.numerics.noise_laws import Gaussian
from dpinfer.result.statements import NOT_IDENTIFIED
from helpers.support import LOSSES, labelled

N = 40_000
X, Y = labelled(N, 4)


def fit(budget, penalty=5e-5, loss=LOSSES[0], **options):
    return dp.infer(
        X,
        Y,
        loss=loss,
        penalty=penalty,
        budget=budget,
        target="unpenalised",
        insecure_seed=1,
        **options,
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_it_is_the_fit_without_a_penalty(loss):
    few = X[:4000], Y[:4000]
    options = {"loss": loss, "target": "unpenalised", "insecure_seed": 1}
    free = dp.infer(*few, loss=loss, penalty=0.0, budget=dp.NoPrivacy())
    exact = dp.infer(*few, penalty=0.1, budget=dp.NoPrivacy(), **options)
    near = dp.infer(*few, penalty=5e-5, budget=dp.ZCDP(1e8), **options)
    assert np.array_equal(exact.estimate, free.estimate)
    assert np.allclose(near.estimate, free.estimate, rtol=2e-3, atol=2e-3)


def test_the_step_and_its_covariance():
    """θ~ + 2c H_f⁻¹θ~ with covariance H_f⁻¹(Σ/n + σ²I/n²)H_f⁻¹ and what the noise of H_f adds
    through the step.
    """
    c, penalised = (
        5e-5,
        dp.infer(X, Y, loss=dp.Logistic(), penalty=5e-5, budget=dp.ZCDP(1.0), insecure_seed=1),
    )
    result = fit(dp.ZCDP(1.0), c)
    free = penalised.hessian - 2 * c * np.eye(4)
    step = 2 * c * np.linalg.solve(free, penalised.estimate)
    assert np.allclose(result.estimate, penalised.estimate + step, rtol=1e-12)
    inverse, sigma = np.linalg.inv(free), result.error.noise.scale
    assert isinstance(result.error.noise, Gaussian)
    U = inverse @ (result.score_cov / N + sigma**2 * np.eye(4) / N**2) @ inverse
    assert np.allclose(result.covariance - result.error.step_noise, U, rtol=1e-10)
    draws = np.random.default_rng(0).standard_normal((20_000, 4, 4)) * result.error.hessian_noise
    noise = np.tril(draws, -1) / np.sqrt(2)
    noise = noise + noise.mT + draws * np.eye(4)
    moved = -(inverse @ noise @ step[:, None])[..., 0]
    through = (
        result.error.step_noise - penalised.error.step_noise
    )  # less the mask of the minimum, which both have
    assert np.allclose(np.cov(moved.T), through, rtol=0.1, atol=0.03 * through.max())
    assert result.model.target == "unpenalised"


@pytest.mark.parametrize(
    "mechanism", [dp.OutputPerturbation(), dp.ObjectivePerturbation("laplace")], ids=str
)
def test_other_mechanisms_cover_it_too(mechanism):
    free = dp.infer(X, Y, loss=dp.Logistic(), penalty=0.0, budget=dp.NoPrivacy()).estimate
    plan = dp.Plan(mechanism, *dp.ZCDP(4.0).split(14, 1, 1), recipe="tight")
    study = dp.simulate.coverage(
        X, Y, penalty=2e-4, plan=plan, target="unpenalised", replicates=256, seed=0
    )
    assert np.allclose(study.target, free, rtol=1e-6)
    assert np.all(study.reported == 1)
    assert np.all(np.abs(study.coverage - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 256))


def test_what_is_not_identified_is_refused():
    result = dp.infer(
        X[:1000],
        Y[:1000],
        loss=dp.Logistic(),
        penalty=0.01,
        budget=dp.ZCDP(0.01),
        target="unpenalised",
        insecure_seed=1,
    )
    assert result.status == (NOT_IDENTIFIED,) * 4
    assert np.isinf(result.conf_int()).all()
    assert np.isinf(result.simultaneous()).all()
    assert np.isfinite(result.hessian).all()
    again = dp.FitResult.from_json(result.to_json())
    assert again.to_json() == result.to_json()
    assert np.isinf(again.conf_int()).all()
    with pytest.raises(dp.InputError, match="not identified"):
        result.contrast([1, 0, 0, 0])


def test_the_rule_is_twice_the_noise_of_the_eigenvalues():
    risk, entry = Risk.penalised(dp.Logistic(), 1e-3, 1000), 1e-3
    limit = 2 * entry * np.sqrt(2 * 3)
    stack = np.array([(2e-3 + limit * factor) * np.eye(3) for factor in (0.99, 1.01)])
    aimed = aim("unpenalised", risk, np.ones((2, 3)), Matrices(stack, stack), entry)
    assert aimed.identified.tolist() == [False, True]
    assert np.isnan(aimed.coef[0]).all()
    assert np.allclose(aimed.coef[1], 1 + 2e-3 / (1.01 * limit))


def test_coverage_with_known_truth():
    """Private intervals cover the coefficients that made the labels; the penalised ones are
    elsewhere.
    """
    beta = np.array([2.0, -1.0, 0.5, 1.0])
    common = {
        "truth": lambda rows: 1 / (1 + np.exp(-rows @ beta)),
        "budget": dp.ZCDP(0.1875),
        "nonprivate": False,
    }
    study = dp.simulate.coverage(X, target="unpenalised", replicates=384, seed=0, **common)
    assert np.allclose(study.target, beta, atol=1e-6)
    assert np.all(np.abs(study.coverage - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 384))
    naive = dp.simulate.coverage(X, penalty=2e-3, replicates=128, seed=0, **common)
    assert np.abs(naive.target - beta).max() > 0.5 * naive.length.max()


def test_bad_target():
    with pytest.raises(dp.InputError, match="there is no target 'true'"):
        dp.infer(X, Y, loss=dp.Logistic(), penalty=0.1, budget=dp.ZCDP(1.0), target="true")
    with pytest.raises(dp.InputError, match="there is no target 'true'"):
        dp.simulate.coverage(X, Y, budget=dp.ZCDP(1.0), target="true")
