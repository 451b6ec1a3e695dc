"""The releases of a stepped fit as exact sums over records in memory: what inference is given when
nothing is noisy.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from dpinfer.inference.moments import Columns, Moments, Scales
from dpinfer.inference.posterior import ReleasedFit, Step
from dpinfer.numerics.links import IDENTITY, LOGIT

QUIET = 1e-7
"""Noise that is as good as none; none at all would be divided by."""


def scales(noise=QUIET):
    """All releases have noise of this scale."""
    return Scales(noise, noise, noise, noise, noise)


def columns_of(dummy, group=None):
    """Public facts of columns behind an intercept; every one is a group of its own where nothing
    else is said.
    """
    dummy = np.array([False, *dummy])
    group = np.arange(len(dummy)) - 1 if group is None else np.array([-1, *group])
    return Columns(dummy, group.astype(np.intp))


@dataclass(frozen=True)
class Records:
    """Rows (1, x), outcomes (0 and 1 for the logit, numbers for least squares), and the facts of
    the columns.
    """

    x: np.ndarray
    y: np.ndarray
    columns: Columns
    logit: bool = True

    @property
    def matrix(self):
        """A geometry in which no row is longer than 1, so that every record counts fully."""
        roots = np.sqrt(np.diag(self.x.T @ self.x) / len(self.x))
        whitening = np.diag(1 / roots)
        return whitening / np.linalg.norm(self.x @ whitening, axis=1).max()

    def mean(self, eta):
        """Of the outcome at a predictor."""
        return expit(eta) if self.logit else eta

    def slope(self, eta):
        """Of that."""
        return expit(eta) * expit(-eta) if self.logit else np.ones_like(eta)

    def moments(self, noise=QUIET):
        """The moments as they are."""
        back = np.linalg.inv(self.matrix)
        u = self.x @ self.matrix.T
        labels = 2 * self.y - 1 if self.logit else self.y
        n = float(len(self.x))
        return Moments(self.x.T @ self.x, self.x.T @ labels / 2, n, u.T @ u, back, noise)

    def fit(self, coef, step=None, noise=QUIET):
        """What is released at a line, and after a step from it, both as coefficients of (1, x)."""
        A = self.matrix
        step = np.zeros(len(A)) if step is None else np.asarray(step, dtype=float)
        coef = np.asarray(coef, dtype=float)
        u = self.x @ A.T
        eta = self.x @ coef
        residual = self.y - self.mean(eta)
        z = self.x @ step
        left = self.mean(eta + z) - self.mean(eta) - self.slope(eta) * z
        last = Step(
            coef_u=np.linalg.solve(A.T, coef),
            step=np.linalg.solve(A.T, step),
            score=u.T @ residual,
            remainder=u.T @ left,
            hessian=(u * self.slope(eta)[:, None]).T @ u,
            score_cov=(u * (residual**2)[:, None]).T @ u,
            score_noise=noise,
            remainder_noise=noise,
            scales=scales(noise),
            family=LOGIT if self.logit else IDENTITY,
        )
        centre = np.append(1.0, self.x[:, 1:].mean(axis=0))
        return ReleasedFit.of(last, A, self.moments(noise), self.columns, centre)

    def ordinary(self):
        """The ordinary coefficients and their HC0 covariance, by Newton's method."""
        coef = np.zeros(self.x.shape[1])
        for _ in range(50):
            eta = self.x @ coef
            H = (self.x * self.slope(eta)[:, None]).T @ self.x
            coef = coef + np.linalg.solve(H, self.x.T @ (self.y - self.mean(eta)))
        residual = self.y - self.mean(self.x @ coef)
        inverse = np.linalg.inv(H)
        return coef, inverse @ (self.x * (residual**2)[:, None]).T @ self.x @ inverse

    def with_columns(self, x, columns=None):
        """The same outcomes with other columns."""
        return replace(self, x=x, columns=self.columns if columns is None else columns)


def mixed(n=6000, seed=0, logit=True, effect=1.0):
    """Two correlated numbers and a factor with two levels beside its reference."""
    rng = np.random.default_rng(seed)
    numbers = rng.multivariate_normal([0.1, -0.2], [[0.09, 0.03], [0.03, 0.06]], n)
    level = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = np.column_stack([np.ones(n), np.clip(numbers, -1, 1), level == 1, level == 2]).astype(float)
    eta = x @ (effect * np.array([-0.3, 1.0, -1.5, 0.5, -0.7]))
    y = (
        (rng.random(n) < expit(eta)).astype(float)
        if logit
        else 0.2 * eta + 0.1 * rng.standard_normal(n)
    )
    return Records(x, y, columns_of([False, False, True, True], [0, 1, 2, 2]), logit)


def at_centre(coef, centre):
    """Coefficients with the intercept at a centre."""
    moved = np.array(coef, dtype=float)
    moved[0] += np.asarray(centre)[1:] @ moved[1:]
    return moved


def to_centre(centre):
    """The matrix of the same."""
    matrix = np.eye(len(centre))
    matrix[0, 1:] = np.asarray(centre)[1:]
    return matrix
