"""The noise of every release of the paper, recovered from the published numbers of whole fits."""

import numpy as np
import pytest
from scipy import stats

import dpinfer as dp
from dpinfer.mechanisms.losses import slope_kind
from dpinfer.mechanisms.privacy_cost import perturbed_objective_scale
from dpinfer.mechanisms.risk import Risk
from helpers.support import SIGNIFICANCE, exact_gradient, follows, labelled, numeric

# A fit of nine columns takes no longer than one of three, and shows three times as much of the noise of its vectors.
N, C, D, FITS = 40, 0.05, 9, 100
# One loss of each kind that the scales know.
LOSSES = [dp.Logistic(), dp.HuberHinge(0.5)]
RESIDUAL_LOSSES = [dp.Huber(0.2), dp.SmoothedQuantile(0.25, 0.05)]
X, Y = labelled(N, D)
OBJECTIVE, OUTPUT = dp.ObjectivePerturbation("laplace"), dp.OutputPerturbation()
GAUSSIAN = dp.ObjectivePerturbation("gaussian")


def fits(loss, mechanism, share, count=FITS):
    plan = dp.Plan(mechanism, share, share, share)
    return [
        dp.infer(X, Y, loss=loss, penalty=C, plan=plan, insecure_seed=seed) for seed in range(count)
    ]


def typical(value, law):
    """Whether a value is not in the tails of its law."""
    return bool(SIGNIFICANCE / 2 < law.cdf(value) < 1 - SIGNIFICANCE / 2)


def laplace_in_space(vectors, scale):
    """Whether vectors in R^D have spherical Laplace noise of this scale.

    Their norms are compared with their law, and the sum of these with its own: it is the sharpest
    test of a scale.
    """
    radius = np.linalg.norm(vectors, axis=1) / scale
    return follows(radius, stats.gamma(D)) and typical(radius.sum(), stats.gamma(D * radius.size))


def gaussian(numbers, scale):
    """The same for Gaussian numbers, and the sum of their squares."""
    z = np.ravel(numbers) / scale
    return follows(z, stats.norm()) and typical((z**2).sum(), stats.chi2(z.size))


def laplace(numbers, scale):
    """The same for Laplace numbers, and the sum of their sizes."""
    z = np.ravel(numbers) / scale
    return follows(z, stats.laplace()) and typical(np.abs(z).sum(), stats.gamma(z.size))


def only_at(scale, accepted, off=(0.8, 1.2)):
    """Whether a scale is accepted, and one that is 20 % off to either side is not."""
    return accepted(scale) and not any(accepted(part * scale) for part in off)


def epsilon_left(loss, epsilon):
    return epsilon - np.log(1 + loss.curvature_bound / (2 * N * C))


@pytest.mark.parametrize(
    ("loss", "share"),
    [
        (LOSSES[0], dp.PureDP(1.0)),
        (LOSSES[1], dp.PureDP(1.0)),
        (LOSSES[1], dp.ZCDP(0.5)),  # sqrt(2 · 0.5) = 1
    ],
)
def test_algorithm_1(loss, share):
    """b = -(gradient of the penalised risk at θ~), of rate ε'/2; zCDP runs at ε = sqrt(2ρ)."""
    risk = Risk.penalised(loss, C, N)
    b = np.array(
        [-exact_gradient(risk, X, Y, fit.estimate) for fit in fits(loss, OBJECTIVE, share)]
    )
    assert only_at(2 / epsilon_left(loss, 1.0), lambda scale: laplace_in_space(b, scale))


@pytest.mark.parametrize("loss", LOSSES)
def test_gaussian_objective_perturbation(loss):
    """b is Gaussian; its scale is a little above sqrt(2/ρ), by what the curvature costs."""
    risk, rho = Risk.penalised(loss, C, N), 0.8
    b = np.array(
        [-exact_gradient(risk, X, Y, fit.estimate) for fit in fits(loss, GAUSSIAN, dp.ZCDP(rho))]
    )
    scale = perturbed_objective_scale(rho, loss.curvature_bound / (2 * N * C), slope_kind(loss))
    assert np.sqrt(2 / rho) < scale < 1.5 * np.sqrt(2 / rho)
    assert only_at(scale, lambda scale: gaussian(b, scale))


@pytest.mark.parametrize("loss", LOSSES)
def test_algorithm_4(loss):
    """θ~ - θ^ is Laplace of rate ncε, or Gaussian of variance 1/(2ρ(nc)²)."""
    exact = dp.infer(X, Y, loss=loss, penalty=C, budget=dp.NoPrivacy()).estimate
    pure = np.array([fit.estimate - exact for fit in fits(loss, OUTPUT, dp.PureDP(1.5))])
    assert only_at(1 / (N * C * 1.5), lambda scale: laplace_in_space(pure, scale))
    zcdp = np.array([fit.estimate - exact for fit in fits(loss, OUTPUT, dp.ZCDP(0.3))])
    assert only_at(1 / (N * C * np.sqrt(2 * 0.3)), lambda scale: gaussian(zcdp, scale))


@pytest.mark.parametrize("loss", LOSSES)
def test_algorithm_2_inside_a_fit(loss):
    """One column and little noise, so that neither symmetry nor floor hides it: H~, Σ~ minus their
    values at θ~.
    """
    x, c, epsilon = np.abs(X[:, 0]) / 5 + 0.8, 0.005, 400.0
    plan = dp.Plan(OBJECTIVE, dp.PureDP(5.0), dp.PureDP(epsilon), dp.PureDP(epsilon))
    H, S = [], []
    for seed in range(500):
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
        size = noise * epsilon
        assert only_at(1.0, lambda scale, size=size: laplace(size, scale), off=(0.75, 1.3))


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
    (rows, y), c = numeric(N, D), 0.5
    risk = Risk.penalised(loss, c, N)

    def recovered(mechanism, share):
        plan = dp.Plan(mechanism, *share.split(2, 1, 1))
        fitted = [
            dp.infer(rows, y, loss=loss, penalty=c, plan=plan, insecure_seed=seed)
            for seed in range(FITS)
        ]
        return np.array([-exact_gradient(risk, rows, y, fit.estimate) for fit in fitted])

    L, t = loss.slope_bound, loss.curvature_bound
    b = recovered(OBJECTIVE, dp.PureDP(8.0))
    scale = 2 * L / (4.0 - np.log(1 + t / (2 * N * c)))
    assert only_at(scale, lambda scale: laplace_in_space(b, scale))
    normal = recovered(GAUSSIAN, dp.ZCDP(4.0))
    sigma = L * perturbed_objective_scale(2.0, t / (2 * N * c), "two-sided")
    assert only_at(sigma, lambda scale: gaussian(normal, scale))
