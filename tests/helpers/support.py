"""Small data sets with known truth, and the statistical yardsticks the tests share."""

from dataclasses import replace

import numpy as np
from scipy import stats

import dpinfer as dp
from dpinfer.fit.linear import LinearSteps
from dpinfer.fit.logistic import LogisticSteps
from dpinfer.fit.recipe import Subject, fit
from dpinfer.mechanisms.histograms import influence_histogram
from dpinfer.mechanisms.losses import Loss
from dpinfer.mechanisms.risk import Risk
from dpinfer.mechanisms.step_sums import Linearization, step_sums
from dpinfer.numerics.links import IDENTITY
from dpinfer.privacy.entries import Entry
from dpinfer.privacy.gate import Gate
from dpinfer.privacy.release import LaplaceMinimum, NoisySum


class Tripled:
    """Three times another loss, or another multiple: a loss of which nothing is known but its
    bounds.
    """

    def __init__(self, loss, factor=3):
        self.loss, self.factor = loss, factor
        self.of = getattr(loss, "of", "margin")
        self.slope_bound, self.curvature_bound = (
            factor * loss.slope_bound,
            factor * loss.curvature_bound,
        )
        if hasattr(loss, "slope_within"):
            self.slope_within = lambda radius: factor * loss.slope_within(radius)

    def value(self, z):
        return self.factor * self.loss.value(z)

    def slope(self, z):
        return self.factor * self.loss.slope(z)

    def curvature(self, z):
        return self.factor * self.loss.curvature(z)


LOSSES: list[Loss] = [dp.Logistic(), dp.HuberHinge(1.0), dp.HuberHinge(0.5)]

RESIDUAL_LOSSES: list[Loss] = [
    dp.Huber(0.2),
    dp.SmoothedQuantile(0.5, 0.1),
    dp.SmoothedQuantile(0.25, 0.05),
]

SIGNIFICANCE = 1e-4
"""A correct build fails one such test in ten thousand; seeds are fixed, so in practice never."""


def unit_rows(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, -1] = 1.0
    return X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))


def labelled(n, d, seed=0, coef=None):
    """Bounded rows and labels from a logistic model."""
    X = unit_rows(n, d, seed)
    coef = np.linspace(-2, 2, d) if coef is None else coef
    p = 1 / (1 + np.exp(-X @ coef))
    return X, np.where(np.random.default_rng(seed + 1).random(n) < p, 1.0, -1.0)


def numeric(n, d, seed=0):
    """Bounded rows and outcomes in [-1, 1] from a linear model with heavy tails."""
    X = unit_rows(n, d, seed)
    noise = np.random.default_rng(seed + 1).standard_t(3, n)
    return X, np.clip(X @ np.linspace(-0.5, 0.5, d) + 0.1 * noise, -1, 1)


def gate_of(seed, *releases):
    """A seeded gate for the given releases, with nothing booked."""
    return Gate(Entry("test", "one record", releases), None, seed)


def opaque(share, step="estimate"):
    """A release of which the accountant knows the share alone, if that is zCDP."""
    return LaplaceMinimum(step, share, rate=0.0, k=0.0)


def noisy_sum(seed, share, source, bounded):
    """One release of a sum, seeded."""
    release = NoisySum("sum", share, bounded.bound)
    return gate_of(seed, release).release(release, source, bounded)


def fit_stepped(source, design, plan, ledger=None, seed=None):
    """A stepped fit: logistic regression, or least squares if the plan is one for it."""
    steps = LinearSteps if isinstance(plan, dp.LinearPlan) else LogisticSteps
    return fit(steps(design, plan), source, Subject(), ledger, seed)


def exact_gradient(risk: Risk, X, y, coef):
    """Gradient of the penalised sum objective, written out independently of the package's sums."""
    ridge = 2 * risk.n * risk.penalty * coef
    if getattr(risk.loss, "of", "margin") == "residual":
        return ridge - (risk.loss.slope(y - X @ coef)[:, None] * X).sum(axis=0)
    return ridge + ((y * risk.loss.slope(y * (X @ coef)))[:, None] * X).sum(axis=0)


def follows(sample, law) -> bool:
    """Whether a sample is accepted as drawn from a scipy law, by Kolmogorov and Smirnov."""
    return bool(stats.kstest(sample, law.cdf).pvalue > SIGNIFICANCE)


def directions_uniform(vectors) -> bool:
    """Whether the first coordinate of unit vectors in R^m follows its law: (u+1)/2 ~ Beta((m-1)/2,
    (m-1)/2).
    """
    m = vectors.shape[1]
    u = vectors[:, 0] / np.linalg.norm(vectors, axis=1)
    return follows((u + 1) / 2, stats.beta((m - 1) / 2, (m - 1) / 2))


def identity_line(coef):
    """A released line of least squares, for rows as they are."""
    everywhere = np.ones(len(coef))
    return Linearization(
        IDENTITY, np.eye(len(coef)), np.asarray(coef, dtype=float), np.inf, -everywhere, everywhere
    )


def clipped_sums(coef, clip, stack, *, robust=False):
    """The stack of least squares at a line, for rows anywhere."""
    return step_sums(identity_line(coef), clip, stack, 1.0, robust=robust)


def influences_at(coef, largest, neighbours):
    """The histogram of influences at a line, for rows anywhere."""
    line = identity_line(coef)
    what = influence_histogram(largest, neighbours)
    return replace(
        what, of_block=lambda block: what.of_block(line.linked(block, 1.0, neighbours).block)
    )
