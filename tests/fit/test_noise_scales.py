"""The noise of every release of the paper, recovered from the published numbers of whole fits."""

import numpy as np
import pytest
from scipy import stats

import dpinfer as dp
from dpinfer.maths.losses import slope_kind
from dpinfer.maths.privacy_cost import perturbed_objective_scale
from dpinfer.maths.risk import Risk
from support import LOSSES, RESIDUAL_LOSSES, exact_gradient, follows, labelled, numeric

N, C, FITS = 40, 0.05, 700
X, Y = labelled(N, 3)
OBJECTIVE, OUTPUT = dp.ObjectivePerturbation("laplace"), dp.OutputPerturbation()
GAUSSIAN = dp.ObjectivePerturbation("gaussian")


def fits(loss, mechanism, share, count=FITS):
    plan = dp.Plan(mechanism, share, share, share)
    return [
        dp.infer(X, Y, loss=loss, penalty=C, plan=plan, insecure_seed=seed) for seed in range(count)
    ]


def epsilon_left(loss, epsilon):
    return epsilon - np.log(1 + loss.curvature_bound / (2 * N * C))


@pytest.mark.parametrize("share", [dp.PureDP(1.0), dp.ZCDP(0.5)])  # sqrt(2 · 0.5) = 1
@pytest.mark.parametrize("loss", LOSSES)
def test_algorithm_1(loss, share):
    """b = -(gradient of the penalised risk at θ~), of rate ε'/2; zCDP runs at ε = sqrt(2ρ)."""
    risk = Risk.penalised(loss, C, N)
    b = np.array(
        [-exact_gradient(risk, X, Y, fit.estimate) for fit in fits(loss, OBJECTIVE, share)]
    )
    radius, scale = np.linalg.norm(b, axis=1), 2 / epsilon_left(loss, 1.0)
    assert follows(radius, stats.gamma(3, scale=scale))
    assert not follows(radius, stats.gamma(3, scale=1.2 * scale))
    assert not follows(radius, stats.gamma(3, scale=0.8 * scale))


@pytest.mark.parametrize("loss", LOSSES)
def test_gaussian_objective_perturbation(loss):
    """b is Gaussian; its scale is a little above sqrt(2/ρ), by what the curvature costs."""
    risk, rho = Risk.penalised(loss, C, N), 0.8
    b = np.array(
        [-exact_gradient(risk, X, Y, fit.estimate) for fit in fits(loss, GAUSSIAN, dp.ZCDP(rho))]
    ).ravel()
    scale = perturbed_objective_scale(rho, loss.curvature_bound / (2 * N * C), slope_kind(loss))
    assert np.sqrt(2 / rho) < scale < 1.5 * np.sqrt(2 / rho)
    assert follows(b, stats.norm(scale=scale))
    assert not follows(b, stats.norm(scale=1.2 * scale))
    assert not follows(b, stats.norm(scale=0.8 * scale))


@pytest.mark.parametrize("loss", LOSSES)
def test_algorithm_4(loss):
    """θ~ - θ^ is Laplace of rate ncε, or Gaussian of variance 1/(2ρ(nc)²)."""
    exact = dp.infer(X, Y, loss=loss, penalty=C, budget=dp.NoPrivacy()).estimate
    pure = np.array([fit.estimate - exact for fit in fits(loss, OUTPUT, dp.PureDP(1.5))])
    radius, scale = np.linalg.norm(pure, axis=1), 1 / (N * C * 1.5)
    assert follows(radius, stats.gamma(3, scale=scale))
    assert not follows(radius, stats.gamma(3, scale=1.2 * scale))
    zcdp = np.array([fit.estimate - exact for fit in fits(loss, OUTPUT, dp.ZCDP(0.3))])
    deviation = 1 / (N * C * np.sqrt(2 * 0.3))
    assert follows(zcdp.ravel(), stats.norm(scale=deviation))
    assert not follows(zcdp.ravel(), stats.norm(scale=1.2 * deviation))


@pytest.mark.parametrize("loss", LOSSES)
def test_algorithm_2_inside_a_fit(loss):
    """One column and little noise, so that neither symmetry nor floor hides it: H~, Σ~ minus their
    values at θ~.
    """
    x, c, epsilon = np.abs(X[:, 0]) / 5 + 0.8, 0.005, 400.0
    plan = dp.Plan(OBJECTIVE, dp.PureDP(5.0), dp.PureDP(epsilon), dp.PureDP(epsilon))
    H, S = [], []
    for seed in range(1000):
        fit = dp.infer(x[:, None], Y, loss=loss, penalty=c, plan=plan, insecure_seed=seed)
        theta = fit.estimate[0]
        z = Y * x * theta
        slope = 1 / (1 + np.exp(-abs(theta))) if isinstance(loss, dp.Logistic) else 1.0
        H.append(
            (fit.hessian[0, 0] - np.mean(loss.curvature(z) * x**2) - 2 * c)
            * N
            / (2 * loss.curvature_bound)
        )
        S.append(
            (fit.score_cov[0, 0] - np.mean(loss.slope(z) ** 2 * x**2) + 4 * c**2 * theta**2)
            * N
            / (2 * slope**2)
        )
        assert min(fit.hessian[0, 0], fit.score_cov[0, 0]) > 2 * c
    for noise in (np.array(H), np.array(S)):
        assert follows(noise * epsilon, stats.laplace())
        assert not follows(np.abs(noise) * epsilon, stats.expon(scale=1.3))
        assert not follows(np.abs(noise) * epsilon, stats.expon(scale=0.75))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("share", [dp.PureDP(1.0), dp.ZCDP(0.1)])
def test_matrices_are_symmetric_and_floored_at_2c(loss, share):
    for fit in fits(loss, OUTPUT, share, 50):
        for matrix in (fit.hessian, fit.score_cov):
            assert np.array_equal(matrix, matrix.T)
            assert np.linalg.eigvalsh(matrix)[0] >= 2 * C * (1 - 1e-9)


@pytest.mark.parametrize("loss", RESIDUAL_LOSSES)
def test_residual_losses(loss):
    """b recovered from the published coefficients, for both kinds of noise; a scale 20 % off is
    rejected.
    """
    (rows, y), c = numeric(N, 3), 0.5
    risk = Risk.penalised(loss, c, N)

    def recovered(mechanism, share):
        plan = dp.Plan(mechanism, *share.split(2, 1, 1))
        fitted = [
            dp.infer(rows, y, loss=loss, penalty=c, plan=plan, insecure_seed=seed)
            for seed in range(FITS)
        ]
        return np.array([-exact_gradient(risk, rows, y, fit.estimate) for fit in fitted])

    L, t = loss.slope_bound, loss.curvature_bound
    radius = np.linalg.norm(recovered(OBJECTIVE, dp.PureDP(8.0)), axis=1)
    scale = 2 * L / (4.0 - np.log(1 + t / (2 * N * c)))
    assert follows(radius, stats.gamma(3, scale=scale))
    assert not follows(radius, stats.gamma(3, scale=0.8 * scale))
    b = recovered(GAUSSIAN, dp.ZCDP(4.0)).ravel()
    sigma = L * perturbed_objective_scale(2.0, t / (2 * N * c), "two-sided")
    assert follows(b, stats.norm(scale=sigma))
    assert not follows(b, stats.norm(scale=0.8 * sigma))
